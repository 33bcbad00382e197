//! Settings: their names, their values as text, what values each accepts, and what a new value
//! does.
//!
//! [`registry`] has one row per setting; [`kind`] says how values are read and shown; [`system`]
//! has the settings of the whole database. SET, SHOW, RESET and ALTER SYSTEM themselves are run
//! above, in `set`.
//! Names with a dot that have no row are settings of the application.

mod accepted;
#[cfg(test)]
mod guide;
mod kind;
pub(crate) mod registry;
mod system;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use halcyon_pgcatalog::{self as catalogs, SettingRow};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::utility::Modes;

use accepted::ACCEPTED;
use kind::{SettingKind, switch};
pub use registry::SERVER_VERSION;
use registry::{Home, REGISTRY, Setting};
pub(crate) use registry::{InForce, TunedParts, Tuning};
pub(crate) use system::{Chosen, altered, tune};
pub use system::{SystemSetting, SystemSettings, system_settings};

/// Settings of a session: the canonical texts of those that have been changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    changed: BTreeMap<String, String>,
    facts: Facts,
}

/// Facts about a session that it can show but not set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// The role for which the session was begun.
    pub session_role: String,
    /// The role whose rights the session has: that of SET ROLE, else the one that logged in.
    pub role: String,
    pub superuser: bool,
    /// The folder that statements spill into; empty if there is none.
    pub spill_folder: String,
}

/// The values outside a session's own settings on which settings depend.
pub(crate) struct Surroundings<'a> {
    /// Settings of the whole database.
    pub system: Chosen<'a>,
    /// Modes of the transaction in progress, if there is one.
    pub transaction: Option<Modes>,
}

/// The row of a setting, by name in lower case.
fn find(name: &str) -> Option<&'static Setting> {
    [REGISTRY, ACCEPTED].into_iter().find_map(|rows| {
        let at = rows.binary_search_by(|setting| setting.name.cmp(name));
        at.ok().map(|at| &rows[at])
    })
}

/// All settings in alphabetical order, including those without effect.
fn all() -> Vec<&'static Setting> {
    let mut all: Vec<_> = REGISTRY.iter().chain(ACCEPTED).collect();
    all.sort_by_key(|setting| setting.name);
    all
}

/// The name under which clients are told of a setting: `TimeZone` for `timezone`.
pub(crate) fn told_name(name: &str) -> &str {
    find(name).and_then(|setting| setting.reported_as).unwrap_or(name)
}

/// Whether a setting stays when its value goes: one of the application, but no variable of a session.
fn stays(name: &str) -> bool {
    find(name).is_none() && !name.starts_with("session_context.")
}

fn unknown(name: &str) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_OBJECT,
        format!("unrecognized configuration parameter \"{name}\""),
    )
}

/// 55P02: the setting cannot be changed, or not by SET.
fn unchangeable(setting: &Setting) -> SqlError {
    let refused = SqlError::new(
        SqlState::CANT_CHANGE_RUNTIME_PARAM,
        format!("parameter \"{}\" cannot be changed", setting.name),
    );
    match setting.home {
        Home::System { .. } => refused.hint("It is the whole database's: see ALTER SYSTEM."),
        _ => refused,
    }
}

impl Settings {
    pub fn new(facts: Facts) -> Self {
        Settings { changed: BTreeMap::new(), facts }
    }

    /// The value as SHOW prints it. Errors: 42704.
    pub fn show<'a>(&'a self, name: &str, around: &Surroundings<'_>) -> Result<Cow<'a, str>> {
        match find(name) {
            Some(setting) => Ok(self.value(setting, around)),
            None => self.changed(name).map(Cow::Borrowed).ok_or_else(|| unknown(name)),
        }
    }

