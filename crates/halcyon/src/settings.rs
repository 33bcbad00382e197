//! A session's settings: names, values as text, what each may be.
//!
//! Settings that nothing here depends on (what drivers set on connecting) are kept and shown as
//! PostgreSQL would. Names with a dot are the application's own.

use std::collections::BTreeMap;
use std::time::Duration;

use halcyon_pgcatalog::{SCHEMAS as SYSTEM_SCHEMAS, SettingRow};
use halcyon_query::error::{Result, SqlError, SqlState};
use halcyon_query::utility::parse_isolation;

use crate::tuning::{self, Tuning};

/// A setting that exists without being made by the application.
struct Known {
    name: &'static str,
    default: &'static str,
    kind: Kind,
    /// Whether clients are told of changes (ParameterStatus).
    reported: bool,
    what: &'static str,
}

/// What values a setting takes.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Bool,
    /// A duration, in milliseconds unless a unit is given; 0 switches it off.
    Duration,
    /// A number within bounds.
    Integer(i64, i64),
    /// Bytes, in KiB unless a unit is given.
    Bytes,
    Isolation,
    /// When a commit is acknowledged: `on`, `off`, or PostgreSQL's words for what is `on` here.
    Synchronous,
    /// One value only: another is refused.
    Fixed,
    /// Told, never set.
    ReadOnly,
}

impl Kind {
    /// As `pg_settings.vartype` has it.
    fn name(self) -> &'static str {
        match self {
            Kind::Text | Kind::Fixed | Kind::ReadOnly => "string",
            Kind::Bool => "bool",
            Kind::Duration | Kind::Integer(..) | Kind::Bytes => "integer",
            Kind::Isolation | Kind::Synchronous => "enum",
        }
    }

    /// Unit of a bare number.
    fn unit(self) -> Option<&'static str> {
        match self {
            Kind::Duration => Some("ms"),
            Kind::Bytes => Some("kB"),
            _ => None,
        }
    }
}

const fn known(
    name: &'static str,
    default: &'static str,
    kind: Kind,
    reported: bool,
    what: &'static str,
) -> Known {
    Known { name, default, kind, reported, what }
}

/// In alphabetical order, as SHOW ALL prints them.
const KNOWN: &[Known] = &[
    known("application_name", "", Kind::Text, true, "Name of the application"),
    known("bytea_output", "hex", Kind::Fixed, false, "Format of bytea as text"),
    known(
        "checkpoint_timeout",
        "5min",
        Kind::ReadOnly,
        false,
        "Longest time between two checkpoints",
    ),
    known("client_encoding", "UTF8", Kind::Text, true, "The client's character set"),
    known("client_min_messages", "notice", Kind::Text, false, "Least level of messages sent"),
    known("datestyle", "ISO, MDY", Kind::Text, true, "Format of dates as text"),
    known(
        "default_transaction_isolation",
        "serializable",
        Kind::Isolation,
        false,
        "Isolation level of new transactions",
    ),
    known(
        "default_transaction_read_only",
        "off",
        Kind::Bool,
        true,
        "Whether new transactions only read",
    ),
    known("extra_float_digits", "1", Kind::Integer(-15, 3), false, "Digits of floats as text"),
    known("halcyon.memory", "1GB", Kind::Bytes, false, "Memory an analytical statement may hold"),
    known("halcyon.point_plans", "on", Kind::Bool, false, "Whether point plans are used"),
    known(
        "halcyon.threads",
        "0",
        Kind::Integer(0, 1024),
        false,
        "Cores an analytical statement may use; 0 means all",
    ),
    known(
        "idle_in_transaction_session_timeout",
        "0",
        Kind::Duration,
        false,
        "How long a transaction may idle",
    ),
    known("idle_session_timeout", "0", Kind::Duration, false, "How long a session may idle"),
    known("in_hot_standby", "off", Kind::ReadOnly, true, "Never"),
    known("integer_datetimes", "on", Kind::ReadOnly, true, "Times are integers on the wire"),
    known("intervalstyle", "postgres", Kind::Fixed, true, "Format of intervals as text"),
    known("is_superuser", "on", Kind::ReadOnly, true, "Whether the session's role may everything"),
    known("lc_collate", "C", Kind::ReadOnly, false, "Order of strings: by code point"),
    known("lc_ctype", "C.UTF-8", Kind::ReadOnly, false, "Classes of characters"),
    known("lock_timeout", "0", Kind::Duration, false, "How long a statement waits for a lock"),
    known("max_identifier_length", "63", Kind::ReadOnly, false, "Length of names told to clients"),
    known("max_wal_size", "1GB", Kind::ReadOnly, false, "Log after which there is a checkpoint"),
    known("row_security", "on", Kind::Text, false, "Kept for clients' sake"),
    known("search_path", "\"$user\", public", Kind::Text, true, "Schemas searched for names"),
    known("server_encoding", "UTF8", Kind::ReadOnly, true, "The server's character set"),
    known(
        "server_version",
        SERVER_VERSION,
        Kind::ReadOnly,
        true,
        "Version of PostgreSQL's protocol and dialect, and of Halcyon",
    ),
    known("server_version_num", "160000", Kind::ReadOnly, false, "The same as a number"),
    known("session_authorization", "", Kind::ReadOnly, true, "The session's role"),
    known(
        "standard_conforming_strings",
        "on",
        Kind::Fixed,
        true,
        "Backslashes stand for themselves",
    ),
    known("statement_timeout", "0", Kind::Duration, false, "How long a statement may run"),
    known(
        "synchronous_commit",
        "on",
        Kind::Synchronous,
        false,
        "Whether a commit is acknowledged only once it is durable",
    ),
    known("timezone", "UTC", Kind::Text, true, "Time zone of timestamps as text"),
    known(
        "transaction_isolation",
        "serializable",
        Kind::Isolation,
        false,
        "Isolation level of the transaction",
    ),
    known("transaction_read_only", "off", Kind::Bool, false, "Whether the transaction only reads"),
    known("view_memory", "0kB", Kind::ReadOnly, false, "Memory of all materialized views; 0: any"),
    known(
        "wal_writer_delay",
        "200ms",
        Kind::ReadOnly,
        false,
        "How long a commit that is not waited for may stay in memory",
    ),
];

