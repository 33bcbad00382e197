//! Files of batches in a folder of each test's own.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use arrow::array::{ArrayRef, Int64Array, ListArray, StringViewArray};
use arrow::buffer::OffsetBuffer;
use futures::executor::block_on;
use futures::{FutureExt, TryStreamExt};
use halcyon_sql::error::SqlState;

use super::*;
use crate::SpillFolder;

/// A folder that goes with its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("halcyon-spill-test-{}-{name}", std::process::id());
        Folder(std::env::temp_dir().join(name))
    }

    fn entries(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).expect("is there");
        let folders = entries.map(|entry| entry.expect("is read").path());
        folders.filter(|path| path.is_dir()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn batch(rows: i64) -> RecordBatch {
    let text = |row: i64| (row % 7 != 0).then(|| "text ".repeat((row % 9) as usize));
    let texts: ArrayRef = Arc::new(StringViewArray::from_iter((0..rows).map(text)));
    let of_list = Arc::new(Field::new("item", DataType::Utf8View, true));
    let offsets = OffsetBuffer::from_lengths((0..rows).map(|_| 1));
    let lists = ListArray::new(of_list, offsets, Arc::clone(&texts), None);
    let numbers = Int64Array::from_iter_values(0..rows);
    let columns: [(&str, ArrayRef); 3] =
        [("n", Arc::new(numbers)), ("t", texts), ("l", Arc::new(lists))];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .expect("a batch")
}

fn state(error: datafusion::common::DataFusionError) -> SqlState {
    halcyon_sql::diagnose::sql_error(error, "").state()
}

#[test]
fn files_have_no_name_and_their_bytes_are_given_back() {
    let at = Folder::new("files");
    let folder = SpillFolder::open(&at.0).expect("opens");
    let own = at.entries().pop().expect("a sub-folder");
    assert_eq!(fs::metadata(&own).expect("is there").permissions().mode() & 0o777, 0o700);
    let spill = Spill::new(&folder, None, None);
    let all = batch(1000);
    let mut writer = BatchWriter::new(&spill, &all.schema()).expect("opens");
    let pieces: Vec<Piece> = (0..10)
        .map(|at| block_on(writer.append(&all.slice(at * 100, 100))).expect("writes"))
        .collect();
    // The lock is all that has a name.
    assert_eq!(fs::read_dir(&own).expect("is there").count(), 1);
    let counts = folder.counts();
    assert!(counts.files == 1 && counts.bytes == counts.bytes_written);
    // Texts are written once, not whole with each piece.
    assert!(counts.bytes < 3 * all.get_array_memory_size() as u64, "{counts:?}");
    let batches = writer.finish();
    let (mut one, mut other) = (batches.reader().expect("opens"), batches.reader().expect("opens"));
    for at in (0..10).rev() {
        let read = block_on(one.read(&pieces[at])).expect("reads");
        assert_eq!(read, all.slice(at * 100, 100));
        assert_eq!(block_on(other.read(&pieces[9 - at])).expect("reads").num_rows(), 100);
    }
    drop((batches, one, other));
    let counts = folder.counts();
    assert_eq!((counts.files, counts.bytes, counts.files_made), (0, 0, 1));
    drop((spill, folder));
    assert!(at.entries().is_empty());
}

#[test]
fn what_exceeds_a_limit_or_a_full_disk_is_refused_and_leaves_nothing() {
    let at = Folder::new("limits");
    let folder = SpillFolder::open(&at.0).expect("opens");
    let rows = batch(1000);
    let fails = |spill: &Arc<Spill>| {
        let mut writer = BatchWriter::new(spill, &rows.schema()).expect("opens");
        let failed = block_on(async {
            loop {
                if let Err(error) = writer.append(&rows).await {
                    return error;
                }
            }
        });
        let told = halcyon_sql::diagnose::sql_error(failed, "");
        (told.state(), told.message().to_owned())
    };
    let limited = Spill::new(&folder, Some(1 << 20), None);
    let (state, message) = fails(&limited);
    assert_eq!(state, SqlState::CONFIGURATION_LIMIT_EXCEEDED);
    assert_eq!(message, "temporary file size exceeds temp_file_limit (1024kB)");
    let free = Spill::new(&folder, None, None);
    folder.set_limit(2 << 20);
    let (state, message) = fails(&free);
    assert_eq!(state, SqlState::CONFIGURATION_LIMIT_EXCEEDED);
    assert_eq!(message, "spilled files of all statements exceed spill_limit (2048kB)");
    folder.set_limit(u64::MAX);
    folder.plant_full_disk(1 << 20);
    let (state, message) = fails(&free);
    assert_eq!(state, SqlState::DISK_FULL);
    assert!(message.contains(&folder.path().display().to_string()), "{message}");
    assert_eq!((folder.counts().files, folder.counts().bytes), (0, 0));
}

/// DataFusion's way through `io::Write` tells errors as ours does.
#[test]
fn operators_of_datafusion_write_and_read_and_are_told_the_same_errors() {
    let at = Folder::new("factory");
    let folder = SpillFolder::open(&at.0).expect("opens");
    let spill = Spill::new(&folder, None, None);
    let file = spill.factory().create_temp_file("a test").expect("opens");
    let rows = batch(5000);
    let mut ipc = StreamWriter::try_new(file.open_writer().expect("opens"), &rows.schema());
    let ipc = ipc.as_mut().expect("a writer");
    (0..3).for_each(|_| ipc.write(&rows).expect("writes"));
    ipc.finish().expect("ends");
    ipc.get_mut().finish().expect("ends");
    let chunks: Vec<bytes::Bytes> =
        block_on(file.read_stream().expect("opens").try_collect()).expect("reads");
    assert!(chunks.len() > 1 && chunks.iter().all(|chunk| chunk.len() <= crate::CHUNK));
    let all = chunks.concat();
    let read = arrow_ipc::reader::StreamReader::try_new(&all[..], None).expect("a stream");
    assert!(read.map(|batch| batch.expect("a batch")).eq([
        rows.clone(),
        rows.clone(),
        rows.clone()
    ]));
    folder.plant_full_disk(0);
    let full = file.open_writer().map(|mut writer| {
        io::Write::write_all(&mut writer, &[0; 10]).expect("waits");
        StreamWriter::try_new(writer, &rows.schema())
            .and_then(|mut ipc| (0..3).try_for_each(|_| ipc.write(&rows)))
    });
    assert_eq!(state(full.expect("opens").expect_err("is full").into()), SqlState::DISK_FULL);
}

#[test]
fn what_a_crashed_process_left_is_cleared_and_a_living_one_is_left_alone() {
    let at = Folder::new("crashed");
    let living = SpillFolder::open(&at.0).expect("opens");
    let dead = at.0.join("halcyon-spill-1-0");
    fs::create_dir(&dead).expect("is made");
    fs::write(dead.join("3"), "rows").expect("is written");
    fs::create_dir(at.0.join("other")).expect("is made");
    let second = SpillFolder::open(&at.0).expect("opens");
    let entries = at.entries();
    assert!(!dead.exists() && entries.len() == 3, "{entries:?}");
    drop(living);
    assert_eq!(at.entries().len(), 2);
    let spill = Spill::new(&second, None, None);
    assert!(spill.file().is_ok());
    let refused = SpillFolder::open(Path::new("/proc/nowhere")).expect_err("nothing is made there");
    assert_eq!(refused.state(), SqlState::IO_ERROR);
    assert!(refused.message().contains("/proc/nowhere"));
}

#[test]
fn a_statement_on_workers_leaves_them_while_it_waits_for_the_disk() {
    let at = Folder::new("workers");
    let folder = SpillFolder::open(&at.0).expect("opens");
    let config = halcyon_task::Config::shared(1);
    let runtime = halcyon_task::Runtime::new(config).expect("starts");
    let spill = Spill::new(&folder, None, Some(runtime.blocking()));
    let rows = batch(1000);
    let mut writer = BatchWriter::new(&spill, &rows.schema()).expect("opens");
    // The first poll only asks.
    let waits = writer.append(&rows).now_or_never().is_none();
    let piece = block_on(async { writer.append(&rows).await }).expect("writes");
    let mut reader = writer.finish().reader().expect("opens");
    assert_eq!(block_on(reader.read(&piece)).expect("reads"), rows);
    assert!(waits || folder.counts().bytes > 0);
}
