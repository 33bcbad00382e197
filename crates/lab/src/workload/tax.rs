//! The price of workload classes for statements whose work is tiny: lookups and TPC-B over the wire, lookups
//! embedded, with classes and mappings defined, without any, and without once more.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use halcyon::{Database, RowSet, Session, Statement, ValueRef, params};
use halcyon_base::rng::Rng;
use serde_json::json;

use super::{Engine, Options, classes};
use crate::Reporter;
use crate::measure::{self, Rounds};
use crate::programs::Program;
use crate::wire::{Client, Work, load};
use crate::{Failure, Result};

/// Accounts of the bank, and rows of the embedded table.
const ROWS: u32 = 100_000;
/// Arms in the order in which they take turns.
const ARMS: [&str; 3] = ["none", "classes", "again"];

/// Runs per second of each arm in each round.
type Rates = Vec<[f64; ARMS.len()]>;

/// Runs every kind of work for every number of clients.
pub fn run(options: &Options, reporter: &mut Reporter) -> Result<()> {
    let servers = ARMS.map(|arm| server(arm, options));
    let servers = servers.into_iter().collect::<Result<Vec<_>>>()?;
    for &clients in &options.clients {
        for (name, work) in [("prepared", Work::Prepared), ("tpcb_prepared", Work::TpcbPrepared)] {
            reporter.progress(format_args!("tax: {name}, {clients} clients"));
            let connect =
                |program| (0..clients).map(|number| Client::new(program, number)).collect();
            let hands = servers.iter().map(connect).collect::<Result<Vec<Vec<_>>>>()?;
            let rates = rounds(hands, options, |client, rng| client.run(work, ROWS, rng));
            report(name, clients, rates, options, reporter);
        }
    }
    drop(servers);
    let databases = ARMS.map(database).into_iter().collect::<Result<Vec<_>>>()?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    let mut threads: Vec<u32> =
        options.clients.iter().map(|count| *count.min(&processors)).collect();
    threads.dedup();
    for threads in threads {
        reporter.progress(format_args!("tax: embedded, {threads} threads"));
        let open = |database: &Database| (0..threads).map(|_| Hand::new(database)).collect();
        let hands = databases.iter().map(open).collect::<Result<Vec<Vec<_>>>>()?;
        let rates = rounds(hands, options, Hand::select);
        report("embedded", threads, rates, options, reporter);
    }
    Ok(())
}

/// A server of an arm with a bank.
fn server(arm: &str, options: &Options) -> Result<Program> {
    let program = Program::halcyon(options.binary.as_deref())?;
    load(&program, ROWS)?;
    if arm == "classes" {
        classes::define(&program, &classes::tax())?;
    }
    Ok(program)
}

/// A database of an arm with a table.
fn database(arm: &str) -> Result<Database> {
    let database = Database::in_memory();
    let mut session = database.session();
    session.batch("CREATE TABLE item (id INTEGER PRIMARY KEY, name VARCHAR(16) NOT NULL)")?;
    session.batch(&format!(
        "INSERT INTO item SELECT n, 'item ' || n FROM generate_series(1, {ROWS}) AS g (n)"
    ))?;
    if arm == "classes" {
        classes::tax().iter().try_for_each(|text| session.batch(text))?;
    }
    Ok(database)
}

/// A session with its statement.
struct Hand {
    session: Session,
    statement: Statement,
    row: RowSet,
}

impl Hand {
    fn new(database: &Database) -> Result<Self> {
        let mut session = database.session();
        session.batch("SET application_name = 'lab'")?;
        let statement = session.prepare("SELECT name FROM item WHERE id = $1")?;
        Ok(Hand { session, statement, row: RowSet::default() })
    }

    /// Looks a row up, checked.
    fn select(&mut self, rng: &mut Rng) -> Result<()> {
        let id = 1 + rng.below(u64::from(ROWS)) as i32;
        self.session.query_into(&self.statement, params![id], &mut self.row)?;
        let found = match self.row.len() {
            1 => self.row.value(0, 0),
            _ => ValueRef::Null,
        };
        match found {
            ValueRef::Text(name) if name.strip_prefix("item ") == Some(&id.to_string()) => Ok(()),
            other => Err(Failure::WrongAnswer(format!("item {id} is {other:?}"))),
        }
    }
}

