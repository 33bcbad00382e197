//! Names of settings, of classes and of mappings, and what values they take.

use std::time::Duration;

use crate::problem::{Problem, ProblemKind};
use crate::value::{self, Amount, CacheClass};

/// A setting of a workload class. The first ten are HANA's, with HANA's names and units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Key {
    /// 0 to 9, the higher the sooner; 5 by default.
    Priority,
    /// A time, in seconds without a unit; 0 is no limit.
    StatementTimeout,
    /// A time, in minutes without a unit; 0 is no limit.
    WriteTransactionLifetime,
    /// A time, in minutes without a unit; 0 is no limit.
    IdleCursorLifetime,
    /// Bytes, in gigabytes without a unit, or percent of the database's memory; 0 is no limit.
    StatementMemoryLimit,
    /// The same unit as [`Key::StatementMemoryLimit`], for all statements of the class and its children together.
    TotalStatementMemoryLimit,
    /// Worker threads, or percent of the machine's; 0 is no limit.
    StatementThreadLimit,
    /// The same unit as [`Key::StatementThreadLimit`], for all statements of the class and its children together.
    TotalStatementThreadLimit,
    /// Percent of processor time in use from which new statements are rejected; 0 always, 100 never.
    RejectCpuThreshold,
    /// Percent of processor time in use from which new statements queue; 0 always, 100 never.
    QueueCpuThreshold,
    /// Percent of memory in use from which new statements are rejected; 0 always, 100 never.
    RejectMemoryThreshold,
    /// Percent of memory in use from which new statements queue; 0 always, 100 never.
    QueueMemoryThreshold,
    /// The time within which half of the statements shall end; milliseconds without a unit.
    LatencyTargetP50,
    /// The time within which 95 of 100 statements shall end; milliseconds without a unit.
    LatencyTargetP95,
    /// The time within which 99 of 100 statements shall end; milliseconds without a unit.
    LatencyTargetP99,
    /// The time within which 999 of 1,000 statements shall end; milliseconds without a unit.
    LatencyTargetP999,
    /// Statements of the class that run at a time; 0 is no limit.
    ConcurrencyLimit,
    /// Statements of the class that wait for admission at a time; 0 rejects instead of queueing.
    QueueLimit,
    /// The longest wait for admission, in seconds without a unit; above 0.
    QueueTimeout,
    /// Use of the processor's caches: POLLUTING, SENSITIVE or AUTO.
    CacheClass,
    /// The share of the workers' time that is kept for the class, per mille without a unit or in percent.
    Floor,
    /// The class to which statements go that are estimated to be long, or OFF.
    AutoClass,
    /// Connections whose statements are in the class at a time; 0 is no limit.
    ConnectionLimit,
}

/// What a setting's text means.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Number(u32),
    Time(Duration),
    Amount(Amount),
    Cache(CacheClass),
    /// A class, or `None` for OFF.
    Class(Option<String>),
}

impl Key {
    /// All settings, in the order of the documentation.
    #[rustfmt::skip]
    pub const ALL: [Key; 23] = [
        Key::Priority, Key::StatementTimeout, Key::WriteTransactionLifetime, Key::IdleCursorLifetime,
        Key::StatementMemoryLimit, Key::TotalStatementMemoryLimit, Key::StatementThreadLimit,
        Key::TotalStatementThreadLimit, Key::RejectCpuThreshold, Key::QueueCpuThreshold, Key::RejectMemoryThreshold,
        Key::QueueMemoryThreshold, Key::LatencyTargetP50, Key::LatencyTargetP95, Key::LatencyTargetP99,
        Key::LatencyTargetP999, Key::ConcurrencyLimit, Key::QueueLimit, Key::QueueTimeout, Key::CacheClass, Key::Floor,
        Key::AutoClass, Key::ConnectionLimit,
    ];

