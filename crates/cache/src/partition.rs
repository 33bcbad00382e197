//! Turning partitions of the cache on and off.
//!
//! Whatever fails on the way, what was changed is undone, and the caller gets one [`Refused`] that says why:
//! statements then run as on a machine without partitions.
//!
//! Invariants, checked by `tests/contract.rs`:
//! 1. Once a [`Partition`] is off, the tree is as it was, but for what others have changed since.
//! 2. No group of somebody else, and not the default group's masks, is ever written.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use halcyon_machine::topology;

use crate::behaviour::{Chase, Effect, effect_of};
use crate::fs::ResctrlFs;
use crate::journal::{Journal, Note, Owner};
use crate::mask::{Division, Mask};
use crate::rules::{CacheRules, RulesProblem, counted, masks_of};
use crate::split::CpuSplit;
use crate::undo::{list, undo};

/// The shortest time between two changes of the processors in groups: the kernel interrupts each
/// processor concerned.
pub const REBALANCE_MIN: Duration = Duration::from_secs(1);

/// What an administrator chooses.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Share of the ways for polluting work, percent. A tenth is P4's.
    pub polluting_percent: u32,
    /// Beginning of the groups' names. Tells processes apart.
    pub prefix: String,
}

impl Default for Settings {
    fn default() -> Self {
        let Owner { pid, start, .. } = Owner::this();
        Settings { polluting_percent: 10, prefix: format!("halcyon-{pid}-{start}-") }
    }
}

/// The reason why the cache is not divided.
#[derive(Debug)]
pub enum Why {
    /// The machine has no masks, or shows them in a way that is not understood.
    Rules(RulesProblem),
    /// Another program keeps the lock on resctrl.
    Locked,
    /// No worker's island has two workers.
    NoWorkers,
    /// The cache has too few ways for two groups.
    FewWays {
        /// Ways of the cache.
        ways: u32,
    },
    /// The machine has too few groups.
    FewGroups {
        /// Groups that there may be, with the default one.
        groups_max: u32,
    },
    /// Processors of workers are in groups of other programs.
    CpusTaken {
        /// The processors.
        cpus: Vec<u32>,
    },
    /// A group of the same name exists.
    NameTaken {
        /// Name of the group.
        name: String,
    },
    /// A mask was taken, and another one was read back.
    NotKept {
        /// Name of the group.
        name: String,
    },
    /// The masks were kept, and the cache behaves as if there were none.
    NoEffect {
        /// ns per load with the whole cache.
        whole_ns: f64,
        /// ns per load under the polluters' mask.
        masked_ns: f64,
    },
    /// A file or the journal could not be read or written.
    Io {
        /// What was being done.
        step: String,
        /// The operating system's error.
        error: io::Error,
        /// What the kernel says of its last command.
        status: String,
    },
}

