//! Sessions: one client's role, settings and transaction.
//!
//! This module has a session's state, and the operations that need nothing else: settings, plans,
//! rollback. All other operations stand in modules above, by topic: `run` (the public ways to run a
//! statement), `commands`, `block`, `copy`, `driver`, `commit`.

use std::any::Any;
use std::cell::Cell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use halcyon_base::clock::Moment;
use halcyon_base::ids::SessionId;
use halcyon_base::memory::{Account, Entered, Limits};
use halcyon_catalog::session_vars::SessionVars;
use halcyon_catalog::temporary::{ALIAS, schema_of};
use halcyon_catalog::{Catalog, Schema};
use halcyon_exec::point::Scratch;
use halcyon_pgcatalog::{Live, SystemCatalogs};
use halcyon_plan::bind::Binder;
use halcyon_plan::interrupts::under;
use halcyon_prepare::block_locks::BlockLocks;
use halcyon_prepare::cache::Bound;
use halcyon_prepare::plan::Plan;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::rows::ResultColumn;
use halcyon_sql::types::SqlType;
use halcyon_txn::{CancelToken, Lsn, WaitLimits};

use crate::acquire::{Acquisition, LockSet, LockWait};
use crate::activity::{SessionEntry, Tallies};
use crate::answers::Answers;
use crate::copying::Copying;
use crate::cursor::Cursors;
use crate::live::View;
use crate::memory;
use crate::rows::{CountedAs, Reader, Rows, Streamed};
use crate::session_class::SessionClass;
use crate::settings::{Facts, InForce, Settings, search_path};
use crate::shared::Shared;
use crate::signals::{Notification, Signals, Waker};
use crate::statement::{Statement, is_taken_after_failure, split_statements};
use crate::suspended::{Suspended, Syncing};
use crate::transaction::{Block, Work};
use crate::workload::{Admitted, Connected, Waiting};
use halcyon_exec::deadline::Deadline;

/// A session: one user's conversation with the database. It may move between threads, but not be
/// shared.
///
/// Dropping the session rolls back its transaction.
pub struct Session {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: u32,
    /// The published catalog as this session last saw it, with the session's temporary objects.
    pub(crate) catalog: Arc<Catalog>,
    /// The schema of its temporary objects, as last committed; `None` without any.
    pub(crate) temporary: Option<Arc<Schema>>,
    /// Whether names are looked up there: also while a transaction makes the first object.
    pub(crate) searches_temporary: bool,
    pub(crate) vars: SessionVars,
    pub(crate) settings: Settings,
    /// The transaction block in progress; taken out while one of its statements runs.
    pub(crate) block: Option<Box<Block>>,
    pub(crate) copying: Option<Copying>,
    pub(crate) cursors: Cursors,
    /// Prepared statements (PREPARE), by name.
    pub(crate) named: HashMap<String, Statement>,
    /// Buffers of point plans and writes, kept from statement to statement.
    pub(crate) scratch: Scratch,
    /// Locks of the running statement, kept from statement to statement.
    pub(crate) locked: LockSet,
    pub(crate) account: Account,
    pub(crate) cancel: CancelToken,
    pub(crate) entry: Arc<SessionEntry>,
    pub(crate) tallies: Tallies,
    /// Locks of the transaction block, by the statements that took them.
    pub(crate) block_locks: BlockLocks,
    /// The settings' values in force, updated when a setting changes.
    pub(crate) in_force: InForce,
    /// Notices and warnings that the client has not been sent yet.
    pub(crate) notices: Vec<SqlError>,
    /// Changed settings that the client has not been sent yet: (name, value).
    pub(crate) changes: Vec<(String, String)>,
    /// What the running statement does while a lock is somebody else's.
    pub(crate) lock_wait: LockWait,
    /// The statement that stands in a lock's queue and has given its thread back.
    pub(crate) suspended: Option<Box<Suspended>>,
    /// The statement that waits for the disk and has given its thread back.
    pub(crate) syncing: Option<Box<Syncing>>,
    /// Whether the running statement's caller waits for the disk, up to `owed`.
    pub(crate) may_owe: bool,
    pub(crate) owed: Cell<Lsn>,
    /// How long the session has waited for the disk since somebody last asked.
    pub(crate) at_disk: Cell<Duration>,
    /// Transactions that were victims of deadlocks, in a row.
    pub(crate) losses: u32,
    /// State of a random number generator.
    jitter: u64,
    /// The workload class of its statements.
    pub(crate) class: SessionClass,
    /// The connection that the session serves, as its class counts it.
    pub(crate) connection: Option<Connected>,
    /// The statement that waits to be let in.
    pub(crate) at_gate: Option<Waiting>,
    /// The running statement's right to run.
    pub(crate) admitted: Option<Admitted>,
    /// When the message arrived that the next statement comes from, if its owner says so.
    pub(crate) arrival: Cell<Option<Moment>>,
    /// Statements whose answers are still to be sent, if its owner says when they are.
    pub(crate) answers: Option<Arc<Answers>>,
}

