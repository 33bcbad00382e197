//! Types by the names that SQL text gives them.
//!
//! A column takes fewer names than a cast: what it is declared as is stored and shown, while a cast
//! may name types that PostgreSQL's tools use and that we only know by their representation
//! (`regclass`, `name`).

use std::borrow::Cow;

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType, ExactNumberInfo, Ident, ObjectName,
    ObjectNamePart, TimezoneInfo,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use halcyon_value::decimal::DIGITS_MAX as DECIMAL_DIGITS_MAX;

use crate::enums::EnumId;
use crate::error::{Result, SqlError, SqlState};
use crate::identifier::{fold, last};
use crate::types::SqlType;

/// NUMERIC that names no digits.
pub const UNCONSTRAINED: SqlType = SqlType::UNCONSTRAINED;

/// The type that a type name stands for in the definition of a column or sequence. Errors: 42704,
/// 0A000, 22023.
pub fn column_type(ty: &DataType) -> Result<SqlType> {
    Ok(match ty {
        DataType::Boolean | DataType::Bool => SqlType::Boolean,
        DataType::SmallInt(_) | DataType::Int2(_) => SqlType::SmallInt,
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => SqlType::Integer,
        DataType::BigInt(_) | DataType::Int8(_) => SqlType::BigInt,
        DataType::TinyInt(_) => SqlType::SmallInt,
        DataType::Real | DataType::Float4 => SqlType::Real,
        DataType::DoublePrecision | DataType::Float8 | DataType::Double(_) => SqlType::Double,
        DataType::Float(ExactNumberInfo::Precision(1..=24)) => SqlType::Real,
        DataType::Float(_) => SqlType::Double,
        DataType::Numeric(info) | DataType::Decimal(info) | DataType::Dec(info) => decimal(info)?,
        DataType::Char(length) | DataType::Character(length) => {
            SqlType::Char(Some(char_length(length)?.unwrap_or(1)))
        }
        DataType::Varchar(length)
        | DataType::CharVarying(length)
        | DataType::CharacterVarying(length)
        | DataType::Nvarchar(length) => SqlType::Varchar(char_length(length)?),
        DataType::Text | DataType::String(None) => SqlType::Text,
        DataType::Bytea => SqlType::Bytea,
        DataType::Date => SqlType::Date,
        DataType::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => SqlType::Time,
        DataType::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone)
        | DataType::Datetime(_) => SqlType::Timestamp,
        DataType::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => {
            SqlType::TimestampTz
        }
        DataType::Interval { .. } => SqlType::Interval,
        DataType::Uuid => SqlType::Uuid,
        DataType::JSON => SqlType::Json,
        DataType::JSONB => SqlType::Jsonb,
        DataType::Custom(name, modifiers) => custom(&last(name)?, modifiers, ty)?,
        DataType::Array(items) => array(items, ty, column_type)?,
        DataType::Time(..)
        | DataType::Enum(..)
        | DataType::Bit(_)
        | DataType::BitVarying(_)
        | DataType::TsVector
        | DataType::TsQuery
        | DataType::Regclass => return Err(SqlError::unsupported(format!("type {ty}"))),
        other => return Err(undefined(other)),
    })
}

/// The type of arrays of a type that `named` knows. Errors: 0A000 for arrays of arrays.
fn array(
    items: &ArrayElemTypeDef,
    whole: &DataType,
    named: fn(&DataType) -> Result<SqlType>,
) -> Result<SqlType> {
    let (ArrayElemTypeDef::SquareBracket(item, _) | ArrayElemTypeDef::AngleBracket(item)) = items
    else {
        return Err(SqlError::unsupported(format!("type {whole}")));
    };
    let of = named(item)?.array_of();
    of.ok_or_else(|| SqlError::unsupported("an array of several dimensions"))
}

fn undefined(ty: &DataType) -> SqlError {
    let name = ty.to_string().to_lowercase();
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"))
}

