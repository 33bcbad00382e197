//! `justify_days`, `justify_hours`, `justify_interval`: parts of an interval carried over.

use super::ArgumentKind::Interval as Span;
use super::{Answer, Args, Function, Gives, takes};
use crate::calendar::DAY_NS;
use crate::error::{Result, ValueError};
use crate::types::Type;
use crate::value::{Interval, ValueRef};

const INTERVAL: Gives = Gives::Type(Type::Interval);

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new(
        &["justify_days"],
        "The interval with thirty days as a month.",
        takes(&[Span]),
        INTERVAL,
        |args, _| justified(args, false, true),
    ),
    Function::new(
        &["justify_hours"],
        "The interval with 24 hours as a day.",
        takes(&[Span]),
        INTERVAL,
        |args, _| justified(args, true, false),
    ),
    Function::new(
        &["justify_interval"],
        "The interval with 24 hours as a day and thirty days as a month, all of one sign.",
        takes(&[Span]),
        INTERVAL,
        |args, _| justified(args, true, true),
    ),
];

fn justified<'a>(args: &Args<'_, 'a>, hours: bool, days: bool) -> Result<Answer<'a>> {
    let ValueRef::Interval(span) = args.value(0) else {
        return Err(ValueError::Mismatch("a function of intervals"));
    };
    let (mut months, mut whole_days, mut nanos) =
        (i64::from(span.months), i64::from(span.days), span.nanos);
    if hours {
        whole_days += nanos / DAY_NS;
        nanos %= DAY_NS;
    }
    if days {
        months += whole_days / 30;
        whole_days %= 30;
    }
    // The larger part decides the sign of the smaller ones.
    if days && months > 0 && (whole_days < 0 || whole_days == 0 && hours && nanos < 0) {
        whole_days += 30;
        months -= 1;
    } else if days && months < 0 && (whole_days > 0 || whole_days == 0 && hours && nanos > 0) {
        whole_days -= 30;
        months += 1;
    }
    if hours && whole_days > 0 && nanos < 0 {
        nanos += DAY_NS;
        whole_days -= 1;
    } else if hours && whole_days < 0 && nanos > 0 {
        nanos -= DAY_NS;
        whole_days += 1;
    }
    let far = |_| ValueError::OutOfRange("interval");
    Ok(Answer::Value(ValueRef::Interval(Interval {
        months: i32::try_from(months).map_err(far)?,
        days: i32::try_from(whole_days).map_err(far)?,
        nanos,
    })))
}
