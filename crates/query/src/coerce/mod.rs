//! Values as text and text as values, in PostgreSQL's formats; assignment and explicit casts.
//!
//! COPY, the wire's text format, literals, scalar casts and every stored value come through here,
//! so that there is one opinion on how a type is spelled.
//!
//! Three strengths of conversion: *assignment* (what INSERT and UPDATE may do by themselves),
//! *explicit* (what CAST may do), *input* (text that a client typed, read by the type's own rules).
//! Cost: fixed-width values allocate nothing; a string that a conversion makes lives in [`Arena`].

pub mod datetime;
pub mod interval;
pub mod number;
pub mod zone;

use std::fmt::Write;

use halcyon_store::{Interval, Value, ValueRef};

/// Keeps the strings that conversions make; the same kind that expressions use.
pub use bumpalo::Bump as Arena;
pub use zone::TimeZone;

use crate::error::{Result, SqlError, SqlState};
use crate::types::SqlType;
use datetime::DAY_US;

/// 22P02: `text` is no value of the type.
pub(crate) fn invalid(ty: &str, text: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type {ty}: \"{text}\""),
    )
}

/// 22003: a value does not fit the type.
fn out_of_range(ty: SqlType) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{ty} out of range"))
}

/// Reads `text` as a value of `ty`, by the rules of PostgreSQL's input functions.
///
/// Errors: 22P02, 22003, 22007, 22008, 22015, 22001.
pub fn parse<'a>(
    text: &'a str,
    ty: SqlType,
    zone: &TimeZone,
    arena: &'a Arena,
) -> Result<ValueRef<'a>> {
    let integer = |min, max, ty| number::parse_integer(text, min, max, ty);
    Ok(match ty {
        SqlType::Boolean => ValueRef::Bool(parse_bool(text)?),
        SqlType::SmallInt => {
            ValueRef::Int16(integer(i16::MIN as i64, i16::MAX as i64, "smallint")? as i16)
        }
        SqlType::Integer => {
            ValueRef::Int32(integer(i32::MIN as i64, i32::MAX as i64, "integer")? as i32)
        }
        SqlType::BigInt => ValueRef::Int64(integer(i64::MIN, i64::MAX, "bigint")?),
        SqlType::Real => ValueRef::Float32(number::parse_f32(text)?),
        SqlType::Double => ValueRef::Float64(number::parse_f64(text)?),
        SqlType::Decimal { precision, scale } => {
            ValueRef::Decimal(number::parse_decimal(text, precision, scale)?)
        }
        SqlType::Char(_) | SqlType::Varchar(_) | SqlType::Text => {
            ValueRef::Text(fit_text(text, ty)?)
        }
        SqlType::Bytea => ValueRef::Bytes(arena.alloc_slice_copy(&parse_bytea(text)?)),
        SqlType::Date => ValueRef::Date(datetime::parse_date(text)?),
        SqlType::Time => ValueRef::Time(datetime::parse_time(text)?),
        SqlType::Timestamp => ValueRef::Timestamp(datetime::parse_timestamp(text)?),
        SqlType::TimestampTz => ValueRef::TimestampTz(datetime::parse_timestamptz(text, zone)?),
        SqlType::Interval => ValueRef::Interval(interval::parse_interval(text)?),
        SqlType::Uuid => ValueRef::Uuid(parse_uuid(text)?),
    })
}

/// As [`parse`], into a value of its own.
pub fn parse_owned(text: &str, ty: SqlType, zone: &TimeZone) -> Result<Value> {
    parse(text, ty, zone, &Arena::new()).map(|value| value.to_owned())
}

