//! Definitions that stand on each other in long rows, and planning that is to end.

use std::time::{Duration, Instant};

use halcyon::{Database, Result, Session, SqlState};

use crate::SMALL_STACK;

/// Runs `work` with a session, on a small stack.
fn on_a_small_stack(work: impl FnOnce(&mut Session) + Send + 'static) {
    let work = move || work(&mut Database::in_memory().session());
    let thread = std::thread::Builder::new().stack_size(SMALL_STACK).spawn(work);
    thread.expect("a thread").join().expect("no overflow and no failure");
}

fn state(result: Result<()>) -> SqlState {
    result.expect_err("refused").state()
}

#[test]
fn views_and_roles_stand_on_each_other_up_to_a_limit() {
    on_a_small_stack(|session| {
        session.batch("CREATE VIEW v0 AS SELECT 1 AS a; CREATE VIEW d0 AS SELECT 1 AS a").unwrap();
        let on = |n: usize| format!("CREATE VIEW v{n} AS SELECT a FROM v{}", n - 1);
        let deepest = (1..10_000).find(|n| session.batch(&on(*n)).is_err()).expect("a limit");
        assert_eq!(state(session.batch(&on(deepest))), SqlState::STATEMENT_TOO_COMPLEX);
        assert!(deepest >= 32, "{deepest}");
        session.batch(&format!("SELECT * FROM v{}", deepest - 2)).unwrap();
        // Each twice as large as the one before.
        let double = |n: usize| {
            let below = n - 1;
            format!("CREATE VIEW d{n} AS SELECT x.a FROM d{below} x, d{below} y")
        };
        let largest = (1..32).find(|n| session.batch(&double(*n)).is_err()).expect("a limit");
        assert_eq!(state(session.batch(&double(largest))), SqlState::STATEMENT_TOO_COMPLEX);
        assert!(largest >= 5, "{largest}");
    });
}

#[test]
fn roles_and_foreign_keys_in_long_rows_are_followed() {
    const LONG: usize = 400;
    on_a_small_stack(|session| {
        let role = |n: usize| format!("CREATE ROLE r{n} IN ROLE r{}", n - 1);
        session.batch("CREATE ROLE r0; CREATE TABLE t0 (a INT PRIMARY KEY)").unwrap();
        session.batch("GRANT SELECT ON t0 TO r0; INSERT INTO t0 VALUES (1)").unwrap();
        (1..LONG).try_for_each(|n| session.batch(&role(n))).unwrap();
        session.batch(&format!("SET ROLE r{}; SELECT * FROM t0; RESET ROLE", LONG - 1)).unwrap();
        let table = |n: usize| {
            let key = format!("a INT PRIMARY KEY REFERENCES t{} ON DELETE CASCADE", n - 1);
            format!("CREATE TABLE t{n} ({key}); INSERT INTO t{n} VALUES (1)")
        };
        (1..LONG).try_for_each(|n| session.batch(&table(n))).unwrap();
        session.batch("DELETE FROM t0").unwrap();
        assert_eq!(session.execute(&*format!("SELECT * FROM t{}", LONG - 1), &[]).unwrap(), 0);
        session.batch("DROP TABLE t0 CASCADE").unwrap();
    });
}

/// A join that takes long to plan.
fn large_join() -> String {
    let joins = (1..200).map(|n| format!(" JOIN t t{n} ON t{n}.a = t{}.a", n - 1));
    format!("SELECT 1 FROM t t0{}", joins.collect::<String>())
}

#[test]
fn arrays_beside_each_other_are_limited() {
    let mut session = Database::in_memory().session();
    let text = |before: &str, count: usize| {
        format!("SELECT count(*) FROM {before}unnest({})", vec!["ARRAY[1, 2]"; count].join(", "))
    };
    for before in ["", "generate_series(1, 2) g, LATERAL "] {
        assert_eq!(session.execute(text(before, 10).as_str(), &[]).expect("ten arrays"), 1);
        for count in [65, 3_000] {
            let refused = session.query(text(before, count).as_str(), &[]).map(|_| ());
            assert_eq!(state(refused), SqlState::STATEMENT_TOO_COMPLEX, "{before}{count}");
        }
    }
}

