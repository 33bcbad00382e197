//! Whole numbers: checked arithmetic, the ranges of types, and reading them.

use crate::Arith;
use crate::error::{Result, TextProblem, ValueError};
use crate::spelling::{split_sign, trim};
use crate::value::ValueRef;

/// A SQL type of whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Width {
    SmallInt,
    Integer,
    BigInt,
}

impl Width {
    /// PostgreSQL's name of the type.
    pub fn name(self) -> &'static str {
        match self {
            Width::SmallInt => "smallint",
            Width::Integer => "integer",
            Width::BigInt => "bigint",
        }
    }

    /// The number, if it is in the type's range. Errors: 22003.
    #[inline]
    pub fn check(self, value: i64) -> Result<i64> {
        let fits = match self {
            Width::SmallInt => value == i64::from(value as i16),
            Width::Integer => value == i64::from(value as i32),
            Width::BigInt => true,
        };
        if fits { Ok(value) } else { Err(ValueError::OutOfRange(self.name())) }
    }

    /// The number as a value of the type. Errors: 22003.
    #[inline]
    pub fn value(self, value: i64) -> Result<ValueRef<'static>> {
        let value = self.check(value)?;
        Ok(match self {
            Width::SmallInt => ValueRef::Int16(value as i16),
            Width::Integer => ValueRef::Int32(value as i32),
            Width::BigInt => ValueRef::Int64(value),
        })
    }

    /// Smallest and largest number of the type.
    pub fn range(self) -> (i64, i64) {
        match self {
            Width::SmallInt => (i16::MIN.into(), i16::MAX.into()),
            Width::Integer => (i32::MIN.into(), i32::MAX.into()),
            Width::BigInt => (i64::MIN, i64::MAX),
        }
    }

    /// Arithmetic on two numbers of the type. Errors: 22003, 22012.
    #[inline]
    pub fn calculate(self, op: Arith, left: i64, right: i64) -> Result<i64> {
        let result = match op {
            Arith::Add => left.checked_add(right),
            Arith::Sub => left.checked_sub(right),
            Arith::Mul => left.checked_mul(right),
            Arith::Div => divide(left, right)?,
            Arith::Rem => Some(remainder(left, right)?),
        };
        match result {
            Some(result) => self.check(result),
            None => Err(ValueError::OutOfRange(self.name())),
        }
    }

    /// The number with the other sign. Errors: 22003.
    #[inline]
    pub fn negate(self, value: i64) -> Result<i64> {
        self.calculate(Arith::Sub, 0, value)
    }

    /// The number without its sign. Errors: 22003.
    #[inline]
    pub fn absolute(self, value: i64) -> Result<i64> {
        if value < 0 { self.negate(value) } else { Ok(value) }
    }
}

/// A Rust integer in which whole numbers are computed.
pub trait Whole: Copy + Eq {
    /// The quotient, truncated; `None` if it does not fit. Errors: 22012.
    fn quotient(self, divisor: Self) -> Result<Option<Self>>;
    /// The remainder, with the dividend's sign. Errors: 22012.
    fn rest(self, divisor: Self) -> Result<Self>;
    /// The quotient, halves rounded away from zero; `None` if it does not fit. Errors: 22012.
    fn quotient_rounded(self, divisor: Self) -> Result<Option<Self>>;
}

macro_rules! whole {
    ($type:ty) => {
        impl Whole for $type {
            #[inline(always)]
            fn quotient(self, divisor: Self) -> Result<Option<Self>> {
                if divisor == 0 {
                    return Err(ValueError::DivisionByZero);
                }
                Ok(self.checked_div(divisor))
            }

            #[inline(always)]
            fn rest(self, divisor: Self) -> Result<Self> {
                if divisor == 0 {
                    return Err(ValueError::DivisionByZero);
                }
                // MIN % -1 is 0, although the machine's division overflows.
                Ok(self.wrapping_rem(divisor))
            }

            #[inline(always)]
            fn quotient_rounded(self, divisor: Self) -> Result<Option<Self>> {
                let Some(quotient) = self.quotient(divisor)? else { return Ok(None) };
                let rest = self.wrapping_rem(divisor).unsigned_abs();
                // Half away from zero: the rest is at least half of the divisor.
                if rest < divisor.unsigned_abs() - rest {
                    return Ok(Some(quotient));
                }
                Ok(quotient.checked_add(if (self < 0) == (divisor < 0) { 1 } else { -1 }))
            }
        }
    };
}
whole!(i64);
whole!(i128);

/// The quotient, truncated; `None` if it does not fit. Errors: 22012.
#[inline(always)]
pub fn divide<T: Whole>(left: T, right: T) -> Result<Option<T>> {
    left.quotient(right)
}

/// The remainder, with the dividend's sign. Errors: 22012.
#[inline(always)]
pub fn remainder<T: Whole>(left: T, right: T) -> Result<T> {
    left.rest(right)
}

/// The quotient, halves rounded away from zero; `None` if it does not fit. Errors: 22012.
#[inline(always)]
pub fn divide_rounded<T: Whole>(left: T, right: T) -> Result<Option<T>> {
    left.quotient_rounded(right)
}

