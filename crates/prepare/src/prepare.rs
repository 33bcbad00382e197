//! Statements bound to what runs them.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{self, helpers::stmt_create_table::CreateTableBuilder};

use crate::change_over::ChangeOver;
use crate::companions::Companions;
use crate::early::EarlyLocks;
use crate::explain;
use crate::plan::{Plan, Prepared};
use crate::stretch::Stretch;
use halcyon_catalog::Privilege;
use halcyon_copy::{self as copy, ParsedCopy};
use halcyon_ddl::views;
use halcyon_ddl::{self as ddl, Ddl};
use halcyon_dialect::cte_scopes::relations_of;
use halcyon_dialect::locking::Patience;
use halcyon_exec::dml::compound::{self, Last};
use halcyon_exec::dml::{self, Write, merge, returned};
use halcyon_exec::executor::Executor;
use halcyon_exec::point::short::ShortQuery;
use halcyon_names::blanks::with_blanks;
use halcyon_plan::bind::{Binder, BoundQuery, result_columns};
use halcyon_plan::effects_last::has_effects;
use halcyon_plan::execution;
use halcyon_plan::phases::PlanningTimes;
use halcyon_plan::repeatable::may_run_twice;
use halcyon_sql::diagnose::sql_error;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::parts;
use halcyon_sql::misfits;
use halcyon_sql::parse::{Parsed, parse_query, with_stack};
use halcyon_sql::rows::ResultColumn;
use halcyon_sql::stack::with_stack_for;
use halcyon_sql::syntax::{DeclareCursor, Explained, Statement, ViewStatement};
use halcyon_sql::types::SqlType;
use halcyon_sql::utility::{self, Utility};

/// Binds a statement to what runs it.
///
/// Errors: everything a text can be wrong in; positions refer to the statement's own text.
pub fn prepare(
    binder: &Binder<'_>,
    mut parsed: Parsed<'_>,
    param_types: &[Option<SqlType>],
) -> Result<Prepared> {
    let hints = std::mem::take(&mut parsed.hints);
    let mut prepared = StatementBinder(binder).bind(parsed, param_types)?;
    prepared.take(hints);
    Ok(prepared)
}

/// What an empty text is.
pub(crate) fn nothing(text: &str, binder: &Binder<'_>) -> Prepared {
    StatementBinder(binder).prepared(text, Plan::Empty, "")
}

struct StatementBinder<'a>(&'a Binder<'a>);

/// A query that was planned, in one way or another.
struct Selected {
    executor: Executor,
    columns: Arc<[ResultColumn]>,
    params: Vec<SqlType>,
    shareable: bool,
    waits_once: bool,
    /// Whether a run in vain leaves no trace.
    may_run_twice: bool,
}

