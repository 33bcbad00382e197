//! Bulk ingestion: the cases `SqlIngest…` of Apache Arrow ADBC's validation suite (named in comments), stated anew.

mod common;

use std::sync::Arc;

use adbc_core::error::Status;
use adbc_core::options::{IngestMode, OptionConnection, OptionStatement};
use adbc_core::{Connection, Database, Optionable, Statement};
use arrow::array::*;
use arrow::compute::cast;
use arrow::datatypes::*;
use common::*;

/// Takes a column in and reads it: in this type, with the same values.
fn round_trip(array: ArrayRef, back: DataType) {
    let mut connection = connect();
    let given = batch(vec![("col", array.clone())]);
    let taken = ingest(&mut connection, "bulk_ingest", IngestMode::Create, given);
    assert_eq!(taken.unwrap(), Some(array.len() as i64), "{}", array.data_type());
    let found = query(&mut connection, "SELECT * FROM bulk_ingest");
    let found = found.column(0);
    assert_eq!(found.data_type(), &back, "{}", array.data_type());
    let expected = cast(&array, &back).unwrap();
    assert_eq!(found.to_data(), expected.to_data(), "{}", array.data_type());
}

// SqlIngestBool, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float16, Float32, Float64
#[test]
fn numbers_come_back_in_the_type_of_sql_that_holds_them() {
    use DataType as T;
    let numbers = |ty: T| {
        let small = Int64Array::from(vec![Some(0), Some(1), Some(127), None]);
        cast(&small, &ty).unwrap()
    };
    round_trip(Arc::new(BooleanArray::from(vec![Some(true), Some(false), None])), T::Boolean);
    for (ty, back) in [
        (T::Int8, T::Int16),
        (T::Int16, T::Int16),
        (T::Int32, T::Int32),
        (T::Int64, T::Int64),
        (T::UInt8, T::Int16),
        (T::UInt16, T::Int32),
        (T::UInt32, T::Int64),
        (T::UInt64, T::Decimal128(20, 0)),
        (T::Float16, T::Float32),
        (T::Float32, T::Float32),
        (T::Float64, T::Float64),
        (T::Decimal128(9, 2), T::Decimal128(9, 2)),
        (T::Decimal256(30, 5), T::Decimal128(30, 5)),
    ] {
        round_trip(numbers(ty), back);
    }
    let least = PrimitiveArray::<Int64Type>::from(vec![i64::MIN, i64::MAX, -1]);
    round_trip(Arc::new(least), T::Int64);
    round_trip(Arc::new(UInt64Array::from(vec![0, u64::MAX])), T::Decimal128(20, 0));
    round_trip(Arc::new(Float64Array::from(vec![f64::MIN, f64::MAX, f64::INFINITY])), T::Float64);
}

// SqlIngestString, LargeString, StringView, Binary, LargeBinary, FixedSizeBinary, BinaryView, StringDictionary
#[test]
fn texts_and_bytes_come_back_plain() {
    let texts =
        StringArray::from(vec![Some("hello"), None, Some(""), Some("こんにちは, world of texts")]);
    for ty in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View] {
        round_trip(cast(&texts, &ty).unwrap(), DataType::Utf8);
    }
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    round_trip(cast(&texts, &dictionary).unwrap(), DataType::Utf8);
    let bytes = BinaryArray::from(vec![Some(&b"\0\x01\xFF"[..]), None, Some(b"")]);
    for ty in [DataType::Binary, DataType::LargeBinary, DataType::BinaryView] {
        round_trip(cast(&bytes, &ty).unwrap(), DataType::Binary);
    }
    let fixed = FixedSizeBinaryArray::try_from_iter([*b"abcd", *b"\0\0\0\0"].iter()).unwrap();
    round_trip(Arc::new(fixed), DataType::Binary);
}

