//! Values as text and text as values, in PostgreSQL's formats; assignment and explicit casts.
//!
//! COPY, the wire's text format, literals, scalar casts and every stored value come through here,
//! so that there is one opinion on how a type is spelled: `halcyon_value`'s. Here are the types that
//! columns have, and which conversion they ask for.
//!
//! Three strengths of conversion: *assignment* (what INSERT and UPDATE may do by themselves),
//! *explicit* (what CAST may do), *input* (text that a client typed, read by the type's own rules).
//! Cost: fixed-width values allocate nothing; a string that a conversion makes lives in [`Arena`].

pub mod arrays;
pub mod nested;
pub mod zone;

use std::fmt::Write;

use halcyon_json::{Kind, Node};
use halcyon_store::{Value, ValueRef};
use halcyon_value::cast::{MomentType, NumberType};
use halcyon_value::integer::Width;
use halcyon_value::network::{self, Network};
use halcyon_value::{array, datetime, decimal, float, integer, interval, spelling, text};

/// Keeps the strings that conversions make; the same kind that expressions use.
pub use bumpalo::Bump as Arena;
pub use zone::TimeZone;

use crate::error::{Result, SqlError, SqlState};
use crate::types::SqlType;

/// Reads `text` as a value of `ty`, by the rules of PostgreSQL's input functions.
///
/// Errors: 22P02, 22003, 22007, 22008, 22015, 22001.
pub fn parse<'a>(
    text: &'a str,
    ty: SqlType,
    zone: &TimeZone,
    arena: &'a Arena,
) -> Result<ValueRef<'a>> {
    let bytes = |bytes: Vec<u8>| ValueRef::Bytes(arena.alloc_slice_copy(&bytes));
    Ok(match ty {
        SqlType::Boolean => ValueRef::Bool(spelling::parse_bool(text)?),
        SqlType::SmallInt => Width::SmallInt.value(integer::parse(text, Width::SmallInt)?)?,
        SqlType::Integer => Width::Integer.value(integer::parse(text, Width::Integer)?)?,
        // The upper half of the object ids lies in the negative numbers.
        SqlType::Oid => match text.trim().parse::<u32>() {
            Ok(oid) => ValueRef::Int32(oid as i32),
            Err(_) => Width::Integer.value(integer::parse(text, Width::Integer)?)?,
        },
        SqlType::BigInt => ValueRef::Int64(integer::parse(text, Width::BigInt)?),
        SqlType::Real => ValueRef::Float32(float::parse_single(text)?),
        SqlType::Double => ValueRef::Float64(float::parse(text)?),
        SqlType::Decimal { precision, scale } => {
            ValueRef::Decimal(decimal::parse(text, precision, scale)?)
        }
        SqlType::Char(_) | SqlType::Varchar(_) | SqlType::Text => {
            ValueRef::Text(fit_text(text, ty)?)
        }
        SqlType::Bytea => ValueRef::Bytes(arena.alloc_slice_copy(&spelling::parse_bytes(text)?)),
        SqlType::Date => ValueRef::Date(datetime::parse_date::<TimeZone>(text)?),
        SqlType::Time => ValueRef::Time(datetime::parse_time::<TimeZone>(text)?),
        SqlType::Timestamp => ValueRef::Timestamp(datetime::parse_timestamp::<TimeZone>(text)?),
        SqlType::TimestampTz => ValueRef::TimestampTz(datetime::parse_timestamptz(text, *zone)?),
        SqlType::Interval => ValueRef::Interval(interval::parse(text)?),
        SqlType::Uuid => ValueRef::Uuid(spelling::parse_uuid(text)?),
        SqlType::Json => {
            halcyon_json::parse::check(text)?;
            ValueRef::Text(text)
        }
        SqlType::Jsonb => {
            ValueRef::Bytes(arena.alloc_slice_copy(&halcyon_json::parse::tree(text)?.encode()))
        }
        SqlType::Array(element) => {
            ValueRef::Bytes(arena.alloc_slice_copy(&arrays::encode(text, element, zone)?))
        }
        SqlType::Enum(id) => ValueRef::Int64(id.definition().position(text)?),
        SqlType::Inet => bytes(network::parse_inet(text)?.encode(false)),
        SqlType::Cidr => bytes(network::parse_cidr(text)?.encode(true)),
        SqlType::MacAddr => bytes(network::parse_macaddr(text)?.to_vec()),
    })
}

