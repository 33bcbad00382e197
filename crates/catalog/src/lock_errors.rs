//! Errors of waits for locks and cuts, as clients see them.

use crate::table::Table;
use halcyon_sql::error::{SqlError, SqlState};
use halcyon_txn::{CutError, LockError};

/// The error of a lock on a partition of `table`.
pub fn of_table(error: LockError, table: &Table) -> SqlError {
    let waited = format!("It waited for table \"{}\".", table.name);
    let told = of_lock(error, Some(&waited));
    match told.state() {
        SqlState::LOCK_NOT_AVAILABLE => told.table(&table.schema, &table.name),
        _ => told,
    }
}

/// 55P03: the error of a lock that was not to be waited for, of a timeout.
pub fn at_once(timeout: SqlError) -> SqlError {
    let message = match &timeout.fields().table {
        Some(table) => format!("could not obtain lock on row in relation \"{table}\""),
        None => "could not obtain lock".to_owned(),
    };
    SqlError::new(timeout.state(), message)
}

/// The error of the lock on the catalog.
pub fn of_catalog(error: LockError) -> SqlError {
    of_lock(error, Some("Another transaction is changing the catalog."))
}

/// The error of a lock that concerns several tables, or none.
pub fn of_any(error: LockError) -> SqlError {
    of_lock(error, None)
}

/// The error of a lock; `waited` says what a timed-out wait was for.
fn of_lock(error: LockError, waited: Option<&str>) -> SqlError {
    let state = error.sql_state();
    match error {
        LockError::Deadlock(deadlock) => SqlError::new(state, "deadlock detected")
            .detail(deadlock.to_string())
            .hint("Run the transaction again."),
        LockError::Timeout => {
            let timeout = SqlError::new(state, "canceling statement due to lock timeout");
            match waited {
                Some(waited) => timeout.detail(waited),
                None => timeout,
            }
        }
        LockError::Cancelled => cancelled(),
    }
}

/// The error of a cut.
pub fn of_cut(error: CutError) -> SqlError {
    match error {
        CutError::Timeout => {
            SqlError::new(error.sql_state(), "canceling statement due to lock timeout")
                .detail("A statement that writes one of the tables ran longer than lock_timeout.")
        }
        CutError::Cancelled => cancelled(),
    }
}

/// 57014: the error of a statement that was cancelled on request.
pub fn cancelled() -> SqlError {
    SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to user request")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_tell_what_was_waited_for_as_far_as_it_is_known() {
        let catalog = of_catalog(LockError::Timeout);
        assert_eq!(catalog.state(), SqlState::LOCK_NOT_AVAILABLE);
        assert!(catalog.fields().detail.as_ref().is_some_and(|text| text.contains("catalog")));
        assert_eq!(of_any(LockError::Timeout).fields().detail, None);
        for told in [of_any(LockError::Cancelled), of_cut(CutError::Cancelled), cancelled()] {
            assert_eq!(told.state(), SqlState::QUERY_CANCELED);
        }
    }
}
