//! The rows of the table: every function whose value follows from its arguments, except those of
//! `doubles`.
//!
//! To add one, add a row with its evaluation; nothing else has to be touched.

use core::fmt::Write;

use super::ArgumentKind::{
    Any, BigInt, Decimal, Float, Integer, Interval as Span, Moment as M, Number, Text, Time,
    Timestamp,
};
use super::{Answer, Args, Function, Gives, any_number, at_least, put, takes, written};
use crate::calendar::{self, Field, Moment};
use crate::compare;
use crate::decimal;
use crate::error::{Result, TextProblem, ValueError};
use crate::float;
use crate::integer::{Width, divide_rounded};
use crate::interval;
use crate::like;
use crate::text;
use crate::types::Type;
use crate::value::{Interval, ValueRef};

/// The type of fields with fractions: a decimal in millionths.
const MILLIONTHS: Type = Type::Decimal { precision: 24, scale: 6 };

const TEXT: Gives = Gives::Type(Type::Text);
const INTEGER: Gives = Gives::Type(Type::Int32);
const INTERVAL: Gives = Gives::Type(Type::Interval);

pub(super) static FUNCTIONS: &[Function] = &[
    // Texts.
    Function::new(&["textcat"], "Both texts, as `||`.", takes(&[Text, Text]), TEXT, concat),
    Function::new(
        &["concat"],
        "All texts, one after the other; NULLs are left out.",
        any_number(&[Text]),
        TEXT,
        concat,
    )
    .of_null(),
    Function::new(&["lower"], "The text in lower case.", takes(&[Text]), TEXT, |args, out| {
        let text = args.text(0)?;
        if !text.is_ascii() {
            return written(out, &text.to_lowercase());
        }
        cased(text, out, |c| c.to_ascii_lowercase())
    }),
    Function::new(&["upper"], "The text in upper case.", takes(&[Text]), TEXT, |args, out| {
        let text = args.text(0)?;
        if !text.is_ascii() {
            return written(out, &text.to_uppercase());
        }
        cased(text, out, |c| c.to_ascii_uppercase())
    }),
    Function::new(
        &["length", "character_length", "char_length"],
        "How many characters the text has.",
        takes(&[Text]),
        INTEGER,
        |args, _| count(text::length(args.text(0)?)),
    ),
    Function::new(
        &["octet_length"],
        "How many bytes the text has.",
        takes(&[Text]),
        INTEGER,
        |args, _| count(args.text(0)?.len() as i64),
    ),
    Function::new(
        &["substr", "substring"],
        "The part of a text from a character on, counted from 1, of so many characters.",
        at_least(1, &[Text, BigInt, BigInt]),
        TEXT,
        |args, _| {
            let length = if args.has(2) { Some(args.integer(2)?) } else { None };
            part(text::substr(args.text(0)?, args.integer(1)?, length)?)
        },
    ),
    Function::new(
        &["left"],
        "The first characters of a text; of a negative count, all but the last.",
        takes(&[Text, BigInt]),
        TEXT,
        |args, _| part(text::left(args.text(0)?, args.integer(1)?)),
    ),
    Function::new(
        &["right"],
        "The last characters of a text; of a negative count, all but the first.",
        takes(&[Text, BigInt]),
        TEXT,
        |args, _| part(text::right(args.text(0)?, args.integer(1)?)),
    ),
    Function::new(
        &["btrim", "trim"],
        "The text without blanks, or these characters, at both ends.",
        at_least(1, &[Text, Text]),
        TEXT,
        |args, _| trim(args, true, true),
    ),
    Function::new(
        &["ltrim"],
        "The text without blanks, or these characters, at its start.",
        at_least(1, &[Text, Text]),
        TEXT,
        |args, _| trim(args, true, false),
    ),
    Function::new(
        &["rtrim"],
        "The text without blanks, or these characters, at its end.",
        at_least(1, &[Text, Text]),
        TEXT,
        |args, _| trim(args, false, true),
    ),
    Function::new(
        &["replace"],
        "The text with every occurrence of the second text replaced by the third.",
        takes(&[Text, Text, Text]),
        TEXT,
        replace,
    ),
    Function::new(
        &["strpos", "position"],
        "The first character at which the text has the other one, counted from 1; 0 if nowhere.",
        takes(&[Text, Text]),
        INTEGER,
        |args, _| count(text::position(args.text(0)?, args.text(1)?)),
    ),
    Function::new(
        &["starts_with"],
        "Whether the text starts with the other one.",
        takes(&[Text, Text]),
        Gives::Type(Type::Bool),
        |args, _| value(ValueRef::Bool(args.text(0)?.starts_with(args.text(1)?))),
    ),
    Function::new(
        &["like_escape"],
        "The pattern of LIKE with backslash in place of another escape character.",
        takes(&[Text, Text]),
        TEXT,
        |args, out| {
            let escape = like::escape_of(args.text(1)?)?;
            written(out, &like::with_backslashes(args.text(0)?, escape))
        },
    ),
    Function::new(
        &["similar_to_escape"],
        "The regular expression for a pattern of SIMILAR TO.",
        at_least(1, &[Text, Text]),
        TEXT,
        |args, out| {
            let escape = if args.has(1) { like::escape_of(args.text(1)?)? } else { Some('\\') };
            written(out, &like::similar_to(args.text(0)?, escape))
        },
    ),
    Function::new(
        &["similar_parts"],
        "The regular expression for a pattern of SUBSTRING … SIMILAR … ESCAPE, with what is wanted in parentheses.",
        takes(&[Text, Text]),
        TEXT,
        |args, out| {
            let escape = like::escape_of(args.text(1)?)?;
            written(out, &like::similar_parts(args.text(0)?, escape)?)
        },
    ),
    // Numbers.
    Function::new(
        &["abs"],
        "The number without its sign.",
        takes(&[Number]),
        Gives::Argument(0),
        absolute,
    ),
    Function::new(
        &["floor"],
        "The largest whole number that is not above.",
        takes(&[Float]),
        Gives::Argument(0),
        |args, _| rounded(args, float::floor),
    ),
    Function::new(
        &["ceil"],
        "The smallest whole number that is not below.",
        takes(&[Float]),
        Gives::Argument(0),
        |args, _| rounded(args, float::ceil),
    ),
    Function::new(
        &["floor"],
        "The largest whole number that is not above the decimal.",
        takes(&[Decimal]),
        Gives::Places,
        |args, _| at_places(args, |value, unit| Ok(value - value.rem_euclid(unit))),
    ),
    Function::new(
        &["ceil"],
        "The smallest whole number that is not below the decimal.",
        takes(&[Decimal]),
        Gives::Places,
        |args, _| at_places(args, |value, unit| Ok(value + (-value).rem_euclid(unit))),
    ),
    Function::new(
        &["round"],
        "The nearest whole number, halves to the even one.",
        takes(&[Float]),
        Gives::Argument(0),
        |args, _| rounded(args, float::round_even),
    ),
    Function::new(
        &["round"],
        "The decimal rounded to whole numbers, or to so many places; halves away from zero.",
        at_least(1, &[Decimal, Integer]),
        Gives::Places,
        |args, _| {
            at_places(args, |value, unit| {
                let units =
                    divide_rounded(value, unit)?.ok_or(ValueError::OutOfRange("numeric"))?;
                units.checked_mul(unit).ok_or(ValueError::OutOfRange("numeric"))
            })
        },
    ),
    Function::new(
        &["trunc"],
        "The number without what is behind the point.",
        takes(&[Float]),
        Gives::Argument(0),
        |args, _| rounded(args, float::trunc),
    ),
    Function::new(
        &["trunc"],
        "The decimal without what is behind the point, or behind so many places.",
        at_least(1, &[Decimal, BigInt]),
        Gives::Places,
        |args, _| at_places(args, |value, unit| Ok(value - value % unit)),
    ),
    Function::new(
        &["bitwise_not"],
        "The bits of an integer inverted, as `~`.",
        takes(&[BigInt]),
        Gives::Type(Type::Int64),
        |args, _| value(ValueRef::Int64(!args.integer(0)?)),
    ),
    // Choices.
    Function::new(
        &["coalesce", "nvl"],
        "The first argument that is not NULL.",
        any_number(&[Any]),
        Gives::Argument(0),
        |args, _| {
            let first = args.values().iter().find(|value| !value.is_null());
            value(first.copied().unwrap_or(ValueRef::Null))
        },
    )
    .of_null(),
    Function::new(
        &["nullif"],
        "NULL if both are equal, else the first.",
        takes(&[Any, Any]),
        Gives::Argument(0),
        null_if,
    )
    .of_null(),
    Function::new(
        &["greatest"],
        "The largest argument; NULLs are left out.",
        any_number(&[Any]),
        Gives::Argument(0),
        |args, _| extreme(args, compare::Compare::Gt),
    )
    .of_null(),
    Function::new(
        &["least"],
        "The smallest argument; NULLs are left out.",
        any_number(&[Any]),
        Gives::Argument(0),
        |args, _| extreme(args, compare::Compare::Lt),
    )
    .of_null(),
    // Moments.
    Function::new(
        &["extract_whole"],
        "A field of a moment that is whole: dow, doy, decade, century and the like.",
        takes(&[Text, M]),
        INTEGER,
        |args, _| {
            let (field, moment) = field_of(args)?;
            moment.whole(field).map_or_else(|| Err(no_field(args)), count)
        },
    ),
    Function::new(
        &["extract_fraction"],
        "A field of a moment that has decimals: second, millisecond, microsecond, epoch, julian.",
        takes(&[Text, M]),
        Gives::Type(MILLIONTHS),
        |args, _| {
            let (field, moment) = field_of(args)?;
            let fraction = moment.fraction(field).ok_or_else(|| no_field(args))?;
            value(ValueRef::Decimal(fraction))
        },
    ),
    Function::new(
        &["extract_refused"],
        "The error, with this message, of a field that the moment's type has not.",
        takes(&[Text, M]),
        INTEGER,
        |args, _| Err(ValueError::worded(b"0A000", args.text(0)?.into())),
    ),
    Function::new(
        &["date_trunc"],
        "The moment at which its year, month, day, hour … began.",
        takes(&[Text, Timestamp]),
        Gives::Argument(1),
        truncate,
    ),
    Function::new(
        &["timestamp_difference"],
        "From the second moment to the first, in days and a rest, as `-`.",
        takes(&[Timestamp, Timestamp]),
        INTERVAL,
        |args, _| {
            let wrong = || ValueError::Mismatch("timestamp_difference");
            let left = compare::whole(args.value(0)).ok_or_else(wrong)?;
            let right = compare::whole(args.value(1)).ok_or_else(wrong)?;
            value(ValueRef::Interval(calendar::difference(left, right)?))
        },
    ),
    Function::new(
        &["time_difference"],
        "From the second time of day to the first, as `-`.",
        takes(&[Time, Time]),
        INTERVAL,
        |args, _| match args.values() {
            [ValueRef::Time(left), ValueRef::Time(right)] => {
                let nanos = (left - right) * calendar::US_NS;
                value(ValueRef::Interval(Interval { nanos, ..Interval::default() }))
            }
            _ => Err(ValueError::Mismatch("time_difference")),
        },
    ),
    Function::new(
        &["interval_multiply"],
        "The interval so many times, as `*`.",
        takes(&[Span, Float]),
        INTERVAL,
        |args, _| scaled(args, interval::multiply),
    ),
    Function::new(
        &["interval_divide"],
        "The interval divided, as `/`.",
        takes(&[Span, Float]),
        INTERVAL,
        |args, _| scaled(args, interval::divide),
    ),
];

