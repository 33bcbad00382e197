//! A fake of resctrl with the kernel's semantics, for tests and for machines that have none.
//!
//! Groups, masks, processors, tasks, modes and counters behave as the kernel's do (6.12): what it refuses is
//! refused with the same number and the same text in `info/last_cmd_status`, and a write of
//! `schemata` is applied as a whole or not at all. Not modelled: pseudo-locking, and the folders of
//! groups that only count.
//!
//! Invariants, checked by [`Fake::check`]:
//! 1. Every processor is in exactly one group, and so is every task.
//! 2. Every mask obeys the rules of its cache.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex};

use halcyon_machine::topology;
use libc::{EBUSY, EEXIST, EINVAL, ENOENT, ENOSPC, EPERM, ESRCH};

use crate::fs::{Lock, ResctrlFs, os};
use crate::mask::{Mask, MaskRules};

/// The limits of memory bandwidth that a processor has.
#[derive(Clone, Copy, Debug)]
pub enum Bandwidth {
    /// None.
    None,
    /// Intel's: percent, in steps of ten.
    Percent,
    /// AMD's: units of an eighth of a GB/s; 2048 is no limit.
    Eighths,
}

/// The shape of a machine with resctrl.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Schemas of masks: `L3`, or `L3CODE` and `L3DATA`; none on a machine that only counts.
    pub schemas: &'static [&'static str],
    /// Rules of the masks.
    pub masks: MaskRules,
    /// Whether the kernel shows `sparse_masks`.
    pub shows_sparse: bool,
    /// Groups that there may be, with the default one.
    pub groups_max: usize,
    /// Groups whose counters the machine can tell apart.
    pub counters_max: usize,
    /// Ids of the caches.
    pub domains: &'static [u32],
    /// Processors.
    pub cpus: u32,
    /// Limits of memory bandwidth.
    pub bandwidth: Bandwidth,
    /// Whether occupancy and bandwidth are counted.
    pub monitors: bool,
    /// Whether masks are taken without an error and then not kept, as by some hypervisors.
    pub loses_masks: bool,
}

impl Profile {
    fn intel(ways: u32, shareable: u64) -> Profile {
        let full = Mask::lowest(ways);
        Profile {
            schemas: &["L3"],
            masks: MaskRules { full, shareable: Mask(shareable), ways_min: 1, sparse: false },
            shows_sparse: true,
            groups_max: 16,
            counters_max: 176,
            domains: &[0, 1],
            cpus: 8,
            bandwidth: Bandwidth::Percent,
            monitors: true,
            loses_masks: false,
        }
    }

    /// The processor of P4: Xeon E5 v4, 20 ways, two of which devices fill as well.
    pub fn broadwell() -> Profile {
        Profile { bandwidth: Bandwidth::None, ..Profile::intel(20, 0xc_0000) }
    }

    /// The processor of P4 with masks for code and data (CDP), which halve the groups.
    pub fn broadwell_cdp() -> Profile {
        Profile { schemas: &["L3CODE", "L3DATA"], groups_max: 8, ..Profile::broadwell() }
    }

    /// A Xeon of the Skylake kind, and a kernel that does not tell of masks with holes.
    pub fn skylake() -> Profile {
        Profile { shows_sparse: false, ..Profile::intel(11, 0x600) }
    }

    /// A Xeon of the Haswell kind, which wants two ways, has four groups, and counts nothing.
    pub fn haswell() -> Profile {
        let mut profile = Profile::broadwell();
        profile.masks.ways_min = 2;
        Profile { groups_max: 4, monitors: false, ..profile }
    }

    /// An Intel processor that takes masks with holes.
    pub fn sparse() -> Profile {
        let mut profile = Profile::intel(16, 0x0101);
        profile.masks.sparse = true;
        profile
    }

    /// An EPYC: a cache for each core complex, ids with gaps, masks with holes and without any way.
    pub fn epyc() -> Profile {
        let full = Mask::lowest(16);
        Profile {
            masks: MaskRules { full, shareable: Mask(0), ways_min: 0, sparse: true },
            domains: &[0, 1, 4, 5],
            cpus: 16,
            bandwidth: Bandwidth::Eighths,
            ..Profile::intel(16, 0)
        }
    }

