//! What raising a shield changes, in which order: a pure function of topology, survey and request.
//!
//! Words: the *shielded* processors are those that were asked for; the *covered* ones are these and the other
//! hardware threads of their cores, which are kept empty, because a sibling thread shares the core's execution
//! units; all others are *housekeeping*.
//!
//! Order: cpusets first, so that undoing, which goes backwards, takes them away last. A kernel that keeps
//! unbound workqueues off isolated partitions by itself shows their old mask only when the partition is gone.
//!
//! Source: kernel documentation `cgroup-v2.rst` (Cpuset), `cgroup-v1/cpusets.rst`, `core-api/workqueue.rst`,
//! `isolation`; the real-time throttle is left alone on purpose, and so are boot-time settings.

use std::fmt;

use halcyon_machine::Topology;
use halcyon_machine::topology::list_text;

use crate::form::Form;
use crate::survey::{Cpusets, Knob, REST, SHIELD, Survey};

/// Seconds between two rounds of the kernel's statistics of memory while a shield is up.
const STAT_INTERVAL: i64 = 10;

/// A request for a shield.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The processors.
    pub cpus: Vec<u32>,
    /// Goes on without cpusets, and beside cpusets of others that may use the processors.
    pub is_forced: bool,
}

/// Whether a shield can do without a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Without it there is no shield.
    Required,
    /// A refusal is told, and nothing more.
    Wanted,
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A knob of the system gets another value. Journalled.
    Set {
        /// The knob and its value now.
        knob: Knob,
        /// The value that it gets.
        new: String,
        /// What a refusal means.
        need: Need,
    },
    /// A control group is made. Journalled; undone by moving its tasks to the parent and removing it.
    Make {
        /// The group's folder.
        folder: String,
        /// The name of the knob that lists its tasks: `tasks`, `cgroup.threads`.
        members: &'static str,
    },
    /// A knob of a control group that was made here, and goes with it.
    Inside {
        /// The knob's path.
        path: String,
        /// The form of its value.
        form: Form,
        /// The value.
        value: String,
        /// What a refusal means.
        need: Need,
    },
    /// Every task that can be moved goes from one group's list to another's.
    Move {
        /// The list that they leave.
        from: String,
        /// The list that they join.
        to: String,
    },
}

/// The way for threads into the shielded processors and out again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entrance {
    /// The list that a thread joins to get in.
    pub inside: String,
    /// The list that a thread joins to get out.
    pub outside: String,
    /// The list that a process must be in before its threads may join `inside`; of version 2 alone.
    pub process: Option<String>,
}

/// Whether a setting of the kernel's start is there for the covered processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BootState {
    /// The kernel was started with it.
    There,
    /// What is to be added to the kernel's command line.
    Lacking(String),
    /// The kernel was built without it.
    Unknown,
}

/// A setting that only a start of the kernel changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootSetting {
    /// The setting's name.
    pub name: &'static str,
    /// Whether it is there.
    pub state: BootState,
    /// What it would bring.
    pub gain: &'static str,
}

/// All that raising a shield does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The processors that were asked for.
    pub shielded: Vec<u32>,
    /// These and their sibling threads.
    pub covered: Vec<u32>,
    /// All others.
    pub housekeeping: Vec<u32>,
    /// The changes, in order.
    pub steps: Vec<Step>,
    /// Whether `/dev/cpu_dma_latency` is to be held open, so that processors do not sleep deeply.
    pub holds_latency: bool,
    /// The way in; none without cpusets.
    pub entrance: Option<Entrance>,
    /// Settings of the kernel's start, which the shield cannot change.
    pub boot: Vec<BootSetting>,
    /// What the shield cannot keep away, in words.
    pub gaps: Vec<String>,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// No processor was named.
    Empty,
    /// Processor 0 is never shielded: the kernel has work that only it does.
    Zero,
    /// A processor is there, and switched off.
    Offline(u32),
    /// There is no such processor.
    Unknown(u32),
    /// A processor's core has processor 0 as well.
    SiblingOfZero(u32),
    /// A NUMA node would have no core left for everything else.
    LastOfNode(u32),
    /// Without cpusets nothing keeps other tasks away; `force` does the rest all the same.
    NoCpusets(String),
    /// Another cpuset has processors of its own among those asked for; `force` goes on beside it.
    Shared {
        /// The cpuset's folder.
        folder: String,
        /// Its processors.
        cpus: Vec<u32>,
    },
    /// A control group with the shield's name is there, and no journal knows of it.
    InTheWay(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Empty => f.write_str("no processor is named"),
            Refusal::Zero => {
                f.write_str("processor 0 cannot be shielded: the kernel has work that only it does")
            }
            Refusal::Offline(cpu) => write!(f, "processor {cpu} is offline"),
            Refusal::Unknown(cpu) => write!(f, "there is no processor {cpu}"),
            Refusal::SiblingOfZero(cpu) => write!(
                f,
                "processor {cpu} shares its core with processor 0, which cannot be kept empty"
            ),
            Refusal::LastOfNode(node) => {
                write!(f, "node {node} would have no core left for everything else")
            }
            Refusal::NoCpusets(why) => write!(
                f,
                "other tasks cannot be kept away ({why}); --force moves interrupts and kernel work all the same"
            ),
            Refusal::Shared { folder, cpus } => write!(
                f,
                "{folder} has processors {} for its own tasks; --force goes on beside them",
                list_text(cpus)
            ),
            Refusal::InTheWay(folder) => {
                write!(f, "{folder} exists, and no journal knows of it: remove it by hand")
            }
        }
    }
}

