//! How a transaction begins and ends: with its catalog published, and durable before anybody is told.

use std::sync::Arc;

use halcyon_base::clock::Moment;
use halcyon_sql::error::Result;
use halcyon_sql::utility::Modes;
use halcyon_txn::Lsn;

use crate::acquire::Snapshot;
use crate::durable::{catalog_change, log_error};
use crate::session::Session;
use crate::transaction::Work;

impl Session {
    /// Begins a transaction at the moment `began`.
    pub(crate) fn begin_work(&self, modes: Modes, began: Moment) -> Work {
        let isolation = modes.isolation.unwrap_or_default();
        Work::new(self.shared.manager.begin_at(isolation, self.slot(), began))
    }

    /// Commits, and publishes the catalog before anybody else can have the locks.
    ///
    /// Errors: the log takes no commits, and the transaction is rolled back; those of
    /// [`Session::make_durable`].
    pub(crate) fn commit_work(&self, work: Work) -> Result<()> {
        let Work { mut tx, catalog, .. } = work;
        let mut change = None;
        if let Some(catalog) = catalog {
            if self.shared.durable.is_some() {
                change = Some(catalog_change(&self.shared.catalog(), &catalog));
            }
            let shared = Arc::clone(&self.shared);
            tx.on_commit(move || shared.publish(catalog));
        }
        let lsn = tx.try_commit(change).map_err(log_error)?;
        self.make_durable(lsn)
    }

    /// Waits until what was changed or read is durable, if this session wants to.
    ///
    /// Errors: 53100, 58030; whether it will be there after a crash is not known then.
    pub(crate) fn make_durable(&self, lsn: Lsn) -> Result<()> {
        let Some(durable) = &self.shared.durable else {
            return Ok(());
        };
        let lsn = match self.vars.sequence_values.lock().is_empty() {
            true => lsn,
            false => lsn.max(durable.log.last_sequence()),
        };
        if lsn == Lsn::default() {
            return Ok(());
        }
        if !self.in_force.synchronous {
            durable.log.soon();
            return Ok(());
        }
        self.entry.set_syncing(true);
        let waited = durable.log.wait(lsn).map_err(log_error);
        self.entry.set_syncing(false);
        waited
    }

    /// Every partition of the database at one cut, which is durable.
    ///
    /// Errors: those of a wait for a cut, and of [`Session::make_durable`].
    pub(crate) fn take_snapshot(&mut self) -> Result<Snapshot> {
        loop {
            self.refresh_catalog();
            if let Some((snapshot, lsn)) = self.acquisition().snapshot(&self.catalog)? {
                self.make_durable(lsn)?;
                return Ok(snapshot);
            }
        }
    }
}
