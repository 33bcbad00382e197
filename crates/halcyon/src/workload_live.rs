//! Workload classes as the system views show them: what came to the gate, what runs, how long statements take.

use std::sync::atomic::Ordering;
use std::time::Duration;

use halcyon_base::{clock, memory};
use halcyon_pgcatalog::{
    AdmissionRow, ClassRow, ControllerRow, EffectiveRow, EventRow, LatencyRow, QueueRow,
};
use halcyon_task::ClassId as TaskClass;
use halcyon_workload::gate::EventKind;
use halcyon_workload::{ClassId, Key, Snapshot};

use crate::shared::Shared;

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A moment of the gate's clock, in microseconds since 1970.
fn wall_us(shared: &Shared, at_ns: u64) -> i64 {
    let ago_us = (i128::from(shared.workload.now_ns()) - i128::from(at_ns)) / 1000;
    clock::wall_us() - i64::try_from(ago_us).unwrap_or(0)
}

fn name_of(snapshot: &Snapshot, class: ClassId) -> String {
    snapshot.class(class).name.clone()
}

/// Limits that hold for each session.
pub(crate) fn effective(shared: &Shared) -> Vec<EffectiveRow> {
    let snapshot = shared.workload.snapshot();
    let sessions = shared.sessions.lock().clone();
    let mut rows = Vec::new();
    for entry in sessions.values() {
        let Some(shown) = entry.class() else { continue };
        let value = |key: Key| match (key, shown.limits.auto_class) {
            (Key::AutoClass, Some(class)) => Some(name_of(&snapshot, class)),
            (key, _) => shown.limits.text(key),
        };
        rows.extend(Key::ALL.into_iter().map(|key| EffectiveRow {
            session: entry.id,
            class: name_of(&snapshot, shown.class),
            mapping: shown.resolution.mapping.as_ref().map(ToString::to_string),
            reason: shown.resolution.why.to_string(),
            property: key.name().to_owned(),
            value: value(key),
            origin: shown.limits.origin(key).map(str::to_owned),
        }));
    }
    rows
}

/// What came to the gate, by class.
pub(crate) fn admission(shared: &Shared) -> Vec<AdmissionRow> {
    let snapshot = shared.workload.snapshot();
    let row = |class: &halcyon_workload::Class| {
        let own = shared.workload.ask_gate(|gate, _| gate.statistics(class.id));
        AdmissionRow {
            class: class.name.clone(),
            admitted: own.admitted,
            rejected: own.rejected,
            enqueued: own.enqueued,
            dequeued: own.dequeued,
            timeouts: own.timeouts + own.discarded,
            cancelled: own.cancelled,
            waiting: u64::from(own.queue_size),
            running: u64::from(own.running),
            waits_ns: [own.waits.last, own.waits.sum, own.waits.max, own.waits.min].map(ns),
        }
    };
    snapshot.classes().map(row).collect()
}

/// Statements that wait at the gate.
pub(crate) fn queue(shared: &Shared) -> Vec<QueueRow> {
    let snapshot = shared.workload.snapshot();
    let waiting = shared.workload.ask_gate(|gate, _| gate.queue());
    let row = |own: halcyon_workload::gate::Waiting| QueueRow {
        session: own.session,
        class: name_of(&snapshot, own.class),
        since_us: wall_us(shared, own.enqueued_ns),
        until_us: (own.timeout_ns < u64::MAX).then(|| wall_us(shared, own.timeout_ns)),
    };
    waiting.into_iter().map(row).collect()
}

/// Decisions of the gate and of rules, by time.
pub(crate) fn events(shared: &Shared) -> Vec<EventRow> {
    let snapshot = shared.workload.snapshot();
    let mut all: Vec<(u64, EventRow)> = Vec::new();
    let decisions = shared.workload.ask_gate(|gate, _| gate.events().cloned().collect::<Vec<_>>());
    for event in decisions {
        let (kind, reason) = match event.kind {
            EventKind::Enqueued => ("ENQUEUE", String::new()),
            EventKind::Dequeued => ("DEQUEUE", String::new()),
            EventKind::Rejected(reason) => ("REJECT", reason.to_string()),
            EventKind::Cancelled => ("CANCEL", String::new()),
            _ => ("CONTROLLER", format!("{:?}", event.kind)),
        };
        let row = EventRow {
            at_us: wall_us(shared, event.at_ns),
            kind: kind.to_owned(),
            reason,
            class: name_of(&snapshot, event.class),
            session: (event.session != 0).then_some(event.session),
            wait_ns: Some(ns(event.waited)),
        };
        all.push((event.at_ns, row));
    }
    for event in shared.workload.rule_events.all() {
        let row = EventRow {
            at_us: wall_us(shared, event.at_ns),
            kind: "RULE".to_owned(),
            reason: format!("{}, after {:.1} s", event.told, event.usage.elapsed.as_secs_f64()),
            class: name_of(&snapshot, event.class),
            session: Some(event.session),
            wait_ns: None,
        };
        all.push((event.at_ns, row));
    }
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, row)| row).collect()
}

/// What the statements of classes take.
pub(crate) fn classes(shared: &Shared) -> Vec<ClassRow> {
    let snapshot = shared.workload.snapshot();
    let counters = shared.datafusion.started_runtime().map(|runtime| runtime.counters());
    let row = |class: &halcyon_workload::Class| {
        let number = class.id.0;
        let counts = &shared.workload.counts[usize::from(number)];
        let tasks = counters.as_ref().map(|counters| counters.class(TaskClass(number)));
        ClassRow {
            class: class.name.clone(),
            running: u64::from(counts.running.load(Ordering::Relaxed)),
            statements: counts.statements.load(Ordering::Relaxed),
            errors: counts.errors.load(Ordering::Relaxed),
            busy_ns: tasks.as_ref().map_or(0, |tasks| tasks.busy_ns),
            ready_wait_ns: tasks.as_ref().map_or(0, |tasks| tasks.waits.quantile_ns(0.99)),
            memory: memory::class_bytes(number),
            threads: shared.datafusion.quotas().of(number).map(|workers| workers as u32),
        }
    };
    snapshot.classes().map(row).collect()
}

/// How long the statements of classes take.
pub(crate) fn latency(_shared: &Shared) -> Vec<LatencyRow> {
    Vec::new()
}

/// Classes with targets, as their controller sees them.
pub(crate) fn controllers(_shared: &Shared) -> Vec<ControllerRow> {
    Vec::new()
}
