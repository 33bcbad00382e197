//! Cells of Arrow arrays as values, and back: the border between vectors and rows.
//!
//! Cost: O(1) per cell; strings are lent, not copied.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BinaryViewBuilder, BooleanBuilder, Date32Builder,
    Decimal128Builder, FixedSizeBinaryBuilder, Float32Builder, Float64Builder, Int16Builder,
    Int32Builder, Int64Builder, IntervalMonthDayNanoBuilder, LargeBinaryBuilder,
    LargeStringBuilder, ListArray, StringViewBuilder, Time64MicrosecondBuilder,
    TimestampMicrosecondBuilder, TimestampSecondBuilder,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Decimal128Type, Decimal256Type, Field,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::ScalarValue;
use halcyon_store::{Interval, Value, ValueRef};
use halcyon_value::calendar::DAY_US;
use halcyon_value::{array, network};

use crate::enums;
use crate::error::{Result, SqlError, SqlState};
use crate::types::{Element, SqlType, TYPE_KEY};

/// Milliseconds of a day.
const DAY_MS: i64 = DAY_US / 1_000;

/// The SQL type of an Arrow field: what its metadata says, if that lies in the same way.
///
/// `None`: structs, lists of lists and other types that only Arrow has.
pub fn sql_type_of(field: &Field) -> Option<SqlType> {
    let plain = sql_type_of_arrow(field.data_type());
    let named = field.metadata().get(TYPE_KEY).and_then(|name| type_from_name(name));
    match (named, plain) {
        (Some(named), Some(plain)) if named.arrow() == plain.arrow() => Some(named),
        (_, plain) => plain,
    }
}

/// The SQL type that an Arrow type stands for when nothing else is known.
pub fn sql_type_of_arrow(ty: &DataType) -> Option<SqlType> {
    Some(match ty {
        DataType::Boolean => SqlType::Boolean,
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => SqlType::SmallInt,
        DataType::UInt16 | DataType::Int32 => SqlType::Integer,
        DataType::UInt32 | DataType::Int64 | DataType::Duration(_) => SqlType::BigInt,
        DataType::UInt64 => SqlType::Decimal { precision: 20, scale: 0 },
        DataType::Float16 | DataType::Float32 => SqlType::Real,
        DataType::Float64 => SqlType::Double,
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale) => {
            SqlType::Decimal { precision: *precision, scale: *scale }
        }
        DataType::Decimal256(_, scale) => SqlType::Decimal { precision: 38, scale: *scale },
        DataType::Utf8 | DataType::Utf8View | DataType::Null => SqlType::Text,
        DataType::LargeUtf8 => SqlType::Json,
        DataType::LargeBinary => SqlType::Jsonb,
        DataType::Binary | DataType::BinaryView => SqlType::Bytea,
        DataType::Date32 | DataType::Date64 => SqlType::Date,
        DataType::Time32(_) | DataType::Time64(_) => SqlType::Time,
        DataType::Timestamp(_, None) => SqlType::Timestamp,
        ty if let Some(id) = enums::of_arrow(ty) => SqlType::Enum(id),
        DataType::Timestamp(_, Some(_)) => SqlType::TimestampTz,
        DataType::Interval(_) => SqlType::Interval,
        DataType::FixedSizeBinary(16) => SqlType::Uuid,
        DataType::FixedSizeBinary(width) => address_of_width(*width)?,
        DataType::Dictionary(_, value) => return sql_type_of_arrow(value),
        DataType::List(item) => return sql_type_of(item)?.array_of(),
        _ => return None,
    })
}

/// The type of addresses whose vectors have cells of so many bytes.
fn address_of_width(width: i32) -> Option<SqlType> {
    let types = [SqlType::Inet, SqlType::Cidr, SqlType::MacAddr];
    types.into_iter().find(|ty| ty.arrow() == DataType::FixedSizeBinary(width))
}

/// Addresses, as segments have them, as a vector of their type has them.
pub fn addresses(stored: &BinaryViewArray, ty: SqlType) -> ArrayRef {
    let mut writer = ArrayWriter::new(ty, stored.len());
    for address in stored {
        writer.push(address.map_or(ValueRef::Null, ValueRef::Bytes)).expect("addresses are bytes");
    }
    writer.finish()
}

