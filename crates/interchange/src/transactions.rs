//! Transactions around work of several statements.

use halcyon::{Session, SessionState, Statement};

/// Does work in the transaction in progress, or in one of its own: which stays open if `stays`.
pub fn in_transaction<T>(
    session: &mut Session,
    stays: bool,
    work: impl FnOnce(&mut Session) -> halcyon::Result<T>,
) -> halcyon::Result<T> {
    let is_own = session.state() == SessionState::Idle;
    session.begin_default();
    let done = work(session);
    match (&done, is_own && !stays) {
        (Ok(_), true) => session.commit()?,
        (Err(_), true) => drop(session.rollback()),
        (Err(_), false) => session.fail_transaction(),
        (Ok(_), false) => {}
    }
    done
}

/// Begins the transaction that a statement of a connection without autocommit stands in, unless one is in progress or
/// the statement controls it itself.
pub fn begin_for(session: &mut Session, statement: &Statement) {
    let controls = ["BEGIN", "START TRANSACTION", "COMMIT", "ROLLBACK"];
    if !statement.is_empty() && !controls.contains(&statement.tag()) {
        session.begin_default();
    }
}
