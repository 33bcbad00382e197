//! A database that outlives its process: a folder with checkpoints and the log behind them.
//!
//! Invariants:
//! 1. A process that has the folder open has locked the folder itself, so that no other process writes
//!    there, whatever becomes of the files; checked by `nobody_else_opens_it_meanwhile`.
//! 2. A commit that changes the catalog has the change in its record, with the partitions that come
//!    and go. Recovery therefore finds a partition for every id that the catalog names, and no
//!    other; checked by `tables_and_all_about_them_survive`.
//! 3. No client is told of anything, not even of rows that were read, before the log that contains
//!    it is durable, unless the client's session has switched `synchronous_commit` off; checked by
//!    `views_are_what_they_are_of_after_every_crash`, which records what it was told.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use halcyon_base::ids::{PartitionId, TableId};
use halcyon_catalog::stored;
use halcyon_catalog::{Catalog, Table, TableKind};
pub(crate) use halcyon_copy::folder::{io_error, make_folder};
use halcyon_derived::revive_indexes;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_store::Partition;
use halcyon_txn::{
    CatalogChange, Contents, Damage, Disk, Founding, Log, LogError, LogOptions, Lsn, Pace,
    PartitionCell, Progress, Recovered, Repaired, Storage, recover, repair as cut_log,
};
use parking_lot::Mutex;

use crate::datafusion::new_datafusion;

/// Name of the lock file, which the process that has the database open keeps locked beside the
/// folder: earlier versions look there. Its presence marks a folder in which a database was made.
pub(crate) const LOCK: &str = "LOCK";
/// How long to wait for another process that has the database open.
const CLOSING: Duration = Duration::from_secs(1);
/// Begin of the log of a new database. It is not 0, because LSN 0 means none.
const FIRST: Lsn = Lsn(64);

/// Progress of opening a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Reading the checkpoint: bytes read, and bytes in all.
    Checkpoint(u64, u64),
    /// Replaying the log: bytes replayed, and in all, as far as is known before the log's end is found.
    Log(u64, u64),
    /// Building indexes: partitions done, and partitions in all.
    Indexes(u64, u64),
}

/// What was found when a database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Bytes of the checkpoint.
    pub checkpoint_bytes: u64,
    /// Bytes of the log behind it.
    pub log_bytes: u64,
    /// Commits replayed.
    pub commits: u64,
    /// Whether the log ended in an unfinished record, which was never acknowledged.
    pub torn: bool,
    /// Time that reading the checkpoint took.
    pub loading: Duration,
    /// Time that replaying the log took.
    pub replaying: Duration,
    /// Time that building indexes took.
    pub indexing: Duration,
}

/// The durable part of a database that is kept on disk.
pub(crate) struct Durable {
    pub log: Arc<Log>,
    pub storage: Arc<dyn Storage>,
    pub id: u128,
    pub opened: Opened,
    /// Held while a checkpoint is written.
    pub writing: Mutex<()>,
    /// The last checkpoint.
    pub last: Mutex<Checkpointed>,
    /// Makes checkpoints in the background stop early.
    pub stop: Arc<AtomicBool>,
    /// The folder, if it is one of the file system.
    pub folder: Option<PathBuf>,
    /// The folder and the lock file, locked until this is dropped; none on a simulated disk.
    _lock: Vec<fs::File>,
}

/// The last checkpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checkpointed {
    pub lsn: Lsn,
    pub at: Instant,
    /// Time of the checkpoint in microseconds since 1970; `None` if an earlier process wrote it.
    pub wall_us: Option<i64>,
}

impl Drop for Durable {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.log.close();
    }
}

/// A recovered database, ready for use.
pub(crate) struct Found {
    pub catalog: Catalog,
    pub durable: Durable,
}

/// Opens the database in a folder, or makes one there.
pub(crate) fn open(
    folder: &Path,
    log: LogOptions,
    latches: bool,
    progress: &(dyn Fn(Opening) + Sync),
) -> Result<Found> {
    make_folder(folder)?;
    let mut lock = lock_folder(folder)?;
    let mut found = open_on(Arc::new(Disk::new(folder)), log, latches, progress)?;
    let path = folder.join(LOCK);
    if !path.exists() {
        let mut options = fs::OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = file.open(&path).and_then(|file| file.lock().map(|()| file));
        lock.push(file.map_err(|error| io_error(&path.display().to_string(), &error))?);
    }
    found.durable.folder = Some(fs::canonicalize(folder).unwrap_or(folder.to_owned()));
    found.durable._lock = lock;
    Ok(found)
}

