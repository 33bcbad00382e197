//! ALTER TABLE with changes of identities among its changes.

use std::sync::Arc;

use super::sequence::Wish;
use super::{DdlContext, alter, fold, identity, parts};
use halcyon_catalog::Table;
use halcyon_sql::error::{Result, SqlState};
use halcyon_sql::syntax::{AlterIdentities, IdentityChange, TableChange};

/// ALTER TABLE with changes of identities among its changes, one after the other.
pub(super) fn run(cx: &mut DdlContext<'_>, statement: &AlterIdentities) -> Result<()> {
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
            identity::add(cx, table, column, *always, &Wish::of(options)?, sequence.as_deref())
        }
        IdentityChange::Drop { if_exists } => identity::drop(cx, table, column, *if_exists),
        IdentityChange::Set { always, options } => {
            identity::set(cx, table, column, *always, &Wish::of(options)?)
        }
    }
}
