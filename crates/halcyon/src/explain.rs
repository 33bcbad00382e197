//! `EXPLAIN [ANALYZE]`: the executor of a statement, its locks and its steps.

use std::time::Instant;

use halcyon_catalog::Table;
use halcyon_exec::analytic::AnalyticalPlan;
use halcyon_exec::dml::whole_roots;
use halcyon_exec::point::Scratch;
use halcyon_plan::env::{Env, Need, Roots};
use halcyon_plan::phases::PlanningTimes;
use halcyon_prepare::explain::Explaining;
use halcyon_prepare::plan::{Plan, Prepared};
use halcyon_sql::error::{Result, SqlError};
use halcyon_sql::rows::RowSet;
use halcyon_txn::Mode;

use crate::execute::{Ran, RowAccess, execute, read_only};
use crate::explain_json;
use crate::explanation::Explanation;

/// Explains `of`; `planning` is the time of its planning, if that is to be shown, `early` what is told of
/// early locks. With ANALYZE the statement runs, and its effects stay, as in PostgreSQL.
///
/// Errors: those of running the statement; 25006 if `of` is more than a query and `access` is a
/// cut; 0A000 for ANALYZE of a statement that is neither a query nor a write.
#[expect(clippy::too_many_arguments, reason = "what the driver has of a statement")]
pub(crate) fn explain(
    of: &Prepared,
    asked: Explaining,
    planning: Option<PlanningTimes>,
    env: &Env<'_>,
    access: RowAccess<'_>,
    scratch: &mut Scratch,
    early: &[String],
    out: &mut RowSet,
) -> Result<Ran> {
    let locks = match &access {
        RowAccess::Locked(_, set) => set.needs.iter().map(|need| lock_line(of, need)).collect(),
        RowAccess::Cut(_) if of.plan.reads_only() => vec!["Snapshot: no locks".to_owned()],
        RowAccess::Cut(_) => return Err(read_only("EXPLAIN")),
    };
    let began = Instant::now();
    let (operators, seen) = match &of.plan {
        Plan::Analytical(plan) => {
            access.reading(plan.tables(), |roots| analytical(plan, asked.analyze, env, roots))?
        }
        Plan::Point(_) | Plan::Write(_) if asked.analyze => {
            let mut rows = RowSet::default();
            let ran = execute(of, env, access, scratch, &mut rows)?;
            (operators(of, Some(scratch)), Some(ran.rows(&rows)))
        }
        _ if asked.analyze => {
            return Err(SqlError::unsupported(format!("EXPLAIN ANALYZE {}", of.tag)));
        }
        _ => (operators(of, None), None),
    };
    let execution = (seen.is_some() && planning.is_some())
        .then(|| format!("{:.3}", began.elapsed().as_secs_f64() * 1e3));
    let executor = executor(&of.plan);
    let explanation =
        Explanation { executor, locks, operators, early, rows: seen, planning, execution };
    match asked.json {
        true => Ran::lines(&[explain_json::document(&explanation)], out),
        false => Ran::lines(&explanation.lines(), out),
    }
}

/// The lines of an analytical plan's operators, and its number of rows if it ran.
fn analytical(
    plan: &AnalyticalPlan,
    analyze: bool,
    env: &Env<'_>,
    roots: Roots<'_>,
) -> Result<(String, Option<u64>)> {
    if !analyze {
        return Ok((plan.explain()?, None));
    }
    let mut batches = plan.start(env, whole_roots(plan.tables(), roots))?;
    let mut rows = 0;
    for batch in batches.by_ref() {
        rows += batch?.num_rows() as u64;
    }
    Ok((batches.metrics().unwrap_or_default(), Some(rows)))
}

/// The lines of a row-at-a-time plan's operators, with counts if the plan ran last.
fn operators(of: &Prepared, ran: Option<&Scratch>) -> String {
    match (&of.plan, ran) {
        (Plan::Point(plan), Some(scratch)) => plan.explain_analyzed(scratch),
        (Plan::Point(plan), None) => plan.explain(),
        (Plan::Write(plan), _) => plan.explain().join("\n"),
        _ => of.tag.to_owned(),
    }
}

fn executor(plan: &Plan) -> &'static str {
    match plan {
        Plan::Point(_) => "point (row at a time over bounded index lookups)",
        Plan::Analytical(_) => "analytical (vectorised over a snapshot)",
        other => other.executor(),
    }
}

fn lock_line(of: &Prepared, need: &Need) -> String {
    let table = &of.plan.tables()[need.table];
    let mode = match need.mode {
        Mode::Shared => "shared",
        Mode::Exclusive => "exclusive",
    };
    let partition = need.partition.map_or("all".to_owned(), |number| number.to_string());
    let count = table.cells.len();
    format!("Lock: {}.{} partition {partition} of {count}, {mode}", table.schema, table.name)
}

/// The line that tells of a table that is locked early.
pub(crate) fn early_line(table: &Table) -> String {
    let Table { schema, name, .. } = table;
    format!(
        "Early lock: {schema}.{name}, exclusive in a transaction block, which has written it before"
    )
}

/// The line that tells of a table that is locked with the first statement of a transaction block.
pub(crate) fn companion_line(table: &Table, mode: Mode) -> String {
    let Table { schema, name, .. } = table;
    let mode = match mode {
        Mode::Shared => "shared",
        Mode::Exclusive => "exclusive",
    };
    format!("Early lock: {schema}.{name}, {mode} with the first statement of a transaction block")
}

/// The text that an EXPLAIN explains.
pub(crate) fn explained_text(text: &str) -> &str {
    let word = |text: &str, word: &str| {
        let head = text.get(..word.len())?;
        let rest = &text[word.len()..];
        let ends = !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        (ends && head.eq_ignore_ascii_case(word)).then(|| rest.trim_start().len())
    };
    let mut rest = text.trim_start();
    for skipped in ["explain", "analyze", "verbose"] {
        if let Some(left) = word(rest, skipped) {
            rest = &rest[rest.len() - left..];
        }
    }
    if let Some(options) = rest.strip_prefix('(')
        && word(text.trim_start(), "explain").is_some()
        && let Some((options, of)) = options.split_once(')')
        && !options.to_ascii_lowercase().contains("select")
    {
        return of.trim_start();
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explain_and_its_options_are_no_part_of_the_text() {
        for text in [
            "SELECT 1",
            "EXPLAIN SELECT 1",
            " explain analyze verbose SELECT 1",
            "EXPLAIN (ANALYZE, COSTS off) SELECT 1",
        ] {
            assert_eq!(explained_text(text), "SELECT 1", "{text}");
        }
        assert_eq!(explained_text("EXPLAIN (SELECT 1)"), "(SELECT 1)");
        assert_eq!(explained_text("explained"), "explained");
    }
}
