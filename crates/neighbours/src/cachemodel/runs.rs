//! Simulations, each run once, several at a time.

use std::collections::HashMap;
use std::sync::Mutex;

use halcyon_cache::model::machine::Hardware;
use halcyon_cache::model::policy::Policy;
use halcyon_cache::model::study::{Load, Outcome, Scheme, Who, outcome};
use halcyon_cache::model::translation::Translation;

/// What is told of a machine: its policy of replacement, and whether addresses are translated.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Policy of the shared cache.
    pub policy: Policy,
    /// Whether pages of 4 KiB are translated.
    pub translated: bool,
}

/// A simulation.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The machine.
    pub machine: Machine,
    /// The load.
    pub load: Load,
    /// The masks.
    pub scheme: Scheme,
    /// Who runs.
    pub who: Who,
}

/// Throughput of both, beside each other or alone, steps per microsecond.
#[derive(Clone, Copy, Debug)]
pub struct Throughputs {
    /// The aggregation's.
    pub aggregation: f64,
    /// The scan's.
    pub scan: f64,
}

/// Outcomes that are known.
pub struct Runs {
    hardware: Hardware,
    known: HashMap<String, Outcome>,
}

impl Runs {
    /// None known, on hardware of these sizes and times.
    pub fn new(hardware: Hardware) -> Runs {
        Runs { hardware, known: HashMap::new() }
    }

    /// Runs what is not known yet of these cases, on as many threads as there are processors.
    pub fn prepare(&mut self, cases: impl IntoIterator<Item = Case>) {
        let mut wanted: HashMap<String, Case> = HashMap::new();
        for case in cases {
            let key = key(case);
            if !self.known.contains_key(&key) {
                wanted.insert(key, case);
            }
        }
        let hardware = self.hardware;
        let wanted: Vec<(String, Case)> = wanted.into_iter().collect();
        let done = each(&wanted, |(key, case)| (key.clone(), simulated(hardware, *case)));
        self.known.extend(done);
    }

    /// The outcome of a case.
    pub fn outcome(&mut self, case: Case) -> Outcome {
        self.prepare([case]);
        self.known[&key(case)]
    }

    /// What both have alone; on one core, half of a core's.
    pub fn alone(&mut self, machine: Machine, load: Load) -> Throughputs {
        let share = if load.cores == 1 { 0.5 } else { 1.0 };
        let [aggregation, scan] = alone(machine, load).map(|case| self.outcome(case));
        Throughputs {
            aggregation: aggregation.aggregation.steps_per_us * share,
            scan: scan.scan.steps_per_us * share,
        }
    }
}

/// What `simulate` makes of each case, in the order of the cases, on as many threads as there are processors.
pub fn each<C: Sync, O: Send>(cases: &[C], simulate: impl Fn(&C) -> O + Sync) -> Vec<O> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let waiting = Mutex::new(cases.iter().enumerate());
    let next = || waiting.lock().expect("no thread panics while it holds the lock").next();
    let work = || {
        let mut done = Vec::new();
        while let Some((at, case)) = next() {
            done.push((at, simulate(case)));
        }
        done
    };
    let mut done: Vec<(usize, O)> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        all.into_iter().flat_map(|thread| thread.join().expect("nothing panics")).collect()
    });
    done.sort_unstable_by_key(|&(at, _)| at);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// The cases of both alone.
pub fn alone(machine: Machine, load: Load) -> [Case; 2] {
    [Who::Aggregation, Who::Scan].map(|who| Case {
        machine,
        load,
        scheme: Scheme::Unpartitioned,
        who,
    })
}

/// Cases that have the same outcome have the same key: a scan alone does not depend on the aggregation.
fn key(case: Case) -> String {
    let Case { machine, mut load, scheme, who } = case;
    if who == Who::Scan {
        load = Load { dictionary_bytes: 0, groups: 0, row_ns: 0.0, ..load };
    }
    format!("{machine:?} {load:?} {scheme:?} {who:?}")
}

fn simulated(hardware: Hardware, case: Case) -> Outcome {
    let translation = case.machine.translated.then(Translation::broadwell);
    let hardware = Hardware { policy: case.machine.policy, translation, ..hardware };
    outcome(hardware, case.load, case.scheme, case.who)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prepared_outcomes_are_those_of_the_model_whoever_ran_them() {
        let whole = Hardware::broadwell();
        let hardware =
            Hardware { cache_bytes: whole.cache_bytes >> 6, private_bytes: 16 << 10, ..whole };
        let load =
            Load { cores: 4, dictionary_bytes: 600 << 10, groups: 20, row_ns: 5.0, warm_ns: 2.3 };
        let cases: Vec<Case> = Policy::ALL
            .into_iter()
            .flat_map(|policy| alone(Machine { policy, translated: false }, load))
            .collect();
        let mut runs = Runs::new(hardware);
        runs.prepare(cases.iter().copied());
        assert_eq!(runs.known.len(), 8);
        for case in cases {
            assert_eq!(runs.outcome(case), simulated(hardware, case), "{case:?}");
        }
        let other = Load { row_ns: 50.0, dictionary_bytes: 64 << 10, ..load };
        let [_, scan] = alone(Machine { policy: Policy::Lru, translated: false }, other);
        assert_eq!(runs.outcome(scan).scan, simulated(hardware, scan).scan);
        assert_eq!(runs.known.len(), 8, "a scan alone is one scan, whatever the aggregation");
    }
}
