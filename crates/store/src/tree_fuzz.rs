//! Trees against a sorted set.
//!
//! Strategy: keys from a domain chosen per case, so that equal keys are everywhere, rare or absent;
//! phases that mostly insert, in order or not, and phases that mostly remove, so that nodes split,
//! merge and vanish. Snapshots are taken at random and compared at the end.
//! Invariants: those of [`Tree::check`]; same entries, same answers as the set; a snapshot stays.

use crate::fuzz;
use crate::tree::{BytesKey, BytesProbe, Direction, Key, Tree, WideKey};
use halcyon_base::RowId;
use halcyon_base::rng::Rng;
use std::collections::BTreeSet;
use std::fmt::Debug;

/// A key of the model: a number, from which each kind of key is made in the same order.
trait FromNumber: Key + Ord + Debug {
    fn from_number(number: u32) -> Self;
}

impl FromNumber for u64 {
    fn from_number(number: u32) -> Self {
        // The greatest key is also the filler.
        if number == u32::MAX { u64::MAX } else { (number as u64) << 20 }
    }
}

impl FromNumber for WideKey {
    fn from_number(number: u32) -> Self {
        let high = (number >> 3) as u128;
        let low = if number == u32::MAX { u64::MAX } else { (number & 7) as u64 };
        WideKey::from_number(if number == u32::MAX { u128::MAX } else { high << 64 | low as u128 })
    }
}

/// Digits of unequal number, none a prefix of another key; some go beyond the key's head.
fn digits(number: u32) -> Vec<u8> {
    let mut bytes = format!("{number:010}").into_bytes();
    bytes.extend(std::iter::repeat_n(b'x', (number % 5) as usize * 4));
    bytes.push(0);
    bytes
}

impl FromNumber for BytesKey {
    fn from_number(number: u32) -> Self {
        BytesKey::new(&digits(number))
    }
}

type Model = BTreeSet<(u32, u32)>;

fn entries<K: FromNumber>(tree: &Tree<K>) -> Vec<(K, u32)> {
    tree.entries().map(|(key, row)| (key, row.0)).collect()
}

fn expected<K: FromNumber>(model: &Model) -> Vec<(K, u32)> {
    model.iter().map(|&(number, row)| (K::from_number(number), row)).collect()
}

fn check_range<K: FromNumber>(tree: &Tree<K>, model: &Model, from: u32, to: Option<u32>) {
    let rows: Vec<u32> = match to {
        Some(to) if to <= from => vec![],
        Some(to) => model.range((from, 0)..(to, 0)).map(|&(_, row)| row).collect(),
        None => model.range((from, 0)..).map(|&(_, row)| row).collect(),
    };
    let (from, to) = (K::from_number(from), to.map(K::from_number));
    let to = to.as_ref().map(K::probe);
    let forward: Vec<u32> =
        tree.range(from.probe(), to, Direction::Forward).map(|row| row.0).collect();
    assert_eq!(forward, rows);
    let mut backward: Vec<u32> =
        tree.range(from.probe(), to, Direction::Backward).map(|row| row.0).collect();
    backward.reverse();
    assert_eq!(backward, rows);
}

