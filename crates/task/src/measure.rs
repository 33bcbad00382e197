//! Measurements of the cost of tasks, on the runtime itself, for the lab.
//!
//! Each function runs its own runtime and returns nanoseconds or counts; the caller repeats and
//! picks. All work is checked: a lost task makes the function panic or wait, never look fast.

use crate::{
    Annotation, ClassId, Config, Context, IslandId, Locality, Priority, Runtime, Shutdown, Step,
    Task, TaskPlace, WorkerConfig, WorkerId, WorkerKind,
};
use halcyon_machine::clock;
use halcyon_machine::counters::ThreadClock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Processor time of the calling thread, ns: time that other threads take of the core does not
/// count.
pub fn thread_cpu_ns() -> u64 {
    halcyon_machine::counters::thread_cpu_ns().unwrap_or(0)
}

/// Spawns `burst` empty tasks a step, `rounds` times.
struct Generator {
    burst: u64,
    rounds: u64,
    started_ns: Option<u64>,
    elapsed_ns: Arc<AtomicU64>,
    annotation: Annotation,
}

impl Task for Generator {
    fn run(&mut self, cx: &mut Context) -> Step {
        let started_ns = *self.started_ns.get_or_insert_with(thread_cpu_ns);
        if self.rounds == 0 {
            self.elapsed_ns.store(thread_cpu_ns() - started_ns, Ordering::Relaxed);
            return Step::Done;
        }
        self.rounds -= 1;
        for _ in 0..self.burst {
            cx.spawn(self.annotation, |_: &mut Context| ());
        }
        Step::Again(cx.annotation())
    }
}

/// Nanoseconds of processor time to spawn and run an empty task on the same worker, with all that a
/// task gets: bands and classes, prefetch window, panic guard, time accounting, a group's count.
/// `burst` tasks wait at a time.
pub fn spawn_run_ns(tasks: u64, burst: u64) -> f64 {
    let runtime = Runtime::new(Config::shared(1)).expect("a thread can be started");
    let elapsed_ns = Arc::new(AtomicU64::new(0));
    let rounds = tasks / burst;
    let mut group = runtime.group();
    let (started_ns, annotation) = (None, Annotation::new());
    let elapsed = Arc::clone(&elapsed_ns);
    let generator = Generator { burst, rounds, started_ns, elapsed_ns: elapsed, annotation };
    group.step_task(Annotation::new(), generator);
    group.enqueue(Locality::OneIsland).expect("it runs").wait().expect("no task panics");
    let ended = runtime.counters().total(|worker| worker.finished);
    assert!(ended + 1 >= rounds * burst, "{ended} tasks ended");
    runtime.shutdown(Shutdown::Drain);
    elapsed_ns.load(Ordering::Relaxed) as f64 / (rounds * burst) as f64
}

/// Nanoseconds of processor time of one step of a task that dispatches itself again, with `width`
/// such tasks.
pub fn again_ns(steps: u64, width: u64) -> f64 {
    struct Hops(u64, Arc<AtomicU64>);
    impl Task for Hops {
        fn run(&mut self, cx: &mut Context) -> Step {
            self.0 -= 1;
            if self.0 > 0 {
                return Step::Again(cx.annotation());
            }
            self.1.store(thread_cpu_ns(), Ordering::Relaxed);
            Step::Done
        }
    }
    let runtime = Runtime::new(Config::shared(1)).expect("a thread can be started");
    let mut group = runtime.group();
    let end_ns = Arc::new(AtomicU64::new(0));
    for _ in 0..width {
        group.step_task(Annotation::new(), Hops(steps / width, Arc::clone(&end_ns)));
    }
    let start = runtime.submit(Annotation::new(), |_: &mut Context| thread_cpu_ns());
    let start_ns = start.expect("a credit").wait().expect("it runs");
    group.enqueue(Locality::OneIsland).expect("it runs").wait().expect("no task panics");
    runtime.shutdown(Shutdown::Drain);
    (end_ns.load(Ordering::Relaxed) - start_ns) as f64 / steps as f64
}

/// The first two processors that this process may use, or one twice.
pub fn two_cpus() -> [u32; 2] {
    let allowed = halcyon_machine::affinity::get().unwrap_or_default();
    let first = allowed.first().copied().unwrap_or(0);
    [first, allowed.get(1).copied().unwrap_or(first)]
}

fn two_workers(kind: WorkerKind) -> Runtime {
    let worker = |cpu| WorkerConfig { kind, cpus: vec![cpu], island: IslandId(0) };
    let config = Config::new(two_cpus().map(worker).to_vec());
    Runtime::new(config).expect("two threads can be started")
}

