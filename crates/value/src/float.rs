//! Floating-point numbers: their order, checked arithmetic, rounding, reading and writing.

use alloc::string::String;
use core::cmp::Ordering;
use core::fmt::{self, Write};

use crate::Arith;
use crate::error::{Result, TextProblem, ValueError};
use crate::spelling::trim;

/// PostgreSQL's order: −0 equals 0; NaN equals itself and is above all other numbers.
#[inline(always)]
pub fn compare(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

/// The number itself, or one particular NaN for every NaN.
#[inline(always)]
pub fn canonical(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value }
}

/// The number by which keys are compared bit by bit: equal numbers have equal bits.
#[inline(always)]
pub fn key(value: f64) -> f64 {
    canonical(value + 0.0)
}

/// Arithmetic in double precision. Errors: 22012 unless the dividend is NaN, and 22003 if the result is infinite although no
/// operand is. Results too small for the type become 0, where PostgreSQL raises an error.
#[inline(always)]
pub fn calculate(op: Arith, left: f64, right: f64) -> Result<f64> {
    let result = match op {
        Arith::Add => left + right,
        Arith::Sub => left - right,
        Arith::Mul => left * right,
        Arith::Div | Arith::Rem if right == 0.0 && !left.is_nan() => {
            return Err(ValueError::DivisionByZero);
        }
        Arith::Div => left / right,
        Arith::Rem => left % right,
    };
    if overflowed(result, left, right) { Err(ValueError::FloatOverflow) } else { Ok(result) }
}

/// Arithmetic of REAL, done in double precision and then rounded. Rounding twice gives the same as
/// rounding once here, because 53 >= 2 * 24 + 2. Errors: as [`calculate`].
#[inline]
pub fn calculate_single(op: Arith, left: f64, right: f64) -> Result<f64> {
    let result = f64::from(calculate(op, left, right)? as f32);
    if overflowed(result, left, right) { Err(ValueError::FloatOverflow) } else { Ok(result) }
}

/// Whether a result is infinite although no operand is.
#[inline(always)]
pub fn overflowed(result: f64, left: f64, right: f64) -> bool {
    result.is_infinite() && left.is_finite() && right.is_finite()
}

/// Numbers of this size and above are whole.
const WHOLE_FROM: f64 = (1_u64 << 52) as f64;

/// The number without its fraction.
#[inline]
pub fn trunc(value: f64) -> f64 {
    // NaN and infinities fail this comparison.
    if value.abs() < WHOLE_FROM { (value as i64 as f64).copysign(value) } else { value }
}

/// The largest whole number that is not above the number.
#[inline]
pub fn floor(value: f64) -> f64 {
    let cut = trunc(value);
    if cut > value { cut - 1.0 } else { cut }
}

/// The smallest whole number that is not below the number.
#[inline]
pub fn ceil(value: f64) -> f64 {
    let cut = trunc(value);
    if cut < value { cut + 1.0 } else { cut }
}

/// The nearest whole number, halves away from zero.
#[inline]
pub fn round(value: f64) -> f64 {
    let cut = trunc(value);
    if (value - cut).abs() >= 0.5 { cut + 1.0_f64.copysign(value) } else { cut }
}

/// The nearest whole number, halves to the even one: PostgreSQL's rounding of floats to integers.
#[inline]
pub fn round_even(value: f64) -> f64 {
    if value.abs() < WHOLE_FROM {
        // The sum is too large for bits behind the point, so the addition rounds.
        ((value.abs() + WHOLE_FROM) - WHOLE_FROM).copysign(value)
    } else {
        value
    }
}

/// The nearest integer, halves to the even one, if it lies in `min..=max`; NaN does not.
#[inline]
pub fn to_integer(value: f64, min: i64, max: i64) -> Option<i64> {
    let rounded = round_even(value);
    // 2⁶³ is not an i64, but the first number above all of them.
    let above =
        if max == i64::MAX { rounded >= 9_223_372_036_854_775_808.0 } else { rounded > max as f64 };
    (rounded >= min as f64 && !above).then_some(rounded as i64)
}

/// The number as a REAL. Errors: 22003 if a finite number becomes infinite, or one other than 0
/// becomes 0.
#[inline]
pub fn to_single(value: f64) -> Result<f32> {
    let narrow = value as f32;
    if narrow.is_infinite() && value.is_finite() || narrow == 0.0 && value != 0.0 {
        return Err(ValueError::OutOfRange("real"));
    }
    Ok(narrow)
}

/// Reads a DOUBLE PRECISION. Errors: 22P02, 22003 on overflow and underflow.
pub fn parse(text: &str) -> Result<f64> {
    let ty = "double precision";
    let trimmed = without_sign_twice(text, ty)?;
    let value: f64 = trimmed.parse().map_err(|_| invalid(ty, text))?;
    check_range(trimmed, value.is_infinite(), value == 0.0, ty)?;
    Ok(value)
}

