//! SQL in, rows out: SQLite's corpus of queries, and our own files in `tests/sql`.
//!
//! Every file runs twice: with point plans, and with everything vectorised
//! (`halcyon.point_plans`); both must say the same. The corpus is looked for in `HALCYON_SLT_DIR`,
//! then in `../shared/slt` beside the repository; without it only our own files run, and the test
//! says so. What fails for a reason stands in `tests/sql/known_failures.txt`, one line each:
//! `file:line reason`; it must stay below one record in a hundred, and a record that passes must
//! not stand there.
//!
//! Values are written as SQLite's test program writes them in its files (three places for reals,
//! `(empty)`), and as PostgreSQL shows them in ours.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use halcyon::{Database, Session, SqlError, SqlState, SqlType, ValueRef, coerce};
use sqllogictest::{
    DB, DBOutput, DefaultColumnType, Record, ResultMode, Runner, parse_file,
    parser::{Control, QueryExpect},
};

/// How the values of a file are written.
#[derive(Clone, Copy, PartialEq)]
enum Style {
    Sqlite,
    Postgres,
}

struct Engine {
    session: Session,
    style: Style,
    /// Column types that the record about to run expects.
    types: Arc<Mutex<Vec<DefaultColumnType>>>,
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
        let expected = self.types.lock().expect("no panic").clone();
        let mut out = Vec::new();
        while let Some(row) = rows.next().map_err(Failure)? {
            let cells = (0..row.len()).map(|column| {
                let ty = columns[column].ty.unwrap_or(SqlType::Text);
                match self.style {
                    Style::Postgres => postgres(row.value(column), ty),
                    Style::Sqlite => sqlite(row.value(column), ty, expected.get(column)),
                }
            });
            out.push(cells.collect());
        }
        let types = match self.style {
            Style::Sqlite => expected,
            Style::Postgres => vec![DefaultColumnType::Any; columns.len()],
        };
        Ok(DBOutput::Rows { types, rows: out })
    }

    fn engine_name(&self) -> &str {
        "postgresql"
    }

    fn error_sql_state(error: &Failure) -> Option<String> {
        Some(error.0.state().to_string())
    }
}

fn postgres(value: ValueRef<'_>, ty: SqlType) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Text("") => "(empty)".to_owned(),
        value => coerce::to_text(value, ty, &coerce::zone::TimeZone::UTC),
    }
}

fn sqlite(value: ValueRef<'_>, ty: SqlType, expected: Option<&DefaultColumnType>) -> String {
    let text = postgres(value, ty);
    if value.is_null() {
        return text;
    }
    let number = || match value {
        ValueRef::Bool(value) => Some(f64::from(u8::from(value))),
        _ => text.parse::<f64>().ok(),
    };
    match (expected, number()) {
        (Some(DefaultColumnType::FloatingPoint), Some(number)) => format!("{number:.3}"),
        (Some(DefaultColumnType::Integer), Some(number)) => match text.parse::<i64>() {
            Ok(whole) => whole.to_string(),
            Err(_) => format!("{}", number as i64),
        },
        (Some(DefaultColumnType::Integer), None) => "0".to_owned(),
        _ => text,
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// SQLite's corpus, which is run on request only: correlated subqueries without an equality, which
/// it is full of, are not supported (docs/testing.md).
fn corpus() -> Option<PathBuf> {
    std::env::var_os("HALCYON_SLT_DIR").map(PathBuf::from).filter(|path| path.is_dir())
}

fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        folder.read_dir().expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, ending, found);
        } else if path.extension().is_some_and(|found| found == ending) {
            found.push(path);
        }
    }
}

/// `file:line` → reason.
fn known_failures(file: &str) -> BTreeMap<String, String> {
    let path = repository().join("tests/sql").join(file);
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (place, reason) = line.split_once(' ').expect("a place and a reason");
            (place.to_owned(), reason.to_owned())
        })
        .collect()
}

#[derive(Default)]
struct Tally {
    records: usize,
    failed: BTreeMap<String, String>,
}

