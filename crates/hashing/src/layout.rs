//! How the values that rows are joined by lie in words of 64 bits, so that keys are hashed and compared as
//! words whatever their types.
//!
//! | type | bits |
//! |---|---|
//! | SMALLINT, INTEGER, DATE, BOOLEAN | 16, 32, 32, 1, beside others in a word |
//! | BIGINT, TIME, TIMESTAMP, NUMERIC of at most 18 digits | 64 |
//! | NUMERIC of more digits | 128 |
//! | texts and bytes | 128: the length, then the bytes of a short one, or the first four and a hash of a long one |
//!
//! A column that may be NULL has a bit more, but texts, whose NULL is a length that no text has. Two keys with
//! equal words are equal unless they have long texts, whose bytes are compared then.

use std::sync::Arc;

use arrow::array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Int16Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Schema, TimeUnit};

use crate::hash::Hasher;

/// Words of the longest key.
pub(crate) const WORDS_MAX: usize = 12;
/// Digits of a decimal that fits one word.
const DIGITS_OF_WORD: u8 = 18;
/// The first word of a text that is NULL: a length that no text has.
pub(crate) const NULL_TEXT: u64 = u64::MAX;
/// Bytes of a text that lies within its words.
pub(crate) const SHORT: u32 = 12;

/// The places of a key's columns.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    columns: Vec<Column>,
    words: usize,
}

/// What becomes of NULL in keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// NULL equals NULL.
    Equal,
    /// Rows with NULL have keys without meaning, and are told apart by others.
    LeftOut,
}

#[derive(Clone, Debug)]
struct Column {
    ty: DataType,
    kind: Kind,
    /// The word that the value begins in.
    word: usize,
    /// The bit of that word that the value begins at.
    shift: u32,
    /// Word and bit that are set if the value is NULL.
    null: Option<(usize, u32)>,
    nulls: Nulls,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// So many bits within a word.
    Bits(u32),
    TwoWords,
    Text,
}

fn kind(ty: &DataType) -> Option<Kind> {
    Some(match ty {
        DataType::Boolean => Kind::Bits(1),
        DataType::Int16 => Kind::Bits(16),
        DataType::Int32 | DataType::Date32 => Kind::Bits(32),
        DataType::Int64 | DataType::Time64(TimeUnit::Microsecond) | DataType::Timestamp(..) => {
            Kind::Bits(64)
        }
        DataType::Decimal128(precision, _) if *precision <= DIGITS_OF_WORD => Kind::Bits(64),
        DataType::Decimal128(..) => Kind::TwoWords,
        DataType::Utf8View | DataType::BinaryView => Kind::Text,
        _ => return None,
    })
}

impl Layout {
    /// The layout of keys with these columns; `None` if a type has no place in words.
    pub(crate) fn of(keys: &Schema, nulls: Nulls) -> Option<Layout> {
        let kinds: Option<Vec<Kind>> =
            keys.fields().iter().map(|field| kind(field.data_type())).collect();
        let (kinds, mut words) = (kinds?, 0);
        let mut columns: Vec<Column> = Vec::with_capacity(kinds.len());
        // Word and bits in use of the word that narrow values and bits of NULL share.
        let mut shared: Option<(usize, u32)> = None;
        let mut narrow = |bits: u32, words: &mut usize| {
            let (word, shift) = match shared {
                Some((word, used)) if used + bits <= 64 => (word, used),
                _ => {
                    *words += 1;
                    (*words - 1, 0)
                }
            };
            shared = Some((word, shift + bits));
            (word, shift)
        };
        for (field, &kind) in keys.fields().iter().zip(&kinds) {
            let (word, shift) = match kind {
                Kind::Bits(bits) if bits < 64 => narrow(bits, &mut words),
                Kind::Bits(_) => (words, 0),
                Kind::TwoWords | Kind::Text => (words, 0),
            };
            words += match kind {
                Kind::Bits(64) => 1,
                Kind::Bits(_) => 0,
                Kind::TwoWords | Kind::Text => 2,
            };
            let has_bit = nulls == Nulls::Equal && field.is_nullable() && kind != Kind::Text;
            let null = has_bit.then(|| narrow(1, &mut words));
            let ty = field.data_type().clone();
            columns.push(Column { ty, kind, word, shift, null, nulls });
        }
        Some(Layout { columns, words })
    }

