//! The report of the machine's features: present or missing, why, and what Halcyon does about it.
//!
//! Everything is looked up under a root, so that a recorded tree can stand for a machine; the few
//! things that only an attempt can tell (real-time policy, locked memory, performance events) are
//! tried on a scratch thread, and left as they were.

use crate::conditions::{HUGE_PAGES, text};
use crate::topology::{Topology, list_text, read_list};
use crate::{clock, counters, memory, schedule};
use serde::Serialize;
use std::fmt::{self, Write};
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

/// The availability of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Availability {
    /// The feature is there and may be used.
    Present,
    /// The machine or its kernel does not have it.
    Absent,
    /// The feature is there, and this process may not use it.
    NotPermitted,
}

impl fmt::Display for Availability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Availability::Present => "present",
            Availability::Absent => "absent",
            Availability::NotPermitted => "not permitted",
        })
    }
}

/// A feature, why it is as it is, and what follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Feature {
    /// The feature's name.
    pub name: &'static str,
    /// Whether it can be used.
    pub state: Availability,
    /// How the availability was found out.
    pub why: String,
    /// What Halcyon does in this case.
    pub action: &'static str,
}

/// The machine as Halcyon sees it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Processors and what they share.
    pub topology: Topology,
    /// Ticks of the time-stamp counter in a microsecond.
    pub ticks_per_us: f64,
    /// Cost of reading the counter, ticks.
    pub tick_read: u64,
    /// How far two calibrations were apart, parts per million.
    pub tick_spread_ppm: f64,
    /// Release of the kernel.
    pub kernel: String,
    /// All features, present or not.
    pub features: Vec<Feature>,
}

/// Looks at this machine. Takes about 20 ms the first time, for the calibration of the clock.
pub fn report() -> Report {
    let calibration = clock::calibration();
    let root = Path::new("/");
    let mut features = recorded(root);
    features.extend(tried());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Report {
        topology: Topology::of_this_machine_or_flat(),
        ticks_per_us: calibration.ticks_per_us,
        tick_read: calibration.read_ticks,
        tick_spread_ppm: calibration.spread_ppm,
        kernel: kernel.trim().to_owned(),
        features,
    }
}

/// The features that files tell of.
pub fn recorded(root: &Path) -> Vec<Feature> {
    vec![
        tsc(root),
        isolated(root),
        nohz_full(root),
        cpuset_v1(root),
        cpuset_v2(root),
        quota(root),
        resctrl(root),
        sched_ext(root),
        kvm(root),
        cells(root),
        huge_reserved(root),
        huge_transparent(root),
        nodes(root),
        hypervisor(root),
    ]
}

fn found(there: bool) -> Availability {
    if there { Availability::Present } else { Availability::Absent }
}

/// The consequence for Halcyon: `present` if the feature can be used, else `otherwise`.
fn so(state: Availability, present: &'static str, otherwise: &'static str) -> &'static str {
    if state == Availability::Present { present } else { otherwise }
}

fn tsc(root: &Path) -> Feature {
    let info = text(root, "proc/cpuinfo").unwrap_or_default();
    let flags = info.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let has = |flag: &str| flags.split_ascii_whitespace().any(|word| word == flag);
    let steady = has("constant_tsc") && has("nonstop_tsc");
    Feature {
        name: "steady time-stamp counter",
        state: found(steady),
        why: if steady {
            "the processor has constant_tsc and nonstop_tsc".to_owned()
        } else {
            "the processor does not promise constant_tsc and nonstop_tsc".to_owned()
        },
        action: so(
            found(steady),
            "workers read it once per chunk of tasks; its rate is measured at start",
            "workers read it all the same; times they report may be wrong while it changes its rate",
        ),
    }
}

fn isolated(root: &Path) -> Feature {
    let path = "sys/devices/system/cpu/isolated";
    let cpus = read_list(&root.join(path)).unwrap_or_default();
    Feature {
        name: "isolated cores",
        state: found(!cpus.is_empty()),
        why: if cpus.is_empty() {
            format!("/{path} is empty: the kernel was started without isolcpus=")
        } else {
            format!("/{path} names {}", list_text(&cpus))
        },
        action: so(
            found(!cpus.is_empty()),
            "a dedicated worker of the task runtime that is put there is left alone",
            "other programs may run on any core: workers measure how long they wait for theirs, and \
             latch their resources while that is over 1 % of the time",
        ),
    }
}

