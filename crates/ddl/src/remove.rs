//! DROP, with what depends on the dropped.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{ObjectName, ObjectType};
use halcyon_base::ids::TableId;

use super::constraint::unmirror;
use super::{
    DdlContext, depends, feeds, index, materialized, names, parts, role, sequence, type_uses,
    view_uses,
};
use halcyon_catalog::{Catalog, Found, OnCommit, Relation, SCHEMAS, Table};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::last;

/// The command tag; `None` for objects that are not ours.
pub(super) fn tag(kind: &ObjectType) -> Option<&'static str> {
    Some(match kind {
        ObjectType::Table => "DROP TABLE",
        ObjectType::View => "DROP VIEW",
        ObjectType::MaterializedView => "DROP MATERIALIZED VIEW",
        ObjectType::Stream => "DROP STREAM",
        ObjectType::Index => "DROP INDEX",
        ObjectType::Sequence => "DROP SEQUENCE",
        ObjectType::Schema => "DROP SCHEMA",
        ObjectType::Role | ObjectType::User => "DROP ROLE",
        _ => return None,
    })
}

/// DROP of any kind.
pub(super) fn drop(
    cx: &mut DdlContext<'_>,
    kind: &ObjectType,
    if_exists: bool,
    names: &[ObjectName],
    cascade: bool,
) -> Result<()> {
    match kind {
        ObjectType::Schema => drop_schemas(cx, if_exists, names, cascade),
        ObjectType::Role | ObjectType::User => role::drop(cx, if_exists, names),
        _ => {
            let word = kind.to_string().to_lowercase();
            let mut wanted = Vec::new();
            for name in names {
                wanted.extend(find(cx, &word, &parts(name)?, if_exists)?);
            }
            drop_relations(cx, wanted, cascade)
        }
    }
}

/// Schema and name of the relation; `None` if it does not exist and need not.
fn find(
    cx: &mut DdlContext<'_>,
    kind: &str,
    name: &[String],
    if_exists: bool,
) -> Result<Option<(String, String)>> {
    match cx.catalog.resolve(name, cx.search_path()) {
        None => {
            let shown = name.join(".");
            let message = format!("{kind} \"{shown}\" does not exist");
            if if_exists {
                cx.notice(SqlState::UNDEFINED_TABLE, format!("{message}, skipping"));
                return Ok(None);
            }
            let state = match kind {
                "index" => SqlState::UNDEFINED_OBJECT,
                _ => SqlState::UNDEFINED_TABLE,
            };
            Err(SqlError::new(state, message))
        }
        Some(found) if found.relation.kind() != kind => {
            let is = found.relation.kind();
            Err(halcyon_catalog::wrong_kind(found.name, kind)
                .hint(format!("Use DROP {} to remove it.", is.to_uppercase())))
        }
        Some(_) => {
            let Found { schema, name, .. } = cx.owned(name)?;
            Ok(Some((schema.name.clone(), name.to_owned())))
        }
    }
}

/// Drops the tables of the temporary schema that are ON COMMIT DROP, with all that depends on them.
///
/// Errors: those of a wait for locks.
pub fn drop_at_commit(cx: &mut DdlContext<'_>, schema: &str) -> Result<()> {
    let goes = |table: &&Arc<Table>| table.on_commit == OnCommit::Drop;
    let going = cx.catalog.schemas[schema].tables().filter(goes);
    let going = going.map(|table| (schema.to_owned(), table.name.clone())).collect();
    drop_relations(cx, going, true)
}

