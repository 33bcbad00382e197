//! Checkpoints: everything as of one moment in files of its own, so that the log before it is not
//! needed any more.
//!
//! A checkpoint is a folder named after its LSN: one Arrow IPC file per partition (its rows, and
//! in the last column their ids), the catalog's bytes, and a manifest with the length and checksum
//! of each. It is written beside the one before under another name, synced, and renamed: so a
//! folder that has the name is whole.
//! Words: a checkpoint's *LSN* is where the log ended at the moment of its cut. It holds all commits
//! that the log has before that, and none after.
//! Cost: the writer keeps to a [`Pace`] and syncs in small steps, so that commits, which sync the
//! same disk, wait for little; partitions are let go one by one as they are written.

use crate::log::Lsn;
use crate::log::damage::Damage;
use crate::log::disk::{File, Storage, read_all};
use crate::log::manifest::{self, Known, Manifest as Listing, Stage};
use crate::redo::Partitions;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::datatypes::{DataType, Field, Schema as ArrowSchema, UInt32Type};
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::FileWriter;
use halcyon_base::crc32c::{self, crc32c};
use halcyon_base::progress::{self, Kind, Phase, Unit};
use halcyon_base::{PartitionId, RowId};
use halcyon_store::{ArrowType, ColumnDef, Partition, Schema, SegmentRef, Type};
use std::fmt;
use std::io::{self, Cursor, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A checkpoint while it is written.
const NEW: &str = "checkpoint.new";
const PREFIX: &str = "checkpoint-";
const MANIFEST: &str = "manifest";
const CATALOG: &str = "catalog";
const TITLE: &str = "halcyon checkpoint 2";
/// Of a database that may have no manifest of its own.
const TITLE_UNLISTED: &str = "halcyon checkpoint 1";

/// Bytes written between two syncs.
const SYNC_BYTES: u64 = 4 << 20;
/// Bytes gathered before they are written.
const WRITE_BYTES: usize = 1 << 18;

fn path_of(lsn: Lsn) -> String {
    format!("{PREFIX}{:016x}", lsn.0)
}

fn lsn_of(name: &str) -> Option<Lsn> {
    let digits = name.strip_prefix(PREFIX).filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok().map(Lsn)
}

/// What a checkpoint holds.
pub struct Contents {
    /// The database's id, which its log files bear too.
    pub id: u128,
    /// Where the log ended at the moment of the cut.
    pub lsn: Lsn,
    /// The catalog, as bytes.
    pub catalog: Vec<u8>,
    /// Every partition.
    pub partitions: Vec<(PartitionId, triomphe::Arc<Partition>)>,
}

/// The purpose of a folder that [`Contents::found`] fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Founding {
    /// A new database: a folder in which it was interrupted is begun anew.
    New,
    /// A copy of a database: a folder in which it was interrupted is refused.
    Copy,
}

/// How fast a checkpoint is written.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// Bytes per second at most; 0 as fast as it goes.
    pub bytes_per_s: u64,
    /// Gives the checkpoint up once set.
    pub stop: Arc<AtomicBool>,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Bytes of all files.
    pub bytes: u64,
    /// Rows of all partitions.
    pub rows: u64,
    /// Partitions.
    pub partitions: u64,
}

/// Why there is no new checkpoint. The one before is as it was, and so is the log.
#[derive(Debug)]
pub enum CheckpointError {
    /// Writing failed.
    Io {
        /// The file.
        path: String,
        /// What the system said.
        error: io::Error,
    },
    /// The checkpoint was given up ([`Pace::stop`]).
    Stopped,
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckpointError::Io { path, error } => write!(f, "{path}: {error}"),
            CheckpointError::Stopped => f.write_str("the checkpoint was given up"),
        }
    }
}

impl std::error::Error for CheckpointError {}

fn failed(path: &str) -> impl Fn(io::Error) -> CheckpointError {
    move |error| CheckpointError::Io { path: path.to_owned(), error }
}

