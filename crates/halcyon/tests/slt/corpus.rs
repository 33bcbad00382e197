//! Files of SQL in and rows out, run over any engine: how values are written, what is compared,
//! what is counted, which failures are known. `tests/slt.rs` runs them embedded; the server's tests
//! include this file and run them over the wire.
//!
//! Values are written as SQLite's test program writes them in its files (three places for reals,
//! `(empty)`), and as PostgreSQL shows them in ours. A result of SQLite's that is given as
//! `N values hashing to H` is compared by hash: MD5 over the values in the order that the record
//! asks for, a newline after each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use sqllogictest::{
    AsyncDB, DefaultColumnType, MakeConnection, Record, RecordOutput, ResultMode, Runner,
    parser::{Control, QueryExpect, parse_with_name},
};

/// Records from which on the share of known failures says something.
const RECORDS_FOR_SHARE: usize = 50_000;

/// How the values of a file are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Style {
    /// As SQLite's corpus is written.
    Sqlite,
    /// As PostgreSQL shows values.
    Postgres,
}

/// Column types that the record about to run expects.
pub type Expected = Arc<Mutex<Vec<DefaultColumnType>>>;

impl Style {
    /// A value, given as text or NULL, as the files of this style write it.
    pub fn shown(self, text: Option<&str>, expected: Option<&DefaultColumnType>) -> String {
        let Some(text) = text else { return "NULL".to_owned() };
        let number = || match text {
            "t" => Some(1.0),
            "f" => Some(0.0),
            text => text.parse::<f64>().ok(),
        };
        match (self, expected) {
            (Style::Sqlite, Some(DefaultColumnType::FloatingPoint)) => match number() {
                Some(number) => format!("{number:.3}"),
                None => "0.000".to_owned(),
            },
            (Style::Sqlite, Some(DefaultColumnType::Integer)) => match text.parse::<i64>() {
                Ok(whole) => whole.to_string(),
                Err(_) => format!("{}", number().unwrap_or(0.0) as i64),
            },
            _ if text.is_empty() => "(empty)".to_owned(),
            _ => text.to_owned(),
        }
    }

    /// Types of a result's columns as the runner is told them.
    pub fn types(self, expected: &Expected, columns: usize) -> Vec<DefaultColumnType> {
        match self {
            Style::Sqlite => expected.lock().expect("no panic").clone(),
            Style::Postgres => vec![DefaultColumnType::Any; columns],
        }
    }
}

