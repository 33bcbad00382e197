//! Output names beside rows of a set.
//!
//! `unnest` in a SELECT list makes rows between the columns and the list, so DataFusion has the names of both in
//! one schema, and finds `CASE WHEN t.d THEN … END AS d` ambiguous. Such an output gets another name, and a
//! SELECT around the query gives the name back.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, Expr, Ident, Query, SelectItem, SetExpr, TableAlias, TableFactor, Visit, Visitor,
};

use crate::made::quoted;
use halcyon_sql::identifier::fold;
use halcyon_sql::parse::parse_own_query;

/// Whether an item of a SELECT list makes rows of a set.
pub(crate) fn is_set(item: &SelectItem) -> bool {
    match item {
        SelectItem::UnnamedExpr(Expr::Function(call))
        | SelectItem::ExprWithAlias { expr: Expr::Function(call), .. } => {
            call.name.to_string().eq_ignore_ascii_case("unnest")
        }
        _ => false,
    }
}

/// Names of the columns that expressions name with their tables.
pub(crate) struct Columns(pub HashSet<String>);

impl Visitor for Columns {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr {
            self.0.extend(parts.last().map(fold));
        }
        ControlFlow::Continue(())
    }
}

/// Gives outputs of a subquery that makes rows of a set names of their own within it.
pub(crate) fn separate(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    if query.with.is_some() || !select.projection.iter().any(is_set) {
        return;
    }
    let mut columns = Columns(HashSet::new());
    let _ = select.projection.visit(&mut columns);
    let meets = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { expr, alias } => {
            !matches!(expr, Expr::CompoundIdentifier(_)) && columns.0.contains(&fold(alias))
        }
        _ => false,
    };
    if !select.projection.iter().any(meets) {
        return;
    }
    let Some(names) = select.projection.iter().map(output_name).collect::<Option<Vec<_>>>() else {
        return;
    };
    let mut outer = Vec::new();
    for (item, name) in select.projection.iter_mut().zip(names) {
        let inner = match item {
            SelectItem::ExprWithAlias { alias, .. } if columns.0.contains(&name) => {
                *alias = quoted(format!("{name}\u{1}s"));
                alias.clone()
            }
            _ => quoted(name.clone()),
        };
        outer
            .push(SelectItem::ExprWithAlias { expr: Expr::Identifier(inner), alias: quoted(name) });
    }
    let mut around = parse_own_query("SELECT 1 FROM made");
    let SetExpr::Select(list) = around.body.as_mut() else { return };
    list.projection = outer;
    let alias = TableAlias {
        explicit: true,
        name: Ident::with_quote('"', "set\u{1}"),
        columns: Vec::new(),
        at: None,
    };
    list.from[0].relation = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query.clone()),
        alias: Some(alias),
        sample: None,
    };
    *query = ast::Query { ..around };
}

fn output_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(fold(name)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().map(fold),
        _ => None,
    }
}
