//! Prepared single-row statements by primary key: the cost of a statement whose work is tiny.
//!
//! A table `item (id, name, amount, price)` of `--rows` rows; ids are chosen uniformly. Three
//! pieces of work: SELECT of three columns, UPDATE of one, INSERT of new ids in ascending order.
//! Arms: Halcyon embedded, SQLite in memory (same statements, prepared once), and *bare*: a
//! `BTreeMap` of structs. Arms take turns, round by round.
//!
//! Checked: every SELECT's three columns; after all rounds the number of rows and the number of
//! updates that the table shows (each update adds 2^32 to `amount`, whose lower half stays the id).
//! With several threads SQLite's single connection and bare's map are behind a lock.

mod bare;
mod halcyon;
mod sqlite;

use std::sync::Barrier;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use halcyon_base::rng::Rng;
use hdrhistogram::Histogram;
use serde_json::json;

use crate::measure::{self, Rounds};
use crate::{Arm, Failure, Reporter, Result};

/// Options of `halcyon lab point`.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// Rows in the table
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub rows: u32,
    /// Threads that run statements
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: u32,
    /// Seconds per arm and piece of work, over all rounds
    #[arg(long, default_value_t = 3.0, value_parser = positive)]
    pub seconds: f64,
    /// Rounds in which the arms take turns
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Only these arms
    #[arg(long, value_enum, value_delimiter = ',')]
    pub arms: Vec<Engine>,
    /// Seed of the choice of ids
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// The engines of this experiment.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Halcyon, embedded
    Halcyon,
    /// SQLite, in memory
    Sqlite,
    /// A `BTreeMap` of structs
    Bare,
}

/// A number of seconds that a measurement can take.
pub(crate) fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 86_400.0 => Ok(value),
        _ => Err("a number above 0, at most 86400".to_owned()),
    }
}

/// The three pieces of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Select,
    Update,
    Insert,
}

impl Work {
    const ALL: [Work; 3] = [Work::Select, Work::Update, Work::Insert];

    fn name(self) -> &'static str {
        match self {
            Work::Select => "select",
            Work::Update => "update",
            Work::Insert => "insert",
        }
    }
}

/// What an update adds to `amount`, so that the lower half stays the id.
const UPDATE_STEP: i64 = 1 << 32;

/// Ids per call of [`Worker::work`], so many that the virtual call and the reading of the clock do
/// not matter.
const BATCH: usize = 64;

/// An engine with the table in it.
trait Subject {
    /// Fills the table with ids `0..rows`.
    fn load(&mut self, rows: u32) -> Result<()>;
    /// Makes a worker, for one thread.
    fn worker(&self) -> Result<Box<dyn Worker>>;
    /// Number of rows, and sum of `amount / UPDATE_STEP`.
    fn totals(&mut self) -> Result<(u64, u64)>;
}

/// A worker: one thread's access to an engine.
trait Worker: Send {
    /// Does one piece of work for each id. SELECTs check their row with [`check_row`].
    fn work(&mut self, work: Work, ids: &[u32]) -> Result<()>;
}

/// Name of a row: sixteen bytes that take part in the answer and follow from the id.
fn name_of(id: u32) -> [u8; 16] {
    let mut name = *b"item-aaaaaaaa-#-";
    for (place, letter) in name[5..13].iter_mut().enumerate() {
        *letter = b'a' + (id >> (4 * place) & 15) as u8;
    }
    name
}

fn price_of(id: u32) -> f64 {
    f64::from(id) * 0.25
}

/// Whether these are the three columns of row `id`, after any number of updates.
#[inline]
fn check_row(id: u32, name: &[u8], amount: i64, price: f64) -> Result<()> {
    if name == name_of(id) && amount as u32 == id && price == price_of(id) {
        return Ok(());
    }
    let name = String::from_utf8_lossy(name);
    Err(Failure::WrongAnswer(format!("row {id} is ({name:?}, {amount}, {price})")))
}

/// An arm while it is being measured.
struct Measured {
    engine: Engine,
    subject: Box<dyn Subject>,
    workers: Vec<Box<dyn Worker>>,
    rates: [Rounds; 3],
    latencies: Histogram<u64>,
    updates: u64,
    next_id: u32,
    failure: Option<Failure>,
}

