//! Tests of the controller of latency targets, step by step, and with random observations.

use halcyon_base::rng::Rng;

use super::*;
use crate::definition::Definitions;
use crate::limits::Machine;

const MACHINE: Machine = Machine { threads: 16, memory_bytes: 1 << 30 };

fn snapshot(classes: &[(&str, &[(&str, &str)])]) -> Arc<Snapshot> {
    let mut definitions = Definitions::default();
    for (name, settings) in classes {
        let settings: Vec<_> =
            settings.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        definitions.create_class(name, None, &settings).unwrap();
    }
    Arc::new(Snapshot::new(&definitions, &MACHINE, None).unwrap())
}

const WEB: (&str, &[(&str, &str)]) = ("WEB", &[("PRIORITY", "8"), ("LATENCY TARGET P99", "50ms")]);
const BATCH: (&str, &[(&str, &str)]) = ("BATCH", &[("PRIORITY", "2")]);

/// A controller and its time; a step a second.
struct Desk {
    targets: Targets,
    web: ClassId,
    batch: ClassId,
    /// Whether statements of WEB and of BATCH pollute the cache.
    polluting: [bool; 2],
    now_ns: u64,
}

impl Desk {
    fn new(classes: &[(&str, &[(&str, &str)])]) -> Desk {
        let snapshot = snapshot(classes);
        let id = |name: &str| snapshot.by_name(name).unwrap().id;
        let (web, batch) = (id("WEB"), id("BATCH"));
        Desk { web, batch, targets: Targets::new(snapshot), polluting: [false; 2], now_ns: 0 }
    }

    /// A second in which WEB's P99 over the last second is so many ms (`None`: no statement) and BATCH is on so many
    /// threads.
    fn step(&mut self, p99_ms: Option<u64>, slots: f64) -> Vec<Action> {
        self.now_ns += SECOND_NS;
        let measured = p99_ms.map(|ms| Measured {
            value: Duration::from_millis(ms),
            samples: 1_000,
            seconds: 1,
            is_enough: true,
        });
        let of = |class: ClassId, quantiles, running, slots: f64| ClassObservation {
            class,
            quantiles,
            ready_wait_p99: None,
            running,
            slots,
            is_waiting: slots > 0.0,
            is_polluting: false,
        };
        let web = of(self.web, [None, None, measured, None], u32::from(p99_ms.is_some()) * 40, 1.0);
        let mut classes = vec![web, of(self.batch, [None; 4], 20, slots)];
        classes[0].is_polluting = self.polluting[0];
        classes[1].is_polluting = self.polluting[1];
        let now_ns = self.now_ns;
        let actions = self.targets.step(&Observation { now_ns, classes, polluting_workers: 16 });
        self.targets.check();
        actions
    }

    fn slots(&self) -> f64 {
        self.targets.cap(self.batch).unwrap_or(16.0)
    }

    fn state(&self) -> State {
        self.targets.views()[0].state
    }
}

#[test]
fn a_missed_target_cuts_lower_classes_and_room_gives_back() {
    let mut desk = Desk::new(&[WEB, BATCH]);
    let actions = desk.step(Some(60), 15.0);
    assert_eq!(actions.len(), 1);
    assert_eq!((actions[0].class, actions[0].for_class), (desk.batch, desk.web));
    assert_eq!(actions[0].actuator, Actuator::Threads(12.0));
    assert_eq!(actions[0].actuator.threads(), Some(12));
    assert_eq!(actions[0].reason, "P99 of WEB is 60.0 ms, target 50.0 ms");
    assert_eq!((desk.state(), desk.targets.given_up_slots(desk.web)), (State::Steering, 3.0));
    for _ in 0..10 {
        desk.step(Some(45), 12.0);
    }
    // Within the target, and above 0.8 of it: nothing is done.
    assert_eq!((desk.state(), desk.slots()), (State::Kept, 12.0));
    let mut raised = 0;
    while desk.targets.cap(desk.batch).is_some() {
        raised += desk.step(Some(20), desk.slots()).len();
    }
    assert_eq!(raised, 8, "half a thread a second, and free at 16");
    assert_eq!(desk.targets.given_up_slots(desk.web), 0.0);
}

