//! P4's Figure 4 on a model: an aggregation beside a column scan, on a last-level cache whose ways are
//! masked (`halcyon_cache::model`).
//!
//! Nothing here is measured; every figure is simulated, and says so. The model counts misses as
//! valgrind's cachegrind does (`crates/cache/tests/cachegrind.rs`); its times are assumed, and how much depends on
//! them is shown by aggregations with more and less work for a row.

mod curves;

use std::path::PathBuf;

use clap::Args;
use halcyon_cache::model::machine::Hardware;
use halcyon_cache::model::study::{Load, Outcome, Scheme, Who, alone, outcome};
use halcyon_gauge::{Arm, Reporter};
use serde_json::json;

use self::curves::{Curve, Panel};
use crate::Result;

/// Options of `halcyon lab cachemodel`.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// Cores of the machine, half for the aggregation and half for the scan
    #[arg(long, default_value_t = 22, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub cores: u16,
    /// A cache and dictionaries of a sixteenth of the size, a few masks: for tests
    #[arg(long)]
    pub tiny: bool,
    /// File for the curves
    #[arg(long)]
    pub svg: Option<PathBuf>,
}

/// Dictionaries, MiB: in the cache, as large as it, and larger.
const DICTIONARIES_MIB: [u64; 3] = [4, 40, 400];
const GROUPS: u64 = 1000;
/// Work for a row, ns.
const ROW_NS: [f64; 3] = [5.0, 20.0, 50.0];
const CORES: [u16; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Gains that P4 §3 tells: of the aggregation, and the best of all.
const PAPER_GAIN: f64 = 0.21;
const PAPER_BEST: f64 = 0.38;

/// What is simulated, and where results go.
struct Study<'a> {
    hardware: Hardware,
    /// What sizes are divided by.
    shrink: u64,
    percents: Vec<u32>,
    reporter: &'a mut Reporter,
}

/// Throughput of both as shares of what each has alone.
#[derive(Clone, Copy)]
struct Shares {
    aggregation: f64,
    scan: f64,
}

/// Simulates, and prints an arm for every load and scheme.
pub fn run(options: &Options, reporter: &mut Reporter) -> Result<()> {
    let whole = Hardware::broadwell();
    let (hardware, shrink) = match options.tiny {
        false => (whole, 1),
        true => {
            let small =
                Hardware { cache_bytes: whole.cache_bytes >> 4, private_bytes: 16 << 10, ..whole };
            (small, 16)
        }
    };
    let percents =
        if options.tiny { vec![10, 50, 100] } else { (1..=10).map(|p| p * 10).collect() };
    let mut study = Study { hardware, shrink, percents, reporter };
    let mut panels = study.masks(options.cores);
    panels.push(study.row_costs(options.cores));
    let cores: &[u16] = if options.tiny { &[1, 4] } else { &CORES };
    panels.push(study.core_counts(cores));
    if let Some(path) = &options.svg {
        std::fs::write(path, curves::svg(&panels))?;
    }
    Ok(())
}