impl StatementBinder<'_> {
    fn bind(&self, parsed: Parsed<'_>, param_types: &[Option<SqlType>]) -> Result<Prepared> {
        let text = parsed.text;
        self.statement(parsed, param_types).map_err(|error| misfits::placed(error, text))
    }

    fn statement(&self, parsed: Parsed<'_>, param_types: &[Option<SqlType>]) -> Result<Prepared> {
        let text = parsed.text;
        match &parsed.statement {
            Statement::Sql(statement) => {
                let mut prepared = self.sql(statement, text, param_types)?;
                prepared.objects = self.objects(statement, text);
                if may_be_impatient(text) {
                    prepared.patience = Patience::of(statement);
                }
                Ok(prepared)
            }
            Statement::Session(own) => {
                let (utility, tag) = utility::bind_own(own)?;
                let params = match &utility {
                    Utility::Declare(declare) => self.declared(declare, text, param_types)?,
                    _ => Vec::new(),
                };
                let mut prepared = self.prepared(text, Plan::Utility(utility), tag);
                prepared.params = params;
                Ok(prepared)
            }
            Statement::Ddl(own) => {
                Ok(self.prepared(text, Plan::Ddl(Ddl::Own(own.clone())), own.tag()))
            }
            Statement::View(own) => self.about_view(own, text),
            Statement::CopyOrders(orders) => {
                let plan = copy::bind_orders(self.0, orders, text)?;
                Ok(self.prepared(text, Plan::Copy(plan), "COPY"))
            }
        }
    }

    /// Object ids of the tables and views that a statement names, each once.
    fn objects(&self, statement: &ast::Statement, text: &str) -> Box<[u32]> {
        let mut names = with_stack_for(text.len(), || relations_of(statement));
        if let ast::Statement::Copy { source: ast::CopySource::Table { table_name, .. }, .. } =
            statement
        {
            names.push(table_name.clone());
        }
        let mut oids: Vec<u32> = Vec::with_capacity(names.len());
        let found = names.iter().filter_map(|name| self.0.relation_named(name)?.oid());
        found.for_each(|oid| {
            if !oids.contains(&oid) {
                oids.push(oid);
            }
        });
        oids.into()
    }

    /// Types of the parameters of a cursor's query, which is bound anew when it is declared.
    fn declared(
        &self,
        declare: &DeclareCursor,
        text: &str,
        param_types: &[Option<SqlType>],
    ) -> Result<Vec<SqlType>> {
        let query = parse_query(&declare.query)?;
        compound::refuse_writes(&query, "DECLARE CURSOR")?;
        let bound = self.select(&query, &declare.query, param_types);
        let before = text.chars().count().saturating_sub(declare.query.chars().count()) as u32;
        let shift = |error: SqlError| match error.fields().position {
            Some(position) => error.position(position + before),
            None => error,
        };
        bound.map(|bound| bound.params.clone()).map_err(shift)
    }

    /// Binds what the SQL parser has a tree for.
    fn sql(
        &self,
        statement: &ast::Statement,
        text: &str,
        param_types: &[Option<SqlType>],
    ) -> Result<Prepared> {
        use ast::Statement as Sql;
        match statement {
            Sql::Query(query) if let Some(create) = created_by(query) => {
                self.session_or_ddl(&create, text)
            }
            Sql::Query(query) => {
                let with = query.with.as_ref();
                if let ast::SetExpr::Merge(ast::Statement::Merge(merge)) = query.body.as_ref() {
                    return self.merge(merge, with, text, param_types);
                }
                let write = write_behind_with(query).and_then(write_of);
                let last = write.map_or(Last::Query(query), Last::Write);
                match (compound::is_compound(with, last)?, with, write) {
                    (true, Some(with), _) => self.compound(with, last, text, param_types),
                    (_, with, Some(write)) => self.write(write, with, text, param_types),
                    (_, _, None) => self.select(query, text, param_types),
                }
            }
            Sql::Merge(merge) => self.merge(merge, None, text, param_types),
            statement if let Some(write) = write_of(statement) => {
                compound::is_compound(None, Last::Write(write))?;
                self.write(write, None, text, param_types)
            }
            Sql::Explain { analyze, statement, format, options, .. } => {
                let asked = explain::asked(*analyze, format.as_ref(), options.as_deref())?;
                let of = self.sql(statement, text, param_types)?;
                let params = of.params.clone();
                let plan = Plan::Explain { asked, of: Box::new(of) };
                let ty = if asked.json { SqlType::Json } else { SqlType::Text };
                let columns = vec![column_of("QUERY PLAN", ty)].into();
                let mut prepared = self.prepared(text, plan, "EXPLAIN");
                prepared.params = params;
                prepared.columns = columns;
                // What is told of planning is told of this one.
                prepared.shareable = false;
                Ok(prepared)
            }
            Sql::Copy { source, to, target, options, legacy_options, .. } => {
                let parsed = ParsedCopy { source, to: *to, target, options, legacy_options };
                let copy = copy::bind(self.0, &parsed, text, param_types)?;
                let mut prepared = self.prepared(text, Plan::Copy(copy.plan), "COPY");
                prepared.columns = copy.columns;
                Ok(prepared)
            }
            other => self.session_or_ddl(other, text),
        }
    }

    fn session_or_ddl(&self, statement: &ast::Statement, text: &str) -> Result<Prepared> {
        // Both have nothing to do, but not for a table that is not there.
        if let ast::Statement::Analyze(ast::Analyze { table_name: Some(name), .. })
        | ast::Statement::Vacuum(ast::VacuumStatement { table_name: Some(name), .. }) = statement
        {
            let path: Vec<String> = self.0.search_path().map(str::to_owned).collect();
            if self.0.catalog.resolve(&parts(name)?, &path).is_none() {
                let message = format!("relation \"{name}\" does not exist");
                return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
            }
        }
        if let Some((utility, tag)) = utility::bind(statement)? {
            return Ok(self.prepared(text, Plan::Utility(utility), tag));
        }
        match ddl::bind(statement) {
            Some((ddl, tag)) => Ok(self.prepared(text, Plan::Ddl(ddl), tag)),
            None => Err(SqlError::unsupported(first_words(text))),
        }
    }

    fn write(
        &self,
        write: Write<'_>,
        with: Option<&ast::With>,
        text: &str,
        param_types: &[Option<SqlType>],
    ) -> Result<Prepared> {
        if let Some(query) = returned::in_parts(write, with)? {
            return self.in_parts(&query, write, text, param_types);
        }
        let bind = || dml::bind(self.0, write, with, text, param_types);
        let write = match dml::is_into_plain_table(self.0, write) {
            true => bind(),
            false => with_stack_for(text.len(), bind),
        }?;
        Ok(self.bound(write, text))
    }

    /// A statement whose WITH has entries that run by themselves.
    fn compound(
        &self,
        with: &ast::With,
        last: Last<'_>,
        text: &str,
        param_types: &[Option<SqlType>],
    ) -> Result<Prepared> {
        if let Last::Write(write) = last
            && let Some(query) = returned::in_parts(write, Some(with))?
        {
            return self.in_parts(&query, write, text, param_types);
        }
        Ok(self.bound(compound::bind(self.0, with, last, text, param_types)?, text))
    }

    /// A write as a query of the rows that it returns.
    fn in_parts(
        &self,
        query: &ast::Query,
        write: Write<'_>,
        text: &str,
        param_types: &[Option<SqlType>],
    ) -> Result<Prepared> {
        let with = query.with.as_ref().expect("its first part is the write");
        let last = Last::Query(query);
        let mut bound =
            with_stack_for(text.len(), || compound::bind(self.0, with, last, text, param_types))?;
        bound.tag = write.tag();
        Ok(self.bound(bound, text))
    }

    fn merge(
        &self,
        merge: &ast::Merge,
        with: Option<&ast::With>,
        text: &str,
        param_types: &[Option<SqlType>],
    ) -> Result<Prepared> {
        compound::is_compound(with, Last::Merge(merge))?;
        Ok(self.bound(merge::bind(self.0, merge, with, text, param_types)?, text))
    }

    fn bound(&self, write: dml::BoundWrite, text: &str) -> Prepared {
        let dml::BoundWrite { plan, params, columns, tag, shareable } = write;
        let mut prepared = self.prepared(text, Plan::Write(plan), tag);
        prepared.params = params;
        prepared.columns = columns;
        prepared.shareable = shareable;
        prepared
    }

    fn about_view(&self, statement: &ViewStatement, text: &str) -> Result<Prepared> {
        Ok(match statement {
            ViewStatement::Triggers(Explained::View(name)) => {
                let query = views::query_of(self.0, &parts(name)?)?;
                self.lines(text, views::triggers(self.0, &query, "")?)
            }
            ViewStatement::Triggers(Explained::Statement(statement)) => {
                let ast::Statement::Query(query) = &**statement else {
                    let refused = "EXPLAIN (TRIGGERS) of anything but a query";
                    return Err(SqlError::unsupported(refused));
                };
                self.lines(text, views::triggers(self.0, query, text)?)
            }
            ViewStatement::Maintenance(name) => {
                self.lines(text, views::maintenance(self.0, &parts(name)?)?)
            }
            ViewStatement::Subscribe { view, from } => {
                let view = views::view_of(self.0, &parts(view)?)?;
                self.0.catalog.require_on_table(&self.0.session.user, &view, Privilege::Select)?;
                self.prepared(text, Plan::Subscribe { view, from: *from }, "SUBSCRIBE")
            }
        })
    }

    /// Lines of text that hold for this execution.
    fn lines(&self, text: &str, lines: Vec<String>) -> Prepared {
        let columns = vec![text_column("QUERY PLAN")].into();
        let mut prepared = self.prepared(text, Plan::Lines(lines), "EXPLAIN");
        prepared.columns = columns;
        prepared.shareable = false;
        prepared
    }

    fn select(
        &self,
        query: &ast::Query,
        text: &str,
        types: &[Option<SqlType>],
    ) -> Result<Prepared> {
        let short = match self.0.point_plans {
            true => ShortQuery::of(self.0, query, types),
            false => None,
        };
        let selected = match short {
            Some(short) => {
                debug_assert!(self.is_long_way(&short, query, text, types), "the long way fails");
                self.0.df.count_planning();
                let params = short.params();
                let (executor, columns) = (Executor::Point(Box::new(short.plan)), short.columns);
                let (shareable, waits_once, may_run_twice) = (true, false, true);
                Selected { executor, columns, params, shareable, waits_once, may_run_twice }
            }
            None => with_stack_for(text.len(), || self.select_long(query, text, types))?,
        };
        let locks_rows = !query.locks.is_empty();
        let plan = match selected.executor {
            Executor::Point(plan) => Plan::Point(*plan),
            Executor::Analytical(plan) => Plan::Analytical(plan.locking_rows(locks_rows)),
        };
        let is_short = matches!(&plan, Plan::Point(plan) if plan.is_unique_lookup());
        let is_look_up = matches!(&plan, Plan::Point(plan) if !plan.tables().is_empty());
        let mut prepared = self.prepared(text, plan, "SELECT");
        prepared.params = selected.params;
        prepared.columns = selected.columns;
        prepared.shareable = selected.shareable;
        prepared.locks_rows = locks_rows;
        prepared.waits_once = selected.waits_once;
        prepared.change_over = ChangeOver::new(
            is_look_up && !is_short && !locks_rows && selected.shareable && selected.may_run_twice,
        );
        if is_short {
            prepared.stretch = Stretch::short();
        }
        Ok(prepared)
    }

    /// Plans a query that needs an optimizer, or has an error.
    fn select_long(
        &self,
        query: &ast::Query,
        text: &str,
        types: &[Option<SqlType>],
    ) -> Result<Selected> {
        let statement = ast::Statement::Query(Box::new(query.clone()));
        let rewritten = self.0.system.rewrite(statement, self.0.catalog, self.0.session);
        let ast::Statement::Query(query) = rewritten else {
            return Err(SqlError::unsupported("this form of query"));
        };
        let mut bound = self.0.query_with(*query, None, types, text)?;
        bound.plan =
            with_stack(|| with_blanks(bound.plan)).map_err(|error| sql_error(error, text))?;
        let columns = result_columns(&bound.plan);
        let (waits_once, may_run_twice) = (waits_once(&bound.plan), may_run_twice(&bound.plan));
        let executor = Executor::choose(bound.plan, self.0, self.0.point_plans)?;
        let waits_once = waits_once && matches!(executor, Executor::Point(_));
        let BoundQuery { params, shareable, .. } = bound;
        Ok(Selected { executor, columns, params, shareable, waits_once, may_run_twice })
    }

    /// Whether the long way finds what the short one has found, which must differ in nothing; also if the
    /// statement is to end, so that the long way finds nothing.
    fn is_long_way(
        &self,
        short: &ShortQuery,
        query: &ast::Query,
        text: &str,
        types: &[Option<SqlType>],
    ) -> bool {
        match self.select_long(query, text, types) {
            Ok(Selected {
                executor: Executor::Point(plan), columns, params, shareable, ..
            }) => {
                short.assert_same(&plan, &columns, &params);
                shareable
            }
            Ok(_) => false,
            Err(_) => SqlError::unless_interrupted().is_err(),
        }
    }

    fn prepared(&self, text: &str, plan: Plan, tag: &'static str) -> Prepared {
        Prepared {
            text: text.into(),
            catalog_version: self.0.catalog.plan_version(),
            role: self.0.session.user.as_str().into(),
            plan,
            params: Vec::new(),
            columns: Arc::from([]),
            tag,
            shareable: true,
            locks_rows: false,
            waits_once: false,
            patience: Patience::Waits,
            planning: PlanningTimes::default(),
            stretch: Stretch::default(),
            change_over: ChangeOver::default(),
            early: EarlyLocks::default(),
            companions: Companions::default(),
            objects: Box::default(),
            workload_class: None,
            unknown_hints: Box::default(),
        }
    }
}

