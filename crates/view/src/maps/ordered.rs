//! A sorted map with sums over ranges.
//!
//! Keys are words that compare as unsigned numbers, from the first word on (`Value::put_ordered`).
//! Leading columns that every question to the map gives (the *prefix*) choose a tree of their own,
//! whose keys lack these columns: the cost of a search is the number of levels, which is smaller in
//! smaller trees. Without such columns there is one tree.
//!
//! Words: a *root* says where a tree begins, and the sum of the whole tree. A key's *rest* is the
//! words behind the prefix.
//!
//! Invariants, checked by [`Ordered::check`] with those of [`super::tree`]: every prefix leads to its
//! root; a root has the sum of its tree; only the tree without a prefix is ever empty.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::shape::{Shape, is_zero};
use super::slab::Slab;
use super::tables::Tables;
use super::tree::{LeafPosition, Root, Trees, less, piece, piece_mut};
use crate::error::EvalError;
use crate::program::Component;
use crate::value::order_int;

/// The most words that a key may have.
pub const KEY_WORDS_MAX: usize = 8;
/// Memory for a key of any width; the words behind a narrower key mean nothing.
pub type Key = [u64; KEY_WORDS_MAX];

/// A prefix that is one integer, 0 or above and below this, leads to its tree by an array.
const DENSE: u64 = 1024;

/// Words of a root before the sum: node, height, whether a key's rest has ever been zero.
const HEAD: usize = 3;

/// A sorted map with sums.
#[derive(Debug)]
pub struct Ordered<S> {
    trees: Trees<S>,
    /// Number of words of the prefix.
    prefix: usize,
    /// Roots: head, sum, and room for a prefix of any width, so that a root's width follows from
    /// the sum's. Without a prefix, piece 0 is the root.
    roots: Slab,
    /// The number of a prefix's root, plus one.
    groups: Tables,
    /// For prefixes that are small integers, the number of the root plus one; such prefixes are not
    /// in `groups`.
    dense: Box<[u32]>,
}

/// The position of an enumeration of a sorted map.
#[derive(Clone, Copy, Debug, Default)]
pub struct OrderedPosition {
    within: LeafPosition,
    root: usize,
    /// The group whose tree comes next, plus one; zero if there is none.
    group: usize,
}

impl OrderedPosition {
    /// The position in words, as it is kept in registers.
    pub fn words(self) -> [u64; 4] {
        let LeafPosition { leaf, slot } = self.within;
        [leaf as u64, slot as u64, self.root as u64, self.group as u64]
    }

    /// The position of words kept in registers.
    pub fn of([leaf, slot, root, group]: [u64; 4]) -> Self {
        let within = LeafPosition { leaf: leaf as usize, slot: slot as usize };
        OrderedPosition { within, root: root as usize, group: group as usize }
    }
}

/// Words of a root.
#[inline(always)]
fn root_words<S: Shape>(shape: S) -> usize {
    HEAD + shape.value() + KEY_WORDS_MAX
}

/// The root that a piece describes.
#[inline(always)]
fn root_in(piece: &[u64]) -> Root {
    Root { node: piece[0] as usize, height: piece[1] as usize }
}

impl<S: Shape> Ordered<S> {
    /// An empty map. `prefix`: words before the shape's key; the shape's value is the payload.
    pub fn new(prefix: usize, shape: S, components: &[Component]) -> Self {
        let dense = if prefix == 1 { DENSE as usize } else { 0 };
        let mut map = Ordered {
            trees: Trees::new(shape, components),
            prefix,
            roots: Slab::new(root_words(shape)),
            groups: Tables::new(prefix.max(1), 1),
            dense: vec![0; dense].into_boxed_slice(),
        };
        if prefix == 0 {
            map.plant(&[]);
        }
        map
    }

    /// Widths of keys behind the prefix, and of payloads.
    #[cfg(feature = "native")]
    #[inline(always)]
    pub fn shape(&self) -> S {
        self.trees.shape()
    }

    /// Words of the prefix.
    #[cfg(feature = "native")]
    #[inline(always)]
    pub fn prefix_words(&self) -> usize {
        self.prefix
    }

