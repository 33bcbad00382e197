//! All segments of a partition, found by number.
//!
//! Two levels, so that a snapshot is one reference and the first write after it copies little: the
//! directory's list of chunks, one chunk of 64 references, one segment's head, and the vectors
//! touched.
//! Invariants, checked by [`Directory::check`]:
//! 1. Segments `0..segment_count` exist, no others.
//! 2. `row_count` is the sum of the segments' live rows.
//! 3. The bit of a segment in `free` is set exactly if it has a free slot; words of `free` before
//!    `free_hint` are 0.
//!
//! Cost: a row is found in three dependent loads; a free slot in O(1) amortised.

use crate::copies::own;
use crate::segment::Segment;
use crate::value::{Schema, ValueRef};
use crate::vector::{bit, set_bit};
use halcyon_base::RowId;
use halcyon_base::ids::SEGMENT_ROWS;
use triomphe::Arc;

/// Segments per chunk.
const CHUNK: usize = 64;
/// Row ids have 32 bits.
const SEGMENTS_MAX: usize = (1 << 32) / SEGMENT_ROWS;

#[derive(Clone)]
struct Chunk {
    segments: [Option<Arc<Segment>>; CHUNK],
}

/// The segments of a partition.
#[derive(Clone, Default)]
pub(crate) struct Directory {
    chunks: Vec<Arc<Chunk>>,
    segment_count: usize,
    row_count: u64,
    free: Vec<u64>,
    free_hint: usize,
}

impl Directory {
    pub(crate) fn row_count(&self) -> u64 {
        self.row_count
    }

    pub(crate) fn segment_count(&self) -> usize {
        self.segment_count
    }

    #[inline]
    pub(crate) fn segment(&self, segment_idx: usize) -> Option<&Segment> {
        self.chunks.get(segment_idx / CHUNK)?.segments[segment_idx % CHUNK].as_deref()
    }

    /// The segment for writing: copies what a snapshot shares, but no vector.
    #[inline]
    fn segment_mut(&mut self, segment_idx: usize) -> Option<&mut Segment> {
        if segment_idx >= self.segment_count {
            return None;
        }
        let chunk = own(&mut self.chunks[segment_idx / CHUNK]);
        chunk.segments[segment_idx % CHUNK].as_mut().map(own)
    }

    pub(crate) fn segments(&self) -> impl Iterator<Item = (usize, &Segment)> {
        let segments = self.chunks.iter().flat_map(|chunk| chunk.segments.iter().flatten());
        segments.map(|segment| &**segment).enumerate()
    }

    /// Adds an empty segment with room for `rows`.
    fn push(&mut self, schema: &Schema, rows: usize) {
        assert!(self.segment_count < SEGMENTS_MAX, "a partition has at most 2^32 rows");
        if self.segment_count.is_multiple_of(CHUNK) {
            self.chunks.push(Arc::new(Chunk { segments: [const { None }; CHUNK] }));
        }
        let chunk = self.chunks.last_mut().expect("just made sure of");
        own(chunk).segments[self.segment_count % CHUNK] =
            Some(Arc::new(Segment::new(schema, rows)));
        self.segment_count += 1;
        self.free.resize(self.segment_count.div_ceil(64), 0);
        self.note_free(self.segment_count - 1, true);
    }

    fn note_free(&mut self, segment_idx: usize, is_free: bool) {
        if bit(&self.free, segment_idx) != is_free {
            set_bit(&mut self.free, segment_idx, is_free);
            if is_free {
                self.free_hint = self.free_hint.min(segment_idx / 64);
            }
        }
    }

    /// The first segment with a free slot; makes one if there is none.
    #[inline]
    fn free_segment(&mut self, schema: &Schema) -> usize {
        while self.free_hint < self.free.len() {
            let word = self.free[self.free_hint];
            if word != 0 {
                return self.free_hint * 64 + word.trailing_zeros() as usize;
            }
            self.free_hint += 1;
        }
        // A first segment starts small; a table that has filled one will fill another.
        let rows = if self.segment_count == 0 { 1 } else { SEGMENT_ROWS };
        self.push(schema, rows);
        self.segment_count - 1
    }

