//! A database with materialized views on a disk that crashes: each view is what its query says,
//! after every recovery, and what was acknowledged is there.
//!
//! One session moves money between accounts and writes each transfer down, now and then writes a
//! checkpoint, and drops and makes a view, until the disk is gone; then the database is opened on
//! what is left. The disk is that of `txn`'s tests.

use halcyon::{Database, DatabaseOptions, Session, testing};
use halcyon_base::rng::Rng;

use crate::disk::{Fault, SimDisk};
use crate::world::{one, run};

const ACCOUNTS: u64 = 12;
const START: i64 = 100;
/// So short that a life fills several files of the log.
const LOG_FILE_BYTES: u64 = 4096;

/// Views by name, and their queries.
const VIEWS: [(&str, &str); 5] = [
    ("total", "SELECT sum(balance) AS a, count(*) AS b FROM account"),
    ("by_branch", "SELECT branch AS a, sum(balance) AS b FROM account GROUP BY branch"),
    ("rich", "SELECT id AS a, balance AS b FROM account WHERE balance > 100"),
    (
        "paid",
        "SELECT branch AS a, sum(amount) AS b FROM transfer JOIN account ON source = id
         GROUP BY branch",
    ),
    ("branches", "SELECT count(*) AS a, sum(b) AS b FROM by_branch"),
];

fn create(view: usize) -> String {
    let (name, query) = VIEWS[view];
    format!("CREATE MATERIALIZED VIEW {name} AS {query}")
}

fn open(disk: &SimDisk) -> halcyon::Result<Database> {
    let options = DatabaseOptions::default();
    let options = options.with("wal_writer_delay", "1ms")?.with("checkpoint_timeout", "1h")?;
    testing::open_on(std::sync::Arc::new(disk.clone()), LOG_FILE_BYTES, options)
}

/// What was acknowledged: transfers and whether the last view is there; none while a statement that
/// makes or drops it is under way.
#[derive(Clone, Copy, Default)]
struct Told {
    transfers: i64,
    branches: Option<bool>,
}

/// Works until the disk refuses something.
fn work(session: &mut Session, rng: &mut Rng, told: &mut Told) -> halcyon::Result<()> {
    loop {
        let (from, to) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS));
        let number = told.transfers + 1;
        let amount = rng.below(40);
        for text in [
            "BEGIN",
            &format!("UPDATE account SET balance = balance - {amount} WHERE id = {from}"),
            &format!("UPDATE account SET balance = balance + {amount} WHERE id = {to}"),
            &format!("INSERT INTO transfer VALUES ({number}, {from}, {to}, {amount})"),
            "COMMIT",
        ] {
            session.execute(text, &[])?;
        }
        told.transfers = number;
        if rng.chance(1, 10) {
            session.execute("CHECKPOINT", &[])?;
        }
        if rng.chance(1, 10) {
            let is_there = told.branches.take().expect("known while nothing is under way");
            let text = if is_there { "DROP MATERIALIZED VIEW branches" } else { &create(4) };
            session.execute(text, &[])?;
            told.branches = Some(!is_there);
        }
    }
}

fn lines(session: &mut Session, from: &str) -> String {
    one(
        session,
        &format!("SELECT string_agg(a::text || '=' || b::text, ' ' ORDER BY a) FROM {from}"),
    )
}

/// Panics unless all that was told is there, and the views are their queries.
fn verify(database: &Database, told: &mut Told) {
    let mut session = database.session();
    let number = |session: &mut Session, query: &str| -> i64 {
        one(session, query).parse().unwrap_or_else(|_| panic!("{query} gives no number"))
    };
    let count = number(&mut session, "SELECT count(*) FROM transfer");
    let last = number(&mut session, "SELECT coalesce(max(number), 0) FROM transfer");
    assert_eq!(count, last, "there is a gap");
    assert!((told.transfers..=told.transfers + 1).contains(&last), "{last}, {}", told.transfers);
    let wrong = format!(
        "SELECT count(*) FROM account a WHERE balance <> {START}
         + (SELECT coalesce(sum(amount), 0) FROM transfer t WHERE t.target = a.id)
         - (SELECT coalesce(sum(amount), 0) FROM transfer t WHERE t.source = a.id)"
    );
    assert_eq!(number(&mut session, &wrong), 0);
    let is_there = testing::catalog(database).tables.values().any(|table| table.name == "branches");
    assert!(told.branches.is_none_or(|told| told == is_there), "a view is lost, or back");
    for (name, query) in VIEWS.iter().take(if is_there { 5 } else { 4 }) {
        let expected = lines(&mut session, &format!("({query}) v"));
        assert_eq!(lines(&mut session, name), expected, "view {name}");
    }
    *told = Told { transfers: last, branches: Some(is_there) };
}

fn rounds(default: u64) -> u64 {
    let set = std::env::var("HALCYON_CRASH_ROUNDS").ok().and_then(|text| text.parse().ok());
    set.unwrap_or(default)
}

#[test]
fn views_are_what_they_are_of_after_every_crash() {
    let mut transfers = 0;
    for seed in 0..rounds(3) {
        let mut rng = Rng::new(seed);
        let mut disk = SimDisk::new(Fault::None, true);
        let database = open(&disk).expect("the disk is sound");
        let mut session = database.session();
        let last = ACCOUNTS - 1;
        let fill = format!(
            "INSERT INTO account SELECT n, n % 3, {START} FROM generate_series(0, {last}) n"
        );
        run(
            &mut session,
            &[
                "CREATE TABLE account (id INT PRIMARY KEY, branch INT, balance BIGINT)
                 WITH (partition_by = 'id', partitions = 2)",
                "CREATE TABLE transfer (number BIGINT PRIMARY KEY, source INT, target INT, amount BIGINT)",
                &create(0),
                &fill,
            ],
        );
        (1..5).for_each(|view| run(&mut session, &[&create(view)]));
        let mut told = Told { transfers: 0, branches: Some(true) };
        drop((session, database));
        for crash in 0..3 {
            println!("seed {seed}, crash {crash}");
            let database = open(&disk).expect("a crash is no damage");
            verify(&database, &mut told);
            disk.set_fault(Fault::Crash(disk.calls() + 1 + rng.below(120)));
            let mut session = database.session();
            work(&mut session, &mut rng, &mut told).expect_err("the disk is gone");
            drop((session, database));
            disk = disk.after_crash(&mut rng);
        }
        verify(&open(&disk).expect("a crash is no damage"), &mut told);
        transfers += told.transfers;
    }
    assert!(transfers > 10, "hardly anything was done: {transfers}");
}
