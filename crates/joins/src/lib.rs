//! The order of joins by cost: which tables are joined first, which side is put into the hash table, and whether
//! that table is one for all or split.
//!
//! [`JoinOrder`] is a rule for physical plans, in the place of DataFusion's `join_selection`, which keeps the order
//! of the statement's text. A *region* is a greatest subtree of inner joins, with the semi-joins and anti-joins over
//! them, and with filters and plain projections in between ([`mod@region`]); what lies below is its *relations*. The
//! order is searched over numbers alone ([`mod@search`]) and then built ([`mod@build`]). Joins of other kinds only
//! get their sides chosen ([`mod@sides`]).
//!
//! Estimates are those of DataFusion's statistics of the relations, whose scans try conditions on samples.
//!
//! **Invariant**, checked by `any_order_gives_the_same_rows` of crate `exec` and by `cargo xtask check claims`: a plan
//! gives the same rows, columns and names as before; knows no table and no transaction.
#![forbid(unsafe_code)]

mod build;
mod exprs;
mod region;
mod search;
mod sides;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;

use crate::region::Region;

/// The rule; it must run before distributions and orders are required.
#[derive(Debug, Default)]
pub struct JoinOrder;

impl PhysicalOptimizerRule for JoinOrder {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        ordered(plan, config.execution.target_partitions)
    }

    fn name(&self) -> &'static str {
        "join_order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan with its regions in order. `threads`: how many may run it.
fn ordered(plan: Arc<dyn ExecutionPlan>, threads: usize) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(region) = Region::of(&plan) {
        let region = region.with_relations(|relation| ordered(relation, threads))?;
        if let Some(built) = build::in_order(&region, threads)? {
            return Ok(built);
        }
    }
    let children = plan.children().into_iter().map(|child| ordered(Arc::clone(child), threads));
    let children = children.collect::<Result<Vec<_>>>()?;
    let plan = replace_children_if_necessary(plan, children)?;
    sides::chosen(plan, threads)
}
