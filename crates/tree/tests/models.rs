//! Splits, right links and new roots under the model checker.
//!
//! ```sh
//! RUSTFLAGS='--cfg shuttle' cargo test -p halcyon-tree --test models --target-dir target/shuttle
//! ```
//!
//! A node holds four entries here, so a handful of inserts splits leaves, inner nodes and roots.
//! Canaries: with a bug planted (`halcyon_tree::planted`) the same models must fail.

#![cfg(shuttle)]

use halcyon_base::model::Check;
use halcyon_base::planted::Bug;
use halcyon_base::sync::{Arc, thread};
use halcyon_tree::latch::{Access, Latch, Optimistic};
use halcyon_tree::{Tree, planted};

fn check(model: fn()) {
    Check::new(600).run(model);
}

fn check_canary(bug: Bug, model: fn()) {
    Check::new(600).canary(bug, model);
}

/// Two writers with interleaving keys from an empty tree (the first root is a leaf), and a reader
/// of keys that are there from the start. Nothing may be lost, and all separators arrive.
fn writers_split_the_same_nodes<A: Access + Default + Send + Sync + 'static>() {
    let tree = Arc::new(Tree::<A>::with_nodes(64, false));
    for key in [100, 200] {
        assert!(tree.insert(key, key));
    }
    let writer = |from: u64| {
        let tree = Arc::clone(&tree);
        thread::spawn(move || {
            for at in 0..7 {
                let key = from + at * 30;
                assert!(tree.insert(key, key));
                assert_eq!(tree.lookup(key), Some(key), "own insert is seen");
            }
            assert_eq!(tree.delete(from), Some(from));
        })
    };
    let writers = [writer(3), writer(7)];
    let reader = {
        let tree = Arc::clone(&tree);
        thread::spawn(move || {
            for _ in 0..3 {
                for key in [100, 200] {
                    assert_eq!(tree.lookup(key), Some(key), "a key is never out of sight");
                }
                let mut seen = Vec::new();
                tree.range(0..=u64::MAX, |key, value| {
                    assert_eq!(key, value);
                    assert!(seen.last().is_none_or(|&last| last < key));
                    seen.push(key);
                    true
                });
                assert!(seen.contains(&100) && seen.contains(&200));
            }
        })
    };
    for writer in writers {
        writer.join().expect("writers find their keys");
    }
    reader.join().expect("the reader finds old keys");
    assert_eq!(tree.check(), 2 + 2 * 6);
}

#[test]
fn latched_tree_survives_every_schedule() {
    check(writers_split_the_same_nodes::<Latch>);
}

#[test]
fn optimistic_tree_survives_every_schedule() {
    check(writers_split_the_same_nodes::<Optimistic>);
}

#[test]
fn a_reader_that_does_not_look_again_is_found() {
    check_canary(planted::UNCHECKED_READ, writers_split_the_same_nodes::<Optimistic>);
}

#[test]
fn a_search_that_never_goes_right_is_found() {
    check_canary(planted::NO_RIGHT_MOVE, writers_split_the_same_nodes::<Optimistic>);
}

#[test]
fn a_root_that_is_replaced_too_late_is_found() {
    check_canary(planted::LATE_ROOT, writers_split_the_same_nodes::<Optimistic>);
}
