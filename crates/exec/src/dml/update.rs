//! UPDATE, with FROM.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{self, UpdateTableFromKind};
use halcyon_base::ids::RowId;
use halcyon_store::{KeyBuf, ValueRef};

use super::assignments::assignments;
use super::effects::{Changed, Effects};
use super::generated::with_generated;
use super::named::Verb;
use super::query::QuerySource;
use super::returning::{self, Returning, Written};
use super::rows::{self, BoundRows, Rows};
use super::source::{self, Cell};
use super::target::{LateRow, Target};
use super::walk::each_target_row;
use super::{RowValues, Scope, WriteContext, owned};
use crate::point::Scratch;
use crate::scratch::WriteScratch;
use halcyon_catalog::Privilege;
use halcyon_plan::env::{Env, Need};
use halcyon_sql::coerce::Arena;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::rows::{ResultColumn, RowSet, RowSink};

/// A bound UPDATE.
pub(super) struct Update {
    effects: Effects,
    source: QuerySource,
    width: usize,
    columns: Vec<u16>,
    /// The columns, and the generated ones that follow from them.
    written: Vec<u16>,
    cells: Vec<Cell>,
    returning: Option<Returning>,
    /// Columns of the source's rows that RETURNING sees behind the table's own.
    extra: std::ops::Range<usize>,
    /// One row of the table may come several times.
    joined: bool,
    moves: bool,
    touches_unique: bool,
}

/// Binds UPDATE.
pub(super) fn bind(
    scope: &mut Scope<'_>,
    update: &ast::Update,
) -> Result<(Update, Arc<[ResultColumn]>)> {
    let binder = scope.binder;
    if update.limit.is_some() || !update.order_by.is_empty() || update.or.is_some() {
        return Err(SqlError::unsupported("UPDATE with LIMIT or ORDER BY"));
    }
    let (named, alias) = super::target_factor(&binder, &update.table, Verb::Update)?;
    named.require(&binder, Privilege::Update)?;
    let table = Arc::clone(&named.table);
    let from: &[ast::TableWithJoins] = match &update.from {
        None => &[],
        Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) => from,
    };
    let (mut columns, mut cells) = (Vec::new(), Vec::new());
    let mut values = Vec::new();
    let assigned = assignments(&named, Some(&alias), &update.assignments)?;
    for (column, expr) in &assigned {
        let (column, expr) = (*column, expr.as_ref());
        if columns.contains(&column) {
            return Err(super::assigned_twice(&table, column));
        }
        refuse_generated(&table, column, expr)?;
        columns.push(column);
        let cell = source::simple(scope, expr, &table, column)?;
        if cell.is_none() {
            values.push((column, expr));
        }
        cells.push(cell);
    }
    let rows = Rows {
        named: &named,
        alias: &alias,
        target: &update.table,
        others: from,
        condition: update.selection.as_ref(),
        values,
        shows_others: update.returning.is_some(),
    };
    let BoundRows { source, columns: found, others, extra } = rows::bind(scope, &rows)?;
    // Behind the row's id.
    let mut computed = 1..;
    let cells = cells.into_iter().zip(&columns).map(|(cell, column)| match cell {
        Some(cell) => Ok(cell),
        None => {
            let at = computed.next().expect("there are enough numbers");
            let definition = &table.columns[*column as usize];
            let null = found[at].field.data_type().is_null();
            source::from_column(at, found[at].ty, null, definition.ty, &definition.name)
        }
    });
    let cells = cells.collect::<Result<Vec<Cell>>>()?;
    let returned = update.returning.as_deref();
    let (returning, result) = returning::bind(scope, &named, &alias, &others, returned)?;
    let mut target = Target::bind(scope, &table, Some(&columns))?;
    target.view_checks = named.checks(&binder)?;
    let written = with_generated(&table, &columns);
    let moves = target.touches_partitioning(&written);
    let touches_unique = target.touches_unique(&written);
    let effects = Effects::bind(scope, target, false, &written)?;
    let update = Update {
        effects,
        source,
        width: found.len(),
        columns,
        written,
        cells,
        returning,
        extra,
        joined: !from.is_empty(),
        moves,
        touches_unique,
    };
    Ok((update, result))
}

