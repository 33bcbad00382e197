//! A materialized view that is kept up to date: its engine, its rows and its journal in one object.
//!
//! Who may touch the engine, and when the rows are up to date, is the business of
//! [`halcyon_txn::view`], in the order of the views' ids: a view's id is greater than the ids of the
//! views that it reads.

use std::sync::Arc;

use halcyon_base::ids::{SessionId, TableId};
use halcyon_base::sync::MutexGuard;
use halcyon_store::{Partition, Value, ValueRef};
use halcyon_txn::view::{
    LockedView, LockedViews, SettleError, ViewCell, WantedViews, settle_views as settle_cells,
};
use halcyon_txn::{CancelToken, Manager, PartitionCell, Transaction, WaitLimits};
use halcyon_view::program::Program;
use halcyon_view::{Engine, Executor, Options};

use crate::budget::{ViewBudget, ViewMemory};
use crate::coding::ViewColumn;
use crate::error::ViewError;
use crate::feed::ViewFeed;
use crate::state::{ViewInput, ViewState};

/// The definition of a view that is to run: the compiler's program, and how tables and rows are the
/// program's relations.
pub struct ViewProgram {
    /// The trigger program.
    pub program: Program,
    /// The executor that runs the program.
    pub executor: Executor,
    /// The tables that the view reads.
    pub inputs: Vec<ViewInput>,
    /// The columns of the view's rows.
    pub columns: Vec<ViewColumn>,
}

impl ViewProgram {
    /// A view that has met the rows of `tables`, which are all roots of all tables that it reads. Its
    /// rows are put into `rows`, an empty partition of its columns, and `cell` makes of that the
    /// partition in which they stay.
    ///
    /// Errors: what an event can fail at; [`ViewError::ProgramTooLarge`], [`ViewError::OutOfMemory`],
    /// [`ViewError::Cancelled`] once `cancel` is, which is looked at with every row.
    pub fn fill<'t>(
        self,
        id: TableId,
        tables: impl IntoIterator<Item = (TableId, &'t Partition)>,
        mut rows: Partition,
        cell: impl FnOnce(Partition) -> Arc<PartitionCell>,
        budget: Arc<ViewBudget>,
        cancel: &CancelToken,
    ) -> Result<MaintainedView, ViewError> {
        let options = Options { executor: self.executor, ..Options::default() };
        let engine = Engine::new(self.program, options).map_err(ViewError::ProgramTooLarge)?;
        let (inputs, feed) = (Arc::<[ViewInput]>::from(self.inputs), Arc::<ViewFeed>::default());
        let mut state =
            ViewState::new(engine, Arc::clone(&inputs), self.columns, Arc::clone(&feed));
        state.write_first(&mut rows)?;
        state.engine.begin()?;
        for (table, root) in tables {
            state.fill(table, root, cancel)?;
        }
        state.write_for_good(&mut rows, cancel)?;
        let memory = ViewMemory::new(budget);
        memory.account(&state.engine)?;
        let cell = Arc::new(ViewCell::new(u64::from(id.0), cell(rows), state));
        Ok(MaintainedView { id, cell, inputs, feed, memory })
    }
}

/// A running view: engine, rows, subscribers and memory of a materialized view that is kept up to date.
pub struct MaintainedView {
    id: TableId,
    cell: Arc<ViewCell<ViewState>>,
    inputs: Arc<[ViewInput]>,
    feed: Arc<ViewFeed>,
    memory: ViewMemory,
}

/// A view in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct ViewFigures {
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

impl MaintainedView {
    /// The view's id as a table.
    pub fn id(&self) -> TableId {
        self.id
    }

    /// The hidden partition of its rows.
    pub fn rows(&self) -> &Arc<PartitionCell> {
        self.cell.rows()
    }

    /// The tables that the view reads.
    pub fn inputs(&self) -> &[ViewInput] {
        &self.inputs
    }

