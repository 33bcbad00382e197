//! The deterministic twin: same seed, same order; and what a schedule must never change.

#![cfg(not(shuttle))]

use halcyon_task::{
    Access, Annotation, CacheUse, ClassId, Closed, Config, Context, Elapsed, GroupError, IslandId,
    Locality, Part, Precision, Priority, RunningGroup, Runtime, SharesError, Shutdown, Step,
    Synchronisation, Task, TaskError, TaskPlace, WorkerConfig, WorkerId, WorkerKind, WorkerPart,
};
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

/// Seeds of a test that looks at several.
const SEEDS: u64 = if cfg!(miri) { 1 } else { 20 };
/// Tasks of a trace.
const NUMBERS: u32 = if cfg!(miri) { 100 } else { 1000 };

fn simulated(workers: usize, seed: u64) -> Runtime {
    Runtime::simulated(Config::shared(workers), seed).expect("the configuration is fine")
}

/// The order in which tasks of a branching, wandering load run.
fn trace(seed: u64) -> Vec<(u16, u32)> {
    fn wander(cx: &mut Context, number: u32, order: Arc<Mutex<Vec<(u16, u32)>>>) {
        order.lock().unwrap().push((cx.worker().0, number));
        if number < NUMBERS / 2 {
            let next = WorkerId((number % 3) as u16);
            for child in [2 * number, 2 * number + 1] {
                let order = Arc::clone(&order);
                cx.spawn(
                    Annotation::new().place(TaskPlace::Worker(next)),
                    move |cx: &mut Context| {
                        wander(cx, child, order);
                    },
                );
            }
        }
    }
    let runtime = simulated(3, seed);
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut group = runtime.group();
    let kept = Arc::clone(&order);
    group.task(Annotation::new(), move |cx: &mut Context| wander(cx, 1, kept));
    group.enqueue(Locality::Spread).expect("it runs").wait().expect("no task panics");
    drop(runtime);
    Arc::into_inner(order).expect("the runtime is gone").into_inner().unwrap()
}

#[test]
fn same_seed_gives_the_same_order_and_another_seed_another() {
    let first = trace(1);
    assert_eq!(first, trace(1));
    assert!((2..6).any(|seed| trace(seed) != first), "the seed decides nothing");
    for seed in 0..if cfg!(miri) { 1 } else { 20 } {
        let mut numbers: Vec<u32> = trace(seed).into_iter().map(|(_, number)| number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (1..NUMBERS).collect::<Vec<_>>(), "seed {seed}");
    }
}

#[test]
fn group_that_cannot_end_is_told_instead_of_waited_for() {
    let runtime = simulated(1, 1);
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let reply = runtime.submit(Annotation::new(), move |cx: &mut Context| {
        let mut inner = cx.group();
        inner.task(Annotation::new(), |_: &mut Context| ());
        drop(hold);
        inner
    });
    let inner = reply.expect("there are credits").wait().expect("it runs");
    held.recv().expect_err("the task has ended");
    assert_eq!(inner.enqueue(Locality::OneIsland).expect("it runs").wait(), Ok(()));
    let forever = runtime.submit(Annotation::new(), |_: &mut Context| -> u8 { panic!("planted") });
    assert_eq!(forever.expect("there are credits").wait(), Err(TaskError::Dropped));
    runtime.shutdown(Shutdown::Drain);
}

struct Adds {
    cell: Arc<halcyon_task::Owned<u64>>,
    left: u32,
}

impl Task for Adds {
    fn run(&mut self, cx: &mut Context) -> Step {
        *self.cell.get(cx) += 1;
        self.left -= 1;
        if self.left == 0 {
            return Step::Done;
        }
        Step::Again(Annotation::new().on(self.cell.resource(), Access::Write))
    }
}

