//! Operators of SQL in all pairs (P3 Figure 2): how much each slows down beside each other.
//!
//! Each operator is a session that may use one worker. *Alone* it runs over and over for a while; *together* two sessions
//! do, each on a thread and a worker of its own. On a machine of two cores or more they share caches and memory, and no core.
//! Slowdown is the time of a run together by the time of a run alone in the same round; the partner `nobody` is the
//! operator alone once more, which is the A/A spread.
//!
//! What other processes do in the meantime is counted. If they had more than a tenth of the processors' time, or the
//! machine has one core, nothing can be concluded, and every arm says so.
//!
//! Checked: every operator's answer against one that is computed row by row, before anything is measured; the same answer in every run;
//! look-ups one by one; the view's total after every run of updates; what a terminal's transactions keep true, at the end.
//!
//! The transactions of TPC-C are the caller's ([`Terminal`]): both sides have tables of their own, because locks are not what is measured.

mod operators;

use std::path::PathBuf;
use std::sync::Barrier;
use std::time::Instant;

use clap::Args;
use halcyon::Database;
use halcyon_gauge::measure::Rounds;
use halcyon_gauge::{Arm, Reporter};
use halcyon_machine::Topology;
use serde_json::json;

use self::operators::{Expected, Hand, OPERATORS, Operator, Sizes};
pub use self::operators::{Terminal, Terminals};
use crate::foreign::{Busy, FOREIGN_MAX};
use crate::heatmap::{self, Matrix};
use crate::{Failure, Result};

/// Options of `halcyon lab interference`.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// Rows that operators read
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1000..=1 << 30))]
    pub rows: u64,
    /// Seconds that each operator, and each pair, runs per round
    #[arg(long, default_value_t = 0.5, value_parser = crate::positive)]
    pub seconds: f64,
    /// Rounds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Operators by name, comma-separated; all if not given
    #[arg(long, value_delimiter = ',')]
    pub operators: Vec<String>,
    /// File for the matrix as a heat map
    #[arg(long)]
    pub svg: Option<PathBuf>,
    /// File for the matrix as JSON: one for each machine
    #[arg(long)]
    pub matrix: Option<PathBuf>,
}

/// The least slowdown of a sensitive operator beside a polluting one that bears the annotations out.
const CONTRADICTED_BELOW: f64 = 1.05;
/// Bytes of a row of a build side in a hash table, roughly.
const BUILT_ROW_BYTES: u64 = 40;

/// Slowdowns of all pairs; the last partner is nobody.
struct Slowdowns {
    operators: Vec<Operator>,
    /// By operator and partner.
    rounds: Vec<Vec<Rounds>>,
    alone_ns: Vec<Rounds>,
    foreign: f64,
}

/// Measures all pairs, and prints an arm for each operator and partner.
pub fn run(options: &Options, terminals: Terminals<'_>, reporter: &mut Reporter) -> Result<()> {
    let operators = chosen(&options.operators)?;
    let topology = Topology::of_this_machine_or_flat();
    let sizes = sizes(options.rows, &topology);
    let database = Database::in_memory();
    reporter.progress(format!("tables of {sizes:?}"));
    operators::load(&database, sizes)?;
    for &operator in &operators {
        Hand::new(&database, terminals, operator, 0, sizes)?.verify(sizes)?;
    }
    let found = measured(options, &database, terminals, operators, sizes, reporter)?;
    let cores = topology.processors.iter().filter(|processor| processor.allowed).count();
    let conclusive = found.foreign <= FOREIGN_MAX && cores > 1;
    if !conclusive {
        let foreign = found.foreign * 100.0;
        reporter.progress(format!(
            "inconclusive: other processes had {foreign:.0} % of {cores} processors"
        ));
    }
    report(&found, conclusive, reporter);
    write(options, &found, conclusive, &topology)
}

/// The names of all operators, in the order of the matrix.
#[cfg(test)]
pub(crate) fn operator_names() -> Vec<&'static str> {
    OPERATORS.iter().map(|operator| operator.name).collect()
}

fn chosen(names: &[String]) -> Result<Vec<Operator>> {
    let known = |name: &String| {
        let found = OPERATORS.into_iter().find(|operator| operator.name == name);
        found.ok_or_else(|| Failure::Engine(format!("there is no operator {name:?}")))
    };
    if names.is_empty() { Ok(OPERATORS.to_vec()) } else { names.iter().map(known).collect() }
}

