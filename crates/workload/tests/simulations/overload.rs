//! Simulations of the gate in virtual time (research §3.5; T1, T3, T9 and T15 of the test plan).

use crate::machine::{Load, MS, S, Sim, define, quantile};

/// Web statements of 8 ms on average.
const WEB: [(f64, f64); 1] = [(1.0, 8e6)];
/// 95 of 100 statements take 2 ms on average, the others 40 ms.
const MIXED: [(f64, f64); 2] = [(0.95, 2e6), (0.05, 40e6)];
/// The latency that statements are to keep, ms.
const SLO_MS: f64 = 100.0;

/// Statements per second that `cores` can run.
fn capacity(cores: u32, mix: &[(f64, f64)]) -> f64 {
    let mean_s: f64 = mix.iter().map(|(share, mean_ns)| share * mean_ns / 1e9).sum();
    f64::from(cores) / mean_s
}

/// One class with a target of 100 ms under so many times its capacity, for 20 seconds.
fn overloaded(
    cores: u32,
    mix: &[(f64, f64)],
    factor: f64,
    settings: &[(&str, &str)],
    seed: u64,
) -> Sim {
    let rate = factor * capacity(cores, mix);
    let mut sim =
        Sim::new(cores, &define(&[("WEB", settings)]), vec![Load::new("WEB", rate, mix)], seed);
    sim.run(20 * S);
    sim
}

/// Statements served within the objective after a warm-up of five seconds, as a share of capacity.
fn goodput(sim: &Sim, cores: u32, mix: &[(f64, f64)]) -> f64 {
    let latencies = sim.latencies(0, 5 * S, 20 * S);
    latencies.iter().filter(|ms| **ms <= SLO_MS).count() as f64 / 15.0 / capacity(cores, mix)
}

const TARGET: [(&str, &str); 1] = [("LATENCY TARGET P99", "100ms")];

#[test]
fn twice_the_capacity_costs_no_goodput() {
    for (cores, mix) in [(2, &WEB[..]), (4, &WEB), (16, &WEB), (4, &MIXED), (16, &MIXED)] {
        // What arrives in 15 seconds needs 2.6 % more or less processor time from seed to seed (mixed, four cores).
        let seeds = 1..=4_u8;
        let mut goods = Vec::new();
        for seed in seeds {
            let sim = overloaded(cores, mix, 2.0, &TARGET, u64::from(seed));
            goods.push(goodput(&sim, cores, mix));
            let p99 = quantile(&sim.latencies(0, 5 * S, 20 * S), 0.99);
            // One in twenty of the mixed statements needs 40 ms alone.
            let bound = if mix.len() == 1 { SLO_MS } else { 1.3 * SLO_MS };
            assert!(p99 <= bound, "{cores} cores, {mix:?}, seed {seed}: p99 {p99:.1} ms");
        }
        let mean = goods.iter().sum::<f64>() / goods.len() as f64;
        assert!(mean >= 0.95, "{cores} cores, {mix:?}: {goods:.3?} of capacity");
    }
}

#[test]
fn without_the_gate_the_same_load_ruins_everything() {
    // The control arm: the same class without a target, and a queue for all. Were this good, the test above would say
    // nothing.
    let sim = overloaded(4, &WEB, 2.0, &[], 1);
    assert!(goodput(&sim, 4, &WEB) <= 0.2);
}

#[test]
fn below_capacity_nearly_nothing_is_rejected() {
    for (mix, share) in [(&WEB[..], 0.995), (&MIXED, 0.98)] {
        let sim = overloaded(4, mix, 0.7, &TARGET, 1);
        let served = sim.done.iter().filter(|done| done.is_served).count() as f64;
        assert!(served / sim.done.len() as f64 >= share, "{mix:?}: {served} of {}", sim.done.len());
    }
}

