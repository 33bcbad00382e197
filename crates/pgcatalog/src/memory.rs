//! Sizes: what tables, partitions and indexes hold, counted on roots.

use halcyon_base::ids::{IndexId, SEGMENT_ROWS};
use halcyon_store::Partition;

/// What a set of partitions holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableSize {
    pub(crate) rows: u64,
    pub(crate) segments: u64,
    /// Places for rows in the segments, used or free.
    pub(crate) slots: u64,
    pub(crate) row_bytes: u64,
    pub(crate) index_bytes: u64,
}

/// What an index holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IndexSize {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}

/// The size of a table's rows alone: rows, segments, slots, bytes. O(segments).
pub(crate) fn of_rows(roots: &[triomphe::Arc<Partition>]) -> TableSize {
    roots.iter().fold(TableSize::default(), |size, root| {
        let segments = root.segment_count() as u64;
        TableSize {
            rows: size.rows + root.row_count(),
            segments: size.segments + segments,
            slots: size.slots + segments * SEGMENT_ROWS as u64,
            row_bytes: size.row_bytes + root.row_bytes(),
            index_bytes: 0,
        }
    })
}

/// The size of one partition. O(segments), and O(rows) per index of long keys.
pub(crate) fn of_partition(root: &Partition) -> TableSize {
    let segments = root.segment_count() as u64;
    let index_bytes = root.indexes().map(|index| index.bytes()).sum();
    TableSize {
        rows: root.row_count(),
        segments,
        slots: segments * SEGMENT_ROWS as u64,
        row_bytes: root.row_bytes(),
        index_bytes,
    }
}

/// The sizes of all partitions of a table together.
pub(crate) fn of_table(roots: &[triomphe::Arc<Partition>]) -> TableSize {
    roots.iter().map(|root| of_partition(root)).fold(TableSize::default(), |a, b| TableSize {
        rows: a.rows + b.rows,
        segments: a.segments + b.segments,
        slots: a.slots + b.slots,
        row_bytes: a.row_bytes + b.row_bytes,
        index_bytes: a.index_bytes + b.index_bytes,
    })
}

/// The size of an index, its trees in all partitions together.
pub(crate) fn of_index(roots: &[triomphe::Arc<Partition>], id: IndexId) -> IndexSize {
    let trees = roots.iter().filter_map(|root| root.index(id));
    trees.fold(IndexSize::default(), |size, tree| IndexSize {
        entries: size.entries + tree.len(),
        bytes: size.bytes + tree.bytes(),
    })
}
