//! SET, RESET, SHOW and ALTER SYSTEM as a session runs them. The settings themselves are in
//! `settings`.

use std::sync::Arc;
use std::time::Duration;

use halcyon_base::clock;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::rows::{ResultColumn, RowSet, RowSink};
use halcyon_sql::types::SqlType;
use halcyon_sql::utility::{Modes, isolation_name};
use halcyon_store::ValueRef::Text;

use crate::outcome::Outcome;
use crate::rows::Rows;
use crate::session::Session;
use crate::settings::{Surroundings, altered, told_name, transaction_modes};
use crate::transaction::Block;

impl Session {
    /// Settings that clients are sent when they connect: (name, value).
    pub fn reported_settings(&self) -> Vec<(String, String)> {
        let told = self.settings.reported();
        told.map(|(name, value)| (name.to_owned(), value.into_owned())).collect()
    }

    /// The value of a setting that is a duration; `None` if it is switched off, or is no duration.
    pub fn setting_duration(&self, name: &str) -> Option<Duration> {
        self.settings.duration(name)
    }

    /// Changes a setting, as SET does outside a transaction.
    ///
    /// Errors: 42704 for an unknown setting, 22023 for a value that it does not accept, 55P02 if it
    /// is read only.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let name = name.to_ascii_lowercase();
        match transaction_modes(&name, Some(value))? {
            Some(modes) => self.set_transaction(modes),
            None => self.change_setting(&name, Some(value)),
        }
    }

    /// The value of a setting, as SHOW prints it. Errors: 42704.
    pub fn setting(&self, name: &str) -> Result<String> {
        self.with_surroundings(|around| {
            let value = self.settings.show(&name.to_ascii_lowercase(), around)?;
            Ok(value.into_owned())
        })
    }

    /// Calls `read` with the values outside the session's own on which settings depend.
    fn with_surroundings<T>(&self, read: impl FnOnce(&Surroundings<'_>) -> T) -> T {
        let catalog = self.shared.catalog();
        let modes = |block: &Block| Modes {
            isolation: Some(block.isolation()),
            read_only: Some(block.read_only()),
        };
        read(&Surroundings {
            system: self.shared.chosen(&catalog),
            transaction: self.block.as_deref().map(modes),
        })
    }

    /// RESET ALL: resets everything to its default.
    pub(crate) fn reset_settings(&mut self) {
        let before = self.reported_settings();
        self.settings.reset();
        self.apply_settings();
        let after = self.reported_settings();
        self.changes.extend(after.into_iter().filter(|told| !before.contains(told)));
    }

    /// SET, SET LOCAL and RESET, whose effect a rollback undoes.
    ///
    /// Errors: as [`Session::set`]; 25001 for modes of a transaction that has run a statement.
    pub(crate) fn set_in_transaction(
        &mut self,
        name: &str,
        value: Option<&str>,
        local: bool,
    ) -> Result<()> {
        if let Some(modes) = transaction_modes(name, value)? {
            return self.set_transaction(modes);
        }
        if local && self.block.is_none() {
            self.notice(SqlError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "SET LOCAL can only be used in transaction blocks",
            ));
            return Ok(());
        }
        let before = self.settings.clone();
        self.change_setting(name, value)?;
        if let Some(block) = &mut self.block {
            if local {
                let old = before.changed(name).map(ToOwned::to_owned);
                block.local.push((name.to_owned(), old));
            }
            block.settings_before.get_or_insert(before);
        }
        Ok(())
    }

    /// SET SESSION CHARACTERISTICS AS TRANSACTION.
    pub(crate) fn set_session_transaction(&mut self, modes: Modes) -> Result<()> {
        if let Some(isolation) = modes.isolation {
            let name = isolation_name(isolation);
            self.change_setting("default_transaction_isolation", Some(name))?;
        }
        if let Some(read_only) = modes.read_only {
            let value = if read_only { "on" } else { "off" };
            self.change_setting("default_transaction_read_only", Some(value))?;
        }
        Ok(())
    }

    /// SHOW name, SHOW ALL. Errors: 42704.
    pub(crate) fn show(&mut self, name: Option<&str>) -> Result<Outcome> {
        let columns = shown_columns(name);
        let mut sink = RowSet::new(1);
        match name {
            Some(name) => {
                sink.row(&[Text(&self.setting(name)?)])?;
            }
            None => {
                sink.reset(3);
                for row in self.with_surroundings(|around| self.settings.rows(around)) {
                    sink.row(&[Text(&row.name), Text(&row.value), Text(row.description)])?;
                }
            }
        }
        Ok(Outcome::Rows { rows: Rows::from_set(columns, sink), tag: "SHOW", written: None })
    }

    /// ALTER SYSTEM SET and RESET (`value` is `None`; the name `all` resets everything): a change
    /// of the catalog.
    ///
    /// Errors: 42501, 25001, 42704, 55P02, 22023; the errors of a commit.
    pub(crate) fn alter_system(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        if !self.catalog.is_superuser(&self.vars.user) {
            let message = "permission denied to execute ALTER SYSTEM command";
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        if self.block.is_some() {
            let message = "ALTER SYSTEM cannot run inside a transaction block";
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        let all = name == "all" && value.is_none();
        let value = if all { None } else { altered(name, value)? };
        let mut work = self.begin_work(Modes::default(), clock::now());
        work.tx.begin_statement();
        let is_locked = self.acquisition().lock_catalog(&mut work.tx)?;
        debug_assert!(is_locked, "the thread has waited");
        self.refresh_catalog();
        let mut after = (*self.catalog).clone();
        match value {
            Some(value) => drop(after.settings.insert(name.to_owned(), value)),
            None if all => after.settings.clear(),
            None => drop(after.settings.remove(name)),
        }
        (after.version, after.extends) = (self.shared.fresh_version(), None);
        work.catalog = Some(Arc::new(after));
        work.tx.end_statement();
        self.commit_work(work)?;
        if !all && self.shared.options.settings.gives(name) {
            self.notice(SqlError::new(
                SqlState::WARNING,
                format!(
                    "parameter \"{name}\" was given at the start, which stands above ALTER SYSTEM"
                ),
            ));
        }
        Ok(())
    }
}

/// Columns of SHOW name and of SHOW ALL. A setting that is reported to clients has the name under
/// which it is reported, as in PostgreSQL.
pub(crate) fn shown_columns(name: Option<&str>) -> Arc<[ResultColumn]> {
    let text = |name: &str| ResultColumn {
        name: name.into(),
        field: Arc::new(SqlType::Text.field(name, true)),
        ty: Some(SqlType::Text),
        origin: None,
    };
    match name {
        Some(name) => [text(told_name(name))].into(),
        None => ["name", "setting", "description"].map(text).into(),
    }
}
