//! A tree of knobs in memory that behaves as the kernel's: for tests, on any machine, without rights.
//!
//! What is modelled, each as seen on Linux 6.1: values come back in the kernel's own form; a mask without a
//! processor that exists is refused (EINVAL); interrupts that the kernel manages are refused (EIO); folders of
//! control groups come with their knobs, and go only without tasks (EBUSY); tasks that are bound to their
//! processors stay where they are (EINVAL); a partition that cannot be had says so in the text that is read back.
//! Of newer kernels: unbound workqueues keep off isolated partitions by themselves.
//!
//! Faults and deaths are counted in *changes*: writes, folders made and removed, from 0.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::panic;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::form::Form;
use crate::knobs::Knobs;

/// The payload of the panic by which [`Fake`] ends a run in the middle, as SIGKILL ends a process.
#[derive(Debug)]
pub struct Killed;

/// What happens at a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The change is refused with an error number.
    Refuse(i32),
    /// The process dies before the change.
    DieBefore,
    /// The process dies when the change has been made.
    DieAfter,
    /// Another program writes a text to a knob when the change has been made.
    Interfere(&'static str, &'static str),
}

/// The hierarchy of control groups that is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Groups {
    /// Version 2 at `/sys/fs/cgroup`; whether the root's children have the controller `cpuset`.
    V2 {
        /// Whether the root gives its children the controller from the beginning.
        enabled: bool,
    },
    /// Version 1 at `/sys/fs/cgroup/cpuset`.
    V1,
    /// None.
    Missing,
}

#[derive(Clone, Debug)]
enum Kind {
    Cpus(Form),
    Number,
    Fixed,
    Refusing(i32),
}

#[derive(Clone, Debug)]
struct File {
    kind: Kind,
    text: String,
}

#[derive(Clone, Debug, Default)]
struct Group {
    cpus: String,
    mems: String,
    partition: String,
    is_threaded: bool,
    balanced: bool,
}

#[derive(Debug)]
struct State {
    cpus: Vec<u32>,
    files: BTreeMap<String, File>,
    groups: Groups,
    folders: BTreeMap<String, Group>,
    root_balanced: bool,
    is_enabled: bool,
    tasks: BTreeMap<u32, String>,
    bound: BTreeSet<u32>,
    changes: usize,
    event: Option<(usize, Event)>,
    broken: BTreeMap<String, i32>,
    workqueues_follow: bool,
}

/// The tree.
#[derive(Debug)]
pub struct Fake(Mutex<State>);

fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

const TASKS: [u32; 5] = [1, 2, 40, 41, 700];
const WORKQUEUES: &str = "/sys/devices/virtual/workqueue";

impl Fake {
    /// A machine of `cpus` processors, one interrupt for each and one that is managed.
    pub fn new(cpus: u32, groups: Groups) -> Fake {
        let all: Vec<u32> = (0..cpus).collect();
        let mut state = State {
            cpus: all.clone(),
            files: BTreeMap::new(),
            groups,
            folders: BTreeMap::new(),
            root_balanced: true,
            is_enabled: matches!(groups, Groups::V2 { enabled: true }),
            tasks: TASKS.iter().map(|task| (*task, String::new())).collect(),
            bound: [2, 40].into(),
            changes: 0,
            event: None,
            broken: BTreeMap::new(),
            workqueues_follow: false,
        };
        let (list, mask) = (Form::List.text(&all), Form::Mask.text(&all));
        for irq in 0..cpus {
            state.add(&format!("/proc/irq/{irq}/smp_affinity_list"), Kind::Cpus(Form::List), &list);
        }
        let last = Form::List.text(&all[all.len() - 1..]);
        state.add("/proc/irq/90/smp_affinity_list", Kind::Cpus(Form::List), &last);
        state.add("/proc/irq/91/smp_affinity_list", Kind::Refusing(libc::EIO), &list);
        state.add("/proc/irq/default_smp_affinity", Kind::Cpus(Form::Mask), &mask);
        for queue in ["", "/writeback"] {
            state.add(&format!("{WORKQUEUES}{queue}/cpumask"), Kind::Cpus(Form::Mask), &mask);
        }
        state.add("/proc/sys/kernel/watchdog_cpumask", Kind::Cpus(Form::List), &list);
        state.add("/proc/sys/vm/stat_interval", Kind::Number, "1");
        state.add("/proc/sys/kernel/random/boot_id", Kind::Fixed, "b7-1f");
        state.add("/proc/cmdline", Kind::Fixed, "quiet");
        let mounts = match groups {
            Groups::V2 { .. } => "none /sys/fs/cgroup cgroup2 rw 0 0",
            Groups::V1 => "none /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0",
            Groups::Missing => "proc /proc proc rw 0 0",
        };
        state.add("/proc/self/mounts", Kind::Fixed, mounts);
        Fake(Mutex::new(state))
    }

