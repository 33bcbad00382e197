//! Signals that make a thread leave its machine.

use std::io;
use std::sync::OnceLock;

/// The signal: one of real time, which nothing else in this workspace uses. Its handler does nothing;
/// that a handler runs is what ends the call in which the thread is.
fn number() -> i32 {
    libc::SIGRTMIN() + 7
}

extern "C" fn nothing(_: i32) {}

/// Installs the handler, once.
pub fn prepare() -> io::Result<()> {
    static INSTALLED: OnceLock<i32> = OnceLock::new();
    let error = *INSTALLED.get_or_init(|| {
        let handler: extern "C" fn(i32) = nothing;
        // SAFETY: all bytes zero are a `sigaction` without flags and with an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler as usize;
        // SAFETY: the kernel reads one `sigaction`, which is ours; the handler does nothing, so it may
        // run at any moment.
        let result = unsafe { libc::sigaction(number(), &action, std::ptr::null_mut()) };
        if result == 0 { 0 } else { io::Error::last_os_error().raw_os_error().unwrap_or(-1) }
    });
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// Sends the signal to a thread of this process. A number that is no thread's (any more) is no matter.
pub fn kick(thread: i32) {
    if thread > 0 {
        // SAFETY: takes no pointers; the signal's handler does nothing.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, number()) };
    }
}
