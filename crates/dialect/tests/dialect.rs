//! The forms in which queries come to DataFusion's planner.

use halcyon_dialect::rewrite_query;
use halcyon_sql::parse::parse_query;
use halcyon_sql::repeated::shown_name;

fn rewritten(text: &str) -> String {
    let mut query = parse_query(text).expect(text);
    rewrite_query(&mut query).expect(text);
    query.to_string().replace('\u{1}', "~")
}

#[test]
fn result_columns_are_named_as_postgresql_names_them() {
    for (item, name) in [
        ("1", "?column?"),
        ("a + 1", "?column?"),
        ("count(*)", "count"),
        ("pg_catalog.Version()", "version"),
        ("'1'::int", "int4"),
        ("a::text", "a"),
        ("CASE WHEN a THEN 1 END", "case"),
        ("CASE WHEN a THEN 1 ELSE b END", "b"),
        ("(SELECT max(x) FROM t)", "max"),
        ("EXTRACT(year FROM a)", "extract"),
        ("coalesce(a, b)", "coalesce"),
        ("DATE '2020-01-01'", "date"),
        ("EXISTS (SELECT 1)", "exists"),
        ("NOT a", "?column?"),
        ("true", "?column?"),
        ("(b)", "b"),
        ("(f(a)).n", "n"),
        ("(f(a)).n[1]", "n"),
        ("a[1]", "a"),
    ] {
        let text = rewritten(&format!("SELECT {item}"));
        assert!(text.ends_with(&format!(" AS \"{name}\"")), "{item}: {text}");
    }
}

#[test]
fn repeated_names_are_told_apart_and_shown_alike() {
    assert_eq!(
        rewritten("SELECT a, a, 1, 2, b AS a FROM t"),
        "SELECT a, a AS \"a~1\", 1 AS \"?column?\", 2 AS \"?column?~2\", b AS \"a~3\" FROM t"
    );
    assert_eq!(shown_name("a\u{1}3"), "a");
}

#[test]
fn clauses_and_operators_become_what_the_planner_takes() {
    for (text, expected) in [
        ("SELECT a FROM t FETCH FIRST 3 ROWS ONLY", "SELECT a FROM t LIMIT 3"),
        (
            "SELECT a, unnest(b) FROM t ORDER BY a, c DESC LIMIT 2",
            "SELECT \"set0~\" AS \"a\", \"set1~\" AS \"unnest\" FROM \
             (SELECT a AS \"set0~\", unnest(b) AS \"set1~\", c AS \"set2~\" FROM t) AS \"rows of a set~\" \
             ORDER BY \"set0~\", \"set2~\" DESC LIMIT 2",
        ),
        (
            "SELECT a FROM t TABLESAMPLE SYSTEM (5)",
            "SELECT a FROM (SELECT * FROM t WHERE random() * 100 < 5) AS t",
        ),
        ("SELECT a FROM t FOR UPDATE", "SELECT a FROM t"),
        ("SELECT a FROM t WHERE int8(b) = 1", "SELECT a FROM t WHERE b::\"int8\" = 1"),
        ("SELECT a FROM t WHERE (a, b) = (1, 2)", "SELECT a FROM t WHERE (a = 1 AND b = 2)"),
        (
            "SELECT a FROM t WHERE (a, b) > (1, 2)",
            "SELECT a FROM t WHERE (a > 1 OR (a = 1 AND (b > 2)))",
        ),
        (
            "SELECT a FROM t WHERE a LIKE 'x!%' ESCAPE '!'",
            "SELECT a FROM t WHERE a LIKE \"like_escape\"('x!%', '!')",
        ),
        (
            "SELECT a FROM t WHERE a NOT SIMILAR TO 'x'",
            "SELECT a FROM t WHERE a !~ \"similar_to_escape\"('x')",
        ),
    ] {
        assert_eq!(rewritten(text), expected);
    }
}

fn over(text: &str) -> Result<String, String> {
    let mut query = parse_query(text).expect(text);
    rewrite_query(&mut query).map_err(|error| error.message().to_owned())?;
    let text = query.to_string();
    let from = text.find("OVER ").expect("a call over a window");
    Ok(text[from..].split(" AS ").next().expect("a split has a part").to_owned())
}

#[test]
fn a_window_says_what_the_one_says_that_it_starts_from() {
    for (text, expected) in [
        ("SELECT sum(a) OVER w AS s FROM t WINDOW w AS (ORDER BY a)", "OVER (ORDER BY a)"),
        (
            "SELECT sum(a) OVER (w ORDER BY b) AS s FROM t WINDOW w AS (PARTITION BY a)",
            "OVER (PARTITION BY a ORDER BY b)",
        ),
        (
            "SELECT sum(a) OVER v AS s FROM t \
             WINDOW w AS (PARTITION BY a), v AS (w ORDER BY b ROWS 1 PRECEDING)",
            "OVER (PARTITION BY a ORDER BY b ROWS 1 PRECEDING)",
        ),
        ("SELECT a FROM t WINDOW w AS (ORDER BY a) ORDER BY rank() OVER w", "OVER (ORDER BY a)"),
    ] {
        assert_eq!(over(text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn a_window_overrides_nothing() {
    for (windows, call, expected) in [
        ("", "OVER w", "window \"w\" does not exist"),
        ("WINDOW v AS (w)", "OVER v", "window \"w\" does not exist"),
        ("WINDOW w AS (), W AS ()", "OVER w", "window \"w\" is already defined"),
        (
            "WINDOW w AS ()",
            "OVER (w PARTITION BY a)",
            "cannot override PARTITION BY clause of window \"w\"",
        ),
        (
            "WINDOW w AS (ORDER BY a)",
            "OVER (w ORDER BY a)",
            "cannot override ORDER BY clause of window \"w\"",
        ),
        (
            "WINDOW w AS (ROWS 1 PRECEDING)",
            "OVER (w)",
            "cannot copy window \"w\" because it has a frame clause",
        ),
    ] {
        let text = format!("SELECT sum(a) {call} AS s FROM t {windows}");
        assert_eq!(over(&text), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn grouping_sets_are_counted_before_they_are_made() {
    let state = |grouping: &str| {
        let mut query =
            parse_query(&format!("SELECT 1 FROM t GROUP BY {grouping}")).expect(grouping);
        rewrite_query(&mut query).err().map(|error| error.state().to_string())
    };
    let names = |count: usize| (0..count).map(|at| format!("a{at}")).collect::<Vec<_>>().join(", ");
    assert_eq!(state(&format!("CUBE({})", names(12))), None);
    assert_eq!(state(&format!("CUBE({})", names(13))).as_deref(), Some("54011"));
    assert_eq!(state(&format!("CUBE({})", names(60))).as_deref(), Some("54011"));
    assert_eq!(state(&format!("ROLLUP({})", names(4_095))), None);
    assert_eq!(state(&format!("ROLLUP({})", names(4_096))).as_deref(), Some("54001"));
    assert_eq!(state(&["CUBE(a, b)"; 6].join(", ")), None);
    assert_eq!(state(&["CUBE(a, b)"; 40].join(", ")).as_deref(), Some("54001"));
    let nested = format!("GROUPING SETS (CUBE({0}), ROLLUP({0}), (a, b))", names(12));
    assert_eq!(state(&nested).as_deref(), Some("54001"));
}
