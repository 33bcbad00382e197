//! B+trees whose inner nodes know the sums of their children; all trees of one map share their
//! memory.
//!
//! Keys are words that compare as unsigned numbers, from the first word on (`Value::put_ordered`).
//! Inner sums wrap around. [`Trees::add`] bounds the sum of the absolute values of all entries by
//! what a component can hold, so that no sum over a range overflows.
//!
//! Words: *slots* of a node are its entries or children. The *separator* of a child is at most the
//! child's smallest key, and above all keys before that child; the separator of a node's first
//! child is zero.
//!
//! Invariants, all checked by [`Trees::check`]:
//! 1. Every node but a root has [`SLOTS_MIN`] to [`SLOTS`] slots; all leaves of a tree are equally
//!    deep.
//! 2. Keys ascend, separators separate; in the places behind a node's slots stands the highest
//!    possible key.
//! 3. The row of a child in an inner node is the sum over the children before it; no entry is zero.
//! 4. Leaves of a tree are linked in the order of their keys.
//!
//! A search looks at the same number of places in every node, whether they are slots or not, and
//! rows of inner nodes are sums up to a child: both avoid loops of varying length, whose ends a
//! processor mispredicts.
//!
//! Cost: O(log n) for everything; at most one split or merge per level and change.
//! Source: Abeysinghe, He, Rompf, "Efficient incrementialization of correlated nested aggregate
//! queries using relative partial aggregate indexes (RPAI)", SIGMOD 2022; over a B+tree.

use alloc::vec;
use alloc::vec::Vec;

use super::shape::{Shape, is_zero, same};
use super::slab::Slab;
use super::sums::Sums;
use crate::error::EvalError;
use crate::program::Component;

/// Slots of a node.
const SLOTS: usize = 16;
/// Fewest slots of a node that is not the root.
const SLOTS_MIN: usize = 4;
/// Two neighbours become one node if together they have no more slots than this.
const SLOTS_MERGED: usize = 12;
/// Words before the keys: number of slots; in leaves the next leaf plus one.
const HEAD: usize = 2;
/// The most levels of a tree of 2³² entries, since every node has at least [`SLOTS_MIN`] slots.
const LEVELS_MAX: usize = 17;

/// The path to a leaf, starting with the level above the leaf: inner node and slot.
type Path = [(u32, u32); LEVELS_MAX];

/// Trees over common memory, all of one shape.
#[derive(Debug)]
pub struct Trees<S> {
    shape: S,
    sums: Sums,
    leaves: Slab,
    inners: Slab,
    /// Number of entries of all trees.
    len: usize,
    /// For each component, the sum of the absolute values in all trees.
    magnitudes: Vec<u128>,
}

/// A tree: its topmost node, and its height.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Root {
    /// Number of the topmost node: a leaf at height 0, an inner node above.
    pub node: usize,
    /// Number of levels of inner nodes.
    pub height: usize,
}

/// The position of an enumeration of a tree: leaf plus one, slot.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeafPosition {
    /// The leaf plus one; zero at the end.
    pub leaf: usize,
    /// The slot.
    pub slot: usize,
}

#[inline(always)]
pub fn less(a: &[u64], b: &[u64], words: usize) -> bool {
    let (a, b) = (&a[..words], &b[..words]);
    if words == 2 {
        // One comparison with borrow; comparing word by word would take three flags.
        let pair = |key: &[u64]| u128::from(key[0]) << 64 | u128::from(key[1]);
        return pair(a) < pair(b);
    }
    let mut is_less = false;
    for word in (0..words).rev() {
        is_less = (a[word] < b[word]) | ((a[word] == b[word]) & is_less);
    }
    is_less
}

/// A node's words; the compiler knows the width if it knows that of entries.
#[inline(always)]
pub fn piece<S: Shape>(nodes: &Slab, number: usize, width: usize) -> &[u64] {
    if S::KNOWN { nodes.piece_of(number, width) } else { nodes.piece(number) }
}

/// A node's words, to be written.
#[inline(always)]
pub fn piece_mut<S: Shape>(nodes: &mut Slab, number: usize, width: usize) -> &mut [u64] {
    if S::KNOWN { nodes.piece_of_mut(number, width) } else { nodes.piece_mut(number) }
}

