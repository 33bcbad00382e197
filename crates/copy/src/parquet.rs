//! Parquet files: columns by name, in the batches they are stored in.

use std::fs::File;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringViewBuilder};
use arrow::datatypes::{DataType, Field, Schema};
use halcyon_base::progress::{self, Kind, Phase, Unit};
use halcyon_store::ValueRef;
use halcyon_txn::Transaction;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::errors::ParquetError;
use parquet::schema::types::{SchemaDescriptor, Type};

use crate::{CopyOut, From, file_error};
use halcyon_exec::dml::WriteContext;
use halcyon_exec::dml::bulk::{Late, as_storage, cell_of};
use halcyon_plan::env::{Env, Locks};
use halcyon_sql::coerce::nested::write_cell;
use halcyon_sql::coerce::{self, Arena, TimeZone};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::rows::ResultColumn;
use halcyon_sql::types::SqlType;
use halcyon_sql::values::{ArrayWriter, sql_type_of, sql_type_of_arrow};

const BATCH_ROWS: usize = 8192;

fn broken(path: &str, error: ParquetError) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, format!("file \"{path}\" is no Parquet: {error}"))
}

/// COPY FROM a Parquet file: its columns are found by name, or by position if no name fits.
pub(super) fn read(
    from: &From,
    path: &str,
    env: &Env<'_>,
    tx: &mut Transaction,
    locks: &Locks,
) -> Result<u64> {
    let file = File::open(path).map_err(|error| file_error(path, &error))?;
    let bytes = file.metadata().map_or(0, |metadata| metadata.len());
    let reader =
        ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| broken(path, error))?;
    let total = reader.metadata().file_metadata().num_rows().max(1) as u64;
    let reader = reader.with_batch_size(BATCH_ROWS).build().map_err(|error| broken(path, error))?;
    let work = progress::begin(Kind::CopyFromFile, Some(from.writer.table().shown()));
    work.stage(Phase::Copying, Unit::Bytes, Some(bytes));
    let since = from.is_followed().then(|| tx.savepoint());
    let mut cx = WriteContext::new(env, tx, locks);
    let (mut late, mut rows, mut read, mut told) = (Late::new(), 0, 0, 0);
    for batch in reader {
        if env.cancel.is_cancelled() {
            return Err(SqlError::new(
                SqlState::QUERY_CANCELED,
                "canceling statement due to user request",
            ));
        }
        let batch = batch.map_err(|error| broken(path, error.into()))?;
        let in_batch = batch.num_rows() as u64;
        let stored = store(from, &batch, &mut cx, &mut late)?;
        (rows, read) = (rows + stored, read + in_batch);
        work.rows(stored);
        work.excluded(in_batch - stored);
        // The part of the file's bytes that the part of its rows is taken for.
        let reached = (u128::from(bytes) * u128::from(read.min(total)) / u128::from(total)) as u64;
        work.bytes(reached - told);
        told = reached;
    }
    from.writer.finish(&cx, late)?;
    if let Some(since) = &since {
        from.end(since, env, tx)?;
    }
    Ok(rows)
}

/// Stores a batch. Returns the rows stored.
pub(super) fn store(
    from: &From,
    batch: &RecordBatch,
    cx: &mut WriteContext<'_>,
    late: &mut Late,
) -> Result<u64> {
    let partitions = 0..from.writer.table().cells.len() as u32;
    let handles: Vec<_> = partitions.map(|partition| cx.lock(from.at, partition)).collect();
    let zone = TimeZone::parse(&cx.env.session.time_zone).unwrap_or_default();
    let mut columns = arrange(from, batch, cx, &zone)?;
    if let Some(condition) = &from.condition {
        columns = condition.filtered(columns, cx.env, |_| None)?;
    }
    from.writer.append(cx, &handles, columns, late)
}

