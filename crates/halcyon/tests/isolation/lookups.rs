//! Look-ups outside transaction blocks beside transactions that stay open.

use halcyon::{Database, Session, SqlState, Value};
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
