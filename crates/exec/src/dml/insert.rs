//! INSERT, with ON CONFLICT.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::common::{DFSchema, TableReference};
use datafusion::sql::sqlparser::ast::{
    self, ConflictTarget, Expr, ObjectName, OnConflictAction, OnInsert, SelectItem, SetExpr,
    TableObject,
};
use halcyon_base::ids::{IndexId, RowId};
use halcyon_dialect::target_lists::TARGETS_MAX;
use halcyon_store::{Conflict, KeyBuf, ValueRef};
use halcyon_txn::Mode;

use super::bulk;
use super::effects::{Changed, Effects};
use super::found::{self, Updates};
use super::generated::with_generated;
use super::named::{NamedTarget, Verb, no_arbiter};
use super::query::{self, QuerySource};
use super::returning::{self, Returning, Written};
use super::source::{self, Cell, Convert};
use super::target::{LateRow, Target};
use super::walk::LOOK_ROWS;
use super::{RowValues, Scope, WriteContext, owned};
use crate::point::{Scratch, short};
use crate::scratch::WriteScratch;
use halcyon_catalog::{Column, Index, Privilege, Table};
use halcyon_plan::bind::Binder;
use halcyon_plan::env::{Env, Need};
use halcyon_plan::scalar::Program;
use halcyon_sql::coerce::Arena;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::{fold, parts};
use halcyon_sql::inference::Inference;
use halcyon_sql::rows::{ResultColumn, RowSet, RowSink};
use halcyon_sql::syntax::Overriding;
use halcyon_sql::values::sql_type_of;

/// Rows of VALUES up to which single partitions are locked by their values.
const NARROW_ROWS_MAX: usize = 64;

/// Cells of one row by column; None: the value comes from the source's row.
type Cells = Vec<Option<Cell>>;

/// A bound INSERT.
pub(super) struct Insert {
    effects: Effects,
    source: Option<QuerySource>,
    /// Cells of each row of VALUES; one row of cells for a query.
    rows: Vec<Cells>,
    /// Cells of the columns that no row names.
    defaults: Cells,
    from_query: bool,
    /// Writer of the query's batches, where they need no work per row: (column of the table, column of the query).
    bulk: Option<bulk::Writer>,
    on_conflict: Option<OnConflict>,
    /// The first column of the source's rows that is a value for DO UPDATE alone.
    found_at: usize,
    returning: Option<Returning>,
}

/// ON CONFLICT.
struct OnConflict {
    /// Unique indexes that the clause names; empty means all.
    arbiters: Vec<IndexId>,
    update: Option<DoUpdate>,
}

/// DO UPDATE.
struct DoUpdate {
    columns: Vec<u16>,
    /// The columns, and the generated ones that follow from them.
    written: Vec<u16>,
    cells: Vec<Cell>,
    condition: Option<Program>,
}

/// Binds INSERT.
pub(super) fn bind(
    scope: &mut Scope<'_>,
    insert: &ast::Insert,
) -> Result<(Insert, Arc<[ResultColumn]>)> {
    let binder = scope.binder;
    let named = named_target(scope, insert)?;
    named.require(&binder, Privilege::Insert)?;
    let (table, defaults_of) = (Arc::clone(&named.table), named.with_defaults());
    let columns = TargetColumns::of(&named, &insert.columns)?;
    let updates = match &insert.on {
        Some(OnInsert::OnConflict(ast::OnConflict {
            action: OnConflictAction::DoUpdate(update),
            ..
        })) => Some(Updates::of(&named, update)?),
        _ => None,
    };
    let sought = updates.as_ref().map_or(&[][..], |updates| &updates.sought);
    let mut from_query = false;
    let (mut source, mut rows, mut found) = (None, Vec::new(), Vec::new());
    match insert.source.as_deref() {
        None => {
            rows.push(no_cells(&table));
            if !sought.is_empty() {
                let (computed, fields) = bind_computed(scope, sought.to_vec(), sought.len())?;
                source = Some(computed);
                found = fields;
            }
        }
        Some(query) => match plain_values(query) {
            Some(values) => {
                (source, rows, found) =
                    bind_values(scope, &table, &columns, values, insert, sought)?;
            }
            None => {
                if !sought.is_empty() {
                    return Err(SqlError::unsupported(
                        "a subquery in ON CONFLICT DO UPDATE behind the rows of a query",
                    ));
                }
                let (bound, cells) = bind_query(scope, &table, &columns, query, insert)?;
                (source, rows) = (Some(bound), vec![cells]);
                from_query = true;
            }
        },
    }
    let mut defaults = Vec::new();
    for column in 0..table.columns.len() as u16 {
        let missing = rows.iter().any(|row| row[column as usize].is_none());
        defaults.push(match missing {
            true => Some(source::default(&binder, &defaults_of, column)?),
            false => None,
        });
    }
    let mut target = Target::bind(scope, &table, None)?;
    target.view_checks = named.checks(&binder)?;
    let alias = match &insert.table_alias {
        Some(alias) => fold(&alias.alias),
        None => named.name().to_owned(),
    };
    let on_conflict = match &insert.on {
        None => None,
        Some(OnInsert::OnConflict(on)) => {
            Some(bind_conflict(scope, &named, &alias, on, updates, &found)?)
        }
        Some(other) => return Err(SqlError::unsupported(other.to_string().trim())),
    };
    let updated = match &on_conflict {
        Some(OnConflict { update: Some(update), .. }) => update.written.clone(),
        _ => Vec::new(),
    };
    let returned = insert.returning.as_deref();
    let (returning, result) = returning::bind(scope, &named, &alias, &[], returned)?;
    let plain = on_conflict.is_none() && returning.is_none();
    let bulk = match &source {
        Some(QuerySource::Analytical(_))
            if from_query && plain && !target.has_references() && target.view_checks.is_empty() =>
        {
            bulk::Writer::for_cells(&binder, &table, &rows[0])?
        }
        _ => None,
    };
    let effects = Effects::bind(scope, target, false, &updated)?;
    let found_at = source.as_ref().map_or(0, source_width) - found.len();
    let insert = Insert {
        effects,
        source,
        rows,
        defaults,
        from_query,
        bulk,
        on_conflict,
        found_at,
        returning,
    };
    Ok((insert, result))
}

