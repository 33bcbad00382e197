//! Statements over the wire as drivers send them, beside PostgreSQL: the cost of a statement to a
//! client.
//!
//! A table `account (id, branch, balance, filler)` of `--rows` rows and the other three tables of TPC-B.
//! Each server is a process of its own that listens on TCP, keeps nothing on disk (PostgreSQL: `fsync`,
//! `synchronous_commit` and `full_page_writes` off) and is spoken to by the driver tokio-postgres, one
//! connection and thread per client. Pieces of work:
//! - *prepared*: SELECT by key, prepared once;
//! - *extended*: the same with Parse, Bind and Execute for every run, its parameter typed;
//! - *simple*: the same as a text with the key in it, by the simple protocol;
//! - *new*: as *simple*, but no two texts have one shape, so that each is planned;
//! - *tpcb*: the seven statements of a TPC-B transaction with literals by the simple protocol;
//! - *tpcb_prepared*: the same prepared;
//! - *read_then_write*: SELECT and UPDATE of one row by all clients in a transaction; victims begin again;
//! - *for_update*: the same with SELECT … FOR UPDATE;
//! - *analyses*: `--analysts` connections aggregate all accounts without end, and nobody else is there;
//! - *beside*: *prepared* beside *analyses*.
//!
//! The arms *bare* and *bare_awake* answer *prepared*, *extended*, *simple* and *new* alone, without any work ([`halcyon_gauge::bare`]):
//! the limit for any server, beside which the cost of a database's own statement stands. A thread of *bare_awake* looks
//! for the next message of a lone client as long as one of Halcyon's.
//!
//! Figures: runs per second over all clients, microseconds of processor time that the server's
//! processes took per run, both with their spread between rounds, and the median over rounds of the latencies'
//! percentiles. Arms take turns, round by round.
//! Checked: every row that is read and every aggregate, after all rounds that branches, tellers, accounts and history come
//! to one sum, and that the row which all clients update counts their commits.

mod client;

use std::path::PathBuf;
use std::process::Command;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use halcyon_base::rng::Rng;
use hdrhistogram::Histogram;
use serde_json::json;

use crate::measure::{self, Rounds};
use crate::point::positive;
use crate::programs::Program;
use crate::{Arm, Failure, Reporter, Result, postgres};

pub(crate) use client::{Client, load};

/// Options of `halcyon lab wire`.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// Accounts
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    pub rows: u32,
    /// Clients at once
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub clients: u32,
    /// Seconds per arm and piece of work, over all rounds
    #[arg(long, default_value_t = 3.0, value_parser = positive)]
    pub seconds: f64,
    /// Clients that aggregate in *analyses* and *beside*
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub analysts: u32,
    /// Rounds in which the arms take turns
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Only these arms
    #[arg(long, value_enum, value_delimiter = ',')]
    pub arms: Vec<Engine>,
    /// Only these pieces of work
    #[arg(long, value_enum, value_delimiter = ',')]
    pub work: Vec<Work>,
    /// The binary `halcyon` whose server is measured; without, the one beside this program
    #[arg(long, value_name = "FILE")]
    pub binary: Option<PathBuf>,
    /// Seed of the choice of keys
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Microseconds that a thread of *bare_awake* looks: the default of `halcyon serve --busy-poll`.
const LOOK_US: &str = "150";

/// The servers of this experiment.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
#[value(rename_all = "snake_case")]
pub enum Engine {
    /// Halcyon
    Halcyon,
    /// PostgreSQL
    Postgres,
    /// A server that does no work, with lookups by key only
    Bare,
    /// The same, awake for a while after each answer to a lone client
    BareAwake,
}

impl Engine {
    /// Whether the server has what a piece of work needs.
    fn does(self, work: Work) -> bool {
        !self.is_bare()
            || matches!(work, Work::Prepared | Work::Extended | Work::Simple | Work::New)
    }

    fn is_bare(self) -> bool {
        matches!(self, Engine::Bare | Engine::BareAwake)
    }

    fn name(self) -> String {
        self.to_possible_value().expect("no variant is skipped").get_name().to_owned()
    }

    /// Starts the server, and fills its tables if it has any.
    fn start(self, options: &Options) -> Result<Program> {
        let program = match self {
            Engine::Halcyon => Program::halcyon(options.binary.as_deref())?,
            Engine::Postgres => Program::postgres()?,
            Engine::Bare | Engine::BareAwake => {
                let look = if self == Engine::Bare { "0" } else { LOOK_US };
                let mut server = Command::new(std::env::current_exe()?);
                server.args(["bare-server", "--look", look]);
                server.args(["--rows", &options.rows.to_string()]);
                return Ok(Program::bare(server)?);
            }
        };
        load(&program, options.rows)?;
        Ok(program)
    }
}

