//! The slowdown matrix, simulated: each operator alone, each pair without masks, and each operator beside the scan while
//! scans may fill a tenth of the ways.
//!
//! Slowdown is what an operator does alone by what the same workers do beside the partner. The partner `nobody` is the
//! operator alone once more, on the other half of the cores, with other data and random numbers: by as much as that
//! differs from 1, two simulations of one thing differ.

use std::collections::HashMap;

use halcyon_cache::model::machine::{Hardware, Rate};
use halcyon_cache::model::operators::Operator;
use halcyon_cache::model::pairs::{Pair, rates};
use halcyon_cache::model::policy::Policy;
use halcyon_cache::model::study::{BRIEF_NS, SETTLED_NS};
use halcyon_gauge::{Arm, Reporter};
use serde_json::json;

use super::{Options, runs};
use crate::heatmap::{self, Matrix};
use crate::{Failure, Result};

/// Ways that scans may fill in the second matrix, percent.
const MASKED_PERCENT: u32 = 10;
const WHOLE_PERCENT: u32 = 100;
/// The partner of an operator that runs alone.
const NOBODY: &str = "nobody";
/// The pair that is simulated once more, with twice the time to settle.
const SETTLING: [Operator; 2] = [Operator::JoinCache, Operator::Scan];

/// A simulation. What runs alone runs on the first side, but for the partner `nobody`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Case {
    policy: Policy,
    sides: [Option<Operator>; 2],
    scan_percent: u32,
    /// Time to settle, ns for each byte of the cache and each core.
    warm_ns: f64,
}

/// Slowdowns by a policy.
struct Slowdowns {
    policy: Policy,
    /// By operator and partner, the last of which is nobody.
    pairs: Vec<Vec<f64>>,
    /// By operator, beside the scan that fills a tenth of the ways: the operator's, and the scan's.
    masked: Vec<Vec<f64>>,
}

/// What is simulated, and what came of it.
struct Study<'a> {
    hardware: Hardware,
    cores: usize,
    operators: Vec<Operator>,
    warm_ns: f64,
    known: HashMap<String, [Rate; 2]>,
    reporter: &'a mut Reporter,
}

/// Simulates all pairs, and prints an arm for each operator and partner.
pub fn run(options: &Options, reporter: &mut Reporter) -> Result<()> {
    if options.cores < 2 {
        return Err(Failure::Engine("a pair of operators needs two cores".into()));
    }
    let whole = Hardware::broadwell();
    let hardware = match options.tiny {
        false => whole,
        true => Hardware { cache_bytes: whole.cache_bytes >> 6, private_bytes: 16 << 10, ..whole },
    };
    let operators = match options.operators.is_empty() {
        true => Operator::ALL.to_vec(),
        false => options.operators.clone(),
    };
    let policies = match options.policies.is_empty() {
        true => vec![Policy::QuadAge],
        false => options.policies.clone(),
    };
    let warm_ns = if options.tiny { BRIEF_NS } else { SETTLED_NS };
    let (cores, known) = (usize::from(options.cores), HashMap::new());
    let mut study = Study { hardware, cores, operators, warm_ns, known, reporter };
    let mut slowdowns = Vec::new();
    for &policy in &policies {
        study.reporter.progress(format!("pairs of operators by {}", policy.name()));
        let (pairs, masked) = (study.pairs(policy), study.masked(policy));
        slowdowns.push(Slowdowns { policy, pairs, masked });
        study.settling(policy, 2.0 * warm_ns);
    }
    match &options.svg {
        Some(path) => Ok(std::fs::write(path, drawn(&study.operators, slowdowns))?),
        None => Ok(()),
    }
}

/// The operator of a name.
pub fn operator(name: &str) -> Result<Operator, String> {
    let found = Operator::ALL.into_iter().find(|operator| operator.name() == name);
    let names = || Operator::ALL.map(Operator::name).join(", ");
    found.ok_or_else(|| format!("not one of {}", names()))
}

/// A matrix, and the scan's masked columns beside it, for each policy.
fn drawn(operators: &[Operator], slowdowns: Vec<Slowdowns>) -> String {
    let names: Vec<&str> = operators.iter().map(|operator| operator.name()).collect();
    let partners: Vec<&str> = names.iter().copied().chain(["nobody"]).collect();
    let titles: Vec<String> = slowdowns
        .iter()
        .map(|Slowdowns { policy, .. }| {
            format!("simulated ({}): slowdown of operators (rows) beside partners", policy.name())
        })
        .collect();
    let mut matrices = Vec::new();
    for (found, title) in slowdowns.into_iter().zip(&titles) {
        matrices.push(Matrix { title, rows: &names, columns: &partners, slowdowns: found.pairs });
        matrices.push(Matrix {
            title: "simulated, scan masked to 10 %",
            rows: &names,
            columns: &["scan", "scan's own"],
            slowdowns: found.masked,
        });
    }
    heatmap::svg(&matrices)
}