    /// Makes a root with an empty tree; returns its number.
    fn plant(&mut self, prefix: &[u64]) -> usize {
        let number = self.roots.allocate();
        let root = self.trees.plant();
        let words = self.trees.shape().value();
        let piece = self.roots.piece_mut(number);
        piece.fill(0);
        (piece[0], piece[1]) = (root.node as u64, root.height as u64);
        piece[HEAD + words..][..prefix.len()].copy_from_slice(prefix);
        number
    }

    /// Sets the entry of a prefix: the number of its root plus one, or zero to remove the entry.
    fn lead(&mut self, prefix: &[u64], to: u64) {
        if let Some(dense) = self.dense_at(prefix) {
            self.dense[dense] = to as u32;
            return;
        }
        let Ok(()) = self.groups.change(prefix, |root| {
            root[0] = to;
            Ok::<(), core::convert::Infallible>(())
        });
    }

    #[inline(always)]
    fn dense_at(&self, prefix: &[u64]) -> Option<usize> {
        // The array is empty unless the prefix is one word.
        let value = order_int(prefix[0]) as usize;
        (value < self.dense.len()).then_some(value)
    }

    /// The number of a prefix's root, if it has one.
    #[inline(always)]
    fn number(&self, prefix: &[u64]) -> Option<usize> {
        if self.prefix == 0 {
            return Some(0);
        }
        let root = match self.dense_at(prefix) {
            Some(dense) => u64::from(self.dense[dense]),
            None => self.groups.get(prefix)?[0],
        };
        (root as usize).checked_sub(1)
    }

    #[inline(always)]
    fn root_piece(&self, number: usize) -> &[u64] {
        piece::<S>(&self.roots, number, root_words(self.trees.shape()))
    }

    #[inline(always)]
    fn prefix_of(&self, number: usize) -> &[u64] {
        &self.root_piece(number)[HEAD + self.trees.shape().value()..][..self.prefix]
    }

    #[inline(always)]
    fn root(&self, number: usize) -> Root {
        root_in(self.root_piece(number))
    }

    #[inline(always)]
    fn root_of(&self, prefix: &[u64]) -> Option<Root> {
        Some(self.root(self.number(prefix)?))
    }

    /// The payload of a key, if there is an entry.
    #[inline]
    pub fn get(&self, key: &[u64]) -> Option<&[u64]> {
        let (prefix, rest) = key.split_at(self.prefix);
        self.trees.get(self.root_of(prefix)?, rest)
    }

    /// Adds to the payload of a key; an entry whose payload becomes zero is removed.
    ///
    /// Errors: overflow of the entry, or of the sum of the absolute values of all entries; nothing
    /// has changed then.
    #[inline(never)]
    pub fn add(&mut self, key: &[u64], delta: &[u64]) -> Result<(), EvalError> {
        let (prefix, rest) = key.split_at(self.prefix);
        let Some(number) = self.number(prefix) else {
            return self.add_to_new(prefix, rest, delta);
        };
        let shape = self.trees.shape();
        let piece = piece_mut::<S>(&mut self.roots, number, root_words(shape));
        let (head, sum) = piece[..HEAD + shape.value()].split_at_mut(HEAD);
        let before = root_in(head);
        let mut root = before;
        head[2] |= u64::from(is_zero(&rest[..shape.key()]));
        let result = self.trees.add(&mut root, sum, rest, delta);
        if root != before {
            (head[0], head[1]) = (root.node as u64, root.height as u64);
        }
        if root.height == 0 && self.prefix > 0 && self.trees.is_empty(root) {
            self.drop_root(prefix, number, root);
        }
        result
    }

    /// Adds the first entry of a prefix.
    #[cold]
    fn add_to_new(&mut self, prefix: &[u64], rest: &[u64], delta: &[u64]) -> Result<(), EvalError> {
        if is_zero(delta) {
            return Ok(());
        }
        let number = self.plant(prefix);
        self.lead(prefix, number as u64 + 1);
        let mut key = [0; KEY_WORDS_MAX];
        key[..self.prefix].copy_from_slice(prefix);
        let words = self.prefix + rest.len();
        key[self.prefix..words].copy_from_slice(rest);
        self.add(&key[..words], delta)
    }

    #[cold]
    fn drop_root(&mut self, prefix: &[u64], number: usize, root: Root) {
        self.trees.fell(root);
        self.roots.free(number);
        self.lead(prefix, 0);
    }

