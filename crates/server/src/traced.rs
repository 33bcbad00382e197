//! The statements of a connection as traces record them: when a recording begins, in which phase it is, what is said
//! of the statement, and when it ends.
//!
//! A statement's recording ends when the last byte of its answer has been handed to the network, or when the next
//! statement begins, whichever is first. Without a tracer nothing here does anything.

use std::sync::Arc;
use std::time::Duration;

use halcyon::{Session, SqlError, SqlState, Statement, WaitsFor};
use halcyon_base::clock::{self, Moment};
use halcyon_machine::counters::thread_cpu_ns;
use halcyon_traces::{Commented, Context, Phase, Recording, Tracer, Value};

/// The name of a span of which nothing is known, as the semantic conventions have it.
const UNKNOWN: &str = "halcyon";

/// Recordings of a connection.
pub(crate) struct Traced {
    tracer: Option<Arc<Tracer>>,
    /// The statement that runs, or whose answer is still to be sent.
    current: Option<Box<Current>>,
    /// What Parse has recorded of a statement that has not run.
    prepared: Option<(PreparedFor, Box<Current>)>,
    /// The client's span, as the last statement told it.
    parent: Option<Context>,
}

/// The address of the statement that Parse has made.
type PreparedFor = usize;

/// A statement that is recorded.
pub(crate) struct Current {
    recording: Recording,
    /// Processor time of the connection's thread.
    cpu: Duration,
    /// The most bytes seen.
    bytes: u64,
    rows: u64,
    is_over: bool,
}

impl Current {
    fn note_usage(&mut self, session: &Session) -> Duration {
        let (workers, bytes) = session.statement_usage();
        self.bytes = self.bytes.max(bytes);
        workers
    }

    /// Notes that the statement has ended, and what it has used.
    fn end(&mut self, session: &Session) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let cpu = self.cpu + self.note_usage(session);
        let bytes = i64::try_from(self.bytes).unwrap_or(i64::MAX);
        let rows = i64::try_from(self.rows).unwrap_or(i64::MAX);
        let recording = &mut self.recording;
        recording.set("halcyon.cpu.seconds", Value::Float(cpu.as_secs_f64()));
        recording.set("halcyon.memory.bytes", Value::Int(bytes));
        recording.set("halcyon.workload.class", Value::Text(session.class_name().into()));
        recording.set("db.response.returned_rows", Value::Int(rows));
    }
}

impl Traced {
    pub(crate) fn new(tracer: Option<Arc<Tracer>>) -> Self {
        Traced { tracer, current: None, prepared: None, parent: None }
    }

    /// The client's span that the comment behind a statement tells.
    pub(crate) fn told(&self, comment: Option<Commented<'_>>) -> Option<Context> {
        self.tracer.as_ref().and(comment)?.context()
    }

    /// The client's span: the one that a comment has told, or else the session's setting.
    pub(crate) fn parent(&self, told: Option<Context>, session: &Session) -> Option<Context> {
        self.tracer.as_ref()?;
        told.or_else(|| match session.traceparent() {
            "" => None,
            parent => Context::parse(parent),
        })
    }

    /// A statement begins, in the trace of `parent`; its message came at `from`.
    pub(crate) fn begin(&mut self, parent: Option<Context>, from: Moment, session: &Session) {
        let Some(tracer) = &self.tracer else { return };
        match self.current.take() {
            Some(before) if !before.is_over => before.recording.discard(),
            _ => {}
        }
        self.parent.clone_from(&parent);
        self.current = fresh(tracer, parent, from, session);
    }

    /// Parse begins: what has been recorded is the next statement's if Execute comes before Sync.
    pub(crate) fn begin_parse(&mut self, parent: Option<Context>, from: Moment, session: &Session) {
        let Some(tracer) = self.tracer.clone() else { return };
        self.finish_prepared();
        self.parent.clone_from(&parent);
        let current = fresh(&tracer, parent, from, session);
        self.prepared = current.map(|current| (0, current));
    }

    /// Parse has made a statement.
    pub(crate) fn parsed<T>(&mut self, statement: &Arc<T>) {
        if let Some((of, _)) = &mut self.prepared {
            *of = Arc::as_ptr(statement) as *const () as usize;
        }
    }

