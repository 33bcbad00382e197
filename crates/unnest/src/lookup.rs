//! Scalar subqueries that aggregate, without groups, the rows with a value of the outer row:
//! `(SELECT f(agg(x)) FROM source WHERE key = outer)`.
//!
//! Such a subquery needs no domain: the source is aggregated by its keys once, and the outer rows
//! are left-joined with the groups. Expressions over the aggregates are computed above that join,
//! for the outer rows and not for groups that no outer row needs.

use datafusion::common::{Column, DFSchema, DFSchemaRef, JoinType, Result};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Aggregate, BinaryExpr, Expr, LogicalPlan, Operator, lit, when};

use super::depend::of_no_rows;
use super::flat::{Flat, Through, flatten, rename, substitute};
use super::free::{holds_outer, holds_subquery, replace};
use super::{Names, column, filter, project};

/// A look-up: a subquery of this form, in its parts.
pub struct Lookup {
    aggregate: Aggregate,
    /// The rows below the aggregates; the carried expressions are the aggregates.
    flat: Flat,
    /// Pairs of an expression over the source and one over outer rows that must be equal.
    keys: Vec<(Expr, Expr)>,
    /// The subquery's value over the columns of `aggregate`; it may contain outer references.
    value: Expr,
}

/// The groups of the source; pairs of an outer expression and a column of the groups to join by;
/// and the subquery's value over the join.
type Joined = (LogicalPlan, Vec<(Expr, Expr)>, Expr);

impl Lookup {
    /// The subquery as a look-up; `None` if it is of another form.
    pub fn of(plan: &LogicalPlan) -> Result<Option<Lookup>> {
        let mut value = vec![Expr::Column(plan.schema().columns().swap_remove(0))];
        let mut node = plan;
        let aggregate = loop {
            node = match node {
                LogicalPlan::Projection(projection) => {
                    let by: Vec<Expr> =
                        projection.expr.iter().map(|expr| expr.clone().unalias()).collect();
                    value = substitute(value, &projection.schema, &by)?;
                    &projection.input
                }
                LogicalPlan::SubqueryAlias(alias) => {
                    let columns = alias.input.schema().columns();
                    let by: Vec<Expr> = columns.into_iter().map(Expr::Column).collect();
                    value = substitute(value, &alias.schema, &by)?;
                    &alias.input
                }
                LogicalPlan::Aggregate(aggregate) => break aggregate,
                _ => return Ok(None),
            };
        };
        let value = value.swap_remove(0);
        let simple = aggregate.group_expr.is_empty() && aggregate.aggr_expr.iter().all(cannot_fail);
        if !simple || holds_subquery(&value) {
            return Ok(None);
        }
        let aggregates = aggregate.aggr_expr.clone();
        let Some(flat) = flatten(&aggregate.input, aggregates, Through::Filters)? else {
            return Ok(None);
        };
        let keys: Option<Vec<_>> = flat.correlated.iter().map(pair).collect();
        let fits = |keys: &[(Expr, Expr)]| {
            !keys.is_empty() && flat.carried.iter().all(cannot_fail) && !multiplies(&flat, keys)
        };
        Ok(match keys {
            Some(keys) if fits(&keys) => {
                Some(Lookup { aggregate: aggregate.clone(), flat, keys, value })
            }
            _ => None,
        })
    }

