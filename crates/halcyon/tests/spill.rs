//! Statements that exceed their memory and go on in files: the same rows as with enough memory, their limits, and what
//! is left of them however they end.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use halcyon::{
    Database, DatabaseOptions, Result, Session, SpillCounts, SqlError, SqlType, TextFormat, Workers,
};

/// Two tables of rows with few keys and many, a key that a third of the rows has, NULLs, duplicates, and long texts.
const TABLES: &str = "
    CREATE TABLE a (id INT PRIMARY KEY, k INT, few INT, s TEXT, x NUMERIC(12, 2));
    CREATE TABLE b (id INT PRIMARY KEY, k INT, few INT, s TEXT, x NUMERIC(12, 2));
    INSERT INTO a SELECT i, CASE WHEN i % 3 = 0 THEN 7 WHEN i % 11 = 0 THEN NULL ELSE i * 7 % 9001 END,
        i % 13, CASE WHEN i % 17 <> 0 THEN repeat('text ', i % 5) || i * 7 % 9001 END, i * 31 % 1007 / 4.0
        FROM generate_series(1, 48000) AS g (i);
    INSERT INTO b SELECT i, CASE WHEN i % 5 = 0 THEN NULL ELSE i * 11 % 12007 END,
        i % 29, CASE WHEN i % 19 <> 0 THEN repeat('text ', i % 3) || i * 11 % 12007 END, i * 37 % 1009 / 4.0
        FROM generate_series(1, 32000) AS g (i);";

/// Statements of each kind of operator, and whether it spills under the small limit.
const STATEMENTS: &[(&str, bool)] = &[
    // Sorts, alone and below others.
    ("SELECT * FROM a ORDER BY s DESC NULLS LAST, x, id", true),
    ("SELECT id, s FROM a ORDER BY x, k NULLS FIRST, id OFFSET 40000", true),
    ("SELECT id, row_number() OVER (PARTITION BY few ORDER BY x, id) FROM a ORDER BY id", true),
    // Groups.
    ("SELECT id, count(*), sum(x) FROM a GROUP BY id ORDER BY id", true),
    ("SELECT s, k, count(*), avg(x), min(id) FROM a GROUP BY s, k ORDER BY s, k", true),
    ("SELECT few, count(*), count(DISTINCT k) FROM a GROUP BY few ORDER BY few", false),
    ("SELECT DISTINCT s, x FROM a ORDER BY 1, 2", true),
    // Joins of every kind.
    ("SELECT a.id, b.id, b.s FROM a JOIN b ON a.id = b.id ORDER BY 1", true),
    ("SELECT a.s, b.s, a.x FROM a JOIN b ON a.s = b.s AND a.x < b.x ORDER BY a.id, b.id", true),
    ("SELECT a.id, b.id, b.s FROM a LEFT JOIN b ON a.k = b.k AND b.few < 20 ORDER BY 1, 2", true),
    ("SELECT a.id, b.id, a.s FROM a RIGHT JOIN b ON a.s = b.s ORDER BY 2, 1", true),
    (
        "SELECT a.id, b.id, a.s, b.s FROM a FULL JOIN b ON a.k = b.k AND a.s <> b.s ORDER BY 1, 2",
        true,
    ),
    ("SELECT id, s FROM a WHERE s IN (SELECT s FROM b) ORDER BY id", true),
    (
        "SELECT id, s FROM a WHERE NOT EXISTS (SELECT FROM b WHERE b.s = a.s AND b.x > a.x) ORDER BY id",
        true,
    ),
    ("SELECT id, EXISTS (SELECT FROM b WHERE b.s = a.s) FROM a ORDER BY id", true),
    // Several at once.
    (
        "SELECT a.s, count(*), max(b.x) FROM a JOIN b ON a.s = b.s GROUP BY a.s ORDER BY 2 DESC, 1",
        true,
    ),
    ("SELECT s, x FROM a UNION SELECT s, x FROM b ORDER BY 1, 2", true),
    ("SELECT s FROM a INTERSECT SELECT s FROM b ORDER BY 1", true),
    ("SELECT s, k FROM a EXCEPT SELECT s, k FROM b ORDER BY 1, 2", true),
];