/// Moves words one by one, which is best for a few of them.
#[inline(always)]
fn move_words(words: &mut [u64], from: usize, to: usize, count: usize) {
    for word in 0..count {
        words[to + word] = words[from + word];
    }
}

impl<S: Shape> Trees<S> {
    /// Makes the memory of trees, of which there are none yet; a shape's value is the payload.
    pub fn new(shape: S, components: &[Component]) -> Self {
        let slot = shape.entry();
        Trees {
            shape,
            sums: Sums::new(components),
            leaves: Slab::new(HEAD + SLOTS * slot),
            inners: Slab::new(HEAD + SLOTS * (slot + 1)),
            len: 0,
            magnitudes: vec![0; components.len()],
        }
    }

    /// Makes an empty tree.
    pub fn plant(&mut self) -> Root {
        let node = self.leaves.allocate();
        let leaf = self.leaves.piece_mut(node);
        leaf[..HEAD].fill(0);
        leaf[HEAD..HEAD + SLOTS * self.shape.key()].fill(u64::MAX);
        Root { node, height: 0 }
    }

    /// Frees the memory of an empty tree.
    pub fn fell(&mut self, root: Root) {
        self.leaves.free(root.node);
    }

    /// Widths of keys and payloads.
    #[inline(always)]
    pub fn shape(&self) -> S {
        self.shape
    }

    /// The components of payloads.
    #[inline(always)]
    pub fn sums(&self) -> &Sums {
        &self.sums
    }

    /// Whether a tree has no entry.
    #[inline(always)]
    pub fn is_empty(&self, root: Root) -> bool {
        root.height == 0 && self.leaf(root.node)[0] == 0
    }

    #[inline(always)]
    fn leaf(&self, number: usize) -> &[u64] {
        piece::<S>(&self.leaves, number, HEAD + SLOTS * self.shape.entry())
    }

    #[inline(always)]
    fn inner(&self, number: usize) -> &[u64] {
        piece::<S>(&self.inners, number, HEAD + SLOTS * (self.shape.entry() + 1))
    }

    #[inline(always)]
    fn key_at(&self, slot: usize) -> usize {
        HEAD + slot * self.shape.key()
    }

    #[inline(always)]
    fn row_at(&self, slot: usize) -> usize {
        HEAD + SLOTS * self.shape.key() + slot * self.shape.value()
    }

    #[inline(always)]
    fn child_at(&self, slot: usize) -> usize {
        HEAD + SLOTS * self.shape.entry() + slot
    }

