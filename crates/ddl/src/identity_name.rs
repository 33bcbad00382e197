//! Names that statements give the sequences of identities.

use std::sync::Arc;

use super::DdlContext;
use halcyon_catalog::{Sequence, Table};
use halcyon_sql::error::{Result, SqlError, SqlState};

/// 55000.
pub(super) fn refused(message: String) -> SqlError {
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

/// Gives the sequence that was made last the name that a statement says, and tells it without its schema.
///
/// Errors: 55000 for another schema than the table's; 42P07 if the name is taken.
pub(super) fn named(
    cx: &DdlContext<'_>,
    table: &Table,
    given: &[String],
    made: &mut [Arc<Sequence>],
) -> Result<String> {
    if let [.., schema, _] = given
        && *schema != table.schema
    {
        let message = "identity sequence must be in the same schema as the table";
        return Err(refused(message.to_owned()));
    }
    let name = given.last().cloned().unwrap_or_default();
    cx.catalog.refuse_taken(&table.schema, &name)?;
    if let Some((last, before)) = made.split_last_mut() {
        if name == table.name || before.iter().any(|other| other.name == name) {
            let message = format!("relation \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
        }
        Arc::make_mut(last).name.clone_from(&name);
    }
    Ok(name)
}
