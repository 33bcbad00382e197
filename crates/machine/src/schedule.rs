//! Scheduling policy and priority of the calling thread.

use std::io;
use std::time::Duration;

/// A scheduling policy: how the kernel shares a core among threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The ordinary, fair one.
    Fair,
    /// Ordinary, and never before others (`SCHED_BATCH`).
    Batch,
    /// Only while no other thread wants to run (`SCHED_IDLE`).
    Idle,
    /// Real time, first come first served, with this priority (1 to 99): it is preempted by higher
    /// ones alone. The kernel keeps 5 % of each second for others
    /// (`kernel.sched_rt_runtime_us`), so a thread that spins is stopped for 50 ms.
    Fifo(u8),
}

/// Gives the calling thread a policy.
///
/// Errors: `EPERM` without `CAP_SYS_NICE` or a real-time limit, and in control groups without
/// real-time run time.
pub fn set(policy: Policy) -> io::Result<()> {
    let (number, priority) = match policy {
        Policy::Fair => (libc::SCHED_OTHER, 0),
        Policy::Batch => (libc::SCHED_BATCH, 0),
        Policy::Idle => (libc::SCHED_IDLE, 0),
        Policy::Fifo(priority) => (libc::SCHED_FIFO, i32::from(priority)),
    };
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the kernel reads one `sched_param`, which is ours. Thread 0 is the caller.
    let result = unsafe { libc::sched_setscheduler(0, number, &parameters) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The calling thread's policy; `None` for one that is not listed here (deadline, extensible).
pub fn get() -> io::Result<Option<Policy>> {
    // SAFETY: takes no pointers. Thread 0 is the caller.
    let policy = unsafe { libc::sched_getscheduler(0) };
    let mut parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel writes one `sched_param`, which is ours.
    let result = unsafe { libc::sched_getparam(0, &mut parameters) };
    if policy < 0 || result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(match policy {
        libc::SCHED_OTHER => Some(Policy::Fair),
        libc::SCHED_BATCH => Some(Policy::Batch),
        libc::SCHED_IDLE => Some(Policy::Idle),
        libc::SCHED_FIFO => Some(Policy::Fifo(parameters.sched_priority as u8)),
        _ => None,
    })
}

/// What `sched_setattr(2)` takes, in its first form.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

const ATTRIBUTES_BYTES: u32 = size_of::<Attributes>() as u32;

fn attributes() -> io::Result<Attributes> {
    let mut attributes = Attributes::default();
    // SAFETY: the kernel writes as many bytes as `Attributes` has, which is ours. Thread 0 is the caller.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, ATTRIBUTES_BYTES, 0)
    };
    if result == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
}

/// Asks for turns of a length for the calling thread, from 0.1 to 100 ms, under a fair policy. A thread with shorter turns
/// than others waits less for the processor when it has something to do, and gets no more of the processor's time than they. Needs no
/// right.
///
/// Linux 6.12 and later do so (`sched_runtime` of `sched_setattr(2)`; Stoica and Abdel-Wahab, *Earliest Eligible Virtual Deadline
/// First*, 1996); earlier ones ignore the wish, which [`slice()`] tells. Errors: those of the kernel.
pub fn set_slice(slice: Duration) -> io::Result<()> {
    let attributes = Attributes {
        size: ATTRIBUTES_BYTES,
        runtime_ns: u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX),
        ..attributes()?
    };
    // SAFETY: the kernel reads as many bytes as `size` says, which are ours. Thread 0 is the caller.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The length of the calling thread's turns under a fair policy; `None` if the kernel does not tell.
pub fn slice() -> io::Result<Option<Duration>> {
    let Attributes { runtime_ns, .. } = attributes()?;
    Ok((runtime_ns > 0).then(|| Duration::from_nanos(runtime_ns)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_the_turns_that_it_asked_for_where_the_kernel_tells_them() {
        std::thread::spawn(|| {
            let usual = slice().expect("everyone may look");
            set_slice(Duration::from_micros(200)).expect("everyone may have shorter turns");
            let short = slice().expect("everyone may look");
            assert_eq!(get().unwrap(), Some(Policy::Fair), "nothing else has changed");
            match usual {
                Some(usual) => {
                    assert!(usual > Duration::from_micros(200), "{usual:?}");
                    assert_eq!(short, Some(Duration::from_micros(200)));
                }
                None => assert_eq!(short, None, "a kernel before 6.12"),
            }
        })
        .join()
        .expect("it does not panic");
    }

    #[test]
    fn policy_that_was_set_is_the_one_that_is_told() {
        std::thread::spawn(|| {
            assert_eq!(get().unwrap(), Some(Policy::Fair));
            set(Policy::Batch).expect("everyone may step back");
            assert_eq!(get().unwrap(), Some(Policy::Batch));
            match set(Policy::Fifo(1)) {
                Ok(()) => assert_eq!(get().unwrap(), Some(Policy::Fifo(1))),
                Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EPERM)),
            }
            assert!(set(Policy::Fifo(200)).is_err());
        })
        .join()
        .expect("it does not panic");
    }
}
