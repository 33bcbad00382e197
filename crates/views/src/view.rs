//! Maintained views: the engine, the rows and the journal of a materialized view in one object.
//!
//! When which thread may touch the engine, and when the rows are up to date, is decided in
//! [`halcyon_txn::view`]. Views are locked by ascending id: a view's id is greater than the ids of
//! the views that it reads.

use std::sync::Arc;

use halcyon_base::ids::{SessionId, TableId};
use halcyon_base::progress::{self, Phase, Unit};
use halcyon_base::sync::MutexGuard;
use halcyon_cell::abi::samples::checksum;
use halcyon_store::{Partition, Value, ValueRef};
use halcyon_txn::view::{
    LockedView, LockedViews, SettleError, ViewCell, WantedViews, settle_views as settle_cells,
};
use halcyon_txn::{CancelToken, Manager, PartitionCell, Transaction, WaitLimits};
use halcyon_view::program::Program;
use halcyon_view::{Engine, Executor, Options};

use crate::budget::{ViewBudget, ViewMemory};
use crate::coding::ViewColumn;
use crate::engine::ViewEngine;
use crate::error::ViewError;
use crate::feed::ViewFeed;
use crate::placed::{CellChoice, CellEngine, CellFigures};
use crate::state::{ViewInput, ViewState};

/// The definition of a running view: the compiler's program, and the relation between the program's
/// relations and the database's tables and rows.
pub struct ViewProgram {
    /// The trigger program.
    pub program: Program,
    /// The executor that runs the program in this process.
    pub executor: Executor,
    /// The cell that runs the program, if that is not this process.
    pub cell: Option<CellChoice>,
    /// The tables that the view reads.
    pub inputs: Vec<ViewInput>,
    /// The columns of the view's rows.
    pub columns: Vec<ViewColumn>,
}

impl ViewProgram {
    /// Makes a view that has applied the rows of `tables`, which are all roots of all tables that
    /// it reads. The view's rows are put into `rows`, an empty partition with its columns, and
    /// `cell` makes of that the partition that the view keeps.
    ///
    /// Errors: those of an event; [`ViewError::ProgramTooLarge`], [`ViewError::OutOfMemory`],
    /// [`ViewError::Cancelled`] once `cancel` is cancelled, which is checked for every row.
    pub fn fill<'t>(
        self,
        id: TableId,
        tables: impl IntoIterator<Item = (TableId, &'t Partition)>,
        mut rows: Partition,
        cell: impl FnOnce(Partition) -> Arc<PartitionCell>,
        budget: Arc<ViewBudget>,
        cancel: &CancelToken,
    ) -> Result<MaintainedView, ViewError> {
        let engine = match self.cell {
            Some(choice) => ViewEngine::Cell(Box::new(CellEngine::new(self.program, choice)?)),
            None => {
                let options = Options { executor: self.executor, ..Options::default() };
                let engine = Engine::new(self.program, options);
                ViewEngine::Process(engine.map_err(ViewError::ProgramTooLarge)?)
            }
        };
        let may_be_missing = self.cell.is_some_and(|choice| choice.later);
        let (inputs, feed) = (Arc::<[ViewInput]>::from(self.inputs), Arc::<ViewFeed>::default());
        let mut state =
            ViewState::new(engine, Arc::clone(&inputs), self.columns, Arc::clone(&feed));
        let is_missing = match state.write_first(&mut rows) {
            Err(ViewError::CellUnavailable(_) | ViewError::CellDown(_)) if may_be_missing => true,
            written => {
                written?;
                false
            }
        };
        state.engine.begin()?;
        let tables: Vec<_> = tables.into_iter().collect();
        let times = |table| state.inputs.iter().filter(|input| input.table == table).count() as u64;
        let total = tables.iter().map(|(table, root)| times(*table) * root.row_count()).sum();
        progress::stage(Phase::FillingView, Unit::Rows, Some(total));
        for (table, root) in tables {
            state.fill(table, root, cancel)?;
        }
        progress::stage(Phase::WritingRows, Unit::Rows, None);
        if !is_missing {
            state.write_for_good(&mut rows, cancel)?;
        }
        progress::rows(rows.row_count());
        let memory = Arc::new(ViewMemory::new(budget));
        memory.account(&state.engine)?;
        let is_in_cell = state.engine.is_cell();
        let cell = Arc::new(ViewCell::new(u64::from(id.0), cell(rows), state));
        if is_missing {
            // The first reader tries again.
            cell.set_stale();
        }
        Ok(MaintainedView { id, cell, inputs, feed, memory, is_in_cell })
    }
}