    /// Adds up the payloads of all keys with this prefix whose rest is `low` or above, and below
    /// `high`.
    #[inline(never)]
    pub fn range_sum(&self, prefix: &[u64], low: &[u64], high: Option<&[u64]>, sum: &mut [u64]) {
        self.range_sum_here(prefix, low, high, sum);
    }

    /// [`Ordered::range_sum`], inlined into callers that know more of the range.
    #[inline(always)]
    pub fn range_sum_here(
        &self,
        prefix: &[u64],
        low: &[u64],
        high: Option<&[u64]>,
        sum: &mut [u64],
    ) {
        let shape = self.trees.shape();
        let (words, key_words) = (shape.value(), shape.key());
        let sum = &mut sum[..words];
        let Some(number) = self.number(prefix) else { return };
        if high.is_some_and(|high| !less(low, high, key_words)) {
            return;
        }
        let piece = self.root_piece(number);
        let root = root_in(piece);
        match high {
            None => shape.accumulate(self.trees.sums(), sum, &piece[HEAD..HEAD + words]),
            Some(high) => {
                let mut below = self.trees.sum_below(root, high);
                shape.accumulate(self.trees.sums(), sum, below.as_mut());
            }
        }
        // A lower bound that leaves out NULL alone, which is zero, where no rest was ever zero: so
        // it leaves out nothing.
        let leaves_null_out = low[key_words - 1] <= 1 && is_zero(&low[..key_words - 1]);
        if leaves_null_out && piece[2] == 0 {
            return;
        }
        let mut before = self.trees.sum_below(root, low);
        shape.deduct(self.trees.sums(), sum, before.as_mut());
    }

    /// Begins an enumeration at the first key with this prefix whose rest is not below `low`. With
    /// an empty prefix the enumeration has all keys, in no order of their prefixes.
    #[inline]
    pub fn start(&self, prefix: &[u64], low: &[u64]) -> OrderedPosition {
        if prefix.len() < self.prefix {
            return self.next_tree(0);
        }
        let Some(root) = self.number(prefix) else { return OrderedPosition::default() };
        let within = self.trees.start(self.root(root), low);
        OrderedPosition { within, root, group: 0 }
    }

    /// The beginning of the first tree at or after a position among all trees.
    #[cold]
    fn next_tree(&self, from: usize) -> OrderedPosition {
        let dense = self.dense.iter().enumerate().skip(from).find(|(_, root)| **root > 0);
        let found = match dense {
            Some((at, root)) => Some((at + 1, *root as usize)),
            None => {
                let next = self.groups.next(from.saturating_sub(self.dense.len()));
                next.map(|(after, _, root)| (self.dense.len() + after, root[0] as usize))
            }
        };
        let Some((after, root)) = found else { return OrderedPosition::default() };
        let within = self.trees.start(self.root(root - 1), &[0; KEY_WORDS_MAX]);
        OrderedPosition { within, root: root - 1, group: after + 1 }
    }

    /// The next entry: puts its key into `key` and returns its payload. The position is valid until
    /// the map changes.
    #[inline]
    pub fn step(&self, position: &mut OrderedPosition, key: &mut Key) -> Option<&[u64]> {
        loop {
            if let Some((rest, payload)) = self.trees.step(&mut position.within) {
                let prefix = self.prefix_of(position.root);
                for (word, from) in key.iter_mut().zip(prefix.iter().chain(rest)) {
                    *word = *from;
                }
                return Some(payload);
            }
            *position = self.next_tree(position.group.checked_sub(1)?);
            if position.group == 0 {
                return None;
            }
        }
    }

    /// The rest of the first key with this prefix whose rest is not below `low`.
    pub fn first_from(&self, prefix: &[u64], low: &[u64]) -> Option<&[u64]> {
        let root = self.root_of(prefix)?;
        self.trees.step(&mut self.trees.start(root, low)).map(|(key, _)| key)
    }

    /// The rest of the last key with this prefix whose rest is below `high`; of the last key with
    /// this prefix if there is no `high`.
    pub fn last_below(&self, prefix: &[u64], high: Option<&[u64]>) -> Option<&[u64]> {
        self.trees.last_below(self.root_of(prefix)?, high)
    }

