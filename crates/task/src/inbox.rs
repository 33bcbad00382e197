//! Tasks that others push to a worker: many producers, one consumer.

use crate::slot::{Chain, TaskRef};
use halcyon_base::sync::Mutex;
use halcyon_base::sync::atomic::{AtomicUsize, Ordering};
use std::collections::VecDeque;

/// The producers' side.
#[derive(Default)]
pub(crate) struct Inbox {
    tasks: Mutex<VecDeque<TaskRef>>,
    count: AtomicUsize,
}

impl Inbox {
    /// Appends the chain's tasks in their order.
    pub(crate) fn push(&self, chain: &mut Chain) {
        let mut tasks = self.tasks.lock();
        tasks.extend(chain.0.drain(..));
        self.count.store(tasks.len(), Ordering::SeqCst);
    }

    /// Whether a push has begun that was not consumed. Pairs with the swap of the worker's state
    /// after a push: either the worker sees the task or the producer sees that it parks.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    /// The oldest task. Consumer only.
    pub(crate) fn pop(&self) -> Option<TaskRef> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut tasks = self.tasks.lock();
        let task = tasks.pop_front();
        self.count.store(tasks.len(), Ordering::SeqCst);
        task
    }
}
