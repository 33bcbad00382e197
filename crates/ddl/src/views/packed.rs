//! Packed events of streams: verified ahead of time ([`halcyon_views::PackedViews`] takes them).
//!
//! Packed events stay valid for as long as neither the streams' CHECKs nor the views over them change.

use std::ops::Range;

use halcyon_store::ValueRef;
use halcyon_views::{PackedEvents, PackedViews, Taken};

use super::stream::StreamPlan;
use halcyon_exec::view_errors::view_error;
use halcyon_plan::bind::Binder;
use halcyon_plan::env::Env;
use halcyon_sql::error::{Result, SqlError, SqlState};

/// The streams of packed events, bound at one catalog version.
pub struct PackedPlan {
    streams: Vec<StreamPlan>,
    views: PackedViews,
}

impl PackedPlan {
    /// Binds streams by their names. Errors: those of [`StreamPlan::bind`].
    pub fn bind(binder: &Binder<'_>, names: &[Vec<String>]) -> Result<PackedPlan> {
        let bind = |name: &Vec<String>| StreamPlan::bind(binder, name);
        let streams = names.iter().map(bind).collect::<Result<Vec<_>>>()?;
        let views = PackedViews::new(streams.iter().map(|plan| &plan.readers));
        Ok(PackedPlan { streams, views })
    }

    /// Binds the streams again, at another catalog version. What was packed stays good if neither
    /// CHECKs nor views have changed. Errors: as those of [`PackedPlan::bind`].
    pub fn rebind(&mut self, binder: &Binder<'_>, names: &[Vec<String>]) -> Result<()> {
        let mut plan = Self::bind(binder, names)?;
        let same = |(old, new): (&StreamPlan, &StreamPlan)| old.means_the_same(new);
        if self.streams.iter().zip(&plan.streams).all(same) {
            plan.views.continue_from(&self.views);
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
        self.views.packed()
    }

    /// Errors: 0A000 where every event has to be a transaction; 55000 for events that were packed
    /// for other views or CHECKs.
    fn require_packable(&self, events: &PackedEvents) -> Result<()> {
        if !self.streams.iter().all(|plan| plan.lone) {
            return Err(SqlError::unsupported(
                "packed events of a stream whose views have guards, or views that read them",
            ));
        }
        if !events.are_for(&self.views) {
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
        self.views.pack((stream, &plan.readers), row, weight, events).map_err(view_error)
    }

    /// Gives the engines a run of packed events, at one moment.
    ///
    /// Errors: what an event can fail at, 0A000, 55000; no view has met any of them then. Panics if
    /// there are no such events.
    #[inline]
    pub fn take(&mut self, events: &PackedEvents, range: Range<usize>) -> Result<Taken> {
        if !events.are_for(&self.views) || !self.streams.iter().all(|plan| plan.lone) {
            self.require_packable(events)?;
        }
        self.views.take(events, range).map_err(view_error)
    }
}
