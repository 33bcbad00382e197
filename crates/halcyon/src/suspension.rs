//! Suspended statements: a statement whose lock is somebody else's stands in the lock's queue and gives its
//! thread back; later it runs once more. A statement whose changes somebody else writes to the disk gives its thread
//! back when it has run; later it ends.
//!
//! A statement takes all its locks before it runs ([`crate::driver`]), so a suspended one has changed
//! nothing, and to go on is to run it again, with the locks that it has and its place in the queue kept. Its
//! time, its account of memory and its counts go on meanwhile.
//! Of the disk see [`halcyon_txn::DurableWait`]: who finds nobody there writes, for all who have come.
//! Checked by `statements_that_wait_for_locks_keep_no_thread`, `commits_that_wait_for_the_disk_keep_no_thread` and
//! `a_suspended_statement_ends_as_others_do`.

use std::task::{Context, Poll};
use std::time::Duration;

use halcyon_base::clock;
use halcyon_prepare::plan::Prepared;
use halcyon_sql::error::Result;
use halcyon_sql::rows::RowSet;
use halcyon_store::Value;
use halcyon_txn::Lsn;

use crate::acquire::LockWait;
use crate::durable::log_error;
use crate::execute::Ran;
use crate::outcome::Outcome;
use crate::session::Session;
use crate::statement::Statement;
use crate::suspended::Syncing;
use crate::transaction::Work;

/// What has become of a statement whose thread does not wait for locks or the disk.
pub enum Progress {
    /// The statement has ended.
    Done(Outcome),
    /// The statement stands in the queue of a lock: see [`Session::poll_lock`].
    Queued,
    /// The statement has run, and another writes what it wants on the disk: see [`Session::poll_disk`].
    Syncing,
}

impl Session {
    /// Runs a statement, as [`Session::run`] does, until it would wait for a lock, or while another thread is at the
    /// disk. Once [`Session::poll_lock`] or [`Session::poll_disk`] is ready, the same call with the same statement and
    /// parameters goes on. Nothing else may be run by the session meanwhile but a rollback, which abandons the
    /// statement; what it has committed stays so.
    ///
    /// Errors: those of the statement; a transaction block counts as failed then.
    pub fn run_or_queue(&mut self, statement: &Statement, params: &[Value]) -> Result<Progress> {
        if let Some(syncing) = self.syncing.take() {
            let _entered = self.account.id().enter();
            return self.sync(statement, syncing);
        }
        let mut out = RowSet::default();
        let kept = self.suspended.as_mut().and_then(|suspended| suspended.run.take());
        let (run, _entered) = match kept {
            Some(run) => (run, self.account.id().enter()),
            None => self.begin_run(statement),
        };
        (self.lock_wait, self.may_owe) = (LockWait::Suspends, true);
        let ran = self.dispatched(statement, params, &mut out);
        (self.lock_wait, self.may_owe) = (LockWait::Blocks, false);
        if let Ok(Ran::Queued) = ran {
            // The driver has put aside a transaction that stands in a queue.
            let suspended = self.suspended.get_or_insert_default();
            suspended.run = Some(run);
            return Ok(Progress::Queued);
        }
        // A statement that was refused before it went on leaves its queue.
        self.suspended = None;
        self.await_no_more();
        let owed = self.owed.take();
        match (ran, &self.shared.durable) {
            (Ok(ran), Some(durable)) if owed != Lsn::default() => {
                let wait = durable.log.wait_as_task(owed);
                self.sync(statement, Box::new(Syncing { run, ran, out, wait }))
            }
            (ran, _) => {
                let ran = self.end_run(run, ran, &out)?;
                Ok(Progress::Done(self.dress(statement, ran, out)))
            }
        }
    }

    /// Ends a statement that has run, if the log is durable. Errors: those of the log.
    fn sync(&mut self, statement: &Statement, mut syncing: Box<Syncing>) -> Result<Progress> {
        self.entry.set_syncing(true);
        let synced = match self.timed_at_disk(|| syncing.wait.advance()) {
            Ok(false) => {
                self.syncing = Some(syncing);
                return Ok(Progress::Syncing);
            }
            Ok(true) => Ok(()),
            Err(error) => Err(log_error(error)),
        };
        self.entry.set_syncing(false);
        self.shared.send_notifications();
        let Syncing { run, ran, out, .. } = *syncing;
        if synced.is_err() {
            self.copying = None;
            self.fail_transaction();
        }
        let ran = self.end_run(run, synced.map(|()| ran), &out)?;
        Ok(Progress::Done(self.dress(statement, ran, out)))
    }

    /// Ready once the statement that [`Session::run_or_queue`] has left to the disk can go on. The caller goes on when
    /// [`Session::disk_time_left`] is over, too.
    pub fn poll_disk(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.syncing {
            Some(syncing) => syncing.wait.poll(context),
            None => Poll::Ready(()),
        }
    }

    /// After what time the statement that waits for the disk goes on though nobody has woken it; `None`: it need not.
    pub fn disk_time_left(&self) -> Option<Duration> {
        self.syncing.as_ref()?.wait.time_left()
    }

    /// Waits for the disk no more.
    pub(crate) fn leave_disk(&mut self) {
        if self.syncing.take().is_some() {
            self.entry.set_syncing(false);
            // What was committed stays so, and others may have to hear of it.
            if let Some(durable) = &self.shared.durable {
                durable.log.soon();
            }
        }
    }

    /// Ready once the statement that [`Session::run_or_queue`] has left in a queue can go on: its lock has come,
    /// its time is over, or it was cancelled. The end of `lock_timeout` is the caller's to watch
    /// ([`Session::lock_time_left`]).
    pub fn poll_lock(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(poll) = self.poll_at_gate(context) {
            return poll;
        }
        let awaiting = self.entry.awaiting.lock();
        if let Some(poll) = awaiting.poll(&self.shared.advisory, self.id, &self.cancel, context) {
            return poll;
        }
        drop(awaiting);
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
        let awaiting = self.entry.awaiting.lock();
        if awaiting.is_waiting() {
            return awaiting.time_left();
        }
        drop(awaiting);
        let deadline = self.queued_work()?.tx.wait_deadline()?;
        Some(deadline.since(clock::now()))
    }

    /// Whether the statement that has just run is to be run again, since its function waits.
    pub(crate) fn awaits(&self) -> bool {
        let mut awaiting = self.entry.awaiting.lock();
        let taken = awaiting.taken();
        if !taken {
            awaiting.leave(&self.shared.advisory, self.id);
        }
        taken
    }

    /// Whether a function of the statement may wait without a thread.
    pub(crate) fn may_await(&self, prepared: &Prepared) -> bool {
        prepared.waits_once && self.lock_wait == LockWait::Suspends
    }

    /// Has the session's function wait no more, if one does.
    pub(crate) fn await_no_more(&self) {
        let mut awaiting = self.entry.awaiting.lock();
        if awaiting.is_waiting() {
            awaiting.leave(&self.shared.advisory, self.id);
        }
    }

    /// The transaction that stands in a queue.
    fn queued_work(&self) -> Option<&Work> {
        let suspended = self.suspended.as_ref()?;
        suspended.work.as_ref().or_else(|| self.block.as_ref().map(|block| &block.work))
    }
}
