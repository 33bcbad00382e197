//! A COPY in progress: a statement whose data comes or goes over many calls to its session.

use std::sync::Arc;

use halcyon_copy::{CopyIn, CopyOut, CopyPlan, DataPlace};
use halcyon_exec::point::Scratch;
use halcyon_plan::env::{Env, Locks};
use halcyon_prepare::plan::{Plan, Prepared};
use halcyon_sql::error::Result;
use halcyon_txn::Savepoint;

use crate::deferral::Deferrals;
use crate::execute::{Ran, RowAccess, read_only};
use crate::following::Following;
use crate::outcome::{Outcome, Tag};
use crate::transaction::{Block, Work};
use crate::workload::InClass;
use halcyon_exec::deadline::Deadline;

/// A COPY whose data has not ended, by its direction.
pub(crate) enum Copying {
    /// A COPY FROM STDIN that still waits for its transaction.
    Beginning(Arc<Prepared>, Box<CopyIn>),
    /// A COPY FROM STDIN that takes data.
    In(Box<Incoming>),
    /// A COPY TO STDOUT that gives data.
    Out(Box<CopyOut>),
    /// A SUBSCRIBE, which gives changes of a view as long as the view and the client exist.
    Following(Box<Following>),
}

/// A COPY FROM STDIN with the transaction into which it writes.
pub(crate) struct Incoming {
    pub prepared: Arc<Prepared>,
    pub input: CopyIn,
    pub home: Home,
    pub locks: Locks,
    /// Where the data begins, among the transaction's changes.
    pub since: Savepoint,
    /// Time at which the statement is cancelled; waiting for data counts.
    pub deadline: Option<Deadline>,
    /// The statement's membership in its workload class.
    pub in_class: Option<InClass>,
}

/// The transaction into which a COPY FROM STDIN writes, and which it keeps meanwhile.
pub(crate) enum Home {
    /// A transaction of the statement's own.
    Own(Work),
    /// The transaction of a block; the statement began at the savepoint.
    Block(Box<Block>, Savepoint),
}

impl Home {
    pub fn work(&mut self) -> &mut Work {
        match self {
            Home::Own(work) => work,
            Home::Block(block, _) => &mut block.work,
        }
    }

    /// The transaction, and the constraints that it puts off, if it is a block's.
    pub fn parts(&mut self) -> (&mut Work, Option<&mut Deferrals>) {
        match self {
            Home::Own(work) => (work, None),
            Home::Block(block, _) => {
                let Block { work, deferrals, .. } = &mut **block;
                (work, Some(deferrals))
            }
        }
    }
}

/// The plan of a statement that is a COPY.
pub(crate) fn plan_of(prepared: &Prepared) -> &CopyPlan {
    match &prepared.plan {
        Plan::Copy(plan) => plan,
        _ => unreachable!("{} is no COPY", prepared.tag),
    }
}

/// Begins a COPY, or runs it to its end if the data is in a file. `copying` takes a COPY that goes
/// on.
///
/// Errors: those of reading and writing; 25006 for COPY FROM if `access` is a cut.
pub(crate) fn begin(
    prepared: &Arc<Prepared>,
    env: &Env<'_>,
    access: RowAccess<'_>,
    scratch: &mut Scratch,
    copying: &mut Option<Copying>,
) -> Result<Ran> {
    let plan = plan_of(prepared);
    let (columns, binary) = (plan.column_count(), plan.is_binary());
    let copied = |rows| Outcome::Done(Tag::counted("COPY", rows));
    if plan.reads_only() {
        let outcome = access.reading(plan.tables(), |roots| match plan.place() {
            DataPlace::Client => {
                let output = plan.begin_output(env, roots, scratch)?;
                *copying = Some(Copying::Out(Box::new(output)));
                Ok(Outcome::CopyOut { columns, binary })
            }
            DataPlace::File(_) => plan.run_to_file(env, roots, scratch).map(copied),
        });
        return outcome.map(Ran::other);
    }
    Ok(Ran::other(match (plan.place(), access) {
        (_, RowAccess::Cut(_)) => return Err(read_only(prepared.tag)),
        (DataPlace::Client, RowAccess::Locked(..)) => {
            *copying = Some(Copying::Beginning(prepared.clone(), Box::new(plan.begin_input())));
            Outcome::CopyIn { columns, binary }
        }
        (DataPlace::File(_), RowAccess::Locked(tx, set)) => {
            copied(plan.run_from_file(env, tx, &set.locks)?)
        }
    }))
}
