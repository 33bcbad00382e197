//! Bugs planted on purpose, so that the models prove that they can see.
//!
//! Only a build for the model checker (`--cfg shuttle`) has them, and there only after `plant` on
//! the same thread. In every other build `is` is `false` and costs nothing.

/// A push swaps the tail and never links what it pushed.
pub const LOST_LINK: u8 = 1;
/// A task is linked into a chain while its slot is still the dummy of an inbox.
pub const LINKED_DUMMY: u8 = 2;
/// A worker parks without looking at its inboxes again.
pub const NO_SECOND_LOOK: u8 = 3;
/// The epoch does not wait for tasks that carry references.
pub const EPOCH_IGNORES_TASKS: u8 = 4;
/// A task is pushed to another worker before its group counts it.
pub const LATE_COUNT: u8 = 5;
/// A home worker goes back to plain accesses while others may hold its latches.
pub const NO_DRAIN: u8 = 6;

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
