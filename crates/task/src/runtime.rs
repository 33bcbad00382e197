//! A runtime: its workers, the doors for threads outside, and its end.

use crate::annotation::{Annotation, ClassId, Resource, Synchronisation, WorkerId};
use crate::clock::Clock;
use crate::config::{Config, StartError, Withheld, WorkerKind};
use crate::counters::{Counters, WorkerCounters};
use crate::credit::Busy;
use crate::group::Group;
use crate::group_table::GroupId;
use crate::guard::Guard;
use crate::reply::{Reply, reply};
use crate::resource::Owned;
use crate::worker::shared::{DRAINING, HomeMode, STOPPING, Shared};
use crate::worker::simulation::Simulation;
use crate::worker::task::{Once, Task};
use crate::worker::{self, Context, outside_workers};
use halcyon_base::sync::atomic::{AtomicU64, Ordering};
use halcyon_base::sync::{Arc, Mutex, thread};
use halcyon_machine::schedule::{self, Policy};
use halcyon_machine::{affinity, memory};
use std::fmt;
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
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
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
            let (worker, started) =
                (Context::new(WorkerId(number as u16), &shared), started.clone());
            let run = move || {
                let placed = place(&worker.shared.config, number);
                let _ = worker.shared.workers[number].thread.set(thread::current());
                let go = placed.is_ok();
                let _ = started.send(placed);
                drop(started);
                if go {
                    worker.work();
                }
            };
            let thread = thread::Builder::new().name(format!("worker-{number}")).spawn(run);
            runtime.threads.lock().push(thread.map_err(StartError::System)?);
        }
        drop(started);
        if !cfg!(shuttle) {
            let placed = results.into_iter().collect::<io::Result<Vec<_>>>();
            let placed = placed.map_err(StartError::System)?;
            runtime.withheld.extend(placed.into_iter().flatten());
        }
        Ok(runtime)
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
        let turn = self.shared.next_home.fetch_add(1, Ordering::Relaxed);
        Resource::new(WorkerId((turn % self.worker_count()) as u16), synchronisation)
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
        outside_workers("waits for a credit");
        self.shared.check_place(&annotation);
        let class = class_of(&annotation);
        let credits = &self.shared.credits[usize::from(class.0)];
        let taken = match &self.shared.simulation {
            None => credits.take(|| self.shared.accepts()),
            Some(_) => {
                let mut taken = credits.try_take(1) == 1;
                if !taken {
                    self.run_until_idle();
                    taken = credits.try_take(1) == 1;
                }
                taken
            }
        };
        if !taken || !self.shared.accepts() {
            credits.give(i64::from(taken));
            return Err(Busy { class, task: function });
        }
        self.inject(annotation, Once(Some(function)));
        Ok(())
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
    ///
    /// Panics: if 4,096 groups are composed or run already.
    pub fn group(&self) -> Group {
        Group::new(&self.shared)
    }

    /// Keeps memory that this thread reads optimistically from being freed, while the guard lives.
    /// Hold the guard briefly: nothing is freed meanwhile.
    pub fn pin(&self) -> Guard {
        Guard::new(&self.shared)
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
        self.shared.phase.fetch_max(phase, Ordering::SeqCst);
        self.shared.wake_all();
        if let Some(simulation) = &self.shared.simulation {
            let mut simulation = simulation.lock();
            simulation.run_until(|| false);
            simulation.end();
            return self.shared.epochs.clear();
        }
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            thread.join().expect("workers catch what tasks panic with");
        }
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
            self.shared.phase.fetch_max(STOPPING, Ordering::SeqCst);
            return self.shared.wake_all();
        }
        self.end(Shutdown::Abort);
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("workers", &self.worker_count()).finish_non_exhaustive()
    }
}