/// 428C9: GENERATED ALWAYS may only be set to DEFAULT.
pub(super) fn refuse_generated(
    table: &halcyon_catalog::Table,
    column: u16,
    expr: &ast::Expr,
) -> Result<()> {
    let definition = &table.columns[column as usize];
    let always = definition.identity.as_ref().is_some_and(|identity| identity.always);
    let computed = definition.generated.is_some();
    if !always && !computed || source::is_default(expr) {
        return Ok(());
    }
    let name = &definition.name;
    let what = match computed {
        true => "a generated column.",
        false => "an identity column defined as GENERATED ALWAYS.",
    };
    Err(SqlError::new(
        SqlState::GENERATED_ALWAYS,
        format!("column \"{name}\" can only be updated to DEFAULT"),
    )
    .detail(format!("Column \"{name}\" is {what}")))
}

impl Update {
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
        super::write_needs(&self.source, self.effects.target().at, self.moves, env, needs)
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
        // Keys may repeat while rows are changed one by one; they must be unique at the end.
        let unchecked = rows.len() > 1 && self.touches_unique;
        let whole_row = self.returning.is_some()
            || target.has_checks()
            || target.has_generated()
            || target.has_references()
            || self.effects.has_incoming()
            || self.moves
            || unchecked;
        let mut state =
            UpdateProgress { changed: Vec::new(), late: Vec::new(), placed: Vec::new() };
        let written = each_target_row(rows, self.joined, cx, arena, |cx, arena, at, place| {
            if !whole_row {
                return self.update_columns(cx, rows, at, place, arena);
            }
            let (state, returning) = (&mut state, &mut returning);
            self.update_whole(cx, rows, at, place, unchecked, state, key, arena, returning)
        })?;
        if unchecked {
            self.check_unique(cx, state.placed)?;
        }
        if !state.changed.is_empty() || !state.late.is_empty() {
            self.effects.settle(cx, state.changed, state.late, key, arena)?;
        }
        Ok(written)
    }

    /// Sets columns that no check, reference, RETURNING or partitioning reads.
    #[inline]
    fn update_columns(
        &self,
        cx: &mut WriteContext<'_>,
        rows: &RowSet,
        at: usize,
        (partition, row): (u32, RowId),
        arena: &Arena,
    ) -> Result<()> {
        let target = self.effects.target();
        let mut values = RowValues::new();
        let mut wrong = None;
        let env = cx.env;
        for (cell, column) in self.cells.iter().zip(&self.columns) {
            let definition = &target.table.columns[*column as usize];
            let source = |column| rows.value(at, column);
            let value = cell.value(env, cx.zone_cell(), source, &[], definition.ty, arena)?;
            if value.is_null() && definition.not_null {
                wrong = wrong.or(Some(*column)).min(Some(*column));
            }
            values.push(value);
        }
        let handle = cx.lock(target.at, partition);
        if let Some(column) = wrong {
            let present = cx.tx.read(handle).row(row).expect("the source saw the row");
            let mut whole: RowValues<'_> = present.values().collect();
            self.columns.iter().zip(&values).for_each(|(c, v)| whole[*c as usize] = *v);
            return Err(crate::constraints::null_violation(&target.table, column, &whole));
        }
        cx.tx.update(handle, row, &self.columns, &values).map_err(|conflict| {
            let present = cx.tx.read(handle).row(row).expect("the source saw the row");
            let mut whole: RowValues<'_> = present.values().collect();
            self.columns.iter().zip(&values).for_each(|(c, v)| whole[*c as usize] = *v);
            target.conflict(conflict, &whole)
        })
    }

    /// Sets columns of a row where checks, references, RETURNING or partitioning read the row.
    #[allow(clippy::too_many_arguments)]
    fn update_whole(
        &self,
        cx: &mut WriteContext<'_>,
        rows: &RowSet,
        at: usize,
        place: (u32, RowId),
        unchecked: bool,
        state: &mut UpdateProgress,
        key: &mut KeyBuf,
        arena: &Arena,
        returning: &mut Option<&mut dyn RowSink>,
    ) -> Result<()> {
        let target = self.effects.target();
        let env = cx.env;
        let handle = cx.lock(target.at, place.0);
        let present = cx.tx.read(handle).row(place.1).expect("the source saw the row");
        let before: Vec<_> = present.values().map(|value| value.to_owned()).collect();
        let mut row: RowValues<'_> = before.iter().map(|value| value.as_ref()).collect();
        for (cell, column) in self.cells.iter().zip(&self.columns) {
            let ty = target.table.columns[*column as usize].ty;
            let source = |column| rows.value(at, column);
            row[*column as usize] = cell.value(env, cx.zone_cell(), source, &[], ty, arena)?;
        }
        target.complete(&mut row, env, arena)?;
        target.verify(&row, env, arena)?;
        let place = match unchecked {
            false => store(cx, target, place, &self.written, &row)?,
            true => store_unchecked(cx, target, place, &self.written, &row),
        };
        target.verify_shown(&row, env, arena)?;
        if unchecked {
            state.placed.push(place);
        }
        if target.has_references() && target.verify_references(cx, &row, key, false)? {
            state.late.push(LateRow { node: 0, partition: place.0, row: place.1 });
        }
        if self.effects.has_incoming() {
            let after = Some(owned(&row));
            state.changed.push(Changed { node: 0, before: before.clone(), after });
        }
        if let (Some(items), Some(sink)) = (&self.returning, returning) {
            row.extend(self.extra.clone().map(|column| rows.value(at, column)));
            items.emit(&row, Written { place, ended_by: None }, env, arena, *sink)?;
        }
        Ok(())
    }

    /// Judges unique keys when all rows have changed. Errors: 23505.
    fn check_unique(&self, cx: &WriteContext<'_>, mut placed: Vec<(u32, RowId)>) -> Result<()> {
        let target = self.effects.target();
        placed.sort_unstable();
        for rows in placed.chunk_by(|a, b| a.0 == b.0) {
            let root = cx.tx.read(cx.lock(target.at, rows[0].0));
            root.check_unique(rows.iter().map(|(_, row)| *row)).map_err(|conflict| {
                let row = root.row(conflict.row).expect("a conflict names a row that is there");
                let values: RowValues<'_> = row.values().collect();
                target.conflict(conflict, &values)
            })?;
        }
        Ok(())
    }

    /// For EXPLAIN.
    pub fn explain(&self) -> Vec<String> {
        let table = &self.effects.target().table;
        let name = |column: &u16| table.columns[*column as usize].name.as_str();
        let columns: Vec<&str> = self.columns.iter().map(name).collect();
        let mut lines = vec![format!("Update on {} (set {})", table.name, columns.join(", "))];
        lines.extend(self.source.explain());
        lines
    }
}

