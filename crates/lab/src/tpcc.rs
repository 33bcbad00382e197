//! TPC-C as [P1] §5 runs it: the five transactions, statement by statement over a connection,
//! without think times, in mixes of more and fewer reads.
//!
//! Arms: Halcyon, its peers, and *bare*: the same work by hand over structs, one mutex per
//! warehouse. An arm is an engine, a mix, a number of clients and an isolation level, each on
//! freshly loaded tables; its seconds are cut into rounds, whose spread is the A/A difference.
//! Every client is at home in one warehouse. Inputs are drawn before a transaction begins, so that
//! all engines get the same ones. A transaction that falls victim to others is run again, and its
//! latency includes that.
//!
//! Checked: answers while they come (rows changed, lines of an order, unused items), and after
//! every arm the consistency conditions 3.3.2.1 to 3.3.2.12. What differs from TPC-C: no terminals,
//! no think times, no durability, no price; Delivery is one transaction and not deferred; lines of
//! an order are worked on in order of warehouse and item.
//! Source: TPC-C 5.11; [P1] §3 and §5.

mod consistency;
pub(crate) mod engines;
pub(crate) mod input;
mod load;
mod random;
mod run;
mod schema;
mod sql;
pub(crate) mod transactions;

use std::time::Duration;

use clap::{Args, ValueEnum};
use halcyon::Isolation;
use serde_json::json;

use crate::measure;
use crate::point::positive;
use crate::report::{Arm, Reporter};
use crate::{Failure, Result};
use engines::halcyon::Setup;
use engines::{Content, Engine};
use input::{Inputs, Mix};
use random::{Random, Scale};
use run::Measured;

/// Options of `halcyon lab tpcc`. Lists give one arm per combination.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// Engines to measure
    #[arg(long, value_enum, value_delimiter = ',',
          default_values_t = [Subject::Halcyon, Subject::Bare, Subject::Sqlite])]
    pub engine: Vec<Subject>,
    /// Clients, each with a connection and a thread of its own
    #[arg(long, value_delimiter = ',', default_values_t = [1],
          value_parser = clap::value_parser!(u32).range(1..=256))]
    pub clients: Vec<u32>,
    /// Mixes of transactions, by their share of reads
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Mix::Standard])]
    pub mix: Vec<Mix>,
    /// Isolation levels
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Level::Serializable])]
    pub isolation: Vec<Level>,
    /// Warehouses
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub warehouses: u32,
    /// Partitions of Halcyon's tables, by warehouse
    #[arg(long, value_delimiter = ',', default_values_t = [1],
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub partitions: Vec<u32>,
    /// One database per client: what the machine would give if nothing were shared
    #[arg(long)]
    pub ideal: bool,
    /// How a transaction that only reads does so, in Halcyon
    #[arg(long, value_enum, default_value_t = Reads::Locked)]
    pub reads: Reads,
    /// How a transaction reaches Halcyon
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Form::Interactive])]
    pub form: Vec<Form>,
    /// When a commit of Halcyon's is on disk
    #[arg(long, value_enum, default_value_t = Durability::Off)]
    pub durability: Durability,
    /// Seconds per arm, over all rounds
    #[arg(long, default_value_t = 5.0, value_parser = positive)]
    pub seconds: f64,
    /// Rounds of an arm
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Seed of tables and inputs
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Tables of a hundredth of the size, for a quick look
    #[arg(long)]
    pub tiny: bool,
}

/// The engines of this experiment.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Halcyon, embedded
    Halcyon,
    /// Structs behind one mutex per warehouse
    Bare,
    /// SQLite, in memory
    Sqlite,
}

/// Isolation of transactions, where an engine has a choice.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Locks are held to the end
    Serializable,
    /// Read locks end with their statement
    ReadCommitted,
}

/// How transactions that only read do so.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// Under shared locks, as any other transaction
    Locked,
    /// Declared READ ONLY: on a snapshot, without locks
    Snapshot,
}

/// How a transaction comes to the engine.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Statement by statement; locks are taken as they come
    Interactive,
    /// As a program that takes all its locks first, in order
    OneShot,
}

