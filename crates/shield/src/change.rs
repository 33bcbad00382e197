//! Making a plan's changes, and undoing those of a journal: compare and restore.
//!
//! Undoing goes backwards. A knob that has the shield's value gets its old one; a knob that has its old value
//! is left alone; a knob that has neither was changed by somebody else meanwhile, and keeps the other's value.
//! When all is undone, every knob is read once more: what did not come back is told.
//!
//! Since the shield's own values are in the journal before the first change, any prefix of the changes is undone
//! in the same way, whether the prefix ended with an error or with the death of the process.

use std::fmt;
use std::io;
use std::thread;
use std::time::Duration;

use crate::form::Form;
use crate::journal::{Entry, Journal};
use crate::knobs::Knobs;
use crate::plan::{Need, Plan, Step};
use crate::survey::{Knob, SHIELD};

/// Rounds in which tasks that start meanwhile are moved as well.
const MOVE_ROUNDS: usize = 20;
/// Attempts to remove a folder whose tasks are just ending, 10 ms apart.
const REMOVE_ATTEMPTS: usize = 50;

/// A change that was refused and that the shield does without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withheld {
    /// The knob.
    pub path: String,
    /// Why, in words.
    pub why: String,
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.why)
    }
}

/// What was made of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Raised {
    /// Changes that the kernel refused, and that were only wanted.
    pub withheld: Vec<Withheld>,
    /// Tasks that were moved off the shielded processors.
    pub moved: usize,
    /// Tasks that are bound to their processors and stay.
    pub bound: usize,
}

/// Makes a plan's changes. `between` is called before each of them, and before each task that is moved: a kernel may take
/// milliseconds for one.
///
/// Errors: a required change was refused. The changes before it stay: the caller undoes the journal.
pub fn raise(
    knobs: &dyn Knobs,
    plan: &Plan,
    between: &mut dyn FnMut(),
) -> Result<Raised, Withheld> {
    let mut raised = Raised::default();
    for step in &plan.steps {
        between();
        let (path, need, result) = match step {
            Step::Set { knob, new, need } => (&knob.path, *need, set(knobs, knob, new)),
            Step::Make { folder, .. } => {
                (folder, Need::Required, knobs.mkdir(folder).map_err(|error| error.to_string()))
            }
            Step::Inside { path, form, value, need } => {
                (path, *need, write_and_read(knobs, path, *form, value))
            }
            Step::Move { from, to } => {
                let (moved, bound) = move_all(knobs, from, to, between);
                raised.moved += moved;
                raised.bound += bound;
                continue;
            }
        };
        if let Err(why) = result {
            let withheld = Withheld { path: path.clone(), why };
            match need {
                Need::Required => return Err(withheld),
                Need::Wanted => raised.withheld.push(withheld),
            }
        }
    }
    Ok(raised)
}

fn set(knobs: &dyn Knobs, knob: &Knob, new: &str) -> Result<(), String> {
    let now = knobs.read(&knob.path).map_err(|error| error.to_string())?;
    if knob.form.same(&now, new) {
        return Ok(());
    }
    if !knob.form.same(&now, &knob.value) {
        return Err(format!("somebody else made it {} meanwhile", now.trim()));
    }
    let result = write_and_read(knobs, &knob.path, knob.form, new);
    if result.is_err() {
        // What the kernel made of the new value would be taken for somebody else's.
        let now = knobs.read(&knob.path).unwrap_or_default();
        if !knob.form.same(&now, &knob.value) {
            let _ = knobs.write(&knob.path, &knob.value);
        }
    }
    result
}

fn write_and_read(knobs: &dyn Knobs, path: &str, form: Form, value: &str) -> Result<(), String> {
    knobs.write(path, value).map_err(|error| error.to_string())?;
    let now = knobs.read(path).map_err(|error| error.to_string())?;
    match form.same(&now, value) {
        true => Ok(()),
        false => Err(format!("the kernel made {} of {value}", now.trim())),
    }
}

/// Moves every task that can be moved; how many were, and how many could not be.
fn move_all(knobs: &dyn Knobs, from: &str, to: &str, between: &mut dyn FnMut()) -> (usize, usize) {
    let mut bound: Vec<String> = Vec::new();
    let mut moved = 0;
    for _ in 0..MOVE_ROUNDS {
        let listed = knobs.read(from).unwrap_or_default();
        let tasks = listed.lines().map(str::trim).filter(|task| !task.is_empty());
        let tasks: Vec<&str> = tasks.filter(|task| !bound.iter().any(|one| one == task)).collect();
        if tasks.is_empty() {
            break;
        }
        for task in tasks {
            between();
            match knobs.write(to, task) {
                Ok(()) => moved += 1,
                // The task has ended.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(_) => bound.push(task.to_owned()),
            }
        }
    }
    (moved, bound.len())
}

/// A knob that has not its old value after undoing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The knob or folder.
    pub path: String,
    /// What is the matter, in words.
    pub why: String,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.why)
    }
}

/// What undoing a journal has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Knobs that got their old values, and folders that were removed.
    pub restored: usize,
    /// Knobs that had their old values, and folders that were not there.
    pub untouched: usize,
    /// Knobs that somebody else changed meanwhile, and that keep the other's value.
    pub foreign: Vec<Left>,
    /// Knobs and folders that did not come back.
    pub failed: Vec<Left>,
    /// The journal's entries of `failed`.
    pub rest: Vec<Entry>,
}