/// As [`parse`], into a value of its own.
pub fn parse_owned(text: &str, ty: SqlType, zone: &TimeZone) -> Result<Value> {
    parse(text, ty, zone, &Arena::new()).map(|value| value.to_owned())
}

/// Writes a value as the wire and COPY show it; NULL writes nothing.
///
/// Panics: if the value is not of `ty`'s storage; the plan is broken then.
pub fn write(value: ValueRef<'_>, ty: SqlType, zone: &TimeZone, out: &mut String) {
    let display = match (value, ty) {
        (ValueRef::Null, _) => return,
        (ValueRef::Bool(value), _) => return out.push(if value { 't' } else { 'f' }),
        (ValueRef::Int16(value), _) => write!(out, "{value}"),
        (ValueRef::Int32(value), _) => write!(out, "{value}"),
        (ValueRef::Int64(value), SqlType::Enum(id)) => {
            return out.push_str(id.definition().label(value));
        }
        (ValueRef::Int64(value), _) => write!(out, "{value}"),
        (ValueRef::Float32(value), _) => return float::write_single(value, out),
        (ValueRef::Float64(value), _) => return float::write(value, out),
        (ValueRef::Decimal(value), SqlType::Decimal { precision, scale }) => {
            return decimal::show(value, precision, scale, out);
        }
        (ValueRef::Text(value), SqlType::Char(Some(length))) => {
            out.push_str(value);
            return (0..text::padding(value, length)).for_each(|_| out.push(' '));
        }
        (ValueRef::Text(value), _) => return out.push_str(value),
        (ValueRef::Bytes(value), SqlType::Jsonb) => return Node::new(value).write(out),
        (ValueRef::Bytes(value), SqlType::Array(element)) => {
            return arrays::write(value, element, zone, out);
        }
        (ValueRef::Bytes(value), SqlType::Inet | SqlType::Cidr) => {
            return Network::decode(value).write(ty == SqlType::Cidr, out);
        }
        (ValueRef::Bytes(value), SqlType::MacAddr) => return network::write_macaddr(value, out),
        (ValueRef::Bytes(value), _) => return spelling::write_bytes(value, out),
        (ValueRef::Date(value), _) => return datetime::write_date(value, out),
        (ValueRef::Time(value), _) => return datetime::write_time(value, out),
        (ValueRef::Timestamp(value), _) => return datetime::write_timestamp(value, out),
        (ValueRef::TimestampTz(value), _) => {
            return datetime::write_timestamptz(value, *zone, out);
        }
        (ValueRef::Interval(value), _) => return interval::write(value, out),
        (ValueRef::Uuid(value), _) => return spelling::write_uuid(&value, out),
        (ValueRef::Decimal(_), other) => panic!("a decimal shown as {other}"),
    };
    display.expect("a string takes everything");
}

/// A value as text of its own, as the wire shows it.
pub fn to_text(value: ValueRef<'_>, ty: SqlType, zone: &TimeZone) -> String {
    let mut out = String::new();
    write(value, ty, zone, &mut out);
    out
}

/// Whether INSERT and UPDATE convert `from` to `to` by themselves.
pub fn assignable(from: SqlType, to: SqlType) -> bool {
    use SqlType::*;
    match (from, to) {
        (_, Char(_) | Varchar(_) | Text) => true,
        (from, to) if is_number(from) && is_number(to) => true,
        (Date, Timestamp | TimestampTz) => true,
        (Timestamp, Date | Time | TimestampTz) => true,
        (TimestampTz, Date | Time | Timestamp) => true,
        (Time, Interval) | (Interval, Time) => true,
        (Json, Jsonb) | (Jsonb, Json) => true,
        (Inet, Cidr) | (Cidr, Inet) => true,
        (Array(from), Array(to)) => assignable(from.ty(), to.ty()),
        (from, to) => from.arrow() == to.arrow(),
    }
}