/// Opens a database on any storage, as [`open`] does in a folder.
pub(crate) fn open_on(
    storage: Arc<dyn Storage>,
    options: LogOptions,
    latches: bool,
    progress: &(dyn Fn(Opening) + Sync),
) -> Result<Found> {
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let Some(recovered) = read(&*storage, workers, progress)? else {
        let catalog = Catalog::initial();
        let id = random_id();
        let contents =
            Contents { id, lsn: FIRST, catalog: stored::encode(&catalog), partitions: vec![] };
        let written = contents.found(&*storage, Founding::New, &Pace::default());
        written.map_err(|error| {
            SqlError::new(SqlState::IO_ERROR, format!("the database cannot be made: {error}"))
        })?;
        // A new database is read back like any other, so that its sequences and ids are set up for
        // a log.
        return open_on(storage, options, latches, progress);
    };
    let (id, end, checkpoint) = (recovered.id, recovered.log.end, recovered.checkpoint);
    let opened = opened(&recovered);
    let log = Log::start(storage.clone(), id, end, options).map_err(log_error)?;
    let log = Arc::new(log);
    let began = Instant::now();
    let catalog = restore(recovered, Some(log.clone()), latches, workers, progress)?;
    let opened = Opened { indexing: began.elapsed(), ..opened };
    tracing::info!(?opened, "database opened");
    let checkpoint = Checkpointed { lsn: checkpoint, at: Instant::now(), wall_us: None };
    let durable = Durable {
        log,
        storage,
        id,
        opened,
        writing: Mutex::new(()),
        last: Mutex::new(checkpoint),
        stop: Arc::default(),
        folder: None,
        _lock: Vec::new(),
    };
    Ok(Found { catalog, durable })
}

fn opened(recovered: &Recovered) -> Opened {
    Opened {
        checkpoint_bytes: recovered.checkpoint_bytes,
        log_bytes: recovered.log.bytes,
        commits: recovered.log.commits,
        torn: recovered.log.torn,
        loading: recovered.loading,
        replaying: recovered.replaying,
        indexing: Duration::ZERO,
    }
}

fn read(
    storage: &dyn Storage,
    workers: usize,
    progress: &(dyn Fn(Opening) + Sync),
) -> Result<Option<Recovered>> {
    let told = |step| {
        progress(match step {
            Progress::Checkpoint(done, total) => Opening::Checkpoint(done, total),
            Progress::Log(done, total) => Opening::Log(done, total),
        });
    };
    let recovered = recover(storage, workers, &told).map_err(damage_error)?;
    if recovered.is_none() {
        let names = storage.list("").map_err(|error| io_error(".", &error))?;
        if names.iter().any(|name| name == LOCK) {
            let what = format!("everything but the file {LOCK} of the database that was here");
            return Err(damage_error(Damage::Missing { what }));
        }
    }
    Ok(recovered)
}

/// 58P01, unless the folder has files of a database.
fn refuse_without_database(folder: &Path) -> Result<()> {
    if fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        return Ok(());
    }
    let message = format!("{} holds no database", folder.display());
    Err(SqlError::new(SqlState::UNDEFINED_FILE, message))
}

/// Cuts the log of a damaged database behind the last commit that can be reached; `None` if nothing
/// is wrong with it.
///
/// Errors: those of [`open`]; 58P01 if the folder has no database; XX001 if what is damaged is not
/// the log.
pub(crate) fn repair(folder: &Path) -> Result<Option<Repaired>> {
    refuse_without_database(folder)?;
    let _lock = lock_folder(folder)?;
    cut_log(Arc::new(Disk::new(folder))).map_err(damage_error)
}

