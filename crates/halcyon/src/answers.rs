//! Answers on their way to a session's client: a statement of a class has taken as long as from the arrival of its
//! bytes to the last byte of its answer (P4 §2), which the session's owner alone sees.
//!
//! A server says when a message arrived (`Session::arrived`) and when all answers so far have been handed to the
//! network (`Session::answered`). Of a session in the program itself nobody says so: its statements last from their
//! beginning to their end.

use std::sync::atomic::{AtomicBool, Ordering};

use halcyon_base::clock::Moment;
use halcyon_workload::ClassId;
use parking_lot::Mutex;

/// Statements that are over and whose answers are still to be sent, with the moments at which they arrived.
#[derive(Default)]
pub(crate) struct Answers {
    unsent: Mutex<Vec<(ClassId, Moment)>>,
    /// Whether `unsent` may have entries: looked at after every answer.
    has_some: AtomicBool,
}

impl Answers {
    /// Notes that a statement is over.
    pub fn note(&self, class: ClassId, arrived: Moment) {
        self.unsent.lock().push((class, arrived));
        self.has_some.store(true, Ordering::Release);
    }

    /// Whether any answer may be unsent. Costs one load.
    #[inline]
    pub fn is_any_unsent(&self) -> bool {
        self.has_some.load(Ordering::Acquire)
    }

    /// Takes the statements whose answers have been sent.
    #[cold]
    pub fn take(&self) -> Vec<(ClassId, Moment)> {
        match self.has_some.swap(false, Ordering::AcqRel) {
            true => std::mem::take(&mut *self.unsent.lock()),
            false => Vec::new(),
        }
    }
}
