//! L2: classes of lower priority get fewer worker threads while a class misses its latency target.
//!
//! Priority alone keeps a class's statements from waiting for processors. What priority cannot prevent is that the
//! statements of others fill caches, memory bandwidth and locks: then only fewer of them at a time help, and how many is
//! found by trying, since no model of all causes exists.
//!
//! A step is made about once a second. A class that misses its target has the worker threads of lower classes cut by a
//! factor, once per window in which its quantile is measured, and once a second while its tasks also wait for workers,
//! which shows the trouble sooner than a quantile does. A class with room has half a thread given back per window.
//!
//! Guards, each of which a simulation has shown to be needed (research §6.4):
//! a target below 1.25 times of what the class has on an idle machine is not steered for, and told; no class falls below
//! its FLOOR; three windows without improvement give everything back, since the cause lies elsewhere, and reduce the
//! class's own statements instead; between 0.8 times the target and the target nothing is done; what is given up for a
//! class is counted in threads and shown.
//!
//! *Polluters first*: where statements of lower classes pollute the shared cache ([`ClassObservation::is_polluting`]), and none of
//! the class itself or of one above does, the first step of an attempt leaves polluting statements a quarter of an island's workers, the second one
//! worker, and only later ones cut threads. Caches are what priority cannot divide, and nobody else loses by that step: the workers that
//! polluters leave run all other statements of the same lower classes. Threads come next since fewer of them help against all other
//! causes (memory's bandwidth, locks), and they have as many windows to show that as without polluters. What was
//! given up last comes back first: threads, then polluters, a worker of each island per window. The number is one for the whole
//! machine, hence the condition that nobody above pollutes.
//!
//! Invariant, checked by [`Targets::check`]: every cap is for some class with a target, and within the floor of the
//! capped class and the machine's threads; polluters have a worker of each island.

mod polluters;
mod promise;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::latency::Measured;
use crate::limits::{CLASSES, ClassId, Quantile};
use crate::snapshot::{Class, Snapshot};
use polluters::Held;
use promise::{Promise, Verdict};

/// Shortest time between two steps for one class, ns: the fast signal's pace.
const SECOND_NS: u64 = 1_000_000_000;
/// Wait for workers from which a class's tasks show trouble before its quantile does.
const READY_WAIT_TARGET: Duration = Duration::from_millis(1);
/// Factors by which lower classes are cut: by how much the target is missed, within these.
const CUTS: (f64, f64) = (0.5, 0.8);
/// Threads that are given back at a time.
const RAISE: f64 = 0.5;
/// How many events are kept.
const EVENTS: usize = 1_000;
/// The smallest cap, threads: less is nothing.
const SLOTS_MIN: f64 = 0.01;
/// Share of all threads below which the other classes leave the machine idle.
const QUIET: f64 = 0.05;
/// Share of all threads up to which a class has hardly to wait for itself.
const LIGHT: f64 = 0.6;

/// What was measured of a class since the last step.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassObservation {
    /// The class.
    pub class: ClassId,
    /// Latency quantiles, in the order of [`Quantile::ALL`].
    pub quantiles: [Option<Measured>; 4],
    /// The 99th percentile of the waits of the class's tasks for a worker.
    pub ready_wait_p99: Option<Duration>,
    /// Statements that run.
    pub running: u32,
    /// Worker threads that the class's tasks were on, on average.
    pub slots: f64,
    /// Whether tasks of the class wait for a worker.
    pub is_waiting: bool,
    /// Whether statements of the class that pollute the shared cache are under way.
    pub is_polluting: bool,
}

/// What was measured since the last step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// The caller's time, ns.
    pub now_ns: u64,
    /// Classes of which something is known.
    pub classes: Vec<ClassObservation>,
    /// Workers of an island that polluting statements may use by the administrator's word; up to 1: there is nothing to take.
    pub polluting_workers: u32,
}

/// A change that the controller asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// The class that is changed.
    pub class: ClassId,
    /// What is changed.
    pub actuator: Actuator,
    /// The class for whose target.
    pub for_class: ClassId,
    /// The reason, in words.
    pub reason: String,
}

