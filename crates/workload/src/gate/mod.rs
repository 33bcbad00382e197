//! The admission gate: which statement runs now, which one waits, and which one is told to come back.
//!
//! A statement arrives once it is known what it needs and before it takes locks, and leaves when it ends, or while it
//! waits for a lock or a client: a waiter holds no place and no thread. COMMIT and ROLLBACK never arrive.
//!
//! What may hold a statement up, in the order in which it is asked: the brake; the fence on processor time and memory;
//! statements of its class that came before; CONCURRENCY LIMIT; the limit that the class's controller found (module
//! `delay`); the TOTAL thread limits of the class and of all classes above, which are exact. A statement that holds
//! locks already is never rejected, and waits for threads alone, before all others, because others wait for its locks;
//! only its QUEUE TIMEOUT ends that wait. The engine's own classes and the administrator's lane pass by all of this.
//!
//! Time is the caller's: nanoseconds that never decrease. The caller calls [`Gate::tick`] when
//! [`Gate::next_deadline`] says so.
//!
//! Invariants, all checked by [`Gate::check`]:
//! 1. Threads in use are within every TOTAL limit of the chain that was in force when they were granted.
//! 2. Every statement that waits is in one queue, and its deadline is known.
//!
//! Source: P4 §2 (thresholds, queue, batches); the rest is the research's (workload management, §6.4).

mod accounts;
mod delay;
mod fence;
mod queue;
mod records;
mod rejection;
mod request;

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::definition::Brake;
use crate::limits::{CLASSES, ClassId, Limits};
use crate::snapshot::{Class, Snapshot};
use accounts::Accounts;
use delay::{Aims, QueueDelay, nanoseconds};
use fence::{BATCH, Fence};
use queue::{Entry, Queue};
use records::Events;

pub use delay::{Ready, Step};
pub use queue::Ticket;
pub use records::{EVENTS, Event, EventKind, Statistics, Waits};
pub use rejection::{Reason, Rejection};
pub use request::{Arrival, Controller, Grant, Observation, Request, Waiting, Woken};

/// Below which priority statements wait while the brake is on lightly: the default's.
const BRAKE_PRIORITY: u8 = 5;
/// Without a tick for this long the controllers' limits count no more, ns.
const STALE_NS: u64 = 10_000_000_000;
/// How many statements of a class are looked at that cannot go for their hints' sake alone.
const LOOKED_AT: usize = 32;

/// What the gate keeps of a class.
#[derive(Debug)]
struct ClassState {
    control: QueueDelay,
    statistics: Statistics,
    connections: u32,
    /// Whether the fence was closed at its last sample.
    was_fenced: bool,
    /// Statements that may still leave the queue before the next sample, after the fence has opened.
    batch: Option<u32>,
    /// Statements that may run at a time while the class's latency target is unreachable.
    restrained: Option<u32>,
}

impl ClassState {
    fn new(now_ns: u64, snapshot: &Snapshot, class: ClassId) -> Self {
        let aims = Aims::of(&snapshot.class(class).limits, snapshot.machine());
        ClassState {
            control: QueueDelay::new(now_ns, &aims),
            statistics: Statistics::default(),
            connections: 0,
            was_fenced: false,
            batch: None,
            restrained: None,
        }
    }
}

/// The admission gate.
pub struct Gate {
    snapshot: Arc<Snapshot>,
    accounts: Accounts,
    queue: Queue,
    fence: Fence,
    classes: Vec<ClassState>,
    events: Events,
    /// The last tick, or the last time at which a statement came and found nothing running, ns.
    steered_ns: u64,
    /// Whether it was told that nobody steers.
    told_stale: bool,
}

impl Gate {
    /// A gate through which nothing has gone yet.
    pub fn new(snapshot: Arc<Snapshot>) -> Self {
        Gate {
            accounts: Accounts::new(),
            queue: Queue::new(),
            fence: Fence::default(),
            classes: (0_u8..)
                .take(CLASSES)
                .map(|id| ClassState::new(0, &snapshot, ClassId(id)))
                .collect(),
            events: Events::default(),
            steered_ns: 0,
            told_stale: false,
            snapshot,
        }
    }

