//! Message by message: what is answered, in which order, and what ends a connection.

use super::common::*;

#[test]
fn a_query_of_several_statements_answers_each_and_is_one_transaction() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    raw.ok("CREATE TABLE t (id INTEGER PRIMARY KEY)");
    assert_eq!(kinds(&raw.query("INSERT INTO t VALUES (1); SELECT id FROM t;")), "CTDCZ");
    let failed = raw.query("INSERT INTO t VALUES (2); SELECT 1/0 FROM t; INSERT INTO t VALUES (3)");
    assert!(["CEZ", "CTEZ"].contains(&&*kinds(&failed)), "{failed:?}");
    assert_eq!(failed.last().unwrap().body, b"I");
    let left = raw.query("SELECT id FROM t");
    assert_eq!(kinds(&left), "TDCZ", "the first INSERT went with the failed SELECT");
    assert_eq!(kinds(&raw.query(" ; ")), "IZ");
    assert_eq!(kinds(&raw.query("-- nothing")), "IZ");
}

#[test]
fn begin_within_a_query_makes_a_block_of_it() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    let begun = raw.ok("SELECT 1; BEGIN; SELECT 2");
    assert_eq!(begun.last().unwrap().body, b"T");
    assert_eq!(raw.ok("COMMIT").last().unwrap().body, b"I");
    let failed = raw.query("BEGIN; SELECT 1/0");
    assert_eq!(failed.last().unwrap().body, b"E");
    assert_eq!(raw.query("SELECT 1")[0].field(b'C'), Some("25P02"));
    assert_eq!(raw.ok("ROLLBACK").last().unwrap().body, b"I");
}

#[test]
fn error_positions_count_from_the_start_of_the_message() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    let failed = raw.query("SELECT 'ä'; SELECT nonsense");
    let error = failed.iter().find(|frame| frame.kind == b'E').expect("an error");
    assert_eq!(error.field(b'C'), Some("42703"));
    if let Some(position) = error.field(b'P') {
        assert_eq!(position, "20");
    }
}

#[test]
fn a_pipeline_answers_in_order_and_skips_to_sync_after_an_error() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    raw.send(
        &[parse("s", "SELECT $1::int"), describe(b'S', "s"), bind("", "s", &["7"]), sync()]
            .concat(),
    );
    assert_eq!(kinds(&raw.until(b'Z')), "1tT2Z");
    let pipeline = [
        bind("", "s", &["1"]),
        execute("", 0),
        bind("", "s", &["no number"]),
        execute("", 0),
        bind("", "s", &["2"]),
        execute("", 0),
        sync(),
        bind("", "s", &["3"]),
        describe(b'P', ""),
        execute("", 0),
        sync(),
    ];
    raw.send(&pipeline.concat());
    let first = raw.until(b'Z');
    assert!(["2DC2EZ", "2DCEZ"].contains(&&*kinds(&first)), "{first:?}");
    assert_eq!(kinds(&raw.until(b'Z')), "2TDCZ");
}

#[test]
fn statements_between_syncs_are_one_transaction() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    raw.ok("CREATE TABLE t (id INTEGER PRIMARY KEY)");
    raw.send(&[parse("s", "INSERT INTO t VALUES ($1)"), sync()].concat());
    raw.until(b'Z');
    let insert = |id: &str| [bind("", "s", &[id]), execute("", 0)].concat();
    raw.send(&[insert("1"), insert("2"), insert("1"), sync()].concat());
    let failed = raw.until(b'Z');
    assert_eq!(kinds(&failed), "2C2C2EZ");
    assert_eq!(kinds(&raw.query("SELECT id FROM t")), "TCZ", "all are undone");
    raw.send(&[insert("1"), insert("2"), sync()].concat());
    raw.until(b'Z');
    assert_eq!(kinds(&raw.query("SELECT id FROM t")), "TDDCZ");
}

#[test]
fn a_portal_is_suspended_at_its_row_limit_and_goes_on() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    raw.ok("CREATE TABLE t (id INTEGER PRIMARY KEY)");
    raw.ok("INSERT INTO t VALUES (1), (2), (3), (4), (5)");
    raw.ok("BEGIN");
    raw.send(
        &[parse("", "SELECT id FROM t"), bind("p", "", &[]), execute("p", 2), sync()].concat(),
    );
    assert_eq!(kinds(&raw.until(b'Z')), "12DDsZ");
    raw.send(&[execute("p", 2), execute("p", 2), execute("p", 2), sync()].concat());
    let rest = raw.until(b'Z');
    assert_eq!(kinds(&rest), "DDsDCCZ");
    assert_eq!(rest[4].body, b"SELECT 1\0");
    assert_eq!(rest[5].body, b"SELECT 0\0");
    raw.ok("COMMIT");
    raw.send(&[execute("p", 2), sync()].concat());
    assert_eq!(raw.until(b'Z')[0].field(b'C'), Some("34000"), "it went with the transaction");
}

