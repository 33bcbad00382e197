//! Look-ups that have too many rows go on as scans: with the same rows, the same errors, and effects once.

use std::time::Duration;

use halcyon::{Database, RowSet, Session, SqlState, params};

use crate::{one, rows, state};

/// A database with `sale(shop, number, item, amount)`, whose shops 1 and 2 have 300 rows each, shop 3 two and shop 4 30
/// with the amount 1, and `item(id, price)` of 10 rows.
fn sales() -> Database {
    let database = Database::in_memory();
    let setup = "CREATE TABLE sale (shop INTEGER, number INTEGER, item INTEGER, amount INTEGER,
                     PRIMARY KEY (shop, number));
                 CREATE TABLE item (id INTEGER PRIMARY KEY, price INTEGER);
                 INSERT INTO sale SELECT 1 + n % 2, n / 2, n % 10, n FROM generate_series(0, 599) AS s(n);
                 INSERT INTO sale VALUES (3, 1, 1, 10), (3, 2, 2, 20);
                 INSERT INTO sale SELECT 4, n, 1, 1 FROM generate_series(1, 30) AS s(n);
                 INSERT INTO item SELECT n, 10 * n FROM generate_series(0, 9) AS s(n)";
    database.session().batch(setup).expect("tables");
    database
}

/// A session whose look-ups go on as scans beyond so many rows.
fn session(database: &Database, visits: u32) -> Session {
    let mut session = database.session();
    session.set("halcyon.point_visits", &visits.to_string()).expect("a setting");
    session
}

/// The lines that EXPLAIN ANALYZE begins with.
fn explained(session: &mut Session, text: &str) -> Vec<String> {
    let mut lines = rows(session, &format!("EXPLAIN ANALYZE {text}"));
    lines.truncate(3);
    lines
}

const POINT: &str = "Executor: point (row at a time over bounded index lookups)";
const CHANGED: [&str; 2] = [
    "Executor: analytical (vectorised over a snapshot)",
    "Change-over: there were too many rows to look up",
];

#[test]
fn a_look_up_of_many_rows_goes_on_as_a_scan_without_locks() {
    let database = sales();
    let mut reader = session(&database, 100);
    let of_shop =
        |shop| format!("SELECT sum(price) FROM sale, item WHERE shop = {shop} AND item = id");
    for text in [of_shop(1), "SELECT number FROM sale WHERE shop IN (1, 2)".to_owned()] {
        let lines = explained(&mut reader, &text);
        assert_eq!(lines[..2], CHANGED, "{text}");
        assert_eq!(lines[2], "Snapshot: no locks", "{text}");
    }
    for text in [
        of_shop(3),
        "SELECT number FROM sale WHERE shop = 1 LIMIT 50".to_owned(),
        "SELECT number FROM sale WHERE shop = 1 ORDER BY number DESC LIMIT 50".to_owned(),
        "SELECT count(*) FROM sale WHERE shop = 1 AND number < 90 AND number >= 0".to_owned(),
    ] {
        assert_eq!(explained(&mut reader, &text)[0], POINT, "{text}");
    }
    let mut whole = session(&database, 0);
    assert_eq!(explained(&mut whole, &of_shop(1))[0], POINT, "0 means all");
    for text in [
        of_shop(1),
        "SELECT shop, count(*), sum(amount) FROM sale WHERE shop IN (1, 2, 3) GROUP BY shop ORDER BY shop".to_owned(),
        "SELECT number FROM sale WHERE shop = 2 ORDER BY number".to_owned(),
        "SELECT id FROM item i WHERE id IN (1, 2) AND NOT EXISTS (SELECT 1 FROM sale WHERE shop = i.id AND amount > 598)"
            .to_owned(),
    ] {
        assert_eq!(rows(&mut reader, &text), rows(&mut whole, &text), "{text}");
    }
}

