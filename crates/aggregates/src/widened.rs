//! Integers that become decimals to be added up: each value as it is, in 128 bits.
//!
//! `sum` of BIGINT is NUMERIC, so its argument is cast. Arrow's cast multiplies and compares each value; an integer
//! that has room in its type needs neither.
//!
//! The slow twin is Arrow's cast. Invariant, checked by `integers_become_the_decimals_that_a_cast_makes`.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, PrimitiveArray};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Int16Type, Int32Type, Int64Type};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};

/// Digits of the greatest integer of a type; `None` for other types.
fn digits(ty: &DataType) -> Option<u8> {
    match ty {
        DataType::Int16 => Some(5),
        DataType::Int32 => Some(10),
        DataType::Int64 => Some(19),
        _ => None,
    }
}

/// The plan with its casts of integers to decimals with room for them replaced, in what is grouped and added up.
pub fn with_widened_integers(plan: LogicalPlan) -> Result<LogicalPlan> {
    let widened = plan.transform_up_with_subqueries(|node| {
        if !matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Projection(_)) {
            return Ok(Transformed::no(node));
        }
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let new = expr.transform_up(|expr| match expr {
                Expr::Cast(cast) => match has_room(&cast, cast.expr.get_type(&schema)?) {
                    Some(precision) => Ok(Transformed::yes(call(*cast.expr, precision))),
                    None => Ok(Transformed::no(Expr::Cast(cast))),
                },
                other => Ok(Transformed::no(other)),
            })?;
            Ok(new.update_data(|expr| name.restore(expr)))
        })
    });
    widened.data()
}

/// The precision of a cast's type, if every integer of the type `of` has room in it.
fn has_room(cast: &Cast, of: DataType) -> Option<u8> {
    match cast.field.data_type() {
        DataType::Decimal128(precision, 0) => {
            digits(&of).filter(|digits| digits <= precision).map(|_| *precision)
        }
        _ => None,
    }
}

fn call(argument: Expr, precision: u8) -> Expr {
    static FUNCTIONS: LazyLock<Vec<Arc<ScalarUDF>>> = LazyLock::new(|| {
        let function = |precision| {
            let signature = Signature::any(1, Volatility::Immutable);
            Arc::new(ScalarUDF::new_from_impl(Widened { precision, signature }))
        };
        (0..=38).map(function).collect()
    });
    FUNCTIONS[usize::from(precision)].call(vec![argument])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Widened {
    precision: u8,
    signature: Signature,
}

impl ScalarUDFImpl for Widened {
    fn name(&self) -> &str {
        "widened"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal128(self.precision, 0))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = match &args.args[0] {
            ColumnarValue::Array(values) => widened(values, self.precision)?,
            ColumnarValue::Scalar(value) => {
                let one = widened(&value.to_array()?, self.precision)?;
                return ScalarValue::try_from_array(&one, 0).map(ColumnarValue::Scalar);
            }
        };
        Ok(ColumnarValue::Array(values))
    }
}

fn widened(values: &ArrayRef, precision: u8) -> Result<ArrayRef> {
    fn of<T: ArrowPrimitiveType<Native: Into<i128>>>(
        values: &PrimitiveArray<T>,
    ) -> Decimal128Array {
        let wide = values.values().iter().map(|&value| value.into()).collect();
        Decimal128Array::new(wide, values.nulls().cloned())
    }
    let wide = match values.data_type() {
        DataType::Int16 => of(values.as_primitive::<Int16Type>()),
        DataType::Int32 => of(values.as_primitive::<Int32Type>()),
        DataType::Int64 => of(values.as_primitive::<Int64Type>()),
        other => return internal_err!("{other} is no integer to be widened"),
    };
    Ok(Arc::new(wide.with_precision_and_scale(precision, 0)?))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int16Array, Int32Array, Int64Array};
    use arrow::compute::cast;

    use super::*;

    #[test]
    fn integers_become_the_decimals_that_a_cast_makes() {
        let arrays: [(ArrayRef, u8); 4] = [
            (Arc::new(Int16Array::from(vec![Some(i16::MIN), None, Some(7), Some(i16::MAX)])), 5),
            (Arc::new(Int32Array::from(vec![Some(i32::MIN), None, Some(i32::MAX)])), 10),
            (Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX), Some(0)])), 19),
            (Arc::new(Int64Array::from(vec![1, -1])), 38),
        ];
        for (array, precision) in arrays {
            let expected = cast(&array, &DataType::Decimal128(precision, 0)).expect("has room");
            assert_eq!(&widened(&array, precision).expect("an integer"), &expected);
        }
    }
}
