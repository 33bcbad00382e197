//! Decodes parameter values of Bind.
//!
//! Text is passed on as text: the engine reads it as the parameter's type, by the rules for a
//! literal. Binary values are decoded here. Integers and floats are accepted at any width that the
//! value fits, since drivers send the type that they have declared and the statement may have
//! widened it.

use bytes::{Buf, Bytes};
use halcyon::{Interval, SqlError, SqlState, SqlType, TextFormat, Value, arrays};
use halcyon_value::calendar::DAY_US;
use halcyon_value::network::{Network, write_macaddr};

use super::{EPOCH_DAYS, EPOCH_US, Format, numeric};

/// The parameter type that an object id of a client's Parse names.
///
/// `None` leaves the type to the statement: for unspecified and unknown types, and for types that
/// exist only as text here.
pub fn type_of(oid: u32) -> Option<SqlType> {
    Some(match oid {
        16 => SqlType::Boolean,
        17 => SqlType::Bytea,
        20 | 26 => SqlType::BigInt,
        21 => SqlType::SmallInt,
        23 => SqlType::Integer,
        700 => SqlType::Real,
        701 => SqlType::Double,
        19 | 25 | 1042 | 1043 | 2275 => SqlType::Text,
        114 => SqlType::Json,
        3802 => SqlType::Jsonb,
        869 => SqlType::Inet,
        650 => SqlType::Cidr,
        829 => SqlType::MacAddr,
        1082 => SqlType::Date,
        1083 => SqlType::Time,
        1114 => SqlType::Timestamp,
        1184 => SqlType::TimestampTz,
        1186 => SqlType::Interval,
        2950 => SqlType::Uuid,
        1014 | 1015 => return SqlType::Text.array_of(),
        oid => return SqlType::of_enum_oid(oid).or_else(|| SqlType::of_array_oid(oid)),
    })
}

/// The value of parameter `number` (from 1). An array is its text, whose elements `text_format` writes.
///
/// Errors: 22021 if text is not UTF-8 or has a zero byte, 22P03 if binary is no value of `ty`,
/// 22003 if a number does not fit it.
pub fn decode(
    bytes: &Bytes,
    format: Format,
    ty: SqlType,
    text_format: TextFormat,
    number: usize,
) -> Result<Value, SqlError> {
    match format {
        Format::Text => text(bytes).map(Value::Text),
        Format::Binary if ty.element().is_some() => array(bytes, text_format).map(Value::Text),
        Format::Binary => binary(bytes, ty),
    }
    .map_err(|error| error.context(format!("parameter ${number}")))
}

/// The text of a binary array, whose elements `format` writes.
///
/// Errors: those of [`decode`]; 0A000 for several dimensions, and for elements of a type without values
/// here.
fn array(bytes: &Bytes, format: TextFormat) -> Result<String, SqlError> {
    let mut rest = bytes.clone();
    let dimensions = header(&mut rest, "number of dimensions")?;
    header(&mut rest, "flags")?;
    let oid = header(&mut rest, "type of elements")? as u32;
    match dimensions {
        0 => return Ok("{}".to_owned()),
        1 => {}
        _ => return Err(SqlError::unsupported("an array of several dimensions")),
    }
    let length = header(&mut rest, "length")?;
    header(&mut rest, "lower bound")?;
    let Some(ty) = element_type(oid) else {
        return Err(SqlError::unsupported(format!("an array of the type with object id {oid}")));
    };
    let (mut out, mut written) = (String::from("{"), String::new());
    for at in 0..length {
        if at > 0 {
            out.push(',');
        }
        let bytes = match header(&mut rest, "element")? {
            -1 => {
                arrays::push_element(&mut out, None);
                continue;
            }
            bytes => usize::try_from(bytes).map_err(|_| malformed())?,
        };
        if rest.len() < bytes {
            return Err(malformed());
        }
        written.clear();
        match binary(&rest.split_to(bytes), ty)? {
            Value::Text(text) => written = text,
            Value::Bytes(bytes) => {
                written.push_str("\\x");
                bytes.iter().for_each(|byte| written.push_str(&format!("{byte:02x}")));
            }
            value => format.write(value.as_ref(), ty, &mut written),
        }
        arrays::push_element(&mut out, Some(&written));
    }
    out.push('}');
    match rest.is_empty() {
        true => Ok(out),
        false => Err(malformed()),
    }
}

