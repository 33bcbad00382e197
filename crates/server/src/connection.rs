//! A connection after login: it reads messages, runs statements and answers.
//!
//! Words: the *implicit transaction* spans the statements that PostgreSQL takes as one transaction
//! without BEGIN: those of one Query message, or those between two Syncs. A lone statement runs in
//! a transaction of its own instead, so that it can read a snapshot without locks.
//! Invariants, checked by `a_pipeline_answers_in_order_and_skips_to_sync_after_an_error` (1),
//! `statements_between_syncs_are_one_transaction` (2) and
//! `a_client_that_does_not_read_holds_no_result` (3):
//! 1. After an error in the extended protocol nothing runs until Sync (`skipping`).
//! 2. `implicit` implies that the session is in a transaction, or was in one that failed.
//! 3. At most [`FLUSH_BYTES`] of a result, one row and one batch are held: a client that does not
//!    read stops its own statement, and holds no thread meanwhile.
//!
//! A statement that waits for a lock stands in its queue and holds no thread (`Connection::run_statement`).
//! Threads: everything that runs SQL does so on duty ([`halcyon_base::duty`]) or relieved already; see
//! [`crate::serve`].

mod copy;
mod extended;
mod simple;

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::Poll;
use std::time::Duration;

use halcyon::{
    Outcome, Progress, Session, SessionState, SqlError, SqlState, Statement, TextFormat, Value,
};
use halcyon_base::clock::{self, Moment};
use halcyon_base::duty;
use halcyon_traces::{Context, Phase};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::block_in_place;

use crate::attention::{Attention, Look};
use crate::farewell::{fatal, violation};
use crate::rows::{FLUSH_BYTES, Paused, RowStream};
use crate::shared::{Shared, WokenAtEnd};
use crate::socket::Stream;
use crate::startup::{Client, SessionPlace};
use crate::traced::Traced;
use crate::wire::backend::{Output, Severity};
use crate::wire::frontend::{Message, ProtocolError};
use crate::wire::input::{Input, InputError};

use extended::Portal;

/// How long a thread that leaves its lane waits for another one to take it.
const TAKEOVER_MAX: Duration = Duration::from_millis(20);

/// Bytes of a text that takes longer to read than a thread's other work takes to hand over.
const LONG_TEXT: usize = 16 * 1024;

/// A statement under a name of the protocol. Portals share it, so that it survives Close.
type SharedStatement = Arc<Parsed>;

/// A statement as Parse made it.
struct Parsed {
    /// The session lends the statement by a cell; the lock around it lets the connection's task
    /// change threads.
    statement: Mutex<Statement>,
    /// Parameter types as the client declared them. They are sent back unchanged, even where the
    /// type is known by another name here.
    declared: Vec<u32>,
    /// The client's span, if the comment behind the text has told one.
    told: Option<Box<Context>>,
}

/// A client's connection.
pub(crate) struct Connection<S> {
    shared: Arc<Shared>,
    stream: Stream<S>,
    input: Input,
    output: Output,
    session: Session,
    statements: HashMap<String, SharedStatement>,
    portals: HashMap<String, Portal>,
    skipping: bool,
    implicit: bool,
    /// How values become text, in the session's time zone.
    text_format: TextFormat,
    /// Notified when a notification has come, or when the session or the server is asked to end.
    woken: Arc<Notify>,
    attention: Attention,
    traced: Traced,
    _woken_at_end: WokenAtEnd,
    _place: SessionPlace,
}

/// The statement of a connection that has stayed on one thread or changed threads. A statement that
/// panicked was rolled back; the plan in it is always replaced as a whole.
fn lock(statement: &Mutex<Statement>) -> MutexGuard<'_, Statement> {
    statement.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a connection ends.
enum End {
    /// The client ended it, or is gone.
    Quiet,
    /// The client is told this error.
    Fatal(SqlError),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::OutOfMemory => {
                End::Fatal(SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory").detail(
                    "A message is larger than the memory that is left within memory_limit.",
                ))
            }
            _ => End::Quiet,
        }
    }
}

impl From<ProtocolError> for End {
    fn from(error: ProtocolError) -> Self {
        End::Fatal(violation(&error))
    }
}

impl From<InputError> for End {
    fn from(error: InputError) -> Self {
        match error {
            InputError::Io(error) => error.into(),
            InputError::Protocol(error) => error.into(),
        }
    }
}

/// Why the answer to a message stopped: the statement failed, or the connection has ended.
enum Failure {
    Sql(SqlError),
    End(End),
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        Failure::Sql(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::End(error.into())
    }
}

