//! Sorted map with sums over ranges: a B+tree whose inner nodes know the sums of their children.
//!
//! Keys are words that compare as unsigned numbers, from the first word on (`Value::put_ordered`).
//! Inner sums wrap around; [`Ordered::add`] sees to it that the absolute values of all entries add
//! up to what a component can hold, so that no sum over a range overflows.
//!
//! Words: *slots* of a node are its entries or children; a child's *separator* is not above any of
//! its keys and above all keys before; that of a node's first child is zero.
//!
//! Invariants, all checked by [`Ordered::check`]:
//! 1. Every node but the root has [`SLOTS_MIN`] to [`SLOTS`] slots; all leaves are equally deep.
//! 2. Keys ascend, separators separate; places for keys without a slot hold the highest key.
//! 3. The row of a child is the sum of what is in the children before it; no entry is zero.
//! 4. Leaves are linked in the order of their keys.
//!
//! A search looks at the same number of places in every node, whether they are taken or not, and rows
//! of inner nodes are sums up to there: how far a loop goes is what a processor mispredicts.
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
/// Two nodes become one if they fill no more of it.
const SLOTS_MERGED: usize = 12;
/// Words of a key at most, and of a payload that needs no memory while it is summed up.
const ZEROS: usize = 8;
/// Words before the keys: number of slots; in leaves the next leaf plus one.
const HEAD: usize = 2;
/// Levels of more than 4·10⁹ entries, as every node has [`SLOTS_MIN`].
const LEVELS_MAX: usize = 17;

/// The way down to a leaf, by level above it: inner node and slot.
type Path = [(u32, u32); LEVELS_MAX];

/// A sorted map with sums.
#[derive(Debug)]
pub struct Ordered<S> {
    shape: S,
    sums: Sums,
    leaves: Slab,
    inners: Slab,
    root: usize,
    /// Levels of inner nodes.
    height: usize,
    len: usize,
    /// By component: the sum of the absolute values.
    magnitudes: Vec<u128>,
    /// An entry's payload being computed.
    scratch: Vec<u64>,
}

/// Where an enumeration stands: leaf plus one, slot.
#[derive(Clone, Copy, Debug, Default)]
pub struct OrderedPosition {
    leaf: usize,
    slot: usize,
}

impl OrderedPosition {
    /// As it lies in registers.
    pub fn words(self) -> [u64; 2] {
        [self.leaf as u64, self.slot as u64]
    }

    /// From there.
    pub fn of([leaf, slot]: [u64; 2]) -> Self {
        OrderedPosition { leaf: leaf as usize, slot: slot as usize }
    }
}

#[inline(always)]
fn less(a: &[u64], b: &[u64], words: usize) -> bool {
    let (a, b) = (&a[..words], &b[..words]);
    if words == 2 {
        // A comparison with borrow, where the general way takes three flags.
        let pair = |key: &[u64]| u128::from(key[0]) << 64 | u128::from(key[1]);
        return pair(a) < pair(b);
    }
    let mut is_less = false;
    for word in (0..words).rev() {
        is_less = (a[word] < b[word]) | ((a[word] == b[word]) & is_less);
    }
    is_less
}

