//! The activity of sessions: what a session shows others of its statement, its transaction block
//! and its counts.
//!
//! A session writes to memory of its own, and only now and then to the table that all sessions
//! share: observing a session must not slow it down. A short statement is timed once in
//! [`TIMED_ONE_IN`] executions; its total time is projected from those.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use halcyon_base::clock::{self, Moment};
use halcyon_base::ids::TxnId;
use halcyon_pgcatalog::CursorRow;
use halcyon_prepare::cache::Lookup;
use halcyon_prepare::plan::Prepared;
use halcyon_prepare::shapes::MissReason;
use halcyon_sql::error::{SqlError, SqlState};
use halcyon_txn::advisory::Awaiting;
use halcyon_workload::{ClassId, Limits, Resolution};
use parking_lot::Mutex;

use crate::settings::Settings;
use crate::signals::Signals;
use crate::statement::Statement;

/// The most statements that a session keeps counts of at a time.
const TALLIES: usize = 64;
/// Slots that are searched for a statement.
const PLACES: usize = 16;
/// The duration of a statement is measured in one of this many executions.
const TIMED_ONE_IN: u64 = 16;
/// The shared table is updated once in this many executions of a statement.
const FLUSHED_ONE_IN: u64 = 4096;

/// The entry of a session that others may read. It has cache lines of its own, since every
/// statement writes it.
///
/// The session is the only writer, except for two fields that a result writes while it is read on
/// another thread: `reading`, and `failed` if reading it fails. Readers need no order between the
/// fields, so all accesses are relaxed.
#[repr(align(128))]
pub(crate) struct SessionEntry {
    pub id: u32,
    /// Role that the session was begun for.
    pub role: String,
    /// Role whose rights it has: `role`, unless SET ROLE chose another.
    acting: Mutex<String>,
    /// Address of the client, if the session serves one over a network.
    pub client: Option<String>,
    pub began_us: i64,
    pub application: Mutex<String>,
    pub signals: Arc<Signals>,
    /// What a function of the session's statement waits for without a thread.
    pub awaiting: Mutex<Awaiting>,
    /// The session's open cursors.
    pub cursors: Mutex<Vec<CursorRow>>,
    /// The session's settings, for statements over the system views.
    settings: Mutex<Settings>,
    /// The workload class of its last statement.
    class: Mutex<Option<ClassShown>>,
    /// Rows of the session's last streamed result that were read.
    rows_read: AtomicU64,
    /// What a rule has said of the statement that began at a moment, and ended it.
    ended_by_rule: Mutex<Option<(u64, String)>>,
    running: AtomicBool,
    /// Results whose rows are being read, behind the statements that gave them.
    reading: AtomicU32,
    syncing: AtomicBool,
    current: AtomicU32,
    /// Start of the statement of `current`, in nanoseconds of the monotonic clock; 0 before the
    /// first statement.
    statement_began: AtomicU64,
    /// The transaction of the block in progress, or of the last block; 0 before the first block.
    block: AtomicU64,
    /// Whether the transaction of `block` is READ ONLY.
    read_only: AtomicBool,
    /// Number of the stretch in progress. Blocks are divided into *stretches*, which begin at BEGIN
    /// and at each ROLLBACK TO SAVEPOINT: an error fails the rest of its stretch.
    stretch: AtomicU64,
    /// Number of the last stretch that has failed.
    failed: AtomicU64,
    texts: Box<[Mutex<Arc<str>>]>,
}

/// The workload class of a session, as others see it.
#[derive(Clone)]
pub(crate) struct ClassShown {
    pub class: ClassId,
    pub limits: Arc<Limits>,
    pub resolution: Arc<Resolution>,
}

/// Tells the session of a result whose rows come as they are read: while they are read its statement
/// runs, and an error among them is the statement's.
pub(crate) struct ResultWatch {
    entry: Arc<SessionEntry>,
    /// The stretch of the transaction block that the result belongs to; `None` outside blocks.
    stretch: Option<u64>,
    is_reading: bool,
}

