//! Arithmetic on words with NULL: operations that `halcyon_value` defines, in the form of the
//! operators of [`crate::program::Expr`].
//!
//! Every function takes NULL as its type's mark and returns NULL where SQL does. No integer result
//! is the mark of NULL: an operation with that result overflows.

use core::cmp::Ordering;
use halcyon_value::compare::Compare;
use halcyon_value::decimal::power_of_ten;
use halcyon_value::integer::{divide, divide_rounded, remainder};
use halcyon_value::{Arith, calendar, float};

use crate::error::EvalError;
use crate::program::{
    BinaryOp, CompareOp, DatePart, NULL_FLOAT_BITS, NULL_INT, NULL_WIDE, NumberRange,
};

type Result<T> = core::result::Result<T, EvalError>;

/// A type of numbers in which expressions compute.
pub trait Number: Copy + PartialEq {
    /// The mark of NULL.
    fn null() -> Self;
    /// Whether this is the mark.
    fn is_null(self) -> bool;
    /// `a op b`, for operands that are not NULL.
    fn operate(op: BinaryOp, a: Self, b: Self) -> Result<Self>;
    /// −`self`, for an operand that is not NULL.
    fn negate(self) -> Result<Self>;
    /// The order of two operands that are not NULL, as SQL has it.
    fn order(a: Self, b: Self) -> Ordering;
}

macro_rules! integer {
    ($type:ty, $null:expr) => {
        impl Number for $type {
            #[inline(always)]
            fn null() -> Self {
                $null
            }
            #[inline(always)]
            fn is_null(self) -> bool {
                self == $null
            }
            #[inline(always)]
            fn operate(op: BinaryOp, a: Self, b: Self) -> Result<Self> {
                let value = match op {
                    BinaryOp::Add => a.checked_add(b),
                    BinaryOp::Sub => a.checked_sub(b),
                    BinaryOp::Mul => a.checked_mul(b),
                    BinaryOp::Div => divide(a, b)?,
                    BinaryOp::Rem => Some(remainder(a, b)?),
                    BinaryOp::DivRound => divide_rounded(a, b)?,
                };
                value.filter(|value| !value.is_null()).ok_or(EvalError::Overflow)
            }
            #[inline(always)]
            fn negate(self) -> Result<Self> {
                Ok(-self)
            }
            #[inline(always)]
            fn order(a: Self, b: Self) -> Ordering {
                a.cmp(&b)
            }
        }
    };
}

integer!(i64, NULL_INT);
integer!(i128, NULL_WIDE);

impl Number for f64 {
    #[inline(always)]
    fn null() -> Self {
        f64::from_bits(NULL_FLOAT_BITS)
    }
    #[inline(always)]
    fn is_null(self) -> bool {
        self.to_bits() == NULL_FLOAT_BITS
    }
    #[inline(always)]
    fn operate(op: BinaryOp, a: Self, b: Self) -> Result<Self> {
        let op = match op {
            BinaryOp::Add => Arith::Add,
            BinaryOp::Sub => Arith::Sub,
            BinaryOp::Mul => Arith::Mul,
            BinaryOp::Div | BinaryOp::DivRound => Arith::Div,
            BinaryOp::Rem => Arith::Rem,
        };
        // All NaN are made one, so that no operation yields the mark of NULL.
        Ok(float::canonical(float::calculate(op, a, b)?))
    }
    #[inline(always)]
    fn negate(self) -> Result<Self> {
        Ok(float::canonical(-self))
    }
    #[inline(always)]
    fn order(a: Self, b: Self) -> Ordering {
        float::compare(a, b)
    }
}

/// The value by which keys are compared: 0 for −0, one NaN for all.
#[inline(always)]
pub fn key_float(value: f64) -> f64 {
    if value.is_null() { value } else { float::key(value) }
}

/// `a op b`, NULL if either is.
#[inline(always)]
pub fn binary<T: Number>(op: BinaryOp, a: T, b: T) -> Result<T> {
    if a.is_null() || b.is_null() { Ok(T::null()) } else { T::operate(op, a, b) }
}

