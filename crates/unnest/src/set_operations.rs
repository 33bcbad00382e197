//! `EXCEPT ALL` and `INTERSECT ALL`, which depend on how many copies of a row there are; and chains of
//! `UNION ALL` as one union.
//!
//! DataFusion plans `EXCEPT ALL` and `INTERSECT ALL` as joins that test whether a row exists at all. Here equal rows of each
//! side are numbered, and the number is one more key: INTERSECT ALL keeps the third copy of a row,
//! and EXCEPT ALL drops it, if the other side has a third copy.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, JoinType, NullEquality, Result};
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, Join, JoinConstraint, LogicalPlan, Projection, Union, Window,
};
use halcyon_sql::diagnose::external;
use halcyon_sql::error::SqlError;

/// Errors: 57014 if the statement is to end.
fn go_on() -> Result<()> {
    SqlError::unless_interrupted().map_err(external)
}

/// Names of the number columns of both sides, which no statement has.
const COPIES: [&str; 2] = ["left copy\u{1}", "right copy\u{1}"];

/// Makes set operations with ALL count copies. For a plan as DataFusion's planner made it: in such
/// a plan, joins that take NULLs as equal are set operations, and those without ALL have no copies
/// on their left side.
pub fn with_copies_counted(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| match go_on().map(|()| node)? {
        LogicalPlan::Join(join)
            if matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
                && join.null_equality == NullEquality::NullEqualsNull
                && !matches!(join.left.as_ref(), LogicalPlan::Distinct(_)) =>
        {
            counted(join).map(Transformed::yes)
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}

/// Makes one union of unions within unions.
///
/// DataFusion has a rule for that, which does so level by level from within and gives each level's inputs new
/// schemas: in a chain of `n` unions, `n²` times.
pub fn with_flat_unions(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_down(|node| match node {
        LogicalPlan::Union(Union { inputs, schema })
            if inputs.iter().any(|input| inner_union(input, &schema).is_some()) =>
        {
            let mut flat = Vec::new();
            let mut open: Vec<Arc<LogicalPlan>> = inputs.into_iter().rev().collect();
            while let Some(input) = open.pop() {
                match inner_union(&input, &schema) {
                    Some(inner) => open.extend(inner.inputs.iter().rev().cloned()),
                    None => flat.push(input),
                }
            }
            Ok(Transformed::yes(LogicalPlan::Union(Union { inputs: flat, schema })))
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}

/// The union that an input of another is, if its columns have the types of the outer one.
fn inner_union<'p>(input: &'p LogicalPlan, outer: &DFSchema) -> Option<&'p Union> {
    let LogicalPlan::Union(inner) = input else { return None };
    let types = |schema: &'p DFSchema| schema.fields().iter().map(|field| field.data_type());
    types(&inner.schema).eq(outer.fields().iter().map(|field| field.data_type())).then_some(inner)
}

fn counted(join: Join) -> Result<LogicalPlan> {
    let columns = join.left.schema().columns();
    let (left, left_copy) = numbered(&join.left, COPIES[0])?;
    let (right, right_copy) = numbered(&join.right, COPIES[1])?;
    let on = join.on.into_iter().chain([(left_copy, right_copy)]).collect();
    let (kind, nulls) = (join.join_type, join.null_equality);
    let joined = Join::try_new(left, right, on, None, kind, JoinConstraint::On, nulls, false)?;
    let columns = columns.into_iter().map(Expr::Column).collect();
    Projection::try_new(columns, Arc::new(LogicalPlan::Join(joined))).map(LogicalPlan::Projection)
}

/// The rows with a number for each among its equals, and the number's column.
fn numbered(rows: &Arc<LogicalPlan>, name: &str) -> Result<(Arc<LogicalPlan>, Expr)> {
    let all = rows.schema().columns().into_iter().map(Expr::Column).collect();
    let number = row_number().partition_by(all).build()?.alias(name);
    let window = Window::try_new(vec![number], Arc::clone(rows))?;
    let copy = Expr::Column(Column::new_unqualified(name));
    Ok((Arc::new(LogicalPlan::Window(window)), copy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{LogicalPlanBuilder, lit};

    #[test]
    fn a_chain_of_unions_is_one_union_in_the_order_of_its_inputs() {
        let row = |number: i64| {
            let values = LogicalPlanBuilder::values(vec![vec![lit(number)]]).expect("a row");
            values.build().expect("a plan")
        };
        let union = |left: LogicalPlan, right: LogicalPlan| {
            let builder = LogicalPlanBuilder::from(left).union(right).expect("equal types");
            builder.build().expect("a plan")
        };
        let left = union(union(row(0), row(1)), row(2));
        let plan = with_flat_unions(union(left, union(row(3), row(4)))).expect("a plan");
        let LogicalPlan::Union(flat) = plan else { panic!("{plan}") };
        let expected: Vec<String> = (0..5).map(|number| row(number).to_string()).collect();
        let inputs: Vec<String> = flat.inputs.iter().map(ToString::to_string).collect();
        assert_eq!(inputs, expected);
    }
}
