//! Ranges of the values of columns, of a few segments: evenly spread, the first and the last among them, in which keys
//! that grow with time have their ends. A range may still be too narrow.
//!
//! Cost: O(SAMPLED_SEGMENTS × segment) a column, once per sample.

use arrow::array::{Array, AsArray};
use arrow::compute::{max, min};
use arrow::datatypes::{
    DataType, Date32Type, Int16Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::ScalarValue;
use halcyon_store::Partition;

/// Number of segments of a table whose ranges are looked at.
const SAMPLED_SEGMENTS: usize = 16;

/// The segments looked at.
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

/// Least and greatest value of a column, in the segments looked at, for types whose range bounds the number of
/// values.
pub(crate) fn range(
    roots: &[triomphe::Arc<Partition>],
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
    let samples = samples(roots);
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
