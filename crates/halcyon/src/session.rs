//! A session: who asks, with which settings, in which transaction.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use halcyon_base::ids::SessionId;
use halcyon_pgcatalog::{Live, SystemCatalogs};
use halcyon_query::bind::Binder;
use halcyon_query::catalog::{Catalog, Table};
use halcyon_query::error::{Result, SqlError, SqlState};
use halcyon_query::exec::{Locks, Need, SessionVars};
use halcyon_query::parse;
use halcyon_query::plan::{Plan, Prepared};
use halcyon_query::point::Scratch;
use halcyon_query::rows::{ResultColumn, RowSet};
use halcyon_query::types::SqlType;
use halcyon_query::utility::{Modes, Utility};
use halcyon_store::Value;
use halcyon_txn::{CancelToken, Isolation, Pace};

use crate::copy::Copying;
use crate::database::Shared;
use crate::live::{SessionEntry, Tallies, View};
use crate::outcome::{Outcome, Tag};
use crate::rows::Rows;
use crate::run::Ran;
use crate::settings::{Facts, Settings};
use crate::transaction::{Access, Active};

/// One user's conversation with the database. It may move between threads, not be shared.
///
/// Dropping it rolls back its transaction.
pub struct Session {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: u32,
    /// The published catalog as this session saw it last.
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) vars: SessionVars,
    pub(crate) settings: Settings,
    pub(crate) active: Option<Box<Active>>,
    pub(crate) copying: Option<Copying>,
    pub(crate) named: HashMap<String, Statement>,
    pub(crate) scratch: Scratch,
    pub(crate) locks: Locks,
    pub(crate) needs: Vec<Need>,
    pub(crate) cancel: CancelToken,
    pub(crate) entry: Arc<SessionEntry>,
    pub(crate) tallies: Tallies,
    /// From the settings, read once when they change.
    pub(crate) lock_timeout: Option<Duration>,
    pub(crate) statement_timeout: Option<Duration>,
    pub(crate) default_modes: Modes,
    /// Whether commits are acknowledged only once they are durable.
    pub(crate) synchronous: bool,
    notices: Vec<SqlError>,
    /// Settings of which clients are to be told: (name, value).
    pub(crate) changes: Vec<(String, String)>,
    jitter: u64,
}

/// A prepared statement: planned once, planned again only when the catalog has changed.
///
/// It belongs to the database, not to a session; one per session keeps cores apart.
pub struct Statement {
    /// Its own copy, so that noting what runs touches no count that others share.
    pub(crate) text: Arc<str>,
    types: Vec<Option<SqlType>>,
    pub(crate) prepared: RefCell<Arc<Prepared>>,
    /// Where the session that ran it last keeps its counts.
    pub(crate) tally: Cell<usize>,
}

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// No transaction.
    Idle,
    /// In a transaction.
    InTransaction,
    /// In a transaction that can only be rolled back.
    Failed,
}

/// Ends the running statement of a session from another thread.
#[derive(Clone)]
pub struct CancelHandle(CancelToken);

impl CancelHandle {
    /// The statement running now ends with 57014; if none runs, nothing happens.
    pub fn cancel(&self) {
        self.0.cancel();
    }
}

/// What can be run: a prepared [`Statement`], or a text that is looked up in the cache.
pub trait Source {
    /// Calls `run` with the statement.
    fn with<T>(
        self,
        session: &mut Session,
        run: impl FnOnce(&mut Session, &Statement) -> Result<T>,
    ) -> Result<T>;
}

impl Source for &Statement {
    fn with<T>(
        self,
        session: &mut Session,
        run: impl FnOnce(&mut Session, &Statement) -> Result<T>,
    ) -> Result<T> {
        run(session, self)
    }
}

impl Source for &str {
    fn with<T>(
        self,
        session: &mut Session,
        run: impl FnOnce(&mut Session, &Statement) -> Result<T>,
    ) -> Result<T> {
        let statement = session.prepare(self)?;
        run(session, &statement)
    }
}

