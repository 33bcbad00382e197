//! Views as part of the statements that change what they read.
//!
//! A write binds the views that its tables feed and locks them exclusively with its own tables. At
//! its end the rows that it has changed, cascades included, are events of the views; a view's own
//! rows are events of those that read it, so views are taken in an order in which each stands
//! after what it reads. A failure is the statement's failure.

use std::sync::Arc;

use halcyon_base::ids::TableId;
use halcyon_store::ValueRef;
use halcyon_txn::{PartitionCell, Savepoint, Transaction};

use super::cell::ViewCell;
use super::running::Input;
use super::{Guard, Materialized};
use crate::bind::Binder;
use crate::catalog::{Catalog, Check, Table};
use crate::coerce::Arena;
use crate::constraints::{compile_check, row_text};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::Env;
use crate::scalar::Program;

/// Which events of changed rows are told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Both,
    Old,
    New,
}

/// A view that a statement may change.
pub(crate) struct Fed {
    table: Arc<Table>,
    view: Arc<Materialized>,
    inputs: Vec<(Input, Arc<Table>)>,
    guards: Vec<(Guard, Program)>,
}

impl Fed {
    fn bind(binder: &Binder<'_>, table: &Arc<Table>) -> Result<Fed> {
        let view = table.materialized().expect("only views are fed").clone();
        let of = |input: &Input| (input.clone(), binder.catalog.table(input.table).clone());
        let mut guards = Vec::new();
        for guard in &view.guards {
            let check = Check { name: guard.name.clone(), expr: guard.condition.clone() };
            guards.push((guard.clone(), compile_check(binder, table, &check)?));
        }
        let inputs = view.cell.inputs().iter().map(of).collect();
        Ok(Fed { table: table.clone(), view, inputs, guards })
    }

    /// Its engine.
    pub(super) fn cell_of_view(&self) -> &Arc<ViewCell> {
        &self.view.cell
    }

    /// Whether its rows are judged as they come.
    pub(super) fn is_guarded(&self) -> bool {
        !self.guards.is_empty()
    }

    /// The partition of its rows.
    pub(super) fn cell(&self) -> &PartitionCell {
        &self.table.cells[0]
    }

    /// The view.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Says in whose maintenance an error arose.
    fn name(&self, error: SqlError) -> SqlError {
        match error.fields().context {
            Some(_) => error,
            None => error.context(format!(
                "maintenance of materialized view \"{}\"",
                self.table.qualified_name()
            )),
        }
    }

    /// Whether the transaction has changed anything that the view reads.
    pub(super) fn is_touched(
        &self,
        tx: &Transaction,
        since: &Savepoint,
        stream: Option<Events<'_, '_>>,
    ) -> bool {
        let reads =
            |(id, _): Events<'_, '_>| self.inputs.iter().any(|(input, _)| input.table == id);
        if stream.is_some_and(reads) {
            return true;
        }
        self.inputs.iter().flat_map(|(_, table)| &table.cells).any(|cell| {
            tx.held_exclusively(cell).is_some_and(|handle| tx.changes_since(handle, since) > 0)
        })
    }

    /// Tells what the transaction has done since `since` as events: input, row, weight.
    pub(super) fn events(
        &self,
        tx: &Transaction,
        since: &Savepoint,
        stream: Option<Events<'_, '_>>,
        tell: &mut Tell<'_>,
    ) -> Result<()> {
        let mut told = Ok(());
        if let Some((id, events)) = stream {
            for (at, (input, _)) in self.inputs.iter().enumerate().filter(|(_, i)| i.0.table == id)
            {
                for (row, weight) in events {
                    let columns = input.columns.iter();
                    let row: Vec<_> = columns.map(|column| row[usize::from(*column)]).collect();
                    tell(at, &row, *weight)?;
                }
            }
        }
        for (at, (input, table)) in self.inputs.iter().enumerate() {
            for cell in &table.cells {
                let Some(handle) = tx.held_exclusively(cell) else { continue };
                // Of several rows the old ones first: a key that moves from one to the other would
                // be there twice in between, and programs rely on keys.
                let passes: &[Pass] = match tx.changes_since(handle, since) {
                    0 => &[],
                    1 => &[Pass::Both],
                    _ => &[Pass::Old, Pass::New],
                };
                for pass in passes {
                    tx.row_changes(handle, since, &input.columns, |old, new| {
                        if told.is_err() || old == new {
                            return;
                        }
                        if *pass != Pass::New {
                            told = old.map_or(Ok(()), |row| tell(at, row, -1));
                        }
                        if *pass != Pass::Old && told.is_ok() {
                            told = new.map_or(Ok(()), |row| tell(at, row, 1));
                        }
                    });
                }
            }
        }
        told
    }

