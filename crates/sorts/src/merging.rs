//! The operator that merges sorted inputs.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::ChildStats;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions, StatisticsArgs,
};
use futures::stream;
use halcyon_spill::{Spill, without_others};

use crate::key::Layout;
use crate::merge::{Merge, Source};
use crate::sorting::{OTHERS_PART, fmt_renamed};
use crate::steps::Steps;

/// Merges the rows of sorted inputs.
pub struct RunMergeExec {
    /// The merge as DataFusion's planner says it.
    node: Arc<dyn ExecutionPlan>,
    layout: Arc<Layout>,
    fetch: Option<usize>,
    metrics: ExecutionPlanMetricsSet,
    steps: Steps,
}

impl RunMergeExec {
    /// The operator in the place of DataFusion's; `None` if there is one input, or keys have no bytes.
    pub fn in_place_of(node: &SortPreservingMergeExec) -> Result<Option<RunMergeExec>> {
        if node.input().output_partitioning().partition_count() < 2 {
            return Ok(None);
        }
        let layout = Layout::of(node.expr(), &node.input().schema())?;
        let ours = |layout| {
            RunMergeExec::new(Arc::new(node.clone()), Arc::new(layout), ExecutionPlan::fetch(node))
        };
        Ok(layout.map(ours))
    }

    /// Whether no two heads need another look.
    pub(crate) fn is_quick(&self) -> bool {
        self.layout.is_quick()
    }

    fn new(node: Arc<dyn ExecutionPlan>, layout: Arc<Layout>, fetch: Option<usize>) -> Self {
        let (metrics, steps) = (ExecutionPlanMetricsSet::new(), Steps::default());
        RunMergeExec { node, layout, fetch, metrics, steps }
    }
}

impl fmt::Debug for RunMergeExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for RunMergeExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_renamed("Run", self.node.as_ref(), kind, f)
    }
}

impl ExecutionPlan for RunMergeExec {
    fn name(&self) -> &'static str {
        "RunMergeExec"
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
        let node = Arc::clone(&self.node).replace_children(children, options)?;
        Ok(Arc::new(RunMergeExec::new(node, Arc::clone(&self.layout), self.fetch)))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let node = Arc::clone(&self.node).replace_children(children, options)?;
        Ok(Arc::new(RunMergeExec::new(node, Arc::clone(&self.layout), self.fetch)))
    }

    /// The same merge, which has not run.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(RunMergeExec::new(
            Arc::clone(&self.node),
            Arc::clone(&self.layout),
            self.fetch,
        )))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let [input] = self.node.children()[..] else {
            return internal_err!("a merge has one input");
        };
        if partition != 0 {
            return internal_err!("a merge has one output");
        }
        let count = input.output_partitioning().partition_count();
        let sources = (0..count)
            .map(|part| input.execute(part, Arc::clone(&context)).map(Source::Input))
            .collect::<Result<Vec<_>>>()?;
        let memory = MemoryConsumer::new("RunMergeExec").register(context.memory_pool());
        let told = BaselineMetrics::new(&self.metrics, partition);
        let time = told.elapsed_compute();
        let spills = context.session_config().get_extension::<Spill>().is_some();
        let work = Work {
            merge: Merge::new(
                &self.layout,
                &self.schema(),
                sources,
                Some(memory),
                &self.steps,
                time,
            ),
            left: self.fetch.unwrap_or(usize::MAX),
            rows_max: context.session_config().batch_size(),
            others_max: match context.memory_pool().memory_limit() {
                MemoryLimit::Finite(bytes) if spills => Some(bytes / OTHERS_PART),
                _ => None,
            },
            told,
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

    fn fetch(&self) -> Option<usize> {
        self.fetch
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

/// The work of the output.
struct Work {
    merge: Merge,
    /// Rows that are still wanted.
    left: usize,
    rows_max: usize,
    /// Bytes of others' texts that a batch's column may hold; `None`: any.
    others_max: Option<usize>,
    told: BaselineMetrics,
}

impl Work {
    /// The next batch. Errors: 57014, 53200, and those of keys and inputs.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if self.left == 0 {
            return Ok(None);
        }
        let Some(batch) = self.merge.next(self.rows_max.min(self.left)).await? else {
            return Ok(None);
        };
        self.left -= batch.num_rows();
        self.told.record_output(batch.num_rows());
        match self.others_max {
            Some(bytes) => Ok(Some(without_others(batch, bytes)?)),
            None => Ok(Some(batch)),
        }
    }
}