/// Writes a value as the wire and COPY show it; NULL writes nothing.
///
/// Panics: if the value is not of `ty`'s storage; the plan is broken then.
pub fn write(value: ValueRef<'_>, ty: SqlType, zone: &TimeZone, out: &mut String) {
    let display = match (value, ty) {
        (ValueRef::Null, _) => return,
        (ValueRef::Bool(value), _) => return out.push(if value { 't' } else { 'f' }),
        (ValueRef::Int16(value), _) => write!(out, "{value}"),
        (ValueRef::Int32(value), _) => write!(out, "{value}"),
        (ValueRef::Int64(value), _) => write!(out, "{value}"),
        (ValueRef::Float32(value), _) => return number::write_f32(value, out),
        (ValueRef::Float64(value), _) => return number::write_f64(value, out),
        (ValueRef::Decimal(value), SqlType::Decimal { scale, .. }) => {
            return number::write_decimal(value, scale, out);
        }
        (ValueRef::Text(value), SqlType::Char(Some(length))) => {
            out.push_str(value);
            let missing = (length as usize).saturating_sub(value.chars().count());
            return (0..missing).for_each(|_| out.push(' '));
        }
        (ValueRef::Text(value), _) => return out.push_str(value),
        (ValueRef::Bytes(value), _) => return write_bytea(value, out),
        (ValueRef::Date(value), _) => return datetime::write_date(value, out),
        (ValueRef::Time(value), _) => return datetime::write_time(value, out),
        (ValueRef::Timestamp(value), _) => return datetime::write_timestamp(value, out),
        (ValueRef::TimestampTz(value), _) => {
            return datetime::write_timestamptz(value, zone, out);
        }
        (ValueRef::Interval(value), _) => return interval::write_interval(value, out),
        (ValueRef::Uuid(value), _) => return write_uuid(&value, out),
        (ValueRef::Decimal(_), other) => panic!("a decimal shown as {other}"),
    };
    display.expect("a string takes everything");
}

/// A value as text of its own, as the wire shows it.
pub fn to_text(value: ValueRef<'_>, ty: SqlType, zone: &TimeZone) -> String {
    let mut out = String::new();
    write(value, ty, zone, &mut out);
    out
}

/// Whether INSERT and UPDATE convert `from` to `to` by themselves.
pub fn assignable(from: SqlType, to: SqlType) -> bool {
    use SqlType::*;
    match (from, to) {
        (_, Char(_) | Varchar(_) | Text) => true,
        (from, to) if is_number(from) && is_number(to) => true,
        (Date, Timestamp | TimestampTz) => true,
        (Timestamp, Date | Time | TimestampTz) => true,
        (TimestampTz, Date | Time | Timestamp) => true,
        (Time, Interval) | (Interval, Time) => true,
        (from, to) => from.storage() == to.storage(),
    }
}

/// Whether CAST converts `from` to `to`.
pub fn castable(from: SqlType, to: SqlType) -> bool {
    use SqlType::*;
    assignable(from, to)
        || is_text(from)
        || matches!((from, to), (Boolean, Integer) | (Integer, Boolean))
}

fn is_number(ty: SqlType) -> bool {
    use SqlType::*;
    matches!(ty, SmallInt | Integer | BigInt | Real | Double | Decimal { .. })
}

fn is_text(ty: SqlType) -> bool {
    matches!(ty, SqlType::Char(_) | SqlType::Varchar(_) | SqlType::Text)
}

/// Converts a value on its way into a column.
///
/// Errors: 22003, 22008, 22001; 42804 if the types do not fit (the planner should have said so).
pub fn assign<'a>(
    value: ValueRef<'a>,
    from: SqlType,
    to: SqlType,
    zone: &TimeZone,
    arena: &'a Arena,
) -> Result<ValueRef<'a>> {
    convert(value, from, to, zone, arena, false)
}

/// Converts a value as CAST does: text is read, too long strings are cut.
///
/// Errors: as [`parse`] and [`assign`]; 42846 if there is no such cast.
pub fn cast<'a>(
    value: ValueRef<'a>,
    from: SqlType,
    to: SqlType,
    zone: &TimeZone,
    arena: &'a Arena,
) -> Result<ValueRef<'a>> {
    convert(value, from, to, zone, arena, true)
}

fn convert<'a>(
    value: ValueRef<'a>,
    from: SqlType,
    to: SqlType,
    zone: &TimeZone,
    arena: &'a Arena,
    explicit: bool,
) -> Result<ValueRef<'a>> {
    Ok(match (value, to) {
        (ValueRef::Null, _) => ValueRef::Null,
        (ValueRef::Text(text), to) if is_text(to) => {
            ValueRef::Text(if explicit { cut_text(text, to) } else { fit_text(text, to)? })
        }
        (value, to) if is_text(to) => {
            let text = match value {
                ValueRef::Bool(value) => value.to_string(),
                value => to_text(value, from, zone),
            };
            let text = if explicit { cut_text(&text, to) } else { fit_text(&text, to)? };
            ValueRef::Text(arena.alloc_str(text))
        }
        (ValueRef::Text(text), to) if explicit => parse(text, to, zone, arena)?,
        (value, to) if is_number(from) && is_number(to) => convert_number(value, from, to)?,
        (ValueRef::Bool(value), SqlType::Integer) if explicit => ValueRef::Int32(value as i32),
        (ValueRef::Int32(value), SqlType::Boolean) if explicit => ValueRef::Bool(value != 0),
        (value, to) if from.storage() == to.storage() => value,
        (value, to) => convert_time(value, from, to, zone)?,
    })
}

