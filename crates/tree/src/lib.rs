//! A B-link tree from 64-bit keys to 64-bit values with one node layout and five ways to run it:
//! the proof of what tasks are worth (DESIGN §7), and a concurrent index.
//!
//! | mode | type | threads | a node is protected by |
//! |---|---|---|---|
//! | exclusive | [`ExclusiveTree`] | one writer | the borrow checker |
//! | interleaved | [`ExclusiveTree::interleave`] | one, many descents in flight | the borrow checker |
//! | latched | [`LatchedTree`] | many | a reader-writer latch |
//! | optimistic | [`OptimisticTree`] | many | a version: writers take it, readers look again |
//! | tasks | [`TaskTree`] | workers of a runtime | its home: writers run there, one by one |
//!
//! All are one tree (`core`) with another [`latch::Access`], and have the same operations. Which
//! one wins where, and why: docs/tree.md.
//!
//! **Invariant**, checked by `cargo xtask check layers`: this crate knows neither tables nor SQL.

mod core;
mod interleaved;
pub mod latch;
pub mod node;
pub mod planted;
mod region;
mod tasks;

use std::ops::RangeInclusive;

use crate::core::Core;
pub use crate::core::NODES_DEFAULT;
pub use crate::tasks::{Hops, OperationTask, Source, TaskTree};
use latch::Access;

/// A tree for threads whose nodes are protected by `A`.
pub struct Tree<A> {
    core: Core,
    access: A,
}

/// A tree for threads, protected by reader-writer latches.
pub type LatchedTree = Tree<latch::Latch>;
/// A tree for threads, whose readers take no latch.
pub type OptimisticTree = Tree<latch::Optimistic>;

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
    /// The insert found its key and changed nothing.
    Present,
    /// The key is there with this value; for an update or delete: was.
    Found(u64),
    /// The key is not there.
    Absent,
}

impl Operation {
    /// The operation's key.
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

impl<A: Access + Default> Tree<A> {
    /// An empty tree of at most `nodes` nodes, with huge pages below it if the kernel gives them.
    ///
    /// Panics: if there is no such address space. Inserts panic where the nodes are used up.
    pub fn with_nodes(nodes: usize, huge_pages: bool) -> Self {
        Tree { core: Core::with_nodes(nodes, huge_pages), access: A::default() }
    }
}

impl<A: Access + Default> Default for Tree<A> {
    fn default() -> Self {
        Tree::with_nodes(NODES_DEFAULT, true)
    }
}

impl<A: Access> Tree<A> {
    /// Does one thing.
    #[inline]
    pub fn run(&self, operation: Operation) -> Outcome {
        let leaf = self.core.descend(&self.access, operation.key(), 0);
        self.core.apply(&self.access, leaf, operation)
    }

    /// Adds an entry; `false`, and nothing happens, if the key is there.
    #[inline]
    pub fn insert(&self, key: u64, value: u64) -> bool {
        self.run(Operation::Insert(key, value)) == Outcome::Inserted
    }

    /// Replaces a value, and returns the old one; nothing happens if the key is not there.
    #[inline]
    pub fn update(&self, key: u64, value: u64) -> Option<u64> {
        let leaf = self.core.descend(&self.access, key, 0);
        self.core.update_from(&self.access, leaf, key, value)
    }

    /// Removes an entry and returns its value.
    #[inline]
    pub fn delete(&self, key: u64) -> Option<u64> {
        let leaf = self.core.descend(&self.access, key, 0);
        self.core.delete_from(&self.access, leaf, key)
    }

    /// Value of a key.
    #[inline]
    pub fn lookup(&self, key: u64) -> Option<u64> {
        let leaf = self.core.descend(&self.access, key, 0);
        self.core.lookup_from(&self.access, leaf, key)
    }

    /// Calls `entry` for the entries of `range` in order of keys, until that says `false`.
    ///
    /// Each leaf is read as of one moment, different leaves as of different ones. Entries that are
    /// there all the time come exactly once.
    pub fn range(&self, range: RangeInclusive<u64>, entry: impl FnMut(u64, u64) -> bool) {
        self.core.range(&self.access, range, entry);
    }

    /// Runs `operations` with up to `WIDTH` of them in flight on this thread: while one waits for
    /// its next node's cache lines, the others are worked on. Calls `done` with each one's place
    /// in the sequence and outcome, in the order in which they end.
    ///
    /// Operations on the same key in one call may take effect in any order.
    pub fn interleave<const WIDTH: usize>(
        &self,
        operations: impl IntoIterator<Item = Operation>,
        done: impl FnMut(usize, Outcome),
    ) {
        self.core.interleave::<WIDTH>(&self.access, operations, done);
    }

    /// Panics unless the invariants of [`crate::node`] hold and every node is known to its parent.
    /// Returns the number of entries. O(entries). Nobody may change the tree meanwhile.
    pub fn check(&self) -> usize {
        self.core.check()
    }

    /// Nodes in use.
    pub fn node_count(&self) -> usize {
        self.core.node_count()
    }
}

/// A tree that only its owner changes: no latch anywhere. Methods as those of [`Tree`].
#[derive(Default)]
pub struct ExclusiveTree(Tree<latch::Unlatched>);

impl ExclusiveTree {
    /// As [`Tree::with_nodes`].
    pub fn with_nodes(nodes: usize, huge_pages: bool) -> Self {
        ExclusiveTree(Tree::with_nodes(nodes, huge_pages))
    }

    /// As [`Tree::run`].
    #[inline]
    pub fn run(&mut self, operation: Operation) -> Outcome {
        self.0.run(operation)
    }

    /// As [`Tree::insert`].
    #[inline]
    pub fn insert(&mut self, key: u64, value: u64) -> bool {
        self.0.insert(key, value)
    }

    /// As [`Tree::update`].
    #[inline]
    pub fn update(&mut self, key: u64, value: u64) -> Option<u64> {
        self.0.update(key, value)
    }

    /// As [`Tree::delete`].
    #[inline]
    pub fn delete(&mut self, key: u64) -> Option<u64> {
        self.0.delete(key)
    }

    /// As [`Tree::lookup`].
    #[inline]
    pub fn lookup(&self, key: u64) -> Option<u64> {
        self.0.lookup(key)
    }

    /// As [`Tree::range`].
    pub fn range(&self, range: RangeInclusive<u64>, entry: impl FnMut(u64, u64) -> bool) {
        self.0.range(range, entry);
    }

    /// As [`Tree::interleave`].
    pub fn interleave<const WIDTH: usize>(
        &mut self,
        operations: impl IntoIterator<Item = Operation>,
        done: impl FnMut(usize, Outcome),
    ) {
        self.0.interleave::<WIDTH>(operations, done);
    }

    /// As [`Tree::check`].
    pub fn check(&self) -> usize {
        self.0.check()
    }

    /// As [`Tree::node_count`].
    pub fn node_count(&self) -> usize {
        self.0.node_count()
    }
}

impl Core {
    /// Does one thing at leaf `id` or to its right.
    #[inline(always)]
    fn apply(&self, by: &impl Access, id: node::NodeId, operation: Operation) -> Outcome {
        match operation {
            Operation::Insert(key, value) if self.insert_from(by, id, key, value) => {
                Outcome::Inserted
            }
            Operation::Insert(..) => Outcome::Present,
            Operation::Update(key, value) => self.update_from(by, id, key, value).into(),
            Operation::Delete(key) => self.delete_from(by, id, key).into(),
            Operation::Lookup(key) => self.lookup_from(by, id, key).into(),
        }
    }
}
