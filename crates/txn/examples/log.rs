//! What the log costs transactions, without SQL, as one JSON object.
//!
//! ```sh
//! cargo run --release -p halcyon-txn --example log -- [DIR [SECONDS [ROUNDS [ARMS [THREADS]]]]]
//! cargo run --release -p halcyon-txn --example log -- /var/tmp 1 5 disk,sync 1,16
//! ```
//!
//! Each thread updates rows of a partition of its own, a row per transaction. Arms take turns, round
//! by round: *disk* (64 bytes appended and synced, by so many at once, each in a file of its own),
//! *off* (no log), *async* (nobody waits), *sync* (each waits). Figures are medians of all rounds, in
//! commits or syncs per second, with the range; `cpu_us`: processor time of all threads per commit.
//! `share`: commits per second, as a part of what the disk would give if each of its syncs, one at a
//! time, carried one commit of every thread. Ends with an error if what was acknowledged is not
//! there after opening the folder anew.

use halcyon_base::{PartitionId, RowId, SessionId};
use halcyon_machine::counters::thread_cpu_ns;
use halcyon_store::{ColumnDef, Partition, Schema, Type, Value, ValueRef};
use halcyon_txn::{
    CancelToken, Contents, Disk, Isolation, Log, LogOptions, Lsn, Manager, Mode, Pace,
    PartitionCell, Storage, WaitLimits, recover,
};
use serde_json::json;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

const ROWS: u32 = 1_000;
/// Length of the files of bare appends; begun anew at their ends.
const FILE_BYTES: u64 = 4 << 20;
/// About what a commit takes in the log.
const RECORD_BYTES: u64 = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Disk,
    Off,
    Async,
    Sync,
}

const MARKS: [(Mark, &str); 4] =
    [(Mark::Disk, "disk"), (Mark::Off, "off"), (Mark::Async, "async"), (Mark::Sync, "sync")];

/// Commits, or syncs, per second, and processor time per commit in microseconds.
#[derive(Default)]
struct Rates(Vec<(f64, f64)>);

impl Rates {
    fn median(&self, of: impl Fn(&(f64, f64)) -> f64) -> (f64, f64, f64) {
        let mut sorted: Vec<f64> = self.0.iter().map(of).collect();
        sorted.sort_by(f64::total_cmp);
        (sorted[sorted.len() / 2], sorted[0], sorted[sorted.len() - 1])
    }
}

struct Arm {
    mark: Mark,
    name: &'static str,
    threads: u32,
    bank: Option<Bank>,
    rates: Rates,
    done: u64,
}

struct Bank {
    cells: Vec<Arc<PartitionCell>>,
    manager: Manager,
    log: Option<Arc<Log>>,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let parent = arguments.next().map_or_else(std::env::temp_dir, Into::into);
    let seconds: f64 = arguments.next().map_or(1.0, |text| text.parse().expect("seconds"));
    let rounds: usize = arguments.next().map_or(3, |text| text.parse().expect("rounds"));
    let folder = parent.join(format!("halcyon-log-{}", std::process::id()));
    let wanted = arguments.next().unwrap_or("disk,off,async,sync".into());
    let threads = arguments.next().unwrap_or("1,2,4,16".into());
    let mut arms = Vec::new();
    for threads in threads.split(',').map(|text| text.parse().expect("threads")) {
        for (mark, name) in MARKS {
            if !wanted.split(',').any(|wanted| wanted == name) {
                continue;
            }
            let folder = folder.join(format!("{name}-{threads}"));
            let bank = match mark {
                Mark::Disk => None,
                Mark::Off => Some(Bank::open(None, threads)),
                Mark::Async | Mark::Sync => Some(Bank::open(Some(&folder), threads)),
            };
            arms.push(Arm { mark, name, threads, bank, rates: Rates::default(), done: 0 });
        }
    }
    for round in 0..rounds {
        let turns = arms.len();
        for place in 0..turns {
            let arm = &mut arms[(place + round) % turns];
            arm.round(&folder, Duration::from_secs_f64(seconds));
        }
    }
    let disk = arms.iter().find(|arm| arm.mark == Mark::Disk && arm.threads == 1);
    let disk = disk.map(|arm| arm.rates.median(|rate| rate.0).0);
    let report: Vec<_> = arms
        .into_iter()
        .map(|arm| {
            let (median, least, most) = arm.rates.median(|rate| rate.0);
            let per_sync = arm.bank.as_ref().and_then(|bank| bank.log.as_ref()).map(|log| {
                let statistics = log.statistics();
                statistics.commits as f64 / statistics.batches as f64
            });
            let share = disk.map(|disk| median / disk / f64::from(arm.threads));
            let report = json!({
                "arm": arm.name, "threads": arm.threads, "per_s": median.round(),
                "least": least.round(), "most": most.round(),
                "cpu_us": arm.rates.median(|rate| rate.1).0,
                "commits_per_sync": per_sync.filter(|_| arm.mark == Mark::Sync),
                "share": share.filter(|_| arm.mark == Mark::Sync),
            });
            arm.check(&folder);
            report
        })
        .collect();
    fs::remove_dir_all(&folder).expect("the folder is this run's own");
    println!("{:#}", json!({ "seconds": seconds, "rounds": rounds, "arms": report }));
}

fn schema() -> Arc<Schema> {
    let def = ColumnDef { ty: Type::Int64, nullable: false };
    Schema::new(vec![def, def])
}