#[test]
fn the_cut_is_as_deep_as_the_target_is_missed_and_ends_at_the_floor() {
    let mut desk = Desk::new(&[WEB, ("BATCH", &[("PRIORITY", "2"), ("FLOOR", "10%")])]);
    assert_eq!(desk.step(Some(500), 16.0)[0].actuator, Actuator::Threads(8.0));
    for slots in [8.0, 4.0, 2.0] {
        desk.step(Some(400), slots);
    }
    assert_eq!(desk.slots(), 1.6);
}

#[test]
fn what_no_cut_helps_against_is_told_and_given_back() {
    let mut desk = Desk::new(&[WEB, BATCH]);
    let mut seconds = 0;
    while desk.state() != State::Unreachable {
        desk.step(Some(90), desk.slots());
        seconds += 1;
    }
    assert_eq!(seconds, 4, "three windows of a second after the first cut");
    assert_eq!(desk.targets.cap(desk.batch), None);
    let kinds: Vec<EventKind> = desk.targets.events().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::TargetUnreachable { is_restored: true }]);
    // Its own statements are reduced, down to one for each thread, and nothing of others is touched for a while.
    let mut own = Vec::new();
    for _ in 0..20 {
        own.extend(desk.step(Some(90), 16.0));
    }
    assert!(own.iter().all(|action| action.class == desk.web));
    assert_eq!(desk.targets.views()[0].concurrency, Some(16));
    for _ in 0..30 {
        desk.step(Some(20), 16.0);
    }
    assert_eq!((desk.state(), desk.targets.views()[0].concurrency), (State::Kept, None));
    assert_eq!(
        desk.targets.events().last().map(|event| event.kind),
        Some(EventKind::TargetReached)
    );
}

#[test]
fn a_cut_that_helps_without_being_enough_stays() {
    let mut desk = Desk::new(&[WEB, BATCH]);
    // From 200 ms down to 60 ms with fewer threads of BATCH, and no further.
    for _ in 0..60 {
        let ms = 60 + (140.0 * (desk.slots() / 16.0)) as u64;
        desk.step(Some(ms), desk.slots());
    }
    assert!(desk.slots() < 0.5, "{}", desk.slots());
    assert_eq!(desk.state(), State::Unreachable);
    let kinds: Vec<EventKind> = desk.targets.events().map(|event| event.kind).collect();
    assert_eq!(kinds[0], EventKind::TargetUnreachable { is_restored: false });
}

#[test]
fn a_target_that_an_idle_machine_hardly_keeps_is_not_steered_for() {
    let mut desk = Desk::new(&[WEB, BATCH]);
    for _ in 0..5 {
        desk.step(Some(42), 0.0);
    }
    assert_eq!(desk.state(), State::TooTight);
    let kind = desk.targets.events().next().map(|event| event.kind);
    let Some(EventKind::TargetTooTight { quantile: Quantile::P99, unloaded, target }) = kind else {
        panic!("{kind:?}");
    };
    assert_eq!((unloaded, target), (Duration::from_millis(42), Duration::from_millis(50)));
    assert_eq!(desk.targets.events().count(), 1);
    assert!(desk.step(Some(90), 16.0).is_empty());
}

#[test]
fn a_class_that_is_gone_quiet_lets_go_soon() {
    let mut desk = Desk::new(&[WEB, BATCH]);
    for _ in 0..3 {
        desk.step(Some(100), desk.slots());
    }
    assert!(desk.slots() <= 5.0);
    for _ in 0..3 {
        desk.step(None, desk.slots());
    }
    assert_eq!(desk.targets.cap(desk.batch), None);
}