impl Statement {
    /// The view, if it is SUBSCRIBE.
    pub(crate) fn subscribes(&self) -> Option<Arc<Table>> {
        match &self.prepared.borrow().plan {
            Plan::Subscribe { view, .. } => Some(view.clone()),
            _ => None,
        }
    }

    /// The text it was made from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Types of `$1`, `$2`, ….
    pub fn params(&self) -> Vec<SqlType> {
        self.prepared.borrow().params.clone()
    }

    /// Columns of the result; empty if there is none.
    pub fn columns(&self) -> Arc<[ResultColumn]> {
        self.prepared.borrow().columns.clone()
    }

    /// First words of the command tag.
    pub fn tag(&self) -> &'static str {
        self.prepared.borrow().tag
    }

    /// Whether it is an empty text.
    pub fn is_empty(&self) -> bool {
        matches!(self.prepared.borrow().plan, Plan::Empty)
    }

    /// Whether it ends a transaction, so that a failed one accepts it.
    pub fn ends_transaction(&self) -> bool {
        ends_transaction(&self.prepared.borrow().plan)
    }
}

/// COMMIT and ROLLBACK in all forms: what a failed transaction still takes.
fn ends_transaction(plan: &Plan) -> bool {
    use Utility::{Commit, Rollback, RollbackTo};
    matches!(plan, Plan::Utility(Commit { .. } | Rollback { .. } | RollbackTo(_)))
}

impl Session {
    pub(crate) fn new(
        shared: Arc<Shared>,
        catalog: Arc<Catalog>,
        id: u32,
        role: &str,
        superuser: bool,
    ) -> Self {
        let cancel = CancelToken::new();
        let entry = Arc::new(SessionEntry::new(id, role));
        shared.sessions.lock().insert(id, entry.clone());
        let facts = Facts { session_role: role.to_owned(), role: role.to_owned(), superuser };
        let settings = Settings::new(facts);
        let vars = SessionVars {
            user: role.to_owned(),
            session_user: role.to_owned(),
            database: shared.options.name.clone(),
            search_path: Vec::new(),
            time_zone: String::new(),
            threads: 0,
            memory_bytes: 0,
            session_id: id,
            sequence_values: Arc::default(),
            copy_folder: None,
        };
        let mut session = Session {
            shared,
            id,
            catalog,
            vars,
            settings,
            active: None,
            copying: None,
            named: HashMap::new(),
            scratch: Scratch::default(),
            locks: Locks::default(),
            needs: Vec::new(),
            cancel,
            entry,
            tallies: Tallies::new(),
            lock_timeout: None,
            statement_timeout: None,
            default_modes: Modes::default(),
            synchronous: true,
            notices: Vec::new(),
            changes: Vec::new(),
            jitter: 0x9E37_79B9_7F4A_7C15 ^ u64::from(id),
        };
        session.apply_settings();
        session
    }

