//! The redo log: commits on disk, in the order in which they happened.
//!
//! Words: the log is a stream of bytes and an [`Lsn`] a place in it; it is *durable* up to an LSN
//! once everything before that place will be there after a crash. A *batch* is the bytes that are
//! written and synced at once; meanwhile, and shortly after, the next batch gathers (group commit,
//! see [`gather`]). Invariants, checked on a simulated disk by
//! `nothing_acknowledged_is_lost_in_a_crash` (1 and 2) and
//! `commits_are_refused_while_the_disk_is_full_and_for_good_after_a_failed_sync` (3):
//! 1. Records are appended under the latches of the partitions that they change, before anybody
//!    else can see the change: the order of records is the order of conflicting commits, and under
//!    the latches of all partitions every visible commit lies below the LSN where the log ends.
//! 2. A file is written from its beginning to its end, and is durable as a whole before the next
//!    one gets its name. So only the last file can end in the middle of something.
//! 3. After a failed sync nothing is written any more: what the kernel has thrown away cannot be
//!    known, so nothing after it may be acknowledged ("fsyncgate"). A full disk is another matter:
//!    nothing was lost, so the batch is kept and tried again.
//!
//! Cost: an append copies its bytes under one mutex; its checksum is made before. Threads: any
//! number append and wait; one writes.

pub(crate) mod damage;
pub(crate) mod disk;
pub(crate) mod frame;
mod gather;
pub(crate) mod manifest;
#[cfg(all(test, shuttle))]
mod models;
pub(crate) mod reader;
mod turn;
pub(crate) mod writer;

use self::frame::FrameKind;
pub use self::turn::DurableWait;
use crate::log::disk::Storage;
use halcyon_base::SqlState;
use halcyon_base::crc32c::crc32c;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A place in the log, in bytes from its beginning. LSN LSN 0 is before everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:08X}", self.0 >> 32, self.0 as u32)
    }
}

/// Reasons for which a commit was not taken, or is not known to be durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogError {
    /// The disk is full. Commits are taken again once it is not.
    Full {
        /// The file and what the system said.
        what: String,
    },
    /// Writing or syncing failed. No commit is taken any more until the database is opened anew.
    Failed {
        /// The file and what the system said.
        what: String,
    },
    /// The log was closed.
    Closed,
    /// The session was refused the memory of the commit's record. Nothing was written.
    Memory,
}

impl LogError {
    /// SQL code of the error.
    pub fn sql_state(&self) -> SqlState {
        match self {
            LogError::Full { .. } => SqlState::DISK_FULL,
            LogError::Failed { .. } => SqlState::IO_ERROR,
            LogError::Closed => SqlState::CANNOT_CONNECT_NOW,
            LogError::Memory => SqlState::OUT_OF_MEMORY,
        }
    }

    /// Whether the log takes no commit any more once it has failed so.
    pub fn is_final(&self) -> bool {
        matches!(self, LogError::Failed { .. } | LogError::Closed)
    }

    /// The error of an operation on `path`. `synced`: whether the operation was a sync.
    pub(crate) fn of(path: &str, error: &io::Error, synced: bool) -> LogError {
        let what = format!("{path}: {error}");
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        match full.contains(&error.kind()) && !synced {
            true => LogError::Full { what },
            false => LogError::Failed { what },
        }
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Full { what } => write!(f, "the log cannot grow: {what}"),
            LogError::Failed { what } => write!(f, "the log cannot be written: {what}"),
            LogError::Closed => f.write_str("the log is closed"),
            LogError::Memory => f.write_str("out of memory"),
        }
    }
}

impl std::error::Error for LogError {}

/// Bytes of a frame that holds nothing: what the log grows by when it comes to rest or is closed.
pub const MARK_BYTES: u64 = frame::FRAME_HEADER as u64;

/// Settings of the log.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Size of a log file, in bytes; a commit that needs more gets a longer one.
    pub file_bytes: u64,
    /// Longest time for which a commit that no session waits for stays in memory. Also the time
    /// without commits after which the log is at rest and gets a mark, but not less than 20 ms.
    pub delay: Duration,
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions { file_bytes: 16 << 20, delay: Duration::from_millis(200) }
    }
}

/// How things stand at the end of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchEnd {
    /// Everything before is durable.
    pub durable: Lsn,
    /// Whether nothing behind becomes durable any more.
    pub is_last: bool,
}

/// Counts of the log since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStatistics {
    /// Where the next record goes.
    pub end: Lsn,
    /// Everything before is durable.
    pub durable: Lsn,
    /// Commits appended.
    pub commits: u64,
    /// Batches written and synced.
    pub batches: u64,
    /// Time spent in writing and syncing them.
    pub writing: Duration,
    /// Files with records that no checkpoint has made superfluous.
    pub files: u64,
    /// Memory of the buffer of what has been appended and not written.
    pub buffer_bytes: u64,
}

