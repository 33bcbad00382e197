//! Parts that a query has several times, as a WITH query that is named twice: they are marked in the logical plan, and
//! run once ([`halcyon_operators::SharedExec`]).
//!
//! Aggregates, DISTINCT and window functions are shared, for they give less than they read or take long: what a join
//! or a filter gives may be much, and each place may have other conditions on it.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use halcyon_operators::SharedExec;
use halcyon_scan::provider::table_of;

/// Parts of a plan that are compared at most: each is hashed with all that lies below it.
const PARTS_MAX: usize = 64;

/// The plan with its repeated parts marked.
pub(crate) fn with_shared_parts(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut parts = Vec::new();
    plan.apply_with_subqueries(|node| {
        if is_worth_it(node) {
            parts.push(Part(node.clone()));
        }
        Ok(match parts.len() > PARTS_MAX {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    if parts.len() < 2 || parts.len() > PARTS_MAX {
        return Ok(plan);
    }
    let mut places: HashMap<Part, usize> = HashMap::new();
    parts.into_iter().for_each(|part| *places.entry(part).or_default() += 1);
    places.retain(|part, places| *places > 1 && gives_the_same(&part.0));
    if places.is_empty() {
        return Ok(plan);
    }
    let numbers: HashMap<Part, usize> =
        places.into_keys().enumerate().map(|(number, part)| (part, number)).collect();
    let marked = plan.transform_down_with_subqueries(|node| {
        if !is_worth_it(&node) {
            return Ok(Transformed::no(node));
        }
        let part = Part(node);
        let Some(&number) = numbers.get(&part) else { return Ok(Transformed::no(part.0)) };
        let node =
            LogicalPlan::Extension(Extension { node: Arc::new(Shared { part: part.0, number }) });
        // What lies within runs once anyway.
        Ok(Transformed::new(node, true, TreeNodeRecursion::Jump))
    });
    marked.data()
}

/// A part with what tells it from others: two tables may have one name in a plan.
struct Part(LogicalPlan);

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 && tables(&self.0) == tables(&other.0)
    }
}

impl Eq for Part {}

impl Hash for Part {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

/// The tables that a part scans, in its order; those that are not ours as `None`.
fn tables(part: &LogicalPlan) -> Vec<Option<u32>> {
    let mut tables = Vec::new();
    let _ = part.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            tables.push(table_of(&scan.source).map(|table| table.id.0));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    tables
}

fn is_worth_it(node: &LogicalPlan) -> bool {
    matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) | LogicalPlan::Window(_))
}

/// Whether a part gives the same rows wherever it stands: it depends on no row outside, calls nothing whose value
/// changes, and reads a table.
fn gives_the_same(part: &LogicalPlan) -> bool {
    let tables = tables(part);
    let mut same = !tables.is_empty() && tables.iter().all(Option::is_some);
    let _ = part.apply_with_subqueries(|node| {
        same &= !matches!(node, LogicalPlan::RecursiveQuery(_) | LogicalPlan::Extension(_));
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                same &= !matches!(expr, Expr::OuterReferenceColumn(..) | Expr::Placeholder(_));
                same &= !expr.is_volatile_node();
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    same
}

/// A part that the plan has several times.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Shared {
    part: LogicalPlan,
    number: usize,
}

impl PartialOrd for Shared {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.number.partial_cmp(&other.number)
    }
}

impl UserDefinedLogicalNodeCore for Shared {
    fn name(&self) -> &str {
        "Shared"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.part]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.part.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared: part={}", self.number)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let Some(part) = inputs.pop().filter(|_| inputs.is_empty()) else {
            return internal_err!("a shared part has one input");
        };
        Ok(Shared { part, number: self.number })
    }
}

/// Makes marks physical.
pub(crate) struct SharedParts;

#[async_trait]
impl ExtensionPlanner for SharedParts {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let shared = node.as_any().downcast_ref::<Shared>();
        let place = shared.zip(inputs.first());
        Ok(place.map(|(shared, input)| {
            Arc::new(SharedExec::new(Arc::clone(input), shared.number)) as _
        }))
    }
}