fn named_target(scope: &Scope<'_>, insert: &ast::Insert) -> Result<NamedTarget> {
    let TableObject::TableName(name) = &insert.table else {
        return Err(SqlError::unsupported("INSERT into anything but a table"));
    };
    if insert.replace_into || insert.or.is_some() || insert.ignore {
        return Err(SqlError::unsupported("INSERT OR … and REPLACE").hint("Use ON CONFLICT."));
    }
    NamedTarget::find(&scope.binder, name, Verb::Insert)
}

fn no_cells(table: &Table) -> Cells {
    (0..table.columns.len()).map(|_| None).collect()
}

/// The columns that values go to.
struct TargetColumns {
    /// Positions of the columns in the table.
    numbers: Vec<u16>,
    /// How many columns there are to give values to.
    width: usize,
    /// The error of a value for the first column behind these, which cannot have one.
    read_only: Option<SqlError>,
    named: bool,
}

impl TargetColumns {
    /// The columns that the statement names; all if it names none. Errors: 42703, 42701, 0A000.
    fn of(target: &NamedTarget, names: &[ObjectName]) -> Result<Self> {
        if !names.is_empty() {
            let numbers = named_columns(names, |name| target.require_column(name))?;
            if let Some(at) = repeated(&numbers) {
                return Err(super::assigned_twice(&target.table, numbers[at]));
            }
            return Ok(TargetColumns { width: names.len(), numbers, read_only: None, named: true });
        }
        let (mut numbers, mut read_only) = target.all_columns();
        if let Some(at) = repeated(&numbers) {
            read_only = Some(super::assigned_twice(&target.table, numbers[at]));
            numbers.truncate(at);
        }
        Ok(TargetColumns { numbers, width: target.width(), read_only, named: false })
    }

    /// Errors: 42601 for another number of values than there are columns, 0A000 for a value of a read-only one.
    fn refuse_arity(&self, given: usize) -> Result<()> {
        refuse_arity(given, self.width, self.named)?;
        match &self.read_only {
            Some(error) if given > self.numbers.len() => Err(error.clone()),
            _ => Ok(()),
        }
    }
}

/// Where a column stands again: two columns of a view may show the same one.
fn repeated(numbers: &[u16]) -> Option<usize> {
    (1..numbers.len()).find(|at| numbers[..*at].contains(&numbers[*at]))
}

/// Positions of the columns that the statement names; all if it names none.
pub(crate) fn target_columns(table: &Table, names: &[ObjectName]) -> Result<Vec<u16>> {
    if names.is_empty() {
        return Ok((0..table.columns.len() as u16).collect());
    }
    named_columns(names, |name| table.require_column(name))
}

/// Errors: 42701, those of finding a column.
fn named_columns(
    names: &[ObjectName],
    mut find: impl FnMut(&str) -> Result<u16>,
) -> Result<Vec<u16>> {
    let (mut columns, mut seen) = (Vec::new(), HashSet::new());
    for name in names {
        let name = parts(name)?.pop().unwrap_or_default();
        let column = find(&name)?;
        if !seen.insert(name.clone()) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{name}\" specified more than once"),
            ));
        }
        columns.push(column);
    }
    Ok(columns)
}

