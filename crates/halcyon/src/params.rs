//! Parameters: Rust values converted for `$1`, `$2`, ….

use halcyon_sql::coerce::{self, TimeZone};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::types::SqlType;
use halcyon_store::Value;

/// Values for the placeholders of a statement: `params![1, "text", None::<i32>]`.
#[macro_export]
macro_rules! params {
    ($($value:expr),* $(,)?) => { &[$($crate::IntoValue::into_value($value)),*][..] };
}

/// A Rust value that can be a SQL value.
pub trait IntoValue {
    /// Converts into the value as SQL stores it.
    fn into_value(self) -> Value;
}

macro_rules! into_value {
    ($($rust:ty => $variant:ident),* $(,)?) => {
        $(impl IntoValue for $rust {
            fn into_value(self) -> Value { Value::$variant(self.into()) }
        })*
    };
}

into_value! {
    bool => Bool,
    i16 => Int16,
    i32 => Int32,
    i64 => Int64,
    f32 => Float32,
    f64 => Float64,
    &str => Text,
    String => Text,
    &[u8] => Bytes,
    Vec<u8> => Bytes,
}

impl IntoValue for Value {
    fn into_value(self) -> Value {
        self
    }
}

impl<T: IntoValue> IntoValue for Option<T> {
    fn into_value(self) -> Value {
        self.map_or(Value::Null, IntoValue::into_value)
    }
}

/// Whether `value` can be used for a parameter of type `ty` without conversion.
fn fits(value: &Value, ty: SqlType) -> bool {
    if let (Value::Text(text), SqlType::Varchar(Some(length))) = (value, ty) {
        // A text with no more bytes than that has no more characters: nothing to cut, and nothing
        // to refuse.
        return text.len() <= length as usize;
    }
    matches!(
        (value, ty),
        (Value::Null, _)
            | (Value::Bool(_), SqlType::Boolean)
            | (Value::Int16(_), SqlType::SmallInt)
            | (Value::Int32(_), SqlType::Integer | SqlType::Oid)
            | (Value::Int64(_), SqlType::BigInt)
            | (Value::Float32(_), SqlType::Real)
            | (Value::Float64(_), SqlType::Double)
            | (Value::Decimal(_), SqlType::Decimal { .. })
            | (Value::Text(_), SqlType::Text | SqlType::Varchar(None))
            | (Value::Bytes(_), SqlType::Bytea)
            | (Value::Date(_), SqlType::Date)
            | (Value::Time(_), SqlType::Time)
            | (Value::Timestamp(_), SqlType::Timestamp)
            | (Value::TimestampTz(_), SqlType::TimestampTz)
            | (Value::Interval(_), SqlType::Interval)
            | (Value::Uuid(_), SqlType::Uuid)
    )
}

/// The values in the form in which a statement with parameters of these types takes them: `values`
/// itself if all fit, so that nothing is copied, otherwise converted values in `converted`.
///
/// Errors: 08P01 if their number is wrong; the errors of an assignment cast.
#[inline]
pub(crate) fn fit<'a>(
    values: &'a [Value],
    types: &[SqlType],
    zone: &str,
    converted: &'a mut Vec<Value>,
) -> Result<&'a [Value]> {
    let all_fit =
        values.len() == types.len() && values.iter().zip(types).all(|(value, ty)| fits(value, *ty));
    if all_fit {
        return Ok(values);
    }
    *converted = convert(values, types, zone)?;
    Ok(converted)
}

/// The SQL type of a value whose type nothing else determines.
fn natural_type(value: &Value) -> SqlType {
    match value {
        Value::Bool(_) => SqlType::Boolean,
        Value::Int16(_) => SqlType::SmallInt,
        Value::Int32(_) => SqlType::Integer,
        Value::Int64(_) => SqlType::BigInt,
        Value::Float32(_) => SqlType::Real,
        Value::Float64(_) => SqlType::Double,
        Value::Decimal(_) => SqlType::Decimal { precision: 38, scale: 0 },
        Value::Null | Value::Text(_) => SqlType::Text,
        Value::Bytes(_) => SqlType::Bytea,
        Value::Date(_) => SqlType::Date,
        Value::Time(_) => SqlType::Time,
        Value::Timestamp(_) => SqlType::Timestamp,
        Value::TimestampTz(_) => SqlType::TimestampTz,
        Value::Interval(_) => SqlType::Interval,
        Value::Uuid(_) => SqlType::Uuid,
    }
}

/// Converts values to the types that a statement declares. A decimal for a decimal parameter is
/// taken to be unscaled, in the parameter's scale; moments are read from texts, and become days and times, in
/// the time zone of this name.
fn convert(values: &[Value], types: &[SqlType], zone: &str) -> Result<Vec<Value>> {
    if values.len() != types.len() {
        return Err(SqlError::new(
            SqlState::PROTOCOL_VIOLATION,
            format!("the statement takes {} parameters, {} were given", types.len(), values.len()),
        ));
    }
    let zone = match types.iter().any(|ty| depends_on_zone(ty.element().unwrap_or(*ty))) {
        true => TimeZone::parse(zone)?,
        false => TimeZone::UTC,
    };
    let convert_one_value = |value: &Value, ty: SqlType| {
        if let Value::Text(text) = value {
            return coerce::parse_owned(text, ty, &zone);
        }
        let arena = coerce::Arena::new();
        coerce::assign(value.as_ref(), natural_type(value), ty, &zone, &arena)
            .map(|value| value.to_owned())
    };
    let convert_one = |(position, (value, ty)): (usize, (&Value, &SqlType))| {
        if fits(value, *ty) {
            return Ok(value.clone());
        }
        convert_one_value(value, *ty)
            .map_err(|error| error.context(format!("parameter ${}", position + 1)))
    };
    values.iter().zip(types).enumerate().map(convert_one).collect()
}

/// Whether a value of the type may follow from a moment without a zone, or the other way round.
fn depends_on_zone(ty: SqlType) -> bool {
    matches!(ty, SqlType::TimestampTz | SqlType::Timestamp | SqlType::Date | SqlType::Time)
}
