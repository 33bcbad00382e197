//! The stretch of a statement: whether its runs have been short, which decides where the next one runs.
//!
//! Invariant, checked by `a_statement_is_short_after_eight_short_runs`: a statement is taken for short
//! only once its last [`SHORT_RUNS`] runs have been short, or because one row by a unique key is all that
//! its plan reads. Cost: a run that changes nothing writes
//! nothing, so that sessions which share a plan do not meet in its memory.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// Longest run that is short: about what handing a thread's other work to another thread costs,
/// several times over.
const SHORT: Duration = Duration::from_micros(200);

/// Short runs in a row after which the next run is taken for short.
const SHORT_RUNS: u8 = 8;

/// How long the runs of a plan have been of late. Shared by the sessions that run it.
#[derive(Debug, Default)]
pub struct Stretch {
    /// Short runs since the last long one, up to [`SHORT_RUNS`].
    short_runs: AtomicU8,
}

impl Stretch {
    /// The stretch of a plan that is known to be short before it has run.
    pub fn short() -> Self {
        Stretch { short_runs: AtomicU8::new(SHORT_RUNS) }
    }

    /// Whether the next run is taken for short.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.short_runs.load(Ordering::Relaxed) >= SHORT_RUNS
    }

    /// Notes how long a run took, waits included.
    #[inline]
    pub fn note(&self, run: Duration) {
        let before = self.short_runs.load(Ordering::Relaxed);
        let after = if run <= SHORT { (before + 1).min(SHORT_RUNS) } else { 0 };
        if after != before {
            // Runs that end at one moment may be counted as one: the count is a matter of experience.
            self.short_runs.store(after, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_short_after_eight_short_runs() {
        let stretch = Stretch::default();
        for _ in 0..2 {
            for _ in 0..SHORT_RUNS {
                assert!(!stretch.is_short());
                stretch.note(SHORT);
            }
            assert!(stretch.is_short());
            stretch.note(SHORT);
            assert!(stretch.is_short(), "and stays so");
            stretch.note(SHORT + Duration::from_nanos(1));
        }
        assert!(!stretch.is_short(), "one long run is enough");
    }
}
