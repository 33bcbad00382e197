//! Priorities that waiters for locks lend: a holder of a lock that a statement of a higher band waits for goes on with
//! that band at least, and so do all for whom the holder waits in turn and all who stand before the waiter, so that no
//! work of a band between the two keeps the waiter waiting (priority inheritance; workload classes, P4 §2).
//!
//! A transaction keeps what was lent until it ends, also for statements to come: it may hold the lock as long.
//! Look-ups and writes run with the priority of the operating system, which nothing raises; what is raised are tasks on
//! the workers.

use std::sync::{Arc, Weak};

use halcyon_base::ids::SessionId;
use halcyon_workload::{band_number, is_of_engine};

use crate::shared::Shared;

/// Has waits for locks lend priorities from now on. Databases without classes of users need none.
pub(crate) fn begin(shared: &Arc<Shared>) {
    let weak = Arc::downgrade(shared);
    shared.manager.on_wait(move |session| lend(&weak, session));
}

/// A session has begun to wait for a lock.
fn lend(shared: &Weak<Shared>, waiter: SessionId) {
    let Some(shared) = shared.upgrade() else { return };
    let entry = shared.sessions.lock().get(&waiter.0).cloned();
    let Some(shown) = entry.and_then(|entry| entry.class()) else { return };
    let executions = shared.datafusion.executions();
    let own = band_number(&shown.limits);
    let band = executions.lent_to(waiter.0).map_or(own, |lent| lent.min(own));
    // Waits are frequent where all have one band.
    let snapshot = shared.workload.snapshot();
    let mut classes = snapshot.classes().filter(|class| !is_of_engine(class.id));
    if !classes.any(|class| band_number(&class.limits) > band) {
        return;
    }
    let blockers = shared.manager.blockers(waiter);
    let sessions = shared.sessions.lock();
    for SessionId(blocker) in blockers {
        if sessions.contains_key(&blocker) {
            executions.lend(blocker, band);
        }
    }
}