/// The batch's columns as those of the table.
fn arrange(
    from: &From,
    batch: &RecordBatch,
    cx: &mut WriteContext<'_>,
    zone: &TimeZone,
) -> Result<Vec<ArrayRef>> {
    let table = from.writer.table().clone();
    let schema = batch.schema();
    let by_name = from
        .columns
        .iter()
        .any(|column| schema.index_of(&table.columns[*column as usize].name).is_ok());
    let mut arrays = Vec::new();
    let arena = Arena::new();
    for (at, column) in table.columns.iter().enumerate() {
        if let Some(cell) = &from.defaults[at] {
            let mut writer = ArrayWriter::for_storage(column.ty, batch.num_rows());
            for _ in 0..batch.num_rows() {
                let none = |_| unreachable!("a default has no source row");
                let env = cx.env;
                writer.push(cell.value(env, cx.zone_cell(), none, &[], column.ty, &arena)?)?;
            }
            arrays.push(writer.finish());
            continue;
        }
        let position = match by_name {
            true => schema.index_of(&column.name).ok(),
            false => from.columns.iter().position(|own| *own as usize == at),
        };
        let position = position.filter(|at| *at < batch.num_columns()).ok_or_else(|| {
            SqlError::new(
                SqlState::BAD_COPY_FILE_FORMAT,
                format!("missing data for column \"{}\"", column.name),
            )
        })?;
        let array = batch.column(position);
        let field = schema.field(position);
        // A file's large texts and bytes are what they are, no documents.
        let found = match field.data_type() {
            DataType::LargeUtf8 => Some(SqlType::Text),
            DataType::LargeBinary => Some(SqlType::Bytea),
            _ => sql_type_of(field),
        };
        let found = found.ok_or_else(|| {
            SqlError::unsupported(format!("a column of Arrow's type {}", field.data_type()))
        })?;
        arrays.push(convert(array, found, column.ty, &column.name, zone)?);
    }
    Ok(arrays)
}

