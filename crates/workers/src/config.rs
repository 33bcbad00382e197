//! What a database is told of its workers, and what the task runtime is told of that.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use halcyon_base::{duty, memory};
use halcyon_cache::Place;
use halcyon_machine::topology::Topology;
use halcyon_sql::stack::THREAD_BYTES;
use halcyon_task::{Config, IslandId, Runtime, WorkerConfig, WorkerKind};

use crate::matrix::Matrix;

/// What a database is told of its workers. They are started by the first statement that needs them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workers {
    /// Workers that share their processors with other threads; 0: one for each processor that no dedicated worker has.
    pub count: usize,
    /// Processors that each get a worker which never sleeps.
    pub dedicated: Vec<u32>,
    /// Priority under `SCHED_FIFO`, 1 to 99, of dedicated workers.
    pub fifo: Option<u8>,
    /// What statements cost each other on one island, as measured on this machine.
    pub matrix: Option<Arc<Matrix>>,
    /// Each analytical statement runs on a thread of its own, with DataFusion's exchanges: the slow twin, for
    /// tests and comparisons.
    #[doc(hidden)]
    pub own_threads: bool,
    /// The workers take turns on the thread that reads a statement's rows, in an order that the seed decides and in
    /// virtual time: the deterministic twin, for tests. Only for sessions of programs that embed the database.
    #[doc(hidden)]
    pub simulated: Option<u64>,
    /// A machine that is not there, for tests of divided caches.
    #[doc(hidden)]
    pub bed: Option<Bed>,
}

/// A machine that is not there: its processors, to which no worker is bound, and its tree of resctrl.
#[derive(Clone, Debug)]
pub struct Bed(Arc<(Topology, Place)>);

impl Bed {
    /// A machine of these processors, whose caches are divided in this place.
    pub fn new(topology: Topology, place: Place) -> Bed {
        Bed(Arc::new((topology, place)))
    }
}

impl PartialEq for Bed {
    fn eq(&self, other: &Bed) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Bed {}

impl Workers {
    /// The machine's processors.
    pub(crate) fn topology(&self) -> Topology {
        self.bed.as_ref().map_or_else(Topology::of_this_machine_or_flat, |bed| bed.0.0.clone())
    }

    /// Where the machine's caches are divided.
    pub(crate) fn place(&self) -> Place {
        self.bed.as_ref().map_or_else(Place::of_this_machine, |bed| bed.0.1.clone())
    }
}

/// Workers that an island of the task runtime may have.
const ISLAND_MAX: usize = 64;

/// A worker among the machine's processors.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    pub kind: WorkerKind,
    /// The machine's number of the island.
    pub island: u32,
    /// The processor that the worker was counted for.
    pub cpu: Option<u32>,
    /// The processors that the worker may run on.
    cpus: Vec<u32>,
}

/// The workers among a machine's processors, dedicated ones first.
pub(crate) fn seats(workers: &Workers, topology: &Topology) -> Vec<Seat> {
    let island_of = |cpu: u32| {
        let processor = topology.processors.iter().find(|processor| processor.cpu == cpu);
        processor.map_or(0, |processor| processor.island)
    };
    let usable = topology.processors.iter().filter(|processor| processor.allowed);
    let usable = usable.map(|processor| processor.cpu);
    let free: Vec<u32> = usable.filter(|cpu| !workers.dedicated.contains(cpu)).collect();
    let count = match (workers.count, free.len()) {
        (0, 0) if workers.dedicated.is_empty() => 1,
        (0, free) => free,
        (count, _) => count,
    };
    // Shared workers go to the processors in turn, and may use every free one of their island.
    let shared = (0..count).map(|number| match free.is_empty() {
        true => Seat { kind: WorkerKind::Shared, island: 0, cpu: None, cpus: Vec::new() },
        false => {
            let cpu = free[number % free.len()];
            let island = island_of(cpu);
            let there = free.iter().copied().filter(|cpu| island_of(*cpu) == island);
            Seat { kind: WorkerKind::Shared, island, cpu: Some(cpu), cpus: there.collect() }
        }
    });
    let dedicated = workers.dedicated.iter().map(|&cpu| Seat {
        kind: WorkerKind::Dedicated,
        island: island_of(cpu),
        cpu: Some(cpu),
        cpus: vec![cpu],
    });
    let mut members = HashMap::new();
    let fits = |seat: &Seat| {
        let members: &mut usize = members.entry(seat.island).or_default();
        *members += 1;
        *members <= ISLAND_MAX
    };
    dedicated.chain(shared).filter(fits).collect()
}

