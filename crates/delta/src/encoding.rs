//! Encodings of SQL values as the words of a trigger program.

use arrow::datatypes::{DataType, TimeUnit};
use halcyon_value::Type as ValueType;
use halcyon_view::program::{DIGITS_OF_A_WORD, Type};

use crate::error::{Result, Unsupported};

/// The encoding of a SQL value as a value of [`Type`]; NULL is the type's mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// 0 and 1.
    Bool,
    /// Integers of up to 64 bits as they are.
    Int,
    /// The unscaled value: one word up to 18 digits, else two.
    Decimal {
        /// Digits.
        precision: u8,
        /// Digits behind the point.
        scale: i8,
    },
    /// The bits of the value as a double.
    Float,
    /// Days since 1970-01-01.
    Date,
    /// Microseconds since 1970-01-01, of the day or moment as the type says.
    TimestampMicros,
    /// The number that the view's dictionary gives to the string.
    Text,
}

impl Encoding {
    /// The encoding of an Arrow type.
    ///
    /// Errors: types that no program can hold.
    pub fn of(ty: &DataType) -> Result<Encoding> {
        Ok(match ty {
            DataType::Boolean => Encoding::Bool,
            ty if ty.is_integer() && *ty != DataType::UInt64 => Encoding::Int,
            DataType::Decimal128(precision, scale) if *scale >= 0 => {
                Encoding::Decimal { precision: *precision, scale: *scale }
            }
            DataType::Float32 | DataType::Float64 => Encoding::Float,
            DataType::Date32 => Encoding::Date,
            DataType::Timestamp(TimeUnit::Microsecond, _) => Encoding::TimestampMicros,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Encoding::Text,
            // Only ever NULL, so any type serves.
            DataType::Null => Encoding::Int,
            other => return Err(Unsupported::new(format!("type {other}"))),
        })
    }

    /// Type of the words.
    pub fn ty(self) -> Type {
        match self {
            Encoding::Float => Type::Float,
            Encoding::Decimal { precision, .. } if precision > DIGITS_OF_A_WORD => Type::Wide,
            _ => Type::Int,
        }
    }
}

/// The type that values of an Arrow type have in functions of the table. `None`: none takes them.
pub fn value_type(ty: &DataType) -> Option<ValueType> {
    Some(match *ty {
        DataType::Boolean => ValueType::Bool,
        DataType::Int16 => ValueType::Int16,
        DataType::Int32 => ValueType::Int32,
        DataType::Int64 => ValueType::Int64,
        DataType::Float32 => ValueType::Float32,
        DataType::Float64 => ValueType::Float64,
        DataType::Decimal128(precision, scale) => ValueType::Decimal { precision, scale },
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ValueType::Text,
        DataType::Date32 => ValueType::Date,
        DataType::Time64(TimeUnit::Microsecond) => ValueType::Time,
        DataType::Timestamp(TimeUnit::Microsecond, None) => ValueType::Timestamp,
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => ValueType::TimestampTz,
        _ => return None,
    })
}
