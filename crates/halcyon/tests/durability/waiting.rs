//! Who waits for the disk is seen to.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use halcyon::DatabaseOptions;
use halcyon::testing::{self, File, Storage};

use crate::disk::{Fault, SimDisk};
use crate::world::{one, run};

/// A disk whose syncs take as long as it is held.
#[derive(Clone)]
struct Slow {
    disk: SimDisk,
    held: Arc<AtomicBool>,
}

struct SlowFile {
    file: Box<dyn File>,
    held: Arc<AtomicBool>,
}

impl Slow {
    fn file(&self, file: io::Result<Box<dyn File>>) -> io::Result<Box<dyn File>> {
        Ok(Box::new(SlowFile { file: file?, held: self.held.clone() }))
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
        self.file.sync()
    }
}

#[test]
fn a_session_that_waits_for_the_disk_says_so() {
    let held = Arc::new(AtomicBool::new(false));
    let disk = Slow { disk: SimDisk::new(Fault::None, true), held: held.clone() };
    let options = DatabaseOptions::default().with("checkpoint_timeout", "1h").expect("a time");
    let database = testing::open_on(Arc::new(disk), 1 << 20, options).expect("a sound disk");
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
