//! A small transaction allocates nothing once seats and buffers are warm.

#![cfg(not(shuttle))]

mod common;

use common::{AMOUNT, Bank, patiently};
use halcyon_base::RowId;
use halcyon_store::ValueRef;
use halcyon_txn::{Mode, cut};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local!(static ALLOCATIONS: Cell<u64> = const { Cell::new(0) });

// SAFETY: every call is handed to the system's allocator as it is; the count is a plain cell that
// allocates nothing itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`, which is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above; the pointer came from `System.alloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(mut run: impl FnMut()) -> u64 {
    for _ in 0..100 {
        run();
    }
    let before = ALLOCATIONS.get();
    for _ in 0..100 {
        run();
    }
    ALLOCATIONS.get() - before
}

#[test]
fn warm_transactions_do_not_allocate() {
    let bank = Bank::new(2, 100);
    let read = allocations(|| {
        let mut transaction = bank.begin(3);
        transaction.begin_statement();
        let lock = transaction.try_lock(&bank.cells[0], Mode::Shared).expect("the lock is free");
        assert!(transaction.read(lock).row(RowId(5)).is_some());
        transaction.end_statement();
        transaction.commit();
    });
    let update = |ending: fn(halcyon_txn::Transaction)| {
        allocations(|| {
            let mut transaction = bank.begin(3);
            transaction.begin_statement();
            let lock = transaction.try_lock(&bank.cells[0], Mode::Exclusive).expect("it is free");
            let value = [ValueRef::Int64(1000)];
            transaction.update(lock, RowId(5), &[AMOUNT as u16], &value).expect("no index");
            transaction.end_statement();
            ending(transaction);
        })
    };
    let commit = update(halcyon_txn::Transaction::commit);
    assert_eq!((read, commit), (0, 0), "allocations of 100 reads and of 100 updates");
    let rollback = update(halcyon_txn::Transaction::rollback);
    assert!(rollback <= 100, "undoing gathers values once: {rollback}");
    let sees = allocations(|| {
        drop(patiently(|limits| cut(&bank.manager, &bank.cells, limits)));
    });
    assert!(sees > 0, "the counter counts");
}
