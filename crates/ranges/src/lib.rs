//! Joins by ranges: `e.x BETWEEN s.lo AND s.hi`, `a.lo <= b.hi AND b.lo <= a.hi`, `a.at < b.at AND b.at < a.at + i`.
//!
//! Words: a *bound* is a comparison of an expression over the left side with one over the right side. The *code* of a value
//! is a number that compares as the value does ([`mod@code`]). The left side is put in the order of its codes for the bounds of
//! one expression, and a row of the right side finds the *range* of rows that keep these bounds by two searches
//! ([`mod@build`]). Where another expression of the left side has a bound, steps over the rows of a range leave out blocks whose
//! greatest code is too small ([`mod@heights`]), so that overlaps of intervals are found without looking at all that began before.
//! What the codes do not decide is asked for pairs, many at a time ([`mod@probe`]).
//!
//! [`RangeJoinExec`] stands in the places of DataFusion's `NestedLoopJoinExec` that have a bound, and of the `HashJoinExec` that have one
//! besides keys of few values ([`range_joins`]), and does joins of every kind. Cost: sorting the left side; a search for each row of the right side; a look for each pair that keeps the bounds of
//! the sorted expression and of one other.
//!
//! Bounded: a step looks at [`probe::LOOKS_MAX`] rows at most, or sorts or merges so many rows of the left side.
//!
//! An expression that has an error for some row (`10 / a.x`, behind `a.x <> 0 AND`) puts nothing in order: then all pairs are asked the
//! whole condition, from its left to its right.
//!
//! **Invariant**, checked by `pairs_are_those_of_the_slow_twin`: an operator gives the rows of DataFusion's. Checked by `cargo
//! xtask check claims`: knows no table and no transaction.
#![forbid(unsafe_code)]

mod build;
mod code;
mod exec;
mod groups;
mod heights;
mod plan;
mod probe;
#[cfg(test)]
mod tests;

pub use exec::RangeJoinExec;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

/// Rows of one key on the left side from which on they are searched by ranges: below, looking at each is no dearer than searches.
const ROWS_OF_KEY: f64 = 64.0;
/// Rows of the left side up to which they are: a hash join of more may go to files.
const ROWS_MAX: f64 = 4_000_000.0;

/// The plan with [`RangeJoinExec`] wherever that can be, and is no dearer.
pub fn range_joins(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let replaced = plan.transform_up(|node| {
        let has_few = node.downcast_ref::<HashJoinExec>().is_none_or(has_keys_of_few_values);
        let ours = if has_few { RangeJoinExec::in_place_of(&node)? } else { None };
        Ok(ours.map_or(Transformed::no(node), |ours| Transformed::yes(Arc::new(ours))))
    });
    replaced.data()
}

/// Whether each key of a join's left side is that of many rows, as far as that is known.
fn has_keys_of_few_values(join: &HashJoinExec) -> bool {
    if join.filter().is_none() {
        return false;
    }
    let known = StatisticsContext::new().compute(join.left().as_ref(), &StatisticsArgs::new());
    let Ok(known) = known else { return false };
    let Some(&rows) = known.num_rows.get_value() else { return false };
    let values = join.on().iter().map(|(key, _)| {
        let column = key.downcast_ref::<Column>()?.index();
        known.column_statistics.get(column)?.distinct_count.get_value().map(|&count| count as f64)
    });
    let values: Option<f64> = values.product();
    let rows = rows as f64;
    values.is_some_and(|values| rows / values.max(1.0) >= ROWS_OF_KEY && rows <= ROWS_MAX)
}
