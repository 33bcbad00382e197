//! The writer of the log: batches, one after the other, each written by a session that waits for
//! it.
//!
//! A session that waits writes and syncs by itself: handing the batch to a thread and being woken
//! up by that thread costs as much as the disk takes. Commits that come while a session is at the
//! disk are the next batch, which one of their sessions writes when [`Gather`] finds it ripe. The
//! writer thread has the clock: it writes commits that no session waits for when the delay is over
//! or they have become many, and batches that were held back for sessions that did not come; and it
//! tries again when the disk was full. Each waiting session is woken by unparking its thread: a
//! condition variable would wake the sessions one behind the other, each by the one before, and
//! that chain takes longer than the disk.
//! Invariant, checked by an assertion in [`Shared::flush`]: one thread is at the disk at a time
//! ([`WriterState::busy`]), and has [`Shared::writing`].
//! Cost of a commit that no session waits for: one mutex, in [`Writer::append`].

use super::disk::{File, Storage, read_all};
use super::frame::{self, FOLDER, FrameKind, file_path, first_of};
use super::gather::Gather;
use super::manifest::{self, Known, Manifest, Stage};
use super::{BatchEnd, LogError, LogOptions, LogStatistics, Lsn, MARK_BYTES, Payload};
use crate::planted;
use halcyon_base::clock::{self, Moment};
use halcyon_base::crc32c::crc32c;
use halcyon_base::duty;
use halcyon_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use halcyon_base::sync::thread::{self, JoinHandle, Thread};
use halcyon_base::sync::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;

/// Number of appended bytes that are written although no session waits for them.
const BATCH_BYTES: usize = 1 << 20;
/// Appended bytes above which no further commit is admitted until the disk has caught up.
const BACKLOG_BYTES: usize = 64 << 20;
/// A batch buffer above this size is given back to the allocator.
const KEPT_BYTES: usize = 4 << 20;
/// Least time without an append after which the log is at rest; [`LogOptions::delay`] may be
/// longer.
const REST_MIN: Duration = Duration::from_millis(20);
/// Between two attempts to write to a full disk.
const RETRY: Duration = Duration::from_millis(200);
/// Files kept for reuse.
const SPARES: usize = 3;
/// Zeroes are written in pieces of this.
const PIECE: usize = 1 << 20;

/// The next file while it is made.
const NEXT: &str = "log/next";

pub(crate) struct Writer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

pub(super) struct Shared {
    pub state: Mutex<WriterState>,
    /// The writer sleeps here.
    work: Condvar,
    /// Sessions that wait for the disk to catch up sleep here, and the thread that closes the log.
    done: Condvar,
    /// Copy of [`WriterState::durable`], for looks without the mutex.
    durable: AtomicU64,
    /// Whether [`Writer::admit`] has to look closer.
    refuses: AtomicBool,
    /// Whether [`WriterState::due`] is set, for looks without the mutex.
    armed: AtomicBool,
    files: Files,
    /// Locked by the one thread at the disk, so no thread ever waits for this mutex.
    writing: Mutex<Writing>,
    /// Called at the end of each batch.
    on_batch: OnceLock<OnBatch>,
}

/// A function that is called at the end of each batch.
type OnBatch = Box<dyn Fn(BatchEnd) + Send + Sync>;

/// State that only the thread at the disk needs.
struct Writing {
    log: Option<Begun>,
    batch: Vec<u8>,
}

/// The log's newest file, and the manifest that names it. Missing while the disk has had no room for them
/// since the start.
struct Begun {
    current: Current,
    manifest: Manifest,
}

pub(super) struct WriterState {
    /// Appended since the writer took the last batch.
    buffer: Vec<u8>,
    /// Where the buffer ends in the stream.
    pub end: Lsn,
    pub durable: Lsn,
    /// Sessions that wait for the log to become durable.
    pub waiters: Vec<Waiter>,
    pub gather: Gather,
    /// LSN up to which the thread that closes the log wants it durable.
    wanted: Lsn,
    /// When the oldest bytes of the buffer must be written, if [`Log::soon`](super::Log::soon) was
    /// called.
    due: Option<Moment>,
    /// The writer thread ends the wait of a batch that is held back: all its sessions came before
    /// it was.
    held_by_writer: bool,
    /// A thread is at the disk.
    pub busy: bool,
    /// When a full disk is tried again.
    retry: Option<Moment>,
    /// When the writer thread looks whether the log has come to rest, to write a mark.
    rest: Option<Moment>,
    /// When the last batch was durable.
    ended: Moment,
    /// The writer thread sleeps and has not been called.
    asleep: bool,
    /// When it wakes up by itself.
    alarm: Option<Moment>,
    delay: Duration,
    pub failure: Option<LogError>,
    closing: bool,
    commits: u64,
    batches: u64,
    writing: Duration,
}

