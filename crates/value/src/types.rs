//! Types of values.

use core::fmt;

use crate::value::ValueRef;

/// The type of a value as it is stored. VARCHAR(n), CHAR(n) and TEXT are all [`Type::Text`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// BOOLEAN
    Bool,
    /// SMALLINT
    Int16,
    /// INTEGER
    Int32,
    /// BIGINT
    Int64,
    /// REAL
    Float32,
    /// DOUBLE PRECISION
    Float64,
    /// DECIMAL(precision, scale), at most 38 digits
    Decimal {
        /// Number of digits, `1..=38`.
        precision: u8,
        /// Number of digits after the point.
        scale: i8,
    },
    /// TEXT, VARCHAR, CHAR
    Text,
    /// BYTEA
    Bytes,
    /// DATE: days since 1970-01-01
    Date,
    /// TIME: microseconds since midnight
    Time,
    /// TIMESTAMP: microseconds since 1970-01-01 00:00, without a zone
    Timestamp,
    /// TIMESTAMP WITH TIME ZONE: microseconds since 1970-01-01 00:00 UTC
    TimestampTz,
    /// INTERVAL
    Interval,
    /// UUID
    Uuid,
}

impl Type {
    /// Whether the value is of this type; NULL is of every type.
    pub fn holds(self, value: &ValueRef<'_>) -> bool {
        match value {
            ValueRef::Null => true,
            ValueRef::Bool(_) => self == Type::Bool,
            ValueRef::Int16(_) => self == Type::Int16,
            ValueRef::Int32(_) => self == Type::Int32,
            ValueRef::Int64(_) => self == Type::Int64,
            ValueRef::Float32(_) => self == Type::Float32,
            ValueRef::Float64(_) => self == Type::Float64,
            ValueRef::Decimal(_) => self.is_decimal(),
            ValueRef::Text(_) => self == Type::Text,
            ValueRef::Bytes(_) => self == Type::Bytes,
            ValueRef::Date(_) => self == Type::Date,
            ValueRef::Time(_) => self == Type::Time,
            ValueRef::Timestamp(_) => self == Type::Timestamp,
            ValueRef::TimestampTz(_) => self == Type::TimestampTz,
            ValueRef::Interval(_) => self == Type::Interval,
            ValueRef::Uuid(_) => self == Type::Uuid,
        }
    }

    /// SMALLINT, INTEGER or BIGINT.
    pub fn is_integer(self) -> bool {
        matches!(self, Type::Int16 | Type::Int32 | Type::Int64)
    }

    /// REAL or DOUBLE PRECISION.
    pub fn is_float(self) -> bool {
        matches!(self, Type::Float32 | Type::Float64)
    }

    /// DECIMAL of any precision.
    pub fn is_decimal(self) -> bool {
        matches!(self, Type::Decimal { .. })
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Decimal { precision, scale } => write!(f, "Decimal({precision}, {scale})"),
            other => write!(f, "{other:?}"),
        }
    }
}
