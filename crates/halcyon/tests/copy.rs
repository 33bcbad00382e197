//! COPY through the door: every format there and back, and lines that are refused.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use halcyon::{Database, Session, SqlError, SqlState, Value};

fn session() -> Session {
    let mut session = Database::in_memory().session();
    session
        .batch(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR(10), price NUMERIC(8,2),
                at TIMESTAMP, b BYTEA, n INTEGER DEFAULT 7 CHECK (n > 0))",
        )
        .expect("a new table");
    session
}

fn file(name: &str, content: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("halcyon-copy-{}-{name}", std::process::id()));
    std::fs::write(&path, content).expect("a file");
    path
}

fn copy_in(
    session: &mut Session,
    columns: &str,
    options: &str,
    data: &[u8],
) -> Result<(), SqlError> {
    let path = file(&format!("in-{:x}", data.len()), data);
    let text = format!("COPY t {columns} FROM '{}' {options}", path.display());
    let ran = session.batch(&text);
    std::fs::remove_file(path).expect("removed");
    ran
}

fn count(session: &mut Session) -> usize {
    let rows = session.query("SELECT id FROM t", &[]).and_then(|rows| rows.collect());
    rows.expect("rows").len()
}

#[test]
fn every_format_reads_what_it_wrote() {
    for format in ["text", "csv", "csv, HEADER true", "binary", "parquet"] {
        let mut session = session();
        session
            .batch(
                "INSERT INTO t VALUES (1, 'a,\"b', 1.5, '2020-01-02 03:04:05', '\\x00ff', 1),
                    (2, '', NULL, NULL, NULL, 2), (3, E'x\\ty\\n', -0.01, NULL, '\\x', NULL)",
            )
            .expect("three rows");
        let path = file(&format.replace(|c: char| !c.is_ascii_alphabetic(), "-"), b"");
        session.batch(&format!("COPY t TO '{}' (FORMAT {format})", path.display())).expect(format);
        session
            .batch(&format!(
                "CREATE TABLE before AS SELECT * FROM t; DELETE FROM t;
                 COPY t FROM '{}' (FORMAT {format})",
                path.display()
            ))
            .expect(format);
        let difference = "(SELECT * FROM t EXCEPT SELECT * FROM before)
            UNION ALL (SELECT * FROM before EXCEPT SELECT * FROM t)";
        let rows = session.query(difference, &[]).and_then(|rows| rows.collect()).expect(format);
        assert_eq!((rows.len(), count(&mut session)), (0, 3), "{format}: {rows:?}");
        std::fs::remove_file(path).expect("removed");
    }
}

#[test]
fn refused_lines_are_named_and_leave_nothing() {
    let csv = "(FORMAT csv)";
    let cases: [(&[u8], SqlState, &str); 9] = [
        (b"1,a\n2,b\nx,c\n", SqlState::INVALID_TEXT_REPRESENTATION, "line 3, column id: \"x\""),
        (b"1,a\n2\n", SqlState::BAD_COPY_FILE_FORMAT, "line 2: \"2\""),
        (b"1,a,b\n", SqlState::BAD_COPY_FILE_FORMAT, "line 1: \"1,a,b\""),
        (b"1,a\n2,\xff\n", SqlState::CHARACTER_NOT_IN_REPERTOIRE, "line 2"),
        (b"1,\"a\n2,b\n", SqlState::BAD_COPY_FILE_FORMAT, "line 1"),
        (b"1,abcdefghijk\n", SqlState::STRING_DATA_RIGHT_TRUNCATION, "line 1, column name"),
        (b"1,a\n1,b\n", SqlState::UNIQUE_VIOLATION, "lines 1 to 2"),
        (b"1,a\n99999999999,b\n", SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "line 2, column id"),
        (b",a\n", SqlState::NOT_NULL_VIOLATION, "lines 1 to 1"),
    ];
    let mut session = session();
    for (data, state, place) in cases {
        let error = copy_in(&mut session, "(id, name)", csv, data).unwrap_err();
        assert_eq!(error.state(), state, "{error}");
        let context = error.fields().context.clone().unwrap_or_default();
        assert!(context.contains(place), "{context:?} should contain {place:?}");
        assert_eq!(count(&mut session), 0);
    }
    let error = copy_in(&mut session, "(id, n)", csv, b"1,0\n").unwrap_err();
    assert_eq!(error.state(), SqlState::CHECK_VIOLATION);
    let error = session.batch("COPY t FROM '/nowhere/at/all'").unwrap_err();
    assert_eq!(error.state(), SqlState::UNDEFINED_FILE);
    let error = copy_in(&mut session, "", "(FORMAT binary)", b"nothing like it").unwrap_err();
    assert_eq!(error.state(), SqlState::BAD_COPY_FILE_FORMAT);
}