fn convert_number(value: ValueRef<'_>, from: SqlType, to: SqlType) -> Result<ValueRef<'static>> {
    match value {
        ValueRef::Int16(value) => from_integer(value as i64, to),
        ValueRef::Int32(value) => from_integer(value as i64, to),
        ValueRef::Int64(value) => from_integer(value, to),
        ValueRef::Float32(value) => match to {
            SqlType::Real => Ok(ValueRef::Float32(value)),
            SqlType::Double => Ok(ValueRef::Float64(value as f64)),
            _ => {
                // A decimal takes the digits that the REAL shows, not those of its binary value.
                if let SqlType::Decimal { precision, scale } = to {
                    return float_to_decimal(precision, scale, |out| number::write_f32(value, out));
                }
                from_float(value as f64, to)
            }
        },
        ValueRef::Float64(value) => from_float(value, to),
        ValueRef::Decimal(value) => {
            let SqlType::Decimal { scale, .. } = from else { return Err(mismatch(from, to)) };
            from_decimal(value, scale, to)
        }
        _ => Err(mismatch(from, to)),
    }
}

fn from_integer(value: i64, to: SqlType) -> Result<ValueRef<'static>> {
    let far = |_| out_of_range(to);
    Ok(match to {
        SqlType::SmallInt => ValueRef::Int16(i16::try_from(value).map_err(far)?),
        SqlType::Integer => ValueRef::Int32(i32::try_from(value).map_err(far)?),
        SqlType::BigInt => ValueRef::Int64(value),
        SqlType::Real => ValueRef::Float32(value as f32),
        SqlType::Double => ValueRef::Float64(value as f64),
        SqlType::Decimal { precision, scale } => {
            let scaled = number::rescale(value as i128, 0, scale)
                .ok_or_else(|| number::decimal_overflow(precision, scale))?;
            ValueRef::Decimal(number::check_decimal(scaled, precision, scale)?)
        }
        _ => return Err(mismatch(SqlType::BigInt, to)),
    })
}

/// Halves go to the even neighbour, as in PostgreSQL.
fn from_float(value: f64, to: SqlType) -> Result<ValueRef<'static>> {
    let whole = |min: f64, limit: f64| {
        let rounded = value.round_ties_even();
        (rounded >= min && rounded < limit)
            .then_some(rounded as i64)
            .ok_or_else(|| out_of_range(to))
    };
    Ok(match to {
        SqlType::SmallInt => ValueRef::Int16(whole(-32768.0, 32768.0)? as i16),
        SqlType::Integer => ValueRef::Int32(whole(-2147483648.0, 2147483648.0)? as i32),
        SqlType::BigInt => {
            ValueRef::Int64(whole(-9.223_372_036_854_776e18, 9.223_372_036_854_776e18)?)
        }
        SqlType::Real => {
            let narrow = value as f32;
            let lost = narrow.is_infinite() && value.is_finite() || narrow == 0.0 && value != 0.0;
            if lost {
                return Err(out_of_range(to));
            }
            ValueRef::Float32(narrow)
        }
        SqlType::Double => ValueRef::Float64(value),
        SqlType::Decimal { precision, scale } => {
            return float_to_decimal(precision, scale, |out| {
                // PostgreSQL keeps 15 significant digits of a DOUBLE PRECISION.
                if value.is_finite() {
                    write!(out, "{value:.14e}").expect("a string takes everything");
                } else {
                    number::write_f64(value, out);
                }
            });
        }
        _ => return Err(mismatch(SqlType::Double, to)),
    })
}

fn float_to_decimal(
    precision: u8,
    scale: i8,
    write: impl FnOnce(&mut String),
) -> Result<ValueRef<'static>> {
    let mut text = String::new();
    write(&mut text);
    Ok(ValueRef::Decimal(number::parse_decimal(&text, precision, scale)?))
}

