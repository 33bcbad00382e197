//! Files of a statement, written by appending and read by place.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::DerefMut;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use arrow::buffer::{Buffer, MutableBuffer};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_task::{Blocking, Reply};

use crate::folder::{SpillFolder, failed};

/// A statement's right to spill.
pub struct Spill {
    folder: Arc<SpillFolder>,
    /// Bytes that files of the statement may take together.
    limit: u64,
    bytes: AtomicU64,
    /// Threads that may block; `None` for a statement that has a thread of its own.
    blocking: Option<Blocking>,
}

impl Spill {
    /// The right of one statement. `limit`: bytes that its files may take (`temp_file_limit`). `blocking`: threads that
    /// write and read for it while its tasks leave their workers; `None`: it does so where it stands.
    pub fn new(
        folder: &Arc<SpillFolder>,
        limit: Option<u64>,
        blocking: Option<Blocking>,
    ) -> Arc<Spill> {
        let (folder, limit) = (Arc::clone(folder), limit.unwrap_or(u64::MAX));
        Arc::new(Spill { folder, limit, bytes: AtomicU64::new(0), blocking })
    }

    /// A new file. Errors: 58030, 53100.
    pub fn file(self: &Arc<Self>) -> Result<Arc<SpilledFile>> {
        let file = self.folder.create()?;
        Ok(Arc::new(SpilledFile { file, end: AtomicU64::new(0), spill: Arc::clone(self) }))
    }

    /// Counts bytes that are about to be written. Errors: 53400, and those of the folder.
    fn claim(&self, bytes: u64) -> Result<()> {
        let before = self.bytes.fetch_add(bytes, Relaxed);
        let claimed = match before.saturating_add(bytes) > self.limit {
            true => {
                let limit = self.limit >> 10;
                let message = format!("temporary file size exceeds temp_file_limit ({limit}kB)");
                Err(SqlError::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message))
            }
            false => self.folder.claim(bytes),
        };
        if claimed.is_err() {
            self.bytes.fetch_sub(bytes, Relaxed);
        }
        claimed
    }
}

impl fmt::Debug for Spill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spill").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// Bytes of a file that were written at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The place of the first.
    pub from: u64,
    /// How many there are.
    pub bytes: usize,
}

/// A file without a name, which is gone with its last reference.
pub struct SpilledFile {
    file: File,
    end: AtomicU64,
    spill: Arc<Spill>,
}

impl SpilledFile {
    /// Bytes that were written.
    pub fn bytes(&self) -> u64 {
        self.end.load(Relaxed)
    }

    /// Appends bytes; gives them back, so that whoever has allocated them frees them.
    ///
    /// Errors: 53400, 53100, 58030.
    pub async fn append(self: &Arc<Self>, bytes: Vec<u8>) -> Result<(Extent, Vec<u8>)> {
        let extent = self.claim(bytes.len())?;
        let file = Arc::clone(self);
        let write = move || {
            let written = file.file.write_all_at(&bytes, extent.from);
            (written, bytes)
        };
        let (written, bytes) = self.run(write).await?;
        written.map_err(|error| self.failed(&error))?;
        Ok((extent, bytes))
    }

    /// Appends bytes on the calling thread. Errors: as [`SpilledFile::append`].
    pub(crate) fn append_here(&self, bytes: &[u8]) -> Result<Extent> {
        let extent = self.claim(bytes.len())?;
        self.file.write_all_at(bytes, extent.from).map_err(|error| self.failed(&error))?;
        Ok(extent)
    }

    /// The bytes of an extent. Errors: 58030.
    pub async fn read(self: &Arc<Self>, extent: Extent) -> Result<Buffer> {
        let bytes = MutableBuffer::from_len_zeroed(extent.bytes);
        Ok(self.read_into(bytes, extent.from).await?.into())
    }

    /// The bytes from a place on, which fill what is given. Errors: 58030.
    pub(crate) async fn read_into<B>(self: &Arc<Self>, mut bytes: B, from: u64) -> Result<B>
    where
        B: DerefMut<Target = [u8]> + Send + 'static,
    {
        let file = Arc::clone(self);
        let read = move || {
            let read = file.file.read_exact_at(&mut bytes, from);
            (read, bytes)
        };
        let (read, bytes) = self.run(read).await?;
        read.map_err(|error| self.failed(&error))?;
        Ok(bytes)
    }

    /// Runs what blocks on a thread that may.
    async fn run<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Result<R> {
        let Some(blocking) = &self.spill.blocking else { return Ok(work()) };
        let reply: Reply<R> = blocking.run(work).map_err(|error| self.failed(&error))?;
        reply.await.map_err(|error| self.failed(&io::Error::other(error)))
    }

    /// The place of so many bytes more.
    fn claim(&self, bytes: usize) -> Result<Extent> {
        self.spill.claim(bytes as u64)?;
        Ok(Extent { from: self.end.fetch_add(bytes as u64, Relaxed), bytes })
    }

    fn failed(&self, error: &io::Error) -> SqlError {
        failed(self.spill.folder.path(), error)
    }
}

impl Drop for SpilledFile {
    fn drop(&mut self) {
        let bytes = self.bytes();
        self.spill.bytes.fetch_sub(bytes, Relaxed);
        self.spill.folder.release(bytes);
    }
}

impl fmt::Debug for SpilledFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a spilled file of {} bytes", self.bytes())
    }
}
