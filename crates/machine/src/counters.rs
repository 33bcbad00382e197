//! What the kernel counted about a thread: time on a processor, time waiting for one.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// `/proc/thread-self/schedstat` of the thread that opened it, kept open: one system call (about
/// a microsecond) a reading, from any thread.
#[derive(Debug)]
pub struct SchedStat(File);

/// One reading of [`SchedStat`]; each value only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTimes {
    /// Time on a processor, ns.
    pub running_ns: u64,
    /// Time ready to run while something else had the processor, ns: the *run delay*.
    pub waiting_ns: u64,
    /// Times that the thread got a processor.
    pub slices: u64,
}

impl SchedStat {
    /// The statistics of the calling thread.
    ///
    /// Errors: the operating system's, where `/proc` is missing or the kernel lacks
    /// `CONFIG_SCHED_INFO`.
    pub fn of_this_thread() -> io::Result<SchedStat> {
        Self::open(Path::new("/proc/thread-self/schedstat"))
    }

    fn open(path: &Path) -> io::Result<SchedStat> {
        let stat = SchedStat(File::open(path)?);
        stat.read()?;
        Ok(stat)
    }

    /// The statistics now.
    pub fn read(&self) -> io::Result<RunTimes> {
        let mut buffer = [0; 96];
        let length = self.0.read_at(&mut buffer, 0)?;
        let text = std::str::from_utf8(&buffer[..length]).unwrap_or_default();
        parse(text)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a schedstat line"))
    }
}

/// Processor time that all threads of this process have used, ns.
pub fn process_cpu_ns() -> Option<u64> {
    cpu_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Processor time that the calling thread has used, ns. What it measures is little disturbed by
/// others who want the same core.
pub fn thread_cpu_ns() -> Option<u64> {
    cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn cpu_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `timespec`, which is ours.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    (result == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Memory of this process that is resident, bytes.
pub fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    // SAFETY: asks for a constant of the system; touches no memory of ours.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    Some(pages * u64::try_from(page_bytes).ok()?)
}

fn parse(text: &str) -> Option<RunTimes> {
    let mut numbers = text.split_ascii_whitespace().map(|word| word.parse().ok());
    let mut next = || numbers.next().flatten();
    Some(RunTimes { running_ns: next()?, waiting_ns: next()?, slices: next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_three_numbers_is_read_and_others_are_refused() {
        let times = RunTimes { running_ns: 12, waiting_ns: 3, slices: 4 };
        assert_eq!(parse("12 3 4\n"), Some(times));
        assert_eq!(parse("12 3"), None);
        assert_eq!(parse("twelve 3 4"), None);
    }

    #[test]
    fn running_time_grows_while_a_thread_works() {
        let stat = SchedStat::of_this_thread().expect("Linux has schedstat");
        let before = stat.read().expect("it can be read again");
        let start = std::time::Instant::now();
        while start.elapsed().as_millis() < 60 {
            std::hint::spin_loop();
        }
        let after = stat.read().expect("it can be read again");
        let counted = after.running_ns + after.waiting_ns - before.running_ns - before.waiting_ns;
        assert!(counted > 20_000_000, "{before:?} {after:?}");
    }
}
