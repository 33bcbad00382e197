//! The operator.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, Time,
};
use datafusion::physical_plan::statistics::ChildStats;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions, StatisticsArgs,
};
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, StreamExt, stream};
use halcyon_spill::{Spill, without_others};
use halcyon_sql::diagnose::external;
use halcyon_sql::error::SqlError;
use halcyon_task::proceed;
use parking_lot::Mutex;

use crate::joins::build::{Build, Builder};
use crate::joins::found::Findings;
use crate::joins::grace::{Grace, SpilledBuild, SpilledBuilder, in_order, is_denied};
use crate::joins::parts::{Spilling, can_spill};
use crate::joins::plan::Join;
use crate::joins::probe::{Leftover, Probe};
use crate::layout::WORDS_MAX;

/// The left side as the outputs of a join share it.
type Building<const N: usize> = Shared<BoxFuture<'static, Result<Built<N>, Arc<DataFusionError>>>>;

/// The left side, once all of it was read.
#[derive(Clone)]
enum Built<const N: usize> {
    Table(Arc<Build<N>>),
    Files(Arc<SpilledBuild>),
}

/// Joins rows whose keys are equal.
pub struct JoinExec {
    /// The join as DataFusion's planner says it.
    node: Arc<HashJoinExec>,
    join: Arc<Join>,
    /// What scans are told of the keys.
    finding: Option<Arc<DynamicFilterPhysicalExpr>>,
    metrics: ExecutionPlanMetricsSet,
    /// What the outputs of an execution have in common.
    common: Mutex<Common>,
}

#[derive(Default)]
struct Common {
    /// A `Building`, if all outputs have one table.
    building: Option<Box<dyn Any + Send>>,
    findings: Option<Arc<Findings>>,
}

impl JoinExec {
    /// The operator in the place of DataFusion's; `None` if the join has keys that are not known here, ends early, or is
    /// NOT IN over values that may be NULL.
    pub fn in_place_of(node: &HashJoinExec) -> Result<Option<JoinExec>> {
        match Join::of(node)? {
            Some(join) => Ok(Some(JoinExec::new(node.builder().build()?, Arc::new(join), None))),
            None => Ok(None),
        }
    }

    fn new(
        node: HashJoinExec,
        join: Arc<Join>,
        finding: Option<Arc<DynamicFilterPhysicalExpr>>,
    ) -> Self {
        let metrics = ExecutionPlanMetricsSet::new();
        JoinExec { node: Arc::new(node), join, finding, metrics, common: Mutex::default() }
    }

    /// The join as DataFusion's planner says it.
    pub fn node(&self) -> &HashJoinExec {
        &self.node
    }

    /// The join above another right side, whose scans are told by `finding` which keys have a match.
    pub fn finding(
        &self,
        finding: &Arc<DynamicFilterPhysicalExpr>,
        right: Arc<dyn ExecutionPlan>,
    ) -> Result<JoinExec> {
        let children = vec![Arc::clone(self.node.left()), right];
        let node = self.node.builder().with_new_children(children)?.build()?;
        Ok(JoinExec::new(node, Arc::clone(&self.join), Some(Arc::clone(finding))))
    }

    /// The join above other sides, which runs for the first time.
    fn above(&self, node: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(node) = node.downcast_ref::<HashJoinExec>() else {
            return internal_err!("a join stays one");
        };
        let node = node.builder().build()?;
        Ok(Arc::new(JoinExec::new(node, Arc::clone(&self.join), self.finding.clone())))
    }

    fn outputs(&self) -> usize {
        self.node.right().output_partitioning().partition_count()
    }

