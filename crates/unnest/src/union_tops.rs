//! ORDER BY … LIMIT over UNION ALL: of each arm no more rows are wanted than of all.
//!
//! So an arm with an index for the order reads the first of its rows there, and the others sort no more than the few
//! that are wanted. The sort above the arms stays.
//!
//! Invariant, checked by `each_arm_is_asked_for_as_many_rows_as_all` and by `union_tops.slt` on every executor: a plan gives the same rows.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, Sort, SortExpr, Union};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// Most rows that are wanted of each arm: a sort of so many is a heap.
const ROWS_MAX: usize = 10_000;

/// The rule.
#[derive(Debug)]
pub struct TopsOfArms;

impl OptimizerRule for TopsOfArms {
    fn name(&self) -> &str {
        "tops_of_arms"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Sort(sort) = &plan else { return Ok(Transformed::no(plan)) };
        let Some(rows) = sort.fetch.filter(|rows| (1..=ROWS_MAX).contains(rows)) else {
            return Ok(Transformed::no(plan));
        };
        if sort.expr.iter().any(|key| key.expr.is_volatile()) {
            return Ok(Transformed::no(plan));
        }
        match below(&sort.input, &sort.expr, rows)? {
            Some(input) => {
                let input = Arc::new(input);
                Ok(Transformed::yes(LogicalPlan::Sort(Sort { input, ..sort.clone() })))
            }
            None => Ok(Transformed::no(plan)),
        }
    }
}

/// The plan of which the first rows by some keys are wanted, with sorts in the arms of a union; `None` if there is none, or its
/// arms have them.
fn below(plan: &LogicalPlan, keys: &[SortExpr], rows: usize) -> Result<Option<LogicalPlan>> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => {
            let given = columns(alias.input.schema());
            let Some(keys) = replaced(keys, &alias.schema, &given)? else { return Ok(None) };
            with_input(plan, below(&alias.input, &keys, rows)?)
        }
        LogicalPlan::Projection(projection) => {
            if projection.expr.iter().any(Expr::is_volatile) {
                return Ok(None);
            }
            let given: Vec<Expr> =
                projection.expr.iter().map(|expr| expr.clone().unalias_nested().data).collect();
            let Some(keys) = replaced(keys, &projection.schema, &given)? else { return Ok(None) };
            with_input(plan, below(&projection.input, &keys, rows)?)
        }
        LogicalPlan::Union(union) => {
            let are_done = |arm: &Arc<LogicalPlan>| {
                matches!(arm.as_ref(), LogicalPlan::Sort(sort) if sort.fetch.is_some())
                    || matches!(arm.as_ref(), LogicalPlan::Limit(_))
            };
            if union.inputs.iter().all(are_done) {
                return Ok(None);
            }
            let mut arms = Vec::new();
            for arm in &union.inputs {
                let keys = replaced(keys, &union.schema, &columns(arm.schema()))?;
                let Some(expr) = keys else { return Ok(None) };
                let input = Arc::clone(arm);
                arms.push(match are_done(arm) {
                    true => input,
                    false => Arc::new(LogicalPlan::Sort(Sort { expr, input, fetch: Some(rows) })),
                });
            }
            let union = Union { inputs: arms, schema: Arc::clone(&union.schema) };
            Ok(Some(LogicalPlan::Union(union)))
        }
        _ => Ok(None),
    }
}

fn with_input(plan: &LogicalPlan, input: Option<LogicalPlan>) -> Result<Option<LogicalPlan>> {
    input.map(|input| plan.with_new_exprs(plan.expressions(), vec![input])).transpose()
}

/// The columns of a plan as expressions.
fn columns(schema: &DFSchema) -> Vec<Expr> {
    schema.columns().into_iter().map(Expr::Column).collect()
}

/// Keys over a schema's columns, with what they are below in their places; `None` for keys over others.
fn replaced(keys: &[SortExpr], schema: &DFSchema, given: &[Expr]) -> Result<Option<Vec<SortExpr>>> {
    let mut all = Vec::new();
    for key in keys {
        let mut knows_all = true;
        let expr = key.expr.clone().transform_up(|part| {
            let Expr::Column(column) = &part else { return Ok(Transformed::no(part)) };
            match schema.maybe_index_of_column(column) {
                Some(place) => Ok(Transformed::yes(given[place].clone())),
                None => {
                    knows_all = false;
                    Ok(Transformed::no(part))
                }
            }
        });
        all.push(SortExpr { expr: expr.data()?, ..key.clone() });
        if !knows_all {
            return Ok(None);
        }
    }
    Ok(Some(all))
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::logical_expr::{LogicalPlanBuilder, col, lit, table_scan};
    use datafusion::optimizer::OptimizerContext;

    use super::*;

    #[test]
    fn each_arm_is_asked_for_as_many_rows_as_all() {
        let schema = Schema::new(vec![Field::new("x", DataType::Int32, true)]);
        let arm = |name| table_scan(Some(name), &schema, None).expect("a table");
        let other = arm("b").project(vec![(col("x") + lit(1_i32)).alias("x")]);
        let other = other.and_then(LogicalPlanBuilder::build).expect("a plan");
        let union = arm("a").union(other).and_then(|union| union.alias("u")).expect("a plan");
        let key = col("u.x").sort(false, true);
        let rewritten = |fetch| {
            let sorted = union.clone().sort_with_limit(vec![key.clone()], fetch);
            let sorted = sorted.and_then(LogicalPlanBuilder::build).expect("a plan");
            TopsOfArms.rewrite(sorted, &OptimizerContext::new()).expect("a plan")
        };
        let top = rewritten(Some(3));
        let text = top.data.display_indent().to_string();
        assert!(top.transformed && text.matches("fetch=3").count() == 3, "{text}");
        assert!(text.contains("Sort: x DESC") || text.contains("Sort: a.x DESC"), "{text}");
        let again = TopsOfArms.rewrite(top.data, &OptimizerContext::new()).expect("a plan");
        assert!(!again.transformed, "arms are asked once");
        assert!(!rewritten(None).transformed && !rewritten(Some(ROWS_MAX + 1)).transformed);
    }
}