// SqlIngestDate32, Timestamp, TimestampTz, Interval, Duration
#[test]
fn moments_come_back_in_microseconds() {
    use DataType as T;
    let us = TimeUnit::Microsecond;
    round_trip(Arc::new(Date32Array::from(vec![Some(-1), Some(0), Some(20_000), None])), T::Date32);
    for unit in [TimeUnit::Second, TimeUnit::Millisecond, us, TimeUnit::Nanosecond] {
        let moments = Int64Array::from(vec![Some(0), Some(42_000), None]);
        let plain = cast(&moments, &T::Timestamp(unit, None)).unwrap();
        round_trip(plain, T::Timestamp(us, None));
        for zone in ["UTC", "America/Los_Angeles"] {
            let zoned = cast(&moments, &T::Timestamp(unit, Some(zone.into()))).unwrap();
            round_trip(zoned, T::Timestamp(us, Some("+00:00".into())));
        }
    }
    round_trip(Arc::new(Time64MicrosecondArray::from(vec![Some(1), None])), T::Time64(us));
    let intervals = vec![Some(IntervalMonthDayNano::new(-5, 6, 7_000)), None];
    let month_day_nano = T::Interval(IntervalUnit::MonthDayNano);
    round_trip(Arc::new(IntervalMonthDayNanoArray::from(intervals)), month_day_nano.clone());
    let lengths = DurationMicrosecondArray::from(vec![Some(42), None]);
    let mut connection = connect();
    let given = batch(vec![("col", Arc::new(lengths))]);
    ingest(&mut connection, "d", IngestMode::Create, given).unwrap();
    assert_eq!(text(&mut connection, "SELECT max(col) FROM d"), "00:00:00.000042");
}

// SqlIngestListOfInt32, ListOfString
#[test]
fn lists_come_back_as_lists() {
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1), None, Some(3)]),
        None,
        Some(vec![]),
    ]);
    let ty = lists.data_type().clone();
    round_trip(Arc::new(lists), ty);
    let mut texts = ListBuilder::new(StringBuilder::new());
    texts.append_value([Some("a,\"b\\"), None, Some("")]);
    texts.append_null();
    let texts = texts.finish();
    let ty = texts.data_type().clone();
    round_trip(Arc::new(texts), ty);
}

#[test]
fn a_type_that_sql_lacks_is_refused() {
    let mut connection = connect();
    let inner: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let structs =
        StructArray::from(vec![(Arc::new(Field::new("a", DataType::Int32, true)), inner)]);
    let given = batch(vec![("col", Arc::new(structs))]);
    let refused = ingest(&mut connection, "t", IngestMode::Create, given).unwrap_err();
    assert_eq!((refused.status, state(&refused).as_str()), (Status::NotImplemented, "0A000"));
    assert_eq!(run(&mut connection, "SELECT * FROM t").unwrap_err().status, Status::NotFound);
}

// SqlIngestStreamZeroArrays
#[test]
fn a_stream_without_batches_makes_an_empty_table() {
    let mut connection = connect();
    let mut statement = connection.new_statement().unwrap();
    statement.set_option(OptionStatement::TargetTable, "t".into()).unwrap();
    let stream = RecordBatchIterator::new([], sample().schema());
    statement.bind_stream(Box::new(stream)).unwrap();
    assert_eq!(statement.execute_update().unwrap(), Some(0));
    assert_eq!(number(&mut connection, "SELECT count(*) FROM t"), 0);
}

// SqlIngestTableEscaping, SqlIngestColumnEscaping
#[test]
fn names_are_taken_as_they_are() {
    let mut connection = connect();
    let given =
        batch(vec![("index", ints(vec![1])), ("a \"b\" c", ints(vec![2])), ("X", ints(vec![3]))]);
    let table = "foo\"; DROP TABLE bar; --";
    ingest(&mut connection, table, IngestMode::Create, given.clone()).unwrap();
    let schema = connection.get_table_schema(None, None, table).unwrap();
    assert_eq!(schema.field(1).name(), "a \"b\" c");
    ingest(&mut connection, table, IngestMode::Append, given).unwrap();
    let found = query(&mut connection, "SELECT \"X\" FROM \"foo\"\"; DROP TABLE bar; --\"");
    assert_eq!(found.num_rows(), 2);
}

