//! The library as cargo has built it, loaded by the registry's driver manager.
#![allow(dead_code)]

use std::path::PathBuf;
use std::sync::Arc;

use adbc_core::options::{AdbcVersion, IngestMode, OptionDatabase, OptionStatement, OptionValue};
use adbc_core::{Connection, Database, Driver, Optionable, Statement};
use adbc_driver_manager::{ManagedConnection, ManagedDatabase, ManagedDriver};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchReader, StringArray};
use arrow::compute::concat_batches;

/// The library, beside the test's own binary.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let name = format!(
        "{}adbc_driver_halcyon{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    test.with_file_name(name)
}

pub fn driver() -> ManagedDriver {
    let entry: &[u8] = b"AdbcDriverHalcyonInit";
    ManagedDriver::load_dynamic_from_filename(library(), Some(entry), AdbcVersion::V110)
        .expect("the driver")
}

pub fn open(options: &[(&str, &str)]) -> adbc_core::error::Result<ManagedDatabase> {
    let options = options
        .iter()
        .map(|(name, value)| (OptionDatabase::from(*name), OptionValue::from(*value)));
    driver().new_database_with_opts(options)
}

/// A connection to a database in memory, which lives as long as the connection.
pub fn connect() -> ManagedConnection {
    open(&[]).expect("a database").new_connection().expect("a connection")
}

pub fn run(connection: &mut ManagedConnection, sql: &str) -> adbc_core::error::Result<Option<i64>> {
    let mut statement = connection.new_statement()?;
    statement.set_sql_query(sql)?;
    statement.execute_update()
}

/// All batches as one.
pub fn all(reader: impl RecordBatchReader) -> RecordBatch {
    let schema = reader.schema();
    let batches = reader.collect::<Result<Vec<_>, _>>().expect("batches");
    concat_batches(&schema, &batches).expect("one batch")
}

pub fn query(connection: &mut ManagedConnection, sql: &str) -> RecordBatch {
    let mut statement = connection.new_statement().expect("a statement");
    statement.set_sql_query(sql).expect(sql);
    all(statement.execute().expect(sql))
}

/// The only number that a query gives.
pub fn number(connection: &mut ManagedConnection, sql: &str) -> i64 {
    let batch = query(connection, &format!("SELECT CAST(({sql}) AS bigint)"));
    batch.column(0).as_any().downcast_ref::<Int64Array>().expect("bigint").value(0)
}

/// The only text that a query gives.
pub fn text(connection: &mut ManagedConnection, sql: &str) -> String {
    let batch = query(connection, &format!("SELECT CAST(({sql}) AS text)"));
    batch.column(0).as_any().downcast_ref::<StringArray>().expect("text").value(0).to_owned()
}

pub fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .expect("a batch")
}

pub fn ints(numbers: impl Into<Int64Array>) -> ArrayRef {
    Arc::new(numbers.into())
}

/// The batch of the standard's own tests.
pub fn sample() -> RecordBatch {
    batch(vec![
        ("int64s", ints(vec![Some(42), Some(-42), None])),
        ("strings", Arc::new(StringArray::from(vec![Some("foo"), None, Some("")]))),
    ])
}

/// A statement that takes a batch into a table.
pub fn ingest_with(
    connection: &mut ManagedConnection,
    table: &str,
    options: &[(OptionStatement, OptionValue)],
    batch: RecordBatch,
) -> adbc_core::error::Result<Option<i64>> {
    let mut statement = connection.new_statement()?;
    statement.set_option(OptionStatement::TargetTable, table.into())?;
    for (name, value) in options {
        statement.set_option(name.clone(), value.clone())?;
    }
    statement.bind(batch)?;
    statement.execute_update()
}

pub fn ingest(
    connection: &mut ManagedConnection,
    table: &str,
    mode: IngestMode,
    batch: RecordBatch,
) -> adbc_core::error::Result<Option<i64>> {
    ingest_with(connection, table, &[(OptionStatement::IngestMode, mode.into())], batch)
}

/// An SQLSTATE as text.
pub fn state(error: &adbc_core::error::Error) -> String {
    error.sqlstate.iter().map(|c| char::from(*c as u8)).collect()
}
