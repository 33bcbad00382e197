//! Every tree beside a `BTreeMap`, operation by operation, with `check` after each stretch.

#![cfg(not(shuttle))]

use std::collections::BTreeMap;

use halcyon_base::rng::Rng;
use halcyon_tree::latch::Access;
use halcyon_tree::{ExclusiveTree, LatchedTree, Operation, OptimisticTree, Outcome, Tree};

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