    /// Execute begins to run a statement. What Parse has recorded of it goes on, if it is the last that was parsed.
    pub(crate) fn begin_execute<T>(
        &mut self,
        statement: &Arc<T>,
        parent: Option<Context>,
        from: Moment,
        session: &Session,
    ) {
        if self.tracer.is_none() {
            return;
        }
        match self.prepared.take() {
            Some((of, current)) if of == Arc::as_ptr(statement) as *const () as usize => {
                self.parent = parent;
                self.current = Some(current);
            }
            other => {
                self.prepared = other;
                self.begin(parent, from, session);
            }
        }
    }

    /// A statement of Parse that did not run by the next Sync is a span of its own.
    pub(crate) fn finish_prepared(&mut self) {
        if let Some((_, mut prepared)) = self.prepared.take() {
            prepared.recording.leave();
            prepared.recording.set("halcyon.prepared_only", Value::Bool(true));
        }
    }

    /// The moment at which a statement begins to be made, if any is recorded.
    pub(crate) fn plans(&self) -> Option<Moment> {
        self.tracer.as_ref().map(|_| clock::now())
    }

    /// Notes how long it took to make a statement, or why it was not made. `parsing`: Parse made it.
    pub(crate) fn planned(
        &mut self,
        began: Option<Moment>,
        made: Result<&Statement, &SqlError>,
        parsing: bool,
    ) {
        let current = match parsing {
            true => self.prepared.as_mut().map(|(_, prepared)| prepared),
            false => self.current.as_mut(),
        };
        let (Some(current), Some(began)) = (current, began) else { return };
        let (recording, now) = (&mut current.recording, clock::now());
        match made {
            Ok(statement) => {
                let mut from = began;
                if let Some((parse, _)) = statement.planning() {
                    from = began.plus(parse).min(now);
                    recording.add(Phase::Parse, began, from);
                }
                recording.add(Phase::Plan, from, now);
                let found = statement.planning().is_none();
                recording.set("halcyon.plan_cache.hit", Value::Bool(found));
                describe(recording, statement);
            }
            Err(error) if error.state() == SqlState::SYNTAX_ERROR => {
                recording.add(Phase::Parse, began, now);
            }
            Err(_) => recording.add(Phase::Plan, began, now),
        }
    }

    /// Says which statement runs, for one that was not made for this run.
    pub(crate) fn describe(&mut self, statement: &Statement) {
        if let Some(current) = &mut self.current {
            describe(&mut current.recording, statement);
        }
    }

    /// Names what runs without a statement.
    pub(crate) fn name(&mut self, operation: &'static str) {
        if let Some(current) = &mut self.current {
            current.recording.name(operation, None);
            current.recording.set("db.operation.name", Value::Text(operation.into()));
        }
    }

    /// Whether a statement is recorded that is not over.
    #[inline]
    pub(crate) fn is_recording(&self) -> bool {
        self.current.as_ref().is_some_and(|current| !current.is_over)
    }

    /// The statement is in a phase.
    #[inline]
    pub(crate) fn enter(&mut self, phase: Phase) {
        if let Some(current) = &mut self.current {
            current.recording.enter(phase);
        }
    }

    /// The statement waits, and has given its thread back.
    pub(crate) fn enter_wait(&mut self, session: &Session) {
        if self.current.is_some() {
            self.enter(match session.waits_for() {
                WaitsFor::Admission => Phase::Admission,
                WaitsFor::Function => Phase::Function,
                WaitsFor::Lock => Phase::Lock,
            });
        }
    }

    /// The statement runs on the calling thread from now on: the thread's processor time, if the statement is recorded.
    #[inline]
    pub(crate) fn runs(&mut self) -> Option<u64> {
        let current = self.current.as_mut()?;
        current.recording.enter(Phase::Run);
        thread_cpu_ns()
    }

    /// The statement has run since [`Traced::runs`].
    #[inline]
    pub(crate) fn ran(&mut self, began: Option<u64>, session: &Session) {
        let Some(current) = &mut self.current else { return };
        if let (Some(began), Some(now)) = (began, thread_cpu_ns()) {
            current.cpu += Duration::from_nanos(now.saturating_sub(began));
        }
        current.note_usage(session);
        // The wait for the disk comes last.
        let disk = session.take_disk_time();
        if !disk.is_zero() {
            let from = clock::now().0.saturating_sub(u64::try_from(disk.as_nanos()).unwrap_or(0));
            current.recording.enter_at(Phase::Commit, Moment(from));
        }
        current.recording.leave();
    }

