//! The short way of optimising: for plans that a row-at-a-time executor may take as they are.
//!
//! DataFusion's optimizer goes over a plan with some thirty rules, up to three times, and compares
//! whole plans in between. A look-up by key needs none of the rules for joins and aggregates. A
//! *plain* plan (scans, filters, inner joins, sorting, aggregates, no subquery) gets only the few
//! rules here, each once: constants are folded, dates compared as dates, filters moved to their
//! scans, unused columns dropped. The executor of row-at-a-time plans then tries the result; if it
//! gives up, the full optimizer gets the original plan, so vectorised plans are never made from
//! this one.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// Names of the rules, in their order.
const RULES: &[&str] =
    &["simplify_expressions", "compare_as_dates", "push_down_filter", "optimize_projections"];

/// The rules of the short way.
pub(crate) struct Brief(Vec<Arc<dyn OptimizerRule + Send + Sync>>);

impl Brief {
    /// The rules of the short way among all. Panics if one is missing.
    pub fn of(rules: &[Arc<dyn OptimizerRule + Send + Sync>]) -> Self {
        let named = |name: &&str| {
            let found = rules.iter().find(|rule| rule.name() == *name);
            Arc::clone(found.unwrap_or_else(|| panic!("the optimizer has no rule {name}")))
        };
        Brief(RULES.iter().map(named).collect())
    }

    /// The plan after each rule has been applied once; `None` if the plan is not plain.
    pub fn optimize(
        &self,
        plan: &LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Option<LogicalPlan>> {
        if !is_plain(plan)? {
            return Ok(None);
        }
        let mut plan = plan.clone();
        for rule in &self.0 {
            plan = match rule.apply_order() {
                Some(ApplyOrder::TopDown) => plan.transform_down(|node| rule.rewrite(node, config)),
                Some(ApplyOrder::BottomUp) => plan.transform_up(|node| rule.rewrite(node, config)),
                None => rule.rewrite(plan, config),
            }?
            .data;
        }
        Ok(Some(plan))
    }
}

/// Whether a plan has only nodes that the short way can handle.
fn is_plain(plan: &LogicalPlan) -> Result<bool> {
    let mut plain = true;
    plan.apply(|node| {
        plain &= match node {
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::TableScan(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::EmptyRelation(_) => true,
            LogicalPlan::Join(Join { join_type, null_aware, .. }) => {
                *join_type == JoinType::Inner && !null_aware
            }
            _ => false,
        };
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                let is_subquery = matches!(
                    part,
                    Expr::ScalarSubquery(_)
                        | Expr::InSubquery(_)
                        | Expr::Exists(_)
                        | Expr::SetComparison(_)
                );
                plain &= !is_subquery;
                Ok(if plain { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
            })
        })?;
        Ok(if plain { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(plain)
}