    fn value(&self, setting: &Setting, around: &Surroundings<'_>) -> Cow<'_, str> {
        match &setting.home {
            Home::Session(kind) => match self.changed(setting.name) {
                Some(value) => Cow::Borrowed(value),
                None => Cow::Owned(kind.default()),
            },
            Home::Transaction { show, .. } => {
                Cow::Borrowed(show(around.transaction.unwrap_or_else(|| self.default_modes())))
            }
            Home::System { kind, .. } => Cow::Owned(around.system.value(setting.name, kind).0),
            Home::Fact { show, .. } => Cow::Borrowed(show(&self.facts)),
        }
    }

    /// Modes of a transaction that does not set its own.
    fn default_modes(&self) -> Modes {
        let isolation = self.session_value("default_transaction_isolation");
        let isolation = halcyon_sql::utility::parse_isolation(&isolation);
        Modes { isolation, read_only: Some(self.bool("default_transaction_read_only")) }
    }

    /// Changes a setting of the session (`None` resets it). Returns its row, or `None` for a
    /// setting of the application.
    ///
    /// Errors: 42704 for an unknown setting, 22023 for a value that it does not accept, 55P02 if
    /// sessions cannot set it.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<Option<&'static Setting>> {
        let setting = find(name);
        let value = match (setting.map(|setting| &setting.home), value) {
            (None, _) if !name.contains('.') => return Err(unknown(name)),
            (None, None) if stays(name) => Some(String::new()),
            (None, value) => value.map(str::to_owned),
            (Some(Home::Session(kind)), Some(value)) => Some(kind.parse(name, value)?),
            (Some(Home::Session(_)), None) => None,
            (Some(Home::Transaction { .. } | Home::System { .. } | Home::Fact { .. }), _) => {
                return Err(unchangeable(setting.expect("it has a home")));
            }
        };
        match value {
            Some(value) => self.changed.insert(name.to_owned(), value),
            None => self.changed.remove(name),
        };
        Ok(setting)
    }

    /// The value of a setting, if it has been changed.
    pub fn changed(&self, name: &str) -> Option<&str> {
        self.changed.get(name).map(String::as_str)
    }

    /// Puts the value of a session's setting into force. Does nothing for other settings.
    pub fn apply(&self, setting: &Setting, in_force: &mut InForce) {
        match &setting.home {
            Home::Session(kind) => match self.changed(setting.name) {
                Some(text) => kind.apply(in_force, text),
                None => kind.apply(in_force, &kind.default()),
            },
            Home::Transaction { .. } | Home::System { .. } | Home::Fact { .. } => {}
        }
    }

    /// The values of all settings, as statements read them.
    pub fn in_force(&self) -> InForce {
        let mut in_force = InForce::default();
        REGISTRY.iter().for_each(|setting| self.apply(setting, &mut in_force));
        in_force
    }

    /// Resets every setting to its default.
    pub fn reset(&mut self) {
        self.changed.retain(|name, _| stays(name));
        self.changed.values_mut().for_each(String::clear);
    }

    /// Notes the role whose rights the session has.
    pub fn tell_role(&mut self, role: &str) {
        role.clone_into(&mut self.facts.role);
    }

    /// All settings as the system views list them, those of the application last.
    pub fn rows(&self, around: &Surroundings<'_>) -> Vec<SettingRow> {
        let known = all().into_iter().map(|setting| self.row(setting, around));
        let own = self.changed.iter().filter(|(name, _)| find(name).is_none());
        let own = own.map(|(name, value)| SettingRow {
            name: Cow::Owned(name.clone()),
            value: value.clone(),
            number: value.clone(),
            category: "Customized Options",
            kind: "string",
            scope: "session",
            context: "user",
            source: "session",
            ..SettingRow::default()
        });
        known.chain(own).collect()
    }