    /// Number of the session, shown by `pg_backend_pid()` and `halcyon.sessions`.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Where the session stands.
    pub fn state(&self) -> SessionState {
        match &self.active {
            None => SessionState::Idle,
            Some(active) if active.is_failed() => SessionState::Failed,
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

    /// Settings that clients are to be told of, changed since the last call: (name, value).
    pub fn take_changes(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.changes)
    }

    /// Plans `text`, which holds one statement.
    pub fn prepare(&mut self, text: &str) -> Result<Statement> {
        self.prepare_typed(text, &[])
    }

    /// Plans `text` with parameter types given where they are `Some`, inferred elsewhere.
    ///
    /// Errors: 25P02 in a failed transaction, unless the statement ends it.
    pub fn prepare_typed(&mut self, text: &str, types: &[Option<SqlType>]) -> Result<Statement> {
        let prepared = self.plan(text, types).inspect_err(|_| self.fail_transaction());
        let prepared = prepared?;
        self.refuse_if_failed(&prepared.plan)?;
        Ok(Statement {
            text: Arc::from(&*prepared.text),
            types: types.to_vec(),
            prepared: RefCell::new(prepared),
            tally: Cell::new(0),
        })
    }

    /// Runs a statement that returns rows.
    ///
    /// Errors: 02000 if it returns none, else those of the statement.
    pub fn query(&mut self, source: impl Source, params: &[Value]) -> Result<Rows> {
        match source.with(self, |session, statement| session.run(statement, params))? {
            Outcome::Rows { rows, .. } => Ok(rows),
            _ => Err(SqlError::new(SqlState::NO_DATA, "the statement returns no rows")
                .hint("Use execute.")),
        }
    }

    /// Runs a statement and says how many rows it concerned; rows it returns are read and counted.
    pub fn execute(&mut self, source: impl Source, params: &[Value]) -> Result<u64> {
        source.with(self, |session, statement| session.run_counting(statement, params))
    }

    /// Without the outcome that [`Session::run`] makes, which is larger than most statements' work.
    fn run_counting(&mut self, statement: &Statement, params: &[Value]) -> Result<u64> {
        let mut out = RowSet::default();
        let ran = self.run_statement(statement, params, &mut out)?;
        if let Ran::Written(rows) = ran {
            return Ok(rows);
        }
        match self.dress(statement, ran, out) {
            Outcome::Rows { mut rows, written, .. } => {
                let mut count = 0;
                while rows.next()?.is_some() {
                    count += 1;
                }
                Ok(written.unwrap_or(count))
            }
            Outcome::Done(tag) => Ok(tag.rows.unwrap_or(0)),
            Outcome::CopyIn { .. } | Outcome::CopyOut { .. } => {
                self.copy_abandon();
                Err(SqlError::unsupported("COPY FROM STDIN or TO STDOUT in execute")
                    .hint("Use run, then copy_data and copy_end, or copy_out."))
            }
        }
    }

    /// Runs each statement of `text` in turn, until one fails.
    pub fn batch(&mut self, text: &str) -> Result<()> {
        let texts = split(text)?;
        texts.into_iter().try_for_each(|text| self.execute(text, &[]).map(|_| ()))
    }

    /// Runs a prepared statement that returns few rows into `out`, whose memory is reused: the
    /// way of a point query that allocates nothing.
    pub fn query_into(
        &mut self,
        statement: &Statement,
        params: &[Value],
        out: &mut RowSet,
    ) -> Result<()> {
        match self.run_statement(statement, params, out)? {
            Ran::Set { .. } => Ok(()),
            Ran::Stream(streamed) => {
                let mut rows =
                    Rows::from_stream(statement.columns(), *streamed, self.rows_failed());
                out.reset(rows.columns().len());
                while let Some(row) = rows.next()? {
                    out.push_row((0..row.len()).map(|column| row.value(column)));
                }
                Ok(())
            }
            Ran::Written(_) | Ran::Copying(_) | Ran::Other(_) => {
                Err(SqlError::new(SqlState::NO_DATA, "the statement returns no rows"))
            }
        }
    }

    /// Begins a transaction. Errors: 25001 if there is one.
    pub fn begin(&mut self, isolation: Isolation, access: Access) -> Result<()> {
        if self.active.is_some() {
            return Err(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                "there is already a transaction in progress",
            ));
        }
        let read_only = Some(access == Access::ReadOnly);
        self.start(Modes { isolation: Some(isolation), read_only });
        Ok(())
    }

    /// Begins a transaction with the session's default modes, if there is none.
    pub fn begin_default(&mut self) {
        if self.active.is_none() {
            self.start(Modes::default());
        }
    }

    /// Marks the transaction block as failed, for an error that arose outside statements.
    pub fn fail_transaction(&mut self) {
        if let Some(active) = &mut self.active {
            active.failed = true;
        }
    }

    /// Commits the transaction.
    ///
    /// Errors: 25P01 if there is none, 25P02 if it had failed; it is rolled back then.
    pub fn commit(&mut self) -> Result<()> {
        match self.state() {
            SessionState::Idle => Err(no_transaction()),
            SessionState::Failed => {
                self.rollback_if_active();
                Err(failed_transaction())
            }
            SessionState::InTransaction => self.finish_commit(),
        }
    }

    /// Undoes the transaction. Errors: 25P01 if there is none.
    pub fn rollback(&mut self) -> Result<()> {
        if self.active.is_none() {
            return Err(no_transaction());
        }
        self.rollback_if_active();
        Ok(())
    }

