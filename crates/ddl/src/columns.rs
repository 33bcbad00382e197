//! Columns of a table that is being made: their names, and the sequences of those that count.

use std::sync::Arc;

use halcyon_base::ids::TableId;
use halcyon_catalog::{Column, Sequence, Table};
use halcyon_functions::system_columns::queries as system_columns;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::types::SqlType;

use super::DdlContext;
use super::sequence::{self, Wish};

/// Most columns of a table.
const COLUMNS_MAX: usize = 1600;

/// Errors: 42701 for the name of a system column; 42939 for `_rowid`, which is a name of ours.
pub(super) fn is_no_system_column(name: &str) -> Result<()> {
    let state = match name {
        "_rowid" => SqlState::RESERVED_NAME,
        name if system_columns::is_one(name) => SqlState::DUPLICATE_COLUMN,
        _ => return Ok(()),
    };
    let message = format!("column name \"{name}\" conflicts with a system column name");
    Err(SqlError::new(state, message))
}

/// Adds a column. Errors: 42701, 54011, those of [`is_no_system_column`].
pub(super) fn push(table: &mut Table, column: Column) -> Result<()> {
    if table.column(&column.name).is_some() {
        return Err(SqlError::new(
            SqlState::DUPLICATE_COLUMN,
            format!("column \"{}\" specified more than once", column.name),
        ));
    }
    is_no_system_column(&column.name)?;
    if table.columns.len() == COLUMNS_MAX {
        return Err(SqlError::new(
            SqlState::TOO_MANY_COLUMNS,
            format!("tables can have at most {COLUMNS_MAX} columns"),
        ));
    }
    table.columns.push(column);
    Ok(())
}

/// 22023 unless values of a sequence can be of this type.
pub(super) fn refuse_identity_type(ty: SqlType) -> Result<()> {
    match ty {
        SqlType::SmallInt | SqlType::Integer | SqlType::BigInt => Ok(()),
        _ => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "identity column type must be smallint, integer, or bigint",
        )),
    }
}

/// Makes the sequence of a SERIAL or identity column and returns its name.
pub(super) fn new_sequence(
    cx: &DdlContext<'_>,
    table: &Table,
    column: &str,
    wish: &Wish,
    ty: SqlType,
    owner: (TableId, u16),
    sequences: &mut Vec<Arc<Sequence>>,
) -> Result<String> {
    refuse_identity_type(ty)?;
    let mut taken: Vec<String> = sequences.iter().map(|other| other.name.clone()).collect();
    taken.push(table.name.clone());
    let stem = format!("{}_{column}_seq", table.name);
    let name = cx.catalog.free_name(&table.schema, &stem, &taken);
    let options = Wish { ty: Some(ty), ..wish.clone() }.resolve(None)?;
    sequences.push(sequence::new(cx, &table.schema, &name, options, Some(owner)));
    Ok(name)
}
