//! Plans whose functions wait: for time to pass, or for other sessions.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use halcyon_plan::execution;

/// Whether a plan waits: it calls functions that do.
pub(crate) fn has_waits(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let _ = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                found |=
                    matches!(expr, Expr::ScalarFunction(call) if execution::waits(call.name()));
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    found
}
