//! Execution of a plan once it has access to its rows, and the plan's result.

use std::sync::Arc;

use halcyon_catalog::Table;
use halcyon_exec::analytic::BatchStream;
use halcyon_exec::dml::{owned_roots, whole_roots};
use halcyon_exec::point::Scratch;
use halcyon_plan::env::{Env, Roots};
use halcyon_prepare::plan::{Plan, Prepared};
use halcyon_sql::coerce::{Arena, TimeZone, to_text};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::rows::{ResultColumn, RowSet, RowSink};
use halcyon_sql::types::SqlType;
use halcyon_store::ValueRef;
use halcyon_txn::Transaction;

use crate::acquire::{LockSet, TableRoots};
use crate::outcome::Outcome;
use crate::rows::Streamed;

/// The result of a statement, before it is dressed for the caller.
///
/// Three words, since every layer that a statement passes hands it on: larger results are boxed,
/// and short statements have variants of their own.
pub(crate) enum Ran {
    /// The rows are in the row set that the caller gave.
    Set {
        /// Number of rows written, for a statement that writes.
        written: Option<u64>,
    },
    /// The number of rows written; none are returned. The tag is the statement's.
    Written(u64),
    /// The rows are streamed: computed as they are read.
    Stream(Box<Streamed>),
    /// Any other result.
    Other(Box<Outcome>),
    /// Nothing has run yet: the transaction stands in the queue of a lock.
    Queued,
    /// A look-up had more rows than these to visit: the statement begins anew.
    TooMany(u32),
}

const _: () = assert!(size_of::<Result<Ran>>() <= 24);

impl Ran {
    /// Number of rows returned or written, as far as it is known.
    pub fn rows(&self, out: &RowSet) -> u64 {
        match self {
            Ran::Set { written } => written.unwrap_or(out.len() as u64),
            Ran::Written(rows) => *rows,
            Ran::Other(outcome) => match &**outcome {
                Outcome::Done(tag) => tag.rows.unwrap_or(0),
                _ => 0,
            },
            Ran::Stream(_) | Ran::Queued | Ran::TooMany(_) => 0,
        }
    }

    /// A result of text lines, each a row of `out`.
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
        Ran::Stream(Box::new(Streamed { batches, until: None, in_class: None }))
    }
}

/// A plan's access to the rows that it needs.
pub(crate) enum RowAccess<'a> {
    /// By locks of the transaction.
    Locked(&'a mut Transaction, &'a LockSet),
    /// By a cut, in which nothing can be written.
    Cut(TableRoots),
}

impl RowAccess<'_> {
    pub fn roots(&self) -> Roots<'_> {
        match self {
            RowAccess::Locked(tx, set) => Roots::Locked(tx, &set.locks),
            RowAccess::Cut(roots) => Roots::Snapshot(roots),
        }
    }

    /// Runs a query over `tables`. The transaction is at rest meanwhile if it may have changed something: who takes a
    /// cut through that does not wait for the query.
    pub fn reading<R>(self, tables: &[Arc<Table>], query: impl FnOnce(Roots<'_>) -> R) -> R {
        let owned = match &self {
            RowAccess::Locked(tx, _) if tx.may_have_changed() => owned_roots(tables, self.roots()),
            _ => None,
        };
        match (self, owned) {
            (RowAccess::Locked(tx, _), Some(roots)) => {
                tx.resting(|| query(Roots::Snapshot(&roots)))
            }
            (access, _) => query(access.roots()),
        }
    }
}

/// Runs a plan that reads or writes rows; a look-up, until it has visited `visits_max`.
///
/// Errors: those of the plan; 25006 if the plan writes and `access` is a cut.
/// Panics: for plans that do neither, which are run elsewhere.
pub(crate) fn execute(
    prepared: &Prepared,
    env: &Env<'_>,
    access: RowAccess<'_>,
    visits_max: u32,
    scratch: &mut Scratch,
    out: &mut RowSet,
) -> Result<Ran> {
    match (&prepared.plan, access) {
        (Plan::Point(plan), access) => {
            out.reset(prepared.columns.len());
            let mut shown = Shown::new(prepared, out);
            if plan.is_unique_lookup() {
                plan.run(env, access.roots(), &mut shown, scratch)?;
                return Ok(Ran::Set { written: None });
            }
            let run =
                |roots: Roots<'_>| plan.run_within(visits_max, env, roots, &mut shown, scratch);
            if access.reading(plan.tables(), run)? {
                return Ok(Ran::Set { written: None });
            }
            *out = RowSet::default();
            Ok(Ran::TooMany(visits_max))
        }
        // System tables are written now, and may count the rows of tables that the transaction has changed.
        (Plan::Analytical(plan), access) => access.reading(plan.tables(), |roots| {
            plan.start(env, whole_roots(plan.tables(), roots)).map(Ran::stream)
        }),
        (Plan::Write(plan), RowAccess::Locked(tx, set)) => {
            let returns = !prepared.columns.is_empty();
            out.reset(prepared.columns.len());
            let mut shown = Shown::new(prepared, out);
            let sink: Option<&mut dyn RowSink> = if returns { Some(&mut shown) } else { None };
            let written = plan.run(env, tx, &set.locks, scratch, sink)?;
            match returns {
                // A query with parts that write.
                true if prepared.tag == "SELECT" => Ok(Ran::Set { written: None }),
                true => Ok(Ran::Set { written: Some(written) }),
                false => Ok(Ran::Written(written)),
            }
        }
        (Plan::Write(plan), RowAccess::Cut(roots)) if plan.reads_only() => {
            out.reset(prepared.columns.len());
            plan.read(env, &roots, scratch, out)?;
            Ok(Ran::Set { written: None })
        }
        (Plan::Write(_), RowAccess::Cut(_)) => Err(read_only(prepared.tag)),
        _ => unreachable!("{} has its own way", prepared.tag),
    }
}

/// Puts rows of a result into a row set as programs read them: documents, arrays and labels as their texts.
struct Shown<'a> {
    rows: &'a mut RowSet,
    columns: &'a [ResultColumn],
    /// Whether a column holds any of these.
    has_texts: bool,
}

impl<'a> Shown<'a> {
    fn new(prepared: &'a Prepared, rows: &'a mut RowSet) -> Self {
        let columns = &prepared.columns;
        let has_texts =
            columns.iter().any(|column| column.ty.is_some_and(SqlType::is_shown_as_text));
        Shown { rows, columns, has_texts }
    }
}

impl RowSink for Shown<'_> {
    #[inline]
    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<bool> {
        if !self.has_texts {
            return self.rows.row(values);
        }
        let arena = Arena::new();
        let pairs = values.iter().zip(self.columns);
        self.rows.push_row(pairs.map(|(value, column)| match (value, column.ty) {
            (ValueRef::Bytes(_) | ValueRef::Int64(_), Some(ty)) if ty.is_shown_as_text() => {
                ValueRef::Text(arena.alloc_str(&to_text(*value, ty, &TimeZone::UTC)))
            }
            (value, _) => *value,
        }))?;
        Ok(true)
    }
}

/// 25006: the error of a statement that writes where only a cut may be read.
pub(crate) fn read_only(tag: &str) -> SqlError {
    SqlError::new(
        SqlState::READ_ONLY_SQL_TRANSACTION,
        format!("cannot execute {tag} in a read-only transaction"),
    )
}
