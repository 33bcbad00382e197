//! Functions of DOUBLE PRECISION that need the platform's mathematics, which `core` lacks.
//!
//! Errors are PostgreSQL's: where a function has no value it raises an error instead of giving NaN,
//! and where the result overflows or vanishes it does so instead of giving infinity or zero.

use super::ArgumentKind::Double;
use super::{Function, Gives, Meaning, Volatility, takes};
use crate::error::{Refusal, Result, ValueError};
use crate::types::Type;

/// A degree in radians.
const DEGREE: f64 = core::f64::consts::PI / 180.0;

const NO_ROOT: Refusal =
    Refusal { state: *b"2201F", message: "cannot take square root of a negative number" };
const ZERO_TO_NEGATIVE: Refusal =
    Refusal { state: *b"2201F", message: "zero raised to a negative power is undefined" };
const COMPLEX_POWER: Refusal = Refusal {
    state: *b"2201F",
    message: "a negative number raised to a non-integer power yields a complex result",
};
const LOGARITHM_OF_ZERO: Refusal =
    Refusal { state: *b"2201E", message: "cannot take logarithm of zero" };
const LOGARITHM_OF_NEGATIVE: Refusal =
    Refusal { state: *b"2201E", message: "cannot take logarithm of a negative number" };
const INPUT_RANGE: Refusal = Refusal { state: *b"22003", message: "input is out of range" };
const UNDERFLOW: Refusal = Refusal { state: *b"22003", message: "value out of range: underflow" };

const fn row(
    names: &'static [&'static str],
    purpose: &'static str,
    kinds: &'static [super::ArgumentKind],
    meaning: Meaning,
    errors: &'static [Refusal],
) -> Function {
    Function {
        names,
        purpose,
        takes: takes(kinds),
        gives: Gives::Type(Type::Float64),
        strict: true,
        volatility: Volatility::Immutable,
        errors,
        meaning,
    }
}

const fn of_one(
    names: &'static [&'static str],
    purpose: &'static str,
    errors: &'static [Refusal],
    meaning: fn(f64) -> Result<f64>,
) -> Function {
    row(names, purpose, &[Double], Meaning::Double(meaning), errors)
}

const fn of_two(
    names: &'static [&'static str],
    purpose: &'static str,
    errors: &'static [Refusal],
    meaning: fn(f64, f64) -> Result<f64>,
) -> Function {
    row(names, purpose, &[Double, Double], Meaning::Doubles(meaning), errors)
}

pub(super) static FUNCTIONS: &[Function] = &[
    of_one(&["sqrt"], "The square root.", &[NO_ROOT], |x| {
        if x < 0.0 { refused(&NO_ROOT) } else { Ok(x.sqrt()) }
    }),
    of_one(&["cbrt"], "The cube root.", &[], |x| Ok(x.cbrt())),
    of_two(
        &["power", "pow"],
        "The first number raised to the second.",
        &[ZERO_TO_NEGATIVE, COMPLEX_POWER, UNDERFLOW],
        power,
    ),
    of_one(&["exp"], "Euler's number raised to a power.", &[UNDERFLOW], |x| {
        ranged(x.exp(), x.is_finite(), false)
    }),
    of_one(&["ln"], "The natural logarithm.", LOGARITHM_ERRORS, |x| Ok(positive(x)?.ln())),
    of_one(&["log10", "log"], "The logarithm to base 10.", LOGARITHM_ERRORS, |x| {
        Ok(positive(x)?.log10())
    }),
    of_two(
        &["log"],
        "The logarithm of the second number to the first as base.",
        LOGARITHM_ERRORS,
        log,
    ),
    of_one(&["sin"], "The sine of radians.", &[INPUT_RANGE], |x| Ok(finite(x)?.sin())),
    of_one(&["cos"], "The cosine of radians.", &[INPUT_RANGE], |x| Ok(finite(x)?.cos())),
    of_one(&["tan"], "The tangent of radians.", &[INPUT_RANGE], |x| Ok(finite(x)?.tan())),
    of_one(&["cot"], "The cotangent of radians.", &[INPUT_RANGE], |x| Ok(1.0 / finite(x)?.tan())),
    of_one(&["asin"], "The inverse sine, in radians.", &[INPUT_RANGE], |x| Ok(unit(x)?.asin())),
    of_one(&["acos"], "The inverse cosine, in radians.", &[INPUT_RANGE], |x| Ok(unit(x)?.acos())),
    of_one(&["atan"], "The inverse tangent, in radians.", &[], |x| Ok(x.atan())),
    of_two(
        &["atan2"],
        "The angle, in radians, of the point with these coordinates y and x.",
        &[],
        |y, x| Ok(y.atan2(x)),
    ),
    of_one(&["sinh"], "The hyperbolic sine.", &[], |x| Ok(x.sinh())),
    of_one(&["cosh"], "The hyperbolic cosine.", &[], |x| Ok(x.cosh())),
    of_one(&["tanh"], "The hyperbolic tangent.", &[], |x| Ok(x.tanh())),
    of_one(&["asinh"], "The inverse hyperbolic sine.", &[], |x| Ok(x.asinh())),
    of_one(&["acosh"], "The inverse hyperbolic cosine.", &[INPUT_RANGE], |x| {
        if x < 1.0 { refused(&INPUT_RANGE) } else { Ok(x.acosh()) }
    }),
    of_one(&["atanh"], "The inverse hyperbolic tangent.", &[INPUT_RANGE], |x| Ok(unit(x)?.atanh())),
    of_one(&["degrees"], "Radians as degrees.", &[], |x| ranged(x / DEGREE, x.is_finite(), true)),
    of_one(&["radians"], "Degrees as radians.", &[], |x| Ok(x * DEGREE)),
];

const LOGARITHM_ERRORS: &[Refusal] = &[LOGARITHM_OF_ZERO, LOGARITHM_OF_NEGATIVE];

#[cold]
fn refused<T>(refusal: &'static Refusal) -> Result<T> {
    Err(ValueError::Refused(refusal))
}

/// Checks a result: an error if it is infinite for finite operands, or zero although `zero` does
/// not hold.
fn ranged(result: f64, finite: bool, zero: bool) -> Result<f64> {
    if finite && result.is_infinite() {
        return Err(ValueError::FloatOverflow);
    }
    if finite && result == 0.0 && !zero {
        return refused(&UNDERFLOW);
    }
    Ok(result)
}

fn positive(x: f64) -> Result<f64> {
    if x == 0.0 {
        return refused(&LOGARITHM_OF_ZERO);
    }
    if x < 0.0 { refused(&LOGARITHM_OF_NEGATIVE) } else { Ok(x) }
}

fn finite(x: f64) -> Result<f64> {
    if x.is_infinite() { refused(&INPUT_RANGE) } else { Ok(x) }
}

/// Checks that an argument lies between −1 and 1.
fn unit(x: f64) -> Result<f64> {
    if x.abs() > 1.0 { refused(&INPUT_RANGE) } else { Ok(x) }
}

fn power(x: f64, y: f64) -> Result<f64> {
    if x == 0.0 && y < 0.0 {
        return refused(&ZERO_TO_NEGATIVE);
    }
    if x < 0.0 && y.is_finite() && crate::float::trunc(y) != y {
        return refused(&COMPLEX_POWER);
    }
    ranged(x.powf(y), x.is_finite() && y.is_finite(), x == 0.0)
}

fn log(base: f64, x: f64) -> Result<f64> {
    let divisor = positive(base)?.ln();
    let logarithm = positive(x)?.ln();
    if divisor == 0.0 { Err(ValueError::DivisionByZero) } else { Ok(logarithm / divisor) }
}
