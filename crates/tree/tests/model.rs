//! Every tree beside a `BTreeMap`, operation by operation, with `check` after each stretch.

#![cfg(not(shuttle))]

use std::collections::BTreeMap;

use halcyon_base::rng::Rng;
use halcyon_task::{Config, Context, Locality, Runtime, WorkerId};
use halcyon_tree::latch::Access;
use halcyon_tree::{ExclusiveTree, LatchedTree, Operation, OptimisticTree, Outcome, Source};
use halcyon_tree::{Hops, TaskTree, Tree};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A tree that can be compared.
trait Subject {
    fn run(&mut self, operation: Operation) -> Outcome;
    fn range(&self, from: u64, to: u64, limit: usize) -> Vec<(u64, u64)>;
    fn check(&self) -> usize;
}

fn collect(limit: usize, range: impl FnOnce(&mut dyn FnMut(u64, u64) -> bool)) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    range(&mut |key, value| {
        found.push((key, value));
        found.len() < limit
    });
    found
}

impl<A: Access> Subject for Tree<A> {
    fn run(&mut self, operation: Operation) -> Outcome {
        Tree::run(self, operation)
    }
    fn range(&self, from: u64, to: u64, limit: usize) -> Vec<(u64, u64)> {
        collect(limit, |entry| Tree::range(self, from..=to, entry))
    }
    fn check(&self) -> usize {
        Tree::check(self)
    }
}

impl Subject for ExclusiveTree {
    fn run(&mut self, operation: Operation) -> Outcome {
        ExclusiveTree::run(self, operation)
    }
    fn range(&self, from: u64, to: u64, limit: usize) -> Vec<(u64, u64)> {
        collect(limit, |entry| ExclusiveTree::range(self, from..=to, entry))
    }
    fn check(&self) -> usize {
        ExclusiveTree::check(self)
    }
}

/// What the model answers.
fn expected(model: &mut BTreeMap<u64, u64>, operation: Operation) -> Outcome {
    match operation {
        Operation::Insert(key, value) => match model.entry(key) {
            std::collections::btree_map::Entry::Occupied(_) => Outcome::Present,
            std::collections::btree_map::Entry::Vacant(slot) => {
                slot.insert(value);
                Outcome::Inserted
            }
        },
        Operation::Update(key, value) => {
            model.get_mut(&key).map(|slot| std::mem::replace(slot, value)).into()
        }
        Operation::Delete(key) => model.remove(&key).into(),
        Operation::Lookup(key) => model.get(&key).copied().into(),
    }
}

/// Keys that collide, ascend, or lie at both ends.
fn key(rng: &mut Rng, style: u32, at: u64) -> u64 {
    match style {
        0 => rng.below(2000),
        1 => at,
        2 => u64::MAX - rng.below(500),
        3 => u64::MAX - at,
        _ => rng.next_u64(),
    }
}

fn operation(rng: &mut Rng, style: u32, at: u64) -> Operation {
    let key = key(rng, style, at);
    match rng.below(10) {
        0..5 => Operation::Insert(key, rng.next_u64()),
        5..7 => Operation::Delete(key),
        7 => Operation::Update(key, rng.next_u64()),
        _ => Operation::Lookup(key),
    }
}

fn seeds() -> u64 {
    if cfg!(miri) { 1 } else { 20 }
}

fn steps() -> u64 {
    if cfg!(miri) { 300 } else { 6000 }
}

fn compare(make: impl Fn() -> Box<dyn Subject>) {
    for seed in 0..seeds() {
        let (mut rng, mut model, mut tree) = (Rng::new(seed), BTreeMap::new(), make());
        for at in 0..steps() {
            let style = ((at / 1500 + seed) % 5) as u32;
            let operation = operation(&mut rng, style, at);
            let wanted = expected(&mut model, operation);
            assert_eq!(tree.run(operation), wanted, "seed {seed}, step {at}: {operation:?}");
            if at % 500 == 0 {
                assert_eq!(tree.check(), model.len(), "seed {seed}, step {at}");
                compare_ranges(&mut rng, style, at, &model, &*tree);
            }
        }
        let all: Vec<_> = model.into_iter().collect();
        assert_eq!(tree.range(0, u64::MAX, usize::MAX), all, "seed {seed}");
    }
}

fn compare_ranges(
    rng: &mut Rng,
    style: u32,
    at: u64,
    model: &BTreeMap<u64, u64>,
    tree: &dyn Subject,
) {
    for _ in 0..10 {
        let (from, to) = (key(rng, style, at / 2), key(rng, style, at));
        let limit = rng.below(100) as usize + 1;
        let wanted: Vec<_> = match from <= to {
            true => model.range(from..=to).map(|(&k, &v)| (k, v)).take(limit).collect(),
            false => Vec::new(),
        };
        assert_eq!(tree.range(from, to, limit), wanted, "{from}..={to}");
    }
}

#[test]
fn exclusive_tree_is_a_map() {
    compare(|| Box::new(ExclusiveTree::default()));
}

#[test]
fn latched_tree_is_a_map() {
    compare(|| Box::new(LatchedTree::default()));
}

#[test]
fn optimistic_tree_is_a_map() {
    compare(|| Box::new(OptimisticTree::default()));
}

