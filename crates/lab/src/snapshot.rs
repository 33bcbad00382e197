//! Snapshots beside updates: the cost to the writer of readers that need a consistent state, and
//! the time of a cut while the writer is busy.
//!
//! A table `account (id, balance)` of `--rows` rows. One thread moves random amounts between
//! random accounts in short transactions of two updates. Another takes a snapshot every
//! `--every` seconds (a READ ONLY transaction's first statement cuts) and sums the balances.
//! Phases without and with snapshots take turns. Last, a phase of frequent cuts (`--cuts-per-s`)
//! gives enough samples for a 99th percentile; its updates are not counted.
//!
//! Arms: Halcyon, and *bare*: a vector behind a mutex, whose snapshot is a copy under the lock.
//! Checked: every sum equals the total put in, and so does the last state.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Args;
use halcyon::{Access, Database, Isolation, RowSet, Session, Statement, ValueRef, params};
use halcyon_base::rng::Rng;
use hdrhistogram::Histogram;
use serde_json::json;

use crate::measure::{self, Rounds};
use crate::point::positive;
use crate::{Arm, Failure, Reporter, Result};

/// Options of `halcyon lab snapshot`.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// Rows in the table
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(2..))]
    pub rows: u32,
    /// Seconds per arm with snapshots, and as many without
    #[arg(long, default_value_t = 20.0, value_parser = positive)]
    pub seconds: f64,
    /// Seconds between two snapshots
    #[arg(long, default_value_t = 1.0, value_parser = positive)]
    pub every: f64,
    /// Cuts per second in the phase that measures only cuts
    #[arg(long, default_value_t = 200.0, value_parser = positive)]
    pub cuts_per_s: f64,
    /// Phases with and without snapshots, taking turns
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
}

/// Balance of every account at the start.
const BALANCE: i64 = 1_000;

/// An engine with the table in it, with one access each for the writer's and the reader's thread.
trait Subject: Sync {
    type Writer: Writer;
    type Reader: Reader;
    fn writer(&self) -> Result<Self::Writer>;
    fn reader(&self) -> Result<Self::Reader>;
}

trait Writer: Send {
    /// Moves `amount` in one transaction of two updates.
    fn transfer(&mut self, from: u32, to: u32, amount: i64) -> Result<()>;
}

trait Reader: Send {
    /// Takes a snapshot and sums its balances if asked; returns the time of the snapshot, and the
    /// sum.
    fn snapshot(&mut self, sum: bool) -> Result<(Duration, Option<i64>)>;
}

/// Runs the experiment.
pub fn run(options: &Options, reporter: &mut Reporter) -> Result<()> {
    reporter.progress(format_args!("halcyon: loading {} rows", options.rows));
    let halcyon = Halcyon::new(options.rows)?;
    reporter.progress("halcyon: measuring");
    reporter.arm(measure_arm("halcyon", &halcyon, options));
    drop(halcyon);
    reporter.progress("bare: measuring");
    let bare = Bare(Arc::new(Mutex::new(vec![BALANCE; options.rows as usize])));
    reporter.arm(measure_arm("bare", &bare, options));
    Ok(())
}

/// The values of an arm's phases.
struct Phases {
    with: Rounds,
    without: Rounds,
    cuts: Histogram<u64>,
    sums: Histogram<u64>,
}

fn measure_arm<S: Subject>(engine: &str, subject: &S, options: &Options) -> Arm {
    let params = json!({
        "rows": options.rows, "seconds": options.seconds, "every": options.every,
        "cuts_per_s": options.cuts_per_s, "rounds": options.rounds,
    });
    let mut arm = Arm::new("snapshot", engine, params);
    let mut phases = Phases::new();
    if let Err(failure) = run_phases(subject, options, &mut phases) {
        arm.check = failure.to_string();
    }
    let cuts = &phases.cuts;
    let us = |quantile: f64| cuts.value_at_quantile(quantile) as f64 / 1000.0;
    arm.rounded("cut_us_p50", us(0.5));
    arm.rounded("cut_us_p99", us(0.99));
    arm.rounded("cut_us_max", cuts.max() as f64 / 1000.0);
    arm.figure("cuts", cuts.len());
    arm.figure("updates_per_s", phases.with.median().round());
    arm.figure("updates_per_s_without_snapshots", phases.without.median().round());
    arm.rounded("updates_kept", phases.with.median() / phases.without.median());
    arm.rounded("updates_spread", phases.without.spread());
    arm.rounded("sum_ms_p50", phases.sums.value_at_quantile(0.5) as f64 / 1e6);
    arm.figure("sums", phases.sums.len());
    arm
}

