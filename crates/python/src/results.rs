//! Results: rows as tuples, and record batches for other libraries.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use halcyon::{CancelHandle, Outcome, ResultColumn, Rows, Shape, SqlType};
use halcyon_interchange::cells::cell;
use halcyon_interchange::lists;
use halcyon_interchange::results::{Batches, batches, shown};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList, PyTuple};

use crate::capsules;
use crate::errors::{closed, told};
use crate::frames;
use crate::interrupt::{LOOK, Unpark, is_main_thread};
use crate::values::object;

/// Name, object id of the type, its name, bytes of a fixed width, digits, digits behind the point.
type Described = (String, u32, String, Option<i16>, Option<u8>, Option<i8>);

/// The result of a statement: a tag, and rows that are read once.
#[pyclass(frozen, weakref, module = "halcyon._halcyon")]
pub struct Result {
    columns: Option<Arc<[ResultColumn]>>,
    tag: String,
    count: Option<u64>,
    reading: Mutex<Option<Reading>>,
    cancel: CancelHandle,
}

/// Rows that are being read.
struct Reading {
    rows: Rows,
    /// The batch being read, and the number of its next row.
    current: Option<(RecordBatch, usize)>,
}

impl Reading {
    /// The next batch with rows, without the interpreter's lock. Ctrl-C ends the statement.
    fn next_batch(
        &mut self,
        py: Python<'_>,
        cancel: &CancelHandle,
    ) -> PyResult<Option<RecordBatch>> {
        let asks = self.rows.is_streamed() && is_main_thread(py)?;
        loop {
            while asks && !self.is_ready(py) {
                py.check_signals().inspect_err(|_| cancel.cancel())?;
            }
            match told(py, py.detach(|| self.rows.next_batch()))? {
                Some(batch) if batch.num_rows() == 0 => {}
                found => return Ok(found),
            }
        }
    }

    /// Whether a batch is there, after waiting for it a moment.
    fn is_ready(&mut self, py: Python<'_>) -> bool {
        py.detach(|| {
            let waker = Waker::from(Unpark::this_thread());
            let mut context = Context::from_waker(&waker);
            if self.rows.poll_ready(&mut context) == Poll::Ready(()) {
                return true;
            }
            thread::park_timeout(LOOK);
            self.rows.poll_ready(&mut context) == Poll::Ready(())
        })
    }
}

impl Result {
    /// A result without rows.
    pub fn done(tag: String, count: Option<u64>, cancel: CancelHandle) -> Self {
        Result { columns: None, tag, count, reading: Mutex::new(None), cancel }
    }

    /// The result of a statement.
    pub fn new(outcome: Outcome, cancel: CancelHandle) -> Self {
        match outcome {
            Outcome::Rows { rows, tag, written } => Result {
                columns: Some(rows.columns().clone()),
                tag: tag.to_owned(),
                count: written,
                reading: Mutex::new(Some(Reading { rows, current: None })),
                cancel,
            },
            Outcome::Done(tag) => Result::done(tag.name.to_owned(), tag.rows, cancel),
            Outcome::CopyIn { .. } | Outcome::CopyOut { .. } => {
                Result::done("COPY".to_owned(), None, cancel)
            }
        }
    }

    /// Takes the rows away from the result, which stays empty.
    fn take(&self) -> halcyon::Result<(Arc<[ResultColumn]>, Reading)> {
        let reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (&self.columns, reading) {
            (Some(columns), Some(reading)) => Ok((columns.clone(), reading)),
            _ => Err(closed("result")),
        }
    }
}

/// Rows of a batch as tuples, at the end of a list.
fn push_rows(
    list: &Bound<'_, PyList>,
    batch: &RecordBatch,
    range: std::ops::Range<usize>,
    types: &[Option<SqlType>],
) -> PyResult<()> {
    let py = list.py();
    for row in range {
        let values = batch.columns().iter().zip(types);
        let values = values.map(|(array, ty)| object(py, cell(array.as_ref(), row), *ty));
        list.append(PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?)?)?;
    }
    Ok(())
}

fn types(columns: &[ResultColumn]) -> Vec<Option<SqlType>> {
    columns.iter().map(|column| column.ty).collect()
}

fn described(columns: &[ResultColumn]) -> Vec<Described> {
    let describe = |column: &ResultColumn| {
        let client = column.client_type();
        let ty = column.ty.unwrap_or(SqlType::Text);
        let (precision, scale) = match ty {
            SqlType::Decimal { precision, scale } => (Some(precision), Some(scale)),
            _ => (None, None),
        };
        let name = match client.shape {
            Shape::Value(ty) => ty.to_string(),
            _ => ty.to_string(),
        };
        let length = Some(client.length).filter(|length| *length > 0);
        (column.name.clone(), client.oid, name, length, precision, scale)
    };
    columns.iter().map(describe).collect()
}

#[pymethods]
impl Result {
    /// First words of the command tag.
    #[getter]
    fn tag(&self) -> &str {
        &self.tag
    }

