//! `ROWS FROM (f(…), g(…))`: the first rows of all functions beside each other, then the second ones, and so on.
//!
//! Sets of rows in a SELECT list stand beside each other in the same way, so the clause becomes
//! `LATERAL (SELECT f(…), g(…))`. A function of one value has one row: there it is the set `unnest(ARRAY[f(…)])`.

use datafusion::sql::sqlparser::ast::{
    Array, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
    ObjectNamePart, SelectItem, SetExpr, TableAlias, TableFactor,
};

use halcyon_dialect::made::{call, quoted};
use halcyon_dialect::many_rows::returns_rows;
use halcyon_dialect::{column_of_rows, shown_item_name};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;
use halcyon_sql::parse::parse_own_query;
use halcyon_sql::syntax::ROWS_FROM;

/// A name for the rows before they are numbered.
const ROWS: &str = "rows\u{1}";

/// Rewrites the clause, if a FROM item is one. `is_table`: whether a function may give more than one value.
///
/// Errors: 42601 for an argument that is no call; 0A000 for functions that give several columns.
pub(crate) fn settle(factor: &mut TableFactor, is_table: &dyn Fn(&str) -> bool) -> Result<()> {
    let (name, args, alias, with_ordinality) = match factor {
        TableFactor::Table { name, args: Some(args), alias, with_ordinality, .. } => {
            (name, &mut args.args, alias, with_ordinality)
        }
        TableFactor::Function { name, args, alias, with_ordinality, .. } => {
            (name, args, alias, with_ordinality)
        }
        _ => return Ok(()),
    };
    if name.0.last().and_then(ObjectNamePart::as_ident).is_none_or(|own| own.value != ROWS_FROM) {
        return Ok(());
    }
    let mut calls = Vec::new();
    for arg in std::mem::take(args) {
        match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(call)) => calls.push(call),
            _ => return Err(no_call()),
        }
    }
    // One function alone is no more than this function in FROM.
    if let [Expr::Function(Function { name: own, args: FunctionArguments::List(list), .. })] =
        &calls[..]
    {
        (*name, *args) = (own.clone(), list.args.clone());
        return Ok(());
    }
    let any_set = calls.iter().any(|call| function(call).is_some_and(|name| returns_rows(&name)));
    let mut items = Vec::new();
    for call in &calls {
        items.extend(columns(call, any_set, is_table)?);
    }
    let first = match items.first() {
        Some(SelectItem::ExprWithAlias { alias, .. }) => alias.clone(),
        _ => return Err(no_call()),
    };
    let mut query = parse_own_query("SELECT NULL");
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = items;
    }
    if *with_ordinality {
        let text = format!(
            "SELECT \"{ROWS}\".*, row_number() OVER () AS ordinality FROM (SELECT NULL) AS \"{ROWS}\""
        );
        let mut numbered = parse_own_query(&text);
        if let SetExpr::Select(select) = numbered.body.as_mut()
            && let TableFactor::Derived { subquery, .. } = &mut select.from[0].relation
        {
            **subquery = query;
        }
        query = numbered;
    }
    let alias = alias.take().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: first,
        columns: Vec::new(),
        at: None,
    });
    *factor = TableFactor::Derived {
        lateral: true,
        subquery: Box::new(query),
        alias: Some(alias),
        sample: None,
    };
    Ok(())
}

/// The columns of one function, beside a set of rows or not.
fn columns(
    call: &Expr,
    beside_set: bool,
    is_table: &dyn Fn(&str) -> bool,
) -> Result<Vec<SelectItem>> {
    let Some(name) = function(call) else { return Err(no_call()) };
    let item =
        |expr: Expr, name: &str| SelectItem::ExprWithAlias { expr, alias: quoted(name.into()) };
    let refused = || {
        Err(SqlError::unsupported(format!("{name} in ROWS FROM"))
            .hint("Join the functions by row_number() OVER ()."))
    };
    match name.as_str() {
        "json_each" | "json_each_text" | "jsonb_each" | "jsonb_each_text" => refused(),
        "unnest" => {
            let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = call else {
                return Err(no_call());
            };
            let each = list.args.iter().map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(list)) => {
                    Ok(item(unnest(list.clone()), "unnest"))
                }
                _ => Err(no_call()),
            });
            each.collect()
        }
        own if returns_rows(own) => {
            Ok(vec![item(call.clone(), column_of_rows(own).unwrap_or(own))])
        }
        own if is_table(own) => refused(),
        own => {
            let one = || unnest(Expr::Array(Array { elem: vec![call.clone()], named: true }));
            let value = if beside_set { one() } else { call.clone() };
            let shown = shown_item_name(&SelectItem::UnnamedExpr(call.clone()));
            Ok(vec![item(value, shown.as_deref().unwrap_or(own))])
        }
    }
}

fn unnest(list: Expr) -> Expr {
    call("unnest", vec![list])
}

/// The name of the function that an expression calls; of other expressions that PostgreSQL takes for calls, the
/// name of their column.
fn function(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Function(Function { name: ObjectName(parts), .. }) => {
            parts.last().and_then(ObjectNamePart::as_ident).map(fold)
        }
        Expr::Identifier(Ident { quote_style: None, .. })
        | Expr::Cast { .. }
        | Expr::Trim { .. }
        | Expr::Substring { .. }
        | Expr::Position { .. }
        | Expr::Extract { .. }
        | Expr::Overlay { .. }
        | Expr::Ceil { .. }
        | Expr::Floor { .. } => shown_item_name(&SelectItem::UnnamedExpr(expr.clone())),
        _ => None,
    }
}

/// 42601.
fn no_call() -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, "ROWS FROM takes calls of functions")
}
