//! A worker: what it holds alone, how it takes turns, and what its tasks can ask of it.
//!
//! Words: a *turn* is a batch of tasks of one band and class; time is read once per *chunk* of
//! at most 32 tasks or a microsecond, so once per task where tasks take that long.
//! Cost: spawn and run of an empty task: see docs/tasks.md.

use crate::annotation::{Annotation, BANDS, Place, TargetKind, WorkerId};
use crate::clock::Clock;
use crate::counters::{Published, bump};
use crate::credit::CreditPurse;
use crate::epoch;
use crate::group::GroupId;
use crate::planted;
use crate::queues::{CHUNK, Queues};
use crate::shared::{BUSY, Mode, PARKED, RUNNING, SPINNING, STOPPING, Shared, WorkerShared};
use crate::slot::{self, Chain, HOLDS_CREDIT, Header, Pool, Receiver, TaskRef};
use crate::task::{Once, Step, Task};
use crate::{Busy, Group, IslandId, Priority, WorkerKind};
use halcyon_base::sync::atomic::{Ordering, fence};
use halcyon_base::sync::{Arc, hint, thread};
use halcyon_machine::counters::{RunTimes, SchedStat};
use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

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

/// Tasks taken from one inbox per turn.
const DRAIN: usize = 128;
/// Tasks on their way to a busy worker before they are pushed.
const CHAIN: usize = 16;
/// Retired things before a worker tries to free some.
const GARBAGE: usize = 64;

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
    /// Of the running task.
    current: Header,
    /// Changes of a group's live count that are not in the table yet.
    delta: (GroupId, i64),
    spawned: u64,
    finished: u64,
    purse: CreditPurse,
    epoch: epoch::Local,
    /// The dedicated group that owns this worker, as of the last turn.
    owner: GroupId,
    /// A group that may stay on this island, as was found in this turn: its island is given when it
    /// is enqueued, and its number can mean another group only in the next turn, as tasks of that
    /// one have to arrive here first.
    stays: GroupId,
    /// Tasks that wait until the owner has ended.
    aside: Vec<TaskRef>,
    kinds: [slot::Kind; CHUNK],
    limits: Limits,
    schedstat: Option<SchedStat>,
    delay: RunDelay,
    marked_idle: bool,
    /// The runtime stops: what waits is dropped.
    dropping: bool,
    turns: u64,
}

/// Durations of the configuration, in ticks.
struct Limits {
    turn: u64,
    chunk: u64,
    long_task: u64,
    spin: u64,
    delay_period: u64,
    give_spinning: u64,
    give_parked: u64,
}

/// When the run delay was measured last, and what it was.
#[derive(Default)]
struct RunDelay {
    due_ticks: u64,
    last: RunTimes,
    /// Measurements in a row that found the core to be the worker's own.
    quiet: u32,
    /// Epoch at which draining began.
    draining_since: u64,
}

