//! Load that arrives when it is due, whatever became of the load before.
//!
//! Words: a statement is *due* at the moment at which a user would send it; the *schedule* of those moments is
//! made before the first statement is sent and never looks at an answer. A statement is sent when it is due by
//! any connection that is free, and later if none is. Its *latency* is counted from the moment at which it was due
//! to the last byte of its answer, so that waiting for a connection counts: a load that waits for answers
//! before it sends more would leave out just the statements that a slow server holds up.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use halcyon_base::rng::Rng;

/// The distribution of the moments at which statements are due.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Independent users: times between two statements are exponentially distributed
    Poisson,
    /// A metronome
    Constant,
}

/// A time with one rate of arrivals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Phase {
    /// Statements per second.
    pub rate: f64,
    /// Length of the phase.
    pub time: Duration,
}

/// Moments at which statements are due, counted from the start of the load; ascending.
pub fn schedule(arrivals: Arrivals, phases: &[Phase], rng: &mut Rng) -> Vec<Duration> {
    let mut all = Vec::new();
    let mut begin = 0.0;
    for phase in phases {
        let end = begin + phase.time.as_secs_f64();
        let mut due = begin;
        loop {
            due += match arrivals {
                Arrivals::Poisson => -(1.0 - rng.unit()).ln() / phase.rate,
                Arrivals::Constant => 1.0 / phase.rate,
            };
            if due >= end {
                break;
            }
            all.push(Duration::from_secs_f64(due));
        }
        begin = end;
    }
    all
}

/// The fate of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Answered rightly.
    Answered,
    /// Refused with an SQLSTATE of class 53: the server had no room for the statement.
    Rejected,
    /// Not sent, because no connection became free before the user lost patience.
    GivenUp,
    /// Not sent before the load ended.
    Unsent,
}

/// A statement of the schedule after its end. All moments count from the start of the load.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// The moment at which the statement was due.
    pub due: Duration,
    /// The moment at which the statement was sent; for one never sent, at which nobody waited for it any more.
    pub sent: Duration,
    /// The moment of the answer's last byte; for one never sent, the same as `sent`.
    pub ended: Duration,
    /// The fate of the statement.
    pub outcome: Outcome,
}

impl Sent {
    /// Time from the intended send to the answer, ms. A lower bound for statements that were never sent.
    pub fn latency_ms(&self) -> f64 {
        self.ended.saturating_sub(self.due).as_secs_f64() * 1e3
    }

    /// Time from the actual send to the answer, ms.
    pub fn service_ms(&self) -> f64 {
        self.ended.saturating_sub(self.sent).as_secs_f64() * 1e3
    }
}

/// The terms of a load.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// The start of the load: a moment that leaves the threads of the clients time to begin ([`soon`]).
    pub start: Instant,
    /// Statements that were not sent until then, counted from the start, are not sent any more.
    pub end: Duration,
    /// How long after a statement was due its user gives up, if it was not sent until then.
    pub patience: Option<Duration>,
}

/// A moment at which the threads of a load that is begun now will be there.
pub fn soon() -> Instant {
    Instant::now() + Duration::from_millis(if cfg!(test) { 200 } else { 1_000 })
}

