//! The side of a join that is put into a table.
//!
//! Rows lie in blocks of one size, so no copy of all of them is made. A slot of the table has the number of its first
//! row, the others follow in a chain, in the order of their numbers; and sixteen bits, of which every row of the chain
//! has set one, so that most keys that are not there are known by the slot alone (Leis et al., *Morsel-Driven
//! Parallelism*, SIGMOD 2014, §4.2).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::compute::BatchCoalescer;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use halcyon_sql::diagnose::external;
use halcyon_sql::error::{SqlError, SqlState};
use halcyon_task::proceed;

use crate::joins::plan::{Join, batch_of};
use crate::keys::{Long, Rows, is_long};

/// Rows of a block, as a power of two.
pub(crate) const BLOCK_BITS: u32 = 16;
const BLOCK: usize = 1 << BLOCK_BITS;
/// Rows that are put into the table in one step.
const ROWS_STEP: usize = 1 << 15;

/// Rows as they are collected.
pub(crate) struct Builder<const N: usize> {
    join: Arc<Join>,
    blocks: BatchCoalescer,
    done: Vec<RecordBatch>,
    bytes_done: usize,
    rows: Rows<N>,
    keys: Vec<[u64; N]>,
    /// Rows with NULL in their keys, if those find nothing.
    dead: Vec<u32>,
    /// By row: its number in the whole left side, if the rows are a part of it.
    ids: Vec<u32>,
    memory: MemoryReservation,
}

/// What a builder has collected, to be put elsewhere.
pub(crate) struct Collected<const N: usize> {
    /// All of [`BLOCK_BITS`] but the last.
    pub(crate) blocks: Vec<RecordBatch>,
    pub(crate) keys: Vec<[u64; N]>,
    pub(crate) dead: Vec<u32>,
    /// Given back as the rows go.
    pub(crate) memory: MemoryReservation,
}

impl<const N: usize> Builder<N> {
    /// `rows`: how many there will be at most, if that is known; a block takes its memory at once.
    pub(crate) fn new(join: &Arc<Join>, memory: MemoryReservation, rows: Option<usize>) -> Self {
        let block = rows.unwrap_or(BLOCK).clamp(1, BLOCK);
        Builder {
            blocks: BatchCoalescer::new(Arc::clone(&join.kept_schema), block),
            join: Arc::clone(join),
            done: Vec::new(),
            bytes_done: 0,
            rows: Rows::new(),
            keys: Vec::new(),
            dead: Vec::new(),
            ids: Vec::new(),
            memory,
        }
    }

    /// Takes rows in. If their memory is refused they are there all the same.
    ///
    /// Errors: 53200, and those of expressions.
    pub(crate) fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        let (keys, kept) = self.join.kept(batch)?;
        self.rows.set_keys(&self.join.layout, &keys, &self.join.hasher);
        if self.join.drops_nulls
            && let Some(nulls) = nulls(&keys)
        {
            let first = self.keys.len() as u32;
            let dead = (0..nulls.len()).filter(|&row| nulls.is_null(row));
            self.dead.extend(dead.map(|row| first + row as u32));
        }
        if self.keys.len() + self.rows.keys.len() >= u32::MAX as usize {
            let message = "a join's table has room for four thousand million rows";
            return Err(external(SqlError::new(SqlState::OUT_OF_MEMORY, message)));
        }
        self.keys.extend_from_slice(&self.rows.keys);
        self.put(kept)
    }

    /// Takes in rows of a part of the left side, as they came from a file.
    ///
    /// Errors: 53200.
    pub(crate) fn restore(&mut self, rows: Restored<N>) -> Result<()> {
        let first = self.keys.len() as u32;
        self.dead.extend(rows.dead.into_iter().map(|row| first + row));
        self.keys.extend_from_slice(&rows.keys);
        self.ids.extend_from_slice(&rows.ids);
        self.put(rows.kept)
    }

    fn put(&mut self, kept: RecordBatch) -> Result<()> {
        self.blocks.push_batch(kept)?;
        self.collect();
        let open = self.blocks.get_buffered_rows()
            * (self.bytes_done / self.done.len().max(1) / BLOCK + 16);
        let keys = self.keys.capacity() * (size_of::<[u64; N]>() + 4 + 16);
        self.memory.try_resize(self.bytes_done + open + keys + self.ids.capacity() * 4)
    }

    /// Asks for the memory of the table, which is the last that may be refused.
    ///
    /// Errors: 53200; the rows are there all the same.
    pub(crate) fn close(&mut self) -> Result<()> {
        self.end_block()?;
        let (rows, ids) = (self.keys.len(), self.ids.capacity() * 4);
        let keys = self.keys.capacity() * size_of::<[u64; N]>();
        self.memory.try_resize(self.bytes_done + keys + ids + rows * 4 + slots(rows) * 8)
    }

    /// The rows, if there is no memory for them or their table.
    pub(crate) fn give_up(mut self) -> Result<Collected<N>> {
        self.end_block()?;
        let Builder { done, keys, dead, memory, .. } = self;
        Ok(Collected { blocks: done, keys, dead, memory })
    }

    /// Ends the block that is not full, which takes no more than its rows need then.
    fn end_block(&mut self) -> Result<()> {
        self.blocks.finish_buffered_batch()?;
        while let Some(block) = self.blocks.next_completed_batch() {
            let (schema, mut columns, rows) = block.into_parts();
            columns.iter_mut().for_each(|column| column.shrink_to_fit());
            let block = batch_of(&schema, columns, rows)?;
            self.bytes_done += block.get_array_memory_size();
            self.done.push(block);
        }
        Ok(())
    }

    fn collect(&mut self) {
        while let Some(block) = self.blocks.next_completed_batch() {
            self.bytes_done += block.get_array_memory_size();
            self.done.push(block);
        }
    }

    /// The table, once it is closed. `probers`: how many will look up.
    pub(crate) async fn build(self, probers: usize) -> Build<N> {
        let rows = self.keys.len();
        let visited = if self.join.gives_build_rows() { rows.div_ceil(64) } else { 0 };
        let direct = Direct::of(&self.join, &self.keys, &self.dead);
        let slots = if direct.is_some() { 1 } else { slots(rows) };
        let mut build = Build {
            direct,
            blocks: self.done,
            keys: self.keys,
            slots: vec![0; slots],
            next: vec![0; rows],
            dead: self.dead,
            ids: self.ids,
            visited: (0..visited).map(|_| AtomicU64::new(0)).collect(),
            probers: AtomicUsize::new(probers),
            join: self.join,
            _memory: self.memory,
        };
        // From the last row to the first, so that chains are in order.
        let mut end = rows;
        let mut dead = build.dead.len();
        while end > 0 {
            let begin = end.saturating_sub(ROWS_STEP);
            dead = build.link(begin, end, dead);
            end = begin;
            proceed().await;
        }
        build
    }
}

