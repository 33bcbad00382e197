//! The session of a connection, which its statements and streams share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use adbc_core::CancelHandle;
use adbc_core::error::Status;
use halcyon::{Session, SqlError, SqlState, Value};

use crate::errors::{Result, own, told};
use crate::sharing::Opened;

/// Option of a connection or statement: texts and bytes of results as Arrow's views, which share the engine's memory,
/// in place of plain ones.
pub const VIEWS: &str = "halcyon.string_views";

/// What a connection shares with its statements and streams.
pub struct Shared {
    state: Mutex<State>,
    cancel: halcyon::CancelHandle,
    /// Keeps the database of a folder known as open.
    _opened: Arc<Opened>,
}

/// A session and the connection's options.
pub struct State {
    /// The session.
    pub session: Session,
    /// Whether each statement commits.
    pub autocommit: bool,
    /// Whether results have views of texts.
    pub views: bool,
}

impl State {
    /// A text that a query of one row gives; empty for NULL.
    pub fn scalar(&mut self, sql: &str, params: &[Value]) -> Result<String> {
        let mut read = || {
            let mut rows = self.session.query(sql, params)?;
            let row = rows.next()?;
            let text = row.map(|row| row.get::<Option<&str>>(0).map(|t| t.map(str::to_owned)));
            Ok(text.transpose()?.flatten().unwrap_or_default())
        };
        read().map_err(told)
    }

    /// Errors: not found for another catalog than the database's only one.
    pub fn require_catalog(&mut self, wanted: &str) -> Result<()> {
        match self.scalar("SELECT current_database()", &[])? == wanted {
            true => Ok(()),
            false => Err(own(
                Status::NotFound,
                SqlState::INVALID_CATALOG_NAME,
                format!("database \"{wanted}\" does not exist"),
            )),
        }
    }
}

impl Shared {
    /// What a connection with autocommit shares that has a session.
    pub fn new(session: Session, opened: Arc<Opened>) -> Arc<Self> {
        let cancel = session.canceller();
        let state = Mutex::new(State { session, autocommit: true, views: false });
        Arc::new(Shared { state, cancel, _opened: opened })
    }

    /// Waits until no other statement of the connection runs.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends what a connection runs.
pub struct Cancel(halcyon::CancelHandle);

impl CancelHandle for Cancel {
    fn try_cancel(&self) -> Result<()> {
        self.0.cancel();
        Ok(())
    }
}

impl Shared {
    /// A handle that ends the running statement.
    pub fn cancel_handle(&self) -> Box<dyn CancelHandle> {
        Box::new(Cancel(self.cancel.clone()))
    }
}

/// The error of a connection's stream whose work has been given up by a panic.
pub fn broken(what: &str) -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, format!("a part of the driver has failed: {what}"))
}
