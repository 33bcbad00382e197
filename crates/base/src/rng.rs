//! Small seeded random numbers for tests, fuzzers, workloads and jitter. Not for secrets.
//!
//! The same seed gives the same numbers on every machine and in every later version: a seed that
//! failed is a test for ever.
//! Source: Blackman and Vigna, xoshiro256**, seeded by splitmix64 (public domain).

use std::ops::Range;

/// One step of splitmix64: a good mix of 64 bits, and the seeder of [`Rng`].
#[inline]
pub fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// xoshiro256**: 2^256 - 1 numbers before it repeats, about a nanosecond each.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// A generator whose whole future follows from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut mixer = seed;
        Rng { state: std::array::from_fn(|_| splitmix64(&mut mixer)) }
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [s0, s1, s2, s3] = &mut self.state;
        let result = s1.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = *s1 << 17;
        *s2 ^= *s0;
        *s3 ^= *s1;
        *s1 ^= *s2;
        *s0 ^= *s3;
        *s2 ^= t;
        *s3 = s3.rotate_left(45);
        result
    }

    /// The next 32 bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// A number of `0..bound`; the bias is below `bound / 2^64`.
    ///
    /// Panics: if `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below 0");
        ((self.next_u64() as u128 * bound as u128) >> 64) as u64
    }

    /// A number of `range`.
    ///
    /// Panics: if the range is empty.
    #[inline]
    pub fn range(&mut self, range: Range<i64>) -> i64 {
        let width = range.end.wrapping_sub(range.start) as u64;
        assert!(range.start < range.end, "no number is in an empty range");
        range.start.wrapping_add(self.below(width) as i64)
    }

    /// A number of `0.0..1.0` with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True in `numerator` of `denominator` cases.
    #[inline]
    pub fn chance(&mut self, numerator: u32, denominator: u32) -> bool {
        self.below(denominator as u64) < numerator as u64
    }

    /// One element of `choices`.
    ///
    /// Panics: if there is none.
    #[inline]
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    /// Puts `items` into random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_fixes_the_sequence() {
        // First outputs for splitmix64(0), as published with the reference implementation.
        let mut state = 0;
        assert_eq!(splitmix64(&mut state), 0xe220_a839_7b1d_cdaf);
        assert_eq!(splitmix64(&mut state), 0x6e78_9e6a_a1b9_65f4);
        let (mut a, mut b, mut c) = (Rng::new(42), Rng::new(42), Rng::new(43));
        let from = |rng: &mut Rng| (0..8).map(|_| rng.next_u64()).collect::<Vec<_>>();
        let first = from(&mut a);
        assert_eq!(first, from(&mut b));
        assert_ne!(first, from(&mut c));
    }

    #[test]
    fn ranges_reach_both_ends_and_nothing_else() {
        let mut rng = Rng::new(1);
        let mut seen = [0u32; 5];
        for _ in 0..1000 {
            seen[(rng.range(-2..3) + 2) as usize] += 1;
            assert!((0.0..1.0).contains(&rng.unit()));
        }
        assert!(seen.iter().all(|&count| count > 100), "{seen:?}");
        assert!((i64::MIN..i64::MAX).contains(&rng.range(i64::MIN..i64::MAX)));
    }

    #[test]
    fn shuffle_keeps_all_items() {
        let mut items: Vec<u32> = (0..100).collect();
        Rng::new(9).shuffle(&mut items);
        assert!(!items.is_sorted());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
