//! The state that the workers of a runtime and the threads outside share.

use super::Context;
use super::limits::Limits;
use super::simulation::Simulation;
use super::slot::{Arena, Chain, HOLDS_CREDIT, Header, Inbox, Pool, TaskRef};
use super::task::Task;
use crate::annotation::{
    Annotation, BANDS, CacheUse, ClassId, IslandId, Plane, TargetKind, TaskPlace, WorkerId,
};
use crate::clock::Clock;
use crate::config::{Config, WorkerConfig, WorkerKind};
use crate::counters::{ClassCounters, Incidents, Published, PublishedClass};
use crate::credit::Credits;
use crate::epoch::Epochs;
use crate::group_table::{EnqueueError, GroupId, GroupTable};
use crate::offload::Offload;
use crate::parts::Parts;
use crate::shares::Shares;
use crate::timers::Timers;
use halcyon_base::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use halcyon_base::sync::thread::Thread;
use halcyon_base::sync::{Arc, Mutex};
use halcyon_machine::counters::RunTimes;
use std::collections::BTreeMap;
use std::time::Duration;

/// The mode in which the resources at home at a worker are synchronised.
///
/// The worker alone changes it, between tasks. From `Latched` it goes over `Draining` until two
/// epochs have passed, in which every worker was between tasks: only then can no task that
/// began under `Latched` be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum HomeMode {
    /// By scheduling: at home, without a latch.
    Scheduled = 0,
    /// Tasks go home again, but take the latch, as some elsewhere may still hold it.
    Draining = 1,
    /// Anywhere, with the latch.
    Latched = 2,
}

/// Time to which coarse deadlines are rounded up.
const TIMER_UNIT: Duration = Duration::from_millis(1);

/// The worker runs tasks.
pub(crate) const BUSY: u32 = 0;
/// The worker has nothing to do and looks at its inboxes all the time.
pub(crate) const SPINNING: u32 = 1;
/// The worker sleeps, and must be woken.
pub(crate) const PARKED: u32 = 2;
/// The worker was taken away, and has no thread: the thread that pushes a task to it hands the task on.
pub(crate) const ABSENT: u32 = 3;

/// The runtime takes work.
pub(crate) const RUNNING: u32 = 0;
/// The runtime takes no more work from outside, and ends when all tasks have ended.
pub(crate) const DRAINING: u32 = 1;
/// Waiting tasks are dropped.
pub(crate) const STOPPING: u32 = 2;

/// The state of a worker that other threads see.
pub(crate) struct WorkerShared {
    pub(crate) inboxes: Inboxes,
    pub(crate) state: WorkerState,
    pub(crate) thread: Mutex<Option<Thread>>,
    pub(crate) bound: Mutex<Bound>,
    /// The worker itself, while it has no thread.
    pub(crate) absent: Mutex<Option<Box<Context>>>,
    pub(crate) island: IslandId,
    /// The worker's bit in its island's mask.
    pub(crate) bit: u64,
    pub(crate) kind: WorkerKind,
    pub(crate) counters: Published,
    /// Counts by class.
    pub(crate) classes: Box<[PublishedClass]>,
    /// Time for which a simulation took the worker's core away, ns.
    simulated_wait_ns: AtomicU64,
}

/// A worker's thread as the operating system knows it, and the processors that it may use undivided.
#[derive(Default)]
pub(crate) struct Bound {
    /// The kernel's number of the thread; 0: there is none.
    pub(crate) thread: u32,
    pub(crate) home: Vec<u32>,
    /// The processors of the worker's part; empty: those at home.
    pub(crate) cpus: Vec<u32>,
}

/// An inbox per band, on a line of their own: producers write it.
#[repr(align(128))]
pub(crate) struct Inboxes(pub(crate) [Inbox; BANDS]);

/// The state of a worker that producers look at after a push; changes seldom.
#[repr(align(128))]
pub(crate) struct WorkerState {
    /// [`BUSY`], [`SPINNING`] or [`PARKED`].
    pub(crate) activity: AtomicU32,
    /// A [`HomeMode`].
    pub(crate) mode: AtomicU8,
    /// The dedicated group that owns the worker, or [`GroupId::NONE`].
    pub(crate) owner: AtomicU32,
}

