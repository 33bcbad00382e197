//! Databases and sessions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Instant;

use halcyon::{
    CancelHandle, DatabaseOptions, Outcome, SessionOptions, SessionState, SqlError, SqlState,
    SqlType, Statement, Value,
};
use halcyon_interchange::load::{self, quoted};
use halcyon_interchange::transactions::{begin_for, in_transaction};
use pyo3::prelude::*;

use crate::capsules;
use crate::errors::{closed, told};
use crate::habits::{Habits, run_here};
use crate::interrupt;
use crate::params::{self, Param, Typed};
use crate::results::Result as Answer;
use crate::streams::Stream;
use crate::subscriptions::Subscription;

/// A database: in memory, or kept in a folder.
#[pyclass(frozen, weakref, module = "halcyon._halcyon")]
pub struct Database {
    database: Mutex<Option<halcyon::Database>>,
    process: u32,
}

/// 08003 in a child that was forked: the database's threads are the parent's.
fn refuse_other_process(process: u32) -> halcyon::Result<()> {
    if process == std::process::id() {
        return Ok(());
    }
    let message = "the database was opened by the process that this one was forked from";
    Err(SqlError::new(SqlState::new(b"08003"), message)
        .hint("Open it in the child, or start children by multiprocessing's \"spawn\"."))
}

impl Database {
    fn handle(&self) -> halcyon::Result<halcyon::Database> {
        refuse_other_process(self.process)?;
        let database = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        database.clone().ok_or_else(|| closed("database"))
    }

    fn new_session(&self, role: Option<String>) -> halcyon::Result<halcyon::Session> {
        self.handle()?.session_with(SessionOptions { role, client: None })
    }
}

#[pymethods]
impl Database {
    /// Opens the database of a folder, or one in memory. `settings`: of the whole database, as `ALTER SYSTEM` knows them,
    /// and `threads` and `spill_folder`.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        folder: Option<String>,
        settings: Vec<(String, String)>,
    ) -> PyResult<Self> {
        let opened = py.detach(|| -> halcyon::Result<halcyon::Database> {
            let mut options = DatabaseOptions::default();
            for (name, value) in settings {
                match name.as_str() {
                    "threads" => {
                        options.threads = value.parse().map_err(|_| bad_threads(&value))?
                    }
                    "spill_folder" => options.spill_into(value)?,
                    _ => options.set(&name, &value)?,
                }
            }
            match folder {
                None => Ok(halcyon::Database::with_options(options)),
                Some(folder) => halcyon::Database::open_with(folder.as_ref(), options, &|_| ()),
            }
        });
        let database = Mutex::new(Some(told(py, opened)?));
        Ok(Database { database, process: std::process::id() })
    }

    /// A session of a role; of the first superuser without one.
    #[pyo3(signature = (role = None))]
    fn session(&self, py: Python<'_>, role: Option<String>) -> PyResult<Session> {
        let session = told(py, self.new_session(role))?;
        let cancel = session.canceller();
        let id = session.id();
        let session = Arc::new(Owned { session: Mutex::new(Some(session)), ..Owned::default() });
        Ok(Session { session, cancel, id, process: self.process })
    }

    /// A subscription to a materialized view, from behind a position or with the view's rows first.
    #[pyo3(signature = (view, position = None, role = None))]
    fn subscribe(
        &self,
        py: Python<'_>,
        view: String,
        position: Option<u64>,
        role: Option<String>,
    ) -> PyResult<Subscription> {
        let made = py.detach(|| Subscription::new(self.new_session(role)?, &view, position));
        told(py, made)
    }

    /// A handle that gives a stream events.
    #[pyo3(signature = (name, role = None))]
    fn stream(&self, py: Python<'_>, name: String, role: Option<String>) -> PyResult<Stream> {
        let made = py.detach(|| {
            let types = self.new_session(role.clone())?;
            Stream::new(types, self.new_session(role)?, &name)
        });
        told(py, made)
    }

    /// Writes a checkpoint.
    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        let done = py.detach(|| self.handle()?.checkpoint());
        told(py, done)
    }

    /// Copies the database into a new folder.
    fn backup(&self, py: Python<'_>, folder: String) -> PyResult<()> {
        let done = py.detach(|| self.handle()?.backup(folder));
        told(py, done)
    }

    /// Gives the handle up; the database closes with its last session.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.database.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }
}

