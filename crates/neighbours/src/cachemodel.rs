//! P4's Figure 4 on a model: an aggregation beside a column scan, on a last-level cache whose ways are
//! masked (`halcyon_cache::model`), by several policies of replacement.
//!
//! With `--matrix`: operators of SQL in all pairs on the same model (`matrix`), the simulated counterpart of
//! [`crate::interference`].
//!
//! Nothing here is measured; every figure is simulated, and says so. The model counts misses as
//! valgrind's cachegrind does (`crates/cache/tests/cachegrind.rs`); its times are assumed, and how much depends on
//! them is shown by aggregations with more and less work for a row.

mod curves;
mod matrix;
mod runs;

use std::path::PathBuf;

use clap::Args;
use halcyon_cache::model::machine::Hardware;
use halcyon_cache::model::operators::Operator;
use halcyon_cache::model::policy::Policy;
use halcyon_cache::model::study::{BRIEF_NS, Load, SETTLED_NS, Scheme, Who};
use halcyon_gauge::{Arm, Reporter};
use serde_json::json;

use self::curves::{Curve, Panel};
use self::runs::{Case, Machine, Runs, Throughputs};
use crate::Result;

/// Options of `halcyon lab cachemodel`.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// Operators in all pairs, as `interference` measures them, in place of the aggregation beside a scan
    #[arg(long)]
    pub matrix: bool,
    /// Operators of the matrix by name, comma-separated; all if not given
    #[arg(long, value_delimiter = ',', requires = "matrix", value_parser = matrix::operator)]
    pub operators: Vec<Operator>,
    /// Cores of the machine, half for the aggregation, or one operator of a pair, and half for the scan, or the other one
    #[arg(long, default_value_t = 22, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub cores: u16,
    /// Policies of replacement, comma-separated (lru, srrip, drrip, quad-age); if not given all, and quad-age with --matrix
    #[arg(long, value_delimiter = ',', value_parser = policy)]
    pub policies: Vec<Policy>,
    /// A cache and dictionaries of a sixteenth of the size, a few masks; with --matrix a sixty-fourth: for tests
    #[arg(long)]
    pub tiny: bool,
    /// File for the curves, or for the matrix as a heat map
    #[arg(long)]
    pub svg: Option<PathBuf>,
}

/// Dictionaries, MiB: in the cache, as large as it, and larger.
const DICTIONARIES_MIB: [u64; 3] = [4, 40, 400];
const GROUPS: u64 = 1000;
/// Work for a row, ns.
const ROW_NS: [f64; 3] = [5.0, 20.0, 50.0];
const PERCENTS: [u32; 6] = [10, 20, 40, 60, 80, 100];
const CORES: [u16; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Policies that are simulated on other counts of cores: the plainest, and what is known of the processor.
const OF_CORES: [Policy; 2] = [Policy::Lru, Policy::QuadAge];
/// Gains that P4 §3 tells: of the aggregation, of the scan, and the best of all.
const PAPER_GAIN: f64 = 0.21;
const PAPER_SCAN_GAIN: f64 = 0.06;
const PAPER_BEST: f64 = 0.38;
/// The masks that gains are told of: none, and a tenth for the scan.
const WITHOUT: Scheme = Scheme::Unpartitioned;
const WITH: Scheme = Scheme::ScanRestricted(10);

/// What is simulated, and where results go.
struct Study<'a> {
    runs: Runs,
    policies: Vec<Policy>,
    /// What sizes are divided by.
    shrink: u64,
    percents: &'static [u32],
    reporter: &'a mut Reporter,
}

/// Gains by a mask of a tenth.
struct Gains {
    aggregation: f64,
    /// Of the sum of both shares.
    both: f64,
}

