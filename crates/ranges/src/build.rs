//! The left side of a join, in the order of its codes.
//!
//! Rows lie in blocks as they came. A *place* is a row's number in the order: rows with equal keys follow each other, a *group* (one of all
//! rows if the join has no keys), and within a group lie those of a code. Behind the rows that have a code lie those that have
//! none, since NULL keeps no bound. The codes are sorted in chunks, which are merged two by two, so that no step is longer
//! than one over [`STEP`] rows.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array, new_null_array};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::{BatchCoalescer, interleave, take};
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use halcyon_sql::diagnose::external;
use halcyon_sql::error::{SqlError, SqlState};
use halcyon_task::proceed;

use crate::code::codes;
use crate::groups::Groups;
use crate::heights::Heights;
use crate::plan::{Bound, End, Join, batch_of, value};

/// Rows of a block, as a power of two.
const BLOCK_BITS: u32 = 16;
const BLOCK: usize = 1 << BLOCK_BITS;
/// Rows that are sorted in one step, and those that are merged in one.
const CHUNK: usize = 1 << 13;
const STEP: usize = 1 << 15;

/// A row's group, its code, and its number.
type Head = (u32, u128, u32);

/// Rows as they are collected.
pub(crate) struct Builder {
    join: Arc<Join>,
    blocks: BatchCoalescer,
    done: Vec<RecordBatch>,
    bytes_done: usize,
    rows: usize,
    heads: Vec<Head>,
    /// Rows without a code.
    without: Vec<u32>,
    /// By row: its number for the second expression's bound.
    seconds: Vec<u128>,
    /// `None` before rows have come, or if there are no keys.
    groups: Option<Groups>,
    /// Whether an expression of a bound has an error for some row.
    has_failed: bool,
    memory: MemoryReservation,
}

impl Builder {
    pub(crate) fn new(join: &Arc<Join>, memory: MemoryReservation) -> Self {
        Builder {
            blocks: BatchCoalescer::new(Arc::clone(&join.kept_schema), BLOCK),
            join: Arc::clone(join),
            done: Vec::new(),
            bytes_done: 0,
            rows: 0,
            heads: Vec::new(),
            without: Vec::new(),
            seconds: Vec::new(),
            groups: None,
            has_failed: false,
            memory,
        }
    }