impl Contents {
    /// Makes a database of these contents in a folder without one, or with one whose making was
    /// interrupted. The manifest says until the end that the database is not whole.
    ///
    /// Errors: [`CheckpointError`]; the folder is refused, or begun anew, by the next opening.
    pub fn found(
        self,
        storage: &dyn Storage,
        founding: Founding,
        pace: &Pace,
    ) -> Result<Written, CheckpointError> {
        let (id, lsn) = (self.id, self.lsn);
        let unmade = failed(manifest::PATH);
        let stage = match founding {
            Founding::New => Stage::Making,
            Founding::Copy => Stage::Copying,
        };
        let listing = Listing::create(storage, Known::new(id, stage, None, lsn));
        let mut listing = listing.map_err(&unmade)?;
        for name in storage.list("").map_err(failed("."))? {
            if lsn_of(&name).is_some() {
                storage.remove_folder(&name).map_err(failed(&name))?;
            }
        }
        let kind = match founding {
            Founding::New => Kind::Checkpoint,
            Founding::Copy => Kind::Backup,
        };
        let written = self.write_as(kind, storage, pace)?;
        listing.close(lsn).map_err(&unmade)?;
        Ok(written)
    }

    /// Writes the checkpoint, and removes those before it once it is durable.
    ///
    /// Errors: [`CheckpointError`]; the checkpoint before is still there.
    pub fn write(self, storage: &dyn Storage, pace: &Pace) -> Result<Written, CheckpointError> {
        self.write_as(Kind::Checkpoint, storage, pace)
    }

    fn write_as(
        self,
        kind: Kind,
        storage: &dyn Storage,
        pace: &Pace,
    ) -> Result<Written, CheckpointError> {
        let work = progress::begin_for(Some(self.id), kind, None);
        let rows = self.partitions.iter().map(|(_, root)| root.row_count()).sum();
        work.stage(Phase::WritingTables, Unit::Rows, Some(rows));
        let _within = work.enter();
        let (lsn, folder) = (self.lsn, path_of(self.lsn));
        let written = self.write_folder(storage, NEW, pace).inspect_err(|_| {
            // The folder only takes room; the next checkpoint begins by removing it, too.
            let _ = storage.remove_folder(NEW);
        })?;
        if storage.list(&folder).is_ok_and(|names| !names.is_empty()) {
            // A checkpoint of this LSN is there already: nothing was committed since.
            storage.remove_folder(NEW).map_err(failed(NEW))?;
            return Ok(written);
        }
        storage.rename(NEW, &folder).map_err(failed(NEW))?;
        storage.sync_folder("").map_err(failed("."))?;
        for name in storage.list("").map_err(failed("."))? {
            if lsn_of(&name).is_some_and(|other| other < lsn) {
                storage.remove_folder(&name).map_err(failed(&name))?;
            }
        }
        Ok(written)
    }

    fn write_folder(
        self,
        storage: &dyn Storage,
        folder: &str,
        pace: &Pace,
    ) -> Result<Written, CheckpointError> {
        if storage.list(folder).is_ok_and(|names| !names.is_empty()) {
            storage.remove_folder(folder).map_err(failed(folder))?;
            // Without this a crash might bring back the old files under the new name.
            storage.sync_folder("").map_err(failed("."))?;
        }
        storage.make_folder(folder).map_err(failed(folder))?;
        let mut written = Written::default();
        let mut clock = Clock { pace, began: Instant::now(), bytes: 0 };
        let mut manifest = format!("{TITLE}\nid {:032x}\nlsn {:016x}\n", self.id, self.lsn.0);
        let mut note = |line: String, sum: Sum| {
            manifest += &format!("{line} {} {:08x}\n", sum.bytes, sum.crc);
            written.bytes += sum.bytes;
        };
        let path = format!("{folder}/{CATALOG}");
        let sum = write_file(storage, &path, &mut clock, |out| out.write_all(&self.catalog))?;
        note("catalog".to_owned(), sum);
        for (id, root) in self.partitions {
            let path = format!("{folder}/{id}.arrow");
            let sum = write_file(storage, &path, &mut clock, |out| write_rows(&root, out))?;
            note(format!("partition {id} {}", root.row_count()), sum);
            written.rows += root.row_count();
            written.partitions += 1;
        }
        manifest += &format!("end {:08x}\n", crc32c(manifest.as_bytes()));
        let path = format!("{folder}/{MANIFEST}");
        write_file(storage, &path, &mut clock, |out| out.write_all(manifest.as_bytes()))?;
        storage.sync_folder(folder).map_err(failed(folder))?;
        Ok(written)
    }
}

