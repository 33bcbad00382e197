//! What durability costs: commits per second, recovery, and updates while a checkpoint is written.
//!
//! Commits: each session updates rows of a partition of its own, one row per transaction. Arms:
//! *disk* (bare appends of a record's size to a file made beforehand, each followed by `fdatasync`,
//! or written with `O_DSYNC`), Halcyon with `synchronous_commit` on (`sync`), off (`async`) and
//! without a folder (`off`), SQLite with WAL and `synchronous = FULL`. Arms take turns, round by
//! round, in one folder of one disk.
//!
//! Recovery: a database of `--rows` rows in a checkpoint, and as many updates in the log; *bare*
//! reads the same files and builds a `BTreeMap` of as many rows of the same values.
//!
//! Checkpoint: updates of one session timed one by one, without and during checkpoints.
//!
//! Checked: after each arm its folder is opened anew, and every acknowledged update is there.

mod commits;
mod recovery;

use std::path::{Path, PathBuf};

use clap::Args;

use crate::Result;
use crate::point::positive;
use crate::report::Reporter;

/// Options of `halcyon lab durability`.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// Folder on the disk that is measured; a new one is made in it, and removed
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Numbers of sessions
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16])]
    pub sessions: Vec<u32>,
    /// Seconds per arm and number of sessions, over all rounds
    #[arg(long, default_value_t = 5.0, value_parser = positive)]
    pub seconds: f64,
    /// Rounds in which the arms take turns
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Rows of the database that is recovered
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub rows: u32,
}

/// A folder of this run, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(options: &Options) -> Result<Folder> {
        let parent = options.folder.clone().unwrap_or_else(std::env::temp_dir);
        let folder = parent.join(format!("halcyon-lab-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        Ok(Folder(folder))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Left over, it is in nobody's way but the disk's.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the experiment.
pub fn run(options: &Options, reporter: &mut Reporter) -> Result<()> {
    let folder = Folder::new(options)?;
    commits::run(options, folder.path(), reporter)?;
    recovery::run(options, folder.path(), reporter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_arm_keeps_what_it_acknowledged() {
        let options =
            Options { folder: None, sessions: vec![1, 3], seconds: 0.1, rounds: 2, rows: 3_000 };
        let mut reporter = Reporter::new(true);
        run(&options, &mut reporter).unwrap();
        for arm in reporter.arms() {
            assert_eq!(arm.check, "ok", "{} {:?}", arm.engine, arm.params);
            for (name, figure) in &arm.figures {
                let figure = figure.as_f64().unwrap();
                assert!(figure >= 0.0 && (figure > 0.0 || !name.contains("per_s")), "{name}");
            }
        }
        assert_eq!(reporter.arms().len(), 2 + 4 * 2 + 3);
    }
}
