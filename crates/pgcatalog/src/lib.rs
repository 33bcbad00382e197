//! The system catalogs: `pg_catalog` and `information_schema` as PostgreSQL's tools read them, and
//! schema `halcyon`, which tells what the engine does.
//!
//! The way of a query over them: `rewrite` puts the statement into a form that DataFusion can
//! plan; [`provider`] and [`function`] answer the names in it; rows are written when the plan
//! runs. Types, functions and operators are fixed tables (`exported`); everything that
//! changes is written from the [`Catalog`] or asked of the engine through [`Live`].
//!
//! **Invariant**, checked by `a_statement_about_its_session_is_kept_for_no_other`: a plan that uses
//! anything from here holds for one session and one catalog version; [`is_bound_to_session`] tells
//! the statement cache.
#![forbid(unsafe_code)]

mod class_state;
mod defaults;
mod describe;
mod effects;
mod exported;
mod functions;
mod halcyon_views;
mod information_schema;
mod measuring;
mod memory;
mod objects;
mod pg_catalog;
mod progress;
mod rewrite;
mod statics;
mod system_tables;
mod table;
#[cfg(test)]
mod tests;
mod type_rows;
mod updatable;
mod user_types;
mod view;
mod workload_views;

use std::sync::{Arc, OnceLock};

use datafusion::catalog::TableProvider;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, ScalarUDF};
use datafusion::sql::sqlparser::ast::Statement;
use halcyon_store::Partition;

use halcyon_catalog::session_vars::SessionVars;
use halcyon_catalog::temporary::is_temporary;
use halcyon_catalog::{Catalog, Grant, Privilege, Sequence, Table, temporary};
use halcyon_plan::system_names::{SystemNames, SystemSchemas};

pub use class_state::{
    AdmissionRow, ClassRow, ControllerRow, EffectiveRow, EventRow, LatencyRow, QueueRow,
};
pub use effects::{AdvisoryKey, AdvisoryRequest, Effects};
pub use functions::{function, functions, is_known as is_function};
pub use halcyon_cache::GroupRow;
pub use halcyon_views::{
    Accounts, AdvisoryRow, CursorRow, Live, LockRow, LogRow, SessionRow, SessionShare,
    SessionState, SettingRow, StatementRow, TasksRow, TransactionRow, WorkerRow,
};
pub use halcyon_workers::MatrixRow;
pub use rewrite::rewrite;

use measuring::Taken;
use objects::{Object, Objects, System};

/// The object id of a function of `pg_proc` by its name, as `regproc` has it; 0 for none.
pub fn function_oid(name: &str) -> u32 {
    statics::function_oid(name.strip_prefix("pg_catalog.").unwrap_or(name)).unwrap_or(0)
}

/// Schemas whose tables are answered here.
pub const SCHEMAS: &[&str] = &["pg_catalog", "information_schema", "halcyon"];

/// The system schemas of an engine.
pub struct SystemCatalogs {
    live: Arc<dyn Live>,
}

impl SystemCatalogs {
    /// The system schemas of a running engine.
    pub fn new(live: Arc<dyn Live>) -> Self {
        SystemCatalogs { live }
    }

    /// The system schemas as stored queries and expressions see them when they are bound: nothing
    /// runs.
    pub fn without_engine() -> Self {
        SystemCatalogs { live: Arc::new(NoEngine) }
    }

    fn context(&self, catalog: &Arc<Catalog>, session: &SessionVars) -> Arc<Context> {
        let catalog = self.live.with_all_temporary(catalog);
        Context::new(catalog, session.clone(), Arc::clone(&self.live))
    }
}

impl SystemSchemas for SystemCatalogs {
    fn rewrite(
        &self,
        statement: Statement,
        catalog: &Arc<Catalog>,
        session: &SessionVars,
    ) -> Statement {
        rewrite(statement, &self.context(catalog, session))
    }

    fn has_function(&self, name: &str) -> bool {
        is_function(name)
    }

    fn measuring_now(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        measuring::measuring_now(plan)
    }

    fn names(&self, catalog: &Arc<Catalog>, session: &SessionVars) -> Arc<dyn SystemNames> {
        Arc::new(SessionCatalogs(self.context(catalog, session)))
    }
}

/// The system schemas for one session at one version of the catalog.
struct SessionCatalogs(Arc<Context>);

impl SystemNames for SessionCatalogs {
    fn table(&self, schema: &str, name: &str) -> Option<Arc<dyn TableProvider>> {
        provider(schema, name, &self.0)
    }