/// The state of a session's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// No transaction is in progress.
    Idle,
    /// A transaction is in progress.
    InTransaction,
    /// A transaction is in progress that can only be rolled back.
    Failed,
}

/// A handle that ends the running statement of a session from another thread.
#[derive(Clone)]
pub struct CancelHandle(CancelToken);

impl CancelHandle {
    /// Ends the statement running now with 57014; does nothing if none runs.
    pub fn cancel(&self) {
        self.0.cancel();
    }
}

impl Session {
    pub(crate) fn new(
        shared: Arc<Shared>,
        catalog: Arc<Catalog>,
        role: &str,
        superuser: bool,
        client: Option<String>,
    ) -> Self {
        let id = shared.next_session();
        let account = Account::new();
        let cancel = CancelToken::of(account.id());
        let signals = Arc::new(Signals::new(cancel.clone()));
        let entry = Arc::new(SessionEntry::new(id, role, client, signals));
        shared.sessions.lock().insert(id, entry.clone());
        let spill = shared.options.spill.as_ref();
        let facts = Facts {
            session_role: role.to_owned(),
            role: role.to_owned(),
            superuser,
            spill_folder: spill
                .map_or_else(String::new, |folder| folder.path().display().to_string()),
        };
        let settings = Settings::new(facts);
        let vars = SessionVars {
            user: role.to_owned(),
            session_user: role.to_owned(),
            database: shared.options.name.clone(),
            search_path: Vec::new(),
            names_temporary: false,
            time_zone: String::new(),
            threads: 0,
            placement: halcyon_catalog::session_vars::Placement::of_class(3),
            long_placement: None,
            memory_bytes: 0,
            temp_file_bytes: None,
            session_id: id,
            read_only: false,
            sequence_values: Arc::default(),
            copy_folder: None,
        };
        let class = SessionClass::unknown(&shared.workload.snapshot());
        let mut session = Session {
            shared,
            id,
            catalog,
            temporary: None,
            searches_temporary: false,
            vars,
            settings,
            block: None,
            copying: None,
            cursors: Cursors::new(&entry),
            named: HashMap::new(),
            scratch: Scratch::default(),
            locked: LockSet::default(),
            account,
            cancel,
            entry,
            tallies: Tallies::new(),
            block_locks: BlockLocks::default(),
            in_force: InForce::default(),
            notices: Vec::new(),
            changes: Vec::new(),
            lock_wait: LockWait::default(),
            suspended: None,
            syncing: None,
            may_owe: false,
            owed: Cell::default(),
            at_disk: Cell::default(),
            losses: 0,
            jitter: 0x9E37_79B9_7F4A_7C15 ^ u64::from(id),
            class,
            connection: None,
            at_gate: None,
            admitted: None,
            arrival: Cell::new(None),
            answers: None,
        };
        session.apply_settings();
        session
    }

    /// Number of the session, shown by `pg_backend_pid()` and `halcyon.sessions`.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The state of the session's transaction.
    pub fn state(&self) -> SessionState {
        match &self.block {
            None => SessionState::Idle,
            Some(_) if self.entry.has_failed() => SessionState::Failed,
            Some(_) => SessionState::InTransaction,
        }
    }