fn from_decimal(value: i128, from_scale: i8, to: SqlType) -> Result<ValueRef<'static>> {
    let far = |_| out_of_range(to);
    let whole = || number::rescale(value, from_scale, 0).ok_or_else(|| out_of_range(to));
    Ok(match to {
        SqlType::SmallInt => ValueRef::Int16(i16::try_from(whole()?).map_err(far)?),
        SqlType::Integer => ValueRef::Int32(i32::try_from(whole()?).map_err(far)?),
        SqlType::BigInt => ValueRef::Int64(i64::try_from(whole()?).map_err(far)?),
        SqlType::Real | SqlType::Double => {
            let mut text = String::new();
            number::write_decimal(value, from_scale, &mut text);
            match to {
                SqlType::Real => ValueRef::Float32(number::parse_f32(&text)?),
                _ => ValueRef::Float64(number::parse_f64(&text)?),
            }
        }
        SqlType::Decimal { precision, scale } => {
            let scaled = number::rescale(value, from_scale, scale)
                .ok_or_else(|| number::decimal_overflow(precision, scale))?;
            ValueRef::Decimal(number::check_decimal(scaled, precision, scale)?)
        }
        _ => return Err(mismatch(SqlType::Decimal { precision: 38, scale: from_scale }, to)),
    })
}

fn convert_time(
    value: ValueRef<'_>,
    from: SqlType,
    to: SqlType,
    zone: &TimeZone,
) -> Result<ValueRef<'static>> {
    let far = || SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{to} out of range"));
    let local = match value {
        ValueRef::Date(days) => (days as i64).checked_mul(DAY_US).ok_or_else(far)?,
        ValueRef::Timestamp(us) => us,
        ValueRef::TimestampTz(us) => zone.to_local(us).ok_or_else(far)?,
        ValueRef::Time(us) if to == SqlType::Interval => {
            return Ok(ValueRef::Interval(Interval { months: 0, days: 0, nanos: us * 1000 }));
        }
        ValueRef::Interval(interval) if to == SqlType::Time => {
            return Ok(ValueRef::Time((interval.nanos / 1000).rem_euclid(DAY_US)));
        }
        _ => return Err(mismatch(from, to)),
    };
    Ok(match to {
        SqlType::Date => ValueRef::Date(local.div_euclid(DAY_US) as i32),
        SqlType::Time if from != SqlType::Date => ValueRef::Time(local.rem_euclid(DAY_US)),
        SqlType::Timestamp => ValueRef::Timestamp(local),
        SqlType::TimestampTz => ValueRef::TimestampTz(zone.to_utc(local).ok_or_else(far)?),
        _ => return Err(mismatch(from, to)),
    })
}

fn mismatch(from: SqlType, to: SqlType) -> SqlError {
    SqlError::new(SqlState::CANNOT_COERCE, format!("cannot cast type {from} to {to}"))
}

/// The text as a column of `ty` keeps it; blanks beyond the length are cut, all of them for CHAR.
///
/// Errors: 22001.
pub fn fit_text(text: &str, ty: SqlType) -> Result<&str> {
    let (text, length) = match ty {
        SqlType::Char(length) => (text.trim_end_matches(' '), length.unwrap_or(1)),
        SqlType::Varchar(Some(length)) => (text, length),
        _ => return Ok(text),
    };
    // Bytes bound characters, so nearly every string is settled without counting.
    if text.len() <= length as usize {
        return Ok(text);
    }
    match text.char_indices().nth(length as usize) {
        None => Ok(text),
        Some((end, _)) if text[end..].bytes().all(|byte| byte == b' ') => Ok(&text[..end]),
        Some(_) => Err(SqlError::new(
            SqlState::STRING_DATA_RIGHT_TRUNCATION,
            format!("value too long for type {ty}"),
        )),
    }
}

/// The text cut to the length of `ty`, as an explicit cast does.
fn cut_text(text: &str, ty: SqlType) -> &str {
    let cut = |text: &'_ str, length: u32| {
        text.char_indices().nth(length as usize).map_or(text.len(), |(end, _)| end)
    };
    match ty {
        SqlType::Char(length) => text[..cut(text, length.unwrap_or(1))].trim_end_matches(' '),
        SqlType::Varchar(Some(length)) => &text[..cut(text, length)],
        _ => text,
    }
}

