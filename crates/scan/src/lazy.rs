//! AND and OR that look at their right side only where the left one leaves the answer open.
//!
//! `a <> 0 AND 10 / a > 1`, `a = 0 OR 10 / a > 1` and `s ~ '^[0-9]+$' AND s::int > 5` are how people keep an expression from
//! values for which it has none. PostgreSQL evaluates them row by row from the left, and promises nothing. Here
//! conditions are evaluated over whole batches, both sides of an operator alike, but for those whose right side may
//! fail ([`may_fail`]): that side is evaluated over the rows that need it.
//!
//! Invariant, checked by `a_side_is_evaluated_where_it_is_open` and by `lazy.slt` on every executor: what stands behind AND, OR or CASE fails for no row that what stands before has
//! decided. Cost where it applies: a copy of the rows that are left.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::compute::kernels::boolean::{and_kleene, or_kleene};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

/// Functions that have a value for every argument.
const SAFE: [&str; 44] = [
    "->",
    "->>",
    "abs",
    "ascii",
    "bit_length",
    "btrim",
    "cardinality",
    "character_length",
    "coalesce",
    "concat",
    "concat_ws",
    "current_date",
    "date_part",
    "date_trunc",
    "extract",
    "floor",
    "greatest",
    "ilike",
    "initcap",
    "least",
    "left",
    "length",
    "like",
    "localtimestamp",
    "lower",
    "ltrim",
    "md5",
    "now",
    "nullif",
    "octet_length",
    "position",
    "regexp_like",
    "replace",
    "reverse",
    "right",
    "rtrim",
    "split_part",
    "starts_with",
    "strpos",
    "to_hex",
    "trim",
    "upper",
    "ceil",
    "sign",
];

/// Whether a function of this name is known to have a value for every argument.
pub fn has_value_for_all(function: &str) -> bool {
    SAFE.contains(&function)
}

/// Whether an expression may have an error instead of a value: divisions, arithmetic, casts from texts and functions that
/// are not known to have a value for every argument.
pub fn may_fail(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let fails = |part: &Arc<dyn PhysicalExpr>| {
        if let Some(call) = part.downcast_ref::<ScalarFunctionExpr>() {
            return Ok(!has_value_for_all(call.fun().name()));
        }
        if let Some(operation) = part.downcast_ref::<BinaryExpr>() {
            use Operator::{Divide, Minus, Modulo, Multiply, Plus};
            return Ok(match operation.op() {
                Divide | Modulo => operation.right().downcast_ref::<Literal>().is_none(),
                Plus | Minus | Multiply => true,
                _ => false,
            });
        }
        Ok(part.downcast_ref::<CastExpr>().is_some_and(|cast| {
            use DataType::{LargeUtf8, Utf8, Utf8View};
            !matches!(cast.cast_type(), Utf8 | Utf8View | LargeUtf8)
        }))
    };
    expr.exists(fails).expect("the closure does not fail")
}

/// The expression with AND and OR made lazy where their right side may fail.
pub fn lazily(expr: &Arc<dyn PhysicalExpr>) -> Result<Transformed<Arc<dyn PhysicalExpr>>> {
    Arc::clone(expr).transform_up(|part| {
        let lazy = part.downcast_ref::<BinaryExpr>().and_then(|operation| {
            let is_and = match operation.op() {
                Operator::And => true,
                Operator::Or => false,
                _ => return None,
            };
            let (left, right) = (operation.left(), operation.right());
            may_fail(right).then(|| Lazy {
                left: Arc::clone(left),
                right: Arc::clone(right),
                is_and,
            })
        });
        Ok(match lazy {
            Some(lazy) => Transformed::yes(Arc::new(lazy) as _),
            None => Transformed::no(part),
        })
    })
}

/// `left AND right`, whose right side is evaluated where the left one is not false.
pub fn and(left: Arc<dyn PhysicalExpr>, right: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    Arc::new(Lazy { left, right, is_and: true })
}