impl Study<'_> {
    fn load(&self, cores: u16, mib: u64, row_ns: f64) -> Load {
        let dictionary_bytes = (mib << 20) / self.shrink;
        Load { cores: usize::from(cores), dictionary_bytes, groups: GROUPS / self.shrink, row_ns }
    }

    /// An arm for both beside each other.
    fn beside(&mut self, load: Load, alone: (f64, f64), scheme: Scheme) -> Shares {
        let Outcome { aggregation, scan } = outcome(self.hardware, load, scheme, Who::Both);
        let shares = Shares {
            aggregation: aggregation.steps_per_us / alone.0,
            scan: scan.steps_per_us / alone.1,
        };
        let (name, percent) = match scheme {
            Scheme::Unpartitioned => ("unpartitioned", 100),
            Scheme::ScanRestricted(percent) => ("scan restricted", percent),
            Scheme::Divided(percent) => ("divided", percent),
        };
        let mut arm = Arm::new(
            "cachemodel",
            "simulated",
            json!({"cores": load.cores, "dictionary_bytes": load.dictionary_bytes,
                   "groups": load.groups, "row_ns": load.row_ns, "scheme": name, "scan_ways_percent": percent}),
        );
        arm.rounded("aggregation_share_of_alone", shares.aggregation);
        arm.rounded("scan_share_of_alone", shares.scan);
        arm.rounded("aggregation_rows_per_us", aggregation.steps_per_us);
        arm.rounded("scan_lines_per_us", scan.steps_per_us);
        arm.rounded("aggregation_hit_share", aggregation.hit_share);
        arm.rounded("memory_gb_per_s", aggregation.bytes_per_ns + scan.bytes_per_ns);
        self.reporter.arm(arm);
        shares
    }

    /// Shares by the scan's mask, a panel for each dictionary.
    fn masks(&mut self, cores: u16) -> Vec<Panel> {
        let mut panels = Vec::new();
        for mib in DICTIONARIES_MIB {
            let load = self.load(cores, mib, ROW_NS[1]);
            let alone = alone(self.hardware, load);
            let mut both = [Vec::new(), Vec::new()];
            for percent in self.percents.clone() {
                let shares = self.beside(load, alone, Scheme::ScanRestricted(percent));
                both[0].push((f64::from(percent), shares.aggregation));
                both[1].push((f64::from(percent), shares.scan));
            }
            let divided = self.beside(load, alone, Scheme::Divided(10));
            let [aggregation, scan] = both;
            panels.push(Panel {
                title: format!("dictionary {mib} MiB, {cores} cores"),
                x: "ways of the scan, %",
                y: "throughput / alone",
                curves: vec![
                    Curve::new("aggregation", aggregation),
                    Curve::new("scan", scan),
                    Curve::new("aggregation, other ways only", vec![(10.0, divided.aggregation)]),
                ],
                marks: Vec::new(),
            });
        }
        panels
    }

    /// What a mask of a tenth gains the aggregation, and both: (of the aggregation, of the sum of shares).
    fn gains(&mut self, load: Load) -> (f64, f64) {
        let alone = alone(self.hardware, load);
        let without = self.beside(load, alone, Scheme::Unpartitioned);
        let with = self.beside(load, alone, Scheme::ScanRestricted(10));
        let sum = |shares: Shares| shares.aggregation + shares.scan;
        (with.aggregation / without.aggregation - 1.0, sum(with) / sum(without) - 1.0)
    }

    /// Gains by the aggregation's work for a row.
    fn row_costs(&mut self, cores: u16) -> Panel {
        let mut gains = [Vec::new(), Vec::new()];
        for row_ns in ROW_NS {
            let load = self.load(cores, DICTIONARIES_MIB[1], row_ns);
            let (aggregation, both) = self.gains(load);
            gains[0].push((row_ns, aggregation));
            gains[1].push((row_ns, both));
        }
        gain_panel("gain by work for a row, dictionary 40 MiB", "work for a row, ns", gains)
    }

    /// Gains by cores.
    fn core_counts(&mut self, counts: &[u16]) -> Panel {
        let mut gains = [Vec::new(), Vec::new()];
        for &cores in counts {
            let load = self.load(cores, DICTIONARIES_MIB[1], ROW_NS[1]);
            let (aggregation, both) = self.gains(load);
            gains[0].push((f64::from(cores), aggregation));
            gains[1].push((f64::from(cores), both));
        }
        gain_panel("gain by cores, dictionary 40 MiB", "cores", gains)
    }
}

fn gain_panel(title: &str, x: &'static str, [aggregation, both]: [Vec<(f64, f64)>; 2]) -> Panel {
    Panel {
        title: title.to_owned(),
        x,
        y: "gain of a mask of 10 %",
        curves: vec![
            Curve::new("aggregation", aggregation),
            Curve::new("sum of both shares", both),
        ],
        marks: vec![("P4: +21 %", PAPER_GAIN), ("P4, best: +38 %", PAPER_BEST)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tiny_model_prints_arms_and_draws_every_panel() {
        let path = std::env::temp_dir().join(format!("halcyon-model-{}.svg", std::process::id()));
        let options = Options { cores: 4, tiny: true, svg: Some(path.clone()) };
        let mut reporter = Reporter::new(true);
        run(&options, &mut reporter).expect("nothing can fail but the file");
        // 3 dictionaries by 3 masks and a division; 3 costs and 2 counts of cores, without and with.
        assert_eq!(reporter.arms().len(), 3 * 4 + 2 * 3 + 2 * 2);
        let share =
            |arm: &Arm| arm.figures["aggregation_share_of_alone"].as_f64().expect("a number");
        for arm in reporter.arms() {
            assert!(share(arm) > 0.05 && share(arm) < 1.1, "{arm:?}");
            assert_eq!(arm.engine, "simulated");
        }
        let (masked, whole) = (&reporter.arms()[4], &reporter.arms()[6]);
        assert!(
            share(masked) > share(whole),
            "a dictionary as large as the cache: {masked:?} {whole:?}"
        );
        let svg = std::fs::read_to_string(&path).expect("it was written");
        assert_eq!(svg.matches("simulated").count(), 5);
        std::fs::remove_file(path).expect("it was written");
    }
}