/// The rows of a query that is nothing but VALUES.
fn plain_values(query: &ast::Query) -> Option<&[ast::Parens<Vec<Expr>>]> {
    let bare = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none();
    match &*query.body {
        SetExpr::Values(values) if bare => Some(&values.rows),
        _ => None,
    }
}

/// The rows of VALUES; what a query computes for them, and behind that the values of `sought` with their types.
fn bind_values(
    scope: &mut Scope<'_>,
    table: &Table,
    columns: &TargetColumns,
    values: &[ast::Parens<Vec<Expr>>],
    insert: &ast::Insert,
    sought: &[Expr],
) -> Result<(Option<QuerySource>, Vec<Cells>, Vec<FieldRef>)> {
    let overriding = Overriding::of(insert);
    let mut computed: Vec<Expr> = Vec::new();
    let mut places: Vec<(usize, u16)> = Vec::new();
    let mut rows = Vec::with_capacity(values.len());
    for (number, row) in values.iter().enumerate() {
        let row = &row.content;
        columns.refuse_arity(row.len())?;
        let mut cells = no_cells(table);
        for (expr, column) in row.iter().zip(&columns.numbers) {
            refuse_generated(table, *column, expr, overriding)?;
            let passed_over = is_passed_over(table, *column, overriding);
            match source::simple(scope, expr, table, *column)? {
                Some(_) if passed_over || source::is_default(expr) => {}
                Some(cell) => cells[*column as usize] = Some(cell),
                None if passed_over => {}
                None => {
                    computed.push(expr.clone());
                    places.push((number, *column));
                }
            }
        }
        rows.push(cells);
    }
    if computed.len() + sought.len() > TARGETS_MAX {
        evaluate_each(scope, table, &mut computed, &mut places, &mut rows)?;
    }
    computed.extend(sought.iter().cloned());
    if computed.is_empty() {
        return Ok((None, rows, Vec::new()));
    }
    let (source, mut fields) = bind_computed(scope, computed, sought.len())?;
    let found = fields.split_off(places.len());
    for (at, ((row, column), field)) in places.into_iter().zip(&fields).enumerate() {
        let definition = &table.columns[column as usize];
        let null = field.data_type().is_null();
        let ty = sql_type_of(field);
        let cell = source::from_column(at, ty, null, definition.ty, &definition.name)?;
        rows[row][column as usize] = Some(cell);
    }
    Ok((Some(source), rows, found))
}

/// Makes cells that are evaluated by themselves of computed values, which are too many for the query of one row; those
/// with subqueries, and calls that nothing but a query knows, stay.
fn evaluate_each(
    scope: &mut Scope<'_>,
    table: &Table,
    computed: &mut Vec<Expr>,
    places: &mut Vec<(usize, u16)>,
    rows: &mut [Cells],
) -> Result<()> {
    let schema = DFSchema::empty();
    let (exprs, at) = (std::mem::take(computed), std::mem::take(places));
    // Each value sees its own parameters alone: all of them for each would be the square of their number.
    let mut own = vec![None; scope.params.len()];
    for (expr, (row, column)) in exprs.into_iter().zip(at) {
        let definition = &table.columns[usize::from(column)];
        let numbers = super::parameters(&expr);
        numbers.iter().for_each(|number| own[*number] = scope.params[*number]);
        let bound = scope.binder.expr_with(&expr, &schema, &own).ok();
        numbers.iter().for_each(|number| own[*number] = None);
        let cell = bound.as_ref().and_then(|bound| {
            source::program(bound, &schema, definition.ty, &definition.name).ok()
        });
        match (bound, cell) {
            (Some(bound), Some(cell)) => {
                scope.learn_from(&bound);
                rows[row][usize::from(column)] = Some(cell);
            }
            _ => {
                computed.push(expr);
                places.push((row, column));
            }
        }
    }
    Ok(())
}

/// A query of one row with these values, and their types; the last `sought` are subqueries of DO UPDATE.
fn bind_computed(
    scope: &mut Scope<'_>,
    computed: Vec<Expr>,
    sought: usize,
) -> Result<(QuerySource, Vec<FieldRef>)> {
    let query = super::select(computed.into_iter().map(SelectItem::UnnamedExpr).collect());
    let bound = query::bind(scope, query, None);
    let (source, _, plan) = match sought {
        0 => bound?,
        _ => bound.map_err(found::explained)?,
    };
    Ok((source, plan.schema().fields().iter().cloned().collect()))
}

