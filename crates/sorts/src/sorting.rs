//! The operator that sorts rows.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::ChildStats;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions, StatisticsArgs,
};
use futures::{StreamExt, stream};
use halcyon_spill::batches::can_hold;
use halcyon_spill::{Spill, without_others};
use halcyon_sql::diagnose::external;
use halcyon_sql::error::{SqlError, SqlState};

use crate::files::{Files, is_denied};
use crate::key::Layout;
use crate::memory::{Gathered, Sorted};
use crate::merge::Merge;
use crate::steps::Steps;

/// The part of a statement's memory that a column's texts of others may take, of a statement that may spill.
pub(crate) const OTHERS_PART: usize = 64;

/// Sorts the rows of each input by itself.
pub struct RunSortExec {
    /// The sort as DataFusion's planner says it.
    node: Arc<dyn ExecutionPlan>,
    layout: Arc<Layout>,
    metrics: ExecutionPlanMetricsSet,
    pub(crate) steps: Steps,
}

impl RunSortExec {
    /// The operator in the place of DataFusion's; `None` if few rows are wanted, the input is in order, or keys or rows
    /// have no bytes.
    pub fn in_place_of(node: &SortExec) -> Result<Option<RunSortExec>> {
        let (input, order) = (node.input(), node.expr());
        let is_sorted = input.equivalence_properties().ordering_satisfy(order.clone())?;
        if node.fetch().is_some() || is_sorted || !can_hold(&input.schema()) {
            return Ok(None);
        }
        let layout = Layout::of(order, &input.schema())?;
        Ok(layout.map(|layout| RunSortExec::new(Arc::new(node.clone()), Arc::new(layout))))
    }

    /// Whether no two heads need another look.
    pub(crate) fn is_quick(&self) -> bool {
        self.layout.is_quick()
    }

    fn new(node: Arc<dyn ExecutionPlan>, layout: Arc<Layout>) -> Self {
        let (metrics, steps) = (ExecutionPlanMetricsSet::new(), Steps::default());
        RunSortExec { node, layout, metrics, steps }
    }

    /// The same sort of another input, which has not run.
    pub(crate) fn over(&self, node: &Arc<dyn ExecutionPlan>) -> Self {
        RunSortExec::new(Arc::clone(node), Arc::clone(&self.layout))
    }

    /// Where the operator's figures are kept.
    pub(crate) fn metric_set(&self) -> ExecutionPlanMetricsSet {
        self.metrics.clone()
    }

    /// The rows of an input in order.
    pub(crate) fn sorted(
        &self,
        partition: usize,
        context: &TaskContext,
        input: SendableRecordBatchStream,
    ) -> SendableRecordBatchStream {
        let spill = context.session_config().get_extension::<Spill>();
        let memory = MemoryConsumer::new(format!("RunSortExec[{partition}]"));
        let memory = memory.with_can_spill(spill.is_some()).register(context.memory_pool());
        let others_max = match (&spill, context.memory_pool().memory_limit()) {
            (Some(_), MemoryLimit::Finite(bytes)) => Some(bytes / OTHERS_PART),
            _ => None,
        };
        let work = Work {
            input: Some(input),
            layout: Arc::clone(&self.layout),
            schema: self.schema(),
            state: State::Gathering(Box::default()),
            files: None,
            spill,
            memory,
            others_max,
            rows_max: context.session_config().batch_size(),
            metrics: self.metrics.clone(),
            told: BaselineMetrics::new(&self.metrics, partition),
            output: partition,
            steps: self.steps.clone(),
        };
        let batches = stream::try_unfold(work, async |mut work| {
            let next = work.next().await?;
            Ok(next.map(|batch| (batch, work)))
        });
        Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches))
    }
}

impl fmt::Debug for RunSortExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for RunSortExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_renamed("Run", self.node.as_ref(), kind, f)
    }
}

/// DataFusion's text of an operator, of which ours has another name, which begins with `before`.
pub(crate) fn fmt_renamed(
    before: &str,
    node: &dyn ExecutionPlan,
    kind: DisplayFormatType,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    struct Text<'n>(&'n dyn ExecutionPlan, DisplayFormatType);
    impl fmt::Display for Text<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.fmt_as(self.1, f)
        }
    }
    let text = Text(node, kind).to_string();
    match text.strip_prefix("SortPreservingMerge") {
        Some(rest) => write!(f, "{before}Merge{rest}"),
        None if text.starts_with("SortExec") => write!(f, "{before}{text}"),
        None => f.write_str(&text),
    }
}

impl ExecutionPlan for RunSortExec {
    fn name(&self) -> &'static str {
        "RunSortExec"
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
        let node = Arc::clone(&self.node).replace_children(children, options)?;
        Ok(Arc::new(RunSortExec::new(node, Arc::clone(&self.layout))))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let node = Arc::clone(&self.node).replace_children(children, options)?;
        Ok(Arc::new(RunSortExec::new(node, Arc::clone(&self.layout))))
    }

    /// The same sort, which has not run.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(RunSortExec::new(Arc::clone(&self.node), Arc::clone(&self.layout))))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let [input] = self.node.children()[..] else {
            return internal_err!("a sort has one input");
        };
        let input = input.execute(partition, Arc::clone(&context))?;
        Ok(self.sorted(partition, &context, input))
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

