//! Statements as a collector of traces sees them: spans of real statements over the real wire.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use halcyon::Database;
use halcyon_server::{Server, ServerConfig};
use halcyon_traces::Config;
use opentelemetry_proto::tonic::trace::v1::Span;

use crate::collector::{Collector, attribute, number, text};
use crate::common::{
    Raw, bind, describe, eventually, execute, kinds, message, parse, query, server_of, server_with,
    state_of, sync,
};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// A `traceparent` of [`TRACE`] with a span of this number.
fn traceparent(span: u64) -> String {
    format!("00-{TRACE}-{span:016x}-01")
}

fn config(collector: &Collector, set: &[(&str, &str)]) -> ServerConfig {
    let soon = ("OTEL_BSP_SCHEDULE_DELAY", "20");
    let found = |name: &str| set.iter().chain([&soon]).find(|(key, _)| *key == name);
    let value = |name: &str| found(name).map(|(_, value)| (*value).to_owned());
    let traces = Config::new(Some(&collector.endpoint()), value).expect("no mistake");
    assert!(traces.is_some());
    ServerConfig { traces, ..ServerConfig::default() }
}

/// A collector, and a server that sends it everything.
fn traced() -> (Collector, Server) {
    let collector = Collector::start();
    let server = server_with(config(&collector, &[]));
    (collector, server)
}

