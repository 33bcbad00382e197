//! Conversion of DataFusion's scalars to values and back, and of its errors.

use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, ScalarValue};
use halcyon_sql::error::{Result, SqlError};
use halcyon_sql::types::SqlType;
use halcyon_sql::values::{address_scalar, from_scalar, sql_type_of_arrow, to_scalar};
use halcyon_store::{Interval, Value, ValueRef};

/// The error of an expression that cannot be evaluated row by row.
pub(super) fn not_ours(what: impl std::fmt::Display) -> SqlError {
    SqlError::unsupported(format!("row-at-a-time evaluation of {what}"))
}

/// A DataFusion scalar as a value; None if its type has no stored form.
pub(super) fn value_of(scalar: &ScalarValue) -> Option<Value> {
    if scalar.is_null() {
        return Some(Value::Null);
    }
    Some(match scalar {
        ScalarValue::Boolean(Some(value)) => Value::Bool(*value),
        ScalarValue::Int16(Some(value)) => Value::Int16(*value),
        ScalarValue::Int32(Some(value)) => Value::Int32(*value),
        ScalarValue::Int64(Some(value)) => Value::Int64(*value),
        ScalarValue::Float32(Some(value)) => Value::Float32(*value),
        ScalarValue::Float64(Some(value)) => Value::Float64(*value),
        ScalarValue::Decimal128(Some(value), _, _) => Value::Decimal(*value),
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text)) => Value::Text(text.clone()),
        ScalarValue::Binary(Some(bytes))
        | ScalarValue::LargeBinary(Some(bytes))
        | ScalarValue::BinaryView(Some(bytes)) => Value::Bytes(bytes.clone()),
        ScalarValue::Date32(Some(value)) => Value::Date(*value),
        ScalarValue::Time64Microsecond(Some(value)) => Value::Time(*value),
        ScalarValue::TimestampMicrosecond(Some(value), None) => Value::Timestamp(*value),
        ScalarValue::TimestampMicrosecond(Some(value), Some(_)) => Value::TimestampTz(*value),
        ScalarValue::IntervalMonthDayNano(Some(value)) => Value::Interval(Interval {
            months: value.months,
            days: value.days,
            nanos: value.nanoseconds,
        }),
        ScalarValue::FixedSizeBinary(16, Some(bytes)) => {
            Value::Uuid(bytes.as_slice().try_into().ok()?)
        }
        ScalarValue::List(_) | ScalarValue::FixedSizeBinary(_, Some(_)) => {
            return from_scalar(scalar);
        }
        ScalarValue::TimestampSecond(Some(_), _) => match sql_type_of_arrow(&scalar.data_type())? {
            SqlType::Enum(_) => return from_scalar(scalar),
            _ => return None,
        },
        _ => return None,
    })
}

/// A value as a scalar of this Arrow type.
pub(super) fn scalar_of(value: ValueRef<'_>, ty: &DataType) -> Result<ScalarValue> {
    let scalar = match (value, ty) {
        (ValueRef::Null, ty) => ScalarValue::try_from(ty).map_err(error_of)?,
        (ValueRef::Bool(value), _) => ScalarValue::Boolean(Some(value)),
        (ValueRef::Int16(value), _) => ScalarValue::Int16(Some(value)),
        (ValueRef::Int32(value), _) => ScalarValue::Int32(Some(value)),
        (ValueRef::Int64(value), DataType::Timestamp(_, mark)) => {
            ScalarValue::TimestampSecond(Some(value), mark.clone())
        }
        (ValueRef::Int64(value), _) => ScalarValue::Int64(Some(value)),
        (ValueRef::Float32(value), _) => ScalarValue::Float32(Some(value)),
        (ValueRef::Float64(value), _) => ScalarValue::Float64(Some(value)),
        (ValueRef::Decimal(value), DataType::Decimal128(precision, scale)) => {
            ScalarValue::Decimal128(Some(value), *precision, *scale)
        }
        (ValueRef::Text(text), DataType::Utf8) => ScalarValue::Utf8(Some(text.into())),
        (ValueRef::Text(text), DataType::LargeUtf8) => ScalarValue::LargeUtf8(Some(text.into())),
        (ValueRef::Text(text), _) => ScalarValue::Utf8View(Some(text.into())),
        (ValueRef::Bytes(bytes), DataType::Binary) => ScalarValue::Binary(Some(bytes.into())),
        (ValueRef::Bytes(bytes), DataType::LargeBinary) => {
            ScalarValue::LargeBinary(Some(bytes.into()))
        }
        (bytes @ ValueRef::Bytes(_), list @ DataType::List(_)) => {
            let ty = sql_type_of_arrow(list).ok_or_else(|| not_ours(list))?;
            to_scalar(bytes, ty).cast_to(list).map_err(error_of)?
        }
        (ValueRef::Bytes(bytes), ty @ DataType::FixedSizeBinary(_)) => address_scalar(bytes, ty),
        (ValueRef::Bytes(bytes), _) => ScalarValue::BinaryView(Some(bytes.into())),
        (ValueRef::Date(value), _) => ScalarValue::Date32(Some(value)),
        (ValueRef::Time(value), _) => ScalarValue::Time64Microsecond(Some(value)),
        (ValueRef::Timestamp(value), _) => ScalarValue::TimestampMicrosecond(Some(value), None),
        (ValueRef::TimestampTz(value), DataType::Timestamp(_, zone)) => {
            ScalarValue::TimestampMicrosecond(Some(value), zone.clone())
        }
        (ValueRef::Interval(Interval { months, days, nanos }), _) => {
            ScalarValue::new_interval_mdn(months, days, nanos)
        }
        (ValueRef::Uuid(bytes), _) => ScalarValue::FixedSizeBinary(16, Some(bytes.into())),
        (value, ty) => return Err(not_ours(format!("{value:?} as {ty}"))),
    };
    Ok(scalar)
}

/// An error of a kernel in the form in which clients see it.
pub(super) fn error_of(error: DataFusionError) -> SqlError {
    halcyon_sql::diagnose::sql_error(error, "")
}
