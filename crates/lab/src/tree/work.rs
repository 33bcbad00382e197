//! The work of the experiment and its engines, apart from the report.
//!
//! Every operation's answer is checked while it is measured, and every tree afterwards.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use halcyon_base::rng::{Rng, splitmix64};
use halcyon_task::{Config, Locality, Runtime, Shutdown, WorkerId};
use halcyon_tree::latch::Access;
use halcyon_tree::{ExclusiveTree, LatchedTree, NODES_DEFAULT, Operation, OptimisticTree, Outcome};
use halcyon_tree::{Hops, Source, TaskTree, Tree};

/// Descents in flight of the interleaved tree; more gains nothing (docs/tree.md).
pub const WIDTH: usize = 16;

/// Keys and orders of a run, made before anything is measured.
pub struct Work {
    /// The keys, distinct and random.
    pub keys: Vec<u64>,
    /// The keys in another random order.
    pub shuffled: Vec<u64>,
}

impl Work {
    /// `count` distinct keys.
    pub fn new(count: usize, seed: u64) -> Self {
        // splitmix64 is a bijection of its counter, so keys are distinct.
        let mut state = seed.wrapping_mul(0x2545_f491_4f6c_dd1d);
        let keys: Vec<u64> = (0..count).map(|_| splitmix64(&mut state)).collect();
        let mut shuffled = keys.clone();
        Rng::new(seed).shuffle(&mut shuffled);
        Work { keys, shuffled }
    }

    /// The operations of a phase for one of `workers` workers, and the outcome of each.
    fn share(&self, phase: Phase, worker: usize, workers: usize) -> Share<'_> {
        let keys = if phase == Phase::Insert { &self.keys } else { &self.shuffled };
        let (from, to) = (keys.len() * worker / workers, keys.len() * (worker + 1) / workers);
        Share { keys: &keys[from..to], phase }
    }
}

/// The phases of the measurement, run one after the other on the same tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Inserts all keys.
    Insert,
    /// Looks all keys up, in another order.
    Read,
    /// Half lookups, half updates, taking turns (YCSB A without its skew).
    Mixed,
}

impl Phase {
    /// Name of the phase's figure.
    pub fn figure(self) -> &'static str {
        match self {
            Phase::Insert => "inserts_per_s",
            Phase::Read => "reads_per_s",
            Phase::Mixed => "mixed_per_s",
        }
    }
}

/// One worker's operations of one phase.
#[derive(Clone, Copy)]
pub struct Share<'a> {
    keys: &'a [u64],
    phase: Phase,
}

/// The value of a key.
#[inline(always)]
pub fn value_of(key: u64) -> u64 {
    !key
}

impl Share<'_> {
    /// How many operations.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Operation `at`.
    #[inline(always)]
    pub fn operation(&self, at: usize) -> Operation {
        let key = self.keys[at];
        match self.phase {
            Phase::Insert => Operation::Insert(key, value_of(key)),
            Phase::Mixed if at % 2 == 1 => Operation::Update(key, value_of(key)),
            Phase::Read | Phase::Mixed => Operation::Lookup(key),
        }
    }

    /// Whether operation `at` may have this outcome.
    #[inline(always)]
    pub fn right(&self, at: usize, outcome: Outcome) -> bool {
        match self.phase {
            Phase::Insert => outcome == Outcome::Inserted,
            Phase::Read | Phase::Mixed => outcome == Outcome::Found(value_of(self.keys[at])),
        }
    }
}

/// One engine's measurements.
pub struct Measured {
    /// Wall time of each phase, and CPU time of all threads in it.
    pub phases: Vec<(Phase, Duration, Duration)>,
    /// A wrong answer of an operation, or an error that `check` found.
    pub wrong: Option<String>,
    /// Bytes of nodes, where known.
    pub node_bytes: Option<usize>,
}

