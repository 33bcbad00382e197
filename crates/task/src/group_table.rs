//! The groups of a runtime by number: how many of their tasks live, where they may run, and how they
//! ended.
//!
//! Invariants, checked by the models `group_ends_after_its_last_task` and
//! `aborted_group_ends_and_drops_every_task`; a planted bug is found by
//! `canary_count_after_the_push_is_caught`:
//! 1. `live` is never below the number of the group's tasks that wait or run. Workers add and
//!    subtract in batches, but never push a task to another worker before its `+1` is in `live`.
//! 2. A number is given out again only when `live` is 0 and no handle is left.

use crate::annotation::{Annotation, CacheUse, IslandId, WorkerId};
use halcyon_base::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, Ordering};
use halcyon_base::sync::{Condvar, Mutex};
use std::error::Error;
use std::fmt;
use std::sync::OnceLock;
use std::task::Waker;

/// A group's place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupId(pub(crate) u32);

impl GroupId {
    /// The number that means no group. Its row never changes: not stopped, on any island.
    pub(crate) const NONE: GroupId = GroupId(0);
    /// As the owner of a worker: the worker was taken away. No group has this number.
    pub(crate) const ABSENT: GroupId = GroupId(u32::MAX);
}

/// Rows that the table begins with: they are found without a second look. Few in tests, so that
/// tables grow.
const FIRST_ROWS: usize = if cfg!(any(test, shuttle)) { 4 } else { 512 };
/// Times that the table can grow; each time by as many rows as it has.
const GROWTHS: usize = 22;

const RUNNING: u32 = 0;
const ABORTED: u32 = 1;
const FAILED: u32 = 2;
const PHASE: u32 = 3;
/// The group has a limit of workers.
const LIMITED: u32 = 4;
/// Where the group's tasks run depends on how it uses the cache.
const CHOOSY: u32 = 8;

/// One row of the table.
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct GroupState {
    /// Tasks that wait or run, at least.
    pub(crate) live: AtomicI64,
    /// `RUNNING`, `ABORTED` or `FAILED`, and `LIMITED` and `CHOOSY`. 0: a task of the group runs without a
    /// further look.
    state: AtomicU32,
    /// How the group uses the cache, as [`CacheUse`]'s number.
    cache: AtomicU8,
    /// Island that the group's tasks stay on, plus 1; 0: any.
    pub(crate) island: AtomicU32,
    /// Band and class that the group was moved to, as [`Annotation::ring`] plus 1; 0: it was not.
    moved: AtomicU32,
    pub(crate) inner: Mutex<Inner>,
    pub(crate) done: Condvar,
}

/// Something to be called with a group's outcome.
pub(crate) type Then = Box<dyn FnOnce(Result<(), GroupError>) + Send>;

/// What changes under a lock.
#[derive(Default)]
pub(crate) struct Inner {
    /// Message of the first panic.
    failure: Option<String>,
    pub(crate) wakers: Vec<Waker>,
    /// Workers that only this group may use.
    pub(crate) owned: Vec<WorkerId>,
    /// The island that counts the group among its neighbours of the cache (none: all do), and as which kind.
    pub(crate) counted: Option<(Option<IslandId>, CacheUse)>,
    /// What follows the group's end.
    pub(crate) then: Option<Then>,
    /// The last handle is gone.
    pub(crate) released: bool,
    /// Wakers of the group's tasks that may suspend, and the places that are free among them.
    sleepers: Vec<Option<Waker>>,
    free_places: Vec<usize>,
}

impl GroupState {
    /// Whether the group's tasks are to be dropped instead of run.
    #[inline]
    pub(crate) fn stopped(&self) -> bool {
        self.state.load(Ordering::Relaxed) & PHASE != RUNNING
    }

    /// Whether the group is neither stopped nor limited, and runs anywhere whatever the cache is divided into.
    #[inline]
    pub(crate) fn plain(&self) -> bool {
        self.state.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn limited(&self) -> bool {
        self.state.load(Ordering::Relaxed) & LIMITED != 0
    }

    /// The group has a limit of workers from now on.
    pub(crate) fn limit(&self) {
        self.state.fetch_or(LIMITED, Ordering::SeqCst);
    }

    /// The group uses the cache in this way.
    pub(crate) fn use_cache(&self, cache: CacheUse) {
        self.cache.store(cache as u8, Ordering::SeqCst);
        if cache != CacheUse::Adaptive {
            self.state.fetch_or(CHOOSY, Ordering::SeqCst);
        }
    }

    pub(crate) fn cache_use(&self) -> CacheUse {
        CacheUse::ALL[usize::from(self.cache.load(Ordering::Relaxed))]
    }

    /// The group's tasks are to be dropped. Wakes the group's sleepers.
    pub(crate) fn abort(&self) {
        let abort = |state| (state & PHASE == RUNNING).then_some(state | ABORTED);
        let _ = self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, abort);
        self.wake_sleepers();
    }

