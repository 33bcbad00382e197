//! Maintenance of views within the statements that change their inputs.
//!
//! [`ViewMaintenance`] is made when a statement is planned: it has the views that follow from the
//! tables that the statement writes, and the partitions that each of these views reads. At the
//! statement's end one pass over the transaction's undo notes finds the changed rows of all tables
//! ([`halcyon_txn::ChangedRows`]). Then each view, by ascending id, gets the changed rows of its
//! inputs as events and writes its own rows. The notes of these writes are read once, too, for the
//! views that read this view.
//!
//! Invariants, checked by `statements_leave_views_as_recomputation_does`,
//! `a_judge_sees_new_rows_by_view_and_its_refusal_takes_nothing_along` (1) and
//! `old_rows_are_told_before_new_ones` (2):
//! 1. A view has applied all its events before its rows are written, and is finished before the
//!    next view begins: a failing view spares the later ones their events.
//! 2. Of several changed rows of a table, old rows are given to the engine first: when a key moves
//!    from one row to another, the engine must not have it twice in between, since programs rely on
//!    keys.
//!
//! Cost: one pass over the notes, and one mutex per view whose inputs have changed. For a few rows
//! nothing is allocated but the hooks that take an engine back.

use std::sync::Arc;

use halcyon_base::clock;
use halcyon_base::ids::TableId;
use halcyon_base::sync::MutexGuard;
use halcyon_store::ValueRef;
use halcyon_txn::view::LockedView;
use halcyon_txn::{
    CancelToken, ChangedRow, ChangedRows, LockHandle, PartitionCell, PartitionChanges, Savepoint,
    Transaction,
};
use smallvec::SmallVec;

use crate::error::{Refused, ViewError};
use crate::rows::NotedRows;
use crate::state::{RowsWritten, ViewState, go_on};
use crate::view::MaintainedView;

/// Events of a view between two checks of the budget.
const EVENTS_PER_LOOK: u64 = 1024;

/// Events of a stream within a statement, which no table stores: the stream's id, rows and weights.
pub type StreamEvents<'e, 'v> = (TableId, &'e [(Vec<ValueRef<'v>>, i8)]);

/// The views that a statement may change, with all that is needed to carry changes to them.
pub struct ViewMaintenance {
    /// The views by ascending id, so that each stands behind the views that it reads.
    views: Vec<FedView>,
}

/// A view that a statement may change.
struct FedView {
    view: Arc<MaintainedView>,
    /// For each input, the partitions of its table.
    sources: Vec<Vec<Arc<PartitionCell>>>,
    /// Whether another of the statement's views reads this one.
    is_read: bool,
}

/// Why a statement's changes could not be carried to a view. `E`: the judge's error.
#[derive(Debug)]
pub struct MaintenanceError<E> {
    /// Position of the view in the list given to [`ViewMaintenance::new`].
    pub view: usize,
    /// Why the view or the judge refused.
    pub refused: Refused<E>,
}

/// A statement's changes, in the form in which views read them.
#[derive(Clone, Copy)]
struct StatementChanges<'s> {
    rows: &'s ChangedRows,
    events: Option<StreamEvents<'s, 's>>,
    /// The statement's cancel token.
    cancel: &'s CancelToken,
}

/// A view locked by the statement while changes come to it; the transaction owns it.
struct OpenView<'v> {
    view: &'v MaintainedView,
    state: MutexGuard<'v, LockedView<ViewState>>,
    cancel: &'v CancelToken,
    events: u64,
}

/// A pass over changed rows: says whether old rows, new rows or both become events.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Both,
    Old,
    New,
}

/// Approves a new row of a view, given the view's position, before the row is written.
pub type Judge<'a, E> = dyn FnMut(usize, &[ValueRef<'_>]) -> Result<(), E> + 'a;

impl ViewMaintenance {
    /// Prepares the maintenance of `views`, which have ascending ids. `cells`: the partitions of a
    /// table that a view reads.
    pub fn new(
        views: Vec<Arc<MaintainedView>>,
        cells: impl Fn(TableId) -> Vec<Arc<PartitionCell>>,
    ) -> ViewMaintenance {
        assert!(views.is_sorted_by_key(|view| view.id()), "each stands after what it reads");
        let reads = |id| views.iter().any(|view| view.inputs().iter().any(|one| one.table == id));
        let fed = |view: &Arc<MaintainedView>| FedView {
            view: Arc::clone(view),
            sources: view.inputs().iter().map(|input| cells(input.table)).collect(),
            is_read: reads(view.id()),
        };
        ViewMaintenance { views: views.iter().map(fed).collect() }
    }

    /// Brings the views up to date with the changes of `tx` since `since`, and with `events`. The
    /// transaction holds the views' rows and the changed partitions exclusively. `judge` approves
    /// every new row of a view, given the view's position, before the row is written.
    ///
    /// Errors: the errors of events, expressions and `judge`; the budget; and
    /// [`ViewError::Cancelled`] once `cancel` is cancelled, which is checked for every event and
    /// every row. The caller then rolls back to a savepoint at or before `since`, which takes the
    /// rest back.
    pub fn run<E>(
        &self,
        tx: &mut Transaction,
        since: &Savepoint,
        events: Option<StreamEvents<'_, '_>>,
        cancel: &CancelToken,
        judge: &mut Judge<'_, E>,
    ) -> Result<(), MaintenanceError<E>> {
        let mut rows = tx.changed_rows_since(since);
        tx.find_changed_rows(&mut rows);
        for (at, fed) in self.views.iter().enumerate() {
            let changes = StatementChanges { rows: &rows, events, cancel };
            if !fed.is_touched(tx, changes) {
                continue;
            }
            let done = fed.follow(tx, changes, &mut |row| judge(at, row));
            done.map_err(|refused| MaintenanceError { view: at, refused })?;
            if fed.is_read {
                tx.find_changed_rows(&mut rows);
            }
        }
        Ok(())
    }
}

