//! Subqueries that are conditions over a source without outer references.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, JoinType, NullEquality, Result};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, LogicalPlanBuilder};

use super::free::{holds_outer, holds_subquery, open_references};

/// A subquery as σ_conditions(source), with expressions over its rows rewritten over the source's
/// rows.
pub struct Flat {
    /// The source, which has no outer references.
    pub source: LogicalPlan,
    /// Conditions that name outer columns.
    pub correlated: Vec<Expr>,
    /// Conditions that name no outer columns.
    pub local: Vec<Expr>,
    /// The expressions carried down to the source.
    pub carried: Vec<Expr>,
}

/// The nodes that may be flattened besides projections, filters and aliases.
#[derive(Clone, Copy, PartialEq)]
pub enum Through {
    /// No other nodes.
    Filters,
    /// Inner joins.
    Joins,
    /// Inner joins, and nodes that change neither whether there are rows nor their values.
    Existence,
}

/// Flattens a plan; `carried` are expressions over its rows. `None` if outer references occur
/// anywhere but in conditions, or subqueries occur in these.
pub fn flatten(plan: &LogicalPlan, carried: Vec<Expr>, through: Through) -> Result<Option<Flat>> {
    let count = carried.len();
    // Carried expressions first, then conditions; all are over the rows of `node`.
    let mut exprs = carried;
    let mut node = plan;
    let mut joined = None;
    loop {
        node = match node {
            LogicalPlan::Filter(filter) => {
                exprs.extend(split_conjunction_owned(filter.predicate.clone()));
                &filter.input
            }
            LogicalPlan::Projection(projection) => {
                let by: Vec<Expr> =
                    projection.expr.iter().map(|expr| expr.clone().unalias()).collect();
                exprs = substitute(exprs, &projection.schema, &by)?;
                &projection.input
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let columns = alias.input.schema().columns();
                let by: Vec<Expr> = columns.into_iter().map(Expr::Column).collect();
                exprs = substitute(exprs, &alias.schema, &by)?;
                &alias.input
            }
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => &sort.input,
            LogicalPlan::Distinct(Distinct::All(input)) if through == Through::Existence => input,
            LogicalPlan::Join(join)
                if join.join_type == JoinType::Inner
                    && join.null_equality == NullEquality::NullEqualsNothing
                    && through != Through::Filters
                    && join.filter.as_ref().is_some_and(holds_outer) =>
            {
                let keys = join.on.iter().map(|(a, b)| a.clone().eq(b.clone()));
                exprs.extend(keys);
                exprs.extend(join.filter.clone().into_iter().flat_map(split_conjunction_owned));
                let left = LogicalPlanBuilder::from(join.left.as_ref().clone());
                joined = Some(left.cross_join(join.right.as_ref().clone())?.build()?);
                break;
            }
            _ => break,
        };
    }
    let source = joined.unwrap_or_else(|| node.clone());
    if exprs.iter().any(holds_subquery) || !open_references(&source)?.is_empty() {
        return Ok(None);
    }
    let conditions = exprs.split_off(count);
    let (correlated, local) = conditions.into_iter().partition(holds_outer);
    Ok(Some(Flat { source, correlated, local, carried: exprs }))
}

/// Replaces column `i` of `schema` by `by[i]`.
pub fn substitute(exprs: Vec<Expr>, schema: &DFSchema, by: &[Expr]) -> Result<Vec<Expr>> {
    let one = |expr: Expr| {
        expr.transform_up(|expr| {
            let at = match &expr {
                Expr::Column(column) => schema.maybe_index_of_column(column),
                _ => None,
            };
            Ok(match at {
                Some(at) => Transformed::yes(by[at].clone()),
                None => Transformed::no(expr),
            })
        })
        .data()
    };
    exprs.into_iter().map(one).collect()
}

/// Replaces columns by columns.
pub fn rename(expr: Expr, names: &[(Column, Column)]) -> Result<Expr> {
    expr.transform_up(|expr| {
        let new = match &expr {
            Expr::Column(column) => names.iter().find(|(old, _)| old == column),
            _ => None,
        };
        Ok(match new {
            Some((_, new)) => Transformed::yes(Expr::Column(new.clone())),
            None => Transformed::no(expr),
        })
    })
    .data()
}
