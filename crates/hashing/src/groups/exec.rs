//! The operator.

use std::collections::VecDeque;
use std::sync::Arc;

use std::fmt;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
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

use crate::groups::handed;
use crate::groups::plan::{Aggregation, Gives, Table};

/// Rows after which an operator that gives states looks whether they bring groups together.
const ROWS_LOOKED_AT: usize = 100_000;
/// Groups of a hundred rows from which on the other rows pass, each as a state of its own.
const GROUPS_PASSING: usize = 80;

/// Groups rows by one integer.
#[derive(Debug)]
pub struct HashAggregateExec {
    /// The aggregation as DataFusion's planner says it.
    node: Arc<AggregateExec>,
    aggregation: Arc<Aggregation>,
    metrics: ExecutionPlanMetricsSet,
}

impl HashAggregateExec {
    /// The operator in the place of DataFusion's; `None` if the aggregation has other keys than one integer, grouping
    /// sets, orders, aggregates that keep their rows, or ends early.
    /// `range`: numbers that keys are expected to lie within.
    pub fn in_place_of(node: &AggregateExec, range: usize) -> Result<Option<HashAggregateExec>> {
        let aggregation = Aggregation::of(node, range)?;
        Ok(aggregation.map(|aggregation| HashAggregateExec {
            node: Arc::new(node.clone()),
            aggregation: Arc::new(aggregation),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }

    /// The aggregation as DataFusion's planner says it.
    pub fn node(&self) -> &AggregateExec {
        &self.node
    }

    /// Numbers that keys are expected to lie within.
    pub(crate) fn range(&self) -> usize {
        self.aggregation.range
    }

    fn above(&self, node: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(node) = node.downcast_ref::<AggregateExec>() else {
            return internal_err!("an aggregation stays one");
        };
        Ok(Arc::new(HashAggregateExec {
            node: Arc::new(node.clone()),
            aggregation: Arc::clone(&self.aggregation),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
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
        let memory = MemoryConsumer::new(format!("{}[{partition}]", self.name()));
        let counter = |name| MetricBuilder::new(&self.metrics).counter(name, partition);
        let work = Work {
            input: Some(self.node.input().execute(partition, Arc::clone(&context))?),
            table: self.aggregation.table()?,
            gives: self.aggregation.gives,
            schema: Arc::clone(&self.aggregation.schema),
            rows: 0,
            looks_at: ROWS_LOOKED_AT,
            passes: false,
            ready: VecDeque::new(),
            rows_max: context.session_config().batch_size(),
            memory: memory.register(context.memory_pool()),
            metrics: BaselineMetrics::new(&self.metrics, partition),
            emptied: counter("emptied"),
            handed: counter("handed_over"),
            aggregation: Arc::clone(&self.aggregation),
        };
        let node = Arc::clone(&self.node);
        let begun = Running::Own(Box::new(work));
        let batches = stream::try_unfold(begun, move |running| {
            let (node, context) = (Arc::clone(&node), Arc::clone(&context));
            async move { running.next(&node, partition, &context).await }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
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

/// Who makes the rows of one output.
enum Running {
    Own(Box<Work>),
    /// DataFusion's operator, out of the states that [`Work`] goes on to give.
    Handed(SendableRecordBatchStream),
}

impl Running {
    /// The next batch, and who makes the others.
    async fn next(
        self,
        node: &AggregateExec,
        partition: usize,
        context: &Arc<TaskContext>,
    ) -> Result<Option<(RecordBatch, Running)>> {
        let mut stream = match self {
            Running::Handed(stream) => stream,
            Running::Own(mut work) => match work.next().await? {
                Next::End => return Ok(None),
                Next::Batch(batch) => return Ok(Some((batch, Running::Own(work)))),
                Next::Refused => {
                    work.give_states(handed::of_states(node)?.schema());
                    handed::results_of(node, work.into_stream(), partition, context)?
                }
            },
        };
        let next = stream.next().await.transpose()?;
        Ok(next.map(|batch| (batch, Running::Handed(stream))))
    }
}

/// What comes next.
enum Next {
    Batch(RecordBatch),
    End,
    /// Nothing: there is no memory for the groups of which results are to be given.
    Refused,
}

/// The work of one output.
struct Work {
    /// `None` once all was read.
    input: Option<SendableRecordBatchStream>,
    aggregation: Arc<Aggregation>,
    table: Table,
    gives: Gives,
    /// The schema of what is given.
    schema: SchemaRef,
    /// Rows that were taken in.
    rows: usize,
    /// How many rows that are when it is seen whether they bring groups together.
    looks_at: usize,
    /// Whether rows pass, each as a state of its own.
    passes: bool,
    /// Batches that are to be given out.
    ready: VecDeque<RecordBatch>,
    rows_max: usize,
    memory: MemoryReservation,
    metrics: BaselineMetrics,
    /// How often states were given before all rows were read.
    emptied: Count,
    /// Whether memory was refused, and DataFusion's operator made the results.
    handed: Count,
}

impl Work {
    /// What comes next.
    ///
    /// Errors: 57014, 53200, and those of aggregates and inputs.
    async fn next(&mut self) -> Result<Next> {
        loop {
            SqlError::unless_interrupted().map_err(external)?;
            proceed().await;
            if let Some(batch) = self.ready.pop_front() {
                self.metrics.record_output(batch.num_rows());
                return Ok(Next::Batch(batch));
            }
            if self.table.is_giving() {
                self.give()?;
                continue;
            }
            let Some(input) = &mut self.input else {
                return Ok(Next::End);
            };
            match input.next().await {
                Some(batch) => {
                    self.take(&batch?)?;
                    if !self.has_memory()? {
                        return Ok(Next::Refused);
                    }
                }
                None => {
                    self.input = None;
                    self.table.begin();
                }
            }
        }
    }

    /// Takes rows in.
    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let time = self.metrics.elapsed_compute().clone();
        let _timer = time.timer();
        if self.passes {
            let columns = self.table.passed(&self.aggregation, batch)?;
            return self.put(columns);
        }
        self.table.take(&self.aggregation, batch)?;
        self.rows += batch.num_rows();
        let may_pass = self.gives == Gives::States && self.aggregation.passes_rows();
        if may_pass && self.rows >= self.looks_at {
            self.looks_at = usize::MAX;
            if self.table.len() * 100 >= self.rows * GROUPS_PASSING {
                self.passes = true;
                self.emptied.add(1);
                self.table.begin();
            }
        }
        Ok(())
    }

    /// Makes the next groups ready.
    fn give(&mut self) -> Result<()> {
        let time = self.metrics.elapsed_compute().clone();
        let _timer = time.timer();
        match self.table.next(&self.aggregation, self.gives)? {
            Some(columns) => self.put(columns),
            None => {
                self.memory.free();
                Ok(())
            }
        }
    }

    /// Makes columns ready to be given out, in batches.
    fn put(&mut self, columns: Vec<ArrayRef>) -> Result<()> {
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
        let mut from = 0;
        while from < batch.num_rows() {
            let rows = self.rows_max.min(batch.num_rows() - from);
            self.ready.push_back(batch.slice(from, rows));
            from += rows;
        }
        Ok(())
    }

    /// Accounts for the memory in use. Where there is no more, states are given on; `false`: results were to be given.
    ///
    /// Errors: 53200 if there is none for one batch.
    fn has_memory(&mut self) -> Result<bool> {
        if self.table.is_giving() {
            return Ok(true);
        }
        let refused = match self.memory.try_resize(self.table.size()) {
            Ok(()) => return Ok(true),
            Err(refused) => refused,
        };
        if self.table.len() == 0 {
            return Err(refused);
        }
        if self.gives == Gives::Results {
            return Ok(false);
        }
        self.emptied.add(1);
        self.table.begin();
        Ok(true)
    }

    /// Gives states from now on, those of the groups that there are first.
    fn give_states(&mut self, schema: SchemaRef) {
        (self.gives, self.schema) = (Gives::States, schema);
        self.handed.add(1);
        self.memory.free();
        self.table.begin();
    }

    /// The batches that are still to be given.
    fn into_stream(self: Box<Self>) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let batches = stream::try_unfold(self, async |mut work| {
            Ok(match work.next().await? {
                Next::Batch(batch) => Some((batch, work)),
                Next::End => None,
                Next::Refused => return internal_err!("states are given on"),
            })
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, batches))
    }
}