/// Simulates, and prints an arm for every machine, load and scheme.
pub fn run(options: &Options, reporter: &mut Reporter) -> Result<()> {
    if options.matrix {
        return matrix::run(options, reporter);
    }
    let whole = Hardware::broadwell();
    let (hardware, shrink) = match options.tiny {
        false => (whole, 1),
        true => {
            let small =
                Hardware { cache_bytes: whole.cache_bytes >> 4, private_bytes: 16 << 10, ..whole };
            (small, 16)
        }
    };
    let policies = match options.policies.is_empty() {
        true => Policy::ALL.to_vec(),
        false => options.policies.clone(),
    };
    let percents: &[u32] = if options.tiny { &[10, 50, 100] } else { &PERCENTS };
    let mut study = Study { runs: Runs::new(hardware), policies, shrink, percents, reporter };
    let cores: &[u16] = if options.tiny { &[1, 4] } else { &CORES };
    let mut panels = study.masks(options.cores);
    panels.extend(study.row_costs(options.cores));
    study.dictionaries(options.cores);
    study.translations(options.cores);
    panels.push(study.core_counts(cores));
    if let Some(path) = &options.svg {
        std::fs::write(path, curves::svg(&panels))?;
    }
    Ok(())
}

fn policy(name: &str) -> Result<Policy, String> {
    let found = Policy::ALL.into_iter().find(|policy| policy.name() == name);
    found.ok_or_else(|| "not one of lru, srrip, drrip, quad-age".to_owned())
}

fn flat(policy: Policy) -> Machine {
    Machine { policy, translated: false }
}

/// The cases behind gains.
fn of_gains(machine: Machine, load: Load) -> impl Iterator<Item = Case> {
    let both = [WITHOUT, WITH].map(|scheme| Case { machine, load, scheme, who: Who::Both });
    both.into_iter().chain(runs::alone(machine, load))
}