/// CPU time of all threads that live now; zero where the kernel does not provide it.
pub fn cpu_time() -> Duration {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return Duration::ZERO };
    let nanos = threads.flatten().map(|thread| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|nanos| nanos.parse::<u64>().ok()).unwrap_or(0)
    });
    Duration::from_nanos(nanos.sum())
}

/// Runs `phases` one after the other on `workers` threads, each with `run(share)`, which returns
/// the number of wrong answers.
fn measure(
    work: &Work,
    phases: &[Phase],
    workers: usize,
    run: impl Fn(Share<'_>) -> usize + Sync,
) -> Measured {
    let mut measured = Measured { phases: Vec::new(), wrong: None, node_bytes: None };
    for &phase in phases {
        let barrier = Barrier::new(workers + 1);
        let (wrong, wall, cpu) = std::thread::scope(|scope| {
            let worker = |id| {
                let (barrier, run) = (&barrier, &run);
                scope.spawn(move || {
                    let share = work.share(phase, id, workers);
                    barrier.wait();
                    let wrong = run(share);
                    barrier.wait();
                    // A thread that has ended would not be counted, so all wait here.
                    barrier.wait();
                    wrong
                })
            };
            let threads: Vec<_> = (0..workers).map(worker).collect();
            barrier.wait();
            let (start, cpu) = (Instant::now(), cpu_time());
            barrier.wait();
            let (wall, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));
            barrier.wait();
            let wrong = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum();
            (wrong, wall, cpu)
        });
        measured.fail(phase, wrong);
        measured.phases.push((phase, wall, cpu));
    }
    measured
}

impl Measured {
    fn fail(&mut self, phase: Phase, wrong: usize) {
        if wrong > 0 {
            let text = || format!("{wrong} wrong or missing answers in {phase:?}");
            self.wrong.get_or_insert_with(text);
        }
    }

    fn checked(mut self, entries: usize, expected: usize, nodes: usize) -> Self {
        if entries != expected {
            self.wrong.get_or_insert_with(|| format!("{entries} entries, not {expected}"));
        }
        self.node_bytes = Some(nodes * halcyon_tree::node::NODE_BYTES);
        self
    }
}

#[inline(always)]
fn one_by_one(share: Share<'_>, mut run: impl FnMut(Operation) -> Outcome) -> usize {
    (0..share.len()).filter(|&at| !share.right(at, run(share.operation(at)))).count()
}

/// Threads on one shared tree.
fn threads<A: Access + Sync>(
    tree: Tree<A>,
    work: &Work,
    phases: &[Phase],
    workers: usize,
) -> Measured {
    let run = |share: Share<'_>| one_by_one(share, |operation| tree.run(operation));
    let measured = measure(work, phases, workers, run);
    measured.checked(tree.check(), work.keys.len(), tree.node_count())
}

/// [`LatchedTree`] with `workers` threads.
pub fn latched(work: &Work, phases: &[Phase], workers: usize, huge_pages: bool) -> Measured {
    threads(LatchedTree::with_nodes(NODES_DEFAULT, huge_pages), work, phases, workers)
}

/// [`OptimisticTree`] with `workers` threads.
pub fn optimistic(work: &Work, phases: &[Phase], workers: usize, huge_pages: bool) -> Measured {
    threads(OptimisticTree::with_nodes(NODES_DEFAULT, huge_pages), work, phases, workers)
}

/// [`OptimisticTree`] with `workers` threads, each with several descents in flight.
pub fn optimistic_interleaved(
    work: &Work,
    phases: &[Phase],
    workers: usize,
    huge_pages: bool,
) -> Measured {
    let tree = OptimisticTree::with_nodes(NODES_DEFAULT, huge_pages);
    let run = |share: Share<'_>| {
        let mut wrong = 0;
        let operations = (0..share.len()).map(|at| share.operation(at));
        tree.interleave::<WIDTH>(operations, |at, outcome| {
            wrong += usize::from(!share.right(at, outcome));
        });
        wrong
    };
    let measured = measure(work, phases, workers, run);
    measured.checked(tree.check(), work.keys.len(), tree.node_count())
}

