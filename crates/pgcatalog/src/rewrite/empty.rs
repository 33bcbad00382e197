//! SELECTs from tables that are always empty, simplified so that they can be planned.
//!
//! Tools join with the tables of policies, triggers, publications and other objects that Halcyon does
//! not have. A
//! SELECT from such a table has no rows, whatever it computes; yet DataFusion would have to plan
//! its subqueries, many of which it cannot.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArguments, JoinOperator, Select, SelectItem, TableFactor, Value, Visit, Visitor,
};

use super::{null, parts};
use crate::pg_catalog;

/// If the SELECT reads a table that is always empty, its filter becomes FALSE and what contains
/// subqueries in its output becomes NULL.
pub(super) fn simplify(select: &mut Select) {
    if !is_empty(select) {
        return;
    }
    select.selection = Some(Expr::Value(Value::Boolean(false).with_empty_span()));
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
            && is_hard(expr)
        {
            *expr = null();
        }
    }
}

/// Whether a SELECT joins, without outer joins in its favour, a table that is always empty.
pub(super) fn is_empty(select: &Select) -> bool {
    select.from.iter().any(|from| {
        let kept = from.joins.iter().all(|join| {
            !matches!(
                join.join_operator,
                JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_)
            )
        });
        let inner = from.joins.iter().filter(|join| {
            matches!(
                join.join_operator,
                JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_)
            )
        });
        kept && std::iter::once(&from.relation).chain(inner.map(|join| &join.relation)).any(never)
    })
}

/// Whether a relation never has rows.
fn never(relation: &TableFactor) -> bool {
    let TableFactor::Table { name, args, .. } = relation else { return false };
    if args.is_some() {
        // Options of foreign tables and the like.
        return parts(name).is_some_and(|name| name.last().is_some_and(|n| n == OPTIONS));
    }
    match parts(name).as_deref() {
        Some([name]) => pg_catalog::is_always_empty(name),
        Some([schema, name]) => schema == "pg_catalog" && pg_catalog::is_always_empty(name),
        _ => false,
    }
}

/// The function that gives the options of foreign objects as rows.
const OPTIONS: &str = "pg_options_to_table";

fn is_hard(expr: &Expr) -> bool {
    struct Hard;
    impl Visitor for Hard {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let hard = match expr {
                Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => true,
                Expr::AnyOp { .. } | Expr::AllOp { .. } => true,
                Expr::Function(function) => {
                    matches!(function.args, FunctionArguments::Subquery(_))
                }
                _ => false,
            };
            if hard { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    expr.visit(&mut Hard).is_break()
}