/// Pushes between two readings of the clock.
const VOLLEY: u64 = 256;

/// Ticks of the clock after each volley.
type Stamps = Arc<Mutex<Vec<u64>>>;

fn volley(cx: &mut Context, left: u64, stamps: Stamps) {
    if left.is_multiple_of(VOLLEY) {
        stamps.lock().expect("it does not panic").push(clock::ticks());
    }
    if left > 0 {
        let other = WorkerId(1 - cx.worker().0);
        cx.spawn(Annotation::new().place(TaskPlace::Worker(other)), move |cx: &mut Context| {
            volley(cx, left - 1, stamps);
        });
    }
}

/// Nanoseconds per push of each volley.
fn per_push(stamps: &[u64]) -> Vec<f64> {
    let ns = |pair: &[u64]| clock::calibration().ns(pair[1].saturating_sub(pair[0])) as f64;
    stamps.windows(2).map(|pair| ns(pair) / VOLLEY as f64).collect()
}

/// Nanoseconds from a push on one worker to its run on another that spins: half of a round trip of
/// two pushes, each a new task. A value for each volley of 256 pushes, some tens of microseconds:
/// where others want the cores, many volleys are disturbed, and some are not.
pub fn push_run_ns(pushes: u64) -> Vec<f64> {
    let runtime = two_workers(WorkerKind::Dedicated);
    let mut group = runtime.group();
    let first = Annotation::new().place(TaskPlace::Worker(WorkerId(0)));
    let (stamps, pushes) = (Stamps::default(), pushes.next_multiple_of(VOLLEY));
    let theirs = Arc::clone(&stamps);
    group.task(first, move |cx: &mut Context| volley(cx, pushes, theirs));
    group.enqueue(Locality::Spread).expect("it runs").wait().expect("no task panics");
    runtime.shutdown(Shutdown::Drain);
    let stamps = stamps.lock().expect("it does not panic");
    assert_eq!(stamps.len() as u64, pushes / VOLLEY + 1, "every push runs");
    per_push(&stamps)
}

/// The baseline of [`push_run_ns`]: two threads that hand pointers to cache lines to and fro
/// through two rings, and nothing else. The line moves too, as a task's does.
pub fn bare_ring_push_ns(pushes: u64) -> Vec<f64> {
    const SLOTS: usize = 64;
    #[repr(align(128))]
    struct Slot(AtomicU64);
    #[repr(align(128))]
    struct Line(AtomicU64);
    let ring =
        || -> Arc<Vec<Slot>> { Arc::new((0..SLOTS).map(|_| Slot(AtomicU64::new(0))).collect()) };
    let lines: Arc<Vec<Line>> = Arc::new((0..=SLOTS).map(|_| Line(AtomicU64::new(0))).collect());
    let (there, back) = (ring(), ring());
    let rounds = (pushes.next_multiple_of(VOLLEY) / 2) as usize;
    let take = |ring: &[Slot], lines: &[Line], round: usize| {
        let slot = &ring[round % SLOTS].0;
        loop {
            let line = slot.load(Ordering::Acquire);
            if line != 0 {
                slot.store(0, Ordering::Relaxed);
                let content = &lines[line as usize].0;
                let count = content.load(Ordering::Relaxed) + 1;
                content.store(count, Ordering::Relaxed);
                return line;
            }
            std::hint::spin_loop();
        }
    };
    let [one, other] = two_cpus();
    let (their_there, their_back, their_lines) = (there.clone(), back.clone(), lines.clone());
    let echo = std::thread::spawn(move || {
        let _ = halcyon_machine::affinity::set(&[other]);
        for round in 0..rounds {
            let line = take(&their_there, &their_lines, round);
            their_back[round % SLOTS].0.store(line, Ordering::Release);
        }
    });
    let main = std::thread::spawn(move || {
        let _ = halcyon_machine::affinity::set(&[one]);
        let mut stamps = vec![clock::ticks()];
        for round in 0..rounds {
            let line = (round % SLOTS) as u64 + 1;
            lines[line as usize].0.store(round as u64, Ordering::Relaxed);
            there[round % SLOTS].0.store(line, Ordering::Release);
            take(&back, &lines, round);
            if (2 * (round as u64 + 1)).is_multiple_of(VOLLEY) {
                stamps.push(clock::ticks());
            }
        }
        per_push(&stamps)
    });
    echo.join().expect("it does not panic");
    main.join().expect("it does not panic")
}

