//! Columns of arrays, which results have as texts, as Arrow's lists.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, ListArray, PrimitiveArray,
    RecordBatch, RecordBatchOptions, StringArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::*;
use arrow::error::ArrowError;
use halcyon::{ResultColumn, SqlType, Value, arrays};

/// The schema of a result whose arrays are lists.
pub fn schema(columns: &[ResultColumn], shown: &Schema) -> SchemaRef {
    let fields = shown.fields().iter().zip(columns).map(|(field, column)| match list_of(column) {
        Some(item) => Arc::new(field.as_ref().clone().with_data_type(list_type(item))),
        None => field.clone(),
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), shown.metadata().clone()))
}

/// A batch of a result with lists for arrays; all other columns are shared.
pub fn with_lists(
    schema: &SchemaRef,
    columns: &[ResultColumn],
    batch: &RecordBatch,
) -> Result<RecordBatch, ArrowError> {
    let convert = |(array, column): (&ArrayRef, &ResultColumn)| match list_of(column) {
        Some(item) => list(array, item),
        None => Ok(array.clone()),
    };
    let arrays = batch.columns().iter().zip(columns).map(convert).collect::<Result<_, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), arrays, &options)
}

/// The type of the elements, if a column has arrays.
fn list_of(column: &ResultColumn) -> Option<SqlType> {
    column.ty.and_then(SqlType::element)
}

/// The type of a list's items: what has no builder of its own here stays text.
fn item_type(item: SqlType) -> DataType {
    match item {
        SqlType::Boolean
        | SqlType::SmallInt
        | SqlType::Integer
        | SqlType::BigInt
        | SqlType::Real
        | SqlType::Double
        | SqlType::Decimal { .. }
        | SqlType::Date
        | SqlType::Time
        | SqlType::Timestamp
        | SqlType::TimestampTz => item.shown_arrow(),
        // Not views: pandas takes no lists of these.
        _ => DataType::Utf8,
    }
}

fn list_type(item: SqlType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item_type(item), true)))
}

macro_rules! primitive {
    ($arrow:ty, $values:expr, $variant:ident) => {{
        let values = $values.iter().map(|value| match value {
            Value::$variant(value) => Some(*value),
            _ => None,
        });
        Arc::new(PrimitiveArray::<$arrow>::from_iter(values)) as ArrayRef
    }};
}

fn list(array: &ArrayRef, item: SqlType) -> Result<ArrayRef, ArrowError> {
    let external = |error: halcyon::SqlError| ArrowError::ExternalError(Box::new(error));
    let texts = array.as_string_view();
    let ty = item_type(item);
    let is_text = ty == DataType::Utf8;
    let (mut items, mut lengths) = (Vec::new(), Vec::with_capacity(texts.len()));
    for text in texts {
        let before = items.len();
        for element in text.map_or(Ok(Vec::new()), arrays::parse).map_err(external)? {
            items.push(match element {
                None => Value::Null,
                Some(text) if is_text => Value::Text(text),
                Some(text) => arrays::element(&text, item).map_err(external)?,
            });
        }
        lengths.push(items.len() - before);
    }
    let values: ArrayRef = match item {
        _ if is_text => {
            let text = |value: &Value| match value {
                Value::Text(text) => Some(text.clone()),
                _ => None,
            };
            Arc::new(items.iter().map(text).collect::<StringArray>())
        }
        SqlType::Boolean => {
            let bit = |value: &Value| match value {
                Value::Bool(bit) => Some(*bit),
                _ => None,
            };
            Arc::new(items.iter().map(bit).collect::<BooleanArray>())
        }
        SqlType::SmallInt => primitive!(Int16Type, items, Int16),
        SqlType::Integer => primitive!(Int32Type, items, Int32),
        SqlType::BigInt => primitive!(Int64Type, items, Int64),
        SqlType::Real => primitive!(Float32Type, items, Float32),
        SqlType::Double => primitive!(Float64Type, items, Float64),
        SqlType::Date => primitive!(Date32Type, items, Date),
        SqlType::Time => primitive!(Time64MicrosecondType, items, Time),
        SqlType::Timestamp => primitive!(TimestampMicrosecondType, items, Timestamp),
        SqlType::TimestampTz => {
            let array = primitive!(TimestampMicrosecondType, items, TimestampTz);
            let array = array.as_primitive::<TimestampMicrosecondType>().clone();
            Arc::new(array.with_timezone("+00:00"))
        }
        _ => {
            let number = |value: &Value| match value {
                Value::Decimal(number) => Some(*number),
                _ => None,
            };
            let numbers = items.iter().map(number).collect::<Decimal128Array>();
            Arc::new(numbers.with_data_type(ty.clone()))
        }
    };
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths(lengths);
    let nulls: Option<NullBuffer> = array.nulls().cloned();
    Ok(Arc::new(ListArray::try_new(field, offsets, values, nulls)?))
}
