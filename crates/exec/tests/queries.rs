//! Queries from text to rows through binder and analytical executor, over partitions built here.
//!
//! One list of cases per topic: a query, and its rows as `a|b;c|d`, or `!` and an SQLSTATE.

mod world;

use halcyon_plan::env::{Clock, Env};
use halcyon_sql::error::SqlError;
use halcyon_sql::types::SqlType;
use halcyon_store::{Value, ValueRef};
use halcyon_txn::CancelToken;

use crate::world::World;

fn world() -> World {
    use SqlType::*;
    let mut world = World::new();
    let money = Decimal { precision: 9, scale: 2 };
    world.table(
        "item",
        &[("id", Integer), ("name", Varchar(Some(20))), ("price", money), ("born", Date)],
        &[
            &["1", "tea", "4.20", "2020-01-31"],
            &["2", "coffee", "5.00", "2021-06-15"],
            &["3", "milk", "", ""],
            &["4", "tea", "3.90", "2020-02-29"],
        ],
    );
    world.table(
        "wide",
        &[
            ("b", Boolean),
            ("s", SmallInt),
            ("i", Integer),
            ("l", BigInt),
            ("r", Real),
            ("d", Double),
            ("n", money),
            ("c", Char(Some(5))),
            ("t", Text),
            ("y", Bytea),
            ("da", Date),
            ("ti", Time),
            ("ts", Timestamp),
            ("tz", TimestampTz),
            ("iv", Interval),
            ("u", Uuid),
        ],
        &[
            &[
                "true",
                "-3",
                "7",
                "9000000000",
                "1.5",
                "0.1",
                "12.34",
                "ab",
                "text",
                "\\x00ff",
                "2020-02-29",
                "12:34:56.5",
                "2020-01-02 03:04:05",
                "2020-01-02 03:04:05+00",
                "1 day 02:00:00",
                "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            ],
            &["", "", "", "", "", "", "", "", "", "", "", "", "", "", "", ""],
        ],
    );
    let numbers: Vec<[String; 2]> =
        (0..10_000).map(|i| [i.to_string(), (i % 10).to_string()]).collect();
    let rows: Vec<[&str; 2]> = numbers.iter().map(|[a, b]| [a.as_str(), b.as_str()]).collect();
    let rows: Vec<&[&str]> = rows.iter().map(|row| row.as_slice()).collect();
    world.table("numbers", &[("n", Integer), ("digit", Integer)], &rows);
    world.view(
        "teas",
        "SELECT id, price AS cost FROM item WHERE name = 'tea'",
        &[("id", Integer), ("cost", money)],
    );
    world
}

/// Runs each query and compares; tells all that differ.
fn check(cases: &[(&str, &str)]) {
    let world = world();
    let mut wrong = Vec::new();
    for (query, expected) in cases {
        let got = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.rows(query)));
        let got = match got {
            Err(_) => "panic".to_owned(),
            Ok(Ok(rows)) => rows.iter().map(|row| row.join("|")).collect::<Vec<_>>().join(";"),
            Ok(Err(error)) if expected.starts_with('!') => format!("!{}", error.state()),
            Ok(Err(error)) => format!("!{error}"),
        };
        if got != *expected {
            wrong.push(format!("{query}\n   expected {expected}\n   got      {got}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn selects_over_partitions() {
    check(&[
        ("SELECT id, name FROM item WHERE id > 2 ORDER BY id", "3|milk;4|tea"),
        ("SELECT count(*) FROM numbers", "10000"),
        ("SELECT digit, count(*) FROM numbers GROUP BY digit ORDER BY 1 LIMIT 2", "0|1000;1|1000"),
        (
            "SELECT name, sum(price) FROM item GROUP BY name ORDER BY name",
            "coffee|5.00;milk|∅;tea|8.10",
        ),
        ("SELECT cost FROM teas ORDER BY cost", "3.90;4.20"),
        ("SELECT a.id, b.id FROM item a JOIN item b ON a.name = b.name AND a.id < b.id", "1|4"),
        ("SELECT id FROM item ORDER BY price NULLS FIRST, id LIMIT 2", "3;4"),
        ("SELECT id FROM item ORDER BY price, id", "4;1;2;3"),
        ("SELECT id FROM item ORDER BY price DESC, id", "3;2;1;4"),
        ("SELECT 1, 1, 'a', a.id, id FROM item a WHERE id = 1", "1|1|a|1|1"),
        ("SELECT *, id FROM item WHERE id = 1", "1|tea|4.20|2020-01-31|1"),
        ("SELECT max FROM (SELECT max(id) FROM item) q", "4"),
        ("SELECT id FROM item WHERE price > (SELECT avg(price) FROM item)", "2"),
        (
            "SELECT id FROM item i WHERE EXISTS (SELECT 1 FROM item j WHERE j.name = i.name AND j.id > i.id)",
            "1",
        ),
        (
            "SELECT id FROM item WHERE name IN (SELECT name FROM item WHERE id = 4) ORDER BY id",
            "1;4",
        ),
        (
            "SELECT (SELECT max(j.id) FROM item j WHERE j.name = i.name) FROM item i ORDER BY i.id",
            "4;2;3;4",
        ),
        (
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 4) SELECT n FROM t ORDER BY n",
            "1;2;3;4",
        ),
        (
            "SELECT DISTINCT ON (name) name, id FROM item ORDER BY name, id DESC",
            "coffee|2;milk|3;tea|4",
        ),
        (
            "SELECT id, row_number() OVER (PARTITION BY name ORDER BY id) FROM item ORDER BY id",
            "1|1;2|1;3|1;4|2",
        ),
        (
            "SELECT name, count(*) FROM item GROUP BY ROLLUP(name) ORDER BY name NULLS LAST",
            "coffee|1;milk|1;tea|2;∅|4",
        ),
        ("VALUES (1, 'a'), (2, 'b')", "1|a;2|b"),
        ("SELECT 1 UNION SELECT 1 UNION ALL SELECT 2 ORDER BY 1", "1;2"),
        ("SELECT id FROM item EXCEPT SELECT 1 ORDER BY 1", "2;3;4"),
        ("SELECT g FROM generate_series(1, 3) g", "1;2;3"),
        ("SELECT sum(x) FROM generate_series(1, 10) AS t(x)", "55"),
        (
            "SELECT i.id, l.x FROM item i CROSS JOIN LATERAL (SELECT max(j.id) AS x FROM item j WHERE j.name = i.name) l ORDER BY 1 LIMIT 1",
            "1|4",
        ),
        (
            "SELECT b.id FROM item a RIGHT JOIN item b ON a.id = b.id + 3 WHERE a.id IS NULL ORDER BY 1",
            "2;3;4",
        ),
        ("SELECT id FROM item FETCH FIRST 0 ROWS ONLY", ""),
        ("SELECT id FROM item ORDER BY id OFFSET 3", "4"),
    ]);
}

#[test]
fn every_type_is_read_and_written_as_postgresql_does() {
    check(&[
        (
            "SELECT * FROM wide WHERE i = 7",
            "t|-3|7|9000000000|1.5|0.1|12.34|ab   |text|\\x00ff|2020-02-29|12:34:56.5|2020-01-02 03:04:05|2020-01-02 03:04:05+00|1 day 02:00:00|a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        ),
        ("SELECT count(*) FROM wide WHERE u = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "1"),
        ("SELECT u::text || '!' FROM wide WHERE i = 7", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11!"),
        (
            "SELECT 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        ),
        (
            "SELECT ts::text, tz::text, da::text, ti::text, iv::text, d::text, r::text FROM wide WHERE i = 7",
            "2020-01-02 03:04:05|2020-01-02 03:04:05+00|2020-02-29|12:34:56.5|1 day 02:00:00|0.1|1.5",
        ),
        ("SELECT y FROM wide WHERE y = '\\x00ff'", "\\x00ff"),
        (
            "SELECT i FROM wide WHERE c = 'ab' AND t = 'text' AND da = '2020-02-29' AND ts > '2020-01-01'",
            "7",
        ),
        ("SELECT '12'::int + 1, '1.5'::numeric * 2, '1e3'::float8, 'yes'::bool", "13|3.0|1000|t"),
        ("SELECT 2.5::int, 3.5::int, -2.5::numeric::int, 1.5e0::float8::int", "3|4|-3|2"),
        ("SELECT 'abcdef'::varchar(3), 'ab  '::char(5) || '|'", "abc|ab|"),
        ("SELECT 1::text || 'x', true::text, 1.50::text", "1x|true|1.50"),
        ("SELECT CAST(1 AS numeric(5,2)), 1.005::numeric(5,2)", "1.00|1.01"),
        ("SELECT i::bigint, l::text, n::float8 FROM wide WHERE i = 7", "7|9000000000|12.34"),
        ("SELECT NULL::int, NULL", "∅|∅"),
        (
            "SELECT coalesce(NULL, 'a'), nullif(1, 1), greatest(1, 2, NULL), least('b', 'a')",
            "a|∅|2|a",
        ),
    ]);
}

#[test]
fn arithmetic_is_exact_and_refuses_what_does_not_fit() {
    check(&[
        ("SELECT 2147483647 + 1", "!22003"),
        ("SELECT i + 2147483647 FROM wide", "!22003"),
        ("SELECT l * 9000000000 FROM wide", "!22003"),
        ("SELECT -(-2147483648)", "!22003"),
        ("SELECT (-32768)::smallint / (-1)::smallint", "!22003"),
        ("SELECT 300000::smallint", "!22003"),
        ("SELECT l::int FROM wide", "!22003"),
        ("SELECT 1 / 0", "!22012"),
        ("SELECT i / (i - 7) FROM wide WHERE i = 7", "!22012"),
        ("SELECT 1.0 / 0", "!22012"),
        ("SELECT 1::float8 / 0", "!22012"),
        ("SELECT d / (d - d) FROM wide WHERE i = 7", "!22012"),
        ("SELECT 5 % 0", "!22012"),
        ("SELECT 1e308::float8 * 10", "!22003"),
        ("SELECT 7 / 2, -7 / 2, 7 % 3, -7 % 3", "3|-3|1|-1"),
        ("SELECT 7 / 2.0", "3.5000000000000000"),
        ("SELECT 1.0 / 3", "0.3333333333333333"),
        ("SELECT 2 ^ 3, |/ 16, @ -5", "8|4|5"),
        ("SELECT 2147483648, 9223372036854775808", "2147483648|9223372036854775808"),
        (
            "SELECT sum(i), sum(l), avg(i), avg(l), sum(s), avg(n) FROM wide",
            "7|9000000000|7.0000000000000000|9000000000.0000000000000000|-3|12.3400000000000000",
        ),
        (
            "SELECT avg(n), sum(n), min(n), max(n) FROM numbers",
            "4999.5000000000000000|49995000|0|9999",
        ),
        (
            "SELECT digit, avg(n) FROM numbers WHERE digit < 2 GROUP BY digit ORDER BY digit",
            "0|4995.0000000000000000|1|4996.0000000000000000".replace("|1|", ";1|").leak(),
        ),
        (
            "SELECT sum(x) FROM (VALUES (9223372036854775807), (9223372036854775807)) t(x)",
            "18446744073709551614",
        ),
        ("SELECT sum(n) OVER (ORDER BY n) FROM numbers ORDER BY n LIMIT 3", "0;1;3"),
        ("SELECT CASE WHEN i = 7 THEN 0 ELSE 1 / 0 END FROM wide WHERE i = 7", "0"),
        (
            "SELECT abs(-5), sign(-2), mod(7, 3), round(2.567, 2), trunc(2.7), ceil(1.2), floor(-1.2)",
            "5|-1|1|2.57|2|2|-2",
        ),
    ]);
}

#[test]
fn strings_and_patterns() {
    check(&[
        ("SELECT 'a' || NULL, 'a' || 1, 1 || 'a'", "∅|a1|1a"),
        ("SELECT 'abc' LIKE 'a%', 'abc' ILIKE 'A_C', 'a%c' LIKE 'a!%c' ESCAPE '!'", "t|t|t"),
        ("SELECT 'abc' NOT LIKE 'b%', 'abc' ~ '^a', 'abc' !~* 'B'", "t|t|f"),
        ("SELECT 'abc' SIMILAR TO '(a|b)%', 'xbc' SIMILAR TO '(a|b)%'", "t|f"),
        (
            "SELECT length('héé'), upper('a'), lower('B'), substr('hello', 2, 3), substring('hello' from 2 for 2)",
            "3|A|b|ell|el",
        ),
        (
            "SELECT position('l' in 'hello'), strpos('hello', 'l'), left('abc', 2), right('abc', 2)",
            "3|3|ab|bc",
        ),
        (
            "SELECT trim('  a '), ltrim('xxa', 'x'), rtrim('axx', 'x'), btrim('xax', 'x'), trim(both 'x' from 'xax')",
            "a|a|a|a|a",
        ),
        (
            "SELECT replace('aXb', 'X', '-'), repeat('ab', 2), reverse('abc'), lpad('a', 3, '-'), split_part('a,b', ',', 2)",
            "a-b|abab|cba|--a|b",
        ),
        (
            "SELECT initcap('hello world'), translate('abc', 'ab', 'xy'), concat('a', NULL, 1), concat_ws('-', 'a', NULL, 'b')",
            "Hello World|xyc|a1|a-b",
        ),
        (
            "SELECT md5('a'), ascii('A'), chr(66), to_hex(255)",
            "0cc175b9c0f1b6a831c399e269772661|65|B|ff",
        ),
        ("SELECT string_agg(name, ',' ORDER BY id) FROM item", "tea,coffee,milk,tea"),
        ("SELECT 'a' < 'b', 'Z' < 'a', 'a' IS DISTINCT FROM NULL", "t|t|t"),
    ]);
}

#[test]
fn dates_and_intervals() {
    check(&[
        (
            "SELECT DATE '2020-01-31' + 1, DATE '2020-03-01' - DATE '2020-02-01', DATE '2020-01-31' - 31",
            "2020-02-01|29|2019-12-31",
        ),
        ("SELECT DATE '2020-01-31' + INTERVAL '1 month'", "2020-02-29 00:00:00"),
        (
            "SELECT TIMESTAMP '2020-01-02 03:04:05' - TIMESTAMP '2020-01-01 00:00:00'",
            "1 day 03:04:05",
        ),
        ("SELECT TIMESTAMP '2020-01-01' + INTERVAL '1 day 2 hours'", "2020-01-02 02:00:00"),
        (
            "SELECT INTERVAL '1 day' * 2, INTERVAL '1 hour' / 2, INTERVAL '1 month' - INTERVAL '1 day'",
            "2 days|00:30:00|1 mon -1 days",
        ),
        (
            "SELECT EXTRACT(year FROM DATE '2020-02-29'), EXTRACT(month FROM born) FROM item WHERE id = 4",
            "2020|2",
        ),
        (
            "SELECT EXTRACT(epoch FROM TIMESTAMP '1970-01-02'), date_part('day', DATE '2020-02-29')",
            "86400.000000|29",
        ),
        ("SELECT date_trunc('month', TIMESTAMP '2020-02-29 12:00:00')", "2020-02-01 00:00:00"),
        (
            "SELECT now(), current_date, now() = current_timestamp",
            "2020-09-13 12:26:40+00|2020-09-13|t",
        ),
        ("SELECT count(*) FROM item WHERE born < now()", "2"),
        ("SELECT born FROM item WHERE born BETWEEN '2020-02-01' AND '2020-12-31'", "2020-02-29"),
        (
            "SELECT TIME '12:00' + INTERVAL '1 hour', TIME '12:00' - TIME '11:30'",
            "13:00:00|00:30:00",
        ),
    ]);
}

#[test]
fn wrong_queries_are_told_so() {
    check(&[
        ("SELECT nope FROM item", "!42703"),
        ("SELECT i.nope FROM item i", "!42703"),
        ("SELECT x.id FROM item i", "!42P01"),
        ("SELECT * FROM nope", "!42P01"),
        ("SELECT * FROM nope.item", "!42P01"),
        ("SELECT nope(1)", "!42883"),
        ("SELECT id FROM item a, item b", "!42702"),
        ("SELECT name, count(*) FROM item", "!42803"),
        ("SELECT sum(sum(id)) FROM item", "!42803"),
        ("SELECT id FROM item WHERE sum(id) > 1", "!42803"),
        ("SELECT id FROM item WHERE id = 'x'", "!22P02"),
        ("SELECT id FROM item WHERE born = 'x'", "!22007"),
        ("SELECT id FROM item WHERE id", "!42804"),
        ("SELECT id FROM item WHERE name = 1", "!42883"),
        ("SELECT name + 1 FROM item", "!42883"),
        ("SELECT sum(name) FROM item", "!42883"),
        ("SELECT upper(1, 2)", "!42883"),
        ("SELECT (SELECT id FROM item)", "!21000"),
        ("SELECT 1 UNION SELECT 1, 2", "!42601"),
        ("SELECT 'x'::int", "!22P02"),
        ("SELECT name::int FROM item", "!22P02"),
        ("SELECT '2020-13-01'::date", "!22008"),
        ("SELECT 1::uuid", "!42846"),
        ("SELECT 'a' ~ '('", "!2201B"),
        ("SELECT id FROM item ORDER BY 9", "!42P10"),
        ("SELECT id FROM item LIMIT -1", "!2201W"),
        ("SELECT currval('nope')", "!42P01"),
        ("SELECT $1::int", "!42P02"),
    ]);
}

#[test]
fn errors_have_places_and_hints() {
    let world = world();
    let error = |text: &str| -> SqlError { world.rows(text).expect_err(text) };
    let unknown = error("SELECT id,\n  nmae FROM item");
    assert_eq!(unknown.message(), "column \"nmae\" does not exist");
    assert_eq!(unknown.fields().position, Some(14));
    assert_eq!(
        unknown.fields().hint.as_deref(),
        Some("Perhaps you meant to reference the column \"item.name\".")
    );
    let table = error("SELECT * FROM itme");
    assert_eq!(table.message(), "relation \"itme\" does not exist");
    assert_eq!(table.fields().hint.as_deref(), Some("Perhaps you meant \"item\"."));
}

#[test]
fn parameters_get_their_types_from_where_they_stand() {
    let world = world();
    for (text, types) in [
        ("SELECT id FROM item WHERE id = $1", vec![SqlType::Integer]),
        (
            "SELECT id FROM item WHERE price < $1 AND name LIKE $2",
            vec![SqlType::Decimal { precision: 9, scale: 2 }, SqlType::Text],
        ),
        ("SELECT $1::bigint, $2", vec![SqlType::BigInt, SqlType::Text]),
        (
            "SELECT id + $1 FROM item WHERE born BETWEEN $2 AND $2",
            vec![SqlType::Integer, SqlType::Date],
        ),
        (
            "SELECT id FROM item WHERE id IN ($1, $2) LIMIT $3",
            vec![SqlType::Integer, SqlType::Integer, SqlType::BigInt],
        ),
        ("SELECT coalesce(price, $1) FROM item", vec![SqlType::Decimal { precision: 9, scale: 2 }]),
    ] {
        let (_, params) = world.plan(text).expect(text);
        let plain = |types: &[SqlType]| -> Vec<_> { types.iter().map(|ty| ty.storage()).collect() };
        assert_eq!(plain(&params), plain(&types), "{text}");
    }
    let (plan, _) = world.plan("SELECT id FROM item WHERE id = $1 OR name = $2").expect("plan");
    for (params, expected) in [
        ([Value::Int32(3), Value::Null], "[[\"3\"]]"),
        ([Value::Int32(2), Value::Text("milk".into())], "[[\"2\"], [\"3\"]]"),
    ] {
        let rows = world.run(&plan, &params).expect("runs");
        assert_eq!(format!("{rows:?}"), expected);
    }
}

#[test]
fn a_kept_plan_runs_again_without_planning() {
    let mut world = world();
    let (plan, _) = world.plan("SELECT count(*), sum(id) FROM item WHERE id > 0").expect("plan");
    assert_eq!(world.run(&plan, &[]).expect("first"), [["4", "10"]]);
    let before = world.df.plannings();
    let table = plan.tables()[0].id;
    let mut root = (*world.roots[&table][0]).clone();
    root.insert(&[ValueRef::Int32(90), ValueRef::Null, ValueRef::Null, ValueRef::Null])
        .expect("row");
    world.roots.insert(table, vec![triomphe::Arc::new(root)]);
    assert_eq!(world.run(&plan, &[]).expect("second"), [["5", "100"]]);
    assert_eq!(world.df.plannings(), before);
}

#[test]
fn plans_are_kept_for_the_last_values_of_parameters() {
    let world = world();
    let (plan, _) =
        world.plan("SELECT count(*) FROM item WHERE id > $1 OR 1 / $2::float8 < 0").expect("plan");
    let run = |id: i32, divisor: f64| {
        let before = world.df.plannings();
        let rows = world.run(&plan, &[Value::Int32(id), Value::Float64(divisor)]).expect("runs");
        (rows[0][0].parse::<u64>().expect("a number"), world.df.plannings() - before)
    };
    assert_eq!(run(0, 0.5), (4, 1));
    assert_eq!(run(0, 0.5), (4, 0));
    assert_eq!(run(100, f64::INFINITY), (0, 1));
    assert_eq!(run(0, 0.5), (4, 0), "the plan for other values stays");
    for id in 101..104 {
        assert_eq!(run(id, 0.5), (0, 1));
    }
    assert_eq!(run(0, 0.5), (4, 0), "the plan that was used last stays longest");
    assert_eq!(run(100, f64::INFINITY), (0, 1), "four are kept");
    assert_eq!(run(100, f64::NEG_INFINITY), (0, 1));
    // Zeros that are equal have other reciprocals.
    let (plan, _) = world.plan("SELECT count(*) FROM item WHERE atan2($1, -1) > 0").expect("plan");
    for (zero, expected) in [(0.0, "4"), (-0.0, "0"), (0.0, "4")] {
        assert_eq!(world.run(&plan, &[Value::Float64(zero)]).expect("runs"), [[expected]]);
    }
}

/// Lines of the optimised plan of `text`, without what they are indented by.
fn plan_lines(world: &World, text: &str) -> Vec<String> {
    let (plan, _) = world.plan(text).unwrap();
    let shown = plan.logical().display_indent().to_string();
    shown.lines().map(|line| line.trim_start().to_owned()).collect()
}

#[test]
fn semi_joins_go_below_joins_that_only_add_rows() {
    let world = world();
    let order = |text: &str| {
        let lines = plan_lines(&world, text);
        let at = |what: &str| lines.iter().position(|line| line.starts_with(what));
        (at("LeftSemi Join"), at("LeftAnti Join"), at("Inner Join"), lines.join("\n"))
    };
    let among = "(SELECT digit FROM numbers GROUP BY digit HAVING count(*) > 2000)";
    let text = format!(
        "SELECT count(*) FROM item JOIN numbers b ON id = b.n WHERE id IN {among} AND price > 1"
    );
    let (semi, _, inner, shown) = order(&text);
    assert!(inner.unwrap() < semi.unwrap(), "the items are chosen first:\n{shown}");
    // Here the other side is filtered, and may leave few rows to choose from.
    let (semi, _, inner, shown) = order(&format!("{text} AND b.digit = 3"));
    assert!(semi.unwrap() < inner.unwrap(), "{shown}");
    let (_, anti, inner, shown) = order(
        "SELECT count(*) FROM item JOIN numbers b ON id = b.n \
         WHERE NOT EXISTS (SELECT 1 FROM numbers c WHERE c.digit = id)",
    );
    assert!(inner.unwrap() < anti.unwrap(), "{shown}");
    let rows = |text: &str| world.rows(text).unwrap();
    let count = |among: &str, condition: &str| {
        rows(&format!(
            "SELECT count(*), min(id) FROM item JOIN numbers b ON id = b.n WHERE id {among} {condition}"
        ))
    };
    let few = "(SELECT digit FROM numbers WHERE n < 3 GROUP BY digit)";
    assert_eq!(count(&format!("IN {few}"), ""), [["2", "1"]]);
    assert_eq!(count(&format!("IN {few}"), "AND b.digit = 2"), [["1", "2"]]);
    assert_eq!(count(&format!("NOT IN {few}"), ""), [["2", "3"]]);
}

#[test]
fn dates_are_compared_as_dates() {
    let world = world();
    let text = "SELECT id FROM item WHERE born < date '2020-01-31' + interval '1 day' ORDER BY id";
    let shown = plan_lines(&world, text).join("\n");
    assert!(shown.contains("item.born < Date32(\"2020-02-01\")"), "{shown}");
    assert_eq!(world.rows(text).unwrap(), [["1"]]);
}

#[test]
#[ignore = "takes minutes in an unoptimised build; docs/testing.md has the command"]
fn large_statements_are_taken() {
    const LONG: usize = 500;
    let world = world();
    let list = (0..20_000).map(|i| i.to_string()).collect::<Vec<_>>().join(", ");
    let text = format!("SELECT count(*) FROM numbers WHERE n IN ({list})");
    assert_eq!(world.rows(&text).expect("a long list"), [["10000"]]);
    let any = (0..3_000).map(|i| format!("n = {i}")).collect::<Vec<_>>().join(" OR ");
    let text = format!("SELECT count(*) FROM numbers WHERE {any}");
    assert_eq!(world.rows(&text).expect("a long OR"), [["3000"]]);
    let sum = format!("SELECT 1{}", " + 1".repeat(LONG));
    assert_eq!(world.rows(&sum).expect("a long sum"), [[(LONG + 1).to_string()]]);
    let sum = format!("SELECT n{} FROM numbers WHERE n = 1", " + 1".repeat(LONG));
    assert_eq!(world.rows(&sum).expect("a long sum of a column"), [[(LONG + 1).to_string()]]);
    let deep =
        format!("SELECT {}n{} FROM numbers WHERE n = 1", "abs(".repeat(200), ")".repeat(200));
    assert_eq!(world.rows(&deep).expect("deep"), [["1"]]);
}

#[test]
fn memory_limit_and_cancellation_end_a_statement() {
    let mut world = world();
    world.session.memory_bytes = 10_000;
    let error =
        world.rows("SELECT n, count(*) FROM numbers GROUP BY n ORDER BY n").expect_err("too much");
    assert_eq!(error.state().as_str(), "53200");
    world.session.memory_bytes = 1 << 30;
    let text = "SELECT count(*) FROM numbers a, numbers b, numbers c WHERE a.n + b.n + c.n = -1";
    let (plan, _) = world.plan(text).expect("plan");
    let cancel = CancelToken::new();
    let env = Env {
        catalog: &world.catalog,
        params: &[],
        session: &world.session,
        clock: Clock::default(),
        cancel: &cancel,
        workers: None,
    };
    let roots = plan.tables().iter().map(|table| world.roots[&table.id].clone()).collect();
    let mut stream = plan.start(&env, roots).expect("starts");
    let other = cancel.clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        other.cancel();
    });
    let error = stream.next().expect("an end").expect_err("cancelled");
    assert_eq!(error.state().as_str(), "57014");
    thread.join().expect("no panic");
}
