//! Waiting for a future on a thread that is no worker.

use crate::reply::TaskError;
use crate::worker::shared::Shared;
use halcyon_base::sync::{Condvar, Mutex};
use std::future::Future;
use std::sync::Arc;
use std::task::{Context as Polled, Poll, Wake, Waker};

/// A thread that waits.
struct Waiter {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Waiter {
    fn wake(self: Arc<Self>) {
        *self.woken.lock() = true;
        self.changed.notify_one();
    }
}

/// Runs a future on the calling thread, outside of the workers. In a simulation workers take turns
/// while the future is pending.
///
/// Errors: a simulated runtime has nothing left to run, and the future is pending.
pub(crate) fn block_on<F: Future>(shared: &Shared, future: F) -> Result<F::Output, TaskError> {
    let waiter = Arc::new(Waiter { woken: Mutex::new(false), changed: Condvar::new() });
    let waker = Waker::from(Arc::clone(&waiter));
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Polled::from_waker(&waker)) {
            return Ok(result);
        }
        if let Some(result) = shared.simulate_until(|| *waiter.woken.lock()) {
            result.map_err(|()| TaskError::Stuck)?;
        }
        let mut woken = waiter.woken.lock();
        while !std::mem::take(&mut *woken) {
            waiter.changed.wait(&mut woken);
        }
    }
}