    /// Words of a key.
    pub(crate) fn words(&self) -> usize {
        self.words
    }

    /// Columns of a key.
    pub(crate) fn columns(&self) -> usize {
        self.columns.len()
    }

    /// The type of a column.
    pub(crate) fn ty(&self, column: usize) -> &DataType {
        &self.columns[column].ty
    }

    /// Columns that are texts, each with its first word.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let texts = self.columns.iter().enumerate().filter(|(_, column)| column.kind == Kind::Text);
        texts.map(|(number, column)| (number, column.word))
    }

    /// The keys of rows, one for each, into `keys`.
    pub(crate) fn encode<const N: usize>(
        &self,
        columns: &[ArrayRef],
        hasher: &Hasher,
        keys: &mut Vec<[u64; N]>,
    ) {
        assert!(self.words <= N, "keys have room");
        let rows = columns.first().map_or(0, |column| column.len());
        keys.clear();
        keys.resize(rows, [0; N]);
        for (column, values) in self.columns.iter().zip(columns) {
            column.encode(values, hasher, keys);
        }
    }

    /// The keys with the least and the greatest value in a column of integers, of at most 64 bits with a sign; `None`
    /// for other columns, and without keys.
    pub(crate) fn range<'k, const N: usize>(
        &self,
        column: usize,
        keys: impl Iterator<Item = &'k [u64; N]>,
    ) -> Option<([u64; N], [u64; N])> {
        let column = &self.columns[column];
        let Kind::Bits(bits @ 2..) = column.kind else { return None };
        let value = |key: &[u64; N]| ((key[column.word] >> column.shift) << (64 - bits)) as i64;
        keys.fold(None, |range: Option<([u64; N], [u64; N])>, key| {
            let Some((least, greatest)) = range else { return Some((*key, *key)) };
            let least = if value(key) < value(&least) { *key } else { least };
            Some((least, if value(key) > value(&greatest) { *key } else { greatest }))
        })
    }

    /// Whether keys are one integer each, of 64 bits with a sign at most.
    pub(crate) fn is_integer(&self) -> bool {
        let is_signed = |column: &Column| {
            matches!(column.kind, Kind::Bits(bits) if bits > 1) && column.null.is_none()
        };
        self.columns.len() == 1 && self.columns.iter().all(is_signed)
    }

    /// Bits of the integer that a key is, with its sign, which is all of the first word; `None` if keys are none.
    pub(crate) fn integer_bits(&self) -> Option<u32> {
        match self.columns.first()?.kind {
            Kind::Bits(bits) if self.is_integer() => Some(bits),
            _ => None,
        }
    }

    /// The integer that a key is, if [`Layout::is_integer`].
    pub(crate) fn integer<const N: usize>(&self, key: &[u64; N]) -> i64 {
        match self.columns[0].kind {
            Kind::Bits(16) => i64::from(key[0] as i16),
            Kind::Bits(32) => i64::from(key[0] as i32),
            _ => key[0] as i64,
        }
    }

    /// The values of a column in all keys. Texts: [`Layout::texts`] says where they are.
    pub(crate) fn decode<const N: usize>(&self, column: usize, keys: &[[u64; N]]) -> ArrayRef {
        self.columns[column].decode(keys)
    }
}

