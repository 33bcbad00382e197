//! Workload classes in force: statements of limited classes wait, are refused, slowed down and ended as their class
//! says (P4 §2).
//!
//! Strategy: each limit is met by statements whose length the test decides (`pg_sleep` beside a table, advisory
//! locks), and is seen in what the statement answers and in the views. Order comes from the views, never from the clock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use halcyon::{Database, Session, SqlError, SqlState, Value};

fn run(session: &mut Session, text: &str) {
    session.batch(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
}

fn rows(session: &mut Session, text: &str) -> Vec<String> {
    let format = session.text_format();
    let mut rows = session.query(text, &[]).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    let columns = rows.columns().clone();
    let mut all = Vec::new();
    while let Some(row) = rows.next().unwrap_or_else(|error| panic!("{text}: {error:?}")) {
        let cell = |at: usize| match row.value(at) {
            value if value.is_null() => "NULL".to_owned(),
            value => format.text(value, columns[at].ty.expect("a type of SQL")),
        };
        all.push((0..row.len()).map(cell).collect::<Vec<_>>().join("|"));
    }
    all
}

fn one(session: &mut Session, text: &str) -> String {
    let all = rows(session, text);
    assert_eq!(all.len(), 1, "{text} gives {all:?}");
    all.into_iter().next().expect("one")
}

/// Repeats a query until it answers so. Panics after a minute.
fn until(session: &mut Session, text: &str, wanted: &str) {
    let began = Instant::now();
    loop {
        let found = rows(session, text).join(";");
        if found == wanted {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{text} gives {found}, not {wanted}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn refused(session: &mut Session, text: &str) -> SqlError {
    let done = session.query(text, &[]).and_then(|rows| rows.collect());
    done.err().unwrap_or_else(|| panic!("{text} is not refused"))
}

/// The class of a session's last statement, as another session sees it.
fn class_of_last(watcher: &mut Session, of: &Session) -> String {
    let class = "SELECT workload_class_name FROM halcyon.m_workload_effective
                 WHERE property = 'PRIORITY' AND connection_id = ";
    one(watcher, &format!("{class}{}", of.id()))
}

/// A database with a table of numbers, and its first session.
fn database() -> (Database, Session) {
    let db = Database::in_memory();
    let mut session = db.session();
    run(
        &mut session,
        "CREATE TABLE n (i INTEGER PRIMARY KEY); INSERT INTO n SELECT generate_series(1, 1000)",
    );
    run(
        &mut session,
        "CREATE TABLE big AS SELECT g AS i, g % 97 AS k FROM generate_series(1, 200000) AS g",
    );
    (db, session)
}

/// A session whose statements are of the class to which the application is mapped.
fn of(db: &Database, application: &str) -> Session {
    let mut session = db.session();
    run(&mut session, &format!("SET application_name = '{application}'"));
    session
}

const QUEUE: &str =
    "SELECT workload_class_name, statement_string FROM halcyon.m_admission_control_queues";
const HOLD: &str = "SELECT pg_advisory_lock(1), count(*) FROM big";

/// Runs a statement of an application on a thread of its own, and gives what becomes of it.
fn start(
    db: &Database,
    application: &str,
    text: &'static str,
) -> mpsc::Receiver<Result<usize, SqlError>> {
    let mut session = of(db, application);
    let (told, done) = mpsc::channel();
    std::thread::spawn(move || {
        let answer = session.query(text, &[]).and_then(|rows| rows.collect());
        let _ = told.send(answer.map(|rows| rows.len()));
    });
    done
}

#[test]
fn as_many_statements_run_as_a_class_lets_in() {
    let (db, mut admin) = database();
    run(
        &mut admin,
        "CREATE WORKLOAD CLASS batch SET 'CONCURRENCY LIMIT' = '1', 'QUEUE LIMIT' = '1'",
    );
    run(
        &mut admin,
        "CREATE WORKLOAD MAPPING m WORKLOAD CLASS batch SET 'APPLICATION NAME' = 'etl%' WITH WILDCARD",
    );
    run(&mut admin, "SELECT pg_advisory_lock(1)");
    let first = start(&db, "etl-1", HOLD);
    let class =
        "SELECT current_running, current_queue_size, admit_count, enqueue_count, reject_count
                 FROM halcyon.m_admission_control_statistics WHERE workload_class_name = 'batch'";
    until(&mut admin, class, "1|0|1|0|0");
    let second = start(&db, "etl-2", "SELECT count(*) FROM n WHERE i <= 7");
    until(&mut admin, QUEUE, "batch|SELECT count(*) FROM n WHERE i <= 7");
    let error = refused(&mut of(&db, "etl-3"), "SELECT i FROM n WHERE i = 3");
    assert_eq!(error.state().as_str(), "53W01", "{error:?}");
    assert!(error.message().contains("batch"), "{error:?}");
    // Others do not notice.
    assert_eq!(one(&mut of(&db, "web"), "SELECT i FROM n WHERE i = 3"), "3");
    // What concerns the session alone is never held up.
    run(&mut of(&db, "etl-4"), "BEGIN; SET LOCAL work_mem = '4MB'; COMMIT");
    run(&mut admin, "SELECT pg_advisory_unlock(1)");
    assert_eq!(first.recv().expect("told").expect("runs"), 1);
    assert_eq!(second.recv().expect("told").expect("runs"), 1);
    until(&mut admin, class, "0|0|2|1|1");
    let events = "SELECT string_agg(event_type, ' ') FROM halcyon.m_admission_control_events
                  WHERE workload_class_name = 'batch'";
    assert_eq!(one(&mut admin, events), "ENQUEUE REJECT DEQUEUE");
}

#[test]
fn a_wait_ends_by_cancel_by_its_timeout_and_by_the_statements() {
    let (db, mut admin) = database();
    run(
        &mut admin,
        "CREATE WORKLOAD CLASS batch SET 'CONCURRENCY LIMIT' = '1', 'QUEUE TIMEOUT' = '200ms'",
    );
    run(
        &mut admin,
        "CREATE WORKLOAD MAPPING m WORKLOAD CLASS batch SET 'APPLICATION NAME' = 'etl'",
    );
    run(&mut admin, "SELECT pg_advisory_lock(1)");
    let held = start(&db, "etl", HOLD);
    until(
        &mut admin,
        "SELECT current_running FROM halcyon.m_admission_control_statistics WHERE workload_class_name = 'batch'",
        "1",
    );
    assert_eq!(refused(&mut of(&db, "etl"), "SELECT count(*) FROM n").state().as_str(), "53W02");
    run(&mut admin, "ALTER WORKLOAD CLASS batch SET 'QUEUE TIMEOUT' = '600s'");
    let mut hurried = of(&db, "etl");
    run(&mut hurried, "SET statement_timeout = 50");
    let error = refused(&mut hurried, "SELECT count(*) FROM n");
    assert_eq!(error.state(), SqlState::QUERY_CANCELED);
    assert!(error.message().contains("statement timeout"), "{error:?}");
    let waiting = start(&db, "etl", "SELECT sum(i) FROM n");
    until(&mut admin, QUEUE, "batch|SELECT sum(i) FROM n");
    let cancel = "SELECT pg_cancel_backend(connection_id) FROM halcyon.m_admission_control_queues";
    assert_eq!(one(&mut admin, cancel), "t");
    let error = waiting.recv().expect("told").expect_err("cancelled");
    assert_eq!(error.state(), SqlState::QUERY_CANCELED);
    until(&mut admin, QUEUE, "");
    // A class that is changed lets in at once who waits.
    let waiting = start(&db, "etl", "SELECT min(i) FROM n");
    until(&mut admin, QUEUE, "batch|SELECT min(i) FROM n");
    run(&mut admin, "ALTER WORKLOAD CLASS batch SET 'CONCURRENCY LIMIT' = '2'");
    assert_eq!(waiting.recv().expect("told").expect("runs"), 1);
    run(&mut admin, "SELECT pg_advisory_unlock(1)");
    held.recv().expect("told").expect("runs");
}

#[test]
fn a_transaction_with_locks_is_never_held_up() {
    let (db, mut admin) = database();
    run(&mut admin, "CREATE WORKLOAD CLASS batch SET 'CONCURRENCY LIMIT' = '1'");
    run(
        &mut admin,
        "CREATE WORKLOAD MAPPING m WORKLOAD CLASS batch SET 'APPLICATION NAME' = 'etl'",
    );
    let mut writer = of(&db, "etl");
    run(&mut writer, "BEGIN; UPDATE n SET i = -1 WHERE i = 1");
    // This one is inside, and waits for the writer's lock.
    let inside = start(&db, "etl", "UPDATE n SET i = -2 WHERE i = 2 RETURNING i");
    until(
        &mut admin,
        "SELECT current_running FROM halcyon.m_admission_control_statistics WHERE workload_class_name = 'batch'",
        "1",
    );
    run(&mut writer, "UPDATE n SET i = -3 WHERE i = 3; COMMIT");
    assert_eq!(inside.recv().expect("told").expect("runs"), 1);
    assert_eq!(one(&mut admin, "SELECT count(*) FROM n WHERE i < 0"), "3");
}

#[test]
fn every_grant_is_given_back() {
    let (db, mut admin) = database();
    run(
        &mut admin,
        "CREATE WORKLOAD CLASS batch SET 'CONCURRENCY LIMIT' = '1', 'QUEUE TIMEOUT' = '10s'",
    );
    run(
        &mut admin,
        "CREATE WORKLOAD MAPPING m WORKLOAD CLASS batch SET 'APPLICATION NAME' = 'etl'",
    );
    let mut session = of(&db, "etl");
    let running = "SELECT current_running FROM halcyon.m_admission_control_statistics WHERE workload_class_name = 'batch'";
    for text in [
        "SELECT 1 / (i - i) FROM big",
        "SELECT i FROM n WHERE i = 5",
        "INSERT INTO n VALUES (1)",
        "SELECT k, count(*) FROM big GROUP BY k",
    ] {
        let _ = session.query(text, &[]).and_then(|rows| rows.collect());
        assert_eq!(one(&mut admin, running), "0", "after {text}");
    }
    // Rows that nobody reads to their end.
    let mut partly = session.query("SELECT i FROM big", &[]).expect("runs");
    partly.next().expect("a row");
    assert_eq!(one(&mut admin, running), "1");
    drop(partly);
    assert_eq!(one(&mut admin, running), "0");
    // A cursor keeps its place until it is closed.
    run(
        &mut session,
        "BEGIN; DECLARE c CURSOR FOR SELECT i FROM big; FETCH 3 FROM c; CLOSE c; COMMIT",
    );
    run(
        &mut session,
        "PREPARE p AS SELECT count(*) FROM big; EXECUTE p; EXPLAIN ANALYZE SELECT count(*) FROM big",
    );
    assert_eq!(one(&mut admin, running), "0");
}

#[test]
fn limits_of_a_class_hold_for_its_statements() {
    let (db, mut admin) = database();
    run(&mut admin, "CREATE WORKLOAD CLASS small SET 'STATEMENT TIMEOUT' = '100ms', 'STATEMENT THREAD LIMIT' = '1',
                     'STATEMENT MEMORY LIMIT' = '40MB', 'PRIORITY' = '2'");
    run(
        &mut admin,
        "CREATE WORKLOAD MAPPING m WORKLOAD CLASS small SET 'APPLICATION NAME' = 'small'",
    );
    let mut session = of(&db, "small");
    let error = refused(&mut session, "SELECT pg_sleep(10), count(*) FROM big");
    assert_eq!(error.state(), SqlState::QUERY_CANCELED, "{error:?}");
    // The stricter of the two holds.
    run(&mut session, "SET statement_timeout = '1h'");
    assert_eq!(
        refused(&mut session, "SELECT pg_sleep(10), count(*) FROM big").state(),
        SqlState::QUERY_CANCELED
    );
    run(&mut admin, "ALTER WORKLOAD CLASS small UNSET 'STATEMENT TIMEOUT'");
    let own = format!(
        "SELECT property, value, origin FROM halcyon.m_workload_effective WHERE connection_id = {}
         AND property IN ('PRIORITY', 'STATEMENT THREAD LIMIT', 'STATEMENT TIMEOUT') ORDER BY property",
        session.id()
    );
    assert_eq!(one(&mut session, "SELECT count(*) FROM big"), "200000");
    let shown = rows(&mut admin, &own);
    assert_eq!(
        shown,
        ["PRIORITY|2|small", "STATEMENT THREAD LIMIT|1|small", "STATEMENT TIMEOUT|NULL|NULL"]
    );
    let explained = rows(&mut session, "EXPLAIN WORKLOAD");
    assert!(explained.iter().any(|line| line.contains("mapping \"m\"")), "{explained:?}");
    let busy = "SELECT busy_ms > 0, statement_count > 0 FROM halcyon.m_workload_class_statistics
                WHERE workload_class_name = 'small'";
    assert_eq!(one(&mut admin, busy), "t|t");
}

#[test]
fn rules_come_to_statements_that_run() {
    let (db, mut admin) = database();
    run(&mut admin, "CREATE WORKLOAD CLASS ruled");
    run(
        &mut admin,
        "ALTER WORKLOAD CLASS ruled ADD RULE look WHEN STATEMENT ELAPSED TIME > 100ms THEN CANCEL DRY RUN",
    );
    run(
        &mut admin,
        "CREATE WORKLOAD MAPPING m WORKLOAD CLASS ruled SET 'APPLICATION NAME' = 'ruled'",
    );
    let mut session = of(&db, "ruled");
    let events = "SELECT event_type, event_reason FROM halcyon.m_admission_control_events";
    let slept = rows(&mut session, "SELECT pg_sleep(0.02) FROM big WHERE i <= 50");
    assert_eq!(slept.len(), 50, "nothing ends the statement");
    let seen = rows(&mut admin, events);
    assert!(seen[0].contains("rule \"look\"") && seen[0].contains("(dry run)"), "{seen:?}");
    run(
        &mut admin,
        "ALTER WORKLOAD CLASS ruled ADD RULE stop WHEN STATEMENT ELAPSED TIME > 300ms THEN CANCEL",
    );
    let began = Instant::now();
    let error = refused(&mut session, "SELECT pg_sleep(30), count(*) FROM big");
    assert!(began.elapsed() > Duration::from_millis(300));
    assert_eq!(error.state(), SqlState::QUERY_CANCELED);
    let told = format!("{error:?}");
    assert!(told.contains("rule \\\"stop\\\" of workload class \\\"ruled\\\""), "{told}");
    let seen = rows(&mut admin, events);
    assert!(seen.iter().any(|event| event.contains("rule \"stop\"")), "{seen:?}");
    assert_eq!(
        one(&mut session, "SELECT i FROM n WHERE i = 9"),
        "9",
        "the next statement is another one"
    );
    // Processor time: a join that multiplies rows.
    run(
        &mut admin,
        "ALTER WORKLOAD CLASS ruled DROP RULE look; ALTER WORKLOAD CLASS ruled DROP RULE stop",
    );
    run(
        &mut admin,
        "ALTER WORKLOAD CLASS ruled ADD RULE cpu WHEN STATEMENT CPU TIME > 200ms THEN CANCEL",
    );
    let error = refused(&mut session, "SELECT count(*) FROM big a, big b WHERE a.i * b.i % 7 = 3");
    assert_eq!(error.state(), SqlState::QUERY_CANCELED, "{error:?}");
}

#[test]
fn mappings_hints_and_rights_decide_the_class() {
    let (db, mut admin) = database();
    run(
        &mut admin,
        "CREATE WORKLOAD CLASS web SET 'PRIORITY' = '8'; CREATE WORKLOAD CLASS slow SET 'PRIORITY' = '1', 'STATEMENT THREAD LIMIT' = '1'",
    );
    run(&mut admin, "CREATE WORKLOAD MAPPING a WORKLOAD CLASS web SET 'APPLICATION NAME' = 'shop'");
    run(&mut admin, "CREATE WORKLOAD MAPPING b WORKLOAD CLASS slow SET 'USER NAME' = 'clerk'");
    run(
        &mut admin,
        "CREATE ROLE clerk LOGIN; CREATE ROLE guest LOGIN; GRANT SELECT ON n TO clerk, guest",
    );
    let class_of = |session: &mut Session| {
        run(session, "SELECT i FROM n WHERE i = 1");
        one(
            session,
            "SELECT DISTINCT workload_class_name FROM halcyon.m_workload_effective WHERE connection_id = pg_backend_pid()",
        )
    };
    let mut guest = db.session_as("guest").expect("may log in");
    assert_eq!(class_of(&mut guest), "_DEFAULT");
    // A name that anybody can give leads no higher without USAGE.
    run(&mut guest, "SET application_name = 'shop'");
    assert_eq!(class_of(&mut guest), "_DEFAULT");
    run(&mut admin, "GRANT USAGE ON WORKLOAD CLASS web TO guest");
    assert_eq!(class_of(&mut guest), "web");
    run(&mut admin, "REVOKE USAGE ON WORKLOAD CLASS web FROM guest");
    assert_eq!(class_of(&mut guest), "_DEFAULT");
    assert_eq!(class_of(&mut db.session_as("clerk").expect("may log in")), "slow");
    // A hint restricts.
    let mut session = of(&db, "shop");
    assert_eq!(class_of(&mut session), "web");
    assert_eq!(
        one(&mut session, "SELECT i FROM n WHERE i = 4 WITH HINT(WORKLOAD_CLASS(\"slow\"))"),
        "4"
    );
    let limit = format!(
        "SELECT workload_class_name, value FROM halcyon.m_workload_effective WHERE connection_id = {} AND property = 'STATEMENT THREAD LIMIT'",
        session.id()
    );
    assert_eq!(one(&mut admin, &limit), "slow|1");
    assert_eq!(class_of(&mut session), "web", "for one statement");
    run(&mut session, "SELECT i FROM n WHERE i = 4 WITH HINT(WORKLOAD_CLASS(\"none\"))");
    assert!(session.take_notices().iter().any(|notice| notice.message().contains("none")));
    // HANA's variables of the session.
    run(&mut admin, "CREATE WORKLOAD MAPPING c WORKLOAD CLASS slow SET 'CLIENT' = '800'");
    run(&mut session, "RESET application_name; SET 'CLIENT' = '800'");
    assert_eq!(class_of(&mut session), "slow");
    run(&mut admin, "ALTER WORKLOAD MAPPING c DISABLE");
    assert_eq!(class_of(&mut session), "_DEFAULT");
    let unused: &[Value] = &[];
    assert!(session.query("SELECT $1::int", unused).is_err());
}

#[test]
fn a_threshold_of_memory_alone_makes_a_class_pass_the_gate() {
    let (db, mut admin) = database();
    run(
        &mut admin,
        "CREATE WORKLOAD CLASS never SET 'ADMISSION CONTROL REJECT MEMORY THRESHOLD' = '0'",
    );
    run(
        &mut admin,
        "CREATE WORKLOAD MAPPING m WORKLOAD CLASS never SET 'APPLICATION NAME' = 'never'",
    );
    let error = refused(&mut of(&db, "never"), "SELECT i FROM n WHERE i = 3");
    assert_eq!(error.state().as_str(), "53000", "{error:?}");
    assert_eq!(one(&mut of(&db, "other"), "SELECT i FROM n WHERE i = 3"), "3");
}

#[test]
fn the_brake_holds_everything_but_the_hand_that_releases_it() {
    let (db, mut admin) = database();
    run(
        &mut admin,
        "CREATE ROLE clerk LOGIN; GRANT SELECT ON n TO clerk; CREATE WORKLOAD CLASS other",
    );
    let mut clerk = db.session_as("clerk").expect("may log in");
    run(&mut admin, "ALTER SYSTEM SET WORKLOAD BRAKE = FULL");
    let error = refused(&mut clerk, "SELECT i FROM n WHERE i = 3");
    assert_eq!(error.state(), SqlState::QUERY_CANCELED, "{error:?}");
    refused(&mut admin, "SELECT i FROM n WHERE i = 3");
    let sessions = "SELECT count(*) FROM halcyon.sessions";
    assert_eq!(one(&mut admin, sessions), "2");
    run(&mut admin, "ALTER SYSTEM SET WORKLOAD BRAKE = OFF");
    assert_eq!(one(&mut clerk, "SELECT i FROM n WHERE i = 3"), "3");
}

#[test]
fn workers_of_a_class_are_bounded_whatever_number_of_statements_it_has() {
    let (db, mut admin) = database();
    run(&mut admin, "CREATE WORKLOAD CLASS batch SET 'TOTAL STATEMENT THREAD LIMIT' = '1'");
    run(
        &mut admin,
        "CREATE WORKLOAD MAPPING m WORKLOAD CLASS batch SET 'APPLICATION NAME' = 'etl'",
    );
    let text = "SELECT count(*) FROM big a, big b WHERE a.k = b.k AND a.i < 3000";
    let done: Vec<_> = (0..3).map(|_| start(&db, "etl", text)).collect();
    let most = "SELECT coalesce(sum(running), 0) FROM halcyon.tasks";
    let mut seen = 0;
    let began = Instant::now();
    while done.iter().any(|done| done.try_recv().is_err())
        && began.elapsed() < Duration::from_secs(20)
    {
        let running: i64 = one(&mut admin, most).parse().expect("a number");
        assert!(running <= 1, "{running} workers run statements of the class");
        seen = seen.max(running);
    }
    assert_eq!(seen, 1, "the class runs");
    let limit = "SELECT thread_limit FROM halcyon.m_workload_class_statistics WHERE workload_class_name = 'batch'";
    assert_eq!(one(&mut admin, limit), "1");
}

#[test]
fn a_prepared_query_sees_classes_and_mappings_that_were_made_behind_it() {
    let database = Database::in_memory();
    let (mut session, mut other) = (database.session(), database.session());
    let names = "SELECT (SELECT count(*) FROM halcyon.workload_classes), \
                 (SELECT count(*) FROM halcyon.workload_mappings)";
    let prepared = session.prepare(names).unwrap();
    let counts = |session: &mut Session| {
        let mut rows = session.query(&prepared, &[]).unwrap();
        let row = rows.next().unwrap().expect("one row");
        (row.get::<i64>(0).unwrap(), row.get::<i64>(1).unwrap())
    };
    assert_eq!(counts(&mut session), (5, 0));
    run(&mut other, "CREATE WORKLOAD CLASS late SET 'PRIORITY' = 3");
    assert_eq!(counts(&mut session), (6, 0));
    let mapping = "CREATE WORKLOAD MAPPING late WORKLOAD CLASS late SET 'CLIENT' = 'c'";
    run(&mut other, mapping);
    assert_eq!(counts(&mut session), (6, 1));
    run(&mut session, "BEGIN; DROP WORKLOAD MAPPING late");
    assert_eq!(one(&mut session, names), "6|0");
    run(&mut session, "ROLLBACK");
    assert_eq!(counts(&mut session), (6, 1));
}

#[test]
fn mappings_ask_for_the_tables_and_views_that_a_statement_names() {
    let (db, mut admin) = database();
    run(
        &mut admin,
        "CREATE SCHEMA shop; CREATE TABLE shop.orders (id INTEGER PRIMARY KEY, total INTEGER);
         CREATE VIEW shop.report AS SELECT count(*) AS orders FROM shop.orders;
         CREATE MATERIALIZED VIEW shop.live AS SELECT sum(total) AS total FROM shop.orders;
         CREATE TABLE orders (id INTEGER PRIMARY KEY)",
    );
    run(
        &mut admin,
        "CREATE WORKLOAD CLASS reports SET 'PRIORITY' = '2';
         CREATE WORKLOAD CLASS bulk SET 'PRIORITY' = '1';
         CREATE WORKLOAD MAPPING r WORKLOAD CLASS reports SET 'SCHEMA NAME' = 'shop', 'OBJECT NAME' = 'report';
         CREATE WORKLOAD MAPPING o WORKLOAD CLASS bulk SET 'SCHEMA NAME' = 'shop', 'OBJECT NAME' = 'orders'",
    );
    let (mut session, mut watcher) = (db.session(), db.session());
    let mut class_of = |text: &str| {
        run(&mut session, text);
        class_of_last(&mut watcher, &session)
    };
    for (text, class) in [
        ("SELECT * FROM shop.report", "reports"),
        ("SELECT 1", "_DEFAULT"),
        ("SELECT * FROM orders", "_DEFAULT"),
        ("SELECT * FROM shop.live", "_DEFAULT"),
        ("SELECT * FROM shop.orders WHERE id = 3", "bulk"),
        ("SELECT * FROM n WHERE i = 3", "_DEFAULT"),
        ("INSERT INTO shop.orders VALUES (1, 2)", "bulk"),
        ("UPDATE shop.orders SET total = 3 WHERE id = 1", "bulk"),
        (
            "WITH w AS (SELECT * FROM shop.orders) SELECT count(*) FROM w, n WHERE w.id = n.i",
            "bulk",
        ),
        ("WITH orders AS (SELECT 1 AS id) SELECT * FROM orders", "_DEFAULT"),
        ("EXPLAIN SELECT * FROM shop.report", "reports"),
        ("SELECT 1 WHERE EXISTS (SELECT 1 FROM shop.report)", "reports"),
        ("SET search_path = shop, public", "_DEFAULT"),
        ("SELECT * FROM report", "reports"),
        ("SELECT * FROM orders", "bulk"),
        ("WITH orders AS (SELECT 1 AS id) SELECT * FROM orders", "_DEFAULT"),
        ("MERGE INTO orders USING n ON id = i WHEN MATCHED THEN DELETE", "bulk"),
        ("DELETE FROM orders", "bulk"),
    ] {
        assert_eq!(class_of(text), class, "{text}");
    }
    // A prepared statement keeps the objects that it names, whatever runs between.
    class_of("PREPARE p AS SELECT count(*) FROM orders");
    assert_eq!(class_of("SELECT 1"), "_DEFAULT");
    assert_eq!(class_of("EXECUTE p"), "bulk");
    // Objects come and go, and take new names; mappings ask by name.
    run(
        &mut admin,
        "DROP VIEW shop.report; DROP MATERIALIZED VIEW shop.live; ALTER TABLE shop.orders RENAME TO others",
    );
    assert_eq!(class_of("SELECT count(*) FROM others"), "_DEFAULT");
    run(&mut admin, "CREATE TABLE shop.orders (id INTEGER PRIMARY KEY)");
    assert_eq!(class_of("SELECT count(*) FROM shop.orders"), "bulk");
    run(&mut admin, "ALTER WORKLOAD MAPPING o DISABLE");
    assert_eq!(class_of("SELECT count(*) FROM shop.orders"), "_DEFAULT");
}

#[test]
fn a_statement_is_in_no_higher_class_by_the_tables_that_it_names() {
    let (db, mut admin) = database();
    run(
        &mut admin,
        "CREATE WORKLOAD CLASS hot SET 'PRIORITY' = '8';
         CREATE WORKLOAD MAPPING h WORKLOAD CLASS hot SET 'SCHEMA NAME' = 'public', 'OBJECT NAME' = 'n';
         CREATE ROLE ann; GRANT SELECT ON n, big TO ann",
    );
    let mut session = db.session();
    run(&mut session, "SET ROLE ann");
    run(&mut session, "SELECT count(*) FROM big, n WHERE n.i = 1");
    assert_eq!(class_of_last(&mut admin, &session), "_DEFAULT");
    run(&mut admin, "GRANT USAGE ON WORKLOAD CLASS hot TO ann");
    run(&mut session, "SELECT count(*) FROM big, n WHERE n.i = 1");
    assert_eq!(class_of_last(&mut admin, &session), "hot");
}

#[test]
fn cursors_that_nobody_reads_are_closed_as_their_class_says() {
    let (db, mut admin) = database();
    run(
        &mut admin,
        "CREATE WORKLOAD CLASS brief SET 'IDLE CURSOR LIFETIME' = '50ms';
         CREATE WORKLOAD MAPPING m WORKLOAD CLASS brief SET 'APPLICATION NAME' = 'report'",
    );
    for (application, is_closed) in [("report", true), ("other", false)] {
        let mut session = of(&db, application);
        run(&mut session, "BEGIN; DECLARE c CURSOR FOR SELECT i FROM n ORDER BY i");
        run(&mut session, "DECLARE h CURSOR WITH HOLD FOR SELECT i FROM n ORDER BY i");
        assert_eq!(one(&mut session, "FETCH 1 FROM c"), "1");
        std::thread::sleep(Duration::from_millis(100));
        let left = one(&mut session, "SELECT count(*) FROM pg_cursors");
        assert_eq!(left, if is_closed { "0" } else { "2" });
        let told: Vec<String> =
            session.take_notices().iter().map(|notice| notice.message().to_owned()).collect();
        assert_eq!(told.len(), if is_closed { 2 } else { 0 }, "{told:?}");
        if is_closed {
            let error = refused(&mut session, "FETCH 1 FROM c");
            assert_eq!(error.state(), SqlState::INVALID_CURSOR_NAME, "{error:?}");
        }
        run(&mut session, "ROLLBACK");
    }
}

#[test]
fn definitions_change_under_load_and_no_statement_fails() {
    let (db, mut admin) = database();
    run(
        &mut admin,
        "CREATE WORKLOAD CLASS top SET 'TOTAL STATEMENT THREAD LIMIT' = '4';
         CREATE WORKLOAD CLASS low PARENT top SET 'CONCURRENCY LIMIT' = '2', 'PRIORITY' = '2';
         CREATE WORKLOAD MAPPING m WORKLOAD CLASS low SET 'APPLICATION NAME' = 'load'",
    );
    let stops = AtomicBool::new(false);
    let changes = [
        "ALTER WORKLOAD CLASS low SET 'CONCURRENCY LIMIT' = '1'",
        "ALTER WORKLOAD CLASS low SET 'CONCURRENCY LIMIT' = '6', 'PRIORITY' = '7'",
        "ALTER WORKLOAD CLASS top SET 'TOTAL STATEMENT THREAD LIMIT' = '1'",
        "ALTER WORKLOAD CLASS top SET 'TOTAL STATEMENT THREAD LIMIT' = '8'",
        "ALTER WORKLOAD CLASS low SET 'STATEMENT THREAD LIMIT' = '1', 'PRIORITY' = '1'",
        "ALTER WORKLOAD CLASS low DISABLE",
        "ALTER WORKLOAD CLASS low ENABLE",
        "ALTER WORKLOAD MAPPING m DISABLE",
        "ALTER WORKLOAD MAPPING m ENABLE",
        "ALTER WORKLOAD CLASS low SET 'LATENCY TARGET P99' = '10s'",
        "ALTER WORKLOAD CLASS low ADD RULE r WHEN STATEMENT CPU TIME > 1h THEN CANCEL",
        "ALTER WORKLOAD CLASS low DROP RULE r",
        "CREATE WORKLOAD CLASS other; CREATE WORKLOAD MAPPING o WORKLOAD CLASS other SET 'APPLICATION NAME' = 'load', 'DATABASE NAME' = 'halcyon'",
        "DROP WORKLOAD MAPPING o; DROP WORKLOAD CLASS other",
    ];
    let ran = std::thread::scope(|scope| {
        let load = |number: usize| {
            let mut session = of(&db, "load");
            let stops = &stops;
            move || {
                let mut ran = 0;
                while !stops.load(Ordering::Relaxed) {
                    let text = match (number + ran) % 3 {
                        0 => "SELECT count(*) FROM big WHERE k = 3",
                        1 => "SELECT i FROM n WHERE i = 7",
                        _ => "UPDATE n SET i = i WHERE i = 9",
                    };
                    run(&mut session, text);
                    ran += 1;
                }
                ran
            }
        };
        let loads: Vec<_> = (0..6).map(|number| scope.spawn(load(number))).collect();
        for round in 0..20 {
            for at in 0..changes.len() {
                // Every other round in another order; a change that does not fit then is refused.
                let at = if round % 2 == 0 { at } else { at * 5 % changes.len() };
                let _ = admin.batch(changes[at]);
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        // What is defined last holds for the next statement of every session.
        for text in [
            "ALTER WORKLOAD CLASS low ENABLE",
            "ALTER WORKLOAD MAPPING m ENABLE",
            "DROP WORKLOAD MAPPING o",
            "ALTER WORKLOAD CLASS low SET 'CONCURRENCY LIMIT' = '3', 'PRIORITY' = '4'",
        ] {
            let _ = admin.batch(text);
        }
        let mut session = of(&db, "load");
        let limits = "SELECT string_agg(value, ' ' ORDER BY property) FROM halcyon.m_workload_effective
                      WHERE connection_id = pg_backend_pid() AND property IN ('CONCURRENCY LIMIT', 'PRIORITY')";
        assert_eq!(one(&mut session, limits), "3 4");
        stops.store(true, Ordering::Relaxed);
        loads.into_iter().map(|load| load.join().expect("no statement fails")).sum::<usize>()
    });
    assert!(ran > 100, "{ran} statements ran beside the changes");
    let left = "SELECT sum(current_running), sum(current_queue_size) FROM halcyon.m_admission_control_statistics
                WHERE workload_class_name IN ('low', 'top')";
    assert_eq!(one(&mut admin, left), "0|0");
}

/// A statement of many steps on the workers, which a test cancels.
const ENDLESS: &str = "SELECT count(*) FROM big a JOIN big b ON a.k = b.k JOIN big c ON a.k = c.k WHERE a.i + b.i + c.i < 0";

/// The bands of running statements of a class, as `halcyon.tasks` has them.
fn bands(class: &str) -> String {
    format!("SELECT band FROM halcyon.tasks WHERE workload_class_name = '{class}'")
}

#[test]
fn a_statement_that_runs_follows_the_priority_of_its_class_and_rules_move_it() {
    let (db, mut admin) = database();
    run(
        &mut admin,
        "CREATE WORKLOAD CLASS batch SET 'PRIORITY' = '1'; CREATE WORKLOAD CLASS slow SET 'PRIORITY' = '5';
         CREATE WORKLOAD MAPPING m WORKLOAD CLASS batch SET 'APPLICATION NAME' = 'etl'",
    );
    let mut session = of(&db, "etl");
    let cancel = session.canceller();
    let statement =
        std::thread::spawn(move || session.query(ENDLESS, &[]).and_then(|rows| rows.collect()));
    until(&mut admin, &bands("batch"), "low");
    run(&mut admin, "ALTER WORKLOAD CLASS batch SET 'PRIORITY' = '7'");
    assert_eq!(one(&mut admin, &bands("batch")), "high");
    run(&mut admin, "ALTER WORKLOAD CLASS batch SET 'PRIORITY' = '0'");
    assert_eq!(one(&mut admin, &bands("batch")), "low");
    run(
        &mut admin,
        "ALTER WORKLOAD CLASS batch ADD RULE r WHEN STATEMENT ELAPSED TIME > 1ms THEN SWITCH TO slow",
    );
    until(&mut admin, &bands("slow"), "normal");
    cancel.cancel();
    let error = statement.join().expect("no panic").expect_err("it was cancelled");
    assert_eq!(error.state(), SqlState::QUERY_CANCELED);
}

#[test]
fn who_holds_a_lock_goes_on_with_the_priority_of_who_waits() {
    let (db, mut admin) = database();
    run(
        &mut admin,
        "CREATE WORKLOAD CLASS web SET 'PRIORITY' = '8'; CREATE WORKLOAD CLASS batch SET 'PRIORITY' = '1';
         CREATE WORKLOAD MAPPING w WORKLOAD CLASS web SET 'APPLICATION NAME' = 'web';
         CREATE WORKLOAD MAPPING b WORKLOAD CLASS batch SET 'APPLICATION NAME' = 'etl';
         CREATE TABLE other (i INTEGER PRIMARY KEY); INSERT INTO other VALUES (1)",
    );
    // One holds a lock, another waits for the lock and holds one for which the web waits.
    let (mut first, mut second) = (of(&db, "etl"), of(&db, "etl"));
    run(&mut first, "BEGIN; UPDATE n SET i = i WHERE i = 1");
    run(&mut second, "BEGIN; UPDATE other SET i = i WHERE i = 1");
    let cancel = first.canceller();
    let running = std::thread::spawn(move || {
        let ended = first.query(ENDLESS, &[]).and_then(|rows| rows.collect()).err();
        run(&mut first, "ROLLBACK");
        (ended, first)
    });
    until(&mut admin, &bands("batch"), "low");
    let second = std::thread::spawn(move || {
        run(&mut second, "UPDATE n SET i = i WHERE i = 2; COMMIT");
    });
    let waits = "SELECT count(*) FROM halcyon.sessions WHERE state = 'waiting for a lock'";
    until(&mut admin, waits, "1");
    assert_eq!(one(&mut admin, &bands("batch")), "low", "those of one band lend nothing");
    let web = start(&db, "web", "UPDATE other SET i = i WHERE i = 1");
    until(&mut admin, &bands("batch"), "high");
    cancel.cancel();
    let (ended, mut first) = running.join().expect("no panic");
    assert_eq!(ended.expect("it was cancelled").state(), SqlState::QUERY_CANCELED);
    second.join().expect("its lock came");
    let told = web.recv().expect("told").err();
    assert_eq!(told.expect("there are no rows").state(), SqlState::NO_DATA, "its lock came");
    // What was lent went back with the lock.
    let cancel = first.canceller();
    let next =
        std::thread::spawn(move || first.query(ENDLESS, &[]).and_then(|rows| rows.collect()));
    until(&mut admin, &bands("batch"), "low");
    cancel.cancel();
    assert!(next.join().expect("no panic").is_err());
}

#[test]
fn priorities_are_lent_to_idle_holders_and_to_who_stands_before_the_waiter() {
    let (db, mut admin) = database();
    run(
        &mut admin,
        "CREATE WORKLOAD CLASS web SET 'PRIORITY' = '8'; CREATE WORKLOAD CLASS batch SET 'PRIORITY' = '1';
         CREATE WORKLOAD MAPPING w WORKLOAD CLASS web SET 'APPLICATION NAME' = 'web';
         CREATE WORKLOAD MAPPING b WORKLOAD CLASS batch SET 'APPLICATION NAME' = 'etl'",
    );
    let waits = "SELECT count(*) FROM halcyon.sessions WHERE state = 'waiting for a lock'";
    let (mut holder, mut before) = (of(&db, "etl"), of(&db, "etl"));
    let (cancel_holder, cancel_before) = (holder.canceller(), before.canceller());
    run(&mut holder, "BEGIN; UPDATE n SET i = i WHERE i = 1");
    // One stands in the queue before the web, and will hold the lock while its tasks run.
    let before = std::thread::spawn(move || {
        let text = format!("INSERT INTO n SELECT 5000 + count FROM ({ENDLESS}) q");
        before.execute(text.as_str(), &[]).expect_err("it was cancelled")
    });
    until(&mut admin, waits, "1");
    let web = start(&db, "web", "UPDATE n SET i = i WHERE i = 3");
    until(&mut admin, waits, "2");
    // The holder, which did nothing when the web began to wait, runs in the band of the web, too.
    let holder = std::thread::spawn(move || {
        let ended = holder.query(ENDLESS, &[]).and_then(|rows| rows.collect());
        run(&mut holder, "ROLLBACK");
        ended.expect_err("it was cancelled")
    });
    until(&mut admin, &bands("batch"), "high");
    cancel_holder.cancel();
    assert_eq!(holder.join().expect("no panic").state(), SqlState::QUERY_CANCELED);
    until(&mut admin, waits, "1");
    until(&mut admin, &bands("batch"), "high");
    cancel_before.cancel();
    assert_eq!(before.join().expect("no panic").state(), SqlState::QUERY_CANCELED);
    let told = web.recv().expect("told").err();
    assert_eq!(told.expect("there are no rows").state(), SqlState::NO_DATA, "its lock came");
}

#[test]
fn a_write_that_lasts_takes_turns_with_statements_on_the_workers_and_is_read_as_it_was() {
    let (db, mut admin) = database();
    run(
        &mut admin,
        "CREATE WORKLOAD CLASS batch SET 'PRIORITY' = '1';
         CREATE WORKLOAD MAPPING m WORKLOAD CLASS batch SET 'APPLICATION NAME' = 'etl';
         CREATE TABLE wide (i INTEGER PRIMARY KEY, v BIGINT NOT NULL);
         INSERT INTO wide SELECT i, 0 FROM generate_series(1, 100000) AS g (i)",
    );
    let mut endless = of(&db, "etl");
    let cancel = endless.canceller();
    let endless = std::thread::spawn(move || {
        endless.query(ENDLESS, &[]).and_then(|rows| rows.collect()).map(|_| ())
    });
    until(&mut admin, &bands("batch"), "low");
    let mut writer = of(&db, "etl");
    let writes = |text: &'static str| {
        let mut session = of(&db, "etl");
        std::thread::spawn(move || session.execute(text, &[]).map(|_| ()))
    };
    let statements = [
        "UPDATE wide SET v = v + 1 WHERE i BETWEEN 1 AND 100000",
        "INSERT INTO wide SELECT i + 100000, 1 FROM wide",
        "DELETE FROM wide WHERE i > 100000",
    ];
    let groups = "SELECT count(*) FROM halcyon.tasks WHERE workload_class_name = 'batch'";
    let shown = "SELECT count(*), sum(v) FROM wide";
    let expected = ["100000|0", "100000|100000", "200000|200000", "100000|100000"];
    for (at, text) in statements.into_iter().enumerate() {
        let write = writes(text);
        while !write.is_finished() {
            // Who reads does not wait for the write, and sees nothing of it before its end.
            let read = one(&mut admin, shown);
            assert!(expected[at..=at + 1].contains(&read.as_str()), "{text}: {read}");
        }
        write.join().expect("no panic").unwrap_or_else(|error| panic!("{text}: {error:?}"));
        assert_eq!(one(&mut admin, shown), expected[at + 1]);
    }
    // The group of its turns is there while it lasts.
    let mut rounds = 0;
    let mut is_seen = false;
    while !is_seen {
        rounds += 1;
        assert!(rounds < 200, "no write takes turns");
        let write = writes("UPDATE wide SET v = v WHERE i BETWEEN 1 AND 100000");
        while !write.is_finished() {
            is_seen |= one(&mut admin, groups) != "1";
        }
        write.join().expect("no panic").expect("it is written");
    }
    // What it has changed so far is undone with it.
    run(&mut writer, "BEGIN; UPDATE wide SET v = v + 1; ROLLBACK");
    assert_eq!(one(&mut admin, shown), expected[3]);
    cancel.cancel();
    endless.join().expect("no panic").expect_err("it was cancelled");
}
