//! A partition as a value: rows in segments, and the indexes over them.
//!
//! Reading needs `&Partition`, writing `&mut Partition`; `txn`'s locks decide which thread may have
//! which. There is no lock and no atomic here but reference counts. A clone is a snapshot: it
//! shares everything, costs a few reference counts, and stays as it is when the original changes,
//! because a writer changes a vector or node in place only if it holds the only reference, and
//! copies it first otherwise.
//! Invariants, checked by [`Partition::check`]: those of the segments and trees; every index has
//! exactly one entry per row that it does not leave out, under the key that the row has now; no unique index holds two rows
//! of one key (except between an `_unchecked` change and the caller's [`Partition::check_unique`]).
//! Cost: see the parts. An update touches an index only if it changes a column of its key.

use crate::batch::{Batch, SegmentRef};
use crate::copies;
use crate::directory::Directory;
use crate::index::{Conflict, Index, IndexDef, IndexRef, column_bit};
use crate::key::KeyBuf;
use crate::latch::Latch;
use crate::row::RowRef;
use crate::value::{ColumnDef, Schema, ValueRef};
use crate::vector::set_bits;
use halcyon_base::{IndexId, RowId, progress};
use std::cell::Cell;
use std::sync::Arc;

/// Key buffers that writes use again and again. A clone starts with empty ones.
#[derive(Default)]
struct Scratch {
    /// A row's keys, one per index.
    keys: Vec<KeyBuf>,
    /// One key before and after an update.
    old: KeyBuf,
    new: KeyBuf,
}

impl Clone for Scratch {
    fn clone(&self) -> Self {
        Scratch::default()
    }
}

/// Rows and their indexes. Clone is a snapshot.
#[derive(Clone)]
pub struct Partition {
    pub(crate) schema: Arc<Schema>,
    pub(crate) directory: triomphe::Arc<Directory>,
    pub(crate) indexes: Vec<Index>,
    scratch: Scratch,
    /// The latch around the segments; on only where latches are measured.
    latch: Latch,
}

// Snapshots go to other threads.
const _: () = {
    const fn can_be_shared<T: Send + Sync>() {}
    can_be_shared::<Partition>();
};

impl Partition {
    /// A partition without rows and without indexes.
    pub fn new(schema: Arc<Schema>) -> Self {
        let directory = triomphe::Arc::new(Directory::default());
        let (scratch, latch) = (Scratch::default(), Latch::default());
        Partition { schema, directory, indexes: vec![], scratch, latch }
    }

    /// The partition, if `on` with a reader-writer latch around every access to its segments and to
    /// every index that is added from now on: for measuring what such latches cost.
    ///
    /// Panics: if `on` and this crate was compiled without its feature `latches`.
    pub fn latched(self, on: bool) -> Self {
        Partition { latch: Latch::new(on), ..self }
    }

    /// Whether every access to its segments and indexes is latched.
    pub fn is_latched(&self) -> bool {
        self.latch.is_on()
    }

    /// The columns.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Number of rows.
    pub fn row_count(&self) -> u64 {
        self.directory.row_count()
    }

    /// Memory held, in bytes, indexes included. What snapshots share is counted by each of them.
    /// O(segments), and O(rows) per index of keys longer than 16 bytes.
    pub fn bytes(&self) -> u64 {
        self.directory.bytes() + self.indexes.iter().map(Index::bytes).sum::<u64>()
    }

    /// Memory held by the rows alone, in bytes. O(segments).
    pub fn row_bytes(&self) -> u64 {
        self.directory.bytes()
    }

