//! `to_char` of moments, intervals and numbers.

use super::ArgumentKind::{Decimal, Float, Interval as Span, Local, Text, Whole};
use super::{Answer, Args, Function, Gives, takes};
use crate::error::{Result, ValueError};
use crate::pattern::moment::{self, ShownZone};
use crate::pattern::number;
use crate::types::Type;
use crate::value::ValueRef;
use core::fmt::Write;

const TEXT: Gives = Gives::Type(Type::Text);

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new(
        &["to_char"],
        "The moment written by a pattern.",
        takes(&[Local, Text]),
        TEXT,
        of_moment,
    ),
    Function::new(
        &["to_char"],
        "The interval written by a pattern.",
        takes(&[Span, Text]),
        TEXT,
        of_moment,
    ),
    Function::new(
        &["to_char"],
        "The integer written by a pattern.",
        takes(&[Whole, Text]),
        TEXT,
        of_number,
    ),
    Function::new(
        &["to_char"],
        "The decimal written by a pattern.",
        takes(&[Decimal, Text]),
        TEXT,
        of_number,
    ),
    Function::new(
        &["to_char"],
        "The floating-point number written by a pattern.",
        takes(&[Float, Text]),
        TEXT,
        of_number,
    ),
];

fn of_moment<'a>(args: &Args<'_, 'a>, out: &mut dyn Write) -> Result<Answer<'a>> {
    let pattern = args.text(1)?;
    let is_written = match args.value(0) {
        ValueRef::Timestamp(us) => moment::write_timestamp(us, ShownZone::default(), pattern, out)?,
        // PostgreSQL takes a time of day for an interval.
        ValueRef::Interval(span) => moment::write_interval(span, pattern, out)?,
        _ => return Err(ValueError::Mismatch("to_char")),
    };
    Ok(if is_written { Answer::Written } else { Answer::Value(ValueRef::Null) })
}

fn of_number<'a>(args: &Args<'_, 'a>, out: &mut dyn Write) -> Result<Answer<'a>> {
    let pattern = args.text(1)?;
    match args.value(0) {
        ValueRef::Decimal(value) => number::write_decimal(value, args.scale(0), pattern, out)?,
        ValueRef::Float32(value) => number::write_float(value.into(), 6, pattern, out)?,
        ValueRef::Float64(value) => number::write_float(value, 15, pattern, out)?,
        _ => number::write_decimal(args.integer(0)?.into(), 0, pattern, out)?,
    }
    Ok(Answer::Written)
}
