//! What a join has found: which keys can have a match. Scans on the side that looks up leave out the rows of others.
//!
//! Keys of one integer that lie near each other are a bitmap, all others a Bloom filter, whose words of 64 bits have
//! six bits for a key (Putze, Sanders and Singler, *Cache-, Hash- and Space-Efficient Bloom Filters*, 2007, §3.1).
//!
//! Invariant, checked by `no_key_in_the_table_is_left_out`: every key of the table is found.

use std::fmt;
use std::future::poll_fn;
use std::hash::{Hash, Hasher as StdHasher};
use std::ops::Not;
use std::sync::Arc;
use std::task::{Poll, Waker};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Int16Type, Int32Type, Int64Type, Schema,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, DynamicFilterPhysicalExpr, lit};
use halcyon_task::proceed;
use parking_lot::Mutex;

use crate::joins::build::{Build, nulls};
use crate::joins::plan::Join;
use crate::keys::Rows;
use crate::layout::WORDS_MAX;

/// Rows of a table of which nothing is told: a scan would rarely leave out enough.
const ROWS_MOST: usize = 1 << 23;
/// Bits of a bitmap for a row of the table, and bits that it may have in any case.
const BITS_PER_ROW: u64 = 64;
const BITS_ALWAYS: u64 = 1 << 20;
/// Rows whose keys are taken in one step.
const KEYS_STEP: usize = 1 << 15;

/// Tables of one join, of all its outputs, and who waits until all are there.
#[derive(Debug)]
pub(crate) struct Findings {
    join: Arc<Join>,
    source: Arc<DynamicFilterPhysicalExpr>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Outputs whose tables are to come.
    missing: usize,
    tables: Vec<Arc<dyn Table>>,
    /// Whether all is told that will be.
    is_told: bool,
    waiting: Vec<Waker>,
}

/// A table whose keys are asked for.
pub(crate) trait Table: Send + Sync + fmt::Debug {
    /// Keys.
    fn len(&self) -> usize;
    /// The least and the greatest key, by column of the key.
    fn ranges(&self) -> Vec<Option<(ScalarValue, ScalarValue)>>;
    /// The least and the greatest integer, if keys are integers.
    fn integers(&self) -> Option<(i64, i64)>;
    /// Puts the keys of the rows from `from` on into a filter. Returns the row behind them; `None` once all are.
    fn put(&self, from: usize, into: &mut Filter) -> Option<usize>;
}

impl<const N: usize> fmt::Debug for Build<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a table of {} rows", self.rows())
    }
}

impl<const N: usize> Table for Build<N> {
    fn len(&self) -> usize {
        self.rows()
    }

    fn ranges(&self) -> Vec<Option<(ScalarValue, ScalarValue)>> {
        let layout = &self.join.layout;
        let range = |column: usize| {
            let (least, greatest) = layout.range(column, self.keys())?;
            let value =
                |key: [u64; N]| ScalarValue::try_from_array(&layout.decode(column, &[key]), 0);
            Some((value(least).ok()?, value(greatest).ok()?))
        };
        (0..layout.columns()).map(range).collect()
    }

    fn integers(&self) -> Option<(i64, i64)> {
        let layout = &self.join.layout;
        if !layout.is_integer() {
            return None;
        }
        let mut keys = self.keys().map(|key| layout.integer(key));
        let first = keys.next()?;
        Some(
            keys.fold((first, first), |(least, greatest), key| (least.min(key), greatest.max(key))),
        )
    }

    fn put(&self, from: usize, into: &mut Filter) -> Option<usize> {
        let end = (from + KEYS_STEP).min(self.rows());
        for key in self.keys_of(from..end) {
            match into {
                Filter::Bits { least, bits } => {
                    let place = self.join.layout.integer(key).abs_diff(*least);
                    bits[(place / 64) as usize] |= 1 << (place % 64);
                }
                Filter::Bloom(words) => {
                    let (word, bits) = bloom(self.join.hasher.key(key), words.len());
                    words[word] |= bits;
                }
            }
        }
        (end < self.rows()).then_some(end)
    }
}

/// Which keys are there.
#[derive(Debug)]
pub(crate) enum Filter {
    /// A bit for each integer from `least` on.
    Bits { least: i64, bits: Vec<u64> },
    /// As many words as a power of two.
    Bloom(Vec<u64>),
}

