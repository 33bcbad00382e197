//! The group of each key, where keys are integers: words, of which so many bits count.
//!
//! Invariants, checked by `keys_have_the_groups_of_a_map`: equal keys have one group, others have others; groups are
//! numbered from 0 in the order in which their keys came, NULL before the others of its batch.
//! Bounded: places take at most [`PLACES_PER_GROUP`] × 4 bytes for each group beyond the pages that are expected.

use arrow::buffer::NullBuffer;

use crate::hash::Hasher;

/// A key: one word, see [`crate::layout`].
pub(crate) type Word = [u64; 1];

/// Bits of a key that say which place of a page it has.
const PAGE_BITS: u32 = 10;
/// Places of a page.
const PAGE: usize = 1 << PAGE_BITS;
/// Places for each group, from which on keys do not lie near each other, unless so many are expected.
const PLACES_PER_GROUP: usize = 16;
/// Groups for each page, likewise.
const GROUPS_PER_PAGE: usize = PAGE / PLACES_PER_GROUP;
/// Pages that may be missing for each that may be there.
const GAPS: usize = 64;
/// Slots of the smallest table.
const SLOTS_MIN: usize = 1 << 10;

/// Keys and their groups.
pub(crate) struct Index {
    hasher: Hasher,
    /// Bits of a key, with its sign.
    bits: u32,
    /// Pages that may be made for few groups.
    expected: usize,
    /// By group; without meaning for that of NULL.
    keys: Vec<Word>,
    of_null: Option<usize>,
    finder: Finder,
}

/// The way from a key to its group. Groups are counted from 1 here; 0: none.
enum Finder {
    Places(Places),
    Slots(Slots),
}

impl Index {
    /// Without keys, which will have so many bits, and of which is expected that they lie within so many numbers.
    pub(crate) fn new(hasher: Hasher, bits: u32, range: usize) -> Index {
        let finder = Finder::Places(Places::default());
        let expected = 2 * (range / PAGE + 2);
        Index { hasher, bits, expected, keys: Vec::new(), of_null: None, finder }
    }

    /// Groups.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Bytes.
    pub(crate) fn size(&self) -> usize {
        let finder = match &self.finder {
            Finder::Places(places) => places.size(),
            Finder::Slots(slots) => slots.slots.capacity() * size_of::<(u64, u32)>(),
        };
        finder + self.keys.capacity() * size_of::<Word>()
    }

    /// Whether each key has a place.
    #[cfg(test)]
    pub(crate) fn has_places(&self) -> bool {
        matches!(self.finder, Finder::Places(_))
    }

    /// All keys, in the order of their groups, and the group of NULL. There are none afterwards.
    pub(crate) fn take(&mut self) -> (Vec<Word>, Option<usize>) {
        let taken =
            std::mem::replace(self, Index::new(self.hasher, self.bits, self.expected * PAGE / 2));
        (taken.keys, taken.of_null)
    }

    /// The group of each of these keys, into `groups`.
    pub(crate) fn find(
        &mut self,
        keys: &[Word],
        nulls: Option<&NullBuffer>,
        groups: &mut Vec<usize>,
    ) {
        groups.clear();
        groups.reserve(keys.len());
        let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else {
            return self.find_valid(keys, groups);
        };
        let of_null = *self.of_null.get_or_insert_with(|| {
            self.keys.push([0]);
            self.keys.len() - 1
        });
        for (from, to) in nulls.valid_slices() {
            groups.resize(from, of_null);
            self.find_valid(&keys[from..to], groups);
        }
        groups.resize(keys.len(), of_null);
    }

    fn find_valid(&mut self, keys: &[Word], groups: &mut Vec<usize>) {
        let mut from = 0;
        if let Finder::Places(places) = &mut self.finder {
            from = places.find(keys, 64 - self.bits, self.expected, &mut self.keys, groups);
            if from < keys.len() {
                self.finder = Finder::Slots(Slots::of(&self.keys, self.of_null, self.hasher));
            }
        }
        if let Finder::Slots(slots) = &mut self.finder {
            slots.find(&keys[from..], self.of_null, self.hasher, &mut self.keys, groups);
        }
    }
}

/// A place for each integer of pages that have some.
#[derive(Default)]
struct Places {
    /// The number of the first page.
    first: i64,
    pages: Vec<Option<Box<[u32; PAGE]>>>,
    /// Pages that are there.
    made: usize,
}

impl Places {
    fn size(&self) -> usize {
        self.made * PAGE * 4 + self.pages.capacity() * 8
    }

    /// The groups of keys up to the first that would have no neighbours; how many these are.
    fn find(
        &mut self,
        keys: &[Word],
        shift: u32,
        expected: usize,
        known: &mut Vec<Word>,
        groups: &mut Vec<usize>,
    ) -> usize {
        for (at, key) in keys.iter().enumerate() {
            let value = (key[0] << shift) as i64 >> shift;
            let Some(place) = self.place(value, expected.max(known.len() / GROUPS_PER_PAGE)) else {
                return at;
            };
            if *place == 0 {
                known.push(*key);
                *place =
                    u32::try_from(known.len()).expect("fewer than four thousand million groups");
            }
            groups.push(*place as usize - 1);
        }
        keys.len()
    }

    #[inline(always)]
    fn place(&mut self, value: i64, pages_max: usize) -> Option<&mut u32> {
        let page = value >> PAGE_BITS;
        let at = page.wrapping_sub(self.first) as usize;
        let at = match self.pages.get(at) {
            Some(Some(_)) => at,
            _ => self.make(page, pages_max)?,
        };
        let page = self.pages[at].as_deref_mut()?;
        Some(&mut page[value as usize % PAGE])
    }

