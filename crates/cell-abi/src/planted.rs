//! Bugs that the ring's model must find when they are planted.

#[cfg(shuttle)]
pub use halcyon_base::planted::{Bug, is, plant};

/// A planted bug, named by a sentence that says what goes wrong.
#[cfg(not(shuttle))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bug(pub &'static str);

/// Whether a bug is planted: only a build for the model checker can plant one.
#[cfg(not(shuttle))]
#[inline(always)]
pub fn is(_: Bug) -> bool {
    false
}

/// A producer publishes a message before it has written it.
pub const EARLY_TAIL: Bug = Bug("a producer publishes a message before it has written it");
/// A consumer gives a message's slots back before it has copied them.
pub const EARLY_HEAD: Bug = Bug("a consumer gives slots back before it has copied them");