/// Microseconds from [`crate::RunningGroup::abort`] until a running task has seen it, and until
/// nothing of the group is left: medians of `rounds`.
pub fn abort_us(rounds: usize) -> (f64, f64) {
    let runtime = Runtime::new(Config::shared(1)).expect("a thread can be started");
    let (mut seen_us, mut quiet_us) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (runs, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut group = runtime.group();
        let (runs_there, seen_there) = (Arc::clone(&runs), Arc::clone(&seen));
        group.task(Annotation::new(), move |cx: &mut Context| {
            runs_there.store(true, Ordering::Relaxed);
            while !cx.should_stop() {
                std::hint::spin_loop();
            }
            seen_there.store(clock::ticks(), Ordering::Relaxed);
        });
        (0..1000).for_each(|_| group.task(Annotation::new(), |_: &mut Context| ()));
        let running = group.enqueue(Locality::OneIsland).expect("it runs");
        while !runs.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        let (start, start_ticks) = (Instant::now(), clock::ticks());
        running.abort();
        assert!(running.wait().is_err(), "it was aborted");
        quiet_us.push(start.elapsed().as_nanos() as f64 / 1000.0);
        let ticks = seen.load(Ordering::Relaxed).saturating_sub(start_ticks);
        seen_us.push(clock::calibration().ns(ticks) as f64 / 1000.0);
    }
    runtime.shutdown(Shutdown::Drain);
    (median(seen_us), median(quiet_us))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Processor time that this process has used, ns.
fn process_cpu_ns() -> u64 {
    halcyon_machine::counters::process_cpu_ns().unwrap_or(0)
}

/// Share of a core that two idle shared workers use during `time`, in per cent.
pub fn idle_cpu_percent(time: Duration) -> f64 {
    let runtime = Runtime::new(Config::shared(2)).expect("two threads can be started");
    runtime
        .submit(Annotation::new(), |_: &mut Context| ())
        .expect("a credit")
        .wait()
        .expect("runs");
    std::thread::sleep(Duration::from_millis(20));
    let (start, cpu) = (Instant::now(), process_cpu_ns());
    std::thread::sleep(time);
    let used = process_cpu_ns() - cpu;
    let percent = used as f64 * 100.0 / start.elapsed().as_nanos() as f64;
    runtime.shutdown(Shutdown::Drain);
    percent
}

/// The result of asking for very many tasks.
#[derive(Clone, Copy, Debug)]
pub struct Flood {
    /// Tasks that ran.
    pub tasks: u64,
    /// Tasks per second.
    pub per_s: f64,
    /// Growth of the process's resident memory, bytes.
    pub resident_bytes: u64,
    /// Tasks that waited at once, at most: the class's credits.
    pub credits: u32,
}

/// Asks for `tasks` tasks from outside, as fast as credits come back.
pub fn flood(tasks: u64, credits: u32) -> Flood {
    let mut config = Config::shared(2);
    config.credits = [credits; crate::CLASSES];
    let runtime = Runtime::new(config).expect("two threads can be started");
    let ran = Arc::new(AtomicU64::new(0));
    let resident = halcyon_machine::counters::resident_bytes().unwrap_or(0);
    let (start, mut most) = (Instant::now(), resident);
    for number in 0..tasks {
        let ran = Arc::clone(&ran);
        let spawned = runtime.spawn(Annotation::new(), move |_: &mut Context| {
            ran.fetch_add(1, Ordering::Relaxed);
        });
        spawned.expect("the runtime runs");
        if number % 100_000 == 0 {
            most = most.max(halcyon_machine::counters::resident_bytes().unwrap_or(0));
        }
    }
    runtime.shutdown(Shutdown::Drain);
    let per_s = tasks as f64 / start.elapsed().as_secs_f64();
    assert_eq!(ran.load(Ordering::Relaxed), tasks, "every task runs once");
    Flood { tasks, per_s, resident_bytes: most - resident, credits }
}

/// Works for `time` by the clock of the processor.
pub fn burn(time: Duration) {
    let (start, ticks) = (clock::ticks(), clock::calibration().ticks(time));
    while clock::ticks().wrapping_sub(start) < ticks {
        std::hint::spin_loop();
    }
}

/// Latencies of a critical task beside a group that fills all workers.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// From ready to run, median, µs.
    pub p50_us: f64,
    /// From ready to run, 99th percentile, µs.
    pub p99_us: f64,
    /// The longest, µs.
    pub max_us: f64,
    /// Median of the processor time that the worker used from ready to run, µs: the wait caused by
    /// the runtime, without time that other threads took of the core.
    pub p50_cpu_us: f64,
    /// 99th percentile of that, µs.
    pub p99_cpu_us: f64,
    /// The longest of that, µs.
    pub max_cpu_us: f64,
    /// Number of latencies.
    pub count: usize,
}

