//! Decimals: integers of up to 38 digits with a scale, the number of digits behind the point.
//!
//! The scale belongs to the type, not to the value: [`Rule`], [`Rescale`] and [`Quotient`] are made
//! once for the types of an expression and then applied to any number of values. Halves are rounded
//! away from zero.
//! Deviations from PostgreSQL, whose numerics are as long as memory: results of more than 38 digits
//! are refused, and there is neither NaN nor infinity.

use alloc::string::String;
use core::fmt::Write;

use crate::Arith;
use crate::error::{Result, TextProblem, ValueError};
use crate::float;
use crate::integer::divide_rounded;
use crate::spelling::{split_sign, trim};

/// Largest precision of a decimal.
pub const DIGITS_MAX: u8 = 38;

/// Powers of ten that an `i128` holds.
const POWERS: [i128; 39] = {
    let mut powers = [1; 39];
    let mut at = 1;
    while at < 39 {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

/// Upper bound of all decimals, exclusive.
pub const LIMIT: i128 = POWERS[38];

/// 10^`exponent`; `None` above 10^38.
#[inline]
pub fn power_of_ten(exponent: u32) -> Option<i128> {
    POWERS.get(exponent as usize).copied()
}

/// Upper bound of the decimals of a precision, exclusive.
#[inline]
pub fn limit_of(precision: u8) -> i128 {
    power_of_ten(precision.into()).unwrap_or(i128::MAX)
}

/// Whether a number has at most `precision` digits.
#[inline]
pub fn fits(value: i128, precision: u8) -> bool {
    within(value, limit_of(precision))
}

#[inline(always)]
fn within(value: i128, limit: i128) -> bool {
    value > -limit && value < limit
}

/// The value, if it has at most `precision` digits. Errors: 22003 with the field's limit.
pub fn check(value: i128, precision: u8, scale: i8) -> Result<i128> {
    if fits(value, precision) { Ok(value) } else { Err(field(precision, scale)) }
}

fn field(precision: u8, scale: i8) -> ValueError {
    ValueError::DecimalField { precision, scale }
}

/// The error of a result that exceeds its type.
#[cold]
fn far() -> ValueError {
    ValueError::OutOfRange("numeric")
}

/// Brings a decimal from one scale to another. `None` if the result does not fit 128 bits.
pub fn rescale(value: i128, from: i8, to: i8) -> Option<i128> {
    let shift = i32::from(to) - i32::from(from);
    match (power_of_ten(shift.unsigned_abs()), shift >= 0) {
        (Some(power), true) => value.checked_mul(power),
        (Some(power), false) => divide_rounded(value, power).ok().flatten(),
        (None, true) => (value == 0).then_some(0),
        (None, false) => Some(0),
    }
}

/// Brings a decimal into a type. Errors: 22003 with the field's limit.
pub fn fit(value: i128, from: i8, precision: u8, scale: i8) -> Result<i128> {
    let scaled = rescale(value, from, scale).ok_or_else(|| field(precision, scale))?;
    check(scaled, precision, scale)
}

/// The whole number nearest to a decimal. `None` if it does not fit 128 bits.
pub fn to_whole(value: i128, scale: i8) -> Option<i128> {
    rescale(value, scale, 0)
}

/// A change of scale and precision, with factors computed in advance.
#[derive(Clone, Copy, Debug)]
pub struct Rescale {
    /// Factor by which the number is multiplied first; `None` if it exceeds 10^38.
    factor: Option<i128>,
    /// Divisor by which the number is divided then; `None` if it exceeds 10^38.
    divisor: Option<i128>,
    limit: i128,
}

impl Rescale {
    /// From numbers of scale `from` to DECIMAL(`precision`, `scale`).
    pub fn new(from: i8, precision: u8, scale: i8) -> Rescale {
        let up = i32::from(scale) - i32::from(from);
        let power = power_of_ten(up.unsigned_abs());
        let (factor, divisor) = if up >= 0 { (power, Some(1)) } else { (Some(1), power) };
        Rescale { factor, divisor, limit: limit_of(precision) }
    }

    /// The number in the new type. Errors: 22003.
    #[inline]
    pub fn apply(&self, value: i128) -> Result<i128> {
        let scaled = match (self.factor, self.divisor) {
            (Some(1), Some(1)) => Some(value),
            (Some(factor), Some(1)) => value.checked_mul(factor),
            (Some(_), Some(divisor)) => divide_rounded(value, divisor)?,
            (None, _) => (value == 0).then_some(0),
            (_, None) => Some(0),
        };
        match scaled {
            Some(scaled) if within(scaled, self.limit) => Ok(scaled),
            _ => Err(far()),
        }
    }
}

/// An arithmetic operation on decimals of two scales, with factors computed in advance.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    op: Arith,
    /// Factors of the operands before the operation; `None` if one exceeds 10^38.
    factors: Option<(i128, i128)>,
    /// Upper bound of the result, exclusive.
    limit: i128,
}

impl Rule {
    /// Whether the operation can have results of `scale` for operands of these scales.
    pub fn knows(op: Arith, left: i8, right: i8, scale: i8) -> bool {
        let scales_fit = match op {
            Arith::Add | Arith::Sub | Arith::Rem => scale == left.max(right),
            Arith::Mul => i16::from(scale) == i16::from(left) + i16::from(right),
            Arith::Div => i16::from(scale) + i16::from(right) >= i16::from(left),
        };
        scales_fit && left >= 0 && right >= 0
    }

    /// The operation for operands of these scales with results of DECIMAL(`precision`, `scale`),
    /// which [`Rule::knows`] must allow. Quotients are truncated; [`Quotient`] rounds.
    pub fn new(op: Arith, left: i8, right: i8, precision: u8, scale: i8) -> Rule {
        debug_assert!(Rule::knows(op, left, right, scale), "{op:?} of {left}, {right} in {scale}");
        let (left, right, scale) = (i32::from(left), i32::from(right), i32::from(scale));
        let (by_left, by_right) = match op {
            Arith::Add | Arith::Sub | Arith::Rem => (scale - left, scale - right),
            Arith::Mul => (0, 0),
            Arith::Div => (scale - left + right, 0),
        };
        let factors = power_of_ten(by_left as u32).zip(power_of_ten(by_right as u32));
        Rule { op, factors, limit: limit_of(precision) }
    }

    /// Applies the operation. Errors: 22003, 22012.
    #[inline]
    pub fn apply(&self, left: i128, right: i128) -> Result<i128> {
        if matches!(self.op, Arith::Div | Arith::Rem) && right == 0 {
            return Err(ValueError::DivisionByZero);
        }
        match self.compute(left, right) {
            Some(value) if within(value, self.limit) => Ok(value),
            _ => Err(far()),
        }
    }

    #[inline]
    fn compute(&self, left: i128, right: i128) -> Option<i128> {
        let (by_left, by_right) = self.factors?;
        let (left, right) = (times(left, by_left)?, times(right, by_right)?);
        match self.op {
            Arith::Add => left.checked_add(right),
            Arith::Sub => left.checked_sub(right),
            Arith::Mul => times(left, right),
            Arith::Div => left.checked_div(right),
            Arith::Rem => left.checked_rem(right),
        }
    }
}

/// Multiplies; quick where both numbers fit 64 bits, as nearly all do.
#[inline]
fn times(left: i128, right: i128) -> Option<i128> {
    if right == 1 {
        return Some(left);
    }
    match (i64::try_from(left), i64::try_from(right)) {
        (Ok(left), Ok(right)) => Some(i128::from(left) * i128::from(right)),
        _ => left.checked_mul(right),
    }
}

/// NUMERIC `/` NUMERIC, rounded: the division for operands and results of given scales, with
/// factors computed in advance.
#[derive(Clone, Copy, Debug)]
pub struct Quotient {
    /// Factor of the dividend; `None` if it exceeds 10^38.
    factor: Option<i128>,
    /// Factor of the divisor, for dividends with more places than the result; `None` if it exceeds
    /// 10^38.
    divisor_factor: Option<i128>,
}

/// The fewest places of a quotient; PostgreSQL's has at least this many significant digits.
pub const QUOTIENT_PLACES: i8 = 16;
/// The most places of a quotient.
const QUOTIENT_PLACES_MAX: i8 = 30;

impl Quotient {
    /// Number of places of a quotient of decimals.
    pub fn scale(left: i8, right: i8) -> i8 {
        QUOTIENT_PLACES.max(left).max(right).min(QUOTIENT_PLACES_MAX)
    }

    /// The division for operands of these scales, with results of scale `scale`.
    pub fn new(left: i8, right: i8, scale: i8) -> Quotient {
        let shift = i32::from(scale) - i32::from(left) + i32::from(right);
        Quotient {
            factor: power_of_ten(shift.max(0) as u32),
            divisor_factor: power_of_ten((-shift).max(0) as u32),
        }
    }

    /// The quotient, halves rounded away from zero. Errors: 22012, 22003.
    #[inline]
    pub fn apply(&self, left: i128, right: i128) -> Result<i128> {
        if right == 0 {
            return Err(ValueError::DivisionByZero);
        }
        let factor = self.factor.ok_or_else(far)?;
        let right = self.divisor_factor.and_then(|by| right.checked_mul(by)).ok_or_else(far)?;
        let quotient = match times(left, factor) {
            Some(scaled) => divide_rounded(scaled, right)?,
            None => divide_wide(left, factor, right),
        };
        quotient.filter(|quotient| within(*quotient, LIMIT)).ok_or_else(far)
    }
}

/// `left · factor / divisor` in 256 bits, halves rounded away from zero. `None` if the result does
/// not fit 128. The divisor must not be 0.
#[cold]
fn divide_wide(left: i128, factor: i128, divisor: i128) -> Option<i128> {
    let (high, low) = multiply_wide(left.unsigned_abs(), factor.unsigned_abs());
    let by = divisor.unsigned_abs();
    if high >= by {
        return None;
    }
    // Long division, bit by bit; `rest` stays below the divisor, which is below 2^127 or equal to it.
    let (mut quotient, mut rest) = (0_u128, high);
    for bit in (0..128).rev() {
        rest = rest << 1 | (low >> bit & 1);
        quotient <<= 1;
        if rest >= by {
            rest -= by;
            quotient |= 1;
        }
    }
    let rounded = quotient.checked_add(u128::from(rest >= by - rest))?;
    let magnitude = i128::try_from(rounded).ok()?;
    let negative = (left < 0) ^ (factor < 0) ^ (divisor < 0);
    Some(if negative { -magnitude } else { magnitude })
}

/// The product of two numbers: upper and lower half.
fn multiply_wide(left: u128, right: u128) -> (u128, u128) {
    const LOW: u128 = u64::MAX as u128;
    let ((a, b), (c, d)) = ((left >> 64, left & LOW), (right >> 64, right & LOW));
    let (low, first, second) = (b * d, a * d, b * c);
    let middle = (low >> 64) + (first & LOW) + (second & LOW);
    let high = a * c + (first >> 64) + (second >> 64) + (middle >> 64);
    (high, middle << 64 | low & LOW)
}

/// The average of `count` numbers, given their sum, with `places` more digits behind the point than
/// the numbers have; halves are rounded away from zero. `None` for no numbers, and if the average
/// does not fit.
pub fn average(sum: i128, count: i64, places: u8) -> Option<i128> {
    if count == 0 {
        return None;
    }
    let (count, power) = (i128::from(count), power_of_ten(places.into())?);
    let (whole, rest) = (sum / count, sum % count);
    let behind = divide_rounded(rest.checked_mul(power)?, count).ok()??;
    whole.checked_mul(power)?.checked_add(behind)
}

/// The number by which all executors divide a decimal to get its DOUBLE PRECISION.
///
/// For decimals of up to 15 digits the quotient is the nearest DOUBLE PRECISION, which [`to_float`]
/// gives for all. Deviation: for longer ones its last bit may differ from PostgreSQL's, since the
/// dividend is rounded, too. Views keep such quotients, and must have the same ones as queries.
pub fn float_divisor(scale: i8) -> f64 {
    // Parsing gives the number nearest to a power of ten; powers above 10^22 have no exact one.
    let mut text = String::new();
    write!(text, "1e{scale}").expect("a string takes everything");
    text.parse().expect("a power of ten is a number")
}

/// The nearest DOUBLE PRECISION. Errors: 22003 (of scales that no type has).
pub fn to_float(value: i128, scale: i8) -> Result<f64> {
    // Both numbers are exact, so that only the division rounds.
    const EXACT: [f64; 23] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
        1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
    ];
    if let Some(power) = usize::try_from(scale).ok().and_then(|scale| EXACT.get(scale))
        && value.unsigned_abs() <= 1 << 53
    {
        return Ok(value as f64 / power);
    }
    let mut text = String::new();
    write(value, scale, &mut text);
    float::parse(&text)
}

