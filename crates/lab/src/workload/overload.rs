//! More statements than the server has room for: what is answered in time, what is rejected and how soon, and how
//! long the overload is felt after its end.

use std::time::{Duration, Instant};

use halcyon_base::rng::Rng;
use serde_json::json;

use super::statements::{self, WebClient};
use super::{Engine, Options, classes};
use crate::open_loop::{self, Outcome, Phase, Sent, Terms, ahead_of_others, schedule, soon};
use crate::statistics::quantile;
use crate::{Arm, Failure, Reporter, Result};

/// Rates of the phases, as multiples of the capacity. The last is the first once more, right after the overload.
const LOADS: [f64; 5] = [0.5, 0.9, 1.2, 2.0, 0.5];
/// How long a user waits for a statement to be sent.
const PATIENCE: Duration = Duration::from_secs(1);

/// A phase, measured after its settling.
#[derive(Debug, Default)]
struct Measured {
    load: f64,
    seconds: f64,
    due: usize,
    in_time: usize,
    given_up: usize,
    /// From the intended send, ms.
    answered_ms: Vec<f64>,
    /// From the actual send, ms.
    rejected_ms: Vec<f64>,
}

/// Runs an arm with a latency target, one without, and PostgreSQL.
pub fn run(options: &Options, engines: &[Engine], reporter: &mut Reporter) -> Result<()> {
    let target = Some(options.target_ms);
    let halcyon = [("target", target), ("control", None)];
    let all = halcyon.map(|(name, target)| (Engine::Halcyon, name, target));
    for (engine, name, target) in all.into_iter().chain([(Engine::Postgres, "plain", None)]) {
        if !engines.contains(&engine) {
            continue;
        }
        reporter.progress(format_args!("overload: {} {name}", engine.name()));
        let arm = |load: &str| {
            let more = json!({
                "web_rows": options.web_rows, "target_ms": options.target_ms,
                "connections": options.overload_connections, "load": load,
            });
            options.arm(engine, "overload", name, &[more])
        };
        match overload(engine, target, options) {
            Ok((capacity, phases, back)) => {
                for (number, phase) in phases.iter().enumerate() {
                    let after = if number + 1 == LOADS.len() { " after 2" } else { "" };
                    let load = format!("{}{after}", phase.load);
                    let mut arm = arm(&load);
                    arm.rounded("capacity_per_s", capacity);
                    phase.report(capacity, &mut arm);
                    if number + 1 == LOADS.len() {
                        arm.rounded("back_s", back.as_secs_f64());
                    }
                    reporter.arm(arm);
                }
            }
            Err(failure) => {
                let mut arm = arm("all");
                arm.check = failure.to_string();
                reporter.arm(arm);
            }
        }
    }
    Ok(())
}

/// Capacity, phases, and the time from the end of the overload to the last statement that was late, rejected or
/// given up.
fn overload(
    engine: Engine,
    target_ms: Option<f64>,
    options: &Options,
) -> Result<(f64, Vec<Measured>, Duration)> {
    let program = engine.start(options)?;
    let sizes = statements::Sizes { large: 1, etl: 0, writers: 0, ..options.sizes() };
    statements::load(&program, sizes)?;
    if engine == Engine::Halcyon {
        classes::define(&program, &classes::overload())?;
    }
    let clients = (0..options.overload_connections).map(|_| WebClient::new(&program, sizes));
    let mut clients = clients.collect::<Result<Vec<_>>>()?;
    capacity(&mut clients, options.step() / 2)?;
    let capacity = capacity(&mut clients, options.step())?;
    let target: Vec<_> = target_ms.map(classes::target).into_iter().collect();
    classes::define(&program, &target)?;
    let time = options.step();
    let phases = LOADS.map(|load| Phase { rate: load * capacity, time });
    let due = schedule(options.arrivals, &phases, &mut Rng::new(options.seed));
    let end = time * LOADS.len() as u32;
    let terms = Terms { start: soon(), end, patience: Some(PATIENCE) };
    let mut clients: Vec<_> =
        clients.iter_mut().map(|client| |number| client.run(number)).collect();
    let sent = open_loop::run(&due, terms, &mut clients)?;
    let measured = LOADS.iter().enumerate().map(|(number, load)| {
        let begin = time * number as u32 + options.settling();
        let phase = begin..time * (number as u32 + 1);
        let due = sent.iter().filter(|sent| phase.contains(&sent.due));
        Measured::new(*load, phase.end - phase.start, due, options.target_ms)
    });
    let dropped = time * (LOADS.len() as u32 - 1);
    Ok((capacity, measured.collect(), back(&sent, dropped, options.target_ms)))
}

