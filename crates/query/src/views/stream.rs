//! Events of streams that come by a handle, without SQL.
//!
//! An event goes to the engines of the views that read the stream, and to nothing else: their rows
//! are brought up to date by whoever reads them next ([`bring_up_to_date`]). That is allowed while no
//! transaction owns any of these views, and where nobody has to see each change as it comes: a
//! guard, or a view over the view. Else the event is a transaction of its own, like an INSERT.
//!
//! Many events at once, of several streams, come packed ([`super::packed`]).
//!
//! A delete is the deletion of a whole tuple. Whether it was ever inserted nobody knows, since a
//! stream keeps nothing: a sum goes below zero then, and a row that is owed is not shown until it
//! has come (the ring of the calculus).

use std::sync::Arc;

use halcyon_base::clock;
use halcyon_base::ids::{SessionId, TableId};
use halcyon_store::ValueRef;
use halcyon_txn::derived::{Beside, Derived, Look, SettleError, settle_all};
use halcyon_txn::{Manager, Mode, Transaction, WaitLimits};
use smallvec::SmallVec;

use super::cell::ViewCell;
use super::upkeep::{self, Fed};
use crate::bind::Binder;
use crate::catalog::{Catalog, Check, Privilege, Table};
use crate::coerce::Arena;
use crate::constraints::{check_violation, compile_check, holds, null_violation};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::Env;
use crate::scalar::Program;
use crate::types::SqlType;

/// Of so many events one is timed, and the memory of the views is looked at.
pub(super) const SAMPLED: u64 = 64;

/// What an event of a stream does, at one catalog version.
pub struct StreamPlan {
    stream: Arc<Table>,
    /// The catalog's version.
    pub version: u64,
    pub(super) checks: Vec<(Check, Program)>,
    /// All views that follow from the stream.
    fed: Vec<Fed>,
    /// The views that read it, by ascending id.
    pub(super) direct: Vec<Direct>,
    /// Whether events may go to the engines alone.
    pub(super) lone: bool,
    events: u64,
}

/// A view that reads a stream.
pub(super) struct Direct {
    pub view: TableId,
    pub cell: Arc<ViewCell>,
    /// Which of its inputs the stream is.
    pub input: usize,
    /// The stream's columns that it reads.
    pub columns: Vec<u16>,
}

impl Direct {
    /// The values that it reads.
    #[inline]
    pub fn project<'v>(&self, row: &[ValueRef<'v>]) -> Row<'v> {
        self.columns.iter().map(|at| row[usize::from(*at)]).collect()
    }
}

type Row<'v> = SmallVec<[ValueRef<'v>; 8]>;

impl StreamPlan {
    /// Binds a stream. Errors: 42P01, 42809, 42501.
    pub fn bind(binder: &Binder<'_>, name: &[String]) -> Result<StreamPlan> {
        let path: Vec<String> = binder.search_path().map(str::to_owned).collect();
        let stream = binder.catalog.find_table(name, &path)?;
        if !stream.is_stream() {
            return Err(crate::catalog::wrong_kind(&stream.name, "stream"));
        }
        binder.catalog.require_on_table(&binder.session.user, &stream, Privilege::Insert)?;
        let check = |check: &Check| Ok((check.clone(), compile_check(binder, &stream, check)?));
        let checks = stream.checks.iter().map(check).collect::<Result<Vec<_>>>()?;
        let fed = upkeep::bind(binder, [&stream])?;
        let mut direct = Vec::new();
        for view in &fed {
            for (at, input) in view.cell_of_view().inputs().iter().enumerate() {
                if input.table == stream.id {
                    let (view, cell) = (view.table().id, view.cell_of_view().clone());
                    direct.push(Direct { view, cell, input: at, columns: input.columns.clone() });
                }
            }
        }
        let seen = |view: &Fed| view.is_guarded() || !view.table().feeds.is_empty();
        let twice = direct.windows(2).any(|pair| pair[0].view == pair[1].view);
        let lone = !twice && !fed.iter().any(seen);
        let version = binder.catalog.version;
        Ok(StreamPlan { stream, version, checks, fed, direct, lone, events: 0 })
    }

