//! Workload classes: an application that keeps its response time beside a load that grows (P4 §2, Figure 1),
//! overload, and the price of classes for statements that are short.
//!
//! Three applications, told apart by their `application_name`: *web* sends statements when they are due, whatever
//! became of those before (open loop), and its latency is counted from the moment of the intended send; *report*
//! and *etl* send analytical statements and writes without end, more connections of them from step to step.
//! Pieces of work:
//! - *figure1*: web beside `--per-step` more connections of each of the other two in every step. Arms on Halcyon
//!   differ in their classes; *control* has everything in one class, and if that arm's latency does not rise
//!   five-fold, the run is void: the load was too small to show anything. *again* is the first arm once more.
//! - *overload*: web alone, at 0.5 to 2 times the capacity that was measured before, and 0.5 once more; its users
//!   give up after a second.
//! - *tax*: SELECT by key and TPC-B over the wire, and SELECT by key embedded, with 20 classes and 50 mappings
//!   defined and without any, and without once more.
//!
//! Checked: every row that web, report and the lookups read, and the number of rows of every write.

mod background;
mod classes;
mod figure1;
mod overload;
mod statements;
mod tax;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use crate::point::positive;
use crate::programs::Program;
use crate::{Arm, Reporter, Result, measure, postgres};

use crate::open_loop::Arrivals;
use classes::ClassArm;
use statements::Sizes;

/// Options of `halcyon lab workload`.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// Only these pieces of work
    #[arg(long, value_enum, value_delimiter = ',')]
    pub work: Vec<Work>,
    /// Only these servers
    #[arg(long, value_enum, value_delimiter = ',')]
    pub engine: Vec<Engine>,
    /// Arms of *figure1* on Halcyon, in this order
    #[arg(long, value_enum, value_delimiter = ',', default_value = "classes,control,target,again")]
    pub arms: Vec<ClassArm>,
    /// Seconds of a step of *figure1*, of a phase of *overload*, and of an arm's work in *tax* over all rounds
    #[arg(long, default_value_t = 10.0, value_parser = positive)]
    pub seconds: f64,
    /// Steps of *figure1* after the first, in which web is alone
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub steps: u32,
    /// Connections of report, and as many of etl, that every step adds
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=60))]
    pub per_step: u32,
    /// Web statements per second in *figure1*
    #[arg(long, default_value_t = 20.0, value_parser = positive)]
    pub rate: f64,
    /// Distribution of the moments at which web statements are due
    #[arg(long, value_enum, default_value = "poisson")]
    pub arrivals: Arrivals,
    /// Connections of web in *figure1*
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub connections: u32,
    /// Connections of web in *overload*
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub overload_connections: u32,
    /// Latency target of *overload* in milliseconds, for 99 of 100 statements
    #[arg(long, default_value_t = 100.0, value_parser = positive)]
    pub target_ms: f64,
    /// Rows that a web statement sums
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub web_rows: u32,
    /// Rows that an analytical statement sums
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    pub rows: u32,
    /// Rows that a writer copies
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(2..=10_000_000))]
    pub etl_rows: u32,
    /// Clients of *tax*
    #[arg(long, value_delimiter = ',', default_value = "1,16", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub clients: Vec<u32>,
    /// Rounds of *tax*, in which the arms take turns
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// The binary `halcyon` whose server is measured; without, the one beside this program
    #[arg(long, value_name = "FILE")]
    pub binary: Option<PathBuf>,
    /// Seed of the moments at which statements are due
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// File for the curves of *figure1*
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// The servers of this experiment.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Halcyon
    Halcyon,
    /// PostgreSQL
    Postgres,
}

/// The pieces of work.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Response times beside a load that grows
    Figure1,
    /// More statements than the server has room for
    Overload,
    /// Short statements with classes defined and without
    Tax,
}

/// Runs the experiment.
pub fn run(options: &Options, reporter: &mut Reporter) -> Result<()> {
    let work = match options.work.as_slice() {
        [] => Work::value_variants(),
        chosen => chosen,
    };
    let engines = options.engines(reporter);
    for work in work {
        match work {
            Work::Figure1 => figure1::run(options, &engines, reporter)?,
            Work::Overload => overload::run(options, &engines, reporter)?,
            Work::Tax => tax::run(options, reporter)?,
        }
    }
    Ok(())
}

impl Engine {
    fn name(self) -> &'static str {
        match self {
            Engine::Halcyon => "halcyon",
            Engine::Postgres => "postgres",
        }
    }

    /// Starts a server of the engine.
    fn start(self, options: &Options) -> Result<Program> {
        match self {
            Engine::Halcyon => Ok(Program::halcyon(options.binary.as_deref())?),
            Engine::Postgres => Ok(Program::postgres()?),
        }
    }
}

impl Options {
    /// The servers that were asked for and are there.
    fn engines(&self, reporter: &Reporter) -> Vec<Engine> {
        let mut engines = match self.engine.as_slice() {
            [] => Engine::value_variants().to_vec(),
            chosen => chosen.to_vec(),
        };
        if let Some(missing) = postgres::missing() {
            reporter.progress(format_args!("postgres is left out: it {missing}"));
            engines.retain(|engine| *engine != Engine::Postgres);
        }
        engines
    }

    fn sizes(&self) -> Sizes {
        let writers = self.steps * self.per_step;
        Sizes { web: self.web_rows, large: self.rows, etl: self.etl_rows, writers }
    }

    /// The time of a step or a phase.
    fn step(&self) -> Duration {
        measure::seconds(self.seconds)
    }

    /// The beginning of a step or a phase, which is not measured: the load settles.
    fn settling(&self) -> Duration {
        self.step() / 5
    }

    /// An arm of the report: parameters of all pieces of work, and some more, an object.
    fn arm(&self, engine: Engine, work: &str, arm: &str, more: &[Value]) -> Arm {
        let own = json!({ "work": work, "arm": arm, "seconds": self.seconds, "seed": self.seed });
        let all = [&own].into_iter().chain(more).filter_map(Value::as_object);
        let params: Map<String, Value> =
            all.flatten().map(|(name, value)| (name.clone(), value.clone())).collect();
        Arm::new("workload", engine.name(), Value::Object(params))
    }
}

/// A duration in milliseconds.
fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
