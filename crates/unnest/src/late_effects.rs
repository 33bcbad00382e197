//! Volatile columns of a SELECT that is sorted or limited: `SELECT id, nextval('s') FROM t ORDER BY id LIMIT 10`.
//!
//! PostgreSQL computes such columns for the rows that are given, in their order. DataFusion would compute them before the sort,
//! for all rows. So they are computed in a projection above sort and limit, unless rows are sorted by them. Rows that OFFSET
//! leaves out, which PostgreSQL computes, are not computed.
//!
//! Source: PostgreSQL 17, "SELECT", ORDER BY: output expressions that are not sorted by are evaluated after sorting if they
//! are volatile.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, Limit, LogicalPlan, Projection, Sort, SubqueryAlias};

/// Moves volatile columns above sorts and limits. For a plan as DataFusion's planner made it.
pub fn with_volatile_columns_late(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Sort(sort) => match sort.input.as_ref() {
            LogicalPlan::Projection(select) if may_wait(select, &sort)? => {
                let select = select.clone();
                above_sort(select, sort).map(Transformed::yes)
            }
            _ => Ok(Transformed::no(LogicalPlan::Sort(sort))),
        },
        LogicalPlan::Limit(limit) if is_volatile_above(&limit.input) => {
            let Limit { skip, fetch, input } = limit;
            above_limit(Arc::unwrap_or_clone(input), &skip, &fetch).map(Transformed::yes)
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}

/// Whether a SELECT has volatile columns, none of which its rows are sorted by.
fn may_wait(select: &Projection, sort: &Sort) -> Result<bool> {
    if !select.expr.iter().any(Expr::is_volatile) {
        return Ok(false);
    }
    let is_fixed = |column: &Column| {
        let place = select.schema.maybe_index_of_column(column);
        place.is_some_and(|place| !select.expr[place].is_volatile())
    };
    let keys = sort.expr.iter().map(|by| &by.expr);
    Ok(keys.clone().all(|key| !key.is_volatile() && key.column_refs().into_iter().all(is_fixed)))
}

/// The sorted rows, whose volatile columns are computed behind the sort.
fn above_sort(select: Projection, sort: Sort) -> Result<LogicalPlan> {
    let names: Vec<_> =
        select.schema.iter().map(|(table, field)| (table.cloned(), field.name().clone())).collect();
    let (mut below, mut inputs) = (Vec::new(), HashMap::new());
    let mut above = Vec::with_capacity(names.len());
    for (expr, (table, name)) in select.expr.into_iter().zip(names) {
        if !expr.is_volatile() {
            above.push(Expr::Column(Column::new(table, name)));
            below.push(expr);
            continue;
        }
        // The columns that the expression reads come from below the sort under names that no statement has.
        let read = expr.transform_up(|part| {
            let Expr::Column(column) = part else { return Ok(Transformed::no(part)) };
            let count = inputs.len();
            let given: &mut String =
                inputs.entry(column).or_insert_with(|| format!("late{count}\u{1}"));
            Ok(Transformed::yes(Expr::Column(Column::from_name(given.clone()))))
        });
        above.push(read.data()?.unalias().alias_qualified(table, name));
    }
    let mut read: Vec<_> = inputs.into_iter().collect();
    read.sort_by(|left, right| left.1.cmp(&right.1));
    below.extend(read.into_iter().map(|(column, name)| Expr::Column(column).alias(name)));
    let below = Projection::try_new(below, select.input)?;
    let sort = Sort { input: Arc::new(LogicalPlan::Projection(below)), ..sort };
    Projection::try_new(above, Arc::new(LogicalPlan::Sort(sort))).map(LogicalPlan::Projection)
}

/// Whether volatile columns are computed above all that counts or filters rows.
pub fn is_volatile_above(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(select) => {
            select.expr.iter().any(Expr::is_volatile) || is_volatile_above(&select.input)
        }
        LogicalPlan::SubqueryAlias(alias) => is_volatile_above(&alias.input),
        _ => false,
    }
}

/// A limit of the rows, below the projections that stand above them.
fn above_limit(
    plan: LogicalPlan,
    skip: &Option<Box<Expr>>,
    fetch: &Option<Box<Expr>>,
) -> Result<LogicalPlan> {
    let below = |input: Arc<LogicalPlan>| {
        above_limit(Arc::unwrap_or_clone(input), skip, fetch).map(Arc::new)
    };
    match plan {
        LogicalPlan::Projection(select) => {
            let Projection { expr, input, schema, .. } = select;
            Projection::try_new_with_schema(expr, below(input)?, schema)
                .map(LogicalPlan::Projection)
        }
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => {
            SubqueryAlias::try_new(below(input)?, alias).map(LogicalPlan::SubqueryAlias)
        }
        input => Ok(LogicalPlan::Limit(Limit {
            skip: skip.clone(),
            fetch: fetch.clone(),
            input: Arc::new(input),
        })),
    }
}
