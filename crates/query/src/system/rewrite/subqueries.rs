//! Subqueries in expressions: `ARRAY(SELECT …)`, and scalar ones, which DataFusion plans when
//! they are aggregates, correlated or not.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArgumentClause, FunctionArguments, GroupByExpr, OrderByExpr,
    OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, Value, ValueWithSpan, Visit,
    Visitor,
};

use super::{call, empty, function_name, parts};
use crate::system::SCHEMAS;

/// Rewrites one expression whose operands are done.
pub(super) fn rewrite(expr: &mut Expr) {
    match expr {
        Expr::Function(function) => {
            if function_name(function).as_deref() == Some("array")
                && let FunctionArguments::Subquery(query) = &function.args
            {
                *expr = array(query);
            }
        }
        Expr::Subquery(query) => {
            if let Some(select) = plain_select(query)
                && select.from.iter().all(|from| {
                    is_system(&from.relation) && from.joins.iter().all(|j| is_system(&j.relation))
                })
                && !select.from.is_empty()
            {
                aggregate(query, "first_value");
            }
        }
        _ => {}
    }
}

/// `ARRAY(SELECT x …)` as `pg_array_or_empty((SELECT array_agg(x) …))`.
fn array(query: &Query) -> Expr {
    if let Some(prefixed) = prefix_each(query) {
        return prefixed;
    }
    let mut query = Box::new(query.clone());
    if plain_select(&query).is_some_and(empty::is_empty) {
        let text = Expr::Value(Value::Null.with_empty_span());
        return call("pg_array_or_empty", vec![text]);
    }
    aggregate(&mut query, "array_agg");
    call("pg_array_or_empty", vec![Expr::Subquery(query)])
}

/// `ARRAY(SELECT 'prefix' || x FROM unnest(array) x)`.
fn prefix_each(query: &Query) -> Option<Expr> {
    let select = plain_select(query)?;
    let [from] = select.from.as_slice() else { return None };
    let (alias, list) = match &from.relation {
        TableFactor::UNNEST { alias: Some(alias), array_exprs, .. } => (alias, array_exprs.first()?),
        TableFactor::Table { name, args: Some(args), alias: Some(alias), .. }
            if parts(name)?.last()? == "unnest" =>
        {
            match args.args.first()? {
                datafusion::sql::sqlparser::ast::FunctionArg::Unnamed(
                    datafusion::sql::sqlparser::ast::FunctionArgExpr::Expr(expr),
                ) => (alias, expr),
                _ => return None,
            }
        }
        _ => return None,
    };
    let (SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }) =
        select.projection.first()?
    else {
        return None;
    };
    let Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right } = item else {
        return None;
    };
    let prefix = matches!(left.as_ref(),
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. }));
    let element = matches!(right.as_ref(), Expr::Identifier(i) if i.value == alias.name.value);
    (prefix && element).then(|| call("pg_prefix_each", vec![(**left).clone(), list.clone()]))
}

/// The SELECT of a query with one output and neither grouping nor aggregates.
fn plain_select(query: &Query) -> Option<&Select> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let ungrouped = matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    let plain = query.with.is_none()
        && ungrouped
        && select.having.is_none()
        && select.distinct.is_none()
        && select.projection.len() == 1;
    let (SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }) =
        select.projection.first()?
    else {
        return None;
    };
    (plain && !is_aggregate(item)).then_some(select)
}

fn is_aggregate(expr: &Expr) -> bool {
    struct Aggregates;
    impl Visitor for Aggregates {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            const NAMES: &[&str] = &[
                "count", "sum", "min", "max", "avg", "array_agg", "string_agg", "bool_and",
                "bool_or", "every", "json_agg", "jsonb_agg", "first_value", "unnest",
            ];
            match expr {
                Expr::Function(function)
                    if function_name(function).is_some_and(|n| NAMES.contains(&n.as_str())) =>
                {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    expr.visit(&mut Aggregates).is_break()
}

fn is_system(relation: &TableFactor) -> bool {
    match relation {
        TableFactor::Table { name, args: None, .. } => {
            parts(name).is_some_and(|parts| parts.len() > 1 && SCHEMAS.contains(&parts[0].as_str()))
        }
        _ => false,
    }
}

/// Puts the query's one output into an aggregate, which takes over its ORDER BY.
fn aggregate(query: &mut Query, name: &str) {
    if plain_select(query).is_none() {
        return;
    }
    let order = match query.order_by.take().map(|order| order.kind) {
        Some(OrderByKind::Expressions(order)) => order,
        _ => Vec::new(),
    };
    query.limit_clause = None;
    query.fetch = None;
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let (SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }) =
        &mut select.projection[0]
    else {
        return;
    };
    let order = order.into_iter().map(|by| by_output(by, item)).collect::<Vec<_>>();
    let mut aggregate = call(name, vec![item.clone()]);
    if let Expr::Function(function) = &mut aggregate
        && let FunctionArguments::List(list) = &mut function.args
        && !order.is_empty()
    {
        list.clauses.push(FunctionArgumentClause::OrderBy(order));
    }
    *item = aggregate;
}

/// `ORDER BY 1` means the output.
fn by_output(mut by: OrderByExpr, output: &Expr) -> OrderByExpr {
    if let Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) = &by.expr
        && number == "1"
    {
        by.expr = output.clone();
    }
    by
}
