//! Writing the log: batches, one after the other, by whoever is at hand.
//!
//! A session that waits alone writes and syncs by itself: handing that to a thread and being woken up
//! by it costs as much as the disk takes. Those that come while somebody is at the disk are the next
//! batch, and the writer thread takes over; it goes on as long as anybody waits, without a pause
//! between two batches. What nobody waits for it writes when the delay is over, or when it has
//! become much; and it tries again when the disk was full.
//! Invariant: one is at the disk at a time ([`State::busy`]), and has [`Shared::writing`].

use super::disk::{File, Storage};
use super::frame::{self, Kind};
use super::{LogError, LogOptions, LogStatistics, Lsn, Payload};
use halcyon_base::crc32c::crc32c;
use halcyon_base::sync::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Appended bytes that are written though nobody waits for them.
const BATCH_BYTES: usize = 1 << 20;
/// Appended bytes above which no further commit is admitted until the disk has caught up.
const BACKLOG_BYTES: usize = 64 << 20;
/// A batch buffer above this is given back.
const KEPT_BYTES: usize = 4 << 20;
/// Between two attempts to write to a full disk.
const RETRY: Duration = Duration::from_millis(200);
/// Files kept for reuse.
const SPARES: usize = 3;
/// Zeroes are written in pieces of this.
const PIECE: usize = 1 << 20;

/// Folder of the log's files.
pub(crate) const FOLDER: &str = "log";
/// The next file while it is made.
const NEXT: &str = "log/next";

/// Name of the file that begins at `first`.
pub(crate) fn file_path(first: Lsn) -> String {
    format!("{FOLDER}/{:016x}.log", first.0)
}

pub(crate) struct Writer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    /// The writer sleeps here.
    work: Condvar,
    /// Those who wait for durability sleep here.
    done: Condvar,
    /// Copy of [`State::durable`], to be looked at without the mutex.
    durable: AtomicU64,
    files: Files,
    /// Locked by whoever is at the disk, so nobody ever waits for it.
    writing: Mutex<Writing>,
}

/// What is needed at the disk.
struct Writing {
    current: Current,
    batch: Vec<u8>,
}

struct State {
    /// Appended since the writer took the last batch.
    buffer: Vec<u8>,
    /// Where the buffer ends in the stream.
    end: Lsn,
    durable: Lsn,
    /// Somebody waits for the log to be durable up to here.
    wanted: Lsn,
    /// When the oldest bytes of the buffer must be written, if somebody said so.
    due: Option<Instant>,
    /// Somebody is at the disk.
    busy: bool,
    /// When a full disk is tried again.
    retry: Option<Instant>,
    /// The writer sleeps and nobody has called it.
    asleep: bool,
    delay: Duration,
    failure: Option<LogError>,
    closing: bool,
    commits: u64,
    batches: u64,
    writing: Duration,
}

/// The files of the log, seen from the writer and from whoever tidies up.
struct Files {
    storage: Arc<dyn Storage>,
    id: u128,
    file_bytes: u64,
    /// Files that hold something needed: where each begins. The last is being written.
    firsts: Mutex<VecDeque<Lsn>>,
    /// Paths of files of the usual length, full of zeroes or of what is not needed any more.
    spares: Mutex<Vec<String>>,
    next_spare: AtomicU64,
}

/// The file that is written to.
struct Current {
    file: Box<dyn File>,
    path: String,
    first: Lsn,
    capacity: u64,
}

/// What went wrong, and whether it was in a sync.
struct Failure {
    path: String,
    error: io::Error,
    syncing: bool,
}

fn failure(path: &str, syncing: bool) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure { path: path.to_owned(), error, syncing }
}

impl Failure {
    fn log_error(&self) -> LogError {
        LogError::of(&self.path, &self.error, self.syncing)
    }
}

