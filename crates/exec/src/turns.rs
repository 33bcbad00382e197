//! Turns of statements that compute on their callers' threads: writes and lookups that last. Beside the workers they
//! would have the processors as the operating system shares them out; as guests of the workers ([`halcyon_task::Guest`])
//! they have them as their workload class does, under its limits, and lend and are lent bands as analytical statements.

use std::sync::Arc;

use halcyon_base::{clock, duty};
use halcyon_catalog::session_vars::Placement;
use halcyon_plan::engine::DataFusion;
use halcyon_plan::env::Env;
use halcyon_plan::executions::{Execution, Place};
use halcyon_task::{CacheUse, Group, Guest, Locality};
use parking_lot::Mutex;

/// Rows of a write that is estimated to take 100 ms of processor time, and goes to the class of long statements.
const LONG_ROWS: usize = 100_000;

/// The turns of one statement, which begin when it has lasted.
#[derive(Debug, Default)]
pub enum Turns {
    /// The statement was short so far.
    #[default]
    Short,
    /// The thread takes turns.
    Guest(Guest),
    /// There are no workers to take turns with.
    Alone,
}

impl Turns {
    /// Says that the statement has lasted, and is to write or to visit so many rows in all.
    #[inline]
    pub(crate) fn lasts(&mut self, env: &Env<'_>, rows: usize) {
        duty::lasts();
        if matches!(self, Turns::Short) {
            *self = guest(env, rows).map_or(Turns::Alone, Turns::Guest);
        }
    }

    /// Whether the statement should pause.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        matches!(self, Turns::Guest(guest) if guest.is_due())
    }

    /// Waits for the statement's next turn, or until it is cancelled. The caller holds nothing that others wait for
    /// but locks of tables.
    #[cold]
    pub(crate) fn pause(&mut self, env: &Env<'_>) {
        duty::lasts();
        if let Turns::Guest(guest) = self {
            guest.pause(|| env.cancel.is_cancelled());
        }
    }

    /// Gives the processor back: the statement waits for its data.
    pub(crate) fn rest(&mut self) {
        if let Turns::Guest(guest) = self {
            guest.rest();
        }
    }
}

/// The calling thread as a guest of the workers; `None` if none were started, or they are simulated.
fn guest(env: &Env<'_>, rows: usize) -> Option<Guest> {
    let df = env.workers?;
    let runtime = df.started_runtime().filter(|_| !df.workers().own_threads)?;
    let is_long = rows >= LONG_ROWS;
    let session = env.session;
    let long = session.long_placement.as_ref().filter(|_| is_long);
    let placement = long.unwrap_or(&session.placement);
    let place = Place { class: placement.class, band: placement.band };
    let mut group = runtime.group();
    let is_limited = limit(&mut group, df, placement);
    let guest = group.guest(place.annotation(), Locality::Spread, !is_limited).ok()??;
    df.executions().note(Execution {
        session: session.session_id,
        began_us: clock::wall_us(),
        workers: 1,
        cache: CacheUse::Adaptive,
        group: guest.group().clone(),
        place: Arc::new(Mutex::new(place)),
    });
    Some(guest)
}

/// Puts the group of a statement under the quotas of its classes; whether there are any.
pub(crate) fn limit(group: &mut Group, df: &DataFusion, placement: &Placement) -> bool {
    let quotas = df.quotas().under(&placement.quotas, df.runtime());
    quotas.iter().for_each(|quota| group.under(quota));
    !quotas.is_empty()
}
