//! Numbers as text: PostgreSQL's input rules and its shortest output.

use std::fmt::Write;

use halcyon_store::ValueRef;

use super::invalid;
use crate::error::{Result, SqlError, SqlState};
use crate::types::SqlType;

/// Largest precision of a decimal.
pub const DECIMAL_DIGITS_MAX: u8 = 38;

/// 22003: the text of a number is outside the type.
fn out_of_range(text: &str, ty: &str) -> SqlError {
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("value \"{text}\" is out of range for type {ty}"),
    )
}

/// Reads an integer: decimal, `0x`, `0o`, `0b`, with single underscores between digits.
///
/// Errors: 22P02 if it is no integer, 22003 if it does not lie in `min..=max`.
pub fn parse_integer(text: &str, min: i64, max: i64, ty: &'static str) -> Result<i64> {
    let trimmed = trim(text);
    let (negative, digits) = match trimmed.as_bytes().first() {
        Some(b'-') => (true, &trimmed[1..]),
        Some(b'+') => (false, &trimmed[1..]),
        _ => (false, trimmed),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        _ => (10, digits),
    };
    let (mut value, mut digit_before, mut overflow) = (0i128, radix != 10, false);
    for byte in digits.bytes() {
        if byte == b'_' && digit_before {
            digit_before = false;
            continue;
        }
        let digit = (byte as char).to_digit(radix).ok_or_else(|| invalid(ty, text))?;
        value = value * radix as i128 + digit as i128;
        overflow |= value > i64::MAX as i128 + 1;
        value = value.min(i64::MAX as i128 + 2);
        digit_before = true;
    }
    if !digit_before || digits.is_empty() {
        return Err(invalid(ty, text));
    }
    let value = if negative { -value } else { value };
    if overflow || value < min as i128 || value > max as i128 {
        return Err(out_of_range(trimmed, ty));
    }
    Ok(value as i64)
}

/// Reads a decimal into an integer of `scale` digits after the point, rounding half away from
/// zero. Exponents are allowed.
///
/// Errors: 22P02 if it is no number, 22003 if it needs more than `precision` digits or is not
/// finite.
pub fn parse_decimal(text: &str, precision: u8, scale: i8) -> Result<i128> {
    let bad = || invalid("numeric", text);
    let trimmed = trim(text);
    let (negative, rest) = match trimmed.as_bytes().first() {
        Some(b'-') => (true, &trimmed[1..]),
        Some(b'+') => (false, &trimmed[1..]),
        _ => (false, trimmed),
    };
    if ["nan", "inf", "infinity"].iter().any(|word| rest.eq_ignore_ascii_case(word)) {
        return Err(SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("numeric({precision},{scale}) cannot hold \"{trimmed}\""),
        ));
    }
    let (mantissa, exponent) = match rest.find(['e', 'E']) {
        Some(at) => {
            let exponent = &rest[at + 1..];
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return Err(bad());
            }
            let sign = if exponent.starts_with('-') { -1 } else { 1 };
            (&rest[..at], sign * digits.parse::<i64>().unwrap_or(1_000_000).min(1_000_000))
        }
        None => (rest, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return Err(bad());
    }
    // The digit at position p (0 = first of `whole`) has weight 10^(point - 1 - p).
    let mut digit_before = false;
    let mut digits = 0i64;
    let point = {
        let mut count = 0i64;
        for byte in whole.bytes() {
            match byte {
                b'0'..=b'9' => {
                    count += 1;
                    digit_before = true;
                }
                b'_' if digit_before => digit_before = false,
                _ => return Err(bad()),
            }
        }
        if whole.ends_with('_') {
            return Err(bad());
        }
        count + exponent
    };
    let keep = point + scale as i64; // digits from the first on that are kept
    let (mut value, mut round_up) = (0i128, false);
    let mut overflow = false;
    for byte in whole.bytes().chain(fraction.bytes()) {
        if byte == b'_' {
            continue;
        }
        if !byte.is_ascii_digit() {
            return Err(bad());
        }
        if digits < keep {
            value = match value.checked_mul(10).and_then(|v| v.checked_add((byte - b'0') as i128)) {
                Some(value) => value,
                None => {
                    overflow = true;
                    value
                }
            };
        } else if digits == keep {
            round_up = byte >= b'5';
        }
        digits += 1;
    }
    // More places are wanted than there are digits: fill with zeros.
    if value != 0 {
        for _ in digits..keep {
            match value.checked_mul(10) {
                Some(more) => value = more,
                None => {
                    overflow = true;
                    break;
                }
            }
        }
    }
    value += round_up as i128;
    if overflow {
        return Err(decimal_overflow(precision, scale));
    }
    check_decimal(if negative { -value } else { value }, precision, scale)
}

