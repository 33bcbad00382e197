//! COPY between a session and its caller: data in with [`Session::copy_data`] and
//! [`Session::copy_end`], data out with [`Session::copy_out`].
//!
//! COPY FROM STDIN is one statement that spans many calls. It keeps the transaction to itself
//! meanwhile, so no other statement can run in the session; an error anywhere undoes all of it.
//! COPY TO STDOUT has read its roots when it begins and holds no lock for the data's sake.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use halcyon_query::copy::{CopyIn, CopyOut, CopyPlan, Place};
use halcyon_query::error::{Result, SqlError, SqlState};
use halcyon_query::exec::{Clock, Env, Locks, Roots};
use halcyon_query::plan::{Plan, Prepared};
use halcyon_query::point::Scratch;
use halcyon_txn::{Savepoint, Transaction};

use crate::outcome::{Outcome, Tag};
use crate::run::TableRoots;
use crate::session::Session;
use crate::subscribe::Following;
use crate::transaction::Active;

/// A COPY whose data has not ended.
pub(crate) enum Copying {
    /// It waits for the transaction that it will write in.
    Beginning(Arc<Prepared>, Box<CopyIn>),
    /// It takes data.
    In(Box<Incoming>),
    /// It gives data.
    Out(Box<CopyOut>),
    /// SUBSCRIBE: it gives changes of a view until the view or the client goes.
    Following(Box<Following>),
}

/// COPY FROM STDIN with the transaction it writes in.
pub(crate) struct Incoming {
    prepared: Arc<Prepared>,
    input: CopyIn,
    active: Box<Active>,
    locks: Locks,
    /// Where the statement began in the transaction.
    start: Savepoint,
    /// The transaction is the statement's own.
    implicit: bool,
}

fn plan_of(prepared: &Prepared) -> &CopyPlan {
    match &prepared.plan {
        Plan::Copy(plan) => plan,
        _ => unreachable!("{} is no COPY", prepared.tag),
    }
}

/// Begins a COPY under locks, or runs all of it if the data is in a file.
pub(crate) fn start(
    prepared: &Arc<Prepared>,
    env: &Env<'_>,
    tx: &mut Transaction,
    locks: &Locks,
    scratch: &mut Scratch,
) -> Result<(Option<Copying>, Outcome)> {
    let plan = plan_of(prepared);
    let (columns, binary) = (plan.column_count(), plan.is_binary());
    match (plan.reads_only(), plan.place()) {
        (true, Place::Client) => {
            let output = plan.begin_output(env, Roots::Locked(tx, locks), scratch)?;
            Ok((Some(Copying::Out(Box::new(output))), Outcome::CopyOut { columns, binary }))
        }
        (false, Place::Client) => {
            let begun = Copying::Beginning(prepared.clone(), Box::new(plan.begin_input()));
            Ok((Some(begun), Outcome::CopyIn { columns, binary }))
        }
        (true, Place::File(_)) => {
            let rows = plan.run_to_file(env, Roots::Locked(tx, locks), scratch)?;
            Ok((None, copied(rows)))
        }
        (false, Place::File(_)) => {
            let rows = plan.run_from_file(env, tx, locks, &mut |_, _| {})?;
            Ok((None, copied(rows)))
        }
    }
}

/// Begins a COPY TO on a snapshot, or runs all of it if the data goes to a file.
pub(crate) fn start_on_snapshot(
    plan: &CopyPlan,
    env: &Env<'_>,
    roots: TableRoots,
    scratch: &mut Scratch,
) -> Result<(Option<Copying>, Outcome)> {
    let roots = Roots::Snapshot(&roots);
    if let Place::File(_) = plan.place() {
        return Ok((None, copied(plan.run_to_file(env, roots, scratch)?)));
    }
    let output = plan.begin_output(env, roots, scratch)?;
    let outcome = Outcome::CopyOut { columns: plan.column_count(), binary: plan.is_binary() };
    Ok((Some(Copying::Out(Box::new(output))), outcome))
}

fn copied(rows: u64) -> Outcome {
    Outcome::Done(Tag::counted("COPY", rows))
}

fn not_copying() -> SqlError {
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "no COPY is in progress")
}

impl Session {
    /// Gives bytes to a COPY FROM STDIN, cut anywhere.
    ///
    /// Errors: what a row is refused for, with its line; nothing of the COPY stays then.
    pub fn copy_data(&mut self, bytes: &[u8]) -> Result<()> {
        let mut copy = self.take_incoming()?;
        let pushed = self.guarded(|session| {
            let Incoming { prepared, input, active, locks, .. } = &mut *copy;
            let catalog = active.catalog.as_ref().unwrap_or(&session.catalog);
            let env = Env {
                catalog,
                params: &[],
                session: &session.vars,
                clock: Clock::since(active.started_us),
                cancel: &session.cancel,
            };
            if session.cancel.is_cancelled() {
                return Err(cancelled());
            }
            input.push(plan_of(prepared), bytes, &env, &mut active.tx, locks)
        });
        match pushed {
            Ok(()) => {
                self.copying = Some(Copying::In(copy));
                Ok(())
            }
            Err(error) => {
                self.undo_copy(*copy);
                Err(error)
            }
        }
    }