/// Verifies a database that no process has open, and returns what was found. Needs no right to write.
///
/// Errors: those of [`open`]; 55006 if a process has the database open.
pub(crate) fn check(folder: &Path, progress: &(dyn Fn(Opening) + Sync)) -> Result<Opened> {
    refuse_without_database(folder)?;
    let _lock = lock_folder(folder)?;
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let storage = Disk::new(folder);
    let Some(recovered) = read(&storage, workers, progress)? else {
        let message = format!("{} holds no database that was ever whole", folder.display());
        return Err(SqlError::new(SqlState::UNDEFINED_FILE, message));
    };
    let opened = opened(&recovered);
    let began = Instant::now();
    let catalog = restore(recovered, None, false, workers, progress)?;
    catalog.check();
    for cell in catalog.tables.values().flat_map(|table| &table.cells) {
        cell.check();
    }
    Ok(Opened { indexing: began.elapsed(), ..opened })
}

/// Makes the catalog with its partitions, and builds their indexes.
fn restore(
    recovered: Recovered,
    log: Option<Arc<Log>>,
    latches: bool,
    workers: usize,
    progress: &(dyn Fn(Opening) + Sync),
) -> Result<Catalog> {
    let broken = |what: String| SqlError::new(SqlState::DATA_CORRUPTED, what);
    let checkpointed = stored::decode(&recovered.checkpoint_catalog).map_err(broken)?;
    let mut positions = checkpointed.positions();
    positions.extend(recovered.sequences);
    let mut changes = recovered.catalog_changes.iter();
    let stored = changes.try_fold(checkpointed, |stored, change| stored.after(change));
    let stored = stored.map_err(broken)?;
    let mut wanted = Vec::new();
    let mut partitions = recovered.partitions;
    let catalog = stored.restore(&positions, log, |id, table| {
        let root = partitions.remove(&id).ok_or_else(|| {
            broken(format!("partition {id} of table \"{}\" is missing", table.name))
        })?;
        if **root.schema() != *table.store_schema() {
            let what = format!("partition {id} has other columns than table \"{}\"", table.name);
            return Err(broken(what));
        }
        let root = root.latched(latches);
        let derived = !matches!(table.kind, TableKind::Ordinary);
        wanted.push(Unindexed { id, root, table: table.id, derived });
        Ok(Arc::new(PartitionCell::unbuilt(id)))
    })?;
    if let Some(id) = partitions.keys().next() {
        return Err(broken(format!("partition {id} belongs to no table")));
    }
    let has_derived = |table: &Arc<Table>| table.indexes.iter().any(|i| i.derived.is_some());
    let catalog = match catalog.tables.values().any(has_derived) {
        true => revive_indexes(catalog, &new_datafusion())?,
        false => catalog,
    };
    let cells = build_indexes(&catalog, wanted, workers, progress)?;
    Ok(with_cells(catalog, &cells))
}

fn with_cells(mut catalog: Catalog, cells: &BTreeMap<PartitionId, Arc<PartitionCell>>) -> Catalog {
    let ids: Vec<_> = catalog.tables.keys().copied().collect();
    for id in ids {
        catalog.change_table(id, |table: &mut Table| {
            for cell in &mut table.cells {
                *cell = cells[&cell.id].clone();
            }
        });
    }
    catalog
}

/// A partition read from storage, whose indexes are still to be built.
struct Unindexed {
    id: PartitionId,
    root: Partition,
    table: TableId,
    /// Whether the partition's rows are not kept, because it belongs to a view or a stream.
    derived: bool,
}

/// Builds the indexes of all partitions, several at a time.
fn build_indexes(
    catalog: &Catalog,
    wanted: Vec<Unindexed>,
    workers: usize,
    progress: &(dyn Fn(Opening) + Sync),
) -> Result<BTreeMap<PartitionId, Arc<PartitionCell>>> {
    let total = wanted.len() as u64;
    let (queue, cells) = (Mutex::new(wanted), Mutex::new(BTreeMap::new()));
    let work = || -> Result<()> {
        loop {
            let Some(unindexed) = queue.lock().pop() else {
                return Ok(());
            };
            let Unindexed { id, mut root, table, derived } = unindexed;
            let table = catalog.table(table);
            for index in &table.indexes {
                root.add_index(index.def()).map_err(|_| {
                    let (index, table) = (index.id, &table.name);
                    let what = format!("index {index} of table \"{table}\" has a key twice");
                    SqlError::new(SqlState::DATA_CORRUPTED, what)
                })?;
            }
            let mut cells = cells.lock();
            let cell = match derived {
                true => PartitionCell::derived(id, root),
                false => PartitionCell::new(id, root),
            };
            cells.insert(id, Arc::new(cell));
            progress(Opening::Indexes(cells.len() as u64, total));
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, Result<()>>| {
            worker.join().expect("what is recovered has been checked")
        };
        workers.into_iter().try_for_each(join)
    })?;
    Ok(cells.into_inner())
}

