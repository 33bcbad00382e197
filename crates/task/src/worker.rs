//! A worker: the state that it holds alone, and the calls that its tasks can make.
//!
//! A task is handed a [`Context`], and a context holds tasks: `task` (the trait), `slot` (tasks in
//! memory), `queues`, `shared` (what workers see of each other) and `simulation` mean nothing without
//! the worker, and are its parts.
//!
//! Its turns are in `turn`, its rest in `idle`, the measurement whether the core is its own in
//! `delay`.
//! Cost: spawn and run of an empty task: see docs/tasks.md.

mod absence;
mod delay;
mod idle;
pub(crate) mod limits;
mod queues;
pub(crate) mod shared;
pub(crate) mod simulation;
pub(crate) mod sleeper;
pub(crate) mod slot;
pub(crate) mod task;
mod turn;

use crate::annotation::{Annotation, BANDS, IslandId, Priority, TargetKind, TaskPlace, WorkerId};
use crate::clock::Clock;
use crate::config::WorkerKind;
use crate::counters::{Published, bump};
use crate::credit::{Busy, CreditPurse};
use crate::epoch;
use crate::group_table::GroupId;
use crate::planted;
use delay::RunDelay;
use halcyon_base::sync::Arc;
use halcyon_base::sync::atomic::Ordering;
use halcyon_machine::counters::SchedStat;
use queues::{CHUNK, Queues};
use shared::{BUSY, HomeMode, STOPPING, Shared, WorkerShared};
use sleeper::{Sleeper, Suspendable};
use slot::{Chain, HOLDS_CREDIT, Header, Pool, Receiver, TaskRef};
use std::cell::Cell;
use std::fmt;
use std::ops::Range;
use std::task::Waker;
use std::time::Duration;
use task::{Once, Step, Task};

thread_local!(static ON_WORKER: Cell<bool> = const { Cell::new(false) });

/// Whether the calling thread runs tasks. Threads of the model checker share a thread.
pub(crate) fn is_worker() -> bool {
    !cfg!(shuttle) && ON_WORKER.get()
}

/// Calls `run` as a worker does.
pub(crate) fn on_worker<R>(run: impl FnOnce() -> R) -> R {
    let before = ON_WORKER.replace(true);
    let result = run();
    ON_WORKER.set(before);
    result
}

/// Panics on a worker: nothing may wait there.
pub(crate) fn outside_workers(what: &str) {
    assert!(!is_worker(), "a task {what}, and would keep its worker from working");
}

/// Turns above its share that a band is charged for at most: after one task of seconds it does not
/// wait for minutes.
const DEBT_TURNS: u64 = 5000;
/// Tasks on their way to a busy worker before they are pushed.
const CHAIN: usize = 16;

/// A worker, as its tasks see it.
pub struct Context {
    id: WorkerId,
    island: IslandId,
    kind: WorkerKind,
    pub(crate) shared: Arc<Shared>,
    clock: Clock,
    /// The task that runs now.
    pub(crate) running: Option<TaskRef>,
    pub(crate) pool: Pool,
    receivers: [Receiver; BANDS],
    queues: Queues,
    outgoing: Outgoing,
    /// The sleeper of the running task, if it may suspend.
    sleeper: Option<std::sync::Arc<Sleeper>>,
    /// Header of the running task.
    current: Header,
    /// Changes of a group's live count that are not in the table yet.
    delta: (GroupId, i64),
    spawned: u64,
    finished: u64,
    purse: CreditPurse,
    epoch: epoch::Local,
    /// The dedicated group that owns this worker, as of the last turn.
    owner: GroupId,
    /// A group that may stay on this island, as was found in this turn. A group's island is fixed
    /// when it is enqueued, and its number can mean another group only in the next turn, since
    /// tasks of that group have to arrive here first.
    stays: GroupId,
    /// Tasks that wait until the owner has ended.
    aside: Vec<TaskRef>,
    kinds: [slot::TaskType; CHUNK],
    limits: Limits,
    schedstat: Option<SchedStat>,
    delay: RunDelay,
    /// Whether resources at home here are synchronised by scheduling: the same as `HomeMode`, which
    /// other workers read. Only this worker changes either.
    pub(crate) scheduled: bool,
    /// The limited group whose task runs, until its step ends.
    holds_turn: Option<(GroupId, limits::Quotas)>,
    marked_idle: bool,
    /// The runtime stops: waiting tasks are dropped.
    dropping: bool,
    turns: u64,
    /// Version of the shares that `queues` follows.
    shares_version: u32,
    /// The moves of groups that the queues follow.
    moves: u32,
    /// Whether any group had been moved when the turn began.
    any_moved: bool,
}

