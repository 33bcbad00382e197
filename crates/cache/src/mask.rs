//! A mask of ways, and how the ways of a cache are divided between polluters and the sensitive.

use std::fmt;

/// A set of ways of a cache; bit `i` is way `i`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mask(pub u64);

impl Mask {
    /// The mask of the `count` lowest ways.
    ///
    /// Panics: if `count` is above 64.
    pub fn lowest(count: u32) -> Mask {
        assert!(count <= 64, "a mask has 64 bits");
        Mask(if count == 64 { u64::MAX } else { (1 << count) - 1 })
    }

    /// The mask that the kernel writes as hexadecimal digits, with or without `0x`. `None` if the
    /// text is anything else.
    pub fn parse(text: &str) -> Option<Mask> {
        let text = text.trim();
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let sound = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        if sound { u64::from_str_radix(digits, 16).ok().map(Mask) } else { None }
    }

    /// How many ways the mask names.
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether the mask names no way.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the ways lie side by side; so does a mask of none.
    pub fn is_contiguous(self) -> bool {
        let low = self.0 >> self.0.trailing_zeros().min(63);
        low & low.wrapping_add(1) == 0
    }

    /// Whether all ways of `other` are in this mask.
    pub fn covers(self, other: Mask) -> bool {
        other.0 & !self.0 == 0
    }

    /// Ways in both masks.
    pub fn and(self, other: Mask) -> Mask {
        Mask(self.0 & other.0)
    }

    /// Ways of this mask that `other` lacks.
    pub fn without(self, other: Mask) -> Mask {
        Mask(self.0 & !other.0)
    }

    /// The `count` highest ways of the mask; all, if there are fewer.
    fn highest_of(self, count: u32) -> Mask {
        let mut left = self.0;
        while left.count_ones() > count {
            left &= left - 1;
        }
        Mask(left)
    }

    /// The longest run of ways side by side; the lowest of several.
    fn longest_run(self) -> Mask {
        let (mut best, mut bit) = (Mask(0), 0);
        while bit < 64 {
            let length = (!(self.0 >> bit)).trailing_zeros().min(64 - bit);
            if length > best.count() {
                best = Mask(Mask::lowest(length).0 << bit);
            }
            bit += length.max(1);
        }
        best
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

/// What masks the cache takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskRules {
    /// All ways.
    pub full: Mask,
    /// Ways that devices fill as well (`shareable_bits`).
    pub shareable: Mask,
    /// The fewest ways of a mask.
    pub ways_min: u32,
    /// Whether ways of a mask may lie apart (`sparse_masks`).
    pub sparse: bool,
}

/// Why a mask is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaskProblem {
    /// The mask names ways that the cache does not have.
    OutsideCache,
    /// The mask has fewer ways than the cache's least.
    TooFewWays,
    /// The ways lie apart, and the cache wants them side by side.
    Apart,
}

/// The ways of one cache, divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// Ways that polluting work fills.
    pub polluting: Mask,
    /// Ways that sensitive work fills; none of them is a polluter's.
    pub sensitive: Mask,
}

impl MaskRules {
    /// Whether the cache takes the mask.
    pub fn check(&self, mask: Mask) -> Result<(), MaskProblem> {
        if !self.full.covers(mask) {
            Err(MaskProblem::OutsideCache)
        } else if mask.count() < self.ways_min {
            Err(MaskProblem::TooFewWays)
        } else if !self.sparse && !mask.is_contiguous() {
            Err(MaskProblem::Apart)
        } else {
            Ok(())
        }
    }

    /// Divides the cache: `percent` of the ways, rounded, for polluters, and the others for the sensitive.
    ///
    /// Polluters get ways that devices fill, as far as the rules allow, and the sensitive leave such
    /// ways out unless nothing else remains. `None` if the cache has too few ways for both.
    pub fn divide(&self, percent: u32) -> Option<Division> {
        let (ways, least) = (self.full.count(), self.ways_min.max(1));
        let most = ways.checked_sub(least).filter(|&most| most >= least)?;
        let wanted = (ways * percent.min(100) + 50) / 100;
        let wanted = wanted.clamp(least, most);
        let polluting = self.polluters_ways(wanted);
        let rest = self.full.without(polluting);
        let unshared = rest.without(self.shareable);
        let unshared = if self.sparse { unshared } else { unshared.longest_run() };
        let sensitive = if unshared.count() >= least { unshared } else { rest };
        let division = Division { polluting, sensitive };
        let taken = self.check(polluting).and(self.check(sensitive)).is_ok();
        taken.then_some(division)
    }