impl FedView {
    /// Whether some input of the view has changed.
    fn is_touched(&self, tx: &Transaction, changes: StatementChanges<'_>) -> bool {
        let has_events = changes
            .events
            .is_some_and(|(table, _)| self.view.inputs().iter().any(|input| input.table == table));
        let has_changed = |cell: &Arc<PartitionCell>| {
            let handle = tx.held_exclusively(cell);
            handle.is_some_and(|handle| tx.has_changed_rows(changes.rows, handle))
        };
        has_events || self.sources.iter().flatten().any(has_changed)
    }

    /// Carries the changes to the view's engine, and writes the view's rows.
    fn follow<E>(
        &self,
        tx: &mut Transaction,
        changes: StatementChanges<'_>,
        judge: &mut dyn FnMut(&[ValueRef<'_>]) -> Result<(), E>,
    ) -> Result<(), Refused<E>> {
        let (mut open, handle) = OpenView::of(&self.view, tx, changes.cancel);
        let began = clock::now();
        open.tell_stream(changes.events)?;
        for (input, cells) in self.sources.iter().enumerate() {
            let handles = cells.iter().filter_map(|cell| tx.held_exclusively(cell));
            let parts = handles.map(|handle| tx.changed_rows_of(changes.rows, handle));
            open.tell_table(input, &parts.collect::<SmallVec<[_; 4]>>())?;
        }
        let told = self.view.feed().is_followed();
        let state = &mut *open.state;
        let written = RowsWritten { noted: true, told };
        state.write(&mut NotedRows { tx, handle }, written, Some(changes.cancel), judge)?;
        let ns = clock::now().0.saturating_sub(began.0);
        if let Some(each_ns) = ns.checked_div(open.events) {
            state.times.note(each_ns, open.events);
        }
        Ok(self.view.memory().account(&state.engine)?)
    }
}

impl<'v> OpenView<'v> {
    /// Locks a view and makes the transaction its owner, so that a rollback takes the changes back.
    /// Returns the open view with the lock on its rows.
    fn of(
        view: &'v Arc<MaintainedView>,
        tx: &mut Transaction,
        cancel: &'v CancelToken,
    ) -> (Self, LockHandle) {
        let mut state = view.lock();
        let handle = view.cell().own(&mut state, tx);
        let (mark, undone) = (state.mark(), Arc::clone(view));
        tx.on_rollback(move || undone.lock().undo_to(mark));
        (OpenView { view, state, cancel, events: 0 }, handle)
    }

    /// Applies the events of a stream.
    fn tell_stream(&mut self, events: Option<StreamEvents<'_, '_>>) -> Result<(), ViewError> {
        let Some((table, rows)) = events else { return Ok(()) };
        let inputs = self.view.inputs().iter().enumerate();
        for (at, input) in inputs.filter(|(_, input)| input.table == table) {
            for (row, weight) in rows {
                self.tell(at, &input.project(row), *weight)?;
            }
        }
        Ok(())
    }

    /// Applies the changed rows of a table, partition by partition.
    fn tell_table(
        &mut self,
        input: usize,
        parts: &[PartitionChanges<'_>],
    ) -> Result<(), ViewError> {
        let columns = &self.view.inputs()[input].columns;
        for pass in passes(parts) {
            for row in parts.iter().flat_map(|part| part.rows(columns)) {
                self.tell_row(input, &row, *pass)?;
            }
        }
        Ok(())
    }

    /// Applies a changed row, unless it is unchanged in the columns that the view reads.
    fn tell_row(
        &mut self,
        input: usize,
        row: &ChangedRow<'_>,
        pass: Pass,
    ) -> Result<(), ViewError> {
        if row.old == row.new {
            return Ok(());
        }
        if let Some(old) = row.old.as_ref().filter(|_| pass != Pass::New) {
            self.tell(input, old, -1)?;
        }
        if let Some(new) = row.new.as_ref().filter(|_| pass != Pass::Old) {
            self.tell(input, new, 1)?;
        }
        Ok(())
    }

    /// Applies an event, with a check of the budget now and then.
    fn tell(&mut self, input: usize, row: &[ValueRef<'_>], weight: i8) -> Result<(), ViewError> {
        go_on(Some(self.cancel))?;
        self.events += 1;
        if self.events.is_multiple_of(EVENTS_PER_LOOK) {
            self.view.memory().look_at(&self.state.engine)?;
        }
        self.state.event_noted(input, row, weight)
    }
}

/// The passes over a table's changed rows: first old rows, then new rows, if there may be both and
/// of different rows.
fn passes(parts: &[PartitionChanges<'_>]) -> &'static [Pass] {
    let mut changed = parts.iter().filter(|part| !part.is_empty());
    let (first, second) = (changed.next(), changed.next());
    let is_single = first.is_some_and(PartitionChanges::is_single) && second.is_none();
    let is_plain = is_single
        || parts.iter().all(PartitionChanges::is_inserted_only)
        || parts.iter().all(PartitionChanges::is_deleted_only);
    if is_plain { &[Pass::Both] } else { &[Pass::Old, Pass::New] }
}