#[test]
fn a_portal_that_has_written_does_not_run_again() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    raw.ok("CREATE TABLE t (id INTEGER)");
    raw.send(
        &[parse("", "INSERT INTO t VALUES (1)"), bind("p", "", &[]), execute("p", 0)].concat(),
    );
    raw.send(&[execute("p", 0), sync()].concat());
    let answer = raw.until(b'Z');
    assert_eq!(kinds(&answer), "12CEZ");
    assert_eq!(answer[3].field(b'C'), Some("55000"));
    assert_eq!(answer[3].field(b'M'), Some("portal \"p\" cannot be run"));
    assert_eq!(raw.count("SELECT count(*) FROM t"), 0, "its transaction is undone");
}

#[test]
fn a_client_that_has_closed_its_sending_side_gets_its_answer() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    raw.send(&query("SELECT pg_sleep(0.3), 7"));
    raw.stream.shutdown(std::net::Shutdown::Write).expect("it is open");
    assert_eq!(kinds(&raw.until(b'Z')), "TDCZ");
}

#[test]
fn set_config_sets_the_role_as_set_does() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    raw.ok("CREATE ROLE reader");
    raw.ok("SELECT set_config('role', 'reader', false)");
    let user = |raw: &mut Raw| raw.count("SELECT (current_user = 'reader')::int");
    assert_eq!(user(&mut raw), 1);
    raw.ok("SELECT set_config('role', 'none', false)");
    assert_eq!(user(&mut raw), 0);
    raw.ok("BEGIN; SELECT set_config('role', 'reader', true)");
    assert_eq!(user(&mut raw), 1);
    raw.ok("COMMIT");
    assert_eq!(user(&mut raw), 0);
    let refused = raw.query("SELECT set_config('role', 'nobody', false)");
    assert!(refused.iter().any(|frame| frame.field(b'C') == Some("22023")), "{refused:?}");
}

#[test]
fn a_session_lists_the_channels_that_it_listens_to() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    let mut other = Raw::connect(server.address());
    raw.ok("LISTEN a");
    raw.ok("LISTEN b");
    let listed = "SELECT count(*) FROM pg_listening_channels() AS c WHERE c IN ('a', 'b')";
    assert_eq!([raw.count(listed), other.count(listed)], [2, 0]);
    raw.ok("UNLISTEN a");
    assert_eq!(raw.count("SELECT count(*) FROM (SELECT pg_listening_channels()) q"), 1);
}

#[test]
fn rows_of_typed_parameters_are_as_many_as_parameters() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    raw.ok("CREATE TABLE t (id BIGINT, name VARCHAR(8), n NUMERIC(8,2))");
    // A cast to the column's type, one of a text to a shorter one, and one that converts.
    let row = |at: usize| format!("(${}::bigint, ${}::text, ${}::int)", at, at + 1, at + 2);
    let rows: Vec<String> = (0..900).map(|number| row(3 * number + 1)).collect();
    let values: Vec<String> = (0..2_700).map(|value| value.to_string()).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let text = format!("INSERT INTO t VALUES {}", rows.join(", "));
    raw.send(&[parse("", &text), bind("", "", &values), execute("", 0), sync()].concat());
    assert_eq!(kinds(&raw.until(b'Z')), "12CZ");
    assert_eq!(raw.count("SELECT sum(id) + sum(name::int) + sum(n)::int FROM t"), 2_699 * 1_350);
    let long = [parse("", "INSERT INTO t VALUES ($1::bigint, $2::text)"), sync()].concat();
    raw.send(&long);
    raw.until(b'Z');
    raw.send(&[bind("", "", &["1", "longer than eight"]), execute("", 0), sync()].concat());
    assert!(raw.until(b'Z').iter().any(|frame| frame.field(b'C') == Some("22001")));
}

