//! Every row of the table of our statements: texts of it, what they say, and where its errors are.
//!
//! A case is read, written as text and read again: both times it must say the same. Every row needs
//! a case that it reads and one that it refuses.

use super::grammar::{PRODUCTIONS, Production, production};
use super::reader::Reader;
use super::*;
use crate::error::{SqlError, SqlState};
use crate::parse;

fn one(text: &str) -> Result<Statement, SqlError> {
    parse::parse(text).map(|mut parsed| parsed.pop().expect("a statement").statement)
}

/// The row of the table that reads a text.
fn row_of(text: &str) -> Option<&'static Production> {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;
    let dialect = PostgreSqlDialect {};
    let tokens = Tokenizer::new(&dialect, text).tokenize_with_location().expect(text);
    production(&Reader::new(text, &tokens))
}

/// A text, and how we write what it says.
const READ: &[(&str, &str)] = &[
    ("checkpoint", "CHECKPOINT"),
    ("BACKUP TO 'it''s'", "BACKUP TO 'it''s'"),
    ("EXPORT DATABASE TO 'x'", "EXPORT DATABASE TO 'x'"),
    ("export database 'x'", "EXPORT DATABASE TO 'x'"),
    ("IMPORT DATABASE FROM 'x'", "IMPORT DATABASE FROM 'x'"),
    ("import database 'x'", "IMPORT DATABASE FROM 'x'"),
    ("ALTER SYSTEM SET a.b = '5 min'", "ALTER SYSTEM SET a.b = '5 min'"),
    ("alter system set a to 5", "ALTER SYSTEM SET a = 5"),
    ("ALTER SYSTEM SET search_path = a, b", "ALTER SYSTEM SET search_path = a, b"),
    ("ALTER SYSTEM SET a = DEFAULT", "ALTER SYSTEM SET a = DEFAULT"),
    ("ALTER SYSTEM RESET a", "ALTER SYSTEM RESET a"),
    ("ALTER SYSTEM RESET ALL", "ALTER SYSTEM RESET ALL"),
    ("PREPARE p AS SELECT 1", "PREPARE p AS SELECT 1"),
    (
        "prepare \"as\" (int, numeric(3,1)) /* as */ AS  SELECT ' as ' AS x",
        "PREPARE \"as\" (INT, NUMERIC(3,1)) AS SELECT ' as ' AS x",
    ),
    ("PREPARE p AS SUBSCRIBE v", "PREPARE p AS SUBSCRIBE v"),
    ("abort work", "ABORT"),
    ("ABORT AND CHAIN", "ABORT AND CHAIN"),
    ("ABORT TRANSACTION AND NO CHAIN", "ABORT"),
    ("set constraints all deferred", "SET CONSTRAINTS ALL DEFERRED"),
    ("SET CONSTRAINTS a, \"B\".c IMMEDIATE", "SET CONSTRAINTS a, \"B\".c IMMEDIATE"),
    ("discard temporary", "DISCARD TEMP"),
    ("set constraints all immediate", "SET CONSTRAINTS ALL IMMEDIATE"),
    ("SET CONSTRAINTS a, s.b DEFERRED", "SET CONSTRAINTS a, s.b DEFERRED"),
    ("LISTEN \"Ch\"", "LISTEN \"Ch\""),
    ("unlisten *", "UNLISTEN *"),
    ("UNLISTEN ch", "UNLISTEN ch"),
    ("NOTIFY ch", "NOTIFY ch"),
    ("notify ch, 'it''s'", "NOTIFY ch, 'it''s'"),
    (
        "declare \"C\" insensitive no scroll cursor without hold for select ' for '",
        "DECLARE \"C\" CURSOR FOR select ' for '",
    ),
    (
        "DECLARE c BINARY SCROLL CURSOR WITH HOLD FOR SELECT 1",
        "DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT 1",
    ),
    ("FETCH c", "FETCH FORWARD 1 FROM c"),
    ("FETCH NEXT FROM c", "FETCH FORWARD 1 FROM c"),
    ("fetch prior in c", "FETCH FORWARD -1 FROM c"),
    ("FETCH BACKWARD 3 c", "FETCH FORWARD -3 FROM c"),
    ("FETCH -2 FROM c", "FETCH FORWARD -2 FROM c"),
    ("FETCH FIRST FROM c", "FETCH ABSOLUTE 1 FROM c"),
    ("FETCH ABSOLUTE -3 FROM c", "FETCH ABSOLUTE -3 FROM c"),
    ("FETCH RELATIVE 0 FROM c", "FETCH RELATIVE 0 FROM c"),
    ("FETCH FORWARD ALL IN next", "FETCH FORWARD ALL FROM next"),
    ("FETCH next", "FETCH FORWARD 1 FROM next"),
    ("MOVE BACKWARD ALL FROM c", "MOVE BACKWARD ALL FROM c"),
    ("move 5 c", "MOVE FORWARD 5 FROM c"),
    ("CLOSE c", "CLOSE c"),
    ("close all", "CLOSE ALL"),
    (
        "create type a.\"Mood\" as enum ('sad', 'it''s')",
        "CREATE TYPE a.\"Mood\" AS ENUM ('sad', 'it''s')",
    ),
    ("CREATE TYPE m AS ENUM ()", "CREATE TYPE m AS ENUM ()"),
    (
        "create domain d int default 0 not null constraint p check (value > 0) check(value < 9)",
        "CREATE DOMAIN d AS INT DEFAULT 0 NOT NULL CONSTRAINT p CHECK (value > 0) CHECK (value < 9)",
    ),
    ("CREATE DOMAIN d AS TEXT NULL", "CREATE DOMAIN d AS TEXT NULL"),
    (
        "alter type m add value if not exists 'a' before 'b'",
        "ALTER TYPE m ADD VALUE IF NOT EXISTS 'a' BEFORE 'b'",
    ),
    ("ALTER TYPE m ADD VALUE 'a' AFTER 'b'", "ALTER TYPE m ADD VALUE 'a' AFTER 'b'"),
    ("ALTER TYPE m ADD VALUE 'a'", "ALTER TYPE m ADD VALUE 'a'"),
    ("ALTER TYPE m RENAME VALUE 'a' TO 'b'", "ALTER TYPE m RENAME VALUE 'a' TO 'b'"),
    ("alter type m owner to r", "ALTER TYPE m OWNER TO r"),
    ("ALTER DOMAIN d SET DEFAULT 1 + 1", "ALTER DOMAIN d SET DEFAULT 1 + 1"),
    ("alter domain d drop default", "ALTER DOMAIN d DROP DEFAULT"),
    ("ALTER DOMAIN d SET NOT NULL", "ALTER DOMAIN d SET NOT NULL"),
    ("ALTER DOMAIN d DROP NOT NULL", "ALTER DOMAIN d DROP NOT NULL"),
    (
        "alter domain d add constraint c check (value <> 3) not valid",
        "ALTER DOMAIN d ADD CONSTRAINT c CHECK (value <> 3) NOT VALID",
    ),
    (
        "ALTER DOMAIN d DROP CONSTRAINT IF EXISTS c CASCADE",
        "ALTER DOMAIN d DROP CONSTRAINT IF EXISTS c",
    ),
    ("ALTER DOMAIN d VALIDATE CONSTRAINT c", "ALTER DOMAIN d VALIDATE CONSTRAINT c"),
    ("ALTER DOMAIN d RENAME CONSTRAINT c TO e", "ALTER DOMAIN d RENAME CONSTRAINT c TO e"),
    ("ALTER DOMAIN d RENAME TO e", "ALTER DOMAIN d RENAME TO e"),
    ("drop type if exists a.m, n cascade", "DROP TYPE IF EXISTS a.m, n CASCADE"),
    ("DROP DOMAIN d RESTRICT", "DROP DOMAIN d"),
    (
        "create sequence if not exists a.s as integer start with 5 increment by 2 no cycle",
        "CREATE SEQUENCE IF NOT EXISTS a.s AS INTEGER INCREMENT BY 2 START WITH 5 NO CYCLE",
    ),
    (
        "ALTER TABLE ONLY a.t ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (SEQUENCE NAME a.s CACHE 1)",
        "ALTER TABLE a.t ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (SEQUENCE NAME a.s)",
    ),
    ("VACUUM", "VACUUM"),
    ("vacuum full verbose analyze a.t, u", "VACUUM a.t, u"),
    ("VACUUM (ANALYZE, VERBOSE off) t (a, b)", "VACUUM t (a, b)"),
    ("ANALYZE VERBOSE t (a)", "ANALYZE t (a)"),
    ("analyse", "ANALYZE"),
    ("REINDEX (VERBOSE) TABLE CONCURRENTLY t", "REINDEX TABLE t"),
    ("reindex index a.i", "REINDEX INDEX a.i"),
    ("REINDEX SCHEMA a", "REINDEX SCHEMA a"),
    ("REINDEX DATABASE d", "REINDEX DATABASE"),
    ("CLUSTER", "CLUSTER"),
    ("CLUSTER VERBOSE a.t USING i", "CLUSTER a.t USING i"),
    ("refresh materialized view concurrently a.v with data", "REFRESH MATERIALIZED VIEW a.v"),
    (
        "copy t (a, b) from stdin with (format 'csv', header on, freeze, quote '#', force_null (a))",
        "COPY t (a, b) FROM STDIN (FORMAT csv, HEADER, FREEZE, QUOTE '#', FORCE_NULL (a))",
    ),
    (
        "COPY (SELECT 1) TO STDOUT WITH (HEADER 0, DELIMITER '|', NULL 'x', FREEZE ON)",
        "COPY (SELECT 1) TO STDOUT (HEADER FALSE, DELIMITER '|', NULL 'x', FREEZE)",
    ),
    (
        "COPY t TO 'f' CSV HEADER DELIMITER AS ';' FORCE QUOTE *",
        "COPY t TO 'f' (FORMAT csv, HEADER, DELIMITER ';', FORCE_QUOTE (*))",
    ),
    ("SUBSCRIBE v", "SUBSCRIBE TO v"),
    ("subscribe to public.\"V\" from 17", "SUBSCRIBE TO public.\"V\" FROM 17"),
    ("EXPLAIN MAINTENANCE \"V\"", "EXPLAIN MAINTENANCE \"V\""),
    ("explain (triggers) a.v", "EXPLAIN (TRIGGERS) a.v"),
    ("EXPLAIN (TRIGGERS) SELECT 1", "EXPLAIN (TRIGGERS) SELECT 1"),
    ("EXPLAIN (ANALYZE, TRIGGERS on) DELETE FROM t", "EXPLAIN (TRIGGERS) DELETE FROM t"),
    (
        "EXPLAIN (TRIGGERS) SELECT * FROM a JOIN b JOIN c ON b.x = c.x ON a.x = b.x",
        "EXPLAIN (TRIGGERS) SELECT * FROM a JOIN (b JOIN c ON b.x = c.x) ON a.x = b.x",
    ),
    (
        "COPY a.bids FROM 'x.csv' WITH (FORMAT orderbook, book 'asks', brokers 7)",
        "COPY a.bids FROM 'x.csv' WITH (FORMAT orderbook, book 'asks', brokers 7)",
    ),
    (
        "copy bids from stdin (book 'bids', format orderbook)",
        "COPY bids FROM STDIN WITH (FORMAT orderbook, book 'bids', brokers 10)",
    ),
    (
        "CREATE STREAM IF NOT EXISTS a.s (x int NOT NULL, CHECK (x > 0))",
        "CREATE STREAM IF NOT EXISTS a.s (x INT NOT NULL, CHECK (x > 0))",
    ),
    (
        "create assertion a check (not exists (select 1 from v where x > 1))",
        "CREATE ASSERTION a CHECK (NOT EXISTS (SELECT 1 FROM v WHERE x > 1))",
    ),
    ("DROP ASSERTION a", "DROP ASSERTION a"),
    ("drop assertion if exists public.a", "DROP ASSERTION IF EXISTS public.a"),
    ("CREATE ROLE a, b", "CREATE ROLE a, b"),
    (
        "create role if not exists a with login valid until 'x' in role b, c admin d user e",
        "CREATE ROLE IF NOT EXISTS a LOGIN VALID UNTIL 'x' IN ROLE b, c ROLE d, e",
    ),
    (
        "CREATE USER a WITH ENCRYPTED PASSWORD 'x' CREATEDB CONNECTION LIMIT 5",
        "CREATE USER a PASSWORD 'x' CREATEDB CONNECTION LIMIT 5",
    ),
    ("CREATE GROUP a", "CREATE GROUP a"),
    ("ALTER USER a PASSWORD NULL NOSUPERUSER", "ALTER ROLE a WITH PASSWORD NULL NOSUPERUSER"),
    ("alter role a rename to \"B\"", "ALTER ROLE a RENAME TO \"B\""),
    ("ALTER ROLE a RESET ALL", "ALTER ROLE a RESET ALL"),
    ("GRANT staff, \"Boss\" TO bob", "GRANT staff, \"Boss\" TO bob"),
    ("grant create to bob, tom with admin option", "GRANT create TO bob, tom"),
    ("REVOKE staff FROM bob", "REVOKE staff FROM bob"),
    ("ALTER SEQUENCE s RESTART", "ALTER SEQUENCE s RESTART"),
    (
        "alter sequence if exists a.s as smallint increment -1 no maxvalue minvalue +3 cache 9 \
         start 4 restart 5 no cycle owned by t.c",
        "ALTER SEQUENCE IF EXISTS a.s AS SMALLINT INCREMENT BY -1 MINVALUE 3 NO MAXVALUE \
         START WITH 4 RESTART WITH 5 NO CYCLE OWNED BY t.c",
    ),
    (
        "ALTER SEQUENCE s MAXVALUE -9223372036854775808",
        "ALTER SEQUENCE s MAXVALUE -9223372036854775808",
    ),
    ("ALTER SEQUENCE s OWNER TO bob", "ALTER SEQUENCE s OWNER TO bob"),
    ("create materialized view v as select 1", "CREATE MATERIALIZED VIEW v AS SELECT 1"),
    (
        "CREATE MATERIALIZED VIEW IF NOT EXISTS s.v (a, \"B\") WITH (executor = interpreted,
         ON_RESTART = 'empty') AS SELECT x, y FROM t WITH DATA",
        "CREATE MATERIALIZED VIEW IF NOT EXISTS s.v (a, \"B\") WITH (on_restart = 'empty', \
         executor = 'interpreted') AS SELECT x, y FROM t",
    ),
    ("ALTER MATERIALIZED VIEW v RENAME TO w", "ALTER MATERIALIZED VIEW v RENAME TO w"),
    ("ALTER VIEW IF EXISTS a.v SET SCHEMA b", "ALTER VIEW IF EXISTS a.v SET SCHEMA b"),
    ("ALTER INDEX i RENAME TO j", "ALTER INDEX i RENAME TO j"),
    ("ALTER TABLE a.t SET SCHEMA b", "ALTER TABLE a.t SET SCHEMA b"),
];

