//! SQL in, rows out: SQLite's corpus of queries, and our own files in `tests/sql`.
//!
//! Every file runs with point plans, and with everything vectorised (`halcyon.point_plans`); our own also with point
//! plans that go on as scans once they have visited a row (`halcyon.point_visits`). All must say the same. A part of SQLite's corpus lies in
//! `tests/sql/corpus`; `HALCYON_SLT_DIR` names the whole of it. What fails for a reason stands in
//! `tests/sql/known_failures.txt` and `corpus_known_failures.txt`, one line each:
//! `file:line reason`; it must stay below one record in a hundred, and a record that passes must
//! not stand there.

#[path = "slt/corpus.rs"]
mod corpus;

use std::path::Path;
use std::sync::{Arc, Mutex};

use corpus::{Expected, Style, Tally, judge, known_failures, repository};
use halcyon::{
    Database, DatabaseOptions, Session, SqlError, SqlState, SqlType, TextFormat, Workers,
};
use sqllogictest::{DB, DBOutput, DefaultColumnType};

struct Engine {
    session: Session,
    style: Style,
    expected: Expected,
}

#[derive(Debug)]
struct Failure(SqlError);

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Failure {}

impl DB for Engine {
    type Error = Failure;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failure> {
        let mut rows = match self.session.query(sql, &[]) {
            Ok(rows) => rows,
            Err(error) if error.state() == SqlState::NO_DATA => {
                return Ok(DBOutput::StatementComplete(0));
            }
            Err(error) => return Err(Failure(error)),
        };
        let columns = Arc::clone(rows.columns());
        if columns.is_empty() {
            return Ok(DBOutput::StatementComplete(0));
        }
        let types = self.style.types(&self.expected, columns.len());
        let mut out = Vec::new();
        while let Some(row) = rows.next().map_err(Failure)? {
            let cells = (0..row.len()).map(|column| {
                let (value, ty) = (row.value(column), columns[column].ty.unwrap_or(SqlType::Text));
                let text = (!value.is_null()).then(|| TextFormat::default().text(value, ty));
                self.style.shown(text.as_deref(), types.get(column))
            });
            out.push(cells.collect());
        }
        Ok(DBOutput::Rows { types, rows: out })
    }

    fn engine_name(&self) -> &str {
        "postgresql"
    }

    fn error_sql_state(error: &Failure) -> Option<String> {
        Some(error.0.state().to_string())
    }
}

/// How a file's queries run.
type Settings<'a> = &'a [(&'a str, &'a str)];

const POINT_PLANS: Settings<'_> = &[];
const CHANGING_OVER: Settings<'_> = &[("halcyon.point_visits", "1")];
const VECTORISED: Settings<'_> = &[("halcyon.point_plans", "off")];

fn run_file(path: &Path, name: &str, style: Style, settings: Settings<'_>) -> Tally {
    run_file_in(&Database::in_memory(), path, name, style, settings)
}

fn run_file_in(
    database: &Database,
    path: &Path,
    name: &str,
    style: Style,
    settings: Settings<'_>,
) -> Tally {
    let expected = Arc::new(Mutex::new(Vec::new()));
    corpus::run_file(path, name, style, &expected, || {
        let mut session = database.session();
        for (name, value) in settings {
            session.set(name, value).expect("a setting of ours");
        }
        let expected = Arc::clone(&expected);
        async move { Ok(Engine { session, style, expected }) }
    })
}

/// Each file with these settings, one after the other.
fn run(folder: &Path, ending: &str, style: Style, all: &[Settings<'_>]) -> Tally {
    corpus::run_folder(folder, ending, |path, name| {
        let mut tally = Tally::default();
        all.iter().for_each(|settings| tally.add(run_file(path, name, style, settings)));
        tally
    })
}

#[test]
fn own_files_pass_on_every_executor() {
    let all = [POINT_PLANS, CHANGING_OVER, VECTORISED];
    let tally = run(&repository().join("tests/sql"), "slt", Style::Postgres, &all);
    judge(&tally, &known_failures("known_failures.txt"));
}

#[test]
fn sqlites_corpus_passes_on_every_executor() {
    let folder = corpus::whole_corpus().unwrap_or_else(|| repository().join("tests/sql/corpus"));
    let tally = run(&folder, "test", Style::Sqlite, &[POINT_PLANS, VECTORISED]);
    judge(&tally, &known_failures("corpus_known_failures.txt"));
}

/// Files whose statements have exchanges, joins, groups, sorts and subqueries.
const OF_SCHEDULES: &[&str] =
    &["aggregates", "correlated", "ctes", "joins", "lateral", "nulls", "subqueries", "windows"];

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Vectorised statements on the deterministic twin of the workers, whose tasks take turns in an order that a seed decides:
/// a task that is forgotten is an error of its statement, and what fails comes back with its seed.
#[test]
fn own_files_pass_in_the_schedules_of_seeds() {
    let first = variable("HALCYON_SCHEDULE_SEED").unwrap_or(1);
    let count = variable("HALCYON_SCHEDULE_SEEDS").unwrap_or(1);
    for seed in first..first + count {
        let tally = corpus::run_folder(&repository().join("tests/sql"), "slt", |path, name| {
            let is_wanted = path.file_stem().is_some_and(|stem| {
                OF_SCHEDULES.iter().any(|wanted| stem.to_str() == Some(*wanted))
            });
            if !is_wanted {
                return Tally::default();
            }
            let workers = Workers { count: 3, simulated: Some(seed), ..Workers::default() };
            let options = DatabaseOptions { threads: 4, workers, ..DatabaseOptions::default() };
            let database = Database::with_options(options);
            run_file_in(&database, path, name, Style::Postgres, VECTORISED)
        });
        assert!(tally.run > 300, "{} records", tally.run);
        assert!(tally.failed.is_empty(), "HALCYON_SCHEDULE_SEED={seed}: {:#?}", tally.failed);
    }
}

#[test]
fn a_wrong_answer_is_seen() {
    let folder = std::env::temp_dir().join(format!("halcyon-slt-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("canary.test");
    let hashed = |hash| format!("query II\nSELECT 1, 1\n----\n2 values hashing to {hash}\n\n");
    let right = hashed("f2160c8ffedf48068f2e1137e0a3a7e7");
    let wrong = hashed("26ab0db90d72e28ad0ba1e22ee510510");
    std::fs::write(&path, format!("query I\nSELECT 1\n----\n2\n\n{right}{wrong}")).expect("a file");
    let tally = run_file(&path, "canary", Style::Sqlite, POINT_PLANS);
    std::fs::remove_dir_all(&folder).expect("removed");
    let failed: Vec<&str> = tally.failed.keys().map(String::as_str).collect();
    assert_eq!((tally.run, failed), (3, vec!["canary:1", "canary:11"]));
}