    /// The name in SQL, as definitions store it.
    pub const fn name(self) -> &'static str {
        match self {
            Key::Priority => "PRIORITY",
            Key::StatementTimeout => "STATEMENT TIMEOUT",
            Key::WriteTransactionLifetime => "WRITE TRANSACTION LIFETIME",
            Key::IdleCursorLifetime => "IDLE CURSOR LIFETIME",
            Key::StatementMemoryLimit => "STATEMENT MEMORY LIMIT",
            Key::TotalStatementMemoryLimit => "TOTAL STATEMENT MEMORY LIMIT",
            Key::StatementThreadLimit => "STATEMENT THREAD LIMIT",
            Key::TotalStatementThreadLimit => "TOTAL STATEMENT THREAD LIMIT",
            Key::RejectCpuThreshold => "ADMISSION CONTROL REJECT CPU THRESHOLD",
            Key::QueueCpuThreshold => "ADMISSION CONTROL QUEUE CPU THRESHOLD",
            Key::RejectMemoryThreshold => "ADMISSION CONTROL REJECT MEMORY THRESHOLD",
            Key::QueueMemoryThreshold => "ADMISSION CONTROL QUEUE MEMORY THRESHOLD",
            Key::LatencyTargetP50 => "LATENCY TARGET P50",
            Key::LatencyTargetP95 => "LATENCY TARGET P95",
            Key::LatencyTargetP99 => "LATENCY TARGET P99",
            Key::LatencyTargetP999 => "LATENCY TARGET P999",
            Key::ConcurrencyLimit => "CONCURRENCY LIMIT",
            Key::QueueLimit => "QUEUE LIMIT",
            Key::QueueTimeout => "QUEUE TIMEOUT",
            Key::CacheClass => "CACHE CLASS",
            Key::Floor => "FLOOR",
            Key::AutoClass => "AUTO CLASS",
            Key::ConnectionLimit => "CONNECTION LIMIT",
        }
    }

    /// The setting that `text` names, in any case and with any white space between the words.
    ///
    /// Errors: [`ProblemKind::UnknownKey`], with the name that is most alike.
    pub fn parse(text: &str) -> Result<Key, Problem> {
        let wanted = canonical(text);
        let found = Key::ALL.into_iter().find(|key| key.name() == wanted);
        found.ok_or_else(|| unknown("workload class", text, &Key::ALL.map(Key::name)))
    }

    /// What values the setting takes.
    const fn takes(self) -> &'static str {
        match self {
            Key::Priority => "a whole number from 0 to 9",
            Key::StatementTimeout => {
                "a time, in seconds without a unit (us, ms, s, min, h, d), such as 30 or 500ms"
            }
            Key::WriteTransactionLifetime | Key::IdleCursorLifetime => {
                "a time, in minutes without a unit (us, ms, s, min, h, d), such as 5 or 30s"
            }
            Key::QueueTimeout => {
                "a time above 0, in seconds without a unit (us, ms, s, min, h, d), such as 600 or 10min"
            }
            Key::LatencyTargetP50
            | Key::LatencyTargetP95
            | Key::LatencyTargetP99
            | Key::LatencyTargetP999 => {
                "a time from 1us to 1h, in milliseconds without a unit (us, ms, s, min, h), such as 50 or 50ms"
            }
            Key::StatementMemoryLimit | Key::TotalStatementMemoryLimit => {
                "an amount of memory, in gigabytes without a unit (B, kB, MB, GB, TB, %), such as 5 or 75%"
            }
            Key::StatementThreadLimit | Key::TotalStatementThreadLimit => {
                "a number of threads or a share of the machine's, such as 4 or 75%"
            }
            Key::RejectCpuThreshold
            | Key::QueueCpuThreshold
            | Key::RejectMemoryThreshold
            | Key::QueueMemoryThreshold => {
                "a whole number of percent from 0 (always) to 100 (never)"
            }
            Key::ConcurrencyLimit | Key::QueueLimit | Key::ConnectionLimit => {
                "a whole number from 0 to 1000000"
            }
            Key::CacheClass => "POLLUTING, SENSITIVE or AUTO",
            Key::Floor => "a share from 0 to 500 per mille, such as 20 or 2%",
            Key::AutoClass => "the name of a workload class, or OFF",
        }
    }

    /// What `text` means as the setting's value.
    ///
    /// Errors: [`ProblemKind::BadValue`], with what the setting takes.
    pub(crate) fn read(self, text: &str) -> Result<Value, Problem> {
        self.value(text).ok_or_else(|| {
            let message =
                format!("invalid value {text:?} for workload class setting {:?}", self.name());
            Problem::new(ProblemKind::BadValue, message)
                .hint(format!("The setting takes {}.", self.takes()))
        })
    }

    fn value(self, text: &str) -> Option<Value> {
        match self {
            Key::Priority => number(text, 9),
            Key::ConcurrencyLimit | Key::QueueLimit | Key::ConnectionLimit => {
                number(text, 1_000_000)
            }
            Key::StatementTimeout => value::time(text, "s").map(Value::Time),
            Key::WriteTransactionLifetime | Key::IdleCursorLifetime => {
                value::time(text, "min").map(Value::Time)
            }
            Key::QueueTimeout => {
                value::time(text, "s").filter(|time| !time.is_zero()).map(Value::Time)
            }
            Key::LatencyTargetP50
            | Key::LatencyTargetP95
            | Key::LatencyTargetP99
            | Key::LatencyTargetP999 => {
                let range = Duration::from_micros(1)..=Duration::from_secs(3_600);
                value::time(text, "ms").filter(|time| range.contains(time)).map(Value::Time)
            }
            Key::StatementMemoryLimit | Key::TotalStatementMemoryLimit => {
                value::memory(text).map(Value::Amount)
            }
            Key::StatementThreadLimit | Key::TotalStatementThreadLimit => {
                value::threads(text).map(Value::Amount)
            }
            Key::RejectCpuThreshold
            | Key::QueueCpuThreshold
            | Key::RejectMemoryThreshold
            | Key::QueueMemoryThreshold => {
                value::threshold(text).map(|percent| Value::Number(percent.into()))
            }
            Key::Floor => {
                value::per_mille(text).filter(|share| *share <= FLOORS_MAX).map(Value::Number)
            }
            Key::CacheClass => CacheClass::parse(text).map(Value::Cache),
            Key::AutoClass => {
                let name = text.trim();
                let class = (!name.eq_ignore_ascii_case("OFF")).then(|| name.to_owned());
                (!name.is_empty()).then_some(Value::Class(class))
            }
        }
    }
}

