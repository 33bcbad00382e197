//! Packed events: many events at once, of one stream or of several, in the order in which they
//! came.
//!
//! Packed events have been verified ahead of time. Each is stored as words of the views that read
//! its stream, one view's words behind the other's, so that the engines take them as they are. They
//! stay valid as long as the same views read the streams ([`PackedEvents::are_for`]).
//!
//! A run of packed events is applied at one moment: all views are locked once, then each engine
//! takes the whole run, since none of these views depends on another one.

use std::ops::Range;
use std::sync::Arc;

use halcyon_base::clock;
use halcyon_cell::Script;
use halcyon_store::ValueRef;
use halcyon_txn::view::LockedViews;
use halcyon_view::program::RelationId;

use crate::engine::Texts;
use crate::error::ViewError;
use crate::state::ViewState;
use crate::stream::{SAMPLED, StreamViews, confirm_all};
use crate::view::MaintainedView;

/// The views that read several streams, for packed events.
pub struct PackedViews {
    /// The views that read any of the streams, by ascending id.
    views: Vec<Arc<MaintainedView>>,
    layout: Arc<EventLayout>,
    /// Whether one of the views runs in a cell.
    has_cells: bool,
    events: u64,
}

/// The layout of events: where the words of each view lie within an event. Layouts are told apart
/// by address.
#[derive(Debug)]
struct EventLayout {
    /// Words of an event of each stream, for all views together.
    widths: Vec<usize>,
    /// For each view and stream, the view's part of the event; `None` if the view does not read the
    /// stream.
    routes: Vec<Vec<Option<EventRoute>>>,
}

/// The part of an event that a view gets.
#[derive(Clone, Debug)]
struct EventRoute {
    relation: RelationId,
    /// Range of the part within the event's words.
    words: Range<usize>,
}

/// Verified events, in the words of their views.
#[derive(Clone, Debug)]
pub struct PackedEvents {
    layout: Arc<EventLayout>,
    /// For each event: stream and weight ([`header`]), then the words.
    words: Vec<u64>,
    /// The index at which each event begins.
    starts: Vec<usize>,
}

/// The first word of an event: its stream and weight.
fn header(stream: usize, weight: i8) -> u64 {
    (stream as u64) << 8 | u64::from(weight.cast_unsigned())
}

/// The stream and weight of an event, from its first word.
#[inline(always)]
fn of_header(header: u64) -> (usize, i64) {
    ((header >> 8) as usize, i64::from(header as u8 as i8))
}

impl PackedEvents {
    /// Number of events.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Removes all events; their memory stays.
    pub fn clear(&mut self) {
        self.words.clear();
        self.starts.clear();
    }

    /// Whether the events were packed for these views.
    #[inline]
    pub fn are_for(&self, views: &PackedViews) -> bool {
        Arc::ptr_eq(&self.layout, &views.layout)
    }

    /// A run of events, in the words of one view.
    #[inline(always)]
    fn run(&self, view: usize, range: Range<usize>) -> EventRun<'_> {
        let end = self.starts.get(range.end).copied().unwrap_or(self.words.len());
        let words = match range.is_empty() {
            true => &[],
            false => &self.words[self.starts[range.start]..end],
        };
        EventRun { words, widths: &self.layout.widths, routes: &self.layout.routes[view] }
    }
}

impl MaintainedView {
    /// The view's program with events that were packed for this view alone: what a cell needs to take them as the view
    /// does. `None`: other views read the streams too, or the view runs in a cell itself.
    pub fn script(&self, events: &PackedEvents) -> Option<Script> {
        if events.layout.routes.len() != 1 {
            return None;
        }
        let state = self.lock();
        let Texts::Process(dictionary) = state.engine.texts() else { return None };
        let strings = (0..dictionary.len()).map(|at| dictionary.text(at as i64).to_owned());
        let mut script = Script::new(state.engine.program().clone(), strings.collect());
        for (relation, row, weight) in events.run(0, 0..events.len()).flatten() {
            script.push(relation, row, weight);
        }
        Some(script)
    }
}

/// An iterator over a run of events in the words of one view.
#[derive(Clone)]
struct EventRun<'a> {
    words: &'a [u64],
    widths: &'a [usize],
    routes: &'a [Option<EventRoute>],
}

impl<'a> Iterator for EventRun<'a> {
    /// Relation, row and weight; `None` for an event that the view does not read.
    type Item = Option<(RelationId, &'a [u64], i64)>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let (&header, rest) = self.words.split_first()?;
        let (stream, weight) = of_header(header);
        let (event, rest) = rest.split_at(self.widths[stream]);
        self.words = rest;
        let route = self.routes[stream].as_ref();
        Some(route.map(|route| (route.relation, &event[route.words.clone()], weight)))
    }
}

/// The outcome of applying packed events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// All views have applied all events.
    All,
    /// No view has applied any, because a transaction owns one of the views.
    NoneWhileOwned,
}

/// How far a failed run has come.
struct Reached {
    /// Number of views that have applied the whole run.
    views: usize,
    /// Number of events that the next view has applied.
    events: usize,
}

