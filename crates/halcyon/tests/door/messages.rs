//! What statements that are wrong are told: SQLSTATE, message and place, as PostgreSQL 15 tells them.

use halcyon::Database;

/// A statement, its SQLSTATE, its message, and the character of the statement that is meant.
#[rustfmt::skip] // one in a line
const TOLD: &[(&str, &str, &str, Option<u32>)] = &[
    ("SELECT sum(t) FROM r", "42883", "function sum(text) does not exist", Some(8)),
    ("SELECT id, avg(f) FROM r GROUP BY id", "42883", "function avg(boolean) does not exist", Some(12)),
    ("SELECT max(f) FROM r", "42883", "function max(boolean) does not exist", Some(8)),
    ("SELECT lower(id) FROM r", "42883", "function lower(integer) does not exist", Some(8)),
    ("SELECT lower(1)", "42883", "function lower(integer) does not exist", Some(8)),
    ("SELECT substring(1, 2)", "42883", "function substring(integer, integer) does not exist", Some(8)),
    ("SELECT round(t) FROM r", "42883", "function round(text) does not exist", Some(8)),
    ("SELECT date_trunc(1, 2)", "42883", "function date_trunc(integer, integer) does not exist", Some(8)),
    ("SELECT date_part('year', 1)", "42883", "function date_part(unknown, integer) does not exist", Some(8)),
    ("SELECT extract(year FROM id) FROM r", "42883", "function pg_catalog.extract(unknown, integer) does not exist", Some(8)),
    ("SELECT string_agg(id, ',') FROM r", "42883", "function string_agg(integer, unknown) does not exist", Some(8)),
    ("SELECT sum(1, 2)", "42883", "function sum(integer, integer) does not exist", Some(8)),
    ("SELECT nosuch(1, 'a')", "42883", "function nosuch(integer, unknown) does not exist", Some(8)),
    ("SELECT now() + 1", "42883", "operator does not exist: timestamp with time zone + integer", Some(14)),
    ("SELECT m - true FROM r", "42883", "operator does not exist: date - boolean", Some(10)),
    ("SELECT id = true FROM r", "42883", "operator does not exist: integer = boolean", Some(11)),
    ("SELECT b + l FROM r", "42883", "operator does not exist: bigint + integer[]", Some(10)),
    ("SELECT id FROM r WHERE id = 1 AND d = f", "42883", "operator does not exist: double precision = boolean", Some(37)),
    ("SELECT t * 2 FROM r", "42883", "operator does not exist: text * integer", Some(10)),
    ("SELECT '1' & '2'", "42725", "operator is not unique: unknown & unknown", Some(12)),
    ("SELECT id LIKE t FROM r", "42883", "operator does not exist: integer ~~ text", Some(11)),
    ("SELECT array_length('{1,2}', 1)", "42804", "could not determine polymorphic type because input has type unknown", None),
    ("SELECT array_append(id, 2) FROM r", "42883", "function array_append(integer, integer) does not exist", Some(8)),
    ("SELECT NOT 1", "42804", "argument of NOT must be type boolean, not type integer", Some(12)),
    ("SELECT id FROM r WHERE id", "42804", "argument of WHERE must be type boolean, not type integer", Some(24)),
    ("SELECT id FROM r GROUP BY id HAVING id", "42804", "argument of HAVING must be type boolean, not type integer", Some(37)),
    ("SELECT * FROM r x JOIN r y ON x.id", "42804", "argument of JOIN/ON must be type boolean, not type integer", Some(31)),
    ("SELECT nosuch FROM r", "42703", "column \"nosuch\" does not exist", Some(8)),
    ("SELECT r.nosuch FROM r", "42703", "column r.nosuch does not exist", Some(8)),
    ("SELECT * FROM nosuch", "42P01", "relation \"nosuch\" does not exist", Some(15)),
    ("SELECT 'a b'::int", "22P02", "invalid input syntax for type integer: \"a b\"", Some(8)),
    ("SELECT 1::date", "42846", "cannot cast type integer to date", Some(9)),
    ("SELECT m::int FROM r", "42846", "cannot cast type date to integer", Some(9)),
    ("SELECT id::nosuch FROM r", "42704", "type \"nosuch\" does not exist", Some(12)),
    ("SELECT interval '1 day' * interval '1 day'", "42883", "operator does not exist: interval * interval", Some(25)),
    ("INSERT INTO r (id) VALUES ('x')", "22P02", "invalid input syntax for type integer: \"x\"", Some(28)),
    ("UPDATE r SET id = 'x'", "22P02", "invalid input syntax for type integer: \"x\"", Some(19)),
    ("UPDATE r SET nosuch = 1", "42703", "column \"nosuch\" of relation \"r\" does not exist", Some(14)),
    ("DELETE FROM r WHERE nosuch = 1", "42703", "column \"nosuch\" does not exist", Some(21)),
    ("INSERT INTO r (nosuch) VALUES (1)", "42703", "column \"nosuch\" of relation \"r\" does not exist", Some(16)),
    ("SELECT id FROM r ORDER BY nosuch", "42703", "column \"nosuch\" does not exist", Some(27)),
    ("SELECT id FROM r WHERE t = 1", "42883", "operator does not exist: text = integer", Some(26)),
    ("SELECT id FROM r WHERE id IN ('x')", "22P02", "invalid input syntax for type integer: \"x\"", Some(31)),
    ("SELECT repeat(id, 2) FROM r", "42883", "function repeat(integer, integer) does not exist", Some(8)),
    ("SELECT left(id, 2) FROM r", "42883", "function left(integer, integer) does not exist", Some(8)),
    ("SELECT position(id IN t) FROM r", "42883", "function pg_catalog.position(text, integer) does not exist", Some(8)),
    ("SELECT trim(id) FROM r", "42883", "function pg_catalog.btrim(integer) does not exist", Some(8)),
    ("SELECT count()", "42809", "count(*) must be used to call a parameterless aggregate function", Some(8)),
];

