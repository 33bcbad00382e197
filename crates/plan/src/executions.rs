//! The analytical statements under way: whose they are, and the groups of their tasks.

use halcyon_task::RunningGroup;
use parking_lot::Mutex;

/// An analytical statement that runs on the workers.
#[derive(Clone)]
pub struct Execution {
    /// Session of the statement.
    pub session: u32,
    /// When its tasks began, in microseconds since 1970.
    pub began_us: i64,
    /// Workers that may run its tasks at once.
    pub workers: usize,
    /// The statement's tasks.
    pub group: RunningGroup,
}

/// The executions of a database. One that has ended is forgotten when the next one begins.
#[derive(Default)]
pub struct Executions(Mutex<Vec<Execution>>);

impl Executions {
    /// Notes an execution that has begun.
    pub fn note(&self, execution: Execution) {
        let mut all = self.0.lock();
        all.retain(|execution| !execution.group.is_done());
        all.push(execution);
    }

    /// Executions that have not ended.
    pub fn under_way(&self) -> Vec<Execution> {
        let mut all = self.0.lock();
        all.retain(|execution| !execution.group.is_done());
        all.clone()
    }
}
