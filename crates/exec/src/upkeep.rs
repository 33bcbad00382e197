//! Materialized views within the statements that change their tables: which views must be brought up
//! to date, and the guards that are checked then.
//!
//! A write binds the views that its tables feed and locks them exclusively with its own tables. At
//! the end of the write [`FedViews::end`] applies its changes, cascades included, to the views
//! ([`halcyon_views::ViewMaintenance`]). A view that fails fails the statement.

use std::sync::Arc;

use halcyon_store::ValueRef;
use halcyon_txn::{Savepoint, Transaction};
use halcyon_views::{MaintainedView, MaintenanceError, Refused, StreamEvents, ViewMaintenance};

use crate::constraints::{compile_check, row_text};
use crate::deferrable::judge_view;
use crate::view_errors::view_error;
use halcyon_catalog::materialized::ViewGuard;
use halcyon_catalog::{Catalog, Check, Index, Table};
use halcyon_plan::bind::Binder;
use halcyon_plan::env::Env;
use halcyon_plan::scalar::Program;
use halcyon_sql::coerce::Arena;
use halcyon_sql::error::{Result, SqlError, SqlState};

/// The materialized views that a statement has to bring up to date.
pub struct FedViews {
    /// By ascending id, so that each stands after the views that it reads.
    tables: Vec<Arc<Table>>,
    /// By view.
    guards: Vec<Vec<(ViewGuard, Program)>>,
    maintained: Vec<Arc<MaintainedView>>,
    maintenance: ViewMaintenance,
}

impl FedViews {
    /// Binds the views that follow from these tables.
    pub fn bind<'t>(
        binder: &Binder<'_>,
        tables: impl IntoIterator<Item = &'t Arc<Table>>,
    ) -> Result<FedViews> {
        let tables = views_of_all(binder.catalog, tables);
        let guards = tables.iter().map(|view| guards_of(binder, view)).collect::<Result<_>>()?;
        let maintained: Vec<_> = tables.iter().map(|table| maintained(table).clone()).collect();
        let cells = |table| binder.catalog.table(table).cells.clone();
        let maintenance = ViewMaintenance::new(maintained.clone(), cells);
        Ok(FedViews { tables, guards, maintained, maintenance })
    }

    /// Whether the statement feeds no view.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// The views, by ascending id.
    pub fn tables(&self) -> &[Arc<Table>] {
        &self.tables
    }

    /// The views as they run, in the same order.
    pub fn maintained(&self) -> &[Arc<MaintainedView>] {
        &self.maintained
    }

    /// Whether every single change of a view is looked at: by a guard, a unique index, or a view over the view.
    pub fn are_watched(&self) -> bool {
        let guarded = self.guards.iter().any(|guards| !guards.is_empty());
        let watches = |view: &Arc<Table>| {
            !view.feeds.is_empty() || view.indexes.iter().any(Index::says_unique)
        };
        guarded || self.tables.iter().any(watches)
    }

    /// Where a statement begins for the views; `None` if it feeds none.
    pub fn begin(&self, tx: &mut Transaction) -> Option<Savepoint> {
        (!self.is_empty()).then(|| tx.savepoint())
    }

    /// Brings the views up to date with the statement's changes since `since`.
    ///
    /// Errors: those of events, expressions and guards of views, and 23505 for a key of one of their unique indexes
    /// that two rows would have; the caller then undoes the statement.
    pub fn end(&self, since: &Savepoint, env: &Env<'_>, tx: &mut Transaction) -> Result<()> {
        self.end_with(since, None, env, tx)
    }

    /// Brings the views up to date as [`FedViews::end`] does, and with events of a stream that no
    /// statement has put anywhere.
    pub fn end_with(
        &self,
        since: &Savepoint,
        events: Option<StreamEvents<'_, '_>>,
        env: &Env<'_>,
        tx: &mut Transaction,
    ) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let mut judge = |view: usize, row: &[ValueRef<'_>]| self.judge(view, row, env);
        let done = self.maintenance.run(tx, since, events, env.cancel, &mut judge);
        done.map_err(|error| self.sql_error(error))?;
        // Rows of a view are written in no order that keeps its keys apart, so they are judged behind all of them.
        self.tables.iter().try_for_each(|view| {
            let judged = judge_view(view, since, tx);
            judged.map_err(|error| in_view(error, view))
        })
    }

    /// 23514 if a row of the view is one that a guard forbids.
    fn judge(&self, view: usize, row: &[ValueRef<'_>], env: &Env<'_>) -> Result<()> {
        for (guard, program) in &self.guards[view] {
            let arena = Arena::new();
            if program.eval(row, env, &arena)? == ValueRef::Bool(true) {
                return Err(violation(guard, &self.tables[view], row));
            }
        }
        Ok(())
    }

    /// The error of a view's maintenance as SQL's.
    fn sql_error(&self, error: MaintenanceError<SqlError>) -> SqlError {
        let view = &self.tables[error.view];
        match error.refused {
            Refused::View(error) => in_view(view_error(error), view),
            Refused::Judge(error) => in_view(error, view),
        }
    }
}

/// The error, with the view in whose maintenance it arose.
fn in_view(error: SqlError, view: &Table) -> SqlError {
    let name = view.qualified_name();
    match error.fields().context {
        Some(_) => error,
        None => error.context(format!("maintenance of materialized view \"{name}\"")),
    }
}

/// The running view behind the table of a materialized view.
fn maintained(table: &Table) -> &Arc<MaintainedView> {
    table.materialized().expect("only views are fed").maintained()
}

/// The guards of a view, to be evaluated.
fn guards_of(binder: &Binder<'_>, table: &Arc<Table>) -> Result<Vec<(ViewGuard, Program)>> {
    let view = table.materialized().expect("only views are fed");
    let compile = |guard: &ViewGuard| {
        let check = Check::new(guard.name.clone(), guard.condition.clone());
        Ok((guard.clone(), compile_check(binder, table, &check)?))
    };
    view.guards.iter().map(compile).collect()
}

/// 23514.
pub fn violation(guard: &ViewGuard, view: &Table, row: &[ValueRef<'_>]) -> SqlError {
    SqlError::new(SqlState::CHECK_VIOLATION, format!("assertion \"{}\" is violated", guard.name))
        .detail_of_rows(
            &view.schema,
            &view.name,
            format!("View \"{}\" would contain {}.", view.name, row_text(view, row)),
        )
        .table(&view.schema, &view.name)
        .constraint(&guard.name)
}

/// The views that follow from these tables, each after the views that it reads.
pub(crate) fn views_of_all<'t>(
    catalog: &Catalog,
    tables: impl IntoIterator<Item = &'t Arc<Table>>,
) -> Vec<Arc<Table>> {
    let mut views: Vec<Arc<Table>> = Vec::new();
    for table in tables {
        if !table.feeds.is_empty() {
            views.extend(catalog.fed_by(table));
        }
    }
    views.sort_by_key(|view| view.id);
    views.dedup_by_key(|view| view.id);
    views
}

/// Deletes the events that a statement has put into a stream, once the views have processed them.
pub fn empty_stream(table: &Table, tx: &mut Transaction) {
    for cell in &table.cells {
        let Some(handle) = tx.held_exclusively(cell) else { continue };
        // Every statement empties what it has filled, so these rows are its own.
        if tx.read(handle).row_count() > 0 {
            let emptied = tx.alter(handle, |root| {
                root.truncate();
                Ok::<_, std::convert::Infallible>(())
            });
            match emptied {
                Ok(()) => {}
                Err(never) => match never {},
            }
        }
    }
}
