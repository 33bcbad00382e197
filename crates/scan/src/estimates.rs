//! Estimates for the planner: how many rows a scan gives, their bytes, and of each column the range of its values
//! and how many different ones there are.
//!
//! Row counts are those of the roots, times the share of rows that conditions keep in a sample ([`crate::sample`]).
//! Everything is declared inexact: estimates choose between plans and never answer a query. (Exact figures would also
//! be wrong as soon as a kept plan runs over a later snapshot.)

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use halcyon_store::Partition;

use crate::conditions::Condition;
use crate::sample::Sample;
use halcyon_catalog::Table;
use halcyon_sql::types::SqlType;

/// What is estimated of a scan's rows.
pub(crate) struct Estimates {
    table: Arc<Table>,
    /// Rows of the table.
    rows: u64,
    /// Columns of the table that the scan reads, and their fields.
    read: Vec<usize>,
    schema: SchemaRef,
    /// `None`: the table's rows are not known yet.
    sample: Option<Arc<Sample>>,
}

impl Estimates {
    pub(crate) fn new(
        table: &Arc<Table>,
        roots: &[triomphe::Arc<Partition>],
        read: &[usize],
        schema: &SchemaRef,
        sample: Option<Arc<Sample>>,
    ) -> Self {
        let rows = roots.iter().map(|root| root.row_count()).sum();
        let (table, schema) = (Arc::clone(table), Arc::clone(schema));
        Estimates { table, rows, read: read.to_vec(), schema, sample }
    }

    /// Of all rows and columns.
    pub(crate) fn of_all(&self) -> Statistics {
        let all: Vec<usize> = (0..self.read.len()).collect();
        self.of(&[], &all)
    }

    /// Of the rows that conditions keep, and of the columns read that are given.
    pub(crate) fn of(&self, conditions: &[Condition], given: &[usize]) -> Statistics {
        let share = match (&self.sample, conditions) {
            (Some(sample), [_, ..]) => sample.share(conditions, &self.read),
            _ => 1.0,
        };
        let rows = (self.rows as f64 * share).ceil() as usize;
        let columns: Vec<_> = given.iter().map(|&place| self.column(place, rows)).collect();
        let bytes = columns.iter().filter_map(|column| column.byte_size.get_value()).sum();
        Statistics {
            num_rows: Precision::Inexact(rows),
            total_byte_size: Precision::Inexact(bytes),
            column_statistics: columns,
        }
    }

    fn column(&self, place: usize, rows: usize) -> ColumnStatistics {
        let column = self.read[place];
        let ty = self.table.columns.get(column).map(|column| column.ty);
        let bytes = rows as u64 * width(ty, self.schema.field(place).data_type());
        let sample = self.sample.as_ref();
        let (min_value, max_value) = sample.and_then(|sample| sample.range(column)).unzip();
        let known =
            |value: Option<ScalarValue>| value.map_or(Precision::Absent, Precision::Inexact);
        let distinct = match is_unique(&self.table, column) {
            true => Some(self.rows as f64),
            false => sample.and_then(|sample| sample.distinct(column)),
        };
        let nulls = sample.and_then(|sample| sample.nulls(column));
        ColumnStatistics {
            min_value: known(min_value),
            max_value: known(max_value),
            distinct_count: distinct.map_or(Precision::Absent, |distinct| {
                Precision::Inexact(left_of(distinct, self.rows as f64, rows as f64) as usize)
            }),
            null_count: nulls.map_or(Precision::Absent, |share| {
                Precision::Inexact((rows as f64 * share) as usize)
            }),
            byte_size: Precision::Inexact(bytes as usize),
            ..ColumnStatistics::new_unknown()
        }
    }
}

/// Different values among `left` of `rows` rows that have `distinct` of them: each value is left out if all of its
/// rows are (Cardenas 1975).
fn left_of(distinct: f64, rows: f64, left: f64) -> f64 {
    if distinct < 1.0 || left >= rows {
        return distinct.ceil();
    }
    let all_out = (1.0 - left / rows).powf(rows / distinct);
    (distinct * (1.0 - all_out)).ceil().clamp(1.0, left.max(1.0))
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
