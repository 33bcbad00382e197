//! Views in cells, through SQL and through streams' handles: against the same views in the process, while
//! cells break, while others feed and read; refusals, restarts of databases, cancellation.
//!
//! Every test runs with a thread that does what a cell does, and where machines can be had with a machine; else it
//! says so. `HALCYON_CELL_ROUNDS` is how often a cell is broken while it is fed (docs/testing.md).

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use halcyon::ValueRef::{Float64, Int32, Text};
use halcyon::{Database, Session, SqlState, Value, ValueRef};
use halcyon_base::rng::Rng;

/// Runs a test at every place that there is.
fn at_every_place(test: impl Fn(&str)) {
    test("thread");
    let mut session = Database::in_memory().session();
    session.batch("CREATE STREAM s (a INTEGER)").unwrap();
    let create = "CREATE MATERIALIZED VIEW v WITH (place = 'cell') AS SELECT COUNT(*) AS n FROM s";
    match session.batch(create) {
        Ok(()) => test("cell"),
        Err(error) => {
            assert_eq!(error.state(), SqlState::FEATURE_NOT_SUPPORTED);
            let why = error.fields().detail.clone().unwrap_or_default();
            let _ = writeln!(std::io::stderr(), "skipped: views in machines: {why}");
        }
    }
}

fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rows = session.query(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    while let Some(row) = rows.next().unwrap() {
        let values: Vec<String> =
            (0..row.len()).map(|column| format!("{:?}", row.value(column).to_owned())).collect();
        found.push(values.join(" | "));
    }
    found.sort();
    found
}