fn parse_bool(text: &str) -> Result<bool> {
    let word = number::trim(text).to_ascii_lowercase();
    let prefix_of = |full: &str, least: usize| word.len() >= least && full.starts_with(&word);
    if prefix_of("true", 1) || prefix_of("yes", 1) || word == "on" || word == "1" {
        return Ok(true);
    }
    if prefix_of("false", 1) || prefix_of("no", 1) || prefix_of("off", 2) || word == "0" {
        return Ok(false);
    }
    Err(invalid("boolean", text))
}

/// Hex (`\x4142`) or escape format (`\\`, `\101`, plain bytes).
fn parse_bytea(text: &str) -> Result<Vec<u8>> {
    if let Some(hex) = text.strip_prefix("\\x") {
        let digits: Vec<u8> =
            hex.bytes().filter(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).collect();
        let (pairs, rest) = digits.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "invalid hexadecimal data: odd number of digits",
            ));
        }
        let digit = |byte: u8| {
            (byte as char).to_digit(16).map(|digit| digit as u8).ok_or_else(|| {
                SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("invalid hexadecimal digit: \"{}\"", byte as char),
                )
            })
        };
        return pairs.iter().map(|[high, low]| Ok(digit(*high)? << 4 | digit(*low)?)).collect();
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    loop {
        rest = match rest {
            [] => return Ok(bytes),
            [b'\\', b'\\', rest @ ..] => {
                bytes.push(b'\\');
                rest
            }
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..] => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest
            }
            [b'\\', ..] => return Err(invalid("bytea", text)),
            [byte, rest @ ..] => {
                bytes.push(*byte);
                rest
            }
        };
    }
}

fn write_bytea(bytes: &[u8], out: &mut String) {
    out.reserve(2 + 2 * bytes.len());
    out.push_str("\\x");
    bytes.iter().for_each(|byte| push_hex(*byte, out));
}

fn push_hex(byte: u8, out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(DIGITS[byte as usize >> 4] as char);
    out.push(DIGITS[byte as usize & 15] as char);
}

/// 32 hex digits, optionally in braces, with a hyphen after any group of four.
fn parse_uuid(text: &str) -> Result<[u8; 16]> {
    let bad = || invalid("uuid", text);
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}').ok_or_else(bad)?,
        None => text,
    };
    let mut uuid = [0u8; 16];
    let mut digits = 0;
    let mut hyphen_allowed = false;
    for byte in inner.bytes() {
        if byte == b'-' && hyphen_allowed {
            hyphen_allowed = false;
            continue;
        }
        let digit = (byte as char).to_digit(16).ok_or_else(bad)? as u8;
        *uuid.get_mut(digits / 2).ok_or_else(bad)? |= digit << (4 - 4 * (digits % 2));
        digits += 1;
        hyphen_allowed = digits % 4 == 0 && digits < 32;
    }
    if digits == 32 { Ok(uuid) } else { Err(bad()) }
}

