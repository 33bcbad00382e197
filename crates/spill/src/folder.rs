//! The folder of a database's spilled files.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use halcyon_sql::error::{Result, SqlError, SqlState};

/// The beginning of the names of sub-folders.
const PREFIX: &str = "halcyon-spill-";
/// The file that a living process keeps locked, in its sub-folder; and in the folder while sub-folders are made and
/// cleared.
const LOCK: &str = "halcyon-spill.lock";

/// A folder for spilled files, of which this process has a sub-folder.
#[derive(Debug)]
pub struct SpillFolder {
    root: PathBuf,
    own: PathBuf,
    /// Unlocked with the process, so that the next one clears what this one leaves.
    _lock: File,
    limit: AtomicU64,
    bytes: AtomicU64,
    files: AtomicU64,
    bytes_written: AtomicU64,
    files_made: AtomicU64,
    /// Bytes that the disk takes before it is full: for tests.
    room: AtomicU64,
}

/// What a folder has, and has had since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpillCounts {
    /// Files that are open now.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files made so far.
    pub files_made: u64,
    /// Bytes written so far.
    pub bytes_written: u64,
}

impl SpillFolder {
    /// Opens a folder, which is made (0700) if it is not there, and clears what crashed processes have left in it.
    ///
    /// Errors: 58030, 53100, with the folder's name.
    pub fn open(root: &Path) -> Result<Arc<SpillFolder>> {
        SpillFolder::made_in(root).map(Arc::new).map_err(|error| failed(root, &error))
    }

    fn made_in(root: &Path) -> io::Result<SpillFolder> {
        DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        let root = root.canonicalize()?;
        // Nobody makes or clears sub-folders meanwhile: one that is not locked yet is not taken for a dead one's.
        let making = lock_file(&root)?;
        making.lock()?;
        clear(&root)?;
        let pid = std::process::id();
        let own = (0_u32..).map(|number| root.join(format!("{PREFIX}{pid}-{number}")));
        let made = own.map(|own| DirBuilder::new().mode(0o700).create(&own).map(|()| own));
        // Another database of this process has a number of its own.
        let mut made =
            made.filter(|made| !matches!(made, Err(e) if e.kind() == io::ErrorKind::AlreadyExists));
        let own = made.next().expect("there is a number after each")?;
        let lock = lock_file(&own)?;
        lock.lock()?;
        Ok(SpillFolder {
            root,
            own,
            _lock: lock,
            limit: AtomicU64::new(u64::MAX),
            bytes: AtomicU64::new(0),
            files: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            files_made: AtomicU64::new(0),
            room: AtomicU64::new(u64::MAX),
        })
    }

    /// The folder, as it was named when it was opened but for links.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Sets what all files together may take, in bytes.
    pub fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Relaxed);
    }

    /// What the folder has and has had.
    pub fn counts(&self) -> SpillCounts {
        SpillCounts {
            files: self.files.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            files_made: self.files_made.load(Relaxed),
            bytes_written: self.bytes_written.load(Relaxed),
        }
    }

    /// Lets the disk be full once so many bytes more were written: for tests.
    #[doc(hidden)]
    pub fn plant_full_disk(&self, room: u64) {
        self.room.store(self.bytes_written.load(Relaxed).saturating_add(room), Relaxed);
    }

    /// A new file (0600), without a name.
    pub(crate) fn create(&self) -> Result<File> {
        let number = self.files_made.fetch_add(1, Relaxed);
        let path = self.own.join(number.to_string());
        let mut options = OpenOptions::new();
        let made = options.read(true).write(true).create_new(true).mode(0o600).open(&path);
        let made = made.and_then(|file| fs::remove_file(&path).map(|()| file));
        let file = made.map_err(|error| failed(&self.root, &error))?;
        self.files.fetch_add(1, Relaxed);
        Ok(file)
    }

    /// Counts bytes that are about to be written. Errors: 53400 beyond the limit, 53100 for a planted full disk.
    pub(crate) fn claim(&self, bytes: u64) -> Result<()> {
        let (limit, before) = (self.limit.load(Relaxed), self.bytes.fetch_add(bytes, Relaxed));
        let refused = if before.saturating_add(bytes) > limit {
            let message =
                format!("spilled files of all statements exceed spill_limit ({}kB)", limit >> 10);
            SqlError::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message).hint(
                "Try again when others have ended, raise spill_limit, or raise halcyon.memory.",
            )
        } else if self.bytes_written.load(Relaxed).saturating_add(bytes) > self.room.load(Relaxed) {
            failed(&self.root, &io::ErrorKind::StorageFull.into())
        } else {
            self.bytes_written.fetch_add(bytes, Relaxed);
            return Ok(());
        };
        self.bytes.fetch_sub(bytes, Relaxed);
        Err(refused)
    }

    /// A file of so many bytes is gone.
    pub(crate) fn release(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Relaxed);
        self.files.fetch_sub(1, Relaxed);
    }
}

impl Drop for SpillFolder {
    fn drop(&mut self) {
        // What cannot be removed now, the next process clears.
        let _ = fs::remove_dir_all(&self.own);
    }
}

fn lock_file(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).open(folder.join(LOCK))
}

/// Removes the sub-folders of processes that are no more.
fn clear(root: &Path) -> io::Result<()> {
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if !is_ours || !entry.file_type()?.is_dir() {
            continue;
        }
        match lock_file(&entry.path()).map(|lock| lock.try_lock()) {
            Ok(Ok(())) => fs::remove_dir_all(entry.path())?,
            Ok(Err(TryLockError::WouldBlock)) => {}
            Ok(Err(TryLockError::Error(error))) | Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The error of a file in the folder: 53100 if the disk is full, else 58030.
pub(crate) fn failed(folder: &Path, error: &io::Error) -> SqlError {
    let folder = folder.display();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            SqlError::new(SqlState::DISK_FULL, format!("could not write to \"{folder}\": {error}"))
                .hint("Free space there, spill to another disk, or raise halcyon.memory.")
        }
        _ => SqlError::new(SqlState::IO_ERROR, format!("spilled files in \"{folder}\": {error}")),
    }
}
