//! Texts and the statements in them: places, errors, depth, hints.

use halcyon_sql::parse::{DEPTH_MAX, ast, parse, parse_own_expr, parse_own_query};
use halcyon_sql::syntax::Statement;
use halcyon_sql::{SqlError, SqlState};

fn error(text: &str) -> SqlError {
    parse(text).map(|_| ()).expect_err(&text[..text.len().min(80)])
}

#[test]
fn statements_keep_their_own_text_and_offset() {
    let parsed = parse(" SELECT 'é;' ;\n-- nothing\n; select 2 -- end\n ;;").expect("two");
    let texts: Vec<_> = parsed.iter().map(|p| (p.text, p.offset)).collect();
    assert_eq!(texts, [("SELECT 'é;'", 1), ("select 2", 28)]);
    assert!(parse(" ; -- nothing\n").expect("empty").is_empty());
}

#[test]
fn syntax_errors_name_the_place() {
    for (text, state, position, message) in [
        ("SELEC 1", "42601", Some(1), "syntax error at or near \"SELEC\""),
        ("SELECT 1;\n SELECT (1", "42601", Some(21), "syntax error at end of input"),
        ("SELECT 1 FROM t WHERE )", "42601", Some(23), "syntax error at or near \")\""),
        ("SELECT 'abc", "42601", Some(8), "unterminated string literal"),
        ("SELECT 1 1", "42601", Some(10), "syntax error at or near \"1\""),
    ] {
        let error = error(text);
        assert_eq!(error.state().as_str(), state, "{text}");
        assert_eq!(error.message().to_lowercase(), message.to_lowercase(), "{text}");
        assert_eq!(error.fields().position, position, "{text}: {error:?}");
    }
}

#[test]
fn depth_is_bounded_whatever_makes_it() {
    let work = || {
        for depth in [DEPTH_MAX + 1, 20_000] {
            for (open, middle, close) in [
                ("(", "1", ")"),
                ("- ", "1", ""),
                ("NOT ", "true", ""),
                ("INTERVAL ", "'1 day'", ""),
                ("CASE WHEN true THEN ", "1", " END"),
                ("abs(", "1", ")"),
                ("(SELECT ", "1", ")"),
                ("1 + (", "1", ")"),
                ("ARRAY[", "1", "]"),
            ] {
                let (opened, closed) = (open.repeat(depth), close.repeat(depth));
                let error = error(&format!("SELECT {opened}{middle}{closed}"));
                assert_eq!(error.state(), SqlState::STATEMENT_TOO_COMPLEX, "{depth} {open}");
            }
            for link in [
                " + 1",
                " || 'a'",
                "::text",
                " UNION SELECT 1",
                " IS NULL",
                " NOTNULL",
                " LIKE 'a'",
                " IN (true)",
                " XOR true",
                " OPERATOR(+) 1",
                " BETWEEN 1 AND 2",
                " IS DISTINCT FROM 1",
            ] {
                // Two set operations count for one level.
                let error = error(&format!("SELECT 1{}", link.repeat(2 * depth)));
                assert_eq!(error.state(), SqlState::STATEMENT_TOO_COMPLEX, "{depth} {link}");
            }
        }
        for (text, state) in [
            (format!("{}SELECT 1", "EXPLAIN ".repeat(20_000)), "54001"),
            (format!("{}SELECT 1", "DESCRIBE ".repeat(200_000)), "54001"),
            (format!("{}SELECT 1", "DESC ".repeat(200_000)), "54001"),
            (format!("SELECT CAST(1 AS {}int", "ARRAY<".repeat(20_000)), "54001"),
            (format!("SELECT 1::int{}", "[]".repeat(200_000)), "54001"),
            // What was read until the error is dropped by the parser.
            (format!("SELECT 1{} AND", " AND a = 1".repeat(200_000)), "42601"),
            (format!("SELECT 1{} +", " NOTNULL".repeat(200_000)), "42601"),
        ] {
            assert_eq!(error(&text).state().as_str(), state, "{}", &text[..30]);
        }
    };
    let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(work);
    thread.expect("a thread").join().expect("no overflow");
}

