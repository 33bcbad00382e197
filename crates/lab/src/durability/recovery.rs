//! Recovery beside reading the same bytes by hand, and updates while a checkpoint is written.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use halcyon::{Database, DatabaseOptions, IntoValue, Session};
use halcyon_base::rng::Rng;
use hdrhistogram::Histogram;
use serde_json::json;

use super::Options;
use crate::measure;
use crate::{Arm, Failure, Reporter, Result};

/// Rows that one transaction updates while the log is filled.
const BATCH: u32 = 1_000;
/// Rows that one transaction makes.
const FILLED: u32 = 1_000_000;
const TEXT: &str = "forty characters that are in no view, no.";

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Approximate size of a row in a checkpoint: key, number, text, row id.
const CHECKPOINT_ROW_BYTES: u64 = 74;
/// Approximate size of its update in the log.
const LOG_ROW_BYTES: u64 = 55;

/// Size of the database.
#[derive(Clone, Copy)]
struct Size {
    /// Rows in the checkpoint.
    rows: u32,
    /// Number of these rows that have an update in the log.
    updated: u32,
}

impl Size {
    fn of(options: &Options) -> Size {
        match options.recovery_bytes {
            None => Size { rows: options.rows, updated: options.rows },
            Some(bytes) => {
                let rows =
                    (bytes / 4 * 3 / CHECKPOINT_ROW_BYTES).clamp(1, u64::from(u32::MAX)) as u32;
                let updated = (bytes / 4 / LOG_ROW_BYTES).min(u64::from(rows)) as u32;
                Size { rows, updated }
            }
        }
    }
}

/// Opens a database that writes checkpoints only when it is told to.
fn open(folder: &Path) -> Result<Database> {
    let options = DatabaseOptions::default();
    let options = options.with("checkpoint_timeout", "1d")?.with("max_wal_size", "1000TB")?;
    Ok(Database::open_with(folder, options, &|_| ())?)
}

/// Runs both parts.
pub fn run(options: &Options, folder: &Path, reporter: &mut Reporter) -> Result<()> {
    let folder = folder.join("recovery");
    let size = Size::of(options);
    reporter.progress(format_args!("recovery: filling {} rows", size.rows));
    fill(size, &folder)?;
    reporter.progress("recovery: opening");
    let (arm, bytes) = recovered(size, &folder)?;
    reporter.arm(arm);
    reporter.arm(bare(size, &folder, bytes)?);
    reporter.progress("updates while checkpoints are written");
    reporter.arm(checkpoint(options, size, &folder)?);
    Ok(())
}

/// A checkpoint with all rows, and a log in which the first of them are updated.
fn fill(size: Size, folder: &Path) -> Result<()> {
    let database = open(folder)?;
    let mut session = database.session();
    session.execute(
        "CREATE TABLE item (id BIGINT PRIMARY KEY, amount BIGINT, name TEXT)
         WITH (partition_by = 'id', partitions = 4)",
        &[],
    )?;
    for first in (0..size.rows).step_by(FILLED as usize) {
        let last = size.rows.min(first.saturating_add(FILLED)) - 1;
        let fill = format!(
            "INSERT INTO item SELECT n, n, '{TEXT}' FROM generate_series({first}, {last}) n"
        );
        session.execute(fill.as_str(), &[])?;
    }
    database.checkpoint()?;
    let update = session
        .prepare("UPDATE item SET amount = amount + 1, name = $3 WHERE id >= $1 AND id < $2")?;
    for first in (0..size.updated).step_by(BATCH as usize) {
        let (from, to) = (i64::from(first), i64::from(size.updated.min(first + BATCH)));
        let text = TEXT.to_owned();
        session.execute(&update, &[from.into_value(), to.into_value(), text.into_value()])?;
    }
    Ok(())
}

fn sums(session: &mut Session) -> Result<(i64, i64)> {
    let sums = session.prepare("SELECT count(*), sum(amount)::bigint FROM item")?;
    let mut rows = session.query(&sums, &[])?;
    let row = rows.next()?.ok_or_else(|| Failure::WrongAnswer("no row".into()))?;
    Ok((row.get(0)?, row.get(1)?))
}

fn recovered(size: Size, folder: &Path) -> Result<(Arm, u64)> {
    let began = Instant::now();
    let database = open(folder)?;
    let took = began.elapsed();
    let opened = database.opened().expect("it is on disk");
    let bytes = opened.checkpoint_bytes + opened.log_bytes;
    let params = json!({"part": "recovery", "rows": size.rows, "updated": size.updated});
    let mut arm = Arm::new("durability", "halcyon", params);
    arm.rounded("recovery_mb_per_s", mb(bytes) / took.as_secs_f64());
    arm.rounded("seconds", took.as_secs_f64());
    arm.rounded("checkpoint_mb", mb(opened.checkpoint_bytes));
    arm.rounded("log_mb", mb(opened.log_bytes));
    arm.rounded("loading_s", opened.loading.as_secs_f64());
    arm.rounded("replaying_s", opened.replaying.as_secs_f64());
    arm.rounded("indexing_s", opened.indexing.as_secs_f64());
    let rows = i64::from(size.rows);
    let found = sums(&mut database.session())?;
    if found != (rows, rows * (rows - 1) / 2 + i64::from(size.updated)) {
        arm.check = Failure::WrongAnswer(format!("rows and sum are {found:?}")).to_string();
    }
    Ok((arm, bytes))
}

