//! Views of what workload classes do to statements.

use std::time::Duration;

use halcyon::{Database, Session};

use super::{Look, now, one, run, until};

const MAPPED: &str =
    "CREATE WORKLOAD MAPPING m WORKLOAD CLASS batch SET 'APPLICATION NAME' = 'etl'";

/// A database with a table and a class `batch` of these settings, to which the application `etl` is mapped.
fn database(settings: &str) -> (Database, Session) {
    let database = Database::in_memory();
    let mut watcher = database.session();
    run(
        &mut watcher,
        &format!(
            "CREATE TABLE n AS SELECT g AS i, g % 97 AS k FROM generate_series(1, 200000) AS g;
             CREATE WORKLOAD CLASS batch SET {settings}; {MAPPED}"
        ),
    );
    (database, watcher)
}

fn etl(database: &Database) -> Session {
    let mut session = database.session();
    run(&mut session, "SET application_name = 'etl'");
    session
}

pub(super) fn limits_in_force(look: &mut Look) {
    let (database, mut watcher) = database("'STATEMENT THREAD LIMIT' = 1");
    let mut session = etl(&database);
    run(&mut session, "SELECT count(*) FROM n");
    let of = format!("connection_id = {} AND property = 'STATEMENT THREAD LIMIT'", session.id());
    assert_eq!(look.at(&mut watcher, "connection_id", &of), session.id().to_string());
    assert_eq!(look.at(&mut watcher, "user_name", &of), "halcyon");
    assert_eq!(look.at(&mut watcher, "workload_class_name", &of), "batch");
    assert_eq!(look.at(&mut watcher, "workload_mapping_name", &of), "m");
    assert!(look.at(&mut watcher, "reason", &of).contains("mapping \"m\""));
    assert_eq!(look.at(&mut watcher, "property", &of), "STATEMENT THREAD LIMIT");
    assert_eq!(look.at(&mut watcher, "value", &of), "1");
    assert_eq!(look.at(&mut watcher, "origin", &of), "batch");
}

/// Brings statements of the class to its gate: one that runs, one that waits, one that is turned away. Gives the
/// moments around the wait.
fn at_the_gate(mut seen: impl FnMut(&mut Session)) -> (Database, Session) {
    let (database, mut watcher) = database("'CONCURRENCY LIMIT' = 1, 'QUEUE LIMIT' = 1");
    let mut inside = etl(&database);
    let mut rows = inside.query("SELECT i FROM n", &[]).expect("it is let in");
    rows.next().expect("it runs");
    let mut waits = etl(&database);
    let wait = std::thread::spawn(move || waits.query("SELECT sum(i) FROM n", &[]).map(|_| ()));
    until("it waits", || {
        one(&mut watcher, "SELECT count(*)::text FROM halcyon.m_admission_control_queues") == "1"
    });
    let refused = etl(&database).query("SELECT min(i) FROM n", &[]).map(|_| ());
    refused.expect_err("there is no room");
    std::thread::sleep(Duration::from_millis(20));
    seen(&mut watcher);
    drop(rows);
    wait.join().expect("no panic").expect("it is let in then");
    (database, watcher)
}

pub(super) fn counts_of_the_gate(look: &mut Look) {
    let of = "workload_class_name = 'batch'";
    let (_database, mut watcher) = at_the_gate(|watcher| {
        assert_eq!(look.at(watcher, "workload_class_name", of), "batch");
        assert_eq!(look.at(watcher, "admit_count", of), "1");
        assert_eq!(look.at(watcher, "reject_count", of), "1");
        assert_eq!(look.at(watcher, "current_queue_size", of), "1");
        assert_eq!(look.at(watcher, "current_running", of), "1");
        assert_eq!(look.at(watcher, "dequeue_count", of), "0");
    });
    assert_eq!(look.at(&mut watcher, "enqueue_count", of), "1");
    assert_eq!(look.at(&mut watcher, "dequeue_count", of), "1");
    let waits = ["last_wait_ms", "avg_wait_ms", "max_wait_ms", "min_wait_ms", "sum_wait_ms"];
    let waits = waits.map(|column| look.number(&mut watcher, column, of));
    assert!(waits.iter().all(|wait| *wait == waits[0] && *wait > 20.0), "one wait: {waits:?}");
}

