//! The trait of tasks, for those who write one.

use super::Context;
use crate::annotation::Annotation;

/// A piece of work that runs to completion.
///
/// Functions `FnOnce(&mut Context)` are tasks too. A task of at most 88 bytes (alignment 8) lives in
/// a slot of its worker's pool; a larger one on the heap.
///
/// A task never blocks: no lock that another task may hold across a step, no I/O, no wait for a
/// group. A task asks for further work by spawning tasks, or by being dispatched again. `T:
/// 'static` and a context that lasts for one step: a reference that reclamation protects cannot be
/// kept from one step to the next, the compiler sees to it.
pub trait Task: Send + 'static {
    /// Whether a task that returned [`Step::Done`] is empty, and needs no drop.
    #[doc(hidden)]
    const SPENT: bool = false;

    /// One step. A panic ends the task and fails its group.
    fn run(&mut self, cx: &mut Context) -> Step;
}

/// The result of a step: what happens to the task next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// The task is finished, and dropped.
    Done,
    /// The task goes on, at another place or later, as this annotation says; it keeps its slot, its
    /// group, its credit, and its protection from reclamation.
    Again(Annotation),
}

impl Step {
    /// The task waits to be woken ([`Context::suspend`]).
    pub(crate) const SUSPEND: Step = Step::Again(Annotation::SUSPENDED);
}

/// A function as a task; empty once it has been called.
pub(crate) struct Once<F>(pub(crate) Option<F>);

impl<F: FnOnce(&mut Context) + Send + 'static> Task for Once<F> {
    const SPENT: bool = true;

    #[inline]
    fn run(&mut self, cx: &mut Context) -> Step {
        if let Some(function) = self.0.take() {
            function(cx);
        }
        Step::Done
    }
}
