//! An operator above joins, sorts, windows and groups, which give many rows without looking up.
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

/// Operators that make many rows of few.
const MAKING: [&str; 8] = [
    "NestedLoopJoinExec",
    "CrossJoinExec",
    "HashJoinExec",
    "JoinExec",
    "SortMergeJoinExec",
    "UnnestExec",
    "RecursiveQueryExec",
    "LazyMemoryExec",
];

/// Operators of DataFusion that read all of their input, and then give out what they have collected for as long as somebody
/// takes it: a sort below a window and a group was one step of 0.7 s over a million rows.
const COLLECTING: [&str; 5] = [
    "SortExec",
    "SortPreservingMergeExec",
    "WindowAggExec",
    "BoundedWindowAggExec",
    "AggregateExec",
];

/// Puts a [`PacedExec`] above each operator of [`MAKING`].
pub fn paced(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    wrapped(plan, &MAKING, true)
}

/// Puts a [`PacedExec`] above each operator of [`COLLECTING`]: last, since other rules look for these operators below each other.
pub fn collecting_paced(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    wrapped(plan, &COLLECTING, false)
}

fn wrapped(
    plan: Arc<dyn ExecutionPlan>,
    names: &[&str],
    divides: bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    let wrapped = plan.transform_up(|node| {
        Ok(match names.contains(&node.name()) {
            true => Transformed::yes(Arc::new(PacedExec::new(node, divides)) as _),
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
    /// Whether batches of wide rows are divided.
    divides: bool,
}

impl PacedExec {
    fn new(input: Arc<dyn ExecutionPlan>, divides: bool) -> Self {
        let properties = PlanProperties::clone(input.properties());
        let properties = properties.with_scheduling_type(SchedulingType::Cooperative);
        PacedExec { input, properties: Arc::new(properties), divides }
    }

    /// The operator above another input.
    fn above(&self, mut inputs: Vec<Arc<dyn ExecutionPlan>>) -> Arc<dyn ExecutionPlan> {
        assert_eq!(inputs.len(), 1, "the operator has one input");
        Arc::new(PacedExec::new(inputs.remove(0), self.divides))
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
        Ok(Box::pin(Paced {
            input,
            rows_max: self.divides.then_some(rows_max),
            pieces: VecDeque::new(),
        }))
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
    /// Rows that a batch may have if its rows are wide; `None`: batches stay as they are.
    rows_max: Option<usize>,
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
                Some(Ok(batch)) => match self.rows_max {
                    Some(rows_max) => wide::put(batch, rows_max, &mut self.pieces),
                    None => return Poll::Ready(Some(Ok(batch))),
                },
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