/// An address, as segments have it, as a constant of its type in vectors.
///
/// Panics: if `ty` is no type of addresses.
pub fn address_scalar(value: &[u8], ty: &DataType) -> ScalarValue {
    let DataType::FixedSizeBinary(width) = *ty else { panic!("addresses are no {ty}") };
    ScalarValue::FixedSizeBinary(width, Some(network::widened(value, width as usize)))
}

/// The inverse of [`SqlType`]'s `Display`, for the types that Arrow cannot tell apart.
fn type_from_name(name: &str) -> Option<SqlType> {
    if name == "oid[]" {
        return Some(SqlType::Array(Element::OID));
    }
    if let Some(element) = name.strip_suffix("[]") {
        return type_from_name(element)?.array_of();
    }
    let (word, length) = match name.strip_suffix(')').and_then(|rest| rest.split_once('(')) {
        Some((word, length)) => (word, length.parse().ok()),
        None => (name, None),
    };
    match word {
        "oid" => Some(SqlType::Oid),
        "character" => Some(SqlType::Char(length)),
        "character varying" => Some(SqlType::Varchar(length)),
        "text" => Some(SqlType::Text),
        _ => None,
    }
}

/// The cell of an array. Panics: if `row` is out of range.
///
/// `None`: the array's type has no SQL value that could be lent: lists ([`stored`] makes them values) and
/// structs.
pub fn value_at(array: &dyn Array, row: usize) -> Option<ValueRef<'_>> {
    if array.is_null(row) {
        return Some(ValueRef::Null);
    }
    fn cell<T: ArrowPrimitiveType>(array: &dyn Array, row: usize) -> T::Native {
        array.as_primitive::<T>().value(row)
    }
    Some(match array.data_type() {
        DataType::Null => ValueRef::Null,
        DataType::Boolean => ValueRef::Bool(array.as_boolean().value(row)),
        DataType::Int8 => ValueRef::Int16(cell::<Int8Type>(array, row).into()),
        DataType::UInt8 => ValueRef::Int16(cell::<UInt8Type>(array, row).into()),
        DataType::Int16 => ValueRef::Int16(cell::<Int16Type>(array, row)),
        DataType::UInt16 => ValueRef::Int32(cell::<UInt16Type>(array, row).into()),
        DataType::Int32 => ValueRef::Int32(cell::<Int32Type>(array, row)),
        DataType::UInt32 => ValueRef::Int64(cell::<UInt32Type>(array, row).into()),
        DataType::Int64 => ValueRef::Int64(cell::<Int64Type>(array, row)),
        DataType::UInt64 => ValueRef::Decimal(cell::<UInt64Type>(array, row).into()),
        DataType::Float32 => ValueRef::Float32(cell::<Float32Type>(array, row)),
        DataType::Float64 => ValueRef::Float64(cell::<Float64Type>(array, row)),
        DataType::Decimal128(..) => ValueRef::Decimal(cell::<Decimal128Type>(array, row)),
        DataType::Decimal256(..) => {
            ValueRef::Decimal(cell::<Decimal256Type>(array, row).to_i128().unwrap_or(i128::MAX))
        }
        DataType::Utf8 => ValueRef::Text(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => ValueRef::Text(array.as_string::<i64>().value(row)),
        DataType::Utf8View => ValueRef::Text(array.as_string_view().value(row)),
        DataType::Binary => ValueRef::Bytes(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => ValueRef::Bytes(array.as_binary::<i64>().value(row)),
        DataType::BinaryView => ValueRef::Bytes(array.as_binary_view().value(row)),
        DataType::Date32 => ValueRef::Date(cell::<Date32Type>(array, row)),
        DataType::Date64 => ValueRef::Date((cell::<Date64Type>(array, row) / DAY_MS) as i32),
        DataType::Time64(TimeUnit::Microsecond) => {
            ValueRef::Time(cell::<Time64MicrosecondType>(array, row))
        }
        DataType::Time64(_) => ValueRef::Time(cell::<Time64NanosecondType>(array, row) / 1_000),
        ty if enums::of_arrow(ty).is_some() => {
            ValueRef::Int64(cell::<TimestampSecondType>(array, row))
        }
        DataType::Timestamp(unit, zone) => {
            // Within lists and rows, moments of other units than SQL's may lie beyond its range.
            let us = match unit {
                TimeUnit::Second => {
                    cell::<TimestampSecondType>(array, row).saturating_mul(1_000_000)
                }
                TimeUnit::Millisecond => {
                    cell::<TimestampMillisecondType>(array, row).saturating_mul(1_000)
                }
                TimeUnit::Microsecond => cell::<TimestampMicrosecondType>(array, row),
                TimeUnit::Nanosecond => {
                    cell::<TimestampNanosecondType>(array, row).div_euclid(1_000)
                }
            };
            if zone.is_some() { ValueRef::TimestampTz(us) } else { ValueRef::Timestamp(us) }
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let value = cell::<IntervalMonthDayNanoType>(array, row);
            ValueRef::Interval(Interval {
                months: value.months,
                days: value.days,
                nanos: value.nanoseconds,
            })
        }
        DataType::FixedSizeBinary(16) => {
            let bytes = array.as_fixed_size_binary().value(row);
            ValueRef::Uuid(bytes.try_into().expect("sixteen bytes"))
        }
        DataType::FixedSizeBinary(width) if address_of_width(*width).is_some() => {
            ValueRef::Bytes(network::narrowed(array.as_fixed_size_binary().value(row)))
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            return value_at(dictionary.values().as_ref(), dictionary.normalized_keys()[row]);
        }
        _ => return None,
    })
}

/// A value as DataFusion's constant of a type.
pub fn to_scalar(value: ValueRef<'_>, ty: SqlType) -> ScalarValue {
    let null = || ScalarValue::try_from(ty.arrow()).expect("every SQL type has a NULL");
    match (value, ty) {
        (ValueRef::Null, _) => null(),
        (ValueRef::Bool(value), _) => ScalarValue::Boolean(Some(value)),
        (ValueRef::Int16(value), _) => ScalarValue::Int16(Some(value)),
        (ValueRef::Int32(value), _) => ScalarValue::Int32(Some(value)),
        (ValueRef::Int64(value), SqlType::Enum(id)) => {
            ScalarValue::TimestampSecond(Some(value), Some(id.zone()))
        }
        (ValueRef::Int64(value), _) => ScalarValue::Int64(Some(value)),
        (ValueRef::Float32(value), _) => ScalarValue::Float32(Some(value)),
        (ValueRef::Float64(value), _) => ScalarValue::Float64(Some(value)),
        (ValueRef::Decimal(value), SqlType::Decimal { precision, scale }) => {
            ScalarValue::Decimal128(Some(value), precision, scale)
        }
        (ValueRef::Decimal(value), _) => ScalarValue::Decimal128(Some(value), 38, 0),
        (ValueRef::Text(value), SqlType::Json) => ScalarValue::LargeUtf8(Some(value.to_owned())),
        (ValueRef::Text(value), _) => ScalarValue::Utf8View(Some(value.to_owned())),
        (ValueRef::Bytes(value), SqlType::Jsonb) => ScalarValue::LargeBinary(Some(value.to_vec())),
        (ValueRef::Bytes(value), SqlType::Array(element)) => {
            let lists = lists([Some(value)].into_iter(), element);
            ScalarValue::List(Arc::new(lists))
        }
        (ValueRef::Bytes(value), ty) if ty.is_address() => address_scalar(value, &ty.arrow()),
        (ValueRef::Bytes(value), _) => ScalarValue::BinaryView(Some(value.to_vec())),
        (ValueRef::Date(value), _) => ScalarValue::Date32(Some(value)),
        (ValueRef::Time(value), _) => ScalarValue::Time64Microsecond(Some(value)),
        (ValueRef::Timestamp(value), _) => ScalarValue::TimestampMicrosecond(Some(value), None),
        (ValueRef::TimestampTz(value), _) => {
            ScalarValue::TimestampMicrosecond(Some(value), Some("+00:00".into()))
        }
        (ValueRef::Interval(value), _) => ScalarValue::IntervalMonthDayNano(Some(arrow(value))),
        (ValueRef::Uuid(value), _) => ScalarValue::FixedSizeBinary(16, Some(value.to_vec())),
    }
}

fn arrow(value: Interval) -> IntervalMonthDayNano {
    IntervalMonthDayNano::new(value.months, value.days, value.nanos)
}

/// A constant of DataFusion as a value. `None`: its type has no SQL value.
pub fn from_scalar(scalar: &ScalarValue) -> Option<Value> {
    let array = stored(&scalar.to_array().ok()?);
    value_at(array.as_ref(), 0).map(|value| value.to_owned())
}

/// A column whose cells can be lent as values: a list of values becomes the bytes of arrays, as
/// `halcyon_value::array` says, labels become their positions, addresses the bytes that segments have. All else
/// stays.
pub fn stored(column: &ArrayRef) -> ArrayRef {
    if enums::of_arrow(column.data_type()).is_some() {
        return Arc::new(
            column.as_primitive::<TimestampSecondType>().reinterpret_cast::<Int64Type>(),
        );
    }
    if let DataType::FixedSizeBinary(width) = column.data_type()
        && address_of_width(*width).is_some()
    {
        let mut out = BinaryViewBuilder::with_capacity(column.len());
        for cell in column.as_fixed_size_binary() {
            out.append_option(cell.map(network::narrowed));
        }
        return Arc::new(out.finish());
    }
    let (DataType::List(item), Some(lists)) = (column.data_type(), column.as_list_opt::<i32>())
    else {
        return Arc::clone(column);
    };
    if sql_type_of(item).and_then(Element::of).is_none() {
        return Arc::clone(column);
    }
    let items = lists.values().as_ref();
    let mut out = BinaryViewBuilder::with_capacity(lists.len());
    let mut bytes = Vec::new();
    for row in 0..lists.len() {
        if lists.is_null(row) {
            out.append_null();
            continue;
        }
        bytes.clear();
        let offsets = lists.value_offsets();
        for at in offsets[row] as usize..offsets[row + 1] as usize {
            array::push(&mut bytes, value_at(items, at).unwrap_or(ValueRef::Null));
        }
        out.append_value(&bytes);
    }
    Arc::new(out.finish())
}

/// Arrays from their bytes, the inverse of [`stored`]; `None` is NULL.
pub fn lists<'a>(arrays: impl Iterator<Item = Option<&'a [u8]>>, element: Element) -> ListArray {
    let ty = element.ty();
    let mut items = ArrayWriter::new(ty, 0);
    let (mut ends, mut validity) = (vec![0], Vec::new());
    let mut count = 0;
    for array in arrays {
        validity.push(array.is_some());
        let pushed = array::each(array.unwrap_or_default(), ty.storage(), |value| {
            count += 1;
            items.push(value)
        });
        pushed.expect("values of the type");
        ends.push(count);
    }
    let nulls = validity.contains(&false).then(|| NullBuffer::from(validity));
    let offsets = OffsetBuffer::new(ends.into());
    ListArray::new(element.item(), offsets, items.finish(), nulls)
}

