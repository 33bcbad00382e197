//! Arrow's columns as columns of tables: which SQL types they become, and their values in these types' form.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use halcyon::{SqlError, SqlState};

/// The column of a table for a field.
pub struct Target {
    /// Name of the column.
    pub name: String,
    /// Type as SQL spells it.
    pub sql: String,
    /// Arrow's type that the engine takes for it.
    pub arrow: DataType,
}

/// Columns for all fields of a schema. Errors: 0A000 for a type that SQL has no other for.
pub fn targets(schema: &Schema) -> halcyon::Result<Vec<Target>> {
    schema.fields().iter().map(target).collect()
}

fn target(field: &FieldRef) -> halcyon::Result<Target> {
    let (sql, arrow) = types(field).ok_or_else(|| {
        let what = format!("a column of Arrow's type {} (\"{}\")", field.data_type(), field.name());
        SqlError::unsupported(what).hint("Convert it to text or to columns of its own before.")
    })?;
    Ok(Target { name: field.name().clone(), sql, arrow })
}

/// The SQL type and the Arrow type for a field.
fn types(field: &Field) -> Option<(String, DataType)> {
    use DataType as T;
    let is = |name: &str| {
        field.metadata().get("ARROW:extension:name").is_some_and(|found| found == name)
    };
    let decimal = |precision: u8, scale: i8| {
        let found = (1..=38).contains(&precision) && (0..=precision as i8).contains(&scale);
        found.then(|| (format!("NUMERIC({precision},{scale})"), T::Decimal128(precision, scale)))
    };
    let plain = |sql: &str, arrow: T| Some((sql.to_owned(), arrow));
    match field.data_type() {
        T::Boolean => plain("BOOLEAN", T::Boolean),
        T::Int8 | T::UInt8 | T::Int16 => plain("SMALLINT", T::Int16),
        T::UInt16 | T::Int32 => plain("INTEGER", T::Int32),
        T::UInt32 | T::Int64 => plain("BIGINT", T::Int64),
        T::UInt64 => decimal(20, 0),
        T::Float16 | T::Float32 => plain("REAL", T::Float32),
        T::Float64 => plain("DOUBLE PRECISION", T::Float64),
        T::Decimal32(precision, scale)
        | T::Decimal64(precision, scale)
        | T::Decimal128(precision, scale)
        | T::Decimal256(precision, scale) => decimal(*precision, *scale),
        T::Utf8 | T::LargeUtf8 | T::Utf8View if is("arrow.json") => plain("JSONB", T::Utf8View),
        T::Utf8 | T::LargeUtf8 | T::Utf8View | T::Null => plain("TEXT", T::Utf8View),
        T::FixedSizeBinary(16) if is("arrow.uuid") => plain("UUID", T::FixedSizeBinary(16)),
        T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => {
            plain("BYTEA", T::BinaryView)
        }
        T::Date32 | T::Date64 => plain("DATE", T::Date32),
        T::Time32(_) | T::Time64(_) => plain("TIME", T::Time64(TimeUnit::Microsecond)),
        T::Timestamp(_, None) => plain("TIMESTAMP", T::Timestamp(TimeUnit::Microsecond, None)),
        T::Timestamp(_, Some(_)) => {
            plain("TIMESTAMPTZ", T::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())))
        }
        T::Duration(_) | T::Interval(_) => {
            plain("INTERVAL", T::Interval(IntervalUnit::MonthDayNano))
        }
        T::Dictionary(_, value) => types(&field.clone().with_data_type(value.as_ref().clone())),
        T::RunEndEncoded(_, values) => types(values),
        T::List(item) | T::LargeList(item) | T::FixedSizeList(item, _) | T::ListView(item) => {
            let (sql, arrow) = types(item)?;
            let is_list = sql.ends_with("[]");
            let item = Arc::new(Field::new_list_field(arrow, true));
            (!is_list).then(|| (format!("{sql}[]"), T::List(item)))
        }
        _ => None,
    }
}

/// The schema of converted batches: names and types alone.
pub fn schema(targets: &[Target]) -> SchemaRef {
    let field = |target: &Target| Field::new(&target.name, target.arrow.clone(), true);
    Arc::new(Schema::new(targets.iter().map(field).collect::<Vec<_>>()))
}

/// A batch in the types of a table's columns. Errors: 22000 for a value that does not fit.
pub fn convert(schema: &SchemaRef, batch: &RecordBatch) -> halcyon::Result<RecordBatch> {
    let failed = |error: ArrowError| SqlError::new(SqlState::DATA_EXCEPTION, error.to_string());
    let arrays: Vec<ArrayRef> = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(array, field)| cast(array, field.data_type()).map_err(failed))
        .collect::<Result<_, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), arrays, &options).map_err(failed)
}