/// The nearest REAL. Errors: 22003 if that is 0 and the number is not 0.
pub fn to_single(value: i128, scale: i8) -> Result<f32> {
    let mut text = String::new();
    write(value, scale, &mut text);
    float::parse_single(&text)
}

/// The decimal of a DOUBLE PRECISION, from its first 15 significant digits, as in PostgreSQL.
/// Errors: 22003.
pub fn from_float(value: f64, precision: u8, scale: i8) -> Result<i128> {
    let mut text = String::new();
    if value.is_finite() {
        write!(text, "{value:.14e}").expect("a string takes everything");
    } else {
        float::write(value, &mut text);
    }
    parse(&text, precision, scale)
}

/// The decimal of a REAL, from the digits that it is shown with. Errors: 22003. Deviation:
/// PostgreSQL takes six significant digits.
pub fn from_single(value: f32, precision: u8, scale: i8) -> Result<i128> {
    let mut text = String::new();
    float::write_single(value, &mut text);
    parse(&text, precision, scale)
}

/// Reads a decimal into an integer of `scale` digits after the point, halves rounded away from zero.
/// Exponents are allowed.
///
/// Errors: 22P02 if the text is no number, 22003 if it needs more than `precision` digits or is not
/// finite.
pub fn parse(text: &str, precision: u8, scale: i8) -> Result<i128> {
    let bad = || ValueError::text(TextProblem::Syntax, "numeric", text);
    let trimmed = trim(text);
    let (negative, rest) = split_sign(trimmed);
    if ["nan", "inf", "infinity"].iter().any(|word| rest.eq_ignore_ascii_case(word)) {
        let problem = TextProblem::NotFinite { precision, scale };
        return Err(ValueError::text(problem, "numeric", trimmed));
    }
    let (mantissa, exponent) = split_exponent(rest).ok_or_else(bad)?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return Err(bad());
    }
    // The digit at position p (0 = first of `whole`) has weight 10^(point - 1 - p).
    let point = count_digits(whole).ok_or_else(bad)? + exponent;
    let kept = point + i64::from(scale);
    let magnitude = read_digits(whole.bytes().chain(fraction.bytes()), kept).ok_or_else(bad)?;
    let magnitude = magnitude.ok_or_else(|| field(precision, scale))?;
    check(if negative { -magnitude } else { magnitude }, precision, scale)
}