#[test]
fn classes_of_no_lower_priority_are_left_alone() {
    let mut desk = Desk::new(&[WEB, ("BATCH", &[("PRIORITY", "8")])]);
    assert!(desk.step(Some(100), 16.0).is_empty());
    let view = &desk.targets.views()[0];
    assert_eq!(view.worst.map(|(quantile, ..)| quantile), Some(Quantile::P99));
}

#[test]
fn a_target_that_is_taken_away_takes_its_caps_along() {
    let mut desk = Desk::new(&[WEB, BATCH]);
    desk.step(Some(100), 16.0);
    assert!(desk.targets.reconfigure(snapshot(&[WEB, BATCH])).is_empty(), "nothing has changed");
    let raised =
        snapshot(&[WEB, ("BATCH", &[("PRIORITY", "2"), ("FLOOR", "50%"), ("QUEUE LIMIT", "7")])]);
    assert!(desk.targets.reconfigure(raised).is_empty(), "the cap is at half of the threads");
    let actions = desk.targets.reconfigure(snapshot(&[("WEB", &[("PRIORITY", "8")]), BATCH]));
    assert_eq!(actions.iter().map(|action| action.actuator).collect::<Vec<_>>(), [Actuator::Free]);
    desk.targets.check();
    assert!(desk.targets.views().is_empty());
}

fn actuators(actions: &[Action]) -> Vec<Actuator> {
    actions.iter().map(|action| action.actuator).collect()
}

#[test]
fn polluters_are_held_before_threads_are_cut_and_let_go_after_they_are_given_back() {
    let mut desk = Desk::new(&[WEB, BATCH]);
    desk.polluting = [false, true];
    let first = desk.step(Some(60), 15.0);
    assert_eq!(actuators(&first), [Actuator::Polluters(Some(4))]);
    assert_eq!(first[0].actuator.text("WEB"), "polluting statements have 4 workers of an island");
    assert_eq!(
        (first[0].class, first[0].reason.as_str()),
        (desk.web, "P99 of WEB is 60.0 ms, target 50.0 ms")
    );
    assert_eq!(actuators(&desk.step(Some(60), 15.0)), [Actuator::Polluters(Some(1))]);
    assert_eq!(desk.targets.views()[0].polluting_workers, Some(1));
    assert_eq!(actuators(&desk.step(Some(60), 15.0)), [Actuator::Threads(12.0)]);
    // Threads come back first, half a one a second, and then a worker of each island.
    let mut given = Vec::new();
    while desk.targets.views()[0].polluting_workers.is_some() {
        given.extend(actuators(&desk.step(Some(20), desk.slots())));
        assert!(given.len() < 60, "it comes to an end");
    }
    let free = given.iter().position(|actuator| *actuator == Actuator::Free).expect("all threads");
    let polluters: Vec<_> =
        given.iter().filter(|actuator| matches!(actuator, Actuator::Polluters(_))).collect();
    assert_eq!((given.len() - free - 1, polluters.len()), (15, 15), "{given:?}");
    assert_eq!(polluters.last(), Some(&&Actuator::Polluters(None)));
}

#[test]
fn polluters_that_are_the_classs_own_are_left_alone() {
    for polluting in [[true, true], [true, false], [false, false]] {
        let mut desk = Desk::new(&[WEB, BATCH]);
        desk.polluting = polluting;
        let first = desk.step(Some(60), 15.0);
        assert_eq!(actuators(&first), [Actuator::Threads(12.0)], "{polluting:?}");
    }
}

#[test]
fn threads_have_all_their_windows_after_polluters_did_not_help() {
    let mut desk = Desk::new(&[WEB, BATCH]);
    desk.polluting = [false, true];
    let mut seen = Vec::new();
    while desk.state() != State::Unreachable {
        seen.extend(actuators(&desk.step(Some(90), desk.slots())));
        assert!(seen.len() < 20, "{seen:?}");
    }
    let cuts = seen.iter().filter(|actuator| matches!(actuator, Actuator::Threads(_))).count();
    assert_eq!(cuts, 3, "as many as without polluters: {seen:?}");
    let last = &seen[seen.len() - 3..];
    let all = [Actuator::Polluters(None), Actuator::Free, Actuator::Concurrency(Some(32))];
    assert_eq!(last, all, "all is given back, and the class gives way itself: {seen:?}");
    assert_eq!(desk.targets.views()[0].polluting_workers, None);
}

