//! One run of one workload in one scenario, on a thread of its own.

use halcyon_machine::{affinity, schedule};
use halcyon_noise::trace::{self, Tracer, join};
use halcyon_noise::{Attribution, Exits, Place, Runner, Scenario, Series, Stamps, Tsc, counted};

use crate::foreign::Window;
use crate::in_cell::Seat;
use crate::work::Work;
use halcyon_gauge::{Failure, Result};

/// Priority of the measured thread in scenarios with a real-time policy; the paper's.
pub const PRIORITY: u8 = 98;
/// What entering and leaving the kernel may take around an event of the trace, µs.
const ENTRY_US: f64 = 25.0;

/// Conditions of a run.
#[derive(Clone, Debug)]
pub struct Conditions<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The measured processor.
    pub cpu: u32,
    /// Number of tuples.
    pub tuples: usize,
    /// What counts as an outlier, µs.
    pub bound_us: f64,
    /// Processes that are tenants.
    pub tenants: Vec<u32>,
    /// The load of other processes is measured for at least this long, seconds.
    pub window_s: f64,
    /// For a run whose outliers are given causes, which is slower: the least that each tuple took in any run before.
    pub traced: Option<&'a [u64]>,
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The gaps.
    pub series: Series,
    /// A number that follows from the tuples.
    pub checksum: u64,
    /// Cores that other processes had meanwhile, if that can be told.
    pub foreign_cores: Option<f64>,
    /// Outliers by cause, of traced runs.
    pub attribution: Option<Attribution>,
    /// What left the machine of a cell.
    pub exits: Option<Exits>,
}