impl Study<'_> {
    fn load(&self, cores: u16, mib: u64, row_ns: f64) -> Load {
        let dictionary_bytes = (mib << 20) / self.shrink;
        Load {
            cores: usize::from(cores),
            dictionary_bytes,
            groups: GROUPS / self.shrink,
            row_ns,
            warm_ns: if self.shrink > 1 { BRIEF_NS } else { SETTLED_NS },
        }
    }

    fn arm(&self, machine: Machine, load: Load, scheme: &str, percent: u32) -> Arm {
        let pages = if machine.translated { "4 KiB" } else { "not translated" };
        Arm::new(
            "cachemodel",
            "simulated",
            json!({"policy": machine.policy.name(), "pages": pages, "cores": load.cores,
                   "dictionary_bytes": load.dictionary_bytes, "groups": load.groups,
                   "row_ns": load.row_ns, "scheme": scheme, "scan_ways_percent": percent}),
        )
    }

    /// An arm for both beside each other; shares of what each has alone.
    fn beside(&mut self, machine: Machine, load: Load, scheme: Scheme) -> Throughputs {
        let alone = self.runs.alone(machine, load);
        let outcome = self.runs.outcome(Case { machine, load, scheme, who: Who::Both });
        let (aggregation, scan) = (outcome.aggregation, outcome.scan);
        let shares = Throughputs {
            aggregation: aggregation.steps_per_us / alone.aggregation,
            scan: scan.steps_per_us / alone.scan,
        };
        let (name, percent) = match scheme {
            Scheme::Unpartitioned => ("unpartitioned", 100),
            Scheme::ScanRestricted(percent) => ("scan restricted", percent),
            Scheme::Divided(percent) => ("divided", percent),
        };
        let mut arm = self.arm(machine, load, name, percent);
        arm.rounded("aggregation_share_of_alone", shares.aggregation);
        arm.rounded("scan_share_of_alone", shares.scan);
        arm.rounded("aggregation_rows_per_us", aggregation.steps_per_us);
        arm.rounded("scan_lines_per_us", scan.steps_per_us);
        arm.rounded("aggregation_hit_share", aggregation.hit_share);
        arm.rounded("memory_gb_per_s", aggregation.bytes_per_ns + scan.bytes_per_ns);
        self.reporter.arm(arm);
        shares
    }

    /// What a mask of a tenth gains; an arm that has the paper's gains beside.
    fn gains(&mut self, machine: Machine, load: Load) -> Gains {
        let without = self.beside(machine, load, WITHOUT);
        let with = self.beside(machine, load, WITH);
        let sum = |shares: Throughputs| shares.aggregation + shares.scan;
        let gains = Gains {
            aggregation: with.aggregation / without.aggregation - 1.0,
            both: sum(with) / sum(without) - 1.0,
        };
        let mut arm = self.arm(machine, load, "gain", 10);
        arm.rounded("aggregation_gain", gains.aggregation);
        arm.rounded("scan_gain", with.scan / without.scan - 1.0);
        arm.rounded("both_gain", gains.both);
        arm.rounded("p4_aggregation_gain_max", PAPER_GAIN);
        arm.rounded("p4_scan_gain_max", PAPER_SCAN_GAIN);
        arm.rounded("p4_both_gain_max", PAPER_BEST);
        self.reporter.arm(arm);
        gains
    }

    /// Shares by the scan's mask, a curve for each policy.
    fn masks(&mut self, cores: u16) -> Vec<Panel> {
        let load = self.load(cores, DICTIONARIES_MIB[1], ROW_NS[1]);
        let percents = self.percents.iter().map(|&percent| Scheme::ScanRestricted(percent));
        let schemes: Vec<Scheme> = percents.chain([Scheme::Divided(10)]).collect();
        let machines: Vec<Machine> = self.policies.iter().map(|&policy| flat(policy)).collect();
        self.runs.prepare(machines.iter().flat_map(|&machine| {
            let both = schemes.iter();
            let both = both.map(move |&scheme| Case { machine, load, scheme, who: Who::Both });
            both.chain(runs::alone(machine, load))
        }));
        let (mut aggregations, mut scans) = (Vec::new(), Vec::new());
        for machine in machines {
            let (mut aggregation, mut scan) = (Vec::new(), Vec::new());
            for &scheme in &schemes {
                let shares = self.beside(machine, load, scheme);
                if let Scheme::ScanRestricted(percent) = scheme {
                    aggregation.push((f64::from(percent), shares.aggregation));
                    scan.push((f64::from(percent), shares.scan));
                }
            }
            aggregations.push(Curve::new(machine.policy.name(), aggregation));
            scans.push(Curve::new(machine.policy.name(), scan));
        }
        let panel = |what: &str, curves| Panel {
            title: format!("{what}, dictionary 40 MiB, {cores} cores"),
            x: "ways of the scan, %",
            y: "throughput / alone",
            curves,
            marks: Vec::new(),
        };
        vec![panel("aggregation", aggregations), panel("scan", scans)]
    }

    /// Gains by the aggregation's work for a row: of the aggregation, and of both.
    fn row_costs(&mut self, cores: u16) -> Vec<Panel> {
        let loads = ROW_NS.map(|row_ns| self.load(cores, DICTIONARIES_MIB[1], row_ns));
        let points = loads.map(|load| (load.row_ns, load));
        let policies = self.policies.clone();
        let [aggregation, both] = self.gain_curves(&policies, &points);
        let x = "work for a row, ns";
        vec![
            gain_panel("gain of the aggregation", x, aggregation, ("P4: +21 %", PAPER_GAIN)),
            gain_panel("gain of both shares' sum", x, both, ("P4, best: +38 %", PAPER_BEST)),
        ]
    }

    /// Gains by cores, of the aggregation.
    fn core_counts(&mut self, counts: &[u16]) -> Panel {
        let point = |&cores| (f64::from(cores), self.load(cores, DICTIONARIES_MIB[1], ROW_NS[1]));
        let points: Vec<(f64, Load)> = counts.iter().map(point).collect();
        let policies: Vec<Policy> =
            OF_CORES.into_iter().filter(|policy| self.policies.contains(policy)).collect();
        let [aggregation, _] = self.gain_curves(&policies, &points);
        gain_panel("gain of the aggregation", "cores", aggregation, ("P4: +21 %", PAPER_GAIN))
    }

    /// Gains with dictionaries of other sizes.
    fn dictionaries(&mut self, cores: u16) {
        let sizes = [DICTIONARIES_MIB[0], DICTIONARIES_MIB[2]];
        let points = sizes.map(|mib| (mib as f64, self.load(cores, mib, ROW_NS[1])));
        let policies = self.policies.clone();
        self.gain_curves(&policies, &points);
    }

    /// Gains where addresses are translated.
    fn translations(&mut self, cores: u16) {
        let load = self.load(cores, DICTIONARIES_MIB[1], ROW_NS[1]);
        let machine = |&policy: &Policy| Machine { policy, translated: true };
        let machines: Vec<Machine> = self.policies.iter().map(machine).collect();
        self.runs.prepare(machines.iter().flat_map(|&machine| of_gains(machine, load)));
        for machine in machines {
            self.gains(machine, load);
        }
    }

    /// Gains of the aggregation and of both, a curve for each policy.
    fn gain_curves(&mut self, policies: &[Policy], points: &[(f64, Load)]) -> [Vec<Curve>; 2] {
        let cases = policies.iter().flat_map(|&policy| {
            points.iter().flat_map(move |&(_, load)| of_gains(flat(policy), load))
        });
        self.runs.prepare(cases);
        let mut curves = [Vec::new(), Vec::new()];
        for &policy in policies {
            let (mut aggregation, mut both) = (Vec::new(), Vec::new());
            for &(x, load) in points {
                let gains = self.gains(flat(policy), load);
                aggregation.push((x, gains.aggregation));
                both.push((x, gains.both));
            }
            curves[0].push(Curve::new(policy.name(), aggregation));
            curves[1].push(Curve::new(policy.name(), both));
        }
        curves
    }
}

