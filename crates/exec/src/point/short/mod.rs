//! The short way from a syntax tree to a point plan: for statements over one table that need no optimizer.
//!
//! A look-up by key, or the query behind an UPDATE or DELETE of one table, has a meaning that its columns'
//! types give at once. The long way makes a plan of DataFusion's of it, walks that plan some fifteen times
//! and lowers it in the end; here its names are looked up in the catalog and its expressions lowered as they
//! stand.
//!
//! What is not wholly known here goes the long way: functions, casts, subqueries, groups, joins, views,
//! comparisons of different types, and everything that has an error, which the long way tells.
//!
//! Invariant, checked wherever tests bind a statement by [`ShortQuery::assert_same`]: the short way gives what
//! the long way does: relations with the numbers of their slots, columns of the result, types of parameters.
//! `what_needs_no_optimizer_goes_the_short_way` checks that it is taken.
//!
//! Cost: the tree is walked once and not copied; no stack is asked for.

mod aggregates;
mod exprs;
mod items;
mod request;

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Expr, Query};

use halcyon_catalog::{Privilege, Table};
use halcyon_plan::bind::Binder;
use halcyon_plan::phases::Phase;
use halcyon_plan::scalar::{Ir, conjuncts};
use halcyon_sql::rows::ResultColumn;
use halcyon_sql::types::SqlType;
use halcyon_store::Type;

use super::PointPlan;
use super::planner;
use super::rel::{Builder, Rel, Scan, SortKey};
use exprs::Exprs;
use items::BoundValue;
use request::Bound;
pub(crate) use request::{Item, Request};

/// A query that went the short way.
pub struct ShortQuery {
    /// The plan.
    pub plan: PointPlan,
    /// Columns of the result.
    pub columns: Arc<[ResultColumn]>,
    /// Types of `$1`, `$2`, …, as far as they are declared or stand in the query.
    known: Vec<Option<SqlType>>,
    /// Whether it reads columns of its table.
    pub reads_columns: bool,
}

impl ShortQuery {
    /// Binds and plans a query; `None`: it has to go the long way.
    ///
    /// `given`: types of parameters as far as they are declared.
    pub fn of(binder: &Binder<'_>, query: &Query, given: &[Option<SqlType>]) -> Option<ShortQuery> {
        let request = binder.timed(Phase::Bind, || Request::of(query))?;
        ShortQuery::new(binder, &request, given)
    }

    /// Binds and plans what is asked of one table.
    pub(crate) fn new(
        binder: &Binder<'_>,
        request: &Request<'_>,
        given: &[Option<SqlType>],
    ) -> Option<ShortQuery> {
        let (relation, columns, known) = binder.timed(Phase::Bind, || {
            let table = table_of(binder, request)?;
            let exprs = Exprs::new(table, request.name(table), given);
            let bound = Bound::of(request, exprs)?;
            Some(relation(table, request, bound))
        })?;
        let reads_columns = relation.reads_columns;
        let plan = binder.timed(Phase::Optimize, || {
            planner::plan(relation.builder, relation.rel, relation.output)
        });
        Some(ShortQuery { plan: plan?, columns: columns.into(), known, reads_columns })
    }
}

impl ShortQuery {
    /// Types of `$1`, `$2`, …; text where nothing says one.
    pub fn params(&self) -> Vec<SqlType> {
        self.known.iter().map(|ty| ty.unwrap_or(SqlType::Text)).collect()
    }

    /// Parameters of which a type is known: places from 0 and types.
    pub fn known_params(&self) -> impl Iterator<Item = (usize, SqlType)> {
        self.known.iter().enumerate().filter_map(|(at, ty)| Some((at, (*ty)?)))
    }

    /// Checks that the long way gives the same.
    ///
    /// Panics: if relations, columns or parameters differ.
    pub fn assert_same(&self, plan: &PointPlan, columns: &[ResultColumn], params: &[SqlType]) {
        assert_eq!(
            self.plan.relations, plan.relations,
            "relations of the short way and the long one"
        );
        let shown = |column: &ResultColumn| {
            (column.name.clone(), Arc::clone(&column.field), column.ty, column.origin)
        };
        let of = |columns: &[ResultColumn]| columns.iter().map(shown).collect::<Vec<_>>();
        assert_eq!(of(&self.columns), of(columns), "columns of the short way and the long one");
        assert_eq!(self.params(), params, "parameters of the short way and the long one");
    }
}

/// The position of the column that an expression over the row of a table names. `name`: the table's in the
/// statement.
pub(crate) fn column_of_row(table: &Arc<Table>, name: &str, expr: &Expr) -> Option<usize> {
    Exprs::new(table, name.to_owned(), &[]).resolve(expr).map(usize::from)
}

