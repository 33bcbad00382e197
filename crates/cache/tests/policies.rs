//! Policies of replacement beside naive twins on random traces and masks, and what textbooks say of them.

use halcyon_cache::Mask;
use halcyon_cache::model::cache::{Cache, Found};
use halcyon_cache::model::policy::Policy;
use proptest::prelude::*;

/// A place of the twin's set.
#[derive(Clone, Copy)]
struct Place {
    line: u64,
    age: u32,
    cores: u64,
}

/// The policies once more, as slowly and plainly as they can be told.
struct Twin {
    policy: Policy,
    /// Places by set and way.
    sets: Vec<Vec<Option<Place>>>,
    /// Lines of each set, the one touched last at the end.
    recent: Vec<Vec<u64>>,
    ordinary_leaders: Vec<usize>,
    bimodal_leaders: Vec<usize>,
    selector: i32,
    bimodal: u32,
}

impl Twin {
    fn new(policy: Policy, sets: usize, ways: usize) -> Twin {
        let (mut ordinary_leaders, mut bimodal_leaders) = (Vec::new(), Vec::new());
        if sets >= 2 {
            let sections = if sets / 2 < 32 { sets / 2 } else { 32 };
            let length = sets / sections;
            for section in 0..sections {
                let offset = section % (length / 2);
                ordinary_leaders.push(section * length + offset);
                bimodal_leaders.push(section * length + (length - 1 - offset));
            }
        }
        Twin {
            policy,
            sets: vec![vec![None; ways]; sets],
            recent: vec![Vec::new(); sets],
            ordinary_leaders,
            bimodal_leaders,
            selector: 511,
            bimodal: 0,
        }
    }

    /// Age of a new line, by what it does to the duel.
    fn new_age(&mut self, set: usize) -> u32 {
        let (ordinary, one_in) = match self.policy {
            Policy::Lru => return 0,
            Policy::Srrip => return 2,
            Policy::Drrip => (2, 32),
            Policy::QuadAge => (1, 16),
        };
        let is_bimodal = if self.ordinary_leaders.contains(&set) {
            self.selector = i32::min(self.selector + 1, 1023);
            false
        } else if self.bimodal_leaders.contains(&set) {
            self.selector = i32::max(self.selector - 1, 0);
            true
        } else {
            self.selector > 511
        };
        if !is_bimodal {
            return ordinary;
        }
        self.bimodal += 1;
        if self.bimodal.is_multiple_of(one_in) { ordinary } else { 3 }
    }

    fn victim(&mut self, set: usize, mask: u64) -> usize {
        let ways: Vec<usize> =
            (0..self.sets[set].len()).filter(|way| (mask >> way) % 2 == 1).collect();
        if let Some(&way) = ways.iter().find(|&&way| self.sets[set][way].is_none()) {
            return way;
        }
        let places = &mut self.sets[set];
        if self.policy == Policy::Lru {
            for line in &self.recent[set] {
                let holds = |&&way: &&usize| places[way].is_some_and(|place| place.line == *line);
                if let Some(&way) = ways.iter().find(holds) {
                    return way;
                }
            }
            panic!("every line was touched");
        }
        loop {
            for &way in &ways {
                if places[way].is_some_and(|place| place.age == 3) {
                    return way;
                }
            }
            for &way in &ways {
                places[way].as_mut().expect("none is empty").age += 1;
            }
        }
    }

    fn touch(&mut self, line: u64, mask: u64, core: u32) -> Found {
        let set = (line % self.sets.len() as u64) as usize;
        self.recent[set].retain(|&other| other != line);
        self.recent[set].push(line);
        for place in self.sets[set].iter_mut().flatten() {
            if place.line == line {
                place.cores |= 1 << core;
                place.age = match (self.policy, place.age) {
                    (Policy::QuadAge, 2 | 3) => 1,
                    _ => 0,
                };
                return Found::Hit;
            }
        }
        let way = self.victim(set, mask);
        let evicted = self.sets[set][way].map(|place| (place.line, place.cores));
        let age = self.new_age(set);
        self.sets[set][way] = Some(Place { line, age, cores: 1 << core });
        Found::Miss { evicted }
    }

    fn drop_line(&mut self, line: u64) {
        let set = (line % self.sets.len() as u64) as usize;
        for place in &mut self.sets[set] {
            if place.is_some_and(|place| place.line == line) {
                *place = None;
            }
        }
    }
}

/// A touch: line, bits of a mask, core, and whether another line is dropped first.
type Step = (u64, u64, u32, Option<u64>);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let line = || 0..400_u64;
    let step = (line(), any::<u64>(), 0..64_u32, proptest::option::weighted(0.1, line()));
    prop::collection::vec(step, 0..1500)
}

proptest! {
    #[test]
    fn every_policy_evicts_as_its_naive_twin(steps in steps(), sets in 1..80_u64, ways in 1..9_u32) {
        for policy in Policy::ALL {
            let mut cache = Cache::by(policy, sets * u64::from(ways) * 64, ways, 64);
            let mut twin = Twin::new(policy, sets as usize, ways as usize);
            let whole = cache.full();
            for &(line, bits, core, dropped) in &steps {
                // A third of the touches may fill every way.
                let mask = if bits % 3 == 0 { whole.0 } else { bits & whole.0 };
                let mask = if mask == 0 { whole.0 } else { mask };
                if let Some(dropped) = dropped {
                    cache.drop_line(dropped);
                    twin.drop_line(dropped);
                }
                let (found, wanted) = (cache.touch(line, Mask(mask), core), twin.touch(line, mask, core));
                prop_assert_eq!(found, wanted, "{:?} {:?}", policy, line);
            }
        }
    }
}

