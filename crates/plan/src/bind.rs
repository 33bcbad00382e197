//! Binding of queries and expressions to the catalog: names and types are resolved, and
//! PostgreSQL's meaning is put in.
//!
//! The stages of a query: [`halcyon_dialect`] rewrites its tree → DataFusion's planner with
//! our catalog → [`crate::semantics`] → DataFusion's coercion and optimizer. All of it is
//! synchronous and reads one immutable [`Catalog`].
//!
//! Parameters: declared types hold; others are inferred from their place, and are text if nothing
//! determines them.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::catalog::TableFunctionArgs;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result as DfResult, TableReference};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, TypePlanner};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    AggregateUDF, Expr, ExprSchemable, HigherOrderUDF, LogicalPlan, LogicalPlanBuilder, ScalarUDF,
    TableSource, WindowUDF,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::planner::{PlannerContext, SqlToRel, object_name_to_table_reference};
use datafusion::sql::sqlparser::ast;
use halcyon_base::duty::relieved;
use halcyon_base::ids::TableId;
use halcyon_txn::CancelToken;

use crate::domains;
use crate::engine::DataFusion;
use crate::functions::SequenceTable;
use crate::interrupts::go_on;
use crate::origin::origins;
use crate::phases::{Phase, PhaseClock};
use crate::row_sets;
use crate::semantics;
use crate::series;
use crate::single_table;
use crate::sizes;
use crate::system_names::{SystemNames, SystemSchemas};
use crate::updatable_views::{self, unmarked};
use crate::user_types;
use crate::values_lists;
use halcyon_catalog::session_vars::SessionVars;
use halcyon_catalog::{Catalog, Privilege, Relation, Table, UserType, View, denied, temporary};
use halcyon_collated::{self as collated, Collations, Settled};
use halcyon_collations::Collation;
use halcyon_dialect::many_rows::repeats_rows;
use halcyon_dialect::target_lists;
use halcyon_functions::system_columns::{self, Origin, Version, queries};
use halcyon_names::function_tables;
use halcyon_names::merged_columns::{self, Tables};
use halcyon_names::outer_names;
use halcyon_names::plain_forms;
use halcyon_names::query_facts;
use halcyon_names::short_aliases;
use halcyon_names::told_casts;
use halcyon_names::told_types::told_types;
use halcyon_scan::keys::{may_mislead, without_misleading_keys};
use halcyon_scan::provider::{HalcyonTable, ROW_ID, RowIds, ViewSource, is_target};
use halcyon_sql::coerce::zone::TimeZone;
use halcyon_sql::diagnose::{external, nearest, sql_error};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;
use halcyon_sql::misfits::no_such_function;
use halcyon_sql::parse::{parse_query, with_stack};
use halcyon_sql::rows::ResultColumn;
use halcyon_sql::types::{PG_TYPE_KEY, SqlType};
use halcyon_sql::values::sql_type_of;
use halcyon_unnest::grouping_sets::with_columns_grouped;

/// The greatest depth of views on views.
const VIEW_DEPTH_MAX: usize = 32;

/// Binds statements for one session at one catalog version.
#[derive(Clone, Copy)]
pub struct Binder<'a> {
    /// The catalog that names are resolved in.
    pub catalog: &'a Arc<Catalog>,
    /// The session's role, settings and search path.
    pub session: &'a SessionVars,
    /// DataFusion with its functions, rules and workers.
    pub df: &'a DataFusion,
    /// Tables and functions of the system schemas.
    pub system: &'a dyn SystemSchemas,
    /// Whether bounded look-ups run row at a time; otherwise everything is vectorised.
    pub point_plans: bool,
    /// The token that may end the planning, if there is one.
    pub cancel: Option<&'a CancelToken>,
    /// A clock for the phases of planning, if their times are wanted.
    pub clock: Option<&'a PhaseClock>,
}

/// A query that was bound: its plan and its parameters.
pub struct BoundQuery {
    /// Analysed, not optimised: see [`Binder::optimize`].
    pub plan: LogicalPlan,
    /// Types of `$1`, `$2`, …
    pub params: Vec<SqlType>,
    /// Collations of the result's columns; none: all have the default one.
    pub collations: Collations,
    /// Whether other sessions may run the plan, because it shows nothing of this one.
    pub shareable: bool,
}

impl BoundQuery {
    /// Columns of the result as clients see them, each with its collation in its field.
    pub fn columns(&self) -> Vec<ResultColumn> {
        let mut columns = result_columns(&self.plan).to_vec();
        for (column, collation) in columns.iter_mut().zip(&self.collations) {
            column.field = collated::with_collation(&column.field, collation.as_deref());
        }
        columns
    }
}