/// A worker that is preempted latches its resources, tells so, and comes back when left alone.
#[test]
fn preempted_worker_leaves_synchronisation_by_scheduling_and_comes_back() {
    for seed in 0..if cfg!(miri) { 1 } else { 10 } {
        let mut config = Config::shared(2);
        config.run_delay_period = Duration::from_micros(200);
        let runtime = Runtime::simulated(config, seed).expect("the configuration is fine");
        let home = WorkerId(0);
        let resource = halcyon_task::Resource::new(home, Synchronisation::Scheduling);
        let cell = Arc::new(runtime.own(resource, 0));
        let add = |count: u32| {
            let mut group = runtime.group();
            for _ in 0..8 {
                let adds = Adds { cell: Arc::clone(&cell), left: count };
                let elsewhere = Annotation::new().place(TaskPlace::Worker(WorkerId(1)));
                group.task(elsewhere, move |cx: &mut Context| {
                    cx.spawn_task(Annotation::new().on(resource, Access::Write), adds);
                });
            }
            group.enqueue(Locality::Spread).expect("it runs").wait().expect("no task panics");
        };
        add(100);
        let before = runtime.counters();
        assert!(!before.workers[0].latched && before.workers[0].switches == 0);
        assert_eq!(before.workers[1].finished, 8, "only home adds");
        runtime.preempt(home, Duration::from_millis(4));
        let (mut switched, mut rounds) = (false, 0);
        while rounds < 20_000 && runtime.counters().workers[0].switches < 3 {
            add(20);
            rounds += 1;
            switched |= runtime.counters().workers[0].latched;
        }
        assert!(switched, "seed {seed}: the preempted worker kept its resources");
        let after = runtime.counters();
        assert!(after.workers[0].run_delay_ns >= 4_000_000);
        assert!(!after.workers[0].latched, "seed {seed}: it never came back");
        assert_eq!(after.workers[0].switches, 3, "latched, draining, scheduled");
        let placed = 8 * (1 + rounds);
        assert!(after.workers[1].finished > placed, "nobody else added meanwhile");
        runtime.shutdown(Shutdown::Drain);
        assert_eq!(Arc::into_inner(cell).unwrap().into_inner(), 8 * 100 + rounds * 8 * 20);
    }
}

#[test]
fn aborted_and_failed_groups_end_under_every_schedule() {
    for seed in 0..if cfg!(miri) { 2 } else { 50 } {
        let runtime = simulated(3, seed);
        let token = Arc::new(());
        let mut group = runtime.group();
        for number in 0..100u32 {
            let token = Arc::clone(&token);
            group.task(Annotation::new().priority(Priority::Low), move |_: &mut Context| {
                assert!(number != 17, "planted");
                drop(token);
            });
        }
        let failed = group.enqueue(Locality::Spread).expect("it runs").wait();
        assert_eq!(failed, Err(GroupError::Panicked("planted".to_owned())));
        assert_eq!(Arc::strong_count(&token), 1);
        let mut group = runtime.group();
        let counted = Arc::new(AtomicU64::new(0));
        for _ in 0..100 {
            let (token, counted) = (Arc::clone(&token), Arc::clone(&counted));
            group.task(Annotation::new(), move |_: &mut Context| {
                counted.fetch_add(1, Ordering::Relaxed);
                drop(token);
            });
        }
        let running = group.enqueue(Locality::Spread).expect("it runs");
        running.abort();
        assert_eq!(running.wait(), Err(GroupError::Aborted));
        assert_eq!((counted.load(Ordering::Relaxed), Arc::strong_count(&token)), (0, 1));
        runtime.shutdown(Shutdown::Drain);
    }
}

/// A task that goes on for ever and counts its steps.
struct Steps {
    time: Duration,
    steps: Arc<AtomicU64>,
    until: Arc<AtomicU64>,
}

impl Task for Steps {
    fn run(&mut self, cx: &mut Context) -> Step {
        cx.simulate_work(self.time);
        self.steps.fetch_add(1, Ordering::Relaxed);
        let left = self.until.fetch_sub(1, Ordering::Relaxed);
        if left <= 1 || left > 1 << 62 { Step::Done } else { Step::Again(cx.annotation()) }
    }
}

/// Runs `total` steps of one task per annotation, side by side; returns the steps of each.
fn side_by_side(
    runtime: &Runtime,
    tasks: &[(Annotation, Duration)],
    total: u64,
) -> (Vec<u64>, Duration) {
    let until = Arc::new(AtomicU64::new(total));
    let mut group = runtime.group();
    let steps: Vec<_> = tasks
        .iter()
        .map(|&(annotation, time)| {
            let steps = Arc::new(AtomicU64::new(0));
            let (counted, until) = (Arc::clone(&steps), Arc::clone(&until));
            group.step_task(annotation, Steps { time, steps: counted, until });
            steps
        })
        .collect();
    group.enqueue(Locality::Spread).expect("it runs").wait().expect("no task panics");
    let steps: Vec<u64> = steps.iter().map(|steps| steps.load(Ordering::Relaxed)).collect();
    let time = tasks.iter().zip(&steps).map(|((_, time), &steps)| *time * steps as u32).sum();
    (steps, time)
}

