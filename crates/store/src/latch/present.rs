//! A latch that is there, or not, as each partition says.

use halcyon_base::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use triomphe::Arc;

/// A latch, or none.
#[derive(Clone, Default)]
pub(crate) struct Latch(Option<Arc<RwLock<()>>>);

// A guard gives its latch back while it unwinds, and nothing behind it can be half done.
impl std::panic::RefUnwindSafe for Latch {}

impl Latch {
    /// A latch of its own if `on`.
    pub(crate) fn new(on: bool) -> Self {
        Latch(on.then(|| Arc::new(RwLock::new(()))))
    }

    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Held for reading until the result is dropped.
    #[inline]
    pub(crate) fn read(&self) -> Option<RwLockReadGuard<'_, ()>> {
        self.0.as_ref().map(|latch| latch.read())
    }

    /// Held for writing until the result is dropped.
    #[inline]
    pub(crate) fn write(&self) -> Option<RwLockWriteGuard<'_, ()>> {
        self.0.as_ref().map(|latch| latch.write())
    }
}
