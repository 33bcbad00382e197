//! The tree itself, once for every way of protecting nodes.
//!
//! Words: to *post* a separator is to tell the parent of a split node about its new neighbour.
//! Lehman and Yao's protocol with one latch at a time: a node is split under its own latch, and
//! from then on its high key and right link lead everybody to the new node, so the separator is
//! posted after the latch was given back. Separators may arrive in another order than their nodes
//! were split; the right links bridge the gap.
//!
//! Only the root's split needs care: the new root is installed before the old one's latch is given
//! back, so a split that has to post a separator finds the level to post it to.
//!
//! We differ from the paper: no stack of parents is kept on the way down. A split is one in a
//! dozen inserts, and finding the parent again from the root reads nodes that are still in the
//! cache. As in the paper, deletes leave nodes as they are, also empty ones: nodes live as long as
//! the tree, which is why readers need no protection from reclamation.

use std::ops::RangeInclusive;

use halcyon_base::sync::atomic::{AtomicU64, Ordering::*};

use crate::latch::Access;
use crate::node::{CAPACITY, Inserted, NONE, Node, NodeId, Separator, Step};
use crate::planted;
use crate::region::Region;

/// Address space of a tree unless asked otherwise: 2^27 nodes of 512 bytes.
#[cfg(not(any(shuttle, miri)))]
pub const NODES_DEFAULT: usize = 1 << 27;
/// As above: where nodes are made one by one, few of them.
#[cfg(any(shuttle, miri))]
pub const NODES_DEFAULT: usize = 4096;

/// A B-link tree without protection: each method is told how nodes are protected (`by`).
pub(crate) struct Core {
    /// Root's id in the low half, its level above.
    root: AtomicU64,
    nodes: Region,
    /// Nodes handed out. On a cache line of its own would be better only with many splitters.
    used: AtomicU64,
}

/// What to do after a node was visited with a change.
pub(crate) enum Change<R> {
    /// Done.
    Done(R),
    /// The key lies to the right.
    Right(NodeId),
    /// Done, and a neighbour is to be made known above.
    Split(R, Separator),
}

impl Core {
    /// An empty tree of at most `nodes` nodes, with huge pages below it if the kernel gives them.
    ///
    /// Panics: if there is no such address space.
    pub(crate) fn with_nodes(nodes: usize, huge_pages: bool) -> Self {
        let core = Core {
            root: AtomicU64::new(0),
            nodes: Region::new(nodes.min(NONE.0 as usize), huge_pages),
            used: AtomicU64::new(1),
        };
        core.nodes[0].initialise(0, u64::MAX, NONE);
        core
    }

    /// The node of an id.
    #[inline(always)]
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// Root and its level.
    #[inline(always)]
    pub(crate) fn root(&self) -> (NodeId, u32) {
        // Pairs with the Release in `grow`: the new root's entries are visible.
        let root = self.root.load(Acquire);
        (NodeId(root as u32), (root >> 32) as u32)
    }

    /// Nodes in use.
    pub(crate) fn node_count(&self) -> usize {
        self.used.load(Relaxed) as usize
    }

    /// Panics: if the tree was made for fewer nodes.
    fn allocate(&self) -> NodeId {
        let id = self.used.fetch_add(1, Relaxed);
        assert!((id as usize) < self.nodes.len(), "the tree is full: {} nodes", self.nodes.len());
        NodeId(id as u32)
    }

    /// One visit on the way to `key` at `level`.
    #[inline(always)]
    pub(crate) fn visit(&self, by: &impl Access, id: NodeId, key: u64, level: u32) -> Step {
        by.read(self.node(id), |node| match node.step(key, level) {
            Step::Right(_) if planted::is(planted::NO_RIGHT_MOVE) => Step::Here,
            step => step,
        })
    }

    /// The node of `level` that held `key` when it was visited; it may have been split since.
    #[inline(always)]
    pub(crate) fn descend(&self, by: &impl Access, key: u64, level: u32) -> NodeId {
        let mut id = self.root().0;
        loop {
            match self.visit(by, id, key, level) {
                Step::Here => return id,
                Step::Right(next) | Step::Down(next) => id = next,
            }
        }
    }

