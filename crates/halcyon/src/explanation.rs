//! What EXPLAIN tells of a plan, before it becomes text or JSON.

use halcyon_plan::phases::PlanningTimes;

/// What is told of a plan.
pub(crate) struct Explanation<'a> {
    /// The executor that runs it.
    pub executor: &'static str,
    /// The plan's locks, one a line.
    pub locks: Vec<String>,
    /// The plan's operators, one a line, each indented below the one that reads it.
    pub operators: String,
    /// What is told of early locks.
    pub early: &'a [String],
    /// Number of rows, if the plan ran.
    pub rows: Option<u64>,
    /// How long its planning took, if that is shown.
    pub planning: Option<PlanningTimes>,
    /// How long it ran in milliseconds, if that is shown.
    pub execution: Option<String>,
}

impl Explanation<'_> {
    /// The lines of the text.
    pub fn lines(self) -> Vec<String> {
        let mut lines = vec![format!("Executor: {}", self.executor)];
        lines.extend(self.locks);
        lines.extend(self.operators.lines().map(ToOwned::to_owned));
        lines.extend(self.rows.map(|rows| format!("Rows: {rows}")));
        lines.extend(self.planning.map(|planning| format!("Planning time: {planning}")));
        lines.extend(self.execution.map(|time| format!("Execution time: {time} ms")));
        lines.extend(self.early.iter().cloned());
        lines
    }
}
