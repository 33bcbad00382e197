//! Analytical statements on workers: their rows beside those of the slow twin, which runs each statement on a
//! thread of its own; and what is left of them when they were ended.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use halcyon::{Database, DatabaseOptions, Session, SqlState, Workers};

const ROWS: usize = 60_000;

/// A database whose statements are planned for four workers, on so many as the machine has processors.
fn database(own_threads: bool) -> Database {
    database_on(Workers { count: 4, own_threads, ..Workers::default() })
}

fn database_on(workers: Workers) -> Database {
    let options = DatabaseOptions { threads: 4, workers, ..DatabaseOptions::default() };
    let database = Database::with_options(options);
    let mut session = database.session();
    let tables = [
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, total NUMERIC(12,2), note TEXT)",
        "CREATE TABLE lines (id INTEGER, line INTEGER, amount BIGINT, PRIMARY KEY (id, line))",
        "CREATE TABLE small (customer INTEGER PRIMARY KEY, name TEXT)",
    ];
    let fill = [
        format!(
            "INSERT INTO orders SELECT i, i % 997, i % 1013 + 0.25, CASE WHEN i % 7 = 0 THEN NULL ELSE 'note ' || i % 31 END FROM generate_series(1, {ROWS}) AS s(i)"
        ),
        format!(
            "INSERT INTO lines SELECT i % {ROWS} + 1, i / {ROWS}, i * 37 % 5003 FROM generate_series(0, {}) AS s(i)",
            2 * ROWS - 1
        ),
        "INSERT INTO small SELECT i, 'customer ' || i FROM generate_series(0, 500) AS s(i)"
            .to_owned(),
    ];
    for text in tables.into_iter().map(str::to_owned).chain(fill) {
        session.execute(text.as_str(), &[]).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    session.execute("SET halcyon.point_plans = off", &[]).expect("a setting");
    database
}

/// Each is wanted with its rows in any order; those that say an order are compared in it.
const QUERIES: &[&str] = &[
    "SELECT count(*), sum(total), min(note), max(id) FROM orders",
    "SELECT customer, count(*), sum(total) FROM orders GROUP BY customer",
    "SELECT note, count(DISTINCT customer) FROM orders GROUP BY note HAVING count(*) > 10",
    "SELECT o.customer, sum(l.amount) FROM orders o JOIN lines l ON l.id = o.id GROUP BY 1",
    "SELECT s.name, o.id FROM small s LEFT JOIN orders o ON o.customer = s.customer AND o.id < 3000",
    "SELECT s.name, o.id FROM small s FULL JOIN orders o ON o.customer = s.customer WHERE o.id IS NULL OR o.id < 500",
    "SELECT id, total FROM orders ORDER BY total DESC, id LIMIT 100",
    "SELECT id FROM orders ORDER BY note NULLS FIRST, id OFFSET 50000",
    "SELECT DISTINCT note, customer % 10 FROM orders",
    "SELECT count(*) FROM orders o WHERE EXISTS (SELECT 1 FROM lines l WHERE l.id = o.id AND l.amount > 4990)",
    "SELECT count(*) FROM orders o WHERE o.customer NOT IN (SELECT customer FROM small)",
    "SELECT id, total FROM orders WHERE total > (SELECT avg(total) * 1.9 FROM orders)",
    "SELECT id, (SELECT sum(amount) FROM lines l WHERE l.id = o.id) FROM orders o WHERE id % 50 = 0",
    "SELECT id, rank() OVER (PARTITION BY customer ORDER BY total, id) FROM orders WHERE id < 9000",
    "SELECT sum(n) FROM (SELECT row_number() OVER (ORDER BY id) AS n FROM orders) q",
    "SELECT customer FROM orders WHERE id < 700 UNION SELECT customer FROM small",
    "SELECT id FROM orders EXCEPT ALL SELECT id FROM lines WHERE amount < 2500",
    "SELECT id FROM orders INTERSECT SELECT id FROM lines WHERE amount < 25",
    "SELECT a.customer, b.customer FROM small a, small b WHERE a.customer + b.customer = 77",
    "SELECT count(*) FROM generate_series(1, 300000) AS s(i) JOIN orders ON i = id",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) SELECT sum(total) FROM n JOIN orders ON i = id",
    "SELECT customer, line, grouping(customer, line), sum(amount) FROM orders o JOIN lines l ON o.id = l.id WHERE o.customer < 20 GROUP BY CUBE (customer, line)",
    "SELECT string_agg(note, ',' ORDER BY id) FROM orders WHERE id < 2000",
    "SELECT * FROM (SELECT id, total FROM orders LIMIT 10) q WHERE false",
    "SELECT relname, reltuples, pg_table_size(oid) > 0, pg_total_relation_size(relname::regclass) > 0 FROM pg_class WHERE relnamespace = 2200",
    "SELECT a.attname, t.typname FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_index i ON i.indrelid = c.oid WHERE c.relname = 'orders'",
    "SELECT o.id, c.relname FROM orders o JOIN pg_class c ON c.reltuples = o.id",
    "SELECT s.name, pg_indexes_size('orders') > 0, (SELECT count(*) FROM information_schema.columns WHERE ordinal_position = s.customer) FROM small s",
    "SELECT s.name, q.id FROM small s, LATERAL (SELECT id FROM orders o WHERE o.customer = s.customer ORDER BY total DESC, id LIMIT 2) q",
];

