//! What a class limits and promises, in numbers of one machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::key::Key;
use crate::value::CacheClass;

/// How many classes there may be, the built-in ones among them; as many as the task runtime tells apart.
pub const CLASSES: usize = 64;

/// A workload class: a number below [`CLASSES`] that a class keeps as long as it keeps its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u8);

impl ClassId {
    /// `_SYS_CRITICAL`: the log, health.
    pub const CRITICAL: ClassId = ClassId(0);
    /// `_SYS_BACKGROUND`: checkpoints, clean-up, refilling of views.
    pub const BACKGROUND: ClassId = ClassId(1);
    /// `_ADMIN`: the administrator's lane, which no queue holds up.
    pub const ADMIN: ClassId = ClassId(2);
    /// `_DEFAULT`: statements that no mapping sends elsewhere.
    pub const DEFAULT: ClassId = ClassId(3);
    /// `_DEFAULT_BATCH`: statements of the default class that are estimated to be long.
    pub const DEFAULT_BATCH: ClassId = ClassId(4);

    /// The place of the class in a table of [`CLASSES`] entries.
    pub(crate) fn index(self) -> usize {
        usize::from(self.0) % CLASSES
    }
}

/// What percentages are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Worker threads.
    pub threads: u32,
    /// Memory that the database may use, in bytes.
    pub memory_bytes: u64,
}

/// A band of priorities. The runtime takes tasks of a higher band first, and within a band by weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Band {
    /// Before everything else, for short work alone.
    Urgent,
    /// Before ordinary work.
    High,
    /// Ordinary work.
    Normal,
    /// Work that may wait.
    Low,
}

/// The band of a priority from 0 to 9; what is above counts as 9.
///
/// HANA has ten priorities and the runtime four bands, of which one more would cost every worker another queue to
/// look at. The default, 5, is the highest of the ordinary band, so that 6 to 8 go strictly before statements
/// nobody said anything about and 0 and 1 strictly behind. 9 goes before everything, the way the engine's own
/// critical work does; a class of long statements at 9 holds up the log. Priorities of one band share the time by
/// [`weight`].
pub const fn band(priority: u8) -> Band {
    match priority {
        0..=1 => Band::Low,
        2..=5 => Band::Normal,
        6..=8 => Band::High,
        _ => Band::Urgent,
    }
}

/// The weight of a priority among those of its band: each gets twice the time of the one below.
pub const fn weight(priority: u8) -> u32 {
    match priority {
        0 | 2 | 6 => 1,
        1 | 3 | 7 => 2,
        4 | 8 => 4,
        5 => 8,
        _ => 1,
    }
}

/// A quantile for which a class may have a target of latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quantile {
    /// The median.
    P50,
    /// 95 of 100.
    P95,
    /// 99 of 100.
    P99,
    /// 999 of 1,000.
    P999,
}

impl Quantile {
    /// All, in the order of [`Limits::targets`].
    pub const ALL: [Quantile; 4] = [Quantile::P50, Quantile::P95, Quantile::P99, Quantile::P999];

    /// The share of values that do not exceed the quantile, 0 to 1.
    pub const fn share(self) -> f64 {
        match self {
            Quantile::P50 => 0.5,
            Quantile::P95 => 0.95,
            Quantile::P99 => 0.99,
            Quantile::P999 => 0.999,
        }
    }

    /// The name in SQL.
    pub const fn name(self) -> &'static str {
        match self {
            Quantile::P50 => "P50",
            Quantile::P95 => "P95",
            Quantile::P99 => "P99",
            Quantile::P999 => "P999",
        }
    }
}

/// Limits and promises of a class, all in force for the statements that run in the class.
///
/// `None` is no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// 0 to 9; see [`band`].
    pub priority: u8,
    /// The longest time a statement takes.
    pub statement_timeout: Option<Duration>,
    /// The longest time a transaction that has written stays open.
    pub write_transaction_lifetime: Option<Duration>,
    /// The longest time an open cursor is not read.
    pub idle_cursor_lifetime: Option<Duration>,
    /// Bytes that a statement holds.
    pub statement_memory: Option<u64>,
    /// Bytes that the class's statements and those of its children hold together.
    pub total_memory: Option<u64>,
    /// Worker threads that a statement has.
    pub statement_threads: Option<u32>,
    /// Worker threads that the class's statements and those of its children have together.
    pub total_threads: Option<u32>,
    /// Statements of the class that run at a time.
    pub concurrency: Option<u32>,
    /// Statements of the class that wait at a time.
    pub queue_limit: u32,
    /// The longest wait.
    pub queue_timeout: Duration,
    /// Targets of latency, from arrival to the last byte of the answer: P50, P95, P99, P999.
    pub targets: [Option<Duration>; 4],
    /// Share of the workers' time that is kept for the class, per mille.
    pub floor_per_mille: u32,
    /// Use of the processor's caches.
    pub cache: CacheClass,
    /// Percent of processor time in use from which new statements are rejected.
    pub reject_cpu: Option<u8>,
    /// Percent of processor time in use from which new statements queue.
    pub queue_cpu: Option<u8>,
    /// Percent of memory in use from which new statements are rejected.
    pub reject_memory: Option<u8>,
    /// Percent of memory in use from which new statements queue.
    pub queue_memory: Option<u8>,
    /// Connections in the class at a time.
    pub connections: Option<u32>,
    /// The class for statements that are estimated to be long.
    pub auto_class: Option<ClassId>,
    /// By setting, the class in whose definition the value stands.
    pub(crate) origins: BTreeMap<Key, Arc<str>>,
}

