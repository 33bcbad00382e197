//! Columns in types that other libraries work with: pandas and polars know neither calendar intervals nor UUIDs, and much
//! of pyarrow and pandas takes no views of texts.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, DurationMicrosecondArray, RecordBatch, RecordBatchOptions,
    StringArray,
};
use arrow::compute::cast;
use arrow::datatypes::*;
use arrow::error::ArrowError;
use halcyon::{SqlType, TextFormat};
use halcyon_interchange::cells::cell;
use halcyon_interchange::results::plain;

const DAY_US: i64 = 86_400_000_000;

/// What becomes of a column.
#[derive(Clone, Copy)]
enum Becomes {
    Itself,
    Duration,
    Text(SqlType),
    /// Texts or bytes one behind the other, by a copy.
    Plain,
}

/// What other libraries do not work with.
#[derive(Clone, Copy)]
pub struct Without {
    /// Calendar intervals and UUIDs.
    pub calendar: bool,
    /// Views of texts and bytes.
    pub views: bool,
}

/// The schema and the batches of a table for another library. Columns that stay as they are are shared.
///
/// Errors: more than 2 GiB of text in one column of a batch, which plain texts cannot have.
pub fn of(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    without: Without,
) -> Result<(SchemaRef, Vec<RecordBatch>), ArrowError> {
    let columns = || schema.fields().iter().enumerate();
    let becomes: Vec<Becomes> = columns()
        .map(|(at, field)| match field.data_type() {
            DataType::Utf8View | DataType::BinaryView if without.views => Becomes::Plain,
            _ if !without.calendar => Becomes::Itself,
            DataType::Interval(_) => {
                match batches.iter().all(|batch| is_length(batch.column(at))) {
                    true => Becomes::Duration,
                    false => Becomes::Text(SqlType::Interval),
                }
            }
            DataType::FixedSizeBinary(16) => Becomes::Text(SqlType::Uuid),
            _ => Becomes::Itself,
        })
        .collect();
    let fields: Vec<FieldRef> = columns()
        .map(|(at, field)| match becomes[at] {
            Becomes::Itself => field.clone(),
            Becomes::Duration => retyped(field, DataType::Duration(TimeUnit::Microsecond)),
            Becomes::Text(_) => retyped(field, DataType::Utf8),
            Becomes::Plain => retyped(field, plain(field.data_type())),
        })
        .collect();
    // A batch's own schema has arrays as texts still.
    let convert = |batch: &RecordBatch| {
        let arrays = batch.columns().iter().zip(&becomes);
        let arrays: Vec<ArrayRef> =
            arrays.map(|(array, becomes)| column(array, *becomes)).collect::<Result<_, _>>()?;
        let own = batch.schema();
        let own = own.fields().iter().zip(&arrays);
        let own = own.map(|(field, array)| retyped(field, array.data_type().clone()));
        let own = Arc::new(Schema::new(own.collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(own, arrays, &options)
    };
    Ok((Arc::new(Schema::new(fields)), batches.iter().map(convert).collect::<Result<_, _>>()?))
}

fn retyped(field: &FieldRef, ty: DataType) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(ty))
}

/// Whether intervals have a length that does not depend on the calendar, and that fits microseconds.
fn is_length(array: &ArrayRef) -> bool {
    let intervals = array.as_primitive::<IntervalMonthDayNanoType>();
    intervals.iter().flatten().all(|interval| interval.months == 0)
}

fn column(array: &ArrayRef, becomes: Becomes) -> Result<ArrayRef, ArrowError> {
    Ok(match becomes {
        Becomes::Itself => array.clone(),
        Becomes::Plain => cast(array, &plain(array.data_type()))?,
        Becomes::Duration => {
            let intervals = array.as_primitive::<IntervalMonthDayNanoType>();
            let length = |interval: IntervalMonthDayNano| {
                i64::from(interval.days) * DAY_US + interval.nanoseconds / 1000
            };
            let lengths = intervals.iter().map(|interval| interval.map(length));
            Arc::new(lengths.collect::<DurationMicrosecondArray>())
        }
        Becomes::Text(ty) => {
            let format = TextFormat::default();
            let text =
                |row| array.is_valid(row).then(|| format.text(cell(array.as_ref(), row), ty));
            Arc::new((0..array.len()).map(text).collect::<StringArray>())
        }
    })
}
