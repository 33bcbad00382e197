//! Where a view's engine lies; who may touch it, and when its rows are up to date, is the business of
//! [`halcyon_txn::derived`], in the order of the views' ids.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use halcyon_base::clock;
use halcyon_base::ids::RowId;
use halcyon_base::sync::MutexGuard;
use halcyon_store::{Partition, Value, ValueRef};
use halcyon_txn::derived::{Derived, Keeper, Kept};
use halcyon_txn::{LockHandle, Savepoint, Transaction};
use halcyon_view::Engine;

use super::feed::Feed;
use super::running::{Input, Mark, Running, Sink};
use super::upkeep::{Events, Fed};
use crate::error::{Result, SqlError, SqlState};

/// Events of a statement between two looks at the budget.
const EVENTS_PER_LOOK: u64 = 1024;

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
    /// than before, or if it is too much and the view `fills` what it has.
    fn change(&self, from: u64, to: u64, fills: bool) -> Result<()> {
        let grown = to as i64 - from as i64;
        let used = self.used.fetch_add(grown, Ordering::Relaxed) + grown;
        let max = self.max.load(Ordering::Relaxed);
        match max > 0 && (grown > 0 || fills) && used > max as i64 {
            true => Err(SqlError::new(
                SqlState::OUT_OF_MEMORY,
                "materialized views would take more memory than they may",
            )
            .detail(format!("They would take {used} bytes; the limit is {max}."))
            .hint("Raise view_memory by ALTER SYSTEM, or drop a view.")),
            false => Ok(()),
        }
    }
}

/// A view's engine.
#[derive(Default)]
pub struct ViewCell {
    derived: Arc<Derived<State>>,
    /// What the engine reads.
    inputs: Vec<Input>,
    feed: Arc<Feed>,
    budget: Arc<Budget>,
    /// Memory of the engine that the budget knows of.
    bytes: AtomicU64,
    /// Entries of the engine's maps when the budget was last kept.
    entries: AtomicU64,
}

/// What keeps a view's rows.
#[derive(Default)]
pub(super) struct State {
    /// `None` in a catalog that was read back and is not in use.
    pub running: Option<Box<Running>>,
    feed: Arc<Feed>,
}

const IN_USE: &str = "views of a database in use have engines";

impl State {
    pub fn running(&mut self) -> &mut Running {
        self.running.as_mut().expect(IN_USE)
    }
}

impl Keeper for State {
    fn settle(&mut self, rows: &mut Partition) -> bool {
        let tells = self.feed.is_followed();
        let running = self.running.as_mut().expect(IN_USE);
        if let Err(error) = running.write(&mut &mut *rows, false, tells, |_| Ok(())) {
            // The view's rows stay what they were; a later event may make them computable.
            tracing::warn!(%error, "a view's rows cannot be computed");
            return false;
        }
        let told = running.forget();
        if tells {
            self.feed.publish(told);
        }
        true
    }

    fn ended(&mut self, committed: bool) {
        let told = self.running().forget();
        if committed && !told.is_empty() {
            self.feed.publish(told);
        }
    }
}

impl Drop for ViewCell {
    fn drop(&mut self) {
        let _ = self.budget.change(self.bytes.load(Ordering::Relaxed), 0, false);
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
        let (bytes, entries) = (running.engine.memory_bytes(), running.engine.entry_count());
        let inputs = running.inputs.clone();
        let feed = Arc::<Feed>::default();
        let state = State { running: Some(Box::new(running)), feed: Arc::clone(&feed) };
        let derived = Arc::new(Derived::new(state));
        let known = (AtomicU64::new(0), AtomicU64::new(0));
        let cell = ViewCell { derived, inputs, feed, budget, bytes: known.0, entries: known.1 };
        cell.account(bytes, entries)?;
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

    /// The engine, and who may touch it.
    pub(super) fn derived(&self) -> &Arc<Derived<State>> {
        &self.derived
    }

    fn lock(&self) -> MutexGuard<'_, Kept<State>> {
        self.derived.lock()
    }

