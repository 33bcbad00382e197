//! Futures that wait for a point in time, and limits of time for other futures.

use crate::timers::Set;
use crate::wheel::{Key, Precision};
use crate::worker::shared::Shared;
use halcyon_base::sync::Arc;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context as Polled, Poll};
use std::time::Duration;

/// The clock of a runtime, for futures: virtual time on a simulated one.
#[derive(Clone)]
pub struct Timer {
    shared: Arc<Shared>,
}

/// A point in a runtime's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(u64);

impl Timer {
    pub(crate) fn new(shared: &Arc<Shared>) -> Timer {
        Timer { shared: Arc::clone(shared) }
    }

    /// The point in time `after` from now.
    pub fn deadline(&self, after: Duration) -> Deadline {
        let clock = &self.shared.clock;
        Deadline(clock.ticks().saturating_add(clock.of(after.min(Duration::from_secs(1 << 30)))))
    }

    /// Ends at the deadline, or with the runtime. A dropped one waits for nothing.
    pub fn sleep_until(&self, deadline: Deadline, precision: Precision) -> Sleep {
        Sleep { timer: self.clone(), deadline, precision, key: None }
    }

    /// As [`Timer::sleep_until`], exactly, `time` from now.
    pub fn sleep(&self, time: Duration) -> Sleep {
        self.sleep_until(self.deadline(time), Precision::Exact)
    }

    /// The result of `future`, unless `limit` passes first; `future` is dropped then. The limit is
    /// coarse: it may pass up to a millisecond late.
    pub fn within<F: Future>(&self, limit: Duration, future: F) -> Within<F> {
        let limit = self.sleep_until(self.deadline(limit), Precision::Coarse);
        Within { future: Some(Box::pin(future)), limit }
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer").finish_non_exhaustive()
    }
}

/// A future that ends at a point in time.
#[derive(Debug)]
pub struct Sleep {
    timer: Timer,
    deadline: Deadline,
    precision: Precision,
    key: Option<Key>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, polled: &mut Polled<'_>) -> Poll<()> {
        let sleep = &mut *self;
        let shared = &sleep.timer.shared;
        if shared.clock.ticks() >= sleep.deadline.0 || shared.timers.over() {
            return Poll::Ready(());
        }
        if sleep.key.is_some_and(|key| shared.timers.replace(key, polled.waker())) {
            return Poll::Pending;
        }
        match shared.timers.set(sleep.deadline.0, sleep.precision, polled.waker()) {
            Set::InTime(key) => sleep.key = Some(key),
            Set::Earlier(key) => {
                sleep.key = Some(key);
                shared.wake_keeper();
            }
            Set::Over => return Poll::Ready(()),
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.timer.shared.timers.cancel(key);
        }
    }
}

/// The time given to a future is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time given is over")
    }
}

impl Error for Elapsed {}

/// A future with a limit of time; see [`Timer::within`].
pub struct Within<F> {
    /// None once it has ended, or the limit has passed.
    future: Option<Pin<Box<F>>>,
    limit: Sleep,
}

impl<F: Future> Future for Within<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(mut self: Pin<&mut Self>, polled: &mut Polled<'_>) -> Poll<Self::Output> {
        let within = &mut *self;
        let Some(future) = &mut within.future else { return Poll::Ready(Err(Elapsed)) };
        if let Poll::Ready(result) = future.as_mut().poll(polled) {
            within.future = None;
            return Poll::Ready(Ok(result));
        }
        if Pin::new(&mut within.limit).poll(polled).is_ready() {
            within.future = None;
            return Poll::Ready(Err(Elapsed));
        }
        Poll::Pending
    }
}

impl<F> fmt::Debug for Within<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Within").field("limit", &self.limit).finish_non_exhaustive()
    }
}
