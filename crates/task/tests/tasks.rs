//! What a runtime promises to who uses it, with threads.

#![cfg(not(shuttle))]

use halcyon_task::{
    AbsenceError, Access, Annotation, CacheUse, ClassId, Config, Context, Elapsed, EnqueueError,
    GroupError, IslandId, Locality, Morsels, Part, Plane, Priority, Pull, Resource, Runtime,
    Shutdown, StartError, Step, Synchronisation, Task, TaskError, TaskPlace, Timer, Version,
    Withheld, WorkerConfig, WorkerId, WorkerKind, WorkerPart, spawn_beside,
};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

fn runtime(workers: usize) -> Runtime {
    Runtime::new(Config::shared(workers)).expect("a few threads can be started")
}

fn count() -> (Arc<AtomicU64>, Arc<AtomicU64>) {
    let count = Arc::new(AtomicU64::new(0));
    (Arc::clone(&count), count)
}

/// Message of the last panic without a group; a result is lost a moment before it is counted.
fn last_panic(runtime: &Runtime) -> String {
    let until = Instant::now() + Duration::from_secs(10);
    while Instant::now() < until {
        if let Some(message) = runtime.counters().last_panic {
            return message;
        }
        std::thread::yield_now();
    }
    panic!("no task without a group has panicked")
}

#[test]
fn every_task_of_a_tree_of_tasks_runs_once() {
    fn grow(cx: &mut Context, depth: u32, count: Arc<AtomicU64>) {
        count.fetch_add(1, Ordering::Relaxed);
        for _ in 0..if depth > 0 { 4 } else { 0 } {
            let count = Arc::clone(&count);
            cx.spawn(Annotation::new(), move |cx: &mut Context| grow(cx, depth - 1, count));
        }
    }
    let runtime = runtime(3);
    let (counted, kept) = count();
    let mut group = runtime.group();
    group.task(Annotation::new(), move |cx: &mut Context| grow(cx, 7, counted));
    group.enqueue(Locality::Spread).expect("it runs").wait().expect("no task panics");
    assert_eq!(kept.load(Ordering::Relaxed), (4u64.pow(8) - 1) / 3);
    runtime.shutdown(Shutdown::Drain);
}

/// Both are asked for; what the system refuses is told, and what it does not refuse is there.
#[test]
fn real_time_priority_and_locked_memory_are_granted_or_told() {
    use halcyon_machine::schedule::{self, Policy};
    use halcyon_machine::{affinity, memory};
    let cpu = *affinity::get().expect("it has processors").last().expect("at least one");
    let mut config = Config::dedicated(&[cpu]);
    config.fifo_priority = Some(7);
    config.lock_memory = true;
    let runtime = Runtime::new(config).expect("one thread can be started");
    let policy =
        runtime.submit(Annotation::new(), |_: &mut Context| schedule::get().ok().flatten());
    let policy = policy.expect("there is credit").wait().expect("the task does not panic");
    let refused = |wanted: fn(&Withheld) -> bool| runtime.withheld().iter().any(wanted);
    let fifo_refused = refused(|withheld| matches!(withheld, Withheld::Fifo(WorkerId(0), _)));
    assert_eq!(policy == Some(Policy::Fifo(7)), !fifo_refused, "{:?}", runtime.withheld());
    let locked_bytes = || {
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
        let line = status.lines().find(|line| line.starts_with("VmLck:")).map(str::to_owned);
        line.expect("it is listed").split_whitespace().nth(1).map(|kib| kib != "0")
    };
    let lock_refused = refused(|withheld| matches!(withheld, Withheld::LockedMemory(_)));
    assert_eq!(locked_bytes(), Some(!lock_refused), "{:?}", runtime.withheld());
    assert!(runtime.withheld().iter().all(|withheld| !withheld.to_string().is_empty()));
    runtime.shutdown(Shutdown::Drain);
    memory::unlock_process().expect("unlocking needs no right");
}

#[test]
fn captures_of_any_size_and_alignment_arrive_and_are_dropped_once() {
    #[repr(align(64))]
    struct Wide([u8; 64]);
    let runtime = runtime(2);
    let dropped = Arc::new(());
    let mut group = runtime.group();
    let (sum, kept) = count();
    macro_rules! sizes {
        ($($bytes:literal)*) => { $(
            let (token, total_sum) = (Arc::clone(&dropped), Arc::clone(&sum));
            let data = [$bytes as u8; $bytes];
            group.task(Annotation::new(), move |_: &mut Context| {
                let total: u64 = data.iter().map(|&byte| u64::from(byte)).sum();
                total_sum.fetch_add(total, Ordering::Relaxed);
                drop(token);
            });
        )* };
    }
    sizes!(0 1 7 8 16 24 40 48 56 64 65 72 80 96 128 200);
    let wide = Wide([1; 64]);
    group.task(Annotation::new(), move |_: &mut Context| {
        let wide = &wide;
        assert_eq!(std::ptr::from_ref(wide).addr() % 64, 0);
        sum.fetch_add(wide.0.iter().map(|&b| u64::from(b)).sum(), Ordering::Relaxed);
    });
    group.enqueue(Locality::Spread).expect("it runs").wait().expect("no task panics");
    let expected: u64 = [0u64, 1, 7, 8, 16, 24, 40, 48, 56, 64, 65, 72, 80, 96, 128, 200]
        .iter()
        .map(|n| n * n)
        .sum();
    assert_eq!(kept.load(Ordering::Relaxed), expected + 64);
    assert_eq!(Arc::strong_count(&dropped), 1);
    runtime.shutdown(Shutdown::Drain);
}

