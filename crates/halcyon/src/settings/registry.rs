//! The registry of settings: one row per setting says its name, purpose, accepted values, who may
//! change it and when, and what a new value does. A row with a piece missing does not compile.
//!
//! To add a setting, add a row to [`REGISTRY`], in alphabetical order. A setting of the whole
//! database keeps its value in [`Tuning`], below.

use std::time::Duration;

use halcyon_plan::engine::DataFusion;
use halcyon_spill::SpillFolder;
use halcyon_sql::coerce::TimeZone;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::utility::{Modes, isolation_name, parse_isolation};
use halcyon_txn::{Isolation, Log};
use halcyon_views::ViewBudget;

use super::Facts;
use super::kind::{Bounds, KILOBYTE, MEGABYTE, MILLISECOND, SECOND, SWITCH, SettingKind, switch};
use crate::memory::MemoryLimit;

/// A setting: a row of the registry.
pub(crate) struct Setting {
    /// Name of the setting in lower case, by which it is looked up.
    pub name: &'static str,
    /// Purpose of the setting: one sentence, for `pg_settings`, SHOW ALL and the guide.
    pub purpose: &'static str,
    /// The setting's heading in `pg_settings`.
    pub category: &'static str,
    /// The name under which clients are told the value and its changes (ParameterStatus).
    pub reported_as: Option<&'static str>,
    pub home: Home,
}

/// The scope of a setting: who may change it, when, and its values.
pub(crate) enum Home {
    /// A setting of a session: set by SET, by any role at any time, and by options on connecting.
    Session(SettingKind<InForce>),
    /// A setting of a transaction: SET before its first statement; outside of one the session's
    /// default.
    Transaction {
        spellings: &'static [(&'static str, &'static str)],
        show: fn(Modes) -> &'static str,
        modes: fn(&str) -> Modes,
    },
    /// A setting of the whole database: set by ALTER SYSTEM, as a superuser; flags at the start
    /// take precedence.
    System {
        kind: SettingKind<Tuning>,
        /// Puts a new value into force at once. Does nothing for values that are read when they are
        /// needed.
        effect: fn(&Tuning, &TunedParts<'_>),
        /// The flag on the command line.
        flag: &'static str,
        /// Whether the setting has no meaning for a database in memory alone.
        needs_folder: bool,
    },
    /// A fact, which is shown and cannot be set.
    Fact { type_name: &'static str, show: fn(&Facts) -> &str },
}

/// The values of the settings of the whole database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tuning {
    pub cache_partitioning: bool,
    pub checkpoint_timeout: Duration,
    /// Bytes of log after which a checkpoint is due.
    pub max_wal_size: u64,
    /// Bytes that the process may have in use; 0 for a part of what the system gives it.
    pub memory_limit: u64,
    /// Workers of an island that may run polluting statements at once; 0 for all.
    pub polluting_workers: usize,
    /// Bytes that all spilled files may take together.
    pub spill_limit: u64,
    /// Bytes that the maps of all materialized views may use together; 0 for no limit.
    pub view_memory: u64,
    pub wal_writer_delay: Duration,
}

/// The values of a session's settings. [`Setting`]s write them; running statements read them.
#[derive(Clone, Debug, Default)]
pub(crate) struct InForce {
    pub application: String,
    pub default_modes: Modes,
    /// Whether plans lock early what they have learned to ([`halcyon_prepare::early`]).
    pub early_locks: bool,
    /// Digits of floats in results beside 15 or 6, none above 0; `None`: as many as they need.
    pub float_digits: Option<i8>,
    /// Longest wait for a lock; `None` for no limit.
    pub lock_timeout: Option<Duration>,
    /// Bytes of memory that an analytical statement may use.
    pub memory_bytes: usize,
    /// Rows that a look-up visits under locks before it leaves off; 0 for no limit.
    pub point_visits: u32,
    pub search_path: String,
    /// Longest duration of a statement; `None` for no limit.
    pub statement_timeout: Option<Duration>,
    /// Whether commits are acknowledged only once they are durable.
    pub synchronous: bool,
    /// Bytes that files of an analytical statement may take; `None` for no limit.
    pub temp_file_bytes: Option<u64>,
    /// Cores that an analytical statement may use; 0 for the number with which the database was
    /// opened.
    pub threads: usize,
    pub time_zone: String,
    /// The span of the client that statements belong to.
    pub traceparent: String,
}

/// The parts of a running database that settings of the whole database change at once.
pub(crate) struct TunedParts<'a> {
    pub budget: &'a ViewBudget,
    pub memory: &'a MemoryLimit,
    /// The workers of analytical statements.
    pub datafusion: &'a DataFusion,
    /// The folder of spilled files, if there is one.
    pub spill: Option<&'a SpillFolder>,
    /// The log; `None` for a database in memory alone.
    pub log: Option<&'a Log>,
}

