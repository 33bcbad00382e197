//! Futures as tasks: spawned on workers, polled when they are ready, cancelled from outside.
//!
//! A future that is pending has arranged to be woken, by the contract of futures, and its task
//! suspends: it takes no worker, and no thread. Between two wake-ups a poll runs to completion as any
//! task does; a future that has much to do asks now and then whether it may go on
//! ([`crate::poll_proceed`]).

use crate::annotation::Annotation;
use crate::group_table::GroupId;
use crate::reply::{Reply, ReplyTo, TaskError, reply};
use crate::worker::Context;
use crate::worker::shared::Shared;
use crate::worker::sleeper::{Sleeper, Suspendable, surroundings};
use crate::worker::task::{Step, Task};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Polled, Poll, Waker};

/// A future that a task polls.
pub(crate) struct FutureTask<F: Future> {
    /// None once it is ready.
    future: Option<Pin<Box<F>>>,
    reply: Option<ReplyTo<F::Output>>,
}

impl<F> Task for FutureTask<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn run(&mut self, cx: &mut Context) -> Step {
        let waker = cx.waker().unwrap_or_else(|| Waker::noop().clone());
        let Some(future) = &mut self.future else { return Step::Done };
        let Poll::Ready(result) = future.as_mut().poll(&mut Polled::from_waker(&waker)) else {
            return cx.suspend();
        };
        // The task that gets the result finds everything that the future held given back.
        self.future = None;
        if let Some(reply) = self.reply.take() {
            reply.give(result);
        }
        Step::Done
    }
}

/// A future that runs on workers: await its result or wait for it on a thread; dropped, it lets the
/// future go on.
pub struct FutureHandle<R> {
    reply: Reply<R>,
    sleeper: Arc<Sleeper>,
}

/// A future's task in the making, and its handle.
pub(crate) fn future_task<F>(
    shared: &halcyon_base::sync::Arc<Shared>,
    group: GroupId,
    future: F,
) -> (Suspendable<FutureTask<F>>, FutureHandle<F::Output>)
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let (give, reply) = reply(shared);
    let sleeper = Sleeper::new(shared, group);
    let task = FutureTask { future: Some(Box::pin(future)), reply: Some(give) };
    (Suspendable::new(task, Arc::clone(&sleeper)), FutureHandle { reply, sleeper })
}

impl<R> FutureHandle<R> {
    /// Waits for the result.
    ///
    /// Errors: [`TaskError::Dropped`] if the future panicked, was cancelled, or its group or runtime
    /// was stopped. Panics: on a worker, which must never wait.
    pub fn wait(self) -> Result<R, TaskError> {
        self.reply.wait()
    }

    /// Asks the future to end: it is dropped in the place of its next step, at the latest at its next
    /// [`crate::poll_proceed`]. Returns at once; the handle tells when it has ended.
    pub fn cancel(&self) {
        self.sleeper.cancel();
    }
}

impl<R> Future for FutureHandle<R> {
    type Output = Result<R, TaskError>;

    fn poll(mut self: Pin<&mut Self>, polled: &mut Polled<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.reply).poll(polled)
    }
}

impl<R> fmt::Debug for FutureHandle<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FutureHandle").finish_non_exhaustive()
    }
}

/// Spawns a future beside the one that calls this, as [`Context::spawn_future`] does, for code within futures,
/// which has no context; on an idle worker if there is one.
///
/// Panics: outside the futures of a runtime; if the runtime has no such worker, island or plane as the
/// annotation asks for.
pub fn spawn_beside<F>(annotation: Annotation, future: F) -> FutureHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let (shared, group, own) = surroundings().expect("a future of a runtime spawns beside itself");
    let annotation = annotation.or(&own);
    shared.check_place(&annotation);
    let (task, handle) = future_task(&shared, group, future);
    let task = shared.make_outside(annotation, group, false, task);
    shared.inject_beside(task, group);
    handle
}

impl Context {
    /// Spawns a future beside the running task, in its group, and with its priority and class unless
    /// `annotation` gives others. Never waits.
    ///
    /// Panics: if the runtime has no such worker, island or plane as the annotation asks for.
    pub fn spawn_future<F>(&mut self, annotation: Annotation, future: F) -> FutureHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (task, handle) = future_task(&self.shared, self.group_id(), future);
        self.spawn_task(annotation, task);
        handle
    }
}
