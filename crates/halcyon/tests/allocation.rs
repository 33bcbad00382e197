//! A point statement as a transaction of its own allocates nothing once its session is warm.

use halcyon::{Database, RowSet, params};

#[path = "../../txn/tests/counting/mod.rs"]
mod counting;

use counting::allocations_of;

/// Allocations of a hundred runs behind a hundred others.
fn allocations(mut run: impl FnMut()) -> u64 {
    (0..100).for_each(|_| run());
    allocations_of(|| (0..100).for_each(|_| run()))
}

#[test]
fn warm_point_statements_do_not_allocate() {
    let db = Database::in_memory();
    let mut session = db.session();
    session
        .batch(
            "CREATE TABLE item (id INTEGER PRIMARY KEY, stock BIGINT NOT NULL);
             INSERT INTO item SELECT n, n FROM generate_series(1, 1000) n",
        )
        .expect("a table");
    let select = session.prepare("SELECT stock FROM item WHERE id = $1").expect("a plan");
    let update = session.prepare("UPDATE item SET stock = $2 WHERE id = $1").expect("a plan");
    let mut out = RowSet::default();
    let (key, change) = (params![7], params![7, 1_i64]);
    let read = allocations(|| session.query_into(&select, key, &mut out).expect("a row"));
    assert_eq!(read, 0, "allocations of 100 point queries");
    let written = allocations(|| assert_eq!(session.execute(&update, change).expect("a row"), 1));
    assert_eq!(written, 0, "allocations of 100 point updates");
    let others = allocations(|| drop(session.query("SELECT 1", &[]).expect("a row")));
    assert!(others > 0, "the counter counts");
}