/// Names that the parser has no word for.
fn custom(name: &str, modifiers: &[String], ty: &DataType) -> Result<SqlType> {
    let length = || match modifiers {
        [] => Ok(None),
        [length] => bounded_length(length.parse().map_err(|_| undefined(ty))?).map(Some),
        _ => Err(undefined(ty)),
    };
    Ok(match name {
        "bool" => SqlType::Boolean,
        "int2" => SqlType::SmallInt,
        "int4" => SqlType::Integer,
        "int8" => SqlType::BigInt,
        "float4" => SqlType::Real,
        "float8" => SqlType::Double,
        "numeric" => decimal(&ExactNumberInfo::None)?,
        "bpchar" => SqlType::Char(length()?),
        "varchar" => SqlType::Varchar(length()?),
        "text" | "name" | "char" | "citext" => SqlType::Text,
        "bytea" => SqlType::Bytea,
        "date" => SqlType::Date,
        "time" => SqlType::Time,
        "timestamp" => SqlType::Timestamp,
        "timestamptz" => SqlType::TimestampTz,
        "interval" => SqlType::Interval,
        "uuid" => SqlType::Uuid,
        "json" => SqlType::Json,
        "jsonb" => SqlType::Jsonb,
        "inet" => SqlType::Inet,
        "cidr" => SqlType::Cidr,
        "macaddr" => SqlType::MacAddr,
        "xml" | "money" | "macaddr8" | "timetz" | "point" => {
            return Err(SqlError::unsupported(format!("type {name}")));
        }
        name if let Some(ty) = array_named(name) => column_type(&ty)?,
        name => return enumeration(name).ok_or_else(|| undefined(ty)),
    })
}

/// The enumeration behind a name that [`name_of`] has made.
fn enumeration(name: &str) -> Option<SqlType> {
    EnumId::of_mark(name).and_then(|id| SqlType::of_enum_oid(id.oid()))
}

/// A name of the type for whoever reads it next in this process.
///
/// Panics: never.
pub fn name_of(ty: SqlType) -> DataType {
    match ty {
        SqlType::Enum(id) => {
            let mark = Ident::with_quote('"', id.mark());
            DataType::Custom(ObjectName::from(vec![mark]), Vec::new())
        }
        SqlType::Array(element) => {
            let item = Box::new(name_of(element.ty()));
            DataType::Array(ArrayElemTypeDef::SquareBracket(item, None))
        }
        plain => {
            let text = plain.to_string();
            let parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(&text);
            let named = parser.and_then(|mut parser| parser.parse_data_type());
            named.expect("the names of types are SQL")
        }
    }
}

fn decimal(info: &ExactNumberInfo) -> Result<SqlType> {
    let (precision, scale) = match *info {
        ExactNumberInfo::None => return Ok(UNCONSTRAINED),
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    if !(1..=DECIMAL_DIGITS_MAX as u64).contains(&precision) {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("NUMERIC precision {precision} must be between 1 and {DECIMAL_DIGITS_MAX}"),
        ));
    }
    if !(0..=precision as i64).contains(&scale) {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("NUMERIC scale {scale} must be between 0 and precision {precision}"),
        ));
    }
    Ok(SqlType::Decimal { precision: precision as u8, scale: scale as i8 })
}

fn char_length(length: &Option<CharacterLength>) -> Result<Option<u32>> {
    match length {
        None | Some(CharacterLength::Max) => Ok(None),
        Some(CharacterLength::IntegerLength { length, .. }) => bounded_length(*length).map(Some),
    }
}

/// A length of texts, for which columns, casts and results have room.
fn bounded_length(length: u64) -> Result<u32> {
    const LENGTH_MAX: u64 = 10_485_760;
    match length {
        1..=LENGTH_MAX => Ok(length as u32),
        _ => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("length for type character must be between 1 and {LENGTH_MAX}"),
        )),
    }
}

/// Whether the type is SERIAL or one of its kin, and the integer behind it.
pub fn serial(ty: &DataType) -> Option<SqlType> {
    let DataType::Custom(name, _) = ty else { return None };
    Some(match last(name).ok()?.as_str() {
        "serial" | "serial4" => SqlType::Integer,
        "bigserial" | "serial8" => SqlType::BigInt,
        "smallserial" | "serial2" => SqlType::SmallInt,
        _ => return None,
    })
}

/// Takes the number of digits of a second out of a type of moments or spans that names it.
pub fn take_places(ty: &mut DataType) -> Option<u64> {
    match ty {
        DataType::Timestamp(places, _) | DataType::Time(places, _) => places.take(),
        DataType::Interval { precision, .. } => precision.take(),
        _ => None,
    }
}

