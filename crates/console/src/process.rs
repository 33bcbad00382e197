//! What the kernel tells of this process: memory, time of processors, files.

use std::fs;

/// Ticks of a second in `/proc`: a constant of Linux's interface.
const TICKS_PER_S: f64 = 100.0;
/// Place of the user time in `/proc/self/stat` behind the command's name, counted from 0.
const USER_TICKS: usize = 11;
/// Place of the start time there.
const START_TICKS: usize = 19;

/// What the kernel tells; `None` where it does not.
#[derive(Debug, Default)]
pub(crate) struct Process {
    pub resident_bytes: Option<f64>,
    pub cpu_s: Option<f64>,
    pub started_s: Option<f64>,
    pub open_files: Option<f64>,
    pub threads: Option<f64>,
}

/// Looks now.
pub(crate) fn now() -> Process {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let uptime = fs::read_to_string("/proc/stat").unwrap_or_default();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let fields = fields(&stat);
    let tick = |at: usize| fields.get(at)?.parse::<f64>().ok();
    let booted = uptime.lines().find_map(|line| line.strip_prefix("btime ")?.parse::<f64>().ok());
    let kb = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches(" kB").parse::<f64>().ok()
    };
    Process {
        resident_bytes: kb("VmRSS:").map(|kb| kb * 1024.0),
        cpu_s: tick(USER_TICKS)
            .zip(tick(USER_TICKS + 1))
            .map(|(user, system)| (user + system) / TICKS_PER_S),
        started_s: booted.zip(tick(START_TICKS)).map(|(boot, ticks)| boot + ticks / TICKS_PER_S),
        open_files: fs::read_dir("/proc/self/fd").ok().map(|files| files.count() as f64),
        threads: kb("Threads:"),
    }
}

/// The fields behind the command's name, which may hold blanks and brackets.
fn fields(stat: &str) -> Vec<&str> {
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_whitespace().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_memory_files_and_a_beginning() {
        let process = now();
        assert!(process.resident_bytes.is_some_and(|bytes| bytes > 1e6), "{process:?}");
        assert!(process.open_files.is_some_and(|files| files >= 3.0), "{process:?}");
        assert!(process.started_s.is_some_and(|at| at > 1.6e9), "{process:?}");
        assert!(process.threads.is_some_and(|threads| threads >= 1.0), "{process:?}");
        assert_eq!(fields("7 (a) b)) S 1 2"), ["S", "1", "2"]);
    }
}
