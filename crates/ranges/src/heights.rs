//! The next number of a list that is at least so great, found in steps that leave out blocks of smaller ones.
//!
//! Above the numbers lie levels: of each [`FAN`] numbers of a level the next has the greatest. It is Bentley's segment tree,
//! with wide nodes and without pointers.

use std::ops::Range;

/// Numbers of a level for which the next has one.
const FAN: usize = 16;

/// Numbers, and the greatest of blocks of them.
#[derive(Debug)]
pub(crate) struct Heights {
    levels: Vec<Vec<u128>>,
}

impl Heights {
    pub(crate) fn new(numbers: Vec<u128>) -> Self {
        let mut levels = vec![numbers];
        while let Some(last) = levels.last().filter(|last| last.len() > FAN) {
            let greatest = |block: &[u128]| block.iter().copied().max().unwrap_or(0);
            levels.push(last.chunks(FAN).map(greatest).collect());
        }
        Heights { levels }
    }

    /// Bytes of so many numbers.
    pub(crate) fn bytes(numbers: usize) -> usize {
        (numbers + numbers / (FAN - 1) + 1) * size_of::<u128>()
    }

    /// The first place of a range with a number that is at least `least`, or the end of the range. `looks`: numbers that may be
    /// looked at; with none left the answer may be a place before which there is no such number.
    pub(crate) fn next(&self, range: Range<usize>, least: u128, looks: &mut usize) -> usize {
        let (mut at, mut level, mut width) = (range.start, 0, 1);
        while at < range.end && *looks > 0 {
            *looks -= 1;
            if self.levels[level][at / width] >= least {
                if level == 0 {
                    return at;
                }
                level -= 1;
                width /= FAN;
                continue;
            }
            at += width;
            while level + 1 < self.levels.len() && at.is_multiple_of(width * FAN) {
                level += 1;
                width *= FAN;
            }
        }
        at.min(range.end)
    }
}

#[cfg(test)]
mod tests {
    use halcyon_base::rng::Rng;

    use super::*;

    #[test]
    fn the_next_is_the_one_that_looking_at_each_finds() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let length = rng.below(3_000) as usize;
            let most = 1 + rng.below(200);
            let number = |_| {
                let below = 1 + rng.below(most);
                u128::from(rng.below(below))
            };
            let numbers: Vec<u128> = (0..length).map(number).collect();
            let heights = Heights::new(numbers.clone());
            for _ in 0..50 {
                let start = rng.below(length as u64 + 1) as usize;
                let end = start + rng.below((length - start) as u64 + 1) as usize;
                let least = u128::from(rng.below(most + 2));
                let of_each = (start..end).find(|&at| numbers[at] >= least).unwrap_or(end);
                let mut looks = usize::MAX;
                assert_eq!(heights.next(start..end, least, &mut looks), of_each, "seed {seed}");
                // In pieces it is found as well.
                let (mut at, mut pieces) = (start, 0);
                while at < end && (pieces == 0 || numbers[at] < least) {
                    let mut few = 7;
                    at = heights.next(at..end, least, &mut few);
                    pieces += 1;
                }
                assert_eq!(at, of_each, "seed {seed}");
            }
        }
    }
}
