//! COPY between a session and its caller: data comes in by [`Session::copy_data`] and
//! [`Session::copy_end`], and goes out by [`Session::copy_out`].
//!
//! COPY FROM STDIN is one statement that spans many calls. Meanwhile the statement keeps the
//! transaction, so no other statement can run in the session; an error in any call undoes the whole
//! COPY. COPY TO STDOUT reads its roots when it begins, and holds no lock for its data.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arrow::array::RecordBatch;
use halcyon_base::parking;
use halcyon_catalog::Catalog;
use halcyon_copy::{CopyIn, CopyPlan};
use halcyon_plan::env::{Clock, Env, Locks};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_txn::Transaction;

use crate::copying::{Copying, Home, Incoming, plan_of};
use crate::deferral::settle;
use crate::following::{Following, LOOK};
use crate::outcome::Tag;
use crate::session::Session;
use crate::transaction::Work;
use halcyon_exec::deadline::Deadline;
use halcyon_plan::lock_errors::cancelled;

/// The error of a COPY, renamed if a timeout was the reason for its cancellation.
fn named(error: SqlError, deadline: Option<&Deadline>) -> SqlError {
    match deadline.is_some_and(Deadline::passed) {
        true => Deadline::name(error),
        false => error,
    }
}

fn not_copying() -> SqlError {
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "no COPY is in progress")
}

impl Session {
    /// Gives bytes to a COPY FROM STDIN; they may be cut anywhere.
    ///
    /// Errors: a row is refused, with the row's line; the whole COPY is undone then.
    pub fn copy_data(&mut self, bytes: &[u8]) -> Result<()> {
        self.copy_in(|input, plan, env, tx, locks| input.push(plan, bytes, env, tx, locks))
    }

    /// Gives a record batch to a COPY FROM STDIN, in place of bytes; columns are found by name, or by position if
    /// no name fits. Errors: as [`Session::copy_data`], 22P04, 0A000 for a type that SQL does not know.
    pub fn copy_batch(&mut self, batch: &RecordBatch) -> Result<()> {
        self.copy_in(|input, plan, env, tx, locks| input.push_batch(plan, batch, env, tx, locks))
    }

    fn copy_in<F>(&mut self, push: F) -> Result<()>
    where
        F: FnOnce(&mut CopyIn, &CopyPlan, &Env<'_>, &mut Transaction, &Locks) -> Result<()>,
    {
        let mut copy = self.take_incoming()?;
        let pushed = self.guarded(|session| {
            let Incoming { prepared, input, home, locks, .. } = &mut *copy;
            if session.cancel.is_cancelled() {
                return Err(cancelled());
            }
            let Work { tx, catalog, started_us } = home.work();
            let catalog = catalog.as_ref().unwrap_or(&session.catalog);
            tx.begin_statement();
            push(input, plan_of(prepared), &session.env(catalog, *started_us), tx, locks)?;
            // The client takes its time with the next data.
            tx.rest();
            Ok(())
        });
        match pushed {
            Ok(()) => {
                self.copying = Some(Copying::In(copy));
                Ok(())
            }
            Err(error) => {
                let Incoming { home, deadline, .. } = *copy;
                self.undo_copy(home);
                Err(named(error, deadline.as_ref()))
            }
        }
    }

    /// Ends the data of a COPY FROM STDIN; returns how many rows it stored.
    ///
    /// Errors: as [`Session::copy_data`], and those of a commit.
    pub fn copy_end(&mut self) -> Result<Tag> {
        let Incoming { prepared, input, mut home, locks, since, deadline, in_class: _in_class } =
            *self.take_incoming()?;
        let finished = self.guarded(|session| {
            if session.cancel.is_cancelled() {
                return Err(cancelled());
            }
            let (Work { tx, catalog, started_us }, deferrals) = home.parts();
            let catalog = catalog.as_ref().unwrap_or(&session.catalog);
            tx.begin_statement();
            let (plan, env) = (plan_of(&prepared), session.env(catalog, *started_us));
            let rows = input.finish(plan, &env, tx, &locks)?;
            let limits = session.acquisition().limits;
            settle(plan.deferrable(), since, deferrals, catalog, tx, &limits)?;
            Ok(rows)
        });
        match finished {
            Ok(rows) => {
                home.work().tx.end_statement();
                match home {
                    Home::Own(work) => self.commit_work(work)?,
                    Home::Block(block, _) => self.block = Some(block),
                }
                Ok(Tag::counted("COPY", rows))
            }
            Err(error) => {
                self.undo_copy(home);
                Err(self.without_hidden_rows(named(error, deadline.as_ref())))
            }
        }
    }

    /// The environment for reading a COPY's data.
    fn env<'a>(&'a self, catalog: &'a Arc<Catalog>, started_us: i64) -> Env<'a> {
        Env {
            catalog,
            params: &[],
            session: &self.vars,
            clock: Clock::since(started_us).of_statement_at(self.entry.statement_began()),
            cancel: &self.cancel,
            workers: Some(&self.shared.datafusion),
        }
    }

    /// Undoes a COPY FROM STDIN: alone if it runs in a block, which then counts as failed.
    fn undo_copy(&mut self, home: Home) {
        if let Home::Block(mut block, start) = home {
            block.work.tx.begin_statement();
            block.work.tx.rollback_to(start);
            block.work.tx.end_statement();
            self.fail_block(&mut block);
            self.block = Some(block);
        }
    }

    /// Fetches data of a COPY TO STDOUT: calls `row` for each message, which is a row, the header
    /// or the trailer. Returns the tag behind the last one.
    ///
    /// Blocks while the query computes. A subscription gives no row if nothing has changed
    /// ([`Session::wait_for_changes`], [`Session::poll_changes`]), and never ends. Errors: those of the query; a
    /// transaction block counts as failed then.
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

    /// Whether a subscription is open: its rows do not end.
    pub fn is_following(&self) -> bool {
        matches!(self.copying, Some(Copying::Following(_)))
    }

    /// Ready once the view of the open subscription has changed. The caller looks at least every [`Session::CHANGES_WAIT`]:
    /// views over streams change when somebody looks, and clients want signs of life.
    pub fn poll_changes(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.copying {
            Some(Copying::Following(following)) => following.poll_changes(context),
            _ => Poll::Ready(()),
        }
    }

    /// The longest time between two looks at an open subscription.
    pub const CHANGES_WAIT: Duration = LOOK;

    /// Waits until the view of the open subscription has changed, at most [`Session::CHANGES_WAIT`].
    pub fn wait_for_changes(&mut self) {
        if self.poll_changes(&mut Context::from_waker(&parking::waker())).is_pending() {
            std::thread::park_timeout(LOOK);
        }
    }

    /// Gives the next lines of a subscription to `row`; none if nothing has changed.
    fn follow_on(
        &mut self,
        mut following: Box<Following>,
        row: impl FnMut(&[u8]),
    ) -> Result<Option<Tag>> {
        if self.cancel.is_cancelled() {
            return Err(cancelled());
        }
        self.guarded(|session| {
            session.refuse_hidden(&mut following)?;
            following.lines(&session.acquisition().stream_views(), row)
        })?;
        self.copying = Some(Copying::Following(following));
        Ok(None)
    }

    /// Abandons a COPY in progress and undoes it. A transaction block counts as failed.
    pub fn copy_abandon(&mut self) {
        match self.copying.take() {
            Some(Copying::In(copy)) => self.undo_copy(copy.home),
            Some(Copying::Out(_)) => self.fail_transaction(),
            Some(Copying::Following(_)) => {}
            Some(Copying::Beginning(..)) | None => {}
        }
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
}
