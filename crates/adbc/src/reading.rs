//! Results as streams of record batches, computed as they are read.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use adbc_core::error::Error;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, RecordBatchReader};
use arrow::compute::cast;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use halcyon::{ResultColumn, Rows};
use halcyon_interchange::lists;
use halcyon_interchange::results::{external, plain, shown};

use crate::errors::of_arrow;
use crate::sessions::{Shared, broken};

/// The error that ended a stream, for the C function that gives it with its SQLSTATE.
pub type Slot = Arc<Mutex<Option<Error>>>;

/// What an execution leaves for the function of C that asked for it.
pub struct Left {
    /// Where the error of its stream will stand.
    pub slot: Slot,
    /// How many rows a statement has written.
    pub written: Option<u64>,
}

thread_local! {
    /// What the execution on this thread has left.
    static LEFT: RefCell<Option<Left>> = const { RefCell::new(None) };
}

/// Takes what the last execution on this thread has left.
pub fn taken() -> Option<Left> {
    LEFT.with_borrow_mut(Option::take)
}

/// The schema of a result: with views of texts and bytes, or plain ones.
pub fn schema(columns: &[ResultColumn], views: bool) -> SchemaRef {
    let schema = shown(columns);
    if views {
        return schema;
    }
    let field =
        |field: &Arc<Field>| field.as_ref().clone().with_data_type(plain(field.data_type()));
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}

/// Rows of the following runs of a statement; `None` after the last.
pub type More = Box<dyn FnMut() -> halcyon::Result<Option<Rows>> + Send>;

/// A result that is being read.
pub struct Reading {
    columns: Arc<[ResultColumn]>,
    /// The engine's own schema.
    shown: SchemaRef,
    /// The schema of the stream.
    schema: SchemaRef,
    rows: Option<Rows>,
    more: Option<More>,
    slot: Slot,
    is_over: bool,
    /// Keeps the connection's database open.
    _shared: Arc<Shared>,
}

impl Reading {
    /// The stream of a result of these columns; without any for statements that return no rows.
    pub fn new(
        shared: Arc<Shared>,
        columns: Arc<[ResultColumn]>,
        views: bool,
        rows: Option<Rows>,
        more: Option<More>,
        written: Option<u64>,
    ) -> Self {
        let slot = Slot::default();
        LEFT.set(Some(Left { slot: slot.clone(), written }));
        let (shown, schema) = (shown(&columns), schema(&columns, views));
        let is_over = rows.is_none() && more.is_none();
        Reading { columns, shown, schema, rows, more, slot, is_over, _shared: shared }
    }

    /// The next batch with rows.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        loop {
            let Some(rows) = &mut self.rows else {
                let Some(more) = &mut self.more else { return Ok(None) };
                match more().map_err(external)? {
                    Some(rows) => self.rows = Some(rows),
                    None => return Ok(None),
                }
                continue;
            };
            match rows.next_batch().map_err(external)? {
                Some(batch) if batch.num_rows() == 0 => {}
                Some(batch) => {
                    let batch = lists::with_lists(&self.shown, &self.columns, &batch)?;
                    return self.converted(&batch).map(Some);
                }
                None => self.rows = None,
            }
        }
    }

    /// A batch in the stream's schema: columns that have their types already are shared.
    fn converted(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let columns = batch.columns().iter().zip(self.schema.fields());
        let convert = |(array, field): (&ArrayRef, &Arc<Field>)| match array.data_type()
            == field.data_type()
        {
            true => Ok(array.clone()),
            false => cast(array, field.data_type()),
        };
        let columns = columns.map(convert).collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
    }

    /// Reads everything and returns the number of rows.
    pub fn drain(mut self) -> crate::errors::Result<u64> {
        let mut count = 0;
        while let Some(batch) = self.next_batch().map_err(of_arrow)? {
            count += batch.num_rows() as u64;
        }
        Ok(count)
    }
}

impl Iterator for Reading {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        // A panic must not reach the program that calls from C.
        let found = catch_unwind(AssertUnwindSafe(|| self.next_batch()));
        let found = found.unwrap_or_else(|_| Err(external(broken("a result"))));
        match found {
            Ok(Some(batch)) => Some(Ok(batch)),
            Ok(None) => {
                self.is_over = true;
                None
            }
            Err(error) => {
                (self.is_over, self.rows, self.more) = (true, None, None);
                let message = error.to_string();
                let error = of_arrow(error);
                let shown = match error.message.is_empty() {
                    true => message,
                    false => error.message.clone(),
                };
                *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                Some(Err(ArrowError::ExternalError(shown.into())))
            }
        }
    }
}

impl RecordBatchReader for Reading {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// A batch as a stream.
pub fn of_batch(batch: RecordBatch) -> Box<dyn RecordBatchReader + Send> {
    let schema = batch.schema();
    Box::new(arrow::array::RecordBatchIterator::new([Ok(batch)], schema))
}
