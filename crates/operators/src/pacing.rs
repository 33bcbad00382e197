//! An operator above joins and other operators that make many rows of few.
//!
//! Scans give their worker back by themselves, but a join or a series can produce rows for minutes from the
//! rows that it has read. An operator that consumes them in a loop would neither notice that the statement
//! was cancelled, or refused memory, nor let other tasks run. And a join's rows share their texts, which
//! operators above may copy: wide rows come in small batches ([`halcyon_scan::wide`]).

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
    StatisticsArgs,
};
use futures::{Stream, StreamExt};
use halcyon_plan::interrupts::go_on;
use halcyon_scan::wide;
use halcyon_task::poll_proceed;

/// Operators that are paced.
const PACED: [&str; 8] = [
    "NestedLoopJoinExec",
    "CrossJoinExec",
    "HashJoinExec",
    "JoinExec",
    "SortMergeJoinExec",
    "UnnestExec",
    "RecursiveQueryExec",
    "LazyMemoryExec",
];

/// Puts a [`PacedExec`] above each operator of [`PACED`].
pub fn paced(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let wrapped = plan.transform_up(|node| {
        Ok(match PACED.contains(&node.name()) {
            true => Transformed::yes(Arc::new(PacedExec::new(node)) as _),
            false => Transformed::no(node),
        })
    });
    wrapped.data()
}

/// Gives its input's rows, yields now and then, and ends with the statement.
#[derive(Clone, Debug)]
pub(crate) struct PacedExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl PacedExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = PlanProperties::clone(input.properties());
        let properties = properties.with_scheduling_type(SchedulingType::Cooperative);
        PacedExec { input, properties: Arc::new(properties) }
    }

    /// The operator above another input.
    fn above(&self, mut inputs: Vec<Arc<dyn ExecutionPlan>>) -> Arc<dyn ExecutionPlan> {
        assert_eq!(inputs.len(), 1, "the operator has one input");
        Arc::new(PacedExec::new(inputs.remove(0)))
    }
}

impl DisplayAs for PacedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PacedExec")
    }
}

impl ExecutionPlan for PacedExec {
    fn name(&self) -> &'static str {
        "PacedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
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
        Ok(self.above(children))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.above(children))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows_max = context.session_config().batch_size();
        let input = self.input.execute(partition, context)?;
        Ok(Box::pin(Paced { input, rows_max, pieces: VecDeque::new() }))
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }
}

struct Paced {
    input: SendableRecordBatchStream,
    /// Rows that a batch may have.
    rows_max: usize,
    /// Pieces of the last batch.
    pieces: VecDeque<RecordBatch>,
}

impl Stream for Paced {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Err(ended) = go_on() {
                return Poll::Ready(Some(Err(ended)));
            }
            ready!(poll_proceed(context));
            if let Some(piece) = self.pieces.pop_front() {
                return Poll::Ready(Some(Ok(piece)));
            }
            match ready!(self.input.poll_next_unpin(context)) {
                Some(Ok(batch)) => {
                    let rows_max = self.rows_max;
                    wide::put(batch, rows_max, &mut self.pieces);
                }
                other => return Poll::Ready(other),
            }
        }
    }
}

impl RecordBatchStream for Paced {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
