//! The load that other processes are: processor time of the whole machine, less that of this process and of the tenants.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::Instant;

use halcyon_machine::counters::process_cpu_ns;

/// A hundredth of a second: the kernel's unit in `/proc/stat`.
const TICK_S: f64 = 0.01;

/// The beginning of a window of time.
pub struct Window {
    since: Instant,
    idle_s: f64,
    own_ns: u64,
    tenants: Vec<u32>,
    tenants_ns: u64,
}

/// Processor time of the whole machine, from `/proc/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Machine {
    /// Number of processors.
    cpus: u32,
    /// Time without work or taken by other guests, seconds over all processors.
    idle_s: f64,
}

impl Window {
    /// Begins now. `tenants`: processes that are tenants, as are their descendants.
    pub fn begin(tenants: Vec<u32>) -> Option<Window> {
        let machine = machine(&fs::read_to_string("/proc/stat").ok()?)?;
        Some(Window {
            since: Instant::now(),
            idle_s: machine.idle_s,
            own_ns: process_cpu_ns()?,
            tenants_ns: families_ns(&tenants),
            tenants,
        })
    }

    /// Cores that other processes had, on average since the beginning.
    pub fn cores(&self) -> Option<f64> {
        let seconds = self.since.elapsed().as_secs_f64();
        let machine = machine(&fs::read_to_string("/proc/stat").ok()?)?;
        let busy = seconds * f64::from(machine.cpus) - (machine.idle_s - self.idle_s);
        let own = process_cpu_ns()?.saturating_sub(self.own_ns) as f64 / 1e9;
        let tenants = families_ns(&self.tenants).saturating_sub(self.tenants_ns) as f64 / 1e9;
        Some(((busy - own - tenants) / seconds).max(0.0))
    }

    /// Time since the beginning.
    pub fn seconds(&self) -> f64 {
        self.since.elapsed().as_secs_f64()
    }
}

/// Reads `/proc/stat`: `cpu user nice system idle iowait irq softirq steal …`.
fn machine(text: &str) -> Option<Machine> {
    let mut found = Machine::default();
    for line in text.lines().filter(|line| line.starts_with("cpu")) {
        let (name, rest) = line.split_once(' ')?;
        if name == "cpu" {
            let numbers: Vec<u64> =
                rest.split_whitespace().map_while(|word| word.parse().ok()).collect();
            let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
            found.idle_s = (at(3) as f64 + at(4) as f64 + at(7) as f64) * TICK_S;
        } else {
            found.cpus += 1;
        }
    }
    (found.cpus > 0).then_some(found)
}

/// Processor time of processes and their descendants that live, ns.
fn families_ns(processes: &[u32]) -> u64 {
    if processes.is_empty() {
        return 0;
    }
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let stat = |number: u32| fs::read_to_string(format!("/proc/{number}/stat")).ok();
    let parents: HashMap<u32, u32> =
        numbers.filter_map(|number| Some((number, parent(&stat(number)?)?))).collect();
    families(&parents, processes).into_iter().map(process_ns).sum()
}

/// The parent, from `/proc/PID/stat`; the name may hold blanks and brackets.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// Processes and their descendants.
fn families(parents: &HashMap<u32, u32>, processes: &[u32]) -> HashSet<u32> {
    let mut family: HashSet<u32> = processes.iter().copied().collect();
    loop {
        let before = family.len();
        let children = parents.iter().filter(|(_, parent)| family.contains(parent));
        let children: Vec<u32> = children.map(|(child, _)| *child).collect();
        family.extend(children);
        if family.len() == before {
            return family;
        }
    }
}

/// Processor time of a process' threads, ns.
fn process_ns(process: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let ns = |text: String| text.split(' ').next()?.parse::<u64>().ok();
    threads.filter_map(|thread| ns(fs::read_to_string(thread.path().join("schedstat")).ok()?)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_and_processors_are_read_and_damage_is_refused() {
        let text = "cpu  1 2 3 400 50 6 7 80 0 0\ncpu0 1 2 3 4\ncpu1 1 2 3 4\nintr 5\n";
        assert_eq!(machine(text), Some(Machine { cpus: 2, idle_s: 5.3 }));
        assert_eq!(machine("intr 5\n"), None);
        assert_eq!(machine("cpu"), None);
    }

    #[test]
    fn descendants_are_a_family_whatever_their_names() {
        assert_eq!(parent("12 (a) b) S 7 1 1"), Some(7));
        assert_eq!(parent("12 (a"), None);
        let parents = HashMap::from([(2, 1), (3, 2), (4, 3), (9, 8), (1, 0)]);
        assert_eq!(families(&parents, &[2]), HashSet::from([2, 3, 4]));
    }

    #[test]
    fn own_work_is_not_foreign() {
        let Some(window) = Window::begin(Vec::new()) else {
            return eprintln!("skipped: no /proc/stat");
        };
        let mut state = 1;
        while window.seconds() < 0.2 {
            std::hint::black_box(halcyon_base::rng::splitmix64(&mut state));
        }
        let cpus = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let cores = window.cores().expect("it was there before");
        // Others may use all that is left of the machine, but this thread's time is not theirs.
        assert!(cores < cpus + 0.2, "{cores} of {cpus}");
    }
}
