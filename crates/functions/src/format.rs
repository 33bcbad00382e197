//! `format`: a text with values put in.

use std::iter::Peekable;
use std::str::Chars;

use super::growing_text::GrowingText;
use super::{Arguments, Gives, Kind, Row, error, text};
use datafusion::common::ScalarValue;
use halcyon_sql::error::{Result, SqlState};
use halcyon_sql::identifier::{quote_ident, quote_literal};
use halcyon_value::integer::{self, Width};

pub(super) const ROWS: &[Row] = &[
    Row {
        repeats: true,
        ..Row::new(
            "format",
            "The text with `%s` (text), `%I` (name) and `%L` (constant) replaced by the arguments.",
            &[Kind::Text, Kind::Written],
            Gives::Text,
            formatted,
        )
        .of_null()
    },
    // `format(text, VARIADIC array)`; NULL is an array without elements there.
    Row::new(
        "format\u{1}list",
        "The text with an array's elements put in.",
        &[Kind::Text, Kind::List],
        Gives::Text,
        |args| {
            let mut values = vec![args.values[0].clone()];
            values.extend(args.list(1)?.unwrap_or_default());
            formatted(&Arguments { values: &values })
        },
    )
    .of_null(),
];

fn wrong(message: impl Into<String>) -> halcyon_sql::error::SqlError {
    error(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// A specifier: `%[position$][-][width]type`.
#[derive(Default)]
struct Specifier {
    position: Option<usize>,
    to_the_left: bool,
    width: usize,
    kind: char,
}

fn formatted(args: &Arguments<'_>) -> Result<ScalarValue> {
    if args.is_null(0) {
        return Ok(ScalarValue::Null);
    }
    let mut out = GrowingText::default();
    let mut characters = args.text(0).chars().peekable();
    let mut next = 1;
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character)?;
            continue;
        }
        if characters.peek() == Some(&'%') {
            out.push('%')?;
            characters.next();
            continue;
        }
        let specifier = read(&mut characters, args, &mut next)?;
        let at = specifier.position.unwrap_or(next);
        if !args.has(at) {
            return Err(wrong("too few arguments for format()"));
        }
        next = at + 1;
        let value = shown(args, at, specifier.kind)?;
        let blanks = specifier.width.saturating_sub(value.chars().count());
        if !specifier.to_the_left {
            out.push_blanks(blanks)?;
        }
        out.push_str(&value)?;
        if specifier.to_the_left {
            out.push_blanks(blanks)?;
        }
    }
    Ok(text(out.into_string()))
}

fn digits(characters: &mut Peekable<Chars<'_>>) -> Result<Option<usize>> {
    let mut number = None;
    while let Some(digit) = characters.peek().and_then(|c| c.to_digit(10)) {
        let value = number.unwrap_or(0_usize) * 10 + digit as usize;
        if value > 1 << 28 {
            return Err(error(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "number is out of range"));
        }
        number = Some(value);
        characters.next();
    }
    Ok(number)
}

/// Reads what follows `%`.
fn read(
    characters: &mut Peekable<Chars<'_>>,
    args: &Arguments<'_>,
    next: &mut usize,
) -> Result<Specifier> {
    let ended =
        || wrong("unterminated format() type specifier").hint("For a single \"%\" use \"%%\".");
    let mut specifier = Specifier::default();
    let mut width = digits(characters)?;
    if width.is_some() && characters.peek() == Some(&'$') {
        characters.next();
        specifier.position = width.take();
        if specifier.position == Some(0) {
            let message = "format specifies argument 0, but arguments are numbered from 1";
            return Err(wrong(message));
        }
    }
    while width.is_none() && characters.peek() == Some(&'-') {
        characters.next();
        specifier.to_the_left = true;
    }
    if width.is_none() && characters.peek() == Some(&'*') {
        characters.next();
        let position = digits(characters)?;
        if position.is_some() && characters.next() != Some('$') {
            return Err(wrong("width argument position must be ended by \"$\""));
        }
        let at = position.unwrap_or(*next);
        if position == Some(0) || !args.has(at) {
            return Err(wrong("too few arguments for format()"));
        }
        *next = at + 1;
        let given = match args.text(at).trim() {
            "" => 0,
            text => integer::parse(text, Width::Integer)?,
        };
        specifier.to_the_left |= given < 0;
        width = Some(given.unsigned_abs() as usize);
    } else if width.is_none() {
        width = digits(characters)?;
    }
    specifier.width = width.unwrap_or(0);
    specifier.kind = characters.next().ok_or_else(ended)?;
    if !matches!(specifier.kind, 's' | 'I' | 'L') {
        let message = format!("unrecognized format() type specifier \"{}\"", specifier.kind);
        return Err(wrong(message).hint("For a single \"%\" use \"%%\"."));
    }
    Ok(specifier)
}

fn shown(args: &Arguments<'_>, at: usize, kind: char) -> Result<String> {
    Ok(match (kind, args.is_null(at)) {
        ('L', true) => "NULL".to_owned(),
        ('I', true) => {
            let message = "null values cannot be formatted as an SQL identifier";
            return Err(error(SqlState::NULL_VALUE_NOT_ALLOWED, message));
        }
        (_, true) => String::new(),
        ('I', false) => quote_ident(args.text(at)),
        ('L', false) => quote_literal(args.text(at)),
        _ => args.text(at).to_owned(),
    })
}