/// What the controller changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Actuator {
    /// Worker threads that the class's tasks may be on at a time; a fraction is a share of the time.
    Threads(f64),
    /// No cap on worker threads any more.
    Free,
    /// Statements of the class that may run at a time; `None` takes the limit away.
    Concurrency(Option<u32>),
    /// Workers of each island that polluting statements of all classes may use; `None`: as many as the administrator says.
    Polluters(Option<u32>),
}

impl Actuator {
    /// What was done to a class of this name, in words.
    pub fn text(self, class: &str) -> String {
        match self {
            Actuator::Threads(threads) => format!("\"{class}\" has {threads:.2} worker threads"),
            Actuator::Free => format!("\"{class}\" has all worker threads that its limits allow"),
            Actuator::Concurrency(Some(most)) => {
                format!("\"{class}\" runs {most} statements at a time")
            }
            Actuator::Concurrency(None) => {
                format!("\"{class}\" runs as many statements as its limits allow")
            }
            Actuator::Polluters(Some(workers)) => {
                format!("polluting statements have {workers} workers of an island")
            }
            Actuator::Polluters(None) => "polluting statements have their workers".to_owned(),
        }
    }

    /// Whole worker threads, at least 1, for a runtime that knows no fractions; `None` without a cap.
    pub fn threads(self) -> Option<u32> {
        match self {
            // A number of threads, far below 2^32.
            Actuator::Threads(slots) => Some(slots.round().max(1.0) as u32),
            Actuator::Free | Actuator::Concurrency(_) | Actuator::Polluters(_) => None,
        }
    }
}

/// Something that the controller noticed.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When, in the caller's time, ns.
    pub at_ns: u64,
    /// The class with the target.
    pub class: ClassId,
    /// What.
    pub kind: EventKind,
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EventKind {
    /// The target is below 1.25 times the quantile on an idle machine, and not steered for.
    TargetTooTight {
        /// The quantile.
        quantile: Quantile,
        /// The quantile on an idle machine.
        unloaded: Duration,
        /// The target.
        target: Duration,
    },
    /// Lower classes have been cut, and the target is missed all the same.
    TargetUnreachable {
        /// Whether lower classes have got everything back, because cutting them did not help at all.
        is_restored: bool,
    },
    /// The target is met again after it was unreachable.
    TargetReached,
}

/// Where a class with a target stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nothing has to be done.
    #[default]
    Kept,
    /// Lower classes are being cut.
    Steering,
    /// Cutting lower classes does not help.
    Unreachable,
    /// No quantile has a target that is steered for.
    TooTight,
}

/// A class with a target, for views.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The class.
    pub class: ClassId,
    /// Where the class stands.
    pub state: State,
    /// The quantile that is furthest from its target, its smoothed value, and the target.
    pub worst: Option<(Quantile, Duration, Duration)>,
    /// Worker threads that lower classes had before they were cut, and would use if they still had them.
    pub given_up_slots: f64,
    /// Quantiles on an idle machine, as far as they were seen.
    pub unloaded: [Option<Duration>; 4],
    /// The limit of the class's own statements while its target is unreachable.
    pub concurrency: Option<u32>,
    /// Workers of each island that polluting statements are held at for the class.
    pub polluting_workers: Option<u32>,
}

/// A cap on a class's worker threads.
#[derive(Clone, Copy, Debug)]
struct Cap {
    slots: f64,
    /// Threads that the class had before.
    before: f64,
    /// The classes for whose targets, a bit each.
    causes: u64,
    /// Whether the class would use more now.
    is_binding: bool,
}

/// The controller of latency targets.
#[derive(Debug)]
pub struct Targets {
    snapshot: Arc<Snapshot>,
    promises: BTreeMap<ClassId, Promise>,
    caps: BTreeMap<ClassId, Cap>,
    /// Polluting statements have fewer workers than the administrator says.
    held: Option<Held>,
    events: VecDeque<Event>,
}

impl Targets {
    /// A controller that has measured nothing yet.
    pub fn new(snapshot: Arc<Snapshot>) -> Self {
        let mut targets = Targets {
            promises: BTreeMap::new(),
            caps: BTreeMap::new(),
            held: None,
            events: VecDeque::new(),
            snapshot: Arc::clone(&snapshot),
        };
        targets.reconfigure(snapshot);
        targets
    }

