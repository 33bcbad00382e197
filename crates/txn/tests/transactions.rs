//! What a transaction promises, one promise per test; each error variant is raised here.

#![cfg(not(shuttle))]

mod common;

use common::{AMOUNT, BALANCE, Bank, add, amount, int, patiently};
use halcyon_base::rng::Rng;
use halcyon_base::sync::{Arc, thread};
use halcyon_base::{IndexId, PartitionId, RowId, SessionId, SqlState};
use halcyon_store::{
    AppendError, ColumnDef, Conflict, IndexDef, KeyColumn, Partition, Schema, Type, Value, ValueRef,
};
use halcyon_txn::{
    CancelToken, ChangedRows, CutError, Isolation, LockError, LockHandle, Manager, Mode,
    PartitionCell, ProjectedRow, Transaction, TransactionState, WaitLimits, cut,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

fn lock(transaction: &mut Transaction, cell: &Arc<PartitionCell>, mode: Mode) -> LockHandle {
    patiently(|limits| transaction.lock(cell, mode, limits)).expect("this lock is granted")
}

fn briefly(cancel: &CancelToken) -> WaitLimits<'_> {
    WaitLimits { timeout: Some(Duration::from_millis(5)), cancel }
}

/// Waits until somebody waits for a lock of `bank`.
fn until_waiting(bank: &Bank) {
    while !bank.manager.locks(&bank.cells).iter().any(|lock| lock.waiting.is_some()) {
        thread::yield_now();
    }
}

// ---------------------------------------------------------------------- locks

#[test]
fn readers_share_and_writers_do_not() {
    let bank = Bank::new(1, 1);
    let (mut one, mut two) = (bank.begin(0), bank.begin(1));
    let shared = lock(&mut one, &bank.cells[0], Mode::Shared);
    assert_eq!(lock(&mut one, &bank.cells[0], Mode::Shared), shared);
    assert!(two.try_lock(&bank.cells[0], Mode::Shared).is_some());
    assert!(one.try_lock(&bank.cells[0], Mode::Exclusive).is_none(), "another reader is there");
    two.commit();
    assert_eq!(one.try_lock(&bank.cells[0], Mode::Exclusive), Some(shared));
    assert_eq!(one.try_lock(&bank.cells[0], Mode::Shared), Some(shared), "exclusive includes it");
    let mut three = bank.begin(2);
    assert!(three.try_lock(&bank.cells[0], Mode::Shared).is_none());
    assert!(three.try_lock(&bank.cells[0], Mode::Exclusive).is_none());
    drop(one);
    assert!(three.try_lock(&bank.cells[0], Mode::Exclusive).is_some());
    three.rollback();
    bank.check_quiet();
}

#[test]
fn read_committed_gives_shared_locks_back_with_the_statement() {
    for (isolation, kept) in [
        (Isolation::ReadUncommitted, false),
        (Isolation::ReadCommitted, false),
        (Isolation::RepeatableRead, true),
        (Isolation::Serializable, true),
    ] {
        let bank = Bank::new(2, 1);
        let mut reader = bank.manager.begin(isolation, SessionId(0));
        reader.begin_statement();
        lock(&mut reader, &bank.cells[0], Mode::Shared);
        let exclusive = lock(&mut reader, &bank.cells[1], Mode::Exclusive);
        add(&mut reader, exclusive, RowId(0), 1);
        reader.end_statement();
        let mut writer = bank.begin(1);
        let granted = writer.try_lock(&bank.cells[0], Mode::Exclusive).is_some();
        assert_eq!(granted, !kept, "{isolation:?}");
        assert!(writer.try_lock(&bank.cells[1], Mode::Shared).is_none(), "{isolation:?}");
        writer.commit();
        reader.begin_statement();
        let again = lock(&mut reader, &bank.cells[0], Mode::Shared);
        assert_eq!(amount(reader.read(again), RowId(0)), BALANCE);
        assert_eq!(amount(reader.read(exclusive), RowId(0)), BALANCE + 1);
        drop(reader);
        bank.check_quiet();
    }
}

