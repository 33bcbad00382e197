//! Deadlines in order: a wheel of wheels for coarse ones, a sorted map for exact ones.
//!
//! Words: a *unit* is the time to which coarse deadlines are rounded up, so that many of them share
//! one wake-up. Level `l` of the wheel has 64 slots of 64^`l` units each.
//!
//! Invariants, checked by `Wheel::check`:
//! 1. An entry stands at the level of the highest group of six bits in which its deadline and the
//!    wheel's time differ, in the slot that this group of its deadline names; so a lower level is
//!    always due before a higher one, and a lower slot before a higher one.
//! 2. Bit `s` of `occupied[l]` is set exactly if slot `s` of level `l` has an entry.
//!
//! Cost: setting and cancelling a coarse deadline O(1), an exact one O(log n); each coarse deadline is
//! moved at most once per level.
//! Source: hierarchical timing wheels (Varghese and Lauck 1987).

use std::collections::BTreeMap;

const LEVELS: usize = 7;
const SLOTS: usize = 64;
const GROUP_BITS: u32 = 6;
/// Units ahead that a deadline may lie at most: further ones are brought nearer and set again.
const REACH: u64 = 1 << 40;
const NONE: u32 = u32::MAX;

/// The precision of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Up to a millisecond late on purpose, so that many deadlines share one wake-up.
    Coarse,
    /// As soon after the deadline as a worker looks.
    Exact,
}

/// The name of a deadline that was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Coarse { at: u32, generation: u32 },
    Exact { ticks: u64, number: u64 },
}

struct Entry<T> {
    /// Counts the entry's uses, so that an old key names nothing.
    generation: u32,
    /// None: the entry is free.
    value: Option<T>,
    due: u64,
    list: usize,
    before: u32,
    after: u32,
}

/// Deadlines with a value each.
pub(crate) struct Wheel<T> {
    unit_ticks: u64,
    now: u64,
    occupied: [u64; LEVELS],
    /// First entry of each slot.
    first: Box<[u32; LEVELS * SLOTS]>,
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
    exact: BTreeMap<(u64, u64), T>,
    next_number: u64,
}

impl<T> Wheel<T> {
    /// An empty wheel at this time. Panics: if a unit has no length.
    pub(crate) fn new(unit_ticks: u64, now_ticks: u64) -> Wheel<T> {
        assert!(unit_ticks > 0, "a unit has a length");
        Wheel {
            unit_ticks,
            now: now_ticks / unit_ticks,
            occupied: [0; LEVELS],
            first: Box::new([NONE; LEVELS * SLOTS]),
            entries: Vec::new(),
            free: Vec::new(),
            exact: BTreeMap::new(),
            next_number: 0,
        }
    }

    /// Sets a deadline; one that has passed is due with the next [`Wheel::take_due`].
    pub(crate) fn set(&mut self, due_ticks: u64, precision: Precision, value: T) -> Key {
        if precision == Precision::Exact {
            let key = (due_ticks, self.next_number);
            self.next_number += 1;
            self.exact.insert(key, value);
            return Key::Exact { ticks: key.0, number: key.1 };
        }
        let due = due_ticks.div_ceil(self.unit_ticks).clamp(self.now + 1, self.now + REACH);
        let at = self.free.pop().unwrap_or_else(|| {
            let (before, after) = (NONE, NONE);
            self.entries.push(Entry { generation: 0, value: None, due, list: 0, before, after });
            self.entries.len() as u32 - 1
        });
        let entry = &mut self.entries[at as usize];
        (entry.value, entry.due) = (Some(value), due);
        let generation = entry.generation;
        self.link(at);
        Key::Coarse { at, generation }
    }

    /// Another value for a deadline; false if it was taken or cancelled.
    pub(crate) fn replace(&mut self, key: Key, value: T) -> bool {
        let place = match key {
            Key::Exact { ticks, number } => self.exact.get_mut(&(ticks, number)),
            Key::Coarse { at, generation } => {
                let entry = &mut self.entries[at as usize];
                if entry.generation == generation { entry.value.as_mut() } else { None }
            }
        };
        place.map(|place| *place = value).is_some()
    }

    /// Takes a deadline out, unless it was taken before.
    pub(crate) fn cancel(&mut self, key: Key) -> Option<T> {
        match key {
            Key::Exact { ticks, number } => self.exact.remove(&(ticks, number)),
            Key::Coarse { at, generation } => {
                let known = self.entries[at as usize].generation == generation;
                if known && self.entries[at as usize].value.is_some() {
                    self.unlink(at);
                    self.free_entry(at)
                } else {
                    None
                }
            }
        }
    }

    /// The time, in ticks, at which to look again: no deadline is due before.
    pub(crate) fn next_ticks(&self) -> Option<u64> {
        let coarse = self.first_slot().map(|(_, _, start)| start.saturating_mul(self.unit_ticks));
        let exact = self.exact.first_key_value().map(|((ticks, _), _)| *ticks);
        coarse.into_iter().chain(exact).min()
    }

    /// Takes out the values whose deadlines have passed.
    pub(crate) fn take_due(&mut self, now_ticks: u64, due: &mut Vec<T>) {
        while let Some(first) = self.exact.first_entry()
            && first.key().0 <= now_ticks
        {
            due.push(first.remove());
        }
        let now = now_ticks / self.unit_ticks;
        while let Some((level, slot, start)) = self.first_slot()
            && start <= now
        {
            self.now = start;
            let list = level * SLOTS + slot;
            let mut at = std::mem::replace(&mut self.first[list], NONE);
            self.occupied[level] &= !(1 << slot);
            while at != NONE {
                let after = self.entries[at as usize].after;
                if self.entries[at as usize].due <= now {
                    due.extend(self.free_entry(at));
                } else {
                    self.link(at);
                }
                at = after;
            }
        }
        self.now = self.now.max(now);
    }

