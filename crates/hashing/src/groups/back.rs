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
use crate::groups::table::{Chunk, Table};
use crate::keys::{Long, Rows, TextsOf};

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
        Bounds { groups: 1 << 22, rows: 1 << 16 }
    }
}

/// Bits of a hash that say which part a group is in: the uppermost, where slots of tables are found by the lowest.
const PART_BITS: u32 = 6;
const PARTS: usize = 1 << PART_BITS;

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
        let mut rows = std::mem::replace(&mut self.rows, Rows::new());
        rows.set(&self.aggregation.layout, &columns, self.aggregation.hasher());
        let texts = self.aggregation.texts(&columns);
        if !self.parts.is_empty() {
            self.keep(Chunk { rows, texts, states });
            return Ok(());
        }
        let long: Vec<Long<'_>> = texts.iter().map(Long::of).collect();
        self.whole.merge(&rows, &long, &self.aggregation.by_aggregate(&states))?;
        self.rows = rows;
        match self.whole.len() > self.bounds.groups {
            true => self.split(),
            false => Ok(()),
        }
    }

    /// Takes the groups of a full table in, which has begun to give them out.
    pub(crate) fn take_groups(&mut self, table: &mut Table<N>) -> Result<()> {
        if self.parts.is_empty() {
            self.split()?;
        }
        while let Some(chunk) = table.next_chunk()? {
            self.keep(chunk);
        }
        Ok(())
    }

    /// Makes parts, which will take what is in the one table.
    fn split(&mut self) -> Result<()> {
        let parts = (0..PARTS).map(|_| self.aggregation.table());
        self.parts = parts.collect::<Result<_>>()?;
        self.sizes = vec![0; PARTS];
        if self.whole.len() > 0 {
            let mut whole = std::mem::replace(&mut self.whole, self.aggregation.table()?);
            whole.begin();
            while let Some(chunk) = whole.next_chunk()? {
                self.keep(chunk);
            }
        }
        Ok(())
    }

    fn keep(&mut self, chunk: Chunk<N>) {
        // Arrays may be slices of larger ones.
        let bytes = |array: &ArrayRef| array.to_data().get_slice_memory_size().unwrap_or(0);
        let bytes: usize = chunk.texts.iter().chain(&chunk.states).map(bytes).sum();
        self.rows_kept += chunk.rows.keys.len();
        self.bytes_kept += bytes + chunk.rows.size();
        self.chunks.push(chunk);
    }

    /// No more groups will come: parts take the rows that are kept.
    pub(crate) fn end(&mut self) {
        self.bounds.rows = 1;
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

    /// Lets one part take its rows, if there are many. Whether there was one to do so.
    pub(crate) fn merge_part(&mut self) -> Result<bool> {
        if self.next == PARTS {
            if self.rows_kept < self.bounds.rows {
                return Ok(false);
            }
            self.sort();
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
            let texts = chunks.iter().map(|chunk| chunk.texts.iter().map(Long::of).collect());
            let texts = Scattered { texts: texts.collect(), rows };
            let states = gathered(chunks, rows)?;
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
        loop {
            let table = self.parts.last_mut().unwrap_or(&mut self.whole);
            if table.len() > 0 {
                table.begin();
            }
            if let Some(columns) = table.next_results()? {
                return Ok(Some(columns));
            }
            self.sizes.pop();
            if self.parts.pop().is_none() {
                return Ok(None);
            }
        }
    }
}

/// The texts of rows that lie in several chunks.
struct Scattered<'c> {
    /// By chunk and column.
    texts: Vec<Vec<Long<'c>>>,
    rows: &'c [(usize, usize)],
}

impl TextsOf for Scattered<'_> {
    fn text(&self, column: usize, row: usize) -> &[u8] {
        let (chunk, row) = self.rows[row];
        self.texts[chunk][column].bytes(row)
    }
}

/// The states of rows, out of all chunks.
fn gathered<const N: usize>(chunks: &[Chunk<N>], rows: &[(usize, usize)]) -> Result<Vec<ArrayRef>> {
    let count = chunks.first().map_or(0, |chunk| chunk.states.len());
    let column = |number: usize| {
        let arrays: Vec<&dyn Array> =
            chunks.iter().map(|chunk| chunk.states[number].as_ref()).collect();
        Ok(interleave(&arrays, rows)?)
    };
    (0..count).map(column).collect()
}
