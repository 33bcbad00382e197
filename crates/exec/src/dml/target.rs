//! A table that a statement writes: the constraints on its rows, and how rows are stored.

use std::sync::Arc;

use halcyon_base::ids::RowId;
use halcyon_store::{Conflict, KeyBuf, ValueRef};
use halcyon_txn::Mode;

use super::generated::{Generated, with_generated};
use super::named::ViewCheck;
use super::{Scope, WriteContext};
use crate::constraints::{
    KeyLookup, RowCondition, missing_reference, null_violation, refers_to_nothing, unique_violation,
};
use crate::deferrable::DeferrableCheck;
use halcyon_catalog::{ForeignKey, Index, Table};
use halcyon_derived::VerifiedIndex;
use halcyon_plan::bind::Binder;
use halcyon_plan::env::Env;
use halcyon_sql::coerce::Arena;
use halcyon_sql::error::Result;

/// A table that is written.
pub struct Target {
    /// Position of the table in the plan's list.
    pub at: usize,
    /// The table.
    pub table: Arc<Table>,
    not_null: Vec<u16>,
    checks: Vec<RowCondition>,
    /// Generated columns that follow from the written columns.
    generated: Generated,
    /// Derived indexes whose keys the written columns take part in.
    derived: Vec<VerifiedIndex>,
    references: Vec<Reference>,
    /// What WITH CHECK OPTION of views asks of the rows.
    pub(super) view_checks: Vec<ViewCheck>,
}

/// A foreign key of a table that is written.
struct Reference {
    key: ForeignKey,
    /// Position of the table referred to.
    at: usize,
    target: Arc<Table>,
    lookup: KeyLookup,
    /// Whether the statement writes the table referred to as well, so that the reference can be
    /// checked only at the end of the statement.
    late: bool,
}

/// A row that was written while a reference of it can only be judged at the end.
pub struct LateRow {
    pub node: usize,
    pub partition: u32,
    pub row: RowId,
}

impl Target {
    /// Describes a table whose `columns` are written (`None`: all of them), with checks and
    /// references that these columns take part in.
    pub fn bind(
        scope: &mut Scope<'_>,
        table: &Arc<Table>,
        columns: Option<&[u16]>,
    ) -> Result<Target> {
        let at = scope.table(table);
        let columns = columns.map(|columns| with_generated(table, columns));
        let columns = columns.as_deref();
        let touched = |column: &u16| columns.is_none_or(|columns| columns.contains(column));
        let mut target = Target::without_references(&scope.binder, table, columns)?;
        target.at = at;
        for key in table.foreign_keys.iter().filter(|key| key.columns.iter().any(touched)) {
            let other = scope.binder.catalog.table(key.target).clone();
            let at = scope.table(&other);
            scope.need_whole(at, Mode::Shared);
            if !scope.judges(table.id, table, key) {
                continue;
            }
            target.references.push(Reference {
                lookup: KeyLookup::new(table, key, &other),
                key: key.clone(),
                at,
                late: other.id == table.id,
                target: other,
            });
        }
        for index in &table.indexes {
            if index.columns.iter().any(|key| touched(&key.column)) {
                scope.leave(DeferrableCheck::of_index(table, index));
            }
        }
        Ok(target)
    }

    /// As [`Target::bind`], for writers that check references themselves.
    pub fn without_references(
        binder: &Binder<'_>,
        table: &Arc<Table>,
        columns: Option<&[u16]>,
    ) -> Result<Target> {
        let generated = Generated::bind(binder, table, columns)?;
        let columns = columns.map(|columns| with_generated(table, columns));
        let columns = columns.as_deref();
        let touched = |column: &u16| columns.is_none_or(|columns| columns.contains(column));
        let not_null = |column: &u16| table.columns[*column as usize].not_null && touched(column);
        let checks = RowCondition::all(binder, table, &touched)?;
        let is_derived = |index: &&Index| {
            index.derived.is_some() && (columns.is_none() || index.inputs().any(|at| touched(&at)))
        };
        let derived = table.indexes.iter().filter(is_derived).map(VerifiedIndex::new).collect();
        Ok(Target {
            at: 0,
            table: table.clone(),
            not_null: (0..table.columns.len() as u16).filter(not_null).collect(),
            checks,
            generated,
            derived,
            references: Vec::new(),
            view_checks: Vec::new(),
        })
    }

