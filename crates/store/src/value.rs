//! The types that a partition can hold, and single values of them.
//!
//! Words: a [`ValueRef`] borrows from a partition or from a statement; a [`Value`] owns.
//! A [`Type`] is physical: VARCHAR(n), CHAR(n) and TEXT are all [`Type::Text`].

use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use std::fmt;
use std::sync::Arc;

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

/// A span of time in SQL's three parts, which do not convert into each other.
///
/// Comparison as such is by parts, for maps and tests; SQL's order is that of
/// [`Interval::sort_key`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interval {
    /// Months, years included.
    pub months: i32,
    /// Days, weeks included.
    pub days: i32,
    /// Everything below a day, in nanoseconds.
    pub nanos: i64,
}

impl Interval {
    /// Nanoseconds if a month had 30 days and a day 24 hours: SQL's order, in which
    /// `1 month = 30 days`, as PostgreSQL has it.
    pub fn sort_key(self) -> i128 {
        const DAY_NS: i128 = 86_400_000_000_000;
        (self.months as i128 * 30 + self.days as i128) * DAY_NS + self.nanos as i128
    }

    /// The parts as Arrow lays them out: months, days, nanoseconds from the lowest byte up.
    pub(crate) fn to_word(self) -> u128 {
        self.months as u32 as u128
            | (self.days as u32 as u128) << 32
            | (self.nanos as u64 as u128) << 64
    }

    /// The inverse of [`Interval::to_word`].
    pub(crate) fn from_word(word: u128) -> Self {
        Interval { months: word as i32, days: (word >> 32) as i32, nanos: (word >> 64) as i64 }
    }
}

/// One value, borrowed where it is long.
///
/// `==` is Rust's, not SQL's: NULL equals NULL, a NaN equals nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    /// NULL of any type.
    Null,
    /// [`Type::Bool`]
    Bool(bool),
    /// [`Type::Int16`]
    Int16(i16),
    /// [`Type::Int32`]
    Int32(i32),
    /// [`Type::Int64`]
    Int64(i64),
    /// [`Type::Float32`]
    Float32(f32),
    /// [`Type::Float64`]
    Float64(f64),
    /// [`Type::Decimal`]: the unscaled number; the scale is the column's.
    Decimal(i128),
    /// [`Type::Text`]
    Text(&'a str),
    /// [`Type::Bytes`]
    Bytes(&'a [u8]),
    /// [`Type::Date`]
    Date(i32),
    /// [`Type::Time`]
    Time(i64),
    /// [`Type::Timestamp`]
    Timestamp(i64),
    /// [`Type::TimestampTz`]
    TimestampTz(i64),
    /// [`Type::Interval`]
    Interval(Interval),
    /// [`Type::Uuid`]
    Uuid([u8; 16]),
}

impl ValueRef<'_> {
    /// True for NULL.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, ValueRef::Null)
    }

    /// An owned copy. Allocates for text and bytes alone.
    pub fn to_owned(&self) -> Value {
        match *self {
            ValueRef::Null => Value::Null,
            ValueRef::Bool(value) => Value::Bool(value),
            ValueRef::Int16(value) => Value::Int16(value),
            ValueRef::Int32(value) => Value::Int32(value),
            ValueRef::Int64(value) => Value::Int64(value),
            ValueRef::Float32(value) => Value::Float32(value),
            ValueRef::Float64(value) => Value::Float64(value),
            ValueRef::Decimal(value) => Value::Decimal(value),
            ValueRef::Text(value) => Value::Text(value.into()),
            ValueRef::Bytes(value) => Value::Bytes(value.into()),
            ValueRef::Date(value) => Value::Date(value),
            ValueRef::Time(value) => Value::Time(value),
            ValueRef::Timestamp(value) => Value::Timestamp(value),
            ValueRef::TimestampTz(value) => Value::TimestampTz(value),
            ValueRef::Interval(value) => Value::Interval(value),
            ValueRef::Uuid(value) => Value::Uuid(value),
        }
    }
}