impl From<End> for Failure {
    fn from(end: End) -> Self {
        Failure::End(end)
    }
}

/// Runs what may wait for locks or compute for long: on the thread that serves the network, which is
/// relieved of that when it comes to waiting or lasts.
fn running<T>(work: impl FnOnce() -> T) -> T {
    duty::on_duty(|work| block_in_place(work), leave_lane, work)
}

/// Another thread takes the calling one's place in its lane. The lane is offered to a thread of the lane's pool; the
/// calling thread would take it back at once, so it waits until the lane's next task has run.
fn leave_lane() {
    let lane = Handle::current();
    block_in_place(|| {
        let (taken, is_taken) = mpsc::channel::<()>();
        lane.spawn(async move { drop(taken) });
        // Without a thread to spare in the pool the lane stays where it is.
        let _ = is_taken.recv_timeout(TAKEOVER_MAX);
    });
}

/// Runs what lasts in any case.
fn lasting<T>(work: impl FnOnce() -> T) -> T {
    block_in_place(work)
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(crate) fn new(shared: Arc<Shared>, mut client: Client<S>, attention: Attention) -> Self {
        let text_format = client.session.text_format();
        client.session.tells_answers();
        let woken = Arc::new(Notify::new());
        let waker = Arc::clone(&woken);
        client.session.set_waker(Arc::new(move || waker.notify_one()));
        let woken_at_end = shared.wake_at_end(&woken);
        let traced = Traced::new(shared.tracer.clone());
        Connection {
            shared,
            stream: client.stream,
            input: client.input,
            output: Output::default(),
            session: client.session,
            statements: HashMap::new(),
            portals: HashMap::new(),
            skipping: false,
            implicit: false,
            text_format,
            woken,
            attention,
            traced,
            _woken_at_end: woken_at_end,
            _place: client.place,
        }
    }

    /// Serves the client until it leaves or must leave.
    pub(crate) async fn run(mut self) {
        if let Err(End::Fatal(error)) = self.serve().await {
            self.portals.clear();
            // Locks are released before the farewell, which may take its time.
            running(|| {
                let _ = self.session.rollback();
            });
            fatal(&mut self.stream, &mut self.output, &error).await;
        }
        running(move || drop(self));
    }

    async fn serve(&mut self) -> Result<(), End> {
        loop {
            let message = self.receive().await?;
            if self.skipping && !matches!(message, Message::Sync | Message::Terminate) {
                continue;
            }
            if matches!(message, Message::Terminate) {
                return Ok(());
            }
            self.answer(message).await?;
            if self.output.buffer.len() >= FLUSH_BYTES {
                self.flush().await?;
            }
        }
    }

    async fn answer(&mut self, message: Message) -> Result<(), End> {
        if let Some(moment) = self.input.arrived() {
            self.session.arrived(moment);
        }
        let answered = match message {
            Message::Query(text) => return self.query(&text).await,
            Message::Parse { name, query, types } => self.parse(name, &query, &types),
            Message::Bind(bind) => self.bind(bind),
            Message::Describe(target) => self.describe(&target),
            Message::Close(target) => {
                self.close(&target);
                Ok(())
            }
            Message::Execute { portal, rows_max } => self.execute(&portal, rows_max).await,
            Message::Flush => return Ok(self.flush().await?),
            Message::Sync => return self.sync().await,
            // Messages left over from a COPY that failed meanwhile.
            Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) => Ok(()),
            Message::FunctionCall => {
                self.report(&SqlError::unsupported("the fast-path function call"));
                return self.ready().await;
            }
            Message::Password(_) => {
                return Err(ProtocolError::Unexpected("a password after login").into());
            }
            Message::Terminate => return Ok(()),
        };
        match answered {
            Ok(()) => Ok(()),
            Err(Failure::End(end)) => Err(end),
            Err(Failure::Sql(error)) => {
                // The error is sent at once, as in PostgreSQL: a client that has sent Flush waits
                // for it, and that Flush may be among the messages skipped now.
                self.traced.fail(&error, self.arrived(), &self.session);
                self.report(&error);
                self.skipping = true;
                Ok(self.flush().await?)
            }
        }
    }

    /// The next message.
    async fn receive(&mut self) -> Result<Message, End> {
        let large = self.shared.config.message_bytes_max;
        if self.session.is_ending() {
            return Err(End::Fatal(ended_by_others()));
        }
        if let Some(message) = self.input.take(large)? {
            return Ok(message);
        }
        let look = self.attention.waits();
        let mut in_vain = false;
        if let Some(look) = look {
            if let Some(message) = self.look_for_message(look, large).await? {
                self.attention.works(true, false);
                return Ok(message);
            }
            in_vain = true;
        }
        let message = self.wait_for_message(large).await?;
        self.attention.works(false, in_vain);
        Ok(message)
    }

    /// The next message, if it comes while the thread looks for it.
    async fn look_for_message(&mut self, look: Look, large: u32) -> Result<Option<Message>, End> {
        while look.goes_on() {
            let next = pin!(self.input.next(&mut self.stream, large));
            if let Poll::Ready(message) = poll_immediate(next).await {
                return message?.ok_or(End::Quiet).map(Some);
            }
            // Other tasks of the lane come first; if there are none, the kernel is asked for events.
            tokio::task::yield_now().await;
        }
        Ok(None)
    }

    /// The next message. During the wait, the server's end and the session's timeouts are observed.
    async fn wait_for_message(&mut self, large: u32) -> Result<Message, End> {
        let (idle_max, timed_out) = self.idle_limit();
        let idle = sleep(idle_max);
        tokio::pin!(idle);
        loop {
            if self.session.is_ending() || self.shared.ends_idle() {
                return Err(End::Fatal(ended_by_others()));
            }
            if self.session.state() == SessionState::Idle && self.tell_notifications() {
                self.flush().await?;
            }
            let unread = sleep(self.close_idle());
            let message = tokio::select! {
                biased;
                message = self.input.next(&mut self.stream, large) => message?,
                () = self.woken.notified() => continue,
                () = unread => continue,
                () = &mut idle => return Err(End::Fatal(timed_out())),
            };
            return message.ok_or(End::Quiet);
        }
    }

    /// Closes cursors and portals that nobody has read for too long; returns how long no other one is due.
    fn close_idle(&mut self) -> Option<Duration> {
        if self.portals.is_empty() && !self.session.has_cursors() {
            return None;
        }
        let over = |portal: &Portal| portal.idle_left().is_some_and(|left| left.is_zero());
        let of = self.portals.iter().filter(|(_, portal)| over(portal));
        let closed: Vec<String> = of.map(|(name, _)| name.clone()).collect();
        for name in closed {
            running(|| self.portals.remove(&name));
            self.session.warn_of_idle_cursor(&name);
        }
        let portals = self.portals.values().filter_map(Portal::idle_left).min();
        let cursors = running(|| self.session.close_idle_cursors());
        portals.into_iter().chain(cursors).min()
    }

    /// Sends the notifications that have come; returns whether there were any.
    fn tell_notifications(&mut self) -> bool {
        let notifications = self.session.take_notifications();
        for told in &notifications {
            self.output.notification(told.session as i32, &told.channel, &told.payload);
        }
        !notifications.is_empty()
    }

    /// How long the client may be silent now, and what makes the error for a longer silence.
    fn idle_limit(&self) -> (Option<Duration>, fn() -> SqlError) {
        match self.session.state() {
            SessionState::Idle => (self.session.setting_duration("idle_session_timeout"), || {
                let message = "terminating connection due to idle-session timeout";
                SqlError::new(SqlState::IDLE_SESSION_TIMEOUT, message)
            }),
            SessionState::InTransaction | SessionState::Failed => {
                let limit = self.session.setting_duration("idle_in_transaction_session_timeout");
                (limit, || {
                    let message = "terminating connection due to idle-in-transaction timeout";
                    SqlError::new(SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT, message)
                })
            }
        }
    }

    /// When the message came that is being answered.
    fn arrived(&self) -> Moment {
        self.input.arrived().unwrap_or_else(clock::now)
    }

    async fn flush(&mut self) -> io::Result<()> {
        if !self.output.buffer.is_empty() {
            self.traced.enter(Phase::Client);
            self.stream.write_all(&self.output.buffer).await?;
            self.output.buffer.clear();
        }
        self.stream.flush().await?;
        self.session.answered();
        self.traced.flushed();
        Ok(())
    }

    /// Ends the answer to a Query or a pipeline.
    async fn ready(&mut self) -> Result<(), End> {
        self.tell_changes();
        if self.session.state() == SessionState::Idle {
            self.tell_notifications();
        }
        self.output.ready(self.session.state());
        Ok(self.flush().await?)
    }

    /// Sends notices and changed settings.
    fn tell_changes(&mut self) {
        for notice in self.session.take_notices() {
            // Classes 01 (warning) and 25 (state of the transaction) are warnings. A statement
            // skipped because its object exists or is missing is a notice.
            let severity = match &notice.state().class() {
                b"01" | b"25" => Severity::Warning,
                _ => Severity::Notice,
            };
            self.output.notice(severity, &notice);
        }
        let changes = self.session.take_changes();
        for (name, value) in &changes {
            self.output.parameter_status(name, value);
        }
        let has_zone = changes.iter().any(|(name, _)| name == "TimeZone");
        if has_zone || self.session.has_other_digits(&self.text_format) {
            self.text_format = self.session.text_format();
        }
    }

    fn report(&mut self, error: &SqlError) {
        self.tell_changes();
        self.output.error(Severity::Error, error);
    }

    /// Begins the implicit transaction, if the session is in none.
    fn begin_implicit(&mut self) {
        if self.session.state() == SessionState::Idle {
            self.session.begin_implicit();
            self.implicit = true;
        }
    }

    /// Ends the implicit transaction, if there is one: commits it, or rolls it back if it failed.
    fn end_implicit(&mut self, failed: bool) -> Result<(), SqlError> {
        if !std::mem::take(&mut self.implicit) || self.session.state() == SessionState::Idle {
            return Ok(());
        }
        self.portals.clear();
        // Part of the last statement for traces, unless that has been answered.
        let began = self.traced.runs();
        let ended = running(|| match failed || self.session.state() == SessionState::Failed {
            true => self.session.rollback(),
            false => self.session.commit(),
        });
        self.traced.ran(began, &self.session);
        ended
    }

    /// Runs a statement. While it waits for a lock, or another thread is at the disk, the thread serves others.
    async fn run_statement(
        &mut self,
        statement: &Mutex<Statement>,
        params: &[Value],
    ) -> Result<Outcome, SqlError> {
        loop {
            let began = self.traced.runs();
            let progress = running(|| self.session.run_or_queue(&lock(statement), params));
            self.traced.ran(began, &self.session);
            match progress? {
                Progress::Done(outcome) => return Ok(outcome),
                Progress::Queued => {
                    self.traced.enter_wait(&self.session);
                    self.lock_comes().await;
                }
                Progress::Syncing => {
                    self.traced.enter(Phase::Commit);
                    self.disk_comes().await;
                }
            }
        }
    }

    /// Waits until another thread has written what the statement wants on the disk, or it is this one's turn.
    async fn disk_comes(&mut self) {
        let session = &mut self.session;
        // How long it may take is known once the wait has been asked.
        let first = poll_immediate(poll_fn(|context| session.poll_disk(context))).await;
        if first.is_pending() {
            let late = sleep(session.disk_time_left());
            tokio::select! {
                () = poll_fn(|context| session.poll_disk(context)) => {}
                () = late => {}
            }
        }
    }

    /// Waits until the statement that stands in a lock's queue can go on.
    async fn lock_comes(&mut self) {
        let session = &mut self.session;
        let late = sleep(session.lock_time_left());
        tokio::select! {
            () = poll_fn(|context| session.poll_lock(context)) => {}
            () = late => {}
        }
    }

    /// Sends rows of a result, up to `limit`; returns whether the result has ended, and how many
    /// rows it had.
    ///
    /// Errors: the statement's; a transaction block counts as failed then.
    async fn send_rows(
        &mut self,
        rows: &mut RowStream,
        limit: u64,
    ) -> Result<(Paused, u64), Failure> {
        let mut sent = 0;
        loop {
            let out = &mut self.output.buffer;
            let began = self.traced.runs();
            let encoded = running(|| rows.encode(out, &mut sent, limit));
            self.traced.ran(began, &self.session);
            match encoded {
                Ok(Paused::Full) => self.flush().await?,
                Ok(Paused::Waits) => {
                    self.traced.enter(Phase::Run);
                    poll_fn(|context| rows.poll_ready(context)).await;
                }
                Ok(paused) => {
                    self.traced.add_rows(sent);
                    return Ok((paused, sent));
                }
                Err(error) => {
                    self.session.fail_transaction();
                    return Err(error.into());
                }
            }
        }
    }
}

/// What a future has ready, looked at once.
async fn poll_immediate<F: Future + Unpin>(mut future: F) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(Pin::new(&mut future).poll(context))).await
}

/// 57P01: the server stops, or another session has asked this one to end.
fn ended_by_others() -> SqlError {
    SqlError::new(SqlState::ADMIN_SHUTDOWN, "terminating connection due to administrator command")
}

async fn sleep(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => std::future::pending().await,
    }
}
