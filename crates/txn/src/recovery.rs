//! Opening a database: the newest checkpoint, and the log behind it done again.

use crate::checkpoint;
use crate::log::damage::Damage;
use crate::log::disk::{Storage, read_all};
use crate::log::frame::{FOLDER, file_path, frame_bytes};
use crate::log::manifest::{self, Known, Stage};
use crate::log::reader::{self, LogEnd, Record};
use crate::log::{Log, LogOptions, Lsn};
use crate::redo::{Partitions, Replay};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How far recovery has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Reading the checkpoint: bytes done, and in all.
    Checkpoint(u64, u64),
    /// Doing the log again: bytes done, and in all, as far as is known before the log's end is found.
    Log(u64, u64),
}

/// A database as it was when it was last open.
pub struct Recovered {
    /// The database's id.
    pub id: u128,
    /// The catalog that the checkpoint holds. The catalog knows where sequences were that the log
    /// behind the checkpoint does not name.
    pub checkpoint_catalog: Vec<u8>,
    /// Changes of the catalog by commits behind the checkpoint, in order.
    pub catalog_changes: Vec<Vec<u8>>,
    /// Values from which the sequences that the log names go on.
    pub sequences: BTreeMap<u32, i64>,
    /// Every partition, without indexes.
    pub partitions: Partitions,
    /// Where the checkpoint's cut was.
    pub checkpoint: Lsn,
    /// Bytes of the checkpoint's partitions.
    pub checkpoint_bytes: u64,
    /// The log behind the checkpoint.
    pub log: LogEnd,
    /// Time that reading the checkpoint took.
    pub loading: Duration,
    /// Time that doing the log again took.
    pub replaying: Duration,
}

/// What [`repair`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// What was wrong.
    pub damage: String,
    /// The log was cut here: the last commit that is left ends at or before it.
    pub end: Lsn,
    /// The log is known to have reached at least up to here.
    pub known: Lsn,
    /// Commits behind the cut whose records can still be seen; there may have been more.
    pub commits: u64,
    /// Folder, within the database's, into which the files with what was behind the cut were put.
    pub kept_in: String,
}

