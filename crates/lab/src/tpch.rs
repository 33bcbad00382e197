//! TPC-H: the 22 queries, Halcyon beside DataFusion on its own in-memory tables.
//!
//! Data come from `tpchgen`, in this process, the same rows for both engines. Halcyon loads them by
//! COPY into tables with primary keys. DataFusion gets them as a `MemTable`, split over its target
//! partitions. Halcyon's analytical plans run on DataFusion, so the difference is the cost of
//! Halcyon's storage and session. Each query runs `--repeat` times per arm, arms taking turns, and
//! its best time counts.
//!
//! Checked: both arms' rows are compared, query by query (`halcyon_neighbours::answers`). DuckDB's answers are
//! compared by `lab/duckdb_tpch.py`, from the files of `--export` and `--write-results`.
//!
//! With `--memory` and `--spill` Halcyon's queries have so much memory each and a folder for what exceeds it: the figures
//! then say which queries went on in files, and how many megabytes they wrote in their last run.

mod data;
mod export;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::{Args, ValueEnum};
use halcyon::{Database, DatabaseOptions, Session, SpillCounts, SpillFolder};
use halcyon_neighbours::answers::{self, Answer};
use halcyon_neighbours::twin::DataFusion;
use serde_json::json;

use crate::measure::Rounds;
use crate::point::positive;
use crate::{Arm, Failure, Reporter, Result};

pub(crate) use data::query;

/// Options of `halcyon lab tpch`.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// Scale factor
    #[arg(long, default_value_t = 1.0, value_parser = positive)]
    pub sf: f64,
    /// Times each query runs per arm
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// Only these queries, as in 1,6,21
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=22))]
    pub queries: Vec<u8>,
    /// Only these arms
    #[arg(long, value_enum, value_delimiter = ',')]
    pub arms: Vec<Engine>,
    /// Threads that a query may use; 0 means all cores
    #[arg(long, default_value_t = 0)]
    pub threads: usize,
    /// Memory that a query of Halcyon may take, as `halcyon.memory`: 256MB
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// Folder for what a query of Halcyon cannot hold in memory
    #[arg(long, value_name = "DIR")]
    pub spill: Option<PathBuf>,
    /// Write Halcyon's answers to DIR, as q01.csv to q22.csv
    #[arg(long, value_name = "DIR")]
    pub write_results: Option<PathBuf>,
    /// Write the data to DIR, as one Parquet file per table
    #[arg(long, value_name = "DIR")]
    pub export: Option<PathBuf>,
}

/// The engines of this experiment.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Halcyon, embedded
    Halcyon,
    /// DataFusion over its own in-memory tables
    Datafusion,
}

/// An engine with the data in it.
trait Subject {
    fn run(&mut self, text: &str) -> Result<Answer>;
}

impl Subject for Session {
    fn run(&mut self, text: &str) -> Result<Answer> {
        Ok(Answer::of(self, text)?)
    }
}

impl Subject for DataFusion {
    fn run(&mut self, text: &str) -> Result<Answer> {
        Ok(DataFusion::run(self, text)?)
    }
}

/// A session of a new database with the tables, and the folder that its queries may spill into.
fn halcyon(options: &Options) -> Result<(Session, Option<Arc<SpillFolder>>)> {
    let mut setup = DatabaseOptions::default();
    if let Some(folder) = &options.spill {
        setup.spill_into(folder)?;
    }
    let folder = setup.spill.clone();
    let mut session = Database::with_options(setup).session();
    halcyon_tpch::load(&mut session, options.sf, &mut |_, _| {})?;
    if options.threads > 0 {
        session.set("halcyon.threads", &options.threads.to_string())?;
    }
    if let Some(memory) = &options.memory {
        session.set("halcyon.memory", memory)?;
    }
    Ok((session, folder))
}

/// DataFusion with the tables.
fn datafusion(options: &Options) -> Result<DataFusion> {
    let engine = DataFusion::new(options.threads)?;
    for table in &data::ARROW_TABLES {
        engine.add(table.name, (table.schema)(), table.batches(options.sf))?;
    }
    Ok(engine)
}

