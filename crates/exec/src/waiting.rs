//! Plans whose functions wait: for time to pass, or for other sessions.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use halcyon_plan::execution;

use halcyon_plan::repeatable::calls;

/// Whether a plan waits: it calls functions that do.
pub(crate) fn has_waits(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let _ = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= calls(expr, execution::waits);
            Ok(TreeNodeRecursion::Continue)
        })
    });
    found
}
