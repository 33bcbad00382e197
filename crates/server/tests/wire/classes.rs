//! What workload classes see of a connection: when a statement's bytes arrived and when its answer was sent, and
//! portals that nobody reads.

use std::time::Duration;

use crate::common::{Frame, Raw, bind, eventually, execute, kinds, parse, query, server, sync};

/// A connection whose statements are of class `report`, which has these settings.
fn of_class(raw: &mut Raw, settings: &str) {
    raw.ok(&format!(
        "CREATE WORKLOAD CLASS report SET {settings};
         CREATE WORKLOAD MAPPING m WORKLOAD CLASS report SET 'APPLICATION NAME' = 'report'"
    ));
}

fn cells(frames: &[Frame]) -> Vec<String> {
    let rows = frames.iter().filter(|frame| frame.kind == b'D');
    rows.map(|row| String::from_utf8_lossy(&row.body[6..]).into_owned()).collect()
}

#[test]
fn a_statement_lasts_from_the_arrival_of_its_bytes() {
    let server = server();
    let mut admin = Raw::connect(server.address());
    of_class(&mut admin, "'PRIORITY' = '5'");
    let mut raw = Raw::connect(server.address());
    raw.ok("SET application_name = 'report'");
    // The others are over in no time, but for their wait behind the first.
    let quick = query("SELECT 1 FROM pg_class LIMIT 1");
    raw.send(&[query("SELECT pg_sleep(0.3)"), quick.clone(), quick].concat());
    (0..3).for_each(|_| drop(raw.until(b'Z')));
    let latency = "SELECT count(*) FROM halcyon.m_workload_class_latency
                   WHERE workload_class_name = 'report' AND p50_ms >= 290 AND statement_count >= 3";
    eventually("a latency of all", || cells(&admin.ok(latency)) == ["1"]);
}

#[test]
fn portals_that_nobody_reads_are_closed_while_their_client_is_silent() {
    let server = server();
    let mut admin = Raw::connect(server.address());
    of_class(&mut admin, "'IDLE CURSOR LIFETIME' = '100ms'");
    let mut raw = Raw::connect(server.address());
    raw.ok("SET application_name = 'report'; BEGIN; DECLARE c CURSOR FOR SELECT 1");
    let open = [parse("", "SELECT generate_series(1, 9)"), bind("p", "", &[]), execute("p", 2)];
    raw.send(&[open.concat(), sync()].concat());
    assert_eq!(kinds(&raw.until(b'Z')), "12DDsZ");
    // While there is something to read, nobody waits.
    raw.send(&[execute("p", 2), sync()].concat());
    assert_eq!(kinds(&raw.until(b'Z')), "DDsZ");
    let cursors = "SELECT count(*) FROM halcyon.sessions WHERE state LIKE 'idle in%'";
    eventually("an idle transaction", || cells(&admin.ok(cursors)) == ["1"]);
    std::thread::sleep(Duration::from_millis(300));
    raw.send(&[execute("p", 2), sync()].concat());
    let answer = raw.until(b'Z');
    let error = answer.iter().find(|frame| frame.kind == b'E').expect("an error");
    assert_eq!(error.field(b'C'), Some("34000"), "{answer:?}");
    let told: Vec<_> = answer.iter().filter(|frame| frame.kind == b'N').collect();
    assert_eq!(told.len(), 2, "{answer:?}");
    assert!(told.iter().all(|notice| notice.field(b'C') == Some("01000")), "{told:?}");
    raw.ok("ROLLBACK");
}
