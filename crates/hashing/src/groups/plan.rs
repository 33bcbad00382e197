//! An aggregation as its plan says it: keys, aggregates, and what they are given.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::nullif;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::aggregates::{
    AggregateExec, AggregateInputMode, AggregateMode, AggregateOutputMode, aggregate_expressions,
};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};

use crate::groups::index::{Index, Word};
use crate::hash::Hasher;
use crate::layout::{Layout, Nulls};

/// The rows that an operator is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    Rows,
    States,
}

/// The rows that an operator gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gives {
    /// A group may come several times.
    States,
    Results,
}

/// An aggregation.
#[derive(Debug)]
pub(crate) struct Aggregation {
    given: Given,
    pub(crate) gives: Gives,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    layout: Layout,
    /// Bits of a key.
    bits: u32,
    /// Numbers that keys are expected to lie within.
    pub(crate) range: usize,
    hasher: Hasher,
    aggregates: Vec<Arc<AggregateFunctionExpr>>,
    /// By aggregate: its arguments, or the columns of its states.
    arguments: Vec<Vec<Arc<dyn PhysicalExpr>>>,
    filters: Vec<Option<Arc<dyn PhysicalExpr>>>,
    pub(crate) schema: SchemaRef,
}

impl Aggregation {
    /// The aggregation that a node does; `None` if it is one that is not done here.
    /// `range`: numbers that keys are expected to lie within.
    pub(crate) fn of(node: &AggregateExec, range: usize) -> Result<Option<Aggregation>> {
        let groups = node.group_expr();
        let gives = match node.mode().output_mode() {
            AggregateOutputMode::Partial => Gives::States,
            AggregateOutputMode::Final => Gives::Results,
        };
        let given = match node.mode().input_mode() {
            AggregateInputMode::Raw => Given::Rows,
            AggregateInputMode::Partial => Given::States,
        };
        let is_ours = groups.is_single()
            && !groups.is_empty()
            && node.limit_options().is_none()
            && *node.input_order_mode() == InputOrderMode::Linear
            && *node.mode() != AggregateMode::PartialReduce
            && node.aggr_expr().iter().all(|aggregate| {
                aggregate.order_bys().is_empty() && aggregate.groups_accumulator_supported()
            });
        if !is_ours {
            return Ok(None);
        }
        let keys = groups.group_schema(&node.input().schema())?;
        let Some(layout) = Layout::of(&keys, Nulls::LeftOut) else { return Ok(None) };
        let Some(bits) = layout.integer_bits() else { return Ok(None) };
        let aggregates = node.aggr_expr().to_vec();
        let arguments = aggregate_expressions(&aggregates, node.mode(), groups.expr().len())?;
        let filters = match given {
            Given::States => vec![None; aggregates.len()],
            Given::Rows => node.filter_expr().to_vec(),
        };
        Ok(Some(Aggregation {
            given,
            gives,
            keys: groups.expr().iter().map(|(key, _)| Arc::clone(key)).collect(),
            layout,
            bits,
            range,
            hasher: Hasher::new(),
            aggregates,
            arguments,
            filters,
            schema: node.schema(),
        }))
    }

    /// Whether rows may pass, each as a state of its own.
    pub(crate) fn passes_rows(&self) -> bool {
        self.given == Given::Rows
    }

    /// A table without groups.
    ///
    /// Errors: those of the aggregates.
    pub(crate) fn table(&self) -> Result<Table> {
        let states = self.aggregates.iter().map(|one| one.create_groups_accumulator());
        Ok(Table {
            index: Index::new(self.hasher, self.bits, self.range),
            states: states.collect::<Result<_>>()?,
            words: Vec::new(),
            groups: Vec::new(),
            giving: None,
        })
    }

    fn keys(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        values(&self.keys, batch)
    }

    /// The arguments of each aggregate, and the rows that FILTER (WHERE …) lets pass.
    fn arguments(&self, batch: &RecordBatch) -> Result<Vec<(Vec<ArrayRef>, Option<BooleanArray>)>> {
        let one = |(arguments, filter): (&Vec<_>, &Option<Arc<dyn PhysicalExpr>>)| {
            let filter = filter.as_ref().map(|filter| value(filter, batch)).transpose()?;
            Ok((values(arguments, batch)?, filter.map(|rows| rows.as_boolean().clone())))
        };
        self.arguments.iter().zip(&self.filters).map(one).collect()
    }
}

