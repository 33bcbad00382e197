//! Simulations of the controller of latency targets (research §3.5, §6.4; T1b, T4, T5 and T15 of the test plan).

use std::sync::Arc;

use halcyon_workload::target::{Actuator, EventKind, State, Targets};

use crate::machine::{Load, S, Sim, define, quantile};

/// Web statements of 8 ms on average.
const WEB: [(f64, f64); 1] = [(1.0, 8e6)];
const CORES: u32 = 16;
/// From when on analytical clients are there.
const BEGIN: u64 = 20 * S;

/// 50 web statements a second with a target of 60 ms for P99, and 60 analytical clients of lower priority.
fn sim(is_steered: bool, seed: u64) -> Sim {
    let definitions = define(&[
        ("WEB", &[("PRIORITY", "8"), ("LATENCY TARGET P99", "60ms")]),
        ("ANALYTIC", &[("PRIORITY", "3")]),
    ]);
    let analytic = Load { from_ns: BEGIN, ..Load::closed("ANALYTIC", 60, 200e6) };
    let mut sim = Sim::new(CORES, &definitions, vec![Load::new("WEB", 50.0, &WEB), analytic], seed);
    sim.targets = is_steered.then(|| Targets::new(Arc::clone(sim.gate.snapshot())));
    sim
}

/// P99 of the web statements that arrived within seconds, ms.
fn p99(sim: &Sim, from: u64, to: u64) -> f64 {
    quantile(&sim.latencies(0, from * S, to * S), 0.99)
}

#[test]
fn statements_that_disturb_each_other_in_hardware_are_kept_apart_by_the_target() {
    // With all other cores busy a web statement takes three times as long.
    let interfering = |is_steered: bool| {
        let mut sim = sim(is_steered, 1);
        sim.interference = 2.0;
        sim.run(140 * S);
        sim
    };
    let (free, steered) = (interfering(false), interfering(true));
    assert!(
        p99(&free, 60, 140) >= 1.4 * 60.0,
        "the control arm has no power: {:.1}",
        p99(&free, 60, 140)
    );
    // Four windows of ten seconds after the disturbance.
    for from in (60..140).step_by(20) {
        let reached = p99(&steered, from, from + 20);
        assert!(reached <= 1.15 * 60.0, "{reached:.1} ms in the 20 s from {from} s on");
    }
    assert!(p99(&steered, 60, 140) <= 60.0, "{:.1}", p99(&steered, 60, 140));
    let given_up =
        steered.targets.as_ref().map_or(0.0, |targets| targets.views()[0].given_up_slots);
    assert!((6.0..15.0).contains(&given_up), "{given_up}");
}

#[test]
fn the_cap_does_not_swing() {
    let mut sim = sim(true, 2);
    sim.interference = 2.0;
    sim.run(160 * S);
    let slots = |from: u64| {
        let late = sim.actions.iter().filter(move |(at, _)| *at >= from * S);
        late.filter_map(|(_, action)| match action.actuator {
            Actuator::Threads(slots) => Some(slots),
            _ => None,
        })
    };
    let last = slots(0).next_back().expect("something was capped");
    assert!(
        slots(100).all(|slots| (0.8 * last..=1.25 * last).contains(&slots)),
        "{:?}",
        slots(0).collect::<Vec<_>>()
    );
}

#[test]
fn what_the_others_have_no_part_in_costs_them_nothing_for_long() {
    let mut sim = sim(true, 3);
    sim.run(BEGIN + 20 * S);
    // A lock, or the network: three times as slow, whatever the others do.
    sim.slowness = 3.0;
    let from = sim.now;
    sim.run(from + 60 * S);
    let targets = sim.targets.as_ref().expect("the load is steered");
    let event = targets
        .events()
        .find(|event| matches!(event.kind, EventKind::TargetUnreachable { is_restored: true }));
    let after = event.expect("the target is out of reach").at_ns - from;
    // Windows are of ten seconds; the first is over when the trouble fills it.
    assert!(after <= 50 * S, "{} s", after / S);
    assert_eq!(targets.views()[0].state, State::Unreachable);
    let analytic = sim.gate.snapshot().by_name("ANALYTIC").expect("the class exists").id;
    assert_eq!(targets.cap(analytic), None);
    let before = sim.busy_ns[usize::from(analytic.0)];
    sim.run(from + 120 * S);
    let busy = (sim.busy_ns[usize::from(analytic.0)] - before) as f64;
    assert!(busy >= 0.9 * (60 * S * u64::from(CORES)) as f64, "{busy}");
}

#[test]
fn nobody_is_cut_while_the_target_is_kept() {
    let mut sim = sim(true, 4);
    sim.run(60 * S);
    assert!(sim.actions.is_empty(), "{:?}", sim.actions);
    assert!(p99(&sim, 20, 60) <= 60.0);
}

/// Web statements beside scans, which pollute the cache, and beside statements of the same low class that do not.
fn polluted(is_steered: bool, seed: u64) -> Sim {
    let definitions = define(&[
        ("WEB", &[("PRIORITY", "8"), ("LATENCY TARGET P99", "60ms")]),
        ("SCANS", &[("PRIORITY", "3")]),
        ("REPORTS", &[("PRIORITY", "3")]),
    ]);
    let scans = Load { from_ns: BEGIN, pollutes: true, ..Load::closed("SCANS", 40, 200e6) };
    let reports = Load { from_ns: BEGIN, ..Load::closed("REPORTS", 40, 200e6) };
    let mut sim =
        Sim::new(CORES, &definitions, vec![Load::new("WEB", 50.0, &WEB), scans, reports], seed);
    sim.targets = is_steered.then(|| Targets::new(Arc::clone(sim.gate.snapshot())));
    // Half of the cores scan, so that a web statement takes three times as long.
    sim.pollution = 4.0;
    sim
}

#[test]
fn where_scans_pollute_the_cache_they_alone_give_way() {
    let run = |is_steered: bool| {
        let mut sim = polluted(is_steered, 5);
        sim.run(140 * S);
        sim
    };
    let (free, steered) = (run(false), run(true));
    assert!(
        p99(&free, 60, 140) >= 1.2 * 60.0,
        "the control arm has no power: {:.1}",
        p99(&free, 60, 140)
    );
    assert!(p99(&steered, 60, 140) <= 1.15 * 60.0, "{:.1}", p99(&steered, 60, 140));
    let cut =
        steered.actions.iter().any(|(_, action)| matches!(action.actuator, Actuator::Threads(_)));
    assert!(!cut, "no threads were cut: {:?}", steered.actions);
    let reports = steered.gate.snapshot().by_name("REPORTS").expect("the class exists").id;
    let busy = |sim: &Sim| sim.busy_ns[usize::from(reports.0)] as f64;
    assert!(busy(&steered) >= 1.2 * busy(&free), "{} and {}", busy(&steered), busy(&free));
}
