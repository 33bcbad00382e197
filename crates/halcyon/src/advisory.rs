//! Advisory locks of a database (`pg_advisory_lock` and its kin), and their errors as clients see them.

use halcyon_pgcatalog::AdvisoryKey;
use halcyon_sql::error::SqlError;
use halcyon_txn::advisory::{self, AdvisoryError};

/// All advisory locks of a database.
pub(crate) type AdvisoryLocks = advisory::AdvisoryLocks<AdvisoryKey>;

/// The error of a session that has not got a lock: 40P01, 57014, 55P03.
pub(crate) fn advisory_error(error: AdvisoryError) -> SqlError {
    SqlError::new(error.sql_state(), error.to_string())
}
