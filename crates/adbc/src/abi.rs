//! The library's C functions: the entry points that driver managers look up, and the few functions of the table that the
//! crate `adbc_ffi` leaves out or would answer with a panic.
//!
//! Source: `adbc.h` of ADBC 1.1.0 (`AdbcDriverInitFunc`, `AdbcStatementBind`, `AdbcErrorFromArrayStream`), and Arrow's
//! C stream interface.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::mem::{ManuallyDrop, offset_of};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::PoisonError;

use adbc_core::constants::{
    ADBC_ERROR_VENDOR_CODE_PRIVATE_DATA, ADBC_STATUS_OK, ADBC_VERSION_1_0_0, ADBC_VERSION_1_1_0,
};
use adbc_core::error::{AdbcStatusCode, Error, Status};
use adbc_ffi::{FFI_AdbcDriver, FFI_AdbcError, FFI_AdbcStatement, FFIDriver, export_error};
use arrow::array::RecordBatchReader;
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow::ffi_stream::FFI_ArrowArrayStream;

use crate::databases::Driver;
use crate::errors::{invalid, out_of_turn};
use crate::imported;
use crate::reading::{self, Slot};

/// Fills a driver manager's table of functions (`AdbcDriverInitFunc`). Errors: not implemented for a version of the
/// standard that the driver does not know.
///
/// # Safety
///
/// `driver` is null or points to a table of the version, `error` is null or points to an error.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn AdbcDriverHalcyonInit(
    version: c_int,
    driver: *mut c_void,
    error: *mut FFI_AdbcError,
) -> AdbcStatusCode {
    // A table of version 1.0.0 ends where 1.1.0 has the functions for details of errors.
    let bytes = match version {
        ADBC_VERSION_1_0_0 => offset_of!(FFI_AdbcDriver, ErrorGetDetailCount),
        ADBC_VERSION_1_1_0 => size_of::<FFI_AdbcDriver>(),
        _ => {
            let message = format!("version {version} of ADBC");
            // SAFETY: the caller's error.
            return unsafe { failed(error, crate::errors::missing(&message)) };
        }
    };
    if driver.is_null() {
        // SAFETY: the caller's error.
        return unsafe { failed(error, invalid("the table of functions is a null pointer")) };
    }
    let mut table = ManuallyDrop::new(parts());
    table.StatementBind = Some(statement_bind);
    table.StatementBindStream = Some(statement_bind_stream);
    table.StatementExecuteQuery = Some(statement_execute_query);
    table.ErrorFromArrayStream = Some(error_from_array_stream);
    // SAFETY: the caller's table has as many bytes, and takes the functions over; ours is not dropped.
    unsafe {
        ptr::copy_nonoverlapping((&raw const *table).cast::<u8>(), driver.cast::<u8>(), bytes);
    }
    ADBC_STATUS_OK
}

/// The entry point of managers that know the library's name by nothing.
///
/// # Safety
///
/// As for [`AdbcDriverHalcyonInit`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn AdbcDriverInit(
    version: c_int,
    driver: *mut c_void,
    error: *mut FFI_AdbcError,
) -> AdbcStatusCode {
    // SAFETY: the caller's pointers, handed on.
    unsafe { AdbcDriverHalcyonInit(version, driver, error) }
}

/// Tells an error and returns its status.
///
/// # Safety
///
/// `error` is null or points to an error.
unsafe fn failed(error: *mut FFI_AdbcError, told: Error) -> AdbcStatusCode {
    let status = told.status.into();
    // SAFETY: the caller's error.
    unsafe { export_error(error, told) };
    status
}

/// AdbcStatementBind: a batch is a stream of one.
unsafe extern "C" fn statement_bind(
    statement: *mut FFI_AdbcStatement,
    values: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
    error: *mut FFI_AdbcError,
) -> AdbcStatusCode {
    if values.is_null() || schema.is_null() {
        // SAFETY: the caller's error.
        return unsafe { failed(error, invalid("values or their schema are a null pointer")) };
    }
    let take = || -> Result<Box<dyn RecordBatchReader + Send>, Error> {
        let (values, schema) =
            // SAFETY: the caller's structures, which are given to the driver with this call.
            unsafe { (FFI_ArrowArray::from_raw(values), FFI_ArrowSchema::from_raw(schema)) };
        if values.is_released() || schema.release.is_none() {
            return Err(invalid("values or their schema have been released"));
        }
        // SAFETY: the structures are as Arrow's C data interface has them, by the caller's word.
        let batch = unsafe { imported::batch(values, &schema) };
        Ok(reading::of_batch(batch.map_err(|error| invalid(error.to_string()))?))
    };
    // SAFETY: the caller's pointers, handed on.
    unsafe { offer(statement, take(), error) }
}