#[test]
fn names_are_unique_until_closed() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    let close = |kind: u8, name: &str| message(b'C', &[&[kind], name.as_bytes(), b"\0"]);
    raw.send(&[parse("a", "SELECT 1"), parse("a", "SELECT 2"), sync()].concat());
    assert_eq!(raw.until(b'Z')[1].field(b'C'), Some("42P05"));
    raw.send(&[close(b'S', "a"), close(b'S', "a"), parse("a", "SELECT 2"), sync()].concat());
    assert_eq!(kinds(&raw.until(b'Z')), "331Z");
    raw.ok("DEALLOCATE a");
    raw.send(&[bind("", "a", &[]), sync()].concat());
    assert_eq!(raw.until(b'Z')[0].field(b'C'), Some("26000"));
    let unnamed = [parse("", "SELECT 3"), parse("c", "SELECT 4"), bind("", "", &[]), sync()];
    raw.send(&unnamed.concat());
    assert_eq!(kinds(&raw.until(b'Z')), "112Z", "another name leaves the unnamed one alone");
    raw.send(&[parse("b", "SELECT 1"), bind("p", "b", &[]), bind("p", "b", &[]), sync()].concat());
    assert_eq!(raw.until(b'Z')[2].field(b'C'), Some("42P03"));
}

#[test]
fn wrong_numbers_of_parameters_and_formats_are_errors_of_the_statement() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    raw.send(&[parse("s", "SELECT $1::int"), sync()].concat());
    raw.until(b'Z');
    raw.send(&[bind("", "s", &["1", "2"]), sync()].concat());
    assert_eq!(raw.until(b'Z')[0].field(b'C'), Some("08P01"));
    let three_formats = message(b'B', &[b"\0s\0\0\0\0\x01\0\0\0\x011\0\x03\0\0\0\0\0\0"]);
    raw.send(&[three_formats, sync()].concat());
    assert_eq!(raw.until(b'Z')[0].field(b'C'), Some("08P01"));
    assert_eq!(kinds(&raw.ok("SELECT 1")), "TDCZ", "the connection lives on");
}

#[test]
fn malformed_messages_end_the_connection_with_08p01_and_no_other() {
    let server = server();
    let mut other = Raw::connect(server.address());
    let cases: [&[u8]; 10] = [
        b"!\0\0\0\x04",
        b"Q\x7f\xff\xff\xff",
        b"Q\0\0\0\x03",
        b"Q\xff\xff\xff\xffx",
        b"S\0\0\xff\xff",
        b"Q\0\0\0\x08abcd",
        b"P\0\0\0\x0aa\0b\0\xff\xff",
        b"B\0\0\0\x0d\0\0\0\0\0\x01\xff\xff\0",
        b"D\0\0\0\x06Z\0",
        b"p\0\0\0\x05x",
    ];
    for case in cases {
        let mut raw = Raw::connect(server.address());
        raw.send(case);
        let answer = raw.until(b'Z');
        assert_eq!(kinds(&answer), "E", "{case:?}: {answer:?}");
        assert_eq!(answer[0].field(b'C'), Some("08P01"), "{case:?}");
        assert_eq!(answer[0].field(b'S'), Some("FATAL"), "{case:?}");
        other.ok("SELECT 1");
    }
}

#[test]
fn malformed_startup_packets_end_the_connection_with_08p01() {
    let server = server();
    let cases: [&[u8]; 6] = [
        b"\x7f\xff\xff\xff\0\x03\0\0",
        b"\0\0\0\x03",
        b"\0\0\0\x08\0\x02\0\0",
        b"\0\0\0\x09\0\x03\0\0\0",
        b"\0\0\0\x0c\0\x03\0\0user",
        b"GET / HTTP/1.1\r\n\r\n",
    ];
    for case in cases {
        let mut raw = Raw::silent(server.address());
        raw.send(case);
        let answer = raw.until(b'Z');
        assert_eq!(kinds(&answer), "E", "{case:?}: {answer:?}");
        assert_eq!(answer[0].field(b'C'), Some("08P01"), "{case:?}");
    }
}

#[test]
fn encryption_is_declined_where_there_is_none() {
    use std::io::Read as _;
    let server = server();
    let mut raw = Raw::silent(server.address());
    for code in [80_877_103u32, 80_877_104] {
        raw.send(&[&8u32.to_be_bytes()[..], &code.to_be_bytes()].concat());
        let mut answer = [0];
        raw.stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *b"N");
    }
    raw.send(&startup(&superuser()));
    assert_eq!(raw.until(b'Z').last().unwrap().kind, b'Z');
}