#[test]
fn options_of_csv_and_escapes_of_text_are_understood() {
    let mut session = session();
    let options = "(FORMAT csv, DELIMITER ';', NULL 'nil', QUOTE '''', HEADER true)";
    copy_in(&mut session, "(id, name)", options, b"id;name\r\n1;nil\r\n2;'a;''b'\r\n3;'nil'\r\n")
        .expect("CSV");
    copy_in(&mut session, "(id, name)", "", b"4\t\\N\n5\ta\\tb\\x41\\101\\\\\n6\t\n\\.\nrest\n")
        .expect("text");
    let rows = session
        .query("SELECT id, name, n FROM t ORDER BY id", &[])
        .and_then(|rows| rows.collect())
        .expect("rows");
    let names: Vec<Option<&str>> = rows
        .iter()
        .map(|row| match &row[1] {
            halcyon::Value::Text(text) => Some(text.as_ref()),
            _ => None,
        })
        .collect();
    assert_eq!(names, [None, Some("a;'b"), Some("nil"), None, Some("a\tbAA\\"), Some("")],);
    assert!(rows.iter().all(|row| row[2] == halcyon::Value::Int32(7)));
}

#[test]
fn rows_of_which_a_condition_is_not_true_are_passed_over() {
    for format in ["text", "csv", "binary", "parquet"] {
        let mut session = session();
        session
            .batch(
                "INSERT INTO t (id, name, price) VALUES (1, 'a', 1.5), (2, 'b', 2.5), (3, NULL, 3.5), (4, 'd', NULL)",
            )
            .expect("four rows");
        let path = file(&format!("where-{format}"), b"");
        let columns = "(id, name, price)";
        session
            .batch(&format!(
                "COPY t {columns} TO '{0}' (FORMAT {format}); DELETE FROM t;
                 COPY t {columns} FROM '{0}' (FORMAT {format}) WHERE id <> 2 AND price > 1 AND n = 7 AND at IS NULL",
                path.display()
            ))
            .expect(format);
        std::fs::remove_file(path).expect("removed");
        let rows =
            session.query("SELECT id FROM t ORDER BY id", &[]).and_then(|rows| rows.collect());
        let ids: Vec<_> = rows.expect("rows").into_iter().map(|row| row[0].clone()).collect();
        assert_eq!(ids, [halcyon::Value::Int32(1), halcyon::Value::Int32(3)], "{format}");
    }
    let mut session = session();
    // NOT NULL, CHECK and keys see the rows alone that the condition is true of.
    let lines = b"1\t5\n\\N\t5\n2\t-5\n1\t0\n3\t6\n";
    copy_in(&mut session, "(id, n)", "WHERE id IS NOT NULL AND n > 0", lines).expect("two rows");
    assert_eq!(count(&mut session), 2);
    let line = copy_in(&mut session, "(id, n)", "CSV WHERE 10 / n > 0", b"5,1\n6,0\n7,1\n")
        .expect_err("a division by zero");
    assert_eq!(line.state(), SqlState::DIVISION_BY_ZERO);
    assert_eq!(line.fields().context.as_deref(), Some("COPY t, line 2"));
    assert_eq!(count(&mut session), 2);
    for (condition, state) in [
        ("id > (SELECT 1)", "0A000"),
        ("sum(id) > 1", "42803"),
        ("sum(id) OVER () > 1", "42P20"),
        ("generate_series(1, 2) > 1", "0A000"),
        ("id", "42804"),
        ("nosuch > 1", "42703"),
        ("t.nosuch > 1", "42703"),
        ("x.id > 1", "42P01"),
        ("id > $1", "42P02"),
        ("", "42601"),
        ("id > 1 WITH (FORMAT csv)", "42601"),
    ] {
        let refused = copy_in(&mut session, "(id)", &format!("WHERE {condition}"), b"9\n");
        let found = refused.expect_err(condition).state().to_string();
        assert_eq!(found, state, "{condition}");
    }
    for condition in ["'yes'", "t.id = 10", "NULL"] {
        copy_in(&mut session, "(id)", &format!("WHERE {condition}"), b"10\n").expect(condition);
        session.batch("DELETE FROM t WHERE id = 10").expect("a row or none");
    }
    session
        .batch("CREATE TABLE g (a INTEGER, b INTEGER GENERATED ALWAYS AS (a + 1) STORED)")
        .expect("a table");
    let refused = session.batch("COPY g FROM '/nonexistent' WHERE b > 1").expect_err("generated");
    assert_eq!(refused.state(), SqlState::INVALID_COLUMN_REFERENCE);
    let refused = session.batch("COPY g TO '/nonexistent' WHERE a > 1").expect_err("no condition");
    assert_eq!(refused.state(), SqlState::SYNTAX_ERROR);
}