/// AdbcStatementBindStream.
unsafe extern "C" fn statement_bind_stream(
    statement: *mut FFI_AdbcStatement,
    stream: *mut FFI_ArrowArrayStream,
    error: *mut FFI_AdbcError,
) -> AdbcStatusCode {
    let take = || -> Result<Box<dyn RecordBatchReader + Send>, Error> {
        if stream.is_null() {
            return Err(invalid("the stream is a null pointer"));
        }
        // SAFETY: the caller's stream, which is given to the driver with this call.
        let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream) };
        if stream.release.is_none() || stream.get_schema.is_none() || stream.get_next.is_none() {
            return Err(out_of_turn("the stream has been released"));
        }
        // SAFETY: the stream is as Arrow's C stream interface has it, by the caller's word.
        let stream = unsafe { imported::Stream::new(stream) };
        Ok(Box::new(stream.map_err(|error| invalid(error.to_string()))?))
    };
    // SAFETY: the caller's pointers, handed on.
    unsafe { offer(statement, take(), error) }
}

/// Binds batches that have been taken over.
///
/// # Safety
///
/// `statement` is null or points to a statement, `error` is null or points to an error.
unsafe fn offer(
    statement: *mut FFI_AdbcStatement,
    taken: Result<Box<dyn RecordBatchReader + Send>, Error>,
    error: *mut FFI_AdbcError,
) -> AdbcStatusCode {
    let reader = match taken {
        Ok(reader) => reader,
        // SAFETY: the caller's error.
        Err(told) => return unsafe { failed(error, told) },
    };
    let mut stream = FFI_ArrowArrayStream::new(reader);
    match parts().StatementBindStream {
        // SAFETY: the function looks for null pointers itself; the stream is ours, and empty afterwards.
        Some(bind) => unsafe { bind(statement, &raw mut stream, error) },
        None => Status::NotImplemented.into(),
    }
}

/// AdbcStatementExecuteQuery: with the number of rows that a statement has written, and a stream whose errors keep
/// their SQLSTATE.
unsafe extern "C" fn statement_execute_query(
    statement: *mut FFI_AdbcStatement,
    out: *mut FFI_ArrowArrayStream,
    rows_affected: *mut i64,
    error: *mut FFI_AdbcError,
) -> AdbcStatusCode {
    reading::taken();
    let Some(execute) = parts().StatementExecuteQuery else {
        return Status::NotImplemented.into();
    };
    // SAFETY: the caller's pointers, handed on; the function looks for null pointers itself.
    let status = unsafe { execute(statement, out, rows_affected, error) };
    let left = reading::taken();
    let Some(left) = left.filter(|_| status == ADBC_STATUS_OK && !out.is_null()) else {
        return status;
    };
    let written = left.written.and_then(|rows| i64::try_from(rows).ok());
    if let Some(written) = written.filter(|_| !rows_affected.is_null()) {
        // SAFETY: the caller's number.
        unsafe { rows_affected.write_unaligned(written) };
    }
    // SAFETY: the function above has just put a stream there, which is taken over.
    let inner = unsafe { FFI_ArrowArrayStream::from_raw(out) };
    let error = FFI_AdbcError {
        message: ptr::null_mut(),
        vendor_code: ADBC_ERROR_VENDOR_CODE_PRIVATE_DATA,
        sqlstate: [0; 5],
        release: None,
        private_data: ptr::null_mut(),
        private_driver: ptr::null(),
    };
    let told = Box::new(Told { inner, slot: left.slot, error, status: ADBC_STATUS_OK });
    let stream = FFI_ArrowArrayStream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release),
        private_data: Box::into_raw(told).cast::<c_void>(),
    };
    // SAFETY: the caller's place for a stream, empty since it was taken.
    unsafe { out.write_unaligned(stream) };
    ADBC_STATUS_OK
}

