//! Python's objects as parameters of statements, and as values of streams.
//!
//! A parameter has the type of its object: INTEGER, BIGINT or NUMERIC for an `int` as it fits, DOUBLE PRECISION for a
//! `float`, and so on. Texts, None and lists of texts have none, so that the statement decides: a `str` may stand for
//! a label of an enumeration or an address.

use halcyon::{Interval, SqlType, Value};
use halcyon_interchange::cells::push_item;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple,
};

use crate::errors::exception;

/// Days from the year 1 to 1970 (`date.toordinal` counts from 1).
const DAYS_BEFORE_1970: i64 = 719_163;

/// A parameter before the statement is known.
#[derive(Clone, Debug)]
pub enum Param {
    /// A value.
    Plain(Value),
    /// A list: its text as an array, and as a document.
    List {
        /// `{1,2}`
        array: String,
        /// `[1,2]`; `None` if it is no document.
        document: Option<String>,
    },
}

impl Param {
    /// The value for a parameter of the statement.
    pub fn value(self, ty: Option<&SqlType>) -> Value {
        match (self, ty) {
            (Param::Plain(value), _) => value,
            (Param::List { document: Some(text), .. }, Some(SqlType::Json | SqlType::Jsonb)) => {
                Value::Text(text)
            }
            (Param::List { array, .. }, _) => Value::Text(array),
        }
    }
}

/// A parameter and its type; `None`: the statement decides.
pub type Typed = (Param, Option<SqlType>);

/// Classes and functions looked up once.
struct Known {
    decimal: Py<PyAny>,
    date: Py<PyAny>,
    time: Py<PyAny>,
    datetime: Py<PyAny>,
    timedelta: Py<PyAny>,
    uuid: Py<PyAny>,
    dumps: Py<PyAny>,
    interval: Py<PyAny>,
    cannot_adapt: Py<PyAny>,
}

static KNOWN: PyOnceLock<Known> = PyOnceLock::new();