/// Rows of a part of the left side.
pub(crate) struct Restored<const N: usize> {
    /// What is kept of the rows.
    pub(crate) kept: RecordBatch,
    pub(crate) keys: Vec<[u64; N]>,
    pub(crate) dead: Vec<u32>,
    pub(crate) ids: Vec<u32>,
}

/// Slots of a table of so many rows.
fn slots(rows: usize) -> usize {
    (rows * 2).next_power_of_two().max(16)
}

/// Which rows have NULL in some column.
pub(crate) fn nulls(columns: &[ArrayRef]) -> Option<NullBuffer> {
    let union = columns.iter().fold(None, |all: Option<NullBuffer>, column| {
        NullBuffer::union(all.as_ref(), column.logical_nulls().as_ref())
    });
    union.filter(|nulls| nulls.null_count() > 0)
}

/// The bit of a chain that a row with this hash sets.
#[inline(always)]
fn tag(hash: u64) -> u64 {
    1 << (32 + (hash >> 60))
}

/// The keys of rows that are not dead. `first`: the number of the first row; `dead`: those from it on.
fn living<'k, const N: usize>(
    keys: &'k [[u64; N]],
    first: usize,
    dead: &'k [u32],
) -> impl Iterator<Item = &'k [u64; N]> {
    let mut dead = dead.iter().peekable();
    keys.iter().enumerate().filter_map(move |(row, key)| {
        match dead.next_if(|&&dead| dead as usize == first + row) {
            Some(_) => None,
            None => Some(key),
        }
    })
}

/// Integers that lie so near each other that a table has a place for each: its rows need no hash and no comparison.
pub(crate) struct Direct {
    least: i64,
    /// The number of the first row, from 1.
    first: Vec<u32>,
}

impl Direct {
    /// Places for each row of a table.
    const PLACES_PER_ROW: u64 = 4;

    fn of<const N: usize>(join: &Join, keys: &[[u64; N]], dead: &[u32]) -> Option<Self> {
        if !join.layout.is_integer() {
            return None;
        }
        let integers = || living(keys, 0, dead).map(|key| join.layout.integer(key));
        let (least, greatest) = (integers().min()?, integers().max()?);
        let places = greatest.abs_diff(least).checked_add(1)?;
        let most = (keys.len() as u64).saturating_mul(Self::PLACES_PER_ROW).max(1 << 12);
        (places <= most).then(|| Direct { least, first: vec![0; places as usize] })
    }

    #[inline(always)]
    fn place(&self, integer: i64) -> usize {
        // Wraps to more than there are places for what lies before them.
        integer.wrapping_sub(self.least) as u64 as usize
    }
}

/// A table of rows by their keys.
pub(crate) struct Build<const N: usize> {
    /// In the place of `slots`.
    direct: Option<Direct>,
    pub(crate) join: Arc<Join>,
    /// All of [`BLOCK_BITS`] but the last.
    pub(crate) blocks: Vec<RecordBatch>,
    keys: Vec<[u64; N]>,
    /// The number of the first row, from 1, and the tags of all.
    slots: Vec<u64>,
    /// By row: the number of the next of its chain.
    next: Vec<u32>,
    dead: Vec<u32>,
    /// By row: its number in the whole left side, if the table is of a part of it.
    ids: Vec<u32>,
    /// A bit for each row: whether it has been matched.
    visited: Vec<AtomicU64>,
    /// Outputs that still look up.
    probers: AtomicUsize,
    _memory: MemoryReservation,
}

