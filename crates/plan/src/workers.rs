//! The workers of a database: how many there are and where, and what the task runtime is told of them.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use halcyon_base::{duty, memory};
use halcyon_machine::topology::Topology;
use halcyon_sql::stack::THREAD_BYTES;
use halcyon_task::{Config, IslandId, Runtime, WorkerConfig, WorkerKind};

/// What a database is told of its workers. They are started by the first statement that needs them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workers {
    /// Workers that share their processors with other threads; 0: one for each processor that no dedicated worker has.
    pub count: usize,
    /// Processors that each get a worker which never sleeps.
    pub dedicated: Vec<u32>,
    /// Priority under `SCHED_FIFO`, 1 to 99, of dedicated workers.
    pub fifo: Option<u8>,
    /// Each analytical statement runs on a thread of its own, with DataFusion's exchanges: the slow twin, for
    /// tests and comparisons.
    #[doc(hidden)]
    pub own_threads: bool,
    /// The workers take turns on the thread that reads a statement's rows, in an order that the seed decides and in
    /// virtual time: the deterministic twin, for tests. Only for sessions of programs that embed the database.
    #[doc(hidden)]
    pub simulated: Option<u64>,
}

/// Workers that an island of the task runtime may have.
const ISLAND_MAX: usize = 64;

/// The configuration of the task runtime on a machine.
pub(crate) fn config(workers: &Workers, topology: &Topology) -> Config {
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
        true => (WorkerKind::Shared, 0, Vec::new()),
        false => {
            let island = island_of(free[number % free.len()]);
            let there = free.iter().copied().filter(|cpu| island_of(*cpu) == island);
            (WorkerKind::Shared, island, there.collect())
        }
    });
    let dedicated = workers.dedicated.iter();
    let dedicated = dedicated.map(|&cpu| (WorkerKind::Dedicated, island_of(cpu), vec![cpu]));
    let mut members = HashMap::new();
    let fits = |(_, island, _): &(WorkerKind, u32, Vec<u32>)| {
        let members: &mut usize = members.entry(*island).or_default();
        *members += 1;
        *members <= ISLAND_MAX
    };
    let placed: Vec<_> = dedicated.chain(shared).filter(fits).collect();
    let mut islands: Vec<u32> = placed.iter().map(|(_, island, _)| *island).collect();
    islands.sort_unstable();
    islands.dedup();
    let number = |island| islands.iter().position(|known| *known == island).unwrap_or(0);
    let is_everywhere = islands.len() == 1 && workers.dedicated.is_empty();
    let worker = |(kind, island, cpus): (WorkerKind, u32, Vec<u32>)| WorkerConfig {
        kind,
        // Without a reason to be anywhere the system may move them.
        cpus: if is_everywhere { Vec::new() } else { cpus },
        island: IslandId(number(island) as u16),
    };
    let mut config = Config::new(placed.into_iter().map(worker).collect());
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
    let topology = Topology::of_this_machine_or_flat();
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
