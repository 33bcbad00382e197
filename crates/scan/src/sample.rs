//! A few rows of each table, on which conditions are tried and distinct values are counted before a plan is chosen.
//!
//! A sample has at most [`ROWS`] rows: all of a small table, else some of each of [`SEGMENTS`] segments that are
//! evenly spread. It stays until the table has grown or shrunk by a tenth, or [`AGE_MOST`] has gone by, and holds
//! the columns that statements have asked for so far; all samples together have [`ALL_BYTES_MAX`]. Its texts are copies, so that no writer meets a vector that
//! a sample refers to.
//!
//! A share of rows that is tried needs no histogram, knows how columns depend on one another, and holds for LIKE and
//! CASE as for `<`; that costs writers nothing, where sketches kept by segment would. What it cannot see is a share
//! below one row of the sample: there the number of distinct values says how many rows have one of them.
//!
//! Source of the estimate of distinct values: Haas and Stokes, "Estimating the number of classes in a finite
//! population" (1998), estimator Duj1, which PostgreSQL takes too.
//! Cost: O(segments of the sample) a column, in a millisecond or two; afterwards O(rows) for a condition.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array, new_empty_array};
use arrow::compute::{concat, take};
use arrow::datatypes::DataType;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::common::{Result, ScalarValue};
use halcyon_base::clock::{self, Moment};
use halcyon_base::ids::TableId;
use halcyon_base::rng::Rng;
use halcyon_store::Partition;
use parking_lot::Mutex;

use crate::conditions::{Condition, Rows, may_be_tried};
use crate::ranges;
use crate::typed::typed;
use crate::wide;
use halcyon_catalog::Table;

/// Rows of a sample.
pub const ROWS: usize = 8_192;
/// Segments that a sample's rows are taken from.
const SEGMENTS: usize = 512;
/// Rows on which a condition is tried.
const TRIED: usize = 4_096;
/// How long a sample stays.
const AGE_MOST: Duration = Duration::from_secs(30);
/// Bytes that a column of a sample may have; a column that has more is not sampled.
const BYTES_MAX: u64 = 1 << 20;
/// Bytes of all samples that are kept.
const ALL_BYTES_MAX: u64 = 64 << 20;

/// The share of rows that a condition is taken to keep if it cannot be tried.
const UNKNOWN_SHARE: f64 = 0.2;

/// Samples of a database's tables.
#[derive(Default)]
pub struct Samples(Mutex<HashMap<TableId, Arc<Sample>>>);

impl Samples {
    /// The sample of a table that has these roots, with at least the columns asked for.
    pub(crate) fn of(
        &self,
        table: &Arc<Table>,
        roots: &[triomphe::Arc<Partition>],
        columns: &[usize],
    ) -> Result<Arc<Sample>> {
        let rows = roots.iter().map(|root| root.row_count()).sum();
        let now = clock::now();
        let kept = self.0.lock().get(&table.id).cloned();
        let kept = kept.filter(|sample| sample.fits(table, rows, now));
        let mut wanted: Vec<usize> = columns.to_vec();
        if let Some(sample) = kept {
            if columns.iter().all(|column| sample.columns.contains_key(column)) {
                return Ok(sample);
            }
            wanted.extend(sample.columns.keys());
        }
        wanted.sort_unstable();
        wanted.dedup();
        let sample = Arc::new(Sample::draw(table, roots, rows, &wanted, now)?);
        let mut all = self.0.lock();
        all.retain(|id, sample| *id != table.id && sample.table.strong_count() > 0);
        if all.values().map(|sample| sample.bytes).sum::<u64>() + sample.bytes > ALL_BYTES_MAX {
            all.clear();
        }
        if sample.bytes <= ALL_BYTES_MAX {
            all.insert(table.id, Arc::clone(&sample));
        }
        Ok(sample)
    }
}

/// Some rows of a table.
pub struct Sample {
    /// The definition that the columns are of.
    table: Weak<Table>,
    /// Rows that the table had.
    table_rows: u64,
    taken: Moment,
    /// Rows of the sample.
    rows: usize,
    columns: HashMap<usize, Sampled>,
    /// Memory of the columns' values.
    bytes: u64,
}

struct Sampled {
    /// `None`: its values are too long.
    values: Option<ArrayRef>,
    distinct: OnceLock<f64>,
    range: Option<(ScalarValue, ScalarValue)>,
}

