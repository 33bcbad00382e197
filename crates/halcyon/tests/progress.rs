//! The progress of work that lasts, as a second session sees it: each work stands still at a known point meanwhile.

use std::path::PathBuf;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use halcyon::{Database, DatabaseOptions, Opening, Outcome, Session, SqlError, SqlState, Value};
use halcyon_base::progress::{self, Shown};

const ROWS: u64 = 5000;

fn rows(session: &mut Session, text: &str) -> Vec<String> {
    let show = |value: &Value| match value {
        Value::Null => "NULL".to_owned(),
        Value::Text(text) => text.to_string(),
        Value::Int32(number) => number.to_string(),
        Value::Int64(number) => number.to_string(),
        Value::Bool(is_so) => is_so.to_string(),
        Value::Float64(number) => format!("{number:.1}"),
        other => format!("{other:?}"),
    };
    let all = session.query(text, &[]).and_then(|rows| rows.collect());
    let all = all.unwrap_or_else(|error| panic!("{text}: {error}"));
    all.iter().map(|row| row.iter().map(show).collect::<Vec<_>>().join("|")).collect()
}

fn run(session: &mut Session, text: &str) {
    session.batch(text).unwrap_or_else(|error| panic!("{text}: {error}"));
}

/// Begins a COPY of data that the test gives.
fn begin_copy(session: &mut Session, text: &str) {
    let statement = session.prepare(text).expect(text);
    let begun = session.run(&statement, &[]).expect(text);
    assert!(matches!(begun, Outcome::CopyIn { .. }), "{text}");
}

/// What `halcyon.progress` says of works that go on.
const SEEN: &str = "SELECT session, command, relation, index, phase, unit, done, total, rows FROM halcyon.progress";

fn seen(watcher: &mut Session) -> Vec<String> {
    rows(watcher, SEEN)
}

/// A database with tables `t` of [`ROWS`] rows, and `other`.
fn database() -> Database {
    let database = Database::in_memory();
    fill(&database);
    database
}

