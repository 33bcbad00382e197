//! Values of CHARACTER(n) in results: with their blanks, which are not stored, also where an expression has lost the
//! type's length.
//!
//! A column of CHARACTER(n) is shown with its blanks because its field names the type. The result of COALESCE, CASE,
//! `min`, `lag` and the like is of a type without a length, and each of its values has the blanks of where it comes
//! from: `coalesce(c, '')` is `'a  '` or `''`. So the SELECT whose rows are a result writes them. Expressions within
//! the query, which compare and store such values, do without.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::{Column, Result};
use datafusion::functions::unicode::expr_fn::rpad;
use datafusion::logical_expr::expr::{Case, ScalarFunction};
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, Projection, Sort, WindowFunctionDefinition, lit,
};
use halcyon_sql::types::{SqlType, TYPE_KEY};
use halcyon_sql::values::sql_type_of;

/// The plan of a query whose rows are a result, with such blanks in its columns.
pub fn with_blanks(plan: LogicalPlan) -> Result<LogicalPlan> {
    settled(plan, &[])
}

/// `ordered`: columns by which the rows are put in order, which stay as they are.
fn settled(plan: LogicalPlan, ordered: &[Column]) -> Result<LogicalPlan> {
    Ok(match plan {
        LogicalPlan::Limit(mut limit) => {
            limit.input = Arc::new(settled(Arc::unwrap_or_clone(limit.input), ordered)?);
            LogicalPlan::Limit(limit)
        }
        LogicalPlan::Sort(Sort { expr, input, fetch }) => {
            let named: Vec<Column> =
                expr.iter().flat_map(|by| by.expr.column_refs()).cloned().collect();
            let input = Arc::new(settled(Arc::unwrap_or_clone(input), &named)?);
            LogicalPlan::Sort(Sort { expr, input, fetch })
        }
        // Columns that the order alone needs stand in a SELECT below.
        LogicalPlan::Projection(projection)
            if matches!(*projection.input, LogicalPlan::Sort(_) | LogicalPlan::Limit(_))
                && projection.expr.iter().all(|expr| matches!(expr, Expr::Column(_))) =>
        {
            let input = Arc::new(settled(Arc::unwrap_or_clone(projection.input), ordered)?);
            Projection::try_new(projection.expr, input).map(LogicalPlan::Projection)?
        }
        LogicalPlan::Projection(projection) => {
            let mut changed = false;
            let mut columns = Vec::with_capacity(projection.expr.len());
            for (expr, (qualifier, field)) in projection.expr.iter().zip(projection.schema.iter()) {
                let own = Column::from((qualifier, field));
                let is_char = matches!(sql_type_of(field), Some(SqlType::Char(_)));
                let is_text = matches!(field.data_type(), DataType::Utf8View | DataType::Utf8);
                let is_made = is_text || field.data_type().is_nested();
                let shown = match is_made && !is_char && !ordered.contains(&own) {
                    true => blanks(&expr.clone().unalias(), &projection.input)?,
                    false => None,
                };
                columns.push(match shown {
                    Some(shown) => {
                        changed = true;
                        let told = is_text.then(|| {
                            let told = [(TYPE_KEY.to_owned(), SqlType::Char(None).to_string())];
                            FieldMetadata::from(HashMap::from(told))
                        });
                        shown.alias_qualified_with_metadata(qualifier.cloned(), field.name(), told)
                    }
                    None => expr.clone(),
                });
            }
            match changed {
                true => {
                    Projection::try_new(columns, projection.input).map(LogicalPlan::Projection)?
                }
                false => LogicalPlan::Projection(projection),
            }
        }
        other => other,
    })
}

/// The value with its blanks; `None` if it has none.
fn blanks(expr: &Expr, input: &LogicalPlan) -> Result<Option<Expr>> {
    if let Some(length) = length(expr, input)? {
        let padded = rpad(vec![expr.clone(), lit(i64::from(length))]);
        return padded.cast_to(&DataType::Utf8View, input.schema()).map(Some);
    }
    if let Expr::Alias(alias) = expr {
        return blanks(&alias.expr, input);
    }
    let mut changed = false;
    let mut each = |expr: &Expr| -> Result<Expr> {
        Ok(match blanks(expr, input)? {
            Some(padded) => {
                changed = true;
                padded
            }
            None => expr.clone(),
        })
    };
    // Beside a TEXT all are of that type, which has no blanks; constants in quotes, and parameters, are of none.
    let is_text = |expr: &Expr| -> Result<bool> {
        let is_constant = matches!(expr, Expr::Literal(_, None) | Expr::Placeholder(_));
        Ok(!is_constant && length(expr, input)?.is_none() && !chooses(expr))
    };
    let made = match expr {
        Expr::Case(case) if any(results(case), is_text)? => return Ok(None),
        Expr::ScalarFunction(call) if chooses(expr) && any(call.args.iter(), is_text)? => {
            return Ok(None);
        }
        Expr::Case(case) => {
            let when_then_expr = case
                .when_then_expr
                .iter()
                .map(|(when, then)| Ok((when.clone(), Box::new(each(then)?))));
            let when_then_expr = when_then_expr.collect::<Result<Vec<_>>>()?;
            let else_expr = case.else_expr.as_deref().map(&mut each).transpose()?.map(Box::new);
            Expr::Case(Case { expr: case.expr.clone(), when_then_expr, else_expr })
        }
        Expr::ScalarFunction(call) if gives_arguments(call.name()) => {
            let args = call.args.iter().map(each).collect::<Result<Vec<_>>>()?;
            Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&call.func), args })
        }
        _ => return Ok(None),
    };
    Ok(changed.then_some(made))
}