    /// Takes rows in. Errors: 53200, and those of keys.
    pub(crate) fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.rows + batch.num_rows() >= u32::MAX as usize {
            let message = "a join's side has room for four thousand million rows";
            return Err(external(SqlError::new(SqlState::OUT_OF_MEMORY, message)));
        }
        let groups = match self.join.keys.is_empty() {
            true => vec![Some(0); batch.num_rows()],
            false => {
                let keys: Vec<_> = self.join.keys.iter().map(|(key, _)| Arc::clone(key)).collect();
                Groups::put(&mut self.groups, &keys, batch)?
            }
        };
        let codes = if self.has_failed { None } else { self.codes(batch).ok() };
        let codes = codes.unwrap_or_else(|| {
            self.has_failed = true;
            self.seconds = Vec::new();
            vec![Some(0); batch.num_rows()]
        });
        let first = self.rows as u32;
        for (row, (group, code)) in (first..).zip(groups.into_iter().zip(codes)) {
            match (group, code) {
                (Some(group), Some(code)) => self.heads.push((group, code, row)),
                _ => self.without.push(row),
            }
        }
        self.rows += batch.num_rows();
        self.blocks.push_batch(self.join.kept(batch)?)?;
        self.collect();
        let open = self.blocks.get_buffered_rows()
            * (self.bytes_done / self.done.len().max(1) / BLOCK + 16);
        self.memory.try_resize(self.bytes_done + open + self.code_bytes())
    }

    /// The codes of rows, whose numbers for the second bound are put behind those that came. Errors: those of expressions.
    fn codes(&mut self, batch: &RecordBatch) -> Result<Vec<Option<u128>>> {
        let firsts = codes(&value(&self.join.first, batch)?)?;
        if let Some((second, bound)) = &self.join.second {
            let seconds = codes(&value(second, batch)?)?;
            self.seconds.extend(seconds.into_iter().map(|code| height(bound.end, code)));
        }
        Ok(firsts)
    }

    fn code_bytes(&self) -> usize {
        self.heads.capacity() * size_of::<Head>()
            + self.without.capacity() * size_of::<u32>()
            + self.seconds.capacity() * size_of::<u128>()
            + self.groups.as_ref().map_or(0, Groups::bytes)
    }

    fn collect(&mut self) {
        while let Some(block) = self.blocks.next_completed_batch() {
            self.bytes_done += block.get_array_memory_size();
            self.done.push(block);
        }
    }

    /// The rows in their order. `probers`: how many will look for rows.
    ///
    /// Errors: 57014 and 53200.
    pub(crate) async fn build(mut self, probers: usize) -> Result<Build> {
        self.blocks.finish_buffered_batch()?;
        self.collect();
        // What the merges need, which is more than what is left of it.
        let merging = self.heads.len() * size_of::<Head>() + Heights::bytes(self.seconds.len());
        self.memory.try_resize(self.bytes_done + self.code_bytes() + merging)?;
        let heads = sorted(std::mem::take(&mut self.heads)).await?;
        let (mut codes, mut rows) =
            (Vec::with_capacity(heads.len()), Vec::with_capacity(self.rows));
        let mut places = vec![0..0; self.groups.as_ref().map_or(1, Groups::count)];
        for heads in heads.chunks(STEP) {
            for &(group, code, row) in heads {
                let places: &mut Range<usize> = &mut places[group as usize];
                if places.end == 0 {
                    places.start = codes.len();
                }
                places.end = codes.len() + 1;
                codes.push(code);
                rows.push(row);
            }
            step().await?;
        }
        drop(heads);
        rows.extend(std::mem::take(&mut self.without));
        let heights = match self.join.second.is_some() && !self.has_failed {
            true => {
                let mut heights = Vec::with_capacity(codes.len());
                for rows in rows[..codes.len()].chunks(STEP) {
                    heights.extend(rows.iter().map(|&row| self.seconds[row as usize]));
                    step().await?;
                }
                Some(Heights::new(heights))
            }
            false => None,
        };
        drop(std::mem::take(&mut self.seconds));
        let visited = if self.join.gives_build_rows() { self.rows.div_ceil(64) } else { 0 };
        let skips = if self.join.asks_build_rows_once() { probers * self.rows } else { 0 };
        let numbers = (rows.len() + skips) * size_of::<u32>() + visited * size_of::<u64>();
        let heights_bytes = heights.as_ref().map_or(0, |_| Heights::bytes(codes.len()));
        let group_bytes = self.groups.as_ref().map_or(0, Groups::bytes);
        let code_bytes = codes.len() * size_of::<u128>() + heights_bytes + group_bytes;
        self.memory.try_resize(self.bytes_done + code_bytes + numbers)?;
        assert_eq!(rows.len(), self.rows, "each row has a place");
        Ok(Build {
            blocks: self.done,
            codes,
            rows,
            places,
            groups: self.groups,
            heights,
            has_order: !self.has_failed,
            visited: (0..visited).map(|_| AtomicU64::new(0)).collect(),
            probers: AtomicUsize::new(probers),
            join: self.join,
            _memory: self.memory,
        })
    }
}

/// Ends a step. Errors: 57014.
async fn step() -> Result<()> {
    SqlError::unless_interrupted().map_err(external)?;
    proceed().await;
    Ok(())
}

