//! Numbers and texts in the first part of a recursive query, whose types are those of the whole query.
//!
//! DataFusion's planner takes every integer constant for a BIGINT, and the recursive part is planned with the columns
//! of the first before constants get the types that PostgreSQL gives them. So a constant that is a column by itself
//! says its type. Of constants with a point that is NUMERIC, which has the digits of what the second part gives.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DataType, ExactNumberInfo, Expr, ObjectName, ObjectNamePart, Query, SelectItem, SetExpr,
    SetOperator, UnaryOperator, Value, Visit, Visitor,
};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;

use crate::made::{cast, is_quoted, number, quoted};

/// Writes the type of such constants. Errors: 42P19 for a query that names itself and is no UNION.
pub(crate) fn settle(query: &mut Query) -> Result<()> {
    let Some(with) = query.with.as_mut().filter(|with| with.recursive) else { return Ok(()) };
    for entry in &mut with.cte_tables {
        let name = fold(&entry.alias.name);
        let is_union =
            matches!(&*entry.query.body, SetExpr::SetOperation { op: SetOperator::Union, .. });
        if !is_union && names(&entry.query, &name) {
            return Err(not_recursive(&name));
        }
        if let SetExpr::SetOperation { left, .. } = entry.query.body.as_mut() {
            body(left);
        }
    }
    Ok(())
}

fn not_recursive(name: &str) -> SqlError {
    let message = format!(
        "recursive query \"{name}\" does not have the form non-recursive-term UNION [ALL] \
         recursive-term"
    );
    SqlError::new(SqlState::INVALID_RECURSION, message)
}

/// Whether a query reads from what has this name, unless a WITH of its own gives the name to something else.
fn names(query: &Query, name: &str) -> bool {
    struct Names<'n>(&'n str);
    impl Visitor for Names<'_> {
        type Break = bool;

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<bool> {
            let mut entries = query.with.iter().flat_map(|with| &with.cte_tables);
            match entries.any(|entry| fold(&entry.alias.name) == self.0) {
                true => ControlFlow::Break(false),
                false => ControlFlow::Continue(()),
            }
        }

        fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<bool> {
            match relation.0.as_slice() {
                [ObjectNamePart::Identifier(own)] if fold(own) == self.0 => {
                    ControlFlow::Break(true)
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    query.visit(&mut Names(name)) == ControlFlow::Break(true)
}

/// Writes the types of constants in the first part of a recursive query.
pub(crate) fn body(first: &mut SetExpr) {
    match first {
        SetExpr::Select(select) => select.projection.iter_mut().for_each(item),
        SetExpr::Values(values) => {
            for cell in values.rows.iter_mut().flat_map(|row| &mut row.content) {
                typed(cell);
            }
        }
        SetExpr::Query(query) => body(&mut query.body),
        SetExpr::SetOperation { left, .. } => body(left),
        _ => {}
    }
}

fn item(item: &mut SelectItem) {
    match item {
        // A cast would name the column.
        SelectItem::UnnamedExpr(expr) if is_integer(expr) || is_decimal(expr) || is_text(expr) => {
            typed(expr);
            let expr = std::mem::replace(expr, number("0"));
            *item = SelectItem::ExprWithAlias { expr, alias: quoted("?column?".to_owned()) };
        }
        SelectItem::ExprWithAlias { expr, .. } => typed(expr),
        SelectItem::UnnamedExpr(expr @ Expr::Array(_)) => typed(expr),
        _ => {}
    }
}

/// Whether an expression is a constant that is an INTEGER.
fn is_integer(expr: &Expr) -> bool {
    let digits = match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => expr,
        other => other,
    };
    matches!(digits, Expr::Value(value)
        if matches!(&value.value, Value::Number(digits, false) if digits.parse::<i32>().is_ok()))
}

/// Whether an expression is a constant that is a NUMERIC with a point.
fn is_decimal(expr: &Expr) -> bool {
    let digits = match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => expr,
        other => other,
    };
    matches!(digits, Expr::Value(value)
        if matches!(&value.value, Value::Number(digits, false) if digits.contains('.')))
}

/// Whether an expression is a constant in quotes, or NULL: texts, where nothing says otherwise.
fn is_text(expr: &Expr) -> bool {
    is_quoted(expr) || matches!(expr, Expr::Value(value) if value.value == Value::Null)
}

/// Casts a constant that is an INTEGER or a text to that, also as an element of an array.
fn typed(expr: &mut Expr) {
    if let Expr::Array(array) = expr {
        return array.elem.iter_mut().for_each(typed);
    }
    let ty = match (is_integer(expr), is_text(expr)) {
        (true, _) => DataType::Integer(None),
        (_, true) => DataType::Text,
        _ if is_decimal(expr) => DataType::Numeric(ExactNumberInfo::None),
        _ => return,
    };
    let constant = std::mem::replace(expr, number("0"));
    *expr = cast(Expr::Nested(Box::new(constant)), ty);
}
