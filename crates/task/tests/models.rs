//! Queue, park and wake, reclamation, group counts, abort and the change of synchronisation under
//! the model checker: whole runtimes, of real workers, under many schedules.
//!
//! ```sh
//! RUSTFLAGS='--cfg shuttle' cargo test -p halcyon-task --test models --target-dir target/shuttle
//! ```
//!
//! `halcyon_base::model` has the schedules; `--features checked-slots` runs the safe twin of slots and
//! inboxes. Canaries: with a bug planted (`halcyon_task::planted`) the same models must fail.

#![cfg(shuttle)]

use halcyon_base::model::Check;
use halcyon_base::planted::Bug;
use halcyon_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use halcyon_base::sync::{Arc, Mutex, thread};
use halcyon_task::{
    Access, Annotation, CacheUse, ClassId, Config, Context, GroupError, IslandId, Locality,
    Morsels, Owned, Priority, Pull, Resource, Runtime, Shutdown, Step, Synchronisation, Task,
    TaskPlace, WorkerConfig, WorkerId, WorkerKind, planted,
};
use std::future::Future;
use std::task::{Poll, Waker};
use std::time::Duration;

/// Workers that look for work again and again make long schedules.
const STEPS: usize = 50_000;

fn check(model: impl Fn() + Send + Sync + 'static) {
    Check::new(150).step_limit(STEPS).run(model);
}

fn check_canary(bug: Bug, model: impl Fn() + Send + Sync + 'static) {
    Check::new(150).step_limit(STEPS).canary(bug, model);
}

fn runtime(workers: usize) -> Runtime {
    let mut config = Config::shared(workers);
    config.run_delay_per_mille = 0;
    Runtime::new(config).expect("model threads can be started")
}

fn at(worker: u16) -> Annotation {
    Annotation::new().place(TaskPlace::Worker(WorkerId(worker)))
}

/// Two threads push to one worker, which parks between; every task runs, and the end is reached.
fn pushes_reach_a_worker_that_parks() {
    let runtime = Arc::new(runtime(1));
    let ran = Arc::new(AtomicU64::new(0));
    let pushers: Vec<_> = (0..2)
        .map(|_| {
            let (runtime, ran) = (Arc::clone(&runtime), Arc::clone(&ran));
            thread::spawn(move || {
                for _ in 0..2 {
                    let ran = Arc::clone(&ran);
                    let count = move |_: &mut Context| {
                        ran.fetch_add(1, Ordering::SeqCst);
                    };
                    runtime.spawn(Annotation::new(), count).expect("the runtime runs");
                }
            })
        })
        .collect();
    pushers.into_iter().for_each(|pusher| pusher.join().expect("it does not panic"));
    // Waits by parking: a wake that got lost is a deadlock, which the checker reports.
    let last = runtime.submit(Annotation::new(), |_: &mut Context| ()).expect("it runs");
    last.wait().expect("it has a result");
    Arc::into_inner(runtime).expect("the pushers have ended").shutdown(Shutdown::Drain);
    assert_eq!(ran.load(Ordering::SeqCst), 4);
}

#[test]
fn no_push_and_no_wake_is_lost() {
    check(pushes_reach_a_worker_that_parks);
}

#[test]
fn canary_parking_without_a_second_look_is_caught() {
    check_canary(planted::NO_SECOND_LOOK, pushes_reach_a_worker_that_parks);
}

#[test]
fn canary_lost_link_is_caught() {
    check_canary(planted::LOST_LINK, pushes_reach_a_worker_that_parks);
}

/// A task that goes to and fro between two workers, in the slot it was pushed in.
fn wanderers_keep_their_slots() {
    struct Wanderer(u32, Arc<AtomicU64>);
    impl Task for Wanderer {
        fn run(&mut self, cx: &mut Context) -> Step {
            self.1.fetch_add(1, Ordering::SeqCst);
            self.0 -= 1;
            if self.0 == 0 { Step::Done } else { Step::Again(at(1 - cx.worker().0)) }
        }
    }
    let runtime = runtime(2);
    let steps = Arc::new(AtomicU64::new(0));
    let mut group = runtime.group();
    for worker in [0, 1, 0] {
        group.step_task(at(worker), Wanderer(3, Arc::clone(&steps)));
    }
    group.enqueue(Locality::Spread).expect("it runs").wait().expect("no task panics");
    runtime.shutdown(Shutdown::Drain);
    assert_eq!(steps.load(Ordering::SeqCst), 9);
}

