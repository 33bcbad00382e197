//! Arrow's C data interface in capsules of Python: streams of record batches to and from other libraries, without a
//! copy of the data.
//!
//! Source: Arrow's documentation, "The Arrow PyCapsule Interface" (`arrow_array_stream`, `arrow_schema`). Whoever
//! takes a structure out of a capsule moves it and leaves an empty one behind; a capsule that nobody took from releases
//! its own.
#![allow(unsafe_code)]

use std::ffi::CStr;

use arrow::array::RecordBatchReader;
use arrow::datatypes::Schema;
use arrow::ffi::FFI_ArrowSchema;
use arrow::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";

/// A capsule with a stream of batches.
pub fn stream<'py>(
    py: Python<'py>,
    batches: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(batches), STREAM)
}

/// A capsule with a schema.
pub fn schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema)
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

/// The batches of an object of another library that has `__arrow_c_stream__`. Errors: TypeError for others, whatever the
/// object raises, ValueError for a stream that was taken before.
pub fn reader(object: &Bound<'_, PyAny>) -> PyResult<ArrowArrayStreamReader> {
    let capsule = object.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let stream = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
    // A capsule of this name holds a pointer to a C structure `ArrowArrayStream`, which `FFI_ArrowArrayStream` is. It is
    // moved out, and the empty one that stays has nothing to release.
    // SAFETY: the pointer is valid while the capsule lives, which is held here; the interpreter's lock keeps others off.
    let taken = unsafe { FFI_ArrowArrayStream::from_raw(stream.as_ptr()) };
    ArrowArrayStreamReader::try_new(taken).map_err(|error| PyValueError::new_err(error.to_string()))
}