/// Locks the folder itself, and the lock file if it is there.
fn lock_folder(folder: &Path) -> Result<Vec<fs::File>> {
    let file = folder.join(LOCK);
    let began = Instant::now();
    let mut locks = vec![lock(folder, folder, began)?];
    if file.exists() {
        locks.push(lock(&file, folder, began)?);
    }
    Ok(locks)
}

/// Locks a file of the database in `folder`. Errors: 55006.
fn lock(path: &Path, folder: &Path, began: Instant) -> Result<fs::File> {
    let shown = path.display().to_string();
    let file = fs::File::open(path).map_err(|error| io_error(&shown, &error))?;
    let mut locked = file.try_lock();
    // A process that is just closing the folder needs a moment.
    while matches!(locked, Err(fs::TryLockError::WouldBlock)) && began.elapsed() < CLOSING {
        thread::sleep(CLOSING / 50);
        locked = file.try_lock();
    }
    match locked {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(SqlError::new(
            SqlState::OBJECT_IN_USE,
            format!("the database in {} is open in another process", folder.display()),
        )),
        Err(fs::TryLockError::Error(error)) => Err(io_error(&shown, &error)),
    }
}

/// A number that tells one database's files from another's.
fn random_id() -> u128 {
    let half = || u128::from(RandomState::new().build_hasher().finish());
    half() << 64 | half()
}

/// The difference between two catalogs, for a transaction's record.
pub(crate) fn catalog_change(before: &Catalog, after: &Catalog) -> CatalogChange {
    let cells = |catalog: &Catalog| -> BTreeMap<PartitionId, Arc<PartitionCell>> {
        let cells = catalog.tables.values().flat_map(|table| &table.cells);
        cells.map(|cell| (cell.id, cell.clone())).collect()
    };
    let (old, new) = (cells(before), cells(after));
    let old_ids: BTreeSet<PartitionId> = old.keys().copied().collect();
    let (kept, dropped): (BTreeSet<_>, Vec<_>) = (
        old_ids.iter().copied().filter(|id| new.contains_key(id)).collect(),
        old_ids.iter().copied().filter(|id| !new.contains_key(id)).collect(),
    );
    let created = new.into_iter().filter(|(id, _)| !old_ids.contains(id));
    CatalogChange {
        catalog: stored::encode_change(before, after),
        created: created.map(|(_, cell)| cell).collect(),
        dropped,
        kept,
    }
}

/// An error of the log in the form in which clients see it.
pub(crate) fn log_error(error: LogError) -> SqlError {
    let told = SqlError::new(error.sql_state(), error.to_string());
    match error {
        LogError::Full { .. } => {
            told.hint("Free space on the disk; commits are taken again then, without a restart.")
        }
        LogError::Failed { .. } => told
            .detail("No commit is accepted any more; queries still run.")
            .hint("Restart once the disk is sound: what was acknowledged is recovered."),
        LogError::Closed => told,
        LogError::Memory => told
            .detail("The record of the commit does not fit within memory_limit; the transaction was rolled back.")
            .hint("Change fewer rows in a transaction, or raise memory_limit."),
    }
}

fn damage_error(damage: Damage) -> SqlError {
    let text = damage.to_string();
    match damage {
        Damage::Io { error, path } => io_error(&path, &error),
        Damage::Corrupt { .. } | Damage::Missing { .. } => {
            SqlError::new(SqlState::DATA_CORRUPTED, text).hint(
                "Nothing was changed. Restore a backup, or set the file right: starting without \
                 it would lose commits. If nothing else is left, halcyon repair --accept-loss cuts \
                 the log at the last commit that can be reached.",
            )
        }
    }
}