impl WorkerShared {
    fn new(id: WorkerId, config: &WorkerConfig, place: usize, arena: &Arena) -> WorkerShared {
        let WorkerConfig { kind, island, .. } = *config;
        WorkerShared {
            inboxes: Inboxes(std::array::from_fn(|_| Inbox::new(id, arena))),
            state: WorkerState {
                activity: AtomicU32::new(BUSY),
                mode: AtomicU8::new(HomeMode::Scheduled as u8),
                owner: AtomicU32::new(GroupId::NONE.0),
            },
            thread: Mutex::new(None),
            bound: Mutex::default(),
            absent: Mutex::new(None),
            island,
            bit: 1 << (place % 64),
            kind,
            counters: Published::default(),
            classes: PublishedClass::all(),
            simulated_wait_ns: AtomicU64::new(0),
        }
    }

    /// Counts of the classes that have run on the worker.
    pub(crate) fn classes(&self, clock: &Clock) -> BTreeMap<ClassId, ClassCounters> {
        let all = self.classes.iter().enumerate();
        let read = |(class, counts): (usize, &PublishedClass)| {
            Some((ClassId(class as u8), counts.read(|ticks| clock.ns(ticks))?))
        };
        all.filter_map(read).collect()
    }

    /// Run times of a worker that has no thread of its own.
    pub(crate) fn simulated_times(&self) -> RunTimes {
        let waiting_ns = self.simulated_wait_ns.load(Ordering::Relaxed);
        RunTimes { running_ns: 0, waiting_ns, slices: 0 }
    }

    pub(crate) fn preempt(&self, time: Duration) {
        self.simulated_wait_ns.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn mode(&self) -> HomeMode {
        match self.state.mode.load(Ordering::Acquire) {
            0 => HomeMode::Scheduled,
            1 => HomeMode::Draining,
            _ => HomeMode::Latched,
        }
    }

    #[inline]
    pub(crate) fn owner(&self) -> GroupId {
        GroupId(self.state.owner.load(Ordering::Acquire))
    }

    /// Wakes the worker if it sleeps. The push before is sequentially consistent, and the worker
    /// looks at its inboxes after it has said that it parks: the producer or the worker sees the
    /// other.
    #[inline]
    pub(crate) fn wake(&self) {
        if self.state.activity.load(Ordering::SeqCst) >= PARKED {
            self.wake_parked();
        }
    }

    #[cold]
    fn wake_parked(&self) {
        let (from, to) = (PARKED, BUSY);
        match self.state.activity.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => self.thread.lock().iter().for_each(Thread::unpark),
            Err(ABSENT) => {
                if let Some(worker) = &mut *self.absent.lock() {
                    worker.hand_on();
                }
            }
            Err(_) => {}
        }
    }

    pub(crate) fn push(&self, band: usize, chain: &mut Chain) {
        self.inboxes.0[band].push(chain);
        self.wake();
    }
}

fn plane_of(kind: WorkerKind) -> Plane {
    match kind {
        WorkerKind::Shared => Plane::Control,
        WorkerKind::Dedicated => Plane::Compute,
    }
}

/// Workers that share a last-level cache.
#[repr(align(128))]
pub(crate) struct Island {
    pub(crate) workers: Vec<WorkerId>,
    /// A bit for each idle worker.
    pub(crate) idle: AtomicU64,
}

