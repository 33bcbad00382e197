//! The undo log: a transaction's changes, so that they can be taken back.
//!
//! Words: a *record* is one row change or a whole root kept; a *mark* is a position in the log.
//! Values live in shared buffers that keep their memory between transactions, so a small change
//! allocates nothing. A transaction that changes much of a partition keeps the root instead of
//! further rows: copy-on-write has its before-images then, and undoing it is an assignment.
//! Invariants, checked by `random_changes_and_savepoints_agree_with_maps` (1) and by
//! [`Undo::check`] (2):
//! 1. Applying the records above a mark backwards gives the roots as they were at the mark, from
//!    whatever point between two changes.
//! 2. The records own the values and columns above their marks, without gaps.
//!
//! Cost: recording O(changed values); undoing O(records), or O(1) per kept root.

pub(crate) mod changed_rows;

use crate::planted;
use crate::redo::{Encoder, Redo};
use halcyon_base::{PartitionId, RowId};
use halcyon_store::{Partition, RowRef, ValueRef};

/// Row records of one statement and partition before its root is kept, in a small partition.
pub(crate) const ROWS_BEFORE_ROOT_MIN: u64 = 4096;

/// The same limit in a large partition, as a fraction of its rows. Keeping the root makes every
/// segment that is touched later be copied once, which must be worth it.
pub(crate) const ROWS_BEFORE_ROOT_FRACTION: u64 = 16;

/// Buffers above these lengths are given back to the allocator after the transaction.
const RECORDS_KEPT_MAX: usize = 4096;
const BYTES_KEPT_MAX: usize = 1 << 18;

/// A change of one of the held partitions.
struct Record {
    /// Position in the list of held partitions.
    held: u32,
    change: Change,
    /// Where the buffers ended before this record.
    before: Mark,
}

impl Record {
    fn is_root_of(&self, held: u32) -> bool {
        self.held == held && matches!(self.change, Change::Kept(_))
    }
}

enum Change {
    Inserted(RowId),
    /// Some columns of a row were changed; the record owns the columns and their values.
    Updated(RowId),
    /// A row was deleted; the record owns the values of all columns.
    Deleted(RowId),
    Kept(Box<Partition>),
}

/// A before-image of one value.
enum Image {
    /// Any value but text and bytes.
    Plain(ValueRef<'static>),
    /// End of a text in the text buffer; it begins at the end of the one before.
    Text(usize, usize),
    /// End of a byte string in the byte buffer; it begins at the end of the one before.
    Bytes(usize, usize),
}

/// A position in the log: everything above it is later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    records: usize,
    images: usize,
    columns: usize,
    texts: usize,
    bytes: usize,
}

/// The partitions that a transaction has changed.
pub(crate) trait Roots {
    /// The root of the held partition at this position.
    fn root_mut(&mut self, held: u32) -> &mut Partition;
}

/// The undo log of a transaction.
#[derive(Default)]
pub(crate) struct Undo {
    records: Vec<Record>,
    images: Vec<Image>,
    columns: Vec<u16>,
    texts: String,
    bytes: Vec<u8>,
}

impl Undo {
    /// Memory of the records and of the values that they own, without kept roots.
    pub(crate) fn bytes(&self) -> usize {
        self.records.len() * size_of::<Record>()
            + self.images.len() * size_of::<Image>()
            + self.columns.len() * size_of::<u16>()
            + self.texts.len()
            + self.bytes.len()
    }

    /// Panics unless invariant 2 holds. O(records): for tests.
    pub(crate) fn check(&self) {
        let mut last = Mark::default();
        let befores = self.records.iter().map(|record| record.before).chain([self.mark()]);
        for (position, before) in befores.enumerate() {
            assert_eq!(before.records, position, "a record stands where its mark says");
            let ends = [before.images, before.columns, before.texts, before.bytes];
            let from = [last.images, last.columns, last.texts, last.bytes];
            assert!(position > 0 || ends == [0; 4], "the first record begins at the beginning");
            assert!(from.iter().zip(ends).all(|(from, end)| *from <= end), "marks ascend");
            last = before;
        }
        let (mut texts, mut bytes) = (0, 0);
        for image in &self.images {
            let (end, from, to) = match *image {
                Image::Plain(_) => continue,
                Image::Text(from, to) => (&mut texts, from, to),
                Image::Bytes(from, to) => (&mut bytes, from, to),
            };
            assert_eq!(*end, from, "values lie side by side");
            *end = to;
        }
        assert_eq!(
            (texts, bytes),
            (self.texts.len(), self.bytes.len()),
            "and nothing is behind them"
        );
    }