/// Digits before and after the point that a decimal in a text needs, zeros at its ends not counted; `None` if the
/// text is no number or not finite.
pub fn digits(text: &str) -> Option<(u32, u32)> {
    let (_, rest) = split_sign(trim(text));
    let (mantissa, exponent) = split_exponent(rest)?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let point = count_digits(whole)? + exponent;
    let mut places = 0;
    // The first and the last digit that is not 0, by their distance from the point.
    let (mut first, mut last) = (None, 0);
    for byte in whole.bytes().chain(fraction.bytes()).filter(|byte| *byte != b'_') {
        if !byte.is_ascii_digit() {
            return None;
        }
        places += 1;
        if byte != b'0' {
            first.get_or_insert(point - places + 1);
            last = places - point;
        }
    }
    let count = |digits: i64| u32::try_from(digits.max(0)).unwrap_or(u32::MAX);
    (places > 0).then(|| (count(first.unwrap_or(0)), count(last)))
}

/// Splits a text at `e` into the digits and the power of ten; `None` if no number follows `e`.
fn split_exponent(text: &str) -> Option<(&str, i64)> {
    let Some(at) = text.find(['e', 'E']) else { return Some((text, 0)) };
    let (negative, digits) = split_sign(&text[at + 1..]);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Powers beyond a million give nothing but 0 or overflow.
    let magnitude = digits.parse().unwrap_or(1_000_000).min(1_000_000);
    Some((&text[..at], if negative { -magnitude } else { magnitude }))
}

