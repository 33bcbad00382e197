//! Encodings of SQL values as the words of a trigger program.

use arrow::datatypes::{DataType, TimeUnit};
use halcyon_value::{Type as ValueType, network};
use halcyon_view::program::{DIGITS_OF_A_WORD, Type};

use crate::error::{Result, Unsupported};

/// The encoding of a SQL value as a value of [`Type`]; NULL is the type's mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Booleans as 0 and 1.
    Bool,
    /// Integers of up to 64 bits, unchanged.
    Int,
    /// Decimals as their unscaled value: one word for up to 18 digits, otherwise two.
    Decimal {
        /// Number of digits.
        precision: u8,
        /// Number of digits behind the point.
        scale: i8,
    },
    /// Floating-point numbers as the bits of a double.
    Float,
    /// Dates as days since 1970-01-01.
    Date,
    /// Timestamps as microseconds since 1970-01-01, in local time or UTC as the type says.
    TimestampMicros,
    /// Labels of an enumeration as their position, which is what columns of labels hold.
    Label,
    /// Strings as the number that the view's dictionary gives them.
    Text,
}

impl Encoding {
    /// The encoding of an Arrow type.
    ///
    /// Errors: programs have no values of the type.
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
            // No other type counts seconds.
            DataType::Timestamp(TimeUnit::Second, Some(_)) => Encoding::Label,
            DataType::Utf8 | DataType::Utf8View => Encoding::Text,
            // The only value is NULL, so any encoding serves.
            DataType::Null => Encoding::Int,
            DataType::LargeUtf8 => return Err(Unsupported::new("type json")),
            DataType::LargeBinary => return Err(Unsupported::new("type jsonb")),
            DataType::FixedSizeBinary(bytes) => {
                return Err(Unsupported::new(match *bytes as usize {
                    network::INET_WIDTH => "type inet",
                    network::CIDR_WIDTH => "type cidr",
                    network::MACADDR_WIDTH => "type macaddr",
                    _ => "type uuid",
                }));
            }
            other => return Err(Unsupported::new(format!("type {other}"))),
        })
    }

    /// The type of the encoding's words.
    pub fn ty(self) -> Type {
        match self {
            Encoding::Float => Type::Float,
            Encoding::Decimal { precision, .. } if precision > DIGITS_OF_A_WORD => Type::Wide,
            _ => Type::Int,
        }
    }
}

/// The type that values of an Arrow type have in functions of the table. `None`: no function takes
/// them.
pub fn value_type(ty: &DataType) -> Option<ValueType> {
    Some(match *ty {
        DataType::Boolean => ValueType::Bool,
        DataType::Int16 => ValueType::Int16,
        DataType::Int32 => ValueType::Int32,
        DataType::Int64 => ValueType::Int64,
        DataType::Float32 => ValueType::Float32,
        DataType::Float64 => ValueType::Float64,
        DataType::Decimal128(precision, scale) => ValueType::Decimal { precision, scale },
        DataType::Utf8 | DataType::Utf8View => ValueType::Text,
        DataType::Date32 => ValueType::Date,
        DataType::Time64(TimeUnit::Microsecond) => ValueType::Time,
        DataType::Timestamp(TimeUnit::Microsecond, None) => ValueType::Timestamp,
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => ValueType::TimestampTz,
        _ => return None,
    })
}
