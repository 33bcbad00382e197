//! A hash table with a bound on the cost of a change, however large the table is.
//!
//! Linear probing; the home of a key is given by the upper bits of its hash, so that doubling the
//! table keeps the order of homes. A full table is moved into one of twice the size from the front
//! to the back, [`MOVES`] slots per insert and on to the end of the cluster: keys whose home has been
//! table keeps the order of homes. A full table is moved into one of twice the size from front to
//! back: every insert moves [`MOVES`] slots and then the rest of the cluster. Keys whose home has
//! been passed are in the new table, all others in the old one, so that a look-up needs only one of
//! the two. Slots of the old table that were passed are zero again, and their memory is used for
//! the new one.
//! words, so values that are zero cannot be stored. A *cluster* is a run of slots that are not empty.
//! Words: a *slot* has the words of a key and of a value; a slot whose value is zero in all words
//! is empty, so a value of zero cannot be stored. A *cluster* is a run of slots that are not empty.
//! 1. Between a key's home and its slot no slot is empty.
//! 2. Homes in the old table are not before the cursor, and the slot before the cursor is empty.
//! 3. `len` counts the slots that are not empty.
//!
//! Cost: one cluster for lookups; [`MOVES`] + two clusters and at most two fresh segments (32 KiB)
//! for an insert. Clusters are O(log n) long for keys not chosen to collide: at most 11 of 16 slots
//! are taken when a move begins, and 12 of 16 before it ends.
//! Source: the order-preserving move is Litwin's linear hashing (VLDB 1980), by slots instead of pages.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::SEGMENT_WORDS;
use super::hint::ask_for_all;
use super::shape::{Shape, hash, is_zero, same};
use super::slab::touch;

/// Slots of the old table that one insert moves.
pub const MOVES: usize = 16;
/// Slots of the smallest table, as logarithm.
const BITS_MIN: u32 = 3;

/// A hash table.
#[derive(Debug)]
pub struct Table<S> {
    shape: S,
    current: Slots,
    /// The table that is being moved; empty if none is.
    old: Slots,
    /// The first home of the old table that has not moved; `usize::MAX` if nothing is being moved.
    cursor: usize,
    len: usize,
    /// Zeroed segments for coming tables.
    spare: Vec<Box<[u64]>>,
    /// Empty lists for the segments of coming tables, the largest first.
    lists: Vec<Vec<Box<[u64]>>>,
    /// The segment list of the table that was moved last, all of whose segments have been passed;
    /// it is freed in steps, too.
    retired: Vec<Box<[u64]>>,
    growths: u64,
    work: Work,
}

/// The work of a change in steps, a measure that does not depend on the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Slots looked at by the last change.
    pub probes: usize,
    /// Slots moved by the last change.
    pub moved: usize,
    /// Segments allocated by the last change.
    pub segments: usize,
}

/// An array of slots in segments. Slots behind the last segment have no memory and count as empty.
#[derive(Debug, Default)]
struct Slots {
    segments: Vec<Box<[u64]>>,
    /// Logarithm of the number of homes.
    bits: u32,
    /// Logarithm of the slots in a segment.
    segment_bits: u32,
}

impl Slots {
    fn new(bits: u32, entry_words: usize) -> Self {
        let segment_bits = Self::segment_bits(bits, entry_words);
        Slots { segments: Vec::new(), bits, segment_bits }
    }

    /// Logarithm of the slots in a segment, for a table of `bits` and entries of a width.
    fn segment_bits(bits: u32, entry_words: usize) -> u32 {
        (SEGMENT_WORDS / entry_words).max(1).ilog2().min(bits)
    }

