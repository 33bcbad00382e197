//! Bulk load: many rows at once from Arrow arrays, column by column.
//!
//! Rows go behind the last slot in use, so their ids follow each other and whole vectors can be
//! copied. Index entries are encoded from the loaded rows, sorted, and merged into the trees.
//! Cost: memory bandwidth for the columns; a sort per index unless the keys arrive sorted.

use crate::copies;
use crate::heap::{Heap, INLINE_BYTES_MAX};
use crate::index::Conflict;
use crate::key::KeyBuf;
use crate::partition::Partition;
use crate::segment::{Column, clear_word};
use crate::value::{ArrowType, ColumnDef, Type};
use crate::vector::{make_mut, set_bit};
use arrow::array::{Array, ArrayAccessor, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
};
use halcyon_base::RowId;
use std::fmt;
use std::ops::Range;

/// Reasons for which rows were not appended. Nothing has changed then.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum AppendError {
    /// The load has another number of columns than the partition.
    ColumnCount {
        /// Columns of the partition.
        expected: usize,
        /// Columns given.
        found: usize,
    },
    /// The arrays differ in length.
    Length {
        /// The first column that differs from column 0.
        column: usize,
    },
    /// An array is of another type than its column, and not one that is taken for it (UTF-8 and
    /// binary in any of Arrow's layouts).
    Type {
        /// The column.
        column: usize,
        /// The Arrow type of the column.
        expected: DataType,
        /// The Arrow type given.
        found: DataType,
    },
    /// A NULL in a column that is not nullable.
    Null {
        /// The column.
        column: usize,
        /// The first row of the load that has one.
        row: usize,
    },
    /// A key of a unique index repeats; `row` of it may be one of the rows not appended.
    Conflict(Conflict),
    /// The partition would have more than 2^32 rows.
    Full,
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AppendError::ColumnCount { expected, found } => {
                write!(f, "{found} columns given, the table has {expected}")
            }
            AppendError::Length { column } => write!(f, "column {column} has another length"),
            AppendError::Type { column, expected, found } => {
                write!(f, "column {column} is of type {expected}, not {found}")
            }
            AppendError::Null { column, row } => {
                write!(f, "NULL in row {row} of column {column}, which is not nullable")
            }
            AppendError::Conflict(conflict) => {
                write!(f, "a key of unique index {} repeats", conflict.index)
            }
            AppendError::Full => f.write_str("a partition has at most 2^32 rows"),
        }
    }
}

impl std::error::Error for AppendError {}

impl From<Conflict> for AppendError {
    fn from(conflict: Conflict) -> Self {
        AppendError::Conflict(conflict)
    }
}

impl Partition {
    /// Appends rows given as one array per column; returns their ids, which follow each other.
    ///
    /// Errors: see [`AppendError`]; nothing has changed then.
    pub fn append(&mut self, columns: &[ArrayRef]) -> Result<Range<u32>, AppendError> {
        let rows = self.check_load(columns)?;
        let start = self.directory.load_start();
        let schema = self.schema.clone();
        copies::own(&mut self.directory).load(&schema, rows, |segment, from, count| {
            let slot = segment.used();
            let (targets, heap) = segment.begin_load(count);
            for ((target, &def), array) in targets.iter_mut().zip(&schema.columns).zip(columns) {
                load_column(def, target, heap, array, from, slot, count);
            }
        });
        let ids: Vec<RowId> = (start..start + rows as u64).map(|id| RowId(id as u32)).collect();
        self.index_loaded(&ids)?;
        Ok(start as u32..(start + rows as u64) as u32)
    }

    /// Adds loaded rows to all indexes, or takes the rows away again.
    fn index_loaded(&mut self, ids: &[RowId]) -> Result<(), Conflict> {
        let mut indexes = std::mem::take(&mut self.indexes);
        let filled = indexes.iter_mut().try_fold(0, |filled, index| {
            let result = self.fill_index(index, ids);
            result.map(|()| filled + 1).map_err(|conflict| (filled, conflict))
        });
        let result = filled.map(|_| ()).map_err(|(filled, conflict)| {
            let mut key = KeyBuf::new();
            for &id in ids {
                let row = self.row(id).expect("the row was loaded");
                for index in &mut indexes[..filled] {
                    index.encode(&self.schema, &mut key, |column| row.value(column));
                    index.remove(&key, id);
                }
                copies::own(&mut self.directory).delete(&self.schema, id);
            }
            conflict
        });
        self.indexes = indexes;
        result
    }