/// Collects values of one SQL type into an array.
pub enum ArrayWriter {
    #[allow(missing_docs)]
    Bool(BooleanBuilder),
    #[allow(missing_docs)]
    Int16(Int16Builder),
    #[allow(missing_docs)]
    Int32(Int32Builder),
    #[allow(missing_docs)]
    Int64(Int64Builder),
    #[allow(missing_docs)]
    Float32(Float32Builder),
    #[allow(missing_docs)]
    Float64(Float64Builder),
    #[allow(missing_docs)]
    Decimal(Decimal128Builder),
    #[allow(missing_docs)]
    Text(StringViewBuilder),
    #[allow(missing_docs)]
    Bytes(BinaryViewBuilder),
    #[allow(missing_docs)]
    Date(Date32Builder),
    #[allow(missing_docs)]
    Time(Time64MicrosecondBuilder),
    #[allow(missing_docs)]
    Timestamp(TimestampMicrosecondBuilder),
    #[allow(missing_docs)]
    Interval(IntervalMonthDayNanoBuilder),
    #[allow(missing_docs)]
    Uuid(FixedSizeBinaryBuilder),
    /// Addresses, and the bytes that each has here.
    Address(FixedSizeBinaryBuilder, usize),
    #[allow(missing_docs)]
    Json(LargeStringBuilder),
    #[allow(missing_docs)]
    Jsonb(LargeBinaryBuilder),
    #[allow(missing_docs)]
    Enum(TimestampSecondBuilder),
    /// The bytes of arrays, to be made [`lists`].
    Array(BinaryViewBuilder, Element),
}

