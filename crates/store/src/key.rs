//! Index keys as numbers and bytes whose order is the index's order.
//!
//! Each key column becomes bytes that compare as its values do, one column after the other:
//! - a nullable column starts with a marker: 1 for a value; 0 or 2 for NULL, which has no more
//!   bytes, depending on where NULLs go;
//! - integers, dates and times: big-endian, sign bit flipped; decimals likewise, in 8 bytes up to
//!   18 digits; floats by their bits, negative ones inverted, with -0 as 0 and one NaN above all;
//!   intervals by [`crate::Interval::sort_key`]; UUIDs as they are;
//! - text and bytes: as they are, with 0 as 0 255, ended by 0 0;
//! - all bytes of a descending column but the marker are inverted.
//!
//! No encoding of a column is a prefix of another one, so encodings of whole keys compare
//! column by column, and a key of the first columns is a prefix of all keys that it matches.
//! Keys of at most 8 or 16 bytes, known from the definition alone, are one number and are compared
//! as such ([`KeyKind`]).
//! Invariant: `a < b` in the index's order exactly if `encode(a) < encode(b)`; checked against a
//! plain comparison by `store_fuzz`.

use crate::value::{Schema, Type, ValueRef};

/// One column of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyColumn {
    /// Which column of the table.
    pub column: u16,
    /// Whether larger values come first.
    pub descending: bool,
    /// Whether NULLs come before all values, in the index's order.
    pub nulls_first: bool,
}

/// Which of the three trees holds keys of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    /// At most 8 bytes: a `u64`.
    Narrow,
    /// At most 16 bytes: a `u128`.
    Wide,
    /// Bytes of any number.
    Bytes,
}

/// Room for one encoded key or prefix of a key, to be used again and again: after the first few
/// uses encoding does not allocate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyBuf {
    /// The first bytes of a key that is a number, from the highest byte down; else 0.
    number: u128,
    /// Bytes used of `number`.
    number_bytes: u32,
    /// The bytes of a key that is no number; else empty.
    bytes: Vec<u8>,
    has_null: bool,
    /// Whether the index holds no entry for the row, so that there is no key.
    absent: bool,
}

impl KeyBuf {
    /// An empty key: the prefix of every key.
    pub fn new() -> Self {
        KeyBuf::default()
    }

    /// True if a value of the key is NULL, so that under SQL's `=` it equals no other.
    #[inline]
    pub fn has_null(&self) -> bool {
        self.has_null
    }

    /// Makes it stand for a row that a partial index leaves out.
    pub(crate) fn set_absent(&mut self) {
        self.bytes.clear();
        (self.number, self.number_bytes, self.has_null, self.absent) = (0, 0, false, true);
    }

    /// True if it stands for a row that a partial index leaves out.
    #[inline]
    pub(crate) fn is_absent(&self) -> bool {
        self.absent
    }

    /// The key from the highest byte down, for trees of up to 16 bytes.
    #[inline]
    pub(crate) fn number(&self) -> u128 {
        self.number
    }

    /// How many bytes the key has, for trees of up to 16 bytes.
    #[cfg(test)]
    pub(crate) fn number_bytes(&self) -> u32 {
        self.number_bytes
    }

    /// The key, for trees of longer keys.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number above all keys that start with this one. None if there is no such number.
    pub(crate) fn number_after(&self) -> Option<u128> {
        match self.number_bytes {
            0 => None,
            bytes => self.number.checked_add(1 << (128 - 8 * bytes)),
        }
    }

