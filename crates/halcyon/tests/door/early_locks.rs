//! Transactions that read and then write: after the first meeting they lock at once.

use std::sync::Barrier;

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