    fn row(&self, setting: &Setting, around: &Surroundings<'_>) -> SettingRow {
        let value = self.value(setting, around).into_owned();
        let row = SettingRow {
            name: Cow::Borrowed(setting.name),
            number: value.clone(),
            default: value.clone(),
            default_number: value.clone(),
            value,
            description: setting.purpose,
            category: setting.category,
            ..SettingRow::default()
        };
        match &setting.home {
            Home::Session(kind) => {
                let changed = self.changed.contains_key(setting.name);
                let source = if changed { "session" } else { "default" };
                kind.complete(SettingRow { scope: "session", context: "user", source, ..row })
            }
            Home::System { kind, .. } => {
                let source = around.system.value(setting.name, kind).1;
                kind.complete(SettingRow { scope: "database", context: "sighup", source, ..row })
            }
            Home::Transaction { show, .. } => {
                let default = show(self.default_modes()).to_owned();
                SettingRow {
                    default_number: default.clone(),
                    default,
                    kind: if switches(setting) { "bool" } else { "enum" },
                    words: if switches(setting) { Vec::new() } else { spellings(setting) },
                    scope: "transaction",
                    context: "user",
                    source: if around.transaction.is_some() { "session" } else { "default" },
                    ..row
                }
            }
            Home::Fact { type_name, .. } => SettingRow {
                kind: type_name,
                scope: "read-only",
                context: "internal",
                source: "default",
                ..row
            },
        }
    }

    /// Names and values that clients are sent when they connect.
    pub fn reported(&self) -> impl Iterator<Item = (&'static str, Cow<'_, str>)> {
        REGISTRY.iter().filter_map(|setting| Some((setting.reported_as?, self.told(setting)?)))
    }

    /// The value of a setting, if it depends on the session alone.
    fn told(&self, setting: &Setting) -> Option<Cow<'_, str>> {
        match &setting.home {
            Home::Session(_) => Some(self.session_value(setting.name)),
            Home::Fact { show, .. } => Some(Cow::Borrowed(show(&self.facts))),
            Home::Transaction { .. } | Home::System { .. } => None,
        }
    }

    /// The canonical text of a session's setting. Panics if there is no such setting: the caller
    /// names a row of the registry.
    fn session_value(&self, name: &str) -> Cow<'_, str> {
        match (self.changed(name), session_kind(name)) {
            (Some(value), Some(_)) => Cow::Borrowed(value),
            (None, Some(kind)) => Cow::Owned(kind.default()),
            (_, None) => panic!("{name} is no setting of a session"),
        }
    }

    /// The value of a boolean setting of the session. Panics if there is no such setting.
    pub fn bool(&self, name: &str) -> bool {
        match (self.changed(name), session_kind(name)) {
            (None, Some(SettingKind::Bool { default, .. })) => *default,
            (Some(value), Some(SettingKind::Bool { .. })) => value == switch(true),
            _ => panic!("{name} is no switch of a session"),
        }
    }

    /// The value of a duration of the session; `None` if it is switched off, or if there is no such
    /// setting.
    pub fn duration(&self, name: &str) -> Option<Duration> {
        let duration = match (self.changed(name), session_kind(name)?) {
            (None, SettingKind::Time { default, .. }) => *default,
            (Some(text), kind @ SettingKind::Time { .. }) => kind.duration(text)?,
            _ => return None,
        };
        (!duration.is_zero()).then_some(duration)
    }
}

fn session_kind(name: &str) -> Option<&'static SettingKind<InForce>> {
    match find(name)?.home {
        Home::Session(ref kind) => Some(kind),
        _ => None,
    }
}

/// The modes that a value of a transaction's setting stands for; `None` for other settings. RESET
/// changes no mode. Errors: 22023.
pub(crate) fn transaction_modes(name: &str, value: Option<&str>) -> Result<Option<Modes>> {
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

/// Whether a transaction's setting is on or off.
fn switches(setting: &Setting) -> bool {
    matches!(setting.home, Home::Transaction { spellings, .. } if spellings == kind::SWITCH)
}

/// The words that a transaction's setting accepts.
fn spellings(setting: &Setting) -> Vec<&'static str> {
    match setting.home {
        Home::Transaction { spellings, .. } => spellings.iter().map(|(word, _)| *word).collect(),
        _ => Vec::new(),
    }
}

impl<T> SettingKind<T> {
    /// Completes a row with the properties of the kind: type, unit, bounds, default.
    fn complete(&self, row: SettingRow) -> SettingRow {
        let (least, most) = self.bounds().unzip();
        SettingRow {
            number: self.in_units(&row.value),
            default: self.default(),
            default_number: self.in_units(&self.default()),
            unit: self.unit(),
            kind: self.type_name(),
            least,
            most,
            words: self.words(),
            ..row
        }
    }
}

