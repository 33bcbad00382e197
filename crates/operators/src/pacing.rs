//! An operator above joins, sorts, windows and groups, which give many rows without looking up, and below nested loops,
//! which may look at very many without giving any.
//!
//! Scans give their worker back by themselves, but a join or a series can produce rows for minutes from the
//! rows that it has read. An operator that consumes them in a loop would neither notice that the statement
//! was cancelled, or refused memory, nor let other tasks run. And a join's rows share their texts, which
//! operators above may copy: wide rows come in small batches ([`halcyon_scan::wide`]).
//!
//! DataFusion's nested loop compares each row of its right side with all of its left one before it asks for the next batch: 8,192
//! rows with 100,000 others took seconds in one step. It gets its rows in portions as large as it can compare within
//! [`PORTION_TIME`].

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions, StatisticsArgs,
};
use futures::{Stream, StreamExt};
use halcyon_base::clock::{self, Moment};
use halcyon_plan::interrupts::go_on;
use halcyon_scan::wide;
use halcyon_task::poll_proceed;

/// Operators that make many rows of few.
const MAKING: [&str; 9] = [
    "NestedLoopJoinExec",
    "RangeJoinExec",
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
const COLLECTING: [&str; 6] = [
    "SortExec",
    "BatchSortExec",
    "SortPreservingMergeExec",
    "WindowAggExec",
    "BoundedWindowAggExec",
    "AggregateExec",
];

/// The operator whose right side comes in portions.
const LOOPING: &str = "NestedLoopJoinExec";

/// The time that a nested loop may take for a portion of its right side.
const PORTION_TIME: Duration = Duration::from_millis(1);

/// Rows of the first portion, of which nothing is known.
const FIRST_PORTION: usize = 16;

/// Puts a [`PacedExec`] above each operator of [`MAKING`].
pub fn paced(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    wrapped(plan, &MAKING, Batches::Divided)
}

/// Puts a [`PacedExec`] above each operator of [`COLLECTING`], and below nested loops: last, since other rules look for these
/// operators below each other.
pub fn collecting_paced(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let looping = plan.transform_up(|node| {
        if node.name() != LOOPING {
            return Ok(Transformed::no(node));
        }
        let mut sides: Vec<_> = node.children().into_iter().cloned().collect();
        let right = sides.pop().expect("a join has two sides");
        sides.push(Arc::new(PacedExec::new(right, Batches::Portions)));
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        node.replace_children(sides, options).map(Transformed::yes)
    });
    wrapped(looping.data()?, &COLLECTING, Batches::Whole)
}

fn wrapped(
    plan: Arc<dyn ExecutionPlan>,
    names: &[&str],
    batches: Batches,
) -> Result<Arc<dyn ExecutionPlan>> {
    let wrapped = plan.transform_up(|node| {
        Ok(match names.contains(&node.name()) {
            true => Transformed::yes(Arc::new(PacedExec::new(node, batches)) as _),
            false => Transformed::no(node),
        })
    });
    wrapped.data()
}

/// What becomes of batches on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Batches {
    /// Nothing.
    Whole,
    /// Those of wide rows are divided.
    Divided,
    /// They are divided into portions, by the time that the operator above takes for them.
    Portions,
}

/// Gives its input's rows, yields now and then, and ends with the statement.
#[derive(Clone, Debug)]
pub(crate) struct PacedExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    batches: Batches,
}

impl PacedExec {
    fn new(input: Arc<dyn ExecutionPlan>, batches: Batches) -> Self {
        let properties = PlanProperties::clone(input.properties());
        let properties = properties.with_scheduling_type(SchedulingType::Cooperative);
        PacedExec { input, properties: Arc::new(properties), batches }
    }

    /// The operator above another input.
    fn above(&self, mut inputs: Vec<Arc<dyn ExecutionPlan>>) -> Arc<dyn ExecutionPlan> {
        assert_eq!(inputs.len(), 1, "the operator has one input");
        Arc::new(PacedExec::new(inputs.remove(0), self.batches))
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
            batches: self.batches,
            rows_max,
            pieces: VecDeque::new(),
            portion: Portion { rows: FIRST_PORTION, given: None },
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
    batches: Batches,
    /// Rows that a batch may have, of those that are divided.
    rows_max: usize,
    /// Pieces of the last batch.
    pieces: VecDeque<RecordBatch>,
    portion: Portion,
}

/// How many rows the operator above gets at a time.
struct Portion {
    rows: usize,
    /// When the last ones were given, and in which step.
    given: Option<(Moment, u64)>,
}

impl Portion {
    /// Learns from the time that the last portion took, if all of it was one stretch. Nobody waits where there are no steps.
    fn learn(&mut self, rows_max: usize) {
        let step = halcyon_task::step();
        match self.given.take() {
            Some((given, of)) if step == Some(of) => {
                let took = clock::now().since(given);
                if took > 8 * PORTION_TIME {
                    self.rows = (self.rows / 8).max(1);
                } else if took > PORTION_TIME {
                    self.rows = (self.rows / 2).max(1);
                } else if took < PORTION_TIME / 4 {
                    self.rows = (self.rows * 2).min(rows_max);
                }
            }
            None if step.is_none() => self.rows = rows_max,
            _ => {}
        }
    }

    /// The next rows of a batch, and the rest.
    fn cut(&mut self, batch: RecordBatch) -> (RecordBatch, Option<RecordBatch>) {
        self.given = halcyon_task::step().map(|step| (clock::now(), step));
        match batch.num_rows().checked_sub(self.rows) {
            None | Some(0) => (batch, None),
            Some(left) => (batch.slice(0, self.rows), Some(batch.slice(self.rows, left))),
        }
    }
}

impl Stream for Paced {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.batches == Batches::Portions {
            this.portion.learn(this.rows_max);
        }
        loop {
            if let Err(ended) = go_on() {
                return Poll::Ready(Some(Err(ended)));
            }
            ready!(poll_proceed(context));
            if let Some(piece) = this.pieces.pop_front() {
                if this.batches != Batches::Portions {
                    return Poll::Ready(Some(Ok(piece)));
                }
                let (portion, rest) = this.portion.cut(piece);
                this.pieces.extend(rest);
                return Poll::Ready(Some(Ok(portion)));
            }
            match ready!(this.input.poll_next_unpin(context)) {
                Some(Ok(batch)) => match this.batches {
                    Batches::Whole => return Poll::Ready(Some(Ok(batch))),
                    Batches::Divided => wide::put(batch, this.rows_max, &mut this.pieces),
                    Batches::Portions => this.pieces.push_back(batch),
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