    /// Adds rows that the client was sent.
    #[inline]
    pub(crate) fn add_rows(&mut self, rows: u64) {
        if let Some(current) = &mut self.current {
            current.rows += rows;
        }
    }

    /// Notes how many rows the statement has written, or moved by a COPY.
    pub(crate) fn wrote(&mut self, rows: Option<u64>) {
        if let (Some(current), Some(rows)) = (&mut self.current, rows) {
            let rows = i64::try_from(rows).unwrap_or(i64::MAX);
            current.recording.set("halcyon.affected_rows", Value::Int(rows));
        }
    }

    /// There was no statement.
    pub(crate) fn discard(&mut self) {
        if let Some(current) = self.current.take() {
            current.recording.discard();
        }
    }

    /// The statement has ended; its answer may still be unsent.
    #[inline]
    pub(crate) fn end(&mut self, session: &Session) {
        if let Some(current) = &mut self.current {
            current.recording.leave();
            current.end(session);
        }
    }

    /// The statement has failed: the one that runs, or was to be prepared, or one of which nothing is known.
    pub(crate) fn fail(&mut self, error: &SqlError, from: Moment, session: &Session) {
        let Some(tracer) = &self.tracer else { return };
        if self.current.as_ref().is_none_or(|current| current.is_over) {
            self.current = match self.prepared.take() {
                Some((_, prepared)) => Some(prepared),
                None => fresh(tracer, self.parent.clone(), from, session),
            };
        }
        if let Some(current) = &mut self.current {
            current.recording.leave();
            current.recording.fail(&error.state().to_string(), error.message());
            current.end(session);
        }
    }

    /// The last statement's answer is unsent, and the transaction around it could not be committed.
    pub(crate) fn fail_last(&mut self, error: &SqlError) {
        if let Some(current) = &mut self.current {
            current.recording.fail(&error.state().to_string(), error.message());
        }
    }

    /// The recording of a statement that has rows left, for its portal to keep.
    pub(crate) fn set_aside(&mut self) -> Option<Box<Current>> {
        let mut current = self.current.take()?;
        current.recording.enter(Phase::Client);
        Some(current)
    }

    /// A portal goes on.
    pub(crate) fn take_up(&mut self, current: Option<Box<Current>>) {
        if current.is_some() {
            self.current = current;
        }
    }

    /// The bytes so far have gone to the client: a statement that is over has been answered.
    #[inline]
    pub(crate) fn flushed(&mut self) {
        if let Some(current) = &mut self.current {
            current.recording.leave();
            if current.is_over {
                self.current = None;
            }
        }
    }
}

fn fresh(
    tracer: &Arc<Tracer>,
    parent: Option<Context>,
    from: Moment,
    session: &Session,
) -> Option<Box<Current>> {
    let mut recording = tracer.begin(parent, from)?;
    recording.name(UNKNOWN, None);
    let text = |text: &str| Value::Text(text.to_owned().into());
    recording.set("db.namespace", text(session.database_name()));
    recording.set("halcyon.role", text(session.role()));
    recording.set("halcyon.session.id", Value::Int(session.id().into()));
    if let Some(client) = session.client() {
        recording.set("client.address", text(client));
    }
    if !session.application().is_empty() {
        recording.set("halcyon.application_name", text(session.application()));
    }
    // What earlier statements have left is none of this one's.
    session.take_disk_time();
    let current = Current { recording, cpu: Duration::ZERO, bytes: 0, rows: 0, is_over: false };
    Some(Box::new(current))
}

/// Says which statement it is.
fn describe(recording: &mut Recording, statement: &Statement) {
    let (operation, table) = (statement.tag(), statement.only_table());
    recording.name(operation, table.as_deref());
    recording.set("db.operation.name", Value::Text(operation.into()));
    recording.set("db.query.text", Value::Query(statement.counted_text()));
    recording.set("halcyon.executor", Value::Text(statement.executor().into()));
    if let Some(table) = table {
        recording.set("db.collection.name", Value::Text(table.into()));
    }
}
