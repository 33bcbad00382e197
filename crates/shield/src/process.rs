//! What of processes `std` does not offer: signals that are ignored or noted, and a process that is known by a
//! descriptor, so that a number that was given to another process meanwhile does no harm.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static ENDING: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: libc::c_int) {
    // Read by `is_ending`; nothing else is published by it.
    ENDING.store(true, Ordering::Relaxed);
}

const ENDINGS: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Lets signals that end a process pass by without effect (but SIGKILL).
pub fn ignore_endings() {
    for signal in ENDINGS {
        // SAFETY: ignoring a signal runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Lets signals that end a process be noted; [`is_ending`] tells.
pub fn note_endings() {
    for signal in ENDINGS {
        // SAFETY: the handler stores into an atomic, which is allowed in handlers, and touches nothing else.
        unsafe { libc::signal(signal, note as *const () as libc::sighandler_t) };
    }
}

/// Whether a noted signal has come.
pub fn is_ending() -> bool {
    ENDING.load(Ordering::Relaxed)
}

/// A process that cannot be confused with a later one of its number.
#[derive(Debug)]
pub struct Process(OwnedFd);

impl Process {
    /// The process of a number.
    ///
    /// Errors: `ESRCH` if there is none; `ENOSYS` before Linux 5.3.
    pub fn open(pid: u32) -> io::Result<Process> {
        let pid =
            libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
        // SAFETY: takes no pointers.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        match i32::try_from(descriptor) {
            // SAFETY: the kernel has just made the descriptor for us, and nobody else knows it.
            Ok(descriptor @ 0..) => Ok(Process(unsafe { OwnedFd::from_raw_fd(descriptor) })),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Sends a signal.
    pub fn signal(&self, signal: libc::c_int) -> io::Result<()> {
        let (descriptor, nothing) = (self.0.as_raw_fd(), std::ptr::null::<libc::siginfo_t>());
        let call = libc::SYS_pidfd_send_signal;
        // SAFETY: the descriptor is open as long as we are; a null pointer means no information.
        let result = unsafe { libc::syscall(call, descriptor, signal, nothing, 0) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Whether the process has ended, waiting up to `wait`.
    pub fn has_ended(&self, wait: Duration) -> bool {
        let mut event = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let milliseconds = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the kernel reads and writes one `pollfd`, which is ours.
        unsafe { libc::poll(&mut event, 1, milliseconds) > 0 }
    }
}

/// When a process was started, in the kernel's ticks since the boot. None: there is no such process.
pub fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may have blanks; what follows has the 3rd field first.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_signalled_and_its_end_is_seen() {
        let mut child = Command::new("sleep").arg("100").spawn().expect("sleep is there");
        let process = Process::open(child.id()).expect("it runs");
        assert!(started(child.id()).is_some_and(|ticks| ticks > 0));
        assert!(!process.has_ended(Duration::ZERO));
        process.signal(libc::SIGKILL).unwrap();
        assert!(process.has_ended(Duration::from_secs(20)));
        child.wait().unwrap();
        let error = process.signal(libc::SIGKILL).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
        assert!(Process::open(u32::MAX).is_err() && started(u32::MAX).is_none());
    }
}