fn bad_threads(value: &str) -> SqlError {
    let message = format!("invalid value for \"threads\": \"{value}\"");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// A session, and the thread that works with it now.
#[derive(Default)]
struct Owned {
    session: Mutex<Option<halcyon::Session>>,
    owner: Mutex<Option<ThreadId>>,
    habits: Mutex<Habits>,
    /// Whether Python's main thread has another one work with the session.
    main_waits: AtomicBool,
}

impl Owned {
    fn owner(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// 55000 if this thread works with the session already: a batch that is loaded, or a signal's handler, runs a statement of
    /// the connection that waits for it.
    fn refuse_owner(&self) -> halcyon::Result<()> {
        if *self.owner() != Some(thread::current().id()) {
            return Ok(());
        }
        Err(Self::busy())
    }

    fn busy() -> SqlError {
        let message = "a statement of the connection is running, which asks for this one";
        SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
            .hint("Use another connection.")
    }
}

type Shared = Arc<Owned>;

/// A session: statements of one connection, one at a time.
#[pyclass(frozen, module = "halcyon._halcyon")]
pub struct Session {
    session: Shared,
    cancel: CancelHandle,
    id: u32,
    process: u32,
}

fn lock(session: &Shared) -> MutexGuard<'_, Option<halcyon::Session>> {
    session.session.lock().unwrap_or_else(PoisonError::into_inner)
}

fn habits(session: &Shared) -> MutexGuard<'_, Habits> {
    session.habits.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Works with the session once no other thread does. Errors: 55000 if this thread does already.
fn locked<T>(
    session: &Shared,
    work: impl FnOnce(&mut halcyon::Session) -> halcyon::Result<T>,
) -> halcyon::Result<T> {
    session.refuse_owner()?;
    let mut guard = lock(session);
    *session.owner() = Some(thread::current().id());
    let done = guard.as_mut().ok_or_else(|| closed("connection")).and_then(work);
    *session.owner() = None;
    done
}

impl Session {
    /// Does work with the session, without the interpreter's lock.
    fn with<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut halcyon::Session) -> halcyon::Result<T> + Send + 'static,
    ) -> PyResult<T> {
        told(py, refuse_other_process(self.process))?;
        told(py, self.session.refuse_owner())?;
        let session = self.session.clone();
        let is_main = interrupt::is_main_thread(py)?;
        if is_main && self.session.main_waits.swap(true, Ordering::Relaxed) {
            return told(py, Err(Owned::busy()));
        }
        let done = interrupt::run(py, &self.cancel, move || locked(&session, work));
        if is_main {
            self.session.main_waits.store(false, Ordering::Relaxed);
        }
        told(py, done?)
    }

    /// Whether a text has been short of late.
    fn is_short(&self, text: &str) -> bool {
        habits(&self.session).is_short(text)
    }

    /// Runs a statement that has been short on this thread, which is the main one. `None`: another thread works with
    /// the session, and nothing has run.
    fn run_here(
        &self,
        py: Python<'_>,
        text: &str,
        params: &[Typed],
        begins: bool,
        class: Option<&str>,
    ) -> PyResult<Option<Answer>> {
        told(py, refuse_other_process(self.process))?;
        let mut raised = None;
        let done = py.detach(|| {
            if self.session.session.try_lock().is_err() {
                return Ok(None);
            }
            let began = Instant::now();
            let run = Run { text, params, begins, class };
            let outcome = locked(&self.session, |session| {
                run.run(session, |session, statement, values| {
                    run_here(session, statement, values, &self.cancel, &mut raised)
                })
            });
            habits(&self.session).note(text, began.elapsed());
            outcome.map(|outcome| Some(Answer::new(outcome, self.cancel.clone())))
        });
        match raised {
            Some(raised) => Err(raised),
            None => told(py, done),
        }
    }
}

