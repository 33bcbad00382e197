//! Random statements of many kinds from many sessions: none may wait for ever.
//!
//! What a statement can wait for (locks of tables, advisory locks, cuts through what others have changed, time, data of
//! a COPY) is mixed at random, within blocks of every isolation level and outside. Deadlocks among locks are found
//! and refused; any other circle shows as a statement that its timeout ends, long after everything else has ended.
//! Two seconds by default, `HALCYON_FUZZ_SECONDS` sets how long.

use halcyon::{Database, Result, Session, SqlState};
use halcyon_base::rng::Rng;
use std::thread;
use std::time::{Duration, Instant};

const SESSIONS: u64 = 6;
const TABLES: u64 = 3;
const ROWS: u64 = 200;
/// Longer than any wait for a transaction, each of which lasts milliseconds.
const STATEMENT_TIMEOUT: &str = "SET statement_timeout = '60s'";

fn duration() -> Duration {
    let set = std::env::var("HALCYON_FUZZ_SECONDS").ok();
    Duration::from_secs(set.map_or(2, |text| text.parse().expect("a number of seconds")))
}

/// What a transaction may fail with among others: another one was in the way.
const EXPECTED: [SqlState; 4] = [
    SqlState::DEADLOCK_DETECTED,
    SqlState::SERIALIZATION_FAILURE,
    SqlState::LOCK_NOT_AVAILABLE,
    SqlState::UNIQUE_VIOLATION,
];

/// Statements; `{t}` and `{u}` stand for tables, `{k}` for a key, `{l}` for one of three advisory locks.
const STATEMENTS: &[&str] = &[
    "UPDATE {t} SET v = v + 1 WHERE id = {k}",
    "UPDATE {t} SET v = v + 1 WHERE id = {k}",
    "UPDATE {t} SET v = v + 1 WHERE id BETWEEN {k} AND {k} + 20",
    "UPDATE {t} SET v = {u}.v FROM {u} WHERE {u}.id = {t}.id AND {t}.v < 3",
    "INSERT INTO {t} SELECT id, v FROM {u} WHERE id < {k} ON CONFLICT (id) DO UPDATE SET v = excluded.v",
    "INSERT INTO log SELECT sum(v) FROM {t}",
    "DELETE FROM log",
    "WITH w AS (UPDATE {t} SET v = 0 WHERE id = {k} RETURNING v) SELECT * FROM w, {u} WHERE {u}.id = {k}",
    "SELECT v FROM {t} WHERE id = {k}",
    "SELECT v FROM {t} WHERE id = {k}",
    "SELECT v FROM {t} WHERE id = {k} FOR UPDATE",
    "SELECT sum(v) FROM {t}",
    "SELECT sum(v) FROM {t}",
    "SELECT count(*) FROM {t} JOIN {u} USING (id)",
    "SELECT sum(v) FROM {t} WHERE id BETWEEN {k} AND {k} + 20",
    "SELECT sum({t}.v) FROM {t} JOIN {u} USING (id) WHERE {t}.id IN ({k}, {k} + 1, {k} + 2)",
    "SELECT v, pg_sleep(0.001) FROM {t} WHERE id = {k}",
    "SELECT count(pg_sleep(0.0001)) FROM {t} WHERE id < 5",
    "UPDATE {t} SET v = 1 WHERE id = {k} AND pg_sleep(0.001) IS NOT NULL",
    "EXPLAIN ANALYZE SELECT count(*) FROM {t}",
    "SELECT s FROM total",
    "SELECT pg_advisory_xact_lock({l})",
    "SELECT v, pg_advisory_xact_lock({l}) FROM {t} WHERE id = {k}",
    "SELECT pg_advisory_lock({l})",
    "SELECT pg_advisory_unlock_all()",
    "SELECT pg_advisory_unlock_all()",
    "SELECT pg_total_relation_size('{t}')",
    "SELECT count(*) FROM pg_locks",
    "CREATE INDEX IF NOT EXISTS extra ON {t} (v)",
    "DROP INDEX IF EXISTS extra",
    "COMMENT ON TABLE {t} IS '{k}'",
    "CREATE TEMPORARY TABLE IF NOT EXISTS own AS SELECT * FROM {t}",
    "DROP TABLE IF EXISTS own",
];

