//! Bugs that the models of this crate must find when planted ([`halcyon_base::planted`]).

use halcyon_base::planted::Bug;

/// A reader enters by its slot without looking whether a writer has barred the lock.
pub const NO_SECOND_LOOK: Bug =
    Bug("a reader enters by its slot without looking whether a writer has barred the lock");
/// A commit releases its partitions one after the other instead of all at once.
pub const TORN_COMMIT: Bug =
    Bug("a commit releases its partitions one after the other instead of all at once");
/// A pending cut gets the root as it is, without the owner's changes being undone.
pub const CUT_WITHOUT_UNDO: Bug =
    Bug("a pending cut gets the root as it is, without the owner's changes being undone");
/// A grant is marked again after the latch was given back, when its waiter may have gone on to
/// wait for something else.
pub const LATE_MARK: Bug = Bug(
    "a grant is marked again after the latch was given back, when its waiter may have gone on to wait for something else",
);
/// A sleeping waiter is marked as alerted and not woken.
pub const SILENT_ALERT: Bug = Bug("a sleeping waiter is marked as alerted and not woken");
/// A task leaves its waker after it has looked whether its lock has come.
pub const LATE_WAKER: Bug =
    Bug("a task leaves its waker after it has looked whether its lock has come");
/// A transaction that ends while it stands in a queue leaves its place to the grant.
pub const PLACE_LEFT_BEHIND: Bug =
    Bug("a transaction that ends while it stands in a queue leaves its place to the grant");
/// The last waiter of a cycle is the victim, whatever it has done.
pub const LAST_WAITER_IS_VICTIM: Bug =
    Bug("the last waiter of a cycle is the victim, whatever it has done");
/// A commit gives its shared locks back before its changes are visible.
pub const READ_LOCKS_FIRST: Bug =
    Bug("a commit gives its shared locks back before its changes are visible");
/// Views are settled without a look whether an event has come to one that is not among them.
pub const NO_SECOND_LOOK_AT_VIEWS: Bug =
    Bug("views are settled without a look whether an event has come to one that is not among them");
/// Cuts that came while views were being locked get the rows after these were settled.
pub const CUTS_SERVED_SETTLED: Bug =
    Bug("cuts that came while views were being locked get the rows after these were settled");
/// An owner does not say that it has settled its view without the others.
pub const LONE_SETTLEMENT_UNSEEN: Bug =
    Bug("an owner does not say that it has settled its view without the others");
/// An event goes to a view that a transaction owns.
pub const EVENT_TO_OWNED_VIEW: Bug = Bug("an event goes to a view that a transaction owns");
/// A batch ends, and none of those whose commits came meanwhile is told to write the next one.
pub const NOBODY_WRITES_NEXT: Bug = Bug(
    "a batch ends, and none of those whose commits came meanwhile is told to write the next one",
);
/// A task enters itself among those who wait for the disk by what it has seen before.
pub const LATE_ENTRY: Bug =
    Bug("a task enters itself among those who wait for the disk by what it has seen before");
/// A task writes a batch without a look whether another thread is at the disk by now.
pub const TWO_AT_THE_DISK: Bug =
    Bug("a task writes a batch without a look whether another thread is at the disk by now");
/// The first task to come while a batch is held back does not look again by itself.
pub const HELD_WITHOUT_END: Bug =
    Bug("the first task to come while a batch is held back does not look again by itself");
/// A task that goes away keeps the turn that it was told of.
pub const TURN_KEPT: Bug = Bug("a task that goes away keeps the turn that it was told of");
/// A task that goes away stays among those who wait for the disk.
pub const ENTRY_LEFT_BEHIND: Bug =
    Bug("a task that goes away stays among those who wait for the disk");
/// The end of a batch that failed is told to the first of those who wait only.
pub const FAILURE_UNTOLD: Bug =
    Bug("the end of a batch that failed is told to the first of those who wait only");
/// A task that goes away promises that the writer thread will write, though all has been taken.
pub const PROMISE_WITHOUT_BYTES: Bug = Bug(
    "a task that goes away promises that the writer thread will write, though all has been taken",
);

/// A task leaves its waker for an advisory lock after it has looked whether the lock is free.
pub const LATE_ADVISORY_WAKER: Bug = Bug(
    "a task leaves its waker for an advisory lock after it has looked whether the lock is free",
);
/// The locks of a transaction or session that ends are given back, and no task is woken.
pub const UNTOLD_RELEASE: Bug =
    Bug("the locks of a transaction or session that ends are given back, and no task is woken");
/// A task that goes away from the queue of an advisory lock does not have the next one woken.
pub const TURN_NOT_HANDED_ON: Bug = Bug(
    "a task that goes away from the queue of an advisory lock does not have the next one woken",
);
/// The first in the queue of an advisory lock is woken, whether it can take the lock or not.
pub const FIRST_ONLY: Bug =
    Bug("the first in the queue of an advisory lock is woken, whether it can take the lock or not");

/// A task looks for circles before its wait for an advisory lock can be seen.
pub const CIRCLE_BEFORE_QUEUE: Bug =
    Bug("a task looks for circles before its wait for an advisory lock can be seen");

pub(crate) use halcyon_base::planted::is;
#[cfg(shuttle)]
pub use halcyon_base::planted::plant;
