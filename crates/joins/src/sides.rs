//! Sides of joins whose order is given: the hash table is made of the side for which that costs less.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode,
};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

/// Rows that a plan is taken to give if nothing is known.
const UNKNOWN_ROWS: f64 = 1_000.0;
/// Rows of which every thread may wait for one to make the hash table.
const ROWS_OF_ONE: f64 = 50_000.0;
/// Rows of which one hash table is made at most: one thread makes it.
const ROWS_OF_ONE_MOST: f64 = 4_000_000.0;

/// About how many rows a plan gives, at least one.
pub(crate) fn rows(plan: &dyn ExecutionPlan) -> f64 {
    let known = StatisticsContext::new().compute(plan, &StatisticsArgs::new());
    let known = known.ok().and_then(|known| known.num_rows.get_value().copied());
    known.map_or(UNKNOWN_ROWS, |rows| rows as f64).max(1.0)
}

/// About how many bytes a plan's rows have.
fn bytes(plan: &dyn ExecutionPlan) -> f64 {
    let known = StatisticsContext::new().compute(plan, &StatisticsArgs::new());
    let known = known.ok().and_then(|known| known.total_byte_size.get_value().copied());
    known.map_or_else(|| rows(plan) * 8.0, |bytes| bytes as f64)
}

/// Whether one hash table for all threads costs less than a split one: it is made by one thread, but rows of
/// neither side go through an exchange.
pub(crate) fn mode(build: f64, probe: f64, threads: usize) -> PartitionMode {
    let threads = threads as f64;
    let one = 2.0 * build + probe / threads;
    let split = (3.0 * build + 2.0 * probe) / threads;
    match build < ROWS_OF_ONE || (one < split && build < ROWS_OF_ONE_MOST) {
        true => PartitionMode::CollectLeft,
        false => PartitionMode::Partitioned,
    }
}

/// A join with its sides and mode chosen; other nodes as they are.
pub(crate) fn chosen(
    plan: Arc<dyn ExecutionPlan>,
    threads: usize,
) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return of_hash_join(join, threads);
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        let swap = join.join_type().supports_swap() && is_larger(join.left(), join.right());
        return if swap { join.swap_inputs() } else { Ok(plan) };
    }
    if let Some(join) = plan.downcast_ref::<CrossJoinExec>() {
        let swap = is_larger(join.left(), join.right());
        return if swap { join.swap_inputs() } else { Ok(plan) };
    }
    Ok(plan)
}

fn is_larger(left: &Arc<dyn ExecutionPlan>, right: &Arc<dyn ExecutionPlan>) -> bool {
    bytes(left.as_ref()) > bytes(right.as_ref())
}

fn of_hash_join(join: &HashJoinExec, threads: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let (left, right) = (rows(join.left().as_ref()), rows(join.right().as_ref()));
    if join.null_aware {
        let one = join.builder().with_partition_mode(PartitionMode::CollectLeft);
        return one.build_exec();
    }
    let kind = join.join_type();
    let swap = kind.supports_swap() && is_larger(join.left(), join.right());
    let (build, probe) = if swap { (right, left) } else { (left, right) };
    let mode = mode(build, probe, threads);
    match swap {
        true => join.swap_inputs(mode),
        false => join.builder().with_partition_mode(mode).build_exec(),
    }
}
