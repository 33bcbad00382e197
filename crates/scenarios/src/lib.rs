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
mod measured;
mod report;
pub mod stressors;
mod tenants;
pub mod work;

use std::path::PathBuf;

use clap::Args;
use halcyon_machine::affinity;
use halcyon_noise::Tsc;
use halcyon_noise::runner::{Place, SCENARIOS, Scenario, Shield};
use serde_json::json;

use halcyon_gauge::{Arm, Failure, Reporter, Result};
use measured::{Conditions, Measured};
use report::{Row, Rows};
use tenants::{Load, Operations, Tenants};
use work::{Family, Work};

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
}

/// What stands for a shield where there is none.
struct NoShield;

impl Shield for NoShield {
    fn up(&mut self, _cpu: u32) -> Result<(), String> {
        let why = "needs a shield, which changes settings of the whole machine: run in a guest that has one";
        Err(why.into())
    }

    fn down(&mut self) -> Result<(), String> {
        Ok(())
    }
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
}

/// Runs the experiment over these workloads, without a shield.
pub fn run(options: &Options, works: &[Box<dyn Work + '_>], reporter: &mut Reporter) -> Result<()> {
    run_with(options, works, reporter, &mut NoShield)
}

/// Runs the experiment over these workloads with this shield.
pub fn run_with(
    options: &Options,
    works: &[Box<dyn Work + '_>],
    reporter: &mut Reporter,
    shield: &mut dyn Shield,
) -> Result<()> {
    let scenarios = scenarios(options)?;
    let ground = ground(options, works)?;
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

fn ground<'a>(options: &'a Options, works: &'a [Box<dyn Work + '_>]) -> Result<Ground<'a>> {
    let allowed = affinity::get()?;
    let last = allowed.last().copied().unwrap_or(0);
    let processors = u32::try_from(allowed.len()).unwrap_or(u32::MAX);
    let choose = |work: &'a Box<dyn Work + '_>| {
        let work: &dyn Work = work.as_ref();
        let tuples = measured::calibrated(work, options.tuples as usize, options.seconds)?;
        Ok(Chosen { work, tuples })
    };
    Ok(Ground {
        options,
        tsc: Tsc::measure(),
        cpu: options.cpu.unwrap_or(last),
        load: options.load.found()?,
        tenants_each: options.tenants.unwrap_or(processors).max(1),
        works: works.iter().map(choose).collect::<Result<_>>()?,
    })
}

/// All workloads in one scenario.
fn scenario(
    ground: &Ground<'_>,
    rows: &mut Rows,
    at: usize,
    traced: bool,
    shield: &mut dyn Shield,
) -> Result<()> {
    let scenario = rows.scenarios[at].scenario;
    if let Some(why) = missing(ground, scenario, shield) {
        rows.scenarios[at].missing = Some(why);
        return Ok(());
    }
    let tenants =
        scenario.load.then(|| Tenants::start(ground.load, ground.tenants_each)).transpose()?;
    let mut done = Ok(());
    for (query, chosen) in ground.works.iter().enumerate() {
        let conditions = Conditions {
            scenario,
            cpu: ground.cpu,
            tuples: chosen.tuples,
            bound_us: ground.options.bound_us,
            tenants: tenants.as_ref().map_or_else(Vec::new, Tenants::processes),
            window_s: ground.options.window,
            traced: traced.then_some(&rows.least[query]),
        };
        done = measured::run(chosen.work, &conditions, &ground.tsc)
            .map(|measured| rows.add(at, query, measured));
        if done.is_err() {
            break;
        }
    }
    // The shield comes down before an error is told.
    let down = if scenario.shield { shield.down() } else { Ok(()) };
    done?;
    down.map_err(Failure::Engine)?;
    if let (Some(tenants), false) = (tenants, traced) {
        rows.scenarios[at].operations.push(tenants.stop()?);
    }
    Ok(())
}

/// The reason why a scenario cannot be measured; without one its shield is up.
fn missing(ground: &Ground<'_>, scenario: &Scenario, shield: &mut dyn Shield) -> Option<String> {
    if scenario.place == Place::Cell {
        return Some("needs a cell, which no part of this program makes yet".into());
    }
    if scenario.fifo {
        if ground.cpu == 0 {
            return Some("a real-time policy on processor 0 would hold up the machine: name another by --cpu".into());
        }
        if let Some(why) = no_fifo() {
            return Some(why);
        }
    }
    if scenario.shield { shield.up(ground.cpu).err() } else { None }
}

/// The reason why this process may have no real-time threads.
fn no_fifo() -> Option<String> {
    use halcyon_machine::schedule::{Policy, set};
    let tried = std::thread::spawn(|| set(Policy::Fifo(measured::PRIORITY)).err()).join();
    let error = tried.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    Some(format!("this process may have no real-time threads: {error}"))
}

fn negative_control(ground: &Ground<'_>, reporter: &mut Reporter) -> Result<()> {
    let params = json!({ "scenario": "fifo beside a hog", "query": "loop", "seconds": ground.options.control });
    let mut arm = Arm::new("noise", "control", params);
    let fifo = SCENARIOS.iter().find(|one| one.name == "load-fifo").expect("the table has it");
    match missing(ground, fifo, &mut NoShield) {
        Some(why) => arm.figure("skipped", why),
        None => {
            reporter.progress("noise: negative control");
            let series = control::run(ground.cpu, ground.options.control, &ground.tsc)?;
            let summary = series.summary(ground.tsc.ticks(ground.options.bound_us));
            let summary =
                summary.ok_or_else(|| Failure::Engine("no tuple in the control".into()))?;
            report::summary(&mut arm, &summary, &ground.tsc);
            arm.figure("shows_over_10_ms", ground.tsc.us(summary.max) > 10_000.0);
        }
    }
    reporter.arm(arm);
    Ok(())
}

/// A scenario of this run.
struct Slot {
    /// Name; the repetition of the first scenario has one of its own.
    name: String,
    scenario: &'static Scenario,
    /// Whether this is the first scenario once more.
    again: bool,
    /// The reason why the scenario was not measured.
    missing: Option<String>,
    /// Operations of the tenants, by round.
    operations: Vec<Operations>,
}

impl Rows {
    fn new(ground: &Ground<'_>, scenarios: &[&'static Scenario]) -> Rows {
        let slot = |(scenario, again): (&'static Scenario, bool)| Slot {
            name: format!("{}{}", scenario.name, if again { " again" } else { "" }),
            scenario,
            again,
            missing: None,
            operations: Vec::new(),
        };
        let again = scenarios.first().map(|first| (*first, true));
        let all = scenarios.iter().map(|scenario| (*scenario, false)).chain(again);
        let scenarios: Vec<Slot> = all.map(slot).collect();
        let rows = scenarios
            .iter()
            .map(|_| ground.works.iter().map(|_| Row::default()).collect())
            .collect();
        let least = ground.works.iter().map(|_| Vec::new()).collect();
        Rows { scenarios, rows, least, bound_ticks: ground.tsc.ticks(ground.options.bound_us) }
    }

    fn add(&mut self, scenario: usize, query: usize, measured: Measured) {
        let (least, ticks) = (&mut self.least[query], measured.series.ticks());
        least.resize(ticks.len(), u64::MAX);
        least.iter_mut().zip(ticks).for_each(|(least, &ticks)| *least = ticks.min(*least));
        self.rows[scenario][query].add(measured, self.bound_ticks);
    }
}