impl<S: Shape> Ordered<S> {
    /// An empty map; the shape's value is the payload.
    pub fn new(shape: S, components: &[Component]) -> Self {
        let slot = shape.entry();
        let mut leaves = Slab::new(HEAD + SLOTS * slot);
        let root = leaves.allocate();
        leaves.piece_mut(root)[..HEAD].fill(0);
        leaves.piece_mut(root)[HEAD..HEAD + SLOTS * shape.key()].fill(u64::MAX);
        Ordered {
            shape,
            sums: Sums::new(components),
            leaves,
            inners: Slab::new(HEAD + SLOTS * (slot + 1)),
            root,
            height: 0,
            len: 0,
            magnitudes: vec![0; components.len()],
            scratch: vec![0; shape.value()],
        }
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

    /// Places whose keys are below `key`, or not above it with `equal`.
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

    /// Slots of a leaf whose keys are below `key`.
    #[inline(always)]
    fn count_below(&self, leaf: &[u64], key: &[u64]) -> usize {
        self.count(leaf, key, false)
    }

    /// The child in which a key belongs.
    #[inline(always)]
    fn child_of(&self, node: &[u64], key: &[u64]) -> usize {
        // The first separator is zero; the highest key is not above the places without a slot.
        self.count(node, key, true).min(node[0] as usize) - 1
    }

    /// The last child that may have keys below a key.
    #[inline(always)]
    fn child_below(&self, node: &[u64], key: Option<&[u64]>) -> usize {
        match key {
            None => node[0] as usize - 1,
            Some(key) => self.count(node, key, false).saturating_sub(1),
        }
    }

    /// The leaf in which a key belongs, and the way to it.
    #[inline(always)]
    fn descend(&self, key: &[u64], path: &mut Path) -> usize {
        let mut node = self.root;
        for level in (1..=self.height).rev() {
            let inner = self.inners.piece(node);
            let slot = self.child_of(inner, key);
            path[level] = (node as u32, slot as u32);
            node = inner[self.child_at(slot)] as usize;
        }
        node
    }

    /// The leaf in which a key belongs.
    #[inline(always)]
    fn leaf_of(&self, key: &[u64]) -> usize {
        let mut node = self.root;
        for _ in 0..self.height {
            let inner = self.inners.piece(node);
            node = inner[self.child_at(self.child_of(inner, key))] as usize;
        }
        node
    }

    /// The payload of a key, if there is an entry.
    #[inline]
    pub fn get(&self, key: &[u64]) -> Option<&[u64]> {
        let leaf = self.leaves.piece(self.leaf_of(key));
        let slot = self.count_below(leaf, key);
        let found = slot < leaf[0] as usize && same(self.key(leaf, slot), key, self.shape.key());
        found.then(|| self.row(leaf, slot))
    }

    /// Adds to the payload of a key; an entry that becomes zero goes.
    ///
    /// Errors: overflow of the entry, or of the sum of the absolute values of all entries; nothing
    /// has changed then.
    #[inline]
    pub fn add(&mut self, key: &[u64], delta: &[u64]) -> Result<(), EvalError> {
        let mut path = [(0, 0); LEVELS_MAX];
        let number = self.descend(key, &mut path);
        let leaf = self.leaves.piece(number);
        let slot = self.count_below(leaf, key);
        let found = slot < leaf[0] as usize && same(self.key(leaf, slot), key, self.shape.key());
        let mut row = core::mem::take(&mut self.scratch);
        let result = self.add_at(key, delta, &path, (number, slot), found, &mut row);
        self.scratch = row;
        match result {
            Ok(true) => Ok(()),
            // The leaf was full: there is room now.
            Ok(false) => self.add(key, delta),
            Err(error) => Err(error),
        }
    }

    /// [`Ordered::add`], having found the place; false if the leaf had to be split first.
    #[inline(always)]
    fn add_at(
        &mut self,
        key: &[u64],
        delta: &[u64],
        path: &Path,
        (number, slot): (usize, usize),
        found: bool,
        row: &mut [u64],
    ) -> Result<bool, EvalError> {
        let leaf = self.leaves.piece(number);
        if !found && leaf[0] as usize == SLOTS {
            self.split_way_to(key);
            return Ok(false);
        }
        if found {
            row.copy_from_slice(self.row(leaf, slot))
        } else {
            row.fill(0)
        }
        self.sums.add(row, delta)?;
        if !found && is_zero(row) {
            return Ok(true);
        }
        self.weigh(found.then_some((number, slot)), row)?;
        // What the sums above change by: an entry that counts as zero takes its rest along.
        let row_at = self.row_at(slot);
        if found && is_zero(row) {
            let leaf = self.leaves.piece_mut(number);
            row.copy_from_slice(&leaf[row_at..][..row.len()]);
            self.spread(path, row, true);
            self.remove(path, number, slot);
        } else if found {
            self.leaves.piece_mut(number)[row_at..][..row.len()].copy_from_slice(row);
            self.spread(path, delta, false);
        } else {
            self.insert(number, slot, key, row);
            self.spread(path, delta, false);
        }
        Ok(true)
    }

    /// Accounts for an entry's new payload in the magnitudes.
    #[inline(always)]
    fn weigh(&mut self, old: Option<(usize, usize)>, row: &[u64]) -> Result<(), EvalError> {
        let row_at = old.map_or(0, |(_, slot)| self.row_at(slot));
        let old = old.map(|(leaf, _)| &self.leaves.piece(leaf)[row_at..]);
        if self.sums.ints() {
            let totals = &mut self.magnitudes[..row.len()];
            let mut fits = true;
            for word in 0..row.len() {
                let before = old.map_or(0, |old| (old[word] as i64).unsigned_abs());
                let after = (row[word] as i64).unsigned_abs();
                totals[word] = totals[word] + u128::from(after) - u128::from(before);
                fits &= totals[word] <= i64::MAX as u128;
            }
            if fits {
                return Ok(());
            }
            for word in 0..row.len() {
                let before = old.map_or(0, |old| (old[word] as i64).unsigned_abs());
                let after = (row[word] as i64).unsigned_abs();
                totals[word] = totals[word] + u128::from(before) - u128::from(after);
            }
            return Err(EvalError::Overflow);
        }
        let mut at = 0;
        for component in 0..self.magnitudes.len() {
            let before = old.map_or(0, |old| self.sums.value(old, component, at).unsigned_abs());
            let after = self.sums.value(row, component, at).unsigned_abs();
            let (limit, words) = match self.sums.components()[component] {
                Component::Int => (i64::MAX as u128, 1),
                Component::Wide | Component::Float => (i128::MAX as u128, 2),
            };
            let sum = (self.magnitudes[component] - before).saturating_add(after);
            if sum > limit {
                for component in 0..component {
                    let at = self.sums.offset(component);
                    let value = |row: &[u64]| self.sums.value(row, component, at).unsigned_abs();
                    let magnitude = &mut self.magnitudes[component];
                    *magnitude = *magnitude - value(row) + old.map_or(0, value);
                }
                return Err(EvalError::Overflow);
            }
            self.magnitudes[component] = sum;
            at += words;
        }
        Ok(())
    }

    /// Adds to the sums behind the way to a leaf, or takes from them.
    #[inline(always)]
    fn spread(&mut self, path: &Path, row: &[u64], negative: bool) {
        let words = self.shape.value();
        let ints = self.sums.ints() && words <= 2;
        let sign = |word: u64| if negative { word.wrapping_neg() } else { word };
        let (first, second) = (sign(row[0]), sign(row[words - 1]));
        for (node, slot) in &path[1..=self.height] {
            let (from, to) = (self.row_at(*slot as usize + 1), self.row_at(SLOTS));
            let node = self.inners.piece_mut(*node as usize);
            let to = to.min(from + (node[0] as usize - *slot as usize - 1) * words);
            for sums in node[from..to].chunks_exact_mut(words) {
                if ints {
                    sums[0] = sums[0].wrapping_add(first);
                    if words == 2 {
                        sums[1] = sums[1].wrapping_add(second);
                    }
                } else if negative {
                    self.sums.deduct(sums, row);
                } else {
                    self.sums.accumulate(sums, row);
                }
            }
        }
    }

    /// Puts an entry into a leaf that has room.
    fn insert(&mut self, number: usize, slot: usize, key: &[u64], row: &[u64]) {
        self.shift(0, number, slot, slot + 1);
        let (key_at, row_at) = (self.key_at(slot), self.row_at(slot));
        let leaf = self.leaves.piece_mut(number);
        leaf[key_at..][..self.shape.key()].copy_from_slice(&key[..self.shape.key()]);
        leaf[row_at..][..row.len()].copy_from_slice(row);
        self.len += 1;
    }

    fn remove(&mut self, path: &Path, number: usize, slot: usize) {
        self.shift(0, number, slot + 1, slot);
        self.len -= 1;
        let mut node = number;
        for level in 0..self.height {
            if self.nodes(level).piece(node)[0] as usize >= SLOTS_MIN {
                return;
            }
            let (parent, slot) = path[level + 1];
            let (parent, slot) = (parent as usize, slot as usize);
            let slots = self.inners.piece(parent)[0] as usize;
            self.even_out(level, parent, if slot + 1 < slots { slot } else { slot - 1 });
            node = parent;
        }
        while self.height > 0 && self.inners.piece(self.root)[0] == 1 {
            let root = self.root;
            self.root = self.inners.piece(root)[self.child_at(0)] as usize;
            self.inners.free(root);
            self.height -= 1;
        }
    }

    fn nodes(&mut self, level: usize) -> &mut Slab {
        if level == 0 { &mut self.leaves } else { &mut self.inners }
    }

    /// Moves the slots from `from` on to `to`, and counts accordingly.
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

    /// Places behind the slots get the highest key.
    fn set_count(&mut self, level: usize, node: usize, count: usize) {
        let (from, to) = (self.key_at(count), self.key_at(SLOTS));
        let piece = self.nodes(level).piece_mut(node);
        piece[0] = count as u64;
        piece[from..to].fill(u64::MAX);
    }

    /// Turns the rows of an inner node from sums up to a child into sums of the child.
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

    /// The inverse.
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
        // The first separator is not read, but counted.
        let (from, to) = (self.key_at(0), self.key_at(1));
        self.inners.piece_mut(node)[from..to].fill(0);
    }