/// The largest sum of all floors, per mille: half of the time stays for whatever is most urgent.
pub(crate) const FLOORS_MAX: u32 = 500;

fn number(text: &str, max: u32) -> Option<Value> {
    let number = u32::try_from(value::whole(text)?).ok()?;
    (number <= max).then_some(Value::Number(number))
}

/// A property of a statement's session by which a mapping chooses. The order is the mappings' precedence: of two
/// mappings that are alike otherwise, the one with the earlier key wins (research: HANA's order, and the remaining
/// keys between the application's name and the client).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MappingKey {
    /// The role that the session runs as.
    UserName,
    /// A role of which that role is a member.
    UserGroupName,
    /// The application's user, told by SAP's XS server.
    XsApplicationUserName,
    /// The application's user.
    ApplicationUserName,
    /// The schema of a table or view; together with [`MappingKey::ObjectName`].
    SchemaName,
    /// A table or view that the statement names.
    ObjectName,
    /// `application_name`, or the session variable APPLICATION.
    ApplicationName,
    /// A part of the application.
    ApplicationComponentName,
    /// The kind of that part.
    ApplicationComponentType,
    /// A place in the application's source.
    ApplicationSource,
    /// The database of the connection.
    DatabaseName,
    /// The client of an application of SAP.
    Client,
    /// The application's tenant.
    ApplicationTenantName,
}

impl MappingKey {
    /// All keys, by precedence.
    #[rustfmt::skip]
    pub const ALL: [MappingKey; 13] = [
        MappingKey::UserName, MappingKey::UserGroupName, MappingKey::XsApplicationUserName,
        MappingKey::ApplicationUserName, MappingKey::SchemaName, MappingKey::ObjectName, MappingKey::ApplicationName,
        MappingKey::ApplicationComponentName, MappingKey::ApplicationComponentType, MappingKey::ApplicationSource,
        MappingKey::DatabaseName, MappingKey::Client, MappingKey::ApplicationTenantName,
    ];

