//! `EXPLAIN [ANALYZE]`: which executor runs, what it locks, what it does.

use std::time::Instant;

use halcyon_query::analytic::AnalyticalPlan;
use halcyon_query::error::Result;
use halcyon_query::exec::{Env, Locks, Need, Roots};
use halcyon_query::plan::{Plan, Prepared};
use halcyon_query::point::Scratch;
use halcyon_query::rows::{RowSet, RowSink};
use halcyon_store::ValueRef;
use halcyon_txn::{Mode, Transaction};

use crate::run::{Ran, TableRoots, execute, locked_roots};

/// Explains `of` under locks; with `analyze` it runs and its effects stay, as in PostgreSQL.
pub(crate) fn under_locks(
    of: &Prepared,
    analyze: bool,
    env: &Env<'_>,
    (tx, locks, needs): (&mut Transaction, &Locks, &[Need]),
    scratch: &mut Scratch,
    out: &mut RowSet,
) -> Result<Ran> {
    let mut lines = vec![format!("Executor: {}", executor(&of.plan))];
    lines.extend(needs.iter().map(|need| lock_line(of, need)));
    let began = Instant::now();
    let (operators, seen) = match &of.plan {
        Plan::Analytical(plan) => {
            analytical(plan, analyze, env, locked_roots(tx, locks, plan.tables()))?
        }
        _ if analyze => {
            let mut rows = RowSet::default();
            let ran = execute(of, env, tx, locks, scratch, &mut rows)?;
            (operators(of, Some(scratch)), Some(ran.rows(&rows)))
        }
        _ => (operators(of, None), None),
    };
    finish(lines, &operators, seen, began, out)
}

/// Explains `of` on a snapshot.
pub(crate) fn on_snapshot(
    of: &Prepared,
    analyze: bool,
    env: &Env<'_>,
    roots: TableRoots,
    scratch: &mut Scratch,
    out: &mut RowSet,
) -> Result<Ran> {
    let mut lines = vec![format!("Executor: {}", executor(&of.plan))];
    lines.push("Snapshot: no locks".to_owned());
    let began = Instant::now();
    let (operators, seen) = match &of.plan {
        Plan::Analytical(plan) => analytical(plan, analyze, env, roots)?,
        Plan::Point(plan) if analyze => {
            let mut rows = RowSet::new(of.columns.len());
            plan.run(env, Roots::Snapshot(&roots), &mut rows, scratch)?;
            (operators(of, Some(scratch)), Some(rows.len() as u64))
        }
        _ => (operators(of, None), None),
    };
    finish(lines, &operators, seen, began, out)
}

/// Text of an analytical plan's operators and, if it ran, its number of rows.
fn analytical(
    plan: &AnalyticalPlan,
    analyze: bool,
    env: &Env<'_>,
    roots: TableRoots,
) -> Result<(String, Option<u64>)> {
    if !analyze {
        return Ok((plan.explain()?, None));
    }
    let mut batches = plan.start(env, roots)?;
    let mut rows = 0;
    for batch in batches.by_ref() {
        rows += batch?.num_rows() as u64;
    }
    Ok((batches.metrics().unwrap_or_default(), Some(rows)))
}

/// Text of the operators of plans that run row at a time; with what ran last, if it did.
fn operators(of: &Prepared, ran: Option<&Scratch>) -> String {
    match (&of.plan, ran) {
        (Plan::Point(plan), Some(scratch)) => plan.explain_analyzed(scratch),
        (Plan::Point(plan), None) => plan.explain(),
        (Plan::Write(plan), _) => plan.explain().join("\n"),
        _ => of.tag.to_owned(),
    }
}

fn executor(plan: &Plan) -> &'static str {
    match plan {
        Plan::Point(_) => "point (row at a time over bounded index lookups)",
        Plan::Analytical(_) => "analytical (vectorised over a snapshot)",
        other => other.executor(),
    }
}

fn lock_line(of: &Prepared, need: &Need) -> String {
    let table = &of.plan.tables()[need.table];
    let mode = match need.mode {
        Mode::Shared => "shared",
        Mode::Exclusive => "exclusive",
    };
    let partition = need.partition.map_or("all".to_owned(), |number| number.to_string());
    let count = table.cells.len();
    format!("Lock: {}.{} partition {partition} of {count}, {mode}", table.schema, table.name)
}

fn finish(
    mut lines: Vec<String>,
    operators: &str,
    rows: Option<u64>,
    began: Instant,
    out: &mut RowSet,
) -> Result<Ran> {
    lines.extend(operators.lines().map(ToOwned::to_owned));
    if let Some(rows) = rows {
        lines.push(format!("Rows: {rows}"));
        lines.push(format!("Execution time: {:.3} ms", began.elapsed().as_secs_f64() * 1e3));
    }
    out.reset(1);
    for line in &lines {
        out.row(&[ValueRef::Text(line)])?;
    }
    Ok(Ran::Set { written: None })
}
