//! Values that say their type: `'1'::int`, `$1::text`.

use datafusion::sql::sqlparser::ast::{CastKind, DataType, Expr, Value};
use halcyon_sql::type_names::{UNCONSTRAINED, cast_type};
use halcyon_sql::types::SqlType;

/// The literal or parameter that a cast converts, and the type, if the cast does nothing that assignment to a column of
/// this type does not: it has no length, digits or fields of its own.
pub fn cast_of_value(expr: &Expr, column: SqlType) -> Option<(&Expr, SqlType)> {
    let Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, .. } = expr
    else {
        return None;
    };
    let is_value = matches!(&**expr, Expr::Value(value)
        if matches!(value.value, Value::Placeholder(_) | Value::SingleQuotedString(_)));
    let is_text = |ty| matches!(ty, SqlType::Text | SqlType::Varchar(_));
    let ty = cast_type(data_type).ok().filter(|_| is_value)?;
    let is_plain = match ty {
        SqlType::SmallInt
        | SqlType::Integer
        | SqlType::BigInt
        | SqlType::Real
        | SqlType::Double
        | SqlType::Boolean
        | SqlType::Date
        | SqlType::Uuid
        | SqlType::Json
        | SqlType::Jsonb
        | SqlType::Bytea => ty == column,
        SqlType::Timestamp | SqlType::TimestampTz => {
            ty == column && !matches!(data_type, DataType::Timestamp(Some(_), _))
        }
        SqlType::Text | SqlType::Varchar(None) => is_text(column),
        SqlType::Decimal { .. } => ty == UNCONSTRAINED && matches!(column, SqlType::Decimal { .. }),
        _ => false,
    };
    is_plain.then_some((expr, ty))
}