    /// A handle that ends this session's running statement from another thread.
    pub fn canceller(&self) -> CancelHandle {
        CancelHandle(self.cancel.clone())
    }

    /// Notices and warnings since the last call.
    pub fn take_notices(&mut self) -> Vec<SqlError> {
        std::mem::take(&mut self.notices)
    }

    /// Settings reported to clients that have changed since the last call: (name, value).
    pub fn take_changes(&mut self) -> Vec<(String, String)> {
        self.carry_out_wishes();
        std::mem::take(&mut self.changes)
    }

    /// Notifications that have arrived since the last call, on channels that the session listens
    /// to.
    pub fn take_notifications(&mut self) -> Vec<Notification> {
        self.carry_out_wishes();
        self.entry.signals.take_mail()
    }

    /// Sets the function to call, on any thread, when a notification has arrived or
    /// [`Session::is_ending`].
    pub fn set_waker(&self, waker: Waker) {
        self.entry.signals.set_waker(waker);
    }

    /// Whether another session has asked this one to end (`pg_terminate_backend`).
    pub fn is_ending(&self) -> bool {
        self.entry.signals.is_ending()
    }

    /// Carries out the wishes of functions in the last statement, and, outside of blocks, the
    /// wishes that take effect at the end of a transaction.
    #[inline]
    pub(crate) fn carry_out_wishes(&mut self) {
        if self.entry.signals.has_wishes() {
            self.carry_out();
        }
    }

    #[cold]
    fn carry_out(&mut self) {
        for wish in self.entry.signals.take_settings() {
            // The value was checked when the wish was noted.
            let set = match wish.name.as_str() {
                "role" => self.set_role(Some(&*wish.value).filter(|to| *to != "none"), wish.local),
                name => self.set_in_transaction(name, Some(&wish.value), wish.local),
            };
            if let Err(refused) = set {
                self.notice(refused);
            }
        }
        // Of a statement that waits for the disk nobody may hear.
        let may_hear = self.block.is_none() && self.syncing.is_none();
        if may_hear && self.shared.channels.commit(self.id, &self.entry.signals) {
            self.notify_behind(Lsn::default());
        }
    }

    /// Plans `text`, which holds one statement.
    pub fn prepare(&mut self, text: &str) -> Result<Statement> {
        self.prepare_typed(text, &[])
    }

    /// Plans `text` with the given parameter types; types that are `None` are inferred.
    ///
    /// Errors: 25P02 in a failed transaction, unless the statement ends the transaction.
    pub fn prepare_typed(&mut self, text: &str, types: &[Option<SqlType>]) -> Result<Statement> {
        Ok(Statement::lasting(self.look_up(text, types)?, text, types))
    }

    /// Plans `text` as [`Session::prepare_typed`] does, for a statement that will run once or a few
    /// times.
    pub fn prepare_passing(&mut self, text: &str, types: &[Option<SqlType>]) -> Result<Statement> {
        let began = Instant::now();
        let statement = Statement::passing(self.look_up(text, types)?, text, types);
        if self.in_force.statement_timeout.is_some() {
            statement.planned.set(began.elapsed());
        }
        Ok(statement)
    }

