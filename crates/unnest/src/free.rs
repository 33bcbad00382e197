//! The references to outer queries that a plan leaves open, and their replacement.
//!
//! A reference names a column of the nearest enclosing query that has it: the input of the node
//! whose expression contains the subquery binds it, and subqueries nested deeper cannot see past
//! that.

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};

/// The subquery that an expression itself is, apart from its operands.
pub fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) => Some(subquery),
        _ => None,
    }
}

/// Whether a subquery stands anywhere in an expression.
pub fn holds_subquery(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(subquery_of(expr).is_some())).expect("nothing here fails")
}

/// Whether an expression names a column of an outer query; references within its subqueries do not
/// count.
pub fn holds_outer(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(matches!(expr, Expr::OuterReferenceColumn(..))))
        .expect("nothing here fails")
}

/// Columns that the expressions of a node may name.
fn scope(node: &LogicalPlan) -> DFSchema {
    merge_schema(&node.inputs())
}

/// Calls `found` for every reference that nothing within `plan` binds; `bound`: the scopes in
/// between.
fn visit(
    plan: &LogicalPlan,
    bound: &mut Vec<DFSchema>,
    found: &mut dyn FnMut(&FieldRef, &Column),
) -> Result<()> {
    plan.apply_expressions(|expr| {
        expr.apply(|expr| {
            if let Expr::OuterReferenceColumn(field, column) = expr
                && !bound.iter().any(|scope| scope.has_column(column))
            {
                found(field, column);
            }
            if let Some(subquery) = subquery_of(expr) {
                bound.push(scope(plan));
                visit(&subquery.subquery, bound, found)?;
                bound.pop();
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    // A LATERAL right side of a join sees the join's left side.
    if let LogicalPlan::Join(join) = plan {
        visit(&join.left, bound, found)?;
        bound.push(join.left.schema().as_ref().clone());
        visit(&join.right, bound, found)?;
        bound.pop();
        return Ok(());
    }
    plan.inputs().into_iter().try_for_each(|input| visit(input, bound, found))
}

/// The references that `plan` leaves open, each column once.
pub fn open_references(plan: &LogicalPlan) -> Result<Vec<(FieldRef, Column)>> {
    let mut open: Vec<(FieldRef, Column)> = Vec::new();
    visit(plan, &mut Vec::new(), &mut |field, column| {
        if !open.iter().any(|(_, known)| known == column) {
            open.push((Arc::clone(field), column.clone()));
        }
    })?;
    Ok(open)
}

/// Replaces open references in an expression of a node over `input`: at their place by columns, in
/// nested subqueries by references to these columns.
pub fn replace(
    expr: Expr,
    input: &DFSchema,
    with: &dyn Fn(&Column) -> Option<Column>,
) -> Result<Expr> {
    expr.transform_down(|expr| match expr {
        Expr::OuterReferenceColumn(field, column) => Ok(match with(&column) {
            Some(column) => Transformed::yes(Expr::Column(column)),
            None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
        }),
        other => nested(other, &mut vec![input.clone()], with),
    })
    .data()
}

/// Replaces open references in the subquery that `expr` itself is; its own operand is left alone.
fn nested(
    expr: Expr,
    bound: &mut Vec<DFSchema>,
    with: &dyn Fn(&Column) -> Option<Column>,
) -> Result<Transformed<Expr>> {
    let mut renew = |subquery: Subquery| -> Result<Subquery> {
        let plan = renamed(Arc::unwrap_or_clone(subquery.subquery), bound, with)?;
        let outer_ref_columns = plan.all_out_ref_exprs();
        Ok(Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: subquery.spans })
    };
    Ok(Transformed::yes(match expr {
        Expr::ScalarSubquery(subquery) => Expr::ScalarSubquery(renew(subquery)?),
        Expr::Exists(Exists { subquery, negated }) => {
            Expr::Exists(Exists { subquery: renew(subquery)?, negated })
        }
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            Expr::InSubquery(InSubquery { expr, subquery: renew(subquery)?, negated })
        }
        Expr::SetComparison(comparison) => {
            let subquery = renew(comparison.subquery)?;
            Expr::SetComparison(SetComparison { subquery, ..comparison })
        }
        other => return Ok(Transformed::no(other)),
    }))
}

fn renamed(
    plan: LogicalPlan,
    bound: &mut Vec<DFSchema>,
    with: &dyn Fn(&Column) -> Option<Column>,
) -> Result<LogicalPlan> {
    plan.transform_up(|node| {
        let own = scope(&node);
        // Nodes above name what a node computes by its text, which has the reference in it.
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let renamed = expr.transform_down(|expr| match expr {
                Expr::OuterReferenceColumn(field, column) => {
                    let open = !bound.iter().any(|scope| scope.has_column(&column));
                    Ok(match with(&column).filter(|_| open) {
                        Some(column) => Transformed::yes(Expr::OuterReferenceColumn(field, column)),
                        None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
                    })
                }
                other => {
                    bound.push(own.clone());
                    let other = nested(other, bound, with);
                    bound.pop();
                    other
                }
            })?;
            Ok(renamed.update_data(|expr| name.restore(expr)))
        })
    })
    .data()
}
