//! Identifiers as types of their own, so that two swapped arguments do not compile.

use std::fmt;

/// Rows per segment of a partition. A power of two: a [`RowId`] splits into segment and slot by
/// shift and mask.
pub const SEGMENT_ROWS: usize = 1 << SEGMENT_SHIFT;

const SEGMENT_SHIFT: u32 = 11;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A table of the catalog. Never used again after the table is dropped.
    TableId(u32)
}
id! {
    /// A partition, unique in the database. Locks are taken in the order of these ids.
    PartitionId(u32)
}
id! {
    /// An index, unique in the database. Each partition of the table has its own tree of it.
    IndexId(u32)
}
id! {
    /// A row of a partition: segment and slot. Stable until the row is deleted, then used again.
    RowId(u32)
}
id! {
    /// A transaction, in the order of beginning.
    TxnId(u64)
}
id! {
    /// A session. Its number modulo the slot count names its reader slot in every lock.
    SessionId(u32)
}

impl RowId {
    /// The row in `slot` of segment `segment_idx`.
    ///
    /// Panics: if `slot >= SEGMENT_ROWS`.
    #[inline]
    pub fn at(segment_idx: usize, slot: usize) -> Self {
        assert!(slot < SEGMENT_ROWS);
        RowId(((segment_idx as u32) << SEGMENT_SHIFT) | slot as u32)
    }

    /// Which segment of the partition.
    #[inline]
    pub fn segment_idx(self) -> usize {
        (self.0 >> SEGMENT_SHIFT) as usize
    }

    /// Which row within the segment.
    #[inline]
    pub fn slot(self) -> usize {
        self.0 as usize & (SEGMENT_ROWS - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_id_splits_into_segment_and_slot() {
        for id in [0, 1, 2047, 2048, 4097, u32::MAX] {
            let row = RowId(id);
            assert_eq!(RowId::at(row.segment_idx(), row.slot()), row);
        }
        assert_eq!((RowId(2048).segment_idx(), RowId(2048).slot()), (1, 0));
    }

    #[test]
    fn ids_print_type_and_number() {
        assert_eq!(format!("{:?} {}", TableId(7), TableId(7)), "TableId(7) 7");
    }
}
