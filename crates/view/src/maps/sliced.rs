//! A hash map whose entries can be enumerated by some of their key's columns.
//!
//! Entries have lasting numbers. A table leads from keys to these numbers; a slot of it has the
//! number and the upper half of the key's hash, the key itself stands in the entry alone. For every
//! slice another table leads from the values of the slice's columns to a list of numbers. The first
//! number of a list stands in that table, since most lists have no other; the rest stand in chunks
//! of [`CHUNK_IDS`]. An entry knows its place in each of its lists, so that it leaves a list in
//! O(1): the list's last number takes its place.
//!
//! Cost: `get` and changes of an entry take one look-up and the entry; inserts and deletes also
//! change one table per slice; a step of an enumeration is O(1).
//!
//! Invariants, all checked by [`Sliced::check`]:
//! 1. Every key leads to its entry.
//! 2. Every entry stands once in each of its lists, at the place that the entry records.
//! 3. A list that is not empty has a first number; all its chunks but the first are full.

use alloc::vec::Vec;
use core::convert::Infallible;

use super::hint::ask_for_all;
use super::shape::{Numbers, Shape, hash, is_zero, same};
use super::slab::Slab;
use super::table::Table;
use super::tables::Tables;

/// Numbers in a chunk of a list; together with the link to the next chunk they fill a cache line.
const CHUNK_IDS: usize = 7;
/// Words of a chunk. A place is the chunk's number times this, plus the word within the chunk.
const CHUNK: usize = CHUNK_IDS + 1;
/// Place of a list's first number.
const FIRST: u64 = 0;
/// Values of a slice with at most this many words are put together on the stack.
const FEW: usize = 4;

/// A hash map with slices.
#[derive(Debug)]
pub struct Sliced<S> {
    /// Widths of entries: key and value.
    shape: S,
    /// Numbers of entries by key.
    index: Table<Numbers>,
    /// Entries: key, value, and per slice the entry's place in its list, which is [`FIRST`] or
    /// chunk × [`CHUNK`] + word.
    entries: Slab,
    slices: Vec<Slice>,
    /// Chunks: the link (the last place of another chunk, or zero), then numbers.
    chunks: Slab,
}

#[derive(Debug)]
struct Slice {
    /// The words of the key that the slice's columns have.
    words: Vec<u16>,
    /// Lists by the values of these words: the first number plus one, and the place of the last
    /// number, or zero if the list has but one.
    lists: Tables,
}

/// The position of an enumeration of a slice.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlicePosition {
    /// The first number of the list plus one; zero once it has been passed.
    first: u64,
    /// Place of the next number, zero at the end.
    place: u64,
}

impl SlicePosition {
    /// The position in words, as it is kept in registers.
    #[inline(always)]
    pub fn words(self) -> [u64; 2] {
        [self.first, self.place]
    }

    /// The position of words kept in registers.
    #[inline(always)]
    pub fn of([first, place]: [u64; 2]) -> Self {
        SlicePosition { first, place }
    }
}

/// The place before a place: the last one of the linked chunk, if the place is the first of its
/// chunk.
#[inline(always)]
fn before(chunk: &[u64], place: u64) -> u64 {
    if place % CHUNK as u64 > 1 { place - 1 } else { chunk[0] }
}

impl Slice {
    /// Hands the values that a key has in the slice's columns to `then`.
    #[inline(always)]
    fn with_values<T>(words: &[u16], key: &[u64], then: impl FnOnce(&[u64]) -> T) -> T {
        let (mut few, mut many) = ([0; FEW], Vec::new());
        let values = if words.len() <= FEW {
            &mut few[..words.len()]
        } else {
            many.resize(words.len(), 0);
            &mut many[..]
        };
        for (value, word) in values.iter_mut().zip(words) {
            *value = key[usize::from(*word)];
        }
        then(values)
    }

    /// Lets `then` change the table's entry for the list of a key.
    #[inline(always)]
    fn change(&mut self, key: &[u64], then: impl FnOnce(&mut [u64])) {
        let done: Result<(), Infallible> = Self::with_values(&self.words, key, |values| {
            self.lists.change(values, |list| {
                then(list);
                Ok(())
            })
        });
        let Ok(()) = done;
    }
}

