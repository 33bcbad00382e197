//! Nested columns out of nested values: lists of structures, as the standard's schemas of metadata have them.

use std::sync::Arc;

use adbc_core::error::Error;
use arrow::array::{
    ArrayRef, BooleanArray, Int16Array, Int32Array, ListArray, RecordBatch, StringArray,
    StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field};
use arrow::error::ArrowError;

/// A column, or why there is none.
pub type Column = Result<ArrayRef, ArrowError>;

/// A column of lists: for each row its items, `None` for a list that is not there. `build` makes the column of all
/// items, one list after the other.
pub fn lists<T>(
    rows: Vec<Option<Vec<T>>>,
    item: &DataType,
    build: impl FnOnce(Vec<T>) -> Column,
) -> Column {
    let lengths = rows.iter().map(|row| row.as_ref().map_or(0, Vec::len));
    let offsets = OffsetBuffer::from_lengths(lengths);
    let nulls: NullBuffer = rows.iter().map(Option::is_some).collect();
    let items = build(rows.into_iter().flatten().flatten().collect())?;
    let field = Arc::new(Field::new_list_field(item.clone(), true));
    Ok(Arc::new(ListArray::try_new(field, offsets, items, Some(nulls))?))
}

/// A column of structures of a type out of the columns of its fields.
pub fn structures(ty: &DataType, columns: Vec<ArrayRef>) -> Column {
    let DataType::Struct(fields) = ty else {
        return Err(ArrowError::SchemaError(format!("{ty} is no structure")));
    };
    Ok(Arc::new(StructArray::try_new(fields.clone(), columns, None)?))
}

/// A column of texts.
pub fn texts<'a>(texts: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    Arc::new(texts.collect::<StringArray>())
}

/// A column of small integers.
pub fn shorts(numbers: impl Iterator<Item = Option<i16>>) -> ArrayRef {
    Arc::new(numbers.collect::<Int16Array>())
}

/// A column of integers.
pub fn integers(numbers: impl Iterator<Item = Option<i32>>) -> ArrayRef {
    Arc::new(numbers.collect::<Int32Array>())
}

/// A column of truth values.
pub fn truths(values: impl Iterator<Item = Option<bool>>) -> ArrayRef {
    Arc::new(values.collect::<BooleanArray>())
}

/// A batch as the stream that the standard's functions give.
pub fn reader(
    batch: Result<RecordBatch, ArrowError>,
) -> Result<Box<dyn arrow::array::RecordBatchReader + Send>, Error> {
    Ok(crate::reading::of_batch(batch?))
}
