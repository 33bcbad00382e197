//! How many columns the list of a SELECT may have once its stars are written out.

use halcyon_sql::error::{Result, SqlError, SqlState};

/// Columns that one SELECT may list, as in PostgreSQL.
pub const TARGETS_MAX: usize = 1_664;

/// Errors: 54011 for more than [`TARGETS_MAX`] columns.
pub fn check(columns: usize) -> Result<()> {
    match columns > TARGETS_MAX {
        false => Ok(()),
        true => {
            let message = format!("target lists can have at most {TARGETS_MAX} entries");
            Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, message))
        }
    }
}
