//! The operator.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
    StatisticsArgs,
};
use futures::{StreamExt, stream};
use halcyon_sql::diagnose::external;
use halcyon_sql::error::SqlError;
use halcyon_task::proceed;

use crate::groups::back::{self, Back};
use crate::groups::front::{self, Front, Given};
use crate::groups::plan::{Aggregation, Stage};
use crate::layout::WORDS_MAX;

/// Groups rows by hash tables that stay small.
#[derive(Debug)]
pub struct HashAggregateExec {
    /// The aggregation as DataFusion's planner says it.
    node: Arc<AggregateExec>,
    aggregation: Arc<Aggregation>,
    metrics: ExecutionPlanMetricsSet,
    bounds: (front::Bounds, back::Bounds),
}

impl HashAggregateExec {
    /// The operator in the place of DataFusion's; `None` if the aggregation has grouping sets, keys or orders that
    /// are not known here, or ends early.
    pub fn in_place_of(node: &AggregateExec) -> Result<Option<HashAggregateExec>> {
        let aggregation = Aggregation::of(node)?;
        Ok(aggregation.map(|aggregation| HashAggregateExec {
            node: Arc::new(node.clone()),
            aggregation: Arc::new(aggregation),
            metrics: ExecutionPlanMetricsSet::new(),
            bounds: Default::default(),
        }))
    }

    /// The aggregation as DataFusion's planner says it.
    pub fn node(&self) -> &AggregateExec {
        &self.node
    }

    /// With tables of few groups, for tests.
    #[cfg(test)]
    pub(crate) fn bounded(mut self, front: front::Bounds, back: back::Bounds) -> Self {
        self.bounds = (front, back);
        self
    }

    fn above(&self, node: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(node) = node.downcast_ref::<AggregateExec>() else {
            return internal_err!("an aggregation stays one");
        };
        Ok(Arc::new(HashAggregateExec {
            node: Arc::new(node.clone()),
            aggregation: Arc::clone(&self.aggregation),
            metrics: ExecutionPlanMetricsSet::new(),
            bounds: self.bounds,
        }))
    }