/// The type that a type name stands for in a cast, as PostgreSQL reads it.
///
/// Errors: 42704 for unknown names, 0A000 for arrays of arrays and the like, 22023 for bad lengths.
pub fn cast_type(ty: &DataType) -> Result<SqlType> {
    Ok(match ty {
        DataType::Boolean | DataType::Bool => SqlType::Boolean,
        DataType::SmallInt(_) | DataType::Int2(_) => SqlType::SmallInt,
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) | DataType::MediumInt(_) => {
            SqlType::Integer
        }
        DataType::BigInt(_) | DataType::Int8(_) => SqlType::BigInt,
        DataType::Real | DataType::Float4 => SqlType::Real,
        DataType::Float(ExactNumberInfo::Precision(bits)) if *bits <= 24 => SqlType::Real,
        DataType::Double(_) | DataType::DoublePrecision | DataType::Float8 | DataType::Float(_) => {
            SqlType::Double
        }
        DataType::Numeric(info) | DataType::Decimal(info) | DataType::Dec(info) => decimal(info)?,
        DataType::Character(n) | DataType::Char(n) => {
            SqlType::Char(Some(char_length(n)?.unwrap_or(1)))
        }
        DataType::CharacterVarying(n)
        | DataType::CharVarying(n)
        | DataType::Varchar(n)
        | DataType::Nvarchar(n) => SqlType::Varchar(char_length(n)?),
        DataType::Text | DataType::String(_) => SqlType::Text,
        DataType::Bytea | DataType::Blob(_) | DataType::Binary(_) | DataType::Varbinary(_) => {
            SqlType::Bytea
        }
        DataType::Date => SqlType::Date,
        DataType::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => SqlType::Time,
        DataType::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone)
        | DataType::TimestampNtz(_) => SqlType::Timestamp,
        DataType::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => {
            SqlType::TimestampTz
        }
        DataType::Interval { .. } => SqlType::Interval,
        DataType::Uuid => SqlType::Uuid,
        DataType::JSON => SqlType::Json,
        DataType::JSONB => SqlType::Jsonb,
        DataType::Array(items) => array(items, ty, cast_type)?,
        DataType::Custom(name, arguments) => return custom_cast_type(name, arguments),
        other => {
            return Err(SqlError::unsupported(format!(
                "type {}",
                other.to_string().to_lowercase()
            )));
        }
    })
}

/// `_int4`, which is the name that PostgreSQL's catalog has for `int4[]`.
fn array_named(name: &str) -> Option<DataType> {
    let item = match name.strip_prefix('_')? {
        "bool" => DataType::Boolean,
        "bytea" => DataType::Bytea,
        "date" => DataType::Date,
        "float4" => DataType::Float4,
        "float8" => DataType::Float8,
        "int2" => DataType::Int2(None),
        "int4" => DataType::Int4(None),
        "int8" => DataType::Int8(None),
        "interval" => DataType::Interval { fields: None, precision: None },
        "json" => DataType::JSON,
        "jsonb" => DataType::JSONB,
        "numeric" => DataType::Numeric(ExactNumberInfo::None),
        "text" => DataType::Text,
        "time" => DataType::Time(None, TimezoneInfo::None),
        "timestamp" => DataType::Timestamp(None, TimezoneInfo::None),
        "timestamptz" => DataType::Timestamp(None, TimezoneInfo::Tz),
        "uuid" => DataType::Uuid,
        "varchar" => DataType::Varchar(None),
        _ => return None,
    };
    Some(DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(item), None)))
}

/// Types whose names the parser does not know: PostgreSQL's internal ones.
fn custom_cast_type(name: &ObjectName, arguments: &[String]) -> Result<SqlType> {
    let last = name.0.last().and_then(ObjectNamePart::as_ident);
    let word = last.map(fold).unwrap_or_default();
    let length = arguments.first().and_then(|length| length.parse().ok());
    let length = length.map(bounded_length).transpose()?;
    Ok(match word.as_str() {
        "bpchar" => SqlType::Char(length),
        "name" | "cstring" | "tid" => SqlType::Text,
        "json" => SqlType::Json,
        "jsonb" => SqlType::Jsonb,
        "serial" | "serial4" => SqlType::Integer,
        "bigserial" | "serial8" => SqlType::BigInt,
        "smallserial" | "serial2" => SqlType::SmallInt,
        "oid" | "regclass" | "regtype" | "regproc" | "regnamespace" | "regrole" | "xid" | "cid" => {
            SqlType::Integer
        }
        "int2" => SqlType::SmallInt,
        "int4" => SqlType::Integer,
        "int8" => SqlType::BigInt,
        "float4" => SqlType::Real,
        "float8" => SqlType::Double,
        "bool" => SqlType::Boolean,
        "timestamptz" => SqlType::TimestampTz,
        // The parser knows these, but not between double quotes.
        "timestamp" => SqlType::Timestamp,
        "date" => SqlType::Date,
        "time" => SqlType::Time,
        "interval" => SqlType::Interval,
        "numeric" => UNCONSTRAINED,
        "varchar" => SqlType::Varchar(length),
        "char" | "text" => SqlType::Text,
        "bytea" => SqlType::Bytea,
        "uuid" => SqlType::Uuid,
        "inet" => SqlType::Inet,
        "cidr" => SqlType::Cidr,
        "macaddr" => SqlType::MacAddr,
        word if let Some(ty) = array_named(word) => cast_type(&ty)?,
        word => {
            return enumeration(word).ok_or_else(|| {
                SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"))
            });
        }
    })
}

