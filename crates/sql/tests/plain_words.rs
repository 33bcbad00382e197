//! Words that are names for PostgreSQL and more for the SQL parser.

use halcyon_quick::plain_words::ALIASES;
use halcyon_sql::parse::parse_tokens;

#[test]
fn words_of_other_dialects_are_names() {
    let forms = [
        "SELECT 1 {k}, 2",
        "SELECT 1 {k}",
        "SELECT x.c {k}, x.c FROM (SELECT 1 AS c) x",
        "SELECT abs(1) {k} FROM (SELECT 1) y",
        "SELECT CASE WHEN a THEN b END {k}, x IS NULL {k}, $1 {k}, 'a' {k} FROM t",
        "SELECT 1 AS {k}, 2",
        "SELECT {k}, 1 + {k} FROM t ORDER BY {k}",
        "SELECT {k}.c FROM (SELECT 1 AS c) {k}",
        "SELECT {k}.c FROM t {k} JOIN u ON u.c = {k}.c",
        "SELECT {k}.c FROM t {k} LEFT OUTER JOIN u {k} USING (c) WHERE true",
        "WITH q AS (SELECT c {k} FROM t {k}) SELECT * FROM q {k} FOR UPDATE",
        "INSERT INTO t SELECT c {k} FROM u {k} RETURNING c",
        "UPDATE t SET {k} = 1 FROM u {k} WHERE {k}.a = t.a",
        "CREATE VIEW v AS SELECT c {k} FROM t {k} UNION SELECT 1 {k}",
        "DELETE FROM t USING u {k} WHERE {k}.a = t.a",
    ];
    let taken = ["lateral", "analyze", "format", "values", "operator"];
    let words = ALIASES.iter().filter(|word| !taken.contains(word)).copied();
    let nobodys = [
        "name", "value", "type", "status", "key", "year", "zone", "level", "data", "first", "rows",
    ];
    for word in words.chain(["top"]).chain(nobodys) {
        for form in forms {
            let text = form.replace("{k}", word);
            // A written text means the same when it is read again, as a view's is.
            let parsed = parse_tokens(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let shown = format!("{:?}", parsed[0].statement);
            assert!(shown.contains(&format!("value: \"{word}\"")), "{text} lost a name: {shown}");
        }
    }
    for word in ["interval", "trim", "exists", "top"] {
        for text in [
            "SELECT {k}, {k} = 1 FROM t WHERE {k} > 2",
            "UPDATE t SET {k} = {k} + 1",
            "SELECT t.{k} FROM t",
        ] {
            let text = text.replace("{k}", word);
            parse_tokens(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
    }
}

#[test]
fn clauses_stay_clauses() {
    let texts = [
        "SELECT sum(a) OVER (PARTITION BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
        "INSERT INTO t VALUES (1), (2)",
        "INSERT INTO t DEFAULT VALUES",
        "INSERT INTO t (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 2",
        "UPDATE t x SET a = 1",
        "SELECT * FROM a, LATERAL (SELECT 1) l",
        "SELECT a OPERATOR(pg_catalog.=) b FROM t",
        "SELECT interval '1 day', interval '1' hour, x::interval, CAST(x AS interval), now() - interval '1 day' FROM t",
        "SELECT * FROM f() AS t(a interval, b int)",
        "SELECT trim(both 'x' from a) FROM t WHERE EXISTS (SELECT 1) AND NOT EXISTS (SELECT 2)",
        "CREATE TABLE t (a int REFERENCES u (a) MATCH FULL ON DELETE SET NULL, b interval, c int)",
        "ALTER TABLE t SET SCHEMA s",
        "EXPLAIN (ANALYZE, FORMAT TEXT) SELECT 1",
        "CREATE TABLE IF NOT EXISTS t AS SELECT 1",
    ];
    for text in texts {
        parse_tokens(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}