/// Reads every file, and builds a map of as many rows twice over: once for the checkpoint's rows,
/// once for the log's.
fn bare(size: Size, folder: &Path, bytes: u64) -> Result<Arm> {
    let began = Instant::now();
    let mut read = 0;
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            match path.is_dir() {
                true => open.push(path),
                false => read += std::fs::read(path)?.len() as u64,
            }
        }
    }
    let mut rows: BTreeMap<i64, (i64, Box<str>)> = BTreeMap::new();
    for id in 0..i64::from(size.rows) {
        rows.insert(id, (id, TEXT.into()));
    }
    for id in 0..i64::from(size.updated) {
        if let Some(row) = rows.get_mut(&id) {
            *row = (row.0 + 1, TEXT.into());
        }
    }
    let took = began.elapsed();
    let params = json!({"part": "recovery", "rows": size.rows, "updated": size.updated});
    let mut arm = Arm::new("durability", "bare", params);
    arm.rounded("recovery_mb_per_s", mb(bytes) / took.as_secs_f64());
    arm.rounded("seconds", took.as_secs_f64());
    if read < bytes || rows.len() != size.rows as usize {
        arm.check = Failure::WrongAnswer(format!("{read} bytes were read")).to_string();
    }
    Ok(arm)
}

/// Latencies of single updates whose commits are not waited for: without checkpoints, during them
/// (at least one is written), and without them again, which shows how much a difference means.
fn checkpoint(options: &Options, size: Size, folder: &Path) -> Result<Arm> {
    let database = open(folder)?;
    let before = sums(&mut database.session())?.1;
    let quiet = updates(&database, options, size, || true)?;
    let (stop, written) = (AtomicBool::new(false), AtomicU32::new(0));
    let busy = std::thread::scope(|scope| {
        let writer = scope.spawn(|| -> Result<()> {
            while !stop.load(Ordering::Relaxed) {
                database.checkpoint_at(CHECKPOINT_BYTES_PER_S)?;
                written.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        let enough = || written.load(Ordering::Relaxed) > 0 || writer.is_finished();
        let updated = updates(&database, options, size, enough);
        stop.store(true, Ordering::Relaxed);
        writer.join().expect("no panic")?;
        updated
    })?;
    let again = updates(&database, options, size, || true)?;
    let params = json!({"part": "checkpoint", "rows": size.rows, "seconds": options.seconds});
    let mut arm = Arm::new("durability", "halcyon", params);
    let phases = [("quiet", &quiet), ("checkpoint", &busy), ("quiet_again", &again)];
    for (name, (latencies, _)) in phases {
        for (quantile, digits) in [(0.5, "p50"), (0.99, "p99"), (0.999, "p999")] {
            let us = latencies.value_at_quantile(quantile) as f64 / 1e3;
            arm.rounded(&format!("update_us_{name}_{digits}"), us);
        }
    }
    arm.figure("checkpoints", written.load(Ordering::Relaxed));
    let after = sums(&mut database.session())?.1;
    if after != before + quiet.1 + busy.1 + again.1 {
        arm.check = Failure::WrongAnswer("updates were lost".into()).to_string();
    }
    Ok(arm)
}

/// The default limit of checkpoints in the background.
const CHECKPOINT_BYTES_PER_S: u64 = 128 << 20;

/// Updates rows for the requested time, and until `enough` holds.
fn updates(
    database: &Database,
    options: &Options,
    size: Size,
    enough: impl Fn() -> bool,
) -> Result<(Histogram<u64>, i64)> {
    let mut session = database.session();
    session.set("synchronous_commit", "off")?;
    let update = session.prepare("UPDATE item SET amount = amount + 1 WHERE id = $1")?;
    let (mut latencies, mut rng, mut done) = (measure::latencies(), Rng::new(1), 0);
    let (began, time) = (Instant::now(), measure::seconds(options.seconds));
    while began.elapsed() < time || !enough() {
        let id = rng.below(u64::from(size.rows)) as i64;
        let before = Instant::now();
        session.execute(&update, &[id.into_value()])?;
        latencies.saturating_record(before.elapsed().as_nanos() as u64);
        done += 1;
    }
    Ok((latencies, done))
}
