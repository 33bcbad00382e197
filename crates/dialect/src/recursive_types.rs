//! Numbers and texts in the first part of a recursive query, whose types are those of the whole query.
//!
//! DataFusion's planner takes every integer constant for a BIGINT, and the recursive part is planned with the columns
//! of the first before constants get the types that PostgreSQL gives them. So a constant that is a column by itself
//! says its type. Of constants with a point that is NUMERIC, which has the digits of what the second part gives.

use datafusion::sql::sqlparser::ast::{
    DataType, ExactNumberInfo, Expr, Query, SelectItem, SetExpr, UnaryOperator, Value,
};

use crate::made::{cast, is_quoted, number, quoted};

/// Writes the type of such constants.
pub(crate) fn settle(query: &mut Query) {
    let Some(with) = query.with.as_mut().filter(|with| with.recursive) else { return };
    for entry in &mut with.cte_tables {
        if let SetExpr::SetOperation { left, .. } = entry.query.body.as_mut() {
            body(left);
        }
    }
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