/// Operations in flight together have different keys here; so their order does not matter.
#[test]
fn interleaved_operations_answer_as_one_by_one() {
    for seed in 0..seeds() {
        let (mut rng, mut model) = (Rng::new(seed), BTreeMap::new());
        let mut tree = ExclusiveTree::default();
        for at in 0..steps() / 50 {
            let style = ((at / 30 + seed) % 5) as u32;
            let mut batch: Vec<Operation> = Vec::new();
            for step in 0..50 {
                let next = operation(&mut rng, style, at * 50 + step);
                if batch.iter().all(|other| other.key() != next.key()) {
                    batch.push(next);
                }
            }
            let mut outcomes = vec![None; batch.len()];
            tree.interleave::<7>(batch.iter().copied(), |place, outcome| {
                assert_eq!(outcomes[place].replace(outcome), None, "an operation ends once");
            });
            for (&operation, outcome) in batch.iter().zip(outcomes) {
                let wanted = expected(&mut model, operation);
                assert_eq!(outcome, Some(wanted), "seed {seed}, batch {at}: {operation:?}");
            }
            assert_eq!(tree.check(), model.len());
        }
    }
}

/// A simulated runtime of three workers: each operation is a task that hops where it must.
struct ByTasks {
    tree: Arc<TaskTree>,
    runtime: Runtime,
}

impl ByTasks {
    fn new(seed: u64, hops: Hops) -> Self {
        let runtime = Runtime::simulated(Config::shared(3), seed).expect("three workers");
        ByTasks { tree: TaskTree::with_nodes(&runtime, 1 << 20, false, hops), runtime }
    }
}

impl Subject for ByTasks {
    fn run(&mut self, operation: Operation) -> Outcome {
        let outcome = Arc::new(Mutex::new(None));
        let place = Arc::clone(&outcome);
        let then = move |_: &mut Context, outcome| {
            assert_eq!(place.lock().unwrap().replace(outcome), None, "an operation ends once");
        };
        let mut group = self.runtime.group();
        group.step_task(halcyon_task::Annotation::new(), self.tree.task(operation, then));
        group.enqueue(Locality::Spread).expect("workers are there").wait().expect("no panic");
        let outcome = outcome.lock().unwrap().take();
        outcome.expect("the group has ended, and so has its operation")
    }
    fn range(&self, from: u64, to: u64, limit: usize) -> Vec<(u64, u64)> {
        collect(limit, |entry| self.tree.range(from..=to, entry))
    }
    fn check(&self) -> usize {
        self.tree.check()
    }
}

#[test]
fn tree_by_tasks_is_a_map() {
    compare(|| Box::new(ByTasks::new(7, Hops::Below(1))));
}

/// Operations with distinct keys, and what became of them.
struct Batch {
    operations: Vec<Operation>,
    next: AtomicUsize,
    outcomes: Mutex<Vec<Option<Outcome>>>,
}

impl Source for Batch {
    fn next(&self, _worker: WorkerId) -> Option<(u64, Operation)> {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        self.operations.get(at).map(|&operation| (at as u64, operation))
    }
    fn done(&self, _worker: WorkerId, number: u64, outcome: Outcome) {
        let before = self.outcomes.lock().unwrap()[number as usize].replace(outcome);
        assert_eq!(before, None, "an operation ends once");
    }
}

/// Lanes on a runtime, simulated under many seeds or with threads.
fn compare_lanes(runtime: Runtime, hops: Hops, seed: u64, batches: u64, size: u64) {
    let (mut rng, mut model) = (Rng::new(seed), BTreeMap::new());
    let tree = TaskTree::with_nodes(&runtime, 1 << 20, false, hops);
    for at in 0..batches {
        let style = ((at / 3 + seed) % 5) as u32;
        let mut keys = std::collections::HashSet::new();
        let operations: Vec<Operation> = (0..size)
            .map(|step| operation(&mut rng, style, at * size + step))
            .filter(|operation| keys.insert(operation.key()))
            .collect();
        let outcomes = Mutex::new(vec![None; operations.len()]);
        let batch = Arc::new(Batch { operations, next: AtomicUsize::new(0), outcomes });
        let running = tree.run(runtime.group(), &batch, 5, Locality::Spread);
        running.expect("workers are there").wait().expect("no task panics");
        let outcomes = batch.outcomes.lock().unwrap();
        for (&operation, &outcome) in batch.operations.iter().zip(&*outcomes) {
            let wanted = expected(&mut model, operation);
            assert_eq!(outcome, Some(wanted), "seed {seed}, batch {at}: {operation:?}");
        }
        assert_eq!(tree.check(), model.len(), "seed {seed}, batch {at}");
    }
    let all: Vec<_> = model.into_iter().collect();
    assert_eq!(collect(usize::MAX, |entry| tree.range(0..=u64::MAX, entry)), all);
    assert!(all.iter().all(|&(key, value)| tree.lookup(key) == Some(value)));
}

#[test]
fn lanes_answer_as_one_by_one_in_every_simulated_order() {
    for seed in 0..seeds() {
        let hops = if seed % 2 == 0 { Hops::EveryNode } else { Hops::Below(1) };
        let runtime = Runtime::simulated(Config::shared(3), seed).expect("three workers");
        compare_lanes(runtime, hops, seed, if cfg!(miri) { 3 } else { 20 }, 100);
    }
}

#[test]
#[cfg_attr(miri, ignore = "many threads for long")]
fn lanes_on_threads_answer_as_one_by_one() {
    for seed in 0..3 {
        let runtime = Runtime::new(Config::shared(3)).expect("three workers");
        compare_lanes(runtime, Hops::Below(2), seed, 6, 20_000);
    }
}

/// Workers that wait for their cores leave synchronisation by scheduling; the tree must stand it.
#[test]
#[cfg_attr(miri, ignore = "many threads for long")]
fn tree_by_tasks_survives_workers_without_cores_of_their_own() {
    let mut config = Config::shared(6);
    config.run_delay_per_mille = 1;
    let runtime = Runtime::new(config).expect("six workers");
    compare_lanes(runtime, Hops::Below(2), 11, 10, 30_000);
}