impl Writer {
    pub(crate) fn start(
        storage: Arc<dyn Storage>,
        id: u128,
        at: Lsn,
        options: LogOptions,
    ) -> Result<Self, LogError> {
        let files = Files::open(storage, id, &options, at)?;
        let current = files.begin(at, 0).map_err(|failed| failed.log_error())?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                buffer: Vec::new(),
                end: at,
                durable: at,
                wanted: at,
                due: None,
                busy: false,
                retry: None,
                asleep: false,
                delay: options.delay,
                failure: None,
                closing: false,
                commits: 0,
                batches: 0,
                writing: Duration::ZERO,
            }),
            work: Condvar::new(),
            done: Condvar::new(),
            durable: AtomicU64::new(at.0),
            files,
            writing: Mutex::new(Writing { current, batch: Vec::new() }),
        });
        let writing = shared.clone();
        let thread = thread::Builder::new().name("log writer".into());
        let thread = thread.spawn(move || writing.run());
        let thread = thread.map_err(|error| LogError::Failed { what: error.to_string() })?;
        Ok(Writer { shared, thread: Mutex::new(Some(thread)) })
    }

    pub(crate) fn admit(&self) -> Result<(), LogError> {
        let shared = &self.shared;
        let mut state = shared.state.lock();
        loop {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if state.closing {
                return Err(LogError::Closed);
            }
            if state.buffer.len() <= BACKLOG_BYTES {
                return Ok(());
            }
            shared.call(&mut state);
            shared.done.wait(&mut state);
        }
    }

    pub(crate) fn append(&self, payload: &Payload<'_>, commit: bool) -> Lsn {
        let mut state = self.shared.state.lock();
        let State { buffer, end, durable, .. } = &mut *state;
        for &(kind, piece, sum) in &payload.pieces {
            frame::write(buffer, kind, *end, *durable, piece, sum);
            end.0 += frame::frame_bytes(piece.len()) as u64;
        }
        state.commits += u64::from(commit);
        if state.buffer.len() > BATCH_BYTES {
            self.shared.call(&mut state);
        }
        state.end
    }

    pub(crate) fn wait(&self, lsn: Lsn) -> Result<(), LogError> {
        // Pairs with the store in `Shared::run`.
        if self.shared.durable.load(Ordering::Acquire) >= lsn.0 {
            return Ok(());
        }
        let mut state = self.shared.state.lock();
        while state.durable < lsn {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            let alone = state.wanted <= state.durable;
            state.wanted = state.wanted.max(lsn);
            if alone && !state.busy {
                state = self.shared.flush(state);
                continue;
            }
            self.shared.call(&mut state);
            self.shared.done.wait(&mut state);
        }
        Ok(())
    }

    pub(crate) fn soon(&self) {
        let mut state = self.shared.state.lock();
        if state.due.is_none() && !state.buffer.is_empty() {
            state.due = Some(Instant::now() + state.delay);
            self.shared.call(&mut state);
        }
    }

    pub(crate) fn set_delay(&self, delay: Duration) {
        self.shared.state.lock().delay = delay;
    }

    pub(crate) fn statistics(&self) -> LogStatistics {
        let files = self.shared.files.firsts.lock().len() as u64;
        let state = self.shared.state.lock();
        LogStatistics {
            end: state.end,
            durable: state.durable,
            commits: state.commits,
            batches: state.batches,
            writing: state.writing,
            files,
        }
    }

    pub(crate) fn failure(&self) -> Option<LogError> {
        self.shared.state.lock().failure.clone()
    }

    pub(crate) fn drop_before(&self, lsn: Lsn) -> io::Result<()> {
        self.shared.files.drop_before(lsn)
    }

    pub(crate) fn prepare(&self) -> io::Result<()> {
        self.shared.files.prepare()
    }

    pub(crate) fn close(&self) {
        let Some(thread) = self.thread.lock().take() else {
            return;
        };
        self.shared.end();
        if thread.join().is_err() {
            tracing::error!("the log writer panicked");
        }
    }
}

impl Shared {
    /// Wakes the writer, if it sleeps.
    fn call(&self, state: &mut MutexGuard<'_, State>) {
        if std::mem::take(&mut state.asleep) {
            self.work.notify_one();
        }
    }