/// Sends the statements of a schedule, each by the next free one of `clients`, and returns all of them in the
/// order of the schedule. A client is a function that sends one statement and waits for its answer; its argument
/// is the statement's number. Every client has a thread. The first failure ends the load.
pub fn run<C, E>(schedule: &[Duration], terms: Terms, clients: &mut [C]) -> Result<Vec<Sent>, E>
where
    C: FnMut(usize) -> Result<Outcome, E> + Send,
    E: Send,
{
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let parts: Vec<Result<Vec<(usize, Sent)>, E>> = std::thread::scope(|scope| {
        let (next, failed) = (&next, &failed);
        let threads = clients.iter_mut().map(|client| {
            scope.spawn(move || {
                ahead_of_others();
                let mut done = Vec::new();
                while !failed.load(Relaxed) {
                    let number = next.fetch_add(1, Relaxed);
                    let Some(&due) = schedule.get(number) else { break };
                    let sent = one(due, terms, || client(number));
                    done.push((number, sent.inspect_err(|_| failed.store(true, Relaxed))?));
                }
                Ok(done)
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().expect("clients do not panic")).collect()
    });
    let mut all = Vec::new();
    for part in parts {
        all.extend(part?);
    }
    all.sort_by_key(|(number, _)| *number);
    Ok(all.into_iter().map(|(_, sent)| sent).collect())
}

/// Waits until a statement is due, and sends it unless that is too late.
fn one<E>(
    due: Duration,
    terms: Terms,
    send: impl FnOnce() -> Result<Outcome, E>,
) -> Result<Sent, E> {
    sleep_until(terms.start + due);
    let sent = terms.start.elapsed();
    let never = |outcome, at| Ok(Sent { due, sent: at, ended: at, outcome });
    if terms.patience.is_some_and(|patience| sent > due + patience) {
        return never(Outcome::GivenUp, sent);
    }
    if sent > terms.end {
        return never(Outcome::Unsent, terms.end.max(due));
    }
    let outcome = send()?;
    Ok(Sent { due, sent, ended: terms.start.elapsed(), outcome })
}

/// Sleeps until a moment; not at all if the moment has passed.
pub fn sleep_until(moment: Instant) {
    std::thread::sleep(moment.saturating_duration_since(Instant::now()));
}

/// Puts the calling thread before others of the machine, where that is allowed: clients stand for other machines,
/// so their own waiting for a processor is no latency of the server.
pub fn ahead_of_others() {
    let Ok(own) = std::fs::read_link("/proc/thread-self") else { return };
    let Some(number) = own.file_name().and_then(|name| name.to_str()) else { return };
    let mut command = std::process::Command::new("renice");
    command.args(["-n", "-10", "-p", number]);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    // Not allowed or not there: all arms wait alike.
    let _ = command.status();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Failure;

    const MS: Duration = Duration::from_millis(1);

    fn terms(end: Duration, patience: Option<Duration>) -> Terms {
        Terms { start: soon(), end, patience }
    }

    #[test]
    fn schedules_have_their_rates() {
        let phases = [(100.0, 10), (400.0, 10)];
        let phases =
            phases.map(|(rate, seconds)| Phase { rate, time: Duration::from_secs(seconds) });
        for arrivals in [Arrivals::Poisson, Arrivals::Constant] {
            let all = schedule(arrivals, &phases, &mut Rng::new(7));
            let early = all.iter().filter(|due| due.as_secs() < 10).count() as f64;
            let late = all.len() as f64 - early;
            assert!((early - 1_000.0).abs() < 100.0, "{arrivals:?}: {early}");
            assert!((late - 4_000.0).abs() < 200.0, "{arrivals:?}: {late}");
            assert!(all.is_sorted());
        }
        let poisson = schedule(Arrivals::Poisson, &phases[..1], &mut Rng::new(7));
        let short = poisson.windows(2).filter(|two| two[1] - two[0] < 2 * MS).count() as f64;
        let expected = (1.0 - (-0.2_f64).exp()) * poisson.len() as f64;
        assert!((short - expected).abs() < 50.0, "{short} of {expected} short times");
    }

    #[test]
    fn a_slow_server_does_not_slow_down_the_schedule() {
        // One connection, an answer takes 20 ms, and a statement is due every 5 ms: the tenth is due
        // after 50 ms and is answered after 200.
        let due: Vec<Duration> = (1..=10).map(|number| 5 * number * MS).collect();
        let mut clients = [|_| {
            std::thread::sleep(20 * MS);
            Ok::<_, Failure>(Outcome::Answered)
        }];
        let sent = run(&due, terms(Duration::from_secs(9), None), &mut clients).expect("no error");
        assert_eq!(sent.iter().map(|sent| sent.due).collect::<Vec<_>>(), due);
        let last = sent[9];
        assert!(last.latency_ms() >= 150.0, "{last:?}");
        assert!(last.service_ms() >= 20.0 && last.service_ms() < last.latency_ms(), "{last:?}");
    }

    #[test]
    fn free_connections_send_when_statements_are_due() {
        let due = [MS, 2 * MS, 3 * MS];
        let client = |_| {
            std::thread::sleep(300 * MS);
            Ok::<_, Failure>(Outcome::Answered)
        };
        let mut clients = [client; 3];
        let sent = run(&due, terms(Duration::from_secs(9), None), &mut clients).expect("no error");
        assert!(sent.iter().all(|sent| sent.sent < 300 * MS), "none waits for an answer: {sent:?}");
    }

    #[test]
    fn users_lose_patience_and_the_load_ends() {
        let due: Vec<Duration> = (0..20).map(|number| number * MS).collect();
        let fates = |terms| {
            let mut clients = [|number| {
                std::thread::sleep(100 * MS);
                Ok::<_, Failure>(if number == 0 { Outcome::Rejected } else { Outcome::Answered })
            }];
            let sent = run(&due, terms, &mut clients).expect("no error");
            let count = |fate| sent.iter().filter(|sent| sent.outcome == fate).count();
            [Outcome::Rejected, Outcome::Answered, Outcome::GivenUp, Outcome::Unsent].map(count)
        };
        let [rejected, answered, given_up, unsent] =
            fates(terms(Duration::from_secs(9), Some(60 * MS)));
        assert_eq!((rejected, answered + given_up, unsent), (1, 19, 0));
        assert!(given_up >= 10, "{given_up}");
        let [rejected, answered, given_up, unsent] = fates(terms(150 * MS, None));
        assert_eq!((rejected, given_up), (1, 0));
        assert!(answered >= 1 && unsent >= 15, "{answered} {unsent}");
    }

    #[test]
    fn the_first_failure_ends_the_load() {
        let due: Vec<Duration> = (0..1_000).map(|number| number * MS).collect();
        let mut clients = [|_| Err(Failure::Engine("gone".into()))];
        let failed = run(&due, terms(Duration::from_secs(9), None), &mut clients);
        assert_eq!(failed.expect_err("it fails"), Failure::Engine("gone".into()));
    }
}
