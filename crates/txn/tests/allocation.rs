//! A small transaction allocates nothing once seats and buffers are warm.

#![cfg(not(shuttle))]

mod common;

use common::{AMOUNT, Bank, patiently};
use halcyon_base::RowId;
use halcyon_store::ValueRef;
use halcyon_txn::{Mode, cut};

mod counting;

use counting::allocations_of;

fn allocations(mut run: impl FnMut()) -> u64 {
    (0..100).for_each(|_| run());
    allocations_of(|| (0..100).for_each(|_| run()))
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
