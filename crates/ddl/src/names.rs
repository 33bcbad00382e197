//! Names in messages, and other names for schemas.

use std::sync::Arc;

use super::{DdlContext, type_uses};
use halcyon_catalog::temporary::is_temporary;
use halcyon_catalog::{Relation, SCHEMAS};
use halcyon_sql::error::{Result, SqlError, SqlState};

/// A name as it stands in defaults of serial columns, which are stored and searched for it.
///
/// Unlike `quote_ident`, which follows PostgreSQL's list of reserved words, the rule here must never
/// change: defaults that an older program stored would no longer be found.
pub(super) fn quoted(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    match plain {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// Gives a schema another name, and its relations with it.
pub(super) fn rename_schema(cx: &mut DdlContext<'_>, from: &str, to: &str) -> Result<()> {
    if SCHEMAS.contains(&from) || is_temporary(from) {
        return Err(SqlError::new(
            SqlState::INSUFFICIENT_PRIVILEGE,
            format!("schema \"{from}\" belongs to the system"),
        ));
    }
    if cx.catalog.schemas.contains_key(to) {
        return Err(SqlError::new(
            SqlState::DUPLICATE_SCHEMA,
            format!("schema \"{to}\" already exists"),
        ));
    }
    if cx.catalog.schemas.get(from).is_some_and(|schema| !schema.collations.is_empty()) {
        return Err(SqlError::unsupported("another name for a schema that has collations"));
    }
    let views = super::view_uses::users_of_schema(cx.catalog, from);
    super::view_uses::refuse_if_used(&views, "schema", from)?;
    super::default_rights::schema_is_gone(cx.catalog, from, Some(to));
    let mut schema = cx.catalog.schemas.remove(from).expect("the caller has found it");
    let own = Arc::make_mut(&mut schema);
    own.name = to.to_owned();
    let mut types = Vec::new();
    for relation in own.relations.values_mut() {
        match relation {
            Relation::Table(table) => {
                let own = Arc::make_mut(table);
                own.schema = to.to_owned();
                cx.catalog.tables.insert(own.id, table.clone());
            }
            Relation::View(view) => Arc::make_mut(view).schema = to.to_owned(),
            Relation::Sequence(sequence) => Arc::make_mut(sequence).schema = to.to_owned(),
            Relation::Type(own) => {
                let moved = Arc::make_mut(own);
                moved.schema = to.to_owned();
                types.push(moved.name.clone());
                cx.catalog.types.insert(moved.id, Arc::clone(own));
            }
            Relation::Index { .. } => {}
        }
    }
    cx.catalog.schemas.insert(to.to_owned(), schema);
    for name in &types {
        type_uses::has_moved(cx, (from, name), (to, name));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_where_they_must() {
        assert_eq!(quoted("abc_1"), "abc_1");
        assert_eq!(quoted("a\"B"), "\"a\"\"B\"");
        assert_eq!(quoted("1a"), "\"1a\"");
    }
}
