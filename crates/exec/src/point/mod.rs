//! Row-at-a-time execution of statements whose every access is a bounded index lookup.
//!
//! Words: a *slot* is a place in the register file of a running plan; every column that a plan reads
//! and every value it computes has one of its own, so a join moves nothing. A *pin* is the value of
//! a table's partition column, when a condition fixes it by equality.
//!
//! A plan is made in two steps: `rel` turns DataFusion's optimised plan into relations over slots;
//! `planner` chooses an index for every table and an order for every join, or finds that a table
//! would have to be read as a whole, and gives up. The analytical executor runs the statement then.
//!
//! What counts as bounded: an equality prefix of an index (constants, parameters, columns of rows
//! read before; IN lists as several lookups); a range with two ends on the first key column, if the
//! ends are parameters or integers not further apart than 4,096; any index order that a LIMIT, MIN
//! or MAX cuts off without a condition that could reject row after row. Targets of UPDATE and
//! DELETE may be scanned as a whole: their rows must be visited one by one in any case.
//!
//! Invariants:
//! 1. A plan reads no partition that [`PointPlan::needs`] does not name for the same parameters:
//!    checked by `Roots::partition` at each access under locks.
//! 2. It gives the rows that the analytical executor gives: checked by
//!    `random_queries_agree_with_the_analytical_executor` in `tests/point.rs`.
//!
//! Cost: rows are pushed through closures on the stack; nothing is allocated for a row, nor for an
//! execution once the scratch is warm (`executions_allocate_nothing_once_warm` counts), but one vector
//! where several partitions are merged in order, and what DataFusion's functions take.

mod access;
mod aggregate;
mod explain;
mod node;
mod outline;
mod planner;
mod rel;
mod run;
pub mod short;
mod state;
mod twin;
mod unique;

use std::sync::Arc;

use datafusion::logical_expr::LogicalPlan;

use crate::waiting::has_waits;
use halcyon_catalog::Table;
use halcyon_plan::env::{Env, Need, Roots};
use halcyon_sql::error::Result;
use halcyon_sql::rows::RowSink;

pub use outline::Outline;
pub use state::Scratch;
pub(crate) use unique::row_id;

use node::Node;

/// A query that runs row at a time.
pub struct PointPlan {
    tables: Vec<Arc<Table>>,
    /// Scalar subqueries, which run first: plan, slot of the subquery's value, slot that gets it.
    subqueries: Vec<(Node, usize, usize)>,
    root: Node,
    /// The result's columns.
    output: Vec<usize>,
    slot_count: usize,
    node_count: usize,
    state_count: usize,
    /// What every scan locks: table, and the value that fixes the partition.
    locks: Vec<(usize, Option<access::Probe>)>,
    fast: Option<unique::UniqueLookup>,
    relations: twin::Relations,
}

impl PointPlan {
    /// Compiles an optimised plan; None if this executor cannot run it.
    ///
    /// A scan that yields row ids is the target of a write, and may be read as a whole.
    pub fn compile(plan: &LogicalPlan) -> Option<PointPlan> {
        let mut compiled = planner::compile(plan).ok().flatten()?;
        if has_waits(plan) {
            compiled.fast = None;
        }
        Some(compiled)
    }

    /// The tables that the plan reads, in the order that needs refer to.
    pub fn tables(&self) -> &[Arc<Table>] {
        &self.tables
    }

    /// Adds the partitions that an execution with these parameters reads.
    pub fn needs(&self, env: &Env<'_>, needs: &mut Vec<Need>) -> Result<()> {
        run::needs(self, env, needs)
    }

    /// Runs the plan. Errors: those of its expressions; 57014 if the statement is cancelled.
    pub fn run(
        &self,
        env: &Env<'_>,
        roots: Roots<'_>,
        sink: &mut dyn RowSink,
        scratch: &mut Scratch,
    ) -> Result<()> {
        run::run(self, env, roots, sink, scratch)
    }

    /// Runs the plan as [`PointPlan::run`], until it would visit more than `visits_max` rows (`u32::MAX`: as many as it
    /// takes); false if it stopped there. What the sink was given is no result then.
    pub fn run_within(
        &self,
        visits_max: u32,
        env: &Env<'_>,
        roots: Roots<'_>,
        sink: &mut dyn RowSink,
        scratch: &mut Scratch,
    ) -> Result<bool> {
        run::run_within(self, visits_max, env, roots, sink, scratch)
    }

    /// The plan as a tree, one node a line.
    pub fn explain(&self) -> String {
        explain::explain(self, None)
    }

    /// The plan with the rows that each node gave in the last execution with this scratch.
    pub fn explain_analyzed(&self, scratch: &Scratch) -> String {
        explain::explain(self, Some(scratch))
    }

    /// Number of columns of a row.
    pub fn width(&self) -> usize {
        self.output.len()
    }

    /// Whether the plan is one unique lookup without conditions, and waits for nothing: the quickest plan there is.
    pub fn is_unique_lookup(&self) -> bool {
        self.fast.is_some()
    }
}
