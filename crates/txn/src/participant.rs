//! A participant: one who can hold locks and wait, with a number that locks know it by.

use crate::body::{Body, LockHandle};
use crate::cell::Releasing;
use crate::event::Event;
use crate::lock::{Mode, ParticipantId};
use crate::lock_error::Deadlock;
use crate::pending::PendingCut;
use crate::published::Published;
use halcyon_base::PartitionId;
use halcyon_base::sync::atomic::{AtomicBool, Ordering};
use halcyon_base::sync::{Arc, Mutex};
use halcyon_store::Partition;

/// One who can hold locks and wait for one.
#[repr(align(128))]
pub(crate) struct Participant {
    pub(crate) id: ParticipantId,
    pub(crate) slot: usize,
    /// Set when the lock it waits for is granted, refused when its wait is chosen to end a deadlock.
    pub(crate) granted: Arc<Event>,
    /// The deadlock for which the wait was refused. Written before the refusal, under the mutex of the
    /// graph of waits; taken by the waiter.
    pub(crate) deadlock: Mutex<Option<Deadlock>>,
    /// Whether a wait of it was part of a deadlock, its own end or another's. Written under the mutex of the graph of
    /// waits, a hint elsewhere.
    pub(crate) in_circle: AtomicBool,
    /// Whether [`AtRest::cuts`] has entries. Written under the latch of a partition that this one
    /// holds exclusively, so the owner, under that latch, reads it rightly; elsewhere it is a hint.
    pub(crate) cuts_pending: AtomicBool,
    /// Taken for moments. After latches, never before.
    pub(crate) at_rest: Mutex<AtRest>,
    pub(crate) published: Published,
}

/// What a requester of a cut finds at an owner.
#[derive(Default)]
pub(crate) struct AtRest {
    /// The transaction's body while none of its statements runs.
    pub(crate) body: Option<Box<Body>>,
    /// Cuts that want the state of its partitions before it began.
    pub(crate) cuts: Vec<PendingCut>,
}

impl Participant {
    pub(crate) fn new(id: ParticipantId, slot: usize) -> Self {
        Participant {
            id,
            slot,
            granted: Arc::default(),
            deadlock: Mutex::default(),
            in_circle: AtomicBool::new(false),
            cuts_pending: AtomicBool::new(false),
            at_rest: Mutex::default(),
            published: Published::default(),
        }
    }

    /// Says what the lock behind `handle` is; `None` once it is released.
    #[inline]
    pub(crate) fn publish_lock(&self, handle: LockHandle, lock: Option<(PartitionId, Mode)>) {
        self.published.lock(handle.0 as usize, lock);
    }

    /// Fulfils the cuts that are pending here if no statement runs.
    pub(crate) fn fulfil_at_rest(&self) {
        let mut at_rest = self.at_rest.lock();
        if at_rest.body.is_none() {
            return;
        }
        let cuts = self.take_cuts(&mut at_rest);
        at_rest.body.as_ref().expect("looked at above").fulfil(cuts);
    }

    /// Takes the cuts that are pending at this owner; the caller fulfils them.
    pub(crate) fn take_cuts(&self, at_rest: &mut AtRest) -> Vec<PendingCut> {
        self.cuts_pending.store(false, Ordering::Relaxed);
        std::mem::take(&mut at_rest.cuts)
    }

    /// The roots that pending cuts want, as they are at the moment of the release.
    #[inline]
    pub(crate) fn clone_for_cuts(&self, latched: &[Releasing<'_>]) -> Vec<(PendingCut, Partition)> {
        // Exact here: the flag is set under the latch of a partition that is released now.
        if !self.cuts_pending.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let cuts = self.take_cuts(&mut self.at_rest.lock());
        let with_root = |cut: PendingCut| {
            let released = latched.iter().find(|releasing| releasing.id() == cut.partition);
            let root = released.expect("a cut is pending only at the partition's owner").root();
            let root = root.clone();
            (cut, root)
        };
        cuts.into_iter().filter(PendingCut::is_wanted).map(with_root).collect()
    }
}
