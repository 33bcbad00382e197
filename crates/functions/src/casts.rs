//! Casts by PostgreSQL's rules, where Arrow has others or none.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use halcyon_sql::coerce;
use halcyon_sql::coerce::zone::TimeZone;
use halcyon_sql::diagnose::external;
use halcyon_sql::types::SqlType;
use halcyon_sql::values::{ArrayWriter, value_at};
use halcyon_store::ValueRef;
use halcyon_value::decimal;

/// A conversion by PostgreSQL's rules, value by value.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct PgCast {
    from: SqlType,
    to: SqlType,
    zone: String,
    signature: Signature,
}

impl PgCast {
    /// A conversion; `zone` is the session's, for TIMESTAMPTZ. Other conversions are equal in every zone.
    pub fn new(from: SqlType, to: SqlType, zone: &str) -> Self {
        let reads_zone = [from, to].contains(&SqlType::TimestampTz);
        PgCast {
            from,
            to,
            zone: if reads_zone { zone } else { "UTC" }.to_owned(),
            signature: Signature::any(1, Volatility::Immutable),
        }
    }

    /// The conversion that a call is.
    pub fn of(call: &ScalarFunction) -> Option<&PgCast> {
        call.func.inner().downcast_ref::<PgCast>()
    }

    /// The types between which it converts.
    pub fn types(&self) -> (SqlType, SqlType) {
        (self.from, self.to)
    }

    /// Whether Arrow's conversion differs from PostgreSQL's, or does not exist.
    pub fn differs(from: SqlType, to: SqlType) -> bool {
        use SqlType::*;
        if from == to {
            return false;
        }
        let text = |ty| matches!(ty, Char(_) | Varchar(_) | Text);
        let float = |ty| matches!(ty, Real | Double);
        let integer = |ty| matches!(ty, SmallInt | Integer | BigInt);
        match (from, to) {
            (Json | Jsonb, _) | (_, Json | Jsonb) => true,
            (from, to) if from.is_address() || to.is_address() => true,
            (from, Char(Some(_)) | Varchar(Some(_))) if text(from) => true,
            (from, to) if text(from) && text(to) => false,
            (from, to) if text(from) => !text(to),
            (Decimal { precision, scale }, to)
                if text(to) && decimal::is_free(precision, scale) =>
            {
                true
            }
            (SmallInt | Integer | BigInt | Decimal { .. } | Boolean, Text | Varchar(None)) => false,
            (_, to) if text(to) => true,
            (from, to) if float(from) && (integer(to) || matches!(to, Decimal { .. })) => true,
            (Decimal { .. }, to) if integer(to) => true,
            (Double, Real) => true,
            (Boolean, Integer) | (Integer, Boolean) => false,
            (Uuid | Bytea | Interval | Time, _) | (_, Uuid | Bytea | Interval | Time) => true,
            (TimestampTz, Date | Timestamp) | (Date | Timestamp, TimestampTz) => true,
            (Timestamp, Date) => true,
            (Boolean, _) | (_, Boolean) => true,
            (Date | Timestamp | TimestampTz, to) if integer(to) || float(to) => true,
            (from, Date | Timestamp | TimestampTz) if integer(from) || float(from) => true,
            _ => false,
        }
    }
}

impl ScalarUDFImpl for PgCast {
    fn name(&self) -> &str {
        "pg_cast"
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(format!("CAST({} AS {})", args[0].human_display(), self.to))
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(format!("CAST({} AS {})", args[0].schema_name(), self.to))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.arrow())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(self.to.field(self.name(), nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let zone = TimeZone::parse(&self.zone).map_err(external)?;
        convert_column(&args.args[0], self.to, |value, writer| {
            let arena = coerce::Arena::new();
            writer.push(coerce::cast(value, self.from, self.to, &zone, &arena)?)
        })
    }
}

/// Maps one column to another of type `to`, a row at a time; NULL stays NULL.
fn convert_column(
    column: &ColumnarValue,
    to: SqlType,
    mut convert: impl FnMut(ValueRef<'_>, &mut ArrayWriter) -> halcyon_sql::error::Result<()>,
) -> Result<ColumnarValue> {
    let is_scalar = matches!(column, ColumnarValue::Scalar(_));
    let array = column.to_array(1)?;
    let mut writer = ArrayWriter::new(to, array.len());
    for row in 0..array.len() {
        match value_at(array.as_ref(), row) {
            Some(ValueRef::Null) | None => writer.push(ValueRef::Null),
            Some(value) => convert(value, &mut writer),
        }
        .map_err(external)?;
    }
    finish(writer.finish(), is_scalar)
}

fn finish(array: ArrayRef, is_scalar: bool) -> Result<ColumnarValue> {
    if is_scalar {
        return ScalarValue::try_from_array(&array, 0).map(ColumnarValue::Scalar);
    }
    Ok(ColumnarValue::Array(array))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_decimals_are_arrows_where_the_type_has_digits() {
        let decimal = |precision, scale| SqlType::Decimal { precision, scale };
        for text in [SqlType::Text, SqlType::Varchar(None)] {
            assert!(PgCast::differs(SqlType::UNCONSTRAINED, text));
            assert!(PgCast::differs(decimal(38, 20), text));
            assert!(!PgCast::differs(decimal(12, 2), text));
            assert!(!PgCast::differs(decimal(38, 16), text));
        }
    }
}
