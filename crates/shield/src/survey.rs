//! What a kernel has of the knobs that a shield needs, and their values now.

use halcyon_machine::topology;

use crate::form::Form;
use crate::knobs::Knobs;

/// The name of the control group of the shielded processors.
pub const SHIELD: &str = "halcyon.shield";
/// The name of the control group of all other tasks; of version 1 alone.
pub const REST: &str = "halcyon.rest";

/// The hierarchy of cpusets that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cpusets {
    /// Version 2.
    V2 {
        /// Where the hierarchy is mounted.
        root: String,
        /// The root's `cgroup.subtree_control`.
        subtree: String,
    },
    /// Version 1.
    V1 {
        /// Where the hierarchy is mounted.
        root: String,
        /// What stands before the names of the knobs: `cpuset.`, or nothing.
        prefix: &'static str,
        /// The root's processors.
        cpus: Vec<u32>,
        /// The root's NUMA nodes, as a list.
        mems: String,
        /// The root's `sched_load_balance`.
        balanced: String,
    },
    /// None, and why.
    Missing(String),
}

/// A knob as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Knob {
    /// The knob's path.
    pub path: String,
    /// The form of its value.
    pub form: Form,
    /// The value.
    pub value: String,
}

/// A kernel's knobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// The hierarchy of cpusets.
    pub cpusets: Cpusets,
    /// Where interrupts, unbound workqueues and the watchdog may run.
    pub masks: Vec<Knob>,
    /// Seconds between two rounds of the kernel's statistics of memory, on each processor.
    pub stat_interval: Option<Knob>,
    /// Whether there is `/dev/cpu_dma_latency`.
    pub has_latency: bool,
    /// What the kernel was started with.
    pub command_line: String,
    /// Processors without timer ticks; none where the kernel cannot do without.
    pub tickless: Option<Vec<u32>>,
    /// Cpusets of others that name processors of their own, and these.
    pub others: Vec<(String, Vec<u32>)>,
    /// Folders with the shield's names that are there already.
    pub in_the_way: Vec<String>,
}

impl Survey {
    /// Looks at a tree.
    pub fn of(knobs: &dyn Knobs) -> Survey {
        let cpusets = cpusets(knobs);
        let (others, in_the_way) = neighbours(knobs, &cpusets);
        let tickless = knobs.text("/sys/devices/system/cpu/nohz_full");
        Survey {
            cpusets,
            masks: masks(knobs),
            stat_interval: knob(knobs, "/proc/sys/vm/stat_interval", Form::Number),
            has_latency: knobs.exists("/dev/cpu_dma_latency"),
            command_line: knobs.text("/proc/cmdline").unwrap_or_default(),
            // A kernel without any says "(null)".
            tickless: tickless.map(|text| topology::list(&text).unwrap_or_default()),
            others,
            in_the_way,
        }
    }
}

fn knob(knobs: &dyn Knobs, path: &str, form: Form) -> Option<Knob> {
    let value = knobs.text(path)?;
    Some(Knob { path: path.to_owned(), form, value })
}

fn masks(knobs: &dyn Knobs) -> Vec<Knob> {
    let mut found = Vec::new();
    found.extend(knob(knobs, "/proc/irq/default_smp_affinity", Form::Mask));
    let mut irqs: Vec<u32> = (knobs.list("/proc/irq").unwrap_or_default().iter())
        .filter_map(|name| name.parse().ok())
        .collect();
    irqs.sort_unstable();
    for irq in irqs {
        found.extend(knob(knobs, &format!("/proc/irq/{irq}/smp_affinity_list"), Form::List));
    }
    let queues = "/sys/devices/virtual/workqueue";
    found.extend(knob(knobs, &format!("{queues}/cpumask"), Form::Mask));
    for queue in knobs.list(queues).unwrap_or_default() {
        found.extend(knob(knobs, &format!("{queues}/{queue}/cpumask"), Form::Mask));
    }
    found.extend(knob(knobs, "/proc/sys/kernel/watchdog_cpumask", Form::List));
    found
}

/// The mounts of a kind as pairs of place and options.
fn mounts<'a>(text: &'a str, kind: &str) -> Vec<(&'a str, &'a str)> {
    let line = |line: &'a str| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (place, found, options) = (words.next()?, words.next()?, words.next()?);
        // Escapes stand for white space, which no place of control groups has.
        (found == kind && !place.contains('\\')).then_some((place, options))
    };
    text.lines().filter_map(line).collect()
}

fn cpusets(knobs: &dyn Knobs) -> Cpusets {
    let text = knobs.read("/proc/self/mounts").unwrap_or_default();
    let mut why = "no hierarchy of cpusets is mounted".to_owned();
    for (place, _) in mounts(&text, "cgroup2") {
        let root = place.trim_end_matches('/').to_owned();
        let controllers = knobs.text(&format!("{root}/cgroup.controllers")).unwrap_or_default();
        if !controllers.split_ascii_whitespace().any(|name| name == "cpuset") {
            why = format!("{root} has no cpuset controller, which version 1 may have");
            continue;
        }
        if knobs.exists(&format!("{root}/cgroup.type")) {
            why = format!("{root} is a container's part of the hierarchy, not its root");
            continue;
        }
        if let Some(subtree) = knobs.text(&format!("{root}/cgroup.subtree_control")) {
            return Cpusets::V2 { root, subtree };
        }
    }
    let with_controllers = mounts(&text, "cgroup").into_iter();
    let with_controllers =
        with_controllers.filter(|(_, options)| options.split(',').any(|option| option == "cpuset"));
    for (place, _) in with_controllers.chain(mounts(&text, "cpuset")) {
        let root = place.trim_end_matches('/').to_owned();
        for prefix in ["cpuset.", ""] {
            let read = |name: &str| knobs.text(&format!("{root}/{prefix}{name}"));
            let (Some(cpus), Some(mems), Some(balanced)) =
                (read("cpus"), read("mems"), read("sched_load_balance"))
            else {
                continue;
            };
            let cpus = topology::list(&cpus).unwrap_or_default();
            return Cpusets::V1 { root, prefix, cpus, mems, balanced };
        }
    }
    Cpusets::Missing(why)
}

/// Cpusets of others right below the root with the processors that they name, and folders that have our names.
fn neighbours(knobs: &dyn Knobs, cpusets: &Cpusets) -> (Vec<(String, Vec<u32>)>, Vec<String>) {
    let (root, name) = match cpusets {
        Cpusets::V2 { root, .. } => (root, "cpuset.cpus".to_owned()),
        Cpusets::V1 { root, prefix, .. } => (root, format!("{prefix}cpus")),
        Cpusets::Missing(_) => return (Vec::new(), Vec::new()),
    };
    let (mut others, mut in_the_way) = (Vec::new(), Vec::new());
    for folder in knobs.list(root).unwrap_or_default() {
        let place = format!("{root}/{folder}");
        if folder == SHIELD || folder == REST {
            in_the_way.push(place);
            continue;
        }
        let cpus = knobs.text(&format!("{place}/{name}")).unwrap_or_default();
        let cpus = topology::list(&cpus).unwrap_or_default();
        if !cpus.is_empty() {
            others.push((place, cpus));
        }
    }
    (others, in_the_way)
}
