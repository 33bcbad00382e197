//! Models of waits for advisory locks, by tasks that give their thread back and by threads.
//!
//! Strategy: the locks and [`Awaiting`] as they are. A session runs a statement whose call takes a lock as the driver of
//! statements does: it offers to run again, the call suspends, the wait is polled with the waker of a thread that parks,
//! and the statement runs again. Sessions that go away, are cancelled, or look without waiting come between. Nothing
//! looks again by itself, so a task that is forgotten waits for ever, which shuttle calls a deadlock.
//! Properties: holders of a key exclude each other (asserted at each grant, and by a count beside the locks); every wait
//! ends; who went away holds nothing and stands in no queue; what was cancelled ends.
//! Canaries: with a bug planted ([`planted`]) a model must fail.

use std::sync::Arc;
use std::task::Context;

use halcyon_base::model::Check;
use halcyon_base::parking;
use halcyon_base::planted::Bug;
use halcyon_base::sync::atomic::{AtomicI32, Ordering};
use halcyon_base::sync::thread;
use shuttle::rand::Rng as _;

use super::{AdvisoryError, AdvisoryLocks, AdvisoryRequest, Awaiting, Step};
use crate::event::CancelToken;
use crate::planted;

/// The locks, and who is inside of key 1: those who share it, or -1 for one who has it alone.
#[derive(Default)]
struct Place {
    locks: AdvisoryLocks<i64>,
    inside: AtomicI32,
}

fn once_in(times: u32) -> bool {
    shuttle::rand::thread_rng().gen_range(0..times) == 0
}

fn request(key: i64, shared: bool, of_transaction: bool) -> AdvisoryRequest<i64> {
    AdvisoryRequest { key, shared, of_transaction }
}

/// A statement whose call takes a lock, as a task; `None`: its client has gone away, as it does once in so many waits.
fn take_as_task(
    place: &Place,
    session: u32,
    wanted: AdvisoryRequest<i64>,
    cancel: &CancelToken,
    gone_once_in: Option<u32>,
) -> Option<Result<(), AdvisoryError>> {
    let mut awaiting = Awaiting::default();
    let waker = parking::waker();
    loop {
        awaiting.offer();
        let step = awaiting.lock(&place.locks, session, wanted, cancel, None);
        if !awaiting.taken() {
            awaiting.leave(&place.locks, session);
            return Some(step.map(|step| assert_eq!(step, Step::Over, "it was offered")));
        }
        while awaiting
            .poll(&place.locks, session, cancel, &mut Context::from_waker(&waker))
            .is_some_and(|poll| poll.is_pending())
        {
            if gone_once_in.is_some_and(once_in) {
                thread::yield_now();
                awaiting.leave(&place.locks, session);
                return None;
            }
            thread::park();
        }
        if gone_once_in.is_some_and(once_in) {
            // It was woken, and goes away before it looks.
            awaiting.leave(&place.locks, session);
            return None;
        }
    }
}

/// Stays inside of key 1 for a while.
fn stay(place: &Place, shared: bool) {
    let before = place.inside.load(Ordering::SeqCst);
    assert!(if shared { before >= 0 } else { before == 0 }, "holders exclude each other");
    match shared {
        true => drop(place.inside.fetch_add(1, Ordering::SeqCst)),
        false => place.inside.store(-1, Ordering::SeqCst),
    }
    thread::yield_now();
    match shared {
        true => drop(place.inside.fetch_sub(1, Ordering::SeqCst)),
        false => place.inside.store(0, Ordering::SeqCst),
    }
}

/// Gives a lock back in one of the ways there are.
fn give_back(place: &Place, session: u32, of_transaction: bool, shared: bool) {
    match (of_transaction, once_in(2)) {
        (true, true) => place.locks.end_transaction(session),
        (false, true) => assert!(place.locks.unlock(session, 1, shared)),
        (_, false) => place.locks.release(session),
    }
}

