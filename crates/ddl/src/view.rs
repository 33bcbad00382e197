//! Views: CREATE [OR REPLACE] VIEW, and which views use which relations.
//!
//! A view is stored as text with every relation's schema written out, so that it means the same
//! under any search path. What it uses is read from that text.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{CreateView, Query};

use super::{DdlContext, alter_view, fold, temporary};
use halcyon_catalog::{Catalog, Relation, View};
use halcyon_exec::dml::compound::refuse_writes;
use halcyon_plan::bind::result_columns;
use halcyon_plan::stored_names::{qualify, relations_of, used_by};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::parse::parse_query;
use halcyon_sql::types::SqlType;

/// CREATE [OR REPLACE] VIEW.
pub(super) fn create(cx: &mut DdlContext<'_>, create: &CreateView) -> Result<()> {
    refuse_writes(&create.query, "views")?;
    let mut query = (*create.query).clone();
    qualify(cx.catalog, cx.search_path(), &mut query);
    let (schema, name) = temporary::place_of_view(cx, create, &query)?;
    let present = cx.catalog.schemas[&schema].relations.get(&name).cloned();
    match &present {
        Some(Relation::View(_)) if create.or_replace => {
            cx.owned(&[schema.clone(), name.clone()])?;
        }
        Some(_) if create.or_replace => return Err(halcyon_catalog::wrong_kind(&name, "view")),
        Some(_) if create.if_not_exists => {
            cx.notice(
                SqlState::DUPLICATE_TABLE,
                format!("relation \"{name}\" already exists, skipping"),
            );
            return Ok(());
        }
        Some(_) => cx.catalog.refuse_taken(&schema, &name)?,
        None => {}
    }
    let plan = cx.binder().query(&query)?;
    let columns = columns(&result_columns(&plan), create)?;
    let query_text = query.to_string();
    let options = alter_view::options(&create.options)?;
    let view = match present {
        Some(Relation::View(old)) => {
            refuse_changed_columns(&old, &columns)?;
            refuse_cycle(cx.catalog, &query, &schema, &name)?;
            View { query: query_text, columns, options, ..(*old).clone() }
        }
        _ => View {
            oid: cx.catalog.ids.oid(),
            schema: schema.clone(),
            name: name.clone(),
            query: query_text,
            columns,
            owner: cx.user().to_owned(),
            grants: Vec::new(),
            comment: None,
            options,
            defaults: Default::default(),
        },
    };
    let view = Arc::new(view);
    alter_view::refuse_check_option(cx.catalog, &view)?;
    cx.catalog.put(&schema, &name, Relation::View(view));
    Ok(())
}

fn columns(
    found: &[halcyon_sql::rows::ResultColumn],
    create: &CreateView,
) -> Result<Vec<(String, SqlType)>> {
    if create.columns.len() > found.len() {
        return Err(SqlError::new(
            SqlState::INVALID_TABLE_DEFINITION,
            "CREATE VIEW specifies more column names than columns",
        ));
    }
    let mut seen = HashSet::new();
    let mut columns = Vec::new();
    for (at, column) in found.iter().enumerate() {
        let name = match create.columns.get(at) {
            Some(given) => fold(&given.name),
            None => column.name.clone(),
        };
        if !seen.insert(name.clone()) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{name}\" specified more than once"),
            ));
        }
        let ty = column.ty.ok_or_else(|| {
            SqlError::unsupported(format!("a view's column of type {}", column.field.data_type()))
        })?;
        columns.push((name, ty));
    }
    Ok(columns)
}

/// RENAME COLUMN. Errors: 42703, 42701, 2BP01 while other views name the view.
pub(super) fn rename_column(
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
    refuse_if_used(&users_of(cx.catalog, &view.schema, &view.name), "view", &view.name)?;
    let own = Arc::make_mut(&mut view);
    own.columns[at].0 = to.to_owned();
    if let Some(default) = own.defaults.remove(from) {
        own.defaults.insert(to.to_owned(), default);
    }
    let (schema, name) = (view.schema.clone(), view.name.clone());
    cx.catalog.put(&schema, &name, Relation::View(view));
    Ok(())
}

/// 42P16: OR REPLACE may add columns at the end, and change nothing before.
fn refuse_changed_columns(old: &View, new: &[(String, SqlType)]) -> Result<()> {
    let bad = |message: String| Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
    if new.len() < old.columns.len() {
        return bad("cannot drop columns from view".to_owned());
    }
    for ((old_name, old_type), (name, ty)) in old.columns.iter().zip(new) {
        if old_name != name {
            return bad(format!("cannot change name of view column \"{old_name}\" to \"{name}\""));
        }
        if old_type != ty {
            return bad(format!(
                "cannot change data type of view column \"{name}\" from {old_type} to {ty}"
            ));
        }
    }
    Ok(())
}

