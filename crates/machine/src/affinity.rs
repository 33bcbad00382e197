//! Which processors a thread may run on.
//!
//! A processor here is what Linux calls a CPU: one hardware thread, numbered as in
//! `/sys/devices/system/cpu`.

use std::io;
use std::mem;
use std::sync::OnceLock;

/// Words of a processor mask: 4,096 processors.
const MASK_WORDS: usize = 64;
type Mask = [u64; MASK_WORDS];

/// What prepares a thread for a set of processors.
pub type Usher = Box<dyn Fn(&[u32]) -> io::Result<()> + Send + Sync>;

static USHER: OnceLock<Usher> = OnceLock::new();

/// Lets something prepare every thread of the process, on the thread itself, before [`set`] puts it on
/// processors: a thread must join a cpuset before it may choose the cpuset's processors. Once per
/// process; says whether it was the first time.
pub fn prepare_by(usher: Usher) -> bool {
    USHER.set(usher).is_ok()
}

/// Lets the calling thread run on `cpus` alone.
///
/// Errors: the operating system's: a processor that does not exist, is offline or outside of the
/// cpuset gives `EINVAL`. Those of [`prepare_by`].
pub fn set(cpus: &[u32]) -> io::Result<()> {
    if let Some(usher) = USHER.get() {
        usher(cpus)?;
    }
    set_of(0, cpus)
}

/// Lets a thread of this machine, by the kernel's number, run on `cpus` alone.
///
/// Errors: as of [`set`]; `ESRCH` if there is no such thread.
pub fn set_thread(thread: u32, cpus: &[u32]) -> io::Result<()> {
    let thread = i32::try_from(thread).ok().filter(|thread| *thread > 0);
    set_of(thread.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?, cpus)
}

/// The kernel's number of the calling thread, for [`set_thread`].
pub fn this_thread() -> u32 {
    // SAFETY: takes no arguments and touches no memory of ours.
    u32::try_from(unsafe { libc::gettid() }).unwrap_or(0)
}

/// Thread 0 is the caller.
fn set_of(thread: libc::pid_t, cpus: &[u32]) -> io::Result<()> {
    let mut mask: Mask = [0; MASK_WORDS];
    for &cpu in cpus {
        let word = mask.get_mut(cpu as usize / 64);
        *word.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))? |= 1 << (cpu % 64);
    }
    // SAFETY: the mask lives until the call returns, and its size in bytes is what we pass; the
    // kernel only reads it.
    let result =
        unsafe { libc::sched_setaffinity(thread, mem::size_of::<Mask>(), mask.as_ptr().cast()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The processors that the calling thread may run on, ascending.
pub fn get() -> io::Result<Vec<u32>> {
    let mut mask: Mask = [0; MASK_WORDS];
    // SAFETY: the kernel writes at most the size that we pass, which is the mask's own; every bit
    // pattern is a valid mask. Thread 0 is the caller.
    let result =
        unsafe { libc::sched_getaffinity(0, mem::size_of::<Mask>(), mask.as_mut_ptr().cast()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((0..MASK_WORDS as u32 * 64)
        .filter(|cpu| mask[*cpu as usize / 64] >> (cpu % 64) & 1 == 1)
        .collect())
}

/// The processor that the calling thread runs on now; it may be another one a moment later unless
/// the thread is pinned.
pub fn current() -> Option<u32> {
    // SAFETY: takes no arguments and touches no memory of ours.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_thread_runs_where_it_was_put() {
        std::thread::spawn(|| {
            let allowed = get().expect("affinity can be asked for");
            let last = *allowed.last().expect("some processor is allowed");
            set(&[last]).expect("an allowed processor can be chosen");
            assert_eq!(get().expect("affinity can be asked for"), [last]);
            assert_eq!(current(), Some(last));
            assert!(set(&[4095]).is_err() && set(&[1 << 20]).is_err());
            assert!(set_thread(0, &[last]).is_err() && set_thread(u32::MAX, &[last]).is_err());
            let own = std::fs::read_link("/proc/thread-self").expect("proc is mounted");
            let own = own.file_name().and_then(|name| name.to_str()?.parse().ok());
            assert_eq!(own, Some(this_thread()));
            set_thread(this_thread(), &allowed).expect("it may go back");
            assert_eq!(get().expect("affinity can be asked for"), allowed);
        })
        .join()
        .expect("the pinned thread does not panic");
    }
}