fn all(runs: Vec<Box<dyn FnOnce() + Send>>) {
    let threads: Vec<_> = runs.into_iter().map(thread::spawn).collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no model thread panics"));
}

/// Nobody holds or awaits anything.
fn assert_quiet(place: &Place) {
    assert!(place.locks.all().is_empty(), "{:?}", place.locks.all());
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    Check::new(600).run(model);
}

fn check_canary(bug: Bug, model: impl Fn() + Send + Sync + 'static) {
    Check::new(600).canary(bug, model);
}

// ---------------------------------------------------------------------- models

/// Sessions take one key alone and shared, as tasks and as threads, and one looks without waiting.
fn sessions_take_one_key() {
    let place = Arc::new(Place::default());
    let run = |session: u32| {
        let place = Arc::clone(&place);
        Box::new(move || {
            let never = CancelToken::new();
            for _ in 0..2 {
                let (shared, of_transaction) = (once_in(2), once_in(2));
                let wanted = request(1, shared, of_transaction);
                let has = match session {
                    1 => place.locks.try_lock(session, wanted),
                    2 => place
                        .locks
                        .lock(session, wanted, &never, None)
                        .map(|()| true)
                        .expect("nobody waits in a circle"),
                    _ => take_as_task(&place, session, wanted, &never, None)
                        .expect("it stays")
                        .map(|()| true)
                        .expect("nobody waits in a circle"),
                };
                if has {
                    stay(&place, shared);
                    give_back(&place, session, of_transaction, shared);
                }
            }
        }) as Box<dyn FnOnce() + Send>
    };
    all((1..=4).map(run).collect());
    assert_quiet(&place);
}

#[test]
fn every_wait_for_an_advisory_lock_ends() {
    check(sessions_take_one_key);
}

#[test]
fn canary_a_waker_left_after_an_old_look_is_caught() {
    check_canary(planted::LATE_ADVISORY_WAKER, sessions_take_one_key);
}

#[test]
fn canary_a_release_that_is_not_told_is_caught() {
    check_canary(planted::UNTOLD_RELEASE, sessions_take_one_key);
}

/// Tasks wait and may go away, before and after they were woken, beside those that stay.
fn tasks_go_away() {
    let place = Arc::new(Place::default());
    let run = |session: u32| {
        let place = Arc::clone(&place);
        Box::new(move || {
            let never = CancelToken::new();
            let shared = session == 4 || once_in(3);
            let gone = (session <= 2).then_some(2);
            let wanted = request(1, shared, false);
            match take_as_task(&place, session, wanted, &never, gone) {
                Some(taken) => {
                    taken.expect("nobody waits in a circle");
                    stay(&place, shared);
                }
                None => assert!(session <= 2, "it stays"),
            }
            // The session of a client that has gone ends.
            place.locks.release(session);
        }) as Box<dyn FnOnce() + Send>
    };
    all((1..=4).map(run).collect());
    assert_quiet(&place);
}

#[test]
fn a_task_that_goes_away_hands_its_turn_on() {
    check(tasks_go_away);
}

#[test]
fn canary_a_turn_that_is_not_handed_on_is_caught() {
    check_canary(planted::TURN_NOT_HANDED_ON, tasks_go_away);
}

/// A session holds a key in both modes, gives back what excludes all, and then waits for a lock of one who wants the
/// key shared, and has come behind one who wants the key alone.
fn modes_are_given_back_one_by_one() {
    let place = Arc::new(Place::default());
    let never = CancelToken::new();
    assert!(place.locks.try_lock(1, request(1, false, false)));
    assert!(place.locks.try_lock(1, request(1, true, false)));
    assert!(place.locks.try_lock(3, request(2, false, false)));
    let holder = {
        let (place, never) = (Arc::clone(&place), never.clone());
        move || {
            assert!(place.locks.unlock(1, 1, false));
            let taken = take_as_task(&place, 1, request(2, false, false), &never, None);
            // If the other waits for the key that is still excluded, both would wait for each other.
            let _ = taken.expect("it stays");
            place.locks.release(1);
        }
    };
    let waiter = |session: u32, shared| {
        let (place, never) = (Arc::clone(&place), never.clone());
        move || {
            let taken = take_as_task(&place, session, request(1, shared, false), &never, None);
            let _ = taken.expect("it stays");
            place.locks.release(session);
        }
    };
    all(vec![Box::new(waiter(2, false)), Box::new(waiter(3, true)), Box::new(holder)]);
    assert_quiet(&place);
}

