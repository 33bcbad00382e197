//! The B-link tree in its five modes, beside a `BTreeMap` (P4 §4.2, Figure 6).
//!
//! Distinct random 64-bit keys are inserted in random order into an empty tree, then looked up in
//! another order, then looked up and updated by turns. Every operation's answer is checked while
//! it is measured, and every tree's invariants afterwards.
//!
//! Rates are by wall time (`inserts_per_s`) and, beside it, by processor time times the number of
//! workers (`inserts_per_cpu_s`): where other processes want the same cores, the second one says
//! more.

mod work;

use std::sync::Arc;

use clap::{Args, ValueEnum};
use halcyon_tree::Hops;
use serde_json::json;

use crate::Result;
use crate::{Arm, Reporter};
use work::{Measured, Phase, TaskOptions, Work};

/// Options of `halcyon lab tree`.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// Modes to run; all of them unless said otherwise, and a BTreeMap beside them
    #[arg(long, value_enum, value_delimiter = ',')]
    pub mode: Vec<Mode>,
    /// What is measured; each needs those before it
    #[arg(long, value_enum, default_value = "mixed")]
    pub operations: Operations,
    /// Keys
    #[arg(long, default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    pub count: u32,
    /// Threads or workers of the modes that have more than one
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: u16,
    /// Seed of the keys
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Tasks: lanes per worker, which is how many operations are under way
    #[arg(long, default_value_t = TaskOptions::default().lanes as u32,
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub lanes: u32,
    /// Tasks: hop at every node, as the paper does, instead of walking where nodes are cached
    #[arg(long)]
    pub every_node: bool,
    /// Nodes on small pages
    #[arg(long)]
    pub small_pages: bool,
}

/// A way to run the tree.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One thread, no latches
    Exclusive,
    /// One thread, several descents in flight
    Interleaved,
    /// Threads, a reader-writer latch per node
    Latched,
    /// Threads, a version per node
    Optimistic,
    /// Threads, a version per node, several descents in flight in each
    OptimisticInterleaved,
    /// Workers of a runtime
    Tasks,
    /// Not our tree: the standard library's
    Btreemap,
}

/// What is measured.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operations {
    /// Inserts
    Insert,
    /// Inserts, then lookups
    Read,
    /// Inserts, lookups, then lookups and updates by turns
    Mixed,
}

/// Runs the experiment.
pub fn run(options: &Options, reporter: &mut Reporter) -> Result<()> {
    reporter.progress(format_args!("tree: making {} keys", options.count));
    let work = Arc::new(Work::new(options.count as usize, options.seed));
    let mut modes = options.mode.clone();
    if modes.is_empty() {
        modes = Mode::value_variants().to_vec();
    } else if !modes.contains(&Mode::Btreemap) {
        modes.push(Mode::Btreemap);
    }
    let mut phases = vec![Phase::Insert, Phase::Read, Phase::Mixed];
    phases.truncate(options.operations as usize + 1);
    for mode in modes {
        let name = mode.to_possible_value().expect("no mode is hidden");
        reporter.progress(format_args!("tree: {}", name.get_name()));
        let (measured, workers) = measure(options, mode, &work, &phases);
        reporter.arm(arm(options, name.get_name(), workers, &measured));
    }
    Ok(())
}

fn measure(options: &Options, mode: Mode, work: &Arc<Work>, phases: &[Phase]) -> (Measured, usize) {
    let (workers, huge_pages) = (usize::from(options.workers), !options.small_pages);
    match mode {
        Mode::Exclusive => (work::exclusive(work, phases, huge_pages), 1),
        Mode::Interleaved => (work::interleaved(work, phases, huge_pages), 1),
        Mode::Latched => (work::latched(work, phases, workers, huge_pages), workers),
        Mode::Optimistic => (work::optimistic(work, phases, workers, huge_pages), workers),
        Mode::OptimisticInterleaved => {
            (work::optimistic_interleaved(work, phases, workers, huge_pages), workers)
        }
        Mode::Btreemap => (work::btreemap(work, phases), 1),
        Mode::Tasks => {
            let mut tasks = TaskOptions { lanes: options.lanes as usize, ..TaskOptions::default() };
            if options.every_node {
                tasks.hops = Hops::EveryNode;
            }
            (work::tasks(work, phases, workers, huge_pages, &tasks), workers)
        }
    }
}

fn arm(options: &Options, mode: &str, workers: usize, measured: &Measured) -> Arm {
    let mut params = json!({"count": options.count, "workers": workers, "seed": options.seed});
    if mode == "tasks" {
        params["lanes"] = json!(options.lanes);
        params["every_node"] = json!(options.every_node);
    }
    let mut arm = Arm::new("tree", mode, params);
    for &(phase, wall, cpu) in &measured.phases {
        let count = f64::from(options.count);
        arm.figure(phase.figure(), (count / wall.as_secs_f64()) as u64);
        if !cpu.is_zero() {
            let name = phase.figure().replace("_per_s", "_per_cpu_s");
            arm.figure(&name, (count * workers as f64 / cpu.as_secs_f64()) as u64);
        }
    }
    if let Some(bytes) = measured.node_bytes {
        arm.rounded("node_bytes_per_key", bytes as f64 / f64::from(options.count));
    }
    if let Some(wrong) = &measured.wrong {
        arm.check = wrong.clone();
    }
    arm
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_modes_answer_rightly_at_tiny_scale() {
        let options = Options {
            mode: vec![],
            operations: Operations::Mixed,
            count: 20_000,
            workers: 2,
            seed: 1,
            lanes: 4,
            every_node: false,
            small_pages: false,
        };
        let mut reporter = Reporter::new(true);
        run(&options, &mut reporter).expect("it has nothing to fail with");
        assert!(reporter.all_ok());
        assert_eq!(reporter.arms().len(), 7);
        let three = ["inserts_per_s", "reads_per_s", "mixed_per_s"];
        for arm in reporter.arms() {
            assert!(three.iter().all(|name| arm.figures.contains_key(*name)), "{}", arm.engine);
        }
    }
}
