//! Transactions that read and then write: after the first meeting they lock at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

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

/// A change of one of the tables `a` and `c` with which blocks lock both, and the change of the other table.
fn locked_together(session: &mut Session) -> Option<(&'static str, &'static str)> {
    let ends = |line: &&String| line.ends_with("with the first statement of a transaction block");
    let mut both = |text| explained(session, text).iter().filter(ends).count() == 2;
    [(WRITE, WRITE_OTHER), (WRITE_OTHER, WRITE)].into_iter().find(|(text, _)| both(text))
}

const WRITE_OTHER: &str = "UPDATE c SET v = v + 1 WHERE k = 1";

/// Two clients that change two tables, each in the other's order, `commits` times, and begin again when they are victims.
/// Each waits a moment between its changes for the other to have made one. Returns how often they were victims.
fn cross(db: &Database, level: &str, commits: usize) -> usize {
    let begin = format!("BEGIN ISOLATION LEVEL {level}");
    let client = |first: &str, second: &str, here: Sender<()>, there: Receiver<()>| {
        let (mut session, mut victims, mut done) = (db.session(), 0, 0);
        while done < commits {
            session.execute(begin.as_str(), &[]).unwrap();
            let both = session.execute(first, &[]).and_then(|_| {
                // The other may be gone already, or wait for this one's locks.
                let _ = here.send(());
                let _ = there.recv_timeout(Duration::from_millis(5));
                session.execute(second, &[])
            });
            match both.and_then(|_| session.execute("COMMIT", &[])) {
                Ok(_) => done += 1,
                Err(error) => {
                    assert_eq!(error.state(), SqlState::DEADLOCK_DETECTED, "{error}");
                    session.execute("ROLLBACK", &[]).unwrap();
                    victims += 1;
                }
            }
        }
        victims
    };
    let ((to_other, from_one), (to_one, from_other)) = (channel(), channel());
    std::thread::scope(|scope| {
        let other = scope.spawn(|| client(WRITE_OTHER, WRITE, to_one, from_one));
        client(WRITE, WRITE_OTHER, to_other, from_other) + other.join().unwrap()
    })
}

/// Runs [`cross`] until blocks of one kind have learned, and nobody was a victim for a while. Returns how often a
/// client was a victim on the way, and the changes as [`locked_together`] does.
fn cross_until_learned(
    db: &Database,
    session: &mut Session,
    level: &str,
) -> (usize, &'static str, &'static str) {
    let mut victims = 0;
    for _ in 0..100 {
        let more = cross(db, level, 5);
        victims += more;
        if let (0, Some((text, other))) = (more, locked_together(session)) {
            return (victims, text, other);
        }
    }
    panic!("the plans have not learned from {victims} victims");
}

fn two_tables() -> (Database, Session) {
    let (db, mut session) = accounts();
    session
        .batch("CREATE TABLE c (k INT PRIMARY KEY, v INT); INSERT INTO c VALUES (1, 0)")
        .unwrap();
    (db, session)
}

#[test]
fn tables_that_blocks_lock_in_any_order_are_locked_together_after_a_few_victims() {
    for level in ["SERIALIZABLE", "READ COMMITTED"] {
        let (db, mut session) = two_tables();
        let (victims, ..) = cross_until_learned(&db, &mut session, level);
        assert!((2..20).contains(&victims), "two meetings make a habit, not {victims}");
        assert_eq!(cross(&db, level, 50), 0, "{level}: in one order nobody meets anybody");
        let query = "SELECT a.v = c.v, a.v >= 100 FROM a, c WHERE a.k = 1 AND c.k = 1";
        let rows = session.query(query, &[]).unwrap().collect().unwrap();
        assert_eq!(rows[0], [Value::Bool(true), Value::Bool(true)], "each commit counts");
    }
}

#[test]
fn blocks_that_need_one_table_alone_make_the_plan_unlearn_the_other() {
    let (db, mut session) = two_tables();
    let (_, text, other) = cross_until_learned(&db, &mut session, "SERIALIZABLE");
    let mut holder = db.session();
    for round in 0..20 {
        session.batch(&format!("BEGIN; {text}; COMMIT")).unwrap();
        if locked_together(&mut session).is_none_or(|(learned, _)| learned != text) {
            assert!(round > 0, "one block is no habit");
            // Nobody waits for the other table any more.
            holder.batch(&format!("SET halcyon.early_locks = off; BEGIN; {other}")).unwrap();
            session.batch(&format!("BEGIN; {text}; COMMIT")).unwrap();
            return;
        }
    }
    panic!("twenty blocks have not made it unlearn");
}

#[test]
fn companions_are_locked_neither_on_request_nor_where_a_wait_is_limited() {
    let (db, mut session) = two_tables();
    let (_, text, other) = cross_until_learned(&db, &mut session, "SERIALIZABLE");
    let mut holder = db.session();
    holder.batch(&format!("SET halcyon.early_locks = off; BEGIN; {other}")).unwrap();
    let limited = "RESET halcyon.early_locks; SET lock_timeout = 1000";
    for prefix in ["SET halcyon.early_locks = off", limited] {
        session.batch(prefix).unwrap();
        let ran = session.batch(&format!("BEGIN; {text}; ROLLBACK"));
        ran.expect("the other table is not asked for");
    }
    // Outside a block neither.
    session.batch("RESET lock_timeout").unwrap();
    session.execute(text, &[]).unwrap();
}
