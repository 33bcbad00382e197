//! PostgreSQL's binary COPY format, and the binary form of every type.
//!
//! Source: PostgreSQL's documentation of COPY, "Binary Format", and the types' send and receive
//! functions. Times count from 2000-01-01 there, from 1970-01-01 here.

use halcyon_store::{Interval, Value, ValueRef};
use halcyon_value::ValueError;
use halcyon_value::array;
use halcyon_value::calendar::{
    DAY_US, POSTGRES_EPOCH_DAYS as EPOCH_DAYS, POSTGRES_EPOCH_US as EPOCH_US,
};
use halcyon_value::decimal;
use halcyon_value::network::Network;

use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::types::SqlType;

const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";

/// The first tuple of some bytes.
pub(super) enum Tuple<'a> {
    /// There are not enough bytes yet.
    Incomplete,
    /// The end marker.
    End,
    /// Fields of the tuple, and the bytes behind it.
    Fields(Vec<Option<&'a [u8]>>, &'a [u8]),
}

fn malformed(message: &str) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

/// What follows the header; `None` if it is not complete. Errors: 22P04.
pub(super) fn header(bytes: &[u8]) -> Result<Option<&[u8]>> {
    let compared = bytes.len().min(SIGNATURE.len());
    if bytes[..compared] != SIGNATURE[..compared] {
        return Err(malformed("COPY file signature not recognized"));
    }
    let Some((fixed, rest)) = bytes.split_at_checked(SIGNATURE.len() + 8) else { return Ok(None) };
    let flags = i32::from_be_bytes(fixed[11..15].try_into().expect("four bytes"));
    if flags & !0xffff != 0 {
        return Err(malformed("unrecognized critical flags in COPY file header"));
    }
    let extension = i32::from_be_bytes(fixed[15..].try_into().expect("four bytes"));
    let extension = usize::try_from(extension)
        .map_err(|_| malformed("invalid COPY file header (wrong length)"))?;
    Ok(rest.get(extension..))
}

/// The first tuple. Errors: 22P04.
pub(super) fn tuple(bytes: &[u8]) -> Result<Tuple<'_>> {
    let Some((count, mut rest)) = bytes.split_first_chunk::<2>() else {
        return Ok(Tuple::Incomplete);
    };
    let count = i16::from_be_bytes(*count);
    if count == -1 {
        return Ok(Tuple::End);
    }
    let mut fields = Vec::new();
    for _ in 0..count {
        let Some((length, after)) = rest.split_first_chunk::<4>() else {
            return Ok(Tuple::Incomplete);
        };
        rest = after;
        let length = i32::from_be_bytes(*length);
        if length == -1 {
            fields.push(None);
            continue;
        }
        let length = usize::try_from(length).map_err(|_| malformed("invalid field size"))?;
        let Some((field, after)) = rest.split_at_checked(length) else {
            return Ok(Tuple::Incomplete);
        };
        fields.push(Some(field));
        rest = after;
    }
    Ok(Tuple::Fields(fields, rest))
}

pub(super) fn write_header(out: &mut Vec<u8>) {
    out.extend(SIGNATURE);
    out.extend([0; 8]);
}

pub(super) fn write_end(out: &mut Vec<u8>) {
    out.extend((-1i16).to_be_bytes());
}

