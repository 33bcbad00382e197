//! DELETE, with USING.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{self, FromTable};

use super::effects::{Changed, Effects};
use super::named::Verb;
use super::query::QuerySource;
use super::returning::{self, Returning, Written};
use super::rows::{self, BoundRows, Rows};
use super::target::Target;
use super::walk::each_target_row;
use super::{RowValues, Scope, WriteContext, owned};
use crate::point::Scratch;
use crate::scratch::WriteScratch;
use halcyon_catalog::Privilege;
use halcyon_plan::env::{Env, Need};
use halcyon_sql::error::{Result, SqlError};
use halcyon_sql::rows::{ResultColumn, RowSink};

/// A bound DELETE.
pub(super) struct Delete {
    effects: Effects,
    source: QuerySource,
    width: usize,
    returning: Option<Returning>,
    /// Columns of the source's rows that RETURNING sees behind the table's own.
    extra: std::ops::Range<usize>,
    /// One row of the table may come several times.
    joined: bool,
}

/// Binds DELETE.
pub(super) fn bind(
    scope: &mut Scope<'_>,
    delete: &ast::Delete,
) -> Result<(Delete, Arc<[ResultColumn]>)> {
    let binder = scope.binder;
    if delete.limit.is_some() || !delete.order_by.is_empty() || !delete.tables.is_empty() {
        return Err(SqlError::unsupported("DELETE with LIMIT, ORDER BY or several tables"));
    }
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    let [target] = from.as_slice() else {
        return Err(SqlError::unsupported("DELETE from several tables"));
    };
    let (named, alias) = super::target_factor(&binder, target, Verb::Delete)?;
    named.require(&binder, Privilege::Delete)?;
    let table = Arc::clone(&named.table);
    let using = delete.using.as_deref().unwrap_or(&[]);
    let rows = Rows {
        named: &named,
        alias: &alias,
        target,
        others: using,
        condition: delete.selection.as_ref(),
        values: Vec::new(),
        shows_others: delete.returning.is_some(),
    };
    let BoundRows { source, columns, others, extra } = rows::bind(scope, &rows)?;
    let returned = delete.returning.as_deref();
    let (returning, result) = returning::bind(scope, &named, &alias, &others, returned)?;
    // Deleting breaks no NOT NULL, CHECK or reference of the row itself.
    let target = Target::bind(scope, &table, Some(&[]))?;
    let effects = Effects::bind(scope, target, true, &[])?;
    let joined = !using.is_empty();
    Ok((Delete { effects, source, width: columns.len(), returning, extra, joined }, result))
}

impl Delete {
    /// Position of the table that the statement names.
    pub fn target(&self) -> usize {
        self.effects.target().at
    }

    /// The query that finds its rows.
    pub fn source(&self) -> &QuerySource {
        &self.source
    }

    /// What the source reads, exclusively where it is the target.
    pub fn needs(&self, env: &Env<'_>, needs: &mut Vec<Need>) -> Result<()> {
        super::write_needs(&self.source, self.effects.target().at, false, env, needs)
    }

    /// Runs it.
    pub fn run(
        &self,
        cx: &mut WriteContext<'_>,
        scratch: &mut Scratch,
        own: &mut WriteScratch,
        mut returning: Option<&mut dyn RowSink>,
    ) -> Result<u64> {
        own.rows.reset(self.width);
        cx.collect(&self.source, scratch, &mut own.rows)?;
        let WriteScratch { rows, key, arena } = own;
        let target = self.effects.target();
        let mut changed = Vec::new();
        let written = each_target_row(rows, self.joined, cx, arena, |cx, arena, at, place| {
            let (partition, row) = place;
            let handle = cx.lock(target.at, partition);
            if self.returning.is_some() || self.effects.has_incoming() {
                let present = cx.tx.read(handle).row(row).expect("the source saw the row");
                let mut values: RowValues<'_> = present.values().collect();
                if self.effects.has_incoming() {
                    changed.push(Changed { node: 0, before: owned(&values), after: None });
                }
                if let (Some(items), Some(sink)) = (&self.returning, &mut returning) {
                    values.extend(self.extra.clone().map(|column| rows.value(at, column)));
                    let written = Written { place, ended_by: Some(cx.tx.id()) };
                    items.emit(&values, written, cx.env, arena, *sink)?;
                }
            }
            cx.tx.delete(handle, row);
            Ok(())
        })?;
        if !changed.is_empty() {
            self.effects.settle(cx, changed, Vec::new(), key, arena)?;
        }
        Ok(written)
    }

    /// For EXPLAIN.
    pub fn explain(&self) -> Vec<String> {
        let mut lines = vec![format!("Delete on {}", self.effects.target().table.name)];
        lines.extend(self.source.explain());
        lines
    }
}
