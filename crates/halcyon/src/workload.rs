//! The workload classes of a running database: what the catalog's definitions mean on this machine, the gate that
//! statements of limited classes pass, and what is measured of each class (P4 §2).
//!
//! The rules stand in crate `halcyon_workload`, as pure functions; here are the clock, the lock and the wakers.
//!
//! - The *snapshot* of classes and mappings is immutable, and replaced as a whole when a transaction that
//!   has changed definitions commits. A session looks at the epoch's number before each statement, and asks for its
//!   class again if that has changed.
//! - The *gate* is one state behind one lock. A statement of a class without limits of admission never touches it.
//! - The *steward* ([`steward`]) is a thread that ticks the gate and the controllers while there is something to
//!   watch; a database without classes of users has none.
//!
//! Invariant, checked by `every_grant_is_given_back`: a statement that was admitted leaves the gate once, when its
//! [`Admitted`] is dropped, and one that has given up waiting leaves its queue.

pub(crate) mod actions;
pub(crate) mod latency;
pub(crate) mod steward;
pub(crate) mod targets;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use arc_swap::ArcSwap;
use halcyon_base::clock::{self, Moment};
use halcyon_base::memory::AccountId;
use halcyon_plan::executions::Execution;
use halcyon_sql::error::{SqlError, SqlState};
use halcyon_task::{Quota, Waits};
use halcyon_workload::gate::{Arrival, Gate, Grant, Reason, Rejection, Request, Ticket, Woken};
use halcyon_workload::{CLASSES, ClassId, Definitions, Machine, Snapshot};
use parking_lot::Mutex;

use crate::answers::Answers;
use actions::{AllWaited, RuleEvents};
use latency::Latencies;
use steward::Steward;
use targets::TargetKeeper;

/// The workload classes of a running database.
pub(crate) struct Workload {
    snapshot: ArcSwap<Snapshot>,
    /// Changes with each snapshot, after it was stored.
    epoch: AtomicU64,
    doors: Mutex<Doors>,
    pub latencies: Latencies,
    pub counts: Box<[ClassCounts]>,
    pub steward: Steward,
    pub rule_events: RuleEvents,
    pub targets: Mutex<TargetKeeper>,
    waited: AllWaited,
    /// Quotas of statements that rules have slowed down.
    throttles: Mutex<Vec<(Execution, Quota)>>,
    /// Moment 0 of the gate's clock.
    origin: Instant,
}

/// The gate, and who waits at it.
struct Doors {
    gate: Gate,
    waiting: HashMap<Ticket, Arc<Place>>,
}

/// Counts of a class.
#[derive(Default)]
pub(crate) struct ClassCounts {
    /// Statements that run now.
    pub running: AtomicU32,
    pub statements: AtomicU64,
    pub errors: AtomicU64,
}

/// A place in the queue of a class.
#[derive(Default)]
struct Place(Mutex<PlaceState>);

#[derive(Default)]
struct PlaceState {
    verdict: Option<Result<Grant, Rejection>>,
    waker: Option<Waker>,
}

/// A statement that waits at the gate. Dropping it leaves the queue.
pub(crate) struct Waiting {
    workload: Arc<Workload>,
    ticket: Ticket,
    place: Arc<Place>,
}

/// A statement's right to run, which dropping gives back.
pub(crate) struct Admitted {
    workload: Arc<Workload>,
    grant: Option<Grant>,
}

/// A connection of a class, which dropping ends.
pub(crate) struct Connected {
    workload: Arc<Workload>,
    class: ClassId,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.workload.doors.lock().gate.disconnect(self.class);
    }
}

/// What has become of a statement that came to the gate.
pub(crate) enum Came {
    Admitted(Admitted),
    Waits(Waiting),
}

impl Workload {
    pub fn new(definitions: &Definitions, machine: &Machine) -> Self {
        let snapshot = Arc::new(read(definitions, machine, None));
        let targets = TargetKeeper::new(Arc::clone(&snapshot));
        let doors = Doors { gate: Gate::new(Arc::clone(&snapshot)), waiting: HashMap::new() };
        Workload {
            snapshot: ArcSwap::new(snapshot),
            epoch: AtomicU64::new(1),
            doors: Mutex::new(doors),
            latencies: Latencies::default(),
            counts: (0..CLASSES).map(|_| ClassCounts::default()).collect(),
            steward: Steward::default(),
            rule_events: RuleEvents::default(),
            targets: Mutex::new(targets),
            waited: Mutex::new([Waits::default(); CLASSES]),
            throttles: Mutex::default(),
            origin: Instant::now(),
        }
    }

