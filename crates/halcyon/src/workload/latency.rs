//! The latency of workload classes: how long statements took, by class, in the last minute.

use std::array;
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use halcyon_workload::latency::Windows;
use halcyon_workload::{CLASSES, ClassId};
use parking_lot::Mutex;

/// Parts of a class's latencies: threads that end statements at one moment seldom meet.
const PARTS: usize = 2;

/// The latencies of a class; a megabyte at most, so that classes without statements have none.
type OfClass = OnceLock<Box<[Mutex<Windows>; PARTS]>>;

/// Latencies of all classes.
pub(crate) struct Latencies([OfClass; CLASSES]);

impl Default for Latencies {
    fn default() -> Self {
        Latencies(array::from_fn(|_| OnceLock::new()))
    }
}

impl Latencies {
    /// Notes that a statement of a class took so long; `now_ns` is the gate's clock.
    pub fn note(&self, class: ClassId, now_ns: u64, took: Duration) {
        let parts = self.0[usize::from(class.0)]
            .get_or_init(|| Box::new(array::from_fn(|_| Mutex::default())));
        parts[part()].lock().record(now_ns, took);
    }

    /// The latencies of a class; `None` if it never had a statement.
    pub fn of(&self, class: ClassId) -> Option<Windows> {
        let parts = self.0[usize::from(class.0)].get()?;
        let mut all = parts[0].lock().clone();
        parts[1..].iter().for_each(|part| all.merge(&part.lock()));
        Some(all)
    }
}

/// The part that the calling thread writes.
fn part() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static OWN: Cell<Option<usize>> = const { Cell::new(None) });
    let own = OWN.get().unwrap_or_else(|| NEXT.fetch_add(1, Ordering::Relaxed) % PARTS);
    OWN.set(Some(own));
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_note_comes_together() {
        let latencies = Latencies::default();
        assert!(latencies.of(ClassId::DEFAULT).is_none());
        std::thread::scope(|scope| {
            for ms in [1, 100] {
                let latencies = &latencies;
                scope.spawn(move || {
                    (0..500).for_each(|_| {
                        latencies.note(ClassId::DEFAULT, 0, Duration::from_millis(ms))
                    });
                });
            }
        });
        let all = latencies.of(ClassId::DEFAULT).expect("there were statements").last(0, 60);
        assert_eq!(all.count(), 1000);
        let median = all.quantile(0.5).expect("values").as_secs_f64();
        assert!((median / 0.001 - 1.0).abs() < 0.03, "{median}");
    }
}
