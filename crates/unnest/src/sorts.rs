//! Subqueries by which rows are ordered: `SELECT s FROM t ORDER BY (SELECT count(*) FROM u WHERE u.t = t.id)`.
//!
//! Such a subquery may name columns that the SELECT does not give, and DataFusion joins none to a sort. So it becomes
//! a column of the SELECT, which is left out behind the sort.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Sort};

/// Moves subqueries from sorts into the SELECT below. For a plan as DataFusion's planner made it.
pub fn with_subqueries_below_sorts(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Sort(sort) => match sort.input.as_ref() {
            LogicalPlan::Projection(select)
                if sort.expr.iter().any(|by| has_subquery(&by.expr)) =>
            {
                let select = select.clone();
                moved(sort, select).map(Transformed::yes)
            }
            _ => Ok(Transformed::no(LogicalPlan::Sort(sort))),
        },
        other => Ok(Transformed::no(other)),
    })
    .data()
}

/// Whether an expression has a subquery in any place.
pub(crate) fn has_subquery(expr: &Expr) -> bool {
    let found = expr.exists(|part| {
        Ok(matches!(
            part,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
        ))
    });
    found.unwrap_or(false)
}

fn moved(sort: Sort, select: Projection) -> Result<LogicalPlan> {
    let Sort { expr: mut order, fetch, .. } = sort;
    let given: Vec<Expr> = select.schema.columns().into_iter().map(Expr::Column).collect();
    let (mut items, input) = (select.expr, select.input);
    for (at, by) in order.iter_mut().enumerate().filter(|(_, by)| has_subquery(&by.expr)) {
        // No statement has such a name.
        let name = format!("order{at}\u{1}");
        // Columns of the SELECT by which a key is computed are what they stand for.
        let key = std::mem::take(&mut by.expr).transform_up(|part| {
            let Expr::Column(column) = &part else { return Ok(Transformed::no(part)) };
            let place = select.schema.maybe_index_of_column(column);
            Ok(match place {
                Some(place) => Transformed::yes(items[place].clone().unalias()),
                None => Transformed::no(part),
            })
        });
        items.push(key.data()?.alias(&name));
        by.expr = Expr::Column(Column::from_name(name));
    }
    let below = Projection::try_new(items, input)?;
    let sorted = Sort { expr: order, input: Arc::new(LogicalPlan::Projection(below)), fetch };
    Projection::try_new(given, Arc::new(LogicalPlan::Sort(sorted))).map(LogicalPlan::Projection)
}