impl ArrayWriter {
    /// An empty array of `ty` with room for `rows`.
    pub fn new(ty: SqlType, rows: usize) -> Self {
        let timestamp =
            || TimestampMicrosecondBuilder::with_capacity(rows).with_data_type(ty.arrow());
        match ty {
            SqlType::Boolean => ArrayWriter::Bool(BooleanBuilder::with_capacity(rows)),
            SqlType::SmallInt => ArrayWriter::Int16(Int16Builder::with_capacity(rows)),
            SqlType::Integer | SqlType::Oid => {
                ArrayWriter::Int32(Int32Builder::with_capacity(rows))
            }
            SqlType::BigInt => ArrayWriter::Int64(Int64Builder::with_capacity(rows)),
            SqlType::Real => ArrayWriter::Float32(Float32Builder::with_capacity(rows)),
            SqlType::Double => ArrayWriter::Float64(Float64Builder::with_capacity(rows)),
            SqlType::Decimal { .. } => ArrayWriter::Decimal(
                Decimal128Builder::with_capacity(rows).with_data_type(ty.arrow()),
            ),
            SqlType::Char(_) | SqlType::Varchar(_) | SqlType::Text => {
                ArrayWriter::Text(StringViewBuilder::with_capacity(rows))
            }
            SqlType::Bytea => ArrayWriter::Bytes(BinaryViewBuilder::with_capacity(rows)),
            SqlType::Date => ArrayWriter::Date(Date32Builder::with_capacity(rows)),
            SqlType::Time => ArrayWriter::Time(Time64MicrosecondBuilder::with_capacity(rows)),
            SqlType::Timestamp | SqlType::TimestampTz => ArrayWriter::Timestamp(timestamp()),
            SqlType::Interval => {
                ArrayWriter::Interval(IntervalMonthDayNanoBuilder::with_capacity(rows))
            }
            SqlType::Uuid => ArrayWriter::Uuid(FixedSizeBinaryBuilder::with_capacity(rows, 16)),
            SqlType::Json => ArrayWriter::Json(LargeStringBuilder::with_capacity(rows, 0)),
            SqlType::Jsonb => ArrayWriter::Jsonb(LargeBinaryBuilder::with_capacity(rows, 0)),
            SqlType::Array(element) => {
                ArrayWriter::Array(BinaryViewBuilder::with_capacity(rows), element)
            }
            SqlType::Enum(_) => {
                let builder = TimestampSecondBuilder::with_capacity(rows);
                ArrayWriter::Enum(builder.with_data_type(ty.arrow()))
            }
            SqlType::Inet | SqlType::Cidr | SqlType::MacAddr => {
                let DataType::FixedSizeBinary(width) = ty.arrow() else {
                    unreachable!("addresses have one width")
                };
                let builder = FixedSizeBinaryBuilder::with_capacity(rows, width);
                ArrayWriter::Address(builder, width as usize)
            }
        }
    }