/// Drops relations and, with CASCADE, what depends on them; without, 2BP01 if anything outside
/// the list does.
pub(super) fn drop_relations(
    cx: &mut DdlContext<'_>,
    wanted: Vec<(String, String)>,
    cascade: bool,
) -> Result<()> {
    let mut all: BTreeSet<(String, String)> = wanted.iter().cloned().collect();
    let mut open = wanted;
    let mut dropped_keys: Vec<(TableId, String)> = Vec::new();
    while let Some((schema, name)) = open.pop() {
        let relation = cx.catalog.schemas[&schema].relations[&name].clone();
        let of = format!("{} {name}", relation.kind());
        for user in view_uses::users_of(cx.catalog, &schema, &name) {
            if all.contains(&user) {
                continue;
            }
            let kind = cx.catalog.schemas[&user.0].relations[&user.1].kind();
            let user_shown = format!("{kind} {}", user.1);
            if !cascade {
                return Err(depends(&of, &user_shown));
            }
            cx.notice(SqlState::SUCCESSFUL_COMPLETION, format!("drop cascades to {user_shown}"));
            all.insert(user.clone());
            open.push(user);
        }
        match &relation {
            Relation::Table(table) => {
                cx.refuse_pending(table, "DROP TABLE")?;
                refuse_guarded(cx, table, cascade)?;
                for (referrer, key) in &table.referenced_by {
                    let other = cx.catalog.table(*referrer);
                    let listed = all.contains(&(other.schema.clone(), other.name.clone()));
                    if !listed && !cascade {
                        return Err(depends(
                            &of,
                            &format!("constraint {key} on table {}", other.name),
                        ));
                    }
                    dropped_keys.push((*referrer, key.clone()));
                }
            }
            Relation::Index { table, index } => {
                let table = cx.catalog.table(*table);
                let index = table.index(*index).expect("a named index is its table's");
                if index.constraint.is_some() {
                    return Err(SqlError::new(
                        SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                        format!(
                            "cannot drop index {name} because constraint {name} on table {} \
                             requires it",
                            table.name
                        ),
                    )
                    .hint(format!(
                        "You can drop constraint {name} on table {} instead.",
                        table.name
                    )));
                }
                refuse_needed_by_keys(cx.catalog, table, index)?;
            }
            Relation::Sequence(sequence) => {
                if let Some(default) = default_with(cx.catalog, &schema, &name) {
                    if !cascade {
                        return Err(depends(&of, &default.1));
                    }
                    cx.catalog.change_table(default.0, |table| {
                        let uses = |text: &String| mentions_sequence(text, &schema, &name);
                        for column in &mut table.columns {
                            column.default = column.default.take().filter(|text| !uses(text));
                        }
                    });
                }
                refuse_identity(cx.catalog, sequence)?;
            }
            Relation::Type(own) => {
                type_uses::refuse_used(cx.catalog, own, &all)?;
            }
            Relation::View(_) => {}
        }
    }
    for (referrer, key) in dropped_keys {
        drop_foreign_key(cx.catalog, referrer, &key);
    }
    for (schema, name) in all {
        drop_one(cx, &schema, &name)?;
    }
    Ok(())
}

/// 2BP01 if assertions speak of the view; with CASCADE they go with it.
fn refuse_guarded(
    cx: &mut DdlContext<'_>,
    table: &halcyon_catalog::Table,
    cascade: bool,
) -> Result<()> {
    for guard in table.materialized().iter().flat_map(|view| &view.guards) {
        let shown = format!("assertion {}", guard.name);
        if !cascade {
            return Err(depends(&format!("materialized view {}", table.name), &shown));
        }
        cx.notice(SqlState::SUCCESSFUL_COMPLETION, format!("drop cascades to {shown}"));
    }
    Ok(())
}

/// A plain unique index may be what a foreign key refers to.
fn refuse_needed_by_keys(
    catalog: &Catalog,
    table: &halcyon_catalog::Table,
    index: &halcyon_catalog::Index,
) -> Result<()> {
    match needed_by(catalog, table, index) {
        Some((other, key)) => Err(depends(
            &format!("index {}", index.name),
            &format!("constraint {key} on table {other}"),
        )),
        None => Ok(()),
    }
}

/// A foreign key that refers to the columns of this unique index while no other unique index has
/// them: (table, constraint).
pub(super) fn needed_by(
    catalog: &Catalog,
    table: &halcyon_catalog::Table,
    index: &halcyon_catalog::Index,
) -> Option<(String, String)> {
    if !index.unique {
        return None;
    }
    table.referenced_by.iter().find_map(|(referrer, name)| {
        let other = catalog.table(*referrer);
        let key = other.foreign_keys.iter().find(|key| key.name == *name)?;
        let another = table
            .indexes
            .iter()
            .any(|i| i.id != index.id && i.unique && i.covers_exactly(&key.target_columns));
        (index.covers_exactly(&key.target_columns) && !another)
            .then(|| (other.name.clone(), name.clone()))
    })
}

/// The column whose DEFAULT asks this sequence: (table, its description).
fn default_with(catalog: &Catalog, schema: &str, name: &str) -> Option<(TableId, String)> {
    catalog.tables.values().find_map(|table| {
        let column = table.columns.iter().find(|column| {
            column.default.as_ref().is_some_and(|text| mentions_sequence(text, schema, name))
        })?;
        Some((
            table.id,
            format!("default value for column {} of table {}", column.name, table.name),
        ))
    })
}