/// The version told to clients: the dialect's, then ours.
pub const SERVER_VERSION: &str = concat!("16.0 (Halcyon ", env!("CARGO_PKG_VERSION"), ")");

/// Settings of a session, as text by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    changed: BTreeMap<String, String>,
}

fn find(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

fn unknown(name: &str) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_OBJECT,
        format!("unrecognized configuration parameter \"{name}\""),
    )
}

impl Settings {
    /// The value, if there is such a setting.
    pub fn get(&self, name: &str) -> Result<&str> {
        match self.changed.get(name) {
            Some(value) => Ok(value),
            None => find(name).map(|known| known.default).ok_or_else(|| unknown(name)),
        }
    }

    /// Changes a setting (`None`: back to the default) and says whether clients must be told.
    ///
    /// Errors: 42704 unknown, 22023 not a value it takes, 55P02 read only.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<bool> {
        let Some(known) = find(name) else {
            if !name.contains('.') {
                return Err(unknown(name));
            }
            match value {
                Some(value) => self.changed.insert(name.to_owned(), value.to_owned()),
                None => self.changed.remove(name),
            };
            return Ok(false);
        };
        match value {
            Some(value) => {
                let value = known.check(value)?;
                self.changed.insert(name.to_owned(), value);
            }
            None => {
                self.changed.remove(name);
            }
        }
        Ok(known.reported)
    }

    /// Overwrites a setting that is told, never set.
    pub fn tell(&mut self, name: &str, value: &str) {
        self.changed.insert(name.to_owned(), value.to_owned());
    }

    /// Notes how the whole database is set up now.
    pub fn tell_tuning(&mut self, tuning: &Tuning) {
        for (name, value) in tuning.shown() {
            self.tell(name, &value);
        }
    }

    /// Refuses what ALTER SYSTEM cannot change. Errors: 42704, 55P02.
    pub fn require_tunable(name: &str) -> Result<()> {
        if tuning::is_tunable(name) {
            return Ok(());
        }
        find(name).ok_or_else(|| unknown(name))?;
        Err(SqlError::new(
            SqlState::CANT_CHANGE_RUNTIME_PARAM,
            format!("parameter \"{name}\" cannot be changed by ALTER SYSTEM"),
        )
        .hint("What a session may change, SET does."))
    }

    /// The value if it was changed.
    pub fn changed(&self, name: &str) -> Option<&str> {
        self.changed.get(name).map(String::as_str)
    }

    /// Everything back to its default; what is only told stays.
    pub fn reset_all(&mut self) {
        self.changed
            .retain(|name, _| find(name).is_some_and(|known| matches!(known.kind, Kind::ReadOnly)));
    }

    /// Name, value and description of every setting.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let known = KNOWN.iter().map(|known| {
            let value = self.changed.get(known.name).map_or(known.default, String::as_str);
            (known.name, value, known.what)
        });
        let own = self.changed.iter().filter(|(name, _)| find(name).is_none());
        known.chain(own.map(|(name, value)| (name.as_str(), value.as_str(), "")))
    }

    /// Every setting as the system view lists it.
    pub fn rows(&self) -> Vec<SettingRow> {
        let row = |known: &Known| SettingRow {
            name: known.name,
            value: self.changed.get(known.name).map_or(known.default, String::as_str).to_owned(),
            unit: known.kind.unit(),
            description: known.what,
            kind: known.kind.name(),
            default: known.default.to_owned(),
        };
        KNOWN.iter().map(row).collect()
    }

    /// Names and values that clients are told on connecting.
    pub fn reported(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let reported = KNOWN.iter().filter(|known| known.reported);
        reported.map(|known| {
            (display_name(known.name), self.changed.get(known.name).map_or(known.default, |v| v))
        })
    }

    /// A boolean setting.
    pub fn bool(&self, name: &str) -> bool {
        self.get(name).is_ok_and(|value| parse_bool(value) == Some(true))
    }

    /// A duration setting; `None` if switched off.
    pub fn duration(&self, name: &str) -> Option<Duration> {
        self.get(name).ok().and_then(parse_duration).filter(|duration| !duration.is_zero())
    }

    /// A number setting; 0 if it is not one.
    pub fn integer(&self, name: &str) -> i64 {
        self.get(name).ok().and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    /// A setting in bytes; 0 if it is not one.
    pub fn bytes(&self, name: &str) -> u64 {
        self.get(name).ok().and_then(parse_bytes).unwrap_or(0)
    }
}