    /// As [`ArrayWriter::new`], but arrays and addresses stay the bytes, and labels the positions, that
    /// columns store.
    pub fn for_storage(ty: SqlType, rows: usize) -> Self {
        match ty {
            ty if matches!(ty, SqlType::Array(_)) || ty.is_address() => {
                ArrayWriter::Bytes(BinaryViewBuilder::with_capacity(rows))
            }
            SqlType::Enum(_) => ArrayWriter::Int64(Int64Builder::with_capacity(rows)),
            other => ArrayWriter::new(other, rows),
        }
    }

    /// Appends a value of the writer's type or NULL. Errors: 42804 for any other.
    pub fn push(&mut self, value: ValueRef<'_>) -> Result<()> {
        match (self, value) {
            (ArrayWriter::Bool(to), ValueRef::Bool(value)) => to.append_value(value),
            (ArrayWriter::Int16(to), ValueRef::Int16(value)) => to.append_value(value),
            (ArrayWriter::Int32(to), ValueRef::Int32(value)) => to.append_value(value),
            (ArrayWriter::Int64(to), ValueRef::Int64(value)) => to.append_value(value),
            (ArrayWriter::Enum(to), ValueRef::Int64(value)) => to.append_value(value),
            (ArrayWriter::Float32(to), ValueRef::Float32(value)) => to.append_value(value),
            (ArrayWriter::Float64(to), ValueRef::Float64(value)) => to.append_value(value),
            (ArrayWriter::Decimal(to), ValueRef::Decimal(value)) => to.append_value(value),
            (ArrayWriter::Text(to), ValueRef::Text(value)) => to.append_value(value),
            (ArrayWriter::Bytes(to), ValueRef::Bytes(value)) => to.append_value(value),
            (ArrayWriter::Json(to), ValueRef::Text(value)) => to.append_value(value),
            (ArrayWriter::Jsonb(to), ValueRef::Bytes(value)) => to.append_value(value),
            (ArrayWriter::Array(to, _), ValueRef::Bytes(value)) => to.append_value(value),
            (ArrayWriter::Date(to), ValueRef::Date(value)) => to.append_value(value),
            (ArrayWriter::Time(to), ValueRef::Time(value)) => to.append_value(value),
            (
                ArrayWriter::Timestamp(to),
                ValueRef::Timestamp(value) | ValueRef::TimestampTz(value),
            ) => to.append_value(value),
            (ArrayWriter::Interval(to), ValueRef::Interval(value)) => to.append_value(arrow(value)),
            (ArrayWriter::Uuid(to), ValueRef::Uuid(value)) => {
                to.append_value(value).expect("sixteen bytes")
            }
            (ArrayWriter::Address(to, width), ValueRef::Bytes(value)) => {
                to.append_value(network::widened(value, *width)).expect("bytes of the width")
            }
            (to, ValueRef::Null) => to.push_null(),
            (_, other) => {
                return Err(SqlError::new(
                    SqlState::DATATYPE_MISMATCH,
                    format!("a value is not of its column's type: {other:?}"),
                ));
            }
        }
        Ok(())
    }