/// No band starves, however busy the bands above are and however long its own tasks take.
#[test]
fn every_band_keeps_its_floor_in_virtual_time() {
    let bands = [Priority::Urgent, Priority::High, Priority::Normal, Priority::Low];
    let total = if cfg!(miri) { 500 } else { 100_000 };
    for seed in 0..if cfg!(miri) { 1 } else { 5 } {
        for micros in [[5, 5, 5, 5], [5, 300, 5, 40], [300, 5, 5, 1]] {
            let runtime = simulated(1, seed);
            let times = micros.map(Duration::from_micros);
            let tasks: Vec<_> =
                bands.iter().zip(times).map(|(&b, t)| (Annotation::new().priority(b), t)).collect();
            let (steps, all) = side_by_side(&runtime, &tasks, total);
            for (band, (&steps, time)) in steps.iter().zip(times).enumerate() {
                let share = (time * steps as u32).as_secs_f64() / all.as_secs_f64();
                let least = if cfg!(miri) { 0.0 } else { 0.02 };
                assert!(share > least, "seed {seed}, {micros:?}: band {band} has {share}");
            }
            runtime.shutdown(Shutdown::Drain);
        }
    }
}

/// Weights of any of 64 classes hold, also when they are changed under way, and the counts by class
/// say so.
#[test]
fn weights_and_floors_change_while_the_runtime_runs() {
    let runtime = simulated(1, 7);
    let class = |class| Annotation::new().class(ClassId(class));
    let time = Duration::from_micros(10);
    let share = |tasks: &[(Annotation, Duration)]| {
        let (steps, _) = side_by_side(&runtime, tasks, 20_000);
        steps[1] as f64 / steps[0] as f64
    };
    let tasks = [(class(5), time), (class(63), time)];
    assert!((0.9..1.1).contains(&share(&tasks)), "weights are 1 at first");
    let mut shares = runtime.shares();
    shares.weights[63] = 4;
    runtime.set_shares(shares.clone()).expect("4 is a weight");
    let ratio = share(&tasks);
    assert!((3.7..4.3).contains(&ratio), "weights 4 and 1 gave {ratio}");
    shares.floors = [10, 10, 300];
    runtime.set_shares(shares.clone()).expect("320 per mille leave enough");
    let low = Annotation::new().priority(Priority::Low);
    let ratio = share(&[(Annotation::new(), time), (low, time)]);
    assert!((0.28..0.32).contains(&ratio), "a floor of 300 per mille gave {ratio}");
    shares.floors[0] = 0;
    assert_eq!(runtime.set_shares(shares), Err(SharesError::NoFloor(Priority::High)));
    let counters = runtime.counters();
    let of = |class| counters.class(ClassId(class));
    assert!(of(5).steps + of(63).steps >= 40_000 && of(9).steps == 0);
    let busy = of(63).busy_ns as f64 / of(63).steps as f64;
    assert!((10_000.0..10_300.0).contains(&busy), "{busy} ns a step of 10 us");
    assert!(of(63).longest_ns >= 10_000 && of(63).waits.count() > 100, "{:?}", of(63));
    assert!(of(5).waits.quantile_ns(0.5) >= 10_000, "it waits for at least one other step");
    runtime.shutdown(Shutdown::Drain);
}

/// Counts down in steps that let others run, if they have lasted for long enough.
async fn counts(steps: u64, most: Arc<AtomicU64>) -> u64 {
    let mut in_a_row = 0;
    for _ in 0..steps {
        let before = most.fetch_add(1, Ordering::Relaxed);
        halcyon_task::proceed().await;
        let alone = most.load(Ordering::Relaxed) == before + 1;
        in_a_row = if alone { in_a_row + 1 } else { 0 };
        assert!(in_a_row < 20_000, "it never lets others run");
    }
    steps
}