/// A text of ours that is refused: the character from 1 that the error is about, and its message
/// behind "syntax error at ".
const REFUSED: &[(&str, u32, &str)] = &[
    ("CHECKPOINT now", 12, "or near \"now\""),
    ("BACKUP", 7, "end of input"),
    ("BACKUP DATABASE 'x'", 8, "or near \"DATABASE\""),
    ("EXPORT DATABASE", 16, "end of input"),
    ("EXPORT DATABASE TO x", 20, "or near \"x\""),
    ("IMPORT DATABASE TO 'x'", 17, "or near \"TO\""),
    ("ALTER SYSTEM a = 1", 14, "or near \"a\""),
    ("ALTER SYSTEM SET LOCAL a = 1", 14, "or near \"SET\""),
    ("ALTER SYSTEM SET a", 19, "end of input"),
    ("PREPARE p (int AS SELECT 1", 16, "or near \"AS\""),
    ("PREPARE p AS SELECT 1 1", 23, "or near \"1\""),
    ("PREPARE p AS", 13, "end of input"),
    ("PREPARE p AS PREPARE q AS SELECT 1", 14, "or near \"PREPARE\""),
    ("SUBSCRIBE", 10, "end of input"),
    ("SUBSCRIBE v FROM x", 18, "or near \"x\""),
    ("SUBSCRIBE v\n  FROM 1.5", 20, "or near \"1.5\""),
    ("EXPLAIN MAINTENANCE", 20, "end of input"),
    ("EXPLAIN MAINTENANCE v w", 23, "or near \"w\""),
    ("EXPLAIN (TRIGGERS)", 19, "end of input"),
    ("EXPLAIN (TRIGGERS) SELECT (1", 29, "end of input"),
    ("COPY b FROM STDIN (FORMAT orderbook)", 36, "or near \")\""),
    ("COPY b FROM STDIN (FORMAT orderbook, book 'x')", 43, "or near \"'x'\""),
    ("COPY b FROM STDIN (FORMAT orderbook, book 'bids', brokers 0)", 59, "or near \"0\""),
    ("COPY b FROM STDIN (FORMAT orderbook, header)", 38, "or near \"header\""),
    ("ABORT NOW", 7, "or near \"NOW\""),
    ("SET CONSTRAINTS ALL", 20, "end of input"),
    ("SET CONSTRAINTS a, b LATER", 22, "or near \"LATER\""),
    ("DISCARD", 8, "end of input"),
    ("LISTEN", 7, "end of input"),
    ("UNLISTEN", 9, "end of input"),
    ("NOTIFY ch, 5", 12, "or near \"5\""),
    ("DECLARE c CURSOR SELECT 1", 18, "or near \"SELECT\""),
    ("DECLARE c CURSOR FOR SELECT (1", 31, "end of input"),
    ("FETCH", 6, "end of input"),
    ("FETCH ABSOLUTE x FROM c", 16, "or near \"x\""),
    ("MOVE FORWARD 1 FROM", 20, "end of input"),
    ("CLOSE", 6, "end of input"),
    ("VACUUM t u", 10, "or near \"u\""),
    ("ANALYZE t (", 12, "end of input"),
    ("ANALYSE t,", 11, "end of input"),
    ("REINDEX t", 9, "or near \"t\""),
    ("CLUSTER t USING", 16, "end of input"),
    ("REFRESH MATERIALIZED VIEW", 26, "end of input"),
    ("COPY t", 7, "end of input"),
    ("COPY t FROM STDIN (HEADER maybe)", 27, "or near \"maybe\""),
    ("COPY t FROM STDIN (DELIMITER 'ab')", 30, "or near \"'ab'\""),
    ("COPY (SELECT 1) FROM STDIN", 17, "or near \"FROM\""),
    ("CREATE STREAM s (x int", 23, "end of input"),
    ("CREATE STREAM s (x int) y", 25, "or near \"y\""),
    ("CREATE ASSERTION a CHECK (EXISTS (SELECT 1))", 27, "or near \"EXISTS\""),
    ("CREATE ASSERTION a CHECK (NOT EXISTS (SELECT 1)", 48, "end of input"),
    ("DROP ASSERTION a, b", 17, "or near \",\""),
    ("CREATE USER a PASSWORD", 23, "end of input"),
    ("CREATE ROLE a FLYING", 15, "or near \"FLYING\""),
    ("ALTER USER a WITH", 18, "end of input"),
    ("ALTER ROLE a RENAME b", 21, "or near \"b\""),
    ("GRANT a TO", 11, "end of input"),
    ("REVOKE a FROM b c", 17, "or near \"c\""),
    ("ALTER SEQUENCE s RESTART WITH x", 31, "or near \"x\""),
    ("ALTER SEQUENCE s", 17, "end of input"),
    ("CREATE SEQUENCE s RESTART", 19, "or near \"RESTART\""),
    (
        "ALTER TABLE t ALTER COLUMN a ADD GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME",
        77,
        "end of input",
    ),
    (
        "CREATE MATERIALIZED VIEW v WITH (executor 'compiled') AS SELECT 1",
        43,
        "or near \"'compiled'\"",
    ),
    ("CREATE MATERIALIZED VIEW v SELECT 1", 28, "or near \"SELECT\""),
    ("ALTER MATERIALIZED v RENAME TO w", 20, "or near \"v\""),
    ("ALTER MATERIALIZED VIEW v AS SELECT 1", 27, "or near \"AS\""),
    ("ALTER VIEW v RENAME COLUMN a TO b", 21, "or near \"COLUMN\""),
    ("ALTER INDEX i SET TABLESPACE x", 19, "or near \"TABLESPACE\""),
    ("ALTER TABLE t SET SCHEMA 'b' c", 30, "or near \"c\""),
];