/// State of a running UPDATE.
struct UpdateProgress {
    changed: Vec<Changed>,
    late: Vec<LateRow>,
    /// Rows stored without a look at unique keys.
    placed: Vec<(u32, RowId)>,
}

/// Stores the new state of a row, in another partition if it belongs there. Errors: 23505.
pub(super) fn store(
    cx: &mut WriteContext<'_>,
    target: &Target,
    (partition, row): (u32, RowId),
    columns: &[u16],
    values: &[ValueRef<'_>],
) -> Result<(u32, RowId)> {
    let to = target.partition_of(values);
    let handle = cx.lock(target.at, partition);
    let stored = if to == partition {
        let new: RowValues<'_> = columns.iter().map(|column| values[*column as usize]).collect();
        cx.tx.update(handle, row, columns, &new).map(|()| row)
    } else {
        cx.tx.delete(handle, row);
        cx.tx.insert(cx.lock(target.at, to), values)
    };
    stored.map(|row| (to, row)).map_err(|conflict| target.conflict(conflict, values))
}

/// As [`store`], without a look at unique keys.
fn store_unchecked(
    cx: &mut WriteContext<'_>,
    target: &Target,
    (partition, row): (u32, RowId),
    columns: &[u16],
    values: &[ValueRef<'_>],
) -> (u32, RowId) {
    let to = target.partition_of(values);
    let handle = cx.lock(target.at, partition);
    if to == partition {
        let new: RowValues<'_> = columns.iter().map(|column| values[*column as usize]).collect();
        cx.tx.update_unchecked(handle, row, columns, &new);
        (to, row)
    } else {
        cx.tx.delete(handle, row);
        (to, cx.tx.insert_unchecked(cx.lock(target.at, to), values))
    }
}