#[test]
fn wait_ends_by_timeout_and_the_queue_goes_on() {
    let bank = Arc::new(Bank::new(1, 1));
    let mut reader = bank.begin(0);
    lock(&mut reader, &bank.cells[0], Mode::Shared);
    let behind = {
        let bank = Arc::clone(&bank);
        let cancel = CancelToken::new();
        let mut writer = bank.begin(1);
        let limits = WaitLimits { timeout: Some(Duration::from_millis(100)), cancel: &cancel };
        let late = {
            let bank = Arc::clone(&bank);
            thread::spawn(move || {
                until_waiting(&bank);
                let mut late = bank.begin(0);
                assert!(late.try_lock(&bank.cells[0], Mode::Shared).is_none());
                lock(&mut late, &bank.cells[0], Mode::Shared);
            })
        };
        let error = writer.lock(&bank.cells[0], Mode::Exclusive, &limits).unwrap_err();
        assert_eq!(
            (&error, error.sql_state()),
            (&LockError::Timeout, SqlState::LOCK_NOT_AVAILABLE)
        );
        assert!(writer.try_lock(&bank.cells[0], Mode::Shared).is_some());
        late
    };
    behind.join().expect("the reader behind the writer gets in once that has left");
    reader.commit();
    bank.check_quiet();
}

#[test]
fn wait_ends_by_cancel_also_of_an_upgrade() {
    let bank = Arc::new(Bank::new(1, 1));
    let mut other = bank.begin(0);
    lock(&mut other, &bank.cells[0], Mode::Shared);
    let cancel = CancelToken::new();
    let waiter = {
        let (bank, cancel) = (Arc::clone(&bank), cancel.clone());
        thread::spawn(move || {
            let mut transaction = bank.begin(1);
            let shared = lock(&mut transaction, &bank.cells[0], Mode::Shared);
            let limits = WaitLimits { timeout: None, cancel: &cancel };
            let error = transaction.lock(&bank.cells[0], Mode::Exclusive, &limits).unwrap_err();
            assert_eq!(
                (&error, error.sql_state()),
                (&LockError::Cancelled, SqlState::QUERY_CANCELED)
            );
            assert_eq!(amount(transaction.read(shared), RowId(0)), BALANCE);
            cancel.reset();
            assert_eq!(
                transaction.lock(&bank.cells[0], Mode::Exclusive, &briefly(&cancel)),
                Err(LockError::Timeout),
            );
        })
    };
    until_waiting(&bank);
    cancel.cancel();
    waiter.join().expect("the waiter ends");
    assert!(other.try_lock(&bank.cells[0], Mode::Exclusive).is_some());
    drop(other);
    bank.check_quiet();
}

#[test]
fn deadlock_names_transactions_and_partitions() {
    let bank = Arc::new(Bank::new(2, 1));
    let mut one = bank.begin(0);
    lock(&mut one, &bank.cells[0], Mode::Exclusive);
    let (send, receive) = std::sync::mpsc::channel();
    let other = {
        let bank = Arc::clone(&bank);
        thread::spawn(move || {
            let mut two = bank.begin(1);
            // Others are the victims of a transaction that has lost before.
            two.set_losses(3);
            lock(&mut two, &bank.cells[1], Mode::Shared);
            send.send(two.id()).expect("the test listens");
            lock(&mut two, &bank.cells[0], Mode::Shared);
            two.commit();
        })
    };
    let two = receive.recv().expect("the other thread sends its id");
    until_waiting(&bank);
    let error = patiently(|limits| one.lock(&bank.cells[1], Mode::Exclusive, limits)).unwrap_err();
    assert_eq!(error.sql_state(), SqlState::DEADLOCK_DETECTED);
    let LockError::Deadlock(deadlock) = error else { panic!("{error}") };
    let one_id = one.id();
    assert_eq!(
        deadlock.to_string(),
        format!(
            "Transaction {one_id} waits for exclusive lock on partition 2; \
             blocked by transaction {two}.\n\
             Transaction {two} waits for shared lock on partition 1; \
             blocked by transaction {one_id}."
        )
    );
    one.rollback();
    other.join().expect("the survivor goes on");
    bank.check_quiet();
}

