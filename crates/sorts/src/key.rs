//! Keys of rows: bytes that compare as the rows do, and their beginnings as numbers.
//!
//! Columns of fixed width that take at most [`KEY_BITS`] bits together are *packed*: a head holds the whole key, and no
//! two heads need another look. Keys of all other types are bytes (arrow-row), of which a head has the first twelve;
//! where these are equal the bytes decide. A decimal that comes first is its key's beginning as a number, or the nearest that
//! has room.
//!
//! A packed column has a bit for NULL, above the value's bits, which are flipped if its order descends. Decimals take the
//! bits of their precision and [`SPARE_BITS`] more.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::compute::SortOptions;
use arrow::datatypes::{ArrowNativeType, DataType, Schema};
use arrow::row::{Row, RowConverter, Rows, SortField};
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use halcyon_sql::diagnose::external;
use halcyon_sql::error::{SqlError, SqlState};

use crate::tree::{EXHAUSTED, Order};

/// Bits of a head below those of its key: the row's place.
const PLACE_BITS: u32 = 32;
/// Bits of a head's key.
const KEY_BITS: u32 = 128 - PLACE_BITS;
/// Bytes of a key that a head has.
const KEY_BYTES: usize = (KEY_BITS / 8) as usize;
/// Bits of a packed decimal beyond those of its precision.
const SPARE_BITS: u32 = 8;

/// The head of a row whose key begins so, at this place.
#[inline(always)]
pub(crate) fn head(key: u128, place: u32) -> u128 {
    key << PLACE_BITS | u128::from(place)
}

/// The place of a head's row.
#[inline(always)]
pub(crate) fn place(head: u128) -> u32 {
    (head & u128::from(u32::MAX)) as u32
}

/// How the rows of a plan become keys.
#[derive(Debug)]
pub(crate) struct Layout {
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    form: Form,
}

#[derive(Debug)]
enum Form {
    Packed(Vec<Packed>),
    /// Bytes, whose beginnings are those of the first column if that is a decimal.
    Bytes(RowConverter, Option<Packed>),
}

/// A column of a packed key.
#[derive(Debug)]
struct Packed {
    kind: Kind,
    /// Bits of a value.
    bits: u32,
    options: SortOptions,
}

/// How values become numbers without sign.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Boolean,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
    Decimal,
}

impl Kind {
    /// The kind and the bits of a type's values; `None`: they are not packed.
    fn of(ty: &DataType) -> Option<(Kind, u32)> {
        Some(match ty {
            DataType::Boolean => (Kind::Boolean, 1),
            DataType::Int8 => (Kind::I8, 8),
            DataType::Int16 => (Kind::I16, 16),
            DataType::Int32 | DataType::Date32 | DataType::Time32(_) => (Kind::I32, 32),
            DataType::Int64
            | DataType::Date64
            | DataType::Time64(_)
            | DataType::Timestamp(..)
            | DataType::Duration(_) => (Kind::I64, 64),
            DataType::UInt8 => (Kind::U8, 8),
            DataType::UInt16 => (Kind::U16, 16),
            DataType::UInt32 => (Kind::U32, 32),
            DataType::UInt64 => (Kind::U64, 64),
            DataType::Float32 => (Kind::F32, 32),
            DataType::Float64 => (Kind::F64, 64),
            DataType::Decimal128(digits @ 1..=26, _) => {
                let values = 10_u128.pow(u32::from(*digits));
                (Kind::Decimal, 128 - values.leading_zeros() + SPARE_BITS)
            }
            _ => return None,
        })
    }
}

impl Layout {
    /// The layout of keys in an order; `None`: some type has no bytes that compare as its values do.
    pub(crate) fn of(order: &LexOrdering, schema: &Schema) -> Result<Option<Layout>> {
        let (mut packed, mut fields) = (Vec::new(), Vec::new());
        for key in order.iter() {
            let ty = key.expr.data_type(schema)?;
            if let Some((kind, bits)) = Kind::of(&ty) {
                packed.push(Packed { kind, bits, options: key.options });
            }
            fields.push(SortField::new_with_options(ty, key.options));
        }
        let bits: u32 = packed.iter().map(|column| column.bits + 1).sum();
        let form = if packed.len() == fields.len() && bits <= KEY_BITS {
            Form::Packed(packed)
        } else if RowConverter::supports_fields(&fields) {
            let first = order.first();
            let wide = Packed { kind: Kind::Decimal, bits: KEY_BITS - 1, options: first.options };
            let is_wide = matches!(first.expr.data_type(schema)?, DataType::Decimal128(..));
            Form::Bytes(RowConverter::new(fields)?, is_wide.then_some(wide))
        } else {
            return Ok(None);
        };
        let exprs = order.iter().map(|key| Arc::clone(&key.expr)).collect();
        Ok(Some(Layout { exprs, form }))
    }

