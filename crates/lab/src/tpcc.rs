//! TPC-C as P1 §5 runs it: the five transactions, statement by statement over a connection,
//! without think times, in mixes of more and fewer reads.
//!
//! Arms: Halcyon, its peers, and *bare*: the same work by hand over structs, one mutex per
//! warehouse. An arm is an engine, a mix, a number of clients and an isolation level, each on
//! freshly loaded tables; its seconds are divided into rounds, whose spread is the A/A difference.
//! Every client has one home warehouse. Inputs are drawn before a transaction begins, so that all
//! engines get the same ones. A transaction that falls victim to others is run again, and its
//! latency includes that.
//!
//! Checked: answers as they come (rows changed, lines of an order, unused items), and after every
//! arm the consistency conditions 3.3.2.1 to 3.3.2.12. Differences from TPC-C: no terminals, no
//! think times, no durability, no price; Delivery is one transaction and not deferred; the lines of
//! an order are handled in order of warehouse and item.
//! Source: TPC-C 5.11; P1 §3 and §5.

pub(crate) mod beside;
mod consistency;
pub(crate) mod engines;
pub(crate) mod input;
mod load;
mod measured;
mod random;
mod record;
pub mod report;
mod run;
mod schema;
mod sql;
pub(crate) mod transactions;
pub(crate) mod views;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, ValueEnum};
use halcyon::Isolation;
use serde_json::json;

use crate::measure;
use crate::point::positive;
use crate::{Arm, Failure, Reporter, Result};
use engines::halcyon::Setup;
use engines::java::{self, Exchange, Job, Served};
use engines::postgres;
use engines::{Content, Engine};
use input::{Inputs, Mix};
use measured::Measured;
use random::{Random, Scale};

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
    /// A reader-writer latch around every access to Halcyon's segments and indexes, as engines
    /// without table locks need it
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Switch::Off])]
    pub latches: Vec<Switch>,
    /// Three materialized views over Halcyon's tables, which the transactions maintain
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Switch::Off])]
    pub views: Vec<Switch>,
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
    /// Seconds before the first round of an engine in Java, whose code is compiled meanwhile
    #[arg(long, default_value_t = 10.0, value_parser = positive)]
    pub warm_seconds: f64,
    /// Statements by JDBC to a server are parsed whenever they run, not once
    #[arg(long)]
    pub parse_each: bool,
    /// The binary `halcyon` that serves JDBC; without, the one beside this program
    #[arg(long, value_name = "FILE")]
    pub binary: Option<PathBuf>,
    /// Seed of tables and inputs
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Append every arm to this file, for `halcyon lab report tpcc`
    #[arg(long)]
    pub record: Option<PathBuf>,
    /// Tables of a hundredth of the size, for a quick look
    #[arg(long)]
    pub tiny: bool,
}

impl Options {
    fn content(&self) -> Content {
        let warehouses = self.warehouses as i32;
        let scale = if self.tiny { Scale::tiny(warehouses) } else { Scale::full(warehouses) };
        Content { scale, seed: self.seed }
    }
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
    /// H2 as it is now, in memory
    H2,
    /// H2 1.3.169, with locks on tables
    #[value(name = "h2-1.3")]
    H2Old,
    /// HSQLDB as it is now, in memory, with locks on tables
    Hsqldb,
    /// HSQLDB 2.3.1
    #[value(name = "hsqldb-2.3")]
    HsqldbOld,
    /// PostgreSQL over a Unix socket
    Postgres,
    /// `halcyon serve` by JDBC over TCP
    HalcyonJdbc,
    /// PostgreSQL by JDBC over TCP
    PostgresJdbc,
}

impl Subject {
    /// The engine behind JDBC, if it is one.
    fn java(self) -> Option<java::Peer> {
        match self {
            Subject::H2 => Some(java::H2),
            Subject::H2Old => Some(java::H2_OLD),
            Subject::Hsqldb => Some(java::HSQLDB),
            Subject::HsqldbOld => Some(java::HSQLDB_OLD),
            Subject::HalcyonJdbc => Some(java::served(Served::Halcyon)),
            Subject::PostgresJdbc => Some(java::served(Served::Postgres)),
            _ => None,
        }
    }

    /// The reason why the engine cannot take part here, with the command that helps; `None` if it
    /// can.
    fn missing(self) -> Option<String> {
        let is_postgres = matches!(self, Subject::Postgres | Subject::PostgresJdbc);
        let postgres = is_postgres.then(crate::postgres::missing).flatten();
        let jar = |peer: java::Peer| peer.jar().err().map(|failure| failure.to_string());
        postgres.or_else(|| self.java().and_then(|peer| java::missing().or_else(|| jar(peer))))
    }

    /// Whether `--isolation` makes a difference to the engine.
    fn has_levels(self) -> bool {
        matches!(self, Subject::Halcyon | Subject::Postgres) || self.java().is_some()
    }
}

/// Isolation of transactions, where an engine has a choice.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Locks are held to the end
    Serializable,
    /// Read locks end with their statement
    ReadCommitted,
}

/// On or off.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// Without
    Off,
    /// With
    On,
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

