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

pub(crate) mod latency;
pub(crate) mod steward;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use arc_swap::ArcSwap;
use halcyon_base::clock::{self, Moment};
use halcyon_base::memory::AccountId;
use halcyon_sql::error::{SqlError, SqlState};
use halcyon_workload::gate::{Arrival, Gate, Grant, Rejection, Request, Ticket, Woken};
use halcyon_workload::{ClassId, Definitions, Machine, Snapshot};
use parking_lot::Mutex;

use latency::Latencies;
use steward::Steward;

/// The workload classes of a running database.
pub(crate) struct Workload {
    snapshot: ArcSwap<Snapshot>,
    /// Changes with each snapshot, after it was stored.
    epoch: AtomicU64,
    doors: Mutex<Doors>,
    pub latencies: Latencies,
    pub counts: Box<[ClassCounts]>,
    pub steward: Steward,
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

/// What has become of a statement that came to the gate.
pub(crate) enum Came {
    Admitted(Admitted),
    Waits(Waiting),
}

impl Workload {
    pub fn new(definitions: &Definitions, machine: &Machine) -> Self {
        let snapshot = Arc::new(read(definitions, machine, None));
        let doors = Doors { gate: Gate::new(Arc::clone(&snapshot)), waiting: HashMap::new() };
        Workload {
            snapshot: ArcSwap::new(snapshot),
            epoch: AtomicU64::new(1),
            doors: Mutex::new(doors),
            latencies: Latencies::default(),
            counts: (0..halcyon_workload::CLASSES).map(|_| ClassCounts::default()).collect(),
            steward: Steward::default(),
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
            let mut place = |woken: Woken| Some((doors.waiting.remove(&woken.ticket)?, woken.verdict));
            woken.into_iter().filter_map(&mut place).collect()
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

    /// A statement comes to the gate. Errors: 53000 and its kin, with the class and what stood against it.
    pub fn arrive(self: &Arc<Self>, request: Request) -> Result<Came, SqlError> {
        let class = request.class;
        let mut doors = self.doors.lock();
        let now = self.now_ns();
        match doors.gate.arrive(now, request) {
            Arrival::Admitted(grant) => Ok(Came::Admitted(self.admitted(grant))),
            Arrival::Rejected(rejection) => {
                drop(doors);
                Err(self.refused(class, &rejection))
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

    fn admitted(self: &Arc<Self>, grant: Grant) -> Admitted {
        Admitted { workload: Arc::clone(self), grant: Some(grant) }
    }

    /// The error of a statement that the gate has turned away.
    pub fn refused(&self, class: ClassId, rejection: &Rejection) -> SqlError {
        let name = self.snapshot.load().class(class).name.clone();
        let state = SqlState::from_code(rejection.sqlstate());
        SqlError::new(state, rejection.message())
            .detail(format!("Workload class \"{name}\": {}.", rejection.detail()))
            .hint(rejection.hint())
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
        Some(verdict.map(|grant| self.workload.admitted(grant)))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut doors = self.workload.doors.lock();
        if doors.waiting.remove(&self.ticket).is_some() {
            let now = self.workload.now_ns();
            doors.gate.cancel(now, self.ticket);
            return;
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
}

impl InClass {
    pub fn begin(
        workload: &Arc<Workload>,
        class: ClassId,
        began: Moment,
        account: AccountId,
    ) -> Self {
        let counts = &workload.counts[usize::from(class.0)];
        counts.running.fetch_add(1, Ordering::Relaxed);
        InClass { workload: Arc::clone(workload), class, began, account, admitted: None }
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
        let took = clock::now().since(self.began);
        self.workload.latencies.note(self.class, took);
        self.counts().running.fetch_sub(1, Ordering::Relaxed);
        self.counts().statements.fetch_add(1, Ordering::Relaxed);
        self.account.leave_class();
    }
}
