//! Features that other drivers and tools rely on besides rows: descriptions, cursors,
//! notifications, types.

use std::time::{Duration, Instant};

use tokio_postgres::NoTls;

use super::common::*;
use super::driver::connect;

/// Name, table, column, type of each column of a RowDescription.
fn described(frame: &Frame) -> Vec<(String, u32, u16, u32)> {
    let mut rest = &frame.body[2..];
    let mut columns = Vec::new();
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        let name = String::from_utf8_lossy(&rest[..end]).into_owned();
        let number = |at: usize| {
            u32::from_be_bytes(rest[end + 1 + at..end + 5 + at].try_into().expect("four bytes"))
        };
        columns.push((name, number(0), (number(2) & 0xffff) as u16, number(6)));
        rest = &rest[end + 19..];
    }
    columns
}

#[test]
fn statements_that_return_rows_of_the_session_are_described() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    let mut shown = |text: &str| {
        let messages = [parse("", text), describe(b'S', ""), bind("", "", &[]), execute("", 0)];
        raw.send(&[messages.concat(), sync()].concat());
        raw.until(b'Z')
    };
    for text in ["SHOW TRANSACTION ISOLATION LEVEL", "SHOW TimeZone", "SHOW ALL"] {
        let frames = shown(text);
        assert!(kinds(&frames).starts_with("1tT2D"), "{text}: {frames:?}");
    }
    assert_eq!(described(&shown("SHOW time zone")[2])[0].0, "TimeZone");
    shown("BEGIN");
    shown("DECLARE \"C\" SCROLL CURSOR FOR SELECT n, 'x' AS t FROM generate_series(1, 5) AS g (n)");
    let fetched = shown("FETCH 2 FROM \"C\"");
    assert_eq!(kinds(&fetched), "1tT2DDCZ");
    assert_eq!(described(&fetched[2])[1].0, "t");
    assert_eq!(fetched[6].body, b"FETCH 2\0");
    assert_eq!(kinds(&shown("MOVE 1 FROM \"C\"")), "1tn2CZ");
    shown("PREPARE p AS SELECT 7 AS seven");
    assert_eq!(described(&shown("EXECUTE p")[2])[0].0, "seven");
    // A cursor is a portal as well.
    raw.send(&[describe(b'P', "C"), execute("C", 1), execute("C", 0), sync()].concat());
    assert_eq!(kinds(&raw.until(b'Z')), "TDsDCZ");
    raw.send(&[message(b'C', &[b"P", b"C\0"]), sync()].concat());
    assert_eq!(kinds(&raw.until(b'Z')), "3Z");
    assert_eq!(raw.query("FETCH 1 FROM \"C\"")[0].field(b'C'), Some("34000"));
}

#[test]
fn the_transaction_of_a_message_takes_neither_savepoints_nor_chains() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    raw.ok("CREATE TABLE t (a INTEGER)");
    for text in [
        "SELECT 1; SAVEPOINT s",
        "SELECT 1; RELEASE SAVEPOINT s",
        "SELECT 1; ROLLBACK TO SAVEPOINT s",
        "INSERT INTO t VALUES (1); COMMIT AND CHAIN",
        "INSERT INTO t VALUES (2); ROLLBACK AND CHAIN",
        "INSERT INTO t VALUES (3); COMMIT AND CHAIN; INSERT INTO t VALUES (4)",
    ] {
        let frames = raw.query(text);
        let error = frames.iter().find(|frame| frame.kind == b'E').expect(text);
        assert_eq!(error.field(b'C'), Some("25P01"), "{text}: {frames:?}");
        assert_eq!(frames.last().unwrap().body, b"I", "{text} leaves no transaction");
    }
    // What came before a COMMIT without a chain stays, and a BEGIN makes the message's statements a block.
    raw.ok("INSERT INTO t VALUES (5); COMMIT; INSERT INTO t VALUES (6); ROLLBACK");
    raw.ok("INSERT INTO t VALUES (7); BEGIN; SAVEPOINT s; INSERT INTO t VALUES (8); ROLLBACK TO s");
    raw.ok("COMMIT AND CHAIN");
    raw.ok("ROLLBACK");
    let rows = raw.ok("SELECT array_agg(a ORDER BY a) FROM t");
    let row = rows.iter().find(|frame| frame.kind == b'D').unwrap();
    assert!(row.body.ends_with(b"{5,7}"), "{row:?}");
    // Modes of a BEGIN in the middle hold.
    let refused = raw.query("SELECT 1; BEGIN READ ONLY; INSERT INTO t VALUES (9)");
    let error = refused.iter().find(|frame| frame.kind == b'E').unwrap();
    assert_eq!(error.field(b'C'), Some("25006"));
    raw.ok("ROLLBACK");
    let refused = raw.query("SELECT 1; BEGIN ISOLATION LEVEL READ COMMITTED");
    let error = refused.iter().find(|frame| frame.kind == b'E').unwrap();
    assert_eq!(error.field(b'C'), Some("25001"));
    raw.ok("ROLLBACK");
}