    /// A machine that counts and divides nothing.
    pub fn monitor_only() -> Profile {
        Profile { schemas: &[], bandwidth: Bandwidth::None, ..Profile::intel(11, 0) }
    }

    /// A machine that limits bandwidth and divides no cache.
    pub fn bandwidth_only() -> Profile {
        Profile { schemas: &[], monitors: false, ..Profile::intel(11, 0) }
    }
}

#[derive(Clone, Debug, Default)]
struct Group {
    /// Masks by schema, one for each cache.
    masks: BTreeMap<&'static str, Vec<Mask>>,
    /// Limits of bandwidth, one for each cache.
    limits: Vec<u32>,
    cpus: BTreeSet<u32>,
    tasks: BTreeSet<u32>,
    exclusive: bool,
    /// Bytes of the group in each cache; `None`: the counter is unavailable.
    occupancy: Vec<Option<u64>>,
}

struct State {
    /// Groups by name; the default group's is empty.
    groups: BTreeMap<String, Group>,
    status: String,
    locked: bool,
    /// Counters of removed groups whose lines are still in the cache.
    draining: usize,
}

/// The fake.
pub struct Fake {
    profile: Profile,
    state: Mutex<State>,
}

/// The task that writes to a fake; "0" stands for it.
pub const CALLER: u32 = 1000;
/// Tasks of a fake that are alive.
const TASKS: [u32; 4] = [CALLER, 1001, 1002, 1003];

type Told<T> = Result<T, (i32, String)>;

fn refuse<T>(number: i32, status: impl Into<String>) -> Told<T> {
    Err((number, status.into()))
}

impl Fake {
    /// A machine just after resctrl was mounted.
    pub fn new(profile: Profile) -> Fake {
        let default = Group {
            masks: profile.full_masks(),
            limits: vec![profile.limit_most(); profile.domains.len()],
            cpus: (0..profile.cpus).collect(),
            tasks: TASKS.into(),
            exclusive: false,
            occupancy: vec![Some(0); profile.domains.len()],
        };
        let groups = BTreeMap::from([(String::new(), default)]);
        let state = State { groups, status: "ok".to_owned(), locked: false, draining: 0 };
        Fake { profile, state: Mutex::new(state) }
    }

    /// All that can be configured: text by path, without counters and the last status.
    pub fn configuration(&self) -> BTreeMap<String, String> {
        let state = self.state();
        let mut all = BTreeMap::new();
        for (name, group) in &state.groups {
            for file in ["schemata", "cpus_list", "tasks", "mode"] {
                let text = self.profile.group_file(group, file).expect("every group has the file");
                all.insert(format!("{name}/{file}"), text);
            }
        }
        all
    }

    /// Panics unless invariants 1 and 2 hold.
    pub fn check(&self) {
        let state = self.state();
        let cpus: Vec<u32> = state.groups.values().flat_map(|group| group.cpus.clone()).collect();
        let distinct: BTreeSet<u32> = cpus.iter().copied().collect();
        assert_eq!((cpus.len(), distinct.len()), (self.profile.cpus as usize, cpus.len()));
        let tasks: Vec<u32> = state.groups.values().flat_map(|group| group.tasks.clone()).collect();
        let distinct: BTreeSet<u32> = tasks.iter().copied().collect();
        assert_eq!((tasks.len(), distinct.len()), (TASKS.len(), TASKS.len()));
        for mask in state.groups.values().flat_map(|group| group.masks.values()).flatten() {
            assert_eq!(self.profile.masks.check(*mask), Ok(()), "{mask}");
        }
    }

    /// Has another program hold the lock, or give it back.
    pub fn hold_lock(&self, held: bool) {
        self.state().locked = held;
    }

    /// Has counters of removed groups drain, so that new groups get none; 0: all have drained.
    pub fn drain_counters(&self, count: usize) {
        self.state().draining = count;
    }

