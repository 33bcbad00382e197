//! What a client is told when a lock or a cut was not to be had.

use halcyon_catalog::Table;
use halcyon_sql::error::{SqlError, SqlState};
use halcyon_txn::{CutError, LockError};

/// A partition of `table` could not be locked.
pub(crate) fn of_table(error: LockError, table: &Table) -> SqlError {
    let waited = format!("It waited for table \"{}\".", table.name);
    let told = of_lock(error, &waited);
    match told.state() {
        SqlState::LOCK_NOT_AVAILABLE => told.table(&table.schema, &table.name),
        _ => told,
    }
}

/// The right to change the catalog could not be had.
pub(crate) fn of_catalog(error: LockError) -> SqlError {
    of_lock(error, "Another transaction is changing the catalog.")
}

/// `waited` says what a timeout was about.
fn of_lock(error: LockError, waited: &str) -> SqlError {
    let state = error.sql_state();
    match error {
        LockError::Deadlock(deadlock) => SqlError::new(state, "deadlock detected")
            .detail(deadlock.to_string())
            .hint("Run the transaction again."),
        LockError::Timeout => {
            SqlError::new(state, "canceling statement due to lock timeout").detail(waited)
        }
        LockError::Cancelled => cancelled(),
    }
}

/// A cut could not be taken.
pub(crate) fn of_cut(error: CutError) -> SqlError {
    match error {
        CutError::Timeout => {
            SqlError::new(error.sql_state(), "canceling statement due to lock timeout")
                .detail("A statement that writes one of the tables ran longer than lock_timeout.")
        }
        CutError::Cancelled => cancelled(),
    }
}

/// 57014: somebody has cancelled the statement.
pub(crate) fn cancelled() -> SqlError {
    SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to user request")
}
