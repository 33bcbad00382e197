//! Reads beside transactions that stay open: asleep, at work or waiting.

use halcyon::{Database, Session, SqlState, Value};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

fn value(session: &mut Session, text: &str) -> Value {
    let mut rows = session.query(text, &[]).expect("the look-up runs");
    let row = rows.next().expect("a row comes").expect("there is one");
    row.value(0).to_owned()
}

#[test]
fn an_open_transaction_holds_up_no_look_up() {
    let database = Database::in_memory();
    let (mut writer, mut reader) = (database.session(), database.session());
    writer.batch("CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER)").expect("made");
    writer
        .batch("INSERT INTO t VALUES (1, 10), (2, 20); BEGIN; UPDATE t SET v = 11")
        .expect("open");
    let began = Instant::now();
    let seen = ["SELECT v FROM t WHERE id = 1", "SELECT v FROM t WHERE id = 2"]
        .map(|text| value(&mut reader, text));
    assert_eq!(seen, [Value::Int32(10), Value::Int32(20)], "what was committed is seen");
    assert!(began.elapsed() < Duration::from_secs(30), "the transaction is never committed");

    // A look-up that has to have the lock waits for it.
    reader.batch("SET lock_timeout = '20ms'").expect("set");
    let locking = reader.query("SELECT v FROM t WHERE id = 1 FOR UPDATE", &[]).map(drop);
    assert_eq!(locking.expect_err("locked").state(), SqlState::LOCK_NOT_AVAILABLE);
    reader.batch("BEGIN").expect("begun");
    let repeated = reader.query("SELECT v FROM t WHERE id = 1", &[]).map(drop);
    assert_eq!(repeated.expect_err("locked").state(), SqlState::LOCK_NOT_AVAILABLE);
    reader.batch("ROLLBACK").expect("ended");

    writer.batch("COMMIT").expect("committed");
    assert_eq!(value(&mut reader, "SELECT v FROM t WHERE id = 1"), Value::Int32(11));
}

#[test]
fn an_open_transaction_holds_up_no_read_of_a_read_committed_block_that_has_not_locked_the_table() {
    let database = Database::in_memory();
    let (mut writer, mut reader) = (database.session(), database.session());
    let tables = "CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER); CREATE TABLE own (v INTEGER); \
                  INSERT INTO own VALUES (1)";
    writer.batch(tables).expect("made");
    writer.batch("INSERT INTO t VALUES (1, 10), (2, 20)").expect("filled");
    writer.batch("CREATE MATERIALIZED VIEW total AS SELECT sum(v) AS s FROM own").expect("made");
    reader.batch("BEGIN ISOLATION LEVEL READ COMMITTED; UPDATE own SET v = 5").expect("begun");
    // Its own changes are seen, in views as well.
    assert_eq!(value(&mut reader, "SELECT v FROM own"), Value::Int32(5));
    assert_eq!(value(&mut reader, "SELECT s FROM total"), Value::Int64(5));

    writer.batch("BEGIN; UPDATE t SET v = v + 1").expect("open");
    let (one, all) = ("SELECT v FROM t WHERE id = 1", "SELECT sum(v) FROM t");
    let both = "SELECT sum(t.v + own.v) FROM t, own";
    let began = Instant::now();
    assert_eq!(value(&mut reader, one), Value::Int32(10), "what was committed is seen");
    assert_eq!(value(&mut reader, all), Value::Int64(30), "what was committed is seen");
    reader.batch("SAVEPOINT a; SET LOCAL lock_timeout = '20ms'").expect("set");
    // With rows that the block has changed it reads the others' under their lock.
    let locked = reader.query(both, &[]).map(drop).expect_err("locked");
    assert_eq!(locked.state(), SqlState::LOCK_NOT_AVAILABLE);
    reader.batch("ROLLBACK TO a").expect("back");
    assert!(began.elapsed() < Duration::from_secs(30), "the transaction is never committed");

    // Each statement sees what was committed before it, and the block goes on to write.
    writer.batch("COMMIT").expect("committed");
    assert_eq!(value(&mut reader, all), Value::Int64(32));
    reader.batch("UPDATE t SET v = v * 2 WHERE id = 1").expect("written");
    assert_eq!(value(&mut reader, one), Value::Int32(22));
    assert_eq!(value(&mut reader, all), Value::Int64(43));
    reader.batch("COMMIT").expect("committed");
    assert_eq!(value(&mut writer, both), Value::Int64(53));
}

