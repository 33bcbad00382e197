//! Models of who writes the log next, among threads and tasks that wait for the disk.
//!
//! Strategy: the log as it is, on a disk in memory that lets others run while it syncs, with its writer thread.
//! Sessions wait as threads ([`Log::wait`]) or as tasks ([`super::DurableWait`]), as it comes, and tasks may go away
//! whenever they wait. [`LogOptions::delay`] is an hour, which never passes in a model: so only who waits has
//! the log written, and a session that is forgotten waits for ever, which shuttle calls a deadlock.
//! Properties: every wait ends, with the error of the disk if there was one; one thread is at the disk at a time;
//! who has gone has left neither an entry nor a turn; what nobody waits for is written when its delay is over.
//! Canaries: with a bug planted ([`planted`]) a model must fail.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::task::Context;
use std::time::Duration;

use halcyon_base::clock;
use halcyon_base::model::Check;
use halcyon_base::parking;
use halcyon_base::planted::Bug;
use halcyon_base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use halcyon_base::sync::thread;
use shuttle::rand::Rng as _;

use super::disk::{File, Storage};
use super::{FrameKind, Log, LogError, LogOptions, Lsn, Payload};
use crate::planted;

/// A wait for ever in a model.
const HOUR: Duration = Duration::from_secs(3600);

// ---------------------------------------------------------------------- the disk

/// Files in memory, by path; a handle keeps its file through renames.
#[derive(Clone, Default)]
struct Memory {
    files: Arc<Mutex<BTreeMap<String, Contents>>>,
    health: Arc<Health>,
}

/// Locked for no longer than a thread runs without the model choosing another.
type Contents = Arc<Mutex<Vec<u8>>>;

/// How the disk does.
#[derive(Default)]
struct Health {
    is_syncing: AtomicBool,
    /// The next write fails for want of room.
    is_full: AtomicBool,
    /// Syncs until one fails; none does if zero.
    until_failure: AtomicUsize,
}

struct MemoryFile(Contents, Arc<Health>);

impl Memory {
    fn open_as(&self, path: &str, contents: Contents) -> Box<dyn File> {
        self.files.lock().expect("no panic").insert(path.to_owned(), Arc::clone(&contents));
        Box::new(MemoryFile(contents, Arc::clone(&self.health)))
    }

    fn find(&self, path: &str) -> io::Result<Contents> {
        let files = self.files.lock().expect("no panic");
        files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Storage for Memory {
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let files = self.files.lock().expect("no panic");
        let below = files.keys().filter_map(|path| path.strip_prefix(folder)?.strip_prefix('/'));
        Ok(below.map(ToOwned::to_owned).collect())
    }
    fn make_folder(&self, _: &str) -> io::Result<()> {
        Ok(())
    }
    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        Ok(self.open_as(path, Contents::default()))
    }
    fn open(&self, path: &str) -> io::Result<Box<dyn File>> {
        Ok(self.open_as(path, self.find(path)?))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let contents = self.find(from)?;
        self.remove(from)?;
        self.open_as(to, contents);
        Ok(())
    }
    fn remove(&self, path: &str) -> io::Result<()> {
        self.files.lock().expect("no panic").remove(path);
        Ok(())
    }
    fn remove_folder(&self, _: &str) -> io::Result<()> {
        unreachable!("the log removes no folder")
    }
    fn sync_folder(&self, _: &str) -> io::Result<()> {
        Ok(())
    }
}

impl File for MemoryFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if self.1.is_full.swap(false, Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut contents = self.0.lock().expect("no panic");
        let (from, to) = (offset as usize, offset as usize + bytes.len());
        let length = contents.len().max(to);
        contents.resize(length, 0);
        contents[from..to].copy_from_slice(bytes);
        Ok(())
    }
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        bytes.copy_from_slice(&self.0.lock().expect("no panic")[offset as usize..][..bytes.len()]);
        Ok(())
    }
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.lock().expect("no panic").len() as u64)
    }
    fn sync(&self) -> io::Result<()> {
        let Health { is_syncing, until_failure, .. } = &*self.1;
        assert!(!is_syncing.swap(true, Ordering::SeqCst), "two threads sync");
        thread::yield_now();
        clock::pass(Duration::from_millis(1));
        is_syncing.store(false, Ordering::SeqCst);
        match until_failure.load(Ordering::SeqCst) {
            0 => Ok(()),
            left => {
                until_failure.store(left - 1, Ordering::SeqCst);
                if left == 1 { Err(io::Error::other("it is broken")) } else { Ok(()) }
            }
        }
    }
}

// ---------------------------------------------------------------------- sessions

/// A log on an empty disk.
fn start(delay: Duration) -> (Arc<Log>, Memory) {
    let disk = Memory::default();
    let options = LogOptions { file_bytes: 4096, delay };
    let log = Log::start(Arc::new(disk.clone()), 1, Lsn(64), options);
    (Arc::new(log.expect("the disk works")), disk)
}

fn commit(log: &Log) -> Lsn {
    log.append_commit(&Payload::new(FrameKind::Commit, b"a commit"))
}

/// Whether something happens that happens once in so many times.
fn once_in(times: u32) -> bool {
    shuttle::rand::thread_rng().gen_range(0..times) == 0
}

/// Waits as a task whose thread parks; `None`: the task has gone away, as it does at once in so many waits.
fn wait_as_task(log: &Log, lsn: Lsn, gone_once_in: Option<u32>) -> Option<Result<(), LogError>> {
    let mut wait = log.wait_as_task(lsn);
    let waker = parking::waker();
    loop {
        match wait.advance() {
            Ok(true) => return Some(Ok(())),
            Err(error) => return Some(Err(error)),
            Ok(false) => {}
        }
        if wait.poll(&mut Context::from_waker(&waker)).is_ready() {
            continue;
        }
        // A while after it has come to wait.
        if gone_once_in.is_some_and(once_in) {
            thread::yield_now();
            return None;
        }
        match wait.time_left() {
            Some(left) => thread::park_timeout(left),
            None => thread::park(),
        }
    }
}

