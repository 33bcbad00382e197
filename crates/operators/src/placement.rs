//! Plans for the task runtime: DataFusion's exchanges are replaced by ours.
//!
//! | DataFusion's node | in its place |
//! |---|---|
//! | `RepartitionExec` by hash or range | [`ExchangeExec`] with a lane for each output |
//! | `RepartitionExec` round robin | [`ExchangeExec`] with one lane, from which every output takes: an output that is quick gets more |
//! | `RepartitionExec` that keeps an order | `SortPreservingMergeExec` below an [`ExchangeExec`] with one input |
//! | `CoalescePartitionsExec` | [`ExchangeExec`] with one output; [`InTurnExec`] above the arms of UNION ALL |
//! | inputs of `SortPreservingMergeExec` | [`ExchangeExec`] from each input to its own output, so that inputs run beside the merge |
//! | inputs of `ScalarSubqueryExec` | as for a plan's root: one output |
//!
//! DataFusion's other operators spawn nothing outside tokio.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::exchange::{ExchangeExec, Way};
use crate::in_turn::InTurnExec;

/// The plan with our exchanges, and with one output.
///
/// Errors: an operator that tokio alone can run.
pub fn on_workers(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let placed = plan.transform_up(|node| {
        let replaced = in_place_of(&node)?;
        Ok(replaced.map_or(Transformed::no(node), Transformed::yes))
    });
    gathered(placed.data()?)
}

/// The plan with one output.
fn gathered(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    match plan.output_partitioning().partition_count() {
        0 | 1 => Ok(plan),
        _ => {
            let one: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(plan));
            Ok(in_place_of(&one)?.unwrap_or(one))
        }
    }
}

/// What comes in a node's place; `None` if the node stays.
fn in_place_of(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let as_any: &dyn ExecutionPlan = node.as_ref();
    if let Some(repartition) = as_any.downcast_ref::<RepartitionExec>() {
        return split(node, repartition).map(Some);
    }
    if let Some(coalesce) = as_any.downcast_ref::<CoalescePartitionsExec>() {
        let input = Arc::clone(coalesce.input());
        if let Some(arms) = arms_gathered(&input)? {
            let properties = Arc::clone(node.properties());
            return Ok(Some(Arc::new(InTurnExec::new(properties, arms, coalesce.fetch()))));
        }
        let way = Way::Gather { fetch: coalesce.fetch() };
        return Ok(Some(Arc::new(ExchangeExec::new(node, input, way))));
    }
    if let Some(merge) = as_any.downcast_ref::<SortPreservingMergeExec>() {
        let input = merge.input();
        if input.output_partitioning().partition_count() < 2 {
            return Ok(None);
        }
        let ahead = Arc::new(ExchangeExec::new(input, Arc::clone(input), Way::Ahead));
        return with_inputs(node, vec![ahead]).map(Some);
    }
    if as_any.downcast_ref::<ScalarSubqueryExec>().is_some() {
        let children = node.children().into_iter().enumerate();
        let children = children.map(|(number, child)| match number {
            0 => Ok(Arc::clone(child)),
            _ => gathered(Arc::clone(child)),
        });
        return with_inputs(node, children.collect::<Result<_>>()?).map(Some);
    }
    Ok(None)
}

/// Operators that give each partition's rows, or some of them, in that partition.
const BY_PARTITION: [&str; 6] = [
    "CoalesceBatchesExec",
    "CooperativeExec",
    "FilterExec",
    "LocalLimitExec",
    "PacedExec",
    "ProjectionExec",
];

/// A UNION ALL, perhaps below operators that work by partition, with a partition for each arm; `None` for other plans.
fn arms_gathered(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let children = plan.children();
    if plan.downcast_ref::<UnionExec>().is_some() {
        let arms = children.into_iter().map(|arm| gathered(Arc::clone(arm)));
        return with_inputs(plan, arms.collect::<Result<_>>()?).map(Some);
    }
    let [input] = children[..] else { return Ok(None) };
    if !BY_PARTITION.contains(&plan.name()) {
        return Ok(None);
    }
    let arms = arms_gathered(input)?;
    arms.map(|arms| with_inputs(plan, vec![arms])).transpose()
}

fn with_inputs(
    node: &Arc<dyn ExecutionPlan>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    replace_children_if_necessary(Arc::clone(node), inputs)
}

/// An exchange in the place of a repartition.
fn split(
    node: &Arc<dyn ExecutionPlan>,
    repartition: &RepartitionExec,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut input = Arc::clone(repartition.input());
    if repartition.preserve_order() {
        let Some(order) = input.output_ordering().cloned() else {
            return internal_err!("an order is kept that is not there");
        };
        let merge: Arc<dyn ExecutionPlan> = Arc::new(SortPreservingMergeExec::new(order, input));
        input = in_place_of(&merge)?.unwrap_or(merge);
    }
    let way = match repartition.partitioning() {
        Partitioning::RoundRobinBatch(_) => Way::Share,
        partitioning => Way::Split(partitioning.clone()),
    };
    Ok(Arc::new(ExchangeExec::new(node, input, way)))
}