fn run_phases<S: Subject>(subject: &S, options: &Options, phases: &mut Phases) -> Result<()> {
    let (mut writer, mut reader) = (subject.writer()?, subject.reader()?);
    let time = measure::seconds(options.seconds / f64::from(options.rounds));
    let every = measure::seconds(options.every);
    let expected = i64::from(options.rows) * BALANCE;
    let mut phase = |snapshots: Option<(Duration, bool)>, seed: u64, phases: &mut Phases| {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reading = snapshots.map(|(every, sum)| {
                let (reader, stop, phases) = (&mut reader, &stop, &mut *phases);
                scope.spawn(move || read_until(stop, reader, every, sum, expected, phases))
            });
            let rate = write_for(&mut writer, options.rows, seed, time);
            stop.store(true, Ordering::Relaxed);
            if let Some(reading) = reading {
                reading.thread().unpark();
                reading.join().expect("the reader does not panic")?;
            }
            rate
        })
    };
    // The first phase of each kind warms caches and is not counted.
    for round in 0..=u64::from(options.rounds) {
        let mut ignored = Phases::new();
        let counted = if round == 0 { &mut ignored } else { &mut *phases };
        let rate = phase(None, 2 * round, counted)?;
        counted.without.push(rate);
        let rate = phase(Some((every, true)), 2 * round + 1, counted)?;
        counted.with.push(rate);
    }
    let often = measure::seconds(1.0 / options.cuts_per_s);
    phase(Some((often, false)), 99, phases)?;
    let (_, sum) = reader.snapshot(true)?;
    check_sum(sum, expected)
}

impl Phases {
    fn new() -> Self {
        Phases {
            with: Rounds::default(),
            without: Rounds::default(),
            cuts: measure::latencies(),
            sums: measure::latencies(),
        }
    }
}

fn check_sum(sum: Option<i64>, expected: i64) -> Result<()> {
    match sum {
        Some(sum) if sum == expected => Ok(()),
        other => Err(Failure::WrongAnswer(format!("a snapshot sums to {other:?}, not {expected}"))),
    }
}

/// Transfers until `time` is over; returns updates (rows changed) per second.
fn write_for(writer: &mut impl Writer, rows: u32, seed: u64, time: Duration) -> Result<f64> {
    let mut rng = Rng::new(seed);
    let start = Instant::now();
    let mut transfers = 0_u64;
    loop {
        for _ in 0..32 {
            let from = rng.below(u64::from(rows)) as u32;
            let to = rng.below(u64::from(rows)) as u32;
            writer.transfer(from, to, rng.range(1..100))?;
        }
        transfers += 32;
        let took = start.elapsed();
        if took >= time {
            return Ok(2.0 * transfers as f64 / took.as_secs_f64());
        }
    }
}

/// Takes a snapshot every `every` seconds until told to stop, at least one.
fn read_until(
    stop: &AtomicBool,
    reader: &mut impl Reader,
    every: Duration,
    sum: bool,
    expected: i64,
    phases: &mut Phases,
) -> Result<()> {
    let mut next = Instant::now() + every / 2;
    loop {
        while let Some(left) = next.checked_duration_since(Instant::now()) {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            std::thread::park_timeout(left);
        }
        next += every;
        let start = Instant::now();
        let (cut, total) = reader.snapshot(sum)?;
        phases.cuts.saturating_record(cut.as_nanos() as u64);
        if sum {
            phases.sums.saturating_record((start.elapsed() - cut).as_nanos() as u64);
            check_sum(total, expected)?;
        }
    }
}

/// Halcyon, embedded.
struct Halcyon(Database);

impl Halcyon {
    fn new(rows: u32) -> Result<Self> {
        let database = Database::in_memory();
        let mut session = database.session();
        session.batch("CREATE TABLE account (id INTEGER PRIMARY KEY, balance BIGINT NOT NULL)")?;
        session.execute("BEGIN", &[])?;
        let insert = session.prepare("INSERT INTO account VALUES ($1, $2)")?;
        for id in 0..rows {
            session.execute(&insert, params![id as i32, BALANCE])?;
        }
        session.execute("COMMIT", &[])?;
        drop(session);
        Ok(Halcyon(database))
    }
}

