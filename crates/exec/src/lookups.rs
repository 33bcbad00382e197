//! Parts of a vectorised plan that are bounded index lookups: their rows are found by an index before the rest
//! is planned, instead of by a scan of whole tables.
//!
//! `SELECT o_id, row_number() OVER (ORDER BY o_id) FROM orders WHERE customer = 7` is no point plan, since it has
//! a window; what is below the window is one. Such a *part* is a greatest subtree of the logical plan that
//! [`PointPlan::compile`] takes. An execution runs the parts row at a time over its snapshot and puts their rows in
//! their places; the vectorised operators do the rest over rows whose number is known.
//!
//! A part is given up if it visits more than [`VISITS_MAX`] rows: a scan is the better way to read so many. The
//! execution then runs the plan as it is, so a wrong guess costs at most these visits. Plans over fewer rows
//! than [`ROWS_LEAST`] are left alone: their scans cost less than planning anew.
//!
//! Invariant, checked by `parts_by_index_give_the_rows_of_scans`: with and without parts a plan gives the same rows.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema};
use datafusion::common::tree_node::{
    Transformed, TransformedResult, TreeNode, TreeNodeRecursion, TreeNodeRewriter,
};
use datafusion::common::{DFSchemaRef, Result as DfResult};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, col};
use halcyon_store::Partition;

use crate::point::{PointPlan, Scratch};
use halcyon_catalog::Table;
use halcyon_plan::env::{Env, Roots};
use halcyon_plan::execution;
use halcyon_plan::repeatable::{calls, may_run_twice};
use halcyon_sql::diagnose::sql_error;
use halcyon_sql::error::Result;
use halcyon_sql::rows::RowSet;
use halcyon_sql::types::SqlType;
use halcyon_sql::values::{ArrayWriter, sql_type_of};

/// Rows that a part may visit, in about a millisecond.
const VISITS_MAX: u32 = 16_384;
/// Nodes that a part may have: each subtree that may be one is planned by itself, in time that grows with the square of
/// its joins.
const NODES_MAX: usize = 64;
/// Rows that the tables of a plan must have together, or its parts are scanned.
const ROWS_LEAST: u64 = 16_384;

/// The parts of a plan, in the order of its nodes.
pub(crate) struct Lookups(Vec<Part>);

struct Part {
    /// Place of the part's root among the nodes of the plan, each before its inputs.
    at: usize,
    /// Nodes of the part.
    nodes: usize,
    plan: PointPlan,
    schema: DFSchemaRef,
    /// Tables of the part, by their places among those of the whole plan.
    tables: Vec<usize>,
}

impl Lookups {
    /// The parts of a plan that reads `tables`.
    pub fn of(plan: &LogicalPlan, tables: &[Arc<Table>]) -> Lookups {
        let mut search = Search { next: 0, found: vec![], tables };
        // A whole plan that is one part would have been a point plan.
        drop(search.node(plan));
        Lookups(search.found)
    }

    /// No parts.
    pub fn none() -> Lookups {
        Lookups(vec![])
    }

    /// Whether the rows of the tables are many enough to look for some of them.
    pub fn are_worth_it(&self, row_counts: impl Iterator<Item = u64>) -> bool {
        !self.0.is_empty() && row_counts.sum::<u64>() >= ROWS_LEAST
    }

    /// The plan with the rows of its parts in their places; `None` if a part has too many.
    ///
    /// Errors: those of the parts' expressions; 57014; 53200.
    pub fn looked_up(
        &self,
        plan: &LogicalPlan,
        env: &Env<'_>,
        roots: &[Vec<triomphe::Arc<Partition>>],
    ) -> Result<Option<LogicalPlan>> {
        let mut scratch = Scratch::default();
        let mut rows = vec![];
        for part in &self.0 {
            match part.rows(env, roots, &mut scratch)? {
                Some(batch) => rows.push(batch),
                None => return Ok(None),
            }
        }
        let mut places = Places { next: 0, left: self.0.iter().zip(rows).peekable() };
        plan.clone().rewrite(&mut places).data().map(Some).map_err(|error| sql_error(error, ""))
    }

    /// The parts as text, for EXPLAIN.
    pub fn explain(&self) -> String {
        let text = |part: &Part| {
            let lines = part.plan.explain();
            let lines: Vec<String> = lines.lines().map(|line| format!("  {line}")).collect();
            format!("Rows looked up first, if they are few:\n{}\n", lines.join("\n"))
        };
        self.0.iter().map(text).collect()
    }
}