impl Restored {
    /// Whether everything is as it was, but for what others changed.
    pub fn is_whole(&self) -> bool {
        self.failed.is_empty()
    }
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} restored, {} were as before", self.restored, self.untouched)?;
        for left in &self.foreign {
            write!(f, "\nkept, because somebody else changed it: {left}")?;
        }
        for left in &self.failed {
            write!(f, "\nDID NOT COME BACK: {left}")?;
        }
        Ok(())
    }
}

/// Undoes a journal's changes, as many of them as were made.
pub fn restore(knobs: &dyn Knobs, journal: &Journal) -> Restored {
    let mut result = Restored::default();
    for entry in journal.entries.iter().rev() {
        match entry {
            Entry::Set { knob, new } => restore_knob(knobs, knob, new, &mut result),
            Entry::Made { folder, members } => remove(knobs, folder, members, entry, &mut result),
        }
    }
    verify(knobs, journal, &mut result);
    result
}

fn restore_knob(knobs: &dyn Knobs, knob: &Knob, new: &str, result: &mut Restored) {
    let Ok(now) = knobs.read(&knob.path) else { return };
    if knob.form.same(&now, &knob.value) {
        result.untouched += 1;
    } else if !knob.form.same(&now, new) {
        let why = format!("{} now, was {}", now.trim(), knob.value);
        result.foreign.push(Left { path: knob.path.clone(), why });
    } else if let Some(user) = user_of_controller(knobs, knob) {
        let why = format!("{user} uses it now");
        result.foreign.push(Left { path: knob.path.clone(), why });
    } else if knobs.write(&knob.path, &knob.value).is_ok() {
        result.restored += 1;
        let now = knobs.read(&knob.path).unwrap_or_default();
        // The shield's value may stay until a partition is gone. Of another one the kernel is the author.
        if !knob.form.same(&now, &knob.value) && !knob.form.same(&now, new) {
            let why = format!("the kernel made {} of {}", now.trim(), knob.value);
            result.failed.push(Left { path: knob.path.clone(), why });
            let (knob, new) = (knob.clone(), new.to_owned());
            result.rest.push(Entry::Set { knob, new });
        }
    }
}

/// Another group that has come to use the controller that is to be switched off, and would lose its settings.
fn user_of_controller(knobs: &dyn Knobs, knob: &Knob) -> Option<String> {
    if knob.form != Form::Controller {
        return None;
    }
    let root = knob.path.strip_suffix("/cgroup.subtree_control")?;
    let uses = |folder: &str| {
        let cpus = knobs.text(&format!("{folder}/cpuset.cpus")).unwrap_or_default();
        let below = knobs.text(&format!("{folder}/cgroup.subtree_control")).unwrap_or_default();
        !cpus.is_empty() || Form::Controller.same(&below, "+cpuset")
    };
    let folders = knobs.list(root).unwrap_or_default().into_iter().filter(|name| name != SHIELD);
    folders.map(|name| format!("{root}/{name}")).find(|folder| uses(folder))
}

/// Moves a group's tasks to its parent, and removes the group.
fn remove(knobs: &dyn Knobs, folder: &str, members: &str, entry: &Entry, result: &mut Restored) {
    if !knobs.exists(&format!("{folder}/{members}")) && !knobs.exists(folder) {
        result.untouched += 1;
        return;
    }
    let partition = format!("{folder}/cpuset.cpus.partition");
    if knobs.exists(&partition) {
        // The kernel takes a removed partition apart some time later; this gives the processors back at once.
        let _ = knobs.write(&partition, "member");
    }
    let parent = folder.rsplit_once('/').map_or("", |(parent, _)| parent);
    let mut refused = io::Error::from_raw_os_error(libc::EBUSY);
    for attempt in 0..REMOVE_ATTEMPTS {
        let (from, to) = (format!("{folder}/{members}"), format!("{parent}/{members}"));
        move_all(knobs, &from, &to, &mut || {});
        match knobs.rmdir(folder) {
            Ok(()) => {
                result.restored += 1;
                return;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                result.restored += 1;
                return;
            }
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                if attempt > 0 {
                    thread::sleep(Duration::from_millis(10));
                }
            }
            Err(error) => {
                refused = error;
                break;
            }
        }
    }
    result.failed.push(Left { path: folder.to_owned(), why: refused.to_string() });
    result.rest.insert(0, entry.clone());
}

/// Reads every knob once more.
fn verify(knobs: &dyn Knobs, journal: &Journal, result: &mut Restored) {
    for entry in &journal.entries {
        let Entry::Set { knob, new } = entry else { continue };
        let is_told = |left: &Left| left.path == knob.path;
        if result.foreign.iter().any(is_told) || result.failed.iter().any(is_told) {
            continue;
        }
        let path = knob.path.clone();
        match knobs.read(&knob.path) {
            Ok(now) if knob.form.same(&now, &knob.value) => {}
            Ok(now) => {
                let why = format!("{} now, was {}", now.trim(), knob.value);
                if knob.form.same(&now, new) {
                    result.failed.push(Left { path, why });
                    result.rest.push(entry.clone());
                } else {
                    // It had its old value a moment ago.
                    result.foreign.push(Left { path, why });
                }
            }
            // A device that went away takes its knobs along: nothing is left to be restored.
            Err(error) if error.kind() == io::ErrorKind::NotFound => result.untouched += 1,
            Err(error) => {
                let why = format!("{error}; was {}", knob.value);
                result.failed.push(Left { path, why });
                result.rest.push(entry.clone());
            }
        }
    }
}
