//! Counts of the work of workers, for reports and for tests. A worker writes its own between turns;
//! anybody reads them at any time, without stopping a worker.

use crate::annotation::{CLASSES, ClassId};
use crate::config::WorkerConfig;
use halcyon_base::sync::Mutex;
use halcyon_base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::collections::BTreeMap;

/// Counts of one worker, written by that worker alone, between tasks.
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct Published {
    pub(crate) spawned: AtomicU64,
    pub(crate) finished: AtomicU64,
    pub(crate) turns: AtomicU64,
    pub(crate) pushed: AtomicU64,
    pub(crate) given: AtomicU64,
    pub(crate) parks: AtomicU64,
    pub(crate) panics: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) busy_ticks: AtomicU64,
    pub(crate) run_delay_ns: AtomicU64,
    pub(crate) freed: AtomicU64,
    pub(crate) switches: AtomicU64,
    /// The group whose future or other suspendable task runs; 0: none.
    pub(crate) group: AtomicU32,
}

/// Adds to a count that only the caller writes.
#[inline]
pub(crate) fn bump(count: &AtomicU64, by: u64) {
    count.store(count.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

/// How many classes of waits a histogram has.
const BUCKETS: usize = 24;

/// Ticks of the clock below which all waits are in the first bucket, as a power of two.
const FIRST_BITS: u32 = 10;

/// Waits from ready to run, by length: a bucket for the shortest (some hundred nanoseconds), and one
/// for each further doubling up to some seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// End of the first bucket, ns.
    first_ns: u64,
    counts: [u64; BUCKETS],
}

impl Waits {
    #[inline]
    fn bucket(ticks: u64) -> usize {
        let bits = (u64::BITS - (ticks >> FIRST_BITS).leading_zeros()) as usize;
        bits.min(BUCKETS - 1)
    }

    /// How many waits were measured.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Ends of the buckets, ns, and the number of waits in each: those below its end that are in no
    /// bucket before, and in the last one all others.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.counts.iter().enumerate().map(|(bucket, &count)| (self.first_ns << bucket, count))
    }

    /// A length, ns, that `share` of the waits do not exceed, to a factor of two; 0 without waits.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let wanted = (self.count() as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let found = self.buckets().find(|(_, count)| {
            seen += count;
            seen >= wanted
        });
        found.map_or(0, |(end_ns, _)| end_ns)
    }

    /// What came after an earlier reading of the same counts.
    pub fn since(&self, earlier: &Waits) -> Waits {
        let mut since = *self;
        let before = earlier.counts.iter();
        since
            .counts
            .iter_mut()
            .zip(before)
            .for_each(|(count, had)| *count = count.saturating_sub(*had));
        since
    }

    fn add(&mut self, other: &Waits) {
        self.first_ns = self.first_ns.max(other.first_ns);
        self.counts.iter_mut().zip(other.counts).for_each(|(count, more)| *count += more);
    }
}

/// Counts of one class on one worker, written by that worker alone, between tasks.
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct PublishedClass {
    pub(crate) busy_ticks: AtomicU64,
    pub(crate) tasks: AtomicU64,
    pub(crate) suspensions: AtomicU64,
    pub(crate) longest_ticks: AtomicU64,
    waits: [AtomicU64; BUCKETS],
}

impl PublishedClass {
    /// Space for the counts of all classes.
    pub(crate) fn all() -> Box<[PublishedClass]> {
        (0..CLASSES).map(|_| PublishedClass::default()).collect()
    }

    /// Counts a wait of so many ticks.
    #[inline]
    pub(crate) fn waited(&self, ticks: u64) {
        bump(&self.waits[Waits::bucket(ticks)], 1);
    }

    /// The class's counts so far; none if it never ran.
    pub(crate) fn read(&self, ns: impl Fn(u64) -> u64) -> Option<ClassCounters> {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = std::array::from_fn(|bucket| load(&self.waits[bucket]));
        if load(&self.tasks) == 0 {
            return None;
        }
        Some(ClassCounters {
            busy_ns: ns(load(&self.busy_ticks)),
            steps: load(&self.tasks),
            suspensions: load(&self.suspensions),
            longest_ns: ns(load(&self.longest_ticks)),
            waits: Waits { first_ns: ns(1 << FIRST_BITS), counts },
        })
    }
}

/// The counts of one class, on one worker or on all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassCounters {
    /// Time that workers spent on its tasks, ns: processor time, where the core was the worker's own
    /// (else [`WorkerCounters::run_delay_ns`] is within).
    pub busy_ns: u64,
    /// Steps of its tasks.
    pub steps: u64,
    /// Steps after which the task waited to be woken.
    pub suspensions: u64,
    /// The longest time in which a worker ran its tasks without looking at anything else, ns.
    pub longest_ns: u64,
    /// Waits from ready to run: of every task that was woken, and of other tasks by samples, one at
    /// a time for each worker and band, from the end of the turn in which it came.
    pub waits: Waits,
}

