//! The wait of a task for the disk, without a thread.
//!
//! Words: it is a waiter's *turn* when it is the one to write the next batch ([`super::writer`]). Threads wait in
//! [`Log::wait`](super::Log::wait), and their turn comes by itself. A task asks ([`DurableWait::advance`]), which
//! writes the batch if it is the task's turn, and else is woken when it is, or when another has written what the task
//! waits for. So one thread is at the disk, and those that wait behind it have none.
//! Invariants, checked by the models in `log/models.rs` (`every_wait_for_the_disk_ends`,
//! `a_task_that_goes_away_leaves_no_turn_and_no_entry`) and by the tests below with threads of the system:
//! 1. Among those who wait while nobody is at the disk and no batch is held back, one has been told to write.
//! 2. A task that was told that it is its turn and does not take it has the writer thread write.
//! 3. A task looks again by itself only to end the wait of the batch for which it came first.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use halcyon_base::clock::{self, Moment};
use halcyon_base::duty;
use halcyon_base::sync::atomic::{AtomicBool, Ordering};

use super::writer::{Shared, Sleeper, Waiter};
use super::{LogError, Lsn};
use crate::planted;

/// The wait of a task until the log is durable up to an LSN.
pub struct DurableWait {
    shared: Arc<Shared>,
    lsn: Lsn,
    /// Of the task's entry among those who wait; set by who has taken it out to wake the task.
    told: Arc<AtomicBool>,
    /// Whether such an entry was made, and the task has not taken its turn since.
    is_entered: bool,
    /// When the task looks again by itself, because a batch is held back and no other waiter was there to end that.
    held_until: Option<Moment>,
    /// Whether the log is durable, or failed.
    is_over: bool,
}

impl DurableWait {
    pub(super) fn new(shared: Arc<Shared>, lsn: Lsn) -> Self {
        let told = Arc::new(AtomicBool::new(false));
        DurableWait { shared, lsn, told, is_entered: false, held_until: None, is_over: false }
    }

    /// Whether the log is durable up to the LSN. If it is the task's turn, the thread writes and syncs a batch first,
    /// after having been relieved ([`halcyon_base::duty`]).
    ///
    /// Errors: as for [`Log::wait`](super::Log::wait).
    pub fn advance(&mut self) -> Result<bool, LogError> {
        loop {
            // Pairs with the store in `Shared::flush`.
            if self.shared.is_durable(self.lsn) {
                self.is_over = true;
                return Ok(true);
            }
            let mut state = self.shared.state.lock();
            if let Some(failure) = &state.failure {
                let failure = failure.clone();
                drop(state);
                self.is_over = true;
                return Err(failure);
            }
            let entered = state.position(&self.told);
            let others = state.waiters.len() - usize::from(entered.is_some());
            if state.durable >= self.lsn {
                continue;
            }
            if state.busy || !state.gather.is_ripe(others + 1) {
                return Ok(false);
            }
            if let Some(at) = entered {
                state.waiters.swap_remove(at);
            }
            self.is_entered = false;
            drop(state);
            duty::relieved(|| {
                let state = self.shared.state.lock();
                let is_free = !state.busy || planted::is(planted::TWO_AT_THE_DISK);
                if is_free && state.failure.is_none() && state.durable < self.lsn {
                    self.shared.flush(state, true);
                }
            });
        }
    }

    /// Ready once [`DurableWait::advance`] has something to do. The task looks again when [`DurableWait::time_left`] is
    /// over.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.shared.state.lock();
        let entered = state.position(&self.told);
        let others = state.waiters.len() - usize::from(entered.is_some());
        let is_turn = !state.busy && state.gather.is_ripe(others + 1);
        if state.durable >= self.lsn || state.failure.is_some() || is_turn {
            return Poll::Ready(());
        }
        if planted::is(planted::LATE_ENTRY) && entered.is_none() {
            drop(state);
            state = self.shared.state.lock();
        }
        let sleeper = Sleeper::Task(context.waker().clone());
        match entered {
            Some(at) => {
                state.waiters[at].sleeper = sleeper;
                // That batch has begun. Whether and by whom the next is held back was settled at its end.
                self.held_until =
                    self.held_until.filter(|_| state.gather.until() == self.held_until);
            }
            None => {
                self.held_until = state.gather.until().filter(|_| state.waiters.is_empty());
                self.told.store(false, Ordering::Relaxed);
                let told = Arc::clone(&self.told);
                state.waiters.push(Waiter { lsn: self.lsn, told, sleeper });
                self.is_entered = true;
            }
        }
        Poll::Pending
    }

    /// After what time the task looks again though nobody has woken it; `None`: it need not.
    pub fn time_left(&self) -> Option<Duration> {
        let until = self.held_until.filter(|_| self.is_entered)?;
        (!planted::is(planted::HELD_WITHOUT_END)).then(|| until.since(clock::now()))
    }
}