    /// Among the keys with this prefix whose rest is `low` or above and below `high`: the rest of
    /// the first key at which the sum of a component, this key's included, exceeds `limit`. From
    /// the last key to the first if `descending`. The component must be nowhere negative.
    pub fn search(
        &self,
        prefix: &[u64],
        (low, high): (&[u64], Option<&[u64]>),
        component: usize,
        limit: i128,
        descending: bool,
    ) -> Option<&[u64]> {
        let root = self.root_of(prefix)?;
        let (sums, shape) = (self.trees.sums(), self.trees.shape());
        let at = sums.offset(component);
        let mut sum = shape.zero();
        let sum = sum.as_mut();
        let key = if descending {
            self.range_sum(prefix, &[0; KEY_WORDS_MAX], high, sum);
            // In descending order: the sum of the keys before the one sought must be less than this
            // value. The last such key is the first up to which the sum is not less.
            let rest = sums.value(sum, component, at).saturating_sub(limit);
            match (limit < 0, rest > 0) {
                (true, _) => self.trees.last_below(root, high)?,
                (false, true) => self.trees.passes(root, component, at, rest - 1)?,
                (false, false) => return None,
            }
        } else {
            self.range_sum(prefix, &[0; KEY_WORDS_MAX], Some(low), sum);
            let before = sums.value(sum, component, at);
            if limit < 0 {
                self.first_from(prefix, low)?
            } else {
                self.trees.passes(root, component, at, before.saturating_add(limit))?
            }
        };
        let words = shape.key();
        let within = key >= &low[..words] && high.is_none_or(|high| key < &high[..words]);
        within.then_some(key)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.trees.len()
    }

    /// Takes and touches memory for this number of entries.
    pub fn reserve(&mut self, entries: usize) {
        self.trees.reserve(entries);
        self.roots.reserve(1);
    }

    /// Memory, in bytes.
    pub fn bytes(&self) -> u64 {
        let dense = 4 * self.dense.len() as u64;
        self.trees.bytes() + self.roots.bytes() + self.groups.bytes() + dense
    }