impl<'a> Binder<'a> {
    /// A binder for expressions and stored queries, which see the system schemas without a running
    /// engine.
    pub fn new(
        catalog: &'a Arc<Catalog>,
        session: &'a SessionVars,
        df: &'a DataFusion,
    ) -> Binder<'a> {
        Binder {
            catalog,
            session,
            df,
            system: df.system(),
            point_plans: true,
            cancel: None,
            clock: None,
        }
    }
}

impl Binder<'_> {
    /// Binds a query without parameters: PostgreSQL's meaning, nothing optimised.
    pub fn query(&self, query: &ast::Query) -> Result<LogicalPlan> {
        Ok(self.query_with(query.clone(), None, &[], "")?.plan)
    }

    /// Runs a piece of planning and counts its time for a phase.
    pub fn timed<T>(&self, phase: Phase, work: impl FnOnce() -> T) -> T {
        match self.clock {
            Some(clock) => clock.time(phase, work),
            None => work(),
        }
    }

    /// Optimises a plan for the vectorised executor.
    pub fn optimize(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let optimized = relieved(|| with_stack(|| semantics::optimize(plan, self.df)));
        optimized.map_err(|error| sql_error(error, ""))
    }

    /// Brings a plan over one table into the form for the row-at-a-time executor to try; `None` if the
    /// plan needs an optimizer.
    pub fn optimize_single_table(&self, plan: &LogicalPlan) -> Option<LogicalPlan> {
        with_stack(|| single_table::optimized(plan))
    }

    /// Optimises a plan in the short way, for the row-at-a-time executor to try. `None` if the plan
    /// is not plain ([`crate::brief`]); then that executor is to try the result of
    /// [`Binder::optimize`].
    pub fn optimize_briefly(&self, plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        let optimized = relieved(|| with_stack(|| semantics::optimize_briefly(plan, self.df)));
        optimized.map_err(|error| sql_error(error, ""))
    }

    /// Binds a query with declared parameter types. `text`: the statement's text, for positions in
    /// errors. `expose_row_ids`: the table that gets the column `_rowid`.
    pub fn query_with(
        &self,
        mut query: ast::Query,
        expose_row_ids: Option<TableId>,
        param_types: &[Option<SqlType>],
        text: &str,
    ) -> Result<BoundQuery> {
        self.df.count_planning();
        let placeholders = query_facts::parameter_count(&query);
        with_stack(|| {
            let locks_rows = !query.locks.is_empty();
            let context = Context { locks_rows, ..self.context(expose_row_ids) };
            context.rewrite(&mut query)?;
            let mut given: Vec<Option<SqlType>> = param_types.to_vec();
            given.resize(given.len().max(placeholders), None);
            let planned = self.timed(Phase::Bind, || context.plan(query, &given));
            let bound = planned.and_then(|plan| {
                let (plan, params, collations) =
                    self.timed(Phase::Meaning, || self.meaning(plan, &given))?;
                let shareable = !context.reads_system.get();
                Ok(BoundQuery { plan, params, collations, shareable })
            });
            bound.map_err(|error| sql_error(error, text))
        })
    }

    /// Gives a plan PostgreSQL's meaning, in the short way if there is one.
    fn meaning(
        &self,
        plan: LogicalPlan,
        given: &[Option<SqlType>],
    ) -> DfResult<(LogicalPlan, Vec<SqlType>, Collations)> {
        let zone = &self.session.time_zone;
        match single_table::meaning(&plan, given, zone) {
            Some(found) => {
                debug_assert!(self.is_long_way(plan, given, &found), "the long way fails");
                Ok((found.0, found.1, Vec::new()))
            }
            None => relieved(|| {
                semantics::analyze(plan, given, self.df, zone, &|name| self.collation(name))
            }),
        }
    }

    /// Whether the long way finds what the short one has `found`, which must differ in nothing; also if
    /// the statement is to end, so that the long way finds nothing.
    fn is_long_way(
        &self,
        plan: LogicalPlan,
        given: &[Option<SqlType>],
        found: &(LogicalPlan, Vec<SqlType>),
    ) -> bool {
        let zone = &self.session.time_zone;
        match semantics::analyze(plan, given, self.df, zone, &|name| self.collation(name)) {
            Ok((plan, types, _)) => {
                assert_eq!(&(plan, types), found, "the long way and the short one");
                true
            }
            Err(_) => SqlError::unless_interrupted().is_err(),
        }
    }

    /// Binds the query of a materialized view: PostgreSQL's meaning, nothing optimised, subqueries
    /// still expressions. Streams may be read.
    pub fn view_query(&self, query: &ast::Query, text: &str) -> Result<Settled> {
        self.df.count_planning();
        let mut query = query.clone();
        if query_facts::parameter_count(&query) > 0 {
            return Err(SqlError::new(
                SqlState::UNDEFINED_PARAMETER,
                "a materialized view has no parameters",
            ));
        }
        with_stack(|| {
            query_facts::names_no_objects(&query)?;
            let context = Context { reads_streams: true, ..self.context(None) };
            context.rewrite(&mut query)?;
            let bound = context.plan(query, &[]);
            let bound = bound.and_then(|plan| semantics::meaning(plan, &[], self.df));
            let bound = bound.and_then(|(plan, _)| {
                semantics::cuts_no_text(&plan)?;
                collated::settle(plan, &|name| self.collation(name))
            });
            let bound = bound.and_then(|settled| match settled.orders {
                true => Err(external(SqlError::unsupported(
                    "an order by a collation other than C in a materialized view",
                ))),
                false => Ok(settled),
            });
            bound.map_err(|error| sql_error(error, text))
        })
    }

    /// Binds a scalar expression over the columns of `schema`: analysed, coerced, simplified, but
    /// parameters and functions of the execution stay.
    pub fn expr(&self, expr: &ast::Expr, schema: &DFSchema) -> Result<Expr> {
        self.expr_with(expr, schema, &[])
    }

    /// Binds as [`Binder::expr`] does, with the types of parameters as far as they are known.
    pub fn expr_with(
        &self,
        expr: &ast::Expr,
        schema: &DFSchema,
        params: &[Option<SqlType>],
    ) -> Result<Expr> {
        self.collated_expr(expr, schema, params).map(|(expr, _)| expr)
    }

    /// Binds as [`Binder::expr_with`] does, and tells the collation of the value.
    pub fn collated_expr(
        &self,
        expr: &ast::Expr,
        schema: &DFSchema,
        params: &[Option<SqlType>],
    ) -> Result<(Expr, Option<Arc<Collation>>)> {
        let find = |name: &[String]| self.collation(name);
        let mut expr = expr.clone();
        with_stack(|| {
            let context = self.context(None);
            user_types::settle(&mut expr, &|name| self.user_type(name))?;
            values_lists::settle(&mut expr, &|query| context.field_of(query));
            halcyon_dialect::rewrite_expr(&mut expr)?;
            let planner = SqlToRel::new(&context);
            let zone = &self.session.time_zone;
            planner
                .sql_to_expr(expr, schema, &mut PlannerContext::new())
                .and_then(|expr| {
                    semantics::analyze_expr(expr, schema, params, self.df, zone, &find)
                })
                .map_err(|error| sql_error(error, ""))
        })
    }

    /// An expression as it is stored: with the schemas of users' types before their names.
    pub fn stored_text(&self, expr: &ast::Expr) -> String {
        user_types::qualified(expr, &|name| self.user_type(name)).to_string()
    }

    /// Columns of a plan's result as clients see them.
    pub fn columns(&self, plan: &LogicalPlan) -> Arc<[ResultColumn]> {
        result_columns(plan)
    }

    /// The table, view, sequence or index that `name` stands for, and the schema it was found in.
    ///
    /// Errors: 42P01 with a hint, 3F000, 0A000 for names of other databases.
    pub fn relation(&self, name: &TableReference) -> Result<(&Relation, &str)> {
        self.find_relation(name)?.ok_or_else(|| self.no_relation(name))
    }

    /// What a name with or without a schema stands for; `None`: nothing, or something of another database.
    pub fn relation_named(&self, name: &ast::ObjectName) -> Option<&Relation> {
        let part = |part: &ast::ObjectNamePart| part.as_ident().map(fold);
        let (found, _) = match name.0.as_slice() {
            [own] => self.look_up(None, &part(own)?)?,
            [schema, own] => self.look_up(Some(&part(schema)?), &part(own)?)?,
            _ => return None,
        };
        Some(found)
    }

    /// The table that a name with or without a schema stands for; `None`: something else, or nothing.
    pub fn table_named(&self, name: &ast::ObjectName) -> Option<&Arc<Table>> {
        match self.relation_named(name)? {
            Relation::Table(table) => Some(table),
            _ => None,
        }
    }

    /// The type of a user that a name with or without a schema stands for; `None`: something else, or nothing.
    pub fn user_type(&self, name: &[String]) -> Option<Arc<UserType>> {
        let within = |schema: &str, own: &str| match self.look_up(Some(schema), own)? {
            (Relation::Type(own), _) => Some(Arc::clone(own)),
            _ => None,
        };
        match name {
            [own] => self.search_path().find_map(|schema| within(schema, own)),
            [.., schema, own] => within(schema, own),
            [] => None,
        }
    }

    /// The collation that a name stands for. Errors: 42704, 3F000.
    pub fn collation(&self, name: &[String]) -> Result<Arc<Collation>> {
        let path: Vec<String> = self.search_path().map(str::to_owned).collect();
        self.catalog.collation(name, &path)
    }

    fn find_relation(&self, name: &TableReference) -> Result<Option<(&Relation, &str)>> {
        if let TableReference::Full { catalog, .. } = name
            && catalog.as_ref() != self.session.database
        {
            return Err(SqlError::unsupported(format!(
                "a reference to another database (\"{name}\")"
            )));
        }
        Ok(self.look_up(name.schema(), name.table()))
    }

    /// What stands under a name in this schema, or else in the first schema of the search path that has it.
    fn look_up(&self, schema: Option<&str>, name: &str) -> Option<(&Relation, &str)> {
        let within = |schema: &str| {
            let schema = self.catalog.schemas.get(schema)?;
            Some((schema.relations.get(name)?, schema.name.as_str()))
        };
        match schema {
            Some(schema) => within(temporary::meant(schema, &self.session.search_path)),
            None => self.search_path().find_map(within),
        }
    }

    /// Schemas in which unqualified names are looked up; `"$user"` is replaced.
    pub fn search_path(&self) -> impl Iterator<Item = &str> {
        let user = self.session.user.as_str();
        self.session
            .search_path
            .iter()
            .map(move |schema| if schema == "$user" { user } else { schema.as_str() })
    }

    fn no_relation(&self, name: &TableReference) -> SqlError {
        if let Some(schema) = name.schema()
            && !self.catalog.schemas.contains_key(schema)
        {
            return SqlError::new(
                SqlState::UNDEFINED_TABLE,
                format!("relation \"{schema}.{}\" does not exist", name.table()),
            )
            .detail(format!("There is no schema \"{schema}\"."));
        }
        let shown = match name.schema() {
            Some(schema) => format!("{schema}.{}", name.table()),
            None => name.table().to_owned(),
        };
        let error = SqlError::new(
            SqlState::UNDEFINED_TABLE,
            format!("relation \"{shown}\" does not exist"),
        );
        let names = self
            .search_path()
            .filter_map(|schema| self.catalog.schemas.get(schema))
            .flat_map(|schema| schema.relations.keys())
            .map(String::as_str);
        match nearest(name.table(), names) {
            Some(near) => error.hint(format!("Perhaps you meant \"{near}\".")),
            None => error,
        }
    }

    fn context(&self, expose_row_ids: Option<TableId>) -> Context<'_> {
        Context {
            binder: self,
            expose_row_ids,
            reads_streams: false,
            locks_rows: false,
            type_planner: Arc::new(semantics::Types),
            view_depth: Cell::new(0),
            repeats_rows: Cell::new(false),
            acting: RefCell::new(self.session.user.clone()),
            views: RefCell::new(HashMap::new()),
            system: OnceCell::new(),
            reads_system: Cell::new(false),
        }
    }
}

