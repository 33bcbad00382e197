//! The lock word, deadlock detection and the cut protocol under the model checker, which runs
//! them under many schedules and finds threads that wait for ever.
//!
//! ```sh
//! RUSTFLAGS='--cfg shuttle' cargo test -p halcyon-txn --test models --target-dir target/shuttle
//! ```
//!
//! `halcyon_base::model` has the schedules. The root of a partition is the checked twin here: two who
//! should exclude each other panic.
//! Canaries: with a bug planted (`halcyon_txn::planted`) the same models must fail.

#![cfg(shuttle)]

mod common;

use common::{Bank, add, amount, patiently};
use halcyon_base::model::Check;
use halcyon_base::planted::Bug;
use halcyon_base::rng::Rng;
use halcyon_base::sync::atomic::{AtomicUsize, Ordering};
use halcyon_base::sync::{Arc, thread};
use halcyon_base::{PartitionId, RowId, SessionId};
use halcyon_store::{Partition, ValueRef};
use halcyon_txn::view::{SettleError, ViewCell, ViewMaintainer, WantedViews, settle_views};
use halcyon_txn::{
    CancelToken, LockError, LockHandle, Mode, PartitionCell, Transaction, TransactionState,
    WaitLimits, cut, planted,
};
use shuttle::future::block_on;
use shuttle::rand::Rng as _;
use std::future::poll_fn;

fn check(model: impl Fn() + Send + Sync + 'static) {
    Check::new(600).run(model);
}

fn check_canary(bug: Bug, model: impl Fn() + Send + Sync + 'static) {
    Check::new(600).canary(bug, model);
}