impl Study<'_> {
    fn case(&self, policy: Policy, sides: [Option<Operator>; 2], scan_percent: u32) -> Case {
        Case { policy, sides, scan_percent, warm_ns: self.warm_ns }
    }

    /// Simulates what is not known yet.
    fn prepare(&mut self, cases: impl IntoIterator<Item = Case>) {
        let mut wanted: HashMap<String, Case> = HashMap::new();
        for case in cases {
            let key = format!("{case:?}");
            if !self.known.contains_key(&key) {
                wanted.insert(key, case);
            }
        }
        let wanted: Vec<(String, Case)> = wanted.into_iter().collect();
        let (hardware, cores) = (self.hardware, self.cores);
        self.known.extend(runs::each(&wanted, |(key, case)| {
            let &Case { policy, sides, scan_percent, warm_ns } = case;
            let hardware = Hardware { policy, ..hardware };
            (key.clone(), rates(hardware, Pair { sides, scan_percent, cores, warm_ns }))
        }));
    }

    fn rates(&mut self, case: Case) -> [Rate; 2] {
        self.prepare([case]);
        self.known[&format!("{case:?}")]
    }

    /// Slowdowns by operator and partner, the last of which is nobody.
    fn pairs(&mut self, policy: Policy) -> Vec<Vec<f64>> {
        let operators = self.operators.clone();
        let mut cases = Vec::new();
        for (at, &one) in operators.iter().enumerate() {
            cases.push(self.case(policy, [Some(one), None], WHOLE_PERCENT));
            cases.push(self.case(policy, [None, Some(one)], WHOLE_PERCENT));
            let others = operators[at..].iter();
            cases.extend(
                others.map(|&other| self.case(policy, [Some(one), Some(other)], WHOLE_PERCENT)),
            );
        }
        self.prepare(cases);
        let mut slowdowns = Vec::new();
        for (at, &operator) in operators.iter().enumerate() {
            let mut row = Vec::new();
            for (other, &partner) in operators.iter().enumerate() {
                let sides = if at <= other { [operator, partner] } else { [partner, operator] };
                let case = self.case(policy, sides.map(Some), WHOLE_PERCENT);
                row.push(self.beside(case, usize::from(at > other), partner.name()));
            }
            let nobody = self.case(policy, [None, Some(operator)], WHOLE_PERCENT);
            row.push(self.beside(nobody, 1, NOBODY));
            slowdowns.push(row);
        }
        slowdowns
    }

    /// Slowdowns by operator beside the scan that fills a tenth of the ways: the operator's, and the scan's.
    fn masked(&mut self, policy: Policy) -> Vec<Vec<f64>> {
        let pair = |&operator: &Operator| [Some(operator), Some(Operator::Scan)];
        let pairs: Vec<_> = self.operators.iter().map(pair).collect();
        let cases: Vec<Case> =
            pairs.iter().map(|&sides| self.case(policy, sides, MASKED_PERCENT)).collect();
        let scan = self.case(policy, [Some(Operator::Scan), None], WHOLE_PERCENT);
        self.prepare(cases.iter().copied().chain([scan]));
        let mut slowdowns = Vec::new();
        for (operator, case) in self.operators.clone().into_iter().zip(cases) {
            let own = self.beside(case, 0, Operator::Scan.name());
            let of_scan = match operator {
                Operator::Scan => own,
                _ => self.beside(case, 1, operator.name()),
            };
            slowdowns.push(vec![own, of_scan]);
        }
        slowdowns
    }

    /// A pair after so much time to settle.
    fn settling(&mut self, policy: Policy, warm_ns: f64) {
        let [operator, partner] = SETTLING;
        let case = |sides, scan_percent| Case { policy, sides, scan_percent, warm_ns };
        let pair = |percent| case(SETTLING.map(Some), percent);
        self.prepare([
            case([Some(operator), None], WHOLE_PERCENT),
            pair(WHOLE_PERCENT),
            pair(MASKED_PERCENT),
        ]);
        for percent in [WHOLE_PERCENT, MASKED_PERCENT] {
            self.beside(pair(percent), 0, partner.name());
        }
    }

    /// Slowdown of what runs on a side; an arm for it.
    fn beside(&mut self, case: Case, side: usize, partner: &str) -> f64 {
        let operator = case.sides[side].expect("an operator runs on the side");
        let alone = Case { sides: [Some(operator), None], scan_percent: WHOLE_PERCENT, ..case };
        let (alone, beside) = (self.rates(alone)[0], self.rates(case)[side]);
        let slowdown = alone.steps_per_us / beside.steps_per_us;
        let mut arm = Arm::new(
            "cachemodel",
            "simulated",
            json!({"operator": operator.name(), "partner": partner, "policy": case.policy.name(),
                   "cores": self.cores, "scan_ways_percent": case.scan_percent,
                   "settled_ns_per_byte": case.warm_ns}),
        );
        arm.rounded("slowdown", slowdown);
        arm.rounded("hit_share_alone", alone.hit_share);
        arm.rounded("hit_share_beside", beside.hit_share);
        arm.rounded("steps_per_us_alone", alone.steps_per_us);
        arm.rounded("memory_gb_per_s", beside.bytes_per_ns);
        self.reporter.arm(arm);
        slowdown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interference::operator_names;

    const CHOSEN: [Operator; 3] = [Operator::Scan, Operator::JoinSmall, Operator::JoinCache];

    fn simulated(policies: Vec<Policy>, svg: Option<std::path::PathBuf>) -> Vec<Arm> {
        let operators = CHOSEN.to_vec();
        let options = Options { matrix: true, operators, cores: 4, policies, tiny: true, svg };
        let mut reporter = Reporter::new(true);
        run(&options, &mut reporter).expect("nothing can fail but the file");
        reporter.arms().to_vec()
    }

    fn slowdown(arms: &[Arm], operator: &str, partner: &str, percent: u32) -> f64 {
        let is_it = |arm: &&Arm| {
            arm.params["operator"] == operator
                && arm.params["partner"] == partner
                && arm.params["scan_ways_percent"] == percent
                && arm.params["settled_ns_per_byte"] == BRIEF_NS
        };
        let found: Vec<&Arm> = arms.iter().filter(is_it).collect();
        assert_eq!(found.len(), 1, "{operator} beside {partner}, {percent} %");
        found[0].figures["slowdown"].as_f64().expect("a number")
    }

    #[test]
    fn a_tiny_matrix_has_every_pair_the_masked_scan_and_the_same_figures_each_time() {
        let path = std::env::temp_dir().join(format!("halcyon-pairs-{}.svg", std::process::id()));
        let arms = simulated(vec![Policy::Lru], Some(path.clone()));
        // Three partners and nobody; beside the masked scan the three and the scan itself; a pair that settles longer.
        assert_eq!(arms.len(), 3 * 4 + 3 + 2 + 2);
        assert!(arms.iter().all(|arm| arm.engine == "simulated" && arm.params["cores"] == 4));
        for operator in CHOSEN {
            let nobody = slowdown(&arms, operator.name(), NOBODY, 100);
            assert!((nobody - 1.0).abs() < 0.03, "{operator:?} {nobody}");
        }
        let own = slowdown(&arms, "join small", "join small", 100);
        assert!((own - 1.0).abs() < 0.05, "{own}");
        let (polluted, masked) =
            (slowdown(&arms, "join cache", "scan", 100), slowdown(&arms, "join cache", "scan", 10));
        assert!(polluted > 1.05 && masked < polluted - 0.02, "{polluted} {masked}");
        assert!(slowdown(&arms, "scan", "join cache", 10) > 0.9);
        let svg = std::fs::read_to_string(&path).expect("it was written");
        assert_eq!(svg.matches("stroke=\"grey\"").count(), 3 * 4 + 3 * 2);
        assert_eq!(svg.matches(">simulated").count(), 2, "both say so");
        std::fs::remove_file(path).expect("it was written");
        let told = |arms: &[Arm]| -> Vec<String> {
            let text = |arm| serde_json::to_string(arm).expect("maps of text and numbers");
            arms.iter().map(text).collect()
        };
        assert_eq!(told(&simulated(vec![Policy::Lru], None)), told(&arms));
    }

    #[test]
    fn without_a_policy_the_processors_is_simulated_and_one_core_has_no_pairs() {
        let arms = simulated(Vec::new(), None);
        assert!(arms.iter().all(|arm| arm.params["policy"] == "quad-age"));
        let options = Options {
            matrix: true,
            operators: Vec::new(),
            cores: 1,
            policies: Vec::new(),
            tiny: true,
            svg: None,
        };
        let refused = run(&options, &mut Reporter::new(true));
        assert!(matches!(refused, Err(Failure::Engine(_))), "{refused:?}");
    }

    #[test]
    fn operators_have_the_names_of_those_that_are_measured() {
        let names: Vec<&str> = Operator::ALL.iter().map(|operator| operator.name()).collect();
        let measured = operator_names();
        assert_eq!(names, measured);
        assert_eq!(operator("look-ups"), Ok(Operator::LookUps));
        assert!(operator("lookups").is_err_and(|told| told.contains("look-ups, view upkeep")));
    }
}
