//! Where types of users are used: columns, stored expressions and queries, domains.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use halcyon_base::ids::TableId;
use halcyon_base::progress::Phase;

use super::{DdlContext, depends};
use halcyon_catalog::{Catalog, Relation, Table, TableKind, TypeKind, UserType};
use halcyon_exec::constraints;
use halcyon_plan::domains::{self, Condition};
use halcyon_plan::user_types;
use halcyon_sql::coerce::Arena;
use halcyon_sql::enums::Definition;
use halcyon_sql::error::Result;

/// The columns that are of a type, or hold arrays of its values.
pub(super) fn columns_of(catalog: &Catalog, own: &UserType) -> Vec<(Arc<Table>, u16)> {
    let tables = catalog.tables.values();
    let columns = tables.flat_map(|table| {
        let is_its = move |at: &u16| {
            let column = &table.columns[usize::from(*at)];
            match own.kind {
                TypeKind::Domain(_) => column.domain == Some(own.id),
                TypeKind::Enum { .. } => column.ty.enumeration() == own.ty().enumeration(),
            }
        };
        (0..table.columns.len() as u16).filter(is_its).map(|at| (Arc::clone(table), at))
    });
    columns.collect()
}

/// Looks at all values of a column that has become one of a domain. Errors: 23502, 23514.
pub(super) fn verify_column(cx: &mut DdlContext<'_>, table: &Arc<Table>, at: u16) -> Result<()> {
    let column = &table.columns[at as usize];
    let own = column.domain.and_then(|id| cx.catalog.type_numbered(id)).cloned();
    let Some(own) = own else { return Ok(()) };
    for condition in domains::conditions(&own, column) {
        if breaks(cx, table, &condition)? {
            return Err(domains::violation(&condition));
        }
    }
    Ok(())
}