#[test]
fn two_upgrades_are_a_deadlock() {
    let bank = Arc::new(Bank::new(1, 1));
    let mut one = bank.begin(0);
    lock(&mut one, &bank.cells[0], Mode::Shared);
    let other = {
        let bank = Arc::clone(&bank);
        thread::spawn(move || {
            let mut two = bank.begin(1);
            two.set_losses(3);
            lock(&mut two, &bank.cells[0], Mode::Shared);
            let upgraded = lock(&mut two, &bank.cells[0], Mode::Exclusive);
            add(&mut two, upgraded, RowId(0), 1);
            two.commit();
        })
    };
    until_waiting(&bank);
    let error = patiently(|limits| one.lock(&bank.cells[0], Mode::Exclusive, limits)).unwrap_err();
    assert!(matches!(error, LockError::Deadlock(deadlock) if deadlock.cycle.len() == 2));
    drop(one);
    other.join().expect("the survivor goes on");
    bank.check_quiet();
}

#[test]
fn views_show_who_holds_and_who_waits() {
    let bank = Arc::new(Bank::new(12, 1));
    let mut owner = bank.begin(7);
    for cell in &bank.cells {
        lock(&mut owner, cell, Mode::Exclusive);
    }
    owner.end_statement();
    let waiter = {
        let bank = Arc::clone(&bank);
        thread::spawn(move || {
            let mut transaction = bank.manager.begin(Isolation::ReadCommitted, SessionId(8));
            transaction.begin_statement();
            lock(&mut transaction, &bank.cells[11], Mode::Shared);
        })
    };
    until_waiting(&bank);
    let locks = bank.manager.locks(&bank.cells);
    let held = locks.iter().filter(|lock| lock.waiting.is_none());
    assert!(
        held.clone()
            .all(|l| (l.txn, l.session, l.mode) == (owner.id(), SessionId(7), Mode::Exclusive))
    );
    let partitions: Vec<u32> = held.map(|lock| lock.partition.0).collect();
    assert_eq!(partitions, (1..=12).collect::<Vec<_>>());
    let waiting = locks.last().expect("there are locks");
    assert_eq!((waiting.partition, waiting.mode), (PartitionId(12), Mode::Shared));
    let mut infos = bank.manager.transactions();
    infos.sort_by_key(|info| info.session);
    assert_eq!((infos[0].lock_count, infos[0].state), (12, TransactionState::Idle));
    assert_eq!((infos[1].lock_count, infos[1].state), (0, TransactionState::Waiting));
    assert_eq!(infos[1].isolation, Isolation::ReadCommitted);
    assert_eq!(infos[1].state.name(), "waiting");
    owner.rollback();
    waiter.join().expect("the waiter gets its lock");
    bank.check_quiet();
}

// ---------------------------------------------------------------------- changes

#[test]
fn changes_are_counted_for_others_while_they_are_made() {
    let bank = Bank::new(1, 2);
    let counted = || bank.manager.transactions()[0].undo_records;
    let mut transaction = bank.begin(0);
    let account = lock(&mut transaction, &bank.cells[0], Mode::Exclusive);
    assert_eq!(counted(), 0);
    add(&mut transaction, account, RowId(0), 1);
    add(&mut transaction, account, RowId(1), 1);
    assert_eq!(counted(), 1, "the change before the last");
    let savepoint = transaction.savepoint();
    add(&mut transaction, account, RowId(0), 1);
    transaction.end_statement();
    assert_eq!(counted(), 3);
    transaction.begin_statement();
    transaction.rollback_to(savepoint);
    transaction.end_statement();
    assert_eq!(counted(), 2);
    transaction.rollback();
    let _next = bank.begin(0);
    assert_eq!(counted(), 0, "of the same seat");
}