    fn stream<const N: usize>(
        &self,
        partition: usize,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let aggregation = &self.aggregation;
        let (front, back) = self.bounds;
        let half = match aggregation.stage {
            Stage::Partial => Half::First(Front::new(aggregation, front)?),
            Stage::Final => Half::Second(Box::new(Back::new(aggregation, back)?)),
            Stage::Whole => {
                Half::Both(Front::new(aggregation, front)?, Box::new(Back::new(aggregation, back)?))
            }
        };
        let memory = MemoryConsumer::new(format!("{}[{partition}]", self.name()));
        let work = Work::<N> {
            input: Some(self.node.input().execute(partition, Arc::clone(context))?),
            aggregation: Arc::clone(aggregation),
            half,
            has_given: false,
            ready: VecDeque::new(),
            rows_max: context.session_config().batch_size(),
            memory: memory.register(context.memory_pool()),
            metrics: BaselineMetrics::new(&self.metrics, partition),
            emptied: MetricBuilder::new(&self.metrics).counter("emptied", partition),
            parts: MetricBuilder::new(&self.metrics).counter("parts", partition),
        };
        let batches = stream::try_unfold(work, async |mut work| {
            let next = work.next().await?;
            Ok(next.map(|batch| (batch, work)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}

impl DisplayAs for HashAggregateExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash")?;
        self.node.fmt_as(kind, f)
    }
}

impl ExecutionPlan for HashAggregateExec {
    fn name(&self) -> &'static str {
        "HashAggregateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.node.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.node.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.node.apply_expressions(f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.above(Arc::clone(&self.node).replace_children(children, options)?)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        match self.aggregation.layout.words() {
            0 | 1 => self.stream::<1>(partition, &context),
            2 => self.stream::<2>(partition, &context),
            3 => self.stream::<3>(partition, &context),
            4 => self.stream::<4>(partition, &context),
            5 | 6 => self.stream::<6>(partition, &context),
            7 | 8 => self.stream::<8>(partition, &context),
            _ => self.stream::<WORDS_MAX>(partition, &context),
        }
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.node.statistics_from_inputs(inputs, args)
    }
}

/// The halves of an aggregation that an operator does.
enum Half<const N: usize> {
    First(Front<N>),
    Second(Box<Back<N>>),
    Both(Front<N>, Box<Back<N>>),
}

impl<const N: usize> Half<N> {
    fn size(&self) -> usize {
        match self {
            Half::First(front) => front.size(),
            Half::Second(back) => back.size(),
            Half::Both(front, back) => front.size() + back.size(),
        }
    }
}

/// The work of one output.
struct Work<const N: usize> {
    /// `None` once all was read.
    input: Option<SendableRecordBatchStream>,
    aggregation: Arc<Aggregation>,
    half: Half<N>,
    /// Whether the first half has given groups to the second.
    has_given: bool,
    /// Batches that are to be given out.
    ready: VecDeque<RecordBatch>,
    rows_max: usize,
    memory: MemoryReservation,
    metrics: BaselineMetrics,
    /// How often the first half was emptied, or let rows pass.
    emptied: Count,
    /// Parts that the second half has split its groups into.
    parts: Count,
}

impl<const N: usize> Work<N> {
    /// The next batch.
    ///
    /// Errors: 57014, 53200, and those of aggregates and inputs.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            SqlError::unless_interrupted().map_err(external)?;
            proceed().await;
            if let Some(batch) = self.ready.pop_front() {
                self.metrics.record_output(batch.num_rows());
                return Ok(Some(batch));
            }
            if self.gives() {
                self.results()?;
                continue;
            }
            let Some(input) = &mut self.input else {
                match self.results()? {
                    true => continue,
                    false => return Ok(None),
                }
            };
            match input.next().await {
                Some(batch) => self.take(&batch?)?,
                None => {
                    self.input = None;
                    self.end()?;
                }
            }
            self.merge_parts().await?;
            self.account()?;
        }
    }

    /// Whether a first half gives the groups of a full table on.
    fn gives(&self) -> bool {
        matches!(&self.half, Half::First(front) if front.table.is_giving())
    }

    /// Takes rows in.
    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let time = self.metrics.elapsed_compute().clone();
        let _timer = time.timer();
        match &mut self.half {
            Half::First(front) => match front.take(batch)? {
                Given::Nothing => {}
                Given::Rows(columns) => {
                    self.emptied.add(1);
                    self.put(columns)?;
                }
                Given::Table => self.emptied.add(1),
            },
            Half::Second(back) => {
                let mut columns = self.aggregation.keys(batch)?;
                let states = self.aggregation.given(batch)?;
                columns.extend(states.into_iter().flat_map(|given| given.values));
                back.take(columns)?;
            }
            Half::Both(front, back) => {
                match front.take(batch)? {
                    Given::Nothing => return Ok(()),
                    Given::Rows(columns) => back.take(columns)?,
                    Given::Table => back.take_groups(&mut front.table)?,
                }
                self.emptied.add(1);
                self.has_given = true;
            }
        }
        Ok(())
    }

    /// All rows were read.
    fn end(&mut self) -> Result<()> {
        match &mut self.half {
            Half::First(front) if front.table.len() > 0 => front.table.begin(),
            Half::First(_) => {}
            Half::Second(back) => back.end(),
            Half::Both(front, back) => {
                if front.table.len() > 0 {
                    front.table.begin();
                }
                if self.has_given {
                    back.take_groups(&mut front.table)?;
                }
                back.end();
            }
        }
        Ok(())
    }

    /// Lets the parts of the second half take what is kept for them.
    async fn merge_parts(&mut self) -> Result<()> {
        let (Half::Second(back) | Half::Both(_, back)) = &mut self.half else { return Ok(()) };
        loop {
            let time = self.metrics.elapsed_compute().timer();
            if !back.merge_part()? {
                return Ok(());
            }
            drop(time);
            SqlError::unless_interrupted().map_err(external)?;
            proceed().await;
        }
    }

    /// Makes the next results ready. Whether there were some.
    fn results(&mut self) -> Result<bool> {
        let time = self.metrics.elapsed_compute().clone();
        let _timer = time.timer();
        let columns = match &mut self.half {
            Half::First(front) => front.table.next_states()?,
            Half::Both(front, _) if front.table.is_giving() => front.table.next_results()?,
            Half::Second(back) | Half::Both(_, back) => {
                self.parts.add(back.parts().saturating_sub(self.parts.value()));
                back.results()?
            }
        };
        let Some(columns) = columns else {
            self.memory.free();
            return Ok(false);
        };
        self.put(columns)?;
        Ok(true)
    }

    /// Makes columns ready to be given out, in batches.
    fn put(&mut self, columns: Vec<ArrayRef>) -> Result<()> {
        let batch = RecordBatch::try_new(Arc::clone(&self.aggregation.schema), columns)?;
        let mut from = 0;
        while from < batch.num_rows() {
            let rows = self.rows_max.min(batch.num_rows() - from);
            self.ready.push_back(batch.slice(from, rows));
            from += rows;
        }
        Ok(())
    }

    /// Accounts for the memory in use. A first half that gets no more gives its groups on.
    ///
    /// Errors: 53200.
    fn account(&mut self) -> Result<()> {
        let refused = match self.memory.try_resize(self.half.size()) {
            Ok(()) => return Ok(()),
            Err(refused) => refused,
        };
        let Half::First(front) = &mut self.half else { return Err(refused) };
        if front.table.len() == 0 {
            return Err(refused);
        }
        self.emptied.add(1);
        front.table.begin();
        Ok(())
    }
}
