//! Suspended statements: a statement whose lock is somebody else's stands in the lock's queue and gives its
//! thread back; later it runs once more.
//!
//! A statement takes all its locks before it runs ([`crate::driver`]), so a suspended one has changed
//! nothing, and to go on is to run it again, with the locks that it has and its place in the queue kept. Its
//! time, its account of memory and its counts go on meanwhile.
//! Checked by `statements_that_wait_for_locks_keep_no_thread` and `a_suspended_statement_ends_as_others_do`.

use std::task::{Context, Poll};
use std::time::Duration;

use halcyon_base::clock;
use halcyon_sql::error::Result;
use halcyon_sql::rows::RowSet;
use halcyon_store::Value;

use crate::acquire::LockWait;
use crate::execute::Ran;
use crate::outcome::Outcome;
use crate::session::Session;
use crate::statement::Statement;
use crate::transaction::Work;

/// What has become of a statement whose thread does not wait for locks.
pub enum Progress {
    /// The statement has ended.
    Done(Outcome),
    /// The statement stands in the queue of a lock: see [`Session::poll_lock`].
    Queued,
}

impl Session {
    /// Runs a statement, as [`Session::run`] does, until it would wait for a lock. Once
    /// [`Session::poll_lock`] is ready, the same call with the same statement and parameters goes on. Nothing
    /// else may be run by the session meanwhile but a rollback, which abandons the statement.
    ///
    /// Errors: those of the statement; a transaction block counts as failed then.
    pub fn run_or_queue(&mut self, statement: &Statement, params: &[Value]) -> Result<Progress> {
        let mut out = RowSet::default();
        let kept = self.suspended.as_mut().and_then(|suspended| suspended.run.take());
        let (run, _entered) = match kept {
            Some(run) => (run, self.account.id().enter()),
            None => self.begin_run(statement),
        };
        self.lock_wait = LockWait::Suspends;
        let ran = self.dispatched(statement, params, &mut out);
        self.lock_wait = LockWait::Blocks;
        if let Ok(Ran::Queued) = ran {
            let suspended = self.suspended.as_mut().expect("the driver has put it aside");
            suspended.run = Some(run);
            return Ok(Progress::Queued);
        }
        // A statement that was refused before it went on leaves its queue.
        self.suspended = None;
        let ran = self.end_run(run, ran, &out)?;
        Ok(Progress::Done(self.dress(statement, ran, out)))
    }

    /// Ready once the statement that [`Session::run_or_queue`] has left in a queue can go on: its lock has come,
    /// its time is over, or it was cancelled. The end of `lock_timeout` is the caller's to watch
    /// ([`Session::lock_time_left`]).
    pub fn poll_lock(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(poll) = self.poll_at_gate(context) {
            return poll;
        }
        match self.queued_work() {
            Some(work) => work.tx.poll_wait(context),
            None => Poll::Ready(()),
        }
    }

    /// How long the suspended statement may still wait; `None` if as long as it takes.
    pub fn lock_time_left(&self) -> Option<Duration> {
        if self.at_gate.is_some() {
            return None;
        }
        let deadline = self.queued_work()?.tx.wait_deadline()?;
        Some(deadline.since(clock::now()))
    }

    /// The transaction that stands in a queue.
    fn queued_work(&self) -> Option<&Work> {
        let suspended = self.suspended.as_ref()?;
        suspended.work.as_ref().or_else(|| self.block.as_ref().map(|block| &block.work))
    }
}