fn nohz_full(root: &Path) -> Feature {
    let path = "sys/devices/system/cpu/nohz_full";
    let cpus = read_list(&root.join(path)).unwrap_or_default();
    Feature {
        name: "cores without timer ticks",
        state: found(!cpus.is_empty()),
        why: match text(root, path) {
            None => format!("/{path} is missing: the kernel has no CONFIG_NO_HZ_FULL"),
            Some(_) if cpus.is_empty() => format!("/{path} is empty: started without nohz_full="),
            Some(_) => format!("/{path} names {}", list_text(&cpus)),
        },
        action: so(
            found(!cpus.is_empty()),
            "a dedicated worker that is put there is not interrupted by the timer",
            "the timer interrupts every worker some hundred times a second; only a start of the \
             kernel with nohz_full= changes that",
        ),
    }
}

/// Where a control-group controller of version 1 is mounted.
fn mounted_v1(root: &Path, controller: &str) -> Option<String> {
    let mounts = text(root, "proc/self/mounts")?;
    mounts.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (place, kind, options) = (words.next()?, words.next()?, words.next()?);
        let named = options.split(',').any(|option| option == controller);
        (kind == "cgroup" && named).then(|| place.to_owned())
    })
}

fn writable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| !data.permissions().readonly())
        && fs::OpenOptions::new().write(true).open(path).is_ok()
}

fn cpuset_v1(root: &Path) -> Feature {
    let place = mounted_v1(root, "cpuset");
    let (state, why) = match &place {
        None => (Availability::Absent, "no cpuset hierarchy of version 1 is mounted".to_owned()),
        Some(place) => {
            let tasks = root.join(place.trim_start_matches('/')).join("tasks");
            let state =
                if writable(&tasks) { Availability::Present } else { Availability::NotPermitted };
            (state, format!("mounted at {place}"))
        }
    };
    let action = so(
        state,
        "a shield divides it in two, where version 2 cannot be had (halcyon shield)",
        "other programs cannot be kept off cores this way",
    );
    Feature { name: "cpuset, version 1", state, why, action }
}

fn cpuset_v2(root: &Path) -> Feature {
    let mounts = text(root, "proc/self/mounts").unwrap_or_default();
    let place = mounts.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let place = words.next()?;
        (words.next()? == "cgroup2").then(|| place.to_owned())
    });
    let (state, why) = match place {
        None => {
            (Availability::Absent, "no control-group hierarchy of version 2 is mounted".to_owned())
        }
        Some(place) => {
            let folder = root.join(place.trim_start_matches('/'));
            let controllers = fs::read_to_string(folder.join("cgroup.controllers"));
            let has = controllers.is_ok_and(|text| text.split_whitespace().any(|c| c == "cpuset"));
            match has {
                false => (Availability::Absent, format!("{place} has no cpuset controller")),
                true if writable(&folder.join("cgroup.subtree_control")) => {
                    (Availability::Present, format!("{place} has the cpuset controller"))
                }
                true => (Availability::NotPermitted, format!("{place} cannot be written")),
            }
        }
    };
    let action = so(
        state,
        "a shield makes an isolated partition in it (halcyon shield)",
        "cores cannot be isolated this way while the system runs",
    );
    Feature { name: "cpuset, version 2", state, why, action }
}

