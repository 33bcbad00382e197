//! The clock of a runtime: the time-stamp counter, or a count that a simulation moves.

use halcyon_base::sync::Arc;
use halcyon_base::sync::atomic::{AtomicU64, Ordering};
use halcyon_machine::clock as tsc;
use std::time::Duration;

/// Virtual time that a task takes.
const TASK_NS: u64 = 100;

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

    /// Ticks now, after so many tasks ran: in virtual time each took [`TASK_NS`].
    #[inline(always)]
    pub(crate) fn ticks_after(&self, tasks: usize) -> u64 {
        match self {
            Clock::Tsc(_) => tsc::ticks(),
            Clock::Virtual(_) => self.pass(tasks as u64 * TASK_NS),
        }
    }

    /// Lets virtual time pass; returns the time now.
    pub(crate) fn pass(&self, ns: u64) -> u64 {
        match self {
            Clock::Tsc(_) => tsc::ticks(),
            Clock::Virtual(now) => now.fetch_add(ns, Ordering::Relaxed) + ns,
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