/// The version that clients are told: the dialect's, then Halcyon's.
pub const SERVER_VERSION: &str = concat!("16.0 (Halcyon ", env!("CARGO_PKG_VERSION"), ")");

const BEHAVIOUR: &str = "Client Connection Defaults / Statement Behavior";
const FORMAT: &str = "Client Connection Defaults / Locale and Formatting";
const COMPATIBILITY: &str = "Version and Platform Compatibility";
const CHECKPOINTS: &str = "Write-Ahead Log / Checkpoints";
const LOG: &str = "Write-Ahead Log / Settings";
const RESOURCES: &str = "Resource Usage / Memory";
const PLANNING: &str = "Query Tuning / Planner Method Configuration";
const PRESET: &str = "Preset Options";

/// Bounds of a timeout; the upper one is PostgreSQL's.
const TIMEOUT: Bounds = Bounds { least: 1, most: 2_147_483_647_000, zero: Some("none") };

const ISOLATION: &[(&str, &str)] = &[
    ("serializable", "serializable"),
    ("repeatable read", "repeatable read"),
    ("read committed", "read committed"),
    ("read uncommitted", "read uncommitted"),
];

/// The effect of settings that clients set and that change nothing here.
fn kept_for_clients(_: &mut InForce, _: &str) {}

/// The effect of such settings whose values are no text: see [`kept_for_clients`].
fn kept_value<V>(_: &mut InForce, _: V) {}

/// The effect of settings that are looked up where they are needed.
fn looked_up<V>(_: &mut InForce, _: V) {}