    /// Puts other definitions in force. A class whose targets stay keeps what was learned; caps for a class that has no
    /// targets any more are taken away.
    pub fn reconfigure(&mut self, snapshot: Arc<Snapshot>) -> Vec<Action> {
        let same = |class: &Class| {
            let before = self.snapshot.find(class.id);
            before.is_some_and(|before| {
                before.name == class.name && before.limits.targets == class.limits.targets
            })
        };
        let mut promises = BTreeMap::new();
        for class in snapshot.classes().filter(|class| class.enabled && class.limits.has_target()) {
            let kept = if same(class) { self.promises.remove(&class.id) } else { None };
            promises.insert(class.id, kept.unwrap_or_else(|| Promise::new(&class.limits.targets)));
        }
        let mut actions = Vec::new();
        for (id, gone) in std::mem::replace(&mut self.promises, promises) {
            self.free(id, "the class has no such target any more", &mut actions);
            if gone.concurrency().is_some() {
                actions.push(action(id, Actuator::Concurrency(None), id, "the target has changed"));
            }
        }
        let before = std::mem::replace(&mut self.snapshot, snapshot);
        let stays = |id: &ClassId| {
            let name = |snapshot: &Snapshot| snapshot.find(*id).map(|class| class.name.clone());
            name(&self.snapshot).is_some() && name(&self.snapshot) == name(&before)
        };
        let gone: Vec<ClassId> = self.caps.keys().copied().filter(|id| !stays(id)).collect();
        for id in gone {
            self.caps.remove(&id);
            actions.push(action(id, Actuator::Free, id, "the class is gone"));
        }
        self.fit_floors(&mut actions);
        actions
    }

    /// Caps follow floors that were raised.
    fn fit_floors(&mut self, actions: &mut Vec<Action>) {
        let snapshot = Arc::clone(&self.snapshot);
        for (id, cap) in &mut self.caps {
            let floor = floor(&snapshot, *id);
            if cap.slots < floor {
                cap.slots = floor;
                actions.push(action(
                    *id,
                    Actuator::Threads(floor),
                    *id,
                    "the floor of the class was raised",
                ));
            }
        }
    }

    /// One step: what was measured in, what has to change out. Made about once a second.
    pub fn step(&mut self, observation: &Observation) -> Vec<Action> {
        let mut actions = Vec::new();
        for (class, cap) in &mut self.caps {
            let is_waiting =
                observation.classes.iter().any(|of| of.class == *class && of.is_waiting);
            cap.is_binding = is_waiting || slots_of(observation, *class) >= 0.9 * cap.slots;
        }
        let mut ids: Vec<ClassId> = self.promises.keys().copied().collect();
        ids.sort_by_key(|id| std::cmp::Reverse(self.snapshot.class(*id).limits.priority));
        for id in ids {
            let Some(mut promise) = self.promises.remove(&id) else { continue };
            self.step_class(id, &mut promise, observation, &mut actions);
            self.promises.insert(id, promise);
        }
        actions
    }

    fn step_class(
        &mut self,
        id: ClassId,
        promise: &mut Promise,
        observation: &Observation,
        actions: &mut Vec<Action>,
    ) {
        let now_ns = observation.now_ns;
        let own = observation.classes.iter().find(|of| of.class == id);
        let threads = f64::from(self.snapshot.machine().threads);
        let is_light = own.is_none_or(|own| clean(own.slots) <= LIGHT * threads);
        promise.learn(now_ns, own, self.is_quiet(id, observation), is_light);
        for kind in promise.news() {
            self.event(now_ns, id, kind);
        }
        let at_floor = self.lower(id).all(|class| {
            let used = slots_of(observation, class.id)
                .max(self.caps.get(&class.id).map_or(0.0, |cap| cap.slots));
            used <= floor(&self.snapshot, class.id) * 1.01
        });
        match promise.decide(now_ns, own, at_floor) {
            Verdict::Stay => {}
            Verdict::Cut(_) if self.hold_polluters(id, promise, observation, actions) => {}
            Verdict::Cut(ratio) => self.cut(id, promise, ratio, observation, actions),
            Verdict::Raise { is_idle } => {
                self.raise(id, is_idle, observation, actions);
                self.let_polluters(id, is_idle, observation, actions);
                self.relax(id, promise, actions);
            }
            Verdict::GiveUp { is_restored } => {
                self.event(now_ns, id, EventKind::TargetUnreachable { is_restored });
                if is_restored {
                    self.free(
                        id,
                        "cutting lower classes does not help: TARGET_UNREACHABLE",
                        actions,
                    );
                }
                let running = own.map_or(0, |own| own.running);
                self.shed(id, promise, running, actions);
            }
            Verdict::Shed => {
                let running = own.map_or(0, |own| own.running);
                self.shed(id, promise, running, actions);
            }
        }
    }