/// Each block has changed a table, and reads the other's: on cuts, which need the other's pre-image.
#[test]
fn blocks_that_read_what_each_other_has_changed_do_not_wait_for_each_other() {
    const ROUNDS: usize = 60;
    let database = Database::in_memory();
    let mut setup = database.session();
    for table in ["a", "b"] {
        let create = format!("CREATE TABLE {table} (id INTEGER PRIMARY KEY, v INTEGER)");
        let fill = format!("INSERT INTO {table} SELECT i, 0 FROM generate_series(1, 5000) g (i)");
        setup.batch(&format!("{create}; {fill}")).expect("made");
    }
    let side = Barrier::new(2);
    let play = |own: &str, other: &str| {
        let mut session = database.session();
        session.batch("SET lock_timeout = '60s'").expect("set");
        let update = format!("UPDATE {own} SET v = v + 1 WHERE id <= 100");
        let (one, all) =
            (format!("SELECT v FROM {other} WHERE id = 1"), format!("SELECT sum(v) FROM {other}"));
        for round in 0..ROUNDS {
            session.batch("BEGIN ISOLATION LEVEL READ COMMITTED").expect("begun");
            session.batch(&update).expect("nobody else writes the table");
            side.wait();
            for _ in 0..5 {
                assert_eq!(value(&mut session, &all), Value::Int64(100 * round as i64));
            }
            assert_eq!(value(&mut session, &one), Value::Int32(round as i32));
            side.wait();
            session.batch("COMMIT").expect("committed");
            side.wait();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| play("a", "b"));
        scope.spawn(|| play("b", "a"));
    });
}

/// The block waits inside a statement for a lock that the one who cuts holds.
#[test]
fn a_block_that_waits_within_a_statement_holds_up_no_cut() {
    const WAITS: [&str; 7] = [
        "SELECT v, pg_advisory_lock(7) FROM b",
        "SELECT pg_advisory_lock(7)",
        "SELECT count(pg_advisory_lock(7)) FROM b GROUP BY v",
        "EXPLAIN ANALYZE SELECT pg_advisory_lock(7)",
        "UPDATE b SET v = 2 WHERE v = 1 AND pg_advisory_lock(7) IS NOT NULL",
        "INSERT INTO b SELECT v FROM a WHERE pg_advisory_lock(7) IS NOT NULL",
        "WITH w AS (UPDATE b SET v = 2 RETURNING v) SELECT w.v, pg_advisory_lock(7) FROM w",
    ];
    let database = Database::in_memory();
    let mut holder = database.session();
    let tables = "CREATE TABLE a (v INTEGER); CREATE TABLE b (v INTEGER); \
                  INSERT INTO a VALUES (1); INSERT INTO b VALUES (1)";
    holder.batch(tables).expect("made");
    for wait in WAITS {
        for level in ["READ COMMITTED", "SERIALIZABLE"] {
            holder.batch("SELECT pg_advisory_lock(7); SET lock_timeout = '60s'").expect("free");
            let changed = Barrier::new(2);
            thread::scope(|scope| {
                scope.spawn(|| {
                    let mut waiter = database.session();
                    waiter.batch(&format!("BEGIN ISOLATION LEVEL {level}")).expect("begun");
                    waiter.batch("UPDATE a SET v = 2").expect("free");
                    changed.wait();
                    waiter.batch(wait).unwrap_or_else(|error| panic!("{wait}, {level}: {error}"));
                    waiter.batch("ROLLBACK; SELECT pg_advisory_unlock(7)").expect("ended");
                });
                changed.wait();
                let queued = "SELECT count(*) FROM pg_locks WHERE NOT granted";
                let begun = Instant::now();
                while value(&mut holder, queued) != Value::Int64(1) {
                    assert!(begun.elapsed() < Duration::from_secs(60), "{wait}, {level}");
                    thread::sleep(Duration::from_millis(1));
                }
                let seen = value(&mut holder, "SELECT sum(v) FROM a");
                assert_eq!(seen, Value::Int64(1), "{wait}, {level}");
                holder.batch("SELECT pg_advisory_unlock(7)").expect("held");
            });
        }
    }
}

/// The client of a COPY takes its time, in a block that has changed another table, and outside of blocks.
#[test]
fn a_copy_that_waits_for_its_client_holds_up_no_cut() {
    let database = Database::in_memory();
    let (mut copying, mut reader) = (database.session(), database.session());
    let tables = "CREATE TABLE a (v INTEGER); CREATE TABLE b (v INTEGER); \
                  INSERT INTO a VALUES (1); INSERT INTO b VALUES (1)";
    copying.batch(tables).expect("made");
    reader.batch("SET statement_timeout = '60s'").expect("set");
    let mut sums = || ["a", "b"].map(|t| value(&mut reader, &format!("SELECT sum(v) FROM {t}")));
    for block in ["", "BEGIN; UPDATE a SET v = 5"] {
        copying.batch(block).expect("begun");
        let statement = copying.prepare("COPY b FROM STDIN").expect("a COPY");
        copying.run(&statement, &[]).expect("data is awaited");
        assert_eq!(sums(), [Value::Int64(1), Value::Int64(1)], "{block}, before data");
        copying.copy_data(b"20\n").expect("data");
        assert_eq!(sums(), [Value::Int64(1), Value::Int64(1)], "{block}, behind data");
        if block.is_empty() {
            copying.copy_abandon();
        } else {
            copying.copy_end().expect("ended");
            copying.batch("COMMIT").expect("committed");
        }
    }
    assert_eq!(sums(), [Value::Int64(5), Value::Int64(21)]);
}