// SqlIngestAppend, SqlIngestReplace, SqlIngestCreateAppend, SqlIngestSample
#[test]
fn modes_create_append_and_replace() {
    let mut connection = connect();
    let other = || batch(vec![("x", ints(vec![7]))]);
    let mut take = |mode, batch| ingest(&mut connection, "t", mode, batch);
    assert_eq!(take(IngestMode::Append, sample()).unwrap_err().status, Status::NotFound);
    assert_eq!(take(IngestMode::Create, sample()).unwrap(), Some(3));
    assert_eq!(take(IngestMode::Create, sample()).unwrap_err().status, Status::AlreadyExists);
    assert_eq!(take(IngestMode::Append, sample()).unwrap(), Some(3));
    assert_eq!(take(IngestMode::CreateAppend, sample()).unwrap(), Some(3));
    // SqlIngestErrors: another schema
    assert!(take(IngestMode::Append, other()).is_err());
    assert!(take(IngestMode::CreateAppend, other()).is_err());
    assert_eq!(take(IngestMode::Replace, other()).unwrap(), Some(1));
    assert_eq!(take(IngestMode::Replace, sample()).unwrap(), Some(3));
    assert_eq!(number(&mut connection, "SELECT count(*) FROM t"), 3);
    assert_eq!(ingest(&mut connection, "u", IngestMode::CreateAppend, sample()).unwrap(), Some(3));
    assert_eq!(ingest(&mut connection, "v", IngestMode::Replace, sample()).unwrap(), Some(3));
}

// SqlIngestErrors
#[test]
fn ingestion_without_batches_is_out_of_turn() {
    let mut connection = connect();
    let mut statement = connection.new_statement().unwrap();
    statement.set_option(OptionStatement::TargetTable, "t".into()).unwrap();
    assert_eq!(statement.execute_update().unwrap_err().status, Status::InvalidState);
    assert_eq!(statement.get_option_string(OptionStatement::TargetTable).unwrap(), "t");
    // A text takes the table's place.
    statement.set_sql_query("SELECT 1").unwrap();
    assert_eq!(all(statement.execute().unwrap()).num_rows(), 1);
    let none = statement.get_option_string(OptionStatement::TargetTable).unwrap_err();
    assert_eq!(none.status, Status::NotFound);
}

#[test]
fn a_batch_that_fails_leaves_nothing() {
    let mut connection = connect();
    run(&mut connection, "CREATE TABLE t (a bigint CHECK (a < 3))").unwrap();
    let given = batch(vec![("a", ints(vec![1, 2, 3]))]);
    let refused = ingest(&mut connection, "t", IngestMode::Append, given).unwrap_err();
    assert_eq!(refused.status, Status::Integrity, "{refused}");
    let mut statement = connection.new_statement().unwrap();
    statement.set_option(OptionStatement::TargetTable, "fresh".into()).unwrap();
    let error = arrow::error::ArrowError::IoError("cut off".into(), std::io::Error::other("x"));
    let batches = [Ok(sample()), Err(error)];
    let stream = RecordBatchIterator::new(batches, sample().schema());
    statement.bind_stream(Box::new(stream)).unwrap();
    let refused = statement.execute_update().unwrap_err();
    assert!(refused.message.contains("cut off"), "{refused}");
    assert_eq!(number(&mut connection, "SELECT count(*) FROM t"), 0);
    assert_eq!(run(&mut connection, "SELECT * FROM fresh").unwrap_err().status, Status::NotFound);
}

// SqlIngestMultipleConnections
#[test]
fn a_second_connection_sees_what_was_taken_in() {
    let database = open(&[]).unwrap();
    let (mut one, mut two) =
        (database.new_connection().unwrap(), database.new_connection().unwrap());
    one.set_option(OptionConnection::AutoCommit, "false".into()).unwrap();
    ingest(&mut one, "t", IngestMode::Create, sample()).unwrap();
    assert_eq!(run(&mut two, "SELECT * FROM t").unwrap_err().status, Status::NotFound);
    one.commit().unwrap();
    assert_eq!(number(&mut two, "SELECT count(*) FROM t"), 3);
}