/// Whether CAST converts `from` to `to`.
pub fn castable(from: SqlType, to: SqlType) -> bool {
    use SqlType::*;
    assignable(from, to)
        || is_text(from)
        || matches!((from, to), (Array(from), Array(to)) if castable(from.ty(), to.ty()))
        || (from == Jsonb && (is_number(to) || to == Boolean))
        || matches!((from, to), (Boolean, Integer) | (Integer, Boolean))
}

/// The width of an integer type.
fn width(ty: SqlType) -> Option<Width> {
    match ty {
        SqlType::SmallInt => Some(Width::SmallInt),
        SqlType::Integer | SqlType::Oid => Some(Width::Integer),
        SqlType::BigInt => Some(Width::BigInt),
        _ => None,
    }
}

/// A type of numbers, as conversions between them see it.
fn number_type(ty: SqlType) -> Option<NumberType> {
    match ty {
        SqlType::Real => Some(NumberType::Real),
        SqlType::Double => Some(NumberType::Double),
        SqlType::Decimal { precision, scale } => Some(NumberType::Decimal { precision, scale }),
        other => width(other).map(NumberType::Integer),
    }
}

/// A type of moments, as conversions between them see it.
fn moment_type(ty: SqlType) -> Option<MomentType> {
    Some(match ty {
        SqlType::Date => MomentType::Date,
        SqlType::Time => MomentType::Time,
        SqlType::Timestamp => MomentType::Timestamp,
        SqlType::TimestampTz => MomentType::TimestampTz,
        SqlType::Interval => MomentType::Interval,
        _ => return None,
    })
}

fn is_number(ty: SqlType) -> bool {
    number_type(ty).is_some()
}

/// An integer as a value of an integer type; `None` if it does not fit or `ty` is no integer.
pub fn fit_integer(value: i64, ty: SqlType) -> Option<ValueRef<'static>> {
    width(ty)?.value(value).ok()
}

fn is_text(ty: SqlType) -> bool {
    matches!(ty, SqlType::Char(_) | SqlType::Varchar(_) | SqlType::Text)
}

/// Converts a value on its way into a column.
///
/// Errors: 22003, 22008, 22001; 42804 if the types do not fit (the planner should have said so).
pub fn assign<'a>(
    value: ValueRef<'a>,
    from: SqlType,
    to: SqlType,
    zone: &TimeZone,
    arena: &'a Arena,
) -> Result<ValueRef<'a>> {
    convert(value, from, to, zone, arena, false)
}

/// Converts a value as CAST does: text is read, too long strings are cut.
///
/// Errors: as [`parse`] and [`assign`]; 42846 if there is no such cast.
pub fn cast<'a>(
    value: ValueRef<'a>,
    from: SqlType,
    to: SqlType,
    zone: &TimeZone,
    arena: &'a Arena,
) -> Result<ValueRef<'a>> {
    convert(value, from, to, zone, arena, true)
}