fn all_types() -> (Arc<Schema>, Vec<Value>) {
    let columns = [
        (Type::Int32, Value::Int32(1)),
        (Type::Text, Value::Text("a text that does not fit into a view of sixteen bytes".into())),
        (Type::Bytes, Value::Bytes(vec![0, 255, 7])),
        (Type::Bool, Value::Bool(true)),
        (Type::Int16, Value::Int16(-3)),
        (Type::Int64, Value::Null),
        (Type::Float32, Value::Float32(0.5)),
        (Type::Float64, Value::Float64(-0.25)),
        (Type::Decimal { precision: 10, scale: 2 }, Value::Decimal(12345)),
        (Type::Date, Value::Date(9)),
        (Type::Time, Value::Time(10)),
        (Type::Timestamp, Value::Timestamp(11)),
        (Type::TimestampTz, Value::TimestampTz(12)),
        (Type::Interval, Value::Interval(halcyon_store::Interval { months: 1, days: 2, nanos: 3 })),
        (Type::Uuid, Value::Uuid([5; 16])),
    ];
    let schema = columns.iter().map(|(ty, _)| ColumnDef { ty: *ty, nullable: true }).collect();
    (Schema::new(schema), columns.into_iter().map(|(_, value)| value).collect())
}

fn unique_first_column(root: &mut Partition) {
    let def = IndexDef {
        id: IndexId(1),
        derivation: None,
        columns: vec![KeyColumn { column: 0, descending: false, nulls_first: false }],
        unique: true,
        nulls_distinct: true,
    };
    root.add_index(def).expect("no key repeats");
}

/// All rows, for comparison.
fn contents(root: &Partition) -> BTreeMap<RowId, Vec<Value>> {
    root.rows()
        .map(|row| (row.id(), row.values().map(|value| value.to_owned()).collect()))
        .collect()
}

fn snapshot(manager: &Manager, cell: &Arc<PartitionCell>) -> triomphe::Arc<Partition> {
    let roots = patiently(|limits| cut(manager, std::slice::from_ref(cell), limits));
    roots.expect("a patient cut ends").remove(0)
}

#[test]
fn undo_restores_values_of_every_type() {
    let (schema, values) = all_types();
    let row: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
    let mut root = Partition::new(schema);
    root.insert(&row).expect("no index");
    let cell = Arc::new(PartitionCell::new(PartitionId(1), root));
    let manager = Manager::new();
    let mut transaction = manager.begin(Isolation::Serializable, SessionId(0));
    let handle = lock(&mut transaction, &cell, Mode::Exclusive);
    let before = contents(transaction.read(handle));
    let columns: Vec<u16> = (0..values.len() as u16).collect();
    let savepoint = transaction.savepoint();
    let nulls = vec![ValueRef::Null; values.len()];
    transaction.update(handle, RowId(0), &columns, &nulls).expect("no index");
    transaction.rollback_to(savepoint);
    assert_eq!(contents(transaction.read(handle)), before);
    assert!(transaction.delete(handle, RowId(0)));
    assert!(!transaction.delete(handle, RowId(0)), "it is gone");
    transaction.insert(handle, &nulls).expect("no index");
    drop(transaction);
    assert_eq!(contents(&snapshot(&manager, &cell)), before);
    cell.check();
}

#[test]
fn conflict_changes_nothing_and_leaves_nothing_to_undo() {
    let bank = Bank::new(1, 3);
    let mut transaction = bank.begin(0);
    let handle = lock(&mut transaction, &bank.cells[0], Mode::Exclusive);
    let indexed = transaction.alter(handle, |root| {
        unique_first_column(root);
        Ok::<(), Conflict>(())
    });
    indexed.expect("numbers are unique");
    assert_eq!(transaction.change_count(), 1);
    let savepoint = transaction.savepoint();
    let two = [ValueRef::Int64(2)];
    let conflict = Conflict { index: IndexId(1), row: RowId(2) };
    assert_eq!(transaction.update(handle, RowId(0), &[0], &two), Err(conflict));
    assert_eq!(transaction.insert(handle, &[two[0], two[0]]), Err(conflict));
    assert_eq!(transaction.change_count(), 1);
    transaction.update_unchecked(handle, RowId(0), &[0], &two);
    let late = transaction.read(handle).check_unique([RowId(0)]);
    assert_eq!(late, Err(conflict));
    let row = transaction.insert_unchecked(handle, &[two[0], two[0]]);
    assert!(transaction.read(handle).check_unique([row]).is_err());
    transaction.rollback_to(savepoint);
    transaction.read(handle).check();
    transaction.commit();
    assert!(snapshot(&bank.manager, &bank.cells[0]).index(IndexId(1)).is_some());
    bank.check_quiet();
}

