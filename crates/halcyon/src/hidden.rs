//! What a session's role is not told: rows of relations that it may not read, in the details of
//! errors and in subscriptions.
//!
//! A detail that shows rows says of which relation (`SqlError::detail_of_rows`); every error that
//! leaves a session passes [`Session::without_hidden_rows`].

use std::sync::Arc;

use halcyon_catalog::{Catalog, Privilege, Table};
use halcyon_sql::error::{Result, SqlError};

use crate::following::Following;
use crate::session::Session;

impl Session {
    /// The error without its detail, if that shows rows of a relation that the role may not read.
    /// A relation that is gone meanwhile counts as one that nobody may read.
    #[cold]
    pub(crate) fn without_hidden_rows(&mut self, error: SqlError) -> SqlError {
        let Some((schema, name)) = error.fields().detail_shows.clone() else { return error };
        let catalog = self.current_catalog();
        if catalog.is_superuser(&self.vars.user) {
            return error;
        }
        let path = [schema, name];
        let found = catalog.find_table(&path, &[]);
        match found.is_ok_and(|table| self.may_read(&catalog, &table)) {
            true => error,
            false => error.without_detail(),
        }
    }

    /// Ends a subscription whose view the role may no longer read. Looks only if the catalog has
    /// changed since it last did. A dropped view is for the subscription itself to tell of.
    ///
    /// Errors: 42501.
    pub(crate) fn refuse_hidden(&mut self, following: &mut Following) -> Result<()> {
        self.refresh_catalog();
        if following.allowed_at == self.catalog.version {
            return Ok(());
        }
        if let Some(view) = self.catalog.tables.get(&following.view_id()) {
            self.catalog.require_on_table(&self.vars.user, view, Privilege::Select)?;
        }
        following.allowed_at = self.catalog.version;
        Ok(())
    }

    fn may_read(&self, catalog: &Catalog, table: &Arc<Table>) -> bool {
        catalog.require_on_table(&self.vars.user, table, Privilege::Select).is_ok()
    }
}
