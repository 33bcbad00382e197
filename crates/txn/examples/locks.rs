//! What locks, small transactions and cuts cost, as one JSON object.
//!
//! ```sh
//! cargo run --release -p halcyon-txn --example locks
//! cargo run --release -p halcyon-txn --example locks --features checked-root
//! ```
//!
//! Only ratios count on a machine with other tenants: two readers against one, the checked root
//! against the other, a transaction against the row change alone (`bare_update_ns`). Each figure is
//! the best of several rounds; cut latencies are percentiles of all cuts. A cut that does not
//! sum to the conserved total ends the run with an error.

use halcyon_base::rng::Rng;
use halcyon_base::{PartitionId, RowId, SessionId};
use halcyon_store::{ColumnDef, Partition, Schema, Type, ValueRef};
use halcyon_txn::{
    CancelToken, Isolation, LockHandle, Manager, Mode, PartitionCell, Transaction, WaitLimits, cut,
};
use serde_json::json;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const ROWS: u32 = 1_000_000;
const ROUNDS: usize = 7;
const BALANCE: i64 = 1000;
const AMOUNT: u16 = 1;

fn main() {
    let manager = Manager::new();
    let bank = Arc::new(accounts(ROWS));
    let shared_1 = shared_ns(&manager, &bank, 1);
    let shared_2 = shared_ns(&manager, &bank, 2);
    let cuts = cuts(&manager, &bank);
    let report = json!({
        "rows": ROWS,
        "checked_root": cfg!(feature = "checked-root"),
        "shared_1_thread_ns": shared_1,
        "shared_2_threads_ns": shared_2,
        "reader_scaling": 2.0 * shared_1 / shared_2,
        "try_shared_in_transaction_ns": in_transaction_ns(&manager, &bank, Mode::Shared),
        "exclusive_in_transaction_ns": in_transaction_ns(&manager, &bank, Mode::Exclusive),
        "empty_transaction_ns": best(200_000, |_| manager.begin(Isolation::Serializable, SessionId(0)).commit()),
        "bare_update_ns": bare_update_ns(),
        "update_transaction_ns": update_transaction_ns(&manager, &bank),
        "cuts": cuts,
    });
    println!("{report:#}");
}

fn accounts(rows: u32) -> PartitionCell {
    PartitionCell::new(PartitionId(1), root(rows))
}

fn root(rows: u32) -> Partition {
    let column = |ty| ColumnDef { ty, nullable: false };
    let mut root = Partition::new(Schema::new(vec![column(Type::Int64), column(Type::Int64)]));
    for number in 0..rows {
        let row = [ValueRef::Int64(i64::from(number)), ValueRef::Int64(BALANCE)];
        root.insert(&row).expect("no index, no conflict");
    }
    root
}

/// Nanoseconds per call: the best round.
fn best(calls: u32, mut call: impl FnMut(u32)) -> f64 {
    let round = |call: &mut dyn FnMut(u32)| {
        let start = Instant::now();
        (0..calls).for_each(&mut *call);
        start.elapsed().as_nanos() as f64 / f64::from(calls)
    };
    (0..ROUNDS).map(|_| round(&mut call)).fold(f64::INFINITY, f64::min)
}

fn locked(transaction: &mut Transaction, cell: &Arc<PartitionCell>, mode: Mode) -> LockHandle {
    let cancel = CancelToken::new();
    let limits = WaitLimits { timeout: None, cancel: &cancel };
    transaction.lock(cell, mode, &limits).expect("one lock is no deadlock")
}

/// A READ COMMITTED transaction takes and gives back a shared lock, statement after statement.
fn shared_ns(manager: &Manager, cell: &Arc<PartitionCell>, thread_count: u32) -> f64 {
    let cancel = CancelToken::new();
    let reader = |session: u32| {
        let mut transaction = manager.begin(Isolation::ReadCommitted, SessionId(session));
        let limits = WaitLimits { timeout: None, cancel: &cancel };
        best(2_000_000, |row| {
            transaction.begin_statement();
            let lock = transaction.lock(cell, Mode::Shared, &limits).expect("only readers");
            black_box(transaction.read(lock).row(RowId(row % ROWS)).is_some());
            transaction.end_statement();
        })
    };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..thread_count).map(|id| scope.spawn(move || reader(id))).collect();
        let times = readers.into_iter().map(|reader| reader.join().expect("no reader panics"));
        times.sum::<f64>() / f64::from(thread_count)
    })
}