    /// Makes the parts of the join with rows of `outer`.
    pub fn join(self, outer: &DFSchema, names: &mut Names) -> Result<Joined> {
        let Lookup { aggregate, flat, keys, value } = self;
        let bind = |expr: Expr| {
            replace(expr, outer, &|column| outer.has_column(column).then(|| column.clone()))
        };
        let (mut columns, mut on) = (Vec::new(), Vec::new());
        for (inner, outer) in keys {
            let key = names.column("key");
            columns.push(inner.alias(&key.name));
            on.push((bind(outer)?, column(&key)));
        }
        let groups: Vec<Expr> = on.iter().map(|(_, key)| key.clone()).collect();
        let mut renamed: Vec<(Column, Column)> = Vec::new();
        for old in flat.carried.iter().flat_map(Expr::column_refs) {
            if !renamed.iter().any(|(known, _)| known == old) {
                renamed.push((old.clone(), names.column("inner")));
            }
        }
        columns.extend(renamed.iter().map(|(old, new)| column(old).alias(&new.name)));
        let source = project(filter(flat.source, flat.local)?, columns)?;
        let mut aggregates = Vec::new();
        let preserver = NamePreserver::new_for_projection();
        for (old, new) in aggregate.aggr_expr.iter().zip(flat.carried) {
            aggregates.push(preserver.save(old).restore(rename(new, &renamed)?));
        }
        let grouped = Aggregate::try_new(source.into(), groups.clone(), aggregates)?;
        let grouped = LogicalPlan::Aggregate(grouped);
        // Columns that leave the subquery get fresh names; `found` says that the group exists.
        let found = names.column("found");
        let mut leaving = groups;
        let mut values = Vec::new();
        let mut asks = false;
        for (at, own) in aggregate.schema.columns().iter().enumerate() {
            let name = names.column("value");
            leaving.push(column(own).alias(&name.name));
            let ty = aggregate.schema.field(at).data_type();
            let of_none = of_no_rows(&aggregate.aggr_expr[at], ty)?;
            values.push(if of_none.is_null() {
                column(&name)
            } else {
                asks = true;
                let of_none = Expr::Literal(of_none, None);
                when(column(&found).is_null(), of_none).otherwise(column(&name))?
            });
        }
        if asks {
            leaving.push(lit(true).alias(&found.name));
        }
        let value = substitute(vec![value], &aggregate.schema, &values)?.swap_remove(0);
        Ok((project(grouped, leaving)?, on, bind(value)?))
    }
}

/// Whether the keys are columns of tables that the outer row alone connects: `FROM a, b WHERE a.x = outer.x AND b.y =
/// outer.y`. Grouped by such keys, every row of one table would meet every row of the other; with a domain the outer rows
/// stand between them.
fn multiplies(flat: &Flat, keys: &[(Expr, Expr)]) -> bool {
    let mut parts = Vec::new();
    collect_parts(&flat.source, &mut parts);
    // For each part the first one that conditions of the source connect the part with.
    let mut first: Vec<usize> = (0..parts.len()).collect();
    let touched = |expr: &Expr, first: &[usize]| -> Vec<usize> {
        let columns = expr.column_refs();
        let names = |part: &DFSchemaRef| columns.iter().any(|column| part.has_column(column));
        (0..parts.len()).filter(|at| names(&parts[*at])).map(|at| first[at]).collect()
    };
    for condition in &flat.local {
        let joined = touched(condition, &first);
        let Some(least) = joined.iter().min().copied() else { continue };
        for own in first.iter_mut().filter(|own| joined.contains(own)) {
            *own = least;
        }
    }
    let mut reached = keys.iter().flat_map(|(inner, _)| touched(inner, &first));
    reached.next().is_some_and(|one| reached.any(|other| other != one))
}

/// The sides of products that a plan begins with, from the left.
fn collect_parts(plan: &LogicalPlan, parts: &mut Vec<DFSchemaRef>) {
    match plan {
        LogicalPlan::Join(join)
            if join.join_type == JoinType::Inner && join.on.is_empty() && join.filter.is_none() =>
        {
            collect_parts(&join.left, parts);
            collect_parts(&join.right, parts);
        }
        plan => parts.push(DFSchemaRef::clone(plan.schema())),
    }
}

/// Whether an aggregate only has columns of the source as arguments: then computing groups that no
/// row needs raises no error that the needed ones would not.
fn cannot_fail(aggregate: &Expr) -> bool {
    fn plain(expr: &Expr) -> bool {
        match expr {
            Expr::Column(_) | Expr::Literal(..) => true,
            Expr::Cast(Cast { expr, .. }) => plain(expr),
            _ => false,
        }
    }
    match aggregate {
        Expr::Alias(alias) => cannot_fail(&alias.expr),
        Expr::AggregateFunction(aggregate) => {
            let params = &aggregate.params;
            params.args.iter().all(plain) && params.filter.is_none() && params.order_by.is_empty()
        }
        _ => false,
    }
}

/// The sides of `inner column = expression over the outer row`, the inner one first.
fn pair(condition: &Expr) -> Option<(Expr, Expr)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else {
        return None;
    };
    let is_column = |expr: &Expr| match expr {
        Expr::Column(_) => true,
        Expr::Cast(Cast { expr, .. }) => matches!(expr.as_ref(), Expr::Column(_)),
        _ => false,
    };
    let is_outer = |expr: &Expr| expr.column_refs().is_empty() && holds_outer(expr);
    match (left.as_ref(), right.as_ref()) {
        (a, b) if is_column(a) && is_outer(b) => Some((a.clone(), b.clone())),
        (a, b) if is_column(b) && is_outer(a) => Some((b.clone(), a.clone())),
        _ => None,
    }
}
