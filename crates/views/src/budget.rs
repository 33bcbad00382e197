//! The memory that all views of a database may take together.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::engine::ViewEngine;
use crate::error::ViewError;

/// The budget of view memory: the limit for all views of a database together, and the memory that
/// they use.
#[derive(Debug, Default)]
pub struct ViewBudget {
    used: AtomicI64,
    /// The limit in bytes; 0 for none.
    max: AtomicU64,
}

impl ViewBudget {
    /// Sets the limit, in bytes; 0 for none.
    pub fn set_max(&self, bytes: u64) {
        self.max.store(bytes, Ordering::Relaxed);
    }

    /// Notes that a view uses more or less memory than before.
    ///
    /// Errors: [`ViewError::OutOfMemory`] if all views together exceed the limit, and this view has
    /// grown or `fills` memory that it has already.
    fn change(&self, from: u64, to: u64, fills: bool) -> Result<(), ViewError> {
        let grown = to.cast_signed() - from.cast_signed();
        let used = self.used.fetch_add(grown, Ordering::Relaxed) + grown;
        let max = self.max.load(Ordering::Relaxed);
        match max > 0 && (grown > 0 || fills) && used > max.cast_signed() {
            true => Err(ViewError::OutOfMemory { used, max }),
            false => Ok(()),
        }
    }
}

/// The account of one view in the budget.
#[derive(Debug)]
pub(crate) struct ViewMemory {
    budget: Arc<ViewBudget>,
    /// The engine's memory as the budget knows it.
    bytes: AtomicU64,
    /// Number of entries of the engine's maps when the view last kept within the budget.
    entries: AtomicU64,
}

impl ViewMemory {
    pub(crate) fn new(budget: Arc<ViewBudget>) -> Self {
        ViewMemory { budget, bytes: AtomicU64::new(0), entries: AtomicU64::new(0) }
    }

    /// Tells the budget the engine's present memory. Maps that have grown keep their memory, so a
    /// growing number of entries counts as growth.
    ///
    /// Errors: [`ViewError::OutOfMemory`]; the caller takes back the events since the last call.
    pub(crate) fn account(&self, engine: &ViewEngine) -> Result<(), ViewError> {
        let (bytes, entries) = (engine.memory_bytes(), engine.entry_count());
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        let fills = entries > self.entries.load(Ordering::Relaxed);
        self.budget.change(before, bytes, fills)?;
        self.entries.store(entries, Ordering::Relaxed);
        Ok(())
    }

    /// Checks the budget in the middle of a statement, without taking the present state as kept
    /// within it.
    ///
    /// Errors: as [`ViewMemory::account`].
    pub(crate) fn look_at(&self, engine: &ViewEngine) -> Result<(), ViewError> {
        let before = self.entries.load(Ordering::Relaxed);
        let looked = self.account(engine);
        self.entries.store(before, Ordering::Relaxed);
        looked
    }
}

impl Drop for ViewMemory {
    fn drop(&mut self) {
        // Giving memory back is never refused.
        let _ = self.budget.change(self.bytes.load(Ordering::Relaxed), 0, false);
    }
}
