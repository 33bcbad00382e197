//! Rows of several batches: what they hold together, and how they become one batch.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use arrow::compute::interleave;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::physical_plan::metrics::Time;

use crate::steps::Steps;

/// Rows that are merged in one step.
pub(crate) const MERGE_ROWS: usize = 1 << 11;

/// Bytes of batches, of which buffers that several share count once.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    seen: HashSet<usize>,
    bytes: usize,
}

impl Counted {
    /// Counts a batch, whose buffers live as long as this.
    pub(crate) fn add(&mut self, batch: &RecordBatch) {
        batch.columns().iter().for_each(|column| self.add_data(&column.to_data()));
    }

    fn add_data(&mut self, data: &ArrayData) {
        data.buffers().iter().for_each(|buffer| self.add_buffer(buffer));
        if let Some(nulls) = data.nulls() {
            self.add_buffer(nulls.buffer());
        }
        data.child_data().iter().for_each(|child| self.add_data(child));
    }

    fn add_buffer(&mut self, buffer: &Buffer) {
        if self.seen.insert(buffer.data_ptr().as_ptr().addr()) {
            self.bytes += buffer.capacity();
        }
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Rows of several batches, column by column.
///
/// `columns`: for each column the arrays of all batches; `picked`: the batch and the row of each. Errors: 57014.
pub(crate) async fn gathered(
    columns: &[Vec<ArrayRef>],
    picked: &[(usize, usize)],
    steps: &Steps,
    time: &Time,
) -> Result<Vec<ArrayRef>> {
    let slice = as_slice(picked);
    let mut given = Vec::with_capacity(columns.len());
    for arrays in columns {
        let timer = time.timer();
        given.push(match slice {
            Some((batch, from)) => arrays[batch].slice(from, picked.len()),
            None => {
                let arrays: Vec<&dyn Array> = arrays.iter().map(ArrayRef::as_ref).collect();
                interleave(&arrays, picked)?
            }
        });
        drop(timer);
        steps.end(picked.len()).await?;
    }
    Ok(given)
}

/// The batch and the first row, if rows lie one behind the other.
fn as_slice(picked: &[(usize, usize)]) -> Option<(usize, usize)> {
    let (&(batch, from), &last) = picked.first().zip(picked.last())?;
    let is_slice = last == (batch, from + picked.len() - 1)
        && picked.iter().enumerate().all(|(at, &row)| row == (batch, from + at));
    is_slice.then_some((batch, from))
}

/// A batch of a schema, which may have no columns.
pub(crate) fn batch_of(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}