/// Limits under which each statement is asked until it is not refused. Groups of batches whose texts are shared are refused
/// under the small ones, now these and now those (docs/status.md), and none under the last.
const LIMITS_MB: &[u32] = &[2, 5, 8, 12, 20, 40];

/// A database with the tables, and its folder, which goes with it.
struct Spilling {
    database: Database,
    options: DatabaseOptions,
    path: PathBuf,
}

impl Spilling {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("halcyon-spills-{}-{name}", std::process::id()));
        let workers = Workers { count: 2, ..Workers::default() };
        let mut options = DatabaseOptions { workers, ..DatabaseOptions::default() };
        options.spill_into(&path).expect("a folder");
        let database = Database::with_options(options.clone());
        database.session().batch(TABLES).expect("the tables");
        Spilling { database, options, path }
    }

    /// A session whose statements may hold little.
    fn session(&self) -> Session {
        let mut session = self.database.session();
        session.batch("SET halcyon.memory = '5MB'").expect("a limit");
        session
    }

    fn counts(&self) -> SpillCounts {
        self.options.spill.as_ref().expect("a folder").counts()
    }

    /// Panics unless no file is left, soon: tasks of a statement that has ended may go on for a moment.
    fn expect_nothing_left(&self) {
        let began = Instant::now();
        while self.counts().files > 0 && began.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let counts = self.counts();
        assert_eq!((counts.files, counts.bytes), (0, 0));
    }
}

impl Drop for Spilling {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn rows(session: &mut Session, sql: &str) -> Result<Vec<String>> {
    let mut rows = session.query(sql, &[])?;
    let types: Vec<SqlType> =
        rows.columns().iter().map(|column| column.ty.unwrap_or(SqlType::Text)).collect();
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let cells = types.iter().enumerate().map(|(at, ty)| match row.value(at) {
            value if value.is_null() => "NULL".to_owned(),
            value => TextFormat::default().text(value, *ty),
        });
        all.push(cells.collect::<Vec<_>>().join("|"));
    }
    Ok(all)
}

fn error(session: &mut Session, sql: &str) -> SqlError {
    match rows(session, sql) {
        Err(error) => error,
        Ok(rows) => panic!("{} rows of {sql}, which is to be refused", rows.len()),
    }
}

#[test]
fn rows_out_of_files_are_those_of_memory() {
    let spilling = Spilling::new("twin");
    let (mut free, mut tight) = (spilling.database.session(), spilling.session());
    let (mut in_memory, mut refused) = (Vec::new(), Vec::new());
    for &(sql, spills) in STATEMENTS {
        let mut before = spilling.counts();
        let expected = rows(&mut free, sql).expect(sql);
        assert_eq!(spilling.counts(), before, "{sql} has memory");
        let mut limits = LIMITS_MB.iter();
        let (limit, found) = loop {
            let limit = *limits.next().unwrap_or_else(|| panic!("{sql} is refused: {refused:#?}"));
            tight.batch(&format!("SET halcyon.memory = '{limit}MB'")).expect("a limit");
            before = spilling.counts();
            match rows(&mut tight, sql) {
                Ok(found) => break (limit, found),
                Err(error) => {
                    assert_eq!(error.state().as_str(), "53200", "{sql}: {error}");
                    refused.push(format!("{sql} with {limit} MB: {error}"));
                    spilling.expect_nothing_left();
                }
            }
        };
        assert_eq!(found.len(), expected.len(), "{sql}");
        let differ = found.iter().zip(&expected).find(|(found, expected)| found != expected);
        assert_eq!(differ, None, "{sql}");
        let spilled = spilling.counts().bytes_written > before.bytes_written;
        if spills && !spilled && limit == LIMITS_MB[0] {
            in_memory.push(sql);
        }
        spilling.expect_nothing_left();
    }
    eprintln!("refused: {refused:#?}");
    assert!(in_memory.is_empty(), "they spill nothing: {in_memory:#?}");
}

