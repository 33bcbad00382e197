//! `ADD CONSTRAINT … PRIMARY KEY | UNIQUE USING INDEX i`: an index that is there becomes a constraint's, and gets its name.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::ConstraintUsingIndex;

use super::{DdlContext, fold, index};
use halcyon_catalog::{Index, IndexConstraint, Table};
use halcyon_sql::error::{Result, SqlError, SqlState};

/// The columns of the index, if it may become a constraint of this kind.
///
/// Errors: 42704 for an index that the table has not; 55000 for one of a constraint; 42809 for one that is not unique, is over
/// more than columns, or has another order than theirs; 42P16 for a second primary key; 0A000 for DEFERRABLE.
pub(super) fn columns(
    table: &Table,
    kind: IndexConstraint,
    given: &ConstraintUsingIndex,
) -> Result<Vec<u16>> {
    let index = find(table, given)?;
    let name = &index.name;
    let wrong = |message: String| {
        let detail = "Cannot create a primary key or unique constraint using such an index.";
        Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).detail(detail))
    };
    if index.constraint.is_some() {
        let message = format!("index \"{name}\" is already associated with a constraint");
        return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
    }
    if !index.unique {
        return wrong(format!("\"{name}\" is not a unique index"));
    }
    if let Some(derived) = &index.derived {
        return wrong(match derived.predicate {
            Some(_) => format!("\"{name}\" is a partial index"),
            None => format!("index \"{name}\" contains expressions"),
        });
    }
    let is_odd = |at: usize, key: &halcyon_catalog::IndexColumn| {
        let position = u16::try_from(at).expect("an index has few columns");
        key.descending
            || key.nulls_first
            || index.operator_classes.contains_key(&position)
            || index.collations.contains_key(&position)
    };
    if let Some((at, _)) = index.columns.iter().enumerate().find(|(at, key)| is_odd(*at, key)) {
        let number = at + 1;
        return wrong(format!(
            "index \"{name}\" column number {number} does not have default sorting behavior"
        ));
    }
    if kind == IndexConstraint::PrimaryKey && table.primary_key().is_some() {
        let message = format!("multiple primary keys for table \"{}\" are not allowed", table.name);
        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
    }
    let asked = given.characteristics.as_ref();
    if asked.is_some_and(|asked| asked.deferrable == Some(true)) {
        return Err(SqlError::unsupported("a DEFERRABLE constraint USING INDEX")
            .hint("Add the constraint with its columns: it builds an index of its own."));
    }
    Ok(index.columns.iter().map(|key| key.column).collect())
}

/// Makes the index the constraint's; a constraint of another name gives it to the index.
///
/// Errors: 42704; 42P07 for a name that is taken.
pub(super) fn attach(
    cx: &mut DdlContext<'_>,
    table: &Arc<Table>,
    kind: IndexConstraint,
    given: &ConstraintUsingIndex,
) -> Result<()> {
    let index = find(table, given)?;
    let (id, from) = (index.id, index.name.clone());
    cx.catalog.change_table(table.id, |table| {
        let own = table.indexes.iter_mut().find(|own| own.id == id);
        own.expect("the index is the table's").constraint = Some(kind);
    });
    let to = given.name.as_ref().map_or_else(|| from.clone(), fold);
    if to == from {
        return Ok(());
    }
    cx.notice(
        SqlState::SUCCESSFUL_COMPLETION,
        format!(
            "ALTER TABLE / ADD CONSTRAINT USING INDEX will rename index \"{from}\" to \"{to}\""
        ),
    );
    index::rename(cx, table.id, id, &to)
}

/// The index that is named. Errors: 42704.
fn find<'t>(table: &'t Table, given: &ConstraintUsingIndex) -> Result<&'t Index> {
    let name = fold(&given.index_name);
    table.indexes.iter().find(|index| index.name == name).ok_or_else(|| {
        let message = format!("index \"{name}\" does not exist");
        SqlError::new(SqlState::UNDEFINED_OBJECT, message)
    })
}