fn gain_panel(
    title: &str,
    x: &'static str,
    curves: Vec<Curve>,
    mark: (&'static str, f64),
) -> Panel {
    Panel {
        title: format!("{title}, dictionary 40 MiB"),
        x,
        y: "gain of a mask of 10 %",
        curves,
        marks: vec![mark],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tiny_model_prints_arms_and_draws_every_panel() {
        let path = std::env::temp_dir().join(format!("halcyon-model-{}.svg", std::process::id()));
        let policies = vec![policy("lru").expect("known"), policy("drrip").expect("known")];
        let options = Options {
            matrix: false,
            operators: Vec::new(),
            cores: 4,
            policies,
            tiny: true,
            svg: Some(path.clone()),
        };
        let mut reporter = Reporter::new(true);
        run(&options, &mut reporter).expect("nothing can fail but the file");
        // For each policy 3 masks and a division, then three arms of a gain: 3 costs, 2 dictionaries, a
        // translation; for one of them, 2 counts of cores.
        assert_eq!(reporter.arms().len(), 2 * (4 + 3 * 6) + 3 * 2);
        let share = |arm: &Arm| arm.figures.get("aggregation_share_of_alone")?.as_f64();
        for arm in reporter.arms() {
            let plausible = share(arm).is_none_or(|share| share > 0.05 && share < 1.1);
            assert!(plausible, "{arm:?}");
            assert_eq!(arm.engine, "simulated");
        }
        let (masked, whole) = (&reporter.arms()[0], &reporter.arms()[2]);
        assert!(
            share(masked) > share(whole),
            "a dictionary as large as the cache: {masked:?} {whole:?}"
        );
        let svg = std::fs::read_to_string(&path).expect("it was written");
        assert_eq!(svg.matches("simulated").count(), 5);
        assert!(svg.contains(">drrip</text>"));
        std::fs::remove_file(path).expect("it was written");
        assert!(policy("fifo").is_err());
    }
}
