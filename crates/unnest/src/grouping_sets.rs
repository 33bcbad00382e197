//! Grouping sets over expressions: `GROUP BY ROLLUP (a + 1)`.
//!
//! The planner names what an aggregate gives by the expressions that it groups by, and later passes write
//! expressions otherwise: constants get their types, casts become functions. Keys that stand alone keep their
//! names then, those within grouping sets do not. So the expressions become columns of the input, and the sets
//! consist of columns.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::functions::math::expr_fn::random;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, Expr, GroupingSet, LogicalPlan, Projection, lit, when};

/// Makes grouping sets consist of columns. For a plan as DataFusion's planner made it.
pub fn with_columns_grouped(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Aggregate(aggregate) => match aggregate.group_expr.as_slice() {
            [Expr::GroupingSet(set)]
                if set.distinct_expr().iter().any(|expr| !matches!(expr, Expr::Column(_))) =>
            {
                grouped(&aggregate, set).map(Transformed::yes)
            }
            _ => Ok(Transformed::no(LogicalPlan::Aggregate(aggregate))),
        },
        other => Ok(Transformed::no(other)),
    })
    .data()
}

/// An expression that is not known to be constant, with its value. DataFusion says of a constant key that the
/// aggregate's column is constant, and sorted, though it is NULL in the sets that lack the key.
fn varying(key: Expr) -> Result<Expr> {
    if !key.column_refs().is_empty() || key.contains_outer() {
        return Ok(key);
    }
    when(random().gt_eq(lit(0.0)), key).end()
}

fn grouped(aggregate: &Aggregate, set: &GroupingSet) -> Result<LogicalPlan> {
    let keys = set.distinct_expr();
    // No statement has such names.
    let name = |at: usize| format!("key{at}\u{1}");
    let column_of = |expr: &Expr| -> Option<Expr> {
        let at = keys.iter().position(|key| *key == expr)?;
        let is_plain = matches!(expr, Expr::Column(_));
        Some(if is_plain { expr.clone() } else { Expr::Column(Column::from_name(name(at))) })
    };
    let mut inputs: Vec<Expr> =
        aggregate.input.schema().columns().into_iter().map(Expr::Column).collect();
    for (at, key) in keys.iter().enumerate() {
        if !matches!(key, Expr::Column(_)) {
            inputs.push(varying((*key).clone())?.alias(name(at)));
        }
    }
    let input = Projection::try_new(inputs, Arc::clone(&aggregate.input))?;
    let all = |exprs: &[Expr]| -> Vec<Expr> {
        exprs.iter().map(|expr| column_of(expr).unwrap_or_else(|| expr.clone())).collect()
    };
    let set = match set {
        GroupingSet::Rollup(exprs) => GroupingSet::Rollup(all(exprs)),
        GroupingSet::Cube(exprs) => GroupingSet::Cube(all(exprs)),
        GroupingSet::GroupingSets(sets) => {
            GroupingSet::GroupingSets(sets.iter().map(|exprs| all(exprs)).collect())
        }
    };
    // `grouping(a + 1)` asks for a key.
    let aggregates = aggregate.aggr_expr.iter().map(|expr| {
        expr.clone().transform_down(|expr| {
            Ok(match expr {
                Expr::AggregateFunction(AggregateFunction { func, mut params })
                    if func.name() == "grouping" =>
                {
                    params.args = all(&params.args);
                    Transformed::yes(Expr::AggregateFunction(AggregateFunction { func, params }))
                }
                other => Transformed::no(other),
            })
        })
    });
    let aggregates = aggregates.map(TransformedResult::data).collect::<Result<Vec<_>>>()?;
    let input = Arc::new(LogicalPlan::Projection(input));
    let made = Aggregate::try_new(input, vec![Expr::GroupingSet(set)], aggregates)?;
    let made = LogicalPlan::Aggregate(made);
    // The number of the set is the aggregate's own, and is gone where `grouping` has been computed from it.
    let is_number =
        |at: &usize| aggregate.schema.field(*at).name() == Aggregate::INTERNAL_GROUPING_ID;
    let named = (0..aggregate.schema.fields().len()).filter(|at| !is_number(at)).map(|at| {
        let (qualifier, field) = aggregate.schema.qualified_field(at);
        let column = Column::from(made.schema().qualified_field(at));
        Expr::Column(column).alias_qualified(qualifier.cloned(), field.name())
    });
    let named: Vec<Expr> = named.collect();
    // A cast has the name of what it casts, as a key beside it may; the planner's own builder would refuse that.
    Projection::try_new(named, Arc::new(made)).map(LogicalPlan::Projection)
}