/// Number of digits, between which single underscores may stand; `None` if there is anything else.
fn count_digits(whole: &str) -> Option<i64> {
    let (mut count, mut digit_before) = (0, false);
    for byte in whole.bytes() {
        match byte {
            b'0'..=b'9' => (count, digit_before) = (count + 1, true),
            b'_' if digit_before => digit_before = false,
            _ => return None,
        }
    }
    (!whole.ends_with('_')).then_some(count)
}

/// The first `kept` digits as a number, rounded by the digit that follows; missing digits are
/// zeros. `None` if there is anything else among them, the inner `None` if the number does not fit.
fn read_digits(bytes: impl Iterator<Item = u8>, kept: i64) -> Option<Option<i128>> {
    let (mut value, mut round_up, mut position) = (Some(0_i128), false, 0);
    let append = |value: Option<i128>, digit: u8| value?.checked_mul(10)?.checked_add(digit.into());
    for byte in bytes.filter(|byte| *byte != b'_') {
        if !byte.is_ascii_digit() {
            return None;
        }
        if position < kept {
            value = append(value, byte - b'0');
        } else if position == kept {
            round_up = byte >= b'5';
        }
        position += 1;
    }
    if value != Some(0) {
        // More than 39 zeros do not fit in any case.
        (position..kept.min(position + 40)).for_each(|_| value = append(value, 0));
    }
    Some(value.and_then(|value| value.checked_add(round_up.into())))
}

