//! What there is and what is missing, with reasons, and what Halcyon does about it.
//!
//! Everything is looked up under a root, so that a recorded tree can stand for a machine; the few
//! things that only an attempt can tell (real-time policy, locked memory, performance events) are
//! tried on a scratch thread, and left as they were.

use crate::topology::{Topology, read_list};
use crate::{clock, counters, memory, schedule};
use serde::Serialize;
use std::fmt::{self, Write};
use std::fs;
use std::io;
use std::path::Path;

/// Whether a feature can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is there and may be used.
    Present,
    /// The machine or its kernel does not have it.
    Absent,
    /// It is there, and this process may not use it.
    NotPermitted,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            State::Present => "present",
            State::Absent => "absent",
            State::NotPermitted => "not permitted",
        })
    }
}

/// A feature, why it is as it is, and what follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Feature {
    /// What it is called.
    pub name: &'static str,
    /// Whether it can be used.
    pub state: State,
    /// How that was found out.
    pub why: String,
    /// What Halcyon does about it.
    pub action: &'static str,
}

/// The machine as Halcyon sees it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Processors and what they share.
    pub topology: Topology,
    /// Ticks of the time-stamp counter in a microsecond.
    pub ticks_per_us: f64,
    /// Cost of reading it, ticks.
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

/// Text of a file under the root, if it can be read.
fn text(root: &Path, path: &str) -> Option<String> {
    Some(fs::read_to_string(root.join(path)).ok()?.trim().to_owned())
}

/// What files tell.
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
        huge_reserved(root),
        huge_transparent(root),
        nodes(root),
        hypervisor(root),
    ]
}

fn found(there: bool) -> State {
    if there { State::Present } else { State::Absent }
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
        action: "workers read it once per chunk of tasks; its rate is measured at start",
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
            format!("/{path} names {cpus:?}")
        },
        action: "dedicated workers are best put there; elsewhere their run delay is measured, and a \
                 worker that is preempted latches its resources",
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
            Some(_) => format!("/{path} names {cpus:?}"),
        },
        action: "nothing can be done at run time; ticks show up in the noise measured per event",
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
        None => (State::Absent, "no cpuset hierarchy of version 1 is mounted".to_owned()),
        Some(place) => {
            let tasks = root.join(place.trim_start_matches('/')).join("tasks");
            let state = if writable(&tasks) { State::Present } else { State::NotPermitted };
            (state, format!("mounted at {place}"))
        }
    };
    let action = "a shield may move other threads off the compute plane's cores with it";
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
        None => (State::Absent, "no control-group hierarchy of version 2 is mounted".to_owned()),
        Some(place) => {
            let folder = root.join(place.trim_start_matches('/'));
            let controllers = fs::read_to_string(folder.join("cgroup.controllers"));
            let has = controllers.is_ok_and(|text| text.split_whitespace().any(|c| c == "cpuset"));
            match has {
                false => (State::Absent, format!("{place} has no cpuset controller")),
                true if writable(&folder.join("cgroup.subtree_control")) => {
                    (State::Present, format!("{place} has the cpuset controller"))
                }
                true => (State::NotPermitted, format!("{place} cannot be written")),
            }
        }
    };
    let action = "a shield may make an isolated partition of the compute plane's cores with it";
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
    Feature {
        name: "quota of processor time",
        state: found(limit.is_some()),
        why: match limit {
            Some(limit) => format!("the control group is limited to {limit}"),
            None => "no control group limits processor time".to_owned(),
        },
        action: "under a quota a worker that spins is stopped for whole periods: use shared workers",
    }
}

fn resctrl(root: &Path) -> Feature {
    let (state, why) = if root.join("sys/fs/resctrl/schemata").exists() {
        match writable(&root.join("sys/fs/resctrl/schemata")) {
            true => (State::Present, "/sys/fs/resctrl is mounted".to_owned()),
            false => (State::NotPermitted, "/sys/fs/resctrl cannot be written".to_owned()),
        }
    } else {
        let kernel = text(root, "proc/filesystems").unwrap_or_default();
        match kernel.split_whitespace().any(|word| word == "resctrl") {
            true => {
                (State::NotPermitted, "the kernel has resctrl, and it is not mounted".to_owned())
            }
            false => (State::Absent, "the kernel or the processor has no resctrl".to_owned()),
        }
    };
    let action =
        "without it, work that pollutes the cache is kept off others' islands by placement";
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
        action: "told, and not used: its interface is not stable",
    }
}

fn kvm(root: &Path) -> Feature {
    let device = root.join("dev/kvm");
    let (state, why) = if !device.exists() {
        (State::Absent, "/dev/kvm is missing".to_owned())
    } else {
        match fs::OpenOptions::new().read(true).write(true).open(&device) {
            Ok(_) => (State::Present, "/dev/kvm can be opened".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                (State::NotPermitted, format!("/dev/kvm: {error}"))
            }
            Err(error) => (State::Absent, format!("/dev/kvm: {error}")),
        }
    };
    let action = "cells run views beside Linux on cores of their own with it";
    Feature { name: "virtual machines (KVM)", state, why, action }
}