    fn table_id(&self, schema: &str, name: &str) -> Option<u32> {
        let table = system_tables::named(schema, name)?;
        objects::is_pg_table(table.schema, table.name).then_some(table.oid)
    }

    fn may_read(&self, role: &str, schema: &str, name: &str) -> bool {
        !objects::is_secret(schema, name) || self.0.catalog.is_superuser(role)
    }

    fn function(&self, name: &str) -> Option<ScalarUDF> {
        function(name, &self.0)
    }
}

/// An engine that does not run.
struct NoEngine;

impl Live for NoEngine {
    fn log(&self) -> Option<LogRow> {
        None
    }

    fn version(&self) -> String {
        String::new()
    }

    fn started_us(&self) -> i64 {
        0
    }

    fn sessions(&self) -> Vec<SessionRow> {
        Vec::new()
    }

    fn statements(&self) -> Vec<StatementRow> {
        Vec::new()
    }

    fn locks(&self) -> Vec<LockRow> {
        Vec::new()
    }

    fn transactions(&self) -> Vec<TransactionRow> {
        Vec::new()
    }

    fn accounts(&self) -> Accounts {
        Accounts::default()
    }

    fn workers(&self) -> Vec<WorkerRow> {
        Vec::new()
    }

    fn tasks(&self) -> Vec<TasksRow> {
        Vec::new()
    }

    fn cursors(&self) -> Vec<CursorRow> {
        Vec::new()
    }

    fn settings(&self) -> Vec<SettingRow> {
        Vec::new()
    }

    fn effects(&self) -> Option<&dyn Effects> {
        None
    }

    fn roots(&self, _: &Table) -> Vec<triomphe::Arc<Partition>> {
        Vec::new()
    }
}

/// What a query over the system catalogs depends on.
pub struct Context {
    /// The catalog it was bound to.
    pub catalog: Arc<Catalog>,
    /// The session that asks.
    pub session: SessionVars,
    /// The engine.
    pub live: Arc<dyn Live>,
    objects: Arc<OnceLock<Objects>>,
    /// The tables of one execution, as they were when it began; `None` elsewhere.
    taken: Option<Taken>,
}

impl Context {
    /// A context; cheap until something is asked of it.
    pub fn new(catalog: Arc<Catalog>, session: SessionVars, live: Arc<dyn Live>) -> Arc<Self> {
        Arc::new(Context { catalog, session, live, objects: Arc::default(), taken: None })
    }

    /// The context of one execution, for which the tables are those of this moment.
    fn of_now(&self) -> Arc<Self> {
        let taken = Taken::of(self);
        Arc::new(Context {
            catalog: Arc::clone(&self.catalog),
            session: self.session.clone(),
            live: Arc::clone(&self.live),
            objects: Arc::clone(&self.objects),
            taken: Some(taken),
        })
    }

    fn objects(&self) -> &Objects {
        self.objects.get_or_init(|| Objects::of(&self.catalog, system_tables::all()))
    }

    /// Existing schemas in which unqualified names are looked up, `pg_catalog` left out.
    fn search_path(&self) -> impl Iterator<Item = &str> {
        let user = self.session.user.as_str();
        let path = self.session.search_path.iter().map(String::as_str);
        // A role called like a system schema has no schema of its own.
        let path = path.filter(move |s| *s != "$user" || !SCHEMAS.contains(&user));
        let path = path.map(move |schema| if schema == "$user" { user } else { schema });
        path.filter(|schema| self.catalog.schemas.contains_key(*schema))
    }

    /// `current_schemas`: without schemas that are searched though no setting names them, or with `all`.
    fn current_schemas(&self, all: bool) -> impl Iterator<Item = &str> {
        let implied = move |schema: &&str| is_temporary(schema) && !self.session.names_temporary;
        let first = self.search_path().filter(move |schema| all && implied(schema));
        let then = self.search_path().filter(move |schema| !implied(schema));
        first.chain(all.then_some("pg_catalog")).chain(then)
    }

    /// The relation that `name` (one to three parts) means to the session.
    fn resolve(&self, parts: &[String]) -> Option<&Object> {
        match parts {
            [name] => {
                self.current_schemas(true).find_map(|schema| self.objects().named(schema, name))
            }
            [schema, name] => {
                let schema = temporary::meant(schema, &self.session.search_path);
                self.objects().named(schema, name)
            }
            [database, rest @ ..] if rest.len() == 2 && *database == self.session.database => {
                self.resolve(rest)
            }
            _ => None,
        }
    }