/// The conditions that are joined by AND, from the left to the right.
pub fn conjuncts(condition: &Arc<dyn PhysicalExpr>) -> Vec<Arc<dyn PhysicalExpr>> {
    let (mut open, mut all) = (vec![condition], Vec::new());
    while let Some(part) = open.pop() {
        let plain = part.downcast_ref::<BinaryExpr>().filter(|part| *part.op() == Operator::And);
        let lazy = part.downcast_ref::<Lazy>().filter(|part| part.is_and);
        match (plain, lazy) {
            (Some(both), _) => open.extend([both.right(), both.left()]),
            (None, Some(both)) => open.extend([&both.right, &both.left]),
            (None, None) => all.push(Arc::clone(part)),
        }
    }
    all
}

/// `left AND right` or `left OR right`.
#[derive(Debug, Eq)]
struct Lazy {
    left: Arc<dyn PhysicalExpr>,
    right: Arc<dyn PhysicalExpr>,
    is_and: bool,
}

impl PartialEq for Lazy {
    fn eq(&self, other: &Self) -> bool {
        self.is_and == other.is_and && self.left.eq(&other.left) && self.right.eq(&other.right)
    }
}

impl Hash for Lazy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.left.hash(state);
        self.right.hash(state);
        self.is_and.hash(state);
    }
}

impl fmt::Display for Lazy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.is_and { "AND" } else { "OR" };
        write!(f, "({} {name} {})", self.left, self.right)
    }
}

impl PhysicalExpr for Lazy {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        Ok(self.left.nullable(schema)? || self.right.nullable(schema)?)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let rows = batch.num_rows();
        let truth = |value: ColumnarValue| -> Result<BooleanArray> {
            let array = value.into_array(rows)?;
            let truth = array.as_boolean_opt().cloned();
            truth.ok_or_else(|| {
                internal_datafusion_err!("a condition is of type {}", array.data_type())
            })
        };
        let left = truth(self.left.evaluate(batch)?)?;
        // Decided is what is false before AND, and what is true before OR; NULL decides nothing.
        let open: BooleanArray = left.iter().map(|left| Some(left != Some(!self.is_and))).collect();
        if open.true_count() == 0 {
            return Ok(ColumnarValue::Array(Arc::new(left)));
        }
        let right = truth(self.right.evaluate_selection(batch, &open)?)?;
        let both = if self.is_and { and_kleene(&left, &right) } else { or_kleene(&left, &right) };
        Ok(ColumnarValue::Array(Arc::new(both?)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.left, &self.right]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let [left, right] = &children[..] else {
            return Err(internal_datafusion_err!("an operator has two sides"));
        };
        Ok(Arc::new(Lazy { left: Arc::clone(left), right: Arc::clone(right), is_and: self.is_and }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int32Array;
    use arrow::datatypes::Field;
    use datafusion::physical_expr::expressions::{binary, col, lit};

    use super::*;

    #[test]
    fn a_side_is_evaluated_where_it_is_open() {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, true)]));
        let column = Int32Array::from(vec![Some(0), Some(5), None, Some(10)]);
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(column)]).unwrap();
        let of = |left, operator, right| binary(left, operator, right, &schema).unwrap();
        let a = || col("a", &schema).unwrap();
        let is_zero = || of(a(), Operator::Eq, lit(0));
        let quotient = || of(of(lit(10), Operator::Divide, a()), Operator::Gt, lit(1));
        let not_zero = of(a(), Operator::NotEq, lit(0));
        let cases = [
            (of(not_zero, Operator::And, quotient()), [Some(false), Some(true), None, Some(false)]),
            (of(is_zero(), Operator::Or, quotient()), [Some(true), Some(true), None, Some(false)]),
            (of(lit(false), Operator::And, quotient()), [Some(false); 4]),
            (of(lit(true), Operator::Or, quotient()), [Some(true); 4]),
        ];
        for (plain, expected) in cases {
            let lazy = lazily(&plain).unwrap();
            assert!(lazy.transformed && may_fail(&plain), "{plain}");
            let found = lazy.data.evaluate(&batch).unwrap().into_array(4).unwrap();
            assert_eq!(found.as_boolean(), &BooleanArray::from(expected.to_vec()), "{plain}");
        }
        // What decides nothing leaves the error.
        let open = of(lit(true), Operator::And, quotient());
        assert!(lazily(&open).unwrap().data.evaluate(&batch).is_err());
        let safe = of(is_zero(), Operator::Or, of(a(), Operator::Lt, lit(3)));
        assert!(!lazily(&safe).unwrap().transformed && !may_fail(&safe));
    }
}
