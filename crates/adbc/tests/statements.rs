//! Statements: the cases of `StatementTest` of Apache Arrow ADBC's validation suite but those of ingestion (named in
//! comments), stated anew, and what the suite has none for.

mod common;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use adbc_core::error::Status;
use adbc_core::options::OptionStatement;
use adbc_core::{Connection, Database, Optionable, Statement};
use arrow::array::{Array, AsArray, RecordBatch, RecordBatchIterator, StringArray};
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type};
use common::*;

// StatementTest.NewInit, Release
#[test]
fn a_statement_without_a_text_cannot_run() {
    let mut connection = connect();
    let mut statement = connection.new_statement().unwrap();
    assert_eq!(statement.execute_update().unwrap_err().status, Status::InvalidState);
    assert_eq!(statement.execute().err().unwrap().status, Status::InvalidState);
    // SqlPrepareErrorNoQuery
    assert_eq!(statement.prepare().unwrap_err().status, Status::InvalidState);
    assert_eq!(statement.get_parameter_schema().unwrap_err().status, Status::InvalidState);
}

// SqlQueryInts, SqlQueryFloats, SqlQueryStrings, SqlQueryEmpty
#[test]
fn results_have_arrows_types() {
    let mut connection = connect();
    let found =
        query(&mut connection, "SELECT 42, 1.5::double precision, 'SaShiSuSeSo', NULL::int");
    assert_eq!(found.column(0).as_primitive::<Int32Type>().value(0), 42);
    assert_eq!(found.column(1).as_primitive::<Float64Type>().value(0), 1.5);
    assert_eq!(found.column(2).as_string::<i32>().value(0), "SaShiSuSeSo");
    assert!(found.column(3).is_null(0));
    run(&mut connection, "CREATE TABLE t (foo int)").unwrap();
    let empty = query(&mut connection, "SELECT * FROM t");
    assert_eq!((empty.num_rows(), empty.schema().field(0).name().as_str()), (0, "foo"));
    // A statement without rows has a stream without columns.
    assert_eq!(query(&mut connection, "DROP TABLE t").num_columns(), 0);
}

#[test]
fn texts_are_views_if_an_option_asks_for_them() {
    let mut connection = connect();
    let mut statement = connection.new_statement().unwrap();
    statement.set_sql_query("SELECT 'a text of more than twelve bytes' AS t").unwrap();
    let key = || OptionStatement::Other("halcyon.string_views".into());
    assert_eq!(statement.get_option_string(key()).unwrap(), "false");
    statement.set_option(key(), "true".into()).unwrap();
    assert_eq!(statement.execute_schema().unwrap().field(0).data_type(), &DataType::Utf8View);
    let found = all(statement.execute().unwrap());
    assert_eq!(found.column(0).as_string_view().value(0), "a text of more than twelve bytes");
}

// SqlQueryTrailingSemicolons
#[test]
fn a_text_may_hold_several_statements_and_ends_with_semicolons() {
    let mut connection = connect();
    let script =
        "CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2); SELECT a FROM t ORDER BY a;;";
    let mut statement = connection.new_statement().unwrap();
    statement.set_sql_query(script).unwrap();
    statement.prepare().unwrap();
    assert_eq!(all(statement.execute().unwrap()).num_rows(), 2);
    assert_eq!(number(&mut connection, "SELECT 5"), 5);
    assert_eq!(query(&mut connection, "SELECT 1;  ").num_rows(), 1);
    statement.set_sql_query("SELECT ?; SELECT ?").unwrap();
    statement.bind(sample()).unwrap();
    assert_eq!(statement.execute().err().unwrap().status, Status::InvalidArguments);
}

// SqlQueryRowsAffectedDelete, SqlQueryRowsAffectedDeleteStream
#[test]
fn writes_count_their_rows() {
    let mut connection = connect();
    run(&mut connection, "CREATE TABLE t (a int)").unwrap();
    assert_eq!(
        run(&mut connection, "INSERT INTO t SELECT generate_series(1, 5)").unwrap(),
        Some(5)
    );
    assert_eq!(run(&mut connection, "DELETE FROM t WHERE a > 3").unwrap(), Some(2));
    let returned = query(&mut connection, "DELETE FROM t WHERE a = 1 RETURNING a");
    assert_eq!(returned.num_rows(), 1);
    assert_eq!(run(&mut connection, "UPDATE t SET a = 0").unwrap(), Some(2));
}

