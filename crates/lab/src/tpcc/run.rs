//! The loop of a client, without think times.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::Trouble;
use super::engines::Client;
use super::input::{Input, Inputs, Type};
use super::measured::{Measured, Tally};
use super::transactions::Ended;
use crate::{Failure, Result};

/// When a client stops.
#[derive(Clone, Copy)]
pub enum Until<'a> {
    /// When so much time has passed.
    Passed(Duration),
    /// When somebody has set the flag, after a transaction at least.
    Said(&'a AtomicBool),
}

impl Until<'_> {
    fn is_over(self, took: Duration) -> bool {
        match self {
            Until::Passed(time) => took >= time,
            Until::Said(ended) => took > Duration::ZERO && ended.load(Ordering::Relaxed),
        }
    }
}

/// Runs `clients`, each with its inputs, for `time` and adds the round to `measured`. Does nothing
/// after a failure.
pub fn round(clients: &mut [(Box<dyn Client>, Inputs)], time: Duration, measured: &mut Measured) {
    round_until(clients, Until::Passed(time), measured);
}

/// As [`round`], until something that is not a time.
pub fn round_until(
    clients: &mut [(Box<dyn Client>, Inputs)],
    until: Until<'_>,
    measured: &mut Measured,
) {
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
                work(client.as_mut(), inputs, until)
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

/// Runs one client until it is to stop. An input is drawn before its transaction's clock starts.
fn work(client: &mut dyn Client, inputs: &mut Inputs, until: Until<'_>) -> Result<Tally> {
    let mut tally = Tally::new();
    let start = Instant::now();
    while !until.is_over(tally.took) {
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
pub fn until_done(client: &mut dyn Client, input: &Input, aborts: &mut [u64; 3]) -> Result<Ended> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arm;
    use crate::tpcc::input::Mix;
    use crate::tpcc::random::{Random, Scale};
    use crate::tpcc::{Conflict, Done};
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
}