    /// Sets what the counter of a group in a cache tells; `None`: unavailable.
    ///
    /// Panics: if there is no such group or cache.
    pub fn set_occupancy(&self, group: &str, domain: u32, bytes: Option<u64>) {
        let at = self.profile.domains.iter().position(|&id| id == domain).expect("a cache");
        let mut state = self.state();
        state.groups.get_mut(group).expect("a group").occupancy[at] = bytes;
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Runs a command, and notes its status as the kernel does.
    fn command(&self, run: impl FnOnce(&mut State) -> Told<()>) -> io::Result<()> {
        let mut state = self.state();
        match run(&mut state) {
            Ok(()) => {
                state.status = "ok".to_owned();
                Ok(())
            }
            Err((number, status)) => {
                state.status = status;
                Err(os(number))
            }
        }
    }
}

impl Profile {
    fn full_masks(&self) -> BTreeMap<&'static str, Vec<Mask>> {
        let full = vec![self.masks.full; self.domains.len()];
        self.schemas.iter().map(|&schema| (schema, full.clone())).collect()
    }

    fn limit_most(&self) -> u32 {
        match self.bandwidth {
            Bandwidth::None => 0,
            Bandwidth::Percent => 100,
            Bandwidth::Eighths => 2048,
        }
    }

    fn info_file(&self, path: &str) -> Option<String> {
        let (resource, file) = path.split_once('/')?;
        let text = match (resource, file) {
            ("L3_MON", "mon_features") if self.monitors => {
                "llc_occupancy\nmbm_total_bytes\nmbm_local_bytes".to_owned()
            }
            ("L3_MON", "num_rmids") if self.monitors => self.counters_max.to_string(),
            ("MB", "num_closids") if self.limit_most() > 0 => self.groups_max.to_string(),
            ("MB", "bandwidth_gran") if self.limit_most() == 100 => "10".to_owned(),
            ("MB", "bandwidth_gran") if self.limit_most() > 0 => "1".to_owned(),
            ("MB", "min_bandwidth") if self.limit_most() > 0 => "10".to_owned(),
            (schema, file) if self.schemas.contains(&schema) => match file {
                "cbm_mask" => self.masks.full.to_string(),
                "shareable_bits" => self.masks.shareable.to_string(),
                "min_cbm_bits" => self.masks.ways_min.to_string(),
                "num_closids" => self.groups_max.to_string(),
                "sparse_masks" if self.shows_sparse => u8::from(self.masks.sparse).to_string(),
                _ => return None,
            },
            _ => return None,
        };
        Some(text + "\n")
    }

    fn group_file(&self, group: &Group, file: &str) -> Option<String> {
        Some(match file {
            "schemata" => {
                let line = |name: &str, values: Vec<String>| {
                    let parts: Vec<String> = self
                        .domains
                        .iter()
                        .zip(values)
                        .map(|(id, v)| format!("{id}={v}"))
                        .collect();
                    format!("{name:>6}:{}\n", parts.join(";"))
                };
                let mut text = String::new();
                if self.limit_most() > 0 {
                    text += &line("MB", group.limits.iter().map(u32::to_string).collect());
                }
                for (schema, masks) in &group.masks {
                    text += &line(schema, masks.iter().map(Mask::to_string).collect());
                }
                text
            }
            "cpus_list" => {
                let cpus: Vec<u32> = group.cpus.iter().copied().collect();
                topology::list_text(&cpus).replace(", ", ",") + "\n"
            }
            "tasks" => group.tasks.iter().map(|task| format!("{task}\n")).collect(),
            "mode" if group.exclusive => "exclusive\n".to_owned(),
            "mode" => "shareable\n".to_owned(),
            _ => return None,
        })
    }

    fn counter_file(&self, group: &Group, path: &str) -> Option<String> {
        let (folder, file) = path.strip_prefix("mon_data/mon_L3_")?.split_once('/')?;
        let domain: u32 = folder.parse().ok()?;
        let at = self.domains.iter().position(|&id| id == domain)?;
        let bytes = match file {
            _ if !self.monitors => return None,
            "llc_occupancy" | "mbm_total_bytes" | "mbm_local_bytes" => group.occupancy[at],
            _ => return None,
        };
        Some(bytes.map_or("Unavailable\n".to_owned(), |bytes| format!("{bytes}\n")))
    }

