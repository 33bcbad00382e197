//! Materialized views against recomputation, through every door: random statements with failures,
//! savepoints and rollbacks; streams' handles; subscriptions; databases that are opened again.

use std::collections::BTreeMap;
use std::time::Duration;

use halcyon::{
    Access, Database, DatabaseOptions, Isolation, Outcome, Session, SqlState, Value, ValueRef,
};
use halcyon_base::rng::Rng;

/// Rows of a query as text, sorted: floats as they are shown.
fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rows = session.query(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    while let Some(row) = rows.next().unwrap() {
        let cells: Vec<String> =
            (0..row.len()).map(|column| format!("{:?}", row.value(column).to_owned())).collect();
        found.push(cells.join(" | "));
    }
    found.sort();
    found
}

/// Views that between them use what is kept in different ways.
const VIEWS: &[(&str, &str)] = &[
    ("sums", "SELECT g, SUM(x) AS s, COUNT(*) AS n, AVG(x) AS a FROM a GROUP BY g"),
    ("extremes", "SELECT g, MIN(x) AS low, MAX(x) AS high FROM a GROUP BY g HAVING COUNT(*) > 1"),
    ("whole", "SELECT COUNT(*) AS n, SUM(x) AS s, MAX(id) AS last FROM a"),
    ("bag", "SELECT g, x FROM a WHERE x > 5"),
    ("kinds", "SELECT DISTINCT s FROM a"),
    ("joined", "SELECT b.name, SUM(a.x) AS s FROM a JOIN b ON a.g = b.id GROUP BY b.name"),
    ("outer_join", "SELECT b.id, a.x FROM b LEFT JOIN a ON a.g = b.id"),
    ("lonely", "SELECT id FROM b WHERE NOT EXISTS (SELECT 1 FROM a WHERE a.g = b.id)"),
    ("above", "SELECT id FROM a WHERE x > (SELECT AVG(x) FROM a a2 WHERE a2.g = a.g)"),
    (
        "numbered",
        "SELECT v.n, COUNT(a.id) AS c FROM (VALUES (1), (2), (7)) AS v (n) LEFT JOIN a ON a.g = v.n \
         GROUP BY v.n UNION ALL SELECT 0, (SELECT COUNT(*) FROM b)",
    ),
    ("over_sums", "SELECT MAX(s) AS top, COUNT(*) AS n FROM sums"),
    ("sums_named", "SELECT b.name, sums.s FROM sums JOIN b ON b.id = sums.g"),
];

fn database_with_views() -> Database {
    let database = Database::in_memory();
    create_views(&database);
    database
}

fn create_views(database: &Database) {
    let mut session = database.session();
    session
        .batch(
            "CREATE TABLE b (id INTEGER PRIMARY KEY, name TEXT NOT NULL); \
             CREATE TABLE a (id INTEGER PRIMARY KEY, g INTEGER, x INTEGER, s TEXT); \
             INSERT INTO b VALUES (0, 'zero'), (1, 'one'), (2, 'two'), (3, 'one')",
        )
        .unwrap();
    for (name, query) in VIEWS {
        let created =
            session.execute(format!("CREATE MATERIALIZED VIEW {name} AS {query}").as_str(), &[]);
        created.unwrap_or_else(|error| panic!("{name}: {error:?}"));
    }
}

fn compare(session: &mut Session, at: &str) {
    for (name, query) in VIEWS {
        let (kept, computed) =
            (rows(session, &format!("SELECT * FROM {name}")), rows(session, query));
        assert_eq!(kept, computed, "{name} at {at}");
    }
}

fn random_statement(rng: &mut Rng, next: &mut i64) -> String {
    let g = |rng: &mut Rng| match rng.below(6) {
        5 => "NULL".to_owned(),
        g => g.to_string(),
    };
    let x = |rng: &mut Rng| match rng.below(8) {
        7 => "NULL".to_owned(),
        _ => rng.below(20).to_string(),
    };
    let text = |rng: &mut Rng| format!("'{}'", ["p", "q", "rr", ""][rng.below(4) as usize]);
    match rng.below(12) {
        0..4 => {
            let count = 1 + rng.below(4);
            let rows = (0..count).map(|_| {
                *next += 1;
                format!("({next}, {}, {}, {})", g(rng), x(rng), text(rng))
            });
            format!("INSERT INTO a VALUES {}", rows.collect::<Vec<_>>().join(", "))
        }
        4 => format!("UPDATE a SET x = x + 1 WHERE g = {}", rng.below(5)),
        5 => format!(
            "UPDATE a SET g = {}, s = {} WHERE id % 5 = {}",
            g(rng),
            text(rng),
            rng.below(5)
        ),
        6 => format!("DELETE FROM a WHERE id % 7 = {}", rng.below(7)),
        7 => format!("UPDATE b SET name = name || 'x' WHERE id = {}", rng.below(4)),
        8 => "UPDATE a SET id = id + 100000 WHERE id % 3 = 0".to_owned(),
        // Fails after some rows: a key that is taken.
        9 => {
            *next += 1;
            format!("INSERT INTO a SELECT {next} + 0 * id, g, x, s FROM a")
        }
        10 => "INSERT INTO a SELECT id + 1000000000, g, x, s FROM a WHERE id < 20".to_owned(),
        _ => format!("DELETE FROM a WHERE x > {}", 10 + rng.below(15)),
    }
}

