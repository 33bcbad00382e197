//! Sizes of tables as of the moment at which an execution begins.
//!
//! Functions that measure tables (`pg_table_size` and its kin) need the tables' roots, and who asks for the root of a
//! table waits for the statement that writes the table. Tasks may not wait, so the roots are taken before an execution
//! becomes tasks, and the functions find them in their context. Statements that run on their session's thread ask for
//! each root when they need it.
//! Cost: a latch and a reference for each partition of the database.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::{Expr, LogicalPlan};
use halcyon_base::ids::TableId;
use halcyon_catalog::Table;
use halcyon_plan::execution;
use halcyon_store::Partition;

use super::{Context, functions};

/// Roots of the tables that a session may read, as of one moment for each table.
pub(crate) struct Taken(HashMap<TableId, Vec<triomphe::Arc<Partition>>>);

impl Taken {
    /// The tables as they are now. Waits for the statements that write them, a while for each table; a table whose
    /// writer does not come to an end meanwhile has no roots.
    pub(crate) fn of(context: &Context) -> Taken {
        let tables = context.catalog.tables.values().filter(|table| context.may_read(table));
        Taken(tables.map(|table| (table.id, context.live.roots(table))).collect())
    }

    /// Roots of a table's partitions.
    pub(crate) fn roots(&self, table: &Table) -> Vec<triomphe::Arc<Partition>> {
        self.0.get(&table.id).cloned().unwrap_or_default()
    }
}

/// The plan with the functions that measure tables bound to the tables of this moment.
pub(crate) fn measuring_now(plan: LogicalPlan) -> Result<LogicalPlan> {
    // Names of a statement are resolved by one context or a few: each view that the statement names has its own.
    let mut contexts: Vec<(Arc<Context>, Arc<Context>)> = Vec::new();
    let mut of_now = |context: &Arc<Context>| {
        let known = contexts.iter().find(|(before, _)| Arc::ptr_eq(before, context));
        if let Some((_, now)) = known {
            return Arc::clone(now);
        }
        let now = context.of_now();
        contexts.push((Arc::clone(context), Arc::clone(&now)));
        now
    };
    let mut bind = |expr: Expr| {
        Ok(match expr {
            Expr::ScalarFunction(mut call) if execution::measures(call.name()) => {
                if let Some(bound) = functions::within(&call.func, &mut of_now) {
                    call.func = Arc::new(bound);
                }
                Transformed::yes(Expr::ScalarFunction(call))
            }
            other => Transformed::no(other),
        })
    };
    let bound = plan.transform_up_with_subqueries(|node| {
        node.map_expressions(|expr| expr.transform_up(&mut bind))
    });
    bound.data()
}