    /// Changes whenever classes or mappings have.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Classes and mappings as they are now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Nanoseconds of the gate's clock.
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Puts definitions into force. Returns the snapshot.
    pub fn define(&self, definitions: &Definitions, machine: &Machine) -> Arc<Snapshot> {
        let before = self.snapshot.load_full();
        let snapshot = Arc::new(read(definitions, machine, Some(&before)));
        self.snapshot.store(Arc::clone(&snapshot));
        self.epoch.fetch_add(1, Ordering::Release);
        self.at_gate(|gate, now| gate.reconfigure(now, Arc::clone(&snapshot)));
        snapshot
    }

    /// Does something at the gate, and tells those whose wait is over.
    pub fn at_gate(&self, work: impl FnOnce(&mut Gate, u64) -> Vec<Woken>) {
        let told: Vec<_> = {
            let mut doors = self.doors.lock();
            let now = self.now_ns();
            let woken = work(&mut doors.gate, now);
            let place = |woken: Woken| Some((doors.waiting.remove(&woken.ticket)?, woken.result));
            woken.into_iter().filter_map(place).collect()
        };
        for (place, verdict) in told {
            place.tell(verdict);
        }
    }

    /// What the gate says of itself.
    pub fn ask_gate<T>(&self, ask: impl FnOnce(&Gate, u64) -> T) -> T {
        let doors = self.doors.lock();
        ask(&doors.gate, self.now_ns())
    }

    /// Counts a connection to a class. Errors: 53300 if the class has as many as its CONNECTION LIMIT says.
    pub fn connect(self: &Arc<Self>, class: ClassId) -> Result<Connected, SqlError> {
        let connected = self.doors.lock().gate.connect(class);
        let class = connected.map_err(|rejection| refused(&rejection))?;
        Ok(Connected { workload: Arc::clone(self), class })
    }

    /// A statement comes to the gate. One whose transaction holds locks does not wait there, since statements inside
    /// may wait for these locks.
    ///
    /// Errors: 53000 and its kin, with the class and what stood against the statement.
    pub fn arrive(self: &Arc<Self>, request: Request) -> Result<Came, SqlError> {
        let holds_locks = request.holds_locks;
        let mut doors = self.doors.lock();
        let now = self.now_ns();
        match doors.gate.arrive(now, request) {
            Arrival::Admitted(grant) => Ok(Came::Admitted(self.admitted(Some(grant)))),
            Arrival::Rejected(rejection) => Err(refused(&rejection)),
            Arrival::Queued(ticket) if holds_locks => {
                let told = doors.gate.cancel(now, ticket);
                drop(doors);
                self.at_gate(|_, _| told.unwrap_or_default());
                Ok(Came::Admitted(self.admitted(None)))
            }
            Arrival::Queued(ticket) => {
                let place = Arc::new(Place::default());
                doors.waiting.insert(ticket, Arc::clone(&place));
                drop(doors);
                self.steward.rouse();
                Ok(Came::Waits(Waiting { workload: Arc::clone(self), ticket, place }))
            }
        }
    }

    fn admitted(self: &Arc<Self>, grant: Option<Grant>) -> Admitted {
        Admitted { workload: Arc::clone(self), grant }
    }
}