#[test]
fn random_statements_leave_views_as_recomputation_does() {
    for seed in 0..6 {
        let database = database_with_views();
        let mut session = database.session();
        let (mut rng, mut next) = (Rng::new(seed), 0);
        for step in 0..60 {
            let at = format!("seed {seed}, step {step}");
            match rng.below(8) {
                0 if session.state() == halcyon::SessionState::Idle => {
                    session.begin(Isolation::Serializable, Access::ReadWrite).unwrap();
                }
                1 if session.state() == halcyon::SessionState::InTransaction => {
                    session.execute("SAVEPOINT s", &[]).unwrap();
                    for _ in 0..rng.below(4) {
                        let statement = random_statement(&mut rng, &mut next);
                        let _ = session.execute(statement.as_str(), &[]);
                    }
                    session.execute("ROLLBACK TO s", &[]).unwrap();
                }
                2 => match session.state() {
                    halcyon::SessionState::Idle => {}
                    halcyon::SessionState::InTransaction if rng.below(2) == 0 => {
                        session.commit().unwrap();
                    }
                    _ => session.rollback().unwrap(),
                },
                _ => {
                    let statement = random_statement(&mut rng, &mut next);
                    let _ = session.execute(statement.as_str(), &[]);
                }
            }
            if session.state() == halcyon::SessionState::Failed {
                session.rollback().unwrap();
            }
            if step % 5 == 4 {
                compare(&mut session, &at);
            }
        }
        if session.state() != halcyon::SessionState::Idle {
            session.rollback().unwrap();
        }
        compare(&mut session, &format!("seed {seed}, end"));
        halcyon::testing::check_views(&database);
    }
}

#[test]
fn a_snapshot_has_tables_and_views_of_one_moment() {
    let database = database_with_views();
    let writer = {
        let database = database.clone();
        std::thread::spawn(move || {
            let mut session = database.session();
            let (mut rng, mut next) = (Rng::new(7), 0);
            for _ in 0..150 {
                let _ = session.execute(random_statement(&mut rng, &mut next).as_str(), &[]);
            }
        })
    };
    let mut session = database.session();
    for round in 0..8 {
        session.begin(Isolation::Serializable, Access::ReadOnly).unwrap();
        compare(&mut session, &format!("snapshot {round}"));
        session.commit().unwrap();
    }
    writer.join().unwrap();
}

