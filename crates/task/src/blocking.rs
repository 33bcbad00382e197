//! The door to threads that may block (`offload`).

use crate::reply::{Reply, reply};
use crate::worker::shared::Shared;
use halcyon_base::sync::Arc;
use std::fmt;
use std::io;

/// A door to threads that may block: for futures, tasks, and threads outside.
#[derive(Clone)]
pub struct Blocking {
    shared: Arc<Shared>,
}

impl Blocking {
    pub(crate) fn new(shared: &Arc<Shared>) -> Blocking {
        Blocking { shared: Arc::clone(shared) }
    }

    /// Has `work` run on a thread that may block. Await its result: that is what suspends a task and
    /// leaves its worker to others.
    ///
    /// Errors: the first thread could not be started.
    pub fn run<R, F>(&self, work: F) -> io::Result<Reply<R>>
    where
        R: Send + 'static,
        F: FnOnce() -> R + Send + 'static,
    {
        let (give, result) = reply(&self.shared);
        let simulated = self.shared.simulation.is_some();
        self.shared.offload.add(Box::new(move || give.give(work())), simulated)?;
        Ok(result)
    }
}

impl fmt::Debug for Blocking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking").finish_non_exhaustive()
    }
}
