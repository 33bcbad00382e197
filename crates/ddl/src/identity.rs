//! Identities of columns: sequences that feed them and go with them.

use std::sync::Arc;

use super::identity_name::{named, refused};
use super::sequence::{self, Wish};
use super::{DdlContext, columns};
use halcyon_catalog::{Identity, Relation, Table};
use halcyon_sql::error::{Result, SqlState};

/// Gives a column an identity, whose sequence may have a name, with the table's schema or without one.
///
/// Errors: 42703, 55000; 42P07 if the name is taken.
pub(super) fn add(
    cx: &mut DdlContext<'_>,
    table: &Arc<Table>,
    name: &str,
    always: bool,
    wish: &Wish,
    sequence: Option<&[String]>,
) -> Result<()> {
    let at = table.require_column(name)?;
    let column = &table.columns[at as usize];
    let shown = format!("column \"{name}\" of relation \"{}\"", table.name);
    columns::refuse_identity_type(column.ty)?;
    if !column.not_null {
        let message = format!("{shown} must be declared NOT NULL before identity can be added");
        return Err(refused(message));
    }
    if column.identity.is_some() {
        return Err(refused(format!("{shown} is already an identity column")));
    }
    if column.default.is_some() {
        return Err(refused(format!("{shown} already has a default value")));
    }
    let mut made = Vec::new();
    let mut chosen =
        columns::new_sequence(cx, table, name, wish, column.ty, (table.id, at), &mut made)?;
    if let Some(given) = sequence {
        chosen = named(cx, table, given, &mut made)?;
    }
    for sequence in made {
        cx.catalog.put(&table.schema, &chosen, Relation::Sequence(sequence));
    }
    cx.catalog.change_table(table.id, |table| {
        table.columns[at as usize].identity = Some(Identity { always, sequence: chosen });
    });
    Ok(())
}

/// The identity of a column. Errors: 42703; 55000 if it has none.
fn identity<'t>(table: &'t Table, name: &str) -> Result<(usize, &'t Identity)> {
    let at = usize::from(table.require_column(name)?);
    table.columns[at].identity.as_ref().map(|identity| (at, identity)).ok_or_else(|| {
        let of = &table.name;
        refused(format!("column \"{name}\" of relation \"{of}\" is not an identity column"))
    })
}

/// Takes the identity of a column away, and its sequence. Errors: 42703, 55000.
pub(super) fn drop(
    cx: &mut DdlContext<'_>,
    table: &Table,
    name: &str,
    if_exists: bool,
) -> Result<()> {
    let (at, sequence) = match identity(table, name) {
        Ok((at, identity)) => (at, identity.sequence.clone()),
        Err(error) if if_exists && error.state() == SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE => {
            cx.notice(error.state(), format!("{}, skipping", error.message()));
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    cx.catalog.change_table(table.id, |table| table.columns[at].identity = None);
    cx.catalog.remove(&table.schema, &sequence);
    Ok(())
}

/// Changes when the identity gives values, and how. Errors: 42703, 55000, 22023.
pub(super) fn set(
    cx: &mut DdlContext<'_>,
    table: &Table,
    name: &str,
    always: Option<bool>,
    wish: &Wish,
) -> Result<()> {
    let (at, identity) = identity(table, name)?;
    let sequence = [table.schema.clone(), identity.sequence.clone()];
    let wish = Wish { ty: wish.ty.or(Some(table.columns[at].ty)), ..wish.clone() };
    sequence::alter(cx, &sequence, &wish, None)?;
    cx.catalog.change_table(table.id, |table| {
        if let (Some(identity), Some(always)) = (&mut table.columns[at].identity, always) {
            identity.always = always;
        }
    });
    Ok(())
}
