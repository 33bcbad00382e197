//! Bugs that this crate's models must find when they are planted ([`halcyon_base::planted`]).

use halcyon_base::planted::Bug;

/// An optimistic reader believes what it saw without looking at the version again.
pub const UNCHECKED_READ: Bug =
    Bug("an optimistic reader believes what it saw without looking at the version again");
/// A search does not look at the high key and so never goes right.
pub const NO_RIGHT_MOVE: Bug =
    Bug("a search does not look at the high key and so never goes right");
/// A root that has been split is replaced only after its latch was given back.
pub const LATE_ROOT: Bug =
    Bug("a root that has been split is replaced only after its latch was given back");

pub(crate) use halcyon_base::planted::is;
#[cfg(shuttle)]
pub use halcyon_base::planted::plant;
