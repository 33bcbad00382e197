//! What is done to a plan before its subqueries become joins.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{DistinctOn, Expr, LogicalPlan, Subquery};

use super::free::holds_subquery;
use super::optional::optional;
use super::{Names, column, project, surely_has_a_row};

/// Declares the values of scalar subqueries that may have no row as possibly NULL, and so all columns that are
/// made of them.
pub fn with_missing_values(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut changed = false;
    plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        let rewritten = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let new = expr.transform_up(|expr| match expr {
                Expr::ScalarSubquery(subquery) if is_sure_by_mistake(&subquery) => {
                    Ok(Transformed::yes(Expr::ScalarSubquery(may_be_missing(subquery)?)))
                }
                other => Ok(Transformed::no(other)),
            })?;
            Ok(new.update_data(|expr| name.restore(expr)))
        })?;
        changed |= rewritten.transformed;
        match (changed, &rewritten.data) {
            // A scan has no inputs, and a recursive query's terms agree in their types.
            (false, _) | (_, LogicalPlan::TableScan(_) | LogicalPlan::RecursiveQuery(_)) => {
                Ok(rewritten)
            }
            _ => rewritten.map_data(LogicalPlan::recompute_schema),
        }
    })
    .data()
}

fn is_sure_by_mistake(subquery: &Subquery) -> bool {
    let plan = &subquery.subquery;
    !plan.schema().field(0).is_nullable() && !surely_has_a_row(plan)
}

fn may_be_missing(subquery: Subquery) -> Result<Subquery> {
    let plan = subquery.subquery;
    let value = plan.schema().columns().swap_remove(0);
    let shown = optional(column(&value)).alias_qualified(value.relation.clone(), &value.name);
    let plan = Arc::new(project(plan.as_ref().clone(), vec![shown])?);
    Ok(Subquery { subquery: plan, ..subquery })
}

/// DISTINCT ON over columns, with the expressions that hold subqueries computed below.
pub fn computed_below(node: DistinctOn, names: &mut Names) -> Result<LogicalPlan> {
    let mut below: Vec<Expr> =
        node.input.schema().columns().into_iter().map(Expr::Column).collect();
    let mut known: Vec<(Expr, Column)> = Vec::new();
    let mut computed = |expr: Expr| {
        if !holds_subquery(&expr) {
            return expr;
        }
        let saved = NamePreserver::new_for_projection().save(&expr);
        let bare = expr.unalias_nested().data;
        let at = known.iter().position(|(same, _)| *same == bare);
        let at = at.unwrap_or_else(|| {
            let name = names.column("computed");
            below.push(bare.clone().alias(&name.name));
            known.push((bare, name));
            known.len() - 1
        });
        saved.restore(column(&known[at].1))
    };
    let on = node.on_expr.into_iter().map(|expr| computed(expr).unalias()).collect();
    let shown = node.select_expr.into_iter().map(&mut computed).collect();
    let order = node.sort_expr.map(|order| {
        let by = |by: datafusion::logical_expr::SortExpr| {
            by.with_expr(computed(by.expr.clone()).unalias())
        };
        order.into_iter().map(by).collect()
    });
    let input = project(node.input.as_ref().clone(), below)?;
    DistinctOn::try_new(on, shown, order, Arc::new(input))
        .map(|node| LogicalPlan::Distinct(datafusion::logical_expr::Distinct::On(node)))
}