    fn stream<const N: usize>(
        &self,
        partition: usize,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let is_one = *self.node.partition_mode() == PartitionMode::CollectLeft;
        let mut common = self.common.lock();
        if let Some(source) = &self.finding
            && common.findings.is_none()
        {
            let tables = if is_one { 1 } else { self.outputs() };
            common.findings = Some(Findings::new(&self.join, source, tables));
        }
        let findings = common.findings.clone();
        let right = self.node.right().schema();
        let spill = context.session_config().get_extension::<Spill>();
        let spill = spill.filter(|_| can_spill::<N>(&self.join, &right));
        let spilling = spill.map(|spill| Spilling::new(&spill, &self.metrics, partition));
        let collect = |left: usize, probers: usize| -> Result<Building<N>> {
            let memory = MemoryConsumer::new(format!("JoinExec[{left}]"));
            let memory = memory.with_can_spill(spilling.is_some());
            let builder = Builder::new(&self.join, memory.register(context.memory_pool()), None);
            let work = Collecting::<N> {
                input: self.node.left().execute(left, Arc::clone(context))?,
                target: Target::Table(Box::new(builder)),
                join: Arc::clone(&self.join),
                spilling: spilling.clone(),
                probers,
                findings: Ending(findings),
                time: MetricBuilder::new(&self.metrics).subset_time("build_time", partition),
                rows: MetricBuilder::new(&self.metrics).counter("build_rows", partition),
            };
            Ok(work.run().map(|built| built.map_err(Arc::new)).boxed().shared())
        };
        let building = match (is_one, &common.building) {
            (false, _) => collect(partition, 1)?,
            (true, Some(begun)) => match begun.downcast_ref::<Building<N>>() {
                Some(building) => building.clone(),
                None => return internal_err!("a join's keys have one width"),
            },
            (true, None) => {
                let building = collect(0, self.outputs())?;
                common.building = Some(Box::new(building.clone()));
                building
            }
        };
        drop(common);
        let work = Work::<N> {
            building: Some(building),
            state: State::Ended,
            right: Some(self.node.right().execute(partition, Arc::clone(context))?),
            join: Arc::clone(&self.join),
            ready: VecDeque::new(),
            rows_max: context.session_config().batch_size(),
            metrics: BaselineMetrics::new(&self.metrics, partition),
            probe_rows: MetricBuilder::new(&self.metrics).counter("probe_rows", partition),
            // Who stands above may go by it.
            keeps_order: self.node.properties().output_ordering().is_some(),
            others_max: match (&spilling, context.memory_pool().memory_limit()) {
                (Some(_), MemoryLimit::Finite(bytes)) => Some(bytes / OTHERS_PART),
                _ => None,
            },
            spilling,
            context: Arc::clone(context),
        };
        let batches = stream::try_unfold(work, async |mut work| {
            let next = work.next().await?;
            Ok(next.map(|batch| (batch, work)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}

impl fmt::Debug for JoinExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for JoinExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// DataFusion's text of the join, under our name.
        struct Text<'n>(&'n HashJoinExec, DisplayFormatType);
        impl fmt::Display for Text<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt_as(self.1, f)
            }
        }
        let text = Text(&self.node, kind).to_string();
        f.write_str(text.strip_prefix("Hash").unwrap_or(&text))
    }
}

impl ExecutionPlan for JoinExec {
    fn name(&self) -> &'static str {
        "JoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.node.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        ExecutionPlan::maintains_input_order(self.node.as_ref())
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
        let node = self.node.builder().recompute_properties().with_new_children(children)?;
        self.above(node.build_exec()?)
    }

    /// The same join, of which nothing was read and nothing found.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let node = self.node.builder().build()?;
        Ok(Arc::new(JoinExec::new(node, Arc::clone(&self.join), None)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        match self.join.layout.words() {
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

/// Findings that nobody waits for in vain: a table that is given up tells so.
struct Ending(Option<Arc<Findings>>);

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(findings) = &self.0 {
            findings.give_up();
        }
    }
}

/// The left side as it is put into a table, or into files once its statement may hold no more.
struct Collecting<const N: usize> {
    input: SendableRecordBatchStream,
    target: Target<N>,
    join: Arc<Join>,
    /// `None`: the join does not spill.
    spilling: Option<Spilling>,
    probers: usize,
    findings: Ending,
    time: Time,
    rows: Count,
}

enum Target<const N: usize> {
    Table(Box<Builder<N>>),
    Files(Box<SpilledBuilder<N>>),
}

impl<const N: usize> Collecting<N> {
    async fn run(mut self) -> Result<Built<N>> {
        while let Some(batch) = self.input.next().await {
            SqlError::unless_interrupted().map_err(external)?;
            let batch = batch?;
            self.rows.add(batch.num_rows());
            if batch.num_rows() > 0 {
                self.take(&batch).await?;
            }
            proceed().await;
        }
        if let Target::Table(builder) = &mut self.target
            && let Err(denied) = builder.close()
        {
            self.spill(denied).await?;
        }
        let builder = match self.target {
            Target::Table(builder) => builder,
            // Scans are told nothing: `findings` ends here.
            Target::Files(files) => {
                return Ok(Built::Files(Arc::new(files.finish(self.probers).await?)));
            }
        };
        let build = Arc::new(builder.build(self.probers).await);
        if let Some(findings) = self.findings.0.take() {
            let mut ending = Ending(Some(Arc::clone(&findings)));
            findings.bring(Arc::clone(&build) as _).await?;
            ending.0 = None;
        }
        Ok(Built::Table(build))
    }

    async fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        match &mut self.target {
            Target::Table(builder) => {
                let timer = self.time.timer();
                let taken = builder.take(batch);
                drop(timer);
                match taken {
                    Ok(()) => Ok(()),
                    Err(denied) => self.spill(denied).await,
                }
            }
            Target::Files(files) => files.take(batch).await,
        }
    }

    /// Puts what was collected into files, and what comes too. Errors: what was denied, if the join does not spill.
    async fn spill(&mut self, denied: DataFusionError) -> Result<()> {
        let spilling = self.spilling.take().filter(|_| is_denied(&denied));
        let Some(mut spilling) = spilling else { return Err(denied) };
        let files = Box::new(SpilledBuilder::new(&self.join, &mut spilling)?);
        let Target::Table(builder) = std::mem::replace(&mut self.target, Target::Files(files))
        else {
            return internal_err!("a side is put into files once");
        };
        match &mut self.target {
            Target::Files(files) => files.take_collected(builder.give_up()?).await,
            Target::Table(_) => internal_err!("a side that was put into files stays there"),
        }
    }
}

