//! `EXPLAIN [ANALYZE]`: the executor of a statement, its locks and its steps.

use std::time::Instant;

use halcyon_exec::analytic::AnalyticalPlan;
use halcyon_exec::dml::whole_roots;
use halcyon_exec::point::Scratch;
use halcyon_plan::env::{Env, Need, Roots};
use halcyon_plan::phases::PlanningTimes;
use halcyon_prepare::explain::Explaining;
use halcyon_prepare::explain_json;
use halcyon_prepare::explanation::{Explanation, Learned, told};
use halcyon_prepare::plan::{Plan, Prepared};
use halcyon_sql::error::{Result, SqlError};
use halcyon_sql::rows::RowSet;

use crate::execute::{Ran, RowAccess, execute, read_only};

/// Explains `of`; `planning` is the time of its planning, if that is to be shown. With ANALYZE the statement runs, and
/// its effects stay, as in PostgreSQL; a look-up, until it has visited `visits_max` rows.
///
/// Errors: those of running the statement; 25006 if `of` is more than a query and `access` is a
/// cut; 0A000 for ANALYZE of a statement that is neither a query nor a write.
#[expect(clippy::too_many_arguments, reason = "what the driver has of a statement")]
pub(crate) fn explain(
    of: &Prepared,
    asked: Explaining,
    planning: Option<PlanningTimes>,
    env: &Env<'_>,
    access: RowAccess<'_>,
    visits_max: u32,
    scratch: &mut Scratch,
    learned: &Learned,
    out: &mut RowSet,
) -> Result<Ran> {
    let locks = match &access {
        RowAccess::Locked(_, set) => set.needs.iter().map(|need| lock_line(of, need)).collect(),
        RowAccess::Cut(_) if of.plan.reads_only() => vec!["Snapshot: no locks".to_owned()],
        RowAccess::Cut(_) => return Err(read_only("EXPLAIN")),
    };
    let began = Instant::now();
    let (operators, seen) = match &of.plan {
        Plan::Analytical(plan) => {
            access.reading(plan.tables(), |roots| analytical(plan, asked.analyze, env, roots))?
        }
        Plan::Point(_) | Plan::Write(_) if asked.analyze => {
            let mut rows = RowSet::default();
            let ran = execute(of, env, access, visits_max, scratch, &mut rows)?;
            if let Ran::TooMany(_) = ran {
                return Ok(ran);
            }
            (operators(of, Some(scratch)), Some(ran.rows(&rows)))
        }
        _ if asked.analyze => {
            return Err(SqlError::unsupported(format!("EXPLAIN ANALYZE {}", of.tag)));
        }
        _ => (operators(of, None), None),
    };
    let execution = (seen.is_some() && planning.is_some())
        .then(|| format!("{:.3}", began.elapsed().as_secs_f64() * 1e3));
    let executor = executor(&of.plan);
    let explanation =
        Explanation { executor, locks, operators, learned, rows: seen, planning, execution };
    match asked.json {
        true => Ran::lines(&[explain_json::document(&explanation)], out),
        false => Ran::lines(&explanation.lines(), out),
    }
}

/// The lines of an analytical plan's operators, and its number of rows if it ran.
fn analytical(
    plan: &AnalyticalPlan,
    analyze: bool,
    env: &Env<'_>,
    roots: Roots<'_>,
) -> Result<(String, Option<u64>)> {
    if !analyze {
        return Ok((plan.explain()?, None));
    }
    let mut batches = plan.start(env, whole_roots(plan.tables(), roots))?;
    let mut rows = 0;
    for batch in batches.by_ref() {
        rows += batch?.num_rows() as u64;
    }
    Ok((batches.metrics().unwrap_or_default(), Some(rows)))
}

/// The lines of a row-at-a-time plan's operators, with counts if the plan ran last.
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
    let mode = told(need.mode);
    let partition = need.partition.map_or("all".to_owned(), |number| number.to_string());
    let count = table.cells.len();
    format!("Lock: {}.{} partition {partition} of {count}, {mode}", table.schema, table.name)
}
