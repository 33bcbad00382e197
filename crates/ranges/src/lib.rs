//! Joins by ranges: `e.x BETWEEN s.lo AND s.hi`, `a.lo <= b.hi AND b.lo <= a.hi`, `a.at < b.at AND b.at < a.at + i`.
//!
//! Words: a *bound* is a comparison of an expression over the left side with one over the right side. The *code* of a value
//! is a number that compares as the value does ([`mod@code`]). The left side is put in the order of its codes for the bounds of
//! one expression, and a row of the right side finds the *range* of rows that keep these bounds by two searches
//! ([`mod@build`]). Where another expression of the left side has a bound, steps over the rows of a range leave out blocks whose
//! greatest code is too small ([`mod@heights`]), so that overlaps of intervals are found without looking at all that began before.
//! What the codes do not decide is asked for pairs, many at a time ([`mod@probe`]).
//!
//! [`RangeJoinExec`] stands in the places of DataFusion's `NestedLoopJoinExec` that have a bound ([`range_joins`]), and does joins of
//! every kind. Cost: sorting the left side; a search for each row of the right side; a look for each pair that keeps the bounds of
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
mod heights;
mod plan;
mod probe;
#[cfg(test)]
mod tests;

pub use exec::RangeJoinExec;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::ExecutionPlan;

/// The plan with [`RangeJoinExec`] wherever that can be.
pub fn range_joins(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let replaced = plan.transform_up(|node| {
        let ours = RangeJoinExec::in_place_of(&node)?;
        Ok(ours.map_or(Transformed::no(node), |ours| Transformed::yes(Arc::new(ours))))
    });
    replaced.data()
}
