//! Events of streams that arrive by a handle, without SQL.
//!
//! An event goes to the engines of the views that read the stream, and nowhere else: the next
//! reader brings the views' rows up to date ([`crate::settle_views`]). That is allowed while no
//! transaction owns any of these views, and where no one must see each single change: no judge of
//! rows, and no view over the view.
//!
//! A delete removes a whole tuple. A stream keeps nothing, so no one knows whether that tuple was
//! ever inserted. If not, a sum goes below zero, and the row counts as owed: the view does not show
//! it until it has been inserted (the ring of the calculus).

use std::sync::Arc;

use halcyon_base::clock;
use halcyon_base::ids::TableId;
use halcyon_store::ValueRef;
use halcyon_txn::view::LockedViews;

use crate::error::ViewError;
use crate::placed::wait_on;
use crate::state::{ViewInput, ViewState};
use crate::view::MaintainedView;

/// One of this many events is timed and followed by a check of the views' memory.
pub(crate) const SAMPLED: u64 = 64;

/// The views that read a stream.
pub struct StreamViews {
    /// The reading views by ascending id, once per input that is the stream.
    readers: Vec<StreamReader>,
    /// Whether one of the views runs in a cell, whose events have to be confirmed.
    has_cells: bool,
    events: u64,
}

/// A view as a reader of a stream.
pub(crate) struct StreamReader {
    pub view: Arc<MaintainedView>,
    /// The stream's position among the view's inputs.
    pub input: usize,
}

impl StreamReader {
    /// The input of the view that is the stream.
    #[inline]
    pub(crate) fn input(&self) -> &ViewInput {
        &self.view.inputs()[self.input]
    }
}

/// Waits until the cells of all views have worked off their events, and keeps these for good.
///
/// Errors: an event was rejected by a cell; all of them can still be taken back then.
pub(crate) fn confirm_all(states: &mut LockedViews<'_, ViewState>) -> Result<(), ViewError> {
    states.iter_mut().try_for_each(|state| state.engine.confirm(&wait_on))?;
    states.iter_mut().for_each(|state| state.engine.keep_sent());
    Ok(())
}

impl StreamViews {
    /// Finds those of `views`, which have ascending ids, that read `stream`.
    pub fn new(stream: TableId, views: &[Arc<MaintainedView>]) -> Self {
        let mut readers = Vec::new();
        for view in views {
            for (input, read) in view.inputs().iter().enumerate() {
                if read.table == stream {
                    readers.push(StreamReader { view: Arc::clone(view), input });
                }
            }
        }
        let has_cells = readers.iter().any(|reader| reader.view.is_in_cell());
        StreamViews { readers, has_cells, events: 0 }
    }

    /// Whether a view reads the stream more than once.
    pub fn repeat(&self) -> bool {
        self.readers.windows(2).any(|pair| pair[0].view.id() == pair[1].view.id())
    }

    pub(crate) fn readers(&self) -> &[StreamReader] {
        &self.readers
    }

    /// Whether the same views read both streams, through the same inputs.
    pub fn are_those_of(&self, other: &StreamViews) -> bool {
        let of = |views: &Self| -> Vec<_> {
            views.readers.iter().map(|one| (Arc::as_ptr(one.view.cell()), one.input)).collect()
        };
        of(self) == of(other)
    }

    /// Applies one event to the engines, with weight 1 or −1. Returns false, having done nothing,
    /// if a transaction owns one of the views: then the event must become a transaction of its own.
    ///
    /// Errors: those of an event; no view has applied it then.
    #[inline]
    pub fn event(&mut self, row: &[ValueRef<'_>], weight: i8) -> Result<bool, ViewError> {
        self.events += 1;
        let sampled = self.events.is_multiple_of(SAMPLED);
        let views = self.readers.iter().map(|reader| &*reader.view);
        let Some(mut states) = MaintainedView::lock_open(views) else { return Ok(false) };
        let mut met = 0;
        let mut done = Ok(());
        for (reader, state) in self.readers.iter().zip(&mut states) {
            let began = sampled.then(clock::now);
            done = state.event(reader.input, &reader.input().project(row), weight);
            if done.is_err() {
                break;
            }
            met += 1;
            reader.view.cell().set_stale();
            if let Some(began) = began
                && !state.engine.is_cell()
            {
                state.times.note(clock::now().0.saturating_sub(began.0), 1);
                done = reader.view.memory().account(&state.engine);
                if done.is_err() {
                    break;
                }
            }
        }
        if self.has_cells && done.is_ok() {
            let began = clock::now();
            done = confirm_all(&mut states);
            let ns = clock::now().0.saturating_sub(began.0);
            let cells = states.iter_mut().filter(|state| sampled && state.engine.is_cell());
            cells.for_each(|state| state.times.note(ns, 1));
        }
        if let Err(error) = done {
            self.take_back(row, weight, met, &mut states);
            return Err(error);
        }
        Ok(true)
    }

    /// Takes an event back from the first `met` readers, which have applied it.
    #[cold]
    fn take_back(
        &self,
        row: &[ValueRef<'_>],
        weight: i8,
        met: usize,
        states: &mut LockedViews<'_, ViewState>,
    ) {
        for (at, (reader, state)) in self.readers.iter().zip(states).enumerate() {
            if state.engine.is_cell() {
                // Of a failed event a part may be there that was not sent.
                state.take_back_sent();
            }
            if state.engine.is_cell() || at >= met {
                continue;
            }
            let undone = state.event(reader.input, &reader.input().project(row), -weight);
            undone.expect("sums that were there before fit");
        }
    }
}