/// Reads a REAL. Errors: 22P02, 22003 on overflow and underflow.
pub fn parse_single(text: &str) -> Result<f32> {
    let ty = "real";
    let trimmed = without_sign_twice(text, ty)?;
    let value: f32 = trimmed.parse().map_err(|_| invalid(ty, text))?;
    check_range(trimmed, value.is_infinite(), value == 0.0, ty)?;
    Ok(value)
}

fn invalid(ty: &'static str, text: &str) -> ValueError {
    ValueError::text(TextProblem::Syntax, ty, text)
}

fn without_sign_twice<'a>(text: &'a str, ty: &'static str) -> Result<&'a str> {
    let trimmed = trim(text);
    let bare = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    if bare.is_empty() || bare.starts_with(['+', '-']) {
        return Err(invalid(ty, text));
    }
    Ok(trimmed)
}

fn check_range(text: &str, infinite: bool, zero: bool, ty: &'static str) -> Result<()> {
    let spelled = text.contains(['i', 'I', 'n', 'N']);
    let mantissa = text.split(['e', 'E']).next().unwrap_or(text);
    let underflow = zero && mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    if (infinite && !spelled) || underflow {
        return Err(ValueError::text(TextProblem::FloatRange, ty, text));
    }
    Ok(())
}

/// Writes a DOUBLE PRECISION with the fewest digits that read back as the same value.
pub fn write(value: f64, out: &mut String) {
    if !write_special(value, out) {
        write_shortest(format_args!("{value:e}"), 15, out);
    }
}

/// Writes a REAL with the fewest digits that read back as the same value.
pub fn write_single(value: f32, out: &mut String) {
    if !write_special(value.into(), out) {
        write_shortest(format_args!("{value:e}"), 6, out);
    }
}

