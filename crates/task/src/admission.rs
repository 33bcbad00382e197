//! Admission: futures that wait for a credit of a class, first come, first served.
//!
//! ```
//! # use halcyon_task::{Annotation, ClassId, Config, Context, Runtime, Shutdown};
//! # use std::time::Duration;
//! let runtime = Runtime::new(Config::shared(1)).expect("a thread can be started");
//! let admitted = runtime.timer().within(Duration::from_secs(5), runtime.admit(ClassId(3)));
//! let credit = runtime.block_on(admitted).expect("it is no simulation").expect("in time");
//! let credit = credit.expect("the runtime runs");
//! let statement = credit.spawn_future(Annotation::new(), async { 42 });
//! assert_eq!(statement.expect("the runtime runs").wait(), Ok(42));
//! # runtime.shutdown(Shutdown::Drain);
//! ```

use crate::annotation::{Annotation, ClassId};
use crate::credit::{Credits, Place};
use crate::future::{FutureHandle, future_task};
use crate::group_table::GroupId;
use crate::worker::Context;
use crate::worker::shared::Shared;
use crate::worker::task::{Once, Task};
use halcyon_base::sync::Arc;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context as Polled, Poll};

/// A future that ends with a credit of a class: those who wait get one in the order in which they
/// began to wait, and before callers that ask without waiting. Dropped, it waits no longer.
pub struct Admission {
    shared: Arc<Shared>,
    class: ClassId,
    /// Number in the line.
    waits: Option<u64>,
}

impl Admission {
    pub(crate) fn new(shared: &Arc<Shared>, class: ClassId) -> Admission {
        Admission { shared: Arc::clone(shared), class, waits: None }
    }

    fn credits(&self) -> &Credits {
        &self.shared.credits[usize::from(self.class.0)]
    }
}

impl Future for Admission {
    type Output = Result<Credit, Closed>;

    fn poll(mut self: Pin<&mut Self>, polled: &mut Polled<'_>) -> Poll<Self::Output> {
        let place = match self.waits.take() {
            _ if !self.shared.accepts() => Place::Closed,
            None if self.credits().try_take(1) == 1 => Place::Taken,
            None => self.credits().line_up(polled.waker()),
            Some(number) => self.credits().look(number, polled.waker()),
        };
        match place {
            Place::Closed => Poll::Ready(Err(Closed)),
            Place::Taken => {
                let shared = Arc::clone(&self.shared);
                Poll::Ready(Ok(Credit { shared, class: self.class, held: true }))
            }
            Place::Waits(number) => {
                self.waits = Some(number);
                Poll::Pending
            }
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if let Some(number) = self.waits {
            self.credits().leave(number);
        }
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").field("class", &self.class).finish_non_exhaustive()
    }
}

/// The runtime is shutting down, and admits nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the runtime is shutting down")
    }
}

impl Error for Closed {}

/// A credit: the right to start one request's first task. Given back when that task ends, or when it
/// is dropped unused.
#[must_use]
pub struct Credit {
    shared: Arc<Shared>,
    class: ClassId,
    /// Whether it is to be given back with this value.
    held: bool,
}

impl Credit {
    /// The class of which the credit is.
    pub fn class(&self) -> ClassId {
        self.class
    }

    /// The caller gives the credit back in another way.
    pub(crate) fn keep(mut self) {
        self.held = false;
    }

    /// Spawns a task that gives the credit back when it ends; it is of the credit's class.
    ///
    /// Errors: the runtime is shutting down. Panics: if the runtime has no such worker, island or
    /// plane as the annotation asks for.
    pub fn spawn<F>(self, annotation: Annotation, function: F) -> Result<(), Closed>
    where
        F: FnOnce(&mut Context) + Send + 'static,
    {
        self.spawn_task(annotation, Once(Some(function)))
    }

    /// As [`Credit::spawn`], for a future.
    pub fn spawn_future<F>(
        self,
        annotation: Annotation,
        future: F,
    ) -> Result<FutureHandle<F::Output>, Closed>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (task, handle) = future_task(&self.shared, GroupId::NONE, future);
        self.spawn_task(annotation, task).map(|()| handle)
    }

    fn spawn_task<T: Task>(mut self, annotation: Annotation, task: T) -> Result<(), Closed> {
        let annotation = annotation.class(self.class);
        self.shared.check_place(&annotation);
        let task = self.shared.make_outside(annotation, GroupId::NONE, true, task);
        // From now on the task holds the credit, and gives it back also if it is refused.
        self.held = false;
        if self.shared.try_inject(task) { Ok(()) } else { Err(Closed) }
    }
}

impl Drop for Credit {
    fn drop(&mut self) {
        if self.held {
            self.shared.credits[usize::from(self.class.0)].give(1);
        }
    }
}

impl fmt::Debug for Credit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credit").field("class", &self.class).finish_non_exhaustive()
    }
}
