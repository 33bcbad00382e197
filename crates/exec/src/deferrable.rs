//! DEFERRABLE constraints: judged from the rows that have changed, when a statement or its
//! transaction ends.
//!
//! A write leaves these constraints alone ([`DeferrableCheck`] says which); the session that runs it
//! judges them behind the statement, at COMMIT, or at SET CONSTRAINTS. What is judged is what the rows
//! have come to by then: a row that was inserted and deleted again breaks nothing.
//! The unique indexes of a materialized view are judged here, too, once the view has followed a statement.
//! A foreign key's own actions (CASCADE and the like, and RESTRICT) are never put off.
//!
//! Cost: a pass over the transaction's notes since the first statement that left the constraint, and a
//! look-up for every row that has changed.

use std::sync::Arc;

use halcyon_base::ids::TableId;
use halcyon_catalog::{Catalog, Deferral, ForeignKey, Index, Table};
use halcyon_plan::lock_errors;
use halcyon_sql::error::Result;
use halcyon_store::{KeyBuf, Value, ValueRef};
use halcyon_txn::{LockHandle, Mode, Savepoint, Transaction, WaitLimits};

use crate::constraints::{
    KeyLookup, key_violation, missing_reference, refers_to_nothing, still_referenced,
};
use crate::referrers::{Referrers, target_has};

/// A DEFERRABLE constraint that changes of a table may have broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeferrableCheck {
    /// The table whose rows change.
    pub written: TableId,
    /// The table that has the constraint.
    pub owner: TableId,
    /// The constraint's name.
    pub name: String,
    /// When it is judged if nobody says otherwise.
    pub deferral: Deferral,
}

impl DeferrableCheck {
    /// A foreign key of `owner`, for changes of the table `written`, which is its owner or the table
    /// that it refers to. `None` unless it is DEFERRABLE.
    pub(crate) fn of_key(written: TableId, owner: &Table, key: &ForeignKey) -> Option<Self> {
        let (owner, name, deferral) = (owner.id, key.name.clone(), key.deferral?);
        Some(DeferrableCheck { written, owner, name, deferral })
    }

    /// A foreign key that is judged at the end of the statement, whatever it says itself. As
    /// [`DeferrableCheck::of_key`].
    pub(crate) fn of_statement(written: TableId, owner: &Table, key: &ForeignKey) -> Self {
        let (owner, name) = (owner.id, key.name.clone());
        DeferrableCheck { written, owner, name, deferral: Deferral::Immediate }
    }

    /// A unique key of a table, for the table's changes. `None` unless it is DEFERRABLE.
    pub(crate) fn of_index(table: &Table, index: &Index) -> Option<Self> {
        let (name, deferral) = (index.name.clone(), index.deferral?);
        Some(DeferrableCheck { written: table.id, owner: table.id, name, deferral })
    }

    /// Judges what the transaction has changed since `since`, a savepoint from the beginning of one
    /// of its statements, behind which the written table's columns have not changed. A constraint that
    /// is there no longer is kept.
    ///
    /// Errors: 23503, 23505; those of a wait for locks on the other table.
    pub fn judge(
        &self,
        catalog: &Catalog,
        tx: &mut Transaction,
        since: &Savepoint,
        limits: &WaitLimits<'_>,
    ) -> Result<()> {
        let (Some(owner), Some(written)) =
            (catalog.tables.get(&self.owner), catalog.tables.get(&self.written))
        else {
            return Ok(());
        };
        let held: Vec<LockHandle> =
            written.cells.iter().filter_map(|cell| tx.held_exclusively(cell)).collect();
        let changes = Changes { table: written, held: &held, since };
        if let Some(index) = owner.indexes.iter().find(|index| index.name == self.name) {
            return changes.judge_unique(tx, index);
        }
        let Some(key) = owner.foreign_keys.iter().find(|key| key.name == self.name) else {
            return Ok(());
        };
        let target = catalog.table(key.target);
        if written.id == owner.id {
            let theirs = lock(tx, target, limits)?;
            changes.judge_references(tx, key, target, &theirs)?;
        }
        if written.id == target.id {
            let theirs = lock(tx, owner, limits)?;
            let own = lock(tx, target, limits)?;
            changes.judge_referenced(
                tx,
                Referrers::new(owner.clone(), key.clone(), target),
                &theirs,
                &own,
            )?;
        }
        Ok(())
    }

    /// Whether the transaction has changed rows of the written table since `since`.
    pub fn is_pending(&self, catalog: &Catalog, tx: &Transaction, since: &Savepoint) -> bool {
        let Some(written) = catalog.tables.get(&self.written) else { return false };
        let held: Vec<LockHandle> =
            written.cells.iter().filter_map(|cell| tx.held_exclusively(cell)).collect();
        let changed = tx.changed_rows_in(&held, since);
        held.iter().any(|handle| tx.has_changed_rows(&changed, *handle))
    }
}

