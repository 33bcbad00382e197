//! A runtime: its workers, the doors for threads outside, and its end.

use crate::admission::Admission;
use crate::annotation::{Annotation, ClassId, IslandId, Resource, Synchronisation, WorkerId};
use crate::block::block_on;
use crate::blocking::Blocking;
use crate::clock::Clock;
use crate::config::{Config, StartError, Withheld, WorkerConfig, WorkerKind};
use crate::counters::{Activity, Counters, WorkerCounters, WorkerView};
use crate::credit::Busy;
use crate::future::{FutureHandle, future_task};
use crate::group::{Group, Quota};
use crate::group_table::GroupId;
use crate::guard::Guard;
use crate::parts::{Part, WorkerPart};
use crate::reply::{Reply, TaskError, reply};
use crate::resource::Owned;
use crate::shares::{Shares, SharesError};
use crate::sleep::Timer;
use crate::worker::shared::{
    BUSY, Bound, DRAINING, HomeMode, PARKED, SPINNING, STOPPING, Shared, WorkerShared,
};
use crate::worker::simulation::Simulation;
use crate::worker::task::{Once, Task};
use crate::worker::{self, Context, outside_workers};
use halcyon_base::sync::atomic::{AtomicU64, Ordering};
use halcyon_base::sync::{Arc, Mutex, thread};
use halcyon_machine::schedule::{self, Policy};
use halcyon_machine::{affinity, memory};
use std::fmt;
use std::future::Future;
use std::io;
use std::time::Duration;

/// The end of a runtime: what happens to the tasks that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Waiting tasks run, and so do the tasks that they spawn.
    Drain,
    /// Waiting tasks are dropped.
    Abort,
}

/// A runtime: workers, and calls for threads outside. Dropping a runtime drops the waiting tasks
/// and joins the workers.
pub struct Runtime {
    shared: Arc<Shared>,
    /// By worker.
    threads: Mutex<Vec<Option<thread::JoinHandle<()>>>>,
    withheld: Vec<Withheld>,
}

/// Places the calling thread as its worker's configuration says. Returns a refusal that does no
/// harm.
fn place(config: &Config, number: usize) -> io::Result<Option<Withheld>> {
    let worker = &config.workers[number];
    if !worker.cpus.is_empty() {
        affinity::set(&worker.cpus)?;
    }
    let priority = config.fifo_priority.filter(|_| worker.kind == WorkerKind::Dedicated);
    let Some(priority) = priority else { return Ok(None) };
    let refused = schedule::set(Policy::Fifo(priority)).err();
    Ok(refused.map(|error| Withheld::Fifo(WorkerId(number as u16), error)))
}

/// Notes the calling thread as a worker's, and binds the thread to the worker's part of the cache if there is one.
fn bind(bound: &mut Bound) {
    if cfg!(shuttle) {
        return;
    }
    bound.thread = affinity::this_thread();
    bound.home = affinity::get().unwrap_or_default();
    if !bound.cpus.is_empty() {
        // Refused: the worker runs where it may, and fills what is filled there.
        let _ = affinity::set(&bound.cpus);
    }
}

/// Forgets the calling thread, which ends, unless the worker has another one already.
fn unbind(bound: &mut Bound) {
    if !cfg!(shuttle) && bound.thread == affinity::this_thread() {
        bound.thread = 0;
    }
}

/// Starts a worker's thread, which tells what was refused to it. A worker that cannot be placed goes
/// away; one without a thread comes back to the caller.
fn start(
    worker: Box<Context>,
    started: std::sync::mpsc::Sender<io::Result<Option<Withheld>>>,
) -> Result<thread::JoinHandle<()>, (io::Error, Box<Context>)> {
    let number = usize::from(worker.worker().0);
    let stack_bytes = worker.shared.config.stack_bytes;
    let hand = Arc::new(Mutex::new(Some(worker)));
    let handed = Arc::clone(&hand);
    let run = move || {
        let worker = handed.lock().take().expect("one thread takes it");
        let placed = place(&worker.shared.config, number);
        bind(&mut worker.shared.workers[number].bound.lock());
        *worker.shared.workers[number].thread.lock() = Some(thread::current());
        match placed {
            Ok(_) => {
                let _ = started.send(placed);
                drop(started);
                worker.shared.config.on_start.into_iter().for_each(|on_start| on_start());
                let shared = Arc::clone(&worker.shared);
                worker.work();
                unbind(&mut shared.workers[number].bound.lock());
            }
            Err(_) => {
                worker.goes_away();
                let _ = started.send(placed);
            }
        }
    };
    let mut builder = thread::Builder::new().name(format!("worker-{number}"));
    if stack_bytes > 0 {
        builder = builder.stack_size(stack_bytes);
    }
    let thread = builder.spawn(run);
    thread.map_err(|error| (error, hand.lock().take().expect("no thread has taken it")))
}

