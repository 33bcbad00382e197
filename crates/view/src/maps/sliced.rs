//! A hash map whose entries can be enumerated by some of their key's columns.
//!
//! Entries have numbers that stay. A table leads from keys to numbers; for every slice another
//! one leads from the slice's values to a list of numbers, in chunks of [`CHUNK_IDS`]. The entry says
//! where it stands in each of its lists, so that leaving one is O(1): the last of the list takes its
//! place.
//!
//! Cost: `get` two lookups, changes of an entry the same; inserts and deletes one change per slice
//! more; a step of an enumeration O(1).
//!
//! Invariants, all checked by [`Sliced::check`]: every entry stands once in each of its lists, at the
//! place that it names; all chunks but a list's first are full.

use alloc::vec::Vec;
use core::convert::Infallible;

use super::any::Tables;
use super::shape::{Shape, is_zero, same};
use super::slab::Slab;

/// Numbers in a chunk of a list; with the link to the next chunk that makes a cache line.
const CHUNK_IDS: usize = 7;

/// A hash map with slices.
#[derive(Debug)]
pub struct Sliced<S> {
    /// Widths of entries: key and value.
    shape: S,
    /// From keys to numbers of entries plus one.
    index: Tables,
    /// Key, value, then per slice the place: chunk × 8 + place within.
    entries: Slab,
    slices: Vec<Slice>,
    chunks: Slab,
    /// Values of a slice, while it changes.
    values: Vec<u64>,
}

#[derive(Debug)]
struct Slice {
    /// Which words of the key.
    words: Vec<u16>,
    /// From the values to the list: first chunk plus one, length.
    lists: Tables,
}

/// Where an enumeration stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlicePosition {
    /// The chunk plus one.
    chunk: u64,
    /// Numbers left in the chunk.
    left: u64,
}

impl SlicePosition {
    /// As it lies in registers.
    pub fn words(self) -> [u64; 2] {
        [self.chunk, self.left]
    }

    /// From there.
    pub fn of([chunk, left]: [u64; 2]) -> Self {
        SlicePosition { chunk, left }
    }
}

impl<S: Shape> Sliced<S> {
    /// An empty map. `slices`: which words of the key each has.
    pub fn new(shape: S, slices: Vec<Vec<u16>>) -> Self {
        let slice = |words: Vec<u16>| {
            let lists = Tables::new(words.len(), 2);
            Slice { words, lists }
        };
        Sliced {
            shape,
            index: Tables::new(shape.key(), 1),
            entries: Slab::new(shape.entry() + slices.len()),
            slices: slices.into_iter().map(slice).collect(),
            chunks: Slab::new(1 + CHUNK_IDS),
            values: Vec::new(),
        }
    }

    fn number(&self, key: &[u64]) -> Option<usize> {
        self.index.get(key).map(|id| id[0] as usize - 1)
    }

    /// The value of a key, if there is an entry.
    pub fn get(&self, key: &[u64]) -> Option<&[u64]> {
        self.number(key).map(|id| self.entry(id).1)
    }

    /// Key and value of an entry.
    fn entry(&self, id: usize) -> (&[u64], &[u64]) {
        let entry = self.entries.piece(id);
        entry[..self.shape.entry()].split_at(self.shape.key())
    }

    /// As [`super::table::Table::change`].
    pub fn change<R, E>(
        &mut self,
        key: &[u64],
        f: impl FnOnce(&mut [u64]) -> Result<R, E>,
    ) -> Result<R, E> {
        let (key_words, words) = (self.shape.key(), self.shape.entry());
        let entries = &mut self.entries;
        // Number of the entry, whether it was there, whether it is.
        let mut place = (0, false, false);
        let result = self.index.change(key, |number| {
            let was = number[0] != 0;
            let id = if was { number[0] as usize - 1 } else { entries.allocate() };
            let entry = entries.piece_mut(id);
            if !was {
                entry[..key_words].copy_from_slice(&key[..key_words]);
                entry[key_words..].fill(0);
            }
            let value = &mut entry[key_words..words];
            let result = f(value);
            let is = !is_zero(value);
            number[0] = if is { id as u64 + 1 } else { 0 };
            place = (id, was, is);
            result
        });
        let (id, was, is) = place;
        if was != is {
            for slice in 0..self.slices.len() {
                if is { self.enlist(slice, id) } else { self.delist(slice, id) }
            }
        }
        if !is {
            self.entries.free(id);
        }
        result
    }

    /// The values of an entry in a slice, in the buffer for them.
    fn take_values(&mut self, slice: usize, id: usize) -> Vec<u64> {
        let mut values = core::mem::take(&mut self.values);
        let entry = self.entries.piece(id);
        values.clear();
        values.extend(self.slices[slice].words.iter().map(|word| entry[usize::from(*word)]));
        values
    }

    /// Puts an entry at the end of its list: into the first chunk.
    fn enlist(&mut self, slice: usize, id: usize) {
        let values = self.take_values(slice, id);
        let chunks = &mut self.chunks;
        let mut place = 0;
        let done: Result<(), Infallible> = self.slices[slice].lists.change(&values, |list| {
            let at = list[1] as usize % CHUNK_IDS;
            if at == 0 {
                let chunk = chunks.allocate();
                chunks.piece_mut(chunk)[0] = list[0];
                list[0] = chunk as u64 + 1;
            }
            let chunk = list[0] as usize - 1;
            chunks.piece_mut(chunk)[1 + at] = id as u64;
            list[1] += 1;
            place = chunk * 8 + at;
            Ok(())
        });
        let Ok(()) = done;
        self.values = values;
        self.entries.piece_mut(id)[self.shape.entry() + slice] = place as u64;
    }

