//! One scenario: what must be there before, its shield, its tenants, and its workloads one after the other.

use halcyon_gauge::{Arm, Failure, Reporter, Result};
use halcyon_machine::affinity;
use halcyon_noise::runner::{Place, SCENARIOS, Scenario, Shield};
use serde_json::json;

use crate::measured::{self, Conditions};
use crate::report;
use crate::rows::Rows;
use crate::tenants::Tenants;
use crate::{Ground, control};

/// What stands for a shield where none was asked for.
pub struct NoShield;

impl Shield for NoShield {
    fn up(&mut self, _cpu: u32) -> Result<(), String> {
        let why = "needs a shield, which changes settings of the whole machine: --shield raises one, as root";
        Err(why.into())
    }

    fn down(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// All workloads in one scenario. A cell has its processor's real-time policy to itself, so its scenarios are measured
/// without a shield too, and say so.
pub fn scenario(
    ground: &Ground<'_>,
    rows: &mut Rows,
    at: usize,
    traced: bool,
    shield: &mut dyn Shield,
) -> Result<()> {
    let slot = &mut rows.scenarios[at];
    let scenario = slot.scenario;
    if let Some(why) = missing(ground, scenario) {
        slot.missing = Some(why);
        return Ok(());
    }
    let up = if scenario.shield { Some(shield.up(ground.cpu)) } else { None };
    let is_up = matches!(up, Some(Ok(())));
    match up {
        None => {}
        Some(Ok(())) => slot.shield = Some("up".into()),
        Some(Err(why)) if scenario.place == Place::Cell => {
            slot.shield = Some(format!("none: {why}"));
        }
        Some(Err(why)) => {
            slot.missing = Some(why);
            return Ok(());
        }
    }
    let done = all_works(ground, rows, at, traced);
    // The shield comes down before an error is told.
    let down = if is_up { shield.down() } else { Ok(()) };
    done?;
    down.map_err(Failure::Engine)
}

fn all_works(ground: &Ground<'_>, rows: &mut Rows, at: usize, traced: bool) -> Result<()> {
    let scenario = rows.scenarios[at].scenario;
    let tenants =
        scenario.load.then(|| Tenants::start(ground.load, ground.tenants_each)).transpose()?;
    for (query, chosen) in ground.works.iter().enumerate() {
        if let (Place::Cell, Some(why)) = (scenario.place, &chosen.cell_missing) {
            rows.rows[at][query].missing = Some(why.clone());
            continue;
        }
        let conditions = Conditions {
            scenario,
            cpu: ground.cpu,
            tuples: chosen.tuples,
            bound_us: ground.options.bound_us,
            tenants: tenants.as_ref().map_or_else(Vec::new, Tenants::processes),
            window_s: ground.options.window,
            traced: traced.then_some(&rows.least[query]),
        };
        match measured::run(chosen.work, &conditions, &ground.tsc) {
            Ok(measured) => rows.add(at, query, measured),
            // A cell that breaks, or cannot be had this time, ends no experiment of hours.
            Err(failure) if scenario.place == Place::Cell => {
                rows.rows[at][query].missing = Some(failure.to_string());
            }
            Err(failure) => return Err(failure),
        }
    }
    if let (Some(tenants), false) = (tenants, traced) {
        rows.scenarios[at].operations.push(tenants.stop()?);
    }
    Ok(())
}

/// The reason why no workload can be measured in a scenario, its shield apart.
fn missing(ground: &Ground<'_>, scenario: &Scenario) -> Option<String> {
    if scenario.place == Place::Cell {
        let without = ground.works.iter().map(|chosen| chosen.cell_missing.as_ref());
        if let Some(why) = without.collect::<Option<Vec<_>>>().and_then(|all| all.first().copied())
        {
            return Some(why.clone());
        }
        if affinity::get().map_or(1, |cpus| cpus.len()) < 2 {
            return Some("needs a cell and so a second processor, on which its host waits".into());
        }
    }
    if !scenario.fifo {
        return None;
    }
    if ground.cpu == 0 {
        return Some(
            "a real-time policy on processor 0 would hold up the machine: name another by --cpu"
                .into(),
        );
    }
    no_fifo()
}

/// The reason why this process may have no real-time threads.
fn no_fifo() -> Option<String> {
    use halcyon_machine::schedule::{Policy, set};
    let tried = std::thread::spawn(|| set(Policy::Fifo(measured::PRIORITY)).err()).join();
    let error = tried.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    Some(format!("this process may have no real-time threads: {error}"))
}

/// A real-time thread beside a hog, as an arm of its own.
pub fn negative_control(ground: &Ground<'_>, reporter: &mut Reporter) -> Result<()> {
    let params = json!({ "scenario": "fifo beside a hog", "query": "loop", "seconds": ground.options.control });
    let mut arm = Arm::new("noise", "control", params);
    let fifo = SCENARIOS.iter().find(|one| one.name == "load-fifo").expect("the table has it");
    match missing(ground, fifo) {
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
