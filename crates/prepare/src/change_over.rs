//! The change-over of a look-up that visits many rows: it begins anew as a scan of a snapshot.
//!
//! Nobody knows beforehand how many rows have the values of an index's first columns. So a look-up runs within a limit
//! of visits; if it reaches the limit, what it has found is thrown away, before anybody has seen a row of it, and the
//! statement runs by the analytical executor. There are two limits, one after the other:
//!
//! - under locks of its own, so many visits that no writer waits for long ([`Limit::UnderLocks`]);
//! - over a snapshot, or under locks that its transaction keeps anyway, so many that a scan takes less time
//!   ([`Limit::InAll`]): with one visit for [`ROWS_PER_VISIT`] rows of the tables, the visits in vain take about as long
//!   as the scan.
//!
//! A plan whose last runs have reached a limit tries with half as many visits each time, down to a sixteenth. It tries
//! always, since other values of its parameters may have few rows, and one run within the limit makes it whole again.
//!
//! Invariant, checked by `limits_shrink_while_they_are_reached`. Threads: the counts are shared by all sessions that run
//! the plan; one that is lost among them makes a limit twice as high.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Rows that a scan, with the joins above it, reads in the time of one visit. CH-benCHmark's query 19 made
/// 1.2 million visits in 0.69 s, and its scan of 0.6 million rows took 10 ms.
const ROWS_PER_VISIT: u64 = 32;

/// How often a limit is halved at most.
const HALVED_MAX: u8 = 4;

/// What is told of a plan whose last run has changed over.
pub const HAS_CHANGED_OVER: &str =
    "Change-over: the last run had too many rows to look up, and went on as a scan of a snapshot";

/// What is told of a run that has changed over.
pub const CHANGED_OVER: &str = "Change-over: there were too many rows to look up";

/// Which limit of visits holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The statement has locks that it gives back when it leaves off.
    UnderLocks,
    /// A scan is the better way.
    InAll,
}

/// What a plan knows of its change-over.
#[derive(Debug, Default)]
pub struct ChangeOver {
    is_possible: bool,
    /// How often in a row each limit was reached of late, up to [`HALVED_MAX`].
    reached: [AtomicU8; 2],
}

impl ChangeOver {
    /// The change-over of a plan that may begin anew, if `is_possible`; else there is none.
    pub fn new(is_possible: bool) -> Self {
        ChangeOver { is_possible, ..ChangeOver::default() }
    }

    /// Whether the plan may begin anew.
    #[inline]
    pub fn is_possible(&self) -> bool {
        self.is_possible
    }

    /// How many rows a run may visit under locks of its own, which are `most` at first.
    #[inline]
    pub fn visits_under_locks(&self, most: u32) -> u32 {
        self.halved(most, Limit::UnderLocks)
    }

    /// How many rows a run over tables with `rows` may visit, which are at least `least` at first; `None` if it has made
    /// `visited` visits before and would get no further with these.
    pub fn visits_in_all(&self, least: u32, rows: u64, visited: u32) -> Option<u32> {
        let most = u32::try_from(rows / ROWS_PER_VISIT).unwrap_or(u32::MAX).max(least);
        let visits = self.halved(most, Limit::InAll);
        (visits / 2 >= visited).then_some(visits)
    }

    fn halved(&self, most: u32, limit: Limit) -> u32 {
        (most >> self.reached[limit as usize].load(Relaxed)).max(1)
    }

    /// Notes whether a run has reached its limit. Writes nothing where nothing changes, so that sessions which share a
    /// plan do not meet in its memory.
    #[inline]
    pub fn note(&self, limit: Limit, is_reached: bool) {
        // A run within the first limit does not come to the second one.
        for (number, count) in self.reached.iter().enumerate().skip(limit as usize) {
            let before = count.load(Relaxed);
            let after = match is_reached {
                true if number == limit as usize => (before + 1).min(HALVED_MAX),
                true => before,
                false => 0,
            };
            if after != before {
                count.store(after, Relaxed);
            }
        }
    }

    /// Whether the last run has gone on as a scan.
    pub fn has_changed_over(&self) -> bool {
        self.reached[Limit::InAll as usize].load(Relaxed) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_shrink_while_they_are_reached() {
        let change = ChangeOver::new(true);
        for visits in [1_000, 500, 250, 125, 62, 62] {
            assert_eq!(change.visits_under_locks(1_000), visits);
            change.note(Limit::UnderLocks, true);
        }
        assert!(!change.has_changed_over(), "it went on over a snapshot");
        for visits in [2_000, 1_000, 500, 250, 125, 125] {
            assert_eq!(change.visits_in_all(1_000, 64_000, 0), Some(visits));
            change.note(Limit::InAll, true);
        }
        assert!(change.has_changed_over());
        change.note(Limit::UnderLocks, false);
        assert_eq!(change.visits_under_locks(1_000), 1_000);
        assert_eq!(change.visits_in_all(1_000, 64_000, 0), Some(2_000), "few rows now");
        assert!(!change.has_changed_over());
        assert_eq!(change.visits_under_locks(0), 1, "a run makes at least one visit");
    }

    #[test]
    fn visits_are_not_repeated_to_get_no_further() {
        let change = ChangeOver::new(true);
        assert_eq!(change.visits_in_all(1_000, 10, 1_000), None, "a scan of small tables is quick");
        assert_eq!(change.visits_in_all(1_000, 640_000, 1_000), Some(20_000));
        assert_eq!(change.visits_in_all(1_000, u64::MAX, 1_000), Some(u32::MAX));
    }
}