impl<S: Shape> Sliced<S> {
    /// Makes an empty map. `slices`: for each slice, the words of the key by which it enumerates.
    pub fn new(shape: S, slices: Vec<Vec<u16>>) -> Self {
        let slice = |words: Vec<u16>| {
            let lists = Tables::new(words.len(), 2);
            Slice { words, lists }
        };
        Sliced {
            shape,
            index: Table::new(Numbers),
            entries: Slab::new(shape.entry() + slices.len()),
            slices: slices.into_iter().map(slice).collect(),
            chunks: Slab::new(CHUNK),
        }
    }

    /// Widths of keys and values.
    #[cfg(feature = "native")]
    #[inline(always)]
    pub fn shape(&self) -> S {
        self.shape
    }

    /// The number of a key's entry, if the key has one.
    #[inline(always)]
    fn number(&self, hash: u64, key: &[u64]) -> Option<usize> {
        let found = self.index.find(hash, |slot| {
            (slot[0] ^ hash) & Numbers::HASH == 0
                && same(self.entries.piece(Numbers::number(slot[0])), key, self.shape.key())
        });
        found.map(|slot| Numbers::number(slot[0]))
    }

    #[inline(always)]
    fn hash(&self, key: &[u64]) -> u64 {
        hash(&key[..self.shape.key()]) & Numbers::HASH
    }

    /// The value of a key, if there is an entry.
    #[inline]
    pub fn get(&self, key: &[u64]) -> Option<&[u64]> {
        self.number(self.hash(key), key).map(|id| self.entry(id).1)
    }

    /// Key and value of an entry.
    #[inline(always)]
    fn entry(&self, id: usize) -> (&[u64], &[u64]) {
        let entry = self.entries.piece(id);
        entry[..self.shape.entry()].split_at(self.shape.key())
    }

    /// Prefetches the slots that lead to a key's entry and, with `changes`, to its lists.
    #[inline]
    pub fn ask_for_place(&self, key: &[u64], changes: bool) {
        self.index.ask_for_home(self.hash(key));
        if changes {
            for slice in &self.slices {
                Slice::with_values(&slice.words, key, |values| slice.lists.ask_for_place(values));
            }
        }
    }

    /// Prefetches the entry of a key, or one whose hash agrees in the upper half.
    #[inline]
    pub fn ask_for_entry(&self, key: &[u64]) {
        let hash = self.hash(key);
        let found = self.index.find(hash, |slot| (slot[0] ^ hash) & Numbers::HASH == 0);
        if let Some(slot) = found {
            self.ask_for_number(Numbers::number(slot[0]));
        }
    }

    /// Prefetches the slot that leads to the list of some values in a slice.
    #[inline]
    pub fn ask_for_list(&self, slice: usize, values: &[u64]) {
        self.slices[slice].lists.ask_for_place(values);
    }

    /// Prefetches the first entry of the list of some values in a slice.
    #[inline]
    pub fn ask_for_first(&self, slice: usize, values: &[u64]) {
        if let Some(list) = self.slices[slice].lists.get(values) {
            self.ask_for_number((list[0] as usize).wrapping_sub(1));
        }
    }

    #[inline(always)]
    fn ask_for_number(&self, id: usize) {
        ask_for_all(self.entries.piece(id));
    }

    /// Changes the value of a key: see [`Table::change`].
    #[inline(always)]
    pub fn change<R, E>(
        &mut self,
        key: &[u64],
        f: impl FnOnce(&mut [u64]) -> Result<R, E>,
    ) -> Result<R, E> {
        let hash = self.hash(key);
        let found = self.number(hash, key);
        let id = match found {
            Some(id) => id,
            None => self.allocate(key),
        };
        let value = &mut self.entries.piece_mut(id)[self.shape.key()..self.shape.entry()];
        let result = f(value);
        let is = !is_zero(value);
        if found.is_some() != is {
            if is { self.enter(hash, id) } else { self.leave(hash, id) }
        }
        if !is {
            self.entries.free(id);
        }
        result
    }