fn mentions_sequence(default: &str, schema: &str, name: &str) -> bool {
    let (schema, name) = (names::quoted(schema), names::quoted(name));
    default.contains(&format!("'{schema}.{name}'")) || default.contains(&format!("'{name}'"))
}

fn refuse_identity(catalog: &Catalog, sequence: &halcyon_catalog::Sequence) -> Result<()> {
    let Some((table, column)) = sequence.owned_by else { return Ok(()) };
    let table = catalog.table(table);
    let column = &table.columns[column as usize];
    match &column.identity {
        Some(identity) if identity.sequence == sequence.name => Err(SqlError::new(
            SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
            format!(
                "cannot drop sequence {} because column {} of table {} requires it",
                sequence.name, column.name, table.name
            ),
        )
        .hint(format!("You can drop column {} of table {} instead.", column.name, table.name))),
        _ => Ok(()),
    }
}

/// Takes a foreign key away, and its note at the target.
pub(super) fn drop_foreign_key(catalog: &mut Catalog, table: TableId, name: &str) {
    let key = catalog.change_table(table, |table| {
        let at = table.foreign_keys.iter().position(|key| key.name == name);
        at.map(|at| table.foreign_keys.remove(at))
    });
    if let Some(key) = key {
        unmirror(catalog, table, &key);
    }
}

fn drop_one(cx: &mut DdlContext<'_>, schema: &str, name: &str) -> Result<()> {
    let Some(relation) = cx.catalog.schemas[schema].relations.get(name).cloned() else {
        return Ok(()); // dropped with another relation of the list
    };
    match relation {
        Relation::Table(table) => {
            // Transactions that still use the table end first.
            cx.lock(&table)?;
            let table = cx.catalog.table(table.id).clone();
            for key in &table.foreign_keys {
                unmirror(cx.catalog, table.id, key);
            }
            if let Some(view) = table.materialized() {
                materialized::detach(cx, table.id, view);
            }
            for index in &table.indexes {
                cx.catalog.remove(schema, &index.name);
            }
            for sequence in sequence::of_table(cx, &table, None) {
                cx.catalog.remove(schema, &sequence);
            }
            cx.catalog.remove(schema, name);
        }
        Relation::Index { table, index } => {
            let table = cx.catalog.table(table).clone();
            let own = table.index(index).expect("a named index is its table's").clone();
            let before = feeds::Before::of(cx);
            index::detach(cx, &table, &own)?;
            feeds::rely_on_less(cx, &before, table.id, &format!("drop index {name}"))?;
        }
        Relation::View(_) | Relation::Sequence(_) | Relation::Type(_) => {
            cx.catalog.remove(schema, name);
        }
    }
    Ok(())
}

pub(super) fn drop_schemas(
    cx: &mut DdlContext<'_>,
    if_exists: bool,
    names: &[ObjectName],
    cascade: bool,
) -> Result<()> {
    for name in names {
        let name = last(name)?;
        let Some(schema) = cx.catalog.schemas.get(&name).cloned() else {
            let missing = halcyon_catalog::undefined_schema(&name);
            if !if_exists {
                return Err(missing);
            }
            cx.notice(missing.state(), format!("{}, skipping", missing.message()));
            continue;
        };
        if SCHEMAS[1..].contains(&name.as_str()) {
            return Err(SqlError::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!("cannot drop schema {name} because it is required by the database system"),
            ));
        }
        cx.catalog.require_owner(cx.user(), &schema.owner, "schema", &name)?;
        // Indexes and owned sequences go with their tables.
        let with_table = |relation: &Relation| match relation {
            Relation::Index { .. } => true,
            Relation::Sequence(sequence) => sequence.owned_by.is_some(),
            _ => false,
        };
        let wanted: Vec<(String, String)> = schema
            .relations
            .iter()
            .filter(|(_, relation)| !with_table(relation))
            .map(|(relation, _)| (name.clone(), relation.clone()))
            .collect();
        if let (Some((_, first)), false) = (wanted.first(), cascade) {
            let kind = schema.relations[first].kind();
            return Err(depends(&format!("schema {name}"), &format!("{kind} {first}")));
        }
        if let (Some(first), false) = (schema.collations.keys().next(), cascade) {
            return Err(depends(&format!("schema {name}"), &format!("collation {first}")));
        }
        drop_relations(cx, wanted, true)?;
        for own in schema.collations.values() {
            super::collation_uses::refuse_used(cx.catalog, &own.collation)?;
        }
        cx.catalog.schemas.remove(&name);
        super::default_rights::schema_is_gone(cx.catalog, &name, None);
    }
    Ok(())
}