/// The value, if it has at most `precision` digits; else 22003.
pub fn check_decimal(value: i128, precision: u8, scale: i8) -> Result<i128> {
    match power_of_ten(precision as u32) {
        Some(limit) if value.unsigned_abs() >= limit as u128 => {
            Err(decimal_overflow(precision, scale))
        }
        _ => Ok(value),
    }
}

/// 22003 as PostgreSQL words it.
pub fn decimal_overflow(precision: u8, scale: i8) -> SqlError {
    let digits = precision as i32 - scale as i32;
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").detail(format!(
        "A field with precision {precision}, scale {scale} must round to an absolute value less \
         than {}.",
        if digits == 0 { "1".to_owned() } else { format!("10^{digits}") }
    ))
}

/// Ten to the power of `exponent`, if it fits.
pub fn power_of_ten(exponent: u32) -> Option<i128> {
    10i128.checked_pow(exponent)
}

/// Brings a decimal from one scale to another, rounding half away from zero. `None`: it does not
/// fit 128 bits.
pub fn rescale(value: i128, from: i8, to: i8) -> Option<i128> {
    let shift = to as i32 - from as i32;
    if shift >= 0 {
        if value == 0 {
            return Some(0);
        }
        return value.checked_mul(power_of_ten(shift as u32)?);
    }
    let Some(divisor) = power_of_ten(shift.unsigned_abs()) else { return Some(0) };
    let (quotient, rest) = (value / divisor, value % divisor);
    let away = (rest.unsigned_abs() >= divisor as u128 - rest.unsigned_abs()) as i128;
    Some(quotient + away * value.signum())
}

/// The value of an integer of any width.
pub fn widen_integer(value: ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Int16(value) => Some(value as i64),
        ValueRef::Int32(value) => Some(value as i64),
        ValueRef::Int64(value) => Some(value),
        _ => None,
    }
}

/// An integer as a value of an integer type; `None` if it does not fit or `ty` is no integer.
pub fn fit_integer(value: i64, ty: SqlType) -> Option<ValueRef<'static>> {
    match ty {
        SqlType::SmallInt => i16::try_from(value).ok().map(ValueRef::Int16),
        SqlType::Integer => i32::try_from(value).ok().map(ValueRef::Int32),
        SqlType::BigInt => Some(ValueRef::Int64(value)),
        _ => None,
    }
}

/// Writes a decimal with exactly `scale` places.
pub fn write_decimal(value: i128, scale: i8, out: &mut String) {
    if value < 0 {
        out.push('-');
    }
    let magnitude = value.unsigned_abs();
    if scale <= 0 {
        write!(out, "{magnitude}").expect("a string takes everything");
        if magnitude != 0 {
            (0..-(scale as i32)).for_each(|_| out.push('0'));
        }
        return;
    }
    match 10u128.checked_pow(scale as u32) {
        Some(unit) => {
            write!(out, "{}.{:0width$}", magnitude / unit, magnitude % unit, width = scale as usize)
        }
        None => write!(out, "0.{magnitude:0width$}", width = scale as usize),
    }
    .expect("a string takes everything");
}

/// Reads a DOUBLE PRECISION. Errors: 22P02, 22003 on overflow and underflow.
pub fn parse_f64(text: &str) -> Result<f64> {
    let trimmed = checked_float_text(text, "double precision")?;
    let value: f64 = trimmed.parse().map_err(|_| invalid("double precision", text))?;
    check_float_range(trimmed, value.is_infinite(), value == 0.0, "double precision")?;
    Ok(value)
}

/// Reads a REAL. Errors: 22P02, 22003 on overflow and underflow.
pub fn parse_f32(text: &str) -> Result<f32> {
    let trimmed = checked_float_text(text, "real")?;
    let value: f32 = trimmed.parse().map_err(|_| invalid("real", text))?;
    check_float_range(trimmed, value.is_infinite(), value == 0.0, "real")?;
    Ok(value)
}

fn checked_float_text<'a>(text: &'a str, ty: &'static str) -> Result<&'a str> {
    let trimmed = trim(text);
    let bare = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    if bare.is_empty() || bare.starts_with(['+', '-']) {
        return Err(invalid(ty, text));
    }
    Ok(trimmed)
}