#[test]
fn alter_and_append_are_whole_and_undone() {
    use arrow::array::{ArrayRef, Int64Array};
    let column = |from: i64| Arc::new(Int64Array::from_iter_values(from..from + 5000)) as ArrayRef;
    let bank = Bank::new(1, 3);
    let before = contents(&snapshot(&bank.manager, &bank.cells[0]));
    let mut transaction = bank.begin(0);
    let handle = lock(&mut transaction, &bank.cells[0], Mode::Exclusive);
    let failed = transaction.alter(handle, |root| {
        root.truncate();
        Err::<(), &str>("half way")
    });
    assert_eq!(failed, Err("half way"));
    assert_eq!(contents(transaction.read(handle)), before);
    assert_eq!(transaction.change_count(), 0);
    let error = transaction.append(handle, &[column(0)]).unwrap_err();
    assert_eq!(error, AppendError::ColumnCount { expected: 2, found: 1 });
    assert_eq!(contents(transaction.read(handle)), before);
    transaction.append(handle, &[column(10), column(0)]).expect("two columns");
    let savepoint = transaction.savepoint();
    assert!(transaction.delete(handle, RowId(0)));
    transaction.append(handle, &[column(9000), column(0)]).expect("two columns");
    transaction.rollback_to(savepoint);
    assert_eq!(transaction.read(handle).row_count(), 5003);
    assert!(transaction.read(handle).row(RowId(0)).is_some());
    transaction.end_statement();
    assert_eq!(contents(&snapshot(&bank.manager, &bank.cells[0])), before);
    drop(transaction);
    assert_eq!(contents(&snapshot(&bank.manager, &bank.cells[0])), before);
    bank.check_quiet();
}

#[test]
fn many_rows_keep_the_root_instead_of_records() {
    let bank = Bank::new(1, 6000);
    let before = contents(&snapshot(&bank.manager, &bank.cells[0]));
    let mut transaction = bank.begin(0);
    let handle = lock(&mut transaction, &bank.cells[0], Mode::Exclusive);
    for row in 0..6000 {
        add(&mut transaction, handle, RowId(row), 1);
    }
    assert_eq!(transaction.change_count(), 4096 + 1, "rows, then one root");
    let savepoint = transaction.savepoint();
    add(&mut transaction, handle, RowId(1), 1);
    assert!(transaction.delete(handle, RowId(2)));
    assert_eq!(transaction.change_count(), 4096 + 3, "after a savepoint rows count again");
    transaction.rollback_to(savepoint);
    assert_eq!(amount(transaction.read(handle), RowId(1)), BALANCE + 1);
    transaction.end_statement();
    assert_eq!(contents(&snapshot(&bank.manager, &bank.cells[0])), before);
    drop(transaction);
    assert_eq!(contents(&snapshot(&bank.manager, &bank.cells[0])), before);
}

