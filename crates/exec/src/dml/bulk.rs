//! Whole batches into a table: INSERT … SELECT, CREATE TABLE AS, COPY FROM.
//!
//! Columns are brought to the table's types, NOT NULL and CHECK are judged on the batch, rows are
//! dealt to their partitions, and each partition takes its share as vectors. Only when a unique
//! key repeats is the share stored row by row, to find the row that is to be told of.
//!
//! Cost: no work per value where the batch has the column's layout already.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{CastOptions, cast_with_options, take};
use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast;
use halcyon_base::ids::RowId;
use halcyon_base::progress::Kind;
use halcyon_store::{AppendError, KeyBuf, Value, ValueRef};
use halcyon_txn::{LockHandle, Mode, Transaction, WaitLimits};

use crate::dml::walk::PAUSE_ROWS;
use crate::dml::{Cell, Convert, QuerySource, Target, WriteContext};
use crate::point::Scratch;
use halcyon_catalog::Table;
use halcyon_plan::bind::Binder;
use halcyon_plan::env::{Env, Locks, Roots};
use halcyon_plan::lock_errors;
use halcyon_sql::coerce::{Arena, TimeZone};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::rows::{ResultColumn, RowSet};
use halcyon_sql::types::SqlType;
use halcyon_sql::values::{ArrayWriter, stored, value_at};

/// Rows of a point plan that are made into one batch.
const BATCH_ROWS: usize = 8192;

/// Where a column of the table comes from.
enum From {
    /// A column of the batch.
    Column(usize, Convert),
    /// The same value in every row.
    Const(Value),
}

/// Puts batches into a table.
pub struct Writer {
    target: Target,
    columns: Vec<From>,
}

/// Rows whose references can be judged only when all rows are there.
pub type Late = Vec<(u32, Range<u32>)>;

impl Writer {
    /// A writer for rows whose cells are columns of a query or constants; `None` if some are
    /// anything else.
    pub fn for_cells(
        binder: &Binder<'_>,
        table: &Arc<Table>,
        cells: &[Option<Cell>],
    ) -> Result<Option<Writer>> {
        let mut columns = Vec::new();
        for (at, cell) in cells.iter().enumerate() {
            let default;
            let cell = match cell {
                Some(cell) => cell,
                None => {
                    default = crate::dml::default_cell(binder, table, at as u16)?;
                    &default
                }
            };
            columns.push(match cell {
                Cell::Column(at, convert) => From::Column(*at, *convert),
                Cell::Const(value) => From::Const(value.clone()),
                _ => return Ok(None),
            });
        }
        let target = Target::without_references(binder, table, None)?;
        Ok(Some(Writer { target, columns }))
    }