fn number(session: &mut Session, sql: &str) -> i64 {
    let mut found = session.query(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    match found.next().unwrap().expect("a row").value(0).to_owned() {
        Value::Int64(number) => number,
        other => panic!("{sql}: {other:?}"),
    }
}

fn state<T: std::fmt::Debug>(result: halcyon::Result<T>) -> SqlState {
    result.unwrap_err().state()
}

/// Ends the cell of a view by force.
fn break_cell(database: &Database, view: &str) {
    break_cell_by(database, view, false);
}

/// Ends the cell of a view by force, or makes it crash at some moment from now on.
fn break_cell_by(database: &Database, view: &str, crash: bool) {
    let catalog = halcyon::testing::catalog(database);
    let table = catalog.find_table(&[view.to_owned()], &["public".to_owned()]).unwrap();
    let view = table.materialized().unwrap().maintained();
    if crash { view.crash_cell() } else { view.break_cell() }
}

/// Views that between them use what is kept in different ways.
const VIEWS: &[(&str, &str)] = &[
    ("sums", "SELECT name, SUM(volume * price) AS s, COUNT(*) AS n FROM bids GROUP BY name"),
    ("total", "SELECT COUNT(*) AS n, SUM(volume) AS v, MAX(price) AS top FROM bids"),
    ("bag", "SELECT name, volume FROM bids WHERE price > 50"),
    ("kinds", "SELECT DISTINCT upper(name) AS u, id % 3 AS r FROM bids WHERE name LIKE '%a%'"),
    ("crossed", "SELECT b.id, COUNT(*) AS n FROM bids b, asks a WHERE b.id = a.id GROUP BY b.id"),
];

const STREAMS: &str = "CREATE STREAM bids (id INTEGER, name TEXT, volume DOUBLE PRECISION, \
                       price DOUBLE PRECISION CHECK (price >= 0)); \
                       CREATE STREAM asks (id INTEGER)";

/// A database with every view twice: `name` in the process, `name_c` at a place.
fn twins(place: &str) -> Database {
    let database = Database::in_memory();
    let mut session = database.session();
    session.batch(STREAMS).unwrap();
    for (name, query) in VIEWS {
        session
            .batch(&format!(
                "CREATE MATERIALIZED VIEW {name} AS {query}; \
                 CREATE MATERIALIZED VIEW {name}_c WITH (place = '{place}') AS {query}"
            ))
            .unwrap_or_else(|error| panic!("{name}: {error:?}"));
    }
    database
}

fn compare(session: &mut Session, at: &str) {
    for (name, _) in VIEWS {
        let expected = rows(session, &format!("SELECT * FROM {name}"));
        assert_eq!(rows(session, &format!("SELECT * FROM {name}_c")), expected, "{name}: {at}");
    }
}

const NAMES: [&str; 5] = ["ann", "bob", "carla", "dave with a long name", ""];

fn bid(rng: &mut Rng) -> [ValueRef<'static>; 4] {
    [
        Int32(rng.below(12) as i32),
        Text(NAMES[rng.below(5) as usize]),
        Float64(rng.below(100) as f64),
        Float64(rng.below(100) as f64),
    ]
}

#[test]
fn a_view_in_a_cell_has_the_rows_of_its_twin_in_the_process() {
    at_every_place(|place| {
        let database = twins(place);
        let mut session = database.session();
        let (mut bids, mut asks) =
            (database.stream("bids").unwrap(), database.stream("asks").unwrap());
        let mut rng = Rng::new(5);
        for step in 0..60 {
            if rng.below(4) == 0 {
                break_cell(&database, &format!("{}_c", VIEWS[rng.below(5) as usize].0));
            }
            match rng.below(5) {
                0 => bids.insert(&bid(&mut rng)).unwrap(),
                1 => {
                    let mut packed = bids.packed();
                    for _ in 0..rng.below(700) {
                        let weight = if rng.below(5) == 0 { -1 } else { 1 };
                        bids.pack(&bid(&mut rng), weight, &mut packed).unwrap();
                    }
                    bids.take(&packed, 0..packed.len()).unwrap();
                }
                2 => asks.insert(&[Int32(rng.below(12) as i32)]).unwrap(),
                3 => {
                    // What a transaction takes back is as if it had never come.
                    session.batch("BEGIN").unwrap();
                    for savepoint in 0..rng.below(4) {
                        let n = rng.below(300);
                        session
                            .batch(&format!(
                                "SAVEPOINT s{savepoint}; \
                                 INSERT INTO bids SELECT n % 7, 'b' || n % 5, n, n % 90 \
                                 FROM generate_series(1, {n}) AS g (n)"
                            ))
                            .unwrap();
                        if rng.below(3) == 0 {
                            break_cell(&database, "sums_c");
                        }
                        if rng.below(3) == 0 {
                            session.batch(&format!("ROLLBACK TO s{savepoint}")).unwrap();
                        }
                        compare(&mut session, &format!("{place}, within, step {step}"));
                    }
                    session.batch(["COMMIT", "ROLLBACK"][rng.below(2) as usize]).unwrap();
                }
                _ => session
                    .batch("INSERT INTO bids VALUES (1, 'x', 2, 3), (4, 'a', 6, 70)")
                    .unwrap(),
            }
            if rng.below(3) == 0 {
                compare(&mut session, &format!("{place}, step {step}"));
            }
        }
        compare(&mut session, place);
        halcyon::testing::check_views(&database);
        let mut reader = database.view("sums_c").unwrap();
        let mut twin = database.view("sums").unwrap();
        for name in NAMES.map(Text) {
            assert_eq!(reader.row(&[name]).unwrap(), twin.row(&[name]).unwrap(), "{name:?}");
        }
        assert!(number(&mut session, "SELECT SUM(restarts)::bigint FROM halcyon.cells") > 0);
    });
}

#[test]
fn events_that_fail_leave_all_views_as_they_were() {
    at_every_place(|place| {
        let database = Database::in_memory();
        let mut session = database.session();
        session
            .batch(&format!(
                "CREATE STREAM s (a BIGINT, b BIGINT); \
                 CREATE MATERIALIZED VIEW plain AS SELECT COUNT(*) AS n FROM s; \
                 CREATE MATERIALIZED VIEW v WITH (place = '{place}') AS \
                 SELECT b, SUM(a * 1000) AS t, COUNT(*) AS n FROM s GROUP BY b"
            ))
            .unwrap();
        let (large, fine) = (i64::MAX / 3, 7);
        let out_of_range = SqlState::NUMERIC_VALUE_OUT_OF_RANGE;
        let insert =
            |a: i64| format!("INSERT INTO s SELECT {a}, n FROM generate_series(1, 3) AS g (n)");
        session.batch(&insert(fine)).unwrap();
        let before = rows(&mut session, "SELECT * FROM v");
        assert_eq!(state(session.batch(&insert(large))), out_of_range);
        let mut handle = database.stream("s").unwrap();
        let row = |a: i64| [ValueRef::Int64(a), ValueRef::Int64(1)];
        assert_eq!(state(handle.insert(&row(large))), out_of_range);
        let mut packed = handle.packed();
        for at in 0..1000 {
            handle.pack(&row(if at == 700 { large } else { fine }), 1, &mut packed).unwrap();
        }
        assert_eq!(state(handle.take(&packed, 0..1000)), out_of_range);
        assert_eq!(rows(&mut session, "SELECT * FROM v"), before, "{place}");
        assert_eq!(number(&mut session, "SELECT n FROM plain"), 3, "all views or none");
        // Events that were not read yet stay when later ones fail.
        handle.insert(&row(fine)).unwrap();
        assert_eq!(state(handle.insert(&row(large))), out_of_range);
        assert_eq!(number(&mut session, "SELECT n FROM v WHERE b = 1"), 2);
        // Within a transaction the statements before stay.
        session.batch("BEGIN; INSERT INTO s VALUES (1, 1); SAVEPOINT p").unwrap();
        assert_eq!(state(session.batch(&insert(large))), out_of_range);
        session.batch("ROLLBACK TO p; COMMIT").unwrap();
        assert_eq!(number(&mut session, "SELECT n FROM v WHERE b = 1"), 3);
        assert_eq!(number(&mut session, "SELECT n FROM plain"), 5);
        halcyon::testing::check_views(&database);
    });
}

/// How often a cell is broken while it is fed.
fn rounds() -> u64 {
    let asked = std::env::var("HALCYON_CELL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    asked.unwrap_or(4)
}

#[test]
fn no_acknowledged_event_is_lost_when_a_cell_breaks_while_it_is_fed() {
    at_every_place(|place| {
        let mut broken = [0_u64; 2];
        for round in 0..rounds() {
            let database = Arc::new(Database::in_memory());
            let mut session = database.session();
            session
                .batch(&format!(
                    "CREATE STREAM s (a INTEGER); CREATE MATERIALIZED VIEW v WITH (place = '{place}') \
                     AS SELECT a % 10 AS d, COUNT(*) AS n FROM s GROUP BY a % 10; \
                     CREATE MATERIALIZED VIEW w AS SELECT a % 10 AS d, COUNT(*) AS n FROM s GROUP BY a % 10"
                ))
                .unwrap();
            let (acknowledged, ended) =
                (Arc::new(AtomicI64::new(0)), Arc::new(AtomicBool::new(false)));
            let feed = |kind: u64| {
                let (database, acknowledged) = (Arc::clone(&database), Arc::clone(&acknowledged));
                std::thread::spawn(move || {
                    let mut handle = database.stream("s").unwrap();
                    let mut session = database.session();
                    let mut packed = handle.packed();
                    (0..50).for_each(|n| handle.pack(&[Int32(n)], 1, &mut packed).unwrap());
                    for n in 0..60 {
                        let events = match kind {
                            0 => {
                                handle.take(&packed, 0..50).unwrap();
                                50
                            }
                            _ => {
                                session.execute("INSERT INTO s VALUES (1), (2), (3)", &[]).unwrap();
                                handle.insert(&[Int32(n)]).unwrap();
                                4
                            }
                        };
                        acknowledged.fetch_add(events, Ordering::SeqCst);
                    }
                })
            };
            let feeders = [feed(0), feed(1)];
            let breaker = {
                let (database, ended) = (Arc::clone(&database), Arc::clone(&ended));
                std::thread::spawn(move || {
                    let (mut rng, mut broken) = (Rng::new(round), [0_u64; 2]);
                    while !ended.load(Ordering::SeqCst) {
                        std::thread::sleep(Duration::from_micros(200 + rng.below(3000)));
                        let crash = rng.below(2) == 1;
                        break_cell_by(&database, "v", crash);
                        broken[usize::from(crash)] += 1;
                    }
                    broken
                })
            };
            let mut last = 0;
            while feeders.iter().any(|feeder| !feeder.is_finished()) {
                let at_least = acknowledged.load(Ordering::SeqCst);
                let found = number(&mut session, "SELECT COALESCE(SUM(n), 0)::bigint FROM v");
                assert!(found >= at_least.max(last), "{place} {round}: {found} of {at_least}");
                last = found;
            }
            feeders.into_iter().for_each(|feeder| feeder.join().unwrap());
            ended.store(true, Ordering::SeqCst);
            let more = breaker.join().unwrap();
            broken = [broken[0] + more[0], broken[1] + more[1]];
            break_cell(&database, "v");
            assert_eq!(
                rows(&mut session, "SELECT * FROM v"),
                rows(&mut session, "SELECT * FROM w"),
                "{place} {round}: the rows of the view in the process"
            );
            let all = 60 * 54;
            assert_eq!(
                number(&mut session, "SELECT SUM(n)::bigint FROM v"),
                all,
                "{place} {round}"
            );
            assert!(number(&mut session, "SELECT restarts::bigint FROM halcyon.cells") > 0);
            halcyon::testing::check_views(&database);
        }
        let [killed, crashed] = broken;
        let _ = writeln!(
            std::io::stderr(),
            "{place}: {} rounds of {} acknowledged events, {killed} kills, {crashed} crashes; none lost",
            rounds(),
            60 * 54
        );
    });
}

#[test]
fn what_cannot_be_in_a_cell_is_refused_and_never_runs_in_the_process() {
    let database = Database::in_memory();
    let mut session = database.session();
    session
        .batch("CREATE TABLE t (a INTEGER); CREATE STREAM s (a DOUBLE PRECISION, b INTEGER)")
        .unwrap();
    let create =
        |with: &str, query: &str| format!("CREATE MATERIALIZED VIEW v WITH ({with}) AS {query}");
    let counted = "SELECT COUNT(*) AS n FROM s";
    let not_supported = SqlState::FEATURE_NOT_SUPPORTED;
    let invalid = SqlState::INVALID_PARAMETER_VALUE;
    let error =
        session.batch(&create("place = 'thread'", "SELECT COUNT(*) AS n FROM t")).unwrap_err();
    assert_eq!(error.state(), not_supported);
    assert_eq!(error.fields().detail.as_deref(), Some("\"t\" is no stream."));
    assert!(error.fields().hint.is_some());
    for with in [
        "place = 'elsewhere'",
        "cell_memory = '64MB'",
        "place = 'cell', cell_memory = '1MB'",
        "place = 'cell', cell_memory = 'much'",
        "place = 'thread', cell_cpu = 'any'",
        "place = 'cell', executor = 'interpreted'",
    ] {
        assert_eq!(state(session.batch(&create(with, counted))), invalid, "{with}");
    }
    session.batch(&create("place = 'process'", counted)).unwrap();
    assert_eq!(rows(&mut session, "SELECT * FROM halcyon.cells"), [""; 0]);
    session.batch("DROP MATERIALIZED VIEW v").unwrap();
    at_every_place(|place| {
        let place = format!("place = '{place}'");
        if place.contains("cell") {
            let roots = "SELECT SUM(sqrt(a)) AS r FROM s";
            let error = session_error(&database, &create(&place, roots));
            assert_eq!(error.state(), not_supported, "{error:?}");
            assert!(error.fields().detail.as_deref().unwrap_or("").contains("sqrt"), "{error:?}");
            assert!(error.fields().hint.is_some());
        }
        let mut session = database.session();
        session.batch(&create(&place, counted)).unwrap();
        assert_eq!(rows(&mut session, "SELECT view FROM halcyon.cells").len(), 1);
        session.batch("DROP MATERIALIZED VIEW v").unwrap();
    });
}

fn session_error(database: &Database, sql: &str) -> halcyon::SqlError {
    database.session().batch(sql).unwrap_err()
}

#[test]
fn a_cell_whose_memory_is_used_up_refuses_events_and_keeps_its_rows() {
    at_every_place(|place| {
        let database = Database::in_memory();
        let mut session = database.session();
        session
            .batch(&format!(
                "CREATE STREAM s (a INTEGER); CREATE MATERIALIZED VIEW v \
                 WITH (place = '{place}', cell_memory = '32MB') AS SELECT a, COUNT(*) AS n FROM s \
                 GROUP BY a"
            ))
            .unwrap();
        let mut inserted = 0;
        let error = loop {
            assert!(inserted < 3_000_000, "the memory has an end");
            let (from, to) = (inserted + 1, inserted + 40_000);
            let more =
                format!("INSERT INTO s SELECT n FROM generate_series({from}, {to}) AS g (n)");
            match session.batch(&more) {
                Ok(()) => inserted = to,
                Err(error) => break error,
            }
        };
        assert_eq!(error.state(), SqlState::OUT_OF_MEMORY, "{error:?}");
        assert!(error.fields().hint.as_deref().is_some_and(|hint| hint.contains("cell_memory")));
        assert_eq!(number(&mut session, "SELECT COUNT(*) FROM v"), inserted, "{place}");
        break_cell(&database, "v");
        // The next cell has what was accepted, and perhaps room for more.
        match session.batch("INSERT INTO s VALUES (1)") {
            Ok(()) => inserted += 1,
            Err(error) => assert_eq!(error.state(), SqlState::OUT_OF_MEMORY),
        }
        assert_eq!(number(&mut session, "SELECT SUM(n)::bigint FROM v"), inserted, "{place}");
    });
}

#[test]
fn a_statement_that_waits_for_a_cell_can_be_cancelled_and_leaves_nothing() {
    at_every_place(|place| {
        let database = Database::in_memory();
        let mut session = database.session();
        // Every event of b looks at all rows of a.
        session
            .batch(&format!(
                "CREATE STREAM a (x INTEGER); CREATE STREAM b (y INTEGER); \
                 CREATE MATERIALIZED VIEW v WITH (place = '{place}') AS \
                 SELECT COUNT(*) AS n FROM a, b WHERE (a.x * 3 + b.y) % 7 = a.x % 5; \
                 INSERT INTO a SELECT n FROM generate_series(1, 3000) AS g (n)"
            ))
            .unwrap();
        session.batch("INSERT INTO b VALUES (1), (2)").unwrap();
        let before = number(&mut session, "SELECT n FROM v");
        assert!(before > 0);
        let slow = "INSERT INTO b SELECT n FROM generate_series(1, 200000) AS g (n)";
        session.batch("SET statement_timeout = '300ms'").unwrap();
        let begun = Instant::now();
        assert_eq!(state(session.batch(slow)), SqlState::QUERY_CANCELED);
        session.batch("RESET statement_timeout").unwrap();
        let canceller = session.canceller();
        let cancels = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            canceller.cancel();
        });
        assert_eq!(state(session.batch(slow)), SqlState::QUERY_CANCELED);
        cancels.join().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
        assert_eq!(number(&mut session, "SELECT n FROM v"), before, "{place}");
        session.batch("INSERT INTO b VALUES (1), (2)").unwrap();
        assert_eq!(number(&mut session, "SELECT n FROM v"), 2 * before, "{place}");
    });
}