    /// Makes an entry of value zero, which neither table nor lists know yet.
    fn allocate(&mut self, key: &[u64]) -> usize {
        let id = self.entries.allocate();
        let (entry_key, value) = self.entries.piece_mut(id).split_at_mut(self.shape.key());
        entry_key.copy_from_slice(&key[..entry_key.len()]);
        value.fill(0);
        id
    }

    /// Enters an entry into the table and its lists.
    fn enter(&mut self, hash: u64, id: usize) {
        let number = Numbers::entry(hash, id);
        let entered: Result<(), Infallible> = self.index.change_by(
            hash,
            |_| false,
            &[],
            |slot| {
                slot[0] = number;
                Ok(())
            },
        );
        let Ok(()) = entered;
        for slice in 0..self.slices.len() {
            self.enlist(slice, id);
        }
    }

    /// Removes an entry from the table and its lists.
    fn leave(&mut self, hash: u64, id: usize) {
        let number = Numbers::entry(hash, id);
        let left: Result<(), Infallible> = self.index.change_by(
            hash,
            |slot| slot[0] == number,
            &[],
            |slot| {
                slot[0] = 0;
                Ok(())
            },
        );
        let Ok(()) = left;
        for slice in 0..self.slices.len() {
            self.delist(slice, id);
        }
    }

    /// Appends an entry to its list in a slice.
    fn enlist(&mut self, slice: usize, id: usize) {
        let chunks = &mut self.chunks;
        let entry = self.entries.piece_mut(id);
        let mut place = FIRST;
        self.slices[slice].change(entry, |list| {
            if list[0] == 0 {
                list[0] = id as u64 + 1;
                return;
            }
            if list[1] % CHUNK as u64 == CHUNK_IDS as u64 || list[1] == 0 {
                let chunk = chunks.allocate();
                chunks.piece_of_mut(chunk, CHUNK)[0] = list[1];
                list[1] = (chunk * CHUNK) as u64;
            }
            list[1] += 1;
            place = list[1];
            let (chunk, word) = (place as usize / CHUNK, place as usize % CHUNK);
            chunks.piece_of_mut(chunk, CHUNK)[word] = id as u64;
        });
        entry[self.shape.entry() + slice] = place;
    }

    /// Removes an entry from its list in a slice; the list's last number takes its place.
    fn delist(&mut self, slice: usize, id: usize) {
        let link = self.shape.entry() + slice;
        let chunks = &mut self.chunks;
        let entry = self.entries.piece(id);
        let place = entry[link];
        let mut moved = None;
        self.slices[slice].change(entry, |list| {
            let (chunk, word) = (list[1] as usize / CHUNK, list[1] as usize % CHUNK);
            if word == 0 {
                list[0] = 0;
                return;
            }
            let piece = chunks.piece_of(chunk, CHUNK);
            let last = piece[word];
            list[1] = before(piece, list[1]);
            match place {
                FIRST => list[0] = last + 1,
                place => {
                    let (chunk, word) = (place as usize / CHUNK, place as usize % CHUNK);
                    chunks.piece_of_mut(chunk, CHUNK)[word] = last;
                }
            }
            if word == 1 {
                chunks.free(chunk);
            }
            moved = Some(last as usize);
        });
        if let Some(moved) = moved {
            self.entries.piece_mut(moved)[link] = place;
        }
    }

    /// Number of key words of a slice.
    #[cfg(feature = "native")]
    #[inline(always)]
    pub fn slice_words(&self, slice: usize) -> usize {
        self.slices[slice].words.len()
    }

    /// Begins the enumeration of the entries with these values in a slice.
    #[inline]
    pub fn start(&self, slice: usize, values: &[u64]) -> SlicePosition {
        match self.slices[slice].lists.get(values) {
            None => SlicePosition::default(),
            Some(list) => SlicePosition { first: list[0], place: list[1] },
        }
    }

    /// The next entry: key and value. The position is valid until the map changes.
    #[inline(always)]
    pub fn step(&self, position: &mut SlicePosition) -> Option<(&[u64], &[u64])> {
        if position.first != 0 {
            let id = position.first as usize - 1;
            position.first = 0;
            return Some(self.entry(id));
        }
        if position.place == 0 {
            return None;
        }
        let place = position.place as usize;
        let chunk = self.chunks.piece_of(place / CHUNK, CHUNK);
        position.place = before(chunk, position.place);
        Some(self.entry(chunk[place % CHUNK] as usize))
    }