    /// The most segments of a table: one more than its homes need, since clusters may reach beyond
    /// the last home.
    fn segments_max(&self) -> usize {
        (1 << (self.bits - self.segment_bits)) + 1
    }

    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        (hash >> (64 - self.bits)) as usize
    }

    /// Words of a slot; `None` if it lies behind the last segment.
    #[inline(always)]
    fn slot(&self, slot: usize, words: usize) -> Option<&[u64]> {
        let segment = self.segments.get(slot >> self.segment_bits)?;
        let at = (slot & ((1 << self.segment_bits) - 1)) * words;
        Some(&segment[at..at + words])
    }

    /// Words from a slot to the end of its segment, so that a search through neighbouring slots
    /// finds their segment once. (`chunks_exact` would divide.)
    #[inline(always)]
    fn rest(&self, slot: usize, words: usize) -> Option<&[u64]> {
        let segment = self.segments.get(slot >> self.segment_bits)?;
        Some(&segment[(slot & ((1 << self.segment_bits) - 1)) * words..])
    }

    /// Words from a slot to the end of its segment, to be written.
    #[inline(always)]
    fn rest_mut(&mut self, slot: usize, words: usize) -> &mut [u64] {
        let segment = &mut self.segments[slot >> self.segment_bits];
        &mut segment[(slot & ((1 << self.segment_bits) - 1)) * words..]
    }

    /// Whether a slot lies behind the last segment and so has no memory.
    #[inline(always)]
    fn ends_before(&self, slot: usize) -> bool {
        slot >> self.segment_bits >= self.segments.len()
    }

    #[inline(always)]
    fn slot_mut(&mut self, slot: usize, words: usize) -> &mut [u64] {
        let segment = &mut self.segments[slot >> self.segment_bits];
        let at = (slot & ((1 << self.segment_bits) - 1)) * words;
        &mut segment[at..at + words]
    }

    /// Number of slots that have memory.
    fn count(&self) -> usize {
        self.segments.len() << self.segment_bits
    }

    fn segment_words(&self, entry_words: usize) -> usize {
        entry_words << self.segment_bits
    }
}

impl<S: Shape> Table<S> {
    /// Makes an empty table, which takes memory with its first entry.
    pub fn new(shape: S) -> Self {
        Table {
            shape,
            current: Slots::new(BITS_MIN, shape.entry()),
            old: Slots::default(),
            cursor: usize::MAX,
            len: 0,
            spare: Vec::new(),
            lists: Vec::new(),
            retired: Vec::new(),
            growths: 0,
            work: Work::default(),
        }
    }

    /// Widths of keys and values.
    #[cfg(feature = "native")]
    #[inline(always)]
    pub fn shape(&self) -> S {
        self.shape
    }

    /// Whether keys of this hash are in the old table.
    #[inline(always)]
    fn is_old(&self, hash: u64) -> bool {
        self.cursor != usize::MAX && self.old.home(hash) >= self.cursor
    }

    /// The value of a key, if there is an entry.
    #[inline(always)]
    pub fn get(&self, key: &[u64]) -> Option<&[u64]> {
        let key = &key[..self.shape.key()];
        let slot = self.find(hash(key), |slot| same(slot, key, key.len()))?;
        Some(&slot[key.len()..])
    }

    /// The slot with this hash for which `is_it` holds, if there is one.
    #[inline(always)]
    pub fn find(&self, hash: u64, is_it: impl Fn(&[u64]) -> bool) -> Option<&[u64]> {
        let slots = if self.is_old(hash) { &self.old } else { &self.current };
        let words = self.shape.entry();
        let mut at = slots.home(hash);
        loop {
            let mut rest = slots.rest(at, words)?;
            while let Some((slot, behind)) = rest.split_at_checked(words) {
                if is_zero(&slot[self.shape.key()..]) {
                    return None;
                }
                if is_it(slot) {
                    return Some(slot);
                }
                rest = behind;
                at += 1;
            }
        }
    }

    /// Prefetches the home of a key's slot.
    #[inline(always)]
    pub fn ask_for_place(&self, key: &[u64]) {
        self.ask_for_home(hash(&key[..self.shape.key()]));
    }

    /// Prefetches the home of a hash.
    #[inline(always)]
    pub fn ask_for_home(&self, hash: u64) {
        let slots = if self.is_old(hash) { &self.old } else { &self.current };
        if let Some(slot) = slots.slot(slots.home(hash), self.shape.entry()) {
            ask_for_all(slot);
        }
    }

    /// Lets `f` change the value of a key, which is zero if the key has no entry. If `f` leaves the
    /// value zero, the key has no entry afterwards.
    ///
    /// Errors: those of `f`, which must leave the value as it was if it fails.
    #[inline(always)]
    pub fn change<R, E>(
        &mut self,
        key: &[u64],
        f: impl FnOnce(&mut [u64]) -> Result<R, E>,
    ) -> Result<R, E> {
        let key = &key[..self.shape.key()];
        self.change_by(hash(key), |slot| same(slot, key, key.len()), key, f)
    }

