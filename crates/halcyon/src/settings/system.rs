//! Settings of the whole database, which may change while it runs.
//!
//! What the database was opened with ([`SystemSettings`], the flags of the command line) stands above
//! what ALTER SYSTEM said, which is kept in the catalog and so is durable and in every backup.

use std::collections::BTreeMap;

use halcyon_sql::error::{Result, SqlError, SqlState};

use super::kind::SettingKind;
use super::registry::{Home, REGISTRY, Setting, TunedParts, Tuning};
use super::{find, unknown};

/// Values of settings of the whole database that are given when it is opened.
#[derive(Clone, Debug, Default)]
pub struct SystemSettings {
    /// Canonical texts of the values.
    given: BTreeMap<&'static str, String>,
}

/// A setting of the whole database, for programs that make command-line flags of these settings.
#[derive(Clone, Debug)]
pub struct SystemSetting {
    /// Name of the setting.
    pub name: &'static str,
    /// Name of the flag, without the dashes before it.
    pub flag: &'static str,
    /// Purpose of the setting.
    pub purpose: &'static str,
    /// Value without a flag and without ALTER SYSTEM.
    pub default: String,
    /// Whether the setting has no meaning for a database in memory alone.
    pub needs_folder: bool,
}

/// All settings of the whole database.
pub fn system_settings() -> impl Iterator<Item = SystemSetting> {
    REGISTRY.iter().filter_map(|setting| match &setting.home {
        Home::System { kind, flag, needs_folder, .. } => Some(SystemSetting {
            name: setting.name,
            flag,
            purpose: setting.purpose,
            default: kind.default(),
            needs_folder: *needs_folder,
        }),
        Home::Session(_) | Home::Transaction { .. } | Home::Fact { .. } => None,
    })
}

/// Names and kinds of the settings of the whole database.
fn kinds() -> impl Iterator<Item = (&'static str, &'static SettingKind<Tuning>)> {
    REGISTRY.iter().filter_map(|setting| Some((setting.name, kind_of(setting)?)))
}

fn kind_of(setting: &'static Setting) -> Option<&'static SettingKind<Tuning>> {
    match &setting.home {
        Home::System { kind, .. } => Some(kind),
        Home::Session(_) | Home::Transaction { .. } | Home::Fact { .. } => None,
    }
}

impl SystemSettings {
    /// Sets a setting, from a text with a unit as in SQL.
    ///
    /// Errors: 42704 if it is no setting of the whole database, 22023.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let setting = find(name).ok_or_else(|| unknown(name))?;
        let kind = kind_of(setting).ok_or_else(|| unknown(name))?;
        self.given.insert(setting.name, kind.parse(name, value)?);
        Ok(())
    }

    /// The value that was given for a setting, as SHOW prints it.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.given.get(name).map(String::as_str)
    }

    /// Whether a value was given on opening, so that ALTER SYSTEM changes nothing until the next
    /// start.
    pub(crate) fn gives(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }
}

/// The sources of the values: those given when the database was opened, and those of ALTER SYSTEM.
#[derive(Clone, Copy)]
pub(crate) struct Chosen<'a> {
    pub given: &'a SystemSettings,
    /// The texts that ALTER SYSTEM has set, by name; the catalog keeps them.
    pub altered: &'a BTreeMap<String, String>,
}

impl Chosen<'_> {
    /// The value in force as canonical text, and its source as in `pg_settings.source`.
    pub fn value(&self, name: &str, kind: &SettingKind<Tuning>) -> (String, &'static str) {
        if let Some(given) = self.given.given.get(name) {
            return (given.clone(), "command line");
        }
        // The text was checked when it was set; a version with other bounds ignores it if it does
        // not fit.
        let altered = self.altered.get(name).and_then(|text| kind.parse(name, text).ok());
        match altered {
            Some(altered) => (altered, "configuration file"),
            None => (kind.default(), "default"),
        }
    }

    /// The values of all settings.
    pub fn tuning(&self) -> Tuning {
        let mut tuning = Tuning::default();
        for (name, kind) in kinds() {
            kind.apply(&mut tuning, &self.value(name, kind).0);
        }
        tuning
    }
}

/// Puts the values of all settings into force.
pub(crate) fn tune(tuning: &Tuning, parts: &TunedParts<'_>) {
    for setting in REGISTRY {
        match setting.home {
            Home::System { effect, .. } => effect(tuning, parts),
            Home::Session(_) | Home::Transaction { .. } | Home::Fact { .. } => {}
        }
    }
}

/// The canonical text of the value that ALTER SYSTEM gives a setting.
///
/// Errors: 42704 for an unknown setting, 55P02 for one that is not the database's, 22023.
pub(crate) fn altered(name: &str, value: Option<&str>) -> Result<Option<String>> {
    let setting = find(name).ok_or_else(|| unknown(name))?;
    match (kind_of(setting), value) {
        (Some(kind), Some(value)) => kind.parse(name, value).map(Some),
        (Some(_), None) => Ok(None),
        (None, _) => Err(SqlError::new(
            SqlState::CANT_CHANGE_RUNTIME_PARAM,
            format!("parameter \"{name}\" cannot be changed by ALTER SYSTEM"),
        )
        .hint("What a session may change, SET does.")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_given_stands_above_alter_system_and_that_above_the_default() {
        let altered = BTreeMap::from([
            ("max_wal_size".to_owned(), "64".to_owned()),
            ("gone".into(), "x".into()),
            ("wal_writer_delay".into(), "nonsense".into()),
        ]);
        let mut given = SystemSettings::default();
        let nothing = BTreeMap::new();
        let defaults = Chosen { given: &given, altered: &nothing }.tuning();
        assert_eq!(defaults.wal_writer_delay, Duration::from_millis(200));
        let tuning = Chosen { given: &given, altered: &altered }.tuning();
        assert_eq!(tuning, Tuning { max_wal_size: 64 << 20, ..defaults });
        given.set("max_wal_size", "2GB").expect("a size");
        given.set("checkpoint_timeout", "90").expect("seconds");
        let tuning = Chosen { given: &given, altered: &altered }.tuning();
        assert_eq!((tuning.max_wal_size, tuning.checkpoint_timeout.as_secs()), (2 << 30, 90));
    }

    #[test]
    fn values_have_units_and_bounds() {
        let mut given = SystemSettings::default();
        for (name, value) in [
            ("checkpoint_timeout", "0"),
            ("checkpoint_timeout", "2d"),
            ("max_wal_size", "10kB"),
            ("max_wal_size", "much"),
            ("view_memory", "100B"),
            ("view_memory", "-1"),
            ("wal_writer_delay", "0"),
            ("wal_writer_delay", "11s"),
        ] {
            let refused = given.set(name, value).expect_err(value);
            assert_eq!(refused.state(), SqlState::INVALID_PARAMETER_VALUE);
            assert!(refused.fields().hint.is_some(), "{name} tells its bounds");
        }
        for (name, value) in
            [("checkpoint_timeout", "1 min"), ("wal_writer_delay", "10000"), ("view_memory", "0")]
        {
            given.set(name, value).expect(value);
        }
        let refused = given.set("lock_timeout", "1").expect_err("a session's");
        assert_eq!(refused.state(), SqlState::UNDEFINED_OBJECT);
    }

    #[test]
    fn every_setting_of_the_database_has_a_flag() {
        for setting in system_settings() {
            assert_eq!(setting.flag.replace('-', "_"), setting.name);
        }
        assert!(system_settings().count() > 3);
    }
}