pub(super) fn value(value: ValueRef<'_>) -> Result<Answer<'_>> {
    Ok(Answer::Value(value))
}

/// Answers with a part of an argument.
fn part(text: &str) -> Result<Answer<'_>> {
    value(ValueRef::Text(text))
}

fn count(number: i64) -> Result<Answer<'static>> {
    value(Width::Integer.value(number)?)
}

/// Writes an ASCII text with every character replaced by `fold` of it.
fn cased<'a>(text: &str, out: &mut dyn Write, fold: fn(u8) -> u8) -> Result<Answer<'a>> {
    let mut piece = [0; 64];
    for bytes in text.as_bytes().chunks(piece.len()) {
        let piece = &mut piece[..bytes.len()];
        for (to, from) in piece.iter_mut().zip(bytes) {
            *to = fold(*from);
        }
        put(out, core::str::from_utf8(piece).expect("ASCII"));
    }
    Ok(Answer::Written)
}

/// Writes the arguments one behind the other; NULLs are left out.
fn concat<'a>(args: &Args<'_, 'a>, out: &mut dyn Write) -> Result<Answer<'a>> {
    for (at, arg) in args.values().iter().enumerate() {
        if !arg.is_null() {
            put(out, args.text(at)?);
        }
    }
    Ok(Answer::Written)
}