fn case<K: FromNumber>(rng: &mut Rng) {
    let domain = *rng.pick(&[1, 3, 50, 1000, 100_000]);
    let number = |rng: &mut Rng| match rng.below(50) {
        0 => u32::MAX,
        _ => rng.below(domain) as u32,
    };
    let (mut tree, mut model) = (Tree::<K>::default(), Model::new());
    let mut snapshots = vec![];
    if rng.chance(1, 2) {
        let count = rng.below(3000);
        model.extend((0..count).map(|row| (number(rng), row as u32)));
        let run = expected::<K>(&model);
        tree = Tree::from_sorted(run.into_iter().map(|(key, row)| (key, RowId(row))));
        tree.check();
    }
    for _phase in 0..rng.below(6) {
        let inserts = *rng.pick(&[1, 5, 9]);
        let in_order = rng.chance(1, 4);
        for step in 0..rng.below(1500) as u32 {
            if rng.chance(inserts, 10) {
                let number = if in_order { step } else { number(rng) };
                let row = rng.below(5000) as u32;
                if model.insert((number, row)) {
                    tree.insert(K::from_number(number), RowId(row));
                }
            } else {
                let near = (number(rng), rng.below(5000) as u32);
                let found = model.range(near..).next().copied();
                let (number, row) = found.unwrap_or(near);
                let removed = tree.remove(K::from_number(number).probe(), RowId(row));
                assert_eq!(removed, model.remove(&(number, row)));
            }
            if rng.chance(1, 200) {
                snapshots.push((tree.clone(), model.clone()));
            }
            if rng.chance(1, 20) {
                let number = number(rng);
                let first = model.range((number, 0)..=(number, u32::MAX)).next();
                let found = tree.get(K::from_number(number).probe());
                assert_eq!(found.map(|row| row.0), first.map(|&(_, row)| row));
            }
        }
        tree.check();
        for _ in 0..5 {
            let to = rng.chance(3, 4).then(|| number(rng));
            check_range(&tree, &model, number(rng), to);
        }
        check_range(&tree, &model, 0, None);
    }
    snapshots.push((tree, model));
    for (tree, model) in &snapshots {
        tree.check();
        assert_eq!(tree.len(), model.len() as u64);
        assert_eq!(entries(tree), expected::<K>(model));
    }
}

#[test]
fn narrow_tree_behaves_as_a_sorted_set() {
    fuzz::run("narrow_tree", case::<u64>);
}

#[test]
fn wide_tree_behaves_as_a_sorted_set() {
    fuzz::run("wide_tree", case::<WideKey>);
}

#[test]
fn bytes_tree_behaves_as_a_sorted_set() {
    fuzz::run("bytes_tree", case::<BytesKey>);
}

#[test]
fn prefix_probes_enclose_exactly_the_keys_with_the_prefix() {
    fuzz::run("prefix_probes", |rng| {
        let byte = |rng: &mut Rng| *rng.pick(&[1u8, 2, 254, 255]);
        let string = |rng: &mut Rng, len| (0..len).map(|_| byte(rng)).collect::<Vec<u8>>();
        let mut keys = BTreeSet::new();
        for _ in 0..rng.below(300) {
            let len = *rng.pick(&[1, 2, 15, 16, 17, 18, 33]);
            let mut key = string(rng, len);
            key.push(0);
            keys.insert(key);
        }
        let run = keys.iter().enumerate().map(|(at, key)| (BytesKey::new(key), RowId(at as u32)));
        let tree = Tree::from_sorted(run);
        tree.check();
        for _ in 0..50 {
            let len = *rng.pick(&[0, 1, 2, 14, 15, 16, 17, 20]);
            let mut prefix = string(rng, len);
            if let (Some(key), true) = (keys.first(), rng.chance(1, 2)) {
                prefix = key[..len.min(key.len())].to_vec();
            }
            let (from, to) = (BytesProbe::exactly(&prefix), BytesProbe::after(&prefix));
            let found = tree.range(from, Some(to), Direction::Forward).count();
            assert_eq!(found, keys.iter().filter(|key| key.starts_with(&prefix)).count());
        }
    });
}

#[test]
fn change_after_a_snapshot_copies_one_path() {
    let mut tree = Tree::<u64>::default();
    (0..100_000).for_each(|number| tree.insert(number * 10, RowId(number as u32)));
    let before = tree.addresses();
    tree.remove(500_000, RowId(50_000));
    assert_eq!(tree.addresses(), before, "a sole owner changes in place");
    let snapshot = tree.clone();
    assert_eq!(tree.addresses(), snapshot.addresses(), "a snapshot copies nothing");
    tree.insert(500_001, RowId(1));
    tree.insert(500_002, RowId(2));
    let copied = tree.addresses().difference(&before).count();
    assert!((2..=5).contains(&copied), "one path is copied once, not {copied} nodes");
    assert_eq!(snapshot.get(500_001), None);
    assert_eq!(tree.get(500_001), Some(RowId(1)));
}

#[test]
fn checks_see_a_planted_fault() {
    // The canary: a tree built from a run that is not sorted must not pass.
    let tree = Tree::<u64>::from_sorted([(2, RowId(1)), (1, RowId(2))].into_iter());
    assert!(std::panic::catch_unwind(|| tree.check()).is_err());
}
