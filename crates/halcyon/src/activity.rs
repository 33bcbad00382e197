//! What a session shows to others while it works: its statement, its transaction block, its counts.
//!
//! A session writes to memory of its own, and to the table that all sessions share only now and
//! then: watching must not slow down what is watched. A short statement is timed once in
//! [`TIMED_ONE_IN`] executions; its total is projected from those.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use halcyon_base::clock::{self, Moment};
use halcyon_base::ids::TxnId;
use halcyon_prepare::cache::Lookup;
use halcyon_prepare::shapes::MissReason;
use parking_lot::Mutex;

use crate::settings::Settings;
use crate::signals::Signals;
use crate::statement::Statement;

/// Statements a session keeps counts of at a time.
const TALLIES: usize = 64;
/// Slots among which a statement looks for one.
const PLACES: usize = 16;
/// Every how many executions of one statement its duration is measured.
const TIMED_ONE_IN: u64 = 16;
/// Every how many executions of one statement the shared table is brought up to date.
const FLUSHED_ONE_IN: u64 = 4096;

/// What others may see of a session. In cache lines of its own, since every statement writes it.
///
/// The session is the only writer, except of `failed`, where a result that is read on another thread
/// notes its error. Readers need no order between the fields, so all accesses are relaxed.
#[repr(align(128))]
pub(crate) struct SessionEntry {
    pub id: u32,
    pub role: String,
    /// Address of the client, if the session serves one over a network.
    pub client: Option<String>,
    pub began_us: i64,
    pub application: Mutex<String>,
    pub signals: Arc<Signals>,
    /// The session's settings, for statements over the system views.
    settings: Mutex<Settings>,
    running: AtomicBool,
    syncing: AtomicBool,
    current: AtomicU32,
    /// When the statement of `current` began, in nanoseconds of the monotonic clock; 0 before the
    /// first.
    statement_began: AtomicU64,
    /// The transaction of the block in progress, or of the last one; 0 before the first.
    block: AtomicU64,
    /// Whether that block is READ ONLY.
    read_only: AtomicBool,
    /// Number of the stretch in progress. Blocks are divided into *stretches*, which begin at BEGIN
    /// and at each ROLLBACK TO SAVEPOINT: what an error fails is the rest of its stretch.
    stretch: AtomicU64,
    /// The last stretch that has failed.
    failed: AtomicU64,
    texts: Box<[Mutex<Arc<str>>]>,
}

/// Fails the stretch of a transaction block that a result belongs to, if reading the result fails.
pub(crate) struct StretchOfResult {
    entry: Arc<SessionEntry>,
    stretch: u64,
}

impl StretchOfResult {
    /// Notes that reading the result has failed.
    pub fn fail(&self) {
        self.entry.fail_stretch(self.stretch);
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
    /// Texts it holds at most; then it begins anew.
    capacity: usize,
    entries: Mutex<HashMap<Arc<str>, StatementEntry>>,
}

/// Counts of one statement text in one session since the session last added to the shared table.
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
}

/// A session's own counts.
pub(crate) struct Tallies(Box<[Tally]>);

/// A statement being run.
pub(crate) struct Watch {
    slot: usize,
    began: Moment,
    is_timed: bool,
}

impl SessionEntry {
    pub fn new(id: u32, role: &str, client: Option<String>, signals: Arc<Signals>) -> Self {
        let nothing: Arc<str> = "".into();
        SessionEntry {
            id,
            role: role.to_owned(),
            client,
            began_us: clock::wall_us(),
            application: Mutex::default(),
            signals,
            settings: Mutex::default(),
            running: AtomicBool::new(false),
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

    pub fn set_settings(&self, settings: &Settings) {
        self.settings.lock().clone_from(settings);
    }

    /// The session's settings.
    pub fn settings(&self) -> Settings {
        self.settings.lock().clone()
    }

    /// Says whether it waits for the disk.
    pub fn set_syncing(&self, syncing: bool) {
        self.syncing.store(syncing, Ordering::Relaxed);
    }

    /// Whether it waits for the disk.
    pub fn is_syncing(&self) -> bool {
        self.syncing.load(Ordering::Relaxed)
    }

    /// The statement running now or run last, and whether it runs.
    pub fn statement(&self) -> (Arc<str>, bool) {
        let slot = self.current.load(Ordering::Relaxed) as usize;
        (self.texts[slot].lock().clone(), self.running.load(Ordering::Relaxed))
    }

    /// When the statement running now or run last began; `None` before the first.
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

    /// Notes that the block takes statements again: at its begin, and after ROLLBACK TO.
    pub fn begin_stretch(&self) {
        let next = self.stretch.load(Ordering::Relaxed) + 1;
        self.stretch.store(next, Ordering::Relaxed);
    }

    /// Notes that the block in progress has failed.
    pub fn fail_block(&self) {
        self.fail_stretch(self.stretch.load(Ordering::Relaxed));
    }

    fn fail_stretch(&self, stretch: u64) {
        // The later one counts: an old result that fails late says nothing of what runs now.
        self.failed.fetch_max(stretch, Ordering::Relaxed);
    }

    /// Whether the block in progress has failed. Of no meaning outside blocks.
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

    /// What a result of the block in progress, whose rows are still to be read, tells an error to.
    pub fn stretch_of_result(self: &Arc<Self>) -> StretchOfResult {
        let stretch = self.stretch.load(Ordering::Relaxed);
        StretchOfResult { entry: Arc::clone(self), stretch }
    }
}

impl StatementTable {
    pub fn new(capacity: usize) -> Self {
        StatementTable { capacity, entries: Mutex::default() }
    }

    /// Every text with its counts.
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
        match statement.lookup.take() {
            None => {}
            Some(Lookup::Hit) => tally.plan_hits += 1,
            Some(Lookup::Miss(reason)) => {
                tally.plan_misses += 1;
                tally.last_miss = Some(reason);
            }
        }
        // The only look at the clock: the statement's own transaction begins at this moment too.
        let began = clock::now();
        entry.current.store(slot as u32, Ordering::Relaxed);
        entry.statement_began.store(began.0, Ordering::Relaxed);
        entry.running.store(true, Ordering::Relaxed);
        let is_timed = tally.executions.is_multiple_of(TIMED_ONE_IN);
        tally.executions += 1;
        Watch { slot, began, is_timed }
    }

    /// The slot of a statement that did not find itself where it was last: one of a few, so that
    /// two that are run in turn do not drive each other out, which would take a shared lock.
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
        *tally = Tally { text: Some(text.clone()), executor, ..Tally::default() };
        *entry.texts[slot].lock() = text.clone();
        slot
    }

    /// Notes that it ended.
    ///
    /// `rows` is `None` if it failed; rows that come as they are read are not counted.
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

    /// Brings the shared table up to date.
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
        let old = entry.stretch_of_result();
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
}