    /// A statement asks for leave to run. Cost: O(1) where nothing waits, else O(log waiting).
    pub fn arrive(&mut self, now_ns: u64, request: Request) -> Arrival {
        let snapshot = Arc::clone(&self.snapshot);
        let class = in_force(&snapshot, request.class);
        self.notice_stale(now_ns, class.id);
        let entry = entry(now_ns, class, request);
        if passes(class.id) {
            let threads = entry.threads_wanted.max(1);
            return Arrival::Admitted(self.admit(now_ns, &entry, threads));
        }
        let limits = entry.limits(class);
        let rejection = if entry.holds_locks { None } else { self.refuse(class, limits) };
        if let Some(rejection) = rejection {
            return self.reject(now_ns, &entry, rejection);
        }
        if !self.has_before(class.id, &entry)
            && let Some(threads) = self.fit(now_ns, class, &entry)
        {
            return Arrival::Admitted(self.admit(now_ns, &entry, threads));
        }
        let rejection =
            if entry.holds_locks { None } else { self.refuse_wait(now_ns, class, limits) };
        match rejection {
            Some(rejection) => self.reject(now_ns, &entry, rejection),
            None => Arrival::Queued(self.enqueue(now_ns, entry)),
        }
    }

    /// A statement has ended, or waits for something else than the gate.
    pub fn leave(&mut self, now_ns: u64, grant: Grant) -> Vec<Woken> {
        self.accounts.remove(&self.snapshot, grant.class, grant.threads);
        let others_wait = self.queue.others(grant.class) > 0;
        let state = &mut self.classes[grant.class.index()];
        state.control.ended(now_ns, grant.threads, others_wait);
        self.wake(now_ns)
    }

    /// A running statement goes on in another class (rule SWITCH TO): its threads are as many as the statement has and
    /// the other class leaves. `Err` gives the grant back where the other class leaves no thread now.
    pub fn switch(
        &mut self,
        now_ns: u64,
        grant: Grant,
        class: ClassId,
    ) -> Result<(Grant, Vec<Woken>), Grant> {
        let snapshot = Arc::clone(&self.snapshot);
        let class = in_force(&snapshot, class);
        self.accounts.remove(&snapshot, grant.class, grant.threads);
        let left = self.accounts.left(&snapshot, class.id).unwrap_or(u32::MAX);
        let most = class.limits.statement_threads.unwrap_or(u32::MAX);
        let threads = grant.threads.min(left).min(most);
        if threads == 0 {
            self.accounts.add(&snapshot, grant.class, grant.threads);
            return Err(grant);
        }
        self.accounts.add(&snapshot, class.id, threads);
        let grant = Grant { class: class.id, threads, ..grant };
        Ok((grant, self.wake(now_ns)))
    }

    /// A waiting statement is given up. `None` if it waits no more: its [`Woken`] is on the way.
    pub fn cancel(&mut self, now_ns: u64, ticket: Ticket) -> Option<Vec<Woken>> {
        let entry = self.queue.remove(ticket)?;
        self.classes[entry.class.index()].statistics.cancelled += 1;
        self.record(now_ns, &entry, EventKind::Cancelled);
        Some(self.wake(now_ns))
    }

    /// Takes what was measured, steers the limits, and ends waits.
    pub fn tick(&mut self, now_ns: u64, observation: &Observation) -> Vec<Woken> {
        let snapshot = Arc::clone(&self.snapshot);
        self.steered_ns = now_ns;
        self.told_stale = false;
        if self.fence.sample(now_ns, observation.cpu_percent, observation.memory_percent) {
            snapshot.classes().for_each(|class| self.open_fence(class));
        }
        for class in snapshot.classes().filter(|class| !passes(class.id)) {
            let state = &mut self.classes[class.id.index()];
            if now_ns < state.control.due_ns() {
                continue;
            }
            let aims = Aims::of(&class.limits, snapshot.machine());
            let ready = observation.ready[class.id.index()];
            let running = self.accounts.running(class.id);
            state.control.step(now_ns, &aims, running, self.queue.oldest_ns(class.id), ready);
        }
        let mut woken = self.discard(now_ns);
        woken.extend(self.wake(now_ns));
        woken
    }

