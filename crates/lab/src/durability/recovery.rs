//! Recovery beside reading the same bytes by hand, and updates while a checkpoint is written.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use halcyon::{Database, IntoValue, Session};
use halcyon_base::rng::Rng;
use hdrhistogram::Histogram;
use serde_json::json;

use super::Options;
use crate::measure;
use crate::report::{Arm, Reporter};
use crate::{Failure, Result};

/// Rows that one transaction updates while the log is filled.
const BATCH: u32 = 1_000;
const TEXT: &str = "forty characters that are in no view, no.";

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Runs both parts.
pub fn run(options: &Options, folder: &Path, reporter: &mut Reporter) -> Result<()> {
    let folder = folder.join("recovery");
    reporter.progress(format_args!("recovery: filling {} rows", options.rows));
    fill(options, &folder)?;
    reporter.progress("recovery: opening");
    let (arm, bytes) = recovered(options, &folder)?;
    reporter.arm(arm);
    reporter.arm(bare(options, &folder, bytes)?);
    reporter.progress("updates while checkpoints are written");
    reporter.arm(checkpoint(options, &folder)?);
    Ok(())
}

/// A checkpoint with all rows, and a log in which each is updated.
fn fill(options: &Options, folder: &Path) -> Result<()> {
    let database = Database::open(folder)?;
    let mut session = database.session();
    session.execute(
        "CREATE TABLE item (id BIGINT PRIMARY KEY, amount BIGINT, name TEXT)
         WITH (partition_by = 'id', partitions = 4)",
        &[],
    )?;
    let fill = format!(
        "INSERT INTO item SELECT n, n, '{TEXT}' FROM generate_series(0, {}) n",
        options.rows - 1
    );
    session.execute(fill.as_str(), &[])?;
    database.checkpoint()?;
    let update = session
        .prepare("UPDATE item SET amount = amount + 1, name = $3 WHERE id >= $1 AND id < $2")?;
    for first in (0..options.rows).step_by(BATCH as usize) {
        let (from, to) = (i64::from(first), i64::from(first + BATCH));
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

fn recovered(options: &Options, folder: &Path) -> Result<(Arm, u64)> {
    let began = Instant::now();
    let database = Database::open(folder)?;
    let took = began.elapsed();
    let opened = database.opened().expect("it is on disk");
    let bytes = opened.checkpoint_bytes + opened.log_bytes;
    let params = json!({"part": "recovery", "rows": options.rows});
    let mut arm = Arm::new("durability", "halcyon", params);
    arm.rounded("recovery_mb_per_s", mb(bytes) / took.as_secs_f64());
    arm.rounded("seconds", took.as_secs_f64());
    arm.rounded("checkpoint_mb", mb(opened.checkpoint_bytes));
    arm.rounded("log_mb", mb(opened.log_bytes));
    arm.rounded("loading_s", opened.loading.as_secs_f64());
    arm.rounded("replaying_s", opened.replaying.as_secs_f64());
    arm.rounded("indexing_s", opened.indexing.as_secs_f64());
    let rows = i64::from(options.rows);
    let found = sums(&mut database.session())?;
    if found != (rows, rows * (rows - 1) / 2 + rows) {
        arm.check = Failure::WrongAnswer(format!("rows and sum are {found:?}")).to_string();
    }
    Ok((arm, bytes))
}

/// Reads every file, and builds a map of as many rows twice over: once for the checkpoint's rows,
/// once for the log's.
fn bare(options: &Options, folder: &Path, bytes: u64) -> Result<Arm> {
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
    for id in 0..i64::from(options.rows) {
        rows.insert(id, (id, TEXT.into()));
    }
    for id in 0..i64::from(options.rows) {
        if let Some(row) = rows.get_mut(&id) {
            *row = (row.0 + 1, TEXT.into());
        }
    }
    let took = began.elapsed();
    let params = json!({"part": "recovery", "rows": options.rows});
    let mut arm = Arm::new("durability", "bare", params);
    arm.rounded("recovery_mb_per_s", mb(bytes) / took.as_secs_f64());
    arm.rounded("seconds", took.as_secs_f64());
    if read < bytes || rows.len() != options.rows as usize {
        arm.check = Failure::WrongAnswer(format!("{read} bytes were read")).to_string();
    }
    Ok(arm)
}

/// Latencies of single updates that are not waited for, without and during checkpoints.
fn checkpoint(options: &Options, folder: &Path) -> Result<Arm> {
    let database = Database::open(folder)?;
    let before = sums(&mut database.session())?.1;
    let (quiet, done) = updates(&database, options)?;
    let (stop, written) = (AtomicBool::new(false), AtomicU32::new(0));
    let (busy, more) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| -> Result<()> {
            while !stop.load(Ordering::Relaxed) {
                database.checkpoint_at(CHECKPOINT_BYTES_PER_S)?;
                written.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        let updated = updates(&database, options);
        stop.store(true, Ordering::Relaxed);
        writer.join().expect("no panic")?;
        updated
    })?;
    let params = json!({"part": "checkpoint", "rows": options.rows, "seconds": options.seconds});
    let mut arm = Arm::new("durability", "halcyon", params);
    for (name, latencies) in [("quiet", &quiet), ("checkpoint", &busy)] {
        for (quantile, digits) in [(0.5, "p50"), (0.99, "p99"), (0.999, "p999")] {
            let us = latencies.value_at_quantile(quantile) as f64 / 1e3;
            arm.rounded(&format!("update_us_{name}_{digits}"), us);
        }
    }
    arm.figure("checkpoints", written.load(Ordering::Relaxed));
    let after = sums(&mut database.session())?.1;
    if after != before + done + more {
        arm.check = Failure::WrongAnswer("updates were lost".into()).to_string();
    }
    Ok(arm)
}

/// What checkpoints in the background keep to by default.
const CHECKPOINT_BYTES_PER_S: u64 = 128 << 20;

fn updates(database: &Database, options: &Options) -> Result<(Histogram<u64>, i64)> {
    let mut session = database.session();
    session.set("synchronous_commit", "off")?;
    let update = session.prepare("UPDATE item SET amount = amount + 1 WHERE id = $1")?;
    let (mut latencies, mut rng, mut done) = (measure::latencies(), Rng::new(1), 0);
    let (began, time) = (Instant::now(), measure::seconds(options.seconds));
    while began.elapsed() < time {
        let id = rng.below(u64::from(options.rows)) as i64;
        let before = Instant::now();
        session.execute(&update, &[id.into_value()])?;
        latencies.saturating_record(before.elapsed().as_nanos() as u64);
        done += 1;
    }
    Ok((latencies, done))
}