/// The functions of `adbc_ffi`. Its table is given up without its release function, which has nothing to release.
fn parts() -> FFI_AdbcDriver {
    <Driver as FFIDriver>::ffi_driver()
}

/// A stream, and the error that ended it.
struct Told {
    inner: FFI_ArrowArrayStream,
    slot: Slot,
    /// The error as C has it, once it was asked for; it lives as long as the stream.
    error: FFI_AdbcError,
    status: AdbcStatusCode,
}

/// The parts of a stream of ours; `None` if it was released.
///
/// # Safety
///
/// `stream` is null or points to a stream that [`statement_execute_query`] has made; nobody else works with it now.
unsafe fn told<'a>(stream: *mut FFI_ArrowArrayStream) -> Option<&'a mut Told> {
    // SAFETY: as the caller says; the private data of our streams is a `Told`, or null after the release.
    unsafe { stream.as_mut().and_then(|stream| stream.private_data.cast::<Told>().as_mut()) }
}

const EINVAL: c_int = 22;

unsafe extern "C" fn get_schema(
    stream: *mut FFI_ArrowArrayStream,
    out: *mut FFI_ArrowSchema,
) -> c_int {
    // SAFETY: a stream of ours, called by its own pointer.
    match unsafe { told(stream) }.map(|told| (told.inner.get_schema, &raw mut told.inner)) {
        // SAFETY: the inner stream's function with the inner stream.
        Some((Some(get), inner)) => unsafe { get(inner, out) },
        _ => EINVAL,
    }
}

unsafe extern "C" fn get_next(
    stream: *mut FFI_ArrowArrayStream,
    out: *mut FFI_ArrowArray,
) -> c_int {
    // SAFETY: a stream of ours, called by its own pointer.
    match unsafe { told(stream) }.map(|told| (told.inner.get_next, &raw mut told.inner)) {
        // SAFETY: the inner stream's function with the inner stream.
        Some((Some(get), inner)) => unsafe { get(inner, out) },
        _ => EINVAL,
    }
}

unsafe extern "C" fn get_last_error(stream: *mut FFI_ArrowArrayStream) -> *const c_char {
    // SAFETY: a stream of ours, called by its own pointer.
    match unsafe { told(stream) }.map(|told| (told.inner.get_last_error, &raw mut told.inner)) {
        // SAFETY: the inner stream's function with the inner stream.
        Some((Some(get), inner)) => unsafe { get(inner) },
        _ => ptr::null(),
    }
}

unsafe extern "C" fn release(stream: *mut FFI_ArrowArrayStream) {
    // SAFETY: a stream of ours, called by its own pointer.
    let Some(stream) = (unsafe { stream.as_mut() }) else { return };
    if !stream.private_data.is_null() {
        // SAFETY: the box that `statement_execute_query` has given away; it is taken back once.
        let told = unsafe { Box::from_raw(stream.private_data.cast::<Told>()) };
        // The end of a statement must not bring the program down.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(told)));
    }
    stream.private_data = ptr::null_mut();
    (stream.get_schema, stream.get_next) = (None, None);
    (stream.get_last_error, stream.release) = (None, None);
}

/// AdbcErrorFromArrayStream: the error that ended a stream of the driver. Null for other streams, and for those without
/// an error.
unsafe extern "C" fn error_from_array_stream(
    stream: *mut FFI_ArrowArrayStream,
    status: *mut AdbcStatusCode,
) -> *const FFI_AdbcError {
    // SAFETY: the caller's stream, of the driver or not.
    let Some(found) = (unsafe { stream.as_ref() }) else { return ptr::null() };
    let is_ours = found
        .release
        .is_some_and(|other| ptr::fn_addr_eq(other, release as unsafe extern "C" fn(_)));
    if !is_ours {
        return ptr::null();
    }
    // SAFETY: a stream of ours, as its release function says.
    let Some(told) = (unsafe { told(stream) }) else { return ptr::null() };
    if let Some(error) = told.slot.lock().unwrap_or_else(PoisonError::into_inner).take() {
        told.status = error.status.into();
        // SAFETY: the error lies in the stream.
        unsafe { export_error(&raw mut told.error, error) };
    }
    if told.status == ADBC_STATUS_OK {
        return ptr::null();
    }
    if !status.is_null() {
        // SAFETY: the caller's status.
        unsafe { status.write_unaligned(told.status) };
    }
    &raw const told.error
}
