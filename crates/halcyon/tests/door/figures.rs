//! Figures of the system views that depend on where sessions and transactions stand: each in
//! situations that make it differ.

use halcyon::{Access, Isolation, Session, SessionOptions, SessionState, params};

use crate::{items, one};

/// A column of `halcyon.sessions` for a session, as another one sees it.
fn of_session(watcher: &mut Session, column: &str, session: &Session) -> String {
    let id = session.id();
    one(watcher, &format!("SELECT ({column})::text FROM halcyon.sessions WHERE session = {id}"))
}

/// A column of `halcyon.transactions` for the one transaction of a session.
fn of_transaction(watcher: &mut Session, column: &str, session: &Session) -> String {
    let id = session.id();
    let text = format!("SELECT ({column})::text FROM halcyon.transactions WHERE session = {id}");
    one(watcher, &text)
}

#[test]
fn sessions_show_whom_they_serve() {
    let db = items(0);
    let mut embedded = db.session();
    let client = Some("192.0.2.7".to_owned());
    let served = db.session_with(SessionOptions { client, ..SessionOptions::default() }).unwrap();
    assert_eq!(of_session(&mut embedded, "client", &served), "192.0.2.7");
    let own = embedded.id();
    let text = format!("SELECT client IS NULL FROM halcyon.sessions WHERE session = {own}");
    assert_eq!(one(&mut embedded, &text), "true");
}

#[test]
fn a_statement_began_when_it_was_run() {
    let db = items(3);
    let (mut session, mut watcher) = (db.session(), db.session());
    let began = "statement_started";
    assert_eq!(of_session(&mut watcher, began, &session), "NULL", "nothing ran yet");
    let by_id = session.prepare("SELECT name FROM item WHERE id = $1").expect("a plan");
    let mut last = one(&mut watcher, "SELECT clock_timestamp()::text");
    let mut check = |session: &mut Session, what: &str| {
        let after = "clock_timestamp()";
        let between = format!("{began} > TIMESTAMPTZ '{last}' AND {began} <= {after}");
        assert_eq!(of_session(&mut watcher, &between, session), "true", "{what}");
        // The clock of statements is the monotonic one, told in the wall clock's time.
        std::thread::sleep(std::time::Duration::from_millis(5));
        last = one(&mut watcher, "SELECT (clock_timestamp() - INTERVAL '2 ms')::text");
    };
    std::thread::sleep(std::time::Duration::from_millis(5));
    session.query(&by_id, params![1]).expect("a point query");
    check(&mut session, "a point query as a transaction of its own");
    session.begin(Isolation::Serializable, Access::ReadWrite).expect("a block");
    session.execute("UPDATE item SET stock = 1 WHERE id = 1", &[]).expect("a write");
    check(&mut session, "a statement of a block");
    session.query(&by_id, params![2]).expect("a point query");
    check(&mut session, "a later statement of the same block");
    session.execute("SELECT nothing", &[]).expect_err("no such column");
}

#[test]
fn a_failed_block_is_shown_as_aborted_until_it_ends_or_goes_back() {
    let db = items(3);
    let (mut session, mut watcher) = (db.session(), db.session());
    let state = |watcher: &mut Session, session: &Session| of_session(watcher, "state", session);
    assert_eq!(state(&mut watcher, &session), "idle");
    session.batch("BEGIN; SAVEPOINT here").expect("a block");
    assert_eq!(state(&mut watcher, &session), "idle in transaction");
    let by_zero = session.prepare("SELECT stock / $1 FROM item WHERE id = 1").expect("a plan");
    session.query(&by_zero, params![0_i64]).err().expect("a division by zero");
    assert_eq!(session.state(), SessionState::Failed);
    assert_eq!(state(&mut watcher, &session), "idle in transaction (aborted)");
    session.batch("ROLLBACK TO here").expect("the savepoint is there");
    assert_eq!(state(&mut watcher, &session), "idle in transaction");

    // Rows that are read behind the statement's end fail the block as well.
    let text = "SELECT sum(1 / (id - 1)) FROM item";
    let mut rows = session.query(text, &[]).expect("it has begun");
    assert_eq!(state(&mut watcher, &session), "active");
    rows.next().err().expect("a division by zero");
    assert_eq!(state(&mut watcher, &session), "idle in transaction (aborted)");
    session.rollback().expect("a block");
    assert_eq!(state(&mut watcher, &session), "idle");
    session.begin_default();
    assert_eq!(state(&mut watcher, &session), "idle in transaction", "another block");
}

#[test]
fn transactions_show_whether_they_only_read() {
    let db = items(3);
    let (mut session, mut watcher) = (db.session(), db.session());
    for (access, shown) in [(Access::ReadOnly, "true"), (Access::ReadWrite, "false")] {
        session.begin(Isolation::Serializable, access).expect("a block");
        assert_eq!(of_transaction(&mut watcher, "read_only", &session), shown);
        session.commit().expect("nothing to refuse");
    }
    session.batch("BEGIN; SET TRANSACTION READ ONLY").expect("a block");
    assert_eq!(of_transaction(&mut watcher, "read_only", &session), "true");
}

#[test]
fn transactions_show_how_many_changes_they_would_take_back() {
    let db = items(3);
    let (mut session, mut watcher) = (db.session(), db.session());
    let mut check = |session: &mut Session, text: &str, records: &str| {
        session.batch(text).expect(text);
        assert_eq!(of_transaction(&mut watcher, "undo_records", session), records, "{text}");
    };
    check(&mut session, "BEGIN", "0");
    check(&mut session, "INSERT INTO item VALUES (10, 'a', 1), (11, 'b', 2)", "2");
    check(&mut session, "SAVEPOINT here", "2");
    check(&mut session, "UPDATE item SET stock = 5 WHERE id < 3", "5");
    check(&mut session, "SELECT count(*) FROM item", "5");
    check(&mut session, "ROLLBACK TO here", "2");
    check(&mut session, "DELETE FROM item WHERE id = 0", "3");
    check(&mut session, "COMMIT; BEGIN", "0");
}

#[test]
fn explain_runs_nothing_but_what_analyze_can() {
    let db = items(1);
    let mut session = db.session();
    session.execute("EXPLAIN CREATE TABLE later (id INT)", &[]).expect("two lines");
    let found = "SELECT count(*) FROM pg_tables WHERE tablename = 'later'";
    assert_eq!(one(&mut session, found), "0", "an explained statement does not run");
    let refused = session.execute("EXPLAIN ANALYZE CREATE TABLE later (id INT)", &[]);
    assert_eq!(crate::state(refused), halcyon::SqlState::FEATURE_NOT_SUPPORTED);
    assert_eq!(one(&mut session, found), "0");
}
