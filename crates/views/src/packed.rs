//! Packed events: many at once, of one stream or of several in the order in which they came.
//!
//! Packed events have been verified ahead of time and lie in the words of each view that reads their
//! stream, one view's after the other's, so that they go to the engines as they lie. They stay good for
//! as long as the views that read the streams stay the same ([`PackedEvents::are_for`]).
//!
//! A run of them is taken at one moment: the views are locked once, then each engine takes the whole
//! run, since no view depends on another one here.

use std::ops::Range;
use std::sync::Arc;

use halcyon_base::clock;
use halcyon_store::ValueRef;
use halcyon_txn::view::LockedViews;
use halcyon_view::ApplyError;
use halcyon_view::program::RelationId;

use crate::error::ViewError;
use crate::state::ViewState;
use crate::stream::{SAMPLED, StreamViews};
use crate::view::MaintainedView;

/// The views that read several streams, for packed events.
pub struct PackedViews {
    /// The views that read any of the streams, by ascending id.
    views: Vec<Arc<MaintainedView>>,
    layout: Arc<EventLayout>,
    events: u64,
}

/// Where the words of an event lie that belong to each view. Its address tells one from another.
#[derive(Debug)]
struct EventLayout {
    /// By stream: words of an event for all views.
    widths: Vec<usize>,
    /// By view and stream: where the event's words for the view are, if it reads the stream.
    routes: Vec<Vec<Option<EventRoute>>>,
}

/// The part of an event that a view gets.
#[derive(Clone, Debug)]
struct EventRoute {
    relation: RelationId,
    /// Among the event's words.
    words: Range<usize>,
}

/// Events that have been verified, in the words of their views.
#[derive(Clone, Debug)]
pub struct PackedEvents {
    layout: Arc<EventLayout>,
    /// Per event: stream and weight ([`header`]), then the words.
    words: Vec<u64>,
    /// Where each event begins.
    starts: Vec<usize>,
}

/// The first word of an event.
fn header(stream: usize, weight: i8) -> u64 {
    (stream as u64) << 8 | u64::from(weight.cast_unsigned())
}

/// Stream and weight of an event.
#[inline(always)]
fn of_header(header: u64) -> (usize, i64) {
    ((header >> 8) as usize, i64::from(header as u8 as i8))
}

impl PackedEvents {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Forgets all events; their memory stays.
    pub fn clear(&mut self) {
        self.words.clear();
        self.starts.clear();
    }

    /// Whether they were packed for these views.
    #[inline]
    pub fn are_for(&self, views: &PackedViews) -> bool {
        Arc::ptr_eq(&self.layout, &views.layout)
    }

    /// The events of a run as a view gets them.
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

/// Events as they lie.
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

/// The result of taking packed events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// All have met the views.
    All,
    /// None has: a transaction owns a view.
    NoneWhileOwned,
}

/// How far a run has come that is to be taken back.
struct Reached {
    /// Views that have met all of it.
    views: usize,
    /// Events that the next view has met.
    events: usize,
}

impl PackedViews {
    /// The views that read `streams`; a stream is known by its position from now on.
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
        PackedViews { views, layout, events: 0 }
    }

    /// Lets events stay good that were packed for `other`, which must be the same views of the same
    /// streams.
    pub fn continue_from(&mut self, other: &PackedViews) {
        self.layout = Arc::clone(&other.layout);
    }

    /// No events, to be packed.
    pub fn packed(&self) -> PackedEvents {
        let layout = Arc::clone(&self.layout);
        PackedEvents { layout, words: Vec::new(), starts: Vec::new() }
    }

    /// Adds a verified event of `of`, the stream at position `stream`, to packed ones, with weight 1
    /// or −1.
    ///
    /// Errors: values that have no words; `events` is as it was then.
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

    /// Gives the engines a run of packed events, at one moment.
    ///
    /// Errors: what an event can fail at; no view has met any of them then. Panics: if there are no
    /// such events, or they were packed for other views.
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
                return Err(error.into());
            }
            self.views[view].cell().set_stale();
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

    /// Takes what the views have met of a run back, the last event first.
    #[cold]
    fn take_back(
        &self,
        events: &PackedEvents,
        range: Range<usize>,
        reached: Reached,
        states: &mut LockedViews<'_, ViewState>,
    ) {
        for (view, state) in states.iter_mut().enumerate().take(reached.views + 1) {
            let met = if view < reached.views { range.len() } else { reached.events };
            for at in (range.start..range.start + met).rev() {
                let inverse = events
                    .run(view, at..at + 1)
                    .map(|event| event.map(|(relation, row, weight)| (relation, row, -weight)));
                let undone: Result<(), (usize, ApplyError)> = state.engine.apply_all(inverse);
                undone.expect("sums that were there before fit");
            }
            self.views[view].cell().set_stale();
        }
    }
}
