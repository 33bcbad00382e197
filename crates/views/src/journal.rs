//! The journal of a view: what its owning transaction has done to it, so that a rollback can take
//! that back: events by their inverses, places of rows by their previous values. The partition's
//! rows are not in the journal; the transaction undoes them like any other rows.
//!
//! Invariant, checked by `statements_leave_views_as_recomputation_does` in `tests/maintenance.rs`: the
//! journal above a mark, taken back latest first, gives the view's state at the mark, since every
//! event is exact in both directions.

use halcyon_base::ids::RowId;
use halcyon_view::program::RelationId;
use smallvec::SmallVec;

use crate::engine::ViewEngine;
use crate::feed::RowDelta;

/// The words of a group's key.
pub(crate) type GroupKey = SmallVec<[u64; 2]>;
/// The rows of the hidden partition that show one group: one row, or several where a view keeps
/// duplicates.
pub(crate) type RowPlaces = SmallVec<[RowId; 1]>;

/// A position in a view's journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JournalMark {
    events: usize,
    moved: usize,
    told: usize,
    /// Batches that a cell has been sent.
    sent: usize,
}

/// The journal of one view.
#[derive(Default)]
pub(crate) struct ViewJournal {
    events: Vec<(RelationId, i8)>,
    /// Rows of the events, one behind the other.
    words: Vec<u64>,
    /// The places of groups before they changed.
    pub moved: Vec<(GroupKey, RowPlaces)>,
    /// Changed rows, for subscribers.
    pub told: Vec<RowDelta>,
}

impl ViewJournal {
    /// A mark at the present end.
    pub(crate) fn mark(&self, engine: &ViewEngine) -> JournalMark {
        JournalMark {
            events: self.events.len(),
            moved: self.moved.len(),
            told: self.told.len(),
            sent: engine.mark(),
        }
    }

    /// Notes an event that the engine has applied.
    pub(crate) fn note_event(&mut self, relation: RelationId, row: &[u64], weight: i8) {
        self.events.push((relation, weight));
        self.words.extend_from_slice(row);
    }

    /// Takes the events above a mark back, latest first.
    pub(crate) fn undo_events(&mut self, mark: JournalMark, engine: &mut ViewEngine) {
        engine.take_back_to(mark.sent);
        while self.events.len() > mark.events {
            let (relation, weight) = self.events.pop().expect("counted above");
            let columns = &engine.program().relations[usize::from(relation.0)].columns;
            let width: usize = columns.iter().map(|ty| ty.words()).sum();
            let from = self.words.len() - width;
            let undone = engine.apply(relation, &self.words[from..], -i64::from(weight));
            undone.expect("sums that were there before fit");
            self.words.truncate(from);
        }
    }

    /// Removes the subscribers' rows above a mark, and returns the places noted above it, latest
    /// first.
    pub(crate) fn take_moved(
        &mut self,
        mark: JournalMark,
    ) -> impl Iterator<Item = (GroupKey, RowPlaces)> {
        self.told.truncate(mark.told);
        self.moved.drain(mark.moved..).rev()
    }

    /// Empties the journal and returns the changed rows for subscribers.
    pub(crate) fn forget(&mut self) -> Vec<RowDelta> {
        self.events.clear();
        self.words.clear();
        self.moved.clear();
        std::mem::take(&mut self.told)
    }
}
