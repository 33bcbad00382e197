//! The partition as an engine keeps it: turned on and off at any time, off with a reason, told group by group, and undone
//! at the next start if the process was killed.
//!
//! Words: a *place* is a tree of resctrl with a folder of journals, a file for each keeper that has a partition.
//!
//! Invariants, checked by `tests/keeper.rs`:
//! 1. The partition is on, or the keeper says why it is off; a keeper that is off has changed nothing that is not undone, or its
//!    journal is there.
//! 2. A journal whose process is gone is undone by the next keeper; the journal of a living process is left alone.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use crate::behaviour::{Chase, Effect, OnThisMachine};
use crate::directory::Directory;
use crate::fs::ResctrlFs;
use crate::journal::{FileJournal, NAMES, Owner};
use crate::mask::Mask;
use crate::partition::{Partition, Settings};
use crate::split::CpuSplit;
use crate::undo::{list, undo};

/// The folder of journals: it vanishes at a reboot, as groups do.
pub const FOLDER: &str = "/run/halcyon-cache";
/// Ending of a journal's name.
const ENDING: &str = ".journal";

/// Where caches are divided.
#[derive(Clone)]
pub struct Place {
    /// The tree, or the reason why there is none.
    pub tree: Result<Arc<dyn ResctrlFs>, String>,
    /// The folder of journals, made when the first is written.
    pub folder: PathBuf,
    /// `hardware`, or `fake` for a tree with no cache behind it, on which no effect is tried.
    pub source: &'static str,
}

impl Place {
    /// The kernel's tree.
    pub fn of_this_machine() -> Place {
        let tree = Directory::of_this_machine();
        let tree = tree.map(|tree| Arc::new(tree) as Arc<dyn ResctrlFs>);
        Place { tree, folder: FOLDER.into(), source: "hardware" }
    }

    /// A tree for tests, with its journals.
    pub fn fake(tree: Arc<dyn ResctrlFs>, folder: impl Into<PathBuf>) -> Place {
        Place { tree: Ok(tree), folder: folder.into(), source: "fake" }
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place").field("folder", &self.folder).field("source", &self.source).finish()
    }
}

/// What a group has of one cache, or why there are no groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRow {
    /// `polluting`, `sensitive` or `default`.
    pub group: &'static str,
    /// Id of the cache; `None` while the partition is off.
    pub cache: Option<u32>,
    /// Whether the partition is on.
    pub is_on: bool,
    /// Why the partition is off, or what is not known of its effect.
    pub reason: Option<String>,
    /// The ways that the group fills.
    pub mask: Option<Mask>,
    /// The group's processors on all caches, as a list.
    pub processors: Option<String>,
    /// Bytes that the group has in the cache, if they are counted.
    pub occupancy_bytes: Option<u64>,
    /// Bytes that the group has had from memory, if they are counted.
    pub memory_bytes: Option<u64>,
    /// `hardware` or `fake`.
    pub source: &'static str,
}

enum State {
    On(Box<Partition>),
    Off(String),
}