    /// Adds up what is in a node.
    fn total(&self, level: usize, mut node: usize, sum: &mut [u64]) {
        for _ in 0..level {
            let inner = self.inners.piece(node);
            let last = inner[0] as usize - 1;
            self.sums.accumulate(sum, self.row(inner, last));
            node = inner[self.child_at(last)] as usize;
        }
        let leaf = self.leaves.piece(node);
        self.add_up(leaf, leaf[0] as usize, sum);
    }

    /// Copies slots from one node to another one of its level.
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

    /// Splits every full node on the way to a key, so that its leaf has room.
    fn split_way_to(&mut self, key: &[u64]) {
        let root = self.root;
        let height = self.height;
        if self.nodes(height).piece(root)[0] as usize == SLOTS {
            let root = self.inners.allocate();
            let child_at = self.child_at(0);
            self.inners.piece_mut(root)[child_at] = self.root as u64;
            (self.root, self.height) = (root, self.height + 1);
            self.set_count(self.height, root, 1);
            self.sum_up(self.height, root, 0);
            self.join_sums(self.height, root);
        }
        let mut node = self.root;
        for level in (1..=self.height).rev() {
            let mut slot = self.child_of(self.inners.piece(node), key);
            let child = self.inners.piece(node)[self.child_at(slot)] as usize;
            if self.nodes(level - 1).piece(child)[0] as usize == SLOTS {
                self.split(level, node, slot);
                slot = self.child_of(self.inners.piece(node), key);
            }
            node = self.inners.piece(node)[self.child_at(slot)] as usize;
        }
    }

