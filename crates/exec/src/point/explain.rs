//! The text of EXPLAIN: one node a line, inputs indented below.

use std::fmt::Write;

use super::access::{IndexPath, Part, Path, Range};
use super::node::{AggregateStep, HashNode, Node, NodeKind, ScanNode};
use super::rel::JoinKind;
use super::{PointPlan, Scratch};
use halcyon_plan::scalar::Program;

/// The plan as text; with what was counted, if given.
pub(super) fn explain(plan: &PointPlan, counted: Option<&Scratch>) -> String {
    let mut text = String::new();
    for (node, _, slot) in &plan.subqueries {
        line(&mut text, 0, &format!("Subquery into #{slot}"), None);
        show(plan, node, 1, counted, &mut text);
    }
    show(plan, &plan.root, 0, counted, &mut text);
    text
}

fn line(text: &mut String, depth: usize, what: &str, rows: Option<u64>) {
    let indent = "  ".repeat(depth);
    match rows {
        Some(rows) => writeln!(text, "{indent}{what} (rows={rows})"),
        None => writeln!(text, "{indent}{what}"),
    }
    .expect("text takes what is written");
}

fn show(plan: &PointPlan, node: &Node, depth: usize, counted: Option<&Scratch>, text: &mut String) {
    let rows = counted.and_then(|scratch| scratch.counts.get(node.id)).copied();
    let list = |slots: &[usize]| {
        slots.iter().map(|slot| format!("#{slot}")).collect::<Vec<_>>().join(", ")
    };
    let what = match &node.kind {
        NodeKind::Rows { rows, .. } if rows.len() == 1 => "Row".to_owned(),
        NodeKind::Rows { rows, .. } => format!("Rows: {}", rows.len()),
        NodeKind::Scan(scan) => scan_text(plan, scan),
        NodeKind::Filter { conditions, .. } => format!("Filter: {}", joined(conditions, " AND ")),
        NodeKind::Project { defs, .. } => {
            let defs: Vec<String> =
                defs.iter().map(|(slot, program)| format!("#{slot} = {program}")).collect();
            format!("Compute: {}", defs.join(", "))
        }
        NodeKind::Loop { kind, .. } => join_text("Nested loop", *kind),
        NodeKind::Hash(hash) => hash_text(hash),
        NodeKind::Aggregate(aggregate) => {
            let steps: Vec<String> = aggregate.aggregates.iter().map(step_text).collect();
            let mut what = format!("Aggregate: {}", steps.join(", "));
            if !aggregate.groups.is_empty() {
                write!(what, " by {}", list(&aggregate.groups)).expect("text");
            }
            if aggregate.first_only {
                what.push_str(", first row decides");
            }
            what
        }
        NodeKind::Sort { keys, fetch, .. } => {
            let keys: Vec<String> = keys
                .iter()
                .map(|(_, key)| {
                    let descending = if key.descending { " DESC" } else { "" };
                    let nulls = if key.nulls_first { " NULLS FIRST" } else { "" };
                    format!("#{}{descending}{nulls}", key.slot)
                })
                .collect();
            let fetch = fetch.map(|fetch| format!(", first {fetch}")).unwrap_or_default();
            format!("Sort: {}{fetch}", keys.join(", "))
        }
        NodeKind::Limit { skip, fetch, .. } => {
            let part = |word: &str, program: &Option<Program>| {
                program.as_ref().map(|program| format!(" {word} {program}")).unwrap_or_default()
            };
            format!("Limit:{}{}", part("fetch", fetch), part("skip", skip))
        }
        NodeKind::Distinct { slots, .. } => format!("Distinct: {}", list(slots)),
        NodeKind::Union { .. } => "Union all".to_owned(),
    };
    line(text, depth, &what, rows);
    node.kind.inputs().into_iter().for_each(|input| show(plan, input, depth + 1, counted, text));
}

fn join_text(how: &str, kind: JoinKind) -> String {
    match kind {
        JoinKind::Inner => how.to_owned(),
        JoinKind::Left => format!("{how}, left"),
        JoinKind::Semi => format!("{how}, first match"),
        JoinKind::Anti => format!("{how}, no match"),
        JoinKind::Mark(slot) => format!("{how}, match into #{slot}"),
    }
}