/// Columns of a plan's result as clients see them.
pub fn result_columns(plan: &LogicalPlan) -> Arc<[ResultColumn]> {
    let schema = plan.schema();
    schema
        .iter()
        .zip(origins(plan))
        .zip(told_types(plan))
        .map(|(((_, field), origin), told)| {
            let name = halcyon_sql::repeated::shown_name(name_before_repeat(schema, field.name()))
                .to_owned();
            let mut field = Arc::clone(field);
            if let Some(told) = told {
                Arc::make_mut(&mut field).metadata_mut().insert(PG_TYPE_KEY.to_owned(), told);
            }
            ResultColumn { name, ty: sql_type_of(&field), field, origin }
        })
        .collect()
}

/// A column's name before DataFusion told it from another one of the same name by `:1`.
fn name_before_repeat<'n>(schema: &DFSchema, name: &'n str) -> &'n str {
    match name.rsplit_once(':') {
        Some((first, number))
            if number.parse::<u32>().is_ok()
                && schema.fields().iter().any(|field| field.name() == first) =>
        {
            first
        }
        _ => name,
    }
}

/// What a statement does with the rows of a view.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Use {
    /// Reads them.
    Read,
    /// Changes them, and so asks for the numbers of the table's rows.
    Write,
}

/// Views by their ids and by what is done with their rows: the plan, and how many relations stand within it.
type PlannedViews = HashMap<(u32, Use), (Arc<ViewSource>, u64)>;

