//! The arms of UNION ALL in turn, in the order of the text, where all of them go to one reader.
//!
//! `(SELECT … WHERE …) UNION ALL SELECT 'default' LIMIT 1` is how people write "the first that there is": the second arm
//! does not run before the first has ended, and under LIMIT perhaps never. What runs at once is what an arm consists of.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions, StatisticsArgs,
};
use futures::{Stream, StreamExt};

/// Gives the rows of its input's partitions one partition after the other.
pub(crate) struct InTurnExec {
    input: Arc<dyn ExecutionPlan>,
    /// Rows that are wanted at most.
    fetch: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl InTurnExec {
    /// Such an operator with `properties`, which have one partition.
    pub(crate) fn new(
        properties: Arc<PlanProperties>,
        input: Arc<dyn ExecutionPlan>,
        fetch: Option<usize>,
    ) -> Self {
        InTurnExec { input, fetch, properties, metrics: ExecutionPlanMetricsSet::new() }
    }

    /// Whether the operator may end before its input does.
    pub(crate) fn ends_early(&self) -> bool {
        self.fetch.is_some()
    }

    fn above(&self, mut inputs: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = inputs.pop().filter(|_| inputs.is_empty()) else {
            return internal_err!("arms in turn are of one input");
        };
        Ok(Arc::new(Self::new(Arc::clone(&self.properties), input, self.fetch)))
    }
}

impl fmt::Debug for InTurnExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for InTurnExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InTurnExec: inputs={}", self.input.output_partitioning().partition_count())?;
        self.fetch.map_or(Ok(()), |rows| write!(f, ", fetch={rows}"))
    }
}

impl ExecutionPlan for InTurnExec {
    fn name(&self) -> &'static str {
        "InTurnExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.above(children)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.above(children)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        Ok(Box::pin(Turns {
            input: Arc::clone(&self.input),
            context,
            running: None,
            next: 0,
            left: self.fetch,
            metrics: BaselineMetrics::new(&self.metrics, partition),
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }
}

struct Turns {
    input: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    /// The partition whose turn it is.
    running: Option<SendableRecordBatchStream>,
    /// The partition whose turn is next.
    next: usize,
    /// Rows that are still wanted; `None`: all.
    left: Option<usize>,
    metrics: BaselineMetrics,
}

impl Turns {
    fn poll_rows(&mut self, polled: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        loop {
            if self.left == Some(0) {
                self.running = None;
                return Poll::Ready(None);
            }
            if let Some(running) = &mut self.running {
                match ready!(running.poll_next_unpin(polled)) {
                    Some(Ok(batch)) => return Poll::Ready(Some(Ok(self.cut(batch)))),
                    Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                    None => self.running = None,
                }
            }
            if self.next == self.input.output_partitioning().partition_count() {
                return Poll::Ready(None);
            }
            self.running = Some(self.input.execute(self.next, Arc::clone(&self.context))?);
            self.next += 1;
        }
    }

    /// The batch, cut to the rows that are wanted.
    fn cut(&mut self, batch: RecordBatch) -> RecordBatch {
        let Some(left) = &mut self.left else { return batch };
        let rows = batch.num_rows().min(*left);
        *left -= rows;
        batch.slice(0, rows)
    }
}

impl Stream for Turns {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, polled: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.poll_rows(polled);
        self.metrics.record_poll(polled)
    }
}

impl RecordBatchStream for Turns {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
