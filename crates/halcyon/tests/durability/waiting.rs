//! Who waits for the disk is seen to.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use halcyon::testing::{self, File, Storage};
use halcyon::{Database, DatabaseOptions, Outcome, Progress, Result, Session, SqlState};

use crate::disk::{Fault, SimDisk};
use crate::world::{one, run};

/// A disk whose syncs take as long as it is held, and fail if it is broken then.
#[derive(Clone)]
struct Slow {
    disk: SimDisk,
    held: Arc<AtomicBool>,
    broken: Arc<AtomicBool>,
}

struct SlowFile {
    file: Box<dyn File>,
    held: Arc<AtomicBool>,
    broken: Arc<AtomicBool>,
}

impl Slow {
    fn new() -> Slow {
        let disk = SimDisk::new(Fault::None, true);
        Slow { disk, held: Arc::default(), broken: Arc::default() }
    }

    fn file(&self, file: io::Result<Box<dyn File>>) -> io::Result<Box<dyn File>> {
        let (held, broken) = (self.held.clone(), self.broken.clone());
        Ok(Box::new(SlowFile { file: file?, held, broken }))
    }

    /// A database on the disk, which writes no checkpoint by itself.
    fn database(&self) -> Database {
        let options = DatabaseOptions::default().with("checkpoint_timeout", "1h").expect("a time");
        testing::open_on(Arc::new(self.clone()), 1 << 20, options).expect("a sound disk")
    }
}

impl Storage for Slow {
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.disk.list(folder)
    }

    fn make_folder(&self, folder: &str) -> io::Result<()> {
        self.disk.make_folder(folder)
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        self.file(self.disk.create(path))
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn File>> {
        self.file(self.disk.open(path))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn remove_folder(&self, folder: &str) -> io::Result<()> {
        self.disk.remove_folder(folder)
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        self.disk.sync_folder(folder)
    }
}

impl File for SlowFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, bytes)
    }

    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }

    fn sync(&self) -> io::Result<()> {
        while self.held.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        match self.broken.load(Ordering::Acquire) {
            true => Err(io::Error::other("broken")),
            false => self.file.sync(),
        }
    }
}

#[test]
fn a_session_that_waits_for_the_disk_says_so() {
    let disk = Slow::new();
    let (database, held) = (disk.database(), disk.held.clone());
    let mut writer = database.session();
    run(&mut writer, &["SET application_name = 'writer'", "CREATE TABLE t (id INT)"]);
    let mut watcher = database.session();
    run(&mut watcher, &["SET synchronous_commit = off"]);
    let state = "SELECT state FROM halcyon.sessions WHERE application = 'writer'";
    let event = "SELECT wait_event_type || ' ' || wait_event || ' ' || state FROM pg_stat_activity
                 WHERE application_name = 'writer'";
    assert_eq!(one(&mut watcher, state), "idle");
    held.store(true, Ordering::Release);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| run(&mut writer, &["INSERT INTO t VALUES (1)"]));
        while one(&mut watcher, state) != "waiting for the disk" {
            assert!(!writing.is_finished(), "nobody waits for the disk");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(one(&mut watcher, event), "IO WALSync active");
        held.store(false, Ordering::Release);
        writing.join().expect("the disk is sound");
    });
    assert_eq!(one(&mut watcher, state), "idle");
    assert_eq!(one(&mut watcher, "SELECT count(*) FROM t"), "1");
}

/// A block that changes a table of its own and notifies others.
fn notifying(database: &Database, table: &str, payload: &str) -> Session {
    let mut session = database.session();
    run(&mut session, &["BEGIN", &format!("INSERT INTO {table} VALUES (1)")]);
    run(&mut session, &[&format!("NOTIFY c, '{payload}'")]);
    session
}

/// Commits, and gives the thread back if another is at the disk.
fn commit(session: &mut Session) -> Result<Progress> {
    let statement = session.prepare("COMMIT").expect("it is one");
    session.run_or_queue(&statement, &[])
}

fn heard(listener: &mut Session) -> Vec<String> {
    listener.take_notifications().into_iter().map(|told| told.payload).collect()
}