    fn push_null(&mut self) {
        match self {
            ArrayWriter::Bool(to) => to.append_null(),
            ArrayWriter::Int16(to) => to.append_null(),
            ArrayWriter::Int32(to) => to.append_null(),
            ArrayWriter::Int64(to) => to.append_null(),
            ArrayWriter::Float32(to) => to.append_null(),
            ArrayWriter::Float64(to) => to.append_null(),
            ArrayWriter::Decimal(to) => to.append_null(),
            ArrayWriter::Text(to) => to.append_null(),
            ArrayWriter::Bytes(to) => to.append_null(),
            ArrayWriter::Date(to) => to.append_null(),
            ArrayWriter::Time(to) => to.append_null(),
            ArrayWriter::Timestamp(to) => to.append_null(),
            ArrayWriter::Interval(to) => to.append_null(),
            ArrayWriter::Uuid(to) | ArrayWriter::Address(to, _) => to.append_null(),
            ArrayWriter::Json(to) => to.append_null(),
            ArrayWriter::Jsonb(to) => to.append_null(),
            ArrayWriter::Array(to, _) => to.append_null(),
            ArrayWriter::Enum(to) => to.append_null(),
        }
    }

    /// The array.
    pub fn finish(&mut self) -> ArrayRef {
        match self {
            ArrayWriter::Bool(to) => Arc::new(to.finish()),
            ArrayWriter::Int16(to) => Arc::new(to.finish()),
            ArrayWriter::Int32(to) => Arc::new(to.finish()),
            ArrayWriter::Int64(to) => Arc::new(to.finish()),
            ArrayWriter::Float32(to) => Arc::new(to.finish()),
            ArrayWriter::Float64(to) => Arc::new(to.finish()),
            ArrayWriter::Decimal(to) => Arc::new(to.finish()),
            ArrayWriter::Text(to) => Arc::new(to.finish()),
            ArrayWriter::Bytes(to) => Arc::new(to.finish()),
            ArrayWriter::Date(to) => Arc::new(to.finish()),
            ArrayWriter::Time(to) => Arc::new(to.finish()),
            ArrayWriter::Timestamp(to) => Arc::new(to.finish()),
            ArrayWriter::Interval(to) => Arc::new(to.finish()),
            ArrayWriter::Uuid(to) | ArrayWriter::Address(to, _) => Arc::new(to.finish()),
            ArrayWriter::Json(to) => Arc::new(to.finish()),
            ArrayWriter::Jsonb(to) => Arc::new(to.finish()),
            ArrayWriter::Enum(to) => Arc::new(to.finish()),
            ArrayWriter::Array(to, element) => Arc::new(lists(to.finish().iter(), *element)),
        }
    }
}

