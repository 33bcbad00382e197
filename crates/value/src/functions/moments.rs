//! Moments and spans cut or rounded: `date_trunc` of spans, `date_bin`, types with a precision.

use alloc::format;

use super::ArgumentKind::{Integer, Interval as Span, Moment as M, Text, Time, Timestamp};
use super::{Answer, Args, Function, Gives, takes};
use crate::calendar::{DAY_NS, Field, US_NS};
use crate::error::{Result, TextProblem, ValueError};
use crate::types::Type;
use crate::value::{Interval, ValueRef};

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new(
        &["interval_trunc"],
        "The span without what is smaller than a field, as `date_trunc` of INTERVAL.",
        takes(&[Text, Span]),
        Gives::Type(Type::Interval),
        |args, _| {
            let name = args.text(0)?;
            let field = Field::from_name(name).filter(|field| field.truncates());
            match field {
                Some(Field::Week) => Err(ValueError::worded(
                    b"0A000",
                    format!("unit \"{name}\" not supported for type interval"),
                )),
                Some(field) => {
                    Ok(Answer::Value(ValueRef::Interval(truncated(span(args, 1)?, field))))
                }
                None => Err(ValueError::text(TextProblem::Field, "interval", name)),
            }
        },
    ),
    Function::new(
        &["time_add"],
        "The time of day a span later, around the clock; days and months do not count. As `+`.",
        takes(&[Time, Span]),
        Gives::Type(Type::Time),
        |args, _| around_the_clock(args, 1),
    ),
    Function::new(
        &["time_subtract"],
        "The time of day a span before, around the clock; days and months do not count. As `-`.",
        takes(&[Time, Span]),
        Gives::Type(Type::Time),
        |args, _| around_the_clock(args, -1),
    ),
    Function::new(
        &["date_bin"],
        "The beginning of the bin in which a moment lies: bins of one size, from an origin on.",
        takes(&[Span, Timestamp, Timestamp]),
        Gives::Argument(1),
        |args, _| {
            let stride = span(args, 0)?;
            if stride.months != 0 {
                let message =
                    "timestamps cannot be binned into intervals containing months or years";
                return Err(ValueError::worded(b"0A000", message.into()));
            }
            let stride = (i128::from(stride.days) * i128::from(DAY_NS) + i128::from(stride.nanos))
                / i128::from(US_NS);
            if stride <= 0 {
                return Err(ValueError::worded(
                    b"22008",
                    "stride must be greater than zero".into(),
                ));
            }
            let (at, origin) = (moment(args, 1)?, moment(args, 2)?);
            let bins = (i128::from(at) - i128::from(origin)).div_euclid(stride);
            let begin = i64::try_from(i128::from(origin) + bins * stride)
                .map_err(|_| ValueError::OutOfRange("timestamp"))?;
            Ok(Answer::Value(match args.value(1) {
                ValueRef::TimestampTz(_) => ValueRef::TimestampTz(begin),
                _ => ValueRef::Timestamp(begin),
            }))
        },
    ),
    Function::new(
        &["seconds_rounded"],
        "The moment or span with so many digits of a second, as a type with a precision has.",
        takes(&[M, Integer]),
        Gives::Argument(0),
        |args, _| {
            let places = args.integer(1)?.clamp(0, 6) as u32;
            let unit = 10_i64.pow(6 - places);
            // Halves go away from zero; PostgreSQL's moments are counted from the year 2000.
            let rounded_from = |us: i64, zero: i64| {
                let rest = (us - zero).rem_euclid(unit);
                let up = rest * 2 > unit || rest * 2 == unit && us >= zero;
                us.checked_add(if up { unit - rest } else { -rest })
                    .ok_or(ValueError::OutOfRange("timestamp"))
            };
            let rounded = |us| rounded_from(us, 0);
            Ok(Answer::Value(match args.value(0) {
                ValueRef::Timestamp(us) => ValueRef::Timestamp(rounded_from(us, YEAR_2000)?),
                ValueRef::TimestampTz(us) => ValueRef::TimestampTz(rounded_from(us, YEAR_2000)?),
                ValueRef::Time(us) => ValueRef::Time(rounded(us)?),
                ValueRef::Interval(span) => {
                    let us = span.nanos.div_euclid(US_NS);
                    ValueRef::Interval(Interval { nanos: rounded(us)? * US_NS, ..span })
                }
                other => other,
            }))
        },
    ),
];

/// The year 2000, in microseconds since 1970.
const YEAR_2000: i64 = 946_684_800_000_000;

fn span(args: &Args<'_, '_>, at: usize) -> Result<Interval> {
    match args.value(at) {
        ValueRef::Interval(span) => Ok(span),
        _ => Err(ValueError::Mismatch("a function of intervals")),
    }
}

/// The time of day after a span's hours and smaller parts, `sign` times.
fn around_the_clock<'a>(args: &Args<'_, 'a>, sign: i64) -> Result<Answer<'a>> {
    let ValueRef::Time(us) = args.value(0) else {
        return Err(ValueError::Mismatch("a function of times of day"));
    };
    let shift = sign * (span(args, 1)?.nanos % DAY_NS).div_euclid(US_NS);
    Ok(Answer::Value(ValueRef::Time((us + shift).rem_euclid(DAY_NS / US_NS))))
}

fn moment(args: &Args<'_, '_>, at: usize) -> Result<i64> {
    match args.value(at) {
        ValueRef::Timestamp(us) | ValueRef::TimestampTz(us) => Ok(us),
        _ => Err(ValueError::Mismatch("a function of moments")),
    }
}

/// A span without the fields smaller than one. Months, days and time stay apart.
fn truncated(span: Interval, field: Field) -> Interval {
    let months = |unit: i32| Interval { months: span.months / unit * unit, days: 0, nanos: 0 };
    let time = |unit: i64| Interval { nanos: span.nanos / unit * unit, ..span };
    match field {
        Field::Millennium => months(12_000),
        Field::Century => months(1_200),
        Field::Decade => months(120),
        Field::Year => months(12),
        Field::Quarter => months(3),
        Field::Month => months(1),
        Field::Hour => time(DAY_NS / 24),
        Field::Minute => time(DAY_NS / 24 / 60),
        Field::Second => time(DAY_NS / 24 / 3600),
        Field::Millisecond => time(US_NS * 1_000),
        Field::Microsecond => time(US_NS),
        _ => Interval { nanos: 0, ..span },
    }
}