    /// The island that the group's tasks stay on.
    #[inline]
    pub(crate) fn island(&self) -> Option<IslandId> {
        self.island.load(Ordering::Relaxed).checked_sub(1).map(|island| IslandId(island as u16))
    }

    /// The band and class that the group was moved to.
    #[inline]
    fn moved(&self) -> Option<usize> {
        (self.moved.load(Ordering::Relaxed) as usize).checked_sub(1)
    }

    /// Registers a task that may suspend: `make` is told its place and returns its waker.
    pub(crate) fn register<T>(&self, make: impl FnOnce(usize) -> (Waker, T)) -> T {
        let mut inner = self.inner.lock();
        let place = inner.free_places.pop().unwrap_or_else(|| {
            inner.sleepers.push(None);
            inner.sleepers.len() - 1
        });
        let (waker, made) = make(place);
        inner.sleepers[place] = Some(waker);
        made
    }

    /// Takes a task that has ended out of the list.
    pub(crate) fn unregister(&self, place: usize) {
        let mut inner = self.inner.lock();
        let waker = inner.sleepers[place].take();
        inner.free_places.push(place);
        drop(inner);
        drop(waker);
    }

    /// Wakes every task that may be asleep. The caller has said before that they are to end:
    /// a task that registers later, or falls asleep later, sees that.
    pub(crate) fn wake_sleepers(&self) {
        let wakers: Vec<Waker> = self.inner.lock().sleepers.iter().flatten().cloned().collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn add(&self, tasks: i64) {
        self.live.fetch_add(tasks, Ordering::SeqCst);
    }

    /// Notes the first panic; the group's other tasks are dropped.
    pub(crate) fn fail(&self, message: &str) {
        let mut inner = self.inner.lock();
        inner.failure.get_or_insert_with(|| message.to_owned());
        let fail = |state| Some(state & !PHASE | FAILED);
        let _ = self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fail);
        drop(inner);
        self.wake_sleepers();
    }

    pub(crate) fn outcome(&self, inner: &Inner) -> Result<(), GroupError> {
        match self.state.load(Ordering::SeqCst) & PHASE {
            RUNNING => Ok(()),
            ABORTED => Err(GroupError::Aborted),
            _ => Err(GroupError::Panicked(inner.failure.clone().unwrap_or_default())),
        }
    }
}

/// The groups of a runtime.
pub(crate) struct GroupTable {
    first: Box<[GroupState; FIRST_ROWS]>,
    /// Rows that were added: each part has as many as all before it.
    more: [OnceLock<Box<[GroupState]>>; GROWTHS],
    free: Mutex<FreeRows>,
    /// Groups that were moved and have not been given back.
    moved: AtomicU32,
    /// Counts moves: a worker that sees another number sorts what waits with it.
    moves: AtomicU32,
    /// Groups by island and use of the cache.
    neighbours: Box<[Neighbours]>,
    /// What a group of one use and a group of another cost each other on one island.
    costs: [[AtomicU32; 3]; 3],
}

/// The groups on an island, by how they use the cache, that have not ended.
#[derive(Default)]
struct Neighbours([AtomicU32; 3]);

impl Neighbours {
    fn of(&self, cache: CacheUse) -> &AtomicU32 {
        &self.0[cache as usize]
    }
}

/// Costs without measurements: one for each pair of a group that pollutes the cache and one that lives from it.
pub(crate) const COSTS: [[u32; 3]; 3] = [[0, 0, 0], [0, 0, 1], [0, 1, 0]];

/// Numbers of rows without a group.
struct FreeRows {
    numbers: Vec<u32>,
    /// How often the table has grown.
    growths: usize,
}

fn rows(count: usize) -> Box<[GroupState]> {
    (0..count).map(|_| GroupState::default()).collect()
}

