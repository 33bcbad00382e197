//! Masks of the shared caches for the workers' processors: which workers fill which part, decided once when masks are
//! turned on, and followed by the task runtime.
//!
//! Policy: a quarter of an island's workers, one at least, are the polluters' unless `polluting_workers` says how many. What the
//! runtime makes of that stands in `halcyon_task`'s module `parts`: the parts bind only while both kinds of statements are on an
//! island, so that no processor idles for the sake of nobody.
//!
//! Invariant, checked by `workers_fill_the_parts_of_their_processors_before_and_after_they_are_started`: the runtime is divided only while the keeper's
//! partition is on.

use std::collections::{BTreeMap, BTreeSet};

use halcyon_cache::{CpuSplit, GroupRow, Keeper, Place};
use halcyon_task::{Part, Runtime, WorkerPart};
use parking_lot::Mutex;

use crate::config::{Seat, Workers, seats};

/// The fewest processors of workers among which caches are divided.
const PROCESSORS_MIN: usize = 3;
/// One of so many workers of an island is the polluters', unless a setting says how many.
const POLLUTERS_ONE_IN: usize = 4;
/// The reason without a wish for masks.
const OFF: &str = "cache_partitioning is off";

/// The masks of a database's workers.
pub(crate) struct Masks {
    keeper: Keeper,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    has_recovered: bool,
    is_closed: bool,
    /// The wish that was last followed: on or off, and how many workers of an island are the polluters'.
    wished: (bool, usize),
    /// The workers' parts while the partition is on.
    parts: Option<Vec<WorkerPart>>,
}

impl Masks {
    pub fn new(place: Place) -> Masks {
        Masks { keeper: Keeper::new(place, OFF), state: Mutex::default() }
    }

    /// Follows a wish. Returns what has to be told; nothing if all is well or the wish is the last one.
    #[must_use]
    pub fn switch(
        &self,
        is_on: bool,
        polluting: usize,
        workers: &Workers,
        runtime: Option<&Runtime>,
    ) -> Vec<String> {
        let mut state = self.state.lock();
        let mut told = Vec::new();
        if !std::mem::replace(&mut state.has_recovered, true) {
            told = self.keeper.recover();
        }
        let wish = if is_on { (true, polluting) } else { (false, 0) };
        if state.wished == wish || state.is_closed {
            return told;
        }
        state.wished = wish;
        if !is_on {
            told.extend(self.off(&mut state, OFF, runtime));
            return told;
        }
        let divided = self.divide(polluting, workers, runtime);
        match divided {
            Ok(parts) => state.parts = Some(parts),
            Err(why) => {
                let left = self.off(&mut state, &why, runtime);
                told.push([vec![why], left].concat().join("; "));
            }
        }
        told
    }

    /// The workers have been started, and follow a partition that is on.
    #[must_use]
    pub fn started(&self, runtime: &Runtime) -> Vec<String> {
        let mut state = self.state.lock();
        let Some(parts) = &state.parts else { return Vec::new() };
        let Err(error) = runtime.divide(parts) else { return Vec::new() };
        let why = unbound(&error);
        let left = self.off(&mut state, &why, Some(runtime));
        vec![[vec![why], left].concat().join("; ")]
    }

    /// Gives the caches back, and keeps them whole from now on. Returns what stays.
    #[must_use]
    pub fn close(&self, runtime: Option<&Runtime>) -> Vec<String> {
        let mut state = self.state.lock();
        state.is_closed = true;
        self.off(&mut state, "the database is closed", runtime)
    }

    pub fn rows(&self) -> Vec<GroupRow> {
        self.keeper.rows()
    }

    fn off(&self, state: &mut State, why: &str, runtime: Option<&Runtime>) -> Vec<String> {
        state.parts = None;
        if let Some(runtime) = runtime.filter(|runtime| runtime.is_divided()) {
            runtime.undivide();
        }
        self.keeper.turn_off(why)
    }

    /// Turns the partition on for the workers' processors. Errors: why not, in one line.
    fn divide(
        &self,
        polluting: usize,
        workers: &Workers,
        runtime: Option<&Runtime>,
    ) -> Result<Vec<WorkerPart>, String> {
        if workers.simulated.is_some() || workers.own_threads {
            return Err("the cache is not partitioned: statements run on no workers".to_owned());
        }
        let seats = seats(workers, &workers.topology());
        let islands = islands(&seats);
        let count: usize = islands.values().map(BTreeSet::len).sum();
        if count < PROCESSORS_MIN {
            return Err(format!(
                "the cache is not partitioned: the workers have {count} processors, and {PROCESSORS_MIN} are the least"
            ));
        }
        let split = split(&islands, polluting);
        self.keeper.turn_on(&split)?;
        let parts = parts(&seats, &split, workers.bed.is_none());
        if let Some(runtime) = runtime {
            runtime.divide(&parts).map_err(|error| unbound(&error))?;
        }
        Ok(parts)
    }
}

fn unbound(error: &std::io::Error) -> String {
    format!("the cache is not partitioned: a worker cannot be bound to its processors: {error}")
}

/// The workers' processors by island.
fn islands(seats: &[Seat]) -> BTreeMap<u32, BTreeSet<u32>> {
    let mut islands: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for seat in seats {
        islands.entry(seat.island).or_default().extend(seat.cpu);
    }
    islands
}

/// The processors that are the polluters', and those that are the sensitive's.
fn split(islands: &BTreeMap<u32, BTreeSet<u32>>, polluting: usize) -> CpuSplit {
    let mut all = CpuSplit::default();
    for cpus in islands.values() {
        let cpus: Vec<u32> = cpus.iter().copied().collect();
        let count = if polluting == 0 { cpus.len() / POLLUTERS_ONE_IN } else { polluting };
        let of_island = CpuSplit::of(&[cpus], count);
        all.polluting.extend(of_island.polluting);
        all.sensitive.extend(of_island.sensitive);
    }
    all.polluting.sort_unstable();
    all.sensitive.sort_unstable();
    all
}

/// Each worker's part, and the processors of its island that fill it.
fn parts(seats: &[Seat], split: &CpuSplit, is_bound: bool) -> Vec<WorkerPart> {
    let part_of = |cpu: Option<u32>| match cpu {
        Some(cpu) if split.polluting.contains(&cpu) => Part::Polluting,
        Some(cpu) if split.sensitive.contains(&cpu) => Part::Sensitive,
        _ => Part::Whole,
    };
    let part = |seat: &Seat| {
        let part = part_of(seat.cpu);
        let alike = |other: &&Seat| other.island == seat.island && part_of(other.cpu) == part;
        let own = |other: &&Seat| other.kind == seat.kind;
        let is_dedicated = seat.kind == halcyon_task::WorkerKind::Dedicated;
        let cpus: BTreeSet<u32> = match is_dedicated {
            true => seat.cpu.into_iter().collect(),
            false => seats.iter().filter(alike).filter(own).filter_map(|of| of.cpu).collect(),
        };
        WorkerPart { part, cpus: if is_bound { Vec::from_iter(cpus) } else { Vec::new() } }
    };
    seats.iter().map(part).collect()
}

#[cfg(test)]
mod tests;