fn convert(
    array: &ArrayRef,
    found: SqlType,
    wanted: SqlType,
    name: &str,
    zone: &TimeZone,
) -> Result<ArrayRef> {
    let bounded = matches!(
        wanted,
        SqlType::Char(_) | SqlType::Varchar(Some(_)) | SqlType::Json | SqlType::Jsonb
    ) || wanted.is_address();
    let alike = found.storage() == wanted.storage()
        && found.element() == wanted.element()
        && found.enumeration() == wanted.enumeration();
    if alike && !bounded {
        return as_storage(array, wanted);
    }
    // A file may have text where it has no type for a value: intervals, and what others write.
    let text =
        matches!(array.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    if !text && !coerce::assignable(found, wanted) {
        return Err(halcyon_exec::constraints::mismatch(name, wanted, &found.to_string()));
    }
    let array = as_storage(array, found)?;
    let mut writer = ArrayWriter::for_storage(wanted, array.len());
    let arena = Arena::new();
    for row in 0..array.len() {
        writer.push(match cell_of(&array, row)? {
            ValueRef::Text(text) => coerce::parse(text, wanted, zone, &arena)?,
            value => coerce::assign(value, found, wanted, zone, &arena)?,
        })?;
    }
    Ok(writer.finish())
}

/// COPY TO a Parquet file. Returns the rows written.
///
/// Parquet has intervals of milliseconds only, so ours are written as text, and so are documents and labels;
/// a UUID is told as one.
pub(super) fn write(mut output: CopyOut, file: File, path: &str) -> Result<u64> {
    let field = |column: &ResultColumn| {
        let field = match column.field.data_type() {
            ty if text_of(ty).is_some() => SqlType::Text.field(&column.name, true),
            DataType::List(item) if is_written_as_text(item.data_type()) => {
                SqlType::Text.field(&column.name, true)
            }
            _ => column.field.as_ref().clone(),
        };
        Arc::new(field.with_name(&column.name).with_nullable(true))
    };
    let schema = Arc::new(Schema::new(output.columns.iter().map(field).collect::<Vec<_>>()));
    let fail = |error: ParquetError| {
        SqlError::new(SqlState::IO_ERROR, format!("could not write file \"{path}\": {error}"))
    };
    let options =
        ArrowWriterOptions::new().with_parquet_schema(parquet_schema(&schema).map_err(fail)?);
    let mut writer =
        ArrowWriter::try_new_with_options(file, schema.clone(), options).map_err(fail)?;
    while let Some(batch) = output.next_batch()? {
        let columns = schema.fields().iter().zip(batch.columns());
        let columns = columns.map(|(field, column)| written(field, column));
        let batch = RecordBatch::try_new(schema.clone(), columns.collect::<Result<Vec<_>>>()?)
            .map_err(|error| halcyon_sql::diagnose::sql_error(error.into(), ""))?;
        writer.write(&batch).map_err(fail)?;
    }
    writer.close().map_err(fail)?;
    Ok(output.rows())
}

/// The type whose values a file has as texts; `None` for others.
fn text_of(ty: &DataType) -> Option<SqlType> {
    sql_type_of_arrow(ty).filter(|ty| {
        ty.is_address()
            || matches!(ty, SqlType::Interval | SqlType::Json | SqlType::Jsonb | SqlType::Enum(_))
    })
}

/// Whether a file has an array of elements of this type as its text.
fn is_written_as_text(item: &DataType) -> bool {
    text_of(item).is_some() || matches!(item, DataType::FixedSizeBinary(_) | DataType::List(_))
}

/// A column as the file has it.
fn written(field: &Field, column: &ArrayRef) -> Result<ArrayRef> {
    if field.data_type() == column.data_type() {
        return Ok(column.clone());
    }
    let of = text_of(column.data_type());
    if matches!(column.data_type(), DataType::List(_)) {
        let mut texts = StringViewBuilder::with_capacity(column.len());
        let mut text = String::new();
        for row in 0..column.len() {
            text.clear();
            write_cell(column, row, &TimeZone::default(), &mut text);
            texts.append_option(column.is_valid(row).then_some(&text));
        }
        return Ok(Arc::new(texts.finish()));
    }
    let Some(of) = of else {
        return arrow::compute::cast(column, field.data_type())
            .map_err(|error| halcyon_sql::diagnose::sql_error(error.into(), ""));
    };
    let mut writer = ArrayWriter::new(SqlType::Text, column.len());
    let (arena, zone) = (Arena::new(), TimeZone::default());
    for row in 0..column.len() {
        let value = cell_of(column, row)?;
        match coerce::cast(value, of, SqlType::Text, &zone, &arena)? {
            // DuckDB does not read the signs that PostgreSQL writes after a negative part.
            ValueRef::Text(text) if of == SqlType::Interval => {
                writer.push(ValueRef::Text(&text.replace('+', "")))?
            }
            text => writer.push(text)?,
        }
    }
    Ok(writer.finish())
}

/// The file's schema: what Arrow makes of ours, but that sixteen bytes are known as a UUID.
fn parquet_schema(schema: &Schema) -> Result<SchemaDescriptor, ParquetError> {
    let made = ArrowSchemaConverter::new().convert(schema)?;
    let mut fields = Vec::new();
    for (field, made) in schema.fields().iter().zip(made.root_schema().get_fields()) {
        fields.push(match field.data_type() {
            DataType::FixedSizeBinary(16) => Arc::new(
                Type::primitive_type_builder(field.name(), PhysicalType::FIXED_LEN_BYTE_ARRAY)
                    .with_repetition(Repetition::OPTIONAL)
                    .with_length(16)
                    .with_logical_type(Some(LogicalType::Uuid))
                    .build()?,
            ),
            _ => made.clone(),
        });
    }
    let root = Type::group_type_builder(made.root_schema().name()).with_fields(fields).build()?;
    Ok(SchemaDescriptor::new(Arc::new(root)))
}
