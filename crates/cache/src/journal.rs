//! The journal of what was changed in a tree, so that it can be undone: by the program that changed it, or
//! after a crash by the next one.
//!
//! A line is written, and is durable, before the change that it tells of. Undoing is idempotent, and a
//! change that somebody else has made since stays.
//!
//! Format: a line `owner PID START BOOT`, then `group NAME`, `masks NAME TEXT`, `cpus NAME LIST`. A last line
//! without its end is a change that was never made. A name that is no name of a group of ours makes the file no journal:
//! undoing removes folders.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Beginning of the names of all our groups.
pub const NAMES: &str = "halcyon-";

/// A change that is about to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The group is made.
    Group {
        /// Name of the group.
        name: String,
    },
    /// The group's masks are written.
    Masks {
        /// Name of the group.
        name: String,
        /// The line of `schemata`.
        line: String,
    },
    /// The group's processors are written.
    Cpus {
        /// Name of the group.
        name: String,
        /// The list, as `cpus_list` has it; empty for none.
        list: String,
    },
}

impl Note {
    /// Name of the group that is changed.
    pub fn group(&self) -> &str {
        match self {
            Note::Group { name } | Note::Masks { name, .. } | Note::Cpus { name, .. } => name,
        }
    }

    fn line(&self) -> String {
        match self {
            Note::Group { name } => format!("group {name}\n"),
            Note::Masks { name, line } => format!("masks {name} {line}\n"),
            Note::Cpus { name, list } => format!("cpus {name} {list}\n"),
        }
    }

    fn parse(line: &str) -> Option<Note> {
        let (kind, rest) = line.split_once(' ')?;
        let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
        let (name, value) = (name.to_owned(), value.to_owned());
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if !name.starts_with(NAMES) || !name.bytes().all(is_plain) {
            return None;
        }
        match kind {
            "group" => Some(Note::Group { name }),
            "masks" => Some(Note::Masks { name, line: value }),
            "cpus" => Some(Note::Cpus { name, list: value }),
            _ => None,
        }
    }
}

/// A process, told apart from later ones with its number by when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Number of the process.
    pub pid: u32,
    /// When it began, in ticks since the machine's start (`/proc/PID/stat`, field 22).
    pub start: u64,
    /// The boot of the machine (`boot_id`, as a number); no group outlives it. 0: the kernel does not say.
    pub boot: u128,
}

impl Owner {
    /// The process that asks.
    pub fn this() -> Owner {
        let pid = std::process::id();
        Owner { pid, start: start_of(pid).unwrap_or(0), boot: boot() }
    }

    /// Whether the process still runs.
    pub fn is_alive(self) -> bool {
        !self.is_of_earlier_boot() && start_of(self.pid) == Some(self.start)
    }

    /// Whether the machine was started since, so that nothing of what the process changed is left.
    pub fn is_of_earlier_boot(self) -> bool {
        self.boot != boot()
    }
}

/// The number of the machine's boot.
fn boot() -> u128 {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    u128::from_str_radix(&text.trim().replace('-', ""), 16).unwrap_or(0)
}

/// When a process began; `None` if there is none.
fn start_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, field 2, may have blanks and parentheses.
    let (_, behind) = stat.rsplit_once(") ")?;
    behind.split(' ').nth(19)?.parse().ok()
}

/// Where notes go.
pub trait Journal: Send {
    /// Notes a change; it is durable when this returns.
    fn note(&mut self, note: &Note) -> io::Result<()>;

    /// Forgets all notes: all was undone.
    fn clear(&mut self) -> io::Result<()>;
}

/// A journal in a file. The best place is a folder that vanishes at a reboot, as resctrl's groups do.
pub struct FileJournal {
    path: PathBuf,
    file: Option<File>,
}

impl FileJournal {
    /// A journal at a path where no file is. The file is made with the first note.
    pub fn at(path: impl Into<PathBuf>) -> FileJournal {
        FileJournal { path: path.into(), file: None }
    }

    /// What an earlier process has left at the path: its owner and notes. `None` if there is no file.
    ///
    /// Errors: the operating system's; `InvalidData` if the file is no journal.
    pub fn left_at(path: impl Into<PathBuf>) -> io::Result<Option<(Owner, Vec<Note>)>> {
        match fs::read(path.into()) {
            Ok(bytes) => read(&bytes).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Journal for FileJournal {
    fn note(&mut self, note: &Note) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let file = OpenOptions::new().create_new(true).append(true).open(&self.path)?;
                let file = self.file.insert(file);
                let Owner { pid, start, boot } = Owner::this();
                file.write_all(format!("owner {pid} {start} {boot:032x}\n").as_bytes())?;
                sync_name(&self.path)?;
                file
            }
        };
        file.write_all(note.line().as_bytes())?;
        file.sync_data()
    }

