//! Aggregation by one integer: numbers, dates, moments, decimals of at most 18 digits.
//!
//! [`HashAggregateExec`] stands in the places of DataFusion's `AggregateExec` ([`hash_aggregates`]), in the same
//! stages: states of groups before an exchange, results behind it; or both within one operator. The accumulators are
//! DataFusion's. Ours is how a row finds its group ([`mod@index`]): integers that lie near each other have a place
//! each, as keys of tables mostly do. If they turn out not to, they are compared within the slot that their hash leads
//! to, which is no quicker than DataFusion's way: so an aggregation is ours only where the range of its keys is known and
//! does not exceed their number by much.
//!
//! Where memory is refused, states are given on; what is to be a result then is made by DataFusion's operator, which
//! can spill, out of the states ([`mod@handed`]).

mod exec;
mod handed;
mod index;
mod plan;
#[cfg(test)]
mod tests;

pub use exec::HashAggregateExec;

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue, Statistics};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext};

/// Numbers in the range of an aggregation's keys for each group, from which on DataFusion's operator does it.
const SPARSE: f64 = 8.0;
/// Numbers in a range that is small for any number of groups.
const SMALL: f64 = 16_384.0;

/// The plan with [`HashAggregateExec`] wherever keys lie near each other.
pub fn hash_aggregates(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let replaced = plan.transform_up(|node| {
        let ours = match node.downcast_ref::<AggregateExec>() {
            Some(aggregate) => match range(aggregate) {
                Some(range) => HashAggregateExec::in_place_of(aggregate, range)?,
                None => None,
            },
            None => None,
        };
        Ok(match ours {
            Some(ours) => Transformed::yes(Arc::new(ours) as _),
            None => Transformed::no(node),
        })
    });
    replaced.data()
}

/// Numbers within which the keys of an aggregation lie, if it takes the states of one of ours, or they lie near each
/// other; `None` for others.
fn range(aggregate: &AggregateExec) -> Option<usize> {
    let mut input = aggregate.input();
    while let Some(exchange) = input.downcast_ref::<RepartitionExec>() {
        input = exchange.input();
    }
    if aggregate.mode().input_mode() == AggregateInputMode::Partial {
        return input.downcast_ref::<HashAggregateExec>().map(HashAggregateExec::range);
    }
    let [(key, _)] = aggregate.group_expr().expr() else { return None };
    let column = key.downcast_ref::<Column>()?.index();
    let input = aggregate.input().as_ref();
    let known = StatisticsContext::new().compute(input, &StatisticsArgs::new()).ok()?;
    narrow_range(&known, column)
}

/// Numbers within which the values of a column lie, if these are not many more than there are different ones;
/// `None` if they are, or nobody knows.
fn narrow_range(known: &Statistics, column: usize) -> Option<usize> {
    let rows = *known.num_rows.get_value()? as f64;
    let of = known.column_statistics.get(column)?;
    let number = |value: &ScalarValue| match value.cast_to(&DataType::Float64).ok()? {
        ScalarValue::Float64(number) => number,
        _ => None,
    };
    let end = |value: &ScalarValue| match value {
        // A moment becomes no floating-point number, but an integer.
        ScalarValue::Date32(_) => number(&value.cast_to(&DataType::Int32).ok()?),
        ScalarValue::TimestampMicrosecond(..) => number(&value.cast_to(&DataType::Int64).ok()?),
        other => number(other),
    };
    let range = end(of.max_value.get_value()?)? - end(of.min_value.get_value()?)? + 1.0;
    let groups = of.distinct_count.get_value().map_or(rows, |&groups| groups as f64);
    (range <= SMALL || range <= groups.min(rows) * SPARSE).then_some(range as usize)
}