/// The partition of an engine.
pub struct Keeper {
    place: Place,
    /// Tells keepers of one process apart.
    number: u32,
    state: Mutex<State>,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Keeper {
    /// A keeper whose partition is off.
    pub fn new(place: Place, why: &str) -> Keeper {
        static NUMBERS: AtomicU32 = AtomicU32::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Keeper { place, number, state: Mutex::new(State::Off(why.to_owned())) }
    }

    /// Undoes what processes that are gone have left. Returns what was done and what stays, in words; nothing if
    /// there was nothing.
    pub fn recover(&self) -> Vec<String> {
        let Ok(files) = journals(&self.place.folder) else { return Vec::new() };
        let (Ok(tree), false) = (&self.place.tree, files.is_empty()) else { return Vec::new() };
        // A journal is written under this lock: none is looked at in the making.
        let lock = match tree.lock() {
            Ok(lock) => lock,
            Err(error) => return vec![format!("what was left of a partition stays: {error}")],
        };
        let told = files.iter().flat_map(|file| recovered(&**tree, file)).collect();
        drop(lock);
        told
    }

    /// Divides the caches among these processors, or puts other ones into the groups.
    ///
    /// Errors: why not, in one line; the partition is off then.
    pub fn turn_on(&self, split: &CpuSplit) -> Result<(), String> {
        let mut state = self.state();
        let before = std::mem::replace(&mut *state, State::Off(String::new()));
        let turned = match before {
            State::On(partition) if partition.split() == split => Ok(*partition),
            State::On(partition) => self.moved(*partition, split),
            State::Off(_) => self.divided(split),
        };
        match turned {
            Ok(partition) => {
                *state = State::On(Box::new(partition));
                Ok(())
            }
            Err(why) => {
                *state = State::Off(why.clone());
                Err(why)
            }
        }
    }

    /// Gives the caches back. Returns what stays.
    pub fn turn_off(&self, why: &str) -> Vec<String> {
        let before = std::mem::replace(&mut *self.state(), State::Off(why.to_owned()));
        match before {
            State::On(partition) => partition.turn_off(),
            State::Off(_) => Vec::new(),
        }
    }

    /// Whether the caches are divided.
    pub fn is_on(&self) -> bool {
        matches!(&*self.state(), State::On(_))
    }

    /// What each group has of each cache; one row for each group while the partition is off.
    pub fn rows(&self) -> Vec<GroupRow> {
        let source = self.place.source;
        match &*self.state() {
            State::Off(why) => {
                let row = |group| GroupRow {
                    group,
                    cache: None,
                    is_on: false,
                    reason: Some(why.clone()),
                    mask: None,
                    processors: None,
                    occupancy_bytes: None,
                    memory_bytes: None,
                    source,
                };
                ["polluting", "sensitive", "default"].map(row).into()
            }
            State::On(partition) => {
                let reason = match partition.effect() {
                    Some(Effect::Unclear(why)) => Some(format!("the effect is unclear: {why}")),
                    None => Some("no effect was looked for".to_owned()),
                    Some(_) => None,
                };
                let row = |usage: crate::partition::Usage| GroupRow {
                    group: usage.group,
                    cache: Some(usage.domain),
                    is_on: true,
                    reason: reason.clone(),
                    mask: Some(usage.mask).filter(|mask| !mask.is_empty()),
                    processors: usage.cpus.map(|cpus| list(&cpus)),
                    occupancy_bytes: usage.occupancy_bytes,
                    memory_bytes: usage.memory_bytes,
                    source,
                };
                partition.usage().into_iter().map(row).collect()
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn divided(&self, split: &CpuSplit) -> Result<Partition, String> {
        let tree = self.place.tree.clone()?;
        let folder = &self.place.folder;
        own_folder(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let Owner { pid, start, .. } = Owner::this();
        let name = format!("{NAMES}{pid}-{start}-{}", self.number);
        let journal = FileJournal::at(folder.join(format!("{name}{ENDING}")));
        let settings = Settings { prefix: format!("{name}-"), ..Settings::default() };
        let mut chase = (self.place.source == "hardware").then(OnThisMachine::new);
        let chase = chase.as_mut().map(|chase| chase as &mut dyn Chase);
        let on = Partition::turn_on(tree, Box::new(journal), &settings, split, chase);
        on.map_err(|refused| refused.to_string())
    }

    /// Other processors in the groups: at once, or by a partition of its own if they were changed too shortly before.
    fn moved(&self, partition: Partition, split: &CpuSplit) -> Result<Partition, String> {
        let moved = partition.rebalance(split, Instant::now());
        let (partition, is_moved) = moved.map_err(|refused| refused.to_string())?;
        if is_moved {
            return Ok(partition);
        }
        let left = partition.turn_off();
        if left.is_empty() { self.divided(split) } else { Err(left.join("; ")) }
    }
}

/// The journals of a folder, sorted.
fn journals(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with(NAMES) && name.ends_with(ENDING) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Undoes a journal of a process that is gone.
fn recovered(tree: &dyn ResctrlFs, file: &Path) -> Vec<String> {
    let shown = file.display();
    let gone = |done: String| match fs::remove_file(file) {
        Ok(()) => vec![done],
        Err(error) => vec![done, format!("{shown} stays: {error}")],
    };
    match FileJournal::left_at(file) {
        Ok(None) => Vec::new(),
        Ok(Some((owner, _))) if owner.is_of_earlier_boot() => {
            gone(format!("{shown} was of an earlier boot: nothing of it is left"))
        }
        Ok(Some((owner, _))) if owner.is_alive() => Vec::new(),
        Ok(Some((owner, notes))) => {
            let left = undo(tree, &notes);
            let is_whole = left.failed.is_empty();
            let mut told = match is_whole {
                true => gone(format!("the partition that process {} left was undone", owner.pid)),
                false => Vec::new(),
            };
            told.extend(left.all());
            told
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            gone(format!("{shown} was no journal: it was removed, nothing was done ({error})"))
        }
        Err(error) => vec![format!("{shown}: {error}")],
    }
}

/// Makes the folder, unless it is there.
///
/// Errors: the operating system's; `PermissionDenied` if others may write to it, and so could have the next start undo what
/// nobody has done.
fn own_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let (data, own) = (fs::symlink_metadata(folder)?, fs::metadata("/proc/self")?.uid());
    match data.is_dir() && data.uid() == own && data.mode() & 0o022 == 0 {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the folder of journals must be one that its owner alone writes to",
        )),
    }
}