    /// The same with unbound workqueues that keep off isolated partitions by themselves (Linux 6.9).
    pub fn with_workqueues_that_follow(self) -> Fake {
        self.state().workqueues_follow = true;
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets something happen at the `change`-th change from now; none: nothing any more.
    pub fn plan_event(&self, event: Option<(usize, Event)>) {
        let mut state = self.state();
        let now = state.changes;
        state.event = event.map(|(change, event)| (now + change, event));
    }

    /// Lets every write to a knob fail, until `errno` is none.
    pub fn break_knob(&self, path: &str, errno: Option<i32>) {
        let mut state = self.state();
        match errno {
            Some(errno) => state.broken.insert(path.to_owned(), errno),
            None => state.broken.remove(path),
        };
    }

    /// Takes a knob away, as of a kernel that does not have it.
    pub fn remove_knob(&self, path: &str) {
        self.state().files.remove(path);
    }

    /// A knob more, that cannot be written.
    pub fn add_knob(&self, path: &str, text: &str) {
        self.state().add(path, Kind::Fixed, text);
    }

    /// A write by another program: counted as no change, and nothing happens at it.
    pub fn write_as_other(&self, path: &str, text: &str) {
        self.state().write(path, text).expect("the other program's write is allowed");
    }

    /// Changes made until now.
    pub fn changes(&self) -> usize {
        self.state().changes
    }

    /// Starts a task in the root.
    pub fn start_task(&self, task: u32) {
        self.state().tasks.insert(task, String::new());
    }

    /// Everything that can be read, for comparing two moments.
    pub fn snapshot(&self) -> String {
        let state = self.state();
        let mut text = String::new();
        for path in state.files.keys() {
            text.push_str(&format!("{path}={}\n", state.read(path).unwrap_or_default().trim()));
        }
        text.push_str(&format!(
            "cpuset on={} balanced={} folders={:?} tasks={:?}\n",
            state.is_enabled,
            state.root_balanced,
            state.folders.keys().collect::<Vec<_>>(),
            state.tasks
        ));
        text
    }

    /// Counts a change, and lets happen what is planned before it; gives what is planned behind it.
    fn count(&self) -> io::Result<Option<Event>> {
        let mut state = self.state();
        let now = state.changes;
        state.changes += 1;
        match state.event {
            Some((change, Event::Refuse(number))) if change == now => Err(errno(number)),
            Some((change, Event::DieBefore)) if change == now => {
                drop(state);
                panic::resume_unwind(Box::new(Killed))
            }
            Some((change, event)) if change == now => Ok(Some(event)),
            _ => Ok(None),
        }
    }

    fn change(&self, change: impl FnOnce(&mut State) -> io::Result<()>) -> io::Result<()> {
        let after = self.count()?;
        let result = change(&mut self.state());
        match after {
            Some(Event::DieAfter) => panic::resume_unwind(Box::new(Killed)),
            Some(Event::Interfere(path, text)) => self.write_as_other(path, text),
            _ => {}
        }
        result
    }
}

impl Knobs for Fake {
    fn read(&self, path: &str) -> io::Result<String> {
        self.state().read(path)
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        self.change(|state| match state.broken.get(path) {
            Some(number) => Err(errno(*number)),
            None => state.write(path, text),
        })
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.state().list(folder)
    }

    fn mkdir(&self, folder: &str) -> io::Result<()> {
        self.change(|state| state.mkdir(folder))
    }

    fn rmdir(&self, folder: &str) -> io::Result<()> {
        self.change(|state| state.rmdir(folder))
    }
}

impl State {
    fn add(&mut self, path: &str, kind: Kind, text: &str) {
        self.files.insert(path.to_owned(), File { kind, text: text.to_owned() });
    }

    fn root(&self) -> &'static str {
        match self.groups {
            Groups::V2 { .. } => "/sys/fs/cgroup",
            Groups::V1 => "/sys/fs/cgroup/cpuset",
            Groups::Missing => "/nowhere",
        }
    }

    fn is_v2(&self) -> bool {
        matches!(self.groups, Groups::V2 { .. })
    }