/// One value, owned: what undo records, parameters and literals hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// NULL of any type.
    #[default]
    Null,
    /// [`Type::Bool`]
    Bool(bool),
    /// [`Type::Int16`]
    Int16(i16),
    /// [`Type::Int32`]
    Int32(i32),
    /// [`Type::Int64`]
    Int64(i64),
    /// [`Type::Float32`]
    Float32(f32),
    /// [`Type::Float64`]
    Float64(f64),
    /// [`Type::Decimal`]: the unscaled number; the scale is the column's.
    Decimal(i128),
    /// [`Type::Text`]
    Text(String),
    /// [`Type::Bytes`]
    Bytes(Vec<u8>),
    /// [`Type::Date`]
    Date(i32),
    /// [`Type::Time`]
    Time(i64),
    /// [`Type::Timestamp`]
    Timestamp(i64),
    /// [`Type::TimestampTz`]
    TimestampTz(i64),
    /// [`Type::Interval`]
    Interval(Interval),
    /// [`Type::Uuid`]
    Uuid([u8; 16]),
}

impl Value {
    /// The same value, borrowed.
    #[inline]
    pub fn as_ref(&self) -> ValueRef<'_> {
        match *self {
            Value::Null => ValueRef::Null,
            Value::Bool(value) => ValueRef::Bool(value),
            Value::Int16(value) => ValueRef::Int16(value),
            Value::Int32(value) => ValueRef::Int32(value),
            Value::Int64(value) => ValueRef::Int64(value),
            Value::Float32(value) => ValueRef::Float32(value),
            Value::Float64(value) => ValueRef::Float64(value),
            Value::Decimal(value) => ValueRef::Decimal(value),
            Value::Text(ref value) => ValueRef::Text(value),
            Value::Bytes(ref value) => ValueRef::Bytes(value),
            Value::Date(value) => ValueRef::Date(value),
            Value::Time(value) => ValueRef::Time(value),
            Value::Timestamp(value) => ValueRef::Timestamp(value),
            Value::TimestampTz(value) => ValueRef::TimestampTz(value),
            Value::Interval(value) => ValueRef::Interval(value),
            Value::Uuid(value) => ValueRef::Uuid(value),
        }
    }

    /// True for NULL.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }
}

impl From<ValueRef<'_>> for Value {
    fn from(value: ValueRef<'_>) -> Self {
        value.to_owned()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owned_and_borrowed_values_convert_both_ways() {
        let interval = Interval { months: -1, days: 2, nanos: i64::MIN };
        let values = [
            ValueRef::Null,
            ValueRef::Bool(true),
            ValueRef::Int16(-1),
            ValueRef::Int32(i32::MIN),
            ValueRef::Int64(i64::MAX),
            ValueRef::Float32(1.5),
            ValueRef::Float64(-0.0),
            ValueRef::Decimal(i128::MIN),
            ValueRef::Text("naïve"),
            ValueRef::Bytes(&[0, 255]),
            ValueRef::Date(-1),
            ValueRef::Time(1),
            ValueRef::Timestamp(2),
            ValueRef::TimestampTz(3),
            ValueRef::Interval(interval),
            ValueRef::Uuid([7; 16]),
        ];
        for value in values {
            assert_eq!(value.to_owned().as_ref(), value);
            assert_eq!(value.is_null(), value.to_owned().is_null());
        }
        assert_eq!(Interval::from_word(interval.to_word()), interval);
    }

    #[test]
    fn a_month_sorts_as_thirty_days() {
        let month = Interval { months: 1, ..Interval::default() };
        let days = Interval { days: 30, ..Interval::default() };
        assert_eq!(month.sort_key(), days.sort_key());
        let smallest = Interval { months: i32::MIN, days: i32::MIN, nanos: i64::MIN };
        assert!(smallest.sort_key() < month.sort_key());
    }
}