#[test]
fn wrong_statements_are_told_what_is_wrong_and_where() {
    let db = Database::in_memory();
    let mut session = db.session();
    session
        .batch(
            "CREATE TABLE r (id INTEGER, d DOUBLE PRECISION, n NUMERIC, t TEXT, f BOOLEAN, m DATE, \
             l INTEGER[], b BIGINT)",
        )
        .expect("a new table");
    let mut wrong = Vec::new();
    for &(text, state, message, place) in TOLD {
        let told = match session.query(text, &[]) {
            Ok(_) => ("no error".to_owned(), String::new(), None),
            Err(error) => {
                let state = error.state().as_str().to_owned();
                (state, error.message().to_owned(), error.fields().position)
            }
        };
        if told != (state.to_owned(), message.to_owned(), place) {
            wrong.push(format!("{text}\n  {told:?}\n  instead of {state} {message:?} {place:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_message_names_types_or_functions_of_the_planner() {
    let db = Database::in_memory();
    let mut session = db.session();
    session
        .batch("CREATE TABLE r (i INTEGER, d DOUBLE PRECISION, t TEXT, f BOOLEAN, m DATE)")
        .expect("new");
    // Each operator and some functions between columns of each pair of types.
    let columns =
        ["i", "d", "t", "f", "m", "1", "'x'", "NULL", "interval '1 day'", "ARRAY[i]", "ROW(i)"];
    let forms = [
        "{} + {}",
        "{} - {}",
        "{} * {}",
        "{} / {}",
        "{} % {}",
        "{} = {}",
        "{} < {}",
        "{} || {}",
        "{} & {}",
        "{} AND {}",
        "{} LIKE {}",
        "coalesce({}, {})",
        "nullif({}, {})",
        "greatest({}, {})",
        "ARRAY[{}, {}]",
        "CASE WHEN f THEN {} ELSE {} END",
        "round({}, {})",
        "substr({}, {})",
        "date_trunc({}, {})",
        "power({}, {})",
        "left({}, {})",
        "{} IN ({})",
        "array_append({}, {})",
        "string_agg({}, {})",
        "date_part({}, {})",
    ];
    let leaks = [
        "Int32",
        "Int64",
        "Utf8",
        "Float64",
        "Decimal128",
        "Timestamp(",
        "Interval(",
        "Date32",
        "List(",
        "Struct(",
        "coercion",
        "user-defined",
        "signature",
        "Signature",
        "expression: ",
        "Execution error",
        "External error",
    ];
    let mut wrong = Vec::new();
    for form in forms {
        for left in columns {
            for right in columns {
                let expression = form.replacen("{}", left, 1).replacen("{}", right, 1);
                let text = format!("SELECT {expression} FROM r");
                let Err(error) = session.query(text.as_str(), &[]) else { continue };
                if leaks.iter().any(|leak| error.message().contains(leak)) {
                    wrong.push(format!("{text}: {}", error.message()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of them\n{}", wrong.len(), wrong.join("\n"));
}
