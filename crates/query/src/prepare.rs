//! Statements bound to what runs them.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{self, Statement};

use crate::analytic::AnalyticalPlan;
use crate::bind::{Binder, result_columns};
use crate::catalog::Privilege;
use crate::copy;
use crate::ddl;
use crate::dml;
use crate::error::{Result, SqlError};
use crate::parse::Parsed;
use crate::plan::{Plan, Prepared};
use crate::point::PointPlan;
use crate::rows::ResultColumn;
use crate::types::SqlType;
use crate::utility;
use crate::views::{self, ViewStatement};

/// Binds a statement to what runs it.
///
/// Errors: everything a text can be wrong in; positions refer to the statement's own text.
pub fn prepare(
    binder: &Binder<'_>,
    parsed: Parsed<'_>,
    param_types: &[Option<SqlType>],
) -> Result<Prepared> {
    StatementBinder(binder).bind(parsed, param_types)
}

struct StatementBinder<'a>(&'a Binder<'a>);

impl StatementBinder<'_> {
    pub fn bind(&self, parsed: Parsed<'_>, param_types: &[Option<SqlType>]) -> Result<Prepared> {
        if let Some((utility, tag)) = utility::bind(&parsed.statement, parsed.text)? {
            return Ok(self.prepared(&parsed, Plan::Utility(utility), tag));
        }
        if let Statement::Query(query) = &parsed.statement
            && !writes(query)
        {
            return self.select(&parsed, param_types);
        }
        if let Some(statement) = views::unpack(&parsed.statement, parsed.text) {
            return self.about_view(&parsed, statement);
        }
        if let Statement::Explain { statement, options: Some(options), .. } = &parsed.statement
            && options.iter().any(|option| option.name.value.eq_ignore_ascii_case("triggers"))
        {
            let Statement::Query(query) = statement.as_ref() else {
                return Err(SqlError::unsupported("EXPLAIN (TRIGGERS) of anything but a query"));
            };
            let lines = views::triggers(self.0, query, parsed.text)?;
            return Ok(self.lines(&parsed, lines));
        }
        if let Statement::Explain { analyze, statement, .. } = &parsed.statement {
            let inner = Parsed { statement: statement.as_ref().clone(), ..parsed };
            let of = self.bind(inner, param_types)?;
            let params = of.params.clone();
            let plan = Plan::Explain { analyze: *analyze, of: Box::new(of) };
            let columns = vec![text_column("QUERY PLAN")].into();
            return Ok(Prepared { params, columns, ..self.prepared(&parsed, plan, "EXPLAIN") });
        }
        if let Some(write) = dml::bind(self.0, &parsed, param_types)? {
            let prepared = self.prepared(&parsed, Plan::Write(write.plan), write.tag);
            return Ok(Prepared { params: write.params, columns: write.columns, ..prepared });
        }
        if let Some(copy) = copy::bind(self.0, &parsed, param_types)? {
            let prepared = self.prepared(&parsed, Plan::Copy(copy.plan), "COPY");
            return Ok(Prepared { columns: copy.columns, ..prepared });
        }
        match ddl::bind(&parsed.statement) {
            Some((ddl, tag)) => Ok(self.prepared(&parsed, Plan::Ddl(ddl), tag)),
            None => Err(SqlError::unsupported(first_words(parsed.text))),
        }
    }

    fn about_view(&self, parsed: &Parsed<'_>, statement: ViewStatement) -> Result<Prepared> {
        Ok(match statement {
            ViewStatement::Triggers(name) => {
                let query = views::query_of(self.0, &name)?;
                self.lines(parsed, views::triggers(self.0, &query, "")?)
            }
            ViewStatement::Maintenance(name) => {
                self.lines(parsed, views::maintenance(self.0, &name)?)
            }
            ViewStatement::CopyOrders(orders) => {
                let plan = copy::bind_orders(self.0, parsed, &orders)?;
                self.prepared(parsed, Plan::Copy(plan), "COPY")
            }
            ViewStatement::Subscribe { name, from } => {
                let view = views::view_of(self.0, &name)?;
                self.0.catalog.require_on_table(&self.0.session.user, &view, Privilege::Select)?;
                self.prepared(parsed, Plan::Subscribe { view, from }, "SUBSCRIBE")
            }
        })
    }

    /// Lines of text that hold for this execution.
    fn lines(&self, parsed: &Parsed<'_>, lines: Vec<String>) -> Prepared {
        let columns = vec![text_column("QUERY PLAN")].into();
        let prepared = self.prepared(parsed, Plan::Lines(lines), "EXPLAIN");
        Prepared { columns, shareable: false, ..prepared }
    }

    fn select(&self, parsed: &Parsed<'_>, types: &[Option<SqlType>]) -> Result<Prepared> {
        let Binder { catalog, session, df, system, point_plans } = self.0;
        let rewritten = system.rewrite(parsed.statement.clone(), catalog, session);
        let Statement::Query(query) = rewritten else {
            return Err(SqlError::unsupported("this form of query"));
        };
        let bound = self.0.query_with(&query, None, types, parsed.text)?;
        let columns = result_columns(&bound.plan);
        let locks_rows = !query.locks.is_empty();
        let point = if *point_plans { PointPlan::compile(&bound.plan) } else { None };
        let plan = match point {
            Some(plan) => Plan::Point(plan),
            None => Plan::Analytical(AnalyticalPlan::new(bound.plan, df).locking_rows(locks_rows)),
        };
        let shareable = bound.shareable;
        let prepared = self.prepared(parsed, plan, "SELECT");
        Ok(Prepared { params: bound.params, columns, shareable, locks_rows, ..prepared })
    }

    fn prepared(&self, parsed: &Parsed<'_>, plan: Plan, tag: &'static str) -> Prepared {
        Prepared {
            text: parsed.text.into(),
            catalog_version: self.0.catalog.version,
            plan,
            params: Vec::new(),
            columns: Arc::from([]),
            tag,
            shareable: true,
            locks_rows: false,
        }
    }
}

/// Whether a query holds INSERT, UPDATE or DELETE.
fn writes(query: &ast::Query) -> bool {
    matches!(
        *query.body,
        ast::SetExpr::Insert(_) | ast::SetExpr::Update(_) | ast::SetExpr::Delete(_)
    )
}

fn text_column(name: &str) -> ResultColumn {
    let field = Arc::new(SqlType::Text.field(name, false));
    ResultColumn { name: name.to_owned(), field, ty: Some(SqlType::Text), origin: None }
}

/// What kind of statement a text is, for the error that says we have no such thing.
fn first_words(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().take(2).collect();
    words.join(" ").to_uppercase()
}
