//! The operator that sorts rows batch by batch, and merges the batches: DataFusion's way to sort, in steps.
//!
//! DataFusion's operator sorts all batches that it has collected when its first row is asked for, which kept a worker for 120 ms
//! over a million rows; this one sorts each as it comes, and lets other tasks run between two of them.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::common::{DataFusionError, Result, Statistics, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::sorts::sort::{SortExec, sort_batch};
use datafusion::physical_plan::sorts::streaming_merge::StreamingMergeBuilder;
use datafusion::physical_plan::statistics::ChildStats;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions, StatisticsArgs,
};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use halcyon_spill::Spill;
use halcyon_task::poll_proceed;

use crate::files::is_denied;
use crate::sorting::{RunSortExec, fmt_renamed};
use crate::steps::{Steps, comparisons};

/// The most rows that are sorted in one step.
const ROWS_MAX: usize = 1 << 14;

/// Bytes of rows that are sorted together where the key is one column, so that fewer batches are merged: comparing
/// is cheap there, and changing from one batch to another is not.
const BYTES_TOGETHER: usize = 1 << 19;

/// Sorts the rows of each input by itself, batch by batch. Rows with equal keys come in any order.
pub struct BatchSortExec {
    /// The sort as DataFusion's planner says it.
    node: Arc<dyn ExecutionPlan>,
    order: LexOrdering,
    /// What goes on once memory has no room for the rows, if the statement may put them into files; `None`: rows or keys
    /// that have no bytes.
    overflow: Option<Arc<RunSortExec>>,
    metrics: ExecutionPlanMetricsSet,
    pub(crate) steps: Steps,
}

impl BatchSortExec {
    /// The operator in the place of DataFusion's; `None` if few rows are wanted, or the input is in order.
    pub fn in_place_of(
        node: &SortExec,
        overflow: Option<RunSortExec>,
    ) -> Result<Option<BatchSortExec>> {
        let is_sorted =
            node.input().equivalence_properties().ordering_satisfy(node.expr().clone())?;
        let is_ours = node.fetch().is_none() && !is_sorted;
        let (order, overflow) = (node.expr().clone(), overflow.map(Arc::new));
        Ok(is_ours.then(|| BatchSortExec::new(Arc::new(node.clone()), order, overflow)))
    }

    fn new(
        node: Arc<dyn ExecutionPlan>,
        order: LexOrdering,
        overflow: Option<Arc<RunSortExec>>,
    ) -> Self {
        let metrics = overflow
            .as_ref()
            .map_or_else(ExecutionPlanMetricsSet::default, |sort| sort.metric_set());
        BatchSortExec { node, order, overflow, metrics, steps: Steps::default() }
    }

    /// The operator above the input of another instance of its node.
    fn above(
        &self,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let node = Arc::clone(&self.node).replace_children(children, options)?;
        let overflow = self.overflow.as_ref().map(|sort| Arc::new(sort.over(&node)));
        Ok(Arc::new(BatchSortExec::new(node, self.order.clone(), overflow)))
    }
}

impl fmt::Debug for BatchSortExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for BatchSortExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_renamed("Batch", self.node.as_ref(), kind, f)
    }
}

