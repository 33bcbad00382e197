//! Settings of the whole database that may change while it runs: when checkpoints are due, how long a
//! commit that nobody waits for may stay in memory, and how much memory views may take.
//!
//! What the database was opened with ([`DatabaseOptions`], the flags of the command line) stands above
//! what ALTER SYSTEM said, which is kept in the catalog and so is durable and in every backup.

use std::collections::BTreeMap;
use std::time::Duration;

use halcyon_query::error::{Result, SqlError, SqlState};

use crate::database::DatabaseOptions;
use crate::settings::{parse_bytes, parse_duration};

/// The names, with the unit of a bare number, which is PostgreSQL's.
const NAMES: [(&str, &str); 4] = [
    ("checkpoint_timeout", "s"),
    ("max_wal_size", "MB"),
    ("view_memory", "MB"),
    ("wal_writer_delay", "ms"),
];

/// Their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tuning {
    pub checkpoint_timeout: Duration,
    pub max_wal_size: u64,
    /// Bytes that the maps of all materialized views may take together; 0 for no limit.
    pub view_memory: u64,
    pub wal_writer_delay: Duration,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning {
            checkpoint_timeout: Duration::from_secs(300),
            max_wal_size: 1 << 30,
            view_memory: 0,
            wal_writer_delay: Duration::from_millis(200),
        }
    }
}

impl Tuning {
    /// What holds for a database that was opened so and whose catalog has these settings.
    pub fn of(options: &DatabaseOptions, altered: &BTreeMap<String, String>) -> Tuning {
        let mut tuning = Tuning::default();
        for (name, value) in altered {
            // It was checked when it was set; a version that knows no such setting passes it over.
            let _ = tuning.set(name, value);
        }
        let Tuning { checkpoint_timeout, max_wal_size, view_memory, wal_writer_delay } = tuning;
        Tuning {
            checkpoint_timeout: options.checkpoint_timeout.unwrap_or(checkpoint_timeout),
            max_wal_size: options.max_wal_size.unwrap_or(max_wal_size),
            view_memory: options.view_memory.unwrap_or(view_memory),
            wal_writer_delay: options.wal_writer_delay.unwrap_or(wal_writer_delay),
        }
    }

    /// Changes one. Errors: 22023; false if there is none of this name.
    fn set(&mut self, name: &str, value: &str) -> Result<bool> {
        let Some((_, unit)) = NAMES.iter().find(|(known, _)| *known == name) else {
            return Ok(false);
        };
        let bare = value.trim().bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let text = if bare { format!("{value}{unit}") } else { value.to_owned() };
        let duration = |least: Duration, most: Duration| {
            let range = least..=most;
            parse_duration(&text)
                .filter(|found| range.contains(found))
                .ok_or_else(|| refused(name, value))
        };
        let day = Duration::from_secs(86_400);
        match name {
            "checkpoint_timeout" => {
                self.checkpoint_timeout = duration(Duration::from_secs(1), day)?;
            }
            "wal_writer_delay" => {
                self.wal_writer_delay = duration(Duration::from_millis(1), day / 8640)?;
            }
            "view_memory" => {
                let bytes = parse_bytes(&text).filter(|bytes| *bytes == 0 || *bytes >= 1 << 10);
                self.view_memory = bytes.ok_or_else(|| refused(name, value))?;
            }
            _ => {
                let bytes = parse_bytes(&text).filter(|bytes| *bytes >= 1 << 20);
                self.max_wal_size = bytes.ok_or_else(|| refused(name, value))?;
            }
        }
        Ok(true)
    }

    /// The values as SHOW prints them.
    pub fn shown(&self) -> [(&'static str, String); 4] {
        let ms = |duration: Duration| format!("{}ms", duration.as_millis());
        let values = [
            ms(self.checkpoint_timeout),
            format!("{}kB", self.max_wal_size >> 10),
            format!("{}kB", self.view_memory >> 10),
            ms(self.wal_writer_delay),
        ];
        let mut names = NAMES.iter().map(|(name, _)| *name);
        values.map(|value| (names.next().expect("as many names as values"), value))
    }
}

fn refused(name: &str, value: &str) -> SqlError {
    let bounds = match name {
        "checkpoint_timeout" => "It is 1s at least, 1d at most.",
        "wal_writer_delay" => "It is 1ms at least, 10s at most.",
        "view_memory" => "It is 0 for no limit, or 1kB at least.",
        _ => "It is 1MB at least.",
    };
    let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).hint(bounds)
}

/// Whether ALTER SYSTEM may change it.
pub(crate) fn is_tunable(name: &str) -> bool {
    NAMES.iter().any(|(known, _)| *known == name)
}

/// Whether ALTER SYSTEM may set it to this. Errors: 22023.
pub(crate) fn check(name: &str, value: &str) -> Result<()> {
    Tuning::default().set(name, value).map(|_| ())
}

impl DatabaseOptions {
    /// Sets `checkpoint_timeout`, `max_wal_size`, `view_memory` or `wal_writer_delay` from text with a
    /// unit, as SQL has them. Errors: 42704 if it is none of these, 22023.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let mut tuning = Tuning::default();
        if !tuning.set(name, value)? {
            let message = format!("unrecognized configuration parameter \"{name}\"");
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        }
        match name {
            "checkpoint_timeout" => self.checkpoint_timeout = Some(tuning.checkpoint_timeout),
            "max_wal_size" => self.max_wal_size = Some(tuning.max_wal_size),
            "view_memory" => self.view_memory = Some(tuning.view_memory),
            _ => self.wal_writer_delay = Some(tuning.wal_writer_delay),
        }
        Ok(())
    }

    /// Whether it was given, so that ALTER SYSTEM changes nothing before the next start.
    pub(crate) fn gives(&self, name: &str) -> bool {
        match name {
            "checkpoint_timeout" => self.checkpoint_timeout.is_some(),
            "max_wal_size" => self.max_wal_size.is_some(),
            "view_memory" => self.view_memory.is_some(),
            _ => self.wal_writer_delay.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_stand_above_alter_system_and_that_above_the_default() {
        let altered = BTreeMap::from([
            ("max_wal_size".to_owned(), "64".to_owned()),
            ("gone".into(), "x".into()),
        ]);
        let mut options = DatabaseOptions::default();
        assert_eq!(Tuning::of(&options, &BTreeMap::new()), Tuning::default());
        assert_eq!(Tuning::of(&options, &altered).max_wal_size, 64 << 20);
        options.set("max_wal_size", "2GB").unwrap();
        options.set("checkpoint_timeout", "90").unwrap();
        let tuning = Tuning::of(&options, &altered);
        assert_eq!(tuning.max_wal_size, 2 << 30);
        assert_eq!(tuning.checkpoint_timeout, Duration::from_secs(90));
    }

    #[test]
    fn values_have_units_and_bounds() {
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
            let refused = check(name, value).expect_err(value);
            assert_eq!(refused.state(), SqlState::INVALID_PARAMETER_VALUE);
        }
        check("checkpoint_timeout", "1 min").unwrap();
        check("wal_writer_delay", "10000").unwrap();
        check("view_memory", "0").unwrap();
        check("view_memory", "64").unwrap();
        let refused =
            DatabaseOptions::default().set("lock_timeout", "1").expect_err("not of these");
        assert_eq!(refused.state(), SqlState::UNDEFINED_OBJECT);
    }
}
