//! Shapes: the widths of keys and values, and the components of values. The compiler knows the
//! usual shapes, so that loops over their words disappear; the widths of all others are known at
//! run time.

use alloc::vec;
use alloc::vec::Vec;

use super::sums::Sums;
use crate::error::EvalError;
use crate::program::Component;
use crate::value::{halves, wide};

/// Mixes the words of a key. The function is public: a client that chooses keys can make them
/// collide.
#[inline(always)]
pub fn hash(key: &[u64]) -> u64 {
    const FACTOR: u128 = 0xa076_1d64_78bd_642f;
    let mut hash = 0x9e37_79b9_7f4a_7c15_u64;
    for word in key {
        let product = u128::from(hash ^ word) * FACTOR;
        hash = (product as u64) ^ (product >> 64) as u64;
    }
    hash
}

/// The largest absolute values that sums of one and of two words hold.
const INT_MAX: u128 = i64::MAX as u128;
const WIDE_MAX: u128 = i128::MAX as u128;

/// Widths of keys and values, in words.
pub trait Shape: Copy {
    /// Whether the compiler knows the widths.
    const KNOWN: bool;
    /// The words of a value, in processor registers where the compiler knows how many.
    type ValueWords: AsMut<[u64]>;
    /// A value of zero.
    fn zero(self) -> Self::ValueWords;
    /// Words of a key.
    fn key(self) -> usize;
    /// Words of a value.
    fn value(self) -> usize;
    /// Words of both.
    #[inline(always)]
    fn entry(self) -> usize {
        self.key() + self.value()
    }
    /// The hash by which a table finds an entry's home.
    #[inline(always)]
    fn hash(self, entry: &[u64]) -> u64 {
        hash(&entry[..self.key()])
    }
    /// Adds to a value: see [`Sums::add`].
    #[inline(always)]
    fn add(self, sums: &Sums, row: &mut [u64], delta: &[u64]) -> Result<(), EvalError> {
        sums.add(row, delta)
    }
    /// Adds to a value without checks: see [`Sums::accumulate`].
    #[inline(always)]
    fn accumulate(self, sums: &Sums, row: &mut [u64], delta: &[u64]) {
        sums.accumulate(row, delta);
    }
    /// Subtracts from a value: see [`Sums::deduct`].
    #[inline(always)]
    fn deduct(self, sums: &Sums, row: &mut [u64], delta: &[u64]) {
        sums.deduct(row, delta);
    }
    /// Replaces a value by another one in the sums of absolute values, one sum per component.
    /// Returns false if a sum would exceed what its component can hold; nothing has changed then.
    #[inline(always)]
    fn weigh(self, sums: &Sums, magnitudes: &mut [u128], old: Option<&[u64]>, new: &[u64]) -> bool {
        let sum = |component: usize, magnitude: u128| {
            let at = sums.offset(component);
            let value = |row: &[u64]| sums.value(row, component, at).unsigned_abs();
            (magnitude - old.map_or(0, value)).saturating_add(value(new))
        };
        let limit = |component: usize| match sums.components()[component] {
            Component::Int => INT_MAX,
            Component::Wide | Component::Float => WIDE_MAX,
        };
        let mut each = magnitudes.iter().enumerate();
        if !each.all(|(component, magnitude)| sum(component, *magnitude) <= limit(component)) {
            return false;
        }
        for (component, magnitude) in magnitudes.iter_mut().enumerate() {
            *magnitude = sum(component, *magnitude);
        }
        true
    }
}

/// A shape that the compiler knows. Bit `w` of `WIDE` is set if the component that begins at word
/// `w` of the value has two words; all others have one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fixed<const KEY: usize, const VALUE: usize, const WIDE: u32 = 0>;

/// Whether the component that begins at a word has two words.
#[inline(always)]
const fn is_wide(components: u32, word: usize) -> bool {
    components >> word & 1 == 1
}

impl<const KEY: usize, const VALUE: usize, const WIDE: u32> Fixed<KEY, VALUE, WIDE> {
    /// Combines `delta` with `row`, component by component, by one operation for components of two
    /// words and one for components of one.
    #[inline(always)]
    fn combine(
        self,
        row: &mut [u64],
        delta: &[u64],
        two: impl Fn(i128, i128) -> i128,
        one: impl Fn(u64, u64) -> u64,
    ) {
        let (row, delta) = (&mut row[..VALUE], &delta[..VALUE]);
        let mut word = 0;
        while word < VALUE {
            if is_wide(WIDE, word) {
                let (a, b) = (wide(row[word], row[word + 1]), wide(delta[word], delta[word + 1]));
                [row[word], row[word + 1]] = halves(two(a, b));
                word += 2;
            } else {
                row[word] = one(row[word], delta[word]);
                word += 1;
            }
        }
    }
}

impl<const KEY: usize, const VALUE: usize, const WIDE: u32> Shape for Fixed<KEY, VALUE, WIDE> {
    const KNOWN: bool = true;
    type ValueWords = [u64; VALUE];

    #[inline(always)]
    fn zero(self) -> Self::ValueWords {
        [0; VALUE]
    }

    #[inline(always)]
    fn key(self) -> usize {
        KEY
    }

    #[inline(always)]
    fn value(self) -> usize {
        VALUE
    }