#[test]
fn subscribers_follow_a_view_in_a_cell_until_it_is_dropped() {
    at_every_place(|place| {
        let database = twins(place);
        let mut subscription = database.subscribe("sums_c", None).unwrap();
        let mut bids = database.stream("bids").unwrap();
        let wait = Duration::from_secs(20);
        let first = subscription.next(wait).unwrap().unwrap();
        assert_eq!(first.rows.len(), 0);
        for (step, sum) in [(0, 200.0), (1, 400.0), (2, 600.0)] {
            if step == 2 {
                break_cell(&database, "sums_c");
            }
            bids.insert(&[Int32(1), Text("ann"), Float64(2.0), Float64(100.0)]).unwrap();
            let changes = subscription.next(wait).unwrap().expect("a change");
            let row = |sum: f64, n: i64| {
                Some(vec![Value::Text("ann".into()), Value::Float64(sum), Value::Int64(n)])
            };
            let old = if step == 0 { None } else { row(sum - 200.0, step) };
            let found: Vec<_> =
                changes.rows.iter().map(|delta| (delta.old.clone(), delta.new.clone())).collect();
            assert_eq!(found, [(old, row(sum, step + 1))], "{place} {step}");
        }
        let catalog = halcyon::testing::catalog(&database);
        let table = catalog.find_table(&["sums_c".to_owned()], &["public".to_owned()]).unwrap();
        let view = table.materialized().unwrap().maintained();
        assert_eq!(view.cell_figures().unwrap().state, "running");
        database.session().batch("BEGIN; DROP MATERIALIZED VIEW sums_c; ROLLBACK").unwrap();
        assert_eq!(view.cell_figures().unwrap().state, "running");
        database.session().batch("DROP MATERIALIZED VIEW sums_c").unwrap();
        assert_eq!(view.cell_figures().unwrap().state, "dropped");
        assert_eq!(state(subscription.next(wait)), SqlState::UNDEFINED_TABLE);
        bids.insert(&[Int32(1), Text("ann"), Float64(2.0), Float64(100.0)]).unwrap();
    });
}