fn rows(session: &mut Session, text: &str) -> Vec<String> {
    let rows = session.query(text, &[]).unwrap_or_else(|error| panic!("{text}: {error}"));
    let rows = rows.collect().unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut shown: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
    if !text.contains("ORDER BY") || text.contains("OVER") || text.contains("LATERAL") {
        shown.sort_unstable();
    }
    shown
}

/// Groups come in the order in which tasks have run: a seed gives it again, and some other seed another.
#[test]
fn a_seed_gives_the_schedule_of_a_statement_again() {
    let order = |seed: u64| {
        let workers = Workers { count: 3, simulated: Some(seed), ..Workers::default() };
        let mut session = database_on(workers).session();
        let text = "SELECT customer FROM orders GROUP BY customer";
        let rows = session.query(text, &[]).expect("it begins").collect().expect("it runs");
        rows.iter().map(|row| format!("{row:?}")).collect::<Vec<_>>()
    };
    let first = order(1);
    assert_eq!(first.len(), 997);
    assert_eq!(order(1), first);
    assert!((2..6).any(|seed| order(seed) != first), "the seed decides nothing");
}

#[test]
fn both_ways_of_running_give_the_same_rows() {
    let (tasks, twin) = (database(false), database(true));
    let (mut tasks, mut twin) = (tasks.session(), twin.session());
    let mut exchanges = 0;
    for text in QUERIES {
        let expected = rows(&mut twin, text);
        for threads in [1, 2, 4] {
            tasks
                .execute(format!("SET halcyon.threads = {threads}").as_str(), &[])
                .expect("a setting");
            let found = rows(&mut tasks, text);
            assert_eq!(found.len(), expected.len(), "{text} with {threads} threads");
            assert!(found == expected, "{text} with {threads} threads");
        }
        let plan = rows(&mut tasks, &format!("EXPLAIN ANALYZE {text}")).concat();
        assert!(
            !plan.contains("RepartitionExec") && !plan.contains("CoalescePartitionsExec"),
            "{plan}"
        );
        exchanges += plan.matches("ExchangeExec").count();
        let plan = rows(&mut twin, &format!("EXPLAIN ANALYZE {text}")).concat();
        assert!(!plan.contains("ExchangeExec"), "{plan}");
    }
    assert!(exchanges > 50, "{exchanges} exchanges ran");
}

/// One plan that is kept, run by several sessions at once: what its subqueries and joins find belongs to each.
#[test]
fn a_kept_plan_runs_in_many_sessions_at_once() {
    let database = database(false);
    let texts = [
        "SELECT count(*) FROM lines WHERE amount > (SELECT avg(amount) FROM lines)",
        "SELECT count(*), sum(l.amount) FROM lines l, small s, orders o WHERE l.id = o.id AND o.customer = s.customer",
        "SELECT id FROM orders WHERE total >= (SELECT max(total) FROM orders) ORDER BY id DESC LIMIT 5",
        "WITH RECURSIVE n(i) AS (SELECT max(customer) FROM small UNION SELECT o.customer FROM n JOIN orders o ON o.id = n.i) SELECT count(*), sum(i) FROM n",
    ];
    let mut session = database.session();
    let expected = texts.map(|text| rows(&mut session, text));
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mut session = database.session();
                for _ in 0..12 {
                    for (text, expected) in texts.iter().zip(&expected) {
                        assert_eq!(&rows(&mut session, text), expected, "{text}");
                    }
                }
            });
        }
    });
}

#[test]
fn an_error_of_an_input_ends_the_statement() {
    let database = database(false);
    let mut session = database.session();
    for text in [
        "SELECT customer, sum(1000 / (id - 59000)) FROM orders GROUP BY customer",
        "SELECT o.id FROM orders o JOIN lines l ON l.id = o.id AND 10 / (l.amount - 77) > 0 ORDER BY 1",
        "SELECT id, (SELECT amount FROM lines l WHERE l.id = o.id) FROM orders o",
    ] {
        let error = session.query(text, &[]).and_then(|rows| rows.collect()).expect_err(text);
        let expected = [SqlState::DIVISION_BY_ZERO, SqlState::CARDINALITY_VIOLATION];
        assert!(expected.contains(&error.state()), "{text}: {error}");
        assert_eq!(rows(&mut session, "SELECT count(*) FROM orders"), ["[Int64(60000)]"]);
    }
}