    /// Lets the writer write what is left, and a mark that says so, and end.
    fn end(&self) {
        let mut state = self.state.lock();
        while state.durable < state.end && state.failure.is_none() {
            state.wanted = state.end;
            self.call(&mut state);
            self.done.wait(&mut state);
        }
        if state.failure.is_none() {
            let State { buffer, end, durable, .. } = &mut *state;
            frame::write(buffer, Kind::Mark, *end, *durable, &[], crc32c(&[]));
            end.0 += frame::frame_bytes(0) as u64;
        }
        state.closing = true;
        self.call(&mut state);
        self.work.notify_one();
    }

    /// The writer thread.
    fn run(&self) {
        let mut state = self.state.lock();
        loop {
            let now = Instant::now();
            let full = match &state.failure {
                None => false,
                Some(LogError::Full { .. }) => true,
                Some(LogError::Failed { .. } | LogError::Closed) => return,
            };
            let closed = state.closing && !state.busy && (full || state.buffer.is_empty());
            if closed {
                // What comes now is refused.
                state.failure.get_or_insert(LogError::Closed);
                self.done.notify_all();
                return;
            }
            let wanted = match full {
                true => state.retry.is_none_or(|retry| retry <= now),
                false => {
                    state.closing
                        || state.wanted > state.durable
                        || state.buffer.len() > BATCH_BYTES
                        || state.due.is_some_and(|due| due <= now)
                }
            };
            if wanted && !state.busy && !state.buffer.is_empty() {
                state = self.flush(state);
                continue;
            }
            let until = if full { state.retry } else { state.due };
            state.asleep = true;
            match until.filter(|until| *until > now) {
                None => self.work.wait(&mut state),
                Some(until) => {
                    self.work.wait_for(&mut state, until - now);
                }
            }
            state.asleep = false;
        }
    }

    /// Writes and syncs what was appended, and tells those who wait for it.
    fn flush<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        assert!(!state.busy, "one is at the disk at a time");
        state.busy = true;
        state.due = None;
        let mut writing = self.writing.lock();
        let Writing { current, batch } = &mut *writing;
        std::mem::swap(&mut state.buffer, batch);
        let (from, to) = (state.durable, state.end);
        drop(state);
        let began = Instant::now();
        let written = self.files.write(current, from, batch);
        let mut state = self.state.lock();
        match written {
            Ok(()) => {
                state.failure = None;
                state.durable = to;
                state.batches += 1;
                state.writing += began.elapsed();
                self.durable.store(to.0, Ordering::Release);
            }
            Err(failed) => {
                let error = failed.log_error();
                tracing::error!(%error, "commits are refused");
                state.retry = Some(Instant::now() + RETRY);
                state.failure = Some(error);
                // Nothing is lost but time: it is written with what has come meanwhile.
                batch.append(&mut state.buffer);
                std::mem::swap(&mut state.buffer, batch);
            }
        }
        batch.clear();
        batch.shrink_to(KEPT_BYTES);
        drop(writing);
        state.busy = false;
        self.done.notify_all();
        if state.failure.is_some() || state.closing || !state.buffer.is_empty() {
            self.call(&mut state);
        }
        state
    }
}

impl Files {
    /// Takes stock of what is there. Files from `at` on cannot be: recovery ended there.
    fn open(
        storage: Arc<dyn Storage>,
        id: u128,
        options: &LogOptions,
        at: Lsn,
    ) -> Result<Files, LogError> {
        let failed = |error: io::Error| LogError::of(FOLDER, &error, false);
        storage.make_folder(FOLDER).map_err(failed)?;
        let mut firsts = VecDeque::new();
        for name in storage.list(FOLDER).map_err(failed)? {
            match super::reader::first_of(&name) {
                Some(first) if first < at => firsts.push_back(first),
                Some(first) if first == at => {}
                Some(_) => unreachable!("recovery read every file"),
                None if name == "next" || name.starts_with("spare-") => {
                    storage.remove(&format!("{FOLDER}/{name}")).map_err(failed)?;
                }
                None => {}
            }
        }
        // What recovery has read may be in the kernel's memory alone.
        if let Some(&last) = firsts.back() {
            let path = file_path(last);
            let synced = storage.open(&path).and_then(|file| file.sync());
            synced.map_err(|error| LogError::of(&path, &error, true))?;
        }
        Ok(Files {
            storage,
            id,
            file_bytes: options.file_bytes,
            firsts: Mutex::new(firsts),
            spares: Mutex::default(),
            next_spare: AtomicU64::new(1),
        })
    }

