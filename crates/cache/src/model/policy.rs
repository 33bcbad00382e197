//! Which line of a set gives its place.
//!
//! *LRU*: the line that was touched longest ago.
//!
//! *Re-reference interval prediction* (RRIP): each line has an age of two bits that predicts how far
//! away its next touch is, 0 near, 3 distant. The first way whose line has age 3 gives its place; if none
//! has, all lines that may give their place age together until one has. A hit makes a line young. A
//! new line is not: until it is hit, it leaves before lines that were. *Bimodal* insertion gives nearly all new
//! lines age 3, so that most of them leave at once, and what lies in the cache stays although more is
//! asked for than fits. *Set duelling*: a few sets lead, half of them by either insertion; a counter of their
//! misses tells the other sets which insertion to follow.
//!
//! | policy | new line | bimodal: new line, seldom | a hit makes of age 0, 1, 2, 3 |
//! |---|---|---|---|
//! | SRRIP | 2 | | 0 0 0 0 |
//! | DRRIP | 2 | 3, one in 32: 2 | 0 0 0 0 |
//! | quad-age | 1 | 3, one in 16: 1 | 0 0 1 1 |
//!
//! A mask restricts who may give its place, and who ages when nobody is distant: what is filled under a mask
//! makes no line of other ways older. (Whether processors do so is not known.)
//!
//! Source: SRRIP, DRRIP, duels with 32 leading sets and a counter of ten bits: A. Jaleel and others, "High Performance Cache
//! Replacement Using Re-Reference Interval Prediction", ISCA 2010. Quad-age: what A. Abel and J. Reineke
//! inferred of the last-level caches of Intel's client processors from Ivy Bridge to Broadwell, "nanoBench", ISPASS 2020, and
//! uops.info/cache.html (`QLRU_H11_M1_R0_U0`, in duels with `MR161`).

use crate::mask::Mask;

/// Age of a line whose next touch is far away: the line gives its place.
const DISTANT: u64 = 3;
/// Sets that lead by either insertion.
const LEADERS: u64 = 32;
/// Where the duel's counter ends, and from where on its sets follow bimodal insertion.
const SELECTOR_MAX: u32 = 1023;
const BIMODAL_FROM: u32 = 512;

/// A policy of replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The line touched longest ago leaves.
    Lru,
    /// Static RRIP.
    Srrip,
    /// Dynamic RRIP: static and bimodal in a duel.
    Drrip,
    /// What was inferred of Intel's processors from Ivy Bridge to Broadwell: a relative of DRRIP.
    QuadAge,
}

impl Policy {
    /// All policies.
    pub const ALL: [Policy; 4] = [Policy::Lru, Policy::Srrip, Policy::Drrip, Policy::QuadAge];

    /// The policy's name.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Lru => "lru",
            Policy::Srrip => "srrip",
            Policy::Drrip => "drrip",
            Policy::QuadAge => "quad-age",
        }
    }

    /// Age of a new line by ordinary insertion.
    fn inserted(self) -> u64 {
        if self == Policy::QuadAge { 1 } else { 2 }
    }

    /// Of how many new lines bimodal insertion gives one the ordinary age; 0: there is no duel.
    fn ordinary_one_in(self) -> u32 {
        match self {
            Policy::Lru | Policy::Srrip => 0,
            Policy::Drrip => 32,
            Policy::QuadAge => 16,
        }
    }
}

/// The insertion that a set leads by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leads {
    Ordinary,
    Bimodal,
    Neither,
}

/// The state of a policy beside the *ranks* of lines: by LRU the time of a line's last touch, by the others
/// a line's age. The rank of an empty place is 0.
pub(super) struct Replacement {
    policy: Policy,
    now: u64,
    /// Sets of which one leads by either insertion, and how many times so many sets there are.
    section_sets: u64,
    sections: u64,
    /// Grows with misses of sets that lead by ordinary insertion, shrinks with those of the others.
    selector: u32,
    bimodal_fills: u32,
}

impl Replacement {
    /// The beginning, for so many sets.
    pub fn new(policy: Policy, sets: u64) -> Replacement {
        let sections = LEADERS.min(sets / 2);
        Replacement {
            policy,
            now: 0,
            section_sets: sets / sections.max(1),
            sections,
            selector: BIMODAL_FROM - 1,
            bimodal_fills: 0,
        }
    }

    /// The rank of a line with this rank once it is hit.
    pub fn hit(&mut self, rank: u64) -> u64 {
        self.now += 1;
        match self.policy {
            Policy::Lru => self.now,
            Policy::Srrip | Policy::Drrip => 0,
            Policy::QuadAge => u64::from(rank >= 2),
        }
    }

    /// The way of the mask that gives its place: an empty one if there is one. `lines` and `ranks`: those of the set;
    /// a line of 0 is none.
    ///
    /// Panics: if the mask names no way of the set.
    pub fn victim(&self, lines: &[u64], ranks: &mut [u64], mask: Mask) -> usize {
        let named = |way: &usize| mask.0 >> way & 1 == 1;
        let ways = || (0..lines.len()).filter(named);
        if self.policy == Policy::Lru {
            // An empty place was never touched.
            return ways().min_by_key(|&way| ranks[way]).expect("a mask names a way");
        }
        if let Some(way) = ways().find(|&way| lines[way] == 0) {
            return way;
        }
        let oldest = ways().map(|way| ranks[way]).max().expect("a mask names a way");
        if oldest < DISTANT {
            ways().for_each(|way| ranks[way] += DISTANT - oldest);
        }
        ways().find(|&way| ranks[way] == DISTANT).expect("the oldest lines are distant now")
    }

    /// The rank of a line that was just fetched into a set.
    pub fn filled(&mut self, set: u64) -> u64 {
        self.now += 1;
        if self.policy == Policy::Lru {
            return self.now;
        }
        let one_in = self.policy.ordinary_one_in();
        let bimodal = one_in > 0
            && match self.leads(set) {
                Leads::Ordinary => {
                    self.selector = (self.selector + 1).min(SELECTOR_MAX);
                    false
                }
                Leads::Bimodal => {
                    self.selector = self.selector.saturating_sub(1);
                    true
                }
                Leads::Neither => self.selector >= BIMODAL_FROM,
            };
        if !bimodal {
            return self.policy.inserted();
        }
        self.bimodal_fills = (self.bimodal_fills + 1) % one_in;
        if self.bimodal_fills == 0 { self.policy.inserted() } else { DISTANT }
    }

    /// In each section one set of the first half leads by ordinary insertion, another place in each section,
    /// and its mirror image by bimodal.
    fn leads(&self, set: u64) -> Leads {
        let (section, at) = (set / self.section_sets, set % self.section_sets);
        let leader = section % (self.section_sets / 2).max(1);
        match at {
            _ if section >= self.sections => Leads::Neither,
            at if at == leader => Leads::Ordinary,
            at if at == self.section_sets - 1 - leader => Leads::Bimodal,
            _ => Leads::Neither,
        }
    }
}