pub(crate) struct Shared {
    /// A number that tells runtimes apart.
    pub(crate) id: u64,
    pub(crate) workers: Box<[WorkerShared]>,
    pub(crate) islands: Box<[Island]>,
    pub(crate) groups: GroupTable,
    pub(crate) epochs: Epochs,
    pub(crate) credits: Box<[Credits]>,
    pub(crate) limits: Limits,
    pub(crate) parts: Parts,
    /// Held while workers are taken away or given back.
    pub(crate) changing: Mutex<()>,
    pub(crate) timers: Timers,
    pub(crate) offload: Arc<Offload>,
    pub(crate) phase: AtomicU32,
    /// How often `shares` has changed; workers look at it every turn.
    pub(crate) shares_version: AtomicU32,
    pub(crate) shares: Mutex<Shares>,
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) incidents: Incidents,
    /// Number of tasks that came from outside; counted before any worker can see them.
    pub(crate) injected: AtomicU64,
    pub(crate) outside: Mutex<Pool>,
    pub(crate) arena: Arc<Arena>,
    pub(crate) next_home: AtomicUsize,
    next_worker: AtomicUsize,
    /// Threads that compute beside the workers on processors that these do not use ([`crate::Guest`]).
    pub(crate) guests: AtomicUsize,
    pub(crate) simulation: Option<Mutex<Simulation>>,
}

impl Shared {
    pub(crate) fn new(config: Config, clock: Clock, simulation: Option<Simulation>) -> Shared {
        static NEXT_ID: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let island_count = config.workers.iter().map(|w| usize::from(w.island.0) + 1).max();
        let mut islands: Vec<Island> = (0..island_count.unwrap_or(0))
            .map(|_| Island { workers: Vec::new(), idle: AtomicU64::new(0) })
            .collect();
        let arena = Arena::new(config.workers.len() + 1);
        let workers = config.workers.iter().enumerate().map(|(number, worker)| {
            let (id, island) =
                (WorkerId(number as u16), &mut islands[usize::from(worker.island.0)]);
            island.workers.push(id);
            WorkerShared::new(id, worker, island.workers.len() - 1, &arena)
        });
        let workers: Box<[WorkerShared]> = workers.collect();
        Shared {
            id: NEXT_ID.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            epochs: Epochs::new(workers.len()),
            groups: GroupTable::new(islands.len()),
            parts: Parts::new(workers.len()),
            credits: Credits::by_class(config.credits),
            limits: Limits::new(islands.len()),
            changing: Mutex::new(()),
            offload: Arc::new(Offload::new(config.blocking)),
            timers: Timers::new(clock.of(TIMER_UNIT).max(1), clock.ticks()),
            phase: AtomicU32::new(RUNNING),
            shares_version: AtomicU32::new(0),
            shares: Mutex::new(config.shares.clone()),
            clock,
            incidents: Incidents::default(),
            injected: AtomicU64::new(0),
            outside: Mutex::new(Pool::new(WorkerId(workers.len() as u16), &arena)),
            arena,
            next_home: AtomicUsize::new(0),
            next_worker: AtomicUsize::new(0),
            guests: AtomicUsize::new(0),
            simulation: simulation.map(Mutex::new),
            islands: islands.into_boxed_slice(),
            workers,
            config,
        }
    }

    #[inline]
    pub(crate) fn worker(&self, id: WorkerId) -> &WorkerShared {
        &self.workers[usize::from(id.0)]
    }

    pub(crate) fn accepts(&self) -> bool {
        self.phase.load(Ordering::SeqCst) == RUNNING
    }

    /// A task made by a thread outside the workers.
    pub(crate) fn make_outside<T: Task>(
        &self,
        annotation: Annotation,
        group: GroupId,
        holds_credit: bool,
        task: T,
    ) -> TaskRef {
        let annotation = annotation.or(&Annotation::OUTSIDE);
        let tag = if annotation.carries() { self.epochs.begin_outside() } else { 0 };
        let flags = if holds_credit { HOLDS_CREDIT } else { 0 };
        let header = Header::new(annotation, group, tag, flags);
        self.outside.lock().make(header, task)
    }

    /// Drops a task from outside that was never injected.
    pub(crate) fn discard_outside(&self, task: TaskRef) {
        let header = *task.header();
        if header.annotation.carries() {
            self.epochs.end_outside(header.tag());
        }
        if header.has(HOLDS_CREDIT) {
            self.credits[usize::from(header.annotation.class_id().0)].give(1);
        }
        self.outside.lock().release(task);
    }