/// The redo log of a database that is open.
pub struct Log {
    writer: writer::Writer,
    /// Where the last record of a sequence ends.
    sequences: AtomicU64,
}

impl Log {
    /// Opens the log at `at`, where recovery found the end, in the newest file or one that begins there,
    /// notes it in the manifest, and starts the writer. On a full disk both are put off, and commits are
    /// refused, until there is room.
    ///
    /// Errors: [`LogError`]; nothing was started.
    pub fn start(
        storage: Arc<dyn Storage>,
        id: u128,
        at: Lsn,
        options: LogOptions,
    ) -> Result<Log, LogError> {
        let writer = writer::Writer::start(storage, id, at, options)?;
        Ok(Log { writer, sequences: AtomicU64::new(0) })
    }

    /// Whether a commit would be taken now. Waits while sessions append much more than the disk
    /// takes.
    pub fn admit(&self) -> Result<(), LogError> {
        self.writer.admit()
    }

    /// Appends a commit and returns the LSN behind it. The commit is durable once the log is
    /// durable up to there.
    pub(crate) fn append_commit(&self, payload: &Payload<'_>) -> Lsn {
        self.writer.append(payload, true)
    }

    /// Appends the value from which a sequence goes on after a crash.
    pub fn append_sequence(&self, payload: &[u8]) {
        let end = self.writer.append(&Payload::new(FrameKind::Sequence, payload), false);
        self.sequences.fetch_max(end.0, Ordering::Release);
        self.soon();
    }

    /// The LSN up to which the log must be durable before any client may be told of a sequence's
    /// value.
    pub fn last_sequence(&self) -> Lsn {
        Lsn(self.sequences.load(Ordering::Acquire))
    }

    /// Waits until the log is durable up to `lsn`.
    ///
    /// Errors: [`LogError`]; whether the bytes before `lsn` are durable is not known then.
    pub fn wait(&self, lsn: Lsn) -> Result<(), LogError> {
        self.writer.wait(lsn)
    }

    /// The wait of a task for the log to be durable up to `lsn`; none is under way before the task asks.
    pub fn wait_as_task(&self, lsn: Lsn) -> DurableWait {
        DurableWait::new(Arc::clone(self.writer.shared()), lsn)
    }

    /// Everything before is durable.
    pub fn durable(&self) -> Lsn {
        self.writer.shared().durable()
    }

    /// Sets the function to call at the end of each batch, written or not, on the thread that was at the disk. The
    /// function is called without any latch of the log, after those who wait were woken. Only the first one is kept.
    pub fn on_batch(&self, call: impl Fn(BatchEnd) + Send + Sync + 'static) {
        self.writer.shared().on_batch(Box::new(call));
    }

    /// Sees to it that the log becomes durable up to its present end within [`LogOptions::delay`].
    pub fn soon(&self) {
        self.writer.soon();
    }

    /// Changes [`LogOptions::delay`].
    pub fn set_delay(&self, delay: Duration) {
        self.writer.set_delay(delay);
    }

    /// Where the next record goes.
    pub fn end(&self) -> Lsn {
        self.writer.statistics().end
    }

    /// Counts since the log was opened.
    pub fn statistics(&self) -> LogStatistics {
        self.writer.statistics()
    }

    /// The reason for which no commit is taken, if there is one.
    pub fn failure(&self) -> Option<LogError> {
        self.writer.failure()
    }

    /// Removes, or keeps for reuse, the files that end before `lsn`.
    pub fn drop_before(&self, lsn: Lsn) -> io::Result<()> {
        self.writer.drop_before(lsn)
    }

    /// Makes the next file ready before it is needed, unless there is one.
    pub fn prepare(&self) -> io::Result<()> {
        self.writer.prepare()
    }

    /// Writes the bytes that are left and ends the writer. Later commits are refused.
    pub fn close(&self) {
        self.writer.close();
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.close();
    }
}

/// Payload of a record with its checksum, made outside the log's mutex.
pub(crate) struct Payload<'a> {
    /// Pieces before the last, each as long as a frame can hold. Payloads of several pieces are
    /// rare, so making a payload allocates nothing.
    fragments: Vec<Piece<'a>>,
    last: Piece<'a>,
}

/// A frame's payload and its checksum.
type Piece<'a> = (FrameKind, &'a [u8], u32);

impl<'a> Payload<'a> {
    pub(crate) fn new(kind: FrameKind, bytes: &'a [u8]) -> Self {
        let before_last = bytes.len().saturating_sub(1) / frame::PAYLOAD_MAX * frame::PAYLOAD_MAX;
        let (fragments, last) = bytes.split_at(before_last);
        let fragments = fragments.chunks_exact(frame::PAYLOAD_MAX);
        Payload {
            fragments: fragments.map(|piece| (FrameKind::Fragment, piece, crc32c(piece))).collect(),
            last: (kind, last, crc32c(last)),
        }
    }

    fn pieces(&self) -> impl Iterator<Item = &Piece<'a>> {
        self.fragments.iter().chain([&self.last])
    }
}
