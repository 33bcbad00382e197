//! Workload classes as the system views show them: what came to the gate, what runs, how long statements take.

use std::sync::atomic::Ordering;
use std::time::Duration;

use halcyon_base::{clock, memory};
use halcyon_pgcatalog::{
    AdmissionRow, ClassRow, ControllerRow, EffectiveRow, EventRow, LatencyRow, QueueRow,
};
use halcyon_task::ClassId as TaskClass;
use halcyon_workload::gate::EventKind;
use halcyon_workload::target::{State, View};
use halcyon_workload::{Class, ClassId, Key, Quantile, Snapshot};

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
        rows.extend(Key::ALL.into_iter().map(|key| EffectiveRow {
            session: entry.id,
            class: name_of(&snapshot, shown.class),
            mapping: shown.resolution.mapping.as_ref().map(ToString::to_string),
            reason: shown.resolution.why.to_string(),
            property: key.name().to_owned(),
            value: snapshot.text(&shown.limits, key),
            origin: shown.limits.origin(key).map(str::to_owned),
        }));
    }
    rows
}

/// What came to the gate, by class.
pub(crate) fn admission(shared: &Shared) -> Vec<AdmissionRow> {
    let snapshot = shared.workload.snapshot();
    let row = |class: &Class| {
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
    let row = |class: &Class| {
        let number = class.id.0;
        let counts = &shared.workload.counts[usize::from(number)];
        let tasks = counters.as_ref().map(|counters| counters.class(TaskClass(number)));
        // A statement belongs to its class from its beginning, which comes before the gate.
        let waiting = shared.workload.ask_gate(|gate, _| gate.statistics(class.id).queue_size);
        let running = counts.running.load(Ordering::Relaxed).saturating_sub(waiting);
        ClassRow {
            class: class.name.clone(),
            running: u64::from(running),
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
pub(crate) fn latency(shared: &Shared) -> Vec<LatencyRow> {
    let (snapshot, now) = (shared.workload.snapshot(), shared.workload.now_ns());
    let row = |class: &Class| {
        let windows = shared.workload.latencies.of(class.id)?;
        let measured = Quantile::ALL.map(|of| windows.quantile(now, of.share()));
        let longest = measured.iter().flatten().max_by_key(|measured| measured.seconds)?;
        let targets = Quantile::ALL.into_iter().zip(class.limits.targets);
        let target = targets.filter_map(|(of, target)| Some((of, target?))).next_back();
        Some(LatencyRow {
            class: class.name.clone(),
            count: longest.samples,
            window_s: longest.seconds,
            quantiles_ns: measured
                .map(|measured| measured.map_or(0, |measured| ns(measured.value))),
            target: target.map(|(of, target)| format!("{} {target:?}", of.name())),
            attainment: target
                .and_then(|(_, target)| Some(100.0 * windows.attainment(now, target)?)),
        })
    };
    snapshot.classes().filter_map(row).collect()
}

/// The latencies of a workload class since the database was opened. Of look-ups one in 16 is measured, unless the
/// class limits their number or has a target; in a database without classes of users, of writes too.
#[derive(Clone, Debug)]
pub struct ClassLatency {
    /// Name of the class.
    pub class: String,
    /// Upper ends of buckets, each with the number of statements that took no longer. The numbers only grow.
    pub below: Vec<(Duration, u64)>,
    /// Statements that were measured.
    pub count: u64,
    /// Time of all of them together, in seconds.
    pub sum_s: f64,
}

/// How long statements took since the database was opened, by workload class.
pub(crate) fn latencies_of_all_time(shared: &Shared) -> Vec<ClassLatency> {
    let of = |class: &Class| {
        let windows = shared.workload.latencies.of(class.id)?;
        let totals = windows.totals();
        let end = |(ns, count)| (Duration::from_nanos(ns), count);
        Some(ClassLatency {
            class: class.name.clone(),
            below: totals.below().map(end).collect(),
            count: totals.count(),
            sum_s: totals.sum_s(),
        })
    };
    shared.workload.snapshot().classes().filter_map(of).collect()
}

/// Classes with targets, as their controller sees them.
pub(crate) fn controllers(shared: &Shared) -> Vec<ControllerRow> {
    let (snapshot, keeper) = (shared.workload.snapshot(), shared.workload.targets.lock());
    let row = |view: View| {
        let limits = &snapshot.class(view.class).limits;
        let given = Quantile::ALL.into_iter().zip(limits.targets);
        let strictest = given.filter_map(|(of, target)| Some((of, target?))).next_back()?;
        let (of, measured, target) = match view.worst {
            Some((of, measured, target)) => (of, Some(measured), target),
            None => (strictest.0, None, strictest.1),
        };
        let last = keeper.last.get(&view.class);
        Some(ControllerRow {
            class: name_of(&snapshot, view.class),
            quantile: of.name(),
            target_ns: ns(target),
            measured_ns: measured.map(ns),
            state: match view.state {
                State::Kept => "KEPT",
                State::Steering => "STEERING",
                State::Unreachable => "TARGET_UNREACHABLE",
                State::TooTight => "TARGET_TOO_TIGHT",
            },
            action: last.map(|last| last.actuator.text(&name_of(&snapshot, last.class))),
            reason: last.map(|last| last.reason.clone()),
            given_up: view.given_up_slots,
        })
    };
    keeper.targets.views().into_iter().filter_map(row).collect()
}
