//! The cost of tasks: spawn and run beside rayon and tokio, pushes beside a bare ring; and the
//! runtime's promises for aborts, idle workers, floods and bands (P3 §5, P4 §4.2).
//!
//! Figures of one thread are processor time, which leaves out waiting for a core. Each is the
//! median of `--rounds`, with the spread between the rounds beside it. Spawn and run is measured
//! twice in a round, and `spread_again` is the difference of the two medians. Pushes need two cores
//! at once: they are measured in volleys of 256; `_low` is the value that a tenth of the volleys do
//! not exceed, `_best` the quickest. `critical_cpu_us` is the processor time that the worker used
//! from a critical task's spawn to its run, which leaves out other processes on its core.
//!
//! Checked: every measurement counts the tasks that ran.

use std::time::Duration;

use clap::{Args, ValueEnum};
use halcyon_task::measure;
use serde_json::json;

use crate::measure::Rounds;
use crate::{Arm, Failure, Reporter, Result};

/// Options of `halcyon lab tasks`.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// Only these measurements
    #[arg(long, value_enum, value_delimiter = ',')]
    pub only: Vec<What>,
    /// Rounds per figure of a few nanoseconds
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Share of the usual number of tasks, for a quick look
    #[arg(long, default_value_t = 1.0, value_parser = share)]
    pub share: f64,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err("a share lies above 0 and up to 1".to_owned()),
    }
}

/// A measurement.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Spawn and run on one worker, beside rayon and tokio
    Spawn,
    /// From a push on one worker to its run on another, beside a bare ring
    Push,
    /// Until an aborted group is quiet
    Abort,
    /// What idle workers use
    Idle,
    /// Tasks asked for from outside, as fast as credits come back
    Flood,
    /// Tasks of a higher band beside a busy lower one, and the lowest band's floor
    Latency,
}

/// Runs the experiment.
pub fn run(options: &Options, reporter: &mut Reporter) -> Result<()> {
    let wants = |what| options.only.is_empty() || options.only.contains(&what);
    if wants(What::Spawn) {
        spawn(options, reporter);
    }
    if wants(What::Push) {
        push(options, reporter);
    }
    if wants(What::Abort) {
        let (seen_us, quiet_us) = measure::abort_us(101);
        let mut arm = arm(options, "halcyon", "abort");
        arm.rounded("seen_us", seen_us);
        arm.rounded("quiet_us", quiet_us);
        reporter.arm(arm);
    }
    if wants(What::Idle) {
        let mut arm = arm(options, "halcyon", "idle");
        arm.rounded("cpu_percent", measure::idle_cpu_percent(scaled_time(options)));
        reporter.arm(arm);
    }
    if wants(What::Flood) {
        flood(options, reporter)?;
    }
    if wants(What::Latency) {
        latency(options, reporter);
    }
    Ok(())
}

const ENGINE: &str = if cfg!(feature = "checked-slots") { "checked" } else { "halcyon" };

fn arm(options: &Options, engine: &str, what: &str) -> Arm {
    let engine = if engine == "halcyon" { ENGINE } else { engine };
    Arm::new("tasks", engine, json!({ "what": what, "rounds": options.rounds }))
}

fn scaled(options: &Options, tasks: u64) -> u64 {
    ((tasks as f64 * options.share) as u64).max(1024)
}

fn scaled_time(options: &Options) -> Duration {
    Duration::from_secs_f64((2.0 * options.share).max(0.1))
}

fn rounds(options: &Options, measure: impl Fn() -> f64) -> Rounds {
    let mut rounds = Rounds::default();
    (0..options.rounds).for_each(|_| rounds.push(measure()));
    rounds
}

fn put(arm: &mut Arm, name: &str, rounds: &Rounds) {
    arm.rounded(name, rounds.median());
    arm.rounded(&format!("{name}_spread"), rounds.spread());
}

fn spawn(options: &Options, reporter: &mut Reporter) {
    let tasks = scaled(options, 2_000_000);
    let spawned = || rounds(options, || measure::spawn_run_ns(tasks, 64));
    let (first, again) = (spawned(), spawned());
    let mut own = arm(options, "halcyon", "spawn");
    put(&mut own, "spawn_run_ns", &first);
    own.rounded("spread_again", (again.median() - first.median()).abs() / first.median());
    let alone = rounds(options, || measure::spawn_run_ns(tasks / 2, 1));
    put(&mut own, "spawn_run_one_at_a_time_ns", &alone);
    put(&mut own, "again_ns", &rounds(options, || measure::again_ns(tasks, 64)));
    reporter.arm(own);
    for (engine, measured) in [
        ("rayon", rounds(options, || rayon_ns(tasks / 2))),
        ("tokio", rounds(options, || tokio_ns(tasks / 4))),
    ] {
        let mut arm = arm(options, engine, "spawn");
        put(&mut arm, "spawn_run_ns", &measured);
        reporter.arm(arm);
    }
}

