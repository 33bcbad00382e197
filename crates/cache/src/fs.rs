//! The files of resctrl, as a trait: the kernel's, a fake of them, or a folder that looks like them.

use std::fs::File;
use std::io;

/// A tree of resctrl's files. Paths are relative to its root, with `/` between names.
///
/// Errors are the operating system's, with the numbers that the kernel gives (`ENOSPC`: no group is
/// left; `EINVAL`: a mask is refused, and `info/last_cmd_status` says why).
pub trait ResctrlFs: Send + Sync {
    /// The text of a file.
    fn read(&self, path: &str) -> io::Result<String>;

    /// Writes a file that exists.
    fn write(&self, path: &str, text: &str) -> io::Result<()>;

    /// Makes a folder, which the kernel fills with the files of a group.
    fn make_folder(&self, path: &str) -> io::Result<()>;

    /// Removes a group's folder; the kernel gives its processors and tasks to the default group.
    fn remove_folder(&self, path: &str) -> io::Result<()>;

    /// Names of the folders in a folder, sorted; the root is `""`.
    fn folders(&self, path: &str) -> io::Result<Vec<String>>;

    /// The lock that programs hold while they change several files (the kernel's documented protocol).
    ///
    /// Errors: `WouldBlock` if another program holds the lock for longer than a second.
    fn lock(&self) -> io::Result<Lock>;
}

/// The lock on a tree, until it is dropped.
#[must_use]
pub struct Lock {
    /// The locked folder; a fake has none.
    pub(crate) _held: Option<File>,
}

/// An operating system's error by its number.
pub(crate) fn os(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}