#[test]
fn the_visits_of_all_tables_of_a_join_count() {
    let database = sales();
    let mut reader = session(&database, 100);
    let joined = |most| {
        format!(
            "SELECT sum(price) FROM sale, item WHERE shop = 1 AND number BETWEEN 0 AND {most} AND item = id"
        )
    };
    assert_eq!(explained(&mut reader, &joined(45))[0], POINT);
    assert_eq!(explained(&mut reader, &joined(60))[..2], CHANGED);
    // One row of the outer side has all the others.
    let inner = "SELECT sum(amount) FROM item, sale WHERE id = 1 AND shop = id";
    assert_eq!(explained(&mut reader, inner)[..2], CHANGED);
}

#[test]
fn every_run_tries_whether_its_rows_are_few() {
    let database = sales();
    let mut reader = session(&database, 100);
    let statement =
        reader.prepare("SELECT count(*), sum(amount) FROM sale WHERE shop = $1").expect("a plan");
    let mut out = RowSet::default();
    for shop in [1, 3, 1, 1, 1, 3, 2, 3] {
        reader.query_into(&statement, params![shop], &mut out).expect("it runs");
        let count = if shop == 3 { 2 } else { 300 };
        assert_eq!(out.len(), 1);
        assert_eq!(out.value(0, 0), halcyon::ValueRef::Int64(count), "{shop}");
    }
    // What the plan has learned is told, until it has found few rows.
    let learned = |reader: &mut Session| {
        let lines = rows(reader, "EXPLAIN SELECT count(*) FROM sale WHERE shop = 1");
        lines[1].starts_with("Change-over: the last run had too many rows")
    };
    assert_eq!(one(&mut reader, "SELECT count(*) FROM sale WHERE shop = 1"), "300");
    assert!(learned(&mut reader));
    // Texts of the shape share a plan from the second one on.
    assert_eq!(one(&mut reader, "SELECT count(*) FROM sale WHERE shop = 2"), "300");
    assert_eq!(one(&mut reader, "SELECT count(*) FROM sale WHERE shop = 3"), "2");
    let shared = rows(&mut reader, "EXPLAIN SELECT count(*) FROM sale WHERE shop = 2");
    assert!(!shared[1].starts_with("Change-over"), "{shared:?}");
}

#[test]
fn rows_that_were_not_all_read_raise_no_error() {
    let database = sales();
    let mut reader = session(&database, 1);
    // After the first visit there is one row less than after all.
    let text = "SELECT 100 / ((SELECT count(*) FROM sale WHERE shop = 3) - 1)";
    assert_eq!(one(&mut reader, text), "100");
    let text = "SELECT 100 / (count(*) - 1) FROM sale WHERE shop = 3";
    assert_eq!(one(&mut reader, text), "100");
    // Those of its rows stay.
    let text = "SELECT 100 / (amount - 20) FROM sale WHERE shop = 3";
    assert_eq!(state(reader.execute(text, &[])), SqlState::DIVISION_BY_ZERO);
}

#[test]
fn functions_with_effects_are_called_once_for_each_row() {
    let database = sales();
    let mut session = session(&database, 1);
    session.batch("CREATE SEQUENCE s").expect("a sequence");
    for text in [
        "SELECT nextval('s') FROM sale WHERE shop = 3",
        "SELECT number FROM sale WHERE shop = 3 AND nextval('s') > 0",
        "SELECT number, (SELECT nextval('s')) FROM sale WHERE shop = 3",
        "SELECT pg_notify('c', number::text) FROM sale WHERE shop = 3",
    ] {
        assert_ne!(explained(&mut session, text)[1], CHANGED[1], "{text}");
    }
    session.batch("ALTER SEQUENCE s RESTART").expect("anew");
    assert_eq!(rows(&mut session, "SELECT nextval('s') FROM sale WHERE shop = 3"), ["1", "2"]);
    assert_eq!(one(&mut session, "SELECT nextval('s')"), "3");
    // A clock has no effects.
    let recent = "SELECT count(*) FROM sale WHERE shop = 4 AND now() > DATE '2020-01-01'";
    assert_eq!(explained(&mut session, recent)[..2], CHANGED);
    assert_eq!(one(&mut session, recent), "30");
}