pub(super) fn refuse_arity(given: usize, wanted: usize, named: bool) -> Result<()> {
    let wrong = |what: &str| Err(SqlError::new(SqlState::SYNTAX_ERROR, what));
    match given.cmp(&wanted) {
        std::cmp::Ordering::Greater => wrong("INSERT has more expressions than target columns"),
        std::cmp::Ordering::Less if named => {
            wrong("INSERT has more target columns than expressions")
        }
        _ => Ok(()),
    }
}

/// Whether the values given for a column are passed over, because its sequence fills the column.
fn is_passed_over(table: &Table, column: u16, overriding: Overriding) -> bool {
    overriding == Overriding::User && table.columns[column as usize].identity.is_some()
}

/// 428C9: a value for a column that only its sequence, or its expression, may fill.
fn refuse_generated(table: &Table, column: u16, expr: &Expr, overriding: Overriding) -> Result<()> {
    if source::is_default(expr) {
        return Ok(());
    }
    refuse_generated_column(table, column, overriding)
}

fn refuse_generated_column(table: &Table, column: u16, overriding: Overriding) -> Result<()> {
    let definition = &table.columns[column as usize];
    if definition.generated.is_some() {
        let name = &definition.name;
        return Err(SqlError::new(
            SqlState::GENERATED_ALWAYS,
            format!("cannot insert a non-DEFAULT value into column \"{name}\""),
        )
        .detail(format!("Column \"{name}\" is a generated column.")));
    }
    if overriding != Overriding::Nothing {
        return Ok(());
    }
    if !definition.identity.as_ref().is_some_and(|identity| identity.always) {
        return Ok(());
    }
    let name = &definition.name;
    Err(SqlError::new(
        SqlState::GENERATED_ALWAYS,
        format!("cannot insert a non-DEFAULT value into column \"{name}\""),
    )
    .detail(format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS."))
    .hint("Use OVERRIDING SYSTEM VALUE to override."))
}

fn bind_query(
    scope: &mut Scope<'_>,
    table: &Table,
    columns: &TargetColumns,
    query: &ast::Query,
    insert: &ast::Insert,
) -> Result<(QuerySource, Cells)> {
    let query = with_literals(scope, table, &columns.numbers, query)?;
    let (source, found, plan) = query::bind(scope, query, None)?;
    columns.refuse_arity(found.len())?;
    let mut cells = no_cells(table);
    for (at, column) in columns.numbers.iter().take(found.len()).enumerate() {
        let overriding = Overriding::of(insert);
        refuse_generated_column(table, *column, overriding)?;
        if is_passed_over(table, *column, overriding) {
            continue;
        }
        let definition = &table.columns[*column as usize];
        let null = plan.schema().field(at).data_type().is_null();
        let cell = source::from_column(at, found[at].ty, null, definition.ty, &definition.name)?;
        cells[*column as usize] = Some(cell);
    }
    Ok((source, cells))
}

/// Quoted literals of the outermost select list take their column's type, as in PostgreSQL.
fn with_literals(
    scope: &mut Scope<'_>,
    table: &Table,
    columns: &[u16],
    query: &ast::Query,
) -> Result<ast::Query> {
    let mut query = query.clone();
    if let SetExpr::Select(select) = query.body.as_mut() {
        let plain = select.projection.iter().all(|item| {
            matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
        });
        if plain {
            for (item, column) in select.projection.iter_mut().zip(columns) {
                let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item
                else {
                    continue;
                };
                let ty = table.columns[*column as usize].ty;
                if let Some(name) = super::placeholder(expr).map(str::to_owned) {
                    scope.param(&name, ty)?;
                } else if is_quoted(expr) {
                    *expr = super::cast_to(expr.clone(), ty)?;
                }
            }
        }
    }
    Ok(query)
}

/// 55000.
fn deferrable_arbiter() -> SqlError {
    SqlError::new(
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        "ON CONFLICT does not support deferrable unique constraints/exclusion constraints as \
         arbiters",
    )
}

fn is_quoted(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, ast::Value::SingleQuotedString(_)))
}