    /// Cuts the worker threads of lower classes.
    fn cut(
        &mut self,
        id: ClassId,
        promise: &Promise,
        ratio: f64,
        observation: &Observation,
        actions: &mut Vec<Action>,
    ) {
        let factor = (1.0 / ratio).clamp(CUTS.0, CUTS.1);
        let snapshot = Arc::clone(&self.snapshot);
        let threads = f64::from(snapshot.machine().threads.max(1));
        let reason = promise.reason(&snapshot.class(id).name);
        for class in lower(&snapshot, id) {
            let used = slots_of(observation, class.id).min(threads);
            if used < SLOTS_MIN && !self.caps.contains_key(&class.id) {
                continue;
            }
            let floor = floor(&snapshot, class.id);
            let before = used.max(floor);
            let cap = self.caps.entry(class.id).or_insert(Cap {
                slots: before,
                before,
                causes: 0,
                is_binding: true,
            });
            cap.causes |= bit(id);
            cap.before = cap.before.max(used);
            // Cutting what is not used would change nothing.
            let slots = (cap.slots.min(before) * factor).max(floor);
            if slots < cap.slots {
                cap.slots = slots;
                actions.push(Action {
                    class: class.id,
                    actuator: Actuator::Threads(slots),
                    for_class: id,
                    reason: reason.clone(),
                });
            }
        }
    }

    /// Gives worker threads back to lower classes that can use them.
    fn raise(
        &mut self,
        id: ClassId,
        is_idle: bool,
        observation: &Observation,
        actions: &mut Vec<Action>,
    ) {
        let threads = f64::from(self.snapshot.machine().threads.max(1));
        let (promises, reason) = (&self.promises, "there is room below the target");
        let mut freed = Vec::new();
        for (class, cap) in &mut self.caps {
            let others = cap.causes & !bit(id);
            let has_room = |other: &ClassId| promises.get(other).is_none_or(Promise::has_room);
            if cap.causes & bit(id) == 0 || !bits(others).all(|other| has_room(&other)) {
                continue;
            }
            // What uses a part of its cap needs no more; what uses nothing gets its cap back for the next time.
            let is_content = !cap.is_binding && slots_of(observation, *class) >= SLOTS_MIN;
            if !is_idle && is_content {
                continue;
            }
            cap.slots = if is_idle { cap.slots * 2.0 + RAISE } else { cap.slots + RAISE };
            if cap.slots >= threads {
                freed.push(*class);
            } else {
                actions.push(action(*class, Actuator::Threads(cap.slots), id, reason));
            }
        }
        for class in freed {
            self.caps.remove(&class);
            actions.push(action(class, Actuator::Free, id, reason));
        }
    }

    /// Fewer statements of the class itself.
    fn shed(&self, id: ClassId, promise: &mut Promise, running: u32, actions: &mut Vec<Action>) {
        let threads = self.snapshot.machine().threads.max(1);
        if let Some(limit) = promise.shed(running, threads) {
            let reason = promise.reason(&self.snapshot.class(id).name);
            actions.push(action(id, Actuator::Concurrency(Some(limit)), id, &reason));
        }
    }

    /// More statements of the class itself, until it has as many as before.
    fn relax(&self, id: ClassId, promise: &mut Promise, actions: &mut Vec<Action>) {
        if let Some(limit) = promise.relax() {
            actions.push(action(
                id,
                Actuator::Concurrency(limit),
                id,
                "there is room below the target",
            ));
        }
    }

    /// Takes away what was capped for a class, where no other class needs the cap.
    fn free(&mut self, id: ClassId, reason: &str, actions: &mut Vec<Action>) {
        self.free_polluters(id, reason, actions);
        self.caps.retain(|class, cap| {
            cap.causes &= !bit(id);
            if cap.causes == 0 {
                actions.push(action(*class, Actuator::Free, id, reason));
            }
            cap.causes != 0
        });
    }

