//! What tasks cost, beside rayon and tokio, as one JSON object.
//!
//! ```sh
//! cargo run --release -p halcyon-task --example tasks
//! cargo run --release -p halcyon-task --example tasks --features checked-slots
//! ```
//!
//! Each figure of a few nanoseconds is the median of several rounds, with the spread between the
//! lowest and the highest beside it (the A/A spread: rounds do not differ in anything).

#![cfg_attr(shuttle, allow(unused))]

#[cfg(not(shuttle))]
mod figures {
    use halcyon_task::measure;
    use serde_json::{Map, Value, json};
    use std::time::Duration;

    const ROUNDS: usize = 7;

    /// Median of several rounds, then the lowest and the highest.
    fn rounds(measure: impl Fn() -> f64) -> Value {
        let mut values: Vec<f64> = (0..ROUNDS).map(|_| measure()).collect();
        values.sort_by(f64::total_cmp);
        let round = |value: f64| (value * 100.0).round() / 100.0;
        json!([round(values[ROUNDS / 2]), round(values[0]), round(values[ROUNDS - 1])])
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

    pub fn main() {
        let wanted: Vec<String> = std::env::args().skip(1).collect();
        let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|word| word == name);
        let mut figures = Map::new();
        if wants("spawn") {
            figures.insert("spawn_run_ns".into(), rounds(|| measure::spawn_run_ns(2_000_000, 64)));
            let again = rounds(|| measure::spawn_run_ns(2_000_000, 64));
            figures.insert("spawn_run_ns_again".into(), again);
            let alone = rounds(|| measure::spawn_run_ns(1_000_000, 1));
            figures.insert("spawn_run_one_at_a_time_ns".into(), alone);
            figures.insert("again_ns".into(), rounds(|| measure::again_ns(2_000_000, 64)));
            figures.insert("rayon_scope_spawn_ns".into(), rounds(|| rayon_ns(1_000_000)));
            figures.insert("tokio_current_thread_ns".into(), rounds(|| tokio_ns(500_000)));
        }
        if wants("push") {
            figures.insert("push_run_ns".into(), rounds(|| measure::push_run_ns(200_000)));
            figures
                .insert("bare_ring_push_ns".into(), rounds(|| measure::bare_ring_push_ns(200_000)));
        }
        if wants("abort") {
            let (seen, quiet) = measure::abort_us(101);
            figures.insert("abort_us".into(), json!(seen));
            figures.insert("abort_quiet_us".into(), json!(quiet));
        }
        if wants("idle") {
            let percent = measure::idle_cpu_percent(Duration::from_secs(2));
            figures.insert("idle_cpu_percent".into(), json!(percent));
        }
        if wants("flood") {
            let flood = measure::flood(10_000_000, 65_536);
            figures.insert("flood_tasks".into(), json!(flood.tasks));
            figures.insert("flood_per_s".into(), json!(flood.per_s.round()));
            figures.insert("flood_resident_bytes".into(), json!(flood.resident_bytes));
        }
        if wants("latency") {
            let (length, period) = (Duration::from_micros(500), Duration::from_millis(1));
            let latency = measure::critical_latency(2, length, period, 2000);
            figures.insert("critical_us_p50".into(), json!(latency.p50_us));
            figures.insert("critical_us_p99".into(), json!(latency.p99_us));
            figures.insert("critical_us_max".into(), json!(latency.max_us));
            let floor = measure::floor_percent(Duration::from_secs(2), length);
            figures.insert("floor_percent".into(), json!(floor));
        }
        let engine = if cfg!(feature = "checked-slots") { "checked" } else { "halcyon" };
        println!(
            "{}",
            json!({ "experiment": "tasks", "engine": engine, "figures": figures, "check": "ok" })
        );
    }
}

fn main() {
    #[cfg(not(shuttle))]
    figures::main();
}
