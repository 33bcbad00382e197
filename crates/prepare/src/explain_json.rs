//! EXPLAIN (FORMAT JSON): a plan as a document, with the keys of PostgreSQL's where they fit.
//!
//! An operator's line, `Lookup in item by item_pkey: id = 1`, is a node: what stands before the colon is its
//! type, with the table and the index in fields of their own, and the rest is its `Detail`. Operators that it
//! reads are its `Plans`.

use std::fmt::Write;

use crate::explanation::Explanation;

/// A plan's operator.
struct Node<'a> {
    depth: usize,
    line: &'a str,
    plans: Vec<Node<'a>>,
}

/// The document that tells of a plan.
pub fn document(of: &Explanation<'_>) -> String {
    let mut fields = Vec::new();
    fields.push(("Plan", plan(&of.operators)));
    fields.push(("Executor", quoted(of.executor)));
    let told = |lines: &[String]| {
        let values: Vec<String> = lines.iter().map(|line| quoted(&value(line))).collect();
        format!("[{}]", values.join(", "))
    };
    fields.push(("Locks", told(&of.locks)));
    if !of.learned.early.is_empty() {
        fields.push(("Early Locks", told(&of.learned.early)));
    }
    if let Some(line) = of.learned.change_over {
        fields.push(("Change-Over", quoted(&value(line))));
    }
    if let Some(planning) = of.planning {
        fields.push(("Planning Time", format!("{:.3}", planning.total.as_secs_f64() * 1e3)));
    }
    if let Some(rows) = of.rows {
        fields.push(("Actual Rows", rows.to_string()));
    }
    if let Some(time) = &of.execution {
        fields.push(("Execution Time", time.clone()));
    }
    let mut text = "[\n  {".to_owned();
    put(&mut text, 4, &fields);
    text.push_str("\n  }\n]");
    text
}

/// What stands behind the name of a line.
fn value(line: &str) -> String {
    line.split_once(": ").map_or(line, |(_, value)| value).to_owned()
}

fn quoted(text: &str) -> String {
    let mut json = "\"".to_owned();
    for char in text.chars() {
        match char {
            '"' | '\\' => json.extend(['\\', char]),
            '\n' => json.push_str("\\n"),
            char if char.is_control() => {
                let _ = write!(json, "\\u{:04x}", u32::from(char));
            }
            char => json.push(char),
        }
    }
    json.push('"');
    json
}

/// Appends the fields of an object.
fn put(text: &mut String, indent: usize, fields: &[(&str, String)]) {
    for (at, (name, value)) in fields.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(text, "{comma}\n{:indent$}\"{name}\": {value}", "");
    }
}

/// Ends the operators that stand no higher than `depth`.
fn close<'a>(open: &mut Vec<Node<'a>>, roots: &mut Vec<Node<'a>>, depth: usize) {
    while let Some(node) = open.pop_if(|node| node.depth >= depth) {
        match open.last_mut() {
            Some(above) => above.plans.push(node),
            None => roots.push(node),
        }
    }
}

/// The operators as one object: the last one that stands by itself is the plan's, those before it are of
/// subqueries that run first.
fn plan(operators: &str) -> String {
    let mut open: Vec<Node<'_>> = Vec::new();
    let mut roots = Vec::new();
    for line in operators.lines().filter(|line| !line.trim().is_empty()) {
        let depth = line.len() - line.trim_start().len();
        close(&mut open, &mut roots, depth);
        open.push(Node { depth, line: line.trim(), plans: Vec::new() });
    }
    close(&mut open, &mut roots, 0);
    let Some(mut root) = roots.pop() else { return "{}".to_owned() };
    roots.append(&mut root.plans);
    root.plans = roots;
    object(&root, 4)
}

/// An operator as an object whose closing bracket is indented so far.
fn object(node: &Node<'_>, indent: usize) -> String {
    let (head, detail) =
        node.line.split_once(": ").unwrap_or((node.line.trim_end_matches(':'), ""));
    let (ty, of) = head.split_once(" in ").unwrap_or((head, ""));
    let (table, index) = of.split_once(" by ").unwrap_or((of, ""));
    let mut fields = vec![("Node Type", quoted(ty))];
    let more = [("Relation Name", table), ("Index Name", index), ("Detail", detail)];
    fields.extend(
        more.into_iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(name, text)| (name, quoted(text))),
    );
    if !node.plans.is_empty() {
        let inner = indent + 4;
        let plans: Vec<String> =
            node.plans.iter().map(|plan| format!("{:inner$}{}", "", object(plan, inner))).collect();
        let close = indent + 2;
        fields.push(("Plans", format!("[\n{}\n{:close$}]", plans.join(",\n"), "")));
    }
    let mut text = "{".to_owned();
    put(&mut text, indent + 2, &fields);
    let _ = write!(text, "\n{:indent$}}}", "");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_become_nested_objects() {
        let text =
            plan("Subquery into #1\n  Row\nSort: a\n  Lookup in t by t_pkey: id = \"1\"\n  Row\n");
        let flat: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            flat,
            r#"{ "Node Type": "Sort", "Detail": "a", "Plans": [ { "Node Type": "Subquery into #1", "Plans": [ { "Node Type": "Row" } ] }, { "Node Type": "Lookup", "Relation Name": "t", "Index Name": "t_pkey", "Detail": "id = \"1\"" }, { "Node Type": "Row" } ] }"#
        );
    }
}