    fn event(&mut self, at_ns: u64, class: ClassId, kind: EventKind) {
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(Event { at_ns, class, kind });
    }

    /// Whether the machine is the class's alone, and not because others are capped.
    fn is_quiet(&self, id: ClassId, observation: &Observation) -> bool {
        let others = observation.classes.iter().filter(|of| of.class != id);
        let slots: f64 = others.map(|of| clean(of.slots)).sum();
        let is_capped = self.caps.values().any(|cap| cap.causes & bit(id) != 0)
            || self.held.is_some_and(|held| held.causes & bit(id) != 0);
        !is_capped && slots <= QUIET * f64::from(self.snapshot.machine().threads)
    }

    fn lower(&self, id: ClassId) -> impl Iterator<Item = &Class> {
        lower(&self.snapshot, id)
    }

    /// Worker threads that lower classes had before they were cut for a class, and would use if they still had them.
    pub fn given_up_slots(&self, class: ClassId) -> f64 {
        let caps = self.caps.values().filter(|cap| cap.is_binding && cap.causes & bit(class) != 0);
        caps.map(|cap| (cap.before - cap.slots).max(0.0)).fold(0.0, |sum, slots| sum + slots)
    }

    /// The cap on a class's worker threads, if there is one.
    pub fn cap(&self, class: ClassId) -> Option<f64> {
        self.caps.get(&class).map(|cap| cap.slots)
    }

    /// All classes with targets.
    pub fn views(&self) -> Vec<View> {
        let view = |(class, promise): (&ClassId, &Promise)| View {
            class: *class,
            state: promise.state(),
            worst: promise.worst(),
            given_up_slots: self.given_up_slots(*class),
            unloaded: promise.unloaded(),
            concurrency: promise.concurrency(),
            polluting_workers: self.polluters_held_for(*class),
        };
        self.promises.iter().map(view).collect()
    }

    /// The last 1,000 events, the oldest first.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }

    /// Panics unless the invariant holds. For tests; O(classes).
    pub fn check(&self) {
        let threads = f64::from(self.snapshot.machine().threads.max(1));
        for (class, cap) in &self.caps {
            assert!(
                cap.causes != 0 && bits(cap.causes).all(|cause| self.promises.contains_key(&cause))
            );
            assert!(cap.slots >= floor(&self.snapshot, *class) && cap.slots <= threads, "{cap:?}");
        }
        if let Some(held) = &self.held {
            let mut causes = bits(held.causes);
            assert!(held.workers > 0 && held.causes != 0, "{held:?}");
            assert!(causes.all(|cause| self.promises.contains_key(&cause)), "{held:?}");
        }
    }
}

fn action(class: ClassId, actuator: Actuator, for_class: ClassId, reason: &str) -> Action {
    Action { class, actuator, for_class, reason: reason.to_owned() }
}

/// Classes that may be cut for a class: of lower priority, and neither the log's nor the administrator's.
fn lower(snapshot: &Snapshot, id: ClassId) -> impl Iterator<Item = &Class> {
    let priority = snapshot.class(id).limits.priority;
    let spared = [ClassId::CRITICAL, ClassId::ADMIN];
    snapshot
        .classes()
        .filter(move |class| class.limits.priority < priority && !spared.contains(&class.id))
}

/// Threads that a class keeps.
fn floor(snapshot: &Snapshot, class: ClassId) -> f64 {
    let threads = f64::from(snapshot.machine().threads.max(1));
    (threads * f64::from(snapshot.class(class).limits.floor_per_mille) / 1_000.0).max(SLOTS_MIN)
}

fn slots_of(observation: &Observation, class: ClassId) -> f64 {
    let of = observation.classes.iter().find(|of| of.class == class);
    of.map_or(0.0, |of| clean(of.slots))
}

fn clean(slots: f64) -> f64 {
    if slots.is_finite() { slots.max(0.0) } else { 0.0 }
}

fn bit(class: ClassId) -> u64 {
    1 << (usize::from(class.0) % CLASSES)
}

fn bits(set: u64) -> impl Iterator<Item = ClassId> {
    (0_u8..64).filter(move |id| set & (1 << id) != 0).map(ClassId)
}

#[cfg(test)]
mod tests;