#[test]
fn tasks_wander_between_workers_in_their_slots() {
    check(wanderers_keep_their_slots);
}

#[cfg(not(feature = "checked-slots"))]
#[test]
fn canary_linking_the_dummy_of_an_inbox_is_caught() {
    check_canary(planted::LINKED_DUMMY, wanderers_keep_their_slots);
}

/// A group has ended only when every task that its tasks sent elsewhere has ended.
fn group_waits_for_what_was_sent_away() {
    let runtime = runtime(2);
    let ran = Arc::new(AtomicU64::new(0));
    let mut group = runtime.group();
    let counted = Arc::clone(&ran);
    group.task(at(0), move |cx: &mut Context| {
        for _ in 0..2 {
            let counted = Arc::clone(&counted);
            cx.spawn(at(1), move |_: &mut Context| {
                counted.fetch_add(1, Ordering::SeqCst);
            });
        }
    });
    group.enqueue(Locality::Spread).expect("it runs").wait().expect("no task panics");
    assert_eq!(ran.load(Ordering::SeqCst), 2);
    runtime.shutdown(Shutdown::Drain);
}

#[test]
fn group_ends_after_its_last_task() {
    check(group_waits_for_what_was_sent_away);
}

/// What a task counts late is missed only if the worker it was sent to is faster than its spawner.
#[test]
fn canary_count_after_the_push_is_caught() {
    check_canary(planted::LATE_COUNT, group_waits_for_what_was_sent_away);
}

#[test]
fn aborted_group_ends_and_drops_every_task() {
    check(|| {
        let runtime = runtime(2);
        let token = Arc::new(());
        let mut group = runtime.group();
        for worker in [0, 1, 1] {
            let token = Arc::clone(&token);
            group.task(at(worker), move |cx: &mut Context| {
                let held = Arc::clone(&token);
                cx.spawn(at(1 - worker), move |_: &mut Context| drop(held));
            });
        }
        let running = group.enqueue(Locality::Spread).expect("it runs");
        running.abort();
        let outcome = running.wait();
        assert_eq!(outcome, Err(GroupError::Aborted));
        runtime.shutdown(Shutdown::Drain);
        assert_eq!(Arc::strong_count(&token), 1);
    });
}

#[test]
fn shutdown_that_aborts_drops_every_task() {
    check(|| {
        let runtime = runtime(2);
        let token = Arc::new(());
        for worker in [0, 1, 0] {
            let token = Arc::clone(&token);
            let sends = move |cx: &mut Context| cx.spawn(at(1 - worker), move |_| drop(token));
            runtime.spawn(at(worker), sends).expect("it runs");
        }
        runtime.shutdown(Shutdown::Abort);
        assert_eq!(Arc::strong_count(&token), 1);
    });
}

/// Tells when it is dropped.
struct Watched(Arc<AtomicBool>);

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A task that waits carries a reference to what another one retires.
fn carried_reference_stays_valid() {
    struct Carrier(u32, Arc<AtomicBool>, Annotation);
    impl Task for Carrier {
        fn run(&mut self, cx: &mut Context) -> Step {
            assert!(!self.1.load(Ordering::SeqCst), "what it refers to was dropped");
            self.0 -= 1;
            let next = self.2.place(TaskPlace::Worker(WorkerId(1 - cx.worker().0)));
            if self.0 == 0 { Step::Done } else { Step::Again(next) }
        }
    }
    let runtime = runtime(2);
    let dropped = Arc::new(AtomicBool::new(false));
    let carries = Annotation::new().carries_references(true);
    let mut group = runtime.group();
    let (seen, watched) = (Arc::clone(&dropped), Watched(Arc::clone(&dropped)));
    // Reads the reference, sends it on, and only then unlinks and retires what it refers to.
    group.task(at(0), move |cx: &mut Context| {
        cx.spawn_task(carries.place(TaskPlace::Worker(WorkerId(1))), Carrier(4, seen, carries));
        cx.retire(Box::new(watched));
    });
    group.enqueue(Locality::Spread).expect("it runs").wait().expect("nothing was dropped early");
    runtime.shutdown(Shutdown::Drain);
    assert!(dropped.load(Ordering::SeqCst), "what was retired is dropped in the end");
}

