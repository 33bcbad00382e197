//! Conversions of numbers and of moments between types, with the range checks that the targets
//! need.
//!
//! Conversions from text are in the modules of the types; which casts a statement may use is
//! decided by the planner.

use crate::calendar::{DAY_US, US_NS, day_of, midnight, time_of};
use crate::datetime::Zone;
use crate::decimal;
use crate::error::{Result, ValueError};
use crate::float;
use crate::integer::{Width, widen};
use crate::value::{Interval, ValueRef};

/// A type of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum NumberType {
    Integer(Width),
    Real,
    Double,
    Decimal { precision: u8, scale: i8 },
}

/// A type of moments and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum MomentType {
    Date,
    Time,
    Timestamp,
    TimestampTz,
    Interval,
}

impl MomentType {
    /// PostgreSQL's name of the type.
    pub fn name(self) -> &'static str {
        match self {
            MomentType::Date => "date",
            MomentType::Time => "time without time zone",
            MomentType::Timestamp => "timestamp without time zone",
            MomentType::TimestampTz => "timestamp with time zone",
            MomentType::Interval => "interval",
        }
    }
}

/// A number in another type. `scale`: the value's scale if it is a decimal, otherwise 0. Decimals
/// are rounded half away from zero, floats half to even.
///
/// Errors: 22003; [`ValueError::Mismatch`] if the value is no number.
pub fn number(value: ValueRef<'_>, scale: i8, to: NumberType) -> Result<ValueRef<'static>> {
    match value {
        ValueRef::Float32(value) => from_single(value, to),
        ValueRef::Float64(value) => from_double(value, to),
        ValueRef::Decimal(value) => from_decimal(value, scale, to),
        other => match widen(other) {
            Some(value) => from_integer(value, to),
            None => Err(ValueError::Mismatch("a cast between numbers")),
        },
    }
}

fn from_integer(value: i64, to: NumberType) -> Result<ValueRef<'static>> {
    Ok(match to {
        NumberType::Integer(width) => return width.value(value),
        NumberType::Real => ValueRef::Float32(value as f32),
        NumberType::Double => ValueRef::Float64(value as f64),
        NumberType::Decimal { precision, scale } => {
            ValueRef::Decimal(decimal::fit(value.into(), 0, precision, scale)?)
        }
    })
}

fn from_single(value: f32, to: NumberType) -> Result<ValueRef<'static>> {
    match to {
        NumberType::Real => Ok(ValueRef::Float32(value)),
        NumberType::Decimal { precision, scale } => {
            Ok(ValueRef::Decimal(decimal::from_single(value, precision, scale)?))
        }
        to => from_double(value.into(), to),
    }
}

fn from_double(value: f64, to: NumberType) -> Result<ValueRef<'static>> {
    Ok(match to {
        NumberType::Integer(width) => {
            let (min, max) = width.range();
            let whole = float::to_integer(value, min, max);
            return width.value(whole.ok_or(ValueError::OutOfRange(width.name()))?);
        }
        NumberType::Real => ValueRef::Float32(float::to_single(value)?),
        NumberType::Double => ValueRef::Float64(value),
        NumberType::Decimal { precision, scale } => {
            ValueRef::Decimal(decimal::from_float(value, precision, scale)?)
        }
    })
}

fn from_decimal(value: i128, from: i8, to: NumberType) -> Result<ValueRef<'static>> {
    Ok(match to {
        NumberType::Integer(width) => {
            let whole = decimal::to_whole(value, from).and_then(|whole| i64::try_from(whole).ok());
            return width.value(whole.ok_or(ValueError::OutOfRange(width.name()))?);
        }
        NumberType::Real => ValueRef::Float32(decimal::to_single(value, from)?),
        NumberType::Double => ValueRef::Float64(decimal::to_float(value, from)?),
        NumberType::Decimal { precision, scale } => {
            ValueRef::Decimal(decimal::fit(value, from, precision, scale)?)
        }
    })
}

/// A date, time, timestamp or interval in another of these types; `None` if there is no such cast.
/// `zone`: the session's time zone, for TIMESTAMPTZ.
///
/// Errors: 22008.
pub fn moment<Z: Zone>(
    value: ValueRef<'_>,
    to: MomentType,
    zone: Z,
) -> Result<Option<ValueRef<'static>>> {
    let far = || ValueError::MomentOutOfRange(to.name());
    let local = match value {
        ValueRef::Date(day) => midnight(day.into()).map_err(|_| far())?,
        ValueRef::Timestamp(us) => us,
        ValueRef::TimestampTz(us) => to_local(us, zone).ok_or_else(far)?,
        ValueRef::Time(us) if to == MomentType::Interval => {
            let nanos = us * US_NS;
            return Ok(Some(ValueRef::Interval(Interval { months: 0, days: 0, nanos })));
        }
        ValueRef::Interval(interval) if to == MomentType::Time => {
            return Ok(Some(ValueRef::Time((interval.nanos / US_NS).rem_euclid(DAY_US))));
        }
        _ => return Ok(None),
    };
    Ok(Some(match to {
        MomentType::Date => ValueRef::Date(i32::try_from(day_of(local)).map_err(|_| far())?),
        MomentType::Time if !matches!(value, ValueRef::Date(_)) => ValueRef::Time(time_of(local)),
        MomentType::Timestamp => ValueRef::Timestamp(local),
        MomentType::TimestampTz => ValueRef::TimestampTz(zone.to_utc(local).ok_or_else(far)?),
        _ => return Ok(None),
    }))
}