    /// The next entry of all: see [`Table::next`].
    pub fn next(&self, position: usize) -> Option<(usize, &[u64], &[u64])> {
        let (position, _, slot) = self.index.next(position)?;
        let (key, value) = self.entry(Numbers::number(slot[0]));
        Some((position, key, value))
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// How often one of the map's tables began to double.
    pub fn growths(&self) -> u64 {
        self.index.growths() + self.slices.iter().map(|slice| slice.lists.growths()).sum::<u64>()
    }

    /// Takes and touches memory for this number of entries.
    pub fn reserve(&mut self, entries: usize) {
        self.index.reserve(entries);
        self.entries.reserve(entries);
        // A list needs a chunk only from two entries on.
        self.chunks.reserve(entries / 2 * self.slices.len());
        for slice in &mut self.slices {
            slice.lists.reserve(entries);
        }
    }

    /// Memory, in bytes.
    pub fn bytes(&self) -> u64 {
        let lists: u64 = self.slices.iter().map(|slice| slice.lists.bytes()).sum();
        self.index.bytes() + self.entries.bytes() + self.chunks.bytes() + lists
    }

    /// Panics unless the invariants hold. O(entries).
    pub fn check(&self) {
        self.index.check();
        self.entries.check();
        self.chunks.check();
        assert_eq!(self.entries.live(), self.index.len());
        let mut position = 0;
        while let Some((next, _, slot)) = self.index.next(position) {
            position = next;
            let id = Numbers::number(slot[0]);
            let key = self.entry(id).0;
            assert_eq!(self.number(self.hash(key), key), Some(id));
        }
        let mut chunks = 0;
        for (number, slice) in self.slices.iter().enumerate() {
            slice.lists.check();
            let mut found = 0;
            let mut list = 0;
            while let Some((next, values, ends)) = slice.lists.next(list) {
                list = next;
                let mut stands = |id: usize, place: u64| {
                    let entry = self.entries.piece(id);
                    assert_eq!(entry[self.shape.entry() + number], place);
                    assert!(!is_zero(self.entry(id).1));
                    let mut words = slice.words.iter().map(|word| entry[usize::from(*word)]);
                    assert!(words.by_ref().eq(values.iter().copied()));
                    found += 1;
                };
                assert!(ends[0] > 0);
                stands(ends[0] as usize - 1, FIRST);
                let mut place = ends[1];
                while place != 0 {
                    let chunk = self.chunks.piece(place as usize / CHUNK);
                    assert!(chunk[0] == 0 || chunk[0] % CHUNK as u64 == CHUNK_IDS as u64);
                    chunks += usize::from(place % CHUNK as u64 == 1);
                    stands(chunk[place as usize % CHUNK] as usize, place);
                    place = before(chunk, place);
                }
            }
            assert_eq!(found, self.index.len());
        }
        assert_eq!(chunks, self.chunks.live());
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::{Fixed, Wide};
    use super::*;
    use crate::random::Random;
    use alloc::collections::BTreeMap;
    use alloc::vec;

    /// Makes random changes and enumerates all slices, compared with the standard library's sorted
    /// map. `domains`: number of values of each key word; lists are the longer, the fewer these
    /// are.
    fn compare<S: Shape>(shape: S, slices: &[Vec<u16>], domains: &[u64], seed: u64) {
        let mut random = Random::new(seed);
        let mut map = Sliced::new(shape, slices.to_vec());
        let mut model: BTreeMap<Vec<u64>, u64> = BTreeMap::new();
        for step in 0..8000 {
            let key: Vec<u64> = domains.iter().map(|domain| random.below(*domain)).collect();
            let present = model.get(&key).copied().unwrap_or(0);
            let by = if random.below(3) == 0 { present.wrapping_neg() } else { random.below(4) };
            let fails = random.below(50) == 0;
            let changed = map.change(&key, |value| {
                assert_eq!(value[0], present);
                if fails {
                    return Err(step);
                }
                value[0] = value[0].wrapping_add(by);
                Ok(())
            });
            assert_eq!(changed, if fails { Err(step) } else { Ok(()) });
            match present.wrapping_add(if fails { 0 } else { by }) {
                0 => model.remove(&key),
                value => model.insert(key.clone(), value),
            };
            assert_eq!(map.get(&key).map(|value| value[0]), model.get(&key).copied());
            if step % 50 > 0 {
                continue;
            }
            map.check();
            for (slice, columns) in slices.iter().enumerate() {
                let columns: Vec<usize> = columns.iter().map(|column| (*column).into()).collect();
                let values: Vec<u64> =
                    columns.iter().map(|column| random.below(domains[*column])).collect();
                let mut position = map.start(slice, &values);
                let mut found = BTreeMap::new();
                while let Some((key, value)) = map.step(&mut position) {
                    assert!(found.insert(key.to_vec(), value[0]).is_none());
                    position = SlicePosition::of(position.words());
                }
                assert!(map.step(&mut position).is_none());
                let expected = model.iter().filter(|(key, _)| {
                    columns.iter().zip(&values).all(|(column, value)| key[*column] == *value)
                });
                let expected: BTreeMap<_, _> =
                    expected.map(|(key, value)| (key.clone(), *value)).collect();
                assert_eq!(found, expected);
            }
        }
        let mut found = BTreeMap::new();
        let mut position = 0;
        while let Some((next, key, value)) = map.next(position) {
            position = next;
            assert!(found.insert(key.to_vec(), value[0]).is_none());
        }
        assert_eq!(found, model);
        for key in model.keys() {
            let Ok(()) = map.change(key, |value| {
                value.fill(0);
                Ok::<(), Infallible>(())
            });
        }
        map.check();
        assert_eq!(map.len(), 0);
    }

    #[test]
    fn slices_hold_what_a_scan_finds() {
        let slices = [vec![0], vec![1, 2], vec![2]];
        compare(Fixed::<3, 1>, &slices, &[6, 40, 9], 4);
        compare(Wide { key: 3, value: 2 }, &slices, &[3000, 5, 700], 5);
        let wide = [vec![0, 1, 2, 3, 4], vec![4]];
        compare(Wide { key: 6, value: 1 }, &wide, &[2, 3, 2, 1, 2, 90], 6);
    }

    #[test]
    fn keys_with_the_same_half_of_a_hash_stay_apart() {
        let mut random = Random::new(7);
        let mut keys: Vec<u64> = (0..300_000).map(|_| random.next()).collect();
        keys.sort_unstable_by_key(|key| hash(&[*key]));
        let half = |key: u64| hash(&[key]) & Numbers::HASH;
        let pairs: Vec<&[u64]> =
            keys.windows(2).filter(|pair| half(pair[0]) == half(pair[1])).collect();
        assert!(pairs.len() > 2);
        let mut map = Sliced::new(Fixed::<1, 1>, vec![vec![0]]);
        let mut set = |key: u64, to: u64| {
            let Ok(()) = map.change(&[key], |value| {
                value[0] = to;
                Ok::<(), Infallible>(())
            });
            map.check();
            map.get(&[key]).map(|value| value[0])
        };
        for pair in &pairs {
            assert_eq!((set(pair[0], 1), set(pair[1], 2)), (Some(1), Some(2)));
        }
        for pair in &pairs {
            assert_eq!(set(pair[0], 0), None);
        }
        for pair in pairs {
            assert_eq!((map.get(&[pair[0]]), map.get(&[pair[1]])), (None, Some(&[2][..])));
        }
    }

    #[test]
    fn lists_of_one_take_no_chunk() {
        let mut map = Sliced::new(Fixed::<2, 1>, vec![vec![0], vec![1]]);
        let mut set = |key: u64, to: u64| {
            let Ok(()) = map.change(&[key, key % 500], |value| {
                value[0] = to;
                Ok::<(), Infallible>(())
            });
            map.chunks.live()
        };
        assert_eq!((0..500).map(|key| set(key, 1)).max(), Some(0));
        assert_eq!(set(500, 1), 1);
        assert_eq!(set(0, 0), 0, "the second entry is the only one now");
        map.check();
    }
}
