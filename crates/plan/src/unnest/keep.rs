//! What DataFusion's optimizer turns into joins by itself, and rightly.

use arrow::datatypes::FieldRef;
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{Cast, Exists, InSubquery};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};

use super::flat::{Flat, Through, flatten};
use super::free::{holds_outer, holds_subquery, open_references};

/// Whether a condition of a WHERE over rows of `schema` can stay as it is: it has no subquery, or
/// it is a semi or anti join whose conditions are written down in the subquery's own WHERE.
pub fn condition(condition: &Expr, schema: &DFSchema) -> Result<bool> {
    let (plan, operand, negated) = match condition {
        Expr::Not(inner) => match inner.as_ref() {
            Expr::Exists(Exists { subquery, negated }) => (&subquery.subquery, None, !negated),
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                (&subquery.subquery, Some(expr), !negated)
            }
            other => return Ok(!holds_subquery(other)),
        },
        Expr::Exists(Exists { subquery, negated }) => (&subquery.subquery, None, *negated),
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            (&subquery.subquery, Some(expr), *negated)
        }
        other => return Ok(!holds_subquery(other)),
    };
    if operand.is_some_and(|operand| holds_subquery(operand) || operand.column_refs().is_empty()) {
        return Ok(false);
    }
    let open = open_references(plan)?;
    if open.is_empty() {
        // NOT IN compares a single key there, and knows NULLs.
        return Ok(true);
    }
    if operand.is_some() && negated {
        return Ok(false);
    }
    let Some(flat) = flatten(plan, Vec::new(), Through::Filters)? else { return Ok(false) };
    let here = open.iter().all(|(_, column)| schema.has_column(column));
    Ok(here && tells_apart(&flat, &open))
}

/// Whether a correlated scalar subquery can stay: one row of aggregates without groups, over rows
/// that are compared with the outer row by equality only.
pub fn scalar(plan: &LogicalPlan, open: &[(FieldRef, Column)]) -> Result<bool> {
    let mut node = plan;
    let aggregate = loop {
        node = match node {
            LogicalPlan::Projection(projection) => {
                if projection.expr.iter().any(|expr| holds_outer(expr) || holds_subquery(expr)) {
                    return Ok(false);
                }
                &projection.input
            }
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            LogicalPlan::Aggregate(aggregate) => break aggregate,
            _ => return Ok(false),
        };
    };
    let plain = |expr: &Expr| !holds_outer(expr) && !holds_subquery(expr);
    if !aggregate.group_expr.is_empty() || !aggregate.aggr_expr.iter().all(plain) {
        return Ok(false);
    }
    let Some(flat) = flatten(&aggregate.input, Vec::new(), Through::Filters)? else {
        return Ok(false);
    };
    Ok(tells_apart(&flat, open) && flat.correlated.iter().all(is_lookup))
}

/// DataFusion knows columns by their names alone once the query's border is gone.
fn tells_apart(flat: &Flat, open: &[(FieldRef, Column)]) -> bool {
    open.iter().all(|(_, column)| !flat.source.schema().has_column(column))
}

/// `inner column = something of the outer row`.
fn is_lookup(condition: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else {
        return false;
    };
    let is_column = |expr: &Expr| match expr {
        Expr::Column(_) => true,
        Expr::Cast(Cast { expr, .. }) => matches!(expr.as_ref(), Expr::Column(_)),
        _ => false,
    };
    let is_outer = |expr: &Expr| expr.column_refs().is_empty();
    (is_column(left) && is_outer(right)) || (is_column(right) && is_outer(left))
}
