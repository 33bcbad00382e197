//! Conditions that a database runs under: how the kernel and the process are configured, as files tell.
//!
//! Everything is read under a root, so that a recorded tree can stand for a machine, and of a process, which
//! need not be this one. What cannot be read is `None`, and no default stands in for it.

use crate::limit;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The file that says whether the kernel gives transparent huge pages.
pub(crate) const HUGE_PAGES: &str = "sys/kernel/mm/transparent_hugepage/enabled";

/// How the kernel and a process are configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Processors by the governor of their clock rate; none where the kernel does not govern it.
    pub governors: Option<BTreeMap<String, Vec<u32>>>,
    /// The choice for transparent huge pages: `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    /// When memory is defragmented for them: `always` makes the program wait for it.
    pub huge_pages_defrag: Option<String>,
    /// Swap space, bytes.
    pub swap_bytes: Option<u64>,
    /// How readily the kernel swaps, 0 to 200.
    pub swappiness: Option<u32>,
    /// The most bytes of swap that the control groups of the process allow; `None` if they set no limit.
    pub swap_max: Option<u64>,
    /// The rule for memory that is reserved and not touched: 0 by a guess, 1 always granted, 2 limited.
    pub overcommit: Option<u8>,
    /// The kernel's clock.
    pub clock_source: Option<String>,
    /// Files that the process may have open at once; the largest number if there is no limit.
    pub open_files: Option<u64>,
    /// Bytes that the process may have, by its control groups and the machine's memory.
    pub memory_max: Option<u64>,
    /// File systems, as the process sees them.
    pub mounts: Option<Vec<Mount>>,
}

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The folder that it is mounted at.
    pub place: PathBuf,
    /// The type, as `ext4`.
    pub kind: String,
    /// Options of the mount and of the file system, with commas between them.
    pub options: String,
}

impl Mount {
    /// Whether an option is set.
    pub fn has(&self, option: &str) -> bool {
        self.options.split(',').any(|one| one == option)
    }
}

impl Conditions {
    /// The conditions under `root` of a process: its number, or `self`.
    pub fn read(root: &Path, process: &str) -> Conditions {
        let number = |path: &str| text(root, path)?.parse().ok();
        Conditions {
            governors: governors(root),
            huge_pages: text(root, HUGE_PAGES).and_then(|text| chosen(&text)),
            huge_pages_defrag: text(root, "sys/kernel/mm/transparent_hugepage/defrag")
                .and_then(|text| chosen(&text)),
            swap_bytes: text(root, "proc/swaps").map(|text| swap_bytes(&text)),
            swappiness: number("proc/sys/vm/swappiness"),
            swap_max: limit::swap_max_under(root, process),
            overcommit: text(root, "proc/sys/vm/overcommit_memory")
                .and_then(|text| text.parse().ok()),
            clock_source: text(
                root,
                "sys/devices/system/clocksource/clocksource0/current_clocksource",
            ),
            open_files: text(root, &format!("proc/{process}/limits"))
                .and_then(|text| open_files(&text)),
            memory_max: limit::memory_max_under(root, process),
            mounts: text(root, &format!("proc/{process}/mountinfo")).map(|text| mounts(&text)),
        }
    }

    /// The file system that a path lies on; the path is absolute and free of links.
    pub fn mount_of(&self, path: &Path) -> Option<&Mount> {
        let mounts = self.mounts.as_ref()?.iter();
        // Of several that are mounted at one folder the last one covers the others.
        let around = mounts.filter(|mount| path.starts_with(&mount.place));
        around.max_by_key(|mount| mount.place.components().count())
    }
}

/// Text of a file under the root, if it can be read.
pub(crate) fn text(root: &Path, path: &str) -> Option<String> {
    Some(fs::read_to_string(root.join(path)).ok()?.trim().to_owned())
}

/// The word in brackets: `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn governors(root: &Path) -> Option<BTreeMap<String, Vec<u32>>> {
    let mut found: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir(root.join("sys/devices/system/cpu")).ok()? {
        let name = entry.ok()?.file_name();
        let Some(cpu) = name.to_str().and_then(|name| name.strip_prefix("cpu")?.parse().ok())
        else {
            continue;
        };
        let path = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
        if let Some(governor) = text(root, &path) {
            found.entry(governor).or_default().push(cpu);
        }
    }
    found.values_mut().for_each(|cpus| cpus.sort_unstable());
    Some(found)
}

/// The sizes of all swap spaces together, in a table with a headline and sizes in KiB.
fn swap_bytes(table: &str) -> u64 {
    let sizes = table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(2));
    sizes.filter_map(|size| size.parse::<u64>().ok()).sum::<u64>() << 10
}

/// The soft limit of open files.
fn open_files(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// Mounts by `/proc/self/mountinfo`: number, parent, device, root, place, options, tags, a dash, type, source, options.
fn mounts(text: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(4);
        let (place, options) = (mount.next()?, mount.next()?);
        let mut file_system = file_system.split(' ');
        let kind = file_system.next()?.to_owned();
        let options = format!("{options},{}", file_system.nth(1).unwrap_or_default());
        Some(Mount { place: PathBuf::from(unescaped(place)), kind, options })
    };
    text.lines().filter_map(mount).collect()
}

/// A path in which the kernel has written blanks and backslashes as three octal digits.
fn unescaped(path: &str) -> String {
    let pairs = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    pairs.iter().fold(path.to_owned(), |path, (written, meant)| path.replace(written, meant))
}
