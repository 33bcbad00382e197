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

/// A task falls asleep although it was woken while it ran.
pub const SLEEP_THROUGH_WAKE: Bug = Bug("a task falls asleep although it was woken while it ran");
/// A task falls asleep without looking whether its group was stopped.
pub const SLEEP_THROUGH_STOP: Bug =
    Bug("a task falls asleep without looking whether its group was stopped");
/// Two wakers may both believe that they have woken a task.
pub const WOKEN_TWICE: Bug = Bug("two wakers may both believe that they have woken a task");
/// A task falls asleep before its group counts it.
pub const SLEEPS_UNCOUNTED: Bug = Bug("a task falls asleep before its group counts it");

/// A worker parks without looking whether a deadline is set.
pub const NO_KEEPER: Bug = Bug("a worker parks without looking whether a deadline is set");

/// A group's limit of workers is not looked at.
pub const LIMIT_IGNORED: Bug = Bug("a group's limit of workers is not looked at");

/// A task of a group that was stopped runs without a seat.
pub const STOPPED_RUNS: Bug = Bug("a task of a group that was stopped runs without a seat");

/// Who lines up for a credit does not look whether one is free.
pub const NO_LOOK_IN_LINE: Bug = Bug("who lines up for a credit does not look whether one is free");
/// A credit that was granted to somebody who leaves the line is lost.
pub const CREDIT_LOST: Bug = Bug("a credit that was granted to somebody who leaves is lost");

/// Work that blocks is queued, and no thread told.
pub const NOBODY_SERVES: Bug = Bug("work that blocks is queued, and no thread told");

/// A worker leaves without looking at its inboxes again.
pub const LEAVES_UNSEEN: Bug = Bug("a worker leaves without looking at its inboxes again");

/// Queues do not follow a group that is moved.
pub const MOVE_UNSEEN: Bug = Bug("queues do not follow a group that is moved");

/// A guest asks for a processor without waking the task that lends.
pub const UNHEARD_GUEST: Bug = Bug("a guest asks without waking the task that lends");
/// A worker lends its processor and goes on working.
pub const LENDS_WITHOUT_SLEEP: Bug = Bug("a worker lends its processor and goes on working");

pub(crate) use halcyon_base::planted::is;
#[cfg(shuttle)]
pub use halcyon_base::planted::plant;