    /// Lookup in the leaf `id` or, if that was split, to its right.
    #[inline(always)]
    pub(crate) fn lookup_from(&self, by: &impl Access, mut id: NodeId, key: u64) -> Option<u64> {
        loop {
            let found = by.read(self.node(id), |node| {
                if key > node.high() && !planted::is(planted::NO_RIGHT_MOVE) {
                    Err(node.right())
                } else {
                    Ok(node.lookup(key))
                }
            });
            match found {
                Ok(value) => return value,
                Err(right) => id = right,
            }
        }
    }

    /// Changes the node of `id`'s level that `key` belongs to: `id` or one to its right.
    #[inline(always)]
    fn change<R>(
        &self,
        by: &impl Access,
        mut id: NodeId,
        key: u64,
        change: impl Fn(&Node) -> R,
    ) -> R {
        loop {
            match self.change_one(by, id, key, |node| Change::Done(change(node))) {
                Change::Done(result) | Change::Split(result, _) => return result,
                Change::Right(right) => id = right,
            }
        }
    }

    /// Changes node `id` if `key` belongs to it.
    #[inline(always)]
    pub(crate) fn change_one<R>(
        &self,
        by: &impl Access,
        id: NodeId,
        key: u64,
        change: impl FnOnce(&Node) -> Change<R>,
    ) -> Change<R> {
        by.write(id, self.node(id), |node| {
            if key > node.high() { Change::Right(node.right()) } else { change(node) }
        })
    }

    /// Inserts into node `id` if `key` belongs to it, splitting it if it is full. The result says
    /// whether the key was new.
    #[inline(always)]
    pub(crate) fn insert_one(
        &self,
        by: &impl Access,
        id: NodeId,
        key: u64,
        value: u64,
    ) -> Change<bool> {
        let outcome = self.change_one(by, id, key, |node| match node.insert(key, value) {
            Inserted::New => Change::Done(true),
            Inserted::Present => Change::Done(false),
            Inserted::Full => self.split(id, node, key, value),
        });
        match outcome {
            // Only with the bug planted: the root is replaced when others may have seen the split.
            Change::Split(true, separator)
                if planted::is(planted::LATE_ROOT) && self.root().0 == id =>
            {
                self.grow(id, separator);
                Change::Done(true)
            }
            outcome => outcome,
        }
    }

    #[cold]
    fn split(&self, id: NodeId, node: &Node, key: u64, value: u64) -> Change<bool> {
        let right = self.allocate();
        let separator = node.split(self.node(right), right, key, value);
        // Nobody else replaces the root while we hold the root's latch.
        if self.root().0 == id && !planted::is(planted::LATE_ROOT) {
            self.grow(id, separator);
            return Change::Done(true);
        }
        Change::Split(true, separator)
    }

    fn grow(&self, old: NodeId, separator: Separator) {
        let root = self.allocate();
        self.node(root).become_root(old, separator);
        self.root.store(u64::from(root.0) | u64::from(separator.level + 1) << 32, Release);
    }

    /// Inserts at `id` or to its right, and posts what that splits.
    #[inline(always)]
    pub(crate) fn insert_from(
        &self,
        by: &impl Access,
        mut id: NodeId,
        key: u64,
        value: u64,
    ) -> bool {
        loop {
            match self.insert_one(by, id, key, value) {
                Change::Done(new) => return new,
                Change::Right(right) => id = right,
                Change::Split(new, separator) => {
                    self.post(by, separator);
                    return new;
                }
            }
        }
    }

    /// Tells the level above about a split.
    #[cold]
    pub(crate) fn post(&self, by: &impl Access, mut separator: Separator) {
        loop {
            let level = separator.level + 1;
            let mut id = self.descend(by, separator.key, level);
            let above = loop {
                match self.insert_one(by, id, separator.key, u64::from(separator.node.0)) {
                    Change::Done(_) => return,
                    Change::Right(right) => id = right,
                    Change::Split(_, above) => break above,
                }
            };
            separator = above;
        }
    }

    /// Update at leaf `id` or to its right.
    #[inline(always)]
    pub(crate) fn update_from(
        &self,
        by: &impl Access,
        id: NodeId,
        key: u64,
        value: u64,
    ) -> Option<u64> {
        self.change(by, id, key, |node| node.update(key, value))
    }