fn run_file(path: &Path, name: &str, style: Style, point_plans: bool, tally: &mut Tally) {
    let types = Arc::new(Mutex::new(Vec::new()));
    let database = Database::in_memory();
    let make = || {
        let mut session = database.session();
        let setting = if point_plans { "on" } else { "off" };
        session.set("halcyon.point_plans", setting).expect("a setting of ours");
        let types = Arc::clone(&types);
        async move { Ok(Engine { session, style, types }) }
    };
    let mut runner = Runner::new(make);
    if style == Style::Sqlite {
        let mode = Control::ResultMode(ResultMode::ValueWise);
        runner.run(Record::Control(mode)).expect("a mode");
    }
    for record in parse_file::<DefaultColumnType>(path).expect(name) {
        let place = match &record {
            Record::Statement { loc, .. } => Some(loc.line()),
            Record::Query { loc, expected, .. } => {
                if let QueryExpect::Results { types: expected, .. } = expected {
                    *types.lock().expect("no panic") = expected.clone();
                }
                Some(loc.line())
            }
            Record::Halt { .. } => break,
            _ => None,
        };
        tally.records += usize::from(place.is_some());
        if let (Err(error), Some(line)) = (runner.run(record), place) {
            tally.failed.insert(format!("{name}:{line}"), error.kind().to_string());
        }
    }
}

fn run(folder: &Path, ending: &str, style: Style) -> Tally {
    let mut paths = Vec::new();
    files(folder, ending, &mut paths);
    assert!(!paths.is_empty(), "no *.{ending} in {}", folder.display());
    let mut tally = Tally::default();
    let only = std::env::var("HALCYON_SLT_ONLY").ok();
    for path in paths {
        let name = path.strip_prefix(folder).expect("below the folder").display().to_string();
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        for point_plans in [true, false] {
            run_file(&path, &name, style, point_plans, &mut tally);
        }
    }
    tally
}

fn judge(tally: Tally, known: &BTreeMap<String, String>) {
    let failed: BTreeSet<&String> = tally.failed.keys().collect();
    let unexpected: Vec<String> = failed
        .iter()
        .filter(|place| !known.contains_key(**place))
        .map(|place| format!("{place}: {}", tally.failed[*place]))
        .collect();
    println!("{} records, {} fail, {} of them known", tally.records, failed.len(), known.len());
    assert!(
        unexpected.is_empty(),
        "{} records fail:\n{}",
        unexpected.len(),
        unexpected.iter().take(40).cloned().collect::<Vec<_>>().join("\n")
    );
    let repaired: Vec<&String> = known.keys().filter(|place| !failed.contains(*place)).collect();
    let whole = std::env::var_os("HALCYON_SLT_ONLY").is_none();
    assert!(repaired.is_empty() || !whole, "these pass now; take them off the list: {repaired:?}");
    assert!(known.len() * 100 <= tally.records.max(1), "the list is longer than one in a hundred");
}

#[test]
fn own_files_pass_on_every_executor() {
    let tally = run(&repository().join("tests/sql"), "slt", Style::Postgres);
    judge(tally, &known_failures("known_failures.txt"));
}

#[test]
fn sqlites_corpus_passes_on_every_executor_if_it_is_asked_for() {
    let Some(corpus) = corpus() else {
        println!("no corpus here: set HALCYON_SLT_DIR; only tests/sql was run");
        return;
    };
    judge(run(&corpus, "test", Style::Sqlite), &known_failures("corpus_known_failures.txt"));
}

#[test]
fn a_wrong_answer_is_seen() {
    let folder = std::env::temp_dir().join(format!("halcyon-slt-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("canary.slt");
    std::fs::write(&path, "query I\nSELECT 1\n----\n2\n").expect("a file");
    let tally = run(&folder, "slt", Style::Postgres);
    std::fs::remove_dir_all(&folder).expect("removed");
    assert_eq!((tally.records, tally.failed.len()), (2, 1));
}