    /// Ends the data of a COPY FROM STDIN and says how many rows it stored.
    ///
    /// Errors: as those of [`Session::copy_data`], and those of a commit.
    pub fn copy_end(&mut self) -> Result<Tag> {
        let copy = self.take_incoming()?;
        let Incoming { prepared, input, mut active, locks, start, implicit } = *copy;
        let finished = self.guarded(|session| {
            let catalog = active.catalog.as_ref().unwrap_or(&session.catalog);
            let env = Env {
                catalog,
                params: &[],
                session: &session.vars,
                clock: Clock::since(active.started_us),
                cancel: &session.cancel,
            };
            input.finish(plan_of(&prepared), &env, &mut active.tx, &locks)
        });
        match finished {
            Ok(rows) => {
                active.tx.end_statement();
                match implicit {
                    true => self.commit_active(active)?,
                    false => self.active = Some(active),
                }
                Ok(Tag::counted("COPY", rows))
            }
            Err(error) => {
                self.undo_statement(active, start, implicit);
                Err(error)
            }
        }
    }

    /// Fetches data of a COPY TO STDOUT: calls `row` for each message's worth, which is a row (or
    /// the header, or the trailer), and returns the tag after the last.
    ///
    /// Blocks while the query computes. A subscription gives no row where nothing has changed for a
    /// moment, and has no end. Errors: the query's; a transaction block is failed then.
    pub fn copy_out(&mut self, mut row: impl FnMut(&[u8])) -> Result<Option<Tag>> {
        let mut output = match self.copying.take() {
            Some(Copying::Out(output)) => output,
            Some(Copying::Following(following)) => return self.follow_on(following, row),
            _ => return Err(not_copying()),
        };
        let chunk = self.guarded(|session| match session.cancel.is_cancelled() {
            true => Err(cancelled()),
            false => output.next_chunk(),
        });
        match chunk {
            Ok(Some(chunk)) => {
                let mut start = 0;
                for end in output.row_ends() {
                    row(&chunk[start..*end]);
                    start = *end;
                }
                self.copying = Some(Copying::Out(output));
                Ok(None)
            }
            Ok(None) => Ok(Some(Tag::counted("COPY", output.rows()))),
            Err(error) => {
                self.fail_transaction();
                Err(error)
            }
        }
    }

    /// The next lines of a subscription; none if nothing has changed for a moment.
    fn follow_on(
        &mut self,
        mut following: Box<Following>,
        row: impl FnMut(&[u8]),
    ) -> Result<Option<Tag>> {
        if self.cancel.is_cancelled() {
            return Err(cancelled());
        }
        self.guarded(|session| following.lines(session, row))?;
        self.copying = Some(Copying::Following(following));
        Ok(None)
    }

    /// Gives up a COPY in progress; nothing of it stays. A transaction block is failed.
    pub fn copy_abandon(&mut self) {
        match self.copying.take() {
            Some(Copying::In(copy)) => self.undo_copy(*copy),
            Some(Copying::Out(_)) => self.fail_transaction(),
            Some(Copying::Following(_)) => {}
            Some(Copying::Beginning(..)) | None => {}
        }
    }

    /// Gives a COPY FROM STDIN that has begun the transaction it writes in.
    pub(crate) fn copy_continues(&mut self, mut active: Box<Active>, implicit: bool) {
        let Some(Copying::Beginning(prepared, input)) = self.copying.take() else {
            unreachable!("only COPY FROM STDIN goes on");
        };
        let start = active.tx.savepoint();
        let locks = std::mem::take(&mut self.locks);
        let input = *input;
        let copy = Incoming { prepared, input, active, locks, start, implicit };
        self.copying = Some(Copying::In(Box::new(copy)));
    }

    /// Whether a COPY FROM STDIN has just begun, which takes the transaction along.
    pub(crate) fn copy_begins(&self) -> bool {
        matches!(self.copying, Some(Copying::Beginning(..)))
    }

    fn take_incoming(&mut self) -> Result<Box<Incoming>> {
        match self.copying.take() {
            Some(Copying::In(copy)) => Ok(copy),
            other => {
                self.copying = other;
                Err(not_copying())
            }
        }
    }

    fn undo_copy(&mut self, copy: Incoming) {
        self.undo_statement(copy.active, copy.start, copy.implicit);
    }

    fn undo_statement(&mut self, mut active: Box<Active>, start: Savepoint, implicit: bool) {
        if implicit {
            return drop(active);
        }
        active.tx.rollback_to(start);
        active.tx.end_statement();
        active.failed = true;
        self.active = Some(active);
    }

    /// A panic in `work` is an error XX000, as it is in any statement.
    fn guarded<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        match catch_unwind(AssertUnwindSafe(|| work(self))) {
            Ok(done) => done,
            Err(panic) => Err(self.after_panic(panic.as_ref())),
        }
    }
}

fn cancelled() -> SqlError {
    SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to user request")
}