#[test]
fn two_seconds_after_an_overload_all_is_as_before() {
    let capacity = capacity(4, &WEB);
    let loads = |with_peak: bool| {
        let mut loads = vec![Load::new("WEB", 0.3 * capacity, &WEB)];
        if with_peak {
            loads.push(Load {
                from_ns: 5 * S,
                to_ns: 10 * S,
                ..Load::new("WEB", 1.7 * capacity, &WEB)
            });
        }
        loads
    };
    let run = |with_peak: bool| {
        let mut sim = Sim::new(4, &define(&[("WEB", &TARGET)]), loads(with_peak), 3);
        sim.run(20 * S);
        sim
    };
    let (calm, peak) = (run(false), run(true));
    let p99 = |sim: &Sim| quantile(&sim.latencies(0, 12 * S, 20 * S), 0.99);
    assert!(p99(&peak) <= 1.15 * p99(&calm), "{} {}", p99(&peak), p99(&calm));
    let refused = |sim: &Sim, from: u64, to: u64| {
        sim.done
            .iter()
            .filter(|done| !done.is_served && (from..to).contains(&done.ended_ns))
            .count()
    };
    assert!(refused(&peak, 5 * S, 10 * S) > 1_000);
    assert_eq!(refused(&peak, 12 * S, 20 * S), 0);
}

#[test]
fn the_limit_does_not_swing() {
    for seed in 1..=3 {
        let sim = overloaded(16, &WEB, 2.0, &TARGET, seed);
        let mut limits: Vec<f64> = sim.limits[500..].iter().copied().map(f64::from).collect();
        limits.sort_by(f64::total_cmp);
        let [low, middle, high] = [0.025, 0.5, 0.975].map(|share| quantile(&limits, share));
        assert!(low >= 0.8 * middle && high <= 1.2 * middle, "{low} {middle} {high}");
    }
}

#[test]
fn a_class_without_a_target_queues_and_nobody_waits_past_the_timeout() {
    let settings = [("QUEUE TIMEOUT", "1500ms"), ("CONCURRENCY LIMIT", "4")];
    let sim = overloaded(4, &WEB, 1.5, &settings, 1);
    // Waits are ended when the gate is looked at, which is every 10 ms at the least.
    assert!(sim.longest_wait_ns <= 1_510 * MS, "{} ms", sim.longest_wait_ns / MS);
    assert!(sim.longest_wait_ns >= 1_500 * MS);
    let busy = sim.busy_ns.iter().sum::<u64>() as f64 / (20 * S * 4) as f64;
    assert!(busy >= 0.98, "{busy}");
    let served = sim.latencies(0, 5 * S, 15 * S).len() as f64 / 10.0;
    assert!(served >= 0.95 * capacity(4, &WEB), "{served}");
}

/// Figure 1 of P4 in small: two cores, 50 web statements in ten seconds, and up to 60 analytical and 60 ETL clients.
#[test]
fn priority_alone_keeps_web_latency_flat() {
    let web_ms = |clients: u32, classes: [&str; 3]| {
        let definitions = define(&[
            ("WEB", &[("PRIORITY", "8")]),
            ("ANALYTIC", &[("PRIORITY", "3")]),
            ("ETL", &[("PRIORITY", "2")]),
            ("ALL", &[]),
        ]);
        let mut loads = vec![Load::new(classes[0], 5.0, &WEB)];
        if clients > 0 {
            loads.push(Load::closed(classes[1], clients, 200e6));
            loads.push(Load::closed(classes[2], clients, 500e6));
        }
        let mut sim = Sim::new(2, &definitions, loads, 5);
        sim.run(60 * S);
        let latencies = sim.latencies(0, 5 * S, 60 * S);
        let busy = sim.busy_ns.iter().sum::<u64>() as f64 / (2 * 60 * S) as f64;
        (latencies.iter().sum::<f64>() / latencies.len() as f64, busy)
    };
    let split = ["WEB", "ANALYTIC", "ETL"];
    let (idle, _) = web_ms(0, split);
    for clients in [5, 20, 60] {
        let (mean, busy) = web_ms(clients, split);
        assert!(mean <= 1.3 * idle, "{clients}: {mean:.1} ms instead of {idle:.1}");
        assert!(busy >= 0.95, "{clients}: {busy}");
    }
    let (together, _) = web_ms(60, ["ALL"; 3]);
    assert!(
        together >= 5.0 * idle,
        "the control arm has no power: {together:.1} ms instead of {idle:.1}"
    );
}
