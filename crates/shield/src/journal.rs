//! The journal: what a shield is going to change and how it was, on stable storage before the first change.
//!
//! A text file of lines, fields separated by tabs, the last line a checksum. A journal without its right last
//! line is *torn*: it was never finished, so that nothing was changed. Journals say which boot they belong to,
//! since no change outlives one. Paths are looked at before anything is written to them: a file that names
//! other places than knobs is no journal.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::form::Form;
use crate::plan::{Plan, Step};
use crate::survey::{Knob, REST, SHIELD};

const HEAD: &str = "halcyon shield journal 1";

/// A change that must be undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A knob, its value before, and the value that the shield gives it.
    Set {
        /// The knob as it was.
        knob: Knob,
        /// The shield's value.
        new: String,
    },
    /// A control group that the shield makes.
    Made {
        /// Its folder.
        folder: String,
        /// The name of the knob that lists its tasks.
        members: String,
    },
}

/// A journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    /// The kernel's `boot_id`.
    pub boot: String,
    /// The owner's process.
    pub owner: u32,
    /// When the owner was started, in the kernel's ticks since the boot: tells it from a later process of its number.
    pub started: u64,
    /// The shielded processors.
    pub cpus: Vec<u32>,
    /// The changes, in the order in which they are made.
    pub entries: Vec<Entry>,
}

/// Why bytes are no journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The end is missing or does not fit: the journal was never finished, and nothing was changed.
    Torn,
    /// The checksum fits, and a line says something that no shield does.
    Foreign,
}