#[test]
fn newer_protocols_are_negotiated_down() {
    let server = server();
    let mut raw = Raw::silent(server.address());
    let mut packet = startup(&superuser());
    packet[7] = 9;
    raw.send(&packet);
    let answer = raw.until(b'Z');
    assert_eq!(answer[0].kind, b'v', "{answer:?}");
    assert_eq!(answer[0].body[..4], (3u32 << 16 | 2).to_be_bytes());
    let key = answer.iter().find(|frame| frame.kind == b'K').unwrap();
    assert_eq!(key.body.len(), 4 + 32, "protocol 3.2 has long cancel keys");
}

#[test]
fn clients_are_told_the_settings_they_depend_on() {
    let server = server();
    let mut raw = Raw::silent(server.address());
    raw.send(&startup(&superuser()));
    let answer = raw.until(b'Z');
    let told: Vec<String> = answer
        .iter()
        .filter(|frame| frame.kind == b'S')
        .map(|frame| String::from_utf8_lossy(&frame.body).into_owned())
        .collect();
    for name in [
        "server_version\x0016.0 (Halcyon ",
        "client_encoding\0UTF8\0",
        "server_encoding\0UTF8\0",
        "DateStyle\0ISO, MDY\0",
        "TimeZone\0",
        "integer_datetimes\0on\0",
        "standard_conforming_strings\0on\0",
        "IntervalStyle\0postgres\0",
        "is_superuser\0on\0",
        "session_authorization\0",
        "application_name\0",
    ] {
        assert!(told.iter().any(|line| line.starts_with(name)), "{name:?} in {told:?}");
    }
    let changed = raw.ok("SET TIME ZONE 'Europe/Berlin'");
    assert_eq!(kinds(&changed), "SCZ");
    assert_eq!(changed[0].body, b"TimeZone\0Europe/Berlin\0");
}

#[test]
fn function_calls_are_declined_and_stray_copy_data_ignored() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    raw.send(&message(b'F', &[&[0; 10]]));
    let answer = raw.until(b'Z');
    assert_eq!(answer[0].field(b'C'), Some("0A000"));
    raw.send(&message(b'd', &[b"late"]));
    raw.send(&message(b'c', &[]));
    assert_eq!(kinds(&raw.ok("SELECT 1")), "TDCZ");
}

#[test]
fn text_that_is_not_utf8_is_an_error_of_the_statement() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    raw.send(&message(b'Q', &[b"SELECT '\xff'\0"]));
    assert_eq!(raw.until(b'Z')[0].field(b'C'), Some("22021"));
    raw.send(&[message(b'P', &[b"\0SELECT '\xff'\0\0\0"]), sync()].concat());
    assert_eq!(raw.until(b'Z')[0].field(b'C'), Some("22021"));
    raw.ok("SELECT 1");
}

#[test]
fn idle_timeouts_end_sessions_and_free_their_locks() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    raw.ok("CREATE TABLE t (id INTEGER PRIMARY KEY)");
    raw.ok("SET idle_in_transaction_session_timeout = '50ms'");
    raw.ok("BEGIN");
    raw.ok("INSERT INTO t VALUES (1)");
    assert_eq!(raw.until(b'Z')[0].field(b'C'), Some("25P03"));
    let mut other = Raw::connect(server.address());
    other.ok("INSERT INTO t VALUES (1)");
    other.ok("SET idle_session_timeout = '50ms'");
    assert_eq!(other.until(b'Z')[0].field(b'C'), Some("57P05"));
}

#[test]
fn shutdown_tells_idle_clients_and_cancels_busy_ones() {
    let server = server();
    let address = server.address();
    let mut idle = Raw::connect(address);
    let mut holder = Raw::connect(address);
    holder.ok("CREATE TABLE t (id INTEGER PRIMARY KEY)");
    holder.ok("INSERT INTO t VALUES (1)");
    let mut waiter = Raw::connect(address);
    holder.ok("BEGIN");
    holder.ok("UPDATE t SET id = 2");
    waiter.send(&query("UPDATE t SET id = 3"));
    std::thread::sleep(std::time::Duration::from_millis(100));
    server.shutdown();
    assert_eq!(idle.until(b'Z')[0].field(b'C'), Some("57P01"));
    let end = waiter.until(b'E');
    assert!(end.last().is_none_or(|frame| frame.kind != b'Z') || !end.is_empty());
    assert!(std::net::TcpStream::connect(address).is_err(), "nobody listens any more");
}
