//! Payloads in words: addition, and the rule what counts as zero.

use alloc::vec::Vec;

use crate::error::EvalError;
use crate::program::{Component, NULL_INT, NULL_WIDE};
use crate::scalar::SUM_ZERO_BELOW;
use crate::value::{halves, wide};

/// The components of a payload: one word for 64-bit sums, two for all others.
#[derive(Clone, Debug)]
pub struct Sums {
    components: Vec<Component>,
    words: usize,
    /// Whether all components are 64-bit sums.
    ints: bool,
    /// Whether some component counts sums next to zero as zero.
    rounds: bool,
}

const WORD_PER_COMPONENT: &str = "payloads have all words of their components";

/// Words that a component takes.
pub fn words_of(component: Component) -> usize {
    component.sum_words()
}

impl Sums {
    /// Makes the components of a map's payload.
    pub fn new(components: &[Component]) -> Self {
        Sums {
            components: components.to_vec(),
            words: components.iter().map(|component| words_of(*component)).sum(),
            ints: components.iter().all(|component| *component == Component::Int),
            rounds: components.contains(&Component::Float),
        }
    }

    /// Words of a payload.
    pub fn words(&self) -> usize {
        self.words
    }

    /// The components.
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// Whether some component counts sums next to zero as zero, so that additions cannot be taken
    /// back exactly.
    #[inline(always)]
    pub fn rounds(&self) -> bool {
        self.rounds
    }

    /// First word of a component.
    pub fn offset(&self, component: usize) -> usize {
        self.components[..component].iter().map(|component| words_of(*component)).sum()
    }

    /// Adds to a payload; a payload that counts as zero becomes zero in all words.
    ///
    /// Errors: a sum does not fit; the payload is as it was.
    #[inline(always)]
    pub fn add(&self, row: &mut [u64], delta: &[u64]) -> Result<(), EvalError> {
        if !self.ints {
            return self.add_mixed(row, delta);
        }
        let delta = &delta[..row.len()];
        for word in 0..row.len() {
            let (sum, overflows) = (row[word] as i64).overflowing_add(delta[word] as i64);
            if overflows || sum == NULL_INT {
                for word in 0..word {
                    row[word] = row[word].wrapping_sub(delta[word]);
                }
                return Err(EvalError::Overflow);
            }
            row[word] = sum as u64;
        }
        Ok(())
    }

    /// Adds components of both widths. Row and delta are taken apart from the front: indexes that
    /// depend on earlier components would need four comparisons with lengths.
    fn add_mixed(&self, row: &mut [u64], delta: &[u64]) -> Result<(), EvalError> {
        if self.rounds {
            return self.add_rounding(row, delta);
        }
        let (mut rest, mut by) = (&mut row[..self.words], &delta[..self.words]);
        for component in &self.components {
            let (overflows, is_null);
            if *component == Component::Int {
                let (word, behind) = rest.split_first_mut().expect(WORD_PER_COMPONENT);
                let ([delta], by_behind) = by.split_first_chunk().expect(WORD_PER_COMPONENT);
                let sum;
                (sum, overflows) = (*word as i64).overflowing_add(*delta as i64);
                is_null = sum == NULL_INT;
                *word = sum as u64;
                (rest, by) = (behind, by_behind);
            } else {
                let (words, behind) = rest.split_first_chunk_mut().expect(WORD_PER_COMPONENT);
                let ([low, high], by_behind) = by.split_first_chunk().expect(WORD_PER_COMPONENT);
                let sum;
                (sum, overflows) = wide(words[0], words[1]).overflowing_add(wide(*low, *high));
                is_null = sum == NULL_WIDE;
                *words = halves(sum);
                (rest, by) = (behind, by_behind);
            }
            if overflows | is_null {
                let end = self.words - rest.len();
                self.subtract(row, delta, end);
                return Err(EvalError::Overflow);
            }
        }
        Ok(())
    }

    /// Adds where some component counts sums next to zero as zero.
    fn add_rounding(&self, row: &mut [u64], delta: &[u64]) -> Result<(), EvalError> {
        let mut at = 0;
        let mut is_zero = true;
        for component in &self.components {
            if *component == Component::Int {
                let (sum, overflows) = (row[at] as i64).overflowing_add(delta[at] as i64);
                if overflows || sum == NULL_INT {
                    self.subtract(row, delta, at);
                    return Err(EvalError::Overflow);
                }
                row[at] = sum as u64;
                is_zero &= sum == 0;
                at += 1;
            } else {
                let (sum, overflows) =
                    wide(row[at], row[at + 1]).overflowing_add(wide(delta[at], delta[at + 1]));
                if overflows || sum == NULL_WIDE {
                    self.subtract(row, delta, at);
                    return Err(EvalError::Overflow);
                }
                [row[at], row[at + 1]] = halves(sum);
                let below = if *component == Component::Float { SUM_ZERO_BELOW } else { 1 };
                is_zero &= sum.unsigned_abs() < below;
                at += 2;
            }
        }
        if is_zero {
            row.fill(0);
        }
        Ok(())
    }