/// Futures take turns, wait for one another, are cancelled and fail, under every schedule.
#[test]
fn futures_end_with_their_results_under_every_schedule() {
    for seed in 0..if cfg!(miri) { 1 } else { 20 } {
        let runtime = simulated(3, seed);
        let most = Arc::new(AtomicU64::new(0));
        let steps = if cfg!(miri) { 200 } else { 10_000 };
        let one = runtime.spawn_future(Annotation::new(), counts(steps, Arc::clone(&most)));
        let other = runtime.spawn_future(Annotation::new(), counts(steps, most));
        let (one, other) = (one.expect("a credit"), other.expect("a credit"));
        let sum = runtime.spawn_future(Annotation::new().class(ClassId(3)), async move {
            one.await.expect("it ends") + other.await.expect("it ends")
        });
        assert_eq!(sum.expect("a credit").wait(), Ok(2 * steps), "seed {seed}");
        let endless = runtime.spawn_future(Annotation::new(), async {
            loop {
                halcyon_task::proceed().await;
            }
        });
        let endless = endless.expect("a credit");
        endless.cancel();
        assert_eq!(endless.wait(), Err(TaskError::Dropped));
        let fails = runtime.spawn_future(Annotation::new(), async { panic!("planted") });
        assert_eq!(fails.expect("a credit").wait(), Err(TaskError::Dropped));
        let stuck = runtime.spawn_future(Annotation::new(), std::future::pending::<()>());
        assert_eq!(stuck.expect("a credit").wait(), Err(TaskError::Stuck));
        let class = runtime.counters().class(ClassId(3));
        assert!(class.suspensions >= 1 && class.waits.count() >= 1, "{class:?}");
        runtime.shutdown(Shutdown::Abort);
    }
}

/// Deadlines pass in their order and in time, in virtual time; limits end what they limit.
#[test]
fn deadlines_pass_in_virtual_time_under_every_schedule() {
    for seed in 0..if cfg!(miri) { 1 } else { 20 } {
        let runtime = simulated(3, seed);
        let order = Arc::new(Mutex::new(Vec::new()));
        let handles: Vec<_> = (0..50u64)
            .map(|number| {
                let (timer, order) = (runtime.timer(), Arc::clone(&order));
                let precision = [Precision::Exact, Precision::Coarse][number as usize % 2];
                let ms = (number * 37) % 50 * 10;
                let sleeps = async move {
                    let deadline = timer.deadline(Duration::from_millis(ms));
                    timer.sleep_until(deadline, precision).await;
                    let late = timer.deadline(Duration::ZERO);
                    assert!(late >= deadline, "it woke before its time");
                    order.lock().unwrap().push(ms);
                };
                runtime.spawn_future(Annotation::new(), sleeps).expect("a credit")
            })
            .collect();
        let timer = runtime.timer();
        let (limited, never) = (timer.clone(), timer.clone());
        let limited = runtime.spawn_future(Annotation::new(), async move {
            let slept = limited.sleep(Duration::from_secs(5));
            limited.within(Duration::from_secs(1), slept).await
        });
        let late = timer.within(Duration::from_secs(9), never.sleep(Duration::from_secs(2)));
        assert_eq!(runtime.block_on(late), Ok(Ok(())));
        assert_eq!(limited.expect("a credit").wait(), Ok(Err(Elapsed)));
        handles.into_iter().for_each(|handle| handle.wait().expect("it ends"));
        let order = order.lock().unwrap();
        assert_eq!(order.len(), 50);
        assert!(order.is_sorted(), "seed {seed}: {order:?}");
        let stuck = runtime.block_on(std::future::pending::<()>());
        assert_eq!(stuck, Err(TaskError::Stuck));
        runtime.shutdown(Shutdown::Drain);
    }
}