/// 42P17: a view that would use itself.
fn refuse_cycle(catalog: &Catalog, query: &Query, schema: &str, name: &str) -> Result<()> {
    let mut open: Vec<(String, String)> = relations_of(query);
    let mut seen = HashSet::new();
    while let Some(used) = open.pop() {
        if used == (schema.to_owned(), name.to_owned()) {
            return Err(SqlError::new(
                SqlState::INVALID_OBJECT_DEFINITION,
                format!("infinite recursion detected in view \"{name}\""),
            ));
        }
        if !seen.insert(used.clone()) {
            continue;
        }
        let relation = catalog.schemas.get(&used.0).and_then(|s| s.relations.get(&used.1));
        if let Some(Relation::View(view)) = relation {
            open.extend(used_by(&view.query));
        }
    }
    Ok(())
}

/// Views of both kinds, with the relations that each uses directly.
fn views(catalog: &Catalog) -> impl Iterator<Item = ((String, String), Vec<(String, String)>)> {
    let relations = catalog.schemas.values().flat_map(|schema| schema.relations.values());
    relations.filter_map(|relation| {
        let (schema, name, query) = match relation {
            Relation::View(view) => (&view.schema, &view.name, &view.query),
            Relation::Table(table) => (&table.schema, &table.name, &table.materialized()?.query),
            _ => return None,
        };
        Some(((schema.clone(), name.clone()), used_by(query)))
    })
}

/// Views that use a relation directly: (schema, name).
pub(super) fn users_of(catalog: &Catalog, schema: &str, name: &str) -> Vec<(String, String)> {
    let wanted = (schema.to_owned(), name.to_owned());
    views(catalog).filter(|(_, uses)| uses.contains(&wanted)).map(|(view, _)| view).collect()
}

/// Views that use any relation of a schema directly.
pub(super) fn users_of_schema(catalog: &Catalog, schema: &str) -> Vec<(String, String)> {
    let uses_it = |uses: &[(String, String)]| uses.iter().any(|(used, _)| used == schema);
    views(catalog).filter(|(_, uses)| uses_it(uses)).map(|(view, _)| view).collect()
}

/// 2BP01 if views would lose what their text names.
pub(super) fn refuse_if_used(users: &[(String, String)], kind: &str, name: &str) -> Result<()> {
    match users.first() {
        None => Ok(()),
        Some((_, view)) => Err(SqlError::new(
            SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
            format!("cannot change {kind} {name} because other objects depend on it"),
        )
        .detail(format!("view {view} depends on {kind} {name}"))
        .hint("Drop the view first and create it again.")),
    }
}

/// 2BP01 if a view over the table no longer yields its columns after a change of the table.
pub(super) fn refuse_if_broken(
    cx: &DdlContext<'_>,
    schema: &str,
    name: &str,
    what: &str,
) -> Result<()> {
    refuse_if_feeding(cx.catalog, schema, name, what)?;
    refuse_if_query_broken(cx, schema, name, what)
}

/// The part of [`refuse_if_broken`] that looks at plain views alone.
pub(super) fn refuse_if_query_broken(
    cx: &DdlContext<'_>,
    schema: &str,
    name: &str,
    what: &str,
) -> Result<()> {
    let users = users_of(cx.catalog, schema, name);
    if users.is_empty() {
        return Ok(());
    }
    let now = Arc::new(cx.catalog.clone());
    for (view_schema, view_name) in users {
        let Relation::View(view) = &now.schemas[&view_schema].relations[&view_name] else {
            continue;
        };
        let still = cx.binder_now(&now, |binder| {
            let plan = binder.query(&parse_query(&view.query)?)?;
            let found = result_columns(&plan);
            let same = found.len() >= view.columns.len()
                && found.iter().zip(&view.columns).all(|(found, (_, ty))| found.ty == Some(*ty));
            // CREATE VIEW may have given names of its own, so the query's names are compared with those that it had.
            let before = cx.binder().query(&parse_query(&view.query)?)?;
            let before = result_columns(&before);
            let mut names = before.iter().zip(found.iter()).take(view.columns.len());
            match same && names.all(|(before, found)| before.name == found.name) {
                true => Ok(()),
                false => Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, "changed")),
            }
        });
        if still.is_err() {
            return Err(SqlError::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!("cannot {what} because other objects depend on it"),
            )
            .detail(format!("view {view_name} depends on table {name}"))
            .hint("Drop the view first and create it again."));
        }
    }
    Ok(())
}

/// 2BP01 if a materialized view follows the rows of the table, which it knows by the positions of
/// their columns. New ones come last.
fn refuse_if_feeding(catalog: &Catalog, schema: &str, name: &str, what: &str) -> Result<()> {
    let Relation::Table(table) = &catalog.schemas[schema].relations[name] else { return Ok(()) };
    match table.feeds.first() {
        Some(fed) if what != "add column" => {
            let view = &catalog.table(*fed).name;
            Err(SqlError::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!("cannot {what} because other objects depend on it"),
            )
            .detail(format!("materialized view {view} depends on table {name}"))
            .hint("Drop the view first and create it again."))
        }
        _ => Ok(()),
    }
}