/// Writes a DOUBLE PRECISION with so many digits, as C's `%g` does: at least one. So are numbers shown where
/// `extra_float_digits` is 0 or less.
pub fn write_rounded(value: f64, digits: usize, out: &mut String) {
    if !write_special(value, out) {
        let digits = digits.clamp(1, 17);
        write_shortest(format_args!("{value:.*e}", digits - 1), digits as i32, out);
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

/// A buffer for the 17 digits, point, sign and exponent of a number.
struct Digits {
    bytes: [u8; 40],
    len: usize,
}

impl Write for Digits {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// Rewrites Rust's shortest `d.ddde±x` as PostgreSQL prints it: fixed notation while the exponent
/// lies in `-4..fixed_below`.
fn write_shortest(scientific: fmt::Arguments<'_>, fixed_below: i32, out: &mut String) {
    let mut digits = Digits { bytes: [0; 40], len: 0 };
    digits.write_fmt(scientific).expect("17 digits, point, sign and exponent fit 40 bytes");
    let text = core::str::from_utf8(&digits.bytes[..digits.len]).expect("digits are ASCII");
    let (mantissa, exponent) = text.split_once('e').expect("`{:e}` writes an exponent");
    let exponent: i32 = exponent.parse().expect("`{:e}` writes an integer exponent");
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    // Digits that were asked for, and are none.
    let mantissa = match mantissa.contains('.') {
        true => mantissa.trim_end_matches('0').trim_end_matches('.'),
        false => mantissa,
    };
    out.push_str(sign);
    if !(-4..fixed_below).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "{mantissa}e{sign}{:02}", exponent.abs()).expect("a string takes everything");
        return;
    }
    let digits = mantissa.chars().filter(|c| *c != '.');
    let count = mantissa.len() as i32 - i32::from(mantissa.contains('.'));
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn rounded_numbers_are_those_of_postgresql() {
        for (value, digits, shown) in [
            (0.1 + 0.2, 15, "0.3"),
            (1.0 / 3.0, 15, "0.333333333333333"),
            (1.0 / 3.0, 12, "0.333333333333"),
            (1e15, 15, "1e+15"),
            (123_456_789.0, 3, "1.23e+08"),
            (100.0, 15, "100"),
            (-0.000_012_345, 2, "-1.2e-05"),
            (0.000_123, 15, "0.000123"),
            (0.0, 1, "0"),
            (f64::NAN, 15, "NaN"),
        ] {
            let mut out = String::new();
            write_rounded(value, digits, &mut out);
            assert_eq!(out, shown, "{value} {digits}");
        }
    }

    const NUMBERS: [f64; 18] = [
        0.0,
        0.3,
        0.5,
        1.5,
        2.5,
        2.4999999999999996,
        3.7,
        1e9,
        4503599627370495.5,
        4503599627370496.0,
        9.3e18,
        1e300,
        f64::INFINITY,
        5e-324,
        0.49999999999999994,
        7.0,
        1e15,
        123456.5,
    ];

    #[test]
    fn roundings_are_those_of_the_standard_library() {
        for value in NUMBERS.iter().flat_map(|value| [*value, -*value]) {
            let same = |ours: f64, theirs: f64| {
                assert_eq!(ours.to_bits(), theirs.to_bits(), "{value}: {ours} {theirs}");
            };
            same(trunc(value), value.trunc());
            same(round(value), value.round());
            same(round_even(value), value.round_ties_even());
            assert_eq!((floor(value), ceil(value)), (value.floor(), value.ceil()));
        }
        assert!([trunc, floor, ceil, round, round_even].iter().all(|f| f(f64::NAN).is_nan()));
    }

    #[test]
    fn nan_is_equal_to_itself_and_above_everything() {
        let order: Vec<f64> =
            [f64::NEG_INFINITY, -1.0, -0.0, 1e-300, 1.0, f64::INFINITY, f64::NAN].into();
        for (at, left) in order.iter().enumerate() {
            for (other, right) in order.iter().enumerate() {
                assert_eq!(compare(*left, *right), at.cmp(&other), "{left} {right}");
            }
        }
        assert_eq!(compare(-0.0, 0.0), Ordering::Equal);
        assert_eq!(compare(-f64::NAN, f64::NAN), Ordering::Equal);
        assert_eq!(key(-0.0).to_bits(), 0.0_f64.to_bits());
        assert_eq!(key(-f64::NAN).to_bits(), f64::NAN.to_bits());
    }

    #[test]
    fn infinite_results_of_finite_operands_are_refused() {
        let far = Err(ValueError::FloatOverflow);
        assert_eq!(calculate(Arith::Mul, 1e200, 1e200), far);
        assert_eq!(calculate(Arith::Add, f64::INFINITY, 1.0), Ok(f64::INFINITY));
        assert_eq!(calculate_single(Arith::Mul, 1e30, 1e30), far);
        assert_eq!(calculate_single(Arith::Div, 1.0, 3.0), Ok(f64::from(1.0_f32 / 3.0)));
        for op in [Arith::Div, Arith::Rem] {
            assert_eq!(calculate(op, 1.0, -0.0), Err(ValueError::DivisionByZero));
            assert!(calculate(op, f64::NAN, 0.0).is_ok_and(f64::is_nan));
        }
        assert_eq!(calculate(Arith::Rem, -5.5, 2.0), Ok(-1.5));
    }

    #[test]
    fn integers_of_floats_are_the_nearest_even_ones() {
        let small = |value| to_integer(value, -32_768, 32_767);
        assert_eq!(
            [2.5, 3.5, -2.5, 32767.4].map(small),
            [Some(2), Some(4), Some(-2), Some(32_767)]
        );
        assert_eq!([32767.5, -32768.6, f64::NAN, f64::INFINITY].map(small), [None; 4]);
        let big = |value| to_integer(value, i64::MIN, i64::MAX);
        assert_eq!(big(9.223372036854775e18), Some(9_223_372_036_854_774_784));
        assert_eq!((big(9.223372036854776e18), big(-9.223372036854776e18)), (None, Some(i64::MIN)));
        assert_eq!(to_single(1e39), Err(ValueError::OutOfRange("real")));
        assert_eq!(to_single(1e-60), Err(ValueError::OutOfRange("real")));
        assert_eq!(to_single(f64::INFINITY), Ok(f32::INFINITY));
    }

    #[test]
    fn floats_print_shortest() {
        let check = |value: f64, expected: &str| {
            let mut out = String::new();
            write(value, &mut out);
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
        write_single(1234567.0, &mut out);
        out.push(' ');
        write_single(123456.0, &mut out);
        out.push(' ');
        write_single(0.1, &mut out);
        assert_eq!(out, "1.234567e+06 123456 0.1");
    }

    #[test]
    fn floats_out_of_range_are_refused() {
        assert_eq!(parse(" 1e5 "), Ok(1e5));
        assert_eq!(parse("infinity"), Ok(f64::INFINITY));
        assert_eq!(parse("-Inf"), Ok(f64::NEG_INFINITY));
        assert!(parse("nan").is_ok_and(f64::is_nan));
        assert_eq!(parse("0e-999"), Ok(0.0));
        for (text, problem) in [
            ("1e400", TextProblem::FloatRange),
            ("1e-400", TextProblem::FloatRange),
            ("", TextProblem::Syntax),
            ("+-1", TextProblem::Syntax),
            ("1,5", TextProblem::Syntax),
        ] {
            assert_eq!(parse(text), Err(ValueError::text(problem, "double precision", text)));
        }
        assert!(parse_single("1e39").is_err() && parse_single("1e38").is_ok());
    }
}