/// The number in an integer value of any width.
#[inline]
pub fn widen(value: ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Int16(value) => Some(value.into()),
        ValueRef::Int32(value) => Some(value.into()),
        ValueRef::Int64(value) => Some(value),
        _ => None,
    }
}

/// Reads an integer: decimal, `0x`, `0o`, `0b`, with single underscores between digits.
///
/// Errors: 22P02 if the text is no integer, 22003 if the number is out of the type's range.
pub fn parse(text: &str, width: Width) -> Result<i64> {
    let invalid = || ValueError::text(TextProblem::Syntax, width.name(), text);
    let trimmed = trim(text);
    let (negative, digits) = split_sign(trimmed);
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        _ => (10, digits),
    };
    // The value stops growing here: all numbers beyond are out of range.
    const LIMIT: i128 = i64::MAX as i128 + 2;
    let (mut value, mut digit_before) = (0_i128, radix != 10);
    for byte in digits.bytes() {
        if byte == b'_' && digit_before {
            digit_before = false;
            continue;
        }
        let digit = char::from(byte).to_digit(radix).ok_or_else(invalid)?;
        value = (value * i128::from(radix) + i128::from(digit)).min(LIMIT);
        digit_before = true;
    }
    if !digit_before || digits.is_empty() {
        return Err(invalid());
    }
    let (min, max) = width.range();
    let value = i64::try_from(if negative { -value } else { value });
    let fits = value.ok().filter(|value| (min..=max).contains(value));
    fits.ok_or_else(|| ValueError::text(TextProblem::IntegerRange, width.name(), trimmed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_read_as_postgresql_reads_them() {
        let read = |text| parse(text, Width::SmallInt);
        assert_eq!(read(" -32768 "), Ok(-32768));
        assert_eq!(read("+7"), Ok(7));
        assert_eq!(read("1_000"), Ok(1000));
        assert_eq!(read("0x7F"), Ok(127));
        assert_eq!(read("0b_101"), Ok(5));
        assert_eq!(read("-0o17"), Ok(-15));
        for bad in ["", " ", "-", "+-1", "1.0", "1_", "_1", "1__0", "abc", "1 2", "0x", "0xg"] {
            let expected = ValueError::text(TextProblem::Syntax, "smallint", bad);
            assert_eq!(read(bad), Err(expected));
        }
        for far in ["32768", "-32769", "99999999999999999999999999999999999999999999999999"] {
            let expected = ValueError::text(TextProblem::IntegerRange, "smallint", far);
            assert_eq!(read(far), Err(expected));
        }
        let wide = |text| parse(text, Width::BigInt);
        assert_eq!(wide("-9223372036854775808"), Ok(i64::MIN));
        assert!(wide("9223372036854775808").is_err() && wide("-9223372036854775809").is_err());
    }

    #[test]
    fn results_lie_in_their_type() {
        let small = |op, left, right| Width::SmallInt.calculate(op, left, right);
        assert_eq!(small(Arith::Add, 32_766, 1), Ok(32_767));
        assert_eq!(small(Arith::Add, 32_767, 1), Err(ValueError::OutOfRange("smallint")));
        assert_eq!(small(Arith::Div, -32_768, -1), Err(ValueError::OutOfRange("smallint")));
        assert_eq!(Width::Integer.negate(i32::MIN.into()), Err(ValueError::OutOfRange("integer")));
        assert_eq!(Width::BigInt.absolute(i64::MIN), Err(ValueError::OutOfRange("bigint")));
        assert_eq!(Width::Integer.absolute(-3), Ok(3));
        let big = |op| Width::BigInt.calculate(op, i64::MIN, -1);
        assert_eq!(big(Arith::Div), Err(ValueError::OutOfRange("bigint")));
        assert_eq!(big(Arith::Rem), Ok(0));
        for width in [Width::SmallInt, Width::Integer, Width::BigInt] {
            let (min, max) = width.range();
            assert!(width.check(min).is_ok() && width.check(max).is_ok());
            assert!(width == Width::BigInt || width.check(max + 1).is_err());
            assert_eq!(width.value(7).map(widen), Ok(Some(7)));
        }
    }

    #[test]
    fn quotients_are_cut_or_rounded_half_away_from_zero() {
        for (left, right, cut, rounded, rest) in [
            (7_i64, 2, 3, 4, 1),
            (-7, 2, -3, -4, -1),
            (7, -2, -3, -4, 1),
            (5, 4, 1, 1, 1),
            (1, 3, 0, 0, 1),
        ] {
            assert_eq!(divide(left, right), Ok(Some(cut)));
            assert_eq!(
                divide_rounded(i128::from(left), i128::from(right)),
                Ok(Some(rounded.into()))
            );
            assert_eq!(remainder(left, right), Ok(rest));
        }
        assert_eq!(divide(i128::MIN, -1), Ok(None));
        assert_eq!(divide_rounded(i64::MIN, -1), Ok(None));
        for zero in
            [divide(1_i64, 0).err(), divide_rounded(1_i64, 0).err(), remainder(1_i64, 0).err()]
        {
            assert_eq!(zero, Some(ValueError::DivisionByZero));
        }
    }
}
