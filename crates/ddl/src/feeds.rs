//! Materialized views over a table whose definition changes.
//!
//! A running view knows the columns that it reads by their positions, and its program relies on what constraints say of
//! them: keys, NOT NULL, numbers that are never negative. So after a change every view that the table feeds is compiled
//! again. If the program is what it was, the view goes on with its columns at their new positions; if it is another
//! because a constraint is gone, the view is made anew from the tables that it reads. A view that reads a column which
//! is gone, or which has another type, is broken.

use std::sync::Arc;

use halcyon_base::ids::TableId;
use halcyon_catalog::{Catalog, Relation, Table, TableKind};
use halcyon_plan::bind::Binder;
use halcyon_sql::error::{Result, SqlError, SqlState};

use super::{DdlContext, materialized};
use crate::views::{self, Definition, define_stored};

/// The catalog before a change.
pub(super) struct Before(pub Arc<Catalog>);

impl Before {
    /// The catalog as it is now.
    pub(super) fn of(cx: &DdlContext<'_>) -> Before {
        Before(Arc::new(cx.catalog.clone()))
    }
}

/// How the columns of a table have changed, for those who know them by their positions.
#[derive(Clone, Copy)]
pub(super) enum Positions<'a> {
    /// All columns that were there are where they were.
    Same,
    /// The column is gone, and those behind it have moved.
    Dropped(u16),
    /// Columns have other types.
    Retyped(&'a [u16]),
    /// A column has come behind them.
    Added,
}

impl Positions<'_> {
    /// Where a column is now; `None` if nobody may read it any more as before.
    fn now(self, column: u16) -> Option<u16> {
        match self {
            Positions::Dropped(at) if at == column => None,
            Positions::Retyped(columns) if columns.contains(&column) => None,
            Positions::Dropped(at) => Some(column - u16::from(column > at)),
            Positions::Same | Positions::Retyped(_) | Positions::Added => Some(column),
        }
    }
}

/// What becomes of a view.
enum Fate {
    GoesOn,
    MadeAnew(Box<Definition>),
    Broken,
}

/// Lets the views that a table feeds follow a change of it, and gives the broken ones, which are left as they are.
///
/// Errors: those of filling a view.
pub(super) fn follow(
    cx: &mut DdlContext<'_>,
    before: &Before,
    table: TableId,
    change: Positions<'_>,
) -> Result<Vec<Arc<Table>>> {
    let feeds = cx.catalog.table(table).feeds.clone();
    if feeds.is_empty() {
        return Ok(Vec::new());
    }
    let now = Arc::new(cx.catalog.clone());
    let mut broken = Vec::new();
    for id in feeds {
        let view = now.table(id).clone();
        match fate(cx, before, &now, &view, (table, change)) {
            Fate::Broken => broken.push(view),
            Fate::GoesOn => go_on(cx, &view, (table, change)),
            Fate::MadeAnew(definition) => make_anew(cx, &view, *definition)?,
        }
    }
    Ok(broken)
}

/// Lets views follow a table that has lost a constraint or an index. Errors: 2BP01 if one of them cannot; those of
/// filling a view.
pub(super) fn rely_on_less(
    cx: &mut DdlContext<'_>,
    before: &Before,
    table: TableId,
    what: &str,
) -> Result<()> {
    match follow(cx, before, table, Positions::Same)?.first() {
        None => Ok(()),
        Some(view) => {
            Err(broken(&format!("materialized view {}", view.name), table_name(cx, table), what))
        }
    }
}

fn table_name<'c>(cx: &'c DdlContext<'_>, table: TableId) -> &'c str {
    &cx.catalog.table(table).name
}

/// 2BP01: a change that a view does not outlive.
pub(super) fn broken(view: &str, table: &str, what: &str) -> SqlError {
    let message = format!("cannot {what} because other objects depend on it");
    SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
        .detail(format!("{view} depends on table {table}"))
        .hint("Drop the view first and create it again.")
}

fn fate(
    cx: &DdlContext<'_>,
    before: &Before,
    now: &Arc<Catalog>,
    view: &Arc<Table>,
    (table, change): (TableId, Positions<'_>),
) -> Fate {
    let definition = |catalog: &Arc<Catalog>| {
        let text = &catalog.table(view.id).materialized().expect("only views are fed").query;
        let binder = Binder::new(catalog, cx.env.session, cx.datafusion);
        define_stored(&binder, text, view.columns.len(), cx.env.cancel)
    };
    let own = view.materialized().expect("only views are fed");
    let reads = own.maintained().inputs().iter().filter(|input| input.table == table);
    let mut columns = reads.flat_map(|input| &input.columns);
    if columns.any(|column| change.now(*column).is_none()) {
        return Fate::Broken;
    }
    let (Ok(old), Ok(new)) = (definition(&before.0), definition(now)) else { return Fate::Broken };
    if !new.fits(&view.columns) || new.reads() != own.reads {
        return Fate::Broken;
    }
    let place = |read: TableId, column| match read == table {
        true => change.now(column),
        false => Some(column),
    };
    if old.is_same(&new, place) {
        return Fate::GoesOn;
    }
    // Nobody has kept the events of a stream.
    let follows_stream = |id: &TableId| {
        let read = now.table(*id);
        read.is_stream() || read.materialized().is_some_and(|view| view.empty_on_restart)
    };
    // A new column takes nothing away: the query means something else with it.
    let means_other = matches!(change, Positions::Added);
    match means_other || own.empty_on_restart || own.reads.iter().any(follows_stream) {
        true => Fate::Broken,
        false => Fate::MadeAnew(Box::new(new)),
    }
}

/// The view reads its columns where they are now.
fn go_on(cx: &mut DdlContext<'_>, view: &Table, (table, change): (TableId, Positions<'_>)) {
    let Positions::Dropped(_) = change else { return };
    cx.catalog.change_table(view.id, |view| {
        let TableKind::Materialized(own) = &mut view.kind else { unreachable!("it is a view") };
        let moved = own.maintained().with_columns_at(table, |column| {
            change.now(column).expect("a view that reads the column is broken")
        });
        Arc::make_mut(own).maintained = Some(Arc::new(moved));
    });
}

/// The view gets another engine, which has met the rows of all tables that the view reads.
fn make_anew(cx: &mut DdlContext<'_>, view: &Arc<Table>, mut definition: Definition) -> Result<()> {
    let own = view.materialized().expect("the caller asks for views").clone();
    definition.cell = views::cell_choice(own.cell, false);
    cx.lock(view)?;
    let rows = materialized::no_rows(cx, view);
    let (maintained, _) = materialized::fill(cx, definition, &own.reads, view, rows)?;
    cx.catalog.change_table(view.id, |view| {
        view.cells = vec![maintained.rows().clone()];
        let TableKind::Materialized(own) = &mut view.kind else { unreachable!("it is a view") };
        Arc::make_mut(own).maintained = Some(maintained);
    });
    let gone = own.maintained().clone();
    cx.tx.on_commit(move || gone.close());
    Ok(())
}

/// Schema and name of tables, as relations.
pub(super) fn names(views: &[Arc<Table>]) -> Vec<(String, String)> {
    views.iter().map(|view| (view.schema.clone(), view.name.clone())).collect()
}

/// The kind and name of a view of either kind, as messages show them.
pub(super) fn shown(relation: &Relation, name: &str) -> String {
    format!("{} {name}", relation.kind())
}
