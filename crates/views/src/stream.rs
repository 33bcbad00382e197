//! Events of streams that come by a handle, without SQL.
//!
//! An event goes to the engines of the views that read the stream, and to nothing else: rows are
//! brought up to date by the next reader ([`crate::settle_views`]). That is allowed while no
//! transaction owns any of these views, and where nobody has to see each change as it comes: a judge
//! of rows, or a view over the view.
//!
//! A delete is the deletion of a whole tuple. Nobody knows whether the tuple was ever inserted, since a
//! stream keeps nothing: a sum goes below zero then, and a row that is owed is not shown until it
//! has come (the ring of the calculus).

use std::sync::Arc;

use halcyon_base::clock;
use halcyon_base::ids::TableId;
use halcyon_store::ValueRef;
use halcyon_txn::view::LockedViews;

use crate::error::ViewError;
use crate::state::{ViewInput, ViewState};
use crate::view::MaintainedView;

/// Of so many events one is timed, and the memory of the views is looked at.
pub(crate) const SAMPLED: u64 = 64;

/// The views that read a stream.
pub struct StreamViews {
    /// By ascending id.
    readers: Vec<StreamReader>,
    events: u64,
}

/// A view as a reader of a stream.
pub(crate) struct StreamReader {
    pub view: Arc<MaintainedView>,
    /// The stream's position among the view's inputs.
    pub input: usize,
}

impl StreamReader {
    /// The input that the stream is.
    #[inline]
    pub(crate) fn input(&self) -> &ViewInput {
        &self.view.inputs()[self.input]
    }
}

impl StreamViews {
    /// The views among `views`, which come by ascending id, that read `stream`.
    pub fn new(stream: TableId, views: &[Arc<MaintainedView>]) -> Self {
        let mut readers = Vec::new();
        for view in views {
            for (input, read) in view.inputs().iter().enumerate() {
                if read.table == stream {
                    readers.push(StreamReader { view: Arc::clone(view), input });
                }
            }
        }
        StreamViews { readers, events: 0 }
    }

    /// Whether a view reads the stream more than once.
    pub fn repeat(&self) -> bool {
        self.readers.windows(2).any(|pair| pair[0].view.id() == pair[1].view.id())
    }

    pub(crate) fn readers(&self) -> &[StreamReader] {
        &self.readers
    }

    /// Whether the same views read both streams, by the same of their inputs.
    pub fn are_those_of(&self, other: &StreamViews) -> bool {
        let of = |views: &Self| -> Vec<_> {
            views.readers.iter().map(|one| (Arc::as_ptr(&one.view), one.input)).collect()
        };
        of(self) == of(other)
    }

    /// Gives the engines one event, with weight 1 or −1. False if a transaction owns a view: the
    /// event has to be a transaction of its own.
    ///
    /// Errors: what an event can fail at; no view has met it then.
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
            if let Some(began) = began {
                state.times.note(clock::now().0.saturating_sub(began.0), 1);
                done = reader.view.memory().account(&state.engine);
                if done.is_err() {
                    break;
                }
            }
        }
        if let Err(error) = done {
            self.take_back(row, weight, met, &mut states);
            return Err(error);
        }
        Ok(true)
    }

    /// Takes an event back that the first `met` readers have met.
    #[cold]
    fn take_back(
        &self,
        row: &[ValueRef<'_>],
        weight: i8,
        met: usize,
        states: &mut LockedViews<'_, ViewState>,
    ) {
        for (reader, state) in self.readers.iter().zip(states).take(met) {
            let undone = state.event(reader.input, &reader.input().project(row), -weight);
            undone.expect("sums that were there before fit");
        }
    }
}
