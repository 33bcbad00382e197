//! The columns of a result that are columns of a table, unchanged: drivers need them to write back
//! what they have read.

use datafusion::common::DFSchema;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan};

use halcyon_scan::provider::table_of;

/// The origin of a column: a table's object id, and the number of the table's column from 1.
pub type Origin = (u32, u16);

/// The origin of every column of a plan's result that has one.
pub fn origins(plan: &LogicalPlan) -> Vec<Option<Origin>> {
    let width = plan.schema().fields().len();
    let found = match plan {
        LogicalPlan::Projection(projection) => {
            let below = origins(&projection.input);
            let schema = projection.input.schema();
            projection.expr.iter().map(|expr| of_expr(expr, schema, &below)).collect()
        }
        LogicalPlan::Aggregate(aggregate) => {
            let below = origins(&aggregate.input);
            let schema = aggregate.input.schema();
            aggregate.group_expr.iter().map(|expr| of_expr(expr, schema, &below)).collect()
        }
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::Window(_) => {
            plan.inputs().first().map_or(Vec::new(), |input| origins(input))
        }
        LogicalPlan::Join(join) => match join.join_type {
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => origins(&join.left),
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => origins(&join.right),
            _ => [origins(&join.left), origins(&join.right)].concat(),
        },
        LogicalPlan::TableScan(scan) => match table_of(&scan.source) {
            Some(table) => {
                let own = table.columns.len();
                let all = || (0..own).collect();
                let columns: Vec<usize> = scan.projection.clone().unwrap_or_else(all);
                let origin =
                    |column: usize| (column < own).then(|| (table.id.0, column as u16 + 1));
                columns.into_iter().map(origin).collect()
            }
            None => Vec::new(),
        },
        _ => Vec::new(),
    };
    // Nodes add columns behind those of their input; columns of unknown nodes have no origin.
    let mut found = found;
    found.resize(width, None);
    found
}

/// The origin of an expression that is nothing but a column of a node's input.
fn of_expr(expr: &Expr, schema: &DFSchema, below: &[Option<Origin>]) -> Option<Origin> {
    match expr {
        Expr::Alias(alias) => of_expr(&alias.expr, schema, below),
        Expr::Column(column) => below[schema.index_of_column(column).ok()?],
        _ => None,
    }
}