impl Drop for DurableWait {
    /// A batch that was the task's to write, or to end the wait of, becomes the writer thread's.
    fn drop(&mut self) {
        if self.is_over || !self.is_entered {
            return;
        }
        let mut state = self.shared.state.lock();
        let entered = state.position(&self.told);
        if let Some(at) = entered.filter(|_| !planted::is(planted::ENTRY_LEFT_BEHIND)) {
            state.waiters.swap_remove(at);
        }
        if !planted::is(planted::TURN_KEPT) {
            self.shared.write_now(&mut state);
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::collections::VecDeque;
    use std::io;
    use std::path::Path;
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Condvar, Mutex};
    use std::task::{Wake, Waker};
    use std::thread::{self, Thread};

    use halcyon_base::rng::Rng;

    use super::super::disk::{Disk, File, Storage};
    use super::super::{FrameKind, Log, LogOptions, Payload};
    use super::*;

    /// A log in a folder of its own, which goes when the test ends.
    struct OwnLog {
        log: Arc<Log>,
        folder: std::path::PathBuf,
    }

    impl OwnLog {
        /// Only who waits has the log written.
        fn new(name: &str) -> Self {
            Self::on(name, Disk::new)
        }

        fn on<S: Storage + 'static>(name: &str, disk: impl FnOnce(&Path) -> S) -> Self {
            let folder =
                std::env::temp_dir().join(format!("halcyon-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&folder).expect("a folder");
            let options = LogOptions { delay: Duration::from_secs(3600), ..LogOptions::default() };
            let log = Log::start(Arc::new(disk(&folder)), 1, Lsn(64), options);
            OwnLog { log: Arc::new(log.expect("a log")), folder }
        }
    }

    /// What is synced waits at a gate.
    #[derive(Clone)]
    struct Gate(Arc<(Mutex<bool>, Condvar)>);

    impl Gate {
        fn set(&self, open: bool) {
            *self.0.0.lock().expect("no panic") = open;
            self.0.1.notify_all();
        }

        fn pass(&self) {
            let open = self.0.0.lock().expect("no panic");
            drop(self.0.1.wait_while(open, |open| !*open).expect("no panic"));
        }
    }

    /// A disk behind a gate.
    struct Gated(Disk, Gate);

    struct GatedFile(Box<dyn File>, Gate);

    impl Storage for Gated {
        fn list(&self, folder: &str) -> io::Result<Vec<String>> {
            self.0.list(folder)
        }
        fn make_folder(&self, folder: &str) -> io::Result<()> {
            self.0.make_folder(folder)
        }
        fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
            Ok(Box::new(GatedFile(self.0.create(path)?, self.1.clone())))
        }
        fn open(&self, path: &str) -> io::Result<Box<dyn File>> {
            Ok(Box::new(GatedFile(self.0.open(path)?, self.1.clone())))
        }
        fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            self.0.rename(from, to)
        }
        fn remove(&self, path: &str) -> io::Result<()> {
            self.0.remove(path)
        }
        fn remove_folder(&self, folder: &str) -> io::Result<()> {
            self.0.remove_folder(folder)
        }
        fn sync_folder(&self, folder: &str) -> io::Result<()> {
            self.0.sync_folder(folder)
        }
    }

