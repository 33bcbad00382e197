//! Materialized views, the streams that feed them, and the assertions that guard them.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    self, CreateTable, CreateTableOptions, CreateView, Expr, Query, SetExpr, VisitMut, VisitorMut,
};
use halcyon_base::ids::TableId;
use halcyon_base::progress::{self, Kind, Phase};
use halcyon_store::{Partition, ValueRef};
use halcyon_txn::{Mode, PartitionCell};
use halcyon_view::Executor;
use halcyon_views::MaintainedView;

use super::{DdlContext, Done, fold, parts, table, temporary};
use crate::views::{self, Definition, define};
use halcyon_catalog::materialized::{MaterializedView, ViewGuard};
use halcyon_catalog::{
    Catalog, Check, Column, Privilege, Relation, Table, TableKind, undefined_schema,
};
use halcyon_exec::constraints::compile_check;
use halcyon_exec::dml::compound::refuse_writes;
use halcyon_exec::upkeep::violation;
use halcyon_plan::stored_names::qualify;
use halcyon_sql::coerce::Arena;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::syntax::{CreateMaterializedView, ViewCell, ViewExecutor};

const CREATED: &str = "CREATE MATERIALIZED VIEW";

/// Why there is no materialized view of the SQL parser's: it is temporary, or replaces another.
pub(super) fn refused(create: &CreateView) -> SqlError {
    match create.temporary {
        true => SqlError::unsupported("a temporary materialized view")
            .hint("Create an ordinary one, and drop it when it is not needed any more."),
        false => SqlError::unsupported("CREATE OR REPLACE MATERIALIZED VIEW")
            .hint("Drop the view and create it again."),
    }
}

/// CREATE MATERIALIZED VIEW.
pub(super) fn create(cx: &mut DdlContext<'_>, create: &CreateMaterializedView) -> Result<Done> {
    let (schema, name) = cx.place(&parts(&create.name)?)?;
    if let Err(taken) = cx.catalog.refuse_taken(&schema, &name) {
        if !create.if_not_exists {
            return Err(taken);
        }
        cx.notice(taken.state(), format!("{}, skipping", taken.message()));
        return Ok((CREATED, None));
    }
    refuse_writes(&create.query, "materialized views")?;
    let mut query = (*create.query).clone();
    qualify(cx.catalog, cx.search_path(), &mut query);
    temporary::refuse_in_materialized(&query)?;
    let mut definition = define(&cx.binder(), &query, "", cx.env.cancel)?;
    // The slow twins are for comparisons; after a restart every view is compiled.
    definition.executor = executor(create.options.executor);
    let (empty_on_restart, cell) = (create.options.empty_on_restart, create.options.cell);
    definition.cell = views::cell_choice(cell, false);
    let reads = definition.reads();
    check_cell(cx, &reads, cell)?;
    check_streams(cx, &reads, empty_on_restart, &name)?;
    let mut table = table::empty(cx, schema.clone(), name.clone());
    table.columns = columns(&definition, create)?;
    table.refresh_arrow();
    for read in reads.iter().map(|id| cx.catalog.table(*id)) {
        cx.catalog.require_on_table(cx.user(), read, Privilege::Select)?;
        // A view's assertion and its limits can refuse the owner's writes, as a foreign key can.
        cx.catalog.require_on_table(cx.user(), read, Privilege::References)?;
    }
    let rows = no_rows(cx, &table);
    let (maintained, count) = fill(cx, definition, &reads, &table, rows)?;
    table.cells = vec![maintained.rows().clone()];
    let view = MaterializedView {
        query: query.to_string(),
        reads: reads.clone(),
        guards: Vec::new(),
        empty_on_restart,
        cell,
        maintained: Some(maintained),
    };
    table.kind = TableKind::Materialized(Arc::new(view));
    let id = table.id;
    cx.catalog.put(&schema, &name, Relation::Table(Arc::new(table)));
    for read in reads {
        cx.catalog.change_table(read, |table| table.feeds.push(id));
    }
    Ok(("SELECT", Some(count)))
}