/// The next number of an array's description. Errors: 22P03 if it ends before `what`.
fn header(rest: &mut Bytes, what: &str) -> Result<i32, SqlError> {
    let ended = |_| malformed().detail(format!("The array ends before its {what}."));
    rest.try_get_i32().map_err(ended)
}

/// The type of an array's elements by object id.
fn element_type(oid: u32) -> Option<SqlType> {
    match oid {
        1700 => Some(SqlType::Decimal { precision: 38, scale: 10 }),
        oid => type_of(oid),
    }
}

fn text(bytes: &[u8]) -> Result<String, SqlError> {
    let text = utf8(bytes)?;
    if text.contains('\0') {
        return Err(not_utf8("0x00"));
    }
    Ok(text.to_owned())
}

/// The bytes as text. Errors: 22021.
pub fn utf8(bytes: &[u8]) -> Result<&str, SqlError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        let wrong = &bytes[at..bytes.len().min(at + error.error_len().unwrap_or(1))];
        let hex: Vec<_> = wrong.iter().map(|byte| format!("0x{byte:02x}")).collect();
        not_utf8(&hex.join(" "))
    })
}

fn not_utf8(bytes: &str) -> SqlError {
    SqlError::new(
        SqlState::CHARACTER_NOT_IN_REPERTOIRE,
        format!("invalid byte sequence for encoding \"UTF8\": {bytes}"),
    )
}

fn malformed() -> SqlError {
    SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, "incorrect binary data format")
}

fn out_of_range(ty: SqlType) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{ty} out of range"))
}

fn binary(bytes: &[u8], ty: SqlType) -> Result<Value, SqlError> {
    Ok(match ty {
        SqlType::Boolean => Value::Bool(fixed::<1>(bytes)?[0] != 0),
        SqlType::SmallInt => {
            Value::Int16(integer(bytes)?.try_into().map_err(|_| out_of_range(ty))?)
        }
        SqlType::Oid => Value::Int32(u32::from_be_bytes(fixed(bytes)?) as i32),
        SqlType::Integer => Value::Int32(integer(bytes)?.try_into().map_err(|_| out_of_range(ty))?),
        SqlType::BigInt => Value::Int64(integer(bytes)?),
        SqlType::Real => Value::Float32(float(bytes)? as f32),
        SqlType::Double => Value::Float64(float(bytes)?),
        SqlType::Decimal { .. } => Value::Text(numeric::read(bytes).ok_or_else(malformed)?),
        SqlType::Char(_)
        | SqlType::Varchar(_)
        | SqlType::Text
        | SqlType::Json
        | SqlType::Enum(_) => Value::Text(text(bytes)?),
        SqlType::Jsonb => match bytes.split_first() {
            Some((1, document)) => Value::Text(text(document)?),
            first => {
                let version = first.map_or(0, |(version, _)| *version);
                let message = format!("unsupported jsonb version number {version}");
                return Err(SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message));
            }
        },
        SqlType::Bytea => Value::Bytes(bytes.to_vec()),
        SqlType::Date => {
            let days = i32::from_be_bytes(fixed(bytes)?);
            let overflow = || SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range");
            Value::Date(days.checked_add(EPOCH_DAYS).ok_or_else(overflow)?)
        }
        SqlType::Time => match i64::from_be_bytes(fixed(bytes)?) {
            us @ 0..=DAY_US => Value::Time(us),
            _ => return Err(overflow("time")),
        },
        SqlType::Timestamp => Value::Timestamp(timestamp(bytes)?),
        SqlType::TimestampTz => Value::TimestampTz(timestamp(bytes)?),
        SqlType::Interval => {
            let mut bytes = &fixed::<16>(bytes)?[..];
            let us = bytes.get_i64();
            let nanos = us.checked_mul(1_000).ok_or_else(|| overflow("interval"))?;
            Value::Interval(Interval { nanos, days: bytes.get_i32(), months: bytes.get_i32() })
        }
        SqlType::Uuid => Value::Uuid(fixed(bytes)?),
        SqlType::Inet | SqlType::Cidr => {
            let is_cidr = ty == SqlType::Cidr;
            let network = Network::of_wire(bytes, is_cidr).ok_or_else(malformed)?;
            let mut text = String::new();
            network.write(true, &mut text);
            Value::Text(text)
        }
        SqlType::MacAddr => {
            let mut text = String::new();
            write_macaddr(&fixed::<6>(bytes)?, &mut text);
            Value::Text(text)
        }
        SqlType::Array(_) => return Err(SqlError::unsupported("an array of several dimensions")),
    })
}

