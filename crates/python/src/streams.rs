//! Events for streams, without SQL.

use std::sync::{Mutex, PoisonError};

use halcyon::{SqlType, Value, ValueRef, params};
use pyo3::prelude::*;

use crate::errors::{closed, told};
use crate::params::exact;

/// A handle of a stream.
#[pyclass(frozen, module = "halcyon._halcyon")]
pub struct Stream {
    stream: Mutex<Option<halcyon::Stream>>,
    types: Vec<SqlType>,
}

impl Stream {
    /// A handle that acts for a session's role; `types` is another session of the role, to look the columns up with.
    pub fn new(
        mut types: halcyon::Session,
        session: halcyon::Session,
        name: &str,
    ) -> halcyon::Result<Self> {
        let stream = session.into_stream(name)?;
        let quoted: Vec<_> =
            name.split('.').map(|part| format!("\"{}\"", part.replace('"', "\"\""))).collect();
        let quoted = quoted.join(".");
        let count = "SELECT count(*) FROM pg_attribute WHERE attrelid = CAST($1 AS regclass) AND attnum > 0";
        let mut rows = types.query(count, params![quoted.clone()])?;
        let count: i64 = rows.next()?.expect("a count").get(0)?;
        drop(rows);
        let places: Vec<_> = (1..=count).map(|at| format!("${at}")).collect();
        let insert = format!("INSERT INTO {quoted} VALUES ({})", places.join(", "));
        let types = types.prepare(&insert)?.params();
        Ok(Stream { stream: Mutex::new(Some(stream)), types })
    }

    fn values(&self, row: &Bound<'_, PyAny>) -> PyResult<Vec<Value>> {
        let mut values = Vec::with_capacity(self.types.len());
        for (at, object) in row.try_iter()?.enumerate() {
            // The engine says what is wrong with rows that are too long.
            let ty = self.types.get(at).copied().unwrap_or(SqlType::Text);
            values.push(exact(&object?, ty)?);
        }
        Ok(values)
    }
}

fn refs(values: &[Value]) -> Vec<ValueRef<'_>> {
    values.iter().map(Value::as_ref).collect()
}

#[pymethods]
impl Stream {
    /// Gives the views over the stream several events, all or none: rows, and 1 for an insert or -1 for a delete.
    fn events(&self, py: Python<'_>, rows: Vec<(Bound<'_, PyAny>, i8)>) -> PyResult<()> {
        let events = rows.iter().map(|(row, weight)| Ok((self.values(row)?, *weight)));
        let events = events.collect::<PyResult<Vec<_>>>()?;
        let done = py.detach(|| {
            let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
            let stream = stream.as_mut().ok_or_else(|| closed("stream"))?;
            match &events[..] {
                [(row, 1)] => stream.insert(&refs(row)),
                [(row, -1)] => stream.delete(&refs(row)),
                events => {
                    let events: Vec<_> =
                        events.iter().map(|(row, weight)| (refs(row), *weight)).collect();
                    stream.batch(&events)
                }
            }
        });
        told(py, done)
    }

    /// Gives the handle back.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.stream.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }
}
