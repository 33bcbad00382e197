//! The files of a database behind one trait, so that a simulated disk can stand in for the real.
//!
//! Paths are relative to the database's folder, with `/` between parts. After a crash a caller may
//! rely on what POSIX promises: the contents of a file up to its last [`File::sync`], the names in
//! a folder up to its last [`Storage::sync_folder`].

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A folder of files.
pub trait Storage: Send + Sync {
    /// Names in a folder, in order; none if there is no such folder.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;
    /// Makes a folder, unless it is there.
    fn make_folder(&self, folder: &str) -> io::Result<()>;
    /// Makes an empty file, in place of one of the same name.
    fn create(&self, path: &str) -> io::Result<Box<dyn File>>;
    /// A file that is there, for reading and writing.
    fn open(&self, path: &str) -> io::Result<Box<dyn File>>;
    /// Renames a file or folder, in place of a file that has the name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &str) -> io::Result<()>;
    /// Removes a folder with the files in it.
    fn remove_folder(&self, folder: &str) -> io::Result<()>;
    /// Makes the names in a folder durable.
    fn sync_folder(&self, folder: &str) -> io::Result<()>;
}

/// A file of a [`Storage`].
pub trait File: Send + Sync {
    /// Writes all of `bytes`; the file grows if need be.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Fills `bytes`. Errors: `UnexpectedEof` beyond the end.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;
    /// The file's length.
    fn bytes(&self) -> io::Result<u64>;
    /// Makes what was written durable.
    fn sync(&self) -> io::Result<()>;
}

/// Reads a whole file.
pub fn read_all(storage: &dyn Storage, path: &str) -> io::Result<Vec<u8>> {
    let file = storage.open(path)?;
    let length = usize::try_from(file.bytes()?).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// The file system below a folder. What it makes there its owner alone may read.
pub struct Disk {
    root: PathBuf,
}

impl Disk {
    /// The disk below `root`, a folder that is there.
    pub fn new(root: &Path) -> Self {
        Disk { root: root.to_owned() }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

impl Storage for Disk {
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.at(folder)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let name = |entry: io::Result<fs::DirEntry>| {
            entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
        };
        let mut names = entries.map(name).collect::<io::Result<Vec<_>>>()?;
        names.sort_unstable();
        Ok(names)
    }

    fn make_folder(&self, folder: &str) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(self.at(folder))
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        Ok(Box::new(DiskFile(options.open(self.at(path))?)))
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn File>> {
        // A folder that must not be written can still be checked.
        let path = self.at(path);
        let file = fs::OpenOptions::new().read(true).write(true).open(&path);
        Ok(Box::new(DiskFile(file.or_else(|_| fs::File::open(&path))?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.at(from), self.at(to))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.at(path))
    }

    fn remove_folder(&self, folder: &str) -> io::Result<()> {
        fs::remove_dir_all(self.at(folder))
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        fs::File::open(self.at(folder))?.sync_all()
    }
}

struct DiskFile(fs::File);

impl File for DiskFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(bytes, offset)
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