    /// The name in SQL, as definitions store it.
    pub const fn name(self) -> &'static str {
        match self {
            MappingKey::UserName => "USER NAME",
            MappingKey::UserGroupName => "USERGROUP NAME",
            MappingKey::XsApplicationUserName => "XS APPLICATION USER NAME",
            MappingKey::ApplicationUserName => "APPLICATION USER NAME",
            MappingKey::SchemaName => "SCHEMA NAME",
            MappingKey::ObjectName => "OBJECT NAME",
            MappingKey::ApplicationName => "APPLICATION NAME",
            MappingKey::ApplicationComponentName => "APPLICATION COMPONENT NAME",
            MappingKey::ApplicationComponentType => "APPLICATION COMPONENT TYPE",
            MappingKey::ApplicationSource => "APPLICATION SOURCE",
            MappingKey::DatabaseName => "DATABASE NAME",
            MappingKey::Client => "CLIENT",
            MappingKey::ApplicationTenantName => "APPLICATION TENANT NAME",
        }
    }

    /// The key that `text` names, in any case and with any white space between the words.
    ///
    /// Errors: [`ProblemKind::UnknownKey`], with the name that is most alike.
    pub fn parse(text: &str) -> Result<MappingKey, Problem> {
        let wanted = canonical(text);
        let found = MappingKey::ALL.into_iter().find(|key| key.name() == wanted);
        found.ok_or_else(|| {
            unknown("workload mapping", text, &MappingKey::ALL.map(MappingKey::name))
        })
    }

    /// Whether a wildcard may end the key's value (HANA: not that of users and objects).
    pub(crate) const fn takes_wildcard(self) -> bool {
        !matches!(
            self,
            MappingKey::UserName
                | MappingKey::UserGroupName
                | MappingKey::SchemaName
                | MappingKey::ObjectName
        )
    }
}

/// A name's words in upper case with one space between them.
fn canonical(text: &str) -> String {
    text.split_whitespace().map(str::to_uppercase).collect::<Vec<_>>().join(" ")
}

fn unknown(of: &str, text: &str, known: &[&str]) -> Problem {
    let wanted = canonical(text);
    let nearest = known.iter().min_by_key(|name| distance(name, &wanted));
    let problem =
        Problem::new(ProblemKind::UnknownKey, format!("unrecognized {of} setting {text:?}"))
            .detail(format!("The settings are {}.", known.join(", ")));
    match nearest {
        Some(name) => problem.hint(format!("Perhaps you meant {name:?}.")),
        None => problem,
    }
}

/// Characters to insert, delete or change that make `a` of `b` (Levenshtein); `b` is cut at 64 characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_read_in_any_case() {
        for key in Key::ALL {
            let text = format!("  {}\t", key.name().to_lowercase().replace(' ', "  "));
            assert_eq!(Key::parse(&text), Ok(key));
        }
        for key in MappingKey::ALL {
            assert_eq!(MappingKey::parse(&key.name().to_lowercase()), Ok(key));
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest() {
        let hint = |text| Key::parse(text).expect_err("is no setting").hint;
        assert_eq!(hint("PRIORTY"), Some("Perhaps you meant \"PRIORITY\".".to_owned()));
        assert_eq!(
            hint("statement time out"),
            Some("Perhaps you meant \"STATEMENT TIMEOUT\".".to_owned())
        );
        let problem = MappingKey::parse("USER").expect_err("is no key");
        assert_eq!(problem.kind, ProblemKind::UnknownKey);
        assert!(problem.hint.is_some_and(|hint| hint.contains("NAME\"")));
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let bad = |key: Key, text: &str| {
            let problem = key.read(text).expect_err("is no value");
            assert_eq!(problem.kind, ProblemKind::BadValue);
            assert!(problem.hint.is_some_and(|hint| hint.starts_with("The setting takes")));
        };
        bad(Key::Priority, "10");
        bad(Key::Priority, "-1");
        bad(Key::QueueTimeout, "0");
        bad(Key::LatencyTargetP99, "0");
        bad(Key::LatencyTargetP99, "2h");
        bad(Key::Floor, "51%");
        bad(Key::CacheClass, "BIG");
        bad(Key::AutoClass, " ");
        bad(Key::QueueCpuThreshold, "101");
        bad(Key::StatementThreadLimit, "many");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,30}") {
            for key in Key::ALL {
                let _ = key.read(&text);
            }
            let _ = (Key::parse(&text), MappingKey::parse(&text));
        }
    }
}
