//! The Rust that docs/guide shows, in one program; a test compares the two and runs this.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use halcyon::ValueRef::{Float64, Int32};
use halcyon::{Access, Database, Isolation, RowSet, SqlState, Value, params};

/// docs/guide/embedding.md, section by section.
fn embedding() -> halcyon::Result<()> {
    let database = Database::in_memory();
    let mut session = database.session();

    session.batch("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, price NUMERIC(9,2))")?;
    let insert = session.prepare("INSERT INTO t VALUES ($1, $2, $3)")?;
    let inserted = session.execute(&insert, params![1, "tea", "4.20"])?;
    assert_eq!(inserted, 1);
    session.execute(&insert, params![2, None::<&str>, None::<&str>])?;

    let by_id = session.prepare("SELECT id, name FROM t WHERE id = $1")?;
    let mut rows = session.query(&by_id, params![1])?;
    while let Some(row) = rows.next()? {
        assert_eq!((row.get::<i32>(0)?, row.get::<&str>(1)?), (1, "tea"));
    }
    drop(rows);

    let mut row_set = RowSet::default();
    session.query_into(&by_id, params![2], &mut row_set)?;
    assert!(row_set.value(0, 1).is_null());

    for batch in session.query("SELECT * FROM t", &[])?.batches() {
        assert_eq!(batch?.num_columns(), 3);
    }

    session.transaction(|tx| {
        tx.execute("UPDATE t SET price = price * 2 WHERE id = 1", &[])?;
        tx.execute("DELETE FROM t WHERE id = 2", &[])
    })?;

    session.begin(Isolation::ReadCommitted, Access::ReadOnly)?;
    let refused = session.execute("DELETE FROM t", &[]).unwrap_err();
    assert_eq!(refused.state(), SqlState::READ_ONLY_SQL_TRANSACTION);
    session.rollback()?;

    let canceller = session.canceller();
    let (ends, ended) = mpsc::channel::<()>();
    let stopper = thread::spawn(move || {
        // What cancels before the statement has begun stops nothing: once more, until it has ended.
        let pause = Duration::from_millis(50);
        while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            canceller.cancel();
        }
    });
    let endless =
        "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b";
    let stopped = session.query(endless, &[]).and_then(|rows| rows.collect());
    assert_eq!(stopped.unwrap_err().state(), SqlState::QUERY_CANCELED);
    drop(ends);
    stopper.join().expect("it has cancelled");

    let error = session.execute(&insert, params![1, "cocoa", "5.50"]).unwrap_err();
    assert_eq!(error.state(), SqlState::UNIQUE_VIOLATION);
    assert!(error.message().starts_with("duplicate key value violates unique constraint"));
    assert_eq!(error.fields().detail.as_deref(), Some("Key (id)=(1) already exists."));
    Ok(())
}

/// docs/guide/views.md, "Streams" and "Subscriptions".
fn views() -> halcyon::Result<()> {
    let database = Database::in_memory();
    let mut session = database.session();
    session.batch(
        "CREATE STREAM bids (t DOUBLE PRECISION, id INTEGER, broker_id INTEGER,
             volume DOUBLE PRECISION, price DOUBLE PRECISION);
         CREATE STREAM asks (t DOUBLE PRECISION, id INTEGER, broker_id INTEGER,
             volume DOUBLE PRECISION, price DOUBLE PRECISION);
         CREATE MATERIALIZED VIEW turnover AS
             SELECT broker_id, SUM(volume * price) AS s FROM bids GROUP BY broker_id;
         CREATE MATERIALIZED VIEW offered AS SELECT SUM(volume) AS s FROM asks",
    )?;

    let bid = [Float64(1.0), Int32(7), Int32(3), Float64(100.0), Float64(10.0)];
    let ask = [Float64(2.0), Int32(8), Int32(4), Float64(50.0), Float64(11.0)];
    let mut bids = database.stream("bids")?;
    bids.insert(&bid)?;
    bids.insert(&bid)?;
    bids.delete(&bid)?;
    let row = database.view("turnover")?.row(&[Int32(3)])?;
    assert_eq!(row, Some(vec![Value::Int32(3), Value::Float64(1000.0)]));

    let mut packed = bids.packed();
    bids.pack(&bid, 1, &mut packed)?; // -1 for a row that goes
    bids.take(&packed, 0..packed.len())?; // all or none

    let mut book = database.streams(&["bids", "asks"])?;
    let mut packed = book.packed();
    book.pack(0, &bid, 1, &mut packed)?;
    book.pack(1, &ask, 1, &mut packed)?;
    book.take(&packed, 0..packed.len())?;

    let mut subscription = database.subscribe("turnover", None)?;
    let rows = subscription.next(Duration::from_secs(1))?.expect("the view's rows come first");
    assert_eq!(rows.rows[0].new, Some(vec![Value::Int32(3), Value::Float64(3000.0)]));
    bids.delete(&bid)?;
    let changes = subscription.next(Duration::from_secs(1))?.expect("a change");
    assert_eq!(changes.rows[0].new, Some(vec![Value::Int32(3), Value::Float64(2000.0)]));
    Ok(())
}

/// Runs both sections.
pub fn main() -> halcyon::Result<()> {
    embedding()?;
    views()
}
