//! COMMENT ON.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Ident, ObjectName};

use super::{DdlContext, fold, parts, role};
use halcyon_catalog::{Catalog, Relation, TypeKind};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::syntax::{CommentOn, Commented};

/// Gives an object a comment, or takes it away. Errors: those of the object's name; 42501, 42809.
pub(super) fn comment_on(cx: &mut DdlContext<'_>, statement: &CommentOn) -> Result<()> {
    let text = statement.text.clone().filter(|text| !text.is_empty());
    match &statement.object {
        Commented::Relation { kind, name } => {
            let name = parts(name)?;
            if statement.if_exists && cx.catalog.resolve(&name, cx.search_path()).is_none() {
                return Ok(());
            }
            of_relation(cx, kind, &name, text)
        }
        Commented::Column(name) => of_column(cx, &parts(name)?, text),
        Commented::Constraint { name, of, domain: false } => of_constraint(cx, name, of, text),
        Commented::Constraint { name, of, domain: true } => {
            of_domain_constraint(cx, name, of, text)
        }
        Commented::Schema(name) => {
            let name = fold(name);
            let owner = cx.catalog.schema(&name)?.owner.clone();
            cx.catalog.require_owner(cx.user(), &owner, "schema", &name)?;
            cx.catalog.schema_mut(&name).comment = text;
            Ok(())
        }
        Commented::Role(name) => role::comment(cx, &fold(name), text),
        Commented::Database(name) => of_database(cx, &fold(name), text),
        Commented::Extension(_) => Ok(()),
    }
}

fn of_relation(
    cx: &mut DdlContext<'_>,
    kind: &str,
    name: &[String],
    text: Option<String>,
) -> Result<()> {
    let found = cx.owned(name)?;
    let (schema, name) = (found.schema.name.clone(), found.name.to_owned());
    let wanted = kind.to_lowercase();
    if found.relation.kind() != wanted {
        return Err(halcyon_catalog::wrong_kind(&name, &wanted));
    }
    let relation = found.relation.clone();
    put(cx.catalog, &schema, &name, relation, text);
    Ok(())
}

fn put(catalog: &mut Catalog, schema: &str, name: &str, relation: Relation, text: Option<String>) {
    match relation {
        Relation::Table(table) => catalog.change_table(table.id, |table| table.comment = text),
        Relation::View(mut view) => {
            Arc::make_mut(&mut view).comment = text;
            catalog.put(schema, name, Relation::View(view));
        }
        Relation::Sequence(mut sequence) => {
            Arc::make_mut(&mut sequence).comment = text;
            catalog.put(schema, name, Relation::Sequence(sequence));
        }
        Relation::Type(mut own) => {
            Arc::make_mut(&mut own).comment = text;
            catalog.put(schema, name, Relation::Type(own));
        }
        Relation::Index { table, index } => catalog.change_table(table, |table| {
            let found = table.indexes.iter_mut().find(|own| own.id == index);
            found.expect("a named index is its table's").comment = text;
        }),
    }
}

fn of_column(cx: &mut DdlContext<'_>, name: &[String], text: Option<String>) -> Result<()> {
    let [relation @ .., column] = name else {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "a column is missing"));
    };
    if relation.is_empty() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "column name must be qualified"));
    }
    let table = cx.owned_table(relation)?;
    let at = table.require_column(column)?;
    cx.catalog.change_table(table.id, |table| table.columns[at as usize].comment = text);
    Ok(())
}

fn missing(name: &str, of: &str) -> SqlError {
    let message = format!("constraint \"{name}\" for {of} does not exist");
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}

/// A constraint's index may have another comment of its own.
fn of_constraint(
    cx: &mut DdlContext<'_>,
    name: &Ident,
    of: &ObjectName,
    text: Option<String>,
) -> Result<()> {
    let (table, name) = (cx.owned_table(&parts(of)?)?, fold(name));
    let is_there = cx.catalog.change_table(table.id, |table| {
        let checks = table.checks.iter_mut().map(|check| (&check.name, &mut check.comment));
        let keys = table.foreign_keys.iter_mut().map(|key| (&key.name, &mut key.comment));
        let indexes = table.indexes.iter_mut().filter(|index| index.constraint.is_some());
        let indexes = indexes.map(|index| (&index.name, &mut index.constraint_comment));
        let place = checks.chain(keys).chain(indexes).find(|(own, _)| **own == name);
        place.map(|(_, comment)| *comment = text).is_some()
    });
    match is_there {
        true => Ok(()),
        false => Err(missing(&name, &format!("table \"{}\"", table.name))),
    }
}

fn of_domain_constraint(
    cx: &mut DdlContext<'_>,
    name: &Ident,
    of: &ObjectName,
    text: Option<String>,
) -> Result<()> {
    let (mut own, name) = (cx.owned_type(of, true)?, fold(name));
    let shown = format!("domain {}", own.name);
    let TypeKind::Domain(domain) = &mut own.kind else { return Err(missing(&name, &shown)) };
    let check = domain.checks.iter_mut().find(|check| check.name == name);
    check.ok_or_else(|| missing(&name, &shown))?.comment = text;
    cx.catalog.put_type(own);
    Ok(())
}

/// There is one database, under the name by which the session has come.
fn of_database(cx: &mut DdlContext<'_>, name: &str, text: Option<String>) -> Result<()> {
    if *name != cx.env.session.database {
        // A warning, as in PostgreSQL: dumps name the database that they were made of.
        let message = format!("database \"{name}\" does not exist");
        cx.notice(SqlState::INVALID_CATALOG_NAME, message);
        return Ok(());
    }
    if !cx.catalog.is_superuser(cx.user()) {
        let message = format!("must be owner of database {name}");
        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
    }
    cx.catalog.comment = text;
    Ok(())
}
