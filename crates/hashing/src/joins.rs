//! Hash joins of every kind, with conditions beyond their keys.
//!
//! [`JoinExec`] stands in the places of DataFusion's `HashJoinExec` ([`hash_joins`]). The left side is put into a table
//! ([`mod@build`]), one for all outputs or one for each; rows of the right side look up in it ([`mod@probe`]). Scans on
//! the right side are told which keys can have a match ([`mod@found`]).

mod build;
mod exec;
mod found;
mod grace;
mod parts;
mod plan;
mod probe;
#[cfg(test)]
mod tests;

pub use exec::JoinExec;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;

/// The plan with [`JoinExec`] wherever that can be.
pub fn hash_joins(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let replaced = plan.transform_up(|node| {
        let ours = match node.downcast_ref::<HashJoinExec>() {
            Some(join) => JoinExec::in_place_of(join)?,
            None => None,
        };
        Ok(match ours {
            Some(ours) => Transformed::yes(Arc::new(ours) as _),
            None => Transformed::no(node),
        })
    });
    replaced.data()
}
