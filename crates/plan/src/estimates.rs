//! Estimates for the planner: a table's row count, its bytes, and ranges of values of its columns.
//!
//! Row counts are those of the roots. Ranges come from a sample of segments, evenly spread and
//! including the first and the last, in which keys that grow with time have their ends. A range may
//! still be too narrow, and everything is declared inexact: estimates choose between plans and
//! never answer a query. (Exact figures would also be wrong as soon as a kept plan runs over a
//! later snapshot.)
//!
//! Ranges matter for joins: without them a join is estimated to yield no more rows than the smaller
//! side has, and the larger side is put into the hash table. The range of a key column bounds how
//! many values the column can have.
//! Cost: O(columns × SAMPLED_SEGMENTS × segment), once per physical plan.

use arrow::array::{Array, AsArray};
use arrow::compute::{max, min};
use arrow::datatypes::{
    DataType, Date32Type, Fields, Int16Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use halcyon_store::Partition;

use halcyon_catalog::Table;
use halcyon_sql::types::SqlType;

/// Number of segments of a table that are sampled.
const SAMPLED_SEGMENTS: usize = 16;

/// Estimates for the columns `projection` of `table`, whose types are those of `fields`.
pub(crate) fn statistics(
    table: &Table,
    roots: &[triomphe::Arc<Partition>],
    projection: &[usize],
    fields: &Fields,
) -> Statistics {
    let rows: u64 = roots.iter().map(|root| root.row_count()).sum();
    let samples = samples(roots);
    let column = |(&column, field): (&usize, &std::sync::Arc<arrow::datatypes::Field>)| {
        let ty = table.columns.get(column).map(|column| column.ty);
        let bytes = rows * width(ty, field.data_type());
        let range = ty.and_then(|_| range(&samples, column, field.data_type()));
        let (min_value, max_value) = range.unzip();
        let known =
            |value: Option<ScalarValue>| value.map_or(Precision::Absent, Precision::Inexact);
        ColumnStatistics {
            min_value: known(min_value),
            max_value: known(max_value),
            distinct_count: match is_unique(table, column) {
                true => Precision::Inexact(rows as usize),
                false => Precision::Absent,
            },
            byte_size: Precision::Inexact(bytes as usize),
            ..ColumnStatistics::new_unknown()
        }
    };
    let columns: Vec<_> = projection.iter().zip(fields.iter()).map(column).collect();
    let bytes = columns.iter().filter_map(|column| column.byte_size.get_value()).sum();
    Statistics {
        num_rows: Precision::Inexact(rows as usize),
        total_byte_size: Precision::Inexact(bytes),
        column_statistics: columns,
    }
}

/// (partition, segment) of the sample.
fn samples(roots: &[triomphe::Arc<Partition>]) -> Vec<(&Partition, usize)> {
    let all: usize = roots.iter().map(|root| root.segment_count()).sum();
    let count = all.min(SAMPLED_SEGMENTS);
    let mut wanted = (0..count).map(|n| n * (all - 1) / (count - 1).max(1)).peekable();
    let mut before = 0;
    let mut samples = Vec::with_capacity(count);
    for root in roots {
        let end = before + root.segment_count();
        while let Some(number) = wanted.next_if(|&number| number < end) {
            samples.push((&**root, number - before));
        }
        before = end;
    }
    samples
}

/// Least and greatest value in the sample, for types whose range bounds the number of values.
fn range(
    samples: &[(&Partition, usize)],
    column: usize,
    ty: &DataType,
) -> Option<(ScalarValue, ScalarValue)> {
    let countable = matches!(
        ty,
        DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Date32
            | DataType::Timestamp(TimeUnit::Microsecond, None)
    );
    if !countable {
        return None;
    }
    let segments = samples.iter().filter_map(|(root, segment)| root.segment(*segment));
    segments.filter_map(|segment| ends(segment.batch(&[column]).columns[0].as_ref())).reduce(
        |(low, high), (least, greatest)| {
            (if least < low { least } else { low }, if greatest > high { greatest } else { high })
        },
    )
}

fn ends(array: &dyn Array) -> Option<(ScalarValue, ScalarValue)> {
    macro_rules! ends {
        ($ty:ty, $scalar:expr) => {{
            let array = array.as_primitive::<$ty>();
            Some(($scalar(min(array)?), $scalar(max(array)?)))
        }};
    }
    match array.data_type() {
        DataType::Int16 => ends!(Int16Type, |value| ScalarValue::Int16(Some(value))),
        DataType::Int32 => ends!(Int32Type, |value| ScalarValue::Int32(Some(value))),
        DataType::Int64 => ends!(Int64Type, |value| ScalarValue::Int64(Some(value))),
        DataType::Date32 => ends!(Date32Type, |value| ScalarValue::Date32(Some(value))),
        _ => ends!(TimestampMicrosecondType, |value| {
            ScalarValue::TimestampMicrosecond(Some(value), None)
        }),
    }
}

fn is_unique(table: &Table, column: usize) -> bool {
    table.indexes.iter().any(|index| {
        index.unique && matches!(index.columns.as_slice(), [only] if only.column as usize == column)
    })
}

/// Bytes of a value. A string takes a view, and as much again if it may be too long to lie within
/// the view.
fn width(ty: Option<SqlType>, data_type: &DataType) -> u64 {
    const VIEW: u64 = 16;
    // A length in characters is taken for bytes: right for ASCII, a guess otherwise.
    const MAX_INLINE_VIEW_LEN: u32 = 12;
    match (ty, data_type) {
        (Some(SqlType::Char(Some(max)) | SqlType::Varchar(Some(max))), _)
            if max <= MAX_INLINE_VIEW_LEN =>
        {
            VIEW
        }
        (
            _,
            DataType::Utf8View | DataType::BinaryView | DataType::LargeUtf8 | DataType::LargeBinary,
        ) => 2 * VIEW,
        (_, other) => other.primitive_width().unwrap_or(16) as u64,
    }
}
