//! Comparisons of dates with moments, turned into comparisons of dates.
//!
//! `l_shipdate < date '1994-01-01' + interval '1' year` compares a date with a timestamp, because
//! that is what a date plus an interval is. PostgreSQL's rules make a timestamp of every date in
//! the column. As the other side is a constant, it can become a date instead: the comparison is
//! half as wide, and the scan's array is compared as it is, without a copy.
//!
//! Where the constant is no midnight, the day it lies in decides: `day < 12:00 of d` is
//! `day <= d`, `day >= 12:00 of d` is `day > d`, and equality is left as it is.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use halcyon_value::calendar::{day_of, time_of};
use halcyon_value::compare::Compare;

/// The rule; it reads the results of constant folding, so it runs after it.
#[derive(Debug, Default)]
pub(crate) struct CompareAsDates;

impl OptimizerRule for CompareAsDates {
    fn name(&self) -> &str {
        "compare_as_dates"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let names = NamePreserver::new(&plan);
        let schema = merge_schema(&plan.inputs());
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let expr = expr.transform_up(|expr| {
                Ok(match as_dates(&expr, &schema) {
                    Some(dates) => Transformed::yes(dates),
                    None => Transformed::no(expr),
                })
            })?;
            Ok(expr.update_data(|expr| name.restore(expr)))
        })
    }
}

/// The equivalent comparison of dates, if `expr` compares a date with a moment.
fn as_dates(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
    let (date, op, us) = match (cast_date(left, schema), cast_date(right, schema)) {
        (Some(date), None) => (date, *op, moment(right)?),
        (None, Some(date)) => (date, op.swap()?, moment(left)?),
        _ => return None,
    };
    let (op, day) = bound(op, us)?;
    let day = Expr::Literal(ScalarValue::Date32(Some(day)), None);
    Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(date.clone()), op, Box::new(day))))
}

/// The date beneath a cast to a timestamp without time zone.
fn cast_date<'e>(expr: &'e Expr, schema: &DFSchema) -> Option<&'e Expr> {
    let Expr::Cast(Cast { expr: date, field }) = expr else { return None };
    let DataType::Timestamp(TimeUnit::Microsecond, None) = field.data_type() else { return None };
    (date.get_type(schema).ok()? == DataType::Date32).then_some(date)
}

/// Microseconds since 1970 of a timestamp without time zone.
fn moment(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(ScalarValue::TimestampMicrosecond(Some(us), None), _) => Some(*us),
        _ => None,
    }
}

/// The operator and the day with which a date compares as it does by `op` with the moment `us`.
///
/// None if no day does: for equality with a moment that is no midnight, and for the ends of time.
fn bound(op: Operator, us: i64) -> Option<(Operator, i32)> {
    if us == i64::MAX || us == i64::MIN {
        return None;
    }
    let day = i32::try_from(day_of(us)).ok()?;
    let compare = match op {
        Operator::Lt => Compare::Lt,
        Operator::LtEq => Compare::LtEq,
        Operator::Gt => Compare::Gt,
        Operator::GtEq => Compare::GtEq,
        Operator::Eq => Compare::Eq,
        Operator::NotEq => Compare::NotEq,
        _ => return None,
    };
    let op = match compare.of_days(time_of(us) == 0)? {
        Compare::Lt => Operator::Lt,
        Compare::LtEq => Operator::LtEq,
        Compare::Gt => Operator::Gt,
        Compare::GtEq => Operator::GtEq,
        Compare::Eq => Operator::Eq,
        Compare::NotEq => Operator::NotEq,
    };
    Some((op, day))
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon_value::calendar::DAY_US;

    fn holds(op: Operator, left: i64, right: i64) -> bool {
        match op {
            Operator::Lt => left < right,
            Operator::LtEq => left <= right,
            Operator::Gt => left > right,
            Operator::GtEq => left >= right,
            Operator::Eq => left == right,
            Operator::NotEq => left != right,
            other => panic!("{other} is no comparison"),
        }
    }

    #[test]
    fn days_say_the_same_as_moments() {
        let ops = [
            Operator::Lt,
            Operator::LtEq,
            Operator::Gt,
            Operator::GtEq,
            Operator::Eq,
            Operator::NotEq,
        ];
        for us in [-2 * DAY_US, -DAY_US - 1, -1, 0, 1, DAY_US / 2, DAY_US - 1, DAY_US] {
            for op in ops {
                let Some((day_op, day)) = bound(op, us) else {
                    assert!(matches!(op, Operator::Eq | Operator::NotEq) && us % DAY_US != 0);
                    continue;
                };
                for date in -4..4 {
                    let moments = holds(op, date * DAY_US, us);
                    assert_eq!(holds(day_op, date, i64::from(day)), moments, "{date} {op} {us}");
                }
            }
        }
        assert_eq!(bound(Operator::Lt, i64::MAX), None);
    }
}