    /// Whether the relation can be named without its schema.
    fn is_visible(&self, object: &Object) -> bool {
        let found = self.resolve(std::slice::from_ref(&object.name));
        found.is_some_and(|found| found.oid == object.oid)
    }

    /// The role that owns what nobody made: the first superuser.
    fn bootstrap_name(&self) -> String {
        let mut roles = self.catalog.roles.values().filter(|role| role.superuser);
        let first = roles.by_ref().min_by_key(|role| role.oid);
        first.map_or_else(|| self.session.user.clone(), |role| role.name.clone())
    }

    fn owner_name(&self, object: &Object) -> String {
        object.owner.clone().unwrap_or_else(|| self.bootstrap_name())
    }

    fn owner_oid(&self, object: &Object) -> u32 {
        objects::role_oid(&self.catalog, &self.owner_name(object))
    }

    fn acl(&self, object: &Object) -> Option<Vec<String>> {
        let all = if object.kind() == "S" { "rwU" } else { "arwdDxt" };
        describe::acl(&self.owner_name(object), object.grants(), all)
    }

    fn is_superuser(&self) -> bool {
        self.catalog.is_superuser(&self.session.user)
    }

    /// Whether `role` may do something, by ownership or by a grant that, if `with_grant`, it may
    /// pass on.
    fn permits(
        &self,
        role: &str,
        owner: &str,
        grants: &[Grant],
        privilege: Privilege,
        with_grant: bool,
    ) -> bool {
        let given = |grant: &Grant| {
            grant.privilege == privilege
                && (grant.grantable || !with_grant)
                && self.catalog.acts_for(role, &grant.grantee)
        };
        self.catalog.acts_for(role, owner) || grants.iter().any(given)
    }

    /// Whether `role` may do something with a relation. Everybody may read system tables.
    fn may(&self, role: &str, object: &Object, privilege: Privilege, with_grant: bool) -> bool {
        self.permits(role, &self.owner_name(object), object.grants(), privilege, with_grant)
            || object.owner.is_none()
                && privilege == Privilege::Select
                && !with_grant
                && !objects::is_secret(&object.schema, &object.name)
    }

    /// Whether the session's role may read the table, and so may know how much it holds.
    fn may_read(&self, table: &Table) -> bool {
        let user = &self.session.user;
        self.catalog.require_on_table(user, table, Privilege::Select).is_ok()
    }

    /// Roots of a table's partitions, for counts and sizes; none if the session's role may not read
    /// the table.
    fn roots(&self, table: &Table) -> Vec<triomphe::Arc<Partition>> {
        match &self.taken {
            _ if !self.may_read(table) => Vec::new(),
            Some(taken) => taken.roots(table),
            None => self.live.roots(table),
        }
    }

    /// The last value a sequence gave out; `None` before the first, and for those who may not read
    /// the sequence.
    fn last_value(&self, sequence: &Sequence) -> Option<i64> {
        let any = [Privilege::Usage, Privilege::Select];
        let user = &self.session.user;
        self.catalog.require_any_on_sequence(user, sequence, &any).ok()?;
        let last = sequence.position.last();
        let before = sequence.options.start.checked_sub(sequence.options.increment);
        (Some(last) != before).then_some(last)
    }
}

/// The table `name` of a system schema; `None` if there is no such table.
pub fn provider(
    schema: &str,
    name: &str,
    context: &Arc<Context>,
) -> Option<Arc<dyn TableProvider>> {
    Some(match &system_tables::named(schema, name)?.system {
        System::Written(def) => table::provider(def, context),
        System::View(view) => table::provider(&view.def, context),
        System::Fixed(table) if name == "pg_type" => {
            table.provider(Some(type_rows::rows(context, &table.schema)))
        }
        System::Fixed(table) => table.provider(None),
    })
}

/// Names of the tables of a system schema, in order.
pub fn table_names(schema: &str) -> Vec<&'static str> {
    let all = system_tables::all().iter();
    all.filter(|table| table.schema == schema).map(|table| table.name).collect()
}

/// Whether a plan reads a system table or calls a function of a [`Context`], so that it holds for
/// the session it was bound in and must not be shared.
pub fn is_bound_to_session(plan: &LogicalPlan) -> bool {
    let mut bound = false;
    let walked = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            bound |= scan.table_name.schema().is_some_and(|schema| SCHEMAS.contains(&schema));
        }
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::ScalarFunction(call) = expr {
                    bound |= functions::is_ours(&call.func);
                }
                Ok(if bound { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })?;
        Ok(if bound { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    walked.expect("the closures do not fail");
    bound
}
