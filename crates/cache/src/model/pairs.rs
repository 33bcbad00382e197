//! Operators beside each other: what each of a pair keeps of what it has alone.
//!
//! Half of the cores run one operator, the other half another one; *alone* means the same half while the other one idles.
//! The sides have data and random numbers of their own, so that an operator alone on the other side is the same operator
//! once more: what it differs by is the model's own spread.

use super::machine::{Hardware, Job, Rate, run};
use super::operators::{Operator, Worker};
use super::study::{masks, times_ns};
use crate::mask::Mask;

/// What runs on a machine, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// By side; `None`: the half idles.
    pub sides: [Option<Operator>; 2],
    /// Ways that scans may fill, percent; all other operators may fill all.
    pub scan_percent: u32,
    /// Cores, 2 to 64.
    pub cores: usize,
    /// Time that is simulated before anything is counted, ns for each byte of the cache and each core.
    pub warm_ns: f64,
}

/// Rates by side.
///
/// Panics: if there are fewer than two cores, or more than 64.
pub fn rates(hardware: Hardware, pair: Pair) -> [Rate; 2] {
    let workers = pair.cores / 2;
    assert!(workers > 0, "each side has a core");
    let mut jobs = Vec::new();
    for (side, operator) in pair.sides.into_iter().enumerate() {
        let Some(operator) = operator else { continue };
        let restricted = operator == Operator::Scan && pair.scan_percent < 100;
        let mask = match restricted {
            true => {
                masks(hardware).divide(pair.scan_percent).expect("a cache has two ways").polluting
            }
            false => Mask::lowest(hardware.ways),
        };
        for number in 0..workers {
            let worker = Worker {
                side: side as u64,
                number: number as u64,
                count: workers as u64,
                shared_bytes: hardware.cache_bytes,
                private_bytes: hardware.private_bytes,
            };
            jobs.push(Job {
                pattern: operator.pattern(worker),
                mask,
                step_ns: operator.step_ns(),
                kind: side,
                core: side * workers + number,
            });
        }
    }
    let (warm, counted) = times_ns(hardware, pair.cores, pair.warm_ns);
    let rates = run(hardware, pair.cores, jobs, 2, warm, counted);
    [rates[0], rates[1]]
}

#[cfg(test)]
mod tests {
    use super::super::policy::Policy;
    use super::super::study::BRIEF_NS;
    use super::*;

    /// The paper's machine, a sixty-fourth of the size.
    fn small(policy: Policy) -> Hardware {
        Hardware { cache_bytes: 55 << 14, private_bytes: 16 << 10, policy, ..Hardware::broadwell() }
    }

    fn pair(sides: [Option<Operator>; 2], scan_percent: u32) -> Pair {
        Pair { sides, scan_percent, cores: 8, warm_ns: BRIEF_NS }
    }

    /// Slowdowns of both of a pair.
    fn slowdowns(policy: Policy, operators: [Operator; 2], scan_percent: u32) -> [f64; 2] {
        let of = |sides, percent| rates(small(policy), pair(sides, percent));
        let both = of(operators.map(Some), scan_percent);
        let left = of([Some(operators[0]), None], 100)[0];
        let right = of([None, Some(operators[1])], 100)[1];
        [left.steps_per_us / both[0].steps_per_us, right.steps_per_us / both[1].steps_per_us]
    }

    #[test]
    fn a_pair_has_the_same_rates_each_time() {
        for sides in
            [[Operator::Transactions, Operator::Sort], [Operator::LookUps, Operator::ViewUpkeep]]
        {
            let rates = || rates(small(Policy::QuadAge), pair(sides.map(Some), 10));
            assert_eq!(rates(), rates(), "{sides:?}");
        }
    }

    #[test]
    fn an_operator_alone_is_as_fast_on_either_side() {
        for operator in Operator::ALL {
            let rate = |sides, side: usize| rates(small(Policy::Lru), pair(sides, 100))[side];
            let one = rate([Some(operator), None], 0);
            let other = rate([None, Some(operator)], 1);
            let apart = (one.steps_per_us / other.steps_per_us - 1.0).abs();
            assert!(apart < 0.03, "{operator:?}: {one:?} {other:?}");
            assert_eq!(rate([Some(operator), None], 1), Rate::default(), "nobody does nothing");
        }
    }

    #[test]
    fn what_lives_in_private_caches_is_not_slowed_down_by_itself() {
        for operator in [Operator::JoinSmall, Operator::GroupFew] {
            for slowdown in slowdowns(Policy::Lru, [operator, operator], 100) {
                assert!((slowdown - 1.0).abs() < 0.05, "{operator:?} {slowdown}");
            }
        }
    }

    #[test]
    fn a_scan_slows_down_what_lives_from_the_cache_and_a_mask_gives_it_back() {
        for operator in [Operator::JoinCache, Operator::GroupMany, Operator::LookUps] {
            let beside = |percent| slowdowns(Policy::Lru, [operator, Operator::Scan], percent)[0];
            let (whole, masked) = (beside(100), beside(10));
            assert!(whole > 1.05, "{operator:?} {whole}");
            assert!(masked < 1.0 + (whole - 1.0) * 0.7, "{operator:?} {whole} {masked}");
        }
    }

    #[test]
    fn two_that_fit_alone_and_not_together_slow_each_other_down() {
        let [one, other] = slowdowns(Policy::Lru, [Operator::JoinCache, Operator::GroupMany], 100);
        assert!(one > 1.0 && other > 1.0 && one + other > 2.02, "{one} {other}");
    }

    #[test]
    fn scans_beside_each_other_share_the_bandwidth() {
        let hardware = Hardware { bytes_per_ns: 16.0, ..small(Policy::Lru) };
        let scan = Some(Operator::Scan);
        let alone = rates(hardware, pair([scan, None], 100))[0];
        let both = rates(hardware, pair([scan, scan], 100));
        for side in both {
            let slowdown = alone.steps_per_us / side.steps_per_us;
            assert!((slowdown - 2.0).abs() < 0.2, "{slowdown} {alone:?} {both:?}");
        }
    }
}
