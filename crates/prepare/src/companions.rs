//! Companions: tables that transactions beginning with a statement go on to lock, and that are locked with it.
//!
//! Transactions that lock several tables, each in an order of its own, meet in circles, and one of each circle
//! is a victim; the more of them there are, the more of the work is done for nothing. The plan of the statement
//! with which a victim began learns which tables the victim had locked or wanted. Once such ends are no rare
//! thing, transactions that begin with the plan lock all these tables at once, in one order, and do not meet
//! any more. Transactions that turn out not to need a table make the plan unlearn the table.
//!
//! Invariants, checked by the tests below: companions are in force only after at least one victim to
//! [`COMMITS_OF_VICTIM`] commits, so that a rare circle does not cost the others their parallelism; each known
//! table has a score from 1 to [`SCORE_MAX`]. Cost: one load per transaction block while nothing is learned.

use std::sync::atomic::{AtomicU32, Ordering};

use halcyon_base::ids::TableId;
use halcyon_base::sync::Mutex;
use halcyon_txn::Mode;

/// Tables that a plan knows: transactions that lock more are left to meet.
const TABLES_MAX: usize = 8;

/// Commits without companions that weigh as much as one victim.
const COMMITS_OF_VICTIM: u32 = 8;

/// Heat from which on companions are in force: two victims in little time.
const IN_FORCE: u32 = 2 * COMMITS_OF_VICTIM;

/// Most heat: it has cooled after so many commits without companions.
const HEAT_MAX: u32 = 4 * COMMITS_OF_VICTIM;

/// A table's score when it is learned, and the highest.
const SCORE_MAX: u8 = 8;

/// What a transaction that did not need a table takes from its score; one that did adds 1.
const REGRET: u8 = 2;

/// What a plan has learned of the transactions that begin with it. Shared by the sessions that run the plan.
#[derive(Debug, Default)]
pub struct Companions {
    heat: AtomicU32,
    known: Mutex<Vec<Known>>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    table: TableId,
    mode: Mode,
    score: u8,
}

impl Companions {
    /// Whether nothing has been learned: then nothing is to be told either.
    #[inline]
    pub fn is_cold(&self) -> bool {
        self.heat.load(Ordering::Relaxed) == 0
    }

    /// The tables to lock with the statement, and how; none unless companions are in force.
    pub fn tables(&self) -> Vec<(TableId, Mode)> {
        if self.heat.load(Ordering::Relaxed) < IN_FORCE {
            return Vec::new();
        }
        self.known.lock().iter().map(|known| (known.table, known.mode)).collect()
    }

    /// Notes that a transaction which had begun with the statement was a victim, having locked or wanted `met`.
    pub fn learn(&self, met: impl Iterator<Item = (TableId, Mode)>) {
        let mut known = self.known.lock();
        for (table, mode) in met {
            let room = known.len() < TABLES_MAX;
            match known.iter_mut().find(|known| known.table == table) {
                Some(known) => {
                    known.mode = known.mode.max(mode);
                    known.score = SCORE_MAX;
                }
                None if room => known.push(Known { table, mode, score: SCORE_MAX }),
                None => {}
            }
        }
        self.warm(|heat| (heat + COMMITS_OF_VICTIM).min(HEAT_MAX));
    }

    /// Notes a commit of a transaction that had begun with the statement while no companions were in force.
    pub fn cool(&self) {
        self.warm(|heat| match heat < IN_FORCE {
            true => heat.saturating_sub(1),
            false => heat,
        });
    }

    /// Notes a commit of a transaction that had locked companions, and which of them it needed.
    pub fn judge(&self, needed: impl Fn(TableId) -> bool) {
        let mut known = self.known.lock();
        for known in known.iter_mut() {
            known.score = match needed(known.table) {
                true => (known.score + 1).min(SCORE_MAX),
                false => known.score.saturating_sub(REGRET),
            };
        }
        known.retain(|known| known.score > 0);
        // One table alone has no order.
        if known.len() < 2 {
            known.clear();
            self.heat.store(0, Ordering::Relaxed);
        }
    }

    fn warm(&self, next: impl Fn(u32) -> u32) {
        let changed = |heat| Some(next(heat)).filter(|next| *next != heat);
        // `Err` says that the heat is as it should be.
        let _ = self.heat.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TableId = TableId(1);
    const B: TableId = TableId(2);
    const C: TableId = TableId(3);

    fn hot() -> Companions {
        let companions = Companions::default();
        companions.learn([(A, Mode::Shared), (B, Mode::Exclusive)].into_iter());
        assert!(companions.tables().is_empty(), "one victim is no habit");
        companions.learn([(A, Mode::Exclusive), (C, Mode::Shared)].into_iter());
        companions
    }

    #[test]
    fn two_victims_in_little_time_bring_companions_into_force() {
        let expected = [(A, Mode::Exclusive), (B, Mode::Exclusive), (C, Mode::Shared)];
        assert_eq!(hot().tables(), expected);
    }

    #[test]
    fn victims_among_many_commits_never_do() {
        let companions = Companions::default();
        for _ in 0..100 {
            companions.learn([(A, Mode::Exclusive), (B, Mode::Exclusive)].into_iter());
            assert!(companions.tables().is_empty());
            (0..COMMITS_OF_VICTIM).for_each(|_| companions.cool());
            assert!(companions.is_cold());
        }
    }

    #[test]
    fn tables_that_are_not_needed_are_unlearned() {
        let companions = hot();
        for _ in 0..SCORE_MAX / REGRET {
            assert_eq!(companions.tables().len(), 3);
            companions.judge(|table| table != C);
        }
        assert_eq!(companions.tables(), [(A, Mode::Exclusive), (B, Mode::Exclusive)]);
        (0..100).for_each(|_| companions.judge(|_| true));
        companions.cool();
        assert_eq!(companions.tables().len(), 2, "what is needed stays");
        (0..SCORE_MAX / REGRET).for_each(|_| companions.judge(|table| table == A));
        assert!(companions.tables().is_empty() && companions.is_cold(), "one alone has no order");
    }

    #[test]
    fn a_plan_knows_few_tables() {
        let companions = Companions::default();
        for _ in 0..2 {
            companions.learn((0..100).map(|id| (TableId(id), Mode::Exclusive)));
        }
        assert_eq!(companions.tables().len(), TABLES_MAX);
    }
}