/// Requests are admitted in the order in which they came, give up in time, and are refused by a
/// runtime that ends.
#[test]
fn credits_are_given_in_order_and_waits_for_them_time_out() {
    for seed in 0..if cfg!(miri) { 1 } else { 10 } {
        let mut config = Config::shared(2);
        config.credits[5] = 2;
        let runtime = Runtime::simulated(config, seed).expect("the configuration is fine");
        let (timer, order) = (runtime.timer(), Arc::new(Mutex::new(Vec::new())));
        let handles: Vec<_> = (0..20u64)
            .map(|number| {
                let timer = timer.clone();
                let (order, admission) = (Arc::clone(&order), runtime.admit(ClassId(5)));
                let request = async move {
                    // They line up one after the other.
                    timer.sleep(Duration::from_millis(number)).await;
                    let limit = Duration::from_millis(if number % 5 == 4 { 1 } else { 10_000 });
                    let Ok(credit) = timer.within(limit, admission).await else { return false };
                    order.lock().unwrap().push(number);
                    let nap = timer.clone();
                    let held = async move { nap.sleep(Duration::from_millis(50)).await };
                    let spawned = credit.expect("it runs").spawn_future(Annotation::new(), held);
                    spawned.expect("it runs").await.expect("it ends");
                    true
                };
                runtime.spawn_future(Annotation::new(), request).expect("a credit")
            })
            .collect();
        let admitted: Vec<bool> =
            handles.into_iter().map(|handle| handle.wait().unwrap()).collect();
        for (number, admitted) in admitted.iter().enumerate() {
            assert_eq!(*admitted, number % 5 != 4, "seed {seed}: request {number}");
        }
        assert!(order.lock().unwrap().is_sorted(), "seed {seed}: {:?}", order.lock().unwrap());
        let late = runtime.admit(ClassId(5));
        runtime.shutdown(Shutdown::Drain);
        let polled = std::pin::pin!(late).poll(&mut std::task::Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Err(Closed))));
    }
}

/// A group's workers are limited, what follows it runs with its outcome, and there may be many.
#[test]
fn groups_are_limited_followed_and_many() {
    for seed in 0..if cfg!(miri) { 1 } else { 10 } {
        let runtime = simulated(4, seed);
        let outcomes = Arc::new(Mutex::new(Vec::new()));
        let many = if cfg!(miri) { 50 } else { 6000 };
        let groups: Vec<_> = (0..many)
            .map(|number| {
                let mut group = runtime.group();
                group.limit(1 + number % 3);
                group.task(Annotation::new(), move |cx: &mut Context| {
                    assert!(number % 100 != 7, "planted");
                    cx.spawn(Annotation::new(), |_: &mut Context| ());
                });
                let kept = Arc::clone(&outcomes);
                group.then(Annotation::new(), move |_: &mut Context, outcome| {
                    kept.lock().unwrap().push((number, outcome));
                });
                group
            })
            .collect();
        let running: Vec<_> = groups
            .into_iter()
            .map(|group| group.enqueue(Locality::Spread).expect("it runs"))
            .collect();
        running.iter().step_by(10).for_each(halcyon_task::RunningGroup::abort);
        let ended: Vec<_> = running.iter().map(|group| group.wait()).collect();
        runtime.run_until_idle();
        let mut outcomes = std::mem::take(&mut *outcomes.lock().unwrap());
        outcomes.sort_by_key(|(number, _)| *number);
        let told: Vec<_> = outcomes.into_iter().map(|(_, outcome)| outcome).collect();
        assert_eq!(told, ended, "seed {seed}");
        runtime.shutdown(Shutdown::Drain);
    }
}

/// Work that blocks runs when the seed says so, and wakes who awaits it.
#[test]
fn work_that_blocks_is_part_of_the_schedule() {
    let order = |seed| {
        let runtime = simulated(2, seed);
        let order = Arc::new(Mutex::new(Vec::new()));
        let handles: Vec<_> = (0..20u32)
            .map(|number| {
                let (blocking, order) = (runtime.blocking(), Arc::clone(&order));
                let awaits = async move {
                    let done = blocking.run(move || assert!(number != 7, "planted"));
                    let done = done.expect("a simulation starts no threads").await;
                    order.lock().unwrap().push(number);
                    done
                };
                runtime.spawn_future(Annotation::new(), awaits).expect("a credit")
            })
            .collect();
        for (number, handle) in handles.into_iter().enumerate() {
            let failed = if number == 7 { Err(TaskError::Dropped) } else { Ok(()) };
            assert_eq!(handle.wait(), Ok(failed));
        }
        runtime.shutdown(Shutdown::Drain);
        Arc::into_inner(order).expect("every task has ended").into_inner().unwrap()
    };
    let first = order(1);
    assert_eq!(first, order(1), "the seed decides the order");
    assert!((2..8).any(|seed| order(seed) != first), "the seed decides nothing");
}