    /// The kernel's `cbm_validate`: written from its order of tests, not from [`MaskRules::check`].
    fn mask(&self, text: &str) -> Told<Mask> {
        let Ok(bits) = u64::from_str_radix(text.trim_start_matches("0x"), 16) else {
            return refuse(EINVAL, format!("Non-hex character in the mask {text}"));
        };
        if (self.masks.ways_min > 0 && bits == 0) || bits > self.masks.full.0 {
            return refuse(EINVAL, "Mask out of range");
        }
        let first = bits.trailing_zeros();
        let zero = first + (bits.checked_shr(first).unwrap_or(0)).trailing_ones();
        if !self.masks.sparse && bits.checked_shr(zero).unwrap_or(0) != 0 {
            return refuse(EINVAL, format!("The mask {bits:x} has non-consecutive 1-bits"));
        }
        if zero - first < self.masks.ways_min {
            return refuse(EINVAL, format!("Need at least {} bits", self.masks.ways_min));
        }
        Ok(Mask(bits))
    }

    fn limit(&self, text: &str) -> Told<u32> {
        match text.parse::<u32>() {
            Ok(limit) if limit >= 10 && limit <= self.limit_most() => Ok(limit),
            Ok(limit) => refuse(EINVAL, format!("MB value {limit} out of range")),
            Err(_) => refuse(EINVAL, format!("Invalid MB value {text}")),
        }
    }

    /// The group with the text of `schemata` applied.
    fn configured(&self, name: &str, state: &State, text: &str) -> Told<Group> {
        let mut group = state.groups[name].clone();
        let Some(lines) = text.strip_suffix('\n') else {
            return refuse(EINVAL, "Missing newline");
        };
        for line in lines.lines() {
            let Some((schema, parts)) = line.trim().split_once(':') else {
                return refuse(EINVAL, "Missing ':'");
            };
            let mut seen = BTreeSet::new();
            for part in parts.split(';') {
                let Some((id, value)) = part.split_once('=') else {
                    return refuse(EINVAL, "Missing '=' or non-numeric domain");
                };
                let id = id.trim().parse::<u32>().ok();
                let Some(at) = self.domains.iter().position(|&domain| Some(domain) == id) else {
                    return refuse(EINVAL, "Unknown domain");
                };
                if !seen.insert(at) {
                    return refuse(EINVAL, format!("Duplicate domain {}", self.domains[at]));
                }
                if schema == "MB" && self.limit_most() > 0 {
                    group.limits[at] = self.limit(value.trim())?;
                    continue;
                }
                let Some(masks) = group.masks.get_mut(schema) else {
                    return refuse(EINVAL, format!("Unknown resource name '{schema}'"));
                };
                let mask = self.mask(value.trim())?;
                if group.exclusive && !mask.and(self.masks.shareable).is_empty() {
                    return refuse(EINVAL, "Overlaps with hardware");
                }
                masks[at] = mask;
                let others = state.groups.iter().filter(|(other, _)| *other != name);
                for (_, other) in others {
                    let clash = !other.masks[schema][at].and(mask).is_empty();
                    if clash && (other.exclusive || group.exclusive) {
                        return refuse(EINVAL, "Overlaps with exclusive group");
                    }
                }
            }
        }
        if self.loses_masks {
            group.masks = state.groups[name].masks.clone();
        }
        Ok(group)
    }

    fn set_cpus(&self, name: &str, state: &mut State, text: &str) -> Told<()> {
        let Ok(wanted) = topology::list(text) else {
            return refuse(EINVAL, "Bad CPU list/mask");
        };
        if wanted.iter().any(|&cpu| cpu >= self.cpus) {
            return refuse(EINVAL, "Can only assign online CPUs");
        }
        let wanted: BTreeSet<u32> = wanted.into_iter().collect();
        let dropped: BTreeSet<u32> = &state.groups[name].cpus - &wanted;
        if name.is_empty() && !dropped.is_empty() {
            return refuse(EINVAL, "Can't drop CPUs from default group");
        }
        for (other, group) in &mut state.groups {
            if other == name {
                group.cpus = wanted.clone();
            } else {
                group.cpus = &group.cpus - &wanted;
            }
            if other.is_empty() {
                group.cpus.extend(&dropped);
            }
        }
        Ok(())
    }

