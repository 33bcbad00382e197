//! Bounds of a query's rows that DataFusion has not: `FETCH … WITH TIES`, and LIMIT and OFFSET by a subquery.
//!
//! Both count rows in the query's order, so the SELECT keeps the rows whose number, or whose rank, is within the
//! bounds: `ORDER BY a FETCH FIRST n ROWS WITH TIES` is `QUALIFY rank() OVER (ORDER BY a) <= n … ORDER BY a`.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, Expr, Fetch, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, Ident, LimitClause, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr,
    TableFactor, Value, Visit, Visitor, WindowFrame, WindowFrameBound, WindowFrameUnits,
    WindowSpec, WindowType,
};
use std::ops::ControlFlow;

use crate::made::{call, number, quoted};
use crate::shown_item_name;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;
use halcyon_sql::parse::parse_own_query;
use halcyon_sql::syntax::TIES;

/// Brings such bounds of a query to conditions of its SELECT.
///
/// Errors: 0A000 for PERCENT, and for some orders of a query that is no plain SELECT; 42601 for ties without an order.
pub(crate) fn settle(query: &mut Query) -> Result<()> {
    settle_all(query, false)
}

/// As [`settle`]; `all`: bounds by subqueries without tables as well, which the planner computes otherwise.
fn settle_all(query: &mut Query, all: bool) -> Result<()> {
    if let Some(LimitClause::LimitOffset { limit, .. }) = &mut query.limit_clause
        && let Some(count) = limit.as_mut().and_then(count_with_ties)
    {
        *limit = None;
        query.fetch = Some(Fetch { with_ties: true, percent: false, quantity: Some(count) });
    }
    let has_ties = match &query.fetch {
        Some(fetch) if fetch.percent => return Err(SqlError::unsupported("FETCH … PERCENT")),
        Some(fetch) => fetch.with_ties,
        None => false,
    };
    let (limit, offset) = match &query.limit_clause {
        Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
            (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
        }
        _ => (None, None),
    };
    let picks = matches!(query.body.as_ref(), SetExpr::Select(select)
        if matches!(select.distinct, Some(Distinct::On(_))));
    // The planner computes no bound beside DISTINCT ON.
    let all = all || picks;
    let asks = |bound: &Expr| reads_rows(bound) || all && crate::subquery_of(bound).is_some();
    if !has_ties && !limit.is_some_and(asks) && !offset.is_some_and(asks) {
        return Ok(());
    }
    let (limit, offset) = (limit.cloned(), offset.cloned());
    let order = match query.order_by.as_ref().map(|by| &by.kind) {
        Some(OrderByKind::Expressions(order)) => order.clone(),
        Some(_) => return Err(SqlError::unsupported("ORDER BY ALL with such bounds")),
        None if has_ties => {
            let message = "WITH TIES cannot be specified without ORDER BY clause";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        None => Vec::new(),
    };
    if !matches!(query.body.as_ref(), SetExpr::Select(select) if select.distinct.is_none()) {
        return around(query);
    }
    let SetExpr::Select(select) = query.body.as_mut() else { unreachable!("looked at above") };
    let order = order.into_iter().map(|by| named(by, select)).collect::<Result<Vec<_>>>()?;
    let none = || number("0");
    let first = offset.clone().map(|offset| call("coalesce", vec![offset, none()]));
    let mut conditions = Vec::new();
    if has_ties {
        let count = query.fetch.take().and_then(|fetch| fetch.quantity);
        if matches!(&count, Some(Expr::Value(value)) if value.value == Value::Null) {
            let message = "row count cannot be null in FETCH FIRST ... WITH TIES clause";
            return Err(SqlError::new(SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE, message));
        }
        let count = count.unwrap_or_else(|| number("1"));
        let last = match &first {
            Some(first) => binary(first.clone(), BinaryOperator::Plus, Expr::Nested(count.into())),
            None => count,
        };
        conditions.push(at_most(counted("rank", &order), last));
    } else if let Some(limit) = limit {
        let last = match &first {
            Some(first) => binary(first.clone(), BinaryOperator::Plus, Expr::Nested(limit.into())),
            None => limit,
        };
        // NULL is no bound.
        let all = number("9223372036854775807");
        conditions.push(at_most(counted("row_number", &order), call("coalesce", vec![last, all])));
    }
    if let Some(first) = first {
        conditions.push(binary(counted("row_number", &order), BinaryOperator::Gt, first));
    }
    query.limit_clause = None;
    for condition in conditions.into_iter().chain(select.qualify.take()).collect::<Vec<_>>() {
        select.qualify = Some(match select.qualify.take() {
            Some(other) => binary(other, BinaryOperator::And, condition),
            None => condition,
        });
    }
    Ok(())
}

/// Puts a query whose rows are those of a set, of VALUES or of DISTINCT into FROM of another one, which has the order
/// and the bounds. Such an order names columns of the result alone.
///
/// Errors: 0A000 for an order by anything that is no name and no number of an output, and beside DISTINCT ON for
/// one by what is no output.
fn around(query: &mut Query) -> Result<()> {
    let select = first_select(&query.body);
    let picks = select.is_some_and(|select| matches!(select.distinct, Some(Distinct::On(_))));
    let mut order = query.order_by.take();
    // DISTINCT ON chooses its rows by the order, and keeps the order.
    let own = order.clone().filter(|_| picks);
    if let Some(OrderByKind::Expressions(by)) = order.as_mut().map(|by| &mut by.kind) {
        let named = by.iter_mut().try_for_each(|by| by_output(&mut by.expr, select));
        if picks && named.is_err() {
            let form = "such a bound beside DISTINCT ON and an order by what the list has not";
            return Err(SqlError::unsupported(form).hint("Put the query into FROM of another one."));
        }
        named?;
    }
    let mut outer = parse_own_query(&format!("SELECT * FROM (SELECT NULL) AS \"{BOUNDED}\""));
    outer.with = query.with.take();
    outer.order_by = order;
    outer.limit_clause = query.limit_clause.take();
    outer.fetch = query.fetch.take();
    outer.locks = std::mem::take(&mut query.locks);
    if let SetExpr::Select(select) = outer.body.as_mut()
        && let TableFactor::Derived { subquery, .. } = &mut select.from[0].relation
    {
        std::mem::swap(subquery.as_mut(), query);
        subquery.order_by = own;
    }
    *query = outer;
    settle_all(query, picks)
}

/// The name of the rows that [`around`] bounds.
const BOUNDED: &str = "bounded\u{1}";

/// The SELECT whose list names the columns of a query's rows.
fn first_select(body: &SetExpr) -> Option<&Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::SetOperation { left, .. } => first_select(left),
        SetExpr::Query(query) => first_select(&query.body),
        _ => None,
    }
}