/// Heads in order. Errors: 57014.
async fn sorted(mut heads: Vec<Head>) -> Result<Vec<Head>> {
    for chunk in heads.chunks_mut(CHUNK) {
        chunk.sort_unstable();
        step().await?;
    }
    let mut other: Vec<Head> = Vec::new();
    let mut width = CHUNK;
    while width < heads.len() {
        other.clear();
        other.reserve_exact(heads.len());
        for both in heads.chunks(2 * width) {
            let (left, right) = both.split_at(width.min(both.len()));
            let (mut l, mut r) = (0, 0);
            while l < left.len() || r < right.len() {
                (l, r) = merged(left, l, right, r, &mut other);
                step().await?;
            }
        }
        std::mem::swap(&mut heads, &mut other);
        width *= 2;
    }
    Ok(heads)
}

/// Merges [`STEP`] heads from these places on. Returns the next places.
fn merged(
    left: &[Head],
    mut l: usize,
    right: &[Head],
    mut r: usize,
    into: &mut Vec<Head>,
) -> (usize, usize) {
    for _ in 0..STEP {
        match (left.get(l), right.get(r)) {
            (None, None) => break,
            (Some(head), other) if other.is_none_or(|other| head < other) => {
                into.push(*head);
                l += 1;
            }
            (_, other) => {
                into.extend(other);
                r += 1;
            }
        }
    }
    (l, r)
}

/// A number that is at least that of another value's code if the value keeps the bound; 0 for NULL.
fn height(end: End, code: Option<u128>) -> u128 {
    match (end, code) {
        (_, None) => 0,
        (End::Least, Some(code)) => code.saturating_add(1),
        (End::Most, Some(code)) => (u128::MAX - code).max(1),
    }
}

/// The least number that keeps a bound; `None`: none does.
pub(crate) fn least(bound: &Bound, code: Option<u128>) -> Option<u128> {
    let height = height(bound.end, Some(code?));
    if bound.is_strict { height.checked_add(1) } else { Some(height) }
}

/// Rows in order.
pub(crate) struct Build {
    pub(crate) join: Arc<Join>,
    /// All of [`BLOCK_BITS`] but the last.
    blocks: Vec<RecordBatch>,
    /// By place.
    codes: Vec<u128>,
    rows: Vec<u32>,
    /// By group: the places of its rows.
    places: Vec<Range<usize>>,
    groups: Option<Groups>,
    /// By place: the numbers for the second expression's bound.
    pub(crate) heights: Option<Heights>,
    /// Whether the rows are in the order of codes; else expressions have errors, and pairs are asked the whole condition.
    pub(crate) has_order: bool,
    /// A bit for each place: whether its row has been matched.
    visited: Vec<AtomicU64>,
    /// Outputs that still look for rows.
    probers: AtomicUsize,
    _memory: MemoryReservation,
}

impl Build {
    /// Rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// By row of a batch that looks: the places of the rows whose keys are its keys. Errors: those of keys.
    pub(crate) fn groups(&self, batch: &RecordBatch) -> Result<Vec<Range<usize>>> {
        let Some(groups) = &self.groups else {
            // Without keys there is one group; with keys, and without rows, there is none.
            let all = if self.join.keys.is_empty() { self.places[0].clone() } else { 0..0 };
            return Ok(vec![all; batch.num_rows()]);
        };
        let keys: Vec<_> = self.join.keys.iter().map(|(_, key)| Arc::clone(key)).collect();
        let places = |group: Option<u32>| match group {
            Some(group) => self.places[group as usize].clone(),
            None => 0..0,
        };
        Ok(groups.find(&keys, batch)?.into_iter().map(places).collect())
    }

    /// A range of one group less what does not keep a bound. `hint`: the place of the last such end, near which it is looked for first.
    pub(crate) fn narrow(
        &self,
        range: &mut Range<usize>,
        bound: &Bound,
        code: u128,
        hint: &mut usize,
    ) {
        if range.start >= range.end {
            return;
        }
        let is_before = |&other: &u128| match (bound.end, bound.is_strict) {
            (End::Least, false) | (End::Most, true) => other < code,
            (End::Least, true) | (End::Most, false) => other <= code,
        };
        let near = (*hint).clamp(range.start, range.end) - range.start;
        *hint = range.start + partition_point_near(&self.codes[range.clone()], near, is_before);
        match bound.end {
            End::Least => range.start = *hint,
            End::Most => range.end = *hint,
        }
    }

