//! Values as JSON: for panels by type, for the SQL page as the text that PostgreSQL prints.

use halcyon::{ResultColumn, Row, SqlType, TextFormat, ValueRef};
use serde_json::{Number, Value as Json, json};

/// Integers up to this one are numbers of JavaScript's, too.
const INTEGER_MAX: i64 = (1 << 53) - 1;

/// Columns by name and type.
pub(crate) fn columns(columns: &[ResultColumn]) -> Json {
    let described = columns.iter().map(|column| {
        let ty = column.ty.map_or_else(|| "text".to_owned(), |ty| ty.to_string());
        json!({ "name": column.name, "type": ty })
    });
    described.collect()
}

/// A row whose numbers and truths are JSON's; other values are texts.
pub(crate) fn typed_row(row: &Row<'_>, columns: &[ResultColumn], format: TextFormat) -> Json {
    (0..row.len()).map(|at| typed(row.value(at), columns[at].ty, format)).collect()
}

/// A row as texts, NULL as null: no digit is lost.
pub(crate) fn text_row(row: &Row<'_>, columns: &[ResultColumn], format: TextFormat) -> Json {
    (0..row.len()).map(|at| text(row.value(at), columns[at].ty, format)).collect()
}

fn typed(value: ValueRef<'_>, ty: Option<SqlType>, format: TextFormat) -> Json {
    match value {
        ValueRef::Bool(value) => Json::Bool(value),
        ValueRef::Int16(value) => value.into(),
        ValueRef::Int32(value) if matches!(ty, Some(SqlType::Integer | SqlType::Oid)) => {
            value.into()
        }
        ValueRef::Int64(value)
            if ty == Some(SqlType::BigInt) && (-INTEGER_MAX..=INTEGER_MAX).contains(&value) =>
        {
            value.into()
        }
        ValueRef::Float64(value) => match Number::from_f64(value) {
            Some(number) => Json::Number(number),
            None => Json::String(value.to_string()),
        },
        value => text(value, ty, format),
    }
}

/// The text of a value.
pub(crate) fn text(value: ValueRef<'_>, ty: Option<SqlType>, format: TextFormat) -> Json {
    match value {
        ValueRef::Null => Json::Null,
        value => Json::String(format.text(value, ty.unwrap_or(SqlType::Text))),
    }
}
