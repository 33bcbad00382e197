//! Names as the parser gives them, folded as PostgreSQL folds them.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart};

use super::DdlContext;
use crate::catalog::{Relation, SCHEMAS};
use crate::error::{Result, SqlError, SqlState};

/// An identifier: as written if quoted, else in lower case.
pub(crate) fn fold(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// The parts of a dotted name. Errors: 42602 for names computed by functions.
pub(crate) fn parts(name: &ObjectName) -> Result<Vec<String>> {
    let part = |part: &ObjectNamePart| match part {
        ObjectNamePart::Identifier(ident) => Ok(fold(ident)),
        ObjectNamePart::Function(_) => {
            Err(SqlError::new(SqlState::INVALID_NAME, format!("\"{name}\" is not a name")))
        }
    };
    name.0.iter().map(part).collect()
}

/// The last part of a dotted name.
pub(super) fn last(name: &ObjectName) -> Result<String> {
    let mut parts = parts(name)?;
    parts.pop().ok_or_else(|| SqlError::new(SqlState::INVALID_NAME, "a name is missing"))
}

/// A name as it is written in SQL, quoted where it must be.
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
    if SCHEMAS.contains(&from) {
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
    let views = super::view::users_of_schema(cx.catalog, from);
    super::view::refuse_if_used(&views, "schema", from)?;
    let mut schema = cx.catalog.schemas.remove(from).expect("the caller has found it");
    let own = Arc::make_mut(&mut schema);
    own.name = to.to_owned();
    for relation in own.relations.values_mut() {
        match relation {
            Relation::Table(table) => {
                let own = Arc::make_mut(table);
                own.schema = to.to_owned();
                cx.catalog.tables.insert(own.id, table.clone());
            }
            Relation::View(view) => Arc::make_mut(view).schema = to.to_owned(),
            Relation::Sequence(sequence) => Arc::make_mut(sequence).schema = to.to_owned(),
            Relation::Index { .. } => {}
        }
    }
    cx.catalog.schemas.insert(to.to_owned(), schema);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fold_unless_quoted() {
        assert_eq!(fold(&Ident::new("ABC")), "abc");
        assert_eq!(fold(&Ident::with_quote('"', "ABC")), "ABC");
        assert_eq!(quoted("abc_1"), "abc_1");
        assert_eq!(quoted("a\"B"), "\"a\"\"B\"");
        assert_eq!(quoted("1a"), "\"1a\"");
    }
}