    /// `wanted` ways at an end of the cache, where the remaining ones stay side by side.
    fn polluters_ways(&self, wanted: u32) -> Mask {
        if self.sparse {
            let shared = self.full.and(self.shareable).highest_of(wanted);
            let more = self.full.without(shared).highest_of(wanted - shared.count());
            return Mask(shared.0 | more.0);
        }
        let high = self.full.highest_of(wanted);
        let low = self.full.without(self.full.highest_of(self.full.count() - wanted));
        let shared = |mask: Mask| mask.and(self.shareable).count();
        if shared(high) > shared(low) { high } else { low }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rules(ways: u32, shareable: u64, ways_min: u32, sparse: bool) -> MaskRules {
        MaskRules { full: Mask::lowest(ways), shareable: Mask(shareable), ways_min, sparse }
    }

    #[test]
    fn masks_are_read_as_the_kernel_writes_them() {
        for (text, mask) in
            [("fffff\n", Some(0xf_ffff)), ("0x3", Some(3)), ("", None), ("-1", None)]
        {
            assert_eq!(Mask::parse(text), mask.map(Mask), "{text:?}");
        }
        assert_eq!(Mask::parse("10000000000000000"), None, "65 bits");
        assert_eq!(Mask::lowest(64).0, u64::MAX);
    }

    #[test]
    fn ways_side_by_side_are_told_from_ways_apart() {
        for (mask, together) in [(0, true), (1, true), (0x30, true), (0x5, false), (u64::MAX, true)]
        {
            assert_eq!(Mask(mask).is_contiguous(), together, "{mask:x}");
        }
        assert!(Mask(1 << 63).is_contiguous());
        assert!(!Mask(1 << 63 | 1).is_contiguous());
    }

    #[test]
    fn the_papers_machine_gives_a_scan_two_of_twenty_ways() {
        let broadwell = rules(20, 0xc_0000, 1, false);
        let division = broadwell.divide(10).expect("twenty ways are enough");
        assert_eq!(division.polluting, Mask(0xc_0000), "the ways that devices fill");
        assert_eq!(division.sensitive, Mask(0x3_ffff));
    }

    #[test]
    fn the_sensitive_leave_out_ways_of_devices() {
        let skylake = rules(11, 0x600, 1, false).divide(10).expect("enough");
        assert_eq!((skylake.polluting, skylake.sensitive), (Mask(0x400), Mask(0x1ff)));
        let all_shared = rules(11, 0x7ff, 2, false).divide(10).expect("enough");
        assert_eq!((all_shared.polluting, all_shared.sensitive), (Mask(3), Mask(0x7fc)));
    }

    #[test]
    fn masks_of_ways_apart_are_used_where_they_are_taken() {
        let apart = rules(16, 0x0101, 0, true).divide(12).expect("enough");
        assert_eq!((apart.polluting, apart.sensitive), (Mask(0x0101), Mask(0xfefe)));
    }

    #[test]
    fn a_mask_that_the_cache_would_refuse_is_refused_with_the_reason() {
        let rules = rules(12, 0, 2, false);
        assert_eq!(rules.check(Mask(0x1000)), Err(MaskProblem::OutsideCache));
        assert_eq!(rules.check(Mask(1)), Err(MaskProblem::TooFewWays));
        assert_eq!(rules.check(Mask(5)), Err(MaskProblem::Apart));
        assert_eq!(rules.check(Mask(6)), Ok(()));
    }

    #[test]
    fn a_cache_of_too_few_ways_is_not_divided() {
        assert_eq!(rules(1, 0, 1, false).divide(10), None);
        assert_eq!(rules(3, 0, 2, false).divide(10), None);
        assert_eq!(rules(0, 0, 0, true).divide(10), None);
    }

    proptest! {
        #[test]
        fn every_division_obeys_the_rules_and_shares_no_way(
            ways in 0_u32..=64, shareable: u64, ways_min in 0_u32..6, sparse: bool, percent in 0_u32..=120,
        ) {
            let full = Mask::lowest(ways);
            let rules = MaskRules { full, shareable: Mask(shareable).and(full), ways_min, sparse };
            match rules.divide(percent) {
                Some(Division { polluting, sensitive }) => {
                    prop_assert_eq!(rules.check(polluting), Ok(()));
                    prop_assert_eq!(rules.check(sensitive), Ok(()));
                    prop_assert!(polluting.and(sensitive).is_empty());
                    prop_assert!(!polluting.is_empty() && !sensitive.is_empty());
                }
                None => prop_assert!(ways < 2 * ways_min.max(1)),
            }
        }

        #[test]
        fn a_mask_is_contiguous_if_its_digits_have_no_hole(bits: u64) {
            let digits = format!("{bits:b}");
            prop_assert_eq!(Mask(bits).is_contiguous(), !digits.trim_matches('0').contains('0'));
        }
    }
}
