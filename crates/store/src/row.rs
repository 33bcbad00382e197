//! A reference to a row of a partition.

use crate::segment::Segment;
use crate::value::{Schema, ValueRef};
use halcyon_base::RowId;

/// A row of a partition.
#[derive(Clone, Copy)]
pub struct RowRef<'a> {
    schema: &'a Schema,
    segment: &'a Segment,
    id: RowId,
}

impl<'a> RowRef<'a> {
    #[inline]
    pub(crate) fn new(schema: &'a Schema, segment: &'a Segment, id: RowId) -> Self {
        RowRef { schema, segment, id }
    }

    /// The row's id.
    #[inline]
    pub fn id(&self) -> RowId {
        self.id
    }

    /// One of the row's values.
    ///
    /// Panics: if there is no such column.
    #[inline]
    pub fn value(&self, column: usize) -> ValueRef<'a> {
        self.segment.value(self.schema.columns[column].ty, column, self.id.slot())
    }

    /// Number of columns.
    #[inline]
    pub fn column_count(&self) -> usize {
        self.schema.columns.len()
    }

    /// All values of the row, in the order of the columns.
    pub fn values(&self) -> impl Iterator<Item = ValueRef<'a>> + use<'a> {
        let row = *self;
        (0..row.column_count()).map(move |column| row.value(column))
    }
}
