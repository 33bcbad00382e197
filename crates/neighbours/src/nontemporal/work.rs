//! What runs beside each other: an aggregation that lives from the cache, and partners that need none.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::streams;
use crate::{Failure, Result};

/// Accesses of a batch, after which the clock is read.
const BATCH: usize = 1 << 16;
/// Batches of different accesses; then they begin again.
const BATCHES: u64 = 64;
const GROUPS: usize = 1024;
/// Words of a piece, after which a partner looks whether it shall end: 1 MiB.
pub const PIECE_WORDS: usize = 1 << 17;

/// The word at a place of a table or column.
fn word(at: u64) -> u64 {
    (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A table of words that an aggregation visits anywhere, adding what it finds to one of 1,024 groups.
pub struct Table {
    words: Vec<u64>,
    /// The sum of each batch, computed without the table.
    expected: Vec<u64>,
}

impl Table {
    /// A table of `bytes`.
    pub fn new(bytes: u64) -> Table {
        let count = (bytes / 8).max(1);
        let sum =
            |batch| Accesses::of(batch, count).fold(0, |sum: u64, at| sum.wrapping_add(word(at)));
        Table { words: (0..count).map(word).collect(), expected: (0..BATCHES).map(sum).collect() }
    }

    /// Aggregates for a while, at least a batch; ns per access.
    ///
    /// Errors: a batch's sum, or that of all groups, is wrong.
    pub fn aggregate(&self, seconds: f64) -> Result<f64> {
        let (mut groups, mut wanted) = (vec![0_u64; GROUPS], 0_u64);
        let began = Instant::now();
        let mut batches = 0_u64;
        while batches == 0 || began.elapsed().as_secs_f64() < seconds {
            let batch = batches % BATCHES;
            let expected = self.expected[batch as usize];
            if self.batch(batch, &mut groups) != expected {
                return Err(Failure::WrongAnswer(format!("the sum of batch {batch}")));
            }
            wanted = wanted.wrapping_add(expected);
            batches += 1;
        }
        let ns = began.elapsed().as_nanos() as f64 / (batches as f64 * BATCH as f64);
        let sum = groups.iter().fold(0, |sum: u64, &group| sum.wrapping_add(group));
        if sum == wanted { Ok(ns) } else { Err(Failure::WrongAnswer("the sum of groups".into())) }
    }

    fn batch(&self, batch: u64, groups: &mut [u64]) -> u64 {
        let mut sum = 0_u64;
        for at in Accesses::of(batch, self.words.len() as u64) {
            // Below the number of words.
            let found = self.words[at as usize];
            sum = sum.wrapping_add(found);
            let group = &mut groups[(found >> 54) as usize];
            *group = group.wrapping_add(found);
        }
        sum
    }
}

/// Places that a batch visits: upper bits of a linear congruential generator, scaled to the table.
struct Accesses {
    state: u64,
    count: u64,
    left: usize,
}

impl Accesses {
    fn of(batch: u64, count: u64) -> Accesses {
        Accesses { state: word(batch), count, left: BATCH }
    }
}

impl Iterator for Accesses {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        Some(((self.state >> 32) * self.count) >> 32)
    }
}

/// Who runs beside the aggregation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partner {
    /// Nobody.
    Nobody,
    /// Nobody once more: the A/A pair.
    NobodyAgain,
    /// A scan.
    Scan,
    /// The scan with `prefetchnta`.
    ScanNonTemporal,
    /// Output that is written once.
    Output,
    /// The output by streaming stores.
    OutputStreaming,
}

impl Partner {
    /// All partners.
    pub const ALL: [Partner; 6] = [
        Partner::Nobody,
        Partner::NobodyAgain,
        Partner::Scan,
        Partner::ScanNonTemporal,
        Partner::Output,
        Partner::OutputStreaming,
    ];

    /// The partner's name.
    pub fn name(self) -> &'static str {
        match self {
            Partner::Nobody => "nobody",
            Partner::NobodyAgain => "nobody again",
            Partner::Scan => "scan",
            Partner::ScanNonTemporal => "scan, prefetchnta",
            Partner::Output => "output",
            Partner::OutputStreaming => "output, streaming stores",
        }
    }
}

