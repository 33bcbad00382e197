//! Opening a database: the newest checkpoint, and the log behind it done again.

use crate::checkpoint;
use crate::log::Lsn;
use crate::log::disk::Storage;
use crate::log::frame;
use crate::log::reader::{self, Damage, LogEnd, Record};
use crate::redo::{Partitions, Replay};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How far recovery has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Reading the checkpoint: bytes done, and in all.
    Checkpoint(u64, u64),
    /// Doing the log again: bytes done.
    Log(u64),
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
    let Some(loaded) = checkpoint::load(storage, workers, &read)? else {
        let log = storage.list(frame::FOLDER).unwrap_or_default();
        if log.iter().any(|name| frame::first_of(name).is_some()) {
            let what = "the checkpoint that belongs to the log".to_owned();
            return Err(Damage::Missing { what });
        }
        return Ok(None);
    };
    let loading = began.elapsed();
    let began = Instant::now();
    let mut replay = Replay::new(loaded.partitions, workers);
    // Places of the records, for the message if a worker cannot do a record again.
    let mut places: Vec<(String, Vec<u64>)> = Vec::new();
    let (mut record_count, mut bytes) = (0u64, 0u64);
    let log = reader::read(storage, loaded.id, loaded.lsn, |place, record| {
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
        bytes += payload.len() as u64;
        progress(Progress::Log(bytes));
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