#[test]
fn who_can_take_a_key_is_woken_behind_one_who_cannot() {
    check(modes_are_given_back_one_by_one);
}

#[test]
fn canary_waking_the_first_alone_is_caught() {
    check_canary(planted::FIRST_ONLY, modes_are_given_back_one_by_one);
}

/// One waits and is cancelled, at any moment, while others take the key.
fn a_wait_is_cancelled() {
    let place = Arc::new(Place::default());
    let cancel = CancelToken::new();
    assert!(place.locks.try_lock(1, request(1, false, false)));
    let waiter = {
        let (place, cancel) = (Arc::clone(&place), cancel.clone());
        move || {
            let taken = take_as_task(&place, 2, request(1, false, false), &cancel, None);
            match taken.expect("it stays") {
                Ok(()) => stay(&place, false),
                Err(error) => assert_eq!(error, AdvisoryError::Cancelled),
            }
            place.locks.release(2);
        }
    };
    let behind = {
        let place = Arc::clone(&place);
        move || {
            let never = CancelToken::new();
            let taken = take_as_task(&place, 3, request(1, false, false), &never, None);
            taken.expect("it stays").expect("nobody waits in a circle");
            stay(&place, false);
            place.locks.release(3);
        }
    };
    let holder = {
        let place = Arc::clone(&place);
        move || {
            cancel.cancel();
            thread::yield_now();
            place.locks.release(1);
        }
    };
    all(vec![Box::new(waiter), Box::new(behind), Box::new(holder)]);
    assert_quiet(&place);
}

#[test]
fn a_cancelled_wait_ends_and_holds_nobody_up() {
    check(a_wait_is_cancelled);
}

/// Two sessions take locks of two kinds, which know of each other's waits, one in this order and one in the other.
fn kinds_are_taken_in_both_orders() {
    let places = [Arc::new(Place::default()), Arc::new(Place::default())];
    let of_others = Arc::clone(&places[1]);
    places[0].locks.beside(move |session| of_others.locks.blockers_of(session));
    let run = |session: u32, first: usize| {
        let places = places.clone();
        Box::new(move || {
            let never = CancelToken::new();
            for at in [first, 1 - first] {
                // Those of the second kind tell the first whenever a wait has begun.
                let waits = at == 1 && !places[1].locks.try_lock(session, request(1, false, false));
                if waits {
                    let queued = places[1].locks.take_or_queue(
                        session,
                        request(1, false, false),
                        &never,
                        None,
                    );
                    if queued == Ok(false) {
                        places[0].locks.refuse_circles(session);
                    }
                }
                if at == 0 || waits {
                    let wanted = request(1, false, false);
                    let taken = take_as_task(&places[at], session, wanted, &never, None);
                    match taken.expect("it stays") {
                        Ok(()) => {}
                        Err(error) => {
                            assert_eq!((error, at), (AdvisoryError::Deadlock, 0));
                            break;
                        }
                    }
                }
            }
            places.iter().for_each(|place| place.locks.release(session));
        }) as Box<dyn FnOnce() + Send>
    };
    all(vec![run(1, 0), run(2, 1)]);
    places.iter().for_each(|place| assert_quiet(place));
}

#[test]
fn circles_through_other_waits_end() {
    check(kinds_are_taken_in_both_orders);
}

#[test]
fn canary_looking_for_circles_too_early_is_caught() {
    check_canary(planted::CIRCLE_BEFORE_QUEUE, kinds_are_taken_in_both_orders);
}
