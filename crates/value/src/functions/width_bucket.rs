//! `width_bucket`: the bucket of a histogram in which a number lies.

use super::ArgumentKind::{Double, Exact, Integer};
use super::{Answer, Args, Function, Gives, takes};
use crate::decimal;
use crate::error::{Refusal, Result, ValueError};
use crate::integer::Width;
use crate::types::Type;

const NO_BUCKETS: Refusal =
    Refusal { state: *b"2201G", message: "count must be greater than zero" };
const EMPTY: Refusal =
    Refusal { state: *b"2201G", message: "lower bound cannot equal upper bound" };
const NOT_A_NUMBER: Refusal =
    Refusal { state: *b"2201G", message: "operand, lower bound, and upper bound cannot be NaN" };
const INFINITE: Refusal =
    Refusal { state: *b"2201G", message: "lower and upper bounds must be finite" };

pub(super) static FUNCTIONS: &[Function] = &[
    Function {
        errors: &[NO_BUCKETS, EMPTY],
        ..Function::new(
            &["width_bucket"],
            "The bucket of the number among so many equal ones between two bounds.",
            takes(&[Exact, Exact, Exact, Integer]),
            Gives::Type(Type::Int32),
            |args, _| {
                let scale = args.scale(0).max(args.scale(1)).max(args.scale(2));
                let far = || ValueError::OutOfRange("numeric");
                let one = |at| -> Result<i128> {
                    decimal::rescale(args.decimal(at)?, args.scale(at), scale).ok_or_else(far)
                };
                let (number, low, high) = (one(0)?, one(1)?, one(2)?);
                let count = count(args, low == high)?;
                let (above, width) = if low < high {
                    (number - low, high - low)
                } else {
                    (low - number, low - high)
                };
                let bucket = match above {
                    ..0 => 0,
                    above if above >= width => i128::from(count) + 1,
                    above => above.checked_mul(count.into()).ok_or_else(far)? / width + 1,
                };
                bucket_of(bucket)
            },
        )
    },
    Function {
        errors: &[NO_BUCKETS, EMPTY, NOT_A_NUMBER, INFINITE],
        ..Function::new(
            &["width_bucket"],
            "The bucket of the number among so many equal ones between two bounds.",
            takes(&[Double, Double, Double, Integer]),
            Gives::Type(Type::Int32),
            |args, _| {
                let (number, low, high) = (args.double(0)?, args.double(1)?, args.double(2)?);
                if number.is_nan() || low.is_nan() || high.is_nan() {
                    return Err(ValueError::Refused(&NOT_A_NUMBER));
                }
                if low.is_infinite() || high.is_infinite() {
                    return Err(ValueError::Refused(&INFINITE));
                }
                let count = count(args, low == high)?;
                let (above, width) = if low < high {
                    (number - low, high - low)
                } else {
                    (low - number, low - high)
                };
                let bucket = match above {
                    above if above < 0.0 => 0,
                    above if above >= width => i128::from(count) + 1,
                    above => (above / width * count as f64) as i128 + 1,
                };
                bucket_of(bucket)
            },
        )
    },
];

/// The number of buckets. Errors: 2201G.
fn count(args: &Args<'_, '_>, is_empty: bool) -> Result<i64> {
    match args.integer(3)? {
        ..=0 => Err(ValueError::Refused(&NO_BUCKETS)),
        _ if is_empty => Err(ValueError::Refused(&EMPTY)),
        count => Ok(count),
    }
}

fn bucket_of(bucket: i128) -> Result<Answer<'static>> {
    let far = |_| ValueError::OutOfRange("integer");
    Ok(Answer::Value(Width::Integer.value(i64::try_from(bucket).map_err(far)?)?))
}
