//! Statements and threads in use, by class and along the tree.
//!
//! Invariant, checked by [`Accounts::check`]: a class's total is the sum of the threads of its statements and of those
//! of all classes below, in the tree of the snapshot that was counted last.

use crate::limits::{CLASSES, ClassId};
use crate::snapshot::{Class, Snapshot};

/// What runs.
#[derive(Clone, Debug)]
pub(super) struct Accounts {
    running: [u32; CLASSES],
    threads: [u32; CLASSES],
    totals: [u32; CLASSES],
    /// Statements of all classes.
    all: u64,
}

impl Accounts {
    pub(super) fn new() -> Self {
        Accounts { running: [0; CLASSES], threads: [0; CLASSES], totals: [0; CLASSES], all: 0 }
    }

    /// Statements that run in the class.
    pub(super) fn running(&self, class: ClassId) -> u32 {
        self.running[class.index()]
    }

    /// Threads of the class's own statements.
    pub(super) fn threads(&self, class: ClassId) -> u32 {
        self.threads[class.index()]
    }

    /// Threads of the statements of the class and of all classes below.
    pub(super) fn total(&self, class: ClassId) -> u32 {
        self.totals[class.index()]
    }

    pub(super) fn is_idle(&self) -> bool {
        self.all == 0
    }

    /// Threads that the tree leaves to a statement of the class; `None` if no class of the chain has a limit.
    pub(super) fn left(&self, snapshot: &Snapshot, class: ClassId) -> Option<u32> {
        let left = |class: &Class| {
            class.limits.total_threads.map(|limit| limit.saturating_sub(self.total(class.id)))
        };
        snapshot.chain(class).filter_map(left).min()
    }

    pub(super) fn add(&mut self, snapshot: &Snapshot, class: ClassId, threads: u32) {
        self.all += 1;
        self.running[class.index()] += 1;
        self.threads[class.index()] += threads;
        self.change_totals(snapshot, class, |total| total + threads);
    }

    /// Panics: if the class has no such statement, which a caller that leaves twice would cause.
    pub(super) fn remove(&mut self, snapshot: &Snapshot, class: ClassId, threads: u32) {
        let index = class.index();
        assert!(self.running[index] > 0 && self.threads[index] >= threads, "the statement runs");
        self.all -= 1;
        self.running[index] -= 1;
        self.threads[index] -= threads;
        self.change_totals(snapshot, class, |total| total - threads);
    }

    fn change_totals(&mut self, snapshot: &Snapshot, class: ClassId, change: impl Fn(u32) -> u32) {
        if snapshot.find(class).is_none() {
            self.totals[class.index()] = change(self.totals[class.index()]);
        }
        for above in snapshot.chain(class) {
            let total = &mut self.totals[above.id.index()];
            *total = change(*total);
        }
    }

    /// Counts the totals along another tree.
    pub(super) fn recount(&mut self, snapshot: &Snapshot) {
        self.totals = sums(&self.threads, snapshot);
    }

    /// Panics unless the invariant holds. For tests; O(classes).
    pub(super) fn check(&self, snapshot: &Snapshot) {
        assert_eq!(self.totals, sums(&self.threads, snapshot));
        assert_eq!(self.all, self.running.iter().copied().map(u64::from).sum::<u64>());
        for (running, threads) in self.running.iter().zip(self.threads) {
            assert!(threads >= *running, "every statement has a thread");
        }
    }
}

fn sums(threads: &[u32; CLASSES], snapshot: &Snapshot) -> [u32; CLASSES] {
    let mut totals = [0; CLASSES];
    for (id, threads) in (0_u8..).zip(threads) {
        let class = ClassId(id);
        if snapshot.find(class).is_none() {
            totals[class.index()] += threads;
        }
        for above in snapshot.chain(class) {
            totals[above.id.index()] += threads;
        }
    }
    totals
}
