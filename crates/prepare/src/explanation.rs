//! What EXPLAIN tells of a plan, before it becomes text or JSON.

use halcyon_catalog::Table;
use halcyon_plan::phases::PlanningTimes;
use halcyon_txn::Mode;

/// What is told of a plan.
pub struct Explanation<'a> {
    /// The executor that runs it.
    pub executor: &'static str,
    /// The plan's locks, one a line.
    pub locks: Vec<String>,
    /// The plan's operators, one a line, each indented below the one that reads it.
    pub operators: String,
    /// What is told of what the plan has learned.
    pub learned: &'a Learned,
    /// Number of rows, if the plan ran.
    pub rows: Option<u64>,
    /// How long its planning took, if that is shown.
    pub planning: Option<PlanningTimes>,
    /// How long it ran in milliseconds, if that is shown.
    pub execution: Option<String>,
}

/// What a plan has learned from its runs.
#[derive(Default)]
pub struct Learned {
    /// Tables that are locked early, one a line.
    pub early: Vec<String>,
    /// The line that tells that a look-up goes on as a scan.
    pub change_over: Option<&'static str>,
}

impl Explanation<'_> {
    /// The lines of the text.
    pub fn lines(self) -> Vec<String> {
        let mut lines = vec![format!("Executor: {}", self.executor)];
        lines.extend(self.learned.change_over.map(str::to_owned));
        lines.extend(self.locks);
        lines.extend(self.operators.lines().map(ToOwned::to_owned));
        lines.extend(self.rows.map(|rows| format!("Rows: {rows}")));
        lines.extend(self.planning.map(|planning| format!("Planning time: {planning}")));
        lines.extend(self.execution.map(|time| format!("Execution time: {time} ms")));
        lines.extend(self.learned.early.iter().cloned());
        lines
    }
}

/// The line that tells of a table that is locked early.
pub fn early_line(table: &Table) -> String {
    let Table { schema, name, .. } = table;
    format!(
        "Early lock: {schema}.{name}, exclusive in a transaction block, which has written it before"
    )
}

/// The line that tells of a table that is locked with the first statement of a transaction block.
pub fn companion_line(table: &Table, mode: Mode) -> String {
    let Table { schema, name, .. } = table;
    let mode = told(mode);
    format!("Early lock: {schema}.{name}, {mode} with the first statement of a transaction block")
}

/// A lock's mode in words.
pub fn told(mode: Mode) -> &'static str {
    match mode {
        Mode::Shared => "shared",
        Mode::Exclusive => "exclusive",
    }
}