impl Part {
    /// The part's rows, unless they are too many.
    fn rows(
        &self,
        env: &Env<'_>,
        roots: &[Vec<triomphe::Arc<Partition>>],
        scratch: &mut Scratch,
    ) -> Result<Option<RecordBatch>> {
        let roots: Vec<_> = self.tables.iter().map(|table| roots[*table].clone()).collect();
        let mut rows = RowSet::new(self.plan.width());
        let roots = Roots::Snapshot(&roots);
        if !self.plan.run_within(VISITS_MAX, env, roots, &mut rows, scratch)? {
            return Ok(None);
        }
        let fields = self.schema.fields().iter().enumerate();
        let columns = fields.map(|(at, field)| {
            let ty = type_of(field).expect("asked when the part was found");
            let mut writer = ArrayWriter::new(ty, rows.len());
            (0..rows.len()).try_for_each(|row| writer.push(rows.value(row, at)))?;
            Ok(writer.finish())
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let schema = Arc::new(numbered(&self.schema));
        let batch = RecordBatch::try_new_with_options(schema, columns, &options);
        batch.map(Some).map_err(|error| sql_error(error.into(), ""))
    }
}

/// The columns of a part by their numbers: tables may have columns of one name.
fn numbered(schema: &DFSchemaRef) -> Schema {
    let fields = schema.fields().iter().enumerate();
    Schema::new(
        fields
            .map(|(at, field)| field.as_ref().clone().with_name(format!("c{at}")))
            .collect::<Vec<Field>>(),
    )
}

/// The type of a column, if its vectors are of the type's own kind.
fn type_of(field: &Field) -> Option<SqlType> {
    sql_type_of(field).filter(|ty| ty.arrow() == *field.data_type())
}

/// A search for parts.
struct Search<'t> {
    /// Nodes seen so far.
    next: usize,
    found: Vec<Part>,
    tables: &'t [Arc<Table>],
}

impl Search<'_> {
    /// Looks at a node and all below; gives it back if it is a part, which a node above may be part of.
    fn node(&mut self, node: &LogicalPlan) -> Option<Part> {
        let at = self.next;
        self.next += 1;
        let inputs = node.inputs();
        let is_lowest = match node {
            LogicalPlan::TableScan(_) => true,
            LogicalPlan::Filter(filter) => matches!(*filter.input, LogicalPlan::TableScan(_)),
            _ => false,
        };
        let below: Vec<Part> = inputs.into_iter().filter_map(|input| self.node(input)).collect();
        if (is_lowest || !below.is_empty())
            && let Some(part) = self.part(node, at)
        {
            return Some(part);
        }
        self.found.extend(below);
        None
    }

    fn part(&self, node: &LogicalPlan, at: usize) -> Option<Part> {
        let schema = Arc::clone(node.schema());
        let nodes = self.next - at;
        let has_types = || schema.fields().iter().all(|field| type_of(field).is_some());
        if nodes > NODES_MAX || !has_types() || !may_be_part(node) {
            return None;
        }
        let plan = PointPlan::compile(node)?;
        let place = |table: &Arc<Table>| self.tables.iter().position(|own| own.id == table.id);
        let tables = plan.tables().iter().map(place).collect::<Option<Vec<_>>>()?;
        (!tables.is_empty()).then(|| Part { at, nodes, plan, schema, tables })
    }
}

/// Whether a subtree may run by itself, perhaps in vain, and calls nothing that belongs to the execution.
fn may_be_part(node: &LogicalPlan) -> bool {
    let mut may = may_run_twice(node);
    let _ = node.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            may &= !calls(expr, execution::belongs_to_execution);
            Ok(TreeNodeRecursion::Continue)
        })
    });
    may
}

/// Puts rows in the places of parts.
struct Places<'p, I: Iterator<Item = (&'p Part, RecordBatch)>> {
    next: usize,
    left: std::iter::Peekable<I>,
}

impl<'p, I: Iterator<Item = (&'p Part, RecordBatch)>> TreeNodeRewriter for Places<'p, I> {
    type Node = LogicalPlan;

    fn f_down(&mut self, node: LogicalPlan) -> DfResult<Transformed<LogicalPlan>> {
        let at = self.next;
        self.next += 1;
        match self.left.next_if(|(part, _)| part.at == at) {
            Some((part, rows)) => {
                self.next = at + part.nodes;
                Ok(Transformed::new(in_place(part, rows)?, true, TreeNodeRecursion::Jump))
            }
            None => Ok(Transformed::no(node)),
        }
    }
}

/// Rows with the columns of the part that they are the rows of.
fn in_place(part: &Part, rows: RecordBatch) -> DfResult<LogicalPlan> {
    let table = MemTable::try_new(rows.schema(), vec![vec![rows]])?;
    let name = format!("__part_{}", part.at);
    let scan = LogicalPlanBuilder::scan(name, provider_as_source(Arc::new(table)), None)?;
    let columns = part.schema.iter().enumerate().map(|(at, (qualifier, field))| {
        let column = col(format!("c{at}"));
        column.alias_qualified(qualifier.cloned(), field.name())
    });
    scan.project(columns)?.build()
}
