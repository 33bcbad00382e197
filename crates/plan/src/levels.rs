//! The query that an aggregate belongs to.
//!
//! SQL gives an aggregate to the innermost query that has one of the columns in its arguments:
//! `(SELECT count(o.id) FROM i)` counts rows of the surrounding query. DataFusion's planner gives
//! it to the query in which it is written.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{Expr, LogicalPlan};

use halcyon_sql::diagnose::external;
use halcyon_sql::error::SqlError;

/// Refuses aggregates whose arguments have columns of outer queries alone. Errors: 0A000.
pub(crate) fn aggregates_are_own(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Aggregate(aggregate) = node {
            let own = aggregate.input.schema();
            aggregate.aggr_expr.iter().try_for_each(|call| is_own(call, own))?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// `rows`: the columns of the query in which the aggregate is written.
fn is_own(aggregate: &Expr, rows: &DFSchema) -> Result<()> {
    // SQL has no such aggregate; a statement over system tables is rewritten to it, in the query that it belongs to.
    if matches!(aggregate, Expr::AggregateFunction(call) if call.func.name() == "first_value") {
        return Ok(());
    }
    let (mut own, mut outer) = (false, false);
    aggregate.apply(|expr| {
        match expr {
            Expr::Column(_) => own = true,
            Expr::OuterReferenceColumn(..) => outer = true,
            // The columns that a subquery within the arguments has of the queries around it count as well.
            Expr::ScalarSubquery(subquery)
            | Expr::Exists(Exists { subquery, .. })
            | Expr::InSubquery(InSubquery { subquery, .. }) => {
                for reference in &subquery.outer_ref_columns {
                    if let Expr::OuterReferenceColumn(_, column) = reference {
                        let is_of_rows = rows.has_column(column);
                        (own, outer) = (own || is_of_rows, outer || !is_of_rows);
                    }
                }
            }
            _ => {}
        }
        Ok::<_, DataFusionError>(TreeNodeRecursion::Continue)
    })?;
    if outer && !own {
        return Err(external(
            SqlError::unsupported("an aggregate of columns of an outer query")
                .detail("It belongs to the query whose columns it aggregates.")
                .hint("Compute it in a subquery in FROM of the outer query."),
        ));
    }
    Ok(())
}