fn seeded() -> Rng {
    Rng::new(shuttle::rand::thread_rng().r#gen())
}

fn spawn_all(runs: Vec<Box<dyn FnOnce() + Send>>) {
    let threads: Vec<_> = runs.into_iter().map(thread::spawn).collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no model thread panics"));
}

fn lock(
    transaction: &mut Transaction,
    bank: &Bank,
    cell: usize,
    mode: Mode,
) -> Result<(), LockError> {
    patiently(|limits| transaction.lock(&bank.cells[cell], mode, limits)).map(|_| ())
}

/// Waits for a lock as a task does: it asks, and is told by its waker when to ask again.
fn lock_as_task(
    transaction: &mut Transaction,
    cell: &Arc<PartitionCell>,
    mode: Mode,
    limits: &WaitLimits<'_>,
) -> Result<LockHandle, LockError> {
    loop {
        if let Some(handle) = transaction.ask(cell, mode, limits)? {
            return Ok(handle);
        }
        block_on(poll_fn(|context| transaction.poll_wait(context)));
    }
}

/// Waits for a lock as a thread or as a task, as it comes.
fn lock_somehow(
    transaction: &mut Transaction,
    bank: &Bank,
    cell: usize,
    mode: Mode,
) -> Result<LockHandle, LockError> {
    let cell = &bank.cells[cell];
    patiently(|limits| match seeded().below(2) {
        0 => transaction.lock(cell, mode, limits),
        _ => lock_as_task(transaction, cell, mode, limits),
    })
}

/// Readers read twice the same, and increments of writers are not lost.
fn readers_and_writers() {
    let bank = Arc::new(Bank::new(1, 1));
    let writer = |session: u32| {
        let bank = Arc::clone(&bank);
        Box::new(move || {
            let mut transaction = bank.begin(session);
            let lock =
                patiently(|limits| transaction.lock(&bank.cells[0], Mode::Exclusive, limits));
            add(&mut transaction, lock.expect("one lock is no deadlock"), RowId(0), 1);
            transaction.commit();
        }) as Box<dyn FnOnce() + Send>
    };
    let reader = |session: u32| {
        let bank = Arc::clone(&bank);
        Box::new(move || {
            let mut transaction = bank.begin(session);
            let lock = patiently(|limits| transaction.lock(&bank.cells[0], Mode::Shared, limits));
            let lock = lock.expect("one lock is no deadlock");
            let first = amount(transaction.read(lock), RowId(0));
            thread::yield_now();
            assert_eq!(amount(transaction.read(lock), RowId(0)), first);
            transaction.commit();
        }) as Box<dyn FnOnce() + Send>
    };
    spawn_all(vec![writer(0), reader(0), writer(1), reader(1)]);
    let mut transaction = bank.begin(0);
    let handle = transaction.try_lock(&bank.cells[0], Mode::Exclusive).expect("all have ended");
    assert_eq!(amount(transaction.read(handle), RowId(0)), common::BALANCE + 2);
    transaction.commit();
    bank.check_quiet();
}

#[test]
fn lock_excludes_and_wakes_every_waiter() {
    check(readers_and_writers);
}

#[test]
fn canary_reader_without_second_look_is_caught() {
    check_canary(planted::NO_SECOND_LOOK, readers_and_writers);
}

#[test]
fn waiting_writer_goes_before_later_readers() {
    check(|| {
        let bank = Arc::new(Bank::new(1, 1));
        let mut first = bank.begin(0);
        lock(&mut first, &bank, 0, Mode::Shared).expect("the lock is free");
        let writer = {
            let bank = Arc::clone(&bank);
            thread::spawn(move || {
                let mut transaction = bank.begin(1);
                let lock =
                    patiently(|limits| transaction.lock(&bank.cells[0], Mode::Exclusive, limits));
                add(&mut transaction, lock.expect("no deadlock"), RowId(0), 1);
                transaction.commit();
            })
        };
        let waits =
            |bank: &Bank| bank.manager.locks(&bank.cells).iter().any(|l| l.waiting.is_some());
        while !waits(&bank) {
            thread::yield_now();
        }
        let mut late = bank.begin(0);
        assert!(late.try_lock(&bank.cells[0], Mode::Shared).is_none(), "a reader overtook");
        first.commit();
        let handle = patiently(|limits| late.lock(&bank.cells[0], Mode::Shared, limits));
        let seen = amount(late.read(handle.expect("no deadlock")), RowId(0));
        assert_eq!(seen, common::BALANCE + 1);
        late.commit();
        writer.join().expect("no model thread panics");
        bank.check_quiet();
    });
}

#[test]
fn upgrade_waits_for_other_readers_and_two_upgrades_are_a_deadlock() {
    check(|| {
        let bank = Arc::new(Bank::new(1, 1));
        let victims = Arc::new(AtomicUsize::new(0));
        let upgrader = |session: u32| {
            let (bank, victims) = (Arc::clone(&bank), Arc::clone(&victims));
            Box::new(move || {
                let mut transaction = bank.begin(session);
                lock(&mut transaction, &bank, 0, Mode::Shared).expect("readers do not wait here");
                let upgraded =
                    patiently(|limits| transaction.lock(&bank.cells[0], Mode::Exclusive, limits));
                match upgraded {
                    Ok(handle) => {
                        add(&mut transaction, handle, RowId(0), 1);
                        transaction.commit();
                    }
                    Err(LockError::Deadlock(deadlock)) => {
                        assert_eq!(deadlock.cycle.len(), 2);
                        assert_eq!(deadlock.cycle[0].waiter, transaction.id());
                        victims.fetch_add(1, Ordering::SeqCst);
                    }
                    Err(other) => panic!("{other}"),
                }
            }) as Box<dyn FnOnce() + Send>
        };
        spawn_all(vec![upgrader(0), upgrader(1)]);
        let victims = victims.load(Ordering::SeqCst);
        assert!(victims <= 1, "one victim is enough");
        let mut transaction = bank.begin(0);
        let handle = transaction.try_lock(&bank.cells[0], Mode::Shared).expect("all have ended");
        let seen = amount(transaction.read(handle), RowId(0)) - common::BALANCE;
        assert_eq!(seen, 2 - victims as i64);
        transaction.commit();
        bank.check_quiet();
    });
}

/// A waiter that is cancelled while its lock may be granted, and that waits again at once.
fn cancelled_waiters() {
    let bank = Arc::new(Bank::new(1, 1));
    let cancel = CancelToken::new();
    let mut owner = bank.begin(0);
    lock(&mut owner, &bank, 0, Mode::Exclusive).expect("the lock is free");
    let cancelled = {
        let (bank, cancel) = (Arc::clone(&bank), cancel.clone());
        Box::new(move || {
            let mut transaction = bank.begin(1);
            let limits = WaitLimits { timeout: None, cancel: &cancel };
            match transaction.lock(&bank.cells[0], Mode::Exclusive, &limits) {
                Ok(handle) => add(&mut transaction, handle, RowId(0), 1),
                Err(error) => assert_eq!(error, LockError::Cancelled),
            }
            transaction.commit();
            let mut transaction = bank.begin(1);
            lock(&mut transaction, &bank, 0, Mode::Exclusive).expect("no deadlock");
            transaction.commit();
        }) as Box<dyn FnOnce() + Send>
    };
    let beside = || {
        let bank = Arc::clone(&bank);
        Box::new(move || {
            let mut transaction = bank.begin(0);
            lock(&mut transaction, &bank, 0, Mode::Shared).expect("no deadlock");
            transaction.commit();
        }) as Box<dyn FnOnce() + Send>
    };
    let canceller = Box::new(move || cancel.cancel()) as Box<dyn FnOnce() + Send>;
    let end = Box::new(move || owner.commit()) as Box<dyn FnOnce() + Send>;
    spawn_all(vec![cancelled, beside(), beside(), canceller, end]);
    bank.check_quiet();
}

#[test]
fn cancelled_waiter_leaves_the_queue_or_has_the_lock() {
    check(cancelled_waiters);
}

#[test]
fn canary_grant_that_reaches_the_next_wait_is_caught() {
    check_canary(planted::LATE_MARK, cancelled_waiters);
}

/// More waiters for a lock than stand by: the last ones sleep until they are alerted.
fn crowded_lock() {
    let bank = Arc::new(Bank::new(1, 1));
    let writer = |session: usize| {
        let bank = Arc::clone(&bank);
        Box::new(move || {
            let mut transaction = bank.begin(session as u32);
            let mode = if session == 1 { Mode::Shared } else { Mode::Exclusive };
            lock(&mut transaction, &bank, 0, mode).expect("no deadlock");
            transaction.commit();
        }) as Box<dyn FnOnce() + Send>
    };
    spawn_all((0..5).map(writer).collect());
    bank.check_quiet();
}

#[test]
fn waiters_far_back_come_to_their_lock() {
    check(crowded_lock);
}

#[test]
fn canary_alert_that_wakes_nobody_is_caught() {
    check_canary(planted::SILENT_ALERT, crowded_lock);
}

/// Locks partitions in random modes, in the given order; a victim begins again.
fn lock_run(bank: &Bank, session: u32, order: &[usize], rng: &mut Rng) -> usize {
    let mut victim_count = 0;
    loop {
        let mut transaction = bank.begin(session);
        let mut locked = Ok(());
        for &cell in order {
            let mode = if rng.below(3) == 0 { Mode::Shared } else { Mode::Exclusive };
            locked = lock(&mut transaction, bank, cell, mode);
            if locked.is_err() {
                break;
            }
        }
        match locked {
            Ok(()) => {
                transaction.commit();
                return victim_count;
            }
            Err(LockError::Deadlock(deadlock)) => {
                let next = deadlock.cycle.iter().cycle().skip(1);
                assert!(deadlock.cycle.iter().zip(next).all(|(a, b)| a.blocker == b.waiter));
                victim_count += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
}

/// Sessions that lock two partitions in either order, each wait a thread's or a task's. All come to their
/// locks, victims begin again, and no increment is lost.
fn tasks_and_threads() {
    let bank = Arc::new(Bank::new(2, 1));
    let run = |session: u32| {
        let bank = Arc::clone(&bank);
        Box::new(move || {
            let order = if session.is_multiple_of(2) { [0, 1] } else { [1, 0] };
            loop {
                let mut transaction = bank.begin(session);
                let mut adds = |cell| {
                    if cell == 0 && session == 2 {
                        lock_somehow(&mut transaction, &bank, cell, Mode::Shared)?;
                    }
                    let handle = lock_somehow(&mut transaction, &bank, cell, Mode::Exclusive)?;
                    add(&mut transaction, handle, RowId(0), 1);
                    Ok(())
                };
                match order.into_iter().try_for_each(&mut adds) {
                    Ok(()) => return transaction.commit(),
                    Err(LockError::Deadlock(_)) => transaction.rollback(),
                    Err(other) => panic!("{other}"),
                }
            }
        }) as Box<dyn FnOnce() + Send>
    };
    spawn_all((0..3).map(run).collect());
    for cell in 0..2 {
        let mut transaction = bank.begin(0);
        let handle = transaction.try_lock(&bank.cells[cell], Mode::Exclusive);
        let handle = handle.expect("all have ended");
        assert_eq!(amount(transaction.read(handle), RowId(0)), common::BALANCE + 3);
        transaction.commit();
    }
    bank.check_quiet();
}

#[test]
fn tasks_that_wait_come_to_their_locks() {
    check(tasks_and_threads);
}

#[test]
fn canary_a_waker_left_too_late_is_caught() {
    check_canary(planted::LATE_WAKER, tasks_and_threads);
}

/// A task that asks for a lock and then ends, is cancelled, or asks for another lock instead.
fn tasks_that_change_their_mind() {
    let bank = Arc::new(Bank::new(2, 1));
    let mut owner = bank.begin(0);
    lock(&mut owner, &bank, 0, Mode::Exclusive).expect("the lock is free");
    let cancel = CancelToken::new();
    let fickle = |session: u32| {
        let (bank, cancel) = (Arc::clone(&bank), cancel.clone());
        Box::new(move || {
            let limits = WaitLimits { timeout: None, cancel: &cancel };
            let mut transaction = bank.begin(session);
            let asked = transaction.ask(&bank.cells[0], Mode::Exclusive, &limits);
            match (asked, session) {
                (Ok(Some(_)), _) => transaction.commit(),
                (Ok(None), 1) => drop(transaction),
                (Ok(None), 2) => {
                    patiently(|limits| {
                        lock_as_task(&mut transaction, &bank.cells[1], Mode::Exclusive, limits)
                    })
                    .expect("no deadlock");
                    transaction.commit();
                }
                (Ok(None), _) => {
                    let locked =
                        lock_as_task(&mut transaction, &bank.cells[0], Mode::Exclusive, &limits);
                    assert!(matches!(locked, Ok(_) | Err(LockError::Cancelled)), "{locked:?}");
                    transaction.commit();
                }
                (Err(error), _) => assert_eq!(error, LockError::Cancelled),
            }
            let mut transaction = bank.begin(session);
            lock_somehow(&mut transaction, &bank, 0, Mode::Shared).expect("no deadlock");
            transaction.commit();
        }) as Box<dyn FnOnce() + Send>
    };
    let canceller = {
        let cancel = cancel.clone();
        Box::new(move || cancel.cancel()) as Box<dyn FnOnce() + Send>
    };
    let end = Box::new(move || owner.commit()) as Box<dyn FnOnce() + Send>;
    spawn_all(vec![fickle(1), fickle(2), fickle(3), canceller, end]);
    bank.check_quiet();
}

#[test]
fn tasks_that_leave_a_queue_leave_nothing_behind() {
    check(tasks_that_change_their_mind);
}

#[test]
fn canary_a_place_left_behind_is_caught() {
    check_canary(planted::PLACE_LEFT_BEHIND, tasks_that_change_their_mind);
}

#[test]
fn every_deadlock_is_found() {
    check(|| {
        let bank = Arc::new(Bank::new(3, 1));
        let orders = [[0, 1, 2], [1, 2, 0], [2, 0, 1]];
        let run = |session: usize| {
            let bank = Arc::clone(&bank);
            Box::new(move || {
                let mut rng = seeded();
                lock_run(&bank, session as u32, &orders[session], &mut rng);
            }) as Box<dyn FnOnce() + Send>
        };
        spawn_all((0..3).map(run).collect());
        bank.check_quiet();
    });
}

/// One who has changed rows and one who has not lock two partitions in opposite orders. Who has changed
/// rows is no victim, whichever of them waits last.
fn busy_and_idle() {
    let bank = Arc::new(Bank::new(2, 1));
    let victims = Arc::new(AtomicUsize::new(0));
    let run = |session: u32, order: [usize; 2], changes: i64| {
        let (bank, victims) = (Arc::clone(&bank), Arc::clone(&victims));
        Box::new(move || {
            let mut transaction = bank.begin(session);
            for cell in order {
                let locked = patiently(|limits| {
                    transaction.lock(&bank.cells[cell], Mode::Exclusive, limits)
                });
                match locked {
                    Ok(handle) => {
                        (0..changes).for_each(|_| add(&mut transaction, handle, RowId(0), 1));
                    }
                    Err(LockError::Deadlock(deadlock)) => {
                        assert_eq!(deadlock.cycle[0].waiter, transaction.id());
                        assert_eq!(changes, 0, "who has done more is the victim");
                        victims.fetch_add(1, Ordering::SeqCst);
                        return;
                    }
                    Err(other) => panic!("{other}"),
                }
            }
            transaction.commit();
        }) as Box<dyn FnOnce() + Send>
    };
    spawn_all(vec![run(0, [0, 1], 3), run(1, [1, 0], 0)]);
    assert!(victims.load(Ordering::SeqCst) <= 1, "one victim is enough");
    bank.check_quiet();
}

#[test]
fn who_has_done_least_is_the_victim() {
    check(busy_and_idle);
}

#[test]
fn canary_the_last_waiter_as_the_victim_is_caught() {
    check_canary(planted::LAST_WAITER_IS_VICTIM, busy_and_idle);
}

/// A transaction that gives up while another waits for its lock: what it has changed is undone, the other
/// goes on, and both can lock again.
#[test]
fn who_gives_up_lets_others_pass_and_can_begin_again() {
    check(|| {
        let bank = Arc::new(Bank::new(1, 1));
        let other = {
            let bank = Arc::clone(&bank);
            Box::new(move || {
                let mut transaction = bank.begin(1);
                let lock =
                    patiently(|limits| transaction.lock(&bank.cells[0], Mode::Exclusive, limits));
                add(&mut transaction, lock.expect("one lock is no deadlock"), RowId(0), 1);
                transaction.commit();
            }) as Box<dyn FnOnce() + Send>
        };
        let gives_up = {
            let bank = Arc::clone(&bank);
            Box::new(move || {
                let mut transaction = bank.begin(0);
                transaction.begin_statement();
                let lock =
                    patiently(|limits| transaction.lock(&bank.cells[0], Mode::Exclusive, limits));
                add(&mut transaction, lock.expect("one lock is no deadlock"), RowId(0), 100);
                transaction.end_statement();
                transaction.give_up();
                transaction.begin_statement();
                let lock =
                    patiently(|limits| transaction.lock(&bank.cells[0], Mode::Shared, limits));
                let seen = amount(transaction.read(lock.expect("no deadlock")), RowId(0));
                assert!(seen <= common::BALANCE + 1, "an undone change is seen");
                transaction.end_statement();
                transaction.commit();
            }) as Box<dyn FnOnce() + Send>
        };
        spawn_all(vec![other, gives_up]);
        let mut transaction = bank.begin(0);
        let handle = transaction.try_lock(&bank.cells[0], Mode::Shared).expect("all have ended");
        assert_eq!(amount(transaction.read(handle), RowId(0)), common::BALANCE + 1);
        transaction.commit();
        bank.check_quiet();
    });
}

/// A reader of 0 goes on to 1, the writer of 1 goes on to read 0, and a lone writer of 0 queues
/// between them: a cycle, but only by the order of the queue.
#[test]
fn who_holds_nothing_is_no_victim() {
    check(|| {
        let bank = Arc::new(Bank::new(2, 1));
        let run = |session: u32, wants: &'static [(usize, Mode)]| {
            let bank = Arc::clone(&bank);
            Box::new(move || {
                let mut transaction = bank.begin(session);
                for &(cell, mode) in wants {
                    match lock(&mut transaction, &bank, cell, mode) {
                        Ok(_) => {}
                        Err(LockError::Deadlock(_)) if wants.len() > 1 => return,
                        Err(other) => panic!("{other}"),
                    }
                }
                transaction.commit();
            }) as Box<dyn FnOnce() + Send>
        };
        spawn_all(vec![
            run(0, &[(0, Mode::Shared), (1, Mode::Shared)]),
            run(1, &[(0, Mode::Exclusive)]),
            run(2, &[(1, Mode::Exclusive), (0, Mode::Shared)]),
        ]);
        bank.check_quiet();
    });
}

#[test]
fn locks_in_one_order_are_never_called_a_deadlock() {
    check(|| {
        let bank = Arc::new(Bank::new(2, 1));
        let run = |session: u32| {
            let bank = Arc::clone(&bank);
            Box::new(move || {
                let mut rng = seeded();
                assert_eq!(lock_run(&bank, session, &[0, 1], &mut rng), 0);
            }) as Box<dyn FnOnce() + Send>
        };
        spawn_all((0..3).map(run).collect());
        bank.check_quiet();
    });
}

/// Two writers move money around while cuts are taken.
fn transfers_and_cuts() {
    let bank = Arc::new(Bank::new(3, 2));
    let writer = |session: u32| {
        let bank = Arc::clone(&bank);
        Box::new(move || {
            let mut rng = seeded();
            for number in 1..=2 {
                let number = i64::from(session) * 100 + number;
                match bank.transfer(session, number, &mut rng) {
                    Ok(_) | Err(LockError::Deadlock(_)) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        }) as Box<dyn FnOnce() + Send>
    };
    let reader = || {
        let bank = Arc::clone(&bank);
        Box::new(move || {
            for _ in 0..2 {
                bank.check_cut();
            }
        }) as Box<dyn FnOnce() + Send>
    };
    spawn_all(vec![writer(1), writer(2), reader()]);
    bank.check_cut();
    bank.check_quiet();
}

#[test]
fn cut_holds_each_transfer_wholly_or_not_at_all() {
    check(transfers_and_cuts);
}

#[test]
fn canary_torn_commit_is_caught() {
    check_canary(planted::TORN_COMMIT, transfers_and_cuts);
}

#[test]
fn canary_cut_without_undo_is_caught() {
    check_canary(planted::CUT_WITHOUT_UNDO, transfers_and_cuts);
}

/// One transaction reads partition 0 and writes partition 1, another overwrites what it read.
fn overwritten_reads_and_cuts() {
    let bank = Arc::new(Bank::new(2, 1));
    let seen = Arc::new(AtomicUsize::new(0));
    let reads_then_writes = {
        let (bank, seen) = (Arc::clone(&bank), Arc::clone(&seen));
        Box::new(move || {
            let mut transaction = bank.begin(1);
            let read = patiently(|limits| transaction.lock(&bank.cells[0], Mode::Shared, limits));
            let read = amount(transaction.read(read.expect("no deadlock")), RowId(0));
            seen.store(read as usize, Ordering::SeqCst);
            let write =
                patiently(|limits| transaction.lock(&bank.cells[1], Mode::Exclusive, limits));
            add(&mut transaction, write.expect("no deadlock"), RowId(0), 1);
            transaction.commit();
        }) as Box<dyn FnOnce() + Send>
    };
    let overwrites = {
        let bank = Arc::clone(&bank);
        Box::new(move || {
            let mut transaction = bank.begin(2);
            let write =
                patiently(|limits| transaction.lock(&bank.cells[0], Mode::Exclusive, limits));
            add(&mut transaction, write.expect("no deadlock"), RowId(0), 1);
            transaction.commit();
        }) as Box<dyn FnOnce() + Send>
    };
    let cuts = {
        let (bank, seen) = (Arc::clone(&bank), Arc::clone(&seen));
        Box::new(move || {
            for _ in 0..2 {
                let roots = patiently(|limits| cut(&bank.manager, &bank.cells, limits));
                let roots = roots.expect("nobody cancels it");
                let [first, second] = [0, 1].map(|cell| amount(&roots[cell], RowId(0)));
                if first > common::BALANCE && seen.load(Ordering::SeqCst) as i64 == common::BALANCE
                {
                    assert!(second > common::BALANCE, "the cut lacks who read what it overwrote");
                }
            }
        }) as Box<dyn FnOnce() + Send>
    };
    spawn_all(vec![reads_then_writes, overwrites, cuts]);
    bank.check_quiet();
}

#[test]
fn cut_holds_whoever_read_what_it_shows_overwritten() {
    check(overwritten_reads_and_cuts);
}

#[test]
fn canary_read_locks_given_back_first_are_caught() {
    check_canary(planted::READ_LOCKS_FIRST, overwritten_reads_and_cuts);
}

#[test]
fn cut_does_not_wait_for_an_idle_owner() {
    check(|| {
        let bank = Arc::new(Bank::new(2, 1));
        let mut owner = bank.begin(0);
        owner.begin_statement();
        let handle = patiently(|limits| owner.lock(&bank.cells[0], Mode::Exclusive, limits));
        add(&mut owner, handle.expect("the lock is free"), RowId(0), -7);
        let reader = {
            let bank = Arc::clone(&bank);
            thread::spawn(move || bank.check_cut())
        };
        owner.end_statement();
        reader.join().expect("the cut ends while the owner is idle");
        bank.check_cut();
        drop(owner);
        bank.check_quiet();
    });
}

#[test]
fn cut_does_not_wait_for_an_owner_that_waits_for_a_lock() {
    check(|| {
        let bank = Arc::new(Bank::new(2, 1));
        let mut holder = bank.begin(0);
        lock(&mut holder, &bank, 1, Mode::Exclusive).expect("the lock is free");
        let owner = {
            let bank = Arc::clone(&bank);
            thread::spawn(move || {
                let mut rng = Rng::new(1);
                let mut transaction = bank.begin(1);
                let handle =
                    patiently(|limits| transaction.lock(&bank.cells[0], Mode::Exclusive, limits));
                add(&mut transaction, handle.expect("no deadlock"), RowId(0), 5);
                lock(&mut transaction, &bank, 1, Mode::Shared).expect("no deadlock");
                drop(transaction);
                bank.transfer(1, 3, &mut rng).expect("no deadlock");
            })
        };
        let waits = |bank: &Bank| {
            let transactions = bank.manager.transactions();
            transactions.iter().any(|info| info.state == TransactionState::Waiting)
        };
        while !waits(&bank) {
            thread::yield_now();
        }
        let first = patiently(|limits| cut(&bank.manager, &bank.cells[..1], limits));
        assert_eq!(amount(&first.expect("a patient cut ends")[0], RowId(0)), common::BALANCE);
        holder.commit();
        owner.join().expect("no model thread panics");
        bank.check_quiet();
    });
}

#[test]
fn cut_does_not_wait_for_a_task_that_waits_for_a_lock() {
    check(|| {
        let bank = Arc::new(Bank::new(2, 1));
        let mut holder = bank.begin(0);
        lock(&mut holder, &bank, 1, Mode::Exclusive).expect("the lock is free");
        let mut task = bank.begin(1);
        let handle = lock_somehow(&mut task, &bank, 0, Mode::Exclusive).expect("no deadlock");
        add(&mut task, handle, RowId(0), 5);
        let reader = {
            let bank = Arc::clone(&bank);
            thread::spawn(move || patiently(|limits| cut(&bank.manager, &bank.cells[..1], limits)))
        };
        let asked = patiently(|limits| task.ask(&bank.cells[1], Mode::Shared, limits));
        assert_eq!(asked, Ok(None));
        // Nobody polls the task.
        let roots = reader.join().expect("no model thread panics").expect("a patient cut ends");
        assert_eq!(amount(&roots[0], RowId(0)), common::BALANCE);
        holder.commit();
        drop(task);
        bank.check_quiet();
    });
}

// ---------------------------------------------------------------------- views

/// A view of one row: the first account, as events and an owner have made it.
struct Tally {
    sum: i64,
    ended: usize,
}

impl ViewMaintainer for Tally {
    fn settle(&mut self, rows: &mut Partition) -> bool {
        let sum = [ValueRef::Int64(self.sum)];
        rows.update(RowId(0), &[common::AMOUNT as u16], &sum).expect("no index, no conflict");
        true
    }

    fn ended(&mut self, _: bool) {
        self.ended += 1;
    }
}

/// Two views that a stream feeds; their order is another one than that of their rows.
struct Views {
    bank: Bank,
    views: Vec<Arc<ViewCell<Tally>>>,
}

impl Views {
    fn new() -> Arc<Views> {
        let cell = |id| Arc::new(PartitionCell::derived(PartitionId(id), common::rows(1)));
        let bank = Bank { cells: vec![cell(1), cell(2)], ..Bank::new(0, 1) };
        let rows = bank.cells.iter().rev().zip(0..);
        let view = |(rows, order): (&Arc<PartitionCell>, u64)| {
            let maintainer = Tally { sum: common::BALANCE, ended: 0 };
            Arc::new(ViewCell::new(order, Arc::clone(rows), maintainer))
        };
        let views = rows.map(view).collect();
        Arc::new(Views { bank, views })
    }

    /// Gives both views an event; false while a transaction owns one.
    fn event(&self) -> bool {
        let Some(mut locked) = ViewCell::lock_open(self.views.iter().map(|view| &**view)) else {
            return false;
        };
        for (tally, view) in locked.iter_mut().zip(&self.views) {
            tally.sum += 1;
            view.set_stale();
        }
        true
    }

    /// What the rows are once they are up to date.
    fn read(&self, session: u32) -> Vec<i64> {
        let find = |wanted: WantedViews| {
            let views = self.views.iter();
            views.filter(|view| wanted == WantedViews::All || view.is_stale()).cloned().collect()
        };
        let rows: Vec<_> = self.views.iter().map(|view| Arc::clone(view.rows())).collect();
        let settled = patiently(|limits| {
            loop {
                let alone = self.bank.manager.lone_view_settlements();
                settle_views(&self.bank.manager, SessionId(session), limits, find)?;
                let roots = cut(&self.bank.manager, &rows, limits).expect("no limits");
                if self.bank.manager.lone_view_settlements() == alone {
                    return Ok(roots);
                }
            }
        });
        let roots = settled.unwrap_or_else(|error: SettleError| panic!("{error:?}"));
        roots.iter().map(|root| amount(root, RowId(0)) - common::BALANCE).collect()
    }

    /// Owns the first view, adds to it, and ends.
    fn change(&self, session: u32, commits: bool) {
        let mut transaction = self.bank.begin(session);
        let view = &self.views[0];
        patiently(|limits| {
            transaction.lock(view.rows(), Mode::Exclusive, limits).expect("one lock")
        });
        let mut tally = view.lock();
        let rows = view.own(&mut tally, &mut transaction);
        tally.sum += 100;
        drop(tally);
        let undone = Arc::clone(view);
        transaction.on_rollback(move || undone.lock().sum -= 100);
        add(&mut transaction, rows, RowId(0), 100);
        thread::yield_now();
        let tally = view.lock();
        assert_eq!(tally.sum, amount(transaction.read(rows), RowId(0)), "the owner's rows differ");
        drop(tally);
        match commits {
            true => transaction.commit(),
            false => transaction.rollback(),
        }
    }
}

/// Events of a handle are in the rows of both views or of neither, for every reader; all that were
/// accepted before.
fn events_reach_both_views_or_none() {
    let views = Views::new();
    let accepted = Arc::new(AtomicUsize::new(0));
    let feeder = || {
        let (views, accepted) = (Arc::clone(&views), Arc::clone(&accepted));
        Box::new(move || {
            assert!(views.event(), "nobody owns them");
            accepted.fetch_add(1, Ordering::SeqCst);
        }) as Box<dyn FnOnce() + Send>
    };
    let reader = |session: u32| {
        let (views, accepted) = (Arc::clone(&views), Arc::clone(&accepted));
        Box::new(move || {
            let before = accepted.load(Ordering::SeqCst) as i64;
            let seen = views.read(session);
            assert!(seen[0] == seen[1], "an event is in one of two views: {seen:?}");
            assert!(seen[0] >= before, "an accepted event is not seen: {seen:?}, {before}");
        }) as Box<dyn FnOnce() + Send>
    };
    spawn_all(vec![feeder(), reader(0), feeder(), reader(1)]);
    assert_eq!(views.read(0), [2, 2]);
    views.bank.check_quiet();
}

#[test]
fn events_without_a_transaction_are_seen_whole() {
    check(events_reach_both_views_or_none);
}

#[test]
fn canary_a_cut_that_gets_some_views_settled_is_caught() {
    check_canary(planted::CUTS_SERVED_SETTLED, events_reach_both_views_or_none);
}

#[test]
fn canary_settling_without_a_second_look_is_caught() {
    check_canary(planted::NO_SECOND_LOOK_AT_VIEWS, events_reach_both_views_or_none);
}

/// What a transaction did to a view and took back is gone, what it committed stays, and no event
/// of others is lost with it or counted twice.
fn owners_end_with_what_was_theirs() {
    let views = Views::new();
    let refused = Arc::new(AtomicUsize::new(0));
    let owner = |session: u32, commits: bool| {
        let views = Arc::clone(&views);
        Box::new(move || views.change(session, commits)) as Box<dyn FnOnce() + Send>
    };
    let feeder = || {
        let (views, refused) = (Arc::clone(&views), Arc::clone(&refused));
        Box::new(move || {
            for _ in 0..2 {
                if !views.event() {
                    refused.fetch_add(1, Ordering::SeqCst);
                }
            }
        }) as Box<dyn FnOnce() + Send>
    };
    let reader = {
        let views = Arc::clone(&views);
        Box::new(move || {
            let seen = views.read(2);
            assert_eq!(seen[0] % 100, seen[1], "{seen:?}");
        }) as Box<dyn FnOnce() + Send>
    };
    spawn_all(vec![owner(0, true), owner(1, false), feeder(), reader]);
    let met = 2 - refused.load(Ordering::SeqCst) as i64;
    assert_eq!(views.read(0), [100 + met, met]);
    assert_eq!(views.views[0].lock().ended, 2);
    assert!(views.views[0].lock().is_open());
    views.bank.check_quiet();
}

#[test]
fn an_owners_rollback_takes_back_its_own_changes_only() {
    check(owners_end_with_what_was_theirs);
}

#[test]
fn canary_an_owner_that_settles_its_rows_alone_is_caught() {
    check_canary(planted::LONE_SETTLEMENT_UNSEEN, owners_end_with_what_was_theirs);
}

#[test]
fn canary_events_to_an_owned_view_are_caught() {
    check_canary(planted::EVENT_TO_OWNED_VIEW, owners_end_with_what_was_theirs);
}
