//! Executing a plan where its rows have been found, and what comes of it.

use std::sync::Arc;

use halcyon_catalog::Table;
use halcyon_exec::analytic::BatchStream;
use halcyon_exec::point::Scratch;
use halcyon_plan::env::{Env, Locks, Roots};
use halcyon_prepare::plan::{Plan, Prepared};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::rows::{RowSet, RowSink};
use halcyon_store::ValueRef;
use halcyon_txn::Transaction;

use crate::acquire::{LockSet, TableRoots};
use crate::outcome::Outcome;
use crate::rows::Streamed;

/// What a statement came to, before it is dressed for the caller.
///
/// Three words, since every layer of a statement's way hands it on: what is larger is boxed, and
/// the short statements have variants of their own.
pub(crate) enum Ran {
    /// Rows are in the row set given.
    Set {
        /// Rows written, if it writes.
        written: Option<u64>,
    },
    /// So many rows were written, and none are returned. The tag is the statement's.
    Written(u64),
    /// Rows come as they are read.
    Stream(Box<Streamed>),
    /// Something else.
    Other(Box<Outcome>),
}

const _: () = assert!(size_of::<Result<Ran>>() <= 24);

impl Ran {
    /// Rows given or written, as far as they are known.
    pub fn rows(&self, out: &RowSet) -> u64 {
        match self {
            Ran::Set { written } => written.unwrap_or(out.len() as u64),
            Ran::Written(rows) => *rows,
            Ran::Other(outcome) => match &**outcome {
                Outcome::Done(tag) => tag.rows.unwrap_or(0),
                _ => 0,
            },
            Ran::Stream(_) => 0,
        }
    }

    /// Lines of text, each a row of `out`.
    pub fn lines(lines: &[String], out: &mut RowSet) -> Result<Ran> {
        out.reset(1);
        for line in lines {
            out.row(&[ValueRef::Text(line)])?;
        }
        Ok(Ran::Set { written: None })
    }

    pub fn other(outcome: Outcome) -> Ran {
        Ran::Other(Box::new(outcome))
    }

    fn stream(batches: BatchStream) -> Ran {
        Ran::Stream(Box::new(Streamed { batches, until: None }))
    }
}

/// Where a plan finds its rows.
pub(crate) enum Place<'a> {
    /// Under locks of the transaction.
    Locked(&'a mut Transaction, &'a LockSet),
    /// In a cut, where nothing can be written.
    Cut(TableRoots),
}

impl Place<'_> {
    pub fn roots(&self) -> Roots<'_> {
        match self {
            Place::Locked(tx, set) => Roots::Locked(tx, &set.locks),
            Place::Cut(roots) => Roots::Snapshot(roots),
        }
    }

    /// The roots of `tables` as values, for a scan that goes on behind the statement.
    pub fn into_roots(self, tables: &[Arc<Table>]) -> TableRoots {
        match self {
            Place::Locked(tx, set) => locked_roots(tx, &set.locks, tables),
            Place::Cut(roots) => roots,
        }
    }
}

/// The roots of locked partitions, with the transaction's own changes.
fn locked_roots(tx: &Transaction, locks: &Locks, tables: &[Arc<Table>]) -> TableRoots {
    let root = |table: usize, partition: usize| {
        let handle = locks.get(table, partition as u32).expect("the plan declared this need");
        tx.root(handle)
    };
    let of_table = |(at, table): (usize, &Arc<Table>)| {
        (0..table.cells.len()).map(|partition| root(at, partition)).collect()
    };
    tables.iter().enumerate().map(of_table).collect()
}

/// Runs a plan that reads or writes rows.
///
/// Errors: those of the plan; 25006 if it writes and `place` is a cut.
/// Panics: for other plans, which have ways of their own.
pub(crate) fn execute(
    prepared: &Prepared,
    env: &Env<'_>,
    place: Place<'_>,
    scratch: &mut Scratch,
    out: &mut RowSet,
) -> Result<Ran> {
    match (&prepared.plan, place) {
        (Plan::Point(plan), place) => {
            out.reset(prepared.columns.len());
            plan.run(env, place.roots(), out, scratch)?;
            Ok(Ran::Set { written: None })
        }
        (Plan::Analytical(plan), place) => {
            plan.start(env, place.into_roots(plan.tables())).map(Ran::stream)
        }
        (Plan::Write(plan), Place::Locked(tx, set)) => {
            let returns = !prepared.columns.is_empty();
            out.reset(prepared.columns.len());
            let sink: Option<&mut dyn RowSink> = if returns { Some(out) } else { None };
            let written = plan.run(env, tx, &set.locks, scratch, sink)?;
            match returns {
                true => Ok(Ran::Set { written: Some(written) }),
                false => Ok(Ran::Written(written)),
            }
        }
        (Plan::Write(_), Place::Cut(_)) => Err(read_only(prepared.tag)),
        _ => unreachable!("{} has its own way", prepared.tag),
    }
}

/// 25006: a statement that writes, where only a cut is read.
pub(crate) fn read_only(tag: &str) -> SqlError {
    SqlError::new(
        SqlState::READ_ONLY_SQL_TRANSACTION,
        format!("cannot execute {tag} in a read-only transaction"),
    )
}