/// The places of a NUMERIC that names no digits, whose type is DECIMAL(38, 10).
pub const FREE_PLACES: i8 = 10;

/// Whether values of a type are shown with the digits that each of them needs, not with those of the type.
///
/// So are the values of NUMERIC without digits and what is calculated from them, as in PostgreSQL, where every such
/// value has digits of its own. Types alone are known here: DECIMAL(38, 10), and its products, which have ten places
/// for each such factor and up to five of others: 11 of `a * 1.5`, 20 of `a * b`. Quotients and averages have
/// [`QUOTIENT_PLACES`] and keep them, as in PostgreSQL. Deviations: zeros that were written at the end of a value's
/// fraction are not shown either (`1.50` is 1.5), and a column that is declared with one of these types shows its values the same way.
pub fn is_free(precision: u8, scale: i8) -> bool {
    const PLACES_OF_OTHERS_MAX: i8 = 5;
    precision == DIGITS_MAX && scale >= FREE_PLACES && scale % FREE_PLACES <= PLACES_OF_OTHERS_MAX
}

/// A value of DECIMAL(`precision`, `scale`) as everyone is shown it: the number and its places, which are fewer than
/// the type's where the type [is free](is_free).
pub fn shown(value: i128, precision: u8, scale: i8) -> (i128, i8) {
    match is_free(precision, scale) {
        true => without_zeros(value, scale),
        false => (value, scale),
    }
}

/// A decimal without zeros at the end of its fraction: the number and its places.
pub fn without_zeros(mut value: i128, mut scale: i8) -> (i128, i8) {
    // Each step takes as many zeros as there can be left of their count's binary digits.
    for zeros in [32, 16, 8, 4, 2, 1] {
        let power = POWERS[usize::from(zeros as u8)];
        if scale >= zeros
            && let Some(rest) = divided(value, power)
        {
            (value, scale) = (rest, scale - zeros);
        }
    }
    (value, scale)
}

/// The quotient, if nothing remains; quick where both numbers fit 64 bits.
#[inline]
fn divided(value: i128, by: i128) -> Option<i128> {
    match (i64::try_from(value), i64::try_from(by)) {
        (Ok(value), Ok(by)) => (value % by == 0).then(|| i128::from(value / by)),
        // A number below the divisor.
        (Ok(value), Err(_)) => (value == 0).then_some(0),
        _ => (value % by == 0).then(|| value / by),
    }
}

/// Writes a value of DECIMAL(`precision`, `scale`) as everyone is [`shown`] it.
pub fn show(value: i128, precision: u8, scale: i8, out: &mut String) {
    let (value, scale) = shown(value, precision, scale);
    write(value, scale, out);
}

