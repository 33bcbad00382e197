//! The loop of a client, without think times, and what it measures.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::Value;

use super::engines::Client;
use super::input::{Input, Inputs, Type};
use super::transactions::{Ended, TYPES};
use super::{Conflict, Trouble};
use crate::measure::Rounds;
use crate::report::Arm;
use crate::{Failure, Result};

/// Latencies of one type of transaction in nanoseconds, to three digits. It grows, so that no
/// latency is too long for it.
fn latencies() -> Histogram<u64> {
    // A tenth of a microsecond is the finest that is told apart: a smaller table, fewer misses.
    let mut histogram = Histogram::new_with_bounds(100, 1_000_000_000, 3).expect("valid bounds");
    histogram.auto(true);
    histogram
}

/// What the clients of an arm did.
pub struct Measured {
    /// Transactions per second, by round.
    pub rates: Rounds,
    /// Committed New-Orders per second, by round.
    pub new_orders: Rounds,
    /// Transactions that ended as they should, all rounds.
    pub done: u64,
    /// Those of them that were to be rolled back.
    pub rolled_back: u64,
    /// Aborts by kind of conflict; each was run again.
    pub aborts: [u64; 3],
    /// By type, retries included.
    pub latencies: [Histogram<u64>; TYPES],
    /// What ended it, if something did.
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

/// One client between two looks at the clock that count.
struct Tally {
    done: u64,
    new_orders: u64,
    rolled_back: u64,
    aborts: [u64; 3],
    took: Duration,
    latencies: [Histogram<u64>; TYPES],
}

/// Runs `clients`, each with its inputs, for `time` and adds the round to `measured`. Nothing more
/// after a failure.
pub fn round(clients: &mut [(Box<dyn Client>, Inputs)], time: Duration, measured: &mut Measured) {
    if measured.failure.is_some() {
        return;
    }
    let barrier = Barrier::new(clients.len());
    let results: Vec<Result<Tally>> = std::thread::scope(|scope| {
        let barrier = &barrier;
        let mut threads = Vec::new();
        for (client, inputs) in clients {
            threads.push(scope.spawn(move || {
                barrier.wait();
                work(client.as_mut(), inputs, time)
            }));
        }
        threads.into_iter().map(|thread| thread.join().expect("a client does not panic")).collect()
    });
    let (mut rate, mut new_orders) = (0.0, 0.0);
    for result in results {
        match result {
            Ok(tally) => {
                rate += tally.done as f64 / tally.took.as_secs_f64();
                new_orders += tally.new_orders as f64 / tally.took.as_secs_f64();
                measured.add(&tally);
            }
            Err(failure) => measured.failure = Some(failure),
        }
    }
    measured.rates.push(rate);
    measured.new_orders.push(new_orders);
}

/// One client until `time` is over. An input is drawn before its transaction's clock starts.
fn work(client: &mut dyn Client, inputs: &mut Inputs, time: Duration) -> Result<Tally> {
    let mut tally = Tally {
        done: 0,
        new_orders: 0,
        rolled_back: 0,
        aborts: [0; 3],
        took: Duration::ZERO,
        latencies: std::array::from_fn(|_| latencies()),
    };
    let start = Instant::now();
    while tally.took < time {
        let input = inputs.draw();
        let begun = Instant::now();
        let ended = until_done(client, &input, &mut tally.aborts)?;
        let end = Instant::now();
        let kind = input.kind();
        tally.latencies[kind as usize]
            .record((end - begun).as_nanos() as u64)
            .expect("the histogram grows");
        tally.done += 1;
        match ended {
            Ended::Committed => tally.new_orders += u64::from(kind == Type::NewOrder),
            Ended::RolledBack => tally.rolled_back += 1,
        }
        tally.took = end - start;
    }
    Ok(tally)
}

/// Runs a transaction again until no conflict undoes it.
fn until_done(client: &mut dyn Client, input: &Input, aborts: &mut [u64; 3]) -> Result<Ended> {
    let expected = match input {
        Input::NewOrder(order) if order.unused_item => Ended::RolledBack,
        _ => Ended::Committed,
    };
    loop {
        match client.run(input) {
            Ok(ended) if ended == expected => return Ok(ended),
            Ok(ended) => return Err(Failure::WrongAnswer(format!("{ended:?}: {input:?}"))),
            Err(Trouble::Conflict(conflict)) => aborts[conflict as usize] += 1,
            Err(Trouble::Failed(failure)) => return Err(failure),
        }
    }
}

/// What one client did in one round.
pub struct RoundOf {
    /// Transactions.
    pub done: u64,
    /// Committed New-Orders.
    pub new_orders: u64,
    /// Time it took.
    pub nanos: u64,
}

impl Measured {
    /// Adds the rounds of every client, measured elsewhere.
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

    fn add(&mut self, tally: &Tally) {
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
    use crate::tpcc::Done;
    use crate::tpcc::input::Mix;
    use crate::tpcc::random::{Random, Scale};
    use serde_json::json;

    fn inputs() -> Inputs {
        Inputs::new(Random::new(Scale::tiny(1), 1, 0), Mix::Standard, 0)
    }

    /// Conflicts twice before every success.
    struct Victim(u32);

    impl Client for Victim {
        fn run(&mut self, input: &Input) -> Done<Ended> {
            self.0 += 1;
            if !self.0.is_multiple_of(3) {
                return Err(Trouble::Conflict(Conflict::Deadlock));
            }
            let undone = matches!(input, Input::NewOrder(order) if order.unused_item);
            Ok(if undone { Ended::RolledBack } else { Ended::Committed })
        }
    }

    #[test]
    fn every_abort_is_counted_and_run_again() {
        let mut measured = Measured::default();
        let mut clients = vec![(Box::new(Victim(0)) as Box<dyn Client>, inputs())];
        round(&mut clients, Duration::from_millis(5), &mut measured);
        assert!(measured.failure.is_none());
        assert!(measured.done > 10);
        assert_eq!(measured.aborts[Conflict::Deadlock as usize], 2 * measured.done);
        let mut arm = Arm::new("tpcc", "victim", json!({}));
        measured.report(&mut arm);
        assert_eq!(arm.figures["aborts"], arm.figures["deadlocks"]);
        assert_eq!(arm.figures["aborts_percent"], json!(200.0));
        assert!(arm.figures["payment_latency_us_p999"].as_f64().is_some());
    }

    /// Never rolls back.
    struct Careless;

    impl Client for Careless {
        fn run(&mut self, _: &Input) -> Done<Ended> {
            Ok(Ended::Committed)
        }
    }

    #[test]
    fn an_order_of_an_unused_item_must_not_be_committed() {
        let mut measured = Measured::default();
        let mut clients = vec![(Box::new(Careless) as Box<dyn Client>, inputs())];
        round(&mut clients, Duration::from_millis(50), &mut measured);
        let failure = measured.failure.expect("one order in a hundred names an unused item");
        assert!(matches!(failure, Failure::WrongAnswer(_)), "{failure}");
    }

    #[test]
    fn a_latency_of_hours_is_told_as_it_is() {
        let mut histogram = latencies();
        histogram.record(7_200_000_000_000).unwrap();
        let told = histogram.max() as f64;
        assert!((told / 7.2e12 - 1.0).abs() < 0.001, "{told}");
    }
}
