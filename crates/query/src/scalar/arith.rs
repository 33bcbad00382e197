//! Arithmetic: checked, with PostgreSQL's errors and DataFusion's result types.

use halcyon_base::SqlState;
use halcyon_store::Type;

use super::ir::Arith;
use crate::error::{Result, SqlError};

/// Whether values of the type are numbers.
pub(super) fn is_number(ty: Type) -> bool {
    is_integer(ty) || is_float(ty) || matches!(ty, Type::Decimal { .. })
}

pub(super) fn is_integer(ty: Type) -> bool {
    matches!(ty, Type::Int16 | Type::Int32 | Type::Int64)
}

pub(super) fn is_float(ty: Type) -> bool {
    matches!(ty, Type::Float32 | Type::Float64)
}

/// Whether arithmetic on these types is typed here.
pub(super) fn is_typed(op: Arith, left: Type, right: Type, result: Type) -> bool {
    use Type::Decimal;
    match (left, right, result) {
        (Decimal { scale: a, .. }, Decimal { scale: b, .. }, Decimal { scale, .. }) => {
            let scales_fit = match op {
                Arith::Add | Arith::Sub | Arith::Rem => scale == a.max(b),
                Arith::Mul => scale == a + b,
                Arith::Div => scale + b >= a,
            };
            scales_fit && a >= 0 && b >= 0
        }
        (a, b, result) => (is_integer(a) || is_float(a)) && a == b && a == result,
    }
}

/// 22003 for a type.
#[cold]
pub(super) fn out_of_range(ty: Type) -> SqlError {
    let name = match ty {
        Type::Int16 => "smallint",
        Type::Int32 => "integer",
        Type::Int64 => "bigint",
        Type::Float32 | Type::Float64 => "value",
        Type::Decimal { .. } => "numeric value",
        _ => "value",
    };
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{name} out of range"))
}

/// 22012.
#[cold]
fn division_by_zero() -> SqlError {
    SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

/// The number if the integer type holds it.
#[inline]
pub(super) fn in_range(value: i64, ty: Type) -> Result<i64> {
    let fits = match ty {
        Type::Int16 => value == value as i16 as i64,
        Type::Int32 | Type::Date => value == value as i32 as i64,
        _ => true,
    };
    if fits { Ok(value) } else { Err(out_of_range(ty)) }
}

/// Integer arithmetic in `ty`, of which both operands are.
#[inline]
pub(super) fn integers(op: Arith, left: i64, right: i64, ty: Type) -> Result<i64> {
    let result = match op {
        Arith::Add => left.checked_add(right),
        Arith::Sub => left.checked_sub(right),
        Arith::Mul => left.checked_mul(right),
        Arith::Div | Arith::Rem if right == 0 => return Err(division_by_zero()),
        Arith::Div => left.checked_div(right),
        // MIN % -1 is 0; only the machine's division overflows.
        Arith::Rem => Some(left.wrapping_rem(right)),
    };
    in_range(result.ok_or_else(|| out_of_range(ty))?, ty)
}

/// Float arithmetic. That of REAL may be done in double precision and rounded: one operation
/// rounded twice gives the same here, as 53 >= 2 * 24 + 2.
#[inline]
pub(super) fn floats(op: Arith, left: f64, right: f64, single: bool) -> Result<f64> {
    let result = match op {
        Arith::Add => left + right,
        Arith::Sub => left - right,
        Arith::Mul => left * right,
        Arith::Div | Arith::Rem if right == 0.0 => return Err(division_by_zero()),
        Arith::Div => left / right,
        Arith::Rem => left % right,
    };
    let result = if single { result as f32 as f64 } else { result };
    if result.is_infinite() && left.is_finite() && right.is_finite() {
        return Err(out_of_range(if single { Type::Float32 } else { Type::Float64 }));
    }
    Ok(result)
}

/// Powers of ten that an `i128` holds.
const POWERS: [i128; 39] = {
    let mut powers = [1i128; 39];
    let mut at = 1;
    while at < 39 {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

/// 10^`exponent`; None above 10^38.
#[inline]
pub(crate) fn power_of_ten(exponent: u32) -> Option<i128> {
    POWERS.get(exponent as usize).copied()
}

/// How decimals of two scales are brought together, worked out once.
#[derive(Clone, Copy)]
pub(super) struct DecimalRule {
    op: Arith,
    /// Factors before the operation; None if one is beyond 10^38.
    factors: Option<(i128, i128)>,
    /// The result is below this.
    limit: i128,
    ty: Type,
}

impl DecimalRule {
    pub(super) fn new(op: Arith, left: Type, right: Type, ty: Type) -> DecimalRule {
        let parts = |ty| match ty {
            Type::Decimal { precision, scale } => (precision, scale as i32),
            other => panic!("{other} in decimal arithmetic"),
        };
        let ((_, a), (_, b), (precision, scale)) = (parts(left), parts(right), parts(ty));
        let (by_left, by_right) = match op {
            Arith::Add | Arith::Sub | Arith::Rem => (scale - a, scale - b),
            Arith::Mul => (0, 0),
            Arith::Div => (scale - a + b, 0),
        };
        let factors = power_of_ten(by_left as u32).zip(power_of_ten(by_right as u32));
        let limit = power_of_ten(precision as u32).unwrap_or(i128::MAX);
        DecimalRule { op, factors, limit, ty }
    }

    #[inline]
    pub(super) fn apply(&self, left: i128, right: i128) -> Result<i128> {
        if matches!(self.op, Arith::Div | Arith::Rem) && right == 0 {
            return Err(division_by_zero());
        }
        match self.compute(left, right) {
            Some(value) if value > -self.limit && value < self.limit => Ok(value),
            _ => Err(out_of_range(self.ty)),
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

/// Multiplies; quick where both fit 64 bits, as they do in all but odd cases.
#[inline]
fn times(left: i128, right: i128) -> Option<i128> {
    if right == 1 {
        return Some(left);
    }
    match (i64::try_from(left), i64::try_from(right)) {
        (Ok(left), Ok(right)) => Some(left as i128 * right as i128),
        _ => left.checked_mul(right),
    }
}
