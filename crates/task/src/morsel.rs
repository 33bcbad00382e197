//! Morsels: work that is pulled. Nothing is queued, so memory does not grow, and the work stops at
//! once.
//!
//! Source: morsels are HyPer's (Leis 2014); sizing them by time is Umbra's (Wagner 2021).

use crate::annotation::{Annotation, TaskPlace, WorkerId};
use crate::worker::Context;
use crate::worker::task::{Step, Task};
use halcyon_base::sync::Arc;

/// A source of morsels, shared by the workers of a group.
pub trait Morsels: Send + Sync + 'static {
    /// Takes the next morsel and works it off: 0.2 to 1 ms of work.
    ///
    /// Long kernels look at [`Context::should_stop`] once per vector and return early.
    fn run(&self, worker: WorkerId, cx: &mut Context) -> Pull;
}

/// The outcome of pulling a morsel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pull {
    /// A morsel was worked off, and there may be more.
    More,
    /// No morsel is there at the moment: the worker is free for other tasks until a waker wakes this one. The
    /// source has kept [`Context::waker`], and has looked again after that.
    Empty,
    /// No more morsels will come.
    End,
}

/// One worker's share in a source: a task that runs a morsel a step.
pub(crate) struct Puller<M> {
    source: Arc<M>,
    annotation: Annotation,
}

impl<M: Morsels> Puller<M> {
    pub(crate) fn new(source: Arc<M>, annotation: Annotation) -> Self {
        Puller { source, annotation }
    }
}

impl<M: Morsels> Task for Puller<M> {
    fn run(&mut self, cx: &mut Context) -> Step {
        let worker = cx.worker();
        if cx.should_stop() {
            return Step::Done;
        }
        match self.source.run(worker, cx) {
            Pull::More => Step::Again(self.annotation.place(TaskPlace::Worker(worker))),
            Pull::Empty => cx.suspend(),
            Pull::End => Step::Done,
        }
    }
}
