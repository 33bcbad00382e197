//! Segments as Arrow arrays.
//!
//! A segment without holes is handed over as it is: each array refers to the segment's own memory,
//! which stays as long as the array does and is copied by the next writer. A segment with deleted
//! rows is gathered first.
//! Cost: O(columns) without holes, O(values) with.

use crate::row::RowRef;
use crate::segment::Segment;
use crate::text;
use crate::value::{ArrowType, Schema, Type, has_views};
use crate::vector::{Vector, bits_buffer, gather_bits, set_bits};
use arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, FixedSizeBinaryArray, PrimitiveArray, UInt32Array,
};
use arrow::datatypes::{
    ArrowPrimitiveType, Date32Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use halcyon_base::RowId;
use std::sync::Arc;

/// A segment of a partition, for reading.
#[derive(Clone, Copy)]
pub struct SegmentRef<'a> {
    schema: &'a Schema,
    segment: &'a Segment,
    segment_idx: usize,
}

/// Rows of one segment as Arrow arrays.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Number of rows, also where no column was asked for.
    pub row_count: usize,
    /// One array per column of the projection.
    pub columns: Vec<ArrayRef>,
}

impl<'a> SegmentRef<'a> {
    pub(crate) fn new(schema: &'a Schema, segment: &'a Segment, segment_idx: usize) -> Self {
        SegmentRef { schema, segment, segment_idx }
    }

    /// The segment's number in the partition.
    pub fn segment_idx(&self) -> usize {
        self.segment_idx
    }

    /// Number of rows in the segment.
    pub fn row_count(&self) -> usize {
        self.segment.live_count()
    }

    /// The segment's rows, by ascending id.
    pub fn rows(&self) -> impl Iterator<Item = RowRef<'a>> + use<'a> {
        let (schema, segment, segment_idx) = (self.schema, self.segment, self.segment_idx);
        set_bits(segment.live())
            .map(move |slot| RowRef::new(schema, segment, RowId::at(segment_idx, slot)))
    }

    /// The columns named by `projection`, all rows, by ascending row id.
    pub fn batch(&self, projection: &[usize]) -> Batch {
        let mut blocks: Option<Arc<[Buffer]>> = None;
        let columns = projection.iter().map(|&column| {
            let has_views = has_views(self.schema.columns[column].ty);
            let buffers =
                || Arc::clone(blocks.get_or_insert_with(|| self.segment.heap().buffers()));
            self.array(column, has_views.then(buffers))
        });
        let columns = columns.collect();
        Batch { row_count: self.row_count(), columns }
    }

    /// Between what values those of a column lie that are not NULL: integers, days, moments and times as they are,
    /// decimals unscaled. The first is greater than the second where all are NULL. `None`: the type has no such order,
    /// or a decimal does not fit 64 bits.
    ///
    /// Cost: O(rows) when nobody has asked since the last write, else O(1).
    pub fn zone(&self, column: usize) -> Option<(i64, i64)> {
        self.segment.zone(self.schema.columns[column].ty, column)
    }

    /// Whether a column of the segment may have NULLs.
    pub fn may_have_nulls(&self, column: usize) -> bool {
        self.segment.columns()[column].validity.is_some()
    }

    /// Ids of the rows of [`SegmentRef::batch`], as numbers.
    pub fn row_ids(&self) -> UInt32Array {
        let slots = set_bits(self.segment.live());
        UInt32Array::from_iter_values(slots.map(|slot| RowId::at(self.segment_idx, slot).0))
    }

    fn array(&self, column: usize, blocks: Option<Arc<[Buffer]>>) -> ArrayRef {
        let (ty, count) = (self.schema.columns[column].ty, self.row_count());
        let column = &self.segment.columns()[column];
        let without_holes = count == self.segment.used();
        if without_holes {
            let validity = column.validity.as_ref().map(|words| bits_buffer(words, count));
            return array(ty, &column.words, count, nulls(validity), blocks);
        }
        let live = self.segment.live();
        let validity = column.validity.as_ref();
        let validity = validity.map(|words| bits_buffer(&gather_bits(words, live, count), count));
        array(ty, &column.words.gather(live, count), count, nulls(validity), blocks)
    }
}

fn nulls(validity: Option<BooleanBuffer>) -> Option<NullBuffer> {
    validity.map(NullBuffer::new).filter(|nulls| nulls.null_count() > 0)
}

fn primitive<T: ArrowPrimitiveType>(
    words: &Vector,
    count: usize,
    nulls: Option<NullBuffer>,
) -> PrimitiveArray<T> {
    PrimitiveArray::new(ScalarBuffer::new(words.buffer(), 0, count), nulls)
}

/// The first `count` words of a column as an array; `blocks` are the heap's, for views.
#[allow(unsafe_code)]
fn array(
    ty: Type,
    words: &Vector,
    count: usize,
    nulls: Option<NullBuffer>,
    blocks: Option<Arc<[Buffer]>>,
) -> ArrayRef {
    let views = || ScalarBuffer::<u128>::new(words.buffer(), 0, count);
    let blocks = blocks.unwrap_or_default();
    match ty {
        Type::Bool => {
            Arc::new(BooleanArray::new(BooleanBuffer::new(words.buffer(), 0, count), nulls))
        }
        Type::Int16 => Arc::new(primitive::<Int16Type>(words, count, nulls)),
        Type::Int32 => Arc::new(primitive::<Int32Type>(words, count, nulls)),
        Type::Int64 => Arc::new(primitive::<Int64Type>(words, count, nulls)),
        Type::Float32 => Arc::new(primitive::<Float32Type>(words, count, nulls)),
        Type::Float64 => Arc::new(primitive::<Float64Type>(words, count, nulls)),
        Type::Decimal { precision, scale } => {
            let array: Decimal128Array = primitive(words, count, nulls);
            let array = array.with_precision_and_scale(precision, scale);
            Arc::new(array.expect("a column's precision and scale are possible"))
        }
        // SAFETY: words below `count` are views of live rows, all of them 0 (NULL) or from
        // `Heap::store` of this segment's heap, and a text column is filled from `&str` alone.
        Type::Text => Arc::new(unsafe { text::string_array(views(), blocks, nulls) }),
        // SAFETY: as for text; any bytes will do.
        Type::Bytes => Arc::new(unsafe { text::binary_array(views(), blocks, nulls) }),
        Type::Date => Arc::new(primitive::<Date32Type>(words, count, nulls)),
        Type::Time => Arc::new(primitive::<Time64MicrosecondType>(words, count, nulls)),
        Type::Timestamp => Arc::new(primitive::<TimestampMicrosecondType>(words, count, nulls)),
        Type::TimestampTz => {
            let array = primitive::<TimestampMicrosecondType>(words, count, nulls);
            Arc::new(array.with_data_type(ty.arrow()))
        }
        Type::Interval => Arc::new(primitive::<IntervalMonthDayNanoType>(words, count, nulls)),
        Type::Uuid => {
            let bytes = words.buffer().slice_with_length(0, count * 16);
            Arc::new(FixedSizeBinaryArray::new(16, bytes, nulls))
        }
    }
}