    /// Rows that the statement concerned, if it counts them; of a query nobody knows before the last is read.
    #[getter]
    fn count(&self) -> Option<u64> {
        self.count
    }

    /// The columns; None if the statement returns no rows.
    #[getter]
    fn columns(&self) -> Option<Vec<Described>> {
        self.columns.as_deref().map(described)
    }

    /// The next rows, at most so many; all that are left without a number.
    #[pyo3(signature = (most = None))]
    fn fetch<'py>(&self, py: Python<'py>, most: Option<usize>) -> PyResult<Bound<'py, PyList>> {
        let (columns, mut reading) = told(py, self.take())?;
        let (list, types) = (PyList::empty(py), types(&columns));
        let mut left = most.unwrap_or(usize::MAX);
        while left > 0 {
            let (batch, at) = match reading.current.take() {
                Some(current) => current,
                None => match reading.next_batch(py, &self.cancel)? {
                    Some(batch) => (batch, 0),
                    None => break,
                },
            };
            let taken = left.min(batch.num_rows() - at);
            // A row that Python has no object for is passed over by who goes on.
            let end = at + taken;
            let pushed = push_rows(&list, &batch, at..end, &types);
            if end < batch.num_rows() {
                reading.current = Some((batch, end));
            }
            if let Err(error) = pushed {
                self.put_back(reading);
                return Err(error);
            }
            left -= taken;
        }
        self.put_back(reading);
        Ok(list)
    }

    /// Everything that is left, as a table.
    fn table(&self, py: Python<'_>) -> PyResult<Table> {
        let (columns, mut reading) = told(py, self.take())?;
        let mut batches = Vec::new();
        if let Some((batch, at)) = reading.current.take() {
            batches.push(batch.slice(at, batch.num_rows() - at));
        }
        while let Some(batch) = reading.next_batch(py, &self.cancel)? {
            batches.push(batch);
        }
        Ok(Table { schema: shown(&columns), columns, batches: batches.into() })
    }

    /// The batches that are left, computed as the other library asks for them (Arrow's PyCapsule interface).
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let (columns, mut reading) = told(py, self.take())?;
        let mut first =
            reading.current.take().map(|(batch, at)| batch.slice(at, batch.num_rows() - at));
        let next = move || match first.take() {
            Some(batch) => Some(Ok(batch)),
            None => reading.rows.next_batch().transpose(),
        };
        capsules::stream(py, Box::new(batches(columns, next)))
    }

    /// Ends the statement, if rows are left.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.reading.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }
}

impl Result {
    fn put_back(&self, reading: Reading) {
        *self.reading.lock().unwrap_or_else(PoisonError::into_inner) = Some(reading);
    }
}

/// A whole result, which can be read as often as wanted.
#[pyclass(frozen, module = "halcyon._halcyon")]
pub struct Table {
    columns: Arc<[ResultColumn]>,
    schema: SchemaRef,
    batches: Arc<[RecordBatch]>,
}

#[pymethods]
impl Table {
    /// The columns.
    #[getter]
    fn columns(&self) -> Vec<Described> {
        described(&self.columns)
    }

    /// Number of rows.
    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Rows as tuples, from the row of a number on, at most so many.
    #[pyo3(signature = (start = 0, most = None))]
    fn rows<'py>(
        &self,
        py: Python<'py>,
        start: usize,
        most: Option<usize>,
    ) -> PyResult<Bound<'py, PyList>> {
        let (list, types) = (PyList::empty(py), types(&self.columns));
        let (mut skip, mut left) = (start, most.unwrap_or(usize::MAX));
        for batch in self.batches.iter() {
            let from = skip.min(batch.num_rows());
            let taken = left.min(batch.num_rows() - from);
            push_rows(&list, batch, from..from + taken, &types)?;
            skip -= from;
            left -= taken;
        }
        Ok(list)
    }

    /// The table for libraries that do not work with some types. `calendar`: an interval is a duration, or its text
    /// where one of the column's has months, and a UUID is its text. `views`: texts and bytes are plain ones, copied.
    fn without(&self, py: Python<'_>, calendar: bool, views: bool) -> PyResult<Self> {
        let without = frames::Without { calendar, views };
        let made = py.detach(|| frames::of(&self.schema, &self.batches, without));
        let (schema, batches) =
            made.map_err(|error| PyOverflowError::new_err(error.to_string()))?;
        Ok(Table { columns: self.columns.clone(), schema, batches: batches.into() })
    }

    /// The schema (Arrow's PyCapsule interface).
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsules::schema(py, &self.schema)
    }

    /// The batches (Arrow's PyCapsule interface).
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let (of, columns) = (self.schema.clone(), self.columns.clone());
        let batches = self.batches.clone();
        let batches =
            (0..batches.len()).map(move |at| lists::with_lists(&of, &columns, &batches[at]));
        let schema = self.schema.clone();
        capsules::stream(py, Box::new(Batches { schema, batches }))
    }
}