#[test]
fn tasks_of_one_resource_never_overlap_and_run_at_home() {
    let runtime = runtime(3);
    let resource = runtime.resource(Synchronisation::Scheduling);
    let cell = Arc::new(runtime.own(resource, 0u64));
    let mut group = runtime.group();
    for _ in 0..1000 {
        let cell = Arc::clone(&cell);
        group.task(Annotation::new(), move |cx: &mut Context| {
            cx.spawn(
                Annotation::new().on(cell.resource(), Access::Write),
                move |cx: &mut Context| {
                    let mut value = cell.get(cx);
                    let read = *value;
                    std::hint::spin_loop();
                    *value = read + 1;
                },
            );
        });
    }
    group.enqueue(Locality::Spread).expect("it runs").wait().expect("no task panics");
    runtime.shutdown(Shutdown::Drain);
    let cell = Arc::into_inner(cell).expect("every task has ended");
    assert_eq!(cell.into_inner(), 1000);
}

#[test]
fn optimistic_readers_never_see_half_a_change() {
    struct Pair {
        version: Version,
        halves: [AtomicU64; 2],
    }
    let runtime = runtime(2);
    let resource = runtime.resource(Synchronisation::SchedulingWriters);
    let pair = Arc::new(Pair { version: Version::new(), halves: Default::default() });
    let mut group = runtime.group();
    for number in 0..2000u64 {
        let writer = Arc::clone(&pair);
        group.task(Annotation::new().on(resource, Access::Write), move |cx: &mut Context| {
            let _change = writer.version.write(resource, cx);
            writer.halves[0].store(number, Ordering::Relaxed);
            writer.halves[1].store(!number, Ordering::Relaxed);
        });
        let pair = Arc::clone(&pair);
        group.task(Annotation::new().on(resource, Access::Read), move |_: &mut Context| {
            let [one, other] = pair
                .version
                .read(|| [0, 1].map(|half: usize| pair.halves[half].load(Ordering::Relaxed)));
            assert!(one == !other || (one, other) == (0, 0), "{one} {other}");
        });
    }
    group.enqueue(Locality::Spread).expect("it runs").wait().expect("no task panics");
    runtime.shutdown(Shutdown::Drain);
}

#[test]
fn panic_fails_its_group_and_nothing_else() {
    let runtime = runtime(2);
    let mut failing = runtime.group();
    failing.task(Annotation::new(), |_: &mut Context| panic!("planted {}", 7));
    let mut fine = runtime.group();
    let (ran, kept) = count();
    for _ in 0..100 {
        let ran = Arc::clone(&ran);
        fine.task(Annotation::new(), move |_: &mut Context| {
            ran.fetch_add(1, Ordering::Relaxed);
        });
    }
    let failing = failing.enqueue(Locality::OneIsland).expect("it runs");
    let fine = fine.enqueue(Locality::OneIsland).expect("it runs");
    assert_eq!(failing.wait(), Err(GroupError::Panicked("planted 7".to_owned())));
    assert_eq!(fine.wait(), Ok(()));
    assert_eq!(kept.load(Ordering::Relaxed), 100);
    let reply = runtime.submit(Annotation::new(), |_: &mut Context| -> u32 { panic!("alone") });
    assert_eq!(reply.expect("there are credits").wait(), Err(TaskError::Dropped));
    assert_eq!(runtime.submit(Annotation::new(), |_: &mut Context| 5).unwrap().wait(), Ok(5));
    assert_eq!(last_panic(&runtime), "alone");
    assert_eq!(runtime.counters().total(|worker| worker.panics), 2);
    runtime.shutdown(Shutdown::Drain);
}

/// What could never run would be waited for in vain.
#[test]
fn place_that_is_not_there_is_refused_before_the_task_counts() {
    let runtime = runtime(1);
    let places = [
        (TaskPlace::Worker(WorkerId(9)), "no worker 9"),
        (TaskPlace::Island(IslandId(9)), "no island 9"),
        (TaskPlace::Plane(Plane::Compute), "no worker belongs to the plane"),
    ];
    for (place, message) in places {
        let nowhere = Annotation::new().place(place);
        let outside = || drop(runtime.spawn(nowhere, |_: &mut Context| ()));
        assert!(std::panic::catch_unwind(AssertUnwindSafe(outside)).is_err(), "{place:?}");
        let spawns: fn(&mut Context, Annotation) = |cx, at| cx.spawn(at, |_: &mut Context| ());
        let mut group = runtime.group();
        group.task(Annotation::new(), move |cx: &mut Context| spawns(cx, nowhere));
        let ended = group.enqueue(Locality::Spread).unwrap().wait_for(Duration::from_secs(60));
        let Err(GroupError::Panicked(told)) = ended else { panic!("{place:?}: {ended:?}") };
        assert!(told.contains(message), "{told}");
        let mut group = runtime.group();
        group.step_task(Annotation::new(), GoesTo(nowhere));
        let ended = group.enqueue(Locality::Spread).unwrap().wait_for(Duration::from_secs(60));
        assert!(matches!(ended, Err(GroupError::Panicked(_))), "{place:?}: {ended:?}");
    }
    runtime.shutdown(Shutdown::Drain);
}

/// Asks to be dispatched there.
struct GoesTo(Annotation);

impl Task for GoesTo {
    fn run(&mut self, _cx: &mut Context) -> Step {
        Step::Again(self.0)
    }
}

#[test]
fn aborted_group_drops_what_waits_and_stops_what_runs() {
    let runtime = runtime(2);
    let dropped = Arc::new(());
    let mut group = runtime.group();
    let stopped = Arc::new(AtomicBool::new(false));
    for _ in 0..10_000 {
        let (token, stopped) = (Arc::clone(&dropped), Arc::clone(&stopped));
        group.task(Annotation::new(), move |cx: &mut Context| {
            while !cx.should_stop() {
                std::hint::spin_loop();
            }
            stopped.store(true, Ordering::Relaxed);
            drop(token);
        });
    }
    let running = group.enqueue(Locality::Spread).expect("it runs");
    assert_eq!(running.wait_for(Duration::from_millis(20)), Err(GroupError::TimedOut));
    running.abort();
    assert_eq!(running.wait(), Err(GroupError::Aborted));
    assert!(stopped.load(Ordering::Relaxed));
    assert_eq!(Arc::strong_count(&dropped), 1);
    assert!(runtime.counters().total(|worker| worker.dropped) > 9000);
    runtime.shutdown(Shutdown::Drain);
}

