//! A set-associative cache with masks of ways, and a policy that chooses which line gives its place.
//!
//! As in hardware, a mask restricts where lines are *filled*; a line is hit wherever it lies.

use super::policy::{Policy, Replacement};
use crate::mask::Mask;

/// What came of looking for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The line was there.
    Hit,
    /// The line was fetched.
    Miss {
        /// The line that gave its place, and the cores that had touched it.
        evicted: Option<(u64, u64)>,
    },
}

/// A cache. A line is an address divided by the line's size.
pub struct Cache {
    /// Numbers of the lines, plus one; 0 where a place is empty. The places of a set lie beside each other.
    lines: Vec<u64>,
    /// What the policy knows of each line.
    ranks: Vec<u64>,
    /// Cores that have touched each line, a bit each.
    cores: Vec<u64>,
    replacement: Replacement,
    sets: u64,
    ways: usize,
}

impl Cache {
    /// A cache of `bytes` with `ways` places for each line of `line_bytes`, any number of sets, that replaces the
    /// least recently used line.
    ///
    /// Panics: if a size is 0, or there are more than 64 ways.
    pub fn new(bytes: u64, ways: u32, line_bytes: u64) -> Cache {
        Cache::by(Policy::Lru, bytes, ways, line_bytes)
    }

    /// The same with another policy of replacement.
    ///
    /// Panics: as [`Cache::new`].
    pub fn by(policy: Policy, bytes: u64, ways: u32, line_bytes: u64) -> Cache {
        let sets = bytes / line_bytes / u64::from(ways);
        assert!(
            sets > 0 && (1..=64).contains(&ways),
            "a cache has sets, and ways as masks have bits"
        );
        let ways = ways as usize;
        let places = usize::try_from(sets).expect("a cache fits in memory") * ways;
        Cache {
            lines: vec![0; places],
            ranks: vec![0; places],
            cores: vec![0; places],
            replacement: Replacement::new(policy, sets),
            sets,
            ways,
        }
    }

    /// The mask of all ways.
    pub fn full(&self) -> Mask {
        Mask::lowest(self.ways as u32)
    }

    /// Touches a line from a core (below 64), and fetches it into the ways of `mask` unless it is there.
    ///
    /// Panics: if the line is not there and the mask names no way of the cache.
    pub fn touch(&mut self, line: u64, mask: Mask, core: u32) -> Found {
        let (core, key) = (1_u64 << core, line + 1);
        let set = self.set_of(line);
        let first = set.start;
        if let Some(way) = self.lines[set.clone()].iter().position(|&other| other == key) {
            let place = first + way;
            self.ranks[place] = self.replacement.hit(self.ranks[place]);
            self.cores[place] |= core;
            return Found::Hit;
        }
        let (lines, ranks) = (&self.lines[set.clone()], &mut self.ranks[set]);
        let place = first + self.replacement.victim(lines, ranks, mask);
        let gone = (std::mem::replace(&mut self.lines[place], key), self.cores[place]);
        self.ranks[place] = self.replacement.filled(line % self.sets);
        self.cores[place] = core;
        Found::Miss { evicted: (gone.0 > 0).then(|| (gone.0 - 1, gone.1)) }
    }

    /// Drops a line, if it is there.
    pub fn drop_line(&mut self, line: u64) {
        let set = self.set_of(line);
        let first = set.start;
        if let Some(way) = self.lines[set].iter().position(|&other| other == line + 1) {
            (self.lines[first + way], self.ranks[first + way], self.cores[first + way]) = (0, 0, 0);
        }
    }

    /// How many lines `wanted` holds for.
    pub fn count(&self, wanted: impl Fn(u64) -> bool) -> usize {
        self.lines.iter().filter(|&&line| line > 0 && wanted(line - 1)).count()
    }

    fn set_of(&self, line: u64) -> std::ops::Range<usize> {
        // Below the number of places, which is one of a vector.
        let first = (line % self.sets) as usize * self.ways;
        first..first + self.ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same without masks, as lists that the line touched last begins.
    struct Twin {
        sets: Vec<Vec<u64>>,
        ways: usize,
    }

    impl Twin {
        fn touch(&mut self, line: u64) -> bool {
            let count = self.sets.len() as u64;
            let set = &mut self.sets[(line % count) as usize];
            let at = set.iter().position(|&other| other == line);
            if let Some(at) = at {
                set.remove(at);
            }
            set.insert(0, line);
            set.truncate(self.ways);
            at.is_some()
        }
    }

    fn lines() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec(0..96_u64, 0..400)
    }

    proptest! {
        #[test]
        fn without_masks_it_is_a_list_of_recent_lines(lines in lines(), sets in 1..9_u64, ways in 1..9_u32) {
            let mut cache = Cache::new(sets * u64::from(ways) * 64, ways, 64);
            let mut twin = Twin { sets: vec![Vec::new(); sets as usize], ways: ways as usize };
            for line in lines {
                let hit = cache.touch(line, cache.full(), 0) == Found::Hit;
                prop_assert_eq!(hit, twin.touch(line));
            }
        }

        #[test]
        fn groups_with_ways_of_their_own_have_caches_of_their_own(
            lines in lines(), sets in 1..6_u64, first in 1..6_u32, second in 1..6_u32,
        ) {
            let (ways, size) = (first + second, |ways: u32| sets * u64::from(ways) * 64);
            // Groups share the duels of the other policies.
            for policy in [Policy::Lru, Policy::Srrip] {
                let mut shared = Cache::by(policy, size(ways), ways, 64);
                let own = |ways| Cache::by(policy, size(ways), ways, 64);
                let mut own = [own(first), own(second)];
                let masks = [Mask::lowest(first), Mask(Mask::lowest(second).0 << first)];
                for &line in &lines {
                    let group = (line / 48) as usize;
                    let alone = own[group].touch(line, own[group].full(), 0) == Found::Hit;
                    prop_assert_eq!(shared.touch(line, masks[group], 0) == Found::Hit, alone);
                }
            }
        }
    }

    #[test]
    fn a_line_is_hit_outside_the_mask_and_keeps_its_place() {
        let mut cache = Cache::new(4 * 64, 4, 64);
        for line in 0..4 {
            assert_eq!(cache.touch(line, cache.full(), 1), Found::Miss { evicted: None });
        }
        for line in 10..20 {
            cache.touch(line, Mask(0b0001), 2);
        }
        for line in 1..4 {
            assert_eq!(cache.touch(line, Mask(0b0001), 0), Found::Hit, "{line}");
        }
        let found = cache.touch(99, Mask(0b0001), 0);
        assert_eq!(found, Found::Miss { evicted: Some((19, 0b100)) }, "line and its core");
        assert_eq!(cache.count(|line| line < 10), 3);
        cache.drop_line(3);
        assert_eq!(cache.count(|line| line < 10), 2);
    }
}