/// A transaction that waits for a lock longer than this is ended and counted.
pub(crate) const LOCK_WAIT_MAX: Duration = Duration::from_millis(100);

/// The reason why a transaction was undone although it is correct.
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

/// The reason why a transaction did not end as it should.
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

/// Result of a step of a transaction.
pub(crate) type Done<T> = std::result::Result<T, Trouble>;

/// One combination of the options.
struct Case {
    subject: Subject,
    mix: Mix,
    clients: u32,
    isolation: Level,
    variant: Variant,
}

/// Variants of an arm that only Halcyon has.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Variant {
    partitions: u32,
    form: Form,
    latches: Switch,
    views: Switch,
}

/// Runs the experiment.
///
/// Errors: files that cannot be written. An engine's error fails only its arm.
pub fn run(options: &Options, reporter: &mut Reporter) -> Result<()> {
    let mut engines = Vec::new();
    for &subject in &options.engine {
        match subject.missing() {
            Some(why) => {
                reporter.progress(format_args!("{} is skipped: {why}", value_name(subject)));
            }
            None => engines.push(subject),
        }
    }
    let mut record = options.record.as_deref().map(record::Record::open).transpose()?;
    let mut exchange = None;
    for case in cases(options, &engines) {
        reporter.progress(case.title(options));
        let arm = case.arm(options, &mut exchange);
        if let Some(record) = &mut record {
            record.arm(&arm)?;
        }
        reporter.arm(arm);
    }
    Ok(())
}

/// All combinations of options that make a difference to their engine.
fn cases(options: &Options, engines: &[Subject]) -> Vec<Case> {
    let variants = variants(options);
    let mut cases = Vec::new();
    for &mix in &options.mix {
        for &clients in &options.clients {
            for &subject in engines {
                for &isolation in &options.isolation {
                    for &variant in &variants {
                        let differs = (subject == Subject::Halcyon || variant == variants[0])
                            && (subject.has_levels() || isolation == options.isolation[0]);
                        if differs {
                            cases.push(Case { subject, mix, clients, isolation, variant });
                        }
                    }
                }
            }
        }
    }
    cases
}

fn variants(options: &Options) -> Vec<Variant> {
    let mut variants = Vec::new();
    for &partitions in &options.partitions {
        for &form in &options.form {
            for &latches in &options.latches {
                for &views in &options.views {
                    variants.push(Variant { partitions, form, latches, views });
                }
            }
        }
    }
    variants
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

    fn arm(&self, options: &Options, exchange: &mut Option<Exchange>) -> Arm {
        let mut params = json!({
            "mix": self.mix.name(), "clients": self.clients, "warehouses": options.warehouses,
            "seconds": options.seconds, "rounds": options.rounds, "seed": options.seed,
            "ideal": options.ideal, "tiny": options.tiny, "parse_each": options.parse_each,
        });
        if self.subject.has_levels() {
            params["isolation"] = value_name(self.isolation).into();
        }
        if self.subject == Subject::Halcyon {
            params["partitions"] = self.variant.partitions.into();
            params["reads"] = value_name(options.reads).into();
            params["form"] = value_name(self.variant.form).into();
            params["latches"] = value_name(self.variant.latches).into();
            params["views"] = value_name(self.variant.views).into();
            params["durability"] = value_name(options.durability).into();
        }
        let mut arm = Arm::new("tpcc", &self.name(), params);
        let measured = match self.subject.java() {
            Some(peer) => self.measure_java(peer, options, exchange),
            None => self.measure(options, exchange),
        };
        match measured {
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

    fn measure_java(
        &self,
        peer: java::Peer,
        options: &Options,
        exchange: &mut Option<Exchange>,
    ) -> Result<(Measured, Option<String>)> {
        let exchange = Exchange::of(exchange)?;
        if peer.served.is_some() && options.ideal {
            return Err(Failure::Engine("a server has one database: --ideal is for others".into()));
        }
        let job = Job {
            binary: options.binary.as_deref(),
            parse_each: options.parse_each,
            content: options.content(),
            mix: self.mix,
            clients: self.clients,
            seconds: options.seconds,
            rounds: options.rounds,
            warm_seconds: options.warm_seconds,
            serializable: self.isolation == Level::Serializable,
            ideal: options.ideal,
        };
        peer.measure(&job, exchange)
    }

    /// Runs the clients; returns what they did, and which conditions are broken afterwards.
    fn measure(
        &self,
        options: &Options,
        exchange: &mut Option<Exchange>,
    ) -> Result<(Measured, Option<String>)> {
        let content = options.content();
        let scale = content.scale;
        let count = if options.ideal { self.clients } else { 1 };
        let engines = (0..count)
            .map(|_| self.load(content, options, exchange))
            .collect::<Result<Vec<Box<dyn Engine>>>>()?;
        let mut clients = Vec::new();
        for number in 0..self.clients {
            let random = Random::new(scale, options.seed, u64::from(number));
            let engine = &engines[(number % count) as usize];
            clients.push((engine.client()?, Inputs::new(random, self.mix, number)));
        }
        let mut measured = Measured::default();
        let time = measure::seconds(options.seconds / f64::from(options.rounds));
        // A tenth of a round before the first one is not counted: it warms caches and touches
        // pages.
        let mut warming = Measured::default();
        run::round(&mut clients, time / 10, &mut warming);
        measured.failure = warming.failure;
        for _ in 0..options.rounds {
            run::round(&mut clients, time, &mut measured);
        }
        let seen = if self.variant.views == Switch::On {
            watched(&mut clients, time / 2, &*engines[0], &mut measured)?
        } else {
            None
        };
        drop(clients);
        if seen.is_some() {
            return Ok((measured, seen));
        }
        let broken = engines.iter().map(|engine| engine.broken()).collect::<Result<Vec<_>>>()?;
        Ok((measured, broken.into_iter().flatten().next()))
    }

    fn load(
        &self,
        content: Content,
        options: &Options,
        exchange: &mut Option<Exchange>,
    ) -> Result<Box<dyn Engine>> {
        let isolation = match self.isolation {
            Level::Serializable => Isolation::Serializable,
            Level::ReadCommitted => Isolation::ReadCommitted,
        };
        let setup = Setup {
            partitions: self.variant.partitions,
            isolation,
            snapshot_reads: options.reads == Reads::Snapshot,
            one_shot: self.variant.form == Form::OneShot,
            latches: self.variant.latches == Switch::On,
            views: self.variant.views == Switch::On,
            durability: options.durability,
        };
        Ok(match self.subject {
            Subject::Halcyon => Box::new(engines::halcyon::Halcyon::loaded(content, setup)?),
            Subject::Bare => Box::new(engines::bare::Bare::loaded(content)?),
            Subject::Sqlite => Box::new(engines::sqlite::Sqlite::loaded(content)?),
            Subject::Postgres => {
                let exchange = Exchange::of(exchange)?;
                exchange.fill(content)?;
                let serializable = self.isolation == Level::Serializable;
                Box::new(postgres::Postgres::loaded(content, exchange.folder(), serializable)?)
            }
            _ => unreachable!("{:?} runs in a process of its own", self.subject),
        })
    }
}

/// Runs a round that is not counted, while another session checks `engine` in snapshots again and
/// again; returns the conditions found broken.
fn watched(
    clients: &mut [(Box<dyn engines::Client>, Inputs)],
    time: Duration,
    engine: &dyn Engine,
    measured: &mut Measured,
) -> Result<Option<String>> {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            loop {
                let last = ended.load(Ordering::Acquire);
                let broken = engine.broken_meanwhile()?;
                if broken.is_some() || last {
                    return Ok(broken);
                }
            }
        });
        let mut uncounted = Measured::default();
        run::round(clients, time, &mut uncounted);
        measured.failure = measured.failure.take().or(uncounted.failure);
        ended.store(true, Ordering::Release);
        watcher.join().expect("the watcher does not panic")
    })
}