fn fill(database: &Database) {
    let mut session = database.session();
    let text = format!(
        "CREATE TABLE t (a BIGINT, b BIGINT); \
         INSERT INTO t SELECT g, g % 7 FROM generate_series(1, {ROWS}) g; \
         CREATE TABLE other (a BIGINT PRIMARY KEY, b BIGINT)"
    );
    run(&mut session, &text);
}

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder =
            std::env::temp_dir().join(format!("halcyon-progress-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        Folder(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a statement on a thread of its own. The first time that a work has counted and is as `stop` says, it stands
/// still while `look` looks on, who is told the number of the statement's session. Returns what the statement returns.
fn while_it_stands<T>(
    database: &Database,
    text: &str,
    stop: impl Fn(&Shown) -> bool + Send + 'static,
    look: impl FnOnce(&mut Session, u32) -> T,
) -> (Result<(), SqlError>, T) {
    const PATIENCE: Duration = Duration::from_secs(60);
    let mut session = database.session();
    let (number, text) = (session.id(), text.to_owned());
    let (stands, stood) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel::<()>();
    let working = std::thread::spawn(move || {
        let mut stands = Some(stands);
        progress::watch(Some(Box::new(move |shown| {
            if stop(shown)
                && let Some(stands) = stands.take()
            {
                stands.send(()).expect("the test looks on");
                let _ = goes_on.recv();
            }
        })));
        let done = session.batch(&text);
        progress::watch(None);
        done
    });
    if stood.recv_timeout(PATIENCE).is_err() {
        panic!("the work never comes to the point: {:?}", working.join());
    }
    let looked = look(&mut database.session(), number);
    drop(go_on);
    (working.join().expect("the thread ends"), looked)
}

#[test]
fn a_copy_of_a_clients_data_is_seen_between_two_messages() {
    let database = database();
    let (mut copying, mut watcher) = (database.session(), database.session());
    begin_copy(&mut copying, "COPY other FROM STDIN");
    copying.copy_data(b"1\t1\n2\t2\n3\t").expect("two rows and a half");
    let pid = copying.id();
    let expected = format!("{pid}|COPY FROM|other|NULL|copying|bytes|10|NULL|2");
    assert_eq!(seen(&mut watcher), [expected]);
    let of_postgres = "SELECT pid, relid = 'other'::regclass::oid AS is_it, command, type, bytes_processed, \
                       bytes_total, tuples_processed, tuples_excluded, datname = current_database() AS here \
                       FROM pg_stat_progress_copy";
    let expected = format!("{pid}|true|COPY FROM|PIPE|10|0|2|0|true");
    assert_eq!(rows(&mut watcher, of_postgres), [expected]);
    copying.copy_data(b"3\n").expect("the other half");
    assert_eq!(rows(&mut watcher, "SELECT done, rows FROM halcyon.progress"), ["12|3"]);
    copying.copy_end().expect("three rows");
    assert_eq!(seen(&mut watcher), [""; 0]);
}

#[test]
fn rows_that_a_condition_leaves_out_are_counted_apart() {
    let database = database();
    let (mut copying, mut watcher) = (database.session(), database.session());
    begin_copy(&mut copying, "COPY other FROM STDIN WHERE a % 4 = 0");
    let data: String = (0..10_000).map(|a| format!("{a}\t0\n")).collect();
    copying.copy_data(data.as_bytes()).expect("rows");
    // One batch of 8,192 rows has met the condition.
    let counts = "SELECT rows, rows_excluded FROM halcyon.progress";
    assert_eq!(rows(&mut watcher, counts), ["2048|6144"]);
    let counts = "SELECT tuples_processed, tuples_excluded FROM pg_stat_progress_copy";
    assert_eq!(rows(&mut watcher, counts), ["2048|6144"]);
    copying.copy_abandon();
    assert_eq!(seen(&mut watcher), [""; 0]);
}

#[test]
fn files_have_totals() {
    let (database, folder) = (database(), Folder::new("files"));
    let path = folder.path("t.csv");
    let text = format!("COPY t TO '{path}'");
    // The first chunk of 64 KB: the data have less, so it is all rows.
    let (done, ()) = while_it_stands(
        &database,
        &text,
        |shown| shown.rows > 0,
        |watcher, pid| {
            let expected = format!("{pid}|COPY TO|t|NULL|copying|rows|{ROWS}|{ROWS}|{ROWS}");
            assert_eq!(seen(watcher), [expected]);
            let of_postgres =
                "SELECT command, type, bytes_total, tuples_processed FROM pg_stat_progress_copy";
            assert_eq!(rows(watcher, of_postgres), [format!("COPY TO|FILE|0|{ROWS}")]);
        },
    );
    done.expect("rows");
    let bytes = std::fs::metadata(&path).expect("a file").len();
    let text = format!("TRUNCATE t; COPY t FROM '{path}'");
    let (done, ()) = while_it_stands(
        &database,
        &text,
        |shown| shown.bytes > 0,
        |watcher, pid| {
            let expected = format!("{pid}|COPY FROM|t|NULL|copying|bytes|{bytes}|{bytes}|{ROWS}");
            assert_eq!(seen(watcher), [expected]);
            let of_postgres =
                "SELECT type, bytes_processed, bytes_total FROM pg_stat_progress_copy";
            assert_eq!(rows(watcher, of_postgres), [format!("FILE|{bytes}|{bytes}")]);
        },
    );
    done.expect("rows");
    // 5,000 rows are one batch of a Parquet file's.
    let path = folder.path("t.parquet");
    let text =
        format!("COPY t TO '{path}' (FORMAT parquet); COPY t FROM '{path}' (FORMAT parquet)");
    let stop = |shown: &Shown| shown.kind.is_copy_from() && shown.bytes > 0;
    let (done, ()) = while_it_stands(&database, &text, stop, |watcher, pid| {
        let bytes = std::fs::metadata(&path).expect("a file").len();
        let expected = format!("{pid}|COPY FROM|t|NULL|copying|bytes|{bytes}|{bytes}|{ROWS}");
        assert_eq!(seen(watcher), [expected]);
    });
    done.expect("rows");
}

#[test]
fn an_index_is_seen_half_built() {
    let database = database();
    let stop = |shown: &Shown| shown.done == 2048;
    let (done, ()) = while_it_stands(
        &database,
        "CREATE INDEX t_b ON t (b)",
        stop,
        |watcher, pid| {
            let phase = "building index: scanning table";
            let expected = format!("{pid}|CREATE INDEX|t|t_b|{phase}|rows|2048|{ROWS}|2048");
            assert_eq!(seen(watcher), [expected]);
            assert_eq!(rows(watcher, "SELECT percent FROM halcyon.progress"), ["41.0"]);
            let of_postgres = "SELECT pid, relid = 't'::regclass::oid AS is_it, index_relid > 0 AS has_one, command, \
                           phase, tuples_total, tuples_done FROM pg_stat_progress_create_index";
            let expected = format!("{pid}|true|true|CREATE INDEX|{phase}|{ROWS}|2048");
            assert_eq!(rows(watcher, of_postgres), [expected]);
        },
    );
    done.expect("an index");
    assert_eq!(seen(&mut database.session()), [""; 0]);
    // Keys over expressions are tried before the index is filled: each row counts twice.
    let (done, ()) = while_it_stands(
        &database,
        "CREATE INDEX t_e ON t ((a + b))",
        |shown| shown.done == ROWS + 1024,
        |watcher, _| {
            let counts = "SELECT tuples_done, tuples_total FROM pg_stat_progress_create_index";
            assert_eq!(rows(watcher, counts), [format!("{}|{}", ROWS + 1024, 2 * ROWS)]);
        },
    );
    done.expect("an index");
}

#[test]
fn a_view_is_seen_half_filled() {
    let database = database();
    let text = "CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b";
    let stop = |shown: &Shown| shown.done == 2048;
    let (done, ()) = while_it_stands(&database, text, stop, |watcher, pid| {
        let what = "CREATE MATERIALIZED VIEW|v|NULL|filling the view";
        let expected = format!("{pid}|{what}|rows|2048|{ROWS}|2048");
        assert_eq!(seen(watcher), [expected]);
    });
    done.expect("a view");
    let text = "CREATE MATERIALIZED VIEW w AS SELECT b, count(*) AS n FROM t GROUP BY b";
    let stop = |shown: &Shown| shown.phase == progress::Phase::WritingRows;
    let (done, ()) = while_it_stands(&database, text, stop, |watcher, pid| {
        let what = "CREATE MATERIALIZED VIEW|w|NULL|writing rows";
        assert_eq!(seen(watcher), [format!("{pid}|{what}|rows|7|NULL|{}", ROWS + 7)]);
    });
    done.expect("a view");
}

#[test]
fn changes_of_tables_say_what_they_do_to_rows() {
    for (text, index, phase, visits) in [
        ("ALTER TABLE t ADD PRIMARY KEY (a)", "NULL", "checking rows", 1),
        ("ALTER TABLE t ADD CONSTRAINT k UNIQUE (a)", "k", "building index: scanning table", 1),
        ("ALTER TABLE t ALTER b TYPE NUMERIC(10,2)", "NULL", "rewriting rows", 1),
        (
            "ALTER TABLE t ADD c BIGINT GENERATED ALWAYS AS (a + b) STORED",
            "NULL",
            "rewriting rows",
            1,
        ),
        ("ALTER TABLE t ADD c DOUBLE PRECISION DEFAULT random()", "NULL", "rewriting rows", 1),
        ("ALTER TABLE t ADD CHECK (a > 0)", "NULL", "checking rows", 1),
        ("ALTER TABLE t ADD FOREIGN KEY (b) REFERENCES sevens", "NULL", "checking rows", 1),
        (
            "CREATE INDEX i ON t (b); ALTER TABLE t ALTER b TYPE NUMERIC(10,2)",
            "NULL",
            "rewriting rows",
            2,
        ),
    ] {
        let database = database();
        let sevens = "CREATE TABLE sevens (b BIGINT PRIMARY KEY); \
                      INSERT INTO sevens SELECT * FROM generate_series(0, 6)";
        run(&mut database.session(), sevens);
        let stop = |shown: &Shown| shown.done == 2048 && shown.kind == progress::Kind::AlterTable;
        let (done, ()) = while_it_stands(&database, text, stop, |watcher, pid| {
            let total = visits * ROWS;
            let expected = format!("{pid}|ALTER TABLE|t|{index}|{phase}|rows|2048|{total}|2048");
            assert_eq!(seen(watcher), [expected], "{text}");
        });
        done.unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(seen(&mut database.session()), [""; 0], "{text}");
    }
}

#[test]
fn writes_show_themselves_once_they_have_lasted() {
    let writing = "writing rows|rows|2048";
    for (text, stop_at, expected) in [
        ("UPDATE t SET b = b + 1", 2048, format!("UPDATE|t|NULL|{writing}|{ROWS}|2048")),
        ("DELETE FROM t", 2048, format!("DELETE|t|NULL|{writing}|{ROWS}|2048")),
        (
            "INSERT INTO other SELECT * FROM t ON CONFLICT DO NOTHING",
            2048,
            format!("INSERT|other|NULL|{writing}|{ROWS}|2048"),
        ),
        (
            "INSERT INTO other SELECT * FROM t",
            1,
            format!("INSERT|other|NULL|writing rows|rows|{ROWS}|NULL|{ROWS}"),
        ),
        (
            "CREATE TABLE copied AS SELECT * FROM t",
            1,
            format!("CREATE TABLE AS|copied|NULL|writing rows|rows|{ROWS}|NULL|{ROWS}"),
        ),
    ] {
        let database = database();
        let stop = move |shown: &Shown| shown.done >= stop_at;
        let (done, seen) =
            while_it_stands(&database, text, stop, |watcher, pid| (seen(watcher), pid));
        done.unwrap_or_else(|error| panic!("{text}: {error}"));
        // Batches of a query have a size of their own.
        let (seen, pid) = seen;
        match expected.contains("NULL|5000") {
            true => {
                let begins = expected.split("|rows|").next().expect("the words before the counts");
                assert!(
                    seen.len() == 1 && seen[0].starts_with(&format!("{pid}|{begins}|")),
                    "{seen:?}"
                );
            }
            false => assert_eq!(seen, [format!("{pid}|{expected}")], "{text}"),
        }
    }
}

#[test]
fn an_export_and_an_import_have_parts() {
    let (database, folder) = (database(), Folder::new("export"));
    let target = folder.path("export");
    let text = format!("EXPORT DATABASE TO '{target}'");
    let stop = |shown: &Shown| shown.kind.is_copy() && shown.rows == ROWS;
    let parts = "SELECT command, relation, phase, unit, done, total, part_of IS NULL AS whole \
                 FROM halcyon.progress ORDER BY work";
    let (done, ()) = while_it_stands(&database, &text, stop, |watcher, _| {
        assert_eq!(
            rows(watcher, parts),
            [
                format!("EXPORT DATABASE|NULL|writing tables|rows|{ROWS}|{ROWS}|true"),
                format!("COPY TO|t|copying|rows|{ROWS}|{ROWS}|false"),
            ]
        );
    });
    done.expect("an export");

    let bytes: u64 = ["public.t.parquet", "public.other.parquet", "t.parquet", "other.parquet"]
        .iter()
        .filter_map(|name| std::fs::metadata(folder.0.join("export").join(name)).ok())
        .map(|file| file.len())
        .sum();
    assert!(bytes > 0, "the export has files of these names");
    let new = Database::in_memory();
    let text = format!("IMPORT DATABASE FROM '{target}'");
    let stop = |shown: &Shown| shown.kind.is_copy_from() && shown.rows == ROWS && shown.bytes > 0;
    let (done, ()) = while_it_stands(&new, &text, stop, |watcher, _| {
        let shown = rows(watcher, parts);
        assert_eq!(shown.len(), 2, "{shown:?}");
        assert!(shown[0].starts_with("IMPORT DATABASE|NULL|running scripts|bytes|"), "{shown:?}");
        assert!(shown[0].ends_with(&format!("|{bytes}|true")), "{shown:?} of {bytes}");
        assert!(shown[1].starts_with("COPY FROM|t|copying|bytes|"), "{shown:?}");
        let same = "SELECT count(DISTINCT part.done) FROM halcyon.progress whole JOIN halcyon.progress part \
                    ON part.part_of = whole.work AND part.done <= whole.done";
        assert_eq!(rows(watcher, same), ["1"]);
    });
    done.expect("an import");
    assert_eq!(rows(&mut new.session(), "SELECT count(*) FROM t"), [ROWS.to_string()]);
    assert_eq!(seen(&mut new.session()), [""; 0]);
}

#[test]
fn a_checkpoint_and_a_backup_count_rows() {
    let folder = Folder::new("checkpoint");
    let database = Database::open_with(&folder.0.join("db"), DatabaseOptions::default(), &|_| {});
    let database = database.expect("a database");
    fill(&database);
    let stop = |shown: &Shown| shown.rows >= 2048;
    let (done, ()) = while_it_stands(&database, "CHECKPOINT", stop, |watcher, pid| {
        let expected = format!("{pid}|CHECKPOINT|NULL|NULL|writing tables|rows|2048|{ROWS}|2048");
        assert_eq!(seen(watcher), [expected]);
    });
    done.expect("a checkpoint");
    let text = format!("BACKUP TO '{}'", folder.path("backup"));
    let (done, ()) = while_it_stands(&database, &text, stop, |watcher, pid| {
        let expected = format!("{pid}|BACKUP|NULL|NULL|writing tables|rows|2048|{ROWS}|2048");
        assert_eq!(seen(watcher), [expected]);
    });
    done.expect("a backup");

    // The database's own checkpoint is of no session.
    let (stands, stood) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel::<()>();
    let own = database.clone();
    let writing = std::thread::spawn(move || {
        let mut stands = Some(stands);
        progress::watch(Some(Box::new(move |shown| {
            if shown.rows >= 2048
                && let Some(stands) = stands.take()
            {
                stands.send(()).expect("the test looks on");
                let _ = goes_on.recv();
            }
        })));
        own.checkpoint()
    });
    stood.recv_timeout(Duration::from_secs(60)).expect("rows are written");
    let expected = format!("NULL|CHECKPOINT|NULL|NULL|writing tables|rows|2048|{ROWS}|2048");
    assert_eq!(seen(&mut database.session()), [expected]);
    let elsewhere = Database::in_memory();
    assert_eq!(seen(&mut elsewhere.session()), [""; 0], "it is another database's");
    drop(go_on);
    writing.join().expect("the thread ends").expect("a checkpoint");
    assert_eq!(seen(&mut database.session()), [""; 0]);
}

#[test]
fn the_opening_of_a_database_knows_the_length_of_its_log() {
    let folder = Folder::new("opening");
    let path = folder.0.join("db");
    let open = |told: &(dyn Fn(Opening) + Sync)| {
        Database::open_with(&path, DatabaseOptions::default(), told).expect("a database")
    };
    let database = open(&|_| {});
    run(&mut database.session(), "CREATE TABLE t (a BIGINT PRIMARY KEY, b TEXT)");
    for a in 0..50 {
        let row = format!("INSERT INTO t VALUES ({a}, '{}')", "x".repeat(1000));
        run(&mut database.session(), &row);
    }
    drop(database);
    let steps = Mutex::new(Vec::new());
    let _database = open(&|step| steps.lock().expect("nobody panics with it").push(step));
    let steps = steps.into_inner().expect("nobody panics with it");
    let log: Vec<(u64, u64)> = steps
        .iter()
        .filter_map(|step| match step {
            Opening::Log(done, total) => Some((*done, *total)),
            _ => None,
        })
        .collect();
    assert!(log.len() > 50, "{steps:?}");
    assert!(log.is_sorted_by(|one, next| one.0 <= next.0 && one.1 == next.1), "{log:?}");
    let (done, total) = *log.last().expect("there are some");
    // Marks of checkpoints are part of the log and are not done again.
    assert!(done <= total && total - done < 1024, "{done} of {total}");
    assert!(steps.iter().any(|step| matches!(step, Opening::Indexes(1, 1))), "{steps:?}");
}

#[test]
fn nothing_is_left_of_what_failed_was_cancelled_or_panicked() {
    let database = database();
    let mut watcher = database.session();

    let mut copying = database.session();
    begin_copy(&mut copying, "COPY other FROM STDIN");
    assert!(copying.copy_data(b"1\tx\n").is_err());
    assert_eq!(seen(&mut watcher), [""; 0], "a line was refused");
    begin_copy(&mut copying, "COPY other FROM STDIN");
    copying.copy_data(b"1\t1\n").expect("a row");
    assert_eq!(seen(&mut watcher).len(), 1);
    drop(copying);
    assert_eq!(seen(&mut watcher), [""; 0], "the session went away");

    let mut session = database.session();
    let error = session.batch("CREATE UNIQUE INDEX u ON t (b)").expect_err("keys repeat");
    assert_eq!(error.state(), SqlState::UNIQUE_VIOLATION);
    assert_eq!(seen(&mut watcher), [""; 0], "an index was refused");

    for text in [
        "UPDATE t SET b = b + 1",
        "CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b",
        "CREATE INDEX e ON t ((a + b))",
    ] {
        let stop = |shown: &Shown| shown.done >= 1024;
        let (done, ()) = while_it_stands(&database, text, stop, |watcher, pid| {
            assert_eq!(seen(watcher).len(), 1, "{text}");
            rows(watcher, &format!("SELECT pg_cancel_backend({pid})"));
        });
        let error = done.expect_err("it was cancelled");
        assert_eq!(error.state(), SqlState::QUERY_CANCELED, "{text}");
        assert_eq!(seen(&mut watcher), [""; 0], "{text}");
    }

    let mut session = database.session();
    progress::watch(Some(Box::new(|_| panic!("a test asked for this panic"))));
    let error = session.batch("CREATE INDEX t_b ON t (b)").expect_err("it panics");
    progress::watch(None);
    assert_eq!(error.state(), SqlState::INTERNAL_ERROR);
    assert_eq!(seen(&mut watcher), [""; 0], "a panic");
    run(&mut session, "CREATE INDEX t_b ON t (b)");
}

#[test]
fn others_see_that_a_command_runs_and_no_more() {
    let database = database();
    run(&mut database.session(), "CREATE ROLE clerk LOGIN");
    let mut clerk = database.session_as("clerk").expect("it may log in");
    let mut copying = database.session();
    begin_copy(&mut copying, "COPY other FROM STDIN");
    assert_eq!(seen(&mut clerk), [""; 0]);
    let of_postgres =
        "SELECT pid, relid IS NULL AS hides, command, bytes_processed FROM pg_stat_progress_copy";
    assert_eq!(rows(&mut clerk, of_postgres), [format!("{}|true|NULL|NULL", copying.id())]);
    drop(copying);

    run(&mut database.session(), "GRANT SELECT, INSERT ON other TO clerk");
    begin_copy(&mut clerk, "COPY other FROM STDIN");
    assert_eq!(seen(&mut database.session()).len(), 1, "a superuser sees all");
    let mut second = database.session_as("clerk").expect("it may log in");
    assert_eq!(seen(&mut second).len(), 1, "a role sees its own sessions");
}