fn text(rng: &mut Rng) -> String {
    let table = rng.below(TABLES);
    let other = (table + 1 + rng.below(TABLES - 1)) % TABLES;
    STATEMENTS[rng.below(STATEMENTS.len() as u64) as usize]
        .replace("{t}", &format!("t{table}"))
        .replace("{u}", &format!("t{other}"))
        .replace("{k}", &(1 + rng.below(ROWS)).to_string())
        .replace("{l}", &rng.below(3).to_string())
}

fn run(session: &mut Session, text: &str) -> Result<()> {
    if text.starts_with("SELECT") || text.starts_with("WITH") || text.starts_with("EXPLAIN") {
        return session.query(text, &[])?.collect().map(drop);
    }
    session.batch(text).map(drop)
}

/// A COPY whose client takes its time.
fn copy(session: &mut Session, rng: &mut Rng) -> Result<()> {
    let statement = session.prepare("COPY log FROM STDIN")?;
    session.run(&statement, &[])?;
    for _ in 0..rng.below(3) {
        thread::sleep(Duration::from_millis(1));
        session.copy_data(b"7\n")?;
    }
    session.copy_end().map(drop)
}

/// Runs statements until the time is over; how many have ended well.
fn client(database: &Database, seed: u64, until: Instant) -> u64 {
    let (mut session, mut rng) = (database.session(), Rng::new(seed));
    session.batch(STATEMENT_TIMEOUT).expect("set");
    if seed.is_multiple_of(4) {
        // Its look-ups go on as scans.
        session.batch("SET halcyon.point_visits = 1").expect("set");
    }
    let mut done = 0;
    while Instant::now() < until {
        let in_block = rng.below(4) > 0;
        if in_block {
            let level =
                ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"][rng.below(3) as usize];
            session.batch(&format!("BEGIN ISOLATION LEVEL {level}")).expect("none is open");
        }
        for _ in 0..=rng.below(5) {
            let (text, ran) = match rng.below(20) {
                0 => ("COPY".to_owned(), copy(&mut session, &mut rng)),
                _ => {
                    let text = text(&mut rng);
                    let ran = run(&mut session, &text);
                    (text, ran)
                }
            };
            match ran {
                Ok(()) => done += 1,
                Err(error) if EXPECTED.contains(&error.state()) => break,
                Err(error) => panic!("seed {seed}, {text}: {error:?}"),
            }
        }
        if in_block {
            let end = if rng.below(4) > 0 { "COMMIT" } else { "ROLLBACK" };
            if let Err(error) = session.batch(end) {
                assert!(EXPECTED.contains(&error.state()), "seed {seed}, {end}: {error:?}");
            }
        }
        // Else sessions would wait for locks of one that has ended its part.
        if rng.below(3) == 0 {
            session.batch("SELECT pg_advisory_unlock_all()").expect("nothing is in the way");
        }
    }
    done
}

#[test]
fn no_mix_of_waits_lasts_for_ever() {
    let database = Database::in_memory();
    let mut session = database.session();
    for table in 0..TABLES {
        let create = format!("CREATE TABLE t{table} (id INTEGER PRIMARY KEY, v INTEGER)");
        let fill =
            format!("INSERT INTO t{table} SELECT i, 0 FROM generate_series(1, {ROWS}) g (i)");
        session.batch(&format!("{create}; {fill}")).expect("made");
    }
    session
        .batch(
            "CREATE TABLE log (v BIGINT); \
             CREATE MATERIALIZED VIEW total AS SELECT sum(v) AS s FROM t0",
        )
        .expect("made");
    let seed = u64::from(std::process::id());
    let until = Instant::now() + duration();
    let done: u64 = thread::scope(|scope| {
        let clients: Vec<_> = (0..SESSIONS)
            .map(|number| {
                let database = &database;
                scope.spawn(move || client(database, seed + number, until))
            })
            .collect();
        clients.into_iter().map(|client| client.join().expect("no statement hangs")).sum()
    });
    assert!(done > 20 * SESSIONS, "only {done} statements ended well");
}
