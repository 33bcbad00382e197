//! What durability costs: commits per second, recovery, and updates while a checkpoint is written.
//!
//! Commits: each session updates rows of a partition of its own, one row per transaction. Arms:
//! *disk* (bare appends of a record's size to a file made beforehand, each followed by `fdatasync`,
//! or written with `O_DSYNC`), Halcyon with `synchronous_commit` on (`sync`), off (`async`) and
//! without a folder (`off`), SQLite with WAL and `synchronous = FULL`, PostgreSQL with
//! `wal_sync_method = fdatasync` if it is installed. Arms take turns, round by round, in one folder
//! of one disk.
//!
//! Recovery: a database of `--rows` rows in a checkpoint, and as many updates in the log, or of
//! about `--recovery-bytes`, three quarters of them checkpoint; *bare* reads the same files and
//! builds a `BTreeMap` of as many rows of the same values.
//!
//! Checkpoint: updates of one session timed one by one, without checkpoints, during them, and
//! without them again, on that database.
//!
//! Checked: after each arm its folder is opened anew, and every acknowledged update is there.

mod commits;
mod recovery;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use clap::Args;

use crate::Reporter;
use crate::Result;
use crate::point::positive;

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
    /// Bytes of that database instead, as 2GB: three quarters checkpoint, a quarter log
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub recovery_bytes: Option<u64>,
    /// Parts to run
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [Part::Commits, Part::Recovery])]
    pub parts: Vec<Part>,
}

/// A part of the experiment.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Commits per second
    Commits,
    /// Opening a database, and updates while checkpoints are written
    Recovery,
}

/// A size with its unit: `512MB`, `2GB`; a bare number is bytes.
fn bytes(text: &str) -> std::result::Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" | "B" => 0,
        "kB" => 10,
        "MB" => 20,
        "GB" => 30,
        unit => return Err(format!("no unit \"{unit}\"; there are B, kB, MB, GB")),
    };
    let number: u64 = digits.parse().map_err(|error| format!("{error}"))?;
    let bytes = number.checked_mul(1 << shift).filter(|bytes| (1 << 16..1 << 38).contains(bytes));
    bytes.ok_or_else(|| "it is 64kB at least, 255GB at most".into())
}

/// The folder of this run, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(options: &Options) -> Result<Folder> {
        let parent = options.folder.clone().unwrap_or_else(std::env::temp_dir);
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("halcyon-lab-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        Ok(Folder(folder))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that is left over does no harm but for the disk space.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the experiment.
pub fn run(options: &Options, reporter: &mut Reporter) -> Result<()> {
    let folder = Folder::new(options)?;
    if options.parts.contains(&Part::Commits) {
        commits::run(options, folder.path(), reporter)?;
    }
    if options.parts.contains(&Part::Recovery) {
        recovery::run(options, folder.path(), reporter)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(options: &Options) -> Reporter {
        let mut reporter = Reporter::new(true);
        run(options, &mut reporter).unwrap();
        for arm in reporter.arms() {
            assert_eq!(arm.check, "ok", "{} {:?}", arm.engine, arm.params);
            for (name, figure) in &arm.figures {
                let figure = figure.as_f64().unwrap();
                assert!(figure >= 0.0 && (figure > 0.0 || !name.contains("per_s")), "{name}");
            }
        }
        reporter
    }

    fn options() -> Options {
        Options {
            folder: None,
            sessions: vec![1, 3],
            seconds: 0.1,
            rounds: 2,
            rows: 3_000,
            recovery_bytes: None,
            parts: vec![Part::Commits, Part::Recovery],
        }
    }

    #[test]
    fn every_arm_keeps_what_it_acknowledged() {
        let engines = if crate::postgres::missing().is_some() { 4 } else { 5 };
        assert_eq!(checked(&options()).arms().len(), 2 + engines * 2 + 3);
    }

    #[test]
    fn a_database_to_recover_has_the_size_that_was_asked_for() {
        let wanted = 3 << 20;
        let options =
            Options { recovery_bytes: Some(wanted), parts: vec![Part::Recovery], ..options() };
        let reporter = checked(&options);
        let figure = |name: &str| {
            let arms = reporter.arms();
            let figures = arms.iter().filter_map(|arm| arm.figures.get(name)?.as_f64());
            figures.max_by(f64::total_cmp).expect(name)
        };
        let (checkpoint, log) = (figure("checkpoint_mb") * 1e6, figure("log_mb") * 1e6);
        let near = |found: f64, wanted: f64| (0.8..1.25).contains(&(found / wanted));
        assert!(near(checkpoint, wanted as f64 * 0.75), "{checkpoint}");
        assert!(near(log, wanted as f64 * 0.25), "{log}");
        assert!(figure("checkpoints") >= 1.0);
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes("2GB"), Ok(2 << 30));
        assert_eq!(bytes("65536"), Ok(1 << 16));
        assert!(bytes("1GiB").is_err() && bytes("1kB").is_err() && bytes("x").is_err());
    }
}
