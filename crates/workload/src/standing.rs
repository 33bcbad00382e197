//! What follows from the place of a class among the others: its band, its quotas, and whether it passes the gate.

use std::sync::Arc;

use crate::definition::Brake;
use crate::key::Key;
use crate::limits::{Band, ClassId, Limits, band};
use crate::snapshot::Snapshot;

/// Numbers of the classes whose quotas of workers hold for a class: its own, and those above.
pub fn quotas_of(snapshot: &Snapshot, class: ClassId) -> Arc<[u8]> {
    chain(snapshot, class).map(|class| class.0).collect()
}

/// A class and those above it.
fn chain(snapshot: &Snapshot, class: ClassId) -> impl Iterator<Item = ClassId> {
    std::iter::successors(Some(class), |class| snapshot.class(*class).parent)
}

/// Whether a class is one of the engine's own, or the administrator's.
pub fn is_of_engine(class: ClassId) -> bool {
    [ClassId::CRITICAL, ClassId::BACKGROUND, ClassId::ADMIN].contains(&class)
}

/// Whether statements of a class have to pass the gate.
pub fn is_gated(snapshot: &Snapshot, class: ClassId, limits: &Limits) -> bool {
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
            || snapshot.brake() != Brake::Off)
}

/// The number of the band of a priority, 0 for the urgent one.
pub fn band_number(limits: &Limits) -> u8 {
    match band(limits.priority) {
        Band::Urgent => 0,
        Band::High => 1,
        Band::Normal => 2,
        Band::Low => 3,
    }
}