impl Sample {
    fn fits(&self, table: &Arc<Table>, rows: u64, now: Moment) -> bool {
        self.table.as_ptr() == Arc::as_ptr(table)
            && self.table_rows.abs_diff(rows) <= self.table_rows / 10
            && now.since(self.taken) < AGE_MOST
    }

    fn draw(
        table: &Arc<Table>,
        roots: &[triomphe::Arc<Partition>],
        table_rows: u64,
        columns: &[usize],
        taken: Moment,
    ) -> Result<Self> {
        let places = places(roots, table_rows);
        let fields = table.arrow.fields();
        let mut pieces: Vec<Option<Vec<ArrayRef>>> = vec![Some(Vec::new()); columns.len()];
        let mut bytes = vec![0; columns.len()];
        for place in &places {
            if bytes.iter().all(|&bytes| bytes > BYTES_MAX) {
                break;
            }
            let Some(segment) = roots[place.partition].segment(place.segment) else { continue };
            let read = segment.batch(columns).columns;
            for (at, values) in read.into_iter().enumerate() {
                let Some(pieces) = &mut pieces[at] else { continue };
                let values = take(&values, &place.rows, None)?;
                bytes[at] += wide::total(&values);
                match bytes[at] > BYTES_MAX {
                    true => drop(std::mem::take(pieces)),
                    false => pieces.push(copied(typed(values, fields[columns[at]].data_type())?)),
                }
            }
        }
        for (pieces, bytes) in pieces.iter_mut().zip(&bytes) {
            *pieces = pieces.take().filter(|_| *bytes <= BYTES_MAX);
        }
        let rows = places.iter().map(|place| place.rows.len()).sum();
        let mut drawn = HashMap::with_capacity(columns.len());
        for (&column, pieces) in columns.iter().zip(pieces) {
            let values = pieces.map(|pieces| {
                let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
                match pieces.is_empty() {
                    true => Ok(new_empty_array(fields[column].data_type())),
                    false => concat(&pieces),
                }
            });
            let values = values.transpose()?;
            let range = ranges::range(roots, column, fields[column].data_type());
            drawn.insert(column, Sampled { values, distinct: OnceLock::new(), range });
        }
        let table = Arc::downgrade(table);
        let values = drawn.values().filter_map(|sampled: &Sampled| sampled.values.as_ref());
        let bytes = values.map(|values| values.get_array_memory_size() as u64).sum();
        Ok(Sample { table, table_rows, taken, rows, columns: drawn, bytes })
    }

    fn values(&self, column: usize) -> Option<&ArrayRef> {
        self.columns.get(&column)?.values.as_ref()
    }

    /// About how many different values a column of the table has, NULL not counted.
    pub(crate) fn distinct(&self, column: usize) -> Option<f64> {
        let sampled = self.columns.get(&column)?;
        let values = sampled.values.as_ref()?;
        Some(*sampled.distinct.get_or_init(|| distinct(values, self.table_rows)))
    }

    /// About the least and the greatest value of a column.
    pub(crate) fn range(&self, column: usize) -> Option<(ScalarValue, ScalarValue)> {
        self.columns.get(&column)?.range.clone()
    }

    /// The share of rows of a column that are NULL.
    pub(crate) fn nulls(&self, column: usize) -> Option<f64> {
        let values = self.values(column)?;
        (!values.is_empty()).then(|| values.null_count() as f64 / values.len() as f64)
    }

    /// The share of the table's rows for which all conditions are true; `columns`: the columns of the table that
    /// conditions know by their places.
    pub(crate) fn share(&self, conditions: &[Condition], columns: &[usize]) -> f64 {
        let tried = |condition: &&Condition| {
            may_be_tried(condition.expr())
                && condition.columns().iter().all(|&place| self.values(columns[place]).is_some())
        };
        let (tried, others): (Vec<&Condition>, Vec<_>) = conditions.iter().partition(tried);
        let untried = UNKNOWN_SHARE.powi(others.len().min(3) as i32);
        let rows = self.rows.min(TRIED);
        if tried.is_empty() || rows == 0 {
            return untried;
        }
        let is_whole = rows as u64 == self.table_rows;
        // Evenly spread: what lies together in a table is alike.
        let numbers = (0..rows).map(|row| (row * self.rows / rows) as u32);
        let numbers = (rows < self.rows).then(|| UInt32Array::from_iter_values(numbers));
        let mut read = |place: usize| {
            let values = self.values(columns[place]).expect("asked before");
            Ok(match &numbers {
                Some(numbers) => take(values, numbers, None)?,
                None => Arc::clone(values),
            })
        };
        let fixed: Vec<Condition> = tried.into_iter().cloned().collect();
        let mut left = Rows::new(rows, columns.len(), &mut read);
        let schema = arrow::datatypes::Schema::empty();
        if left.keep_all(&fixed, &mut [], &schema).is_err() {
            return untried * UNKNOWN_SHARE;
        }
        let left = left.left();
        let share = match left {
            0 if is_whole => 0.0,
            0 => self.share_of_one(&fixed, columns).min(0.5 / rows as f64),
            left => left as f64 / rows as f64,
        };
        share * untried
    }

