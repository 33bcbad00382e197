//! `x < ANY (array)` and `x < ALL (array)`: a value compared with each element.

use std::cmp::Ordering;

use super::{Arguments, Gives, Kind, Row};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use halcyon_sql::diagnose::sql_error;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::values::{shown_type, stored, value_at};
use halcyon_value::{compare, like};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "array\u{1}any",
        "Whether a comparison of a value holds for any element.",
        &[Kind::List, Kind::Each, Kind::Text],
        Gives::Bool,
        |args| compared(args, true),
    )
    .of_null(),
    Row::new(
        "array\u{1}all",
        "Whether a comparison of a value holds for all elements.",
        &[Kind::List, Kind::Each, Kind::Text],
        Gives::Bool,
        |args| compared(args, false),
    )
    .of_null(),
];

/// Whether the comparison has the result `decides` for some element, which settles it; NULL if it has not, and some
/// comparison is unknown.
fn compared(args: &Arguments<'_>, decides: bool) -> Result<ScalarValue> {
    let Some(items) = args.list(0)? else { return Ok(ScalarValue::Boolean(None)) };
    let (value, op) = (&args.values[1], args.text(2));
    let mut unknown = false;
    for item in &items {
        if item.is_null() || value.is_null() {
            unknown = true;
            continue;
        }
        if op.contains('~') {
            if matched(value, item, op)? == decides {
                return Ok(ScalarValue::Boolean(Some(decides)));
            }
            continue;
        }
        let order = order(value, item)?;
        let holds = match op {
            "=" => order.is_eq(),
            "<>" => order.is_ne(),
            "<" => order.is_lt(),
            "<=" => order.is_le(),
            ">" => order.is_gt(),
            _ => order.is_ge(),
        };
        if holds == decides {
            return Ok(ScalarValue::Boolean(Some(decides)));
        }
    }
    Ok(ScalarValue::Boolean(if unknown { None } else { Some(!decides) }))
}

/// Whether a text matches a pattern by LIKE (`~~`), ILIKE (`~~*`) or their opposites.
///
/// Errors: 42883 for values that are no texts, 57014, 22025 for a pattern that ends with the escape.
fn matched(value: &ScalarValue, pattern: &ScalarValue, op: &str) -> Result<bool> {
    let text = |value: &ScalarValue| value.try_as_str().flatten().map(str::to_owned);
    let (Some(text), Some(pattern)) = (text(value), text(pattern)) else {
        let (left, right) = (shown_type(&value.data_type()), shown_type(&pattern.data_type()));
        let message = format!("operator does not exist: {left} {op} {right}");
        return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
    };
    let go_on = || SqlError::unless_interrupted().is_ok();
    let found = like::matches_while(&text, &pattern, Some('\\'), op.ends_with('*'), go_on);
    match found? {
        Some(found) => Ok(found != op.starts_with('!')),
        None => SqlError::unless_interrupted().map(|()| false),
    }
}

/// The order of two values, neither of them NULL.
fn order(left: &ScalarValue, right: &ScalarValue) -> Result<Ordering> {
    let (lt, rt) = (left.data_type(), right.data_type());
    let common = if lt == rt { Some(lt) } else { comparison_coercion(&lt, &rt) };
    let column = |value: &ScalarValue| {
        let value = match &common {
            Some(common) => value.cast_to(common)?,
            None => value.clone(),
        };
        Ok(stored(&value.to_array()?))
    };
    let failed = |error| sql_error(error, "");
    let (left, right) = (column(left).map_err(failed)?, column(right).map_err(failed)?);
    let values = value_at(left.as_ref(), 0).zip(value_at(right.as_ref(), 0));
    Ok(values.map_or(Ordering::Less, |(left, right)| compare::values(left, right)))
}
