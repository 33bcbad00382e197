//! Subqueries in the condition of an outer join.
//!
//! A subquery that names columns of one side alone is computed beside that side's rows, before the join.
//! If one names columns of both sides, the rows of the side that is kept are numbered and joined with all that
//! fulfils the other conditions; then the condition is computed for each pair, and of the pairs of one number
//! those remain for which it holds, or else one, with NULLs in place of the other side.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, Result};
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::expr::{InSubquery, SetComparison};
use datafusion::logical_expr::{Expr, ExprFunctionExt, Join, LogicalPlan, Window, lit, when};

use super::free::{open_references, subquery_of};
use super::{Apply, Names, column, filter, join, project, refuse};
use crate::conjunctions::conjunction;

/// The outer join `node`, of whose condition the parts `asking` hold subqueries and are not in `node`.
///
/// Errors: 0A000 for a FULL JOIN with a subquery that names columns of both sides.
pub fn without_subqueries(node: Join, asking: Vec<Expr>, names: &mut Names) -> Result<LogicalPlan> {
    let mut by_both = false;
    for expr in &asking {
        expr.apply(|expr| {
            by_both |= side_of(expr, &node)? == Some(Side::Both);
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    match (by_both, node.join_type) {
        (false, _) => beside_rows(node, asking, names),
        (true, JoinType::Left | JoinType::Right) => by_pairs(node, asking, names),
        _ => Err(refuse("a subquery over both sides in the condition of a FULL JOIN")),
    }
}

/// The rows of which a subquery names columns.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Left,
    Right,
    Both,
}

/// The side of a join whose columns an expression names that is a subquery, or its operand; the left side if it
/// names none. `None`: it is no subquery.
fn side_of(expr: &Expr, node: &Join) -> Result<Option<Side>> {
    let Some(subquery) = subquery_of(expr) else { return Ok(None) };
    let mut columns: Vec<Column> =
        open_references(&subquery.subquery)?.into_iter().map(|(_, column)| column).collect();
    if let Expr::InSubquery(InSubquery { expr, .. })
    | Expr::SetComparison(SetComparison { expr, .. }) = expr
    {
        columns.extend(expr.column_refs().into_iter().cloned());
        if super::free::holds_subquery(expr) {
            return Ok(Some(Side::Both));
        }
    }
    let of = |side: &LogicalPlan| columns.iter().any(|column| side.schema().has_column(column));
    Ok(Some(match (of(&node.left), of(&node.right)) {
        (true, true) => Side::Both,
        (false, true) => Side::Right,
        _ => Side::Left,
    }))
}

/// The join with each subquery computed beside the rows of its side.
fn beside_rows(mut node: Join, asking: Vec<Expr>, names: &mut Names) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = node.schema.columns().into_iter().map(Expr::Column).collect();
    let mut sides = [Arc::unwrap_or_clone(node.left.clone()), node.right.as_ref().clone()];
    let mut joined = false;
    let mut conditions = Vec::new();
    for condition in asking {
        let computed = condition.transform_down(|expr| {
            let Some(side) = side_of(&expr, &node)? else { return Ok(Transformed::no(expr)) };
            let input = &mut sides[usize::from(side == Side::Right)];
            let mut apply = Apply::new(std::mem::take(input), names);
            let value = apply.rewrite(expr)?;
            joined |= apply.joined;
            *input = apply.input;
            Ok(Transformed::new(value, true, TreeNodeRecursion::Jump))
        });
        conditions.push(computed.data()?);
    }
    let condition = conjunction(node.filter.take().into_iter().chain(conditions));
    let [left, right] = sides;
    let rows = join(left, right, node.on, condition, node.join_type, node.null_equality)?;
    if joined { project(rows, columns) } else { Ok(rows) }
}

/// The join by its pairs of rows.
fn by_pairs(node: Join, asking: Vec<Expr>, names: &mut Names) -> Result<LogicalPlan> {
    let Join { left, right, on, filter: plain, join_type, schema, null_equality, .. } = node;
    let keeps_left = join_type == JoinType::Left;
    let (kept, other) = if keeps_left { (left, right) } else { (right, left) };
    let (kept_schema, other_schema) = (kept.schema().clone(), other.schema().clone());
    let all = |plan: &LogicalPlan| -> Vec<Expr> {
        plan.schema().columns().into_iter().map(Expr::Column).collect()
    };
    let (id, found) = (names.column("id"), names.column("found"));
    let number = row_number().alias(&id.name);
    let kept = LogicalPlan::Window(Window::try_new(vec![number], kept)?);
    let with_mark = all(&other).into_iter().chain([lit(true).alias(&found.name)]).collect();
    let other = project(other.as_ref().clone(), with_mark)?;
    let (left, right) = if keeps_left { (kept, other) } else { (other, kept) };
    let pairs = join(left, right, on, plain, join_type, null_equality)?;
    let mut apply = Apply::new(pairs, names);
    let rewritten = asking.into_iter().map(|expr| apply.rewrite(expr));
    let rewritten = rewritten.collect::<Result<Vec<_>>>()?;
    let condition = conjunction([column(&found).is_not_null()].into_iter().chain(rewritten));
    let holds = when(condition.unwrap_or_else(|| lit(true)), lit(true)).otherwise(lit(false))?;
    let input = apply.input;
    let (fits, first) = (names.column("fits"), names.column("first"));
    let own = kept_schema.columns().into_iter().chain(other_schema.columns()).map(Expr::Column);
    let judged = own.chain([column(&id), holds.alias(&fits.name)]).collect();
    let judged = project(input, judged)?;
    let place = row_number()
        .partition_by(vec![column(&id)])
        .order_by(vec![column(&fits).sort(false, false)])
        .build()?
        .alias(&first.name);
    let placed = LogicalPlan::Window(Window::try_new(vec![place], Arc::new(judged))?);
    let remains = column(&fits).or(column(&first).eq(lit(1_u64)));
    let remaining = filter(placed, vec![remains])?;
    let shown = schema.columns().into_iter().map(|own| {
        if kept_schema.has_column(&own) {
            return Ok(Expr::Column(own));
        }
        let value = when(column(&fits), column(&own)).end()?;
        Ok(value.alias_qualified(own.relation.clone(), &own.name))
    });
    project(remaining, shown.collect::<Result<Vec<_>>>()?)
}
