//! The one node layout of all five trees, and what can be done to a single node.
//!
//! A node of level 0 is a *leaf*: its entries are (key, value). A node above is *inner*: entry
//! (key, child) says that keys from `key` up to the next entry's key lie below `child`. Entries
//! are sorted, and an inner node's first key is the lowest key the node may hold, so finding a
//! child and inserting a separator are the operations of a leaf. Lehman and Yao's two additions:
//! the *high key*, here the largest key that the node may hold, and the *right link*.
//!
//! Invariants, checked by [`crate::Tree::check`] once nobody changes the tree:
//! 1. `count <= CAPACITY`, keys strictly ascending, all of them `<= high`.
//! 2. Key slots from `count` on hold `u64::MAX`, so that a search needs no count.
//! 3. The right neighbour's keys are all `> high`; only the last node of a level has
//!    `high == u64::MAX`, and only that one has no right link.
//!
//! Threads: every word is an atomic read and written `Relaxed`. Nothing here synchronises: who
//! may call what is the business of an [`crate::latch::Access`]. A reader under an optimistic latch
//! may see words of different moments; every function here ends and stays in bounds on such a
//! mixture, and its result is thrown away.
//! Source: Lehman and Yao, TODS 6(4), 1981; `[mxkernel]` §4.2 for the use with tasks.

use halcyon_base::sync::atomic::{AtomicU64, Ordering::Relaxed};
use halcyon_task::Version;

/// Bytes of a node. Found by measurement, docs/tree.md.
pub const NODE_BYTES: usize = 512;
#[cfg(not(shuttle))]
const HEADER_BYTES: usize = 32;

/// Entries that a node can hold. Tiny under the model checker, so that few inserts split.
#[cfg(not(shuttle))]
pub const CAPACITY: usize = (NODE_BYTES - HEADER_BYTES) / 16;
/// As above.
#[cfg(shuttle)]
pub const CAPACITY: usize = 4;

/// A node of a tree: its index in the tree's region.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// No node; what the right link of a level's last node holds.
pub const NONE: NodeId = NodeId(u32::MAX);

/// One node; see the module's head.
#[repr(C, align(64))]
pub struct Node {
    /// For optimistic readers, and for writers by version or by scheduling.
    pub version: Version,
    /// For those who latch: see [`crate::latch`].
    pub latch: AtomicU64,
    high: AtomicU64,
    /// From the low end: count (16 bits), level (16 bits), right link (32 bits).
    shape: AtomicU64,
    keys: [AtomicU64; CAPACITY],
    values: [AtomicU64; CAPACITY],
}

#[cfg(not(shuttle))]
const _: () = assert!(size_of::<Node>() == NODE_BYTES);

/// Where a search goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The key lies beyond the high key: the node was split.
    Right(NodeId),
    /// The key lies below this child.
    Down(NodeId),
    /// The node is the one of the wanted level that the key belongs to.
    Here,
}

/// What an insert found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted {
    /// The key was new and is there now.
    New,
    /// The key was there; nothing has changed.
    Present,
    /// The key is new, but the node has no room; nothing has changed.
    Full,
}

/// A split node's new right neighbour, which its parent does not know yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Separator {
    /// Lowest key that the new node may hold.
    pub key: u64,
    /// The new node.
    pub node: NodeId,
    /// Level of both.
    pub level: u32,
}

