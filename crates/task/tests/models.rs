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
use halcyon_base::sync::{Arc, thread};
use halcyon_task::{
    Access, Annotation, Config, Context, GroupError, Locality, Owned, Priority, Resource, Runtime,
    Shutdown, Step, Synchronisation, Task, TaskPlace, WorkerId, planted,
};
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