    /// The stream.
    pub fn stream(&self) -> &Arc<Table> {
        &self.stream
    }

    /// Types, NOT NULL and CHECK. Errors: 42601 for another number of columns, 42804, 23502, 23514.
    pub fn verify(&self, row: &[ValueRef<'_>], env: &Env<'_>) -> Result<()> {
        let columns = &self.stream.columns;
        if row.len() != columns.len() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!(
                    "stream \"{}\" has {} columns, the row has {}",
                    self.stream.name,
                    columns.len(),
                    row.len()
                ),
            ));
        }
        for (at, (column, value)) in columns.iter().zip(row).enumerate() {
            match value {
                ValueRef::Null if column.not_null => {
                    return Err(null_violation(&self.stream, at as u16, row));
                }
                ValueRef::Null => {}
                value if fits(*value, column.ty) => {}
                _ => {
                    return Err(SqlError::new(
                        SqlState::DATATYPE_MISMATCH,
                        format!("column \"{}\" is of type {}", column.name, column.ty),
                    ));
                }
            }
        }
        for (check, program) in &self.checks {
            if !holds(program, row, env, &Arena::new())? {
                return Err(check_violation(&self.stream, check, row));
            }
        }
        Ok(())
    }

    /// Gives the engines one event: a row that was verified, with weight 1 or −1. False if it has to
    /// be a transaction.
    ///
    /// Errors: what an event can fail at; no view has met it then.
    #[inline]
    pub fn event(&mut self, row: &[ValueRef<'_>], weight: i8) -> Result<bool> {
        if !self.lone {
            return Ok(false);
        }
        self.events += 1;
        let sampled = self.events.is_multiple_of(SAMPLED);
        let all = self.direct.iter().map(|direct| &**direct.cell.derived());
        let Some(mut states) = Derived::lock_open(all) else { return Ok(false) };
        let mut done = Ok(());
        let mut met = 0;
        for (direct, state) in self.direct.iter().zip(&mut states) {
            let projected = direct.project(row);
            let began = sampled.then(clock::now);
            let (cell, running) = (&direct.cell, state.running());
            done = running.event(direct.input, &projected, weight);
            if done.is_err() {
                break;
            }
            met += 1;
            cell.derived().set_stale();
            if let Some(began) = began {
                running.tally.note(clock::now().since(began).as_nanos() as u64, 1);
                done = cell.account(running.engine.memory_bytes(), running.engine.entry_count());
                if done.is_err() {
                    break;
                }
            }
        }
        if let Err(error) = done {
            for (direct, state) in self.direct.iter().zip(&mut states).take(met) {
                let undone = state.running().event(direct.input, &direct.project(row), -weight);
                undone.expect("sums that were there before fit");
            }
            return Err(error);
        }
        Ok(true)
    }

    /// Locks what events of streams touch, for a transaction that holds nothing of it yet. Errors:
    /// those of locks.
    pub fn lock(plans: &[Self], tx: &mut Transaction, limits: &WaitLimits<'_>) -> Result<()> {
        let tables = plans.iter().flat_map(|plan| plan.fed.iter().map(Fed::table));
        let tables = tables.chain(plans.iter().map(|plan| &plan.stream));
        let mut cells: Vec<_> = tables.flat_map(|table| &table.cells).collect();
        cells.sort_by_key(|cell| cell.id);
        cells.dedup_by_key(|cell| cell.id);
        for cell in cells {
            tx.lock(cell, Mode::Exclusive, limits).map_err(crate::exec::lock_error)?;
        }
        Ok(())
    }

    /// Events as part of a transaction that has locked what they touch, and of the catalog that
    /// the plan was made for.
    ///
    /// Errors: those of events; the caller takes the transaction back.
    pub fn events_in(
        &self,
        events: &[(Vec<ValueRef<'_>>, i8)],
        tx: &mut Transaction,
        env: &Env<'_>,
    ) -> Result<()> {
        let since = tx.savepoint();
        upkeep::end_with(&self.fed, &since, Some((self.stream.id, events)), env, tx)
    }
}

/// Whether a value is one of a column of this type as it is.
fn fits(value: ValueRef<'_>, ty: SqlType) -> bool {
    matches!(
        (value, ty),
        (ValueRef::Bool(_), SqlType::Boolean)
            | (ValueRef::Int16(_), SqlType::SmallInt)
            | (ValueRef::Int32(_), SqlType::Integer)
            | (ValueRef::Int64(_), SqlType::BigInt)
            | (ValueRef::Float32(_), SqlType::Real)
            | (ValueRef::Float64(_), SqlType::Double)
            | (ValueRef::Decimal(_), SqlType::Decimal { .. })
            | (ValueRef::Text(_), SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_))
            | (ValueRef::Bytes(_), SqlType::Bytea)
            | (ValueRef::Date(_), SqlType::Date)
            | (ValueRef::Time(_), SqlType::Time)
            | (ValueRef::Timestamp(_), SqlType::Timestamp)
            | (ValueRef::TimestampTz(_), SqlType::TimestampTz)
            | (ValueRef::Interval(_), SqlType::Interval)
            | (ValueRef::Uuid(_), SqlType::Uuid)
    )
}

/// Views whose rows lack events of streams' handles.
pub fn stale_views(catalog: &Catalog) -> Vec<Arc<Table>> {
    let stale = |table: &&Arc<Table>| table.materialized().is_some_and(|view| view.cell.is_stale());
    catalog.tables.values().filter(stale).cloned().collect()
}

/// Views that read a stream.
fn streamed_views(catalog: &Catalog) -> Vec<Arc<Table>> {
    let reads_stream = |table: &&Arc<Table>| is_streamed(catalog, table);
    catalog.tables.values().filter(reads_stream).cloned().collect()
}

/// Whether a table is a view that reads a stream.
pub fn is_streamed(catalog: &Catalog, table: &Table) -> bool {
    let view = table.materialized();
    view.is_some_and(|view| view.reads.iter().any(|read| catalog.table(*read).is_stream()))
}

/// Makes a transaction that holds a view's partition exclusively its owner: from now on its rows
/// hold every event that has been accepted, and no other event comes until the transaction ends.
pub fn own(table: &Table, tx: &mut Transaction) {
    let Some(view) = table.materialized() else { return };
    if let Some(handle) = tx.held_exclusively(&table.cells[0]) {
        view.cell.own(tx, handle);
    }
}

/// Brings the rows of all views up to date with the events that streams' handles have given so
/// far, at one moment, as a transaction of its own.
///
/// `held` says which views the caller has locked itself; they are left as they are. Errors: those of
/// locks.
pub fn bring_up_to_date(
    manager: &Manager,
    session: SessionId,
    catalog: &Catalog,
    held: impl Fn(&Table) -> bool,
    limits: &WaitLimits<'_>,
) -> Result<()> {
    let look = |which: Look| {
        let views = match which {
            Look::Stale => stale_views(catalog),
            Look::All => streamed_views(catalog),
        };
        let beside = |view: &Arc<Table>| Beside {
            order: u64::from(view.id.0),
            rows: view.cells[0].clone(),
            derived: view.materialized().expect("views alone").cell.derived().clone(),
        };
        views.iter().filter(|view| !held(view)).map(beside).collect()
    };
    settle_all(manager, session, limits, look).map_err(|error| match error {
        SettleError::Lock(error) => crate::exec::lock_error(error),
        SettleError::Log(error) => SqlError::new(error.sql_state(), error.to_string()),
    })
}