#[test]
fn retired_memory_waits_for_tasks_that_refer_to_it() {
    check(carried_reference_stays_valid);
}

#[test]
fn canary_epoch_that_ignores_tasks_is_caught() {
    check_canary(planted::EPOCH_IGNORES_TASKS, carried_reference_stays_valid);
}

/// Notes that it is alone with the resource, for a while if it is away from home.
struct Writer {
    left: u32,
    cell: Arc<Owned<()>>,
    inside: Arc<AtomicU64>,
}

impl Task for Writer {
    fn run(&mut self, cx: &mut Context) -> Step {
        let resource = self.cell.resource();
        let away = cx.worker() != resource.home();
        let value = self.cell.get(cx);
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two writers at once");
        (0..if away { 40 } else { 1 }).for_each(|_| thread::yield_now());
        self.inside.fetch_sub(1, Ordering::SeqCst);
        drop(value);
        self.left -= 1;
        // Another band each time: a turn ends, and with it a measurement.
        let band = if self.left % 2 == 0 { Priority::High } else { Priority::Normal };
        let again = Annotation::new().on(resource, Access::Write).priority(band);
        if self.left == 0 { Step::Done } else { Step::Again(again) }
    }
}

/// A worker is preempted, latches its resource, and comes back, while both workers write it.
fn resource_changes_its_synchronisation() {
    let mut config = Config::shared(2);
    config.run_delay_period = Duration::ZERO;
    let runtime = Runtime::new(config).expect("model threads can be started");
    let home = WorkerId(0);
    let resource = Resource::new(home, Synchronisation::Scheduling);
    let cell = Arc::new(runtime.own(resource, ()));
    let inside = Arc::new(AtomicU64::new(0));
    let mut group = runtime.group();
    for (worker, left) in [(0, 16), (1, 1), (1, 1), (1, 1)] {
        let writer = Writer { left, cell: Arc::clone(&cell), inside: Arc::clone(&inside) };
        group.task(at(worker), move |cx: &mut Context| {
            cx.spawn_task(Annotation::new().on(resource, Access::Write), writer);
        });
    }
    runtime.preempt(home, Duration::from_millis(4));
    group.enqueue(Locality::Spread).expect("it runs").wait().expect("writers exclude each other");
    runtime.shutdown(Shutdown::Drain);
}

#[test]
fn writers_exclude_each_other_while_the_synchronisation_changes() {
    check(resource_changes_its_synchronisation);
}

#[test]
fn canary_change_without_draining_is_caught() {
    check_canary(planted::NO_DRAIN, resource_changes_its_synchronisation);
}

/// Something that happens once, and a future that waits for it.
#[derive(Default)]
struct Event(Mutex<(bool, Option<Waker>)>);