#[test]
fn every_production_has_a_text_that_it_reads_and_one_that_it_refuses() {
    for row in PRODUCTIONS {
        let is_its = |text: &str| row_of(text).is_some_and(|found| found.begins == row.begins);
        assert!(READ.iter().any(|(text, _)| is_its(text)), "no text says {}", row.begins);
        let refused = REFUSED.iter().any(|(text, ..)| is_its(text));
        assert!(refused, "no text is refused that begins {}", row.begins);
    }
}

#[test]
fn parts_of_patterns_are_known() {
    for part in PRODUCTIONS.iter().flat_map(|row| row.begins.split(' ')) {
        let is_word = part.split('|').all(|word| word.bytes().all(|b| b.is_ascii_uppercase()));
        let known = ["…", "(", "<name>", "<names>", "<if-exists>"];
        assert!(is_word || known.contains(&part), "{part}");
    }
}

#[test]
fn own_statements_are_read_and_written() {
    for (text, written) in READ {
        let statement = one(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(row_of(text).is_some(), "{text}");
        assert_eq!(statement.to_string(), *written, "{text}");
        let again = one(written).unwrap_or_else(|error| panic!("{written}: {error}"));
        // PREPARE keeps the text behind AS, which need not be as we write it.
        assert_eq!(again.to_string(), *written, "{text}");
    }
}

#[test]
fn errors_of_own_statements_name_the_place() {
    for (text, position, message) in REFUSED {
        assert!(row_of(text).is_some(), "{text}");
        let error = one(text).map(|found| found.to_string()).expect_err(text);
        assert_eq!(error.state(), SqlState::SYNTAX_ERROR, "{text}");
        assert_eq!(error.message(), format!("syntax error at {message}"), "{text}");
        assert_eq!(error.fields().position, Some(*position), "{text}");
        let shifted = parse::parse(&format!("SELECT 1; {text}")).expect_err(text);
        assert_eq!(shifted.fields().position, Some(position + 10), "{text}");
    }
}

#[test]
fn other_errors_of_own_statements_name_the_place_too() {
    for (text, state, position) in [
        ("ALTER SEQUENCE s START 9223372036854775808", SqlState::NUMERIC_VALUE_OUT_OF_RANGE, 24),
        ("CREATE ROLE a LOGIN NOLOGIN", SqlState::SYNTAX_ERROR, 21),
        ("ALTER USER a PASSWORD 'x' PASSWORD 'y'", SqlState::SYNTAX_ERROR, 27),
    ] {
        let error = one(text).expect_err(text);
        assert_eq!((error.state(), error.fields().position), (state, Some(position)), "{text}");
    }
}

#[test]
fn what_only_looks_like_ours_is_the_sql_parsers() {
    for text in [
        "ALTER TABLE t ADD COLUMN a INT",
        "ALTER TABLE t RENAME TO u",
        "ALTER VIEW v AS SELECT 1",
        "EXPLAIN SELECT 1",
        "EXPLAIN (ANALYZE) SELECT triggers FROM t",
        "GRANT SELECT ON t TO bob",
        "REVOKE SELECT (a), INSERT ON t FROM bob",
        "CREATE TABLE stream (a INT)",
        "SELECT checkpoint FROM backup",
        "DROP ROLE a",
        "SET a = 1",
    ] {
        assert!(row_of(text).is_none(), "{text}");
        assert!(matches!(one(text), Ok(Statement::Sql(_))), "{text}: {:?}", one(text));
    }
}

#[test]
fn depth_is_bounded_in_own_statements() {
    let text = "SELECT 1 FROM v WHERE a = 1";
    let chain = " AND a = 1 OR b < 2".repeat(50_000);
    let assertion = format!("CREATE ASSERTION a CHECK (NOT EXISTS ({text}{chain}))");
    let prepared = format!("PREPARE p AS {text}{chain}");
    let explained = format!("EXPLAIN (TRIGGERS) {text}{chain}");
    let deep = format!("PREPARE p AS SELECT {}1{}", "(".repeat(300), ")".repeat(300));
    let work = move || {
        for text in [assertion, prepared, explained] {
            // Its tree is dropped on this small stack.
            assert!(!matches!(one(&text).expect("allowed"), Statement::Sql(_)));
        }
        assert_eq!(one(&deep).unwrap_err().state(), SqlState::STATEMENT_TOO_COMPLEX);
    };
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(work);
    thread.expect("a thread").join().expect("no overflow");
}