/// The error of a statement that the gate has turned away.
pub(crate) fn refused(rejection: &Rejection) -> SqlError {
    let Rejection { class_name, reason, value, limit, retry_after, .. } = rejection;
    let state = match reason {
        Reason::QueueFull => SqlState::QUEUE_FULL,
        Reason::QueueTimeout => SqlState::QUEUE_TIMEOUT,
        Reason::ConnectionLimit => SqlState::TOO_MANY_CONNECTIONS,
        Reason::Brake => SqlState::QUERY_CANCELED,
        _ => SqlState::INSUFFICIENT_RESOURCES,
    };
    let what = if *reason == Reason::ConnectionLimit { "connection" } else { "statement" };
    let message = format!("{what} rejected by workload class \"{class_name}\": {reason}");
    let error = SqlError::new(state, message);
    if *reason == Reason::Brake {
        return error.hint("An administrator releases it: ALTER SYSTEM SET WORKLOAD BRAKE = OFF.");
    }
    let error = error.detail(format!("{}: {value}; limit: {limit}.", reason.signal()));
    match retry_after.as_millis() {
        0 => error,
        ms => error.hint(format!("Try again in {ms} ms or later.")),
    }
}

/// What definitions mean on a machine. Definitions that a newer version has written, or an older one, may say
/// something else here: the built-in classes are there in any case.
fn read(definitions: &Definitions, machine: &Machine, before: Option<&Snapshot>) -> Snapshot {
    Snapshot::new(definitions, machine, before).unwrap_or_else(|problem| {
        tracing::error!("workload classes are not in force: {}", problem.message);
        Snapshot::builtin(machine)
    })
}

impl Place {
    fn tell(&self, verdict: Result<Grant, Rejection>) {
        let waker = {
            let mut state = self.0.lock();
            state.verdict = Some(verdict);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Waiting {
    /// Ready once the wait is over.
    pub fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.place.0.lock();
        if state.verdict.is_some() {
            return Poll::Ready(());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// The outcome, if there is one.
    pub fn verdict(&self) -> Option<Result<Admitted, Rejection>> {
        let verdict = self.place.0.lock().verdict.take()?;
        Some(verdict.map(|grant| self.workload.admitted(Some(grant))))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut doors = self.workload.doors.lock();
        if doors.waiting.remove(&self.ticket).is_some() {
            let now = self.workload.now_ns();
            let told = doors.gate.cancel(now, self.ticket);
            drop(doors);
            return self.workload.at_gate(|_, _| told.unwrap_or_default());
        }
        drop(doors);
        // A grant that came when nobody waited any more goes back.
        drop(self.verdict());
    }
}

impl Admitted {
    /// Workers that the statement may use.
    pub fn threads(&self) -> u32 {
        self.grant.as_ref().map_or(0, |grant| grant.threads)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        if let Some(grant) = self.grant.take() {
            self.workload.at_gate(|gate, now| gate.leave(now, grant));
        }
    }
}

/// A statement's membership in its class while it runs: its latency, its count, its memory, its right to run. All
/// end with it.
pub(crate) struct InClass {
    pub workload: Arc<Workload>,
    pub class: ClassId,
    pub began: Moment,
    pub account: AccountId,
    pub admitted: Option<Admitted>,
    /// Where it is noted that the statement is over, if the end of its answer is seen by others.
    pub answers: Option<Arc<Answers>>,
}

impl InClass {
    pub fn begin(
        workload: &Arc<Workload>,
        class: ClassId,
        began: Moment,
        account: AccountId,
        answers: Option<Arc<Answers>>,
    ) -> Self {
        let counts = &workload.counts[usize::from(class.0)];
        counts.running.fetch_add(1, Ordering::Relaxed);
        InClass { workload: Arc::clone(workload), class, began, account, admitted: None, answers }
    }

    /// Moves the statement to another class.
    pub fn switch(&mut self, class: ClassId) {
        if class != self.class {
            self.counts().running.fetch_sub(1, Ordering::Relaxed);
            self.class = class;
            self.counts().running.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that the statement has failed.
    pub fn fail(&self) {
        self.counts().errors.fetch_add(1, Ordering::Relaxed);
    }

    fn counts(&self) -> &ClassCounts {
        &self.workload.counts[usize::from(self.class.0)]
    }
}

impl Drop for InClass {
    fn drop(&mut self) {
        match &self.answers {
            Some(answers) => answers.note(self.class, self.began),
            None => {
                let took = clock::now().since(self.began);
                self.workload.latencies.note(self.class, self.workload.now_ns(), took);
            }
        }
        self.counts().running.fetch_sub(1, Ordering::Relaxed);
        self.counts().statements.fetch_add(1, Ordering::Relaxed);
        self.account.leave_class();
    }
}
