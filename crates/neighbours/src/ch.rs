//! Analytics while transactions write: CH-benCHmark's tables and 22 queries beside TPC-C in one database.
//!
//! Words: the *analyst* is one session that asks the 22 queries in turn; the *terminals* are TPC-C's clients, which the
//! lab hands in ([`Transactions`]). Arms of a round, one after the other: the analyst alone, the terminals alone, both
//! together, the analyst alone once more, which is the A/A difference. An arm of queries ends with a whole turn of
//! them; the terminals beside them end with it. Ratios are made within a round, because the tables grow with every
//! order: *together* of the mean of both arms alone for queries, of the arm alone for transactions.
//!
//! Costs: snapshots taken, those that met a transaction in the middle of its changes and asked it for the state before,
//! the longest wait for that, and what writers copied because a snapshot held it (`halcyon::copies`).
//!
//! Checked: each of the 22 answers beside DataFusion's over the same rows (four texts have their tables in another order
//! there, see `rest`), after loading and after the run, with nobody
//! writing; TPC-C's consistency conditions after the run; and after each query one of `queries::PINS`, which is true
//! in every state between transactions.
//! Source: Cole et al., *The mixed workload CH-benCHmark*, DBTest 2011. We differ: no think times; a session of its own
//! begins every turn with query 1; dates as `queries::QUERIES` says.

mod analyst;
mod figures;
mod queries;
mod rest;
mod tables;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use halcyon::Database;
use halcyon_gauge::Reporter;
use serde_json::{Value, json};

use self::analyst::{Analyst, Turns};
use self::figures::{Costs, Found};
use crate::foreign::Busy;
use crate::{Failure, Result};

/// Options of `halcyon lab ch`.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// Warehouses
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub warehouses: u32,
    /// Terminals of TPC-C, each with a session and a thread of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub clients: u32,
    /// Partitions of TPC-C's tables, by warehouse
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub partitions: u32,
    /// Workers that a query may use; 0 means all
    #[arg(long, default_value_t = 0)]
    pub threads: usize,
    /// Seconds of each arm in a round; queries go on to the end of their turn
    #[arg(long, default_value_t = 5.0, value_parser = crate::positive)]
    pub seconds: f64,
    /// Rounds
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Seed of tables and inputs
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// TPC-C's tables of a hundredth of the size, for a quick look
    #[arg(long)]
    pub tiny: bool,
}

impl Options {
    fn params(&self, arm: &str) -> Value {
        json!({
            "arm": arm, "warehouses": self.warehouses, "clients": self.clients,
            "partitions": self.partitions, "threads": self.threads, "seconds": self.seconds,
            "rounds": self.rounds, "seed": self.seed, "tiny": self.tiny,
        })
    }
}

/// The transactions beside which queries run.
pub trait Transactions: Send {
    /// The database with TPC-C's nine tables, loaded.
    fn database(&self) -> &Database;

    /// Runs all terminals until `ended` is set, at least one transaction each.
    ///
    /// Errors: an answer was wrong, or the engine refused a statement.
    fn run(&mut self, ended: &AtomicBool) -> Result<Transacted>;

    /// The consistency conditions that are broken, in words; `None` if all hold. No terminal is at work.
    fn broken(&self) -> Result<Option<String>>;
}

/// What terminals did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transacted {
    /// Transactions per second.
    pub per_s: f64,
    /// Transactions.
    pub done: u64,
    /// Transactions that fell victim to others and were run again.
    pub aborts: u64,
}

/// Times that each query runs at rest after the rounds, at most.
const REPEAT_AT_REST: u32 = 3;

/// Runs the experiment over TPC-C's tables, and adds the three others to them.
pub fn run(
    options: &Options,
    transactions: &mut dyn Transactions,
    reporter: &mut Reporter,
) -> Result<()> {
    let database = transactions.database().clone();
    tables::load(&database, options.seed)?;
    reporter.progress("22 queries beside DataFusion's, after loading");
    let mut resting = rest::session(&database, options.threads)?;
    let loaded = rest::compared(&mut resting, options.threads, 1)?;
    for (number, rest) in (1..).zip(&loaded) {
        if let Some(failure) = &rest.failure {
            reporter.progress(format_args!("query {number}: {failure}"));
        }
    }
    let mut analyst = Analyst::new(&database, options.threads)?;
    let mut found = Found::new(loaded);
    // Plans are made and memory is touched before the first round counts; queries have run already.
    beside(transactions, || pause(options.seconds / 2.0))?;
    let before = Busy::now();
    for round in 1..=options.rounds {
        reporter.progress(format_args!("round {round} of {}", options.rounds));
        found.add(round_of(options, &database, transactions, &mut analyst)?);
    }
    found.foreign = match (before, Busy::now()) {
        (Some(before), Some(after)) => after.foreign_since(before),
        // Nobody knows: as bad as it can be.
        _ => 1.0,
    };
    found.longest_cut = database.snapshots().waited_max;
    found.broken = transactions.broken()?;
    reporter.progress("22 queries beside DataFusion's, after the run");
    let repeat = REPEAT_AT_REST.min(options.rounds);
    found.ended = rest::compared(&mut resting, options.threads, repeat)?;
    found.report(options, reporter);
    Ok(())
}

/// The arms of one round.
struct Round {
    alone: Turns,
    again: Turns,
    beside: Turns,
    transactions: Transacted,
    transactions_beside: Transacted,
    /// What transactions without queries copied and waited for.
    costs: Costs,
    costs_beside: Costs,
}

fn round_of(
    options: &Options,
    database: &Database,
    transactions: &mut dyn Transactions,
    analyst: &mut Analyst,
) -> Result<Round> {
    let seconds = options.seconds;
    let alone = analyst.turns(seconds)?;
    let since = Costs::now(database);
    let ((), transacted) = beside(transactions, || pause(seconds))?;
    let costs = Costs::now(database).since(since, transacted.done);
    let since = Costs::now(database);
    let (turns, transacted_beside) = beside(transactions, || analyst.turns(seconds))?;
    Ok(Round {
        alone,
        beside: turns,
        transactions: transacted,
        transactions_beside: transacted_beside,
        costs,
        costs_beside: Costs::now(database).since(since, transacted_beside.done),
        again: analyst.turns(seconds)?,
    })
}

/// What is done beside terminals that are alone.
fn pause(seconds: f64) -> Result<()> {
    std::thread::sleep(Duration::from_secs_f64(seconds));
    Ok(())
}

/// Sets the flag when dropped, so that terminals end although queries panic.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does some work while the terminals run; they end with it.
fn beside<R>(
    transactions: &mut dyn Transactions,
    work: impl FnOnce() -> Result<R>,
) -> Result<(R, Transacted)> {
    let ended = AtomicBool::new(false);
    let (done, transacted) = std::thread::scope(|scope| {
        let terminals = scope.spawn(|| transactions.run(&ended));
        let done = {
            let _ends = Ends(&ended);
            work()
        };
        (done, terminals.join())
    });
    let transacted = transacted.map_err(|_| Failure::Engine("a terminal panicked".into()))?;
    Ok((done?, transacted?))
}
