//! P4's aggregation beside a scan, simulated: how much of its throughput each keeps, for masks of the scan
//! from a tenth of the cache to the whole.
//!
//! Half of the cores run the aggregation, a row a step, the other half the scan, a line a step; *alone*
//! means the same half while the other one idles. On one core both take turns.

use super::machine::{Hardware, Job, Rate, run};
use super::patterns::{CODE_BYTES, Pattern};
use crate::mask::{Mask, MaskRules};

/// Work of a scan for a line of sixteen values beside its loads, ns.
const LINE_NS: f64 = 2.0;
/// Rows of the aggregation's columns for each worker; bytes of the scan's.
const ROWS: u64 = 16 << 20;
const SCAN_BYTES: u64 = 256 << 20;
const AGGREGATION: usize = 0;
const SCAN: usize = 1;

/// A load of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Cores, 1 to 64.
    pub cores: usize,
    /// Bytes of the dictionary that all workers of the aggregation share.
    pub dictionary_bytes: u64,
    /// Groups; every worker has a table of them.
    pub groups: u64,
    /// Work of the aggregation for a row beside its loads, ns. P4 does not tell it, and much
    /// depends on it.
    pub row_ns: f64,
    /// Time that is simulated before anything is counted, ns for each byte of the cache and each core.
    pub warm_ns: f64,
}

/// [`Load::warm_ns`] after which gains no longer change by policies without a duel: the scans have refilled the
/// cache five times.
pub const BRIEF_NS: f64 = 2.3;
/// [`Load::warm_ns`] of figures: duels take longer to settle. (The gain by quad-age is 9 % after 2.3, 20 % after 9.2, 19 %
/// after 36.8.)
pub const SETTLED_NS: f64 = 9.2;
/// Time in which is counted, ns for each byte of the cache and each core.
const COUNTED_NS: f64 = 1.15;

impl Load {
    /// Times that are simulated before anything is counted, and while it is, ns: jobs that share a core have
    /// several turns.
    fn times_ns(self, hardware: Hardware) -> (f64, f64) {
        let turns = if self.cores == 1 { 8e6 } else { 0.0 };
        let (warm, counted) = times_ns(hardware, self.cores, self.warm_ns);
        (warm.max(turns), counted.max(turns / 2.0))
    }
}

/// Times that are simulated before anything is counted, and while it is, ns.
pub(super) fn times_ns(hardware: Hardware, cores: usize, warm_ns: f64) -> (f64, f64) {
    let of = |ns: f64| ns * hardware.cache_bytes as f64 / cores as f64;
    (of(warm_ns), of(COUNTED_NS))
}

/// The rules of a machine's masks: any ways that lie beside each other.
pub(super) fn masks(hardware: Hardware) -> MaskRules {
    let full = Mask::lowest(hardware.ways);
    MaskRules { full, shareable: Mask(0), ways_min: 1, sparse: false }
}

/// Who fills which ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// All fill all ways.
    Unpartitioned,
    /// The scan fills a share of the ways, percent, and the aggregation all: P4's.
    ScanRestricted(u32),
    /// The scan fills a share of the ways, and the aggregation the others: [`MaskRules::divide`].
    Divided(u32),
}

/// Rates of both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// The aggregation's.
    pub aggregation: Rate,
    /// The scan's.
    pub scan: Rate,
}

/// Which of the two run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The aggregation.
    Aggregation,
    /// The scan.
    Scan,
    /// Both.
    Both,
}

/// Runs a load by a scheme of masks.
pub fn outcome(hardware: Hardware, load: Load, scheme: Scheme, who: Who) -> Outcome {
    let full = Mask::lowest(hardware.ways);
    let rules = masks(hardware);
    let divided = |percent| rules.divide(percent).expect("a cache has two ways");
    let (scan, aggregation) = match scheme {
        Scheme::Unpartitioned => (full, full),
        Scheme::ScanRestricted(100) => (full, full),
        Scheme::ScanRestricted(percent) => (divided(percent).polluting, full),
        Scheme::Divided(percent) => (divided(percent).polluting, divided(percent).sensitive),
    };
    let workers = (load.cores / 2).max(1);
    let mut jobs = Vec::new();
    for worker in 0..workers {
        // Structures of different workers lie far apart.
        let address = (worker as u64 + 1) << 40;
        jobs.push(Job {
            pattern: Pattern::aggregate(
                address,
                ROWS,
                1 << 39,
                load.dictionary_bytes / super::patterns::ENTRY_BYTES,
                load.groups,
                worker as u64 + 1,
            ),
            mask: aggregation,
            step_ns: load.row_ns,
            kind: AGGREGATION,
            core: worker,
        });
        jobs.push(Job {
            pattern: Pattern::scan(address + (1 << 36), SCAN_BYTES),
            mask: scan,
            step_ns: LINE_NS,
            kind: SCAN,
            core: if load.cores == 1 { 0 } else { workers + worker },
        });
    }
    // A core of its own has either alone on one core, too: half of that is its share (`alone`).
    jobs.retain(|job| match who {
        Who::Aggregation => job.kind == AGGREGATION,
        Who::Scan => job.kind == SCAN,
        Who::Both => true,
    });
    let (warm, counted) = load.times_ns(hardware);
    let rates = run(hardware, load.cores.max(1), jobs, 2, warm, counted);
    Outcome { aggregation: rates[AGGREGATION], scan: rates[SCAN] }
}

/// Steps per microsecond of both alone: the aggregation's, and the scan's. On one core, half of a core's.
pub fn alone(hardware: Hardware, load: Load) -> (f64, f64) {
    let share = if load.cores == 1 { 0.5 } else { 1.0 };
    let of = |who| outcome(hardware, load, Scheme::Unpartitioned, who);
    let aggregation = of(Who::Aggregation).aggregation.steps_per_us;
    (aggregation * share, of(Who::Scan).scan.steps_per_us * share)
}

/// Values of a line of the scanned column: what turns lines into rows.
pub const ROWS_PER_LINE: u64 = super::patterns::LINE_BYTES / CODE_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's machine, a sixteenth of the size, so that an unoptimised test is quick.
    fn small() -> Hardware {
        Hardware { cache_bytes: 55 << 16, private_bytes: 16 << 10, ..Hardware::broadwell() }
    }

    fn load(dictionary_bytes: u64, cores: usize) -> Load {
        Load { cores, dictionary_bytes, groups: 100, row_ns: 5.0, warm_ns: BRIEF_NS }
    }

    #[test]
    fn a_restricted_scan_helps_an_aggregation_whose_dictionary_is_as_large_as_the_cache() {
        let gain = |dictionary| {
            let of = |scheme| {
                let outcome = outcome(small(), load(dictionary, 4), scheme, Who::Both);
                outcome.aggregation.steps_per_us
            };
            of(Scheme::ScanRestricted(10)) / of(Scheme::Unpartitioned)
        };
        let (tiny, as_cache, huge) = (gain(8 << 10), gain(2 << 20), gain(200 << 20));
        assert!(as_cache > 1.05, "{as_cache}");
        assert!(as_cache > tiny + 0.03 && as_cache > huge + 0.03, "{tiny} {as_cache} {huge}");
    }

    #[test]
    fn one_core_is_shared_by_turns() {
        let load = load(1 << 20, 1);
        let (aggregation, scan) = alone(small(), load);
        let both = outcome(small(), load, Scheme::Unpartitioned, Who::Both);
        assert!(both.aggregation.steps_per_us <= aggregation * 1.05);
        assert!((both.scan.steps_per_us / scan - 1.0).abs() < 0.2);
    }
}