/// [`ExclusiveTree`], in one thread.
pub fn exclusive(work: &Work, phases: &[Phase], huge_pages: bool) -> Measured {
    let tree = parking_place(ExclusiveTree::with_nodes(NODES_DEFAULT, huge_pages));
    let run = |share: Share<'_>| {
        let mut tree = tree.lock().expect("one thread");
        one_by_one(share, |operation| tree.run(operation))
    };
    let measured = measure(work, phases, 1, run);
    let tree = tree.into_inner().expect("one thread");
    measured.checked(tree.check(), work.keys.len(), tree.node_count())
}

/// [`ExclusiveTree`] with several descents in flight, in one thread.
pub fn interleaved(work: &Work, phases: &[Phase], huge_pages: bool) -> Measured {
    let tree = parking_place(ExclusiveTree::with_nodes(NODES_DEFAULT, huge_pages));
    let run = |share: Share<'_>| {
        let mut wrong = 0;
        let operations = (0..share.len()).map(|at| share.operation(at));
        tree.lock().expect("one thread").interleave::<WIDTH>(operations, |at, outcome| {
            wrong += usize::from(!share.right(at, outcome));
        });
        wrong
    };
    let measured = measure(work, phases, 1, run);
    let tree = tree.into_inner().expect("one thread");
    measured.checked(tree.check(), work.keys.len(), tree.node_count())
}

/// The options of the tree run by tasks.
#[derive(Clone, Debug)]
pub struct TaskOptions {
    /// The nodes at which operations hop.
    pub hops: Hops,
    /// Lanes per worker: operations under way.
    pub lanes: usize,
    /// Number of tasks by which lines are prefetched ahead; `None`: the runtime's default.
    pub distance: Option<usize>,
    /// Whether each worker has a processor of its own.
    pub dedicated: bool,
}

impl Default for TaskOptions {
    fn default() -> Self {
        TaskOptions { hops: Hops::default(), lanes: 32, distance: None, dedicated: false }
    }
}

/// A distributor of a phase's operations to lanes. Each worker takes a chunk of them at a time, so
/// that workers meet on a cache line only once per chunk, and at the end, when they empty each
/// other's shelves.
struct Feed {
    work: Arc<Work>,
    phase: Phase,
    claimed: AtomicUsize,
    shelves: Vec<Shelf>,
}

/// The operations of one worker that are still to be done.
#[repr(align(128))]
#[derive(Default)]
struct Shelf {
    /// End of the chunk in the upper half, next operation of it in the lower.
    chunk: AtomicU64,
    wrong: AtomicUsize,
    done: AtomicUsize,
}

impl Shelf {
    #[inline(always)]
    fn take(&self) -> Option<usize> {
        let chunk = self.chunk.fetch_add(1, Relaxed);
        let (next, end) = (chunk as u32, (chunk >> 32) as u32);
        (next < end).then_some(next as usize)
    }
}

/// Operations that a worker takes at a time.
const CHUNK: usize = 4096;

impl Feed {
    fn new(work: &Arc<Work>, phase: Phase, workers: usize) -> Arc<Self> {
        let shelves = (0..workers).map(|_| Shelf::default()).collect();
        Arc::new(Feed { work: Arc::clone(work), phase, claimed: AtomicUsize::new(0), shelves })
    }

    fn all(&self) -> Share<'_> {
        self.work.share(self.phase, 0, 1)
    }

    /// Puts a chunk on `shelf`. Only the shelf's own worker does so, and only once the shelf is
    /// empty: increments of its counter by others meanwhile mean nothing.
    #[cold]
    fn restock(&self, shelf: &Shelf) -> Option<usize> {
        let count = self.work.keys.len();
        let from = self.claimed.fetch_add(CHUNK, Relaxed);
        if from >= count {
            return self.shelves.iter().find_map(Shelf::take);
        }
        let end = count.min(from + CHUNK) as u64;
        shelf.chunk.store(end << 32 | (from as u64 + 1), Relaxed);
        Some(from)
    }
}

