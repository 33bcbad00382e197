//! Where a view's engine lies, and who may touch it.
//!
//! Words: a view is *owned* by the transaction that has changed it and has not ended; it holds the
//! view's partition exclusively. It is *stale* while its engine has met events that its rows do not
//! show yet: those of a stream's handle, which go to the engine alone.
//! Invariants:
//! 1. Whoever owns a view brought its rows up to date first, so all that it takes back is its own.
//! 2. While a view is owned, no events but the owner's reach it.
//! 3. Engines are locked in the order of the views' ids; whoever waits for a partition holds none.
//!
//! Cost: an event of a stream's handle takes one mutex per view that the stream feeds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use halcyon_base::clock;
use halcyon_base::ids::RowId;
use halcyon_store::{Partition, Value, ValueRef};
use halcyon_txn::{LockHandle, Savepoint, Transaction};
use parking_lot::{Mutex, MutexGuard};

use super::feed::Feed;
use super::running::{Input, Mark, Running, Sink};
use super::upkeep::{Events, Fed};
use crate::error::{Result, SqlError, SqlState};

/// Memory that all views may take together.
pub struct Budget {
    used: AtomicI64,
    /// Bytes; 0 for no limit.
    max: AtomicU64,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { used: AtomicI64::new(0), max: AtomicU64::new(0) }
    }
}

impl Budget {
    /// Sets the limit, in bytes; 0 for none.
    pub fn set_max(&self, bytes: u64) {
        self.max.store(bytes, Ordering::Relaxed);
    }

    /// Notes that a view takes other memory than before. Errors: 53200 if it is too much and more
    /// than before.
    fn change(&self, from: u64, to: u64) -> Result<()> {
        let grown = to as i64 - from as i64;
        let used = self.used.fetch_add(grown, Ordering::Relaxed) + grown;
        let max = self.max.load(Ordering::Relaxed);
        match max > 0 && grown > 0 && used > max as i64 {
            true => Err(SqlError::new(
                SqlState::OUT_OF_MEMORY,
                "materialized views would take more memory than they may",
            )
            .detail(format!("They would take {used} bytes; the limit is {max}."))
            .hint("Raise the limit of the database's options, or drop a view.")),
            false => Ok(()),
        }
    }
}

/// A view's engine.
#[derive(Default)]
pub struct ViewCell {
    state: Mutex<State>,
    /// What the engine reads.
    inputs: Vec<Input>,
    stale: AtomicBool,
    pub(super) feed: Feed,
    budget: Arc<Budget>,
    /// Memory of the engine that the budget knows of.
    bytes: AtomicU64,
}

#[derive(Default)]
pub(super) struct State {
    /// `None` in a catalog that was read back and is not in use.
    pub running: Option<Box<Running>>,
    owned: bool,
}

const IN_USE: &str = "views of a database in use have engines";

impl State {
    pub fn running(&mut self) -> &mut Running {
        self.running.as_mut().expect(IN_USE)
    }

    /// Whether events that belong to no transaction may come.
    pub fn is_open(&self) -> bool {
        !self.owned && self.running.is_some()
    }
}

impl Drop for ViewCell {
    fn drop(&mut self) {
        let _ = self.budget.change(self.bytes.load(Ordering::Relaxed), 0);
    }
}

/// Rows of a hidden partition, by the transaction that has locked it.
struct Noted<'a> {
    tx: &'a mut Transaction,
    handle: LockHandle,
}

