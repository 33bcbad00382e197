//! EXPLAIN [ANALYZE]: which executor runs, what it locks, what it does.

use std::time::Instant;

use halcyon_query::error::Result;
use halcyon_query::exec::{Env, Locks, Need, Roots};
use halcyon_query::plan::{Plan, Prepared};
use halcyon_query::point::Scratch;
use halcyon_query::rows::{RowSet, RowSink};
use halcyon_store::ValueRef;
use halcyon_txn::{Mode, Transaction};

use crate::run::{Ran, execute};

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
    let ran = match analyze {
        true => {
            let began = Instant::now();
            let mut rows = RowSet::default();
            let ran = execute(of, env, tx, locks, scratch, &mut rows)?;
            Some(count(ran, &rows, began)?)
        }
        false => None,
    };
    finish(of, lines, ran, scratch, out)
}

/// Explains `of` on a snapshot.
pub(crate) fn on_snapshot(
    of: &Prepared,
    analyze: bool,
    env: &Env<'_>,
    roots: &[Vec<triomphe::Arc<halcyon_store::Partition>>],
    scratch: &mut Scratch,
    out: &mut RowSet,
) -> Result<Ran> {
    let mut lines = vec![format!("Executor: {}", executor(&of.plan))];
    lines.push("Snapshot: of the transaction, no locks".to_owned());
    let ran = match (analyze, &of.plan) {
        (true, Plan::Point(plan)) => {
            let began = Instant::now();
            let mut rows = RowSet::new(of.columns.len());
            plan.run(env, Roots::Snapshot(roots), &mut rows, scratch)?;
            Some(count(Ran::Set { written: None }, &rows, began)?)
        }
        (true, Plan::Analytical(plan)) => {
            let began = Instant::now();
            let ran = Ran::Stream(plan.start(env, roots.to_vec())?);
            Some(count(ran, &RowSet::default(), began)?)
        }
        _ => None,
    };
    finish(of, lines, ran, scratch, out)
}

fn executor(plan: &Plan) -> &'static str {
    match plan {
        Plan::Point(_) => "point (row at a time over bounded index lookups)",
        Plan::Analytical(_) => "analytical (vectorised over a snapshot)",
        Plan::Write(plan) => plan.executor(),
        _ => "utility",
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

/// What ANALYZE saw.
struct Seen {
    rows: u64,
    ms: f64,
    operators: Option<String>,
}

fn count(ran: Ran, rows: &RowSet, began: Instant) -> Result<Seen> {
    let mut operators = None;
    let rows = match ran {
        Ran::Set { written } => written.unwrap_or(rows.len() as u64),
        Ran::Stream(mut batches) => {
            let mut rows = 0;
            for batch in batches.by_ref() {
                rows += batch?.num_rows() as u64;
            }
            operators = batches.metrics();
            rows
        }
        Ran::Other(crate::Outcome::Done(tag)) => tag.rows.unwrap_or(0),
        Ran::Other(_) => 0,
    };
    Ok(Seen { rows, ms: began.elapsed().as_secs_f64() * 1e3, operators })
}

fn finish(
    of: &Prepared,
    mut lines: Vec<String>,
    ran: Option<Seen>,
    scratch: &Scratch,
    out: &mut RowSet,
) -> Result<Ran> {
    let operators = match (&of.plan, &ran) {
        (_, Some(Seen { operators: Some(operators), .. })) => operators.clone(),
        (Plan::Point(plan), Some(_)) => plan.explain_analyzed(scratch),
        (Plan::Point(plan), None) => plan.explain(),
        (Plan::Analytical(plan), _) => plan.explain()?,
        (Plan::Write(plan), _) => plan.explain(),
        _ => of.tag.to_owned(),
    };
    lines.extend(operators.lines().map(ToOwned::to_owned));
    if let Some(seen) = ran {
        lines.push(format!("Rows: {}", seen.rows));
        lines.push(format!("Execution time: {:.3} ms", seen.ms));
    }
    out.reset(1);
    for line in &lines {
        out.row(&[ValueRef::Text(line)])?;
    }
    Ok(Ran::Set { written: None })
}
