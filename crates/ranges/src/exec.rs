//! The operator.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, JoinType, Result, Statistics};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, Time,
};
use datafusion::physical_plan::statistics::ChildStats;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, ReplaceChildrenOptions, StatisticsArgs,
};
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, StreamExt, stream};
use halcyon_sql::diagnose::external;
use halcyon_sql::error::SqlError;
use halcyon_task::proceed;
use parking_lot::Mutex;

use crate::build::{Build, Builder};
use crate::plan::{Join, Node};
use crate::probe::{Leftover, Probe};

/// The left side as the outputs of a join share it.
type Building = Shared<BoxFuture<'static, Result<Arc<Build>, Arc<DataFusionError>>>>;

/// Joins rows by comparisons of one side with the other.
pub struct RangeJoinExec {
    /// The join as DataFusion's planner says it.
    node: Arc<dyn ExecutionPlan>,
    join: Arc<Join>,
    metrics: ExecutionPlanMetricsSet,
    /// The one left side, if all outputs share it.
    building: Mutex<Option<Building>>,
}

impl RangeJoinExec {
    /// The operator in the place of DataFusion's; `None` if the node is no join, or its condition has no bounds.
    pub fn in_place_of(node: &Arc<dyn ExecutionPlan>) -> Result<Option<RangeJoinExec>> {
        let Some(join) = Node::of(node) else { return Ok(None) };
        let join = Join::of(&join)?;
        Ok(join.map(|join| RangeJoinExec::new(Arc::clone(node), Arc::new(join))))
    }

    fn new(node: Arc<dyn ExecutionPlan>, join: Arc<Join>) -> Self {
        let metrics = ExecutionPlanMetricsSet::new();
        RangeJoinExec { node, join, metrics, building: Mutex::default() }
    }

    fn node(&self) -> Node<'_> {
        Node::of(&self.node).expect("made of such a node")
    }

    /// Which rows are given.
    pub fn kind(&self) -> JoinType {
        self.join.kind
    }

    /// Columns of the left side.
    pub fn left_columns(&self) -> usize {
        self.node().left().schema().fields().len()
    }

    /// The columns that are given, of those of both sides; `None`: all.
    pub fn projection(&self) -> Option<&[usize]> {
        self.node().projection()
    }

    /// The join above other sides, which runs for the first time.
    fn above(&self, node: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(RangeJoinExec::new(node, Arc::clone(&self.join)))
    }

    /// The left side of an output, which the first of those that share it begins with.
    fn building(&self, partition: usize, context: &Arc<TaskContext>) -> Result<Building> {
        let node = self.node();
        let collect = |left: usize, probers: usize| -> Result<Building> {
            let memory = MemoryConsumer::new("RangeJoinExec").register(context.memory_pool());
            let work = collected(
                node.left().execute(left, Arc::clone(context))?,
                Builder::new(&self.join, memory),
                probers,
                MetricBuilder::new(&self.metrics).subset_time("build_time", partition),
                MetricBuilder::new(&self.metrics).counter("build_rows", partition),
            );
            Ok(work.map(|built| built.map(Arc::new).map_err(Arc::new)).boxed().shared())
        };
        if !node.has_one_left_side() {
            return collect(partition, 1);
        }
        let mut building = self.building.lock();
        if let Some(begun) = &*building {
            return Ok(begun.clone());
        }
        let begun = collect(0, node.right().output_partitioning().partition_count())?;
        Ok(building.insert(begun).clone())
    }
}

impl fmt::Debug for RangeJoinExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for RangeJoinExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// DataFusion's text of the join.
        struct Text<'n>(&'n dyn ExecutionPlan, DisplayFormatType);
        impl fmt::Display for Text<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt_as(self.1, f)
            }
        }
        let text = Text(self.node.as_ref(), kind).to_string();
        let names = ["NestedLoopJoinExec: ", "HashJoinExec: "];
        match names.iter().find_map(|name| text.strip_prefix(name)) {
            Some(rest) => write!(f, "RangeJoinExec: sorted=[{}], {rest}", self.join.first),
            None => f.write_str(&text),
        }
    }
}