    /// Subtracts the components before word `end`.
    fn subtract(&self, row: &mut [u64], delta: &[u64], end: usize) {
        let mut at = 0;
        for component in &self.components {
            if at >= end {
                break;
            }
            if *component == Component::Int {
                row[at] = row[at].wrapping_sub(delta[at]);
                at += 1;
            } else {
                let sum = wide(row[at], row[at + 1]).wrapping_sub(wide(delta[at], delta[at + 1]));
                [row[at], row[at + 1]] = halves(sum);
                at += 2;
            }
        }
    }

    /// Adds without tests for overflow and zero, for sums that are known to fit in the end.
    #[inline(always)]
    pub fn accumulate(&self, row: &mut [u64], delta: &[u64]) {
        if self.ints {
            let delta = &delta[..row.len()];
            for word in 0..row.len() {
                row[word] = row[word].wrapping_add(delta[word]);
            }
            return;
        }
        let mut at = 0;
        for component in &self.components {
            if *component == Component::Int {
                row[at] = row[at].wrapping_add(delta[at]);
                at += 1;
            } else {
                let sum = wide(row[at], row[at + 1]).wrapping_add(wide(delta[at], delta[at + 1]));
                [row[at], row[at + 1]] = halves(sum);
                at += 2;
            }
        }
    }

    /// Subtracts without tests for overflow and zero.
    #[inline(always)]
    pub fn deduct(&self, row: &mut [u64], delta: &[u64]) {
        self.subtract(row, delta, self.words);
    }

    /// A component as the widest integer. `offset`: the component's first word.
    #[inline(always)]
    pub fn value(&self, row: &[u64], component: usize, offset: usize) -> i128 {
        match self.components[component] {
            Component::Int => i128::from(row[offset] as i64),
            _ => wide(row[offset], row[offset + 1]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn a_payload_that_overflows_stays_as_it_was() {
        let sums = Sums::new(&[Component::Int, Component::Wide, Component::Int]);
        let [low, high] = halves(i128::MAX - 1);
        let mut row = vec![5, low, high, i64::MAX as u64];
        let before = row.clone();
        assert_eq!(sums.add(&mut row, &[1, 9, 0, 0]), Err(EvalError::Overflow));
        assert_eq!(row, before);
        assert_eq!(sums.add(&mut row, &[1, 1, 0, 1]), Err(EvalError::Overflow));
        assert_eq!(row, before);
        assert_eq!(sums.add(&mut row, &[1, 1, 0, u64::MAX]), Ok(()));
        assert_eq!(sums.value(&row, 1, 1), i128::MAX);
        let ints = Sums::new(&[Component::Int; 2]);
        let mut row = vec![1, (-i64::MAX) as u64];
        assert_eq!(ints.add(&mut row, &[1, -1_i64 as u64]), Err(EvalError::Overflow));
        assert_eq!(row, [1, (-i64::MAX) as u64]);
    }

    #[test]
    fn adding_agrees_with_what_rounds_where_nothing_does() {
        use Component::{Int, Wide};
        let mut random = crate::random::Random::new(3);
        let mut overflows = 0;
        for components in [&[Wide][..], &[Wide, Int], &[Int, Wide, Wide, Int, Int, Wide]] {
            let sums = Sums::new(components);
            let word = |random: &mut crate::random::Random| match random.below(6) {
                0 => i64::MAX as u64 - random.below(2),
                1 => i64::MIN as u64 + random.below(3),
                2 => 0_u64.wrapping_sub(random.below(3)),
                _ => random.below(4),
            };
            for _ in 0..20_000 {
                let row: Vec<u64> = (0..sums.words()).map(|_| word(&mut random)).collect();
                let delta: Vec<u64> = (0..sums.words()).map(|_| word(&mut random)).collect();
                let (mut fast, mut slow) = (row.clone(), row.clone());
                let result = sums.add_mixed(&mut fast, &delta);
                assert_eq!(result, sums.add_rounding(&mut slow, &delta));
                assert_eq!(fast, slow);
                overflows += usize::from(result.is_err());
            }
        }
        assert!((5000..55_000).contains(&overflows), "{overflows}");
    }

    #[test]
    fn a_float_sum_next_to_zero_is_zero() {
        let sums = Sums::new(&[Component::Float]);
        let mut row = vec![0, 0];
        assert_eq!(sums.add(&mut row, &halves(SUM_ZERO_BELOW as i128)), Ok(()));
        assert_ne!(row, [0, 0]);
        assert_eq!(sums.add(&mut row, &halves(-1)), Ok(()));
        assert_eq!(row, [0, 0]);
    }
}