/// Runs the experiment.
pub fn run(options: &Options, reporter: &mut Reporter) -> Result<()> {
    let engines = match options.arms.as_slice() {
        [] => Engine::value_variants(),
        chosen => chosen,
    };
    let mut arms = Vec::new();
    for &engine in engines {
        reporter.progress(format_args!("{engine:?}: loading {} rows", options.rows));
        arms.push(Measured::load(engine, options)?);
    }
    let time = measure::seconds(options.seconds / f64::from(options.rounds));
    for round in 0..options.rounds {
        reporter.progress(format_args!("round {} of {}", round + 1, options.rounds));
        for work in Work::ALL {
            for place in 0..arms.len() {
                let turn = (place + round as usize) % arms.len();
                arms[turn].round(work, options, round, time);
            }
        }
    }
    for mut arm in arms {
        arm.measure_latencies(options);
        reporter.arm(arm.report(options));
    }
    Ok(())
}

impl Measured {
    fn load(engine: Engine, options: &Options) -> Result<Self> {
        let shared = options.threads > 1;
        let mut subject: Box<dyn Subject> = match engine {
            Engine::Halcyon => Box::new(halcyon::Halcyon::new()?),
            Engine::Sqlite => Box::new(sqlite::Sqlite::new()?),
            Engine::Bare => Box::new(bare::Bare::new(shared)),
        };
        subject.load(options.rows)?;
        let workers = (0..options.threads).map(|_| subject.worker()).collect::<Result<_>>()?;
        Ok(Measured {
            engine,
            subject,
            workers,
            rates: Default::default(),
            latencies: measure::latencies(),
            updates: 0,
            next_id: options.rows,
            failure: None,
        })
    }