    /// Checks all but uniqueness; returns the number of rows.
    fn check_load(&self, columns: &[ArrayRef]) -> Result<usize, AppendError> {
        let rows = self.check_columns(columns)?;
        if rows as u64 > self.directory.load_room() { Err(AppendError::Full) } else { Ok(rows) }
    }

    /// Checks that the arrays are of the columns' types; returns the number of rows.
    fn check_columns(&self, columns: &[ArrayRef]) -> Result<usize, AppendError> {
        let expected = self.schema.columns.len();
        if columns.len() != expected {
            return Err(AppendError::ColumnCount { expected, found: columns.len() });
        }
        let rows = columns.first().map_or(0, |array| array.len());
        for (column, (array, def)) in columns.iter().zip(&self.schema.columns).enumerate() {
            if array.len() != rows {
                return Err(AppendError::Length { column });
            }
            if !is_accepted(def.ty, array.data_type()) {
                let (expected, found) = (def.ty.arrow(), array.data_type().clone());
                return Err(AppendError::Type { column, expected, found });
            }
            if !def.nullable && array.null_count() > 0 {
                let row = (0..rows).find(|&row| array.is_null(row)).unwrap_or(0);
                return Err(AppendError::Null { column, row });
            }
        }
        Ok(rows)
    }
}

impl Partition {
    /// Puts rows back under the ids they had, as [`crate::SegmentRef::batch`] and
    /// [`crate::SegmentRef::row_ids`] gave them: for recovery. No key is checked.
    ///
    /// Shape: `ids` ascend, all of one segment, in which the partition holds no row yet.
    /// Errors: see [`AppendError`]; nothing has changed then.
    /// Panics: if the partition has indexes, or `ids` are not as said.
    pub fn restore(&mut self, ids: &[RowId], columns: &[ArrayRef]) -> Result<(), AppendError> {
        assert!(self.indexes.is_empty(), "indexes are built once all rows are there");
        assert!(ids.is_sorted_by(|a, b| a < b), "row ids ascend");
        let count = self.check_columns(columns)?;
        assert_eq!(count, ids.len(), "an id per row");
        let Some(first) = ids.first() else {
            return Ok(());
        };
        let segment_idx = first.segment_idx();
        assert!(ids.iter().all(|id| id.segment_idx() == segment_idx), "rows of one segment");
        let slots: Vec<usize> = ids.iter().map(|id| id.slot()).collect();
        let schema = self.schema.clone();
        let directory = copies::own(&mut self.directory);
        directory.restore(&schema, segment_idx, &slots, |segment| {
            let (targets, heap) = segment.begin_load(count);
            for ((target, &def), array) in targets.iter_mut().zip(&schema.columns).zip(columns) {
                load_column(def, target, heap, array, 0, 0, count);
            }
        });
        Ok(())
    }
}

fn is_accepted(ty: Type, found: &DataType) -> bool {
    use DataType::{Binary, LargeBinary, LargeUtf8, Timestamp, Utf8};
    match (ty, found) {
        (Type::Text, Utf8 | LargeUtf8) | (Type::Bytes, Binary | LargeBinary) => true,
        // The zone's name does not matter: the numbers are UTC.
        (Type::TimestampTz, Timestamp(unit, Some(_))) => {
            *unit == arrow::datatypes::TimeUnit::Microsecond
        }
        _ => *found == ty.arrow(),
    }
}