fn check_float_range(text: &str, infinite: bool, zero: bool, ty: &str) -> Result<()> {
    let spelled = text.contains(['i', 'I', 'n', 'N']);
    let mantissa = text.split(['e', 'E']).next().unwrap_or(text);
    let underflow = zero && mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    if (infinite && !spelled) || underflow {
        return Err(SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("\"{text}\" is out of range for type {ty}"),
        ));
    }
    Ok(())
}

/// Writes a DOUBLE PRECISION with the fewest digits that read back as the same value.
pub fn write_f64(value: f64, out: &mut String) {
    if !write_special(value, out) {
        write_shortest(format_args!("{value:e}"), 15, out);
    }
}

/// Writes a REAL with the fewest digits that read back as the same value.
pub fn write_f32(value: f32, out: &mut String) {
    if !write_special(value as f64, out) {
        write_shortest(format_args!("{value:e}"), 6, out);
    }
}

fn write_special(value: f64, out: &mut String) -> bool {
    let word = match value {
        value if value.is_nan() => "NaN",
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => return false,
    };
    out.push_str(word);
    true
}

/// Rewrites Rust's shortest `d.ddde±x` as PostgreSQL prints it: fixed notation while the exponent
/// lies in `-4..fixed_below`.
fn write_shortest(scientific: std::fmt::Arguments<'_>, fixed_below: i32, out: &mut String) {
    let mut text = arrayvec::ArrayString::<40>::new();
    text.write_fmt(scientific).expect("17 digits, point, sign and exponent fit 40 bytes");
    let (mantissa, exponent) = text.split_once('e').expect("`{:e}` writes an exponent");
    let exponent: i32 = exponent.parse().expect("`{:e}` writes an integer exponent");
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    out.push_str(sign);
    if !(-4..fixed_below).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "{mantissa}e{sign}{:02}", exponent.abs()).expect("a string takes everything");
        return;
    }
    let digits = mantissa.chars().filter(|c| *c != '.');
    let count = mantissa.len() as i32 - mantissa.contains('.') as i32;
    if exponent < 0 {
        out.push_str("0.");
        (0..-exponent - 1).for_each(|_| out.push('0'));
        out.extend(digits);
        return;
    }
    for (at, digit) in digits.enumerate() {
        if at as i32 == exponent + 1 {
            out.push('.');
        }
        out.push(digit);
    }
    (count..exponent + 1).for_each(|_| out.push('0'));
}