fn executor(wished: Option<ViewExecutor>) -> Executor {
    match wished {
        None => Executor::default(),
        Some(ViewExecutor::Compiled) => Executor::Compiled,
        Some(ViewExecutor::Operations) => Executor::Operations,
        Some(ViewExecutor::Interpreted) => Executor::Interpreted,
    }
}

/// 0A000 for a view in a cell that reads anything but streams.
fn check_cell(cx: &DdlContext<'_>, reads: &[TableId], cell: ViewCell) -> Result<()> {
    let other = reads.iter().map(|id| cx.catalog.table(*id)).find(|table| !table.is_stream());
    match other {
        Some(table) if !cell.is_process() => {
            Err(SqlError::unsupported("a materialized view in a cell that reads no stream")
                .detail(format!("\"{}\" is no stream.", table.name))
                .hint("Leave the option place out, or make a stream of what the view reads."))
        }
        _ => Ok(()),
    }
}

/// 0A000 for a view over a stream in a database on disk, unless it may begin anew at each start.
fn check_streams(
    cx: &DdlContext<'_>,
    reads: &[TableId],
    empty_on_restart: bool,
    name: &str,
) -> Result<()> {
    let follows = |id: &TableId| {
        let table = cx.catalog.table(*id);
        table.is_stream() || table.materialized().is_some_and(|view| view.empty_on_restart)
    };
    if !cx.catalog.ids.is_logged() || empty_on_restart || !reads.iter().any(follows) {
        return Ok(());
    }
    Err(SqlError::unsupported("a materialized view over a stream that outlives the process")
        .detail(format!(
            "A stream keeps no events, so nobody could fill \"{name}\" when the database is opened."
        ))
        .hint("Write WITH (on_restart = 'empty') for a view that begins anew at each start."))
}

fn columns(definition: &Definition, create: &CreateMaterializedView) -> Result<Vec<Column>> {
    let found = &definition.columns;
    if create.columns.len() > found.len() {
        return Err(SqlError::new(
            SqlState::INVALID_TABLE_DEFINITION,
            "CREATE MATERIALIZED VIEW specifies more column names than columns",
        ));
    }
    let mut columns: Vec<Column> = Vec::new();
    for (at, (name, ty)) in found.iter().enumerate() {
        let name = create.columns.get(at).map_or_else(|| name.clone(), fold);
        super::columns::is_no_system_column(&name)?;
        if columns.iter().any(|column| column.name == name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{name}\" specified more than once"),
            ));
        }
        let collation = definition.collations.get(at).cloned().flatten();
        columns.push(Column { collation, ..Column::new(name, *ty) });
    }
    Ok(columns)
}

/// A partition for the rows of a view.
pub(super) fn no_rows(cx: &DdlContext<'_>, table: &Table) -> Partition {
    let mut rows = Partition::new(table.store_schema()).latched(cx.catalog.latches);
    for index in &table.indexes {
        rows.add_index(index.def()).expect("an empty partition has no duplicates");
    }
    rows
}

/// Locks what the view reads, so that nobody changes it before the view is known to all, and fills
/// a view from it, whose rows are put into `rows`. Returns the view with the number of its rows.
pub(super) fn fill(
    cx: &mut DdlContext<'_>,
    definition: Definition,
    reads: &[TableId],
    table: &Table,
    rows: Partition,
) -> Result<(Arc<MaintainedView>, u64)> {
    let tables: Vec<Arc<Table>> = reads.iter().map(|id| cx.catalog.table(*id).clone()).collect();
    let mut cells: Vec<_> = tables.iter().flat_map(|table| table.cells.clone()).collect();
    cells.sort_by_key(|cell| cell.id);
    cx.lock_cells(&cells, Mode::Exclusive)?;
    tables.iter().for_each(|table| views::own(table, cx.tx));
    let mut owned = Vec::new();
    for table in &tables {
        for cell in &table.cells {
            let handle = cx.tx.held_exclusively(cell).expect("locked above");
            owned.push((table.id, cx.tx.root(handle)));
        }
    }
    let roots: Vec<_> = owned.iter().map(|(id, root)| (*id, &**root)).collect();
    let work = progress::begin(Kind::CreateMaterializedView, Some(table.shown()));
    let _within = work.enter();
    let (ids, budget) = (&cx.catalog.ids, cx.catalog.budget.clone());
    let mut count = 0;
    let cell = |rows: Partition| {
        count = rows.row_count();
        Arc::new(PartitionCell::derived(ids.partition(), rows))
    };
    let cancel = cx.env.cancel;
    let fill = || definition.fill(table.id, roots, rows, cell, budget, cancel);
    let view = cx.tx.resting(fill)?;
    Ok((view, count))
}

