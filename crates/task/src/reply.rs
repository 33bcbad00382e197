//! Results of tasks, for threads and for async code.

use crate::worker::outside_workers;
use crate::worker::shared::Shared;
use halcyon_base::sync::{Arc, Condvar, Mutex};
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context as Polled, Poll, Waker};

/// Reasons for which a task has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskError {
    /// The task was dropped before it gave a result: it panicked, its group was aborted, or the
    /// runtime shut down. Workers count panics by message ([`crate::Counters`]).
    Dropped,
    /// A simulated runtime has nothing left to run.
    Stuck,
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TaskError::Dropped => "the task ended without a result",
            TaskError::Stuck => "nothing is left to run, and the task gave no result",
        })
    }
}

impl Error for TaskError {}

enum Value<T> {
    Awaited(Option<Waker>),
    There(T),
    Dropped,
}

struct ReplyCell<T> {
    value: Mutex<Value<T>>,
    given: Condvar,
}

/// The result of a task that is under way: wait for it on a thread, or await it.
pub struct Reply<T> {
    place: Arc<ReplyCell<T>>,
    shared: Arc<Shared>,
}

/// The task's side of a reply. Dropped without a result, it says so to the waiter.
pub(crate) struct ReplyTo<T>(Option<Arc<ReplyCell<T>>>);

pub(crate) fn reply<T>(shared: &Arc<Shared>) -> (ReplyTo<T>, Reply<T>) {
    let place = ReplyCell { value: Mutex::new(Value::Awaited(None)), given: Condvar::new() };
    let place = Arc::new(place);
    (ReplyTo(Some(Arc::clone(&place))), Reply { place, shared: Arc::clone(shared) })
}

impl<T> ReplyTo<T> {
    pub(crate) fn give(mut self, value: T) {
        self.put(Value::There(value));
    }

    fn put(&mut self, value: Value<T>) {
        if let Some(place) = self.0.take() {
            let mut kept = place.value.lock();
            let before = std::mem::replace(&mut *kept, value);
            place.given.notify_all();
            drop(kept);
            if let Value::Awaited(Some(waker)) = before {
                waker.wake();
            }
        }
    }
}

impl<T> Drop for ReplyTo<T> {
    fn drop(&mut self) {
        self.put(Value::Dropped);
    }
}

impl<T> Reply<T> {
    /// Waits for the result.
    ///
    /// Panics: on a worker, which must never wait.
    pub fn wait(self) -> Result<T, TaskError> {
        outside_workers("waits for a result");
        let there = || !matches!(*self.place.value.lock(), Value::Awaited(_));
        if let Some(result) = self.shared.simulate_until(there) {
            result.map_err(|()| TaskError::Stuck)?;
        }
        let mut value = self.place.value.lock();
        loop {
            match std::mem::replace(&mut *value, Value::Dropped) {
                Value::There(result) => return Ok(result),
                Value::Dropped => return Err(TaskError::Dropped),
                awaited => *value = awaited,
            }
            self.place.given.wait(&mut value);
        }
    }
}

impl<T> Future for Reply<T> {
    type Output = Result<T, TaskError>;

    fn poll(self: Pin<&mut Self>, polled: &mut Polled<'_>) -> Poll<Self::Output> {
        let mut value = self.place.value.lock();
        match std::mem::replace(&mut *value, Value::Dropped) {
            Value::There(result) => Poll::Ready(Ok(result)),
            Value::Dropped => Poll::Ready(Err(TaskError::Dropped)),
            Value::Awaited(_) => {
                *value = Value::Awaited(Some(polled.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl<T> fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").finish_non_exhaustive()
    }
}
