//! What goes into the gate, and what comes out.

use std::time::Duration;

use super::delay::{Ready, Step};
use super::queue::Ticket;
use super::rejection::Rejection;
use crate::limits::{CLASSES, ClassId, Limits};

/// A statement at the gate.
#[derive(Clone, Debug)]
pub struct Request {
    /// The class.
    pub class: ClassId,
    /// Worker threads that the statement can use.
    pub threads_wanted: u32,
    /// The session, for views.
    pub session: u32,
    /// The limits of a hint, as [`crate::Snapshot::restrict`] gives them.
    pub limits: Option<Limits>,
    /// A hash of the statement's text, for views.
    pub text_hash: u64,
    /// Whether the statement's transaction holds locks.
    pub holds_locks: bool,
}

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The statement runs.
    Admitted(Grant),
    /// The statement waits; [`Woken`] ends the wait.
    Queued(Ticket),
    /// The statement does not run.
    Rejected(Rejection),
}

/// Leave to run, which is given back by [`super::Gate::leave`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a grant that is not given back holds its threads for ever"]
pub struct Grant {
    /// The class that pays; the one asked for, unless that class was dropped during the wait.
    pub class: ClassId,
    /// Worker threads, at least 1.
    pub threads: u32,
    /// How long the statement waited.
    pub waited: Duration,
}

/// The end of a wait.
#[derive(Debug, PartialEq, Eq)]
pub struct Woken {
    /// The place in the queue.
    pub ticket: Ticket,
    /// The session.
    pub session: u32,
    /// Leave to run, or the reason why not.
    pub result: Result<Grant, Rejection>,
}

/// What was measured since the last tick.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Processor time in use, percent of all.
    pub cpu_percent: f64,
    /// Memory in use, percent of what the database may use.
    pub memory_percent: f64,
    /// By class, how long its tasks waited for a worker; `None` for a class without tasks.
    pub ready: [Option<Ready>; CLASSES],
}

impl Observation {
    /// An observation in which no class has tasks.
    pub fn new(cpu_percent: f64, memory_percent: f64) -> Self {
        Observation { cpu_percent, memory_percent, ready: [None; CLASSES] }
    }
}

/// A waiting statement, for views.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The place in the queue.
    pub ticket: Ticket,
    /// The class.
    pub class: ClassId,
    /// The session.
    pub session: u32,
    /// A hash of the statement's text.
    pub text_hash: u64,
    /// When the wait began, in the caller's time, ns.
    pub enqueued_ns: u64,
    /// When the wait ends at the latest, ns.
    pub timeout_ns: u64,
    /// Whether the statement's transaction holds locks.
    pub holds_locks: bool,
}

/// A class's controller, for views.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// The class.
    pub class: ClassId,
    /// Statements that may run at a time.
    pub limit: u32,
    /// The bounds of that number.
    pub bounds: (u32, u32),
    /// The delay that running statements meet.
    pub delay: Duration,
    /// The delay that the controller aims at.
    pub aim: Duration,
    /// Whether the limit holds statements up now.
    pub is_binding: bool,
    /// Whether the newest statement goes first.
    pub newest_first: bool,
    /// What the last step did.
    pub last: Step,
}
