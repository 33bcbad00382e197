//! A statement as it is recorded: its way through the server, phase by phase, and what is known of it at its end.

use std::borrow::Cow;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use halcyon_base::clock::{self, Moment};

use crate::context::{Context, SpanId, TraceId};

/// A part of a statement's way, and a child span of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Text to syntax.
    Parse,
    /// Syntax to plan, or the search for a plan that is there.
    Plan,
    /// The wait to be let in by the workload class.
    Admission,
    /// The wait for locks of others.
    Lock,
    /// The wait of a function: `pg_sleep`, an advisory lock.
    Function,
    /// The plan runs.
    Run,
    /// The wait until the log is on the disk.
    Commit,
    /// The client takes rows, or sends the data of a COPY.
    Client,
}

impl Phase {
    /// All phases in the order of a statement's way.
    pub const ALL: [Phase; 8] = [
        Phase::Parse,
        Phase::Plan,
        Phase::Admission,
        Phase::Lock,
        Phase::Function,
        Phase::Run,
        Phase::Commit,
        Phase::Client,
    ];

    /// The child span's name.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Parse => "parse",
            Phase::Plan => "plan",
            Phase::Admission => "admission wait",
            Phase::Lock => "lock wait",
            Phase::Function => "function wait",
            Phase::Run => "run",
            Phase::Commit => "commit wait",
            Phase::Client => "client",
        }
    }

    /// The statement's attribute with the sum of the phase's time in seconds.
    pub fn attribute(self) -> &'static str {
        match self {
            Phase::Parse => "halcyon.parse.seconds",
            Phase::Plan => "halcyon.plan.seconds",
            Phase::Admission => "halcyon.admission_wait.seconds",
            Phase::Lock => "halcyon.lock_wait.seconds",
            Phase::Function => "halcyon.function_wait.seconds",
            Phase::Run => "halcyon.run.seconds",
            Phase::Commit => "halcyon.commit_wait.seconds",
            Phase::Client => "halcyon.client.seconds",
        }
    }
}

/// Child spans of a statement; what comes behind is in the sums alone. A COPY has thousands.
pub const CHILDREN_MAX: usize = 32;

/// A stretch of one phase, from one change of phases to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The phase.
    pub phase: Phase,
    /// Its beginning.
    pub from: Moment,
    /// Its end.
    pub to: Moment,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A text.
    Text(Cow<'static, str>),
    /// The text of a statement, which is sent without its literals ([`crate::query`]).
    Query(Arc<str>),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// Yes or no.
    Bool(bool),
}

/// A statement that has ended, as it is sent.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Its trace.
    pub trace: TraceId,
    /// Its own span.
    pub span: SpanId,
    /// The client's span, and `tracestate`.
    pub parent: Option<Context>,
    /// The span's name: the operation and its table.
    pub name: String,
    /// Its beginning.
    pub from: Moment,
    /// Its end.
    pub to: Moment,
    /// Stretches in their order, [`CHILDREN_MAX`] at most.
    pub stretches: Vec<Stretch>,
    /// Sums of all stretches, by phase.
    pub sums: [Duration; Phase::ALL.len()],
    /// Attributes besides the sums.
    pub attributes: Vec<(&'static str, Value)>,
    /// SQLSTATE and message, if it has failed.
    pub error: Option<(String, String)>,
}

/// The place where statements go when they have ended.
pub(crate) trait Sink: Send + Sync {
    /// Takes a statement. Never waits for the collector.
    fn take(&self, span: Finished);
}

/// A statement that is being recorded. Dropping it ends and sends it.
pub struct Recording {
    sink: Arc<dyn Sink>,
    span: Finished,
    current: Option<(Phase, Moment)>,
    is_wanted: bool,
}

impl Recording {
    /// Begins a statement that has begun at `from`, in the trace of `parent` or one of its own.
    pub(crate) fn new(
        sink: Arc<dyn Sink>,
        trace: TraceId,
        parent: Option<Context>,
        from: Moment,
    ) -> Self {
        let span = Finished {
            trace,
            span: SpanId::random(),
            parent,
            name: String::new(),
            from,
            to: from,
            stretches: Vec::new(),
            sums: [Duration::ZERO; Phase::ALL.len()],
            attributes: Vec::new(),
            error: None,
        };
        Recording { sink, span, current: None, is_wanted: true }
    }

    /// The statement is in a phase from now on, which ends the one before.
    pub fn enter(&mut self, phase: Phase) {
        if self.current.is_none_or(|(current, _)| current != phase) {
            self.enter_at(phase, clock::now());
        }
    }

    /// The statement has been in a phase since a moment, which has ended the one before.
    pub fn enter_at(&mut self, phase: Phase, moment: Moment) {
        self.leave_at(moment);
        self.current = Some((phase, moment));
    }

    /// The statement is in no phase from now on.
    pub fn leave(&mut self) {
        self.leave_at(clock::now());
    }

    fn leave_at(&mut self, now: Moment) {
        if let Some((phase, from)) = self.current.take() {
            self.add(phase, from, now);
        }
    }

    /// Adds a stretch that was measured elsewhere.
    pub fn add(&mut self, phase: Phase, from: Moment, to: Moment) {
        self.span.sums[phase as usize] += to.since(from);
        let stretches = &mut self.span.stretches;
        let is_full = stretches.len() >= CHILDREN_MAX;
        match stretches.last_mut() {
            Some(last) if last.phase == phase => last.to = to,
            _ if is_full => {}
            _ => stretches.push(Stretch { phase, from, to }),
        }
    }

    /// Names the span.
    pub fn name(&mut self, operation: &str, target: Option<&str>) {
        self.span.name = match target {
            Some(target) => format!("{operation} {target}"),
            None => operation.to_owned(),
        };
    }

    /// Adds an attribute, or replaces its value.
    pub fn set(&mut self, key: &'static str, value: Value) {
        match self.span.attributes.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => *known = value,
            None => self.span.attributes.push((key, value)),
        }
    }

    /// Forgets the statement: there was none.
    pub fn discard(mut self) {
        self.is_wanted = false;
    }

    /// Notes that the statement has failed.
    pub fn fail(&mut self, state: &str, message: &str) {
        self.span.error = Some((state.to_owned(), message.to_owned()));
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if !self.is_wanted {
            return;
        }
        let now = clock::now();
        self.leave_at(now);
        self.span.to = now;
        let left = self.span.left();
        self.sink.take(mem::replace(&mut self.span, left));
    }
}

impl Finished {
    /// How long the statement took.
    pub fn took(&self) -> Duration {
        self.to.since(self.from)
    }

    /// What is left of a recording whose span has been taken.
    fn left(&self) -> Finished {
        Finished {
            parent: None,
            name: String::new(),
            stretches: Vec::new(),
            attributes: Vec::new(),
            error: None,
            trace: self.trace,
            span: self.span,
            from: self.from,
            to: self.to,
            sums: self.sums,
        }
    }
}