/// Runs per second of all clients of each arm, in rounds in which the arms take turns. The first round, in which
/// plans are made, does not count.
fn rounds<C: Send>(
    mut arms: Vec<Vec<C>>,
    options: &Options,
    run: impl Fn(&mut C, &mut Rng) -> Result<()> + Sync,
) -> Result<Rates> {
    let time = measure::seconds(options.seconds / f64::from(options.rounds));
    let mut rates = Rates::new();
    for round in 0..=options.rounds {
        let mut of_round = [0.0; ARMS.len()];
        for place in 0..ARMS.len() {
            let turn = (place + round as usize) % ARMS.len();
            let seed = options.seed ^ u64::from(round) << 32;
            of_round[turn] = together(&mut arms[turn], seed, time, &run)?;
        }
        if round > 0 {
            rates.push(of_round);
        }
    }
    Ok(rates)
}

/// Runs per second of clients that work at once for `time`.
fn together<C: Send>(
    clients: &mut [C],
    seed: u64,
    time: Duration,
    run: &(impl Fn(&mut C, &mut Rng) -> Result<()> + Sync),
) -> Result<f64> {
    let barrier = Barrier::new(clients.len());
    std::thread::scope(|scope| {
        let barrier = &barrier;
        let threads = (0_u64..).zip(clients).map(|(number, client)| {
            scope.spawn(move || {
                let mut rng = Rng::new(seed ^ number << 8);
                barrier.wait();
                let (start, mut runs) = (Instant::now(), 0_u64);
                while start.elapsed() < time {
                    run(client, &mut rng)?;
                    runs += 1;
                }
                Ok(runs as f64 / start.elapsed().as_secs_f64())
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().expect("clients do not panic")).sum()
    })
}

fn collected(values: impl Iterator<Item = f64>) -> Rounds {
    let mut rounds = Rounds::default();
    values.for_each(|value| rounds.push(value));
    rounds
}

/// Prints the rates of all arms, and the median of the factors by which they differ within a round.
fn report(
    name: &str,
    clients: u32,
    rates: Result<Rates>,
    options: &Options,
    reporter: &mut Reporter,
) {
    let (classes, mappings) = classes::TAX;
    let more = json!({
        "clients": clients, "rounds": options.rounds, "classes": classes, "mappings": mappings,
    });
    let mut arm = options.arm(Engine::Halcyon, "tax", name, &[more]);
    match rates {
        Ok(rates) => {
            for (at, name) in ARMS.iter().enumerate() {
                let rate = collected(rates.iter().map(|round| round[at]));
                arm.figure(&format!("{name}_per_s"), rate.median().round());
                arm.rounded(&format!("{name}_spread"), rate.spread());
            }
            // Two arms have no classes: what these differ by is chance.
            let taxed = rates.iter().map(|[none, classes, again]| 2.0 * classes / (none + again));
            let untaxed = rates.iter().map(|[none, _, again]| again / none);
            for (name, ratio) in
                [("classes_of_none", collected(taxed)), ("again_of_none", collected(untaxed))]
            {
                arm.rounded(name, ratio.median());
                arm.rounded(&format!("{name}_spread"), ratio.spread());
            }
        }
        Err(failure) => arm.check = failure.to_string(),
    }
    reporter.arm(arm);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_embedded_lookup_is_checked() {
        let database = database("none").expect("a table");
        let mut hand = Hand::new(&database).expect("a session");
        hand.select(&mut Rng::new(1)).expect("the row is right");
        database.session().batch("UPDATE item SET name = 'other'").expect("it is there");
        let wrong = hand.select(&mut Rng::new(1)).expect_err("every row is wrong");
        assert!(matches!(wrong, Failure::WrongAnswer(_)), "{wrong}");
    }

    #[test]
    fn clients_work_at_once_until_the_first_failure() {
        let mut clients = [0_u64; 3];
        let time = Duration::from_millis(20);
        let count = |client: &mut u64, _: &mut Rng| {
            *client += 1;
            std::thread::sleep(Duration::from_millis(1));
            Ok(())
        };
        let rate = together(&mut clients, 1, time, &count).expect("no failure");
        assert!(rate > 0.0 && clients.iter().all(|runs| *runs > 0), "{rate} {clients:?}");
        let fails = |_: &mut u64, _: &mut Rng| Err(Failure::Engine("gone".into()));
        assert!(together(&mut clients, 1, time, &fails).is_err());
    }
}
