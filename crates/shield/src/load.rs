//! The use that other programs make of processors, from two readings of `/proc/stat`.

use std::thread;
use std::time::{Duration, Instant};

use halcyon_machine::counters;

use crate::knobs::Knobs;

/// Time between the readings.
const PERIOD: Duration = Duration::from_millis(500);
/// Use of the processors to be shielded, in cores, that nobody would miss.
const COVERED_MAX: f64 = 0.2;
/// Part of the housekeeping processors that may be in use already.
const HOUSEKEEPING_MAX: f64 = 0.8;

/// Use of processors by other programs, in cores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Of the processors that are looked at.
    pub covered: f64,
    /// Of the whole machine.
    pub total: f64,
}

impl Load {
    /// Whether other programs would be short of processors beside a shield.
    pub fn is_too_much(self, housekeeping: usize) -> bool {
        self.covered > COVERED_MAX || self.total > HOUSEKEEPING_MAX * housekeeping as f64
    }
}

/// Time on one processor, in the kernel's ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    cpu: u32,
    busy: u64,
    all: u64,
}

/// The lines `cpuN user nice system idle iowait irq softirq steal …`; what is no such line is left out.
fn parse(text: &str) -> Vec<Times> {
    let line = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
        let cpu = words.next()?.parse().ok()?;
        let ticks: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
        let [user, nice, system, idle, wait, irq, softirq, steal] = ticks[..] else { return None };
        let busy =
            [user, nice, system, irq, softirq].iter().fold(0, |a: u64, b| a.saturating_add(*b));
        let all = [idle, wait, steal].iter().fold(busy, |a, b| a.saturating_add(*b));
        Some(Times { cpu, busy, all })
    };
    // The first line has the sum, which has no number.
    text.lines().filter(|text| !text.starts_with("cpu ")).filter_map(line).collect()
}

fn between(before: &[Times], after: &[Times], covered: &[u32], own: f64) -> Load {
    let mut load = Load { covered: 0.0, total: 0.0 };
    for now in after {
        let Some(then) = before.iter().find(|then| then.cpu == now.cpu) else { continue };
        let all = now.all.saturating_sub(then.all);
        if all == 0 {
            continue;
        }
        let share = now.busy.saturating_sub(then.busy) as f64 / all as f64;
        load.total += share;
        if covered.contains(&now.cpu) {
            load.covered += share;
        }
    }
    load.total = (load.total - own).max(0.0);
    load.covered = (load.covered - own).max(0.0);
    load
}

/// The use that others make now; takes half a second. None: the kernel does not tell.
pub fn foreign(knobs: &dyn Knobs, covered: &[u32]) -> Option<Load> {
    let before = parse(&knobs.read("/proc/stat").ok()?);
    let (own, begin) = (counters::process_cpu_ns()?, Instant::now());
    thread::sleep(PERIOD);
    let after = parse(&knobs.read("/proc/stat").ok()?);
    let own_ns = counters::process_cpu_ns()?.saturating_sub(own);
    let own = own_ns as f64 / begin.elapsed().as_nanos() as f64;
    (!after.is_empty()).then(|| between(&before, &after, covered, own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_of_processors_is_told_by_processor_without_our_own() {
        let before = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 0 0 0 100 0 0 0 0 0 0\ncpu1 10 0 0 50 0 0 0 0 0 0\nintr 5\n";
        let after =
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 25 0 25 150 0 0 0 0 0 0\ncpu1 60 0 0 100 0 0 0 0 0 0\n";
        let (before, after) = (parse(before), parse(after));
        assert_eq!(after[1], Times { cpu: 1, busy: 60, all: 160 });
        let load = between(&before, &after, &[1], 0.25);
        assert_eq!(load, Load { covered: 0.25, total: 0.75 });
        assert!(load.is_too_much(4), "the shielded one is in use");
        let load = Load { covered: 0.0, total: 0.9 };
        assert!(load.is_too_much(1) && !load.is_too_much(2));
        assert_eq!(parse("cpu0 1 2\ncpux 1 2 3 4 5 6 7 8\ncpu\nnonsense"), []);
    }
}
