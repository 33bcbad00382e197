//! Counts of the work of workers, for reports and for tests.

use halcyon_base::sync::Mutex;
use halcyon_base::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;

/// Counts of one worker, written by that worker alone, between tasks.
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct Published {
    pub(crate) spawned: AtomicU64,
    pub(crate) finished: AtomicU64,
    pub(crate) turns: AtomicU64,
    pub(crate) pushed: AtomicU64,
    pub(crate) given: AtomicU64,
    pub(crate) parks: AtomicU64,
    pub(crate) panics: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) busy_ticks: AtomicU64,
    pub(crate) run_delay_ns: AtomicU64,
    pub(crate) freed: AtomicU64,
    pub(crate) switches: AtomicU64,
}

/// Adds to a count that only the caller writes.
#[inline]
pub(crate) fn bump(count: &AtomicU64, by: u64) {
    count.store(count.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

/// The counts of one worker since it began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerCounters {
    /// Tasks that its tasks spawned.
    pub spawned: u64,
    /// Tasks that ended here.
    pub finished: u64,
    /// Turns: batches of tasks of one band and class.
    pub turns: u64,
    /// Tasks pushed to other workers.
    pub pushed: u64,
    /// Tasks given to an idle worker of the island.
    pub given: u64,
    /// Times it went to sleep.
    pub parks: u64,
    /// Tasks that panicked.
    pub panics: u64,
    /// Tasks of stopped groups that were dropped unrun.
    pub dropped: u64,
    /// Time with tasks, ns.
    pub busy_ns: u64,
    /// Time ready to run while something else had its core, ns (zero where the kernel keeps none).
    pub run_delay_ns: u64,
    /// Retired values that were freed.
    pub freed: u64,
    /// Times it left synchronisation by scheduling, or came back to it.
    pub switches: u64,
    /// Whether its resources are latched now, because its core is not its own.
    pub latched: bool,
}

/// Tasks of one type that ran for longer than they should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongTask {
    /// Name of the task's type.
    pub name: &'static str,
    /// How many.
    pub count: u64,
    /// The longest, ns.
    pub longest_ns: u64,
}

/// The counts of a runtime.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Counters {
    /// By worker.
    pub workers: Vec<WorkerCounters>,
    /// Tasks that came from outside.
    pub injected: u64,
    /// Types whose tasks ran for over [`crate::Config::long_task`].
    pub long_tasks: Vec<LongTask>,
    /// Message of the last panic of a task without a group.
    pub last_panic: Option<String>,
}

impl Counters {
    /// Sum of one count over the workers.
    pub fn total(&self, count: impl Fn(&WorkerCounters) -> u64) -> u64 {
        self.workers.iter().map(count).sum()
    }
}

/// Events that are too rare for counters of each worker.
#[derive(Default)]
pub(crate) struct Incidents {
    long: Mutex<BTreeMap<&'static str, (u64, u64)>>,
    pub(crate) last_panic: Mutex<Option<String>>,
}

impl Incidents {
    #[cold]
    pub(crate) fn long_task(&self, name: &'static str, ns: u64) {
        let mut long = self.long.lock();
        let entry = long.entry(name).or_default();
        *entry = (entry.0 + 1, entry.1.max(ns));
    }

    pub(crate) fn long_tasks(&self) -> Vec<LongTask> {
        let long = self.long.lock();
        let all =
            long.iter().map(|(&name, &(count, longest_ns))| LongTask { name, count, longest_ns });
        all.collect()
    }
}
