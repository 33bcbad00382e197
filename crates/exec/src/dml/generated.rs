//! Generated columns of a table that is written: GENERATED ALWAYS AS (expression) STORED.

use halcyon_store::ValueRef;

use super::source::{self, Cell};
use crate::constraints::mentioned_in;
use halcyon_catalog::Table;
use halcyon_derived::row_schema;
use halcyon_plan::bind::Binder;
use halcyon_plan::env::Env;
use halcyon_sql::coerce::Arena;
use halcyon_sql::error::Result;
use halcyon_sql::parse::parse_expr;
use halcyon_sql::types::SqlType;

/// Generated columns, with the expression of each.
///
/// None reads another, so their order does not matter.
pub struct Generated(Vec<(u16, SqlType, Cell)>);

impl Generated {
    /// The generated columns of a table that a change of `columns` concerns (`None`: all of them).
    pub fn bind(binder: &Binder<'_>, table: &Table, columns: Option<&[u16]>) -> Result<Generated> {
        let mut found = Vec::new();
        if !table.has_generated() {
            return Ok(Generated(found));
        }
        let schema = row_schema(table)?;
        for at in concerned(table, columns) {
            let column = &table.columns[at as usize];
            let text = column.generated.as_ref().expect("only generated columns are concerned");
            let bound = binder.expr(&parse_expr(text)?, &schema)?;
            let cell = source::program(&bound, &schema, column.ty, &column.name)?;
            found.push((at, column.ty, cell));
        }
        Ok(Generated(found))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts their values into a row that has all others.
    pub fn fill<'v>(
        &'v self,
        row: &mut [ValueRef<'v>],
        env: &'v Env<'v>,
        arena: &'v Arena,
    ) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let others: &'v [ValueRef<'v>] = arena.alloc_slice_copy(row);
        for (at, ty, cell) in &self.0 {
            let none = |_| unreachable!("a generated column has no source row");
            // No immutable expression asks for a zone.
            row[*at as usize] = cell.value(env, &mut None, none, others, *ty, arena)?;
        }
        Ok(())
    }
}

/// The columns, and the generated ones that follow from them.
pub(super) fn with_generated(table: &Table, columns: &[u16]) -> Vec<u16> {
    let mut all = columns.to_vec();
    if table.has_generated() {
        let new = concerned(table, Some(columns)).into_iter().filter(|at| !columns.contains(at));
        all.extend(new.collect::<Vec<_>>());
    }
    all
}

/// The generated columns that a change of `columns` concerns.
fn concerned(table: &Table, columns: Option<&[u16]>) -> Vec<u16> {
    let is_concerned = |at: &u16| {
        let Some(text) = &table.columns[*at as usize].generated else { return false };
        columns.is_none_or(|columns| {
            let mentioned = mentioned_in(text);
            let reads = |at: &u16| mentioned.contains(&table.columns[*at as usize].name);
            columns.contains(at) || columns.iter().any(reads)
        })
    };
    (0..table.columns.len() as u16).filter(is_concerned).collect()
}
