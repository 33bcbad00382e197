//! Bugs that the models of this crate must find when planted ([`halcyon_base::planted`]).

use halcyon_base::planted::Bug;

/// A follower leaves its waker after it has looked whether there is news.
pub const LATE_WAKER: Bug =
    Bug("a follower leaves its waker after it has looked whether there is news");
/// A change is told before it is kept.
pub const TOLD_BEFORE_KEPT: Bug = Bug("a change is told before it is kept");
/// The view's end is told to nobody.
pub const END_UNTOLD: Bug = Bug("the view's end is told to nobody");
/// A follower that looks again keeps the waker of its first look.
pub const OLD_WAKER_KEPT: Bug =
    Bug("a follower that looks again keeps the waker of its first look");
/// A follower that goes away leaves its waker.
pub const WAKER_LEFT_BEHIND: Bug = Bug("a follower that goes away leaves its waker");

pub(crate) use halcyon_base::planted::is;