/// Durations of the configuration, in ticks.
struct Limits {
    turn: u64,
    slice: u64,
    chunk: u64,
    long_task: u64,
    spin: u64,
    delay_period: u64,
    give_spinning: u64,
    give_parked: u64,
}

/// Tasks on their way to other workers.
struct Outgoing {
    chains: Box<[[Chain; BANDS]]>,
    /// Workers with a chain that is not empty.
    touched: Vec<WorkerId>,
}

impl Context {
    pub(crate) fn new(id: WorkerId, shared: &Arc<Shared>) -> Context {
        let worker = shared.worker(id);
        let config = &shared.config;
        let clock = shared.clock.clone();
        let limits = Limits {
            turn: clock.of(config.turn),
            slice: clock.of(config.slice),
            chunk: clock.of(Duration::from_micros(1)).max(1),
            long_task: clock.of(config.long_task),
            spin: clock.of(config.spin),
            delay_period: clock.of(config.run_delay_period),
            give_spinning: clock.of(Duration::from_micros(2)),
            give_parked: clock.of(Duration::from_micros(20)),
        };
        let mut chains = Vec::new();
        chains.resize_with(shared.workers.len(), Default::default);
        Context {
            id,
            island: worker.island,
            kind: worker.kind,
            clock,
            running: None,
            pool: Pool::new(id, &shared.arena),
            receivers: std::array::from_fn(|band| Receiver::new(&worker.inboxes.0[band])),
            queues: Queues::new(&config.shares, DEBT_TURNS * limits.turn, config.prefetch_distance),
            outgoing: Outgoing { chains: chains.into_boxed_slice(), touched: Vec::new() },
            sleeper: None,
            current: Header::OUTSIDE,
            delta: (GroupId::NONE, 0),
            spawned: 0,
            finished: 0,
            purse: CreditPurse::new(),
            epoch: epoch::Local::new(usize::from(id.0)),
            owner: GroupId::NONE,
            stays: GroupId::NONE,
            aside: Vec::new(),
            kinds: [slot::TaskType::default(); CHUNK],
            limits,
            schedstat: None,
            delay: RunDelay::default(),
            scheduled: true,
            holds_turn: None,
            marked_idle: false,
            dropping: false,
            turns: 0,
            shares_version: 0,
            moves: 0,
            any_moved: false,
            shared: Arc::clone(shared),
        }
    }

    /// The id of this worker.
    #[inline]
    pub fn worker(&self) -> WorkerId {
        self.id
    }

    /// The island that the worker belongs to.
    #[inline]
    pub fn island(&self) -> IslandId {
        self.island
    }

    /// How many workers the runtime has.
    pub fn worker_count(&self) -> usize {
        self.shared.workers.len()
    }

    /// Spawns a task. The new task belongs to the running task's group, and has its priority and
    /// class unless `annotation` gives others. Never waits: only roots of requests are limited
    /// ([`Context::try_spawn_root`]).
    ///
    /// Panics: if the runtime has no such worker, island or plane as the annotation asks for.
    #[inline]
    pub fn spawn<F>(&mut self, annotation: Annotation, function: F)
    where
        F: FnOnce(&mut Context) + Send + 'static,
    {
        self.spawn_task(annotation, Once(Some(function)));
    }

    /// As [`Context::spawn`], for a [`Task`].
    #[inline]
    pub fn spawn_task<T: Task>(&mut self, annotation: Annotation, task: T) {
        self.shared.check_place(&annotation);
        let header = self.header(annotation, 0);
        let task = self.pool.make(header, task);
        self.admit(task, header);
    }

    /// As [`Context::spawn_task`], for a task that may [suspend](Context::suspend).
    pub fn spawn_suspendable<T: Task>(&mut self, annotation: Annotation, task: T) {
        let sleeper = Sleeper::new(&self.shared, self.current.group());
        self.spawn_task(annotation, Suspendable::new(task, sleeper));
    }

    /// The waker of the running task: a wake-up makes the task ready again, from any thread.
    /// None for tasks that cannot suspend.
    pub fn waker(&self) -> Option<Waker> {
        self.sleeper.as_ref().map(|sleeper| Waker::from(std::sync::Arc::clone(sleeper)))
    }

    /// The result of a step after which the task waits to be woken by a [waker](Context::waker); a
    /// wake-up during the step counts. The task keeps its annotation, group and credit, and no
    /// references that reclamation protects. It is dropped without another step if its group is
    /// stopped or the runtime shuts down.
    ///
    /// Panics: if the task cannot suspend.
    pub fn suspend(&mut self) -> Step {
        assert!(self.sleeper.is_some(), "only a task with a waker can suspend");
        Step::SUSPEND
    }