#[test]
fn a_commit_that_fails_ends_the_transaction() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    raw.ok("CREATE TABLE a (id INTEGER PRIMARY KEY)");
    raw.ok("CREATE TABLE b (a INTEGER REFERENCES a DEFERRABLE INITIALLY DEFERRED)");
    raw.ok("BEGIN");
    raw.ok("INSERT INTO b VALUES (1)");
    raw.send(&[parse("", "COMMIT"), bind("", "", &[]), execute("", 0), sync()].concat());
    let frames = raw.until(b'Z');
    assert_eq!(kinds(&frames), "12EZ");
    assert_eq!(frames[2].field(b'C'), Some("23503"));
    assert_eq!(frames[2].field(b'n'), Some("b_a_fkey"));
    assert_eq!(frames[3].body, b"I");
    // Several statements in one message are one transaction, which ends behind the last.
    raw.ok("INSERT INTO b VALUES (1); INSERT INTO a VALUES (1)");
    let frames = raw.query("DELETE FROM a; INSERT INTO a VALUES (2)");
    assert_eq!(frames.iter().find_map(|frame| frame.field(b'C')), Some("23503"));
    raw.send(&query("COPY b FROM STDIN"));
    raw.until(b'G');
    raw.send(&message(b'd', &[b"3\n"]));
    raw.send(&message(b'c', &[]));
    assert_eq!(raw.until(b'Z')[0].field(b'C'), Some("23503"));
}

#[test]
fn an_error_of_the_extended_protocol_does_not_wait_for_sync() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    raw.send(&parse("", "SELECT nonsense"));
    assert_eq!(raw.next().expect("at once").field(b'C'), Some("42703"));
    raw.send(&[parse("", "SELECT 1"), message(b'H', &[]), sync()].concat());
    assert_eq!(kinds(&raw.until(b'Z')), "Z", "what follows is skipped");
}

#[test]
fn columns_tell_the_table_that_they_come_from_and_their_type_in_the_catalog() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    raw.ok("CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR(9))");
    let oid = raw.ok("SELECT 't'::regclass::oid")[1].body[6..].to_vec();
    let oid: u32 = String::from_utf8_lossy(&oid).parse().expect("a number");
    let text = "SELECT b.name, a.id + 1, a.id FROM t a JOIN t b ON a.id = b.id WHERE a.id > 0";
    let columns = described(&raw.ok(text)[0]);
    let origins: Vec<_> = columns.iter().map(|(_, table, column, _)| (*table, *column)).collect();
    assert_eq!(origins, [(oid, 2), (0, 0), (oid, 1)]);
    for (text, oids) in [
        ("SELECT oid, relname, relkind, reltype FROM pg_class", vec![26, 19, 18, 26]),
        ("SELECT typname, typinput, typtype FROM pg_type", vec![19, 24, 18]),
        ("SELECT conkey, conname FROM pg_constraint", vec![1005, 19]),
        ("SELECT indkey, indclass FROM pg_index", vec![22, 30]),
        ("SELECT ARRAY[1, 2], ARRAY['a'], pg_sleep(0)", vec![1007, 1009, 2278]),
    ] {
        let told: Vec<u32> = described(&raw.ok(text)[0]).iter().map(|column| column.3).collect();
        assert_eq!(told, oids, "{text}");
    }
    let keys = raw.ok("SELECT indkey FROM pg_index WHERE indrelid = 't'::regclass");
    assert_eq!(&keys[1].body[6..], b"1", "a vector has no braces");
}

