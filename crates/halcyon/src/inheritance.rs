//! Priorities that waiters for locks lend: a holder of a lock that a statement of a higher band waits for goes on with
//! that band at least, and so do all for whom the holder waits in turn, so that no work of a band between the two keeps
//! the waiter waiting (priority inheritance; workload classes, P4 §2).
//!
//! A transaction keeps what was lent until it ends: it may hold the lock as long. Look-ups and writes run with the
//! priority of the operating system, which nothing raises; what is raised are tasks on the workers.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use halcyon_base::ids::SessionId;

use crate::session::Session;
use crate::session_class::band_number;
use crate::shared::Shared;

/// No band is lent.
pub(crate) const NONE_LENT: u8 = u8::MAX;

/// Has waits for locks lend priorities from now on. Databases without classes of users need none.
pub(crate) fn begin(shared: &Arc<Shared>) {
    let weak = Arc::downgrade(shared);
    shared.manager.on_wait(move |session| lend(&weak, session));
}

/// A session has begun to wait for a lock.
fn lend(shared: &Weak<Shared>, waiter: SessionId) {
    let Some(shared) = shared.upgrade() else { return };
    let snapshot = shared.workload.snapshot();
    let sessions = shared.sessions.lock();
    let Some(entry) = sessions.get(&waiter.0) else { return };
    let Some(shown) = entry.class() else { return };
    let band = band_number(&shown.limits).min(entry.lent.load(Ordering::Relaxed));
    drop(sessions);
    // Waits are frequent where all have one band.
    let is_lower = |class: &halcyon_workload::Class| band_number(&class.limits) > band;
    let runs = |class: &halcyon_workload::Class| {
        shared.workload.counts[usize::from(class.id.0)].running.load(Ordering::Relaxed) > 0
    };
    if !snapshot.classes().any(|class| is_lower(class) && runs(class)) {
        return;
    }
    for SessionId(blocker) in shared.manager.blockers(waiter) {
        let entry = shared.sessions.lock().get(&blocker).cloned();
        if let Some(entry) = entry {
            entry.lent.fetch_min(band, Ordering::Relaxed);
            shared.workload.raise(&shared.datafusion, blocker, band);
        }
    }
}

impl Session {
    /// Puts the statement that begins into the band that was lent to its transaction; outside of transactions nothing
    /// is lent any more.
    #[inline]
    pub(crate) fn take_lent_band(&mut self) {
        if self.entry.lent.load(Ordering::Relaxed) != NONE_LENT {
            self.take_lent();
        }
    }

    #[cold]
    fn take_lent(&mut self) {
        if self.block.is_none() {
            self.entry.lent.store(NONE_LENT, Ordering::Relaxed);
        }
        let lent = self.entry.lent.load(Ordering::Relaxed);
        self.vars.placement.band = self.class.placement.band.min(lent);
        if let (Some(placement), Some(own)) = (&mut self.vars.long_placement, &self.class.long) {
            placement.band = own.band.min(lent);
        }
    }
}
