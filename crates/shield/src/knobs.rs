//! The tree of files by which a kernel is told how to use its processors: `/proc`, `/sys`, control groups.
//!
//! A *knob* is one such file. Everything that the shield does to a machine goes through [`Knobs`], so that
//! tests run against [`crate::fake::Fake`] and never against the machine that they run on.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

/// A tree of knobs. Paths are absolute, as the running system has them.
pub trait Knobs {
    /// A knob's text, as the kernel gives it.
    fn read(&self, path: &str) -> io::Result<String>;
    /// Gives a knob a text, in one write. Never makes a file.
    fn write(&self, path: &str, text: &str) -> io::Result<()>;
    /// Names in a folder, in order.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;
    /// Makes a folder: of control groups, the kernel fills it with knobs.
    fn mkdir(&self, folder: &str) -> io::Result<()>;
    /// Removes a folder: of control groups, one without tasks and folders in it.
    fn rmdir(&self, folder: &str) -> io::Result<()>;

    /// Whether there is a knob or a folder at a path.
    fn exists(&self, path: &str) -> bool {
        self.read(path).is_ok() || self.list(path).is_ok()
    }

    /// A knob's text without white space around, if the knob can be read.
    fn text(&self, path: &str) -> Option<String> {
        self.read(path).ok().map(|text| text.trim().to_owned())
    }
}

/// The kernel's own tree.
#[derive(Clone, Debug)]
pub struct Kernel {
    root: PathBuf,
}

impl Kernel {
    /// The kernel that runs this program.
    pub fn running() -> Kernel {
        Kernel::below("/")
    }

    /// A copy of a tree in a folder, for tests of processes: plain files, which refuse nothing.
    pub fn below(root: impl Into<PathBuf>) -> Kernel {
        Kernel { root: root.into() }
    }

    /// Where a path of the tree lies.
    pub fn place(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}

impl Knobs for Kernel {
    fn read(&self, path: &str) -> io::Result<String> {
        let bytes = fs::read(self.place(path))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        // A copy of a tree has files of an older, perhaps longer text; of the kernel's own none is cut.
        let is_copy = self.root.as_os_str() != "/";
        let mut file =
            fs::OpenOptions::new().write(true).truncate(is_copy).open(self.place(path))?;
        let written = file.write(text.as_bytes())?;
        match written == text.len() {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::WriteZero, "the kernel took a part of it")),
        }
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.place(folder))? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn mkdir(&self, folder: &str) -> io::Result<()> {
        fs::create_dir(self.place(folder))
    }

    fn rmdir(&self, folder: &str) -> io::Result<()> {
        fs::remove_dir(self.place(folder))
    }

    fn exists(&self, path: &str) -> bool {
        self.place(path).exists()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copied_tree_is_read_and_written_where_it_lies_and_no_file_is_made() {
        let folder = std::env::temp_dir().join(format!("halcyon-knobs-{}", std::process::id()));
        fs::create_dir_all(folder.join("proc/irq")).unwrap();
        fs::write(folder.join("proc/irq/a"), "0-31\n").unwrap();
        let tree = Kernel::below(&folder);
        tree.write("/proc/irq/a", "1").unwrap();
        assert_eq!(tree.read("/proc/irq/a").unwrap(), "1");
        assert_eq!(tree.list("/proc/irq").unwrap(), ["a"]);
        let error = tree.write("/proc/irq/b", "1").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        tree.mkdir("/proc/new").unwrap();
        assert!(tree.exists("/proc/new") && !tree.exists("/proc/old"));
        tree.rmdir("/proc/new").unwrap();
        fs::remove_dir_all(folder).unwrap();
    }
}