fn hash_text(hash: &HashNode) -> String {
    let keys: Vec<String> = hash
        .keys
        .iter()
        .map(|key| {
            let equals = if key.nulls_equal { "IS NOT DISTINCT FROM" } else { "=" };
            format!("{} {equals} #{}", key.outer, key.inner)
        })
        .collect();
    let mut what = format!("{}: {}", join_text("Hash join", hash.kind), keys.join(" AND "));
    if !hash.conditions.is_empty() {
        write!(what, "; filter: {}", joined(&hash.conditions, " AND ")).expect("text");
    }
    what
}

fn joined(programs: &[Program], between: &str) -> String {
    programs.iter().map(Program::to_string).collect::<Vec<_>>().join(between)
}

fn step_text(step: &AggregateStep) -> String {
    let distinct = if step.distinct { "DISTINCT " } else { "" };
    let arg = step.arg.as_ref().map_or("*".to_owned(), Program::to_string);
    format!("#{} = {}({distinct}{arg})", step.slot, step.rule.function.name())
}

fn scan_text(plan: &PointPlan, scan: &ScanNode) -> String {
    let table = &plan.tables[scan.table];
    let mut what = match &scan.access.path {
        Path::Full => format!("Scan of {}", table.name),
        Path::Index(path) => index_text(plan, scan, path),
    };
    if !scan.conditions.is_empty() {
        write!(what, "; filter: {}", joined(&scan.conditions, " AND ")).expect("text");
    }
    let columns = scan.early.iter().chain(&scan.late);
    let columns: Vec<String> = columns
        .map(|(column, slot)| format!("#{slot} = {}", table.columns[*column as usize].name))
        .collect();
    if !columns.is_empty() {
        write!(what, "; {}", columns.join(", ")).expect("text");
    }
    let partitions = match (&scan.access.pin, table.cells.len()) {
        (_, 1) => return what,
        (Some(pin), count) if pin.known => format!("one of {count}, by {}", pin.program),
        (Some(pin), count) => format!("all {count} locked, one read, by {}", pin.program),
        (None, count) => format!("all {count}"),
    };
    write!(what, "; partitions: {partitions}").expect("text");
    what
}

fn index_text(plan: &PointPlan, scan: &ScanNode, path: &IndexPath) -> String {
    let table = &plan.tables[scan.table];
    let index = table.indexes.iter().find(|index| index.id == path.index);
    let derived = index.and_then(|index| index.derived.as_ref());
    let name = |at: usize| match (index.and_then(|index| index.columns.get(at)), derived) {
        (Some(key), _) => table.columns[key.column as usize].name.as_str(),
        (None, Some(derived)) => derived.keys.get(at).map_or("?", |key| key.expr.as_str()),
        (None, None) => "?",
    };
    let mut conditions: Vec<String> = path
        .prefix
        .iter()
        .enumerate()
        .map(|(at, part)| match part {
            Part::One(probe) => format!("{} = {}", name(at), probe.program),
            Part::Many(probes) => {
                let list: Vec<String> = probes.iter().map(|p| p.program.to_string()).collect();
                format!("{} IN ({})", name(at), list.join(", "))
            }
            Part::Any(array) => format!("{} = ANY ({})", name(at), array.program),
        })
        .collect();
    if let Some(range) = &path.range {
        range_text(range, name(path.prefix.len()), &mut conditions);
    }
    let verb = if path.unique { "Lookup" } else { "Range" };
    let backwards = if path.is_backward() { " backwards" } else { "" };
    let by =
        if conditions.is_empty() { "whole order".to_owned() } else { conditions.join(" AND ") };
    format!("{verb}{backwards} in {} by {}: {by}", table.name, path.name)
}

fn range_text(range: &Range, name: &str, conditions: &mut Vec<String>) {
    if let Some(low) = &range.low {
        let op = if low.inclusive { ">=" } else { ">" };
        conditions.push(format!("{name} {op} {}", low.probe.program));
    }
    if let Some(high) = &range.high {
        let op = if high.inclusive { "<=" } else { "<" };
        conditions.push(format!("{name} {op} {}", high.probe.program));
    }
    if range.low.is_none() && range.high.is_none() {
        conditions.push(format!("{name} IS NOT NULL"));
    }
}
