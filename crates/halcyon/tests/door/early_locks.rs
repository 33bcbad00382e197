//! Transactions that read and then write: after the first meeting they lock at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use halcyon::{Database, Session, SqlState, Value};

/// Two accounts, and a session.
fn accounts() -> (Database, Session) {
    let db = Database::in_memory();
    let mut session = db.session();
    session
        .batch("CREATE TABLE a (k INT PRIMARY KEY, v INT); INSERT INTO a VALUES (1, 0), (2, 0)")
        .unwrap();
    (db, session)
}

fn explained(session: &mut Session, text: &str) -> Vec<String> {
    let mut rows = session.query(format!("EXPLAIN {text}").as_str(), &[]).unwrap();
    let mut lines = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let Value::Text(line) = row.value(0).into() else { panic!("EXPLAIN gives text") };
        lines.push(line.to_string());
    }
    lines
}

fn is_early(session: &mut Session) -> bool {
    let lines = explained(session, "SELECT v FROM a WHERE k = 1");
    lines.iter().any(|line| line.starts_with("Early lock: public.a"))
}

/// BEGIN, SELECT and a second statement in two sessions at a time; how often one was a victim.
fn meet(db: &Database, second: &'static str) -> usize {
    let read = Barrier::new(2);
    // Who locks early keeps the other from reading: then they do not wait here for each other.
    let waits_for_other = !is_early(&mut db.session());
    let client = || {
        let mut session = db.session();
        session.execute("BEGIN", &[]).unwrap();
        session.execute("SELECT v FROM a WHERE k = 1", &[]).unwrap();
        if waits_for_other {
            read.wait();
        }
        match session.execute(second, &[]).and_then(|_| session.execute("COMMIT", &[])) {
            Ok(_) => 0,
            Err(error) => {
                assert_eq!(error.state(), SqlState::DEADLOCK_DETECTED, "{error}");
                session.execute("ROLLBACK", &[]).unwrap();
                1
            }
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(client);
        client() + other.join().unwrap()
    })
}

const WRITE: &str = "UPDATE a SET v = v + 1 WHERE k = 1";

#[test]
fn what_was_written_after_it_was_read_is_locked_at_once_the_next_time() {
    let (db, mut session) = accounts();
    assert!(!is_early(&mut session));
    assert_eq!(meet(&db, WRITE), 1, "both have read: one is the victim");
    assert!(is_early(&mut session), "the plan has learned");
    for _ in 0..20 {
        assert_eq!(meet(&db, WRITE), 0, "the second waits for the first");
    }
}

#[test]
fn transactions_that_only_read_make_the_plan_unlearn() {
    let (db, mut session) = accounts();
    meet(&db, WRITE);
    for round in 0..20 {
        session.batch("BEGIN").unwrap();
        session.execute("SELECT v FROM a WHERE k = 1", &[]).unwrap();
        session.batch("COMMIT").unwrap();
        if !is_early(&mut session) {
            assert!(round > 0, "one reader is no habit");
            return;
        }
    }
    panic!("twenty readers have not made it unlearn");
}

#[test]
fn early_locks_can_be_turned_off_and_concern_neither_lone_statements_nor_read_committed() {
    let (db, mut session) = accounts();
    meet(&db, WRITE);
    assert!(is_early(&mut session));
    let mut holder = db.session();
    for begin in [
        "SET halcyon.early_locks = off; BEGIN",
        "RESET halcyon.early_locks; BEGIN ISOLATION LEVEL READ COMMITTED",
        "BEGIN READ ONLY",
    ] {
        holder.batch(begin).unwrap();
        holder.execute("SELECT v FROM a WHERE k = 1", &[]).unwrap();
        session.execute("SET lock_timeout = 1000", &[]).unwrap();
        session.execute("SELECT v FROM a WHERE k = 1", &[]).expect("nobody holds it exclusively");
        holder.batch("COMMIT").unwrap();
    }
}