/// Whether a query gives one row by one call of a function that waits, beside which no other has effects.
fn waits_once(plan: &LogicalPlan) -> bool {
    let (mut of_one_row, mut waiting, mut acting) = (true, 0, 0);
    let _ = plan.apply_with_subqueries(|node| {
        of_one_row &= matches!(
            node,
            LogicalPlan::Projection(_)
                | LogicalPlan::EmptyRelation(_)
                | LogicalPlan::SubqueryAlias(_)
        );
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::ScalarFunction(call) = expr {
                    waiting += usize::from(execution::waits(call.name()));
                    acting += usize::from(has_effects(call.name()));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    of_one_row && waiting == 1 && acting == 1
}

/// The CREATE TABLE … AS that a SELECT … INTO stands for; `None` for any other query.
fn created_by(query: &ast::Query) -> Option<ast::Statement> {
    fn first(body: &mut ast::SetExpr) -> Option<&mut ast::Select> {
        match body {
            ast::SetExpr::Select(select) => Some(select),
            ast::SetExpr::SetOperation { left, .. } => first(left),
            _ => None,
        }
    }
    fn has_into(body: &ast::SetExpr) -> bool {
        match body {
            ast::SetExpr::Select(select) => select.into.is_some(),
            ast::SetExpr::SetOperation { left, .. } => has_into(left),
            _ => false,
        }
    }
    if !has_into(&query.body) {
        return None;
    }
    let mut query = query.clone();
    let into = first(&mut query.body)?.into.take()?;
    let create = CreateTableBuilder::new(into.name).temporary(into.temporary);
    Some(ast::Statement::CreateTable(create.query(Some(Box::new(query))).build()))
}

/// The INSERT, UPDATE or DELETE that stands behind a WITH.
fn write_behind_with(query: &ast::Query) -> Option<&ast::Statement> {
    match query.body.as_ref() {
        ast::SetExpr::Insert(statement)
        | ast::SetExpr::Update(statement)
        | ast::SetExpr::Delete(statement) => Some(statement),
        _ => None,
    }
}

/// The statement, if it is INSERT, UPDATE or DELETE.
fn write_of(statement: &ast::Statement) -> Option<Write<'_>> {
    match statement {
        ast::Statement::Insert(insert) => Some(Write::Insert(insert)),
        ast::Statement::Update(update) => Some(Write::Update(update)),
        ast::Statement::Delete(delete) => Some(Write::Delete(delete)),
        _ => None,
    }
}

/// Whether a text has a word of those that tell a statement not to wait.
fn may_be_impatient(text: &str) -> bool {
    let has = |word: &str| {
        text.as_bytes().windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
    };
    has("nowait") || has("locked")
}

fn text_column(name: &str) -> ResultColumn {
    column_of(name, SqlType::Text)
}

fn column_of(name: &str, ty: SqlType) -> ResultColumn {
    let field = Arc::new(ty.field(name, false));
    ResultColumn { name: name.to_owned(), field, ty: Some(ty), origin: None }
}

/// What kind of statement a text is, for the error that says we have no such thing.
fn first_words(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().take(2).collect();
    words.join(" ").to_uppercase()
}
