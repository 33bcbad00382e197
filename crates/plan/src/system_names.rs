//! The binder's interface to the system schemas (`pg_catalog`, `information_schema`, `halcyon`),
//! whose tables and functions are implemented above the binder.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::Result;
use datafusion::logical_expr::{LogicalPlan, ScalarUDF};
use datafusion::sql::sqlparser::ast::Statement;

use halcyon_catalog::Catalog;
use halcyon_catalog::session_vars::SessionVars;

/// The system schemas of an engine.
pub trait SystemSchemas: Send + Sync {
    /// Rewrites a statement that names system tables into a form that the planner takes.
    fn rewrite(
        &self,
        statement: Statement,
        catalog: &Arc<Catalog>,
        session: &SessionVars,
    ) -> Statement;

    /// Whether a function of this name, in lower case and without its schema, exists.
    fn has_function(&self, name: &str) -> bool;

    /// A plan whose functions that measure tables ([`crate::execution::measures`]) measure them as they are now. Waits
    /// for the writers of tables, which the functions do not any more.
    fn measuring_now(&self, plan: LogicalPlan) -> Result<LogicalPlan>;

    /// Tables and functions as one session sees them at one version of the catalog.
    fn names(&self, catalog: &Arc<Catalog>, session: &SessionVars) -> Arc<dyn SystemNames>;
}

/// Tables and functions of the system schemas, for one session and one version of the catalog.
pub trait SystemNames {
    /// The table `name` of a system schema.
    fn table(&self, schema: &str, name: &str) -> Option<Arc<dyn TableProvider>>;

    /// The object id of the table `name` of a system schema; `None` also for what is a view in PostgreSQL.
    fn table_id(&self, schema: &str, name: &str) -> Option<u32>;

    /// Whether a role may read the table `name` of a system schema.
    fn may_read(&self, role: &str, schema: &str, name: &str) -> bool;

    /// The function `name`.
    fn function(&self, name: &str) -> Option<ScalarUDF>;
}

/// System schemas without a table or a function.
pub struct NoSystemSchemas;

impl SystemSchemas for NoSystemSchemas {
    fn rewrite(&self, statement: Statement, _: &Arc<Catalog>, _: &SessionVars) -> Statement {
        statement
    }

    fn has_function(&self, _: &str) -> bool {
        false
    }

    fn measuring_now(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        Ok(plan)
    }

    fn names(&self, _: &Arc<Catalog>, _: &SessionVars) -> Arc<dyn SystemNames> {
        Arc::new(NoSystemSchemas)
    }
}

impl SystemNames for NoSystemSchemas {
    fn table(&self, _: &str, _: &str) -> Option<Arc<dyn TableProvider>> {
        None
    }

    fn table_id(&self, _: &str, _: &str) -> Option<u32> {
        None
    }

    fn may_read(&self, _: &str, _: &str, _: &str) -> bool {
        true
    }

    fn function(&self, _: &str) -> Option<ScalarUDF> {
        None
    }
}