/// Statements per second of as many clients as keep all processors busy, each sending one after the other.
fn capacity(clients: &mut [WebClient], time: Duration) -> Result<f64> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let clients = clients.iter_mut().take(2 * processors);
    let start = Instant::now();
    let counts = std::thread::scope(|scope| {
        let threads = clients.map(|client| {
            scope.spawn(move || {
                ahead_of_others();
                let mut count = 0;
                while start.elapsed() < time {
                    match client.run(count)? {
                        Outcome::Answered => count += 1,
                        outcome => {
                            return Err(Failure::Engine(format!("{outcome:?} without overload")));
                        }
                    }
                }
                Ok(count)
            })
        });
        let threads: Vec<_> = threads.collect();
        let joined = threads.into_iter().map(|thread| thread.join().expect("clients do not panic"));
        joined.collect::<Result<Vec<usize>>>()
    })?;
    Ok(counts.iter().sum::<usize>() as f64 / start.elapsed().as_secs_f64())
}

/// Whether the statement was answered within the target.
fn in_time(sent: &Sent, target_ms: f64) -> bool {
    sent.outcome == Outcome::Answered && sent.latency_ms() <= target_ms
}

/// The time from `dropped`, at which the load fell, to the last statement due since that was not answered in time.
fn back(sent: &[Sent], dropped: Duration, target_ms: f64) -> Duration {
    let late = sent.iter().filter(|sent| sent.due >= dropped && !in_time(sent, target_ms));
    late.map(|sent| sent.due - dropped).max().unwrap_or_default()
}

impl Measured {
    fn new<'a>(
        load: f64,
        time: Duration,
        due: impl Iterator<Item = &'a Sent>,
        target_ms: f64,
    ) -> Self {
        let mut measured = Measured { load, seconds: time.as_secs_f64(), ..Measured::default() };
        for sent in due {
            measured.due += 1;
            measured.in_time += usize::from(in_time(sent, target_ms));
            match sent.outcome {
                Outcome::Answered => measured.answered_ms.push(sent.latency_ms()),
                Outcome::Rejected => measured.rejected_ms.push(sent.service_ms()),
                Outcome::GivenUp | Outcome::Unsent => measured.given_up += 1,
            }
        }
        measured
    }

    fn report(&self, capacity: f64, arm: &mut Arm) {
        let goodput = self.in_time as f64 / self.seconds;
        arm.rounded("due_per_s", self.due as f64 / self.seconds);
        arm.rounded("goodput", goodput);
        arm.rounded("goodput_of_capacity", goodput / capacity);
        arm.rounded("goodput_of_due", self.in_time as f64 / self.due.max(1) as f64);
        arm.rounded("rejected_per_s", self.rejected_ms.len() as f64 / self.seconds);
        arm.rounded("given_up_per_s", self.given_up as f64 / self.seconds);
        let all = [("answered", &self.answered_ms), ("rejected", &self.rejected_ms)];
        for (kind, values) in all {
            for (name, q) in [("p50", 0.5), ("p99", 0.99)] {
                if let Some(value) = quantile(values, q) {
                    arm.rounded(&format!("{kind}_{name}_ms"), value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(due_ms: u64, latency_ms: u64, outcome: Outcome) -> Sent {
        let at = Duration::from_millis;
        Sent { due: at(due_ms), sent: at(due_ms + 1), ended: at(due_ms + latency_ms), outcome }
    }

    #[test]
    fn goodput_is_what_was_answered_in_time() {
        let all = [
            sent(0, 10, Outcome::Answered),
            sent(100, 90, Outcome::Answered),
            sent(200, 3, Outcome::Rejected),
            sent(300, 1_001, Outcome::GivenUp),
            sent(400, 50, Outcome::Answered),
        ];
        let measured = Measured::new(2.0, Duration::from_secs(2), all.iter(), 50.0);
        let mut arm = Arm::new("workload", "halcyon", json!({}));
        measured.report(2.0, &mut arm);
        assert_eq!(arm.figures["due_per_s"], 2.5);
        assert_eq!(arm.figures["goodput"], 1.0);
        assert_eq!(arm.figures["goodput_of_capacity"], 0.5);
        assert_eq!(arm.figures["goodput_of_due"], 0.4);
        assert_eq!(arm.figures["rejected_p99_ms"], 2.0, "from the actual send");
        assert_eq!(arm.figures["answered_p99_ms"], 90.0, "from the intended send");
        assert_eq!((measured.given_up, measured.rejected_ms.len()), (1, 1));
    }

    #[test]
    fn an_overload_is_over_after_the_last_statement_that_suffered() {
        let dropped = Duration::from_millis(1_000);
        let mut all = vec![sent(990, 900, Outcome::Answered), sent(1_010, 5, Outcome::Answered)];
        assert_eq!(back(&all, dropped, 50.0), Duration::ZERO);
        all.push(sent(1_300, 2, Outcome::Rejected));
        all.push(sent(1_400, 40, Outcome::Answered));
        assert_eq!(back(&all, dropped, 50.0), Duration::from_millis(300));
    }
}
