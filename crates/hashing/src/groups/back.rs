//! The second half of an aggregation: states of groups, of which one may come several times, become one for each.
//!
//! As long as groups are few they are in one table. Then they are split by their hashes into parts, each with a
//! table that the processor's cache holds: rows are kept until there are many, and each part takes its own
//! together. So no table grows large, a result is given part by part, and no step lasts for long.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::interleave;
use datafusion::common::Result;

use crate::groups::plan::Aggregation;
use crate::groups::table::Table;
use crate::keys::Rows;

/// Bounds of a [`Back`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Groups of the one table.
    pub(crate) groups: usize,
    /// Rows that are kept before parts take them.
    pub(crate) rows: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { groups: 1 << 15, rows: 1 << 16 }
    }
}

/// Bits of a hash that say which part a group is in: the uppermost, where slots of tables are found by the lowest.
const PART_BITS: u32 = 6;
const PARTS: usize = 1 << PART_BITS;

/// Rows that no part has taken.
struct Chunk<const N: usize> {
    rows: Rows<N>,
    texts: Vec<ArrayRef>,
    states: Vec<ArrayRef>,
}

pub(crate) struct Back<const N: usize> {
    aggregation: Arc<Aggregation>,
    bounds: Bounds,
    /// All groups, until there are parts.
    whole: Table<N>,
    parts: Vec<Table<N>>,
    /// Bytes of the parts' tables.
    sizes: Vec<usize>,
    rows: Rows<N>,
    chunks: Vec<Chunk<N>>,
    rows_kept: usize,
    bytes_kept: usize,
    /// Rows of chunks, by chunk and row, in the order of their parts.
    sorted: Vec<(usize, usize)>,
    /// Where the rows of each part begin in `sorted`, and where the last end.
    begins: Vec<usize>,
    /// The next part to take its rows.
    next: usize,
}

impl<const N: usize> Back<N> {
    pub(crate) fn new(aggregation: &Arc<Aggregation>, bounds: Bounds) -> Result<Self> {
        Ok(Back {
            whole: aggregation.table()?,
            aggregation: Arc::clone(aggregation),
            bounds,
            parts: Vec::new(),
            sizes: Vec::new(),
            rows: Rows::new(),
            chunks: Vec::new(),
            rows_kept: 0,
            bytes_kept: 0,
            sorted: Vec::new(),
            begins: Vec::new(),
            next: PARTS,
        })
    }

    /// Bytes.
    pub(crate) fn size(&self) -> usize {
        let parts: usize = self.sizes.iter().sum();
        self.whole.size() + self.rows.size() + parts + self.bytes_kept + self.sorted.capacity() * 16
    }

    /// Parts that groups were split into; 0: none.
    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Takes keys and states of groups in. [`Back::merge_part`] is to be called until it says that all is done.
    pub(crate) fn take(&mut self, mut columns: Vec<ArrayRef>) -> Result<()> {
        let states = columns.split_off(self.aggregation.layout.columns());
        if !self.parts.is_empty() {
            self.keep(&columns, states);
            return Ok(());
        }
        self.rows.set(&self.aggregation.layout, &columns, self.aggregation.hasher());
        let texts = self.aggregation.texts(&columns);
        self.whole.merge(&self.rows, &texts, &self.aggregation.by_aggregate(&states))?;
        if self.whole.len() > self.bounds.groups {
            self.rows = Rows::new();
            let mut columns = self.whole.take_states()?;
            self.whole = self.aggregation.table()?;
            let parts = (0..PARTS).map(|_| self.aggregation.table());
            self.parts = parts.collect::<Result<_>>()?;
            self.sizes = vec![0; PARTS];
            let states = columns.split_off(self.aggregation.layout.columns());
            self.keep(&columns, states);
        }
        Ok(())
    }

