//! Time, from one place, so that a simulator can replace it.
//!
//! Under `cfg(shuttle)` time is the number of calls of [`now`], and what timed waits add to it: a model never
//! depends on its own speed.

use std::fmt;
use std::ops::Sub;
use std::time::Duration;

/// A moment of the monotonic clock, in nanoseconds since the process first called [`now`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// The moment `after` later, or the last one there is.
    pub fn plus(self, after: Duration) -> Moment {
        Moment(self.0.saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Time since `earlier`; zero if that is later.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Sub for Moment {
    type Output = Duration;
    fn sub(self, earlier: Moment) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Moment({} ns)", self.0)
    }
}

/// The monotonic clock.
#[cfg(not(shuttle))]
pub fn now() -> Moment {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    Moment(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(shuttle)]
pub use model::{now, pass};

#[cfg(shuttle)]
mod model {
    use super::Moment;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    static PASSED: AtomicU64 = AtomicU64::new(0);

    /// The monotonic clock: one nanosecond per call.
    pub fn now() -> Moment {
        Moment(PASSED.fetch_add(1, Ordering::Relaxed))
    }

    /// Sets the clock forward.
    pub fn pass(time: Duration) {
        let time = u64::try_from(time.as_nanos()).expect("centuries at most");
        PASSED.fetch_add(time, Ordering::Relaxed);
    }
}

/// Wall-clock time in microseconds since 1970-01-01 00:00 UTC; negative before.
pub fn wall_us() -> i64 {
    use std::time::SystemTime;
    match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_micros()).unwrap_or(i64::MAX),
        Err(before) => {
            i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |micros| -micros)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_never_go_back() {
        let (first, second) = (now(), now());
        assert!(first <= second);
        assert_eq!(first.since(second.plus(Duration::from_secs(1))), Duration::ZERO);
        assert_eq!(first.plus(Duration::from_nanos(5)) - first, Duration::from_nanos(5));
        assert_eq!(first.plus(Duration::MAX), Moment(u64::MAX));
    }

    #[test]
    fn wall_clock_is_in_this_century() {
        assert!(wall_us() > 1_600_000_000_000_000);
    }
}
