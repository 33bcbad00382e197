//! What the steward does to statements and classes: it ticks the gate, moves statements to other classes, and slows
//! them down.

use std::collections::VecDeque;

use halcyon_plan::engine::DataFusion;
use halcyon_plan::executions::{Execution, Place};
use halcyon_task::{ClassId as TaskClass, Waits};
use halcyon_workload::gate::{EVENTS, Observation, Ready};
use halcyon_workload::{CLASSES, ClassId, Snapshot, Usage, band_number, quotas_of};
use parking_lot::Mutex;

use super::Workload;

/// A rule that has come to a statement.
#[derive(Clone)]
pub(crate) struct RuleEvent {
    pub at_ns: u64,
    pub session: u32,
    pub class: ClassId,
    pub told: String,
    pub usage: Usage,
}

/// The last rules that have come to statements.
#[derive(Default)]
pub(crate) struct RuleEvents(Mutex<VecDeque<RuleEvent>>);

/// What the tasks of each class had waited, at the last tick.
pub(crate) type AllWaited = Mutex<[Waits; CLASSES]>;

/// The mean of waits; `None` without any.
fn mean(waits: &Waits) -> Option<Ready> {
    let steps = waits.count();
    let sum_ns: u64 = waits.buckets().map(|(ns, count)| ns.saturating_mul(count)).sum();
    Some(Ready { wait_ns: sum_ns.checked_div(steps)?, steps })
}

impl RuleEvents {
    pub fn all(&self) -> Vec<RuleEvent> {
        self.0.lock().iter().cloned().collect()
    }
}

impl Workload {
    /// Ticks the gate. Whether the next tick should come soon: somebody waits, or a class has a target.
    pub fn tick(&self, df: &DataFusion, cpu_percent: f64, memory_percent: f64) -> bool {
        let snapshot = self.snapshot();
        let has_targets = snapshot.classes().any(|class| class.limits.has_target());
        let mut observation = Observation::new(cpu_percent, memory_percent);
        let waits = self.ask_gate(|gate, _| !gate.queue().is_empty());
        if has_targets || waits {
            self.observe_waits(df, &mut observation);
        }
        self.at_gate(|gate, now| gate.tick(now, &observation));
        if has_targets {
            self.keep_targets(df);
        }
        self.throttles.lock().retain(|(execution, _)| !execution.group.is_done());
        has_targets || waits
    }

    /// How long tasks of each class waited for a worker since the last look.
    fn observe_waits(&self, df: &DataFusion, observation: &mut Observation) {
        let Some(runtime) = df.started_runtime() else { return };
        let counters = runtime.counters();
        let mut before = self.waited.lock();
        for (number, (ready, before)) in
            (0..).zip(observation.ready.iter_mut().zip(before.iter_mut()))
        {
            let now = counters.class(TaskClass(number)).waits;
            *ready = mean(&now.since(before));
            *before = now;
        }
    }

    /// Notes that a rule has come to a statement.
    pub fn note_rule(&self, session: u32, class: ClassId, told: String, usage: &Usage) {
        let mut events = self.rule_events.0.lock();
        if events.len() == EVENTS {
            events.pop_front();
        }
        let at_ns = self.now_ns();
        events.push_back(RuleEvent { at_ns, session, class, told, usage: *usage });
    }

    /// Has the running statement of a session go on with the workers and the priority of another class.
    pub fn move_to(&self, df: &DataFusion, snapshot: &Snapshot, session: u32, class: ClassId) {
        let Some(runtime) = df.started_runtime() else { return };
        let quotas = df.quotas().under(&quotas_of(snapshot, class), runtime);
        let band = band_number(&snapshot.class(class).limits);
        for execution in of_session(df, session) {
            execution.group.under(&quotas);
            execution.go_on_at(|_| Place { class: class.0, band });
        }
    }

    /// Has the running statements of classes go on with the priorities that the classes have in `after`. Statements
    /// that hints or waits for their locks have given another priority keep that.
    pub fn follow_priorities(&self, df: &DataFusion, before: &Snapshot, after: &Snapshot) {
        for execution in df.executions().under_way() {
            execution.go_on_at(|place| {
                let band =
                    |snapshot: &Snapshot| band_number(&snapshot.class(ClassId(place.class)).limits);
                match place.band == band(before) {
                    true => Place { band: band(after), ..place },
                    false => place,
                }
            });
        }
    }

    /// Has the running statement of a session go on with a part of its workers, and with one at least. What its class
    /// allows still holds.
    pub fn throttle(
        &self,
        df: &DataFusion,
        snapshot: &Snapshot,
        session: u32,
        class: ClassId,
        percent: u8,
    ) {
        let Some(runtime) = df.started_runtime() else { return };
        let of_class = df.quotas().under(&quotas_of(snapshot, class), runtime);
        for execution in of_session(df, session) {
            let workers = execution.workers * usize::from(percent) / 100;
            let own = runtime.quota(workers.max(1));
            let quotas: Vec<_> = of_class.iter().chain([&own]).cloned().collect();
            execution.group.under(&quotas);
            self.throttles.lock().push((execution, own));
        }
    }
}

fn of_session(df: &DataFusion, session: u32) -> impl Iterator<Item = Execution> {
    let under_way = df.executions().under_way().into_iter();
    under_way.filter(move |execution| execution.session == session)
}