/// The name of a value on the command line.
fn value_name(value: impl ValueEnum) -> String {
    let value = value.to_possible_value().expect("no value is hidden");
    value.get_name().to_owned()
}

/// The statements that make the tables, for `lab plan`.
pub(crate) fn tables_for_planning() -> Vec<String> {
    schema::statements(schema::Dialect::Java)
}

/// Names and texts of the transactions' statements, for `lab plan`: of those that differ in a column's
/// name alone, the first.
pub(crate) fn statements_for_planning() -> Vec<(String, String)> {
    let all = sql::Sql::all().filter(|sql| !matches!(sql, sql::Sql::Stock(2..)));
    all.map(|sql| (sql.name(), sql.text())).collect()
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
            latches: vec![Switch::Off],
            views: vec![Switch::Off],
            ideal: false,
            reads: Reads::Locked,
            form: vec![Form::Interactive],
            durability: Durability::Off,
            seconds: 0.2,
            rounds: 2,
            warm_seconds: 0.1,
            parse_each: false,
            binary: None,
            seed: 7,
            record: None,
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
            engine: vec![Subject::Halcyon, Subject::Bare, Subject::Sqlite],
            mix: Mix::value_variants().to_vec(),
            clients: vec![2],
            ..options()
        });
        assert_eq!(arms.len(), 4 * 3);
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
    fn snapshots_latches_and_databases_of_ones_own_keep_them_too() {
        checked(&Options { clients: vec![3], reads: Reads::Snapshot, ..options() });
        checked(&Options { clients: vec![2], ideal: true, ..options() });
        checked(&Options { clients: vec![4], latches: vec![Switch::On], ..options() });
    }

    #[test]
    fn views_are_what_their_queries_say_in_every_snapshot() {
        let arms = checked(&Options {
            clients: vec![2],
            partitions: vec![1, 2],
            views: vec![Switch::On],
            ..options()
        });
        assert!(arms.iter().all(|arm| arm.params["views"] == "on"));
    }

    #[test]
    fn a_log_changes_nothing_but_time() {
        for durability in [Durability::Async, Durability::Sync] {
            checked(&Options { clients: vec![2], durability, ..options() });
        }
    }
}
