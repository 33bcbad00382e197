//! What is known of rows below GROUPING SETS, ROLLUP and CUBE is not true above.
//!
//! A key that is one constant in all rows, or by which rows are sorted, is NULL in the groups of the other sets. DataFusion keeps
//! what is known of its input, so that a second stage takes the key for sorted and gives a group out more than once, and a sort
//! by the key is left out. So is one by the second of two keys that are equal in all rows, of which one is NULL in some groups. [`GroupingSetsForget`] puts a node above such an aggregate of which nothing is known.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions, StatisticsArgs,
};

/// The rule; to be the first of all that know of orders.
#[derive(Debug, Default)]
pub struct GroupingSetsForget;

impl PhysicalOptimizerRule for GroupingSetsForget {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| match knows_too_much(node.as_ref()) {
            true => Ok(Transformed::yes(Arc::new(ForgetExec::new(node)) as _)),
            false => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "grouping_sets_forget"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether a node groups rows by several sets and still tells orders, constants or equal columns. The second stage of an aggregate knows what
/// the first one tells.
fn knows_too_much(node: &dyn ExecutionPlan) -> bool {
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return false };
    let known = node.equivalence_properties();
    !aggregate.group_expr().is_single()
        && aggregate.mode().input_mode() == AggregateInputMode::Raw
        && !(known.eq_group().is_empty() && known.oeq_class().is_empty())
}

/// The rows of a node, of which neither orders nor constants are known.
#[derive(Debug)]
struct ForgetExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl ForgetExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        let properties = properties.with_scheduling_type(input.properties().scheduling_type);
        ForgetExec { properties: Arc::new(properties), input }
    }

    fn above(mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop().filter(|_| children.is_empty()) else {
            return internal_err!("a node that forgets has one child");
        };
        Ok(Arc::new(ForgetExec::new(input)))
    }
}

impl DisplayAs for ForgetExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ForgetExec")
    }
}

impl ExecutionPlan for ForgetExec {
    fn name(&self) -> &'static str {
        "ForgetExec"
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
        Self::above(children)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Self::above(children)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }
}
