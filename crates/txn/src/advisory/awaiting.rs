//! Waits of functions: a statement that consists of one call of a function that waits (for time to pass, or for an
//! advisory lock) gives its thread back meanwhile. The call ends the run, the wait is polled, and once that is over the
//! statement runs once more, and its call finds the wait done.
//!
//! Such a statement has done nothing before its call, so that it may run again. A call elsewhere keeps its thread.
//! Checked by the models in `advisory/models.rs`.

use std::hash::Hash;
use std::task::{Context, Poll};
use std::time::Duration;

use halcyon_base::clock::{self, Moment};

use super::{AdvisoryError, AdvisoryLocks, AdvisoryRequest};
use crate::event::CancelToken;

/// The wait of a session's function.
#[derive(Debug, Default)]
pub struct Awaiting {
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
    /// A moment.
    Sleep { until: Moment },
    /// An advisory lock, whose queue the session stands in.
    Lock { deadline: Option<Moment> },
}

/// What a function that waits does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Going on: the wait is over.
    Over,
    /// Waiting in its thread.
    Blocks,
    /// Ending with an error that nobody sees: the statement is run again.
    Suspends,
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

    /// Begins, or goes on with, a wait for time to pass.
    pub fn sleep(&mut self, time: Duration, cancel: &CancelToken) -> Step {
        if !self.is_offered || cancel.is_cancelled() {
            return Step::Blocks;
        }
        let until = match self.wait {
            Some(Wait::Sleep { until }) => until,
            Some(Wait::Lock { .. }) | None => clock::now().plus(time),
        };
        if clock::now() >= until {
            self.wait = None;
            return Step::Over;
        }
        self.suspends(Wait::Sleep { until })
    }

    /// Begins, or goes on with, a wait for a lock that is somebody else's.
    ///
    /// Errors: [`AdvisoryError`]; the session stands in no queue then.
    pub fn lock<K: Copy + Eq + Hash>(
        &mut self,
        locks: &AdvisoryLocks<K>,
        session: u32,
        request: AdvisoryRequest<K>,
        cancel: &CancelToken,
        timeout: Option<Duration>,
    ) -> Result<Step, AdvisoryError> {
        if !self.is_offered {
            return Ok(Step::Blocks);
        }
        let deadline = match self.wait {
            Some(Wait::Lock { deadline }) => deadline,
            Some(Wait::Sleep { .. }) | None => timeout.map(|timeout| clock::now().plus(timeout)),
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
        Step::Suspends
    }

    /// Ready once the statement can be run again, but for the end of its time ([`Awaiting::time_left`]); `None`: no
    /// function waits.
    pub fn poll<K: Copy + Eq + Hash>(
        &self,
        locks: &AdvisoryLocks<K>,
        session: u32,
        cancel: &CancelToken,
        context: &mut Context<'_>,
    ) -> Option<Poll<()>> {
        let wait = self.wait?;
        cancel.watch(context);
        Some(match wait {
            _ if cancel.is_cancelled() => Poll::Ready(()),
            Wait::Sleep { until } if clock::now() >= until => Poll::Ready(()),
            Wait::Sleep { .. } => Poll::Pending,
            Wait::Lock { .. } => locks.poll(session, context),
        })
    }

    /// After what time the statement is run again though nobody has woken it.
    pub fn time_left(&self) -> Option<Duration> {
        let end = match self.wait? {
            Wait::Sleep { until } => Some(until),
            Wait::Lock { deadline } => deadline,
        };
        Some(end?.since(clock::now()))
    }

    /// Whether a function waits.
    pub fn is_waiting(&self) -> bool {
        self.wait.is_some()
    }

    /// Waits no more.
    pub fn leave<K: Copy + Eq + Hash>(&mut self, locks: &AdvisoryLocks<K>, session: u32) {
        if let Some(Wait::Lock { .. }) = self.wait.take() {
            locks.leave(session);
        }
        *self = Awaiting::default();
    }
}