    #[inline(always)]
    fn key<'a>(&self, node: &'a [u64], slot: usize) -> &'a [u64] {
        &node[self.key_at(slot)..][..self.shape.key()]
    }

    #[inline(always)]
    fn row<'a>(&self, node: &'a [u64], slot: usize) -> &'a [u64] {
        &node[self.row_at(slot)..][..self.shape.value()]
    }

    /// Number of places of a node whose keys are below `key`; with `equal`, also of those that
    /// equal it.
    #[inline(always)]
    fn count(&self, node: &[u64], key: &[u64], equal: bool) -> usize {
        const STEP: usize = 4;
        let words = self.shape.key();
        let keys = &node[HEAD..HEAD + SLOTS * words];
        let mut start = 0;
        for group in 1..SLOTS / STEP {
            let each = &keys[(group * STEP - 1) * words..][..words];
            start += if equal { !less(key, each, words) } else { less(each, key, words) } as usize;
        }
        let mut count = start * STEP;
        let group = &keys[start * STEP * words..][..STEP * words];
        for place in 0..STEP {
            let each = &group[place * words..][..words];
            count += if equal { !less(key, each, words) } else { less(each, key, words) } as usize;
        }
        count
    }

    /// Number of slots of a leaf whose keys are below `key`.
    #[inline(always)]
    fn count_below(&self, leaf: &[u64], key: &[u64]) -> usize {
        self.count(leaf, key, false)
    }

    /// The child in which a key belongs.
    #[inline(always)]
    fn child_of(&self, node: &[u64], key: &[u64]) -> usize {
        // The first separator is zero, so the count is at least one; for the highest key it
        // includes the places without a slot.
        self.count(node, key, true).min(node[0] as usize) - 1
    }

    /// The last child that may have keys below a key; the last one of all without a key.
    #[inline(always)]
    fn child_below(&self, node: &[u64], key: Option<&[u64]>) -> usize {
        match key {
            None => node[0] as usize - 1,
            Some(key) => self.count(node, key, false).saturating_sub(1),
        }
    }

    /// Returns the leaf in which a key belongs, and puts the path to the leaf into `path`.
    #[inline(always)]
    fn descend(&self, root: Root, key: &[u64], path: &mut Path) -> usize {
        let mut node = root.node;
        for level in (1..=root.height).rev() {
            let inner = self.inner(node);
            let slot = self.child_of(inner, key);
            path[level - 1] = (node as u32, slot as u32);
            node = inner[self.child_at(slot)] as usize;
        }
        node
    }

    /// The leaf in which a key belongs.
    #[inline(always)]
    fn leaf_of(&self, root: Root, key: &[u64]) -> usize {
        let mut node = root.node;
        for _ in 0..root.height {
            let inner = self.inner(node);
            node = inner[self.child_at(self.child_of(inner, key))] as usize;
        }
        node
    }

    /// The payload of a key, if there is an entry.
    #[inline]
    pub fn get(&self, root: Root, key: &[u64]) -> Option<&[u64]> {
        let leaf = self.leaf(self.leaf_of(root, key));
        let slot = self.count_below(leaf, key);
        let found = slot < leaf[0] as usize && same(self.key(leaf, slot), key, self.shape.key());
        found.then(|| self.row(leaf, slot))
    }

    /// Adds to the payload of a key, and to the sum of the tree; an entry whose payload becomes
    /// zero is removed.
    ///
    /// Errors: overflow of the entry, or of the sum of the absolute values of all entries; nothing
    /// has changed then.
    #[inline(always)]
    pub fn add(
        &mut self,
        root: &mut Root,
        total: &mut [u64],
        key: &[u64],
        delta: &[u64],
    ) -> Result<(), EvalError> {
        let mut path = [(0, 0); LEVELS_MAX];
        let number = self.descend(*root, key, &mut path);
        let (shape, words) = (self.shape, self.shape.value());
        let delta = &delta[..words];
        let leaf = self.leaf(number);
        let slot = self.count_below(leaf, key);
        let found = slot < leaf[0] as usize && same(self.key(leaf, slot), key, shape.key());
        if !found {
            return self.add_new(root, total, (key, delta), &path, (number, slot));
        }
        let row_at = self.row_at(slot);
        let leaf = piece_mut::<S>(&mut self.leaves, number, HEAD + SLOTS * shape.entry());
        let old = &mut leaf[row_at..][..words];
        let mut row = shape.zero();
        let row = row.as_mut();
        row.copy_from_slice(old);
        shape.add(&self.sums, row, delta)?;
        if !shape.weigh(&self.sums, &mut self.magnitudes, Some(old), row) {
            return Err(EvalError::Overflow);
        }
        if !is_zero(row) {
            old.copy_from_slice(row);
            shape.accumulate(&self.sums, total, delta);
            self.spread(root.height, &path, delta, false);
        } else {
            // The change of the sums above: an entry that counts as zero goes with all that it had.
            row.copy_from_slice(old);
            shape.deduct(&self.sums, total, row);
            self.spread(root.height, &path, row, true);
            self.remove(root, &path, number, slot);
        }
        Ok(())
    }

    /// Adds an entry for a key that has none, at the place that [`Trees::add`] has found.
    fn add_new(
        &mut self,
        root: &mut Root,
        total: &mut [u64],
        (key, delta): (&[u64], &[u64]),
        path: &Path,
        (number, slot): (usize, usize),
    ) -> Result<(), EvalError> {
        if self.leaf(number)[0] as usize == SLOTS {
            self.split_way_to(root, key);
            return self.add(root, total, key, delta);
        }
        let shape = self.shape;
        let mut row = shape.zero();
        let row = row.as_mut();
        shape.add(&self.sums, row, delta)?;
        if is_zero(row) {
            return Ok(());
        }
        if !shape.weigh(&self.sums, &mut self.magnitudes, None, row) {
            return Err(EvalError::Overflow);
        }
        self.insert(number, slot, key, row);
        shape.accumulate(&self.sums, total, delta);
        self.spread(root.height, path, delta, false);
        Ok(())
    }

    /// Adds to the sums behind the path to a leaf, or subtracts from them.
    #[inline(always)]
    fn spread(&mut self, height: usize, path: &Path, row: &[u64], negative: bool) {
        let (shape, words) = (self.shape, self.shape.value());
        let rows = self.row_at(0)..self.row_at(SLOTS);
        let width = HEAD + SLOTS * (shape.entry() + 1);
        for (node, slot) in &path[..height] {
            let node = piece_mut::<S>(&mut self.inners, *node as usize, width);
            let (from, to) = (*slot as usize + 1, node[0] as usize);
            for sums in node[rows.clone()][from * words..to * words].chunks_exact_mut(words) {
                if negative {
                    shape.deduct(&self.sums, sums, row);
                } else {
                    shape.accumulate(&self.sums, sums, row);
                }
            }
        }
    }

    /// The number of slots, the keys and the rows of a leaf.
    #[inline(always)]
    fn leaf_parts(&mut self, number: usize) -> (&mut u64, &mut [u64], &mut [u64]) {
        let (key_words, words) = (SLOTS * self.shape.key(), SLOTS * self.shape.value());
        let leaf = piece_mut::<S>(&mut self.leaves, number, HEAD + key_words + words);
        let (head, slots) = leaf.split_at_mut(HEAD);
        let (keys, rows) = slots.split_at_mut(key_words);
        (&mut head[0], keys, rows)
    }

    /// Puts an entry into a leaf that has a free slot.
    #[inline(always)]
    fn insert(&mut self, number: usize, slot: usize, key: &[u64], row: &[u64]) {
        let (key_words, words) = (self.shape.key(), self.shape.value());
        let (count, keys, rows) = self.leaf_parts(number);
        // One loop moves keys and rows: calls that move a few words cost more than the words.
        for place in (slot..(*count as usize).min(SLOTS - 1)).rev() {
            move_words(keys, place * key_words, (place + 1) * key_words, key_words);
            move_words(rows, place * words, (place + 1) * words, words);
        }
        keys[slot * key_words..][..key_words].copy_from_slice(&key[..key_words]);
        rows[slot * words..][..words].copy_from_slice(row);
        *count += 1;
        self.len += 1;
    }

    /// Removes an entry from its leaf, and evens out nodes that have become too small.
    fn remove(&mut self, root: &mut Root, path: &Path, number: usize, slot: usize) {
        let (key_words, words) = (self.shape.key(), self.shape.value());
        let (count, keys, rows) = self.leaf_parts(number);
        let last = (*count as usize).min(SLOTS) - 1;
        for place in slot..last {
            move_words(keys, (place + 1) * key_words, place * key_words, key_words);
            move_words(rows, (place + 1) * words, place * words, words);
        }
        keys[last * key_words..][..key_words].fill(u64::MAX);
        *count = last as u64;
        self.len -= 1;
        let mut node = number;
        for (level, (parent, slot)) in path[..root.height].iter().copied().enumerate() {
            if self.nodes(level).piece(node)[0] as usize >= SLOTS_MIN {
                return;
            }
            let (parent, slot) = (parent as usize, slot as usize);
            let slots = self.inners.piece(parent)[0] as usize;
            self.even_out(level, parent, if slot + 1 < slots { slot } else { slot - 1 });
            node = parent;
        }
        while root.height > 0 && self.inners.piece(root.node)[0] == 1 {
            let node = root.node;
            root.node = self.inners.piece(node)[self.child_at(0)] as usize;
            self.inners.free(node);
            root.height -= 1;
        }
    }

    fn nodes(&mut self, level: usize) -> &mut Slab {
        if level == 0 { &mut self.leaves } else { &mut self.inners }
    }

    /// Moves the slots from `from` on to `to`, and sets the number of slots accordingly.
    fn shift(&mut self, level: usize, node: usize, from: usize, to: usize) {
        let (key_words, words) = (self.shape.key(), self.shape.value());
        let (key_from, key_to) = (self.key_at(from), self.key_at(to));
        let (row_from, row_to) = (self.row_at(from), self.row_at(to));
        let (child_from, child_to) = (self.child_at(from), self.child_at(to));
        let piece = self.nodes(level).piece_mut(node);
        let count = piece[0] as usize - from;
        piece.copy_within(key_from..key_from + count * key_words, key_to);
        piece.copy_within(row_from..row_from + count * words, row_to);
        if level > 0 {
            piece.copy_within(child_from..child_from + count, child_to);
        }
        self.set_count(level, node, count + to);
    }

    /// Sets the number of slots, and fills the places behind them with the highest key.
    fn set_count(&mut self, level: usize, node: usize, count: usize) {
        let (from, to) = (self.key_at(count), self.key_at(SLOTS));
        let piece = self.nodes(level).piece_mut(node);
        piece[0] = count as u64;
        piece[from..to].fill(u64::MAX);
    }

    /// Turns the rows of an inner node from sums over the children before each into sums of each
    /// child.
    fn separate_sums(&mut self, level: usize, node: usize) {
        if level == 0 {
            return;
        }
        let slots = self.inners.piece(node)[0] as usize;
        for slot in 0..slots {
            let mut sum = vec![0; self.shape.value()];
            if slot + 1 < slots {
                sum.copy_from_slice(self.row(self.inners.piece(node), slot + 1));
                self.sums.deduct(&mut sum, self.row(self.inners.piece(node), slot));
            } else {
                self.total(
                    level - 1,
                    self.inners.piece(node)[self.child_at(slot)] as usize,
                    &mut sum,
                );
            }
            let at = self.row_at(slot);
            self.inners.piece_mut(node)[at..at + sum.len()].copy_from_slice(&sum);
        }
    }

    /// Turns the rows of an inner node from sums of each child into sums over the children before
    /// each.
    fn join_sums(&mut self, level: usize, node: usize) {
        if level == 0 {
            return;
        }
        let mut sum = vec![0; self.shape.value()];
        for slot in 0..self.inners.piece(node)[0] as usize {
            let at = self.row_at(slot);
            let row = &mut self.inners.piece_mut(node)[at..at + sum.len()];
            let mut next = sum.clone();
            self.sums.accumulate(&mut next, row);
            row.copy_from_slice(&sum);
            sum = next;
        }
        // The first separator bounds nothing, but searches count it, so it is zero.
        let (from, to) = (self.key_at(0), self.key_at(1));
        self.inners.piece_mut(node)[from..to].fill(0);
    }

    /// Adds up all entries below a node.
    fn total(&self, level: usize, mut node: usize, sum: &mut [u64]) {
        for _ in 0..level {
            let inner = self.inners.piece(node);
            let last = inner[0] as usize - 1;
            self.sums.accumulate(sum, self.row(inner, last));
            node = inner[self.child_at(last)] as usize;
        }
        let leaf = self.leaves.piece(node);
        self.add_up(leaf, sum);
    }

    /// Copies slots from one node to another node of its level.
    fn copy(&mut self, level: usize, from: (usize, usize), to: (usize, usize), count: usize) {
        let (key_words, words) = (self.shape.key(), self.shape.value());
        let keys = (self.key_at(from.1), self.key_at(to.1));
        let rows = (self.row_at(from.1), self.row_at(to.1));
        let children = (self.child_at(from.1), self.child_at(to.1));
        let nodes = self.nodes(level);
        nodes.copy((from.0, keys.0), (to.0, keys.1), count * key_words);
        nodes.copy((from.0, rows.0), (to.0, rows.1), count * words);
        if level > 0 {
            nodes.copy((from.0, children.0), (to.0, children.1), count);
        }
    }

    /// Splits every full node on the path to a key, so that the leaf gets a free slot.
    fn split_way_to(&mut self, root: &mut Root, key: &[u64]) {
        if self.nodes(root.height).piece(root.node)[0] as usize == SLOTS {
            let node = self.inners.allocate();
            let child_at = self.child_at(0);
            self.inners.piece_mut(node)[child_at] = root.node as u64;
            *root = Root { node, height: root.height + 1 };
            self.set_count(root.height, node, 1);
            self.sum_up(root.height, node, 0);
            self.join_sums(root.height, node);
        }
        let mut node = root.node;
        for level in (1..=root.height).rev() {
            let mut slot = self.child_of(self.inners.piece(node), key);
            let child = self.inners.piece(node)[self.child_at(slot)] as usize;
            if self.nodes(level - 1).piece(child)[0] as usize == SLOTS {
                self.split(level, node, slot);
                slot = self.child_of(self.inners.piece(node), key);
            }
            node = self.inners.piece(node)[self.child_at(slot)] as usize;
        }
    }

    /// Splits a full child of a node that has a free slot.
    fn split(&mut self, level: usize, parent: usize, slot: usize) {
        let left = self.inners.piece(parent)[self.child_at(slot)] as usize;
        let right = self.nodes(level - 1).allocate();
        self.separate_sums(level, parent);
        self.separate_sums(level - 1, left);
        self.copy(level - 1, (left, SLOTS / 2), (right, 0), SLOTS - SLOTS / 2);
        self.set_count(level - 1, right, SLOTS - SLOTS / 2);
        self.set_count(level - 1, left, SLOTS / 2);
        if level == 1 {
            let next = self.leaves.piece(left)[1];
            self.leaves.piece_mut(right)[1] = next;
            self.leaves.piece_mut(left)[1] = right as u64 + 1;
        }
        self.shift(level, parent, slot + 1, slot + 2);
        let child_at = self.child_at(slot + 1);
        self.inners.piece_mut(parent)[child_at] = right as u64;
        self.share(level, parent, slot, left, right);
    }

    /// Updates the separator and the sums of two neighbours after slots have moved between them.
    fn share(&mut self, level: usize, parent: usize, slot: usize, left: usize, right: usize) {
        self.separate(level, parent, slot + 1);
        self.join_sums(level - 1, left);
        self.join_sums(level - 1, right);
        self.sum_up(level, parent, slot);
        self.sum_up(level, parent, slot + 1);
        self.join_sums(level, parent);
    }

    /// Makes a child's first key its separator.
    fn separate(&mut self, level: usize, parent: usize, slot: usize) {
        let child = self.inners.piece(parent)[self.child_at(slot)] as usize;
        let (from, to) = (self.key_at(0), self.key_at(slot));
        for word in 0..self.shape.key() {
            let moved = self.nodes(level - 1).piece(child)[from + word];
            self.inners.piece_mut(parent)[to + word] = moved;
        }
    }

    /// Computes the sum of a child, for a node whose rows are sums of each child.
    fn sum_up(&mut self, level: usize, parent: usize, slot: usize) {
        let child = self.inners.piece(parent)[self.child_at(slot)] as usize;
        let mut sum = vec![0; self.shape.value()];
        self.total(level - 1, child, &mut sum);
        let at = self.row_at(slot);
        self.inners.piece_mut(parent)[at..at + sum.len()].copy_from_slice(&sum);
    }

    /// Merges two neighbours into one node, or shares their slots evenly.
    fn even_out(&mut self, level: usize, parent: usize, slot: usize) {
        let inner = self.inners.piece(parent);
        let left = inner[self.child_at(slot)] as usize;
        let right = inner[self.child_at(slot + 1)] as usize;
        if level > 0 {
            // The first separator of the right neighbour is about to be read, so it must be a real
            // one.
            let (from, to) = (self.key_at(slot + 1), self.key_at(0));
            self.inners.copy((parent, from), (right, to), self.shape.key());
        }
        self.separate_sums(level + 1, parent);
        self.separate_sums(level, left);
        self.separate_sums(level, right);
        let left_count = self.nodes(level).piece(left)[0] as usize;
        let right_count = self.nodes(level).piece(right)[0] as usize;
        let total = left_count + right_count;
        if total <= SLOTS_MERGED {
            self.copy(level, (right, 0), (left, left_count), right_count);
            self.nodes(level).piece_mut(left)[0] = total as u64;
            if level == 0 {
                let next = self.leaves.piece(right)[1];
                self.leaves.piece_mut(left)[1] = next;
            }
            self.nodes(level).free(right);
            self.shift(level + 1, parent, slot + 2, slot + 1);
            self.join_sums(level, left);
            self.sum_up(level + 1, parent, slot);
            self.join_sums(level + 1, parent);
            return;
        }
        let goal = total / 2;
        if left_count < goal {
            let moved = goal - left_count;
            self.copy(level, (right, 0), (left, left_count), moved);
            self.shift(level, right, moved, 0);
        } else {
            let moved = left_count - goal;
            self.shift(level, right, 0, moved);
            self.copy(level, (left, goal), (right, 0), moved);
        }
        self.set_count(level, left, goal);
        self.share(level + 1, parent, slot, left, right);
    }

    /// Adds up the payloads of a leaf.
    fn add_up(&self, leaf: &[u64], sum: &mut [u64]) {
        for slot in 0..leaf[0] as usize {
            self.shape.accumulate(&self.sums, sum, self.row(leaf, slot));
        }
    }

    /// Adds up the payloads of all keys below a key.
    #[inline(always)]
    pub fn sum_below(&self, root: Root, high: &[u64]) -> S::ValueWords {
        let (shape, key_words, words) = (self.shape, self.shape.key(), self.shape.value());
        let mut row = shape.zero();
        let sum = row.as_mut();
        let mut node = root.node;
        for _ in 0..root.height {
            let inner = self.inner(node);
            let slot = self.child_below(inner, Some(high));
            shape.accumulate(&self.sums, sum, self.row(inner, slot));
            node = inner[self.child_at(slot)] as usize;
        }
        let leaf = self.leaf(node);
        let (keys, rows) = leaf[HEAD..].split_at(SLOTS * key_words);
        // Looks at every key on the way: in the places without a slot no key is below the bound.
        for slot in 0..SLOTS {
            if !less(&keys[slot * key_words..][..key_words], high, key_words) {
                break;
            }
            shape.accumulate(&self.sums, sum, &rows[slot * words..][..words]);
        }
        row
    }

    /// Begins an enumeration at the first key that is not below `low`.
    #[inline]
    pub fn start(&self, root: Root, low: &[u64]) -> LeafPosition {
        let leaf = self.leaf_of(root, low);
        LeafPosition { leaf: leaf + 1, slot: self.count_below(self.leaf(leaf), low) }
    }

    /// The next entry: key and payload. The position is valid until the tree changes.
    #[inline]
    pub fn step(&self, position: &mut LeafPosition) -> Option<(&[u64], &[u64])> {
        loop {
            let leaf = self.leaf(position.leaf.checked_sub(1)?);
            if position.slot < leaf[0] as usize {
                position.slot += 1;
                let slot = position.slot - 1;
                return Some((self.key(leaf, slot), self.row(leaf, slot)));
            }
            *position = LeafPosition { leaf: leaf[1] as usize, slot: 0 };
        }
    }

    /// The last key below `high`; the last key of all without `high`.
    pub fn last_below(&self, root: Root, high: Option<&[u64]>) -> Option<&[u64]> {
        let mut path = [(0, 0); LEVELS_MAX];
        let mut node = root.node;
        for level in (1..=root.height).rev() {
            let inner = self.inner(node);
            let slot = self.child_below(inner, high);
            path[level] = (node as u32, slot as u32);
            node = inner[self.child_at(slot)] as usize;
        }
        let leaf = self.leaf(node);
        let slot = high.map_or(leaf[0] as usize, |high| self.count_below(leaf, high));
        if slot > 0 {
            return Some(self.key(leaf, slot - 1));
        }
        // The last key of the subtree before this leaf.
        let level = (1..=root.height).find(|level| path[*level].1 > 0)?;
        let (node, slot) = path[level];
        let inner = self.inner(node as usize);
        let mut node = inner[self.child_at(slot as usize - 1)] as usize;
        for _ in 1..level {
            let inner = self.inner(node);
            node = inner[self.child_at(inner[0] as usize - 1)] as usize;
        }
        let leaf = self.leaf(node);
        Some(self.key(leaf, leaf[0] as usize - 1))
    }

    /// The first key at which the sum of a component over all keys up to it exceeds `limit`. `at`:
    /// the component's first word. The component must be nowhere negative.
    pub fn passes(&self, root: Root, component: usize, at: usize, limit: i128) -> Option<&[u64]> {
        let mut before = 0_i128;
        let mut node = root.node;
        let value =
            |node: &[u64], slot: usize| self.sums.value(self.row(node, slot), component, at);
        for _ in 0..root.height {
            let inner = self.inner(node);
            let mut slot = 0;
            for place in 1..inner[0] as usize {
                slot += usize::from(before + value(inner, place) <= limit);
            }
            before += value(inner, slot);
            node = inner[self.child_at(slot)] as usize;
        }
        let leaf = self.leaf(node);
        let slot = (0..leaf[0] as usize).find(|slot| {
            before += value(leaf, *slot);
            before > limit
        })?;
        Some(self.key(leaf, slot))
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Takes and touches memory for this number of entries.
    pub fn reserve(&mut self, entries: usize) {
        self.leaves.reserve(entries / (SLOTS / 2) + 1);
        self.inners.reserve(entries / (SLOTS * SLOTS / 8) + 1);
    }

    /// Memory, in bytes.
    pub fn bytes(&self) -> u64 {
        self.leaves.bytes() + self.inners.bytes()
    }

    /// Panics unless all invariants hold, given the trees with their sums. O(entries).
    pub fn check(&self, trees: impl Iterator<Item = (Root, Vec<u64>)>) {
        self.leaves.check();
        self.inners.check();
        let (mut leaf_count, mut len) = (0, 0);
        let mut magnitudes = vec![0_u128; self.magnitudes.len()];
        for (root, total) in trees {
            let mut seen = Seen { root, ..Seen::default() };
            let sum =
                self.check_node((root.node, root.height), (None, None), &mut seen, &mut magnitudes);
            assert_eq!(sum, total);
            assert!(seen.keys.is_sorted());
            seen.keys.dedup();
            len += seen.keys.len();
            leaf_count += seen.leaves.len();
            let next = seen.leaves.iter().skip(1).map(|next| *next + 1).chain([0]);
            for (leaf, next) in seen.leaves.iter().zip(next) {
                assert_eq!(self.leaves.piece(*leaf)[1] as usize, next);
            }
        }
        assert_eq!(len, self.len);
        assert_eq!(magnitudes, self.magnitudes);
        assert_eq!(leaf_count, self.leaves.live());
    }

    fn check_node(
        &self,
        (number, level): (usize, usize),
        (low, high): (Option<&[u64]>, Option<&[u64]>),
        seen: &mut Seen,
        magnitudes: &mut [u128],
    ) -> Vec<u64> {
        let node = if level == 0 { self.leaves.piece(number) } else { self.inners.piece(number) };
        let slots = node[0] as usize;
        let least = if level == 0 { 0 } else { 2 };
        assert!(
            (if level == seen.root.height { least } else { SLOTS_MIN }..=SLOTS).contains(&slots)
        );
        let mut sum = vec![0; self.shape.value()];
        for slot in 0..slots {
            let row = self.row(node, slot);
            let key = self.key(node, slot);
            if level == 0 {
                self.sums.accumulate(&mut sum, row);
                assert!(!is_zero(row));
                assert!(low.is_none_or(|low| key >= low) && high.is_none_or(|high| key < high));
                seen.keys.push(key.to_vec());
                for (component, magnitude) in magnitudes.iter_mut().enumerate() {
                    let at = self.sums.offset(component);
                    *magnitude += self.sums.value(row, component, at).unsigned_abs();
                }
            } else {
                let low = if slot == 0 { low } else { Some(key) };
                let high = if slot + 1 < slots { Some(self.key(node, slot + 1)) } else { high };
                let child = node[self.child_at(slot)] as usize;
                let below = self.check_node((child, level - 1), (low, high), seen, magnitudes);
                assert_eq!(sum, row);
                self.sums.accumulate(&mut sum, &below);
            }
        }
        if level == 0 {
            seen.leaves.push(number);
        } else {
            assert!(is_zero(self.key(node, 0)));
        }
        for place in slots..SLOTS {
            assert!(self.key(node, place).iter().all(|word| *word == u64::MAX));
        }
        sum
    }
}

/// What the check has found in one tree so far.
#[derive(Default)]
struct Seen {
    root: Root,
    leaves: Vec<usize>,
    keys: Vec<Vec<u64>>,
}