/// The pieces of work.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
#[value(rename_all = "snake_case")]
pub enum Work {
    /// SELECT by key, prepared once
    Prepared,
    /// SELECT by key, parsed for every run
    Extended,
    /// SELECT by key with a literal
    Simple,
    /// SELECT by key with a literal, no two texts alike
    New,
    /// TPC-B with literals
    Tpcb,
    /// TPC-B, prepared once
    TpcbPrepared,
    /// A row read and then updated by all clients
    ReadThenWrite,
    /// A row read FOR UPDATE and then updated by all clients
    ForUpdate,
    /// Aggregates over all accounts, without end
    Analyses,
    /// SELECT by key, prepared once, beside such aggregates
    Beside,
}

/// What clients met in the work on one row: commits, victims, the longest row of victims of one client, and the
/// longest time to a commit in microseconds.
type Contention = [u64; 4];

/// What several clients met, or one in several rounds.
fn sum(one: Contention, other: Contention) -> Contention {
    [one[0] + other[0], one[1] + other[1], one[2].max(other[2]), one[3].max(other[3])]
}

impl Work {
    /// Whether all clients update one row.
    fn updates_one_row(self) -> bool {
        matches!(self, Work::ReadThenWrite | Work::ForUpdate)
    }

    /// Whether analysts are there.
    fn has_analysts(self) -> bool {
        matches!(self, Work::Analyses | Work::Beside)
    }

    fn name(self) -> String {
        self.to_possible_value().expect("no variant is skipped").get_name().to_owned()
    }
}

/// An arm while it is being measured.
struct Measured {
    engine: Engine,
    program: Program,
    clients: Vec<Client>,
    analysts: Vec<Client>,
    rates: Vec<Rounds>,
    analyses: Vec<Rounds>,
    processor_us: Vec<Rounds>,
    /// Median and 99th percentile of latencies.
    latencies_us: Vec<[Rounds; 2]>,
    failure: Option<Failure>,
}

/// Runs the experiment.
pub fn run(options: &Options, reporter: &mut Reporter) -> Result<()> {
    let engines = match options.arms.as_slice() {
        [] => Engine::value_variants(),
        chosen => chosen,
    };
    let work = match options.work.as_slice() {
        [] => Work::value_variants(),
        chosen => chosen,
    };
    let mut arms = Vec::new();
    for &engine in engines {
        if let (Engine::Postgres, Some(missing)) = (engine, postgres::missing()) {
            reporter.progress(format_args!("postgres is left out: it {missing}"));
            continue;
        }
        reporter.progress(format_args!("{engine:?}: loading {} accounts", options.rows));
        arms.push(Measured::start(engine, work.len(), options)?);
    }
    let time = measure::seconds(options.seconds / f64::from(options.rounds));
    for round in 0..options.rounds {
        reporter.progress(format_args!("round {} of {}", round + 1, options.rounds));
        for (at, work) in work.iter().enumerate() {
            for place in 0..arms.len() {
                let turn = (place + round as usize) % arms.len();
                arms[turn].round(at, *work, options, round, time);
            }
        }
    }
    for arm in arms {
        reporter.arm(arm.report(work, options));
    }
    Ok(())
}

impl Measured {
    fn start(engine: Engine, pieces: usize, options: &Options) -> Result<Self> {
        let program = engine.start(options)?;
        let clients = (0..options.clients).map(|number| Client::new(&program, number));
        let analysts = if engine.does(Work::Analyses) { options.analysts } else { 0 };
        let analysts = (0..analysts).map(|_| Client::new(&program, options.clients));
        Ok(Measured {
            engine,
            clients: clients.collect::<Result<_>>()?,
            analysts: analysts.collect::<Result<_>>()?,
            program,
            rates: vec![Rounds::default(); pieces],
            analyses: vec![Rounds::default(); pieces],
            processor_us: vec![Rounds::default(); pieces],
            latencies_us: vec![Default::default(); pieces],
            failure: None,
        })
    }