    /// The share of rows that has one value of each column that conditions name: a bound where no row of the
    /// sample is kept.
    fn share_of_one(&self, conditions: &[Condition], columns: &[usize]) -> f64 {
        let named = conditions.iter().flat_map(Condition::columns);
        let distinct = named.filter_map(|&place| self.distinct(columns[place]));
        1.0 / distinct.fold(1.0, f64::max)
    }
}

/// A segment whose rows are sampled.
struct Place {
    partition: usize,
    segment: usize,
    rows: UInt32Array,
}

/// Where the rows of a sample lie.
fn places(roots: &[triomphe::Arc<Partition>], table_rows: u64) -> Vec<Place> {
    let all = roots.iter().enumerate().flat_map(|(partition, root)| {
        (0..root.segment_count()).filter_map(move |segment| {
            let rows = root.segment(segment)?.row_count();
            (rows > 0).then_some((partition, segment, rows))
        })
    });
    let all: Vec<(usize, usize, usize)> = all.collect();
    if table_rows <= ROWS as u64 {
        let whole = |(partition, segment, count)| {
            let rows = UInt32Array::from_iter_values(0..count as u32);
            Place { partition, segment, rows }
        };
        return all.into_iter().map(whole).collect();
    }
    // The same table gives the same sample, so that plans can be compared.
    let mut rng = Rng::new(table_rows);
    let chosen = all.len().min(SEGMENTS);
    let each = ROWS.div_ceil(chosen);
    let mut places = Vec::with_capacity(chosen);
    for number in 0..chosen {
        let (from, to) = (number * all.len() / chosen, (number + 1) * all.len() / chosen);
        let (partition, segment, rows) = all[from + rng.below((to - from) as u64) as usize];
        let count = each.min(rows);
        let row = |n: usize| {
            let (from, to) = (n * rows / count, (n + 1) * rows / count);
            (from as u64 + rng.below((to - from) as u64)) as u32
        };
        let rows = UInt32Array::from_iter_values((0..count).map(row));
        places.push(Place { partition, segment, rows });
    }
    places
}

/// An array that refers to no memory of a segment.
fn copied(values: ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Utf8View => Arc::new(values.as_string_view().gc()),
        DataType::BinaryView => Arc::new(values.as_binary_view().gc()),
        _ => values,
    }
}

/// About how many different values a table of `table_rows` rows has, of which `values` is a sample.
fn distinct(values: &ArrayRef, table_rows: u64) -> f64 {
    let mut hashes = vec![0; values.len()];
    if create_hashes([values], &RandomState::with_seed(0), &mut hashes).is_err() {
        return (table_rows as f64).max(1.0);
    }
    let mut hashes: Vec<u64> = match values.nulls() {
        Some(nulls) => nulls.valid_indices().map(|row| hashes[row]).collect(),
        None => hashes,
    };
    hashes.sort_unstable();
    let (mut different, mut once) = (0.0, 0.0);
    for run in hashes.chunk_by(|a, b| a == b) {
        different += 1.0;
        once += if run.len() == 1 { 1.0 } else { 0.0 };
    }
    let (sampled, rows) = (hashes.len() as f64, table_rows as f64);
    if sampled == 0.0 {
        return 1.0;
    }
    // NULLs stay out: their share of the table is that of the sample.
    let rows = rows * sampled / values.len() as f64;
    let estimate = sampled * different / (sampled - once + once * sampled / rows);
    estimate.clamp(different, rows.max(different))
}

#[cfg(test)]
mod tests;
