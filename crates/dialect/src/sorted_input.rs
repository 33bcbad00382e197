//! Aggregates over a sorted subquery: `SELECT array_agg(a) FROM (SELECT a FROM t ORDER BY b) AS q`.
//!
//! PostgreSQL's aggregates take the rows as they come, so `array_agg` and its kin follow the subquery's order.
//! DataFusion drops an order that nothing asks for. So the order is written into the calls, where the
//! subquery gives what it is sorted by: `array_agg(a ORDER BY q.b)`.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArgumentClause, FunctionArguments, Ident, OrderByExpr, OrderByKind,
    Query, Select, SelectItem, SetExpr, TableFactor, Value, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

use crate::made::quoted;
use halcyon_sql::identifier::fold;

/// Aggregates whose result depends on the order of the rows.
const FOLLOWING: [&str; 6] =
    ["array_agg", "string_agg", "json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg"];

/// Gives the aggregates of a SELECT over nothing but a sorted subquery the subquery's order.
pub(crate) fn follow(select: &mut Select) {
    let [from] = select.from.as_slice() else { return };
    if !from.joins.is_empty() || !select.projection.iter().any(calls) {
        return;
    }
    let TableFactor::Derived { subquery, alias: Some(alias), lateral: false, .. } = &from.relation
    else {
        return;
    };
    let renamed: Vec<Ident> = alias.columns.iter().map(|column| column.name.clone()).collect();
    let Some(orders) = orders(subquery, &alias.name, &renamed) else { return };
    for item in &mut select.projection {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
            continue;
        };
        let _ = VisitMut::visit(expr, &mut Calls { orders: &orders, queries: 0 });
    }
}

/// Whether an item may call such an aggregate: a quick look, which spares most statements the rest.
fn calls(item: &SelectItem) -> bool {
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
        return false;
    };
    !matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_))
}

/// What a subquery is sorted by, as columns of its alias. `None`: nothing, or no column of it.
fn orders(query: &Query, alias: &Ident, renamed: &[Ident]) -> Option<Vec<OrderByExpr>> {
    let OrderByKind::Expressions(orders) = &query.order_by.as_ref()?.kind else { return None };
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let column = |order: &OrderByExpr| {
        let name = name_of(&order.expr, select, renamed)?;
        let expr = Expr::CompoundIdentifier(vec![alias.clone(), name]);
        Some(OrderByExpr { expr, ..order.clone() })
    };
    orders.iter().map(column).collect::<Option<Vec<_>>>().filter(|orders| !orders.is_empty())
}

/// The name under which a subquery gives an expression of its ORDER BY.
fn name_of(by: &Expr, select: &Select, renamed: &[Ident]) -> Option<Ident> {
    let name_at = |at: usize, own: Ident| renamed.get(at).cloned().unwrap_or(own);
    let last = |expr: &Expr| match expr {
        Expr::Identifier(name) => Some(name.clone()),
        Expr::CompoundIdentifier(path) => path.last().cloned(),
        _ => None,
    };
    for (at, item) in select.projection.iter().enumerate() {
        let (expr, own) = match item {
            SelectItem::ExprWithAlias { expr, alias } => (expr, alias.clone()),
            SelectItem::UnnamedExpr(expr) => match last(expr) {
                Some(name) => (expr, name),
                None => continue,
            },
            // Columns behind a star have places that are not known here.
            _ => return last(by).filter(|_| renamed.is_empty()),
        };
        let place = Value::Number((at + 1).to_string(), false);
        let is_place = matches!(by, Expr::Value(value) if value.value == place);
        let is_name = matches!(by, Expr::Identifier(name) if fold(name) == fold(&own));
        if is_place || is_name || by == expr {
            return Some(quoted(fold(&name_at(at, own))));
        }
    }
    None
}

/// Puts an order into calls outside subqueries.
struct Calls<'a> {
    orders: &'a [OrderByExpr],
    queries: usize,
}

impl VisitorMut for Calls<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && self.queries == 0
            && follows(function)
            && let FunctionArguments::List(list) = &mut function.args
            && list.duplicate_treatment.is_none()
            && list.clauses.is_empty()
        {
            list.clauses.push(FunctionArgumentClause::OrderBy(self.orders.to_vec()));
        }
        ControlFlow::Continue(())
    }
}

/// Whether a call is of an aggregate that follows the rows' order.
fn follows(function: &Function) -> bool {
    let [name] = function.name.0.as_slice() else { return false };
    function.over.is_none()
        && function.within_group.is_empty()
        && name.as_ident().is_some_and(|name| FOLLOWING.contains(&fold(name).as_str()))
}
