//! `+`, `-` and `*` of decimals whose values fit 64 bits, which those of money, counts and shares do: no product of two
//! needs a check, and no addition.
//!
//! Arrow multiplies with a check of 128 bits, and for `+` and `-` brings both sides to one scale by checked
//! multiplications even if they have it. Here one pass computes and notes whether every value was narrow; if not, the
//! caller computes again as Arrow does, its slow twin.
//! Invariant, checked by `narrow_decimals_are_computed_as_arrow_does`: the same values, NULLs and types.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Datum, Decimal128Array};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Decimal128Type};

/// Factors up to this one leave a narrow value below 38 digits.
const FACTOR_MOST: i64 = 1_000_000_000_000_000_000;

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op {
    Add,
    Subtract,
    Multiply,
}

/// `left op right` in the type `result`; `None` if some value is too wide, or the types are others.
pub(crate) fn calculated(
    op: Op,
    left: &dyn Datum,
    right: &dyn Datum,
    result: &DataType,
) -> Option<ArrayRef> {
    let ((l, l_is_one), (r, r_is_one)) = (left.get(), right.get());
    let (DataType::Decimal128(_, l_scale), DataType::Decimal128(_, r_scale)) =
        (l.data_type(), r.data_type())
    else {
        return None;
    };
    let &DataType::Decimal128(precision, scale) = result else { return None };
    let (l, r) = (l.as_primitive::<Decimal128Type>(), r.as_primitive::<Decimal128Type>());
    if (l_is_one && l.is_null(0)) || (r_is_one && r.is_null(0)) || (l_is_one && r_is_one) {
        return None;
    }
    let nulls = match (l_is_one, r_is_one) {
        (true, _) => r.nulls().cloned(),
        (_, true) => l.nulls().cloned(),
        _ => NullBuffer::union(l.nulls(), r.nulls()),
    };
    let sides = (side(l, l_is_one), side(r, r_is_one));
    let values = match op {
        Op::Multiply if l_scale + r_scale == scale => computed(sides, |l, r| wide(l) * wide(r)),
        Op::Add | Op::Subtract if scale == *l_scale.max(r_scale) => {
            let factor = |of: i8| {
                let factor = 10_i64.checked_pow(u32::try_from(scale - of).ok()?)?;
                (factor <= FACTOR_MOST).then_some(factor)
            };
            let (of_left, of_right) = (factor(*l_scale)?, factor(*r_scale)?);
            match (op == Op::Add, of_left == 1 && of_right == 1) {
                (true, true) => computed(sides, |l, r| wide(l) + wide(r)),
                (false, true) => computed(sides, |l, r| wide(l) - wide(r)),
                (true, false) => {
                    computed(sides, |l, r| wide(l) * wide(of_left) + wide(r) * wide(of_right))
                }
                (false, false) => {
                    computed(sides, |l, r| wide(l) * wide(of_left) - wide(r) * wide(of_right))
                }
            }
        }
        _ => return None,
    }?;
    let array = Decimal128Array::new(ScalarBuffer::from(values), nulls);
    Some(Arc::new(array.with_precision_and_scale(precision, scale).ok()?))
}

fn wide(value: i64) -> i128 {
    i128::from(value)
}

/// One side of an operation.
#[derive(Clone, Copy)]
enum Side<'a> {
    One(i128),
    Many(&'a [i128]),
}

fn side(array: &Decimal128Array, is_one: bool) -> Side<'_> {
    if is_one { Side::One(array.value(0)) } else { Side::Many(array.values()) }
}

/// The low half of a value, and whether that is all of it.
#[inline(always)]
fn narrow(value: i128) -> (i64, bool) {
    let low = value as i64;
    (low, i128::from(low) == value)
}

/// `apply` to each row; `None` if a value does not fit 64 bits.
#[inline(always)]
fn computed(
    (left, right): (Side<'_>, Side<'_>),
    apply: impl Fn(i64, i64) -> i128,
) -> Option<Vec<i128>> {
    let mut all_narrow = true;
    let mut one = |left: i128, right: i128| {
        let ((l, l_fits), (r, r_fits)) = (narrow(left), narrow(right));
        all_narrow &= l_fits & r_fits;
        apply(l, r)
    };
    let values = match (left, right) {
        (Side::Many(left), Side::Many(right)) => {
            left.iter().zip(right).map(|(&left, &right)| one(left, right)).collect()
        }
        (Side::One(left), Side::Many(right)) => {
            right.iter().map(|&right| one(left, right)).collect()
        }
        (Side::Many(left), Side::One(right)) => left.iter().map(|&left| one(left, right)).collect(),
        (Side::One(left), Side::One(right)) => vec![one(left, right)],
    };
    all_narrow.then_some(values)
}

#[cfg(test)]
mod tests {
    use arrow::array::Scalar;
    use arrow::compute::kernels::numeric;
    use halcyon_base::rng::Rng;

    use super::*;

    fn array(rng: &mut Rng, rows: usize, scale: i8, wide: bool) -> Decimal128Array {
        let value = |rng: &mut Rng| {
            let digits = rng.below(if wide { 25 } else { 17 }) as u32;
            let value = (i128::from(rng.next_u64()) * 7) % 10_i128.pow(digits + 1);
            let value = if rng.chance(1, 2) { -value } else { value };
            (!rng.chance(1, 10)).then_some(value)
        };
        let values: Decimal128Array = (0..rows).map(|_| value(rng)).collect();
        values.with_precision_and_scale(28, scale).expect("fits")
    }

    #[test]
    fn narrow_decimals_are_computed_as_arrow_does() {
        use Op::{Add, Multiply, Subtract};
        let mut rng = Rng::new(9);
        let (mut quick, mut left_to_arrow) = (0, 0);
        for case in 0..2_000 {
            let rows = 1 + rng.below(40) as usize;
            let (l_scale, r_scale) = (rng.below(6) as i8, rng.below(6) as i8);
            let wide = rng.chance(1, 4);
            let (l_is_one, r_is_one) = (rng.chance(1, 4), rng.chance(1, 4));
            let l = array(&mut rng, if l_is_one { 1 } else { rows }, l_scale, wide);
            let r = array(&mut rng, if r_is_one { 1 } else { rows }, r_scale, wide);
            let datum = |array: Decimal128Array, is_one: bool| -> Box<dyn Datum> {
                if is_one { Box::new(Scalar::new(array)) } else { Box::new(array) }
            };
            let (l, r) = (datum(l, l_is_one), datum(r, r_is_one));
            let op = *rng.pick(&[Add, Subtract, Multiply]);
            let expected = match op {
                Add => numeric::add(l.as_ref(), r.as_ref()),
                Subtract => numeric::sub(l.as_ref(), r.as_ref()),
                _ => numeric::mul(l.as_ref(), r.as_ref()),
            };
            let Ok(expected) = expected else { continue };
            match calculated(op, l.as_ref(), r.as_ref(), expected.data_type()) {
                Some(got) => {
                    assert_eq!(&got, &expected, "case {case}");
                    quick += 1;
                }
                None => left_to_arrow += 1,
            }
        }
        assert!(quick > 500 && left_to_arrow > 100, "{quick} and {left_to_arrow}");
    }
}
