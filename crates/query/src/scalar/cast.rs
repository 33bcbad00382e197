//! Casts with a typed form. What is missing here is foreign.

use halcyon_store::Type;

use super::arith::{self, is_float, is_integer, power_of_ten};
use crate::error::Result;

/// Whether a cast is typed here. `from` is None for a NULL of no type.
pub(super) fn is_typed(from: Option<Type>, to: Type) -> bool {
    use Type::{Date, Decimal, Int16, Int32, Int64, Text, Timestamp};
    let Some(from) = from else { return true };
    match (from, to) {
        (from, to) if from == to => true,
        (from, to) if is_integer(from) && (is_integer(to) || is_float(to)) => true,
        (from, to) if is_float(from) && is_float(to) => true,
        (Int16 | Int32 | Int64, Decimal { scale, .. }) => scale >= 0,
        (Decimal { scale, .. }, Decimal { scale: to, .. }) => scale >= 0 && to >= 0,
        (Decimal { scale, .. }, Type::Float64) => scale >= 0,
        (Date, Timestamp) | (Timestamp, Date) | (Int16 | Int32 | Int64, Text) => true,
        _ => false,
    }
}

/// A change of scale and precision, worked out once. Halves are rounded away from zero.
#[derive(Clone, Copy)]
pub(super) struct Rescale {
    factor: Option<i128>,
    divisor: Option<i128>,
    limit: i128,
    ty: Type,
}

impl Rescale {
    /// From numbers of scale `from` to the type `ty`, a decimal.
    pub(super) fn new(from: i8, ty: Type) -> Rescale {
        let Type::Decimal { precision, scale } = ty else { panic!("{ty} is no decimal") };
        let up = scale as i32 - from as i32;
        let limit = power_of_ten(precision as u32).unwrap_or(i128::MAX);
        let factor = if up >= 0 { power_of_ten(up as u32) } else { Some(1) };
        let divisor = if up < 0 { power_of_ten(-up as u32) } else { Some(1) };
        Rescale { factor, divisor, limit, ty }
    }

    #[inline]
    pub(super) fn apply(&self, value: i128) -> Result<i128> {
        let scaled = match (self.factor, self.divisor) {
            (Some(1), Some(1)) => Some(value),
            (Some(factor), Some(1)) => value.checked_mul(factor),
            (_, Some(divisor)) => Some(divide_rounded(value, divisor)),
            (_, None) => Some(0),
        };
        match scaled {
            Some(scaled) if scaled > -self.limit && scaled < self.limit => Ok(scaled),
            _ => Err(arith::out_of_range(self.ty)),
        }
    }
}

/// Divides by a power of ten, halves away from zero.
fn divide_rounded(value: i128, divisor: i128) -> i128 {
    let (quotient, rest) = (value / divisor, value % divisor);
    if rest.abs() >= divisor / 2 + divisor % 2 && divisor > 1 {
        quotient + value.signum()
    } else {
        quotient
    }
}