    /// Columns of a key.
    pub(crate) fn columns(&self) -> usize {
        self.exprs.len()
    }

    /// Whether heads hold whole keys.
    pub(crate) fn is_packed(&self) -> bool {
        matches!(self.form, Form::Packed(_))
    }

    /// Whether heads hold whole keys, or nearly always tell them apart.
    pub(crate) fn is_quick(&self) -> bool {
        match &self.form {
            Form::Packed(_) => true,
            Form::Bytes(_, first) => first.is_some() && self.columns() == 1,
        }
    }

    /// The keys of a batch's rows.
    ///
    /// Errors: those of expressions, and 22003 for a decimal far beyond its type.
    pub(crate) fn keys(&self, batch: &RecordBatch) -> Result<Keys> {
        let rows = batch.num_rows();
        let evaluate = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(batch)?.into_array(rows);
        let columns = self.exprs.iter().map(evaluate).collect::<Result<Vec<ArrayRef>>>()?;
        match &self.form {
            Form::Packed(packed) => {
                let mut begins = vec![0; rows];
                for (packed, column) in packed.iter().zip(&columns) {
                    packed.put(column, &mut begins)?;
                }
                Ok(Keys { begins, bytes: None })
            }
            Form::Bytes(converter, first) => {
                let bytes = converter.convert_columns(&columns)?;
                let begins = match first {
                    Some(first) => {
                        let mut begins = vec![0; rows];
                        first.put_nearest(&columns[0], &mut begins);
                        begins
                    }
                    None => bytes.iter().map(begin).collect(),
                };
                Ok(Keys { begins, bytes: Some(bytes) })
            }
        }
    }
}

/// The beginning of a key's bytes.
#[inline(always)]
fn begin(row: Row<'_>) -> u128 {
    let bytes = row.data();
    match bytes.first_chunk::<16>() {
        Some(first) => u128::from_be_bytes(*first) >> PLACE_BITS,
        None => {
            let mut first = [0; 16];
            let given = bytes.len().min(KEY_BYTES);
            first[..given].copy_from_slice(&bytes[..given]);
            u128::from_be_bytes(first) >> PLACE_BITS
        }
    }
}

/// Keys of the rows of a batch.
#[derive(Debug)]
pub(crate) struct Keys {
    /// What heads have of each.
    pub(crate) begins: Vec<u128>,
    /// The keys as bytes, unless heads hold them.
    pub(crate) bytes: Option<Rows>,
}

impl Packed {
    /// Puts a column's values below what the keys have.
    fn put(&self, column: &ArrayRef, keys: &mut [u128]) -> Result<()> {
        let data = column.to_data();
        let rows = column.len();
        match self.kind {
            Kind::Boolean => {
                let values = column.as_boolean().values();
                self.put_values(values.iter().map(u128::from), column.nulls(), keys);
            }
            Kind::I8 => self.put_plain(data.buffer::<i8>(0), |v| sign(v.into(), 8), column, keys),
            Kind::I16 => {
                self.put_plain(data.buffer::<i16>(0), |v| sign(v.into(), 16), column, keys);
            }
            Kind::I32 => {
                self.put_plain(data.buffer::<i32>(0), |v| sign(v.into(), 32), column, keys);
            }
            Kind::I64 => self.put_plain(data.buffer::<i64>(0), |v| sign(v, 64), column, keys),
            Kind::U8 => self.put_plain(data.buffer::<u8>(0), u128::from, column, keys),
            Kind::U16 => self.put_plain(data.buffer::<u16>(0), u128::from, column, keys),
            Kind::U32 => self.put_plain(data.buffer::<u32>(0), u128::from, column, keys),
            Kind::U64 => self.put_plain(data.buffer::<u64>(0), u128::from, column, keys),
            Kind::F32 => {
                let total = |value: f32| {
                    let bits = value.to_bits();
                    u128::from(bits ^ if bits >> 31 == 1 { u32::MAX } else { 1 << 31 })
                };
                self.put_plain(data.buffer::<f32>(0), total, column, keys);
            }
            Kind::F64 => self.put_plain(data.buffer::<f64>(0), total, column, keys),
            Kind::Decimal => {
                let half = 1_i128 << (self.bits - 1);
                let values = &data.buffer::<i128>(0)[..rows];
                let nulls = column.nulls();
                let is_beyond = |row: usize, value: i128| {
                    !(-half..half).contains(&value) && nulls.is_none_or(|nulls| nulls.is_valid(row))
                };
                if values.iter().enumerate().any(|(row, &value)| is_beyond(row, value)) {
                    let error = SqlError::new(
                        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                        "a NUMERIC has more digits than its type",
                    );
                    return Err(external(error));
                }
                let mask = u128::MAX >> (128 - self.bits);
                let code = |value: i128| value.wrapping_add(half).cast_unsigned() & mask;
                self.put_plain(values, code, column, keys);
            }
        }
        if rows != keys.len() {
            return internal_err!("a key's column has a value for each row");
        }
        Ok(())
    }