    /// What rows that are still to be read tell an error to.
    pub(crate) fn rows_failed(&mut self) -> Option<Arc<AtomicBool>> {
        self.active.as_mut().map(|active| active.rows_failed.get_or_insert_default().clone())
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

    pub(crate) fn slot(&self) -> SessionId {
        SessionId(self.id)
    }

    /// The catalog that statements of this session are bound against.
    pub(crate) fn current_catalog(&mut self) -> Arc<Catalog> {
        if let Some(active) = &self.active {
            if let Some(own) = &active.catalog {
                return own.clone();
            }
            if let Some(snapshot) = &active.snapshot {
                return snapshot.catalog.clone();
            }
        }
        self.refresh_catalog();
        self.catalog.clone()
    }

    pub(crate) fn refresh_catalog(&mut self) {
        if self.catalog.version != self.shared.version() {
            self.catalog = self.shared.catalog();
        }
    }

    /// Version of the catalog that statements of this session are bound against.
    pub(crate) fn catalog_version(&self) -> u64 {
        match self.active.as_deref() {
            Some(Active { catalog: Some(own), .. }) => own.version,
            Some(Active { snapshot: Some(snapshot), .. }) => snapshot.catalog.version,
            _ => self.shared.version(),
        }
    }

    /// The plan of `text`, from the cache if it is there.
    pub(crate) fn plan(&mut self, text: &str, types: &[Option<SqlType>]) -> Result<Arc<Prepared>> {
        let catalog = self.current_catalog();
        self.plan_with(text, types, &catalog)
    }

    pub(crate) fn plan_with(
        &self,
        text: &str,
        types: &[Option<SqlType>],
        catalog: &Arc<Catalog>,
    ) -> Result<Arc<Prepared>> {
        let live: Arc<dyn Live> =
            Arc::new(View { shared: self.shared.clone(), entry: self.entry.clone() });
        let system = SystemCatalogs::new(live);
        let binder = Binder {
            catalog,
            session: &self.vars,
            df: &self.shared.datafusion,
            system: &system,
            point_plans: self.settings.bool("halcyon.point_plans"),
        };
        self.shared.cache.get_or_bind(text, types, &binder)
    }

    /// A binder for what is no statement, over the catalog as this session saw it last.
    pub(crate) fn binder_now(&self) -> Binder<'_> {
        Binder::new(&self.catalog, &self.vars, &self.shared.datafusion)
    }

    /// Plans the statement again.
    pub(crate) fn replan(&mut self, statement: &Statement) -> Result<()> {
        let prepared = self.plan(&statement.text, &statement.types)?;
        *statement.prepared.borrow_mut() = prepared;
        Ok(())
    }

    /// Plans the statement for a catalog of the past.
    pub(crate) fn plan_for(
        &self,
        statement: &Statement,
        catalog: &Arc<Catalog>,
    ) -> Result<Arc<Prepared>> {
        self.plan_with(&statement.text, &statement.types, catalog)
    }

    pub(crate) fn refuse_if_failed(&self, plan: &Plan) -> Result<()> {
        let failed = self.active.as_ref().is_some_and(|active| active.is_failed());
        match failed && !ends_transaction(plan) && !matches!(plan, Plan::Empty) {
            true => Err(failed_transaction()),
            false => Ok(()),
        }
    }

