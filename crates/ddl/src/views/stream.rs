//! Streams as a handle gives events to them, without SQL: bound, and verified as INSERT would.
//!
//! If no guard and no other view looks at every single change of a view, an event goes to the engines
//! alone ([`halcyon_views::StreamViews`]), and the views' rows are brought up to date by the next
//! reader ([`bring_up_to_date`]). Else the event is a transaction of its own, like an INSERT.
//!
//! Batches of events of several streams come packed ([`super::packed`]).

use std::sync::Arc;

use halcyon_base::ids::SessionId;
use halcyon_store::ValueRef;
use halcyon_txn::{Manager, Mode, Transaction, WaitLimits};
use halcyon_views::{SettleError, StreamViews, WantedViews, settle_views};

use halcyon_catalog::{Catalog, Check, Privilege, Table};
use halcyon_exec::constraints::{check_violation, compile_check, holds, null_violation};
use halcyon_exec::upkeep::FedViews;
use halcyon_exec::view_errors::view_error;
use halcyon_plan::bind::Binder;
use halcyon_plan::env::Env;
use halcyon_plan::scalar::Program;
use halcyon_sql::coerce::Arena;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::types::SqlType;

/// A stream bound at one catalog version: its checks, and the views that its events change.
pub struct StreamPlan {
    stream: Arc<Table>,
    /// The catalog's version.
    pub version: u64,
    checks: Vec<(Check, Program)>,
    /// All views that follow from the stream.
    fed: FedViews,
    /// The views that read it.
    pub(super) readers: StreamViews,
    /// Whether events may go to the engines alone.
    pub(super) lone: bool,
}

impl StreamPlan {
    /// Binds a stream. Errors: 42P01, 42809, 42501.
    pub fn bind(binder: &Binder<'_>, name: &[String]) -> Result<StreamPlan> {
        let path: Vec<String> = binder.search_path().map(str::to_owned).collect();
        let stream = binder.catalog.find_table(name, &path)?;
        if !stream.is_stream() {
            return Err(halcyon_catalog::wrong_kind(&stream.name, "stream"));
        }
        binder.catalog.require_on_table(&binder.session.user, &stream, Privilege::Insert)?;
        let check = |check: &Check| Ok((check.clone(), compile_check(binder, &stream, check)?));
        let checks = stream.checks.iter().map(check).collect::<Result<Vec<_>>>()?;
        let fed = FedViews::bind(binder, [&stream])?;
        let readers = StreamViews::new(stream.id, fed.maintained());
        let lone = !readers.repeat() && !fed.are_watched();
        let version = binder.catalog.version;
        Ok(StreamPlan { stream, version, checks, fed, readers, lone })
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
        self.readers.event(row, weight).map_err(view_error)
    }

    /// Locks the partitions that events of streams change, for a transaction that holds nothing of it yet. Errors:
    /// those of locks.
    pub fn lock(plans: &[Self], tx: &mut Transaction, limits: &WaitLimits<'_>) -> Result<()> {
        let tables = plans.iter().flat_map(|plan| plan.fed.tables());
        let tables = tables.chain(plans.iter().map(|plan| &plan.stream));
        let mut cells: Vec<_> = tables.flat_map(|table| &table.cells).collect();
        cells.sort_by_key(|cell| cell.id);
        cells.dedup_by_key(|cell| cell.id);
        for cell in cells {
            tx.lock(cell, Mode::Exclusive, limits).map_err(halcyon_plan::lock_errors::of_any)?;
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
        self.fed.end_with(&since, Some((self.stream.id, events)), env, tx)
    }

    /// Whether events verified and packed for this plan are good for another one.
    pub(super) fn means_the_same(&self, other: &StreamPlan) -> bool {
        let rules = |plan: &Self| -> (Vec<_>, Vec<_>) {
            let columns = plan.stream().columns.iter();
            let columns: Vec<_> = columns.map(|column| (column.ty, column.not_null)).collect();
            (columns, plan.checks.iter().map(|(check, _)| check.expr.clone()).collect())
        };
        self.readers.are_those_of(&other.readers) && rules(self) == rules(other)
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
    let stale =
        |table: &&Arc<Table>| table.materialized().is_some_and(|view| view.maintained().is_stale());
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
    if let Some(view) = table.materialized() {
        view.maintained().own(tx);
    }
}

/// Errors: one of these views runs in a cell that could not give its rows when a reader last wanted
/// them.
pub fn require_settled(views: &[&Arc<Table>]) -> Result<()> {
    let of = |view: &&Arc<Table>| view.materialized()?.maintained().unsettled();
    match views.iter().find_map(of) {
        Some(error) => Err(view_error(error)),
        None => Ok(()),
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
    let find = |wanted: WantedViews| {
        let views = match wanted {
            WantedViews::Stale => stale_views(catalog),
            WantedViews::All => streamed_views(catalog),
        };
        let others = views.iter().filter(|view| !held(view));
        let maintained =
            |view: &Arc<Table>| view.materialized().expect("views alone").maintained().clone();
        others.map(maintained).collect()
    };
    settle_views(manager, session, limits, find).map_err(|error| match error {
        SettleError::Lock(error) => halcyon_plan::lock_errors::of_any(error),
        SettleError::Log(error) => SqlError::new(error.sql_state(), error.to_string()),
    })
}
