//! Values of the system views: every column of every view of schema `halcyon` is seen with a value
//! that only the situation explains, not the one that an engine at rest, or a constant, would show.
//!
//! [`SITUATIONS`] lists what is seen where. `every_column_is_seen` compares it with the columns that
//! the database has, so that a new column demands a test; [`Look::at`] notes what a test looked at,
//! and a situation that leaves out one of its columns fails.

use std::alloc::System;
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use halcyon::{
    Counted, Database, DatabaseOptions, Session, SqlState, Value, Workers, params, testing,
};

#[path = "system_views/caches.rs"]
mod caches;
#[path = "system_views/cells.rs"]
mod cells;
#[path = "system_views/class_state.rs"]
mod class_state;
#[path = "../../txn/tests/crashes/disk.rs"]
#[expect(dead_code, reason = "crashes and flipped bits are for the tests of txn")]
mod disk;
#[path = "system_views/progress.rs"]
mod progress;
#[path = "system_views/workload.rs"]
mod workload;

use disk::{Fault, SimDisk};

/// Accounts of memory show what this allocator counts.
#[global_allocator]
static ALLOCATOR: Counted<System> = Counted(System);

/// View, columns, and the test in which they are seen.
type Situation = (&'static str, &'static [&'static str], fn(&mut Look));

const SITUATIONS: &[Situation] = &[
    ("sessions", &["session", "role", "application", "started", "statement"], who_is_there),
    ("sessions", &["state", "transaction", "transaction_started"], what_sessions_do),
    ("statements", &["statement", "executor", "calls", "errors", "rows"], counts_of_statements),
    ("statements", &["total_ms", "mean_ms", "max_ms"], times_of_statements),
    ("statements", &["plan_hits", "plan_misses", "last_miss"], plans_of_statements),
    ("locks", &["schema", "relation", "partition", "partition_id", "mode"], a_lock_held),
    ("locks", &["transaction", "session", "granted"], a_lock_awaited),
    ("workers", &["worker", "plane", "island", "processors", "state"], who_works),
    ("workers", &["session", "tasks", "suspensions", "busy_ms", "longest_ms"], what_workers_did),
    ("workers", &["run_delay_ms", "sleeps"], workers_that_wait),
    (
        "noise",
        &["processor", "cause", "interruptions", "total_ms", "worst_ms", "last"],
        what_interrupts_the_server,
    ),
    (
        "cache",
        &[
            "group",
            "cache",
            "state",
            "reason",
            "mask",
            "ways",
            "processors",
            "occupancy_bytes",
            "memory_bytes",
            "source",
        ],
        caches::what_fills_the_caches,
    ),
    (
        "interference",
        &["operator", "partner", "slowdown", "cache_use", "contradicted"],
        caches::what_operators_cost_each_other,
    ),
    (
        "tasks",
        &[
            "session",
            "statement",
            "started",
            "tasks",
            "running",
            "workers",
            "workload_class_name",
            "band",
            "cache_use",
        ],
        tasks_of_a_query,
    ),
    (
        "progress",
        &[
            "session",
            "command",
            "schema",
            "relation",
            "unit",
            "bytes",
            "rows",
            "rows_excluded",
            "started",
        ],
        progress::a_copy_half_way,
    ),
    (
        "progress",
        &["work", "part_of", "index", "phase", "done", "total", "percent", "phase_started"],
        progress::an_index_half_way,
    ),
    ("transactions", &["transaction", "session", "isolation", "started", "locks"], a_transaction),
    ("memory", &["schema", "relation", "partition", "partition_id", "rows"], memory_of_partitions),
    ("memory", &["index", "segments", "free_slots", "bytes"], memory_of_rows_and_indexes),
    ("memory_accounts", &["account", "session", "bytes"], memory_of_sessions),
    ("memory_accounts", &["limit_bytes", "refusals"], limits_of_memory),
    ("views", &["schema", "view", "rows", "bytes", "map_bytes", "events"], views_that_grow),
    ("views", &["event_ns_p50", "event_ns_p99", "event_ns_max"], times_of_events),
    (
        "cells",
        &["schema", "view", "place", "cpu", "memory_bytes", "events", "heartbeat", "log_bytes"],
        cells::what_cells_do,
    ),
    ("cells", &["state", "restarts", "fault"], cells::a_cell_that_breaks),
    ("log", &["end_lsn", "durable_lsn", "bytes", "commits", "syncs", "sync_ms"], a_log_that_grows),
    ("log", &["checkpoint_lsn", "checkpointed", "files"], a_checkpoint),
    ("log", &["error"], a_disk_that_fails),
    ("settings", &["name", "value", "default_value", "unit", "type"], settings_that_differ),
    ("settings", &["scope", "description"], kinds_of_settings),
    (
        "m_workload_effective",
        &[
            "connection_id",
            "user_name",
            "workload_class_name",
            "workload_mapping_name",
            "reason",
            "property",
            "value",
            "origin",
        ],
        class_state::limits_in_force,
    ),
    (
        "m_admission_control_statistics",
        &[
            "workload_class_name",
            "admit_count",
            "reject_count",
            "enqueue_count",
            "dequeue_count",
            "current_queue_size",
            "current_running",
            "last_wait_ms",
            "avg_wait_ms",
            "max_wait_ms",
            "min_wait_ms",
            "sum_wait_ms",
        ],
        class_state::counts_of_the_gate,
    ),
    (
        "m_admission_control_statistics",
        &["timeout_count", "cancel_count"],
        class_state::waits_that_end_otherwise,
    ),
    (
        "m_admission_control_queues",
        &[
            "connection_id",
            "workload_class_name",
            "user_name",
            "enqueue_time",
            "queue_timeout_time",
            "statement_string",
        ],
        class_state::the_queue,
    ),
    (
        "m_admission_control_events",
        &[
            "event_time",
            "event_type",
            "event_reason",
            "workload_class_name",
            "connection_id",
            "wait_ms",
        ],
        class_state::decisions,
    ),
    (
        "m_workload_class_statistics",
        &[
            "workload_class_name",
            "running_statements",
            "statement_count",
            "error_count",
            "busy_ms",
            "ready_wait_p99_ms",
            "used_memory",
            "thread_limit",
        ],
        class_state::what_classes_take,
    ),
    (
        "m_workload_class_latency",
        &[
            "workload_class_name",
            "statement_count",
            "window_s",
            "p50_ms",
            "p95_ms",
            "p99_ms",
            "p999_ms",
            "target",
            "attainment",
        ],
        class_state::how_long_statements_take,
    ),
    (
        "m_workload_controller",
        &[
            "workload_class_name",
            "quantile",
            "target_ms",
            "measured_ms",
            "state",
            "last_action",
            "reason",
            "threads_given_up",
        ],
        class_state::a_target_that_is_missed,
    ),
    (
        "workload_classes",
        &[
            "workload_class_name",
            "priority",
            "statement_memory_limit",
            "statement_memory_limit_unit",
            "statement_thread_limit",
            "statement_thread_limit_unit",
            "total_statement_memory_limit",
            "total_statement_memory_limit_unit",
            "total_statement_thread_limit",
            "total_statement_thread_limit_unit",
            "statement_timeout",
            "write_transaction_lifetime",
            "idle_cursor_lifetime",
            "parent_workload_class_name",
            "admission_control_reject_cpu_threshold",
            "admission_control_queue_cpu_threshold",
            "admission_control_reject_memory_threshold",
            "admission_control_queue_memory_threshold",
            "is_enabled",
        ],
        workload::classes_of_hana,
    ),
    (
        "workload_classes",
        &[
            "latency_target_p50",
            "latency_target_p95",
            "latency_target_p99",
            "latency_target_p999",
            "concurrency_limit",
            "queue_limit",
            "queue_timeout",
            "connection_limit",
            "cache_class",
            "floor",
            "auto_class",
            "rules",
            "granted_to",
        ],
        workload::classes_of_ours,
    ),
    (
        "workload_mappings",
        &[
            "workload_mapping_name",
            "workload_class_name",
            "user_name",
            "application_name",
            "schema_name",
            "object_name",
            "client",
            "wildcard",
            "usergroup_name",
            "xs_application_user_name",
            "application_user_name",
            "application_component_name",
            "application_component_type",
            "application_source",
            "database_name",
            "application_tenant_name",
            "is_enabled",
        ],
        workload::mappings,
    ),
];

/// Columns whose values are seen in tests/door/figures.rs, with the state of a transaction that failed.
const ELSEWHERE: &[(&str, &str)] = &[
    ("sessions", "client"),
    ("sessions", "statement_started"),
    ("transactions", "read_only"),
    ("transactions", "undo_records"),
];

/// A session that looks at views, and notes the columns that it has seen.
struct Look {
    view: &'static str,
    seen: BTreeSet<&'static str>,
}

impl Look {
    /// The value of a column as text, NULL spelled out, in the one row that `of` names.
    fn at(&mut self, watcher: &mut Session, column: &'static str, of: &str) -> String {
        self.seen.insert(column);
        let of = if of.is_empty() { String::new() } else { format!(" WHERE {of}") };
        one(watcher, &format!("SELECT \"{column}\"::text FROM halcyon.{}{of}", self.view))
    }

    /// The value of a column as a number.
    fn number(&mut self, watcher: &mut Session, column: &'static str, of: &str) -> f64 {
        let text = self.at(watcher, column, of);
        text.parse().unwrap_or_else(|_| panic!("{column} of {} is {text}", self.view))
    }
}

fn rows(session: &mut Session, text: &str) -> Vec<String> {
    let show = |value: &Value| match value {
        Value::Null => "NULL".to_owned(),
        Value::Text(text) => text.to_string(),
        Value::Int64(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let all = session.query(text, &[]).and_then(|rows| rows.collect());
    let all = all.unwrap_or_else(|error| panic!("{text}: {error}"));
    all.iter().map(|row| row.iter().map(show).collect::<Vec<_>>().join("|")).collect()
}

fn one(session: &mut Session, text: &str) -> String {
    let mut rows = rows(session, text);
    assert_eq!(rows.len(), 1, "{text} gives {rows:?}");
    rows.remove(0)
}

fn run(session: &mut Session, text: &str) {
    session.batch(text).unwrap_or_else(|error| panic!("{text}: {error}"));
}

/// The moment now, as the database writes it.
fn now(session: &mut Session) -> String {
    one(session, "SELECT clock_timestamp()::text")
}

/// Repeats `ask` until it says so. Panics after a minute.
fn until(what: &str, mut ask: impl FnMut() -> bool) {
    let began = Instant::now();
    while !ask() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn see(view: &str) {
    let situations: Vec<_> = SITUATIONS.iter().filter(|(of, ..)| *of == view).collect();
    assert!(!situations.is_empty());
    for (view, columns, situation) in situations {
        let mut look = Look { view, seen: BTreeSet::new() };
        situation(&mut look);
        let wanted: BTreeSet<&str> = columns.iter().copied().collect();
        assert_eq!(look.seen, wanted, "columns of {view} that this situation is listed for");
    }
}

macro_rules! views {
    ($($view:ident)+) => {
        $(#[test]
        fn $view() {
            see(stringify!($view));
        })+
    };
}

views! { sessions statements locks workers noise cache interference tasks progress transactions memory memory_accounts views log settings workload_classes workload_mappings
m_workload_effective m_admission_control_statistics m_admission_control_queues m_admission_control_events
m_workload_class_statistics m_workload_class_latency m_workload_controller }

#[test]
fn every_column_is_seen() {
    let mut session = Database::in_memory().session();
    let columns = "SELECT table_name || '.' || column_name FROM information_schema.columns
                   WHERE table_schema = 'halcyon'";
    let there: BTreeSet<String> = rows(&mut session, columns).into_iter().collect();
    let listed = SITUATIONS
        .iter()
        .flat_map(|(view, columns, _)| columns.iter().map(move |column| (*view, *column)));
    let seen: BTreeSet<String> = listed
        .chain(ELSEWHERE.iter().copied())
        .map(|(view, column)| format!("{view}.{column}"))
        .collect();
    assert_eq!(seen, there, "on the left what tests see, on the right what there is");
    assert!(there.len() > 60, "the comparison compares something");
}

fn who_is_there(look: &mut Look) {
    let database = Database::in_memory();
    let mut watcher = database.session();
    run(&mut watcher, "CREATE ROLE clerk LOGIN");
    let before = now(&mut watcher);
    std::thread::sleep(Duration::from_millis(2));
    let mut clerk = database.session_as("clerk").expect("it may log in");
    run(&mut clerk, "SET application_name = 'till'; SELECT 17");
    let of = format!("session = {}", clerk.id());
    assert_eq!(
        look.at(&mut watcher, "session", &of),
        one(&mut clerk, "SELECT pg_backend_pid()::text")
    );
    assert_eq!(look.at(&mut watcher, "role", &of), "clerk");
    let own = format!("session = {}", watcher.id());
    run(&mut watcher, "SET ROLE clerk");
    assert_eq!(look.at(&mut watcher, "role", &own), "clerk");
    assert_eq!(
        one(
            &mut clerk,
            &format!("SELECT usename FROM pg_stat_activity WHERE pid = {}", watcher.id())
        ),
        "halcyon"
    );
    run(&mut watcher, "RESET ROLE");
    assert_eq!(look.at(&mut watcher, "role", &own), "halcyon");
    assert_eq!(look.at(&mut watcher, "application", &of), "till");
    run(&mut clerk, "SELECT 18");
    assert_eq!(look.at(&mut watcher, "statement", &of), "SELECT 18");
    let started = look.at(&mut watcher, "started", &of);
    assert!(before < started && started < now(&mut watcher), "{before} {started}");
    let of = format!("session = {}", watcher.id());
    assert_eq!(look.at(&mut clerk, "statement", &of), "NULL", "it is another's");
}

fn what_sessions_do(look: &mut Look) {
    let database = Database::in_memory();
    let (mut watcher, mut writer, mut other) =
        (database.session(), database.session(), database.session());
    run(&mut watcher, "CREATE TABLE t (v INT); INSERT INTO t VALUES (1)");
    let of = format!("session = {}", writer.id());
    assert_eq!(look.at(&mut watcher, "state", &of), "idle");
    assert_eq!(look.at(&mut watcher, "transaction", &of), "NULL");
    assert_eq!(look.at(&mut watcher, "transaction_started", &of), "NULL");
    let before = now(&mut watcher);
    std::thread::sleep(Duration::from_millis(2));
    run(&mut writer, "BEGIN; UPDATE t SET v = 2");
    assert_eq!(look.at(&mut watcher, "state", &of), "idle in transaction");
    let number = one(&mut writer, "SELECT txid_current()::text");
    assert_eq!(look.at(&mut watcher, "transaction", &of), number);
    let started = look.at(&mut watcher, "transaction_started", &of);
    assert!(before < started && started < now(&mut watcher), "{before} {started}");
    let of_other = format!("session = {}", other.id());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| run(&mut other, "UPDATE t SET v = 3"));
        until("the other waits", || {
            look.at(&mut watcher, "state", &of_other) == "waiting for a lock"
        });
        run(&mut writer, "COMMIT");
        waiting.join().expect("the lock is free");
    });
    std::thread::scope(|scope| {
        let many = "INSERT INTO t SELECT n FROM generate_series(1, 1000000) n";
        let writing = scope.spawn(|| run(&mut writer, many));
        until("the writer is active", || {
            assert!(!writing.is_finished(), "nobody was active");
            look.at(&mut watcher, "state", &of) == "active"
        });
        writing.join().expect("rows fit");
    });
    rows_that_are_being_read(look, &mut watcher, &mut writer, &of);
}

/// The rows of a statement come as they are read: until they all have, it runs.
fn rows_that_are_being_read(
    look: &mut Look,
    watcher: &mut Session,
    reader: &mut Session,
    of: &str,
) {
    let many = "SELECT v, v + 1 FROM t WHERE v > 0";
    let mut rows = reader.query(many, &[]).expect("a plan");
    assert!(rows.is_streamed());
    assert_eq!(look.at(watcher, "state", of), "active", "no row is read yet");
    rows.next().expect("a row");
    assert_eq!(look.at(watcher, "state", of), "active");
    rows.set_aside();
    assert_eq!(look.at(watcher, "state", of), "idle");
    while rows.next().expect("a row").is_some() {
        assert!(rows.is_streamed());
    }
    assert_eq!(look.at(watcher, "state", of), "idle", "all have come");
    drop(rows);
    let rows = reader.query(many, &[]).expect("a plan");
    assert_eq!(look.at(watcher, "state", of), "active");
    drop(rows);
    assert_eq!(look.at(watcher, "state", of), "idle", "nobody wants the rest");
    run(reader, &format!("BEGIN; DECLARE c CURSOR FOR {many}; FETCH 2 FROM c"));
    assert_eq!(look.at(watcher, "state", of), "idle in transaction", "the cursor waits");
    run(reader, "COMMIT");
}

/// A database in which a session that has ended ran one statement three times, once in vain, and
/// another one.
fn after_statements() -> Session {
    let database = Database::in_memory();
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (v INT PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3)");
    let divide = session.prepare("SELECT 6 / (v - $1) FROM t WHERE v = $2").expect("a plan");
    for of in [2, 3] {
        session.query(&divide, params![1, of]).expect("one row");
    }
    session.query(&divide, params![2, 2]).map(|_| ()).expect_err("a division by zero");
    run(&mut session, "SELECT sum(a.v * b.v) FROM t a, t b");
    drop(session);
    database.session()
}

const DIVIDE: &str = "statement LIKE 'SELECT 6%'";

fn counts_of_statements(look: &mut Look) {
    let mut watcher = after_statements();
    assert!(look.at(&mut watcher, "statement", DIVIDE).ends_with("v = $2"));
    assert_eq!(look.at(&mut watcher, "executor", DIVIDE), "point");
    assert_eq!(look.at(&mut watcher, "executor", "statement LIKE 'SELECT sum%'"), "analytical");
    assert_eq!(look.at(&mut watcher, "calls", DIVIDE), "3");
    assert_eq!(look.at(&mut watcher, "errors", DIVIDE), "1");
    assert_eq!(look.at(&mut watcher, "rows", DIVIDE), "2");
}

/// Rows that are read behind the statement may fail; the failure counts as the statement's.
#[test]
fn errors_among_rows_that_are_being_read_count() {
    let database = Database::in_memory();
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (v INT); INSERT INTO t SELECT generate_series(1, 20000)");
    let text = "SELECT 1 / (v - 15000) FROM t WHERE v > 0";
    let mut result = session.query(text, &[]).expect("it begins well");
    assert!(result.is_streamed());
    let failed = loop {
        match result.next() {
            Ok(row) => assert!(row.is_some(), "one divides by zero"),
            Err(error) => break error,
        }
    };
    assert_eq!(failed.state(), SqlState::DIVISION_BY_ZERO, "{failed}");
    drop((result, session));
    let mut watcher = database.session();
    let counts = format!(
        "SELECT calls, errors, executor FROM halcyon.statements WHERE statement = '{text}'"
    );
    assert_eq!(rows(&mut watcher, &counts), ["1|1|analytical"]);
}

fn times_of_statements(look: &mut Look) {
    let mut watcher = after_statements();
    let total = look.number(&mut watcher, "total_ms", DIVIDE);
    let mean = look.number(&mut watcher, "mean_ms", DIVIDE);
    let max = look.number(&mut watcher, "max_ms", DIVIDE);
    assert!(total > 0.0 && (mean - total / 3.0).abs() <= total * 1e-9, "{total} in three: {mean}");
    assert!(max > 0.0 && max <= total, "{max} of {total}");
}

fn plans_of_statements(look: &mut Look) {
    let database = Database::in_memory();
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (v INT PRIMARY KEY, w INT)");
    for key in 0..5 {
        run(&mut session, &format!("SELECT w FROM t WHERE v = {key}"));
    }
    drop(session);
    let mut watcher = database.session();
    // The first text was planned for itself, the second for all of its shape.
    let first = "statement = 'SELECT w FROM t WHERE v = 0'";
    assert_eq!(look.at(&mut watcher, "plan_hits", first), "0");
    assert_eq!(look.at(&mut watcher, "plan_misses", first), "1");
    assert_eq!(look.at(&mut watcher, "last_miss", first), "first text of its shape");
    let shape = "statement = 'SELECT w FROM t WHERE v = $1'";
    assert_eq!(look.at(&mut watcher, "plan_hits", shape), "3");
    assert_eq!(look.at(&mut watcher, "plan_misses", shape), "1");
    assert_eq!(look.at(&mut watcher, "last_miss", shape), "second text of its shape");
}

/// A table in four partitions, and the number of one of them that is not the first.
fn partitioned(database: &Database) -> (Session, String) {
    let mut session = database.session();
    run(&mut session, "CREATE SCHEMA shop; SET search_path = shop");
    run(
        &mut session,
        "CREATE TABLE stock (id INT PRIMARY KEY, v TEXT) WITH (partition_by = id, partitions = 4)",
    );
    run(&mut session, "INSERT INTO stock SELECT n, 'x' FROM generate_series(1, 100) n");
    let plan = rows(&mut session, "EXPLAIN UPDATE stock SET v = 'y' WHERE id = 3").join("\n");
    let (_, rest) = plan.split_once("Lock: shop.stock partition ").expect("it locks one partition");
    (session, rest.split(' ').next().expect("its number").to_owned())
}

fn a_lock_held(look: &mut Look) {
    let database = Database::in_memory();
    let (mut holder, number) = partitioned(&database);
    let mut watcher = database.session();
    run(&mut holder, "BEGIN; UPDATE stock SET v = 'y' WHERE id = 3");
    assert_eq!(look.at(&mut watcher, "schema", ""), "shop");
    assert_eq!(look.at(&mut watcher, "relation", ""), "stock");
    assert_eq!(look.at(&mut watcher, "partition", ""), number);
    let id = format!(
        "SELECT partition_id::text FROM halcyon.memory
         WHERE relation = 'stock' AND index IS NULL AND partition = {number}"
    );
    run(&mut holder, "COMMIT");
    let id = one(&mut watcher, &id);
    run(&mut holder, "BEGIN; UPDATE stock SET v = 'z' WHERE id = 3");
    assert_eq!(look.at(&mut watcher, "partition_id", ""), id);
    assert_eq!(look.at(&mut watcher, "mode", ""), "exclusive");
    run(&mut holder, "COMMIT; BEGIN; SELECT v FROM stock WHERE id = 3");
    assert_eq!(look.at(&mut watcher, "mode", ""), "shared");
}

fn a_lock_awaited(look: &mut Look) {
    let database = Database::in_memory();
    let (mut holder, _) = partitioned(&database);
    let (mut watcher, mut waiter) = (database.session(), database.session());
    run(&mut holder, "BEGIN; UPDATE stock SET v = 'y' WHERE id = 3");
    let (held, awaited) =
        (format!("session = {}", holder.id()), format!("session = {}", waiter.id()));
    assert_eq!(look.at(&mut watcher, "granted", &held), "true");
    let number = one(&mut holder, "SELECT txid_current()::text");
    assert_eq!(look.at(&mut watcher, "transaction", &held), number);
    assert_eq!(look.at(&mut watcher, "session", "granted"), holder.id().to_string());
    std::thread::scope(|scope| {
        let waiting =
            scope.spawn(|| run(&mut waiter, "UPDATE shop.stock SET v = 'z' WHERE id = 3"));
        let all = "SELECT count(*) FROM halcyon.locks WHERE NOT granted";
        until("somebody waits", || one(&mut watcher, all) == "1");
        assert_eq!(look.at(&mut watcher, "granted", &awaited), "false");
        assert_eq!(
            look.at(&mut watcher, "session", "NOT granted"),
            awaited.trim_start_matches("session = ")
        );
        run(&mut holder, "COMMIT");
        waiting.join().expect("the lock is free");
    });
}

fn a_transaction(look: &mut Look) {
    let database = Database::in_memory();
    let (mut worker, _) = partitioned(&database);
    let mut watcher = database.session();
    let before = now(&mut watcher);
    std::thread::sleep(Duration::from_millis(2));
    run(&mut worker, "BEGIN ISOLATION LEVEL REPEATABLE READ; UPDATE stock SET v = 'y'");
    let of = format!("session = {}", worker.id());
    assert_eq!(
        look.at(&mut watcher, "transaction", &of),
        one(&mut worker, "SELECT txid_current()::text")
    );
    assert_eq!(look.at(&mut watcher, "session", &of), worker.id().to_string());
    assert_eq!(look.at(&mut watcher, "isolation", &of), "repeatable read");
    assert_eq!(look.at(&mut watcher, "locks", &of), "4", "one per partition");
    let started = look.at(&mut watcher, "started", &of);
    assert!(before < started && started < now(&mut watcher), "{before} {started}");
}

fn memory_of_partitions(look: &mut Look) {
    let database = Database::in_memory();
    let (mut watcher, _) = partitioned(&database);
    let of = "relation = 'stock' AND index IS NULL AND partition = 3";
    assert_eq!(look.at(&mut watcher, "schema", of), "shop");
    assert_eq!(look.at(&mut watcher, "relation", of), "stock");
    assert_eq!(look.at(&mut watcher, "partition", of), "3");
    let ids =
        "SELECT (max(partition_id) - min(partition_id) || ' ' || sum(rows)) FROM halcyon.memory
               WHERE relation = 'stock' AND index IS NULL";
    assert_eq!(one(&mut watcher, ids), "3 100", "partitions are numbered in order");
    look.number(&mut watcher, "partition_id", of);
    let rows = look.number(&mut watcher, "rows", of);
    run(&mut watcher, "DELETE FROM stock");
    assert!(rows > 0.0 && look.number(&mut watcher, "rows", of) == 0.0);
}

fn memory_of_rows_and_indexes(look: &mut Look) {
    let mut session = Database::in_memory().session();
    run(&mut session, "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)");
    let (table, index) = ("relation = 't' AND index IS NULL", "index IS NOT NULL");
    let empty = look.number(&mut session, "bytes", table);
    let empty_index = look.number(&mut session, "bytes", index);
    run(&mut session, "INSERT INTO t SELECT n, repeat('x', 50) FROM generate_series(1, 5000) n");
    assert_eq!(look.at(&mut session, "index", index), "t_pkey");
    assert_eq!(look.at(&mut session, "segments", table), "3");
    assert_eq!(look.at(&mut session, "free_slots", table), (3 * 2048 - 5000).to_string());
    assert_eq!(look.at(&mut session, "segments", index), "NULL");
    assert!(look.number(&mut session, "bytes", table) > empty + 5000.0 * 50.0);
    assert!(look.number(&mut session, "bytes", index) > empty_index + 5000.0 * 4.0);
}

fn views_that_grow(look: &mut Look) {
    let mut session = Database::in_memory().session();
    run(&mut session, "CREATE SCHEMA shop; SET search_path = shop; CREATE TABLE t (k INT, v INT)");
    run(&mut session, "CREATE MATERIALIZED VIEW totals AS SELECT k, sum(v) AS s FROM t GROUP BY k");
    assert_eq!(look.at(&mut session, "schema", ""), "shop");
    assert_eq!(look.at(&mut session, "view", ""), "totals");
    let bytes = look.number(&mut session, "bytes", "");
    let map_bytes = look.number(&mut session, "map_bytes", "");
    assert_eq!(
        (look.at(&mut session, "rows", ""), look.at(&mut session, "events", "")),
        ("0".into(), "0".into())
    );
    run(&mut session, "INSERT INTO t SELECT n % 5000, n FROM generate_series(1, 10000) n");
    assert_eq!(look.at(&mut session, "rows", ""), "5000");
    assert_eq!(look.at(&mut session, "events", ""), "10000");
    run(&mut session, "DELETE FROM t WHERE k = 7");
    assert_eq!(look.at(&mut session, "rows", ""), "4999");
    assert_eq!(look.at(&mut session, "events", ""), "10002");
    assert!(look.number(&mut session, "bytes", "") > bytes + 5000.0 * 8.0);
    assert!(look.number(&mut session, "map_bytes", "") > map_bytes + 5000.0 * 8.0);
}

fn times_of_events(look: &mut Look) {
    let mut session = Database::in_memory().session();
    run(&mut session, "CREATE TABLE t (k INT, v INT)");
    run(&mut session, "CREATE MATERIALIZED VIEW totals AS SELECT k, sum(v) AS s FROM t GROUP BY k");
    assert_eq!(look.at(&mut session, "event_ns_p50", ""), "NULL");
    for n in 0..20 {
        run(&mut session, &format!("INSERT INTO t VALUES ({n}, 1)"));
    }
    let half = look.number(&mut session, "event_ns_p50", "");
    let most = look.number(&mut session, "event_ns_p99", "");
    let all = look.number(&mut session, "event_ns_max", "");
    assert!(0.0 < half && half <= most && most <= all, "{half} {most} {all}");
}

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("halcyon-system-views-{name}-{}", std::process::id());
        Folder(std::env::temp_dir().join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The number that an LSN stands for.
fn lsn(text: &str) -> u64 {
    let digits = text.split('/').map(|part| u64::from_str_radix(part, 16).expect("hexadecimal"));
    digits.fold(0, |high, low| high << 32 | low)
}

fn a_log_that_grows(look: &mut Look) {
    let folder = Folder::new("log");
    let database = Database::open(&folder.0).expect("a new database");
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (v TEXT)");
    let numbers = ["bytes", "commits", "syncs", "sync_ms"];
    let before = numbers.map(|column| look.number(&mut session, column, ""));
    let (end, durable) =
        (look.at(&mut session, "end_lsn", ""), look.at(&mut session, "durable_lsn", ""));
    for _ in 0..3 {
        run(&mut session, "INSERT INTO t VALUES (repeat('x', 1000))");
    }
    let after = numbers.map(|column| look.number(&mut session, column, ""));
    assert!(after[0] >= before[0] + 3000.0, "bytes of the log: {before:?} {after:?}");
    assert_eq!(after[1], before[1] + 3.0, "commits");
    assert!(after[2] >= before[2] + 3.0 && after[3] > before[3], "syncs: {before:?} {after:?}");
    assert!(lsn(&look.at(&mut session, "end_lsn", "")) >= lsn(&end) + 3000);
    assert!(lsn(&look.at(&mut session, "durable_lsn", "")) >= lsn(&durable) + 3000);
}

fn a_checkpoint(look: &mut Look) {
    let disk = SimDisk::new(Fault::None, true);
    let options = DatabaseOptions::default().with("checkpoint_timeout", "1h").expect("a time");
    let database = testing::open_on(Arc::new(disk), 4096, options).expect("a sound disk");
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (v TEXT)");
    let first = look.at(&mut session, "checkpoint_lsn", "");
    for _ in 0..8 {
        run(&mut session, "INSERT INTO t VALUES (repeat('x', 3000))");
    }
    let files = look.number(&mut session, "files", "");
    assert!(files > 2.0, "a file of the log has 4,096 bytes: {files}");
    let before = now(&mut session);
    run(&mut session, "CHECKPOINT");
    assert!(lsn(&look.at(&mut session, "checkpoint_lsn", "")) > lsn(&first) + 20_000);
    assert!(look.number(&mut session, "files", "") < files, "what lies before it is gone");
    let done = look.at(&mut session, "checkpointed", "");
    assert!(before <= done && done < now(&mut session), "{before} {done}");
}

fn a_disk_that_fails(look: &mut Look) {
    let disk = SimDisk::new(Fault::None, true);
    let options = DatabaseOptions::default().with("checkpoint_timeout", "1h").expect("a time");
    let database =
        testing::open_on(Arc::new(disk.clone()), 1 << 20, options).expect("a sound disk");
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (v TEXT)");
    assert_eq!(look.at(&mut session, "error", ""), "NULL");
    let fault =
        Fault::Error { from: disk.calls() + 1, count: 1 << 40, kind: io::ErrorKind::StorageFull };
    disk.set_fault(fault);
    session.batch("INSERT INTO t VALUES ('x')").expect_err("the disk is full");
    let error = look.at(&mut session, "error", "");
    assert!(error != "NULL" && !error.is_empty(), "{error}");
}

/// The bytes of an account.
fn account(look: &mut Look, watcher: &mut Session, of: &str) -> i64 {
    look.at(watcher, "bytes", of).parse().expect("a number")
}

fn memory_of_sessions(look: &mut Look) {
    const MB: i64 = 1 << 20;
    let database = Database::in_memory();
    let mut watcher = database.session();
    run(&mut watcher, "CREATE TABLE t (v TEXT); CREATE ROLE clerk LOGIN");
    let mut writer = database.session();
    let writer_id = writer.id();
    let of = |name: &str| format!("account = '{name}' AND session = {writer_id}");
    let (statement, transaction) = (of("statement"), of("transaction"));
    assert_eq!(account(look, &mut watcher, &transaction), 0);
    run(&mut writer, "BEGIN; INSERT INTO t SELECT repeat('x', 100) FROM generate_series(1, 50000)");
    assert!(account(look, &mut watcher, &statement) > 4 * MB, "what it has written");
    let before = account(look, &mut watcher, "account = 'tables'");
    run(&mut writer, "SELECT 1");
    assert!(account(look, &mut watcher, &statement) < MB, "another statement");
    assert!(account(look, &mut watcher, &transaction) > 4 * MB, "it can be undone");
    run(&mut writer, "COMMIT; SELECT 1");
    assert!(account(look, &mut watcher, &transaction) < MB, "they are the table's now");
    assert!(account(look, &mut watcher, "account = 'tables'") > before + 4 * MB);
    let indexes = account(look, &mut watcher, "account = 'indexes'");
    run(&mut writer, "CREATE INDEX ON t (v)");
    assert!(account(look, &mut watcher, "account = 'indexes'") > indexes + MB);
    let views = account(look, &mut watcher, "account = 'views'");
    run(
        &mut writer,
        "CREATE TABLE n (v INT); INSERT INTO n SELECT * FROM generate_series(1, 9999)",
    );
    run(&mut writer, "CREATE MATERIALIZED VIEW m AS SELECT v, count(*) c FROM n GROUP BY v");
    assert!(account(look, &mut watcher, "account = 'views'") > views + 9999 * 8);
    let plans = account(look, &mut watcher, "account = 'plans'");
    for number in 0..100 {
        run(&mut writer, &format!("SELECT v AS v{number} FROM t WHERE v = 'x'"));
    }
    assert!(account(look, &mut watcher, "account = 'plans'") > plans + 100 * 1024);
    let plans = account(look, &mut watcher, "account = 'plans'");
    for number in 0..10 {
        run(&mut writer, &format!("SELECT length(repeat('x', 4000000)) AS v{number}"));
        run(
            &mut writer,
            &format!("SELECT repeat('x', 4000000) AS w{number}, v FROM n WHERE v < 0"),
        );
    }
    let kept = account(look, &mut watcher, "account = 'plans'") - plans;
    assert!(kept < 4 * MB, "plans with large constants are kept: {kept} bytes");
    run(&mut writer, "BEGIN; UPDATE n SET v = -v WHERE v < 2000");
    assert!(account(look, &mut watcher, &of("undo")) > 2000 * 16, "it can be taken back");
    run(&mut writer, "ROLLBACK; SELECT 1");
    assert_eq!(account(look, &mut watcher, &of("undo")), 0);
    assert_eq!(account(look, &mut watcher, "account = 'log'"), 0, "there is no log");
    let planned = "SELECT string_agg(account, ' ') FROM halcyon.memory_accounts
                   WHERE account IN ('planning', 'statement') AND session = ";
    let own = format!("{planned}{}", watcher.id());
    assert_eq!(one(&mut watcher, &own), "statement", "it runs");
    let shares =
        "SELECT sum(bytes) <= (SELECT bytes FROM halcyon.memory_accounts WHERE account = 'total')
                  FROM halcyon.memory_accounts WHERE account <> 'total' AND account <> 'other'";
    assert_eq!(one(&mut watcher, &format!("SELECT ({shares})::text")), "true");
    let mut clerk = database.session_as("clerk").expect("it may log in");
    let seen = "SELECT string_agg(account, ' ' ORDER BY account) FROM halcyon.memory_accounts";
    assert_eq!(one(&mut clerk, seen), "statement total transaction undo", "its own, and the total");
    let own = format!("account = 'statement' AND session = {}", clerk.id());
    assert_eq!(look.at(&mut clerk, "session", &own), clerk.id().to_string());
    assert_eq!(look.at(&mut clerk, "account", &own), "statement");
}

/// A database with rows for long queries, and so many workers.
fn busy_database(workers: Workers) -> Database {
    let options = DatabaseOptions { workers, threads: 2, ..DatabaseOptions::default() };
    let database = Database::with_options(options);
    run(
        &mut database.session(),
        "CREATE TABLE n (v BIGINT); INSERT INTO n SELECT i FROM generate_series(1, 20000) AS s(i)",
    );
    database
}

/// A query whose first rows come at once, and its last in an hour.
const LONG: &str = "SELECT a.v FROM n a, n b, n c WHERE a.v + b.v + c.v > 0";

fn who_works(look: &mut Look) {
    let database = busy_database(Workers { count: 3, ..Workers::default() });
    let mut watcher = database.session();
    run(&mut watcher, "SELECT v FROM n WHERE v = 7 LIMIT 1");
    let fresh = Database::in_memory();
    let count = "SELECT count(*)::text FROM halcyon.workers";
    assert_eq!(one(&mut fresh.session(), count), "0", "nothing has needed them");
    run(&mut watcher, "SELECT sum(v) FROM n");
    assert_eq!(one(&mut watcher, count), "3");
    assert_eq!(look.at(&mut watcher, "worker", "worker = 2"), "2");
    assert_eq!(look.at(&mut watcher, "plane", "worker = 2"), "control");
    until("all sleep", || one(&mut watcher, &format!("{count} WHERE state = 'sleeping'")) == "3");
    let mut busy = database.session();
    let rows = busy.query(&*format!("SELECT count(*) FROM ({LONG}) q"), &[]).expect("it begins");
    until("they work", || one(&mut watcher, &format!("{count} WHERE state = 'busy'")) != "0");
    drop(rows);
    // A worker that owns its processor never sleeps.
    let cpu = halcyon_machine::affinity::get().expect("processors")[0];
    let dedicated = Workers { count: 1, dedicated: vec![cpu], ..Workers::default() };
    let database = busy_database(dedicated);
    let mut watcher = database.session();
    run(&mut watcher, "SELECT sum(v) FROM n");
    let of = "plane = 'compute'";
    assert_eq!(look.at(&mut watcher, "processors", of), cpu.to_string());
    assert_eq!(look.at(&mut watcher, "island", of), "0");
    until("it looks for work", || look.at(&mut watcher, "state", of) == "spinning");
}

fn what_workers_did(look: &mut Look) {
    let database = busy_database(Workers { count: 1, ..Workers::default() });
    let (mut watcher, mut busy) = (database.session(), database.session());
    run(&mut busy, "SELECT sum(v) FROM n");
    let tasks = look.number(&mut watcher, "tasks", "");
    assert_eq!(look.at(&mut watcher, "session", ""), "NULL");
    let rows = busy.query(&*format!("SELECT count(*) FROM ({LONG}) q"), &[]).expect("it begins");
    let id = busy.id().to_string();
    until("it works for the session", || look.at(&mut watcher, "session", "") == id);
    until("it has worked", || look.number(&mut watcher, "busy_ms", "") > 20.0);
    let before = look.number(&mut watcher, "suspensions", "");
    until("others are let run", || look.number(&mut watcher, "suspensions", "") > before);
    assert!(look.number(&mut watcher, "longest_ms", "") > 0.0);
    drop(rows);
    until("its tasks end", || look.number(&mut watcher, "tasks", "") > tasks);
}

fn what_interrupts_the_server(look: &mut Look) {
    use halcyon_noise::watch::tell;
    let database = Database::in_memory();
    let mut watcher = database.session();
    let of = "processor = 4094";
    let count = "SELECT count(*)::text FROM halcyon.noise WHERE processor = 4094";
    assert_eq!(one(&mut watcher, count), "0");
    tell(4094, "pre-empted by a rival", 1_500.0, 1_000_000);
    tell(4094, "pre-empted by a rival", 500.0, 3_000_000);
    assert_eq!(look.at(&mut watcher, "processor", of), "4094");
    assert_eq!(look.at(&mut watcher, "cause", of), "pre-empted by a rival");
    assert_eq!(look.number(&mut watcher, "interruptions", of), 2.0);
    assert_eq!(look.number(&mut watcher, "total_ms", of), 2.0);
    assert_eq!(look.number(&mut watcher, "worst_ms", of), 1.5);
    assert!(look.at(&mut watcher, "last", of).starts_with("1970-01-01 00:00:03"));
    // Names of threads tell what else the machine does.
    run(&mut watcher, "CREATE ROLE plain; SET ROLE plain");
    assert_eq!(one(&mut watcher, count), "0");
}

fn workers_that_wait(look: &mut Look) {
    let database = busy_database(Workers { count: 2, ..Workers::default() });
    let mut watcher = database.session();
    run(&mut watcher, "SELECT sum(v) FROM n");
    let before = look.number(&mut watcher, "sleeps", "worker = 0");
    until("it goes to sleep again", || {
        run(&mut watcher, "SELECT sum(v) FROM n");
        look.number(&mut watcher, "sleeps", "worker = 0") > before
    });
    // Many threads that want the processors keep workers waiting for them.
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let spin = || {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        })
    };
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let spinning: Vec<_> = (0..2 * cores).map(|_| spin()).collect();
    until("it waits for its processor", || {
        run(&mut watcher, "SELECT count(*) FROM n a, n b WHERE a.v < 100 AND a.v + b.v < 5");
        look.number(&mut watcher, "run_delay_ms", "worker = 0") > 0.0
    });
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    spinning.into_iter().for_each(|thread| thread.join().expect("it ends"));
}

fn tasks_of_a_query(look: &mut Look) {
    let database = busy_database(Workers { count: 2, ..Workers::default() });
    let (mut watcher, mut busy) = (database.session(), database.session());
    run(&mut watcher, "CREATE ROLE clerk LOGIN");
    let before = now(&mut watcher);
    let text = format!("SELECT count(*) FROM ({LONG}) q");
    let rows = busy.query(text.as_str(), &[]).expect("it begins");
    let of = format!("session = {}", busy.id());
    assert_eq!(look.at(&mut watcher, "session", &of), busy.id().to_string());
    assert_eq!(look.at(&mut watcher, "statement", &of), text);
    let started = look.at(&mut watcher, "started", &of);
    assert!(before < started && started < now(&mut watcher), "{before} {started}");
    until("inputs run beside", || look.number(&mut watcher, "tasks", &of) > 1.0);
    until("a worker runs them", || look.number(&mut watcher, "running", &of) >= 1.0);
    assert_eq!(look.at(&mut watcher, "workers", &of), "2");
    assert_eq!(look.at(&mut watcher, "workload_class_name", &of), "_DEFAULT");
    assert_eq!(look.at(&mut watcher, "band", &of), "normal");
    let count = "SELECT count(*)::text FROM halcyon.tasks";
    let mut clerk = database.session_as("clerk").expect("it may log in");
    assert_eq!(one(&mut clerk, count), "0", "they are another's");
    drop(rows);
    until("they end", || one(&mut watcher, count) == "0");
    for (class, wanted) in
        [("AUTO", "adaptive"), ("POLLUTING", "polluting"), ("SENSITIVE", "sensitive")]
    {
        let name = format!("cached_{class}");
        run(&mut watcher, &format!("CREATE WORKLOAD CLASS {name} SET 'CACHE CLASS' = '{class}'"));
        let mapping = format!(
            "CREATE WORKLOAD MAPPING of_{name} WORKLOAD CLASS {name} SET 'APPLICATION NAME' = '{name}'"
        );
        run(&mut watcher, &mapping);
        run(&mut busy, &format!("SET application_name = '{name}'"));
        let rows = busy.query(text.as_str(), &[]).expect("it begins");
        assert_eq!(look.at(&mut watcher, "cache_use", &of), wanted);
        drop(rows);
        until("they end", || one(&mut watcher, count) == "0");
    }
    // Workers of the (only) island that a polluting statement may use.
    run(&mut busy, "SET application_name = 'cached_POLLUTING'");
    let rows = busy.query(text.as_str(), &[]).expect("it begins");
    until("both workers run it", || look.number(&mut watcher, "running", &of) == 2.0);
    run(&mut watcher, "ALTER SYSTEM SET polluting_workers = 1");
    until("one has ended its step", || look.number(&mut watcher, "running", &of) <= 1.0);
    let running = (0..100).map(|_| look.number(&mut watcher, "running", &of));
    assert!(running.fold(0.0, f64::max) <= 1.0);
    run(&mut watcher, "ALTER SYSTEM RESET polluting_workers");
    until("both workers run it again", || look.number(&mut watcher, "running", &of) == 2.0);
    drop(rows);
    until("they end", || one(&mut watcher, count) == "0");
}

fn limits_of_memory(look: &mut Look) {
    let options = DatabaseOptions::default().with("memory_limit", "4GB").expect("a size");
    let database = Database::with_options(options);
    let (mut watcher, mut greedy) = (database.session(), database.session());
    let total = "account = 'total'";
    assert_eq!(look.at(&mut watcher, "limit_bytes", total), (4_u64 << 30).to_string());
    run(&mut greedy, "SET halcyon.memory = '20MB'; SELECT 1");
    let of = format!("account = 'statement' AND session = {}", greedy.id());
    assert_eq!(look.at(&mut watcher, "limit_bytes", &of), (20 << 20).to_string());
    let before: u64 = look.at(&mut watcher, "refusals", total).parse().expect("a number");
    let texts = "SELECT length(replace(repeat('x', 1000000), 'x', 'abcdefghijklmnopqrstuvwxyz'))";
    let refused = greedy.query(texts, &[]).map(|_| ()).expect_err("26 MB of 20");
    assert_eq!(refused.state(), SqlState::OUT_OF_MEMORY);
    assert!(refused.fields().detail.as_ref().expect("how much").contains("halcyon.memory"));
    assert!(refused.fields().hint.is_some());
    let after: u64 = look.at(&mut watcher, "refusals", total).parse().expect("a number");
    assert!(after > before, "{after} refusals");
    run(&mut greedy, "SELECT 1");
}

fn settings_that_differ(look: &mut Look) {
    let mut session = Database::in_memory().session();
    run(&mut session, "SET lock_timeout = 90000; SET halcyon.threads = 3; SET my.own = 'x'");
    let of = "name = 'lock_timeout'";
    assert_eq!(look.at(&mut session, "name", "value = '90s'"), "lock_timeout");
    assert_eq!(look.at(&mut session, "value", of), "90s");
    assert_eq!(look.at(&mut session, "default_value", of), "0");
    assert_eq!(look.at(&mut session, "unit", of), "ms");
    assert_eq!(look.at(&mut session, "type", of), "integer");
    run(&mut session, "ALTER SYSTEM SET view_memory = '64MB'");
    let of = "name = 'view_memory'";
    assert_eq!(look.at(&mut session, "value", of), "64MB");
    assert_eq!(look.at(&mut session, "unit", of), "MB");
    assert_eq!(look.at(&mut session, "default_value", "name = 'halcyon.memory'"), "1GB");
    assert_eq!(look.at(&mut session, "type", "name = 'synchronous_commit'"), "enum");
    assert_eq!(look.at(&mut session, "value", "name = 'my.own'"), "x");
}

fn kinds_of_settings(look: &mut Look) {
    let mut session = Database::in_memory().session();
    for (name, scope) in [
        ("lock_timeout", "session"),
        ("transaction_isolation", "transaction"),
        ("max_wal_size", "database"),
        ("server_version", "read-only"),
    ] {
        assert_eq!(look.at(&mut session, "scope", &format!("name = '{name}'")), scope);
    }
    let of = "name = 'lock_timeout'";
    assert_eq!(look.at(&mut session, "description", of), "How long a statement waits for a lock.");
}

/// A block that has changed a table asks how many rows the table has, by queries that run on workers and by point
/// plans: the answer is that of others, without a wait for the own statement.
#[test]
fn a_block_counts_the_tables_that_it_has_changed() {
    let database = Database::in_memory();
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (id INTEGER PRIMARY KEY)");
    run(&mut session, "INSERT INTO t SELECT i FROM generate_series(1, 100) AS s(i)");
    let size = one(&mut session, "SELECT pg_table_size('t')");
    run(&mut session, "BEGIN");
    run(&mut session, "INSERT INTO t SELECT i FROM generate_series(101, 90000) AS s(i)");
    let began = Instant::now();
    for (asked, expected) in [
        ("SELECT reltuples::bigint FROM pg_class WHERE relname = 't'", "100"),
        ("SELECT pg_table_size(oid) FROM pg_class WHERE relname = 't'", &size),
        ("SELECT rows FROM halcyon.memory WHERE relation = 't' AND index IS NULL", "100"),
        ("SELECT count(*) FROM pg_class c, t WHERE c.relname = 't' AND c.reltuples = 100", "90000"),
    ] {
        assert_eq!(one(&mut session, asked), expected, "{asked}");
    }
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    run(&mut session, "COMMIT");
    assert_eq!(one(&mut session, "SELECT n_live_tup FROM pg_stat_user_tables"), "90000");
}