    /// Puts a decimal's values, or the nearest that have room, below what the keys have: never in the wrong order.
    fn put_nearest(&self, column: &ArrayRef, keys: &mut [u128]) {
        let half = 1_i128 << (self.bits - 1);
        let code = |value: i128| (value.clamp(-half, half - 1) + half).cast_unsigned();
        self.put_plain(column.to_data().buffer::<i128>(0), code, column, keys);
    }

    #[inline(always)]
    fn put_plain<T: ArrowNativeType>(
        &self,
        values: &[T],
        code: impl Fn(T) -> u128,
        column: &ArrayRef,
        keys: &mut [u128],
    ) {
        self.put_values(values.iter().map(|&value| code(value)), column.nulls(), keys);
    }

    #[inline(always)]
    fn put_values(
        &self,
        values: impl Iterator<Item = u128>,
        nulls: Option<&NullBuffer>,
        keys: &mut [u128],
    ) {
        let mask = u128::MAX >> (128 - self.bits);
        let flip = if self.options.descending { mask } else { 0 };
        let (null, valid) = match self.options.nulls_first {
            true => (0, 1 << self.bits),
            false => (1 << self.bits, 0),
        };
        let width = self.bits + 1;
        match nulls.filter(|nulls| nulls.null_count() > 0) {
            None => {
                for (key, value) in keys.iter_mut().zip(values) {
                    *key = *key << width | valid | (value ^ flip);
                }
            }
            Some(nulls) => {
                for ((key, value), is_valid) in keys.iter_mut().zip(values).zip(nulls) {
                    let code = if is_valid { valid | (value ^ flip) } else { null };
                    *key = *key << width | code;
                }
            }
        }
    }
}

/// A number of so many bits without its sign, in the order of numbers.
#[inline(always)]
fn sign(value: i64, bits: u32) -> u128 {
    u128::from(value.cast_unsigned() ^ (1 << (bits - 1))) & (u128::MAX >> (128 - bits))
}

/// A floating-point number in the order of IEEE 754's totalOrder, which is Arrow's.
#[inline(always)]
fn total(value: f64) -> u128 {
    let bits = value.to_bits();
    let flip = if bits >> 63 == 1 { u64::MAX } else { 1 << 63 };
    u128::from(bits ^ flip)
}

/// The order of heads whose keys are bytes. `row`: the key of the row at a place.
pub(crate) struct Bytes<F>(pub(crate) F);

impl<'k, F: Fn(u32) -> Row<'k>> Order for Bytes<F> {
    #[inline(always)]
    fn compare(&self, a: u128, b: u128) -> Ordering {
        match (a >> PLACE_BITS).cmp(&(b >> PLACE_BITS)) {
            Ordering::Equal => (self.0)(place(a)).cmp(&(self.0)(place(b))).then(a.cmp(&b)),
            decided => decided,
        }
    }

    #[inline(always)]
    fn is_less(&self, a: u128, b: u128) -> bool {
        let is_decided = (a ^ b) >> PLACE_BITS != 0 || a == EXHAUSTED || b == EXHAUSTED;
        if is_decided { a < b } else { self.compare(a, b) == Ordering::Less }
    }
}