    /// Takes an entry out of its list; the last one of the list comes to its place.
    fn delist(&mut self, slice: usize, id: usize) {
        let values = self.take_values(slice, id);
        let link = self.shape.entry() + slice;
        let place = self.entries.piece(id)[link] as usize;
        let (chunks, entries) = (&mut self.chunks, &mut self.entries);
        let done: Result<(), Infallible> = self.slices[slice].lists.change(&values, |list| {
            list[1] -= 1;
            let chunk = list[0] as usize - 1;
            let at = list[1] as usize % CHUNK_IDS;
            let last = chunks.piece(chunk)[1 + at];
            chunks.piece_mut(place / 8)[1 + place % 8] = last;
            entries.piece_mut(last as usize)[link] = place as u64;
            if at == 0 {
                list[0] = chunks.piece(chunk)[0];
                chunks.free(chunk);
            }
            Ok(())
        });
        let Ok(()) = done;
        self.values = values;
    }

    /// Begins the enumeration of the entries with these values in a slice.
    pub fn start(&self, slice: usize, values: &[u64]) -> SlicePosition {
        match self.slices[slice].lists.get(values) {
            None => SlicePosition::default(),
            Some(list) => {
                SlicePosition { chunk: list[0], left: (list[1] - 1) % CHUNK_IDS as u64 + 1 }
            }
        }
    }

    /// The next entry: key and value. Holds as long as nothing changes.
    #[inline]
    pub fn step(&self, position: &mut SlicePosition) -> Option<(&[u64], &[u64])> {
        if position.left == 0 {
            return None;
        }
        let chunk = self.chunks.piece(position.chunk as usize - 1);
        let id = chunk[position.left as usize] as usize;
        position.left -= 1;
        if position.left == 0 && chunk[0] != 0 {
            *position = SlicePosition { chunk: chunk[0], left: CHUNK_IDS as u64 };
        }
        Some(self.entry(id))
    }

    /// As [`super::table::Table::next`].
    pub fn next(&self, position: usize) -> Option<(usize, &[u64], &[u64])> {
        let (position, _, id) = self.index.next(position)?;
        let (key, value) = self.entry(id[0] as usize - 1);
        Some((position, key, value))
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// How often one of its tables began to double.
    pub fn growths(&self) -> u64 {
        self.index.growths() + self.slices.iter().map(|slice| slice.lists.growths()).sum::<u64>()
    }

    /// Memory for so many entries, touched now.
    pub fn reserve(&mut self, entries: usize) {
        self.index.reserve(entries);
        self.entries.reserve(entries);
        self.chunks.reserve(entries * self.slices.len());
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
        let mut chunks = 0;
        for (number, slice) in self.slices.iter().enumerate() {
            slice.lists.check();
            let mut found = 0;
            let mut list = 0;
            while let Some((next, values, ends)) = slice.lists.next(list) {
                list = next;
                let (mut chunk, mut left) = (ends[0], ends[1] as usize);
                found += left;
                let mut in_chunk = (left - 1) % CHUNK_IDS + 1;
                while chunk != 0 {
                    chunks += 1;
                    let words = self.chunks.piece(chunk as usize - 1);
                    for at in 0..in_chunk {
                        let entry = self.entries.piece(words[1 + at] as usize);
                        let place = (chunk - 1) * 8 + at as u64;
                        assert_eq!(entry[self.shape.entry() + number], place);
                        let key: Vec<u64> =
                            slice.words.iter().map(|word| entry[usize::from(*word)]).collect();
                        assert!(same(&key, values, key.len()));
                    }
                    left -= in_chunk;
                    in_chunk = CHUNK_IDS;
                    chunk = words[0];
                }
                assert_eq!(left, 0);
            }
            assert_eq!(found, self.index.len());
        }
        assert_eq!(chunks, self.chunks.live());
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::Fixed;
    use super::*;
    use crate::random::Random;
    use alloc::collections::BTreeMap;
    use alloc::vec;

    #[test]
    fn slices_hold_what_a_scan_finds() {
        let mut random = Random::new(4);
        let mut map = Sliced::new(Fixed::<3, 1>, vec![vec![0], vec![1, 2], vec![2]]);
        let mut model: BTreeMap<Vec<u64>, u64> = BTreeMap::new();
        for step in 0..8000 {
            let key = vec![random.below(6), random.below(40), random.below(9)];
            let present = model.get(&key).copied().unwrap_or(0);
            let by = if random.below(3) == 0 { present.wrapping_neg() } else { random.below(4) };
            let changed: Result<(), Infallible> = map.change(&key, |value| {
                value[0] = value[0].wrapping_add(by);
                Ok(())
            });
            let Ok(()) = changed;
            match present.wrapping_add(by) {
                0 => model.remove(&key),
                value => model.insert(key, value),
            };
            if step % 50 == 0 {
                map.check();
                for (slice, columns) in [(0, vec![0]), (1, vec![1, 2]), (2, vec![2])] {
                    let values: Vec<u64> = columns.iter().map(|_| random.below(9)).collect();
                    let mut position = map.start(slice, &values);
                    let mut found = BTreeMap::new();
                    while let Some((key, value)) = map.step(&mut position) {
                        assert!(found.insert(key.to_vec(), value[0]).is_none());
                    }
                    let expected = model.iter().filter(|(key, _)| {
                        columns.iter().zip(&values).all(|(column, value)| key[*column] == *value)
                    });
                    let expected: BTreeMap<_, _> =
                        expected.map(|(key, value)| (key.clone(), *value)).collect();
                    assert_eq!(found, expected);
                }
            }
        }
        for key in model.keys() {
            let Ok(()) = map.change(key, |value| {
                value.fill(0);
                Ok::<(), Infallible>(())
            });
        }
        map.check();
        assert_eq!(map.len(), 0);
    }
}