impl<const N: usize> Build<N> {
    /// Puts rows into the table; `dead`: how many dead rows lie before `end`. Returns how many before `begin`.
    fn link(&mut self, begin: usize, end: usize, mut dead: usize) -> usize {
        let mask = self.slots.len() - 1;
        for row in (begin..end).rev() {
            if dead > 0 && self.dead[dead - 1] == row as u32 {
                dead -= 1;
                continue;
            }
            if let Some(direct) = &mut self.direct {
                let place = direct.place(self.join.layout.integer(&self.keys[row]));
                self.next[row] = std::mem::replace(&mut direct.first[place], row as u32 + 1);
                continue;
            }
            let hash = self.join.hasher.key(&self.keys[row]);
            let slot = &mut self.slots[hash as usize & mask];
            self.next[row] = *slot as u32;
            *slot = *slot >> 32 << 32 | tag(hash) | (row as u64 + 1);
        }
        dead
    }

    /// Rows.
    pub(crate) fn rows(&self) -> usize {
        self.keys.len()
    }

    /// Keys that can be found.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u64; N]> {
        self.keys_of(0..self.rows())
    }

    /// Keys of some rows that can be found.
    pub(crate) fn keys_of(&self, rows: Range<usize>) -> impl Iterator<Item = &[u64; N]> {
        let before = self.dead.partition_point(|&dead| (dead as usize) < rows.start);
        living(&self.keys[rows.clone()], rows.start, &self.dead[before..])
    }

    /// The numbers of the first rows, from 1, whose keys may be those of rows that look up; 0: there is none.
    pub(crate) fn first(&self, rows: &mut Rows<N>, first: &mut Vec<u32>) {
        first.clear();
        match &self.direct {
            Some(direct) => first.extend(rows.keys.iter().map(|key| {
                let place = direct.place(self.join.layout.integer(key));
                direct.first.get(place).copied().unwrap_or(0)
            })),
            None => {
                rows.hash(&self.join.hasher);
                first.extend(rows.hashes.iter().map(|&hash| self.first_of(hash)));
            }
        }
    }

    /// Whether all rows of a chain have one key, which is that of whoever finds the chain.
    pub(crate) fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    #[inline(always)]
    fn first_of(&self, hash: u64) -> u32 {
        let slot = self.slots[hash as usize & (self.slots.len() - 1)];
        if slot & tag(hash) == 0 { 0 } else { slot as u32 }
    }

    /// The number of the row behind row `number` in its chain.
    #[inline(always)]
    pub(crate) fn next(&self, number: u32) -> u32 {
        self.next[number as usize - 1]
    }

    /// Whether row `number` has a key. `texts`: columns of the texts among the keys that are looked up.
    #[inline(always)]
    pub(crate) fn has_key(
        &self,
        number: u32,
        key: &[u64; N],
        texts: &[ArrayRef],
        row: usize,
    ) -> bool {
        self.keys[number as usize - 1] == *key
            && (texts.is_empty() || self.has_texts(number, key, texts, row))
    }

    /// Whether the long texts of row `number` are those of a key with the same words.
    fn has_texts(&self, number: u32, key: &[u64; N], texts: &[ArrayRef], row: usize) -> bool {
        let own = number as usize - 1;
        let block = &self.blocks[own >> BLOCK_BITS];
        let mut pairs = self.join.layout.texts().zip(&self.join.texts).zip(texts);
        pairs.all(|(((_, word), &place), texts)| {
            !is_long(key[word])
                || Long::of(block.column(place)).bytes(own & (BLOCK - 1))
                    == Long::of(texts).bytes(row)
        })
    }

    /// Notes that row `number` has been matched.
    #[inline(always)]
    pub(crate) fn visit(&self, number: u32) {
        let row = number as usize - 1;
        let word = &self.visited[row / 64];
        // Most rows that are matched were matched before.
        if word.load(Ordering::Relaxed) >> (row % 64) & 1 == 0 {
            word.fetch_or(1 << (row % 64), Ordering::Relaxed);
        }
    }

    /// Whether a row has been matched, once all outputs have looked up.
    pub(crate) fn was_visited(&self, row: usize) -> bool {
        self.visited[row / 64].load(Ordering::Relaxed) >> (row % 64) & 1 == 1
    }

    /// The numbers, in the whole left side, of the rows that have been matched.
    pub(crate) fn visited_ids(&self) -> impl Iterator<Item = u32> {
        let rows = self.ids.iter().enumerate();
        rows.filter(|(row, _)| self.was_visited(*row)).map(|(_, &id)| id)
    }

    /// An output has looked up all its rows. Whether it is the last: it sees what all others have noted.
    pub(crate) fn end_prober(&self) -> bool {
        self.probers.fetch_sub(1, Ordering::AcqRel) == 1
    }
}