#[test]
fn a_condition_reads_the_table() {
    let database = Database::in_memory();
    let mut session = database.session();
    session
        .batch("CREATE TABLE t (id INTEGER); CREATE ROLE w; GRANT INSERT ON t TO w; SET ROLE w")
        .expect("a role that may insert");
    let mut begin = |text: &str| {
        let statement = session.prepare(text);
        let ran = statement.and_then(|statement| session.run(&statement, &[]).map(|_| ()));
        session.copy_abandon();
        ran.map_err(|error| error.state().to_string())
    };
    assert_eq!(begin("COPY t FROM STDIN"), Ok(()));
    assert_eq!(begin("COPY t FROM STDIN WHERE true"), Ok(()));
    assert_eq!(begin("COPY t FROM STDIN WHERE id > 1"), Err("42501".to_owned()));
}

#[test]
fn a_header_that_must_match_has_the_names_of_the_columns() {
    let mut session = session();
    let mut copy = |options: &str, data: &str| {
        let path = file(&format!("match-{:x}", data.len()), data.as_bytes());
        let ran =
            session.batch(&format!("COPY t (id, name) FROM '{}' ({options})", path.display()));
        std::fs::remove_file(path).expect("removed");
        ran
    };
    copy("FORMAT csv, HEADER match", "id,name\n1,a\n").expect("the columns' names");
    copy("HEADER MATCH", "id\tname\n2\tbb\n").expect("the columns' names");
    for (data, message) in [
        ("id\n3\n", "wrong number of fields in header line: field count is 1, expected 2"),
        (
            "id,Name\n3,a\n",
            "column name mismatch in header line field 2: got \"Name\", expected \"name\"",
        ),
        (
            "id,\n3,a\n",
            "column name mismatch in header line field 2: got null value (\"\"), expected \"name\"",
        ),
    ] {
        let error = copy("FORMAT csv, HEADER MATCH", data).expect_err(message);
        assert_eq!((error.state(), error.message()), (SqlState::BAD_COPY_FILE_FORMAT, message));
    }
    assert_eq!(count(&mut session), 2);
    let out = std::env::temp_dir().join("halcyon-copy-never-written");
    let text = format!("COPY t TO '{}' (FORMAT csv, HEADER MATCH)", out.display());
    let error = session.batch(&text).expect_err("there is nothing to match");
    assert_eq!(error.state(), SqlState::FEATURE_NOT_SUPPORTED);
}

#[test]
fn record_batches_are_stored_in_place_of_bytes() {
    let mut session = session();
    let batch = |ids: Vec<i64>, names: Vec<Option<&str>>| {
        let fields = vec![
            Field::new("name", DataType::Utf8View, true),
            Field::new("id", DataType::Int64, false),
        ];
        let columns: Vec<ArrayRef> =
            vec![Arc::new(StringViewArray::from(names)), Arc::new(Int64Array::from(ids))];
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("a batch")
    };
    let copy = session.prepare("COPY t (id, name) FROM STDIN WHERE id > 1").expect("a plan");
    session.run(&copy, &[]).expect("data is awaited");
    session.copy_batch(&batch(vec![1, 2], vec![Some("a"), Some("b")])).expect("two rows");
    session.copy_batch(&batch(vec![3], vec![None])).expect("a row");
    assert_eq!(session.copy_end().expect("stored").rows, Some(2));
    let rows = session.query("SELECT id, name, n FROM t ORDER BY id", &[]).expect("rows");
    let rows = rows.collect().expect("rows");
    let text = |text: &str| Value::Text(text.to_owned());
    assert_eq!(rows[0], [Value::Int32(2), text("b"), Value::Int32(7)]);
    assert_eq!(rows[1], [Value::Int32(3), Value::Null, Value::Int32(7)]);

    // A row that is refused undoes the whole COPY.
    session.run(&copy, &[]).expect("data is awaited");
    session.copy_batch(&batch(vec![4], vec![Some("d")])).expect("a row");
    let refused = session.copy_batch(&batch(vec![5], vec![Some("longer than ten")]));
    assert_eq!(refused.unwrap_err().state(), SqlState::STRING_DATA_RIGHT_TRUNCATION);
    assert_eq!(session.copy_end().unwrap_err().state(), SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
    assert_eq!(count(&mut session), 2);
}