/// Build sides by the machine's caches, as far as `rows` allow.
fn sizes(rows: u64, topology: &Topology) -> Sizes {
    let of = |level, other| {
        let cache = topology.caches.iter().find(|cache| cache.level == level);
        cache.map_or(other, |cache| cache.bytes)
    };
    let (private, shared) = (of(2, 1 << 20), of(3, 32 << 20));
    Sizes {
        fact: rows,
        small: (private / 4 / BUILT_ROW_BYTES).clamp(10, rows),
        cached: (shared / 2 / BUILT_ROW_BYTES).clamp(10, rows),
        large: (shared * 4 / BUILT_ROW_BYTES).clamp(10, rows),
    }
}

fn measured(
    options: &Options,
    database: &Database,
    terminals: Terminals<'_>,
    operators: Vec<Operator>,
    sizes: Sizes,
    reporter: &Reporter,
) -> Result<Slowdowns> {
    let count = operators.len();
    let mut found = Slowdowns {
        rounds: vec![vec![Rounds::default(); count + 1]; count],
        alone_ns: vec![Rounds::default(); count],
        operators,
        foreign: 0.0,
    };
    let mut hands = [Vec::new(), Vec::new()];
    for (side, hands) in hands.iter_mut().enumerate() {
        for &operator in &found.operators {
            hands.push(Hand::new(database, terminals, operator, side, sizes)?);
        }
    }
    let [left, right] = &mut hands;
    let before = Busy::now();
    for round in 0..options.rounds {
        reporter.progress(format!("round {} of {}", round + 1, options.rounds));
        let mut alone = Vec::with_capacity(count);
        for (at, hand) in left.iter_mut().enumerate() {
            let ns = turns(hand, options.seconds)?;
            found.alone_ns[at].push(ns);
            found.rounds[at][count].push(turns(hand, options.seconds)? / ns);
            alone.push(ns);
        }
        for first in 0..count {
            for second in first..count {
                let pair = (&mut left[first], &mut right[second]);
                let (one, other) = together(pair, options.seconds)?;
                found.rounds[first][second].push(one / alone[first]);
                if first != second {
                    found.rounds[second][first].push(other / alone[second]);
                }
            }
        }
    }
    found.foreign = Busy::foreign_between(before, Busy::now());
    for hand in hands.iter().flatten() {
        hand.check()?;
    }
    Ok(found)
}

/// Runs an operator for a while, at least once; ns per run.
fn turns(hand: &mut Hand, seconds: f64) -> Result<f64> {
    let began = Instant::now();
    let mut runs = 0_u32;
    while runs == 0 || began.elapsed().as_secs_f64() < seconds {
        hand.run()?;
        runs += 1;
    }
    Ok(began.elapsed().as_nanos() as f64 / f64::from(runs))
}

/// Runs two operators beside each other; ns per run of each, of the runs that the other one was there for.
fn together(pair: (&mut Hand, &mut Hand), seconds: f64) -> Result<(f64, f64)> {
    let start = Barrier::new(2);
    let run = |hand: &mut Hand| {
        start.wait();
        turns(hand, seconds)
    };
    let (one, other) = std::thread::scope(|scope| {
        let other = scope.spawn(|| run(pair.1));
        (run(pair.0), other.join())
    });
    let other = other.map_err(|_| Failure::Engine("an operator's thread panicked".into()))?;
    Ok((one?, other?))
}

fn report(found: &Slowdowns, conclusive: bool, reporter: &mut Reporter) {
    let partners = found.operators.iter().map(|operator| operator.name).chain(["nobody"]);
    let partners: Vec<&str> = partners.collect();
    for (at, operator) in found.operators.iter().enumerate() {
        for (partner, name) in partners.iter().enumerate() {
            let params = json!({"operator": operator.name, "partner": name});
            let mut arm = Arm::new("interference", "halcyon", params);
            let rounds = &found.rounds[at][partner];
            arm.rounded("slowdown", rounds.median());
            arm.rounded("slowdown_spread", rounds.spread());
            arm.rounded("alone_ms", found.alone_ns[at].median() / 1e6);
            arm.rounded("foreign_share", found.foreign);
            arm.figure("conclusive", conclusive);
            if let Some(told_apart) = told_apart(found, at, partner) {
                arm.figure("told_apart", told_apart);
            }
            if let Some(contradicted) = contradicted(found, at, partner).filter(|_| conclusive) {
                arm.figure("annotation_contradicted", contradicted);
            }
            reporter.arm(arm);
        }
    }
}