/// What partners read and write.
pub struct Column {
    words: Vec<u64>,
    /// The sum of each piece.
    expected: Vec<u64>,
    output: Vec<u64>,
}

impl Column {
    /// A column and an output of so many pieces each.
    pub fn new(pieces: usize) -> Column {
        let words: Vec<u64> = (0..(pieces * PIECE_WORDS) as u64).map(word).collect();
        let sum = |piece: &[u64]| piece.iter().fold(0, |sum: u64, &word| sum.wrapping_add(word));
        let expected = words.chunks(PIECE_WORDS).map(sum).collect();
        // Written once, so that no turn waits for the system to give memory.
        let mut output = vec![0; words.len()];
        streams::fill(&mut output, 1);
        Column { words, expected, output }
    }

    /// Works as a partner until `stop`; bytes.
    ///
    /// Errors: what was read or written is wrong.
    pub fn work(&mut self, partner: Partner, stop: &AtomicBool) -> Result<u64> {
        match partner {
            Partner::Nobody | Partner::NobodyAgain => Ok(0),
            Partner::Scan => self.scan(streams::sum, stop),
            Partner::ScanNonTemporal => self.scan(streams::sum_non_temporal, stop),
            Partner::Output => self.write(streams::fill, stop),
            Partner::OutputStreaming => self.write(streams::fill_streaming, stop),
        }
    }

    fn scan(&self, sum: impl Fn(&[u64]) -> u64, stop: &AtomicBool) -> Result<u64> {
        let mut bytes = 0;
        let pieces = self.words.chunks(PIECE_WORDS).zip(&self.expected).cycle();
        for (piece, &expected) in pieces {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            if sum(piece) != expected {
                return Err(Failure::WrongAnswer("the sum of a piece".into()));
            }
            bytes += size_of_val(piece) as u64;
        }
        Ok(bytes)
    }

    fn write(&mut self, fill: impl Fn(&mut [u64], u64), stop: &AtomicBool) -> Result<u64> {
        let pieces = self.output.len() / PIECE_WORDS;
        let mut written = 0;
        let first = |piece: usize| word(piece as u64);
        while !stop.load(Ordering::Relaxed) {
            let at = written % pieces * PIECE_WORDS;
            fill(&mut self.output[at..at + PIECE_WORDS], first(written));
            written += 1;
        }
        // The output holds what was written last: each place's words follow the piece's first.
        for piece in written.saturating_sub(pieces)..written {
            let at = piece % pieces * PIECE_WORDS;
            let mut words = self.output[at..at + PIECE_WORDS].iter().zip(0_u64..);
            if words.any(|(&word, number)| word != first(piece).wrapping_add(number)) {
                return Err(Failure::WrongAnswer(format!("piece {piece} of the output")));
            }
        }
        Ok((written * PIECE_WORDS * 8) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_words_are_noticed() {
        let mut table = Table::new(1 << 16);
        assert!(table.aggregate(0.0).expect("right") > 0.0);
        table.words.iter_mut().for_each(|word| *word ^= 1);
        assert!(matches!(table.aggregate(0.0), Err(Failure::WrongAnswer(_))));

        let stop = AtomicBool::new(false);
        let mut column = Column::new(2);
        column.words[PIECE_WORDS + 5] += 1;
        for partner in [Partner::Scan, Partner::ScanNonTemporal] {
            let wrong = column.work(partner, &stop);
            assert!(matches!(wrong, Err(Failure::WrongAnswer(_))), "{partner:?}");
        }
        let wrong = column.write(
            |words, first| {
                streams::fill(words, first);
                words[7] = 0;
                stop.store(true, Ordering::Relaxed);
            },
            &stop,
        );
        assert!(matches!(wrong, Err(Failure::WrongAnswer(_))));
    }

    #[test]
    fn accesses_lie_within_the_table_and_reach_all_of_it() {
        for count in [1, 7, 4096] {
            let mut seen = vec![false; count];
            Accesses::of(3, count as u64).for_each(|at| seen[at as usize] = true);
            assert!(seen.iter().all(|&seen| seen), "{count}");
        }
    }
}
