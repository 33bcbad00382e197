//! What a condition says of a segment whose values are known to lie in a zone: that it is true of none of them, or of
//! all, so that no row is looked at.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};

/// A comparison of a column with a constant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    op: Operator,
    constant: i64,
}

/// Of how many values of a zone a condition is true.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Answer {
    Of,
    None,
    All,
}

impl Bound {
    /// The comparison that an expression is; `None` for others, and for values that are no 64-bit numbers in the
    /// same unit.
    pub(crate) fn of(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Bound> {
        use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        let comparison = expr.downcast_ref::<BinaryExpr>()?;
        if !matches!(comparison.op(), Eq | NotEq | Lt | LtEq | Gt | GtEq) {
            return None;
        }
        let column = comparison.left().downcast_ref::<Column>()?;
        let constant = comparison.right().downcast_ref::<Literal>()?.value();
        if schema.field(column.index()).data_type() != &constant.data_type() {
            return None;
        }
        let constant = match constant {
            ScalarValue::Int16(value) => i64::from((*value)?),
            ScalarValue::Int32(value) | ScalarValue::Date32(value) => i64::from((*value)?),
            ScalarValue::Int64(value)
            | ScalarValue::Time64Microsecond(value)
            | ScalarValue::TimestampMicrosecond(value, _) => (*value)?,
            ScalarValue::Decimal128(value, ..) => i64::try_from((*value)?).ok()?,
            _ => return None,
        };
        Some(Bound { op: *comparison.op(), constant })
    }

    /// Of which of the values between `least` and `greatest` the comparison is true.
    pub(crate) fn answer(self, (least, greatest): (i64, i64)) -> Answer {
        use Operator::{Eq, Gt, GtEq, Lt, LtEq};
        if least > greatest {
            return Answer::None;
        }
        let constant = self.constant;
        let is_outside = constant < least || constant > greatest;
        let is_only = least == constant && greatest == constant;
        let (none, all) = match self.op {
            Eq => (is_outside, is_only),
            Lt => (least >= constant, greatest < constant),
            LtEq => (least > constant, greatest <= constant),
            Gt => (greatest <= constant, least > constant),
            GtEq => (greatest < constant, least >= constant),
            _ => (is_only, is_outside),
        };
        match (none, all) {
            (true, _) => Answer::None,
            (_, true) => Answer::All,
            _ => Answer::Of,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_answered_as_its_values_are() {
        use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        for op in [Eq, NotEq, Lt, LtEq, Gt, GtEq] {
            for constant in -3..=3 {
                let holds = |value: i64| match op {
                    Eq => value == constant,
                    NotEq => value != constant,
                    Lt => value < constant,
                    LtEq => value <= constant,
                    Gt => value > constant,
                    _ => value >= constant,
                };
                for least in -3..=3 {
                    for greatest in least..=3 {
                        let answer = Bound { op, constant }.answer((least, greatest));
                        let mut values = least..=greatest;
                        match answer {
                            Answer::None => assert!(!values.any(holds)),
                            Answer::All => assert!(values.all(holds)),
                            // Ends of a zone are values.
                            Answer::Of => assert!(
                                greatest - least > 1 && op != Gt && op != Lt
                                    || holds(least) != holds(greatest)
                                    || matches!(op, Eq | NotEq)
                            ),
                        }
                    }
                }
                assert_eq!(Bound { op, constant }.answer((1, 0)), Answer::None);
            }
        }
    }
}
