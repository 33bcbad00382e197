//! Bounds of LIMIT and OFFSET that are known once parameters have their values.

use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, Limit, LogicalPlan};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

/// A LIMIT with numbers for bounds, which is all that DataFusion plans; other nodes stay.
pub(crate) fn computed(node: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Limit(Limit { skip, fetch, input }) = node else { return Ok(node) };
    let number = |bound: Option<Box<Expr>>| match bound {
        Some(bound) if !matches!(*bound, Expr::Literal(ScalarValue::Int64(_), _)) => {
            let simplifier = ExprSimplifier::new(SimplifyContext::builder().build());
            let value = simplifier.simplify(*bound)?;
            Ok::<_, datafusion::common::DataFusionError>(Some(Box::new(match value {
                Expr::Literal(value, _) => Expr::Literal(value.cast_to(&DataType::Int64)?, None),
                other => other,
            })))
        }
        other => Ok(other),
    };
    let (skip, fetch) = (number(skip)?, number(fetch)?);
    Ok(LogicalPlan::Limit(Limit { skip, fetch, input }))
}
