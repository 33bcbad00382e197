//! Results by DataFusion's operator, out of states: what becomes of an aggregation that is refused memory.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use parking_lot::Mutex;

/// States that an aggregation gives, as an input of DataFusion's operator.
struct HandedExec {
    properties: Arc<PlanProperties>,
    /// Taken once.
    states: Mutex<Option<SendableRecordBatchStream>>,
}

/// The results of an aggregation's node for the groups of one partition, whose states come from elsewhere.
///
/// Errors: those of the operator.
pub(crate) fn results_of(
    node: &AggregateExec,
    states: SendableRecordBatchStream,
    partition: usize,
    context: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let partial = of_states(node)?;
    let handed = Arc::new(HandedExec {
        properties: Arc::clone(partial.properties()),
        states: Mutex::new(Some(states)),
    });
    let mode = match partial.properties().partitioning.partition_count() {
        1 => AggregateMode::Final,
        _ => AggregateMode::FinalPartitioned,
    };
    let finals = AggregateExec::try_new(
        mode,
        node.group_expr().as_final(),
        node.aggr_expr().to_vec(),
        vec![None; node.aggr_expr().len()],
        handed,
        node.input_schema(),
    )?;
    finals.execute(partition, Arc::clone(context))
}

/// The plan whose rows are the states that a node's aggregation has: its input, or the node that would come before.
pub(crate) fn of_states(node: &AggregateExec) -> Result<Arc<dyn ExecutionPlan>> {
    Ok(match node.mode() {
        AggregateMode::Single | AggregateMode::SinglePartitioned => {
            Arc::new(AggregateExec::try_new(
                AggregateMode::Partial,
                node.group_expr().clone(),
                node.aggr_expr().to_vec(),
                node.filter_expr().to_vec(),
                Arc::clone(node.input()),
                node.input_schema(),
            )?)
        }
        _ => Arc::clone(node.input()),
    })
}

impl fmt::Debug for HandedExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for HandedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HandedExec")
    }
}

impl ExecutionPlan for HandedExec {
    fn name(&self) -> &'static str {
        "HandedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        match self.states.lock().take() {
            Some(states) => Ok(states),
            None => internal_err!("states are handed over once"),
        }
    }
}