impl Bank {
    fn open(folder: Option<&Path>, threads: u32) -> Bank {
        let mut root = Partition::new(schema());
        for row in 0..ROWS {
            root.insert_unchecked(&[ValueRef::Int64(row.into()), ValueRef::Int64(0)]);
        }
        let partitions: Vec<_> =
            (1..=threads).map(|id| (PartitionId(id), triomphe::Arc::new(root.clone()))).collect();
        let cell = |id| Arc::new(PartitionCell::new(PartitionId(id), root.clone()));
        let cells = (1..=threads).map(cell).collect();
        let log = folder.map(|folder| {
            fs::create_dir_all(folder).expect("a folder");
            let storage: Arc<dyn Storage> = Arc::new(Disk::new(folder));
            let contents = Contents { id: 1, lsn: Lsn(64), catalog: Vec::new(), partitions };
            contents.write(&*storage, &Pace::default()).expect("the disk is sound");
            let log = Log::start(storage, 1, Lsn(64), LogOptions::default());
            Arc::new(log.expect("the disk is sound"))
        });
        if let Some(log) = &log {
            (0..2).for_each(|_| log.prepare().expect("the disk has room"));
        }
        Bank { cells, manager: Manager::with_log(log.clone()), log }
    }

    fn commit(&self, cell: &Arc<PartitionCell>, session: u32, count: u64, mark: Mark) {
        let cancel = CancelToken::new();
        let limits = WaitLimits { timeout: None, cancel: &cancel };
        let row = RowId(count as u32 % ROWS);
        let mut transaction = self.manager.begin(Isolation::Serializable, SessionId(session));
        transaction.begin_statement();
        let lock = transaction.lock(cell, Mode::Exclusive, &limits).expect("its own partition");
        let ValueRef::Int64(sum) = transaction.read(lock).row(row).expect("a row").value(1) else {
            unreachable!("a number")
        };
        transaction.update_unchecked(lock, row, &[1], &[ValueRef::Int64(sum + 1)]);
        transaction.end_statement();
        let end = transaction.try_commit(None).expect("the disk is sound");
        match (&self.log, mark) {
            (Some(log), Mark::Sync) => log.wait(end).expect("the disk is sound"),
            (Some(log), _) => log.soon(),
            (None, _) => {}
        }
    }
}

impl Arm {
    fn round(&mut self, folder: &Path, time: Duration) {
        let (barrier, stop) = (Barrier::new(self.threads as usize + 1), AtomicBool::new(false));
        let (mark, bank, done) = (self.mark, self.bank.as_ref(), self.done);
        let (counts, took) = thread::scope(|scope| {
            let (barrier, stop) = (&barrier, &stop);
            let running: Vec<_> = (0..self.threads)
                .map(|number| {
                    scope.spawn(move || match bank {
                        Some(bank) => {
                            let cell = &bank.cells[number as usize];
                            let commit = |count| bank.commit(cell, number, done + count, mark);
                            counted(barrier, stop, commit)
                        }
                        None => {
                            let append = appender(folder, number);
                            counted(barrier, stop, append)
                        }
                    })
                })
                .collect();
            barrier.wait();
            let began = Instant::now();
            thread::sleep(time);
            stop.store(true, Ordering::Relaxed);
            let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join().expect("no panic");
            let counts: Vec<(u64, f64)> = running.into_iter().map(join).collect();
            (counts, began.elapsed())
        });
        let (sum, cpu) = counts.iter().fold((0, 0.0), |(sum, cpu), (n, us)| (sum + n, cpu + us));
        self.done += sum;
        self.rates.0.push((sum as f64 / took.as_secs_f64(), cpu / sum as f64));
    }

    /// Panics unless all that was acknowledged is there.
    fn check(self, folder: &Path) {
        let Some(Bank { log: Some(log), .. }) = &self.bank else { return };
        log.close();
        let disk = Disk::new(&folder.join(format!("{}-{}", self.name, self.threads)));
        let found = recover(&disk, 2, &|_| ()).expect("it is sound").expect("it is there");
        let number = |value: ValueRef<'_>| match value.to_owned() {
            Value::Int64(number) => number,
            other => unreachable!("{other:?}"),
        };
        let rows = found.partitions.values().flat_map(|root| root.rows());
        let sum: i64 = rows.map(|row| number(row.value(1))).sum();
        assert_eq!(sum as u64, self.done, "{} with {} threads", self.name, self.threads);
    }
}

/// Calls until it is told to stop: how often, and the thread's processor time in microseconds.
fn counted(barrier: &Barrier, stop: &AtomicBool, mut call: impl FnMut(u64)) -> (u64, f64) {
    barrier.wait();
    let (mut count, before) = (0, thread_cpu_us());
    while !stop.load(Ordering::Relaxed) {
        call(count);
        count += 1;
    }
    (count, thread_cpu_us() - before)
}

fn thread_cpu_us() -> f64 {
    thread_cpu_ns().map_or(0.0, |ns| ns as f64 / 1e3)
}

fn appender(folder: &Path, number: u32) -> impl FnMut(u64) + use<> {
    let path = folder.join(format!("bare-{number}"));
    let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(path);
    let file = file.expect("a file");
    if file.metadata().expect("a file").len() < FILE_BYTES {
        file.write_all_at(&vec![0; FILE_BYTES as usize], 0).expect("room");
        file.sync_all().expect("the disk is sound");
    }
    let record = [7; RECORD_BYTES as usize];
    move |count| {
        file.write_all_at(&record, count * RECORD_BYTES % FILE_BYTES).expect("the disk is sound");
        file.sync_data().expect("the disk is sound");
    }
}