pub(super) fn waits_that_end_otherwise(look: &mut Look) {
    let of = "workload_class_name = 'batch'";
    let (database, mut watcher) = database("'CONCURRENCY LIMIT' = 1, 'QUEUE TIMEOUT' = '30ms'");
    let mut inside = etl(&database);
    let mut rows = inside.query("SELECT i FROM n", &[]).expect("it is let in");
    rows.next().expect("it runs");
    etl(&database).query("SELECT 1 FROM n", &[]).map(|_| ()).expect_err("it waits too long");
    assert_eq!(look.at(&mut watcher, "timeout_count", of), "1");
    run(&mut watcher, "ALTER WORKLOAD CLASS batch SET 'QUEUE TIMEOUT' = '1h'");
    let mut hurried = etl(&database);
    run(&mut hurried, "SET statement_timeout = 500");
    hurried.query("SELECT 1 FROM n", &[]).map(|_| ()).expect_err("its time is over");
    assert_eq!(look.at(&mut watcher, "cancel_count", of), "1");
}

pub(super) fn the_queue(look: &mut Look) {
    let mut looked = false;
    at_the_gate(|watcher| {
        let session = look.at(watcher, "connection_id", "");
        let of = format!("session = {session} AND application = 'etl'");
        let of = format!("SELECT count(*)::text FROM halcyon.sessions WHERE {of}");
        assert_eq!(one(watcher, &of), "1");
        assert_eq!(look.at(watcher, "workload_class_name", ""), "batch");
        assert_eq!(look.at(watcher, "user_name", ""), "halcyon");
        assert_eq!(look.at(watcher, "statement_string", ""), "SELECT sum(i) FROM n");
        let since = look.at(watcher, "enqueue_time", "");
        assert!(since < now(watcher), "{since}");
        let until = look.at(watcher, "queue_timeout_time", "");
        assert!(until > now(watcher), "ten minutes later: {until}");
        looked = true;
    });
    assert!(looked);
}

pub(super) fn decisions(look: &mut Look) {
    let (_database, mut watcher) = at_the_gate(|_| {});
    let of = "event_type = 'REJECT'";
    assert_eq!(look.at(&mut watcher, "event_type", of), "REJECT");
    assert_eq!(look.at(&mut watcher, "event_reason", of), "the class's queue is full");
    assert_eq!(look.at(&mut watcher, "workload_class_name", of), "batch");
    assert_ne!(look.at(&mut watcher, "connection_id", of), watcher.id().to_string());
    let at = look.at(&mut watcher, "event_time", of);
    assert!(at < now(&mut watcher), "{at}");
    assert!(look.number(&mut watcher, "wait_ms", "event_type = 'DEQUEUE'") > 20.0);
}