#[test]
fn notifications_come_when_the_transaction_commits_and_wake_an_idle_client() {
    let server = server();
    let (mut one, mut two) = (Raw::connect(server.address()), Raw::connect(server.address()));
    one.ok("LISTEN \"Ch\"");
    two.ok("BEGIN");
    two.ok("NOTIFY \"Ch\", 'first'");
    two.ok("SAVEPOINT s");
    two.ok("NOTIFY \"Ch\", 'undone'");
    two.ok("ROLLBACK TO s");
    two.ok("NOTIFY \"Ch\", 'first'");
    two.ok("SELECT pg_notify('Ch', 'second')");
    assert_eq!(kinds(&one.ok("SELECT 1")), "TDCZ", "nothing has been committed");
    two.ok("COMMIT");
    let told = [one.next().expect("told"), one.next().expect("told")];
    let payload = |frame: &Frame| String::from_utf8_lossy(&frame.body[4..]).into_owned();
    assert_eq!(told.each_ref().map(payload), ["Ch\0first\0", "Ch\0second\0"]);
    let own = one.ok("NOTIFY \"Ch\"");
    assert_eq!(kinds(&own), "CAZ", "a session hears itself");
    one.ok("UNLISTEN *");
    two.ok("NOTIFY \"Ch\"");
    assert_eq!(kinds(&one.ok("SELECT 1")), "TDCZ");
    let refused = two.query("SELECT pg_notify('', 'x')");
    let error = refused.iter().find(|frame| frame.kind == b'E').expect("no channel");
    assert_eq!(error.field(b'C'), Some("22023"));
}

#[test]
fn sessions_cancel_and_end_others() {
    let server = server();
    let (mut one, mut two) = (Raw::connect(server.address()), Raw::connect(server.address()));
    let own = one.ok("SELECT pg_backend_pid()")[1].body[6..].to_vec();
    let own = String::from_utf8_lossy(&own).into_owned();
    one.send(&query("SELECT pg_sleep(60)"));
    std::thread::sleep(std::time::Duration::from_millis(100));
    two.ok(&format!("SELECT pg_cancel_backend({own})"));
    let cancelled = one.until(b'Z');
    let error = cancelled.iter().find(|frame| frame.kind == b'E').expect("cancelled");
    assert_eq!(error.field(b'C'), Some("57014"));
    two.ok(&format!("SELECT pg_terminate_backend({own})"));
    assert_eq!(one.next().expect("a farewell").field(b'C'), Some("57P01"));
    assert_eq!(one.next(), None);
    // The session ends after its farewell.
    let is_gone = |two: &mut Raw| {
        let gone = two.ok(&format!("SELECT pg_terminate_backend({own})"));
        gone[1].body[6..] == *b"f"
    };
    let began = std::time::Instant::now();
    while !is_gone(&mut two) {
        assert!(began.elapsed() < PATIENCE, "the session stays");
    }
}