/// Writes a decimal with exactly `scale` places.
pub fn write(value: i128, scale: i8, out: &mut String) {
    if value < 0 {
        out.push('-');
    }
    let magnitude = value.unsigned_abs();
    if scale <= 0 {
        write!(out, "{magnitude}").expect("a string takes everything");
        if magnitude != 0 {
            (0..-i32::from(scale)).for_each(|_| out.push('0'));
        }
        return;
    }
    let width = scale.unsigned_abs().into();
    match 10_u128.checked_pow(scale.unsigned_abs().into()) {
        Some(unit) => write!(out, "{}.{:0width$}", magnitude / unit, magnitude % unit),
        None => write!(out, "0.{magnitude:0width$}"),
    }
    .expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon_base::rng::Rng;

    #[test]
    fn decimals_round_half_away_from_zero_and_know_exponents() {
        let read = |text| parse(text, 5, 2);
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
            assert_eq!(read(bad), Err(ValueError::text(TextProblem::Syntax, "numeric", bad)));
        }
        for far in ["1000", "999.995", "1e3", "1e500"] {
            assert_eq!(read(far), Err(field(5, 2)), "{far:?}");
        }
        for word in ["NaN", "-Infinity"] {
            let problem = TextProblem::NotFinite { precision: 5, scale: 2 };
            assert_eq!(read(word), Err(ValueError::text(problem, "numeric", word)));
        }
        let nines = "99999999999999999999999999999999999999";
        assert_eq!(parse(nines, 38, 0), Ok(LIMIT - 1));
        assert!(parse("1e38", 38, 0).is_err());
        assert_eq!(parse("1234", 3, -2), Ok(12));
    }

    #[test]
    fn values_of_free_types_are_shown_without_zeros_at_their_end() {
        let text = |value, precision, scale| {
            let mut out = String::new();
            show(value, precision, scale, &mut out);
            out
        };
        let unit = 10_i128.pow(10);
        for (value, expected) in [
            (999 * unit / 100, "9.99"),
            (100 * unit, "100"),
            (unit / 2, "0.5"),
            (-3 * unit / 2, "-1.5"),
            (0, "0"),
            (1, "0.0000000001"),
            (-1, "-0.0000000001"),
            (1_230_000_000 * unit, "1230000000"),
            (LIMIT - 1, "9999999999999999999999999999.9999999999"),
            (10_i128.pow(37), "1000000000000000000000000000"),
        ] {
            assert_eq!(text(value, 38, 10), expected);
        }
        assert_eq!(text(1_498_500_000_000, 38, 11), "14.985");
        assert_eq!(text(998_001 * 10_i128.pow(16), 38, 20), "99.8001");
        assert_eq!(text(990, 12, 2), "9.90");
        assert_eq!(text(0, 9, 2), "0.00");
        assert_eq!(text(15 * 10_i128.pow(15), 38, 16), "1.5000000000000000");
        assert_eq!(text(100, 37, 10), "0.0000000100");
        assert_eq!(text(5, 38, -1), "50");
        let free = [10, 11, 12, 13, 14, 15, 20, 21, 22, 23, 24, 25, 30, 31, 32, 33, 34, 35];
        assert!((-38..=38).filter(|scale| is_free(38, *scale)).eq(free));
        assert!(!is_free(37, 10));
    }

    /// Strategy: random numbers times random powers of ten; invariant: the number is the same, and no zero is left.
    #[test]
    fn zeros_are_taken_one_by_one_or_many_at_once() {
        let mut rng = Rng::new(4);
        for _ in 0..20_000 {
            let power = POWERS[rng.below(39) as usize];
            let value = (random(&mut rng) / power) * power;
            let scale = rng.below(39) as i8;
            let (mut number, mut places) = (value, scale);
            while places > 0 && number % 10 == 0 {
                (number, places) = (number / 10, places - 1);
            }
            assert_eq!(without_zeros(value, scale), (number, places), "{value} {scale}");
        }
        assert_eq!((without_zeros(0, 38), without_zeros(0, -2)), ((0, 0), (0, -2)));
        assert_eq!(without_zeros(10_i128.pow(37), 38), (1, 1));
    }

    #[test]
    fn digits_are_those_that_a_number_needs() {
        for (text, expected) in [
            ("0", (0, 0)),
            ("1.50001", (1, 5)),
            (" -0012.3400 ", (2, 2)),
            (".005", (0, 3)),
            ("1_000.5", (4, 1)),
            ("1200e-4", (0, 2)),
            ("1.25e3", (4, 0)),
            ("1e-400000000000", (0, 1_000_000)),
            ("0.000e9", (0, 0)),
        ] {
            assert_eq!(digits(text), Some(expected), "{text}");
        }
        for text in ["", ".", "NaN", "1.2.3", "e5", "1e", "12a"] {
            assert_eq!(digits(text), None, "{text}");
        }
        // A type with that many digits keeps the number, and one with fewer does not.
        for text in ["1.50001", "99.99", "-0.00701", "123456.7e-2"] {
            let (whole, places) = digits(text).unwrap();
            let scale = places as i8;
            let exact = parse(text, (whole + places) as u8, scale).unwrap();
            let less = parse(text, 38, scale - 1).unwrap();
            assert_ne!(rescale(less, scale - 1, scale), Some(exact), "{text}");
        }
    }

    #[test]
    fn decimals_print_every_place() {
        let print = |value, scale| {
            let mut out = String::new();
            write(value, scale, &mut out);
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
        assert_eq!(rescale(LIMIT, 38, -2), Some(0));
        assert_eq!((rescale(0, 0, 120), rescale(1, 0, 120)), (Some(0), None));
        assert_eq!(fit(995, 2, 2, 1), Err(field(2, 1)));
        assert_eq!(fit(994, 2, 2, 1), Ok(99));
        assert_eq!(to_whole(-25, 1), Some(-3));
    }

    #[test]
    fn prepared_rescaling_is_rescaling() {
        let mut rng = Rng::new(1);
        for _ in 0..20_000 {
            let value = random(&mut rng);
            let (from, to) = (rng.below(39) as i8, rng.below(39) as i8);
            let precision = 1 + rng.below(38) as u8;
            let slow = rescale(value, from, to).filter(|value| fits(*value, precision));
            let quick = Rescale::new(from, precision, to).apply(value);
            assert_eq!(quick.ok(), slow, "{value} from {from} to ({precision}, {to})");
        }
    }

    /// A random number of random length, positive or negative.
    fn random(rng: &mut Rng) -> i128 {
        let wide = i128::from(rng.next_u64() as i64) << 64 | i128::from(rng.next_u64());
        (wide >> rng.below(127)) % LIMIT
    }

    /// The expected quotient, by long division of decimal digits; `None` if it is too long.
    fn slow_quotient(left: i128, right: i128, shift: u32) -> Option<i128> {
        let by = right.unsigned_abs();
        let (mut quotient, mut rest) = (left.unsigned_abs() / by, left.unsigned_abs() % by);
        for _ in 0..shift {
            // Ten times the rest may not fit, so it is added up.
            let (mut digit, mut next) = (0_u128, 0_u128);
            for _ in 0..10 {
                if next >= by - rest {
                    next -= by - rest;
                    digit += 1;
                } else {
                    next += rest;
                }
            }
            quotient = quotient.checked_mul(10)?.checked_add(digit)?;
            rest = next;
        }
        let rounded = i128::try_from(quotient).ok()? + i128::from(rest >= by - rest);
        let signed = if (left < 0) == (right < 0) { rounded } else { -rounded };
        fits(signed, DIGITS_MAX).then_some(signed)
    }

    #[test]
    fn quotients_are_those_of_long_division() {
        let mut rng = Rng::new(2);
        let (mut found, mut far) = (0, 0);
        for _ in 0..20_000 {
            let (left, right) = (random(&mut rng), random(&mut rng));
            if right == 0 {
                continue;
            }
            let shift = rng.below(31) as i8;
            let quotient = Quotient::new(0, 0, shift).apply(left, right);
            let expected = slow_quotient(left, right, shift as u32);
            assert_eq!(quotient.clone().ok(), expected, "{left} / {right} in {shift}");
            found += usize::from(quotient.is_ok());
            far += usize::from(quotient.is_err());
        }
        assert!(found > 5_000 && far > 500, "{found} {far}");
    }

    #[test]
    fn quotients_round_half_away_from_zero() {
        let divide = |l, ls, r, rs| Quotient::new(ls, rs, 2).apply(l, r);
        assert_eq!(divide(1, 0, 3, 0), Ok(33));
        assert_eq!(divide(2, 0, 3, 0), Ok(67));
        assert_eq!(divide(-1, 0, 8, 0), Ok(-13));
        assert_eq!(divide(1005, 3, 1, 0), Ok(101));
        assert_eq!(divide(1, 0, 0, 3), Err(ValueError::DivisionByZero));
        let large = 10_i128.pow(37);
        let in_sixteen = |right| Quotient::new(0, 0, 16).apply(large, right);
        assert_eq!(in_sixteen(10_i128.pow(36)), Ok(10 * 10_i128.pow(16)));
        assert_eq!(in_sixteen(3), Err(far()));
        assert_eq!(
            (Quotient::scale(2, 4), Quotient::scale(20, 4), Quotient::scale(38, 0)),
            (16, 20, 30)
        );
    }

    #[test]
    fn arithmetic_brings_scales_together() {
        let apply = |op, (left, ls), (right, rs), scale| {
            Rule::new(op, ls, rs, 38, scale).apply(left, right)
        };
        assert_eq!(apply(Arith::Add, (15, 1), (25, 2), 2), Ok(175));
        assert_eq!(apply(Arith::Sub, (15, 1), (25, 2), 2), Ok(125));
        assert_eq!(apply(Arith::Mul, (15, 1), (25, 2), 3), Ok(375));
        assert_eq!(apply(Arith::Div, (10, 1), (3, 0), 4), Ok(3333));
        assert_eq!(apply(Arith::Rem, (-75, 1), (2, 0), 1), Ok(-15));
        assert_eq!(apply(Arith::Rem, (1, 0), (0, 0), 0), Err(ValueError::DivisionByZero));
        assert_eq!(apply(Arith::Mul, (LIMIT - 1, 0), (10, 0), 0), Err(far()));
        assert_eq!(Rule::new(Arith::Add, 0, 0, 2, 0).apply(99, 1), Err(far()));
        assert!(!Rule::knows(Arith::Add, 1, 2, 1) && !Rule::knows(Arith::Mul, -1, 2, 1));
    }

    #[test]
    fn averages_round_half_away_from_zero() {
        let unit = 10_i128.pow(16);
        assert_eq!(average(0, 0, 16), None);
        assert_eq!(average(10, 4, 0), Some(3));
        assert_eq!(average(-10, 4, 0), Some(-3));
        assert_eq!(average(2, 3, 16), Some(6_666_666_666_666_667));
        assert_eq!(average(7 * unit, 7, 16), Some(unit * unit));
    }

    #[test]
    fn floats_are_the_nearest_ones() {
        assert_eq!(to_float(12345, 2), Ok(123.45));
        assert_eq!(to_float(12_345_678_901_234_567_812, 2), Ok(123_456_789_012_345_678.12));
        assert_eq!(to_float(1, 30), Ok(1e-30));
        assert_eq!(to_single(1, 1), Ok(0.1));
        let mut rng = Rng::new(3);
        for _ in 0..5_000 {
            let (value, scale) = (random(&mut rng), rng.below(31) as i8);
            let mut text = String::new();
            write(value, scale, &mut text);
            assert_eq!(to_float(value, scale).ok(), text.parse().ok(), "{text}");
        }
        for (value, scale) in [(12345, 2), (-999_999_999_999_999, 15), (7, 22), (1 << 50, 9)] {
            assert_eq!(Ok(value as f64 / float_divisor(scale)), to_float(value, scale));
        }
        assert_eq!((float_divisor(0), float_divisor(38)), (1.0, 1e38));
        assert_eq!(from_float(0.1, 5, 3), Ok(100));
        assert_eq!(from_float(1e300, 38, 0), Err(field(38, 0)));
        assert!(from_float(f64::NAN, 38, 0).is_err());
        assert_eq!(from_single(0.1, 9, 8), Ok(10_000_000));
    }
}