/// Length and checksum of a file.
#[derive(Clone, Copy, Default)]
struct Sum {
    bytes: u64,
    crc: u32,
}

/// The clock that keeps the pace over all files of a checkpoint.
struct Clock<'a> {
    pace: &'a Pace,
    began: Instant,
    bytes: u64,
}

impl Clock<'_> {
    /// Waits until `bytes` more may have been written.
    fn tick(&mut self, bytes: u64) -> io::Result<()> {
        self.bytes += bytes;
        if self.pace.stop.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if self.pace.bytes_per_s > 0 {
            let seconds = self.bytes as f64 / self.pace.bytes_per_s as f64;
            let ahead = Duration::from_secs_f64(seconds).saturating_sub(self.began.elapsed());
            if ahead > Duration::from_millis(1) {
                thread::sleep(ahead);
            }
        }
        Ok(())
    }
}

/// A file being written: gathers bytes, sums them, writes and syncs.
struct Sink<'a, 'b> {
    file: Box<dyn File>,
    gathered: Vec<u8>,
    sum: Sum,
    unsynced: u64,
    clock: &'a mut Clock<'b>,
}

impl Sink<'_, '_> {
    fn write_out(&mut self) -> io::Result<()> {
        self.file.write_at(self.sum.bytes, &self.gathered)?;
        let bytes = self.gathered.len() as u64;
        progress::bytes(bytes);
        self.sum.crc = crc32c::append(self.sum.crc, &self.gathered);
        self.sum.bytes += bytes;
        self.unsynced += bytes;
        self.gathered.clear();
        if self.unsynced >= SYNC_BYTES {
            self.file.sync()?;
            self.unsynced = 0;
        }
        self.clock.tick(bytes)
    }
}

