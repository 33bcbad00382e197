//! What a transaction holds and what it has changed: its body, which a requester of a cut may read
//! while the transaction does nothing.

use crate::cell::{ExclusiveGuard, SharedGuard};
use crate::lock::Mode;
use crate::log::Lsn;
use crate::pending::PendingCut;
use crate::published::Published;
use crate::undo::{Mark, ROWS_BEFORE_ROOT_FRACTION, ROWS_BEFORE_ROOT_MIN, Roots, Undo};
use halcyon_base::PartitionId;
use halcyon_store::Partition;

/// A partition that the transaction has locked.
///
/// Valid until the lock is given back: the end of the transaction, for shared locks of READ
/// COMMITTED the end of the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockHandle(pub(crate) u32);

/// What a transaction holds and what it has changed.
#[derive(Default)]
pub(crate) struct Body {
    pub(crate) held: Vec<Held>,
    pub(crate) exclusive_count: usize,
    pub(crate) undo: Undo,
    /// Counts savepoints set and gone back to: a kept root makes row records unnecessary only
    /// until the next one.
    pub(crate) epoch: u32,
    /// Where the log ends that holds what was read under locks that have been given back.
    pub(crate) read: Lsn,
}

/// A lock that the transaction has, and what it has recorded of the partition.
pub(crate) struct Held {
    pub(crate) partition: PartitionId,
    pub(crate) hold: Hold,
    /// The epoch that the next two fields count for.
    epoch: u32,
    rows_recorded: u32,
    root_kept: bool,
}

impl Roots for [Held] {
    fn root_mut(&mut self, held: u32) -> &mut Partition {
        match &mut self[held as usize].hold {
            Hold::Exclusive(guard) => guard,
            Hold::Shared(_) | Hold::Released => panic!("{NOT_EXCLUSIVE}"),
        }
    }
}

/// How a partition is held, with the guard that proves it.
pub(crate) enum Hold {
    Released,
    Shared(SharedGuard),
    Exclusive(ExclusiveGuard),
}

const RELEASED: &str = "a lock handle is used only while the lock is held";
const NOT_EXCLUSIVE: &str = "rows are changed only under an exclusive lock";

impl Body {
    #[inline]
    pub(crate) fn find(&self, partition: PartitionId) -> Option<LockHandle> {
        let held = self.held.iter();
        let position = held.enumerate().find_map(|(position, held)| {
            let same = held.partition == partition && !matches!(held.hold, Hold::Released);
            same.then_some(position as u32)
        });
        position.map(LockHandle)
    }

    #[inline]
    pub(crate) fn mode(&self, handle: LockHandle) -> Mode {
        match self.held[handle.0 as usize].hold {
            Hold::Released => panic!("{RELEASED}"),
            Hold::Shared(_) => Mode::Shared,
            Hold::Exclusive(_) => Mode::Exclusive,
        }
    }

    /// Notes a lock that was granted, in the place of one that was given back or in a new one.
    #[inline]
    pub(crate) fn add(&mut self, partition: PartitionId, hold: Hold) -> LockHandle {
        self.exclusive_count += usize::from(matches!(hold, Hold::Exclusive(_)));
        let held = Held { partition, hold, epoch: self.epoch, rows_recorded: 0, root_kept: false };
        let vacant = self.held.iter().position(|held| matches!(held.hold, Hold::Released));
        let position = vacant.unwrap_or(self.held.len());
        match vacant {
            Some(position) => self.held[position] = held,
            None => self.held.push(held),
        }
        LockHandle(position as u32)
    }

    /// Takes a shared guard out, to upgrade it.
    #[inline]
    pub(crate) fn take_shared(&mut self, handle: LockHandle) -> SharedGuard {
        let held = &mut self.held[handle.0 as usize];
        match std::mem::replace(&mut held.hold, Hold::Released) {
            Hold::Shared(guard) => guard,
            Hold::Released | Hold::Exclusive(_) => panic!("only a shared lock is upgraded"),
        }
    }

    #[inline]
    pub(crate) fn root(&self, handle: LockHandle) -> &Partition {
        match &self.held[handle.0 as usize].hold {
            Hold::Shared(guard) => guard,
            Hold::Exclusive(guard) => guard,
            Hold::Released => panic!("{RELEASED}"),
        }
    }

    #[inline]
    pub(crate) fn parts(&mut self, handle: LockHandle) -> (&mut Partition, &mut Undo) {
        match &mut self.held[handle.0 as usize].hold {
            Hold::Exclusive(guard) => (guard, &mut self.undo),
            Hold::Shared(_) | Hold::Released => panic!("{NOT_EXCLUSIVE}"),
        }
    }

    /// Whether the next row change must be recorded; keeps the root once too many rows are.
    #[inline]
    pub(crate) fn records_rows(&mut self, handle: LockHandle) -> bool {
        let epoch = self.epoch;
        let held = &mut self.held[handle.0 as usize];
        if held.epoch != epoch {
            held.epoch = epoch;
            held.rows_recorded = 0;
            held.root_kept = false;
        }
        if held.root_kept {
            return false;
        }
        held.rows_recorded += 1;
        if u64::from(held.rows_recorded) <= ROWS_BEFORE_ROOT_MIN {
            return true;
        }
        self.still_records_rows(handle)
    }

    #[cold]
    fn still_records_rows(&mut self, handle: LockHandle) -> bool {
        let limit = self.root(handle).row_count() / ROWS_BEFORE_ROOT_FRACTION;
        if u64::from(self.held[handle.0 as usize].rows_recorded) <= limit {
            return true;
        }
        self.keep_root(handle, self.root(handle).clone());
        false
    }

    /// Keeps the root as of a moment before which all changes are recorded, unless a root was kept
    /// since the last savepoint.
    pub(crate) fn keep_root(&mut self, handle: LockHandle, root: Partition) {
        let epoch = self.epoch;
        let held = &mut self.held[handle.0 as usize];
        let kept = held.epoch == epoch && held.root_kept;
        held.epoch = epoch;
        held.root_kept = true;
        if !kept {
            self.undo.kept(handle.0, root);
        }
    }

    pub(crate) fn undo_to(&mut self, mark: Mark) {
        self.undo.undo_to(mark, self.held.as_mut_slice());
        self.epoch += 1;
    }

    /// The partition as it was before this transaction, which holds it exclusively.
    pub(crate) fn pre_image(&self, partition: PartitionId) -> Partition {
        let handle = self.find(partition).expect("a cut is pending only at the partition's owner");
        assert!(self.mode(handle) == Mode::Exclusive, "{NOT_EXCLUSIVE}");
        self.undo.pre_image(handle.0, self.root(handle))
    }

    #[inline]
    pub(crate) fn release_shared(&mut self, published: &Published) {
        for (position, held) in self.held.iter_mut().enumerate() {
            if !matches!(held.hold, Hold::Shared(_)) {
                continue;
            }
            published.lock(position, None);
            if let Hold::Shared(guard) = std::mem::replace(&mut held.hold, Hold::Released) {
                self.read = self.read.max(guard.changed());
                guard.release();
            }
        }
    }

    /// Delivers the partitions as they were before this transaction.
    pub(crate) fn fulfil(&self, cuts: Vec<PendingCut>) {
        for cut in cuts.into_iter().filter(PendingCut::is_wanted) {
            let pre_image = self.pre_image(cut.partition);
            cut.deliver(pre_image);
        }
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.held.clear();
        self.exclusive_count = 0;
        self.undo.clear();
        self.epoch = 0;
        self.read = Lsn::default();
    }
}