struct HalcyonWriter {
    session: Session,
    add: Statement,
}

struct HalcyonReader {
    session: Session,
    touch: Statement,
    sum: Statement,
    row: RowSet,
}

impl Subject for Halcyon {
    type Writer = HalcyonWriter;
    type Reader = HalcyonReader;

    fn writer(&self) -> Result<HalcyonWriter> {
        let mut session = self.0.session();
        let add = session.prepare("UPDATE account SET balance = balance + $2 WHERE id = $1")?;
        Ok(HalcyonWriter { session, add })
    }

    fn reader(&self) -> Result<HalcyonReader> {
        let mut session = self.0.session();
        let touch = session.prepare("SELECT balance FROM account WHERE id = 0")?;
        let sum = session.prepare("SELECT CAST(sum(balance) AS BIGINT) FROM account")?;
        Ok(HalcyonReader { session, touch, sum, row: RowSet::default() })
    }
}

impl Writer for HalcyonWriter {
    fn transfer(&mut self, from: u32, to: u32, amount: i64) -> Result<()> {
        self.session.begin(Isolation::Serializable, Access::ReadWrite)?;
        self.session.execute(&self.add, params![from as i32, -amount])?;
        self.session.execute(&self.add, params![to as i32, amount])?;
        Ok(self.session.commit()?)
    }
}

impl Reader for HalcyonReader {
    /// The first statement of a READ ONLY transaction makes the cut; a look-up of one row is the
    /// smallest statement, and its time is included.
    fn snapshot(&mut self, sum: bool) -> Result<(Duration, Option<i64>)> {
        let start = Instant::now();
        self.session.begin(Isolation::Serializable, Access::ReadOnly)?;
        self.session.query_into(&self.touch, &[], &mut self.row)?;
        let cut = start.elapsed();
        let mut total = None;
        if sum {
            self.session.query_into(&self.sum, &[], &mut self.row)?;
            total = match self.row.value(0, 0) {
                ValueRef::Int64(total) => Some(total),
                _ => None,
            };
        }
        self.session.commit()?;
        Ok((cut, total))
    }
}

/// By hand: a vector behind a mutex.
#[derive(Clone)]
struct Bare(Arc<Mutex<Vec<i64>>>);

impl Subject for Bare {
    type Writer = Bare;
    type Reader = Bare;

    fn writer(&self) -> Result<Bare> {
        Ok(self.clone())
    }

    fn reader(&self) -> Result<Bare> {
        Ok(self.clone())
    }
}

impl Writer for Bare {
    fn transfer(&mut self, from: u32, to: u32, amount: i64) -> Result<()> {
        let mut balances = self.0.lock().expect("nobody panics with it");
        balances[from as usize] -= amount;
        balances[to as usize] += amount;
        Ok(())
    }
}

impl Reader for Bare {
    fn snapshot(&mut self, sum: bool) -> Result<(Duration, Option<i64>)> {
        let start = Instant::now();
        let copy = self.0.lock().expect("nobody panics with it").clone();
        let cut = start.elapsed();
        Ok((cut, sum.then(|| copy.iter().sum())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_snapshot_sums_to_the_total_while_transfers_run() {
        let options =
            Options { rows: 5_000, seconds: 0.4, every: 0.02, cuts_per_s: 500.0, rounds: 2 };
        let mut reporter = Reporter::new(true);
        run(&options, &mut reporter).unwrap();
        for arm in reporter.arms() {
            assert_eq!(arm.check, "ok", "{}", arm.engine);
            assert!(arm.figures["cuts"].as_u64().unwrap() > 10, "{arm:?}");
            assert!(arm.figures["sums"].as_u64().unwrap() > 2, "{arm:?}");
        }
    }

    #[test]
    fn a_sum_that_lost_a_transfer_is_seen() {
        assert_eq!(check_sum(Some(10), 10), Ok(()));
        assert!(check_sum(Some(9), 10).is_err());
        assert!(check_sum(None, 10).is_err());
    }
}
