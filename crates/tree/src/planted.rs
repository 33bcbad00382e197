//! Bugs planted on purpose, so that the models prove that they can see.
//!
//! Only a build for the model checker (`--cfg shuttle`) has them, and there only after
//! [`plant`] on the same thread. In every other build [`is`] is `false` and costs nothing.

/// An optimistic reader believes what it saw without looking at the version again.
pub const UNCHECKED_READ: u8 = 1;
/// A search does not look at the high key and so never goes right.
pub const NO_RIGHT_MOVE: u8 = 2;
/// A root that has been split is replaced only after its latch was given back.
pub const LATE_ROOT: u8 = 3;

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
