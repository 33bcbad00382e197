//! Beginning and end of a transaction: its catalog is published, and its changes are durable before
//! anyone is told.

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
        let mut tx = self.shared.manager.begin_at(isolation, self.slot(), began);
        if self.losses > 0 {
            tx.set_losses(self.losses);
        }
        Work::new(tx)
    }

    /// Commits. The catalog is published before any other transaction can get the locks.
    ///
    /// Errors: the log accepts no commits, in which case the transaction is rolled back; the errors
    /// of [`Session::make_durable`].
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

    /// Waits until everything that was changed or read is durable, unless this session has switched
    /// that off.
    ///
    /// Errors: 53100, 58030; then it is not known whether the changes would survive a crash.
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

    /// All partitions of the database at one cut, once that is durable.
    ///
    /// Errors: the errors of a wait for a cut, and of [`Session::make_durable`].
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
