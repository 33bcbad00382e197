//! A part of a plan that the plan has several times, as a WITH query that is named twice: it runs once, and its rows
//! are kept until all places have read them.
//!
//! A place that finds no row ready runs the part itself as far as the next batch, whichever place began it. So no
//! place waits for another that is not read. A place that meets another at work is woken when that one has done its
//! step.
//!
//! The rows belong to one execution: [`shared_parts`] links the places of a plan each time it runs, after its states
//! were reset and its findings are in their scans: what is changed below a place afterwards takes the place out. A
//! place that was not linked runs its part for itself.
//!
//! Invariant, checked by `places_read_the_same_rows` of crate `exec`: every place gives all rows of the part.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker, ready};

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, Statistics, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions, StatisticsArgs,
};
use futures::{Stream, StreamExt};
use halcyon_plan::interrupts::go_on;
use halcyon_task::poll_proceed;
use parking_lot::Mutex;

/// One place of a part that a plan has several times.
#[derive(Debug)]
pub struct SharedExec {
    input: Arc<dyn ExecutionPlan>,
    /// Tells the parts of a statement apart.
    number: usize,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// What the places of this execution have in common; `None`: the place is alone.
    rows: Option<Arc<Rows>>,
}

impl SharedExec {
    /// A place of the part `number`, which `input` runs.
    pub fn new(input: Arc<dyn ExecutionPlan>, number: usize) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        let properties = Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative));
        let metrics = ExecutionPlanMetricsSet::new();
        SharedExec { input, number, properties, metrics, rows: None }
    }

    fn above(&self, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop().filter(|_| children.is_empty()) else {
            return internal_err!("a place of a shared part has one child");
        };
        Ok(Arc::new(SharedExec::new(input, self.number)))
    }
}