fn known(py: Python<'_>) -> PyResult<&'static Known> {
    KNOWN.get_or_try_init(py, || {
        let get = |module: &str, name: &str| -> PyResult<Py<PyAny>> {
            Ok(py.import(module)?.getattr(name)?.unbind())
        };
        Ok(Known {
            decimal: get("decimal", "Decimal")?,
            date: get("datetime", "date")?,
            time: get("datetime", "time")?,
            datetime: get("datetime", "datetime")?,
            timedelta: get("datetime", "timedelta")?,
            uuid: get("uuid", "UUID")?,
            dumps: get("halcyon.types", "dumps")?,
            interval: get("halcyon.types", "Interval")?,
            cannot_adapt: get("halcyon.errors", "cannot_adapt")?,
        })
    })
}

/// The parameters of one run.
pub fn all(given: &Bound<'_, PyAny>) -> PyResult<Vec<Typed>> {
    given.try_iter()?.map(|object| param(&object?)).collect()
}

fn plain(value: Value, ty: SqlType) -> PyResult<Typed> {
    Ok((Param::Plain(value), Some(ty)))
}

/// A parameter. Errors: ProgrammingError for an object of a class that no type of SQL is for, DataError for a number
/// with too many digits.
fn param(object: &Bound<'_, PyAny>) -> PyResult<Typed> {
    let py = object.py();
    if object.is_none() {
        return Ok((Param::Plain(Value::Null), None));
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok((Param::Plain(Value::Text(text.to_cow()?.into_owned())), None));
    }
    if let Ok(truth) = object.cast::<PyBool>() {
        return plain(Value::Bool(truth.is_true()), SqlType::Boolean);
    }
    if object.is_instance_of::<PyInt>() {
        return int(object);
    }
    if let Ok(number) = object.cast::<PyFloat>() {
        return plain(Value::Float64(number.value()), SqlType::Double);
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return plain(Value::Bytes(bytes.as_bytes().to_vec()), SqlType::Bytea);
    }
    if let Ok(bytes) = object.cast::<PyByteArray>() {
        return plain(Value::Bytes(bytes.to_vec()), SqlType::Bytea);
    }
    if object.is_instance_of::<PyDict>() {
        let text: String = known(py)?.dumps.bind(py).call1((object,))?.extract()?;
        return plain(Value::Text(text), SqlType::Jsonb);
    }
    if object.is_instance_of::<PyList>() {
        return list(object);
    }
    let known = known(py)?;
    let is = |class: &Py<PyAny>| object.is_instance(class.bind(py));
    if is(&known.datetime)? {
        let (us, zoned) = moment(object)?;
        return match zoned {
            true => plain(Value::TimestampTz(us), SqlType::TimestampTz),
            false => plain(Value::Timestamp(us), SqlType::Timestamp),
        };
    }
    if is(&known.date)? {
        return plain(Value::Date(days(object)? as i32), SqlType::Date);
    }
    if is(&known.time)? {
        return plain(Value::Time(time_us(object)?), SqlType::Time);
    }
    if is(&known.timedelta)? || is(&known.interval)? {
        return plain(Value::Interval(interval(object)?), SqlType::Interval);
    }
    if is(&known.decimal)? {
        return decimal(object);
    }
    if is(&known.uuid)? {
        let bytes: [u8; 16] = object.getattr("bytes")?.extract()?;
        return plain(Value::Uuid(bytes), SqlType::Uuid);
    }
    // PEP 249's Binary is bytes here; other objects with a buffer are bytes, too, if they say so.
    if object.get_type().name()? == "memoryview" {
        let bytes: Vec<u8> = object.call_method0("tobytes")?.extract()?;
        return plain(Value::Bytes(bytes), SqlType::Bytea);
    }
    // Scalars of numpy and what wraps one.
    if object.hasattr("dtype")? && object.hasattr("item")? {
        let inner = object.call_method0("item")?;
        if !inner.get_type().is(object.get_type()) {
            return param(&inner);
        }
    }
    if object.is_instance_of::<PyTuple>() {
        return list(object);
    }
    Err(PyErr::from_value(known.cannot_adapt.bind(py).call1((object,))?))
}

fn int(object: &Bound<'_, PyAny>) -> PyResult<Typed> {
    match object.extract::<i64>() {
        Ok(value) => match i32::try_from(value) {
            Ok(value) => plain(Value::Int32(value), SqlType::Integer),
            Err(_) => plain(Value::Int64(value), SqlType::BigInt),
        },
        Err(error) if error.is_instance_of::<PyOverflowError>(object.py()) => {
            let text = object.str()?.to_cow()?.into_owned();
            plain(Value::Text(text), SqlType::Decimal { precision: 38, scale: 0 })
        }
        Err(error) => Err(error),
    }
}

fn decimal(object: &Bound<'_, PyAny>) -> PyResult<Typed> {
    let exponent = object.call_method0("as_tuple")?.getattr("exponent")?;
    // NaN and infinities have a letter there; the engine says that it has neither.
    let exponent: i64 = exponent.extract().unwrap_or(0);
    let scale = i8::try_from((-exponent).clamp(0, 38)).expect("at most 38");
    let text: String = object.call_method1("__format__", ("f",))?.extract()?;
    plain(Value::Text(text), SqlType::Decimal { precision: 38, scale })
}

/// A list or tuple: an array, or a document if the statement wants one.
fn list(object: &Bound<'_, PyAny>) -> PyResult<Typed> {
    let py = object.py();
    let (mut array, mut element, mut is_document) = (String::from("{"), None, false);
    for (at, item) in object.try_iter()?.enumerate() {
        let item = item?;
        if at > 0 {
            array.push(',');
        }
        let (param, ty) = match item.is_instance_of::<PyList>() || item.is_instance_of::<PyTuple>()
        {
            // An array has one dimension: lists in lists are documents.
            true => {
                is_document = true;
                continue;
            }
            false => self::param(&item)?,
        };
        let Param::Plain(value) = param else { unreachable!("lists are looked at before") };
        element = wider(element, ty, is_text(&value));
        push_item(&mut array, value.as_ref(), ty);
    }
    array.push('}');
    // Moments and decimals are no documents; the array is what the caller means.
    let document = known(py)?.dumps.bind(py).call1((object,));
    let document = document.ok().map(|text| text.extract::<String>()).transpose()?;
    if is_document {
        let Some(text) = document else {
            return Err(PyErr::from_value(known(py)?.cannot_adapt.bind(py).call1((object,))?));
        };
        return plain(Value::Text(text), SqlType::Jsonb);
    }
    let ty = match element {
        Some(Elements::Of(SqlType::Jsonb)) => {
            let text = document.unwrap_or_default();
            return plain(Value::Text(text), SqlType::Jsonb);
        }
        Some(Elements::Of(ty)) => ty.array_of(),
        Some(Elements::Untyped) | None => None,
    };
    // A list of numbers may be a document too, if the statement has a column of them: no type then would be right,
    // but `SELECT $1` would be a text. The type is given, and assignments convert.
    Ok((Param::List { array, document }, ty))
}

fn is_text(value: &Value) -> bool {
    matches!(value, Value::Text(_))
}

/// The type of a list's elements so far.
#[derive(Clone, Copy)]
enum Elements {
    /// All of this type, or NULL.
    Of(SqlType),
    /// Texts, or of different types.
    Untyped,
}

fn wider(so_far: Option<Elements>, ty: Option<SqlType>, is_text: bool) -> Option<Elements> {
    use SqlType::{BigInt, Decimal, Double, Integer};
    Some(match (so_far, ty) {
        (so_far, None) if !is_text => return so_far,
        (_, None) => Elements::Untyped,
        (None, Some(ty)) => Elements::Of(ty),
        (Some(Elements::Of(known)), Some(ty)) if known == ty => Elements::Of(ty),
        (Some(Elements::Of(known)), Some(ty)) => match (known, ty) {
            (Integer, BigInt) | (BigInt, Integer) => Elements::Of(BigInt),
            (Double, Integer | BigInt) | (Integer | BigInt, Double) => Elements::Of(Double),
            (Decimal { scale: a, .. }, Decimal { scale: b, .. }) => {
                Elements::Of(Decimal { precision: 38, scale: a.max(b) })
            }
            (number @ Decimal { .. }, Integer | BigInt)
            | (Integer | BigInt, number @ Decimal { .. }) => Elements::Of(number),
            _ => Elements::Untyped,
        },
        (Some(Elements::Untyped), _) => Elements::Untyped,
    })
}

/// Days since 1970-01-01.
fn days(object: &Bound<'_, PyAny>) -> PyResult<i64> {
    Ok(object.call_method0("toordinal")?.extract::<i64>()? - DAYS_BEFORE_1970)
}

fn number(object: &Bound<'_, PyAny>, name: &str) -> PyResult<i64> {
    object.getattr(name)?.extract()
}

fn time_us(object: &Bound<'_, PyAny>) -> PyResult<i64> {
    let seconds =
        (number(object, "hour")? * 60 + number(object, "minute")?) * 60 + number(object, "second")?;
    Ok(seconds * 1_000_000 + number(object, "microsecond")?)
}

/// Microseconds since 1970, in UTC if the object has a zone, and whether it has.
fn moment(object: &Bound<'_, PyAny>) -> PyResult<(i64, bool)> {
    let local = days(object)? * 86_400_000_000 + time_us(object)?;
    let offset = object.call_method0("utcoffset")?;
    match offset.is_none() {
        true => Ok((local, false)),
        false => Ok((local - timedelta_us(&offset)?, true)),
    }
}

fn timedelta_us(object: &Bound<'_, PyAny>) -> PyResult<i64> {
    let (days, seconds) = (number(object, "days")?, number(object, "seconds")?);
    Ok((days * 86_400 + seconds) * 1_000_000 + number(object, "microseconds")?)
}

/// A `timedelta` or an `Interval`.
fn interval(object: &Bound<'_, PyAny>) -> PyResult<Interval> {
    let months: i32 = match object.hasattr("months")? {
        true => object.getattr("months")?.extract()?,
        false => 0,
    };
    let seconds = match object.hasattr("seconds")? {
        true => number(object, "seconds")?,
        false => 0,
    };
    let us = seconds
        .checked_mul(1_000_000)
        .and_then(|us| us.checked_add(number(object, "microseconds").ok()?));
    let nanos = us.and_then(|us| us.checked_mul(1000));
    let days: i32 = object.getattr("days")?.extract()?;
    nanos.map(|nanos| Interval { months, days, nanos }).ok_or_else(|| {
        PyOverflowError::new_err("the interval has more microseconds than INTERVAL can hold")
    })
}

/// A value of exactly this type, for streams. Errors: DataError and the like, as of a parameter.
pub fn exact(object: &Bound<'_, PyAny>, ty: SqlType) -> PyResult<Value> {
    let (param, found) = param(object)?;
    let value = param.value(Some(&ty));
    Ok(match (value, ty) {
        (Value::Int32(v), SqlType::BigInt) => Value::Int64(v.into()),
        (Value::Int32(v), SqlType::SmallInt) if i16::try_from(v).is_ok() => Value::Int16(v as i16),
        (Value::Int32(v), SqlType::Double) => Value::Float64(v.into()),
        (Value::Float64(v), SqlType::Real) => Value::Float32(v as f32),
        (Value::Text(text), wanted) if !matches!(wanted, SqlType::Text | SqlType::Varchar(_)) => {
            let read = halcyon::arrays::element(&text, wanted);
            read.map_err(|error| exception(object.py(), &error))?
        }
        (value, wanted @ SqlType::Decimal { .. }) if found.is_some() => {
            let text =
                halcyon::TextFormat::default().text(value.as_ref(), found.expect("just looked"));
            let read = halcyon::arrays::element(&text, wanted);
            read.map_err(|error| exception(object.py(), &error))?
        }
        (value, _) => value,
    })
}