    /// Writes a batch where it belongs, in a new file if the present one is full, and syncs it.
    fn write(&self, current: &mut Current, from: Lsn, batch: &[u8]) -> Result<(), Failure> {
        let mut offset = frame::FILE_HEADER as u64 + (from.0 - current.first.0);
        if offset + batch.len() as u64 > current.capacity {
            *current = self.begin(from, batch.len())?;
            offset = frame::FILE_HEADER as u64;
        }
        current.file.write_at(offset, batch).map_err(failure(&current.path, false))?;
        current.file.sync().map_err(failure(&current.path, true))
    }

    /// A file that begins at `first` and takes a batch of `bytes`: durable, and so is its name.
    fn begin(&self, first: Lsn, bytes: usize) -> Result<Current, Failure> {
        let needed = (frame::FILE_HEADER + bytes) as u64;
        let spare = if needed <= self.file_bytes { self.spares.lock().pop() } else { None };
        let capacity = needed.max(self.file_bytes);
        match spare {
            Some(spare) => self.storage.rename(&spare, NEXT).map_err(failure(&spare, false))?,
            None => self.make(NEXT, capacity)?,
        }
        let path = file_path(first);
        let file = self.storage.open(NEXT).map_err(failure(NEXT, false))?;
        let header = frame::file_header(self.id, first);
        file.write_at(0, &header).map_err(failure(NEXT, false))?;
        file.sync().map_err(failure(NEXT, true))?;
        self.storage.rename(NEXT, &path).map_err(failure(NEXT, false))?;
        self.storage.sync_folder(FOLDER).map_err(failure(FOLDER, true))?;
        self.firsts.lock().push_back(first);
        Ok(Current { file, path, first, capacity })
    }

    /// Makes a file of zeroes. Written, not only reserved: a sync of bytes that are there already
    /// need not make their place durable too.
    fn make(&self, path: &str, bytes: u64) -> Result<(), Failure> {
        let fill = || -> Result<(), Failure> {
            let file = self.storage.create(path).map_err(failure(path, false))?;
            let zeroes = vec![0; PIECE];
            let mut at = 0;
            while at < bytes {
                let piece = (bytes - at).min(PIECE as u64);
                file.write_at(at, &zeroes[..piece as usize]).map_err(failure(path, false))?;
                at += piece;
            }
            // Nothing of worth is in it: a full disk may say so here as well.
            file.sync().map_err(failure(path, false))
        };
        fill().inspect_err(|_| {
            // It would only take room; if it cannot be removed, the next start does.
            let _ = self.storage.remove(path);
        })
    }

    fn prepare(&self) -> io::Result<()> {
        if !self.spares.lock().is_empty() {
            return Ok(());
        }
        let path = self.spare_path();
        self.make(&path, self.file_bytes).map_err(|failed| failed.error)?;
        self.spares.lock().push(path);
        Ok(())
    }

    fn spare_path(&self) -> String {
        format!("{FOLDER}/spare-{}", self.next_spare.fetch_add(1, Ordering::Relaxed))
    }

    fn drop_before(&self, lsn: Lsn) -> io::Result<()> {
        loop {
            let mut firsts = self.firsts.lock();
            // A file ends where the next begins, so the last is never dropped.
            let (Some(&first), Some(&next)) = (firsts.front(), firsts.get(1)) else {
                return Ok(());
            };
            if next > lsn {
                return Ok(());
            }
            let path = file_path(first);
            let usual = self.storage.open(&path)?.bytes()? == self.file_bytes;
            if usual && self.spares.lock().len() < SPARES {
                let spare = self.spare_path();
                self.storage.rename(&path, &spare)?;
                self.spares.lock().push(spare);
            } else {
                self.storage.remove(&path)?;
            }
            firsts.pop_front();
        }
    }
}
