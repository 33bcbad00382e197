//! Workloads that need no view: what a tuple of a measurement does where nothing but the processor, or nothing but a hash
//! map, shall be in it. A thread and a cell run this same code.

use alloc::vec;
use alloc::vec::Vec;
use core::hint::black_box;

use halcyon_cell_abi::message::work;

/// Entries of the hash map.
const ENTRIES: u64 = 1 << 16;
/// Places of the hash map: twice its entries.
const PLACES: usize = 1 << 17;
/// Steps of a tuple of [`Loop`], unless somebody wants others.
const STEPS: u32 = 16;

/// A step of SplitMix64.
#[inline]
fn step(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed(*state)
}

fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A loop in registers.
#[derive(Clone, Debug)]
pub struct Loop {
    /// Steps of a tuple.
    steps: u32,
    /// The numbers' state.
    state: u64,
}

impl Loop {
    /// A loop of so many steps per tuple, before its first one.
    pub fn new(steps: u32) -> Loop {
        Loop { steps, state: 7 }
    }

    /// A tuple.
    #[inline]
    pub fn tuple(&mut self) {
        for _ in 0..self.steps {
            black_box(step(&mut self.state));
        }
    }

    /// A number that follows from all tuples.
    pub fn checksum(&self) -> u64 {
        self.state
    }
}

/// A hash map with 65,536 entries in one table, which is never full: a key stands at its hash, or in the next place that is
/// free.
#[derive(Clone, Debug)]
pub struct Map {
    places: Vec<(u64, u64)>,
    state: u64,
}

/// Marks a place without an entry: a number that is no key.
const FREE: u64 = u64::MAX;

impl Map {
    /// The map with all its keys, before its first tuple.
    pub fn filled() -> Map {
        let mut map = Map { places: vec![(FREE, 0); PLACES], state: 1 };
        (0..ENTRIES).for_each(|key| *map.value(key) = 0);
        map
    }

    /// The value of a key, which gets an entry if there is none.
    #[inline]
    fn value(&mut self, key: u64) -> &mut u64 {
        let mut at = mixed(key) as usize & (PLACES - 1);
        while self.places[at].0 != key && self.places[at].0 != FREE {
            at = (at + 1) & (PLACES - 1);
        }
        let (found, value) = &mut self.places[at];
        *found = key;
        value
    }

    /// A tuple: the update of one entry.
    #[inline]
    pub fn tuple(&mut self) {
        let key = step(&mut self.state) % ENTRIES;
        let value = self.value(key);
        *value = value.wrapping_add(key | 1);
    }

    /// A number that follows from all entries.
    pub fn checksum(&self) -> u64 {
        let entries = self.places.iter().filter(|(key, _)| *key != FREE);
        entries
            .fold(0, |sum: u64, (key, value)| sum.wrapping_add(mixed(key ^ value.rotate_left(32))))
    }
}

/// One of the workloads.
#[derive(Clone, Debug)]
pub enum Plain {
    /// [`Loop`].
    Loop(Loop),
    /// [`Map`].
    Map(Map),
}

impl Plain {
    /// The workload of a number ([`work`]), before its first tuple. `None`: there is none.
    pub fn of(number: u64) -> Option<Plain> {
        match number {
            work::LOOP => Some(Plain::Loop(Loop::new(STEPS))),
            work::MAP => Some(Plain::Map(Map::filled())),
            _ => None,
        }
    }

    /// The workload's number.
    pub fn number(&self) -> u64 {
        match self {
            Plain::Loop(_) => work::LOOP,
            Plain::Map(_) => work::MAP,
        }
    }

    /// So many tuples, `done` behind each of them.
    #[inline]
    pub fn run(&mut self, tuples: usize, mut done: impl FnMut()) {
        match self {
            Plain::Loop(looped) => (0..tuples).for_each(|_| {
                looped.tuple();
                done();
            }),
            Plain::Map(map) => (0..tuples).for_each(|_| {
                map.tuple();
                done();
            }),
        }
    }

    /// A number that follows from all tuples.
    pub fn checksum(&self) -> u64 {
        match self {
            Plain::Loop(looped) => looped.checksum(),
            Plain::Map(map) => map.checksum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn the_map_has_what_its_twin_has() {
        let mut map = Map::filled();
        let mut twin: HashMap<u64, u64> = (0..ENTRIES).map(|key| (key, 0)).collect();
        let mut state = 1;
        for _ in 0..50_000 {
            map.tuple();
            let key = step(&mut state) % ENTRIES;
            *twin.get_mut(&key).expect("a key") += key | 1;
        }
        let entries: HashMap<u64, u64> =
            map.places.iter().copied().filter(|(key, _)| *key != FREE).collect();
        assert_eq!(entries, twin);
    }

    #[test]
    fn workloads_are_found_by_their_numbers_and_follow_from_the_number_of_tuples() {
        for number in [work::LOOP, work::MAP] {
            let run = |parts: &[usize]| {
                let mut plain = Plain::of(number).expect("a workload");
                assert_eq!(plain.number(), number);
                let mut count = 0;
                parts.iter().for_each(|part| plain.run(*part, || count += 1));
                assert_eq!(count, parts.iter().sum::<usize>());
                plain.checksum()
            };
            assert_eq!(run(&[10, 50]), run(&[60]));
            assert_ne!(run(&[10]), run(&[60]));
        }
        assert!(Plain::of(0).is_none());
    }
}