/// Clients that read a row and then write it, and begin again at once when they are victims.
const CLIENTS: usize = 16;

/// Commits of each client.
const COMMITS: u64 = 25;

/// Victims in a row that one client may be. Each loss doubles what its next transaction counts when a victim is
/// chosen, so among equals a client is one a few times; without that there was no limit at all.
const ROW_MAX: u64 = 100;

/// Lets the clients run; the longest row of victims of one client, and all victims.
fn contend(setting: &str) -> (u64, u64) {
    let (db, mut session) = accounts();
    let (longest, victims) = (AtomicU64::new(0), AtomicU64::new(0));
    let client = || {
        let mut session = db.session();
        session.batch(setting).unwrap();
        for _ in 0..COMMITS {
            let mut row = 0;
            loop {
                session.execute("BEGIN", &[]).unwrap();
                let done = session
                    .execute("SELECT v FROM a WHERE k = 1", &[])
                    .and_then(|_| session.execute(WRITE, &[]))
                    .and_then(|_| session.execute("COMMIT", &[]));
                let Err(error) = done else { break };
                assert_eq!(error.state(), SqlState::DEADLOCK_DETECTED, "{error}");
                session.execute("ROLLBACK", &[]).unwrap();
                row += 1;
            }
            longest.fetch_max(row, Ordering::Relaxed);
            victims.fetch_add(row, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| (0..CLIENTS).for_each(|_| drop(scope.spawn(client))));
    let rows = session.query("SELECT v FROM a WHERE k = 1", &[]).unwrap().collect().unwrap();
    assert_eq!(rows[0][0], Value::Int32(CLIENTS as i32 * COMMITS as i32), "each commit counts");
    (longest.into_inner(), victims.into_inner())
}

#[test]
fn no_client_starves_whether_plans_learn_or_not() {
    let (longest, victims) = contend("SET halcyon.early_locks = off");
    assert!(longest <= ROW_MAX, "{longest} victims in a row of one client, {victims} in all");
    let (longest, victims) = contend("SET halcyon.early_locks = on");
    assert!(longest <= ROW_MAX, "{longest} victims in a row of one client, {victims} in all");
    // The first meeting teaches the plan; those who had read by then are its victims.
    assert!(victims <= 4 * CLIENTS as u64, "{victims} victims");
}

#[test]
fn a_block_that_has_failed_gives_its_locks_back_before_its_client_ends_it() {
    let (db, mut session) = accounts();
    let mut other = db.session();
    other.execute("SET lock_timeout = 2000", &[]).unwrap();
    session.batch("BEGIN").unwrap();
    session.execute("UPDATE a SET v = 7 WHERE k = 1", &[]).unwrap();
    session.execute("SELECT 1 / 0", &[]).unwrap_err();
    other.execute("UPDATE a SET v = v + 1 WHERE k = 1", &[]).expect("the lock is free");
    let refused = session.execute("SELECT 1", &[]).unwrap_err();
    assert_eq!(refused.state(), SqlState::IN_FAILED_SQL_TRANSACTION);
    session.execute("COMMIT", &[]).expect("it rolls back");
    // A savepoint can be returned to, so what came before it stays locked.
    session.batch("BEGIN; UPDATE a SET v = v + 10 WHERE k = 1; SAVEPOINT s").unwrap();
    session.execute("SELECT 1 / 0", &[]).unwrap_err();
    other.execute("SET lock_timeout = 20", &[]).unwrap();
    let refused = other.execute("UPDATE a SET v = 0 WHERE k = 1", &[]).unwrap_err();
    assert_eq!(refused.state(), SqlState::LOCK_NOT_AVAILABLE);
    session.batch("ROLLBACK TO s; COMMIT").unwrap();
    let rows = session.query("SELECT v FROM a WHERE k = 1", &[]).unwrap().collect().unwrap();
    assert_eq!(rows[0][0], Value::Int32(11));
}