fn shop(raw: &mut Raw) {
    raw.ok("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT);
            INSERT INTO item VALUES (1, 'tea'), (2, 'milk'), (3, 'salt')");
}

fn children(collector: &Collector, span: &Span) -> Vec<(String, Duration)> {
    let took = |span: &Span| span.end_time_unix_nano - span.start_time_unix_nano;
    let children = collector.children(span).into_iter();
    children.map(|child| (child.name.clone(), Duration::from_nanos(took(&child)))).collect()
}

fn names(children: &[(String, Duration)]) -> Vec<&str> {
    children.iter().map(|(name, _)| name.as_str()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_simple_statement_has_its_attributes_and_phases() {
    let (collector, server) = traced();
    let mut raw = Raw::connect(server.address());
    shop(&mut raw);
    raw.ok("SET application_name = 'till'");
    raw.ok("SELECT name FROM item WHERE id >= 2 AND name <> 'hush'");
    let span = collector.wait_for("the query", |span| text(span, "db.query.text").contains(">="));
    assert_eq!((span.name.as_str(), span.kind), ("SELECT item", 2));
    let texts = [
        ("db.system.name", "halcyon"),
        ("db.namespace", "halcyon"),
        ("db.operation.name", "SELECT"),
        ("db.collection.name", "item"),
        ("db.query.text", "SELECT name FROM item WHERE id >= ? AND name <> ?"),
        ("halcyon.application_name", "till"),
        ("halcyon.role", "halcyon"),
        ("halcyon.workload.class", "_default"),
        ("error.type", ""),
    ];
    for (key, expected) in texts {
        assert_eq!(text(&span, key).to_lowercase(), expected.to_lowercase(), "{key}");
    }
    assert_eq!(text(&span, "client.address"), "127.0.0.1");
    assert_eq!(number(&span, "db.response.returned_rows"), Some(2.0));
    assert!(number(&span, "halcyon.cpu.seconds").is_some_and(|cpu| cpu > 0.0));
    assert!(number(&span, "halcyon.memory.bytes").is_some());
    assert!(span.status.is_none() && span.parent_span_id.is_empty());
    let children = children(&collector, &span);
    assert_eq!(names(&children), ["parse", "plan", "run", "client"]);
    let sum: Duration = children.iter().map(|(_, took)| *took).sum();
    let whole = Duration::from_nanos(span.end_time_unix_nano - span.start_time_unix_nano);
    assert!(sum <= whole, "{sum:?} of {whole:?}");
    // A write says what it has written.
    let insert = collector.wait_for("the write", |span| span.name == "INSERT item");
    assert_eq!(number(&insert, "halcyon.affected_rows"), Some(3.0));
    server.shutdown();
}

#[test]
fn a_prepared_statement_has_a_span_for_each_run() {
    let (collector, server) = traced();
    let mut raw = Raw::connect(server.address());
    shop(&mut raw);
    let run =
        |portal: &str, id: &str| [bind(portal, "s", &[id]), execute(portal, 0), sync()].concat();
    raw.send(&[parse("s", "SELECT name FROM item WHERE id = $1"), run("", "1")].concat());
    assert_eq!(kinds(&raw.until(b'Z')), "12DCZ");
    raw.send(&run("", "9"));
    assert_eq!(kinds(&raw.until(b'Z')), "2CZ");
    let of = |rows: f64| {
        collector.wait_for("a run", |span| {
            text(span, "db.query.text") == "SELECT name FROM item WHERE id = $1"
                && number(span, "db.response.returned_rows") == Some(rows)
        })
    };
    let (first, second) = (of(1.0), of(0.0));
    assert_eq!(names(&children(&collector, &first))[..2], ["parse", "plan"]);
    assert!(!names(&children(&collector, &second)).contains(&"plan"));
    assert_ne!(first.trace_id, second.trace_id);
    // What is only prepared is told too.
    raw.send(&[parse("t", "SELECT id FROM item"), describe(b'S', "t"), sync()].concat());
    raw.until(b'Z');
    let only =
        collector.wait_for("a Parse", |span| attribute(span, "halcyon.prepared_only").is_some());
    assert_eq!(text(&only, "db.query.text"), "SELECT id FROM item");
}

#[test]
fn failures_carry_their_sqlstate() {
    let (collector, server) = traced();
    let mut raw = Raw::connect(server.address());
    shop(&mut raw);
    for (statement, state) in [
        ("SELECT 1 / (id - 1) FROM item", "22012"),
        ("SELEC 1", "42601"),
        ("SELECT nothing FROM item", "42703"),
        ("INSERT INTO item VALUES (1, 'twice')", "23505"),
    ] {
        assert_eq!(state_of(&raw.query(statement)), Some(state), "{statement}");
        let span = collector.wait_for(statement, |span| text(span, "error.type") == state);
        assert_eq!(text(&span, "db.response.status_code"), state);
        let status = span.status.expect("a status");
        assert!(status.code == 2 && !status.message.is_empty(), "{status:?}");
    }
    // The same in the extended protocol: Parse, Bind and Execute may fail.
    let before = collector.spans().len();
    raw.send(&[parse("", "SELECT other FROM item"), sync()].concat());
    assert_eq!(state_of(&raw.until(b'Z')), Some("42703"));
    let good = parse("", "SELECT 10 / (id - 2) FROM item WHERE id = $1");
    raw.send(&[good.clone(), bind("", "", &["x"]), execute("", 0), sync()].concat());
    assert_eq!(state_of(&raw.until(b'Z')), Some("22P02"));
    raw.send(&[good, bind("", "", &["2"]), execute("", 0), sync()].concat());
    assert_eq!(state_of(&raw.until(b'Z')), Some("22012"));
    eventually("three spans", || {
        let spans = collector.spans();
        let failed = |state| spans[before..].iter().any(|span| text(span, "error.type") == state);
        failed("42703") && failed("22P02") && failed("22012")
    });
}

#[test]
fn a_wait_for_a_lock_is_a_child_and_so_is_its_end_by_a_cancel() {
    let (collector, server) = traced();
    let mut holder = Raw::connect(server.address());
    shop(&mut holder);
    holder.ok("BEGIN");
    holder.ok("UPDATE item SET name = 'held' WHERE id = 1");
    let mut waiter = Raw::connect(server.address());
    let pid = waiter.count("SELECT pg_backend_pid()");
    waiter.send(&query("UPDATE item SET name = 'mine' WHERE id = 1"));
    let mut admin = Raw::connect(server.address());
    let waiting = "SELECT count(*) FROM halcyon.locks WHERE NOT granted";
    eventually("a wait", || admin.count(waiting) == 1);
    std::thread::sleep(Duration::from_millis(100));
    holder.ok("COMMIT");
    waiter.until(b'Z');
    let is_update = |span: &Span, after: f64| {
        span.name == "UPDATE item" && number(span, "halcyon.lock_wait.seconds") > Some(after)
    };
    let span = collector.wait_for("the wait", |span| is_update(span, 0.09));
    let waited = children(&collector, &span);
    let wait = waited.iter().find(|(name, _)| name == "lock wait").expect("a wait");
    assert!(wait.1 >= Duration::from_millis(90), "{waited:?}");
    assert!(number(&span, "halcyon.cpu.seconds") < Some(0.09), "it has slept");

    holder.ok("BEGIN");
    holder.ok("UPDATE item SET name = 'held' WHERE id = 1");
    waiter.send(&query("UPDATE item SET name = 'mine' WHERE id = 1"));
    eventually("a wait", || admin.count(waiting) == 1);
    admin.ok(&format!("SELECT pg_cancel_backend({pid})"));
    assert_eq!(state_of(&waiter.until(b'Z')), Some("57014"));
    let span = collector.wait_for("the end", |span| text(span, "error.type") == "57014");
    assert!(names(&children(&collector, &span)).contains(&"lock wait"));
    holder.ok("ROLLBACK");
}

#[test]
fn a_wait_of_a_function_and_one_to_be_let_in_are_told_apart() {
    let (collector, server) = traced();
    let mut admin = Raw::connect(server.address());
    shop(&mut admin);
    admin.ok("CREATE WORKLOAD CLASS narrow SET 'CONCURRENCY LIMIT' = '1', 'QUEUE TIMEOUT' = '10s';
         CREATE WORKLOAD MAPPING m WORKLOAD CLASS narrow SET 'APPLICATION NAME' = 'narrow'");
    let mut clients: Vec<Raw> = (0..2).map(|_| Raw::connect(server.address())).collect();
    for client in &mut clients {
        client.ok("SET application_name = 'narrow'");
        client.send(&query("SELECT pg_sleep(0.2), count(*) FROM item"));
    }
    clients.iter_mut().for_each(|client| drop(client.until(b'Z')));
    let span = collector.wait_for("a wait to be let in", |span| {
        number(span, "halcyon.admission_wait.seconds") > Some(0.1)
    });
    assert_eq!(text(&span, "halcyon.workload.class").to_lowercase(), "narrow");
    assert!(names(&children(&collector, &span)).contains(&"admission wait"));
    admin.ok("SELECT pg_sleep(0.05)");
    let slept = collector
        .wait_for("a sleep", |span| number(span, "halcyon.function_wait.seconds") >= Some(0.045));
    assert!(names(&children(&collector, &slept)).contains(&"function wait"));
}

#[test]
fn a_copy_is_one_span_with_the_clients_part() {
    let (collector, server) = traced();
    let mut raw = Raw::connect(server.address());
    shop(&mut raw);
    raw.send(&query("COPY item FROM STDIN"));
    raw.until(b'G');
    for id in 10..60 {
        raw.send(&message(b'd', &[format!("{id}\tmore\n").as_bytes()]));
    }
    std::thread::sleep(Duration::from_millis(50));
    raw.send(&message(b'c', &[]));
    raw.until(b'Z');
    let span = collector.wait_for("the COPY", |span| span.name == "COPY item");
    assert_eq!(number(&span, "halcyon.affected_rows"), Some(50.0));
    assert!(number(&span, "halcyon.client.seconds") >= Some(0.045));
    raw.ok("COPY item TO STDOUT");
    let out = collector.wait_for("the COPY out", |span| {
        span.name == "COPY item" && number(span, "halcyon.affected_rows") == Some(53.0)
    });
    assert!(text(&out, "db.query.text").ends_with("TO STDOUT"));
    // A COPY that the client gives up is a failure.
    raw.send(&query("COPY item FROM STDIN"));
    raw.until(b'G');
    raw.send(&message(b'f', &[b"no more\0"]));
    assert_eq!(state_of(&raw.until(b'Z')), Some("57014"));
    collector.wait_for("the end", |span| {
        span.name == "COPY item" && text(span, "error.type") == "57014"
    });
}

#[test]
fn the_wait_for_the_disk_is_a_child_also_of_a_transaction_around_statements() {
    static FOLDERS: AtomicU32 = AtomicU32::new(0);
    let number_of = FOLDERS.fetch_add(1, Ordering::Relaxed);
    let folder = format!("halcyon-traces-{}-{number_of}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    let _ = std::fs::remove_dir_all(&folder);
    let collector = Collector::start();
    let database = Database::open(&folder).expect("a database");
    let server = server_of(database, config(&collector, &[]));
    let mut raw = Raw::connect(server.address());
    shop(&mut raw);
    let commits = |span: &Span| names(&children(&collector, span)).contains(&"commit wait");
    // Two statements of one message are one transaction, which the last one's span ends.
    let insert = collector.wait_for("the INSERT", |span| span.name == "INSERT item");
    assert!(commits(&insert), "{:?}", children(&collector, &insert));
    raw.ok("BEGIN");
    raw.ok("DELETE FROM item WHERE id = 2");
    raw.ok("COMMIT");
    let delete = collector.wait_for("the DELETE", |span| span.name == "DELETE item");
    assert!(!commits(&delete), "{:?}", children(&collector, &delete));
    let commit = collector.wait_for("the COMMIT", |span| span.name == "COMMIT");
    assert!(commits(&commit), "{:?}", children(&collector, &commit));
    let pipeline = [
        parse("", "INSERT INTO item VALUES (70, 'a')"),
        bind("", "", &[]),
        execute("", 0),
        parse("", "UPDATE item SET name = 'b' WHERE id = 70"),
        bind("", "", &[]),
        execute("", 0),
        sync(),
    ];
    raw.send(&pipeline.concat());
    assert_eq!(kinds(&raw.until(b'Z')), "12C12CZ");
    let update = collector.wait_for("the UPDATE", |span| span.name == "UPDATE item");
    assert!(commits(&update), "{:?}", children(&collector, &update));
    server.shutdown();
    std::fs::remove_dir_all(folder).expect("the server has ended");
}

#[test]
fn statements_are_children_of_the_spans_that_their_client_tells() {
    let (collector, server) = traced();
    let mut raw = Raw::connect(server.address());
    shop(&mut raw);
    let parent = |span: u64| {
        let found = collector.wait_for("a child", |own| {
            hex(&own.parent_span_id) == format!("{span:016x}") && hex(&own.trace_id) == TRACE
        });
        (found.name.clone(), text(&found, "db.query.text"), found)
    };
    let commented = |statement: &str, span: u64| {
        format!(
            "{statement} /*route='%2Fitems',traceparent='{}',tracestate='a%3D1'*/",
            traceparent(span)
        )
    };
    raw.ok(&commented("SELECT name FROM item WHERE id = 1", 1));
    let (_, shown, span) = parent(1);
    assert_eq!(
        (shown.as_str(), span.trace_state.as_str()),
        ("SELECT name FROM item WHERE id = ?", "a=1")
    );
    assert!(!shown.contains("/*"));
    // A batch belongs to the comment at its end.
    raw.ok(&commented("SELECT 1 FROM item; SELECT 2 FROM item", 2));
    eventually("both", || {
        let of = |span: &Span| hex(&span.parent_span_id).ends_with("02");
        collector.spans().iter().filter(|span| of(span)).count() == 2
    });
    // Prepared statements keep their comment.
    let text = commented("SELECT id FROM item WHERE name = $1", 3);
    raw.send(&[parse("s", &text), bind("", "s", &["tea"]), execute("", 0), sync()].concat());
    raw.until(b'Z');
    parent(3);
    // The setting holds until it is changed; a comment is nearer.
    raw.ok(&format!("SET halcyon.traceparent = '{}'", traceparent(4)));
    raw.ok("SELECT 4 FROM item");
    assert_eq!(parent(4).0, "SELECT item");
    raw.ok(&commented("DELETE FROM item WHERE id = 3", 5));
    assert_eq!(parent(5).0, "DELETE item");
    // What is no traceparent begins a trace of the statement's own, as the standard has it.
    raw.ok("SET halcyon.traceparent = 'nonsense'");
    raw.ok("TABLE item");
    let own = collector.wait_for("a trace", |span| text_is(span, "TABLE item"));
    assert!(own.parent_span_id.is_empty());
    // A client that is not sampled is not recorded.
    let unsampled = traceparent(6).replace("-01", "-00");
    raw.ok(&format!("SET halcyon.traceparent = '{unsampled}'"));
    raw.ok("SELECT 6 FROM item");
    raw.ok("RESET halcyon.traceparent");
    raw.ok("SELECT 7, 7 FROM item");
    collector.wait_for("the last", |span| text_is(span, "SELECT ?, ? FROM item"));
    let unsampled = |span: &Span| hex(&span.parent_span_id).ends_with("06");
    assert!(!collector.spans().iter().any(unsampled));
}

fn text_is(span: &Span, expected: &str) -> bool {
    text(span, "db.query.text") == expected
}

#[test]
fn comments_of_clients_share_a_plan_whether_traces_are_on_or_not() {
    let server = server_with(ServerConfig::default());
    let mut raw = Raw::connect(server.address());
    shop(&mut raw);
    for span in 1..20 {
        let comment = format!("/*traceparent='{}'*/", traceparent(span));
        raw.ok(&format!("SELECT count(*) FROM item WHERE id = 1 {comment}"));
        let text = format!("SELECT name FROM item WHERE id = $1 {comment}");
        raw.send(&[parse("", &text), bind("", "", &["1"]), execute("", 0), sync()].concat());
        assert_eq!(kinds(&raw.until(b'Z')), "12DCZ");
    }
    drop(raw);
    let mut raw = Raw::connect(server.address());
    let count = |like: &str| {
        format!("SELECT count(*) FROM halcyon.statements WHERE statement LIKE '{like}'")
    };
    eventually("counts", || raw.count(&count("SELECT name FROM item WHERE id = $1%")) == 1);
    assert_eq!(raw.count(&count("%traceparent=%")), 0);
}

#[test]
fn a_portal_that_is_read_in_parts_is_one_span() {
    let (collector, server) = traced();
    let mut raw = Raw::connect(server.address());
    shop(&mut raw);
    raw.ok("BEGIN");
    let open =
        [parse("", "SELECT id, name FROM item"), bind("p", "", &[]), execute("p", 2), sync()];
    raw.send(&open.concat());
    assert_eq!(kinds(&raw.until(b'Z')), "12DDsZ");
    std::thread::sleep(Duration::from_millis(50));
    raw.send(&[execute("p", 2), sync()].concat());
    assert_eq!(kinds(&raw.until(b'Z')), "DCZ");
    raw.ok("COMMIT");
    let is_it = |span: &Span| text_is(span, "SELECT id, name FROM item");
    let span = collector.wait_for("the portal", is_it);
    assert_eq!(number(&span, "db.response.returned_rows"), Some(3.0));
    assert!(number(&span, "halcyon.client.seconds") >= Some(0.045));
    assert_eq!(collector.spans().iter().filter(|span| is_it(span)).count(), 1);
}

#[test]
fn the_end_of_a_server_sends_what_waits_and_counts_are_told() {
    let collector = Collector::start();
    let server = server_with(config(&collector, &[("OTEL_BSP_SCHEDULE_DELAY", "3600000")]));
    let mut raw = Raw::connect(server.address());
    raw.ok("SELECT 'last'");
    let logins = server.logins();
    eventually("a span", || logins.traces().is_some_and(|counts| counts.waiting == 1));
    assert!(collector.spans().is_empty());
    server.shutdown();
    assert_eq!(collector.spans().iter().filter(|span| text_is(span, "SELECT ?")).count(), 1);
    let counts = logins.traces().expect("traces are on");
    assert_eq!((counts.sent, counts.dropped, counts.failed, counts.waiting), (1, 0, 0, 0));
    let off = server_with(ServerConfig::default());
    assert_eq!(off.logins().traces(), None);
}

#[test]
fn statements_go_on_while_the_collector_is_away() {
    let address = Collector::start().address; // nobody is there any more
    let value = |name: &str| match name {
        "OTEL_BSP_MAX_QUEUE_SIZE" => Some("5".to_owned()),
        "OTEL_BSP_SCHEDULE_DELAY" => Some("20".to_owned()),
        _ => None,
    };
    let traces = Config::new(Some(&format!("http://{address}")), value).expect("no mistake");
    let server = server_with(ServerConfig { traces, ..ServerConfig::default() });
    let mut raw = Raw::connect(server.address());
    shop(&mut raw);
    for _ in 0..200 {
        raw.ok("SELECT name FROM item WHERE id = 1");
    }
    let counts = server.logins().traces().expect("traces are on");
    assert!(counts.dropped >= 150 && counts.sent == 0, "{counts:?}");
    server.shutdown();
}
