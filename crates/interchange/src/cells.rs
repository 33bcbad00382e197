//! Cells of Arrow's arrays as values of SQL.

use arrow::array::{Array, AsArray};
use arrow::datatypes::*;
use halcyon::{Interval, SqlType, TextFormat, ValueRef};

/// The value of a cell of an array in one of the types that results have.
pub fn cell(array: &dyn Array, row: usize) -> ValueRef<'_> {
    if array.is_null(row) {
        return ValueRef::Null;
    }
    match array.data_type() {
        DataType::Boolean => ValueRef::Bool(array.as_boolean().value(row)),
        DataType::Int16 => ValueRef::Int16(array.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => ValueRef::Int32(array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => ValueRef::Int64(array.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => ValueRef::Float32(array.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => ValueRef::Float64(array.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal128(..) => {
            ValueRef::Decimal(array.as_primitive::<Decimal128Type>().value(row))
        }
        DataType::Utf8View => ValueRef::Text(array.as_string_view().value(row)),
        DataType::BinaryView => ValueRef::Bytes(array.as_binary_view().value(row)),
        DataType::Date32 => ValueRef::Date(array.as_primitive::<Date32Type>().value(row)),
        DataType::Time64(_) => {
            ValueRef::Time(array.as_primitive::<Time64MicrosecondType>().value(row))
        }
        DataType::Timestamp(_, zone) => {
            let us = array.as_primitive::<TimestampMicrosecondType>().value(row);
            match zone {
                None => ValueRef::Timestamp(us),
                Some(_) => ValueRef::TimestampTz(us),
            }
        }
        DataType::Interval(_) => {
            let value = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            let IntervalMonthDayNano { months, days, nanoseconds } = value;
            ValueRef::Interval(Interval { months, days, nanos: nanoseconds })
        }
        DataType::FixedSizeBinary(16) => {
            let bytes = array.as_fixed_size_binary().value(row);
            ValueRef::Uuid(bytes.try_into().expect("sixteen bytes"))
        }
        _ => ValueRef::Null,
    }
}

/// Appends an element of a type to an array's text (`{"a","b"`).
pub fn push_item(out: &mut String, value: ValueRef<'_>, ty: Option<SqlType>) {
    let text = match value {
        ValueRef::Null => return out.push_str("NULL"),
        ValueRef::Text(text) => text.to_owned(),
        value => TextFormat::default().text(value, ty.unwrap_or(SqlType::Text)),
    };
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
}
