//! `ORDER BY random() * weight`: a key that differs with each evaluation is computed once for a row, ahead of the sort.
//!
//! A merge of sorted parts would evaluate such a key again, and find another order than the sorts. A sort of rows of which
//! nobody wants a column has one then.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr::Sort as SortExpr;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Sort};

/// The plan with such keys as columns below its sorts.
pub fn keys_computed_once(plan: LogicalPlan) -> Result<LogicalPlan> {
    let computed = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Sort(sort) if sort.expr.iter().any(|key| key.expr.is_volatile()) => {
            computed(sort).map(Transformed::yes)
        }
        node => Ok(Transformed::no(node)),
    });
    computed.data()
}

fn computed(sort: Sort) -> Result<LogicalPlan> {
    let Sort { expr, input, fetch } = sort;
    let own: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    let mut columns = own.clone();
    let mut key = |(at, key): (usize, SortExpr)| {
        if !key.expr.is_volatile() {
            return key;
        }
        // No text has such a name.
        let name = format!("key\u{1}{at}");
        columns.push(key.expr.alias(&name));
        SortExpr { expr: Expr::Column(Column::new_unqualified(name)), ..key }
    };
    let expr = expr.into_iter().enumerate().map(&mut key).collect();
    let input = Arc::new(LogicalPlan::Projection(Projection::try_new(columns, input)?));
    let sorted = Arc::new(LogicalPlan::Sort(Sort { expr, input, fetch }));
    Projection::try_new(own, sorted).map(LogicalPlan::Projection)
}
