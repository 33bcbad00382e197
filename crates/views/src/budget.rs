//! The memory that all views of a database may take together.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use halcyon_view::Engine;

use crate::error::ViewError;

/// Memory that all views may take together, and what they take.
#[derive(Debug, Default)]
pub struct ViewBudget {
    used: AtomicI64,
    /// Bytes; 0 for no limit.
    max: AtomicU64,
}

impl ViewBudget {
    /// Sets the limit, in bytes; 0 for none.
    pub fn set_max(&self, bytes: u64) {
        self.max.store(bytes, Ordering::Relaxed);
    }

    /// Notes that a view takes other memory than before.
    ///
    /// Errors: [`ViewError::OutOfMemory`] if all take too much, and this view takes more than before
    /// or `fills` what it has.
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

/// One view's part of the budget.
#[derive(Debug)]
pub(crate) struct ViewMemory {
    budget: Arc<ViewBudget>,
    /// Memory of the engine that the budget knows of.
    bytes: AtomicU64,
    /// Entries of the engine's maps when the budget was last kept.
    entries: AtomicU64,
}

impl ViewMemory {
    pub(crate) fn new(budget: Arc<ViewBudget>) -> Self {
        ViewMemory { budget, bytes: AtomicU64::new(0), entries: AtomicU64::new(0) }
    }

    /// Tells the budget what the engine takes. The memory of maps that have grown stays, so entries
    /// tell growth.
    ///
    /// Errors: [`ViewError::OutOfMemory`]; the caller takes back what was new.
    pub(crate) fn account(&self, engine: &Engine) -> Result<(), ViewError> {
        let (bytes, entries) = (engine.memory_bytes(), engine.entry_count());
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        let fills = entries > self.entries.load(Ordering::Relaxed);
        self.budget.change(before, bytes, fills)?;
        self.entries.store(entries, Ordering::Relaxed);
        Ok(())
    }

    /// Refuses what is in the middle of a statement and beyond the budget already.
    ///
    /// Errors: as those of [`ViewMemory::account`].
    pub(crate) fn look_at(&self, engine: &Engine) -> Result<(), ViewError> {
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