    /// Puts another snapshot in force, at once: for statements that wait too. Statements that run keep their threads.
    ///
    /// Statements that wait in a class which is dropped or disabled go on waiting in the default class.
    pub fn reconfigure(&mut self, now_ns: u64, snapshot: Arc<Snapshot>) -> Vec<Woken> {
        for class in snapshot.classes() {
            // Counts of a class that is gone are not those of the one that has its number now.
            if self.snapshot.find(class.id).is_none_or(|before| before.name != class.name) {
                let connections = self.classes[class.id.index()].connections;
                self.classes[class.id.index()] =
                    ClassState { connections, ..ClassState::new(now_ns, &snapshot, class.id) };
            }
        }
        self.snapshot = Arc::clone(&snapshot);
        self.accounts.recount(&snapshot);
        self.queue.change_all(|entry| {
            let class = in_force(&snapshot, entry.class);
            entry.class = class.id;
            entry.restrict(class);
        });
        let mut woken = Vec::new();
        if snapshot.brake() == Brake::Full {
            let stopped =
                |(ticket, entry): (Ticket, &Entry)| (!entry.holds_locks).then_some(ticket);
            let tickets: Vec<Ticket> = self.queue.iter().filter_map(stopped).collect();
            woken.extend(
                tickets.into_iter().filter_map(|ticket| self.end(now_ns, ticket, Reason::Brake)),
            );
        }
        woken.extend(self.wake(now_ns));
        woken
    }

    /// Holds a class to so many statements at a time, or no more (`None`): what L2 asks for a class whose latency target
    /// is unreachable ([`crate::target::Actuator::Concurrency`]).
    pub fn restrain(&mut self, now_ns: u64, class: ClassId, limit: Option<u32>) -> Vec<Woken> {
        self.classes[class.index()].restrained = limit;
        self.wake(now_ns)
    }

    /// When [`Gate::tick`] is due: at the controllers' next step while statements run or wait, or at the end of a wait.
    pub fn next_deadline(&self) -> Option<u64> {
        if self.queue.is_empty() && self.accounts.is_idle() {
            return None;
        }
        let steps = self.snapshot.classes().filter(|class| !passes(class.id));
        let step = steps.map(|class| self.classes[class.id.index()].control.due_ns()).min();
        let timeout = self.queue.first_deadline().map(|(deadline_ns, _)| deadline_ns);
        step.into_iter().chain(timeout).min()
    }

    /// Counts a connection whose statements are in the class. The result is the class that counts it, for
    /// [`Gate::disconnect`].
    ///
    /// Errors: CONNECTION LIMIT is reached.
    pub fn connect(&mut self, class: ClassId) -> Result<ClassId, Rejection> {
        let snapshot = Arc::clone(&self.snapshot);
        let class = in_force(&snapshot, class);
        let connections = &mut self.classes[class.id.index()].connections;
        match class.limits.connections {
            Some(limit) if *connections >= limit => {
                let value = u64::from(*connections);
                Err(rejection(
                    class,
                    Reason::ConnectionLimit,
                    value,
                    u64::from(limit),
                    Duration::from_secs(1),
                ))
            }
            _ => {
                *connections += 1;
                Ok(class.id)
            }
        }
    }

    /// Counts the end of a connection; `class` is what [`Gate::connect`] gave.
    pub fn disconnect(&mut self, class: ClassId) {
        let connections = &mut self.classes[class.index()].connections;
        *connections = connections.saturating_sub(1);
    }