impl GroupTable {
    pub(crate) fn new(islands: usize) -> GroupTable {
        let Ok(first) = rows(FIRST_ROWS).try_into() else { unreachable!("there are as many rows") };
        let numbers = (1..FIRST_ROWS as u32).rev().collect();
        GroupTable {
            first,
            more: [const { OnceLock::new() }; GROWTHS],
            free: Mutex::new(FreeRows { numbers, growths: 0 }),
            moved: AtomicU32::new(0),
            moves: AtomicU32::new(0),
            neighbours: (0..islands).map(|_| Neighbours::default()).collect(),
            costs: COSTS.map(|row| row.map(AtomicU32::new)),
        }
    }

    /// Says what groups of two uses cost each other.
    pub(crate) fn set_costs(&self, costs: [[u32; 3]; 3]) {
        for (row, costs) in self.costs.iter().zip(costs) {
            row.iter().zip(costs).for_each(|(cost, given)| cost.store(given, Ordering::SeqCst));
        }
    }

    /// Counts a group on an island, or on all, until it has ended.
    pub(crate) fn count_neighbour(&self, id: GroupId, island: Option<IslandId>, cache: CacheUse) {
        self.each_neighbours(island, |of| {
            of.of(cache).fetch_add(1, Ordering::SeqCst);
        });
        self.state(id).inner.lock().counted = Some((island, cache));
    }

    fn each_neighbours(&self, island: Option<IslandId>, each: impl FnMut(&Neighbours)) {
        match island {
            Some(island) => [&self.neighbours[usize::from(island.0)]].into_iter().for_each(each),
            None => self.neighbours.iter().for_each(each),
        }
    }

    /// What a group that uses the cache in this way and the groups of an island would cost each other.
    pub(crate) fn neighbours_hurt(&self, island: IslandId, cache: CacheUse) -> u64 {
        let neighbours = &self.neighbours[usize::from(island.0)];
        let cost = |other: CacheUse| {
            let cost = self.costs[cache as usize][other as usize].load(Ordering::Relaxed);
            u64::from(cost) * u64::from(neighbours.of(other).load(Ordering::SeqCst))
        };
        CacheUse::ALL.into_iter().map(cost).sum()
    }

    /// Whether both groups that live from an island's cache and groups that pollute it are there.
    pub(crate) fn is_contested(&self, island: IslandId) -> bool {
        let neighbours = &self.neighbours[usize::from(island.0)];
        let is_there = |cache| neighbours.of(cache).load(Ordering::Relaxed) > 0;
        is_there(CacheUse::Sensitive) && is_there(CacheUse::Polluting)
    }

    /// The number of a row without a group; the table grows where there is none.
    ///
    /// Panics: beyond two thousand million groups at once.
    pub(crate) fn take(&self) -> GroupId {
        let mut free = self.free.lock();
        if free.numbers.is_empty() {
            let count = FIRST_ROWS << free.growths;
            let part = self.more.get(free.growths).expect("memory ends before the numbers do");
            part.get_or_init(|| rows(count));
            free.growths += 1;
            free.numbers.extend((count as u32..2 * count as u32).rev());
        }
        GroupId(free.numbers.pop().expect("there is a free row now"))
    }

    /// A group's row.
    #[inline(always)]
    pub(crate) fn state(&self, id: GroupId) -> &GroupState {
        let number = id.0 as usize;
        if number >= FIRST_ROWS {
            return self.added(number);
        }
        &self.first[number]
    }

    #[cold]
    #[inline(never)]
    fn added(&self, number: usize) -> &GroupState {
        let part = (number / FIRST_ROWS).ilog2() as usize;
        let rows = self.more[part].get().expect("a number is given out after its row was made");
        &rows[number - (FIRST_ROWS << part)]
    }