fn push(options: &Options, reporter: &mut Reporter) {
    let pushes = scaled(options, 200_000);
    /// Times so many pushes; returns nanoseconds of each volley.
    type Measure = fn(u64) -> Vec<f64>;
    let engines: [(&str, Measure); 2] =
        [("halcyon", measure::push_run_ns), ("bare", measure::bare_ring_push_ns)];
    let mut measured = [Rounds::default(), Rounds::default()];
    for _ in 0..options.rounds {
        for ((_, measure), volleys) in engines.iter().zip(&mut measured) {
            measure(pushes).into_iter().for_each(|ns| volleys.push(ns));
        }
    }
    for ((engine, _), volleys) in engines.iter().zip(&measured) {
        let mut arm = arm(options, engine, "push");
        arm.rounded("push_run_ns", volleys.median());
        arm.rounded("push_run_ns_low", volleys.decile());
        arm.rounded("push_run_ns_best", volleys.best());
        reporter.arm(arm);
    }
}

fn flood(options: &Options, reporter: &mut Reporter) -> Result<()> {
    let tasks = scaled(options, 10_000_000);
    let flood = measure::flood(tasks, 65_536);
    if flood.tasks != tasks {
        return Err(Failure::WrongAnswer(format!("{} of {tasks} tasks ran", flood.tasks)));
    }
    let mut arm = arm(options, "halcyon", "flood");
    arm.figure("tasks", flood.tasks);
    arm.rounded("tasks_per_s", flood.per_s);
    arm.figure("resident_bytes", flood.resident_bytes);
    arm.figure("credits", flood.credits);
    reporter.arm(arm);
    Ok(())
}

fn latency(options: &Options, reporter: &mut Reporter) {
    let (length, period) = (Duration::from_micros(500), Duration::from_millis(1));
    let count = (2000.0 * options.share).max(50.0) as usize;
    let latency = measure::critical_latency(2, length, period, count);
    let mut arm = arm(options, "halcyon", "latency");
    arm.rounded("critical_us_p50", latency.p50_us);
    arm.rounded("critical_us_p99", latency.p99_us);
    arm.rounded("critical_us_max", latency.max_us);
    arm.rounded("critical_cpu_us_p50", latency.p50_cpu_us);
    arm.rounded("critical_cpu_us_p99", latency.p99_cpu_us);
    arm.rounded("critical_cpu_us_max", latency.max_cpu_us);
    arm.figure("critical_tasks", latency.count);
    arm.rounded("floor_percent", measure::floor_percent(scaled_time(options), length));
    reporter.arm(arm);
}

/// Processor time, ns, per empty task that rayon's scope spawns and runs on a pool of one thread.
fn rayon_ns(tasks: u64) -> f64 {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("one thread");
    pool.install(|| {
        let start_ns = measure::thread_cpu_ns();
        for _ in 0..tasks / 64 {
            rayon::scope(|scope| (0..64).for_each(|_| scope.spawn(|_| ())));
        }
        (measure::thread_cpu_ns() - start_ns) as f64 / tasks as f64
    })
}

/// Processor time, ns, per empty future that tokio's current-thread runtime spawns and runs.
fn tokio_ns(tasks: u64) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let start_ns = measure::thread_cpu_ns();
        for _ in 0..tasks / 64 {
            let handles: Vec<_> = (0..64).map(|_| tokio::spawn(async {})).collect();
            for handle in handles {
                handle.await.expect("it does not panic");
            }
        }
        (measure::thread_cpu_ns() - start_ns) as f64 / tasks as f64
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measurement_ends_with_its_figures() {
        let only = vec![What::Spawn, What::Abort, What::Flood];
        let mut reporter = Reporter::new(true);
        run(&Options { only, rounds: 2, share: 0.001 }, &mut reporter).unwrap();
        let engines: Vec<&str> = reporter.arms().iter().map(|arm| arm.engine.as_str()).collect();
        assert_eq!(engines, [ENGINE, "rayon", "tokio", ENGINE, ENGINE]);
        let spawned = reporter.arms()[0].figures["spawn_run_ns"].as_f64().unwrap();
        assert!(spawned > 0.0);
    }
}
