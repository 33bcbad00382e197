//! A tree of files in a folder: the kernel's, where resctrl is mounted, or a recorded one.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::fs::{Lock, ResctrlFs};

/// Where resctrl is mounted.
pub const MOUNT_POINT: &str = "/sys/fs/resctrl";
/// How long another program's lock is waited for.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(1);

/// The files under a folder.
#[derive(Clone, Debug)]
pub struct Directory {
    root: PathBuf,
}

impl Directory {
    /// The files under `root`.
    pub fn at(root: impl Into<PathBuf>) -> Directory {
        Directory { root: root.into() }
    }

    /// The kernel's tree, or the reason why there is none.
    ///
    /// Nothing is mounted here: mounting decides about code and data partitions for the whole
    /// machine, and is left to its administrator.
    pub fn of_this_machine() -> Result<Directory, String> {
        let mounted = Path::new(MOUNT_POINT).join("info").is_dir();
        if mounted {
            return Ok(Directory::at(MOUNT_POINT));
        }
        let kernel = fs::read_to_string("/proc/filesystems").unwrap_or_default();
        Err(match kernel.split_whitespace().any(|word| word == "resctrl") {
            true => {
                format!("resctrl is not mounted; as root: mount -t resctrl resctrl {MOUNT_POINT}")
            }
            false => "the kernel or the processor has no resctrl".to_owned(),
        })
    }
}

impl ResctrlFs for Directory {
    fn read(&self, path: &str) -> io::Result<String> {
        fs::read_to_string(self.root.join(path))
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        // One call of the system: the kernel takes each call for a whole command.
        OpenOptions::new().write(true).open(self.root.join(path))?.write_all(text.as_bytes())
    }

    fn make_folder(&self, path: &str) -> io::Result<()> {
        fs::create_dir(self.root.join(path))
    }

    fn remove_folder(&self, path: &str) -> io::Result<()> {
        fs::remove_dir(self.root.join(path))
    }

    fn folders(&self, path: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.root.join(path))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    fn lock(&self) -> io::Result<Lock> {
        let folder = File::open(&self.root)?;
        let until = Instant::now() + LOCK_WAIT_MAX;
        loop {
            match folder.try_lock() {
                Ok(()) => return Ok(Lock { _held: Some(folder) }),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}
