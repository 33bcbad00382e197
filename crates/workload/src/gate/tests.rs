//! Tests of the gate, statement by statement, and with random ones.

use halcyon_base::rng::Rng;

use super::*;
use crate::definition::{ClassChange, Definitions};
use crate::limits::Machine;

const MACHINE: Machine = Machine { threads: 4, memory_bytes: 1 << 30 };
const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

/// A class's name, parent and settings.
type Case<'a> = (&'a str, Option<&'a str>, &'a [(&'a str, &'a str)]);

fn definitions(classes: &[Case<'_>]) -> Definitions {
    let mut definitions = Definitions::default();
    for (name, parent, settings) in classes {
        let settings: Vec<_> =
            settings.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        definitions.create_class(name, *parent, &settings).unwrap();
    }
    definitions
}

/// A gate and time, with requests by the class's name.
struct Door {
    gate: Gate,
    now: u64,
}

impl Door {
    fn new(classes: &[Case<'_>]) -> Door {
        let snapshot = Snapshot::new(&definitions(classes), &MACHINE, None).unwrap();
        Door { gate: Gate::new(Arc::new(snapshot)), now: 0 }
    }

    fn id(&self, name: &str) -> ClassId {
        self.gate.snapshot().by_name(name).unwrap().id
    }

    fn request(&self, name: &str, threads_wanted: u32) -> Request {
        let class = self.id(name);
        Request {
            class,
            threads_wanted,
            session: 7,
            limits: None,
            text_hash: 0,
            holds_locks: false,
        }
    }

    fn arrive(&mut self, name: &str, threads: u32) -> Arrival {
        let request = self.request(name, threads);
        self.ask(request)
    }

    fn ask(&mut self, request: Request) -> Arrival {
        let arrival = self.gate.arrive(self.now, request);
        self.gate.check();
        arrival
    }

    fn admitted(&mut self, name: &str, threads: u32) -> Grant {
        match self.arrive(name, threads) {
            Arrival::Admitted(grant) => grant,
            other => panic!("{other:?}"),
        }
    }

    fn queued(&mut self, name: &str, threads: u32) -> Ticket {
        match self.arrive(name, threads) {
            Arrival::Queued(ticket) => ticket,
            other => panic!("{other:?}"),
        }
    }

    fn leave(&mut self, grant: Grant) -> Vec<Woken> {
        let woken = self.gate.leave(self.now, grant);
        self.gate.check();
        woken
    }

    fn tick(&mut self, now: u64, cpu: f64, memory: f64) -> Vec<Woken> {
        self.now = now;
        let woken = self.gate.tick(now, &Observation::new(cpu, memory));
        self.gate.check();
        woken
    }

    fn reconfigure(&mut self, definitions: &Definitions) -> Vec<Woken> {
        let snapshot = Snapshot::new(definitions, &MACHINE, Some(self.gate.snapshot())).unwrap();
        let woken = self.gate.reconfigure(self.now, Arc::new(snapshot));
        self.gate.check();
        woken
    }
}

fn reason(arrival: &Arrival) -> Option<Reason> {
    match arrival {
        Arrival::Rejected(rejection) => Some(rejection.reason),
        _ => None,
    }
}

fn tickets(woken: &[Woken]) -> Vec<Ticket> {
    woken.iter().filter(|woken| woken.result.is_ok()).map(|woken| woken.ticket).collect()
}

fn reasons(woken: &[Woken]) -> Vec<Reason> {
    woken
        .iter()
        .filter_map(|woken| woken.result.as_ref().err())
        .map(|rejection| rejection.reason)
        .collect()
}

#[test]
fn threads_are_granted_within_the_limits_of_statement_class_and_parent() {
    let mut door = Door::new(&[
        ("ALL", None, &[("TOTAL STATEMENT THREAD LIMIT", "8")]),
        (
            "A",
            Some("ALL"),
            &[("TOTAL STATEMENT THREAD LIMIT", "5"), ("STATEMENT THREAD LIMIT", "3")],
        ),
        ("B", Some("ALL"), &[]),
    ]);
    let first = door.admitted("A", 16);
    let second = door.admitted("A", 16);
    assert_eq!((first.threads, second.threads), (3, 2));
    let third = door.queued("A", 1);
    let wide = door.admitted("B", 16);
    assert_eq!(wide.threads, 3);
    let last = door.queued("B", 16);
    let all = door.id("ALL");
    assert_eq!(door.gate.statistics(all).total_threads, 8);
    let woken = door.leave(wide);
    assert_eq!(tickets(&woken), [last]);
    assert_eq!(woken[0].result.as_ref().map(|grant| grant.threads), Ok(3));
    let woken = door.leave(first);
    assert_eq!(tickets(&woken), [third]);
    let a = door.id("A");
    let statistics = door.gate.statistics(a);
    assert_eq!((statistics.running, statistics.threads, statistics.queue_size), (2, 3, 0));
    assert_eq!((statistics.admitted, statistics.enqueued, statistics.dequeued), (3, 1, 1));
    let _ = (second, woken);
}

#[test]
fn a_full_queue_rejects_and_says_when_to_come_back() {
    let mut door = Door::new(&[("A", None, &[("CONCURRENCY LIMIT", "1"), ("QUEUE LIMIT", "1")])]);
    let grant = door.admitted("A", 1);
    let ticket = door.queued("A", 1);
    let Arrival::Rejected(rejection) = door.arrive("A", 1) else { panic!("the queue is full") };
    assert_eq!((rejection.reason, rejection.reason.sqlstate()), (Reason::QueueFull, "53W01"));
    assert_eq!((rejection.value, rejection.limit), (1, 1));
    assert!(rejection.retry_after >= Duration::from_millis(10));
    assert_eq!(
        rejection.to_string(),
        "workload class \"A\": the class's queue is full; statements in the queue: 1, limit: 1"
    );
    assert_eq!(tickets(&door.leave(grant)), [ticket]);
}

#[test]
fn no_statement_waits_past_its_timeout() {
    let mut door = Door::new(&[("A", None, &[("CONCURRENCY LIMIT", "1"), ("QUEUE TIMEOUT", "2")])]);
    let grant = door.admitted("A", 1);
    let ticket = door.queued("A", 1);
    assert_eq!(door.gate.next_deadline(), Some(10 * MS));
    assert!(door.tick(2 * S - 1, 0.0, 0.0).is_empty());
    let woken = door.tick(2 * S, 0.0, 0.0);
    assert_eq!((woken[0].ticket, reasons(&woken)), (ticket, vec![Reason::QueueTimeout]));
    let Err(rejection) = &woken[0].result else { panic!("the wait is over") };
    assert_eq!(
        (rejection.value, rejection.limit, rejection.reason.sqlstate()),
        (2_000, 2_000, "53W02")
    );
    let a = door.id("A");
    assert_eq!(door.gate.statistics(a).timeouts, 1);
    assert!(door.leave(grant).is_empty());
    assert_eq!(door.gate.next_deadline(), None);
}

#[test]
fn statements_that_hold_locks_go_ahead_and_are_never_rejected() {
    let limits =
        [("TOTAL STATEMENT THREAD LIMIT", "1"), ("QUEUE LIMIT", "1"), ("CONCURRENCY LIMIT", "1")];
    let mut door = Door::new(&[("A", None, &limits)]);
    let grant = door.admitted("A", 1);
    let plain = door.queued("A", 1);
    let locked = Request { holds_locks: true, ..door.request("A", 4) };
    let Arrival::Queued(first) = door.ask(locked.clone()) else { panic!("no thread is left") };
    let Arrival::Queued(second) = door.ask(locked.clone()) else { panic!("no thread is left") };
    door.tick(S, 100.0, 100.0);
    let woken = door.leave(grant);
    assert_eq!(tickets(&woken), [first]);
    let woken = door.leave(woken.into_iter().next().unwrap().result.unwrap());
    assert_eq!(tickets(&woken), [second]);
    door.reconfigure(&Definitions { brake: Brake::Full, ..definitions(&[("A", None, &limits)]) });
    assert!(matches!(door.ask(locked), Arrival::Queued(_)));
    assert!(door.gate.cancel(door.now, plain).is_none(), "the brake has ended the wait");
}

#[test]
fn the_fence_queues_and_rejects_by_averages_and_opens_in_batches() {
    let settings = [
        ("ADMISSION CONTROL QUEUE CPU THRESHOLD", "90"),
        ("ADMISSION CONTROL REJECT CPU THRESHOLD", "99"),
    ];
    let mut door = Door::new(&[("A", None, &settings)]);
    door.tick(0, 95.0, 0.0);
    for _ in 0..120 {
        door.queued("A", 1);
    }
    for second in 1..=5 {
        door.tick(second * S, 100.0, 0.0);
    }
    let rejected = door.arrive("A", 1);
    assert_eq!(reason(&rejected), Some(Reason::CpuThreshold));
    let Arrival::Admitted(grant) = door.arrive("_ADMIN", 2) else { panic!("the lane is free") };
    assert_eq!(grant.threads, 2);
    // The average falls to 30 at once.
    let counts: Vec<usize> =
        (6..10).map(|second| tickets(&door.tick(second * S, 0.0, 0.0)).len()).collect();
    assert_eq!(counts, [50, 50, 20, 0]);
    drop(door.admitted("A", 1));
}

#[test]
fn the_brake_holds_back_low_priorities_or_everything() {
    let classes: [Case<'_>; 2] = [("LOW", None, &[("PRIORITY", "2")]), ("HIGH", None, &[])];
    let mut door = Door::new(&classes);
    door.reconfigure(&Definitions { brake: Brake::Light, ..definitions(&classes) });
    let waits = door.queued("LOW", 1);
    drop(door.admitted("HIGH", 1));
    let woken = door.reconfigure(&Definitions { brake: Brake::Full, ..definitions(&classes) });
    assert_eq!((woken[0].ticket, reasons(&woken)), (waits, vec![Reason::Brake]));
    let stopped = door.arrive("HIGH", 1);
    assert_eq!(reason(&stopped).map(Reason::sqlstate), Some("57014"));
    assert!(matches!(door.arrive("_ADMIN", 1), Arrival::Admitted(_)));
    door.reconfigure(&definitions(&classes));
    drop(door.admitted("LOW", 1));
}

#[test]
fn new_limits_hold_at_once_and_for_those_who_wait() {
    let old: [Case<'_>; 1] = [("A", None, &[("CONCURRENCY LIMIT", "1"), ("QUEUE TIMEOUT", "60")])];
    let mut door = Door::new(&old);
    let grant = door.admitted("A", 1);
    let tickets_waiting = [door.queued("A", 1), door.queued("A", 1), door.queued("A", 1)];
    let mut changed = definitions(&old);
    let settings = [("CONCURRENCY LIMIT", "3"), ("QUEUE TIMEOUT", "1")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
    changed.alter_class("A", ClassChange::Set(&settings)).unwrap();
    let woken = door.reconfigure(&changed);
    assert_eq!(tickets(&woken), tickets_waiting[..2]);
    assert_eq!(reasons(&door.tick(S, 0.0, 0.0)), [Reason::QueueTimeout]);
    let narrow = [("CONCURRENCY LIMIT".to_owned(), "1".to_owned())];
    changed.alter_class("A", ClassChange::Set(&narrow)).unwrap();
    assert!(door.reconfigure(&changed).is_empty());
    let a = door.id("A");
    assert_eq!(door.gate.statistics(a).running, 3);
    let waits = door.queued("A", 1);
    assert!(door.leave(grant).is_empty());
    let mut left = woken.into_iter().map(|woken| woken.result.unwrap());
    assert!(door.leave(left.next().unwrap()).is_empty());
    assert_eq!(tickets(&door.leave(left.next().unwrap())), [waits]);
}

#[test]
fn statements_of_a_class_that_goes_run_on_and_wait_on() {
    let mut door = Door::new(&[("A", None, &[("CONCURRENCY LIMIT", "1")])]);
    let grant = door.admitted("A", 1);
    let ticket = door.queued("A", 1);
    let a = grant.class;
    let woken = door.reconfigure(&Definitions::default());
    assert_eq!(tickets(&woken), [ticket]);
    assert_eq!(woken[0].result.as_ref().map(|grant| grant.class), Ok(ClassId::DEFAULT));
    assert_eq!(door.gate.statistics(a).threads, 1);
    door.leave(grant);
    assert_eq!(door.gate.statistics(a).threads, 0);
    let request = Request { class: a, ..door.request("_DEFAULT", 1) };
    assert!(matches!(door.ask(request), Arrival::Admitted(Grant { class: ClassId::DEFAULT, .. })));
}

#[test]
fn a_hint_restricts_its_statement_and_holds_up_no_other() {
    let mut door = Door::new(&[
        ("A", None, &[]),
        ("ONE", None, &[("CONCURRENCY LIMIT", "1"), ("STATEMENT THREAD LIMIT", "1")]),
    ]);
    let limits = Some(door.gate.snapshot().restrict(door.id("A"), door.id("ONE")));
    let hinted = Request { limits, ..door.request("A", 4) };
    let Arrival::Admitted(first) = door.ask(hinted.clone()) else { panic!("nothing runs") };
    assert_eq!(first.threads, 1);
    let Arrival::Queued(ticket) = door.ask(hinted) else { panic!("one runs") };
    let behind = door.queued("A", 4);
    let woken = door.tick(10 * MS, 0.0, 0.0);
    assert_eq!(tickets(&woken), [behind]);
    assert!(door.leave(first).is_empty());
    let woken = door.leave(woken.into_iter().next().unwrap().result.unwrap());
    assert_eq!(tickets(&woken), [ticket]);
}

#[test]
fn higher_priorities_go_first_and_then_older_statements() {
    let mut door = Door::new(&[
        ("ALL", None, &[("TOTAL STATEMENT THREAD LIMIT", "1")]),
        ("LOW", Some("ALL"), &[("PRIORITY", "1")]),
        ("HIGH", Some("ALL"), &[("PRIORITY", "8")]),
        ("ALSO", Some("ALL"), &[("PRIORITY", "8")]),
    ]);
    let mut grant = door.admitted("LOW", 1);
    let order = [("LOW", 3), ("ALSO", 0), ("HIGH", 1), ("ALSO", 2)];
    let mut expected = [Ticket(0); 4];
    for (name, place) in order {
        door.now += 1;
        expected[place] = door.queued(name, 1);
    }
    for ticket in expected {
        let mut woken = door.leave(grant);
        assert_eq!(tickets(&woken), [ticket]);
        grant = woken.remove(0).result.unwrap();
    }
}

#[test]
fn cancelling_lets_the_next_one_go() {
    let mut door = Door::new(&[("A", None, &[("CONCURRENCY LIMIT", "1")])]);
    let grant = door.admitted("A", 1);
    let [first, second] = [door.queued("A", 1), door.queued("A", 1)];
    assert_eq!(
        door.gate.queue().iter().map(|waiting| waiting.ticket).collect::<Vec<_>>(),
        [first, second]
    );
    assert_eq!(door.gate.cancel(door.now, first), Some(Vec::new()));
    assert_eq!(door.gate.cancel(door.now, first), None);
    assert_eq!(tickets(&door.leave(grant)), [second]);
    let kinds: Vec<EventKind> = door.gate.events().map(|event| event.kind).collect();
    assert_eq!(
        kinds,
        [EventKind::Enqueued, EventKind::Enqueued, EventKind::Cancelled, EventKind::Dequeued]
    );
}

#[test]
fn a_running_statement_goes_to_another_class_if_that_has_threads() {
    let mut door =
        Door::new(&[("A", None, &[]), ("SLOW", None, &[("TOTAL STATEMENT THREAD LIMIT", "3")])]);
    let [first, second, third] =
        [door.admitted("A", 2), door.admitted("A", 2), door.admitted("A", 2)];
    let slow = door.id("SLOW");
    let (first, _) = door.gate.switch(0, first, slow).unwrap();
    let (second, _) = door.gate.switch(0, second, slow).unwrap();
    assert_eq!((first.threads, second.threads, first.class), (2, 1, slow));
    let third = door.gate.switch(0, third, slow).unwrap_err();
    assert_eq!(third.threads, 2);
    door.gate.check();
    door.leave(first);
    assert_eq!(door.gate.statistics(slow).threads, 1);
}

#[test]
fn connections_of_a_class_are_limited() {
    let mut door = Door::new(&[("A", None, &[("CONNECTION LIMIT", "1")])]);
    let a = door.id("A");
    assert_eq!(door.gate.connect(a), Ok(a));
    let rejection = door.gate.connect(a).unwrap_err();
    assert_eq!((rejection.reason, rejection.reason.sqlstate()), (Reason::ConnectionLimit, "53300"));
    door.gate.disconnect(a);
    assert_eq!(door.gate.connect(a), Ok(a));
}

#[test]
fn a_controller_that_nobody_steers_lets_go_and_tells_once() {
    let mut door = Door::new(&[]);
    let grants: Vec<Grant> = (0..20).map(|_| door.admitted("_DEFAULT", 1)).collect();
    let mut slow = Observation::new(0.0, 0.0);
    slow.ready[ClassId::DEFAULT.index()] = Some(Ready { wait_ns: S, steps: 10 });
    for step in 1..100 {
        door.now = step * 10 * MS;
        door.gate.tick(door.now, &slow);
    }
    let limit = |door: &Door| {
        let controllers = door.gate.controllers(door.now);
        controllers
            .iter()
            .find(|controller| controller.class == ClassId::DEFAULT)
            .map(|controller| controller.limit)
    };
    assert_eq!(limit(&door), Some(1));
    let waits = door.queued("_DEFAULT", 1);
    door.now += 10 * S + 1;
    assert_eq!(limit(&door), Some(1_024));
    for _ in 0..3 {
        assert!(matches!(door.arrive("_DEFAULT", 1), Arrival::Queued(_)), "one waits already");
    }
    let stale = door.gate.events().filter(|event| event.kind == EventKind::ControllerStale).count();
    assert_eq!(stale, 1);
    let mut grants = grants.into_iter();
    let woken = door.leave(grants.next().unwrap());
    assert_eq!(tickets(&woken)[0], waits);
}

#[test]
fn the_gate_rejects_at_once_what_would_wait_too_long_for_its_target() {
    let mut door =
        Door::new(&[("A", None, &[("LATENCY TARGET P99", "100ms"), ("CONCURRENCY LIMIT", "1")])]);
    let mut grant = door.admitted("A", 1);
    let mut waiting = 0;
    for _ in 0..20 {
        let _ = door.queued("A", 1);
        waiting += 1;
    }
    // A statement takes 10 ms, so that the fifth of those who wait is 50 ms away and the limit of 40 ms passed.
    for _ in 0..8 {
        door.now += 10 * MS;
        let mut woken = door.leave(grant);
        grant = woken.pop().unwrap().result.unwrap();
        waiting -= 1;
    }
    assert!(waiting > 5);
    let Arrival::Rejected(rejection) = door.arrive("A", 1) else { panic!("the wait is too long") };
    assert_eq!(
        (rejection.reason, rejection.reason.sqlstate(), rejection.limit),
        (Reason::Overload, "53000", 40)
    );
    assert!(rejection.value >= 40 && rejection.retry_after >= Duration::from_millis(40));
    // The oldest of the others are late by now; they are given up before they are past their target.
    let mut lost = Vec::new();
    for step in 0..20 {
        lost.extend(door.tick(80 * MS + step * 10 * MS, 0.0, 0.0));
    }
    assert!(reasons(&lost).iter().all(|reason| *reason == Reason::Deadline));
    assert_eq!(lost.len(), waiting);
}

/// Random statements, limits and changes: TOTAL limits are exact, nothing is lost, and nobody waits past the timeout.
#[test]
fn totals_are_exact_whatever_comes_and_goes() {
    for seed in 0..60 {
        random_run(seed);
    }
}

fn random_definitions(rng: &mut Rng) -> Definitions {
    let limit = |rng: &mut Rng| (1 + rng.below(6)).to_string();
    let totals: [String; 4] = std::array::from_fn(|_| limit(rng));
    let timeout = format!("{}ms", 50 + rng.below(200));
    let total = "TOTAL STATEMENT THREAD LIMIT";
    let mut definitions = definitions(&[
        ("ALL", None, &[(total, &totals[0]), ("QUEUE TIMEOUT", &timeout)]),
        ("A", Some("ALL"), &[(total, &totals[1]), ("QUEUE TIMEOUT", &timeout), ("PRIORITY", "7")]),
        ("B", Some("A"), &[(total, &totals[2]), ("QUEUE TIMEOUT", &timeout), ("QUEUE LIMIT", "5")]),
        ("C", Some("ALL"), &[("CONCURRENCY LIMIT", &totals[3]), ("QUEUE TIMEOUT", &timeout)]),
    ]);
    match rng.below(6) {
        0 => definitions.alter_class("B", ClassChange::Parent(Some("C"))).unwrap(),
        1 => definitions.alter_class("C", ClassChange::Enable(false)).unwrap(),
        2 => definitions.drop_class("B").unwrap(),
        _ => {}
    }
    definitions
}

fn random_run(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut door = Door::new(&[]);
    door.reconfigure(&random_definitions(&mut rng));
    let mut running: Vec<Grant> = Vec::new();
    let mut waiting: Vec<Ticket> = Vec::new();
    // Limits hold for what was granted under them: after a change they are exact once they are met again.
    let mut met = [true; CLASSES];
    for _ in 0..600 {
        door.now += rng.below(5) * MS;
        let mut woken = Vec::new();
        match rng.below(10) {
            0..=4 => arrive_somewhere(&mut rng, &mut door, &mut running, &mut waiting),
            5..=7 if !running.is_empty() => {
                let place = rng.below(running.len() as u64) as usize;
                let grant = running.swap_remove(place);
                woken = door.leave(grant);
            }
            8 => {
                let now = door.now;
                woken = door.tick(now, 50.0, 50.0);
                assert!(door.gate.queue().iter().all(|waiting| waiting.timeout_ns > now));
            }
            9 if rng.below(8) == 0 => {
                met = [false; CLASSES];
                let changed = random_definitions(&mut rng);
                woken = door.reconfigure(&changed);
            }
            _ => {}
        }
        for woken in woken {
            waiting.retain(|ticket| *ticket != woken.ticket);
            running.extend(woken.result);
        }
        assert_exact(&door, &running, &mut met);
    }
    let end = door.now + S;
    for woken in door.tick(end, 0.0, 0.0) {
        waiting.retain(|ticket| *ticket != woken.ticket);
        running.extend(woken.result);
    }
    assert!(waiting.is_empty(), "nobody waits past the timeout");
    for grant in running {
        door.leave(grant);
    }
    let idle = (0..64).all(|id| door.gate.statistics(ClassId(id)).total_threads == 0);
    assert!(idle && door.gate.queue().is_empty());
}

fn arrive_somewhere(
    rng: &mut Rng,
    door: &mut Door,
    running: &mut Vec<Grant>,
    waiting: &mut Vec<Ticket>,
) {
    let names = ["ALL", "A", "B", "C"];
    let name = names[rng.below(4) as usize];
    let name = if door.gate.snapshot().by_name(name).is_some() { name } else { "_DEFAULT" };
    let wanted = rng.next_u32() % 6;
    let request = Request { holds_locks: rng.below(5) == 0, ..door.request(name, wanted) };
    let holds_locks = request.holds_locks;
    match door.ask(request) {
        Arrival::Admitted(grant) => running.push(grant),
        Arrival::Queued(ticket) => waiting.push(ticket),
        Arrival::Rejected(_) => assert!(!holds_locks),
    }
}

fn assert_exact(door: &Door, running: &[Grant], met: &mut [bool; CLASSES]) {
    let snapshot = door.gate.snapshot();
    for class in snapshot.classes() {
        let below = |grant: &&Grant| snapshot.chain(grant.class).any(|above| above.id == class.id);
        let threads: u32 = running.iter().filter(below).map(|grant| grant.threads).sum();
        assert_eq!(door.gate.statistics(class.id).total_threads, threads);
        let Some(limit) = class.limits.total_threads else { continue };
        met[class.id.index()] |= threads <= limit;
        assert!(
            !met[class.id.index()] || threads <= limit,
            "{} has {threads} of {limit}",
            class.name
        );
    }
}
