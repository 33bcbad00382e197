//! Definitions of views: from a query to a program, its inputs and its columns.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast;
use halcyon_base::ids::TableId;
use halcyon_delta::{Certificate, Facts, Unsupported};
use halcyon_store::Partition;
use halcyon_txn::{CancelToken, PartitionCell};
use halcyon_view::Executor;
use halcyon_view::program::Program;
use halcyon_views::{
    CellChoice, CellPlace, MaintainedView, ViewBudget, ViewColumn, ViewError, ViewInput,
    ViewProgram,
};

use halcyon_catalog::{Catalog, Check, Column, Index, Relation, Table};
use halcyon_collations::Collation;
use halcyon_exec::view_errors::view_error;
use halcyon_plan::bind::{Binder, result_columns};
use halcyon_sql::diagnose::sql_error;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;
use halcyon_sql::parse::{parse_expr, parse_query};
use halcyon_sql::syntax::{ViewCell, ViewPlace};
use halcyon_sql::types::SqlType;

/// A compiled view.
pub(crate) struct Definition {
    /// Names and types of its columns.
    pub columns: Vec<(String, SqlType)>,
    /// The trigger program.
    pub program: Program,
    /// What an event costs, and why.
    pub certificate: Certificate,
    /// What runs it.
    pub executor: Executor,
    /// The cell that runs it instead.
    pub cell: Option<CellChoice>,
    /// Collations of its columns.
    pub collations: Vec<Option<Collation>>,
    inputs: Vec<ViewInput>,
    outputs: Vec<ViewColumn>,
}

/// Compiles the query of a view.
///
/// Errors: those of binding; 0A000 naming the construct for what is outside the class of queries
/// that can be maintained; 57014 once `cancel` is cancelled.
pub(crate) fn define(
    binder: &Binder<'_>,
    query: &ast::Query,
    text: &str,
    cancel: &CancelToken,
) -> Result<Definition> {
    let settled = binder.view_query(query, text)?;
    let collations = settled.columns.iter().map(|own| own.as_deref().cloned()).collect();
    Ok(Definition { collations, ..of_plan(binder.catalog, &settled.plan, cancel)? })
}

/// Compiles the stored query of a view with `width` columns: a query with `*` gives more once a table that it reads has
/// another column, and the view has those that it had. Errors: those of [`define`].
pub(crate) fn define_stored(
    binder: &Binder<'_>,
    text: &str,
    width: usize,
    cancel: &CancelToken,
) -> Result<Definition> {
    let settled = binder.view_query(&parse_query(text)?, "")?;
    let collations =
        settled.columns.iter().map(|own| own.as_deref().cloned()).take(width).collect();
    let columns = settled.plan.schema().columns();
    let plan = match columns.len() > width {
        false => settled.plan,
        true => {
            let first = columns.into_iter().take(width).map(Expr::Column);
            let cut = LogicalPlanBuilder::from(settled.plan).project(first);
            cut.and_then(LogicalPlanBuilder::build).map_err(|error| sql_error(error, ""))?
        }
    };
    Ok(Definition { collations, ..of_plan(binder.catalog, &plan, cancel)? })
}