#[test]
fn what_is_allowed_parses_on_a_small_stack() {
    let work = || {
        let deep = format!("SELECT {}1{}", "(".repeat(250), ")".repeat(250));
        let cases = format!("SELECT {}1{}", "CASE WHEN true THEN ".repeat(250), " END".repeat(250));
        // As many branches as one likes; what stands around the CASE is still counted.
        let branches = "WHEN a = 1 THEN -1 ".repeat(2 * DEPTH_MAX);
        assert!(parse(&format!("SELECT CASE {branches}END FROM t")).is_ok());
        let terms = " + CASE WHEN a THEN 1 END".repeat(DEPTH_MAX + 1);
        assert_eq!(
            error(&format!("SELECT 1{terms} FROM t")).state(),
            SqlState::STATEMENT_TOO_COMPLEX
        );
        let chain = format!("SELECT 1{}", " + 1".repeat(DEPTH_MAX - 10));
        let logic = format!("SELECT true{}", " AND a = 1 OR b < 2".repeat(50_000));
        let list = format!("SELECT 1 IN (0{})", ", 1".repeat(300_000));
        for text in [deep, cases, chain, logic, list] {
            assert_eq!(parse(&text).expect("allowed").len(), 1);
        }
    };
    let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(work);
    thread.expect("a thread").join().expect("no overflow");
}

#[test]
fn a_statement_that_is_to_end_ends_its_parser() {
    let text = format!("SELECT 1 IN (0{})", ", 1".repeat(1_000));
    let ended = halcyon_base::interrupt::watching(|| true, || parse(&text).map(|_| ()));
    assert_eq!(ended.expect_err("ended").state(), SqlState::QUERY_CANCELED);
    let own = || (parse_own_query("SELECT 1").to_string(), parse_own_expr("a + 1").to_string());
    let own = halcyon_base::interrupt::watching(|| true, own);
    assert_eq!(own, ("SELECT 1".into(), "a + 1".into()));
}

#[test]
fn copy_from_stdin_needs_no_data() {
    let parsed = parse("COPY t FROM STDIN WITH (FORMAT csv); SELECT 1").expect("two");
    assert_eq!(parsed.len(), 2);
    let Statement::Sql(copy) = &parsed[0].statement else { panic!("{parsed:?}") };
    assert!(matches!(**copy, ast::Statement::Copy { .. }));
}

#[test]
fn hints_are_taken_off_the_end_alone() {
    for (text, class, unknown) in [
        ("SELECT a FROM t with  hint ( workload_class(\"Web\") )", Some("Web"), ""),
        (
            "(SELECT 1) WITH HINT(WORKLOAD_CLASS(Web), NO_CALC, IGNORE_PLAN_CACHE(x, 1))",
            Some("web"),
            "NO_CALC IGNORE_PLAN_CACHE",
        ),
        (
            "WITH x AS (SELECT 1) SELECT * FROM x -- y\n WITH HINT(WORKLOAD_CLASS('it''s')) -- z",
            Some("it's"),
            "",
        ),
        ("INSERT INTO t VALUES (1) WITH HINT(USE_OLAP_PLAN)", None, "USE_OLAP_PLAN"),
        ("UPDATE t SET a = 1 WITH HINT(WORKLOAD_CLASS(w))", Some("w"), ""),
        ("EXPLAIN DELETE FROM t WITH HINT(WORKLOAD_CLASS(w))", Some("w"), ""),
    ] {
        let parsed = parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).remove(0);
        assert_eq!(parsed.hints.workload_class.as_deref(), class, "{text}");
        assert_eq!(parsed.hints.unknown.join(" "), unknown, "{text}");
        let begin = parsed.text.to_lowercase().rfind("with").expect("the hints");
        assert!(parsed.text.ends_with(')'), "{text}");
        let without = parse(&parsed.text[..begin]).expect(text).remove(0);
        assert_eq!(parsed.statement, without.statement, "{text}");
    }
    let prepared = parse("PREPARE p AS SELECT 1 WITH HINT(WORKLOAD_CLASS(w))").expect("hinted");
    assert!(prepared[0].statement.to_string().ends_with("WITH HINT(WORKLOAD_CLASS(w))"));
}

#[test]
fn what_is_no_hint_is_an_error() {
    for text in [
        "CREATE TABLE t (a INT) WITH HINT(WORKLOAD_CLASS(w))",
        "SELECT 1 WITH HINT()",
        "SELECT 1 WITH HINT(WORKLOAD_CLASS)",
        "SELECT 1 WITH HINT(WORKLOAD_CLASS(5))",
        "SELECT 1 WITH HINT(WORKLOAD_CLASS(a) b)",
        "SELECT 1 WITH HINT(a,)",
        "SELECT 1 WITH HINT('a')",
        "WITH HINT(a)",
    ] {
        let error = parse(text).map(|_| ()).expect_err(text);
        assert_eq!(error.state().as_str(), "42601", "{text}");
    }
    assert!(parse("SELECT a AS hint, max(b) FROM t").expect("none")[0].hints == Default::default());
}
