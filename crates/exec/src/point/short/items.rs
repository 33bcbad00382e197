//! Items of a list with names and types resolved.

use halcyon_plan::scalar::Ir;
use halcyon_sql::rows::ResultColumn;

use crate::point::aggregate::Aggregate;

/// A bound item.
pub(super) struct BoundItem {
    pub value: BoundValue,
    pub column: ResultColumn,
}

/// What a bound item is.
pub(super) enum BoundValue {
    /// The row's id.
    RowId,
    /// A value of the row.
    OfRow(Ir),
    /// An aggregate over all rows, without a slot yet.
    Aggregate(Aggregate),
}

impl BoundValue {
    /// Whether it is this column of the table.
    pub fn is_column(&self, column: u16) -> bool {
        matches!(self, BoundValue::OfRow(Ir::Slot(slot, _)) if *slot == usize::from(column))
    }
}
