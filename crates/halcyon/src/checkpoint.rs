//! Checkpoints and backups: the whole database as of one moment, while transactions go on.
//!
//! The moment is that of a cut through all partitions and the catalog's lock. While their latches
//! are held, no transaction is between writing its record and showing its changes. So the log up to
//! its end at that moment has exactly the changes that the cut has.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use halcyon_catalog::stored;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_store::Partition;
use halcyon_txn::{
    CancelToken, CheckpointError, Contents, CutError, Disk, Founding, Lsn, MARK_BYTES, Pace,
    PartitionCell, WaitLimits, cut_noting,
};

use crate::durable::{Checkpointed, Durable, io_error, log_error, make_folder};
use crate::shared::Shared;

/// Time between two checks whether a checkpoint is due.
const TICK: Duration = Duration::from_millis(250);

/// The contents of a checkpoint: catalog and partitions at one moment, and the end of the log then.
fn contents(shared: &Shared, durable: &Durable) -> Result<Contents> {
    let cancel = CancelToken::new();
    let limits = WaitLimits { timeout: None, cancel: &cancel };
    loop {
        let catalog = shared.catalog();
        let tables = catalog.tables.values().flat_map(|table| &table.cells);
        let cells: Vec<Arc<PartitionCell>> = tables.chain([&shared.ddl]).cloned().collect();
        let note = |_| (durable.log.end(), shared.version());
        let (mut roots, (lsn, version)) = cut_noting(&shared.manager, &cells, &limits, note)
            .unwrap_or_else(|error| match error {
                CutError::Timeout | CutError::Cancelled => unreachable!("nobody ends this wait"),
            });
        if version != catalog.version {
            continue;
        }
        roots.pop();
        durable.log.wait(lsn).map_err(log_error)?;
        // Sequences are outside of transactions: the values read now include the records before the
        // cut, and the records behind the cut are replayed.
        let bytes = stored::encode(&catalog);
        let kept = |(cell, root): (&Arc<PartitionCell>, triomphe::Arc<Partition>)| {
            let kept = if cell.is_logged() { root } else { root.without_rows().into() };
            (cell.id, kept)
        };
        let partitions = cells.iter().zip(roots).map(kept).collect();
        return Ok(Contents { id: durable.id, lsn, catalog: bytes, partitions });
    }
}

/// Writes a checkpoint and drops the log before it.
pub(crate) fn checkpoint(shared: &Shared, pace: &Pace) -> Result<()> {
    let Some(durable) = &shared.durable else {
        return Ok(());
    };
    let _writing = durable.writing.lock();
    let began = Instant::now();
    let contents = contents(shared, durable)?;
    let lsn = contents.lsn;
    let written = contents.write(&*durable.storage, pace).map_err(checkpoint_error)?;
    let wall_us = Some(halcyon_base::clock::wall_us());
    *durable.last.lock() = Checkpointed { lsn, at: Instant::now(), wall_us };
    let (seconds, bytes) = (began.elapsed().as_secs_f64(), written.bytes);
    tracing::info!(%lsn, bytes, rows = written.rows, seconds, "checkpoint written");
    durable.log.drop_before(lsn).map_err(|error| io_error("log", &error))
}

/// Writes the present state of everything into a folder of its own.
pub(crate) fn backup(shared: &Shared, folder: &Path) -> Result<()> {
    let Some(durable) = &shared.durable else {
        return Err(SqlError::unsupported("a backup of a database that lives in memory alone")
            .hint("Open it with a data folder, or export it."));
    };
    let shown = folder.display().to_string();
    refuse_within(durable, folder)?;
    make_folder(folder)?;
    let mut entries = fs::read_dir(folder).map_err(|error| io_error(&shown, &error))?;
    if entries.next().is_some() {
        let message = format!("folder {shown} is not empty");
        return Err(SqlError::new(SqlState::DUPLICATE_FILE, message));
    }
    let contents = contents(shared, durable)?;
    let written = contents.found(&Disk::new(folder), Founding::Copy, &Pace::default());
    written.map_err(checkpoint_error).map(|_| ())
}

/// Refuses a copy or an export within the database's own folder. Errors: 22023.
pub(crate) fn refuse_within(durable: &Durable, folder: &Path) -> Result<()> {
    let io = |error: io::Error| io_error(&folder.display().to_string(), &error);
    let folder = std::path::absolute(folder).map_err(io)?;
    // The part that is there already: links and `..` mean something in it alone.
    let there = folder.ancestors().find(|part| part.exists()).unwrap_or(Path::new("/"));
    let there = fs::canonicalize(there).map_err(io)?;
    match &durable.folder {
        Some(own) if there.starts_with(own) => {
            let message = format!("{} lies in the folder of the database", folder.display());
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                .hint("A copy belongs on another disk."))
        }
        _ => Ok(()),
    }
}

fn checkpoint_error(error: CheckpointError) -> SqlError {
    match error {
        CheckpointError::Io { path, error } => io_error(&path, &error),
        CheckpointError::Stopped => {
            SqlError::new(SqlState::QUERY_CANCELED, "the checkpoint was given up")
        }
    }
}

/// Starts the thread that keeps the log short, for as long as the database exists.
pub(crate) fn keep_short(shared: &Arc<Shared>) {
    let shared = Arc::downgrade(shared);
    let thread = thread::Builder::new().name("checkpointer".into());
    if let Err(error) = thread.spawn(move || watch(&shared)) {
        tracing::error!(%error, "there are no checkpoints but those that are asked for");
    }
}

fn watch(shared: &Weak<Shared>) {
    let mut failed: Option<Instant> = None;
    loop {
        thread::sleep(TICK);
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let Some(durable) = &shared.durable else {
            return;
        };
        if durable.stop.load(Ordering::Relaxed) || durable.log.failure().is_some() {
            continue;
        }
        // A failed checkpoint is not repeated at once.
        let pause = shared.tuning().checkpoint_timeout.min(Duration::from_secs(60));
        if failed.is_some_and(|at| at.elapsed() < pause) {
            continue;
        }
        if let Err(error) = durable.log.prepare() {
            tracing::warn!(%error, "the next log file is not made in advance");
            failed = Some(Instant::now());
            continue;
        }
        if !is_due(&shared, durable) {
            continue;
        }
        let bytes_per_s = shared.options.checkpoint_bytes_per_s;
        let pace = Pace { bytes_per_s, stop: durable.stop.clone() };
        failed = match checkpoint(&shared, &pace) {
            Ok(()) => None,
            Err(error) => {
                tracing::error!(error = error.message(), "no checkpoint was written");
                Some(Instant::now())
            }
        };
    }
}

fn is_due(shared: &Shared, durable: &Durable) -> bool {
    let last = *durable.last.lock();
    let Lsn(end) = durable.log.end();
    let bytes = end.saturating_sub(last.lsn.0);
    let tuning = shared.tuning();
    let late = last.at.elapsed() >= tuning.checkpoint_timeout;
    // A log without new records since its last checkpoint holds only the mark of that.
    bytes > MARK_BYTES && (late || bytes >= tuning.max_wal_size)
}