impl ClassCounters {
    fn add(&mut self, other: &ClassCounters) {
        self.busy_ns += other.busy_ns;
        self.steps += other.steps;
        self.suspensions += other.suspensions;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.waits.add(&other.waits);
    }
}

/// The counts of one worker since it began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerCounters {
    /// Tasks that its tasks spawned.
    pub spawned: u64,
    /// Tasks that ended here.
    pub finished: u64,
    /// Turns: batches of tasks of one band and class.
    pub turns: u64,
    /// Tasks pushed to other workers.
    pub pushed: u64,
    /// Tasks given to an idle worker of the island.
    pub given: u64,
    /// Times it went to sleep.
    pub parks: u64,
    /// Tasks that panicked.
    pub panics: u64,
    /// Tasks of stopped groups that were dropped unrun.
    pub dropped: u64,
    /// Time with tasks, ns.
    pub busy_ns: u64,
    /// Time ready to run while something else had its core, ns (zero where the kernel keeps none).
    pub run_delay_ns: u64,
    /// Retired values that were freed.
    pub freed: u64,
    /// Times it left synchronisation by scheduling, or came back to it.
    pub switches: u64,
    /// Whether its resources are latched now, because its core is not its own.
    pub latched: bool,
    /// Counts of the classes that have run here.
    pub classes: BTreeMap<ClassId, ClassCounters>,
}

/// What a worker does at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// The worker runs tasks.
    Busy,
    /// The worker has nothing to do, and looks for work all the time.
    Spinning,
    /// The worker sleeps until it is woken.
    Parked,
    /// The worker was taken away ([`crate::Runtime::remove_worker`]).
    Absent,
}

/// A worker as seen from outside at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerView {
    /// Where the worker is, and of which kind; the processors are those that it is bound to while the runtime is divided.
    pub config: WorkerConfig,
    /// What the worker does.
    pub activity: Activity,
    /// Number of the group whose future, or other task that may suspend, the worker runs
    /// ([`crate::RunningGroup::number`]).
    pub group: Option<u32>,
}

/// Tasks of one type that ran for longer than they should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongTask {
    /// Name of the task's type.
    pub name: &'static str,
    /// How many.
    pub count: u64,
    /// The longest, ns.
    pub longest_ns: u64,
}

/// The counts of a runtime.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Counters {
    /// By worker.
    pub workers: Vec<WorkerCounters>,
    /// Tasks that came from outside.
    pub injected: u64,
    /// Types whose tasks ran for over [`crate::Config::long_task`].
    pub long_tasks: Vec<LongTask>,
    /// Message of the last panic of a task without a group.
    pub last_panic: Option<String>,
}

impl Counters {
    /// The counts of a class over all workers.
    pub fn class(&self, class: ClassId) -> ClassCounters {
        let mut sum = ClassCounters::default();
        self.workers.iter().filter_map(|w| w.classes.get(&class)).for_each(|one| sum.add(one));
        sum
    }

    /// Sum of one count over the workers.
    pub fn total(&self, count: impl Fn(&WorkerCounters) -> u64) -> u64 {
        self.workers.iter().map(count).sum()
    }
}

/// Events that are too rare for counters of each worker.
#[derive(Default)]
pub(crate) struct Incidents {
    long: Mutex<BTreeMap<&'static str, (u64, u64)>>,
    pub(crate) last_panic: Mutex<Option<String>>,
}

impl Incidents {
    #[cold]
    pub(crate) fn long_task(&self, name: &'static str, ns: u64) {
        let mut long = self.long.lock();
        let entry = long.entry(name).or_default();
        *entry = (entry.0 + 1, entry.1.max(ns));
    }

    pub(crate) fn long_tasks(&self) -> Vec<LongTask> {
        let long = self.long.lock();
        let all =
            long.iter().map(|(&name, &(count, longest_ns))| LongTask { name, count, longest_ns });
        all.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_waits_are_right_to_a_factor_of_two() {
        let class = PublishedClass::default();
        assert_eq!(class.read(|ticks| ticks), None);
        bump(&class.tasks, 1);
        (0..1000u64).for_each(|number| class.waited(number * 1000));
        let waits = class.read(|ticks| ticks).expect("it has waits").waits;
        assert_eq!(waits.count(), 1000);
        let (half, most) = (waits.quantile_ns(0.5), waits.quantile_ns(1.0));
        assert!((500_000..1_000_000).contains(&half) && (1_000_000..2_000_000).contains(&most));
        class.waited(u64::MAX);
        let last = class.read(|ticks| ticks).expect("it has waits").waits.quantile_ns(1.0);
        assert_eq!(last, 1024 << 23);
        assert_eq!(Waits::default().quantile_ns(0.5), 0);
    }
}