/// Removes a dropped view from the lists of views of the tables that it reads.
pub(super) fn detach(cx: &mut DdlContext<'_>, id: TableId, view: &Arc<MaterializedView>) {
    for read in &view.reads {
        if cx.catalog.tables.contains_key(read) {
            cx.catalog.change_table(*read, |table| table.feeds.retain(|fed| *fed != id));
        }
    }
    let maintained = view.maintained().clone();
    cx.tx.on_commit(move || maintained.close());
}

/// CREATE STREAM, whose syntax is that of CREATE TABLE.
pub(super) fn create_stream(cx: &mut DdlContext<'_>, create: &CreateTable) -> Result<Done> {
    const DONE: Done = ("CREATE STREAM", None);
    if create.query.is_some() || create.like.is_some() {
        return Err(SqlError::unsupported("CREATE STREAM … AS and LIKE").hint("Name the columns."));
    }
    if !matches!(create.table_options, CreateTableOptions::None) {
        return Err(SqlError::unsupported("options of a stream"));
    }
    let place = cx.place(&parts(&create.name)?)?;
    let present = cx.catalog.schemas[&place.0].relations.contains_key(&place.1);
    table::create(cx, create)?;
    if present {
        return Ok(DONE);
    }
    let Relation::Table(made) = cx.catalog.schemas[&place.0].relations[&place.1].clone() else {
        unreachable!("a table was created")
    };
    let generated =
        made.columns.iter().any(|column| column.identity.is_some() || column.generated.is_some());
    if !made.indexes.is_empty() || !made.foreign_keys.is_empty() || generated {
        return Err(SqlError::unsupported(
            "a key, reference, identity or generated column of a stream",
        )
        .hint("A stream keeps no rows to compare with: NOT NULL and CHECK are what it can."));
    }
    cx.catalog.change_table(made.id, |table| {
        table.kind = TableKind::Stream;
        let cells = table.cells.iter();
        let derived = |cell: &Arc<PartitionCell>| {
            Arc::new(PartitionCell::derived(cell.id, Partition::new(table.store_schema())))
        };
        table.cells = cells.map(derived).collect();
    });
    Ok(DONE)
}

/// CREATE ASSERTION name CHECK (NOT EXISTS (query)).
pub(super) fn create_assertion(
    cx: &mut DdlContext<'_>,
    name: &[String],
    query: &Query,
) -> Result<Done> {
    let (schema, name) = cx.place(name)?;
    if find_assertion(cx.catalog, &schema, &name).is_some() {
        return Err(SqlError::new(
            SqlState::DUPLICATE_OBJECT,
            format!("assertion \"{name}\" already exists"),
        ));
    }
    let (view, condition) = guarded(cx, query)?;
    let guard = ViewGuard { schema, name, condition, owner: cx.user().to_owned() };
    let check = Check::new(guard.name.clone(), guard.condition.clone());
    let program = compile_check(&cx.binder(), &view, &check)?;
    let work = progress::begin(Kind::CreateAssertion, Some(view.shown()));
    let _within = work.enter();
    cx.stage_over(&view, Phase::CheckingRows)?;
    let (env, mut arena) = (cx.env, Arena::new());
    cx.see_rows(&view, |values| {
        if program.eval(values, env, &arena)? == ValueRef::Bool(true) {
            return Err(violation(&guard, &view, values));
        }
        arena.reset();
        Ok(ControlFlow::Continue(()))
    })?;
    change_guards(cx.catalog, view.id, |guards| guards.push(guard));
    Ok(("CREATE ASSERTION", None))
}