/// Copies `count` values of `array` from `from` on into the slots from `slot` on.
fn load_column(
    def: ColumnDef,
    column: &mut Column,
    heap: &mut Heap,
    array: &ArrayRef,
    from: usize,
    slot: usize,
    count: usize,
) {
    let words = &mut column.words;
    let to = slot..slot + count;
    macro_rules! copy {
        ($words:expr, $arrow:ty, $word:ty) => {{
            let values = &array.as_primitive::<$arrow>().values()[from..from + count];
            $words[to].copy_from_slice(bytemuck::cast_slice::<_, $word>(values));
        }};
    }
    match def.ty {
        Type::Bool => {
            let bits = array.as_boolean().values();
            let words = words.bits_mut();
            (0..count).for_each(|at| set_bit(words, slot + at, bits.value(from + at)));
        }
        Type::Int16 => copy!(words.w2_mut(), Int16Type, i16),
        Type::Int32 => copy!(words.w4_mut(), Int32Type, i32),
        Type::Float32 => copy!(words.w4_mut(), Float32Type, i32),
        Type::Date => copy!(words.w4_mut(), Date32Type, i32),
        Type::Int64 => copy!(words.w8_mut(), Int64Type, i64),
        Type::Float64 => copy!(words.w8_mut(), Float64Type, i64),
        Type::Time => copy!(words.w8_mut(), Time64MicrosecondType, i64),
        Type::Timestamp | Type::TimestampTz => {
            copy!(words.w8_mut(), TimestampMicrosecondType, i64);
        }
        Type::Decimal { .. } => copy!(words.w16_mut(), Decimal128Type, u128),
        Type::Interval => {
            let values = &array.as_primitive::<IntervalMonthDayNanoType>().values()[from..];
            for (word, value) in words.w16_mut()[to].iter_mut().zip(values) {
                let (months, days, nanos) = (value.months, value.days, value.nanoseconds);
                *word = crate::value::Interval { months, days, nanos }.to_word();
            }
        }
        Type::Uuid => {
            let values = array.as_fixed_size_binary();
            for (at, word) in words.w16_mut()[to].iter_mut().enumerate() {
                let bytes = values.value(from + at).try_into().expect("UUIDs have 16 bytes");
                *word = u128::from_le_bytes(bytes);
            }
        }
        Type::Text | Type::Bytes => {
            load_strings(&mut words.w16_mut()[to], heap, array, from);
        }
    }
    if array.null_count() > 0 {
        load_nulls(def.ty, column, array, from, slot, count);
    } else if let Some(validity) = &mut column.validity {
        let validity = make_mut(validity);
        (slot..slot + count).for_each(|slot| set_bit(validity, slot, true));
    }
}

fn load_nulls(
    ty: Type,
    column: &mut Column,
    array: &ArrayRef,
    from: usize,
    slot: usize,
    count: usize,
) {
    for at in 0..count {
        let is_null = array.is_null(from + at);
        column.set_null(slot + at, is_null);
        if is_null {
            clear_word(&mut column.words, ty, slot + at);
        }
    }
}

/// Copies strings of any of Arrow's layouts into the heap, in one block of their own if they are
/// long.
fn load_strings(views: &mut [u128], heap: &mut Heap, array: &ArrayRef, from: usize) {
    match array.data_type() {
        DataType::Utf8 => load_from(views, heap, array.as_string::<i32>(), from),
        DataType::LargeUtf8 => load_from(views, heap, array.as_string::<i64>(), from),
        DataType::Utf8View => load_from(views, heap, array.as_string_view(), from),
        DataType::Binary => load_from(views, heap, array.as_binary::<i32>(), from),
        DataType::LargeBinary => load_from(views, heap, array.as_binary::<i64>(), from),
        DataType::BinaryView => load_from(views, heap, array.as_binary_view(), from),
        other => panic!("checked before: {other} is not text or bytes"),
    }
}

fn load_from<A: ArrayAccessor>(views: &mut [u128], heap: &mut Heap, array: A, from: usize)
where
    A::Item: AsRef<[u8]>,
{
    let count = views.len();
    let valid = |at: &usize| array.is_valid(from + at);
    let lens = (0..count).filter(valid).map(|at| array.value(from + at).as_ref().len());
    heap.reserve_for_load(lens.filter(|&len| len > INLINE_BYTES_MAX).sum());
    for (at, view) in views.iter_mut().enumerate() {
        *view = match array.is_valid(from + at) {
            true => heap.store(array.value(from + at).as_ref()),
            false => 0,
        };
    }
}
