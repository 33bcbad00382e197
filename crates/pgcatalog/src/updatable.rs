//! Which relations, and which of their columns, statements may write: as `information_schema` and
//! `pg_relation_is_updatable` tell it.

use halcyon_catalog::{Catalog, TableKind};
use halcyon_plan::updatable_views::Updatable;

use crate::objects::{Object, What};

/// Bits of events, as in PostgreSQL: one is shifted by the number of the command.
pub(crate) const UPDATE: i32 = 1 << 2;
pub(crate) const INSERT: i32 = 1 << 3;
pub(crate) const DELETE: i32 = 1 << 4;

/// The events that a relation takes.
pub(crate) fn events(catalog: &Catalog, object: &Object) -> i32 {
    match &object.what {
        What::Table(table) => match table.kind {
            TableKind::Ordinary => UPDATE | INSERT | DELETE,
            TableKind::Stream => INSERT,
            TableKind::Materialized(_) => 0,
        },
        What::View(view) => match Updatable::of(catalog, view) {
            Ok(found) if (0..view.columns.len()).any(|at| found.table_column(at).is_ok()) => {
                UPDATE | INSERT | DELETE
            }
            Ok(_) => DELETE,
            Err(_) => 0,
        },
        What::Index(..) | What::Sequence(_) | What::System(_) => 0,
    }
}

/// Whether UPDATE may set the column at a position, from 0, and DELETE takes the relation's rows.
pub(crate) fn column(catalog: &Catalog, object: &Object, at: usize) -> bool {
    match &object.what {
        What::Table(table) => matches!(table.kind, TableKind::Ordinary) && at < table.columns.len(),
        What::View(view) => Updatable::of(catalog, view)
            .is_ok_and(|found| at < view.columns.len() && found.table_column(at).is_ok()),
        What::Index(..) | What::Sequence(_) | What::System(_) => false,
    }
}
