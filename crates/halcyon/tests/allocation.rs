//! A point statement as a transaction of its own allocates nothing once its session is warm.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use halcyon::{Database, RowSet, params};

struct Counting;

thread_local!(static ALLOCATIONS: Cell<u64> = const { Cell::new(0) });

// SAFETY: every call is handed to the system's allocator; the count is a cell that allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`, which is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `System.alloc` above, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of a hundred runs behind a hundred others.
fn allocations(mut run: impl FnMut()) -> u64 {
    (0..100).for_each(|_| run());
    let before = ALLOCATIONS.get();
    (0..100).for_each(|_| run());
    ALLOCATIONS.get() - before
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