struct Countdown(u32, Arc<AtomicU64>);

impl Task for Countdown {
    fn run(&mut self, cx: &mut Context) -> Step {
        self.1.fetch_add(1, Ordering::Relaxed);
        if self.0 == 0 {
            return Step::Done;
        }
        self.0 -= 1;
        let next = WorkerId((cx.worker().0 + 1) % cx.worker_count() as u16);
        Step::Again(Annotation::new().place(TaskPlace::Worker(next)))
    }
}

#[test]
fn task_that_is_dispatched_again_goes_where_it_says() {
    let runtime = runtime(3);
    let (steps, kept) = count();
    let mut group = runtime.group();
    for _ in 0..50 {
        group.step_task(Annotation::new(), Countdown(300, Arc::clone(&steps)));
    }
    group.enqueue(Locality::Spread).expect("it runs").wait().expect("no task panics");
    assert_eq!(kept.load(Ordering::Relaxed), 50 * 301);
    runtime.shutdown(Shutdown::Drain);
}

struct Rows {
    next: AtomicU64,
    end: u64,
    sum: AtomicU64,
}

impl Morsels for Rows {
    fn run(&self, _worker: WorkerId, _cx: &mut Context) -> Pull {
        let from = self.next.fetch_add(100, Ordering::Relaxed);
        if from >= self.end {
            return Pull::End;
        }
        let sum = (from..(from + 100).min(self.end)).sum();
        self.sum.fetch_add(sum, Ordering::Relaxed);
        Pull::More
    }
}

#[test]
fn pulled_group_works_off_every_morsel() {
    let runtime = runtime(2);
    let rows = Arc::new(Rows { next: AtomicU64::new(0), end: 100_050, sum: AtomicU64::new(0) });
    let mut group = runtime.group();
    group.pull(Annotation::new(), Arc::clone(&rows));
    group.enqueue(Locality::OneIsland).expect("it runs").wait().expect("no morsel panics");
    assert_eq!(rows.sum.load(Ordering::Relaxed), (0..100_050).sum());
    runtime.shutdown(Shutdown::Drain);
}

fn two_islands() -> Config {
    let mut config = Config::shared(4);
    config.workers[2].island = IslandId(1);
    config.workers[3].island = IslandId(1);
    config
}

#[test]
fn group_stays_on_its_island() {
    let runtime = Runtime::new(two_islands()).expect("four threads can be started");
    let elsewhere = Arc::new(AtomicU64::new(0));
    let mut group = runtime.group();
    for _ in 0..200 {
        let elsewhere = Arc::clone(&elsewhere);
        group.task(Annotation::new(), move |cx: &mut Context| {
            let foreign = u64::from(cx.island() != IslandId(1));
            elsewhere.fetch_add(foreign, Ordering::Relaxed);
            cx.spawn(Annotation::new(), move |cx: &mut Context| {
                let foreign = u64::from(cx.island() != IslandId(1));
                elsewhere.fetch_add(foreign, Ordering::Relaxed);
            });
        });
    }
    let kept = group.enqueue(Locality::Island(IslandId(1))).expect("there are two");
    kept.wait().expect("no task panics");
    assert!(runtime.counters().workers[..2].iter().all(|worker| worker.finished == 0));
    let missing = runtime.group().enqueue(Locality::Island(IslandId(2)));
    assert_eq!(missing.err(), Some(EnqueueError::NoSuchIsland(IslandId(2))));
    runtime.shutdown(Shutdown::Drain);
}

#[test]
fn dedicated_group_owns_its_workers_until_it_ends() {
    let runtime = Runtime::new(two_islands()).expect("four threads can be started");
    let stop = Arc::new(AtomicBool::new(false));
    let mut group = runtime.group();
    for _ in 0..2 {
        let stop = Arc::clone(&stop);
        group.task(Annotation::new(), move |_: &mut Context| {
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
    }
    let dedicated = Locality::Dedicated { island: IslandId(0), workers: 2 };
    let running = group.enqueue(dedicated).expect("both workers are free");
    let again = runtime.group().enqueue(dedicated).err();
    assert_eq!(again, Some(EnqueueError::NotFree { free: 0 }));
    // Others go past the owned workers; a task that must run there waits.
    for _ in 0..100 {
        let worker = runtime.submit(Annotation::new(), |cx: &mut Context| cx.worker()).unwrap();
        assert!(worker.wait().expect("it runs").0 >= 2);
    }
    let bound = Annotation::new().place(TaskPlace::Worker(WorkerId(0)));
    let bound = runtime.submit(bound, |cx: &mut Context| cx.worker()).expect("there are credits");
    stop.store(true, Ordering::Relaxed);
    running.wait().expect("no task panics");
    assert_eq!(bound.wait(), Ok(WorkerId(0)));
    runtime.shutdown(Shutdown::Drain);
}

#[test]
fn root_without_credit_comes_back_or_waits() {
    let mut config = Config::shared(1);
    config.credits = [2; halcyon_task::CLASSES];
    let runtime = Runtime::new(config).expect("a thread can be started");
    let open = Arc::new(AtomicBool::new(false));
    for _ in 0..2 {
        let open = Arc::clone(&open);
        runtime
            .spawn(Annotation::new(), move |_: &mut Context| {
                while !open.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
            })
            .expect("there are two credits");
    }
    let third = runtime.try_spawn(Annotation::new(), |_: &mut Context| ());
    assert_eq!(third.err().map(|busy| busy.class), Some(ClassId(0)));
    let other_class = Annotation::new().class(ClassId(1));
    runtime.try_spawn(other_class, |_: &mut Context| ()).expect("another class has credits");
    let opener = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(10));
        open.store(true, Ordering::Relaxed);
    });
    for _ in 0..1000 {
        runtime.spawn(Annotation::new(), |_: &mut Context| ()).expect("a credit comes back");
    }
    opener.join().expect("it does not panic");
    runtime.shutdown(Shutdown::Drain);
}

