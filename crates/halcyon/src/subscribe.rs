//! SUBSCRIBE: a materialized view's rows, and then every change, by whole transactions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use halcyon_catalog::Table;
use halcyon_prepare::plan::Plan;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_store::RowRef;
use halcyon_txn::{Isolation, Mode};
use halcyon_views::RowDelta;

use crate::database::Database;
use crate::durable::log_error;
use crate::following::{Changes, Following, LOOK};
use crate::session::Session;
use halcyon_plan::lock_errors;

/// A subscription: the changes of a view, in the order of commits.
pub struct Subscription {
    session: Session,
    following: Following,
}

impl Database {
    /// Subscribes to a view as the first superuser: see [`Session::into_subscription`].
    pub fn subscribe(&self, view: &str, from: Option<u64>) -> Result<Subscription> {
        self.session().into_subscription(view, from)
    }
}

impl Session {
    /// Subscribes to a materialized view. Without a position the first changes are the view's rows.
    ///
    /// Errors: 42P01, 42809, 42501; the errors of a lock.
    pub fn into_subscription(mut self, view: &str, from: Option<u64>) -> Result<Subscription> {
        let quoted: Vec<String> =
            view.split('.').map(|part| format!("\"{}\"", part.replace('"', "\"\""))).collect();
        let statement = self.prepare(&format!("SUBSCRIBE {}", quoted.join(".")))?;
        let view = match &statement.prepared().plan {
            Plan::Subscribe { view, .. } => view.clone(),
            _ => unreachable!("the text is a SUBSCRIBE"),
        };
        let following = self.follow(&view, from)?;
        Ok(Subscription { session: self, following })
    }

    /// Begins to follow a view that the caller has found to be readable.
    ///
    /// Errors: 25001 in a transaction block; the errors of a lock.
    pub(crate) fn follow(&self, view: &Arc<Table>, from: Option<u64>) -> Result<Following> {
        if self.block.is_some() {
            return Err(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                "SUBSCRIBE cannot run inside a transaction block",
            ));
        }
        let maintained = view.materialized().expect("the binder found a view").maintained();
        let mut first = None;
        let acquisition = self.acquisition();
        acquisition.stream_views().settle_one(view)?;
        let mut tx = self.shared.manager.begin(Isolation::ReadCommitted, self.slot());
        tx.begin_statement();
        // Under this lock no transaction is between changing the view and publishing the changes.
        let locked = tx.lock(&view.cells[0], Mode::Shared, &acquisition.limits);
        let handle = locked.map_err(|error| lock_errors::of_table(error, view))?;
        let last = maintained.feed().follow();
        if from.is_none() {
            let new = |row: RowRef<'_>| -> RowDelta {
                let values = row.values().map(|value| value.to_owned()).collect();
                RowDelta { old: None, new: Some(values) }
            };
            first = Some(tx.read(handle).rows().map(new).collect());
        }
        tx.end_statement();
        let lsn = tx.try_commit(None).map_err(log_error)?;
        self.make_durable(lsn)?;
        Ok(Following::new(view.clone(), from.unwrap_or(last), first, &self.vars.time_zone))
    }
}

impl Subscription {
    /// The next transaction's changes, waiting for them up to `wait`; `None` if none came.
    ///
    /// Errors: 53400 if the subscriber was so slow that the changes are no longer kept, 42P01 once
    /// the view is dropped, 42501 once the role may no longer read it.
    pub fn next(&mut self, wait: Duration) -> Result<Option<Changes>> {
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            self.session.refuse_hidden(&mut self.following)?;
            let views = self.session.acquisition().stream_views();
            let found = self.following.next(&views, left.min(LOOK))?;
            if found.is_some() || left.is_zero() {
                return Ok(found);
            }
        }
    }

    /// The position behind which [`Database::subscribe`] would continue.
    pub fn position(&self) -> u64 {
        self.following.position()
    }
}