    #[inline(always)]
    fn add(self, sums: &Sums, row: &mut [u64], delta: &[u64]) -> Result<(), EvalError> {
        let (now, delta) = (&mut row[..VALUE], &delta[..VALUE]);
        let (mut next, mut fits, mut small) = ([0; VALUE], true, true);
        let mut word = 0;
        while word < VALUE {
            if is_wide(WIDE, word) {
                let (a, b) = (wide(now[word], now[word + 1]), wide(delta[word], delta[word + 1]));
                let (sum, overflows) = a.overflowing_add(b);
                fits &= !overflows & (sum != i128::MIN);
                [next[word], next[word + 1]] = halves(sum);
                // Few sums pass this test; all those that could count as zero do.
                small &= sum.wrapping_add(1 << 32) as u128 >> 33 == 0;
                word += 2;
            } else {
                let (sum, overflows) = (now[word] as i64).overflowing_add(delta[word] as i64);
                fits &= !overflows & (sum != i64::MIN);
                next[word] = sum as u64;
                small &= sum == 0;
                word += 1;
            }
        }
        if !fits {
            return Err(EvalError::Overflow);
        }
        if small && sums.rounds() {
            return sums.add(row, delta);
        }
        now.copy_from_slice(&next);
        Ok(())
    }

    #[inline(always)]
    fn accumulate(self, _: &Sums, row: &mut [u64], delta: &[u64]) {
        self.combine(row, delta, i128::wrapping_add, u64::wrapping_add);
    }

    #[inline(always)]
    fn deduct(self, _: &Sums, row: &mut [u64], delta: &[u64]) {
        self.combine(row, delta, i128::wrapping_sub, u64::wrapping_sub);
    }

    #[inline(always)]
    fn weigh(self, _: &Sums, magnitudes: &mut [u128], old: Option<&[u64]>, new: &[u64]) -> bool {
        let (new, old) = (&new[..VALUE], old.map(|old| &old[..VALUE]));
        let (mut next, mut fits) = ([0; VALUE], true);
        let (mut word, mut component) = (0, 0);
        while word < VALUE {
            let is_wide = is_wide(WIDE, word);
            if is_wide {
                let value = |row: &[u64]| wide(row[word], row[word + 1]).unsigned_abs();
                let (sum, overflows) =
                    (magnitudes[component] - old.map_or(0, value)).overflowing_add(value(new));
                fits &= !overflows & (sum <= WIDE_MAX);
                next[component] = sum;
                word += 2;
            } else {
                // At most INT_MAX plus 2^63: that fits one word.
                let value = |row: &[u64]| (row[word] as i64).unsigned_abs();
                let sum = magnitudes[component] as u64 - old.map_or(0, value) + value(new);
                fits &= sum as i64 >= 0;
                next[component] = u128::from(sum);
                word += 1;
            }
            component += 1;
        }
        if fits {
            magnitudes[..component].copy_from_slice(&next[..component]);
        }
        fits
    }
}

/// A shape that is known at run time.
#[derive(Clone, Copy, Debug)]
pub struct Wide {
    /// Words of a key.
    pub key: usize,
    /// Words of a value.
    pub value: usize,
}

impl Shape for Wide {
    const KNOWN: bool = false;
    type ValueWords = Vec<u64>;

    #[inline(always)]
    fn zero(self) -> Self::ValueWords {
        vec![0; self.value]
    }

    #[inline(always)]
    fn key(self) -> usize {
        self.key
    }
    #[inline(always)]
    fn value(self) -> usize {
        self.value
    }
}

/// The shape of a table of numbers, whose entries lie elsewhere. Each slot is one word: the upper
/// half of the key's hash, and below it the entry's number plus one.
#[derive(Clone, Copy, Debug)]
pub struct Numbers;

impl Numbers {
    /// The part of a hash that a slot keeps.
    pub const HASH: u64 = !0 << 32;

    /// The slot of an entry. Panics: if the number is 2³² − 1 or above.
    #[inline(always)]
    pub fn entry(hash: u64, number: usize) -> u64 {
        let number = u32::try_from(number).ok().and_then(|number| number.checked_add(1));
        hash & Self::HASH | u64::from(number.expect("fewer than 2^32 entries"))
    }

    /// The entry's number, read from its slot.
    #[inline(always)]
    pub fn number(entry: u64) -> usize {
        entry as u32 as usize - 1
    }
}

impl Shape for Numbers {
    const KNOWN: bool = true;
    type ValueWords = [u64; 1];

    #[inline(always)]
    fn zero(self) -> Self::ValueWords {
        [0]
    }
    #[inline(always)]
    fn key(self) -> usize {
        0
    }
    #[inline(always)]
    fn value(self) -> usize {
        1
    }
    #[inline(always)]
    fn hash(self, entry: &[u64]) -> u64 {
        entry[0] & Self::HASH
    }
}

/// Whether two runs of words are equal; a loop, which the compiler unrolls if it knows the width.
#[inline(always)]
pub fn same(a: &[u64], b: &[u64], words: usize) -> bool {
    let (a, b) = (&a[..words], &b[..words]);
    let mut difference = 0;
    for word in 0..words {
        difference |= a[word] ^ b[word];
    }
    difference == 0
}

/// Whether all words are zero.
#[inline(always)]
pub fn is_zero(words: &[u64]) -> bool {
    words.iter().all(|word| *word == 0)
}