    /// Encodes the first `count` columns of a key; `value(i)` is that of the i-th key column.
    ///
    /// Panics: if a value is of another type than its column.
    #[inline]
    pub(crate) fn encode<'v>(
        &mut self,
        kind: KeyKind,
        schema: &Schema,
        key_columns: &[KeyColumn],
        value: impl Fn(usize) -> ValueRef<'v>,
    ) {
        (self.has_null, self.absent) = (false, false);
        self.bytes.clear();
        if kind == KeyKind::Bytes {
            (self.number, self.number_bytes) = (0, 0);
            self.encode_bytes(schema, key_columns, value);
        } else {
            self.encode_number(schema, key_columns, value);
        }
    }

    /// Puts the columns together from the lowest byte up, and moves all of them up at the end.
    #[inline]
    fn encode_number<'v>(
        &mut self,
        schema: &Schema,
        key_columns: &[KeyColumn],
        value: impl Fn(usize) -> ValueRef<'v>,
    ) {
        let (mut number, mut bytes) = (0u128, 0u32);
        for (position, key_column) in key_columns.iter().enumerate() {
            let def = schema.columns[key_column.column as usize];
            let value = value(position);
            // What most keys are made of, with shifts that are known when this is compiled.
            if let (Type::Int32, ValueRef::Int32(value)) = (def.ty, value)
                && !def.nullable
                && !key_column.descending
            {
                number = number << 32 | (value as u32 ^ 1 << 31) as u128;
                bytes += 4;
                continue;
            }
            if def.nullable {
                number = number << 8 | marker(value, key_column) as u128;
                bytes += 1;
            }
            if value.is_null() {
                assert!(def.nullable, "NULL in a key column that is not nullable");
                self.has_null = true;
                continue;
            }
            let (bits, width) = fixed(def.ty, value).expect("a key of fixed width");
            let bits = if key_column.descending { !bits } else { bits };
            let unused = 128 - 8 * width;
            number = number.checked_shl(8 * width).unwrap_or(0) | bits << unused >> unused;
            bytes += width;
        }
        self.number = number.checked_shl(128 - 8 * bytes).unwrap_or(0);
        self.number_bytes = bytes;
    }

    fn encode_bytes<'v>(
        &mut self,
        schema: &Schema,
        key_columns: &[KeyColumn],
        value: impl Fn(usize) -> ValueRef<'v>,
    ) {
        for (position, key_column) in key_columns.iter().enumerate() {
            let def = schema.columns[key_column.column as usize];
            let value = value(position);
            if def.nullable {
                self.bytes.push(marker(value, key_column));
            }
            if value.is_null() {
                assert!(def.nullable, "NULL in a key column that is not nullable");
                self.has_null = true;
                continue;
            }
            match fixed(def.ty, value) {
                Some((bits, width)) => {
                    let bits = if key_column.descending { !bits } else { bits };
                    self.bytes.extend_from_slice(&bits.to_be_bytes()[16 - width as usize..]);
                }
                None => self.put_bytes(value, key_column.descending),
            }
        }
    }

    fn put_bytes(&mut self, value: ValueRef<'_>, descending: bool) {
        let bytes = match value {
            ValueRef::Text(text) => text.as_bytes(),
            ValueRef::Bytes(bytes) => bytes,
            other => panic!("{other:?} in a key column of text or bytes"),
        };
        let start = self.bytes.len();
        for (run_idx, run) in bytes.split(|&byte| byte == 0).enumerate() {
            if run_idx > 0 {
                self.bytes.extend_from_slice(&[0, 255]);
            }
            self.bytes.extend_from_slice(run);
        }
        self.bytes.extend_from_slice(&[0, 0]);
        if descending {
            self.bytes[start..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }
}

/// What stands before a value that may be NULL.
#[inline]
fn marker(value: ValueRef<'_>, key_column: &KeyColumn) -> u8 {
    match (value.is_null(), key_column.nulls_first) {
        (false, _) => 1,
        (true, true) => 0,
        (true, false) => 2,
    }
}

/// Decimals of up to this many digits are keys of 8 bytes.
const NARROW_DECIMAL_DIGITS: u8 = 18;

/// How many bytes values of a type have in a key. None if it varies.
fn fixed_bytes(ty: Type) -> Option<u32> {
    match ty {
        Type::Bool => Some(1),
        Type::Int16 => Some(2),
        Type::Int32 | Type::Float32 | Type::Date => Some(4),
        Type::Int64 | Type::Float64 | Type::Time | Type::Timestamp | Type::TimestampTz => Some(8),
        Type::Decimal { precision, .. } if precision <= NARROW_DECIMAL_DIGITS => Some(8),
        Type::Decimal { .. } | Type::Interval | Type::Uuid => Some(16),
        Type::Text | Type::Bytes => None,
    }
}

/// Which tree keys of these columns go to.
pub(crate) fn kind(schema: &Schema, key_columns: &[KeyColumn]) -> KeyKind {
    let bytes = key_columns.iter().try_fold(0, |sum, key_column| {
        let def = schema.columns[key_column.column as usize];
        Some(sum + fixed_bytes(def.ty)? + def.nullable as u32)
    });
    match bytes {
        Some(..=8) => KeyKind::Narrow,
        Some(..=16) => KeyKind::Wide,
        _ => KeyKind::Bytes,
    }
}

/// The bits of a value of fixed width, in order, and how many bytes of them count.
#[inline]
fn fixed(ty: Type, value: ValueRef<'_>) -> Option<(u128, u32)> {
    Some(match (ty, value) {
        (Type::Bool, ValueRef::Bool(value)) => (value as u128, 1),
        (Type::Int16, ValueRef::Int16(value)) => ((value as u16 ^ 1 << 15) as u128, 2),
        (Type::Int32, ValueRef::Int32(value)) | (Type::Date, ValueRef::Date(value)) => {
            ((value as u32 ^ 1 << 31) as u128, 4)
        }
        (Type::Int64, ValueRef::Int64(value))
        | (Type::Time, ValueRef::Time(value))
        | (Type::Timestamp, ValueRef::Timestamp(value))
        | (Type::TimestampTz, ValueRef::TimestampTz(value)) => (signed(value), 8),
        (Type::Float32, ValueRef::Float32(value)) => (float32(value), 4),
        (Type::Float64, ValueRef::Float64(value)) => (float64(value), 8),
        (Type::Decimal { precision, .. }, ValueRef::Decimal(value)) => {
            if precision <= NARROW_DECIMAL_DIGITS {
                // Stored values fit. A probe beyond them finds its place at the end.
                (signed(value.clamp(i64::MIN as i128, i64::MAX as i128) as i64), 8)
            } else {
                (signed_wide(value), 16)
            }
        }
        (Type::Interval, ValueRef::Interval(value)) => (signed_wide(value.sort_key()), 16),
        (Type::Uuid, ValueRef::Uuid(value)) => (u128::from_be_bytes(value), 16),
        (Type::Text | Type::Bytes, _) => return None,
        (ty, value) => panic!("{value:?} in a key column of type {ty}"),
    })
}

#[inline]
fn signed(value: i64) -> u128 {
    (value as u64 ^ 1 << 63) as u128
}

fn signed_wide(value: i128) -> u128 {
    value as u128 ^ 1 << 127
}

fn float32(value: f32) -> u128 {
    let value = if value.is_nan() { f32::NAN.abs() } else { value + 0.0 };
    let bits = value.to_bits();
    (if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }) as u128
}

