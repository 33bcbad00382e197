//! Noise (P2): the time of every single tuple, in the paper's scenarios, and what made the late ones late.
//!
//! A thread that is pinned to one processor works through tuples and stamps the end of each with the processor's counter,
//! gapless, so that nothing hides between two tuples; nothing is cut from a series. Workloads are a bare loop, updates of a
//! hash map, and the events of incremental views. Scenarios take turns in rounds; the first of them is measured once more
//! at the end of each round, which is the A/A difference. Causes of outliers come from runs of their own, with the
//! kernel's tracer on; figures come from runs without it.
//!
//! The load of other processes is measured beside every run. Rounds with more than `--foreign-max` cores of it have no part
//! in a figure, and a figure that fewer than half of the rounds would make is `inconclusive`.
//! Checked: a workload's checksum is the same in all scenarios, rounds and traced runs.

#![forbid(unsafe_code)]

mod control;
mod foreign;
pub mod in_cell;
mod measured;
mod report;
mod rows;
mod scene;
mod shielded;
pub mod stressors;
mod tenants;
pub mod work;

use std::path::PathBuf;

use clap::Args;
use halcyon_machine::affinity;
use halcyon_noise::Tsc;
use halcyon_noise::runner::{Place, SCENARIOS, Scenario, Shield};

use halcyon_gauge::{Failure, Reporter, Result};
use rows::Rows;
use scene::{NoShield, negative_control, scenario};
use shielded::Shielded;
use tenants::Load;
use work::{Family, Work};

pub use shielded::{Guardian, guard};

/// Options of `halcyon lab noise`.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// Only these workloads: loop, map, finance queries, TPC-H queries
    #[arg(long, value_delimiter = ',')]
    pub query: Vec<String>,
    /// Only these scenarios
    #[arg(long, value_delimiter = ',')]
    pub scenario: Vec<String>,
    /// Tuples of a series at most
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(100..))]
    pub tuples: u32,
    /// Processor time of a series at most, seconds
    #[arg(long, default_value_t = 1.0, value_parser = positive)]
    pub seconds: f64,
    /// Rounds; scenarios take turns
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// The measured processor: the last one that this process may use if not given
    #[arg(long)]
    pub cpu: Option<u32>,
    /// What the tenants are
    #[arg(long, value_enum, default_value = "auto")]
    pub load: Load,
    /// Tenants of each of the six kinds: as many as there are processors if not given
    #[arg(long)]
    pub tenants: Option<u32>,
    /// What counts as an outlier, µs
    #[arg(long, default_value_t = 5.0, value_parser = positive)]
    pub bound_us: f64,
    /// Scale factor of TPC-H
    #[arg(long, default_value_t = 0.05, value_parser = positive)]
    pub sf: f64,
    /// Seed of the order books
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// No traced runs, so no causes
    #[arg(long)]
    pub no_trace: bool,
    /// Seconds of the negative control, a real-time thread beside a hog; 0: none
    #[arg(long, default_value_t = 3.0)]
    pub control: f64,
    /// Cores of other processes up to which a round counts
    #[arg(long, default_value_t = 0.2)]
    pub foreign_max: f64,
    /// The load of other processes is measured for at least so many seconds around each run
    #[arg(long, default_value_t = 0.5)]
    pub window: f64,
    /// Folder for the figures
    #[arg(long)]
    pub svg: Option<PathBuf>,
    /// Shield the measured processor in the scenarios with a shield and of cells: settings of the whole machine are changed
    /// and come back, as of halcyon shield up; root only
    #[arg(long)]
    pub shield: bool,
    /// Shield although other programs use the processors, or may go on to
    #[arg(long, requires = "shield")]
    pub shield_force: bool,
}

/// A positive number of a command line.
fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if number > 0.0 && number.is_finite() { Ok(number) } else { Err("it is above 0".into()) }
}

/// What all scenarios share.
struct Ground<'a> {
    options: &'a Options,
    tsc: Tsc,
    cpu: u32,
    load: Load,
    tenants_each: u32,
    works: Vec<Chosen<'a>>,
}

/// A workload, and the number of tuples of each of its series.
struct Chosen<'a> {
    work: &'a dyn Work,
    tuples: usize,
    /// The reason why the workload does not run in a cell, if a scenario wants one.
    cell_missing: Option<String>,
}

