//! Steps of a sort: how much is done before a task may leave its worker.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use datafusion::common::Result;
use halcyon_sql::diagnose::external;
use halcyon_sql::error::SqlError;
use halcyon_task::proceed;

/// The most units of one step. A unit is one comparison of two keys, or one value that is encoded or copied: one to
/// fifteen nanoseconds each.
pub(crate) const UNITS: usize = 1 << 18;

/// Counts the units of steps; clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    longest: AtomicUsize,
    all: AtomicUsize,
}

impl Steps {
    /// Ends a step of so many units. Errors: 57014.
    pub(crate) async fn end(&self, units: usize) -> Result<()> {
        self.0.longest.fetch_max(units, Relaxed);
        self.0.all.fetch_add(units, Relaxed);
        SqlError::unless_interrupted().map_err(external)?;
        proceed().await;
        Ok(())
    }

    /// Units of the longest step so far.
    #[cfg(test)]
    pub(crate) fn longest(&self) -> usize {
        self.0.longest.load(Relaxed)
    }

    /// Units of all steps so far.
    #[cfg(test)]
    pub(crate) fn all(&self) -> usize {
        self.0.all.load(Relaxed)
    }
}

/// Comparisons that each of several things takes when they are put in order.
pub(crate) fn comparisons(things: usize) -> usize {
    usize::try_from(things.max(2).next_power_of_two().ilog2()).unwrap_or(usize::MAX)
}
