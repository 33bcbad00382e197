//! Errors of statements as exceptions of PEP 249.

use halcyon::{SqlError, SqlState};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The exception of an error: its class by the SQLSTATE, with the fields that PostgreSQL's drivers give (see
/// `halcyon/errors.py`).
pub fn exception(py: Python<'_>, error: &SqlError) -> PyErr {
    let fields = error.fields();
    let made = MAKE.import(py, "halcyon.errors", "of_fields").and_then(|make| {
        make.call1((
            error.state().as_str(),
            error.message(),
            fields.detail.as_deref(),
            fields.hint.as_deref(),
            fields.position,
            fields.context.as_deref(),
            fields.table.as_deref(),
            fields.column.as_deref(),
            fields.constraint.as_deref(),
        ))
    });
    made.map_or_else(|failed| failed, PyErr::from_value)
}

/// A result of the engine as one of Python.
pub fn told<T>(py: Python<'_>, done: halcyon::Result<T>) -> PyResult<T> {
    done.map_err(|error| exception(py, &error))
}

/// 55000: the connection, result, subscription or stream was closed.
pub fn closed(what: &str) -> SqlError {
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, format!("the {what} is closed"))
}