    /// Panics unless all invariants hold. O(entries).
    pub fn check(&self) {
        self.roots.check();
        self.groups.check();
        let mut numbers = Vec::new();
        if self.prefix == 0 {
            numbers.push(0);
        }
        let mut position = if self.prefix > 0 { self.next_tree(0) } else { Default::default() };
        while position.group > 0 {
            let prefix = self.prefix_of(position.root);
            assert_eq!(self.number(prefix), Some(position.root));
            assert!(!self.trees.is_empty(self.root(position.root)));
            numbers.push(position.root);
            position = self.next_tree(position.group - 1);
        }
        assert_eq!(numbers.len(), self.roots.live());
        self.trees.check(numbers.iter().map(|number| {
            let sum = &self.root_piece(*number)[HEAD..][..self.trees.shape().value()];
            (self.root(*number), sum.to_vec())
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::{Fixed, Wide};
    use super::super::sums::Sums;
    use super::*;
    use crate::random::Random;
    use alloc::collections::BTreeMap;

    /// Makes random changes and asks every kind of question, compared with the standard library's
    /// sorted map. Keys have a prefix of `prefix` words with few values.
    fn compare<S: Shape>(
        prefix: usize,
        shape: S,
        components: &[Component],
        domain: u64,
        seed: u64,
    ) {
        let mut random = Random::new(seed);
        let mut map = Ordered::new(prefix, shape, components);
        let sums = Sums::new(components);
        let mut model: BTreeMap<Vec<u64>, Vec<u64>> = BTreeMap::new();
        let random_key = |random: &mut Random| {
            let mut key = vec![3; prefix + shape.key()];
            key[prefix] = random.below(if shape.key() > 1 { 4 } else { domain });
            key[prefix + shape.key() - 1] = random.below(domain);
            // Some of the values lie in the array of small integers, some do not.
            let values = [order_int(0), order_int(7), order_int(DENSE), 0, 5];
            let groups = key[..prefix].iter_mut();
            groups.for_each(|word| *word = values[random.below(5) as usize]);
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
            let (a, mut b) = (random_key(&mut random), random_key(&mut random));
            b[..prefix].copy_from_slice(&a[..prefix]);
            let (low_key, high_key) = if a <= b { (a, b) } else { (b, a) };
            let (group, low) = low_key.split_at(prefix);
            let high = &high_key[prefix..];
            let bound = if step % 2 == 0 { Some(high) } else { None };
            let of_group = |entry: &(&Vec<u64>, &Vec<u64>)| entry.0.starts_with(group);
            let range: Vec<_> = match bound {
                Some(_) => model.range(low_key.clone()..high_key.clone()).collect(),
                None => model.range(low_key.clone()..).filter(of_group).collect(),
            };
            let mut expected = vec![0; sums.words()];
            range.iter().for_each(|(_, row)| sums.accumulate(&mut expected, row));
            let mut sum = vec![0; sums.words()];
            map.range_sum(group, low, bound, &mut sum);
            assert_eq!(sum, expected);
            let mut position = map.start(group, low);
            let mut found = [0; KEY_WORDS_MAX];
            for (key, row) in &range {
                assert_eq!(map.step(&mut position, &mut found), Some(&row[..]));
                assert_eq!(found[..key.len()], key[..]);
                assert_eq!(map.get(key), Some(&row[..]));
            }
            if bound.is_none() {
                assert_eq!(map.step(&mut position, &mut found), None);
            }
            let first = range.first().map(|(key, _)| &key[prefix..]);
            let first = first.filter(|_| bound.is_none());
            assert!(bound.is_some() || map.first_from(group, low) == first);
            let last = model.range(..high_key.clone()).rev().find(of_group);
            assert_eq!(map.last_below(group, Some(high)), last.map(|(key, _)| &key[prefix..]));
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
                        let found = map.search(group, (low, bound), component, limit, descending);
                        found.map(<[u64]>::to_vec)
                    };
                    let up = up.map(|(_, (key, _))| key[prefix..].to_vec());
                    assert_eq!(search(false), up, "ascending {limit}");
                    let down = down.map(|(_, (key, _))| key[prefix..].to_vec());
                    assert_eq!(search(true), down, "descending {limit}");
                }
            }
        }
        assert_eq!(map.len(), model.len());
        let mut position = map.start(&[], &[0; KEY_WORDS_MAX]);
        let (mut entries, mut key) = (BTreeMap::new(), [0; KEY_WORDS_MAX]);
        while let Some(row) = map.step(&mut position, &mut key) {
            entries.insert(key[..prefix + shape.key()].to_vec(), row.to_vec());
        }
        assert_eq!(entries, model);
        for (key, row) in core::mem::take(&mut model) {
            let mut delta = vec![0; sums.words()];
            sums.deduct(&mut delta, &row);
            map.add(&key, &delta).expect("a sum that was zero before");
            if random.below(50) == 0 {
                map.check();
            }
        }
        map.check();
        assert_eq!((map.len(), map.roots.live()), (0, usize::from(prefix == 0)));
    }

    #[test]
    fn agrees_with_a_sorted_map() {
        use Component::{Float, Int};
        compare(0, Fixed::<1, 1>, &[Int], 5000, 1);
        compare(0, Fixed::<2, 2>, &[Int, Int], 400, 2);
        compare(0, Fixed::<2, 2>, &[Int, Int], 40, 3);
        compare(0, Wide { key: 3, value: 5 }, &[Component::Wide, Int, Float], 900, 4);
        compare(1, Fixed::<1, 2>, &[Int, Int], 300, 5);
        compare(1, Fixed::<1, 3, 0b10>, &[Int, Float], 300, 6);
        compare(2, Fixed::<1, 3, 0b1>, &[Component::Wide, Int], 300, 7);
        compare(1, Fixed::<1, 5, 0b101>, &[Float, Component::Wide, Int], 30, 8);
        compare(3, Wide { key: 2, value: 2 }, &[Component::Wide], 90, 9);
    }

    #[test]
    fn sums_of_ranges_never_wrap() {
        let mut map = Ordered::new(0, Fixed::<1, 2>, &[Component::Int; 2]);
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
            let mut map = Ordered::new(0, Fixed::<1, 1>, &[Component::Int]);
            for key in 0..50_000 {
                let key = if descending { 50_000 - key } else { key };
                map.add(&[key], &[1]).expect("fits");
            }
            map.check();
            let height = map.root(0).height;
            assert!(height <= 6, "{height}");
        }
    }
}
