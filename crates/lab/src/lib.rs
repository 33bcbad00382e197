//! Experiments: Halcyon beside rivals, on the same work, in the same process and run.
//!
//! Words: an *experiment* measures *arms*; an arm is one engine at one piece of work. *bare* is the
//! same work written by hand against plain data structures: an engine's distance from it is the
//! cost of the engine. Arms take turns in rounds, and every figure has its spread between rounds: a
//! smaller difference is no difference.
//!
//! Every answer is checked while it is measured. A wrong one is a failed arm, however fast.
//!
//! **Invariant**, checked by `cargo xtask check layers`: Halcyon is reached through its public
//! crate only.
#![forbid(unsafe_code)]

pub mod coschedule;
pub mod durability;
pub mod noise;
pub mod plan;
pub mod point;
pub mod snapshot;
pub mod tasks;
pub mod tpcc;
pub mod tpch;
pub mod tree;
pub mod views;
pub mod wire;
pub mod workload;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

pub use halcyon_gauge::{Arm, Reporter};
use halcyon_gauge::{
    bare, chart, measure, open_loop, peers, postgres, programs, responses, statistics,
};
use halcyon_neighbours::{cachemodel, ch, heatmap, interference, nontemporal};

/// An experiment that cannot go on: which arm, and why.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// The reason why an arm failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The engine's answer was wrong.
    WrongAnswer(String),
    /// The engine refused the work.
    Engine(String),
    /// Files could not be read or written.
    Io(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::WrongAnswer(what) => write!(f, "wrong answer: {what}"),
            Failure::Engine(what) => write!(f, "engine: {what}"),
            Failure::Io(what) => write!(f, "file: {what}"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<halcyon::SqlError> for Failure {
    fn from(error: halcyon::SqlError) -> Self {
        Failure::Engine(error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::Io(error.to_string())
    }
}

impl From<halcyon_gauge::Failure> for Failure {
    fn from(failure: halcyon_gauge::Failure) -> Self {
        match failure {
            halcyon_gauge::Failure::Engine(what) => Failure::Engine(what),
            halcyon_gauge::Failure::Io(what) => Failure::Io(what),
        }
    }
}

impl From<halcyon_neighbours::Failure> for Failure {
    fn from(failure: halcyon_neighbours::Failure) -> Self {
        match failure {
            halcyon_neighbours::Failure::WrongAnswer(what) => Failure::WrongAnswer(what),
            halcyon_neighbours::Failure::Engine(what) => Failure::Engine(what),
            halcyon_neighbours::Failure::Io(what) => Failure::Io(what),
        }
    }
}

impl From<Failure> for halcyon_neighbours::Failure {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::WrongAnswer(what) => halcyon_neighbours::Failure::WrongAnswer(what),
            Failure::Engine(what) => halcyon_neighbours::Failure::Engine(what),
            Failure::Io(what) => halcyon_neighbours::Failure::Io(what),
        }
    }
}

impl From<arrow::error::ArrowError> for Failure {
    fn from(error: arrow::error::ArrowError) -> Self {
        Failure::Engine(error.to_string())
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        halcyon_gauge::Failure::from(error).into()
    }
}

/// Command line of the binary `halcyon-lab`.
#[derive(Parser, Debug)]
#[command(name = "halcyon-lab", bin_name = "halcyon lab", version, max_term_width = 100)]
pub struct Arguments {
    /// What every experiment understands.
    #[command(flatten)]
    pub common: Common,
    /// What is measured.
    #[command(subcommand)]
    pub experiment: Experiment,
}

/// What every experiment understands.
#[derive(Args, Debug, Clone, Copy, Default)]
pub struct Common {
    /// Print one JSON object per arm instead of a table
    #[arg(long, global = true)]
    pub json: bool,
}

/// `halcyon lab EXPERIMENT`.
#[derive(Subcommand, Debug)]
pub enum Experiment {
    /// Prepared single-row SELECT, UPDATE and INSERT by primary key
    Point(point::Options),
    /// Commits per second, recovery, and updates during checkpoints, on a disk
    Durability(durability::Options),
    /// Updates while another thread takes snapshots and sums a column
    Snapshot(snapshot::Options),
    /// What tasks cost, beside rayon and tokio
    Tasks(tasks::Options),
    /// The five transactions of TPC-C, in mixes of more and fewer reads
    Tpcc(tpcc::Options),
    /// The 22 queries of TPC-H
    Tpch(tpch::Options),
    /// The 22 queries of CH-benCHmark while TPC-C's transactions write
    Ch(ch::Options),
    /// A B-link tree in five modes, beside a BTreeMap
    Tree(tree::Options),
    /// Incremental views: events per second and latency of each event
    Views(views::Options),
    /// Time from a text to its plan, phase by phase, beside PostgreSQL
    Plan(plan::Options),
    /// Statements over the wire as drivers send them, beside PostgreSQL
    Wire(wire::Options),
    /// The server of the arm bare of wire, until it is ended
    #[command(hide = true)]
    BareServer(bare::Options),
    /// Workload classes: response times beside a growing load, overload, and what classes cost
    Workload(workload::Options),
    /// The time of every tuple in quiet and loaded scenarios, and what made the late ones late
    Noise(noise::Options),
    /// A stressor of the experiment noise, until its input ends
    #[command(hide = true)]
    NoiseStressor(noise::stressors::Options),
    /// What puts the settings back that a shield of the experiment noise has changed
    #[command(hide = true)]
    NoiseGuardian(noise::Guardian),
    /// Figures and tables of recorded runs
    #[command(subcommand)]
    Report(Report),
    /// Graph algorithms in pairs: threads placed by the OS, and groups on islands
    Coschedule(coschedule::Options),
    /// Operators of SQL in all pairs: how much each slows down beside each other
    Interference(interference::Options),
    /// An aggregation beside a scan on a simulated cache with masks
    Cachemodel(cachemodel::Options),
    /// An aggregation beside scans and output that are meant to leave the cache alone, and beside plain ones
    Nontemporal(nontemporal::Options),
}

/// `halcyon lab report EXPERIMENT`.
#[derive(Subcommand, Debug)]
pub enum Report {
    /// Charts of throughput, and a table
    Tpcc(tpcc::report::Options),
}

/// Runs an experiment and prints its arms; failure if any answer was wrong.
pub fn run(experiment: &Experiment, common: Common) -> ExitCode {
    let mut reporter = Reporter::new(common.json);
    let done = match experiment {
        Experiment::Point(options) => point::run(options, &mut reporter),
        Experiment::Durability(options) => durability::run(options, &mut reporter),
        Experiment::Snapshot(options) => snapshot::run(options, &mut reporter),
        Experiment::Tasks(options) => tasks::run(options, &mut reporter),
        Experiment::Tpcc(options) => tpcc::run(options, &mut reporter),
        Experiment::Tpch(options) => tpch::run(options, &mut reporter),
        Experiment::Ch(options) => tpcc::beside::run(options, &mut reporter),
        Experiment::Tree(options) => tree::run(options, &mut reporter),
        Experiment::Views(options) => views::run(options, &mut reporter),
        Experiment::Plan(options) => plan::run(options, &mut reporter),
        Experiment::Wire(options) => wire::run(options, &mut reporter),
        Experiment::BareServer(options) => bare::serve(options).map_err(Failure::from),
        Experiment::Workload(options) => workload::run(options, &mut reporter),
        Experiment::Noise(options) => noise::run(options, &mut reporter),
        Experiment::NoiseStressor(options) => noise::stressors::run(options).map_err(Failure::from),
        Experiment::NoiseGuardian(options) => noise::guard(options).map_err(Failure::from),
        Experiment::Report(Report::Tpcc(options)) => tpcc::report::run(options),
        Experiment::Coschedule(options) => coschedule::run(options, &mut reporter),
        Experiment::Interference(options) => tpcc::beside::interference(options, &mut reporter),
        Experiment::Cachemodel(options) => {
            cachemodel::run(options, &mut reporter).map_err(Failure::from)
        }
        Experiment::Nontemporal(options) => {
            nontemporal::run(options, &mut reporter).map_err(Failure::from)
        }
    };
    if let Err(failure) = done {
        eprintln!("error: {failure}");
        return ExitCode::FAILURE;
    }
    if reporter.all_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
