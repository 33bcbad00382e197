//! Temporary objects of a session: its catalog with them, what a commit makes of them, and their end.
//!
//! The shared catalog never has temporary objects (`halcyon_catalog::temporary`). A session that has some
//! runs its statements on the shared catalog extended by its temporary schema. A transaction that changes
//! only temporary objects holds no right to change the catalog, so its private catalog is extended anew
//! whenever another transaction has published one ([`Session::renew`]).

use std::sync::Arc;

use halcyon_catalog::temporary::{OnCommit, schema_of};
use halcyon_catalog::{Catalog, Schema};
use halcyon_ddl::{DdlContext, drop_at_commit};
use halcyon_plan::env::{Clock, Env};
use halcyon_plan::lock_errors;
use halcyon_sql::error::Result;
use halcyon_txn::{Mode, Transaction, WaitLimits};

use crate::session::Session;

impl Session {
    /// The published catalog as it is now, with the session's temporary objects.
    #[inline]
    pub(crate) fn refresh_catalog(&mut self) {
        if self.catalog.shared_version() != self.shared.version() {
            self.extend_catalog();
        }
    }

    #[cold]
    fn extend_catalog(&mut self) {
        self.catalog = match &self.temporary {
            None => self.shared.catalog(),
            Some(schema) => self.extended_by(Some(schema)),
        };
    }

    /// The published catalog with a temporary schema, as a catalog of this session alone.
    fn extended_by(&self, schema: Option<&Arc<Schema>>) -> Arc<Catalog> {
        let version = self.shared.fresh_version();
        Arc::new(self.shared.catalog().extended(version, schema))
    }

    /// As [`Session::refresh_catalog`], also for a transaction's own catalog if its changes concern temporary
    /// objects alone: other transactions may have published another catalog since.
    #[inline]
    pub(crate) fn renew(&mut self, own: &mut Option<Arc<Catalog>>) {
        self.refresh_catalog();
        if let Some(catalog) = own
            && catalog.extends.is_some_and(|version| version != self.shared.version())
        {
            *own = Some(self.extended_by(catalog.schemas.get(&schema_of(self.id))));
        }
    }

    /// Searches the session's temporary schema for names, or ceases to.
    pub(crate) fn search_temporary(&mut self, search: bool) {
        if self.searches_temporary != search {
            self.searches_temporary = search;
            self.set_search_path();
        }
    }

    /// Does what ON COMMIT says of temporary tables: rows go, or tables do. The transaction is about to
    /// commit; `own` is its catalog if it has changed that.
    ///
    /// Errors: those of waits for locks, which nobody but a statement of this session can hold.
    #[cold]
    pub(crate) fn end_temporary(
        &self,
        tx: &mut Transaction,
        own: &mut Option<Arc<Catalog>>,
    ) -> Result<()> {
        let catalog = own.as_ref().unwrap_or(&self.catalog);
        let Some(schema) = catalog.schemas.get(&schema_of(self.id)) else { return Ok(()) };
        if schema.tables().all(|table| table.on_commit == OnCommit::PreserveRows) {
            return Ok(());
        }
        let catalog = Arc::clone(catalog);
        tx.begin_statement();
        let ended = self.on_commit(tx, &catalog, &schema_of(self.id));
        tx.end_statement();
        *own = ended?.or(own.take());
        Ok(())
    }

    /// Returns the catalog without the tables that are dropped, if some are.
    fn on_commit(
        &self,
        tx: &mut Transaction,
        catalog: &Arc<Catalog>,
        schema: &str,
    ) -> Result<Option<Arc<Catalog>>> {
        let limits = WaitLimits { timeout: self.in_force.lock_timeout, cancel: &self.cancel };
        let tables = || catalog.schemas[schema].tables();
        for table in tables().filter(|table| table.on_commit == OnCommit::DeleteRows) {
            for cell in &table.cells {
                let locked = tx.lock(cell, Mode::Exclusive, &limits);
                let handle = locked.map_err(|error| lock_errors::of_table(error, table))?;
                if tx.read(handle).row_count() > 0 {
                    let emptied: Result<()> = tx.alter(handle, |root| {
                        root.truncate();
                        Ok(())
                    });
                    emptied?;
                }
            }
        }
        if !tables().any(|table| table.on_commit == OnCommit::Drop) {
            return Ok(None);
        }
        let env = Env {
            catalog,
            params: &[],
            session: &self.vars,
            clock: Clock::default(),
            cancel: &self.cancel,
            workers: Some(&self.shared.datafusion),
        };
        let mut after = Catalog::clone(catalog);
        let mut cx = DdlContext {
            env: &env,
            tx,
            catalog: &mut after,
            limits,
            datafusion: &self.shared.datafusion,
            notices: &mut Vec::new(),
            pending: &[],
        };
        drop_at_commit(&mut cx, schema)?;
        after.version = self.shared.fresh_version();
        // An own catalog that has shared changes extends none.
        if catalog.version == catalog.shared_version() && Arc::ptr_eq(catalog, &self.catalog) {
            after.extends = Some(catalog.version);
        }
        Ok(Some(Arc::new(after)))
    }

    /// Keeps the temporary objects of a transaction's catalog: the transaction has committed.
    pub(crate) fn keep_temporary(&mut self, own: &Arc<Catalog>) {
        let schema = own.schemas.get(&schema_of(self.id));
        let schema = schema.filter(|schema| !schema.relations.is_empty()).cloned();
        if schema.is_none() && self.temporary.is_none() {
            return self.search_temporary(false);
        }
        let is_extended = schema.is_some() && own.extends == Some(self.shared.version());
        self.set_temporary(schema);
        if is_extended {
            // Plans that were made in the transaction hold for it.
            self.catalog = Arc::clone(own);
        }
    }

    /// Puts a schema in place of the session's temporary one.
    fn set_temporary(&mut self, schema: Option<Arc<Schema>>) {
        match &schema {
            Some(schema) => drop(self.shared.temporary.lock().insert(self.id, Arc::clone(schema))),
            None => drop(self.shared.temporary.lock().remove(&self.id)),
        }
        self.temporary = schema;
        self.extend_catalog();
        self.search_temporary(self.temporary.is_some());
    }

    /// DISCARD TEMP: drops all temporary objects of the session.
    pub(crate) fn discard_temporary(&mut self) {
        let name = schema_of(self.id);
        let Some(mut block) = self.block.take() else {
            if self.temporary.is_some() {
                self.set_temporary(None);
            }
            return;
        };
        self.renew(&mut block.work.catalog);
        let catalog = block.work.catalog.as_ref().unwrap_or(&self.catalog);
        if catalog.schemas.contains_key(&name) {
            let is_shared = block.work.catalog.as_ref().is_some_and(|own| own.extends.is_none());
            let extends = (!is_shared).then(|| catalog.shared_version());
            let version = self.shared.fresh_version();
            let after = Catalog { version, extends, ..Catalog::clone(catalog) };
            block.work.catalog = Some(Arc::new(after.without_temporary(&name)));
        }
        self.block = Some(block);
    }
}