    /// Puts a row into a free slot.
    #[inline]
    pub(crate) fn insert(&mut self, schema: &Schema, values: &[ValueRef<'_>]) -> RowId {
        let segment_idx = self.free_segment(schema);
        let segment = self.segment_mut(segment_idx).expect("a segment with a free slot exists");
        let slot = segment.free_slot().expect("the free bit says that there is one");
        segment.insert(schema, slot, values);
        if segment.live_count() == SEGMENT_ROWS {
            self.note_free(segment_idx, false);
        }
        self.row_count += 1;
        RowId::at(segment_idx, slot)
    }

    /// Puts a row into the slot that `row` names; segments up to it come into being.
    ///
    /// Panics: if a row is there.
    pub(crate) fn insert_at(&mut self, schema: &Schema, row: RowId, values: &[ValueRef<'_>]) {
        while self.segment_count <= row.segment_idx() {
            self.push(schema, 1);
        }
        let segment = self.segment_mut(row.segment_idx()).expect("just made sure of");
        segment.insert(schema, row.slot(), values);
        let is_full = segment.live_count() == SEGMENT_ROWS;
        self.note_free(row.segment_idx(), !is_full);
        self.row_count += 1;
    }

    /// Overwrites some values of a live row.
    ///
    /// Panics: if there is no such row.
    #[inline]
    pub(crate) fn update(
        &mut self,
        schema: &Schema,
        row: RowId,
        columns: &[u16],
        values: &[ValueRef<'_>],
    ) {
        let segment = self.segment_mut(row.segment_idx()).expect("the row to update exists");
        segment.update(schema, row.slot(), columns, values);
    }

    /// Frees the slot of a live row.
    ///
    /// Panics: if there is no such row.
    pub(crate) fn delete(&mut self, schema: &Schema, row: RowId) {
        let segment = self.segment_mut(row.segment_idx()).expect("the row to delete exists");
        segment.delete(schema, row.slot());
        self.note_free(row.segment_idx(), true);
        self.row_count -= 1;
    }

    /// Where a bulk load begins: behind the last slot in use.
    pub(crate) fn load_start(&self) -> u64 {
        let used = |segment_idx: &usize| self.segment(*segment_idx).map_or(0, Segment::used);
        let last = (0..self.segment_count).rev().find(|segment_idx| used(segment_idx) > 0);
        last.map_or(0, |last| (last * SEGMENT_ROWS + used(&last)) as u64)
    }

    /// How many rows may still be loaded. The last id stays free, so that a range of ids has an end.
    pub(crate) fn load_room(&self) -> u64 {
        u32::MAX as u64 - self.load_start()
    }

    /// Loads `rows` rows from [`Directory::load_start`] on; `fill` fills a segment with rows
    /// starting at one of the load's.
    pub(crate) fn load(
        &mut self,
        schema: &Schema,
        rows: usize,
        mut fill: impl FnMut(&mut Segment, usize, usize),
    ) {
        let mut done = 0;
        while done < rows {
            let start = self.load_start();
            let segment_idx = start as usize / SEGMENT_ROWS;
            if segment_idx == self.segment_count {
                self.push(schema, (rows - done).min(SEGMENT_ROWS));
            }
            let segment = self.segment_mut(segment_idx).expect("just made sure of");
            let count = (SEGMENT_ROWS - segment.used()).min(rows - done);
            fill(segment, done, count);
            segment.finish_load(count);
            let is_full = segment.live_count() == SEGMENT_ROWS;
            self.note_free(segment_idx, !is_full);
            self.row_count += count as u64;
            done += count;
        }
    }

    /// Fills an empty segment, which comes into being with those before it, with rows in the slots
    /// given; `fill` loads them from slot 0 on.
    ///
    /// Panics: if the segment holds a row.
    pub(crate) fn restore(
        &mut self,
        schema: &Schema,
        segment_idx: usize,
        slots: &[usize],
        fill: impl FnOnce(&mut Segment),
    ) {
        while self.segment_count <= segment_idx {
            let last = self.segment_count == segment_idx;
            self.push(schema, if last { slots.len() } else { 1 });
        }
        let segment = self.segment_mut(segment_idx).expect("just made sure of");
        assert_eq!(segment.live_count(), 0, "rows are put back into an empty segment");
        fill(segment);
        segment.finish_load(slots.len());
        segment.spread(slots);
        let is_full = segment.live_count() == SEGMENT_ROWS;
        self.note_free(segment_idx, !is_full);
        self.row_count += slots.len() as u64;
    }

    /// The same directory with every segment replaced.
    pub(crate) fn map(&self, change: impl Fn(&Segment) -> Segment) -> Directory {
        let mut changed = self.clone();
        for chunk in &mut changed.chunks {
            for segment in own(chunk).segments.iter_mut().flatten() {
                *segment = Arc::new(change(segment));
            }
        }
        changed
    }

    /// Memory held, in bytes. What snapshots share is counted by each of them.
    pub(crate) fn bytes(&self) -> u64 {
        let segments: u64 = self.segments().map(|(_, segment)| segment.bytes()).sum();
        (self.chunks.len() * size_of::<Chunk>() + self.free.len() * 8) as u64 + segments
    }

    /// Panics unless the invariants hold, of the segments too. O(values).
    pub(crate) fn check(&self, schema: &Schema) {
        assert_eq!(self.segments().count(), self.segment_count);
        assert_eq!(self.chunks.len(), self.segment_count.div_ceil(CHUNK));
        let live: usize = self.segments().map(|(_, segment)| segment.live_count()).sum();
        assert_eq!(live as u64, self.row_count);
        assert!(self.free[..self.free_hint.min(self.free.len())].iter().all(|&word| word == 0));
        for (segment_idx, segment) in self.segments() {
            assert_eq!(bit(&self.free, segment_idx), segment.live_count() < SEGMENT_ROWS);
            segment.check(schema);
        }
    }
}