/// FNV-1a over 64 bits; tells a torn file, not an attack.
fn checksum(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Journal {
    /// The journal of a plan.
    pub fn of(plan: &Plan, boot: &str, owner: u32, started: u64) -> Journal {
        let entry = |step: &Step| match step {
            Step::Set { knob, new, .. } => {
                Some(Entry::Set { knob: knob.clone(), new: new.clone() })
            }
            Step::Make { folder, members } => {
                Some(Entry::Made { folder: folder.clone(), members: (*members).to_owned() })
            }
            Step::Inside { .. } | Step::Move { .. } => None,
        };
        let entries = plan.steps.iter().filter_map(entry).collect();
        Journal { boot: boot.to_owned(), owner, started, cpus: plan.shielded.clone(), entries }
    }

    /// The journal as text.
    pub fn text(&self) -> String {
        let cpus = Form::List.text(&self.cpus);
        let Journal { boot, owner, started, .. } = self;
        let mut text = format!("{HEAD}\nboot\t{boot}\nowner\t{owner}\t{started}\ncpus\t{cpus}\n");
        for entry in &self.entries {
            let _ = match entry {
                Entry::Set { knob, new } => {
                    let form = Form::NAMES.iter().find(|(form, _)| *form == knob.form);
                    let form = form.map_or("word", |(_, name)| name);
                    writeln!(text, "set\t{form}\t{}\t{}\t{new}", knob.path, knob.value)
                }
                Entry::Made { folder, members } => writeln!(text, "made\t{folder}\t{members}"),
            };
        }
        let sum = checksum(&text);
        let _ = writeln!(text, "end\t{sum:016x}");
        text
    }

    /// Reads a journal.
    ///
    /// Errors: see [`Damage`]. Panics: never, whatever the bytes are.
    pub fn parse(bytes: &[u8]) -> Result<Journal, Damage> {
        let text = std::str::from_utf8(bytes).map_err(|_| Damage::Torn)?;
        let text = text.strip_suffix('\n').ok_or(Damage::Torn)?;
        let (body, end) = text.rsplit_once('\n').ok_or(Damage::Torn)?;
        let sum = end.strip_prefix("end\t").ok_or(Damage::Torn)?;
        let sum = u64::from_str_radix(sum, 16).map_err(|_| Damage::Torn)?;
        if checksum(&format!("{body}\n")) != sum {
            return Err(Damage::Torn);
        }
        parse_body(body).ok_or(Damage::Foreign)
    }
}

fn parse_body(body: &str) -> Option<Journal> {
    let mut lines = body.lines();
    if lines.next()? != HEAD {
        return None;
    }
    let boot = lines.next()?.strip_prefix("boot\t")?.to_owned();
    let (owner, started) = lines.next()?.strip_prefix("owner\t")?.split_once('\t')?;
    let (owner, started) = (owner.parse().ok()?, started.parse().ok()?);
    let cpus = Form::List.cpus(lines.next()?.strip_prefix("cpus\t")?)?;
    let entries = lines.map(parse_entry).collect::<Option<Vec<Entry>>>()?;
    Some(Journal { boot, owner, started, cpus, entries })
}

fn parse_entry(line: &str) -> Option<Entry> {
    let fields: Vec<&str> = line.split('\t').collect();
    match fields[..] {
        ["set", form, path, value, new] if is_knob(path) => {
            let (form, _) = Form::NAMES.iter().find(|(_, name)| *name == form)?;
            let knob = Knob { path: path.to_owned(), form: *form, value: value.to_owned() };
            Some(Entry::Set { knob, new: new.to_owned() })
        }
        ["made", folder, members @ ("tasks" | "cgroup.threads")] if is_group(folder) => {
            Some(Entry::Made { folder: folder.to_owned(), members: members.to_owned() })
        }
        _ => None,
    }
}

fn is_plain(path: &str) -> bool {
    path.starts_with('/') && path.split('/').skip(1).all(|part| !matches!(part, "" | "." | ".."))
}

/// Whether a path is one that shields change.
fn is_knob(path: &str) -> bool {
    let is_of_group = path.ends_with("/cgroup.subtree_control")
        || path.ends_with("/cpuset.sched_load_balance")
        || path.ends_with("/sched_load_balance");
    let is_mask = (path.starts_with("/proc/irq/") && path.contains("smp_affinity"))
        || (path.starts_with("/sys/devices/virtual/workqueue/") && path.ends_with("/cpumask"));
    let is_setting =
        ["/proc/sys/kernel/watchdog_cpumask", "/proc/sys/vm/stat_interval"].contains(&path);
    is_plain(path) && (is_of_group || is_mask || is_setting)
}

fn is_group(folder: &str) -> bool {
    let name = folder.rsplit('/').next();
    is_plain(folder) && (name == Some(SHIELD) || name == Some(REST))
}

/// A journal's place: a folder that only its owner may write to.
#[derive(Clone, Debug)]
pub struct Place {
    folder: PathBuf,
}

impl Place {
    /// The place in a folder.
    pub fn new(folder: impl Into<PathBuf>) -> Place {
        Place { folder: folder.into() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn file(&self) -> PathBuf {
        self.folder.join("journal")
    }

    /// Writes a journal: file and folder are synced when this returns.
    pub fn write(&self, journal: &Journal) -> io::Result<()> {
        let unfinished = self.folder.join("journal.new");
        let mut file = File::create(&unfinished)?;
        file.write_all(journal.text().as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, self.file())?;
        File::open(&self.folder)?.sync_all()
    }

    /// The journal that is there, or what is wrong with it; none: there is none.
    pub fn read(&self) -> io::Result<Option<Result<Journal, Damage>>> {
        match fs::read(self.file()) {
            Ok(bytes) => Ok(Some(Journal::parse(&bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the journal, if there is one.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_file(self.file()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => File::open(&self.folder)?.sync_all(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon_base::rng::Rng;

    fn journal() -> Journal {
        let knob = |path: &str, form, value: &str| Knob {
            path: path.to_owned(),
            form,
            value: value.to_owned(),
        };
        let set = |knob, new: &str| Entry::Set { knob, new: new.to_owned() };
        Journal {
            boot: "b7-1f".to_owned(),
            owner: 77,
            started: 4_211,
            cpus: vec![2, 3],
            entries: vec![
                set(
                    knob("/sys/fs/cgroup/cgroup.subtree_control", Form::Controller, "-cpuset"),
                    "+cpuset",
                ),
                Entry::Made {
                    folder: format!("/sys/fs/cgroup/{SHIELD}"),
                    members: "cgroup.threads".to_owned(),
                },
                set(knob("/proc/irq/7/smp_affinity_list", Form::List, "0-3"), "0-1"),
                set(knob("/proc/sys/vm/stat_interval", Form::Number, "1"), "10"),
            ],
        }
    }

    #[test]
    fn a_journal_is_read_as_it_was_written() {
        let text = journal().text();
        assert_eq!(Journal::parse(text.as_bytes()), Ok(journal()));
    }

    #[test]
    fn every_beginning_of_a_journal_is_torn_and_so_is_every_changed_byte() {
        let text = journal().text().into_bytes();
        for length in 0..text.len() {
            assert_eq!(Journal::parse(&text[..length]), Err(Damage::Torn), "{length}");
        }
        for at in 0..text.len() {
            let mut changed = text.clone();
            changed[at] ^= 1;
            assert!(Journal::parse(&changed).is_err(), "{at}");
        }
    }

    #[test]
    fn a_journal_that_names_other_files_than_knobs_is_refused() {
        for line in [
            "set\tword\t/etc/shadow\ta\tb",
            "set\tlist\t/proc/irq/../../etc/passwd_smp_affinity\t0\t1",
            "set\tnumber\t/proc/sys/kernel/core_pattern\t0\t1",
            "made\t/etc\ttasks",
            "made\t/sys/fs/cgroup/halcyon.shield\tshadow",
            "nothing",
        ] {
            let mut text = format!("{HEAD}\nboot\tb\nowner\t1\t5\ncpus\t2\n{line}\n");
            let sum = checksum(&text);
            let _ = writeln!(text, "end\t{sum:016x}");
            assert_eq!(Journal::parse(text.as_bytes()), Err(Damage::Foreign), "{line}");
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic() {
        let mut rng = Rng::new(3);
        let whole = journal().text().into_bytes();
        for round in 0..20_000 {
            let mut bytes: Vec<u8> = match round % 2 {
                0 => (0..rng.below(80)).map(|_| rng.below(256) as u8).collect(),
                _ => whole.clone(),
            };
            for _ in 0..rng.below(4) {
                if !bytes.is_empty() {
                    let at = rng.below(bytes.len() as u64) as usize;
                    bytes[at] = rng.below(256) as u8;
                }
            }
            // A right checksum lets the lines themselves be read.
            if let Ok(text) = String::from_utf8(bytes.clone())
                && rng.chance(1, 2)
            {
                let mut body =
                    text.rsplit_once("end").map_or(text.clone(), |(body, _)| body.to_owned());
                let sum = checksum(&body);
                let _ = writeln!(body, "end\t{sum:016x}");
                bytes = body.into_bytes();
            }
            let _ = Journal::parse(&bytes);
        }
    }

    #[test]
    fn a_place_has_the_journal_that_was_written_last_until_it_is_removed() {
        let folder = std::env::temp_dir().join(format!("halcyon-journal-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let place = Place::new(&folder);
        assert_eq!(place.read().unwrap(), None);
        place.write(&journal()).unwrap();
        assert_eq!(place.read().unwrap(), Some(Ok(journal())));
        fs::write(place.file(), &journal().text()[..40]).unwrap();
        assert_eq!(place.read().unwrap(), Some(Err(Damage::Torn)));
        place.remove().unwrap();
        place.remove().unwrap();
        assert_eq!(place.read().unwrap(), None);
        fs::remove_dir_all(folder).unwrap();
    }
}