/// One random change or step of a transaction, mirrored in plain maps.
fn random_step(
    transaction: &mut Transaction,
    handle: LockHandle,
    model: &mut BTreeMap<RowId, Vec<Value>>,
    savepoints: &mut Vec<(halcyon_txn::Savepoint, BTreeMap<RowId, Vec<Value>>)>,
    rng: &mut Rng,
) {
    let row = RowId(rng.below(40) as u32);
    let value = ValueRef::Int64(rng.below(1000) as i64);
    match rng.below(12) {
        0..=3 if model.contains_key(&row) => {
            transaction.update_unchecked(handle, row, &[AMOUNT as u16], &[value]);
            model.get_mut(&row).expect("looked at above")[AMOUNT] = value.to_owned();
        }
        4..=5 => {
            let row = transaction.insert_unchecked(handle, &[value, value]);
            assert!(model.insert(row, vec![value.to_owned(); 2]).is_none());
        }
        6..=7 => assert_eq!(transaction.delete(handle, row), model.remove(&row).is_some()),
        8 => savepoints.push((transaction.savepoint(), model.clone())),
        9 if !savepoints.is_empty() => {
            let keep = 1 + rng.below(savepoints.len() as u64) as usize;
            savepoints.truncate(keep);
            let (savepoint, then) = savepoints.last().expect("one was kept").clone();
            transaction.rollback_to(savepoint);
            *model = then;
        }
        10 => {
            let kept = transaction.alter(handle, |_| Ok::<(), ()>(()));
            kept.expect("nothing fails here");
        }
        _ => {}
    }
}

#[test]
fn random_changes_and_savepoints_agree_with_maps() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let bank = Bank::new(1, 20);
        let cell = &bank.cells[0];
        let committed = contents(&snapshot(&bank.manager, cell));
        let mut model = committed.clone();
        let mut savepoints = Vec::new();
        let mut transaction = bank.begin(0);
        let handle = lock(&mut transaction, cell, Mode::Exclusive);
        for _ in 0..60 {
            random_step(&mut transaction, handle, &mut model, &mut savepoints, &mut rng);
            assert_eq!(contents(transaction.read(handle)), model, "seed {seed}");
            transaction.check();
            if rng.below(8) == 0 {
                transaction.end_statement();
                assert_eq!(contents(&snapshot(&bank.manager, cell)), committed, "seed {seed}");
                transaction.begin_statement();
            }
        }
        let commit = rng.below(2) == 0;
        if commit {
            transaction.commit()
        } else {
            transaction.rollback()
        }
        let expected = if commit { model } else { committed };
        assert_eq!(contents(&snapshot(&bank.manager, cell)), expected, "seed {seed}");
        bank.check_quiet();
    }
}

#[test]
fn hooks_run_with_their_changes() {
    let bank = Bank::new(1, 1);
    let log = Arc::new(std::sync::Mutex::new(Vec::new()));
    let note = |text: &'static str| {
        let log = Arc::clone(&log);
        move || log.lock().expect("no hook panics").push(text)
    };
    let taken = || std::mem::take(&mut *log.lock().expect("no hook panics"));
    let mut transaction = bank.begin(0);
    lock(&mut transaction, &bank.cells[0], Mode::Exclusive);
    transaction.on_commit(note("first commit"));
    transaction.on_rollback(note("first rollback"));
    let savepoint = transaction.savepoint();
    transaction.on_commit(note("second commit"));
    transaction.on_rollback(note("second rollback"));
    transaction.on_rollback(note("third rollback"));
    transaction.rollback_to(savepoint);
    assert_eq!(taken(), ["third rollback", "second rollback"]);
    transaction.commit();
    assert_eq!(taken(), ["first commit"]);
    let mut transaction = bank.begin(0);
    transaction.on_commit(note("commit"));
    transaction.on_rollback(note("rollback"));
    drop(transaction);
    assert_eq!(taken(), ["rollback"]);
    bank.check_quiet();
}

#[test]
fn panic_in_a_transaction_rolls_it_back() {
    let bank = Arc::new(Bank::new(1, 1));
    let panicking = {
        let bank = Arc::clone(&bank);
        thread::spawn(move || {
            let mut transaction = bank.begin(0);
            let handle = lock(&mut transaction, &bank.cells[0], Mode::Exclusive);
            add(&mut transaction, handle, RowId(0), 1);
            std::panic::resume_unwind(Box::new("on purpose"));
        })
    };
    assert!(panicking.join().is_err());
    bank.check_cut();
    bank.check_quiet();
}