fn bind_conflict(
    scope: &mut Scope<'_>,
    target: &NamedTarget,
    alias: &str,
    on: &ast::OnConflict,
    updates: Option<Updates<'_>>,
    found: &[FieldRef],
) -> Result<OnConflict> {
    let binder = scope.binder;
    let table = &target.table;
    if on.conflict_target.is_some() {
        // A statement that names a key tells whether a row has it, and DO UPDATE reads the row.
        target.require(&binder, Privilege::Select)?;
    }
    let arbiters = match &on.conflict_target {
        None => Vec::new(),
        Some(ConflictTarget::Columns(names)) => inferred(&binder, target, Inference::of(names)?)?,
        Some(ConflictTarget::OnConstraint(name)) => {
            let name = parts(name)?.pop().unwrap_or_default();
            // A view has no constraints, whatever the table behind it has.
            let mut own = table.indexes.iter().filter(|_| !target.is_view());
            let found = own.find(|i| i.name == name && i.constraint.is_some());
            let index = found.ok_or_else(|| {
                let of = target.name();
                let message = format!("constraint \"{name}\" for table \"{of}\" does not exist");
                SqlError::new(SqlState::UNDEFINED_OBJECT, message)
            })?;
            if !index.unique {
                return Err(deferrable_arbiter());
            }
            vec![index.id]
        }
    };
    if arbiters.is_empty() && table.indexes.iter().any(|index| index.deferral.is_some()) {
        return Err(deferrable_arbiter());
    }
    let update = match updates {
        None => None,
        Some(updates) => {
            if arbiters.is_empty() {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    "ON CONFLICT DO UPDATE requires inference specification or constraint name",
                )
                .hint("For example, ON CONFLICT (column_name)."));
            }
            Some(bind_do_update(scope, target, alias, &updates, found)?)
        }
    };
    Ok(OnConflict { arbiters, update })
}

/// The unique indexes that a conflict target describes.
///
/// Errors: 42P10 if there is none; 55000 if there is, and its constraint is DEFERRABLE; those of
/// expressions.
fn inferred(
    binder: &Binder<'_>,
    target: &NamedTarget,
    mut inference: Inference,
) -> Result<Vec<IndexId>> {
    for expr in inference.keys.iter_mut().chain(&mut inference.predicate) {
        *expr = target.over_table(expr)?;
    }
    let table = &target.table;
    let mut columns = Vec::new();
    for key in &inference.keys {
        if let Expr::Identifier(name) = key {
            columns.push(table.require_column(&fold(name))?);
        }
    }
    let are_columns = columns.len() == inference.keys.len();
    let covers = |index: &Index| are_columns && index.covers_exactly(&columns);
    let mut found: Vec<IndexId> =
        table.indexes.iter().filter(|i| i.unique && covers(i)).map(|index| index.id).collect();
    if table.indexes.iter().any(|index| index.unique && index.derived.is_some()) {
        found.extend(halcyon_derived::inferred(
            binder,
            table,
            &inference.keys,
            inference.predicate.as_ref(),
        )?);
    }
    if !found.is_empty() {
        return Ok(found);
    }
    if table.indexes.iter().any(|index| index.deferral.is_some() && covers(index)) {
        return Err(deferrable_arbiter());
    }
    Err(no_arbiter())
}

/// The cell of a column that DO UPDATE sets to a value which needs no planner; `None`: it needs one.
///
/// Errors: 42804.
fn short_cell(table: &Arc<Table>, alias: &str, expr: &Expr, column: u16) -> Result<Option<Cell>> {
    let Some((ir, from)) = short::value_of_rows(table, alias, expr) else { return Ok(None) };
    let definition = &table.columns[usize::from(column)];
    let convert = Convert::new(from, definition.ty, &definition.name)?;
    Ok(Some(Cell::Program(Box::new(Program::from_ir(&ir)), convert)))
}

/// Whether the long way finds a cell; also if the statement is to end.
fn is_cell(
    binder: &Binder<'_>,
    expr: &Expr,
    schema: &DFSchema,
    definition: &Column,
    cell: &Cell,
) -> bool {
    let bound = binder.expr(expr, schema);
    let found =
        bound.and_then(|bound| source::program(&bound, schema, definition.ty, &definition.name));
    match (found, cell) {
        (Ok(Cell::Program(long, from)), Cell::Program(short, convert)) => {
            (long.to_string(), from) == (short.to_string(), *convert)
        }
        (Ok(_), _) => false,
        (Err(_), _) => SqlError::unless_interrupted().is_err(),
    }
}

