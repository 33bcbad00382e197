//! Codes: numbers without sign that compare as values do.
//!
//! The code of a text is its first [`BYTES`] bytes, and the two zeros of a floating-point number have one code. Such codes are
//! *near*: values in order have codes in order, but different values may have one code, and the comparison of the values is
//! asked as well.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Decimal128Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, internal_err};

/// Bytes of a text that its code has.
const BYTES: usize = size_of::<u128>();

/// How the codes of a type compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nearness {
    /// As the values do.
    Exact,
    /// As the values do, or not at all.
    Near,
}

/// How the codes of a type compare; `None`: its values have no codes.
pub(crate) fn nearness(ty: &DataType) -> Option<Nearness> {
    use DataType::{
        Binary, BinaryView, Boolean, Date32, Date64, Decimal128, Duration, Float32, Float64, Int8,
        Int16, Int32, Int64, LargeBinary, LargeUtf8, Time32, Time64, Timestamp, UInt8, UInt16,
        UInt32, UInt64, Utf8, Utf8View,
    };
    match ty {
        Boolean | Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 | Date32
        | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_) | Decimal128(..) => {
            Some(Nearness::Exact)
        }
        Float32 | Float64 | Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView => {
            Some(Nearness::Near)
        }
        _ => None,
    }
}

/// The codes of a column's values; `None` for NULL. The type has codes ([`nearness`]).
pub(crate) fn codes(column: &ArrayRef) -> Result<Vec<Option<u128>>> {
    use DataType::{
        Binary, BinaryView, Boolean, Date32, Date64, Decimal128, Duration, Float32, Float64, Int8,
        Int16, Int32, Int64, LargeBinary, LargeUtf8, Time32, Time64, Timestamp, UInt8, UInt16,
        UInt32, UInt64, Utf8, Utf8View,
    };
    Ok(match column.data_type() {
        Boolean => column.as_boolean().iter().map(|value| value.map(u128::from)).collect(),
        Int8 => of::<Int8Type>(column, |value| signed(value.into())),
        Int16 => of::<Int16Type>(column, |value| signed(value.into())),
        Int32 => of::<Int32Type>(column, |value| signed(value.into())),
        Int64 => of::<Int64Type>(column, signed),
        UInt8 => of::<UInt8Type>(column, u128::from),
        UInt16 => of::<UInt16Type>(column, u128::from),
        UInt32 => of::<UInt32Type>(column, u128::from),
        UInt64 => of::<UInt64Type>(column, u128::from),
        Date32 => of::<Date32Type>(column, |value| signed(value.into())),
        Date64 => of::<Date64Type>(column, signed),
        Time32(_) => return codes(&cast(column, &Int32)?),
        Time64(_) | Timestamp(..) | Duration(_) => return codes(&cast(column, &Int64)?),
        Decimal128(..) => {
            of::<Decimal128Type>(column, |value| value.cast_unsigned() ^ 1 << (u128::BITS - 1))
        }
        Float32 => of::<Float32Type>(column, |value| total(value.into())),
        Float64 => of::<Float64Type>(column, total),
        Utf8 => {
            column.as_string::<i32>().iter().map(|text| Some(begin(text?.as_bytes()))).collect()
        }
        LargeUtf8 => {
            column.as_string::<i64>().iter().map(|text| Some(begin(text?.as_bytes()))).collect()
        }
        Utf8View => {
            column.as_string_view().iter().map(|text| Some(begin(text?.as_bytes()))).collect()
        }
        Binary => column.as_binary::<i32>().iter().map(|bytes| bytes.map(begin)).collect(),
        LargeBinary => column.as_binary::<i64>().iter().map(|bytes| bytes.map(begin)).collect(),
        BinaryView => column.as_binary_view().iter().map(|bytes| bytes.map(begin)).collect(),
        other => return internal_err!("values of type {other} have no codes"),
    })
}

fn of<T: ArrowPrimitiveType>(
    column: &ArrayRef,
    code: impl Fn(T::Native) -> u128,
) -> Vec<Option<u128>> {
    column.as_primitive::<T>().iter().map(|value| value.map(&code)).collect()
}

fn signed(value: i64) -> u128 {
    u128::from(value.cast_unsigned() ^ 1 << (u64::BITS - 1))
}

/// In the order in which conditions compare: NaN lies behind all others, or before them if it has a sign.
fn total(value: f64) -> u128 {
    // Adding makes one zero of two.
    let bits = (value + 0.0).to_bits();
    u128::from(bits ^ if bits >> 63 == 1 { u64::MAX } else { 1 << 63 })
}

fn begin(bytes: &[u8]) -> u128 {
    match bytes.first_chunk::<BYTES>() {
        Some(first) => u128::from_be_bytes(*first),
        None => {
            let mut first = [0; BYTES];
            first[..bytes.len()].copy_from_slice(bytes);
            u128::from_be_bytes(first)
        }
    }
}
