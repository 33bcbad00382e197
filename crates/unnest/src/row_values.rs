//! VALUES with subqueries among their cells: `FROM (VALUES ((SELECT max(a) FROM t)), (2)) AS v (a)`.
//!
//! DataFusion computes such rows when the plan is made, before any subquery has run. So each row becomes a SELECT without FROM.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{EmptyRelation, Expr, LogicalPlan, Projection, Union, Values};

use crate::sorts::has_subquery;

/// The most rows that become SELECTs, as many as arms of a union. More are left as they are, and refused where they run.
const ROWS_MAX: usize = 1_024;

/// Writes VALUES with subqueries as UNION ALL. For a plan as DataFusion's planner made it.
pub fn with_rows_selected(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Values(values)
            if values.values.len() <= ROWS_MAX
                && values.values.iter().flatten().any(has_subquery) =>
        {
            selected(values).map(Transformed::yes)
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}

fn selected(values: Values) -> Result<LogicalPlan> {
    let names: Vec<_> = values.schema.fields().iter().map(|field| field.name().clone()).collect();
    let row = |row: Vec<Expr>| {
        let one = LogicalPlan::EmptyRelation(EmptyRelation {
            produce_one_row: true,
            schema: Arc::new(DFSchema::empty()),
        });
        let cells = row.into_iter().zip(&names).map(|(cell, name)| cell.alias(name));
        Projection::try_new(cells.collect(), Arc::new(one)).map(LogicalPlan::Projection)
    };
    let mut rows = values.values.into_iter().map(row).collect::<Result<Vec<_>>>()?;
    if rows.len() == 1 {
        return Ok(rows.remove(0));
    }
    // Side by side, however many they are.
    let rows = rows.into_iter().map(Arc::new).collect();
    Union::try_new_with_loose_types(rows).map(LogicalPlan::Union)
}
