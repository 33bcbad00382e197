//! A B-link tree from 64-bit keys to 64-bit values with one node layout and five ways to run it:
//! the proof of what tasks are worth (DESIGN §7), and a concurrent index.
//!
//! | tree | threads | a node is protected by |
//! |---|---|---|
//! | [`ExclusiveTree`] | one writer | the borrow checker |
//! | [`ExclusiveTree::interleave`] | one, many descents in flight | the borrow checker |
//! | [`LatchedTree`] | many | a reader-writer latch |
//! | [`OptimisticTree`] | many | a version: writers exclude each other, readers look again |
//! | `TaskTree` | workers of a runtime | the worker that the node is mapped to |
//!
//! All are [`Core`] with another [`latch::Access`], and all have the same operations. Which one
//! wins where, and why: docs/tree.md.
//!
//! **Invariant:** this crate knows neither tables nor SQL.

mod core;
mod interleaved;
pub mod latch;
pub mod node;
pub mod planted;
mod region;

use std::ops::RangeInclusive;

pub use crate::core::{Core, NODES_DEFAULT};


/// A tree for threads, protected by reader-writer latches.
pub type LatchedTree = Core<latch::Latch>;
/// A tree for threads, whose readers take no latch.
pub type OptimisticTree = Core<latch::Version>;

impl<A: latch::Access> Default for Core<A> {
    fn default() -> Self {
        Core::with_nodes(NODES_DEFAULT, true)
    }
}

/// Something to do at one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Adds an entry unless the key is there.
    Insert(u64, u64),
    /// Replaces the value of a key that is there.
    Update(u64, u64),
    /// Removes a key.
    Delete(u64),
    /// Looks for a key.
    Lookup(u64),
}

/// How an [`Operation`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The insert added an entry.
    Inserted,
    /// The key was there, and this is its value (for an update or delete: the old one). An insert
    /// that finds its key does not say its value.
    Found(u64),
    /// The insert found its key and changed nothing.
    Present,
    /// The key is not there.
    Absent,
}

impl Operation {
    /// Its key.
    #[inline(always)]
    pub fn key(self) -> u64 {
        match self {
            Operation::Insert(key, _)
            | Operation::Update(key, _)
            | Operation::Delete(key)
            | Operation::Lookup(key) => key,
        }
    }

    /// Whether it changes nothing.
    #[inline(always)]
    pub fn reads(self) -> bool {
        matches!(self, Operation::Lookup(_))
    }
}

impl From<Option<u64>> for Outcome {
    #[inline(always)]
    fn from(found: Option<u64>) -> Self {
        found.map_or(Outcome::Absent, Outcome::Found)
    }
}

impl<A: latch::Access> Core<A> {
    /// Does one thing.
    #[inline]
    pub fn run(&self, operation: Operation) -> Outcome {
        self.apply(self.descend(operation.key(), 0), operation)
    }

    /// Does one thing at leaf `id` or to its right.
    #[inline(always)]
    pub(crate) fn apply(&self, id: node::NodeId, operation: Operation) -> Outcome {
        match operation {
            Operation::Insert(key, value) if self.insert_from(id, key, value) => Outcome::Inserted,
            Operation::Insert(..) => Outcome::Present,
            Operation::Update(key, value) => self.update_from(id, key, value).into(),
            Operation::Delete(key) => self.delete_from(id, key).into(),
            Operation::Lookup(key) => self.lookup_from(id, key).into(),
        }
    }
}

/// A tree that only its owner changes: no latch anywhere.
#[derive(Default)]
pub struct ExclusiveTree(Core<latch::Unlatched>);

impl ExclusiveTree {
    /// An empty tree of at most `nodes` nodes.
    ///
    /// Panics: if there is no such address space.
    pub fn with_nodes(nodes: usize, huge_pages: bool) -> Self {
        ExclusiveTree(Core::with_nodes(nodes, huge_pages))
    }

    /// As [`Core::insert`].
    #[inline]
    pub fn insert(&mut self, key: u64, value: u64) -> bool {
        self.0.insert(key, value)
    }

    /// As [`Core::update`].
    #[inline]
    pub fn update(&mut self, key: u64, value: u64) -> Option<u64> {
        self.0.update(key, value)
    }

    /// As [`Core::delete`].
    #[inline]
    pub fn delete(&mut self, key: u64) -> Option<u64> {
        self.0.delete(key)
    }

    /// As [`Core::lookup`].
    #[inline]
    pub fn lookup(&self, key: u64) -> Option<u64> {
        self.0.lookup(key)
    }

    /// As [`Core::range`].
    pub fn range(&self, range: RangeInclusive<u64>, entry: impl FnMut(u64, u64) -> bool) {
        self.0.range(range, entry);
    }

    /// As [`Core::run`].
    #[inline]
    pub fn run(&mut self, operation: Operation) -> Outcome {
        self.0.run(operation)
    }

    /// As [`Core::interleave`].
    pub fn interleave<const WIDTH: usize>(
        &mut self,
        operations: impl IntoIterator<Item = Operation>,
        done: impl FnMut(usize, Outcome),
    ) {
        self.0.interleave::<WIDTH>(operations, done);
    }

    /// As [`Core::check`].
    pub fn check(&self) -> usize {
        self.0.check()
    }

    /// As [`Core::node_count`].
    pub fn node_count(&self) -> usize {
        self.0.node_count()
    }
}
