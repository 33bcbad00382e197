//! No latch: what every build but the lab's has.

/// A latch that is never there.
#[derive(Clone, Default)]
pub(crate) struct Latch;

/// What holding no latch gives.
pub(crate) struct Held;

impl Latch {
    /// No latch.
    ///
    /// Panics: if one is asked for.
    pub(crate) fn new(on: bool) -> Self {
        assert!(!on, "latches are compiled by the feature `latches` of halcyon-store alone");
        Latch
    }

    pub(crate) fn is_on(&self) -> bool {
        false
    }

    /// Waits for nobody.
    #[inline]
    pub(crate) fn read(&self) -> Held {
        Held
    }

    /// Waits for nobody.
    #[inline]
    pub(crate) fn write(&self) -> Held {
        Held
    }
}