// ---------------------------------------------------------------------- cuts

#[test]
fn cut_comes_in_the_order_asked_and_may_repeat() {
    let bank = Bank::new(3, 1);
    let cells = [2, 0, 2, 1].map(|position: usize| Arc::clone(&bank.cells[position]));
    let mut transaction = bank.begin(0);
    let handle = lock(&mut transaction, &bank.cells[2], Mode::Exclusive);
    add(&mut transaction, handle, RowId(0), 5);
    transaction.commit();
    let mut open = bank.begin(0);
    let handle = lock(&mut open, &bank.cells[0], Mode::Exclusive);
    add(&mut open, handle, RowId(0), 9);
    open.end_statement();
    let roots = patiently(|limits| cut(&bank.manager, &cells, limits)).expect("a patient cut ends");
    let amounts: Vec<i64> = roots.iter().map(|root| amount(root, RowId(0))).collect();
    assert_eq!(amounts, [BALANCE + 5, BALANCE, BALANCE + 5, BALANCE]);
    assert!(triomphe::Arc::ptr_eq(&roots[0], &roots[2]));
    let counts = bank.manager.cuts();
    assert_eq!((counts.asked, counts.pre_images), (1, 1), "one of the three has an owner");
    assert!(
        patiently(|limits| cut(&bank.manager, &[], limits))
            .expect("nothing to wait for")
            .is_empty()
    );
}

#[test]
fn cut_of_a_running_owner_times_out_or_is_cancelled_and_does_no_harm() {
    let bank = Bank::new(1, 1);
    let mut owner = bank.begin(0);
    owner.begin_statement();
    let handle = lock(&mut owner, &bank.cells[0], Mode::Exclusive);
    add(&mut owner, handle, RowId(0), 5);
    let cancel = CancelToken::new();
    let error = cut(&bank.manager, &bank.cells, &briefly(&cancel)).map(drop).unwrap_err();
    assert_eq!((error, error.sql_state()), (CutError::Timeout, SqlState::LOCK_NOT_AVAILABLE));
    cancel.cancel();
    let limits = WaitLimits { timeout: None, cancel: &cancel };
    let error = cut(&bank.manager, &bank.cells, &limits).map(drop).unwrap_err();
    assert_eq!((error, error.sql_state()), (CutError::Cancelled, SqlState::QUERY_CANCELED));
    let counts = bank.manager.cuts();
    assert_eq!((counts.cuts, counts.asked, counts.pre_images), (2, 2, 2));
    assert!(counts.waited_max > Duration::ZERO && counts.waited >= counts.waited_max, "{counts:?}");
    owner.end_statement();
    bank.check_cut();
    drop(owner);
    bank.check_quiet();
}

#[test]
fn running_owner_serves_cuts_between_rows() {
    let bank = Arc::new(Bank::new(1, 1));
    let served = Arc::new(AtomicU32::new(0));
    let mut owner = bank.begin(0);
    owner.begin_statement();
    let handle = lock(&mut owner, &bank.cells[0], Mode::Exclusive);
    let reader = {
        let (bank, served) = (Arc::clone(&bank), Arc::clone(&served));
        thread::spawn(move || {
            bank.check_cut();
            served.store(1, Ordering::SeqCst);
        })
    };
    while served.load(Ordering::SeqCst) == 0 {
        add(&mut owner, handle, RowId(0), 1);
    }
    reader.join().expect("the cut ends in the middle of the statement");
    drop(owner);
    bank.check_quiet();
}

#[test]
fn own_snapshot_sees_own_changes_and_stays() {
    let bank = Bank::new(1, 2);
    let mut transaction = bank.begin(0);
    let handle = lock(&mut transaction, &bank.cells[0], Mode::Exclusive);
    add(&mut transaction, handle, RowId(0), 1);
    let own = transaction.root(handle);
    add(&mut transaction, handle, RowId(0), 1);
    assert_eq!(int(own.row(RowId(0)).expect("it is there").value(AMOUNT)), BALANCE + 1);
    transaction.commit();
}

