//! What sessions are doing, for the system views.
//!
//! A session notes what it runs in memory of its own, and writes the shared tables only now and
//! then: watching must not slow down what is watched. A short statement is timed once in
//! [`TIMED_ONE_IN`] executions; its total is projected from those.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use halcyon_pgcatalog::{
    Live, LockRow, LogRow, SessionRow, SessionState, SettingRow, StatementRow, TransactionRow,
};
use halcyon_query::catalog::Table;
use halcyon_query::utility::{Modes, isolation_name, parse_isolation};
use halcyon_store::Partition;
use halcyon_txn::{CancelToken, Mode, TransactionState, WaitLimits, cut};
use parking_lot::Mutex;

use crate::database::Shared;
use crate::session::Statement;
use crate::settings::{SERVER_VERSION, Settings, Surroundings};

/// Statements a session keeps counts of at a time.
const TALLIES: usize = 64;
/// Slots among which a statement looks for one.
const PLACES: usize = 16;
/// Every how many executions of one statement the clock is read.
const TIMED_ONE_IN: u64 = 16;
/// Every how many executions of one statement the shared table is brought up to date.
const FLUSHED_ONE_IN: u64 = 4096;
/// How long the view of memory waits for a running write before it leaves a table out.
const ROOTS_WAIT_MAX: Duration = Duration::from_millis(200);

/// What others may see of a session. In lines of its own, since every statement writes it.
#[repr(align(128))]
pub(crate) struct SessionEntry {
    pub id: u32,
    pub role: String,
    pub began_us: i64,
    pub application: Mutex<String>,
    /// The session's settings, for statements over the system views.
    settings: Mutex<Settings>,
    running: AtomicBool,
    syncing: AtomicBool,
    current: AtomicU32,
    texts: Box<[Mutex<Arc<str>>]>,
}

/// Counts of one statement text over all sessions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StatementEntry {
    pub executor: &'static str,
    pub calls: u64,
    pub rows: u64,
    pub errors: u64,
    pub total_ns: u64,
    pub max_ns: u64,
}

/// Counts of one statement text in one session, not yet in the shared table.
#[derive(Default)]
struct Tally {
    text: Option<Arc<str>>,
    executor: &'static str,
    rows: u64,
    executions: u64,
    calls: u64,
    errors: u64,
    timed: u64,
    timed_ns: u64,
    max_ns: u64,
}

/// A session's own counts.
pub(crate) struct Tallies(Box<[Tally]>);

/// A statement being run.
pub(crate) struct Watch {
    slot: usize,
    began: Option<Instant>,
}

impl SessionEntry {
    pub fn new(id: u32, role: &str) -> Self {
        let nothing: Arc<str> = "".into();
        SessionEntry {
            id,
            role: role.to_owned(),
            began_us: halcyon_base::clock::wall_us(),
            application: Mutex::default(),
            settings: Mutex::default(),
            running: AtomicBool::new(false),
            syncing: AtomicBool::new(false),
            current: AtomicU32::new(0),
            texts: (0..TALLIES).map(|_| Mutex::new(nothing.clone())).collect(),
        }
    }

    pub fn set_application(&self, name: &str) {
        let mut application = self.application.lock();
        if *application != name {
            name.clone_into(&mut application);
        }
    }

    pub fn set_settings(&self, settings: &Settings) {
        self.settings.lock().clone_from(settings);
    }

    /// Whether it waits for the disk.
    pub fn set_syncing(&self, syncing: bool) {
        self.syncing.store(syncing, Ordering::Relaxed);
    }

    /// The statement running now or run last, and whether it runs.
    pub fn statement(&self) -> (Arc<str>, bool) {
        let slot = self.current.load(Ordering::Relaxed) as usize;
        (self.texts[slot].lock().clone(), self.running.load(Ordering::Relaxed))
    }
}

impl Tallies {
    pub fn new() -> Self {
        Tallies((0..TALLIES).map(|_| Tally::default()).collect())
    }

