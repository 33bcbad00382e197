//! Results of an arm's clients: rates by round, latencies by type, aborts by conflict.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::Value;

use super::Conflict;
use super::input::Type;
use super::transactions::TYPES;
use crate::Arm;
use crate::Failure;
use crate::measure::Rounds;

/// A histogram of latencies of one type of transaction, in nanoseconds, to three digits. It grows,
/// so that no latency is too long.
fn latencies() -> Histogram<u64> {
    // Latencies are resolved to a tenth of a microsecond: a smaller table, with fewer cache misses.
    let mut histogram = Histogram::new_with_bounds(100, 1_000_000_000, 3).expect("valid bounds");
    histogram.auto(true);
    histogram
}

/// The results of an arm's clients.
pub struct Measured {
    /// Transactions per second, by round.
    pub rates: Rounds,
    /// Committed New-Orders per second, by round.
    pub new_orders: Rounds,
    /// Transactions that ended as they should, all rounds.
    pub done: u64,
    /// Transactions among them that were to be rolled back.
    pub rolled_back: u64,
    /// Aborts by kind of conflict; each was run again.
    pub aborts: [u64; 3],
    /// Latencies by type, retries included.
    pub latencies: [Histogram<u64>; TYPES],
    /// The failure that ended the arm, if there was one.
    pub failure: Option<Failure>,
}

impl Default for Measured {
    fn default() -> Self {
        Measured {
            rates: Rounds::default(),
            new_orders: Rounds::default(),
            done: 0,
            rolled_back: 0,
            aborts: [0; 3],
            latencies: std::array::from_fn(|_| latencies()),
            failure: None,
        }
    }
}

/// The counts of one client in one round.
pub struct Tally {
    pub done: u64,
    pub new_orders: u64,
    pub rolled_back: u64,
    pub aborts: [u64; 3],
    pub took: Duration,
    pub latencies: [Histogram<u64>; TYPES],
}

impl Tally {
    /// Nothing done yet.
    pub fn new() -> Self {
        Tally {
            done: 0,
            new_orders: 0,
            rolled_back: 0,
            aborts: [0; 3],
            took: Duration::ZERO,
            latencies: std::array::from_fn(|_| latencies()),
        }
    }
}

/// The results of one client in one round.
pub struct RoundOf {
    /// Transactions.
    pub done: u64,
    /// Committed New-Orders.
    pub new_orders: u64,
    /// Time it took.
    pub nanos: u64,
}

impl Measured {
    /// Adds the rounds of all clients, measured in another process.
    pub fn add_rounds(&mut self, clients: &[Vec<RoundOf>]) {
        let rounds = clients.first().map_or(0, Vec::len);
        for round in 0..rounds {
            let sum = |count: fn(&RoundOf) -> u64| -> f64 {
                let rate = |of: &RoundOf| count(of) as f64 * 1e9 / of.nanos as f64;
                clients.iter().map(|client| rate(&client[round])).sum()
            };
            self.rates.push(sum(|of| of.done));
            self.new_orders.push(sum(|of| of.new_orders));
        }
    }

    /// Adds the counts of one client in a round, except the rates.
    pub fn add(&mut self, tally: &Tally) {
        self.done += tally.done;
        self.rolled_back += tally.rolled_back;
        for (sum, aborts) in self.aborts.iter_mut().zip(tally.aborts) {
            *sum += aborts;
        }
        for (sum, histogram) in self.latencies.iter_mut().zip(&tally.latencies) {
            sum.add(histogram).expect("the histogram grows");
        }
    }

    /// Puts the figures into an arm.
    pub fn report(self, arm: &mut Arm) {
        let aborts: u64 = self.aborts.iter().sum();
        arm.figure("tx_per_s", self.rates.median().round());
        arm.rounded("tx_spread", self.rates.spread());
        arm.figure("tpm_c", (self.new_orders.median() * 60.0).round());
        arm.figure("transactions", self.done);
        arm.figure("rolled_back", self.rolled_back);
        arm.figure("aborts", aborts);
        // Every abort is run again.
        arm.figure("retries", aborts);
        arm.rounded("aborts_percent", aborts as f64 * 100.0 / (self.done.max(1)) as f64);
        for conflict in Conflict::ALL {
            arm.figure(conflict.figure(), self.aborts[conflict as usize]);
        }
        for (kind, histogram) in Type::ALL.into_iter().zip(&self.latencies) {
            if histogram.is_empty() {
                continue;
            }
            arm.figure(&format!("{}_count", kind.name()), histogram.len());
            let us = |ns: u64| Value::from((ns as f64 / 100.0).round() / 10.0);
            for (name, quantile) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)] {
                let name = format!("{}_latency_us_{name}", kind.name());
                arm.figure(&name, us(histogram.value_at_quantile(quantile)));
            }
            arm.figure(&format!("{}_latency_us_max", kind.name()), us(histogram.max()));
        }
        if let Some(failure) = self.failure {
            arm.check = failure.to_string();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_of_hours_is_told_as_it_is() {
        let mut histogram = latencies();
        histogram.record(7_200_000_000_000).unwrap();
        let told = histogram.max() as f64;
        assert!((told / 7.2e12 - 1.0).abs() < 0.001, "{told}");
    }
}
