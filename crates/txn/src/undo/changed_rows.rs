//! Rows that a statement has changed, by partition, for the views that follow from them.
//!
//! One pass over the undo notes finds the rows of all partitions ([`ChangedRows`]); what a row was and
//! what it is comes from its notes and from the partition's root when somebody asks
//! ([`PartitionChanges::rows`]). A second call goes on where the first ended, so changes that follow
//! from changes are found without looking at any note twice.
//!
//! Invariants, checked by `tests/transactions.rs`
//! (`changed_rows_are_found_once_each_whatever_happened_to_them`):
//! 1. A row is told once, however often it was changed.
//! 2. Where a root was kept instead of notes, the rows told are those that differ between the roots.
//!
//! Cost: O(n log n) of n notes; no allocation up to eight of them.

use super::{Change, Mark, Undo};
use halcyon_base::RowId;
use halcyon_store::{Partition, RowChange, RowRef, ValueRef};
use smallvec::SmallVec;

/// Some columns of a row.
pub type ProjectedRow<'a> = SmallVec<[ValueRef<'a>; 8]>;

/// A note's number where rows differ between two roots and have no notes.
const WITHOUT_NOTE: u32 = u32::MAX;

/// One note of a row, or a row without notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NotedRow {
    /// Position of the partition in the list of held ones.
    held: u32,
    row: RowId,
    /// Position of the note, or [`WITHOUT_NOTE`].
    note: u32,
}

/// A partition whose root was kept.
struct KeptRoot {
    held: u32,
    /// The partition as it was when the pass began.
    before: Partition,
    inserted_only: bool,
    deleted_only: bool,
}

/// The rows that a transaction has changed, in any of its partitions, since some moment.
pub struct ChangedRows {
    /// Sorted.
    rows: SmallVec<[NotedRow; 8]>,
    roots: Vec<KeptRoot>,
    /// Up to where the notes have been looked at.
    seen: Mark,
}

impl ChangedRows {
    pub(crate) fn since(mark: Mark) -> Self {
        ChangedRows { rows: SmallVec::new(), roots: Vec::new(), seen: mark }
    }

    /// The rows of the held partition at this position, whose root is `now`.
    pub(crate) fn of<'t>(
        &'t self,
        held: u32,
        undo: &'t Undo,
        now: &'t Partition,
    ) -> PartitionChanges<'t> {
        let rows = self.noted(held);
        let kept = self.roots.iter().find(|root| root.held == held);
        PartitionChanges { rows, kept, undo, now }
    }

    /// Whether any row of the held partition at this position has changed.
    pub(crate) fn has(&self, held: u32) -> bool {
        !self.noted(held).is_empty()
    }

    /// The notes of one partition.
    fn noted(&self, held: u32) -> &[NotedRow] {
        let from = self.rows.partition_point(|row| row.held < held);
        let count = self.rows[from..].partition_point(|row| row.held == held);
        &self.rows[from..from + count]
    }
}

/// The changed rows of one partition.
#[derive(Clone, Copy)]
pub struct PartitionChanges<'t> {
    rows: &'t [NotedRow],
    kept: Option<&'t KeptRoot>,
    undo: &'t Undo,
    now: &'t Partition,
}

/// A row before and after; `None` where there was or is no row.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedRow<'t> {
    /// What it was.
    pub old: Option<ProjectedRow<'t>>,
    /// What it is.
    pub new: Option<ProjectedRow<'t>>,
}

impl<'t> PartitionChanges<'t> {
    /// Whether no row of the partition has changed.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether exactly one row has changed.
    pub fn is_single(&self) -> bool {
        self.rows.first().is_some_and(|first| self.rows.iter().all(|row| row.row == first.row))
    }

    /// Whether every row has come and none was there before.
    pub fn is_inserted_only(&self) -> bool {
        match self.kept {
            Some(kept) => kept.inserted_only,
            None => self.all_noted(|change| matches!(change, Change::Inserted(_))),
        }
    }

    /// Whether every row has gone.
    pub fn is_deleted_only(&self) -> bool {
        match self.kept {
            Some(kept) => kept.deleted_only,
            None => self.all_noted(|change| matches!(change, Change::Deleted(_))),
        }
    }

    fn all_noted(&self, is: impl Fn(&Change) -> bool) -> bool {
        self.rows.iter().all(|row| is(&self.undo.records[row.note as usize].change))
    }