/// Locks every partition of a table for reading.
fn lock(tx: &mut Transaction, table: &Table, limits: &WaitLimits<'_>) -> Result<Vec<LockHandle>> {
    let lock = |cell| tx.lock(cell, Mode::Shared, limits).map_err(lock_errors::of_any);
    table.cells.iter().map(lock).collect()
}

/// Judges the unique indexes of a materialized view by the rows that the transaction has changed since `since`, all of
/// which are there. Errors: 23505.
pub(crate) fn judge_view(view: &Arc<Table>, since: &Savepoint, tx: &Transaction) -> Result<()> {
    let mut unique = view.indexes.iter().filter(|index| index.says_unique()).peekable();
    if unique.peek().is_none() {
        return Ok(());
    }
    let held: Vec<LockHandle> =
        view.cells.iter().filter_map(|cell| tx.held_exclusively(cell)).collect();
    let changes = Changes { table: view, held: &held, since };
    unique.try_for_each(|index| changes.judge_unique(tx, index))
}

/// The rows of a table that a transaction has changed.
struct Changes<'a> {
    table: &'a Arc<Table>,
    /// Partitions of the table that may have changed.
    held: &'a [LockHandle],
    since: &'a Savepoint,
}

impl Changes<'_> {
    /// Calls `judge` with the values of `columns` of each changed row, before and after.
    fn each(
        &self,
        tx: &Transaction,
        columns: &[u16],
        mut judge: impl FnMut(
            LockHandle,
            Option<&[ValueRef<'_>]>,
            Option<&[ValueRef<'_>]>,
        ) -> Result<()>,
    ) -> Result<()> {
        let changed = tx.changed_rows_in(self.held, self.since);
        for handle in self.held {
            for row in tx.changed_rows_of(&changed, *handle).rows(columns) {
                judge(*handle, row.old.as_deref(), row.new.as_deref())?;
            }
        }
        Ok(())
    }

    /// 23505 if a changed row has the key of another.
    fn judge_unique(&self, tx: &Transaction, index: &Index) -> Result<()> {
        let columns: Vec<u16> = index.columns.iter().map(|key| key.column).collect();
        let mut key = KeyBuf::new();
        self.each(tx, &columns, |handle, _, new| {
            let binds = |new: &&[ValueRef<'_>]| {
                index.nulls_not_distinct || !new.iter().any(ValueRef::is_null)
            };
            let Some(new) = new.filter(binds) else {
                return Ok(());
            };
            let entries = tx.read(handle).index(index.id).expect("every partition has the index");
            entries.encode(new, &mut key);
            match entries.prefix(&key).nth(1) {
                Some(_) => Err(key_violation(self.table, index, new)),
                None => Ok(()),
            }
        })
    }

    /// 23503 if a changed row refers to nothing. `theirs`: locks of the table referred to.
    fn judge_references(
        &self,
        tx: &Transaction,
        key: &ForeignKey,
        target: &Table,
        theirs: &[LockHandle],
    ) -> Result<()> {
        let lookup = KeyLookup::new(self.table, key, target);
        let mut buffer = KeyBuf::new();
        self.each(tx, &key.columns, |_, old, new| {
            let Some(new) = new.filter(|new| old != Some(*new)) else { return Ok(()) };
            if refers_to_nothing(self.table, key, new)? {
                return Ok(());
            }
            let partition = |number: u32| tx.read(theirs[number as usize]);
            match lookup.find(new, &mut buffer, partition) {
                Some(_) => Ok(()),
                None => Err(missing_reference(self.table, key, target, new)),
            }
        })
    }

    /// 23503 if rows refer to a key that is gone. `theirs`: locks of the referring table, `own`: of
    /// the one referred to.
    fn judge_referenced(
        &self,
        tx: &Transaction,
        referrers: Referrers,
        theirs: &[LockHandle],
        own: &[LockHandle],
    ) -> Result<()> {
        let key = &referrers.key;
        let mut buffer = KeyBuf::new();
        let mut gone: Vec<Vec<Value>> = Vec::new();
        self.each(tx, &key.target_columns, |_, old, new| {
            let Some(old) = old.filter(|old| new != Some(*old)) else { return Ok(()) };
            let is_null = old.iter().any(ValueRef::is_null);
            let partition = |number: u32| tx.read(own[number as usize]);
            if !is_null && !target_has(self.table, key, old, &mut buffer, partition) {
                gone.push(old.iter().map(|value| value.to_owned()).collect());
            }
            Ok(())
        })?;
        let keys: Vec<&[Value]> = gone.iter().map(Vec::as_slice).collect();
        let partition = |number: u32| tx.read(theirs[number as usize]);
        match referrers.find(&keys, &mut buffer, partition).first() {
            Some((which, ..)) => {
                let values: Vec<_> = gone[*which].iter().map(Value::as_ref).collect();
                Err(still_referenced(self.table, key, &referrers.table, &values))
            }
            None => Ok(()),
        }
    }
}
