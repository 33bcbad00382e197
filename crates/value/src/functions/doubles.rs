//! Functions of DOUBLE PRECISION that need the platform's mathematics, which `core` lacks.
//!
//! Errors are PostgreSQL's: where a function has no value it raises an error instead of giving NaN,
//! and where the result overflows or vanishes it does so instead of giving infinity or zero.

use super::ArgumentKind::{Decimal, Double};
use super::{Answer, Function, Gives, Meaning, Volatility, takes};
use crate::error::{Refusal, Result, ValueError};
use crate::types::Type;
use crate::value::ValueRef;

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
    of_one(&["sign"], "-1, 0 or 1: the number's sign.", &[], |x| {
        Ok(if x > 0.0 {
            1.0
        } else if x < 0.0 {
            -1.0
        } else {
            0.0
        })
    }),
    Function::new(
        &["sign"],
        "-1, 0 or 1: the decimal's sign.",
        takes(&[Decimal]),
        Gives::Type(Type::Decimal { precision: 1, scale: 0 }),
        |args, _| Ok(Answer::Value(ValueRef::Decimal(args.decimal(0)?.signum()))),
    ),
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
    of_one(&["sind"], "The sine of degrees.", &[INPUT_RANGE], |x| Ok(sine(finite(x)?))),
    of_one(&["cosd"], "The cosine of degrees.", &[INPUT_RANGE], |x| Ok(cosine(finite(x)?))),
    of_one(&["tand"], "The tangent of degrees.", &[INPUT_RANGE], |x| {
        let x = finite(x)?;
        Ok(sine(x) / cosine(x) / (sine(45.0) / cosine(45.0)) + 0.0)
    }),
    of_one(&["cotd"], "The cotangent of degrees.", &[INPUT_RANGE], |x| {
        let x = finite(x)?;
        Ok(cosine(x) / sine(x) / (cosine(45.0) / sine(45.0)) + 0.0)
    }),
    of_one(&["asind"], "The inverse sine, in degrees.", &[INPUT_RANGE], |x| {
        Ok(90.0 - arc_cosine(unit(x)?))
    }),
    of_one(&["acosd"], "The inverse cosine, in degrees.", &[INPUT_RANGE], |x| {
        Ok(arc_cosine(unit(x)?))
    }),
    of_one(&["atand"], "The inverse tangent, in degrees.", &[], |x| {
        Ok(x.atan() / 1.0_f64.atan() * 45.0)
    }),
    of_two(
        &["atan2d"],
        "The angle, in degrees, of the point with these coordinates y and x.",
        &[],
        |y, x| Ok(y.atan2(x) / 1.0_f64.atan() * 45.0),
    ),
];

/// The sine of an angle from 0 to 30 degrees, such that the sine of 30 is a half.
fn small_sine(x: f64) -> f64 {
    (x * DEGREE).sin() / (30.0 * DEGREE).sin() / 2.0
}

/// The cosine of an angle from 0 to 60 degrees, such that the cosine of 60 is a half.
fn small_cosine(x: f64) -> f64 {
    1.0 - (1.0 - (x * DEGREE).cos()) / (1.0 - (60.0 * DEGREE).cos()) / 2.0
}

fn quarter_sine(x: f64) -> f64 {
    if x <= 30.0 { small_sine(x) } else { small_cosine(90.0 - x) }
}

fn quarter_cosine(x: f64) -> f64 {
    if x <= 60.0 { small_cosine(x) } else { small_sine(90.0 - x) }
}

fn sine(x: f64) -> f64 {
    let x = x % 360.0;
    let (x, sign) = if x < 0.0 { (-x, -1.0) } else { (x, 1.0) };
    let (x, sign) = if x > 180.0 { (360.0 - x, -sign) } else { (x, sign) };
    sign * quarter_sine(if x > 90.0 { 180.0 - x } else { x })
}

fn cosine(x: f64) -> f64 {
    let x = (x % 360.0).abs();
    let x = if x > 180.0 { 360.0 - x } else { x };
    if x > 90.0 { -quarter_cosine(180.0 - x) } else { quarter_cosine(x) }
}

/// The inverse cosine in degrees, exact where the cosine is 0, a half or 1.
fn arc_cosine(x: f64) -> f64 {
    match x {
        ..0.0 => 180.0 - arc_cosine(-x),
        x if x <= 0.5 => 90.0 - x.asin() / 0.5_f64.asin() * 30.0,
        x => x.acos() / 0.5_f64.acos() * 60.0,
    }
}

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