    /// Hands a task to the worker that its annotation asks for.
    pub(crate) fn inject(&self, task: TaskRef) {
        let target = self.target(&task.header().annotation, None);
        self.inject_at(target, task);
    }

    /// As [`Shared::inject`], unless the runtime is shutting down: then the task is dropped.
    pub(crate) fn try_inject(&self, task: TaskRef) -> bool {
        // Counted first: a worker that sees a shutdown after this sees the count too, and stays.
        self.injected.fetch_add(1, Ordering::SeqCst);
        if self.accepts() {
            self.inject_counted(task);
            return true;
        }
        self.injected.fetch_sub(1, Ordering::SeqCst);
        self.discard_outside(task);
        false
    }

    fn inject_at(&self, target: WorkerId, task: TaskRef) {
        self.injected.fetch_add(1, Ordering::SeqCst);
        self.push_at(target, task);
    }

    /// As [`Shared::inject`], for a task that was counted before.
    pub(crate) fn inject_counted(&self, task: TaskRef) {
        self.push_at(self.target(&task.header().annotation, None), task);
    }

    /// Counts a task to `group`, of which the caller is a task, and hands it to a worker that the group may
    /// use: an idle one if there is any.
    pub(crate) fn inject_beside(&self, task: TaskRef, group: GroupId) {
        if group != GroupId::NONE {
            self.groups.state(group).add(1);
        }
        let annotation = task.header().annotation;
        let target = match (annotation.target_kind(), self.groups.state(group).island()) {
            (TargetKind::Any, Some(island)) => {
                self.target(&annotation.place(TaskPlace::Island(island)), None)
            }
            _ => self.target(&annotation, None),
        };
        let other = self.other_part(group, target, &annotation);
        self.inject_at(other.unwrap_or(target), task);
    }

    /// Whether a task of the group may begin a step on the worker now, as far as the cache is concerned.
    pub(crate) fn suits(&self, group: GroupId, worker: WorkerId) -> bool {
        let cache = self.groups.state(group).cache_use();
        self.parts.of(usize::from(worker.0)).suits(cache)
            || !self.groups.is_contested(self.worker(worker).island)
    }

    /// A worker of another part for a task that is on one which does not suit its group: of the same island, an idle one if
    /// there is any. `None`: the task stays.
    pub(crate) fn other_part(
        &self,
        group: GroupId,
        worker: WorkerId,
        annotation: &Annotation,
    ) -> Option<WorkerId> {
        let moves = self.parts.are_on() && annotation.may_move();
        if !moves || self.worker(worker).owner() != GroupId::NONE || self.suits(group, worker) {
            return None;
        }
        let island = &self.islands[usize::from(self.worker(worker).island.0)];
        let suited = island.workers.iter().copied();
        let suited =
            suited.filter(|id| self.suits(group, *id) && self.worker(*id).owner() == GroupId::NONE);
        let suited: Vec<WorkerId> = suited.collect();
        if suited.is_empty() { None } else { Some(self.pick(&suited)) }
    }

    /// Workers of an island, a bit each, to which this worker may give what waits with it.
    pub(crate) fn takers(&self, worker: WorkerId, idle: u64) -> u64 {
        let me = self.worker(worker);
        if idle == 0 || !self.parts.are_on() || !self.groups.is_contested(me.island) {
            return idle;
        }
        let part = self.parts.of(usize::from(worker.0));
        let same = |id: &&WorkerId| self.parts.of(usize::from(id.0)) == part;
        let island = &self.islands[usize::from(me.island.0)];
        let same = island.workers.iter().filter(same).map(|id| self.worker(*id).bit);
        idle & same.fold(0, |bits, bit| bits | bit)
    }

    /// Queues the tasks that wait for their turn in a group that was stopped (or in all of them), to
    /// be dropped.
    pub(crate) fn free_waiting(&self, group: Option<GroupId>) {
        let waiting = self.limits.take_waiting(group);
        waiting.into_iter().for_each(|task| self.inject_counted(task));
    }

    fn push_at(&self, target: WorkerId, task: TaskRef) {
        let band = task.header().annotation.band();
        let mut chain = Chain::default();
        chain.push(task);
        self.worker(target).push(band, &mut chain);
    }

