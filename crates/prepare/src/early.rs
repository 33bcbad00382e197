//! Early locks: tables that a statement locks exclusively at once, though it only reads them.
//!
//! Transactions that read a row, think, and write it meet each other when all of them have read: each
//! holds the table shared and waits for the others to write, so that all but one are victims of a
//! deadlock, and run into the next one when they try again. A plan learns from the first such meeting
//! that the table is written later in its transactions, and locks it from then on as FOR UPDATE would.
//! Transactions that turn out not to write the table make the plan unlearn.
//!
//! Invariant, checked by `what_is_learned_is_unlearned`: a score is between 0 and [`SCORE_MAX`]; a table is
//! locked early while its score is above 0. Cost: one load per statement, no store while nothing is learned
//! or unlearned.

use std::sync::atomic::{AtomicU64, Ordering};

/// Tables of a plan about which something is learned: the first so many.
const TABLES_MAX: usize = 8;

/// Transactions in a row that do not write a table after which it is locked early no more.
const SCORE_MAX: u8 = 8;

/// What a plan has learned of its tables. Shared by the sessions that run the plan.
#[derive(Debug, Default)]
pub struct EarlyLocks {
    /// A score per table, a byte each.
    scores: AtomicU64,
}

impl EarlyLocks {
    /// Whether any table is locked early.
    #[inline]
    pub fn any(&self) -> bool {
        self.scores.load(Ordering::Relaxed) != 0
    }

    /// Whether the plan's table number `table` is locked early.
    pub fn is_early(&self, table: usize) -> bool {
        table < TABLES_MAX && self.scores.load(Ordering::Relaxed).to_le_bytes()[table] > 0
    }

    /// Notes that a transaction which had read the table wrote it later, and met another.
    pub fn learn(&self, table: usize) {
        self.change(table, |_| SCORE_MAX);
    }

    /// Notes that a transaction which had locked the table early has written it.
    pub fn confirm(&self, table: usize) {
        self.change(table, |score| if score > 0 { (score + 1).min(SCORE_MAX) } else { 0 });
    }

    /// Notes that a transaction which had locked the table early has not written it.
    pub fn regret(&self, table: usize) {
        self.change(table, |score| score.saturating_sub(1));
    }

    fn change(&self, table: usize, next: impl Fn(u8) -> u8) {
        if table >= TABLES_MAX {
            return;
        }
        let changed = |scores: u64| {
            let mut bytes = scores.to_le_bytes();
            let before = bytes[table];
            bytes[table] = next(before);
            (bytes[table] != before).then(|| u64::from_le_bytes(bytes))
        };
        // `Err` says that the score is as it should be.
        let _ = self.scores.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_learned_is_unlearned() {
        let early = EarlyLocks::default();
        early.regret(2);
        early.confirm(2);
        assert!(!early.any(), "nothing is confirmed that was not learned");
        early.learn(2);
        early.learn(0);
        early.learn(TABLES_MAX);
        assert!(early.any() && early.is_early(2) && early.is_early(0));
        assert!(!early.is_early(1) && !early.is_early(TABLES_MAX));
        early.regret(2);
        early.confirm(2);
        early.confirm(2);
        for _ in 0..SCORE_MAX {
            assert!(early.is_early(2));
            early.regret(2);
        }
        assert!(!early.is_early(2) && early.is_early(0));
    }
}