#[test]
fn a_block_sees_what_it_has_written_and_no_more() {
    for (level, sees_others) in
        [("READ COMMITTED", true), ("REPEATABLE READ", false), ("SERIALIZABLE", false)]
    {
        let database = sales();
        let (mut own, mut other) = (session(&database, 1), session(&database, 1));
        own.batch(&format!("BEGIN ISOLATION LEVEL {level}")).expect("a block");
        let sum = "SELECT sum(amount), count(*) FROM sale WHERE shop = 4";
        assert_eq!(explained(&mut own, sum)[..2], CHANGED, "{level}");
        assert_eq!(one(&mut own, sum), "30|30", "{level}");
        other.batch("SET lock_timeout = '20ms'").expect("a limit");
        // A look-up holds no lock of a READ COMMITTED block once it has ended, and its shared lock of others.
        let written =
            other.execute("UPDATE sale SET amount = 2 WHERE shop = 4 AND number = 1", &[]);
        assert_eq!(written.is_ok(), sees_others, "{level}");
        own.batch("UPDATE sale SET amount = amount + 100 WHERE shop = 4 AND number = 2")
            .expect("written");
        own.batch("INSERT INTO sale VALUES (4, 31, 1, 1000)").expect("written");
        let seen = if sees_others { "1131|31" } else { "1130|31" };
        assert_eq!(explained(&mut own, sum)[..2], CHANGED, "{level}");
        assert_eq!(one(&mut own, sum), seen, "{level}");
        // Others see none of it, and do not wait.
        let before = if sees_others { "31|30" } else { "30|30" };
        assert_eq!(one(&mut other, sum), before, "{level}");
        own.batch("COMMIT").expect("committed");
        assert_eq!(one(&mut other, sum), seen, "{level}");
    }
}

#[test]
fn a_block_that_only_reads_reads_its_snapshot() {
    let database = sales();
    let (mut own, mut other) = (session(&database, 1), database.session());
    own.batch("BEGIN READ ONLY").expect("a block");
    let sum = "SELECT sum(amount) FROM sale WHERE shop = 4";
    assert_eq!(one(&mut own, sum), "30");
    other.batch("UPDATE sale SET amount = 0 WHERE shop = 4").expect("written");
    assert_eq!(one(&mut own, sum), "30");
    assert_eq!(explained(&mut own, sum)[..2], CHANGED);
    own.batch("COMMIT").expect("ended");
    assert_eq!(one(&mut own, sum), "0");
}

#[test]
fn a_change_over_locks_no_more_than_the_look_up() {
    let database = Database::in_memory();
    let (mut own, mut other) = (session(&database, 1), database.session());
    let setup = "CREATE TABLE stock (shop INTEGER, item INTEGER, quantity INTEGER, PRIMARY KEY (shop, item))
                     WITH (partitions = 4, partition_by = shop);
                 INSERT INTO stock SELECT n / 10, n % 10, 1 FROM generate_series(0, 199) AS s(n);
                 CREATE INDEX ON stock (item)";
    own.batch(setup).expect("a table");
    own.batch("BEGIN").expect("a block");
    let sum = "SELECT sum(quantity) FROM stock WHERE shop = 1";
    assert_eq!(explained(&mut own, sum)[0], POINT, "a scan would lock all partitions");
    assert_eq!(one(&mut own, sum), "10");
    other.batch("SET lock_timeout = '20ms'").expect("a limit");
    let write =
        |shop: i32| format!("UPDATE stock SET quantity = 2 WHERE shop = {shop} AND item = 1");
    let written = (0..20).filter(|shop| other.batch(&write(*shop)).is_ok()).count();
    assert!((10..20).contains(&written), "{written} of 20 shops are in other partitions");
    own.batch("COMMIT").expect("ended");
    // Alone it gives its lock back, and changes over.
    assert_eq!(explained(&mut own, sum)[..2], CHANGED);
    own.batch("BEGIN").expect("a block");
    let all = "SELECT count(*) FROM stock WHERE item = 1";
    assert_eq!(explained(&mut own, all)[..2], CHANGED, "nothing fixes the partition");
    own.batch("COMMIT").expect("ended");
}

