//! `EXCEPT ALL` and `INTERSECT ALL`, which depend on how many copies of a row there are.
//!
//! DataFusion plans both as joins that test whether a row exists at all. Here equal rows of each
//! side are numbered, and the number is one more key: INTERSECT ALL keeps the third copy of a row,
//! and EXCEPT ALL drops it, if the other side has a third copy.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, Join, JoinConstraint, LogicalPlan, Projection, Window,
};

/// Names of the number columns of both sides, which no statement has.
const COPIES: [&str; 2] = ["left copy\u{1}", "right copy\u{1}"];

/// Makes set operations with ALL count copies. For a plan as DataFusion's planner made it: in such
/// a plan, joins that take NULLs as equal are set operations, and those without ALL have no copies
/// on their left side.
pub(crate) fn with_copies_counted(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| match crate::interrupts::go_on().map(|()| node)? {
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