/// How far an output has got.
enum State {
    /// Rows are read.
    Gathering(Box<Gathered>),
    /// Rows in memory are given.
    Memory(Box<Sorted>),
    /// Rows in files are given.
    Files(Box<Merge>),
    Ended,
}

/// The work of one output.
struct Work {
    /// `None` once all of it was read.
    input: Option<SendableRecordBatchStream>,
    layout: Arc<Layout>,
    schema: SchemaRef,
    state: State,
    /// Runs that memory had no room for.
    files: Option<Box<Files>>,
    spill: Option<Arc<Spill>>,
    memory: MemoryReservation,
    /// Bytes of others' texts that a batch's column may hold; `None`: any.
    others_max: Option<usize>,
    rows_max: usize,
    metrics: ExecutionPlanMetricsSet,
    told: BaselineMetrics,
    output: usize,
    steps: Steps,
}

impl Work {
    /// The next batch.
    ///
    /// Errors: 57014, 53200, 53400, 53100, 58030, and those of keys and inputs.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let time = self.told.elapsed_compute().clone();
        loop {
            let given = match &mut self.state {
                State::Gathering(_) => {
                    self.gather().await?;
                    continue;
                }
                State::Memory(sorted) => sorted.next(self.rows_max, &self.steps, &time).await?,
                State::Files(merge) => merge.next(self.rows_max).await?,
                State::Ended => return Ok(None),
            };
            let Some(batch) = given else {
                self.state = State::Ended;
                self.memory.free();
                return Ok(None);
            };
            let batch = match self.others_max {
                Some(bytes) => without_others(batch, bytes)?,
                None => batch,
            };
            self.told.record_output(batch.num_rows());
            return Ok(Some(batch));
        }
    }

    /// Reads all rows, into memory and into files.
    async fn gather(&mut self) -> Result<()> {
        let time = self.told.elapsed_compute().clone();
        while let Some(input) = &mut self.input {
            let Some(batch) = input.next().await else {
                self.input = None;
                break;
            };
            let mut batch = batch?;
            if let Some(bytes) = self.others_max {
                batch = without_others(batch, bytes)?;
            }
            let State::Gathering(rows) = &mut self.state else {
                return internal_err!("rows are gathered first");
            };
            if batch.num_rows() > 0 {
                rows.take(batch, &self.layout, &self.steps, &time).await?;
            }
            let denied = match rows.is_full() {
                true => Err(full()),
                false => self.memory.try_resize(rows.bytes()),
            };
            if let Err(denied) = denied {
                self.spill(denied).await?;
            }
        }
        let State::Gathering(rows) = std::mem::replace(&mut self.state, State::Ended) else {
            return internal_err!("rows are gathered once");
        };
        if self.files.is_some() && rows.rows() > 0 {
            self.write(*rows).await?;
        } else if self.files.is_none() {
            let rows = rows.finish(&self.layout, &self.schema, &self.steps, &time).await?;
            self.state = State::Memory(Box::new(rows));
            return Ok(());
        }
        let Some(files) = self.files.take() else { return internal_err!("a run was written") };
        let merge = files.finish(&self.layout, &self.memory, &self.steps, &time).await?;
        self.state = State::Files(Box::new(merge));
        Ok(())
    }

    /// Puts what was gathered into a file. Errors: what was denied, if the statement does not spill.
    async fn spill(&mut self, denied: DataFusionError) -> Result<()> {
        if self.spill.is_none() || !is_denied(&denied) {
            return Err(denied);
        }
        let gathered = State::Gathering(Box::default());
        let State::Gathering(rows) = std::mem::replace(&mut self.state, gathered) else {
            return internal_err!("rows are gathered first");
        };
        self.write(*rows).await
    }

    /// Writes rows as a run, and gives their memory back.
    async fn write(&mut self, rows: Gathered) -> Result<()> {
        let time = self.told.elapsed_compute().clone();
        let files = match &mut self.files {
            Some(files) => files,
            None => {
                let Some(spill) = &self.spill else { return internal_err!("a statement spills") };
                let row_bytes = rows.own_bytes() / rows.rows().max(1);
                let (schema, metrics) = (&self.schema, &self.metrics);
                let (output, rows_max) = (self.output, self.rows_max);
                let files = Files::new(spill, schema, metrics, output, row_bytes, rows_max)?;
                self.files.insert(Box::new(files))
            }
        };
        let rows = rows.finish(&self.layout, &self.schema, &self.steps, &time).await?;
        files.write(rows, &self.steps, &time).await?;
        self.memory.free();
        Ok(())
    }
}

/// No place is left for a row in memory.
fn full() -> DataFusionError {
    let message = "a sort in memory has room for two thousand million rows";
    external(SqlError::new(SqlState::OUT_OF_MEMORY, message))
}
