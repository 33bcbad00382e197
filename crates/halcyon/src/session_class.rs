//! What follows from the workload class of a session's statements: limits, the gate, and the place among the tasks of
//! all.

use std::sync::Arc;
use std::time::Duration;

use halcyon_catalog::session_vars::Placement;
use halcyon_prepare::plan::Plan;
use halcyon_workload::{Band, ClassId, Context, Key, Limits, Object, Resolution, Snapshot, band};

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

/// Numbers of the classes whose quotas of workers hold for a class: its own, and those above.
pub(crate) fn quotas_of(snapshot: &Snapshot, class: ClassId) -> Arc<[u8]> {
    chain(snapshot, class).map(|class| class.0).collect()
}

/// A class and those above it.
fn chain(snapshot: &Snapshot, class: ClassId) -> impl Iterator<Item = ClassId> {
    std::iter::successors(Some(class), |class| snapshot.class(*class).parent)
}

/// Whether a class is one of the engine's own, or the administrator's.
pub(crate) fn is_of_engine(class: ClassId) -> bool {
    [ClassId::CRITICAL, ClassId::BACKGROUND, ClassId::ADMIN].contains(&class)
}

/// Whether statements of a class have to pass the gate.
fn is_gated(snapshot: &Snapshot, class: ClassId, limits: &Limits) -> bool {
    let bounds = |limits: &Limits| {
        limits.concurrency.is_some()
            || limits.total_threads.is_some()
            || limits.has_target()
            || limits.reject_cpu.is_some()
            || limits.queue_cpu.is_some()
            // Every class has thresholds of memory, which alone make no class pass the gate.
            || limits.origin(Key::RejectMemoryThreshold).is_some()
            || limits.origin(Key::QueueMemoryThreshold).is_some()
    };
    !is_of_engine(class)
        && !snapshot.is_plain()
        && (bounds(limits)
            || chain(snapshot, class).any(|class| bounds(&snapshot.class(class).limits))
            || snapshot.brake() != halcyon_workload::Brake::Off)
}

/// The number of the band of a priority, 0 for the urgent one.
pub(crate) fn band_number(limits: &Limits) -> u8 {
    match band(limits.priority) {
        Band::Urgent => 0,
        Band::High => 1,
        Band::Normal => 2,
        Band::Low => 3,
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