    /// Spawns the first task of a request: the task takes a credit of its class and gives it back
    /// when it ends. It carries none of the spawning task's references and holds back no memory on
    /// their account.
    ///
    /// Errors: the class has no credit left; the task comes back. Let others run, then try again.
    /// Panics: as [`Context::spawn`].
    #[inline]
    pub fn try_spawn_root<T: Task>(
        &mut self,
        annotation: Annotation,
        task: T,
    ) -> Result<(), Busy<T>> {
        self.shared.check_place(&annotation);
        let mut header = self.header(annotation, HOLDS_CREDIT);
        if header.annotation.carries() {
            header.set_tag(self.epoch.tag());
        }
        let class = header.annotation.class_id();
        if !self.purse.take(class, &self.shared.credits) {
            return Err(Busy { class, task });
        }
        let task = self.pool.make(header, task);
        self.admit(task, header);
        Ok(())
    }

    /// A task's header; properties that `annotation` does not give are the running task's.
    #[inline]
    fn header(&self, annotation: Annotation, flags: u8) -> Header {
        let annotation = self.resolve(annotation);
        let tag = match annotation.carries() {
            true if self.current.annotation.carries() => self.current.tag(),
            true => self.epoch.tag(),
            false => 0,
        };
        Header::new(annotation, self.current.group(), tag, flags)
    }

    #[inline]
    fn resolve(&self, annotation: Annotation) -> Annotation {
        annotation.or(&self.current.annotation)
    }

    /// Counts a new task and sends it on its way.
    #[inline(always)]
    fn admit(&mut self, task: TaskRef, header: Header) {
        self.spawned += 1;
        if header.annotation.carries() {
            self.epoch.begin(header.tag(), &self.shared.epochs);
        }
        self.count(header.group(), 1);
        self.dispatch(task, &header.annotation, header.group());
    }

    /// Adds to the live count of a group, in batches.
    #[inline(always)]
    fn count(&mut self, group: GroupId, by: i64) {
        if self.delta.0 != group {
            self.settle_group();
            self.delta.0 = group;
        }
        self.delta.1 += by;
    }

    #[inline(never)]
    fn settle_group(&mut self) {
        let (group, by) = std::mem::replace(&mut self.delta, (GroupId::NONE, 0));
        if group == GroupId::NONE {
        } else if by > 0 {
            self.shared.groups.state(group).add(by);
        } else if by < 0 {
            let shared = &self.shared;
            shared.groups.subtract(group, -by, |worker| shared.release_worker(worker));
        }
    }

    /// Queues a task here or sends it to the worker that its annotation names.
    #[inline(always)]
    fn dispatch(&mut self, task: TaskRef, annotation: &Annotation, group: GroupId) {
        let here = if annotation.is(TargetKind::Any) {
            self.owner == GroupId::NONE && self.group_may_stay(group)
        } else {
            annotation.target() == self.id.0
                && (annotation.is(TargetKind::Home) || annotation.is(TargetKind::Worker))
        };
        if here {
            self.queues.push(task, annotation);
        } else {
            self.dispatch_far(task);
        }
    }

    /// Whether the group's tasks may run on this island.
    #[inline]
    fn group_may_stay(&mut self, group: GroupId) -> bool {
        if self.stays == group {
            return true;
        }
        let island = self.shared.groups.state(group).island();
        let stays = island.is_none_or(|island| island == self.island);
        if stays {
            self.stays = group;
        }
        stays
    }

    #[inline(never)]
    fn dispatch_far(&mut self, task: TaskRef) {
        let header = *task.header();
        let annotation = &header.annotation;
        if self.owner == GroupId::ABSENT {
            let target = self.shared.instead(annotation, self.id);
            return self.send(target, annotation.band(), task);
        }
        let target = match annotation.target_kind() {
            TargetKind::Home
                if self.mode_of(WorkerId(annotation.target())) == HomeMode::Latched =>
            {
                self.id
            }
            TargetKind::Any if !self.group_may_stay(header.group()) => {
                let state = self.shared.groups.state(header.group());
                let island = state.island().unwrap_or(self.island);
                self.shared.target(&annotation.place(TaskPlace::Island(island)), Some(self.id))
            }
            TargetKind::Any if self.owner != header.group() && self.owner != GroupId::NONE => {
                self.shared.target(annotation, None)
            }
            _ => self.shared.target(annotation, Some(self.id)),
        };
        if target == self.id {
            if self.owner != GroupId::NONE && self.owner != header.group() {
                self.aside.push(task);
            } else {
                self.queues.push(task, &header.annotation);
            }
            return;
        }
        self.send(target, annotation.band(), task);
    }