/// Reasons for which a worker was not taken away, or not given back.
#[derive(Debug)]
#[non_exhaustive]
pub enum AbsenceError {
    /// A group owns the worker. Worth retrying once the group has ended.
    Owned,
    /// The worker is the last one that no group owns.
    Last,
    /// The worker was taken away before.
    Absent,
    /// The worker is there.
    Present,
    /// The operating system gave no thread, or not the processors that were asked for.
    System(io::Error),
}

impl fmt::Display for AbsenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AbsenceError::Owned => f.write_str("a group owns the worker"),
            AbsenceError::Last => f.write_str("no other worker is free of groups"),
            AbsenceError::Absent => f.write_str("the worker was taken away before"),
            AbsenceError::Present => f.write_str("the worker is there"),
            AbsenceError::System(error) => write!(f, "the worker could not be started: {error}"),
        }
    }
}

impl std::error::Error for AbsenceError {}

impl Runtime {
    /// Starts the workers.
    ///
    /// Errors: see [`StartError`]; no thread is left then.
    pub fn new(config: Config) -> Result<Runtime, StartError> {
        config.check()?;
        let shared = Arc::new(Shared::new(config, Clock::tsc(), None));
        let withheld = Vec::new();
        let mut runtime =
            Runtime { shared: Arc::clone(&shared), threads: Mutex::default(), withheld };
        let dedicated =
            shared.config.workers.iter().any(|worker| worker.kind == WorkerKind::Dedicated);
        if shared.config.lock_memory && dedicated {
            runtime.withheld.extend(memory::lock_process().err().map(Withheld::LockedMemory));
        }
        let (started, results) = std::sync::mpsc::channel();
        for number in 0..shared.workers.len() {
            let worker = Box::new(Context::new(WorkerId(number as u16), &shared));
            let thread = start(worker, started.clone());
            runtime
                .threads
                .lock()
                .push(Some(thread.map_err(|(error, _)| StartError::System(error))?));
        }
        drop(started);
        if !cfg!(shuttle) {
            let placed = results.into_iter().collect::<io::Result<Vec<_>>>();
            let placed = placed.map_err(StartError::System)?;
            runtime.withheld.extend(placed.into_iter().flatten());
        }
        Ok(runtime)
    }

    /// Takes a worker away: its tasks go to other workers, its resources are latched, and its thread
    /// ends after its step. Tasks for that worker alone run on others until it comes back
    /// ([`Runtime::add_worker`]). Returns at once.
    ///
    /// Errors: see [`AbsenceError`]; nothing changes then. Panics: if there is no such worker.
    pub fn remove_worker(&self, worker: WorkerId) -> Result<(), AbsenceError> {
        assert!(usize::from(worker.0) < self.worker_count(), "there is no worker {}", worker.0);
        let _changing = self.shared.changing.lock();
        let free = self.shared.free_workers(None);
        if !free.contains(&worker) {
            let absent = self.shared.worker(worker).owner() == GroupId::ABSENT;
            return Err(if absent { AbsenceError::Absent } else { AbsenceError::Owned });
        }
        if free.len() == 1 {
            return Err(AbsenceError::Last);
        }
        if !self.shared.own_worker(worker, GroupId::ABSENT) {
            return Err(AbsenceError::Owned);
        }
        self.shared.worker(worker).wake();
        Ok(())
    }

