//! What sessions are doing, for the system views.
//!
//! A session notes what it runs in memory of its own, and writes the shared tables only now and
//! then: watching must not slow down what is watched. A short statement is timed once in
//! [`TIMED_ONE_IN`] executions; its total is projected from those.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use halcyon_txn::CancelToken;
use parking_lot::Mutex;

use crate::database::Shared;

/// Statements a session keeps counts of at a time.
const TALLIES: usize = 64;
/// Every how many executions of one statement the clock is read.
const TIMED_ONE_IN: u64 = 16;
/// Every how many executions of one statement the shared table is brought up to date.
const FLUSHED_ONE_IN: u64 = 4096;

/// What others may see of a session.
pub(crate) struct SessionEntry {
    pub id: u32,
    pub role: String,
    pub cancel: CancelToken,
    pub began_us: i64,
    pub application: Mutex<String>,
    running: AtomicBool,
    current: AtomicU32,
    texts: Box<[Mutex<Arc<str>>]>,
    /// Transactions and statements ended, by this session alone.
    pub statements: AtomicU64,
}

/// Counts of one statement text over all sessions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StatementEntry {
    pub calls: u64,
    pub errors: u64,
    pub total_ns: u64,
    pub max_ns: u64,
}

/// Counts of one statement text in one session, not yet in the shared table.
#[derive(Default)]
struct Tally {
    text: Option<Arc<str>>,
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
    pub fn new(id: u32, role: &str, cancel: CancelToken) -> Self {
        let nothing: Arc<str> = "".into();
        SessionEntry {
            id,
            role: role.to_owned(),
            cancel,
            began_us: halcyon_base::clock::wall_us(),
            application: Mutex::default(),
            running: AtomicBool::new(false),
            current: AtomicU32::new(0),
            texts: (0..TALLIES).map(|_| Mutex::new(nothing.clone())).collect(),
            statements: AtomicU64::new(0),
        }
    }

    pub fn set_application(&self, name: &str) {
        let mut application = self.application.lock();
        if *application != name {
            name.clone_into(&mut application);
        }
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

    /// Notes that `text` begins to run.
    pub fn begin(&mut self, text: &Arc<str>, entry: &SessionEntry, shared: &Shared) -> Watch {
        let address = Arc::as_ptr(text).cast::<u8>() as usize;
        let slot = (address >> 4 ^ address >> 10) % TALLIES;
        let tally = &mut self.0[slot];
        if !tally.text.as_ref().is_some_and(|known| Arc::ptr_eq(known, text)) {
            tally.flush(shared);
            *tally = Tally { text: Some(text.clone()), ..Tally::default() };
            *entry.texts[slot].lock() = text.clone();
        }
        entry.current.store(slot as u32, Ordering::Relaxed);
        entry.running.store(true, Ordering::Relaxed);
        let timed = tally.executions % TIMED_ONE_IN == 0;
        tally.executions += 1;
        Watch { slot, began: timed.then(Instant::now) }
    }

    /// Notes that it ended.
    pub fn end(&mut self, watch: &Watch, ok: bool, entry: &SessionEntry, shared: &Shared) {
        entry.running.store(false, Ordering::Relaxed);
        let tally = &mut self.0[watch.slot];
        tally.calls += 1;
        tally.errors += u64::from(!ok);
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
    fn flush(&mut self, shared: &Shared) {
        let Some(text) = self.text.as_ref().filter(|_| self.calls > 0) else { return };
        let mut statements = shared.statements.lock();
        if !statements.contains_key(&**text) && statements.len() >= shared.options.cached_statements
        {
            statements.clear();
        }
        let entry = statements.entry(text.clone()).or_default();
        entry.calls += self.calls;
        entry.errors += self.errors;
        entry.total_ns += (self.timed_ns as u128 * self.calls as u128
            / u128::from(self.timed.max(1))) as u64;
        entry.max_ns = entry.max_ns.max(self.max_ns);
        (self.calls, self.errors, self.timed, self.timed_ns) = (0, 0, 0, 0);
    }
}