#[test]
fn rows_that_are_locked_are_looked_up() {
    let database = sales();
    let (mut own, mut other) = (session(&database, 1), database.session());
    own.batch("BEGIN").expect("a block");
    let locking = "SELECT number FROM sale WHERE shop = 3 FOR UPDATE";
    assert_eq!(explained(&mut own, locking)[0], POINT);
    assert_eq!(rows(&mut own, locking), ["1", "2"]);
    other.batch("SET lock_timeout = '20ms'").expect("a limit");
    let write = "UPDATE sale SET amount = 0 WHERE shop = 3";
    assert_eq!(state(other.execute(write, &[])), SqlState::LOCK_NOT_AVAILABLE);
    own.batch("UPDATE sale SET amount = 7 WHERE shop = 3; COMMIT").expect("written");
    assert_eq!(one(&mut other, "SELECT sum(amount) FROM sale WHERE shop = 3"), "14");
}

#[test]
fn a_cursor_gives_each_row_once() {
    let database = sales();
    let (mut own, mut other) = (session(&database, 100), database.session());
    for level in ["READ COMMITTED", "SERIALIZABLE"] {
        let declare = "DECLARE c CURSOR FOR SELECT number FROM sale WHERE shop = 1 ORDER BY number";
        own.batch(&format!("BEGIN ISOLATION LEVEL {level}; {declare}")).expect("a cursor");
        assert_eq!(rows(&mut own, "FETCH 2 FROM c"), ["0", "1"], "{level}");
        if level == "READ COMMITTED" {
            other
                .batch("DELETE FROM sale WHERE shop = 1 AND number > 250")
                .expect("nobody has it locked");
        }
        let most = if level == "READ COMMITTED" { 300 } else { 251 };
        let rest: Vec<String> = (2..most).map(|number| number.to_string()).collect();
        assert_eq!(rows(&mut own, "FETCH ALL FROM c"), rest, "{level}");
        own.batch("COMMIT").expect("ended");
    }
}

#[test]
fn a_limit_of_time_holds_for_both_parts() {
    let database = sales();
    let mut reader = session(&database, 1);
    reader.batch("SET statement_timeout = '1ms'").expect("a limit");
    let many = "SELECT count(*) FROM sale a, sale b, sale c, sale d \
                WHERE a.shop = 1 AND b.shop = 1 AND c.shop = 1 AND d.shop = 1";
    assert_eq!(
        state(reader.query(many, &[]).and_then(|rows| rows.collect())),
        SqlState::QUERY_CANCELED
    );
}

/// The look-up visits more rows than anybody has time for.
#[test]
fn who_writes_waits_for_no_long_look_up() {
    let database = sales();
    let mut setup = database.session();
    let rows = "INSERT INTO sale SELECT 5, n, 1, 1 FROM generate_series(1, 20000) AS s(n)";
    setup.batch(rows).expect("many rows");
    for level in [None, Some("READ COMMITTED")] {
        let (mut reader, mut writer) = (session(&database, 1_000), database.session());
        let cancel = reader.canceller();
        std::thread::scope(|scope| {
            let reading = scope.spawn(move || {
                if let Some(level) = level {
                    reader.batch(&format!("BEGIN ISOLATION LEVEL {level}")).expect("a block");
                }
                let endless = "SELECT count(*) FROM sale a, sale b, sale c, sale d
                               WHERE a.shop = 5 AND b.shop = 5 AND c.shop = 5 AND d.shop = 5";
                state(reader.query(endless, &[]).and_then(|rows| rows.collect()))
            });
            writer.batch("SET lock_timeout = '30s'").expect("a limit");
            let own = writer.id();
            let running = format!(
                "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid <> {own} AND query LIKE '%sale d%'"
            );
            while one(&mut writer, &running) == "0" {
                std::thread::yield_now();
            }
            for number in 1..=20 {
                let write =
                    format!("UPDATE sale SET amount = 2 WHERE shop = 5 AND number = {number}");
                let written = writer.execute(write.as_str(), &[]);
                assert_eq!(written.expect("nobody reads under a lock"), 1);
                std::thread::sleep(Duration::from_millis(10));
            }
            assert_eq!(one(&mut writer, &running), "1", "it is not through yet");
            cancel.cancel();
            let ended = reading.join().expect("no panic");
            assert_eq!(ended, SqlState::QUERY_CANCELED, "{level:?}");
        });
    }
}