/// A running view: engine, rows, subscribers and memory of a materialized view that is kept up to date.
pub struct MaintainedView {
    id: TableId,
    cell: Arc<ViewCell<ViewState>>,
    inputs: Arc<[ViewInput]>,
    feed: Arc<ViewFeed>,
    memory: Arc<ViewMemory>,
    is_in_cell: bool,
}

/// Figures of a view, for the system view `halcyon.views`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ViewFigures {
    /// Memory of maps and strings, in bytes.
    pub bytes: u64,
    /// Events applied.
    pub events: u64,
    /// Median of nanoseconds per event.
    pub ns_p50: Option<u64>,
    /// Nanoseconds that 99 of 100 events did not exceed.
    pub ns_p99: Option<u64>,
    /// Nanoseconds of the longest event.
    pub ns_max: Option<u64>,
}

impl MaintainedView {
    /// The view's id as a table.
    pub fn id(&self) -> TableId {
        self.id
    }

    /// The same running view for later versions of the catalog, in which the columns of a table that the view reads
    /// stand elsewhere: `place` has the new place of each. Engine, rows, subscribers and memory are shared.
    pub fn with_columns_at(&self, table: TableId, place: impl Fn(u16) -> u16) -> MaintainedView {
        let mut inputs = self.inputs.to_vec();
        for input in inputs.iter_mut().filter(|input| input.table == table) {
            input.columns.iter_mut().for_each(|column| *column = place(*column));
        }
        MaintainedView {
            id: self.id,
            cell: Arc::clone(&self.cell),
            inputs: inputs.into(),
            feed: Arc::clone(&self.feed),
            memory: Arc::clone(&self.memory),
            is_in_cell: self.is_in_cell,
        }
    }

    /// The hidden partition of the view's rows.
    pub fn rows(&self) -> &Arc<PartitionCell> {
        self.cell.rows()
    }

    /// The tables that the view reads.
    pub fn inputs(&self) -> &[ViewInput] {
        &self.inputs
    }

    /// The cell that guards the view's state.
    pub(crate) fn cell(&self) -> &Arc<ViewCell<ViewState>> {
        &self.cell
    }