impl Column {
    fn encode<const N: usize>(&self, values: &ArrayRef, hasher: &Hasher, keys: &mut [[u64; N]]) {
        match &self.ty {
            DataType::Boolean => self.encode_booleans(values.as_boolean(), keys),
            DataType::Int16 => self.encode_bits::<Int16Type, N>(values, keys, |v| v as u16 as u64),
            DataType::Int32 => self.encode_bits::<Int32Type, N>(values, keys, |v| v as u32 as u64),
            DataType::Date32 => {
                self.encode_bits::<Date32Type, N>(values, keys, |v| v as u32 as u64);
            }
            DataType::Int64 => self.encode_bits::<Int64Type, N>(values, keys, |v| v as u64),
            DataType::Time64(_) => {
                self.encode_bits::<Time64MicrosecondType, N>(values, keys, |v| v as u64);
            }
            DataType::Timestamp(unit, _) => match unit {
                TimeUnit::Second => {
                    self.encode_bits::<TimestampSecondType, N>(values, keys, |v| v as u64);
                }
                TimeUnit::Millisecond => {
                    self.encode_bits::<TimestampMillisecondType, N>(values, keys, |v| v as u64);
                }
                TimeUnit::Microsecond => {
                    self.encode_bits::<TimestampMicrosecondType, N>(values, keys, |v| v as u64);
                }
                TimeUnit::Nanosecond => {
                    self.encode_bits::<TimestampNanosecondType, N>(values, keys, |v| v as u64);
                }
            },
            DataType::Decimal128(..) if self.kind != Kind::TwoWords => {
                self.encode_bits::<Decimal128Type, N>(values, keys, |v| v as u64);
            }
            DataType::Decimal128(..) => {
                let (low, high) = (self.word, self.word + 1);
                for (key, &value) in
                    keys.iter_mut().zip(values.as_primitive::<Decimal128Type>().values())
                {
                    key[low] = value as u64;
                    key[high] = (value >> 64) as u64;
                }
                self.mark_nulls(values.nulls(), keys, |key| (key[low], key[high]) = (0, 0));
            }
            DataType::Utf8View => {
                let texts = values.as_string_view();
                let content = |row: usize| texts.value(row).as_bytes();
                self.encode_texts(texts.views(), texts.nulls(), content, hasher, keys);
            }
            DataType::BinaryView => {
                let texts = values.as_binary_view();
                let content = |row: usize| texts.value(row);
                self.encode_texts(texts.views(), texts.nulls(), content, hasher, keys);
            }
            other => unreachable!("a key of type {other} has no layout"),
        }
    }

    fn encode_bits<T: ArrowPrimitiveType, const N: usize>(
        &self,
        values: &ArrayRef,
        keys: &mut [[u64; N]],
        bits: impl Fn(T::Native) -> u64,
    ) {
        let (word, shift) = (self.word, self.shift);
        let values = values.as_primitive::<T>();
        for (key, &value) in keys.iter_mut().zip(values.values()) {
            key[word] |= bits(value) << shift;
        }
        let Kind::Bits(width) = self.kind else { return };
        let mask = !((u64::MAX >> (64 - width)) << shift);
        self.mark_nulls(values.nulls(), keys, |key| key[word] &= mask);
    }

    fn encode_booleans<const N: usize>(&self, values: &BooleanArray, keys: &mut [[u64; N]]) {
        let (word, shift) = (self.word, self.shift);
        for (key, value) in keys.iter_mut().zip(values.values().iter()) {
            key[word] |= u64::from(value) << shift;
        }
        self.mark_nulls(values.nulls(), keys, |key| key[word] &= !(1 << shift));
    }

    /// Sets the bit of NULL, and `clear`s what stands where a value would.
    fn mark_nulls<const N: usize>(
        &self,
        nulls: Option<&NullBuffer>,
        keys: &mut [[u64; N]],
        clear: impl Fn(&mut [u64; N]),
    ) {
        let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else { return };
        if self.nulls == Nulls::LeftOut {
            return;
        }
        let (word, bit) = self.null.expect("a column that is declared NOT NULL has no NULLs");
        for (key, is_valid) in keys.iter_mut().zip(nulls) {
            if !is_valid {
                clear(key);
                key[word] |= 1 << bit;
            }
        }
    }