/// Reads a database; `None` where there is none yet.
///
/// `progress` is called often and must be quick. Nothing is written: opening and checking a
/// database read it alike.
/// Errors: [`Damage`] names the file and what is wrong.
pub fn recover(
    storage: &dyn Storage,
    workers: usize,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Option<Recovered>, Damage> {
    let began = Instant::now();
    let read = |done, total| progress(Progress::Checkpoint(done, total));
    let known = manifest::load(storage)?;
    if known.is_some_and(|known| known.stage == Stage::Making) {
        return Ok(None);
    }
    refuse_unfinished(known.as_ref())?;
    let Some(loaded) = checkpoint::load(storage, workers, &read)? else {
        return nothing(storage, known.as_ref()).map(|()| None);
    };
    belongs(&loaded, known.as_ref())?;
    let loading = began.elapsed();
    let began = Instant::now();
    let mut replay = Replay::new(loaded.partitions, workers);
    // Places of the records, for the message if a worker cannot do a record again.
    let mut places: Vec<(String, Vec<u64>)> = Vec::new();
    let (mut record_count, mut bytes) = (0u64, 0u64);
    let end = reader::least_end(storage, known.as_ref()).map_err(Damage::io(FOLDER))?;
    let total = end.0.saturating_sub(loaded.lsn.0);
    let log = reader::read(storage, loaded.id, loaded.lsn, known.as_ref(), |place, record| {
        if places.last().is_none_or(|(path, _)| path != place.path) {
            places.push((place.path.to_owned(), Vec::new()));
        }
        places.last_mut().expect("just made sure of").1.push(place.offset);
        let payload = match record {
            Record::Commit(payload) | Record::Sequence(payload) => payload,
        };
        let done = match record {
            Record::Commit(payload) => replay.commit(record_count, payload),
            Record::Sequence(payload) => replay.sequence(payload),
        };
        record_count += 1;
        bytes += frame_bytes(payload.len()) as u64;
        progress(Progress::Log(bytes, total.max(bytes)));
        done.map_err(|why| Damage::corrupt(place.path, place.offset, why.to_string()))
    })?;
    let catalog_changes = std::mem::take(&mut replay.catalog);
    let sequences = std::mem::take(&mut replay.sequences);
    let partitions = replay.finish().map_err(|broken| {
        let mut number = broken.record as usize;
        let found = places.iter().find_map(|(path, offsets)| match offsets.get(number) {
            Some(offset) => Some((path.as_str(), *offset)),
            None => {
                number -= offsets.len();
                None
            }
        });
        let (path, offset) = found.expect("every record's place was noted");
        Damage::corrupt(path, offset, broken.why.to_string())
    })?;
    Ok(Some(Recovered {
        id: loaded.id,
        checkpoint_catalog: loaded.catalog,
        catalog_changes,
        sequences,
        partitions,
        checkpoint: loaded.lsn,
        checkpoint_bytes: loaded.bytes,
        log,
        loading,
        replaying: began.elapsed(),
    }))
}

/// Refuses a copy that was interrupted.
fn refuse_unfinished(known: Option<&Known>) -> Result<(), Damage> {
    match known {
        Some(Known { stage: Stage::Copying, .. }) => Err(Damage::Missing {
            what: "the end of the backup, which was interrupted while it was written here,".into(),
        }),
        _ => Ok(()),
    }
}

/// Says what is missing in a folder without a checkpoint, unless nothing is.
fn nothing(storage: &dyn Storage, known: Option<&Known>) -> Result<(), Damage> {
    let missing = |what: String| Err(Damage::Missing { what });
    if let Some(known) = known {
        return missing(format!("the checkpoint (the log was durable up to {})", known.durable));
    }
    let log = reader::list(storage).map_err(Damage::io(FOLDER))?;
    match log.is_empty() {
        true => Ok(()),
        false => missing("the checkpoint that belongs to the log".to_owned()),
    }
}

/// Refuses a checkpoint and a manifest that do not belong together.
fn belongs(loaded: &checkpoint::Loaded, known: Option<&Known>) -> Result<(), Damage> {
    match known {
        None if loaded.listed => {
            Err(Damage::Missing { what: format!("the file {}", manifest::PATH) })
        }
        Some(known) if known.id != loaded.id => {
            Err(Damage::corrupt(manifest::PATH, 0, "it belongs to another database"))
        }
        _ => Ok(()),
    }
}

/// Cuts the log of a damaged database behind the last commit that can be reached, so that it can be
/// opened with what is left; `None` if nothing is wrong with it. What is cut off is kept in a folder.
///
/// Errors: [`Damage`] if it cannot be repaired so, for want of a whole checkpoint or because the
/// disk fails; nothing is lost then that was not lost before.
pub fn repair(storage: Arc<dyn Storage>) -> Result<Option<Repaired>, Damage> {
    let disk = &*storage;
    let (known, unreadable) = match manifest::load(disk) {
        Ok(known) => (known, None),
        Err(damage @ Damage::Io { .. }) => return Err(damage),
        Err(damage) => (None, Some(damage)),
    };
    if known.is_some_and(|known| known.stage == Stage::Making) {
        return Ok(None);
    }
    refuse_unfinished(known.as_ref())?;
    let Some(loaded) = checkpoint::load(disk, 1, &|_, _| ())? else {
        let what = "the checkpoint, without which there is nothing to go on from,".to_owned();
        return Err(Damage::Missing { what });
    };
    let foreign = belongs(&loaded, known.as_ref()).err();
    // A log without a manifest is read as far as it goes.
    let assumed = known.filter(|_| foreign.is_none());
    let assumed = assumed.unwrap_or(Known::new(loaded.id, Stage::Open, None, loaded.lsn));
    let (end, broken) = reader::reachable(disk, loaded.id, loaded.lsn, Some(&assumed));
    let Some(damage) = unreadable.or(foreign).or(broken) else {
        return Ok(None);
    };
    let (commits, seen) = reader::seen_behind(disk, end).map_err(Damage::io(FOLDER))?;
    let kept_in = format!("lost-{:016x}", end.0);
    put_aside(disk, end, &kept_in)?;
    let log = Log::start(storage, loaded.id, end, LogOptions::default());
    let log = log.map_err(|error| Damage::Io {
        path: FOLDER.to_owned(),
        error: io::Error::other(error.to_string()),
    })?;
    if let Some(failure) = log.failure() {
        return Err(Damage::Io {
            path: FOLDER.to_owned(),
            error: io::Error::other(failure.to_string()),
        });
    }
    log.close();
    let known = assumed.durable.max(seen);
    Ok(Some(Repaired { damage: damage.to_string(), end, known, commits, kept_in }))
}

/// Moves the log files behind `end` into a folder, and copies the one that `end` is in.
fn put_aside(storage: &dyn Storage, end: Lsn, folder: &str) -> Result<(), Damage> {
    storage.make_folder(folder).map_err(Damage::io(folder))?;
    for first in reader::list(storage).map_err(Damage::io(FOLDER))? {
        let path = file_path(first);
        let aside = format!("{folder}/{:016x}.log", first.0);
        if first >= end {
            storage.rename(&path, &aside).map_err(Damage::io(&path))?;
            continue;
        }
        // Read by the log's next opening up to `end`, where the next file begins.
        let bytes = read_all(storage, &path).map_err(Damage::io(&path))?;
        let copy = storage.create(&aside).and_then(|file| {
            file.write_at(0, &bytes)?;
            file.sync()
        });
        copy.map_err(Damage::io(&aside))?;
    }
    storage.sync_folder(folder).map_err(Damage::io(folder))
}