    /// Moves a group that has a handle to the band and the class of an annotation. Its tasks go there when they wait
    /// next, and the waiting ones at the next turns of their workers.
    pub(crate) fn move_to(&self, id: GroupId, annotation: &Annotation) {
        let ring = annotation.ring() as u32 + 1;
        if self.state(id).moved.swap(ring, Ordering::SeqCst) == 0 {
            self.moved.fetch_add(1, Ordering::SeqCst);
        }
        self.moves.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether any group was moved. Costs one load.
    #[inline]
    pub(crate) fn any_moved(&self) -> bool {
        self.moved.load(Ordering::Relaxed) != 0
    }

    /// How often groups were moved.
    #[inline]
    pub(crate) fn moves(&self) -> u32 {
        self.moves.load(Ordering::Relaxed)
    }

    /// A task's annotation with the band and the class that the task's group was moved to, if those are others.
    pub(crate) fn moved(&self, group: GroupId, annotation: &Annotation) -> Option<Annotation> {
        let ring = self.state(group).moved().filter(|ring| *ring != annotation.ring())?;
        Some(annotation.of_ring(ring))
    }

    /// Wakes the sleeping tasks of every group, and those without one.
    pub(crate) fn wake_sleepers(&self) {
        self.first.iter().for_each(GroupState::wake_sleepers);
        let more = self.more.iter().filter_map(OnceLock::get);
        more.for_each(|rows| rows.iter().for_each(GroupState::wake_sleepers));
    }

    /// Subtracts ended tasks; the last one ends the group's run, and `release` frees its workers.
    pub(crate) fn subtract(&self, id: GroupId, tasks: i64, release: impl Fn(WorkerId)) {
        let state = self.state(id);
        if state.live.fetch_sub(tasks, Ordering::SeqCst) == tasks {
            self.ended(id, release);
        }
    }

    #[cold]
    fn ended(&self, id: GroupId, release: impl Fn(WorkerId)) {
        let state = self.state(id);
        let mut inner = state.inner.lock();
        if state.live.load(Ordering::SeqCst) != 0 {
            return;
        }
        for worker in std::mem::take(&mut inner.owned) {
            release(worker);
        }
        if let Some((island, cache)) = inner.counted.take() {
            self.each_neighbours(island, |of| {
                of.of(cache).fetch_sub(1, Ordering::SeqCst);
            });
        }
        state.done.notify_all();
        let wakers = std::mem::take(&mut inner.wakers);
        let then = inner.then.take().map(|then| (then, state.outcome(&inner)));
        if inner.released {
            self.recycle(id, &mut inner);
        }
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
        if let Some((then, outcome)) = then {
            then(outcome);
        }
    }

    pub(crate) fn recycle(&self, id: GroupId, inner: &mut Inner) {
        *inner = Inner::default();
        let state = self.state(id);
        state.state.store(RUNNING, Ordering::SeqCst);
        state.island.store(0, Ordering::SeqCst);
        state.cache.store(CacheUse::Adaptive as u8, Ordering::SeqCst);
        if state.moved.swap(0, Ordering::SeqCst) != 0 {
            self.moved.fetch_sub(1, Ordering::SeqCst);
        }
        self.free.lock().numbers.push(id.0);
    }
}

/// Reasons for which a group was not enqueued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnqueueError {
    /// The runtime has no such island.
    NoSuchIsland(IslandId),
    /// Only `free` workers of the island belong to no group. Worth retrying once a group ends.
    NotFree {
        /// Workers without a group.
        free: usize,
    },
    /// The runtime is shutting down.
    ShutDown,
}

impl fmt::Display for EnqueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EnqueueError::NoSuchIsland(island) => write!(f, "there is no island {}", island.0),
            EnqueueError::NotFree { free } => write!(f, "only {free} workers are free"),
            EnqueueError::ShutDown => f.write_str("the runtime is shutting down"),
        }
    }
}

impl Error for EnqueueError {}

/// Reasons for which a group failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupError {
    /// The group was aborted.
    Aborted,
    /// A task panicked with this message; the others were dropped.
    Panicked(String),
    /// The time given to `RunningGroup::wait_for` is over; the group goes on.
    TimedOut,
    /// A simulated runtime has nothing left to run, and the group has not ended.
    Stuck,
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupError::Aborted => f.write_str("the group was aborted"),
            GroupError::Panicked(message) => write!(f, "a task panicked: {message}"),
            GroupError::TimedOut => f.write_str("the group has not ended in time"),
            GroupError::Stuck => f.write_str("nothing is left to run, and the group has not ended"),
        }
    }
}

impl Error for GroupError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_grows_and_rows_stay_where_they_are() {
        let table = GroupTable::new(1);
        let ids: Vec<GroupId> = (0..1000).map(|_| table.take()).collect();
        for (number, &id) in ids.iter().enumerate() {
            assert_ne!(id, GroupId::NONE);
            table.state(id).add(number as i64 + 1);
        }
        for (number, &id) in ids.iter().enumerate() {
            assert_eq!(table.state(id).live.load(Ordering::SeqCst), number as i64 + 1);
        }
        table.recycle(ids[7], &mut table.state(ids[7]).inner.lock());
        assert_eq!(table.take(), ids[7], "a number is given out again");
    }
}