    /// Hands a group's tasks to `workers`, in turn where the annotation leaves it open.
    pub(crate) fn inject_spread(&self, tasks: Vec<TaskRef>, workers: &[WorkerId]) {
        self.injected.fetch_add(tasks.len() as u64, Ordering::SeqCst);
        let mut chains: Vec<[Chain; BANDS]> = Vec::new();
        chains.resize_with(self.workers.len(), Default::default);
        let mut turns = workers.iter().cycle();
        for task in tasks {
            let annotation = task.header().annotation;
            let target = match annotation.target_kind() {
                TargetKind::Any => turns.next().copied(),
                _ => None,
            };
            let target = target.unwrap_or_else(|| self.target(&annotation, None));
            chains[usize::from(target.0)][annotation.band()].push(task);
        }
        for (worker, chains) in self.workers.iter().zip(&mut chains) {
            for (band, chain) in
                chains.iter_mut().enumerate().filter(|(_, chain)| chain.count() > 0)
            {
                worker.push(band, chain);
            }
        }
    }

    /// The worker for a task with this annotation, whose place was checked; `here` is preferred
    /// where it will do.
    pub(crate) fn target(&self, annotation: &Annotation, here: Option<WorkerId>) -> WorkerId {
        match annotation.target_kind() {
            TargetKind::Home | TargetKind::Worker => WorkerId(annotation.target()),
            TargetKind::Island => {
                let island = &self.islands[usize::from(annotation.target())];
                match here {
                    Some(here) if island.workers.contains(&here) => here,
                    _ => self.pick(&island.workers),
                }
            }
            TargetKind::Plane => {
                let of_kind =
                    |&id: &WorkerId| plane_of(self.worker(id).kind) as u16 == annotation.target();
                let of_kind: Vec<WorkerId> = self.ids().filter(of_kind).collect();
                match here {
                    Some(here) if of_kind.contains(&here) => here,
                    _ => self.pick(&of_kind),
                }
            }
            TargetKind::Any => match here {
                Some(here) => here,
                None => self.pick_any(),
            },
            TargetKind::Suspended => unreachable!("a task keeps its annotation while it sleeps"),
        }
    }

    /// Queues a task that was woken: where it ran last, if that worker has nothing to do; else on an
    /// idle worker of that island; else where it ran last all the same. From any thread.
    pub(crate) fn ready(&self, mut task: TaskRef, last: WorkerId) {
        let header = task.header_mut();
        if let Some(annotation) = self.groups.moved(header.group(), &header.annotation) {
            header.annotation = annotation;
        }
        let header = *header;
        let annotation = &header.annotation;
        let stays = |island: IslandId| self.worker(last).island == island;
        let known = usize::from(last.0) < self.workers.len();
        let target = match annotation.target_kind() {
            TargetKind::Any if known => match self.groups.state(header.group()).island() {
                Some(island) if !stays(island) => {
                    self.target(&annotation.place(TaskPlace::Island(island)), None)
                }
                _ => self.near(last, header.group()),
            },
            TargetKind::Island if known && stays(IslandId(annotation.target())) => {
                self.near(last, header.group())
            }
            _ => self.target(annotation, known.then_some(last)),
        };
        self.push_at(target, task);
    }

    /// A worker for a task of `group` that ran on `last`.
    fn near(&self, last: WorkerId, group: GroupId) -> WorkerId {
        let mine = self.worker(last);
        let owned = |owner: GroupId| owner != GroupId::NONE && owner != group;
        let divided = self.parts.are_on();
        let suits = |id: WorkerId| !divided || self.suits(group, id);
        if !suits(last) {
            let annotation = Annotation::new();
            return self.other_part(group, last, &annotation).unwrap_or(last);
        }
        if mine.state.activity.load(Ordering::Relaxed) != BUSY && !owned(mine.owner()) {
            return last;
        }
        let island = &self.islands[usize::from(mine.island.0)];
        let idle = island.idle.load(Ordering::Relaxed);
        let free = |id: &WorkerId| {
            let worker = self.worker(*id);
            idle & worker.bit != 0 && !owned(worker.owner()) && suits(*id)
        };
        let found = if idle == 0 { None } else { island.workers.iter().copied().find(free) };
        found.unwrap_or(last)
    }