/// The local time of a moment; `None` if it is out of range.
pub fn to_local<Z: Zone>(utc_us: i64, zone: Z) -> Option<i64> {
    utc_us.checked_add(i64::from(zone.offset_at(utc_us)) * crate::calendar::SECOND_US)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTEGER: NumberType = NumberType::Integer(Width::Integer);
    const SMALL: NumberType = NumberType::Integer(Width::SmallInt);

    fn decimal(precision: u8, scale: i8) -> NumberType {
        NumberType::Decimal { precision, scale }
    }

    #[test]
    fn numbers_check_the_range_of_their_target() {
        let far = |ty| Err(ValueError::OutOfRange(ty));
        let cast = |value, to| number(value, 1, to);
        assert_eq!(cast(ValueRef::Int32(7), SMALL), Ok(ValueRef::Int16(7)));
        assert_eq!(cast(ValueRef::Int32(40000), SMALL), far("smallint"));
        assert_eq!(cast(ValueRef::Float64(2.5), INTEGER), Ok(ValueRef::Int32(2)));
        assert_eq!(cast(ValueRef::Float64(3e9), INTEGER), far("integer"));
        assert_eq!(cast(ValueRef::Float64(f64::NAN), INTEGER), far("integer"));
        assert_eq!(cast(ValueRef::Float64(1e39), NumberType::Real), far("real"));
        assert_eq!(cast(ValueRef::Float32(2.5), SMALL), Ok(ValueRef::Int16(2)));
        assert_eq!(cast(ValueRef::Decimal(25), INTEGER), Ok(ValueRef::Int32(3)));
        assert_eq!(cast(ValueRef::Decimal(i128::MAX), INTEGER), far("integer"));
        assert_eq!(cast(ValueRef::Float64(0.1), decimal(5, 3)), Ok(ValueRef::Decimal(100)));
        assert_eq!(cast(ValueRef::Float32(0.1), decimal(9, 8)), Ok(ValueRef::Decimal(10_000_000)));
        let field = Err(ValueError::DecimalField { precision: 5, scale: 2 });
        assert_eq!(cast(ValueRef::Int32(1000), decimal(5, 2)), field);
        assert_eq!(
            cast(ValueRef::Decimal(12345), NumberType::Double),
            Ok(ValueRef::Float64(1234.5))
        );
        assert_eq!(cast(ValueRef::Decimal(5), NumberType::Real), Ok(ValueRef::Float32(0.5)));
        assert!(matches!(cast(ValueRef::Bool(true), SMALL), Err(ValueError::Mismatch(_))));
    }

    #[derive(Clone, Copy)]
    struct East(i32);

    impl Zone for East {
        fn fixed(seconds: i32) -> Self {
            East(seconds)
        }

        fn named(_: &str) -> Option<Self> {
            None
        }

        fn abbreviated(_: &str) -> Option<i32> {
            None
        }

        fn offset_at(self, _: i64) -> i32 {
            self.0
        }

        fn to_utc(self, local_us: i64) -> Option<i64> {
            local_us.checked_sub(i64::from(self.0) * 1_000_000)
        }
    }

    #[test]
    fn moments_pass_through_local_time() {
        let cast = |value, to| moment(value, to, East(3600));
        let hour = 3_600_000_000;
        assert_eq!(
            cast(ValueRef::Date(1), MomentType::Timestamp),
            Ok(Some(ValueRef::Timestamp(DAY_US)))
        );
        assert_eq!(
            cast(ValueRef::Date(1), MomentType::TimestampTz),
            Ok(Some(ValueRef::TimestampTz(DAY_US - hour)))
        );
        assert_eq!(cast(ValueRef::Timestamp(-1), MomentType::Date), Ok(Some(ValueRef::Date(-1))));
        assert_eq!(
            cast(ValueRef::TimestampTz(0), MomentType::Time),
            Ok(Some(ValueRef::Time(hour)))
        );
        assert_eq!(cast(ValueRef::Date(1), MomentType::Time), Ok(None));
        assert_eq!(cast(ValueRef::Bool(true), MomentType::Time), Ok(None));
        let span = Interval { months: 1, days: 1, nanos: -1_000 };
        assert_eq!(
            cast(ValueRef::Interval(span), MomentType::Time),
            Ok(Some(ValueRef::Time(DAY_US - 1)))
        );
        let nanos = Interval { nanos: 7_000, ..Interval::default() };
        assert_eq!(
            cast(ValueRef::Time(7), MomentType::Interval),
            Ok(Some(ValueRef::Interval(nanos)))
        );
        let far = Err(ValueError::MomentOutOfRange("timestamp without time zone"));
        assert_eq!(cast(ValueRef::Date(i32::MAX), MomentType::Timestamp), far);
    }
}