fn trim<'a>(args: &Args<'_, 'a>, start: bool, end: bool) -> Result<Answer<'a>> {
    let set = if args.has(1) { args.text(1)? } else { " " };
    part(text::trim(args.text(0)?, set, start, end))
}

fn replace<'a>(args: &Args<'_, 'a>, out: &mut dyn Write) -> Result<Answer<'a>> {
    let (text, from, to) = (args.text(0)?, args.text(1)?, args.text(2)?);
    if from.is_empty() || !text.contains(from) {
        return part(text);
    }
    for (piece_idx, piece) in text.split(from).enumerate() {
        if piece_idx > 0 {
            put(out, to);
        }
        put(out, piece);
    }
    Ok(Answer::Written)
}

fn absolute<'a>(args: &Args<'_, 'a>, _: &mut dyn Write) -> Result<Answer<'a>> {
    let whole = |width: Width, value: i64| width.value(width.absolute(value)?);
    value(match args.value(0) {
        ValueRef::Int16(value) => whole(Width::SmallInt, value.into())?,
        ValueRef::Int32(value) => whole(Width::Integer, value.into())?,
        ValueRef::Int64(value) => whole(Width::BigInt, value)?,
        ValueRef::Float32(value) => ValueRef::Float32(value.abs()),
        ValueRef::Float64(value) => ValueRef::Float64(value.abs()),
        ValueRef::Decimal(value) => ValueRef::Decimal(value.abs()),
        _ => return Err(ValueError::Mismatch("abs")),
    })
}