    /// A writer for batches that have the table's columns in order.
    pub fn for_table(target: Target) -> Writer {
        let columns = 0..target.table.columns.len();
        Writer { columns: columns.map(|at| From::Column(at, Convert::Same)).collect(), target }
    }

    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        &self.target.table
    }

    /// The batch's columns as those of the table. Errors: those of assignment casts.
    pub fn arrange(
        &self,
        batch: &RecordBatch,
        env: &Env<'_>,
        zone: TimeZone,
    ) -> Result<Vec<ArrayRef>> {
        let table = &self.target.table;
        let rows = batch.num_rows();
        let arena = Arena::new();
        let columns = self.columns.iter().zip(&table.columns).map(|(from, column)| match from {
            From::Const(value) => {
                if let ValueRef::Text(text) = value.as_ref() {
                    SqlError::unless_refused(text.len() as u64 * rows as u64)?;
                }
                let mut writer = ArrayWriter::for_storage(column.ty, rows);
                (0..rows).try_for_each(|_| writer.push(value.as_ref()))?;
                Ok(writer.finish())
            }
            From::Column(at, Convert::Same) => as_storage(batch.column(*at), column.ty),
            From::Column(at, convert) => {
                if env.cancel.is_cancelled() {
                    return Err(SqlError::new(
                        SqlState::QUERY_CANCELED,
                        "canceling statement due to user request",
                    ));
                }
                let array = &stored(batch.column(*at));
                let mut writer = ArrayWriter::for_storage(column.ty, rows);
                for row in 0..rows {
                    let value = cell_of(array, row)?;
                    writer.push(convert.apply(value, column.ty, || zone, &arena)?)?;
                }
                Ok(writer.finish())
            }
        });
        columns.collect()
    }

    /// Stores rows that have the table's columns. Errors: 23502, 23514, 23505, 23503.
    pub fn append(
        &self,
        cx: &mut WriteContext<'_>,
        handles: &[LockHandle],
        columns: Vec<ArrayRef>,
        late: &mut Late,
    ) -> Result<u64> {
        let rows = columns.first().map_or(0, |column| column.len());
        if rows >= PAUSE_ROWS || cx.work.is_some() {
            cx.lasts(rows, None);
        }
        cx.takes_turns();
        let columns = self.complete(cx.env, columns, rows)?;
        self.verify(cx, &columns, rows)?;
        for (partition, columns) in self.deal(columns)? {
            let handle = handles[partition as usize];
            let placed = match cx.tx.append(handle, &columns) {
                Ok(placed) => placed,
                Err(AppendError::Conflict(_)) => return Err(self.repeated(cx, handle, &columns)?),
                Err(AppendError::Full) => {
                    return Err(SqlError::new(
                        SqlState::PROGRAM_LIMIT_EXCEEDED,
                        format!("a partition of table \"{}\" is full", self.target.table.name),
                    )
                    .hint("Spread the table over more partitions."));
                }
                Err(other) => panic!("a batch that was arranged does not fit: {other:?}"),
            };
            if self.target.has_references() {
                self.verify_references(cx, partition, placed, late)?;
            }
        }
        Ok(rows as u64)
    }

    /// The columns with generated ones computed from the others.
    fn complete(
        &self,
        env: &Env<'_>,
        mut columns: Vec<ArrayRef>,
        rows: usize,
    ) -> Result<Vec<ArrayRef>> {
        if !self.target.has_generated() {
            return Ok(columns);
        }
        let table = &self.target.table;
        let is_generated = |at: &usize| table.columns[*at].generated.is_some();
        let places: Vec<usize> = (0..table.columns.len()).filter(is_generated).collect();
        let writer = |at: &usize| ArrayWriter::for_storage(table.columns[*at].ty, rows);
        let mut writers: Vec<ArrayWriter> = places.iter().map(writer).collect();
        for row in 0..rows {
            if row % 1024 == 0 && env.cancel.is_cancelled() {
                return Err(super::cancelled());
            }
            let arena = Arena::new();
            let mut values = row_of(&columns, row)?;
            self.target.complete(&mut values, env, &arena)?;
            for (at, writer) in places.iter().zip(&mut writers) {
                writer.push(values[*at])?;
            }
        }
        for (at, mut writer) in places.into_iter().zip(writers) {
            columns[at] = writer.finish();
        }
        Ok(columns)
    }

    /// NOT NULL and CHECK.
    fn verify(&self, cx: &WriteContext<'_>, columns: &[ArrayRef], rows: usize) -> Result<()> {
        let null_in = |column: &u16| {
            let nulls = columns[*column as usize].nulls()?;
            (nulls.null_count() > 0).then(|| (0..rows).find(|row| nulls.is_null(*row)))?
        };
        let first_null = self.target.not_null().iter().filter_map(null_in).min();
        if !self.target.has_checks() && first_null.is_none() {
            return Ok(());
        }
        let mut arena = Arena::new();
        let from = if self.target.has_checks() { 0 } else { first_null.unwrap_or(0) };
        for row in from..rows {
            let values = row_of(columns, row)?;
            self.target.verify(&values, cx.env, &arena)?;
            drop(values);
            if row % 1024 == 1023 {
                arena.reset();
            }
        }
        Ok(())
    }

    /// The rows of each partition.
    fn deal(&self, columns: Vec<ArrayRef>) -> Result<Vec<(u32, Vec<ArrayRef>)>> {
        let table = &self.target.table;
        let Some(by) = table.partition_column() else { return Ok(vec![(0, columns)]) };
        let by = columns[by as usize].clone();
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); table.cells.len()];
        for row in 0..by.len() {
            let partition = table.partition_of(cell_of(&by, row)?);
            rows[partition as usize].push(row as u32);
        }
        let mut shares = Vec::new();
        for (partition, rows) in rows.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
            let rows = UInt32Array::from(rows);
            let pick = |column: &ArrayRef| {
                take(column, &rows, None)
                    .map_err(|error| halcyon_sql::diagnose::sql_error(error.into(), ""))
            };
            shares.push((partition as u32, columns.iter().map(pick).collect::<Result<_>>()?));
        }
        Ok(shares)
    }

    /// 23505 for the first row of a share that repeats a key.
    fn repeated(
        &self,
        cx: &mut WriteContext<'_>,
        handle: LockHandle,
        columns: &[ArrayRef],
    ) -> Result<SqlError> {
        for row in 0..columns[0].len() {
            let values = row_of(columns, row)?;
            if let Err(conflict) = cx.tx.insert(handle, &values) {
                return Ok(self.target.conflict(conflict, &values));
            }
        }
        unreachable!("a batch that repeats no key was refused")
    }

    fn verify_references(
        &self,
        cx: &WriteContext<'_>,
        partition: u32,
        placed: Range<u32>,
        late: &mut Late,
    ) -> Result<()> {
        let mut key = KeyBuf::new();
        let mut any_late = false;
        let root = cx.tx.read(cx.lock(self.target.at, partition));
        for row in placed.clone() {
            let row = root.row(RowId(row)).expect("it was just appended");
            let values: Vec<ValueRef<'_>> = row.values().collect();
            any_late |= self.target.verify_references(cx, &values, &mut key, false)?;
        }
        if any_late {
            late.push((partition, placed));
        }
        Ok(())
    }

    /// Judges what only the end can. Errors: 23503.
    pub fn finish(&self, cx: &WriteContext<'_>, late: Late) -> Result<()> {
        let mut key = KeyBuf::new();
        for (partition, placed) in late {
            let root = cx.tx.read(cx.lock(self.target.at, partition));
            for row in placed {
                let row = root.row(RowId(row)).expect("it was appended by this statement");
                let values: Vec<ValueRef<'_>> = row.values().collect();
                self.target.verify_references(cx, &values, &mut key, true)?;
            }
        }
        Ok(())
    }
}