fn convert<'a>(
    value: ValueRef<'a>,
    from: SqlType,
    to: SqlType,
    zone: &TimeZone,
    arena: &'a Arena,
    explicit: bool,
) -> Result<ValueRef<'a>> {
    Ok(match (value, to) {
        (ValueRef::Null, _) => ValueRef::Null,
        (value, to) if from == to && from.element().is_some() => value,
        (ValueRef::Bytes(bytes), SqlType::Array(to)) if let SqlType::Array(from) = from => {
            let (from, to, mut out) = (from.ty(), to.ty(), Vec::new());
            array::each(bytes, from.storage(), |element| {
                let scratch = Arena::new();
                array::push(&mut out, convert(element, from, to, zone, &scratch, explicit)?);
                Ok::<(), SqlError>(())
            })?;
            ValueRef::Bytes(arena.alloc_slice_copy(&out))
        }
        (ValueRef::Text(text), to) if from != to && matches!(to, SqlType::Jsonb) => {
            parse(text, to, zone, arena)?
        }
        (ValueRef::Bytes(bytes), SqlType::Json) if from == SqlType::Jsonb => {
            ValueRef::Text(arena.alloc_str(&Node::new(bytes).text()))
        }
        (ValueRef::Bytes(bytes), to) if from == SqlType::Jsonb && !is_text(to) && to != from => {
            of_document(Node::new(bytes), to, zone, arena)?
        }
        (ValueRef::Text(text), to) if is_text(to) => {
            ValueRef::Text(if explicit { cut_text(text, to) } else { fit_text(text, to)? })
        }
        (value, to) if is_text(to) => {
            let text = match value {
                ValueRef::Bool(value) => value.to_string(),
                // A cast tells the length of the network, as does `text`; the type's own output need not.
                ValueRef::Bytes(value) if from == SqlType::Inet => {
                    let mut text = String::new();
                    Network::decode(value).write(true, &mut text);
                    text
                }
                value => to_text(value, from, zone),
            };
            let text = if explicit { cut_text(&text, to) } else { fit_text(&text, to)? };
            ValueRef::Text(arena.alloc_str(text))
        }
        (ValueRef::Bytes(value), SqlType::Cidr) if from == SqlType::Inet => {
            let network = Network::decode(value).network();
            ValueRef::Bytes(arena.alloc_slice_copy(&network.encode(true)))
        }
        (ValueRef::Bytes(value), SqlType::Inet) if from == SqlType::Cidr => {
            ValueRef::Bytes(arena.alloc_slice_copy(&Network::decode(value).encode(false)))
        }
        (ValueRef::Text(text), to) if explicit => parse(text, to, zone, arena)?,
        (value, to) if is_number(from) && is_number(to) => {
            let to = number_type(to).ok_or_else(|| mismatch(from, to))?;
            halcyon_value::cast::number(value, scale_of(from), to)?
        }
        (ValueRef::Bool(value), SqlType::Integer) if explicit => ValueRef::Int32(value as i32),
        (ValueRef::Int32(value), SqlType::Boolean) if explicit => ValueRef::Bool(value != 0),
        (value, to) if from.arrow() == to.arrow() => value,
        (value, to) => {
            let target = moment_type(to).ok_or_else(|| mismatch(from, to))?;
            let moment = halcyon_value::cast::moment(value, target, *zone)?;
            moment.ok_or_else(|| mismatch(from, to))?
        }
    })
}

/// A document as a number or a truth value. Errors: 22023 if it is of another kind.
fn of_document<'a>(
    document: Node<'_>,
    to: SqlType,
    zone: &TimeZone,
    arena: &'a Arena,
) -> Result<ValueRef<'a>> {
    if let (Some(value), SqlType::Boolean) = (document.boolean(), to) {
        return Ok(ValueRef::Bool(value));
    }
    if let (Some(number), true) = (document.number(), is_number(to)) {
        let digits: &str = arena.alloc_str(&number.to_string());
        return match width(to) {
            // Whole numbers are rounded, as a numeric is.
            Some(_) => {
                let exact = SqlType::Decimal { precision: 38, scale: 18 };
                let value = match digits.contains('.') {
                    true => parse(digits, exact, zone, arena)?,
                    false => return parse(digits, to, zone, arena),
                };
                convert(value, exact, to, zone, arena, true)
            }
            None => parse(digits, to, zone, arena),
        };
    }
    let kind = match document.kind() {
        Kind::Number => "numeric",
        other => other.name(),
    };
    let name = match to {
        SqlType::Decimal { .. } => "numeric".to_owned(),
        other => other.to_string(),
    };
    let message = format!("cannot cast jsonb {kind} to type {name}");
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

/// Digits behind the point; none of what is no decimal.
fn scale_of(ty: SqlType) -> i8 {
    match ty {
        SqlType::Decimal { scale, .. } => scale,
        _ => 0,
    }
}

fn mismatch(from: SqlType, to: SqlType) -> SqlError {
    SqlError::new(SqlState::CANNOT_COERCE, format!("cannot cast type {from} to {to}"))
}

