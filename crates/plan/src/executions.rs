//! The analytical statements under way: whose they are, and the groups of their tasks.

use std::sync::Arc;

use halcyon_task::{Annotation, ClassId, Priority, RunningGroup};
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
    /// The place of the tasks now; clones have one.
    pub place: Arc<Mutex<Place>>,
}

/// The class of a statement's tasks and their band, 0 (urgent) to 3 (low).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the workload class.
    pub class: u8,
    /// Number of the band.
    pub band: u8,
}

impl Place {
    fn priority(self) -> Priority {
        match self.band {
            0 => Priority::Urgent,
            1 => Priority::High,
            2 => Priority::Normal,
            _ => Priority::Low,
        }
    }

    /// The name of the band.
    pub fn name(self) -> &'static str {
        match self.priority() {
            Priority::Urgent => "urgent",
            Priority::High => "high",
            Priority::Normal => "normal",
            Priority::Low => "low",
        }
    }

    /// What the task runtime is told of tasks that have this place.
    pub fn annotation(self) -> Annotation {
        Annotation::new().class(ClassId(self.class)).priority(self.priority())
    }
}

impl Execution {
    /// Has the statement's tasks go on at the place that `choose` makes of the present one.
    pub fn go_on_at(&self, choose: impl FnOnce(Place) -> Place) {
        let mut place = self.place.lock();
        let next = choose(*place);
        if next != *place {
            *place = next;
            self.group.move_to(next.priority(), ClassId(next.class));
        }
    }
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