    fn move_tasks(&self, name: &str, state: &mut State, text: &str) -> Told<()> {
        for word in text.trim().split(',') {
            let Ok(task) = word.trim().parse::<u32>() else {
                return refuse(EINVAL, format!("Task list parsing error pid {word}"));
            };
            let task = if task == 0 { CALLER } else { task };
            if !TASKS.contains(&task) {
                return refuse(ESRCH, format!("No task {task}"));
            }
            for (other, group) in &mut state.groups {
                group.tasks.remove(&task);
                if other == name {
                    group.tasks.insert(task);
                }
            }
        }
        Ok(())
    }

    fn set_mode(&self, name: &str, state: &mut State, text: &str) -> Told<()> {
        let exclusive = match text {
            "shareable\n" => false,
            "exclusive\n" => true,
            _ => return refuse(EINVAL, "Unknown or unsupported mode"),
        };
        let group = &state.groups[name];
        let others = state.groups.iter().filter(|(other, _)| *other != name);
        let taken = |schema: &str, at: usize| {
            let of_others = others.clone().map(|(_, other)| other.masks[schema][at].0);
            Mask(of_others.fold(self.masks.shareable.0, |all, mask| all | mask))
        };
        let overlaps = group.masks.iter().any(|(schema, masks)| {
            masks.iter().enumerate().any(|(at, mask)| !mask.and(taken(schema, at)).is_empty())
        });
        if exclusive && overlaps {
            return refuse(EINVAL, "Schemata overlaps");
        }
        state.groups.get_mut(name).expect("looked up above").exclusive = exclusive;
        Ok(())
    }

    fn make(&self, name: &str, state: &mut State) -> Told<()> {
        if name.is_empty() || name.contains(['/', '\n']) {
            return refuse(EINVAL, "Invalid name");
        }
        if state.groups.contains_key(name) || ["info", "mon_data", "mon_groups"].contains(&name) {
            return refuse(EEXIST, "ok");
        }
        if state.groups.len() >= self.groups_max {
            return refuse(ENOSPC, "Out of CLOSIDs");
        }
        if self.monitors && state.groups.len() + state.draining >= self.counters_max {
            let number = if state.draining > 0 { EBUSY } else { ENOSPC };
            return refuse(number, "Out of RMIDs");
        }
        let mut group = Group {
            masks: self.full_masks(),
            limits: vec![self.limit_most(); self.domains.len()],
            occupancy: vec![Some(0); self.domains.len()],
            ..Group::default()
        };
        for other in state.groups.values().filter(|other| other.exclusive) {
            for (schema, masks) in &mut group.masks {
                for (at, mask) in masks.iter_mut().enumerate() {
                    *mask = mask.without(other.masks[schema][at]);
                    let run =
                        Mask::lowest((mask.0 >> mask.0.trailing_zeros().min(63)).trailing_ones());
                    if !self.masks.sparse {
                        *mask = Mask(run.0 << mask.0.trailing_zeros().min(63));
                    }
                    if mask.count() < self.masks.ways_min {
                        return refuse(
                            ENOSPC,
                            format!("No space on {schema}:{}", self.domains[at]),
                        );
                    }
                }
            }
        }
        state.groups.insert(name.to_owned(), group);
        Ok(())
    }
}

/// A path as (group, file); the default group's name is empty.
fn split<'p>(state: &State, path: &'p str) -> Option<(&'p str, &'p str)> {
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    if state.groups.contains_key(first) { Some((first, rest)) } else { Some(("", path)) }
}