/// A type's name in `pg_type`.
pub fn pg_type_name(ty: SqlType) -> Cow<'static, str> {
    Cow::Borrowed(match ty {
        SqlType::Boolean => "bool",
        SqlType::SmallInt => "int2",
        SqlType::Integer => "int4",
        SqlType::Oid => "oid",
        SqlType::BigInt => "int8",
        SqlType::Real => "float4",
        SqlType::Double => "float8",
        SqlType::Decimal { .. } => "numeric",
        SqlType::Char(_) => "bpchar",
        SqlType::Varchar(_) => "varchar",
        SqlType::Text => "text",
        SqlType::Bytea => "bytea",
        SqlType::Date => "date",
        SqlType::Time => "time",
        SqlType::Timestamp => "timestamp",
        SqlType::TimestampTz => "timestamptz",
        SqlType::Interval => "interval",
        SqlType::Uuid => "uuid",
        SqlType::Json => "json",
        SqlType::Jsonb => "jsonb",
        SqlType::Inet => "inet",
        SqlType::Cidr => "cidr",
        SqlType::MacAddr => "macaddr",
        SqlType::Array(element) => return format!("_{}", pg_type_name(element.ty())).into(),
        SqlType::Enum(id) => return id.definition().name.clone().into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> Result<String, SqlState> {
        let ty = Parser::new(&PostgreSqlDialect {})
            .try_with_sql(text)
            .and_then(|mut parser| parser.parse_data_type())
            .expect("a type name");
        column_type(&ty).map(|ty| ty.to_string()).map_err(|error| error.state())
    }

    #[test]
    fn every_spelling_of_a_type_is_known() {
        for (text, expected) in [
            ("int", "integer"),
            ("INT4", "integer"),
            ("bigint", "bigint"),
            ("int8", "bigint"),
            ("int2", "smallint"),
            ("bool", "boolean"),
            ("float", "double precision"),
            ("float(10)", "real"),
            ("float8", "double precision"),
            ("double precision", "double precision"),
            ("decimal(10,2)", "numeric(10,2)"),
            ("numeric(5)", "numeric(5,0)"),
            ("numeric", "numeric"),
            ("numeric(38,10)", "numeric"),
            ("numeric[]", "numeric[]"),
            ("char", "character(1)"),
            ("character(3)", "character(3)"),
            ("varchar(7)", "character varying(7)"),
            ("character varying", "character varying"),
            ("text", "text"),
            ("bytea", "bytea"),
            ("timestamp", "timestamp without time zone"),
            ("timestamp(3) with time zone", "timestamp with time zone"),
            ("timestamptz", "timestamp with time zone"),
            ("time", "time without time zone"),
            ("interval", "interval"),
            ("uuid", "uuid"),
            ("json", "json"),
            ("jsonb", "jsonb"),
            ("inet", "inet"),
            ("cidr", "cidr"),
            ("macaddr", "macaddr"),
            ("inet[]", "inet[]"),
            ("int[]", "integer[]"),
            ("varchar(7)[3]", "character varying(7)[]"),
            ("numeric(5,2)[]", "numeric(5,2)[]"),
        ] {
            assert_eq!(named(text), Ok(expected.to_owned()), "{text}");
        }
        assert_eq!(named("nothing"), Err(SqlState::UNDEFINED_OBJECT));
        assert_eq!(named("int[][]"), Err(SqlState::FEATURE_NOT_SUPPORTED));
        assert_eq!(named("numeric(39,2)"), Err(SqlState::INVALID_PARAMETER_VALUE));
        assert_eq!(named("numeric(3,4)"), Err(SqlState::INVALID_PARAMETER_VALUE));
        assert_eq!(named("varchar(0)"), Err(SqlState::INVALID_PARAMETER_VALUE));
    }
}