// SqlIngestTargetCatalog, SqlIngestTargetSchema, SqlIngestTargetCatalogSchema
#[test]
fn a_table_has_the_catalog_and_schema_that_options_name() {
    let mut connection = connect();
    run(&mut connection, "CREATE SCHEMA \"S 2\"").unwrap();
    let catalog = || (OptionStatement::TargetCatalog, "halcyon".into());
    let schema = || (OptionStatement::TargetDbSchema, "S 2".into());
    for (at, options) in
        [vec![catalog()], vec![schema()], vec![catalog(), schema()]].iter().enumerate()
    {
        ingest_with(&mut connection, &format!("t{at}"), options, sample()).unwrap();
    }
    let count = "SELECT (SELECT count(*) FROM t0) + (SELECT count(*) FROM \"S 2\".t1) + (SELECT count(*) FROM \"S 2\".t2)";
    assert_eq!(number(&mut connection, count), 9);
    for option in [
        (OptionStatement::TargetCatalog, "other".into()),
        (OptionStatement::TargetDbSchema, "other".into()),
    ] {
        let refused = ingest_with(&mut connection, "t", &[option], sample()).unwrap_err();
        assert_eq!(refused.status, Status::NotFound, "{refused}");
    }
}

// SqlIngestTemporary, SqlIngestTemporaryAppend, SqlIngestTemporaryReplace, SqlIngestTemporaryExclusive
#[test]
fn a_temporary_table_is_beside_one_of_the_same_name() {
    let database = open(&[]).unwrap();
    let mut connection = database.new_connection().unwrap();
    let temporary = |mode: IngestMode| {
        vec![
            (OptionStatement::Temporary, "true".into()),
            (OptionStatement::IngestMode, mode.into()),
        ]
    };
    let mut take = |options: Vec<_>| ingest_with(&mut connection, "t", &options, sample());
    assert_eq!(take(temporary(IngestMode::Append)).unwrap_err().status, Status::NotFound);
    assert_eq!(take(temporary(IngestMode::Create)).unwrap(), Some(3));
    assert_eq!(take(temporary(IngestMode::Append)).unwrap(), Some(3));
    assert_eq!(take(temporary(IngestMode::CreateAppend)).unwrap(), Some(3));
    assert_eq!(take(temporary(IngestMode::Replace)).unwrap(), Some(3));
    let mut exclusive = temporary(IngestMode::Create);
    exclusive.push((OptionStatement::TargetDbSchema, "public".into()));
    assert_eq!(take(exclusive).unwrap_err().status, Status::InvalidState);
    let mut exclusive = temporary(IngestMode::Create);
    exclusive.push((OptionStatement::TargetCatalog, "halcyon".into()));
    assert_eq!(take(exclusive).unwrap_err().status, Status::InvalidState);
    assert_eq!(number(&mut connection, "SELECT count(*) FROM t"), 3);
    let mut other = database.new_connection().unwrap();
    assert_eq!(run(&mut other, "SELECT * FROM t").unwrap_err().status, Status::NotFound);
}

// SqlIngestPrimaryKey
#[test]
fn columns_that_are_missing_get_their_defaults() {
    let mut connection = connect();
    run(&mut connection, "CREATE TABLE t (id bigserial PRIMARY KEY, value bigint)").unwrap();
    let values = batch(vec![("value", ints(vec![Some(42), Some(-42), None]))]);
    ingest(&mut connection, "t", IngestMode::Append, values).unwrap();
    let both = batch(vec![("value", ints(vec![1, 0])), ("id", ints(vec![14, 15]))]);
    ingest(&mut connection, "t", IngestMode::Append, both).unwrap();
    let found = query(&mut connection, "SELECT value FROM t ORDER BY id");
    let values: Vec<_> = found.column(0).as_primitive::<Int64Type>().iter().collect();
    assert_eq!(values, [Some(42), Some(-42), None, Some(1), Some(0)]);
}
