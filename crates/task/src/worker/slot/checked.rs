//! The safe twin of slots and inboxes: each task a box of its own, each inbox behind a mutex.

use super::Header;
use crate::annotation::WorkerId;
use crate::planted;
use crate::worker::Context;
use crate::worker::task::{Step, Task};
use halcyon_base::sync::atomic::{AtomicUsize, Ordering};
use halcyon_base::sync::{Arc, Mutex};
use std::any::type_name;
use std::collections::VecDeque;

/// A task that waits or runs.
pub(crate) struct TaskRef(Box<Boxed>);

struct Boxed {
    header: Header,
    name: &'static str,
    /// Empty while it runs.
    body: Option<Box<dyn Run>>,
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
    pub(crate) fn kind(&self) -> TaskType {
        TaskType(self.0.name)
    }

    /// Fetches the slot ahead: there is none.
    #[inline]
    pub(crate) fn prefetch(&self) {}
}

/// The type of a task.
#[derive(Clone, Copy, Default)]
pub(crate) struct TaskType(&'static str);

impl TaskType {
    pub(crate) fn name(self) -> &'static str {
        self.0
    }
}

/// [`Task`] for boxes: it has a constant, which objects cannot have.
trait Run: Send {
    fn run(&mut self, cx: &mut Context) -> Step;
}

impl<T: Task> Run for T {
    fn run(&mut self, cx: &mut Context) -> Step {
        Task::run(self, cx)
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

/// The slots of a runtime: none.
pub(crate) struct Arena;

impl Arena {
    pub(crate) fn new(_pools: usize) -> Arc<Arena> {
        Arc::new(Arena)
    }
}

/// Makes tasks and takes them back.
pub(crate) struct Pool;

impl Pool {
    pub(crate) fn new(_owner: WorkerId, _arena: &Arc<Arena>) -> Pool {
        Pool
    }

    pub(crate) fn make<T: Task>(&mut self, header: Header, task: T) -> TaskRef {
        TaskRef(Box::new(Boxed { header, name: type_name::<T>(), body: Some(Box::new(task)) }))
    }

    /// Takes back a task that has not run, or panicked.
    pub(crate) fn release(&mut self, task: TaskRef) {
        drop(task);
    }

    /// Takes back a task that is done.
    pub(crate) fn finish(&mut self, task: TaskRef) {
        drop(task);
    }

    pub(crate) fn flush(&mut self) {}

    pub(crate) fn detach(&mut self, task: TaskRef) -> TaskRef {
        task
    }
}

/// Tasks on their way to one inbox, oldest first.
#[derive(Default)]
pub(crate) struct Chain(Vec<TaskRef>);

impl Chain {
    pub(crate) fn push(&mut self, task: TaskRef) {
        self.0.push(task);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

/// Tasks that others push to a worker.
pub(crate) struct Inbox {
    tasks: Mutex<VecDeque<TaskRef>>,
    count: AtomicUsize,
}

impl Inbox {
    pub(crate) fn new(_owner: WorkerId, _arena: &Arena) -> Inbox {
        Inbox { tasks: Mutex::default(), count: AtomicUsize::new(0) }
    }

    /// Appends the chain's tasks in their order, and empties the chain.
    pub(crate) fn push(&self, chain: &mut Chain) {
        let mut tasks = self.tasks.lock();
        if planted::is(planted::LOST_LINK) {
            return chain.0.clear();
        }
        tasks.extend(chain.0.drain(..));
        self.count.store(tasks.len(), Ordering::SeqCst);
    }
}

/// The consumer's side of an inbox.
pub(crate) struct Receiver;

impl Receiver {
    pub(crate) fn new(_inbox: &Inbox) -> Receiver {
        Receiver
    }

    /// Whether [`Receiver::pop`] would give a task.
    pub(crate) fn has_task(&self, inbox: &Inbox) -> bool {
        inbox.count.load(Ordering::Relaxed) > 0
    }

    /// Whether no push has begun that was not consumed.
    pub(crate) fn is_quiet(&self, inbox: &Inbox) -> bool {
        inbox.count.load(Ordering::SeqCst) == 0
    }

    /// The oldest task.
    pub(crate) fn pop(&mut self, inbox: &Inbox, _pool: &mut Pool) -> Option<TaskRef> {
        if inbox.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut tasks = inbox.tasks.lock();
        let task = tasks.pop_front();
        inbox.count.store(tasks.len(), Ordering::SeqCst);
        task
    }
}