    /// Runs one round of one piece of work by all clients; does nothing after a failure, nor what the server lacks.
    fn round(&mut self, at: usize, work: Work, options: &Options, round: u32, time: Duration) {
        if self.failure.is_some() || !self.engine.does(work) {
            return;
        }
        let clients: &mut [Client] = match work {
            Work::Analyses => &mut [],
            _ => &mut self.clients,
        };
        let analysts: &mut [Client] = match work.has_analysts() {
            true => &mut self.analysts,
            false => &mut [],
        };
        let count = clients.len();
        let barrier = Barrier::new(count + analysts.len());
        let before = self.program.processor_time();
        let mut results: Vec<Result<Done>> = std::thread::scope(|scope| {
            let clients = clients.iter_mut().map(|client| (client, work));
            let analysts = analysts.iter_mut().map(|analyst| (analyst, Work::Analyses));
            let running = clients.chain(analysts).enumerate().map(|(number, (client, work))| {
                let seed =
                    options.seed ^ (u64::from(round) << 32 | (number as u64) << 8 | at as u64);
                let barrier = &barrier;
                scope.spawn(move || {
                    let mut rng = Rng::new(seed);
                    barrier.wait();
                    work_for(client, work, options.rows, &mut rng, time)
                })
            });
            let running: Vec<_> = running.collect();
            running.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let processor = self.program.processor_time().saturating_sub(before);
        let mut sums = [(0.0, 0); 2];
        let mut latencies = measure::latencies();
        let analyses = results.split_off(count);
        for (sum, results) in sums.iter_mut().zip([results, analyses]) {
            for result in results {
                match result {
                    Ok(done) => {
                        sum.0 += done.runs as f64 / done.took.as_secs_f64();
                        sum.1 += done.runs;
                        // An analyst beside others is no client.
                        if work == Work::Analyses || !done.analyses {
                            latencies.add(&done.latencies).expect("of one kind");
                        }
                    }
                    Err(failure) => self.failure = Some(failure),
                }
            }
        }
        let [own, analysts] = sums;
        let (rate, runs) = if work == Work::Analyses { analysts } else { own };
        self.rates[at].push(rate);
        self.analyses[at].push(analysts.0);
        self.processor_us[at].push(processor.as_secs_f64() * 1e6 / runs.max(1) as f64);
        for (rounds, share) in self.latencies_us[at].iter_mut().zip([0.5, 0.99]) {
            rounds.push(latencies.value_at_quantile(share) as f64 / 1e3);
        }
    }

    fn report(mut self, work: &[Work], options: &Options) -> Arm {
        let params = json!({
            "rows": options.rows, "clients": options.clients, "seconds": options.seconds,
            "analysts": options.analysts, "rounds": options.rounds, "seed": options.seed,
        });
        let mut arm = Arm::new("wire", &self.engine.name(), params);
        let mut counted = 0;
        for (at, work) in work.iter().enumerate().filter(|(_, work)| self.engine.does(**work)) {
            let name = work.name();
            if work.updates_one_row() {
                let met = self.clients.iter().map(|client| client.met(*work));
                let [commits, victims, row, longest_us] = met.fold([0; 4], sum);
                counted += commits;
                arm.figure(&format!("{name}_victims"), victims as f64);
                arm.figure(&format!("{name}_victims_in_a_row_max"), row as f64);
                arm.rounded(&format!("{name}_commit_ms_max"), longest_us as f64 / 1e3);
            }
            arm.figure(&format!("{name}_per_s"), self.rates[at].median().round());
            arm.rounded(&format!("{name}_spread"), self.rates[at].spread());
            let [median, high] = &self.latencies_us[at];
            arm.rounded(&format!("{name}_p50_us"), median.median());
            arm.rounded(&format!("{name}_p99_us"), high.median());
            if *work == Work::Beside {
                arm.rounded(&format!("{name}_analyses_per_s"), self.analyses[at].median());
                arm.rounded(&format!("{name}_analyses_spread"), self.analyses[at].spread());
                continue;
            }
            arm.rounded(&format!("{name}_server_us"), self.processor_us[at].median());
            arm.rounded(&format!("{name}_server_spread"), self.processor_us[at].spread());
        }
        let checked = match self.failure.take() {
            Some(failure) => Err(failure),
            None if self.engine.is_bare() => Ok(()),
            None => {
                self.clients[0].check_sums().and_then(|()| self.clients[0].check_count(counted))
            }
        };
        if let Err(failure) = checked {
            arm.check = failure.to_string();
        }
        arm
    }
}

/// What one client has done.
struct Done {
    analyses: bool,
    runs: u64,
    took: Duration,
    /// In nanoseconds.
    latencies: Histogram<u64>,
}

/// Works until `time` is over.
fn work_for(
    client: &mut Client,
    work: Work,
    rows: u32,
    rng: &mut Rng,
    time: Duration,
) -> Result<Done> {
    let start = Instant::now();
    let (mut runs, mut before) = (0, Duration::ZERO);
    let mut latencies = measure::latencies();
    loop {
        client.run(work, rows, rng)?;
        runs += 1;
        let took = start.elapsed();
        latencies.saturating_record((took - before).as_nanos() as u64);
        before = took;
        if took >= time {
            return Ok(Done { analyses: work == Work::Analyses, runs, took, latencies });
        }
    }
}