/// A database with a session that listens, and a disk that is held while a thread commits: `then` is called meanwhile,
/// and may let the disk go on.
fn while_the_disk_is_held(
    broken: bool,
    then: impl FnOnce(&Slow, &Database, &mut Session),
) -> (Database, Session) {
    let disk = Slow::new();
    let database = disk.database();
    let mut listener = database.session();
    run(&mut listener, &["CREATE TABLE t (id INT)", "CREATE TABLE u (id INT)"]);
    run(&mut listener, &["CREATE TABLE v (id INT)", "LISTEN c"]);
    assert!(heard(&mut listener).is_empty());
    disk.held.store(true, Ordering::Release);
    let mut first = notifying(&database, "t", "first");
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| first.execute("COMMIT", &[]));
        let syncing = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'WALSync'";
        let mut watcher = database.session();
        run(&mut watcher, &["SET synchronous_commit = off"]);
        while one(&mut watcher, syncing) == "0" {
            assert!(!writing.is_finished(), "nobody waits for the disk");
            std::thread::sleep(Duration::from_millis(1));
        }
        then(&disk, &database, &mut listener);
        assert_eq!(writing.join().expect("no panic").is_err(), broken);
    });
    (database, listener)
}

#[test]
fn notifications_wait_for_the_disk_in_the_order_of_commits() {
    let (_database, mut listener) = while_the_disk_is_held(false, |disk, database, listener| {
        let mut second = notifying(database, "u", "second");
        assert!(matches!(commit(&mut second), Ok(Progress::Syncing)), "another is at the disk");
        let mut third = notifying(database, "v", "third");
        assert!(matches!(commit(&mut third), Ok(Progress::Syncing)), "another is at the disk");
        // A notification without changes has nothing to wait for but its place.
        run(&mut database.session(), &["NOTIFY c, 'fourth'"]);
        assert!(heard(listener).is_empty(), "nothing is durable");
        // The client of the second one goes away; its commit stands.
        drop(second);
        disk.held.store(false, Ordering::Release);
        loop {
            match commit(&mut third).expect("the disk is sound") {
                Progress::Done(outcome) => break assert!(matches!(outcome, Outcome::Done(_))),
                Progress::Syncing => std::thread::sleep(Duration::from_millis(1)),
                Progress::Queued => panic!("it waits for no lock"),
            }
        }
    });
    assert_eq!(heard(&mut listener), ["first", "second", "third", "fourth"]);
}

#[test]
fn a_client_that_goes_away_is_heard_once_its_commit_is_durable() {
    let (_database, mut listener) = while_the_disk_is_held(false, |disk, database, _| {
        let mut second = notifying(database, "u", "second");
        assert!(matches!(commit(&mut second), Ok(Progress::Syncing)), "another is at the disk");
        drop(second);
        disk.held.store(false, Ordering::Release);
    });
    let mut told = Vec::new();
    while told.len() < 2 {
        told.extend(heard(&mut listener));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(told, ["first", "second"]);
}

#[test]
fn nobody_hears_of_a_commit_that_the_disk_has_refused() {
    let (database, mut listener) = while_the_disk_is_held(true, |disk, database, listener| {
        let mut second = notifying(database, "u", "second");
        assert!(matches!(commit(&mut second), Ok(Progress::Syncing)), "another is at the disk");
        let mut third = notifying(database, "v", "third");
        assert!(matches!(commit(&mut third), Ok(Progress::Syncing)), "another is at the disk");
        drop(third);
        disk.broken.store(true, Ordering::Release);
        disk.held.store(false, Ordering::Release);
        loop {
            match commit(&mut second) {
                Err(error) => break assert_eq!(error.state(), SqlState::IO_ERROR),
                Ok(Progress::Syncing) => std::thread::sleep(Duration::from_millis(1)),
                Ok(_) => panic!("the disk is broken"),
            }
        }
        assert!(heard(listener).is_empty());
    });
    // What has nothing to do with the disk is heard on.
    run(&mut database.session(), &["NOTIFY c, 'alive'"]);
    assert_eq!(heard(&mut listener), ["alive"]);
}
