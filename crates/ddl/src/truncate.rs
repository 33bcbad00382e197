//! TRUNCATE.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{CascadeOption, Truncate, TruncateIdentityOption};
use halcyon_base::ids::TableId;
use halcyon_txn::Mode;

use super::{DdlContext, parts, sequence};
use halcyon_catalog::{Privilege, TableKind};
use halcyon_exec::upkeep::FedViews;
use halcyon_sql::error::{Result, SqlError, SqlState};

/// `TRUNCATE [RESTART IDENTITY] [CASCADE]`.
pub(super) fn truncate(cx: &mut DdlContext<'_>, truncate: &Truncate) -> Result<()> {
    if truncate.partitions.is_some() {
        return Err(SqlError::unsupported("TRUNCATE … PARTITION"));
    }
    let mut all: BTreeSet<TableId> = BTreeSet::new();
    for target in &truncate.table_names {
        let name = parts(&target.name)?;
        if truncate.if_exists && cx.catalog.resolve(&name, cx.search_path()).is_none() {
            continue;
        }
        let table = cx.catalog.find_table(&name, cx.search_path())?;
        if !matches!(table.kind, TableKind::Ordinary) {
            return Err(halcyon_catalog::wrong_kind(&table.name, "table"));
        }
        cx.catalog.require_on_table(cx.user(), &table, Privilege::Truncate)?;
        if truncate.identity == Some(TruncateIdentityOption::Restart) {
            sequence::require_owner_of_all(cx, &table)?;
        }
        cx.refuse_pending(&table, "TRUNCATE")?;
        all.insert(table.id);
    }
    let mut open: Vec<TableId> = all.iter().copied().collect();
    while let Some(id) = open.pop() {
        let table = cx.catalog.table(id).clone();
        for (referrer, key) in &table.referenced_by {
            if all.contains(referrer) {
                continue;
            }
            let other = cx.catalog.table(*referrer).clone();
            if truncate.cascade != Some(CascadeOption::Cascade) {
                return Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "cannot truncate a table referenced in a foreign key constraint",
                )
                .detail(format!(
                    "Table \"{}\" references \"{}\" by constraint \"{key}\".",
                    other.name, table.name
                ))
                .hint(format!(
                    "Truncate table \"{}\" at the same time, or use TRUNCATE ... CASCADE.",
                    other.name
                )));
            }
            cx.catalog.require_on_table(cx.user(), &other, Privilege::Truncate)?;
            let notice = format!("truncate cascades to table \"{}\"", other.name);
            cx.notice(SqlState::SUCCESSFUL_COMPLETION, notice);
            all.insert(*referrer);
            open.push(*referrer);
        }
    }
    let tables: Vec<_> = all.iter().map(|id| cx.catalog.table(*id).clone()).collect();
    let now = Arc::new(cx.catalog.clone());
    let mut bound = None;
    cx.binder_now(&now, |binder| {
        bound = Some(FedViews::bind(binder, &tables)?);
        Ok(())
    })?;
    let views = bound.expect("the binder was there");
    let fed = views.tables();
    let mut cells: Vec<_> = tables.iter().chain(fed).flat_map(|t| t.cells.clone()).collect();
    cells.sort_by_key(|cell| cell.id);
    cx.lock_cells(&cells, Mode::Exclusive)?;
    let since = views.begin(cx.tx);
    for id in all {
        let table = cx.catalog.table(id).clone();
        cx.alter_all(&table, |root| {
            root.truncate();
            Ok(())
        })?;
        if truncate.identity == Some(TruncateIdentityOption::Restart) {
            sequence::restart_of_table(cx, &table);
        }
    }
    match &since {
        Some(since) => views.end(since, cx.env, cx.tx),
        None => Ok(()),
    }
}
