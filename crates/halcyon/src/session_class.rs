//! What follows from the workload class of a session's statements: limits, the gate, and the place among the tasks of
//! all.

use std::sync::Arc;
use std::time::Duration;

use halcyon_catalog::session_vars::Placement;
use halcyon_prepare::plan::Plan;
use halcyon_workload::{
    ClassId, Context, Limits, Object, Resolution, Snapshot, band_number, is_gated, quotas_of,
};

/// The class of a session's statements, with what follows from it.
#[derive(Clone)]
pub(crate) struct SessionClass {
    /// The epoch of the workload for which it was found; 0: to be found again.
    pub epoch: u64,
    /// Version of the catalog for which it was found.
    pub catalog: u64,
    pub class: ClassId,
    pub limits: Arc<Limits>,
    pub resolution: Arc<Resolution>,
    /// Tables and views that mappings ask for, by object id.
    pub mapped: Arc<[(u32, Object)]>,
    /// The ones of them that the statement for which it was found names.
    pub objects: Vec<u32>,
    /// Whether statements pass the gate.
    pub is_gated: bool,
    /// Whether every statement is measured: there are classes of users.
    pub is_measured: bool,
    pub timeout: Option<Duration>,
    /// The most bytes of a statement.
    pub memory: Option<i64>,
    /// Number for the memory that the class's statements hold together.
    pub memory_class: Option<u8>,
    pub placement: Placement,
    /// The place of statements that are estimated to be long.
    pub long: Option<Placement>,
}

impl SessionClass {
    /// The class of a session of which nothing has been asked so far.
    pub fn unknown(snapshot: &Snapshot) -> Self {
        let class = ClassId::DEFAULT;
        let limits = Arc::new(snapshot.class(class).limits.clone());
        let resolution = snapshot.resolve(&Context::default());
        SessionClass { epoch: 0, ..SessionClass::of(snapshot, class, limits, resolution) }
    }

    pub fn of(
        snapshot: &Snapshot,
        class: ClassId,
        limits: Arc<Limits>,
        resolution: Resolution,
    ) -> Self {
        let is_gated = is_gated(snapshot, class, &limits);
        SessionClass {
            epoch: 0,
            catalog: 0,
            class,
            resolution: Arc::new(resolution),
            mapped: Arc::from([]),
            objects: Vec::new(),
            is_gated,
            is_measured: !snapshot.is_plain(),
            timeout: limits.statement_timeout,
            memory: limits.statement_memory.and_then(|bytes| i64::try_from(bytes).ok()),
            memory_class: (!snapshot.is_plain()).then_some(class.0),
            placement: placement(snapshot, class, &limits),
            long: limits.auto_class.filter(|long| *long != class).map(|long| {
                let limits = snapshot.restrict(class, long);
                placement(snapshot, long, &limits)
            }),
            limits,
        }
    }
}

/// The place of a statement of a class among the tasks of all.
fn placement(snapshot: &Snapshot, class: ClassId, limits: &Limits) -> Placement {
    Placement {
        class: class.0,
        band: band_number(limits),
        workers_max: limits.statement_threads.map(|threads| threads as usize),
        is_watched: !snapshot.class(class).rules.is_empty(),
        quotas: quotas_of(snapshot, class),
        cache: limits.cache,
    }
}

/// Whether a statement passes the gate of its class: it reads or writes rows, or changes the catalog.
pub(crate) fn passes_gate(plan: &Plan) -> bool {
    match plan {
        Plan::Point(_) | Plan::Analytical(_) | Plan::Write(_) | Plan::Ddl(_) | Plan::Copy(_) => {
            true
        }
        Plan::Explain { asked, .. } => asked.analyze,
        Plan::Utility(_) | Plan::Lines(_) | Plan::Subscribe { .. } | Plan::Empty => false,
    }
}