/// −`a`, NULL if `a` is NULL.
#[inline(always)]
pub fn negate<T: Number>(a: T) -> Result<T> {
    if a.is_null() { Ok(a) } else { a.negate() }
}

/// Whether `a op b`: 0, 1 or NULL.
#[inline(always)]
pub fn compare<T: Number>(op: CompareOp, a: T, b: T) -> i64 {
    if a.is_null() || b.is_null() { NULL_INT } else { i64::from(holds(op, T::order(a, b))) }
}

/// Whether two values in this order meet the operator.
#[inline(always)]
pub fn holds(op: CompareOp, order: Ordering) -> bool {
    Compare::from(op).accepts(order)
}

/// The negation of a condition; NULL stays NULL.
#[inline(always)]
pub fn not(a: i64) -> i64 {
    if a == NULL_INT { a } else { i64::from(a == 0) }
}

/// Shifts the decimal point: × 10^`by`, or ÷ 10^−`by` rounded half away from zero. The power must
/// fit the type.
pub fn rescale<T: Number + TryFrom<i128>>(by: i8, a: T) -> Result<T> {
    if a.is_null() {
        return Ok(a);
    }
    let power = power_of_ten(by.unsigned_abs().into()).and_then(|power| T::try_from(power).ok());
    let op = if by < 0 { BinaryOp::DivRound } else { BinaryOp::Mul };
    T::operate(op, a, power.ok_or(EvalError::Overflow)?)
}

/// [`rescale`] of a 64-bit integer: through the wider type where the power does not fit.
pub fn rescale_int(by: i8, a: i64) -> Result<i64> {
    if by.unsigned_abs() <= 18 { rescale(by, a) } else { wide_to_int(rescale(by, int_to_wide(a))?) }
}

/// `a` if it is a value of the range; NULL stays NULL.
#[inline]
pub fn within_wide(range: NumberRange, a: i128) -> Result<i128> {
    let lies_within = match range {
        NumberRange::Bits(bits) => (a >> (bits - 1)) == (a >> 127),
        NumberRange::Digits(digits) => {
            power_of_ten(digits.into()).is_none_or(|power| a.unsigned_abs() < power.unsigned_abs())
        }
    };
    if a == NULL_WIDE || lies_within { Ok(a) } else { Err(EvalError::Overflow) }
}

/// [`within_wide`] of a 64-bit integer.
#[inline]
pub fn within_int(range: NumberRange, a: i64) -> Result<i64> {
    match range {
        NumberRange::Bits(bits) if (a >> (bits - 1)) == (a >> 63) => Ok(a),
        _ => wide_to_int(within_wide(range, int_to_wide(a))?),
    }
}

/// A 64-bit integer in 128 bits.
#[inline(always)]
pub fn int_to_wide(a: i64) -> i128 {
    if a == NULL_INT { NULL_WIDE } else { i128::from(a) }
}

/// A 128-bit integer in 64 bits, if it fits.
#[inline(always)]
pub fn wide_to_int(a: i128) -> Result<i64> {
    if a == NULL_WIDE {
        return Ok(NULL_INT);
    }
    i64::try_from(a).ok().filter(|a| *a != NULL_INT).ok_or(EvalError::Overflow)
}

/// Nearest floating-point number.
#[inline(always)]
pub fn int_to_float(a: i64) -> f64 {
    if a == NULL_INT { f64::null() } else { a as f64 }
}

/// Nearest floating-point number.
#[inline(always)]
pub fn wide_to_float(a: i128) -> f64 {
    if a == NULL_WIDE { f64::null() } else { a as f64 }
}

/// Nearest integer, half to even.
pub fn float_to_wide(a: f64) -> Result<i128> {
    if a.is_null() { Ok(NULL_WIDE) } else { scaled(a, 0).ok_or(EvalError::OutOfRange) }
}