#[test]
fn a_class_that_nothing_helps_is_told_so_although_only_polluters_can_be_held() {
    let mut desk = Desk::new(&[WEB, BATCH]);
    desk.polluting = [false, true];
    let mut seconds = 0;
    while desk.state() != State::Unreachable {
        desk.step(Some(90), 0.0);
        seconds += 1;
        assert!(seconds < 20, "{:?}", desk.targets.views());
    }
}

#[test]
fn a_target_that_is_taken_away_lets_polluters_go() {
    let mut desk = Desk::new(&[WEB, BATCH]);
    desk.polluting = [false, true];
    desk.step(Some(60), 15.0);
    let actions = desk.targets.reconfigure(snapshot(&[("WEB", &[("PRIORITY", "8")]), BATCH]));
    assert_eq!(actuators(&actions), [Actuator::Polluters(None)]);
    desk.targets.check();
}

/// Ten thousand traces of random observations: no cap below the floor or above the machine, and no panic.
#[test]
fn caps_stay_within_their_bounds_whatever_is_observed() {
    let mut rng = Rng::new(17);
    for _ in 0..10_000 {
        random_trace(&mut rng);
    }
}

fn random_trace(rng: &mut Rng) {
    let floor = rng.below(200).to_string();
    let targets = ["1ms", "50ms", "10s"][rng.below(3) as usize];
    let snapshot = snapshot(&[
        (
            "WEB",
            &[("PRIORITY", "8"), ("LATENCY TARGET P50", "1ms"), ("LATENCY TARGET P99", targets)],
        ),
        ("SHOP", &[("PRIORITY", "6"), ("LATENCY TARGET P95", targets)]),
        ("BATCH", &[("PRIORITY", "2"), ("FLOOR", &floor)]),
    ]);
    let mut controller = Targets::new(Arc::clone(&snapshot));
    let mut now_ns = rng.below(1 << 40);
    for _ in 0..30 {
        now_ns += rng.below(5 * SECOND_NS);
        let classes = snapshot.classes().map(|class| random_observation(rng, class.id)).collect();
        let polluting_workers = rng.next_u32() % 20;
        for action in controller.step(&Observation { now_ns, classes, polluting_workers }) {
            if let Actuator::Threads(slots) = action.actuator {
                assert!((SLOTS_MIN..=16.0).contains(&slots), "{action:?}");
            }
            if let Actuator::Polluters(Some(workers)) = action.actuator {
                assert!((1..=20).contains(&workers), "{action:?}");
            }
            assert!(!action.reason.is_empty());
        }
        controller.check();
    }
}

fn random_observation(rng: &mut Rng, class: ClassId) -> ClassObservation {
    let mut quantiles = [None; 4];
    for quantile in &mut quantiles {
        if rng.below(3) > 0 {
            let bits = rng.below(40);
            let value = Duration::from_nanos(rng.below(1 << bits));
            let [samples, seconds] = [rng.below(10_000), rng.below(61)];
            let is_enough = rng.below(2) > 0;
            *quantile = Some(Measured { value, samples, seconds: seconds as u32, is_enough });
        }
    }
    ClassObservation {
        class,
        quantiles,
        ready_wait_p99: (rng.below(2) > 0).then(|| Duration::from_micros(rng.below(10_000))),
        running: rng.next_u32() % 100,
        slots: [f64::NAN, -1.0, 0.0, 3.5, 16.0, f64::INFINITY][rng.below(6) as usize],
        is_waiting: rng.below(2) > 0,
        is_polluting: rng.below(2) > 0,
    }
}