/// Whether a pair differs from the operator alone by more than that does from itself (A/A); `None` for the A/A pair.
fn told_apart(found: &Slowdowns, at: usize, partner: usize) -> Option<bool> {
    let [rounds @ .., again] = &found.rounds[at][..] else { return None };
    let pair = rounds.get(partner)?;
    Some((pair.median() / again.median() - 1.0).abs() > again.spread())
}

/// Whether a sensitive operator beside a polluting one was not slowed down; `None` for other pairs.
fn contradicted(found: &Slowdowns, at: usize, partner: usize) -> Option<bool> {
    let of = |at: usize| found.operators.get(at).map(|operator| operator.expected);
    let is_claim = of(at) == Some(Expected::Sensitive) && of(partner) == Some(Expected::Polluting);
    is_claim.then(|| found.rounds[at][partner].median() < CONTRADICTED_BELOW)
}

fn write(
    options: &Options,
    found: &Slowdowns,
    conclusive: bool,
    topology: &Topology,
) -> Result<()> {
    let names: Vec<&str> = found.operators.iter().map(|operator| operator.name).collect();
    let partners: Vec<&str> = names.iter().copied().chain(["nobody"]).collect();
    let table = |of: fn(&Rounds) -> f64| -> Vec<Vec<f64>> {
        let row = |row: &Vec<Rounds>| row.iter().map(of).collect();
        found.rounds.iter().map(row).collect()
    };
    let slowdowns = table(Rounds::median);
    if let Some(path) = &options.matrix {
        let text = json!({
            "caches": topology.caches, "processors": topology.processors.len(),
            "rows": options.rows, "operators": names, "partners": partners, "slowdown": slowdowns,
            "spread": table(Rounds::spread), "foreign_share": found.foreign, "conclusive": conclusive,
        });
        std::fs::write(path, format!("{text}\n"))?;
    }
    if let Some(path) = &options.svg {
        let title = match conclusive {
            true => "slowdown of operators (rows) beside partners",
            false => "slowdown beside partners; inconclusive: other processes were at work",
        };
        let matrix = Matrix { title, rows: &names, columns: &partners, slowdowns };
        std::fs::write(path, heatmap::svg(&[matrix]))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A terminal that counts its transactions, and may have lost some of them.
    struct Counting {
        done: u64,
        lost: bool,
        all: Arc<AtomicU64>,
    }

    impl Terminal for Counting {
        fn run(&mut self, transactions: u64) -> Result<()> {
            self.done += transactions;
            self.all.fetch_add(transactions, Ordering::Relaxed);
            Ok(())
        }

        fn check(&self) -> Result<()> {
            match self.lost {
                false => Ok(()),
                true => Err(Failure::WrongAnswer(format!("some of {} are lost", self.done))),
            }
        }
    }

    fn none(_: usize) -> Result<Box<dyn Terminal>> {
        Err(Failure::Engine("no terminal is asked for".into()))
    }

    #[test]
    fn transactions_are_an_operator_and_what_they_break_ends_the_experiment() {
        let all = Arc::new(AtomicU64::new(0));
        let options = Options {
            rows: 1000,
            seconds: 0.001,
            rounds: 1,
            operators: vec!["TPC-C".into(), "look-ups".into()],
            svg: None,
            matrix: None,
        };
        let with = |lost_on: usize| {
            let terminals = |side: usize| -> Result<Box<dyn Terminal>> {
                Ok(Box::new(Counting { done: 0, lost: side == lost_on, all: all.clone() }))
            };
            let mut reporter = Reporter::new(true);
            run(&options, &terminals, &mut reporter).map(|()| reporter.arms().len())
        };
        assert_eq!(with(2), Ok(6));
        // Verified once, alone twice, beside themselves on both sides, beside look-ups.
        assert!(all.load(Ordering::Relaxed) >= 600, "{all:?}");
        for side in [0, 1] {
            assert!(matches!(with(side), Err(Failure::WrongAnswer(_))));
        }
    }

    #[test]
    fn every_pair_is_measured_and_every_answer_checked() {
        let file =
            |name| std::env::temp_dir().join(format!("halcyon-{}-{name}", std::process::id()));
        let (svg, matrix) = (file("pairs.svg"), file("pairs.json"));
        let options = Options {
            rows: 2000,
            seconds: 0.001,
            rounds: 2,
            operators: OPERATORS[..9].iter().map(|operator| operator.name.to_owned()).collect(),
            svg: Some(svg.clone()),
            matrix: Some(matrix.clone()),
        };
        let mut reporter = Reporter::new(true);
        run(&options, &none, &mut reporter).expect("all answers are right");
        let count = options.operators.len();
        assert_eq!(reporter.arms().len(), count * (count + 1));
        assert!(reporter.arms().iter().all(|arm| arm.figures["slowdown"].as_f64() > Some(0.0)));
        let text = std::fs::read_to_string(&matrix).expect("it was written");
        let read: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        let of_engine =
            halcyon_workers::Matrix::parse(text.as_bytes()).expect("the engine reads it");
        assert_eq!(of_engine.rows().len(), count * (count + 1));
        assert_eq!(read["slowdown"].as_array().expect("rows").len(), count);
        let drawn = std::fs::read_to_string(&svg).expect("it was written");
        assert_eq!(drawn.matches("stroke=\"grey\"").count(), count * (count + 1));
        for path in [svg, matrix] {
            std::fs::remove_file(path).expect("it was written");
        }
    }

    #[test]
    fn the_engine_knows_the_operators_by_name_as_the_experiment_does() {
        use halcyon_task::CacheUse;
        for operator in OPERATORS {
            let wanted = match operator.expected {
                Expected::Polluting => CacheUse::Polluting,
                Expected::Sensitive => CacheUse::Sensitive,
                Expected::Neither => CacheUse::Adaptive,
            };
            assert_eq!(halcyon_workers::use_of(operator.name), wanted, "{}", operator.name);
        }
    }

    #[test]
    fn a_wrong_answer_ends_the_experiment() {
        let database = Database::in_memory();
        let sizes = Sizes { fact: 1000, small: 10, cached: 100, large: 500 };
        operators::load(&database, sizes).expect("tables");
        let scan = OPERATORS[0];
        let other = Sizes { fact: 999, ..sizes };
        let wrong =
            Hand::new(&database, &none, scan, 0, sizes).and_then(|mut hand| hand.verify(other));
        assert!(matches!(wrong, Err(Failure::WrongAnswer(_))), "{wrong:?}");
        let mut hand = Hand::new(&database, &none, scan, 0, sizes).expect("a session");
        hand.run().expect("an answer");
        database.session().batch("UPDATE fact SET v = v + 1 WHERE id = 0").expect("it may");
        assert!(matches!(hand.run(), Err(Failure::WrongAnswer(_))), "another answer than before");
        assert!(matches!(chosen(&["none".to_owned()]), Err(Failure::Engine(_))));
    }

    #[test]
    fn an_annotation_is_contradicted_where_a_sensitive_operator_is_not_slowed_down() {
        let by = |slowdown: f64| {
            let mut rounds = vec![vec![Rounds::default(); 3]; 2];
            rounds[1][0].push(slowdown);
            let operators = vec![OPERATORS[0], OPERATORS[2]];
            let found = Slowdowns { operators, rounds, alone_ns: Vec::new(), foreign: 0.0 };
            assert_eq!(contradicted(&found, 0, 1), None, "the scan claims nothing of itself");
            assert_eq!(contradicted(&found, 1, 2), None, "nobody pollutes nothing");
            contradicted(&found, 1, 0)
        };
        assert_eq!((by(1.4), by(1.01)), (Some(false), Some(true)));
    }

    #[test]
    fn a_difference_within_that_of_nobody_tells_nothing() {
        let rounds = |values: &[f64]| {
            let mut rounds = Rounds::default();
            values.iter().for_each(|&value| rounds.push(value));
            rounds
        };
        let row = vec![rounds(&[1.3, 1.35]), rounds(&[1.1, 1.05]), rounds(&[0.9, 1.1])];
        let operators = vec![OPERATORS[0], OPERATORS[2]];
        let found = Slowdowns { operators, rounds: vec![row], alone_ns: Vec::new(), foreign: 0.0 };
        let told = [0, 1, 2].map(|partner| told_apart(&found, 0, partner));
        assert_eq!(told, [Some(true), Some(false), None]);
    }
}