    /// Whether the rows lack events of streams' handles. A hint.
    #[inline]
    pub fn is_stale(&self) -> bool {
        self.derived.is_stale()
    }

    /// Tells the budget of memory and entries of the engine. Errors: 53200; the caller takes back
    /// what was new. Memory of maps that have grown stays, so it is the entries that tell growth.
    pub(super) fn account(&self, bytes: u64, entries: u64) -> Result<()> {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        let fills = entries > self.entries.load(Ordering::Relaxed);
        self.budget.change(before, bytes, fills)?;
        self.entries.store(entries, Ordering::Relaxed);
        Ok(())
    }

    /// Makes the transaction, which holds the view's rows exclusively, the view's owner: its rows
    /// hold every event that has been accepted, and no other comes until the transaction ends.
    pub(super) fn own(&self, tx: &mut Transaction, rows: LockHandle) {
        self.derived.own(&mut self.lock(), tx, rows);
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
        let mut state = self.lock();
        self.derived.own(&mut state, tx, handle);
        let running = state.running();
        let mark = running.mark();
        let undone = Arc::clone(self);
        tx.on_rollback(move || undone.undo_to(mark));
        let (began, mut events) = (clock::now(), 0_u64);
        fed.events(tx, since, stream, &mut |input, row, weight| {
            events += 1;
            if events.is_multiple_of(EVENTS_PER_LOOK) {
                self.look_at(&running.engine)?;
            }
            running.event_noted(input, row, weight)
        })?;
        let tells = self.feed.is_followed();
        running.write(&mut Noted { tx, handle }, true, tells, judge)?;
        let ns = clock::now().since(began).as_nanos() as u64;
        if let Some(each_ns) = ns.checked_div(events) {
            running.tally.note(each_ns, events);
        }
        let (bytes, entries) = (running.engine.memory_bytes(), running.engine.entry_count());
        drop(state);
        self.account(bytes, entries)
    }

    /// Refuses what is in the middle of a statement and beyond the budget already. Errors: 53200.
    fn look_at(&self, engine: &Engine) -> Result<()> {
        let before = self.entries.load(Ordering::Relaxed);
        let looked = self.account(engine.memory_bytes(), engine.entry_count());
        self.entries.store(before, Ordering::Relaxed);
        looked
    }

    fn undo_to(&self, mark: Mark) {
        self.lock().running().undo_to(mark);
    }

    /// The row of a group, by its key. Errors: 22023 for a key of another width.
    pub fn row(&self, key: &[ValueRef<'_>]) -> Result<Option<Vec<Value>>> {
        self.lock().running().row(key)
    }

    /// As [`ViewCell::row`], unless a transaction owns the view: its changes may be taken back.
    pub fn row_if_open(&self, key: &[ValueRef<'_>]) -> Result<Option<Option<Vec<Value>>>> {
        let mut state = self.lock();
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
        let mut state = self.lock();
        if !self.is_stale() {
            state.running().check();
        }
    }

    /// What the system view shows.
    pub fn figures(&self) -> Figures {
        let mut state = self.lock();
        let Some(running) = &mut state.running else { return Figures::default() };
        Figures {
            bytes: running.engine.memory_bytes(),
            events: running.engine.statistics().events,
            ns_p50: running.tally.quantile(0.5),
            ns_p99: running.tally.quantile(0.99),
            ns_max: running.tally.max(),
        }
    }

    /// Bytes of machine code that the triggers are, or why they are none.
    pub fn machine_code(&self) -> Result<usize, String> {
        match &self.lock().running {
            Some(running) => running.engine.machine_code().map_err(str::to_owned),
            None => Err("not running".to_owned()),
        }
    }

    /// The maps of the engine: name, entries, bytes.
    pub fn maps(&self) -> Vec<(String, u64, u64)> {
        let mut state = self.lock();
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