/// The word of a hash, and its bits there.
fn bloom(hash: u64, words: usize) -> (usize, u64) {
    let bit = |at: u32| 1 << (hash >> (at * 6) & 63);
    let bits = bit(0) | bit(1) | bit(2) | bit(3) | bit(4) | bit(5);
    // The table takes the lowest bits, tags the uppermost.
    ((hash >> 28) as usize & (words - 1), bits)
}

impl Findings {
    /// Findings of a join with so many tables.
    pub(crate) fn new(
        join: &Arc<Join>,
        source: &Arc<DynamicFilterPhysicalExpr>,
        tables: usize,
    ) -> Arc<Self> {
        let state =
            State { missing: tables, tables: Vec::new(), is_told: false, waiting: Vec::new() };
        let (join, source) = (Arc::clone(join), Arc::clone(source));
        Arc::new(Findings { join, source, state: Mutex::new(state) })
    }

    /// Brings a table, and waits until all are there.
    ///
    /// Errors: those of expressions.
    pub(crate) async fn bring(&self, table: Arc<dyn Table>) -> Result<()> {
        let tables = {
            let mut state = self.state.lock();
            if state.is_told {
                return Ok(());
            }
            state.tables.push(table);
            state.missing -= 1;
            (state.missing == 0).then(|| std::mem::take(&mut state.tables))
        };
        if let Some(tables) = tables {
            let told = self.tell(tables).await;
            self.end();
            return told;
        }
        poll_fn(|polled| {
            let mut state = self.state.lock();
            match state.is_told {
                true => Poll::Ready(()),
                false => {
                    state.waiting.push(polled.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await;
        Ok(())
    }

    /// A table will not come: nothing is told, and nobody waits.
    pub(crate) fn give_up(&self) {
        self.end();
    }

    fn end(&self) {
        let waiting = {
            let mut state = self.state.lock();
            state.is_told = true;
            // Nothing is told of them any more.
            state.tables.clear();
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Tells the scans which keys are there.
    async fn tell(&self, tables: Vec<Arc<dyn Table>>) -> Result<()> {
        let keys = &self.join.probe_keys;
        let rows: usize = tables.iter().map(|table| table.len()).sum();
        if rows == 0 {
            return self.source.update(lit(false));
        }
        if rows > ROWS_MOST {
            return Ok(());
        }
        let mut conditions: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
        let ranges: Vec<_> = tables.iter().map(|table| table.ranges()).collect();
        for (column, key) in keys.iter().enumerate() {
            let ranges = ranges.iter().filter_map(|ranges| ranges[column].clone());
            let whole = ranges.reduce(|(least, greatest), (low, high)| {
                let least = if low < least { low } else { least };
                (least, if high > greatest { high } else { greatest })
            });
            if let Some((least, greatest)) = whole {
                let compared = |op, value: ScalarValue| {
                    Arc::new(BinaryExpr::new(Arc::clone(key), op, lit(value)))
                        as Arc<dyn PhysicalExpr>
                };
                conditions.push(compared(Operator::GtEq, least));
                conditions.push(compared(Operator::LtEq, greatest));
            }
        }
        let mut filter = self.filter(&tables, rows);
        for table in &tables {
            let mut from = Some(0);
            while let Some(next) = from {
                from = table.put(next, &mut filter);
                proceed().await;
            }
        }
        let (join, filter) = (Arc::clone(&self.join), Arc::new(filter));
        conditions.push(Arc::new(HasKey { keys: keys.clone(), join, filter }));
        let all = conditions
            .into_iter()
            .reduce(|all, next| Arc::new(BinaryExpr::new(all, Operator::And, next)));
        all.map_or(Ok(()), |all| self.source.update(all))
    }

    /// An empty filter that has room.
    fn filter(&self, tables: &[Arc<dyn Table>], rows: usize) -> Filter {
        let integers = tables.iter().filter_map(|table| table.integers());
        let range =
            integers.reduce(|(least, greatest), (low, high)| (least.min(low), greatest.max(high)));
        if let Some((least, greatest)) = range {
            let span = greatest.abs_diff(least).saturating_add(1);
            if span <= BITS_ALWAYS.max(rows as u64 * BITS_PER_ROW) {
                return Filter::Bits { least, bits: vec![0; span.div_ceil(64) as usize] };
            }
        }
        // Sixteen bits for a key.
        Filter::Bloom(vec![0; (rows / 4).next_power_of_two().max(16)])
    }
}

/// Whether keys are in a table, but for some that are not.
#[derive(Debug)]
struct HasKey {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    join: Arc<Join>,
    filter: Arc<Filter>,
}

/// Whether a bitmap has an integer.
#[inline(always)]
fn is_set(bits: &[u64], least: i64, value: i64) -> bool {
    // Wraps to more than any bitmap has bits for what lies before it.
    let place = value.wrapping_sub(least) as u64;
    let word = bits.get((place / 64) as usize).copied().unwrap_or(0);
    word >> (place % 64) & 1 == 1
}

impl HasKey {
    /// Which integers are in the bitmap; `None` for other filters and types.
    fn integers_held(&self, keys: &[ArrayRef]) -> Option<BooleanArray> {
        let ([values], Filter::Bits { least, bits }) = (keys, self.filter.as_ref()) else {
            return None;
        };
        fn held<T: ArrowPrimitiveType<Native: Into<i64>>>(
            values: &ArrayRef,
            least: i64,
            bits: &[u64],
        ) -> BooleanBuffer {
            let values = values.as_primitive::<T>().values();
            BooleanBuffer::collect_bool(values.len(), |row| is_set(bits, least, values[row].into()))
        }
        let held = match values.data_type() {
            DataType::Int16 => held::<Int16Type>(values, *least, bits),
            DataType::Int32 => held::<Int32Type>(values, *least, bits),
            DataType::Int64 => held::<Int64Type>(values, *least, bits),
            DataType::Date32 => held::<Date32Type>(values, *least, bits),
            _ => return None,
        };
        let held = match nulls(keys) {
            Some(nulls) => &held & nulls.inner(),
            None => held,
        };
        Some(BooleanArray::new(held, None))
    }

    fn held<const N: usize>(&self, keys: &[ArrayRef]) -> BooleanArray {
        let mut rows = Rows::<N>::new();
        rows.set_keys(&self.join.layout, keys, &self.join.hasher);
        let held = match self.filter.as_ref() {
            Filter::Bits { least, bits } => BooleanBuffer::collect_bool(rows.keys.len(), |row| {
                is_set(bits, *least, self.join.layout.integer(&rows.keys[row]))
            }),
            Filter::Bloom(words) => BooleanBuffer::collect_bool(rows.keys.len(), |row| {
                let (word, bits) = bloom(self.join.hasher.key(&rows.keys[row]), words.len());
                words[word] & bits == bits
            }),
        };
        let held = match nulls(keys) {
            Some(nulls) => &held & nulls.inner(),
            None => held,
        };
        BooleanArray::new(held, None)
    }
}

impl fmt::Display for HasKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_sql(f)
    }
}

impl PartialEq for HasKey {
    fn eq(&self, other: &Self) -> bool {
        self.keys == other.keys && Arc::ptr_eq(&self.filter, &other.filter)
    }
}

impl Eq for HasKey {}

impl Hash for HasKey {
    fn hash<H: StdHasher>(&self, state: &mut H) {
        self.keys.hash(state);
    }
}

impl PhysicalExpr for HasKey {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let keys = self.keys.iter().map(|key| key.evaluate(batch)?.into_array(batch.num_rows()));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        if let Some(held) = self.integers_held(&keys) {
            return Ok(ColumnarValue::Array(Arc::new(held)));
        }
        let held = match self.join.layout.words() {
            0 | 1 => self.held::<1>(&keys),
            2 => self.held::<2>(&keys),
            3 => self.held::<3>(&keys),
            4 => self.held::<4>(&keys),
            5 | 6 => self.held::<6>(&keys),
            7 | 8 => self.held::<8>(&keys),
            _ => self.held::<WORDS_MAX>(&keys),
        };
        Ok(ColumnarValue::Array(Arc::new(held)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.keys.iter().collect()
    }

    fn with_new_children(
        self: Arc<Self>,
        keys: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let (join, filter) = (Arc::clone(&self.join), Arc::clone(&self.filter));
        Ok(Arc::new(HasKey { keys, join, filter }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("has_key(")?;
        for (number, key) in self.keys.iter().enumerate() {
            if (number == 0).not() {
                f.write_str(", ")?;
            }
            key.fmt_sql(f)?;
        }
        f.write_str(")")
    }
}