    /// Notes that a statement begins to run.
    pub fn begin(&mut self, statement: &Statement, entry: &SessionEntry, shared: &Shared) -> Watch {
        let mut slot = statement.tally.get();
        if !self.0[slot].counts(&statement.text) {
            slot = self.find(statement, entry, shared);
            statement.tally.set(slot);
        }
        let tally = &mut self.0[slot];
        entry.current.store(slot as u32, Ordering::Relaxed);
        entry.running.store(true, Ordering::Relaxed);
        let timed = tally.executions.is_multiple_of(TIMED_ONE_IN);
        tally.executions += 1;
        Watch { slot, began: timed.then(Instant::now) }
    }

    /// The slot of a statement that did not find itself where it was last: one of a few, so that
    /// two that are run in turn do not drive each other out, which would take a shared lock.
    #[cold]
    fn find(&mut self, statement: &Statement, entry: &SessionEntry, shared: &Shared) -> usize {
        let text = &statement.text;
        let address = Arc::as_ptr(text).cast::<u8>() as usize;
        let home = (address >> 4 ^ address >> 10) % TALLIES;
        let mut places = (0..PLACES).map(|step| (home + step) % TALLIES);
        if let Some(own) = places.clone().find(|slot| self.0[*slot].counts(text)) {
            return own;
        }
        let slot = places.find(|slot| self.0[*slot].text.is_none()).unwrap_or(home);
        let tally = &mut self.0[slot];
        tally.flush(shared);
        let executor = statement.prepared.borrow().plan.executor();
        *tally = Tally { text: Some(text.clone()), executor, ..Tally::default() };
        *entry.texts[slot].lock() = text.clone();
        slot
    }

    /// Notes that it ended.
    ///
    /// `rows` is `None` if it failed; rows that come as they are read are not counted.
    pub fn end(&mut self, watch: &Watch, rows: Option<u64>, entry: &SessionEntry, shared: &Shared) {
        entry.running.store(false, Ordering::Relaxed);
        let tally = &mut self.0[watch.slot];
        tally.calls += 1;
        tally.errors += u64::from(rows.is_none());
        tally.rows += rows.unwrap_or(0);
        if let Some(began) = watch.began {
            let ns = began.elapsed().as_nanos() as u64;
            tally.timed += 1;
            tally.timed_ns += ns;
            tally.max_ns = tally.max_ns.max(ns);
        }
        if tally.calls >= FLUSHED_ONE_IN {
            tally.flush(shared);
        }
    }

    /// Brings the shared table up to date.
    pub fn flush(&mut self, shared: &Shared) {
        self.0.iter_mut().for_each(|tally| tally.flush(shared));
    }
}

impl Tally {
    fn counts(&self, text: &Arc<str>) -> bool {
        self.text.as_ref().is_some_and(|known| Arc::ptr_eq(known, text))
    }

    fn flush(&mut self, shared: &Shared) {
        let Some(text) = self.text.as_ref().filter(|_| self.calls > 0) else { return };
        let mut statements = shared.statements.lock();
        if !statements.contains_key(&**text) && statements.len() >= shared.options.cached_statements
        {
            statements.clear();
        }
        let entry = statements.entry(text.clone()).or_default();
        entry.executor = self.executor;
        entry.rows += self.rows;
        entry.calls += self.calls;
        entry.errors += self.errors;
        entry.total_ns +=
            (self.timed_ns as u128 * self.calls as u128 / u128::from(self.timed.max(1))) as u64;
        entry.max_ns = entry.max_ns.max(self.max_ns);
        (self.calls, self.errors, self.rows) = (0, 0, 0);
        (self.timed, self.timed_ns) = (0, 0);
    }
}

/// The engine as the system views of one session see it.
pub(crate) struct View {
    pub shared: Arc<Shared>,
    /// The session that asks.
    pub entry: Arc<SessionEntry>,
}

impl Live for View {
    fn version(&self) -> String {
        format!("PostgreSQL {SERVER_VERSION}, an in-memory database")
    }

    fn started_us(&self) -> i64 {
        self.shared.started_us
    }