/// An arm while it is being measured.
struct Measured {
    engine: Engine,
    subject: Box<dyn Subject>,
    /// Times of each chosen query in milliseconds; `failures` has the errors.
    times: Vec<Rounds>,
    answers: Vec<Option<Answer>>,
    failures: Vec<Option<Failure>>,
    /// The folder that queries may spill into.
    folder: Option<Arc<SpillFolder>>,
    /// Files and bytes that each chosen query wrote in its last run.
    spilled: Vec<(u64, u64)>,
}

/// Runs the experiment.
pub fn run(options: &Options, reporter: &mut Reporter) -> Result<()> {
    if let Some(folder) = &options.export {
        reporter.progress(format_args!("writing data to {}", folder.display()));
        export::export(folder, options.sf)?;
    }
    let numbers: Vec<usize> = match options.queries.as_slice() {
        [] => (1..=22).collect(),
        chosen => chosen.iter().map(|number| usize::from(*number)).collect(),
    };
    let engines = match options.arms.as_slice() {
        [] => Engine::value_variants(),
        chosen => chosen,
    };
    let mut arms = Vec::new();
    for &engine in engines {
        reporter.progress(format_args!("{engine:?}: loading scale factor {}", options.sf));
        arms.push(Measured::load(engine, options, numbers.len())?);
    }
    for (place, &number) in numbers.iter().enumerate() {
        reporter.progress(format_args!("query {number}"));
        for round in 0..options.repeat as usize {
            for turn in 0..arms.len() {
                let count = arms.len();
                arms[(turn + round) % count].time(place, query(number));
            }
        }
    }
    compare_arms(&mut arms);
    if let (Some(folder), Some(arm)) = (&options.write_results, arms.first()) {
        arm.write_results(folder, &numbers)?;
    }
    for arm in &arms {
        arm.report(options, &numbers, reporter);
    }
    Ok(())
}

/// Compares the first arm's answers with the other arms', and notes differences as failures.
fn compare_arms(arms: &mut [Measured]) {
    let Some((first, others)) = arms.split_first_mut() else { return };
    for other in others {
        for place in 0..first.answers.len() {
            let (Some(left), Some(right)) = (&first.answers[place], &other.answers[place]) else {
                continue;
            };
            if let Err(difference) = answers::same(left, right) {
                // It is not known which arm is wrong, so neither counts as right.
                let failure = Failure::WrongAnswer(format!("the arms differ: {difference}"));
                first.failures[place] = Some(failure.clone());
                other.failures[place] = Some(failure);
            }
        }
    }
}

impl Measured {
    fn load(engine: Engine, options: &Options, queries: usize) -> Result<Self> {
        let (subject, folder): (Box<dyn Subject>, _) = match engine {
            Engine::Halcyon => {
                let (session, folder) = halcyon(options)?;
                (Box::new(session), folder)
            }
            Engine::Datafusion => (Box::new(datafusion(options)?), None),
        };
        Ok(Measured {
            engine,
            subject,
            times: vec![Rounds::default(); queries],
            answers: (0..queries).map(|_| None).collect(),
            failures: vec![None; queries],
            folder,
            spilled: vec![(0, 0); queries],
        })
    }

    /// Runs a query once, and times it; does nothing once the query has failed.
    fn time(&mut self, place: usize, text: &str) {
        if self.failures[place].is_some() {
            return;
        }
        let counts = |folder: &Option<Arc<SpillFolder>>| {
            folder.as_ref().map_or(SpillCounts::default(), |folder| folder.counts())
        };
        let before = counts(&self.folder);
        let start = Instant::now();
        let answer = self.subject.run(text);
        self.times[place].push(start.elapsed().as_secs_f64() * 1000.0);
        let after = counts(&self.folder);
        let bytes = after.bytes_written - before.bytes_written;
        self.spilled[place] = (after.files_made - before.files_made, bytes);
        match answer {
            Ok(answer) => self.answers[place] = Some(answer),
            Err(failure) => self.failures[place] = Some(failure),
        }
    }