    /// Carries out what concerns the session itself.
    pub(crate) fn utility(&mut self, utility: &Utility, tag: &'static str) -> Result<Outcome> {
        let done = |name| Ok(Outcome::Done(Tag::plain(name)));
        match utility {
            Utility::Begin(modes) => {
                match self.active {
                    Some(_) => self.notice(SqlError::new(
                        SqlState::ACTIVE_SQL_TRANSACTION,
                        "there is already a transaction in progress",
                    )),
                    None => self.start(*modes),
                }
                done(tag)
            }
            Utility::Commit { chain } => self.end(true, *chain),
            Utility::Rollback { chain } => self.end(false, *chain),
            Utility::Savepoint(name) => {
                self.in_block("SAVEPOINT")?.savepoint(name);
                done(tag)
            }
            Utility::Release(name) => {
                self.in_block("RELEASE SAVEPOINT")?.release(name)?;
                done(tag)
            }
            Utility::RollbackTo(name) => {
                self.in_block("ROLLBACK TO SAVEPOINT")?.rollback_to(name)?;
                done(tag)
            }
            Utility::SetTransaction(modes) => {
                self.set_transaction(*modes)?;
                done(tag)
            }
            Utility::SetSessionTransaction(modes) => {
                self.set_session_transaction(*modes)?;
                done(tag)
            }
            Utility::Set { name, value, local } => {
                self.set_in_transaction(name, value.as_deref(), *local)?;
                done(tag)
            }
            Utility::Reset(Some(name)) => {
                self.set_in_transaction(name, None, false)?;
                done(tag)
            }
            Utility::Reset(None) => {
                self.reset_settings();
                done(tag)
            }
            Utility::Show(name) => self.show(name.as_deref()),
            Utility::SetRole(role) => {
                self.set_role(role.as_deref())?;
                done(tag)
            }
            Utility::Prepare { name, types, text } => {
                self.prepare_named(name, types, text)?;
                done(tag)
            }
            Utility::Execute { name, arguments } => self.execute_named(name, arguments),
            Utility::Deallocate(name) => {
                self.deallocate(name.as_deref())?;
                done(tag)
            }
            Utility::Discard => {
                self.discard()?;
                done(tag)
            }
            Utility::Lock { tables, exclusive } => {
                self.lock_tables(tables, *exclusive)?;
                done(tag)
            }
            Utility::Checkpoint { to } => {
                self.write_checkpoint(to.as_deref())?;
                done(tag)
            }
            Utility::Export(folder) => {
                let rows = self.export(Path::new(folder))?;
                Ok(Outcome::Done(Tag::counted(tag, rows)))
            }
            Utility::Import(folder) => {
                let rows = self.import(Path::new(folder))?;
                Ok(Outcome::Done(Tag::counted(tag, rows)))
            }
            Utility::AlterSystem { name, value } => {
                self.alter_system(name, value.as_deref())?;
                done(tag)
            }
            Utility::Nothing(tag) => done(tag),
        }
    }

    /// CHECKPOINT, and BACKUP TO `folder`. Errors: 42501, 25001; those of writing.
    fn write_checkpoint(&mut self, folder: Option<&str>) -> Result<()> {
        let what = if folder.is_some() { "BACKUP" } else { "CHECKPOINT" };
        if !self.catalog.is_superuser(&self.vars.user) {
            let message = format!("permission denied to execute {what} command");
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        if self.active.is_some() {
            // It waits for statements of other transactions, which may wait for this one.
            let message = format!("{what} cannot run inside a transaction block");
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        match folder {
            None => crate::checkpoint::checkpoint(&self.shared, &Pace::default()),
            Some(folder) => crate::checkpoint::backup(&self.shared, Path::new(folder)),
        }
    }

    /// The transaction block in progress. Errors: 25P01.
    fn in_block(&mut self, what: &str) -> Result<&mut Active> {
        self.active.as_deref_mut().ok_or_else(|| {
            SqlError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                format!("{what} can only be used in transaction blocks"),
            )
        })
    }

    fn end(&mut self, commit: bool, chain: bool) -> Result<Outcome> {
        let Some(active) = &self.active else {
            let (state, what) =
                (SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
            if chain {
                return Err(SqlError::new(state, what));
            }
            self.notice(SqlError::new(state, what));
            return Ok(Outcome::Done(Tag::plain(if commit { "COMMIT" } else { "ROLLBACK" })));
        };
        let (modes, failed) = (active.modes, active.is_failed());
        let tag = match commit && !failed {
            true => {
                self.finish_commit()?;
                "COMMIT"
            }
            false => {
                self.rollback_if_active();
                "ROLLBACK"
            }
        };
        if chain {
            self.start(modes);
        }
        Ok(Outcome::Done(Tag::plain(tag)))
    }

    pub(crate) fn set_transaction(&mut self, modes: Modes) -> Result<()> {
        let Some(active) = &mut self.active else {
            self.notice(SqlError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "SET TRANSACTION can only be used in transaction blocks",
            ));
            return Ok(());
        };
        let changes = modes.isolation.is_some_and(|new| new != active.isolation())
            || modes.read_only.is_some_and(|new| new != active.read_only());
        if active.used && changes {
            return Err(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                "the modes of a transaction must be set before any query",
            ));
        }
        if changes {
            let modes = Modes {
                isolation: modes.isolation.or(active.modes.isolation),
                read_only: modes.read_only.or(active.modes.read_only),
            };
            self.rollback_if_active();
            self.start(modes);
        }
        Ok(())
    }

