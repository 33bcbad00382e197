//! Models of followers that wait without a thread.
//!
//! Strategy: followers poll with the waker of their thread ([`parking`]) and park, while others publish changes and
//! end the feed. A follower that nobody wakes parks for ever, which shuttle calls a deadlock. Canaries: with a bug
//! planted ([`planted`]) a model must fail.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use halcyon_base::model::Check;
use halcyon_base::parking;
use halcyon_base::planted::Bug;
use halcyon_base::sync::thread;
use halcyon_store::Value;
use shuttle::rand::Rng as _;

use super::{FeedNews, Follower, RowDelta, ViewFeed};
use crate::planted;

/// Longer than any model: a wait that does not end by time.
const HOUR: Duration = Duration::from_secs(3600);

fn check(model: impl Fn() + Send + Sync + 'static) {
    Check::new(600).run(model);
}

fn check_canary(bug: Bug, model: impl Fn() + Send + Sync + 'static) {
    Check::new(600).canary(bug, model);
}

fn publish(feed: &ViewFeed) {
    feed.publish(vec![RowDelta { old: None, new: Some(vec![Value::Int64(1)]) }]);
}

fn poll(follower: &mut Follower) -> Poll<()> {
    follower.poll_news(&mut Context::from_waker(&parking::waker()))
}

/// Parks until there is news.
fn wait(follower: &mut Follower) {
    while poll(follower).is_pending() {
        thread::park();
    }
}

/// The news after a wait; `parks`: the follower has no place among the threads that wait.
fn next(follower: &mut Follower, parks: bool) -> FeedNews {
    loop {
        if parks {
            wait(follower);
        }
        match follower.next(if parks { Duration::ZERO } else { HOUR }).expect("it is quick") {
            FeedNews::Nothing => assert!(!parks, "woken for nothing"),
            news => return news,
        }
    }
}

/// Three followers on threads of their own, of which one waits as a thread.
fn follow(feed: &Arc<ViewFeed>, run: fn(&mut Follower, bool)) -> Vec<thread::JoinHandle<()>> {
    let start = |parks| {
        let mut follower = Follower::behind(Arc::clone(feed), feed.follow());
        thread::spawn(move || run(&mut follower, parks))
    };
    [true, true, false].map(start).into()
}

fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

/// Two sessions change a view that three follow. Nothing else wakes who has missed the last change.
fn changes() {
    let feed = Arc::<ViewFeed>::default();
    let followers = follow(&feed, |follower, parks| {
        for position in 1..=2 {
            let FeedNews::Batch(batch) = next(follower, parks) else { panic!("no end has come") };
            assert_eq!(batch.position, position, "a change is missed, or comes twice");
        }
    });
    let change = |()| {
        let feed = Arc::clone(&feed);
        thread::spawn(move || publish(&feed))
    };
    join([(), ()].map(change).into_iter().chain(followers));
}

#[test]
fn no_change_is_missed() {
    check(changes);
}

#[test]
fn canary_a_waker_left_after_the_look_is_caught() {
    check_canary(planted::LATE_WAKER, changes);
}

#[test]
fn canary_a_change_told_before_it_is_kept_is_caught() {
    check_canary(planted::TOLD_BEFORE_KEPT, changes);
}

/// A view is dropped while three follow it.
fn an_end() {
    let feed = Arc::<ViewFeed>::default();
    let followers = follow(&feed, |follower, parks| {
        assert!(matches!(next(follower, parks), FeedNews::Gone));
        assert!(poll(follower).is_ready(), "no wait is begun behind the end");
    });
    feed.close();
    join(followers);
    assert!(feed.kept.lock().wakers.is_empty());
}

#[test]
fn no_end_is_missed() {
    check(an_end);
}

#[test]
fn canary_an_end_that_nobody_is_told_is_caught() {
    check_canary(planted::END_UNTOLD, an_end);
}

/// A follower looks on one thread and waits on another.
fn a_follower_moves() {
    let feed = Arc::<ViewFeed>::default();
    let mut follower = Follower::behind(Arc::clone(&feed), feed.follow());
    let changes = {
        let feed = Arc::clone(&feed);
        thread::spawn(move || publish(&feed))
    };
    let _ = poll(&mut follower);
    let waits = thread::spawn(move || wait(&mut follower));
    waits.join().expect("no panic");
    changes.join().expect("no panic");
}

#[test]
fn a_follower_is_woken_where_it_waits() {
    check(a_follower_moves);
}

#[test]
fn canary_the_waker_of_an_earlier_look_is_caught() {
    check_canary(planted::OLD_WAKER_KEPT, a_follower_moves);
}

/// One of two followers goes away, as it comes before or after a change.
fn a_follower_goes() {
    let feed = Arc::<ViewFeed>::default();
    let [mut goes, mut stays] =
        [(), ()].map(|()| Follower::behind(Arc::clone(&feed), feed.follow()));
    let changes = {
        let feed = Arc::clone(&feed);
        thread::spawn(move || publish(&feed))
    };
    let going = thread::spawn(move || {
        for _ in 0..shuttle::rand::thread_rng().gen_range(0..3) {
            if poll(&mut goes).is_ready() {
                goes.next(Duration::ZERO).expect("it is quick");
            }
        }
    });
    wait(&mut stays);
    going.join().expect("no panic");
    changes.join().expect("no panic");
    assert!(feed.kept.lock().wakers.is_empty(), "who is gone has left a waker");
}

#[test]
fn a_follower_that_goes_leaves_no_waker() {
    check(a_follower_goes);
}

#[test]
fn canary_a_waker_of_who_is_gone_is_caught() {
    check_canary(planted::WAKER_LEFT_BEHIND, a_follower_goes);
}