fn quota(root: &Path) -> Feature {
    let v2 = text(root, "sys/fs/cgroup/cpu.max").filter(|text| !text.starts_with("max"));
    let v1 = mounted_v1(root, "cpu").and_then(|place| {
        let folder = root.join(place.trim_start_matches('/'));
        let quota = fs::read_to_string(folder.join("cpu.cfs_quota_us")).ok()?;
        (!quota.trim().starts_with('-')).then(|| quota.trim().to_owned())
    });
    let limit = v2.or(v1);
    let limited = limit.is_some();
    Feature {
        name: "quota of processor time",
        state: found(limited),
        why: match limit {
            Some(limit) => format!("the control group is limited to {limit}"),
            None => "no control group limits processor time".to_owned(),
        },
        action: match limited {
            true => {
                "dedicated workers, which spin, would be stopped for whole periods: use shared ones"
            }
            false => "dedicated workers may spin",
        },
    }
}

fn resctrl(root: &Path) -> Feature {
    let (state, why) = if root.join("sys/fs/resctrl/schemata").exists() {
        match writable(&root.join("sys/fs/resctrl/schemata")) {
            true => (Availability::Present, "/sys/fs/resctrl is mounted".to_owned()),
            false => (Availability::NotPermitted, "/sys/fs/resctrl cannot be written".to_owned()),
        }
    } else {
        let kernel = text(root, "proc/filesystems").unwrap_or_default();
        match kernel.split_whitespace().any(|word| word == "resctrl") {
            true => (
                Availability::NotPermitted,
                "the kernel has resctrl, and it is not mounted".to_owned(),
            ),
            false => {
                (Availability::Absent, "the kernel or the processor has no resctrl".to_owned())
            }
        }
    };
    let action = so(
        state,
        "the setting cache_partitioning divides the last-level cache for workers; off unless it is turned on",
        "programs share the last-level cache; groups of tasks can be kept apart by island only",
    );
    Feature { name: "cache partitions (resctrl)", state, why, action }
}

fn sched_ext(root: &Path) -> Feature {
    let state = text(root, "sys/kernel/sched_ext/state");
    Feature {
        name: "extensible scheduler (sched_ext)",
        state: found(state.is_some()),
        why: match state {
            Some(state) => format!("/sys/kernel/sched_ext/state is {state}"),
            None => "/sys/kernel/sched_ext is missing: before Linux 6.12 or left out".to_owned(),
        },
        action: "not used: its interface changes from release to release",
    }
}

fn kvm(root: &Path) -> Feature {
    let device = root.join("dev/kvm");
    let (state, why) = if !device.exists() {
        (Availability::Absent, "/dev/kvm is missing".to_owned())
    } else {
        match fs::OpenOptions::new().read(true).write(true).open(&device) {
            Ok(_) => (Availability::Present, "/dev/kvm can be opened".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                (Availability::NotPermitted, format!("/dev/kvm: {error}"))
            }
            Err(error) => (Availability::Absent, format!("/dev/kvm: {error}")),
        }
    };
    let action = so(
        state,
        "cells can run in machines of their own",
        "a cell runs as a thread of the process, without a machine's promises about time",
    );
    Feature { name: "virtual machines (KVM)", state, why, action }
}

/// How cells can be had: by the processor's own support for virtual machines, or by a kernel that does
/// without.
fn cells(root: &Path) -> Feature {
    let machines = kvm(root);
    let info = text(root, "proc/cpuinfo").unwrap_or_default();
    let flags = info.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let has = |flag: &str| flags.split_ascii_whitespace().any(|word| word == flag);
    let is_loaded = |module: &str| root.join("sys/module").join(module).exists();
    let state = machines.state;
    let (how, action) = match (state, is_loaded("kvm_pvm"), has("vmx"), has("svm")) {
        (Availability::Absent, ..) => ("none", "views are maintained in the process alone"),
        (Availability::NotPermitted, ..) => (
            "not permitted",
            "views are maintained in the process alone; this user needs the right to open /dev/kvm",
        ),
        (_, true, ..) => (
            "in software (kvm_pvm)",
            "a cell runs at the speed of the processor; what interrupts it takes longer than with VMX or SVM",
        ),
        (_, _, true, _) => ("by VMX", "a cell has a processor's own support"),
        (_, _, _, true) => ("by SVM", "a cell has a processor's own support"),
        _ => ("in software", "a cell works; how quick it is has to be measured"),
    };
    Feature { name: "cells", state, why: format!("{how}: {}", machines.why), action }
}

