//! Rounds, their median and spread, and latencies.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// The values of one figure in several rounds.
#[derive(Debug, Clone, Default)]
pub struct Rounds(Vec<f64>);

impl Rounds {
    /// Adds the value of a round.
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// The middle value; the mean of the two middle ones if there is no middle.
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => 0.0,
            length if length % 2 == 1 => sorted[middle],
            _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
        }
    }

    /// Largest distance between two rounds as a fraction of the median: the A/A difference. A
    /// smaller A/B difference says nothing.
    pub fn spread(&self) -> f64 {
        let largest = self.0.iter().copied().fold(f64::MIN, f64::max);
        let smallest = self.0.iter().copied().fold(f64::MAX, f64::min);
        if self.0.len() < 2 { 0.0 } else { (largest - smallest) / self.median() }
    }

    /// The value that a tenth of the rounds do not exceed: the rounds in which other processes left
    /// the machine alone.
    pub fn decile(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 10).copied().unwrap_or(0.0)
    }

    /// The smallest value.
    pub fn best(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// Latencies from a nanosecond to a minute, to three digits.
pub fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("constant bounds are valid")
}

/// Nanoseconds that reading the clock takes: part of every single latency measured.
pub fn clock_ns() -> f64 {
    let rounds = 10_000;
    let start = Instant::now();
    let mut last = start;
    for _ in 0..rounds {
        last = std::hint::black_box(Instant::now());
    }
    (last - start).as_nanos() as f64 / f64::from(rounds)
}

/// Seconds as a duration. Panics if negative, which option parsing refuses.
pub fn seconds(value: f64) -> Duration {
    Duration::from_secs_f64(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_spread_of_rounds() {
        let rounds = Rounds(vec![10.0, 14.0, 11.0]);
        assert_eq!(rounds.median(), 11.0);
        assert_eq!(rounds.spread(), 4.0 / 11.0);
        assert_eq!(rounds.best(), 10.0);
        assert_eq!(Rounds(vec![1.0, 3.0]).median(), 2.0);
        assert_eq!(Rounds::default().spread(), 0.0);
    }
}