impl ResctrlFs for Fake {
    fn read(&self, path: &str) -> io::Result<String> {
        let state = self.state();
        if path == "info/last_cmd_status" {
            return Ok(format!("{}\n", state.status));
        }
        let text = match path.strip_prefix("info/") {
            Some(path) => self.profile.info_file(path),
            None => split(&state, path).and_then(|(name, file)| {
                let group = &state.groups[name];
                self.profile
                    .group_file(group, file)
                    .or_else(|| self.profile.counter_file(group, file))
            }),
        };
        text.ok_or_else(|| os(ENOENT))
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let profile = &self.profile;
        self.command(|state| {
            let Some((name, file)) = split(state, path) else { return refuse(ENOENT, "ok") };
            match file {
                "schemata" => {
                    let group = profile.configured(name, state, text)?;
                    state.groups.insert(name.to_owned(), group);
                    Ok(())
                }
                "cpus_list" => profile.set_cpus(name, state, text),
                "tasks" => profile.move_tasks(name, state, text),
                "mode" => profile.set_mode(name, state, text),
                _ => refuse(ENOENT, "ok"),
            }
        })
    }

    fn make_folder(&self, path: &str) -> io::Result<()> {
        self.command(|state| self.profile.make(path, state))
    }

    fn remove_folder(&self, path: &str) -> io::Result<()> {
        self.command(|state| {
            if path.is_empty() || path.split('/').next().is_some_and(|first| first == "info") {
                return refuse(EPERM, "ok");
            }
            let Some(gone) = state.groups.remove(path) else { return refuse(ENOENT, "ok") };
            let default = state.groups.get_mut("").expect("the default group stays");
            default.cpus.extend(gone.cpus);
            default.tasks.extend(gone.tasks);
            Ok(())
        })
    }

    fn folders(&self, path: &str) -> io::Result<Vec<String>> {
        let state = self.state();
        let profile = &self.profile;
        let mut names: Vec<String> = match split(&state, path) {
            _ if path == "info" => {
                let monitor = profile.monitors.then_some("L3_MON");
                let limits = (profile.limit_most() > 0).then_some("MB");
                let all = profile.schemas.iter().copied().chain(monitor).chain(limits);
                all.map(str::to_owned).collect()
            }
            _ if path.is_empty() => {
                let fixed = ["info", "mon_data", "mon_groups"].map(str::to_owned);
                state.groups.keys().filter(|name| !name.is_empty()).cloned().chain(fixed).collect()
            }
            Some((_, "mon_data")) if profile.monitors => {
                profile.domains.iter().map(|id| format!("mon_L3_{id:02}")).collect()
            }
            Some((_, "mon_groups")) => Vec::new(),
            Some((name, "")) if !name.is_empty() => {
                ["mon_data", "mon_groups"].map(str::to_owned).to_vec()
            }
            _ => return Err(os(ENOENT)),
        };
        names.sort();
        Ok(names)
    }

    fn lock(&self) -> io::Result<Lock> {
        match self.state().locked {
            true => Err(io::ErrorKind::WouldBlock.into()),
            false => Ok(Lock { _held: None }),
        }
    }
}

/// A fake of which a function says, before each change, whether the change fails.
pub struct Faulty<F> {
    fake: Arc<Fake>,
    pass: F,
}

impl<F: Fn() -> io::Result<()> + Send + Sync> Faulty<F> {
    /// The fake, whose changes fail with the errors of `pass`.
    pub fn new(fake: Arc<Fake>, pass: F) -> Self {
        Faulty { fake, pass }
    }
}

impl<F: Fn() -> io::Result<()> + Send + Sync> ResctrlFs for Faulty<F> {
    fn read(&self, path: &str) -> io::Result<String> {
        self.fake.read(path)
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        (self.pass)()?;
        self.fake.write(path, text)
    }

    fn make_folder(&self, path: &str) -> io::Result<()> {
        (self.pass)()?;
        self.fake.make_folder(path)
    }

    fn remove_folder(&self, path: &str) -> io::Result<()> {
        (self.pass)()?;
        self.fake.remove_folder(path)
    }

    fn folders(&self, path: &str) -> io::Result<Vec<String>> {
        self.fake.folders(path)
    }

    fn lock(&self) -> io::Result<Lock> {
        self.fake.lock()
    }
}
