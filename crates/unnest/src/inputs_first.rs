//! Walks that know the types of outer columns.
//!
//! A subquery's column of an outer query ([`Expr::OuterReferenceColumn`]) carries its type with it, as the planner saw it.
//! Passes that give a plan's columns other types (constants, branches of CASE, parts of a UNION) leave those copies
//! behind. So a pass that decides by types walks in this order: a node's inputs, then the subqueries of its
//! expressions, whose references have been renewed from these inputs, then the node itself.

use std::sync::{Arc, LazyLock};

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{EmptyRelation, Expr, Join, Limit, LogicalPlan};

use crate::{go_on, has_subquery};

/// What keeps the names of a node's expressions while they are rewritten. Cells of VALUES name no columns: to write down
/// the names of thousands took a good part of planning them.
pub fn names_of(node: &LogicalPlan) -> NamePreserver {
    static NAMELESS: LazyLock<LogicalPlan> = LazyLock::new(|| {
        let schema = Arc::new(DFSchema::empty());
        let input = LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema });
        LogicalPlan::Limit(Limit { skip: None, fetch: None, input: Arc::new(input) })
    });
    match node {
        LogicalPlan::Values(_) => NamePreserver::new(&NAMELESS),
        node => NamePreserver::new(node),
    }
}

/// Applies `work` to every node, inputs before subqueries and these before the node that has them. References to
/// outer columns have the types that `work` has given to the columns. `renew` recomputes a node's schema.
pub fn inputs_first(
    plan: LogicalPlan,
    work: &mut dyn FnMut(LogicalPlan) -> Result<LogicalPlan>,
    renew: &dyn Fn(LogicalPlan) -> Result<LogicalPlan>,
) -> Result<LogicalPlan> {
    halcyon_sql::stack::with_stack(|| node_last(plan, work, renew))
}

fn node_last(
    node: LogicalPlan,
    work: &mut dyn FnMut(LogicalPlan) -> Result<LogicalPlan>,
    renew: &dyn Fn(LogicalPlan) -> Result<LogicalPlan>,
) -> Result<LogicalPlan> {
    go_on()?;
    let node = match node {
        LogicalPlan::Join(join) if is_lateral(&join.right)? => {
            let left = inputs_first(Arc::unwrap_or_clone(join.left), work, renew)?;
            let right = with_outer_types(Arc::unwrap_or_clone(join.right), left.schema(), renew)?;
            let right = inputs_first(right, work, renew)?;
            LogicalPlan::Join(Join { left: Arc::new(left), right: Arc::new(right), ..join })
        }
        node => node
            .map_children(|input| inputs_first(input, work, renew).map(Transformed::yes))
            .data()?,
    };
    let node = match has_subquery(&node) {
        true => {
            let outer = merge_schema(&node.inputs());
            let names = names_of(&node);
            let node = node.map_expressions(|expr| {
                let name = names.save(&expr);
                let new = of_subqueries(expr, &outer, work, renew)?;
                Ok(new.update_data(|expr| name.restore(expr)))
            });
            node.data()?
        }
        false => node,
    };
    work(node)
}

/// An expression with the subqueries in it walked over, but not those within them.
fn of_subqueries(
    expr: Expr,
    outer: &DFSchema,
    work: &mut dyn FnMut(LogicalPlan) -> Result<LogicalPlan>,
    renew: &dyn Fn(LogicalPlan) -> Result<LogicalPlan>,
) -> Result<Transformed<Expr>> {
    expr.transform_up(|mut expr| {
        let subquery = match &mut expr {
            Expr::ScalarSubquery(subquery) => subquery,
            Expr::Exists(exists) => &mut exists.subquery,
            Expr::InSubquery(membership) => &mut membership.subquery,
            Expr::SetComparison(comparison) => &mut comparison.subquery,
            _ => return Ok(Transformed::no(expr)),
        };
        let plan = with_outer_types(LogicalPlan::clone(&subquery.subquery), outer, renew)?;
        subquery.subquery = Arc::new(inputs_first(plan, work, renew)?);
        Ok(Transformed::yes(expr))
    })
}

/// Whether a side of a join has a subquery that may name the columns of the other side.
fn is_lateral(side: &LogicalPlan) -> Result<bool> {
    side.exists(|node| {
        Ok(matches!(node, LogicalPlan::Subquery(query) if !query.outer_ref_columns.is_empty()))
    })
}

/// A plan whose outer columns have the types that they have now.
fn with_outer_types(
    plan: LogicalPlan,
    outer: &DFSchema,
    renew: &dyn Fn(LogicalPlan) -> Result<LogicalPlan>,
) -> Result<LogicalPlan> {
    let typed = |expr: Expr| match expr {
        Expr::OuterReferenceColumn(field, column) => {
            match outer.qualified_field_from_column(&column) {
                Ok((_, now)) if *now != field => {
                    Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(now), column))
                }
                _ => Transformed::no(Expr::OuterReferenceColumn(field, column)),
            }
        }
        other => Transformed::no(other),
    };
    let mut changed = false;
    plan.transform_up_with_subqueries(|node| {
        go_on()?;
        let names = names_of(&node);
        let node = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let new = expr.transform_up(|expr| Ok(typed(expr)))?;
            Ok(new.update_data(|expr| name.restore(expr)))
        })?;
        changed |= node.transformed;
        if changed { renew(node.data).map(Transformed::yes) } else { Ok(node) }
    })
    .data()
}
