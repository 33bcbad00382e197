//! Encodes rows, one DataRow message each.

use bytes::{BufMut, BytesMut};
use halcyon::{Interval, ResultColumn, Shape, SqlType, TextFormat, ValueRef, arrays};
use halcyon_value::decimal;
use halcyon_value::network::{self, Network};

use super::{EPOCH_DAYS, EPOCH_US, Format, numeric};

/// An encoder of one result's rows, with all that is known before the first row.
pub struct RowEncoder {
    columns: Vec<Column>,
    text_format: TextFormat,
    text: String,
}

/// The properties of a column that decide how it is encoded.
#[derive(Clone, Copy)]
struct Column {
    shape: Shape,
    format: Format,
}

impl RowEncoder {
    /// An encoder for rows of `columns`; `text_format` makes the text of columns that are sent so.
    pub fn new(columns: &[ResultColumn], formats: &[Format], text_format: TextFormat) -> Self {
        let column = |(at, column): (usize, &ResultColumn)| Column {
            shape: column.client_type().shape,
            format: Format::of(formats, at),
        };
        let columns = columns.iter().enumerate().map(column).collect();
        RowEncoder { columns, text_format, text: String::new() }
    }

    /// Appends one row.
    pub fn row<'a>(&mut self, out: &mut BytesMut, value: impl Fn(usize) -> ValueRef<'a>) {
        out.put_u8(b'D');
        let start = out.len();
        out.put_u32(0);
        out.put_u16(self.columns.len() as u16);
        for at in 0..self.columns.len() {
            self.value(out, self.columns[at], value(at));
        }
        let length = (out.len() - start) as u32;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// Appends length and bytes of a value; -1 stands for NULL.
    fn value(&mut self, out: &mut BytesMut, column: Column, value: ValueRef<'_>) {
        if matches!(value, ValueRef::Null) {
            return out.put_i32(-1);
        }
        let start = out.len();
        out.put_u32(0);
        match (column.format, column.shape, value) {
            (Format::Text, Shape::Vector { .. }, ValueRef::Text(text)) => put_vector(out, text),
            (Format::Text, Shape::Value(ty), value) => self.text(out, ty, value),
            (Format::Text, _, value) => self.text(out, SqlType::Text, value),
            (Format::Binary, Shape::Value(ty), value) => binary(out, ty, value),
            (Format::Binary, shape, ValueRef::Text(text)) => put_shaped(out, shape, text),
            (Format::Binary, _, value) => binary(out, SqlType::Text, value),
        }
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    fn text(&mut self, out: &mut BytesMut, ty: SqlType, value: ValueRef<'_>) {
        match value {
            ValueRef::Text(text) => put_text(out, ty, text),
            ValueRef::Bool(value) => out.put_u8(if value { b't' } else { b'f' }),
            ValueRef::Bytes(bytes) => put_hex(out, bytes),
            ValueRef::Null => {}
            other => {
                self.text.clear();
                self.text_format.write(other, ty, &mut self.text);
                out.put_slice(self.text.as_bytes());
            }
        }
    }
}

/// Writes an array's text `{1,2}` as vectors are written: `1 2`.
fn put_vector(out: &mut BytesMut, text: &str) {
    let inner = text.trim_start_matches('{').trim_end_matches('}');
    inner.bytes().for_each(|byte| out.put_u8(if byte == b',' { b' ' } else { byte }));
}

/// Writes the binary form of a value that the engine gives as text although it is none.
fn put_shaped(out: &mut BytesMut, shape: Shape, text: &str) {
    match shape {
        Shape::Array { element, element_oid } => {
            let elements = arrays::parse(text).unwrap_or_default();
            put_array(out, &elements, (element, element_oid), 1);
        }
        Shape::Vector { element, element_oid } => {
            let inner = text.trim_start_matches('{').trim_end_matches('}');
            let elements = inner.split([',', ' ']).filter(|element| !element.is_empty());
            let elements: Vec<_> = elements.map(|element| Some(element.to_owned())).collect();
            put_array(out, &elements, (element, element_oid), 0);
        }
        Shape::Function => out.put_u32(halcyon::function_oid(text)),
        Shape::Place => {
            let inner = text.trim_start_matches('(').trim_end_matches(')');
            let (block, offset) = inner.split_once(',').unwrap_or_default();
            out.put_u32(block.parse().unwrap_or_default());
            out.put_u16(offset.parse().unwrap_or_default());
        }
        Shape::Letter => out.put_u8(text.bytes().next().unwrap_or(0)),
        Shape::Value(_) => out.put_slice(text.as_bytes()),
    }
}

/// Writes a one-dimensional array whose subscripts begin at `lower`. An element that is no value of
/// its type, which no statement gives, is sent as NULL.
fn put_array(
    out: &mut BytesMut,
    elements: &[Option<String>],
    (element, oid): (SqlType, u32),
    lower: i32,
) {
    out.put_i32(i32::from(!elements.is_empty()));
    out.put_i32(i32::from(elements.iter().any(Option::is_none)));
    out.put_u32(oid);
    if elements.is_empty() {
        return;
    }
    out.put_i32(elements.len() as i32);
    out.put_i32(lower);
    for text in elements {
        let value = text.as_deref().and_then(|text| arrays::element(text, element).ok());
        let Some(value) = value else {
            out.put_i32(-1);
            continue;
        };
        let start = out.len();
        out.put_u32(0);
        binary(out, element, value.as_ref());
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
}

/// Writes a text. CHARACTER(n) is stored without its trailing blanks and sent with them.
fn put_text(out: &mut BytesMut, ty: SqlType, text: &str) {
    out.put_slice(text.as_bytes());
    if let SqlType::Char(length) = ty {
        let missing = (length.unwrap_or(0) as usize).saturating_sub(text.chars().count());
        out.put_bytes(b' ', missing);
    }
}

fn put_hex(out: &mut BytesMut, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.reserve(2 + 2 * bytes.len());
    out.put_slice(b"\\x");
    for byte in bytes {
        out.put_u8(DIGITS[usize::from(byte >> 4)]);
        out.put_u8(DIGITS[usize::from(byte & 15)]);
    }
}

fn binary(out: &mut BytesMut, ty: SqlType, value: ValueRef<'_>) {
    match value {
        ValueRef::Null => {}
        ValueRef::Bool(value) => out.put_u8(value.into()),
        ValueRef::Int16(value) => out.put_i16(value),
        ValueRef::Int32(value) => out.put_i32(value),
        ValueRef::Int64(position) if let SqlType::Enum(id) = ty => {
            out.put_slice(id.definition().label(position).as_bytes());
        }
        ValueRef::Int64(value) => out.put_i64(value),
        ValueRef::Float32(value) => out.put_f32(value),
        ValueRef::Float64(value) => out.put_f64(value),
        ValueRef::Decimal(value) => {
            let (precision, scale) = digits(ty);
            let (value, scale) = decimal::shown(value, precision, scale);
            numeric::write(value, scale, out);
        }
        ValueRef::Text(text) if ty == SqlType::Jsonb => {
            out.put_u8(1);
            out.put_slice(text.as_bytes());
        }
        ValueRef::Text(text) if ty.is_address() => out.put_slice(&address(text, ty)),
        ValueRef::Text(text) => put_text(out, ty, text),
        // An element of an array, as segments have it.
        ValueRef::Bytes(bytes) if matches!(ty, SqlType::Inet | SqlType::Cidr) => {
            out.put_slice(&Network::decode(bytes).to_wire(ty == SqlType::Cidr));
        }
        ValueRef::Bytes(bytes) => out.put_slice(bytes),
        ValueRef::Date(days) => out.put_i32(days.saturating_sub(EPOCH_DAYS)),
        ValueRef::Time(us) => out.put_i64(us),
        ValueRef::Timestamp(us) | ValueRef::TimestampTz(us) => {
            out.put_i64(us.saturating_sub(EPOCH_US));
        }
        ValueRef::Interval(Interval { months, days, nanos }) => {
            out.put_i64(nanos / 1_000);
            out.put_i32(days);
            out.put_i32(months);
        }
        ValueRef::Uuid(bytes) => out.put_slice(&bytes),
    }
}

/// The bytes of an address that its type has written.
fn address(text: &str, ty: SqlType) -> Vec<u8> {
    let is_ours = "a text that the type has written";
    match ty {
        SqlType::Inet => network::parse_inet(text).expect(is_ours).to_wire(false),
        SqlType::Cidr => network::parse_cidr(text).expect(is_ours).to_wire(true),
        _ => network::parse_macaddr(text).expect(is_ours).to_vec(),
    }
}

fn digits(ty: SqlType) -> (u8, i8) {
    match ty {
        SqlType::Decimal { precision, scale } => (precision, scale),
        _ => (decimal::DIGITS_MAX, 0),
    }
}
