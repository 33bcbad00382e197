//! Encodes record batches: the type of each column is looked at once per batch, then its
//! values are read straight from Arrow's buffers.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, PrimitiveArray,
    RecordBatch, StringViewArray,
};
use arrow::datatypes::*;
use bytes::BytesMut;
use halcyon::{Interval, ValueRef};

use super::encode::RowEncoder;

/// A column of a batch by its type. Crate `halcyon` gives columns of SQL's types only.
enum Values<'a> {
    Bool(&'a BooleanArray),
    Int16(&'a PrimitiveArray<Int16Type>),
    Int32(&'a PrimitiveArray<Int32Type>),
    Int64(&'a PrimitiveArray<Int64Type>),
    Float32(&'a PrimitiveArray<Float32Type>),
    Float64(&'a PrimitiveArray<Float64Type>),
    Decimal(&'a PrimitiveArray<Decimal128Type>),
    Text(&'a StringViewArray),
    Bytes(&'a BinaryViewArray),
    Date(&'a PrimitiveArray<Date32Type>),
    Time(&'a PrimitiveArray<Time64MicrosecondType>),
    Timestamp(&'a PrimitiveArray<TimestampMicrosecondType>),
    TimestampTz(&'a PrimitiveArray<TimestampMicrosecondType>),
    Interval(&'a PrimitiveArray<IntervalMonthDayNanoType>),
    Uuid(&'a FixedSizeBinaryArray),
}

impl<'a> Values<'a> {
    fn of(array: &'a ArrayRef) -> Self {
        match array.data_type() {
            DataType::Boolean => Values::Bool(array.as_boolean()),
            DataType::Int16 => Values::Int16(array.as_primitive()),
            DataType::Int32 => Values::Int32(array.as_primitive()),
            DataType::Int64 => Values::Int64(array.as_primitive()),
            DataType::Float32 => Values::Float32(array.as_primitive()),
            DataType::Float64 => Values::Float64(array.as_primitive()),
            DataType::Decimal128(..) => Values::Decimal(array.as_primitive()),
            DataType::Utf8View => Values::Text(array.as_string_view()),
            DataType::BinaryView => Values::Bytes(array.as_binary_view()),
            DataType::Date32 => Values::Date(array.as_primitive()),
            DataType::Time64(TimeUnit::Microsecond) => Values::Time(array.as_primitive()),
            DataType::Timestamp(TimeUnit::Microsecond, None) => {
                Values::Timestamp(array.as_primitive())
            }
            DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => {
                Values::TimestampTz(array.as_primitive())
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                Values::Interval(array.as_primitive())
            }
            DataType::FixedSizeBinary(16) => Values::Uuid(array.as_fixed_size_binary()),
            other => unreachable!("the door gives columns of SQL's types, not {other}"),
        }
    }

    fn value(&self, row: usize) -> ValueRef<'a> {
        macro_rules! value {
            ($array:expr, $variant:ident) => {
                if $array.is_null(row) {
                    ValueRef::Null
                } else {
                    ValueRef::$variant($array.value(row))
                }
            };
        }
        match *self {
            Values::Bool(array) => value!(array, Bool),
            Values::Int16(array) => value!(array, Int16),
            Values::Int32(array) => value!(array, Int32),
            Values::Int64(array) => value!(array, Int64),
            Values::Float32(array) => value!(array, Float32),
            Values::Float64(array) => value!(array, Float64),
            Values::Decimal(array) => value!(array, Decimal),
            Values::Text(array) => value!(array, Text),
            Values::Bytes(array) => value!(array, Bytes),
            Values::Date(array) => value!(array, Date),
            Values::Time(array) => value!(array, Time),
            Values::Timestamp(array) => value!(array, Timestamp),
            Values::TimestampTz(array) => value!(array, TimestampTz),
            Values::Interval(array) if array.is_null(row) => ValueRef::Null,
            Values::Interval(array) => {
                let value = array.value(row);
                ValueRef::Interval(Interval {
                    months: value.months,
                    days: value.days,
                    nanos: value.nanoseconds,
                })
            }
            Values::Uuid(array) if array.is_null(row) => ValueRef::Null,
            Values::Uuid(array) => {
                ValueRef::Uuid(array.value(row).try_into().expect("sixteen bytes"))
            }
        }
    }
}

impl RowEncoder {
    /// Appends rows of `batch` from `from`, at most `rows_max`, until `out` holds `bytes` or more.
    ///
    /// Returns the number of rows appended: at least one, if there is one.
    pub fn batch(
        &mut self,
        out: &mut BytesMut,
        batch: &RecordBatch,
        from: usize,
        rows_max: usize,
        bytes: usize,
    ) -> usize {
        let columns: Vec<_> = batch.columns().iter().map(Values::of).collect();
        let end = batch.num_rows().min(from.saturating_add(rows_max));
        let mut row = from;
        while row < end && (row == from || out.len() < bytes) {
            self.row(out, |column| columns[column].value(row));
            row += 1;
        }
        row - from
    }
}