    /// Tells workers of a deadline that is earlier than they look: the keeper of time, else one that
    /// is parked; workers that are not parked look anyway, before they park at the latest.
    pub(crate) fn wake_keeper(&self) {
        let parked =
            |worker: &&WorkerShared| worker.state.activity.load(Ordering::SeqCst) == PARKED;
        match self.timers.keeper() {
            Some(keeper) => self.worker(WorkerId(keeper)).wake(),
            None => self.workers.iter().find(parked).into_iter().for_each(WorkerShared::wake),
        }
    }

    /// Makes workers drop what waits: tasks in queues, and tasks that sleep. Returns at once.
    pub(crate) fn stop(&self, phase: u32) {
        self.phase.fetch_max(phase, Ordering::SeqCst);
        if phase == STOPPING {
            self.groups.wake_sleepers();
            self.free_waiting(None);
        }
        self.wake_all();
    }

    /// Panics: if there is no such worker, island or plane as the annotation asks for. Called
    /// before the task is counted: a task that cannot run would be waited for in vain.
    #[inline(always)]
    pub(crate) fn check_place(&self, annotation: &Annotation) {
        let (kind, target) = (annotation.target_kind(), usize::from(annotation.target()));
        match kind {
            TargetKind::Any => {}
            TargetKind::Home | TargetKind::Worker if target < self.workers.len() => {}
            _ => self.check_rare_place(kind, target),
        }
    }

    #[cold]
    fn check_rare_place(&self, kind: TargetKind, target: usize) {
        match kind {
            TargetKind::Island => {
                assert!(target < self.islands.len(), "there is no island {target}")
            }
            TargetKind::Plane => {
                let there =
                    self.workers.iter().any(|worker| plane_of(worker.kind) as usize == target);
                assert!(there, "no worker belongs to the plane that a task asks for");
            }
            TargetKind::Suspended => {}
            _ => panic!("there is no worker {target}"),
        }
    }

    fn ids(&self) -> impl Iterator<Item = WorkerId> {
        (0..self.workers.len() as u16).map(WorkerId)
    }

    /// A worker of any island that no group owns: an idle one, else the next in turn.
    fn pick_any(&self) -> WorkerId {
        let count = self.workers.len();
        let first = self.next_worker.fetch_add(1, Ordering::Relaxed);
        let free = |id: &WorkerId| self.worker(*id).owner() == GroupId::NONE;
        let idle = |id: &WorkerId| self.worker(*id).state.activity.load(Ordering::Relaxed) != BUSY;
        let turn = || (0..count).map(|step| WorkerId(((first + step) % count) as u16));
        let found = turn().find(|id| free(id) && idle(id)).or_else(|| turn().find(free));
        found.unwrap_or(WorkerId((first % count) as u16))
    }

    /// One of `workers`: an idle one that no group owns, else one in turn.
    fn pick(&self, workers: &[WorkerId]) -> WorkerId {
        assert!(!workers.is_empty(), "there is a worker where the task is to run");
        let first = self.next_worker.fetch_add(1, Ordering::Relaxed);
        let turn = || (0..workers.len()).map(|step| workers[(first + step) % workers.len()]);
        let free = |id: &WorkerId| self.worker(*id).owner() == GroupId::NONE;
        let idle = |id: &WorkerId| self.worker(*id).state.activity.load(Ordering::Relaxed) != BUSY;
        let found = turn().find(|id| free(id) && idle(id)).or_else(|| turn().find(free));
        found.unwrap_or(workers[first % workers.len()])
    }