impl ResultWatch {
    /// A result of `entry`'s session that is being read. `stretch`: that of its block, if it has one.
    fn new(entry: &Arc<SessionEntry>, stretch: Option<u64>) -> Self {
        let mut watch = ResultWatch { entry: Arc::clone(entry), stretch, is_reading: false };
        watch.set_reading(true);
        watch
    }

    /// Notes that so many rows more were read.
    pub fn add_rows(&self, rows: usize) {
        self.entry.add_rows_read(rows as u64);
    }

    /// The error of a statement that a rule of its workload class has ended, or the error as it is.
    pub fn named(&self, error: SqlError) -> SqlError {
        named_by_rule(error, &self.entry)
    }

    /// Says whether somebody reads.
    pub fn set_reading(&mut self, is_reading: bool) {
        match (self.is_reading, is_reading) {
            (false, true) => self.entry.reading.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.entry.reading.fetch_sub(1, Ordering::Relaxed),
            (true, true) | (false, false) => return,
        };
        self.is_reading = is_reading;
    }

    /// Notes that reading the result has failed, which fails its block.
    pub fn fail(&mut self) {
        self.set_reading(false);
        if let Some(stretch) = self.stretch {
            self.entry.fail_stretch(stretch);
        }
    }
}

impl Drop for ResultWatch {
    fn drop(&mut self) {
        self.set_reading(false);
    }
}

/// The error of a statement that a rule of its workload class has ended, or the error as it is.
pub(crate) fn named_by_rule(error: SqlError, entry: &SessionEntry) -> SqlError {
    if error.state() != SqlState::QUERY_CANCELED {
        return error;
    }
    match entry.told_by_rule() {
        None => error,
        Some(told) => {
            let message = "canceling statement due to a rule of its workload class";
            SqlError::new(SqlState::QUERY_CANCELED, message).detail(told)
        }
    }
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
    pub plan_hits: u64,
    pub plan_misses: u64,
    pub last_miss: Option<MissReason>,
}

/// Counts of statements over all sessions, by text.
pub(crate) struct StatementTable {
    /// The most texts in the table; when they are exceeded, the table begins anew.
    capacity: usize,
    entries: Mutex<HashMap<Arc<str>, StatementEntry>>,
}

/// A session's counts of one statement text since it last added them to the shared table.
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
    plan_hits: u64,
    plan_misses: u64,
    last_miss: Option<MissReason>,
    /// The plan that the statement ran by when it was looked up last. Weak: a plan holds its tables,
    /// dropped ones too.
    plan: Weak<Prepared>,
}

/// The counts of one session.
pub(crate) struct Tallies(Box<[Tally]>);

/// The measurement of a statement that is running.
pub(crate) struct Watch {
    slot: usize,
    pub began: Moment,
    /// Whether the statement is one of the executions that are measured.
    pub is_timed: bool,
}

impl SessionEntry {
    pub fn new(id: u32, role: &str, client: Option<String>, signals: Arc<Signals>) -> Self {
        let nothing: Arc<str> = "".into();
        SessionEntry {
            id,
            role: role.to_owned(),
            acting: Mutex::new(role.to_owned()),
            client,
            began_us: clock::wall_us(),
            application: Mutex::default(),
            signals,
            awaiting: Mutex::default(),
            cursors: Mutex::default(),
            settings: Mutex::default(),
            class: Mutex::default(),
            rows_read: AtomicU64::new(0),
            ended_by_rule: Mutex::default(),
            running: AtomicBool::new(false),
            reading: AtomicU32::new(0),
            syncing: AtomicBool::new(false),
            current: AtomicU32::new(0),
            statement_began: AtomicU64::new(0),
            block: AtomicU64::new(0),
            read_only: AtomicBool::new(false),
            stretch: AtomicU64::new(1),
            failed: AtomicU64::new(0),
            texts: (0..TALLIES).map(|_| Mutex::new(nothing.clone())).collect(),
        }
    }