/// The plan with the places of each part linked, for one execution.
pub fn shared_parts(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let mut places: HashMap<usize, usize> = HashMap::new();
    plan.apply(|node| {
        if let Some(place) = node.downcast_ref::<SharedExec>() {
            *places.entry(place.number).or_default() += 1;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if places.is_empty() {
        return Ok(plan);
    }
    let mut parts: HashMap<usize, (Arc<dyn ExecutionPlan>, Arc<Rows>)> = HashMap::new();
    let linked = plan.transform_up(|node| {
        let Some(place) = node.downcast_ref::<SharedExec>() else {
            return Ok(Transformed::no(node));
        };
        let outputs = place.input.output_partitioning().partition_count();
        let (input, rows) = parts.entry(place.number).or_insert_with(|| {
            let outputs = (0..outputs).map(|_| Output::new(places[&place.number])).collect();
            (Arc::clone(&place.input), Arc::new(Rows { outputs }))
        });
        // The planner may have given another place more outputs: that one is alone.
        if rows.outputs.len() != outputs || input.schema() != place.input.schema() {
            return Ok(Transformed::no(node));
        }
        let mut linked = SharedExec::new(Arc::clone(input), place.number);
        linked.rows = Some(Arc::clone(rows));
        Ok(Transformed::yes(Arc::new(linked) as _))
    });
    linked.data()
}

impl DisplayAs for SharedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedExec: part={}", self.number)
    }
}

impl ExecutionPlan for SharedExec {
    fn name(&self) -> &'static str {
        "SharedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
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
        let Some(rows) = &self.rows else { return self.input.execute(partition, context) };
        rows.outputs[partition].begin(|| {
            let memory = MemoryConsumer::new(format!("SharedExec[{partition}]"));
            let memory = memory.register(context.memory_pool());
            Ok((self.input.execute(partition, Arc::clone(&context))?, memory))
        })?;
        Ok(Box::pin(Reader {
            schema: self.schema(),
            rows: Arc::clone(rows),
            partition,
            next: 0,
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

/// The rows of a part.
struct Rows {
    outputs: Vec<Output>,
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rows of {} outputs", self.outputs.len())
    }
}

/// One output of a part.
struct Output {
    /// Places that read the output.
    readers: usize,
    /// Held for a step of the part, but never waited for.
    step: Mutex<Begun>,
    waiting: Arc<Waiting>,
}

/// The part as far as it has run.
#[derive(Default)]
struct Begun {
    /// `None` before the first place begins and behind the last batch.
    input: Option<SendableRecordBatchStream>,
    memory: Option<MemoryReservation>,
    /// Batches, each with the number of places that have not read it; `None` once all have.
    batches: Vec<Option<(RecordBatch, usize)>>,
    failure: Option<Arc<DataFusionError>>,
}

/// Places that wait for a step of another, or for the part's inputs.
#[derive(Default)]
struct Waiting {
    wakers: Mutex<Vec<Waker>>,
}

impl Waiting {
    fn wake_all(&self) {
        let wakers = std::mem::take(&mut *self.wakers.lock());
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }
}

impl Output {
    fn new(readers: usize) -> Self {
        Output { readers, step: Mutex::default(), waiting: Arc::default() }
    }

    /// Begins the part, unless it has begun.
    fn begin(
        &self,
        input: impl FnOnce() -> Result<(SendableRecordBatchStream, MemoryReservation)>,
    ) -> Result<()> {
        // Whoever holds it begins the part, or runs it.
        let Some(mut step) = self.step.try_lock() else { return Ok(()) };
        if step.memory.is_none() {
            let (input, memory) = input()?;
            (step.input, step.memory) = (Some(input), Some(memory));
        }
        Ok(())
    }

    /// The batch of this number; `None` behind the last.
    fn poll_batch(
        &self,
        number: usize,
        polled: &mut Context<'_>,
    ) -> Poll<Option<Result<RecordBatch>>> {
        // Told before the step is tried, so that whoever holds it wakes this place behind it.
        self.waiting.wakers.lock().push(polled.waker().clone());
        let Some(mut step) = self.step.try_lock() else { return Poll::Pending };
        let found = step.poll_batch(number, self.readers, &self.waiting);
        drop(step);
        if found.is_ready() {
            self.waiting.wake_all();
        }
        found
    }
}

impl Begun {
    fn poll_batch(
        &mut self,
        number: usize,
        readers: usize,
        waiting: &Arc<Waiting>,
    ) -> Poll<Option<Result<RecordBatch>>> {
        if let Some(kept) = self.batches.get_mut(number) {
            let Some((batch, unread)) = kept else {
                return Poll::Ready(Some(internal_err!("a place reads a batch twice")));
            };
            let given = batch.clone();
            *unread -= 1;
            if *unread == 0 {
                *kept = None;
                if let Some(memory) = &self.memory {
                    memory.shrink(bytes(&given));
                }
            }
            return Poll::Ready(Some(Ok(given)));
        }
        if let Some(failure) = &self.failure {
            return Poll::Ready(Some(Err(DataFusionError::Shared(Arc::clone(failure)))));
        }
        let Some(input) = &mut self.input else { return Poll::Ready(None) };
        let waker = Waker::from(Arc::clone(waiting));
        let next = ready!(input.poll_next_unpin(&mut Context::from_waker(&waker)));
        let kept = match (next, &self.memory) {
            (None, _) => {
                self.input = None;
                return Poll::Ready(None);
            }
            (Some(Ok(batch)), Some(memory)) if readers > 1 => {
                memory.try_grow(bytes(&batch)).map(|()| batch)
            }
            (Some(next), _) => next,
        };
        Poll::Ready(Some(match kept {
            Ok(batch) => {
                let unread = (readers > 1).then(|| (batch.clone(), readers - 1));
                self.batches.push(unread);
                Ok(batch)
            }
            Err(error) => {
                let failure = Arc::new(error);
                (self.input, self.failure) = (None, Some(Arc::clone(&failure)));
                Err(DataFusionError::Shared(failure))
            }
        }))
    }
}

/// Bytes of a batch, which may be a slice of a larger one.
fn bytes(batch: &RecordBatch) -> usize {
    let of = |column: &ArrayRef| column.to_data().get_slice_memory_size();
    batch.columns().iter().map(|column| of(column).unwrap_or(0)).sum()
}

/// A place as it reads an output.
struct Reader {
    schema: SchemaRef,
    rows: Arc<Rows>,
    partition: usize,
    /// Number of the next batch.
    next: usize,
    metrics: BaselineMetrics,
}

impl Stream for Reader {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, polled: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Err(ended) = go_on() {
            return Poll::Ready(Some(Err(ended)));
        }
        ready!(poll_proceed(polled));
        let found = ready!(self.rows.outputs[self.partition].poll_batch(self.next, polled));
        self.next += 1;
        self.metrics.record_poll(Poll::Ready(found))
    }
}

impl RecordBatchStream for Reader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use futures::executor::block_on;
    use futures::future::poll_fn;
    use halcyon_base::rng::Rng;

    use super::*;

    fn batch(number: i64) -> RecordBatch {
        let schema = Schema::new(vec![Field::new("n", DataType::Int64, false)]);
        let numbers = Int64Array::from(vec![number]);
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(numbers)]).expect("a batch")
    }

    /// A part of so many batches that is not ready at times, and is woken by another thread; fails behind them if
    /// `fails`.
    fn part(seed: u64, batches: i64, fails: bool) -> SendableRecordBatchStream {
        let mut rng = Rng::new(seed);
        let mut number = 0;
        let stream = futures::stream::poll_fn(move |polled| {
            if rng.chance(1, 3) {
                let waker = polled.waker().clone();
                match rng.chance(1, 2) {
                    true => waker.wake(),
                    false => drop(std::thread::spawn(move || waker.wake())),
                }
                return Poll::Pending;
            }
            number += 1;
            Poll::Ready(match number <= batches {
                true => Some(Ok(batch(number))),
                false if fails => Some(internal_err!("the part fails")),
                false => None,
            })
        });
        Box::pin(RecordBatchStreamAdapter::new(batch(0).schema(), stream))
    }

    #[test]
    fn readers_on_threads_of_their_own_read_all_and_none_waits_for_ever() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 20));
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let (readers, batches) = (1 + rng.below(4) as usize, rng.below(20) as i64);
            let fails = rng.chance(1, 4);
            let output = Arc::new(Output::new(readers));
            // One reader may leave early: the others must not wait for it.
            let leaves_at = if rng.chance(1, 3) { rng.below(10) as i64 } else { i64::MAX };
            let (sender, receiver) = mpsc::channel();
            for reader in 0..readers {
                let (output, sender) = (Arc::clone(&output), sender.clone());
                let memory = MemoryConsumer::new("test").register(&pool);
                output.begin(|| Ok((part(seed, batches, fails), memory))).expect("begun");
                std::thread::spawn(move || {
                    let mut seen = Vec::new();
                    let last = loop {
                        let number = seen.len();
                        if reader == 0 && number as i64 == leaves_at {
                            break Ok(());
                        }
                        let next = poll_fn(|polled| output.poll_batch(number, polled));
                        match block_on(next) {
                            Some(Ok(batch)) => {
                                seen.push(batch.column(0).as_primitive::<Int64Type>().value(0));
                            }
                            Some(Err(error)) => break Err(error.to_string()),
                            None => break Ok(()),
                        }
                    };
                    drop(output);
                    sender.send((reader, seen, last)).expect("the test waits");
                });
            }
            for _ in 0..readers {
                let told = receiver.recv_timeout(Duration::from_secs(30));
                let (reader, seen, last) = told.expect("no reader waits for ever");
                let leaves = reader == 0 && leaves_at <= batches;
                let all = if leaves { leaves_at } else { batches };
                assert_eq!(seen, (1..=all).collect::<Vec<_>>(), "seed {seed}, reader {reader}");
                assert_eq!(last.is_err(), fails && !leaves, "seed {seed}, reader {reader}");
            }
            drop(output);
            assert_eq!(pool.reserved(), 0, "seed {seed}");
        }
    }
}