    /// The statements of a text, each as a text of its own.
    ///
    /// Errors: 42601 with the position if one of them is malformed, 57014.
    pub fn split<'t>(&mut self, text: &'t str) -> Result<Vec<&'t str>> {
        self.in_time(|session| under(&session.cancel, || split_statements(text)))
    }

    /// Does what comes before a statement runs: within the statement's time, and until it is cancelled.
    fn in_time<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.cancel.reset();
        let account = self.account.id();
        let _entered = self.begin_account(false);
        self.account.begin_planning();
        let timeout = self.in_force.statement_timeout;
        let deadline =
            timeout.map(|timeout| self.shared.deadlines.set(timeout, self.cancel.clone()));
        let done = work(self).map_err(|error| memory::named(error, account));
        self.account.end_planning();
        match deadline.is_some_and(|deadline| deadline.passed()) {
            true => done.map_err(Deadline::name),
            false => done,
        }
    }

    /// Begins a statement of the session's account, for which the thread works as long as the guard lives.
    /// Only the limit of all memory holds for a statement that `writes`: most of what it takes is tables.
    #[inline]
    pub(crate) fn begin_account(&self, writes: bool) -> Entered {
        let statement = match writes {
            true => i64::MAX,
            false => i64::try_from(self.vars.memory_bytes).unwrap_or(i64::MAX),
        };
        // The limit of a class is for what a statement writes as well.
        let statement = self.class.memory.map_or(statement, |most| statement.min(most));
        let class = self.class.memory_class;
        let limits = Limits { total: self.shared.memory.bytes(), statement, class };
        self.account.begin(limits, self.block.is_some());
        self.account.id().enter()
    }

    fn look_up(&mut self, text: &str, types: &[Option<SqlType>]) -> Result<Bound> {
        self.carry_out_wishes();
        let catalog = self.current_catalog();
        let bound = self.in_time(|session| session.bind(text, types, &catalog));
        // In a block that has failed, names are not looked up.
        let is_failed = self.state() == SessionState::Failed;
        let bound = bound.map_err(|error| match error.state() {
            SqlState::SYNTAX_ERROR | SqlState::QUERY_CANCELED => error,
            _ if is_failed => failed_transaction(),
            _ => error,
        });
        let bound = bound.inspect_err(|_| self.fail_transaction())?;
        self.refuse_plan_if_failed(&bound.prepared.plan)?;
        Ok(bound)
    }

    /// Marks the transaction block as failed, for an error that arose outside of statements.
    pub fn fail_transaction(&mut self) {
        if let Some(mut block) = self.block.take() {
            self.fail_block(&mut block);
            self.block = Some(block);
        }
    }

    /// Marks the transaction block as failed. A block without savepoints can only be rolled back: what it has
    /// changed is undone and its locks are given back now, since its client may take its time.
    pub(crate) fn fail_block(&mut self, block: &mut Block) {
        self.entry.fail_block();
        if block.gives_up() {
            self.shared.advisory.end_transaction(self.id);
        }
    }

    /// Rows of a statement that are still to be read: an error among them fails the transaction block
    /// that they belong to. `counted`: where it counts as the statement's, too.
    pub(crate) fn streamed_rows(
        &self,
        columns: Arc<[ResultColumn]>,
        streamed: Streamed,
        counted: Option<CountedAs>,
    ) -> Rows {
        let watch = self.entry.watch_result(self.block.is_some());
        let reader = Reader { account: self.account.id(), watch, counted };
        Rows::from_stream(columns, streamed, reader)
    }

    pub(crate) fn notice(&mut self, notice: SqlError) {
        self.notices.push(notice);
    }

    /// A pause of up to twice `mean_us` microseconds.
    pub(crate) fn jitter(&mut self, mean_us: u64) -> u64 {
        self.jitter ^= self.jitter << 13;
        self.jitter ^= self.jitter >> 7;
        self.jitter ^= self.jitter << 17;
        self.jitter % (2 * mean_us).max(1)
    }

    /// The session's number in the form that transactions use.
    pub(crate) fn slot(&self) -> SessionId {
        SessionId(self.id)
    }

    /// The parties to acquisitions of this session, whose thread waits.
    pub(crate) fn acquisition(&self) -> Acquisition<'_> {
        let limits = WaitLimits { timeout: self.in_force.lock_timeout, cancel: &self.cancel };
        let wait = LockWait::Blocks;
        Acquisition { shared: &self.shared, session: self.slot(), limits, wait }
    }

    /// The catalog against which statements of this session are bound.
    pub(crate) fn current_catalog(&mut self) -> Arc<Catalog> {
        if let Some(mut block) = self.block.take() {
            self.renew(&mut block.work.catalog);
            let found = block.catalog().cloned();
            self.block = Some(block);
            if let Some(catalog) = found {
                return catalog;
            }
        }
        self.refresh_catalog();
        self.catalog.clone()
    }

    /// The plan of `text` for `catalog`, from the cache if it has one.
    pub(crate) fn bind(
        &self,
        text: &str,
        types: &[Option<SqlType>],
        catalog: &Arc<Catalog>,
    ) -> Result<Bound> {
        let point_plans = self.settings.bool("halcyon.point_plans");
        let bind = |binder: &Binder<'_>| self.shared.cache.get_or_bind(text, types, binder);
        self.binding(catalog, point_plans, bind).unwrap_or_else(Err)
    }

    /// What `bind` makes with a binder of the session; XX000 for a panic in it.
    pub(crate) fn binding<T>(
        &self,
        catalog: &Arc<Catalog>,
        point_plans: bool,
        bind: impl FnOnce(&Binder<'_>) -> T,
    ) -> Result<T> {
        let live: Arc<dyn Live> =
            Arc::new(View { shared: self.shared.clone(), entry: self.entry.clone() });
        let system = SystemCatalogs::new(live);
        let binder = Binder {
            catalog,
            session: &self.vars,
            df: &self.shared.datafusion,
            system: &system,
            point_plans,
            cancel: Some(&self.cancel),
            clock: None,
        };
        // Planning only reads: a panic in it has changed nothing that a rollback would undo.
        catch_unwind(AssertUnwindSafe(|| bind(&binder)))
            .map_err(|panic| broken_invariant(panic.as_ref()))
    }

    /// Gives a statement its plan for `catalog`.
    #[cold]
    pub(crate) fn bind_again(&self, statement: &Statement, catalog: &Arc<Catalog>) -> Result<()> {
        let bound = self.bind(statement.text(), &statement.types, catalog)?;
        statement.accept_columns(&bound.prepared.columns)?;
        statement.bind_again(bound);
        Ok(())
    }

    /// A binder over the catalog as this session last saw it, for expressions outside of
    /// statements.
    pub(crate) fn binder_now(&self) -> Binder<'_> {
        Binder::new(&self.catalog, &self.vars, &self.shared.datafusion)
    }

    /// Refuses a statement that the session cannot run because its transaction has failed.
    ///
    /// Errors: 25P02, unless the statement ends the transaction.
    pub fn refuse_if_failed(&self, statement: &Statement) -> Result<()> {
        self.refuse_plan_if_failed(&statement.prepared().plan)
    }

    pub(crate) fn refuse_plan_if_failed(&self, plan: &Plan) -> Result<()> {
        match self.state() == SessionState::Failed && !is_taken_after_failure(plan) {
            true => Err(failed_transaction()),
            false => Ok(()),
        }
    }

    /// Errors: 53200 if more memory is in use than the limit, so that nothing should be kept for a session
    /// that has much already.
    pub fn require_memory(&self) -> Result<()> {
        self.shared.memory.require_room_to_keep()
    }

    /// Errors: 53200 if a parameter's value of so many bytes would exceed the limit of memory.
    pub fn require_memory_for(&self, bytes: usize) -> Result<()> {
        self.shared.memory.require_room_for(bytes)
    }

    /// Changes a setting of the session (`None` resets it) and everything that depends on it. Names
    /// are compared without case: drivers send `DateStyle`.
    ///
    /// Errors: 42704 for an unknown setting, 22023 for a value that it does not accept, 55P02 if
    /// sessions cannot set it.
    pub(crate) fn change_setting(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        let name = name.to_ascii_lowercase();
        // A setting of the program's own is kept, under any name.
        if value.is_some() && name.contains('.') && !name.starts_with("halcyon.") {
            self.shared.memory.require_room_to_keep()?;
        }
        if let Some(setting) = self.settings.set(&name, value)? {
            self.settings.apply(setting, &mut self.in_force);
            if let Some(told_as) = setting.reported_as {
                let found = self.settings.reported().find(|(name, _)| *name == told_as);
                let found = found.map(|(name, value)| (name.to_owned(), value.into_owned()));
                self.changes.extend(found);
            }
        }
        self.take_effect();
        Ok(())
    }

    /// Puts all settings into force, after many have changed or the role has, on which some depend.
    pub(crate) fn apply_settings(&mut self) {
        self.settings.tell_role(&self.vars.user);
        self.entry.set_acting(&self.vars.user);
        self.in_force = self.settings.in_force();
        self.take_effect();
    }

    /// Makes `role` the one whose rights count from now on.
    pub(crate) fn act_as(&mut self, role: String) {
        if role != self.vars.user {
            self.vars.user = role;
            self.apply_settings();
        }
    }

    /// Copies the settings in force to the places where statements and the system views of all
    /// sessions read them.
    fn take_effect(&mut self) {
        let in_force = &self.in_force;
        self.vars.time_zone.clone_from(&in_force.time_zone);
        let options = &self.shared.options;
        // More parts than workers would only be more to put together.
        let workers = match options.workers.count {
            0 => 0,
            count => count + options.workers.dedicated.len(),
        };
        let given = [in_force.threads, options.threads, workers];
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.vars.threads = given.into_iter().find(|threads| *threads > 0).unwrap_or_else(cores);
        self.vars.memory_bytes = in_force.memory_bytes;
        self.vars.temp_file_bytes = in_force.temp_file_bytes;
        self.entry.set_application(&in_force.application);
        self.entry.set_settings(&self.settings);
        self.set_search_path();
        self.class.epoch = 0;
    }

    /// Puts the setting `search_path` into force. The temporary schema comes first unless it is named.
    pub(crate) fn set_search_path(&mut self) {
        let mut path = search_path(&self.in_force.search_path, &self.vars.user);
        let own = schema_of(self.id);
        path.iter_mut().filter(|name| *name == ALIAS).for_each(|name| name.clone_from(&own));
        self.vars.names_temporary = path.contains(&own);
        if self.searches_temporary && !self.vars.names_temporary {
            path.insert(0, own);
        }
        self.vars.search_path = path;
    }

    /// Rolls back the transaction block, if one is in progress.
    pub(crate) fn rollback_block(&mut self) {
        self.suspended = None;
        self.await_no_more();
        self.leave_disk();
        self.at_gate = None;
        self.admitted = None;
        self.copying = None;
        self.cursors.drop_of_block();
        self.entry.signals.forget_wishes(0);
        self.shared.advisory.end_transaction(self.id);
        let Some(block) = self.block.take() else { return };
        let Block { work: Work { tx, .. }, settings_before, roles, .. } = *block;
        if let Some(settings) = settings_before {
            self.settings = settings;
            self.apply_settings();
        }
        if let Some(role) = roles.rollback {
            self.act_as(role);
        }
        tx.rollback();
        self.search_temporary(self.temporary.is_some());
    }

    /// Cleans up after a panic: the statement's transaction is rolled back. Returns the error to
    /// answer with.
    pub(crate) fn after_panic(&mut self, panic: &(dyn Any + Send)) -> SqlError {
        self.rollback_block();
        broken_invariant(panic).detail("The transaction was rolled back.")
    }

    /// Runs `work`; a panic in it becomes the error XX000, as in any statement.
    pub(crate) fn guarded<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let _entered = self.account.id().enter();
        match catch_unwind(AssertUnwindSafe(|| work(self))) {
            Ok(done) => done.map_err(|error| memory::named(error, self.account.id())),
            Err(panic) => Err(self.after_panic(panic.as_ref())),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.rollback_block();
        self.shared.channels.forget(self.id);
        self.shared.advisory.release(self.id);
        self.tallies.flush(&self.shared.statements);
        self.shared.temporary.lock().remove(&self.id);
        self.shared.sessions.lock().remove(&self.id);
        // Behind that: nobody lends to a session that is gone.
        self.shared.datafusion.executions().take_back(self.id);
    }
}

/// XX000: the answer of a statement that panicked.
fn broken_invariant(panic: &(dyn Any + Send)) -> SqlError {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown");
    tracing::error!(panic = text, "a statement broke an invariant");
    SqlError::new(SqlState::INTERNAL_ERROR, format!("internal error: {text}"))
}

/// 25P02: the answer of a failed transaction block until it ends.
pub(crate) fn failed_transaction() -> SqlError {
    SqlError::new(
        SqlState::IN_FAILED_SQL_TRANSACTION,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}