impl ExecutionPlan for RangeJoinExec {
    fn name(&self) -> &'static str {
        "RangeJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.node.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.node.maintains_input_order()
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
        Ok(self.above(Arc::clone(&self.node).replace_children(children, options)?))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    /// The same join, of which nothing was read.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.above(Arc::clone(&self.node)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let work = Work {
            building: Some(self.building(partition, &context)?),
            state: State::Ended,
            right: Some(self.node().right().execute(partition, Arc::clone(&context))?),
            join: Arc::clone(&self.join),
            ready: VecDeque::new(),
            rows_max: context.session_config().batch_size(),
            metrics: BaselineMetrics::new(&self.metrics, partition),
            probe_rows: MetricBuilder::new(&self.metrics).counter("probe_rows", partition),
        };
        let batches = stream::try_unfold(work, async |mut work| {
            let next = work.next().await?;
            Ok(next.map(|batch| (batch, work)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
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

/// The left side, read and put in order. `probers`: how many will look for rows.
async fn collected(
    mut input: SendableRecordBatchStream,
    mut builder: Builder,
    probers: usize,
    time: Time,
    rows: Count,
) -> Result<Build> {
    while let Some(batch) = input.next().await {
        SqlError::unless_interrupted().map_err(external)?;
        let batch = batch?;
        rows.add(batch.num_rows());
        if batch.num_rows() > 0 {
            let _timer = time.timer();
            builder.take(&batch)?;
        }
        proceed().await;
    }
    drop(input);
    let _timer = time.timer();
    builder.build(probers).await
}

/// How far an output has got.
enum State {
    /// Rows look for others.
    Probing(Probe),
    /// Rows of the left side are given.
    Leaving(Leftover),
    Ended,
}

/// The work of one output.
struct Work {
    /// `None` once the left side is there.
    building: Option<Building>,
    state: State,
    /// `None` once nothing more is wanted of it.
    right: Option<SendableRecordBatchStream>,
    join: Arc<Join>,
    ready: VecDeque<RecordBatch>,
    rows_max: usize,
    metrics: BaselineMetrics,
    probe_rows: Count,
}

impl Work {
    /// The next batch.
    ///
    /// Errors: 57014, 53200, and those of conditions and inputs.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            SqlError::unless_interrupted().map_err(external)?;
            proceed().await;
            if let Some(batch) = self.ready.pop_front() {
                self.metrics.record_output(batch.num_rows());
                return Ok(Some(batch));
            }
            if let Some(building) = &self.building {
                let build = building.clone().await.map_err(DataFusionError::Shared)?;
                self.building = None;
                self.state = match build.rows() == 0 && self.join.needs_build_rows() {
                    true => State::Ended,
                    false => State::Probing(Probe::new(&build)),
                };
            }
            let time = self.metrics.elapsed_compute().clone();
            match &mut self.state {
                State::Probing(probe) => {
                    let timer = time.timer();
                    if let Some(batch) = probe.next(self.rows_max)? {
                        self.put(batch);
                        continue;
                    }
                    drop(timer);
                    if probe.has_more() {
                        continue;
                    }
                    let next = match &mut self.right {
                        Some(right) => right.next().await.transpose()?,
                        None => None,
                    };
                    match next {
                        Some(batch) => {
                            self.probe_rows.add(batch.num_rows());
                            let _timer = time.timer();
                            probe.set(batch)?;
                        }
                        None => {
                            self.right = None;
                            let build = Arc::clone(probe.build());
                            let gives = self.join.gives_build_rows();
                            self.state = match gives && build.end_prober() {
                                true => State::Leaving(Leftover::new(build)),
                                false => State::Ended,
                            };
                        }
                    }
                }
                State::Leaving(leftover) => {
                    let _timer = time.timer();
                    match leftover.next(self.rows_max)? {
                        Some(batch) => self.put(batch),
                        None if leftover.has_more() => {}
                        None => self.state = State::Ended,
                    }
                }
                State::Ended => {
                    self.right = None;
                    return Ok(None);
                }
            }
        }
    }

    /// Makes rows ready to be given out, in batches.
    fn put(&mut self, batch: RecordBatch) {
        let mut from = 0;
        while from < batch.num_rows() {
            let rows = self.rows_max.min(batch.num_rows() - from);
            self.ready.push_back(batch.slice(from, rows));
            from += rows;
        }
    }
}