impl Node {
    /// What a region holds before it is used; equal to zeroed memory.
    #[cfg(any(shuttle, miri, test))]
    pub fn zeroed() -> Node {
        Node {
            version: Version::new(),
            latch: AtomicU64::new(0),
            high: AtomicU64::new(0),
            shape: AtomicU64::new(0),
            keys: std::array::from_fn(|_| AtomicU64::new(0)),
            values: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Makes this an empty node. The caller alone may know it.
    pub fn initialise(&self, level: u32, high: u64, right: NodeId) {
        self.shape.store(u64::from(right.0) << 32 | u64::from(level) << 16, Relaxed);
        self.high.store(high, Relaxed);
        for key in &self.keys {
            key.store(u64::MAX, Relaxed);
        }
    }

    /// Number of entries; at most [`CAPACITY`], whatever a racing writer does.
    #[inline(always)]
    pub fn count(&self) -> usize {
        (self.shape.load(Relaxed) as u16 as usize).min(CAPACITY)
    }

    #[inline(always)]
    fn set_count(&self, count: usize) {
        let rest = self.shape.load(Relaxed) >> 16 << 16;
        self.shape.store(rest | count as u64, Relaxed);
    }

    /// 0 for a leaf.
    #[inline(always)]
    pub fn level(&self) -> u32 {
        u32::from((self.shape.load(Relaxed) >> 16) as u16)
    }

    /// Largest key that may be here.
    #[inline(always)]
    pub fn high(&self) -> u64 {
        self.high.load(Relaxed)
    }

    /// Right neighbour or [`NONE`].
    #[inline(always)]
    pub fn right(&self) -> NodeId {
        NodeId((self.shape.load(Relaxed) >> 32) as u32)
    }

    /// Key of entry `at`.
    #[inline(always)]
    pub fn key(&self, at: usize) -> u64 {
        self.keys[at].load(Relaxed)
    }

    /// Value of entry `at`.
    #[inline(always)]
    pub fn value(&self, at: usize) -> u64 {
        self.values[at].load(Relaxed)
    }

    /// Child of entry `at`.
    #[inline(always)]
    pub fn child(&self, at: usize) -> NodeId {
        NodeId(self.value(at) as u32)
    }

    /// Number of keys `<= key`. A fixed number of steps without branches: mispredictions cost
    /// more than the compares they would save.
    #[inline(always)]
    pub fn rank(&self, key: u64) -> usize {
        let mut base = 0;
        let mut size = CAPACITY;
        while size > 1 {
            let half = size / 2;
            let upper = self.keys[base + half - 1].load(Relaxed) <= key;
            base = std::hint::select_unpredictable(upper, base + half, base);
            size -= half;
        }
        let rank = base + usize::from(self.keys[base].load(Relaxed) <= key);
        // Only for u64::MAX, which equals the padding.
        rank.min(self.count())
    }

    /// Where the search for `key` at `level` goes on from here.
    #[inline(always)]
    pub fn step(&self, key: u64, level: u32) -> Step {
        if key > self.high() {
            return Step::Right(self.right());
        }
        if self.level() <= level {
            return Step::Here;
        }
        // A torn read may find no key at all; entry 0 is as good as any.
        Step::Down(self.child(self.rank(key).saturating_sub(1)))
    }

    /// Position of `key`, or where it would be.
    #[inline(always)]
    fn find(&self, key: u64) -> Result<usize, usize> {
        let rank = self.rank(key);
        if rank > 0 && self.key(rank - 1) == key { Ok(rank - 1) } else { Err(rank) }
    }

    /// Value of `key`.
    #[inline(always)]
    pub fn lookup(&self, key: u64) -> Option<u64> {
        self.find(key).ok().map(|at| self.value(at))
    }

    /// Adds an entry unless its key is there or the node is full.
    #[inline(always)]
    pub fn insert(&self, key: u64, value: u64) -> Inserted {
        let Err(at) = self.find(key) else { return Inserted::Present };
        let count = self.count();
        if count == CAPACITY {
            return Inserted::Full;
        }
        self.insert_at(at, count, key, value);
        Inserted::New
    }

    #[inline(always)]
    fn insert_at(&self, at: usize, count: usize, key: u64, value: u64) {
        let mut to = count.min(CAPACITY - 1);
        while to > at {
            self.keys[to].store(self.keys[to - 1].load(Relaxed), Relaxed);
            self.values[to].store(self.values[to - 1].load(Relaxed), Relaxed);
            to -= 1;
        }
        self.keys[at].store(key, Relaxed);
        self.values[at].store(value, Relaxed);
        self.set_count(count + 1);
    }

    /// Replaces the value of `key` and returns the old one; nothing happens if it is not here.
    #[inline(always)]
    pub fn update(&self, key: u64, value: u64) -> Option<u64> {
        let at = self.find(key).ok()?;
        let old = self.value(at);
        self.values[at].store(value, Relaxed);
        Some(old)
    }

    /// Removes `key` and returns its value. The node may become empty; it stays.
    #[inline(always)]
    pub fn delete(&self, key: u64) -> Option<u64> {
        let at = self.find(key).ok()?;
        let old = self.value(at);
        let count = self.count();
        for to in at..count - 1 {
            self.keys[to].store(self.keys[to + 1].load(Relaxed), Relaxed);
            self.values[to].store(self.values[to + 1].load(Relaxed), Relaxed);
        }
        self.keys[count - 1].store(u64::MAX, Relaxed);
        self.set_count(count - 1);
        Some(old)
    }

    /// Moves the upper half of this full node to `right`, which nobody else knows yet, and inserts
    /// the entry that did not fit. A key behind the last one of the whole level moves nothing:
    /// ascending inserts leave full nodes behind.
    ///
    /// Panics: if the node is not full.
    pub fn split(&self, right: &Node, right_id: NodeId, key: u64, value: u64) -> Separator {
        assert!(self.count() == CAPACITY, "only a full node is split");
        let appended = self.right() == NONE && key > self.key(CAPACITY - 1);
        let keep = if appended { CAPACITY } else { CAPACITY / 2 };
        let low = if appended { key } else { self.key(keep) };
        right.initialise(self.level(), self.high(), self.right());
        for from in keep..CAPACITY {
            right.keys[from - keep].store(self.key(from), Relaxed);
            right.values[from - keep].store(self.value(from), Relaxed);
            self.keys[from].store(u64::MAX, Relaxed);
        }
        right.set_count(CAPACITY - keep);
        let (level, link) = (u64::from(self.level()), u64::from(right_id.0));
        self.shape.store(link << 32 | level << 16 | keep as u64, Relaxed);
        self.high.store(low - 1, Relaxed);
        let target = if key >= low { right } else { self };
        let inserted = target.insert(key, value);
        assert!(inserted == Inserted::New, "half a node has room, and the key is new");
        Separator { key: low, node: right_id, level: self.level() }
    }

    /// Makes this new node the root over `left` and its new right neighbour.
    pub fn become_root(&self, left: NodeId, separator: Separator) {
        self.initialise(separator.level + 1, u64::MAX, NONE);
        self.insert_at(0, 0, 0, u64::from(left.0));
        self.insert_at(1, 1, separator.key, u64::from(separator.node.0));
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use halcyon_base::rng::Rng;

    fn leaf() -> Node {
        let node = Node::zeroed();
        node.initialise(0, u64::MAX, NONE);
        node
    }

    /// The slow twin of `rank`.
    fn rank_by_counting(node: &Node, key: u64) -> usize {
        (0..node.count()).filter(|&at| node.key(at) <= key).count()
    }

    #[test]
    fn rank_counts_keys_up_to_the_wanted_one() {
        let mut rng = Rng::new(1);
        let node = leaf();
        let mut keys: Vec<u64> = (0..CAPACITY as u64 - 2).map(|_| rng.below(100) * 3).collect();
        keys.extend([0, u64::MAX]);
        for key in keys {
            let expected =
                if node.lookup(key).is_some() { Inserted::Present } else { Inserted::New };
            assert_eq!(node.insert(key, key + u64::from(key == 0)), expected);
            for probe in (0..310).chain([u64::MAX - 1, u64::MAX]) {
                assert_eq!(node.rank(probe), rank_by_counting(&node, probe), "{probe}");
            }
        }
    }

    #[test]
    fn full_node_keeps_its_entries_when_split() {
        for key in [1, 31, 1000] {
            let (left, right) = (leaf(), leaf());
            for at in 0..CAPACITY as u64 {
                assert_eq!(left.insert(at * 2, at), Inserted::New);
            }
            assert_eq!(left.insert(key, 7), Inserted::Full);
            let separator = left.split(&right, NodeId(9), key, 7);
            assert_eq!((left.right(), left.high() + 1), (NodeId(9), separator.key));
            assert_eq!(left.count() + right.count(), CAPACITY + 1);
            let side = if key >= separator.key { &right } else { &left };
            assert_eq!(side.lookup(key), Some(7));
            assert_eq!(right.key(0), separator.key);
            let appended = key == 1000;
            assert_eq!(left.count() == CAPACITY, appended);
        }
    }

    #[test]
    fn deleted_entries_leave_padding() {
        let node = leaf();
        for key in 0..CAPACITY as u64 {
            node.insert(key, key * 10);
        }
        for key in (0..CAPACITY as u64).rev().step_by(2) {
            assert_eq!(node.delete(key), Some(key * 10));
            assert_eq!(node.delete(key), None);
            assert_eq!(node.rank(u64::MAX), node.count());
            assert_eq!(node.key(CAPACITY - 1), u64::MAX);
        }
        assert_eq!(node.update(0, 5), Some(0));
        assert_eq!(node.lookup(0), Some(5));
    }
}