impl Write for Sink<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= WRITE_BYTES {
            self.write_out()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_file(
    storage: &dyn Storage,
    path: &str,
    clock: &mut Clock<'_>,
    fill: impl FnOnce(&mut Sink<'_, '_>) -> io::Result<()>,
) -> Result<Sum, CheckpointError> {
    let write = || {
        let file = storage.create(path)?;
        let mut sink = Sink { file, gathered: Vec::new(), sum: Sum::default(), unsynced: 0, clock };
        fill(&mut sink)?;
        sink.write_out()?;
        sink.file.sync()?;
        Ok(sink.sum)
    };
    write().map_err(|error: io::Error| match error.kind() {
        io::ErrorKind::Interrupted => CheckpointError::Stopped,
        _ => CheckpointError::Io { path: path.to_owned(), error },
    })
}

/// The Arrow schema of a partition's file: columns without names, and the row ids.
fn file_schema(schema: &Schema) -> ArrowSchema {
    let field = |(number, def): (usize, &ColumnDef)| {
        Field::new(format!("c{number}"), def.ty.arrow(), def.nullable)
    };
    let mut fields: Vec<Field> = schema.columns.iter().enumerate().map(field).collect();
    fields.push(Field::new("row", DataType::UInt32, false));
    ArrowSchema::new(fields)
}

fn write_rows(root: &Partition, out: &mut Sink<'_, '_>) -> io::Result<()> {
    let schema = Arc::new(file_schema(root.schema()));
    let mut writer = FileWriter::try_new(out, &schema).map_err(io_error)?;
    let all: Vec<usize> = (0..root.schema().columns.len()).collect();
    for segment in root.segments() {
        let batch = RecordBatch::try_new(schema.clone(), columns_of(segment, &all));
        let batch = batch.map_err(io_error)?;
        writer.write(&batch).map_err(io_error)?;
        progress::rows(batch.num_rows() as u64);
    }
    writer.finish().map_err(io_error)
}

fn io_error(error: arrow::error::ArrowError) -> io::Error {
    match error {
        arrow::error::ArrowError::IoError(_, error) => error,
        other => io::Error::other(other),
    }
}

/// A segment's columns as they are written. Strings are gathered: the views of a column refer to
/// the blocks of the whole segment, and to what is garbage there.
fn columns_of(segment: SegmentRef<'_>, all: &[usize]) -> Vec<ArrayRef> {
    let gathered = |array: ArrayRef| -> ArrayRef {
        match array.data_type() {
            DataType::Utf8View => Arc::new(array.as_string_view().gc()),
            DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
            _ => array,
        }
    };
    let mut columns: Vec<ArrayRef> = segment.batch(all).columns.into_iter().map(gathered).collect();
    columns.push(Arc::new(segment.row_ids()));
    columns
}

/// A checkpoint that was read back.
pub(crate) struct Loaded {
    pub(crate) id: u128,
    pub(crate) lsn: Lsn,
    /// Whether the database has a manifest.
    pub(crate) listed: bool,
    pub(crate) catalog: Vec<u8>,
    pub(crate) partitions: Partitions,
    pub(crate) bytes: u64,
}

/// Reads the newest checkpoint, or `None` where there never was one.
///
/// Errors: [`Damage`]. An older checkpoint would not help: the log between the two is gone.
pub(crate) fn load(
    storage: &dyn Storage,
    workers: usize,
    read: &(dyn Fn(u64, u64) + Sync),
) -> Result<Option<Loaded>, Damage> {
    let names = storage.list("").map_err(Damage::io("."))?;
    let Some(folder) = names.iter().filter(|name| lsn_of(name).is_some()).max() else {
        return Ok(None);
    };
    let path = format!("{folder}/{MANIFEST}");
    let text = read_all(storage, &path).map_err(Damage::io(&path))?;
    let manifest = Manifest::parse(&text).map_err(|what| Damage::corrupt(&path, 0, what))?;
    if Some(manifest.lsn) != lsn_of(folder) {
        return Err(Damage::corrupt(&path, 0, "it is of another checkpoint"));
    }
    let catalog = read_summed(storage, &format!("{folder}/{CATALOG}"), manifest.catalog)?;
    let total: u64 = manifest.partitions.iter().map(|entry| entry.sum.bytes).sum();
    let (next, done) = (AtomicUsize::new(0), std::sync::atomic::AtomicU64::new(0));
    let work = || -> Result<Vec<(PartitionId, Partition)>, Damage> {
        let mut loaded = Vec::new();
        while let Some(entry) = manifest.partitions.get(next.fetch_add(1, Ordering::Relaxed)) {
            let path = format!("{folder}/{}.arrow", entry.id);
            let partition = read_partition(storage, &path, entry)?;
            loaded.push((entry.id, partition));
            read(done.fetch_add(entry.sum.bytes, Ordering::Relaxed) + entry.sum.bytes, total);
        }
        Ok(loaded)
    };
    let mut partitions = Partitions::new();
    let loaded: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers.max(1)).map(|_| scope.spawn(work)).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, _>| {
            worker.join().expect("what is read is checked before it is used")
        };
        workers.into_iter().map(join).collect()
    });
    for share in loaded {
        partitions.extend(share?);
    }
    let Manifest { id, lsn, listed, .. } = manifest;
    Ok(Some(Loaded { id, lsn, listed, catalog, partitions, bytes: total }))
}

struct Manifest {
    id: u128,
    lsn: Lsn,
    listed: bool,
    catalog: Sum,
    partitions: Vec<ManifestEntry>,
}

struct ManifestEntry {
    id: PartitionId,
    rows: u64,
    sum: Sum,
}