    fn keep(&mut self, keys: &[ArrayRef], states: Vec<ArrayRef>) {
        let mut rows = Rows::new();
        rows.set(&self.aggregation.layout, keys, self.aggregation.hasher());
        let texts = self.aggregation.texts(keys);
        let arrays = texts.iter().chain(&states);
        // Arrays may be slices of larger ones.
        let bytes = |array: &ArrayRef| array.to_data().get_slice_memory_size().unwrap_or(0);
        let bytes: usize = arrays.map(bytes).sum();
        self.rows_kept += rows.keys.len();
        self.bytes_kept += bytes + rows.size();
        self.chunks.push(Chunk { rows, texts, states });
        if self.rows_kept >= self.bounds.rows {
            self.sort();
        }
    }

    /// No more groups will come: parts take the rows that are kept.
    pub(crate) fn end(&mut self) {
        if !self.chunks.is_empty() {
            self.sort();
        }
    }

    /// Puts the rows that are kept in the order of their parts.
    fn sort(&mut self) {
        let part = |hash: u64| (hash >> (64 - PART_BITS)) as usize;
        let mut begins = vec![0; PARTS + 1];
        for &hash in self.chunks.iter().flat_map(|chunk| &chunk.rows.hashes) {
            begins[part(hash) + 1] += 1;
        }
        for at in 0..PARTS {
            begins[at + 1] += begins[at];
        }
        let mut next = begins.clone();
        self.sorted.clear();
        self.sorted.resize(self.rows_kept, (0, 0));
        for (number, chunk) in self.chunks.iter().enumerate() {
            for (row, &hash) in chunk.rows.hashes.iter().enumerate() {
                let at = &mut next[part(hash)];
                self.sorted[*at] = (number, row);
                *at += 1;
            }
        }
        self.begins = begins;
        self.next = 0;
    }

    /// Lets one part take its rows. Whether there was one to do so.
    pub(crate) fn merge_part(&mut self) -> Result<bool> {
        if self.next == PARTS {
            return Ok(false);
        }
        let part = self.next;
        self.next += 1;
        let rows = &self.sorted[self.begins[part]..self.begins[part + 1]];
        if !rows.is_empty() {
            let (chunks, own) = (&self.chunks, &mut self.rows);
            own.keys.clear();
            own.keys.extend(rows.iter().map(|&(chunk, row)| chunks[chunk].rows.keys[row]));
            own.hashes.clear();
            own.hashes.extend(rows.iter().map(|&(chunk, row)| chunks[chunk].rows.hashes[row]));
            let texts = gathered(chunks, rows, |chunk| &chunk.texts)?;
            let states = gathered(chunks, rows, |chunk| &chunk.states)?;
            let table = &mut self.parts[part];
            table.merge(own, &texts, &self.aggregation.by_aggregate(&states))?;
            self.sizes[part] = table.size();
        }
        if self.next == PARTS {
            self.chunks.clear();
            (self.rows_kept, self.bytes_kept) = (0, 0);
        }
        Ok(true)
    }

    /// Keys and results of some groups; `None` once all were given.
    pub(crate) fn results(&mut self) -> Result<Option<Vec<ArrayRef>>> {
        while let Some(mut part) = self.parts.pop() {
            self.sizes.pop();
            if part.len() > 0 {
                return part.take_results().map(Some);
            }
        }
        match self.whole.len() {
            0 => Ok(None),
            _ => self.whole.take_results().map(Some),
        }
    }
}

/// The rows of each column, out of all chunks.
fn gathered<const N: usize>(
    chunks: &[Chunk<N>],
    rows: &[(usize, usize)],
    columns: impl Fn(&Chunk<N>) -> &Vec<ArrayRef>,
) -> Result<Vec<ArrayRef>> {
    let count = chunks.first().map_or(0, |chunk| columns(chunk).len());
    let column = |number: usize| {
        let arrays: Vec<&dyn Array> =
            chunks.iter().map(|chunk| columns(chunk)[number].as_ref()).collect();
        Ok(interleave(&arrays, rows)?)
    };
    (0..count).map(column).collect()
}