/// Whether a task with this annotation is of that band and class.
fn is_of(annotation: Annotation, band: Priority, class: ClassId) -> bool {
    annotation.priority(band).class(class) == annotation
}

/// A task of a busy band that moves another group under way.
struct Mover {
    left: u64,
    moves_at: u64,
    other: Arc<Mutex<Option<RunningGroup>>>,
    is_done: Arc<AtomicU64>,
    after: Arc<AtomicU64>,
}

impl Task for Mover {
    fn run(&mut self, cx: &mut Context) -> Step {
        cx.simulate_work(Duration::from_micros(5));
        self.left -= 1;
        if self.moves_at > 0 && self.left == self.moves_at {
            let other = self.other.lock().unwrap().take().expect("it was enqueued");
            other.move_to(Priority::Urgent, ClassId(5));
        }
        if self.left < self.moves_at && self.is_done.load(Ordering::Relaxed) == 0 {
            self.after.fetch_add(1, Ordering::Relaxed);
        }
        if self.left == 0 { Step::Done } else { Step::Again(cx.annotation()) }
    }
}

/// Pending once, and ready at the next poll.
async fn once_more() {
    let mut asked = false;
    std::future::poll_fn(|polled| {
        polled.waker().wake_by_ref();
        if std::mem::replace(&mut asked, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

#[test]
fn a_group_that_is_moved_goes_on_in_another_band_and_class() {
    let (steps, polls) = if cfg!(miri) { (40, 20) } else { (2_000, 500) };
    for seed in 0..if cfg!(miri) { 1 } else { 10 } {
        for workers in [1, 2] {
            let runtime = simulated(workers, seed);
            let is_done = Arc::new(AtomicU64::new(0));
            let after = Arc::new(AtomicU64::new(0));
            let other = Arc::new(Mutex::new(None));
            let mut busy = runtime.group();
            for number in 0..workers {
                busy.step_task(
                    Annotation::new().priority(Priority::High),
                    Mover {
                        left: 8 * steps,
                        // The first one moves the group.
                        moves_at: if number == 0 { 7 * steps } else { 0 },
                        other: Arc::clone(&other),
                        is_done: Arc::clone(&is_done),
                        after: Arc::clone(&after),
                    },
                );
            }
            let low = Annotation::new().priority(Priority::Low).class(ClassId(2));
            let mut slow = runtime.group();
            let until = Arc::new(AtomicU64::new(steps));
            let time = Duration::from_micros(5);
            slow.step_task(low, Steps { time, steps: Arc::default(), until });
            let future = slow.future(low, async move {
                for _ in 0..polls {
                    once_more().await;
                }
            });
            let done = Arc::clone(&is_done);
            slow.then(Annotation::new(), move |_, _| done.store(1, Ordering::Relaxed));
            let slow = slow.enqueue(Locality::Spread).expect("it runs");
            *other.lock().unwrap() = Some(slow.clone());
            let busy = busy.enqueue(Locality::Spread).expect("it runs");
            busy.wait().expect("no task panics");
            slow.wait().expect("no task panics");
            future.wait().expect("it ends");
            let counters = runtime.counters();
            let [own, new] = [2, 5].map(|class| counters.class(ClassId(class)).steps);
            assert!(new > own, "seed {seed}: {own} steps of the old class, {new} of the new one");
            let late = after.load(Ordering::Relaxed);
            assert!(late < steps / 4, "seed {seed}: {late} steps of the others behind the move");
            // The next group of the number is where its annotations say.
            drop(slow);
            let mut next = runtime.group();
            let seen = next.future(low, async { 1 });
            next.task(low, |cx: &mut Context| {
                assert!(is_of(cx.annotation(), Priority::Low, ClassId(2)));
            });
            next.enqueue(Locality::Spread).expect("it runs").wait().expect("no task panics");
            assert_eq!(seen.wait(), Ok(1));
            runtime.shutdown(Shutdown::Drain);
        }
    }
}

/// Islands of two workers each.
fn islands(count: u16, seed: u64) -> Runtime {
    islands_of(count, 2, seed)
}

fn islands_of(count: u16, workers: usize, seed: u64) -> Runtime {
    let worker =
        |island| WorkerConfig { kind: WorkerKind::Shared, cpus: vec![], island: IslandId(island) };
    let all = (0..count).flat_map(|island| vec![worker(island); workers]);
    Runtime::simulated(Config::new(all.collect()), seed).expect("the configuration is fine")
}

/// A group on one island, which sleeps there until it is told to end.
struct Neighbour {
    group: RunningGroup,
    island: Arc<AtomicU64>,
    end: Arc<Mutex<End>>,
}

/// Whether a neighbour is to end, and who wakes it then.
#[derive(Default)]
struct End(bool, Option<Waker>);

impl Neighbour {
    fn new(runtime: &Runtime, cache: CacheUse) -> Neighbour {
        let (island, end) = (Arc::new(AtomicU64::new(u64::MAX)), Arc::<Mutex<End>>::default());
        let mut group = runtime.group();
        group.cache(cache);
        let (told, waits) = (Arc::clone(&island), Arc::clone(&end));
        group.task(Annotation::new(), move |cx: &mut Context| {
            told.store(u64::from(cx.island().0), Ordering::SeqCst);
        });
        let sleeps = std::future::poll_fn(move |polled| {
            let mut end = waits.lock().unwrap();
            end.1 = Some(polled.waker().clone());
            if end.0 { Poll::Ready(()) } else { Poll::Pending }
        });
        drop(group.future(Annotation::new(), sleeps));
        let group = group.enqueue(Locality::OneIsland).expect("it runs");
        runtime.run_until_idle();
        Neighbour { group, island, end }
    }

    fn island(&self) -> u64 {
        self.island.load(Ordering::SeqCst)
    }

    fn end(self) {
        let waker = {
            let mut end = self.end.lock().unwrap();
            end.0 = true;
            end.1.take()
        };
        waker.expect("it sleeps").wake();
        self.group.wait().expect("it ends");
    }
}

#[test]
fn groups_that_pollute_the_cache_and_groups_that_live_from_it_are_kept_apart() {
    for seed in 0..SEEDS {
        let runtime = islands(3, seed);
        let sensitive = Neighbour::new(&runtime, CacheUse::Sensitive);
        let polluting: Vec<Neighbour> =
            (0..4).map(|_| Neighbour::new(&runtime, CacheUse::Polluting)).collect();
        assert!(polluting.iter().all(|group| group.island() != sensitive.island()), "seed {seed}");
        let second = Neighbour::new(&runtime, CacheUse::Sensitive);
        assert_eq!(
            second.island(),
            sensitive.island(),
            "the island without polluters, seed {seed}"
        );
        sensitive.end();
        second.end();
        // Nobody is left whom a polluter would hurt, and all islands are idle: they take turns.
        let more: Vec<Neighbour> =
            (0..3).map(|_| Neighbour::new(&runtime, CacheUse::Polluting)).collect();
        let mut used: Vec<u64> = more.iter().map(Neighbour::island).collect();
        used.sort_unstable();
        assert_eq!(used, [0, 1, 2], "seed {seed}");
        polluting.into_iter().chain(more).for_each(Neighbour::end);
    }
}

#[test]
fn a_limit_of_polluters_delays_them_and_loses_no_task() {
    for seed in 0..SEEDS {
        let runtime = islands(2, seed);
        runtime.limit_polluters(IslandId(0), 1);
        let ran = Arc::new(AtomicU64::new(0));
        let groups: Vec<RunningGroup> = (0..3)
            .map(|_| {
                let mut group = runtime.group();
                group.cache(CacheUse::Polluting);
                for worker in 0..8 {
                    let (ran, place) = (Arc::clone(&ran), TaskPlace::Worker(WorkerId(worker % 4)));
                    group.task(Annotation::new().place(place), move |_: &mut Context| {
                        ran.fetch_add(1, Ordering::SeqCst);
                    });
                }
                group.enqueue(Locality::Spread).expect("it runs")
            })
            .collect();
        runtime.limit_polluters(IslandId(1), 1);
        runtime.limit_polluters(IslandId(0), usize::MAX);
        groups.iter().for_each(|group| group.wait().expect("all run"));
        assert_eq!(ran.load(Ordering::SeqCst), 24, "seed {seed}");
    }
}

/// One island of four workers, the last of which is the polluters'.
fn divided(seed: u64) -> Runtime {
    let runtime = islands_of(1, 4, seed);
    let part = |worker| WorkerPart {
        part: if worker == 3 { Part::Polluting } else { Part::Sensitive },
        cpus: vec![],
    };
    runtime.divide(&(0..4).map(part).collect::<Vec<_>>()).expect("nothing is bound");
    runtime
}

/// Runs a group of `steps` tasks that spawn another each, and returns the workers that their steps were on.
fn workers_of(runtime: &Runtime, cache: CacheUse, locality: Locality) -> (RunningGroup, Workers) {
    let used = Workers::default();
    let mut group = runtime.group();
    group.cache(cache);
    for _ in 0..12 {
        let used = Arc::clone(&used);
        group.task(Annotation::new(), move |cx: &mut Context| {
            used.lock().unwrap().insert(cx.worker().0);
            cx.simulate_work(Duration::from_micros(50));
            let used = Arc::clone(&used);
            cx.spawn(Annotation::new(), move |cx: &mut Context| {
                used.lock().unwrap().insert(cx.worker().0);
                cx.simulate_work(Duration::from_micros(50));
            });
        });
    }
    (group.enqueue(locality).expect("it runs"), used)
}

type Workers = Arc<Mutex<std::collections::BTreeSet<u16>>>;

#[test]
fn a_contested_island_keeps_both_kinds_apart_and_an_uncontested_one_uses_all_workers() {
    for seed in 0..SEEDS {
        for locality in [Locality::OneIsland, Locality::Spread] {
            let runtime = divided(seed);
            let all = |cache| {
                let (group, used) = workers_of(&runtime, cache, locality);
                group.wait().expect("no task panics");
                Vec::from_iter(used.lock().unwrap().iter().copied())
            };
            // Nobody is there whom they could hurt.
            assert_eq!(all(CacheUse::Polluting), [0, 1, 2, 3], "seed {seed}");
            assert_eq!(all(CacheUse::Sensitive), [0, 1, 2, 3], "seed {seed}");
            let waits = Neighbour::new(&runtime, CacheUse::Sensitive);
            assert_eq!(all(CacheUse::Polluting), [3], "seed {seed}");
            assert_eq!(all(CacheUse::Adaptive), [0, 1, 2, 3], "seed {seed}");
            let pollutes = Neighbour::new(&runtime, CacheUse::Polluting);
            assert_eq!(all(CacheUse::Sensitive), [0, 1, 2], "seed {seed}");
            waits.end();
            assert_eq!(all(CacheUse::Polluting), [0, 1, 2, 3], "seed {seed}");
            pollutes.end();
            runtime.undivide();
            assert!(!runtime.is_divided());
        }
    }
}

#[test]
fn tasks_that_wait_where_they_no_longer_suit_go_elsewhere_and_none_is_lost() {
    for seed in 0..SEEDS {
        let runtime = divided(seed);
        let (polluting, used) = workers_of(&runtime, CacheUse::Polluting, Locality::Spread);
        // Its tasks are queued on all workers, and the island becomes contested before they run.
        let (sensitive, others) = workers_of(&runtime, CacheUse::Sensitive, Locality::Spread);
        sensitive.wait().expect("no task panics");
        polluting.wait().expect("no task panics");
        assert!(!others.lock().unwrap().contains(&3), "seed {seed}");
        assert!(used.lock().unwrap().contains(&3), "seed {seed}");
    }
}

#[test]
fn measured_costs_decide_about_the_island() {
    for seed in 0..SEEDS {
        let runtime = islands(2, seed);
        let sensitive = Neighbour::new(&runtime, CacheUse::Sensitive);
        let adaptive = Neighbour::new(&runtime, CacheUse::Adaptive);
        // On this machine a polluter hurts the adaptive group, and not the sensitive one.
        runtime.set_neighbour_costs([[0, 0, 900], [0, 0, 20], [900, 20, 0]]);
        let apart = adaptive.island() != sensitive.island();
        let polluting = Neighbour::new(&runtime, CacheUse::Polluting);
        if apart {
            assert_eq!(polluting.island(), sensitive.island(), "seed {seed}");
        } else {
            assert_ne!(polluting.island(), sensitive.island(), "seed {seed}");
        }
        [sensitive, adaptive, polluting].into_iter().for_each(Neighbour::end);
    }
}