/// The schemas of a search path; `"$user"` stands for the schema named like the role, which a role
/// called like a system schema does not have.
pub(crate) fn search_path(text: &str, user: &str) -> Vec<String> {
    let own = !SYSTEM_SCHEMAS.contains(&user);
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    let names = names.filter(|name| own || !matches!(*name, "$user" | "\"$user\""));
    let unquote = |name: &str| match name.strip_prefix('"').and_then(|n| n.strip_suffix('"')) {
        Some("$user") => user.to_owned(),
        Some(quoted) => quoted.replace("\"\"", "\""),
        None if name == "$user" => user.to_owned(),
        None => name.to_lowercase(),
    };
    let named = names.map(unquote);
    // A role may be named like a system schema; its own objects belong elsewhere.
    named.filter(|name| name != user || !SYSTEM_SCHEMAS.contains(&name.as_str())).collect()
}

/// Names as PostgreSQL spells them to clients.
pub(crate) fn display_name(name: &'static str) -> &'static str {
    match name {
        "datestyle" => "DateStyle",
        "intervalstyle" => "IntervalStyle",
        "timezone" => "TimeZone",
        other => other,
    }
}

impl Known {
    /// The value to keep. Errors: 22023, 55P02.
    fn check(&self, value: &str) -> Result<String> {
        let accepted = match self.kind {
            Kind::Text => Some(self.check_text(value)?),
            Kind::Bool => {
                parse_bool(value).map(|value| (if value { "on" } else { "off" }).to_owned())
            }
            Kind::Duration => parse_duration(value).map(|_| value.to_owned()),
            Kind::Bytes => parse_bytes(value).map(|_| value.to_owned()),
            Kind::Integer(least, most) => {
                let number = value.parse::<i64>().ok();
                number.filter(|n| (least..=most).contains(n)).map(|n| n.to_string())
            }
            Kind::Synchronous => match value.to_ascii_lowercase().as_str() {
                // There is no second server whose answer could be waited for.
                "local" | "remote_write" | "remote_apply" => Some("on".to_owned()),
                other => parse_bool(other).map(|on| (if on { "on" } else { "off" }).to_owned()),
            },
            Kind::Isolation => parse_isolation(value).map(|_| value.to_ascii_lowercase()),
            Kind::Fixed => {
                value.eq_ignore_ascii_case(self.default).then(|| self.default.to_owned())
            }
            Kind::ReadOnly => {
                let refused = SqlError::new(
                    SqlState::CANT_CHANGE_RUNTIME_PARAM,
                    format!("parameter \"{}\" cannot be changed", self.name),
                );
                return Err(match tuning::is_tunable(self.name) {
                    true => refused.hint("It is the whole database's: see ALTER SYSTEM."),
                    false => refused,
                });
            }
        };
        accepted.ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("invalid value for parameter \"{}\": \"{value}\"", self.name),
            )
        })
    }

    fn check_text(&self, value: &str) -> Result<String> {
        if self.name == "client_encoding" {
            let plain: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
            let utf8 = ["utf8", "unicode", "sqlascii"];
            if !utf8.contains(&plain.to_ascii_lowercase().as_str()) {
                return Err(SqlError::unsupported(format!("client encoding {value}"))
                    .hint("Halcyon speaks UTF8."));
            }
            return Ok("UTF8".to_owned());
        }
        if self.name == "datestyle" && !value.to_ascii_lowercase().contains("iso") {
            return Err(SqlError::unsupported(format!("date style {value}"))
                .hint("Dates are read and written as ISO 8601."));
        }
        if self.name == "timezone" {
            halcyon_query::coerce::TimeZone::parse(value)?;
        }
        Ok(value.to_owned())
    }
}

fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" | "t" | "y" => Some(true),
        "off" | "false" | "no" | "0" | "f" | "n" => Some(false),
        _ => None,
    }
}

/// Splits `10 min` into number and unit.
fn split_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, text[end..].trim()))
}

pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text)?;
    let seconds = match unit {
        "us" => 1e-6,
        "" | "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * seconds).ok()
}

pub(crate) fn parse_bytes(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text)?;
    let factor = match unit {
        "B" => 1.0,
        "" | "kB" | "KB" => 1024.0,
        "MB" => 1024.0 * 1024.0,
        "GB" => 1024.0 * 1024.0 * 1024.0,
        "TB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some((number * factor) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_settings_stand_in_order_and_accept_their_defaults() {
        assert!(KNOWN.is_sorted_by(|a, b| a.name < b.name));
        for known in KNOWN.iter().filter(|known| !matches!(known.kind, Kind::ReadOnly)) {
            if known.name != "timezone" {
                known.check(known.default).expect(known.name);
            }
        }
    }

    #[test]
    fn values_are_checked() {
        let mut settings = Settings::default();
        let state = |result: Result<bool>| result.unwrap_err().state();
        assert_eq!(state(settings.set("nonsense", Some("1"))), SqlState::UNDEFINED_OBJECT);
        let refused = settings.set("lock_timeout", Some("soon"));
        assert_eq!(state(refused), SqlState::INVALID_PARAMETER_VALUE);
        let refused = settings.set("server_version", Some("17"));
        assert_eq!(state(refused), SqlState::CANT_CHANGE_RUNTIME_PARAM);
        let refused = settings.set("client_encoding", Some("LATIN1"));
        assert_eq!(state(refused), SqlState::FEATURE_NOT_SUPPORTED);
        assert!(!settings.set("my.own", Some("x")).unwrap());
        assert_eq!(settings.get("my.own").unwrap(), "x");
    }

    #[test]
    fn durations_and_bytes_have_units() {
        let mut settings = Settings::default();
        assert_eq!(settings.duration("lock_timeout"), None);
        settings.set("lock_timeout", Some("250")).unwrap();
        assert_eq!(settings.duration("lock_timeout"), Some(Duration::from_millis(250)));
        settings.set("lock_timeout", Some("2 min")).unwrap();
        assert_eq!(settings.duration("lock_timeout"), Some(Duration::from_secs(120)));
        assert_eq!(settings.bytes("halcyon.memory"), 1 << 30);
        settings.set("lock_timeout", None).unwrap();
        assert_eq!(settings.duration("lock_timeout"), None);
    }
}
