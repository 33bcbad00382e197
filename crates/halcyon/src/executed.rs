//! CREATE TABLE … AS EXECUTE, a table of the rows of a prepared query, and EXPLAIN of EXECUTE.
//!
//! The first becomes CREATE TABLE … AS with the prepared query's text, in which the arguments, evaluated once,
//! are constants of the types that the query's parameters have.

use std::ops::ControlFlow;
use std::sync::Arc;

use halcyon_sql::parse::ast::{
    CreateTable, Expr, FunctionArg, FunctionArgExpr, Query, SetExpr, Statement as Sql, TableFactor,
    Value, VisitMut, VisitorMut,
};

use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;
use halcyon_sql::parse::{parse, parse_own_expr, parse_own_query};
use halcyon_sql::syntax::executed;
use halcyon_sql::types::SqlType;
use halcyon_store::ValueRef;

use crate::digits::type_for;
use crate::outcome::Outcome;
use crate::session::Session;

impl Session {
    /// Errors: 26000 if no such statement exists, 42809 if it is no query, 42601 for another number of arguments
    /// than it has parameters; those of the query.
    pub(crate) fn create_executed(&mut self, create: &CreateTable) -> Result<Outcome> {
        let mut create = create.clone();
        let mut wanted = Executed { found: None, query: None };
        let _ = create.visit(&mut wanted);
        let (name, arguments) = wanted.found.expect("the statement has EXECUTE");
        let statement = self.named.get(&name).ok_or_else(|| unknown(&name))?;
        let prepared = statement.prepared();
        let mut parsed = parse(&prepared.text)?;
        let query = parsed.pop().and_then(|parsed| parsed.statement.into_query());
        let Some(mut query) = query else {
            let message = "prepared statement is not a SELECT";
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        };
        if arguments.len() != prepared.params.len() {
            return Err(wrong_number(&name, prepared.params.len(), arguments.len()));
        }
        let types = prepared.params.clone();
        drop(prepared);
        let values = self.texts(&arguments, &types)?;
        let _ = query.visit(&mut Arguments(values));
        wanted = Executed { found: None, query: Some(query) };
        let _ = create.visit(&mut wanted);
        let text = Sql::CreateTable(create).to_string();
        let statement = self.prepare(&text)?;
        self.run(&statement, &[])
    }

    /// EXPLAIN of EXECUTE, whose text is `explain`: that of the prepared statement, with the arguments as its parameters.
    ///
    /// Errors: 26000 if no such statement exists, 42601 for another number of arguments; those of the statement.
    pub(crate) fn explain_executed(
        &mut self,
        explain: &str,
        name: &str,
        arguments: &[Expr],
    ) -> Result<Outcome> {
        let statement = self.named.get(name).ok_or_else(|| unknown(name))?;
        let (text, count) = (Arc::clone(&statement.prepared().text), statement.params().len());
        let types: Vec<Option<SqlType>> = statement.params().iter().copied().map(Some).collect();
        if arguments.len() != count {
            return Err(wrong_number(name, count, arguments.len()));
        }
        let params = self.constants(arguments)?;
        // No option of EXPLAIN has the word.
        let options = explain.to_ascii_lowercase().find("execute").expect("EXECUTE is explained");
        let explained = format!("{}{text}", &explain[..options]);
        let explained = self.prepare_passing(&explained, &types)?;
        self.run(&explained, &params)
    }

    /// Constants of these types, each made of the text of an argument's value.
    fn texts(&mut self, arguments: &[Expr], types: &[SqlType]) -> Result<Vec<Expr>> {
        if arguments.is_empty() {
            return Ok(Vec::new());
        }
        let item = |(argument, ty): (&Expr, &SqlType)| match ty {
            // Its digits are those of the argument.
            SqlType::Decimal { .. } => format!("CAST({argument} AS TEXT)"),
            ty => format!("CAST(CAST({argument} AS {ty}) AS TEXT)"),
        };
        let list: Vec<String> = arguments.iter().zip(types).map(item).collect();
        let mut rows = self.query(format!("SELECT {}", list.join(", ")).as_str(), &[])?;
        let row = rows.next()?.expect("a SELECT without FROM has one row");
        let constant = |(at, &ty): (usize, &SqlType)| match row.value(at) {
            ValueRef::Text(text) => {
                let ty = type_for(text, ty).unwrap_or(ty);
                let text = Value::SingleQuotedString(text.to_owned());
                parse_own_expr(&format!("CAST({text} AS {ty})"))
            }
            _ => parse_own_expr(&format!("CAST(NULL AS {ty})")),
        };
        Ok(types.iter().enumerate().map(constant).collect())
    }
}

/// Finds what stands for EXECUTE in a statement, and puts a query in its place.
struct Executed {
    found: Option<(String, Vec<Expr>)>,
    query: Option<Box<Query>>,
}

impl VisitorMut for Executed {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let Some((name, arguments)) = executed(factor) else { return ControlFlow::Continue(()) };
        let value = |argument: &FunctionArg| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
            _ => None,
        };
        self.found = Some((fold(name), arguments.iter().filter_map(value).collect()));
        if let Some(query) = self.query.take() {
            let mut around = parse_own_query("SELECT * FROM (SELECT NULL) AS executed");
            if let SetExpr::Select(select) = around.body.as_mut() {
                *factor = select.from.remove(0).relation;
            }
            if let TableFactor::Derived { subquery, .. } = factor {
                *subquery = query;
            }
        }
        ControlFlow::Break(())
    }
}

/// Puts constants in the place of parameters.
struct Arguments(Vec<Expr>);

impl VisitorMut for Arguments {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Value(value) = &*expr
            && let Value::Placeholder(name) = &value.value
            && let Some(at) = name[1..].parse::<usize>().ok()
            && let Some(constant) = self.0.get(at.wrapping_sub(1))
        {
            *expr = constant.clone();
        }
        ControlFlow::Continue(())
    }
}

/// 26000: there is no prepared statement of the name.
pub(crate) fn unknown(name: &str) -> SqlError {
    let message = format!("prepared statement \"{name}\" does not exist");
    SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
}

/// 42601: as many arguments as parameters are wanted.
pub(crate) fn wrong_number(name: &str, expected: usize, given: usize) -> SqlError {
    let message = format!("wrong number of parameters for prepared statement \"{name}\"");
    SqlError::new(SqlState::SYNTAX_ERROR, message)
        .detail(format!("Expected {expected} parameters but got {given}."))
}
