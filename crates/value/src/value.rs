//! Single values, borrowed or owned.
//!
//! Words: a [`ValueRef`] borrows from a partition or from a statement; a [`Value`] owns. A value
//! knows how it is stored, not which SQL type its column has: VARCHAR(n), CHAR(n) and TEXT are all
//! text, and the scale of a decimal is its column's.

use alloc::string::String;
use alloc::vec::Vec;

/// A span of time in SQL's three parts, which do not convert into each other.
///
/// `==` and the derived order compare part by part, for maps and tests; SQL's order is that of
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
    /// The parts as Arrow lays them out: months, days, nanoseconds from the lowest byte up.
    #[inline]
    pub fn to_word(self) -> u128 {
        self.months as u32 as u128
            | (self.days as u32 as u128) << 32
            | (self.nanos as u64 as u128) << 64
    }

    /// The inverse of [`Interval::to_word`].
    #[inline]
    pub fn from_word(word: u128) -> Self {
        Interval { months: word as i32, days: (word >> 32) as i32, nanos: (word >> 64) as i64 }
    }
}

/// A value; text and bytes are borrowed.
///
/// `==` is Rust's, not SQL's: NULL equals NULL, a NaN equals nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    /// NULL of any type.
    Null,
    /// BOOLEAN
    Bool(bool),
    /// SMALLINT
    Int16(i16),
    /// INTEGER
    Int32(i32),
    /// BIGINT
    Int64(i64),
    /// REAL
    Float32(f32),
    /// DOUBLE PRECISION
    Float64(f64),
    /// DECIMAL: the unscaled number; the scale belongs to the column
    Decimal(i128),
    /// TEXT, VARCHAR, CHAR
    Text(&'a str),
    /// BYTEA
    Bytes(&'a [u8]),
    /// DATE: days since 1970-01-01
    Date(i32),
    /// TIME: microseconds since midnight
    Time(i64),
    /// TIMESTAMP: microseconds since 1970-01-01 00:00, without a zone
    Timestamp(i64),
    /// TIMESTAMP WITH TIME ZONE: microseconds since 1970-01-01 00:00 UTC
    TimestampTz(i64),
    /// INTERVAL
    Interval(Interval),
    /// UUID
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

/// An owned value, as undo records, parameters and literals hold it.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// NULL of any type.
    #[default]
    Null,
    /// BOOLEAN
    Bool(bool),
    /// SMALLINT
    Int16(i16),
    /// INTEGER
    Int32(i32),
    /// BIGINT
    Int64(i64),
    /// REAL
    Float32(f32),
    /// DOUBLE PRECISION
    Float64(f64),
    /// DECIMAL: the unscaled number; the scale belongs to the column
    Decimal(i128),
    /// TEXT, VARCHAR, CHAR
    Text(String),
    /// BYTEA
    Bytes(Vec<u8>),
    /// DATE: days since 1970-01-01
    Date(i32),
    /// TIME: microseconds since midnight
    Time(i64),
    /// TIMESTAMP: microseconds since 1970-01-01 00:00, without a zone
    Timestamp(i64),
    /// TIMESTAMP WITH TIME ZONE: microseconds since 1970-01-01 00:00 UTC
    TimestampTz(i64),
    /// INTERVAL
    Interval(Interval),
    /// UUID
    Uuid([u8; 16]),
}

impl Value {
    /// The value, borrowed.
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
