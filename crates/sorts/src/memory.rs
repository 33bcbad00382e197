//! Rows of a sort that lie in memory: gathered batches, their keys, and sorted chunks of heads.
//!
//! Batches of few rows are put together first, and batches of many are split, so that a place is a batch's number above a
//! row's ([`ROW_BITS`]). Chunks whose heads follow each other are one source of the merge: rows that come in order are
//! compared once.

use std::collections::VecDeque;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use arrow::row::{Row, Rows};
use datafusion::common::Result;
use datafusion::physical_plan::metrics::Time;
use halcyon_spill::own_bytes;

use crate::key::{Bytes, Layout, head, place};
use crate::rows::{Counted, MERGE_ROWS, batch_of, gathered};
use crate::steps::{Steps, UNITS, comparisons};
use crate::tree::{EXHAUSTED, Order, Tree, Whole};

/// Bits of a place that are the row's number in its batch.
const ROW_BITS: u32 = 13;
/// Rows of a batch at most.
const BATCH_ROWS: usize = 1 << ROW_BITS;
/// Batches at most, so that no place is that of [`EXHAUSTED`].
const BATCHES: usize = (1 << (32 - ROW_BITS)) - 1;
/// Rows below which a batch waits for others, and how many such rows are put together.
const FEW_ROWS: usize = 512;
const FEW_TOGETHER: usize = 4096;
/// Heads of a chunk, if they hold whole keys and if they do not.
const CHUNK_PACKED: usize = 1 << 14;
const CHUNK_BYTES: usize = 1 << 12;
/// Rows as they are gathered.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    batches: Vec<RecordBatch>,
    /// By batch: its keys, unless heads hold them.
    keys: Vec<Rows>,
    /// Heads that are not sorted yet.
    open: Vec<u128>,
    /// Sorted heads, a list of chunks for each source of the merge.
    sources: Vec<VecDeque<Vec<u128>>>,
    /// Batches of few rows.
    few: Vec<RecordBatch>,
    few_rows: usize,
    few_bytes: usize,
    counted: Counted,
    key_bytes: usize,
    rows: usize,
    own_bytes: usize,
}

impl Gathered {
    /// Takes a batch of rows. Errors: 57014, and those of keys.
    pub(crate) async fn take(
        &mut self,
        batch: RecordBatch,
        layout: &Layout,
        steps: &Steps,
        time: &Time,
    ) -> Result<()> {
        let own = own_bytes(&batch);
        self.own_bytes += own;
        self.rows += batch.num_rows();
        if batch.num_rows() < FEW_ROWS {
            self.few_rows += batch.num_rows();
            self.few_bytes += own;
            self.few.push(batch);
            return match self.few_rows < FEW_TOGETHER {
                true => Ok(()),
                false => self.take_few(layout, steps, time).await,
            };
        }
        self.take_few(layout, steps, time).await?;
        self.put(batch, layout, steps, time).await
    }

    /// Takes in the batches of few rows.
    async fn take_few(&mut self, layout: &Layout, steps: &Steps, time: &Time) -> Result<()> {
        let few = std::mem::take(&mut self.few);
        (self.few_rows, self.few_bytes) = (0, 0);
        match few.first() {
            None => Ok(()),
            Some(first) => {
                let batch = concat_batches(first.schema_ref(), &few)?;
                self.put(batch, layout, steps, time).await
            }
        }
    }

    async fn put(
        &mut self,
        batch: RecordBatch,
        layout: &Layout,
        steps: &Steps,
        time: &Time,
    ) -> Result<()> {
        let chunk_rows = if layout.is_packed() { CHUNK_PACKED } else { CHUNK_BYTES };
        let part_rows = (UNITS / (layout.columns() + 1)).clamp(1, BATCH_ROWS);
        self.counted.add(&batch);
        let mut from = 0;
        while from < batch.num_rows() {
            let timer = time.timer();
            let part = batch.slice(from, part_rows.min(batch.num_rows() - from));
            from += part.num_rows();
            let keys = layout.keys(&part)?;
            let units = part.num_rows() * (layout.columns() + 1);
            let first = u32::try_from(self.batches.len() << ROW_BITS).expect("a place is left");
            self.batches.push(part);
            if let Some(bytes) = keys.bytes {
                self.key_bytes += bytes.size();
                self.keys.push(bytes);
            }
            drop(timer);
            steps.end(units).await?;
            let mut heads = (first..).zip(keys.begins).map(|(place, key)| head(key, place));
            loop {
                let room = chunk_rows - self.open.len();
                self.open.extend(heads.by_ref().take(room));
                if self.open.len() < chunk_rows {
                    break;
                }
                self.sort_open(layout, steps, time).await?;
            }
        }
        Ok(())
    }

    /// Sorts the heads that are not sorted yet.
    async fn sort_open(&mut self, layout: &Layout, steps: &Steps, time: &Time) -> Result<()> {
        if self.open.is_empty() {
            return Ok(());
        }
        let timer = time.timer();
        let mut chunk = std::mem::take(&mut self.open);
        self.open.reserve_exact(chunk.len());
        let units = chunk.len() * comparisons(chunk.len());
        let follows = match layout.is_packed() {
            true => {
                chunk.sort_unstable();
                self.follows(&chunk, &Whole)
            }
            false => {
                let order = of_bytes(&self.keys);
                chunk.sort_unstable_by(|&a, &b| order.compare(a, b));
                self.follows(&chunk, &order)
            }
        };
        match self.sources.last_mut().filter(|_| follows) {
            Some(source) => source.push_back(chunk),
            None => self.sources.push(VecDeque::from([chunk])),
        }
        drop(timer);
        steps.end(units).await
    }

