//! Semi-joins and anti-joins are moved below inner joins that only add rows.
//!
//! `FROM orders JOIN lineitem … WHERE o_orderkey IN (…)` keeps rows by columns of orders alone. If
//! the other side of the inner join is not filtered, that join yields at least as many rows as
//! orders has, so it is cheaper to select among the orders first: both joins get smaller. If the
//! other side is filtered, the inner join may be the one that reduces many rows to few, and the
//! statement's order is kept.
//!
//! Why it is right: a semi-join and an anti-join pass or drop each row of their left side by its own
//! columns, and so does a filter; filters commute with inner joins.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, Result};
use datafusion::logical_expr::{Expr, Join, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// The rule; it looks for joins with conditions, so it runs after cross joins have got theirs.
#[derive(Debug, Default)]
pub(crate) struct PushDownSemiJoins;

impl OptimizerRule for PushDownSemiJoins {
    fn name(&self) -> &str {
        "push_down_semi_joins"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(semi) = &plan else { return Ok(Transformed::no(plan)) };
        if !matches!(semi.join_type, JoinType::LeftSemi | JoinType::LeftAnti) {
            return Ok(Transformed::no(plan));
        }
        let columns = outer_columns(semi);
        if columns.is_empty() {
            return Ok(Transformed::no(plan));
        }
        Ok(match sink(semi, &columns, &semi.left)? {
            Some(pushed) => Transformed::yes(pushed),
            None => Transformed::no(plan),
        })
    }
}

/// The columns of its left side that a semi-join depends on.
fn outer_columns(semi: &Join) -> Vec<Column> {
    let on = semi.on.iter().flat_map(|(left, _)| left.column_refs());
    let filter = semi.filter.iter().flat_map(Expr::column_refs);
    on.chain(filter).filter(|column| semi.left.schema().has_column(column)).cloned().collect()
}

/// `plan` with the semi-join somewhere below its root, if that is possible.
fn sink(semi: &Join, columns: &[Column], plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let plain = |expr: &Expr| matches!(expr, Expr::Column(_));
            if !projection.expr.iter().all(plain) {
                return Ok(None);
            }
            let Some(input) = sink(semi, columns, &projection.input)? else { return Ok(None) };
            let again = plan.with_new_exprs(projection.expr.clone(), vec![input])?;
            Ok(Some(again))
        }
        LogicalPlan::Join(inner) if inner.join_type == JoinType::Inner => {
            let has_all =
                |side: &LogicalPlan| columns.iter().all(|column| side.schema().has_column(column));
            let (left, right) = (inner.left.as_ref(), inner.right.as_ref());
            let (left, right) = if has_all(left) && keeps_all(right) {
                (placed(semi, columns, &inner.left)?, right.clone())
            } else if has_all(right) && keeps_all(left) {
                (left.clone(), placed(semi, columns, &inner.right)?)
            } else {
                return Ok(None);
            };
            let mut again = inner.clone();
            (again.left, again.right) = (Arc::new(left), Arc::new(right));
            Ok(Some(LogicalPlan::Join(again)))
        }
        _ => Ok(None),
    }
}

/// The semi-join within `plan` as deep as it goes, or on top of it.
fn placed(semi: &Join, columns: &[Column], plan: &Arc<LogicalPlan>) -> Result<LogicalPlan> {
    if let Some(deeper) = sink(semi, columns, plan)? {
        return Ok(deeper);
    }
    Join::try_new(
        Arc::clone(plan),
        Arc::clone(&semi.right),
        semi.on.clone(),
        semi.filter.clone(),
        semi.join_type,
        semi.join_constraint,
        semi.null_equality,
        semi.null_aware,
    )
    .map(LogicalPlan::Join)
}

/// Whether a side of a join has all rows of its tables: then a join with it reduces rows only where
/// keys have no partner.
fn keeps_all(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => scan.filters.is_empty() && scan.fetch.is_none(),
        LogicalPlan::Projection(projection) => keeps_all(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => keeps_all(&alias.input),
        LogicalPlan::Join(join) => {
            join.join_type == JoinType::Inner
                && join.filter.is_none()
                && keeps_all(&join.left)
                && keeps_all(&join.right)
        }
        _ => false,
    }
}
