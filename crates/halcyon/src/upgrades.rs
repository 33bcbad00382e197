//! Read-then-write transactions: which statement of a block has read a table that a later one writes, and
//! what the plans learn from it ([`EarlyLocks`]).

use std::sync::Arc;

use halcyon_base::ids::{PartitionId, TableId};
use halcyon_catalog::Table;
use halcyon_plan::env::Need;
use halcyon_prepare::early::EarlyLocks;
use halcyon_prepare::plan::{Plan, Prepared};
use halcyon_txn::Mode;

use crate::activity::Tallies;

/// Reads of a block that are remembered: transactions that read more tables before they write one are
/// rare, and their later reads are as before.
const READS_MAX: usize = 16;

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
pub(crate) struct BlockLocks {
    read: Vec<Taken>,
    early: Vec<Taken>,
    written: Vec<TableId>,
}

impl BlockLocks {
    /// A block begins.
    pub fn clear(&mut self) {
        self.read.clear();
        self.early.clear();
        self.written.clear();
    }

    /// Notes the locks that a statement of the block has taken or asked for.
    pub fn note(&mut self, slot: usize, prepared: &Prepared, needs: &[Need]) {
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

    /// Lets the plans that have read a partition's table learn that its upgrade met others.
    pub fn learn(&self, partition: PartitionId, tables: &[Arc<Table>], tallies: &Tallies) {
        let has = |table: &&Arc<Table>| table.cells.iter().any(|cell| cell.id == partition);
        let Some(table) = tables.iter().find(has) else { return };
        for read in self.read.iter().filter(|read| read.table == table.id) {
            each(tallies, *read, EarlyLocks::learn);
        }
    }

    /// The block has committed: early locks of tables that it has not written were for nothing.
    pub fn judge(&self, tallies: &Tallies) {
        for early in &self.early {
            match self.written.contains(&early.table) {
                true => each(tallies, *early, EarlyLocks::confirm),
                false => each(tallies, *early, EarlyLocks::regret),
            }
        }
    }
}

fn each(tallies: &Tallies, taken: Taken, tell: fn(&EarlyLocks, usize)) {
    if let Some(plan) = tallies.plan(taken.slot) {
        tell(&plan.early, taken.number);
    }
}