    /// Takes out every value.
    pub(crate) fn take_all(&mut self) -> Vec<T> {
        let mut all: Vec<T> = std::mem::take(&mut self.exact).into_values().collect();
        for at in 0..self.entries.len() as u32 {
            if self.entries[at as usize].value.is_some() {
                self.unlink(at);
                all.extend(self.free_entry(at));
            }
        }
        all
    }

    fn free_entry(&mut self, at: u32) -> Option<T> {
        let entry = &mut self.entries[at as usize];
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(at);
        entry.value.take()
    }

    /// Level, number and first unit of the slot that is due first.
    fn first_slot(&self) -> Option<(usize, usize, u64)> {
        let level = self.occupied.iter().position(|&slots| slots != 0)?;
        let slot = self.occupied[level].trailing_zeros() as usize;
        let shift = GROUP_BITS * level as u32;
        let above = self.now >> (shift + GROUP_BITS) << (shift + GROUP_BITS);
        Some((level, slot, above | (slot as u64) << shift))
    }

    fn level_of(&self, due: u64) -> usize {
        let differ = (due ^ self.now) | 1;
        ((u64::BITS - 1 - differ.leading_zeros()) / GROUP_BITS) as usize
    }

    fn link(&mut self, at: u32) {
        let due = self.entries[at as usize].due;
        let level = self.level_of(due);
        let slot = (due >> (GROUP_BITS * level as u32)) as usize % SLOTS;
        let list = level * SLOTS + slot;
        let after = std::mem::replace(&mut self.first[list], at);
        self.occupied[level] |= 1 << slot;
        let entry = &mut self.entries[at as usize];
        (entry.list, entry.before, entry.after) = (list, NONE, after);
        if after != NONE {
            self.entries[after as usize].before = at;
        }
    }

    fn unlink(&mut self, at: u32) {
        let &Entry { list, before, after, .. } = &self.entries[at as usize];
        match before {
            NONE => self.first[list] = after,
            before => self.entries[before as usize].after = after,
        }
        if after != NONE {
            self.entries[after as usize].before = before;
        }
        if self.first[list] == NONE {
            self.occupied[list / SLOTS] &= !(1 << (list % SLOTS));
        }
    }

    /// Panics unless the invariants hold.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        let mut linked = 0;
        for (list, &first) in self.first.iter().enumerate() {
            let (level, slot) = (list / SLOTS, list % SLOTS);
            assert_eq!(self.occupied[level] >> slot & 1 == 1, first != NONE);
            let mut at = first;
            while at != NONE {
                let entry = &self.entries[at as usize];
                assert!(entry.value.is_some() && entry.due > self.now && entry.list == list);
                assert_eq!(self.level_of(entry.due), level);
                linked += 1;
                at = entry.after;
            }
        }
        assert_eq!(linked + self.free.len(), self.entries.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon_base::rng::Rng;

    /// Against a list: deadlines are due neither early nor more than a unit late, whatever is set,
    /// cancelled and replaced.
    #[test]
    fn deadlines_are_due_in_time() {
        const UNIT: u64 = 1000;
        for seed in 0..if cfg!(miri) { 2 } else { 60 } {
            let mut rng = Rng::new(seed);
            let mut now = rng.below(1 << 40);
            let mut wheel = Wheel::new(UNIT, now);
            let mut model: Vec<(u64, u64, Precision, Key)> = Vec::new();
            for number in 0..600u64 {
                match rng.below(10) {
                    0..5 => {
                        let exact = rng.chance(1, 3);
                        let precision = if exact { Precision::Exact } else { Precision::Coarse };
                        let reach = rng.below(36);
                        let due = now + rng.below(1 << reach);
                        let key = wheel.set(due, precision, number);
                        model.push((number, due, precision, key));
                    }
                    5 if !model.is_empty() => {
                        let chosen = rng.below(model.len() as u64) as usize;
                        let (number, _, _, key) = model.swap_remove(chosen);
                        assert_eq!(wheel.cancel(key), Some(number));
                        assert_eq!(wheel.cancel(key), None, "it is cancelled once");
                        assert!(!wheel.replace(key, 0));
                    }
                    6 if !model.is_empty() => {
                        let chosen = rng.below(model.len() as u64) as usize;
                        model[chosen].0 = 10_000 + number;
                        assert!(wheel.replace(model[chosen].3, 10_000 + number));
                    }
                    _ => {
                        let next = wheel.next_ticks();
                        let jump = next.filter(|_| rng.chance(1, 2));
                        let reach = rng.below(30);
                        now = jump.unwrap_or(now + rng.below(1 << reach)).max(now);
                        let mut due = Vec::new();
                        wheel.take_due(now, &mut due);
                        for number in &due {
                            let at = model.iter().position(|entry| entry.0 == *number);
                            let (_, due, ..) = model.swap_remove(at.expect("it was set"));
                            assert!(due <= now, "seed {seed}: early");
                        }
                        for (_, due, precision, _) in &model {
                            let slack = if *precision == Precision::Exact { 0 } else { UNIT };
                            assert!(due + slack > now, "seed {seed}: late, {due} at {now}");
                            let next = wheel.next_ticks().expect("there is one");
                            assert!(next < due + slack + 1, "seed {seed}: it would be missed");
                        }
                    }
                }
                wheel.check();
            }
            let mut left: Vec<u64> = model.iter().map(|entry| entry.0).collect();
            let mut all = wheel.take_all();
            left.sort_unstable();
            all.sort_unstable();
            assert_eq!(all, left);
            assert_eq!(wheel.next_ticks(), None);
            wheel.check();
        }
    }
}