    pub fn set_application(&self, name: &str) {
        let mut application = self.application.lock();
        if *application != name {
            name.clone_into(&mut application);
        }
    }

    /// Says whose rights the session has.
    pub fn set_acting(&self, role: &str) {
        let mut acting = self.acting.lock();
        if *acting != role {
            role.clone_into(&mut acting);
        }
    }

    /// Role whose rights the session has.
    pub fn acting(&self) -> String {
        self.acting.lock().clone()
    }

    pub fn set_settings(&self, settings: &Settings) {
        self.settings.lock().clone_from(settings);
    }

    /// The session's settings.
    pub fn settings(&self) -> Settings {
        self.settings.lock().clone()
    }

    /// Notes the workload class of the session's statements.
    pub fn set_class(&self, class: ClassShown) {
        *self.class.lock() = Some(class);
    }

    /// The workload class of the session's last statement; `None` before the first.
    pub fn class(&self) -> Option<ClassShown> {
        self.class.lock().clone()
    }

    /// Notes that so many rows more were read of a streamed result.
    pub fn add_rows_read(&self, rows: u64) {
        self.rows_read.fetch_add(rows, Ordering::Relaxed);
    }

    /// Rows of the last streamed result that were read.
    pub fn rows_read(&self) -> u64 {
        self.rows_read.load(Ordering::Relaxed)
    }

    /// Notes that a rule ends the statement that began at a moment, and what to tell the client.
    pub fn end_by_rule(&self, began: u64, told: String) {
        *self.ended_by_rule.lock() = Some((began, told));
    }

    /// What the client is told if a rule has ended its statement.
    pub fn told_by_rule(&self) -> Option<String> {
        let ended = self.ended_by_rule.lock().take();
        let began = self.statement_began.load(Ordering::Relaxed);
        ended.filter(|(at, _)| *at == began).map(|(_, told)| told)
    }

    /// Whether the session's thread runs its statement now, rather than wait for the disk or for rows.
    pub fn is_computing(&self) -> bool {
        self.running.load(Ordering::Relaxed)
            && self.reading.load(Ordering::Relaxed) == 0
            && !self.is_syncing()
    }

    /// Notes whether the session waits for the disk.
    pub fn set_syncing(&self, syncing: bool) {
        self.syncing.store(syncing, Ordering::Relaxed);
    }

    /// Whether the session waits for the disk.
    pub fn is_syncing(&self) -> bool {
        self.syncing.load(Ordering::Relaxed)
    }

    /// The statement running now or run last, and whether it runs: also while its rows are read.
    pub fn statement(&self) -> (Arc<str>, bool) {
        let slot = self.current.load(Ordering::Relaxed) as usize;
        let running = self.running.load(Ordering::Relaxed);
        let reading = self.reading.load(Ordering::Relaxed) > 0;
        (self.texts[slot].lock().clone(), running || reading)
    }

    /// Start of the statement running now or run last; `None` before the first.
    pub fn statement_began(&self) -> Option<Moment> {
        let began = self.statement_began.load(Ordering::Relaxed);
        (began != 0).then_some(Moment(began))
    }

    /// Notes that a transaction block begins.
    pub fn begin_block(&self, transaction: TxnId, read_only: bool) {
        self.block.store(transaction.0, Ordering::Relaxed);
        self.read_only.store(read_only, Ordering::Relaxed);
        self.begin_stretch();
    }

    /// Notes that the block accepts statements again: at its beginning, and after ROLLBACK TO.
    pub fn begin_stretch(&self) {
        let next = self.stretch.load(Ordering::Relaxed) + 1;
        self.stretch.store(next, Ordering::Relaxed);
    }

    /// Notes that the block in progress has failed.
    pub fn fail_block(&self) {
        self.fail_stretch(self.stretch.load(Ordering::Relaxed));
    }

    fn fail_stretch(&self, stretch: u64) {
        // The later stretch counts: a result of an old stretch that fails late does not fail the
        // present one.
        self.failed.fetch_max(stretch, Ordering::Relaxed);
    }