#[test]
fn a_view_is_the_same_after_the_database_was_opened_again() {
    let folder = std::env::temp_dir().join(format!("halcyon-views-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let before: Vec<Vec<String>>;
    {
        let database = Database::open(&folder).unwrap();
        create_views(&database);
        let mut session = database.session();
        let (mut rng, mut next) = (Rng::new(11), 0);
        for step in 0..40 {
            let _ = session.execute(random_statement(&mut rng, &mut next).as_str(), &[]);
            if step == 20 {
                database.checkpoint().unwrap();
            }
        }
        session.execute("CREATE INDEX sums_g ON sums (g)", &[]).unwrap();
        session
            .batch(
                "CREATE ASSERTION few CHECK (NOT EXISTS (SELECT 1 FROM sums WHERE n > 100000)); \
                 CREATE STREAM events (k INTEGER)",
            )
            .unwrap();
        let refused = session.execute(
            "CREATE MATERIALIZED VIEW seen AS SELECT k, COUNT(*) AS n FROM events GROUP BY k",
            &[],
        );
        assert_eq!(refused.unwrap_err().state(), SqlState::FEATURE_NOT_SUPPORTED);
        session
            .batch(
                "CREATE MATERIALIZED VIEW seen WITH (on_restart = 'empty') AS \
                 SELECT k, COUNT(*) AS n FROM events GROUP BY k; INSERT INTO events VALUES (1)",
            )
            .unwrap();
        assert_eq!(rows(&mut session, "SELECT k, n FROM seen"), ["Int32(1) | Int64(1)"]);
        before =
            VIEWS.iter().map(|(v, _)| rows(&mut session, &format!("SELECT * FROM {v}"))).collect();
        database.close();
    }
    let database = Database::open(&folder).unwrap();
    let mut session = database.session();
    let after: Vec<Vec<String>> =
        VIEWS.iter().map(|(v, _)| rows(&mut session, &format!("SELECT * FROM {v}"))).collect();
    assert_eq!(before, after);
    assert_eq!(rows(&mut session, "SELECT k, n FROM seen"), Vec::<String>::new());
    session.execute("INSERT INTO events VALUES (2)", &[]).unwrap();
    assert_eq!(rows(&mut session, "SELECT k, n FROM seen"), ["Int32(2) | Int64(1)"]);
    // They are maintained as before, under the same guards.
    session.execute("INSERT INTO a VALUES (-1, 1, 3, 'new')", &[]).unwrap();
    compare(&mut session, "after opening");
    let error = session
        .execute(
            "INSERT INTO a SELECT -2 - n, 1, 1, 'many' FROM generate_series(0, 100001) AS t(n)",
            &[],
        )
        .unwrap_err();
    assert_eq!(error.state(), SqlState::CHECK_VIOLATION);
    assert!(error.message().contains("\"few\""), "{error:?}");
    compare(&mut session, "after the guard");
    drop(session);
    database.close();
    drop(database);
    std::fs::remove_dir_all(&folder).unwrap();
}

fn order(t: f64, broker: i32, volume: f64, price: f64) -> [ValueRef<'static>; 4] {
    [
        ValueRef::Float64(t),
        ValueRef::Int32(broker),
        ValueRef::Float64(volume),
        ValueRef::Float64(price),
    ]
}

fn book() -> Database {
    let database = Database::in_memory();
    let mut session = database.session();
    session
        .batch(
            "CREATE STREAM bids (t DOUBLE PRECISION, broker INTEGER, volume DOUBLE PRECISION, \
             price DOUBLE PRECISION, CHECK (volume >= 0)); \
             CREATE MATERIALIZED VIEW turnover AS SELECT broker, SUM(volume * price) AS s, \
             COUNT(*) AS n FROM bids GROUP BY broker; \
             CREATE MATERIALIZED VIEW total AS SELECT COUNT(*) AS n, SUM(volume) AS v FROM bids",
        )
        .unwrap();
    database
}

#[test]
fn events_of_a_handle_are_seen_by_whoever_reads_next() {
    let database = book();
    let mut session = database.session();
    let mut bids = database.stream("bids").unwrap();
    let mut expected: BTreeMap<i32, (f64, i64)> = BTreeMap::new();
    let mut alive = Vec::new();
    let mut rng = Rng::new(3);
    for step in 0..500 {
        if rng.below(3) == 0 && !alive.is_empty() {
            let row: [ValueRef<'static>; 4] =
                alive.swap_remove(rng.below(alive.len() as u64) as usize);
            bids.delete(&row).unwrap();
            let (ValueRef::Int32(broker), ValueRef::Float64(v), ValueRef::Float64(p)) =
                (row[1], row[2], row[3])
            else {
                panic!()
            };
            let group = expected.get_mut(&broker).unwrap();
            (group.0, group.1) = (group.0 - v * p, group.1 - 1);
        } else {
            let (v, p) = (rng.below(100) as f64, rng.below(1000) as f64);
            let broker = rng.below(10) as i32;
            let row = order(step as f64, broker, v, p);
            bids.insert(&row).unwrap();
            alive.push(row);
            let group = expected.entry(broker).or_default();
            (group.0, group.1) = (group.0 + v * p, group.1 + 1);
        }
        if step % 50 == 0 {
            let shown: Vec<String> = expected
                .iter()
                .filter(|(_, (_, n))| *n > 0)
                .map(|(broker, (s, n))| {
                    format!(
                        "{:?} | {:?} | {:?}",
                        Value::Int32(*broker),
                        Value::Float64(*s),
                        Value::Int64(*n)
                    )
                })
                .collect();
            let mut shown = shown;
            shown.sort();
            assert_eq!(rows(&mut session, "SELECT broker, s, n FROM turnover"), shown, "{step}");
            let n: i64 = expected.values().map(|(_, n)| n).sum();
            let one = rows(
                &mut session,
                "SELECT t.n FROM total t, (SELECT SUM(n) AS n FROM turnover) u WHERE t.n = u.n",
            );
            assert_eq!(one, [format!("{:?}", Value::Int64(n))]);
        }
    }
    let mut reader = database.view("turnover").unwrap();
    let row = reader.row(&[ValueRef::Int32(3)]).unwrap().unwrap();
    assert_eq!(row[2], Value::Int64(expected[&3].1));
    assert_eq!(reader.row(&[ValueRef::Int32(77)]).unwrap(), None);
    assert_eq!(reader.row(&[]).unwrap_err().state(), SqlState::INVALID_PARAMETER_VALUE);
    halcyon::testing::check_views(&database);
}

#[test]
fn packed_events_are_those_that_were_packed() {
    let database = book();
    let mut session = database.session();
    session
        .batch(
            "CREATE MATERIALIZED VIEW named AS \
             SELECT broker, MAX(price) AS p FROM bids GROUP BY broker",
        )
        .unwrap();
    let mut bids = database.stream("bids").unwrap();
    let (mut one_by_one, mut packed) = (database.stream("bids").unwrap(), bids.packed());
    let mut rng = Rng::new(8);
    let rows_of = |count: usize, rng: &mut Rng| -> Vec<[ValueRef<'static>; 4]> {
        let row = |at: usize| {
            order(at as f64, rng.below(5) as i32, rng.below(100) as f64, rng.below(90) as f64)
        };
        (0..count).map(row).collect()
    };
    let events = rows_of(200, &mut rng);
    for row in &events {
        bids.pack(row, 1, &mut packed).unwrap();
        bids.pack(row, -1, &mut packed).unwrap();
    }
    assert_eq!(packed.len(), 400);
    // Every other one: all of the inserts, none of the deletes.
    for at in (0..400).step_by(2) {
        bids.take(&packed, at..at + 1).unwrap();
    }
    let all = "SELECT t.broker, s, n, p FROM turnover t, named u WHERE t.broker = u.broker";
    let shown = rows(&mut session, all);
    for at in (1..400).step_by(2) {
        bids.take(&packed, at..at + 1).unwrap();
    }
    assert_eq!(rows(&mut session, all), [""; 0]);
    events.iter().for_each(|row| one_by_one.insert(row).unwrap());
    assert_eq!(rows(&mut session, all), shown);
    // A run at once leaves nothing behind here.
    bids.take(&packed, 0..400).unwrap();
    assert_eq!(rows(&mut session, all), shown);
    halcyon::testing::check_views(&database);
}

#[test]
#[should_panic(expected = "a run is of events that were packed")]
fn a_run_beyond_the_packed_events_is_a_mistake() {
    let database = book();
    let mut bids = database.stream("bids").unwrap();
    let mut packed = bids.packed();
    bids.pack(&order(1.0, 1, 2.0, 3.0), 1, &mut packed).unwrap();
    let _ = bids.take(&packed, 0..2);
}

#[test]
fn packed_events_are_verified_and_good_for_their_views_alone() {
    let database = book();
    let mut bids = database.stream("bids").unwrap();
    let mut packed = bids.packed();
    let state = |result: halcyon::Result<()>| result.unwrap_err().state();
    let wrong = order(1.0, 1, -1.0, 1.0);
    assert_eq!(state(bids.pack(&wrong, 1, &mut packed)), SqlState::CHECK_VIOLATION);
    assert_eq!(state(bids.pack(&wrong[..2], 1, &mut packed)), SqlState::SYNTAX_ERROR);
    assert!(packed.is_empty());
    bids.pack(&order(1.0, 1, 2.0, 3.0), 1, &mut packed).unwrap();
    // Out of a sum's range: the event before it is taken back, too.
    bids.pack(&order(1.0, 1, 1e30, 1.0), 1, &mut packed).unwrap();
    assert_eq!(state(bids.take(&packed, 0..2)), SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
    let mut session = database.session();
    let count = |n: i64| [format!("{:?}", Value::Int64(n))];
    assert_eq!(rows(&mut session, "SELECT n FROM total"), count(0));
    // Another table changes nothing, another view does.
    session.batch("CREATE TABLE other (a INTEGER)").unwrap();
    bids.take(&packed, 0..1).unwrap();
    assert_eq!(rows(&mut session, "SELECT n FROM total"), count(1));
    session.batch("CREATE MATERIALIZED VIEW more AS SELECT MAX(price) AS p FROM bids").unwrap();
    let refused = state(bids.take(&packed, 0..1));
    assert_eq!(refused, SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
    packed = bids.packed();
    bids.pack(&order(1.0, 1, 2.0, 3.0), -1, &mut packed).unwrap();
    bids.take(&packed, 0..1).unwrap();
    assert_eq!(rows(&mut session, "SELECT n FROM total"), count(0));
    // Nor where every event must be judged.
    session
        .batch("CREATE ASSERTION few CHECK (NOT EXISTS (SELECT 1 FROM total WHERE n > 9))")
        .unwrap();
    assert_eq!(
        state(bids.pack(&order(1.0, 1, 2.0, 3.0), 1, &mut packed)),
        SqlState::FEATURE_NOT_SUPPORTED
    );
    halcyon::testing::check_views(&database);
}

#[test]
fn a_handle_refuses_what_insert_would_refuse() {
    let database = book();
    let mut bids = database.stream("bids").unwrap();
    let state = |result: halcyon::Result<()>| result.unwrap_err().state();
    assert_eq!(state(bids.insert(&order(1.0, 1, 1.0, 1.0)[..2])), SqlState::SYNTAX_ERROR);
    let mut wrong = order(1.0, 1, 1.0, 1.0);
    wrong[1] = ValueRef::Text("one");
    assert_eq!(state(bids.insert(&wrong)), SqlState::DATATYPE_MISMATCH);
    assert_eq!(state(bids.insert(&order(1.0, 1, -1.0, 1.0))), SqlState::CHECK_VIOLATION);
    let endless = order(1.0, 1, f64::INFINITY, 1.0);
    assert_eq!(state(bids.insert(&endless)), SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
    let mut session = database.session();
    assert_eq!(rows(&mut session, "SELECT n FROM total"), [format!("{:?}", Value::Int64(0))]);
    assert_eq!(
        database.stream("nowhere").map(|_| ()).unwrap_err().state(),
        SqlState::UNDEFINED_TABLE
    );
    assert_eq!(
        database.stream("total").map(|_| ()).unwrap_err().state(),
        SqlState::WRONG_OBJECT_TYPE
    );
}

#[test]
fn a_unique_index_of_a_view_judges_events_of_handles() {
    let database = book();
    let (mut session, mut bids) = (database.session(), database.stream("bids").unwrap());
    bids.insert(&order(1.0, 1, 2.0, 3.0)).unwrap();
    bids.insert(&order(1.0, 2, 3.0, 2.0)).unwrap();
    // Two brokers have a turnover of 6, which no row of the view tells yet.
    let twice = session.batch("CREATE UNIQUE INDEX ON turnover (s)").unwrap_err();
    assert_eq!(twice.state(), SqlState::UNIQUE_VIOLATION);
    bids.insert(&order(1.0, 2, 1.0, 1.0)).unwrap();
    session.batch("CREATE UNIQUE INDEX ON turnover (s)").unwrap();
    let twice = bids.insert(&order(1.0, 1, 1.0, 1.0)).unwrap_err();
    assert_eq!(twice.state(), SqlState::UNIQUE_VIOLATION);
    bids.insert(&order(1.0, 1, 2.0, 1.0)).unwrap();
    assert_eq!(
        rows(&mut session, "SELECT broker, s FROM turnover ORDER BY broker"),
        ["Int32(1) | Float64(8.0)", "Int32(2) | Float64(7.0)"]
    );
    halcyon::testing::check_views(&database);
}

#[test]
fn a_handle_waits_for_a_transaction_that_has_changed_its_views() {
    let database = book();
    let mut session = database.session();
    session.begin(Isolation::Serializable, Access::ReadWrite).unwrap();
    session.execute("INSERT INTO bids VALUES (1, 1, 10, 10)", &[]).unwrap();
    let other = {
        let database = database.clone();
        std::thread::spawn(move || {
            let mut bids = database.stream("bids").unwrap();
            bids.insert(&order(2.0, 2, 1.0, 1.0)).unwrap();
        })
    };
    // The transaction is undone; the event that waited for it is not.
    std::thread::sleep(Duration::from_millis(20));
    session.rollback().unwrap();
    other.join().unwrap();
    let expected = [format!("{:?} | {:?}", Value::Int32(2), Value::Int64(1))];
    assert_eq!(rows(&mut session, "SELECT broker, n FROM turnover"), expected);
    let batch: Vec<(Vec<ValueRef<'_>>, i8)> =
        vec![(order(3.0, 2, 1.0, 1.0).to_vec(), 1), (order(3.0, 2, -1.0, 1.0).to_vec(), 1)];
    let mut bids = database.stream("bids").unwrap();
    assert_eq!(bids.batch(&batch).unwrap_err().state(), SqlState::CHECK_VIOLATION);
    assert_eq!(rows(&mut session, "SELECT broker, n FROM turnover"), expected);
    bids.batch(&batch[..1]).unwrap();
    let expected = [format!("{:?} | {:?}", Value::Int32(2), Value::Int64(2))];
    assert_eq!(rows(&mut session, "SELECT broker, n FROM turnover"), expected);
    halcyon::testing::check_views(&database);
}

#[test]
fn a_transaction_reads_a_streams_view_twice_and_finds_the_same() {
    let database = book();
    let mut bids = database.stream("bids").unwrap();
    bids.insert(&order(1.0, 1, 10.0, 10.0)).unwrap();
    let mut session = database.session();
    session.begin(Isolation::Serializable, Access::ReadWrite).unwrap();
    let first = rows(&mut session, "SELECT * FROM turnover");
    let other = std::thread::spawn(move || bids.insert(&order(2.0, 1, 1.0, 1.0)).unwrap());
    std::thread::sleep(Duration::from_millis(10));
    assert_eq!(rows(&mut session, "SELECT * FROM turnover"), first);
    session.commit().unwrap();
    other.join().unwrap();
    assert_ne!(rows(&mut session, "SELECT * FROM turnover"), first);
}

#[test]
fn subscribers_get_whole_transactions_in_order() {
    let database = database_with_views();
    let mut session = database.session();
    session.execute("INSERT INTO a VALUES (1, 1, 10, 'p')", &[]).unwrap();
    let mut subscription = database.subscribe("sums", None).unwrap();
    let wait = Duration::from_secs(10);
    let first = subscription.next(wait).unwrap().unwrap();
    assert_eq!((first.position, first.rows.len()), (0, 1));
    session.begin(Isolation::Serializable, Access::ReadWrite).unwrap();
    session.execute("INSERT INTO a VALUES (2, 1, 5, 'p')", &[]).unwrap();
    session.execute("INSERT INTO a VALUES (3, 2, 5, 'p')", &[]).unwrap();
    assert!(subscription.next(Duration::ZERO).unwrap().is_none());
    session.commit().unwrap();
    let changes = subscription.next(wait).unwrap().unwrap();
    assert_eq!((changes.position, changes.rows.len()), (1, 2));
    let sum = |row: &Option<Vec<Value>>| row.as_ref().map(|row| row[1].clone());
    assert_eq!(sum(&changes.rows[0].old), Some(Value::Int64(10)));
    assert_eq!(sum(&changes.rows[0].new), Some(Value::Int64(15)));
    assert_eq!(changes.rows[1].old, None);
    // What is undone is not told.
    session.begin(Isolation::Serializable, Access::ReadWrite).unwrap();
    session.execute("DELETE FROM a", &[]).unwrap();
    session.rollback().unwrap();
    session.execute("DELETE FROM a WHERE id = 3", &[]).unwrap();
    let changes = subscription.next(wait).unwrap().unwrap();
    assert_eq!((changes.position, changes.rows.len()), (2, 1));
    assert_eq!(changes.rows[0].new, None);
    // From a position, without the rows.
    let mut again = database.subscribe("sums", Some(1)).unwrap();
    assert_eq!(again.next(wait).unwrap().unwrap().position, 2);
    let error = database.subscribe("sums", Some(99)).unwrap().next(wait).unwrap_err();
    assert_eq!(error.state(), SqlState::CONFIGURATION_LIMIT_EXCEEDED);
    assert_eq!(
        database.subscribe("a", None).map(|_| ()).unwrap_err().state(),
        SqlState::WRONG_OBJECT_TYPE
    );
    session.execute("DROP MATERIALIZED VIEW sums CASCADE", &[]).unwrap();
    assert_eq!(again.next(wait).unwrap_err().state(), SqlState::UNDEFINED_TABLE);
}

#[test]
fn a_hundred_subscribers_get_the_same() {
    let database = book();
    let mut session = database.session();
    let subscribers: Vec<_> = (0..100)
        .map(|_| {
            let mut subscription = database.subscribe("total", None).unwrap();
            std::thread::spawn(move || {
                let mut count = 0;
                loop {
                    let found = subscription.next(Duration::from_secs(30)).unwrap().unwrap();
                    let last = found.rows.last().and_then(|row| row.new.clone()).unwrap();
                    if found.position > 0 {
                        count += 1;
                    }
                    if last[0] == Value::Int64(20) {
                        return (found.position, count);
                    }
                }
            })
        })
        .collect();
    for n in 0..20 {
        session.execute(format!("INSERT INTO bids VALUES ({n}, 1, 1, 1)").as_str(), &[]).unwrap();
    }
    for subscriber in subscribers {
        assert_eq!(subscriber.join().unwrap(), (20, 20));
    }
}

#[test]
fn views_do_not_take_more_memory_than_they_may() {
    let options = DatabaseOptions::default().with("view_memory", "400000B").unwrap();
    // Given when it is opened, or altered while it runs.
    for (options, altered) in [(options, "SELECT 1"), (DatabaseOptions::default(), ALTER)] {
        let database = Database::with_options(options);
        let mut session = database.session();
        session.batch(altered).unwrap();
        stays_within_400_000_bytes(&mut session);
        session.batch("ALTER SYSTEM RESET view_memory").unwrap();
        let many = session.execute("INSERT INTO t SELECT * FROM generate_series(1, 200000)", &[]);
        assert_eq!(many.is_ok(), altered == ALTER, "an option stands above ALTER SYSTEM");
    }
}

const ALTER: &str = "ALTER SYSTEM SET view_memory = '400000B'";

fn stays_within_400_000_bytes(session: &mut Session) {
    session
        .batch(
            "CREATE TABLE t (k INTEGER); \
             CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM t GROUP BY k",
        )
        .unwrap();
    session.execute("INSERT INTO t SELECT * FROM generate_series(1, 10)", &[]).unwrap();
    let error =
        session.execute("INSERT INTO t SELECT * FROM generate_series(1, 200000)", &[]).unwrap_err();
    assert_eq!(error.state(), SqlState::OUT_OF_MEMORY);
    assert_eq!(rows(session, "SELECT COUNT(*) FROM v"), [format!("{:?}", Value::Int64(10))]);
    assert_eq!(rows(session, "SELECT COUNT(*) FROM t"), [format!("{:?}", Value::Int64(10))]);
}

/// Every predicate over every pair of truth values: as a condition, as its negation's, as a column.
#[test]
fn three_valued_logic_is_that_of_queries() {
    const PREDICATES: [&str; 14] = [
        "x AND y",
        "x OR y",
        "NOT x OR y",
        "x = y",
        "x <> y",
        "x < y",
        "x IS NOT DISTINCT FROM y",
        "(x AND y) IS NULL",
        "(x OR y) IS NOT TRUE",
        "CASE WHEN x THEN y WHEN y THEN NULL ELSE x END",
        "COALESCE(x, y, FALSE)",
        "NULLIF(x, y)",
        "x IN (y, NULL)",
        "x NOT IN (y, FALSE)",
    ];
    let database = Database::in_memory();
    let mut session = database.session();
    session.batch("CREATE TABLE b (x BOOLEAN, y BOOLEAN)").unwrap();
    let views: Vec<(String, String)> = PREDICATES
        .iter()
        .enumerate()
        .flat_map(|(at, p)| {
            [
                (format!("kept{at}"), format!("SELECT x, y FROM b WHERE {p}")),
                (format!("left{at}"), format!("SELECT x, y FROM b WHERE NOT ({p})")),
                (format!("told{at}"), format!("SELECT x, y, ({p}) AS p FROM b")),
                (format!("sum{at}"), format!("SELECT ({p}) AS p, COUNT(*) AS n FROM b GROUP BY 1")),
            ]
        })
        .collect();
    for (name, query) in &views {
        session.batch(&format!("CREATE MATERIALIZED VIEW {name} AS {query}")).unwrap();
    }
    let values = ["TRUE", "FALSE", "NULL"];
    let check = |session: &mut Session| {
        for (name, query) in &views {
            assert_eq!(
                rows(session, &format!("SELECT * FROM {name}")),
                rows(session, query),
                "{query}"
            );
        }
    };
    for x in values {
        for y in values {
            session.batch(&format!("INSERT INTO b VALUES ({x}, {y})")).unwrap();
        }
    }
    check(&mut session);
    session.batch("DELETE FROM b WHERE x; UPDATE b SET x = y, y = x WHERE x IS NULL").unwrap();
    check(&mut session);
    halcyon::testing::check_views(&database);
}

/// The queries of DBToaster's finance benchmark.
const FINANCE: &[(&str, &str)] = &[
    (
        "axfinder",
        "SELECT b.broker_id, SUM(a.volume + (-1 * b.volume)) AS s FROM bids b, asks a \
         WHERE b.broker_id = a.broker_id \
         AND (a.price - b.price > 1000 OR b.price - a.price > 1000) GROUP BY b.broker_id",
    ),
    (
        "pricespread",
        "SELECT SUM(a.price - b.price) AS s FROM bids b, asks a \
         WHERE b.volume > 0.0001 * (SELECT SUM(b1.volume) FROM bids b1) \
         AND a.volume > 0.0001 * (SELECT SUM(a1.volume) FROM asks a1)",
    ),
    (
        "vwap",
        "SELECT SUM(b1.price * b1.volume) AS s FROM bids b1 \
         WHERE 0.25 * (SELECT SUM(b3.volume) FROM bids b3) > \
         COALESCE((SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b1.price), 0)",
    ),
    (
        "brokerspread",
        "SELECT x.broker_id, SUM(x.volume * x.price - y.volume * y.price) AS s \
         FROM bids x, bids y WHERE x.broker_id = y.broker_id AND x.t > y.t GROUP BY x.broker_id",
    ),
    (
        "brokervariance",
        "SELECT x.broker_id, SUM(x.volume * x.price * y.volume * y.price * 0.5) AS s \
         FROM bids x, bids y WHERE x.broker_id = y.broker_id GROUP BY x.broker_id",
    ),
    (
        "missedtrades",
        "SELECT b.broker_id, SUM(a.price * a.volume - b.price * b.volume) AS s \
         FROM bids b, asks a WHERE 0.25 * (SELECT SUM(a1.volume) FROM asks a1) > \
         COALESCE((SELECT SUM(a2.volume) FROM asks a2 WHERE a2.price > a.price), 0) \
         AND 0.25 * (SELECT SUM(b1.volume) FROM bids b1) > \
         COALESCE((SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b.price), 0) \
         GROUP BY b.broker_id",
    ),
];

/// What they give at the end of `tests/data/orderbook/tiny.csv`, by broker; zeros are left out.
fn expected_of_tiny() -> BTreeMap<&'static str, Vec<(i32, f64)>> {
    let axfinder = vec![
        (0, 7590.0),
        (2, -1395.0),
        (3, 95.0),
        (5, 1080.0),
        (6, 490.0),
        (7, -907.0),
        (8, 2419.0),
        (9, 45.0),
    ];
    let brokerspread = vec![
        (0, 1534094000.0),
        (2, 155980000.0),
        (3, 28610000.0),
        (7, -274580000.0),
        (8, 172644000.0),
    ];
    let missedtrades = vec![(2, 7633000.0), (3, 2068653000.0), (4, 1299183000.0), (7, 546353000.0)];
    let brokervariance = vec![
        (0, 2.968836684845e17),
        (2, 3.798043605e16),
        (3, 1225620050000000.0),
        (4, 4826531250000000.0),
        (5, 1692800000000.0),
        (6, 1508584500000.0),
        (7, 1.885876205e16),
        (8, 4780953112500000.0),
        (9, 126756125000.0),
    ];
    BTreeMap::from([
        ("axfinder", axfinder),
        ("pricespread", vec![(-1, 389562600.0)]),
        ("vwap", vec![(-1, 491070000.0)]),
        ("brokerspread", brokerspread),
        ("missedtrades", missedtrades),
        ("brokervariance", brokervariance),
    ])
}

fn sums(session: &mut Session, query: &str) -> Vec<(i32, f64)> {
    let mut found = Vec::new();
    let mut rows = session.query(query, &[]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let (broker, sum) = match row.len() {
            1 => (-1, row.value(0).to_owned()),
            _ => match row.value(0) {
                ValueRef::Int32(broker) => (broker, row.value(1).to_owned()),
                other => panic!("{other:?}"),
            },
        };
        match sum {
            Value::Float64(sum) if sum != 0.0 => found.push((broker, sum)),
            Value::Float64(_) | Value::Null => {}
            other => panic!("{other:?}"),
        }
    }
    found.sort_by_key(|(broker, _)| *broker);
    found
}

fn tiny() -> String {
    format!("{}/../../tests/data/orderbook/tiny.csv", env!("CARGO_MANIFEST_DIR"))
}

/// Empty books, and the views over them.
fn with_finance_views(kind: &str) -> Database {
    let database = Database::in_memory();
    let mut session = database.session();
    for side in ["bids", "asks"] {
        let columns = "(t DOUBLE PRECISION NOT NULL, id INTEGER NOT NULL, broker_id INTEGER \
                       NOT NULL, volume DOUBLE PRECISION NOT NULL CHECK (volume >= 0), \
                       price DOUBLE PRECISION NOT NULL CHECK (price >= 0))";
        session.execute(format!("CREATE {kind} {side} {columns}").as_str(), &[]).unwrap();
    }
    for (name, query) in FINANCE {
        let create = format!("CREATE MATERIALIZED VIEW {name} AS {query}");
        session.execute(create.as_str(), &[]).unwrap_or_else(|error| panic!("{name}: {error:?}"));
    }
    database
}

fn load_tiny(kind: &str) -> Database {
    let database = with_finance_views(kind);
    let mut session = database.session();
    for side in ["bids", "asks"] {
        let copy = format!("COPY {side} FROM '{}' WITH (FORMAT orderbook, book '{side}')", tiny());
        assert!(session.execute(copy.as_str(), &[]).unwrap() > 0);
    }
    database
}

fn check_tiny(session: &mut Session) {
    for (name, expected) in expected_of_tiny() {
        let found = sums(session, &format!("SELECT * FROM {name}"));
        assert_eq!(found.len(), expected.len(), "{name}: {found:?}");
        for ((broker, sum), (expected_broker, expected_sum)) in found.iter().zip(&expected) {
            let close = (sum - expected_sum).abs() <= expected_sum.abs() * 1e-12;
            assert!(close && broker == expected_broker, "{name} of {broker}: {sum}");
        }
    }
}

#[test]
fn an_order_book_gives_the_finance_queries_their_known_answers() {
    let mut session = load_tiny("STREAM").session();
    check_tiny(&mut session);
    let database = load_tiny("TABLE");
    let mut session = database.session();
    check_tiny(&mut session);
    for (name, query) in FINANCE {
        assert_eq!(sums(&mut session, query).len(), expected_of_tiny()[name].len(), "{name}");
    }
    // Row by row out of the book again, and back into it.
    session.begin(Isolation::Serializable, Access::ReadWrite).unwrap();
    while session.execute("DELETE FROM bids WHERE id = (SELECT MIN(id) FROM bids)", &[]).unwrap()
        > 0
    {}
    for (name, _) in FINANCE {
        assert_eq!(sums(&mut session, &format!("SELECT * FROM {name}")), [], "{name}");
    }
    session.rollback().unwrap();
    check_tiny(&mut session);
    halcyon::testing::check_views(&database);
}

#[test]
fn a_malformed_message_is_told_by_line_and_field_and_leaves_nothing() {
    let path = std::env::temp_dir().join(format!("halcyon-orders-{}.csv", std::process::id()));
    std::fs::write(&path, "1,1,B,5,10\n2,2,B,7,11\n3,1,E,x,10\n").unwrap();
    for kind in ["STREAM", "TABLE"] {
        let database = load_tiny(kind);
        let mut session = database.session();
        let copy =
            format!("COPY bids FROM '{}' WITH (FORMAT orderbook, book 'bids')", path.display());
        let error = session.execute(copy.as_str(), &[]).unwrap_err();
        assert_eq!(error.state(), SqlState::BAD_COPY_FILE_FORMAT);
        assert_eq!(error.fields().detail.as_deref(), Some("Line 3: field 4 (volume): \"x\"."));
        check_tiny(&mut session);
    }
    let database = database_with_views();
    let copy = format!("COPY a FROM '{}' WITH (FORMAT orderbook, book 'bids')", path.display());
    let error = database.session().execute(copy.as_str(), &[]).unwrap_err();
    assert_eq!(error.state(), SqlState::DATATYPE_MISMATCH);
    std::fs::remove_file(&path).unwrap();
}

/// The client sends the messages, cut anywhere.
#[test]
fn an_order_book_comes_from_stdin_too() {
    let messages = std::fs::read(tiny()).unwrap();
    for kind in ["STREAM", "TABLE"] {
        let database = with_finance_views(kind);
        let mut session = database.session();
        for side in ["bids", "asks"] {
            let copy = format!("COPY {side} FROM STDIN WITH (FORMAT orderbook, book '{side}')");
            let copy = session.prepare(copy.as_str()).unwrap();
            let outcome = session.run(&copy, &[]).unwrap();
            assert!(matches!(outcome, Outcome::CopyIn { columns: 5, binary: false }));
            messages.chunks(7).for_each(|piece| session.copy_data(piece).unwrap());
            session.copy_end().unwrap();
        }
        check_tiny(&mut session);
        let copy = "COPY bids FROM STDIN WITH (FORMAT orderbook, book 'bids')";
        let prepared = session.prepare(copy).unwrap();
        for (message, state) in [
            ("1,2,B,3,4\n1,2,B,x,4\n", SqlState::BAD_COPY_FILE_FORMAT),
            ("1,2,B,3,4\n1,4000000000,B,3,4", SqlState::NUMERIC_VALUE_OUT_OF_RANGE),
            ("1,2,B,3,4\n1,3,B,-3,4\n", SqlState::CHECK_VIOLATION),
        ] {
            session.run(&prepared, &[]).unwrap();
            let sent = session.copy_data(message.as_bytes());
            let error = sent.and_then(|()| session.copy_end().map(|_| ())).unwrap_err();
            assert_eq!(error.state(), state, "{message}");
            check_tiny(&mut session);
        }
    }
}

/// Inequalities over nested sums are searched for, not looked at one by one, in the plans that our
/// binder makes.
#[test]
fn views_of_orders_cost_no_more_than_a_search() {
    let mut session = with_finance_views("STREAM").session();
    for (name, _) in FINANCE {
        let told = rows(&mut session, &format!("EXPLAIN MAINTENANCE {name}")).join("\n");
        assert!(!told.contains("O(n)"), "{name}: {told}");
    }
}

/// Views that take long follow the statement's time and its client, wherever the time goes; what was
/// begun leaves no trace.
#[test]
fn a_statement_over_views_ends_in_time_and_leaves_nothing() {
    let database = Database::in_memory();
    let mut session = database.session();
    session
        .batch(
            "CREATE TABLE big (x INTEGER, y INTEGER); CREATE TABLE little (x INTEGER, y INTEGER); \
             INSERT INTO big SELECT n, n % 7 FROM generate_series(1, 20000) AS t (n); \
             CREATE MATERIALIZED VIEW pairs AS SELECT SUM(a.x * b.y % 3) AS s, COUNT(*) AS n \
             FROM little a, little b WHERE a.x % 11 <> b.y",
        )
        .unwrap();
    let query = "SELECT SUM(a.x * b.y % 3) AS s FROM big a, big b WHERE a.x % 11 <> b.y";
    let create = format!("CREATE MATERIALIZED VIEW slow AS {query}");
    let told = "canceling statement due to statement timeout";
    for statement in [create.as_str(), "INSERT INTO little SELECT x, y FROM big"] {
        for block in [false, true] {
            session.execute("SET statement_timeout = '150ms'", &[]).unwrap();
            if block {
                session.execute("BEGIN", &[]).unwrap();
            }
            let began = std::time::Instant::now();
            let error = session.execute(statement, &[]).unwrap_err();
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "{statement}: {:?}",
                began.elapsed()
            );
            assert_eq!((error.state(), error.message()), (SqlState::QUERY_CANCELED, told));
            if block {
                session.execute("ROLLBACK", &[]).unwrap();
            }
            session.execute("RESET statement_timeout", &[]).unwrap();
            assert_eq!(rows(&mut session, "SELECT n FROM pairs"), ["Int64(0)"], "{statement}");
            assert_eq!(rows(&mut session, "SELECT COUNT(*) FROM little"), ["Int64(0)"]);
            let slow = session.query("SELECT * FROM slow", &[]).map(|_| ()).unwrap_err();
            assert_eq!(slow.state(), SqlState::UNDEFINED_TABLE);
        }
    }
    // COPY: the time that its data takes to come counts, and so does what the views make of the data.
    let copy = "COPY little FROM STDIN";
    session.execute("SET statement_timeout = '150ms'", &[]).unwrap();
    let prepared = session.prepare(copy).unwrap();
    session.run(&prepared, &[]).unwrap();
    let lines: String = (0..4000).map(|n| format!("{n}\t{}\n", n % 7)).collect();
    let sent = session.copy_data(lines.as_bytes());
    let error = sent.and_then(|()| session.copy_end().map(|_| ())).unwrap_err();
    assert_eq!((error.state(), error.message()), (SqlState::QUERY_CANCELED, told));
    session.run(&prepared, &[]).unwrap();
    session.copy_data(b"1\t1\n").unwrap();
    std::thread::sleep(Duration::from_millis(400));
    let error = session.copy_end().unwrap_err();
    assert_eq!((error.state(), error.message()), (SqlState::QUERY_CANCELED, told));
    session.execute("RESET statement_timeout", &[]).unwrap();
    assert_eq!(rows(&mut session, "SELECT n FROM pairs"), ["Int64(0)"]);
    // A client that cancels is told so.
    for statement in [create.as_str(), "INSERT INTO little SELECT x, y FROM big"] {
        let canceller = session.canceller();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            canceller.cancel();
        });
        let error = session.execute(statement, &[]).unwrap_err();
        thread.join().unwrap();
        assert_eq!(error.state(), SqlState::QUERY_CANCELED);
        assert_eq!(error.message(), "canceling statement due to user request");
    }
    session.execute("INSERT INTO little VALUES (1, 2)", &[]).unwrap();
    assert_eq!(rows(&mut session, "SELECT s, n FROM pairs"), ["Int64(2) | Int64(1)"]);
    halcyon::testing::check_views(&database);
}

#[test]
fn programs_and_certificates_are_shown() {
    let database = book();
    let mut session = database.session();
    let text = |session: &mut Session, sql: &str| rows(session, sql).join("\n");
    let program = text(&mut session, "EXPLAIN (TRIGGERS) turnover");
    assert!(program.contains("bids"), "{program}");
    let query = "EXPLAIN (TRIGGERS) SELECT broker, SUM(volume * price) AS s, COUNT(*) AS n \
                 FROM bids GROUP BY broker";
    assert_eq!(text(&mut session, query), program);
    let over = text(&mut session, "EXPLAIN (TRIGGERS) SELECT MAX(n) AS most FROM turnover");
    assert!(over.contains("turnover"), "{over}");
    let certificate = text(&mut session, "EXPLAIN MAINTENANCE turnover");
    assert!(certificate.contains("O(1)") && certificate.contains("Map "), "{certificate}");
    assert!(certificate.contains("Machine code: "), "{certificate}");
    let by_operations = "CREATE MATERIALIZED VIEW by_operations WITH (executor = 'operations') AS \
                         SELECT broker, COUNT(*) AS n FROM bids GROUP BY broker";
    session.execute(by_operations, &[]).unwrap();
    let certificate = text(&mut session, "EXPLAIN MAINTENANCE by_operations");
    assert!(certificate.contains("Machine code: none (not asked for)"), "{certificate}");
    let error = session.query("EXPLAIN MAINTENANCE bids", &[]).map(|_| ()).unwrap_err();
    assert_eq!(error.state(), SqlState::WRONG_OBJECT_TYPE);
}