    /// Whether a chunk comes behind all of the last source.
    fn follows(&self, chunk: &[u128], order: &impl Order) -> bool {
        let last = self.sources.last().and_then(|source| source.back()?.last());
        last.zip(chunk.first()).is_some_and(|(&last, &first)| order.is_less(last, first))
    }

    /// Rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of the rows alone, without what they share with others.
    pub(crate) fn own_bytes(&self) -> usize {
        self.own_bytes
    }

    /// Whether no place is left for a batch of many rows.
    pub(crate) fn is_full(&self) -> bool {
        self.batches.len() >= BATCHES / 2
    }

    /// Bytes that the rows hold.
    pub(crate) fn bytes(&self) -> usize {
        let heads = (self.rows + self.open.capacity()) * size_of::<u128>();
        self.counted.bytes() + self.few_bytes + self.key_bytes + heads
    }

    /// The rows, to be read in order. Errors: 57014, and those of keys.
    pub(crate) async fn finish(
        mut self,
        layout: &Layout,
        schema: &SchemaRef,
        steps: &Steps,
        time: &Time,
    ) -> Result<Sorted> {
        self.take_few(layout, steps, time).await?;
        self.sort_open(layout, steps, time).await?;
        let Gathered { batches, keys, mut sources, rows, .. } = self;
        let heads = sources.iter_mut().map(next_head).collect::<Vec<u128>>();
        assert_eq!(heads.is_empty(), rows == 0, "rows have chunks");
        let tree = match (heads.is_empty(), layout.is_packed()) {
            (true, _) => None,
            (false, true) => Some(Tree::new(heads, &Whole)),
            (false, false) => Some(Tree::new(heads, &of_bytes(&keys))),
        };
        // By column, the arrays of all batches.
        let columns = (0..schema.fields().len())
            .map(|at| batches.iter().map(|batch| batch.column(at).clone()).collect())
            .collect();
        let at = vec![0; sources.len()];
        let schema = SchemaRef::clone(schema);
        Ok(Sorted { schema, columns, keys, sources, at, tree, left: rows })
    }
}

/// The order of heads by keys of batches.
fn of_bytes<'k>(keys: &'k [Rows]) -> Bytes<impl Fn(u32) -> Row<'k>> {
    Bytes(|place| {
        let (batch, row) = split(place);
        keys[batch].row(row)
    })
}

/// The batch and the row of a place.
#[inline(always)]
fn split(place: u32) -> (usize, usize) {
    ((place >> ROW_BITS) as usize, place as usize & (BATCH_ROWS - 1))
}

/// The first head of a source that is begun.
fn next_head(source: &mut VecDeque<Vec<u128>>) -> u128 {
    source.front().and_then(|chunk| chunk.first()).copied().unwrap_or(EXHAUSTED)
}

/// Rows in memory in their order.
pub(crate) struct Sorted {
    schema: SchemaRef,
    columns: Vec<Vec<ArrayRef>>,
    keys: Vec<Rows>,
    sources: Vec<VecDeque<Vec<u128>>>,
    /// By source: the place of its head in its first chunk.
    at: Vec<usize>,
    /// `None`: there are no rows.
    tree: Option<Tree>,
    left: usize,
}

impl Sorted {
    /// The next rows, at most so many. Errors: 57014.
    pub(crate) async fn next(
        &mut self,
        rows_max: usize,
        steps: &Steps,
        time: &Time,
    ) -> Result<Option<RecordBatch>> {
        let wanted = self.left.min(rows_max);
        let Some(mut tree) = self.tree.take().filter(|_| wanted > 0) else { return Ok(None) };
        let mut picked = Vec::with_capacity(wanted);
        while picked.len() < wanted {
            let timer = time.timer();
            let count = MERGE_ROWS.min(wanted - picked.len());
            match self.keys.is_empty() {
                true => {
                    pick(&mut tree, &mut self.sources, &mut self.at, count, &Whole, &mut picked)
                }
                false => {
                    let order = of_bytes(&self.keys);
                    pick(&mut tree, &mut self.sources, &mut self.at, count, &order, &mut picked);
                }
            }
            drop(timer);
            steps.end(count * (1 + comparisons(self.sources.len()))).await?;
        }
        self.tree = Some(tree);
        self.left -= wanted;
        let columns = gathered(&self.columns, &picked, steps, time).await?;
        batch_of(&self.schema, columns, wanted).map(Some)
    }
}

/// Picks so many rows.
fn pick(
    tree: &mut Tree,
    sources: &mut [VecDeque<Vec<u128>>],
    at: &mut [usize],
    count: usize,
    order: &impl Order,
    picked: &mut Vec<(usize, usize)>,
) {
    for _ in 0..count {
        picked.push(split(place(tree.head())));
        let source = tree.winner();
        let (chunks, at) = (&mut sources[source], &mut at[source]);
        *at += 1;
        let next = chunks.front().and_then(|chunk| chunk.get(*at)).copied();
        let next = next.unwrap_or_else(|| {
            chunks.pop_front();
            *at = 0;
            next_head(chunks)
        });
        tree.replace(next, order);
    }
}
