//! Puts queries of PostgreSQL's tools into a form that DataFusion can plan.
//!
//! Only statements that mention the system catalogs are touched ([`mention`]). The rules, in the
//! order in which a SELECT meets them:
//! 0. `pg_catalog.t.c` is `t.c`: system tables have different names in all schemas.
//! 1. Output columns get PostgreSQL's names, unique within their SELECT ([`names`]).
//! 2. A SELECT from a table that never has rows loses its filter and everything in its output that
//!    would have to be planned and never be evaluated ([`empty`]).
//! 3. `pg_catalog` is searched first for unqualified tables, and set-returning functions in FROM
//!    become what DataFusion has ([`relations`]).
//! 4. Expressions: qualified functions and operators, `regclass` and its like, `= ANY (array)`,
//!    array literals, fields of rows, `ARRAY(SELECT …)`, scalar subqueries, which DataFusion
//!    wants aggregated, and EXISTS in the output, which it wants counted ([`exprs`],
//!    [`subqueries`]).

mod empty;
mod exprs;
mod mention;
mod names;
mod relations;
mod subqueries;

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    ObjectName, ObjectNamePart, Query, Select, SelectItem, SetExpr, Statement, TableFactor, Value,
    VisitMut, VisitorMut,
};

use super::Context;

/// The statement in a form that DataFusion can plan, if it mentions the system catalogs; else the
/// statement as it was.
pub fn rewrite(mut statement: Statement, context: &Context) -> Statement {
    if !mention::mentions_system(&statement) {
        return statement;
    }
    let ctes = relations::cte_names(&statement);
    let mut rewriter = Rewriter { context, ctes };
    let _ = VisitMut::visit(&mut statement, &mut rewriter);
    if let Statement::Query(query) = &mut statement {
        show_names(&mut query.body);
    }
    statement
}

struct Rewriter<'a> {
    context: &'a Context,
    ctes: Vec<String>,
}

impl VisitorMut for Rewriter<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        relations::keyword_table(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        exprs::columns_without_schema(select);
        names::name_outputs(select);
        empty::simplify(select);
        subqueries::exists_as_count(select);
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        relations::qualify(relation, &self.ctes);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        relations::table_function(factor, self.context);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        exprs::without_schema(expr);
        subqueries::keep_rows(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        exprs::rewrite(expr, self.context);
        subqueries::rewrite(expr);
        ControlFlow::Continue(())
    }
}

/// In the outermost output, object ids of type `regclass` and its like are shown as names; in a set
/// operation where all of its SELECTs have such an id: beside another id they are ids.
fn show_names(body: &mut SetExpr) {
    let mut selects = Vec::new();
    outputs(body, &mut selects);
    let width = selects.iter().map(|select| select.len()).min().unwrap_or(0);
    for at in 0..width {
        let is_name = |select: &&mut Vec<SelectItem>| {
            output(&mut select[at].clone()).is_some_and(exprs::show_name)
        };
        if selects.iter().all(is_name) {
            for select in &mut selects {
                output(&mut select[at]).map(exprs::show_name);
            }
        }
    }
}

/// Lists of items of the SELECTs whose rows a query gives.
fn outputs<'q>(body: &'q mut SetExpr, all: &mut Vec<&'q mut Vec<SelectItem>>) {
    match body {
        SetExpr::Select(select) => all.push(&mut select.projection),
        SetExpr::SetOperation { left, right, .. } => {
            outputs(left, all);
            outputs(right, all);
        }
        SetExpr::Query(query) => outputs(&mut query.body, all),
        _ => {}
    }
}

fn output(item: &mut SelectItem) -> Option<&mut Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// `name(args)`.
fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)));
    let args = FunctionArgumentList {
        duplicate_treatment: None,
        args: args.collect(),
        clauses: Vec::new(),
    };
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(args),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

fn null() -> Expr {
    Expr::Value(Value::Null.with_empty_span())
}

fn number(value: i64) -> Expr {
    Expr::Value(Value::Number(value.to_string(), false).with_empty_span())
}

/// The name's parts in lower case unless quoted; `None` if a part is no identifier.
fn parts(name: &ObjectName) -> Option<Vec<String>> {
    let part = |part: &ObjectNamePart| match part {
        ObjectNamePart::Identifier(ident) => Some(folded(ident)),
        ObjectNamePart::Function(_) => None,
    };
    name.0.iter().map(part).collect()
}

fn folded(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// The name of a function without `pg_catalog` or `information_schema`.
fn function_name(function: &Function) -> Option<String> {
    let parts = parts(&function.name)?;
    match parts.as_slice() {
        [name] => Some(name.clone()),
        [schema, name] if schema == "pg_catalog" || schema == "information_schema" => {
            Some(name.clone())
        }
        _ => None,
    }
}

/// The plain arguments of a call.
fn arguments(function: &Function) -> Vec<&Expr> {
    let FunctionArguments::List(list) = &function.args else { return Vec::new() };
    let plain = |arg| match arg {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref expr)) => Some(expr),
        _ => None,
    };
    list.args.iter().filter_map(plain).collect()
}
