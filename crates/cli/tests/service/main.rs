//! What those who run a server meet: its log, what its service manager is told, `halcyon doctor`, completions,
//! manual pages and the Debian package.

mod doctor;
mod logs;
mod manuals;
mod package;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const HALCYON: &str = env!("CARGO_BIN_EXE_halcyon");

/// Runs the binary.
fn halcyon(arguments: &[&str]) -> Output {
    Command::new(HALCYON).args(arguments).output().expect("the binary runs")
}

/// Output of a run that ends well.
fn printed(arguments: &[&str]) -> String {
    let output = halcyon(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A file of the repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Whether a program is installed; says so if a test does without it.
fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    let there = found.is_ok_and(|output| output.status.success());
    if !there {
        eprintln!("{program} is not installed: what needs it is not tested");
    }
    there
}

/// An empty folder that is removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("halcyon-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    /// A path within, as text.
    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
