//! Advisory locks of a database (`pg_advisory_lock` and its kin), and their errors as clients see them.

use std::sync::Arc;

use halcyon_base::ids::SessionId;
use halcyon_pgcatalog::AdvisoryKey;
use halcyon_sql::error::SqlError;
use halcyon_txn::Manager;
use halcyon_txn::advisory::{self, AdvisoryError};

/// All advisory locks of a database.
pub(crate) type AdvisoryLocks = advisory::AdvisoryLocks<AdvisoryKey>;

/// Advisory locks beside locks of partitions: circles of waits that pass through both are found.
pub(crate) fn beside(manager: &Manager) -> Arc<AdvisoryLocks> {
    let locks = Arc::new(AdvisoryLocks::default());
    let (weak, partitions) = (Arc::downgrade(&locks), manager.clone());
    manager.on_wait(move |SessionId(session)| {
        if let Some(locks) = weak.upgrade() {
            locks.refuse_circles(session);
        }
    });
    locks.beside(move |session| {
        let blockers = partitions.blockers(SessionId(session));
        blockers.into_iter().map(|SessionId(session)| session).collect()
    });
    locks
}

/// The error of a session that has not got a lock: 40P01, 57014, 55P03.
pub(crate) fn advisory_error(error: AdvisoryError) -> SqlError {
    SqlError::new(error.sql_state(), error.to_string())
}