    fn sessions(&self) -> Vec<SessionRow> {
        let transactions = self.shared.manager.transactions();
        let now = halcyon_base::clock::wall_us();
        let row = |entry: &Arc<SessionEntry>| {
            let (text, running) = entry.statement();
            let own = transactions.iter().find(|info| info.session.0 == entry.id);
            let syncing = entry.syncing.load(Ordering::Relaxed);
            let state = match (own.map(|info| info.state), running) {
                _ if syncing => SessionState::Syncing,
                (Some(TransactionState::Waiting), _) => SessionState::Waiting,
                (_, true) => SessionState::Active,
                (Some(_), false) => SessionState::IdleInTransaction,
                (None, false) => SessionState::Idle,
            };
            SessionRow {
                id: entry.id,
                user: entry.role.clone(),
                application: entry.application.lock().clone(),
                client: None,
                state,
                statement: Some(text.to_string()).filter(|text| !text.is_empty()),
                started_us: entry.began_us,
                transaction_us: own.map(|info| now - info.age.as_micros() as i64),
                statement_us: None,
                transaction: own.map(|info| info.id.0),
            }
        };
        self.shared.sessions.lock().values().map(row).collect()
    }

    fn statements(&self) -> Vec<StatementRow> {
        let statements = self.shared.statements.lock();
        let row = |(text, entry): (&Arc<str>, &StatementEntry)| StatementRow {
            text: text.to_string(),
            executor: entry.executor,
            calls: entry.calls,
            total_ns: entry.total_ns,
            max_ns: entry.max_ns,
            rows: entry.rows,
            errors: entry.errors,
        };
        statements.iter().map(row).collect()
    }

    fn locks(&self) -> Vec<LockRow> {
        let catalog = self.shared.catalog();
        let cells = catalog.tables.values().flat_map(|table| table.cells.iter());
        let row = |info: halcyon_txn::LockInfo| LockRow {
            partition: info.partition.0,
            transaction: info.txn.0,
            session: info.session.0,
            exclusive: info.mode == Mode::Exclusive,
            granted: info.waiting.is_none(),
        };
        self.shared.manager.locks(cells).into_iter().map(row).collect()
    }

    fn transactions(&self) -> Vec<TransactionRow> {
        let now = halcyon_base::clock::wall_us();
        let row = |info: halcyon_txn::TransactionInfo| TransactionRow {
            id: info.id.0,
            session: info.session.0,
            isolation: isolation_name(info.isolation),
            read_only: false,
            started_us: now - info.age.as_micros() as i64,
            undo_records: 0,
            locks: info.lock_count as u64,
        };
        self.shared.manager.transactions().into_iter().map(row).collect()
    }

    fn log(&self) -> Option<LogRow> {
        let durable = self.shared.durable.as_ref()?;
        let done = durable.log.statistics();
        let last = *durable.last.lock();
        Some(LogRow {
            end: done.end.to_string(),
            durable: done.durable.to_string(),
            checkpoint: last.lsn.to_string(),
            bytes: done.end.0.saturating_sub(last.lsn.0),
            files: done.files,
            commits: done.commits,
            syncs: done.batches,
            sync_ms: done.writing.as_secs_f64() * 1e3,
            checkpoint_us: last.wall_us,
            error: durable.log.failure().map(|error| error.to_string()),
        })
    }

    fn settings(&self) -> Vec<SettingRow> {
        let catalog = self.shared.catalog();
        let own = self.transactions().into_iter().find(|row| row.session == self.entry.id);
        let modes = own.map(|own| Modes {
            isolation: parse_isolation(own.isolation),
            read_only: Some(own.read_only),
        });
        let around = Surroundings { system: self.shared.chosen(&catalog), transaction: modes };
        self.entry.settings.lock().rows(&around)
    }

    fn roots(&self, table: &Table) -> Vec<triomphe::Arc<Partition>> {
        let cancel = CancelToken::new();
        let limits = WaitLimits { timeout: Some(ROOTS_WAIT_MAX), cancel: &cancel };
        cut(&self.shared.manager, &table.cells, &limits).unwrap_or_default()
    }
}