    /// The engine, and who may touch it.
    pub(crate) fn cell(&self) -> &Arc<ViewCell<ViewState>> {
        &self.cell
    }

    /// The view's part of the memory of all views.
    pub(crate) fn memory(&self) -> &ViewMemory {
        &self.memory
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, LockedView<ViewState>> {
        self.cell.lock()
    }

    /// Locks views for an event that belongs to no transaction; `views` come by ascending id. `None`
    /// if a transaction owns one of them.
    #[inline]
    pub(crate) fn lock_open<'a>(
        views: impl IntoIterator<Item = &'a Self>,
    ) -> Option<LockedViews<'a, ViewState>> {
        ViewCell::lock_open(views.into_iter().map(|view| &*view.cell))
    }

    /// Whether the rows lack events of streams' handles. A hint.
    #[inline]
    pub fn is_stale(&self) -> bool {
        self.cell.is_stale()
    }

    /// Makes a transaction that holds the view's rows exclusively the view's owner: its rows hold
    /// every event that has been accepted, and no other comes until the transaction ends. Nothing
    /// happens if the transaction does not hold them.
    pub fn own(&self, tx: &mut Transaction) {
        if tx.held_exclusively(self.rows()).is_some() {
            self.cell.own(&mut self.lock(), tx);
        }
    }

    /// The row of a group, by its key. Errors: [`ViewError::KeyWidth`]; what the engine fails at.
    pub fn row(&self, key: &[ValueRef<'_>]) -> Result<Option<Vec<Value>>, ViewError> {
        self.lock().row(key)
    }

    /// The row of a group, unless a transaction owns the view, whose changes may be taken back: then
    /// the outer `None`. Errors: as those of [`MaintainedView::row`].
    pub fn row_if_open(
        &self,
        key: &[ValueRef<'_>],
    ) -> Result<Option<Option<Vec<Value>>>, ViewError> {
        let mut state = self.lock();
        match state.is_open() {
            true => state.row(key).map(Some),
            false => Ok(None),
        }
    }

    /// The changes of the view, for its subscribers.
    pub fn feed(&self) -> &ViewFeed {
        &self.feed
    }

    /// Ends all subscriptions: the view is dropped.
    pub fn close(&self) {
        self.feed.close();
    }

    /// Panics unless the invariants hold that the engine and the places of rows have. For tests.
    pub fn check(&self) {
        let mut state = self.lock();
        if !self.is_stale() {
            state.check();
        }
    }

    /// The view in numbers, for the system view `halcyon.views`.
    pub fn figures(&self) -> ViewFigures {
        let state = self.lock();
        ViewFigures {
            bytes: state.engine.memory_bytes(),
            events: state.engine.statistics().events,
            ns_p50: state.times.quantile(0.5),
            ns_p99: state.times.quantile(0.99),
            ns_max: state.times.max(),
        }
    }

    /// Bytes of machine code that the triggers are, or why they are none.
    pub fn machine_code(&self) -> Result<usize, String> {
        self.lock().engine.machine_code().map_err(str::to_owned)
    }

    /// The maps of the engine: name, entries, bytes.
    pub fn maps(&self) -> Vec<(String, u64, u64)> {
        let maps = self.lock().engine.statistics().maps;
        maps.into_iter().map(|map| (map.name, map.entries, map.bytes)).collect()
    }
}

/// Brings the rows of all stale views up to date with the events that streams' handles have given so
/// far, at one moment, as a transaction of its own: see [`halcyon_txn::view::settle_views`].
///
/// Errors: the errors of locks and of the log.
pub fn settle_views(
    manager: &Manager,
    session: SessionId,
    limits: &WaitLimits<'_>,
    find: impl Fn(WantedViews) -> Vec<Arc<MaintainedView>>,
) -> Result<(), SettleError> {
    settle_cells(manager, session, limits, |wanted| {
        find(wanted).iter().map(|view| Arc::clone(&view.cell)).collect()
    })
}