/// The cache is not divided.
#[derive(Debug)]
pub struct Refused {
    /// The reason.
    pub why: Why,
    /// What could not be undone.
    pub left: Vec<String>,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Rules(problem) => problem.fmt(f),
            Why::Locked => f.write_str("another program keeps resctrl locked"),
            Why::NoWorkers => f.write_str("no last-level cache has two workers"),
            Why::FewWays { ways } => write!(f, "{ways} ways cannot be divided"),
            Why::FewGroups { groups_max } => write!(f, "there may be {groups_max} groups, not 3"),
            Why::CpusTaken { cpus } => {
                write!(f, "processors {} are in groups of other programs", list(cpus))
            }
            Why::NameTaken { name } => write!(f, "a group {name} exists"),
            Why::NotKept { name } => write!(f, "the masks of {name} were taken and not kept"),
            Why::NoEffect { whole_ns, masked_ns } => write!(
                f,
                "masks have no effect: a load takes {masked_ns:.1} ns under one and {whole_ns:.1} without"
            ),
            Why::Io { step, error, status } => {
                write!(f, "{step}: {error}")?;
                if status.is_empty() { Ok(()) } else { write!(f, " ({status})") }
            }
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the cache is not partitioned: {}", self.why)?;
        for left in &self.left {
            write!(f, "; {left}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refused {}

/// What a group has of one cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// `polluting`, `sensitive` or `default`.
    pub group: &'static str,
    /// Id of the cache.
    pub domain: u32,
    /// Ways that the group fills; empty if the kernel does not say.
    pub mask: Mask,
    /// Processors of the group, on all caches; `None` if the kernel does not say.
    pub cpus: Option<Vec<u32>>,
    /// Bytes that the group has in the cache, if they are counted.
    pub occupancy_bytes: Option<u64>,
    /// Bytes that the group has had from memory, if they are counted.
    pub memory_bytes: Option<u64>,
}

/// The cache, divided.
pub struct Partition {
    tree: Arc<dyn ResctrlFs>,
    journal: Box<dyn Journal>,
    notes: Vec<Note>,
    rules: CacheRules,
    division: Division,
    prefix: String,
    split: CpuSplit,
    effect: Option<Effect>,
    changed: Instant,
}

/// Names of our groups, behind the prefix.
const GROUPS: [&str; 2] = ["polluting", "sensitive"];

impl Partition {
    /// Divides the caches of a tree, and puts processors of workers into the groups.
    ///
    /// `chase`: tries on one processor whether masks have an effect; without, that stays untried. An
    /// unclear effect is no reason to refuse, since the masks were read back, and is told by
    /// [`Partition::effect`].
    pub fn turn_on(
        tree: Arc<dyn ResctrlFs>,
        journal: Box<dyn Journal>,
        settings: &Settings,
        split: &CpuSplit,
        chase: Option<&mut dyn Chase>,
    ) -> Result<Partition, Refused> {
        let refused = |why| Refused { why, left: Vec::new() };
        let held = tree.clone();
        let lock = match held.lock() {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(refused(Why::Locked));
            }
            Err(error) => return Err(refused(failed(&*tree, "lock", error))),
        };
        let (rules, division) = divisible(&*tree, settings, split).map_err(refused)?;
        let mut partition = Partition {
            tree,
            journal,
            notes: Vec::new(),
            rules,
            division,
            prefix: settings.prefix.clone(),
            split: CpuSplit::default(),
            effect: None,
            changed: Instant::now(),
        };
        let done = partition.make_groups(chase, split).and_then(|()| partition.assign(split));
        if let Err(why) = done {
            let left = partition.undo();
            return Err(Refused { why, left });
        }
        drop(lock);
        Ok(partition)
    }

    /// Puts other processors into the groups. `false` if that was done less than [`REBALANCE_MIN`] ago or
    /// nothing would change.
    ///
    /// Errors: if it fails, the partition is undone.
    pub fn rebalance(
        mut self,
        split: &CpuSplit,
        now: Instant,
    ) -> Result<(Partition, bool), Refused> {
        let early = now.saturating_duration_since(self.changed) < REBALANCE_MIN;
        if early || *split == self.split {
            return Ok((self, false));
        }
        let tree = self.tree.clone();
        let lock = tree.lock();
        let done = match &lock {
            Ok(_) => self.assign(split),
            // Another program is at work; the processors stay where they are.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok((self, false)),
            Err(_) => Err(Why::Locked),
        };
        match done {
            Ok(()) => {
                self.changed = now;
                Ok((self, true))
            }
            Err(why) => {
                let left = self.undo();
                Err(Refused { why, left })
            }
        }
    }

    /// Gives the cache back, as dropping does. Returns what stays: others have made it their own, or it
    /// could not be undone, and the journal stays for the next process.
    pub fn turn_off(mut self) -> Vec<String> {
        let tree = self.tree.clone();
        // Undoing only gives back; who does not get the lock within a second does so without.
        let _lock = tree.lock();
        self.undo()
    }

    /// The ways of the two groups.
    pub fn division(&self) -> Division {
        self.division
    }

    /// The processors of the two groups.
    pub fn split(&self) -> &CpuSplit {
        &self.split
    }

    /// What the chase has shown; `None` if there was none.
    pub fn effect(&self) -> Option<&Effect> {
        self.effect.as_ref()
    }

    /// What each group has of each cache now.
    pub fn usage(&self) -> Vec<Usage> {
        let mut all = Vec::new();
        for (group, folder) in [
            ("polluting", self.name(0) + "/"),
            ("sensitive", self.name(1) + "/"),
            ("default", String::new()),
        ] {
            let read = |file: &str| self.tree.read(&format!("{folder}{file}")).ok();
            let cpus = read("cpus_list").and_then(|text| topology::list(&text).ok());
            let schemata = read("schemata").unwrap_or_default();
            let masks = masks_of(&schemata, self.rules.schema).unwrap_or_default();
            for &domain in &self.rules.domains {
                let mask = masks.iter().find(|(id, _)| *id == domain);
                let counter = |file: &str| {
                    let path = format!("mon_data/mon_L3_{domain:02}/{file}");
                    read(&path).and_then(|text| counted(&text))
                };
                all.push(Usage {
                    group,
                    domain,
                    mask: mask.map(|&(_, mask)| mask).unwrap_or_default(),
                    cpus: cpus.clone(),
                    occupancy_bytes: counter("llc_occupancy"),
                    memory_bytes: counter("mbm_total_bytes"),
                });
            }
        }
        all
    }

    fn name(&self, group: usize) -> String {
        format!("{}{}", self.prefix, GROUPS[group])
    }

    fn note(&mut self, note: Note) -> Result<(), Why> {
        let noted = self.journal.note(&note);
        noted.map_err(|error| failed(&*self.tree, "journal", error))?;
        self.notes.push(note);
        Ok(())
    }

    fn make_groups(&mut self, chase: Option<&mut dyn Chase>, split: &CpuSplit) -> Result<(), Why> {
        let masks = [self.division.polluting, self.division.sensitive];
        for (group, mask) in masks.into_iter().enumerate() {
            let name = self.name(group);
            let folders = self.tree.folders("");
            let folders = folders.map_err(|error| failed(&*self.tree, "groups", error))?;
            if folders.contains(&name) {
                return Err(Why::NameTaken { name });
            }
            self.note(Note::Group { name: name.clone() })?;
            if let Err(error) = self.tree.make_folder(&name) {
                // The group is not ours to remove, should somebody have made it meanwhile.
                self.notes.pop();
                return Err(failed(&*self.tree, &name, error));
            }
            let line = self.rules.line(mask);
            self.note(Note::Masks { name: name.clone(), line: line.clone() })?;
            let path = format!("{name}/schemata");
            let written = self.tree.write(&path, &(line.clone() + "\n"));
            written.map_err(|error| failed(&*self.tree, &path, error))?;
            let read = self.tree.read(&path);
            let read = read.map_err(|error| failed(&*self.tree, &path, error))?;
            if masks_of(&read, self.rules.schema) != masks_of(&line, self.rules.schema) {
                return Err(Why::NotKept { name });
            }
        }
        let cpu = split.polluting[0];
        let Some(chase) = chase else { return Ok(()) };
        let effect = effect_of(chase, cpu, || self.put(0, &[cpu]))?;
        if let Effect::NotSeen { whole_ns, masked_ns } = effect {
            return Err(Why::NoEffect { whole_ns, masked_ns });
        }
        self.effect = Some(effect);
        Ok(())
    }

    /// Puts all processors of a split where they belong.
    fn assign(&mut self, split: &CpuSplit) -> Result<(), Why> {
        let free = free_cpus(&*self.tree)?;
        let own = self.own_cpus();
        let taken = |cpu: &u32| !free.contains(cpu) && !own.contains(cpu);
        let cpus: Vec<u32> = split.all().filter(taken).collect();
        if !cpus.is_empty() {
            return Err(Why::CpusTaken { cpus });
        }
        self.put(0, &split.polluting)?;
        self.put(1, &split.sensitive)?;
        self.split = split.clone();
        Ok(())
    }

    /// Processors that are in our groups now.
    fn own_cpus(&self) -> Vec<u32> {
        let of_group = |group| {
            let text = self.tree.read(&format!("{}/cpus_list", self.name(group)));
            text.ok().and_then(|text| topology::list(&text).ok()).unwrap_or_default()
        };
        (0..GROUPS.len()).flat_map(of_group).collect()
    }

    fn put(&mut self, group: usize, cpus: &[u32]) -> Result<(), Why> {
        let name = self.name(group);
        let path = format!("{name}/cpus_list");
        self.note(Note::Cpus { name, list: list(cpus) })?;
        let written = self.tree.write(&path, &(list(cpus) + "\n"));
        written.map_err(|error| failed(&*self.tree, &path, error))
    }

    fn undo(&mut self) -> Vec<String> {
        let mut left = undo(&*self.tree, &self.notes);
        self.notes.clear();
        if left.failed.is_empty()
            && let Err(error) = self.journal.clear()
        {
            left.failed.push(format!("the journal stays: {error}"));
        }
        left.all()
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        if !self.notes.is_empty() {
            let tree = self.tree.clone();
            let _lock = tree.lock();
            self.undo();
        }
    }
}

/// The rules of a tree and the division by them, if the tree has room for it.
fn divisible(
    tree: &dyn ResctrlFs,
    settings: &Settings,
    split: &CpuSplit,
) -> Result<(CacheRules, Division), Why> {
    let rules = CacheRules::read(tree).map_err(Why::Rules)?;
    if split.polluting.is_empty() || split.sensitive.is_empty() {
        return Err(Why::NoWorkers);
    }
    if rules.groups_max < 3 {
        return Err(Why::FewGroups { groups_max: rules.groups_max });
    }
    let ways = rules.masks.full.count();
    let division = rules.masks.divide(settings.polluting_percent).ok_or(Why::FewWays { ways })?;
    let free = free_cpus(tree)?;
    let cpus: Vec<u32> = split.all().filter(|cpu| !free.contains(cpu)).collect();
    if cpus.is_empty() { Ok((rules, division)) } else { Err(Why::CpusTaken { cpus }) }
}

/// Processors of the default group.
fn free_cpus(tree: &dyn ResctrlFs) -> Result<Vec<u32>, Why> {
    let text = tree.read("cpus_list").map_err(|error| failed(tree, "cpus_list", error))?;
    topology::list(&text).map_err(|error| failed(tree, "cpus_list", error))
}

fn failed(tree: &dyn ResctrlFs, step: &str, error: io::Error) -> Why {
    let status = tree.read("info/last_cmd_status").unwrap_or_default();
    let status = status.trim().trim_end_matches("ok").to_owned();
    Why::Io { step: step.to_owned(), error, status }
}