/// The text as a column of `ty` keeps it; blanks beyond the length are cut, all of them for CHAR.
///
/// Errors: 22001.
pub fn fit_text(text: &str, ty: SqlType) -> Result<&str> {
    let fitted = match ty {
        // Without a length, BPCHAR takes all but blanks at the end.
        SqlType::Char(length) => text::fit(text, length.unwrap_or(u32::MAX), true),
        SqlType::Varchar(Some(length)) => text::fit(text, length, false),
        _ => return Ok(text),
    };
    fitted.ok_or_else(|| {
        SqlError::new(
            SqlState::STRING_DATA_RIGHT_TRUNCATION,
            format!("value too long for type {ty}"),
        )
    })
}

/// The text cut to the length of `ty`, as an explicit cast does.
fn cut_text(text: &str, ty: SqlType) -> &str {
    match ty {
        SqlType::Char(length) => text::cut(text, length.unwrap_or(u32::MAX), true),
        SqlType::Varchar(Some(length)) => text::cut(text, length, false),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon_base::rng::Rng;
    use halcyon_store::Interval;
    use halcyon_value::calendar::DAY_US;

    #[test]
    fn strings_lose_only_blanks_on_assignment_and_anything_in_a_cast() {
        let varchar = SqlType::Varchar(Some(3));
        assert_eq!(fit_text("abc", varchar).ok(), Some("abc"));
        assert_eq!(fit_text("abc  ", varchar).ok(), Some("abc"));
        assert_eq!(fit_text("ab  ", varchar).ok(), Some("ab "));
        assert_eq!(fit_text("äöü", varchar).ok(), Some("äöü"));
        let error = fit_text("abcd", varchar).unwrap_err();
        assert_eq!(error.state(), SqlState::STRING_DATA_RIGHT_TRUNCATION);
        assert_eq!(error.message(), "value too long for type character varying(3)");
        assert_eq!(fit_text("ab   ", SqlType::Char(Some(3))).ok(), Some("ab"));
        assert_eq!(cut_text("äöüx", varchar), "äöü");
        assert_eq!(cut_text("a bc", SqlType::Char(Some(2))), "a");
        assert_eq!(to_text(ValueRef::Text("ab"), SqlType::Char(Some(4)), &TimeZone::UTC), "ab  ");
    }

    #[test]
    fn assignment_casts_check_their_range() {
        let arena = Arena::new();
        let zone = TimeZone::UTC;
        let decimal = |precision, scale| SqlType::Decimal { precision, scale };
        let assign = |value, from, to| {
            super::assign(value, from, to, &zone, &arena).map_err(|error| error.state())
        };
        let far = Err(SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
        let (int, small) = (SqlType::Integer, SqlType::SmallInt);
        assert_eq!(assign(ValueRef::Int32(7), int, small), Ok(ValueRef::Int16(7)));
        assert_eq!(assign(ValueRef::Int32(40000), int, small), far);
        assert_eq!(assign(ValueRef::Float64(2.5), SqlType::Double, int), Ok(ValueRef::Int32(2)));
        assert_eq!(assign(ValueRef::Float64(3e9), SqlType::Double, int), far);
        assert_eq!(assign(ValueRef::Float64(f64::NAN), SqlType::Double, int), far);
        assert_eq!(assign(ValueRef::Float64(1e39), SqlType::Double, SqlType::Real), far);
        assert_eq!(assign(ValueRef::Decimal(25), decimal(5, 1), int), Ok(ValueRef::Int32(3)));
        assert_eq!(
            assign(ValueRef::Float64(0.1), SqlType::Double, decimal(5, 3)),
            Ok(ValueRef::Decimal(100))
        );
        assert_eq!(
            assign(ValueRef::Float32(0.1), SqlType::Real, decimal(9, 8)),
            Ok(ValueRef::Decimal(10_000_000))
        );
        assert_eq!(assign(ValueRef::Int32(1000), int, decimal(5, 2)), far);
        assert_eq!(
            assign(ValueRef::Decimal(12345), decimal(5, 2), SqlType::Double),
            Ok(ValueRef::Float64(123.45))
        );
        assert_eq!(
            assign(ValueRef::Date(1), SqlType::Date, SqlType::Timestamp),
            Ok(ValueRef::Timestamp(DAY_US))
        );
        assert_eq!(
            assign(ValueRef::Timestamp(-1), SqlType::Timestamp, SqlType::Date),
            Ok(ValueRef::Date(-1))
        );
        assert_eq!(
            assign(ValueRef::Bool(true), SqlType::Boolean, SqlType::Text),
            Ok(ValueRef::Text("true"))
        );
        assert_eq!(
            assign(ValueRef::Bool(true), SqlType::Boolean, int),
            Err(SqlState::CANNOT_COERCE)
        );
        assert_eq!(
            assign(ValueRef::Date(i32::MAX), SqlType::Date, SqlType::Timestamp),
            Err(SqlState::DATETIME_FIELD_OVERFLOW)
        );
        let cast = super::cast(ValueRef::Bool(true), SqlType::Boolean, int, &zone, &arena);
        assert_eq!(cast.ok(), Some(ValueRef::Int32(1)));
        let cast = super::cast(ValueRef::Text(" 12 "), SqlType::Text, int, &zone, &arena);
        assert_eq!(cast.ok(), Some(ValueRef::Int32(12)));
        for (from, to, assigns, casts) in [
            (SqlType::Text, int, false, true),
            (int, SqlType::Text, true, true),
            (SqlType::Boolean, int, false, true),
            (SqlType::Boolean, SqlType::Date, false, false),
            (small, decimal(3, 0), true, true),
            (SqlType::Uuid, SqlType::Bytea, false, false),
        ] {
            assert_eq!((assignable(from, to), castable(from, to)), (assigns, casts), "{from} {to}");
        }
    }

    /// Strategy: values over the whole range of each type, with many near zero and the ends;
    /// invariant: text → value gives back what value → text was given.
    #[test]
    fn every_value_reads_back_from_its_text() {
        let mut rng = Rng::new(7);
        let zones = ["UTC", "Europe/Berlin", "+05:30", "America/New_York"]
            .map(|zone| TimeZone::parse(zone).expect("a zone"));
        for round in 0..20_000 {
            let zone = zones[round % zones.len()];
            let bits = rng.next_u64() >> (rng.next_u64() % 64);
            let signed = bits as i64;
            let us = signed % 200_000_000_000_000_000;
            let interval = Interval {
                months: signed as i32 % 100_000,
                days: (signed >> 20) as i32 % 100_000,
                nanos: us / 1000 * 1000,
            };
            let cases = [
                (Value::Bool(signed % 2 == 0), SqlType::Boolean),
                (Value::Int16(signed as i16), SqlType::SmallInt),
                (Value::Int32(signed as i32), SqlType::Integer),
                (Value::Int64(signed), SqlType::BigInt),
                (Value::Float32(f32::from_bits(bits as u32)), SqlType::Real),
                (Value::Float64(f64::from_bits(bits)), SqlType::Double),
                (
                    Value::Decimal(signed as i128 * 1_000_003),
                    SqlType::Decimal { precision: 38, scale: (bits % 30) as i8 },
                ),
                (Value::Bytes(bits.to_be_bytes().to_vec()), SqlType::Bytea),
                (Value::Date(signed as i32 % 2_400_000), SqlType::Date),
                (Value::Time(us.rem_euclid(DAY_US)), SqlType::Time),
                (Value::Timestamp(us / 2), SqlType::Timestamp),
                // Whole hours of the year 2020 in winter: no local time there is ambiguous.
                (
                    Value::TimestampTz(1_577_836_800_000_000 + us.rem_euclid(5_000_000_000_000)),
                    SqlType::TimestampTz,
                ),
                (Value::Interval(interval), SqlType::Interval),
                (Value::Uuid((bits as u128 * 0x1_0000_0001_0001).to_be_bytes()), SqlType::Uuid),
            ];
            for (value, ty) in cases {
                let text = to_text(value.as_ref(), ty, &zone);
                let back = parse_owned(&text, ty, &zone);
                let same = match (&value, &back) {
                    (Value::Float32(a), Ok(Value::Float32(b))) => {
                        a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
                    }
                    (Value::Float64(a), Ok(Value::Float64(b))) => {
                        a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
                    }
                    (a, Ok(b)) => a == b,
                    _ => false,
                };
                assert!(same, "{value:?} as {ty} is {text:?} and reads back as {back:?}");
            }
        }
    }
}
