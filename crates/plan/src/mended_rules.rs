//! Rules of DataFusion's optimizer that could change the answer of a query, held back where they
//! would.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Aggregate, Expr, GroupingSet, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::join_keys::EqualitiesAreKeys;

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// The rule to use in the place of one of DataFusion's.
pub(crate) fn mended(rule: Rule) -> Rule {
    match rule.name() {
        "extract_equijoin_predicate" => Arc::new(EqualitiesAreKeys),
        "eliminate_cross_join" => Arc::new(FewRelations(rule)),
        "push_down_filter" => Arc::new(FiltersAboveAggregates(rule)),
        "single_distinct_aggregation_to_group_by" => Arc::new(SameTypes(rule)),
        _ => rule,
    }
}

/// Orders the tables of FROM by the equalities between them, if they are few: the rule takes time that grows with
/// the fourth power of their number, in one step, which nobody can end. Without it a condition is still pushed to the
/// join of the tables that it names.
#[derive(Debug)]
struct FewRelations(Rule);

/// Relations from which on their order is that of the statement.
const RELATIONS_MANY: usize = 48;

impl OptimizerRule for FewRelations {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let mut relations = 0;
        plan.apply(|node| {
            relations += usize::from(node.inputs().is_empty());
            let enough = relations > RELATIONS_MANY;
            Ok(if enough { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        match relations > RELATIONS_MANY {
            true => Ok(Transformed::no(plan)),
            false => self.0.rewrite(plan, config),
        }
    }
}

/// Pushes filters down, but not below aggregates that have a row for empty input: a condition that
/// names no column, such as `$1 = 2` or one of a subquery, would let that row pass.
#[derive(Debug)]
struct FiltersAboveAggregates(Rule);

impl OptimizerRule for FiltersAboveAggregates {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let mut below = &plan;
        while let LogicalPlan::Filter(filter) = below {
            below = &filter.input;
        }
        match below {
            LogicalPlan::Aggregate(aggregate) if has_a_row_of_none(aggregate) => {
                Ok(Transformed::no(plan))
            }
            _ => self.0.rewrite(plan, config),
        }
    }
}

/// Whether an aggregate has a row for empty input.
fn has_a_row_of_none(aggregate: &Aggregate) -> bool {
    match &aggregate.group_expr[..] {
        [] | [Expr::GroupingSet(GroupingSet::Rollup(_) | GroupingSet::Cube(_))] => true,
        [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => sets.iter().any(Vec::is_empty),
        _ => false,
    }
}

/// Applies a rule only where the types of its result stay the same: a sum of sums has more digits
/// than a sum, or another type, while the nodes above were planned for the original type.
#[derive(Debug)]
struct SameTypes(Rule);

impl OptimizerRule for SameTypes {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let types = |plan: &LogicalPlan| -> Vec<DataType> {
            plan.schema().fields().iter().map(|field| field.data_type().clone()).collect()
        };
        let rewritten = self.0.rewrite(plan.clone(), config)?;
        let same = types(&plan) == types(&rewritten.data);
        Ok(if same { rewritten } else { Transformed::no(plan) })
    }
}