fn write_uuid(uuid: &[u8; 16], out: &mut String) {
    for (at, byte) in uuid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        push_hex(*byte, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon_base::rng::Rng;

    fn read(text: &str, ty: SqlType) -> Result<Value, SqlState> {
        parse_owned(text, ty, &TimeZone::UTC).map_err(|error| error.state())
    }

    #[test]
    fn booleans_know_prefixes() {
        for text in ["t", "TRUE", " tr ", "y", "yes", "on", "1"] {
            assert_eq!(read(text, SqlType::Boolean), Ok(Value::Bool(true)), "{text:?}");
        }
        for text in ["f", "False", "n", "no", "of", "off", "0"] {
            assert_eq!(read(text, SqlType::Boolean), Ok(Value::Bool(false)), "{text:?}");
        }
        for text in ["", "o", "2", "truee", "nope"] {
            assert_eq!(
                read(text, SqlType::Boolean),
                Err(SqlState::INVALID_TEXT_REPRESENTATION),
                "{text:?}"
            );
        }
    }

    #[test]
    fn bytea_reads_hex_and_escapes_and_writes_hex() {
        let show = |text| {
            let value = read(text, SqlType::Bytea)?;
            Ok(to_text(value.as_ref(), SqlType::Bytea, &TimeZone::UTC))
        };
        assert_eq!(show("\\xDEADbeef"), Ok("\\xdeadbeef".to_owned()));
        assert_eq!(show("\\x"), Ok("\\x".to_owned()));
        assert_eq!(show("\\x de ad"), Ok("\\xdead".to_owned()));
        assert_eq!(show("a\\\\b\\001"), Ok("\\x615c6201".to_owned()));
        assert_eq!(show("\\x1"), Err(SqlState::INVALID_PARAMETER_VALUE));
        assert_eq!(show("\\xzz"), Err(SqlState::INVALID_PARAMETER_VALUE));
        assert_eq!(show("a\\9"), Err(SqlState::INVALID_TEXT_REPRESENTATION));
    }

    #[test]
    fn uuids_read_in_all_spellings() {
        let canonical = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        for text in [
            canonical,
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
        ] {
            let value = read(text, SqlType::Uuid).expect("a uuid");
            assert_eq!(to_text(value.as_ref(), SqlType::Uuid, &TimeZone::UTC), canonical);
        }
        for text in [
            "",
            "a0",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "g0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1122",
            "a0eebc99--9c0b-4ef8-bb6d-6bb9bd380a11",
        ] {
            assert_eq!(read(text, SqlType::Uuid), Err(SqlState::INVALID_TEXT_REPRESENTATION));
        }
    }

    #[test]
    fn strings_lose_only_blanks_on_assignment_and_anything_in_a_cast() {
        let varchar = SqlType::Varchar(Some(3));
        assert_eq!(fit_text("abc", varchar).ok(), Some("abc"));
        assert_eq!(fit_text("abc  ", varchar).ok(), Some("abc"));
        assert_eq!(fit_text("ab  ", varchar).ok(), Some("ab "));
        assert_eq!(fit_text("äöü", varchar).ok(), Some("äöü"));
        let error = fit_text("abcd", varchar).unwrap_err();
        assert_eq!(error.state(), SqlState::STRING_DATA_RIGHT_TRUNCATION);
        assert_eq!(error.message(), "value too long for type character varying(3)");
        assert_eq!(fit_text("ab   ", SqlType::Char(Some(3))).ok(), Some("ab"));
        assert_eq!(cut_text("äöüx", varchar), "äöü");
        assert_eq!(cut_text("a bc", SqlType::Char(Some(2))), "a");
        assert_eq!(to_text(ValueRef::Text("ab"), SqlType::Char(Some(4)), &TimeZone::UTC), "ab  ");
    }

    #[test]
    fn assignment_casts_check_their_range() {
        let arena = Arena::new();
        let zone = TimeZone::UTC;
        let decimal = |precision, scale| SqlType::Decimal { precision, scale };
        let assign = |value, from, to| {
            super::assign(value, from, to, &zone, &arena).map_err(|error| error.state())
        };
        let far = Err(SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
        let (int, small) = (SqlType::Integer, SqlType::SmallInt);
        assert_eq!(assign(ValueRef::Int32(7), int, small), Ok(ValueRef::Int16(7)));
        assert_eq!(assign(ValueRef::Int32(40000), int, small), far);
        assert_eq!(assign(ValueRef::Float64(2.5), SqlType::Double, int), Ok(ValueRef::Int32(2)));
        assert_eq!(assign(ValueRef::Float64(3e9), SqlType::Double, int), far);
        assert_eq!(assign(ValueRef::Float64(f64::NAN), SqlType::Double, int), far);
        assert_eq!(assign(ValueRef::Float64(1e39), SqlType::Double, SqlType::Real), far);
        assert_eq!(assign(ValueRef::Decimal(25), decimal(5, 1), int), Ok(ValueRef::Int32(3)));
        assert_eq!(
            assign(ValueRef::Float64(0.1), SqlType::Double, decimal(5, 3)),
            Ok(ValueRef::Decimal(100))
        );
        assert_eq!(
            assign(ValueRef::Float32(0.1), SqlType::Real, decimal(9, 8)),
            Ok(ValueRef::Decimal(10_000_000))
        );
        assert_eq!(assign(ValueRef::Int32(1000), int, decimal(5, 2)), far);
        assert_eq!(
            assign(ValueRef::Decimal(12345), decimal(5, 2), SqlType::Double),
            Ok(ValueRef::Float64(123.45))
        );
        assert_eq!(
            assign(ValueRef::Date(1), SqlType::Date, SqlType::Timestamp),
            Ok(ValueRef::Timestamp(DAY_US))
        );
        assert_eq!(
            assign(ValueRef::Timestamp(-1), SqlType::Timestamp, SqlType::Date),
            Ok(ValueRef::Date(-1))
        );
        assert_eq!(
            assign(ValueRef::Bool(true), SqlType::Boolean, SqlType::Text),
            Ok(ValueRef::Text("true"))
        );
        assert_eq!(
            assign(ValueRef::Bool(true), SqlType::Boolean, int),
            Err(SqlState::CANNOT_COERCE)
        );
        assert_eq!(
            assign(ValueRef::Date(i32::MAX), SqlType::Date, SqlType::Timestamp),
            Err(SqlState::DATETIME_FIELD_OVERFLOW)
        );
        let cast = super::cast(ValueRef::Bool(true), SqlType::Boolean, int, &zone, &arena);
        assert_eq!(cast.ok(), Some(ValueRef::Int32(1)));
        let cast = super::cast(ValueRef::Text(" 12 "), SqlType::Text, int, &zone, &arena);
        assert_eq!(cast.ok(), Some(ValueRef::Int32(12)));
        for (from, to, assigns, casts) in [
            (SqlType::Text, int, false, true),
            (int, SqlType::Text, true, true),
            (SqlType::Boolean, int, false, true),
            (SqlType::Boolean, SqlType::Date, false, false),
            (small, decimal(3, 0), true, true),
            (SqlType::Uuid, SqlType::Bytea, false, false),
        ] {
            assert_eq!((assignable(from, to), castable(from, to)), (assigns, casts), "{from} {to}");
        }
    }

    /// Strategy: values over the whole range of each type, with many near zero and the ends;
    /// invariant: text → value gives back what value → text was given.
    #[test]
    fn every_value_reads_back_from_its_text() {
        let mut rng = Rng::new(7);
        let zones = ["UTC", "Europe/Berlin", "+05:30", "America/New_York"]
            .map(|zone| TimeZone::parse(zone).expect("a zone"));
        for round in 0..20_000 {
            let zone = zones[round % zones.len()];
            let bits = rng.next_u64() >> (rng.next_u64() % 64);
            let signed = bits as i64;
            let us = signed % 200_000_000_000_000_000;
            let interval = Interval {
                months: signed as i32 % 100_000,
                days: (signed >> 20) as i32 % 100_000,
                nanos: us / 1000 * 1000,
            };
            let cases = [
                (Value::Bool(signed % 2 == 0), SqlType::Boolean),
                (Value::Int16(signed as i16), SqlType::SmallInt),
                (Value::Int32(signed as i32), SqlType::Integer),
                (Value::Int64(signed), SqlType::BigInt),
                (Value::Float32(f32::from_bits(bits as u32)), SqlType::Real),
                (Value::Float64(f64::from_bits(bits)), SqlType::Double),
                (
                    Value::Decimal(signed as i128 * 1_000_003),
                    SqlType::Decimal { precision: 38, scale: (bits % 30) as i8 },
                ),
                (Value::Bytes(bits.to_be_bytes().to_vec()), SqlType::Bytea),
                (Value::Date(signed as i32 % 2_400_000), SqlType::Date),
                (Value::Time(us.rem_euclid(DAY_US)), SqlType::Time),
                (Value::Timestamp(us / 2), SqlType::Timestamp),
                // Whole hours of the year 2020 in winter: no local time there is ambiguous.
                (
                    Value::TimestampTz(1_577_836_800_000_000 + us.rem_euclid(5_000_000_000_000)),
                    SqlType::TimestampTz,
                ),
                (Value::Interval(interval), SqlType::Interval),
                (Value::Uuid((bits as u128 * 0x1_0000_0001_0001).to_be_bytes()), SqlType::Uuid),
            ];
            for (value, ty) in cases {
                let text = to_text(value.as_ref(), ty, &zone);
                let back = parse_owned(&text, ty, &zone);
                let same = match (&value, &back) {
                    (Value::Float32(a), Ok(Value::Float32(b))) => {
                        a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
                    }
                    (Value::Float64(a), Ok(Value::Float64(b))) => {
                        a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
                    }
                    (a, Ok(b)) => a == b,
                    _ => false,
                };
                assert!(same, "{value:?} as {ty} is {text:?} and reads back as {back:?}");
            }
        }
    }
}
