//! `make_date`, `make_time`, `make_timestamp`, `make_interval`: moments from their fields.

use alloc::format;

use super::ArgumentKind::{Double, Integer};
use super::{Answer, Args, Call, Function, Gives, at_least, takes};
use crate::calendar::{self, DAY_US, HOUR_US, MINUTE_US, SECOND_US, US_NS};
use crate::error::{Result, ValueError};
use crate::float;
use crate::types::Type;
use crate::value::{Interval, Value, ValueRef};

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new(
        &["make_date"],
        "The date of a year, month and day.",
        takes(&[Integer, Integer, Integer]),
        Gives::Type(Type::Date),
        |args, _| {
            let day =
                i32::try_from(date(args)?).map_err(|_| ValueError::MomentOutOfRange("date"))?;
            Ok(Answer::Value(ValueRef::Date(day)))
        },
    ),
    Function::new(
        &["make_time"],
        "The time of day of an hour, minute and second.",
        takes(&[Integer, Integer, Double]),
        Gives::Type(Type::Time),
        |args, _| Ok(Answer::Value(ValueRef::Time(time(args, 0)?))),
    ),
    Function::new(
        &["make_timestamp"],
        "The timestamp of a year, month, day, hour, minute and second.",
        takes(&[Integer, Integer, Integer, Integer, Integer, Double]),
        Gives::Type(Type::Timestamp),
        |args, _| Ok(Answer::Value(ValueRef::Timestamp(timestamp(args)?))),
    ),
    Function::new(
        &["make_interval"],
        "The interval of years, months, weeks, days, hours, minutes and seconds.",
        at_least(6, &[Integer, Integer, Integer, Integer, Integer, Integer, Double]),
        Gives::Type(Type::Interval),
        interval,
    ),
];

/// The day number of year, month and day. Errors: 22008.
fn date(args: &Args<'_, '_>) -> Result<i64> {
    let (year, month, day) = (args.integer(0)?, args.integer(1)?, args.integer(2)?);
    let wrong = || {
        let message = format!("date field value out of range: {year}-{month:02}-{day:02}");
        ValueError::worded(b"22008", message)
    };
    // There is no year 0: 1 BC is −1.
    let counted = if year < 0 { year + 1 } else { year };
    let fits = |month: u32, day: u32| {
        (1..=12).contains(&month) && (1..=calendar::days_in_month(counted, month)).contains(&day)
    };
    match (u32::try_from(month), u32::try_from(day)) {
        (Ok(month), Ok(day)) if year != 0 && fits(month, day) => {
            Ok(calendar::days_from_civil(counted, month, day))
        }
        _ => Err(wrong()),
    }
}

/// Microseconds since midnight of hour, minute and second. Errors: 22008.
fn time(args: &Args<'_, '_>, from: usize) -> Result<i64> {
    let (hour, minute) = (args.integer(from)?, args.integer(from + 1)?);
    let second = args.double(from + 2)?;
    let fits = (0..=24).contains(&hour)
        && (0..60).contains(&minute)
        && (0.0..=60.0).contains(&second)
        && (hour < 24 || minute == 0 && second == 0.0);
    if !fits {
        let shown = float::to_integer(float::trunc(second), -99, 99).unwrap_or(0);
        let message = format!("time field value out of range: {hour}:{minute:02}:{shown:02}");
        return Err(ValueError::worded(b"22008", message));
    }
    let us = float::round_even(second * SECOND_US as f64);
    let us = float::to_integer(us, 0, MINUTE_US).unwrap_or(0);
    Ok(hour * HOUR_US + minute * MINUTE_US + us)
}

/// The local time of year, month, day, hour, minute and second. Errors: 22008.
pub fn timestamp_of(fields: &[ValueRef<'_>]) -> Result<i64> {
    let types = [Type::Int32, Type::Int32, Type::Int32, Type::Int32, Type::Int32, Type::Float64];
    let call = Call::exact("make_timestamp", &types, Type::Timestamp);
    let call = call.ok_or(ValueError::Mismatch("make_timestamp"))?;
    match call.value(fields)? {
        Value::Timestamp(us) => Ok(us),
        _ => Err(ValueError::Mismatch("make_timestamp")),
    }
}

fn timestamp(args: &Args<'_, '_>) -> Result<i64> {
    let (day, time) = (date(args)?, time(args, 3)?);
    let far = || ValueError::MomentOutOfRange("timestamp");
    day.checked_mul(DAY_US).and_then(|us| us.checked_add(time)).ok_or_else(far)
}

fn interval<'a>(args: &Args<'_, 'a>, _: &mut dyn core::fmt::Write) -> Result<Answer<'a>> {
    let field = |at| if args.has(at) { args.integer(at) } else { Ok(0) };
    let far = || ValueError::OutOfRange("interval");
    let seconds = if args.has(6) { args.double(6)? } else { 0.0 };
    let us = float::to_integer(
        float::round_even(seconds * SECOND_US as f64),
        i64::MIN / US_NS,
        i64::MAX / US_NS,
    );
    let time = (field(4)?.checked_mul(HOUR_US))
        .and_then(|hours| hours.checked_add(field(5).unwrap_or(0).checked_mul(MINUTE_US)?))
        .and_then(|minutes| minutes.checked_add(us?))
        .and_then(|us| us.checked_mul(US_NS));
    let narrow = |value: i64| i32::try_from(value).map_err(|_| far());
    Ok(Answer::Value(ValueRef::Interval(Interval {
        months: narrow(field(0)? * 12 + field(1)?)?,
        days: narrow(field(2)? * 7 + field(3)?)?,
        nanos: time.ok_or_else(far)?,
    })))
}
