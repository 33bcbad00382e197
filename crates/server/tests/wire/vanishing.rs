//! Cancelled statements, and clients that vanish: everything that they held is free at once.

use std::time::{Duration, Instant};

use super::common::*;

fn table(address: std::net::SocketAddr) -> Raw {
    let mut raw = Raw::connect(address);
    raw.ok("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)");
    raw.ok("INSERT INTO t VALUES (1, 0)");
    raw
}

fn locked(address: std::net::SocketAddr) -> Raw {
    let mut raw = Raw::connect(address);
    raw.ok("BEGIN");
    raw.ok("UPDATE t SET n = n + 1 WHERE id = 1");
    raw
}

#[test]
fn a_client_that_vanishes_in_a_transaction_is_rolled_back() {
    let server = server();
    let mut raw = table(server.address());
    let holder = locked(server.address());
    drop(holder);
    raw.ok("UPDATE t SET n = n + 10 WHERE id = 1");
    let rows = raw.ok("SELECT n FROM t");
    assert_eq!(rows[1].body, b"\0\x01\0\0\0\x0210");
}

#[test]
fn a_client_that_vanishes_leaves_no_temporary_table() {
    let server = server();
    let mut raw = table(server.address());
    let mut owner = Raw::connect(server.address());
    owner.ok("CREATE TEMP TABLE passing (a INTEGER)");
    owner.ok("INSERT INTO passing VALUES (1)");
    owner.ok("BEGIN");
    owner.ok("CREATE TEMP TABLE second (a INTEGER)");
    let left = "SELECT count(*)::int4 FROM pg_class WHERE relpersistence = 't'";
    assert_eq!(raw.ok(left)[1].body, b"\0\x01\0\0\0\x011");
    drop(owner);
    eventually("the end of the owner's connection", || server.connections() == 1);
    assert_eq!(raw.ok(left)[1].body, b"\0\x01\0\0\0\x010");
}

#[test]
fn a_client_that_vanishes_while_waiting_for_a_lock_frees_what_it_holds() {
    let server = server();
    let mut raw = table(server.address());
    raw.ok("CREATE TABLE u (id INTEGER PRIMARY KEY)");
    let mut holder = locked(server.address());
    let mut waiter = Raw::connect(server.address());
    waiter.ok("BEGIN");
    waiter.ok("INSERT INTO u VALUES (1)");
    // Messages behind the waiting statement must not hide the client's end.
    let more = [query("UPDATE t SET n = 5 WHERE id = 1"), query("INSERT INTO u VALUES (2)")];
    waiter.send(&more.concat());
    std::thread::sleep(Duration::from_millis(100));
    drop(waiter);
    let start = Instant::now();
    raw.ok("INSERT INTO u VALUES (1)");
    assert!(start.elapsed() < Duration::from_secs(5), "the waiter's lock on u is free");
    holder.ok("COMMIT");
    eventually("the end of the waiter's connection", || server.connections() == 2);
    assert_eq!(raw.ok("SELECT n FROM t")[1].body, b"\0\x01\0\0\0\x011");
}

#[test]
fn a_client_that_vanishes_ends_its_long_query() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    thousand_rows(&mut raw);
    raw.send(&query(LONG_QUERY));
    std::thread::sleep(Duration::from_millis(200));
    drop(raw);
    eventually("the end of its connection", || server.connections() == 0);
}

#[test]
fn a_cancel_request_ends_the_statement_and_not_the_session() {
    let server = server();
    let mut raw = table(server.address());
    let mut holder = locked(server.address());
    let mut waiter = Raw::silent(server.address());
    waiter.send(&startup(&superuser()));
    let told = waiter.until(b'Z');
    let key = told.iter().find(|frame| frame.kind == b'K').expect("a cancel key").body.clone();
    let cancel = |key: &[u8]| {
        let mut canceller = Raw::silent(server.address());
        let body = [&80_877_102u32.to_be_bytes()[..], key].concat();
        canceller.send(&[&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat());
        assert_eq!(canceller.next(), None, "the answer is the end of the connection");
    };
    waiter.send(&query("UPDATE t SET n = 7 WHERE id = 1"));
    std::thread::sleep(Duration::from_millis(100));
    let mut wrong = key.clone();
    wrong[5] ^= 1;
    cancel(&wrong);
    waiter.stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(waiter.stream.peek(&mut [0]).is_err(), "a wrong key cancels nothing");
    waiter.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    cancel(&key);
    assert_eq!(waiter.until(b'Z')[0].field(b'C'), Some("57014"));
    waiter.ok("SELECT 1");
    holder.ok("COMMIT");
    assert_eq!(raw.ok("SELECT n FROM t")[1].body, b"\0\x01\0\0\0\x011");
}

#[test]
fn statement_timeouts_end_waiting_and_computing_statements() {
    let server = server();
    let mut raw = table(server.address());
    let _holder = locked(server.address());
    raw.ok("SET statement_timeout = '100ms'");
    let waited = raw.query("UPDATE t SET n = 7 WHERE id = 1");
    assert_eq!(waited[0].field(b'C'), Some("57014"), "{waited:?}");
    thousand_rows_unhurried(&mut raw);
    let endless = "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT 1 FROM r) SELECT i FROM r";
    for text in [LONG_QUERY, endless] {
        let computed = raw.query(text);
        let error = computed.iter().find(|frame| frame.kind == b'E').expect("an error");
        assert_eq!(error.field(b'C'), Some("57014"), "{text}");
        assert_eq!(error.field(b'M'), Some("canceling statement due to statement timeout"));
    }
    raw.ok("SET statement_timeout = 0");
    raw.ok("SET lock_timeout = '100ms'");
    let waited = raw.query("UPDATE t SET n = 7 WHERE id = 1");
    assert_eq!(waited[0].field(b'C'), Some("55P03"), "{waited:?}");
}

/// Runs for very long: a billion rows to count, none of which an optimizer may skip.
pub const LONG_QUERY: &str = "SELECT count(*) FROM k a, k b, k c WHERE a.id + b.id + c.id = 0";

fn thousand_rows_unhurried(raw: &mut Raw) {
    raw.ok("SET statement_timeout = 0");
    thousand_rows(raw);
    raw.ok("SET statement_timeout = '100ms'");
}

/// Makes the table `k` of a thousand rows.
pub fn thousand_rows(raw: &mut Raw) {
    raw.ok("CREATE TABLE k (id INTEGER PRIMARY KEY, name TEXT)");
    let values: Vec<String> = (1..=1000).map(|id| format!("({id}, 'name of row {id}')")).collect();
    raw.ok(&format!("INSERT INTO k VALUES {}", values.join(", ")));
}