#[test]
fn different_windows_are_limited_and_functions_over_one_are_not() {
    let mut session = Database::in_memory().session();
    let list = |count: usize, each: &dyn Fn(usize) -> String| -> String {
        (0..count).map(each).collect::<Vec<_>>().join(", ")
    };
    let different = list(1500, &|at| format!("sum(a) OVER (ORDER BY a + {at})"));
    let text = format!("SELECT {different} FROM generate_series(1, 3) a");
    let refused = session.query(text.as_str(), &[]).map(|_| ()).expect_err("too many");
    assert_eq!(refused.state(), SqlState::PROGRAM_LIMIT_EXCEEDED);
    let alike = list(300, &|at| format!("sum(a + {at}) OVER (ORDER BY a)"));
    let text = format!("SELECT {alike} FROM generate_series(1, 3) a");
    session.execute(text.as_str(), &[]).expect("one window");
}

#[test]
fn planning_ends_at_its_time_and_when_it_is_cancelled() {
    let db = Database::in_memory();
    let mut session = db.session();
    session
        .batch("CREATE TABLE t (a INT PRIMARY KEY, b TEXT); SET statement_timeout = 50")
        .unwrap();
    let began = Instant::now();
    let prepared = session.prepare(&large_join()).map(|_| ());
    assert_eq!(state(prepared), SqlState::QUERY_CANCELED);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    session.batch("SET statement_timeout = 0").unwrap();
    let canceller = session.canceller();
    std::thread::scope(|scope| {
        let planning = scope.spawn(|| state(session.prepare(&large_join()).map(|_| ())));
        while !planning.is_finished() {
            canceller.cancel();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(planning.join().unwrap(), SqlState::QUERY_CANCELED);
    });
    session.batch("SELECT 1").unwrap();
}

/// Links in a row, `#` is the number of a link and `@` the one before.
fn row(count: usize, link: &str) -> String {
    let link = |n: usize| link.replace('#', &n.to_string()).replace('@', &(n - 1).to_string());
    (1..=count).map(link).collect()
}

#[test]
fn steps_that_nobody_looked_after_end_at_their_time() {
    let db = Database::in_memory();
    let mut session = db.session();
    session
        .batch("CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES (1, 2), (2, 3)")
        .unwrap();
    let large = "(SELECT array_agg(g) FROM generate_series(1, 100000) g)";
    let statements = [
        // Plans that grow with each LATERAL that is rewritten, and what was asked twice of each window.
        format!("SELECT 1 FROM t t0{}", row(100, ", LATERAL (SELECT t@.a + 1 AS a) t#")),
        format!("SELECT 1{} FROM t", row(100, ", sum(a) OVER (ORDER BY a + #)")),
        format!("SELECT 1 FROM t t0{}", row(300, " JOIN t t# ON t#.a = t@.a")),
        format!("SELECT 1 FROM t t0{}", row(300, " LEFT JOIN t t# USING (a)")),
        format!("SELECT 1 FROM t t0{} WHERE true{}", row(300, ", t t#"), row(300, " AND t0.a = t#.b")),
        format!(
            "MERGE INTO t USING t u ON t.a = u.a{}",
            row(300, " WHEN MATCHED AND u.b = # THEN UPDATE SET b = #")
        ),
        // Values: the product of two sizes.
        format!("SELECT repeat('a', 100000) LIKE '%{}b'", "a%".repeat(10_000)),
        "SELECT repeat('a', 100000) LIKE repeat('%a', 10000) || 'b' FROM t".to_owned(),
        "SELECT repeat('a', 100000) ~ '(a{1,60}){1,60}b'".to_owned(),
        "SELECT regexp_replace(repeat('a', 100000), '(a{1,60}){1,60}b', 'x')".to_owned(),
        "SELECT jsonb_path_exists(to_jsonb(repeat('a', 100000)), '$ ? (@ like_regex \"(a{1,60}){1,60}b\")')"
            .to_owned(),
        "SELECT POSITION(repeat('a', 1000000) || 'b' IN repeat('a', 2000000))".to_owned(),
        format!("SELECT {large} @> {large}, {large} && ARRAY[-1], ARRAY[-1] <@ {large}"),
    ];
    for statement in statements {
        session.batch("SET statement_timeout = 500").unwrap();
        let began = Instant::now();
        let answer = session.batch(&statement);
        let took = began.elapsed();
        let head: String = statement.chars().take(80).collect();
        if let Err(error) = answer {
            assert_eq!(error.state(), SqlState::QUERY_CANCELED, "{error}: {head}");
        }
        assert!(took < Duration::from_secs(40), "{took:?}: {head}");
    }
}
