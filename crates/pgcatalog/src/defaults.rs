//! Defaults as PostgreSQL shows them: constants with their types, sequences as `regclass`.
//!
//! Programs compare these texts with those of their own definitions (`'x'::character varying`). Numbers,
//! truth values, calls and all else are shown as they were written.

use halcyon_catalog::{Column, View};
use halcyon_sql::coerce::{self, TimeZone};
use halcyon_sql::identifier::parts;
use halcyon_sql::parse::ast::{
    BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, UnaryOperator, Value,
};
use halcyon_sql::parse::parse_expr;
use halcyon_sql::type_names::cast_type;
use halcyon_sql::types::SqlType;

use crate::{Context, describe, user_types};

/// The default of a column. Identity columns show none: `attidentity` tells.
pub(crate) fn of_column(context: &Context, column: &Column) -> Option<String> {
    describe::default(column).map(|text| shown(context, column.ty, text))
}

/// The default of a view's column.
pub(crate) fn of_view(context: &Context, view: &View, at: usize) -> Option<String> {
    let (name, ty) = &view.columns[at];
    view.defaults.get(name).map(|text| shown(context, *ty, text))
}

/// A default of a column or domain of this type, of which `text` is stored.
pub(crate) fn shown(context: &Context, ty: SqlType, text: &str) -> String {
    let Ok(expr) = parse_expr(text) else { return text.to_owned() };
    shown_expr(context, ty, &expr).unwrap_or_else(|| text.to_owned())
}

/// `None`: as it was written.
fn shown_expr(context: &Context, ty: SqlType, expr: &Expr) -> Option<String> {
    match expr {
        Expr::Nested(inner) => shown_expr(context, ty, inner),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(constant(context, ty, text)),
            Value::Number(digits, _) => Some(number(&digits.to_string())),
            Value::Boolean(value) => Some(value.to_string()),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
            Expr::Value(value) => match &value.value {
                Value::Number(digits, _) => Some(number(&format!("-{digits}"))),
                _ => None,
            },
            _ => None,
        },
        Expr::Cast { kind: CastKind::DoubleColon | CastKind::Cast, expr, data_type, .. } => {
            let Expr::Value(value) = expr.as_ref() else { return None };
            match &value.value {
                Value::SingleQuotedString(text) => cast(context, text, data_type),
                _ => None,
            }
        }
        Expr::Function(function) => nextval(context, function),
        Expr::Identifier(name) if name.quote_style.is_none() => {
            let name = name.value.to_uppercase();
            name.starts_with("CURRENT_").then_some(name)
        }
        Expr::BinaryOp { op, .. } if *op != BinaryOperator::Assignment => Some(format!("({expr})")),
        _ => None,
    }
}

/// A number without a type of its own: integers have the smallest that holds them, from `integer` on.
fn number(digits: &str) -> String {
    let is_negative = digits.starts_with('-');
    if digits.contains(['.', 'e', 'E']) {
        return match is_negative {
            true => format!("'{digits}'::numeric"),
            false => digits.to_owned(),
        };
    }
    match (digits.parse::<i32>(), digits.parse::<i64>()) {
        (Ok(_), _) if !is_negative => digits.to_owned(),
        (Ok(_), _) => format!("'{digits}'::integer"),
        (_, Ok(_)) => format!("'{digits}'::bigint"),
        _ => format!("'{digits}'::numeric"),
    }
}

/// A text in quotes as the value of a type that it is.
fn constant(context: &Context, ty: SqlType, text: &str) -> String {
    let value = match ty {
        SqlType::Boolean
        | SqlType::SmallInt
        | SqlType::Integer
        | SqlType::BigInt
        | SqlType::Real
        | SqlType::Double
        | SqlType::Date
        | SqlType::Time
        | SqlType::Timestamp
        | SqlType::TimestampTz
        | SqlType::Interval
        | SqlType::Uuid
        | SqlType::Jsonb
        | SqlType::Inet
        | SqlType::Cidr
        | SqlType::MacAddr => {
            let zone = TimeZone::parse(&context.session.time_zone).unwrap_or_default();
            let value = coerce::parse_owned(text, ty, &zone).ok();
            value.map(|value| coerce::to_text(value.as_ref(), ty, &zone))
        }
        _ => None,
    };
    let value = value.unwrap_or_else(|| text.to_owned());
    let plain = value.starts_with(|first: char| first.is_ascii_digit());
    match ty {
        SqlType::Boolean => match value.as_str() {
            "t" => return "true".to_owned(),
            "f" => return "false".to_owned(),
            _ => {}
        },
        SqlType::Integer if plain => return value,
        SqlType::Decimal { .. } if plain && value.contains(['.', 'e', 'E']) => return value,
        _ => {}
    }
    let name = user_types::format_type(context, ty.oid(), Some(-1));
    labelled(&value, &name.unwrap_or_else(|| ty.to_string()))
}

fn labelled(value: &str, ty: &str) -> String {
    format!("'{}'::{ty}", value.replace('\'', "''"))
}

/// A constant with a type that was written beside it, which may be one of users.
fn cast(context: &Context, text: &str, data_type: &DataType) -> Option<String> {
    if let DataType::Custom(name, modifiers) = data_type
        && modifiers.is_empty()
        && let Ok(name) = parts(name)
        && let Some(own) = context.catalog.user_type(&name, &context.session.search_path)
    {
        return Some(labelled(
            text,
            &describe::qualified(&context.session, &own.schema, &own.name),
        ));
    }
    let ty = cast_type(data_type).ok()?;
    match ty {
        SqlType::Char(Some(_)) | SqlType::Varchar(Some(_)) => Some(labelled(text, &ty.to_string())),
        SqlType::Decimal { .. } if data_type.to_string().contains('(') => {
            Some(labelled(text, &ty.to_string()))
        }
        _ => Some(constant(context, ty, text)),
    }
}

/// `nextval` of a sequence, named as the session would have to.
fn nextval(context: &Context, function: &Function) -> Option<String> {
    if parts(&function.name).ok()?.last()? != "nextval" {
        return None;
    }
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(argument)))] = &list.args[..]
    else {
        return None;
    };
    let Value::SingleQuotedString(name) = &argument.value else { return None };
    let found = describe::parse_name(name).and_then(|name| context.resolve(&name));
    let name = match found {
        Some(sequence) => describe::qualified(&context.session, &sequence.schema, &sequence.name),
        None => name.clone(),
    };
    Some(format!("nextval('{}'::regclass)", name.replace('\'', "''")))
}