impl std::error::Error for Refusal {}

/// Plans a shield.
///
/// Errors: see [`Refusal`].
pub fn plan(topology: &Topology, survey: &Survey, request: &Request) -> Result<Plan, Refusal> {
    let (shielded, covered) = covered(topology, &request.cpus)?;
    let online = topology.processors.iter().map(|processor| processor.cpu);
    let housekeeping: Vec<u32> = online.filter(|cpu| !covered.contains(cpu)).collect();
    for node in topology.nodes.iter().filter(|node| !node.cpus.is_empty()) {
        if node.cpus.iter().all(|cpu| covered.contains(cpu)) {
            return Err(Refusal::LastOfNode(node.number));
        }
    }
    if let Some(folder) = survey.in_the_way.first() {
        return Err(Refusal::InTheWay(folder.clone()));
    }
    let mut gaps = Vec::new();
    for (folder, cpus) in &survey.others {
        let shared: Vec<u32> = cpus.iter().copied().filter(|cpu| covered.contains(cpu)).collect();
        if shared.is_empty() {
            continue;
        }
        if !request.is_forced {
            return Err(Refusal::Shared { folder: folder.clone(), cpus: shared });
        }
        gaps.push(format!("tasks of {folder} may use processors {}", list_text(&shared)));
    }
    let (mut steps, entrance) = match &survey.cpusets {
        Cpusets::V2 { root, subtree } => partition(root, subtree, &covered),
        Cpusets::V1 { root, prefix, cpus, mems, balanced } => {
            let rest: Vec<u32> =
                cpus.iter().copied().filter(|cpu| !covered.contains(cpu)).collect();
            halves(root, prefix, mems, balanced, &rest, &covered)
        }
        Cpusets::Missing(why) if request.is_forced => {
            gaps.push(format!("other tasks are not kept away: {why}"));
            (Vec::new(), None)
        }
        Cpusets::Missing(why) => return Err(Refusal::NoCpusets(why.clone())),
    };
    steps.extend(survey.masks.iter().filter_map(|knob| without(knob, &covered, &housekeeping)));
    steps.extend(survey.stat_interval.iter().filter_map(|knob| {
        let is_shorter = knob.value.parse::<i64>().is_ok_and(|now| now < STAT_INTERVAL);
        let new = STAT_INTERVAL.to_string();
        is_shorter.then(|| Step::Set { knob: knob.clone(), new, need: Need::Wanted })
    }));
    if !survey.has_latency {
        gaps.push("/dev/cpu_dma_latency is missing: idle processors may sleep deeply".to_owned());
    }
    let boot = boot_settings(topology, survey, &covered);
    let holds_latency = survey.has_latency;
    Ok(Plan { shielded, covered, housekeeping, steps, holds_latency, entrance, boot, gaps })
}

/// The processors asked for and those of their cores, both ascending.
fn covered(topology: &Topology, cpus: &[u32]) -> Result<(Vec<u32>, Vec<u32>), Refusal> {
    let mut shielded = cpus.to_vec();
    shielded.sort_unstable();
    shielded.dedup();
    if shielded.is_empty() {
        return Err(Refusal::Empty);
    }
    let mut covered = Vec::new();
    for &cpu in &shielded {
        if cpu == 0 {
            return Err(Refusal::Zero);
        }
        let found = topology.processors.iter().find(|processor| processor.cpu == cpu);
        let found = found.ok_or(match topology.offline.contains(&cpu) {
            true => Refusal::Offline(cpu),
            false => Refusal::Unknown(cpu),
        })?;
        let core = topology.processors.iter().filter(|one| one.core == found.core);
        for sibling in core.map(|one| one.cpu) {
            if sibling == 0 {
                return Err(Refusal::SiblingOfZero(cpu));
            }
            covered.push(sibling);
        }
    }
    covered.sort_unstable();
    covered.dedup();
    Ok((shielded, covered))
}

/// Steps for an isolated partition of version 2 right below the root: threaded, so that single threads of a
/// process can be in it. Nobody's tasks are moved; removing the folder gives the processors back.
fn partition(root: &str, subtree: &str, covered: &[u32]) -> (Vec<Step>, Option<Entrance>) {
    let folder = format!("{root}/{SHIELD}");
    let control = Knob {
        path: format!("{root}/cgroup.subtree_control"),
        form: Form::Controller,
        value: subtree.to_owned(),
    };
    let mut steps = Vec::new();
    if !Form::Controller.same(subtree, "+cpuset") {
        let knob = Knob { value: "-cpuset".to_owned(), ..control };
        steps.push(Step::Set { knob, new: "+cpuset".to_owned(), need: Need::Required });
    }
    steps.push(Step::Make { folder: folder.clone(), members: "cgroup.threads" });
    for (name, form, value) in [
        ("cgroup.type", Form::Word, "threaded".to_owned()),
        ("cpuset.cpus", Form::List, Form::List.text(covered)),
        ("cpuset.cpus.partition", Form::Word, "isolated".to_owned()),
    ] {
        let path = format!("{folder}/{name}");
        steps.push(Step::Inside { path, form, value, need: Need::Required });
    }
    let entrance = Entrance {
        inside: format!("{folder}/cgroup.threads"),
        outside: format!("{root}/cgroup.threads"),
        process: Some(format!("{root}/cgroup.procs")),
    };
    (steps, Some(entrance))
}