/// The configuration of the task runtime on a machine.
pub(crate) fn config(workers: &Workers, topology: &Topology) -> Config {
    let seats = seats(workers, topology);
    let mut islands: Vec<u32> = seats.iter().map(|seat| seat.island).collect();
    islands.sort_unstable();
    islands.dedup();
    let number = |island| islands.iter().position(|known| *known == island).unwrap_or(0);
    let is_everywhere =
        (islands.len() == 1 && workers.dedicated.is_empty()) || workers.bed.is_some();
    let worker = |seat: Seat| WorkerConfig {
        kind: seat.kind,
        // Without a reason to be anywhere the system may move them.
        cpus: if is_everywhere { Vec::new() } else { seat.cpus },
        island: IslandId(number(seat.island) as u16),
    };
    let mut config = Config::new(seats.into_iter().map(worker).collect());
    config.fifo_priority = workers.fifo;
    config.lock_memory = workers.fifo.is_some();
    config.stack_bytes = THREAD_BYTES;
    config.on_start = Some(|| {
        // All waits of the engine ask to be relieved first, so this finds those that tasks would do.
        duty::stay_on_duty(|_| panic!("a task waits, and would keep its worker from working"));
        memory::join_pool();
    });
    config.on_rest = Some(memory::at_rest);
    config
}

/// Starts the workers. Without the dedicated ones, if the system refuses them.
pub(crate) fn start(workers: &Workers) -> Runtime {
    if let Some(seed) = workers.simulated {
        let config = Config::shared(workers.count.max(1));
        return Runtime::simulated(config, seed).expect("the configuration has workers");
    }
    let topology = workers.topology();
    let started = Runtime::new(config(workers, &topology)).or_else(|error| {
        tracing::warn!("workers are started as if nothing were said of them: {error}");
        Runtime::new(config(&Workers::default(), &topology))
    });
    let runtime = started.expect("the system gives threads");
    for refused in runtime.withheld() {
        tracing::warn!("{refused}");
    }
    runtime
}

/// What wakes workers that sleep, so that they give memory back.
pub(crate) fn waking(runtime: &Arc<Runtime>) -> Arc<memory::Waking> {
    let runtime: Weak<Runtime> = Arc::downgrade(runtime);
    Arc::new(move || {
        if let Some(runtime) = runtime.upgrade() {
            runtime.rouse();
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(config: &Config) -> Vec<(WorkerKind, u16, Vec<u32>)> {
        let shown = |worker: &WorkerConfig| (worker.kind, worker.island.0, worker.cpus.clone());
        config.workers.iter().map(shown).collect()
    }

    #[test]
    fn islands_have_no_more_workers_than_the_runtime_takes() {
        let machine = Topology::flat(&(0..200).collect::<Vec<_>>());
        let made = config(&Workers::default(), &machine);
        assert_eq!(made.workers.len(), ISLAND_MAX);
    }

    #[test]
    fn workers_are_where_they_are_wanted() {
        use WorkerKind::{Dedicated, Shared};
        let machine = Topology::flat(&[0, 1, 2, 3]);
        let of = |workers: Workers| kinds(&config(&workers, &machine));
        let anywhere = |count| vec![(Shared, 0, Vec::new()); count];
        assert_eq!(of(Workers::default()), anywhere(4));
        assert_eq!(of(Workers { count: 2, ..Workers::default() }), anywhere(2));
        let two = Workers { dedicated: vec![2, 3], ..Workers::default() };
        let shared = (Shared, 0, vec![0, 1]);
        let expected = [(Dedicated, 0, vec![2]), (Dedicated, 0, vec![3]), shared.clone(), shared];
        assert_eq!(of(two), expected);
        let all = Workers { dedicated: vec![0, 1, 2, 3], ..Workers::default() };
        assert_eq!(of(all).len(), 4, "every processor has its worker");
    }
}
