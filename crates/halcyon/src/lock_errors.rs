//! Errors of waits for locks and cuts, as clients see them.

use halcyon_catalog::Table;
use halcyon_sql::error::{SqlError, SqlState};
use halcyon_txn::{CutError, LockError};

/// The error of a lock on a partition of `table`.
pub(crate) fn of_table(error: LockError, table: &Table) -> SqlError {
    let waited = format!("It waited for table \"{}\".", table.name);
    let told = of_lock(error, &waited);
    match told.state() {
        SqlState::LOCK_NOT_AVAILABLE => told.table(&table.schema, &table.name),
        _ => told,
    }
}

/// The error of the lock on the catalog.
pub(crate) fn of_catalog(error: LockError) -> SqlError {
    of_lock(error, "Another transaction is changing the catalog.")
}

/// The error of a lock; `waited` says what a timed-out wait was for.
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

/// The error of a cut.
pub(crate) fn of_cut(error: CutError) -> SqlError {
    match error {
        CutError::Timeout => {
            SqlError::new(error.sql_state(), "canceling statement due to lock timeout")
                .detail("A statement that writes one of the tables ran longer than lock_timeout.")
        }
        CutError::Cancelled => cancelled(),
    }
}

/// 57014: the error of a statement that was cancelled on request.
pub(crate) fn cancelled() -> SqlError {
    SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to user request")
}
