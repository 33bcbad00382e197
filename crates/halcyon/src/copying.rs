//! A COPY in progress: a statement whose data comes or goes over many calls of its session.

use std::sync::Arc;

use halcyon_exec::copy::{CopyIn, CopyOut, CopyPlan, Place as DataPlace};
use halcyon_exec::point::Scratch;
use halcyon_plan::env::{Env, Locks};
use halcyon_prepare::plan::{Plan, Prepared};
use halcyon_sql::error::Result;
use halcyon_txn::Savepoint;

use crate::deadline::Deadline;
use crate::execute::{Place, Ran, read_only};
use crate::following::Following;
use crate::outcome::{Outcome, Tag};
use crate::transaction::{Block, Work};

/// A COPY whose data has not ended.
pub(crate) enum Copying {
    /// COPY FROM STDIN, which waits for the transaction that it will write in.
    Beginning(Arc<Prepared>, Box<CopyIn>),
    /// COPY FROM STDIN takes data.
    In(Box<Incoming>),
    /// COPY TO STDOUT gives data.
    Out(Box<CopyOut>),
    /// SUBSCRIBE gives changes of a view until the view or the client goes.
    Following(Box<Following>),
}

/// COPY FROM STDIN with the transaction it writes in.
pub(crate) struct Incoming {
    pub prepared: Arc<Prepared>,
    pub input: CopyIn,
    pub home: Home,
    pub locks: Locks,
    /// When the statement is cancelled for its time, of which waiting for data is a part.
    pub deadline: Option<Deadline>,
}

/// The transaction that COPY FROM STDIN writes in, and keeps to itself meanwhile.
pub(crate) enum Home {
    /// The statement's own.
    Own(Work),
    /// A block's; the statement began at the savepoint.
    Block(Box<Block>, Savepoint),
}

impl Home {
    pub fn work(&mut self) -> &mut Work {
        match self {
            Home::Own(work) => work,
            Home::Block(block, _) => &mut block.work,
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

/// Begins a COPY, or runs all of it if the data is in a file. `copying` is what goes on.
///
/// Errors: those of reading and writing; 25006 if it is COPY FROM and `place` is a cut.
pub(crate) fn begin(
    prepared: &Arc<Prepared>,
    env: &Env<'_>,
    place: Place<'_>,
    scratch: &mut Scratch,
    copying: &mut Option<Copying>,
) -> Result<Ran> {
    let plan = plan_of(prepared);
    let (columns, binary) = (plan.column_count(), plan.is_binary());
    let copied = |rows| Outcome::Done(Tag::counted("COPY", rows));
    Ok(Ran::other(match (plan.reads_only(), plan.place(), place) {
        (true, DataPlace::Client, place) => {
            let output = plan.begin_output(env, place.roots(), scratch)?;
            *copying = Some(Copying::Out(Box::new(output)));
            Outcome::CopyOut { columns, binary }
        }
        (true, DataPlace::File(_), place) => {
            copied(plan.run_to_file(env, place.roots(), scratch)?)
        }
        (false, _, Place::Cut(_)) => return Err(read_only(prepared.tag)),
        (false, DataPlace::Client, Place::Locked(..)) => {
            *copying = Some(Copying::Beginning(prepared.clone(), Box::new(plan.begin_input())));
            Outcome::CopyIn { columns, binary }
        }
        (false, DataPlace::File(_), Place::Locked(tx, set)) => {
            copied(plan.run_from_file(env, tx, &set.locks, &mut |_, _| {})?)
        }
    }))
}
