//! VALUES with subqueries among their cells: `FROM (VALUES ((SELECT max(a) FROM t)), (2)) AS v (a)`.
//!
//! DataFusion computes such rows when the plan is made, before any subquery has run. So each row becomes a SELECT without FROM.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{EmptyRelation, Expr, LogicalPlan, LogicalPlanBuilder, Values};

/// Writes VALUES with subqueries as UNION ALL. For a plan as DataFusion's planner made it.
pub fn with_rows_selected(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Values(values) if has_subquery(&values) => {
            selected(values).map(Transformed::yes)
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}

fn has_subquery(values: &Values) -> bool {
    let is_subquery = |part: &Expr| {
        Ok(matches!(
            part,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
        ))
    };
    values.values.iter().flatten().any(|cell| cell.exists(is_subquery).unwrap_or(false))
}

fn selected(values: Values) -> Result<LogicalPlan> {
    let names: Vec<_> = values.schema.fields().iter().map(|field| field.name().clone()).collect();
    let mut all: Option<LogicalPlanBuilder> = None;
    for row in values.values {
        let one = LogicalPlan::EmptyRelation(EmptyRelation {
            produce_one_row: true,
            schema: Arc::new(DFSchema::empty()),
        });
        let cells = row.into_iter().zip(&names).map(|(cell, name)| cell.alias(name));
        let row = LogicalPlanBuilder::from(one).project(cells)?;
        all = Some(match all {
            Some(rows) => rows.union(row.build()?)?,
            None => row,
        });
    }
    all.expect("VALUES have a row").build()
}