    fn write_results(&self, folder: &Path, numbers: &[usize]) -> Result<()> {
        fs::create_dir_all(folder)?;
        for (answer, number) in self.answers.iter().zip(numbers) {
            if let Some(answer) = answer {
                fs::write(folder.join(format!("q{number:02}.csv")), answer.csv()?)?;
            }
        }
        Ok(())
    }

    /// Reports one object per query, then one for the total.
    fn report(&self, options: &Options, numbers: &[usize], reporter: &mut Reporter) {
        let engine = format!("{:?}", self.engine).to_lowercase();
        let mut params = json!({
            "sf": options.sf, "repeat": options.repeat, "threads": options.threads,
        });
        if self.engine == Engine::Halcyon {
            params["memory"] = options.memory.as_deref().into();
            params["spill"] = self.folder.is_some().into();
        }
        let mut total_ms = 0.0;
        let mut wrong = Vec::new();
        for (place, number) in numbers.iter().enumerate() {
            let times = &self.times[place];
            let mut arm = Arm::new("tpch", &engine, params.clone());
            arm.figure("query", *number);
            arm.rounded("best_ms", times.best());
            arm.rounded("spread", times.spread());
            arm.figure("rows", self.answers[place].as_ref().map_or(0, Answer::row_count));
            if self.folder.is_some() {
                let (files, bytes) = self.spilled[place];
                arm.figure("spilled_files", files);
                arm.rounded("spilled_mb", bytes as f64 / f64::from(1 << 20));
            }
            if let Some(failure) = &self.failures[place] {
                arm.check = failure.to_string();
                wrong.push(number.to_string());
            }
            total_ms += times.best();
            reporter.arm(arm);
        }
        let mut arm = Arm::new("tpch", &engine, params);
        arm.figure("queries", numbers.len());
        arm.rounded("total_ms", total_ms);
        if self.folder.is_some() {
            let spilled = numbers.iter().zip(&self.spilled).filter(|(_, (_, bytes))| *bytes > 0);
            let spilled: Vec<String> = spilled.map(|(number, _)| number.to_string()).collect();
            arm.figure("spilled_queries", spilled.join(", "));
        }
        if !wrong.is_empty() {
            arm.check = format!("queries {} failed", wrong.join(", "));
        }
        reporter.arm(arm);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_queries_agree_between_the_arms_at_a_tiny_scale() {
        let folder = std::env::temp_dir().join(format!("halcyon-tpch-{}", std::process::id()));
        let options = Options {
            sf: 0.01,
            repeat: 1,
            queries: Vec::new(),
            arms: Vec::new(),
            threads: 2,
            memory: Some("900kB".to_owned()),
            spill: Some(folder.join("spilled")),
            write_results: Some(folder.join("results")),
            export: Some(folder.join("data")),
        };
        let mut reporter = Reporter::new(true);
        run(&options, &mut reporter).unwrap();
        let wrong: Vec<_> = reporter.arms().iter().filter(|arm| arm.check != "ok").collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert_eq!(reporter.arms().len(), 2 * (22 + 1));
        let spilled = reporter.arms()[22].figures["spilled_queries"].as_str().expect("a text");
        assert!(spilled.split(", ").any(|number| number == "9"), "{spilled} spilled");
        let ninth = &reporter.arms()[8].figures;
        assert!(ninth["spilled_files"].as_u64() > Some(0), "{ninth:?}");
        assert!(
            reporter.arms()[23].figures.get("spilled_mb").is_none(),
            "DataFusion has no folder"
        );
        let answer = fs::read_to_string(folder.join("results/q04.csv")).unwrap();
        assert!(answer.starts_with("o_orderpriority,order_count\n1-URGENT,"), "{answer}");
        assert!(fs::metadata(folder.join("data/lineitem.parquet")).unwrap().len() > 100_000);
        fs::remove_dir_all(folder).unwrap();
    }
}