/// When a commit is on disk.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Never: the database is in memory
    Off,
    /// Soon
    Async,
    /// Before it is acknowledged
    Sync,
}

/// A lock that is waited for longer than this ends its transaction, which is counted.
pub(crate) const LOCK_WAIT_MAX: Duration = Duration::from_millis(100);

/// Why a transaction was undone although nothing is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    Deadlock,
    Serialization,
    LockWait,
}

impl Conflict {
    const ALL: [Conflict; 3] = [Conflict::Deadlock, Conflict::Serialization, Conflict::LockWait];

    fn figure(self) -> &'static str {
        match self {
            Conflict::Deadlock => "deadlocks",
            Conflict::Serialization => "serialization_failures",
            Conflict::LockWait => "lock_waits_above_100_ms",
        }
    }
}

/// Why a transaction did not end as it should.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Run it again.
    Conflict(Conflict),
    /// The arm has failed.
    Failed(Failure),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Trouble::Failed(failure)
    }
}

/// What a step of a transaction gives.
pub(crate) type Done<T> = std::result::Result<T, Trouble>;

/// One combination of the options.
struct Case {
    subject: Subject,
    mix: Mix,
    clients: u32,
    isolation: Level,
    partitions: u32,
    form: Form,
}

/// Runs the experiment.
///
/// Errors: options that contradict each other, before anything is measured.
pub fn run(options: &Options, reporter: &mut Reporter) -> Result<()> {
    if options.durability != Durability::Off {
        let what = "--durability async and sync need a database on disk, which this version lacks";
        return Err(Failure::Engine(what.into()));
    }
    for case in cases(options) {
        reporter.progress(case.title(options));
        reporter.arm(case.arm(options));
    }
    Ok(())
}

/// Every combination that makes a difference: only Halcyon has partitions, isolation, forms.
fn cases(options: &Options) -> Vec<Case> {
    let mut cases = Vec::new();
    for &mix in &options.mix {
        for &clients in &options.clients {
            for &subject in &options.engine {
                for (at, case) in variants(options).enumerate() {
                    let (isolation, partitions, form) = case;
                    if subject == Subject::Halcyon || at == 0 {
                        cases.push(Case { subject, mix, clients, isolation, partitions, form });
                    }
                }
            }
        }
    }
    cases
}

fn variants(options: &Options) -> impl Iterator<Item = (Level, u32, Form)> + '_ {
    options.isolation.iter().flat_map(move |isolation| {
        options.partitions.iter().flat_map(move |partitions| {
            options.form.iter().map(move |form| (*isolation, *partitions, *form))
        })
    })
}

impl Case {
    fn name(&self) -> String {
        value_name(self.subject)
    }

    fn title(&self, options: &Options) -> String {
        let ideal = if options.ideal { ", one database each" } else { "" };
        format!(
            "{}: {} with {} client(s){ideal}, {} warehouses",
            self.name(),
            self.mix.name(),
            self.clients,
            options.warehouses
        )
    }

    fn arm(&self, options: &Options) -> Arm {
        let mut params = json!({
            "mix": self.mix.name(), "clients": self.clients, "warehouses": options.warehouses,
            "seconds": options.seconds, "rounds": options.rounds, "seed": options.seed,
            "ideal": options.ideal, "tiny": options.tiny,
        });
        if self.subject == Subject::Halcyon {
            params["isolation"] = value_name(self.isolation).into();
            params["partitions"] = self.partitions.into();
            params["reads"] = value_name(options.reads).into();
            params["form"] = value_name(self.form).into();
            params["durability"] = value_name(options.durability).into();
        }
        let mut arm = Arm::new("tpcc", &self.name(), params);
        match self.measure(options) {
            Ok((measured, broken)) => {
                measured.report(&mut arm);
                if let (Some(broken), "ok") = (broken, arm.check.as_str()) {
                    arm.check = broken;
                }
            }
            Err(failure) => arm.check = failure.to_string(),
        }
        arm
    }