#[test]
fn shutdown_drains_or_drops_as_asked() {
    for how in [Shutdown::Drain, Shutdown::Abort] {
        let runtime = runtime(2);
        let (ran, kept) = count();
        let token = Arc::new(());
        for _ in 0..5000 {
            let (ran, token) = (Arc::clone(&ran), Arc::clone(&token));
            let function = move |cx: &mut Context| {
                let (ran, token) = (ran, token);
                cx.spawn(Annotation::new(), move |_: &mut Context| {
                    ran.fetch_add(1, Ordering::Relaxed);
                    drop(token);
                });
            };
            runtime.spawn(Annotation::new(), function).expect("it runs");
        }
        runtime.shutdown(how);
        assert_eq!(Arc::strong_count(&token), 1);
        assert!(how == Shutdown::Abort || kept.load(Ordering::Relaxed) == 5000);
    }
}

#[test]
fn retired_value_lives_while_a_task_carries_references() {
    let runtime = runtime(2);
    let resource = runtime.resource(Synchronisation::Optimistic);
    let value = Arc::new(());
    let retired = Arc::clone(&value);
    let (go, gone) = (Arc::new(AtomicBool::new(false)), Arc::clone(&value));
    let waits = Arc::clone(&go);
    // Dispatched again and again, it carries references across points between tasks.
    struct Carrier(Arc<AtomicBool>, Annotation);
    impl Task for Carrier {
        fn run(&mut self, _cx: &mut Context) -> Step {
            if self.0.load(Ordering::Relaxed) { Step::Done } else { Step::Again(self.1) }
        }
    }
    let carries = Annotation::new().on(resource, Access::Read);
    let mut group = runtime.group();
    group.step_task(carries, Carrier(waits, carries));
    let running = group.enqueue(Locality::Spread).expect("it runs");
    let churn = |runtime: &Runtime| {
        for _ in 0..50 {
            let reply = runtime.submit(Annotation::new(), |cx: &mut Context| {
                (0..200).for_each(|_| cx.retire(Box::new(0u64)));
            });
            reply.expect("there are credits").wait().expect("it runs");
        }
    };
    let reply =
        runtime.submit(Annotation::new(), move |cx: &mut Context| cx.retire(Box::new(retired)));
    reply.expect("there are credits").wait().expect("it runs");
    churn(&runtime);
    assert_eq!(Arc::strong_count(&gone), 3);
    go.store(true, Ordering::Relaxed);
    running.wait().expect("no task panics");
    let until = Instant::now() + Duration::from_secs(10);
    while Arc::strong_count(&gone) == 3 && Instant::now() < until {
        churn(&runtime);
    }
    drop(value);
    assert_eq!(Arc::strong_count(&gone), 1);
    runtime.shutdown(Shutdown::Drain);
}

#[test]
fn urgent_task_overtakes_and_the_lowest_band_is_not_starved() {
    let runtime = runtime(1);
    let stop = Arc::new(AtomicBool::new(false));
    struct Busy(Arc<AtomicBool>);
    impl Task for Busy {
        fn run(&mut self, cx: &mut Context) -> Step {
            let start = Instant::now();
            while start.elapsed() < Duration::from_micros(20) {}
            if self.0.load(Ordering::Relaxed) { Step::Done } else { Step::Again(cx.annotation()) }
        }
    }
    let (low, kept) = count();
    struct Low(Arc<AtomicBool>, Arc<AtomicU64>);
    impl Task for Low {
        fn run(&mut self, cx: &mut Context) -> Step {
            let start = Instant::now();
            while start.elapsed() < Duration::from_micros(20) {}
            self.1.fetch_add(1, Ordering::Relaxed);
            if self.0.load(Ordering::Relaxed) { Step::Done } else { Step::Again(cx.annotation()) }
        }
    }
    let mut group = runtime.group();
    group.step_task(Annotation::new(), Busy(Arc::clone(&stop)));
    group.step_task(Annotation::new(), Busy(Arc::clone(&stop)));
    group.step_task(Annotation::new().priority(Priority::Low), Low(Arc::clone(&stop), low));
    let running = group.enqueue(Locality::Spread).expect("it runs");
    std::thread::sleep(Duration::from_millis(300));
    let urgent = Annotation::new().priority(Priority::Urgent);
    let seen = runtime.submit(urgent, |cx: &mut Context| cx.priority()).expect("there are credits");
    assert_eq!(seen.wait(), Ok(Priority::Urgent));
    let low_tasks = kept.load(Ordering::Relaxed);
    stop.store(true, Ordering::Relaxed);
    running.wait().expect("no task panics");
    assert!(low_tasks >= 20, "{low_tasks} tasks of the lowest band ran");
    runtime.shutdown(Shutdown::Drain);
}

#[test]
fn waiting_on_a_worker_is_refused() {
    let runtime = Arc::new(runtime(1));
    let inner = Arc::clone(&runtime);
    let reply = runtime.submit(Annotation::new(), move |_: &mut Context| {
        let waits = inner.submit(Annotation::new(), |_: &mut Context| ());
        drop(waits);
    });
    assert_eq!(reply.expect("there are credits").wait(), Err(TaskError::Dropped));
    assert!(last_panic(&runtime).contains("waits for a credit"));
}

