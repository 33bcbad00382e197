//! Memory regions: huge pages, pre-faulted, locked, bound to a NUMA node; and which of these were
//! granted.
//!
//! A property that cannot be had is left out and told ([`Granted`]); only a lack of memory is an
//! error.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;

/// The properties that a [`Region`] is to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Huge pages: reserved ones, else transparent ones.
    pub huge: bool,
    /// Every page touched now, so that none faults later.
    pub prefaulted: bool,
    /// Kept in memory (`mlock`).
    pub locked: bool,
    /// On this NUMA node.
    pub node: Option<u32>,
}

/// Pages of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Of the usual size.
    Small,
    /// Transparent huge pages were asked for; the kernel gives them where it finds some.
    Transparent,
    /// Reserved huge pages.
    Huge,
}

/// The properties that were granted, and the reasons for those that were not.
#[derive(Debug)]
pub struct Granted {
    /// Which pages.
    pub pages: Pages,
    /// Whether it is locked; the system's answer if it was wanted and is not.
    pub locked: Result<bool, io::Error>,
    /// Whether it is bound; the system's answer if it was wanted and is not.
    pub bound: Result<bool, io::Error>,
}

/// A region of zeroed memory, given back when dropped.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    bytes: usize,
    granted: Granted,
}

// SAFETY: a region is plain memory that it alone refers to.
unsafe impl Send for Region {}
// SAFETY: shared references only read.
unsafe impl Sync for Region {}

/// Size of a huge page on x86-64 and most others, bytes.
const HUGE_BYTES: usize = 2 << 20;

impl Region {
    /// At least `bytes` of zeroed memory: rounded up to pages, to huge ones if those are wanted.
    ///
    /// Errors: `ENOMEM`, if there is no address space or memory for it.
    pub fn new(bytes: usize, wanted: Wanted) -> io::Result<Region> {
        let unit = if wanted.huge { HUGE_BYTES } else { 4096 };
        let bytes = bytes.max(1).next_multiple_of(unit);
        let reserved = if wanted.huge { map(bytes, libc::MAP_HUGETLB).ok() } else { None };
        let (start, pages) = match reserved {
            Some(start) => (start, Pages::Huge),
            None => {
                let start = map(bytes, 0)?;
                let advised = wanted.huge && advise_huge(start, bytes);
                (start, if advised { Pages::Transparent } else { Pages::Small })
            }
        };
        let bound = match wanted.node {
            Some(node) => bind(start, bytes, node).map(|()| true),
            None => Ok(false),
        };
        let locked = if wanted.locked { lock(start, bytes).map(|()| true) } else { Ok(false) };
        let mut region = Region { start, bytes, granted: Granted { pages, locked, bound } };
        if wanted.prefaulted {
            region.iter_mut().step_by(4096).for_each(|byte| {
                // SAFETY: a valid exclusive reference; volatile, so that the store is not left out.
                unsafe { ptr::from_mut(byte).write_volatile(0) }
            });
        }
        Ok(region)
    }

    /// The properties that were granted.
    pub fn granted(&self) -> &Granted {
        &self.granted
    }
}

/// Keeps every page of the process in memory from now on, those that it has and those that it will
/// touch; none is touched for it.
///
/// Errors: `EPERM` or `ENOMEM` beyond the limit of locked memory (`ulimit -l`).
pub fn lock_process() -> io::Result<()> {
    let flags = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    // SAFETY: takes no pointers.
    if unsafe { libc::mlockall(flags) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// As [`lock_process`], after touching every page that the process has now: its program above all.
///
/// Errors: as of [`lock_process`].
pub fn touch_and_lock_process() -> io::Result<()> {
    // SAFETY: takes no pointers.
    if unsafe { libc::mlockall(libc::MCL_CURRENT) } != 0 {
        return Err(io::Error::last_os_error());
    }
    lock_process()
}

/// Ends the effect of [`lock_process`].
pub fn unlock_process() -> io::Result<()> {
    // SAFETY: takes no pointers.
    if unsafe { libc::munlockall() } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn map(bytes: usize, flags: i32) -> io::Result<NonNull<u8>> {
    // SAFETY: an anonymous private mapping at an address of the kernel's choice touches no memory
    // that exists.
    let start = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
}

fn advise_huge(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the range is a mapping of ours; this advice changes nothing about its contents.
    unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) == 0 }
}

fn lock(start: NonNull<u8>, bytes: usize) -> io::Result<()> {
    // SAFETY: the range is a mapping of ours; locking changes nothing about its contents.
    let result = unsafe { libc::mlock(start.as_ptr().cast(), bytes) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `MPOL_BIND` of the kernel's `mempolicy.h`.
const MPOL_BIND: i64 = 2;

fn bind(start: NonNull<u8>, bytes: usize, node: u32) -> io::Result<()> {
    let mut mask = [0u64; 16];
    let word = mask.get_mut(node as usize / 64);
    *word.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))? = 1 << (node % 64);
    // SAFETY: the range is a mapping of ours that nobody has touched; the kernel reads as many
    // bits of the mask as we say, and it has more than those.
    let result = unsafe {
        libc::syscall(libc::SYS_mbind, start.as_ptr(), bytes, MPOL_BIND, mask.as_ptr(), 1023, 0)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl Deref for Region {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is readable, zeroed or written by us, and lives as long as `self`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; it is writable, and `self` is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the range is a mapping of ours, and nobody can refer to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn region_has_its_bytes_zeroed_and_tells_what_it_got() {
        let all = Wanted { huge: true, prefaulted: true, locked: true, node: Some(0) };
        for (bytes, wanted) in
            [(1, Wanted::default()), (3 << 20, all), (5000, Wanted { huge: false, ..all })]
        {
            let mut region = Region::new(bytes, wanted).expect("there is memory");
            assert!(region.len() >= bytes && region.len().is_multiple_of(4096));
            assert!(region.iter().all(|&byte| byte == 0));
            let last = region.len() - 1;
            (region[0], region[last]) = (1, 2);
            assert_eq!(region.iter().map(|&byte| u32::from(byte)).sum::<u32>(), 3);
            let granted = region.granted();
            assert!(wanted.huge || granted.pages == Pages::Small);
            assert!(wanted.locked || !matches!(granted.locked, Ok(true)));
        }
    }

    #[test]
    fn node_that_does_not_exist_is_told_and_the_memory_is_there() {
        let wanted = Wanted { node: Some(900), ..Wanted::default() };
        let region = Region::new(4096, wanted).expect("there is memory");
        assert!(region.granted().bound.is_err());
        assert_eq!(region.len(), 4096);
        assert!(Region::new(usize::MAX / 2, Wanted::default()).is_err());
    }
}
