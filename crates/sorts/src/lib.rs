//! Sorts and merges of sorted rows, in the places of DataFusion's operators ([`sorts`]).
//!
//! Words: the *key* of a row is what its sort expressions give, as bytes that compare as the rows do ([`mod@key`]). A
//! *head* is a number of 128 bits: the beginning of a row's key above the row's place. A *chunk* is a number of heads that
//! is sorted in one step; chunks are merged by a tree of losers ([`mod@tree`]; Knuth, *The Art of Computer Programming*,
//! volume 3, §5.4.1). A *run* is what was sorted with the memory that there was; runs beyond the first lie in files
//! ([`mod@files`]).
//!
//! [`RunSortExec`] sorts the rows of each input by itself; [`RunMergeExec`] merges sorted inputs. [`BatchSortExec`] sorts in
//! DataFusion's way, batch by batch, where that is quicker, or where rows or keys have no bytes. A sort of which few rows
//! are wanted (TopK) stays DataFusion's, whose findings reach scans.
//!
//! Bounded: between two places where a task may leave its worker at most [`steps::UNITS`] comparisons are made or values
//! copied, checked by `a_million_rows_are_sorted_in_bounded_steps`. Expressions of keys are evaluated batch by batch.
//!
//! **Invariant**, checked by `rows_are_those_of_the_slow_twin`: of [`RunSortExec`] and [`RunMergeExec`], rows with equal keys stay in the
//! order in which they came, and inputs with equal keys in the order of their numbers. Checked by `cargo xtask check claims`: knows no table and no
//! transaction.
#![forbid(unsafe_code)]

mod batches;
mod files;
mod key;
mod memory;
mod merge;
mod merging;
mod rows;
mod sorting;
mod steps;
mod tree;

#[cfg(test)]
mod measure;
#[cfg(test)]
mod tests;

pub use batches::BatchSortExec;
pub use merging::RunMergeExec;
pub use sorting::RunSortExec;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;

/// The plan with [`RunSortExec`] or [`BatchSortExec`], and [`RunMergeExec`], wherever that can be. `is_scarce`: whether
/// there is little memory, and a folder for files. Else rows are sorted in DataFusion's way where heads do not hold whole keys: that is
/// quicker over many texts that begin alike, and takes more memory.
///
/// Tried: heads over a million such texts took 1.1 to 4.5 times as long (`sorts_beside_those_of_the_slow_twin`,
/// 2026-11-28, two cores beside other work), since each comparison of heads that are equal looks up two keys.
pub fn sorts(plan: Arc<dyn ExecutionPlan>, is_scarce: bool) -> Result<Arc<dyn ExecutionPlan>> {
    let replaced = plan.transform_up(|node| {
        if let Some(sort) = node.downcast_ref::<SortExec>() {
            let runs = match RunSortExec::in_place_of(sort)? {
                Some(ours) if is_scarce || ours.is_quick() => {
                    return Ok(Transformed::yes(Arc::new(ours)));
                }
                runs => runs,
            };
            let ours = BatchSortExec::in_place_of(sort, runs)?;
            return Ok(ours.map_or(Transformed::no(node), |ours| Transformed::yes(Arc::new(ours))));
        }
        if let Some(merge) = node.downcast_ref::<SortPreservingMergeExec>() {
            let ours =
                RunMergeExec::in_place_of(merge)?.filter(|ours| is_scarce || ours.is_quick());
            return Ok(ours.map_or(Transformed::no(node), |ours| Transformed::yes(Arc::new(ours))));
        }
        Ok(Transformed::no(node))
    });
    replaced.data()
}
