//! Rows of a set that are ordered by what the SELECT does not give: `SELECT id, unnest(tags) FROM t ORDER BY made`.
//!
//! DataFusion makes the rows of a set behind the columns, of which the list's alone are left then. So the keys
//! become columns of a query within, beside those of the list, and a SELECT around it orders and names these.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr,
    TableAlias, TableFactor, Value, Visit, Visitor,
};

use crate::made::quoted;
use crate::many_rows::is_of_rows;
use crate::shown_item_name;
use halcyon_sql::identifier::fold;
use halcyon_sql::parse::parse_own_query;

/// Puts a query that makes rows of a set into FROM of another one, which has the order and the bounds, if a key is
/// no column of the list. Other queries stay, and so do those with `*`, DISTINCT or groups.
pub(crate) fn settle(query: &mut Query) {
    let Some(OrderByKind::Expressions(order)) = query.order_by.as_ref().map(|by| &by.kind) else {
        return;
    };
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    if !select.projection.iter().any(makes_rows) || !is_plain(select) {
        return;
    }
    let places: Vec<Option<usize>> = order.iter().map(|by| place(&by.expr, select)).collect();
    let stays = |(by, place): (&OrderByExpr, &Option<usize>)| {
        place.is_some() && !makes_rows(&SelectItem::UnnamedExpr(by.expr.clone()))
    };
    if order.iter().zip(&places).all(stays) {
        return;
    }
    let Some(shown) = names(select) else { return };
    let mut outer = parse_own_query("SELECT 1 FROM made");
    outer.with = query.with.take();
    outer.order_by = query.order_by.take();
    outer.limit_clause = query.limit_clause.take();
    outer.fetch = query.fetch.take();
    outer.locks = std::mem::take(&mut query.locks);
    let (Some(OrderByKind::Expressions(order)), SetExpr::Select(inner)) =
        (outer.order_by.as_mut().map(|by| &mut by.kind), query.body.as_mut())
    else {
        unreachable!("looked at above")
    };
    for (at, item) in inner.projection.iter_mut().enumerate() {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: column(at) };
        }
    }
    for (by, place) in order.iter_mut().zip(places) {
        let at = place.unwrap_or(inner.projection.len());
        let expr = std::mem::replace(&mut by.expr, Expr::Identifier(column(at)));
        if place.is_none() {
            inner.projection.push(SelectItem::ExprWithAlias { expr, alias: column(at) });
        }
    }
    let items = shown.into_iter().enumerate().map(|(at, name)| SelectItem::ExprWithAlias {
        expr: Expr::Identifier(column(at)),
        alias: quoted(name),
    });
    if let SetExpr::Select(list) = outer.body.as_mut()
        && let [from] = list.from.as_mut_slice()
    {
        list.projection = items.collect();
        let alias = TableAlias {
            explicit: true,
            name: quoted(ROWS.to_owned()),
            columns: Vec::new(),
            at: None,
        };
        from.relation = TableFactor::Derived {
            lateral: false,
            subquery: Box::new(query.clone()),
            alias: Some(alias),
            sample: None,
        };
    }
    *query = outer;
}

/// The name of the query within; no statement can write it.
const ROWS: &str = "rows of a set\u{1}";

/// The name of a column of the query within.
fn column(at: usize) -> Ident {
    quoted(format!("set{at}\u{1}"))
}

fn is_plain(select: &Select) -> bool {
    let grouped = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(exprs, modifiers) => !exprs.is_empty() || !modifiers.is_empty(),
    };
    select.distinct.is_none() && select.having.is_none() && select.qualify.is_none() && !grouped
}

/// The names of the columns of a list without `*`.
fn names(select: &Select) -> Option<Vec<String>> {
    select.projection.iter().map(shown_item_name).collect()
}

/// The item of the list that a key of the order is.
fn place(key: &Expr, select: &Select) -> Option<usize> {
    let items = &select.projection;
    let named =
        |name: &String| items.iter().position(|item| shown_item_name(item).as_ref() == Some(name));
    match key {
        Expr::Value(value) if let Value::Number(digits, _) = &value.value => {
            let at = digits.parse::<usize>().ok().and_then(|at| at.checked_sub(1));
            at.filter(|at| *at < items.len())
        }
        Expr::Identifier(name) if let Some(at) = named(&fold(name)) => Some(at),
        _ => items.iter().position(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => expr == key,
            _ => false,
        }),
    }
}

/// Whether an item calls a function that returns many rows, outside subqueries.
fn makes_rows(item: &SelectItem) -> bool {
    struct Calls(usize);
    impl Visitor for Calls {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.0 += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.0 -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Function(call) if self.0 == 0 && is_of_rows(call) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    item.visit(&mut Calls(0)).is_break()
}