    /// A path of the hierarchy as group (empty for the root) and knob.
    fn in_groups<'a>(&self, path: &'a str) -> Option<(&'a str, &'a str)> {
        let below = path.strip_prefix(self.root())?.strip_prefix('/')?;
        match below.split_once('/') {
            Some((group, knob)) => self.folders.contains_key(group).then_some((group, knob)),
            None => Some(("", below)),
        }
    }

    fn isolated(&self) -> Vec<u32> {
        let groups = self.folders.values().filter(|group| group.partition == "isolated");
        groups.flat_map(|group| Form::List.cpus(&group.cpus).unwrap_or_default()).collect()
    }

    fn read(&self, path: &str) -> io::Result<String> {
        if let Some(file) = self.files.get(path) {
            let shown = match &file.kind {
                Kind::Cpus(form) => {
                    let mut cpus = form.cpus(&file.text).unwrap_or_default();
                    if self.workqueues_follow && path == format!("{WORKQUEUES}/cpumask") {
                        let isolated = self.isolated();
                        cpus.retain(|cpu| !isolated.contains(cpu));
                    }
                    match form {
                        Form::Mask => format!("00000000,{:0>8}", form.text(&cpus)),
                        _ => form.text(&cpus),
                    }
                }
                _ => file.text.clone(),
            };
            return Ok(format!("{shown}\n"));
        }
        let (group, knob) = self.in_groups(path).ok_or_else(|| errno(libc::ENOENT))?;
        self.read_group(group, knob).map(|text| format!("{text}\n"))
    }

    fn members(&self, group: &str) -> String {
        let there = self.tasks.iter().filter(|(_, place)| *place == group);
        there.map(|(task, _)| task.to_string()).collect::<Vec<_>>().join("\n")
    }

    fn read_group(&self, group: &str, knob: &str) -> io::Result<String> {
        let all = Form::List.text(&self.cpus);
        let missing = || errno(libc::ENOENT);
        if group.is_empty() {
            return Ok(match (self.is_v2(), knob) {
                (true, "cgroup.controllers") => "cpuset cpu io memory pids".to_owned(),
                (true, "cgroup.subtree_control") => {
                    if self.is_enabled { "cpuset memory" } else { "memory" }.to_owned()
                }
                (true, "cgroup.threads" | "cgroup.procs") | (false, "tasks") => self.members(group),
                (false, "cpuset.cpus") => all,
                (false, "cpuset.mems") => "0".to_owned(),
                (false, "cpuset.sched_load_balance") => u8::from(self.root_balanced).to_string(),
                _ => return Err(missing()),
            });
        }
        let there = &self.folders[group];
        Ok(match (self.is_v2(), knob) {
            (true, "cgroup.type") => {
                if there.is_threaded { "threaded" } else { "domain" }.to_owned()
            }
            (true, "cgroup.threads") | (false, "tasks") => self.members(group),
            (true, "cpuset.cpus.partition") if self.is_enabled => there.partition.clone(),
            (true, "cpuset.cpus") if !self.is_enabled => return Err(missing()),
            (_, "cpuset.cpus") => there.cpus.clone(),
            (false, "cpuset.mems") => there.mems.clone(),
            (false, "cpuset.sched_load_balance") => u8::from(there.balanced).to_string(),
            _ => return Err(missing()),
        })
    }

    fn write(&mut self, path: &str, text: &str) -> io::Result<()> {
        let invalid = || errno(libc::EINVAL);
        let text = text.trim();
        let online = self.cpus.clone();
        if let Some(file) = self.files.get_mut(path) {
            match &file.kind {
                Kind::Fixed => return Err(errno(libc::EACCES)),
                Kind::Refusing(number) => return Err(errno(*number)),
                Kind::Number => {
                    text.parse::<i64>().map_err(|_| invalid())?;
                }
                Kind::Cpus(form) => {
                    let cpus = form.cpus(text).ok_or_else(invalid)?;
                    if !cpus.iter().any(|cpu| online.contains(cpu)) {
                        return Err(invalid());
                    }
                }
            }
            file.text = text.to_owned();
            return Ok(());
        }
        let (group, knob) = self.in_groups(path).ok_or_else(|| errno(libc::ENOENT))?;
        let (group, knob) = (group.to_owned(), knob.to_owned());
        if matches!(knob.as_str(), "cgroup.threads" | "cgroup.procs" | "tasks") {
            return self.move_task(&group, text);
        }
        match group.is_empty() {
            true => self.write_root(&knob, text),
            false => self.write_group(&group, &knob, text),
        }
    }

    fn move_task(&mut self, group: &str, text: &str) -> io::Result<()> {
        let task: u32 = text.parse().map_err(|_| errno(libc::EINVAL))?;
        let task = if task == 0 { TASKS[0] } else { task };
        let is_v1_without_cpus = !self.is_v2()
            && self
                .folders
                .get(group)
                .is_some_and(|group| group.cpus.is_empty() || group.mems.is_empty());
        if is_v1_without_cpus {
            return Err(errno(libc::ENOSPC));
        }
        if self.bound.contains(&task) {
            return Err(errno(libc::EINVAL));
        }
        let place = self.tasks.get_mut(&task).ok_or_else(|| errno(libc::ESRCH))?;
        *place = group.to_owned();
        Ok(())
    }

    fn write_root(&mut self, knob: &str, text: &str) -> io::Result<()> {
        match (self.is_v2(), knob, text) {
            (true, "cgroup.subtree_control", "+cpuset") => self.is_enabled = true,
            (true, "cgroup.subtree_control", "-cpuset") => {
                self.is_enabled = false;
                for group in self.folders.values_mut() {
                    group.cpus.clear();
                    group.partition = "member".to_owned();
                }
            }
            (false, "cpuset.sched_load_balance", "0" | "1") => self.root_balanced = text == "1",
            (_, "cgroup.subtree_control" | "cpuset.sched_load_balance", _) => {
                return Err(errno(libc::EINVAL));
            }
            _ => return Err(errno(libc::EACCES)),
        }
        Ok(())
    }

    fn write_group(&mut self, group: &str, knob: &str, text: &str) -> io::Result<()> {
        self.read_group(group, knob)?;
        let (online, taken) = (self.cpus.clone(), self.isolated());
        let there = self.folders.get_mut(group).expect("the group was found");
        match knob {
            "cgroup.type" if text == "threaded" => there.is_threaded = true,
            "cpuset.cpus" => {
                let cpus = Form::List.cpus(text).ok_or_else(|| errno(libc::EINVAL))?;
                if cpus.iter().any(|cpu| !online.contains(cpu)) {
                    return Err(errno(libc::EINVAL));
                }
                there.cpus = Form::List.text(&cpus);
            }
            "cpuset.mems" => there.mems = text.to_owned(),
            "cpuset.sched_load_balance" => there.balanced = text == "1",
            "cpuset.cpus.partition" => {
                let cpus = Form::List.cpus(&there.cpus).unwrap_or_default();
                let free = !cpus.is_empty() && cpus.iter().all(|cpu| !taken.contains(cpu));
                there.partition = match (text, free) {
                    ("member", _) => "member".to_owned(),
                    ("isolated", true) => "isolated".to_owned(),
                    ("isolated", false) => {
                        "isolated invalid (Cpu list in cpuset.cpus not exclusive)".to_owned()
                    }
                    _ => return Err(errno(libc::EINVAL)),
                };
            }
            _ => return Err(errno(libc::EINVAL)),
        }
        Ok(())
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let prefix = format!("{folder}/");
        let mut names = BTreeSet::new();
        for path in self.files.keys() {
            if let Some(below) = path.strip_prefix(&prefix) {
                names.insert(below.split('/').next().unwrap_or_default().to_owned());
            }
        }
        if folder == self.root() {
            names.extend(self.folders.keys().cloned());
        }
        match names.is_empty() {
            true => Err(errno(libc::ENOENT)),
            false => Ok(names.into_iter().collect()),
        }
    }

    fn group_of<'a>(&self, folder: &'a str) -> io::Result<&'a str> {
        let below = folder.strip_prefix(self.root()).and_then(|below| below.strip_prefix('/'));
        below.filter(|group| !group.contains('/')).ok_or_else(|| errno(libc::ENOENT))
    }

    fn mkdir(&mut self, folder: &str) -> io::Result<()> {
        let group = self.group_of(folder)?;
        if self.folders.contains_key(group) {
            return Err(errno(libc::EEXIST));
        }
        let new = Group { partition: "member".to_owned(), balanced: true, ..Group::default() };
        self.folders.insert(group.to_owned(), new);
        Ok(())
    }

    fn rmdir(&mut self, folder: &str) -> io::Result<()> {
        let group = self.group_of(folder)?;
        if self.tasks.values().any(|place| place == group) {
            return Err(errno(libc::EBUSY));
        }
        self.folders.remove(group).map(|_| ()).ok_or_else(|| errno(libc::ENOENT))
    }
}