    /// Whether the block in progress has failed. Has no meaning outside blocks.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed) == self.stretch.load(Ordering::Relaxed)
    }

    /// Whether `transaction` is the session's block.
    pub fn is_block(&self, transaction: TxnId) -> bool {
        self.block.load(Ordering::Relaxed) == transaction.0
    }

    /// Whether `transaction` is the session's block, and READ ONLY.
    pub fn is_read_only(&self, transaction: TxnId) -> bool {
        self.is_block(transaction) && self.read_only.load(Ordering::Relaxed)
    }

    /// Watches a result whose rows are still to be read. `in_block`: it belongs to the block in
    /// progress.
    pub fn watch_result(self: &Arc<Self>, in_block: bool) -> ResultWatch {
        ResultWatch::new(self, in_block.then(|| self.stretch.load(Ordering::Relaxed)))
    }
}

impl StatementTable {
    pub fn new(capacity: usize) -> Self {
        StatementTable { capacity, entries: Mutex::default() }
    }

    /// Counts an error of a run that its session has counted, or will, as one without.
    pub fn count_late_error(&self, text: &Arc<str>, executor: &'static str) {
        let mut entries = self.entries.lock();
        if entries.contains_key(&**text) || entries.len() < self.capacity {
            let entry = entries.entry(text.clone()).or_default();
            entry.executor = executor;
            entry.errors += 1;
        }
    }

    /// All texts with their counts.
    pub fn all(&self) -> Vec<(Arc<str>, StatementEntry)> {
        self.entries.lock().iter().map(|(text, entry)| (text.clone(), *entry)).collect()
    }
}

impl Tallies {
    pub fn new() -> Self {
        Tallies((0..TALLIES).map(|_| Tally::default()).collect())
    }

    /// Notes that a statement begins to run.
    pub fn begin(
        &mut self,
        statement: &Statement,
        entry: &SessionEntry,
        table: &StatementTable,
    ) -> Watch {
        let mut slot = statement.tally.get();
        if !self.0[slot].counts(&statement.counted_as.borrow()) {
            slot = self.find(statement, entry, table);
            statement.tally.set(slot);
        }
        if let Some(text) = statement.own_text() {
            *entry.texts[slot].lock() = text;
        }
        let tally = &mut self.0[slot];
        if let Some(lookup) = statement.lookup.take() {
            tally.plan = Arc::downgrade(&statement.prepared());
            match lookup {
                Lookup::Hit => tally.plan_hits += 1,
                Lookup::Miss(reason) => {
                    tally.plan_misses += 1;
                    tally.last_miss = Some(reason);
                }
            }
        }
        // The only reading of the clock: the statement's own transaction begins at this moment,
        // too.
        let began = clock::now();
        entry.current.store(slot as u32, Ordering::Relaxed);
        entry.statement_began.store(began.0, Ordering::Relaxed);
        entry.rows_read.store(0, Ordering::Relaxed);
        entry.running.store(true, Ordering::Relaxed);
        let is_timed = tally.executions.is_multiple_of(TIMED_ONE_IN);
        tally.executions += 1;
        Watch { slot, began, is_timed }
    }

    /// The slot for a statement that is not in the slot where it was last. Several slots are
    /// possible, so that two statements that run in turn do not evict each other, which would take
    /// a shared lock.
    #[cold]
    fn find(
        &mut self,
        statement: &Statement,
        entry: &SessionEntry,
        table: &StatementTable,
    ) -> usize {
        let text = &*statement.counted_as.borrow();
        let address = Arc::as_ptr(text).cast::<u8>() as usize;
        let home = (address >> 4 ^ address >> 10) % TALLIES;
        let mut places = (0..PLACES).map(|step| (home + step) % TALLIES);
        if let Some(own) = places.clone().find(|slot| self.0[*slot].counts(text)) {
            return own;
        }
        let slot = places.find(|slot| self.0[*slot].text.is_none()).unwrap_or(home);
        let tally = &mut self.0[slot];
        tally.flush(table);
        let executor = statement.prepared().plan.executor();
        let plan = Arc::downgrade(&statement.prepared());
        *tally = Tally { text: Some(text.clone()), executor, plan, ..Tally::default() };
        *entry.texts[slot].lock() = text.clone();
        slot
    }

