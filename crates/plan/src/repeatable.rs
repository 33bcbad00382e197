//! Plans that may run once more, because a run in vain leaves no trace.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use halcyon_scan::provider::{is_target, table_of};

use crate::effects_last::has_effects;

/// Whether a plan reads tables alone, none of which is written by its rows, and calls no function that has an effect or
/// gives another value each time.
pub fn may_run_twice(plan: &LogicalPlan) -> bool {
    let mut may = true;
    let _ = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            may &= table_of(&scan.source).is_some() && !is_target(&scan.source.schema());
        }
        node.apply_expressions(|expr| {
            may &= !expr.is_volatile();
            may &= !calls(expr, has_effects);
            Ok(TreeNodeRecursion::Continue)
        })
    });
    may
}

/// Whether an expression calls a function whose name is `wanted`.
pub fn calls(expr: &Expr, wanted: impl Fn(&str) -> bool) -> bool {
    let is_call = |expr: &Expr| matches!(expr, Expr::ScalarFunction(call) if wanted(call.name()));
    expr.exists(|expr| Ok(is_call(expr))).unwrap_or(true)
}