/// Runs the experiment over these workloads, with a shield if that was asked for.
pub fn run(options: &Options, works: &[Box<dyn Work + '_>], reporter: &mut Reporter) -> Result<()> {
    match options.shield {
        false => run_with(options, works, reporter, &mut NoShield),
        true => run_with(options, works, reporter, &mut Shielded::new(options.shield_force)?),
    }
}

/// Runs the experiment over these workloads with this shield.
pub fn run_with(
    options: &Options,
    works: &[Box<dyn Work + '_>],
    reporter: &mut Reporter,
    shield: &mut dyn Shield,
) -> Result<()> {
    let scenarios = scenarios(options)?;
    let has_cells = scenarios.iter().any(|scenario| scenario.place == Place::Cell);
    let ground = ground(options, works, has_cells)?;
    report::machine(&ground, reporter);
    let mut rows = Rows::new(&ground, &scenarios);
    for round in 1..=options.rounds {
        for at in 0..rows.scenarios.len() {
            let name = rows.scenarios[at].name.clone();
            reporter.progress(format_args!("noise: round {round} of {}, {name}", options.rounds));
            scenario(&ground, &mut rows, at, false, shield)?;
        }
    }
    if !options.no_trace {
        // The repetition of the first scenario comes last.
        for at in 0..scenarios.len() {
            reporter.progress(format_args!("noise: causes, {}", rows.scenarios[at].name));
            scenario(&ground, &mut rows, at, true, shield)?;
        }
    }
    report::arms(&ground, &rows, reporter);
    if options.control > 0.0 {
        negative_control(&ground, reporter)?;
    }
    match &options.svg {
        Some(folder) => report::figures(&ground, &rows, folder),
        None => Ok(()),
    }
}

fn scenarios(options: &Options) -> Result<Vec<&'static Scenario>> {
    let unknown =
        options.scenario.iter().find(|name| SCENARIOS.iter().all(|one| one.name != **name));
    if let Some(name) = unknown {
        let known: Vec<_> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        return Err(Failure::Engine(format!("no scenario {name}; there are {}", known.join(", "))));
    }
    let wanted = |scenario: &&Scenario| {
        options.scenario.is_empty() || options.scenario.iter().any(|name| name == scenario.name)
    };
    Ok(SCENARIOS.iter().filter(wanted).collect())
}

fn ground<'a>(
    options: &'a Options,
    works: &'a [Box<dyn Work + '_>],
    has_cells: bool,
) -> Result<Ground<'a>> {
    let allowed = affinity::get()?;
    let last = allowed.last().copied().unwrap_or(0);
    let processors = u32::try_from(allowed.len()).unwrap_or(u32::MAX);
    let choose = |work: &'a (dyn Work + 'a)| {
        let tuples = measured::calibrated(work, options.tuples as usize, options.seconds)?;
        let cell_missing = if has_cells { work.cell_missing() } else { None };
        Ok(Chosen { work, tuples, cell_missing })
    };
    Ok(Ground {
        options,
        tsc: Tsc::measure(),
        cpu: options.cpu.unwrap_or(last),
        load: options.load.found()?,
        tenants_each: options.tenants.unwrap_or(processors).max(1),
        works: works.iter().map(|work| choose(work.as_ref())).collect::<Result<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_cell::Seat;
    use crate::work::Plain;
    use clap::Parser;
    use halcyon_noise::Runner;
    use serde_json::json;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn options(more: &[&str]) -> Options {
        let all = ["noise", "--tuples", "500", "--rounds", "2", "--window", "0", "--control", "0"];
        Line::parse_from(all.iter().chain(more)).options
    }

    static SHIELDED: Scenario =
        Scenario { name: "shield", load: false, fifo: false, shield: true, place: Place::Native };

    /// Notes what is asked of it.
    #[derive(Default)]
    struct Fake(Vec<&'static str>);

    impl Shield for Fake {
        fn up(&mut self, _cpu: u32) -> Result<(), String> {
            self.0.push("up");
            Ok(())
        }

        fn down(&mut self) -> Result<(), String> {
            self.0.push("down");
            Ok(())
        }
    }

    /// A workload that no cell runs.
    struct NoCell;

    impl Work for NoCell {
        fn name(&self) -> &str {
            "no-cell"
        }

        fn family(&self) -> Family {
            Family::Plain
        }

        fn tuples_max(&self, tuples: usize) -> usize {
            tuples
        }

        fn runner(&self) -> Box<dyn Runner + '_> {
            Plain::Loop.runner()
        }
    }

    /// A workload of a cell's twin: a thread in place of a machine, so that the test runs everywhere.
    struct InThread(Plain);

    impl Work for InThread {
        fn name(&self) -> &str {
            "in-thread"
        }

        fn family(&self) -> Family {
            Family::Plain
        }

        fn tuples_max(&self, tuples: usize) -> usize {
            tuples
        }

        fn runner(&self) -> Box<dyn Runner + '_> {
            self.0.runner()
        }

        fn cell_missing(&self) -> Option<String> {
            None
        }

        fn cell(&self, seat: Seat) -> Result<Box<dyn Runner + '_>, String> {
            let place = halcyon_cell::Place::Thread;
            self.0.cell(Seat { place, fifo: None, ..seat })
        }
    }

    #[test]
    fn a_cell_is_measured_with_or_without_a_shield_and_has_the_native_checksum() {
        static CELL: Scenario =
            Scenario { name: "cell", load: false, fifo: false, shield: true, place: Place::Cell };
        let options = options(&["--no-trace"]);
        let works: [Box<dyn Work>; 2] =
            [Box::new(InThread(Plain::Map)), Box::new(InThread(Plain::Loop))];
        let processors = affinity::get().expect("affinity can be asked for").len();
        if processors < 2 {
            return eprintln!("skipped: a cell and its host need two processors");
        }
        let ground = ground(&options, &works, true).expect("a machine");
        let mut rows = Rows::new(&ground, &[&SCENARIOS[0], &CELL]);
        scenario(&ground, &mut rows, 0, false, &mut NoShield).expect("it runs");
        let mut shield = Fake::default();
        scenario(&ground, &mut rows, 1, false, &mut shield).expect("it runs");
        scenario(&ground, &mut rows, 1, true, &mut NoShield).expect("it runs without");
        assert_eq!(shield.0, ["up", "down"]);
        let mut reporter = Reporter::new(true);
        report::arms(&ground, &rows, &mut reporter);
        assert!(reporter.all_ok(), "checksums are equal");
        let arm = &reporter.arms()[2];
        assert_eq!((arm.engine.as_str(), &arm.params["scenario"]), ("cell", &json!("cell")));
        assert_eq!(arm.figures["tuples"], json!(500));
        assert!(arm.figures["shield"].as_str().is_some_and(|why| why.starts_with("none: ")));
        assert!(arm.figures.contains_key("traced"), "{:?}", arm.figures);
    }

    /// A workload that cannot be made ready.
    struct Broken;

    impl Work for Broken {
        fn name(&self) -> &str {
            "broken"
        }

        fn family(&self) -> Family {
            Family::Plain
        }

        fn tuples_max(&self, _tuples: usize) -> usize {
            0
        }

        fn runner(&self) -> Box<dyn Runner + '_> {
            struct Never;
            impl Runner for Never {
                fn prepare(&mut self) -> Result<(), String> {
                    Err("planted".into())
                }

                fn run(&mut self, _: usize, _: &mut halcyon_noise::Stamps) -> Result<(), String> {
                    Ok(())
                }

                fn checksum(&mut self) -> Result<u64, String> {
                    Ok(0)
                }
            }
            Box::new(Never)
        }
    }

    #[test]
    fn a_shield_is_up_for_its_scenario_and_comes_down_although_work_fails() {
        let options = options(&[]);
        let works: [Box<dyn Work>; 1] = [Box::new(Plain::Loop)];
        let mut ground = ground(&options, &works, false).expect("a machine");
        let mut rows = Rows::new(&ground, &[&SHIELDED]);
        let mut shield = Fake::default();
        scenario(&ground, &mut rows, 0, false, &mut shield).expect("it runs");
        assert_eq!((shield.0.as_slice(), &rows.scenarios[0].missing), (&["up", "down"][..], &None));
        ground.works = vec![Chosen { work: &Broken, tuples: 1, cell_missing: None }];
        let failed = scenario(&ground, &mut rows, 0, false, &mut shield).expect_err("it is broken");
        assert_eq!(failed, Failure::Engine("planted".into()));
        assert_eq!(shield.0, ["up", "down", "up", "down"]);
    }

    #[test]
    fn scenarios_without_their_shield_or_cell_say_what_they_need() {
        let options = options(&["--scenario", "no-load,load-shield,cell", "--no-trace"]);
        let works: [Box<dyn Work>; 2] = [Box::new(NoCell), Box::new(NoCell)];
        let mut reporter = Reporter::new(true);
        run(&options, &works, &mut reporter).expect("it runs");
        assert!(reporter.all_ok());
        // The machine, and each workload in three scenarios and in the first one again.
        assert_eq!(reporter.arms().len(), 1 + 2 * 4);
        let arm = |scenario: &str| {
            let found = reporter
                .arms()
                .iter()
                .find(|arm| arm.params.get("scenario") == Some(&json!(scenario)));
            &found.expect("an arm of each scenario").figures
        };
        for (scenario, needs) in [("load-shield", "needs a shield"), ("cell", "needs a cell")] {
            let skipped = arm(scenario)["skipped"].as_str().expect("a sentence");
            assert!(
                skipped.starts_with(needs) && !arm(scenario).contains_key("p50_us"),
                "{skipped}"
            );
        }
        assert_eq!(arm("no-load again")["by_round"].as_array().map(Vec::len), Some(2));
        assert!(!arm("no-load").contains_key("traced"));
    }

    #[test]
    fn unknown_scenarios_are_refused_with_those_that_there_are() {
        let options = options(&["--scenario", "quiet"]);
        let error = scenarios(&options).expect_err("there is none");
        assert!(
            error.to_string().contains("no scenario quiet; there are no-load, load"),
            "{error}"
        );
        assert!(positive("-1").is_err() && positive("inf").is_err() && positive("0.5") == Ok(0.5));
    }
}