    /// Notes that a statement ended.
    ///
    /// `rows` is `None` if the statement failed; rows of a streamed result are not counted.
    pub fn end(
        &mut self,
        watch: &Watch,
        rows: Option<u64>,
        entry: &SessionEntry,
        table: &StatementTable,
    ) {
        entry.running.store(false, Ordering::Relaxed);
        let tally = &mut self.0[watch.slot];
        tally.calls += 1;
        tally.errors += u64::from(rows.is_none());
        tally.rows += rows.unwrap_or(0);
        if watch.is_timed {
            let ns = clock::now().since(watch.began).as_nanos() as u64;
            tally.timed += 1;
            tally.timed_ns += ns;
            tally.max_ns = tally.max_ns.max(ns);
        }
        if tally.calls >= FLUSHED_ONE_IN {
            tally.flush(table);
        }
    }

    /// The plan of the statement that is counted at `slot`.
    pub fn plan(&self, slot: usize) -> Option<Arc<Prepared>> {
        self.0[slot].plan.upgrade()
    }

    /// Adds all counts to the shared table.
    pub fn flush(&mut self, table: &StatementTable) {
        self.0.iter_mut().for_each(|tally| tally.flush(table));
    }
}

impl Tally {
    fn counts(&self, text: &Arc<str>) -> bool {
        self.text.as_ref().is_some_and(|known| Arc::ptr_eq(known, text))
    }

    fn flush(&mut self, table: &StatementTable) {
        let Some(text) = self.text.as_ref().filter(|_| self.calls > 0) else { return };
        let mut entries = table.entries.lock();
        if !entries.contains_key(&**text) && entries.len() >= table.capacity {
            entries.clear();
        }
        let entry = entries.entry(text.clone()).or_default();
        entry.executor = self.executor;
        entry.rows += self.rows;
        entry.calls += self.calls;
        entry.errors += self.errors;
        entry.total_ns +=
            (self.timed_ns as u128 * self.calls as u128 / u128::from(self.timed.max(1))) as u64;
        entry.max_ns = entry.max_ns.max(self.max_ns);
        entry.plan_hits += self.plan_hits;
        entry.plan_misses += self.plan_misses;
        entry.last_miss = self.last_miss.or(entry.last_miss);
        (self.calls, self.errors, self.rows) = (0, 0, 0);
        (self.timed, self.timed_ns) = (0, 0);
        (self.plan_hits, self.plan_misses) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_fails_its_own_stretch_and_no_later_one() {
        let entry = Arc::new(SessionEntry::new(1, "halcyon", None, Arc::default()));
        entry.begin_block(TxnId(7), false);
        let mut old = entry.watch_result(true);
        assert!(!entry.has_failed());
        old.fail();
        assert!(entry.has_failed(), "a result of the block has failed");
        entry.begin_stretch();
        assert!(!entry.has_failed(), "ROLLBACK TO has been there");
        old.fail();
        assert!(!entry.has_failed(), "the result is of the stretch before");
        entry.fail_block();
        old.fail();
        assert!(entry.has_failed(), "what fails late takes nothing back");
    }

    #[test]
    fn a_result_counts_as_running_while_somebody_reads_it() {
        let entry = Arc::new(SessionEntry::new(1, "halcyon", None, Arc::default()));
        let runs = || entry.statement().1;
        let (mut first, second) = (entry.watch_result(false), entry.watch_result(false));
        first.set_reading(false);
        first.set_reading(false);
        assert!(runs(), "the other one is read");
        drop(second);
        assert!(!runs());
        first.set_reading(true);
        assert!(runs());
        first.fail();
        assert!(!runs() && !entry.has_failed(), "it belongs to no block");
    }
}