/// The repository's root.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// The whole of SQLite's corpus, if somebody has it: it is too large to lie in the repository.
pub fn whole_corpus() -> Option<PathBuf> {
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

/// `file:line` → reason, from a list in `tests/sql`.
pub fn known_failures(file: &str) -> BTreeMap<String, String> {
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

/// What became of the records of one or more files.
#[derive(Default)]
pub struct Tally {
    /// Records that were run.
    pub run: usize,
    /// Records that are not for engines like ours (`skipif postgresql`, `onlyif sqlite`).
    pub skipped: usize,
    /// Names of the files.
    pub files: BTreeSet<String>,
    /// `file:line` → what was wrong.
    pub failed: BTreeMap<String, String>,
}

impl Tally {
    /// Whether a place, `file:line`, lies in a file that was run.
    fn has(&self, place: &str) -> bool {
        place.rsplit_once(':').is_some_and(|(file, _)| self.files.contains(file))
    }

    /// Adds what became of others.
    pub fn add(&mut self, other: Tally) {
        self.run += other.run;
        self.skipped += other.skipped;
        self.files.extend(other.files);
        self.failed.extend(other.failed);
    }
}

/// The text of a file as the parser takes it, line by line: conditions lose their comments, and a
/// `halt` stays only if its condition holds for an engine that calls itself `postgresql`.
fn script(path: &Path) -> String {
    let text = std::fs::read_to_string(path).expect("a file of text");
    let mut lines: Vec<&str> = text.lines().collect();
    let mut conditions = Vec::new();
    for at in 0..lines.len() {
        let mut words = lines[at].split_whitespace();
        match (words.next(), words.next()) {
            (Some("onlyif" | "skipif"), Some(_)) => {
                lines[at] = lines[at].split('#').next().unwrap_or_default();
                conditions.push(at);
                continue;
            }
            (Some("halt"), None) if !conditions.is_empty() => {
                let ours = |line: &str| {
                    let mut words = line.split_whitespace();
                    (words.next() == Some("onlyif")) == (words.next() == Some("postgresql"))
                };
                let halts = conditions.iter().all(|&at| ours(lines[at]));
                conditions.iter().for_each(|&at| lines[at] = "");
                if !halts {
                    lines[at] = "";
                }
            }
            _ => {}
        }
        conditions.clear();
    }
    lines.join("\n")
}

/// Whether a result is given by its hash.
fn is_hash(results: &[String]) -> bool {
    matches!(results, [line] if line.contains(" values hashing to "))
}

/// Runs one file on connections that `make` opens.
pub fn run_file<D, M>(path: &Path, name: &str, style: Style, expected: &Expected, make: M) -> Tally
where
    D: AsyncDB<ColumnType = DefaultColumnType>,
    M: MakeConnection<Conn = D>,
{
    let mut tally = Tally { files: BTreeSet::from([name.to_owned()]), ..Tally::default() };
    let mut runner = Runner::new(make);
    if style == Style::Sqlite {
        let mode = Control::ResultMode(ResultMode::ValueWise);
        runner.run(Record::Control(mode)).expect("a mode");
    }
    for record in parse_with_name::<DefaultColumnType>(&script(path), name).expect(name) {
        let place = match &record {
            Record::Statement { loc, .. } => Some(loc.line()),
            Record::Query { loc, expected: outcome, .. } => {
                if let QueryExpect::Results { types, results, .. } = outcome {
                    *expected.lock().expect("no panic") = types.clone();
                    // Files do not always say from how many values on results are hashed.
                    runner.with_hash_threshold(usize::from(is_hash(results)));
                }
                Some(loc.line())
            }
            Record::HashThreshold { .. } => continue,
            Record::Halt { .. } => break,
            _ => None,
        };
        let outcome = runner.run(record);
        let Some(line) = place else { continue };
        match outcome {
            Ok(RecordOutput::Nothing) => tally.skipped += 1,
            Ok(_) => tally.run += 1,
            Err(error) => {
                tally.run += 1;
                tally.failed.insert(format!("{name}:{line}"), error.kind().to_string());
            }
        }
    }
    tally
}

/// Runs every `*.ending` below `folder`, two files at a time; `run` gets a file's path and name.
/// `HALCYON_SLT_ONLY` picks the files whose names hold it. Says what became of each.
pub fn run_folder(folder: &Path, ending: &str, run: impl Fn(&Path, &str) -> Tally + Sync) -> Tally {
    let mut paths = Vec::new();
    files(folder, ending, &mut paths);
    assert!(!paths.is_empty(), "no *.{ending} in {}", folder.display());
    let only = std::env::var("HALCYON_SLT_ONLY").unwrap_or_default();
    let (next, whole) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    let work = || {
        while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
            let name = path.strip_prefix(folder).expect("below the folder").display().to_string();
            if name.contains(&only) {
                let tally = run(path, &name);
                let (run, failed) = (tally.run, tally.failed.len());
                println!("{name}: {run} run, {} skipped, {failed} fail", tally.skipped);
                whole.lock().expect("no panic").add(tally);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    whole.into_inner().expect("no panic")
}

/// Panics unless just the known failures fail, and these are less than one record in a hundred.
/// `HALCYON_SLT_REPORT` names a file for all failures, one line each.
pub fn judge(tally: &Tally, known: &BTreeMap<String, String>) {
    if let Some(path) = std::env::var_os("HALCYON_SLT_REPORT") {
        let lines = tally.failed.iter().map(|(place, what)| format!("{place} {what:?}\n"));
        std::fs::write(path, lines.collect::<String>()).expect("a report");
    }
    let failed: BTreeSet<&String> = tally.failed.keys().collect();
    let unexpected: Vec<String> = failed
        .iter()
        .filter(|place| !known.contains_key(**place))
        .map(|place| format!("{place}: {}", tally.failed[*place]))
        .collect();
    println!(
        "{} records run, {} skipped, {} fail, {} of them unexpectedly",
        tally.run,
        tally.skipped,
        failed.len(),
        unexpected.len()
    );
    assert!(
        unexpected.is_empty(),
        "{} records fail:\n{}",
        unexpected.len(),
        unexpected.iter().take(40).cloned().collect::<Vec<_>>().join("\n")
    );
    let known: Vec<&String> = known.keys().filter(|place| tally.has(place)).collect();
    let repaired: Vec<&&String> = known.iter().filter(|place| !failed.contains(**place)).collect();
    assert!(repaired.is_empty(), "these pass now; take them off the list: {repaired:?}");
    assert!(
        known.len() * 100 <= tally.run || tally.run < RECORDS_FOR_SHARE,
        "{} known failures are more than one in a hundred",
        known.len()
    );
}
