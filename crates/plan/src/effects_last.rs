//! Conditions with effects are evaluated last, and row by row; those that may fail behind those that cannot.
//!
//! `WHERE state = 'queued' AND pg_try_advisory_lock(id) LIMIT 1` is how queues of jobs are written: the lock is to be
//! taken for rows that satisfy the other conditions, and for no more of them than are wanted. DataFusion evaluates a
//! condition over a whole batch, and both sides of AND. So a rule for physical plans puts conditions that call functions with
//! effects into an operator of their own above the others. What PostgreSQL does, whose plans evaluate
//! conditions row by row in the order of the text, is the same where conditions without effects stand first, and more
//! careful elsewhere.
//!
//! Conditions that may fail come behind the others, and AND and OR before such are lazy ([`halcyon_scan::lazy`]).
//!
//! Cost: a batch of one row for each row that a condition with effects keeps.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{
    Distribution, Partitioning, PhysicalExpr, ScalarFunctionExpr, conjunction, split_conjunction,
};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{SchedulingType, apply_expression_roots};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::{Stream, StreamExt};
use halcyon_scan::lazy::{and, lazily, may_fail};
use halcyon_scan::scan::ScanExec;
use halcyon_sql::diagnose::external;
use halcyon_sql::error::SqlError;
use halcyon_task::poll_proceed;

/// Functions that do something that others, or later statements, can see.
const WITH_EFFECTS: [&str; 19] = [
    "nextval",
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_advisory_unlock",
    "pg_advisory_unlock_all",
    "pg_advisory_unlock_shared",
    "pg_advisory_xact_lock",
    "pg_advisory_xact_lock_shared",
    "pg_cancel_backend",
    "pg_notify",
    "pg_sleep",
    "pg_terminate_backend",
    "pg_try_advisory_lock",
    "pg_try_advisory_lock_shared",
    "pg_try_advisory_xact_lock",
    "pg_try_advisory_xact_lock_shared",
    "set_config",
    "setseed",
    "setval",
];

/// Whether a function of this name does something that others, or later statements, can see.
pub fn has_effects(function: &str) -> bool {
    WITH_EFFECTS.contains(&function)
}

/// The rule.
#[derive(Debug, Default)]
pub(crate) struct EffectsLast;

impl PhysicalOptimizerRule for EffectsLast {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let changed = match node.downcast_ref::<FilterExec>() {
                Some(filter) => parted(filter)?,
                None => node.downcast_ref::<ProjectionExec>().map(lazy).transpose()?.flatten(),
            };
            Ok(match changed {
                Some(changed) => Transformed::yes(changed),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "effects_last"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The filters in the place of one whose conditions have effects or may fail.
fn parted(filter: &FilterExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    // The rule comes before those that give filters a projection or a limit.
    if !may_fail(filter.predicate()) || filter.projection().is_some() || filter.fetch().is_some() {
        return Ok(None);
    }
    let all = split_conjunction(filter.predicate());
    let (last, others): (Vec<_>, Vec<_>) = all.into_iter().cloned().partition(acts);
    let (then, first): (Vec<_>, Vec<_>) = others.into_iter().partition(may_fail);
    let mut input = Arc::clone(filter.input());
    let mut steps: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
    steps.extend((!first.is_empty()).then(|| conjunction(first)));
    for condition in then {
        steps.push(lazily(&condition)?.data);
    }
    // A scan takes them one after the other; elsewhere DataFusion would put filters above each other together again.
    if input.downcast_ref::<ScanExec>().is_none() {
        steps = steps.into_iter().reduce(and).into_iter().collect();
    }
    for condition in steps {
        input = Arc::new(FilterExec::try_new(condition, input)?);
    }
    if !last.is_empty() {
        let condition = lazily(&conjunction(last))?.data;
        input = Arc::new(EffectsExec::new(condition, input));
    }
    Ok(Some(input))
}

/// A projection whose AND and OR are lazy, if it has any that are to be.
fn lazy(projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let mut changes = false;
    let mut exprs = projection.expr().to_vec();
    for part in &mut exprs {
        let changed = lazily(&part.expr)?;
        changes |= changed.transformed;
        part.expr = changed.data;
    }
    if !changes {
        return Ok(None);
    }
    Ok(Some(Arc::new(ProjectionExec::try_new(exprs, Arc::clone(projection.input()))?)))
}

fn acts(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let calls = |expr: &Arc<dyn PhysicalExpr>| {
        let call = expr.downcast_ref::<ScalarFunctionExpr>();
        Ok(call.is_some_and(|call| has_effects(call.fun().name())))
    };
    expr.exists(calls).expect("the closure does not fail")
}

/// Keeps the rows for which a condition with effects holds; no row is tried before the one before is read.
#[derive(Debug)]
struct EffectsExec {
    condition: Arc<dyn PhysicalExpr>,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl EffectsExec {
    fn new(condition: Arc<dyn PhysicalExpr>, input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = PlanProperties::clone(input.properties())
            .with_partitioning(Partitioning::UnknownPartitioning(1))
            .with_scheduling_type(SchedulingType::Cooperative);
        EffectsExec { condition, input, properties: Arc::new(properties) }
    }

    /// The operator above another input.
    fn above(&self, mut inputs: Vec<Arc<dyn ExecutionPlan>>) -> Arc<dyn ExecutionPlan> {
        assert_eq!(inputs.len(), 1, "the operator has one input");
        Arc::new(EffectsExec::new(Arc::clone(&self.condition), inputs.remove(0)))
    }
}

impl DisplayAs for EffectsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EffectsExec: {}", self.condition)
    }
}

impl ExecutionPlan for EffectsExec {
    fn name(&self) -> &'static str {
        "EffectsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots([&self.condition], f)
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
        let input = self.input.execute(partition, context)?;
        Ok(Box::pin(Tried { condition: Arc::clone(&self.condition), input, rows: None }))
    }
}

struct Tried {
    condition: Arc<dyn PhysicalExpr>,
    input: SendableRecordBatchStream,
    /// The batch whose rows are tried, and the next one.
    rows: Option<(RecordBatch, usize)>,
}

impl Tried {
    /// The next row of the batch for which the condition holds.
    fn next_row(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<RecordBatch>>> {
        while let Some((batch, next)) = &mut self.rows {
            if *next == batch.num_rows() {
                break;
            }
            SqlError::unless_interrupted().map_err(external)?;
            ready!(poll_proceed(context));
            let row = batch.slice(*next, 1);
            *next += 1;
            let holds = self.condition.evaluate(&row)?.into_array(1)?;
            let holds: &BooleanArray = holds.as_boolean();
            if holds.iter().next() == Some(Some(true)) {
                return Poll::Ready(Ok(Some(row)));
            }
        }
        Poll::Ready(Ok(None))
    }
}

impl Stream for Tried {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(row) = ready!(self.next_row(context))? {
                return Poll::Ready(Some(Ok(row)));
            }
            match ready!(self.input.poll_next_unpin(context)) {
                Some(Ok(batch)) => self.rows = Some((batch, 0)),
                other => return Poll::Ready(other),
            }
        }
    }
}

impl RecordBatchStream for Tried {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