    /// The present end of the log.
    #[inline]
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            records: self.records.len(),
            images: self.images.len(),
            columns: self.columns.len(),
            texts: self.texts.len(),
            bytes: self.bytes.len(),
        }
    }

    /// Records above `mark`.
    pub(crate) fn records_since(&self, mark: &Mark) -> usize {
        self.records.len() - mark.records
    }

    #[inline]
    pub(crate) fn inserted(&mut self, held: u32, row: RowId) {
        self.push(held, Change::Inserted(row), self.mark());
    }

    pub(crate) fn kept(&mut self, held: u32, root: Partition) {
        self.push(held, Change::Kept(Box::new(root)), self.mark());
    }

    /// Saves the values of `columns` of `row`. [`Undo::updated`] or [`Undo::forget`] follows.
    #[inline]
    pub(crate) fn save_columns(&mut self, row: RowRef<'_>, columns: &[u16]) -> Mark {
        let before = self.mark();
        self.columns.extend_from_slice(columns);
        for &column in columns {
            self.save(row.value(column as usize));
        }
        before
    }

    /// Saves all values of `row`. [`Undo::deleted`] or [`Undo::forget`] follows.
    pub(crate) fn save_row(&mut self, row: RowRef<'_>, column_count: usize) -> Mark {
        let before = self.mark();
        for column in 0..column_count {
            self.save(row.value(column));
        }
        before
    }

    /// The change for which [`Undo::save_columns`] returned `before` has happened.
    #[inline]
    pub(crate) fn updated(&mut self, held: u32, row: RowId, before: Mark) {
        self.push(held, Change::Updated(row), before);
    }

    /// The change for which [`Undo::save_row`] returned `before` has happened.
    pub(crate) fn deleted(&mut self, held: u32, row: RowId, before: Mark) {
        self.push(held, Change::Deleted(row), before);
    }

    /// The change for which values were saved has not happened.
    pub(crate) fn forget(&mut self, before: Mark) {
        self.truncate(before);
    }

    #[inline]
    fn push(&mut self, held: u32, change: Change, before: Mark) {
        self.records.push(Record { held, change, before });
    }

    #[inline]
    fn save(&mut self, value: ValueRef<'_>) {
        let image = match value {
            ValueRef::Text(text) => {
                let from = self.texts.len();
                self.texts.push_str(text);
                Image::Text(from, self.texts.len())
            }
            ValueRef::Bytes(bytes) => {
                let from = self.bytes.len();
                self.bytes.extend_from_slice(bytes);
                Image::Bytes(from, self.bytes.len())
            }
            ValueRef::Null => Image::Plain(ValueRef::Null),
            ValueRef::Bool(value) => Image::Plain(ValueRef::Bool(value)),
            ValueRef::Int16(value) => Image::Plain(ValueRef::Int16(value)),
            ValueRef::Int32(value) => Image::Plain(ValueRef::Int32(value)),
            ValueRef::Int64(value) => Image::Plain(ValueRef::Int64(value)),
            ValueRef::Float32(value) => Image::Plain(ValueRef::Float32(value)),
            ValueRef::Float64(value) => Image::Plain(ValueRef::Float64(value)),
            ValueRef::Decimal(value) => Image::Plain(ValueRef::Decimal(value)),
            ValueRef::Date(value) => Image::Plain(ValueRef::Date(value)),
            ValueRef::Time(value) => Image::Plain(ValueRef::Time(value)),
            ValueRef::Timestamp(value) => Image::Plain(ValueRef::Timestamp(value)),
            ValueRef::TimestampTz(value) => Image::Plain(ValueRef::TimestampTz(value)),
            ValueRef::Interval(value) => Image::Plain(ValueRef::Interval(value)),
            ValueRef::Uuid(value) => Image::Plain(ValueRef::Uuid(value)),
        };
        self.images.push(image);
    }

    fn image(&self, image: &Image) -> ValueRef<'_> {
        match *image {
            Image::Plain(value) => value,
            Image::Text(from, to) => ValueRef::Text(&self.texts[from..to]),
            Image::Bytes(from, to) => ValueRef::Bytes(&self.bytes[from..to]),
        }
    }

    /// Where undoing the latest `count` changes leads, at most as far as `mark`.
    pub(crate) fn stretch(&self, mark: Mark, count: usize) -> Mark {
        match self.records_since(&mark) > count {
            true => self.records[self.records.len() - count].before,
            false => mark,
        }
    }

    /// Undoes all changes above `mark`, latest first, and forgets them.
    pub(crate) fn undo_to(&mut self, mark: Mark, roots: &mut (impl Roots + ?Sized)) {
        let mut end = self.mark();
        let mut values = Vec::new();
        for record in self.records[mark.records..].iter().rev() {
            values.clear();
            self.undo_one(record, end, roots.root_mut(record.held), &mut values);
            end = record.before;
        }
        drop(values);
        self.truncate(mark);
    }

    /// The root of `held` before the transaction, given the root now.
    pub(crate) fn pre_image(&self, held: u32, now: &Partition) -> Partition {
        if planted::is(planted::CUT_WITHOUT_UNDO) {
            return now.clone();
        }
        self.image_at(held, Mark::default(), now)
    }

    /// The root of `held` at `since`, given the root now.
    fn image_at(&self, held: u32, since: Mark, now: &Partition) -> Partition {
        let later = &self.records[since.records..];
        let from = later.iter().position(|record| record.is_root_of(held));
        let mut root = match from.map(|position| &later[position].change) {
            Some(Change::Kept(root)) => Partition::clone(root),
            _ => now.clone(),
        };
        let undone = since.records + from.unwrap_or(later.len());
        let mut values = Vec::new();
        for (position, record) in self.records[..undone].iter().enumerate().rev() {
            if record.held != held || position < since.records {
                continue;
            }
            let end = self.end_of(position);
            values.clear();
            self.undo_one(record, end, &mut root, &mut values);
        }
        root
    }

    /// Where the buffers end that belong to a record.
    fn end_of(&self, position: usize) -> Mark {
        self.records.get(position + 1).map_or(self.mark(), |next| next.before)
    }

    /// Whether there is any record of `held`.
    pub(crate) fn has_changed(&self, held: u32) -> bool {
        self.records.iter().any(|record| record.held == held)
    }

    /// Undoes one record, whose buffers end at `end`. `values` is scratch.
    fn undo_one<'a>(
        &'a self,
        record: &Record,
        end: Mark,
        root: &mut Partition,
        values: &mut Vec<ValueRef<'a>>,
    ) {
        let images = &self.images[record.before.images..end.images];
        values.extend(images.iter().map(|image| self.image(image)));
        match &record.change {
            Change::Inserted(row) => {
                assert!(root.delete(*row), "an inserted row is there until it is undone");
            }
            Change::Updated(row) => {
                let columns = &self.columns[record.before.columns..end.columns];
                root.update_unchecked(*row, columns, values);
            }
            Change::Deleted(row) => root.insert_at(*row, values),
            Change::Kept(before) => *root = Partition::clone(before),
        }
    }

    /// Tells `out` what the transaction has made of `held`, whose root is `now`.
    pub(crate) fn redo(&self, held: u32, partition: PartitionId, now: &Partition, out: &mut Redo) {
        let own = || self.records.iter().enumerate().filter(|(_, record)| record.held == held);
        if own().any(|(_, record)| matches!(record.change, Change::Kept(_))) {
            return out.difference(partition, &self.pre_image(held, now), now);
        }
        out.rows.clear();
        out.rows.extend(own().map(|(position, record)| {
            let row = match record.change {
                Change::Inserted(row) | Change::Updated(row) | Change::Deleted(row) => row,
                Change::Kept(_) => unreachable!("looked for above"),
            };
            (row, position as u32)
        }));
        if out.rows.is_empty() {
            return;
        }
        out.rows.sort_unstable();
        out.encoder.change(partition, now.schema());
        let Redo { encoder, rows, columns } = out;
        for changes in rows.chunk_by(|one, next| one.0 == next.0) {
            self.redo_row(changes, now, encoder, columns);
        }
        out.encoder.end();
    }

    /// Writes one row, given its records in order. The row exists now or not, and existed before
    /// unless its first record is its insertion.
    fn redo_row(
        &self,
        changes: &[(RowId, u32)],
        now: &Partition,
        out: &mut Encoder,
        columns: &mut Vec<u16>,
    ) {
        let row = changes[0].0;
        let change = |position: u32| &self.records[position as usize].change;
        let was = !matches!(change(changes[0].1), Change::Inserted(_));
        let updates =
            |&(_, position): &(RowId, u32)| matches!(change(position), Change::Updated(_));
        match now.row(row) {
            Some(_) if was && changes.iter().all(updates) => {
                columns.clear();
                for &(_, position) in changes {
                    columns.extend_from_slice(self.columns_of(position as usize));
                }
                if changes.len() > 1 {
                    columns.sort_unstable();
                    columns.dedup();
                }
                out.update(row, columns, now);
            }
            Some(values) => {
                if was {
                    out.delete(row);
                }
                out.insert(row, values.values());
            }
            None if was => out.delete(row),
            None => {}
        }
    }

    fn columns_of(&self, position: usize) -> &[u16] {
        let end = self.records.get(position + 1).map_or(self.columns.len(), |r| r.before.columns);
        &self.columns[self.records[position].before.columns..end]
    }

    fn truncate(&mut self, mark: Mark) {
        self.records.truncate(mark.records);
        self.images.truncate(mark.images);
        self.columns.truncate(mark.columns);
        self.texts.truncate(mark.texts);
        self.bytes.truncate(mark.bytes);
    }

    /// Forgets everything. Keeps buffers for the next transaction unless they are large.
    pub(crate) fn clear(&mut self) {
        self.truncate(Mark::default());
        if self.records.capacity() > RECORDS_KEPT_MAX || self.images.capacity() > RECORDS_KEPT_MAX {
            self.records = Vec::new();
            self.images = Vec::new();
            self.columns = Vec::new();
        }
        if self.texts.capacity() > BYTES_KEPT_MAX || self.bytes.capacity() > BYTES_KEPT_MAX {
            self.texts = String::new();
            self.bytes = Vec::new();
        }
    }
}
