//! The folder of an export: its files with their checksums, and the unfinished folder beside it that becomes it.
//!
//! `checksums.txt` has the length and CRC-32C of each Parquet file, since plain pages do not reveal
//! a changed bit; a folder without that file (from another system, say) is accepted as it is.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use halcyon_base::{crc32c, progress};
use halcyon_sql::error::{Result, SqlError, SqlState};

/// The file with the checksums.
pub const CHECKSUMS: &str = "checksums.txt";

/// Bytes read at once for a checksum.
const PIECE: usize = 1 << 20;

/// 58P02, unless the folder does not exist or is empty.
pub fn refuse_filled(folder: &Path) -> Result<()> {
    let shown = folder.display().to_string();
    let filled = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) if error.kind() == ErrorKind::NotADirectory => true,
        Err(error) => return Err(io_error(&shown, &error)),
    };
    match filled {
        false => Ok(()),
        true => Err(SqlError::new(
            SqlState::DUPLICATE_FILE,
            format!("{shown} is there and is no empty folder"),
        )),
    }
}

/// The folder for an unfinished export: beside the target, so that it can be renamed.
pub fn beside(folder: &Path) -> Result<PathBuf> {
    let Some(name) = folder.file_name() else {
        let message = format!("\"{}\" names no folder to write", folder.display());
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    };
    let name = format!(".{}.unfinished", name.to_string_lossy());
    Ok(folder.with_file_name(name))
}

/// Makes the folder for an unfinished export, empty, and locks it. What an export whose process ended
/// has left there goes. Errors: 55006 if another export writes there.
pub fn claim(beside: &Path, folder: &Path) -> Result<fs::File> {
    let fail = |error: std::io::Error| io_error(&beside.display().to_string(), &error);
    make_folder(beside)?;
    let lock = fs::File::open(beside).map_err(fail)?;
    let held = lock.try_lock().is_ok();
    // Another export may just have ended, so that its folder has the name of the target by now.
    let inode = |found: std::io::Result<fs::Metadata>| found.map(|found| found.ino()).ok();
    if !held || inode(lock.metadata()) != inode(fs::metadata(beside)) {
        let message = format!("another EXPORT DATABASE writes {}", folder.display());
        return Err(SqlError::new(SqlState::OBJECT_IN_USE, message));
    }
    for entry in fs::read_dir(beside).map_err(fail)? {
        fs::remove_file(entry.map_err(fail)?.path()).map_err(fail)?;
    }
    Ok(lock)
}

/// Writes a text as a file, durably.
pub fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| io_error(&path.display().to_string(), &error))?;
    sync(Some(path))
}

/// Makes a file, or the names in a folder, durable.
pub fn sync(path: Option<&Path>) -> Result<()> {
    let path = path.unwrap_or(Path::new("."));
    let synced = fs::File::open(path).and_then(|file| file.sync_all());
    synced.map_err(|error| io_error(&path.display().to_string(), &error))
}

/// Length and checksum of a file.
pub fn summed(path: &Path) -> Result<(u64, u32)> {
    let fail = |error: std::io::Error| missing(path, &error);
    let mut file = fs::File::open(path).map_err(fail)?;
    let (mut bytes, mut sum, mut piece) = (0, 0, vec![0; PIECE]);
    loop {
        match file.read(&mut piece).map_err(fail)? {
            0 => return Ok((bytes, sum)),
            read => {
                sum = crc32c::append(sum, &piece[..read]);
                progress::bytes(read as u64);
                bytes += read as u64;
            }
        }
    }
}

/// Bytes of the files with rows in a folder; of files that cannot be looked at none.
pub fn bytes_of_rows(folder: &Path) -> u64 {
    let is_row_file = |path: &Path| {
        let is_script = path.extension().is_some_and(|extension| extension == "sql");
        !is_script && !path.ends_with(CHECKSUMS)
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter(|entry| is_row_file(&entry.path()));
    files.filter_map(|entry| entry.metadata().ok()).map(|found| found.len()).sum()
}

/// Compares the files of a folder with their checksums, if the folder has checksums.
pub fn verify(folder: &Path) -> Result<()> {
    let path = folder.join(CHECKSUMS);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_error(&path.display().to_string(), &error)),
    };
    for line in text.lines() {
        let mut parts = line.splitn(3, ' ');
        let (sum, bytes, name) = (parts.next(), parts.next(), parts.next());
        let sum = sum.and_then(|sum| u32::from_str_radix(sum, 16).ok());
        let bytes = bytes.and_then(|bytes| bytes.parse::<u64>().ok());
        let (Some(sum), Some(bytes), Some(name)) = (sum, bytes, name) else {
            let message = format!("{}: cannot read \"{line}\"", path.display());
            return Err(SqlError::new(SqlState::DATA_CORRUPTED, message));
        };
        let file = folder.join(name);
        if summed(&file)? != (bytes, sum) {
            let message = format!("{} is not as it was exported", file.display());
            return Err(SqlError::new(SqlState::DATA_CORRUPTED, message)
                .detail("Its length or checksum differs from checksums.txt. Nothing was imported.")
                .hint("If it was changed on purpose, remove its line there."));
        }
    }
    Ok(())
}

/// 58P01 if the file does not exist.
pub fn missing(path: &Path, error: &std::io::Error) -> SqlError {
    let shown = path.display().to_string();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            SqlError::new(SqlState::UNDEFINED_FILE, format!("{shown} is missing"))
                .detail("Nothing was imported.")
        }
        ErrorKind::InvalidData => {
            SqlError::new(SqlState::DATA_CORRUPTED, format!("{shown} is not text"))
        }
        _ => io_error(&shown, error),
    }
}

/// Makes a folder that its owner alone may look into, unless it is there.
pub fn make_folder(folder: &Path) -> Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| io_error(&folder.display().to_string(), &error))
}

/// 53100 if the disk is full, else 58030.
pub fn io_error(path: &str, error: &io::Error) -> SqlError {
    let state = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => SqlState::DISK_FULL,
        _ => SqlState::IO_ERROR,
    };
    SqlError::new(state, format!("{path}: {error}"))
}