// SqlQueryErrors, SqlSchemaErrors
#[test]
fn errors_have_state_status_and_details() {
    let mut connection = connect();
    let mistake = run(&mut connection, "SELECT this is not sql FROM").unwrap_err();
    assert_eq!((mistake.status, state(&mistake).as_str()), (Status::InvalidArguments, "42601"));
    run(&mut connection, "CREATE TABLE t (a int PRIMARY KEY)").unwrap();
    run(&mut connection, "INSERT INTO t VALUES (1)").unwrap();
    let twice = run(&mut connection, "INSERT INTO t VALUES (1)").unwrap_err();
    assert_eq!((twice.status, state(&twice).as_str()), (Status::Integrity, "23505"));
    let details = twice.details.expect("details");
    let find = |name: &str| {
        let found = details.iter().find(|(key, _)| key == name).expect(name);
        String::from_utf8(found.1.clone()).unwrap()
    };
    assert_eq!(find("PG_DIAG_CONSTRAINT_NAME"), "t_pkey");
    assert!(find("PG_DIAG_MESSAGE_DETAIL").contains("(a)=(1)"));
    let mut statement = connection.new_statement().unwrap();
    statement.set_sql_query("SELECT * FROM nothing").unwrap();
    assert_eq!(statement.execute_schema().unwrap_err().status, Status::NotFound);
    assert_eq!(statement.prepare().unwrap_err().status, Status::NotFound);
}

#[test]
fn an_error_behind_the_first_batch_ends_the_stream() {
    let mut connection = connect();
    run(&mut connection, "CREATE TABLE t AS SELECT x FROM generate_series(1, 200000) g(x)")
        .unwrap();
    let mut statement = connection.new_statement().unwrap();
    statement.set_sql_query("SELECT 1 / (x - 199999) FROM t").unwrap();
    // What the engine computes at once fails at once.
    let error = match statement.execute() {
        Err(error) => error.message,
        Ok(mut reader) => {
            let error = reader.find_map(Result::err).expect("an error").to_string();
            assert!(reader.next().is_none());
            error
        }
    };
    assert!(error.contains("division by zero"), "{error}");
    assert_eq!(number(&mut connection, "SELECT count(*) FROM t"), 200_000);
}

// SqlSchemaInts, SqlSchemaFloats, SqlSchemaStrings
#[test]
fn a_schema_is_known_without_running() {
    let mut connection = connect();
    run(&mut connection, "CREATE SEQUENCE s").unwrap();
    let mut statement = connection.new_statement().unwrap();
    for (sql, ty) in [
        ("SELECT 42", DataType::Int32),
        ("SELECT 1.5::real", DataType::Float32),
        ("SELECT 'hi'", DataType::Utf8),
        ("SELECT nextval('s')", DataType::Int64),
    ] {
        statement.set_sql_query(sql).unwrap();
        assert_eq!(statement.execute_schema().unwrap().field(0).data_type(), &ty, "{sql}");
    }
    assert_eq!(number(&mut connection, "SELECT nextval('s')"), 1);
    statement.set_sql_query("CREATE TABLE t (a int)").unwrap();
    assert!(statement.execute_schema().unwrap().fields().is_empty());
}

// SqlPrepareGetParameterSchema, SqlPrepareSelectNoParams
#[test]
fn a_prepared_statement_knows_its_parameters() {
    let mut connection = connect();
    let mut statement = connection.new_statement().unwrap();
    statement.set_sql_query("SELECT ?::bigint, ?, $$?$$").unwrap();
    statement.prepare().unwrap();
    let schema = statement.get_parameter_schema().unwrap();
    assert_eq!(schema.fields().len(), 2);
    assert_eq!(schema.field(0).data_type(), &DataType::Int64);
    statement.set_sql_query("SELECT 1").unwrap();
    statement.prepare().unwrap();
    assert_eq!(statement.get_parameter_schema().unwrap().fields().len(), 0);
    for _ in 0..3 {
        assert_eq!(all(statement.execute().unwrap()).num_rows(), 1);
    }
}