/// Quiet measurements before a worker trusts its core again.
const QUIET: u32 = 3;

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
            chunk: clock.of(std::time::Duration::from_micros(1)).max(1),
            long_task: clock.of(config.long_task),
            spin: clock.of(config.spin),
            delay_period: clock.of(config.run_delay_period),
            give_spinning: clock.of(std::time::Duration::from_micros(2)),
            give_parked: clock.of(std::time::Duration::from_micros(20)),
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
            queues: Queues::new(config.weights, i64::from(config.floor), config.prefetch_distance),
            outgoing: Outgoing { chains: chains.into_boxed_slice(), touched: Vec::new() },
            current: Header::OUTSIDE,
            delta: (GroupId::NONE, 0),
            spawned: 0,
            finished: 0,
            purse: CreditPurse::new(),
            epoch: epoch::Local::new(usize::from(id.0)),
            owner: GroupId::NONE,
            stays: GroupId::NONE,
            aside: Vec::new(),
            kinds: [slot::Kind::default(); CHUNK],
            limits,
            schedstat: None,
            delay: RunDelay::default(),
            marked_idle: false,
            dropping: false,
            turns: 0,
            shared: Arc::clone(shared),
        }
    }

    /// This worker.
    #[inline]
    pub fn worker(&self) -> WorkerId {
        self.id
    }

    /// The island it belongs to.
    #[inline]
    pub fn island(&self) -> IslandId {
        self.island
    }

    /// How many workers the runtime has.
    pub fn worker_count(&self) -> usize {
        self.shared.workers.len()
    }

    /// Spawns a task. It belongs to the running task's group, and is of its priority and class
    /// unless it says otherwise. Never waits and never fails: roots of requests are what is limited
    /// ([`Context::try_spawn_root`]).
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
        let header = self.header(annotation, 0);
        let task = self.pool.make(header, task);
        self.admit(task, header);
    }

    /// Spawns the first task of a request: it takes a credit of its class and gives it back when
    /// it ends. What it refers to is its own: it does not hold back what the spawning task does.
    ///
    /// Errors: the class has no credit left; the task comes back. Let others run, then try again.
    #[inline]
    pub fn try_spawn_root<T: Task>(
        &mut self,
        annotation: Annotation,
        task: T,
    ) -> Result<(), Busy<T>> {
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

    /// A task's header: what is not said is the running task's.
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
            self.shared.groups.subtract(group, -by, &self.shared);
        }
    }

    /// Queues a task here or sends it to where its annotation wants it.
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
        let target = match annotation.target_kind() {
            TargetKind::Home if self.mode_of(WorkerId(annotation.target())) == Mode::Latched => {
                self.id
            }
            TargetKind::Any if !self.group_may_stay(header.group()) => {
                let state = self.shared.groups.state(header.group());
                let island = state.island().unwrap_or(self.island);
                self.shared.target(&annotation.place(Place::Island(island)), Some(self.id))
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

    /// Pushes what is on its way to `target`. Counts go first: nobody may see a task that is not
    /// counted.
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
    /// [`Step::Again`].
    #[inline]
    pub fn should_yield(&self) -> bool {
        let band = self.current.annotation.band();
        self.queues.goes_before(band) || self.arrived(0..band)
    }

    /// What the running task said about itself.
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

    /// A new group, to be enqueued from here or given to somebody. Nobody waits for it on a worker.
    pub fn group(&self) -> Group {
        Group::new(&self.shared)
    }

    pub(crate) fn runtime_id(&self) -> u64 {
        self.shared.id
    }

    #[inline]
    pub(crate) fn mode_of(&self, home: WorkerId) -> Mode {
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
        self.has_work() || self.me().mode() != Mode::Scheduled
    }

    /// Whether others have pushed tasks of these bands.
    #[inline]
    fn arrived(&self, bands: Range<usize>) -> bool {
        let inboxes = &self.shared.workers[usize::from(self.id.0)].inboxes.0;
        bands.into_iter().any(|band| self.receivers[band].has_task(&inboxes[band]))
    }

    /// Whether nobody has begun to push a task that did not arrive yet.
    fn quiet(&self) -> bool {
        let inboxes = self.me().inboxes.0.iter();
        inboxes.zip(&self.receivers).all(|(inbox, receiver)| receiver.is_quiet(inbox))
    }

    /// Runs a batch of tasks; false if there was none.
    pub(crate) fn turn(&mut self) -> bool {
        self.epoch.announce(&self.shared.epochs);
        self.stays = GroupId::NONE;
        self.look_at_owner();
        self.drain();
        self.dropping = self.shared.phase.load(Ordering::Relaxed) == STOPPING;
        let Some(ring) = self.queues.choose() else {
            self.end_turn();
            if self.me().mode() != Mode::Scheduled {
                self.look_at_delay();
            }
            return false;
        };
        if self.marked_idle {
            let waiting = self.queues.ring(ring);
            let short = (1..=self.limits.chunk).contains(&waiting.ticks_per_task);
            if !short || waiting.len() > 8 {
                self.unmark_idle();
            }
        }
        self.run_turn(ring);
        self.end_turn();
        true
    }

    /// Takes tasks from the inboxes into the queues.
    fn drain(&mut self) {
        for band in 0..BANDS {
            for _ in 0..DRAIN {
                let inbox = &self.shared.workers[usize::from(self.id.0)].inboxes.0[band];
                let Some(task) = self.receivers[band].pop(inbox, &mut self.pool) else { break };
                let header = *task.header();
                if self.owner != GroupId::NONE && self.owner != header.group() {
                    self.dispatch_far(task);
                } else {
                    self.queues.push(task, &header.annotation);
                }
            }
        }
    }

    /// Notices that a dedicated group has taken this worker, or left it.
    #[inline]
    fn look_at_owner(&mut self) {
        let owner = self.me().owner();
        if owner != self.owner {
            self.change_owner(owner);
        }
    }

    #[cold]
    fn change_owner(&mut self, owner: GroupId) {
        self.owner = owner;
        let mut others = std::mem::take(&mut self.aside);
        if owner != GroupId::NONE {
            self.queues.take(|task| task.header().group() != owner, |task| others.push(task));
        }
        for task in others {
            self.dispatch_far(task);
        }
    }

    fn run_turn(&mut self, ring: usize) {
        let start = self.clock.ticks();
        let mut before = start;
        loop {
            let limit = self.queues.ring(ring).chunk;
            let count = self.run_chunk(ring, limit);
            let now = self.clock.ticks();
            self.account(ring, count, now.wrapping_sub(before));
            before = now;
            let over = now.wrapping_sub(start) >= self.limits.turn;
            if count < limit || over || self.interrupted(ring % BANDS) {
                break;
            }
        }
        let taken = before.wrapping_sub(start);
        self.queues.charge(ring, taken);
        bump(&self.counters().busy_ticks, taken);
        bump(&self.counters().turns, 1);
    }

    /// Whether the turn should end before its time: something more urgent is there, or a worker
    /// of the island has nothing to do.
    #[inline]
    fn interrupted(&self, band: usize) -> bool {
        self.queues.goes_before(band)
            || self.arrived(0..band)
            || self.others_idle()
            || self.shared.phase.load(Ordering::Relaxed) == STOPPING
    }

    #[inline]
    fn others_idle(&self) -> bool {
        let island = &self.shared.islands[usize::from(self.island.0)];
        island.idle.load(Ordering::Relaxed) & !self.me().bit != 0
    }

    /// Runs up to `limit` tasks of a ring; a panic ends its task alone.
    fn run_chunk(&mut self, ring: usize, limit: usize) -> usize {
        let mut count = 0;
        loop {
            let all = catch_unwind(AssertUnwindSafe(|| {
                while count < limit {
                    let Some(task) = self.queues.pop(ring) else {
                        break;
                    };
                    self.kinds[count] = task.kind();
                    count += 1;
                    self.run_task(task);
                }
            }));
            match all {
                Ok(()) => return count,
                Err(payload) => self.panicked(payload),
            }
        }
    }

    #[inline]
    fn run_task(&mut self, task: TaskRef) {
        self.current = *task.header();
        if self.current.annotation.is(TargetKind::Home) && self.sent_elsewhere() {
            return self.dispatch_far(task);
        }
        self.running = Some(task);
        let stopped = self.shared.groups.state(self.current.group()).stopped();
        if stopped || self.dropping {
            bump(&self.counters().dropped, 1);
            return self.end_task();
        }
        match slot::run(self) {
            Step::Done => {
                let task = self.running.take().expect("it has run");
                self.pool.finish(task);
                self.uncount();
            }
            Step::Again(annotation) => self.again(annotation),
        }
    }

    /// Whether the running task came here while its home was latched, and has to go home now.
    #[inline]
    fn sent_elsewhere(&self) -> bool {
        let home = self.current.annotation.target();
        home != self.id.0 && self.mode_of(WorkerId(home)) != Mode::Latched
    }

    #[inline]
    fn again(&mut self, annotation: Annotation) {
        let mut task = self.running.take().expect("it has run");
        let annotation = self.resolve(annotation);
        let header = task.header_mut();
        if !annotation.carries_as(&header.annotation) {
            if annotation.carries() {
                header.set_tag(self.epoch.tag());
                self.epoch.begin(header.tag(), &self.shared.epochs);
            } else {
                self.epoch.end(header.tag(), &self.shared.epochs);
            }
        }
        header.annotation = annotation;
        let group = self.current.group();
        self.dispatch(task, &annotation, group);
    }

    /// Drops the task that `running` holds.
    #[inline]
    fn end_task(&mut self) {
        let task = self.running.take().expect("it has run");
        self.pool.release(task);
        self.uncount();
    }

    /// Takes the current task out of all counts.
    #[inline(always)]
    fn uncount(&mut self) {
        self.finished += 1;
        if self.current.annotation.carries() {
            self.epoch.end(self.current.tag(), &self.shared.epochs);
        }
        if self.current.has(HOLDS_CREDIT) {
            self.purse.give(self.current.annotation.class_id());
        }
        self.count(self.current.group(), -1);
    }

    #[cold]
    fn panicked(&mut self, payload: Box<dyn Any + Send>) {
        let message = message_of(&*payload);
        bump(&self.counters().panics, 1);
        match self.current.group() {
            GroupId::NONE => *self.shared.incidents.last_panic.lock() = Some(message),
            group => self.shared.groups.state(group).fail(&message),
        }
        if let Some(task) = self.running.take() {
            // What a destructor panics with is dropped too: the task has failed already.
            let pool = &mut self.pool;
            let _ = catch_unwind(AssertUnwindSafe(|| pool.release(task)));
        }
        self.uncount();
    }

    /// Notes what a chunk took.
    #[inline]
    fn account(&mut self, ring: usize, count: usize, ticks: u64) {
        if count == 0 {
            return;
        }
        self.queues.ring(ring).measured(count, ticks, self.limits.chunk);
        if ticks > self.limits.long_task {
            self.note_long(count, ticks);
        }
    }

    /// Names what took so long. A chunk of more than one type names each: one of them did it, and
    /// the next chunks of this ring are single tasks, as its tasks now count as slow.
    #[cold]
    fn note_long(&self, count: usize, ticks: u64) {
        let mut named: Vec<&'static str> = self.kinds[..count].iter().map(|k| k.name()).collect();
        named.sort_unstable();
        named.dedup();
        for name in named {
            self.shared.incidents.long_task(name, self.clock.ns(ticks));
        }
    }

    /// What is due between turns.
    fn end_turn(&mut self) {
        self.current = Header::OUTSIDE;
        self.turns += 1;
        self.flush();
        self.pool.flush();
        let counters = self.counters();
        counters.spawned.store(self.spawned, Ordering::Release);
        counters.finished.store(self.finished, Ordering::Release);
        if self.delta.1 != 0 {
            self.settle_group();
        }
        self.purse.settle(&self.shared.credits, false);
        let garbage = self.epoch.garbage() >= GARBAGE || self.shared.epochs.has_orphans();
        if garbage && self.turns.is_multiple_of(8) {
            self.collect();
        }
        if self.others_idle() {
            self.give();
        }
        if cfg!(shuttle) || self.turns.is_multiple_of(32) {
            self.look_at_delay();
        }
    }

    /// Measures now and then whether this worker waits for its core.
    fn look_at_delay(&mut self) {
        if self.shared.config.run_delay_per_mille == 0 {
            return;
        }
        if self.me().mode() == Mode::Draining {
            self.end_draining();
        }
        let now = self.clock.ticks();
        if now >= self.delay.due_ticks {
            self.delay.due_ticks = now + self.limits.delay_period;
            self.measure_delay();
        }
    }

    #[cold]
    fn measure_delay(&mut self) {
        let times = match &self.schedstat {
            Some(stat) => stat.read().unwrap_or(self.delay.last),
            None => self.me().simulated_times(),
        };
        let waited = times.waiting_ns.saturating_sub(self.delay.last.waiting_ns);
        let ran = times.running_ns.saturating_sub(self.delay.last.running_ns);
        self.delay.last = times;
        self.counters().run_delay_ns.store(times.waiting_ns, Ordering::Relaxed);
        let limit = u64::from(self.shared.config.run_delay_per_mille);
        let preempted = waited * 1000 > (waited + ran) * limit;
        self.delay.quiet = if preempted { 0 } else { self.delay.quiet + 1 };
        match self.me().mode() {
            Mode::Scheduled | Mode::Draining if preempted => self.change_mode(Mode::Latched),
            Mode::Latched if self.delay.quiet >= QUIET => {
                self.change_mode(Mode::Draining);
                self.delay.draining_since = self.shared.epochs.now();
            }
            _ => {}
        }
    }

    fn change_mode(&mut self, mode: Mode) {
        let me = self.me();
        // Release: accesses by scheduling happen before whatever a latch guards from now on.
        me.state.mode.store(mode as u8, Ordering::SeqCst);
        bump(&me.counters.switches, 1);
    }

    /// Goes back to synchronisation by scheduling once every worker was between tasks.
    #[cold]
    fn end_draining(&mut self) {
        self.shared.epochs.try_advance();
        let passed = self.shared.epochs.now() >= self.delay.draining_since + 2;
        if passed || planted::is(planted::NO_DRAIN) {
            self.change_mode(Mode::Scheduled);
        }
    }

    fn collect(&mut self) {
        let freed = self.epoch.collect(&self.shared.epochs);
        bump(&self.counters().freed, freed);
    }

    /// Gives half of what waits to a worker of the island that has nothing to do, if it is worth it.
    #[cold]
    fn give(&mut self) {
        if self.owner != GroupId::NONE {
            return;
        }
        let (tasks, ticks) = self.queues.backlog();
        if tasks < 2 || ticks < self.limits.give_spinning {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let island = &shared.islands[usize::from(self.island.0)];
        let idle = island.idle.load(Ordering::Relaxed) & !self.me().bit;
        let found = island.workers.iter().copied().find(|&id| {
            let worker = shared.worker(id);
            idle & worker.bit != 0 && worker.owner() == GroupId::NONE
        });
        let Some(target) = found else { return };
        let worker = shared.worker(target);
        let parked = worker.state.activity.load(Ordering::Relaxed) == PARKED;
        if parked && ticks < self.limits.give_parked {
            return;
        }
        if island.idle.fetch_and(!worker.bit, Ordering::AcqRel) & worker.bit == 0 {
            return;
        }
        let mut given = Vec::new();
        self.queues.give((tasks / 2).min(64), |task| given.push(task));
        bump(&self.counters().given, given.len() as u64);
        for task in given {
            let band = task.header().annotation.band();
            self.send(target, band, task);
        }
        self.flush();
    }

    /// The life of a worker with a thread of its own.
    pub(crate) fn work(mut self) {
        if !cfg!(shuttle) {
            self.schedstat = SchedStat::of_this_thread().ok();
        }
        ON_WORKER.set(true);
        loop {
            if self.turn() {
                continue;
            }
            if self.shared.phase.load(Ordering::SeqCst) != RUNNING && self.may_end() {
                break;
            }
            self.idle();
        }
        self.epoch.go_offline(&self.shared.epochs);
        self.epoch.leave(&self.shared.epochs);
        ON_WORKER.set(false);
    }

    fn may_end(&mut self) -> bool {
        if self.shared.phase.load(Ordering::SeqCst) == STOPPING {
            for task in std::mem::take(&mut self.aside) {
                let annotation = task.header().annotation;
                self.queues.push(task, &annotation);
            }
        }
        !self.has_work() && self.shared.quiescent()
    }

    /// What a simulated worker does where one with a thread would spin or sleep.
    pub(crate) fn rest(&mut self) {
        if !self.has_work() {
            self.epoch.go_offline(&self.shared.epochs);
        }
    }

    /// Looks at the inboxes for a while, then sleeps until somebody pushes.
    fn idle(&mut self) {
        self.purse.settle(&self.shared.credits, true);
        if self.epoch.garbage() > 0 || self.shared.epochs.has_orphans() {
            self.collect();
        }
        self.mark_idle();
        let phase = self.shared.phase.load(Ordering::SeqCst);
        if phase != RUNNING {
            return thread::yield_now();
        }
        let start = self.clock.ticks();
        let mut spins = 0u32;
        while !self.awake(phase) {
            hint::spin_loop();
            self.epoch.announce(&self.shared.epochs);
            spins += 1;
            let over = cfg!(shuttle)
                || (spins.is_multiple_of(16)
                    && self.clock.ticks().wrapping_sub(start) > self.limits.spin);
            let latched = self.me().mode() != Mode::Scheduled;
            if latched && over {
                self.look_at_delay();
            }
            if self.kind == WorkerKind::Shared && over && !(cfg!(shuttle) && latched) {
                return self.park(phase);
            }
        }
    }

    /// Whether there is a reason to take a turn.
    #[inline]
    fn awake(&self, phase: u32) -> bool {
        self.arrived(0..BANDS)
            || self.shared.phase.load(Ordering::Relaxed) != phase
            || self.me().owner() != self.owner
    }

    fn park(&mut self, phase: u32) {
        self.leave_garbage();
        self.epoch.go_offline(&self.shared.epochs);
        let me = self.me();
        me.state.activity.store(PARKED, Ordering::SeqCst);
        // Whoever pushed before this, and saw no parked worker, is seen here.
        fence(Ordering::SeqCst);
        let may_sleep = self.quiet() && !self.awake(phase);
        if !may_sleep && !planted::is(planted::NO_SECOND_LOOK) {
            me.state.activity.store(BUSY, Ordering::SeqCst);
        } else {
            bump(&me.counters.parks, 1);
        }
        while me.state.activity.load(Ordering::SeqCst) == PARKED {
            if me.mode() == Mode::Scheduled || cfg!(shuttle) {
                thread::park();
            } else {
                // Nobody sends it the tasks of its resources: it has to look itself.
                thread::park_timeout(self.shared.config.run_delay_period);
                break;
            }
        }
        self.unmark_idle();
    }

    /// Tells others that this worker has nothing to do. It stays told while single short tasks
    /// come in: the line that tells is theirs to read.
    fn mark_idle(&mut self) {
        let me = &self.shared.workers[usize::from(self.id.0)];
        let idle = &self.shared.islands[usize::from(self.island.0)].idle;
        if self.owner == GroupId::NONE && idle.load(Ordering::Relaxed) & me.bit == 0 {
            idle.fetch_or(me.bit, Ordering::AcqRel);
        }
        if !self.marked_idle {
            me.state.activity.store(SPINNING, Ordering::SeqCst);
            self.marked_idle = true;
        }
    }

    #[cold]
    fn unmark_idle(&mut self) {
        let me = &self.shared.workers[usize::from(self.id.0)];
        let idle = &self.shared.islands[usize::from(self.island.0)].idle;
        me.state.activity.store(BUSY, Ordering::SeqCst);
        idle.fetch_and(!me.bit, Ordering::AcqRel);
        self.marked_idle = false;
    }

    /// A worker that sleeps frees nothing: others get its garbage.
    fn leave_garbage(&mut self) {
        for _ in 0..3 {
            if self.epoch.garbage() == 0 {
                return;
            }
            self.collect();
        }
        self.epoch.leave(&self.shared.epochs);
    }
}

/// Text of a panic.
fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&'static str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a value that is no text".to_owned())
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("worker", &self.id).finish_non_exhaustive()
    }
}
