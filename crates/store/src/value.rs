//! The types that a partition can hold. Single values of them are `halcyon_value`'s.
//!
//! A [`Type`] is physical: VARCHAR(n), CHAR(n) and TEXT are all [`Type::Text`].

use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use std::fmt;
use std::sync::Arc;

pub use halcyon_value::{Interval, Value, ValueRef};

/// The time zone that Arrow is told for TIMESTAMP WITH TIME ZONE.
const UTC: &str = "+00:00";

/// How the values of a column are stored.
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
        /// Digits in all, `1..=38`.
        precision: u8,
        /// Digits after the point.
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
    /// TIMESTAMP: microseconds since 1970-01-01 00:00 of no zone
    Timestamp,
    /// TIMESTAMP WITH TIME ZONE: microseconds since 1970-01-01 00:00 UTC
    TimestampTz,
    /// INTERVAL
    Interval,
    /// UUID
    Uuid,
}

impl Type {
    /// The Arrow type of a vector of such values.
    pub fn arrow(&self) -> DataType {
        match *self {
            Type::Bool => DataType::Boolean,
            Type::Int16 => DataType::Int16,
            Type::Int32 => DataType::Int32,
            Type::Int64 => DataType::Int64,
            Type::Float32 => DataType::Float32,
            Type::Float64 => DataType::Float64,
            Type::Decimal { precision, scale } => DataType::Decimal128(precision, scale),
            Type::Text => DataType::Utf8View,
            Type::Bytes => DataType::BinaryView,
            Type::Date => DataType::Date32,
            Type::Time => DataType::Time64(TimeUnit::Microsecond),
            Type::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Type::TimestampTz => DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
            Type::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            Type::Uuid => DataType::FixedSizeBinary(16),
        }
    }

    /// The type whose vectors are of this Arrow type; the inverse of [`Type::arrow`].
    pub fn from_arrow(arrow: &DataType) -> Option<Type> {
        use Type::*;
        let plain = [
            Bool,
            Int16,
            Int32,
            Int64,
            Float32,
            Float64,
            Text,
            Bytes,
            Date,
            Time,
            Timestamp,
            TimestampTz,
            Interval,
            Uuid,
        ];
        match *arrow {
            DataType::Decimal128(precision, scale) => Some(Decimal { precision, scale }),
            ref other => plain.into_iter().find(|ty| ty.arrow() == *other),
        }
    }

    /// Whether a column of this type can hold the value; NULL is of every type.
    pub fn holds(self, value: &ValueRef<'_>) -> bool {
        match value {
            ValueRef::Null => true,
            ValueRef::Bool(_) => self == Type::Bool,
            ValueRef::Int16(_) => self == Type::Int16,
            ValueRef::Int32(_) => self == Type::Int32,
            ValueRef::Int64(_) => self == Type::Int64,
            ValueRef::Float32(_) => self == Type::Float32,
            ValueRef::Float64(_) => self == Type::Float64,
            ValueRef::Decimal(_) => matches!(self, Type::Decimal { .. }),
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

    /// True if values of any length are kept beside the vector, in the segment's heap.
    pub(crate) fn has_views(&self) -> bool {
        matches!(self, Type::Text | Type::Bytes)
    }
}

/// A column of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ColumnDef {
    /// How its values are stored.
    pub ty: Type,
    /// Whether NULL can be stored. Storing NULL elsewhere is a fault of the caller.
    pub nullable: bool,
}

/// The columns of a partition, in order. Names live in the catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    /// The columns.
    pub columns: Vec<ColumnDef>,
}

impl Schema {
    /// A schema of these columns, ready to be shared by the table's partitions.
    pub fn new(columns: Vec<ColumnDef>) -> Arc<Self> {
        Arc::new(Schema { columns })
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
