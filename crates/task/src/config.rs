//! What a runtime is made of: its workers, their islands, and how they divide their time.

use crate::annotation::{CLASSES, IslandId, WorkerId};
use crate::shares::{Shares, SharesError};
use halcyon_machine::topology::{Processor, Topology};
use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

/// The kind of a worker: how it uses its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerKind {
    /// The worker shares its core with other threads: it sleeps when it has nothing to do.
    Shared,
    /// The worker owns its core: it never sleeps.
    Dedicated,
}

/// One worker of a [`Config`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerConfig {
    /// The worker's kind.
    pub kind: WorkerKind,
    /// The processors that the worker may run on; empty: all that the process may use.
    pub cpus: Vec<u32>,
    /// The island that the worker belongs to.
    pub island: IslandId,
}

/// The configuration of a runtime.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The workers; islands are numbered from 0 without gaps.
    pub workers: Vec<WorkerConfig>,
    /// Root tasks of a class that may be under way.
    pub credits: [u32; CLASSES],
    /// How classes and bands share the workers' time at first.
    pub shares: Shares,
    /// How many tasks ahead their annotated lines are fetched.
    pub prefetch_distance: usize,
    /// How long a worker stays with one class of a band.
    pub turn: Duration,
    /// Threads that may block, at most ([`crate::Runtime::blocking`]); none is started before it is
    /// needed.
    pub blocking: usize,
    /// How long a step of a future may last before [`crate::poll_proceed`] asks it to let others run.
    pub slice: Duration,
    /// How long a shared worker looks for work before it sleeps.
    pub spin: Duration,
    /// A task that takes longer is counted by name.
    pub long_task: Duration,
    /// Leave synchronisation by scheduling on a worker that waits for its core for over this share
    /// of the time, in per mille; 0: never.
    pub run_delay_per_mille: u32,
    /// Interval of the measurements of that share.
    pub run_delay_period: Duration,
    /// Dedicated workers run under `SCHED_FIFO` with this priority (1 to 99).
    pub fifo_priority: Option<u8>,
    /// The whole process stays in memory, if a worker is dedicated.
    pub lock_memory: bool,
    /// Bytes of a worker's stack; 0: as the system gives threads.
    pub stack_bytes: usize,
    /// Called by each worker's thread before its first task.
    pub on_start: Option<fn()>,
    /// Called by a worker that is about to sleep.
    pub on_rest: Option<fn()>,
}

impl Config {
    /// Workers and islands as given, all else by default.
    pub fn new(workers: Vec<WorkerConfig>) -> Config {
        Config {
            workers,
            credits: [65_536; CLASSES],
            shares: Shares::default(),
            prefetch_distance: 4,
            turn: Duration::from_micros(20),
            blocking: 4,
            slice: Duration::from_micros(200),
            spin: Duration::from_micros(15),
            long_task: Duration::from_millis(2),
            run_delay_per_mille: 10,
            run_delay_period: Duration::from_millis(100),
            fifo_priority: None,
            lock_memory: false,
            stack_bytes: 0,
            on_start: None,
            on_rest: None,
        }
    }

    /// `count` workers that share their cores, in one island.
    pub fn shared(count: usize) -> Config {
        let worker = WorkerConfig { kind: WorkerKind::Shared, cpus: vec![], island: IslandId(0) };
        Config::new(vec![worker; count])
    }

    /// A worker on each of `cpus`, in one island, that owns it.
    pub fn dedicated(cpus: &[u32]) -> Config {
        let worker = |&cpu: &u32| WorkerConfig {
            kind: WorkerKind::Dedicated,
            cpus: vec![cpu],
            island: IslandId(0),
        };
        Config::new(cpus.iter().map(worker).collect())
    }

    /// A worker per core that this process may use, pinned to it; islands as the machine has them,
    /// numbered without gaps.
    pub fn for_machine(topology: &Topology, kind: WorkerKind) -> Config {
        let cores = topology.one_per_core();
        let mut islands: Vec<u32> = cores.iter().map(|core| core.island).collect();
        islands.sort_unstable();
        islands.dedup();
        let island = |number| islands.iter().position(|&known| known == number).unwrap_or(0);
        let worker = |core: &&Processor| WorkerConfig {
            kind,
            cpus: vec![core.cpu],
            island: IslandId(island(core.island) as u16),
        };
        Config::new(cores.iter().map(worker).collect())
    }

    /// Whether a runtime can be made of it.
    pub(crate) fn check(&self) -> Result<(), StartError> {
        let islands = self.workers.iter().map(|worker| usize::from(worker.island.0));
        let mut members = vec![0; self.workers.len()];
        for island in islands {
            *members.get_mut(island).ok_or(StartError::IslandsWithGaps)? += 1;
        }
        let last = members.iter().rposition(|&count| count > 0).ok_or(StartError::NoWorkers)?;
        if members[..last].contains(&0) {
            return Err(StartError::IslandsWithGaps);
        }
        if members.iter().any(|&count| count > 64) || self.workers.len() > 1024 {
            return Err(StartError::TooManyWorkers);
        }
        if self.blocking == 0 {
            return Err(StartError::NoBlockingThreads);
        }
        self.shares.check().map_err(StartError::Shares)
    }
}

/// Something that a [`Config`] asked for and the operating system refused. The runtime works without.
#[derive(Debug)]
#[non_exhaustive]
pub enum Withheld {
    /// A dedicated worker does not run under `SCHED_FIFO`.
    Fifo(WorkerId, io::Error),
    /// Memory is not locked.
    LockedMemory(io::Error),
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Withheld::Fifo(worker, error) => {
                write!(f, "worker {} is scheduled as any other thread: {error}", worker.0)
            }
            Withheld::LockedMemory(error) => write!(f, "memory is not locked: {error}"),
        }
    }
}

/// Reasons for which a runtime was not started.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// A runtime without workers runs nothing.
    NoWorkers,
    /// Some island between 0 and the last one has no worker.
    IslandsWithGaps,
    /// Over 64 workers in an island, or over 1,024 in all.
    TooManyWorkers,
    /// Work that blocks would wait for ever.
    NoBlockingThreads,
    /// Some class or band would get no time.
    Shares(SharesError),
    /// The operating system gave no thread, or not the processors that were asked for.
    System(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::NoWorkers => f.write_str("a runtime needs a worker"),
            StartError::IslandsWithGaps => f.write_str("islands are numbered without gaps"),
            StartError::TooManyWorkers => {
                f.write_str("at most 64 workers in an island, and 1,024 in all")
            }
            StartError::NoBlockingThreads => f.write_str("work that blocks needs a thread"),
            StartError::Shares(error) => error.fmt(f),
            StartError::System(error) => write!(f, "a worker could not be started: {error}"),
        }
    }
}

impl Error for StartError {}