    /// Gives a worker that was taken away back to the runtime.
    ///
    /// Errors: the worker is there ([`AbsenceError::Present`]), or its thread could not be started or
    /// placed; it stays absent then. Panics: if there is no such worker.
    pub fn add_worker(&self, worker: WorkerId) -> Result<(), AbsenceError> {
        assert!(usize::from(worker.0) < self.worker_count(), "there is no worker {}", worker.0);
        let _changing = self.shared.changing.lock();
        let state = self.shared.worker(worker);
        if state.owner() != GroupId::ABSENT {
            return Err(AbsenceError::Present);
        }
        let mut absent = state.absent.lock();
        let Some(context) = absent.take() else {
            // It has not left yet, and stays.
            self.shared.release_worker(worker);
            return Ok(());
        };
        context.comes_back();
        drop(absent);
        let (started, results) = std::sync::mpsc::channel();
        let thread = start(context, started).map_err(|(error, context)| {
            context.goes_away();
            AbsenceError::System(error)
        })?;
        let before = self.threads.lock()[usize::from(worker.0)].replace(thread);
        if let Some(before) = before {
            // It has laid the worker down, and ends.
            before.join().expect("workers catch what tasks panic with");
        }
        if !cfg!(shuttle) {
            let placed = results.recv().unwrap_or(Ok(None));
            placed.map_err(AbsenceError::System)?;
        }
        Ok(())
    }

    /// Parts of the configuration that the operating system refused.
    pub fn withheld(&self) -> &[Withheld] {
        &self.withheld
    }

    /// The deterministic twin: the same workers on the calling thread, in an order that `seed`
    /// decides, in virtual time. It runs while a thread waits for a group or a reply, or by
    /// [`Runtime::run_until_idle`].
    pub fn simulated(config: Config, seed: u64) -> Result<Runtime, StartError> {
        config.check()?;
        let now = Arc::new(AtomicU64::new(1));
        let simulation = Simulation::new(seed, &now);
        let shared = Arc::new(Shared::new(config, Simulation::clock(&now), Some(simulation)));
        for number in 0..shared.workers.len() {
            let worker = Context::new(WorkerId(number as u16), &shared);
            shared.simulation.as_ref().expect("it is simulated").lock().add(worker);
        }
        Ok(Runtime { shared, threads: Mutex::default(), withheld: Vec::new() })
    }

    /// Runs a simulated runtime until nothing is left to run.
    ///
    /// Panics: if the runtime has threads.
    pub fn run_until_idle(&self) {
        outside_workers("drives a simulation");
        self.shared.simulate_until(|| false).expect("a simulated runtime").unwrap_or(());
    }

    /// Takes the core of a simulated worker away for `time`, as an operating system might.
    ///
    /// Panics: if the runtime has threads.
    pub fn preempt(&self, worker: WorkerId, time: Duration) {
        let until_ns = self.shared.clock.ticks() + time.as_nanos() as u64;
        self.shared.worker(worker).preempt(time);
        match &self.shared.simulation {
            Some(simulation) => simulation.lock().preempt(worker, until_ns),
            None if cfg!(shuttle) => {}
            None => panic!("only a simulated worker can be preempted at will"),
        }
    }

    /// How many workers there are.
    pub fn worker_count(&self) -> usize {
        self.shared.workers.len()
    }

    /// How many islands there are.
    pub fn island_count(&self) -> usize {
        self.shared.islands.len()
    }

    /// A resource; homes are given out in turn.
    pub fn resource(&self, synchronisation: Synchronisation) -> Resource {
        let count = self.worker_count();
        let turn = self.shared.next_home.fetch_add(1, Ordering::Relaxed);
        let workers = (0..count).map(|step| WorkerId(((turn + step) % count) as u16));
        let present = |id: &WorkerId| self.shared.worker(*id).owner() != GroupId::ABSENT;
        let home = workers.into_iter().find(present);
        Resource::new(home.expect("some worker is present"), synchronisation)
    }

    /// A value that tasks of `resource` change without a latch.
    ///
    /// Panics: if the resource's home is no worker of this runtime.
    pub fn own<T: Send>(&self, resource: Resource, value: T) -> Owned<T> {
        assert!(usize::from(resource.home().0) < self.worker_count(), "its home is a worker");
        Owned::new(resource, self.shared.id, value)
    }

