//! Threads on one tree. Each owns the keys of its residue, so it knows every answer, and all of
//! them meet in the same leaves; readers look at everybody's keys and ranges.

#![cfg(not(shuttle))]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use halcyon_base::rng::Rng;
use halcyon_tree::Tree;
use halcyon_tree::latch::{Access, Latch, Optimistic};

const WRITERS: u64 = 3;
const KEYS: u64 = if cfg!(miri) { 90 } else { 6000 };
const STEPS: u64 = if cfg!(miri) { 150 } else { 40_000 };

/// A value that tells its key, so that a reader knows a torn entry.
fn value(key: u64, salt: u64) -> u64 {
    key << 32 | salt & 0xffff_ffff
}

fn write<A: Access>(tree: &Tree<A>, writer: u64, seed: u64) -> BTreeMap<u64, u64> {
    let (mut rng, mut own) = (Rng::new(seed * 10 + writer), BTreeMap::new());
    for _ in 0..STEPS {
        let key = rng.below(KEYS / WRITERS) * WRITERS + writer;
        let new = value(key, rng.next_u64());
        match rng.below(10) {
            0..5 => {
                let absent = !own.contains_key(&key);
                assert_eq!(tree.insert(key, new), absent);
                own.entry(key).or_insert(new);
            }
            5..7 => assert_eq!(tree.delete(key), own.remove(&key)),
            7 => {
                assert_eq!(tree.update(key, new), own.get(&key).copied());
                own.entry(key).and_modify(|old| *old = new);
            }
            _ => assert_eq!(tree.lookup(key), own.get(&key).copied()),
        }
    }
    own
}

fn read<A: Access>(tree: &Tree<A>, stop: &AtomicBool) {
    let mut rng = Rng::new(99);
    while !stop.load(Relaxed) {
        let key = rng.below(KEYS);
        if let Some(found) = tree.lookup(key) {
            assert_eq!(found >> 32, key, "an entry is whole");
        }
        let (from, mut last) = (rng.below(KEYS), None);
        tree.range(from..=from + 300, |key, found| {
            assert_eq!(found >> 32, key, "an entry is whole");
            assert!(last < Some(key) && key >= from && key <= from + 300);
            last = Some(key);
            true
        });
    }
}

fn stress<A: Access + Default + Sync>() {
    for seed in 0..2 {
        let (tree, stop) = (&Tree::<A>::default(), &AtomicBool::new(false));
        let model = std::thread::scope(|scope| {
            let writers: Vec<_> =
                (0..WRITERS).map(|id| scope.spawn(move || write(tree, id, seed))).collect();
            let reader = scope.spawn(|| read(tree, stop));
            let mut model = BTreeMap::new();
            for writer in writers {
                model.extend(writer.join().expect("answers are right"));
            }
            stop.store(true, Relaxed);
            reader.join().expect("entries are whole");
            model
        });
        assert_eq!(tree.check(), model.len());
        let mut found = Vec::new();
        tree.range(0..=u64::MAX, |key, value| {
            found.push((key, value));
            true
        });
        assert_eq!(found, model.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn latched_tree_keeps_what_threads_wrote() {
    stress::<Latch>();
}

#[test]
fn optimistic_tree_keeps_what_threads_wrote() {
    stress::<Optimistic>();
}