    /// The ids of the changed rows, ascending.
    pub fn row_ids(self) -> impl Iterator<Item = RowId> + use<'t> {
        self.rows.chunk_by(|one, next| one.row == next.row).map(|notes| notes[0].row)
    }

    /// The values of `columns` of every changed row, by ascending row id; also if these values are
    /// the same as before.
    pub fn rows(self, columns: &[u16]) -> impl Iterator<Item = ChangedRow<'t>> {
        self.rows.chunk_by(|one, next| one.row == next.row).map(move |notes| {
            let row = notes[0].row;
            let new = self.now.row(row).map(|row| project(row, columns));
            let old = match self.kept {
                Some(kept) => kept.before.row(row).map(|row| project(row, columns)),
                None => self.row_before(notes, new.as_ref(), columns),
            };
            ChangedRow { old, new }
        })
    }

    /// A row as it was before the first of its `notes`, given what it is now.
    fn row_before(
        &self,
        notes: &[NotedRow],
        now: Option<&ProjectedRow<'t>>,
        columns: &[u16],
    ) -> Option<ProjectedRow<'t>> {
        let undo = self.undo;
        let mut row = now.cloned();
        for noted in notes.iter().rev() {
            let note = noted.note as usize;
            let (record, end) = (&undo.records[note], undo.end_of(note));
            let images = &undo.images[record.before.images..end.images];
            match record.change {
                Change::Inserted(_) => row = None,
                Change::Deleted(_) => {
                    let image = |column: &u16| undo.image(&images[usize::from(*column)]);
                    row = Some(columns.iter().map(image).collect());
                }
                Change::Updated(_) => {
                    let changed = &undo.columns[record.before.columns..end.columns];
                    let values = row.as_mut().expect("a row that is changed is there");
                    for (value, column) in values.iter_mut().zip(columns) {
                        if let Some(at) = changed.iter().position(|changed| changed == column) {
                            *value = undo.image(&images[at]);
                        }
                    }
                }
                Change::Kept(_) => unreachable!("a kept root has no noted rows"),
            }
        }
        row
    }
}

fn project<'a>(row: RowRef<'a>, columns: &[u16]) -> ProjectedRow<'a> {
    columns.iter().map(|column| row.value(usize::from(*column))).collect()
}

impl Undo {
    /// Adds the rows of the notes that `changed` has not looked at. `root`: a held partition's root as
    /// it is now.
    pub(crate) fn find_changed_rows<'t>(
        &'t self,
        changed: &mut ChangedRows,
        root: impl Fn(u32) -> &'t Partition,
    ) {
        self.find_changed_rows_where(changed, |_| true, root);
    }

    /// As [`Undo::find_changed_rows`], of the held partitions that `is_asked` for.
    pub(crate) fn find_changed_rows_where<'t>(
        &'t self,
        changed: &mut ChangedRows,
        is_asked: impl Fn(u32) -> bool,
        root: impl Fn(u32) -> &'t Partition,
    ) {
        let since = std::mem::replace(&mut changed.seen, self.mark());
        let mut kept: SmallVec<[u32; 4]> = SmallVec::new();
        for (note, record) in self.records.iter().enumerate().skip(since.records) {
            let held = record.held;
            if !is_asked(held) {
                continue;
            }
            match record.change {
                Change::Inserted(row) | Change::Updated(row) | Change::Deleted(row) => {
                    let note = u32::try_from(note).expect("a transaction has fewer notes");
                    changed.rows.push(NotedRow { held, row, note });
                }
                Change::Kept(_) if kept.contains(&held) => {}
                Change::Kept(_) => kept.push(held),
            }
        }
        for held in kept {
            changed.rows.retain(|row| row.held != held);
            let now = root(held);
            let before = self.image_at(held, since, now);
            add_differences(changed, held, before, now);
        }
        changed.rows.sort_unstable();
    }
}

/// Adds the rows that differ between two roots of a partition.
fn add_differences(changed: &mut ChangedRows, held: u32, before: Partition, now: &Partition) {
    let (mut inserted_only, mut deleted_only) = (true, true);
    let rows = &mut changed.rows;
    let comparable = now.changes_since(&before, |change| {
        let row = match change {
            RowChange::Inserted(row) => row.id(),
            RowChange::Updated(row, _) => row.id(),
            RowChange::Deleted(row) => row,
        };
        inserted_only &= matches!(change, RowChange::Inserted(_));
        deleted_only &= matches!(change, RowChange::Deleted(_));
        rows.push(NotedRow { held, row, note: WITHOUT_NOTE });
    });
    assert!(comparable, "columns do not change beneath views that follow from the rows");
    changed.roots.push(KeptRoot { held, before, inserted_only, deleted_only });
}