fn bind_do_update(
    scope: &mut Scope<'_>,
    target: &NamedTarget,
    alias: &str,
    updates: &Updates<'_>,
    found: &[FieldRef],
) -> Result<DoUpdate> {
    let binder = scope.binder;
    target.require(&binder, Privilege::Update)?;
    let table = &target.table;
    let shown = target.shown(&binder)?;
    let schema = || {
        if let Some(shown) = &shown {
            let found: Vec<_> = Updates::columns(found);
            return shown.schema_of_conflict(table, alias, &found);
        }
        let excluded = table.arrow.fields().iter();
        let excluded = excluded.map(|field| (TableReference::bare("excluded"), field.clone()));
        let others: Vec<_> = excluded.chain(Updates::columns(found)).collect();
        returning::row_schema(table, alias, &others)
    };
    // A bare name means the table's column, although both have it.
    let own = |expr: &Expr| super::qualify(expr, target, alias);
    let over_row = |bound, schema: &DFSchema| match &shown {
        Some(shown) => shown.over_row(bound, schema),
        None => Ok(bound),
    };
    let (mut columns, mut cells) = (Vec::new(), Vec::new());
    for (column, expr) in &updates.assignments {
        let column = *column;
        super::update::refuse_generated(table, column, expr)?;
        if columns.contains(&column) {
            return Err(super::assigned_twice(table, column));
        }
        let definition = &table.columns[column as usize];
        let short = |expr: &Expr| match &shown {
            Some(_) => Ok(None),
            None => short_cell(table, alias, expr, column),
        };
        let cell = match source::simple(scope, expr, table, column)? {
            Some(cell) => cell,
            None => match short(expr)? {
                Some(cell) => {
                    debug_assert!(is_cell(&binder, &own(expr), &schema()?, definition, &cell));
                    cell
                }
                None => {
                    let schema = schema()?;
                    let bound = binder.expr_with(&own(expr), &schema, &scope.params)?;
                    scope.learn_from(&bound);
                    let bound = over_row(bound, &schema)?;
                    source::program(&bound, &schema, definition.ty, &definition.name)?
                }
            },
        };
        columns.push(column);
        cells.push(cell);
    }
    let condition = match &updates.selection {
        None => None,
        Some(expr) => {
            let schema = schema()?;
            let bound = binder.expr_with(&own(expr), &schema, &scope.params)?;
            scope.learn_from(&bound);
            Some(Program::compile(&over_row(bound, &schema)?, &schema)?)
        }
    };
    let written = with_generated(table, &columns);
    Ok(DoUpdate { columns, written, cells, condition })
}

/// State of a running INSERT: rows counted, rows already touched, rows to be returned.
struct Progress<'s, 'v> {
    written: u64,
    changed: Vec<Changed>,
    late: Vec<LateRow>,
    /// Rows that DO UPDATE must not meet again.
    touched: Option<HashSet<(u32, RowId)>>,
    /// The values of subqueries for DO UPDATE.
    found: RowValues<'v>,
    returning: Option<&'s mut dyn RowSink>,
}

impl Insert {
    /// Position of the table that the statement names.
    pub fn target(&self) -> usize {
        self.effects.target().at
    }

    /// The query that finds its rows, if there is one.
    pub fn source(&self) -> Option<&QuerySource> {
        self.source.as_ref()
    }