/// Reads a value. Errors: 22P03, 22003, 22021, 22008.
pub(super) fn decode(bytes: &[u8], ty: SqlType) -> Result<Value> {
    let bad = || {
        SqlError::new(
            SqlState::INVALID_BINARY_REPRESENTATION,
            format!("incorrect binary data format for type {ty}"),
        )
    };
    fn fixed<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
        bytes.try_into().ok()
    }
    let wide = || fixed(bytes).map(i64::from_be_bytes).ok_or_else(bad);
    let far = || SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{ty} out of range"));
    let moment = || wide()?.checked_add(EPOCH_US).ok_or_else(far);
    Ok(match ty {
        SqlType::Boolean => Value::Bool(fixed::<1>(bytes).ok_or_else(bad)?[0] != 0),
        SqlType::SmallInt => Value::Int16(i16::from_be_bytes(fixed(bytes).ok_or_else(bad)?)),
        SqlType::Integer | SqlType::Oid => {
            Value::Int32(i32::from_be_bytes(fixed(bytes).ok_or_else(bad)?))
        }
        SqlType::BigInt => Value::Int64(wide()?),
        SqlType::Real => Value::Float32(f32::from_be_bytes(fixed(bytes).ok_or_else(bad)?)),
        SqlType::Double => Value::Float64(f64::from_be_bytes(fixed(bytes).ok_or_else(bad)?)),
        SqlType::Decimal { precision, scale } => {
            Value::Decimal(decode_numeric(bytes, precision, scale)?.ok_or_else(bad)?)
        }
        SqlType::Jsonb if bytes.first() != Some(&1) => {
            let version = bytes.first().copied().unwrap_or(0);
            let message = format!("unsupported jsonb version number {version}");
            return Err(SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message));
        }
        SqlType::Char(_)
        | SqlType::Varchar(_)
        | SqlType::Text
        | SqlType::Json
        | SqlType::Jsonb
        | SqlType::Enum(_) => {
            let bytes = if ty == SqlType::Jsonb { &bytes[1..] } else { bytes };
            let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
            let text = text.ok_or_else(|| {
                SqlError::new(
                    SqlState::CHARACTER_NOT_IN_REPERTOIRE,
                    "invalid byte sequence for encoding \"UTF8\"",
                )
            })?;
            halcyon_sql::coerce::parse_owned(text, ty, &halcyon_sql::coerce::TimeZone::UTC)?
        }
        SqlType::Bytea => Value::Bytes(bytes.to_vec()),
        SqlType::Date => {
            let days = i32::from_be_bytes(fixed(bytes).ok_or_else(bad)?);
            Value::Date(days.checked_add(EPOCH_DAYS).ok_or_else(far)?)
        }
        SqlType::Time => match wide()? {
            us @ 0..=DAY_US => Value::Time(us),
            _ => return Err(far()),
        },
        SqlType::Timestamp => Value::Timestamp(moment()?),
        SqlType::TimestampTz => Value::TimestampTz(moment()?),
        SqlType::Interval => {
            let bytes: [u8; 16] = fixed(bytes).ok_or_else(bad)?;
            let us = i64::from_be_bytes(bytes[..8].try_into().expect("eight bytes"));
            Value::Interval(Interval {
                nanos: us.checked_mul(1000).ok_or_else(far)?,
                days: i32::from_be_bytes(bytes[8..12].try_into().expect("four bytes")),
                months: i32::from_be_bytes(bytes[12..].try_into().expect("four bytes")),
            })
        }
        SqlType::Uuid => Value::Uuid(fixed(bytes).ok_or_else(bad)?),
        SqlType::Inet | SqlType::Cidr => {
            let is_cidr = ty == SqlType::Cidr;
            Value::Bytes(Network::of_wire(bytes, is_cidr).ok_or_else(bad)?.encode(is_cidr))
        }
        SqlType::MacAddr => Value::Bytes(fixed::<6>(bytes).ok_or_else(bad)?.to_vec()),
        SqlType::Array(element) => Value::Bytes(decode_array(bytes, element.ty())?),
    })
}