const SETS: u64 = 256;
const WAYS: u64 = 16;
const LINES: u64 = SETS * WAYS;

fn cache(policy: Policy) -> Cache {
    Cache::by(policy, LINES * 64, WAYS as u32, 64)
}

/// Share of hits of some lines in turn.
fn hits(cache: &mut Cache, lines: impl IntoIterator<Item = u64>) -> f64 {
    let mask = cache.full();
    let (mut hit, mut all) = (0, 0);
    for line in lines {
        hit += u64::from(cache.touch(line, mask, 0) == Found::Hit);
        all += 1;
    }
    hit as f64 / all as f64
}

#[test]
fn a_scan_longer_than_the_cache_leaves_lines_that_were_hit_but_by_lru() {
    let kept = |policy: Policy, scanned: u64| {
        let mut cache = cache(policy);
        let working = || 0..LINES / 4;
        hits(&mut cache, working());
        assert_eq!(hits(&mut cache, working()), 1.0, "the working set fits");
        hits(&mut cache, 1 << 20..(1 << 20) + scanned);
        hits(&mut cache, working())
    };
    let (twice, longer) = (2 * LINES, LINES + LINES / 4);
    assert_eq!(kept(Policy::Lru, longer), 0.0);
    assert_eq!(kept(Policy::Srrip, twice), 1.0);
    assert_eq!(kept(Policy::Drrip, twice), 1.0);
    assert_eq!(kept(Policy::QuadAge, longer), 1.0);
    // Three rounds of ageing, and what was hit is as old as what was not.
    assert!(kept(Policy::Srrip, 4 * LINES) < 0.5);
}

#[test]
fn beside_a_scan_a_duel_keeps_what_is_touched_again_and_lru_keeps_nothing() {
    let share = |policy| {
        let mut cache = cache(policy);
        let (mut hit, mask) = (0, cache.full());
        for round in 0..40 {
            // Half of the cache is touched, then a scan of a whole cache passes, by pieces.
            for line in 0..LINES / 2 {
                hit += u64::from(cache.touch(line, mask, 0) == Found::Hit);
                for scanned in 0..3 {
                    let line = (1 << 20) + (round * LINES / 2 + line) * 3 + scanned;
                    cache.touch(line, mask, 0);
                }
            }
        }
        hit as f64 / (40 * LINES / 2) as f64
    };
    assert_eq!(share(Policy::Lru), 0.0, "each line is touched after two caches' worth of others");
    assert!(share(Policy::Drrip) > 0.5, "{}", share(Policy::Drrip));
}

/// A loop over more lines than fit, after it was run a while.
fn thrashing(policy: Policy) -> f64 {
    let mut cache = cache(policy);
    let turn = || 0..LINES * 3 / 2;
    for _ in 0..20 {
        hits(&mut cache, turn());
    }
    hits(&mut cache, turn())
}

/// Lines that are touched once more soon and never again.
fn drifting(policy: Policy) -> f64 {
    let mut cache = cache(policy);
    let again = LINES / 4;
    hits(&mut cache, (again..40 * LINES).flat_map(|line| [line, line - again]))
}

#[test]
fn a_duel_follows_the_better_insertion_in_a_thrashing_loop_and_in_a_drift() {
    assert_eq!(thrashing(Policy::Lru), 0.0);
    assert_eq!(thrashing(Policy::Srrip), 0.0);
    for policy in [Policy::Drrip, Policy::QuadAge] {
        // Two thirds of the loop fit; an eighth of the sets always inserts as SRRIP does.
        assert!(thrashing(policy) > 0.4, "{policy:?} {}", thrashing(policy));
    }
    // Bimodal insertion loses nearly every line before its second touch. SRRIP keeps lines that will not be touched a third
    // time, longer than LRU.
    let (lru, srrip, drrip) =
        (drifting(Policy::Lru), drifting(Policy::Srrip), drifting(Policy::Drrip));
    assert!(lru > 0.49 && srrip > 0.3, "{lru} {srrip}");
    assert!(drrip > 0.85 * srrip, "{drrip} {srrip}");
    assert!(drifting(Policy::QuadAge) > 0.4, "{}", drifting(Policy::QuadAge));
}

#[test]
fn what_is_filled_under_a_mask_makes_no_other_ways_older() {
    for policy in Policy::ALL {
        let mut cache = Cache::by(policy, 4 * 64, 4, 64);
        for line in 0..4 {
            cache.touch(line, Mask(1 << line), 0);
        }
        for line in 10..200 {
            cache.touch(line, Mask(0b0011), 0);
        }
        let (two, three) = (cache.touch(2, Mask(1), 0), cache.touch(3, Mask(1), 0));
        assert_eq!((two, three), (Found::Hit, Found::Hit), "{policy:?}");
    }
}
