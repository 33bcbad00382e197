//! The query behind a write: point or analytical, over locked partitions.

use std::sync::Arc;

use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast;
use halcyon_base::ids::TableId;
use halcyon_store::{Partition, ValueRef};
use halcyon_txn::Mode;

use super::{Scope, WriteContext};
use crate::analytic::{AnalyticalPlan, BatchStream};
use crate::executor::Executor;
use crate::point::{PointPlan, Scratch};
use halcyon_catalog::Table;
use halcyon_plan::bind::Binder;
use halcyon_plan::env::{Env, Need, Roots};
use halcyon_sql::error::{Result, SqlError};
use halcyon_sql::rows::{ResultColumn, RowSet, RowSink};
use halcyon_sql::values::{stored, value_at};

/// A query whose rows a write collects first.
pub enum QuerySource {
    /// Row at a time.
    Point(Box<PointPlan>),
    /// Vectorised.
    Analytical(Box<AnalyticalPlan>),
}

impl QuerySource {
    /// Chooses the executor of a bound query. Errors: those of optimising.
    pub fn new(plan: LogicalPlan, binder: &Binder<'_>) -> Result<Self> {
        Ok(match Executor::choose(plan, binder, true)? {
            Executor::Point(plan) => QuerySource::Point(plan),
            Executor::Analytical(plan) => QuerySource::Analytical(plan),
        })
    }

    /// Tables it reads, in the order its needs refer to.
    pub fn tables(&self) -> &[Arc<Table>] {
        match self {
            QuerySource::Point(plan) => plan.tables(),
            QuerySource::Analytical(plan) => plan.tables(),
        }
    }

    /// What it reads, in shared mode.
    pub fn needs(&self, env: &Env<'_>, needs: &mut Vec<Need>) -> Result<()> {
        match self {
            QuerySource::Point(plan) => plan.needs(env, needs),
            QuerySource::Analytical(plan) => {
                needs.extend((0..plan.tables().len()).map(|table| Need {
                    table,
                    partition: None,
                    mode: Mode::Shared,
                }));
                Ok(())
            }
        }
    }

    /// Collects all rows. Its tables must be the first of those that `roots` knows.
    pub fn collect(
        &self,
        env: &Env<'_>,
        roots: Roots<'_>,
        scratch: &mut Scratch,
        rows: &mut RowSet,
    ) -> Result<()> {
        match self {
            QuerySource::Point(plan) => plan.run(env, roots, rows, scratch),
            QuerySource::Analytical(_) => {
                let mut values: Vec<ValueRef<'_>> = Vec::new();
                for batch in self.stream(env, roots)? {
                    let batch = batch?;
                    let columns: Vec<_> = batch.columns().iter().map(stored).collect();
                    for row in 0..batch.num_rows() {
                        let mut values = recycle(std::mem::take(&mut values));
                        for column in &columns {
                            values.push(value_at(column.as_ref(), row).ok_or_else(|| {
                                SqlError::unsupported(format!(
                                    "a value of type {}",
                                    column.data_type()
                                ))
                            })?);
                        }
                        rows.row(&values)?;
                    }
                }
                Ok(())
            }
        }
    }

    /// The rows in batches. Panics: if the plan is a point plan.
    pub fn stream(&self, env: &Env<'_>, roots: Roots<'_>) -> Result<BatchStream> {
        let QuerySource::Analytical(plan) = self else { panic!("a point plan has no batches") };
        plan.start(env, whole_roots(plan.tables(), roots))
    }

    /// Whether a run is over within microseconds.
    fn is_brief(&self) -> bool {
        matches!(self, QuerySource::Point(plan) if plan.is_unique_lookup())
    }

    /// The plan, if it is a point plan.
    pub fn point(&self) -> Option<&PointPlan> {
        match self {
            QuerySource::Point(plan) => Some(plan),
            QuerySource::Analytical(_) => None,
        }
    }

    /// For EXPLAIN.
    pub fn explain(&self) -> Vec<String> {
        match self {
            QuerySource::Point(plan) => {
                plan.explain().lines().map(|line| format!("  {line}")).collect()
            }
            QuerySource::Analytical(plan) => {
                let text = plan.logical().display_indent().to_string();
                text.lines().map(|line| format!("  {line}")).collect()
            }
        }
    }
}

impl WriteContext<'_> {
    /// Collects the rows of a source. Where that may last, the transaction is at rest meanwhile: who takes a cut
    /// through what it has changed does not wait for the query.
    pub fn collect(
        &mut self,
        source: &QuerySource,
        scratch: &mut Scratch,
        rows: &mut RowSet,
    ) -> Result<()> {
        let env = self.env;
        let owned = match source.is_brief() {
            true => None,
            false => owned_roots(source.tables(), self.roots()),
        };
        match owned {
            Some(roots) => {
                self.tx.resting(|| source.collect(env, Roots::Snapshot(&roots), scratch, rows))
            }
            None => source.collect(env, self.roots(), scratch, rows),
        }
    }
}

/// The roots of `tables` as values of their own, by table, then by partition number; `None` if a partition is not
/// locked.
pub fn owned_roots(
    tables: &[Arc<Table>],
    roots: Roots<'_>,
) -> Option<Vec<Vec<triomphe::Arc<Partition>>>> {
    let root = |table: usize, partition: usize| match roots {
        Roots::Locked(tx, locks) => {
            locks.get(table, partition as u32).map(|handle| tx.root(handle))
        }
        Roots::Snapshot(roots) => Some(roots[table][partition].clone()),
    };
    let of_table = |(at, table): (usize, &Arc<Table>)| {
        (0..table.cells.len()).map(|partition| root(at, partition)).collect()
    };
    tables.iter().enumerate().map(of_table).collect()
}

/// As [`owned_roots`], of tables that are locked as a whole. Panics: if a partition is not.
pub fn whole_roots(tables: &[Arc<Table>], roots: Roots<'_>) -> Vec<Vec<triomphe::Arc<Partition>>> {
    owned_roots(tables, roots).expect("the plan declared this need")
}

/// The query with a WITH before its own.
fn under(with: &ast::With, mut query: ast::Query) -> ast::Query {
    let mut all = with.clone();
    if let Some(own) = query.with.take() {
        all.recursive |= own.recursive;
        all.cte_tables.extend(own.cte_tables);
    }
    query.with = Some(all);
    query
}

/// The same vector, empty, for values that live otherwise. Keeps its memory.
fn recycle<'b>(mut values: Vec<ValueRef<'_>>) -> Vec<ValueRef<'b>> {
    values.clear();
    values.into_iter().map(|_| -> ValueRef<'b> { unreachable!("it is empty") }).collect()
}

/// Binds the query behind a write; its tables become the first of the plan's.
pub(super) fn bind(
    scope: &mut Scope<'_>,
    query: ast::Query,
    with_row_ids: Option<TableId>,
) -> Result<(QuerySource, Arc<[ResultColumn]>, LogicalPlan)> {
    let query = match scope.with {
        Some(with) => under(with, query),
        None => query,
    };
    let asked = super::parameters(&query);
    let bound = scope.binder.query_with(query, with_row_ids, &scope.params, scope.text)?;
    scope.learn(asked.into_iter().map(|at| (at, bound.params[at])));
    scope.shareable &= bound.shareable;
    let columns: Arc<[ResultColumn]> = bound.columns().into();
    let source = QuerySource::new(bound.plan.clone(), &scope.binder)?;
    assert!(scope.tables.is_empty(), "the query's tables come first");
    scope.tables = source.tables().to_vec();
    Ok((source, columns, bound.plan))
}