    /// Makes a page, and says which it is; `None` if keys do not lie near each other.
    #[cold]
    fn make(&mut self, page: i64, pages_max: usize) -> Option<usize> {
        if self.pages.is_empty() {
            self.first = page;
        }
        // Numbers of pages have 54 bits, so differences do not overflow.
        let (first, last) =
            (self.first.min(page), (self.first + self.pages.len() as i64).max(page + 1));
        let span = (last - first) as usize;
        if span > GAPS * pages_max || self.made >= pages_max {
            return None;
        }
        let before = (self.first - first) as usize;
        self.pages.splice(0..0, std::iter::repeat_with(|| None).take(before));
        self.pages.resize_with(span, || None);
        self.first = first;
        self.pages[(page - first) as usize] = Some(Box::new([0; PAGE]));
        self.made += 1;
        Some((page - first) as usize)
    }
}

/// A table of keys by their hashes: linear probing, at most half full.
#[derive(Default)]
struct Slots {
    /// As many as a power of two, or none.
    slots: Vec<(u64, u32)>,
}

impl Slots {
    /// The table of keys that have groups.
    fn of(known: &[Word], of_null: Option<usize>, hasher: Hasher) -> Slots {
        let mut slots = Slots::default();
        let count = (known.len() * 4).next_power_of_two().max(SLOTS_MIN);
        slots.rebuild(count, known, of_null, hasher);
        slots
    }

    fn find(
        &mut self,
        keys: &[Word],
        of_null: Option<usize>,
        hasher: Hasher,
        known: &mut Vec<Word>,
        groups: &mut Vec<usize>,
    ) {
        // Room for all before the first, so that no row asks for it.
        let least = ((known.len() + keys.len()) * 2).next_power_of_two().max(SLOTS_MIN);
        if self.slots.len() < least {
            self.rebuild(least, known, of_null, hasher);
        }
        let mask = self.slots.len() - 1;
        for key in keys {
            let mut at = hasher.key(key) as usize & mask;
            let group = loop {
                let (other, group) = &mut self.slots[at];
                if *group == 0 {
                    known.push(*key);
                    let new = u32::try_from(known.len())
                        .expect("fewer than four thousand million groups");
                    (*other, *group) = (key[0], new);
                    break new;
                }
                if *other == key[0] {
                    break *group;
                }
                at = (at + 1) & mask;
            };
            groups.push(group as usize - 1);
        }
    }

    fn rebuild(&mut self, slots: usize, known: &[Word], of_null: Option<usize>, hasher: Hasher) {
        let mask = slots - 1;
        self.slots.clear();
        self.slots.resize(slots, (0, 0));
        for (group, key) in known.iter().enumerate().filter(|(group, _)| Some(*group) != of_null) {
            let mut at = hasher.key(key) as usize & mask;
            while self.slots[at].1 != 0 {
                at = (at + 1) & mask;
            }
            self.slots[at] = (key[0], group as u32 + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use halcyon_base::rng::Rng;

    use super::*;

    #[test]
    fn keys_have_the_groups_of_a_map() {
        let mut rng = Rng::new(3);
        let (mut with_places, mut without) = (0, 0);
        for case in 0..120 {
            let bits = *rng.pick(&[16, 32, 64]);
            let has_nulls = rng.chance(1, 2);
            let expected = *rng.pick(&[0, 0, 200_000]);
            let mut index = Index::new(Hasher::new(), bits, expected);
            for round in 0..2 {
                let mut map: HashMap<Option<u64>, usize> = HashMap::new();
                let origin = rng.next_u64() >> (64 - bits);
                let range = *rng.pick(&[1, 5, 3_000, 200_000, u64::MAX]);
                let step = *rng.pick(&[1, 1, 8, 900]);
                let mut next = 0;
                for _ in 0..rng.below(20) {
                    let is_ascending = rng.chance(1, 2);
                    let keys: Vec<Word> = (0..rng.below(4_000))
                        .map(|_| {
                            next += rng.below(3);
                            let value = if is_ascending { next } else { rng.below(range) };
                            let value = origin.wrapping_add(value.wrapping_mul(step));
                            [value << (64 - bits) >> (64 - bits)]
                        })
                        .collect();
                    let mut groups = Vec::new();
                    let nulls = has_nulls
                        .then(|| keys.iter().map(|_| !rng.chance(1, 9)).collect::<NullBuffer>());
                    index.find(&keys, nulls.as_ref(), &mut groups);
                    let key = |row: usize| {
                        let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
                        (!is_null).then(|| keys[row][0])
                    };
                    // NULL has its group first of all of a batch.
                    if (0..keys.len()).any(|row| key(row).is_none()) {
                        let count = map.len();
                        map.entry(None).or_insert(count);
                    }
                    for (row, group) in groups.iter().enumerate() {
                        let count = map.len();
                        let expected = *map.entry(key(row)).or_insert(count);
                        assert_eq!(expected, *group, "{case} {round}");
                    }
                    assert_eq!((groups.len(), index.len()), (keys.len(), map.len()));
                    let most = (2 * (expected / PAGE + 2)) * (PAGE * 4 + GAPS * 16)
                        + index.len().max(SLOTS_MIN) * (PLACES_PER_GROUP * 4 + GAPS + 160);
                    assert!(index.size() <= most, "{} for {}", index.size(), index.len());
                }
                with_places += usize::from(index.has_places() && index.len() > 1_000);
                without += usize::from(!index.has_places() && index.len() > 1_000);
                let (keys, of_null) = index.take();
                let key = |group: usize| (Some(group) != of_null).then(|| keys[group][0]);
                assert!((0..keys.len()).all(|group| map[&key(group)] == group));
                assert_eq!((keys.len(), index.len()), (map.len(), 0));
            }
        }
        assert!(with_places > 20 && without > 20, "{with_places} {without}");
    }
}