    /// Does what [`Table::change`] does, on the slot with this hash for which `is_it` holds; a new
    /// slot gets this key.
    #[inline(always)]
    pub fn change_by<R, E>(
        &mut self,
        hash: u64,
        is_it: impl Fn(&[u64]) -> bool,
        key: &[u64],
        f: impl FnOnce(&mut [u64]) -> Result<R, E>,
    ) -> Result<R, E> {
        let (words, key_words) = (self.shape.entry(), self.shape.key());
        let is_old = self.is_old(hash);
        let home = self.side(is_old).home(hash);
        let mut at = home;
        let mut segments = 0;
        let (slot, found) = 'probe: loop {
            if self.side(is_old).ends_before(at) {
                segments += self.grow_to(is_old, at);
            }
            let slots = if is_old { &mut self.old } else { &mut self.current };
            let mut rest = slots.rest_mut(at, words);
            while let Some((slot, behind)) = rest.split_at_mut_checked(words) {
                if is_zero(&slot[key_words..]) {
                    break 'probe (slot, false);
                }
                if is_it(slot) {
                    break 'probe (slot, true);
                }
                rest = behind;
                at += 1;
            }
        };
        let (slot_key, value) = slot.split_at_mut(key_words);
        let result = f(value);
        let is = !is_zero(value);
        if found != is {
            self.work = Work { probes: at - home + 1, segments, ..Work::default() };
            if is {
                slot_key.copy_from_slice(key);
                self.count_in();
            } else {
                self.remove_at(is_old, at);
            }
        }
        result
    }

    #[inline(always)]
    fn side(&self, is_old: bool) -> &Slots {
        if is_old { &self.old } else { &self.current }
    }

    /// Counts a new entry, and moves on if the table is growing.
    fn count_in(&mut self) {
        self.len += 1;
        if !self.retired.is_empty() {
            self.retired.truncate(self.retired.len().saturating_sub(MOVES));
        }
        if self.cursor != usize::MAX {
            self.advance();
        } else if self.len >= (11 << self.current.bits) / 16 {
            self.start_growing();
        }
    }

    /// Removes an entry from its cluster; later entries of the cluster move up where their homes
    /// allow.
    fn remove_at(&mut self, is_old: bool, at: usize) {
        self.len -= 1;
        let (words, key_words) = (self.shape.entry(), self.shape.key());
        let slots = if is_old { &mut self.old } else { &mut self.current };
        let mut hole = at;
        let mut next = at + 1;
        while let Some(slot) = slots.slot(next, words).filter(|slot| !is_zero(&slot[key_words..])) {
            if slots.home(self.shape.hash(slot)) <= hole {
                for word in 0..words {
                    let moved = slots.slot(next, words).expect("looked at above")[word];
                    slots.slot_mut(hole, words)[word] = moved;
                }
                hole = next;
            }
            next += 1;
        }
        self.work.probes += next - at;
        slots.slot_mut(hole, words).fill(0);
    }

    /// Allocates the segments up to that of a slot; returns how many were allocated.
    #[cold]
    fn grow_to(&mut self, is_old: bool, at: usize) -> usize {
        let slots = if is_old { &mut self.old } else { &mut self.current };
        let segment_words = slots.segment_words(self.shape.entry());
        let mut allocated = 0;
        while slots.ends_before(at) {
            let spare = self.spare.pop_if(|spare| spare.len() == segment_words);
            slots.segments.push(spare.unwrap_or_else(|| {
                allocated += 1;
                vec![0; segment_words].into_boxed_slice()
            }));
        }
        allocated
    }

    /// Begins to grow: makes the next table, whose segments come as the cursor moves.
    #[cold]
    fn start_growing(&mut self) {
        let mut next = Slots { bits: self.current.bits + 1, ..Slots::default() };
        next.segment_bits = Slots::segment_bits(next.bits, self.shape.entry());
        next.segments = match self.lists.pop_if(|list| list.capacity() >= next.segments_max()) {
            Some(list) => list,
            None => Vec::with_capacity(next.segments_max()),
        };
        self.old = core::mem::replace(&mut self.current, next);
        self.cursor = 0;
        self.growths += 1;
        self.advance();
    }

    /// Moves some slots of the old table, and the rest of the last cluster.
    fn advance(&mut self) {
        let (words, key_words) = (self.shape.entry(), self.shape.key());
        let mut passed = 0;
        let mut is_done = false;
        while !is_done {
            if self.cursor == self.old.count() {
                self.retired = core::mem::take(&mut self.old.segments);
                self.old = Slots::default();
                self.cursor = usize::MAX;
                break;
            }
            // The segment is taken out of the old table meanwhile, because the new table changes.
            let number = self.cursor >> self.old.segment_bits;
            let mut segment = core::mem::take(&mut self.old.segments[number]);
            let from = self.cursor - (number << self.old.segment_bits);
            for slot in segment[from * words..].chunks_exact_mut(words) {
                let is_empty = is_zero(&slot[key_words..]);
                if !is_empty {
                    self.insert_moved(slot);
                }
                self.cursor += 1;
                passed += 1;
                is_done = is_empty && passed >= MOVES;
                if is_done {
                    break;
                }
            }
            if self.cursor >> self.old.segment_bits == number {
                self.old.segments[number] = segment;
            } else if segment.len() == self.current.segment_words(words) {
                // All of the segment has been passed: its memory is for the new table.
                self.spare.push(segment);
            }
        }
        self.work.moved = passed;
    }

    /// Moves an entry of the old table into the new one, and zeroes its old slot.
    #[inline(always)]
    fn insert_moved(&mut self, from: &mut [u64]) {
        let (words, key_words) = (self.shape.entry(), self.shape.key());
        let mut at = self.current.home(self.shape.hash(from));
        loop {
            if self.current.ends_before(at) {
                self.work.segments += self.grow_to(false, at);
            }
            let mut rest = self.current.rest_mut(at, words);
            while let Some((to, behind)) = rest.split_at_mut_checked(words) {
                if is_zero(&to[key_words..]) {
                    to.copy_from_slice(from);
                    from.fill(0);
                    return;
                }
                rest = behind;
                at += 1;
            }
        }
    }

    /// Takes and touches memory for this number of entries. Growing to that number then asks the
    /// allocator for nothing but small tables and lists of segments.
    pub fn reserve(&mut self, entries: usize) {
        let mut bits = BITS_MIN;
        while entries >= (11 << bits) / 16 {
            bits += 1;
        }
        let goal = Slots::new(bits, self.shape.entry());
        let segment_words = goal.segment_words(self.shape.entry());
        let full = (1 << (bits - goal.segment_bits)) + 2;
        let there = self.current.segments.iter().chain(&self.old.segments).chain(&self.spare);
        let there = there.filter(|segment| segment.len() == segment_words).count();
        self.spare.reserve(full);
        self.lists.clear();
        for bits in (self.current.bits + 1..=bits).rev() {
            let slots = Slots::new(bits, self.shape.entry());
            let mut list = Vec::new();
            list.resize_with(slots.segments_max(), Box::default);
            list.clear();
            self.lists.push(list);
        }
        for _ in there..full {
            let mut segment = vec![0; segment_words].into_boxed_slice();
            touch(&mut segment);
            self.spare.push(segment);
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// How often the table began to double.
    pub fn growths(&self) -> u64 {
        self.growths
    }

    /// The work of the last change that inserted or removed an entry. For tests, which bound it.
    #[cfg_attr(not(test), allow(dead_code))]
    pub fn work(&self) -> Work {
        self.work
    }

    /// Memory, in bytes.
    pub fn bytes(&self) -> u64 {
        let all = [&self.current.segments, &self.old.segments, &self.spare];
        let words: usize = all
            .iter()
            .map(|list| match list.last() {
                // The segments of a list all have the size of the last one, but those passed have
                // been taken out.
                Some(last) => list.len() * last.len() + 2 * list.capacity(),
                None => 0,
            })
            .sum();
        let passed = match (self.cursor, self.old.segments.last()) {
            (usize::MAX, _) | (_, None) => 0,
            (cursor, Some(last)) => (cursor >> self.old.segment_bits) * last.len(),
        };
        (words - passed) as u64 * 8
    }

    /// The first entry at or after a position, and the position after that entry. The first
    /// position is 0; a position is valid until the table changes.
    #[inline]
    pub fn next(&self, mut position: usize) -> Option<(usize, &[u64], &[u64])> {
        let words = self.shape.entry();
        let old = if self.cursor == usize::MAX { 0 } else { self.old.count() };
        if position < old {
            position = position.max(self.cursor);
        }
        loop {
            let slot = match position.checked_sub(old) {
                None => self.old.slot(position, words)?,
                Some(at) => self.current.slot(at, words)?,
            };
            let (key, value) = slot.split_at(self.shape.key());
            position += 1;
            if !is_zero(value) {
                return Some((position, key, value));
            }
        }
    }

    /// Panics unless invariants 1 to 3 hold. O(slots).
    pub fn check(&self) {
        let words = self.shape.entry();
        let mut found = 0;
        for (slots, first) in [(&self.current, 0), (&self.old, self.cursor)] {
            let is_old = core::ptr::eq(slots, &self.old);
            if is_old && self.cursor == usize::MAX {
                continue;
            }
            let mut run = first;
            for at in first..slots.count() {
                let slot = slots.slot(at, words).expect("within the segments");
                if is_zero(&slot[self.shape.key()..]) {
                    run = at + 1;
                    continue;
                }
                let hash = self.shape.hash(slot);
                assert!(slots.home(hash) >= run, "empty slot before an entry");
                assert!(slots.home(hash) <= at);
                assert_eq!(self.is_old(hash), is_old);
                found += 1;
            }
        }
        assert_eq!(found, self.len);
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::{Fixed, Wide};
    use super::*;
    use crate::random::Random;
    use alloc::collections::BTreeMap;
    use core::convert::Infallible;

    fn add<S: Shape>(table: &mut Table<S>, key: &[u64], by: u64) {
        let done: Result<(), Infallible> = table.change(key, |value| {
            value[0] = value[0].wrapping_add(by);
            Ok(())
        });
        done.expect("never fails");
    }

    fn compare<S: Shape>(shape: S, keys: u64, seed: u64) {
        let mut random = Random::new(seed);
        let mut table = Table::new(shape);
        let mut model: BTreeMap<Vec<u64>, u64> = BTreeMap::new();
        for step in 0..6000 {
            // Periods with more inserts and periods with more deletes take turns.
            let growing = (step / 1500) % 2 == 0;
            let mut key = vec![random.below(keys)];
            key.resize(shape.key(), 7);
            let present = model.get(&key).copied().unwrap_or(0);
            let by = match random.below(4) {
                0 => 1,
                _ if growing == (present == 0) => {
                    if present == 0 {
                        5
                    } else {
                        present.wrapping_neg()
                    }
                }
                _ => 0,
            };
            add(&mut table, &key, by);
            let value = present.wrapping_add(by);
            if value == 0 {
                model.remove(&key);
            } else {
                model.insert(key, value);
            }
            if step % 37 == 0 {
                table.check();
            }
        }
        table.check();
        assert_eq!(table.len(), model.len());
        let mut found = BTreeMap::new();
        let mut position = 0;
        while let Some((next, key, value)) = table.next(position) {
            position = next;
            assert!(found.insert(key.to_vec(), value[0]).is_none());
            assert_eq!(table.get(key), Some(value));
        }
        assert_eq!(found, model);
        assert!(table.growths() > 2);
    }

    #[test]
    fn agrees_with_a_sorted_map() {
        compare(Fixed::<1, 1>, 3000, 1);
        compare(Fixed::<2, 3>, 500, 2);
        compare(Wide { key: 5, value: 2 }, 3000, 3);
        compare(Wide { key: 1, value: 700 }, 200, 4);
    }

    #[test]
    fn an_insert_costs_the_same_however_large_the_table_is() {
        let mut random = Random::new(9);
        let mut table = Table::new(Fixed::<1, 1>);
        for count in 0..600_000_u64 {
            add(&mut table, &[random.next()], 1);
            let Work { probes, moved, segments } = table.work();
            assert!(probes < 200, "{probes} probes at {count} entries");
            assert!(moved < MOVES + 200, "{moved} moved at {count} entries");
            assert!(segments <= 2, "{segments} segments at {count} entries");
        }
        assert!(table.growths() > 15);
        table.check();
    }

    #[test]
    fn reserved_memory_is_all_that_growing_takes() {
        let mut table = Table::new(Fixed::<1, 1>);
        table.reserve(100_000);
        let bytes = table.bytes();
        for key in 0..100_000 {
            add(&mut table, &[key], 1);
            // Tables smaller than a segment have smaller pieces of memory.
            assert!(key < 2000 || table.work().segments == 0, "at {key}");
        }
        assert!(table.bytes() < bytes + bytes / 50, "{} {bytes}", table.bytes());
        table.check();
    }

    #[test]
    fn an_error_leaves_no_entry() {
        let mut table = Table::new(Fixed::<1, 1>);
        assert_eq!(table.change(&[0], |_| Err::<(), _>(5)), Err(5));
        assert_eq!((table.len(), table.get(&[0])), (0, None));
        add(&mut table, &[0], 3);
        assert_eq!(table.change(&[0], |_| Err::<(), _>(5)), Err(5));
        assert_eq!(table.get(&[0]), Some(&[3][..]));
    }
}
