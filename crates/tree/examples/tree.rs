//! The experiment `halcyon lab tree` without the rest of the lab, which takes minutes to build.
//!
//! `tree MODE[,MODE]… COUNT WORKERS [--small-pages]`: inserts, reads and mixes COUNT keys.

#[path = "../../lab/src/tree/work.rs"]
mod work;

use halcyon_tree::Hops;
use serde_json::json;
use std::sync::Arc;
use work::{Phase, TaskOptions, Work};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let modes =
        arguments.first().map_or("exclusive,interleaved,latched,optimistic,btreemap", |m| m);
    let number = |at: usize, default| arguments.get(at).map_or(default, |t| t.parse().unwrap());
    let (count, workers) = (number(1, 1 << 20), number(2, 1));
    let huge = !arguments.iter().any(|argument| argument == "--small-pages");
    let work = Arc::new(Work::new(count, 1));
    let mut phases = vec![Phase::Insert, Phase::Read, Phase::Mixed];
    if arguments.iter().any(|argument| argument == "--short") {
        phases.truncate(2);
    }
    if arguments.iter().any(|argument| argument == "--inserts") {
        phases.truncate(1);
    }
    for mode in modes.split(',') {
        let measured = match mode {
            "exclusive" => work::exclusive(&work, &phases, huge),
            "interleaved" => work::interleaved(&work, &phases, huge),
            "latched" => work::latched(&work, &phases, workers, huge),
            "optimistic" => work::optimistic(&work, &phases, workers, huge),
            "optimistic+interleaved" => work::optimistic_interleaved(&work, &phases, workers, huge),
            _ if mode.starts_with("tasks") => {
                // tasks:HOPS:LANES:DISTANCE[:d], where HOPS is a level or `all`.
                let mut parts = mode.split(':').skip(1);
                let mut options = TaskOptions::default();
                match parts.next() {
                    None => {}
                    Some("all") => options.hops = Hops::EveryNode,
                    Some(level) => options.hops = Hops::Below(level.parse().unwrap()),
                }
                options.lanes = parts.next().map_or(options.lanes, |lanes| lanes.parse().unwrap());
                options.distance = parts.next().map(|distance| distance.parse().unwrap());
                options.dedicated = parts.next() == Some("d");
                work::tasks(&work, &phases, workers, huge, &options)
            }
            "btreemap" => work::btreemap(&work, &phases),
            other => panic!("no mode {other}"),
        };
        let mut line = json!({"mode": mode, "count": count, "workers": workers});
        for &(phase, wall, cpu) in &measured.phases {
            let rate = count as f64 / wall.as_secs_f64() / 1e6;
            let by_cpu = count as f64 / cpu.as_secs_f64() / 1e6 * workers as f64;
            line[phase.figure()] =
                json!([(rate * 100.0).round() / 1e2, (by_cpu * 100.0).round() / 1e2]);
        }
        line["mib"] = json!(measured.node_bytes.map(|bytes| bytes >> 20));
        line["check"] = json!(measured.wrong.clone().unwrap_or("ok".into()));
        println!("{line}");
    }
}
