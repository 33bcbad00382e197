//! The calls of window functions as a plan runs them.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, WindowFunctionDefinition};

use crate::corrected::watched;
use crate::excluding::with_exclusion;

/// A plan in which aggregates over windows look whether the statement is to end, and frames exclude what they say.
pub fn with_own_windows(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Window(window) = &node else { return Ok(Transformed::no(node)) };
        let schema = Arc::clone(window.input.schema());
        node.map_expressions(|expr| {
            let name = expr.schema_name().to_string();
            let own = expr.transform_up(|expr| own_call(expr, &schema))?;
            own.map_data(|expr| expr.alias_if_changed(name))
        })
    })
    .data()
}

fn own_call(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(call) = expr else { return Ok(Transformed::no(expr)) };
    let mut call = with_exclusion(*call, schema)?;
    if let WindowFunctionDefinition::AggregateUDF(function) = &call.fun {
        call.fun = WindowFunctionDefinition::AggregateUDF(watched(function));
    }
    Ok(Transformed::yes(Expr::from(call)))
}