    /// 23514 if a row of the view is one that a guard forbids.
    fn judge(&self, row: &[ValueRef<'_>], env: &Env<'_>) -> Result<()> {
        for (guard, program) in &self.guards {
            let arena = Arena::new();
            if program.eval(row, env, &arena)? == ValueRef::Bool(true) {
                return Err(violation(guard, &self.table, row));
            }
        }
        Ok(())
    }
}

/// 23514.
pub(crate) fn violation(guard: &Guard, view: &Table, row: &[ValueRef<'_>]) -> SqlError {
    SqlError::new(SqlState::CHECK_VIOLATION, format!("assertion \"{}\" is violated", guard.name))
        .detail(format!("View \"{}\" would contain {}.", view.name, row_text(view, row)))
        .table(&view.schema, &view.name)
        .constraint(&guard.name)
}

/// Binds the views that follow from these tables, each after those that it reads.
pub(crate) fn bind<'t>(
    binder: &Binder<'_>,
    tables: impl IntoIterator<Item = &'t Arc<Table>>,
) -> Result<Vec<Fed>> {
    let views = fed_by_all(binder.catalog, tables);
    views.iter().map(|view| Fed::bind(binder, view)).collect()
}

/// The views that follow from these tables, each after those that it reads.
pub(crate) fn fed_by_all<'t>(
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

/// Where a statement begins for the views that it feeds; nothing if it feeds none.
pub(crate) fn begin(views: &[Fed], tx: &mut Transaction) -> Option<Savepoint> {
    (!views.is_empty()).then(|| tx.savepoint())
}

/// Brings the views up to date with what the statement has done since its beginning.
///
/// Errors: what events, expressions and guards of views fail at; the caller takes the statement
/// back.
pub(crate) fn end(
    views: &[Fed],
    since: &Savepoint,
    env: &Env<'_>,
    tx: &mut Transaction,
) -> Result<()> {
    end_with(views, since, None, env, tx)
}

/// Takes an event: input, row, weight.
type Tell<'t> = dyn FnMut(usize, &[ValueRef<'_>], i8) -> Result<()> + 't;

/// Events of a stream: its id, rows and weights.
pub(crate) type Events<'e, 'v> = (TableId, &'e [(Vec<ValueRef<'v>>, i8)]);

/// As [`end`], with events of a stream that no statement has put anywhere.
pub(crate) fn end_with(
    views: &[Fed],
    since: &Savepoint,
    stream: Option<Events<'_, '_>>,
    env: &Env<'_>,
    tx: &mut Transaction,
) -> Result<()> {
    views.iter().try_for_each(|fed| {
        let cell = &fed.view.cell;
        let followed = cell.follow(fed, since, stream, tx, &mut |row| fed.judge(row, env));
        followed.map_err(|error| fed.name(error))
    })
}

/// Lets the events pass that a statement has put into a stream, once the views have seen them.
pub(crate) fn empty_stream(table: &Table, since: &Savepoint, tx: &mut Transaction) {
    for cell in &table.cells {
        let Some(handle) = tx.held_exclusively(cell) else { continue };
        if tx.changes_since(handle, since) > 0 && tx.read(handle).row_count() > 0 {
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
