//! What cuts have cost those who asked for them, and the transactions that they met.
//!
//! Counts are a manager's, only grow, and decide nothing: they are relaxed words, which the models do not look at.
//! Cost: an addition per cut; two more and the clock twice where a cut has to wait.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Cuts of a manager since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutCounts {
    /// Cuts, also those that were given up.
    pub cuts: u64,
    /// Cuts among them that met a transaction which had changed a table, and asked it for the state before.
    pub asked: u64,
    /// Partitions that they asked for so: their roots without the owners' changes.
    pub pre_images: u64,
    /// Time that cuts waited for these, all together.
    pub waited: Duration,
    /// Time that one cut waited for them, at most.
    pub waited_max: Duration,
}

/// The words behind [`CutCounts`].
#[derive(Default)]
pub(crate) struct Counting {
    cuts: AtomicU64,
    asked: AtomicU64,
    pre_images: AtomicU64,
    waited_ns: AtomicU64,
    waited_ns_max: AtomicU64,
}

impl Counting {
    /// Counts a cut that begins.
    pub(crate) fn began(&self) {
        self.cuts.fetch_add(1, Relaxed);
    }

    /// Counts a cut's wait for so many partitions.
    pub(crate) fn waited(&self, pre_images: usize, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.asked.fetch_add(1, Relaxed);
        self.pre_images.fetch_add(pre_images as u64, Relaxed);
        self.waited_ns.fetch_add(ns, Relaxed);
        self.waited_ns_max.fetch_max(ns, Relaxed);
    }

    /// The counts now; each is read by itself.
    pub(crate) fn counts(&self) -> CutCounts {
        CutCounts {
            cuts: self.cuts.load(Relaxed),
            asked: self.asked.load(Relaxed),
            pre_images: self.pre_images.load(Relaxed),
            waited: Duration::from_nanos(self.waited_ns.load(Relaxed)),
            waited_max: Duration::from_nanos(self.waited_ns_max.load(Relaxed)),
        }
    }
}
