//! Redo: the record that a commit writes to the log, and doing it again at recovery.
//!
//! A record holds, per partition, rows as they are after the commit: a row that was changed five
//! times stands there once. It is made at commit from the undo notes, which name the rows, and the
//! root, which has the values. Where roots were kept instead of notes (bulk loads, DDL, changes of
//! much of a partition) it is the difference of the two roots. So nothing is added to the way of a
//! row change, and a transaction that is rolled back writes nothing.
//! Invariants, checked by `replay_agrees_with_one_and_with_many_workers` (1 and 2) and
//! `redo_fuzz_bytes_that_nobody_made_are_refused_without_a_panic` (3):
//! 1. Rows of one partition stand in a record once, so their order does not matter.
//! 2. Doing a record again gives the rows and row ids that the commit had.
//! 3. Decoding is total: bytes that no encoder made are an error, never a panic. So is a record
//!    that fits the format and not the partition.

mod apply;
mod code;
#[cfg(test)]
mod tests;

pub(crate) use apply::{Partitions, Replay};
pub(crate) use code::Encoder;
#[doc(hidden)]
pub use code::decode_any;
pub use code::sequence_payload;

use halcyon_base::{PartitionId, RowId};
use halcyon_store::{Partition, RowChange};
use std::fmt;

/// A buffer above this is given back after the commit.
const KEPT_BYTES: usize = 1 << 18;

/// What a transaction makes its record with; kept between transactions.
#[derive(Default)]
pub(crate) struct Redo {
    pub(crate) encoder: Encoder,
    /// Scratch: rows changed, and the position of the note.
    pub(crate) rows: Vec<(RowId, u32)>,
    /// Scratch: columns of one row.
    pub(crate) columns: Vec<u16>,
}

impl Redo {
    /// What makes `now` out of `before`.
    pub(crate) fn difference(&mut self, id: PartitionId, before: &Partition, now: &Partition) {
        // Most of it is gone: saying what is left is shorter.
        if now.row_count() < before.row_count() / 2 {
            return self.whole(id, now);
        }
        let out = &mut self.encoder;
        out.change(id, now.schema());
        let alike = now.changes_since(before, |change| match change {
            RowChange::Inserted(row) => out.insert(row.id(), row.values()),
            RowChange::Updated(row, columns) => out.update(row.id(), columns, now),
            RowChange::Deleted(row) => out.delete(row),
        });
        out.end();
        if !alike {
            self.whole(id, now);
        }
    }

    /// A partition from its beginning.
    pub(crate) fn whole(&mut self, id: PartitionId, now: &Partition) {
        self.encoder.define(id, now.schema());
        for row in now.rows() {
            self.encoder.insert(row.id(), row.values());
        }
        self.encoder.end();
    }

    /// Forgets the record.
    pub(crate) fn clear(&mut self) {
        self.encoder.forget(KEPT_BYTES);
        if self.rows.capacity() * size_of::<(RowId, u32)>() > KEPT_BYTES {
            self.rows = Vec::new();
        }
    }
}

/// A record that cannot be done again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub(crate) &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}
