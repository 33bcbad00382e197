//! SET, RESET, SHOW and ALTER SYSTEM: what a session does with settings.

use std::sync::Arc;
use std::time::Duration;

use halcyon_query::error::{Result, SqlError, SqlState};
use halcyon_query::rows::{ResultColumn, RowSet, RowSink};
use halcyon_query::types::SqlType;
use halcyon_query::utility::{Modes, isolation_name};
use halcyon_store::ValueRef::Text;

use super::registry::{Home, REGISTRY};
use super::{Settings, Surroundings, find, system};
use crate::outcome::Outcome;
use crate::rows::Rows;
use crate::session::Session;
use crate::transaction::Active;

impl Session {
    /// Settings that clients are told on connecting: (name, value).
    pub fn reported_settings(&self) -> Vec<(String, String)> {
        let told = self.settings.reported();
        told.map(|(name, value)| (name.to_owned(), value.into_owned())).collect()
    }

    /// A setting that is a duration; `None` if it is switched off or no duration.
    pub fn setting_duration(&self, name: &str) -> Option<Duration> {
        self.settings.duration(name)
    }

    /// Changes a setting, as SET does outside a transaction.
    ///
    /// Errors: 42704 unknown, 22023 not a value it takes, 55P02 read only.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        self.change_setting(name, Some(value))
    }

    /// The value of a setting, as SHOW prints it. Errors: 42704.
    pub fn setting(&self, name: &str) -> Result<String> {
        self.with_surroundings(|around| {
            let value = self.settings.show(&name.to_ascii_lowercase(), around)?;
            Ok(value.into_owned())
        })
    }

    /// Calls `read` with what values of settings depend on beside the session's own.
    fn with_surroundings<T>(&self, read: impl FnOnce(&Surroundings<'_>) -> T) -> T {
        let catalog = self.shared.catalog();
        let modes = |active: &Active| Modes {
            isolation: Some(active.isolation()),
            read_only: Some(active.read_only()),
        };
        read(&Surroundings {
            system: self.shared.chosen(&catalog),
            transaction: self.active.as_deref().map(modes),
        })
    }

    /// Changes a setting (`None`: back to the default) and what depends on it. Names are compared
    /// without case: drivers send `DateStyle`.
    ///
    /// Errors: as [`Session::set`].
    pub(crate) fn change_setting(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        let name = name.to_ascii_lowercase();
        if let Some(modes) = transaction_modes(&name, value)? {
            return self.set_transaction(modes);
        }
        if let Some(setting) = self.settings.set(&name, value)? {
            self.settings.clone().apply(setting, self);
            if let Some(told) = setting.reported_as {
                self.tell_change(told);
            }
        }
        self.publish_settings();
        Ok(())
    }

    /// Tells clients of a setting's value, by the name that they know.
    fn tell_change(&mut self, told_as: &str) {
        let found = self.settings.reported().find(|(name, _)| *name == told_as);
        let found = found.map(|(name, value)| (name.to_owned(), value.into_owned()));
        self.changes.extend(found);
    }

    /// Lets all settings take effect: after one that others depend on, such as the role.
    pub(crate) fn apply_settings(&mut self) {
        self.settings.facts.role.clone_from(&self.vars.user);
        let settings = self.settings.clone();
        REGISTRY.iter().for_each(|setting| settings.apply(setting, self));
        self.publish_settings();
    }

    /// Shows the settings to statements over the system views, also to those planned before.
    fn publish_settings(&self) {
        self.entry.set_settings(&self.settings);
    }

    /// Cores for analytical statements; 0 means as many as the database was opened with, or all.
    pub(super) fn use_threads(&mut self, threads: usize) {
        let given = [threads, self.shared.options.threads].into_iter().find(|threads| *threads > 0);
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.vars.threads = given.unwrap_or_else(cores);
    }

    /// RESET ALL: everything back to its default.
    pub(crate) fn reset_settings(&mut self) {
        let before = self.reported_settings();
        self.settings.changed.clear();
        self.apply_settings();
        let after = self.reported_settings();
        self.changes.extend(after.into_iter().filter(|told| !before.contains(told)));
    }

    /// SET, SET LOCAL and RESET, which a rollback takes back.
    ///
    /// Errors: as [`Session::set`]; 25001 for modes of a transaction that has begun to work.
    pub(crate) fn set_in_transaction(
        &mut self,
        name: &str,
        value: Option<&str>,
        local: bool,
    ) -> Result<()> {
        if let Some(modes) = transaction_modes(name, value)? {
            return self.set_transaction(modes);
        }
        if local && self.active.is_none() {
            self.notice(SqlError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "SET LOCAL can only be used in transaction blocks",
            ));
            return Ok(());
        }
        let before = self.settings.clone();
        self.change_setting(name, value)?;
        if let Some(active) = &mut self.active {
            if local {
                let old = before.changed(name).map(ToOwned::to_owned);
                active.local.push((name.to_owned(), old));
            }
            active.settings_before.get_or_insert(before);
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
            let value = super::kind::switch(read_only);
            self.change_setting("default_transaction_read_only", Some(value))?;
        }
        Ok(())
    }

    /// SHOW name, SHOW ALL. Errors: 42704.
    pub(crate) fn show(&mut self, name: Option<&str>) -> Result<Outcome> {
        let text = |name: &str| ResultColumn {
            name: name.into(),
            field: Arc::new(SqlType::Text.field(name, true)),
            ty: Some(SqlType::Text),
            origin: None,
        };
        let mut sink = RowSet::new(1);
        let columns: Arc<[ResultColumn]> = match name {
            Some(name) => {
                sink.row(&[Text(&self.setting(name)?)])?;
                [text(name)].into()
            }
            None => {
                sink.reset(3);
                for row in self.with_surroundings(|around| self.settings.rows(around)) {
                    sink.row(&[Text(&row.name), Text(&row.value), Text(row.description)])?;
                }
                ["name", "setting", "description"].map(text).into()
            }
        };
        Ok(Outcome::Rows { rows: Rows::from_set(columns, sink), tag: "SHOW", written: None })
    }

    /// ALTER SYSTEM SET and RESET (`value` None; `all` resets everything): a change of the catalog.
    ///
    /// Errors: 42501, 25001, 42704, 55P02, 22023; those of a commit.
    pub(crate) fn alter_system(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        if !self.catalog.is_superuser(&self.vars.user) {
            let message = "permission denied to execute ALTER SYSTEM command";
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        if self.active.is_some() {
            let message = "ALTER SYSTEM cannot run inside a transaction block";
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        let all = name == "all" && value.is_none();
        let value = if all { None } else { system::altered(name, value)? };
        let mut active = self.new_active(Modes::default());
        active.tx.begin_statement();
        self.lock_catalog(&mut active)?;
        let mut after = (*self.catalog).clone();
        match value {
            Some(value) => drop(after.settings.insert(name.to_owned(), value)),
            None if all => after.settings.clear(),
            None => drop(after.settings.remove(name)),
        }
        after.version = self.shared.fresh_version();
        active.catalog = Some(Arc::new(after));
        active.tx.end_statement();
        self.commit_active(active)?;
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

/// The modes that a setting of the transaction stands for; `None` if it is no such setting.
/// RESET changes no mode. Errors: 22023.
fn transaction_modes(name: &str, value: Option<&str>) -> Result<Option<Modes>> {
    let Some(Home::Transaction { spellings, modes, .. }) = find(name).map(|found| &found.home)
    else {
        return Ok(None);
    };
    let Some(value) = value else { return Ok(Some(Modes::default())) };
    let found = spellings.iter().find(|(spelling, _)| spelling.eq_ignore_ascii_case(value.trim()));
    let (_, word) = found.ok_or_else(|| {
        let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
    })?;
    Ok(Some(modes(word)))
}

impl Settings {
    /// Lets the value of a session's setting take effect. Nothing for others.
    fn apply(&self, setting: &super::Setting, session: &mut Session) {
        match &setting.home {
            Home::Session(kind) => match self.changed(setting.name) {
                Some(text) => kind.apply(session, text),
                None => kind.apply(session, &kind.default()),
            },
            Home::Transaction { .. } | Home::System { .. } | Home::Fact { .. } => {}
        }
    }
}
