//! What grouped joins do not know of keys.
//!
//! A table's primary key determines its columns, and below a join still does, though rows with one key are several there. Of an
//! aggregate over such rows DataFusion says that the key determines all columns, those of the other tables as well, and even that
//! no two rows have the same: `SELECT DISTINCT u.id, v.x FROM u, v` has many rows with one `u.id`. Orders by such columns would
//! be left out, groups above become one, and joins with the result would lose rows. So plans that group above joins read
//! tables whose keys nobody is told of ([`without_misleading_keys`]), once the keys have said which columns a grouped query may show.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, FunctionalDependencies, Result};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::provider::key_told_by;

/// The plan of a query as it was bound, without the keys of its tables.
pub fn without_misleading_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|mut node| {
        if let LogicalPlan::TableScan(scan) = &mut node
            && let Some(table) = key_told_by(&scan.source)
        {
            scan.source = provider_as_source(Arc::new(table.without_key()));
        }
        let schema = match &mut node {
            LogicalPlan::TableScan(scan) => &mut scan.projected_schema,
            LogicalPlan::Projection(projection) => &mut projection.schema,
            LogicalPlan::Window(window) => &mut window.schema,
            LogicalPlan::Aggregate(aggregate) => &mut aggregate.schema,
            LogicalPlan::Join(join) => &mut join.schema,
            LogicalPlan::SubqueryAlias(alias) => &mut alias.schema,
            LogicalPlan::Unnest(unnest) => &mut unnest.schema,
            _ => return Ok(Transformed::no(node)),
        };
        forget(schema)?;
        Ok(Transformed::yes(node))
    })
    .data()
}

fn forget(schema: &mut DFSchemaRef) -> Result<()> {
    if !schema.functional_dependencies().is_empty() {
        let known = schema.as_ref().clone();
        *schema = Arc::new(known.with_functional_dependencies(FunctionalDependencies::empty())?);
    }
    Ok(())
}

/// Whether a plan groups rows and joins tables, in whatever order, also once its subqueries have become joins and groups.
pub fn may_mislead(plan: &LogicalPlan) -> Result<bool> {
    let (mut groups, mut joins, mut is_correlated) = (false, false, false);
    plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::Aggregate(aggregate) => groups |= !aggregate.group_expr.is_empty(),
            LogicalPlan::Distinct(_) => groups = true,
            LogicalPlan::Join(_) => joins = true,
            LogicalPlan::Subquery(subquery) => {
                joins = true;
                is_correlated |= !subquery.outer_ref_columns.is_empty();
            }
            _ => {}
        }
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                let subquery = match expr {
                    Expr::ScalarSubquery(subquery) => subquery,
                    Expr::Exists(exists) => &exists.subquery,
                    Expr::InSubquery(within) => &within.subquery,
                    Expr::SetComparison(comparison) => &comparison.subquery,
                    _ => return Ok(TreeNodeRecursion::Continue),
                };
                joins = true;
                is_correlated |= !subquery.outer_ref_columns.is_empty();
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(joins && (groups || is_correlated))
}