fn huge_reserved(root: &Path) -> Feature {
    let path = "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
    let free = text(root, path).and_then(|text| text.parse::<u64>().ok());
    Feature {
        name: "reserved huge pages",
        state: found(free.is_some_and(|free| free > 0)),
        why: match free {
            Some(0) => format!("/{path} is 0: none were reserved, or all are taken"),
            Some(free) => format!("{free} pages of 2 MiB are free"),
            None => format!("/{path} is missing"),
        },
        action: so(
            found(free.is_some_and(|free| free > 0)),
            "memory regions take them first",
            "memory regions ask for transparent ones",
        ),
    }
}

fn huge_transparent(root: &Path) -> Feature {
    let path = HUGE_PAGES;
    let setting = text(root, path);
    let state = match &setting {
        None => Availability::Absent,
        Some(setting) if setting.contains("[never]") => Availability::NotPermitted,
        Some(_) => Availability::Present,
    };
    Feature {
        name: "transparent huge pages",
        state,
        why: setting.map_or_else(|| format!("/{path} is missing"), |s| format!("/{path}: {s}")),
        action: so(
            state,
            "the tree and memory regions ask for them",
            "memory is on small pages: random accesses to much of it cost more",
        ),
    }
}

fn nodes(root: &Path) -> Feature {
    let nodes = read_list(&root.join("sys/devices/system/node/online")).unwrap_or_default();
    Feature {
        name: "several NUMA nodes",
        state: found(nodes.len() > 1),
        why: format!("the kernel shows {}", count(nodes.len().max(1), "node")),
        action: so(
            found(nodes.len() > 1),
            "islands never span two, and a memory region can be bound to one",
            "all memory is equally near to all cores",
        ),
    }
}

fn hypervisor(root: &Path) -> Feature {
    let info = text(root, "proc/cpuinfo").unwrap_or_default();
    let guest = info.lines().any(|l| l.starts_with("flags") && l.contains(" hypervisor"));
    Feature {
        name: "hypervisor beneath",
        state: found(guest),
        why: if guest {
            "the processor tells that it is virtual".to_owned()
        } else {
            "the processor does not tell of one".to_owned()
        },
        action: match guest {
            true => {
                "it may take cores away unseen: timings have gaps that nothing here can prevent"
            }
            false => "what the kernel tells of cores and caches is the machine itself",
        },
    }
}

/// The features that only an attempt tells of.
fn tried() -> Vec<Feature> {
    let attempts = || vec![real_time(), short_turns(), locked(), perf(), run_delay()];
    std::thread::spawn(attempts).join().unwrap_or_default()
}

fn real_time() -> Feature {
    let result = schedule::set(schedule::Policy::Fifo(1));
    let _ = schedule::set(schedule::Policy::Fair);
    let state = if result.is_ok() { Availability::Present } else { Availability::NotPermitted };
    Feature {
        name: "real-time policy",
        state,
        why: match result {
            Ok(()) => "SCHED_FIFO was granted to a thread".to_owned(),
            Err(error) => format!("SCHED_FIFO: {error}; it needs CAP_SYS_NICE or a limit"),
        },
        action: so(
            state,
            "dedicated workers use it where the configuration says so",
            "dedicated workers compete with other programs, and measure how long they wait",
        ),
    }
}

fn short_turns() -> Feature {
    let turn = Duration::from_micros(100);
    let told = schedule::set_slice(turn).and_then(|()| schedule::slice());
    let (state, why) = match told {
        Ok(Some(told)) if told == turn => {
            (Availability::Present, "a thread got turns of 0.1 ms".to_owned())
        }
        Ok(_) => (Availability::Absent, "the kernel is older than Linux 6.12".to_owned()),
        Err(error) => (Availability::NotPermitted, format!("sched_setattr: {error}")),
    };
    Feature {
        name: "turns of a thread's own length",
        state,
        why,
        action: so(
            state,
            "threads that read from clients have the shortest, so that they do not wait for a worker's turn to end",
            "threads that read from clients wait for a worker's turn to end",
        ),
    }
}

