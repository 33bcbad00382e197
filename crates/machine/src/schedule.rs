//! Scheduling policy and priority of the calling thread.

use std::io;

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

#[cfg(test)]
mod tests {
    use super::*;

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