#[test]
fn machine_gives_a_worker_per_core_and_its_islands() {
    let topology = halcyon_machine::Topology::of_this_machine_or_flat();
    let config = Config::for_machine(&topology, halcyon_task::WorkerKind::Shared);
    assert_eq!(config.workers.len(), topology.one_per_core().len());
    let runtime = Runtime::new(config).expect("its cores are allowed");
    let cpu = runtime.submit(Annotation::new(), |cx: &mut Context| {
        (cx.worker(), halcyon_machine::affinity::get().expect("it can be asked for"))
    });
    let (worker, cpus) = cpu.expect("there are credits").wait().expect("it runs");
    assert_eq!(cpus, [topology.one_per_core()[usize::from(worker.0)].cpu]);
    runtime.shutdown(Shutdown::Drain);
}

/// A worker that has to share its core with another thread notices, latches, and tells.
#[test]
fn worker_without_a_core_of_its_own_latches_its_resources() {
    let cpu = halcyon_task::measure::two_cpus()[0];
    let mut config = Config::dedicated(&[cpu]);
    config.run_delay_period = Duration::from_millis(5);
    let runtime = Runtime::new(config).expect("a thread can be pinned");
    let stop = Arc::new(AtomicBool::new(false));
    let rivals: Vec<_> = (0..2)
        .map(|_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                halcyon_machine::affinity::set(&[cpu]).expect("it is allowed");
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    let until = Instant::now() + Duration::from_secs(20);
    while !runtime.counters().workers[0].latched && Instant::now() < until {
        runtime.submit(Annotation::new(), |_: &mut Context| ()).expect("a credit").wait().unwrap();
    }
    let counters = runtime.counters();
    stop.store(true, Ordering::Relaxed);
    rivals.into_iter().for_each(|rival| rival.join().expect("it does not panic"));
    assert!(counters.workers[0].latched && counters.workers[0].switches > 0);
    assert!(counters.workers[0].run_delay_ns > 0);
    runtime.shutdown(Shutdown::Drain);
}

#[test]
fn long_task_is_named() {
    let runtime = runtime(1);
    for _ in 0..2 {
        let long = runtime.submit(Annotation::new(), |_: &mut Context| {
            halcyon_task::measure::burn(Duration::from_millis(3));
        });
        long.expect("there are credits").wait().expect("it runs");
    }
    runtime.submit(Annotation::new(), |_: &mut Context| ()).unwrap().wait().expect("it runs");
    let long = runtime.counters().long_tasks;
    let named = long.iter().find(|task| task.name.contains("long_task_is_named"));
    assert!(named.is_some_and(|task| task.count >= 1 && task.longest_ns >= 3_000_000), "{long:?}");
    runtime.shutdown(Shutdown::Drain);
}

#[test]
fn idle_shared_workers_use_no_processor_time() {
    // By what workers do: processor time of the process is also that of the tests beside this one.
    let runtime = runtime(2);
    runtime.submit(Annotation::new(), |_: &mut Context| ()).unwrap().wait().expect("it runs");
    std::thread::sleep(Duration::from_millis(50));
    let before = runtime.counters();
    std::thread::sleep(Duration::from_millis(200));
    let after = runtime.counters();
    let turns = |counters: &halcyon_task::Counters| counters.total(|worker| worker.turns);
    assert_eq!(turns(&before), turns(&after));
    assert_eq!(before.total(|worker| worker.parks), after.total(|worker| worker.parks));
    runtime.shutdown(Shutdown::Drain);
}

#[test]
fn configuration_that_makes_no_sense_is_refused() {
    let mut gap = Config::shared(2);
    gap.workers[1].island = IslandId(2);
    assert!(matches!(Runtime::new(gap), Err(StartError::IslandsWithGaps)));
    assert!(matches!(Runtime::new(Config::shared(0)), Err(StartError::NoWorkers)));
    assert!(matches!(Runtime::new(Config::shared(65)), Err(StartError::TooManyWorkers)));
    let mut weightless = Config::shared(1);
    weightless.shares.weights[3] = 0;
    assert!(matches!(Runtime::new(weightless), Err(StartError::Shares(_))));
    let mut threadless = Config::shared(1);
    threadless.blocking = 0;
    assert!(matches!(Runtime::new(threadless), Err(StartError::NoBlockingThreads)));
    assert!(matches!(Runtime::new(Config::dedicated(&[4000])), Err(StartError::System(_))));
}

/// Tasks of a pipeline wait for each other by suspending; no thread waits.
#[test]
fn futures_hand_values_on_and_worker_threads_do_not_wait() {
    let runtime = Arc::new(runtime(2));
    let mut last = runtime.spawn_future(Annotation::new(), async { 0u64 }).expect("a credit");
    for _ in 0..10_000 {
        let next = runtime.spawn_future(Annotation::new(), async move { last.await.unwrap() + 1 });
        last = next.expect("a credit");
    }
    assert_eq!(last.wait(), Ok(10_000));
    let held = Arc::new(());
    let mut group = runtime.group();
    for _ in 0..1000 {
        let held = Arc::clone(&held);
        group.future(Annotation::new(), async move {
            std::future::pending::<()>().await;
            drop(held);
        });
    }
    let running = group.enqueue(Locality::Spread).expect("it runs");
    assert_eq!(running.wait_for(Duration::from_millis(20)), Err(GroupError::TimedOut));
    running.abort();
    assert_eq!(running.wait(), Err(GroupError::Aborted));
    assert_eq!(Arc::strong_count(&held), 1, "what sleeping tasks held is given back");
    Arc::into_inner(runtime).expect("every task has ended").shutdown(Shutdown::Drain);
}

/// Deadlines pass while all workers sleep and while all are busy; a limit frees what it limits.
#[test]
fn futures_spawn_others_of_their_group_beside_themselves() {
    let runtime = Runtime::new(two_islands()).expect("threads");
    let (asleep, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&seen);
    let mut group = runtime.group();
    let class = ClassId(7);
    let sum = group.future(Annotation::new().class(class), async move {
        let spawn = |number: u64| {
            let counted = Arc::clone(&counted);
            spawn_beside(Annotation::new(), async move {
                counted.fetch_add(1, Ordering::SeqCst);
                number
            })
        };
        let handles: Vec<_> = (1..=100).map(spawn).collect();
        let mut sum = 0;
        for handle in handles {
            sum += handle.await.expect("none panics");
        }
        sum
    });
    let running = group.enqueue(Locality::Island(IslandId(1))).expect("an island");
    running.wait().expect("no task panics");
    assert_eq!(sum.wait(), Ok(5050));
    assert_eq!((seen.load(Ordering::SeqCst), running.live()), (100, 0));
    let late = Instant::now() + Duration::from_secs(30);
    while runtime.counters().class(class).steps < 101 {
        assert!(Instant::now() < late, "they are of the class of the one that spawned them");
    }
    // Those that sleep when their group is stopped are dropped, and it ends.
    let mut group = runtime.group();
    let spawned = Arc::clone(&asleep);
    let sleeps = group.future(Annotation::new(), async move {
        for _ in 0..20 {
            drop(spawn_beside(Annotation::new(), std::future::pending::<()>()));
            spawned.fetch_add(1, Ordering::SeqCst);
        }
        std::future::pending::<()>().await;
    });
    let running = group.enqueue(Locality::Spread).expect("workers");
    while asleep.load(Ordering::SeqCst) < 20 {
        std::thread::yield_now();
    }
    assert!(running.live() >= 1 && runtime.workers().len() == runtime.worker_count());
    running.abort();
    assert_eq!(running.wait(), Err(GroupError::Aborted));
    assert_eq!(sleeps.wait(), Err(TaskError::Dropped));
    // A worker whose future panicked works for nobody.
    let mut group = runtime.group();
    drop(group.future(Annotation::new(), async { panic!("within a future") }));
    let running = group.enqueue(Locality::Spread).expect("workers");
    assert!(matches!(running.wait(), Err(GroupError::Panicked(_))));
    assert!(runtime.workers().iter().all(|worker| worker.group.is_none()));
    let outside = std::panic::catch_unwind(|| spawn_beside(Annotation::new(), async {}));
    assert!(outside.is_err(), "no future of a runtime has called it");
}

#[test]
fn worker_tells_of_its_start_and_of_its_rests() {
    static STARTS: AtomicU64 = AtomicU64::new(0);
    static RESTS: AtomicU64 = AtomicU64::new(0);
    let mut config = Config::shared(2);
    config.stack_bytes = 64 << 20;
    config.on_start = Some(|| {
        STARTS.fetch_add(1, Ordering::SeqCst);
    });
    config.on_rest = Some(|| {
        RESTS.fetch_add(1, Ordering::SeqCst);
    });
    let runtime = Runtime::new(config).expect("two threads");
    let until = |count: &AtomicU64, wanted: u64| {
        let limit = Instant::now() + Duration::from_secs(30);
        while count.load(Ordering::SeqCst) < wanted {
            assert!(Instant::now() < limit);
            std::thread::yield_now();
        }
    };
    until(&STARTS, 2);
    until(&RESTS, 2);
    // Both sleep, and do so again after they were roused for nothing.
    std::thread::sleep(Duration::from_millis(20));
    let before = RESTS.load(Ordering::SeqCst);
    runtime.rouse();
    until(&RESTS, before + 2);
    fn deep(levels: u64) -> u64 {
        let here = std::hint::black_box([levels; 1024]);
        if levels == 0 { 0 } else { here[7] - levels + 1 + deep(levels - 1) }
    }
    let reply = runtime.submit(Annotation::new(), |_: &mut Context| deep(4000)).expect("a credit");
    assert_eq!(reply.wait(), Ok(4000), "the stack is as large as was asked for");
    runtime.shutdown(Shutdown::Drain);
    assert_eq!(STARTS.load(Ordering::SeqCst), 2);
}

#[test]
fn deadlines_pass_whether_workers_are_idle_or_busy() {
    let runtime = runtime(2);
    let timer = runtime.timer();
    let start = Instant::now();
    let nap = |timer: Timer, ms| async move { timer.sleep(Duration::from_millis(ms)).await };
    std::thread::sleep(Duration::from_millis(30));
    runtime.block_on(nap(timer.clone(), 20)).expect("it is no simulation");
    assert!(start.elapsed() >= Duration::from_millis(50));
    let stop = Arc::new(AtomicBool::new(false));
    struct Spins(Arc<AtomicBool>);
    impl Task for Spins {
        fn run(&mut self, cx: &mut Context) -> Step {
            halcyon_task::measure::burn(Duration::from_micros(100));
            if self.0.load(Ordering::Relaxed) { Step::Done } else { Step::Again(cx.annotation()) }
        }
    }
    let mut group = runtime.group();
    (0..4).for_each(|_| group.step_task(Annotation::new(), Spins(Arc::clone(&stop))));
    let running = group.enqueue(Locality::Spread).expect("it runs");
    let naps: Vec<_> = (0..100)
        .map(|number| runtime.spawn_future(Annotation::new(), nap(timer.clone(), number % 20)))
        .collect();
    naps.into_iter().for_each(|nap| nap.expect("a credit").wait().expect("it wakes"));
    let limit = Duration::from_millis(5);
    let never = runtime.block_on(timer.within(limit, std::future::pending::<()>()));
    assert_eq!(never, Ok(Err(Elapsed)));
    stop.store(true, Ordering::Relaxed);
    running.wait().expect("no task panics");
    runtime.shutdown(Shutdown::Drain);
    timer.sleep(Duration::from_secs(1000)).now_or_panic();
}

/// A future that is ready at once.
trait NowOrPanic: Future + Sized {
    fn now_or_panic(self) -> Self::Output {
        let polled = std::pin::pin!(self).poll(&mut std::task::Context::from_waker(Waker::noop()));
        let Poll::Ready(result) = polled else { panic!("it is pending") };
        result
    }
}

impl<F: Future> NowOrPanic for F {}

/// Work that blocks takes few threads, which have names, and no worker.
#[test]
fn work_that_blocks_takes_a_few_named_threads() {
    let mut config = Config::shared(1);
    config.blocking = 2;
    let runtime = Runtime::new(config).expect("a thread can be started");
    let blocking = runtime.blocking();
    let naps: Vec<_> = (0..8)
        .map(|_| {
            let nap = || {
                std::thread::sleep(Duration::from_millis(10));
                std::thread::current().name().map(str::to_owned)
            };
            blocking.run(nap).expect("a thread can be started")
        })
        .collect();
    // The one worker has its hands free meanwhile.
    let start = Instant::now();
    assert_eq!(runtime.submit(Annotation::new(), |_: &mut Context| 5).unwrap().wait(), Ok(5));
    let waited = start.elapsed();
    let mut names: Vec<_> = naps.into_iter().map(|nap| nap.wait().expect("it ends")).collect();
    assert!(waited < start.elapsed(), "it waited for work that blocks");
    names.sort_unstable();
    names.dedup();
    let name = |number| Some(format!("blocking-{number}"));
    assert_eq!(names, [name(0), name(1)]);
    let last = blocking.run(|| 7).expect("a thread can be started");
    runtime.shutdown(Shutdown::Drain);
    assert_eq!(last.wait(), Ok(7), "a runtime ends after the work that was asked for");
}

/// Workers go and come back while groups run; nothing is lost, and resources stay exclusive.
#[test]
fn workers_are_taken_away_and_come_back_under_load() {
    let runtime = runtime(3);
    let resource = Resource::new(WorkerId(2), Synchronisation::Scheduling);
    let cell = Arc::new(runtime.own(resource, 0u64));
    for round in 1..=20u64 {
        let mut group = runtime.group();
        for number in 0..300u16 {
            let cell = Arc::clone(&cell);
            let place = TaskPlace::Worker(WorkerId(number % 3));
            group.task(Annotation::new().place(place), move |cx: &mut Context| {
                let home = Annotation::new().on(cell.resource(), Access::Write);
                cx.spawn(home, move |cx: &mut Context| *cell.get(cx) += 1);
            });
        }
        let running = group.enqueue(Locality::Spread).expect("it runs");
        if round % 2 == 1 {
            runtime.remove_worker(WorkerId(2)).expect("two others are there");
            assert!(matches!(runtime.remove_worker(WorkerId(2)), Err(AbsenceError::Absent)));
        } else {
            runtime.add_worker(WorkerId(2)).expect("a thread can be started");
            assert!(matches!(runtime.add_worker(WorkerId(2)), Err(AbsenceError::Present)));
        }
        running.wait().expect("no task panics");
    }
    runtime.remove_worker(WorkerId(2)).expect("two others are there");
    runtime.remove_worker(WorkerId(0)).expect("one other is there");
    assert!(matches!(runtime.remove_worker(WorkerId(1)), Err(AbsenceError::Last)));
    let at_home = Annotation::new().on(resource, Access::Write);
    let there = Arc::clone(&cell);
    let sum = runtime.submit(at_home, move |cx: &mut Context| (cx.worker(), *there.get(cx)));
    let (worker, sum) = sum.expect("a credit").wait().expect("it runs elsewhere");
    assert_eq!((sum, worker), (20 * 300, WorkerId(1)));
    runtime.shutdown(Shutdown::Drain);
}

/// Morsels, each of which waits a moment and notes how many workers of its island are at one.
struct Crowd {
    left: AtomicU64,
    inside: [AtomicU64; 2],
    most: [AtomicU64; 2],
}

impl Morsels for Crowd {
    fn run(&self, _: WorkerId, cx: &mut Context) -> Pull {
        if self.left.fetch_sub(1, Ordering::SeqCst) as i64 <= 0 {
            return Pull::End;
        }
        let island = usize::from(cx.island().0);
        let now = self.inside[island].fetch_add(1, Ordering::SeqCst) + 1;
        self.most[island].fetch_max(now, Ordering::SeqCst);
        std::thread::sleep(Duration::from_micros(100));
        self.inside[island].fetch_sub(1, Ordering::SeqCst);
        Pull::More
    }
}

#[test]
fn groups_that_pollute_the_cache_leave_workers_of_an_island_to_others() {
    let worker =
        |island| WorkerConfig { kind: WorkerKind::Shared, cpus: vec![], island: IslandId(island) };
    let config = Config::new(vec![worker(0), worker(0), worker(0), worker(1), worker(1)]);
    let runtime = Runtime::new(config).expect("a few threads can be started");
    let run = |cache: CacheUse| {
        let crowd = Arc::new(Crowd {
            left: AtomicU64::new(300),
            inside: Default::default(),
            most: Default::default(),
        });
        let mut group = runtime.group();
        group.cache(cache);
        group.pull(Annotation::new(), Arc::clone(&crowd));
        group.enqueue(Locality::Spread).expect("it runs").wait().expect("all morsels are done");
        crowd.most.each_ref().map(|most| most.load(Ordering::SeqCst))
    };
    // Morsels of one island that sleep at once, of some hundred.
    assert!(run(CacheUse::Polluting)[0] > 1, "no limit yet");
    runtime.limit_polluters(IslandId(0), 1);
    assert_eq!(run(CacheUse::Polluting)[0], 1);
    assert!(run(CacheUse::Sensitive)[0] > 1, "others are not limited");
    runtime.limit_polluters(IslandId(0), 2);
    runtime.limit_polluters(IslandId(1), 1);
    let most = run(CacheUse::Polluting);
    assert!(most[0] <= 2 && most[1] <= 1, "{most:?}");
}

/// A guest is a thread that computes for long. Its time is its class's, a quota holds for it, and who is urgent goes before it.
#[test]
fn guests_take_turns_under_quotas_and_are_charged_to_their_class() {
    let runtime = runtime(1);
    let low = Annotation::new().priority(Priority::Low).class(ClassId(7));
    let quota = runtime.quota(1);
    quota.set(0);
    let mut group = runtime.group();
    group.under(&quota);
    let guest = group.guest(low, Locality::Spread, false);
    let mut guest = guest.expect("it runs").expect("it is not simulated");
    assert!(guest.is_due(), "nothing was lent yet");
    // Nobody lends under a quota of nothing; who is cancelled does not wait for ever.
    let looks = AtomicU64::new(0);
    guest.pause(|| looks.fetch_add(1, Ordering::SeqCst) == 1);
    assert_eq!(looks.load(Ordering::SeqCst), 2);
    quota.set(1);
    let before = runtime.counters().class(ClassId(7)).busy_ns;
    for _ in 0..5 {
        guest.pause(|| false);
        while !guest.is_due() {
            std::hint::spin_loop();
        }
    }
    guest.rest();
    let charged = runtime.counters().class(ClassId(7)).busy_ns - before;
    assert!(charged > 1_000_000, "five loans of half a millisecond: {charged} ns");
    // A task keeps the worker until the guest has asked; the urgent ones behind it go first.
    let order = Arc::new(AtomicU64::new(0));
    let (asked, urgent) = (Arc::new(AtomicBool::new(false)), Arc::clone(&order));
    let until = Arc::clone(&asked);
    let (begun, begins) = std::sync::mpsc::channel();
    let keeps =
        runtime.submit(Annotation::new().priority(Priority::High), move |cx: &mut Context| {
            begun.send(()).expect("it is awaited");
            while !until.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
            std::thread::sleep(Duration::from_millis(20));
            cx.spawn(Annotation::new().priority(Priority::High), move |_: &mut Context| {
                urgent.fetch_add(1, Ordering::SeqCst);
            });
        });
    begins.recv().expect("it begins");
    asked.store(true, Ordering::SeqCst);
    guest.pause(|| false);
    assert_eq!(order.load(Ordering::SeqCst), 1, "the urgent task went before");
    keeps.expect("it runs").wait().expect("it ends");
    // A stopped group lends nothing, and asks for nothing.
    guest.group().abort();
    while guest.group().live() > 0 {
        guest.pause(|| false);
    }
    guest.pause(|| false);
    assert!(!guest.is_due());
    drop(guest);
    runtime.shutdown(Shutdown::Drain);
}

#[test]
fn a_guest_is_at_large_while_a_worker_has_nothing_to_do_and_late_ones_lose_their_loan() {
    let runtime = runtime(2);
    let at_large = || {
        let guest = runtime.group().guest(Annotation::new(), Locality::Spread, true);
        guest.expect("it runs").expect("it is not simulated")
    };
    let mut guest = at_large();
    let pauses = |guest: &mut halcyon_task::Guest| {
        let until = Instant::now() + Duration::from_secs(10);
        while guest.is_due() {
            assert!(Instant::now() < until, "workers have nothing to do");
            guest.pause(|| false);
        }
    };
    pauses(&mut guest);
    let ends = Arc::new(AtomicBool::new(false));
    let mut group = runtime.group();
    for worker in [0, 1] {
        let ends = Arc::clone(&ends);
        group.task(
            Annotation::new().place(TaskPlace::Worker(WorkerId(worker))),
            move |_: &mut Context| {
                while !ends.load(Ordering::SeqCst) {
                    std::hint::spin_loop();
                }
            },
        );
    }
    let busy = group.enqueue(Locality::Spread).expect("it runs");
    let until = Instant::now() + Duration::from_secs(10);
    while !guest.is_due() {
        assert!(Instant::now() < until, "both workers are busy");
        std::thread::yield_now();
    }
    ends.store(true, Ordering::SeqCst);
    busy.wait().expect("they end");
    guest.rest();
    drop(guest);
    // A guest that keeps its loan for long does not keep the worker.
    let runtime = Runtime::new(Config::shared(1)).expect("a thread can be started");
    let guest = runtime.group().guest(Annotation::new(), Locality::Spread, false);
    let mut guest = guest.expect("it runs").expect("it is not simulated");
    guest.pause(|| false);
    runtime
        .submit(Annotation::new(), |_: &mut Context| ())
        .expect("it runs")
        .wait()
        .expect("it ends");
    assert!(!guest.group().is_done());
}

#[test]
fn a_divided_runtime_binds_its_workers_and_takes_them_home_again() {
    let allowed = halcyon_machine::affinity::get().expect("affinity can be asked for");
    let runtime = Runtime::new(Config::shared(2)).expect("a few threads can be started");
    let processors = |worker| {
        let place = Annotation::new().place(TaskPlace::Worker(WorkerId(worker)));
        let ask = |_: &mut Context| halcyon_machine::affinity::get().expect("it can be asked for");
        runtime.submit(place, ask).expect("it runs").wait().expect("no task panics")
    };
    let parts = |second: u32| {
        let part = |part, cpu| WorkerPart { part, cpus: vec![cpu] };
        [part(Part::Sensitive, allowed[0]), part(Part::Polluting, second)]
    };
    let last = *allowed.last().expect("some processor is allowed");
    runtime.divide(&parts(last)).expect("allowed processors");
    assert_eq!((processors(0), processors(1)), (vec![allowed[0]], vec![last]));
    assert_eq!(runtime.part(WorkerId(1)), Part::Polluting);
    assert_eq!(runtime.workers()[1].config.cpus, [last]);
    assert!(runtime.divide(&parts(4095)).is_err(), "there is no such processor");
    assert!(!runtime.is_divided(), "all or nothing");
    assert_eq!((processors(0), processors(1)), (allowed.clone(), allowed.clone()));
    runtime.divide(&parts(last)).expect("allowed processors");
    // A worker that was away comes back to its part.
    runtime.remove_worker(WorkerId(1)).expect("it is free");
    runtime.add_worker(WorkerId(1)).expect("it was taken away");
    assert_eq!(processors(1), [last]);
    runtime.undivide();
    assert_eq!(processors(1), allowed);
}