    fn clear(&mut self) -> io::Result<()> {
        self.file = None;
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Makes the name of a new file durable.
fn sync_name(path: &Path) -> io::Result<()> {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// The owner and the notes of a journal's bytes. A torn last line is left out.
///
/// Errors: `InvalidData` if the first line names no owner, or a whole line is no note.
pub fn read(bytes: &[u8]) -> io::Result<(Owner, Vec<Note>)> {
    let wrong = |line: usize| {
        io::Error::new(io::ErrorKind::InvalidData, format!("line {line} of the journal is no note"))
    };
    let text = String::from_utf8_lossy(bytes);
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut lines = whole.lines();
    let owner = lines.next().and_then(|line| {
        let (pid, rest) = line.strip_prefix("owner ")?.split_once(' ')?;
        let (start, boot) = rest.split_once(' ')?;
        let boot = u128::from_str_radix(boot, 16).ok()?;
        Some(Owner { pid: pid.parse().ok()?, start: start.parse().ok()?, boot })
    });
    let owner = match owner {
        Some(owner) => owner,
        // Torn within its first line: nothing was changed yet.
        None if whole.is_empty() => Owner { pid: 0, start: 0, boot: boot() },
        None => return Err(wrong(1)),
    };
    let notes: io::Result<Vec<Note>> = lines
        .enumerate()
        .map(|(at, line)| Note::parse(line).ok_or_else(|| wrong(at + 2)))
        .collect();
    Ok((owner, notes?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn notes() -> Vec<Note> {
        let name = "halcyon-1-polluting".to_owned();
        vec![
            Note::Group { name: name.clone() },
            Note::Masks { name: name.clone(), line: "L3:0=3;1=3".to_owned() },
            Note::Cpus { name: name.clone(), list: "0-3,8".to_owned() },
            Note::Cpus { name, list: String::new() },
        ]
    }

    #[test]
    fn a_journal_is_read_as_it_was_written_and_goes_when_all_is_undone() {
        let path = std::env::temp_dir().join(format!("halcyon-journal-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        assert!(FileJournal::left_at(&path).expect("no file is no error").is_none());
        let mut journal = FileJournal::at(&path);
        for note in notes() {
            journal.note(&note).expect("the folder of temporary files takes it");
        }
        let (owner, left) = FileJournal::left_at(&path).expect("readable").expect("a file");
        assert_eq!((owner, left), (Owner::this(), notes()));
        assert!(owner.is_alive());
        let second = FileJournal::at(&path).note(&notes()[0]);
        assert_eq!(second.expect_err("another's").kind(), io::ErrorKind::AlreadyExists);
        journal.clear().expect("removable");
        assert!(!path.exists());
    }

    #[test]
    fn a_process_that_began_at_another_time_is_another() {
        let mut owner = Owner::this();
        owner.start += 1;
        assert!(!owner.is_alive() && !owner.is_of_earlier_boot());
        let before = Owner { boot: 1, ..Owner::this() };
        assert!(!before.is_alive() && before.is_of_earlier_boot());
    }

    #[test]
    fn a_journal_that_names_what_is_no_group_of_ours_is_none() {
        for name in ["other", "halcyon-/../mine", "..", "", "halcyon-a/b"] {
            let text = format!("owner 7 8 9\ngroup {name}\n");
            assert!(read(text.as_bytes()).is_err(), "{name:?}");
        }
        assert!(read(b"owner 7 8 9\ngroup halcyon-1-2-sensitive\n").is_ok());
    }

    #[test]
    fn a_torn_journal_has_the_notes_before_the_tear() {
        let text: String =
            "owner 7 8 9\n".to_owned() + &notes().iter().map(Note::line).collect::<String>();
        for length in 0..=text.len() {
            let (owner, read) = read(&text.as_bytes()[..length]).expect("a tear is no damage");
            let lines = text[..length].matches('\n').count();
            assert_eq!(read, notes()[..lines.saturating_sub(1)]);
            assert_eq!(owner.pid, if lines == 0 { 0 } else { 7 });
        }
        assert!(read(b"owner 7 8 9\nnonsense\n").is_err());
        assert!(read(b"nonsense\ngroup x\n").is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes: Vec<u8>, text in "(owner|group|cpus|masks| |\n|[a-z0-9]){0,30}") {
            let _ = (read(&bytes), read(text.as_bytes()));
        }
    }
}
