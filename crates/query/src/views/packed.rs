//! Packed events: many at once, of one stream or of several in the order in which they came.
//!
//! They have been verified ahead of time and lie in the words of each view that reads their stream,
//! one view's after the other's, so that they go to the engines as they lie. They are good for as
//! long as the streams' CHECKs and the views that read them stay the same ([`Packing`]).
//!
//! A run of them is taken at one moment: the views are locked once, then each engine takes the whole
//! run, since no view depends on another one here.

use std::ops::Range;
use std::sync::Arc;

use halcyon_base::clock;
use halcyon_store::ValueRef;
use halcyon_txn::derived::{Derived, Keepers};
use halcyon_view::ApplyError;
use halcyon_view::program::RelationId;

use super::cell::{State, ViewCell};
use super::running::apply_error;
use super::stream::{SAMPLED, StreamPlan};
use crate::bind::Binder;
use crate::error::{Result, SqlError, SqlState};
use crate::exec::Env;

/// What packed events do, at one catalog version.
pub struct PackedPlan {
    streams: Vec<StreamPlan>,
    /// The views that read any of the streams, by ascending id.
    views: Vec<Arc<ViewCell>>,
    packing: Arc<Packing>,
    events: u64,
}

/// What events are packed for; its address tells one from another.
#[derive(Debug)]
struct Packing {
    /// By stream: words of an event for all views.
    widths: Vec<usize>,
    /// By view and stream: where the event's words for the view are, if it reads the stream.
    routes: Vec<Vec<Option<Route>>>,
}

/// What a view gets of an event.
#[derive(Clone, Debug)]
struct Route {
    relation: RelationId,
    /// Among the event's words.
    words: Range<usize>,
}

/// Events that have been verified, in the words of their views.
#[derive(Clone, Debug)]
pub struct PackedEvents {
    packing: Arc<Packing>,
    /// Per event: stream and weight ([`header`]), then the words.
    words: Vec<u64>,
    /// Where each event begins.
    starts: Vec<usize>,
}

/// The first word of an event.
fn header(stream: usize, weight: i8) -> u64 {
    (stream as u64) << 8 | u64::from(weight as u8)
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

    /// Forgets them; their memory stays.
    pub fn clear(&mut self) {
        self.words.clear();
        self.starts.clear();
    }

    /// The events of a run as a view gets them.
    #[inline(always)]
    fn run(&self, view: usize, range: Range<usize>) -> Run<'_> {
        let end = self.starts.get(range.end).copied().unwrap_or(self.words.len());
        let words = match range.is_empty() {
            true => &[],
            false => &self.words[self.starts[range.start]..end],
        };
        Run { words, widths: &self.packing.widths, routes: &self.packing.routes[view] }
    }
}

/// Events as they lie.
#[derive(Clone)]
struct Run<'a> {
    words: &'a [u64],
    widths: &'a [usize],
    routes: &'a [Option<Route>],
}

impl<'a> Iterator for Run<'a> {
    /// Weight and row; `None` for an event that the view does not read.
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

/// What has become of packed events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packed {
    /// All have met the views.
    Taken,
    /// None has: a transaction owns a view.
    Owned,
}

/// How far a run has come that is to be taken back.
struct Reached {
    /// Views that have met all of it.
    views: usize,
    /// Events that the next view has met.
    events: usize,
}

impl PackedPlan {
    /// Binds streams by their names. Errors: those of [`StreamPlan::bind`].
    pub fn bind(binder: &Binder<'_>, names: &[Vec<String>]) -> Result<PackedPlan> {
        let bind = |name: &Vec<String>| StreamPlan::bind(binder, name);
        let streams = names.iter().map(bind).collect::<Result<Vec<_>>>()?;
        let mut direct: Vec<_> = streams.iter().flat_map(|plan| &plan.direct).collect();
        direct.sort_by_key(|direct| direct.view);
        direct.dedup_by_key(|direct| direct.view);
        let ids: Vec<_> = direct.iter().map(|direct| direct.view).collect();
        let views: Vec<_> = direct.into_iter().map(|direct| direct.cell.clone()).collect();
        let mut widths = vec![0; streams.len()];
        let mut routes = vec![vec![None; streams.len()]; views.len()];
        for (stream, plan) in streams.iter().enumerate() {
            for direct in &plan.direct {
                let view = ids.binary_search(&direct.view).expect("one of them");
                let input = &direct.cell.inputs()[direct.input];
                let words = widths[stream]..widths[stream] + input.words();
                widths[stream] = words.end;
                routes[view][stream] = Some(Route { relation: input.relation, words });
            }
        }
        let packing = Arc::new(Packing { widths, routes });
        Ok(PackedPlan { streams, views, packing, events: 0 })
    }

    /// Binds the streams again, at another catalog version. What was packed stays good if neither
    /// CHECKs nor views have changed. Errors: as those of [`PackedPlan::bind`].
    pub fn rebind(&mut self, binder: &Binder<'_>, names: &[Vec<String>]) -> Result<()> {
        let mut plan = Self::bind(binder, names)?;
        let same = |(old, new): (&StreamPlan, &StreamPlan)| old.means_the_same(new);
        if self.streams.iter().zip(&plan.streams).all(same) {
            plan.packing = self.packing.clone();
        }
        *self = plan;
        Ok(())
    }