#[test]
fn a_view_is_in_its_cell_again_after_the_database_was_opened_again() {
    at_every_place(|place| {
        let folder =
            std::env::temp_dir().join(format!("halcyon-cells-{place}-{}", std::process::id()));
        let export = folder.with_extension("export");
        for folder in [&folder, &export] {
            let _ = std::fs::remove_dir_all(folder);
        }
        let query = "SELECT a, COUNT(*) AS n FROM s GROUP BY a";
        let with = format!("on_restart = 'empty', place = '{place}', cell_memory = '40MB'");
        {
            let database = Database::open(&folder).unwrap();
            let mut session = database.session();
            session.batch("CREATE STREAM s (a TEXT)").unwrap();
            let without = format!("CREATE MATERIALIZED VIEW v WITH (place = '{place}') AS {query}");
            assert_eq!(state(session.batch(&without)), SqlState::FEATURE_NOT_SUPPORTED);
            session
                .batch(&format!(
                    "CREATE MATERIALIZED VIEW v WITH ({with}) AS {query}; CREATE INDEX ON v (n); \
                     INSERT INTO s VALUES ('x'), ('x')"
                ))
                .unwrap();
            assert_eq!(rows(&mut session, "SELECT n FROM v"), ["Int64(2)"]);
            database.close();
        }
        let database = Database::open(&folder).unwrap();
        let mut session = database.session();
        assert_eq!(rows(&mut session, "SELECT * FROM v"), [""; 0]);
        session.batch("INSERT INTO s VALUES ('y'), ('z'), ('y')").unwrap();
        assert_eq!(
            rows(&mut session, "SELECT * FROM v"),
            ["Text(\"y\") | Int64(2)", "Text(\"z\") | Int64(1)"]
        );
        let cells = "SELECT place, state, memory_bytes::bigint, events::bigint FROM halcyon.cells";
        let cell =
            format!("Text(\"{place}\") | Text(\"running\") | Int64({}) | Int64(3)", 40 << 20);
        assert_eq!(rows(&mut session, cells), [cell]);
        session.batch(&format!("EXPORT DATABASE TO '{}'", export.display())).unwrap();
        let finish = std::fs::read_to_string(export.join("finish.sql")).unwrap();
        assert!(finish.contains(&format!("WITH ({with})")), "{finish}");
        database.close();
        for folder in [&folder, &export] {
            std::fs::remove_dir_all(folder).unwrap();
        }
    });
}