/// Workers' tasks that live.
fn tasks_under_way(session: &mut Session) -> i64 {
    let mut rows = session.query("SELECT count(*) FROM halcyon.tasks", &[]).expect("a system view");
    rows.next().expect("a row").expect("a row").get(0).expect("a number")
}

#[test]
fn a_dropped_stream_frees_its_workers() {
    let database = database(false);
    let (mut session, mut other) = (database.session(), database.session());
    let endless = "SELECT a.id, b.id FROM orders a, orders b WHERE a.total + b.total >= 0";
    for limited in [false, true] {
        let text = if limited { format!("{endless} LIMIT 3000000000") } else { endless.to_owned() };
        let mut rows = session.query(text.as_str(), &[]).expect("it begins");
        rows.next().expect("no error").expect("a row");
        assert_eq!(tasks_under_way(&mut other), 1, "one group runs");
        drop(rows);
        let began = Instant::now();
        while tasks_under_way(&mut other) > 0 {
            assert!(began.elapsed() < Duration::from_secs(20), "its tasks end");
            std::thread::yield_now();
        }
    }
    let (canceller, (ended, has_ended)) = (session.canceller(), mpsc::channel::<()>());
    // Again and again: a statement that begins later is not concerned.
    let cancelling = std::thread::spawn(move || {
        while let Err(RecvTimeoutError::Timeout) = has_ended.recv_timeout(Duration::from_millis(50))
        {
            canceller.cancel();
        }
    });
    let error = session.query(&*format!("SELECT count(*) FROM ({endless}) q"), &[]);
    let error = error.and_then(|rows| rows.collect()).expect_err("it is cancelled");
    assert_eq!(error.state(), SqlState::QUERY_CANCELED);
    drop(ended);
    cancelling.join().expect("it cancels");
    let began = Instant::now();
    while tasks_under_way(&mut other) > 0 {
        assert!(began.elapsed() < Duration::from_secs(20), "its tasks end");
        std::thread::yield_now();
    }
}

#[test]
fn statements_that_wait_leave_the_workers_alone() {
    let database = database(false);
    let (mut session, mut other) = (database.session(), database.session());
    let text = "SELECT count(*), count(pg_sleep(0.4)) FROM small WHERE customer < 1";
    let rows = session.query(text, &[]).expect("it begins");
    assert_eq!(tasks_under_way(&mut other), 0);
    assert_eq!(rows.collect().expect("it ends").len(), 1);
    other
        .query("SELECT pg_advisory_lock(7) FROM small LIMIT 1", &[])
        .expect("free")
        .collect()
        .expect("free");
    session.execute("SET lock_timeout = '50ms'", &[]).expect("a setting");
    let waits = session.query("SELECT pg_advisory_lock(7) FROM small WHERE customer < 1", &[]);
    let error = waits.and_then(|rows| rows.collect()).expect_err("it is another's");
    assert_eq!(error.state(), SqlState::LOCK_NOT_AVAILABLE);
}

/// One worker has two statements; the one that lasts gives no row, so that nobody asks it for the next between two steps.
/// Both sides of its joins are one batch each.
#[test]
fn what_gives_no_rows_for_long_leaves_the_worker_to_others() {
    let database = database_on(Workers { count: 1, ..Workers::default() });
    let (o, l) =
        ("(SELECT * FROM orders WHERE id <= 8000) o", "(SELECT * FROM lines WHERE id <= 4000) l");
    let on = "o.total + l.amount < 0";
    let lasting = [
        format!("SELECT o.id FROM {o} JOIN {l} ON {on}"),
        format!("SELECT o.id FROM {o} WHERE EXISTS (SELECT 1 FROM {l} WHERE {on})"),
        format!("SELECT count(*) FROM {o} FULL JOIN {l} ON {on}"),
        format!("SELECT count(*) FROM {o}, {l}, generate_series(1, 100) WHERE {on}"),
    ];
    let lasting = lasting.iter().map(String::as_str);
    for text in lasting {
        let (mut session, mut other) = (database.session(), database.session());
        let canceller = session.canceller();
        std::thread::scope(|scope| {
            let running = scope.spawn(move || session.query(text, &[])?.collect());
            while tasks_under_way(&mut other) == 0 {
                std::thread::yield_now();
            }
            for _ in 0..3 {
                assert_eq!(rows(&mut other, "SELECT count(*), sum(customer) FROM small").len(), 1);
            }
            assert!(!running.is_finished(), "{text} is over before three short statements");
            canceller.cancel();
            let error = running.join().expect("no panic").expect_err("it lasts");
            assert_eq!(error.state(), SqlState::QUERY_CANCELED, "{text}");
        });
    }
}