/// The effect of settings of the database that are looked up where they are needed.
fn read_when_due(_: &Tuning, _: &TunedParts<'_>) {}

fn any_text(text: &str) -> Result<String> {
    Ok(text.to_owned())
}

const fn fact(
    name: &'static str,
    purpose: &'static str,
    reported_as: Option<&'static str>,
    show: fn(&Facts) -> &str,
) -> Setting {
    let home = Home::Fact { type_name: "string", show };
    Setting { name, purpose, category: PRESET, reported_as, home }
}

/// All settings in alphabetical order, as SHOW ALL prints them.
pub(crate) static REGISTRY: &[Setting] = &[
    Setting {
        name: "application_name",
        purpose: "Name that the application gives itself.",
        category: "Reporting and Logging / What to Log",
        reported_as: Some("application_name"),
        home: Home::Session(SettingKind::Text {
            default: "",
            check: any_text,
            apply: |in_force, name| name.clone_into(&mut in_force.application),
        }),
    },
    fact("block_size", "Bytes in which sizes are counted for clients.", None, |_| "8192"),
    Setting {
        name: "bytea_output",
        purpose: "Format of BYTEA as text.",
        category: BEHAVIOUR,
        reported_as: None,
        home: Home::Session(SettingKind::Word {
            default: "hex",
            spellings: &[("hex", "hex")],
            apply: kept_for_clients,
        }),
    },
    Setting {
        name: "cache_partitioning",
        purpose: "Whether workers fill different ways of the last-level cache by the kind of their statements.",
        category: "Resource Usage / Asynchronous Behavior",
        reported_as: None,
        home: Home::System {
            kind: SettingKind::Bool {
                default: false,
                apply: |tuning, on| tuning.cache_partitioning = on,
            },
            effect: |tuning, parts| {
                let crew = parts.datafusion.crew();
                crew.divide_caches(tuning.cache_partitioning, tuning.polluting_workers);
            },
            flag: "cache-partitioning",
            needs_folder: false,
        },
    },
    Setting {
        name: "checkpoint_timeout",
        purpose: "Longest time between two checkpoints while there are commits.",
        category: CHECKPOINTS,
        reported_as: None,
        home: Home::System {
            kind: SettingKind::Time {
                default: Duration::from_secs(300),
                unit: SECOND,
                bounds: Bounds { least: 1_000_000, most: 86_400_000_000, zero: None },
                apply: |tuning, time| tuning.checkpoint_timeout = time,
            },
            effect: read_when_due,
            flag: "checkpoint-timeout",
            needs_folder: true,
        },
    },
    Setting {
        name: "client_encoding",
        purpose: "The client's character set.",
        category: FORMAT,
        reported_as: Some("client_encoding"),
        home: Home::Session(SettingKind::Text {
            default: "UTF8",
            check: check_encoding,
            apply: kept_for_clients,
        }),
    },
    Setting {
        name: "client_min_messages",
        purpose: "Least level of messages sent; kept for clients that set it.",
        category: BEHAVIOUR,
        reported_as: None,
        home: Home::Session(SettingKind::Text {
            default: "notice",
            check: any_text,
            apply: kept_for_clients,
        }),
    },
    Setting {
        name: "datestyle",
        purpose: "Format of dates as text.",
        category: FORMAT,
        reported_as: Some("DateStyle"),
        home: Home::Session(SettingKind::Text {
            default: "ISO, MDY",
            check: check_date_style,
            apply: kept_for_clients,
        }),
    },
    Setting {
        name: "default_transaction_isolation",
        purpose: "Isolation level of new transactions.",
        category: BEHAVIOUR,
        reported_as: None,
        home: Home::Session(SettingKind::Word {
            default: "serializable",
            spellings: ISOLATION,
            apply: |in_force, level| in_force.default_modes.isolation = parse_isolation(level),
        }),
    },
    Setting {
        name: "default_transaction_read_only",
        purpose: "Whether new transactions only read.",
        category: BEHAVIOUR,
        reported_as: Some("default_transaction_read_only"),
        home: Home::Session(SettingKind::Bool {
            default: false,
            apply: |in_force, on| in_force.default_modes.read_only = Some(on),
        }),
    },
    Setting {
        name: "extra_float_digits",
        purpose: "Digits of floats in results; up to 0 so many are left away, above each has as many as it needs.",
        category: FORMAT,
        reported_as: None,
        home: Home::Session(SettingKind::Number {
            default: 1,
            bounds: -15..=3,
            apply: |in_force, extra| {
                in_force.float_digits = i8::try_from(extra).ok().filter(|extra| *extra <= 0);
            },
        }),
    },
    Setting {
        name: "halcyon.early_locks",
        purpose: "Whether a query locks at once what its transactions have written after it before.",
        category: BEHAVIOUR,
        reported_as: None,
        home: Home::Session(SettingKind::Bool {
            default: true,
            apply: |in_force, on| in_force.early_locks = on,
        }),
    },
    Setting {
        name: "halcyon.memory",
        purpose: "Memory that a statement that writes nothing may hold.",
        category: RESOURCES,
        reported_as: None,
        home: Home::Session(SettingKind::Size {
            default: 1 << 30,
            unit: KILOBYTE,
            bounds: Bounds { least: 0, most: 1 << 50, zero: None },
            apply: |in_force, bytes| {
                in_force.memory_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            },
        }),
    },
    Setting {
        name: "halcyon.point_plans",
        purpose: "Whether point plans are used; off sends every SELECT to the analytical executor.",
        category: PLANNING,
        reported_as: None,
        home: Home::Session(SettingKind::Bool { default: true, apply: looked_up }),
    },
    Setting {
        name: "halcyon.point_visits",
        purpose: "Rows that a look-up visits under locks before it goes on over a snapshot; 0 means all.",
        category: PLANNING,
        reported_as: None,
        home: Home::Session(SettingKind::Number {
            default: 16_384,
            bounds: 0..=1 << 30,
            apply: |in_force, rows| in_force.point_visits = u32::try_from(rows).unwrap_or(0),
        }),
    },
    Setting {
        name: "halcyon.threads",
        purpose: "Cores that an analytical statement may use; 0 means all.",
        category: "Resource Usage / Asynchronous Behavior",
        reported_as: None,
        home: Home::Session(SettingKind::Number {
            default: 0,
            bounds: 0..=1024,
            apply: |in_force, threads| in_force.threads = usize::try_from(threads).unwrap_or(0),
        }),
    },
    Setting {
        name: "halcyon.traceparent",
        purpose: "The client's span, to which traces add statements (W3C Trace Context).",
        category: "Reporting and Logging / What to Log",
        reported_as: None,
        home: Home::Session(SettingKind::Text {
            default: "",
            check: any_text,
            apply: |in_force, parent| parent.clone_into(&mut in_force.traceparent),
        }),
    },
    Setting {
        name: "idle_in_transaction_session_timeout",
        purpose: "How long a session may idle within a transaction before it is closed.",
        category: BEHAVIOUR,
        reported_as: None,
        home: Home::Session(SettingKind::Time {
            default: Duration::ZERO,
            unit: MILLISECOND,
            bounds: TIMEOUT,
            apply: looked_up,
        }),
    },
    Setting {
        name: "idle_session_timeout",
        purpose: "How long a session may idle outside of a transaction before it is closed.",
        category: BEHAVIOUR,
        reported_as: None,
        home: Home::Session(SettingKind::Time {
            default: Duration::ZERO,
            unit: MILLISECOND,
            bounds: TIMEOUT,
            apply: looked_up,
        }),
    },
    fact(
        "in_hot_standby",
        "Whether this is a copy that follows another server.",
        Some("in_hot_standby"),
        |_| "off",
    ),
    fact(
        "integer_datetimes",
        "Whether times are integers on the wire.",
        Some("integer_datetimes"),
        |_| "on",
    ),
    Setting {
        name: "intervalstyle",
        purpose: "Format of intervals as text.",
        category: FORMAT,
        reported_as: Some("IntervalStyle"),
        home: Home::Session(SettingKind::Word {
            default: "postgres",
            spellings: &[("postgres", "postgres")],
            apply: kept_for_clients,
        }),
    },
    fact(
        "is_superuser",
        "Whether the session's role may do anything.",
        Some("is_superuser"),
        |facts| switch(facts.superuser),
    ),
    fact("lc_collate", "Order of strings: by code point.", None, |_| "C"),
    fact("lc_ctype", "Classes of characters.", None, |_| "C.UTF-8"),
    Setting {
        name: "lock_timeout",
        purpose: "How long a statement waits for a lock.",
        category: BEHAVIOUR,
        reported_as: None,
        home: Home::Session(SettingKind::Time {
            default: Duration::ZERO,
            unit: MILLISECOND,
            bounds: TIMEOUT,
            apply: |in_force, time| in_force.lock_timeout = unless_zero(time),
        }),
    },
    fact("max_identifier_length", "Length of names told to clients.", None, |_| "63"),
    fact(
        "max_index_keys",
        "Most columns of an index that clients are prepared for.",
        None,
        |_| "32",
    ),
    Setting {
        name: "max_wal_size",
        purpose: "Size of the log after which there is a checkpoint.",
        category: CHECKPOINTS,
        reported_as: None,
        home: Home::System {
            kind: SettingKind::Size {
                default: 1 << 30,
                unit: MEGABYTE,
                bounds: Bounds { least: 1 << 20, most: 1 << 60, zero: None },
                apply: |tuning, bytes| tuning.max_wal_size = bytes,
            },
            effect: read_when_due,
            flag: "max-wal-size",
            needs_folder: true,
        },
    },
    Setting {
        name: "memory_limit",
        purpose: "Memory that all statements and tables may take together; 0 means 80 % of the \
                  container's or the machine's.",
        category: RESOURCES,
        reported_as: None,
        home: Home::System {
            kind: SettingKind::Size {
                default: 0,
                unit: MEGABYTE,
                bounds: Bounds {
                    least: 64 << 20,
                    most: 1 << 60,
                    zero: Some("80 % of the container's or the machine's memory"),
                },
                apply: |tuning, bytes| tuning.memory_limit = bytes,
            },
            effect: |tuning, parts| parts.memory.set(tuning.memory_limit),
            flag: "memory-limit",
            needs_folder: false,
        },
    },
    Setting {
        name: "polluting_workers",
        purpose: "Workers of an island that statements which pollute the shared cache may use at once; 0 means all.",
        category: "Resource Usage / Asynchronous Behavior",
        reported_as: None,
        home: Home::System {
            kind: SettingKind::Number {
                default: 0,
                bounds: 0..=1024,
                apply: |tuning, workers| {
                    tuning.polluting_workers = usize::try_from(workers).unwrap_or(0);
                },
            },
            effect: |tuning, parts| {
                parts.datafusion.crew().limit_polluters(tuning.polluting_workers)
            },
            flag: "polluting-workers",
            needs_folder: false,
        },
    },
    fact("role", "The role that SET ROLE chose.", None, |facts| {
        match facts.role == facts.session_role {
            true => "none",
            false => &facts.role,
        }
    }),
    Setting {
        name: "row_security",
        purpose: "Whether policies of rows hold, of which there are none; kept for clients that set it.",
        category: BEHAVIOUR,
        reported_as: None,
        home: Home::Session(SettingKind::Bool { default: true, apply: kept_value }),
    },
    Setting {
        name: "search_path",
        purpose: "Schemas in which names without a schema are looked up.",
        category: BEHAVIOUR,
        reported_as: Some("search_path"),
        home: Home::Session(SettingKind::Text {
            default: "\"$user\", public",
            check: any_text,
            apply: |in_force, path| path.clone_into(&mut in_force.search_path),
        }),
    },
    fact("server_encoding", "The server's character set.", Some("server_encoding"), |_| "UTF8"),
    fact(
        "server_version",
        "Version of PostgreSQL's protocol and dialect, and of Halcyon.",
        Some("server_version"),
        |_| SERVER_VERSION,
    ),
    fact("server_version_num", "Version of PostgreSQL's dialect as a number.", None, |_| "160000"),
    fact(
        "session_authorization",
        "The role that the session was begun for.",
        Some("session_authorization"),
        |facts| &facts.session_role,
    ),
    fact(
        "spill_folder",
        "Folder for what statements cannot hold in memory (`--spill`); empty: they fail instead.",
        None,
        |facts| &facts.spill_folder,
    ),
    Setting {
        name: "spill_limit",
        purpose: "Bytes that files of all statements in spill_folder may take together.",
        category: "Resource Usage / Disk",
        reported_as: None,
        home: Home::System {
            kind: SettingKind::Size {
                default: 10 << 30,
                unit: MEGABYTE,
                bounds: Bounds { least: 1 << 20, most: 1 << 60, zero: None },
                apply: |tuning, bytes| tuning.spill_limit = bytes,
            },
            effect: |tuning, parts| {
                if let Some(folder) = parts.spill {
                    folder.set_limit(tuning.spill_limit);
                }
            },
            flag: "spill-limit",
            needs_folder: false,
        },
    },
    Setting {
        name: "standard_conforming_strings",
        purpose: "Whether backslashes in strings stand for themselves.",
        category: COMPATIBILITY,
        reported_as: Some("standard_conforming_strings"),
        home: Home::Session(SettingKind::Word {
            default: "on",
            spellings: &[("on", "on"), ("true", "on"), ("yes", "on"), ("1", "on")],
            apply: kept_for_clients,
        }),
    },
    Setting {
        name: "statement_timeout",
        purpose: "How long a statement may run.",
        category: BEHAVIOUR,
        reported_as: None,
        home: Home::Session(SettingKind::Time {
            default: Duration::ZERO,
            unit: MILLISECOND,
            bounds: TIMEOUT,
            apply: |in_force, time| in_force.statement_timeout = unless_zero(time),
        }),
    },
    Setting {
        name: "synchronous_commit",
        purpose: "Whether a commit is acknowledged only once it is durable.",
        category: LOG,
        reported_as: None,
        home: Home::Session(SettingKind::Word {
            default: "on",
            spellings: SYNCHRONOUS,
            apply: |in_force, word| in_force.synchronous = word == "on",
        }),
    },
    Setting {
        name: "temp_file_limit",
        purpose: "Kilobytes that files of a statement in spill_folder may take; -1 for no limit but spill_limit.",
        category: "Resource Usage / Disk",
        reported_as: None,
        home: Home::Session(SettingKind::Number {
            default: -1,
            bounds: -1..=2_147_483_647,
            apply: |in_force, kilobytes| {
                in_force.temp_file_bytes = u64::try_from(kilobytes).ok().map(|limit| limit << 10);
            },
        }),
    },
    Setting {
        name: "timezone",
        purpose: "Time zone of timestamps as text.",
        category: FORMAT,
        reported_as: Some("TimeZone"),
        home: Home::Session(SettingKind::Text {
            default: "UTC",
            check: |zone| TimeZone::of_setting(zone).map(|(_, shown)| shown),
            apply: |in_force, zone| {
                let (zone, _) = TimeZone::of_setting(zone).unwrap_or_default();
                in_force.time_zone = zone.spelling();
            },
        }),
    },
    Setting {
        name: "transaction_isolation",
        purpose: "Isolation level of the transaction.",
        category: BEHAVIOUR,
        reported_as: None,
        home: Home::Transaction {
            spellings: ISOLATION,
            show: |modes| isolation_name(modes.isolation.unwrap_or(Isolation::Serializable)),
            modes: |level| Modes { isolation: parse_isolation(level), read_only: None },
        },
    },
    Setting {
        name: "transaction_read_only",
        purpose: "Whether the transaction only reads.",
        category: BEHAVIOUR,
        reported_as: None,
        home: Home::Transaction {
            spellings: SWITCH,
            show: |modes| switch(modes.read_only == Some(true)),
            modes: |word| Modes { isolation: None, read_only: Some(word == "on") },
        },
    },
    Setting {
        name: "view_memory",
        purpose: "Memory that the maps of all materialized views may take together.",
        category: RESOURCES,
        reported_as: None,
        home: Home::System {
            kind: SettingKind::Size {
                default: 0,
                unit: MEGABYTE,
                bounds: Bounds { least: 1 << 10, most: 1 << 60, zero: Some("no limit") },
                apply: |tuning, bytes| tuning.view_memory = bytes,
            },
            effect: |tuning, parts| parts.budget.set_max(tuning.view_memory),
            flag: "view-memory",
            needs_folder: false,
        },
    },
    Setting {
        name: "wal_writer_delay",
        purpose: "How long a commit that is not waited for may stay in memory.",
        category: LOG,
        reported_as: None,
        home: Home::System {
            kind: SettingKind::Time {
                default: Duration::from_millis(200),
                unit: MILLISECOND,
                bounds: Bounds { least: 1_000, most: 10_000_000, zero: None },
                apply: |tuning, time| tuning.wal_writer_delay = time,
            },
            effect: |tuning, parts| {
                if let Some(log) = parts.log {
                    log.set_delay(tuning.wal_writer_delay);
                }
            },
            flag: "wal-writer-delay",
            needs_folder: true,
        },
    },
];

/// Spellings of `synchronous_commit`: all levels but `off` mean `on`, since there is no second
/// server to wait for.
const SYNCHRONOUS: &[(&str, &str)] = &[
    ("on", "on"),
    ("local", "on"),
    ("remote_write", "on"),
    ("remote_apply", "on"),
    ("true", "on"),
    ("yes", "on"),
    ("1", "on"),
    ("off", "off"),
    ("false", "off"),
    ("no", "off"),
    ("0", "off"),
];

fn unless_zero(time: Duration) -> Option<Duration> {
    (!time.is_zero()).then_some(time)
}

fn check_encoding(text: &str) -> Result<String> {
    let plain: String = text.chars().filter(char::is_ascii_alphanumeric).collect();
    if ["utf8", "unicode", "sqlascii"].contains(&plain.to_ascii_lowercase().as_str()) {
        return Ok("UTF8".to_owned());
    }
    Err(SqlError::unsupported(format!("client encoding {text}")).hint("Halcyon speaks UTF8."))
}

/// The date style in PostgreSQL's spelling. Errors: 0A000 for what is not ISO 8601 with the month before the day, 22023
/// for words that no style has.
fn check_date_style(text: &str) -> Result<String> {
    for word in text.split(',').map(|word| word.trim().to_ascii_lowercase()) {
        let is_one_of = |starts: &[&str]| starts.iter().any(|start| word.starts_with(start));
        if matches!(word.as_str(), "iso" | "mdy" | "default") || is_one_of(&["us", "noneuro"]) {
            continue;
        }
        if matches!(word.as_str(), "dmy" | "ymd")
            || is_one_of(&["euro", "sql", "postgres", "german"])
        {
            return Err(SqlError::unsupported(format!("date style {text}"))
                .hint("Dates are written as ISO 8601, and read with the month before the day."));
        }
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("invalid value for parameter \"DateStyle\": \"{text}\""),
        ));
    }
    Ok("ISO, MDY".to_owned())
}