    /// Whether checks, those of views too, or indexes over expressions, look at whole rows.
    pub fn has_checks(&self) -> bool {
        !self.checks.is_empty() || !self.derived.is_empty() || !self.view_checks.is_empty()
    }

    /// Whether columns that follow from the written ones are to be computed.
    pub fn has_generated(&self) -> bool {
        !self.generated.is_empty()
    }

    /// Puts the values of generated columns into a new row, before it is verified.
    #[inline]
    pub fn complete<'v>(
        &'v self,
        row: &mut [ValueRef<'v>],
        env: &'v Env<'v>,
        arena: &'v Arena,
    ) -> Result<()> {
        self.generated.fill(row, env, arena)
    }

    /// Whether rows refer to others.
    pub fn has_references(&self) -> bool {
        !self.references.is_empty()
    }

    /// Says that references to this table are judged at the end as well.
    pub fn defer_references_to(&mut self, written: &[usize]) {
        for reference in &mut self.references {
            reference.late |= written.contains(&reference.at);
        }
    }

    /// Columns that may not be NULL.
    pub fn not_null(&self) -> &[u16] {
        &self.not_null
    }

    /// NOT NULL and CHECK, and whether indexes over expressions have a key for the row. Errors: 23502,
    /// 23514, those of the expressions.
    #[inline]
    pub fn verify(&self, row: &[ValueRef<'_>], env: &Env<'_>, arena: &Arena) -> Result<()> {
        for column in &self.not_null {
            if row[*column as usize].is_null() {
                return Err(null_violation(&self.table, *column, row));
            }
        }
        self.checks.iter().try_for_each(|check| check.verify(&self.table, row, env, arena))?;
        self.derived.iter().try_for_each(|index| index.verify(row))
    }

    /// What views ask of a row, which is looked at when the row is stored: then its keys are known to be unique.
    /// Errors: 44000, those of the conditions.
    #[inline]
    pub fn verify_shown(&self, row: &[ValueRef<'_>], env: &Env<'_>, arena: &Arena) -> Result<()> {
        self.view_checks.iter().try_for_each(|check| check.verify(&self.table, row, env, arena))
    }

    /// References of a row. True if some have to be judged again at the end. Errors: 23503.
    pub fn verify_references(
        &self,
        cx: &WriteContext<'_>,
        row: &[ValueRef<'_>],
        key: &mut KeyBuf,
        at_end: bool,
    ) -> Result<bool> {
        let mut late = false;
        for reference in &self.references {
            if reference.late != at_end {
                late |= reference.late;
                continue;
            }
            let mut values = smallvec::SmallVec::<[ValueRef<'_>; 4]>::new();
            values.extend(reference.key.columns.iter().map(|column| row[*column as usize]));
            if refers_to_nothing(&self.table, &reference.key, &values)? {
                continue;
            }
            let found = reference
                .lookup
                .find(&values, key, |partition| cx.tx.read(cx.lock(reference.at, partition)));
            if found.is_none() {
                return Err(missing_reference(
                    &self.table,
                    &reference.key,
                    &reference.target,
                    &values,
                ));
            }
        }
        Ok(late)
    }

    /// Which partition a row belongs to.
    #[inline]
    pub fn partition_of(&self, row: &[ValueRef<'_>]) -> u32 {
        match self.table.partition_column() {
            None => 0,
            Some(column) => self.table.partition_of(row[column as usize]),
        }
    }

    /// Stores a new row that has been verified.
    #[inline]
    pub fn insert(
        &self,
        cx: &mut WriteContext<'_>,
        row: &[ValueRef<'_>],
    ) -> (u32, Result<RowId, Conflict>) {
        let partition = self.partition_of(row);
        let handle = cx.lock(self.at, partition);
        (partition, cx.tx.insert(handle, row))
    }

    /// 23505 for a row that met another.
    pub fn conflict(
        &self,
        conflict: Conflict,
        row: &[ValueRef<'_>],
    ) -> halcyon_sql::error::SqlError {
        unique_violation(&self.table, conflict.index, row)
    }

    /// Whether a change of these columns can break a unique key.
    pub fn touches_unique(&self, columns: &[u16]) -> bool {
        let touched = |column: u16| columns.contains(&column);
        self.table.indexes.iter().any(|index| index.unique && index.inputs().any(touched))
    }

    /// Whether a change of these columns can move a row to another partition.
    pub fn touches_partitioning(&self, columns: &[u16]) -> bool {
        self.table.partition_column().is_some_and(|column| columns.contains(&column))
    }
}
