//! The exchange: its inputs run as tasks of the statement's group, and its outputs take what they give.
//!
//! After Volcano's operator of that name (Graefe 1990), as a plan's only place where tasks meet: what lies
//! between two exchanges runs within one task. Inputs start when the first output is read. When the last output
//! is gone, they are cancelled; when an input fails or panics, every output fails.
//!
//! An output gives the worker back between two batches once its step has lasted for a slice
//! ([`halcyon_task::poll_proceed`]).

use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics, internal_err};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::apply_expression_roots;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, Time,
};
use datafusion::physical_plan::repartition::BatchPartitioner;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions, StatisticsArgs,
};
use futures::{FutureExt, Stream, StreamExt};
use halcyon_base::memory;
use halcyon_task::{Annotation, FutureHandle, poll_proceed, spawn_beside};
use parking_lot::Mutex;

use crate::mailbox::Mailbox;

/// How rows get from inputs to outputs.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    /// To the output that a row's values say.
    Split(Partitioning),
    /// To whichever output asks first.
    Share,
    /// All to one output.
    Gather {
        /// Rows that are wanted at most.
        fetch: Option<usize>,
    },
    /// From each input to the output of its number, ahead of the output's reader.
    Ahead,
}

/// Runs its inputs as tasks beside the tasks that read its outputs.
pub(crate) struct ExchangeExec {
    input: Arc<dyn ExecutionPlan>,
    way: Way,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// The execution under way, made when its first output is.
    running: Mutex<Option<Arc<Running>>>,
}

impl ExchangeExec {
    /// An exchange in the place of `node`, whose properties it has.
    pub(crate) fn new(
        node: &Arc<dyn ExecutionPlan>,
        input: Arc<dyn ExecutionPlan>,
        way: Way,
    ) -> Self {
        Self::with(Arc::clone(node.properties()), input, way)
    }

    fn with(properties: Arc<PlanProperties>, input: Arc<dyn ExecutionPlan>, way: Way) -> Self {
        let metrics = ExecutionPlanMetricsSet::new();
        ExchangeExec { input, way, properties, metrics, running: Mutex::new(None) }
    }

    /// Whether the exchange may end before its inputs do.
    pub(crate) fn ends_early(&self) -> bool {
        matches!(self.way, Way::Gather { fetch: Some(_) })
    }

    fn inputs(&self) -> usize {
        self.input.output_partitioning().partition_count()
    }

    fn outputs(&self) -> usize {
        self.properties.partitioning.partition_count()
    }

    /// The lane from which an output takes.
    fn lane(&self, output: usize) -> usize {
        match self.way {
            Way::Split(_) | Way::Ahead => output,
            Way::Share | Way::Gather { .. } => 0,
        }
    }

    /// An exchange of the same kind above other inputs, which runs for the first time.
    fn above(&self, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop().filter(|_| children.is_empty()) else {
            return internal_err!("an exchange has one child");
        };
        Ok(Arc::new(Self::with(Arc::clone(&self.properties), input, self.way.clone())))
    }

    /// The execution under way; begins one if there is none.
    fn running(&self, context: &Arc<TaskContext>) -> Result<Arc<Running>> {
        let mut running = self.running.lock();
        if let Some(running) = &*running {
            return Ok(Arc::clone(running));
        }
        let (inputs, outputs) = (self.inputs(), self.outputs());
        let lanes = match self.way {
            Way::Split(_) | Way::Ahead => vec![1; outputs],
            Way::Share | Way::Gather { .. } => vec![outputs],
        };
        let mailbox = Arc::new(Mailbox::new(lanes, inputs));
        let feeder = |number| {
            let into = match &self.way {
                Way::Split(partitioning) => {
                    let time = MetricBuilder::new(&self.metrics).subset_time("split_time", number);
                    let partitioning = partitioning.clone();
                    Destination::Split(BatchPartitioner::try_new(
                        partitioning,
                        time,
                        number,
                        inputs,
                    )?)
                }
                Way::Share | Way::Gather { .. } => Destination::Lane(0),
                Way::Ahead => Destination::Lane(number),
            };
            let input = self.input.execute(number, Arc::clone(context))?;
            let time = MetricBuilder::new(&self.metrics).subset_time("input_time", number);
            Ok(Feeder { input, into, mailbox: Arc::clone(&mailbox), time })
        };
        let feeders = (0..inputs).map(feeder).collect::<Result<Vec<_>>>()?;
        let begun = Running { mailbox, feeders: Mutex::new(Feeders::Waiting(feeders)) };
        Ok(Arc::clone(running.insert(Arc::new(begun))))
    }
}

impl fmt::Debug for ExchangeExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for ExchangeExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExchangeExec: inputs={}, outputs={}", self.inputs(), self.outputs())?;
        match &self.way {
            Way::Split(partitioning) => write!(f, ", by={partitioning}"),
            Way::Gather { fetch: Some(rows) } => write!(f, ", fetch={rows}"),
            Way::Share | Way::Gather { .. } | Way::Ahead => Ok(()),
        }
    }
}