/// Keeps its worker busy with tasks of the same length until told to stop.
struct Load {
    length: Duration,
    stop: Arc<AtomicBool>,
    runs: Arc<AtomicU64>,
}

impl Task for Load {
    fn run(&mut self, cx: &mut Context) -> Step {
        burn(self.length);
        self.runs.fetch_add(1, Ordering::Relaxed);
        if self.stop.load(Ordering::Relaxed) { Step::Done } else { Step::Again(cx.annotation()) }
    }
}

/// A task of the higher band every `period`, beside a group that fills `workers` workers with tasks
/// of `length`.
pub fn critical_latency(
    workers: usize,
    length: Duration,
    period: Duration,
    count: usize,
) -> Latency {
    let runtime = Runtime::new(Config::shared(workers)).expect("threads can be started");
    let (stop, runs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut group = runtime.group();
    for _ in 0..4 * workers {
        let load = Load { length, stop: Arc::clone(&stop), runs: Arc::clone(&runs) };
        group.step_task(Annotation::new().class(ClassId(1)), load);
    }
    let running = group.enqueue(Locality::Spread).expect("it runs");
    std::thread::sleep(Duration::from_millis(10));
    let cpus: Vec<ThreadClock> = (0..workers as u16)
        .map(|worker| {
            let at = Annotation::new().place(TaskPlace::Worker(WorkerId(worker)));
            let own = runtime.submit(at, |_: &mut Context| ThreadClock::of_this_thread());
            own.expect("a credit").wait().expect("it runs")
        })
        .collect();
    let (sent, received) = std::sync::mpsc::channel();
    for _ in 0..count {
        std::thread::sleep(period);
        let used = cpus.iter().map(|cpu| cpu.ns().unwrap_or(0)).collect::<Vec<_>>();
        let (ready, sent) = (clock::ticks(), sent.clone());
        let urgent = Annotation::new().priority(Priority::Urgent);
        let spawned = runtime.spawn(urgent, move |cx: &mut Context| {
            let waited = clock::calibration().ns(clock::ticks().saturating_sub(ready));
            let used_ns = thread_cpu_ns().saturating_sub(used[usize::from(cx.worker().0)]);
            let _ = sent.send((waited, used_ns));
        });
        spawned.expect("the runtime runs");
    }
    let (mut waits, mut used): (Vec<u64>, Vec<u64>) = received.iter().take(count).unzip();
    stop.store(true, Ordering::Relaxed);
    running.wait().expect("no task panics");
    runtime.shutdown(Shutdown::Drain);
    waits.sort_unstable();
    used.sort_unstable();
    let at = |of: &[u64], share: f64| of[((count - 1) as f64 * share) as usize] as f64 / 1000.0;
    Latency {
        p50_us: at(&waits, 0.5),
        p99_us: at(&waits, 0.99),
        max_us: at(&waits, 1.0),
        p50_cpu_us: at(&used, 0.5),
        p99_cpu_us: at(&used, 0.99),
        max_cpu_us: at(&used, 1.0),
        count,
    }
}

/// Share of the time that the lowest band gets while a higher one would take all of it, per cent.
pub fn floor_percent(time: Duration, length: Duration) -> f64 {
    let runtime = Runtime::new(Config::shared(1)).expect("a thread can be started");
    let stop = Arc::new(AtomicBool::new(false));
    let runs = [0, 1].map(|_| Arc::new(AtomicU64::new(0)));
    let mut group = runtime.group();
    for (band, runs) in [Priority::High, Priority::Low].into_iter().zip(&runs) {
        for _ in 0..8 {
            let load = Load { length, stop: Arc::clone(&stop), runs: Arc::clone(runs) };
            group.step_task(Annotation::new().priority(band), load);
        }
    }
    let running = group.enqueue(Locality::OneIsland).expect("it runs");
    std::thread::sleep(time);
    let [high, low] = runs.map(|runs| runs.load(Ordering::Relaxed) as f64);
    stop.store(true, Ordering::Relaxed);
    running.wait().expect("no task panics");
    runtime.shutdown(Shutdown::Drain);
    low * 100.0 / (high + low)
}