/// A call of `pg_sleep` or of an advisory lock waits without a thread if it is its statement's only one with effects.
#[test]
fn a_wait_of_a_function_ends_as_others_do() {
    let server = server();
    let mut holder = Raw::connect(server.address());
    let mut waiter = Raw::connect(server.address());
    // Time passes once for each call, however often the statement is run.
    for (text, ms) in [
        ("SELECT pg_sleep(0.1), 7", 100),
        ("SELECT pg_sleep(0.1)", 100),
        ("SELECT pg_sleep(0.1), pg_sleep(0.1)", 200),
        ("SELECT x, x FROM (SELECT pg_sleep(0.1) AS x) q", 100),
        ("WITH q AS (SELECT pg_sleep(0.1) AS x) SELECT x, x FROM q", 100),
        ("SELECT pg_sleep(x) FROM (SELECT 0.1 AS x) q", 100),
        ("SELECT (SELECT pg_sleep(0.1))", 100),
        ("BEGIN READ ONLY; SELECT pg_sleep(0.1); SELECT pg_sleep(0.1); COMMIT", 200),
        ("SET default_transaction_read_only = on; SELECT pg_sleep(0.1)", 100),
        ("RESET default_transaction_read_only; SELECT pg_sleep(-1)", 0),
    ] {
        let began = Instant::now();
        waiter.ok(text);
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(ms), "{text}: {took:?}");
        assert!(took < Duration::from_secs(10), "{text}: {took:?}");
    }
    waiter.ok("SET statement_timeout = 50");
    assert_eq!(state_of(&waiter.query("SELECT pg_sleep(1000)")), Some("57014"));
    assert_eq!(state_of(&waiter.query("SELECT pg_sleep('Infinity')")), Some("57014"));
    holder.ok("SELECT pg_advisory_lock(1)");
    assert_eq!(state_of(&waiter.query("SELECT pg_advisory_lock(1)")), Some("57014"));
    waiter.ok("SET statement_timeout = 0; SET lock_timeout = 50");
    waiter.ok("BEGIN");
    assert_eq!(state_of(&waiter.query("SELECT pg_advisory_xact_lock(1)")), Some("55P03"));
    assert_eq!(state_of(&waiter.query("SELECT 1")), Some("25P02"));
    waiter.ok("ROLLBACK; SET lock_timeout = 0");
    // Who has given up has no lock, and stands in nobody's way.
    holder.ok("SELECT pg_advisory_unlock(1)");
    assert_eq!(holder.value("SELECT pg_try_advisory_lock(1)"), b"t");
    // The lock comes once.
    let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    waiter.send(&query("SELECT pg_advisory_lock(1)"));
    let mut watcher = Raw::connect(server.address());
    eventually("a wait for what another holds", || watcher.value(waiting) == b"1");
    holder.ok("SELECT pg_advisory_unlock(1)");
    assert_eq!(state_of(&waiter.until(b'Z')), None);
    assert_eq!(waiter.value("SELECT pg_advisory_unlock(1)"), b"t");
    assert_eq!(waiter.value("SELECT pg_advisory_unlock(1)"), b"f");
    // A circle, and what lies outside of it.
    holder.ok("SELECT pg_advisory_lock(1)");
    waiter.ok("SELECT pg_advisory_lock(2)");
    waiter.send(&query("SELECT pg_advisory_lock(1)"));
    eventually("a wait in a circle", || watcher.value(waiting) == b"1");
    assert_eq!(state_of(&holder.query("SELECT pg_advisory_lock(2)")), Some("40P01"));
    let pid = watcher.value("SELECT pid FROM pg_locks WHERE NOT granted");
    let pid = String::from_utf8(pid).expect("digits");
    assert_eq!(watcher.value(&format!("SELECT pg_cancel_backend({pid})")), b"t");
    assert_eq!(state_of(&waiter.until(b'Z')), Some("57014"));
    waiter.send(&query("SELECT pg_advisory_lock(1)"));
    eventually("a wait to be ended", || watcher.value(waiting) == b"1");
    assert_eq!(watcher.value(&format!("SELECT pg_terminate_backend({pid})")), b"t");
    eventually("its locks are free", || watcher.value("SELECT pg_try_advisory_lock(2)") == b"t");
    assert_eq!(watcher.value(waiting), b"0");
}

#[test]
fn advisory_locks_keep_sessions_apart() {
    let server = server();
    let (mut one, mut two) = (Raw::connect(server.address()), Raw::connect(server.address()));
    one.ok("SELECT pg_advisory_lock(7)");
    assert_eq!(two.value("SELECT pg_try_advisory_lock(7)"), b"f");
    assert_eq!(two.value("SELECT pg_try_advisory_lock(7, 7)"), b"t");
    two.ok("SET lock_timeout = 50");
    let late = two.query("SELECT pg_advisory_lock(7)");
    let error = late.iter().find(|frame| frame.kind == b'E').expect("it is taken");
    assert_eq!(error.field(b'C'), Some("55P03"));
    assert_eq!(one.value("SELECT pg_advisory_unlock(7)"), b"t");
    two.ok("BEGIN");
    two.ok("SELECT pg_advisory_xact_lock(7)");
    assert_eq!(one.value("SELECT pg_try_advisory_lock_shared(7)"), b"f");
    two.ok("COMMIT");
    assert_eq!(one.value("SELECT pg_try_advisory_lock_shared(7)"), b"t");
}