    /// The view's account in the budget of view memory.
    pub(crate) fn memory(&self) -> &ViewMemory {
        &self.memory
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, LockedView<ViewState>> {
        self.cell.lock()
    }

    /// Locks views for an event that belongs to no transaction; `views` have ascending ids. `None`
    /// if a transaction owns one of them.
    #[inline]
    pub(crate) fn lock_open<'a>(
        views: impl IntoIterator<Item = &'a Self>,
    ) -> Option<LockedViews<'a, ViewState>> {
        ViewCell::lock_open(views.into_iter().map(|view| &*view.cell))
    }

    /// Whether the rows lack events that came by streams' handles. A hint: it may change at once.
    #[inline]
    pub fn is_stale(&self) -> bool {
        self.cell.is_stale()
    }

    /// Makes a transaction that holds the view's rows exclusively the view's owner: the rows then
    /// have every event accepted so far, and no other event comes until the transaction ends. Does
    /// nothing if the transaction does not hold the rows.
    pub fn own(&self, tx: &mut Transaction) {
        if tx.held_exclusively(self.rows()).is_some() {
            self.cell.own(&mut self.lock(), tx);
        }
    }

    /// The row of a group, given its key. Errors: [`ViewError::KeyWidth`]; those of the engine.
    pub fn row(&self, key: &[ValueRef<'_>]) -> Result<Option<Vec<Value>>, ViewError> {
        self.lock().row(key)
    }

    /// The row of a group, given its key. The outer `None` says that a transaction owns the view,
    /// so that its changes may still be taken back. Errors: as [`MaintainedView::row`].
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

    /// The feed of the view's changes.
    pub fn feed(&self) -> &Arc<ViewFeed> {
        &self.feed
    }

    /// Ends all subscriptions, because the view is dropped.
    pub fn close(&self) {
        self.feed.close();
        if let ViewEngine::Cell(cell) = &mut self.lock().engine {
            cell.drop_cell();
        }
    }

    /// Whether the view's program runs in a cell.
    pub fn is_in_cell(&self) -> bool {
        self.is_in_cell
    }

    /// The view's cell in numbers, for the system view `halcyon.cells`; `None` for a view that runs in
    /// the process.
    pub fn cell_figures(&self) -> Option<CellFigures> {
        if !self.is_in_cell {
            return None;
        }
        match &mut self.lock().engine {
            ViewEngine::Cell(cell) => Some(cell.figures()),
            ViewEngine::Process(_) => None,
        }
    }

    /// Ends the view's running cell by force, as a fault would: the next use starts another one. For
    /// tests.
    pub fn break_cell(&self) {
        if let ViewEngine::Cell(cell) = &mut self.lock().engine {
            cell.break_cell();
        }
    }

    /// Makes the view's running cell read memory that is not there. For tests.
    pub fn crash_cell(&self) {
        if let ViewEngine::Cell(cell) = &mut self.lock().engine {
            cell.crash_cell();
        }
    }

    /// A number that follows from the view's rows, in whatever order: that of a cell's rows after the same events
    /// ([`checksum`]).
    ///
    /// Errors: an expression of the view fails; those of a cell.
    pub fn checksum(&self) -> Result<u64, ViewError> {
        let mut rows = Vec::new();
        self.lock().engine.for_each_row(|row| rows.push(row.to_vec()))?;
        Ok(checksum(rows.iter().map(Vec::as_slice)))
    }

    /// Why the rows of a view in a cell lack accepted events although readers wanted these.
    pub fn unsettled(&self) -> Option<ViewError> {
        (self.is_in_cell && self.is_stale()).then(|| self.lock().unsettled().cloned())?
    }

    /// Panics unless the invariants of the engine and of the rows' places hold. For tests.
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
            events: state.engine.event_count(),
            ns_p50: state.times.quantile(0.5),
            ns_p99: state.times.quantile(0.99),
            ns_max: state.times.max(),
        }
    }

    /// Bytes of the triggers' machine code; the error says why there is none.
    pub fn machine_code(&self) -> Result<usize, String> {
        match &self.lock().engine {
            ViewEngine::Process(engine) => engine.machine_code().map_err(str::to_owned),
            ViewEngine::Cell(_) => Err("cells run operations".to_owned()),
        }
    }

    /// The maps of the engine: name, entries, bytes. None of a view in a cell, whose memory is fixed.
    pub fn maps(&self) -> Vec<(String, u64, u64)> {
        let maps = match &self.lock().engine {
            ViewEngine::Process(engine) => engine.statistics().maps,
            ViewEngine::Cell(_) => Vec::new(),
        };
        maps.into_iter().map(|map| (map.name, map.entries, map.bytes)).collect()
    }
}

/// Brings the rows of all stale views up to date with the events that have come by streams' handles
/// so far, at one moment, in a transaction of its own: see [`halcyon_txn::view::settle_views`].
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
