//! The data's way into Halcyon's tables, and into files.

use std::fs::{self, File};
use std::path::Path;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Date32Type, Decimal128Type, Int32Type, Int64Type};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::errors::ParquetError;
use halcyon::{Session, Statement, Value};

use super::data::{SCHEMA, TABLES};
use crate::{Failure, Result};

impl From<ParquetError> for Failure {
    fn from(error: ParquetError) -> Self {
        Failure::Io(error.to_string())
    }
}

/// Creates the eight tables and fills them, in one transaction per table. `progress` is called
/// with the table's name and its rows so far.
pub fn load(session: &mut Session, sf: f64, progress: &mut dyn FnMut(&str, u64)) -> Result<()> {
    session.batch(SCHEMA)?;
    for table in &TABLES {
        let places: Vec<String> =
            (1..=(table.schema)().fields().len()).map(|at| format!("${at}")).collect();
        let text = format!("INSERT INTO {} VALUES ({})", table.name, places.join(", "));
        let insert = session.prepare(&text)?;
        let mut rows = 0;
        session.execute("BEGIN", &[])?;
        for batch in table.batches(sf) {
            rows += append(session, &insert, &batch?)?;
            progress(table.name, rows);
        }
        session.execute("COMMIT", &[])?;
    }
    Ok(())
}

/// Inserts the rows of a batch; how many there are.
fn append(session: &mut Session, insert: &Statement, batch: &RecordBatch) -> Result<u64> {
    let mut values = vec![Value::Null; batch.num_columns()];
    for row in 0..batch.num_rows() {
        for (value, array) in values.iter_mut().zip(batch.columns()) {
            *value = value_at(array, row)?;
        }
        session.execute(insert, &values)?;
    }
    Ok(batch.num_rows() as u64)
}

/// A value of one of the types that the generator makes. No column of TPC-H holds NULL.
fn value_at(array: &ArrayRef, row: usize) -> Result<Value> {
    Ok(match array.data_type() {
        DataType::Int64 => Value::Int64(array.as_primitive::<Int64Type>().value(row)),
        DataType::Int32 => Value::Int32(array.as_primitive::<Int32Type>().value(row)),
        DataType::Date32 => Value::Date(array.as_primitive::<Date32Type>().value(row)),
        DataType::Utf8View => Value::Text(array.as_string_view().value(row).into()),
        DataType::Decimal128(..) => {
            Value::Text(array.as_primitive::<Decimal128Type>().value_as_string(row).into())
        }
        other => return Err(Failure::Engine(format!("the generator made a column of {other}"))),
    })
}

/// Writes the tables to `folder`, a Parquet file each.
pub fn export(folder: &Path, sf: f64) -> Result<()> {
    fs::create_dir_all(folder)?;
    for table in &TABLES {
        let file = File::create(folder.join(format!("{}.parquet", table.name)))?;
        let mut writer = ArrowWriter::try_new(file, (table.schema)(), None)?;
        for batch in table.batches(sf) {
            writer.write(&batch?)?;
        }
        writer.close()?;
    }
    Ok(())
}
