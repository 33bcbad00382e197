//! Bugs that this crate's models must find when they are planted ([`halcyon_base::planted`]).

use halcyon_base::planted::Bug;

/// A push swaps the tail and never links the pushed task.
pub const LOST_LINK: Bug = Bug("a push swaps the tail and never links what it pushed");
/// A task is linked into a chain while its slot is still the dummy of an inbox.
pub const LINKED_DUMMY: Bug =
    Bug("a task is linked into a chain while its slot is still the dummy of an inbox");
/// A worker parks without looking at its inboxes again.
pub const NO_SECOND_LOOK: Bug = Bug("a worker parks without looking at its inboxes again");
/// The epoch does not wait for tasks that carry references.
pub const EPOCH_IGNORES_TASKS: Bug = Bug("the epoch does not wait for tasks that carry references");
/// A task is pushed to another worker before its group counts it.
pub const LATE_COUNT: Bug = Bug("a task is pushed to another worker before its group counts it");
/// A home worker goes back to plain accesses while others may hold its latches.
pub const NO_DRAIN: Bug =
    Bug("a home worker goes back to plain accesses while others may hold its latches");

pub(crate) use halcyon_base::planted::is;
#[cfg(shuttle)]
pub use halcyon_base::planted::plant;
