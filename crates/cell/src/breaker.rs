//! Breaking a cell from another thread while its owner talks to it: for tests of what a broken cell loses.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::fault::Fault;

/// Ways to break a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breaking {
    /// The host ends the cell by force, wherever it is.
    Kill,
    /// The code of a machine is overwritten, so that its next instruction is none; a thread, which has no code of its own, is
    /// killed.
    Crash,
    /// The count of the cell's ring of replies is overwritten.
    Scribble,
}

/// A running cell, as those who break it see it.
pub trait Breakable: Send + Sync {
    /// Ends the cell by force.
    fn end(&self, why: Fault);
    /// Overwrites the cell's code; false if it has none of its own.
    fn crash(&self) -> bool;
    /// Overwrites the first words of the ring in which the cell answers.
    fn scribble(&self, words: &[u64]);
}

/// Breaks whatever cell runs for a [`crate::Cell`] at the moment, those that are just being started included.
#[derive(Clone, Default)]
pub struct Breaker(Arc<Mutex<Option<Weak<dyn Breakable>>>>);

impl Breaker {
    /// Names the cell that runs from now on; its memory ends with it all the same.
    pub(crate) fn set(&self, cell: &Arc<dyn Breakable>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::downgrade(cell));
    }

    /// Breaks the cell.
    pub fn break_cell(&self, how: Breaking) {
        let cell = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(cell) = cell.and_then(|cell| cell.upgrade()) else { return };
        match how {
            Breaking::Crash if cell.crash() => {}
            Breaking::Kill | Breaking::Crash => cell.end(Fault::Killed),
            Breaking::Scribble => cell.scribble(&[u64::MAX / 2]),
        }
    }
}