/// Whether a row breaks a condition.
pub(super) fn breaks(
    cx: &mut DdlContext<'_>,
    table: &Arc<Table>,
    condition: &Condition,
) -> Result<bool> {
    let program = constraints::compile_check(&cx.binder(), table, &condition.check)?;
    cx.stage_over(table, Phase::CheckingRows)?;
    let (env, mut arena, mut breaks) = (cx.env, Arena::new(), false);
    cx.see_rows(table, |values| {
        breaks = !constraints::holds(&program, values, env, &arena)?;
        arena.reset();
        Ok(if breaks { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(breaks)
}

/// Lets what names a type, and what is told of columns, follow a type that has another schema or name now.
pub(super) fn has_moved(cx: &mut DdlContext<'_>, from: (&str, &str), to: (&str, &str)) {
    if let Some(Relation::Type(moved)) = cx.catalog.schemas[to.0].relations.get(to.1)
        && let TypeKind::Enum { labels, registered } = &moved.kind
        && !registered.is_published()
    {
        registered.define(Definition::new(&moved.schema, &moved.name, labels));
    }
    follow(cx, from, to);
    let renamed = |query: &str| user_types::renamed_in_query(query, from, to);
    let schemas: Vec<String> = cx.catalog.schemas.keys().cloned().collect();
    for schema in schemas {
        let relations: Vec<(String, Relation)> = (cx.catalog.schemas[&schema].relations.iter())
            .map(|(name, relation)| (name.clone(), relation.clone()))
            .collect();
        for (name, relation) in relations {
            if let Relation::View(mut view) = relation
                && let Some(query) = renamed(&view.query)
            {
                Arc::make_mut(&mut view).query = query;
                cx.catalog.put(&schema, &name, Relation::View(view));
            }
        }
    }
    let ids: Vec<TableId> = cx.catalog.tables.keys().copied().collect();
    for id in ids {
        if let TableKind::Materialized(view) = &cx.catalog.table(id).kind
            && let Some(query) = renamed(&view.query)
        {
            let mut view = Arc::clone(view);
            Arc::make_mut(&mut view).query = query;
            cx.catalog.change_table(id, |table| table.kind = TableKind::Materialized(view));
        }
    }
}

/// Lets texts that name a type follow it: defaults, checks, generated columns, keys and conditions of indexes,
/// and those of domains.
fn follow(cx: &mut DdlContext<'_>, from: (&str, &str), to: (&str, &str)) {
    let change = |text: &mut String| {
        if let Some(renamed) = user_types::renamed(text, from, to) {
            *text = renamed;
        }
    };
    let names = |text: &String| user_types::renamed(text, from, to).is_some();
    let ids: Vec<TableId> = cx.catalog.tables.keys().copied().collect();
    for id in ids {
        if texts_of(cx.catalog.table(id)).any(names) {
            cx.catalog.change_table(id, |table| texts_of_mut(table).for_each(change));
        }
    }
    let types: Vec<Arc<UserType>> = cx.catalog.types.values().cloned().collect();
    for own in types {
        let Some(domain) = own.domain() else { continue };
        let checks = domain.checks.iter().map(|check| &check.expr);
        if checks.chain(&domain.default).any(names) {
            let mut changed = (*own).clone();
            if let TypeKind::Domain(domain) = &mut changed.kind {
                domain.default.iter_mut().for_each(change);
                domain.checks.iter_mut().for_each(|check| change(&mut check.expr));
            }
            cx.catalog.put_type(changed);
        }
    }
}

/// The expressions that a table's definition has as texts.
fn texts_of(table: &Table) -> impl Iterator<Item = &String> {
    let columns = table.columns.iter().flat_map(|c| c.default.iter().chain(&c.generated));
    let checks = table.checks.iter().map(|check| &check.expr);
    let derived = table.indexes.iter().filter_map(|index| index.derived.as_ref());
    let keys = derived
        .flat_map(|derived| derived.keys.iter().map(|key| &key.expr).chain(&derived.predicate));
    columns.chain(checks).chain(keys)
}

fn texts_of_mut(table: &mut Table) -> impl Iterator<Item = &mut String> {
    let columns =
        table.columns.iter_mut().flat_map(|c| c.default.iter_mut().chain(&mut c.generated));
    let checks = table.checks.iter_mut().map(|check| &mut check.expr);
    let derived = table.indexes.iter_mut().filter_map(|index| index.derived.as_mut());
    let keys = derived.flat_map(|derived| {
        derived.keys.iter_mut().map(|key| &mut key.expr).chain(&mut derived.predicate)
    });
    columns.chain(checks).chain(keys)
}

/// 2BP01 if others than the relations in `all`, which are dropped as well, use a type that is dropped.
pub(super) fn refuse_used(
    catalog: &Catalog,
    own: &UserType,
    all: &BTreeSet<(String, String)>,
) -> Result<()> {
    let of = format!("type {}", own.name);
    let is_kept = |schema: &String, name: &String| !all.contains(&(schema.clone(), name.clone()));
    let columns = columns_of(catalog, own).into_iter();
    if let Some((table, at)) = columns.into_iter().find(|(t, _)| is_kept(&t.schema, &t.name)) {
        return Err(depends(&of, &shown_column(&table, at)));
    }
    let named = (own.schema.clone(), own.name.clone());
    let asks = |text: &String| user_types::types_of(text).contains(&named);
    let mut tables = catalog.tables.values().filter(|t| is_kept(&t.schema, &t.name));
    if let Some(table) = tables.find(|table| texts_of(table).any(asks)) {
        return Err(depends(&of, &format!("an expression of table {}", table.name)));
    }
    let is_over = |user: &&Arc<UserType>| {
        let base = user.domain().and_then(|domain| domain.base.enumeration());
        base.is_some() && own.domain().is_none() && base == own.ty().enumeration()
    };
    match catalog.types.values().filter(is_over).find(|user| is_kept(&user.schema, &user.name)) {
        Some(user) => Err(depends(&of, &format!("type {}", user.name))),
        None => Ok(()),
    }
}

/// A column as messages name it.
pub(super) fn shown_column(table: &Table, at: u16) -> String {
    format!("column {} of table {}", table.columns[usize::from(at)].name, table.name)
}