    /// Spawns a root task from outside; waits while its class has no credit.
    ///
    /// Errors: the runtime is shutting down. Panics: on a worker, which must never wait; if the
    /// runtime has no such worker, island or plane as the annotation asks for.
    pub fn spawn<F>(&self, annotation: Annotation, function: F) -> Result<(), Busy<F>>
    where
        F: FnOnce(&mut Context) + Send + 'static,
    {
        match self.take_credit(&annotation) {
            Ok(()) => {
                self.inject(annotation, Once(Some(function)));
                Ok(())
            }
            Err(class) => Err(Busy { class, task: function }),
        }
    }

    /// Waits for a credit of the annotation's class; the class, if the runtime is shutting down.
    fn take_credit(&self, annotation: &Annotation) -> Result<(), ClassId> {
        outside_workers("waits for a credit");
        self.shared.check_place(annotation);
        let class = class_of(annotation);
        if !self.shared.accepts() {
            return Err(class);
        }
        if self.shared.credits[usize::from(class.0)].try_take(1) == 1 {
            return Ok(());
        }
        match block_on(&self.shared, self.admit(class)) {
            Ok(Ok(credit)) => {
                credit.keep();
                Ok(())
            }
            _ => Err(class),
        }
    }

    /// A credit of a class, when it is this caller's turn: to be awaited, with a limit of time
    /// ([`Timer::within`]) if need be.
    pub fn admit(&self, class: ClassId) -> Admission {
        Admission::new(&self.shared, class)
    }

    /// Spawns a root task from outside, unless its class has no credit left. From anywhere.
    ///
    /// Errors: no credit, or the runtime is shutting down. Panics: if the runtime has no such
    /// worker, island or plane as the annotation asks for.
    pub fn try_spawn<F>(&self, annotation: Annotation, function: F) -> Result<(), Busy<F>>
    where
        F: FnOnce(&mut Context) + Send + 'static,
    {
        self.shared.check_place(&annotation);
        let class = class_of(&annotation);
        let credits = &self.shared.credits[usize::from(class.0)];
        if !self.shared.accepts() || credits.try_take(1) == 0 {
            return Err(Busy { class, task: function });
        }
        self.inject(annotation, Once(Some(function)));
        Ok(())
    }

    /// The runtime's clock, for futures.
    pub fn timer(&self) -> Timer {
        Timer::new(&self.shared)
    }

    /// The runtime's threads that may block.
    pub fn blocking(&self) -> Blocking {
        Blocking::new(&self.shared)
    }

    /// Runs a future on the calling thread, which sleeps while the future is pending.
    ///
    /// Errors: a simulated runtime has nothing left to run, and the future is pending. Panics: on a
    /// worker, which must never wait.
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, TaskError> {
        outside_workers("waits for a future");
        block_on(&self.shared, future)
    }

