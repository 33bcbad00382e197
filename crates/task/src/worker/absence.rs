//! Workers that are taken away while the runtime runs, and come back.
//!
//! Words: an *absent* worker has no thread. It is owned by nobody's group ([`GroupId::ABSENT`]), so
//! that nothing is placed on it; a task that reaches its inbox all the same is handed on to another
//! worker, by the thread that pushed it. Resources at home there are latched, as those of a worker
//! that is preempted (`HomeMode`).
//!
//! Invariant, checked by the model `worker_leaves_while_tasks_are_pushed_to_it` with a planted bug: a
//! task in the inbox of an absent worker is being handed on. The leaving worker says that it is absent
//! first and looks at its inboxes then; the thread that pushes does so first and looks whether the worker is
//! absent then.

use super::Context;
use super::shared::{ABSENT, BUSY};
use crate::group_table::GroupId;
use crate::planted;
use halcyon_base::sync::Arc;
use halcyon_base::sync::atomic::{Ordering, fence};

impl Context {
    /// Whether the worker was taken away, and has handed on all its tasks.
    pub(super) fn may_leave(&self) -> bool {
        self.owner == GroupId::ABSENT && !self.has_work() && self.aside.is_empty()
    }

    /// Leaves the thread: what is left of the worker waits for its return. The worker comes back if it
    /// was called back, or given a task, meanwhile.
    pub(super) fn leave(mut self: Box<Self>) -> Option<Box<Self>> {
        self.purse.settle(&self.shared.credits, true);
        self.epoch.leave(&self.shared.epochs);
        self.epoch.go_offline(&self.shared.epochs);
        self.unmark_idle();
        let shared = Arc::clone(&self.shared);
        let me = shared.worker(self.id);
        let mut absent = me.absent.lock();
        me.state.activity.store(ABSENT, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let stays = me.owner() != GroupId::ABSENT;
        if stays || !self.quiet() && !planted::is(planted::LEAVES_UNSEEN) {
            me.state.activity.store(BUSY, Ordering::SeqCst);
            return Some(self);
        }
        *absent = Some(self);
        None
    }

    /// A worker that got no thread, or not its processors, is absent.
    pub(crate) fn goes_away(self: Box<Self>) {
        self.shared.worker(self.id).state.owner.store(GroupId::ABSENT.0, Ordering::SeqCst);
        let mut worker = self;
        worker.turn();
        while let Some(mut back) = worker.leave() {
            back.turn();
            worker = back;
        }
    }

    /// The worker is about to have a thread again.
    pub(crate) fn comes_back(&self) {
        let me = self.shared.worker(self.id);
        me.state.activity.store(BUSY, Ordering::SeqCst);
        me.state.owner.store(GroupId::NONE.0, Ordering::SeqCst);
    }

    /// Hands on what was pushed to an absent worker.
    pub(super) fn hand_on(&mut self) {
        // A push that has begun may not be visible yet: its producer comes here too.
        self.turn();
        self.epoch.leave(&self.shared.epochs);
        self.epoch.go_offline(&self.shared.epochs);
    }
}
