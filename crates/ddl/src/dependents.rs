//! Views of both kinds over a relation whose columns change: they follow, or the change is refused, or they go with it.

use std::sync::Arc;

use halcyon_catalog::{Catalog, Relation, Table, View};
use halcyon_plan::bind::{Binder, result_columns};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::parse::parse_query;

use super::column_names::{self, ColumnsChanged};
use super::feeds::{self, Before, Positions};
use super::remove::drop_relations;
use super::{DdlContext, view_uses};

/// A change of a table's columns, after the catalog has them.
#[derive(Clone, Copy)]
pub(super) enum TableChange<'a> {
    /// A column has come behind the others.
    Added,
    /// The column at this position is gone; with CASCADE the views that read it go, too.
    Dropped { at: u16, cascade: bool },
    /// The column at this position had another name.
    Renamed { at: u16, before: &'a str },
    /// Columns have other types.
    Retyped(&'a [u16]),
    /// A key is gone, by which queries group; with CASCADE the views that need it go, too.
    Unkeyed { cascade: bool },
}

/// Lets the views over a table follow a change. `what`: the change, for messages.
///
/// Errors: 2BP01 if a view does not yield its columns any more; those of filling a materialized view.
pub(super) fn follow(
    cx: &mut DdlContext<'_>,
    before: &Before,
    table: &Table,
    change: TableChange<'_>,
    what: &str,
) -> Result<()> {
    let (schema, name) = (table.schema.as_str(), table.name.as_str());
    let columns = cx.catalog.table(table.id).columns.iter();
    let columns: Vec<String> = columns.map(|column| column.name.clone()).collect();
    let names = match change {
        TableChange::Added => Some(ColumnsChanged::Added),
        TableChange::Dropped { at, .. } => Some(ColumnsChanged::Dropped(at)),
        TableChange::Renamed { at, before } => Some(ColumnsChanged::Renamed(at, before)),
        TableChange::Retyped(_) | TableChange::Unkeyed { .. } => None,
    };
    if let Some(names) = names {
        column_names::follow(cx, (schema, name), &columns, names);
    }
    let positions = match change {
        TableChange::Dropped { at, .. } => Positions::Dropped(at),
        TableChange::Retyped(columns) => Positions::Retyped(columns),
        TableChange::Added => Positions::Added,
        _ => Positions::Same,
    };
    let mut broken = broken_queries(cx, before, schema, name)?;
    broken.extend(feeds::names(&feeds::follow(cx, before, table.id, positions)?));
    let Some((of, first)) = broken.first() else { return Ok(()) };
    let relation =
        |of: &str, name: &str| feeds::shown(&cx.catalog.schemas[of].relations[name], name);
    let cascades = match change {
        TableChange::Dropped { cascade, .. } | TableChange::Unkeyed { cascade } => Some(cascade),
        _ => None,
    };
    if cascades != Some(true) {
        let told = feeds::broken(&relation(of, first), name, what);
        return Err(match cascades {
            Some(_) => told.hint("Use DROP ... CASCADE to drop the dependent objects too."),
            None => told,
        });
    }
    let gone: Vec<String> = broken.iter().map(|(of, name)| relation(of, name)).collect();
    for view in gone {
        cx.notice(SqlState::SUCCESSFUL_COMPLETION, format!("drop cascades to {view}"));
    }
    drop_relations(cx, broken, true)
}

/// Plain views that name a relation and do not yield their columns any more.
fn broken_queries(
    cx: &DdlContext<'_>,
    before: &Before,
    schema: &str,
    name: &str,
) -> Result<Vec<(String, String)>> {
    let users = view_uses::users_of(cx.catalog, schema, name);
    if users.is_empty() {
        return Ok(users);
    }
    let now = Arc::new(cx.catalog.clone());
    let is_broken = |(schema, name): &(String, String)| {
        let of = |catalog: &Arc<Catalog>| catalog.schemas[schema].relations[name].clone();
        match (of(&before.0), of(&now)) {
            (Relation::View(old), Relation::View(new)) => {
                still_yields(cx, (&before.0, &old), (&now, &new)).is_err()
            }
            _ => false,
        }
    };
    Ok(users.into_iter().filter(is_broken).collect())
}

/// Errors: the view's query does not give the columns any more that it gave.
fn still_yields(
    cx: &DdlContext<'_>,
    (before, old): (&Arc<Catalog>, &View),
    (now, new): (&Arc<Catalog>, &View),
) -> Result<()> {
    let columns = |catalog: &Arc<Catalog>, view: &View| {
        let binder = Binder::new(catalog, cx.env.session, cx.datafusion);
        Ok::<_, SqlError>(result_columns(&binder.query(&parse_query(&view.query)?)?))
    };
    let found = columns(now, new)?;
    // CREATE VIEW may have given names of its own, so the query's names are compared with those that it had.
    let had = columns(before, old)?;
    let types = found.iter().zip(&new.columns).all(|(found, (_, ty))| found.ty == Some(*ty));
    let mut names = had.iter().zip(found.iter()).take(new.columns.len());
    let same = names.all(|(had, found)| had.name == found.name);
    match found.len() >= new.columns.len() && types && same {
        true => Ok(()),
        false => Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, "changed")),
    }
}

/// RENAME COLUMN of a view. Errors: 42703, 42701, 2BP01 if a view over the view would mean something else.
pub(super) fn rename_view_column(
    cx: &mut DdlContext<'_>,
    name: &[String],
    from: &str,
    to: &str,
) -> Result<()> {
    let found = cx.owned(name)?;
    let Relation::View(view) = found.relation else {
        return Err(halcyon_catalog::wrong_kind(found.name, "view"));
    };
    let mut view = view.clone();
    let place = |name: &str| view.columns.iter().position(|(own, _)| own == name);
    let Some(at) = place(from) else {
        let message = format!("column \"{from}\" does not exist");
        return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
    };
    if place(to).is_some() {
        let message = format!("column \"{to}\" of relation \"{}\" already exists", view.name);
        return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
    }
    let own = Arc::make_mut(&mut view);
    own.columns[at].0 = to.to_owned();
    if let Some(default) = own.defaults.remove(from) {
        own.defaults.insert(to.to_owned(), default);
    }
    let columns: Vec<String> = own.columns.iter().map(|(name, _)| name.clone()).collect();
    let at = u16::try_from(at).expect("a view has at most 1,664 columns");
    let (schema, name) = (view.schema.clone(), view.name.clone());
    let before = Before::of(cx);
    cx.catalog.put(&schema, &name, Relation::View(view));
    let change = ColumnsChanged::Renamed(at, from);
    column_names::follow(cx, (&schema, &name), &columns, change);
    match broken_queries(cx, &before, &schema, &name)?.first() {
        None => Ok(()),
        Some(user) => view_uses::refuse_if_used(std::slice::from_ref(user), "view", &name),
    }
}
