//! Waits of functions: a statement that consists of one call of a function that waits (`pg_sleep`, or one for an
//! advisory lock) gives its thread back meanwhile, as one does that stands in a lock's queue
//! ([`crate::suspension`]). Once the wait is over the statement runs once more, and its call finds the wait done.
//!
//! Such a statement has done nothing before its call ([`Prepared::waits_once`]), so that it may run again. A call
//! elsewhere (beside others with effects, over rows of tables) keeps its thread.
//! Checked by `functions_that_wait_keep_no_thread` and `a_wait_of_a_function_ends_as_others_do`.
//!
//! [`Prepared::waits_once`]: halcyon_prepare::plan::Prepared::waits_once

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use halcyon_pgcatalog::AdvisoryRequest;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_txn::CancelToken;

use crate::advisory::AdvisoryLocks;

/// The wait of a session's function.
#[derive(Debug, Default)]
pub(crate) struct Awaiting {
    /// Whether the statement under way may be run again.
    is_offered: bool,
    /// Whether the statement's call has asked for that.
    is_asked: bool,
    /// The wait, from its first run until it is over.
    wait: Option<Wait>,
}

/// Something that a function waits for.
#[derive(Clone, Copy, Debug)]
enum Wait {
    /// `pg_sleep`; `None` for as long as a clock can tell.
    Sleep { until: Option<Instant> },
    /// An advisory lock, whose queue the session stands in.
    Lock { deadline: Option<Instant> },
}

/// What a function that waits does.
pub(crate) enum Step {
    /// Going on: the wait is over.
    Over,
    /// Waiting in its thread.
    Blocks,
    /// Ending with this error, which nobody sees: the statement is run again.
    Ends(SqlError),
}

impl Awaiting {
    /// Begins a run of a statement that may be run again.
    pub fn offer(&mut self) {
        (self.is_offered, self.is_asked) = (true, false);
    }

    /// Ends the run; whether the statement is to be run again.
    pub fn taken(&mut self) -> bool {
        self.is_offered = false;
        std::mem::take(&mut self.is_asked)
    }

    /// Begins, or goes on with, a `pg_sleep`.
    pub fn sleep(&mut self, time: Duration, cancel: &CancelToken) -> Step {
        if !self.is_offered || cancel.is_cancelled() {
            return Step::Blocks;
        }
        let until = match self.wait {
            Some(Wait::Sleep { until }) => until,
            Some(Wait::Lock { .. }) | None => Instant::now().checked_add(time),
        };
        if until.is_some_and(|until| Instant::now() >= until) {
            self.wait = None;
            return Step::Over;
        }
        self.suspends(Wait::Sleep { until })
    }

    /// Begins, or goes on with, a wait for a lock that is somebody else's.
    pub fn lock(
        &mut self,
        locks: &AdvisoryLocks,
        session: u32,
        request: AdvisoryRequest,
        cancel: &CancelToken,
        timeout: Option<Duration>,
    ) -> Result<Step> {
        if !self.is_offered {
            return Ok(Step::Blocks);
        }
        let deadline = match self.wait {
            Some(Wait::Lock { deadline }) => deadline,
            Some(Wait::Sleep { .. }) | None => {
                timeout.and_then(|timeout| Instant::now().checked_add(timeout))
            }
        };
        match locks.take_or_queue(session, request, cancel, deadline)? {
            true => {
                self.wait = None;
                Ok(Step::Over)
            }
            false => Ok(self.suspends(Wait::Lock { deadline })),
        }
    }

    fn suspends(&mut self, wait: Wait) -> Step {
        (self.wait, self.is_asked) = (Some(wait), true);
        let message = "the statement is run again once its wait is over";
        Step::Ends(SqlError::new(SqlState::INTERNAL_ERROR, message))
    }

    /// Ready once the statement can be run again, but for the end of its time ([`Awaiting::time_left`]); `None`: no
    /// function waits.
    pub fn poll(
        &self,
        locks: &AdvisoryLocks,
        session: u32,
        cancel: &CancelToken,
        context: &mut Context<'_>,
    ) -> Option<Poll<()>> {
        let wait = self.wait?;
        cancel.watch(context);
        Some(match wait {
            _ if cancel.is_cancelled() => Poll::Ready(()),
            Wait::Sleep { until: Some(until) } if Instant::now() >= until => Poll::Ready(()),
            Wait::Sleep { .. } => Poll::Pending,
            Wait::Lock { .. } => locks.poll(session, context),
        })
    }

    /// After what time the statement is run again though nobody has woken it.
    pub fn time_left(&self) -> Option<Duration> {
        let end = match self.wait? {
            Wait::Sleep { until } => until,
            Wait::Lock { deadline } => deadline,
        };
        Some(end?.saturating_duration_since(Instant::now()))
    }

    /// Whether a function waits.
    pub fn is_waiting(&self) -> bool {
        self.wait.is_some()
    }

    /// Waits no more.
    pub fn leave(&mut self, locks: &AdvisoryLocks, session: u32) {
        if let Some(Wait::Lock { .. }) = self.wait.take() {
            locks.leave(session);
        }
        *self = Awaiting::default();
    }
}
