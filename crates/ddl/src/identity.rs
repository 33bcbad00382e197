//! Identities of columns: sequences that feed them and go with them.

use std::sync::Arc;

use super::sequence::{self, Wish};
use super::{DdlContext, alter, fold, parts, table};
use halcyon_catalog::{Identity, Relation, Sequence, Table};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::syntax::{AlterIdentities, IdentityChange, TableChange};

/// ALTER TABLE with changes of identities among its changes, one after the other.
pub(super) fn alter(cx: &mut DdlContext<'_>, statement: &AlterIdentities) -> Result<()> {
    let name = parts(&statement.table)?;
    if statement.if_exists && cx.catalog.resolve(&name, cx.search_path()).is_none() {
        let message = format!("relation \"{}\" does not exist, skipping", name.join("."));
        cx.notice(SqlState::UNDEFINED_TABLE, message);
        return Ok(());
    }
    for change in &statement.changes {
        let table = alter::changeable(cx, &name)?;
        match change {
            TableChange::Other(operation) => alter::apply(cx, table, operation)?,
            TableChange::Identity(column, change) => {
                change_one(cx, &table, &fold(column), change)?;
            }
        }
    }
    Ok(())
}

fn change_one(
    cx: &mut DdlContext<'_>,
    table: &Arc<Table>,
    column: &str,
    change: &IdentityChange,
) -> Result<()> {
    match change {
        IdentityChange::Add { always, sequence, options } => {
            let sequence = sequence.as_ref().map(parts).transpose()?;
            add(cx, table, column, *always, &Wish::of(options)?, sequence.as_deref())
        }
        IdentityChange::Drop { if_exists } => drop(cx, table, column, *if_exists),
        IdentityChange::Set { always, options } => {
            set(cx, table, column, *always, &Wish::of(options)?)
        }
    }
}

fn refused(message: String) -> SqlError {
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

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
    table::refuse_identity_type(column.ty)?;
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
        table::new_sequence(cx, table, name, wish, column.ty, (table.id, at), &mut made)?;
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

/// Gives the sequence that was made last the name that a statement says, and tells it without its schema.
///
/// Errors: 55000 for another schema than the table's; 42P07 if the name is taken.
pub(super) fn named(
    cx: &DdlContext<'_>,
    table: &Table,
    given: &[String],
    made: &mut [Arc<Sequence>],
) -> Result<String> {
    if let [.., schema, _] = given
        && *schema != table.schema
    {
        let message = "identity sequence must be in the same schema as the table";
        return Err(refused(message.to_owned()));
    }
    let name = given.last().cloned().unwrap_or_default();
    cx.catalog.refuse_taken(&table.schema, &name)?;
    if let Some((last, before)) = made.split_last_mut() {
        if name == table.name || before.iter().any(|other| other.name == name) {
            let message = format!("relation \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
        }
        Arc::make_mut(last).name.clone_from(&name);
    }
    Ok(name)
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
fn drop(cx: &mut DdlContext<'_>, table: &Table, name: &str, if_exists: bool) -> Result<()> {
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
fn set(
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