    impl File for GatedFile {
        fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
            self.0.write_at(offset, bytes)
        }
        fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
            self.0.read_at(offset, bytes)
        }
        fn bytes(&self) -> io::Result<u64> {
            self.0.bytes()
        }
        fn sync(&self) -> io::Result<()> {
            self.1.pass();
            self.0.sync()
        }
    }

    impl Drop for OwnLog {
        fn drop(&mut self) {
            self.log.close();
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }

    fn commit(log: &Log) -> Lsn {
        log.append_commit(&Payload::new(FrameKind::Commit, b"a commit"))
    }

    /// Notes that a task is to be asked, and wakes the thread that asks all of them.
    struct Woken {
        is_ready: AtomicBool,
        thread: Thread,
    }

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.is_ready.store(true, Ordering::SeqCst);
            self.thread.unpark();
        }
    }

    struct Task {
        wait: DurableWait,
        lsn: Lsn,
        woken: Arc<Woken>,
    }

    impl Task {
        fn new(log: &Log) -> Self {
            let woken = Woken { is_ready: AtomicBool::new(true), thread: thread::current() };
            let lsn = commit(log);
            Task { wait: log.wait_as_task(lsn), lsn, woken: Arc::new(woken) }
        }

        /// Whether the commit is durable. Asks only if somebody has woken the task, or its time is over.
        fn goes_on(&mut self, log: &Log) -> bool {
            let late = self.wait.time_left().is_some_and(|left| left.is_zero());
            if !self.woken.is_ready.swap(false, Ordering::SeqCst) && !late {
                return false;
            }
            let waker = Waker::from(Arc::clone(&self.woken));
            loop {
                if self.wait.advance().expect("the disk works") {
                    assert!(log.statistics().durable >= self.lsn);
                    return true;
                }
                if self.wait.poll(&mut Context::from_waker(&waker)).is_pending() {
                    return false;
                }
            }
        }
    }

    /// Runs `work` and fails if it takes a minute: somebody waits whom nobody wakes.
    fn in_time(work: impl FnOnce() + Send + 'static) {
        let (sender, done) = std::sync::mpsc::channel();
        thread::spawn(move || {
            work();
            let _ = sender.send(());
        });
        done.recv_timeout(Duration::from_secs(60)).expect("the work is done");
    }

    /// Four threads, and a thread with sixteen tasks of which so many of ten go away whenever they wait.
    fn together(name: &'static str, goes_away: u32) {
        in_time(move || {
            const COMMITS: usize = 300;
            let own = OwnLog::new(name);
            let log = &own.log;
            let left = AtomicUsize::new(4);
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for _ in 0..COMMITS {
                            log.wait(commit(log)).expect("the disk works");
                        }
                        left.fetch_sub(1, Ordering::SeqCst);
                    });
                }
                scope.spawn(|| {
                    let mut rng = Rng::new(7);
                    let mut tasks: VecDeque<Task> = (0..16).map(|_| Task::new(log)).collect();
                    let mut durable = 0;
                    // Others may wait for the tasks' turns, so there are tasks for as long as threads.
                    while durable < COMMITS || left.load(Ordering::SeqCst) > 0 {
                        for _ in 0..tasks.len() {
                            let mut task = tasks.pop_front().expect("sixteen");
                            let done = task.goes_on(log);
                            durable += usize::from(done);
                            let gone = !done && rng.chance(goes_away, 10);
                            tasks.push_back(if done || gone { Task::new(log) } else { task });
                        }
                        let waits = tasks.iter().filter_map(|task| task.wait.time_left()).min();
                        thread::park_timeout(waits.unwrap_or(Duration::from_millis(5)));
                    }
                    drop(tasks);
                });
            });
            let before = log.statistics();
            assert!(before.commits > 1_500 && before.batches < before.commits, "{before:?}");
        });
    }

    #[test]
    fn tasks_and_threads_become_durable_together() {
        together("together", 0);
    }

    #[test]
    fn tasks_go_away_while_they_wait() {
        together("going", 3);
    }

    #[test]
    fn a_task_that_goes_away_hands_its_turn_on() {
        in_time(|| {
            let gate = Gate(Arc::default());
            gate.set(true);
            let own = OwnLog::on("turn", |folder| Gated(Disk::new(folder), gate.clone()));
            let log = &own.log;
            let until = |what: &dyn Fn(&super::super::writer::WriterState) -> bool| {
                while !what(&log.writer.shared().state.lock()) {
                    thread::sleep(Duration::from_millis(1));
                }
            };
            log.wait(commit(log)).expect("the disk works");
            gate.set(false);
            // The writer thread is at the disk, for a commit that nobody waits for.
            commit(log);
            log.writer.shared().write_now(&mut log.writer.shared().state.lock());
            until(&|state| state.busy);
            let mut task = Task::new(log);
            assert!(!task.goes_on(log), "it comes first");
            thread::scope(|scope| {
                let thread = scope.spawn(|| log.wait(commit(log)));
                until(&|state| state.waiters.len() == 2);
                gate.set(true);
                until(&|state| state.waiters.len() < 2);
                // It may be the task's turn now, and the thread waits for that.
                drop(task);
                thread.join().expect("no panic").expect("the disk works");
            });
        });
    }

    #[test]
    fn a_task_does_not_look_by_itself_while_another_is_at_the_disk() {
        in_time(|| {
            let gate = Gate(Arc::default());
            gate.set(true);
            let own = OwnLog::on("looks", |folder| Gated(Disk::new(folder), gate.clone()));
            let log = &own.log;
            let shared = log.writer.shared();
            // As after a batch of two sessions that are expected back.
            shared.state.lock().gather.end(2, 0, Duration::from_millis(10), clock::now());
            let mut task = Task::new(log);
            assert!(!task.goes_on(log) && task.wait.time_left().is_some(), "it came first");
            gate.set(false);
            thread::scope(|scope| {
                let writes = scope.spawn(|| log.wait(commit(log)));
                while !shared.state.lock().busy {
                    thread::sleep(Duration::from_millis(1));
                }
                while task.wait.time_left().is_some_and(|left| !left.is_zero()) {
                    thread::sleep(Duration::from_millis(1));
                }
                assert!(!task.goes_on(log));
                assert_eq!(
                    task.wait.time_left(),
                    None,
                    "the batch that it waited to end has begun"
                );
                gate.set(true);
                writes.join().expect("no panic").expect("the disk works");
            });
            assert!(task.goes_on(log), "the batch had its commit too");
        });
    }

    #[test]
    fn a_task_alone_writes_by_itself() {
        in_time(|| {
            let own = OwnLog::new("alone");
            for batches in 1..=3 {
                let lsn = commit(&own.log);
                let mut wait = own.log.wait_as_task(lsn);
                assert!(wait.advance().expect("the disk works"), "nobody else is there");
                assert_eq!(own.log.statistics().batches, batches);
            }
        });
    }
}