impl ExecutionPlan for ExchangeExec {
    fn name(&self) -> &'static str {
        "ExchangeExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![matches!(self.way, Way::Ahead) || self.inputs() < 2]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        match &self.way {
            Way::Split(Partitioning::Hash(keys, _)) => apply_expression_roots(keys, f),
            _ => Ok(TreeNodeRecursion::Continue),
        }
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
        let running = self.running(&context)?;
        let fetch = match self.way {
            Way::Gather { fetch } => fetch,
            Way::Split(_) | Way::Share | Way::Ahead => None,
        };
        Ok(Box::pin(Output {
            schema: self.schema(),
            lane: self.lane(partition),
            rows_max: context.session_config().batch_size(),
            left: fetch,
            metrics: BaselineMetrics::new(&self.metrics, partition),
            has_ended: false,
            running,
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

/// An execution of an exchange.
struct Running {
    mailbox: Arc<Mailbox>,
    feeders: Mutex<Feeders>,
}

/// The feeders of an execution.
enum Feeders {
    /// No output was read so far.
    Waiting(Vec<Feeder>),
    Started(Vec<FutureHandle<()>>),
}

impl Running {
    /// Starts the feeders, once.
    fn start(&self) {
        let mut feeders = self.feeders.lock();
        if let Feeders::Waiting(waiting) = &mut *feeders {
            let waiting = std::mem::take(waiting);
            let spawn = |feeder: Feeder| {
                spawn_beside(Annotation::new(), memory::current().working(feeder.run()))
            };
            *feeders = Feeders::Started(waiting.into_iter().map(spawn).collect());
        }
    }

    /// Ends the feeders: nobody reads any more.
    fn cancel(&self) {
        let feeders = std::mem::replace(&mut *self.feeders.lock(), Feeders::Started(Vec::new()));
        if let Feeders::Started(handles) = feeders {
            handles.iter().for_each(FutureHandle::cancel);
        }
    }
}

/// The destination of a feeder's batches.
enum Destination {
    Lane(usize),
    Split(BatchPartitioner),
}

/// Runs one input.
struct Feeder {
    input: SendableRecordBatchStream,
    into: Destination,
    mailbox: Arc<Mailbox>,
    /// Processor time of the input and of what is between it and the next exchange.
    time: Time,
}

/// Tells a mailbox of a feeder's end, however it ends: a task that is dropped has not brought all rows.
struct Ending {
    mailbox: Arc<Mailbox>,
    is_whole: bool,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if !self.is_whole {
            let message = "a task of the statement was dropped";
            self.mailbox.fail(DataFusionError::Execution(message.to_owned()));
        }
        self.mailbox.end_feeder();
    }
}

impl Feeder {
    async fn run(self) {
        let mut ending = Ending { mailbox: Arc::clone(&self.mailbox), is_whole: false };
        let failure = match AssertUnwindSafe(self.feed()).catch_unwind().await {
            Ok(fed) => fed.err(),
            Err(panic) => Some(panicked(panic.as_ref())),
        };
        failure.into_iter().for_each(|error| ending.mailbox.fail(error));
        ending.is_whole = true;
    }

    async fn feed(mut self) -> Result<()> {
        while poll_fn(|polled| self.mailbox.poll_room(polled)).await {
            let next = poll_fn(|polled| {
                let _timer = self.time.timer();
                self.input.poll_next_unpin(polled)
            });
            let Some(batch) = next.await else { break };
            self.put(batch?)?;
        }
        Ok(())
    }

    fn put(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        match &mut self.into {
            Destination::Lane(lane) => self.mailbox.put(*lane, batch),
            Destination::Split(partitioner) => partitioner.partition(batch, |lane, part| {
                self.mailbox.put(lane, part);
                Ok(())
            })?,
        }
        Ok(())
    }
}

/// The error of an operator that panicked. Operators change nothing, so the statement ends alone.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> DataFusionError {
    let message = panic.downcast_ref::<&str>().map(|message| (*message).to_owned());
    let message = message.or_else(|| panic.downcast_ref::<String>().cloned());
    let message = message.unwrap_or_else(|| "without a message".to_owned());
    DataFusionError::Internal(format!("an operator panicked: {message}"))
}

/// One output.
struct Output {
    schema: SchemaRef,
    running: Arc<Running>,
    lane: usize,
    /// Rows that small batches are joined to at most.
    rows_max: usize,
    /// Rows that are still wanted; `None`: all.
    left: Option<usize>,
    metrics: BaselineMetrics,
    has_ended: bool,
}

impl Output {
    fn poll_rows(&mut self, polled: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        if self.has_ended || self.left == Some(0) {
            return Poll::Ready(None);
        }
        self.running.start();
        ready!(poll_proceed(polled));
        let taken = ready!(self.running.mailbox.poll_take(self.lane, self.rows_max, polled));
        let joined = taken.map(|taken| self.joined(taken?));
        self.has_ended = !matches!(joined, Some(Ok(_)));
        Poll::Ready(joined)
    }

    /// Batches as one, cut to the rows that are wanted.
    fn joined(&mut self, mut batches: Vec<RecordBatch>) -> Result<RecordBatch> {
        let batch = match batches.len() {
            1 => batches.remove(0),
            _ => concat_batches(&self.schema, &batches)?,
        };
        let Some(left) = &mut self.left else { return Ok(batch) };
        let rows = batch.num_rows().min(*left);
        *left -= rows;
        Ok(batch.slice(0, rows))
    }
}

impl Stream for Output {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, polled: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.poll_rows(polled);
        self.metrics.record_poll(polled)
    }
}

impl RecordBatchStream for Output {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.running.mailbox.leave(self.lane) {
            self.running.cancel();
        }
    }
}