/// The bytes of an array of one dimension, as columns store them. Errors: those of [`decode`]; 0A000 for
/// several dimensions, 42804 for elements of another type.
fn decode_array(bytes: &[u8], ty: SqlType) -> Result<Vec<u8>> {
    let bad = || {
        let message = format!("incorrect binary data format for type {ty}[]");
        SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
    };
    let mut rest = bytes;
    let word = |rest: &mut &[u8]| {
        let (word, after) = rest.split_first_chunk::<4>().ok_or_else(bad)?;
        *rest = after;
        Ok::<i32, SqlError>(i32::from_be_bytes(*word))
    };
    let dimensions = word(&mut rest)?;
    word(&mut rest)?;
    let oid = word(&mut rest)? as u32;
    if oid != ty.oid() {
        let message = format!("binary data has array element type {oid} instead of expected {ty}");
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
    }
    let count = match dimensions {
        0 => 0,
        1 => {
            let count = word(&mut rest)?;
            word(&mut rest)?;
            count
        }
        _ => return Err(SqlError::unsupported("an array of several dimensions")),
    };
    let mut out = Vec::new();
    for _ in 0..count {
        let length = word(&mut rest)?;
        if length == -1 {
            array::push(&mut out, ValueRef::Null);
            continue;
        }
        let length = usize::try_from(length).map_err(|_| bad())?;
        let (element, after) = rest.split_at_checked(length).ok_or_else(bad)?;
        rest = after;
        array::push(&mut out, decode(element, ty)?.as_ref());
    }
    match rest.is_empty() {
        true => Ok(out),
        false => Err(bad()),
    }
}

/// Digits of base 10,000 to an integer with `scale` places; inner `None`: malformed.
fn decode_numeric(bytes: &[u8], precision: u8, scale: i8) -> Result<Option<i128>> {
    let word = |at: usize| {
        bytes.get(2 * at..2 * at + 2).map(|b| i16::from_be_bytes(b.try_into().expect("two bytes")))
    };
    let (Some(count), Some(weight), Some(sign), Some(_)) = (word(0), word(1), word(2), word(3))
    else {
        return Ok(None);
    };
    let too_far = || SqlError::from(ValueError::DecimalField { precision, scale });
    let negative = match sign as u16 {
        0 => false,
        0x4000 => true,
        0xc000 | 0xd000 | 0xf000 => return Err(too_far()),
        _ => return Ok(None),
    };
    if count < 0 || bytes.len() != 8 + 2 * count as usize {
        return Ok(None);
    }
    // Digit i has weight 10000^(weight - i); the last one says how many places there are.
    let (mut value, mut places) = (0i128, 0i32);
    for at in 0..count as usize {
        let Some(digit @ 0..=9999) = word(4 + at) else { return Ok(None) };
        let power = 4 * (weight as i32 - at as i32);
        // Far behind the point nothing is left but rounding, which four more places decide.
        if -power > scale as i32 + 8 {
            break;
        }
        value = value
            .checked_mul(10_000)
            .and_then(|value| value.checked_add(digit as i128))
            .ok_or_else(too_far)?;
        places = -power;
    }
    let value = match places {
        _ if value == 0 => 0,
        places if places < 0 => 10i128
            .checked_pow(places.unsigned_abs())
            .and_then(|factor| value.checked_mul(factor))
            .and_then(|value| decimal::rescale(value, 0, scale))
            .ok_or_else(too_far)?,
        places => decimal::rescale(value, places.min(127) as i8, scale).ok_or_else(too_far)?,
    };
    let value = decimal::check(if negative { -value } else { value }, precision, scale)?;
    Ok(Some(value))
}

