//! Values of SQL as Python's objects.

use halcyon::{Interval, SqlType, TextFormat, ValueRef, arrays};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::errors::told;

const DAY_US: i64 = 86_400_000_000;

/// Classes and functions of Python's library and of the package, looked up once.
struct Known {
    decimal: Py<PyAny>,
    date: Py<PyAny>,
    time: Py<PyAny>,
    datetime: Py<PyAny>,
    timedelta: Py<PyAny>,
    utc: Py<PyAny>,
    uuid: Py<PyAny>,
    loads: Py<PyAny>,
    interval: Py<PyAny>,
    out_of_range: Py<PyAny>,
}

static KNOWN: PyOnceLock<Known> = PyOnceLock::new();

fn known(py: Python<'_>) -> PyResult<&'static Known> {
    KNOWN.get_or_try_init(py, || {
        let get = |module: &str, name: &str| -> PyResult<Py<PyAny>> {
            Ok(py.import(module)?.getattr(name)?.unbind())
        };
        let datetime = py.import("datetime")?;
        let utc = datetime.getattr("timezone")?.getattr("utc")?;
        let moment = datetime.getattr("datetime")?;
        Ok(Known {
            decimal: get("decimal", "Decimal")?,
            date: get("datetime", "date")?,
            time: get("datetime", "time")?,
            timedelta: get("datetime", "timedelta")?,
            uuid: get("uuid", "UUID")?,
            loads: get("json", "loads")?,
            interval: get("halcyon.types", "Interval")?,
            out_of_range: get("halcyon.errors", "out_of_range")?,
            datetime: moment.unbind(),
            utc: utc.unbind(),
        })
    })
}

/// A value of a column of this type. Errors: DataError for moments that Python has no object for.
pub fn object<'py>(
    py: Python<'py>,
    value: ValueRef<'_>,
    ty: Option<SqlType>,
) -> PyResult<Bound<'py, PyAny>> {
    let any = |made: Bound<'py, PyAny>| Ok(made);
    match value {
        ValueRef::Null => any(py.None().into_bound(py)),
        ValueRef::Bool(v) => any(v.into_pyobject(py)?.to_owned().into_any()),
        ValueRef::Int16(v) => any(v.into_pyobject(py)?.into_any()),
        ValueRef::Int32(v) => any(v.into_pyobject(py)?.into_any()),
        ValueRef::Int64(v) => any(v.into_pyobject(py)?.into_any()),
        ValueRef::Float32(v) => any(f64::from(v).into_pyobject(py)?.into_any()),
        ValueRef::Float64(v) => any(v.into_pyobject(py)?.into_any()),
        ValueRef::Bytes(v) => any(PyBytes::new(py, v).into_any()),
        ValueRef::Text(v) => of_text(py, v, ty),
        ValueRef::Decimal(v) => {
            let ty = match ty {
                Some(ty @ SqlType::Decimal { .. }) => ty,
                _ => SqlType::Decimal { precision: 38, scale: 0 },
            };
            let text = TextFormat::default().text(ValueRef::Decimal(v), ty);
            known(py)?.decimal.bind(py).call1((text,))
        }
        ValueRef::Uuid(v) => known(py)?.uuid.bind(py).call1((py.None(), PyBytes::new(py, &v))),
        ValueRef::Interval(v) => interval(py, v),
        ValueRef::Date(days) => match civil(i64::from(days)) {
            Some(civil) => known(py)?.date.bind(py).call1(civil),
            None => out_of_range(py, value, SqlType::Date),
        },
        ValueRef::Time(us) if us < DAY_US => {
            let (h, m, s, us) = clock(us);
            known(py)?.time.bind(py).call1((h, m, s, us))
        }
        ValueRef::Time(_) => out_of_range(py, value, SqlType::Time),
        ValueRef::Timestamp(us) => match civil(us.div_euclid(DAY_US)) {
            Some((year, month, day)) => {
                let (h, m, s, us) = clock(us.rem_euclid(DAY_US));
                known(py)?.datetime.bind(py).call1((year, month, day, h, m, s, us))
            }
            None => out_of_range(py, value, SqlType::Timestamp),
        },
        ValueRef::TimestampTz(us) => match civil(us.div_euclid(DAY_US)) {
            Some((year, month, day)) => {
                let (h, m, s, us) = clock(us.rem_euclid(DAY_US));
                let known = known(py)?;
                known.datetime.bind(py).call1((year, month, day, h, m, s, us, &known.utc))
            }
            None => out_of_range(py, value, SqlType::TimestampTz),
        },
    }
}

/// A text: of a document, of an array, or itself.
fn of_text<'py>(py: Python<'py>, text: &str, ty: Option<SqlType>) -> PyResult<Bound<'py, PyAny>> {
    match ty {
        Some(SqlType::Json | SqlType::Jsonb) => known(py)?.loads.bind(py).call1((text,)),
        Some(SqlType::Array(element)) => {
            let list = PyList::empty(py);
            for item in told(py, arrays::parse(text))? {
                list.append(match item {
                    None => py.None().into_bound(py),
                    Some(item) => of_item(py, &item, element.ty())?,
                })?;
            }
            Ok(list.into_any())
        }
        _ => Ok(PyString::new(py, text).into_any()),
    }
}

/// An element of an array, from its text.
fn of_item<'py>(py: Python<'py>, text: &str, ty: SqlType) -> PyResult<Bound<'py, PyAny>> {
    if ty.is_shown_as_text() || matches!(ty, SqlType::Json) {
        return of_text(py, text, Some(ty));
    }
    let value = told(py, arrays::element(text, ty))?;
    object(py, value.as_ref(), Some(ty))
}

fn out_of_range<'py>(
    py: Python<'py>,
    value: ValueRef<'_>,
    ty: SqlType,
) -> PyResult<Bound<'py, PyAny>> {
    let text = TextFormat::default().text(value, ty);
    Err(PyErr::from_value(known(py)?.out_of_range.bind(py).call1((text, ty.to_string()))?))
}

/// A `timedelta`, or an `Interval` if the value has months, which have no length of their own.
fn interval<'py>(py: Python<'py>, value: Interval) -> PyResult<Bound<'py, PyAny>> {
    let us = value.nanos / 1000;
    match value.months {
        0 => known(py)?.timedelta.bind(py).call1((value.days, 0, us)),
        months => known(py)?.interval.bind(py).call1((months, value.days, us)),
    }
}

/// Hours, minutes, seconds and microseconds.
fn clock(us: i64) -> (i64, i64, i64, i64) {
    let seconds = us / 1_000_000;
    (seconds / 3600, seconds / 60 % 60, seconds % 60, us % 1_000_000)
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar; `None` beyond Python's years 1 to
/// 9999. Source: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn civil(days: i64) -> Option<(i64, i64, i64)> {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_shifted + 2) / 5 + 1;
    let month = if month_shifted < 10 { month_shifted + 3 } else { month_shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (1..=9999).contains(&year).then_some((year, month, day))
}