    fn set_role(&mut self, role: Option<&str>) -> Result<()> {
        let role = role.unwrap_or(&self.vars.session_user).to_owned();
        let catalog = self.current_catalog();
        if !catalog.roles.contains_key(&role) {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("role \"{role}\" does not exist"),
            ));
        }
        if !catalog.acts_for(&self.vars.session_user, &role) {
            return Err(SqlError::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("permission denied to set role \"{role}\""),
            ));
        }
        self.vars.user = role;
        self.apply_settings();
        Ok(())
    }

    fn prepare_named(
        &mut self,
        name: &str,
        types: &[halcyon_query::parse::ast::DataType],
        text: &str,
    ) -> Result<()> {
        if self.named.contains_key(name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            ));
        }
        let types: Vec<_> = types
            .iter()
            .map(|ty| halcyon_query::type_names::cast_type(ty).map(Some))
            .collect::<Result<_>>()?;
        let statement = self.prepare_typed(text, &types)?;
        self.named.insert(name.to_owned(), statement);
        Ok(())
    }

    fn execute_named(
        &mut self,
        name: &str,
        arguments: &[halcyon_query::parse::ast::Expr],
    ) -> Result<Outcome> {
        let statement = self.named.remove(name).ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_SQL_STATEMENT_NAME,
                format!("prepared statement \"{name}\" does not exist"),
            )
        })?;
        let outcome = self.constants(arguments).and_then(|params| self.run(&statement, &params));
        self.named.insert(name.to_owned(), statement);
        outcome
    }

    /// Values of constant expressions.
    fn constants(&mut self, expressions: &[halcyon_query::parse::ast::Expr]) -> Result<Vec<Value>> {
        if expressions.is_empty() {
            return Ok(Vec::new());
        }
        let list: Vec<String> = expressions.iter().map(ToString::to_string).collect();
        let mut rows = self.query(format!("SELECT {}", list.join(", ")).as_str(), &[])?;
        let row = rows.next()?.expect("a SELECT without FROM has one row");
        Ok((0..row.len()).map(|column| row.value(column).to_owned()).collect())
    }

    fn deallocate(&mut self, name: Option<&str>) -> Result<()> {
        match name {
            None => self.named.clear(),
            Some(name) => {
                self.named.remove(name).ok_or_else(|| {
                    SqlError::new(
                        SqlState::INVALID_SQL_STATEMENT_NAME,
                        format!("prepared statement \"{name}\" does not exist"),
                    )
                })?;
            }
        }
        Ok(())
    }

    fn discard(&mut self) -> Result<()> {
        if self.active.is_some() {
            return Err(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                "DISCARD ALL cannot run inside a transaction block",
            ));
        }
        self.named.clear();
        self.vars.user.clone_from(&self.vars.session_user);
        self.vars.sequence_values.lock().clear();
        self.reset_settings();
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.rollback_if_active();
        self.tallies.flush(&self.shared);
        self.shared.sessions.lock().remove(&self.id);
    }
}

/// The statements of a text, each as a text of its own.
///
/// Errors: 42601 with the position if one of them is malformed.
pub fn split(text: &str) -> Result<Vec<&str>> {
    Ok(parse::parse(text)?.into_iter().map(|parsed| parsed.text).collect())
}

fn no_transaction() -> SqlError {
    SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress")
}

/// 25P02: what a failed transaction block answers until it ends.
pub fn failed_transaction() -> SqlError {
    SqlError::new(
        SqlState::IN_FAILED_SQL_TRANSACTION,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}