fn value(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<ArrayRef> {
    expr.evaluate(batch)?.into_array(batch.num_rows())
}

fn values(exprs: &[Arc<dyn PhysicalExpr>], batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
    exprs.iter().map(|expr| value(expr, batch)).collect()
}

/// Groups that are given out in one step.
const GROUPS_STEP: usize = 1 << 18;

/// Groups that are given out.
struct Giving {
    keys: Vec<Word>,
    of_null: Option<usize>,
    /// Groups that were given.
    from: usize,
}

/// A table of groups: their keys, and the state of each aggregate for each group.
pub(crate) struct Table {
    index: Index,
    states: Vec<Box<dyn GroupsAccumulator>>,
    /// The keys of a batch, kept for their memory.
    words: Vec<Word>,
    /// The group of each row of a batch, likewise.
    groups: Vec<usize>,
    /// The groups while they are given out.
    giving: Option<Giving>,
}

impl Table {
    /// Groups.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether groups are given out.
    pub(crate) fn is_giving(&self) -> bool {
        self.giving.is_some()
    }

    /// Bytes.
    pub(crate) fn size(&self) -> usize {
        let states: usize = self.states.iter().map(|state| state.size()).sum();
        let giving = self.giving.as_ref().map_or(0, |giving| giving.keys.capacity() * 8);
        let rows = self.words.capacity() * 8 + self.groups.capacity() * size_of::<usize>();
        self.index.size() + states + giving + rows
    }

    /// Takes rows or states in.
    pub(crate) fn take(&mut self, of: &Aggregation, batch: &RecordBatch) -> Result<()> {
        let keys = of.keys(batch)?;
        of.layout.encode(&keys, &of.hasher, &mut self.words);
        self.index.find(&self.words, keys[0].nulls(), &mut self.groups);
        let count = self.index.len();
        for (state, (values, filter)) in self.states.iter_mut().zip(of.arguments(batch)?) {
            match of.given {
                Given::Rows => {
                    state.update_batch(&values, &self.groups, filter.as_ref(), count)?;
                }
                Given::States => state.merge_batch(&values, &self.groups, count)?,
            }
        }
        Ok(())
    }

    /// Keys and states of rows, of which each makes a group.
    pub(crate) fn passed(&self, of: &Aggregation, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let mut columns = of.keys(batch)?;
        for (state, (values, filter)) in self.states.iter().zip(of.arguments(batch)?) {
            columns.extend(state.convert_to_state(&values, filter.as_ref())?);
        }
        Ok(columns)
    }

    /// Begins to give out all groups; the table takes nothing in until all are.
    pub(crate) fn begin(&mut self) {
        let (keys, of_null) = self.index.take();
        self.giving = Some(Giving { keys, of_null, from: 0 });
        (self.words, self.groups) = (Vec::new(), Vec::new());
    }

    /// Keys, and states or results, of the next groups; `None` once all were given.
    pub(crate) fn next(&mut self, of: &Aggregation, gives: Gives) -> Result<Option<Vec<ArrayRef>>> {
        let Some(Giving { keys, of_null, from }) = &mut self.giving else { return Ok(None) };
        let left = keys.len() - *from;
        if left == 0 {
            self.giving = None;
            return Ok(None);
        }
        let (count, emit) = match left {
            ..=GROUPS_STEP => (left, EmitTo::All),
            _ => (GROUPS_STEP, EmitTo::First(GROUPS_STEP)),
        };
        let mut column = of.layout.decode(0, &keys[*from..*from + count]);
        if let Some(null) =
            of_null.and_then(|null| null.checked_sub(*from)).filter(|at| *at < count)
        {
            let is_null = BooleanBuffer::collect_bool(count, |at| at == null);
            column = nullif(&column, &BooleanArray::new(is_null, None))?;
        }
        *from += count;
        let mut columns = vec![column];
        for state in &mut self.states {
            match gives {
                Gives::States => columns.extend(state.state(emit)?),
                Gives::Results => columns.push(state.evaluate(emit)?),
            }
        }
        Ok(Some(columns))
    }
}
