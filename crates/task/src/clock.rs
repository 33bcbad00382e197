//! The clock of a runtime: the time-stamp counter, or a count that a simulation moves.

use halcyon_base::sync::Arc;
use halcyon_base::sync::atomic::{AtomicU64, Ordering};
use halcyon_machine::clock as tsc;
use std::time::Duration;

/// The source of time for workers.
#[derive(Clone)]
pub(crate) enum Clock {
    /// The processor's counter and its ticks per microsecond.
    Tsc(f64),
    /// Nanoseconds of virtual time.
    #[cfg_attr(shuttle, allow(dead_code))]
    Virtual(Arc<AtomicU64>),
}

impl Clock {
    pub(crate) fn tsc() -> Clock {
        if cfg!(shuttle) {
            return Clock::Virtual(Arc::new(AtomicU64::new(0)));
        }
        Clock::Tsc(tsc::calibration().ticks_per_us)
    }

    /// Ticks now.
    #[inline(always)]
    pub(crate) fn ticks(&self) -> u64 {
        match self {
            Clock::Tsc(_) => tsc::ticks(),
            Clock::Virtual(now) => now.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn of(&self, duration: Duration) -> u64 {
        (duration.as_nanos() as f64 / 1000.0 * self.ticks_per_us()) as u64
    }

    pub(crate) fn ns(&self, ticks: u64) -> u64 {
        (ticks as f64 * 1000.0 / self.ticks_per_us()) as u64
    }

    fn ticks_per_us(&self) -> f64 {
        match self {
            Clock::Tsc(rate) => *rate,
            Clock::Virtual(_) => 1000.0,
        }
    }
}
