//! The room that is left on a file system.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The room on a file system, for programs without privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes that can still be written.
    pub free_bytes: u64,
    /// Bytes of all.
    pub bytes: u64,
    /// Files that can still be made; meaningless if [`Room::files`] is 0.
    pub free_files: u64,
    /// Files that there may be; 0 where the file system makes room for files as they come.
    pub files: u64,
}

/// The room on the file system of a folder.
///
/// Errors: the system's, if the folder cannot be reached.
pub fn room(folder: &Path) -> io::Result<Room> {
    let path = CString::new(folder.as_os_str().as_bytes())?;
    let mut found = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends in a zero byte, and `found` has room for what the system writes.
    if unsafe { libc::statvfs(path.as_ptr(), found.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the system returned 0, so it has written all of it.
    let found = unsafe { found.assume_init() };
    let unit = found.f_frsize;
    Ok(Room {
        free_bytes: found.f_bavail.saturating_mul(unit),
        bytes: found.f_blocks.saturating_mul(unit),
        free_files: found.f_favail,
        files: found.f_files,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_of_a_folder_is_told_and_that_of_none_is_an_error() {
        let found = room(&std::env::temp_dir()).expect("it is there");
        assert!(0 < found.bytes && found.free_bytes <= found.bytes, "{found:?}");
        assert!(found.files == 0 || found.free_files <= found.files, "{found:?}");
        let missing = room(Path::new("/nowhere/at/all")).expect_err("it is missing");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert!(room(Path::new("a\0b")).is_err());
    }
}