    /// Spawns a future that runs on the workers; waits while its class has no credit.
    ///
    /// Errors and panics: as [`Runtime::spawn`].
    pub fn spawn_future<F>(
        &self,
        annotation: Annotation,
        future: F,
    ) -> Result<FutureHandle<F::Output>, Busy<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let class = match self.take_credit(&annotation) {
            Ok(()) => {
                let (task, handle) = future_task(&self.shared, GroupId::NONE, future);
                self.inject(annotation, task);
                return Ok(handle);
            }
            Err(class) => class,
        };
        Err(Busy { class, task: future })
    }

    fn inject<T: Task>(&self, annotation: Annotation, task: T) {
        let task = self.shared.make_outside(annotation, GroupId::NONE, true, task);
        self.shared.inject(task);
    }

    /// Spawns a task that has a result: wait for it on a thread, or await it.
    ///
    /// Errors and panics: as [`Runtime::spawn`].
    pub fn submit<R, F>(&self, annotation: Annotation, function: F) -> Result<Reply<R>, Busy<()>>
    where
        R: Send + 'static,
        F: FnOnce(&mut Context) -> R + Send + 'static,
    {
        let (give, wait) = reply(&self.shared);
        let spawned = self.spawn(annotation, move |cx: &mut Context| give.give(function(cx)));
        spawned.map(|()| wait).map_err(|busy| Busy { class: busy.class, task: () })
    }

    /// A group, to be composed and enqueued.
    pub fn group(&self) -> Group {
        Group::new(&self.shared)
    }

    /// A quota of so many workers, for groups that share it ([`Group::under`]).
    ///
    /// Panics: if `workers` is 0.
    pub fn quota(&self, workers: usize) -> Quota {
        Quota::new(&self.shared, workers)
    }

    /// Lets groups that pollute the cache ([`crate::Group::cache`]) run on at most `workers` workers of an island at
    /// once, from their next steps on. At first they may run on all.
    ///
    /// Panics: if `workers` is 0, or there is no such island.
    pub fn limit_polluters(&self, island: IslandId, workers: usize) {
        assert!(workers > 0, "a task runs on at least one worker");
        let quota = self.shared.limits.polluters_of(island);
        let ready = self.shared.limits.change_quota(quota, workers);
        ready.into_iter().for_each(|task| self.shared.inject_counted(task));
    }

    /// As [`Runtime::limit_polluters`], on every island; 0 for no limit.
    pub fn limit_all_polluters(&self, workers: usize) {
        let workers = if workers == 0 { usize::MAX } else { workers };
        for island in 0..self.island_count() {
            self.limit_polluters(IslandId(island as u16), workers);
        }
    }

    /// Says what groups on one island cost each other, by how each uses the cache ([`crate::CacheUse`]'s numbers): a group goes
    /// where the sum over its neighbours is least. At first a group that pollutes the cache and one that lives from it
    /// cost each other 1, and all others nothing.
    pub fn set_neighbour_costs(&self, costs: [[u32; 3]; 3]) {
        self.shared.groups.set_costs(costs);
    }

    /// Divides the runtime: each worker fills the part of its island's cache that is given, and is bound to the processors that
    /// do. Groups then run on the workers that suit them, from their next steps on. A worker of a simulation is bound to nothing.
    ///
    /// Errors: the operating system's, if a worker's thread cannot be bound; all are then as before the runtime was
    /// divided. Panics: if there is not one part for each worker.
    pub fn divide(&self, parts: &[WorkerPart]) -> io::Result<()> {
        assert_eq!(parts.len(), self.worker_count(), "each worker has a part");
        let _changing = self.shared.changing.lock();
        for (worker, part) in self.shared.workers.iter().zip(parts) {
            let mut bound = worker.bound.lock();
            if bound.thread != 0 && !part.cpus.is_empty() {
                let set = affinity::set_thread(bound.thread, &part.cpus);
                if let Err(error) = set {
                    drop(bound);
                    self.bring_home();
                    return Err(error);
                }
            }
            bound.cpus.clone_from(&part.cpus);
        }
        self.shared.parts.set(Some(parts));
        self.rouse();
        Ok(())
    }

    /// Takes the division back: every worker runs everything, on the processors that it had before.
    pub fn undivide(&self) {
        let _changing = self.shared.changing.lock();
        self.bring_home();
    }

    fn bring_home(&self) {
        self.shared.parts.set(None);
        for worker in &self.shared.workers {
            let mut bound = worker.bound.lock();
            let was_bound = !std::mem::take(&mut bound.cpus).is_empty();
            if was_bound && bound.thread != 0 && !bound.home.is_empty() {
                // A thread that has ended meanwhile needs no processors.
                let _ = affinity::set_thread(bound.thread, &bound.home);
            }
        }
        self.rouse();
    }

    /// Whether the runtime is divided.
    pub fn is_divided(&self) -> bool {
        self.shared.parts.are_on()
    }

    /// The part of the cache that a worker fills.
    ///
    /// Panics: if there is no such worker.
    pub fn part(&self, worker: WorkerId) -> Part {
        self.shared.parts.of(usize::from(worker.0))
    }

    /// Keeps memory that this thread reads optimistically from being freed, while the guard lives.
    /// Hold the guard briefly: nothing is freed meanwhile.
    pub fn pin(&self) -> Guard {
        Guard::new(&self.shared)
    }

    /// How classes and bands share the workers' time now.
    pub fn shares(&self) -> Shares {
        self.shared.shares.lock().clone()
    }

    /// Divides the workers' time anew, from each worker's next turn on.
    ///
    /// Errors: some class or band would get no time; nothing changes then.
    pub fn set_shares(&self, shares: Shares) -> Result<(), SharesError> {
        shares.check()?;
        let mut current = self.shared.shares.lock();
        *current = shares;
        self.shared.shares_version.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Has every worker that sleeps wake up, and rest again if there is nothing to do
    /// ([`Config::on_rest`]).
    pub fn rouse(&self) {
        self.shared.workers.iter().for_each(WorkerShared::wake);
    }

    /// The workers as they are now. Without order: each is looked at for itself.
    pub fn workers(&self) -> Vec<WorkerView> {
        let config_of = |worker: &WorkerShared, config: &WorkerConfig| {
            let bound = worker.bound.lock();
            let cpus = if bound.cpus.is_empty() { &config.cpus } else { &bound.cpus };
            WorkerConfig { cpus: cpus.clone(), ..config.clone() }
        };
        let view = |(worker, config): (&WorkerShared, &WorkerConfig)| WorkerView {
            config: config_of(worker, config),
            activity: match worker.state.activity.load(Ordering::Relaxed) {
                BUSY => Activity::Busy,
                SPINNING => Activity::Spinning,
                PARKED => Activity::Parked,
                _ => Activity::Absent,
            },
            group: Some(worker.counters.group.load(Ordering::Relaxed)).filter(|group| *group != 0),
        };
        self.shared.workers.iter().zip(&self.shared.config.workers).map(view).collect()
    }

    /// The workers' counts so far.
    pub fn counters(&self) -> Counters {
        let shared = &self.shared;
        let workers = shared.workers.iter().map(|worker| {
            let counters = &worker.counters;
            let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
            WorkerCounters {
                spawned: load(&counters.spawned),
                finished: load(&counters.finished),
                turns: load(&counters.turns),
                pushed: load(&counters.pushed),
                given: load(&counters.given),
                parks: load(&counters.parks),
                panics: load(&counters.panics),
                dropped: load(&counters.dropped),
                busy_ns: shared.clock.ns(load(&counters.busy_ticks)),
                run_delay_ns: load(&counters.run_delay_ns),
                freed: load(&counters.freed),
                switches: load(&counters.switches),
                latched: worker.mode() != HomeMode::Scheduled,
                classes: worker.classes(&shared.clock),
            }
        });
        Counters {
            workers: workers.collect(),
            injected: shared.injected.load(Ordering::Relaxed),
            long_tasks: shared.incidents.long_tasks(),
            last_panic: shared.incidents.last_panic.lock().clone(),
        }
    }

    /// Ends the runtime and joins every thread.
    ///
    /// Panics: on a worker.
    pub fn shutdown(self, how: Shutdown) {
        self.end(how);
    }

    fn end(&self, how: Shutdown) {
        outside_workers("waits for its runtime to end");
        let phase = if how == Shutdown::Drain { DRAINING } else { STOPPING };
        self.shared.stop(phase);
        if let Some(simulation) = &self.shared.simulation {
            let mut simulation = simulation.lock();
            simulation.run_until(|| false);
            simulation.end();
            while self.shared.offload.run_one() {}
            self.shared.timers.end();
            return self.shared.epochs.clear();
        }
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads.into_iter().flatten() {
            thread.join().expect("workers catch what tasks panic with");
        }
        for worker in &self.shared.workers {
            let absent = worker.absent.lock().take();
            drop(absent);
        }
        self.shared.offload.end();
        self.shared.timers.end();
        self.shared.epochs.clear();
    }
}

fn class_of(annotation: &Annotation) -> ClassId {
    annotation.or(&Annotation::OUTSIDE).class_id()
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if worker::is_worker() {
            // The last handle went with a task: the workers end by themselves.
            self.shared.offload.close();
            return self.shared.stop(STOPPING);
        }
        self.end(Shutdown::Abort);
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("workers", &self.worker_count()).finish_non_exhaustive()
    }
}