fn of_plan(catalog: &Arc<Catalog>, plan: &LogicalPlan, cancel: &CancelToken) -> Result<Definition> {
    let columns = result_columns(plan);
    let compiled =
        halcyon_delta::compile(plan, &CatalogFacts { catalog, cancel }).map_err(|error| {
            match cancel.is_cancelled() {
                true => view_error(ViewError::Cancelled),
                false => unsupported(&error),
            }
        })?;
    let named = columns.iter().map(|column| {
        let ty = column.ty.ok_or_else(|| {
            SqlError::unsupported(format!("a view's column of type {}", column.field.data_type()))
        })?;
        Ok((column.name.clone(), ty))
    });
    let columns = named.collect::<Result<Vec<_>>>()?;
    let program = compiled.program;
    let row = &program.relations[usize::from(program.output.0)].columns;
    let mut word = 0;
    let outputs = row.iter().zip(&columns).map(|(ty, (_, sql))| {
        let output = ViewColumn { ty: *ty, stored: sql.storage(), word };
        word += ty.words();
        output
    });
    let outputs = outputs.collect();
    let mut inputs = Vec::new();
    for input in &compiled.inputs {
        let table = table_of(catalog, &input.table)?;
        let relation = &program.relations[usize::from(input.relation.0)];
        inputs.push(ViewInput {
            table: table.id,
            relation: input.relation,
            columns: relation.source_columns.clone(),
            types: relation.columns.clone(),
        });
    }
    let (certificate, executor) = (compiled.certificate, Executor::default());
    let (collations, cell) = (Vec::new(), None);
    Ok(Definition { columns, collations, program, certificate, executor, cell, inputs, outputs })
}

/// 0A000, with the construct named.
fn unsupported(error: &Unsupported) -> SqlError {
    let told = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, error.to_string());
    match &error.hint {
        Some(hint) => told.hint(hint.clone()),
        None => told.hint("An ordinary view has no such limit; it is computed when it is read."),
    }
}

/// A table of ours by the name that the plan has for it. Errors: 0A000 for any other source.
fn table_of<'c>(catalog: &'c Catalog, name: &TableReference) -> Result<&'c Arc<Table>> {
    let schema = name.schema().and_then(|schema| catalog.schemas.get(schema));
    match schema.and_then(|schema| schema.relations.get(name.table())) {
        Some(Relation::Table(table)) => Ok(table),
        _ => Err(SqlError::unsupported(format!("\"{name}\" in a materialized view"))
            .hint("Materialized views read tables, streams and materialized views.")),
    }
}

/// Facts about tables for the compiler, from the catalog, and whether the statement was cancelled.
struct CatalogFacts<'a> {
    catalog: &'a Arc<Catalog>,
    cancel: &'a CancelToken,
}

impl CatalogFacts<'_> {
    fn table(&self, name: &TableReference) -> Option<&Arc<Table>> {
        table_of(self.catalog, name).ok()
    }
}

impl Facts for CatalogFacts<'_> {
    /// Events are told deletions first, so keys are unique after every single one.
    fn unique_keys(&self, table: &TableReference) -> Vec<Vec<usize>> {
        let Some(table) = self.table(table) else { return Vec::new() };
        let present = |index: &&Index| {
            // What a partial index or one over expressions says is no key of the columns.
            index.derived.is_none()
                && index.columns.iter().all(|key| table.columns[key.column as usize].not_null)
        };
        let columns = |index: &Index| index.columns.iter().map(|key| key.column.into()).collect();
        table.indexes.iter().filter(|index| index.unique).filter(present).map(columns).collect()
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    fn never_negative(&self, table: &TableReference, column: usize) -> bool {
        let Some(table) = self.table(table) else { return false };
        let name = &table.columns[column].name;
        let judged = |check: &&Check| !check.not_valid;
        table.checks.iter().filter(judged).any(|check| {
            parse_expr(&check.expr).is_ok_and(|condition| keeps_positive(&condition, name))
        })
    }
}

/// Whether a condition that is not false says that the column is at least zero: `c >= 0`, `c > 1.5`,
/// `0 <= c`, and conjunctions of such.
fn keeps_positive(condition: &ast::Expr, column: &str) -> bool {
    use ast::BinaryOperator as Op;
    let is_column =
        |expr: &ast::Expr| matches!(expr, ast::Expr::Identifier(name) if fold(name) == column);
    let is_number = |expr: &ast::Expr| matches!(expr, ast::Expr::Value(value) if matches!(&value.value, ast::Value::Number(..)));
    match condition {
        ast::Expr::Nested(inner) => keeps_positive(inner, column),
        ast::Expr::BinaryOp { left, op: Op::And, right } => {
            keeps_positive(left, column) || keeps_positive(right, column)
        }
        ast::Expr::BinaryOp { left, op: Op::GtEq | Op::Gt, right } => {
            is_column(left) && is_number(right)
        }
        ast::Expr::BinaryOp { left, op: Op::LtEq | Op::Lt, right } => {
            is_number(left) && is_column(right)
        }
        _ => false,
    }
}

