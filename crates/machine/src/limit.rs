//! The memory that the process may have, and has, as the system counts it.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// Bytes that the process may have: the least limit of its control groups (versions 1 and 2), at most
/// the machine's memory. `None` if the system tells neither.
pub fn memory_max() -> Option<u64> {
    memory_max_under(Path::new("/"), "self")
}

/// Bytes that a process may have, as [`memory_max`] says, by the files under `root`.
pub(crate) fn memory_max_under(root: &Path, process: &str) -> Option<u64> {
    let machine = meminfo(&fs::read_to_string(root.join("proc/meminfo")).ok()?);
    group_limits(root, process, limit_files).chain(machine).min()
}

/// Bytes of swap that the control groups of a process (version 2) allow; `None` if they set no limit.
pub(crate) fn swap_max_under(root: &Path, process: &str) -> Option<u64> {
    group_limits(root, process, swap_limit_files).min()
}

/// The limits in those files that the groups of a process have.
fn group_limits(
    root: &Path,
    process: &str,
    files: fn(&str) -> Vec<String>,
) -> impl Iterator<Item = u64> {
    let groups = fs::read_to_string(root.join(format!("proc/{process}/cgroup")));
    let folder = root.join("sys/fs/cgroup");
    let files = files(&groups.unwrap_or_default()).into_iter();
    files.filter_map(move |file| group_limit(&fs::read_to_string(folder.join(file)).ok()?))
}

/// Bytes of the process that only memory has: its resident pages but for those of files.
pub fn resident() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split(' ').skip(1).map_while(|word| word.parse::<u64>().ok());
    let (resident, of_files) = (pages.next()?, pages.next()?);
    Some(resident.saturating_sub(of_files) * page_bytes())
}

/// Processor time that the process has used so far, on all processors; `None` where the system does not tell.
pub fn processor_time() -> Option<Duration> {
    processor_time_of(&fs::read_to_string("/proc/self/stat").ok()?)
}

/// Kernel and user time of a line of `/proc/self/stat`, which counts in hundredths of a second for programs.
fn processor_time_of(line: &str) -> Option<Duration> {
    // The name of the program, in brackets, may have blanks.
    let mut fields = line.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let (user, kernel) = (ticks()?, ticks()?);
    Some(Duration::from_millis(10 * (user + kernel)))
}

/// Lets the process do without transparent huge pages from now on, also where it asks for them.
pub fn without_huge_pages() {
    // A kernel that knows no such option gives no huge pages in a control group's stead either.
    // SAFETY: `prctl` with this option takes numbers alone and touches no memory of ours.
    let _ = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
}

fn page_bytes() -> u64 {
    // SAFETY: `sysconf` reads a constant of the system and touches no memory of ours.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(4096)
}

/// The machine's memory by `/proc/meminfo`.
fn meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}

/// The files below `/sys/fs/cgroup` that may limit a process with this `/proc/self/cgroup`: those of its
/// groups and of all groups around. Within a container the paths may be the host's, so the root is among
/// the files.
fn limit_files(groups: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, file) = match controllers {
            "" => ("", "memory.max"),
            some if some.split(',').any(|one| one == "memory") => {
                ("memory/", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let mut path = path.trim_matches('/');
        loop {
            let between = if path.is_empty() { "" } else { "/" };
            files.push(format!("{root}{path}{between}{file}"));
            if path.is_empty() {
                break;
            }
            path = path.rsplit_once('/').map_or("", |(above, _)| above);
        }
    }
    files
}

/// The files of version 2 that limit swap, as [`limit_files`] has those that limit memory.
fn swap_limit_files(groups: &str) -> Vec<String> {
    let files = limit_files(groups).into_iter();
    let files = files
        .filter_map(|file| Some(format!("{}memory.swap.max", file.strip_suffix("memory.max")?)));
    files.collect()
}

/// A group's limit; `None` if the group has none.
fn group_limit(text: &str) -> Option<u64> {
    // Version 1 writes the largest number of whole pages for no limit.
    text.trim().parse().ok().filter(|bytes| *bytes < 1 << 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_behind_the_name() {
        let line = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20";
        assert_eq!(processor_time_of(line), Some(Duration::from_secs(2)));
        assert_eq!(processor_time_of("7 (a) S 1"), None);
        assert!(processor_time().is_some());
    }

    #[test]
    fn files_of_all_groups_around_are_read() {
        assert_eq!(limit_files("0::/\n"), ["memory.max"]);
        assert_eq!(
            limit_files("0::/a.slice/b.scope\n"),
            ["a.slice/b.scope/memory.max", "a.slice/memory.max", "memory.max"]
        );
        assert_eq!(
            limit_files("5:cpu,cpuacct:/x\n4:memory:/docker/1\n"),
            [
                "memory/docker/1/memory.limit_in_bytes",
                "memory/docker/memory.limit_in_bytes",
                "memory/memory.limit_in_bytes"
            ]
        );
        assert_eq!(limit_files("nonsense\n"), Vec::<String>::new());
        assert_eq!(
            swap_limit_files("0::/a.slice\n4:memory:/docker\n"),
            ["a.slice/memory.swap.max", "memory.swap.max"]
        );
    }

    #[test]
    fn limits_are_read_and_their_absence_too() {
        assert_eq!(group_limit("536870912\n"), Some(512 << 20));
        assert_eq!(group_limit("max\n"), None);
        assert_eq!(group_limit("9223372036854771712\n"), None);
        assert_eq!(meminfo("MemTotal:       1024 kB\nMemFree: 1 kB\n"), Some(1 << 20));
        assert_eq!(meminfo("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn this_process_has_less_than_it_may() {
        let (has, may) = (resident().expect("Linux tells"), memory_max().expect("Linux tells"));
        assert!(0 < has && has < may, "{has} of {may}");
    }
}