fn rounded<'a>(args: &Args<'_, 'a>, round: fn(f64) -> f64) -> Result<Answer<'a>> {
    match args.value(0) {
        ValueRef::Float32(number) => value(ValueRef::Float32(round(number.into()) as f32)),
        ValueRef::Float64(number) => value(ValueRef::Float64(round(number))),
        _ => Err(ValueError::Mismatch("a function of floats")),
    }
}

/// A decimal rounded by `round` to a multiple of a unit: the power of ten of the places that the
/// second argument gives (0 without one), in the result's type.
fn at_places<'a>(args: &Args<'_, 'a>, round: fn(i128, i128) -> Result<i128>) -> Result<Answer<'a>> {
    let Type::Decimal { precision, scale } = args.result() else {
        return Err(ValueError::Mismatch("a function of decimals"));
    };
    let (number, places) = (args.decimal(0)?, if args.has(1) { args.integer(1)? } else { 0 });
    let cut = i64::from(args.scale(0)).saturating_sub(places);
    let kept = match u32::try_from(cut) {
        // The number has no such places.
        Err(_) if cut <= 0 => number,
        Err(_) => 0,
        Ok(cut) => match decimal::power_of_ten(cut) {
            Some(unit) => round(number, unit)?,
            None => 0,
        },
    };
    value(ValueRef::Decimal(decimal::fit(kept, args.scale(0), precision, scale)?))
}

fn null_if<'a>(args: &Args<'_, 'a>, _: &mut dyn Write) -> Result<Answer<'a>> {
    let (left, right) = (args.value(0), args.value(1));
    let equal = !left.is_null() && !right.is_null() && compare::values(left, right).is_eq();
    value(if equal { ValueRef::Null } else { left })
}

/// The argument that compares in this way with all others; NULLs are left out.
fn extreme<'a>(args: &Args<'_, 'a>, stands: compare::Compare) -> Result<Answer<'a>> {
    let known = args.values().iter().copied().filter(|arg| !arg.is_null());
    let best = known.reduce(
        |best, next| {
            if stands.accepts(compare::values(next, best)) { next } else { best }
        },
    );
    value(best.unwrap_or(ValueRef::Null))
}

fn no_field(args: &Args<'_, '_>) -> ValueError {
    ValueError::text(TextProblem::Field, "timestamp", args.text(0).unwrap_or_default())
}

fn field_of(args: &Args<'_, '_>) -> Result<(Field, Moment)> {
    let field = Field::from_name(args.text(0)?);
    field.zip(Moment::of(args.value(1))).ok_or_else(|| no_field(args))
}

fn truncate<'a>(args: &Args<'_, 'a>, _: &mut dyn Write) -> Result<Answer<'a>> {
    let field = Field::from_name(args.text(0)?).filter(|field| field.truncates());
    let field = field.ok_or_else(|| no_field(args))?;
    match args.value(1) {
        ValueRef::Timestamp(us) => value(ValueRef::Timestamp(field.truncate(us))),
        ValueRef::TimestampTz(us) => value(ValueRef::TimestampTz(field.truncate(us))),
        _ => Err(ValueError::Mismatch("date_trunc")),
    }
}

fn scaled<'a>(
    args: &Args<'_, 'a>,
    by: fn(Interval, f64) -> Result<Interval>,
) -> Result<Answer<'a>> {
    let factor = match args.value(1) {
        ValueRef::Float32(value) => value.into(),
        ValueRef::Float64(value) => value,
        _ => return Err(ValueError::Mismatch("a function of intervals")),
    };
    let ValueRef::Interval(interval) = args.value(0) else {
        return Err(ValueError::Mismatch("a function of intervals"));
    };
    value(ValueRef::Interval(by(interval, factor)?))
}