    /// What the clients did, and what is inconsistent after it.
    fn measure(&self, options: &Options) -> Result<(Measured, Option<String>)> {
        let scale = match options.tiny {
            true => Scale::tiny(options.warehouses as i32),
            false => Scale::full(options.warehouses as i32),
        };
        let content = Content { scale, seed: options.seed };
        let count = if options.ideal { self.clients } else { 1 };
        let engines = (0..count)
            .map(|_| self.load(content, options))
            .collect::<Result<Vec<Box<dyn Engine>>>>()?;
        let mut clients = Vec::new();
        for number in 0..self.clients {
            let random = Random::new(scale, options.seed, u64::from(number));
            let engine = &engines[(number % count) as usize];
            clients.push((engine.client()?, Inputs::new(random, self.mix, number)));
        }
        let mut measured = Measured::default();
        let time = measure::seconds(options.seconds / f64::from(options.rounds));
        // A tenth of a round before the first one counts: caches, and pages touched first.
        let mut warming = Measured::default();
        run::round(&mut clients, time / 10, &mut warming);
        measured.failure = warming.failure;
        for _ in 0..options.rounds {
            run::round(&mut clients, time, &mut measured);
        }
        drop(clients);
        let broken = engines.iter().map(|engine| engine.broken()).collect::<Result<Vec<_>>>()?;
        Ok((measured, broken.into_iter().flatten().next()))
    }

    fn load(&self, content: Content, options: &Options) -> Result<Box<dyn Engine>> {
        let isolation = match self.isolation {
            Level::Serializable => Isolation::Serializable,
            Level::ReadCommitted => Isolation::ReadCommitted,
        };
        let setup = Setup {
            partitions: self.partitions,
            isolation,
            snapshot_reads: options.reads == Reads::Snapshot,
            one_shot: self.form == Form::OneShot,
        };
        Ok(match self.subject {
            Subject::Halcyon => Box::new(engines::halcyon::Halcyon::loaded(content, setup)?),
            Subject::Bare => Box::new(engines::bare::Bare::loaded(content)?),
            Subject::Sqlite => Box::new(engines::sqlite::Sqlite::loaded(content)?),
        })
    }
}

/// The name of a value on the command line.
fn value_name(value: impl ValueEnum) -> String {
    let value = value.to_possible_value().expect("no value is hidden");
    value.get_name().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options {
            engine: vec![Subject::Halcyon],
            clients: vec![1],
            mix: vec![Mix::Standard],
            isolation: vec![Level::Serializable],
            warehouses: 2,
            partitions: vec![1],
            ideal: false,
            reads: Reads::Locked,
            form: vec![Form::Interactive],
            durability: Durability::Off,
            seconds: 0.2,
            rounds: 2,
            seed: 7,
            tiny: true,
        }
    }

    fn checked(options: &Options) -> Vec<Arm> {
        let mut reporter = Reporter::new(true);
        run(options, &mut reporter).unwrap();
        for arm in reporter.arms() {
            assert_eq!(arm.check, "ok", "{} {:?}", arm.engine, arm.params);
            assert!(arm.figures["tx_per_s"].as_f64().unwrap() > 0.0, "{:?}", arm.params);
        }
        reporter.arms().to_vec()
    }

    #[test]
    fn every_engine_and_mix_keeps_the_conditions() {
        let arms = checked(&Options {
            engine: Subject::value_variants().to_vec(),
            mix: Mix::value_variants().to_vec(),
            clients: vec![2],
            ..options()
        });
        assert_eq!(arms.len(), 4 * Subject::value_variants().len());
    }

    #[test]
    fn sixteen_clients_keep_the_conditions_at_both_levels() {
        let arms = checked(&Options {
            clients: vec![16],
            isolation: Level::value_variants().to_vec(),
            partitions: vec![1, 2],
            form: Form::value_variants().to_vec(),
            ..options()
        });
        assert_eq!(arms.len(), 8);
    }

    #[test]
    fn snapshots_and_databases_of_ones_own_keep_them_too() {
        checked(&Options { clients: vec![3], reads: Reads::Snapshot, ..options() });
        checked(&Options { clients: vec![2], ideal: true, ..options() });
    }

    #[test]
    fn what_is_not_there_yet_is_refused_before_anything_runs() {
        let options = Options { durability: Durability::Sync, ..options() };
        let refused = run(&options, &mut Reporter::new(true)).unwrap_err();
        assert!(refused.to_string().contains("--durability"), "{refused}");
    }
}
