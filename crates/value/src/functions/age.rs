//! `age`: the interval between two moments in years, months and days.

use super::ArgumentKind::Local;
use super::{Answer, Function, Gives, takes};
use crate::calendar::{self, DAY_US};
use crate::compare;
use crate::error::{Result, ValueError};
use crate::types::Type;
use crate::value::{Interval, ValueRef};

pub(super) static FUNCTIONS: &[Function] = &[Function::new(
    &["age"],
    "From the second moment to the first, in years, months, days and a rest.",
    takes(&[Local, Local]),
    Gives::Type(Type::Interval),
    |args, _| {
        let moment = |at| compare::whole(args.value(at)).ok_or(ValueError::Mismatch("age"));
        Ok(Answer::Value(ValueRef::Interval(between(moment(0)?, moment(1)?)?)))
    },
)];

/// From the second local time to the first. Days are those of the earlier one's month.
pub fn between(left: i64, right: i64) -> Result<Interval> {
    let (later, earlier) = if left < right { (right, left) } else { (left, right) };
    let parts = |us| (calendar::civil_from_days(calendar::day_of(us)), calendar::time_of(us));
    let (((year, month, day), time), ((from_year, from_month, from_day), from_time)) =
        (parts(later), parts(earlier));
    let mut months = (year - from_year) * 12 + i64::from(month) - i64::from(from_month);
    let mut days = i64::from(day) - i64::from(from_day);
    let mut us = time - from_time;
    if us < 0 {
        us += DAY_US;
        days -= 1;
    }
    while days < 0 {
        days += i64::from(calendar::days_in_month(from_year, from_month));
        months -= 1;
    }
    let sign = if left < right { -1 } else { 1 };
    let far = |_| ValueError::OutOfRange("interval");
    Ok(Interval {
        months: i32::try_from(months * sign).map_err(far)?,
        days: i32::try_from(days * sign).map_err(far)?,
        nanos: us * sign * calendar::US_NS,
    })
}
