//! A cut that waits: what its requester leaves with the owners of the partitions that it wants.

use crate::event::Event;
use halcyon_base::PartitionId;
use halcyon_base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use halcyon_base::sync::{Arc, Mutex};
use halcyon_store::Partition;

/// A cut that waits for owners.
pub(crate) struct CutRequest {
    /// By position in the requester's list of partitions.
    pub(crate) roots: Mutex<Vec<Option<Partition>>>,
    pub(crate) missing: AtomicUsize,
    pub(crate) complete: Arc<Event>,
    /// The requester has given up.
    pub(crate) abandoned: AtomicBool,
}

/// One partition that a cut wants from its owner.
pub(crate) struct PendingCut {
    pub(crate) partition: PartitionId,
    pub(crate) position: usize,
    pub(crate) request: Arc<CutRequest>,
}

impl PendingCut {
    /// Whether the requester still waits for this partition.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.request.abandoned.load(Ordering::Relaxed)
    }

    /// Hands the pre-image over.
    pub(crate) fn deliver(self, pre_image: Partition) {
        self.request.roots.lock()[self.position] = Some(pre_image);
        self.request.delivered();
    }
}

impl CutRequest {
    fn delivered(&self) {
        // The last owner to deliver sees what the others wrote, and hands the roots on by the
        // event.
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.complete.set();
        }
    }
}