pub(super) fn what_classes_take(look: &mut Look) {
    let (database, mut watcher) = database("'TOTAL STATEMENT THREAD LIMIT' = 1");
    let of = "workload_class_name = 'batch'";
    let mut session = etl(&database);
    let many = "SELECT count(*) FROM n a, n b WHERE a.k = b.k AND a.i < 2000";
    let count = session.query(many, &[]).expect("runs").collect().expect("a row");
    assert_eq!(count.len(), 1);
    session
        .query("SELECT 1 / (i - i) FROM n", &[])
        .and_then(|rows| rows.collect())
        .expect_err("22012");
    assert_eq!(look.at(&mut watcher, "workload_class_name", of), "batch");
    assert_eq!(look.at(&mut watcher, "statement_count", of), "2");
    assert_eq!(look.at(&mut watcher, "error_count", of), "1");
    assert_eq!(look.at(&mut watcher, "running_statements", of), "0");
    assert_eq!(look.at(&mut watcher, "thread_limit", of), "1");
    assert!(look.number(&mut watcher, "busy_ms", of) > 1.0);
    assert!(look.number(&mut watcher, "ready_wait_p99_ms", of) > 0.0);
    let sorted = "SELECT i, repeat('x', 200) AS t FROM n ORDER BY t, i DESC";
    let mut rows = session.query(sorted, &[]).expect("runs");
    rows.next().expect("a row");
    assert_eq!(look.at(&mut watcher, "running_statements", of), "1");
    assert!(look.number(&mut watcher, "used_memory", of) > 1e6, "rows that were sorted");
    drop(rows);
}

pub(super) fn how_long_statements_take(look: &mut Look) {
    let (database, mut watcher) = database("'LATENCY TARGET P95' = '1s'");
    let of = "workload_class_name = 'batch'";
    let mut session = etl(&database);
    for statement in 0..40 {
        let wait = if statement == 7 { "0.2" } else { "0.0" };
        run(&mut session, &format!("SELECT pg_sleep({wait}), count(*) FROM n WHERE i < 10"));
    }
    assert_eq!(look.at(&mut watcher, "workload_class_name", of), "batch");
    assert_eq!(look.at(&mut watcher, "statement_count", of), "40");
    let window = look.number(&mut watcher, "window_s", of);
    assert!((1.0..=60.0).contains(&window), "{window}");
    let quantiles = ["p50_ms", "p95_ms", "p99_ms", "p999_ms"];
    let quantiles = quantiles.map(|column| look.number(&mut watcher, column, of));
    assert!(quantiles.is_sorted() && quantiles[0] > 0.0, "{quantiles:?}");
    assert!((190.0..60_000.0).contains(&quantiles[3]), "one statement slept: {quantiles:?}");
    assert_eq!(look.at(&mut watcher, "target", of), "P95 1s");
    assert_eq!(look.at(&mut watcher, "attainment", of), "100");
}

pub(super) fn a_target_that_is_missed(look: &mut Look) {
    let (database, mut watcher) = database("'PRIORITY' = 8, 'LATENCY TARGET P50' = '200ms'");
    let of = "workload_class_name = 'batch'";
    let mut session = etl(&database);
    let mut ask =
        |time: &str| run(&mut session, &format!("SELECT pg_sleep({time}), count(*) FROM n"));
    // What the class needs while nothing else runs: far less than the target, on a slow machine as well.
    for _ in 0..100 {
        ask("0.01");
    }
    assert_eq!(look.at(&mut watcher, "workload_class_name", of), "batch");
    assert_eq!(look.at(&mut watcher, "quantile", of), "P50");
    assert_eq!(look.at(&mut watcher, "target_ms", of), "200");
    let endless = database.session();
    let stop = endless.canceller();
    let others = std::thread::spawn(move || {
        let mut endless = endless;
        let text = "SELECT count(*) FROM n a, n b WHERE a.i * b.i % 7 = 3";
        endless.query(text, &[]).and_then(|rows| rows.collect()).map(|_| ())
    });
    until("the class misses its target", || {
        ask("0.4");
        look.number(&mut watcher, "threads_given_up", of) > 0.0
    });
    assert!(look.number(&mut watcher, "measured_ms", of) > 200.0);
    assert_eq!(look.at(&mut watcher, "state", of), "STEERING");
    assert!(look.at(&mut watcher, "last_action", of).contains("worker threads"));
    assert_ne!(look.at(&mut watcher, "reason", of), "NULL");
    until("the other statement can be cancelled", || {
        stop.cancel();
        others.is_finished()
    });
    others.join().expect("no panic").expect_err("it was cancelled");
}