    /// The row, if there is one.
    #[inline]
    pub fn row(&self, id: RowId) -> Option<RowRef<'_>> {
        let _held = self.latch.read();
        let segment = self.directory.segment(id.segment_idx())?;
        segment.is_live(id.slot()).then(|| RowRef::new(&self.schema, segment, id))
    }

    /// All rows, by ascending id.
    pub fn rows(&self) -> impl Iterator<Item = RowRef<'_>> {
        self.directory.segments().flat_map(move |(segment_idx, segment)| {
            set_bits(segment.live())
                .map(move |slot| RowRef::new(&self.schema, segment, RowId::at(segment_idx, slot)))
        })
    }

    /// Segments that hold rows, by ascending row ids.
    pub fn segments(&self) -> impl Iterator<Item = SegmentRef<'_>> {
        self.directory
            .segments()
            .filter(|(_, segment)| segment.live_count() > 0)
            .map(|(segment_idx, segment)| SegmentRef::new(&self.schema, segment, segment_idx))
    }

    /// All rows as Arrow arrays, a batch per segment, with the columns of `projection`.
    pub fn scan(&self, projection: &[usize]) -> impl Iterator<Item = Batch> {
        self.segments().map(|segment| segment.batch(projection))
    }

    /// How many segments there are, empty ones included: [`Partition::segment`] knows them by
    /// number, for scans that share the work.
    pub fn segment_count(&self) -> usize {
        self.directory.segment_count()
    }

    /// A segment by number. None beyond the last and if it holds no row.
    pub fn segment(&self, segment_idx: usize) -> Option<SegmentRef<'_>> {
        let segment = self.directory.segment(segment_idx)?;
        (segment.live_count() > 0).then(|| SegmentRef::new(&self.schema, segment, segment_idx))
    }

    /// Puts a row in; its id is one that no row has now.
    ///
    /// Errors: [`Conflict`] in a unique index; nothing has changed then.
    /// Panics: if a value is missing or of another type than its column, on NULL in a column that
    /// is not nullable, and beyond 2^32 rows.
    pub fn insert(&mut self, values: &[ValueRef<'_>]) -> Result<RowId, Conflict> {
        self.encode_keys(values);
        for (index, key) in self.indexes.iter().zip(&self.scratch.keys) {
            index.conflict(key, None)?;
        }
        Ok(self.insert_encoded(values))
    }

    /// As [`Partition::insert`], but lets keys repeat; [`Partition::check_unique`] must follow
    /// before anybody relies on a unique index.
    pub fn insert_unchecked(&mut self, values: &[ValueRef<'_>]) -> RowId {
        self.encode_keys(values);
        self.insert_encoded(values)
    }

    /// Puts a row back where one was deleted: for undo and recovery, so uniqueness is not checked.
    ///
    /// Panics: if a row is there.
    pub fn insert_at(&mut self, row: RowId, values: &[ValueRef<'_>]) {
        self.encode_keys(values);
        let directory = copies::own(&mut self.directory);
        directory.insert_at(&self.schema, row, values);
        self.insert_keys(row);
    }

    /// Encodes a row's keys, one per index.
    #[inline]
    fn encode_keys(&mut self, values: &[ValueRef<'_>]) {
        self.scratch.keys.resize_with(self.indexes.len(), KeyBuf::new);
        for (index, key) in self.indexes.iter().zip(&mut self.scratch.keys) {
            index.encode(&self.schema, key, |column| values[column]);
        }
    }

    /// Stores a row whose keys were encoded.
    #[inline]
    fn insert_encoded(&mut self, values: &[ValueRef<'_>]) -> RowId {
        let row = {
            let _held = self.latch.write();
            copies::own(&mut self.directory).insert(&self.schema, values)
        };
        self.insert_keys(row);
        row
    }

    #[inline]
    fn insert_keys(&mut self, row: RowId) {
        for (index, key) in self.indexes.iter_mut().zip(&self.scratch.keys) {
            index.insert(key, row);
        }
    }

    /// Overwrites the named columns of a row.
    ///
    /// Errors: [`Conflict`] in a unique index; nothing has changed then.
    /// Panics: if there is no such row, and as [`Partition::insert`].
    pub fn update(
        &mut self,
        row: RowId,
        columns: &[u16],
        values: &[ValueRef<'_>],
    ) -> Result<(), Conflict> {
        let mask = mask_of(columns);
        if !self.in_keys(mask) {
            self.write(row, columns, values);
            return Ok(());
        }
        for at in 0..self.indexes.len() {
            if self.indexes[at].covers(mask)
                && self.indexes[at].def().unique
                && self.encode_change(at, row, columns, values)
            {
                self.indexes[at].conflict(&self.scratch.new, None)?;
            }
        }
        self.update_unchecked(row, columns, values);
        Ok(())
    }

    /// Whether a column of the mask is in the key of an index.
    #[inline]
    fn in_keys(&self, mask: u128) -> bool {
        self.indexes.iter().any(|index| index.covers(mask))
    }

    /// Overwrites columns, whose indexes know already.
    #[inline]
    fn write(&mut self, row: RowId, columns: &[u16], values: &[ValueRef<'_>]) {
        assert_eq!(columns.len(), values.len(), "a value per column");
        let _held = self.latch.write();
        let directory = copies::own(&mut self.directory);
        directory.update(&self.schema, row, columns, values);
    }

    /// As [`Partition::update`], but lets keys repeat; [`Partition::check_unique`] must follow
    /// before anybody relies on a unique index. `UPDATE t SET id = id + 1` needs this: keys repeat
    /// between its first and its last row.
    pub fn update_unchecked(&mut self, row: RowId, columns: &[u16], values: &[ValueRef<'_>]) {
        assert_eq!(columns.len(), values.len(), "a value per column");
        let mask = mask_of(columns);
        for at in 0..self.indexes.len() {
            if self.indexes[at].covers(mask) && self.encode_change(at, row, columns, values) {
                self.indexes[at].remove(&self.scratch.old, row);
                self.indexes[at].insert(&self.scratch.new, row);
            }
        }
        self.write(row, columns, values);
    }

    /// Encodes a row's key before and after an update; true if they differ.
    fn encode_change(
        &mut self,
        index: usize,
        row: RowId,
        columns: &[u16],
        values: &[ValueRef<'_>],
    ) -> bool {
        let index = &self.indexes[index];
        let (schema, scratch) = (&self.schema, &mut self.scratch);
        let segment = self.directory.segment(row.segment_idx()).expect("the row to change exists");
        let old = RowRef::new(schema, segment, row);
        index.encode(schema, &mut scratch.old, |column| old.value(column));
        index.encode(schema, &mut scratch.new, |column| {
            let place = columns.iter().rposition(|&changed| changed as usize == column);
            place.map_or_else(|| old.value(column), |place| values[place])
        });
        scratch.old != scratch.new
    }

    /// Whether rows that were changed without checks repeat a key of a unique index. Rows that are
    /// gone are passed over.
    ///
    /// Errors: [`Conflict`] with the other row that has the key.
    pub fn check_unique(&self, rows: impl IntoIterator<Item = RowId>) -> Result<(), Conflict> {
        let mut key = KeyBuf::new();
        for row in rows {
            let Some(row) = self.row(row) else { continue };
            for index in self.indexes.iter().filter(|index| index.def().unique) {
                index.encode(&self.schema, &mut key, |column| row.value(column));
                index.conflict(&key, Some(row.id()))?;
            }
        }
        Ok(())
    }

    /// Deletes a row; false if there is no such row.
    pub fn delete(&mut self, row: RowId) -> bool {
        if self.row(row).is_none() {
            return false;
        }
        for index in &mut self.indexes {
            let segment = self.directory.segment(row.segment_idx()).expect("it holds the row");
            let old = RowRef::new(&self.schema, segment, row);
            index.encode(&self.schema, &mut self.scratch.old, |column| old.value(column));
            index.remove(&self.scratch.old, row);
        }
        let _held = self.latch.write();
        copies::own(&mut self.directory).delete(&self.schema, row);
        true
    }

    /// Deletes all rows. O(indexes).
    pub fn truncate(&mut self) {
        self.directory = triomphe::Arc::new(Directory::default());
        for index in &mut self.indexes {
            *index = index.clone_empty();
        }
    }

    /// A partition with these columns and indexes and no rows. O(indexes).
    pub fn without_rows(&self) -> Partition {
        let mut empty = self.clone();
        empty.truncate();
        empty
    }

    /// Adds an index and fills it.
    ///
    /// Errors: [`Conflict`] if it is unique and two rows have one key; nothing has changed then.
    /// Panics: if an index of this id exists, or a column does not.
    pub fn add_index(&mut self, def: IndexDef) -> Result<(), Conflict> {
        assert!(self.index(def.id).is_none(), "index {} exists", def.id);
        let mut index = Index::new(def, &self.schema, self.latch.is_on());
        let rows: Vec<RowId> = self.rows().map(|row| row.id()).collect();
        let (told, left) = (progress::Rows::default(), Cell::new(rows.len()));
        progress::scans_table();
        self.fill_index_telling(&mut index, &rows, || {
            told.next();
            left.set(left.get() - 1);
            if left.get() == 0 {
                progress::loads_tree();
            }
        })?;
        self.indexes.push(index);
        Ok(())
    }

    /// Adds entries for rows that are there.
    pub(crate) fn fill_index(&self, index: &mut Index, rows: &[RowId]) -> Result<(), Conflict> {
        self.fill_index_telling(index, rows, || {})
    }

    /// The same; calls `told` for each row whose key is made.
    fn fill_index_telling(
        &self,
        index: &mut Index,
        rows: &[RowId],
        told: impl Fn(),
    ) -> Result<(), Conflict> {
        index.insert_many(rows, |index, row, key| {
            let row = self.row(row).expect("an index is filled from rows");
            index.encode(&self.schema, key, |column| row.value(column));
            told();
        })
    }

    /// Removes an index; false if there is none of this id.
    pub fn drop_index(&mut self, id: IndexId) -> bool {
        let before = self.indexes.len();
        self.indexes.retain(|index| index.def().id != id);
        self.indexes.len() < before
    }

    /// An index by id.
    #[inline]
    pub fn index(&self, id: IndexId) -> Option<IndexRef<'_>> {
        let index = self.indexes.iter().find(|index| index.id() == id)?;
        Some(IndexRef { index, schema: &self.schema })
    }

    #[cfg(all(test, feature = "latches"))]
    pub(crate) fn latches(&self) -> impl Iterator<Item = &Latch> {
        self.indexes.iter().map(Index::latch).chain([&self.latch])
    }

    /// All indexes, in the order in which they were added.
    pub fn indexes(&self) -> impl Iterator<Item = IndexRef<'_>> {
        self.indexes.iter().map(|index| IndexRef { index, schema: &self.schema })
    }

    /// Adds a column at the end, with the same value in every row. O(rows).
    ///
    /// Panics: if the value is of another type, or NULL and the column not nullable.
    pub fn add_column(&mut self, def: ColumnDef, value: ValueRef<'_>) {
        let mut schema = Schema::clone(&self.schema);
        schema.columns.push(def);
        let directory = self.directory.map(|segment| segment.with_column(def, value));
        self.directory = triomphe::Arc::new(directory);
        self.schema = Arc::new(schema);
    }

    /// Removes a column; those behind it move down by one, in the keys of indexes too. O(segments).
    ///
    /// Panics: if the key of an index depends on the column.
    pub fn drop_column(&mut self, column: usize) {
        let in_key = |index: &Index| index.def().inputs().any(|input| input as usize == column);
        assert!(!self.indexes.iter().any(in_key), "column {column} is in the key of an index");
        let mut schema = Schema::clone(&self.schema);
        let def = schema.columns.remove(column);
        let directory = self.directory.map(|segment| segment.without_column(def.ty, column));
        for index in &mut self.indexes {
            *index = index.with_columns(|k| if k as usize > column { k - 1 } else { k });
        }
        self.directory = triomphe::Arc::new(directory);
        self.schema = Arc::new(schema);
    }

    /// Says that a column may hold NULL.
    ///
    /// Errors: none. Keys of indexes over the column change, so these are built anew: O(rows).
    pub fn set_nullable(&mut self, column: usize, nullable: bool) {
        let mut schema = Schema::clone(&self.schema);
        if schema.columns[column].nullable == nullable {
            return;
        }
        let holds_null = || self.rows().any(|row| row.value(column).is_null());
        assert!(nullable || !holds_null(), "column {column} holds NULL");
        schema.columns[column].nullable = nullable;
        self.schema = Arc::new(schema);
        for at in 0..self.indexes.len() {
            let def = self.indexes[at].def();
            // Values that a function gives may be NULL as far as their index knows.
            let is_plain = def.derivation.is_none();
            if is_plain && def.columns.iter().any(|key| key.column as usize == column) {
                let mut index = Index::new(def.clone(), &self.schema, self.latch.is_on());
                let rows: Vec<RowId> = self.rows().map(|row| row.id()).collect();
                self.fill_index(&mut index, &rows).expect("no key changed its equals");
                self.indexes[at] = index;
            }
        }
    }

    /// Panics unless all invariants hold. O(values) and O(rows log rows) per index: for tests and
    /// fuzzers.
    pub fn check(&self) {
        self.directory.check(&self.schema);
        let mut key = KeyBuf::new();
        for index in &self.indexes {
            index.check();
            let mut entries = 0;
            for row in self.rows() {
                index.encode(&self.schema, &mut key, |column| row.value(column));
                if !key.is_absent() {
                    assert!(index.contains(&key, row.id()), "row {} is in its index", row.id());
                    entries += 1;
                }
            }
            assert_eq!(index.len(), entries, "an index has one entry per row");
        }
        let rows = self.rows().map(|row| row.id());
        assert_eq!(self.check_unique(rows), Ok(()), "no key of a unique index repeats");
    }
}

/// A bit per column; see [`column_bit`].
#[inline]
fn mask_of(columns: &[u16]) -> u128 {
    columns.iter().fold(0, |mask, &column| mask | column_bit(column))
}