impl Sink for Noted<'_> {
    fn insert(&mut self, row: &[ValueRef<'_>]) -> RowId {
        self.tx.insert_unchecked(self.handle, row)
    }

    fn update(&mut self, id: RowId, columns: &[u16], values: &[ValueRef<'_>]) {
        self.tx.update_unchecked(self.handle, id, columns, values);
    }

    fn delete(&mut self, id: RowId) {
        assert!(self.tx.delete(self.handle, id), "a row of the view is there");
    }
}

impl Sink for &mut Partition {
    fn insert(&mut self, row: &[ValueRef<'_>]) -> RowId {
        self.insert_unchecked(row)
    }

    fn update(&mut self, id: RowId, columns: &[u16], values: &[ValueRef<'_>]) {
        self.update_unchecked(id, columns, values);
    }

    fn delete(&mut self, id: RowId) {
        assert!(Partition::delete(self, id), "a row of the view is there");
    }
}

impl ViewCell {
    /// A view that is there and up to date.
    pub(super) fn new(running: Running, budget: Arc<Budget>) -> Result<Self> {
        let bytes = running.engine.memory_bytes();
        let inputs = running.inputs.clone();
        let state = State { running: Some(Box::new(running)), owned: false };
        let (stale, bytes_known) = (AtomicBool::new(false), AtomicU64::new(0));
        let feed = Feed::default();
        let cell =
            ViewCell { state: Mutex::new(state), inputs, stale, feed, budget, bytes: bytes_known };
        cell.account(bytes)?;
        Ok(cell)
    }

    /// Ends what follows the view: it is dropped.
    pub(crate) fn close(&self) {
        self.feed.close();
    }

    /// What the view reads.
    pub(super) fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Whether the rows lack events. A hint unless the engine is locked.
    #[inline]
    pub fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Acquire)
    }

    /// Says that the engine has met events that its rows do not show. Under the engine's lock.
    #[inline]
    pub(super) fn set_stale(&self) {
        if !self.stale.load(Ordering::Relaxed) {
            self.stale.store(true, Ordering::Release);
        }
    }

    /// Tells the budget. Errors: 53200.
    pub(super) fn account(&self, bytes: u64) -> Result<()> {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        self.budget.change(before, bytes)
    }

    /// Brings the rows up to date with the events of streams' handles.
    ///
    /// The transaction holds the partition exclusively and has not changed it; or has, and then owns
    /// the view, and there is nothing to do.
    pub(super) fn settle(&self, state: &mut State, tx: &mut Transaction, handle: LockHandle) {
        if state.owned || !self.is_stale() {
            return;
        }
        let tells = self.feed.is_followed();
        let running = state.running();
        let settled =
            tx.settle(handle, |root| running.write(&mut &mut *root, false, tells, |_| Ok(())));
        if let Err(error) = settled {
            // The view's rows stay what they were; a later event may make them computable.
            tracing::warn!(%error, "a view's rows cannot be computed");
            return;
        }
        self.stale.store(false, Ordering::Release);
        let told = running.forget();
        if tells {
            self.feed.publish(told);
        }
    }

    /// Makes the transaction the owner, after bringing the rows up to date.
    pub(super) fn own(
        self: &Arc<Self>,
        state: &mut State,
        tx: &mut Transaction,
        handle: LockHandle,
    ) {
        if state.owned {
            return;
        }
        self.settle(state, tx, handle);
        state.owned = true;
        let (committed, undone) = (Arc::clone(self), Arc::clone(self));
        tx.on_commit(move || committed.disown(true));
        tx.on_rollback(move || undone.disown(false));
    }

    fn disown(&self, committed: bool) {
        let mut state = self.state.lock();
        state.owned = false;
        let told = state.running().forget();
        if committed && !told.is_empty() {
            self.feed.publish(told);
        }
    }

    /// What a statement has done to the tables that a view reads, done to the view.
    ///
    /// Errors: what an event fails at, 23514 of a guard, 53200; the caller goes back to a savepoint
    /// before the statement, which takes the rest back.
    pub(super) fn follow(
        self: &Arc<Self>,
        fed: &Fed,
        since: &Savepoint,
        stream: Option<Events<'_, '_>>,
        tx: &mut Transaction,
        judge: &mut dyn FnMut(&[ValueRef<'_>]) -> Result<()>,
    ) -> Result<()> {
        if !fed.is_touched(tx, since, stream) {
            return Ok(());
        }
        let handle =
            tx.held_exclusively(fed.cell()).expect("views are locked with what feeds them");
        let mut state = self.state.lock();
        self.own(&mut state, tx, handle);
        let running = state.running();
        let mark = running.mark();
        let undone = Arc::clone(self);
        tx.on_rollback(move || undone.undo_to(mark));
        let (began, mut events) = (clock::now(), 0);
        fed.events(tx, since, stream, &mut |input, row, weight| {
            events += 1;
            running.event_noted(input, row, weight)
        })?;
        let tells = self.feed.is_followed();
        running.write(&mut Noted { tx, handle }, true, tells, judge)?;
        let ns = clock::now().since(began).as_nanos() as u64;
        if let Some(each_ns) = ns.checked_div(events) {
            running.tally.note(each_ns, events);
        }
        let bytes = running.engine.memory_bytes();
        drop(state);
        self.account(bytes)
    }

    fn undo_to(&self, mark: Mark) {
        self.state.lock().running().undo_to(mark);
    }

    /// The row of a group, by its key. Errors: 22023 for a key of another width.
    pub fn row(&self, key: &[ValueRef<'_>]) -> Result<Option<Vec<Value>>> {
        self.state.lock().running().row(key)
    }

    /// As [`ViewCell::row`], unless a transaction owns the view: its changes may be taken back.
    pub fn row_if_open(&self, key: &[ValueRef<'_>]) -> Result<Option<Option<Vec<Value>>>> {
        let mut state = self.state.lock();
        match state.is_open() {
            true => state.running().row(key).map(Some),
            false => Ok(None),
        }
    }

    /// The changes of the view, for those who follow it.
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Begins to keep changes for followers, and says the position of the last: see
    /// [`Feed::follow`].
    pub fn follow_from(&self) -> u64 {
        self.feed.follow()
    }

    /// Panics unless the invariants hold that the engine and the places of rows have. For tests.
    pub fn check(&self) {
        let mut state = self.state.lock();
        if !self.is_stale() {
            state.running().check();
        }
    }

    /// What the system view shows.
    pub fn figures(&self) -> Figures {
        let mut state = self.state.lock();
        let Some(running) = &mut state.running else { return Figures::default() };
        Figures {
            bytes: running.engine.memory_bytes(),
            events: running.engine.statistics().events,
            ns_p50: running.tally.quantile(0.5),
            ns_p99: running.tally.quantile(0.99),
            ns_max: running.tally.max(),
        }
    }

    /// The maps of the engine: name, entries, bytes.
    pub fn maps(&self) -> Vec<(String, u64, u64)> {
        let mut state = self.state.lock();
        let Some(running) = &mut state.running else { return Vec::new() };
        let maps = running.engine.statistics().maps;
        maps.into_iter().map(|map| (map.name, map.entries, map.bytes)).collect()
    }
}

/// A view in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Memory of maps and strings.
    pub bytes: u64,
    /// Events applied.
    pub events: u64,
    /// Nanoseconds per event: the median.
    pub ns_p50: Option<u64>,
    /// 99 of 100 took no longer.
    pub ns_p99: Option<u64>,
    /// The longest.
    pub ns_max: Option<u64>,
}