    /// Splits a full child of a node that has room.
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

    /// Puts separator and sums of two neighbours right, whose slots have moved.
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

    /// Computes the sum of a child, of a node whose sums are separate.
    fn sum_up(&mut self, level: usize, parent: usize, slot: usize) {
        let child = self.inners.piece(parent)[self.child_at(slot)] as usize;
        let mut sum = vec![0; self.shape.value()];
        self.total(level - 1, child, &mut sum);
        let at = self.row_at(slot);
        self.inners.piece_mut(parent)[at..at + sum.len()].copy_from_slice(&sum);
    }

    /// Makes one node of two neighbours, or shares their slots evenly.
    fn even_out(&mut self, level: usize, parent: usize, slot: usize) {
        let inner = self.inners.piece(parent);
        let left = inner[self.child_at(slot)] as usize;
        let right = inner[self.child_at(slot + 1)] as usize;
        if level > 0 {
            // The right one's first separator is about to be read.
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

    /// Adds the payloads of a leaf's first `count` entries.
    #[inline(always)]
    fn add_up(&self, leaf: &[u64], count: usize, sum: &mut [u64]) {
        let words = self.shape.value();
        let rows = leaf[self.row_at(0)..self.row_at(count)].chunks_exact(words);
        if self.sums.ints() && words == 1 {
            let mut total = sum[0];
            for row in rows {
                total = total.wrapping_add(row[0]);
            }
            sum[0] = total;
        } else if self.sums.ints() && words == 2 {
            // One variable per word: an array would be kept in memory.
            let (mut first, mut second) = (sum[0], sum[1]);
            for row in rows {
                first = first.wrapping_add(row[0]);
                second = second.wrapping_add(row[1]);
            }
            (sum[0], sum[1]) = (first, second);
        } else {
            rows.for_each(|row| self.sums.accumulate(sum, row));
        }
    }

    /// Adds up the payloads of all keys from `low` on and below `high`.
    #[inline]
    pub fn range_sum(&self, low: &[u64], high: Option<&[u64]>, sum: &mut [u64]) {
        let words = self.shape.value();
        let sum = &mut sum[..words];
        if high.is_some_and(|high| !less(low, high, self.shape.key())) {
            return;
        }
        if self.sums.ints() && words <= 2 {
            let mut before = [0; 2];
            self.sum_below(Some(low), &mut before[..words]);
            self.sum_below(high, sum);
            for word in 0..words {
                sum[word] = sum[word].wrapping_sub(before[word]);
            }
        } else {
            let mut before = vec![0; words];
            self.sum_below(Some(low), &mut before);
            self.sum_below(high, sum);
            self.sums.deduct(sum, &before);
        }
    }

    /// Adds up the payloads of all keys below a key, or of all without it.
    #[inline(always)]
    fn sum_below(&self, high: Option<&[u64]>, sum: &mut [u64]) {
        let mut node = self.root;
        for _ in 0..self.height {
            let inner = self.inners.piece(node);
            let slot = self.child_below(inner, high);
            self.sums.accumulate(sum, self.row(inner, slot));
            node = inner[self.child_at(slot)] as usize;
        }
        let leaf = self.leaves.piece(node);
        let count = match high {
            Some(high) => self.count_below(leaf, high),
            None => leaf[0] as usize,
        };
        self.add_up(leaf, count, sum);
    }

    /// Begins an enumeration at the first key that is not below `low`.
    #[inline]
    pub fn start(&self, low: &[u64]) -> OrderedPosition {
        let leaf = self.leaf_of(low);
        OrderedPosition { leaf: leaf + 1, slot: self.count_below(self.leaves.piece(leaf), low) }
    }

    /// The next entry: key and payload. Holds as long as nothing changes.
    #[inline]
    pub fn step(&self, position: &mut OrderedPosition) -> Option<(&[u64], &[u64])> {
        loop {
            let leaf = self.leaves.piece(position.leaf.checked_sub(1)?);
            if position.slot < leaf[0] as usize {
                position.slot += 1;
                let slot = position.slot - 1;
                return Some((self.key(leaf, slot), self.row(leaf, slot)));
            }
            *position = OrderedPosition { leaf: leaf[1] as usize, slot: 0 };
        }
    }

    /// The key before `high`: the last one of all without it.
    pub fn last_below(&self, high: Option<&[u64]>) -> Option<&[u64]> {
        let mut path = [(0, 0); LEVELS_MAX];
        let mut node = self.root;
        for level in (1..=self.height).rev() {
            let inner = self.inners.piece(node);
            let slot = self.child_below(inner, high);
            path[level] = (node as u32, slot as u32);
            node = inner[self.child_at(slot)] as usize;
        }
        let leaf = self.leaves.piece(node);
        let slot = high.map_or(leaf[0] as usize, |high| self.count_below(leaf, high));
        if slot > 0 {
            return Some(self.key(leaf, slot - 1));
        }
        // The last key of what stands before this leaf.
        let level = (1..=self.height).find(|level| path[*level].1 > 0)?;
        let (node, slot) = path[level];
        let inner = self.inners.piece(node as usize);
        let mut node = inner[self.child_at(slot as usize - 1)] as usize;
        for _ in 1..level {
            let inner = self.inners.piece(node);
            node = inner[self.child_at(inner[0] as usize - 1)] as usize;
        }
        let leaf = self.leaves.piece(node);
        Some(self.key(leaf, leaf[0] as usize - 1))
    }

    /// Among the keys from `low` on and below `high`, the first at which the sum of a component up
    /// to it, itself included, exceeds `limit`; from the last to the first if `descending`. The
    /// component must be nowhere negative.
    pub fn search(
        &self,
        low: &[u64],
        high: Option<&[u64]>,
        component: usize,
        limit: i128,
        descending: bool,
    ) -> Option<&[u64]> {
        let at = self.sums.offset(component);
        let (mut few, mut many) = ([0; ZEROS], Vec::new());
        let sum = if self.shape.value() <= ZEROS {
            &mut few[..]
        } else {
            many.resize(self.shape.value(), 0);
            &mut many[..]
        };
        let key = if descending {
            self.range_sum(&[0; ZEROS], high, sum);
            // The sum before the key must be less than this; the last such key is the first up to
            // which the sum is not.
            let rest = self.sums.value(sum, component, at).saturating_sub(limit);
            match (limit < 0, rest > 0) {
                (true, _) => self.last_below(high)?,
                (false, true) => self.passes(component, at, rest - 1)?,
                (false, false) => return None,
            }
        } else {
            self.range_sum(&[0; ZEROS], Some(low), sum);
            let before = self.sums.value(sum, component, at);
            if limit < 0 {
                self.step(&mut self.start(low))?.0
            } else {
                self.passes(component, at, before.saturating_add(limit))?
            }
        };
        let words = self.shape.key();
        let within = !less(key, low, words) && high.is_none_or(|high| less(key, high, words));
        within.then_some(key)
    }

    /// The first key of all up to which the sum exceeds `limit`.
    fn passes(&self, component: usize, at: usize, limit: i128) -> Option<&[u64]> {
        let mut before = 0_i128;
        let mut node = self.root;
        let value =
            |node: &[u64], slot: usize| self.sums.value(self.row(node, slot), component, at);
        for _ in 0..self.height {
            let inner = self.inners.piece(node);
            let mut slot = 0;
            for place in 1..inner[0] as usize {
                slot += usize::from(before + value(inner, place) <= limit);
            }
            before += value(inner, slot);
            node = inner[self.child_at(slot)] as usize;
        }
        let leaf = self.leaves.piece(node);
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

    /// Memory for so many entries, touched now.
    pub fn reserve(&mut self, entries: usize) {
        self.leaves.reserve(entries / (SLOTS / 2) + 1);
        self.inners.reserve(entries / (SLOTS * SLOTS / 8) + 1);
    }

    /// Memory, in bytes.
    pub fn bytes(&self) -> u64 {
        self.leaves.bytes() + self.inners.bytes()
    }

    /// Panics unless invariants 1 to 4 hold. O(entries).
    pub fn check(&self) {
        self.leaves.check();
        self.inners.check();
        let mut leaves = Vec::new();
        let mut keys = Vec::new();
        let mut magnitudes = vec![0_u128; self.magnitudes.len()];
        self.check_node(
            self.root,
            self.height,
            None,
            None,
            &mut leaves,
            &mut keys,
            &mut magnitudes,
        );
        assert!(keys.is_sorted());
        keys.dedup();
        assert_eq!(keys.len(), self.len);
        assert_eq!(magnitudes, self.magnitudes);
        assert_eq!(leaves.len(), self.leaves.live());
        for (leaf, next) in
            leaves.iter().zip(leaves.iter().skip(1).map(|next| *next + 1).chain([0]))
        {
            assert_eq!(self.leaves.piece(*leaf)[1] as usize, next);
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn check_node(
        &self,
        number: usize,
        level: usize,
        low: Option<&[u64]>,
        high: Option<&[u64]>,
        leaves: &mut Vec<usize>,
        keys: &mut Vec<Vec<u64>>,
        magnitudes: &mut [u128],
    ) -> Vec<u64> {
        let node = if level == 0 { self.leaves.piece(number) } else { self.inners.piece(number) };
        let slots = node[0] as usize;
        let least = if level == 0 { 0 } else { 2 };
        assert!(
            (if number == self.root && level == self.height { least } else { SLOTS_MIN }..=SLOTS)
                .contains(&slots)
        );
        let mut sum = vec![0; self.shape.value()];
        for slot in 0..slots {
            let row = self.row(node, slot);
            let key = self.key(node, slot);
            if level == 0 {
                self.sums.accumulate(&mut sum, row);
                assert!(!is_zero(row));
                assert!(low.is_none_or(|low| key >= low) && high.is_none_or(|high| key < high));
                keys.push(key.to_vec());
                for (component, magnitude) in magnitudes.iter_mut().enumerate() {
                    let at = self.sums.offset(component);
                    *magnitude += self.sums.value(row, component, at).unsigned_abs();
                }
            } else {
                let low = if slot == 0 { low } else { Some(key) };
                let high = if slot + 1 < slots { Some(self.key(node, slot + 1)) } else { high };
                let child = node[self.child_at(slot)] as usize;
                let below = self.check_node(child, level - 1, low, high, leaves, keys, magnitudes);
                assert_eq!(sum, row);
                self.sums.accumulate(&mut sum, &below);
            }
        }
        if level == 0 {
            leaves.push(number);
        } else {
            assert!(is_zero(self.key(node, 0)));
        }
        for place in slots..SLOTS {
            assert!(self.key(node, place).iter().all(|word| *word == u64::MAX));
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::{Fixed, Wide};
    use super::*;
    use crate::random::Random;
    use alloc::collections::BTreeMap;

    /// Random changes, and all ways to ask, against a sorted map.
    fn compare<S: Shape>(shape: S, components: &[Component], domain: u64, seed: u64) {
        let mut random = Random::new(seed);
        let mut map = Ordered::new(shape, components);
        let sums = Sums::new(components);
        let mut model: BTreeMap<Vec<u64>, Vec<u64>> = BTreeMap::new();
        let random_key = |random: &mut Random| {
            let mut key = vec![3; shape.key()];
            key[0] = random.below(if shape.key() > 1 { 4 } else { domain });
            key[shape.key() - 1] = random.below(domain);
            key
        };
        for step in 0..6000 {
            let key = random_key(&mut random);
            let shrinking = (step / 1000) % 2 == 1;
            let old = model.get(&key).cloned().unwrap_or(vec![0; sums.words()]);
            let mut delta = vec![0; sums.words()];
            if shrinking && random.below(8) > 0 {
                sums.deduct(&mut delta, &old);
            } else {
                let mut at = 0;
                for component in components {
                    delta[at] = random.below(1 << 24) + (1 << 21);
                    at += super::super::sums::words_of(*component);
                }
            }
            map.add(&key, &delta).expect("small sums fit");
            let mut new = old.clone();
            sums.add(&mut new, &delta).expect("small sums fit");
            if is_zero(&new) {
                model.remove(&key)
            } else {
                model.insert(key.clone(), new)
            };
            if step % 41 > 0 {
                continue;
            }
            map.check();
            let (a, b) = (random_key(&mut random), random_key(&mut random));
            let (low, high) = if a <= b { (a, b) } else { (b, a) };
            let bound = if step % 2 == 0 { Some(&high[..]) } else { None };
            let range: Vec<_> = match bound {
                Some(_) => model.range(low.clone()..high.clone()).collect(),
                None => model.range(low.clone()..).collect(),
            };
            let mut expected = vec![0; sums.words()];
            range.iter().for_each(|(_, row)| sums.accumulate(&mut expected, row));
            let mut sum = vec![0; sums.words()];
            map.range_sum(&low, bound, &mut sum);
            assert_eq!(sum, expected);
            let mut position = map.start(&low);
            for (key, row) in &range {
                assert_eq!(map.step(&mut position), Some((&key[..], &row[..])));
                assert_eq!(map.get(key), Some(&row[..]));
            }
            let last = model.range(..high.clone()).next_back();
            assert_eq!(map.last_below(Some(&high)), last.map(|(key, _)| &key[..]));
            for component in 0..components.len() {
                let at = sums.offset(component);
                let all = sums.value(&expected, component, at);
                for limit in [-1, 0, all / 3, all - 1, all] {
                    let passing = |sum: &mut i128, row: &[u64]| {
                        *sum += sums.value(row, component, at);
                        Some(*sum > limit)
                    };
                    let up = range.iter().scan(0, |sum, (_, row)| passing(sum, row));
                    let down = range.iter().rev().scan(0, |sum, (_, row)| passing(sum, row));
                    let up = up.zip(&range).find(|(passes, _)| *passes);
                    let down = down.zip(range.iter().rev()).find(|(passes, _)| *passes);
                    let search = |descending| {
                        let found = map.search(&low, bound, component, limit, descending);
                        found.map(<[u64]>::to_vec)
                    };
                    let up = up.map(|(_, (key, _))| (*key).clone());
                    assert_eq!(search(false), up, "ascending {limit}");
                    let down = down.map(|(_, (key, _))| (*key).clone());
                    assert_eq!(search(true), down, "descending {limit}");
                }
            }
        }
        assert_eq!(map.len(), model.len());
        for (key, row) in core::mem::take(&mut model) {
            let mut delta = vec![0; sums.words()];
            sums.deduct(&mut delta, &row);
            map.add(&key, &delta).expect("a sum that was zero before");
            if random.below(50) == 0 {
                map.check();
            }
        }
        map.check();
        assert_eq!((map.len(), map.height), (0, 0));
    }

    #[test]
    fn agrees_with_a_sorted_map() {
        use Component::{Float, Int};
        compare(Fixed::<1, 1>, &[Int], 5000, 1);
        compare(Fixed::<2, 2>, &[Int, Int], 400, 2);
        compare(Fixed::<2, 2>, &[Int, Int], 40, 3);
        compare(Wide { key: 3, value: 5 }, &[Component::Wide, Int, Float], 900, 4);
    }

    #[test]
    fn sums_of_ranges_never_wrap() {
        let mut map = Ordered::new(Fixed::<1, 2>, &[Component::Int, Component::Int]);
        let big = i64::MAX as u64 / 2;
        assert_eq!(map.add(&[1], &[1, big]), Ok(()));
        assert_eq!(map.add(&[2], &[1, big]), Ok(()));
        assert_eq!(map.add(&[3], &[1, big.wrapping_neg()]), Err(EvalError::Overflow));
        assert_eq!(map.add(&[2], &[1, big]), Err(EvalError::Overflow));
        map.check();
        assert_eq!(map.add(&[2], &[0, big.wrapping_neg()]), Ok(()));
        assert_eq!(map.add(&[3], &[1, big.wrapping_neg()]), Ok(()));
        map.check();
    }

    #[test]
    fn ascending_and_descending_keys_keep_it_flat() {
        for descending in [false, true] {
            let mut map = Ordered::new(Fixed::<1, 1>, &[Component::Int]);
            for key in 0..50_000 {
                let key = if descending { 50_000 - key } else { key };
                map.add(&[key], &[1]).expect("fits");
            }
            map.check();
            assert!(map.height <= 6, "{}", map.height);
        }
    }
}