/// Runs the workload once.
pub fn run(work: &dyn Work, conditions: &Conditions<'_>, tsc: &Tsc) -> Result<Measured> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| on_this_thread(work, conditions, tsc));
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn on_this_thread(work: &dyn Work, conditions: &Conditions<'_>, tsc: &Tsc) -> Result<Measured> {
    let window = Window::begin(conditions.tenants.clone());
    let mut runner = seated(work, conditions)?;
    runner.prepare().map_err(Failure::Engine)?;
    let is_native = conditions.scenario.place == Place::Native;
    let tracer = conditions.traced.map(|_| Tracer::start(conditions.cpu));
    let mut stamps = match &tracer {
        Some(Err(_)) if is_native => {
            Stamps::counting(conditions.tuples, tsc.ticks(conditions.bound_us))?
        }
        _ => Stamps::new(conditions.tuples),
    };
    // The thread of a cell has its own policy.
    let is_fifo = conditions.scenario.fifo && is_native;
    if is_fifo {
        schedule::set(schedule::Policy::Fifo(PRIORITY))?;
    }
    let done = runner.run(conditions.tuples, &mut stamps);
    if is_fifo {
        schedule::set(schedule::Policy::Fair)?;
    }
    done.map_err(Failure::Engine)?;
    let series = Series::of(&stamps);
    let thread = if is_native { Some(affinity::this_thread()) } else { runner.thread() };
    let attribution = match tracer {
        None => None,
        Some(tracer) => Some(causes(&series, &stamps, tracer, thread, conditions, tsc)?),
    };
    let checksum = runner.checksum().map_err(Failure::Engine)?;
    let exits = runner.exits();
    // A cell that has nothing to do would use its processor for some time still.
    drop(runner);
    let foreign_cores = window.and_then(|window| {
        let left = conditions.window_s - window.seconds();
        std::thread::sleep(std::time::Duration::from_secs_f64(left.max(0.0)));
        window.cores()
    });
    Ok(Measured { series, checksum, foreign_cores, attribution, exits })
}

/// The runner at the scenario's place; this thread is where it has to be for that: on the measured processor, or as the host
/// of a cell on the others.
fn seated<'w>(work: &'w dyn Work, conditions: &Conditions<'_>) -> Result<Box<dyn Runner + 'w>> {
    let Conditions { scenario, cpu, .. } = *conditions;
    match scenario.place {
        Place::Native => {
            affinity::set(&[cpu])?;
            Ok(work.runner())
        }
        Place::Cell => {
            let mut others = affinity::get()?;
            others.retain(|other| *other != cpu);
            affinity::set(&others)?;
            let fifo = scenario.fifo.then_some(PRIORITY);
            let place = halcyon_cell::Place::Machine;
            work.cell(Seat { place, cpu: Some(cpu), fifo }).map_err(Failure::Engine)
        }
    }
}

/// The outliers by cause. `thread`: the thread whose tuples they are, if the stamps are by the host's counter.
fn causes(
    series: &Series,
    stamps: &Stamps,
    tracer: Result<Tracer, trace::Unavailable>,
    thread: Option<u32>,
    conditions: &Conditions<'_>,
    tsc: &Tsc,
) -> Result<Attribution> {
    let bounds = join::Bounds {
        outlier_ticks: tsc.ticks(conditions.bound_us),
        entry_ticks: tsc.ticks(ENTRY_US),
        own_ticks: conditions.traced.unwrap_or_default(),
    };
    let counted =
        |why: &str| counted::attribute(series, stamps.all(), stamps.readings(), bounds, tsc, why);
    match (tracer, thread) {
        (Err(why), _) if conditions.scenario.place == Place::Cell => {
            Ok(counted(&format!("{why}; of a cell's thread none are read")))
        }
        (Err(why), _) => Ok(counted(&why.to_string())),
        (Ok(tracer), None) => {
            drop(tracer);
            Ok(counted("the cell has a counter of its own"))
        }
        (Ok(tracer), Some(thread)) => {
            let trace = tracer.finish().map_err(|error| Failure::Io(error.to_string()))?;
            Ok(join::attribute(series, stamps.all(), &trace, conditions.cpu, thread, bounds))
        }
    }
}

/// The number of tuples that a workload takes in so many seconds of processor time, at most `tuples`. Warms up memory and
/// clock rates too.
pub fn calibrated(work: &dyn Work, tuples: usize, seconds: f64) -> Result<usize> {
    const CHUNK: usize = 512;
    let tuples = work.tuples_max(tuples);
    let mut runner = work.runner();
    runner.prepare().map_err(Failure::Engine)?;
    let mut stamps = Stamps::new(CHUNK);
    let cpu_ns = || halcyon_machine::counters::thread_cpu_ns().unwrap_or_default();
    let (start, mut done) = (cpu_ns(), 0);
    while done < tuples && ((cpu_ns() - start) as f64) < seconds * 1e9 {
        let chunk = CHUNK.min(tuples - done);
        stamps.clear();
        runner.run(chunk, &mut stamps).map_err(Failure::Engine)?;
        done += chunk;
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::Plain;
    use halcyon_noise::runner::SCENARIOS;

    fn conditions(traced: Option<&'static [u64]>) -> Conditions<'static> {
        let cpus = affinity::get().expect("affinity can be asked for");
        Conditions {
            scenario: &SCENARIOS[0],
            cpu: *cpus.last().expect("some processor"),
            tuples: 3_000,
            bound_us: 5.0,
            tenants: Vec::new(),
            window_s: 0.0,
            traced,
        }
    }

    #[test]
    fn traced_and_plain_runs_do_the_same_work_and_only_one_has_causes() {
        let (tsc, work) = (Tsc::measure(), Plain::Map);
        let plain = run(&work, &conditions(None), &tsc).expect("it runs");
        let traced = run(&work, &conditions(Some(&[])), &tsc).expect("it runs");
        assert_eq!(plain.checksum, traced.checksum);
        assert_eq!((plain.series.ticks().len(), plain.attribution), (3_000, None));
        let bound = tsc.ticks(5.0);
        let outliers = traced.series.ticks().iter().filter(|gap| **gap > bound).count() as u64;
        let causes = traced.attribution.expect("it was asked for");
        assert_eq!(causes.outliers(), outliers, "{causes:?}");
        assert!(causes.asked.contains("trace"), "{causes:?}");
    }

    #[test]
    fn a_workload_runs_no_longer_than_it_may() {
        let work = Plain::Loop;
        let tuples = calibrated(&work, 1_000_000_000, 0.02).expect("it runs");
        assert!((512..1_000_000_000).contains(&tuples), "{tuples}");
        assert_eq!(calibrated(&work, 700, 10.0).expect("it runs"), 700);
    }
}