#[test]
fn set_config_sets_and_clients_are_told() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    let told = raw.ok("SELECT set_config('TimeZone', 'Asia/Tokyo', false)");
    assert!(kinds(&told).contains('S'), "{told:?}");
    assert_eq!(&raw.ok("SHOW timezone")[1].body[6..], b"Asia/Tokyo");
    raw.ok("BEGIN");
    raw.ok("SELECT set_config('search_path', 'pg_catalog', true)");
    assert_eq!(&raw.ok("SHOW search_path")[1].body[6..], b"pg_catalog");
    raw.ok("COMMIT");
    assert_eq!(&raw.ok("SHOW search_path")[1].body[6..], b"\"$user\", public");
    let refused = raw.query("SELECT set_config('lock_timeout', 'soon', false)");
    let error = refused.iter().find(|frame| frame.kind == b'E').expect("no time");
    assert_eq!(error.field(b'C'), Some("22023"));
}

#[test]
fn arrays_go_in_and_come_out_in_binary() {
    let server = server();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = connect(&server).await;
        let config = format!("host=127.0.0.1 port={}", server.address().port());
        assert!(tokio_postgres::connect(&config, NoTls).await.is_err(), "no user was named");
        let table = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, at DATE);
            INSERT INTO t VALUES (1, 'a'), (2, 'b,c'), (3, NULL)";
        client.batch_execute(table).await.unwrap();
        let ids = |rows: Vec<tokio_postgres::Row>| -> Vec<i32> {
            rows.iter().map(|row| row.get(0)).collect()
        };
        let text = "SELECT id FROM t WHERE id = ANY($1) ORDER BY id";
        let found = client.query(text, &[&vec![3, 1, 9]]).await.unwrap();
        assert_eq!(ids(found), [1, 3]);
        let text = "SELECT id FROM t WHERE name = ANY($1::text[]) ORDER BY id";
        let found = client.query(text, &[&vec!["b,c", "\"x\""]]).await.unwrap();
        assert_eq!(ids(found), [2]);
        let found = client.query("SELECT id FROM t WHERE id <> ALL($1)", &[&vec![1, 2]]).await;
        assert_eq!(ids(found.unwrap()), [3]);
        let none: Vec<i32> = Vec::new();
        let found = client.query("SELECT id FROM t WHERE id = ANY($1)", &[&none]).await;
        assert_eq!(ids(found.unwrap()), none);
        let gone = client.execute("DELETE FROM t WHERE id = ANY($1)", &[&vec![1, 2]]).await;
        assert_eq!(gone.unwrap(), 2);
        let row =
            client.query_one("SELECT ARRAY[1, NULL, 3], ARRAY['a', 'b c']", &[]).await.unwrap();
        assert_eq!(row.get::<_, Vec<Option<i32>>>(0), [Some(1), None, Some(3)]);
        assert_eq!(row.get::<_, Vec<&str>>(1), ["a", "b c"]);
        let text = "SELECT typname, typarray FROM pg_type WHERE typname = $1 AND oid = $2";
        let row = client.query_one(text, &[&"int4", &23_u32]).await.unwrap();
        assert_eq!((row.get::<_, &str>(0), row.get::<_, u32>(1)), ("int4", 1007));
        let text = "SELECT indkey FROM pg_index WHERE indrelid = $1::regclass";
        assert!(client.query(text, &[&"t"]).await.is_ok());
    });
}