impl ExecutionPlan for BatchSortExec {
    fn name(&self) -> &'static str {
        "BatchSortExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.node.properties()
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
        self.above(children, options)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.above(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    /// The same sort, which has not run.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let overflow = self.overflow.as_ref().map(|sort| Arc::new(sort.over(&self.node)));
        Ok(Arc::new(BatchSortExec::new(Arc::clone(&self.node), self.order.clone(), overflow)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let [input] = self.node.children()[..] else {
            return internal_err!("a sort has one input");
        };
        let may_spill = context.session_config().get_extension::<Spill>().is_some();
        let overflow = self.overflow.clone().filter(|_| may_spill);
        let memory = MemoryConsumer::new(format!("BatchSortExec[{partition}]"));
        let work = Work {
            input: input.execute(partition, Arc::clone(&context))?,
            order: self.order.clone(),
            overflow,
            memory: memory.with_can_spill(may_spill).register(context.memory_pool()),
            told: BaselineMetrics::new(&self.metrics, partition),
            steps: self.steps.clone(),
            rows_max: context.session_config().batch_size(),
            partition,
            context,
            waiting: VecDeque::new(),
            gathered: Gathered::default(),
            sorted: Vec::new(),
            sorted_bytes: 0,
            other_bytes: 0,
        };
        let rows = stream::once(work.rows()).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.node.child_stats_requests(partition)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.node.statistics_from_inputs(inputs, args)
    }
}

/// Rows that are going to be sorted together.
#[derive(Default)]
struct Gathered {
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

/// The work of one output.
struct Work {
    input: SendableRecordBatchStream,
    order: LexOrdering,
    overflow: Option<Arc<RunSortExec>>,
    memory: MemoryReservation,
    told: BaselineMetrics,
    steps: Steps,
    rows_max: usize,
    partition: usize,
    context: Arc<TaskContext>,
    /// Parts of the last batch that are not gathered yet.
    waiting: VecDeque<RecordBatch>,
    gathered: Gathered,
    sorted: Vec<RecordBatch>,
    /// Bytes of the sorted batches.
    sorted_bytes: usize,
    /// Bytes of those that wait or are gathered.
    other_bytes: usize,
}

impl Work {
    /// The rows in order.
    ///
    /// Errors: 57014, 53200, and those of keys and inputs.
    async fn rows(mut self) -> Result<SendableRecordBatchStream> {
        while let Some(batch) = self.input.next().await {
            if let Err(denied) = self.take(batch?).await {
                return self.overflow(denied);
            }
        }
        match self.sort().await {
            Ok(()) => self.merged(),
            Err(denied) => self.overflow(denied),
        }
    }

    /// Gathers a batch, and sorts what was gathered before if that is enough. Whatever fails, no row is lost.
    async fn take(&mut self, batch: RecordBatch) -> Result<()> {
        let bytes = get_record_batch_memory_size(&batch);
        let rows = batch.num_rows();
        // A batch beyond what is sorted in one step comes in parts.
        let parts = (0..rows).step_by(ROWS_MAX);
        self.waiting.extend(parts.map(|first| batch.slice(first, ROWS_MAX.min(rows - first))));
        self.other_bytes += bytes;
        self.memory.try_grow(bytes)?;
        let mut bytes = Some(bytes);
        while let Some(part) = self.waiting.front() {
            if self.is_enough(part.num_rows()) {
                self.sort().await?;
            }
            let Some(part) = self.waiting.pop_front() else { break };
            self.gathered.rows += part.num_rows();
            self.gathered.bytes += bytes.take().unwrap_or_default();
            self.gathered.batches.push(part);
        }
        Ok(())
    }

    /// Whether the gathered rows are to be sorted before so many others come to them.
    fn is_enough(&self, more: usize) -> bool {
        let Gathered { rows, bytes, .. } = self.gathered;
        let most = match self.order.len() {
            1 if bytes < BYTES_TOGETHER => ROWS_MAX,
            1 => 0,
            _ => self.rows_max.min(ROWS_MAX),
        };
        rows > 0 && rows + more > most
    }

    /// Sorts what was gathered.
    async fn sort(&mut self) -> Result<()> {
        let rows = self.gathered.rows;
        if rows > 0 {
            let time = self.told.elapsed_compute().clone();
            let timer = time.timer();
            let of = &self.gathered.batches;
            let batch = match &of[..] {
                [one] => sort_batch(one, &self.order, None)?,
                several => {
                    sort_batch(&concat_batches(&of[0].schema(), several)?, &self.order, None)?
                }
            };
            timer.done();
            self.sorted_bytes += get_record_batch_memory_size(&batch);
            self.sorted.push(batch);
            self.other_bytes -= std::mem::take(&mut self.gathered).bytes;
            self.memory.try_resize(self.sorted_bytes + self.other_bytes)?;
            self.steps.end(rows * comparisons(rows)).await?;
        }
        Ok(())
    }

    /// The sorted batches, merged.
    fn merged(mut self) -> Result<SendableRecordBatchStream> {
        let schema = self.input.schema();
        let mut sorted = std::mem::take(&mut self.sorted);
        let given_in = Arc::<AtomicU64>::default();
        let part = |batch: RecordBatch| {
            let memory =
                self.memory.split(get_record_batch_memory_size(&batch).min(self.memory.size()));
            let batch = Some((batch, memory));
            let (schema, given_in) = (Arc::clone(&schema), Arc::clone(&given_in));
            Box::pin(Sorted { schema, batch, given_in }) as SendableRecordBatchStream
        };
        if sorted.len() < 2 {
            let whole = sorted.pop().unwrap_or_else(|| RecordBatch::new_empty(Arc::clone(&schema)));
            // Operators above expect batches of no more than so many rows.
            let (rows, most) = (whole.num_rows(), self.rows_max.max(1));
            let parts =
                (0..rows).step_by(most).map(|first| whole.slice(first, most.min(rows - first)));
            self.told.record_output(rows);
            let parts: Vec<_> = parts.map(Ok).collect();
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(parts))));
        }
        let streams = sorted.into_iter().map(part).collect();
        StreamingMergeBuilder::new()
            .with_streams(streams)
            .with_schema(Arc::clone(&schema))
            .with_expressions(&self.order)
            .with_metrics(self.told.clone())
            .with_batch_size(self.rows_max)
            .with_fetch(None)
            .with_reservation(self.memory.new_empty())
            .build()
    }

    /// Goes on with an operator that puts rows into files. Errors: what was denied, if there is none.
    fn overflow(self, denied: DataFusionError) -> Result<SendableRecordBatchStream> {
        let Some(sort) = self.overflow.filter(|_| is_denied(&denied)) else {
            return Err(denied);
        };
        // That operator counts what it takes, from the first batch on.
        self.memory.free();
        let held = self.sorted.into_iter().chain(self.gathered.batches).chain(self.waiting);
        let schema = self.input.schema();
        let all = stream::iter(held.map(Ok)).chain(self.input);
        let all = Box::pin(RecordBatchStreamAdapter::new(schema, all));
        Ok(sort.sorted(self.partition, &self.context, all))
    }
}

/// A sorted batch, which is given in a step that has time left, or has given none so far: what merges asks all of them for
/// their first rows at once, and makes keys of these.
struct Sorted {
    schema: SchemaRef,
    batch: Option<(RecordBatch, MemoryReservation)>,
    /// The step of the task in which one of the batches that are merged was given last.
    given_in: Arc<AtomicU64>,
}

impl Stream for Sorted {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, polled: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let (Some(_), Some(step)) = (&self.batch, halcyon_task::step())
            && self.given_in.swap(step, Relaxed) == step
        {
            ready!(poll_proceed(polled));
        }
        Poll::Ready(self.batch.take().map(|(batch, _)| Ok(batch)))
    }
}

impl RecordBatchStream for Sorted {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