/// Without the blanks that PostgreSQL's input functions skip.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_read_as_postgresql_reads_them() {
        let read = |text| parse_integer(text, -32768, 32767, "smallint").map_err(|e| e.state());
        assert_eq!(read(" -32768 "), Ok(-32768));
        assert_eq!(read("+7"), Ok(7));
        assert_eq!(read("1_000"), Ok(1000));
        assert_eq!(read("0x7F"), Ok(127));
        assert_eq!(read("0b_101"), Ok(5));
        assert_eq!(read("-0o17"), Ok(-15));
        for bad in ["", " ", "-", "+-1", "1.0", "1_", "_1", "1__0", "abc", "1 2", "0x", "0xg"] {
            assert_eq!(read(bad), Err(SqlState::INVALID_TEXT_REPRESENTATION), "{bad:?}");
        }
        for far in ["32768", "-32769", "99999999999999999999999999999999999999999999999999"] {
            assert_eq!(read(far), Err(SqlState::NUMERIC_VALUE_OUT_OF_RANGE), "{far:?}");
        }
        let wide = |text| parse_integer(text, i64::MIN, i64::MAX, "bigint").map_err(|e| e.state());
        assert_eq!(wide("-9223372036854775808"), Ok(i64::MIN));
        assert_eq!(wide("9223372036854775808"), Err(SqlState::NUMERIC_VALUE_OUT_OF_RANGE));
    }

    #[test]
    fn decimals_round_half_away_from_zero_and_know_exponents() {
        let read = |text| parse_decimal(text, 5, 2).map_err(|e| e.state());
        assert_eq!(read("1.005"), Ok(101));
        assert_eq!(read("-1.005"), Ok(-101));
        assert_eq!(read("1.0049999"), Ok(100));
        assert_eq!(read(" 12 "), Ok(1200));
        assert_eq!(read(".5"), Ok(50));
        assert_eq!(read("5."), Ok(500));
        assert_eq!(read("1e2"), Ok(10000));
        assert_eq!(read("12345E-2"), Ok(12345));
        assert_eq!(read("9e-3"), Ok(1));
        assert_eq!(read("9e-4"), Ok(0));
        assert_eq!(read("0e999999999999"), Ok(0));
        assert_eq!(read("1_0.0"), Ok(1000));
        for bad in ["", ".", "1e", "e1", "1e+", "--1", "1.2.3", "abc", "1_", "_1"] {
            assert_eq!(read(bad), Err(SqlState::INVALID_TEXT_REPRESENTATION), "{bad:?}");
        }
        for far in ["1000", "999.995", "1e3", "1e500", "NaN", "-Infinity"] {
            assert_eq!(read(far), Err(SqlState::NUMERIC_VALUE_OUT_OF_RANGE), "{far:?}");
        }
        assert_eq!(parse_decimal("99999999999999999999999999999999999999", 38, 0).ok(), {
            Some(10i128.pow(38) - 1)
        });
        assert!(parse_decimal("1e38", 38, 0).is_err());
        assert_eq!(parse_decimal("1234", 3, -2).ok(), Some(12));
    }

    #[test]
    fn decimals_print_every_place() {
        let print = |value, scale| {
            let mut out = String::new();
            write_decimal(value, scale, &mut out);
            out
        };
        assert_eq!(print(12345, 2), "123.45");
        assert_eq!(print(-5, 2), "-0.05");
        assert_eq!(print(0, 3), "0.000");
        assert_eq!(print(7, 0), "7");
        assert_eq!(print(12, -2), "1200");
        assert_eq!(print(1, 38), "0.00000000000000000000000000000000000001");
    }

    #[test]
    fn rescaling_rounds_half_away_from_zero() {
        assert_eq!(rescale(15, 1, 0), Some(2));
        assert_eq!(rescale(-15, 1, 0), Some(-2));
        assert_eq!(rescale(14, 1, 0), Some(1));
        assert_eq!(rescale(7, 0, 3), Some(7000));
        assert_eq!(rescale(i128::MAX, 0, 1), None);
        assert_eq!(rescale(10i128.pow(38), 38, -2), Some(0));
    }

    #[test]
    fn floats_print_shortest() {
        let check = |value: f64, expected: &str| {
            let mut out = String::new();
            write_f64(value, &mut out);
            assert_eq!(out, expected);
        };
        check(1.0, "1");
        check(-0.0, "-0");
        check(0.1, "0.1");
        check(1e20, "1e+20");
        check(1e15, "1e+15");
        check(1e14, "100000000000000");
        check(123456789012345.0, "123456789012345");
        check(0.0001, "0.0001");
        check(0.00001, "1e-05");
        check(1.5e-7, "1.5e-07");
        check(-1234.5678, "-1234.5678");
        check(f64::MAX, "1.7976931348623157e+308");
        check(5e-324, "5e-324");
        check(f64::NAN, "NaN");
        check(f64::NEG_INFINITY, "-Infinity");
        let mut out = String::new();
        write_f32(1234567.0, &mut out);
        out.push(' ');
        write_f32(123456.0, &mut out);
        out.push(' ');
        write_f32(0.1, &mut out);
        assert_eq!(out, "1.234567e+06 123456 0.1");
    }

    #[test]
    fn floats_out_of_range_are_refused() {
        assert_eq!(parse_f64(" 1e5 ").ok(), Some(1e5));
        assert_eq!(parse_f64("infinity").ok(), Some(f64::INFINITY));
        assert_eq!(parse_f64("-Inf").ok(), Some(f64::NEG_INFINITY));
        assert!(parse_f64("nan").is_ok_and(f64::is_nan));
        assert_eq!(parse_f64("0e-999").ok(), Some(0.0));
        for (text, state) in [
            ("1e400", SqlState::NUMERIC_VALUE_OUT_OF_RANGE),
            ("1e-400", SqlState::NUMERIC_VALUE_OUT_OF_RANGE),
            ("", SqlState::INVALID_TEXT_REPRESENTATION),
            ("+-1", SqlState::INVALID_TEXT_REPRESENTATION),
            ("1,5", SqlState::INVALID_TEXT_REPRESENTATION),
        ] {
            assert_eq!(parse_f64(text).unwrap_err().state(), state, "{text:?}");
        }
        assert!(parse_f32("1e39").is_err() && parse_f32("1e38").is_ok());
    }
}