/// A statement is described once and run many times; meanwhile others change its table.
#[test]
fn a_named_statement_never_sends_other_columns_than_it_described() {
    let server = server();
    let address = server.address();
    let mut owner = Raw::connect(address);
    owner.ok("CREATE TABLE v (a INT, b TEXT, c INT)");
    owner.ok("INSERT INTO v VALUES (1, 'x', 2)");
    let mut client = Raw::connect(address);
    for (name, text) in [("all", "SELECT * FROM v"), ("one", "SELECT a FROM v")] {
        client.send(&parse(name, text));
        client.send(&sync());
        client.until(b'Z');
    }
    client.ok("PREPARE own AS SELECT * FROM v");
    let mut run = |name: &str| {
        client.send(&bind("", name, &[]));
        client.send(&execute("", 0));
        client.send(&sync());
        let answer = client.until(b'Z');
        let error = answer.iter().find(|frame| frame.kind == b'E');
        error.and_then(|frame| frame.field(b'C')).map(str::to_owned)
    };
    assert_eq!(run("all"), None);
    owner.ok("CREATE TABLE other (x INT)");
    assert_eq!(run("all"), None, "a change elsewhere changes nothing");
    owner.ok("ALTER TABLE v DROP COLUMN c");
    assert_eq!(run("all").as_deref(), Some("0A000"));
    assert_eq!(run("all").as_deref(), Some("0A000"), "and again");
    assert_eq!(run("one"), None, "its column is there");
    owner.ok("ALTER TABLE v ADD COLUMN c INT");
    assert_eq!(run("all"), None, "the columns are as they were described");
    owner.ok("ALTER TABLE v RENAME COLUMN c TO d");
    assert_eq!(run("all").as_deref(), Some("0A000"));
    let answer = client.query("EXECUTE own");
    assert_eq!(answer[0].field(b'C'), Some("0A000"), "{answer:?}");
}

/// The ids are those that PostgreSQL tells.
#[test]
fn what_is_made_of_names_and_object_ids_is_told_as_such() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    for (expr, from, oid) in [
        ("array_agg(relname)", "pg_class", 1003),
        ("array_agg(relname ORDER BY oid)", "pg_class", 1003),
        ("array_agg(enumlabel)", "pg_enum", 1003),
        ("array_agg(oid)", "pg_class", 1028),
        ("array_agg(relkind)", "pg_class", 1002),
        ("ARRAY[relname, NULL]", "pg_class", 1003),
        ("ARRAY[oid, 0]", "pg_class", 1028),
        ("(array_agg(relname))[1]", "pg_class", 19),
        ("unnest(array_agg(oid))", "pg_class", 26),
        ("array_append(array_agg(relname), 'x')", "pg_class", 1003),
        ("max(oid)", "pg_class", 26),
        ("max(relname)", "pg_class", 25),
        ("max(relkind)", "pg_class", 25),
        ("coalesce(relname, 'x')", "pg_class", 19),
        ("coalesce(oid, 0)", "pg_class", 26),
        ("coalesce(relname, 'x'::text)", "pg_class", 19),
        ("coalesce('x'::text, relname)", "pg_class", 25),
        ("CASE WHEN true THEN relname END", "pg_class", 19),
        ("CASE WHEN true THEN oid ELSE 0 END", "pg_class", 26),
        ("CASE WHEN true THEN relkind ELSE 'x' END", "pg_class", 18),
        ("nullif(oid, 0)", "pg_class", 26),
        ("greatest(relname, 'x')", "pg_class", 19),
        ("lag(oid) OVER (ORDER BY oid)", "pg_class", 26),
        ("first_value(relname) OVER (ORDER BY oid)", "pg_class", 19),
        ("(SELECT relname FROM pg_class LIMIT 1)", "pg_class", 19),
        ("(SELECT array_agg(enumlabel) FROM pg_enum WHERE enumtypid = reltype)", "pg_class", 1003),
        ("(SELECT max(oid) FROM pg_type)", "pg_class", 26),
        ("x", "(SELECT oid AS x FROM pg_class UNION SELECT oid FROM pg_type) AS u", 26),
        ("x", "(SELECT relname AS x FROM pg_class UNION ALL SELECT 'y'::text) AS u", 19),
        ("relname::text", "pg_class", 25),
        ("oid::int", "pg_class", 23),
        ("lower(relname)", "pg_class", 25),
        ("relname || 'x'", "pg_class", 25),
        ("string_agg(relname, ',')", "pg_class", 25),
        ("unnest(indkey)", "pg_index", 21),
        ("unnest(conkey)", "pg_constraint", 21),
        ("indkey[0]", "pg_index", 21),
    ] {
        let text = format!("SELECT {expr} FROM {from}");
        raw.send(&[parse("", &text), describe(b'S', ""), sync()].concat());
        let frames = raw.until(b'Z');
        assert_eq!(kinds(&frames), "1tTZ", "{text}: {frames:?}");
        assert_eq!(described(&frames[2])[0].3, oid, "{text}");
    }
}