/// Writes a value with its length.
pub(super) fn encode(value: ValueRef<'_>, ty: SqlType, out: &mut Vec<u8>) {
    let mut put = |bytes: &[u8]| {
        out.extend((bytes.len() as i32).to_be_bytes());
        out.extend(bytes);
    };
    match value {
        ValueRef::Null => out.extend((-1i32).to_be_bytes()),
        ValueRef::Bool(value) => put(&[value as u8]),
        ValueRef::Int16(value) => put(&value.to_be_bytes()),
        ValueRef::Int32(value) => put(&value.to_be_bytes()),
        ValueRef::Int64(value) if let SqlType::Enum(id) = ty => {
            put(id.definition().label(value).as_bytes());
        }
        ValueRef::Int64(value) => put(&value.to_be_bytes()),
        ValueRef::Float32(value) => put(&value.to_be_bytes()),
        ValueRef::Float64(value) => put(&value.to_be_bytes()),
        ValueRef::Decimal(value) => {
            let SqlType::Decimal { precision, scale } = ty else {
                panic!("a decimal sent as {ty}");
            };
            let (value, scale) = decimal::shown(value, precision, scale);
            put(&encode_numeric(value, scale));
        }
        ValueRef::Text(_) => {
            let mut text = String::new();
            halcyon_sql::coerce::write(value, ty, &halcyon_sql::coerce::TimeZone::UTC, &mut text);
            put(text.as_bytes());
        }
        ValueRef::Bytes(_) if ty == SqlType::Jsonb => {
            let mut text = String::from("\u{1}");
            halcyon_sql::coerce::write(value, ty, &halcyon_sql::coerce::TimeZone::UTC, &mut text);
            put(text.as_bytes());
        }
        ValueRef::Bytes(value) if let SqlType::Array(element) = ty => {
            put(&encode_array(value, element.ty()));
        }
        ValueRef::Bytes(value) if matches!(ty, SqlType::Inet | SqlType::Cidr) => {
            put(&Network::decode(value).to_wire(ty == SqlType::Cidr));
        }
        ValueRef::Bytes(value) => put(value),
        ValueRef::Date(value) => put(&(value.wrapping_sub(EPOCH_DAYS)).to_be_bytes()),
        ValueRef::Time(value) => put(&value.to_be_bytes()),
        ValueRef::Timestamp(value) | ValueRef::TimestampTz(value) => {
            put(&(value.wrapping_sub(EPOCH_US)).to_be_bytes());
        }
        ValueRef::Interval(Interval { months, days, nanos }) => {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&(nanos / 1000).to_be_bytes());
            bytes[8..12].copy_from_slice(&days.to_be_bytes());
            bytes[12..].copy_from_slice(&months.to_be_bytes());
            put(&bytes);
        }
        ValueRef::Uuid(value) => put(&value),
    }
}

/// An array of one dimension, whose subscripts begin at 1.
fn encode_array(array: &[u8], ty: SqlType) -> Vec<u8> {
    let (mut elements, mut count, mut has_null) = (Vec::new(), 0i32, false);
    let encoded: Result<()> = array::each(array, ty.storage(), |element| {
        count += 1;
        has_null |= element.is_null();
        encode(element, ty, &mut elements);
        Ok(())
    });
    encoded.expect("encoding does not fail");
    let words = [i32::from(count > 0), i32::from(has_null), ty.oid() as i32, count, 1];
    let header = if count > 0 { &words[..] } else { &words[..3] };
    let mut out: Vec<u8> = header.iter().flat_map(|word| word.to_be_bytes()).collect();
    out.append(&mut elements);
    out
}

