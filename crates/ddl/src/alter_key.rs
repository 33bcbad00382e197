//! `ALTER TABLE … ALTER CONSTRAINT`: whether, and until when, a foreign key waits to be judged.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{ForeignKeyConstraint, ObjectNamePart};
use halcyon_catalog::Table;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;
use halcyon_sql::syntax::ALTERED_KEY;

use crate::DdlContext;
use crate::constraint::deferral;

/// Whether a key that is added stands for one that is altered ([`ALTERED_KEY`]).
pub(super) fn is_meant(key: &ForeignKeyConstraint) -> bool {
    let parts = &key.foreign_table.0;
    let name = parts.last().and_then(ObjectNamePart::as_ident);
    name.is_some_and(|name| name.value == ALTERED_KEY)
}

/// Gives a foreign key what the statement says; what it leaves out is NOT DEFERRABLE, INITIALLY IMMEDIATE.
///
/// Errors: 42704 for no constraint of the table, 42809 for one that is no foreign key, 42601.
pub(super) fn alter(
    cx: &mut DdlContext<'_>,
    table: &Arc<Table>,
    key: &ForeignKeyConstraint,
) -> Result<()> {
    let name = key.name.as_ref().map(fold).unwrap_or_default();
    let deferral = deferral(&key.characteristics)?;
    if table.foreign_keys.iter().any(|key| key.name == name) {
        cx.catalog.change_table(table.id, |table| {
            let own = table.foreign_keys.iter_mut().filter(|key| key.name == name);
            own.for_each(|key| key.deferral = deferral);
        });
        return Ok(());
    }
    let is_check = table.checks.iter().any(|check| check.name == name);
    let is_key = table.indexes.iter().any(|index| index.name == name && index.constraint.is_some());
    let (state, what) = match is_check || is_key {
        true => (SqlState::WRONG_OBJECT_TYPE, "is not a foreign key constraint"),
        false => (SqlState::UNDEFINED_OBJECT, "does not exist"),
    };
    let message = format!("constraint \"{name}\" of relation \"{}\" {what}", table.name);
    Err(SqlError::new(state, message))
}
