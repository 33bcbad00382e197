//! What a thread outside of the workers holds while it reads what tasks may retire.

use crate::worker::shared::Shared;
use halcyon_base::sync::Arc;
use std::fmt;

/// A guard that keeps memory which a thread outside the workers reads from being freed. See
/// [`crate::Runtime::pin`].
pub struct Guard {
    shared: Arc<Shared>,
    place: usize,
}

impl Guard {
    pub(crate) fn new(shared: &Arc<Shared>) -> Guard {
        Guard { place: shared.epochs.enter(), shared: Arc::clone(shared) }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.epochs.depart(self.place);
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}