/// A row of some columns.
fn row_of(columns: &[ArrayRef], row: usize) -> Result<Vec<ValueRef<'_>>> {
    columns.iter().map(|column| cell_of(column, row)).collect()
}

/// A cell of an array. Errors: 0A000 for types that only Arrow has.
pub fn cell_of(array: &ArrayRef, row: usize) -> Result<ValueRef<'_>> {
    value_at(array.as_ref(), row)
        .ok_or_else(|| SqlError::unsupported(format!("a value of type {}", array.data_type())))
}

/// An array in the layout in which a column of `ty` is stored.
pub fn as_storage(array: &ArrayRef, ty: SqlType) -> Result<ArrayRef> {
    let array = &stored(array);
    let wanted = match ty {
        ty if matches!(ty, SqlType::Array(_)) || ty.is_address() => DataType::BinaryView,
        SqlType::Enum(_) => DataType::Int64,
        other => other.arrow(),
    };
    let text = |ty: &DataType| matches!(ty, DataType::Utf8 | DataType::Utf8View);
    let bytes = |ty: &DataType| matches!(ty, DataType::Binary | DataType::BinaryView);
    let found = array.data_type();
    if *found == wanted || text(found) && text(&wanted) || bytes(found) && bytes(&wanted) {
        return Ok(array.clone());
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, &wanted, &options)
        .map_err(|error| halcyon_sql::diagnose::sql_error(error.into(), ""))
}

/// A query whose rows fill a new table.
pub struct Source {
    source: QuerySource,
    columns: Arc<[ResultColumn]>,
}

impl Source {
    /// Binds the query of CREATE TABLE AS.
    pub fn bind(binder: &Binder<'_>, query: &ast::Query) -> Result<Source> {
        let bound = binder.query_with(query.clone(), None, &[], "")?;
        let columns = bound.columns().into();
        Ok(Source { source: QuerySource::new(bound.plan, binder)?, columns })
    }

    /// Columns of the query.
    pub fn columns(&self) -> &[ResultColumn] {
        &self.columns
    }

    /// Locks what it reads, and puts its rows into a table that has its columns.
    pub fn run_into(
        &self,
        binder: &Binder<'_>,
        env: &Env<'_>,
        tx: &mut Transaction,
        limits: &WaitLimits<'_>,
        table: &Arc<Table>,
        handles: &[LockHandle],
    ) -> Result<u64> {
        let tables = self.source.tables().to_vec();
        let mut locks = Locks::default();
        locks.reset(&tables);
        let mut cells: Vec<_> = tables
            .iter()
            .enumerate()
            .flat_map(|(at, table)| {
                table.cells.iter().enumerate().map(move |(number, cell)| (cell, at, number as u32))
            })
            .collect();
        cells.sort_by_key(|(cell, ..)| cell.id);
        for (cell, at, number) in cells {
            let handle = tx
                .lock(cell, Mode::Shared, limits)
                .map_err(|error| lock_errors::of_table(error, &tables[at]))?;
            locks.set(at, number, handle);
        }
        let writer = Writer::for_table(Target::without_references(binder, table, None)?);
        let zone = TimeZone::parse(&env.session.time_zone).unwrap_or_default();
        let mut late = Late::new();
        let mut written = 0;
        if matches!(self.source, QuerySource::Analytical(_)) {
            let mut batches = self.source.stream(env, Roots::Locked(tx, &locks))?;
            let mut cx = WriteContext::new(env, tx, &locks);
            cx.shown = Some((Kind::CreateTableAs, table));
            while let Some(batch) = cx.tx.resting(|| batches.next()) {
                let columns = writer.arrange(&batch?, env, zone)?;
                written += writer.append(&mut cx, handles, columns, &mut late)?;
            }
            return Ok(written);
        }
        let mut rows = RowSet::new(self.columns.len());
        let mut cx = WriteContext::new(env, tx, &locks);
        cx.collect(&self.source, &mut Scratch::default(), &mut rows)?;
        cx.shown = Some((Kind::CreateTableAs, table));
        for start in (0..rows.len()).step_by(BATCH_ROWS) {
            let range = start..rows.len().min(start + BATCH_ROWS);
            let columns = arrays(&rows, range, table)?;
            written += writer.append(&mut cx, handles, columns, &mut late)?;
        }
        Ok(written)
    }
}

/// Some rows of a row set as columns of a table.
fn arrays(rows: &RowSet, range: Range<usize>, table: &Table) -> Result<Vec<ArrayRef>> {
    let column = |(at, column): (usize, &halcyon_catalog::Column)| {
        let mut writer = ArrayWriter::for_storage(column.ty, range.len());
        range.clone().try_for_each(|row| writer.push(rows.value(row, at)))?;
        Ok(writer.finish())
    };
    table.columns.iter().enumerate().map(column).collect()
}