/// The binder's answers to DataFusion's planner.
struct Context<'a> {
    binder: &'a Binder<'a>,
    expose_row_ids: Option<TableId>,
    /// Whether the query is that of a materialized view, which may read streams.
    reads_streams: bool,
    /// Whether the query says FOR UPDATE or FOR SHARE, which locks all that it reads exclusively.
    locks_rows: bool,
    type_planner: Arc<semantics::Types>,
    view_depth: Cell<usize>,
    /// Whether the query makes several rows of one.
    repeats_rows: Cell<bool>,
    /// The role whose rights count: the user's, or within a view its owner's.
    acting: RefCell<String>,
    /// Views that have been planned.
    views: RefCell<PlannedViews>,
    /// Made when a system table or function is first looked up.
    system: OnceCell<Arc<dyn SystemNames>>,
    /// Whether a name was found there, so that the query shows something of its session.
    reads_system: Cell<bool>,
}

impl Context<'_> {
    /// Rewrites the query into a form that DataFusion's planner takes; the number of its relations.
    /// Errors: 54001, 54011.
    fn rewrite(&self, query: &mut ast::Query) -> Result<u64> {
        // What a view within such a query reads is read by the query.
        user_types::settle(query, &|name| self.binder.user_type(name))?;
        let tables = self.binder.df.state().table_functions();
        function_tables::settle(query, &|name| tables.contains_key(name))?;
        self.repeats_rows.set(self.repeats_rows.get() || repeats_rows(query));
        let relations = sizes::relations(query, &|name| self.relations_within(name))?;
        short_aliases::settle(query, &|name| Tables::columns(self, name).ok());
        values_lists::settle(query, &|query| self.field_of(query));
        merged_columns::settle(query, self)?;
        queries::settle(query, &|name| self.has_system_columns(name))?;
        plain_forms::settle(query)?;
        halcyon_dialect::rewrite_query(query)?;
        outer_names::settle(query);
        told_casts::settle(query);
        Ok(relations)
    }

    /// The first column of a query that stands by itself; `None` if the query cannot be bound.
    fn field_of(&self, query: &ast::Query) -> Option<FieldRef> {
        self.binder.query(query).ok()?.schema().fields().first().cloned()
    }

    /// Relations within a view; none for all else, also for what does not exist.
    /// Errors: those of planning the view.
    fn relations_within(&self, name: &ast::ObjectName) -> Result<u64> {
        let Ok(name) = object_name_to_table_reference(name.clone(), true) else { return Ok(0) };
        let Ok(Some((Relation::View(view), _))) = self.binder.find_relation(&name) else {
            return Ok(0);
        };
        self.view(view, Use::Read)?;
        let known = self.views.borrow();
        Ok(known.get(&(view.oid, Use::Read)).map_or(0, |(_, relations)| *relations))
    }

    /// The plan of a query. One that may group above joins is planned once more as if its tables had no keys, which then add no
    /// columns to its groups; if it shows columns that a key determines, it stays as it is, but for what is told of keys.
    fn plan(&self, query: ast::Query, given: &[Option<SqlType>]) -> DfResult<LogicalPlan> {
        let keyed = self.planned(query.clone(), given)?;
        let plan = match self.repeats_rows.get() || !may_mislead(&keyed)? {
            true => keyed,
            false => {
                let views = self.views.take();
                self.repeats_rows.set(true);
                let keyless = self.planned(query, given);
                self.repeats_rows.set(false);
                self.views.replace(views);
                go_on()?;
                keyless.or_else(|_| without_misleading_keys(keyed))?
            }
        };
        told_casts::taken_out(with_columns_grouped(plan)?)
    }

    fn planned(&self, query: ast::Query, given: &[Option<SqlType>]) -> DfResult<LogicalPlan> {
        let types = given.iter().map(|ty| ty.map(|ty| Arc::new(ty.field("", true)))).collect();
        let mut context = PlannerContext::new().with_prepare_param_data_types(types);
        let statement = ast::Statement::Query(Box::new(query));
        let planned =
            SqlToRel::new(self).sql_statement_to_plan_with_context(statement, &mut context);
        // A function that is not looked up any more because the statement is to end is none that does not exist.
        let planned = planned.or_else(|error| go_on().and(Err(error)))?;
        if self.expose_row_ids.is_none() {
            target_lists::check(planned.schema().fields().len()).map_err(external)?;
        }
        Ok(planned)
    }

    fn view(&self, view: &Arc<View>, used: Use) -> Result<Arc<dyn TableSource>> {
        if let Some((known, _)) = self.views.borrow().get(&(view.oid, used)) {
            return Ok(Arc::clone(known) as _);
        }
        let depth = self.view_depth.get();
        if depth >= VIEW_DEPTH_MAX {
            return Err(SqlError::new(
                SqlState::STATEMENT_TOO_COMPLEX,
                format!("views stand on more than {VIEW_DEPTH_MAX} others"),
            ));
        }
        self.view_depth.set(depth + 1);
        // A view reads with the rights of its owner.
        let acting = view.acting(&self.binder.session.user).to_owned();
        let asking = self.acting.replace(acting);
        let planned = relieved(|| self.view_plan(view, used));
        *self.acting.borrow_mut() = asking;
        self.view_depth.set(depth);
        let (plan, relations) = planned?;
        let source = Arc::new(ViewSource::new(plan));
        let known = (Arc::clone(&source), relations);
        self.views.borrow_mut().insert((view.oid, used), known);
        Ok(source)
    }

    /// The view's query with the names and types that its columns were created with, and how many
    /// relations it has.
    fn view_plan(&self, view: &Arc<View>, used: Use) -> Result<(LogicalPlan, u64)> {
        let mut query = match used {
            Use::Read => parse_query(&view.query)?,
            Use::Write => {
                let level = updatable_views::level_of(self.binder.catalog, view)?;
                updatable_views::rows_query(&level)
            }
        };
        let relations = self.rewrite(&mut query)?;
        let plan = self.plan(query, &[]).map_err(|error| sql_error(error, ""))?;
        if used == Use::Write {
            return Ok((plan, relations));
        }
        let columns = plan.schema().columns();
        let named = columns.into_iter().zip(&view.columns);
        let exprs: Vec<Expr> =
            named.map(|(column, (name, _))| Expr::Column(column).alias(name)).collect();
        LogicalPlanBuilder::from(plan)
            .project(exprs)
            .and_then(LogicalPlanBuilder::build)
            .map(|plan| (plan, relations))
            .map_err(|error| sql_error(error, ""))
    }

    fn table_source(&self, table: &Arc<Table>, row_ids: RowIds) -> Result<Arc<dyn TableSource>> {
        let catalog = self.binder.catalog;
        // A role that may write a table but not read it is checked by the writing statement.
        let acting = self.acting.borrow();
        if self.expose_row_ids != Some(table.id) || self.view_depth.get() > 0 {
            catalog.require_on_table(&acting, table, Privilege::Select)?;
        }
        if self.locks_rows {
            catalog.require_on_table(&acting, table, Privilege::Update)?;
        }
        if table.is_stream() && !self.reads_streams {
            return Err(stream_is_read(table));
        }
        let is_target = self.expose_row_ids == Some(table.id);
        let row_ids = if is_target { RowIds::OfTarget } else { row_ids };
        Ok(self.scanned(table, row_ids))
    }

    fn scanned(&self, table: &Arc<Table>, row_ids: RowIds) -> Arc<dyn TableSource> {
        let table = HalcyonTable::new(Arc::clone(table), row_ids);
        let table = if self.repeats_rows.get() { table.without_key() } else { table };
        provider_as_source(Arc::new(table))
    }

    /// A relation whose rows are to be changed: the statement that changes them asks for the rights.
    fn written(&self, name: &TableReference) -> Result<Arc<dyn TableSource>> {
        match self.binder.relation(name)? {
            (Relation::Table(table), _) => Ok(self.scanned(table, RowIds::OfTarget)),
            (Relation::View(view), _) => self.view(view, Use::Write),
            (other, _) => Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("cannot change {} \"{}\"", other.kind(), name.table()),
            )),
        }
    }

    /// Whether a name stands for a table with system columns. Views that are kept up to date read none.
    fn has_system_columns(&self, name: &ast::ObjectName) -> bool {
        let name = object_name_to_table_reference(name.clone(), true).ok();
        let name = name.map(|name| unmarked(&name).unwrap_or(name));
        let found = name.as_ref().map(|name| self.binder.find_relation(name));
        !self.reads_streams
            && match (name, found) {
                (_, Some(Ok(Some((Relation::Table(table), _))))) => {
                    !table.columns.iter().any(|column| queries::is_one(&column.name))
                }
                (Some(name), Some(Ok(None))) => self.system_table_id(&name).is_some(),
                _ => false,
            }
    }

    fn system_table_id(&self, name: &TableReference) -> Option<u32> {
        let schema = name.schema().unwrap_or("pg_catalog");
        self.of_system(|system| system.table_id(schema, name.table()))
    }

    /// A table with some of its system columns behind its own, and the numbers of rows, if they are wanted, last.
    fn with_system_columns(
        &self,
        name: TableReference,
        columns: &[&'static str],
    ) -> Result<Arc<dyn TableSource>> {
        let target = unmarked(&name);
        let found = self.binder.find_relation(target.as_ref().unwrap_or(&name))?;
        let (source, oid) = match found {
            Some((Relation::Table(table), _)) if target.is_some() => {
                (self.scanned(table, RowIds::OfTarget), Some(table.id.0))
            }
            Some((Relation::Table(table), _)) => {
                let place = columns.contains(&"ctid");
                let row_ids = if place { RowIds::Read } else { RowIds::None };
                (self.table_source(table, row_ids)?, Some(table.id.0))
            }
            _ => (self.source(&name)?, self.system_table_id(&name)),
        };
        let scanned = LogicalPlanBuilder::scan(name, source, None);
        let planned = scanned.and_then(|scan| {
            let all: Vec<Expr> = scan.schema().columns().into_iter().map(Expr::Column).collect();
            let (own, row_ids) = match found {
                Some((Relation::Table(table), _)) => all.split_at(table.columns.len()),
                _ => (&all[..], &[][..]),
            };
            let origin = Origin {
                oid: oid.unwrap_or(0),
                place: row_ids.first().cloned(),
                version: match found {
                    Some((Relation::Table(_), _)) => Version::Values(own.to_vec()),
                    _ => Version::Number(self.binder.catalog.version),
                },
                changed_by: None,
            };
            let shown =
                columns.iter().map(|name| system_columns::value(name, &origin).alias(*name));
            let is_target = is_target(scan.schema().as_arrow());
            let target = row_ids.iter().filter(|_| is_target);
            let all: Vec<Expr> = own.iter().cloned().chain(shown).chain(target.cloned()).collect();
            scan.project(all)?.build()
        });
        Ok(Arc::new(ViewSource::new(planned.map_err(|error| sql_error(error, ""))?)))
    }

    fn source(&self, name: &TableReference) -> Result<Arc<dyn TableSource>> {
        if let Some((own, columns)) = queries::unmarked(name.table()) {
            let own = match name.schema() {
                Some(schema) => TableReference::partial(schema, own),
                None => TableReference::bare(own),
            };
            return self.with_system_columns(own, &columns);
        }
        let binder = self.binder;
        if let Some(own) = unmarked(name) {
            return self.written(&own);
        }
        match binder.find_relation(name)? {
            Some((Relation::Table(table), _)) => self.table_source(table, RowIds::None),
            Some((Relation::View(view), schema)) => {
                let catalog = binder.catalog;
                let acting = self.acting.borrow().clone();
                if acting != view.owner {
                    let schema = catalog.schema(schema)?;
                    catalog.require_schema(&acting, schema, Privilege::Usage)?;
                }
                let may = |wish| catalog.permits(&acting, &view.owner, &view.grants, wish);
                if !may(Privilege::Select) || self.locks_rows && !may(Privilege::Update) {
                    return Err(SqlError::new(
                        SqlState::INSUFFICIENT_PRIVILEGE,
                        format!("permission denied for view {}", view.name),
                    ));
                }
                self.view(view, Use::Read)
            }
            Some((Relation::Sequence(sequence), _)) => {
                let acting = self.acting.borrow();
                let wish = [Privilege::Select];
                binder.catalog.require_any_on_sequence(&acting, sequence, &wish)?;
                Ok(provider_as_source(Arc::new(SequenceTable::new(sequence))))
            }
            Some((Relation::Index { .. }, _)) => Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{}\" is an index", name.table()),
            )),
            Some((Relation::Type(_), _)) | None => {
                self.system_table(name)?.ok_or_else(|| binder.no_relation(name))
            }
        }
    }

    /// Errors: 42501 for a table that the role must not read.
    fn system_table(&self, name: &TableReference) -> Result<Option<Arc<dyn TableSource>>> {
        let (schema, table) = (name.schema().unwrap_or("pg_catalog"), name.table());
        let role = self.acting.borrow();
        let found = self.of_system(|system| {
            let provider = system.table(schema, table)?;
            Some(system.may_read(&role, schema, table).then_some(provider))
        });
        match found {
            None => Ok(None),
            Some(Some(provider)) => Ok(Some(provider_as_source(provider))),
            Some(None) => Err(denied("table", table)),
        }
    }

    fn system_function(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        let state = self.binder.df.state();
        if state.aggregate_functions().contains_key(name)
            || state.window_functions().contains_key(name)
        {
            return None;
        }
        if !self.binder.system.has_function(name) {
            return None;
        }
        self.of_system(|system| system.function(name)).map(Arc::new)
    }

    /// What the system schemas have under a name. A name that they lack, such as that of an entry of WITH, leaves
    /// the query as shareable as it was.
    fn of_system<T>(&self, find: impl FnOnce(&dyn SystemNames) -> Option<T>) -> Option<T> {
        let Binder { catalog, session, system, .. } = self.binder;
        let names = self.system.get_or_init(|| relieved(|| system.names(catalog, session)));
        let found = find(names.as_ref());
        self.reads_system.set(self.reads_system.get() || found.is_some());
        found
    }

    fn table_function(&self, name: &str, args: Vec<Expr>) -> DfResult<Arc<dyn TableSource>> {
        let state = self.binder.df.state();
        let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
        let Some(function) = state.table_functions().get(name) else {
            return Err(external(no_such_function(name)));
        };
        let simplify = SimplifyContext::builder()
            .with_config_options(Arc::clone(self.binder.df.options()))
            .build();
        let simplifier = ExprSimplifier::new(simplify);
        let none = DFSchema::empty();
        let zone = TimeZone::parse(&self.binder.session.time_zone).unwrap_or_default();
        // Arrow reads fewer spellings of moments and spans than PostgreSQL.
        let typed = |arg: Expr| match &arg {
            Expr::Cast(cast) => match text_of(&cast.expr) {
                Some(text) => semantics::constant_in_zone(text, cast.field.data_type(), &zone)
                    .map(Transformed::yes),
                None => Ok(Transformed::no(arg)),
            },
            _ => Ok(semantics::narrow(arg)),
        };
        let fold = |arg: Expr| {
            let typed = arg.transform_up(typed).data()?;
            simplifier.simplify(simplifier.coerce(typed, &none)?)
        };
        let mut args = args.into_iter().map(fold).collect::<DfResult<Vec<_>>>()?;
        // A bound in quotes beside a moment with a time zone is one in the session's.
        let moment = SqlType::TimestampTz.arrow();
        let types = args.iter().map(|arg| arg.get_type(&none)).collect::<DfResult<Vec<_>>>()?;
        if name == series::NAME && types.iter().any(|ty| *ty == moment || *ty == DataType::Date32) {
            for bound in args.iter_mut().take(2) {
                if let Some(text) = text_of(bound) {
                    *bound = semantics::constant_in_zone(text, &moment, &zone)?;
                }
            }
        }
        let provider =
            function.create_table_provider_with_args(TableFunctionArgs::new(&args, state))?;
        Ok(provider_as_source(provider))
    }
}