/// The cell that a view's options ask for. `later`: the view may come to be without its cell.
pub(crate) fn cell_choice(cell: ViewCell, later: bool) -> Option<CellChoice> {
    let place = match cell.place {
        ViewPlace::Process => return None,
        ViewPlace::Cell => CellPlace::Machine,
        ViewPlace::Thread => CellPlace::Thread,
    };
    let memory_bytes = cell.memory_mb.map(|mb| u64::from(mb) << 20);
    Some(CellChoice { place, memory_bytes, cpu: cell.cpu, later })
}

impl Definition {
    /// Whether the columns are those of a view's table, by their types: CREATE MATERIALIZED VIEW may have named them.
    pub fn fits(&self, columns: &[Column]) -> bool {
        let types = self.columns.iter().zip(columns).all(|((_, ty), own)| *ty == own.ty);
        self.columns.len() == columns.len() && types
    }

    /// Whether `later` is the same program with the same columns, if it reads the columns of tables at other places:
    /// `place` has the place of a column now, if it has one.
    pub fn is_same(&self, later: &Definition, place: impl Fn(TableId, u16) -> Option<u16>) -> bool {
        let moved = |input: &ViewInput| -> Option<Vec<u16>> {
            input.columns.iter().map(|column| place(input.table, *column)).collect()
        };
        let reads_same = |(input, later): (&ViewInput, &ViewInput)| {
            input.table == later.table
                && input.relation == later.relation
                && moved(input).as_ref() == Some(&later.columns)
        };
        // Programs have no comparison but their text. What they say to people has numbers of the tables' columns.
        let text = |definition: &Definition| {
            let mut program = definition.program.clone();
            program.relations.iter_mut().for_each(|relation| {
                relation.source_columns.clear();
                relation.name.clear();
            });
            program.maps.iter_mut().for_each(|map| {
                map.name.clear();
                map.definition.clear();
            });
            let statements =
                program.triggers.iter_mut().flat_map(|trigger| &mut trigger.statements);
            statements.for_each(|statement| statement.comment.clear());
            format!("{program:?}")
        };
        self.columns == later.columns
            && self.inputs.len() == later.inputs.len()
            && self.inputs.iter().zip(&later.inputs).all(reads_same)
            && text(self) == text(later)
    }

    /// Tables that the view reads, by ascending id.
    pub fn reads(&self) -> Vec<TableId> {
        let reads: BTreeSet<TableId> = self.inputs.iter().map(|input| input.table).collect();
        reads.into_iter().collect()
    }

    /// The view `id`, which has met the rows of `tables`: all roots of all tables that it reads. Its
    /// rows are put into `rows`, an empty partition of its columns, which `cell` makes a partition of
    /// the database.
    ///
    /// Errors: what an event can fail at: 22003, 22012; 0A000 for a program that is too large; 53200; 57014
    /// once `cancel` is cancelled.
    pub fn fill<'t>(
        self,
        id: TableId,
        tables: impl IntoIterator<Item = (TableId, &'t Partition)>,
        rows: Partition,
        cell: impl FnOnce(Partition) -> Arc<PartitionCell>,
        budget: Arc<ViewBudget>,
        cancel: &CancelToken,
    ) -> Result<Arc<MaintainedView>> {
        let Definition { program, executor, cell: place, inputs, outputs: columns, .. } = self;
        let program = ViewProgram { program, executor, cell: place, inputs, columns };
        program.fill(id, tables, rows, cell, budget, cancel).map(Arc::new).map_err(view_error)
    }
}
