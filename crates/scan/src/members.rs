//! Whether integers are among a list, as a bitmap: a join that has found a few hundred keys asks that of millions of
//! rows.
//!
//! The slow twin is DataFusion's hash set, which any other list is left to.
//! Invariant, checked by `a_bitmap_answers_as_a_list_does`. Cost: a load and two comparisons a row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Date32Type, Int16Type, Int32Type, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, InListExpr, Literal};

use crate::bounds::Answer;

/// Values of a list for which a bitmap is worth making.
const VALUES_LEAST: usize = 4;
/// Bits that a bitmap may have.
const BITS_MOST: u64 = 1 << 23;

/// A list of integers.
#[derive(Clone, Debug)]
pub(crate) struct Members {
    least: i64,
    bits: Arc<[u64]>,
}

impl Members {
    /// The list of `column IN (constants)`; `None` for other expressions, and for lists whose values lie too far
    /// apart.
    pub(crate) fn of(expr: &Arc<dyn PhysicalExpr>) -> Option<Members> {
        let list = expr.downcast_ref::<InListExpr>().filter(|list| !list.negated())?;
        list.expr().downcast_ref::<Column>()?;
        if list.len() < VALUES_LEAST {
            return None;
        }
        let value = |constant: &Arc<dyn PhysicalExpr>| {
            Some(match constant.downcast_ref::<Literal>()?.value() {
                ScalarValue::Int16(value) => i64::from((*value)?),
                ScalarValue::Int32(value) | ScalarValue::Date32(value) => i64::from((*value)?),
                ScalarValue::Int64(value) => (*value)?,
                _ => return None,
            })
        };
        let values: Vec<i64> = list.list().iter().map(value).collect::<Option<_>>()?;
        let (least, greatest) = (*values.iter().min()?, *values.iter().max()?);
        let span = greatest.abs_diff(least) + 1;
        if span > BITS_MOST {
            return None;
        }
        let mut bits = vec![0_u64; span.div_ceil(64) as usize];
        for value in values {
            let place = value.abs_diff(least);
            bits[(place / 64) as usize] |= 1 << (place % 64);
        }
        Some(Members { least, bits: bits.into() })
    }

    /// Whether no value of a zone is in the list.
    pub(crate) fn answer(&self, (least, greatest): (i64, i64)) -> Answer {
        let last = self.least.saturating_add(self.bits.len() as i64 * 64 - 1);
        match least > greatest || greatest < self.least || least > last {
            true => Answer::None,
            false => Answer::Of,
        }
    }

    /// Which values are in the list; NULL is not. `None` for values of another type.
    pub(crate) fn hold(&self, values: &ArrayRef) -> Option<BooleanArray> {
        Some(match values.data_type() {
            DataType::Int16 => self.held(values.as_primitive::<Int16Type>()),
            DataType::Int32 => self.held(values.as_primitive::<Int32Type>()),
            DataType::Int64 => self.held(values.as_primitive::<Int64Type>()),
            DataType::Date32 => self.held(values.as_primitive::<Date32Type>()),
            _ => return None,
        })
    }

    fn held<T: ArrowPrimitiveType<Native: Into<i64>>>(
        &self,
        values: &PrimitiveArray<T>,
    ) -> BooleanArray {
        let numbers = values.values();
        let held = BooleanBuffer::collect_bool(numbers.len(), |row| {
            let number: i64 = numbers[row].into();
            // Wraps to more than any bitmap has bits for what lies before it.
            let place = number.wrapping_sub(self.least) as u64;
            let word = self.bits.get((place / 64) as usize).copied().unwrap_or(0);
            word >> (place % 64) & 1 == 1
        });
        let held = match values.nulls() {
            Some(nulls) => &held & nulls.inner(),
            None => held,
        };
        BooleanArray::new(held, None)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, Int64Array, RecordBatch};
    use arrow::compute::prep_null_mask_filter;
    use arrow::datatypes::{Field, Schema};
    use datafusion::physical_expr::expressions::{in_list, lit};
    use halcyon_base::rng::Rng;

    use super::*;

    #[test]
    fn a_bitmap_answers_as_a_list_does() {
        let mut rng = Rng::new(3);
        let edges = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];
        for case in 0..400 {
            let (wide, around) = (rng.chance(1, 2), *rng.pick(&edges));
            let around = if wide { around } else { around.clamp(-40, 40) };
            let near = |rng: &mut Rng| match rng.chance(1, 10) {
                true if wide => *rng.pick(&edges),
                _ => around.saturating_add(rng.below(400) as i64 - 200),
            };
            let values: Vec<Option<i64>> =
                (0..200).map(|_| (!rng.chance(1, 9)).then(|| near(&mut rng))).collect();
            let column: ArrayRef = match wide {
                true => Arc::new(Int64Array::from(values)),
                false => Arc::new(Int32Array::from_iter(
                    values.into_iter().map(|value| value.map(|value| value as i32)),
                )),
            };
            let schema = Schema::new(vec![Field::new("a", column.data_type().clone(), true)]);
            let constant = |rng: &mut Rng| -> Arc<dyn PhysicalExpr> {
                let value = around.saturating_add(rng.below(300) as i64 - 150);
                if wide { lit(value) } else { lit(value as i32) }
            };
            let constants = (0..4 + rng.below(30)).map(|_| constant(&mut rng)).collect();
            let place: Arc<dyn PhysicalExpr> = Arc::new(Column::new("a", 0));
            let list = in_list(place, constants, &false, &schema).expect("of one type");
            let members = Members::of(&list).expect("near each other");
            let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::clone(&column)]);
            let held = list.evaluate(&batch.expect("alike")).and_then(|held| held.into_array(200));
            let expected = prep_null_mask_filter(held.expect("evaluated").as_boolean());
            assert_eq!(members.hold(&column).expect("integers"), expected, "case {case}: {list}");
            for (at, is_in) in expected.values().iter().enumerate().filter(|_| wide) {
                let value = column.as_primitive::<Int64Type>().value(at);
                assert!(!is_in || members.answer((value, value)) == Answer::Of);
            }
        }
    }
}