/// The results of a CASE.
fn results(case: &Case) -> impl Iterator<Item = &Expr> {
    let branches = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
    branches.chain(case.else_expr.as_deref())
}

fn any<'e>(
    mut exprs: impl Iterator<Item = &'e Expr>,
    holds: impl Fn(&Expr) -> Result<bool>,
) -> Result<bool> {
    exprs.try_fold(false, |found, expr| Ok(found || holds(expr)?))
}

/// Whether the value is one of several expressions.
fn chooses(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => chooses(&alias.expr),
        Expr::Case(_) => true,
        Expr::ScalarFunction(call) => matches!(call.name(), "coalesce" | "nvl"),
        _ => false,
    }
}

/// Whether a function's result is one of its arguments, or made of all of them.
fn gives_arguments(function: &str) -> bool {
    matches!(function, "coalesce" | "nvl" | "make_array" | "row" | "struct" | "named_struct")
}

/// The length of all values of an expression, if they are of CHARACTER and have one in common.
fn length(expr: &Expr, input: &LogicalPlan) -> Result<Option<u32>> {
    let ty = expr.to_field(input.schema())?.1;
    if !matches!(ty.data_type(), DataType::Utf8View | DataType::Utf8) {
        return Ok(None);
    }
    if let Some(SqlType::Char(Some(length))) = sql_type_of(&ty) {
        return Ok(Some(length));
    }
    let common = |all: &mut dyn Iterator<Item = &Expr>| -> Result<Option<u32>> {
        let mut common = None;
        for expr in all {
            if matches!(expr, Expr::Literal(value, _) if value.is_null()) {
                continue;
            }
            let own = length(expr, input)?;
            match common {
                None => common = Some(own),
                Some(length) if length == own => {}
                Some(_) => return Ok(None),
            }
        }
        Ok(common.flatten())
    };
    match expr {
        Expr::Alias(alias) => length(&alias.expr, input),
        Expr::Column(column) => match input.schema().maybe_index_of_column(column) {
            Some(at) => length_of_column(input, at),
            None => Ok(None),
        },
        Expr::ScalarSubquery(query) => length_of_column(&query.subquery, 0),
        Expr::Case(case) => common(&mut results(case)),
        Expr::ScalarFunction(call) => match call.name() {
            "coalesce" | "nvl" | "greatest" | "least" => common(&mut call.args.iter()),
            "nullif" => common(&mut call.args.iter().take(1)),
            _ => Ok(None),
        },
        Expr::AggregateFunction(call) => match call.func.name() {
            "min" | "max" | "first_value" | "last_value" | "only" => {
                common(&mut call.params.args.iter().take(1))
            }
            _ => Ok(None),
        },
        Expr::WindowFunction(call) => {
            let given = match (&call.fun, call.fun.name()) {
                (WindowFunctionDefinition::AggregateUDF(_), "min" | "max") => 1,
                (_, "first_value" | "last_value" | "nth_value") => 1,
                // The third argument stands for rows that are not there.
                (_, "lag" | "lead") if call.params.args.len() < 3 => 1,
                _ => return Ok(None),
            };
            common(&mut call.params.args.iter().take(given))
        }
        _ => Ok(None),
    }
}

/// The length of the values of a plan's column, where its type does not say.
fn length_of_column(plan: &LogicalPlan, at: usize) -> Result<Option<u32>> {
    if let Some(SqlType::Char(Some(length))) = sql_type_of(plan.schema().field(at)) {
        return Ok(Some(length));
    }
    match plan {
        LogicalPlan::Projection(projection) => length(&projection.expr[at], &projection.input),
        LogicalPlan::Aggregate(aggregate) => {
            let first = plan.schema().fields().len() - aggregate.aggr_expr.len();
            match at.checked_sub(first) {
                Some(at) => length(&aggregate.aggr_expr[at], &aggregate.input),
                None => Ok(None),
            }
        }
        LogicalPlan::Window(window) => match at.checked_sub(window.input.schema().fields().len()) {
            Some(at) => length(&window.window_expr[at], &window.input),
            None => length_of_column(&window.input, at),
        },
        LogicalPlan::Filter(filter) => length_of_column(&filter.input, at),
        LogicalPlan::Sort(sort) => length_of_column(&sort.input, at),
        LogicalPlan::Limit(limit) => length_of_column(&limit.input, at),
        LogicalPlan::SubqueryAlias(alias) => length_of_column(&alias.input, at),
        _ => Ok(None),
    }
}