impl Default for Limits {
    /// What a class has of which nothing is said (research §6.7).
    fn default() -> Self {
        Limits {
            priority: 5,
            statement_timeout: None,
            write_transaction_lifetime: None,
            idle_cursor_lifetime: None,
            statement_memory: None,
            total_memory: None,
            statement_threads: None,
            total_threads: None,
            concurrency: None,
            queue_limit: 10_000,
            queue_timeout: Duration::from_secs(600),
            targets: [None; 4],
            floor_per_mille: FLOOR_DEFAULT,
            cache: CacheClass::Auto,
            reject_cpu: None,
            queue_cpu: None,
            reject_memory: Some(97),
            queue_memory: Some(90),
            connections: None,
            auto_class: None,
            origins: BTreeMap::new(),
        }
    }
}

/// The floor of a class that says nothing, per mille.
pub(crate) const FLOOR_DEFAULT: u32 = 20;

impl Limits {
    /// Whether any quantile has a target.
    pub fn has_target(&self) -> bool {
        self.targets.iter().any(Option::is_some)
    }

    /// The class whose definition has the value in force; `None` where it is the default.
    pub fn origin(&self, key: Key) -> Option<&str> {
        self.origins.get(&key).map(|name| &**name)
    }

    /// The value in force as text, with its unit; `None` where nothing is limited.
    pub(crate) fn text(&self, key: Key) -> Option<String> {
        let time = |time: Option<Duration>| time.map(|time| format!("{time:?}"));
        let bytes = |bytes: Option<u64>| bytes.map(|bytes| format!("{bytes}B"));
        let count = |count: Option<u32>| count.map(|count| count.to_string());
        let percent = |percent: Option<u8>| percent.map(|percent| format!("{percent}%"));
        match key {
            Key::Priority => Some(self.priority.to_string()),
            Key::StatementTimeout => time(self.statement_timeout),
            Key::WriteTransactionLifetime => time(self.write_transaction_lifetime),
            Key::IdleCursorLifetime => time(self.idle_cursor_lifetime),
            Key::StatementMemoryLimit => bytes(self.statement_memory),
            Key::TotalStatementMemoryLimit => bytes(self.total_memory),
            Key::StatementThreadLimit => count(self.statement_threads),
            Key::TotalStatementThreadLimit => count(self.total_threads),
            Key::RejectCpuThreshold => percent(self.reject_cpu),
            Key::QueueCpuThreshold => percent(self.queue_cpu),
            Key::RejectMemoryThreshold => percent(self.reject_memory),
            Key::QueueMemoryThreshold => percent(self.queue_memory),
            Key::LatencyTargetP50 => time(self.targets[0]),
            Key::LatencyTargetP95 => time(self.targets[1]),
            Key::LatencyTargetP99 => time(self.targets[2]),
            Key::LatencyTargetP999 => time(self.targets[3]),
            Key::ConcurrencyLimit => count(self.concurrency),
            Key::QueueLimit => Some(self.queue_limit.to_string()),
            Key::QueueTimeout => time(Some(self.queue_timeout)),
            Key::CacheClass => Some(self.cache.name().to_owned()),
            Key::Floor => Some(format!("{}%", f64::from(self.floor_per_mille) / 10.0)),
            // Names are the snapshot's.
            Key::AutoClass => None,
            Key::ConnectionLimit => count(self.connections),
        }
    }

