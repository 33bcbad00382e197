//! Hash aggregation: rows are grouped by tables that stay within the processor's cache.
//!
//! [`HashAggregateExec`] stands in the places of DataFusion's `AggregateExec` ([`hash_aggregates`]), in the same two
//! stages: states of groups before an exchange, results behind it; or both within one operator. The first half of an
//! aggregation ([`mod@front`]) brings together what a small table can (Leis et al., *Morsel-Driven Parallelism*, SIGMOD
//! 2014, §4.4); the second ([`mod@back`]) splits groups by their hashes when they are many. States are those of the
//! aggregates themselves, so every aggregate runs here.

mod back;
mod exec;
mod front;
mod plan;
mod table;
#[cfg(test)]
mod tests;

pub use exec::HashAggregateExec;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

/// The plan with [`HashAggregateExec`] wherever that can be.
pub fn hash_aggregates(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let replaced = plan.transform_up(|node| {
        let ours = match node.downcast_ref::<AggregateExec>() {
            Some(aggregate) => HashAggregateExec::in_place_of(aggregate)?,
            None => None,
        };
        Ok(match ours {
            Some(ours) => Transformed::yes(Arc::new(ours) as _),
            None => Transformed::no(node),
        })
    });
    replaced.data()
}
