//! Bugs planted on purpose, so that the models prove that they can see.
//!
//! Only a build for the model checker (`--cfg shuttle`) has them, and there only after
//! [`plant`] on the same thread. In every other build [`is`] is `false` and costs nothing.

/// A reader enters by its slot without looking whether a writer has barred the lock.
pub const NO_SECOND_LOOK: u8 = 1;
/// A commit releases its partitions one after the other instead of all at once.
pub const TORN_COMMIT: u8 = 2;
/// A pending cut gets the root as it is, without the owner's changes being undone.
pub const CUT_WITHOUT_UNDO: u8 = 3;
/// A grant is marked again after the latch was given back, when its waiter may have gone on to
/// wait for something else.
pub const LATE_MARK: u8 = 4;
/// A commit gives its shared locks back before its changes are visible.
pub const READ_LOCKS_FIRST: u8 = 5;

#[cfg(shuttle)]
mod imp {
    use std::cell::Cell;

    thread_local!(static PLANTED: Cell<u8> = const { Cell::new(0) });

    /// Plants `bug` for the models that this thread runs; 0 removes it.
    pub fn plant(bug: u8) {
        PLANTED.set(bug);
    }

    pub(crate) fn is(bug: u8) -> bool {
        PLANTED.get() == bug
    }
}

#[cfg(not(shuttle))]
mod imp {
    #[inline(always)]
    pub(crate) fn is(_bug: u8) -> bool {
        false
    }
}

pub(crate) use imp::is;
#[cfg(shuttle)]
pub use imp::plant;
