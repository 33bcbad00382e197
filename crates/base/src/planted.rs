//! Bugs planted on purpose, so that models of concurrency protocols prove that they can see.
//!
//! A crate lists its bugs as constants; its code asks [`is`] at the places concerned. Only a build
//! for the model checker (`--cfg shuttle`) can plant one, with `plant` on the thread that runs the
//! model. In every other build [`is`] is `false` and costs nothing.

/// A planted bug, named by a sentence that says what goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bug(pub &'static str);

#[cfg(shuttle)]
mod imp {
    use super::Bug;
    use std::cell::Cell;

    thread_local!(static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) });

    /// Plants `bug` for the models that this thread runs; `None` removes it.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    /// Whether `bug` is planted.
    pub fn is(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(not(shuttle))]
mod imp {
    /// Whether `bug` is planted.
    #[inline(always)]
    pub fn is(_bug: super::Bug) -> bool {
        false
    }
}

pub use imp::is;
#[cfg(shuttle)]
pub use imp::plant;