    /// Runs one round of one piece of work on all threads; does nothing after a failure.
    fn round(&mut self, work: Work, options: &Options, round: u32, time: Duration) {
        if self.failure.is_some() {
            return;
        }
        let threads = options.threads;
        let barrier = Barrier::new(threads as usize);
        let first_id = self.next_id;
        let results: Vec<Result<(u64, Duration)>> = std::thread::scope(|scope| {
            let mut running = Vec::new();
            for (thread, worker) in self.workers.iter_mut().enumerate() {
                let seed = options.seed ^ (u64::from(round) << 32 | thread as u64) << 8;
                let mut ids = Ids {
                    rng: Rng::new(seed ^ work as u64),
                    rows: options.rows,
                    next: first_id + thread as u32,
                    step: threads,
                };
                let barrier = &barrier;
                running.push(scope.spawn(move || {
                    barrier.wait();
                    work_for(worker.as_mut(), work, &mut ids, time)
                }));
            }
            running.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let mut rate = 0.0;
        let mut most = 0;
        for result in results {
            match result {
                Ok((done, took)) => {
                    rate += done as f64 / took.as_secs_f64();
                    most = most.max(done);
                    if work == Work::Update {
                        self.updates += done;
                    }
                }
                Err(failure) => self.failure = Some(failure),
            }
        }
        if work == Work::Insert {
            // Each thread inserts every `threads`-th id, so some ids below this one may be unused.
            self.next_id = first_id + u32::try_from(most).unwrap_or(u32::MAX) * threads;
        }
        self.rates[work as usize].push(rate);
    }

    /// Times SELECTs one by one, apart from the rounds, so that the clock does not slow the rounds.
    fn measure_latencies(&mut self, options: &Options) {
        let mut ids = Ids::select(options);
        let samples = 20_000.max((options.seconds * 50_000.0) as u32);
        for _ in 0..samples {
            if self.failure.is_some() {
                return;
            }
            let id = ids.random();
            let before = Instant::now();
            let done = self.workers[0].work(Work::Select, &[id]);
            self.latencies.saturating_record(before.elapsed().as_nanos() as u64);
            self.failure = done.err();
        }
    }

    fn report(mut self, options: &Options) -> Arm {
        let engine = format!("{:?}", self.engine).to_lowercase();
        let params = json!({
            "rows": options.rows, "threads": options.threads, "seconds": options.seconds,
            "rounds": options.rounds, "seed": options.seed,
        });
        let mut arm = Arm::new("point", &engine, params);
        for work in Work::ALL {
            let rates = &self.rates[work as usize];
            arm.figure(&format!("{}_per_s", work.name()), rates.median().round());
            arm.rounded(&format!("{}_spread", work.name()), rates.spread());
        }
        arm.figure("select_ns_p50", self.latencies.value_at_quantile(0.5));
        arm.figure("select_ns_p99", self.latencies.value_at_quantile(0.99));
        arm.figure("clock_ns", measure::clock_ns().round());
        if let Some(failure) = self.failure.take().or_else(|| self.check(options).err()) {
            arm.check = failure.to_string();
        }
        arm
    }

    /// Checks that rows and updates are as many as were acknowledged.
    fn check(&mut self, options: &Options) -> Result<()> {
        let (rows, updates) = self.subject.totals()?;
        if updates != self.updates {
            let message = format!("{} updates done, {updates} to be seen", self.updates);
            return Err(Failure::WrongAnswer(message));
        }
        // With several threads the last round's ids have gaps; one thread's have none.
        let expected = u64::from(self.next_id);
        if rows > expected || (options.threads == 1 && rows != expected) {
            return Err(Failure::WrongAnswer(format!("{rows} rows, {expected} were put in")));
        }
        Ok(())
    }
}

/// The choice of ids.
struct Ids {
    rng: Rng,
    rows: u32,
    next: u32,
    step: u32,
}

impl Ids {
    fn select(options: &Options) -> Self {
        Ids { rng: Rng::new(options.seed ^ 0xA11), rows: options.rows, next: 0, step: 1 }
    }

    fn random(&mut self) -> u32 {
        self.rng.below(u64::from(self.rows)) as u32
    }

    fn fresh(&mut self) -> u32 {
        let id = self.next;
        self.next += self.step;
        id
    }
}

/// Works until `time` is over; returns how much was done, and in which time.
fn work_for(
    worker: &mut dyn Worker,
    work: Work,
    ids: &mut Ids,
    time: Duration,
) -> Result<(u64, Duration)> {
    let start = Instant::now();
    let mut batch = [0; BATCH];
    let mut done = 0;
    loop {
        for id in &mut batch {
            *id = if work == Work::Insert { ids.fresh() } else { ids.random() };
        }
        worker.work(work, &batch)?;
        done += BATCH as u64;
        let took = start.elapsed();
        if took >= time {
            return Ok((done, took));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiny(threads: u32) -> Vec<Arm> {
        let options =
            Options { rows: 3_000, threads, seconds: 0.06, rounds: 2, arms: Vec::new(), seed: 7 };
        let mut reporter = Reporter::new(true);
        run(&options, &mut reporter).unwrap();
        reporter.arms().to_vec()
    }

    #[test]
    fn every_arm_answers_rightly_with_one_thread_and_with_three() {
        for arm in tiny(1).into_iter().chain(tiny(3)) {
            assert_eq!(arm.check, "ok", "{}", arm.engine);
            for figure in ["select_per_s", "update_per_s", "insert_per_s", "select_ns_p99"] {
                assert!(arm.figures[figure].as_f64().unwrap() > 0.0, "{} {figure}", arm.engine);
            }
        }
    }

    #[test]
    fn a_wrong_row_is_seen() {
        assert_eq!(check_row(5, &name_of(5), 5 + 3 * UPDATE_STEP, 1.25), Ok(()));
        assert!(check_row(5, &name_of(6), 5, 1.25).is_err());
        assert!(check_row(5, &name_of(5), 6, 1.25).is_err());
        assert!(check_row(5, &name_of(5), 5, 1.5).is_err());
    }

    /// Forgets updates: the check must say so.
    struct Forgetful;

    impl Subject for Forgetful {
        fn load(&mut self, _: u32) -> Result<()> {
            Ok(())
        }
        fn worker(&self) -> Result<Box<dyn Worker>> {
            Ok(Box::new(Forgetful))
        }
        fn totals(&mut self) -> Result<(u64, u64)> {
            Ok((10, 3))
        }
    }

    impl Worker for Forgetful {
        fn work(&mut self, _: Work, _: &[u32]) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lost_updates_fail_the_arm() {
        let options =
            Options { rows: 10, threads: 1, seconds: 0.01, rounds: 1, arms: vec![], seed: 1 };
        let mut arm = Measured {
            engine: Engine::Bare,
            subject: Box::new(Forgetful),
            workers: vec![Box::new(Forgetful)],
            rates: Default::default(),
            latencies: measure::latencies(),
            updates: 0,
            next_id: 10,
            failure: None,
        };
        arm.round(Work::Update, &options, 0, Duration::from_millis(1));
        assert!(arm.report(&options).check.contains("updates done, 3 to be seen"));
    }
}