/// A row's number and balance before and after a change.
type NumberAndBalance = (Option<[i64; 2]>, Option<[i64; 2]>);

/// Numbers and balances before and after, as [`Transaction::changed_rows_of`] tells them.
fn told(
    transaction: &Transaction,
    changed: &ChangedRows,
    handle: LockHandle,
) -> Vec<NumberAndBalance> {
    let values = |row: &ProjectedRow<'_>| [int(row[0]), int(row[1])];
    let rows = transaction.changed_rows_of(changed, handle).rows(&[0, 1]);
    rows.map(|row| (row.old.as_ref().map(values), row.new.as_ref().map(values))).collect()
}

/// What differs between two roots: the model of [`told`].
fn differing(before: &Partition, now: &Partition) -> Vec<NumberAndBalance> {
    let values = |root: &Partition| -> BTreeMap<RowId, [i64; 2]> {
        root.rows().map(|row| (row.id(), [int(row.value(0)), int(row.value(1))])).collect()
    };
    let (before, now) = (values(before), values(now));
    let ids: BTreeSet<RowId> = before.keys().chain(now.keys()).copied().collect();
    let pairs = ids.into_iter().map(|id| (before.get(&id).copied(), now.get(&id).copied()));
    pairs.filter(|(old, new)| old != new).collect()
}

fn change_randomly(transaction: &mut Transaction, handle: LockHandle, rng: &mut Rng, next: i64) {
    let row = RowId(rng.below(40) as u32);
    match rng.below(3) {
        0 => drop(transaction.insert(handle, &[ValueRef::Int64(next), ValueRef::Int64(next)])),
        1 => drop(transaction.delete(handle, row)),
        _ if transaction.read(handle).row(row).is_none() => {}
        _ => {
            let values = [ValueRef::Int64(next), ValueRef::Int64(next + 1)];
            transaction.update(handle, row, &[1, 0], &values).expect("no index, no conflict");
        }
    }
}

#[test]
fn changed_rows_are_found_once_each_whatever_happened_to_them() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let bank = Bank::new(2, 30);
        let mut transaction = bank.begin(0);
        let handles: Vec<_> =
            bank.cells.iter().map(|cell| lock(&mut transaction, cell, Mode::Exclusive)).collect();
        transaction.begin_statement();
        change_randomly(&mut transaction, handles[0], &mut rng, 7);
        transaction.end_statement();
        transaction.begin_statement();
        let since = transaction.savepoint();
        let mut changed = transaction.changed_rows_since(&since);
        let before: Vec<_> = handles.iter().map(|handle| transaction.root(*handle)).collect();
        // The second round adds the changes of the second partition to those of the first.
        for round in 0..2 {
            let changing = handles[round];
            for number in 0..1 + rng.below(20) as i64 {
                change_randomly(&mut transaction, changing, &mut rng, 1000 + 2 * number);
            }
            if rng.below(4) == 0 {
                transaction.savepoint();
                let emptied = transaction.alter(changing, |root| {
                    root.truncate();
                    Ok::<_, std::convert::Infallible>(())
                });
                emptied.expect("nothing can fail");
            }
            transaction.find_changed_rows(&mut changed);
            for (handle, before) in handles.iter().zip(&before) {
                let expected = differing(before, transaction.read(*handle));
                let rows = told(&transaction, &changed, *handle);
                let rows: Vec<_> = rows.into_iter().filter(|(old, new)| old != new).collect();
                assert_eq!(rows, expected, "seed {seed}, round {round}");
                let changes = transaction.changed_rows_of(&changed, *handle);
                assert!(!changes.is_inserted_only() || rows.iter().all(|row| row.0.is_none()));
                assert!(!changes.is_deleted_only() || rows.iter().all(|row| row.1.is_none()));
                assert!(!changes.is_single() || rows.len() <= 1);
            }
        }
        transaction.rollback();
    }
}