/// A type as errors about operators name it.
pub fn shown_type(ty: &DataType) -> String {
    match sql_type_of_arrow(ty) {
        Some(SqlType::Decimal { .. }) => "numeric".to_owned(),
        Some(ty) => ty.to_string(),
        None => match ty {
            DataType::Null => "unknown".to_owned(),
            DataType::List(item) => format!("{}[]", shown_type(item.data_type())),
            DataType::Struct(_) => "record".to_owned(),
            other => other.to_string().to_lowercase(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_the_way_through_arrays_and_scalars() {
        let interval = Interval { months: 1, days: -2, nanos: 3 };
        let [integers, texts] = [SqlType::Integer, SqlType::Varchar(Some(3))]
            .map(|ty| ty.array_of().expect("an array"));
        for (ty, value) in [
            (SqlType::Boolean, ValueRef::Bool(true)),
            (SqlType::SmallInt, ValueRef::Int16(-7)),
            (SqlType::Integer, ValueRef::Int32(i32::MIN)),
            (SqlType::BigInt, ValueRef::Int64(i64::MAX)),
            (SqlType::Real, ValueRef::Float32(1.5)),
            (SqlType::Double, ValueRef::Float64(-0.25)),
            (SqlType::Decimal { precision: 10, scale: 2 }, ValueRef::Decimal(12345)),
            (SqlType::Varchar(Some(9)), ValueRef::Text("longer than twelve bytes")),
            (SqlType::Bytea, ValueRef::Bytes(&[0, 255])),
            (SqlType::Date, ValueRef::Date(-1)),
            (SqlType::Time, ValueRef::Time(1)),
            (SqlType::Timestamp, ValueRef::Timestamp(-1)),
            (SqlType::TimestampTz, ValueRef::TimestampTz(1)),
            (SqlType::Interval, ValueRef::Interval(interval)),
            (SqlType::Uuid, ValueRef::Uuid([7; 16])),
            (SqlType::Json, ValueRef::Text("[1 ]")),
            (SqlType::Jsonb, ValueRef::Bytes(&[8])),
            (integers, ValueRef::Bytes(&[1, 128, 0, 0, 7, 2])),
            (texts, ValueRef::Bytes(&[1, b'a', 0, 0])),
            (texts, ValueRef::Bytes(&[])),
        ] {
            let mut writer = ArrayWriter::new(ty, 2);
            writer.push(value).expect("of the type");
            writer.push(ValueRef::Null).expect("NULL");
            let array = writer.finish();
            assert_eq!(array.data_type(), &ty.arrow());
            let array = stored(&array);
            let shown = |value: Option<ValueRef<'_>>| format!("{value:?}");
            assert_eq!(shown(value_at(array.as_ref(), 0)), shown(Some(value)));
            assert_eq!(shown(value_at(array.as_ref(), 1)), shown(Some(ValueRef::Null)));
            let scalar = to_scalar(value, ty);
            assert_eq!(scalar.data_type(), ty.arrow());
            assert_eq!(
                from_scalar(&scalar).map(|v| format!("{v:?}")),
                Some(format!("{:?}", value.to_owned()))
            );
            assert_eq!(sql_type_of(&ty.field("c", true)), Some(ty));
        }
    }
}