fn locked() -> Feature {
    let wanted = memory::Wanted { locked: true, ..memory::Wanted::default() };
    let region = memory::Region::new(1 << 20, wanted);
    let why = match &region {
        Ok(region) => match &region.granted().locked {
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        },
        Err(error) => Some(error.to_string()),
    };
    let state = if why.is_none() { Availability::Present } else { Availability::NotPermitted };
    Feature {
        name: "locked memory",
        state,
        why: why.unwrap_or_else(|| "1 MiB could be locked".to_owned()),
        action: so(
            state,
            "a runtime with dedicated workers locks its memory where the configuration says so",
            "memory may be paged out; a task that touches it then takes milliseconds",
        ),
    }
}

fn perf() -> Feature {
    let (state, why) = match counters::PerfEvent::cycles() {
        Ok(_) => (Availability::Present, "cycles of a thread can be counted".to_owned()),
        Err(error) => {
            let refused = [libc::EACCES, libc::EPERM].map(Some).contains(&error.raw_os_error());
            let state = if refused { Availability::NotPermitted } else { Availability::Absent };
            (state, format!("perf_event_open: {error}"))
        }
    };
    let action = so(
        state,
        "cycles per thread can be counted",
        "times and switches per thread come from the kernel's own counts",
    );
    Feature { name: "performance events", state, why, action }
}

fn run_delay() -> Feature {
    let stat = counters::SchedStat::of_this_thread();
    let stat_is_there = stat.is_ok();
    Feature {
        name: "run delay of threads",
        state: found(stat_is_there),
        why: match stat {
            Ok(_) => "/proc/thread-self/schedstat can be read".to_owned(),
            Err(error) => format!("/proc/thread-self/schedstat: {error}"),
        },
        action: match stat_is_there {
            true => "tells a worker whether its core is its own",
            false => "workers believe that their cores are their own: keep other programs off them",
        },
    }
}

/// `1 core`, `2 cores`.
fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

impl Report {
    /// The report as lines for a terminal.
    pub fn render(&self) -> String {
        let mut out = String::new();
        let topology = &self.topology;
        let allowed = topology.processors.iter().filter(|processor| processor.allowed).count();
        let _ = writeln!(
            out,
            "{} ({allowed} allowed, {} offline), {}, {} (cores that share a last-level cache), {}",
            count(topology.processors.len(), "processor"),
            topology.offline.len(),
            count(topology.core_count(), "core"),
            count(topology.island_count(), "island"),
            count(topology.nodes.len(), "NUMA node"),
        );
        for processor in &topology.processors {
            let _ = writeln!(
                out,
                "  cpu {:<4} core {:<4} island {:<3} node {:<3} package {}{}{}",
                processor.cpu,
                processor.core,
                processor.island,
                processor.node,
                processor.package,
                if processor.isolated { ", isolated" } else { "" },
                if processor.allowed { "" } else { ", not allowed" },
            );
        }
        for cache in &topology.caches {
            let (kib, cpus) = (cache.bytes / 1024, &cache.cpus);
            let of = if cpus.len() == 1 { "of cpu" } else { "shared by cpus" };
            let _ = writeln!(out, "  L{} cache, {kib} KiB, {of} {}", cache.level, list_text(cpus));
        }
        let _ = writeln!(
            out,
            "  clock: {:.3} ticks per µs (two measurements {:.0} ppm apart), {:.0} ns a reading\n  \
             kernel: Linux {}\n",
            self.ticks_per_us,
            self.tick_spread_ppm,
            self.tick_read as f64 * 1000.0 / self.ticks_per_us,
            self.kernel,
        );
        for feature in &self.features {
            let Feature { name, state, why, action } = feature;
            let _ = writeln!(out, "{state:<13}  {name}\n    because  {why}\n    so       {action}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_listed_in_runs() {
        assert_eq!(list_text(&[0]), "0");
        assert_eq!(list_text(&[0, 1, 2, 3, 8, 10, 11]), "0-3, 8, 10-11");
        assert_eq!((count(1, "core"), count(2, "core")), ("1 core".into(), "2 cores".into()));
    }
}
