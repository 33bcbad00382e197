//! Where planning looks whether its statement is to end: between the steps of DataFusion's optimizers
//! and in our own passes over plans.
//!
//! Invariant, checked by the test `depth` of crate `halcyon`: a statement that is cancelled, or whose
//! time is over, while it is planned ends soon after (57014).

use std::sync::Arc;

use crate::effects_last::EffectsLast;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizerContext;
use datafusion::physical_plan::ExecutionPlan;
use halcyon_base::interrupt;
use halcyon_joins::JoinOrder;
use halcyon_scan::forgetting::{PhysicalRule, physical_rules};
use halcyon_scan::reach::FiltersReachScans;
use halcyon_sql::diagnose::external;
use halcyon_sql::error::SqlError;
use halcyon_txn::CancelToken;
use halcyon_unnest::conjunctions::balanced;

/// Does `work`, whose planning `cancel` may end.
pub fn under<R>(cancel: &CancelToken, work: impl FnOnce() -> R) -> R {
    let cancel = cancel.clone();
    interrupt::watching(move || cancel.is_cancelled(), work)
}

/// Errors: 57014 if the statement that this thread plans or runs is to end, 53200 if it was refused memory.
pub fn go_on() -> Result<()> {
    SqlError::unless_interrupted().map_err(external)
}

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// A rule that looks before each node that it is given, and gets long chains of conditions balanced.
pub(crate) fn watched(rule: Rule) -> Rule {
    Arc::new(Watched(rule))
}

/// DataFusion's rules for physical plans, each of which looks before it begins. Conditions with effects are set apart,
/// filters reach scans and joins are put in order where DataFusion chooses the sides of joins.
pub(crate) fn watched_physical_rules() -> Vec<PhysicalRule> {
    let in_place_of = |rule: PhysicalRule| match rule.name() {
        "join_selection" => {
            vec![
                Arc::new(EffectsLast) as PhysicalRule,
                Arc::new(FiltersReachScans),
                Arc::new(JoinOrder),
            ]
        }
        _ => vec![rule],
    };
    let rules = physical_rules().flat_map(in_place_of);
    rules.map(|rule| Arc::new(WatchedPhysical(rule)) as PhysicalRule).collect()
}

#[derive(Debug)]
struct Watched(Rule);

impl OptimizerRule for Watched {
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
        go_on()?;
        self.0.rewrite(balanced(plan), config)
    }
}

#[derive(Debug)]
struct WatchedPhysical(PhysicalRule);

impl PhysicalOptimizerRule for WatchedPhysical {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        go_on()?;
        self.0.optimize(plan, config)
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        go_on()?;
        self.0.optimize_with_context(plan, context)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}
