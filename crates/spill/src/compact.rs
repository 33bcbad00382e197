//! Arrays without bytes that none of their rows refers to.
//!
//! Rows that are taken out of a batch share its texts: written as they stand, each piece would have all of them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, make_array};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

/// Rows without texts that are others', if those take more than so many bytes: whoever keeps the rows keeps all of
/// these, and is told that they are the rows' own.
pub fn without_others(batch: RecordBatch, bytes_max: usize) -> Result<RecordBatch, ArrowError> {
    let held = |column: &ArrayRef| -> usize {
        let buffers = match column.data_type() {
            DataType::Utf8View => column.as_string_view().data_buffers(),
            DataType::BinaryView => column.as_binary_view().data_buffers(),
            _ => &[],
        };
        buffers.iter().map(Buffer::capacity).sum()
    };
    if batch.columns().iter().all(|column| held(column) <= bytes_max) {
        return Ok(batch);
    }
    let (schema, columns, rows) = batch.into_parts();
    let columns = columns.iter().map(|column| match held(column) > bytes_max {
        true => compacted(column),
        false => Ok(Arc::clone(column)),
    });
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, columns.collect::<Result<_, _>>()?, &options)
}

/// Bytes of a batch's own rows. Texts that it shares with others count as far as its rows have them.
pub fn own_bytes(batch: &RecordBatch) -> usize {
    let of_texts =
        |lengths: &[u128]| -> usize { lengths.iter().map(|&view| view as u32 as usize).sum() };
    let of_column = |column: &ArrayRef| {
        let texts = match column.data_type() {
            DataType::Utf8View => of_texts(column.as_string_view().views()),
            DataType::BinaryView => of_texts(column.as_binary_view().views()),
            _ => 0,
        };
        texts + column.to_data().get_slice_memory_size().unwrap_or(0)
    };
    batch.columns().iter().map(of_column).sum()
}

/// The array with texts of its own alone, at every depth.
pub(crate) fn compacted(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match array.data_type() {
        DataType::Utf8View => Ok(Arc::new(array.as_string_view().gc())),
        DataType::BinaryView => Ok(Arc::new(array.as_binary_view().gc())),
        ty if !ty.is_nested() => Ok(Arc::clone(array)),
        _ => {
            let data = array.to_data();
            let children = data.child_data().iter();
            let children =
                children.map(|child| Ok(compacted(&make_array(child.clone()))?.to_data()));
            let children = children.collect::<Result<Vec<_>, ArrowError>>()?;
            Ok(make_array(data.into_builder().child_data(children).build()?))
        }
    }
}