    /// The snapshot in force.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Statements that wait, the oldest first.
    pub fn queue(&self) -> Vec<Waiting> {
        let waiting = |(ticket, entry): (Ticket, &Entry)| Waiting {
            ticket,
            class: entry.class,
            session: entry.session,
            text_hash: entry.text_hash,
            enqueued_ns: entry.arrived_ns,
            timeout_ns: entry.deadline_ns,
            holds_locks: entry.holds_locks,
        };
        self.queue.iter().map(waiting).collect()
    }

    /// Counts of a class.
    pub fn statistics(&self, class: ClassId) -> Statistics {
        Statistics {
            running: self.accounts.running(class),
            threads: self.accounts.threads(class),
            total_threads: self.accounts.total(class),
            queue_size: u32::try_from(self.queue.len(class)).unwrap_or(u32::MAX),
            ..self.classes[class.index()].statistics
        }
    }

    /// The last events, the oldest first.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }

    /// The averages of processor time and memory in use that the fence compares, percent.
    pub fn averages(&self) -> (f64, f64) {
        self.fence.averages()
    }

    /// The controllers of all classes that have one.
    pub fn controllers(&self, now_ns: u64) -> Vec<Controller> {
        let controller = |class: &Class| {
            let control = &self.classes[class.id.index()].control;
            let aims = Aims::of(&class.limits, self.snapshot.machine());
            let limit =
                self.steered_limit(now_ns, class).min(class.limits.concurrency.unwrap_or(u32::MAX));
            Controller {
                class: class.id,
                limit,
                // Whole numbers within 1 and 2^32.
                bounds: (aims.floor as u32, aims.cap as u32),
                delay: Duration::from_nanos(control.delay_ns()),
                aim: Duration::from_nanos(aims.delay_ns),
                is_binding: self.queue.others(class.id) > 0
                    && self.accounts.running(class.id) >= limit,
                newest_first: control.is_turned(),
                last: control.last(),
            }
        };
        self.snapshot.classes().filter(|class| !passes(class.id)).map(controller).collect()
    }

    /// Panics unless the invariants hold. For tests and fuzzing; O(classes and waiting statements).
    pub fn check(&self) {
        self.accounts.check(&self.snapshot);
        self.queue.check();
    }

    /// Whether statements of the class wait that have to go before the entry.
    fn has_before(&self, class: ClassId, entry: &Entry) -> bool {
        if entry.holds_locks {
            return self.queue.holders_of(class).next().is_some();
        }
        // The statement that came last goes first while the queue is turned round.
        self.queue.len(class) > 0 && !self.classes[class.index()].control.is_turned()
    }

    /// Why a new statement of the class is not even queued, whatever waits.
    fn refuse(&self, class: &Class, limits: &Limits) -> Option<Rejection> {
        if self.snapshot.brake() == Brake::Full {
            return Some(rejection(class, Reason::Brake, 0, 0, Duration::ZERO));
        }
        let (reason, value, limit) = self.fence.rejects(limits)?;
        Some(rejection(class, reason, value, limit, Duration::from_secs(1)))
    }

    /// Why a new statement that would have to wait is rejected.
    fn refuse_wait(&self, now_ns: u64, class: &Class, limits: &Limits) -> Option<Rejection> {
        let control = &self.classes[class.id.index()].control;
        let queued = self.queue.len(class.id);
        let mut expected_ns = control.expected_ns(now_ns, queued);
        if queued >= usize::try_from(limits.queue_limit).unwrap_or(usize::MAX) {
            let limit = u64::from(limits.queue_limit);
            let retry_after = retry_after(expected_ns);
            return Some(rejection(class, Reason::QueueFull, queued as u64, limit, retry_after));
        }
        let limit_ns = Aims::of(&class.limits, self.snapshot.machine()).reject_ns()?;
        if !control.is_turned() {
            let oldest_ns =
                self.queue.oldest_ns(class.id).map_or(0, |oldest| now_ns.saturating_sub(oldest));
            expected_ns = expected_ns.max(oldest_ns);
        }
        let (value, limit) = (expected_ns / 1_000_000, limit_ns / 1_000_000);
        (expected_ns >= limit_ns)
            .then(|| rejection(class, Reason::Overload, value, limit, retry_after(expected_ns)))
    }