/// A session that waits for the log to be durable up to an LSN.
pub(super) struct Waiter {
    pub lsn: Lsn,
    /// Set before the thread is unparked: a thread that was unparked for another reason parks
    /// again.
    pub told: Arc<AtomicBool>,
    pub sleeper: Sleeper,
}

/// Who waits, and how to wake it.
pub(super) enum Sleeper {
    Thread(Thread),
    /// See [`super::turn`].
    Task(Waker),
}

impl Waiter {
    fn tell(self) {
        self.told.store(true, Ordering::Release);
        match self.sleeper {
            Sleeper::Thread(thread) => thread.unpark(),
            Sleeper::Task(waker) => waker.wake(),
        }
    }
}

/// The files of the log, shared by the writer and the checkpoints that remove files.
struct Files {
    storage: Arc<dyn Storage>,
    id: u128,
    file_bytes: u64,
    /// First LSNs of the files that are needed. The last file is being written.
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

/// An error of the disk, and whether a sync raised it.
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
        let (log, failure) = match files.begin_log(at, 0).map_err(|failed| failed.log_error()) {
            Ok(log) => (Some(log), None),
            // Commits are refused until there is room. Nothing has changed on the disk until then: what was
            // recovered can be recovered again.
            Err(full @ LogError::Full { .. }) => {
                tracing::error!(error = %full, "commits are refused");
                (None, Some(full))
            }
            Err(other) => return Err(other),
        };
        let refuses = failure.is_some();
        let shared = Arc::new(Shared {
            state: Mutex::new(WriterState {
                buffer: Vec::new(),
                end: at,
                durable: at,
                waiters: Vec::new(),
                gather: Gather::default(),
                wanted: at,
                due: None,
                held_by_writer: false,
                busy: false,
                retry: refuses.then(|| clock::now().plus(RETRY)),
                rest: None,
                ended: clock::now(),
                asleep: false,
                alarm: None,
                delay: options.delay,
                failure,
                closing: false,
                commits: 0,
                batches: 0,
                writing: Duration::ZERO,
            }),
            work: Condvar::new(),
            done: Condvar::new(),
            durable: AtomicU64::new(at.0),
            refuses: AtomicBool::new(refuses),
            armed: AtomicBool::new(false),
            files,
            writing: Mutex::new(Writing { log, batch: Vec::new() }),
            on_batch: OnceLock::new(),
        });
        if refuses {
            // The writer thread tries to write it again and again; when it can, commits are taken.
            shared.state.lock().mark();
        }
        let writing = shared.clone();
        let thread = thread::Builder::new().name("log writer".into());
        let thread = thread.spawn(move || writing.run());
        let thread = thread.map_err(|error| LogError::Failed { what: error.to_string() })?;
        Ok(Writer { shared, thread: Mutex::new(Some(thread)) })
    }

    pub(crate) fn admit(&self) -> Result<(), LogError> {
        let shared = &self.shared;
        // Pairs with the stores in `Shared::note_refusals`.
        if !shared.refuses.load(Ordering::Acquire) {
            return Ok(());
        }
        duty::relieved(|| self.wait_for_room())
    }

    /// Waits until the buffer takes more. Errors: as for [`Writer::admit`].
    fn wait_for_room(&self) -> Result<(), LogError> {
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
        let WriterState { buffer, end, durable, .. } = &mut *state;
        for &(kind, piece, sum) in payload.pieces() {
            frame::write(buffer, kind, *end, *durable, piece, sum);
            end.0 += frame::frame_bytes(piece.len()) as u64;
        }
        state.commits += u64::from(commit);
        if state.buffer.len() > BATCH_BYTES {
            self.shared.note_refusals(&state);
            self.shared.call(&mut state);
        }
        state.end
    }

    pub(crate) fn wait(&self, lsn: Lsn) -> Result<(), LogError> {
        // Pairs with the store in `Shared::flush`.
        match self.shared.durable.load(Ordering::Acquire) < lsn.0 {
            true => duty::relieved(|| self.wait_for_disk(lsn)),
            false => Ok(()),
        }
    }

    fn wait_for_disk(&self, lsn: Lsn) -> Result<(), LogError> {
        let shared = &self.shared;
        // Pairs with the store in `Shared::flush`.
        while shared.durable.load(Ordering::Acquire) < lsn.0 {
            let mut state = shared.state.lock();
            if state.durable >= lsn {
                break;
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if !state.busy && state.gather.is_ripe(state.waiters.len() + 1) {
                shared.flush(state, true);
                continue;
            }
            let held_until = state.gather.until().filter(|_| state.waiters.is_empty());
            let told = Arc::new(AtomicBool::new(false));
            let sleeper = Sleeper::Thread(thread::current());
            state.waiters.push(Waiter { lsn, told: told.clone(), sleeper });
            drop(state);
            shared.sleep(&told, held_until);
        }
        Ok(())
    }

    /// For those who wait without a thread.
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn soon(&self) {
        // A set flag belongs to a batch that has the caller's bytes: a thread that takes a batch
        // clears the flag under the mutex under which the caller appended.
        if self.shared.armed.load(Ordering::Acquire) {
            return;
        }
        let mut state = self.shared.state.lock();
        if state.due.is_none() && !state.buffer.is_empty() {
            state.due = Some(clock::now().plus(state.delay));
            self.shared.armed.store(true, Ordering::Release);
            self.shared.set_alarm(&mut state);
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
            buffer_bytes: state.buffer.capacity() as u64,
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
    fn call(&self, state: &mut MutexGuard<'_, WriterState>) {
        if std::mem::take(&mut state.asleep) {
            self.work.notify_one();
        }
    }

    /// Wakes the writer thread if its alarm is set too late.
    fn set_alarm(&self, state: &mut MutexGuard<'_, WriterState>) {
        let sooner = |next| state.alarm.is_none_or(|alarm| next < alarm);
        if state.failure.is_some()
            || state.closing
            || state.wanted > state.durable
            || state.buffer.len() > BATCH_BYTES
            || state.next_alarm().is_some_and(sooner)
        {
            self.call(state);
        }
    }

    /// Everything before is durable. Pairs with the store in [`Shared::flush`].
    pub fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// Sets the function to call at the end of each batch, unless there is one.
    pub fn on_batch(&self, call: OnBatch) {
        let _ = self.on_batch.set(call);
    }

    /// Whether the log is durable up to `lsn`.
    pub fn is_durable(&self, lsn: Lsn) -> bool {
        self.durable.load(Ordering::Acquire) >= lsn.0
    }

    /// Has the writer thread write what has been appended and not been taken by the thread at the disk.
    pub fn write_now(&self, state: &mut MutexGuard<'_, WriterState>) {
        // Nobody would take the flag back: later commits would count on a batch that does not come.
        if state.buffer.is_empty() && !planted::is(planted::PROMISE_WITHOUT_BYTES) {
            return;
        }
        state.due = Some(clock::now());
        self.armed.store(true, Ordering::Release);
        self.set_alarm(state);
    }

    /// Waits for the log to be durable up to `lsn`, without having it written.
    #[cfg(all(test, shuttle))]
    pub fn when_durable(&self, lsn: Lsn) {
        let mut state = self.state.lock();
        while state.durable < lsn {
            self.done.wait(&mut state);
        }
    }

    /// Copies the state that [`Writer::admit`] looks at. Called after every change of that state.
    fn note_refusals(&self, state: &WriterState) {
        let refuses =
            state.failure.is_some() || state.closing || state.buffer.len() > BACKLOG_BYTES;
        self.refuses.store(refuses, Ordering::Release);
    }

    /// Lets the writer thread write the bytes that are left and a mark, and end.
    fn end(&self) {
        let mut state = self.state.lock();
        while state.durable < state.end && state.failure.is_none() {
            state.wanted = state.end;
            self.call(&mut state);
            self.done.wait(&mut state);
        }
        if state.failure.is_none() {
            state.mark();
        }
        state.closing = true;
        self.note_refusals(&state);
        self.call(&mut state);
        self.work.notify_one();
    }

    /// Notes in the manifest that the log was closed in order and ends at `end`.
    fn note_end(&self, end: Lsn) {
        let mut writing = self.writing.lock();
        if let Some(log) = &mut writing.log
            && let Err(error) = log.manifest.close(end)
        {
            tracing::warn!(%error, "the log's end is not noted");
        }
    }

    /// The writer thread.
    fn run(&self) {
        let mut state = self.state.lock();
        loop {
            let now = clock::now();
            let full = match &state.failure {
                None => false,
                Some(LogError::Full { .. }) => true,
                Some(LogError::Failed { .. } | LogError::Closed | LogError::Memory) => return,
            };
            let closed = state.closing && !state.busy && (full || state.buffer.is_empty());
            if closed {
                if state.failure.is_none() {
                    self.note_end(state.durable);
                }
                // Commits that come from now on are refused.
                state.failure.get_or_insert(LogError::Closed);
                self.note_refusals(&state);
                self.done.notify_all();
                let waiters = std::mem::take(&mut state.waiters);
                drop(state);
                waiters.into_iter().for_each(Waiter::tell);
                return;
            }
            if state.is_at_rest(now) {
                state.mark();
                self.flush(state, false);
                state = self.state.lock();
                continue;
            }
            let wanted = match full {
                true => state.retry.is_none_or(|retry| retry <= now),
                false => {
                    state.closing
                        || state.wanted > state.durable
                        || state.buffer.len() > BATCH_BYTES
                        || state.next_alarm().is_some_and(|next| next <= now)
                }
            };
            if wanted && !state.busy && !state.buffer.is_empty() {
                self.flush(state, false);
                state = self.state.lock();
                continue;
            }
            state.asleep = true;
            state.alarm = state.next_alarm().filter(|next| *next > now);
            match state.alarm {
                None => self.work.wait(&mut state),
                Some(alarm) => {
                    self.work.wait_for(&mut state, alarm - now);
                }
            }
            state.asleep = false;
        }
    }

    /// Sleeps until `told`. The first session to come while a batch is held back also ends the
    /// wait, some time after `held_until`. The last session to come usually has ended it before,
    /// and a timer that is stopped costs less than one that wakes the writer thread at each batch.
    fn sleep(&self, told: &Arc<AtomicBool>, mut held_until: Option<Moment>) {
        // Pairs with the store in `Waiter::tell`.
        while !told.load(Ordering::Acquire) {
            let Some(until) = held_until else {
                thread::park();
                continue;
            };
            let left = until.since(clock::now());
            if !left.is_zero() {
                thread::park_timeout(left);
                continue;
            }
            held_until = None;
            let mut state = self.state.lock();
            let place = state.position(told);
            if let Some(place) = place
                && !state.busy
                && state.failure.is_none()
            {
                state.waiters.swap_remove(place);
                return self.flush(state, true);
            }
        }
    }

    /// Writes and syncs the appended bytes, and tells the sessions that wait for them; `waits`: the
    /// caller is such a session.
    pub fn flush(&self, mut state: MutexGuard<'_, WriterState>, waits: bool) {
        assert!(!state.busy, "one is at the disk at a time");
        state.busy = true;
        state.due = None;
        self.armed.store(false, Ordering::Release);
        let waiting = state.waiters.len() + usize::from(waits);
        let began = clock::now();
        state.gather.begin(waiting, began);
        let mut writing = self.writing.lock();
        let Writing { log, batch } = &mut *writing;
        std::mem::swap(&mut state.buffer, batch);
        let (from, to) = (state.durable, state.end);
        drop(state);
        let written = self.files.write(log, from, batch);
        if let (Ok(()), Some(log)) = (&written, log) {
            // Before anybody is told: so what was told can never be missing in silence.
            log.manifest.note(to);
        }
        let now = clock::now();
        let mut state = self.state.lock();
        match written {
            Ok(()) => {
                state.failure = None;
                state.durable = to;
                state.batches += 1;
                state.writing += now - began;
                state.ended = now;
                if to.0 - from.0 > MARK_BYTES {
                    state.rest = state.rest.or(Some(now.plus(state.delay.max(REST_MIN))));
                }
                self.durable.store(to.0, Ordering::Release);
            }
            Err(failed) => {
                let error = failed.log_error();
                tracing::error!(%error, "commits are refused");
                state.retry = Some(now.plus(RETRY));
                state.failure = Some(error);
                // Nothing is lost but time: the batch is written with the bytes that have come
                // meanwhile.
                batch.append(&mut state.buffer);
                std::mem::swap(&mut state.buffer, batch);
            }
        }
        batch.clear();
        batch.shrink_to(KEPT_BYTES);
        drop(writing);
        state.busy = false;
        self.note_refusals(&state);
        self.done.notify_all();
        let mut told = state.take_told();
        let (told_count, left) = (told.len() + usize::from(waits), state.waiters.len());
        state.gather.end(told_count, left, now - began, now);
        state.held_by_writer = left > 0;
        let is_anybodys = left > 0 && state.gather.until().is_none();
        if is_anybodys && !planted::is(planted::NOBODY_WRITES_NEXT) {
            // One of the sessions that are left must write: the first one, which is woken before
            // all others.
            told.insert(0, state.waiters.swap_remove(0));
        }
        self.set_alarm(&mut state);
        let is_last = matches!(&state.failure, Some(failure) if failure.is_final());
        let end = BatchEnd { durable: state.durable, is_last };
        drop(state);
        told.into_iter().for_each(Waiter::tell);
        if let Some(call) = self.on_batch.get() {
            call(end);
        }
    }
}

impl WriterState {
    /// Appends a mark: a frame with nothing but the LSN up to which the log is durable.
    fn mark(&mut self) {
        frame::write(&mut self.buffer, FrameKind::Mark, self.end, self.durable, &[], crc32c(&[]));
        self.end.0 += MARK_BYTES;
    }

    /// Whether nothing has been appended for a while. A mark then proves to recovery that the last
    /// batch was durable: later damage in the batch is not taken for a write that was cut short.
    fn is_at_rest(&mut self, now: Moment) -> bool {
        if self.rest.is_none_or(|rest| now < rest) {
            return false;
        }
        if self.busy || self.closing || !self.buffer.is_empty() {
            // The batch that is under way, or comes next, sets the time anew.
            self.rest = None;
            return false;
        }
        let rested = self.ended.plus(self.delay.max(REST_MIN));
        self.rest = Some(rested).filter(|rested| now < *rested);
        self.rest.is_none()
    }

    /// When the writer thread has to look again: at a full disk, commits that no session waits for,
    /// a batch that is held back, or a log that may have come to rest.
    fn next_alarm(&self) -> Option<Moment> {
        match &self.failure {
            Some(LogError::Full { .. }) => self.retry,
            _ => {
                let held = self.gather.until().filter(|_| self.held_by_writer);
                [self.due, held, self.rest].into_iter().flatten().min()
            }
        }
    }

    /// The place of a session among those that wait.
    pub fn position(&self, told: &Arc<AtomicBool>) -> Option<usize> {
        self.waiters.iter().position(|waiter| Arc::ptr_eq(&waiter.told, told))
    }

    /// Takes out the sessions that can be told: their commits are durable, or there was a failure.
    fn take_told(&mut self) -> Vec<Waiter> {
        let durable = self.durable;
        let failed = self.failure.is_some() && !planted::is(planted::FAILURE_UNTOLD);
        self.waiters.extract_if(.., |waiter| failed || waiter.lsn <= durable).collect()
    }
}

impl Files {
    /// Lists the files that are there. None can begin behind `at`: recovery ended there.
    fn open(
        storage: Arc<dyn Storage>,
        id: u128,
        options: &LogOptions,
        at: Lsn,
    ) -> Result<Files, LogError> {
        let failed = |error: io::Error| LogError::of(FOLDER, &error, false);
        storage.make_folder(FOLDER).map_err(failed)?;
        let (mut firsts, mut spares, mut last_spare) = (VecDeque::new(), Vec::new(), 0);
        for name in storage.list(FOLDER).map_err(failed)? {
            if let Some(first) = first_of(&name) {
                assert!(first <= at, "recovery read every file");
                firsts.push_back(first);
                continue;
            }
            let path = format!("{FOLDER}/{name}");
            let spare = name.strip_prefix("spare-");
            match spare.and_then(|number| number.parse::<u64>().ok()) {
                // A shorter one was not finished.
                Some(number)
                    if spares.len() < SPARES
                        && storage.open(&path).and_then(|file| file.bytes()).map_err(failed)?
                            == options.file_bytes =>
                {
                    last_spare = last_spare.max(number);
                    spares.push(path);
                }
                _ if spare.is_some() || path == NEXT => storage.remove(&path).map_err(failed)?,
                _ => {}
            }
        }
        // Bytes that recovery has read may be in the kernel's memory alone.
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
            spares: Mutex::new(spares),
            next_spare: AtomicU64::new(last_spare + 1),
        })
    }

    /// Writes a batch at its place, in a new file if the current one is full, and syncs it.
    fn write(&self, log: &mut Option<Begun>, from: Lsn, batch: &[u8]) -> Result<(), Failure> {
        let Begun { current, manifest } = match log {
            Some(log) => log,
            None => log.insert(self.begin_log(from, batch.len())?),
        };
        let mut offset = frame::FILE_HEADER as u64 + (from.0 - current.first.0);
        if offset + batch.len() as u64 > current.capacity {
            let next = self.begin(from, batch.len())?;
            // Not for good even if the sync fails: the next attempt writes all of it again.
            manifest.begin_file(from).map_err(failure(manifest::PATH, false))?;
            self.has_begun(from);
            *current = next;
            offset = frame::FILE_HEADER as u64;
        }
        current.file.write_at(offset, batch).map_err(failure(&current.path, false))?;
        current.file.sync().map_err(failure(&current.path, true))
    }

    /// Opens the log at `at`, where recovery found the end, and notes that in a new manifest: goes on in the
    /// newest file, or begins one that takes a batch of `bytes`.
    fn begin_log(&self, at: Lsn, bytes: usize) -> Result<Begun, Failure> {
        let current = match self.resume(at)? {
            Some(current) => current,
            None => self.begin(at, bytes)?,
        };
        let known = Known::new(self.id, Stage::Open, Some(current.first), at);
        let manifest =
            Manifest::create(&*self.storage, known).map_err(failure(manifest::PATH, false))?;
        self.has_begun(current.first);
        Ok(Begun { current, manifest })
    }

    /// Adds a file to the list. A longer file takes the place of one in which nothing was written.
    fn has_begun(&self, first: Lsn) {
        let mut firsts = self.firsts.lock();
        if firsts.back() != Some(&first) {
            firsts.push_back(first);
        }
    }

    /// The newest file, if the log can go on in it at `at`, so that a start takes no room.
    ///
    /// `None` where a power failure has left a whole frame behind a broken one: nobody was told of that
    /// frame, and a log that grew up to it would go on with it. Also for files of earlier versions.
    fn resume(&self, at: Lsn) -> Result<Option<Current>, Failure> {
        let Some(first) = self.firsts.lock().back().copied() else { return Ok(None) };
        let path = file_path(first);
        let bytes = read_all(&*self.storage, &path).map_err(failure(&path, false))?;
        let Ok(header) = frame::parse_file_header(&bytes) else { return Ok(None) };
        let offset = frame::FILE_HEADER as u64 + (at.0 - first.0);
        let is_whole = header.listed
            && (header.id, header.first) == (self.id, first)
            && (offset..=bytes.len() as u64).contains(&header.bytes);
        if !is_whole || frame::whole_frames(&bytes[offset as usize..], at).next().is_some() {
            return Ok(None);
        }
        let file = self.storage.open(&path).map_err(failure(&path, false))?;
        Ok(Some(Current { file, path, first, capacity: header.bytes }))
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
        let header = frame::file_header(self.id, first, capacity);
        file.write_at(0, &header).map_err(failure(NEXT, false))?;
        file.sync().map_err(failure(NEXT, true))?;
        self.storage.rename(NEXT, &path).map_err(failure(NEXT, false))?;
        self.storage.sync_folder(FOLDER).map_err(failure(FOLDER, true))?;
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
            // The file holds nothing of worth yet: a full disk may show here as well.
            file.sync().map_err(failure(path, false))
        };
        fill().inspect_err(|_| {
            // The file would only take room; if it cannot be removed, the next start removes it.
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