/// How far an output has got.
enum State<const N: usize> {
    /// Rows look up.
    Probing(Probe<N>),
    /// Rows of the table are given.
    Leaving(Leftover<N>),
    /// Parts of both sides in files are joined.
    Spilled(SendableRecordBatchStream),
    Ended,
}

/// The work of one output.
struct Work<const N: usize> {
    /// `None` once the table is there.
    building: Option<Building<N>>,
    state: State<N>,
    /// `None` once nothing more is wanted of it: what it holds is given up, and nobody waits for it.
    right: Option<SendableRecordBatchStream>,
    join: Arc<Join>,
    ready: VecDeque<RecordBatch>,
    rows_max: usize,
    metrics: BaselineMetrics,
    probe_rows: Count,
    /// Whether rows are given in the order of the right side.
    keeps_order: bool,
    spilling: Option<Spilling>,
    /// Bytes of others' texts that rows which are given may hold; `None`: any. Of a statement that may spill, so that a
    /// sort above does not count the whole left side with each batch.
    others_max: Option<usize>,
    context: Arc<TaskContext>,
}

/// The part of a statement's memory that a column's texts of others may take.
const OTHERS_PART: usize = 64;

impl<const N: usize> Work<N> {
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
                let built = building.clone().await.map_err(DataFusionError::Shared)?;
                self.building = None;
                self.state = self.begin(built)?;
            }
            let time = self.metrics.elapsed_compute().clone();
            match &mut self.state {
                State::Probing(probe) => {
                    let timer = time.timer();
                    if let Some(batch) = probe.next(self.rows_max)? {
                        self.put(batch)?;
                        continue;
                    }
                    drop(timer);
                    if probe.has_more() {
                        continue;
                    }
                    let next = match &mut self.right {
                        Some(right) => right.next().await,
                        None => None,
                    };
                    match next {
                        Some(batch) => {
                            let batch = batch?;
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
                    let timer = time.timer();
                    match leftover.next(self.rows_max)? {
                        Some(batch) => self.put(batch)?,
                        None if leftover.has_more() => {}
                        None => self.state = State::Ended,
                    }
                    drop(timer);
                }
                State::Spilled(batches) => match batches.next().await {
                    Some(batch) => self.put(batch?)?,
                    None => self.state = State::Ended,
                },
                State::Ended => return Ok(None),
            }
        }
    }

    /// What is done once the left side was read.
    fn begin(&mut self, built: Built<N>) -> Result<State<N>> {
        let files = match built {
            Built::Table(table) if table.rows() == 0 && self.join.needs_build_rows() => {
                self.right = None;
                return Ok(State::Ended);
            }
            Built::Table(table) => return Ok(State::Probing(Probe::new(&table))),
            Built::Files(files) => files,
        };
        let (Some(right), Some(spilling)) = (self.right.take(), self.spilling.take()) else {
            return internal_err!(
                "a join whose left side is in files has its right side before it"
            );
        };
        let grace = |in_order| {
            let (count, pool) = (self.probe_rows.clone(), self.context.memory_pool());
            Grace::<N>::new(&self.join, files, right, spilling, pool, count, in_order)
        };
        Ok(State::Spilled(match self.keeps_order {
            true => in_order(grace(true)?.batches(self.rows_max), &self.context)?,
            false => grace(false)?.batches(self.rows_max),
        }))
    }

    /// Makes rows ready to be given out, in batches.
    fn put(&mut self, batch: RecordBatch) -> Result<()> {
        let batch = match self.others_max {
            Some(bytes) => without_others(batch, bytes)?,
            None => batch,
        };
        let mut from = 0;
        while from < batch.num_rows() {
            let rows = self.rows_max.min(batch.num_rows() - from);
            self.ready.push_back(batch.slice(from, rows));
            from += rows;
        }
        Ok(())
    }
}
