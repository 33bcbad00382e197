//! What the statements of a transaction block lock, and what the plans learn from meetings with other blocks: which
//! statement has read a table that a later one writes ([`EarlyLocks`]), and which tables blocks that begin with a
//! statement go on to lock ([`Companions`]).

use std::sync::Arc;

use halcyon_base::ids::TableId;
use halcyon_plan::env::Need;
use halcyon_txn::Mode;

use crate::companions::Companions;
use crate::early::EarlyLocks;
use crate::plan::{Plan, Prepared};

/// Reads of a block that are remembered: transactions that read more tables before they write one are
/// rare, and their later reads are as before.
const READS_MAX: usize = 16;

/// Tables of a block that are remembered for companions.
const MET_MAX: usize = 16;

/// The plans of a session's statements, by where the session counts them.
pub type Plans<'a> = dyn Fn(usize) -> Option<Arc<Prepared>> + 'a;

/// A table that a statement of the block has locked.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Taken {
    table: TableId,
    /// Where the session counts the statement, which has its plan.
    slot: usize,
    /// The table's number in the plan.
    number: usize,
}

/// What the statements of a transaction block have locked so far. One per session, cleared with each
/// block.
#[derive(Default)]
pub struct BlockLocks {
    read: Vec<Taken>,
    early: Vec<Taken>,
    written: Vec<TableId>,
    /// Where the session counts the statement that has locked first.
    first: Option<usize>,
    /// Whether companions were locked with that statement.
    ahead: bool,
    /// Whether a wait of the block was part of a deadlock.
    circle: bool,
    /// Tables that the block has locked or wanted, each in the strongest mode.
    met: Vec<(TableId, Mode)>,
}

impl BlockLocks {
    /// A block begins.
    pub fn clear(&mut self) {
        self.read.clear();
        self.early.clear();
        self.written.clear();
        self.met.clear();
        (self.first, self.ahead, self.circle) = (None, false, false);
    }

    /// Whether no statement of the block has locked anything yet.
    pub fn are_none(&self) -> bool {
        self.first.is_none()
    }

    /// Notes that the companions of the block's first statement are locked with it.
    pub fn note_ahead(&mut self) {
        self.ahead = true;
    }

    /// Notes the locks that a statement of the block has taken or asked for. Shared locks count only if they are kept
    /// to the block's end.
    pub fn note(&mut self, slot: usize, prepared: &Prepared, needs: &[Need], keeps_shared: bool) {
        let tables = prepared.plan.tables();
        let mut last = None;
        for need in needs {
            // Partitions of one table stand beside each other.
            if last.replace((need.table, need.mode)) == last {
                continue;
            }
            // EXPLAIN and definitions by queries lock the tables of a plan within, which is not
            // counted under this slot.
            let Some(table) = tables.get(need.table) else { continue };
            let taken = Taken { table: table.id, slot, number: need.table };
            self.first.get_or_insert(slot);
            if need.mode == Mode::Exclusive || keeps_shared {
                self.meet(table.id, need.mode);
            }
            if !keeps_shared {
                continue;
            }
            let list = match need.mode {
                Mode::Exclusive if prepared.early.is_early(need.table) => &mut self.early,
                Mode::Exclusive if matches!(prepared.plan, Plan::Write(_) | Plan::Copy(_)) => {
                    if !self.written.contains(&taken.table) {
                        self.written.push(taken.table);
                    }
                    continue;
                }
                Mode::Exclusive => continue,
                Mode::Shared => &mut self.read,
            };
            if list.len() < READS_MAX && !list.contains(&taken) {
                list.push(taken);
            }
        }
    }

    fn meet(&mut self, table: TableId, mode: Mode) {
        let room = self.met.len() < MET_MAX;
        match self.met.iter_mut().find(|(met, _)| *met == table) {
            Some((_, strongest)) => *strongest = mode.max(*strongest),
            None if room => self.met.push((table, mode)),
            None => {}
        }
    }

    /// Notes that a wait of the block was part of a deadlock.
    pub fn meet_circle(&mut self) {
        self.circle = true;
    }

    /// The block ends: if it was part of a deadlock, victim or not, the plan of its first statement learns what to lock
    /// with it. A circle within one table is a matter of early locks.
    pub fn learn_companions(&self, plans: &Plans<'_>) {
        if self.circle
            && self.met.len() > 1
            && let Some(plan) = self.first.and_then(plans)
        {
            plan.companions.learn(self.met.iter().copied());
        }
    }

    fn judge_companions(&self, companions: &Companions) {
        match self.ahead {
            true => companions.judge(|table| self.met.iter().any(|(met, _)| *met == table)),
            false => companions.cool(),
        }
    }

    /// Lets the plans that have read a table learn that its upgrade met others.
    pub fn learn(&self, table: TableId, plans: &Plans<'_>) {
        for read in self.read.iter().filter(|read| read.table == table) {
            each(plans, *read, EarlyLocks::learn);
        }
    }

    /// The block has committed: early locks of tables that it has not written were for nothing, and so were
    /// companions that it has not locked for themselves.
    pub fn judge(&self, plans: &Plans<'_>) {
        if let Some(plan) = self.first.and_then(plans)
            && !plan.companions.is_cold()
        {
            self.judge_companions(&plan.companions);
        }
        self.learn_companions(plans);
        for early in &self.early {
            match self.written.contains(&early.table) {
                true => each(plans, *early, EarlyLocks::confirm),
                false => each(plans, *early, EarlyLocks::regret),
            }
        }
    }
}

fn each(plans: &Plans<'_>, taken: Taken, tell: fn(&EarlyLocks, usize)) {
    if let Some(plan) = plans(taken.slot) {
        tell(&plan.early, taken.number);
    }
}
