//! Groups that may use only so many workers at once: who runs, and which tasks wait for their turn.
//!
//! Invariants, checked by the model `limited_group_keeps_its_limit`, with a planted bug:
//! 1. `running` is the number of workers that run a task of the group, and at most `limit`.
//! 2. A task waits here only while `running` is not 0, or its group is stopped: the worker that ends a step
//!    makes the oldest waiting task ready again.
//! 3. Who stops a group says so first and makes its waiting tasks ready then; a task is laid down
//!    only after a look whether anybody said so, under the same lock.

use super::slot::TaskRef;
use crate::group_table::{GroupId, GroupTable};
use crate::planted;
use halcyon_base::sync::Mutex;
use std::collections::{HashMap, VecDeque};

/// A group's limit.
struct Limit {
    limit: usize,
    running: usize,
    waiting: VecDeque<TaskRef>,
}

/// The limits of a runtime's groups, by group.
#[derive(Default)]
pub(crate) struct Limits(Mutex<HashMap<u32, Limit>>);

/// The outcome of an attempt to run a task.
pub(crate) enum Turn {
    /// The task may run; [`Limits::leave`] follows.
    Runs(TaskRef),
    /// The task waits until another one of its group has ended its step.
    Waits,
}

impl Limits {
    /// Gives a group a limit. Panics: if it is 0.
    pub(crate) fn set(&self, group: GroupId, limit: usize) {
        assert!(limit > 0, "a group runs on at least one worker");
        let waiting = VecDeque::new();
        self.0.lock().insert(group.0, Limit { limit, running: 0, waiting });
    }

    /// A group's number is given back.
    pub(crate) fn remove(&self, group: GroupId) {
        self.0.lock().remove(&group.0);
    }

    /// Runs a task, or lays it down.
    pub(crate) fn enter(&self, group: GroupId, task: TaskRef, groups: &GroupTable) -> Turn {
        let mut limits = self.0.lock();
        let Some(limit) = limits.get_mut(&group.0) else { return Turn::Runs(task) };
        let full = limit.running >= limit.limit && !planted::is(planted::LIMIT_IGNORED);
        if full && !groups.state(group).stopped() {
            limit.waiting.push_back(task);
            return Turn::Waits;
        }
        limit.running += 1;
        Turn::Runs(task)
    }

    /// A step of a task of the group has ended: returns a task that waited.
    pub(crate) fn leave(&self, group: GroupId) -> Option<TaskRef> {
        let mut limits = self.0.lock();
        let limit = limits.get_mut(&group.0)?;
        limit.running -= 1;
        limit.waiting.pop_front()
    }

    /// Takes the waiting tasks of a group that was stopped, or of all groups.
    pub(crate) fn take_waiting(&self, group: Option<GroupId>) -> Vec<TaskRef> {
        let mut limits = self.0.lock();
        let wanted = limits.iter_mut().filter(|(id, _)| group.is_none_or(|group| group.0 == **id));
        wanted.flat_map(|(_, limit)| limit.waiting.drain(..)).collect()
    }
}