impl Event {
    fn happen(&self) {
        let mut state = self.0.lock();
        state.0 = true;
        let waker = state.1.clone();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    async fn wait(self: Arc<Self>) {
        std::future::poll_fn(|polled| {
            let mut state = self.0.lock();
            if state.0 {
                return Poll::Ready(());
            }
            state.1 = Some(polled.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// A future waits for what a thread outside does.
fn future_is_woken_from_outside() {
    let runtime = runtime(2);
    let event = Arc::new(Event::default());
    let handle = runtime.spawn_future(Annotation::new(), Arc::clone(&event).wait());
    let handle = handle.expect("there are credits");
    let happens = thread::spawn(move || event.happen());
    // Waits by parking: a wake-up that got lost is a deadlock, which the checker reports.
    handle.wait().expect("it ends");
    happens.join().expect("it does not panic");
    runtime.shutdown(Shutdown::Drain);
}

#[test]
fn wake_up_is_never_lost() {
    check(future_is_woken_from_outside);
}

#[test]
fn canary_sleep_through_a_wake_up_is_caught() {
    check_canary(planted::SLEEP_THROUGH_WAKE, future_is_woken_from_outside);
}

/// Two threads wake a task twice each; it ends once its counts say so.
fn task_has_two_wakers() {
    let runtime = runtime(2);
    let (count, waker) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(None::<Waker>)));
    let (counted, given) = (Arc::clone(&count), Arc::clone(&waker));
    let waits = std::future::poll_fn(move |polled| {
        *given.lock() = Some(polled.waker().clone());
        if counted.load(Ordering::SeqCst) == 2 { Poll::Ready(()) } else { Poll::Pending }
    });
    let handle = runtime.spawn_future(Annotation::new(), waits).expect("there are credits");
    let wakers: Vec<_> = (0..2)
        .map(|_| {
            let (count, waker) = (Arc::clone(&count), Arc::clone(&waker));
            thread::spawn(move || {
                count.fetch_add(1, Ordering::SeqCst);
                let waker = waker.lock().clone();
                waker.into_iter().for_each(Waker::wake);
            })
        })
        .collect();
    handle.wait().expect("it ends");
    wakers.into_iter().for_each(|waker| waker.join().expect("it does not panic"));
    runtime.shutdown(Shutdown::Drain);
}

#[test]
fn two_wakers_wake_a_task_once() {
    check(task_has_two_wakers);
}

#[test]
fn canary_two_winners_of_a_wake_up_are_caught() {
    check_canary(planted::WOKEN_TWICE, task_has_two_wakers);
}

/// A group whose task waits for ever is aborted, at any moment.
fn sleeping_group_is_aborted() {
    let runtime = runtime(2);
    let token = Arc::new(());
    let held = Arc::clone(&token);
    let mut group = runtime.group();
    group.future(at(0), async move {
        std::future::pending::<()>().await;
        drop(held);
    });
    let running = group.enqueue(Locality::Spread).expect("it runs");
    running.abort();
    assert_eq!(running.wait(), Err(GroupError::Aborted));
    runtime.shutdown(Shutdown::Drain);
    assert_eq!(Arc::strong_count(&token), 1);
}

#[test]
fn aborted_group_wakes_its_sleepers() {
    check(sleeping_group_is_aborted);
}

#[test]
fn canary_sleep_through_an_abort_is_caught() {
    check_canary(planted::SLEEP_THROUGH_STOP, sleeping_group_is_aborted);
}

#[test]
fn shutdown_that_aborts_drops_sleeping_tasks() {
    check(|| {
        let runtime = runtime(2);
        let token = Arc::new(());
        let held = Arc::clone(&token);
        let spawned = runtime.spawn_future(at(1), async move {
            std::future::pending::<()>().await;
            drop(held);
        });
        let handle = spawned.expect("there are credits");
        let cancels = runtime.spawn_future(at(0), std::future::pending::<()>());
        cancels.expect("there are credits").cancel();
        runtime.shutdown(Shutdown::Abort);
        assert!(handle.wait().is_err());
        assert_eq!(Arc::strong_count(&token), 1);
    });
}

/// A task spawns a future, which sleeps and ends elsewhere, while the task itself goes on.
fn sleeper_ends_before_its_spawner() {
    struct Spawner(u32, Arc<Event>, Arc<AtomicBool>);
    impl Task for Spawner {
        fn run(&mut self, cx: &mut Context) -> Step {
            if self.0 == 4 {
                cx.spawn_future(Annotation::new(), Arc::clone(&self.1).wait());
            }
            self.0 -= 1;
            if self.0 < 3 {
                (0..40).for_each(|_| thread::yield_now());
            }
            self.2.store(self.0 == 0, Ordering::SeqCst);
            if self.0 == 0 { Step::Done } else { Step::Again(Annotation::new()) }
        }
    }
    let runtime = runtime(2);
    let (event, ended) = (Arc::new(Event::default()), Arc::new(AtomicBool::new(false)));
    let mut group = runtime.group();
    // Counts reach the group between chunks of tasks, which these three make longer.
    (0..3).for_each(|_| group.task(at(0), |_: &mut Context| ()));
    group.step_task(at(0), Spawner(4, Arc::clone(&event), Arc::clone(&ended)));
    let running = group.enqueue(Locality::Spread).expect("it runs");
    let happens = thread::spawn(move || event.happen());
    running.wait().expect("no task panics");
    assert!(ended.load(Ordering::SeqCst), "the group ended before its task");
    happens.join().expect("it does not panic");
    runtime.shutdown(Shutdown::Drain);
}

#[test]
fn group_counts_tasks_that_sleep() {
    check(sleeper_ends_before_its_spawner);
}

#[test]
fn canary_sleeper_that_is_not_counted_is_caught() {
    check_canary(planted::SLEEPS_UNCOUNTED, sleeper_ends_before_its_spawner);
}

/// A future sleeps until a deadline that is set while the workers park.
fn deadline_is_set_while_workers_park() {
    let runtime = runtime(2);
    let timer = runtime.timer();
    let (first, second) = (timer.clone(), timer);
    let sleeps = async move { first.sleep(Duration::from_secs(1)).await };
    let handle = runtime.spawn_future(Annotation::new(), sleeps).expect("there are credits");
    // Sets a deadline from outside, while both workers may be parked.
    runtime.block_on(second.sleep(Duration::from_secs(2))).expect("it is no simulation");
    handle.wait().expect("it wakes");
    runtime.shutdown(Shutdown::Drain);
}

#[test]
fn deadline_passes_while_workers_park() {
    check(deadline_is_set_while_workers_park);
}

#[test]
fn canary_parking_without_a_keeper_is_caught() {
    check_canary(planted::NO_KEEPER, deadline_is_set_while_workers_park);
}

/// A runtime with one credit for class 0.
fn one_credit() -> Runtime {
    let mut config = Config::shared(1);
    config.run_delay_per_mille = 0;
    config.credits[0] = 1;
    Runtime::new(config).expect("model threads can be started")
}

/// Three threads want the one credit; each gets it in the end, and it is held once at a time.
fn threads_line_up() {
    let runtime = Arc::new(one_credit());
    let held = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (runtime, held) = (Arc::clone(&runtime), Arc::clone(&held));
            thread::spawn(move || {
                let admitted = runtime.block_on(runtime.admit(ClassId(0)));
                let credit = admitted.expect("it is no simulation").expect("it runs");
                assert_eq!(held.fetch_add(1, Ordering::SeqCst), 0, "two hold the one credit");
                held.fetch_sub(1, Ordering::SeqCst);
                drop(credit);
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("it gets the credit"));
    Arc::into_inner(runtime).expect("the threads have ended").shutdown(Shutdown::Drain);
}

#[test]
fn credits_are_given_in_order() {
    check(threads_line_up);
}

#[test]
fn canary_line_without_a_look_is_caught() {
    check_canary(planted::NO_LOOK_IN_LINE, threads_line_up);
}

/// One waits and leaves while the credit comes back; the next one still gets it.
fn waiter_leaves() {
    let runtime = Arc::new(one_credit());
    let admitted = runtime.block_on(runtime.admit(ClassId(0)));
    let credit = admitted.expect("it is no simulation").expect("it runs");
    let mut leaves = Box::pin(runtime.admit(ClassId(0)));
    let polled = leaves.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    let gives = thread::spawn(move || drop(credit));
    drop(leaves);
    let next = runtime.block_on(runtime.admit(ClassId(0)));
    drop(next.expect("it is no simulation").expect("it runs"));
    gives.join().expect("it does not panic");
    Arc::into_inner(runtime).expect("the threads have ended").shutdown(Shutdown::Drain);
}

#[test]
fn credit_of_who_left_is_given_on() {
    check(waiter_leaves);
}

#[test]
fn canary_credit_that_leaves_with_its_waiter_is_caught() {
    check_canary(planted::CREDIT_LOST, waiter_leaves);
}

/// Tasks of a group that may use one worker at once, on two; and what follows the group.
fn limited_group() {
    let runtime = runtime(2);
    let (inside, then) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut group = runtime.group();
    group.limit(1);
    for worker in [0, 1, 1, 0] {
        let inside = Arc::clone(&inside);
        group.task(at(worker), move |_: &mut Context| {
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two workers at once");
            thread::yield_now();
            inside.fetch_sub(1, Ordering::SeqCst);
        });
    }
    let follows = Arc::clone(&then);
    group.then(at(0), move |_: &mut Context, outcome: Result<(), GroupError>| {
        assert_eq!(outcome, Ok(()));
        follows.fetch_add(1, Ordering::SeqCst);
    });
    group.enqueue(Locality::Spread).expect("it runs").wait().expect("one at a time");
    runtime.shutdown(Shutdown::Drain);
    assert_eq!(then.load(Ordering::SeqCst), 1, "what follows runs before the runtime ends");
}

#[test]
fn limited_group_keeps_its_limit() {
    check(limited_group);
}

#[test]
fn canary_limit_that_is_not_looked_at_is_caught() {
    check_canary(planted::LIMIT_IGNORED, limited_group);
    check_canary(planted::LIMIT_IGNORED, quota_of_groups);
    check_canary(planted::STOPPED_RUNS, quota_of_groups);
}

/// A task that goes on until its group has been moved.
struct UntilMoved;

impl Task for UntilMoved {
    fn run(&mut self, cx: &mut Context) -> Step {
        let annotation = cx.annotation();
        match annotation.priority(Priority::Urgent).class(ClassId(3)) == annotation {
            true => Step::Done,
            false => Step::Again(annotation),
        }
    }
}

/// A group that is moved while its tasks are queued, run, and are on their way to another worker.
fn moved_group() {
    let runtime = runtime(2);
    let mut group = runtime.group();
    for worker in [0, 1] {
        group.step_task(at(worker).priority(Priority::Low), UntilMoved);
    }
    let running = group.enqueue(Locality::Spread).expect("it runs");
    running.move_to(Priority::Urgent, ClassId(3));
    running.wait().expect("every task comes to the new band");
    runtime.shutdown(Shutdown::Drain);
}

#[test]
fn tasks_of_a_group_that_is_moved_come_to_the_new_band() {
    check(moved_group);
}

#[test]
fn canary_a_move_that_queues_do_not_follow_is_caught() {
    check_canary(planted::MOVE_UNSEEN, moved_group);
}

/// Two groups that share one worker's time on two, one of which is stopped while the other goes on.
fn quota_of_groups() {
    let runtime = runtime(2);
    let quota = runtime.quota(1);
    let inside = Arc::new(AtomicU64::new(0));
    let start = |workers: &[u16]| {
        let mut group = runtime.group();
        group.under(&quota);
        for &worker in workers {
            let inside = Arc::clone(&inside);
            group.task(at(worker), move |_: &mut Context| {
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two workers at once");
                thread::yield_now();
                inside.fetch_sub(1, Ordering::SeqCst);
            });
        }
        group.enqueue(Locality::Spread).expect("it runs")
    };
    let (stopped, goes_on) = (start(&[0, 1]), start(&[1, 0]));
    stopped.abort();
    drop(stopped);
    goes_on.wait().expect("a place comes for every task");
    drop(quota);
    runtime.shutdown(Shutdown::Drain);
}

#[test]
fn groups_share_a_quota() {
    check(quota_of_groups);
}

/// A group that pollutes the cache, on an island of which it may have one worker and on another one.
fn polluters_of_an_island() {
    let worker =
        |island| WorkerConfig { kind: WorkerKind::Shared, cpus: vec![], island: IslandId(island) };
    let mut config = Config::new(vec![worker(0), worker(0), worker(1)]);
    config.run_delay_per_mille = 0;
    let runtime = Runtime::new(config).expect("model threads can be started");
    runtime.limit_polluters(IslandId(0), 1);
    let inside = Arc::new(AtomicU64::new(0));
    let mut group = runtime.group();
    group.cache(CacheUse::Polluting);
    for worker in [0, 1, 2, 1] {
        let inside = Arc::clone(&inside);
        group.task(at(worker), move |cx: &mut Context| {
            if cx.island() == IslandId(0) {
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two workers at once");
                thread::yield_now();
                inside.fetch_sub(1, Ordering::SeqCst);
            }
        });
    }
    let running = group.enqueue(Locality::Spread).expect("it runs");
    running.wait().expect("a place comes for every task");
    runtime.shutdown(Shutdown::Drain);
}

#[test]
fn polluters_run_on_as_many_workers_of_an_island_as_they_may() {
    check(polluters_of_an_island);
}

#[test]
fn canary_polluters_beyond_their_limit_are_caught() {
    check_canary(planted::LIMIT_IGNORED, polluters_of_an_island);
}

#[test]
fn a_running_group_comes_under_another_quota() {
    check(|| {
        let runtime = runtime(2);
        let (first, second) = (runtime.quota(1), runtime.quota(1));
        let done = Arc::new(AtomicU64::new(0));
        let mut group = runtime.group();
        group.under(&first);
        for worker in [0, 1, 1] {
            let done = Arc::clone(&done);
            group.task(at(worker), move |_: &mut Context| {
                thread::yield_now();
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        let running = group.enqueue(Locality::Spread).expect("it runs");
        running.under(std::slice::from_ref(&second));
        drop((first, second));
        running.wait().expect("all run");
        runtime.shutdown(Shutdown::Drain);
        assert_eq!(done.load(Ordering::SeqCst), 3);
    });
}

#[test]
fn tasks_that_wait_run_when_a_quota_grows_or_goes() {
    check(|| {
        let runtime = runtime(2);
        let (own, common) = (runtime.quota(1), runtime.quota(2));
        let done = Arc::new(AtomicU64::new(0));
        let mut group = runtime.group();
        group.under(&own);
        group.under(&common);
        for worker in [0, 1, 1] {
            let done = Arc::clone(&done);
            group.task(at(worker), move |_: &mut Context| {
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        let running = group.enqueue(Locality::Spread).expect("it runs");
        let changes = thread::spawn(move || {
            common.set(1);
            own.set(2);
            drop(own);
        });
        running.wait().expect("all run");
        changes.join().expect("ends");
        runtime.shutdown(Shutdown::Drain);
        assert_eq!(done.load(Ordering::SeqCst), 3);
    });
}

#[test]
fn aborted_group_drops_tasks_that_wait_for_their_turn() {
    check(|| {
        let runtime = runtime(2);
        let token = Arc::new(());
        let mut group = runtime.group();
        group.limit(1);
        for worker in [0, 1, 1] {
            let token = Arc::clone(&token);
            group.task(at(worker), move |_: &mut Context| drop(token));
        }
        let running = group.enqueue(Locality::Spread).expect("it runs");
        running.abort();
        let _ = running.wait();
        runtime.shutdown(Shutdown::Drain);
        assert_eq!(Arc::strong_count(&token), 1);
    });
}

/// A source that is empty between two morsels, and filled from outside.
#[derive(Default)]
struct Trickle {
    state: Mutex<(u64, bool, Vec<Waker>)>,
    worked: AtomicU64,
}

impl Trickle {
    fn put(&self, morsels: u64, last: bool) {
        let mut state = self.state.lock();
        (state.0, state.1) = (state.0 + morsels, last);
        let wakers = std::mem::take(&mut state.2);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Morsels for Trickle {
    fn run(&self, _worker: WorkerId, cx: &mut Context) -> Pull {
        let mut state = self.state.lock();
        if state.0 == 0 {
            if state.1 {
                return Pull::End;
            }
            state.2.extend(cx.waker());
            return Pull::Empty;
        }
        state.0 -= 1;
        drop(state);
        self.worked.fetch_add(1, Ordering::SeqCst);
        Pull::More
    }
}

#[test]
fn workers_come_back_to_a_source_that_was_empty() {
    check(|| {
        let runtime = runtime(2);
        let source = Arc::new(Trickle::default());
        let mut group = runtime.group();
        group.pull(Annotation::new(), Arc::clone(&source));
        let running = group.enqueue(Locality::OneIsland).expect("it runs");
        let filled = Arc::clone(&source);
        let fills = thread::spawn(move || {
            filled.put(1, false);
            filled.put(2, true);
        });
        running.wait().expect("no morsel panics");
        fills.join().expect("it does not panic");
        runtime.shutdown(Shutdown::Drain);
        assert_eq!(source.worked.load(Ordering::SeqCst), 3);
    });
}

/// Two tasks await work that blocks, which one thread does.
fn tasks_await_work_that_blocks() {
    let mut config = Config::shared(1);
    (config.run_delay_per_mille, config.blocking) = (0, 1);
    let runtime = Runtime::new(config).expect("model threads can be started");
    let awaited: Vec<_> = (0..2u64)
        .map(|number| {
            let blocking = runtime.blocking();
            let awaits = async move {
                let work = blocking.run(move || number).expect("a thread can be started");
                work.await.expect("it does not panic")
            };
            runtime.spawn_future(Annotation::new(), awaits).expect("there are credits")
        })
        .collect();
    let results: Vec<_> = awaited.into_iter().map(|handle| handle.wait()).collect();
    assert_eq!(results, [Ok(0), Ok(1)]);
    runtime.shutdown(Shutdown::Drain);
}

#[test]
fn offloaded_work_runs_and_wakes_its_task() {
    check(tasks_await_work_that_blocks);
}

#[test]
fn canary_work_without_a_thread_is_caught() {
    check_canary(planted::NOBODY_SERVES, tasks_await_work_that_blocks);
}

/// A worker is taken away while tasks are pushed to it, and comes back.
fn worker_is_taken_away() {
    let runtime = Arc::new(runtime(2));
    let ran = Arc::new(AtomicU64::new(0));
    let (pushes, counted) = (Arc::clone(&runtime), Arc::clone(&ran));
    let pusher = thread::spawn(move || {
        for _ in 0..3 {
            let counted = Arc::clone(&counted);
            let count = move |_: &mut Context| {
                counted.fetch_add(1, Ordering::SeqCst);
            };
            pushes.spawn(at(1), count).expect("it runs");
        }
    });
    runtime.remove_worker(WorkerId(1)).expect("another one is there");
    let there = runtime.submit(at(1), |cx: &mut Context| cx.worker()).expect("it runs");
    there.wait().expect("it runs on another worker");
    pusher.join().expect("it does not panic");
    runtime.add_worker(WorkerId(1)).expect("a thread can be started");
    runtime.submit(at(1), |_: &mut Context| ()).expect("it runs").wait().expect("it has a result");
    Arc::into_inner(runtime).expect("the pusher has ended").shutdown(Shutdown::Drain);
    assert_eq!(ran.load(Ordering::SeqCst), 3);
}

#[test]
fn worker_leaves_while_tasks_are_pushed_to_it() {
    check(worker_is_taken_away);
}

#[test]
fn canary_leaving_without_a_second_look_is_caught() {
    check_canary(planted::LEAVES_UNSEEN, worker_is_taken_away);
}

/// A guest and the tasks of a worker, of which one computes at a time.
fn guest_takes_turns() {
    let runtime = runtime(1);
    let computes = Arc::new(AtomicBool::new(false));
    let guest = runtime.group().guest(Annotation::new(), Locality::Spread, false);
    let mut guest = guest.expect("it runs").expect("there are threads");
    let mut group = runtime.group();
    for _ in 0..2 {
        let computes = Arc::clone(&computes);
        group.task(at(0), move |_: &mut Context| {
            assert!(!computes.swap(true, Ordering::SeqCst), "a guest computes beside the worker");
            thread::yield_now();
            computes.store(false, Ordering::SeqCst);
        });
    }
    let running = group.enqueue(Locality::Spread).expect("it runs");
    for _ in 0..2 {
        // A worker that hears of nobody is a deadlock, which the checker reports.
        guest.pause(|| false);
        assert!(
            !computes.swap(true, Ordering::SeqCst),
            "a worker works on a processor it has lent"
        );
        thread::yield_now();
        computes.store(false, Ordering::SeqCst);
    }
    drop(guest);
    running.wait().expect("the worker has its processor back");
    runtime.shutdown(Shutdown::Drain);
}

/// A guest whose group is aborted while it asks or computes.
fn stopped_guest_goes_on() {
    let runtime = runtime(1);
    let guest = runtime.group().guest(Annotation::new(), Locality::Spread, true);
    let mut guest = guest.expect("it runs").expect("there are threads");
    let group = guest.group().clone();
    let stops = thread::spawn(move || group.abort());
    for _ in 0..2 {
        guest.pause(|| false);
    }
    stops.join().expect("it does not panic");
    guest.rest();
    drop(guest);
    runtime.shutdown(Shutdown::Abort);
}

#[test]
fn guest_and_worker_take_turns() {
    check(guest_takes_turns);
    check(stopped_guest_goes_on);
}

#[test]
fn canary_guests_that_nobody_hears_or_sleeps_for_are_caught() {
    check_canary(planted::UNHEARD_GUEST, guest_takes_turns);
    check_canary(planted::LENDS_WITHOUT_SLEEP, guest_takes_turns);
}
