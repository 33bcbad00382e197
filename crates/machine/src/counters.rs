//! Counters that the kernel keeps of a thread: time on a processor, time waiting for one.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;
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

/// Processor time that the calling thread has used, ns. This time is little disturbed by other
/// threads that want the same core.
pub fn thread_cpu_ns() -> Option<u64> {
    cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The clock of one thread's processor time, to be read from any thread of the process.
#[derive(Clone, Copy, Debug)]
pub struct ThreadClock(libc::clockid_t);

impl ThreadClock {
    /// The clock of the calling thread.
    pub fn of_this_thread() -> ThreadClock {
        // SAFETY: asks for a number; touches no memory of ours.
        let thread = unsafe { libc::gettid() };
        // Linux' encoding of thread clocks (`CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED`).
        ThreadClock(!thread << 3 | 4 | 2)
    }

    /// Processor time that the thread has used, ns; none once it has ended.
    pub fn ns(self) -> Option<u64> {
        cpu_ns(self.0)
    }
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

/// Counts that the kernel keeps of the calling thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCounts {
    /// Number of times the thread gave its processor away.
    pub voluntary_switches: u64,
    /// Number of times the thread's processor was taken away.
    pub involuntary_switches: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// Time in user and kernel mode, µs.
    pub cpu_us: u64,
}

impl ThreadCounts {
    /// The counts of the calling thread until now.
    pub fn now() -> io::Result<ThreadCounts> {
        // SAFETY: all fields are integers, for which zero is a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes one `rusage`, which is ours.
        if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let us = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
        Ok(ThreadCounts {
            voluntary_switches: usage.ru_nvcsw as u64,
            involuntary_switches: usage.ru_nivcsw as u64,
            minor_faults: usage.ru_minflt as u64,
            major_faults: usage.ru_majflt as u64,
            cpu_us: us(usage.ru_utime) + us(usage.ru_stime),
        })
    }
}

/// A hardware event of the calling thread, counted by the processor.
#[derive(Debug)]
pub struct PerfEvent(File);

/// The first version of the kernel's `perf_event_attr`, which every later kernel takes.
#[repr(C)]
#[derive(Default)]
struct PerfAttributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    /// Bits 5 and 6 leave kernel and hypervisor out.
    flags: u64,
    wakeup_events: u32,
    breakpoint_kind: u32,
    breakpoint_address: u64,
}

const _: () = assert!(size_of::<PerfAttributes>() == 64);

impl PerfEvent {
    /// Cycles in user mode, from now on.
    ///
    /// Errors: `ENOENT` or `EOPNOTSUPP` where the processor has no such counter (most guests),
    /// `EACCES` or `EPERM` where `kernel.perf_event_paranoid` forbids it.
    pub fn cycles() -> io::Result<PerfEvent> {
        let attributes =
            PerfAttributes { size: 64, flags: 1 << 5 | 1 << 6, ..PerfAttributes::default() };
        let (this_thread, any_cpu, no_group, flags) = (0, -1, -1, 0);
        // SAFETY: the kernel reads as many bytes of the attributes as their `size` says, which is
        // what they have; the result is a descriptor of ours or negative.
        let descriptor = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                this_thread,
                any_cpu,
                no_group,
                flags,
            )
        };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was made just now, and nobody else has it.
        Ok(PerfEvent(unsafe { File::from_raw_fd(descriptor as i32) }))
    }

    /// The count until now.
    pub fn read(&self) -> io::Result<u64> {
        let mut count = [0; 8];
        (&self.0).read_exact(&mut count)?;
        Ok(u64::from_ne_bytes(count))
    }
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
    fn processor_time_of_a_thread_can_be_read_from_another() {
        let (own, clock) = (thread_cpu_ns().unwrap(), ThreadClock::of_this_thread());
        let read = std::thread::spawn(move || clock.ns()).join().unwrap().unwrap();
        assert!(read >= own && read <= thread_cpu_ns().unwrap());
    }

    #[test]
    fn line_of_three_numbers_is_read_and_others_are_refused() {
        let times = RunTimes { running_ns: 12, waiting_ns: 3, slices: 4 };
        assert_eq!(parse("12 3 4\n"), Some(times));
        assert_eq!(parse("12 3"), None);
        assert_eq!(parse("twelve 3 4"), None);
    }

    #[test]
    fn faults_of_touched_memory_are_counted() {
        let before = ThreadCounts::now().expect("threads are counted");
        let mut region = crate::memory::Region::new(1 << 20, Default::default()).unwrap();
        region.fill(1);
        let after = ThreadCounts::now().expect("threads are counted");
        assert!(after.minor_faults > before.minor_faults);
    }

    #[test]
    fn cycles_grow_where_the_processor_counts_them() {
        let Ok(event) = PerfEvent::cycles() else { return };
        let before = event.read().unwrap();
        (0..10_000).for_each(|_| std::hint::spin_loop());
        assert!(event.read().unwrap() > before);
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