impl Manifest {
    fn parse(text: &[u8]) -> Result<Manifest, &'static str> {
        const BROKEN: &str = "the manifest is not as it was written";
        let text = std::str::from_utf8(text).map_err(|_| BROKEN)?;
        let (body, end) = text.rsplit_once("end ").ok_or(BROKEN)?;
        let sum = u32::from_str_radix(end.trim_end(), 16).map_err(|_| BROKEN)?;
        if sum != crc32c(body.as_bytes()) {
            return Err(BROKEN);
        }
        let mut lines = body.lines();
        let listed = match lines.next() {
            Some(TITLE) => true,
            Some(TITLE_UNLISTED) => false,
            _ => return Err("the checkpoint was written by another version"),
        };
        let mut word = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let id = word("id").and_then(|digits| u128::from_str_radix(digits, 16).ok());
        let lsn = word("lsn").and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let catalog = word("catalog").and_then(|words| parse_sum(words.split(' ')));
        let partition = |line: &str| {
            let mut words = line.strip_prefix("partition ")?.split(' ');
            let id = PartitionId(words.next()?.parse().ok()?);
            let rows = words.next()?.parse().ok()?;
            Some(ManifestEntry { id, rows, sum: parse_sum(words)? })
        };
        let partitions = lines.map(partition).collect::<Option<Vec<_>>>();
        let manifest = || {
            let (id, lsn) = (id?, Lsn(lsn?));
            Some(Manifest { id, lsn, listed, catalog: catalog?, partitions: partitions? })
        };
        manifest().ok_or(BROKEN)
    }
}

fn parse_sum<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Sum> {
    let bytes = words.next()?.parse().ok()?;
    let crc = u32::from_str_radix(words.next()?, 16).ok()?;
    words.next().is_none().then_some(Sum { bytes, crc })
}

fn read_summed(storage: &dyn Storage, path: &str, sum: Sum) -> Result<Vec<u8>, Damage> {
    let bytes = read_all(storage, path).map_err(Damage::io(path))?;
    if bytes.len() as u64 != sum.bytes {
        let what = format!("it has {} bytes instead of {}", bytes.len(), sum.bytes);
        return Err(Damage::corrupt(path, 0, what));
    }
    if crc32c(&bytes) != sum.crc {
        return Err(Damage::corrupt(path, 0, "its checksum is wrong"));
    }
    Ok(bytes)
}

fn read_partition(
    storage: &dyn Storage,
    path: &str,
    entry: &ManifestEntry,
) -> Result<Partition, Damage> {
    let bytes = read_summed(storage, path, entry.sum)?;
    let corrupt = |what: String| Damage::corrupt(path, 0, what);
    let reader = FileReader::try_new(Cursor::new(bytes), None);
    let reader = reader.map_err(|error| corrupt(error.to_string()))?;
    let schema = reader.schema();
    let (_, fields) = schema.fields().split_last().ok_or_else(|| corrupt("no column".into()))?;
    let def = |field: &Arc<Field>| {
        let ty = Type::from_arrow(field.data_type());
        let ty = ty.ok_or_else(|| corrupt(format!("a column of type {}", field.data_type())))?;
        Ok(ColumnDef { ty, nullable: field.is_nullable() })
    };
    let columns = fields.iter().map(def).collect::<Result<Vec<_>, Damage>>()?;
    let mut partition = Partition::new(Schema::new(columns));
    for batch in reader {
        let batch = batch.map_err(|error| corrupt(error.to_string()))?;
        let (ids, columns) = batch.columns().split_last().expect("looked at above");
        let ids: &UInt32Array =
            ids.as_primitive_opt::<UInt32Type>().ok_or_else(|| corrupt("no row ids".into()))?;
        let ids: Vec<RowId> = ids.values().iter().map(|id| RowId(*id)).collect();
        partition.restore(&ids, columns).map_err(|error| corrupt(error.to_string()))?;
    }
    match partition.row_count() == entry.rows {
        true => Ok(partition),
        false => Err(corrupt(format!("it has not {} rows", entry.rows))),
    }
}
