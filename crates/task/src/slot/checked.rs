//! The safe twin of slots: each task is a box of its own.

use super::Header;
use crate::task::{Step, Task};
use crate::{Context, WorkerId};
use std::any::type_name;

/// A task that waits or runs.
pub(crate) struct TaskRef(Box<Boxed>);

struct Boxed {
    header: Header,
    name: &'static str,
    /// Empty while it runs.
    body: Option<Box<dyn Task>>,
}

impl TaskRef {
    #[inline]
    pub(crate) fn header(&self) -> &Header {
        &self.0.header
    }

    #[inline]
    pub(crate) fn header_mut(&mut self) -> &mut Header {
        &mut self.0.header
    }

    #[inline]
    pub(crate) fn kind(&self) -> Kind {
        Kind(self.0.name)
    }

    /// Fetches the slot itself ahead.
    #[inline]
    pub(crate) fn prefetch(&self) {}
}

/// The type of a task.
#[derive(Clone, Copy, Default)]
pub(crate) struct Kind(&'static str);

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        self.0
    }
}

/// Runs one step of the task that `cx.running` holds.
pub(crate) fn run(cx: &mut Context) -> Step {
    let task = cx.running.as_mut().expect("a worker runs what it has put here");
    let mut body = task.0.body.take().expect("a body is missing only while it runs");
    let step = body.run(cx);
    cx.running.as_mut().expect("nobody else takes it").0.body = Some(body);
    step
}

/// Makes tasks and takes them back.
pub(crate) struct Pool;

impl Pool {
    pub(crate) fn new(_owner: WorkerId) -> Pool {
        Pool
    }

    pub(crate) fn make<T: Task>(&mut self, header: Header, task: T) -> TaskRef {
        TaskRef(Box::new(Boxed { header, name: type_name::<T>(), body: Some(Box::new(task)) }))
    }

    /// Takes back a task that is done, has panicked or is not wanted.
    pub(crate) fn release(&mut self, task: TaskRef) {
        drop(task);
    }
}

/// Tasks on their way to one inbox, oldest first.
#[derive(Default)]
pub(crate) struct Chain(pub(crate) Vec<TaskRef>);

impl Chain {
    pub(crate) fn push(&mut self, task: TaskRef) {
        self.0.push(task);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}