    fn send(&mut self, target: WorkerId, band: usize, task: TaskRef) {
        let task = self.pool.detach(task);
        let chains = &mut self.outgoing.chains[usize::from(target.0)];
        let first = chains.iter().all(|chain| chain.count() == 0);
        chains[band].push(task);
        let full = chains[band].count() >= CHAIN;
        if first {
            self.outgoing.touched.push(target);
        }
        let activity = &self.shared.workers[usize::from(target.0)].state.activity;
        if full || activity.load(Ordering::Relaxed) != BUSY {
            self.flush_to(target);
        }
    }

    /// Pushes the tasks on their way to `target`. Counts go first: no worker may see a task that is
    /// not counted.
    fn flush_to(&mut self, target: WorkerId) {
        if self.delta.1 > 0 && !planted::is(planted::LATE_COUNT) {
            self.settle_group();
        }
        let counters = &self.shared.workers[usize::from(self.id.0)].counters;
        counters.spawned.store(self.spawned, Ordering::Release);
        let worker = &self.shared.workers[usize::from(target.0)];
        for (band, chain) in self.outgoing.chains[usize::from(target.0)].iter_mut().enumerate() {
            if chain.count() > 0 {
                bump(&counters.pushed, chain.count() as u64);
                worker.push(band, chain);
            }
        }
        self.outgoing.touched.retain(|&touched| touched != target);
    }

    fn flush(&mut self) {
        while let Some(&target) = self.outgoing.touched.last() {
            self.flush_to(target);
        }
    }

    /// Whether the running task should end early: its group was stopped, the runtime shuts down.
    /// Long kernels ask once per vector.
    #[inline]
    pub fn should_stop(&self) -> bool {
        self.shared.groups.state(self.current.group()).stopped()
            || self.shared.phase.load(Ordering::Relaxed) == STOPPING
    }

    /// Whether something more urgent waits for this worker: end the step soon, and go on with
    /// [`crate::Step::Again`].
    #[inline]
    pub fn should_yield(&self) -> bool {
        let band = self.current.annotation.band();
        self.queues.goes_before(band) || self.arrived(0..band)
    }

    /// Lets the running task take this much virtual time. Nothing on a runtime with threads, where
    /// tasks take time by themselves.
    pub fn simulate_work(&self, time: Duration) {
        self.clock.pass(time.as_nanos() as u64);
    }

    /// The annotation of the running task.
    pub fn annotation(&self) -> Annotation {
        self.current.annotation
    }

    /// Priority of the running task.
    pub fn priority(&self) -> Priority {
        [Priority::Urgent, Priority::High, Priority::Normal, Priority::Low]
            [self.current.annotation.band()]
    }

    /// Drops `value` once no task can see it any more: after every task that ran or carried
    /// references when this was called.
    pub fn retire<T: Send + 'static>(&mut self, value: Box<T>) {
        self.epoch.retire(value, &self.shared.epochs);
    }

    pub(crate) fn group_id(&self) -> GroupId {
        self.current.group()
    }

    pub(crate) fn runtime_id(&self) -> u64 {
        self.shared.id
    }

    #[inline]
    pub(crate) fn mode_of(&self, home: WorkerId) -> HomeMode {
        self.shared.worker(home).mode()
    }

    fn me(&self) -> &WorkerShared {
        &self.shared.workers[usize::from(self.id.0)]
    }

    fn counters(&self) -> &Published {
        &self.me().counters
    }

    /// Whether a turn would run a task.
    pub(crate) fn has_work(&self) -> bool {
        self.queues.any() || self.arrived(0..BANDS)
    }

    /// Whether a turn would do anything: a worker that has left synchronisation by scheduling is
    /// not done before it came back.
    pub(crate) fn wants_turn(&self) -> bool {
        self.has_work() || self.me().mode() != HomeMode::Scheduled
    }

    /// Whether others have pushed tasks of these bands.
    #[inline]
    fn arrived(&self, bands: Range<usize>) -> bool {
        let inboxes = &self.shared.workers[usize::from(self.id.0)].inboxes.0;
        bands.into_iter().any(|band| self.receivers[band].has_task(&inboxes[band]))
    }

    /// Whether every push that has begun has arrived.
    fn quiet(&self) -> bool {
        let inboxes = self.me().inboxes.0.iter();
        inboxes.zip(&self.receivers).all(|(inbox, receiver)| receiver.is_quiet(inbox))
    }
}
impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("worker", &self.id).finish_non_exhaustive()
    }
}