/// A whole transaction with one lock and no row, less nothing.
fn in_transaction_ns(manager: &Manager, cell: &Arc<PartitionCell>, mode: Mode) -> f64 {
    best(500_000, |_| {
        let mut transaction = manager.begin(Isolation::Serializable, SessionId(0));
        transaction.begin_statement();
        black_box(transaction.try_lock(cell, mode));
        transaction.end_statement();
        transaction.commit();
    })
}

fn bare_update_ns() -> f64 {
    let (mut root, mut rng) = (root(ROWS), Rng::new(1));
    best(500_000, |_| {
        let row = RowId(rng.below(u64::from(ROWS)) as u32);
        let value = [ValueRef::Int64(BALANCE)];
        root.update(row, &[AMOUNT], &value).expect("no index, no conflict");
    })
}

fn update_transaction_ns(manager: &Manager, cell: &Arc<PartitionCell>) -> f64 {
    let mut rng = Rng::new(1);
    best(500_000, |_| {
        let row = RowId(rng.below(u64::from(ROWS)) as u32);
        let mut transaction = manager.begin(Isolation::Serializable, SessionId(0));
        let lock = locked_exclusive(&mut transaction, cell);
        let value = [ValueRef::Int64(BALANCE)];
        transaction.update(lock, row, &[AMOUNT], &value).expect("no index, no conflict");
        transaction.commit();
    })
}

fn locked_exclusive(transaction: &mut Transaction, cell: &Arc<PartitionCell>) -> LockHandle {
    transaction.begin_statement();
    transaction.try_lock(cell, Mode::Exclusive).expect("nobody else is there")
}

/// Moves money between two random accounts, each change a statement.
fn transfer(manager: &Manager, cell: &Arc<PartitionCell>, rng: &mut Rng) {
    let mut transaction = manager.begin(Isolation::Serializable, SessionId(0));
    for change in [-1, 1] {
        transaction.begin_statement();
        let lock = locked(&mut transaction, cell, Mode::Exclusive);
        let row = RowId(rng.below(u64::from(ROWS)) as u32);
        let before = amount(transaction.read(lock), row);
        let after = [ValueRef::Int64(before + change)];
        transaction.update(lock, row, &[AMOUNT], &after).expect("no index, no conflict");
        transaction.end_statement();
    }
    transaction.commit();
}

fn amount(root: &Partition, row: RowId) -> i64 {
    match root.row(row).map(|row| row.value(AMOUNT as usize)) {
        Some(ValueRef::Int64(amount)) => amount,
        other => panic!("{other:?} is no balance"),
    }
}

/// Transfers per second alone and beside a reader that cuts and sums; latencies of the cuts.
fn cuts(manager: &Manager, cell: &Arc<PartitionCell>) -> serde_json::Value {
    let alone = transfers_beside(manager, cell, |stop| {
        thread::sleep(Duration::from_secs(3));
        stop.store(true, Ordering::Relaxed);
    });
    let mut latencies = hdrhistogram::Histogram::<u64>::new(3).expect("three digits");
    let beside = transfers_beside(manager, cell, |stop| {
        let cancel = CancelToken::new();
        let limits = WaitLimits { timeout: None, cancel: &cancel };
        for round in 0..3000 {
            let start = Instant::now();
            let roots = cut(manager, std::slice::from_ref(cell), &limits).expect("patient");
            latencies.record(start.elapsed().as_nanos() as u64).expect("it resizes");
            if round % 300 == 0 {
                let sum: i64 = (0..ROWS).map(|row| amount(&roots[0], RowId(row))).sum();
                assert_eq!(sum, i64::from(ROWS) * BALANCE, "a cut holds half a transfer");
            }
            drop(roots);
            thread::sleep(Duration::from_millis(1));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let us = |quantile: f64| latencies.value_at_quantile(quantile) as f64 / 1000.0;
    json!({
        "count": latencies.len(),
        "us_p50": us(0.5), "us_p90": us(0.9), "us_p99": us(0.99), "us_max": us(1.0),
        "transfers_per_s_alone": alone,
        "transfers_per_s_beside_1000_cuts_per_s": beside,
    })
}

fn transfers_beside(
    manager: &Manager,
    cell: &Arc<PartitionCell>,
    reader: impl FnOnce(&AtomicBool),
) -> f64 {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (mut rng, mut count, start) = (Rng::new(7), 0u64, Instant::now());
            while !stop.load(Ordering::Relaxed) {
                transfer(manager, cell, &mut rng);
                count += 1;
            }
            count as f64 / start.elapsed().as_secs_f64()
        });
        reader(&stop);
        writer.join().expect("the writer does not panic")
    })
}