#[pymethods]
impl Session {
    /// Number of the session, as `pg_backend_pid()` gives it.
    #[getter]
    fn id(&self) -> u32 {
        self.id
    }

    /// Runs the statements of a text and returns the last one's result. `begins`: a transaction begins unless one is in
    /// progress. `class_name`: a workload class for queries and writes. Parameters go with one statement.
    #[pyo3(signature = (text, params, begins, class_name = None))]
    fn run(
        &self,
        py: Python<'_>,
        text: String,
        params: Option<&Bound<'_, PyAny>>,
        begins: bool,
        class_name: Option<String>,
    ) -> PyResult<Answer> {
        let params = params.map(params::all).transpose()?;
        let cancel = self.cancel.clone();
        if self.is_short(&text) && interrupt::is_main_thread(py)? {
            let params = params.as_deref().unwrap_or_default();
            if let Some(done) = self.run_here(py, &text, params, begins, class_name.as_deref())? {
                return Ok(done);
            }
        }
        let shared = self.session.clone();
        self.with(py, move |session| {
            let began = Instant::now();
            let whole = text.as_str();
            let mut last = Answer::done(String::new(), None, cancel.clone());
            let texts = statements(session, whole, params.is_some())?;
            let is_one = texts.len() == 1;
            for text in texts {
                let params = params.as_deref().unwrap_or_default();
                let run = Run { text, params, begins, class: class_name.as_deref() };
                last = Answer::new(run.run(session, halcyon::Session::run)?, cancel.clone());
            }
            if is_one {
                habits(&shared).note(whole, began.elapsed());
            }
            Ok(last)
        })
    }

    /// Runs one statement for each of several parameters, in one transaction. Returns how many rows it concerned.
    fn run_many(
        &self,
        py: Python<'_>,
        text: String,
        rows: Vec<Bound<'_, PyAny>>,
        begins: bool,
    ) -> PyResult<u64> {
        let rows = rows.iter().map(params::all).collect::<PyResult<Vec<_>>>()?;
        self.with(py, move |session| {
            in_transaction(session, begins, |session| run_rows(session, &text, rows))
        })
    }

    /// Commits the transaction, if one is in progress.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |session| match session.state() {
            SessionState::Idle => Ok(()),
            _ => session.commit(),
        })
    }

    /// Rolls the transaction back, if one is in progress.
    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |session| match session.state() {
            SessionState::Idle => Ok(()),
            _ => session.rollback(),
        })
    }

    /// `idle`, `transaction` or `failed`.
    fn state(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.with(py, |session| {
            Ok(match session.state() {
                SessionState::Idle => "idle",
                SessionState::InTransaction => "transaction",
                SessionState::Failed => "failed",
            })
        })
    }

    /// Notices since the last call: (SQLSTATE, message).
    fn notices(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        self.with(py, |session| {
            let told = session.take_notices().into_iter();
            Ok(told
                .map(|notice| (notice.state().to_string(), notice.message().to_owned()))
                .collect())
        })
    }

    /// Stores the batches of an object with `__arrow_c_stream__` in a table, in one transaction. Returns the number of
    /// rows. `create` is the beginning of CREATE TABLE for a new table (`CREATE TEMP TABLE`), `drop` the statement
    /// before.
    #[pyo3(signature = (table, object, create, drop, begins))]
    fn load(
        &self,
        py: Python<'_>,
        table: String,
        object: &Bound<'_, PyAny>,
        create: Option<String>,
        drop: Option<String>,
        begins: bool,
    ) -> PyResult<u64> {
        let reader = capsules::reader(object)?;
        self.with(py, move |session| {
            let into = load::Destination {
                table: &table,
                create: create.as_deref(),
                drop: drop.as_deref(),
            };
            load::load(session, &into, reader, begins)
        })
    }

    /// Ends the running statement, from another thread.
    fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Whether the session was closed.
    #[getter]
    fn closed(&self) -> bool {
        // Whose statement runs is not closed.
        self.session.session.try_lock().is_ok_and(|session| session.is_none())
    }

    /// Closes the session: its transaction is rolled back.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.process != std::process::id() {
            return Ok(());
        }
        told(py, self.session.refuse_owner())?;
        if interrupt::is_main_thread(py)? && self.session.main_waits.load(Ordering::Relaxed) {
            return told(py, Err(Owned::busy()));
        }
        py.detach(|| drop(lock(&self.session).take()));
        Ok(())
    }
}