    /// A worker for a task that an absent worker was given.
    pub(crate) fn instead(&self, annotation: &Annotation, absent: WorkerId) -> WorkerId {
        let present = |id: &WorkerId| self.worker(*id).owner() != GroupId::ABSENT;
        let target = WorkerId(annotation.target());
        let found = match annotation.target_kind() {
            TargetKind::Home | TargetKind::Worker if present(&target) => target,
            TargetKind::Plane => self.target(annotation, None),
            _ => self.pick(&self.islands[usize::from(self.worker(absent).island.0)].workers),
        };
        let found = if present(&found) { found } else { self.pick_any() };
        if present(&found) { found } else { self.ids().find(present).unwrap_or(found) }
    }

    /// Workers (of an island) that no group owns.
    pub(crate) fn free_workers(&self, island: Option<IslandId>) -> Vec<WorkerId> {
        let wanted = |id: &WorkerId| {
            let worker = self.worker(*id);
            worker.owner() == GroupId::NONE && island.is_none_or(|island| worker.island == island)
        };
        self.ids().filter(wanted).collect()
    }

    /// The island on which a group that uses the cache in this way hurts or is hurt by fewest others; of
    /// several that with the largest share of idle workers.
    pub(crate) fn best_island(&self, cache: CacheUse) -> IslandId {
        let idle_per_mille = |island: &Island| {
            let idle = island.workers.iter().filter(|&&id| {
                let worker = self.worker(id);
                worker.owner() == GroupId::NONE
                    && worker.state.activity.load(Ordering::Relaxed) != BUSY
            });
            idle.count() * 1000 / island.workers.len().max(1)
        };
        let turn = self.next_worker.fetch_add(1, Ordering::Relaxed);
        let count = self.islands.len();
        let best = (0..count).map(|step| (turn + step) % count).max_by_key(|&island| {
            let hurt = self.groups.neighbours_hurt(IslandId(island as u16), cache);
            (std::cmp::Reverse(hurt), idle_per_mille(&self.islands[island]))
        });
        IslandId(best.expect("a runtime has an island") as u16)
    }

    /// Makes `count` workers of an island the property of a group.
    pub(crate) fn own_workers(
        &self,
        island: IslandId,
        count: usize,
        group: GroupId,
    ) -> Result<Vec<WorkerId>, EnqueueError> {
        let mut owned = Vec::new();
        for &id in &self.islands[usize::from(island.0)].workers {
            if owned.len() < count && self.own_worker(id, group) {
                owned.push(id);
            }
        }
        if owned.len() < count || count == 0 {
            let free = owned.len();
            owned.into_iter().for_each(|id| self.release_worker(id));
            return Err(EnqueueError::NotFree { free });
        }
        Ok(owned)
    }

    pub(crate) fn own_worker(&self, id: WorkerId, group: GroupId) -> bool {
        let owner = &self.worker(id).state.owner;
        let none = GroupId::NONE.0;
        owner.compare_exchange(none, group.0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    pub(crate) fn release_worker(&self, id: WorkerId) {
        let worker = self.worker(id);
        worker.state.owner.store(GroupId::NONE.0, Ordering::SeqCst);
        worker.wake();
    }

    /// Whether there was a moment in this call without any task. Counts only grow; the ended are
    /// summed first.
    pub(crate) fn quiescent(&self) -> bool {
        let sum = |count: fn(&Published) -> &AtomicU64| {
            let counts = self.workers.iter().map(|w| count(&w.counters).load(Ordering::SeqCst));
            counts.sum::<u64>()
        };
        let ended = sum(|counters| &counters.finished);
        let begun = self.injected.load(Ordering::SeqCst) + sum(|counters| &counters.spawned);
        ended == begun
    }

    pub(crate) fn wake_all(&self) {
        self.workers.iter().for_each(WorkerShared::wake);
        if !self.accepts() {
            self.credits.iter().for_each(Credits::close);
        }
    }

    /// Drives a simulated runtime until `done`: `Some(Err)` if nothing is left to run before.
    /// `None` if the runtime has threads.
    pub(crate) fn simulate_until(&self, done: impl Fn() -> bool) -> Option<Result<(), ()>> {
        let simulation = self.simulation.as_ref()?;
        let mut simulation = simulation.lock();
        Some(if simulation.run_until(done) { Ok(()) } else { Err(()) })
    }
}