#[test]
fn question_marks_that_are_operators_stay() {
    let mut connection = connect();
    let found = query(&mut connection, "SELECT '{\"a\": 1}'::jsonb ? 'a'");
    assert!(found.column(0).as_boolean().value(0));
}

// SqlPrepareSelectParams, SqlBind
#[test]
fn a_query_runs_for_each_row_of_parameters() {
    let mut connection = connect();
    for sql in ["SELECT ?, ?", "SELECT $1, $2"] {
        let mut statement = connection.new_statement().unwrap();
        statement.set_sql_query(sql).unwrap();
        statement.prepare().unwrap();
        statement.bind(sample()).unwrap();
        let found = all(statement.execute().unwrap());
        let numbers: Vec<_> = found.column(0).as_primitive::<Int64Type>().iter().collect();
        assert_eq!(numbers, [Some(42), Some(-42), None]);
        let texts: Vec<_> = found.column(1).as_string::<i32>().iter().collect();
        assert_eq!(texts, [Some("foo"), None, Some("")]);
        // Parameters are for one run.
        assert_eq!(statement.execute().err().unwrap().status, Status::InvalidArguments);
    }
}

#[test]
fn parameters_fit_the_statements_types() {
    let mut connection = connect();
    run(
        &mut connection,
        "CREATE TABLE t (a smallint, n numeric(9,2), at date, l bigint[], u uuid)",
    )
    .unwrap();
    let mut statement = connection.new_statement().unwrap();
    statement.set_sql_query("INSERT INTO t VALUES (?, ?, ?, ?, ?)").unwrap();
    let lists = arrow::array::ListArray::from_iter_primitive::<Int64Type, _, _>([
        Some(vec![Some(1), None]),
        None,
    ]);
    let text = |texts: [&str; 2]| Arc::new(StringArray::from(texts.to_vec())) as _;
    let rows = batch(vec![
        ("a", ints(vec![1, 2])),
        ("n", Arc::new(arrow::array::Float64Array::from(vec![1.25, 2.5])) as _),
        ("at", text(["2024-02-29", "2025-01-01"])),
        ("l", Arc::new(lists)),
        ("u", text(["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"; 2])),
    ]);
    statement.bind(rows).unwrap();
    assert_eq!(statement.execute_update().unwrap(), Some(2));
    assert_eq!(text_of(&mut connection, "SELECT l FROM t WHERE a = 1"), "{1,NULL}");
    assert_eq!(text_of(&mut connection, "SELECT n FROM t WHERE at = '2024-02-29'"), "1.25");
}

fn text_of(connection: &mut adbc_driver_manager::ManagedConnection, sql: &str) -> String {
    text(connection, sql)
}

// SqlPrepareUpdate, SqlPrepareUpdateNoParams, SqlPrepareUpdateStream
#[test]
fn a_write_runs_for_each_row_of_a_stream_all_or_none() {
    let mut connection = connect();
    run(&mut connection, "CREATE TABLE t (a bigint UNIQUE)").unwrap();
    let mut statement = connection.new_statement().unwrap();
    statement.set_sql_query("INSERT INTO t VALUES (?)").unwrap();
    statement.prepare().unwrap();
    let rows = |numbers: Vec<i64>| batch(vec![("a", ints(numbers))]);
    let batches = [Ok(rows(vec![1, 2])), Ok(rows(vec![])), Ok(rows(vec![3]))];
    let schema = rows(vec![]).schema();
    statement.bind_stream(Box::new(RecordBatchIterator::new(batches, schema))).unwrap();
    assert_eq!(statement.execute_update().unwrap(), Some(3));
    statement.bind(rows(vec![4, 1])).unwrap();
    assert_eq!(statement.execute_update().unwrap_err().status, Status::Integrity);
    assert_eq!(number(&mut connection, "SELECT count(*) FROM t"), 3);
    statement.set_sql_query("INSERT INTO t VALUES (?) RETURNING a * 2").unwrap();
    statement.bind(rows(vec![7, 8])).unwrap();
    drop(statement.execute().unwrap());
    // What nobody has read was written all the same.
    assert_eq!(number(&mut connection, "SELECT count(*) FROM t"), 5);
    statement.set_sql_query("DELETE FROM t").unwrap();
    statement.prepare().unwrap();
    assert_eq!(statement.execute_update().unwrap(), Some(5));
}