/// Nearest integer, half to even.
pub fn float_to_int(a: f64) -> Result<i64> {
    wide_to_int(float_to_wide(a)?).map_err(|_| EvalError::OutOfRange)
}

/// Years beyond this number of days do not fit the calendar's arithmetic; SQL's dates end far
/// earlier.
const DAYS_MAX: u64 = 1 << 40;

/// A part of a date; NULL for NULL.
#[inline]
pub fn date_part(part: DatePart, days: i64) -> Result<i64> {
    if days == NULL_INT {
        return Ok(NULL_INT);
    }
    if days.unsigned_abs() > DAYS_MAX {
        return Err(EvalError::Overflow);
    }
    Ok(calendar::Field::from(part).of_day(days))
}

/// The day of a timestamp; NULL for NULL.
#[inline]
pub fn date_of(timestamp_us: i64) -> i64 {
    if timestamp_us == NULL_INT { NULL_INT } else { calendar::day_of(timestamp_us) }
}

/// Bits behind the binary point in a sum of floating-point numbers.
const SUM_SCALE: i32 = 40;
/// Sums of floating-point numbers below this (2⁻²⁰) count as zero.
pub const SUM_ZERO_BELOW: u128 = 1 << 20;

/// An addend of an exact sum: a multiple of 2⁻⁴⁰, rounded half to even. NULL adds nothing.
///
/// Errors: beyond ±2⁸⁶, infinite or NaN.
#[inline(always)]
pub fn float_to_sum(a: f64) -> Result<i128> {
    // Most addends are whole numbers. The conversion saturates, and NULL equals nothing.
    let whole = a as i64;
    if whole as f64 == a && whole.unsigned_abs() < 1 << 62 {
        return Ok(i128::from(whole) << SUM_SCALE);
    }
    fraction_to_sum(a)
}

#[inline(never)]
fn fraction_to_sum(a: f64) -> Result<i128> {
    if a.is_null() { Ok(0) } else { scaled(a, SUM_SCALE).ok_or(EvalError::OutOfRange) }
}

/// The floating-point number of an exact sum.
#[inline(always)]
pub fn sum_to_float(sum: i128) -> f64 {
    // Most sums are whole numbers of 64 bits; their conversion is an instruction, not a call.
    let whole = sum >> SUM_SCALE;
    if whole << SUM_SCALE == sum && i128::from(whole as i64) == whole {
        return whole as i64 as f64;
    }
    // The unit is a power of two, so that only the conversion rounds.
    const UNIT: f64 = 1.0 / (1_u64 << SUM_SCALE) as f64;
    sum as f64 * UNIT
}

/// The largest exact sum that does not exceed a number; NaN is above all sums.
pub fn float_limit(limit: f64) -> i128 {
    match scaled(limit, SUM_SCALE) {
        Some(sum) => sum - i128::from(sum_to_float(sum) > limit),
        None if limit < 0.0 => i128::MIN,
        None => i128::MAX,
    }
}

/// `a`·2^`scale`, rounded half to even; `None` beyond ±2¹²⁶, and for infinities and NaN.
fn scaled(a: f64, scale: i32) -> Option<i128> {
    let bits = a.to_bits();
    let exponent_bits = ((bits >> 52) & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    if exponent_bits == 0x7ff {
        return None;
    }
    // Subnormal numbers have no leading one; they round to zero here anyway.
    let mantissa = if exponent_bits == 0 { fraction } else { fraction | 1 << 52 };
    let shift = exponent_bits.max(1) - 1075 + scale;
    let magnitude = match shift {
        74.. => return None,
        0..=73 => i128::from(mantissa) << shift,
        -63..=-1 => {
            let down = -shift as u32;
            let (whole, rest) = (mantissa >> down, mantissa & ((1 << down) - 1));
            let half = 1_u64 << (down - 1);
            i128::from(whole + u64::from(rest > half || (rest == half && whole & 1 == 1)))
        }
        _ => 0,
    };
    Some(if a.is_sign_negative() { -magnitude } else { magnitude })
}