#[test]
fn explain_and_statistics_tell_what_was_spilled() {
    let spilling = Spilling::new("told");
    let mut session = spilling.session();
    session.batch("SET halcyon.memory = '2MB'").expect("a limit");
    let join = "EXPLAIN ANALYZE SELECT a.id, b.s FROM a JOIN b ON a.s = b.s ORDER BY a.id, b.id";
    let plan = rows(&mut session, join).expect("a plan");
    for operator in ["JoinExec", "RunSortExec"] {
        let line = plan.iter().find(|line| line.trim_start().starts_with(operator));
        let line = line.unwrap_or_else(|| panic!("{operator} in {plan:#?}"));
        let spills = line.contains("spill_count=") && !line.contains("spill_count=0");
        assert!(spills && line.contains("spilled_bytes="), "{line}");
    }
    let told = "SELECT temp_files > 1, temp_bytes > 1000 FROM pg_stat_database";
    assert_eq!(rows(&mut session, told).expect("statistics"), ["t|t"]);
    let folder = spilling.path.canonicalize().expect("is there").display().to_string();
    assert_eq!(rows(&mut session, "SHOW spill_folder").expect("a setting"), [folder]);
    assert_eq!(rows(&mut session, "SHOW spill_limit").expect("a setting"), ["10GB"]);
}

#[test]
fn what_exceeds_a_limit_of_files_or_a_full_disk_fails_and_leaves_nothing() {
    let spilling = Spilling::new("limits");
    let mut session = spilling.session();
    for (memory, (sql, _)) in
        [("5MB", STATEMENTS[0]), ("5MB", STATEMENTS[3]), ("2MB", STATEMENTS[7])]
    {
        session.batch(&format!("SET halcyon.memory = '{memory}'")).expect("a limit");
        session.batch("SET temp_file_limit = 64").expect("a limit");
        let told = error(&mut session, sql);
        assert_eq!(told.state().as_str(), "53400", "{sql}: {told}");
        assert_eq!(told.message(), "temporary file size exceeds temp_file_limit (64kB)");
        spilling.expect_nothing_left();
        session
            .batch("RESET temp_file_limit; ALTER SYSTEM SET spill_limit = '1MB'")
            .expect("a limit");
        spilling.options.spill.as_ref().expect("a folder").set_limit(64 << 10);
        assert_eq!(error(&mut session, sql).state().as_str(), "53400");
        session.batch("ALTER SYSTEM RESET spill_limit").expect("no limit");
        spilling.expect_nothing_left();
        let folder = spilling.options.spill.as_ref().expect("a folder");
        folder.plant_full_disk(64 << 10);
        let told = error(&mut session, sql);
        assert_eq!(told.state().as_str(), "53100", "{sql}: {told}");
        assert!(told.message().contains(&folder.path().display().to_string()), "{told}");
        spilling.expect_nothing_left();
        folder.plant_full_disk(u64::MAX);
        let again = rows(&mut session, sql);
        assert!(again.is_ok(), "{sql} once there is room: {:?}", again.err());
    }
}

#[test]
fn statements_that_end_early_leave_no_files() {
    let spilling = Spilling::new("ended");
    let mut session = spilling.session();
    let sql = "SELECT a.id FROM a JOIN b ON a.s = b.s JOIN a c ON c.s = b.s ORDER BY c.s, a.x, b.x";
    session.batch("SET statement_timeout = '30ms'").expect("a timeout");
    assert_eq!(error(&mut session, sql).state().as_str(), "57014");
    spilling.expect_nothing_left();
    session.batch("RESET statement_timeout").expect("no timeout");
    // A reader that leaves.
    let mut first = session.query(STATEMENTS[0].0, &[]).expect("begins");
    assert!(first.next().expect("a row").is_some());
    drop(first);
    spilling.expect_nothing_left();
    // A block that is rolled back.
    session.batch("BEGIN").expect("a block");
    assert!(rows(&mut session, STATEMENTS[3].0).is_ok());
    assert!(rows(&mut session, "SELECT 1 / (id - id) FROM a ORDER BY s").is_err());
    session.batch("ROLLBACK").expect("ends");
    spilling.expect_nothing_left();
}

#[test]
fn without_a_folder_statements_fail_as_before() {
    let database = Database::in_memory();
    let mut session = database.session();
    session.batch(TABLES).expect("the tables");
    assert_eq!(rows(&mut session, "SHOW spill_folder").expect("a setting"), [""]);
    session.batch("SET halcyon.memory = '1MB'").expect("a limit");
    for (sql, _) in [STATEMENTS[0], STATEMENTS[7]] {
        assert_eq!(error(&mut session, sql).state().as_str(), "53200", "{sql}");
    }
}
