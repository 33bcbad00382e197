//! What is known of rows below GROUPING SETS, ROLLUP, CUBE and outer joins is not true above.
//!
//! A key that is one constant in all rows, or by which rows are sorted, is NULL in the groups of the other sets. DataFusion keeps
//! what is known of its input, so that a second stage takes the key for sorted and gives a group out more than once, and a sort
//! by the key is left out. So is one by the second of two keys that are equal in all rows, of which one is NULL in some groups.
//! A column that is one constant in all rows of a side of an outer join (`LEFT JOIN (SELECT id, 1 AS paid FROM bill)`) is NULL
//! in the rows that the join adds, too. [`Forgetting`] puts a node above such an aggregate or join of which nothing is known.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, JoinType, Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions, StatisticsArgs,
};

/// A rule for physical plans.
pub type PhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// The name of DataFusion's rule that moves the filters of physical plans.
const MOVES_FILTERS: &str = "FilterPushdown";

/// DataFusion's rules for physical plans, [`Forgetting`] first. The one that moves filters is left out: it knows the columns of a
/// projection by their names, so that a condition on one side of a join reaches a column of the other side that is called alike.
/// Filters are where they belong by the rules for logical plans, and [`crate::reach`] gives them to scans.
pub fn physical_rules() -> impl Iterator<Item = PhysicalRule> {
    let first: PhysicalRule = Arc::new(Forgetting);
    let rules = PhysicalOptimizer::new().rules.into_iter();
    std::iter::once(first).chain(rules.filter(|rule| rule.name() != MOVES_FILTERS))
}

/// The rule; to be the first of all that know of orders.
#[derive(Debug, Default)]
pub struct Forgetting;

impl PhysicalOptimizerRule for Forgetting {
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
        "forgetting"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

thread_local! {
    static IS_WARY: Cell<bool> = const { Cell::new(false) };
}

/// Plans once more what DataFusion's last check has refused: what one rule knew of an order, a later one did not, as of a column
/// that is the same in all rows (`max(x) OVER ()`) above a join. While `work` runs, [`Forgetting`] leaves nothing known of any
/// node that no sort stands below.
pub fn warily<T>(work: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            IS_WARY.set(self.0);
        }
    }
    let _before = Before(IS_WARY.replace(true));
    work()
}

/// Whether an error is that of DataFusion's last check.
pub fn is_refused_order(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::Plan(message) if message.contains("does not satisfy order requirements"))
}

/// Whether the rows of a node are in the order that a sort has given them.
fn is_above_sort(node: &dyn ExecutionPlan) -> bool {
    node.is::<SortExec>() || matches!(node.children()[..], [child] if is_above_sort(child.as_ref()))
}

/// Whether a node groups rows by several sets, or adds rows of NULLs to a join, and still tells orders, constants or equal
/// columns that held before. The second stage of an aggregate knows what the first one tells.
fn knows_too_much(node: &dyn ExecutionPlan) -> bool {
    if IS_WARY.get() {
        let known = node.equivalence_properties();
        let knows_nothing = known.eq_group().is_empty() && known.oeq_class().is_empty();
        return !knows_nothing && !is_above_sort(node);
    }
    if let Some((join_type, left, right)) = join_of(node) {
        return match join_type {
            JoinType::Left => varies_in_rows_of_nulls(right),
            JoinType::Right => varies_in_rows_of_nulls(left),
            JoinType::Full => varies_in_rows_of_nulls(left) || varies_in_rows_of_nulls(right),
            _ => false,
        };
    }
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return false };
    let known = node.equivalence_properties();
    !aggregate.group_expr().is_single()
        && aggregate.mode().input_mode() == AggregateInputMode::Raw
        && !(known.eq_group().is_empty() && known.oeq_class().is_empty())
}

type Side = Arc<dyn ExecutionPlan>;

/// The type and the sides of a join that may add rows.
fn join_of(node: &dyn ExecutionPlan) -> Option<(JoinType, &Side, &Side)> {
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        return Some((*join.join_type(), join.left(), join.right()));
    }
    if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        return Some((*join.join_type(), join.left(), join.right()));
    }
    let join = node.downcast_ref::<SortMergeJoinExec>()?;
    Some((join.join_type(), join.left(), join.right()))
}

/// Whether something that is known of a side's rows would not hold in a row of NULLs: that a column has one value, or that
/// an expression equals another one. Two columns that are equal are both NULL there.
fn varies_in_rows_of_nulls(side: &Arc<dyn ExecutionPlan>) -> bool {
    let known = side.equivalence_properties();
    let is_column = |expr: &Arc<dyn PhysicalExpr>| expr.is::<Column>();
    !known.constants().is_empty()
        || known.eq_group().iter().any(|class| !class.iter().all(is_column))
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