fn huge_reserved(root: &Path) -> Feature {
    let path = "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
    let free = text(root, path).and_then(|text| text.parse::<u64>().ok());
    Feature {
        name: "reserved huge pages",
        state: found(free.is_some_and(|free| free > 0)),
        why: match free {
            Some(free) => format!("{free} pages of 2 MiB are free"),
            None => format!("/{path} is missing"),
        },
        action: "taken first for memory regions; transparent ones are asked for elsewhere",
    }
}

fn huge_transparent(root: &Path) -> Feature {
    let path = "sys/kernel/mm/transparent_hugepage/enabled";
    let setting = text(root, path);
    Feature {
        name: "transparent huge pages",
        state: match &setting {
            None => State::Absent,
            Some(setting) if setting.contains("[never]") => State::NotPermitted,
            Some(_) => State::Present,
        },
        why: setting.map_or_else(|| format!("/{path} is missing"), |s| format!("/{path}: {s}")),
        action: "asked for with madvise for memory regions",
    }
}

fn nodes(root: &Path) -> Feature {
    let nodes = read_list(&root.join("sys/devices/system/node/online")).unwrap_or_default();
    Feature {
        name: "several NUMA nodes",
        state: found(nodes.len() > 1),
        why: format!("the kernel shows {} node(s)", nodes.len().max(1)),
        action: "with several, islands never span two, and a region can be bound to one",
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
        action: "time that it takes away is not preventable; it is seen as jumps of the clock",
    }
}

/// What only an attempt tells.
fn tried() -> Vec<Feature> {
    let attempts = || vec![real_time(), locked(), perf(), run_delay()];
    std::thread::spawn(attempts).join().unwrap_or_default()
}

fn real_time() -> Feature {
    let result = schedule::set(schedule::Policy::Fifo(1));
    let _ = schedule::set(schedule::Policy::Fair);
    Feature {
        name: "real-time policy",
        state: if result.is_ok() { State::Present } else { State::NotPermitted },
        why: match result {
            Ok(()) => "SCHED_FIFO was granted to a thread".to_owned(),
            Err(error) => format!("SCHED_FIFO: {error}; it needs CAP_SYS_NICE or a limit"),
        },
        action: "dedicated workers may use it by choice; without it they are told by their run delay",
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
    Feature {
        name: "locked memory",
        state: if why.is_none() { State::Present } else { State::NotPermitted },
        why: why.unwrap_or_else(|| "1 MiB could be locked".to_owned()),
        action: "regions of the compute plane are locked where it is granted",
    }
}

fn perf() -> Feature {
    let (state, why) = match counters::PerfEvent::cycles() {
        Ok(_) => (State::Present, "cycles of a thread can be counted".to_owned()),
        Err(error) => {
            let refused = [libc::EACCES, libc::EPERM].map(Some).contains(&error.raw_os_error());
            let state = if refused { State::NotPermitted } else { State::Absent };
            (state, format!("perf_event_open: {error}"))
        }
    };
    let action =
        "cycles per thread are counted with it; without it the kernel's own counts are used";
    Feature { name: "performance events", state, why, action }
}

fn run_delay() -> Feature {
    let stat = counters::SchedStat::of_this_thread();
    Feature {
        name: "run delay of threads",
        state: found(stat.is_ok()),
        why: match stat {
            Ok(_) => "/proc/thread-self/schedstat can be read".to_owned(),
            Err(error) => format!("/proc/thread-self/schedstat: {error}"),
        },
        action: "tells a worker whether its core is its own; without it workers believe so",
    }
}

impl Report {
    /// The report as lines for a terminal.
    pub fn render(&self) -> String {
        let mut out = String::new();
        let topology = &self.topology;
        let allowed = topology.processors.iter().filter(|processor| processor.allowed).count();
        let _ = writeln!(
            out,
            "{} processors ({allowed} allowed, {} offline), {} cores, {} islands, {} NUMA nodes",
            topology.processors.len(),
            topology.offline.len(),
            topology.core_count(),
            topology.island_count(),
            topology.nodes.len(),
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
            let kib = cache.bytes / 1024;
            let _ = writeln!(out, "  L{} of {kib} KiB shared by {:?}", cache.level, cache.cpus);
        }
        let _ = writeln!(
            out,
            "clock: {:.3} ticks/us (two measurements {:.0} ppm apart), {} ticks a reading; Linux {}\n",
            self.ticks_per_us, self.tick_spread_ppm, self.tick_read, self.kernel,
        );
        for feature in &self.features {
            let Feature { name, state, why, action } = feature;
            let _ = writeln!(out, "{state:<13}  {name}\n    because  {why}\n    so       {action}");
        }
        out
    }
}