    /// A column of rows by their numbers, which are places and one; 0: NULL.
    pub(crate) fn column(&self, column: usize, numbers: &[u32]) -> Result<ArrayRef> {
        let has_none = numbers.contains(&0);
        let ty = self.join.kept_schema.field(column).data_type();
        let row = |number: u32| self.rows[number as usize - 1];
        match &self.blocks[..] {
            [] => Ok(new_null_array(ty, numbers.len())),
            [block] => {
                let rows = numbers.iter().map(|&number| if number == 0 { 0 } else { row(number) });
                let rows = ScalarBuffer::from_iter(rows);
                let nulls = has_none
                    .then(|| numbers.iter().map(|&number| number != 0).collect::<NullBuffer>());
                Ok(take(block.column(column), &UInt32Array::new(rows, nulls), None)?)
            }
            blocks => {
                let mut arrays: Vec<&dyn Array> =
                    blocks.iter().map(|block| block.column(column).as_ref()).collect();
                let null = has_none.then(|| new_null_array(ty, 1));
                arrays.extend(null.as_deref());
                let place = |&number: &u32| match number {
                    0 => (blocks.len(), 0),
                    _ => {
                        let row = row(number) as usize;
                        (row >> BLOCK_BITS, row & (BLOCK - 1))
                    }
                };
                let places: Vec<(usize, usize)> = numbers.iter().map(place).collect();
                Ok(interleave(&arrays, &places)?)
            }
        }
    }

    /// Notes that the row at a place has been matched.
    #[inline(always)]
    pub(crate) fn visit(&self, place: usize) {
        let word = &self.visited[place / 64];
        // Most rows that are matched were matched before.
        if word.load(Ordering::Relaxed) >> (place % 64) & 1 == 0 {
            word.fetch_or(1 << (place % 64), Ordering::Relaxed);
        }
    }

    /// Whether the row at a place has been matched, once all outputs have looked.
    pub(crate) fn was_visited(&self, place: usize) -> bool {
        self.visited[place / 64].load(Ordering::Relaxed) >> (place % 64) & 1 == 1
    }

    /// An output has looked for all its rows. Whether it is the last: it sees what all others have noted.
    pub(crate) fn end_prober(&self) -> bool {
        self.probers.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// A batch of rows with these numbers, and NULL on the other side.
    pub(crate) fn left_alone(&self, numbers: &[u32], mark: ArrayRef) -> Result<RecordBatch> {
        use crate::plan::Source;
        let column = |(at, &source): (usize, &Source)| match source {
            Source::Build(column) => self.column(column, numbers),
            Source::Probe(_) => {
                Ok(new_null_array(self.join.schema.field(at).data_type(), numbers.len()))
            }
            Source::Mark => Ok(Arc::clone(&mark)),
        };
        let columns = self.join.output.iter().enumerate().map(column).collect::<Result<_>>()?;
        batch_of(&self.join.schema, columns, numbers.len())
    }
}

/// How many of the first of a list's numbers are before a place; looked for from `hint` on, in steps that double.
fn partition_point_near(numbers: &[u128], hint: usize, is_before: impl Fn(&u128) -> bool) -> usize {
    let hint = hint.min(numbers.len());
    let (mut low, mut high, mut width) = (hint, hint, 1);
    if numbers.get(hint).is_some_and(&is_before) {
        while high < numbers.len() && is_before(&numbers[high]) {
            low = high + 1;
            high = (high + width).min(numbers.len());
            width *= 2;
        }
    } else {
        while low > 0 && !is_before(&numbers[low - 1]) {
            high = low - 1;
            low = low.saturating_sub(width);
            width *= 2;
        }
    }
    low + numbers[low..high.max(low)].partition_point(is_before)
}
