//! The conditions of a join that become keys of its hash table.
//!
//! A join takes NULLs as equal in all of its keys or in none. DataFusion decides that when it meets
//! `a IS NOT DISTINCT FROM b`, and takes equalities that are added to the join later for keys of
//! the same kind, so that `NULL = NULL` holds. Here keys are found in two steps: while the
//! optimizer runs, [`EqualitiesAreKeys`] makes keys of equalities alone; afterwards,
//! [`with_null_safe_keys`] makes keys of the other comparisons, and adds conditions to equalities
//! whose NULLs would match.

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, NullEquality, Result};
use datafusion::logical_expr::utils::{
    can_hash, find_valid_equijoin_key_pair, split_conjunction_owned,
};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Join, LogicalPlan, Operator};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use halcyon_unnest::conjunctions::conjunction;

/// The rule that takes equalities out of conditions of joins.
#[derive(Debug)]
pub(crate) struct EqualitiesAreKeys;

impl OptimizerRule for EqualitiesAreKeys {
    fn name(&self) -> &str {
        "extract_equijoin_predicate"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(mut join) = plan else { return Ok(Transformed::no(plan)) };
        // INTERSECT and EXCEPT are planned as joins that take NULLs as equal.
        if join.null_equality == NullEquality::NullEqualsNull {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        }
        let keys = take_keys(&mut join, Operator::Eq)?;
        let found = !keys.is_empty();
        join.on.extend(keys);
        let plan = LogicalPlan::Join(join);
        Ok(if found { Transformed::yes(plan) } else { Transformed::no(plan) })
    }
}

/// Removes comparisons by `op` between one side's value and the other's from a join's condition,
/// and returns them.
fn take_keys(join: &mut Join, op: Operator) -> Result<Vec<(Expr, Expr)>> {
    let (left, right) = (join.left.schema(), join.right.schema());
    let (mut keys, mut others) = (Vec::new(), Vec::new());
    for condition in join.filter.take().into_iter().flat_map(split_conjunction_owned) {
        match key(&condition, op, left, right)? {
            Some(pair) => keys.push(pair),
            None => others.push(condition),
        }
    }
    join.filter = conjunction(others);
    Ok(keys)
}

fn key(
    condition: &Expr,
    op: Operator,
    left: &DFSchema,
    right: &DFSchema,
) -> Result<Option<(Expr, Expr)>> {
    let Expr::BinaryExpr(BinaryExpr { left: a, op: by, right: b }) = condition else {
        return Ok(None);
    };
    if *by != op {
        return Ok(None);
    }
    let Some((a, b)) = find_valid_equijoin_key_pair(a, b, left, right)? else { return Ok(None) };
    let hashes = can_hash(&a.get_type(left)?) && can_hash(&b.get_type(right)?);
    Ok(hashes.then_some((a, b)))
}

/// Makes keys of `a IS NOT DISTINCT FROM b` in conditions of joins. For optimised plans.
pub(crate) fn with_null_safe_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| match crate::interrupts::go_on().map(|()| node)? {
        LogicalPlan::Join(join) => null_safe(join).map(Transformed::yes),
        other => Ok(Transformed::no(other)),
    })
    .data()
}

fn null_safe(mut join: Join) -> Result<LogicalPlan> {
    if join.null_aware || join.null_equality == NullEquality::NullEqualsNull {
        return Ok(LogicalPlan::Join(join));
    }
    let keys = take_keys(&mut join, Operator::IsNotDistinctFrom)?;
    if keys.is_empty() {
        return Ok(LogicalPlan::Join(join));
    }
    // Equal values are both not NULL if one of them is not.
    let mut known = Vec::new();
    for (a, b) in &join.on {
        if a.nullable(join.left.schema())? && b.nullable(join.right.schema())? {
            known.push(a.clone().is_not_null());
        }
    }
    join.filter = conjunction(join.filter.take().into_iter().chain(known));
    join.on.extend(keys);
    join.null_equality = NullEquality::NullEqualsNull;
    Ok(LogicalPlan::Join(join))
}