    /// The limits, each replaced by the hint's where that one is more restrictive (per setting, unlike HANA, which
    /// ignores a hint one of whose settings the class lacks). A hint neither brings nor takes a latency target, and
    /// connections are counted when they are made.
    pub(crate) fn restricted(&self, hint: &Limits) -> Limits {
        let mut merged = self.clone();
        let mut of = Restriction { into: &mut merged.origins, hint: &hint.origins };
        merged.priority = of.value(Key::Priority, self.priority, hint.priority);
        merged.statement_timeout =
            of.limit(Key::StatementTimeout, self.statement_timeout, hint.statement_timeout);
        merged.write_transaction_lifetime = of.limit(
            Key::WriteTransactionLifetime,
            self.write_transaction_lifetime,
            hint.write_transaction_lifetime,
        );
        merged.idle_cursor_lifetime =
            of.limit(Key::IdleCursorLifetime, self.idle_cursor_lifetime, hint.idle_cursor_lifetime);
        merged.statement_memory =
            of.limit(Key::StatementMemoryLimit, self.statement_memory, hint.statement_memory);
        merged.total_memory =
            of.limit(Key::TotalStatementMemoryLimit, self.total_memory, hint.total_memory);
        merged.statement_threads =
            of.limit(Key::StatementThreadLimit, self.statement_threads, hint.statement_threads);
        merged.total_threads =
            of.limit(Key::TotalStatementThreadLimit, self.total_threads, hint.total_threads);
        merged.concurrency = of.limit(Key::ConcurrencyLimit, self.concurrency, hint.concurrency);
        merged.queue_limit = of.value(Key::QueueLimit, self.queue_limit, hint.queue_limit);
        merged.queue_timeout = of.value(Key::QueueTimeout, self.queue_timeout, hint.queue_timeout);
        merged.floor_per_mille = of.value(Key::Floor, self.floor_per_mille, hint.floor_per_mille);
        merged.cache = of.value(Key::CacheClass, self.cache, hint.cache);
        merged.reject_cpu = of.limit(Key::RejectCpuThreshold, self.reject_cpu, hint.reject_cpu);
        merged.queue_cpu = of.limit(Key::QueueCpuThreshold, self.queue_cpu, hint.queue_cpu);
        merged.reject_memory =
            of.limit(Key::RejectMemoryThreshold, self.reject_memory, hint.reject_memory);
        merged.queue_memory =
            of.limit(Key::QueueMemoryThreshold, self.queue_memory, hint.queue_memory);
        merged
    }
}

/// Keeps the origins right while limits are restricted.
struct Restriction<'a> {
    into: &'a mut BTreeMap<Key, Arc<str>>,
    hint: &'a BTreeMap<Key, Arc<str>>,
}

impl Restriction<'_> {
    /// The smaller value.
    fn value<T: Ord + Copy>(&mut self, key: Key, own: T, hint: T) -> T {
        if hint < own {
            self.take(key);
        }
        own.min(hint)
    }

    /// The smaller limit; none is larger than any.
    fn limit<T: Ord + Copy>(&mut self, key: Key, own: Option<T>, hint: Option<T>) -> Option<T> {
        let takes_hint = hint.is_some_and(|hint| own.is_none_or(|own| hint < own));
        if takes_hint {
            self.take(key);
            return hint;
        }
        own
    }

    fn take(&mut self, key: Key) {
        match self.hint.get(&key) {
            Some(name) => self.into.insert(key, Arc::clone(name)),
            None => self.into.remove(&key),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_highest_of_the_ordinary_band() {
        let bands: Vec<Band> = (0..=10).map(band).collect();
        let mut expected = vec![Band::Low; 2];
        expected.extend([Band::Normal; 4]);
        expected.extend([Band::High; 3]);
        expected.extend([Band::Urgent; 2]);
        assert_eq!(bands, expected);
        let doubles = |low: u8, high: u8| (low..high).all(|at| weight(at + 1) == 2 * weight(at));
        assert!(doubles(0, 1) && doubles(2, 5) && doubles(6, 8));
    }

    #[test]
    fn a_hint_restricts_and_never_widens() {
        let base =
            Limits { priority: 8, statement_threads: Some(4), queue_limit: 5, ..Limits::default() };
        let hint = Limits {
            priority: 2,
            statement_threads: Some(16),
            statement_timeout: Some(Duration::from_secs(1)),
            cache: CacheClass::Polluting,
            origins: BTreeMap::from([(Key::Priority, Arc::from("BATCH"))]),
            ..Limits::default()
        };
        let merged = base.restricted(&hint);
        assert_eq!(
            (merged.priority, merged.statement_threads, merged.queue_limit),
            (2, Some(4), 5)
        );
        assert_eq!(merged.statement_timeout, Some(Duration::from_secs(1)));
        assert_eq!(merged.cache, CacheClass::Polluting);
        assert_eq!(
            (merged.origin(Key::Priority), merged.origin(Key::QueueLimit)),
            (Some("BATCH"), None)
        );
        assert_eq!(base.restricted(&base), base);
    }
}