    /// The threads with which a statement may run now; `None` if something holds it up.
    fn fit(&self, now_ns: u64, class: &Class, entry: &Entry) -> Option<u32> {
        let limits = entry.limits(class);
        if !entry.holds_locks && self.is_held_up(now_ns, class, limits) {
            return None;
        }
        let left = self.accounts.left(&self.snapshot, class.id).unwrap_or(u32::MAX);
        let hinted = limits
            .total_threads
            .map_or(u32::MAX, |limit| limit.saturating_sub(self.accounts.total(class.id)));
        let most = limits.statement_threads.unwrap_or(u32::MAX);
        let threads = entry.threads_wanted.max(1).min(most).min(left).min(hinted);
        (threads > 0).then_some(threads)
    }

    fn is_held_up(&self, now_ns: u64, class: &Class, limits: &Limits) -> bool {
        let state = &self.classes[class.id.index()];
        let running = self.accounts.running(class.id);
        let braked = self.snapshot.brake() == Brake::Light && limits.priority < BRAKE_PRIORITY;
        braked
            || self.snapshot.brake() == Brake::Full
            || self.fence.queues(limits)
            || state.batch == Some(0)
            || limits.concurrency.is_some_and(|limit| running >= limit)
            || state.restrained.is_some_and(|limit| running >= limit.max(1))
            || running >= self.steered_limit(now_ns, class)
    }

    fn admit(&mut self, now_ns: u64, entry: &Entry, threads: u32) -> Grant {
        let waited = Duration::from_nanos(now_ns.saturating_sub(entry.arrived_ns));
        self.accounts.add(&self.snapshot, entry.class, threads);
        self.classes[entry.class.index()].statistics.admitted += 1;
        Grant { class: entry.class, threads, waited }
    }

    fn reject(&mut self, now_ns: u64, entry: &Entry, rejection: Rejection) -> Arrival {
        self.classes[entry.class.index()].statistics.rejected += 1;
        self.record(now_ns, entry, EventKind::Rejected(rejection.reason));
        Arrival::Rejected(rejection)
    }

    fn enqueue(&mut self, now_ns: u64, entry: Entry) -> Ticket {
        let is_first = self.queue.len(entry.class) == 0;
        let state = &mut self.classes[entry.class.index()];
        state.statistics.enqueued += 1;
        state.control.queued(now_ns, is_first);
        self.record(now_ns, &entry, EventKind::Enqueued);
        self.queue.push(entry)
    }

    fn record(&mut self, now_ns: u64, entry: &Entry, kind: EventKind) {
        let (cpu, memory) = self.fence.averages();
        self.events.push(Event {
            at_ns: now_ns,
            kind,
            class: entry.class,
            session: entry.session,
            text_hash: entry.text_hash,
            waited: Duration::from_nanos(now_ns.saturating_sub(entry.arrived_ns)),
            // Percentages, 0 to 100.
            cpu_percent: cpu as u8,
            memory_percent: memory as u8,
        });
    }

    /// Tells once that nobody steers the limits any more.
    fn notice_stale(&mut self, now_ns: u64, class: ClassId) {
        if self.accounts.is_idle() && self.queue.is_empty() {
            self.steered_ns = now_ns;
        }
        if self.told_stale || !self.is_stale(now_ns) {
            return;
        }
        self.told_stale = true;
        let (cpu, memory) = self.fence.averages();
        self.events.push(Event {
            at_ns: now_ns,
            kind: EventKind::ControllerStale,
            class,
            session: 0,
            text_hash: 0,
            waited: Duration::ZERO,
            cpu_percent: cpu as u8,
            memory_percent: memory as u8,
        });
    }

