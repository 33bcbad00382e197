//! Errors of broken constraints: NOT NULL, CHECK, unique keys, foreign keys, CHECK OPTION.
//!
//! The texts of the errors are PostgreSQL's, because programs read them.

use halcyon_sql::coerce::{self, TimeZone};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::types::SqlType;
use halcyon_store::ValueRef;

use crate::table::{Check, DerivedKey, ForeignKey, Index, Table};

/// 23502.
pub fn null_violation(table: &Table, column: u16, row: &[ValueRef<'_>]) -> SqlError {
    let column = &table.columns[column as usize].name;
    SqlError::new(
        SqlState::NOT_NULL_VIOLATION,
        format!(
            "null value in column \"{column}\" of relation \"{}\" violates not-null constraint",
            table.name
        ),
    )
    .detail_of_rows(
        &table.schema,
        &table.name,
        format!("Failing row contains {}.", row_text(table, row)),
    )
    .table(&table.schema, &table.name)
    .column(column)
}

/// 23514.
pub fn check_violation(table: &Table, check: &Check, row: &[ValueRef<'_>]) -> SqlError {
    SqlError::new(
        SqlState::CHECK_VIOLATION,
        format!(
            "new row for relation \"{}\" violates check constraint \"{}\"",
            table.name, check.name
        ),
    )
    .detail_of_rows(
        &table.schema,
        &table.name,
        format!("Failing row contains {}.", row_text(table, row)),
    )
    .table(&table.schema, &table.name)
    .constraint(&check.name)
}

/// 44000: the view through which a row of the table is written would not show it.
pub fn check_option_violation(table: &Table, view: &str, row: &[ValueRef<'_>]) -> SqlError {
    let message = format!("new row violates check option for view \"{view}\"");
    SqlError::new(SqlState::WITH_CHECK_OPTION_VIOLATION, message).detail_of_rows(
        &table.schema,
        &table.name,
        format!("Failing row contains {}.", row_text(table, row)),
    )
}

/// 23505 for a key of `index` that stands more than once.
pub fn key_violation(table: &Table, index: &Index, key: &[ValueRef<'_>]) -> SqlError {
    SqlError::new(
        SqlState::UNIQUE_VIOLATION,
        format!("duplicate key value violates unique constraint \"{}\"", index.name),
    )
    .detail_of_rows(
        &table.schema,
        &table.name,
        format!("Key {} already exists.", key_text(table, index, key)),
    )
    .table(&table.schema, &table.name)
    .constraint(&index.name)
}

/// 23503: a row refers to a row that does not exist.
pub fn missing_reference(
    table: &Table,
    key: &ForeignKey,
    target: &Table,
    values: &[ValueRef<'_>],
) -> SqlError {
    violated_reference(table, key).detail_of_rows(
        &table.schema,
        &table.name,
        format!(
            "Key {} is not present in table \"{}\".",
            columns_text(table, &key.columns, values),
            target.name
        ),
    )
}

/// Whether a row with these values of a foreign key's columns refers to nothing, since one is NULL.
/// Errors: 23503 if MATCH FULL wants all of them to be NULL, or none.
pub fn refers_to_nothing(table: &Table, key: &ForeignKey, values: &[ValueRef<'_>]) -> Result<bool> {
    if !values.iter().any(ValueRef::is_null) {
        return Ok(false);
    }
    match key.full && !values.iter().all(ValueRef::is_null) {
        true => Err(violated_reference(table, key).detail_of_rows(
            &table.schema,
            &table.name,
            "MATCH FULL does not allow mixing of null and nonnull key values.".to_owned(),
        )),
        false => Ok(true),
    }
}

fn violated_reference(table: &Table, key: &ForeignKey) -> SqlError {
    SqlError::new(
        SqlState::FOREIGN_KEY_VIOLATION,
        format!(
            "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
            table.name, key.name
        ),
    )
    .table(&table.schema, &table.name)
    .constraint(&key.name)
}

/// 23503: a row that others refer to would be deleted or change its key.
pub fn still_referenced(
    target: &Table,
    key: &ForeignKey,
    referrer: &Table,
    values: &[ValueRef<'_>],
) -> SqlError {
    SqlError::new(
        SqlState::FOREIGN_KEY_VIOLATION,
        format!(
            "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \
             \"{}\"",
            target.name, key.name, referrer.name
        ),
    )
    .detail_of_rows(
        &target.schema,
        &target.name,
        format!(
            "Key {} is still referenced from table \"{}\".",
            columns_text(target, &key.target_columns, values),
            referrer.name
        ),
    )
    .table(&referrer.schema, &referrer.name)
    .constraint(&key.name)
}

/// `(a, b)=(1, 2)` for a key of an index.
pub fn key_text(table: &Table, index: &Index, values: &[ValueRef<'_>]) -> String {
    if let Some(derived) = &index.derived {
        let names: Vec<String> = derived.keys.iter().map(DerivedKey::shown).collect();
        let values = derived.keys.iter().zip(values).map(|(key, value)| shown(*value, key.ty));
        let values: Vec<String> = values.collect();
        return format!("({})=({})", names.join(", "), values.join(", "));
    }
    let columns: Vec<u16> = index.columns.iter().map(|key| key.column).collect();
    columns_text(table, &columns, values)
}

fn columns_text(table: &Table, columns: &[u16], values: &[ValueRef<'_>]) -> String {
    let columns: Vec<_> = columns.iter().map(|at| &table.columns[*at as usize]).collect();
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let values: Vec<String> =
        columns.iter().zip(values).map(|(column, value)| shown(*value, column.ty)).collect();
    format!("({})=({})", names.join(", "), values.join(", "))
}

/// Longest text of a value in the detail of an error.
const SHOWN_BYTES_MAX: usize = 64;

fn shown(value: ValueRef<'_>, ty: SqlType) -> String {
    if value.is_null() {
        return "null".to_owned();
    }
    let mut text = coerce::to_text(value, ty, &TimeZone::UTC);
    if text.len() > SHOWN_BYTES_MAX {
        let end = (0..=SHOWN_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.expect("0 is a boundary"));
        text.push_str("...");
    }
    text
}

/// `(1, null, abc)`.
pub fn row_text(table: &Table, row: &[ValueRef<'_>]) -> String {
    let values: Vec<String> =
        table.columns.iter().zip(row).map(|(column, value)| shown(*value, column.ty)).collect();
    format!("({})", values.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut_at_a_character() {
        let long = "ä".repeat(100);
        let text = shown(ValueRef::Text(&long), SqlType::Text);
        assert!(text.ends_with("...") && text.len() <= SHOWN_BYTES_MAX + 3);
    }
}