fn encode_numeric(value: i128, scale: i8) -> Vec<u8> {
    let scale = scale.max(0) as u32;
    // Places are filled up to whole digits of base 10,000.
    let padding = (4 - scale % 4) % 4;
    let mut magnitude = value.unsigned_abs();
    let mut digits: Vec<i16> = Vec::new();
    let mut fraction_digits = (scale + padding) / 4;
    if padding > 0 {
        let unit = 10u128.pow(4 - padding);
        digits.push((magnitude % unit * 10u128.pow(padding)) as i16);
        magnitude /= unit;
    }
    while magnitude > 0 || (digits.len() as u32) < fraction_digits {
        digits.push((magnitude % 10_000) as i16);
        magnitude /= 10_000;
    }
    digits.reverse();
    let mut weight = digits.len() as i32 - fraction_digits as i32 - 1;
    let leading = digits.iter().take_while(|digit| **digit == 0).count();
    digits.drain(..leading);
    weight -= leading as i32;
    while digits.last() == Some(&0) {
        digits.pop();
        fraction_digits = fraction_digits.saturating_sub(1);
    }
    if digits.is_empty() {
        weight = 0;
    }
    let sign: u16 = if value < 0 { 0x4000 } else { 0 };
    let mut bytes = Vec::with_capacity(8 + 2 * digits.len());
    bytes.extend((digits.len() as i16).to_be_bytes());
    bytes.extend((weight as i16).to_be_bytes());
    bytes.extend(sign.to_be_bytes());
    bytes.extend((scale as i16).to_be_bytes());
    digits.iter().for_each(|digit| bytes.extend(digit.to_be_bytes()));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(value: Value, ty: SqlType) -> Result<Value> {
        let mut bytes = Vec::new();
        encode(value.as_ref(), ty, &mut bytes);
        decode(&bytes[4..], ty)
    }

    #[test]
    fn every_type_goes_through_its_binary_form() {
        let decimal = |precision, scale| SqlType::Decimal { precision, scale };
        for (value, ty) in [
            (Value::Bool(true), SqlType::Boolean),
            (Value::Int16(-5), SqlType::SmallInt),
            (Value::Int32(i32::MIN), SqlType::Integer),
            (Value::Int64(i64::MAX), SqlType::BigInt),
            (Value::Float32(1.5), SqlType::Real),
            (Value::Float64(-0.1), SqlType::Double),
            (Value::Text("naïve".into()), SqlType::Text),
            (Value::Bytes(vec![0, 255]), SqlType::Bytea),
            (Value::Date(-1), SqlType::Date),
            (Value::Time(86_399_999_999), SqlType::Time),
            (Value::Timestamp(1), SqlType::Timestamp),
            (Value::TimestampTz(-1), SqlType::TimestampTz),
            (Value::Interval(Interval { months: 1, days: -2, nanos: 3000 }), SqlType::Interval),
            (Value::Uuid([7; 16]), SqlType::Uuid),
            (Value::Decimal(0), decimal(10, 2)),
            (Value::Decimal(12345), decimal(10, 2)),
            (Value::Decimal(-1), decimal(10, 5)),
            (Value::Decimal(10_000_000), decimal(10, 0)),
            (Value::Decimal(100_000_000_000), decimal(20, 4)),
            (Value::Decimal(10i128.pow(37)), decimal(38, 10)),
            (Value::Decimal(10i128.pow(38) - 1), decimal(38, 0)),
        ] {
            assert_eq!(through(value.clone(), ty).ok(), Some(value), "{ty}");
        }
    }

    #[test]
    fn malformed_binary_is_refused() {
        let state = |bytes: &[u8], ty| decode(bytes, ty).unwrap_err().state();
        assert_eq!(state(&[1], SqlType::Integer), SqlState::INVALID_BINARY_REPRESENTATION);
        assert_eq!(state(&[0xff], SqlType::Text), SqlState::CHARACTER_NOT_IN_REPERTOIRE);
        assert_eq!(
            state(&i64::MAX.to_be_bytes(), SqlType::Timestamp),
            SqlState::DATETIME_FIELD_OVERFLOW
        );
        let numeric = SqlType::Decimal { precision: 5, scale: 2 };
        assert_eq!(state(&[0; 7], numeric), SqlState::INVALID_BINARY_REPRESENTATION);
        let nan = [0, 0, 0, 0, 0xc0, 0, 0, 0];
        assert_eq!(state(&nan, numeric), SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
        assert!(header(b"PGCOPX").is_err());
        assert!(header(b"PGCOPY").is_ok_and(|rest| rest.is_none()));
        assert!(matches!(tuple(&[0]), Ok(Tuple::Incomplete)));
        assert!(tuple(&[0, 1, 0xff, 0xff, 0xff, 0xfe]).is_err());
    }

    fn array_of(elements: &[ValueRef<'_>]) -> Value {
        let mut bytes = Vec::new();
        elements.iter().for_each(|element| array::push(&mut bytes, *element));
        Value::Bytes(bytes)
    }

    fn arrays() -> [(Value, SqlType); 5] {
        let ty = |of: SqlType| of.array_of().expect("an array");
        [
            (array_of(&[]), ty(SqlType::Text)),
            (array_of(&[ValueRef::Text("a"), ValueRef::Null]), ty(SqlType::Varchar(Some(3)))),
            (array_of(&[ValueRef::Int32(7), ValueRef::Int32(-1)]), ty(SqlType::Integer)),
            (
                array_of(&[ValueRef::Decimal(-125), ValueRef::Null]),
                ty(SqlType::Decimal { precision: 9, scale: 2 }),
            ),
            (array_of(&[ValueRef::Bytes(&[0, 255, 0])]), ty(SqlType::Bytea)),
        ]
    }

    #[test]
    fn arrays_go_through_their_binary_form() {
        for (value, ty) in arrays() {
            assert_eq!(through(value.clone(), ty).ok(), Some(value), "{ty}");
        }
        // {1,NULL} as PostgreSQL sends it.
        let integers = SqlType::Integer.array_of().expect("an array");
        let mut sent = Vec::new();
        let pair = array_of(&[ValueRef::Int32(1), ValueRef::Null]);
        encode(pair.as_ref(), integers, &mut sent);
        let words = [32i32, 1, 1, 23, 2, 1, 4, 1, -1].map(i32::to_be_bytes).concat();
        assert_eq!(sent, words);
        let texts = SqlType::Text.array_of().expect("an array");
        let state = |bytes: &[u8], ty| decode(bytes, ty).map_err(|error| error.state());
        assert_eq!(state(&sent[4..], texts), Err(SqlState::DATATYPE_MISMATCH));
        let matrix = [2i32, 0, 23, 1, 1, 1, 1, 4, 1].map(i32::to_be_bytes).concat();
        assert_eq!(state(&matrix, integers), Err(SqlState::FEATURE_NOT_SUPPORTED));
    }

    #[test]
    fn changed_bytes_are_an_array_or_refused() {
        let mut rng = halcyon_base::rng::Rng::new(20_261_124);
        for _ in 0..20_000 {
            for (value, ty) in arrays() {
                let mut bytes = Vec::new();
                encode(value.as_ref(), ty, &mut bytes);
                let mut bytes = bytes.split_off(4);
                for _ in 0..=rng.next_u64() % 3 {
                    let at = (rng.next_u64() % bytes.len() as u64) as usize;
                    match rng.next_u64() % 3 {
                        0 => bytes[at] = rng.next_u64() as u8,
                        1 => bytes.truncate(at.max(1)),
                        _ => bytes.insert(at, rng.next_u64() as u8),
                    }
                }
                if let Ok(decoded) = decode(&bytes, ty) {
                    assert_eq!(through(decoded.clone(), ty).ok(), Some(decoded), "{ty} {bytes:?}");
                }
            }
        }
    }

    /// A NUMERIC without digits as PostgreSQL 15 sends 9.99 and 100; one with digits keeps its places.
    #[test]
    fn numerics_without_digits_have_those_of_each_value() {
        let sent = |value, ty| {
            let mut out = Vec::new();
            encode(ValueRef::Decimal(value), ty, &mut out);
            out[4..].to_vec()
        };
        let free = SqlType::UNCONSTRAINED;
        assert_eq!(sent(99_900_000_000, free), [0, 2, 0, 0, 0, 0, 0, 2, 0, 9, 0x26, 0xac]);
        assert_eq!(sent(1_000_000_000_000, free), [0, 1, 0, 0, 0, 0, 0, 0, 0, 100]);
        assert_eq!(sent(0, free), [0; 8]);
        let two = SqlType::Decimal { precision: 12, scale: 2 };
        assert_eq!(sent(10_000, two), [0, 1, 0, 0, 0, 0, 0, 2, 0, 100]);
    }

    /// 123.45 as PostgreSQL 17 sends it.
    #[test]
    fn numerics_have_postgresqls_bytes() {
        assert_eq!(encode_numeric(12345, 2), [0, 2, 0, 0, 0, 0, 0, 2, 0, 123, 0x11, 0x94]);
    }
}
