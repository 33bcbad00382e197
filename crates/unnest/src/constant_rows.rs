//! VALUES of many constants, out of the optimizer's sight.
//!
//! The rules of DataFusion's optimizer simplify, copy and compare the cells of VALUES, each several times. Cells that are
//! constants, parameters, or casts of one of these have nothing to simplify but casts of constants, which are computed
//! here, once. While the rules are at work the rows stand behind a leaf without expressions, and are copied by reference.
//!
//! Invariant, checked by `rows_are_back_as_they_were`: [`shown`] after [`hidden`] gives the same plan but for computed
//! casts.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore, Values};

/// The fewest rows that are hidden.
const ROWS_LEAST: usize = 64;

/// The plan with a leaf in place of each VALUES of many rows of constants and parameters, which no executor knows.
pub fn hidden(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::Values(values) if values.values.len() >= ROWS_LEAST);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !found {
        return Ok(plan);
    }
    plan.transform_up_with_subqueries(|node| {
        Ok(match node {
            LogicalPlan::Values(values) if values.values.len() >= ROWS_LEAST => {
                match computed(values) {
                    Ok(values) => {
                        let node = Arc::new(ConstantRows(Arc::new(values)));
                        Transformed::yes(LogicalPlan::Extension(Extension { node }))
                    }
                    Err(values) => Transformed::no(LogicalPlan::Values(values)),
                }
            }
            other => Transformed::no(other),
        })
    })
    .data()
}

/// The plan with its VALUES where [`hidden`] has put leaves.
pub fn shown(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        let rows = match &node {
            LogicalPlan::Extension(leaf) => leaf.node.as_any().downcast_ref::<ConstantRows>(),
            _ => None,
        };
        Ok(match rows {
            Some(rows) => Transformed::yes(LogicalPlan::Values(Values::clone(&rows.0))),
            None => Transformed::no(node),
        })
    })
    .data()
}

/// Whether a node is VALUES of many rows of nothing but constants, in which passes over expressions have nothing to do.
pub fn are_constants(node: &LogicalPlan) -> bool {
    matches!(node, LogicalPlan::Values(values) if values.values.len() >= ROWS_LEAST
        && values.values.iter().flatten().all(|cell| matches!(cell, Expr::Literal(..))))
}

/// The rows with their casts of constants computed; as they were, if a cell is something else, or a cast fails.
fn computed(mut values: Values) -> std::result::Result<Values, Values> {
    fn is_bare(expr: &Expr) -> bool {
        matches!(expr, Expr::Literal(..) | Expr::Placeholder(_))
    }
    let is_constant = |cell: &Expr| match cell {
        Expr::Cast(cast) => is_bare(&cast.expr),
        cell => is_bare(cell),
    };
    if !values.values.iter().flatten().all(is_constant) {
        return Err(values);
    }
    let mut casts = Vec::new();
    for (at, cell) in values.values.iter().flatten().enumerate() {
        if let Expr::Cast(Cast { expr, field }) = cell
            && let Expr::Literal(value, metadata) = expr.as_ref()
        {
            match value.cast_to(field.data_type()) {
                Ok(value) => casts.push((at, Expr::Literal(value, metadata.clone()))),
                Err(_) => return Err(values),
            }
        }
    }
    let width = values.schema.fields().len();
    for (at, value) in casts {
        values.values[at / width][at % width] = value;
    }
    Ok(values)
}

/// Rows of constants. Two are equal if they are the same ones.
#[derive(Clone, Debug)]
struct ConstantRows(Arc<Values>);

impl PartialEq for ConstantRows {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ConstantRows {}

impl PartialOrd for ConstantRows {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl Hash for ConstantRows {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl UserDefinedLogicalNodeCore for ConstantRows {
    fn name(&self) -> &str {
        "Values"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        Vec::new()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.0.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Values: {} rows", self.0.values.len())
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, _: Vec<LogicalPlan>) -> Result<Self> {
        Ok(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;
    use datafusion::logical_expr::{LogicalPlanBuilder, cast, col, lit};
    use datafusion::optimizer::{Optimizer, OptimizerContext};

    use super::*;

    fn rows(cell: impl Fn(i32) -> Expr) -> LogicalPlan {
        let rows = (0..5_000).map(|at| vec![cell(at), lit("x")]).collect();
        let values = LogicalPlanBuilder::values(rows).expect("of one type");
        let filtered = values.filter(col("column1").gt(lit(7_i64))).expect("a condition");
        filtered.build().expect("a plan")
    }

    fn cells(plan: &LogicalPlan) -> usize {
        let mut count = 0;
        plan.apply_with_subqueries(|node| {
            node.apply_expressions(|_| {
                count += 1;
                Ok(TreeNodeRecursion::Continue)
            })
        })
        .expect("nothing fails");
        count
    }

    #[test]
    fn rows_are_back_as_they_were() {
        let plan = rows(|at| lit(i64::from(at)));
        let leaf = hidden(plan.clone()).expect("hidden");
        // The condition alone.
        assert_eq!(cells(&leaf), 1);
        assert_eq!(shown(leaf).expect("shown"), plan);
    }

    #[test]
    fn casts_of_constants_are_computed() {
        let plan = rows(|at| cast(lit(at), DataType::Int64));
        let shown = shown(hidden(plan).expect("hidden")).expect("shown");
        assert_eq!(shown, rows(|at| lit(i64::from(at))));
    }

    #[test]
    fn other_cells_stay_in_sight() {
        let plan = rows(|at| lit(i64::from(at)) + lit(1_i64));
        assert_eq!(hidden(plan.clone()).expect("hidden"), plan);
        let failing = rows(|_| cast(lit("x"), DataType::Int64));
        assert_eq!(hidden(failing.clone()).expect("hidden"), failing);
    }

    #[test]
    fn the_optimizer_takes_the_leaf_and_leaves_it() {
        let plan = hidden(rows(|at| lit(i64::from(at)))).expect("hidden");
        let found = Optimizer::new().optimize(plan, &OptimizerContext::new(), |_, _| {});
        let found = shown(found.expect("optimised")).expect("shown");
        assert_eq!(cells(&found), 10_001);
    }
}