/// Steps for two cpusets of version 1: all tasks that can move go to one, the other is the shield.
fn halves(
    root: &str,
    prefix: &str,
    mems: &str,
    balanced: &str,
    rest: &[u32],
    covered: &[u32],
) -> (Vec<Step>, Option<Entrance>) {
    let (shield_folder, rest_folder) = (format!("{root}/{SHIELD}"), format!("{root}/{REST}"));
    let mut steps = Vec::new();
    for (folder, cpus) in [(&rest_folder, rest), (&shield_folder, covered)] {
        steps.push(Step::Make { folder: folder.clone(), members: "tasks" });
        for (name, form, value) in
            [("cpus", Form::List, Form::List.text(cpus)), ("mems", Form::List, mems.to_owned())]
        {
            let path = format!("{folder}/{prefix}{name}");
            steps.push(Step::Inside { path, form, value, need: Need::Required });
        }
    }
    steps.push(Step::Inside {
        path: format!("{shield_folder}/{prefix}sched_load_balance"),
        form: Form::Number,
        value: "0".to_owned(),
        need: Need::Required,
    });
    let (from, to) = (format!("{root}/tasks"), format!("{rest_folder}/tasks"));
    steps.push(Step::Move { from, to: to.clone() });
    let balance = Knob {
        path: format!("{root}/{prefix}sched_load_balance"),
        form: Form::Number,
        value: balanced.to_owned(),
    };
    if !Form::Number.same(balanced, "0") {
        steps.push(Step::Set { knob: balance, new: "0".to_owned(), need: Need::Required });
    }
    let entrance =
        Entrance { inside: format!("{shield_folder}/tasks"), outside: to, process: None };
    (steps, Some(entrance))
}

/// A mask without the covered processors; all of housekeeping, if nothing else is left of it.
fn without(knob: &Knob, covered: &[u32], housekeeping: &[u32]) -> Option<Step> {
    let now = knob.form.cpus(&knob.value)?;
    let left: Vec<u32> = now.iter().copied().filter(|cpu| !covered.contains(cpu)).collect();
    if left.len() == now.len() {
        return None;
    }
    // Masks also name processors that could be plugged in some day, which alone nothing could run on.
    let can_run = left.iter().any(|cpu| housekeeping.contains(cpu));
    let new = knob.form.text(if can_run { &left } else { housekeeping });
    Some(Step::Set { knob: knob.clone(), new, need: Need::Wanted })
}

/// The settings that only a start of the kernel changes, and what is to be added for these processors.
fn boot_settings(topology: &Topology, survey: &Survey, covered: &[u32]) -> Vec<BootSetting> {
    let list = Form::List.text(covered);
    let named = |name: &str| {
        let words = survey.command_line.split_ascii_whitespace();
        let values = words.filter_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let cpus = values.flat_map(|value| {
            let numbers =
                value.split(',').filter(|part| part.starts_with(|c: char| c.is_ascii_digit()));
            let numbers: Vec<&str> = numbers.collect();
            Form::List.cpus(&numbers.join(",")).unwrap_or_default()
        });
        let cpus: Vec<u32> = cpus.collect();
        covered.iter().all(|cpu| cpus.contains(cpu))
    };
    let isolated = covered.iter().all(|cpu| {
        topology.processors.iter().any(|processor| processor.cpu == *cpu && processor.isolated)
    });
    let tickless = survey.tickless.as_ref();
    let is_tickless = tickless.is_some_and(|cpus| covered.iter().all(|cpu| cpus.contains(cpu)));
    let line = |is_there: bool, text: String| match is_there {
        true => BootState::There,
        false => BootState::Lacking(text),
    };
    vec![
        BootSetting {
            name: "isolcpus",
            state: line(
                isolated || named("isolcpus"),
                format!("isolcpus=managed_irq,domain,{list}"),
            ),
            gain: "interrupts that drivers manage keep off as well",
        },
        BootSetting {
            name: "nohz_full",
            state: match tickless {
                None => BootState::Unknown,
                Some(_) => line(is_tickless, format!("nohz_full={list}")),
            },
            gain: "no timer tick while one thread runs: some hundred interruptions a second less",
        },
        BootSetting {
            name: "rcu_nocbs",
            state: line(is_tickless || named("rcu_nocbs"), format!("rcu_nocbs={list}")),
            gain: "the kernel's deferred work of these processors is done elsewhere",
        },
    ]
}