    /// The catalog's version.
    pub fn version(&self) -> u64 {
        self.streams.first().map_or(0, |plan| plan.version)
    }

    /// The streams.
    pub fn streams(&self) -> &[StreamPlan] {
        &self.streams
    }

    /// A stream, for a single event.
    pub fn stream_mut(&mut self, stream: usize) -> &mut StreamPlan {
        &mut self.streams[stream]
    }

    /// No events, to be packed.
    pub fn packed(&self) -> PackedEvents {
        let packing = self.packing.clone();
        PackedEvents { packing, words: Vec::new(), starts: Vec::new() }
    }

    /// Errors: 0A000 where every event has to be a transaction; 55000 for events that were packed
    /// for other views or CHECKs.
    fn require_packable(&self, events: &PackedEvents) -> Result<()> {
        if !self.streams.iter().all(|plan| plan.lone) {
            return Err(SqlError::unsupported(
                "packed events of a stream whose views have guards, or views that read them",
            ));
        }
        if !Arc::ptr_eq(&events.packing, &self.packing) {
            let names = self.streams.iter().map(|plan| format!("\"{}\"", plan.stream().name));
            return Err(SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!(
                    "events of stream {} were packed for other views",
                    names.collect::<Vec<_>>().join(", ")
                ),
            )
            .hint("Pack them again."));
        }
        Ok(())
    }

    /// Adds an event of a stream to packed ones, with weight 1 or −1.
    ///
    /// Errors: those of [`StreamPlan::verify`], 0A000 and 55000 as said of packed events.
    pub fn pack(
        &self,
        stream: usize,
        row: &[ValueRef<'_>],
        weight: i8,
        env: &Env<'_>,
        events: &mut PackedEvents,
    ) -> Result<()> {
        self.require_packable(events)?;
        let plan = &self.streams[stream];
        plan.verify(row, env)?;
        let start = events.words.len();
        events.words.push(header(stream, weight));
        for direct in &plan.direct {
            let mut state = direct.cell.derived().lock();
            let projected = direct.project(row);
            let packed = state.running().pack(direct.input, &projected, &mut events.words);
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
    /// Errors: what an event can fail at, 0A000, 55000; no view has met any of them then. Panics if
    /// there are no such events.
    #[inline]
    pub fn take(&mut self, events: &PackedEvents, range: Range<usize>) -> Result<Packed> {
        assert!(range.end <= events.len(), "a run is of events that were packed");
        if !Arc::ptr_eq(&events.packing, &self.packing)
            || !self.streams.iter().all(|plan| plan.lone)
        {
            self.require_packable(events)?;
        }
        let before = self.events;
        self.events += range.len() as u64;
        let sampled = before / SAMPLED != self.events / SAMPLED;
        let all = self.views.iter().map(|cell| &**cell.derived());
        let Some(mut states) = Derived::lock_open(all) else { return Ok(Packed::Owned) };
        let began = sampled.then(clock::now);
        for (view, state) in states.iter_mut().enumerate() {
            let run = events.run(view, range.clone());
            if let Err((met, error)) = state.running().engine.apply_all(run) {
                let reached = Reached { views: view, events: met };
                self.take_back(events, range, reached, &mut states);
                return Err(apply_error(error));
            }
            self.views[view].derived().set_stale();
        }
        let Some(began) = began else { return Ok(Packed::Taken) };
        let each_ns = clock::now().since(began).as_nanos() as u64 / range.len().max(1) as u64;
        let accounted = self.views.iter().zip(&mut states).map(|(cell, state)| {
            let running = state.running();
            running.tally.note(each_ns, 1);
            cell.account(running.engine.memory_bytes(), running.engine.entry_count())
        });
        if let Some(error) = accounted.filter_map(Result::err).last() {
            let reached = Reached { views: self.views.len(), events: 0 };
            self.take_back(events, range, reached, &mut states);
            return Err(error);
        }
        Ok(Packed::Taken)
    }

    /// Takes what the views have met of a run back, the last event first.
    #[cold]
    fn take_back(
        &self,
        events: &PackedEvents,
        range: Range<usize>,
        reached: Reached,
        states: &mut Keepers<'_, State>,
    ) {
        for (view, state) in states.iter_mut().enumerate().take(reached.views + 1) {
            let met = if view < reached.views { range.len() } else { reached.events };
            for at in (range.start..range.start + met).rev() {
                let inverse = events
                    .run(view, at..at + 1)
                    .map(|event| event.map(|(relation, row, weight)| (relation, row, -weight)));
                let undone: std::result::Result<(), (usize, ApplyError)> =
                    state.running().engine.apply_all(inverse);
                undone.expect("sums that were there before fit");
            }
            self.views[view].derived().set_stale();
        }
    }
}

impl StreamPlan {
    /// Whether events packed for this plan are good for another one.
    fn means_the_same(&self, other: &StreamPlan) -> bool {
        let views = |plan: &Self| -> Vec<_> {
            plan.direct.iter().map(|one| (Arc::as_ptr(&one.cell), one.input)).collect()
        };
        let rules = |plan: &Self| -> (Vec<_>, Vec<_>) {
            let columns = plan.stream().columns.iter();
            let columns: Vec<_> = columns.map(|column| (column.ty, column.not_null)).collect();
            (columns, plan.checks.iter().map(|(check, _)| check.expr.clone()).collect())
        };
        views(self) == views(other) && rules(self) == rules(other)
    }
}