/// Waits as a thread or as a task.
fn wait_somehow(log: &Log, lsn: Lsn) -> Result<(), LogError> {
    match once_in(3) {
        true => log.wait(lsn),
        false => wait_as_task(log, lsn, None).expect("it does not go away"),
    }
}

fn all(runs: Vec<Box<dyn FnOnce() + Send>>) {
    let threads: Vec<_> = runs.into_iter().map(thread::spawn).collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no model thread panics"));
}

/// Ends the log, for which nobody waits.
fn close(log: &Log) {
    assert!(log.writer.shared().state.lock().waiters.is_empty());
    log.close();
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    Check::new(600).step_limit(50_000).run(model);
}

fn check_canary(bug: Bug, model: impl Fn() + Send + Sync + 'static) {
    Check::new(600).step_limit(50_000).canary(bug, model);
}

// ---------------------------------------------------------------------- models

/// Three sessions commit twice, and wait as threads and as tasks.
fn sessions_commit() {
    let (log, _) = start(HOUR);
    let run = |_| {
        let log = Arc::clone(&log);
        Box::new(move || {
            for _ in 0..2 {
                let lsn = commit(&log);
                wait_somehow(&log, lsn).expect("the disk works");
                assert!(log.statistics().durable >= lsn);
            }
        }) as Box<dyn FnOnce() + Send>
    };
    all((0..3).map(run).collect());
    close(&log);
}

#[test]
fn every_wait_for_the_disk_ends() {
    check(sessions_commit);
}

#[test]
fn canary_nobody_told_to_write_next_is_caught() {
    check_canary(planted::NOBODY_WRITES_NEXT, sessions_commit);
}

#[test]
fn canary_an_entry_by_an_old_look_is_caught() {
    check_canary(planted::LATE_ENTRY, sessions_commit);
}

#[test]
fn canary_two_at_the_disk_are_caught() {
    check_canary(planted::TWO_AT_THE_DISK, sessions_commit);
}

#[test]
fn canary_a_batch_held_back_without_end_is_caught() {
    check_canary(planted::HELD_WITHOUT_END, sessions_commit);
}

/// Tasks come, wait and may go away, beside sessions that stay.
fn tasks_go_away() {
    let (log, _) = start(HOUR);
    let run = |stays: bool| {
        let log = Arc::clone(&log);
        Box::new(move || {
            for _ in 0..2 {
                let lsn = commit(&log);
                match stays {
                    true => wait_somehow(&log, lsn).expect("the disk works"),
                    false => drop(wait_as_task(&log, lsn, Some(2))),
                }
            }
        }) as Box<dyn FnOnce() + Send>
    };
    all([true, true, false, false].map(run).into());
    close(&log);
}

#[test]
fn a_task_that_goes_away_leaves_no_turn_and_no_entry() {
    check(tasks_go_away);
}

#[test]
fn canary_a_turn_that_is_kept_is_caught() {
    check_canary(planted::TURN_KEPT, tasks_go_away);
}

#[test]
fn canary_an_entry_left_behind_is_caught() {
    check_canary(planted::ENTRY_LEFT_BEHIND, tasks_go_away);
}

/// The disk fails while sessions commit: for good, or for want of room for a moment.
fn disk_fails() {
    let (log, disk) = start(HOUR);
    let for_good = once_in(2);
    match for_good {
        true => disk.health.until_failure.store(1 + usize::from(once_in(2)), Ordering::SeqCst),
        false => disk.health.is_full.store(true, Ordering::SeqCst),
    }
    let run = |_| {
        let log = Arc::clone(&log);
        Box::new(move || {
            for _ in 0..2 {
                let lsn = commit(&log);
                match wait_somehow(&log, lsn) {
                    Ok(()) => assert!(log.statistics().durable >= lsn),
                    Err(LogError::Failed { .. }) => assert!(for_good),
                    Err(LogError::Full { .. }) => assert!(!for_good),
                    Err(other) => panic!("{other}"),
                }
            }
        }) as Box<dyn FnOnce() + Send>
    };
    all((0..3).map(run).collect());
    assert_eq!(matches!(log.failure(), Some(LogError::Failed { .. })), for_good);
    close(&log);
}

#[test]
fn an_error_of_the_disk_reaches_all_who_wait() {
    check(disk_fails);
}

#[test]
fn canary_an_error_that_is_not_told_is_caught() {
    check_canary(planted::FAILURE_UNTOLD, disk_fails);
}

/// A task may go away while another session is at the disk; afterwards nobody waits for a commit.
fn nobody_waits() {
    let (log, _) = start(Duration::from_millis(200));
    let run = |stays: bool| {
        let log = Arc::clone(&log);
        Box::new(move || {
            let lsn = commit(&log);
            match stays {
                true => log.wait(lsn).expect("the disk works"),
                false => drop(wait_as_task(&log, lsn, Some(1))),
            }
        }) as Box<dyn FnOnce() + Send>
    };
    all([true, false].map(run).into());
    let lsn = commit(&log);
    log.soon();
    log.writer.shared().when_durable(lsn);
    close(&log);
}

#[test]
fn what_nobody_waits_for_is_written_when_its_delay_is_over() {
    check(nobody_waits);
}

#[test]
fn canary_a_promise_to_write_nothing_is_caught() {
    check_canary(planted::PROMISE_WITHOUT_BYTES, nobody_waits);
}
