//! Transfers, audits and cuts on real threads, with timeouts and cancellations in between.
//!
//! A second by default; `HALCYON_FUZZ_SECONDS` sets how long. What must hold: every cut and every
//! audit sums to the conserved total, every transfer is in a cut wholly or not at all, and in
//! the end nothing is held and nobody waits.

#![cfg(not(shuttle))]

mod common;

use common::{Bank, Ending, add};
use halcyon_base::RowId;
use halcyon_base::rng::Rng;
use halcyon_base::sync::{Arc, thread};
use halcyon_txn::{CancelToken, LockError, Mode, WaitLimits};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn duration() -> Duration {
    let set = std::env::var("HALCYON_FUZZ_SECONDS").ok();
    Duration::from_secs(set.map_or(1, |text| text.parse().expect("a number of seconds")))
}

#[derive(Default)]
struct Seen {
    committed: AtomicU64,
    deadlocks: AtomicU64,
    given_up: AtomicU64,
    audits: AtomicU64,
    cuts: AtomicU64,
}

fn one_more(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// Holds a lock for a moment, or gives up after a moment.
fn impatient(bank: &Bank, session: u32, cancel: &CancelToken, rng: &mut Rng, seen: &Seen) {
    let cell = &bank.cells[rng.below(bank.cells.len() as u64) as usize];
    let mode = if rng.below(2) == 0 { Mode::Shared } else { Mode::Exclusive };
    let limits = WaitLimits { timeout: Some(Duration::from_micros(rng.below(300))), cancel };
    let mut transaction = bank.begin(session);
    match transaction.lock(cell, mode, &limits) {
        Ok(handle) if mode == Mode::Exclusive => add(&mut transaction, handle, RowId(0), 13),
        Ok(_) => thread::yield_now(),
        Err(LockError::Timeout | LockError::Cancelled) => one_more(&seen.given_up),
        Err(LockError::Deadlock(deadlock)) => panic!("one lock alone: {deadlock}"),
    }
}

fn work(bank: &Bank, session: u32, rng: &mut Rng, cancel: &CancelToken, seen: &Seen, number: i64) {
    match rng.below(10) {
        0..=5 => match bank.transfer(session, number, rng) {
            Ok(Ending::Commit) => one_more(&seen.committed),
            Ok(Ending::Rollback) => {}
            Err(LockError::Deadlock(_)) => one_more(&seen.deadlocks),
            Err(other) => panic!("{other}"),
        },
        6 => match bank.audit(session) {
            Ok(sum) => {
                assert_eq!(sum, bank.expected_total());
                one_more(&seen.audits);
            }
            Err(LockError::Deadlock(_)) => one_more(&seen.deadlocks),
            Err(other) => panic!("{other}"),
        },
        7 => {
            bank.check_cut();
            one_more(&seen.cuts);
        }
        _ => impatient(bank, session, cancel, rng, seen),
    }
}

#[test]
fn money_is_conserved_in_every_cut_and_audit() {
    let bank = Arc::new(Bank::new(3, 50));
    let (seen, stop) = (Arc::new(Seen::default()), Arc::new(AtomicBool::new(false)));
    let cancel = CancelToken::new();
    let worker = |session: u32| {
        let (bank, seen, stop) = (Arc::clone(&bank), Arc::clone(&seen), Arc::clone(&stop));
        let cancel = cancel.clone();
        thread::spawn(move || {
            let mut rng = Rng::new(u64::from(session));
            let mut number = i64::from(session) << 32;
            while !stop.load(Ordering::Relaxed) {
                number += 1;
                work(&bank, session, &mut rng, &cancel, &seen, number);
            }
        })
    };
    let workers: Vec<_> = (1..=6).map(worker).collect();
    let end = Instant::now() + duration();
    while Instant::now() < end {
        thread::sleep(Duration::from_millis(1));
        cancel.cancel();
        cancel.reset();
    }
    stop.store(true, Ordering::Relaxed);
    let patience = Instant::now() + Duration::from_secs(20);
    while workers.iter().any(|worker| !worker.is_finished()) {
        let locks = || bank.manager.locks(&bank.cells);
        assert!(Instant::now() < patience, "somebody waits for ever: {:#?}", locks());
        thread::sleep(Duration::from_millis(1));
    }
    workers.into_iter().for_each(|worker| worker.join().expect("no worker panics"));
    let receipts = bank.check_cut() as u64;
    assert_eq!(receipts, seen.committed.load(Ordering::Relaxed));
    for count in [&seen.committed, &seen.audits, &seen.cuts, &seen.deadlocks, &seen.given_up] {
        assert!(count.load(Ordering::Relaxed) > 0, "the mix is too thin to show anything");
    }
    bank.check_quiet();
}

/// Three partitions locked in any order by transactions that are run again at once when they fall victim:
/// a victim's lock must go to a transaction that others wait for, not to a newcomer that closes the next
/// cycle. Counts of victims, not of seconds: by order of arrival alone a commit costs hundreds of them.
#[test]
fn victims_that_try_again_at_once_do_not_keep_others_from_committing() {
    const CLIENTS: u32 = 24;
    const COMMITS: u64 = 25;
    let bank = Arc::new(Bank::new(3, 1));
    let victims = Arc::new(AtomicU64::new(0));
    let client = |session: u32| {
        let (bank, victims) = (Arc::clone(&bank), Arc::clone(&victims));
        thread::spawn(move || {
            let mut rng = Rng::new(u64::from(session));
            let cancel = CancelToken::new();
            let mut left = COMMITS;
            while left > 0 {
                let first = rng.below(3) as usize;
                let second = (first + 1 + rng.below(2) as usize) % 3;
                let limits = WaitLimits { timeout: None, cancel: &cancel };
                let mut transaction = bank.begin(session);
                let order = [first, second, 3 - first - second];
                let mut each = order.iter().map(|&cell| {
                    let locked = transaction.lock(&bank.cells[cell], Mode::Exclusive, &limits);
                    // What a client does between its statements.
                    thread::yield_now();
                    locked
                });
                match each.find_map(Result::err) {
                    None => left -= 1,
                    Some(LockError::Deadlock(_)) => {
                        one_more(&victims);
                        continue;
                    }
                    Some(other) => panic!("{other}"),
                }
                transaction.commit();
            }
        })
    };
    let clients: Vec<_> = (0..CLIENTS).map(client).collect();
    clients.into_iter().for_each(|client| client.join().expect("no client panics"));
    bank.check_quiet();
    let victims = victims.load(Ordering::Relaxed);
    let commits = u64::from(CLIENTS) * COMMITS;
    eprintln!("{commits} commits, {victims} victims");
    assert!(victims < 10 * commits, "{victims} victims for {commits} commits");
}
