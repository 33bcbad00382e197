//! Writers of a view's rows: by the transaction that owns the view, or straight into the partition.

use halcyon_base::ids::RowId;
use halcyon_store::{Partition, Value, ValueRef};
use halcyon_txn::{LockHandle, Transaction};

/// A writer into the partition of a view's rows.
pub(crate) trait RowWriter {
    fn insert(&mut self, row: &[ValueRef<'_>]) -> RowId;
    fn update(&mut self, id: RowId, columns: &[u16], values: &[ValueRef<'_>]);
    fn delete(&mut self, id: RowId);
    /// The values of a row that is there.
    fn row(&self, id: RowId) -> Vec<Value>;
}

/// The values of a row of the view.
fn owned(rows: &Partition, id: RowId) -> Vec<Value> {
    let row = rows.row(id).expect("a row of the view is there");
    row.values().map(|value| value.to_owned()).collect()
}

/// A writer into a hidden partition that a transaction has locked: its undo notes take the changes
/// back.
pub(crate) struct NotedRows<'a> {
    pub tx: &'a mut Transaction,
    pub handle: LockHandle,
}

impl RowWriter for NotedRows<'_> {
    fn insert(&mut self, row: &[ValueRef<'_>]) -> RowId {
        self.tx.insert_unchecked(self.handle, row)
    }

    fn update(&mut self, id: RowId, columns: &[u16], values: &[ValueRef<'_>]) {
        self.tx.update_unchecked(self.handle, id, columns, values);
    }

    fn delete(&mut self, id: RowId) {
        assert!(self.tx.delete(self.handle, id), "a row of the view is there");
    }

    fn row(&self, id: RowId) -> Vec<Value> {
        owned(self.tx.read(self.handle), id)
    }
}

/// A writer into a hidden partition that no one else can reach, or whose changes belong to no
/// transaction.
pub(crate) struct PlainRows<'a>(pub &'a mut Partition);

impl RowWriter for PlainRows<'_> {
    fn insert(&mut self, row: &[ValueRef<'_>]) -> RowId {
        self.0.insert_unchecked(row)
    }

    fn update(&mut self, id: RowId, columns: &[u16], values: &[ValueRef<'_>]) {
        self.0.update_unchecked(id, columns, values);
    }

    fn delete(&mut self, id: RowId) {
        assert!(self.0.delete(id), "a row of the view is there");
    }

    fn row(&self, id: RowId) -> Vec<Value> {
        owned(self.0, id)
    }
}