/// The schemas of a search path. `"$user"` stands for the schema named like the role; a role with
/// the name of a system schema has none.
pub(crate) fn search_path(text: &str, user: &str) -> Vec<String> {
    let own = !catalogs::SCHEMAS.contains(&user);
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    let names = names.filter(|name| own || !matches!(*name, "$user" | "\"$user\""));
    let unquote = |name: &str| match name.strip_prefix('"').and_then(|n| n.strip_suffix('"')) {
        Some("$user") => user.to_owned(),
        Some(quoted) => quoted.replace("\"\"", "\""),
        None if name == "$user" => user.to_owned(),
        None => name.to_lowercase(),
    };
    let named = names.map(unquote);
    // A role may be named like a system schema, but its objects do not belong there.
    named.filter(|name| name != user || !catalogs::SCHEMAS.contains(&name.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(settings: &Settings, name: &str) -> String {
        settings.session_value(name).into_owned()
    }

    #[test]
    fn rows_stand_in_order_have_a_sentence_and_accept_their_defaults() {
        assert!(REGISTRY.is_sorted_by(|a, b| a.name < b.name));
        for setting in REGISTRY {
            assert_eq!(setting.name, setting.name.to_ascii_lowercase());
            assert!(setting.purpose.ends_with('.'), "{} has a sentence", setting.name);
            if let Some(told) = setting.reported_as {
                assert!(told.eq_ignore_ascii_case(setting.name), "{told}");
            }
            let default = match &setting.home {
                Home::Session(kind) => (kind.default(), kind.parse(setting.name, &kind.default())),
                Home::System { kind, .. } => {
                    (kind.default(), kind.parse(setting.name, &kind.default()))
                }
                Home::Transaction { .. } | Home::Fact { .. } => continue,
            };
            assert_eq!(default.1.expect(setting.name), default.0);
        }
    }

    #[test]
    fn values_are_checked() {
        let mut settings = Settings::default();
        let state = |result: Result<Option<&Setting>>| result.err().expect("refused").state();
        assert_eq!(state(settings.set("nonsense", Some("1"))), SqlState::UNDEFINED_OBJECT);
        let refused = settings.set("lock_timeout", Some("soon"));
        assert_eq!(state(refused), SqlState::INVALID_PARAMETER_VALUE);
        for fixed in ["server_version", "max_wal_size", "role"] {
            let refused = settings.set(fixed, Some("17"));
            assert_eq!(state(refused), SqlState::CANT_CHANGE_RUNTIME_PARAM);
        }
        let refused = settings.set("client_encoding", Some("LATIN1"));
        assert_eq!(state(refused), SqlState::FEATURE_NOT_SUPPORTED);
        assert!(settings.set("my.own", Some("x")).expect("any name with a dot").is_none());
        assert_eq!(settings.changed("my.own"), Some("x"));
    }

    #[test]
    fn a_canonical_text_is_its_own() {
        let mut settings = Settings::default();
        for (name, given, shown) in [
            ("lock_timeout", "250", "250ms"),
            ("lock_timeout", "120000", "2min"),
            ("halcyon.memory", "65536", "64MB"),
            ("halcyon.point_plans", "no", "off"),
            ("synchronous_commit", "remote_apply", "on"),
            ("default_transaction_isolation", "READ COMMITTED", "read committed"),
        ] {
            settings.set(name, Some(given)).expect(name);
            assert_eq!(values(&settings, name), shown);
            settings.set(name, Some(shown)).expect(name);
            assert_eq!(values(&settings, name), shown);
        }
        assert_eq!(settings.duration("lock_timeout"), Some(Duration::from_secs(120)));
        settings.set("lock_timeout", None).expect("back to the default");
        assert_eq!(settings.duration("lock_timeout"), None);
        assert!(!settings.bool("halcyon.point_plans"));
    }
}