fn change_guards(catalog: &mut Catalog, view: TableId, change: impl FnOnce(&mut Vec<ViewGuard>)) {
    catalog.change_table(view, |table| {
        let TableKind::Materialized(view) = &mut table.kind else {
            unreachable!("assertions speak of views")
        };
        let mut own = (**view).clone();
        change(&mut own.guards);
        *view = Arc::new(own);
    });
}

fn find_assertion(catalog: &Catalog, schema: &str, name: &str) -> Option<(TableId, ViewGuard)> {
    catalog.tables.values().find_map(|table| {
        let guards = &table.materialized()?.guards;
        let found = guards.iter().find(|guard| guard.schema == schema && guard.name == name)?;
        Some((table.id, found.clone()))
    })
}

/// DROP ASSERTION.
pub(super) fn drop_assertion(
    cx: &mut DdlContext<'_>,
    name: &[String],
    if_exists: bool,
) -> Result<Done> {
    const DONE: Done = ("DROP ASSERTION", None);
    let (last, schemas) = match name {
        [.., schema, last] => (last, vec![schema.clone()]),
        [last] => (last, cx.search_path().to_vec()),
        [] => return Err(SqlError::new(SqlState::INVALID_NAME, "a name is missing")),
    };
    if let ([.., schema, _], false) = (name, if_exists)
        && !cx.catalog.schemas.contains_key(schema)
    {
        return Err(undefined_schema(schema));
    }
    let found = schemas.iter().find_map(|schema| find_assertion(cx.catalog, schema, last));
    let Some((view, guard)) = found else {
        let message = format!("assertion \"{last}\" does not exist");
        if if_exists {
            cx.notice(SqlState::UNDEFINED_OBJECT, format!("{message}, skipping"));
            return Ok(DONE);
        }
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
    };
    cx.catalog.require_owner(cx.user(), &guard.owner, "assertion", &guard.name)?;
    change_guards(cx.catalog, view, |guards| guards.retain(|other| *other != guard));
    Ok(DONE)
}

/// The view that a query of an assertion is about, and the condition that none of its rows may
/// satisfy.
fn guarded(cx: &DdlContext<'_>, query: &Query) -> Result<(Arc<Table>, String)> {
    let refused = || {
        SqlError::unsupported("an assertion about anything but the rows of one materialized view")
            .hint("Create a materialized view of what must not be, and write NOT EXISTS over it.")
    };
    let SetExpr::Select(select) = &*query.body else { return Err(refused()) };
    let plain = query.with.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && select.having.is_none()
        && matches!(&select.group_by, ast::GroupByExpr::Expressions(by, _) if by.is_empty());
    let [from] = select.from.as_slice() else { return Err(refused()) };
    let ast::TableFactor::Table { name, alias, args: None, .. } = &from.relation else {
        return Err(refused());
    };
    let aggregates = select.projection.iter().any(|item| item.to_string().contains('('));
    if !plain || !from.joins.is_empty() || aggregates {
        return Err(refused());
    }
    let name = parts(name)?;
    let found = cx.owned(&name)?;
    let view = match found.relation {
        Relation::Table(table) if table.materialized().is_some() => table.clone(),
        _ => {
            return Err(halcyon_catalog::wrong_kind(found.name, "materialized view").hint(
                "Tables have CHECK constraints; an assertion is about what is derived from them.",
            ));
        }
    };
    let alias = alias.as_ref().map_or_else(|| view.name.clone(), |alias| fold(&alias.name));
    let condition = select.selection.clone().map(|condition| unqualified(condition, &alias));
    Ok((view, condition.map_or_else(|| "true".to_owned(), |condition| condition.to_string())))
}

/// The condition with bare names of columns.
fn unqualified(mut condition: Expr, alias: &str) -> Expr {
    struct Bare<'a>(&'a str);
    impl VisitorMut for Bare<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::CompoundIdentifier(name) = expr
                && let [.., table, column] = name.as_slice()
                && fold(table) == self.0
            {
                *expr = Expr::Identifier(column.clone());
            }
            ControlFlow::Continue(())
        }
    }
    let _ = VisitMut::visit(&mut condition, &mut Bare(alias));
    condition
}