    /// Delete at leaf `id` or to its right.
    #[inline(always)]
    pub(crate) fn delete_from(&self, by: &impl Access, id: NodeId, key: u64) -> Option<u64> {
        self.change(by, id, key, |node| node.delete(key))
    }

    /// Calls `entry` for the entries of `range` in order of keys, until that says `false`.
    ///
    /// Each leaf is read as of one moment, different leaves as of different ones. Entries that are
    /// there all the time come exactly once.
    pub(crate) fn range(
        &self,
        by: &impl Access,
        range: RangeInclusive<u64>,
        mut entry: impl FnMut(u64, u64) -> bool,
    ) {
        let (mut from, to) = range.into_inner();
        if from > to {
            return;
        }
        let mut id = self.descend(by, from, 0);
        loop {
            let leaf = by.read(self.node(id), |node| Leaf::copy(node, from, to));
            for &(key, value) in &leaf.entries[..leaf.count] {
                if !entry(key, value) {
                    return;
                }
            }
            if leaf.high >= to || leaf.right == NONE {
                return;
            }
            from = from.max(leaf.high + 1);
            id = leaf.right;
        }
    }

    /// Panics unless the invariants of [`crate::node`] hold and every node is known to its parent.
    /// Returns the number of entries. O(entries). Nobody may change the tree meanwhile.
    pub(crate) fn check(&self) -> usize {
        let (mut first, mut level) = self.root();
        assert_eq!(self.node(first).right(), NONE, "the root has no neighbour");
        assert_eq!(self.node(first).high(), u64::MAX);
        let mut reached = 0;
        loop {
            let (entries, nodes) = self.check_level(first, level);
            reached += nodes;
            if level == 0 {
                // A root that was installed late would leave nodes that no level holds.
                assert_eq!(reached, self.node_count(), "every node is reached from the left");
                return entries;
            }
            first = self.node(first).child(0);
            level -= 1;
        }
    }

    /// Entries and nodes of a level; each child must be linked from its left neighbour.
    fn check_level(&self, first: NodeId, level: u32) -> (usize, usize) {
        let (mut id, mut entries, mut nodes, mut low) = (first, 0, 0, 0);
        let mut child = (level > 0).then(|| self.node(first).child(0));
        loop {
            let node = self.node(id);
            assert_eq!(node.latch.load(Acquire), 0, "{id:?} is latched");
            assert!(node.version.begin().is_ok(), "{id:?} is being changed");
            assert_eq!(node.level(), level, "{id:?}");
            let count = node.count();
            assert!(count <= CAPACITY);
            for at in 0..count {
                let key = node.key(at);
                assert!(key <= node.high(), "{id:?}: key {key} is above the high key");
                assert!(key >= low, "{id:?}: key {key} is below the lowest key {low}");
                assert!(at == 0 || node.key(at - 1) < key, "{id:?} is not sorted");
                if level > 0 {
                    let named = node.child(at);
                    assert_eq!(child, Some(named), "{id:?} knows its children in order");
                    let next = at + 1 < count;
                    let high = if next { node.key(at + 1) - 1 } else { node.high() };
                    assert_eq!(self.node(named).high(), high, "{id:?}: separator and high key");
                    child = Some(self.node(named).right());
                }
            }
            assert!((count..CAPACITY).all(|at| node.key(at) == u64::MAX), "{id:?} has no padding");
            assert!(level == 0 || (count > 0 && node.key(0) == low), "{id:?} starts at {low}");
            entries += count;
            nodes += 1;
            if node.right() == NONE {
                assert_eq!(node.high(), u64::MAX, "{id:?} is the last of its level");
                return (entries, nodes);
            }
            low = node.high() + 1;
            id = node.right();
        }
    }
}

/// What a range reads of one leaf.
struct Leaf {
    entries: [(u64, u64); CAPACITY],
    count: usize,
    high: u64,
    right: NodeId,
}

impl Leaf {
    #[inline(always)]
    fn copy(node: &Node, from: u64, to: u64) -> Leaf {
        let mut leaf =
            Leaf { entries: [(0, 0); CAPACITY], count: 0, high: node.high(), right: node.right() };
        for at in 0..node.count() {
            let key = node.key(at);
            if key >= from && key <= to {
                leaf.entries[leaf.count] = (key, node.value(at));
                leaf.count += 1;
            }
        }
        leaf
    }
}