    fn encode_texts<'v, const N: usize>(
        &self,
        views: &[u128],
        nulls: Option<&NullBuffer>,
        content: impl Fn(usize) -> &'v [u8],
        hasher: &Hasher,
        keys: &mut [[u64; N]],
    ) {
        let (first, second) = (self.word, self.word + 1);
        for (row, (key, &view)) in keys.iter_mut().zip(views).enumerate() {
            key[first] = view as u64;
            key[second] = match view as u32 <= SHORT {
                true => (view >> 64) as u64,
                false => hasher.bytes(content(row)),
            };
        }
        let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else { return };
        for (key, is_valid) in keys.iter_mut().zip(nulls) {
            if !is_valid {
                (key[first], key[second]) = (NULL_TEXT, 0);
            }
        }
    }

    fn decode<const N: usize>(&self, keys: &[[u64; N]]) -> ArrayRef {
        match &self.ty {
            DataType::Boolean => {
                let bits = BooleanBuffer::collect_bool(keys.len(), |row| {
                    keys[row][self.word] >> self.shift & 1 == 1
                });
                Arc::new(BooleanArray::new(bits, self.nulls(keys)))
            }
            DataType::Int16 => self.decode_bits::<Int16Type, N>(keys, |bits| bits as i16),
            DataType::Int32 => self.decode_bits::<Int32Type, N>(keys, |bits| bits as i32),
            DataType::Date32 => self.decode_bits::<Date32Type, N>(keys, |bits| bits as i32),
            DataType::Int64 => self.decode_bits::<Int64Type, N>(keys, |bits| bits as i64),
            DataType::Time64(_) => {
                self.decode_bits::<Time64MicrosecondType, N>(keys, |bits| bits as i64)
            }
            DataType::Timestamp(unit, _) => match unit {
                TimeUnit::Second => {
                    self.decode_bits::<TimestampSecondType, N>(keys, |bits| bits as i64)
                }
                TimeUnit::Millisecond => {
                    self.decode_bits::<TimestampMillisecondType, N>(keys, |bits| bits as i64)
                }
                TimeUnit::Microsecond => {
                    self.decode_bits::<TimestampMicrosecondType, N>(keys, |bits| bits as i64)
                }
                TimeUnit::Nanosecond => {
                    self.decode_bits::<TimestampNanosecondType, N>(keys, |bits| bits as i64)
                }
            },
            DataType::Decimal128(..) if self.kind != Kind::TwoWords => {
                self.decode_bits::<Decimal128Type, N>(keys, |bits| i128::from(bits as i64))
            }
            DataType::Decimal128(..) => {
                let value = |key: &[u64; N]| {
                    (i128::from(key[self.word + 1] as i64) << 64) | i128::from(key[self.word])
                };
                self.primitives::<Decimal128Type, N>(keys, keys.iter().map(value).collect())
            }
            other => unreachable!("a key of type {other} is a text or has no layout"),
        }
    }

    fn decode_bits<T: ArrowPrimitiveType, const N: usize>(
        &self,
        keys: &[[u64; N]],
        value: impl Fn(u64) -> T::Native,
    ) -> ArrayRef {
        let values = keys.iter().map(|key| value(key[self.word] >> self.shift)).collect();
        self.primitives::<T, N>(keys, values)
    }

    fn primitives<T: ArrowPrimitiveType, const N: usize>(
        &self,
        keys: &[[u64; N]],
        values: Vec<T::Native>,
    ) -> ArrayRef {
        let array = PrimitiveArray::<T>::new(ScalarBuffer::from(values), self.nulls(keys));
        Arc::new(array.with_data_type(self.ty.clone()))
    }

    fn nulls<const N: usize>(&self, keys: &[[u64; N]]) -> Option<NullBuffer> {
        let (word, bit) = self.null?;
        let valid = BooleanBuffer::collect_bool(keys.len(), |row| keys[row][word] >> bit & 1 == 0);
        Some(NullBuffer::new(valid)).filter(|nulls| nulls.null_count() > 0)
    }
}