    /// Whether nobody has steered for so long that the controllers' limits say nothing.
    fn is_stale(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.steered_ns) > STALE_NS
    }

    /// How many statements of the class its controller lets run.
    fn steered_limit(&self, now_ns: u64, class: &Class) -> u32 {
        let aims = Aims::of(&class.limits, self.snapshot.machine());
        if self.is_stale(now_ns) {
            // A whole number below 2^32.
            return aims.cap as u32;
        }
        self.classes[class.id.index()].control.limit(&aims)
    }

    /// After a sample: where the fence has opened, the queue is let go in batches.
    fn open_fence(&mut self, class: &Class) {
        let is_empty = self.queue.others(class.id) == 0;
        let is_closed = self.fence.queues(&class.limits);
        let state = &mut self.classes[class.id.index()];
        let continues = state.was_fenced || state.batch.is_some();
        state.batch = (!is_closed && continues && !is_empty).then_some(BATCH);
        state.was_fenced = is_closed;
    }

    /// Ends the waits of statements that cannot make their class's target any more.
    fn discard(&mut self, now_ns: u64) -> Vec<Woken> {
        let snapshot = Arc::clone(&self.snapshot);
        let mut woken = Vec::new();
        for class in snapshot.classes() {
            let control = &self.classes[class.id.index()].control;
            if !control.is_turned() {
                continue;
            }
            let aims = Aims::of(&class.limits, snapshot.machine());
            let Some(deadline_ns) = aims.give_up_ns() else { continue };
            let is_lost = |ticket: &Ticket| {
                self.queue
                    .get(*ticket)
                    .is_some_and(|entry| now_ns.saturating_sub(entry.arrived_ns) >= deadline_ns)
            };
            let lost: Vec<Ticket> =
                self.queue.others_of(class.id, false).take_while(is_lost).collect();
            woken.extend(
                lost.into_iter().filter_map(|ticket| self.end(now_ns, ticket, Reason::Deadline)),
            );
        }
        woken
    }

    /// Ends waits that are over, and admits what fits: statements with locks first, then by priority, then by age.
    fn wake(&mut self, now_ns: u64) -> Vec<Woken> {
        let mut woken = Vec::new();
        while let Some((deadline_ns, ticket)) = self.queue.first_deadline()
            && deadline_ns <= now_ns
        {
            woken.extend(self.end(now_ns, ticket, Reason::QueueTimeout));
        }
        if self.queue.is_empty() {
            return woken;
        }
        let snapshot = Arc::clone(&self.snapshot);
        let mut classes: Vec<&Class> =
            snapshot.classes().filter(|class| self.queue.len(class.id) > 0).collect();
        while let Some((place, ticket, threads)) = self.next(now_ns, &mut classes) {
            let Some(entry) = self.queue.remove(ticket) else { continue };
            let state = &mut self.classes[entry.class.index()];
            let grant_ns = now_ns.saturating_sub(entry.arrived_ns);
            state.statistics.dequeued += 1;
            state.statistics.waits.add(Duration::from_nanos(grant_ns));
            state.batch = state.batch.map(|left| left.saturating_sub(1));
            self.record(now_ns, &entry, EventKind::Dequeued);
            let result = Ok(self.admit(now_ns, &entry, threads));
            woken.push(Woken { ticket, session: entry.session, result });
            if self.queue.len(classes[place].id) == 0 {
                classes.swap_remove(place);
            }
        }
        woken
    }

    /// The statement that goes next: the place of its class, its ticket and its threads. Classes of which nothing can
    /// go are taken out.
    fn next(&self, now_ns: u64, classes: &mut Vec<&Class>) -> Option<(usize, Ticket, u32)> {
        classes.sort_by_key(|class| {
            let holder = self.queue.holders_of(class.id).next();
            (
                holder.is_none(),
                holder,
                Reverse(class.limits.priority),
                self.queue.oldest_ns(class.id),
            )
        });
        while let Some(class) = classes.first() {
            if let Some((ticket, threads)) = self.first_that_fits(now_ns, class) {
                return Some((0, ticket, threads));
            }
            classes.remove(0);
        }
        None
    }

    fn first_that_fits(&self, now_ns: u64, class: &Class) -> Option<(Ticket, u32)> {
        let fits =
            |ticket: Ticket| Some((ticket, self.fit(now_ns, class, self.queue.get(ticket)?)?));
        if let Some(found) = self.queue.holders_of(class.id).find_map(fits) {
            return Some(found);
        }
        let newest_first = self.classes[class.id.index()].control.is_turned();
        for ticket in self.queue.others_of(class.id, newest_first).take(LOOKED_AT) {
            if let Some(found) = fits(ticket) {
                return Some(found);
            }
            // Another statement may pass one that waits because of its own hint alone.
            self.queue.get(ticket).filter(|entry| entry.hint.is_some())?;
        }
        None
    }

    /// Ends a wait without leave to run.
    fn end(&mut self, now_ns: u64, ticket: Ticket, reason: Reason) -> Option<Woken> {
        let entry = self.queue.remove(ticket)?;
        let state = &mut self.classes[entry.class.index()];
        match reason {
            Reason::QueueTimeout => state.statistics.timeouts += 1,
            _ => state.statistics.discarded += 1,
        }
        let waited_ns = now_ns.saturating_sub(entry.arrived_ns);
        let class = self.snapshot.class(entry.class);
        let limit_ns = match reason {
            Reason::QueueTimeout => nanoseconds(entry.limits(class).queue_timeout),
            Reason::Deadline => {
                let aims = Aims::of(&class.limits, self.snapshot.machine());
                aims.give_up_ns().unwrap_or(0)
            }
            _ => 0,
        };
        let queued = self.queue.len(class.id);
        let retry = match reason {
            Reason::Brake => Duration::ZERO,
            _ => retry_after(state.control.expected_ns(now_ns, queued)),
        };
        let rejection =
            rejection(class, reason, waited_ns / 1_000_000, limit_ns / 1_000_000, retry);
        self.record(now_ns, &entry, EventKind::Rejected(reason));
        Some(Woken { ticket, session: entry.session, result: Err(rejection) })
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("accounts", &self.accounts)
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

impl Entry {
    /// The limits that hold for the statement.
    fn limits<'a>(&'a self, class: &'a Class) -> &'a Limits {
        self.restricted.as_deref().unwrap_or(&class.limits)
    }

    /// Puts a class's limits in force.
    fn restrict(&mut self, class: &Class) {
        self.restricted = self.hint.as_deref().map(|hint| Box::new(class.limits.restricted(hint)));
        let timeout_ns = nanoseconds(self.limits(class).queue_timeout);
        self.deadline_ns = self.arrived_ns.saturating_add(timeout_ns);
    }
}

fn entry(now_ns: u64, class: &Class, request: Request) -> Entry {
    let mut entry = Entry {
        class: class.id,
        threads_wanted: request.threads_wanted,
        session: request.session,
        text_hash: request.text_hash,
        holds_locks: request.holds_locks,
        hint: request.limits.map(Box::new),
        restricted: None,
        arrived_ns: now_ns,
        deadline_ns: 0,
    };
    entry.restrict(class);
    entry
}

/// The class, or the default one in place of a class that is dropped or disabled.
fn in_force(snapshot: &Snapshot, class: ClassId) -> &Class {
    let class = snapshot.class(class);
    if class.enabled { class } else { snapshot.class(ClassId::DEFAULT) }
}

/// Whether nothing holds up statements of the class.
fn passes(class: ClassId) -> bool {
    matches!(class, ClassId::CRITICAL | ClassId::BACKGROUND | ClassId::ADMIN)
}

fn rejection(
    class: &Class,
    reason: Reason,
    value: u64,
    limit: u64,
    retry_after: Duration,
) -> Rejection {
    Rejection { class: class.id, class_name: class.name.clone(), reason, value, limit, retry_after }
}

/// When another attempt is worthwhile behind such a wait: not at once, and not later than a minute.
fn retry_after(expected_ns: u64) -> Duration {
    Duration::from_nanos(expected_ns).clamp(Duration::from_millis(10), Duration::from_secs(60))
}

#[cfg(test)]
mod tests;