impl Source for Feed {
    #[inline]
    fn next(&self, worker: WorkerId) -> Option<(u64, Operation)> {
        let shelf = &self.shelves[usize::from(worker.0)];
        let at = shelf.take().or_else(|| self.restock(shelf))?;
        Some((at as u64, self.all().operation(at)))
    }

    #[inline]
    fn done(&self, worker: WorkerId, number: u64, outcome: Outcome) {
        let shelf = &self.shelves[usize::from(worker.0)];
        shelf.done.store(shelf.done.load(Relaxed) + 1, Relaxed);
        if !self.all().right(number as usize, outcome) {
            shelf.wrong.fetch_add(1, Relaxed);
        }
    }
}

/// [`TaskTree`] on `workers` workers.
pub fn tasks(
    work: &Arc<Work>,
    phases: &[Phase],
    workers: usize,
    huge_pages: bool,
    options: &TaskOptions,
) -> Measured {
    let cpus: Vec<u32> = (0..workers as u32).collect();
    let mut config =
        if options.dedicated { Config::dedicated(&cpus) } else { Config::shared(workers) };
    config.prefetch_distance = options.distance.unwrap_or(config.prefetch_distance);
    let runtime = Runtime::new(config).expect("workers can be started");
    let tree = TaskTree::with_nodes(&runtime, NODES_DEFAULT, huge_pages, options.hops);
    let mut measured = Measured { phases: Vec::new(), wrong: None, node_bytes: None };
    for &phase in phases {
        let feed = Feed::new(work, phase, workers);
        let (start, cpu) = (Instant::now(), cpu_time());
        let running = tree.run(runtime.group(), &feed, options.lanes, Locality::Spread);
        let ended = running.expect("workers take a group").wait();
        let (wall, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));
        let sum = |of: fn(&Shelf) -> &AtomicUsize| -> usize {
            feed.shelves.iter().map(|shelf| of(shelf).load(Relaxed)).sum()
        };
        let missing = work.keys.len() - sum(|shelf| &shelf.done);
        if let Err(error) = ended {
            measured.wrong.get_or_insert_with(|| error.to_string());
        }
        measured.fail(phase, sum(|shelf| &shelf.wrong) + missing);
        measured.phases.push((phase, wall, cpu));
    }
    runtime.shutdown(Shutdown::Drain);
    measured.checked(tree.check(), work.keys.len(), tree.node_count())
}

/// The standard library's `BTreeMap`, in one thread.
pub fn btreemap(work: &Work, phases: &[Phase]) -> Measured {
    let map = parking_place(BTreeMap::new());
    let run = |share: Share<'_>| {
        let mut map = map.lock().expect("one thread");
        one_by_one(share, |operation| match operation {
            Operation::Insert(key, value) => {
                map.insert(key, value).map_or(Outcome::Inserted, |_| Outcome::Present)
            }
            Operation::Lookup(key) => map.get(&key).copied().into(),
            Operation::Update(key, value) => {
                map.get_mut(&key).map(|slot| std::mem::replace(slot, value)).into()
            }
            Operation::Delete(key) => map.remove(&key).into(),
        })
    };
    let mut measured = measure(work, phases, 1, run);
    let entries = map.into_inner().expect("one thread").len();
    if entries != work.keys.len() {
        measured.wrong = Some(format!("{entries} entries, not {}", work.keys.len()));
    }
    measured
}

/// Lends an engine for one thread to the thread of a phase; locked once per phase.
fn parking_place<T>(engine: T) -> std::sync::Mutex<T> {
    std::sync::Mutex::new(engine)
}