// SqlPrepareErrorParamCountMismatch
#[test]
fn too_few_and_too_many_parameters_are_refused() {
    let mut connection = connect();
    let mut statement = connection.new_statement().unwrap();
    for sql in ["SELECT ?, ?, ?", "SELECT ?"] {
        statement.set_sql_query(sql).unwrap();
        statement.prepare().unwrap();
        statement.bind(sample()).unwrap();
        let found =
            statement.execute().map(|reader| reader.collect::<Result<Vec<RecordBatch>, _>>());
        assert!(!matches!(found, Ok(Ok(_))), "{sql}");
    }
}

// SqlQueryCancel
#[test]
fn a_running_statement_can_be_cancelled_from_another_thread() {
    let mut connection = connect();
    let mut statement = connection.new_statement().unwrap();
    let sql = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b WHERE a + b = 0";
    statement.set_sql_query(sql).unwrap();
    let cancel = statement.get_cancel_handle();
    let began = Instant::now();
    let done = thread::scope(|scope| {
        let runs = scope.spawn(|| statement.execute_update());
        while !runs.is_finished() && began.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(50));
            cancel.try_cancel().unwrap();
        }
        runs.join().unwrap()
    });
    let error = done.unwrap_err();
    assert_eq!((error.status, state(&error).as_str()), (Status::Cancelled, "57014"));
    assert_eq!(number(&mut connection, "SELECT 1"), 1);
}

// ConcurrentStatements, ResultIndependence, ResultInvalidation
#[test]
fn results_are_independent_of_statements_and_of_each_other() {
    let database = open(&[]).unwrap();
    let mut connection = database.new_connection().unwrap();
    run(&mut connection, "CREATE TABLE t AS SELECT x FROM generate_series(1, 100000) g(x)")
        .unwrap();
    let mut one = connection.new_statement().unwrap();
    one.set_sql_query("SELECT x FROM t").unwrap();
    let mut first = one.execute().unwrap();
    let mut count = first.next().expect("a batch").unwrap().num_rows();
    // The same statement again, and another one.
    let second = all(one.execute().unwrap());
    run(&mut connection, "INSERT INTO t VALUES (0)").unwrap();
    drop((one, connection, database));
    count += first.map(|batch| batch.unwrap().num_rows()).sum::<usize>();
    assert_eq!((count, second.num_rows()), (100_000, 100_000));
}

#[test]
fn a_stream_gives_batches_as_they_are_asked_for() {
    let mut connection = connect();
    let mut statement = connection.new_statement().unwrap();
    // Nobody could keep this result.
    statement
        .set_sql_query("SELECT a.x, b.x FROM generate_series(1, 1000000) a(x), generate_series(1, 1000000) b(x)")
        .unwrap();
    let mut reader = statement.execute().unwrap();
    let mut rows = 0;
    while rows < 100_000 {
        rows += reader.next().expect("a batch").unwrap().num_rows();
    }
    drop(reader);
    assert_eq!(number(&mut connection, "SELECT 1"), 1);
}

#[test]
fn copy_to_and_from_the_client_is_refused() {
    let mut connection = connect();
    run(&mut connection, "CREATE TABLE t (a int)").unwrap();
    for sql in ["COPY t FROM STDIN", "COPY t TO STDOUT"] {
        assert_eq!(run(&mut connection, sql).unwrap_err().status, Status::NotImplemented);
    }
    assert_eq!(number(&mut connection, "SELECT count(*) FROM t"), 0);
}

#[test]
fn wrong_options_of_a_statement_are_refused() {
    let mut connection = connect();
    let mut statement = connection.new_statement().unwrap();
    let mut refused = |key: OptionStatement, value: &str| {
        statement.set_option(key, value.into()).unwrap_err().status
    };
    assert_eq!(refused(OptionStatement::IngestMode, "sometimes"), Status::InvalidArguments);
    assert_eq!(refused(OptionStatement::Temporary, "1"), Status::InvalidArguments);
    assert_eq!(refused(OptionStatement::Incremental, "true"), Status::NotImplemented);
    assert_eq!(refused(OptionStatement::Other("x".into()), "1"), Status::NotImplemented);
    let progress = statement.get_option_double(OptionStatement::Progress).unwrap_err();
    assert_eq!(progress.status, Status::NotFound);
}