fn float64(value: f64) -> u128 {
    let value = if value.is_nan() { f64::NAN.abs() } else { value + 0.0 };
    let bits = value.to_bits();
    (if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }) as u128
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{ColumnDef, Interval};

    fn column(descending: bool, nulls_first: bool) -> KeyColumn {
        KeyColumn { column: 0, descending, nulls_first }
    }

    fn encode(ty: Type, key_column: KeyColumn, value: ValueRef<'_>) -> Vec<u8> {
        let schema = Schema { columns: vec![ColumnDef { ty, nullable: true }] };
        let mut buf = KeyBuf::new();
        buf.encode(KeyKind::Bytes, &schema, &[key_column], |_| value);
        assert_eq!(buf.has_null(), value.is_null());
        buf.bytes
    }

    /// Checks that encodings order as the list does, strictly, in both directions.
    fn check(ty: Type, ascending: &[ValueRef<'_>]) {
        for (low, high) in ascending.iter().zip(&ascending[1..]) {
            let up = |value| encode(ty, column(false, false), value);
            let down = |value| encode(ty, column(true, false), value);
            assert!(up(*low) < up(*high), "{low:?} < {high:?}");
            assert!(down(*low) > down(*high), "{low:?} < {high:?}, descending");
            assert!(up(*high) < up(ValueRef::Null) && down(*low) < down(ValueRef::Null));
            let null = encode(ty, column(true, true), ValueRef::Null);
            assert!(null < encode(ty, column(true, true), *low), "NULLs first");
        }
    }

    #[test]
    fn encodings_order_as_values_do() {
        use ValueRef::*;
        check(Type::Bool, &[Bool(false), Bool(true)]);
        check(Type::Int16, &[Int16(i16::MIN), Int16(-1), Int16(0), Int16(i16::MAX)]);
        check(Type::Int32, &[Int32(i32::MIN), Int32(-1), Int32(0), Int32(i32::MAX)]);
        check(Type::Int64, &[Int64(i64::MIN), Int64(-1), Int64(0), Int64(i64::MAX)]);
        check(Type::Date, &[Date(-5), Date(5)]);
        check(Type::Time, &[Time(0), Time(5)]);
        check(Type::Timestamp, &[Timestamp(-5), Timestamp(5)]);
        check(Type::TimestampTz, &[TimestampTz(-5), TimestampTz(5)]);
        let floats = [f64::NEG_INFINITY, -1.5, -f64::MIN_POSITIVE, 0.0, 1e-300, 1.0, f64::INFINITY];
        check(
            Type::Float64,
            &[&floats[..], &[f64::NAN]].concat().into_iter().map(Float64).collect::<Vec<_>>(),
        );
        let floats = [f32::NEG_INFINITY, -1.5, 0.0, 1e-30, 1.0, f32::INFINITY, f32::NAN];
        check(Type::Float32, &floats.map(Float32));
        let decimals =
            [Decimal(-(10i128.pow(17))), Decimal(-1), Decimal(0), Decimal(10i128.pow(17))];
        check(Type::Decimal { precision: 18, scale: 2 }, &decimals);
        check(Type::Decimal { precision: 38, scale: 2 }, &decimals);
        check(Type::Text, &["", "\u{1}", "a", "a\u{1}", "ab", "b", "é"].map(Text));
        let strings: [&[u8]; 8] =
            [&[], &[0], &[0, 0], &[0, 1], &[0, 255], &[1], &[255], &[255, 255]];
        check(Type::Bytes, &strings.map(Bytes));
        let span = |months, days, nanos| Interval(crate::value::Interval { months, days, nanos });
        check(
            Type::Interval,
            &[span(i32::MIN, 0, 0), span(0, -1, 0), span(0, 0, 1), span(0, 40, 0), span(2, 0, 0)],
        );
        check(Type::Uuid, &[Uuid([0; 16]), Uuid([1; 16]), Uuid([255; 16])]);
    }

    #[test]
    fn equal_values_have_one_encoding() {
        let up = |ty, value| encode(ty, column(false, false), value);
        let same = |ty, a, b| assert_eq!(up(ty, a), up(ty, b));
        same(Type::Float64, ValueRef::Float64(0.0), ValueRef::Float64(-0.0));
        same(Type::Float32, ValueRef::Float32(f32::NAN), ValueRef::Float32(-f32::NAN));
        let month = Interval { months: 1, days: 0, nanos: 0 };
        let days = Interval { months: 0, days: 30, nanos: 0 };
        same(Type::Interval, ValueRef::Interval(month), ValueRef::Interval(days));
    }

    #[test]
    fn number_and_bytes_are_the_same_key() {
        let schema = Schema {
            columns: vec![
                ColumnDef { ty: Type::Int32, nullable: true },
                ColumnDef { ty: Type::Int64, nullable: false },
            ],
        };
        let columns =
            [0, 1].map(|column| KeyColumn { column, descending: column == 1, nulls_first: true });
        assert_eq!(kind(&schema, &columns), KeyKind::Wide);
        assert_eq!(kind(&schema, &columns[..1]), KeyKind::Narrow);
        let values = [ValueRef::Int32(-3), ValueRef::Int64(77)];
        let (mut number, mut bytes) = (KeyBuf::new(), KeyBuf::new());
        for count in 0..=2 {
            number.encode(KeyKind::Wide, &schema, &columns[..count], |at| values[at]);
            bytes.encode(KeyKind::Bytes, &schema, &columns[..count], |at| values[at]);
            let len = number.number_bytes() as usize;
            assert_eq!(number.number().to_be_bytes()[..len], bytes.bytes()[..]);
        }
        let step = 1u128 << (128 - 8 * 13);
        assert_eq!(number.number_after(), Some(number.number() + step));
        assert_eq!(KeyBuf::new().number_after(), None);
    }
}