fn overflow(what: &str) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{what} out of range"))
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], SqlError> {
    bytes.try_into().map_err(|_| malformed())
}

fn integer(bytes: &[u8]) -> Result<i64, SqlError> {
    match bytes.len() {
        2 => Ok(i16::from_be_bytes(fixed(bytes)?).into()),
        4 => Ok(i32::from_be_bytes(fixed(bytes)?).into()),
        8 => Ok(i64::from_be_bytes(fixed(bytes)?)),
        _ => Err(malformed()),
    }
}

fn float(bytes: &[u8]) -> Result<f64, SqlError> {
    match bytes.len() {
        4 => Ok(f32::from_be_bytes(fixed(bytes)?).into()),
        _ => Ok(f64::from_be_bytes(fixed(bytes)?)),
    }
}

fn timestamp(bytes: &[u8]) -> Result<i64, SqlError> {
    let us = i64::from_be_bytes(fixed(bytes)?);
    us.checked_add(EPOCH_US).ok_or_else(|| overflow("timestamp"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8], ty: SqlType) -> Result<Value, [u8; 5]> {
        decode(&Bytes::copy_from_slice(bytes), Format::Binary, ty, TextFormat::default(), 1)
            .map_err(|error| error.state().0)
    }

    #[test]
    fn binary_values_are_decoded_and_checked() {
        type Case<'a> = (&'a [u8], SqlType, Result<Value, [u8; 5]>);
        let cases: [Case<'_>; 12] = [
            (&[1], SqlType::Boolean, Ok(Value::Bool(true))),
            (&[0, 7], SqlType::Integer, Ok(Value::Int32(7))),
            (&[0, 1, 0, 0], SqlType::SmallInt, Err(*b"22003")),
            (&[0, 0, 0], SqlType::Integer, Err(*b"22P03")),
            (&1.5f32.to_be_bytes(), SqlType::Double, Ok(Value::Float64(1.5))),
            (&[0xff], SqlType::Text, Err(*b"22021")),
            (b"a\0b", SqlType::Text, Err(*b"22021")),
            (&[0, 0, 0, 1], SqlType::Date, Ok(Value::Date(10_958))),
            (&[0x7f, 0xff, 0xff, 0xff], SqlType::Date, Err(*b"22008")),
            (&i64::MAX.to_be_bytes(), SqlType::Timestamp, Err(*b"22008")),
            (&[0; 8], SqlType::Timestamp, Ok(Value::Timestamp(EPOCH_US))),
            (&[0; 15], SqlType::Uuid, Err(*b"22P03")),
        ];
        for (bytes, ty, expected) in cases {
            assert_eq!(decoded(bytes, ty), expected, "{ty} {bytes:?}");
        }
    }
}
