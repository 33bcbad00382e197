//! Where the kernel's tracing file system is, or a private mount of it that no path leads to.
//!
//! A mount made by `fsmount` and never attached goes away with its descriptor, however the process ends; nothing of the
//! machine's mounts changes.

use std::ffi::CStr;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Why there is no trace: a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable(pub String);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}

/// The tracing file system of this kernel.
#[derive(Debug)]
pub(super) struct Place {
    root: PathBuf,
    /// Keeps a private mount alive.
    _mount: Option<OwnedFd>,
}

impl Place {
    /// The mounted one, else a private one.
    pub(super) fn find() -> Result<Place, Unavailable> {
        for mounted in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"] {
            if Path::new(mounted).join("instances").is_dir() {
                return Ok(Place { root: mounted.into(), _mount: None });
            }
        }
        let mount = private().map_err(|error| {
            Unavailable(format!("tracefs is not mounted, and cannot be for this process: {error}"))
        })?;
        let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        if !root.join("instances").is_dir() {
            return Err(Unavailable("this kernel's tracefs has no instances".into()));
        }
        Ok(Place { root, _mount: Some(mount) })
    }

    /// A folder that stands for a tracing file system.
    #[cfg(test)]
    pub(super) fn at(root: PathBuf) -> Place {
        Place { root, _mount: None }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }
}

const FSCONFIG_CMD_CREATE: i32 = 6;
const CLOSE_ON_EXEC: i32 = 1;

fn private() -> io::Result<OwnedFd> {
    let name: &CStr = c"tracefs";
    // SAFETY: the kernel reads a text that ends with a zero and lives for ever.
    let opened = unsafe { libc::syscall(libc::SYS_fsopen, name.as_ptr(), CLOSE_ON_EXEC) };
    let context = descriptor(opened)?;
    let nothing = std::ptr::null::<u8>();
    // SAFETY: this command takes neither key nor value; the descriptor is open.
    let made = unsafe {
        libc::syscall(
            libc::SYS_fsconfig,
            context.as_raw_fd(),
            FSCONFIG_CMD_CREATE,
            nothing,
            nothing,
            0,
        )
    };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: takes numbers alone; the descriptor is open.
    descriptor(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), CLOSE_ON_EXEC, 0) })
}

/// The descriptor that a system call gave back.
fn descriptor(given: i64) -> io::Result<OwnedFd> {
    match i32::try_from(given) {
        // SAFETY: the kernel made the descriptor just now, and nobody else has it.
        Ok(number) if number >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(number) }),
        _ => Err(io::Error::last_os_error()),
    }
}
