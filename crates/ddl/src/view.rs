//! Views: CREATE [OR REPLACE] VIEW.
//!
//! A view is stored as text with every relation's schema written out, so that it means the same
//! under any search path.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{CreateView, Query};

use super::{DdlContext, alter_view, fold, temporary};
use halcyon_catalog::{Catalog, Relation, View};
use halcyon_exec::dml::compound::refuse_writes;
use halcyon_plan::bind::result_columns;
use halcyon_plan::stored_names::{qualify, relations_of, used_by};
use halcyon_sql::error::{Result, SqlError, SqlState};
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
