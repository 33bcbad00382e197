//! Admission: a statement of a limited class passes the gate before it takes locks, or waits in the queue of its
//! class.
//!
//! A statement that waits holds neither a thread (over the wire) nor a worker nor a lock. COMMIT, ROLLBACK and
//! whatever else concerns the session alone never come to the gate, nor do a superuser's statements about classes and
//! over system views. A statement of a transaction that may hold
//! locks never waits there: others wait for these locks, inside.
//! Checked by `statements_of_a_limited_class_wait_and_hold_no_thread` and
//! `a_transaction_with_locks_is_never_held_up`.

use std::task::{Context, Poll};

use halcyon_base::{duty, parking};
use halcyon_plan::lock_errors::cancelled;
use halcyon_prepare::plan::{Plan, Prepared};
use halcyon_sql::error::Result;
use halcyon_workload::gate::Request;

use crate::acquire::LockWait;
use crate::session::Session;
use crate::session_class::passes_gate;
use crate::workload::{Admitted, Came, Waiting, refused};

impl Session {
    /// Lets the statement in. `false`: it waits, and its thread is not to.
    ///
    /// Errors: 53000 and its kin if the class takes no more; 57014.
    #[inline]
    pub(crate) fn pass_gate(&mut self, prepared: &Prepared) -> Result<bool> {
        match self.class.is_gated && self.admitted.is_none() && passes_gate(&prepared.plan) {
            true if self.looks_after(prepared) => Ok(true),
            true => self.come_to_gate(),
            false => Ok(true),
        }
    }

    /// Whether an administrator looks at the engine, or changes classes: the gate, and the brake above all, must not
    /// lock out the session that is to mend them.
    #[cold]
    fn looks_after(&self, prepared: &Prepared) -> bool {
        let is_own = match &prepared.plan {
            Plan::Ddl(ddl) => ddl.keeps_plans(),
            plan => plan.tables().is_empty(),
        };
        is_own && self.shared.catalog().is_superuser(&self.vars.user)
    }

    #[cold]
    fn come_to_gate(&mut self) -> Result<bool> {
        let waiting = match self.at_gate.take() {
            Some(waiting) => waiting,
            None => match self.shared.workload.arrive(self.request())? {
                Came::Admitted(admitted) => return Ok(self.let_in(admitted)),
                Came::Waits(waiting) => waiting,
            },
        };
        if self.lock_wait == LockWait::Blocks {
            duty::relieved(|| block_on(|context| poll_gate(&waiting, &self.cancel, context)));
        }
        match waiting.verdict() {
            Some(Ok(admitted)) => Ok(self.let_in(admitted)),
            Some(Err(rejection)) => Err(refused(&rejection)),
            None if self.cancel.is_cancelled() => Err(cancelled()),
            None => {
                self.at_gate = Some(waiting);
                Ok(false)
            }
        }
    }

    fn let_in(&mut self, admitted: Admitted) -> bool {
        let threads = admitted.threads() as usize;
        if threads > 0 {
            let own = &mut self.vars.placement.workers_max;
            *own = Some(own.map_or(threads, |own| own.min(threads)));
        }
        self.admitted = Some(admitted);
        true
    }

    fn request(&self) -> Request {
        let holds_locks =
            self.block.as_ref().is_some_and(|block| block.used && !block.reads_snapshot());
        let hinted = self.class.epoch == 0;
        Request {
            class: self.class.class,
            threads_wanted: u32::try_from(self.vars.threads).unwrap_or(u32::MAX),
            session: self.id,
            limits: hinted.then(|| self.class.limits.as_ref().clone()),
            text_hash: 0,
            holds_locks,
        }
    }

    /// Ready once the statement at the gate can go on, or is cancelled. `None`: no statement is there.
    pub(crate) fn poll_at_gate(&self, context: &mut Context<'_>) -> Option<Poll<()>> {
        let waiting = self.at_gate.as_ref()?;
        Some(poll_gate(waiting, &self.cancel, context))
    }
}

fn poll_gate(
    waiting: &Waiting,
    cancel: &halcyon_txn::CancelToken,
    context: &mut Context<'_>,
) -> Poll<()> {
    cancel.watch(context);
    match cancel.is_cancelled() {
        true => Poll::Ready(()),
        false => waiting.poll(context),
    }
}

/// Has the thread wait until `poll` is ready.
fn block_on(mut poll: impl FnMut(&mut Context<'_>) -> Poll<()>) {
    let waker = parking::waker();
    let mut context = Context::from_waker(&waker);
    while poll(&mut context).is_pending() {
        std::thread::park();
    }
}