    /// Partitions of the target, and what the source reads.
    pub fn needs(&self, env: &Env<'_>, needs: &mut Vec<Need>) -> Result<()> {
        if let Some(source) = &self.source {
            source.needs(env, needs)?;
        }
        let target = self.effects.target();
        let whole = Need { table: target.at, partition: None, mode: Mode::Exclusive };
        let Some(column) = target.table.partition_column() else {
            needs.push(Need { partition: Some(0), ..whole });
            return Ok(());
        };
        let arena = Arena::new();
        let ty = target.table.columns[column as usize].ty;
        let moves = match &self.on_conflict {
            Some(OnConflict { update: Some(update), .. }) => update.columns.contains(&column),
            _ => false,
        };
        if self.from_query || moves || self.rows.len() > NARROW_ROWS_MAX {
            needs.push(whole);
            return Ok(());
        }
        for row in &self.rows {
            let cell = self.cell(row, column as usize);
            let value = cell.is_known_before().then(|| cell.before(env, ty, &arena)).flatten();
            match value {
                Some(value) => {
                    let partition = Some(target.table.partition_of(value));
                    needs.push(Need { partition, ..whole });
                }
                None => {
                    needs.push(whole);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn cell<'c>(&'c self, row: &'c [Option<Cell>], column: usize) -> &'c Cell {
        row[column]
            .as_ref()
            .or(self.defaults[column].as_ref())
            .expect("a column without a cell has a default")
    }

    /// Runs it.
    pub fn run(
        &self,
        cx: &mut WriteContext<'_>,
        scratch: &mut Scratch,
        own: &mut WriteScratch,
        returning: Option<&mut dyn RowSink>,
    ) -> Result<u64> {
        if let (Some(writer), Some(source)) = (&self.bulk, &self.source) {
            return self.run_bulk(cx, writer, source);
        }
        own.rows.reset(0);
        if let Some(source) = &self.source {
            own.rows.reset(source_width(source));
            cx.collect(source, scratch, &mut own.rows)?;
        }
        let count = if self.from_query { own.rows.len() } else { self.rows.len() };
        let may_update = matches!(&self.on_conflict, Some(OnConflict { update: Some(_), .. }));
        let WriteScratch { rows, key, arena } = own;
        let found = match &self.source {
            Some(source) if !self.from_query && !rows.is_empty() => {
                (self.found_at..source_width(source)).map(|column| rows.value(0, column)).collect()
            }
            _ => RowValues::new(),
        };
        let mut progress = Progress {
            found,
            written: 0,
            changed: Vec::new(),
            late: Vec::new(),
            touched: (may_update && count > 1).then(HashSet::new),
            returning,
        };
        for number in 0..count {
            let (cells, at) = match self.from_query {
                true => (&self.rows[0], number),
                false => (&self.rows[number], 0),
            };
            self.run_row(cx, cells, rows, at, key, arena, &mut progress)?;
            if number % 256 == 255 {
                arena.reset();
                cx.lasts(256, Some(count));
            }
            if number % LOOK_ROWS == LOOK_ROWS - 1 {
                cx.takes_turns();
            }
            // Rows may be large: a statement that is refused memory ends at once.
            if cx.env.cancel.is_cancelled() {
                return Err(super::cancelled());
            }
        }
        if !progress.changed.is_empty() || !progress.late.is_empty() {
            self.effects.settle(cx, progress.changed, progress.late, key, arena)?;
        }
        Ok(progress.written)
    }

    #[allow(clippy::too_many_arguments)]
    #[inline]
    fn run_row(
        &self,
        cx: &mut WriteContext<'_>,
        cells: &[Option<Cell>],
        source: &RowSet,
        at: usize,
        key: &mut KeyBuf,
        arena: &Arena,
        progress: &mut Progress<'_, '_>,
    ) -> Result<()> {
        let target = self.effects.target();
        let env = cx.env;
        let mut row = RowValues::new();
        for (column, definition) in target.table.columns.iter().enumerate() {
            let value = self.cell(cells, column).value(
                env,
                cx.zone_cell(),
                |column| source.value(at, column),
                &[],
                definition.ty,
                arena,
            )?;
            row.push(value);
        }
        target.complete(&mut row, env, arena)?;
        target.verify(&row, env, arena)?;
        let (partition, inserted) = target.insert(cx, &row);
        match inserted {
            Ok(place) => {
                target.verify_shown(&row, env, arena)?;
                if target.has_references() && target.verify_references(cx, &row, key, false)? {
                    progress.late.push(LateRow { node: 0, partition, row: place });
                }
                if let Some(touched) = &mut progress.touched {
                    touched.insert((partition, place));
                }
                progress.written += 1;
                let written = Written { place: (partition, place), ended_by: None };
                self.emit(env, &row, written, arena, progress)
            }
            Err(conflict) => self.on_conflict(cx, &row, partition, conflict, key, arena, progress),
        }
    }

    fn emit(
        &self,
        env: &Env<'_>,
        row: &[ValueRef<'_>],
        written: Written,
        arena: &Arena,
        progress: &mut Progress<'_, '_>,
    ) -> Result<()> {
        match (&self.returning, &mut progress.returning) {
            (Some(returning), Some(sink)) => returning.emit(row, written, env, arena, *sink),
            _ => Ok(()),
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn on_conflict(
        &self,
        cx: &mut WriteContext<'_>,
        row: &[ValueRef<'_>],
        partition: u32,
        conflict: Conflict,
        key: &mut KeyBuf,
        arena: &Arena,
        progress: &mut Progress<'_, '_>,
    ) -> Result<()> {
        let target = self.effects.target();
        let Some(on) = &self.on_conflict else { return Err(target.conflict(conflict, row)) };
        let met = match on.arbiters.is_empty() || on.arbiters.contains(&conflict.index) {
            true => conflict.row,
            false => arbiter_row(cx, target, &on.arbiters, partition, row, key)
                .ok_or_else(|| target.conflict(conflict, row))?,
        };
        let Some(update) = &on.update else { return Ok(()) };
        let place = (partition, met);
        let is_touched = progress.touched.as_ref().is_some_and(|touched| touched.contains(&place));
        if is_touched || cx.is_touched(place) {
            return Err(SqlError::new(
                SqlState::CARDINALITY_VIOLATION,
                "ON CONFLICT DO UPDATE command cannot affect row a second time",
            )
            .hint(
                "Ensure that no rows proposed for insertion within the same command have \
                 duplicate constrained values.",
            ));
        }
        self.do_update(cx, update, row, partition, met, key, arena, progress)
    }

    #[allow(clippy::too_many_arguments)]
    fn do_update(
        &self,
        cx: &mut WriteContext<'_>,
        update: &DoUpdate,
        excluded: &[ValueRef<'_>],
        partition: u32,
        met: RowId,
        key: &mut KeyBuf,
        arena: &Arena,
        progress: &mut Progress<'_, '_>,
    ) -> Result<()> {
        let target = self.effects.target();
        let handle = cx.lock(target.at, partition);
        let present = cx.tx.read(handle).row(met).expect("a conflict names a row that is there");
        let before: Vec<_> = present.values().map(|value| value.to_owned()).collect();
        let both: RowValues<'_> = before
            .iter()
            .map(|value| value.as_ref())
            .chain(excluded.iter().copied())
            .chain(progress.found.iter().copied())
            .collect();
        let env = cx.env;
        if let Some(condition) = &update.condition
            && !condition.passes(&both, env, arena)?
        {
            return Ok(());
        }
        let mut row: RowValues<'_> = both[..before.len()].iter().copied().collect();
        for (cell, column) in update.cells.iter().zip(&update.columns) {
            let ty = target.table.columns[*column as usize].ty;
            let none = |_| unreachable!("DO UPDATE has no source row");
            row[*column as usize] = cell.value(env, cx.zone_cell(), none, &both, ty, arena)?;
        }
        target.complete(&mut row, env, arena)?;
        target.verify(&row, env, arena)?;
        let place = super::update::store(cx, target, (partition, met), &update.written, &row)?;
        target.verify_shown(&row, env, arena)?;
        if target.has_references() && target.verify_references(cx, &row, key, false)? {
            progress.late.push(LateRow { node: 0, partition: place.0, row: place.1 });
        }
        if self.effects.has_incoming() {
            let after = Some(owned(&row));
            progress.changed.push(Changed { node: 0, before: before.clone(), after });
        }
        if let Some(touched) = &mut progress.touched {
            touched.insert(place);
        }
        progress.written += 1;
        let written = Written { place, ended_by: Some(cx.tx.id()) };
        self.emit(env, &row, written, arena, progress)
    }

    /// The query's batches go into the partitions as they are.
    fn run_bulk(
        &self,
        cx: &mut WriteContext<'_>,
        writer: &bulk::Writer,
        source: &QuerySource,
    ) -> Result<u64> {
        let target = self.effects.target();
        let handles: Vec<_> = (0..target.table.cells.len() as u32)
            .map(|partition| cx.lock(target.at, partition))
            .collect();
        let (mut written, mut late) = (0, bulk::Late::new());
        let zone = cx.zone();
        let mut batches = source.stream(cx.env, cx.roots())?;
        loop {
            // The query needs the processor that was lent to who waits for its rows.
            cx.waits_for_rows();
            let Some(batch) = cx.tx.resting(|| batches.next()) else { break };
            let batch = writer.arrange(&batch?, cx.env, zone)?;
            written += writer.append(cx, &handles, batch, &mut late)?;
        }
        Ok(written)
    }

    /// For EXPLAIN.
    pub fn explain(&self) -> Vec<String> {
        let table = &self.effects.target().table;
        let how = match (&self.bulk, self.from_query) {
            (Some(_), _) => "batches of a query".to_owned(),
            (None, true) => "rows of a query".to_owned(),
            (None, false) => format!("{} rows of values", self.rows.len()),
        };
        let mut lines = vec![format!("Insert on {} ({how})", table.name)];
        if let Some(on) = &self.on_conflict {
            let action = if on.update.is_some() { "update" } else { "nothing" };
            lines.push(format!("  on conflict: {action}"));
        }
        if let Some(source) = &self.source {
            lines.extend(source.explain());
        }
        lines
    }
}

/// The number of columns of a source's rows.
fn source_width(source: &QuerySource) -> usize {
    match source {
        QuerySource::Point(plan) => plan.width(),
        QuerySource::Analytical(plan) => plan.schema().fields().len(),
    }
}

/// The row that stands in the way of `row` in one of the arbiters.
fn arbiter_row(
    cx: &WriteContext<'_>,
    target: &Target,
    arbiters: &[IndexId],
    partition: u32,
    row: &[ValueRef<'_>],
    key: &mut KeyBuf,
) -> Option<RowId> {
    let root = cx.tx.read(cx.lock(target.at, partition));
    arbiters.iter().find_map(|id| {
        let index = root.index(*id).expect("every partition has the index");
        let is_there =
            index.encode_row(row, key) && !(index.def().nulls_distinct && key.has_null());
        is_there.then(|| index.get(key)).flatten()
    })
}
