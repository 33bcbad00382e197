//! `div`, `gcd`, `lcm`, `factorial`: whole quotients and what divides numbers.

use super::ArgumentKind::{BigInt, Exact, Integer};
use super::{Answer, Args, Function, Gives, takes};
use crate::decimal;
use crate::error::{Refusal, Result, ValueError};
use crate::types::Type;
use crate::value::ValueRef;

const WHOLE: Gives = Gives::Type(Type::Decimal { precision: 38, scale: 0 });
const NEGATIVE_FACTORIAL: Refusal =
    Refusal { state: *b"22003", message: "factorial of a negative number is undefined" };

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new(
        &["div"],
        "How often the second number is contained in the first, without the rest.",
        takes(&[Exact, Exact]),
        WHOLE,
        |args, _| {
            let (left, right) = aligned(args)?;
            let quotient = left.checked_div(right).ok_or(ValueError::DivisionByZero)?;
            Ok(Answer::Value(ValueRef::Decimal(quotient)))
        },
    ),
    Function::new(
        &["gcd"],
        "The greatest number that divides both.",
        takes(&[Integer, Integer]),
        Gives::Type(Type::Int32),
        |args, _| integer(common(args.integer(0)?, args.integer(1)?)),
    ),
    Function::new(
        &["gcd"],
        "The greatest number that divides both.",
        takes(&[BigInt, BigInt]),
        Gives::Type(Type::Int64),
        |args, _| bigint(common(args.integer(0)?, args.integer(1)?)),
    ),
    Function::new(
        &["lcm"],
        "The least number that both divide.",
        takes(&[Integer, Integer]),
        Gives::Type(Type::Int32),
        |args, _| integer(least(args.integer(0)?, args.integer(1)?)),
    ),
    Function::new(
        &["lcm"],
        "The least number that both divide.",
        takes(&[BigInt, BigInt]),
        Gives::Type(Type::Int64),
        |args, _| bigint(least(args.integer(0)?, args.integer(1)?)),
    ),
    Function::new(
        &["gcd"],
        "The greatest decimal that divides both.",
        takes(&[Exact, Exact]),
        Gives::Widest,
        |args, _| {
            let (left, right) = aligned(args)?;
            Ok(Answer::Value(ValueRef::Decimal(common_of(left.abs(), right.abs()))))
        },
    ),
    Function::new(
        &["lcm"],
        "The least decimal that both divide.",
        takes(&[Exact, Exact]),
        Gives::Widest,
        |args, _| {
            let (left, right) = aligned(args)?;
            let far = || ValueError::OutOfRange("numeric");
            let least = match common_of(left.abs(), right.abs()) {
                0 => 0,
                common => (left / common).checked_mul(right).ok_or_else(far)?.abs(),
            };
            Ok(Answer::Value(ValueRef::Decimal(least)))
        },
    ),
    Function {
        errors: &[NEGATIVE_FACTORIAL],
        ..Function::new(
            &["factorial"],
            "The product of all whole numbers up to this one.",
            takes(&[BigInt]),
            WHOLE,
            |args, _| {
                let number = args.integer(0)?;
                if number < 0 {
                    return Err(ValueError::Refused(&NEGATIVE_FACTORIAL));
                }
                let far = || ValueError::OutOfRange("numeric");
                let product = (2..=i128::from(number)).try_fold(1_i128, |product, factor| {
                    product.checked_mul(factor).filter(|product| *product < decimal::LIMIT)
                });
                Ok(Answer::Value(ValueRef::Decimal(product.ok_or_else(far)?)))
            },
        )
    },
];

/// Both decimals at one scale.
fn aligned(args: &Args<'_, '_>) -> Result<(i128, i128)> {
    let scale = args.scale(0).max(args.scale(1));
    let far = || ValueError::OutOfRange("numeric");
    let one = |at| -> Result<i128> {
        decimal::rescale(args.decimal(at)?, args.scale(at), scale).ok_or_else(far)
    };
    Ok((one(0)?, one(1)?))
}

fn common(left: i64, right: i64) -> i128 {
    common_of(i128::from(left).abs(), i128::from(right).abs())
}

fn common_of(mut left: i128, mut right: i128) -> i128 {
    while right != 0 {
        (left, right) = (right, left % right);
    }
    left
}

fn least(left: i64, right: i64) -> i128 {
    match common(left, right) {
        0 => 0,
        common => (i128::from(left) / common * i128::from(right)).abs(),
    }
}

fn integer(number: i128) -> Result<Answer<'static>> {
    let number = i32::try_from(number).map_err(|_| ValueError::OutOfRange("integer"))?;
    Ok(Answer::Value(ValueRef::Int32(number)))
}

fn bigint(number: i128) -> Result<Answer<'static>> {
    let number = i64::try_from(number).map_err(|_| ValueError::OutOfRange("bigint"))?;
    Ok(Answer::Value(ValueRef::Int64(number)))
}
