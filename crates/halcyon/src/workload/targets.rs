//! Latency targets: the controller that takes workers from lower classes while a class misses its target, on its
//! clock and with its measurements (research: queue delay and quantiles; the rules are `halcyon_workload::target`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use halcyon_plan::engine::DataFusion;
use halcyon_task::{ClassId as TaskClass, Waits};
use halcyon_workload::target::{Action, Actuator, ClassObservation, Observation, Targets};
use halcyon_workload::{CLASSES, ClassId, Quantile, Snapshot};

use super::Workload;

/// Time between two steps, ns.
const STEP_NS: u64 = 1_000_000_000;

/// The controller, with what it saw at its last step.
pub(crate) struct TargetKeeper {
    pub targets: Targets,
    /// By class with a target: what was done last for it, and why.
    pub last: BTreeMap<ClassId, Action>,
    stepped_ns: u64,
    before: Box<[Before]>,
    /// Workers that capped classes may use; a fraction is a share of the time.
    caps: BTreeMap<ClassId, Cap>,
}

/// What was measured of a class at the last step.
#[derive(Clone, Default)]
struct Before {
    busy_ns: u64,
    waits: Waits,
}

/// A cap, and the share of a worker that is saved up.
struct Cap {
    workers: f64,
    saved: f64,
}

impl TargetKeeper {
    pub fn new(snapshot: Arc<Snapshot>) -> Self {
        TargetKeeper {
            targets: Targets::new(snapshot),
            last: BTreeMap::new(),
            stepped_ns: 0,
            before: vec![Before::default(); CLASSES].into(),
            caps: BTreeMap::new(),
        }
    }

    /// Carries out what concerns workers. Returns the limits of statements that the gate is to keep.
    #[must_use]
    fn carry_out(&mut self, df: &DataFusion, actions: Vec<Action>) -> Vec<(ClassId, Option<u32>)> {
        let mut restrained = Vec::new();
        for action in actions {
            match action.actuator {
                Actuator::Threads(workers) => {
                    self.caps.entry(action.class).or_insert(Cap { workers, saved: 0.0 }).workers =
                        workers;
                }
                Actuator::Free => {
                    self.caps.remove(&action.class);
                    df.quotas().hold(action.class.0, None);
                }
                Actuator::Concurrency(most) => restrained.push((action.class, most)),
                Actuator::Polluters(most) => df.crew().hold_polluters(most.map(|of| of as usize)),
            }
            tracing::debug!(
                class = action.class.0,
                reason = action.reason,
                "{:?}",
                action.actuator
            );
            self.last.insert(action.for_class, action);
        }
        restrained
    }

    /// Gives each capped class its workers until the next tick: of 1.3 workers one, and two in three of ten ticks.
    fn share_out(&mut self, df: &DataFusion) {
        for (class, cap) in &mut self.caps {
            let due = cap.workers + cap.saved;
            let now = due.floor().max(0.0);
            cap.saved = due - now;
            df.quotas().hold(class.0, Some(now as usize));
        }
    }
}

impl Workload {
    /// Has the controller keep the targets of other definitions.
    pub fn define_targets(&self, df: &DataFusion, snapshot: &Arc<Snapshot>) {
        let mut keeper = self.targets.lock();
        let actions = keeper.targets.reconfigure(Arc::clone(snapshot));
        let restrained = keeper.carry_out(df, actions);
        drop(keeper);
        self.restrain(restrained);
    }

    fn restrain(&self, classes: Vec<(ClassId, Option<u32>)>) {
        for (class, most) in classes {
            self.at_gate(|gate, now| gate.restrain(now, class, most));
        }
    }

    /// Makes a step if it is time for one.
    pub fn keep_targets(&self, df: &DataFusion) {
        let mut keeper = self.targets.lock();
        keeper.share_out(df);
        let now_ns = self.now_ns();
        let passed_ns = now_ns.saturating_sub(keeper.stepped_ns);
        if passed_ns < STEP_NS {
            return;
        }
        let observation = self.observe(&mut keeper, df, now_ns, passed_ns);
        keeper.stepped_ns = now_ns;
        let actions = keeper.targets.step(&observation);
        let restrained = keeper.carry_out(df, actions);
        drop(keeper);
        self.restrain(restrained);
    }

    fn observe(
        &self,
        keeper: &mut TargetKeeper,
        df: &DataFusion,
        now_ns: u64,
        passed_ns: u64,
    ) -> Observation {
        let snapshot = self.snapshot();
        let counters = df.started_runtime().map(|runtime| runtime.counters());
        let polluting = df.executions().polluting_classes();
        let mut observed = Vec::new();
        for class in snapshot.classes() {
            let number = usize::from(class.id.0);
            let tasks = counters.as_ref().map(|counters| counters.class(TaskClass(class.id.0)));
            let before = &mut keeper.before[number];
            let busy_ns = tasks.as_ref().map_or(0, |tasks| tasks.busy_ns);
            let slots = busy_ns.saturating_sub(before.busy_ns) as f64 / passed_ns.max(1) as f64;
            before.busy_ns = busy_ns;
            let waits = tasks.map(|tasks| tasks.waits).unwrap_or_default();
            let since = waits.since(&before.waits);
            before.waits = waits;
            let ready_wait_p99 =
                (since.count() > 0).then(|| Duration::from_nanos(since.quantile_ns(0.99)));
            let running = self.counts[number].running.load(Ordering::Relaxed);
            let latencies = self.latencies.of(class.id);
            let quantile = |of: Quantile| latencies.as_ref()?.quantile(now_ns, of.share());
            observed.push(ClassObservation {
                class: class.id,
                quantiles: Quantile::ALL.map(quantile),
                ready_wait_p99,
                running,
                slots,
                is_waiting: ready_wait_p99.is_some_and(|wait| wait > Duration::from_millis(1)),
                is_polluting: polluting.contains(&class.id.0),
            });
        }
        let polluting_workers = u32::try_from(df.crew().polluters().0).unwrap_or(u32::MAX);
        Observation { now_ns, classes: observed, polluting_workers }
    }
}