impl PackedViews {
    /// The views that read `streams`; streams are identified by their position here.
    pub fn new<'s>(streams: impl Iterator<Item = &'s StreamViews> + Clone) -> PackedViews {
        let readers = streams.clone().flat_map(StreamViews::readers);
        let mut views: Vec<_> = readers.map(|reader| Arc::clone(&reader.view)).collect();
        views.sort_by_key(|view| view.id());
        views.dedup_by_key(|view| view.id());
        let stream_count = streams.clone().count();
        let mut widths = vec![0; stream_count];
        let mut routes = vec![vec![None; stream_count]; views.len()];
        for (stream, of) in streams.enumerate() {
            for reader in of.readers() {
                let view = views.binary_search_by_key(&reader.view.id(), |view| view.id());
                let words = widths[stream]..widths[stream] + reader.input().words();
                widths[stream] = words.end;
                let route = EventRoute { relation: reader.input().relation, words };
                routes[view.expect("one of them")][stream] = Some(route);
            }
        }
        let layout = Arc::new(EventLayout { widths, routes });
        let has_cells = views.iter().any(|view| view.is_in_cell());
        PackedViews { views, layout, has_cells, events: 0 }
    }

    /// Keeps events valid that were packed for `other`, which must have the same views of the same
    /// streams.
    pub fn continue_from(&mut self, other: &PackedViews) {
        self.layout = Arc::clone(&other.layout);
    }

    /// An empty list of events, to pack events into.
    pub fn packed(&self) -> PackedEvents {
        let layout = Arc::clone(&self.layout);
        PackedEvents { layout, words: Vec::new(), starts: Vec::new() }
    }

    /// Appends a verified event of `of`, the stream at position `stream`, with weight 1 or −1.
    ///
    /// Errors: a value has no words; `events` is unchanged then.
    pub fn pack(
        &self,
        (stream, of): (usize, &StreamViews),
        row: &[ValueRef<'_>],
        weight: i8,
        events: &mut PackedEvents,
    ) -> Result<(), ViewError> {
        let start = events.words.len();
        events.words.push(header(stream, weight));
        for reader in of.readers() {
            let projected = reader.input().project(row);
            let mut state = reader.view.lock();
            let packed = state.pack(reader.input, &projected, &mut events.words);
            if let Err(error) = packed {
                events.words.truncate(start);
                return Err(error);
            }
        }
        events.starts.push(start);
        Ok(())
    }

    /// Applies a run of packed events to the engines, at one moment.
    ///
    /// Errors: those of an event; no view has applied any event of the run then. Panics: if
    /// `events` does not have the range, or was packed for other views.
    #[inline]
    pub fn take(&mut self, events: &PackedEvents, range: Range<usize>) -> Result<Taken, ViewError> {
        assert!(range.end <= events.len(), "a run is of events that were packed");
        assert!(events.are_for(self), "events go to the views that they were packed for");
        let before = self.events;
        self.events += range.len() as u64;
        let sampled = before / SAMPLED != self.events / SAMPLED;
        let views = self.views.iter().map(|view| &**view);
        let Some(mut states) = MaintainedView::lock_open(views) else {
            return Ok(Taken::NoneWhileOwned);
        };
        let began = sampled.then(clock::now);
        for (view, state) in states.iter_mut().enumerate() {
            let run = events.run(view, range.clone());
            if let Err((met, error)) = state.engine.apply_all(run) {
                self.take_back(events, range, Reached { views: view, events: met }, &mut states);
                return Err(error);
            }
            self.views[view].cell().set_stale();
        }
        if self.has_cells
            && let Err(error) = confirm_all(&mut states)
        {
            let reached = Reached { views: self.views.len(), events: 0 };
            self.take_back(events, range, reached, &mut states);
            return Err(error);
        }
        let Some(began) = began else { return Ok(Taken::All) };
        let each_ns = clock::now().0.saturating_sub(began.0) / range.len().max(1) as u64;
        let accounted = self.views.iter().zip(&mut states).map(|(view, state)| {
            state.times.note(each_ns, 1);
            view.memory().account(&state.engine)
        });
        if let Some(error) = accounted.filter_map(Result::err).last() {
            let reached = Reached { views: self.views.len(), events: 0 };
            self.take_back(events, range, reached, &mut states);
            return Err(error);
        }
        Ok(Taken::All)
    }

    /// Takes back the part of a run that the views have applied, last event first.
    #[cold]
    fn take_back(
        &self,
        events: &PackedEvents,
        range: Range<usize>,
        reached: Reached,
        states: &mut LockedViews<'_, ViewState>,
    ) {
        for (view, state) in states.iter_mut().enumerate().take(reached.views + 1) {
            if state.engine.is_cell() {
                state.take_back_sent();
                continue;
            }
            let met = if view < reached.views { range.len() } else { reached.events };
            for at in (range.start..range.start + met).rev() {
                let inverse = events
                    .run(view, at..at + 1)
                    .map(|event| event.map(|(relation, row, weight)| (relation, row, -weight)));
                let undone: Result<(), (usize, ViewError)> = state.engine.apply_all(inverse);
                undone.expect("sums that were there before fit");
            }
            self.views[view].cell().set_stale();
        }
    }
}