/// Writes an item of an order as the name of an output.
fn by_output(expr: &mut Expr, select: Option<&Select>) -> Result<()> {
    let refused = || match select {
        Some(Select { distinct: Some(_), .. }) => {
            let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
            SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
        }
        _ => SqlError::unsupported("an order by an expression with such bounds, beside UNION")
            .hint("Name a column of the list."),
    };
    let items = select.map(|select| select.projection.as_slice()).unwrap_or_default();
    let named = |at: usize| {
        let name = match select {
            Some(_) => items.get(at).and_then(shown_item_name)?,
            None => format!("column{}", at + 1),
        };
        Some(Expr::Identifier(quoted(name)))
    };
    let is_one = |item: &SelectItem| {
        matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
    };
    let found = match &*expr {
        Expr::Identifier(name) => {
            let is_named = |item: &SelectItem| shown_item_name(item) == Some(fold(name));
            let may_be_named = !items.iter().all(is_one) || items.iter().any(is_named);
            return if may_be_named || select.is_none() { Ok(()) } else { Err(refused()) };
        }
        Expr::Value(value) if let Value::Number(digits, _) = &value.value => {
            let at = digits.parse::<usize>().ok().and_then(|at| at.checked_sub(1));
            at.filter(|at| items.iter().take(at + 1).all(is_one))
        }
        other => items.iter().position(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => expr == other,
            _ => false,
        }),
    };
    let name = found.and_then(named).ok_or_else(refused)?;
    let twice = items.iter().filter_map(shown_item_name);
    let is_named = |other: &String| matches!(&name, Expr::Identifier(own) if own.value == *other);
    if twice.filter(is_named).count() > 1 {
        return Err(refused());
    }
    *expr = name;
    Ok(())
}

/// The count in a call of [`TIES`].
fn count_with_ties(limit: &mut Expr) -> Option<Expr> {
    let Expr::Function(function) = limit else { return None };
    let [name] = function.name.0.as_slice() else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    match (name.as_ident()?.value == TIES, list.args.as_slice()) {
        (true, [FunctionArg::Unnamed(FunctionArgExpr::Expr(count))]) => Some(count.clone()),
        _ => None,
    }
}

/// Whether a bound is known only when tables have been read.
fn reads_rows(bound: &Expr) -> bool {
    struct Tables;
    impl Visitor for Tables {
        type Break = ();

        fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
            let is_plain = select.from.is_empty()
                && select.selection.is_none()
                && matches!(&select.group_by, GroupByExpr::Expressions(exprs, _) if exprs.is_empty());
            if is_plain { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        }
    }
    bound.visit(&mut Tables).is_break()
}

/// What an item of ORDER BY means within the SELECT: an output's name or number stands for its expression.
fn named(by: OrderByExpr, select: &Select) -> Result<OrderByExpr> {
    let items = &select.projection;
    let of_item = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            Some(expr.clone())
        }
        _ => None,
    };
    let meant = match &by.expr {
        Expr::Value(value) if let Value::Number(digits, _) = &value.value => {
            let at = digits.parse::<usize>().ok().and_then(|at| at.checked_sub(1));
            let before = at.and_then(|at| items.get(..=at)).unwrap_or_default();
            let stars = before.iter().any(|item| of_item(item).is_none());
            if stars {
                return Err(SqlError::unsupported(
                    "a number in ORDER BY behind * with such bounds",
                )
                .hint("Name the column."));
            }
            before.last().and_then(of_item)
        }
        Expr::Identifier(name) => items.iter().find_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } if is_same(alias, name) => Some(expr.clone()),
            _ => None,
        }),
        _ => None,
    };
    Ok(match meant {
        Some(expr) => OrderByExpr { expr, ..by },
        None => by,
    })
}

fn is_same(one: &Ident, other: &Ident) -> bool {
    fold(one) == fold(other)
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn at_most(count: Expr, last: Expr) -> Expr {
    binary(count, BinaryOperator::LtEq, last)
}

/// A window function that counts rows in an order.
fn counted(function: &str, order: &[OrderByExpr]) -> Expr {
    let Expr::Function(mut function) = call(function, Vec::new()) else {
        unreachable!("a call is one")
    };
    function.over = Some(WindowType::WindowSpec(WindowSpec {
        window_name: None,
        partition_by: Vec::new(),
        order_by: order.to_vec(),
        window_frame: Some(WindowFrame {
            units: WindowFrameUnits::Rows,
            start_bound: WindowFrameBound::Preceding(None),
            end_bound: Some(WindowFrameBound::CurrentRow),
        }),
    }));
    Expr::Function(function)
}