/// The statements of a text. Errors: 42601 for several with parameters.
fn statements<'t>(
    session: &mut halcyon::Session,
    text: &'t str,
    has_params: bool,
) -> halcyon::Result<Vec<&'t str>> {
    let end = text.trim_end().trim_end_matches(';').len();
    if !text[..end].contains(';') {
        return Ok(vec![text]);
    }
    let texts = session.split(text)?;
    match has_params && texts.len() > 1 {
        false => Ok(texts),
        true => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "cannot insert multiple commands into a prepared statement",
        )),
    }
}

/// Plans a statement for parameters and fits these to it.
fn prepared(
    session: &mut halcyon::Session,
    text: &str,
    params: &[Typed],
) -> halcyon::Result<(Statement, Vec<Option<SqlType>>)> {
    let types: Vec<_> = params.iter().map(|(_, ty)| *ty).collect();
    let statement = session.prepare_passing(text, &types)?;
    Ok((statement, types))
}

fn values(statement: &Statement, params: impl IntoIterator<Item = Param>) -> Vec<Value> {
    let types = statement.params();
    params.into_iter().enumerate().map(|(at, param)| param.value(types.get(at))).collect()
}

/// A statement that is to run.
struct Run<'a> {
    text: &'a str,
    params: &'a [Typed],
    begins: bool,
    class: Option<&'a str>,
}

impl Run<'_> {
    /// Plans the statement and has `run` run it.
    fn run(
        &self,
        session: &mut halcyon::Session,
        run: impl FnOnce(&mut halcyon::Session, &Statement, &[Value]) -> halcyon::Result<Outcome>,
    ) -> halcyon::Result<Outcome> {
        // Before the transaction: a mistake in the first statement leaves nothing to roll back.
        let (mut statement, _) = prepared(session, self.text, self.params)?;
        if let Some(class) = self.class.filter(|_| takes_hints(statement.tag())) {
            let text = self.text.trim_end().trim_end_matches(';');
            // On a line of its own: the text may end with a comment.
            let text = format!("{text}\nWITH HINT(WORKLOAD_CLASS({}))", quoted(class));
            (statement, _) = prepared(session, &text, self.params)?;
        }
        if self.begins {
            begin_for(session, &statement);
        }
        let values = values(&statement, self.params.iter().map(|(param, _)| param.clone()));
        let outcome = run(session, &statement, &values)?;
        if matches!(outcome, Outcome::CopyIn { .. } | Outcome::CopyOut { .. }) {
            session.copy_abandon();
            let what = format!("{} between the server and its client", statement.tag());
            return Err(SqlError::unsupported(what).hint(
                "Use append() or register() for COPY FROM STDIN, arrow() for COPY TO STDOUT, subscribe() for SUBSCRIBE.",
            ));
        }
        Ok(outcome)
    }
}

/// Whether a statement is a query or a write, which may end with a hint.
fn takes_hints(tag: &str) -> bool {
    ["SELECT", "INSERT", "UPDATE", "DELETE", "MERGE"].contains(&tag)
}

fn run_rows(
    session: &mut halcyon::Session,
    text: &str,
    rows: Vec<Vec<Typed>>,
) -> halcyon::Result<u64> {
    let mut plan: Option<(Statement, Vec<Option<SqlType>>)> = None;
    let mut count = 0;
    for row in rows {
        let is_alike = |types: &Vec<Option<SqlType>>| types.iter().eq(row.iter().map(|(_, ty)| ty));
        if !plan.as_ref().is_some_and(|(_, types)| is_alike(types)) {
            plan = Some(prepared(session, text, &row)?);
        }
        let (statement, _) = plan.as_ref().expect("just made");
        let values = values(statement, row.into_iter().map(|(param, _)| param));
        count += session.execute(statement, &values)?;
    }
    Ok(count)
}
