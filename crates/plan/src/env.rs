//! The environment of a running statement: parameters, clock, session, and the partitions that it
//! may read.

use std::cell::Cell;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use halcyon_base::clock::{self, Moment};
use halcyon_store::{Partition, Value};
use halcyon_txn::{CancelToken, LockHandle, Mode, Transaction};

use crate::engine::DataFusion;
use halcyon_catalog::session_vars::SessionVars;
use halcyon_catalog::{Catalog, Table};

/// Everything that an expression may depend on, except partitions.
pub struct Env<'a> {
    /// The catalog the plan was made for.
    pub catalog: &'a Arc<Catalog>,
    /// Parameter values, already of the types the plan declares.
    pub params: &'a [Value],
    /// Settings and identity of the session.
    pub session: &'a SessionVars,
    /// Time as SQL sees it.
    pub clock: Clock,
    /// Checked by everything that runs for long.
    pub cancel: &'a CancelToken,
    /// The workers with which a statement that lasts takes turns; `None`: it runs beside them.
    pub workers: Option<&'a DataFusion>,
}

/// Time as SQL sees it: microseconds since 1970-01-01 UTC. The wall clock is read at the first use.
///
/// Reading the clock costs a fifth of a point query, and few statements use it.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    transaction_us: Cell<i64>,
    statement_us: Cell<i64>,
    /// When the statement began; `None`: when its time is first asked for.
    began: Option<Moment>,
}

impl Clock {
    /// A clock for a transaction that began at `transaction_us`; 0 for when the statement does.
    pub fn since(transaction_us: i64) -> Self {
        Clock { transaction_us: Cell::new(transaction_us), ..Clock::default() }
    }

    /// The clock for a statement that began at `moment`, however late its time is asked for.
    pub fn of_statement_at(self, moment: Option<Moment>) -> Self {
        Clock { began: moment, ..self }
    }

    /// `statement_timestamp()`: the same throughout a statement.
    pub fn statement_us(&self) -> i64 {
        if self.statement_us.get() == 0 {
            let ago = self.began.map_or(Duration::ZERO, |began| clock::now().since(began));
            let ago_us = i64::try_from(ago.as_micros()).unwrap_or(i64::MAX);
            self.statement_us.set(clock::wall_us().saturating_sub(ago_us));
        }
        self.statement_us.get()
    }

    /// `now()`, `current_timestamp`, `current_date`: the same throughout a transaction.
    pub fn transaction_us(&self) -> i64 {
        if self.transaction_us.get() == 0 {
            self.transaction_us.set(self.statement_us());
        }
        self.transaction_us.get()
    }
}

/// A statement's need: a part of a table, and the mode in which it is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Position in the plan's list of tables.
    pub table: usize,
    /// One partition, if the partition key is fixed by equality; otherwise all.
    pub partition: Option<u32>,
    /// Shared or exclusive.
    pub mode: Mode,
}

/// The locks a statement holds, by table of the plan and partition number.
#[derive(Default)]
pub struct Locks {
    /// The only lock, for statements that need just one: most do, and find it without a table.
    only: Option<(usize, u32, LockHandle)>,
    first: Vec<u32>,
    handles: Vec<Option<LockHandle>>,
}

impl Locks {
    /// Removes all locks, and makes room for the partitions of `tables`.
    pub fn reset(&mut self, tables: &[Arc<Table>]) {
        self.only = None;
        self.first.clear();
        self.handles.clear();
        for table in tables {
            self.first.push(self.handles.len() as u32);
            self.handles.resize(self.handles.len() + table.cells.len(), None);
        }
    }

    /// Removes all locks, and notes the lock on a partition as the only one.
    #[inline]
    pub fn set_only(&mut self, table: usize, partition: u32, handle: LockHandle) {
        self.only = Some((table, partition, handle));
    }

    /// Notes the lock on a partition.
    pub fn set(&mut self, table: usize, partition: u32, handle: LockHandle) {
        let at = self.first[table] + partition;
        self.handles[at as usize] = Some(handle);
    }

    /// The lock on a partition, if the statement holds it.
    #[inline]
    pub fn get(&self, table: usize, partition: u32) -> Option<LockHandle> {
        if let Some((only, number, handle)) = self.only {
            return (only == table && number == partition).then_some(handle);
        }
        self.handles[(self.first[table] + partition) as usize]
    }
}

/// The roots that a statement reads: partitions under its locks, or roots of a snapshot.
#[derive(Clone, Copy)]
pub enum Roots<'a> {
    /// Under locks of the transaction.
    Locked(&'a Transaction, &'a Locks),
    /// Roots by table of the plan and partition number, taken at one cut.
    Snapshot(&'a [Vec<triomphe::Arc<Partition>>]),
}

impl<'a> Roots<'a> {
    /// The partition. Panics if the plan did not declare its need: the planner is broken then.
    #[inline]
    pub fn partition(&self, table: usize, partition: u32) -> &'a Partition {
        match self {
            Roots::Locked(tx, locks) => {
                tx.read(locks.get(table, partition).expect("the plan declared this need"))
            }
            Roots::Snapshot(roots) => &roots[table][partition as usize],
        }
    }
}

/// Evaluates what no session has a part in.
pub fn without_session<R>(evaluate: impl FnOnce(&Env<'_>) -> R) -> R {
    static NOBODY: OnceLock<(Arc<Catalog>, SessionVars, CancelToken)> = OnceLock::new();
    let (catalog, session, cancel) = NOBODY.get_or_init(|| {
        (Arc::new(Catalog::default()), SessionVars::of_engine(), CancelToken::new())
    });
    evaluate(&Env { catalog, params: &[], session, clock: Clock::default(), cancel, workers: None })
}