impl Tables for Context<'_> {
    fn columns(&self, name: &ast::ObjectName) -> Result<Vec<String>> {
        let reference = object_name_to_table_reference(name.clone(), true)
            .map_err(|error| sql_error(error, ""))?;
        let source = self.source(&reference)?;
        let schema = source.schema();
        let names = schema.fields().iter().map(|field| field.name().clone());
        Ok(names.filter(|name| name != ROW_ID).collect())
    }
}

/// The text that an expression is, if the expression is a constant in quotes.
fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    }
}

/// 42809: the events of a stream are gone.
fn stream_is_read(stream: &Table) -> SqlError {
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("cannot read stream \"{}\"", stream.name))
        .detail("A stream keeps no rows: they pass to the materialized views that read it.")
        .hint("Create a materialized view over the stream, and read that.")
}

/// The name under which a function is registered: without `pg_catalog` in front.
fn own_name(name: &str) -> &str {
    name.strip_prefix("pg_catalog.").unwrap_or(name)
}

impl ContextProvider for Context<'_> {
    fn get_table_source(&self, name: TableReference) -> DfResult<Arc<dyn TableSource>> {
        go_on()?;
        self.source(&name).map_err(external)
    }

    fn get_table_function_source(
        &self,
        name: &str,
        args: Vec<Expr>,
    ) -> DfResult<Arc<dyn TableSource>> {
        go_on()?;
        self.table_function(name, args)
    }

    fn create_cte_work_table(
        &self,
        name: &str,
        schema: SchemaRef,
    ) -> DfResult<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(CteWorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.binder.df.state().expr_planners()
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::clone(&self.type_planner) as _)
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        go_on().ok()?;
        let name = own_name(name);
        if name == halcyon_dialect::ROW {
            return Some(row_sets::function());
        }
        if name == halcyon_dialect::windows::EXCLUDE {
            return Some(halcyon_aggregates::excluding::marker(name));
        }
        if name == collated::MARKER {
            return Some(collated::function());
        }
        if let Some(domain) = domains::domain_of(name) {
            let own = self.binder.catalog.type_numbered(domain)?;
            let bind = |expr: &ast::Expr, schema: &DFSchema| self.binder.expr(expr, schema);
            return domains::function(&bind, own).ok().map(Arc::new);
        }
        let known = self.binder.df.state().scalar_functions().get(name).cloned();
        // DataFusion's `version()` would give DataFusion's version.
        let known = known.filter(|_| name != "version");
        known.or_else(|| self.system_function(name))
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.binder.df.state().higher_order_functions().get(own_name(name)).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        go_on().ok()?;
        self.binder.df.state().aggregate_functions().get(own_name(name)).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.binder.df.state().window_functions().get(own_name(name)).cloned()
    }

    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        match self.reads_streams {
            true => self.binder.df.bare().config_options(),
            false => self.binder.df.options(),
        }
    }

    fn udf_names(&self) -> Vec<String> {
        self.binder.df.state().scalar_functions().keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.binder.df.state().higher_order_functions().keys().cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.binder.df.state().aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.binder.df.state().window_functions().keys().cloned().collect()
    }
}
