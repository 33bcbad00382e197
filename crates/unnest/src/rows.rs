//! LATERAL calls that make rows of each row's own lists: the lists are computed beside the row, and it is
//! repeated for each of their elements. No join is needed then, and conditions on the row hold before.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan, Unnest};

use super::free::open_references;
use super::project;

/// The join without its LATERAL right side; `None` if that is more than rows made of lists.
pub fn of_lists(node: &Join, right: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let (alias, made) = match right {
        LogicalPlan::SubqueryAlias(node) => (Some(node.alias.clone()), node.input.as_ref()),
        other => (None, other),
    };
    let mut shown = Vec::new();
    let mut below = made;
    while let LogicalPlan::Projection(projection) = below {
        shown.push(projection);
        below = projection.input.as_ref();
    }
    let LogicalPlan::Unnest(unnest) = below else { return Ok(None) };
    let Some(names) = shown.first().map(|projection| &projection.schema) else { return Ok(None) };
    let LogicalPlan::Projection(lists) = unnest.input.as_ref() else { return Ok(None) };
    let is_plain = matches!(lists.input.as_ref(), LogicalPlan::EmptyRelation(one) if one.produce_one_row)
        && node.join_type == JoinType::Inner
        && node.filter.is_none()
        && node.on.is_empty();
    let open = open_references(right)?;
    let is_own = open.iter().all(|(_, column)| node.left.schema().has_column(column));
    if !is_plain || !is_own {
        return Ok(None);
    }
    let own = || node.left.schema().columns().into_iter().map(Expr::Column);
    let beside = lists.expr.iter().cloned().map(without_outer).collect::<Result<Vec<_>>>()?;
    let beside = project(node.left.as_ref().clone(), own().chain(beside).collect())?;
    let (columns, options) = (unnest.exec_columns.clone(), unnest.options.clone());
    let mut repeated = LogicalPlan::Unnest(Unnest::try_new(Arc::new(beside), columns, options)?);
    for projection in shown.iter().rev() {
        let exprs = projection.expr.iter().cloned().map(without_outer);
        repeated = project(repeated, own().chain(exprs.collect::<Result<Vec<_>>>()?).collect())?;
    }
    let named = names.iter().map(|(qualifier, field)| {
        let renamed = alias.clone().or_else(|| qualifier.cloned());
        let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        column.alias_qualified(renamed, field.name())
    });
    project(repeated, own().chain(named).collect()).map(Some)
}

/// The expression with columns of the left side as such.
fn without_outer(expr: Expr) -> Result<Expr> {
    expr.transform_up(|expr| {
        Ok(match expr {
            Expr::OuterReferenceColumn(_, column) => Transformed::yes(Expr::Column(column)),
            other => Transformed::no(other),
        })
    })
    .data()
}
