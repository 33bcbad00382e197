//! An aggregation as its plan says it: keys, aggregates, and what they are given.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::logical_expr::GroupsAccumulator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::aggregates::{
    AggregateExec, AggregateInputMode, AggregateOutputMode, aggregate_expressions,
};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};

use crate::groups::table::{Given, Table, accumulators};
use crate::hash::Hasher;
use crate::keys::{Keys, Long};
use crate::layout::{Layout, Nulls, WORDS_MAX};

/// What an operator does of an aggregation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Rows to states, as far as that is cheap: a group may come several times.
    Partial,
    /// States to results.
    Final,
    /// Rows to results.
    Whole,
}

/// An aggregation.
#[derive(Debug)]
pub(crate) struct Aggregation {
    pub(crate) stage: Stage,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) layout: Arc<Layout>,
    hasher: Hasher,
    aggregates: Vec<Arc<AggregateFunctionExpr>>,
    /// By aggregate: its arguments, or the columns of its states.
    arguments: Vec<Vec<Arc<dyn PhysicalExpr>>>,
    filters: Vec<Option<Arc<dyn PhysicalExpr>>>,
    /// Columns of the states of each aggregate.
    state_columns: Vec<usize>,
    /// Whether a row is cheaply made a state of its own.
    pub(crate) may_pass: bool,
    pub(crate) schema: SchemaRef,
}

impl Aggregation {
    /// The aggregation that a node does; `None` if it is one that is not done here.
    pub(crate) fn of(node: &AggregateExec) -> Result<Option<Aggregation>> {
        let groups = node.group_expr();
        let stage = match (node.mode().input_mode(), node.mode().output_mode()) {
            (AggregateInputMode::Raw, AggregateOutputMode::Partial) => Stage::Partial,
            (AggregateInputMode::Raw, AggregateOutputMode::Final) => Stage::Whole,
            (AggregateInputMode::Partial, AggregateOutputMode::Final) => Stage::Final,
            (AggregateInputMode::Partial, AggregateOutputMode::Partial) => return Ok(None),
        };
        let is_ours = groups.is_single()
            && !groups.is_empty()
            && node.limit_options().is_none()
            && *node.input_order_mode() == InputOrderMode::Linear
            && node.aggr_expr().iter().all(|aggregate| aggregate.order_bys().is_empty());
        if !is_ours {
            return Ok(None);
        }
        let keys = groups.group_schema(&node.input().schema())?;
        let Some(layout) =
            Layout::of(&keys, Nulls::Equal).filter(|layout| layout.words() <= WORDS_MAX)
        else {
            return Ok(None);
        };
        let aggregates = node.aggr_expr().to_vec();
        let arguments = aggregate_expressions(&aggregates, node.mode(), groups.expr().len())?;
        let filters = match stage {
            Stage::Final => vec![None; aggregates.len()],
            Stage::Partial | Stage::Whole => node.filter_expr().to_vec(),
        };
        let state_columns = aggregates.iter().map(|one| Ok(one.state_fields()?.len()));
        Ok(Some(Aggregation {
            stage,
            keys: groups.expr().iter().map(|(key, _)| Arc::clone(key)).collect(),
            layout: Arc::new(layout),
            hasher: Hasher::new(),
            arguments,
            filters,
            state_columns: state_columns.collect::<Result<_>>()?,
            may_pass: aggregates.iter().all(|one| one.groups_accumulator_supported()),
            aggregates,
            schema: node.schema(),
        }))
    }

    pub(crate) fn hasher(&self) -> &Hasher {
        &self.hasher
    }

    /// An empty table.
    pub(crate) fn table<const N: usize>(&self) -> Result<Table<N>> {
        let keys = Keys::new(Arc::clone(&self.layout), self.hasher);
        Ok(Table::new(keys, self.states()?))
    }

    fn states(&self) -> Result<Vec<Box<dyn GroupsAccumulator>>> {
        accumulators(&self.aggregates)
    }

    /// The columns of the rows' keys.
    pub(crate) fn keys(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        values(&self.keys, batch)
    }

    /// Of the columns of keys, those that are texts.
    pub(crate) fn texts(&self, keys: &[ArrayRef]) -> Vec<ArrayRef> {
        self.layout.texts().map(|(column, _)| Arc::clone(&keys[column])).collect()
    }

    /// The same, of which long ones are looked at.
    pub(crate) fn long_texts<'a>(&self, keys: &'a [ArrayRef]) -> Vec<Long<'a>> {
        self.layout.texts().map(|(column, _)| Long::of(&keys[column])).collect()
    }

    /// What each aggregate is given of rows.
    pub(crate) fn given(&self, batch: &RecordBatch) -> Result<Vec<Given>> {
        let given = |(arguments, filter): (&Vec<_>, &Option<Arc<dyn PhysicalExpr>>)| {
            let filter = filter.as_ref().map(|filter| value(filter, batch)).transpose()?;
            Ok(Given { values: values(arguments, batch)?, filter })
        };
        self.arguments.iter().zip(&self.filters).map(given).collect()
    }

    /// Columns of states by aggregate.
    pub(crate) fn by_aggregate(&self, columns: &[ArrayRef]) -> Vec<Vec<ArrayRef>> {
        let mut rest = columns;
        let next = |&count: &usize| {
            let (these, others) = rest.split_at(count);
            rest = others;
            these.to_vec()
        };
        self.state_columns.iter().map(next).collect()
    }
}

fn value(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<ArrayRef> {
    expr.evaluate(batch)?.into_array(batch.num_rows())
}

fn values(exprs: &[Arc<dyn PhysicalExpr>], batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
    exprs.iter().map(|expr| value(expr, batch)).collect()
}
