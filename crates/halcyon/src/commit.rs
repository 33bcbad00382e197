//! Beginning and end of a transaction: its catalog is published, and its changes are durable before
//! anyone is told.

use std::sync::Arc;

use halcyon_base::clock::Moment;
use halcyon_catalog::temporary::schema_of;
use halcyon_catalog::{Catalog, Relation};
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
    pub(crate) fn commit_work(&mut self, work: Work) -> Result<()> {
        let Work { mut tx, mut catalog, .. } = work;
        if self.searches_temporary
            && let Err(error) = self.end_temporary(&mut tx, &mut catalog)
        {
            drop(tx);
            self.search_temporary(self.temporary.is_some());
            return Err(error);
        }
        let mut change = None;
        if let Some(published) = catalog.as_ref().and_then(|own| self.to_publish(own)) {
            if self.shared.durable.is_some() {
                change = Some(catalog_change(&self.shared.catalog(), &published));
            }
            let shared = Arc::clone(&self.shared);
            tx.on_commit(move || shared.publish(published));
        }
        let notifies = self.entry.signals.wish_count() > 0;
        if notifies {
            let (shared, entry) = (Arc::clone(&self.shared), Arc::clone(&self.entry));
            tx.on_commit(move || {
                shared.channels.commit(entry.id, &entry.signals);
            });
        }
        let committed = tx.try_commit(change).map_err(log_error);
        match (&catalog, &committed) {
            (Some(own), Ok(_)) => self.keep_temporary(own),
            (_, Err(_)) => self.search_temporary(self.temporary.is_some()),
            (None, Ok(_)) => {}
        }
        let lsn = committed?;
        if notifies {
            self.notify_behind(self.awaited(lsn));
        }
        let waited = self.make_durable(lsn);
        self.shared.send_notifications();
        waited
    }

    /// Has the notifications of the session's last commit sent once the log is durable.
    pub(crate) fn notify_behind(&self, lsn: Lsn) {
        self.shared.channels.is_behind(self.id, lsn);
        self.shared.send_notifications();
    }

    /// What a transaction's catalog changes for all sessions; `None` if it concerns temporary objects alone.
    fn to_publish(&self, own: &Arc<Catalog>) -> Option<Arc<Catalog>> {
        if own.extends.is_some() {
            return None;
        }
        let name = schema_of(self.id);
        if !own.schemas.contains_key(&name) {
            return Some(Arc::clone(own));
        }
        let version = self.shared.fresh_version();
        let published = Catalog { version, ..Catalog::clone(own) };
        Some(Arc::new(published.without_temporary(&name)))
    }

    /// Waits until everything that was changed or read is durable, unless this session has switched
    /// that off. In a statement whose thread waits for nothing ([`Session::run_or_queue`]) the wait comes behind the
    /// statement.
    ///
    /// Errors: 53100, 58030; then it is not known whether the changes would survive a crash.
    pub(crate) fn make_durable(&self, lsn: Lsn) -> Result<()> {
        let Some(durable) = &self.shared.durable else {
            return Ok(());
        };
        let lsn = self.awaited(lsn);
        if lsn == Lsn::default() {
            return Ok(());
        }
        if self.may_owe {
            self.owed.set(lsn.max(self.owed.get()));
            return Ok(());
        }
        self.entry.set_syncing(true);
        let waited = self.timed_at_disk(|| durable.log.wait(lsn)).map_err(log_error);
        self.entry.set_syncing(false);
        waited
    }

    /// The LSN up to which the session waits for the log, for what it has changed or read up to `lsn`: the first LSN if
    /// for nothing.
    fn awaited(&self, lsn: Lsn) -> Lsn {
        let Some(durable) = &self.shared.durable else {
            return Lsn::default();
        };
        let lsn = match self.has_asked_sequences() {
            false => lsn,
            true => lsn.max(durable.log.last_sequence()),
        };
        if lsn != Lsn::default() && !self.in_force.synchronous {
            durable.log.soon();
            return Lsn::default();
        }
        lsn
    }

    /// Whether sequences have handed out values to this session that the log covers.
    fn has_asked_sequences(&self) -> bool {
        let values = self.vars.sequence_values.lock();
        let Some(schema) = &self.temporary else { return !values.is_empty() };
        let is_own = |oid| {
            let mut relations = schema.relations.values();
            relations.any(|own| matches!(own, Relation::Sequence(own) if own.oid == oid))
        };
        values.iter().any(|(oid, _)| !is_own(*oid))
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
