//! The groups of a runtime by number: how many of their tasks live, where they may run, and how they
//! ended.
//!
//! Invariants, checked by the models `group_ends_after_its_last_task` and
//! `aborted_group_ends_and_drops_every_task`; a planted bug is found by
//! `canary_count_after_the_push_is_caught`:
//! 1. `live` is never below the number of the group's tasks that wait or run. Workers add and
//!    subtract in batches, but never push a task to another worker before its `+1` is in `live`.
//! 2. A number is given out again only when `live` is 0 and no handle is left.

use crate::annotation::{IslandId, WorkerId};
use halcyon_base::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use halcyon_base::sync::{Condvar, Mutex};
use std::error::Error;
use std::fmt;
use std::task::Waker;

/// A group's place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupId(pub(crate) u32);

impl GroupId {
    /// The number that means no group. Its row never changes: not stopped, on any island.
    pub(crate) const NONE: GroupId = GroupId(0);
}

/// How many groups a runtime can have at once.
pub(crate) const GROUPS: usize = 4096;
/// Rows of the table: a power of two, so that finding one needs no check.
const ROWS: usize = 2 * GROUPS;

pub(crate) const RUNNING: u32 = 0;
pub(crate) const ABORTED: u32 = 1;
const FAILED: u32 = 2;

/// One row of the table.
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct GroupState {
    /// Tasks that wait or run, at least.
    pub(crate) live: AtomicI64,
    /// `RUNNING`, `ABORTED` or `FAILED`.
    pub(crate) state: AtomicU32,
    /// Island that the group's tasks stay on, plus 1; 0: any.
    pub(crate) island: AtomicU32,
    pub(crate) inner: Mutex<Inner>,
    pub(crate) done: Condvar,
}

/// What changes under a lock.
#[derive(Default)]
pub(crate) struct Inner {
    /// Message of the first panic.
    failure: Option<String>,
    pub(crate) wakers: Vec<Waker>,
    /// Workers that only this group may use.
    pub(crate) owned: Vec<WorkerId>,
    /// The last handle is gone.
    pub(crate) released: bool,
}

impl GroupState {
    /// Whether the group's tasks are to be dropped instead of run.
    #[inline]
    pub(crate) fn stopped(&self) -> bool {
        self.state.load(Ordering::Relaxed) != RUNNING
    }

    /// The island that the group's tasks stay on.
    #[inline]
    pub(crate) fn island(&self) -> Option<IslandId> {
        self.island.load(Ordering::Relaxed).checked_sub(1).map(|island| IslandId(island as u16))
    }

    pub(crate) fn add(&self, tasks: i64) {
        self.live.fetch_add(tasks, Ordering::SeqCst);
    }

    /// Notes the first panic; the group's other tasks are dropped.
    pub(crate) fn fail(&self, message: &str) {
        let mut inner = self.inner.lock();
        inner.failure.get_or_insert_with(|| message.to_owned());
        self.state.store(FAILED, Ordering::SeqCst);
    }

    pub(crate) fn outcome(&self, inner: &Inner) -> Result<(), GroupError> {
        match self.state.load(Ordering::SeqCst) {
            RUNNING => Ok(()),
            ABORTED => Err(GroupError::Aborted),
            _ => Err(GroupError::Panicked(inner.failure.clone().unwrap_or_default())),
        }
    }
}

/// The groups of a runtime.
pub(crate) struct GroupTable {
    states: Box<[GroupState; ROWS]>,
    pub(crate) free: Mutex<Vec<u32>>,
}

impl GroupTable {
    pub(crate) fn new() -> GroupTable {
        let states: Box<[GroupState]> = (0..ROWS).map(|_| GroupState::default()).collect();
        let Ok(states) = states.try_into() else { unreachable!("there are as many rows") };
        GroupTable { states, free: Mutex::new((1..=GROUPS as u32).rev().collect()) }
    }

    /// A group's row.
    #[inline(always)]
    pub(crate) fn state(&self, id: GroupId) -> &GroupState {
        &self.states[id.0 as usize % ROWS]
    }

    /// Subtracts ended tasks; the last one ends the group's run, and `release` frees its workers.
    pub(crate) fn subtract(&self, id: GroupId, tasks: i64, release: impl Fn(WorkerId)) {
        let state = self.state(id);
        if state.live.fetch_sub(tasks, Ordering::SeqCst) == tasks {
            self.ended(id, release);
        }
    }

    #[cold]
    fn ended(&self, id: GroupId, release: impl Fn(WorkerId)) {
        let state = self.state(id);
        let mut inner = state.inner.lock();
        if state.live.load(Ordering::SeqCst) != 0 {
            return;
        }
        for worker in std::mem::take(&mut inner.owned) {
            release(worker);
        }
        state.done.notify_all();
        let wakers = std::mem::take(&mut inner.wakers);
        if inner.released {
            self.recycle(id, &mut inner);
        }
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn recycle(&self, id: GroupId, inner: &mut Inner) {
        *inner = Inner::default();
        let state = self.state(id);
        state.state.store(RUNNING, Ordering::SeqCst);
        state.island.store(0, Ordering::SeqCst);
        self.free.lock().push(id.0);
    }
}

/// Reasons for which a group was not enqueued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnqueueError {
    /// The runtime has no such island.
    NoSuchIsland(IslandId),
    /// Only `free` workers of the island belong to no group. Worth retrying once a group ends.
    NotFree {
        /// Workers without a group.
        free: usize,
    },
    /// The runtime is shutting down.
    ShutDown,
}

impl fmt::Display for EnqueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EnqueueError::NoSuchIsland(island) => write!(f, "there is no island {}", island.0),
            EnqueueError::NotFree { free } => write!(f, "only {free} workers are free"),
            EnqueueError::ShutDown => f.write_str("the runtime is shutting down"),
        }
    }
}

impl Error for EnqueueError {}

/// Reasons for which a group failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupError {
    /// The group was aborted.
    Aborted,
    /// A task panicked with this message; the others were dropped.
    Panicked(String),
    /// The time given to `RunningGroup::wait_for` is over; the group goes on.
    TimedOut,
    /// A simulated runtime has nothing left to run, and the group has not ended.
    Stuck,
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupError::Aborted => f.write_str("the group was aborted"),
            GroupError::Panicked(message) => write!(f, "a task panicked: {message}"),
            GroupError::TimedOut => f.write_str("the group has not ended in time"),
            GroupError::Stuck => f.write_str("nothing is left to run, and the group has not ended"),
        }
    }
}

impl Error for GroupError {}