/// A value computed of the row of a table and, behind its columns, of those of `excluded`, the row that was
/// proposed for insertion. There are no parameters in it.
pub(crate) fn value_of_rows(table: &Arc<Table>, name: &str, expr: &Expr) -> Option<(Ir, SqlType)> {
    Exprs::with_excluded(table, name.to_owned())?.value(expr)
}

/// The table that a request is about, if the session's role may read it so.
fn table_of<'b>(binder: &'b Binder<'_>, request: &Request<'_>) -> Option<&'b Arc<Table>> {
    let table = binder.table_named(request.table)?;
    let may = |wish| binder.catalog.require_on_table(&binder.session.user, table, wish).is_ok();
    let reads = request.with_row_ids || may(Privilege::Select);
    let locks = !request.locks_rows || may(Privilege::Update);
    (reads && locks && !table.is_stream()).then_some(table)
}

/// A bound request as relations over slots.
struct Relation {
    builder: Builder,
    rel: Rel,
    output: Vec<usize>,
    reads_columns: bool,
}

/// Puts a bound request together. Slots are numbered as the long way does: columns in the order of the table,
/// the row id, computed values.
fn relation(
    table: &Arc<Table>,
    request: &Request<'_>,
    mut bound: Bound,
) -> (Relation, Vec<ResultColumn>, Vec<Option<SqlType>>) {
    let mut builder = Builder::default();
    let mut read = std::mem::take(&mut bound.exprs.read);
    read.sort_unstable();
    read.dedup();
    let mut scan = Scan {
        table: builder.table(table),
        columns: Vec::with_capacity(read.len()),
        row_id: None,
        is_target: request.with_row_ids,
        conditions: Vec::new(),
    };
    for column in &read {
        let slot = builder.slot(Some(table.columns[usize::from(*column)].ty.storage()));
        scan.columns.push((*column, slot));
    }
    if request.with_row_ids {
        scan.row_id = Some(builder.slot(Some(Type::Int64)));
    }
    let slot_of = |column: u16| read.binary_search(&column).expect("every column read is noted");
    if let Some(mut condition) = bound.condition.take() {
        exprs::renumber(&mut condition, &slot_of);
        conjuncts(condition, &mut scan.conditions);
    }
    let row_id = scan.row_id;
    let (mut defs, mut output) = (Vec::new(), Vec::with_capacity(bound.items.len()));
    let (mut columns, mut aggregates) = (Vec::with_capacity(bound.items.len()), Vec::new());
    for item in bound.items {
        columns.push(item.column);
        output.push(match item.value {
            BoundValue::RowId => row_id.expect("a row id is asked for where it is there"),
            BoundValue::OfRow(mut ir) => {
                exprs::renumber(&mut ir, &slot_of);
                match ir {
                    Ir::Slot(slot, _) => slot,
                    ir => {
                        let slot = builder.slot(ir.ty());
                        defs.push((slot, ir));
                        slot
                    }
                }
            }
            BoundValue::Aggregate(mut aggregate) => {
                if let Some(arg) = &mut aggregate.arg {
                    exprs::renumber(arg, &slot_of);
                }
                aggregate.slot = builder.slot(Some(aggregate.ty));
                let slot = aggregate.slot;
                aggregates.push(aggregate);
                slot
            }
        });
    }
    let mut rel = Rel::Scan(scan);
    if !aggregates.is_empty() {
        rel = Rel::Aggregate { input: rel.into(), groups: Vec::new(), aggregates };
    }
    if !defs.is_empty() {
        rel = Rel::Project { input: rel.into(), defs };
    }
    if !bound.keys.is_empty() {
        let key = |key: &request::Key| SortKey {
            slot: match key.of {
                request::KeyOf::Output(at) => output[at],
                request::KeyOf::Column(column) => slot_of(column),
            },
            descending: key.descending,
            nulls_first: key.nulls_first,
        };
        let keys: Vec<SortKey> = bound.keys.iter().map(key).collect();
        let mut carry: Vec<usize> =
            output.iter().copied().chain(keys.iter().map(|key| key.slot)).collect();
        carry.sort_unstable();
        carry.dedup();
        rel = Rel::Sort { input: rel.into(), keys, fetch: None, carry };
    }
    if bound.skip.is_some() || bound.fetch.is_some() {
        rel = Rel::Limit { input: rel.into(), skip: bound.skip, fetch: bound.fetch };
    }
    let known = bound.exprs.into_types();
    (Relation { builder, rel, output, reads_columns: !read.is_empty() }, columns, known)
}
